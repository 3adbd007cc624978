/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A separate stack for a function, which any thread can continue.
 *
 *   thread        fiber_resume --+        +--> returns from fiber_resume
 *                                |        |
 *   fiber               fn runs  v---> fiber_yield, or fn returns
 *
 * One thread at a time holds a fiber and may start, resume and destroy it. Callers synchronise the
 * transfer to another thread. A fiber may be transferred when fiber_resume has returned, not from
 * inside before the yield.
 *
 * After a yield the function may continue on another thread, so it must not hold thread-bound state
 * across fiber_yield: an address of errno or of a thread-local variable, an open C++ catch block, a
 * locked mutex. An exception may be thrown and caught between two yields; none may leave fn.
 * Floating-point modes (rounding, flush to zero) belong to the fiber, which starts with those of
 * fiber_start.
 */
#ifndef PTO_FIBER_H
#define PTO_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fiber;

/*
 * Creates a fiber with at least stack_bytes and inaccessible pages below. Returns PTO_OK or
 * PTO_ENOMEM.
 */
int fiber_create(size_t stack_bytes, struct fiber **fiber_out);

/*
 * Prepares the fiber to call fn(arg) at the next resume. Allocates nothing, so a fiber can be used
 * for many runs. If the last run has yielded and not returned, its frames are abandoned: resources
 * that they own are not released.
 */
void fiber_start(struct fiber *fiber, void (*fn)(void *), void *arg);

/*
 * Continues the fiber until it yields or fn returns. Called on a thread's own stack. No system
 * call.
 */
void fiber_resume(struct fiber *fiber);

/*
 * Suspends the fiber; returns at the next fiber_resume, possibly on another thread. Called inside
 * the fiber only.
 */
void fiber_yield(struct fiber *fiber);

/*
 * Prepares a jump out of the fiber to the stack that resumed it; called inside the fiber before the
 * jump. The fiber cannot be continued afterwards.
 */
void fiber_leave(struct fiber *fiber);

/*
 * Returns the fiber's stack: its lowest address, below which is an inaccessible guard, and its end.
 */
void fiber_stack(const struct fiber *fiber, uintptr_t *low_out, uintptr_t *high_out);

/* Whether the function of the fiber has returned, or none was started. */
bool fiber_is_done(const struct fiber *fiber);

/* Frees the fiber, whose function need not have returned. Accepts NULL. No thread may be inside. */
void fiber_destroy(struct fiber *fiber);

#endif

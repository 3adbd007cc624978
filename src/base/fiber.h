/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stack of its own for a function, which any thread can continue.
 *
 *   thread        fiber_resume --+        +--> returns from fiber_resume
 *                                |        |
 *   fiber               fn runs  v---> fiber_yield, or fn returns
 *
 * One thread at a time: a fiber is created, started, resumed and destroyed by
 * whoever holds it, and handing it on is the callers' synchronisation. It may
 * be handed on when fiber_resume has returned, not from inside before the yield.
 *
 * Continuing on another thread changes what belongs to a thread: an address of
 * errno or of a thread-local variable, an open C++ catch block and a locked
 * mutex must not be carried across fiber_yield. An exception thrown and caught
 * between two yields is fine; none may leave fn. Floating-point modes (rounding,
 * flush to zero) belong to the fiber, which starts with those of fiber_start.
 */
#ifndef PTO_FIBER_H
#define PTO_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fiber;

/* At least stack_bytes, with inaccessible pages below. Returns PTO_OK or PTO_ENOMEM. */
int fiber_create(size_t stack_bytes, struct fiber **fiber_out);

/*
 * Arms the fiber to call fn(arg) at the next resume. Allocates nothing, so a
 * fiber serves many runs. If the last run has yielded and not returned, its
 * frames are forgotten: what they own is not released.
 */
void fiber_start(struct fiber *fiber, void (*fn)(void *), void *arg);

/* From a thread's own stack: continues the fiber until it yields or fn returns. No system call. */
void fiber_resume(struct fiber *fiber);

/* From inside the fiber only: returns at the next resume, maybe on another thread. */
void fiber_yield(struct fiber *fiber);

/*
 * From inside the fiber, before a jump out of it to the stack that resumed it. It is
 * not continued any more.
 */
void fiber_leave(struct fiber *fiber);

/* The stack: its lowest address, behind which is a guard, and its end. */
void fiber_stack(const struct fiber *fiber, uintptr_t *low_out, uintptr_t *high_out);

/* fn has returned, or was never armed. */
bool fiber_is_done(const struct fiber *fiber);

/* Accepts NULL and a fiber whose run was given up; not while a thread is inside. */
void fiber_destroy(struct fiber *fiber);

#endif

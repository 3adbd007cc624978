/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saves and restores the thread state that called code may change: floating-point rounding,
 * flushing to zero and traps, and the signal mask. Floating-point exception flags are not restored.
 */
#ifndef PTO_THREAD_STATE_H
#define PTO_THREAD_STATE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct thread_state {
    uint64_t floats; /* control bits of the floating-point unit */
    bool has_mask;
    sigset_t mask;
};

/*
 * Saves the state in a few instructions; saving and restoring the signal mask takes a system call
 * each.
 */
void thread_state_save(struct thread_state *state, bool has_mask);
void thread_state_restore(const struct thread_state *state);
/* Returns the floating-point control bits, in a few instructions. */
uint64_t thread_state_floats(void);
void thread_state_restore_floats(uint64_t floats);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What code that is called may leave changed on its thread: how floating point rounds,
 * flushes and traps, and which signals are blocked. Flags of what has happened are no
 * part of it.
 */
#ifndef PTO_THREAD_STATE_H
#define PTO_THREAD_STATE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct thread_state {
    uint64_t floats; /* control bits */
    bool has_mask;
    sigset_t mask;
};

/* A few instructions; and with the mask a system call, here and when it is restored. */
void thread_state_save(struct thread_state *state, bool has_mask);
void thread_state_restore(const struct thread_state *state);
/* A few instructions: the part about floating point. */
uint64_t thread_state_floats(void);
void thread_state_restore_floats(uint64_t floats);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core that a kernel runs on, for libraries that model the inside of a core
 * in software. Simulated chips only. Models look the functions up by name, in the
 * whole process. Outside a kernel the lane is 0 and there is no shared state.
 */
#ifndef PTO_API_SIM_H
#define PTO_API_SIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* Returns the AIV lane, 0 or 1, of the calling thread's core in its cluster. */
uint32_t pto_sim_get_subblock_id(void);

/*
 * Returns `size` bytes that all cores of the calling thread's cluster share under
 * `key` until the run ends. They are zero at first. NULL: there is no memory, or
 * the key is in use with a smaller size.
 */
void *pto_sim_get_pipe_shared_state(uint64_t key, size_t size);

/* For pto_wake of pto/window.h, when a thread may sleep on a waker: wakes it. Any thread may call it. */
void pto_sim_wake(uint32_t *waker);

/* For the runtime: what answers the functions above on behalf of a thread. */
struct pto_sim_core {
    uint32_t (*sub_block)(const struct pto_sim_core *core);
    void *(*pipe_state)(const struct pto_sim_core *core, uint64_t key, size_t size);
};

/* For the runtime: sets it for the calling thread and returns the old one. NULL: it is no core. */
const struct pto_sim_core *pto_sim_set_core(const struct pto_sim_core *core);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

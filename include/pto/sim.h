/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Properties of the simulated core on which a kernel runs, for libraries that model the inside of a
 * core in software. Simulated chips only. Such libraries look these functions up by name, in the
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
 * Returns `size` bytes that all cores of the calling thread's cluster share under `key` until the
 * run ends, initially zero. NULL: out of memory, or the key is in use with a smaller size.
 */
void *pto_sim_get_pipe_shared_state(uint64_t key, size_t size);

/* Wakes threads that may sleep on a waker, for pto_wake of pto/window.h. Any thread may call it. */
void pto_sim_wake(uint32_t *waker);

/*
 * Called by a kernel each time it finds that it has to keep waiting for other kernels, so that in
 * virtual time no time passes. pto_window_wait calls it. Without such calls the runtime notices a
 * waiting kernel after a while.
 */
void pto_sim_waits(void);

/* The implementation of the pto_sim_ functions for one thread; used by the runtime. */
struct pto_sim_core {
    uint32_t (*sub_block)(const struct pto_sim_core *core);
    void *(*pipe_state)(const struct pto_sim_core *core, uint64_t key, size_t size);
    /* called by pto_sim_waits; NULL: nothing to do */
    void (*waits)(const struct pto_sim_core *core);
};

/*
 * Sets the simulated core of the calling thread and returns the previous one; used by the runtime.
 * NULL: the thread is not a core.
 */
const struct pto_sim_core *pto_sim_set_core(const struct pto_sim_core *core);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

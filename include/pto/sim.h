/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which core a kernel runs on, for libraries that model the inside of a core
 * in software. Simulated chips only; looked up by name, in the whole process.
 * Outside of a kernel both answer as for lane 0, with NULL.
 */
#ifndef PTO_API_SIM_H
#define PTO_API_SIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* Which AIV lane of its cluster the calling thread's core is: 0 or 1. */
uint32_t pto_sim_get_subblock_id(void);
/*
 * `size` bytes that all cores of the calling thread's cluster see under `key`,
 * zero when first asked for, until the run ends. NULL: no memory, or the
 * key is in use with a smaller size.
 */
void *pto_sim_get_pipe_shared_state(uint64_t key, size_t size);

/* For the runtime: whom the functions above ask on behalf of the calling thread. */
struct pto_sim_core {
    uint32_t (*sub_block)(const struct pto_sim_core *core);
    void *(*pipe_state)(const struct pto_sim_core *core, uint64_t key, size_t size);
};

/* Returns what was there before. NULL: the thread is no core. */
const struct pto_sim_core *pto_sim_set_core(const struct pto_sim_core *core);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

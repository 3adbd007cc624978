/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library of its own, libptosim: kernels look these names up in the whole
 * process, and whoever loads libpto may have loaded it for itself only.
 */
#include "base/waker.h"
#include "pto/sim.h"

static _Thread_local const struct pto_sim_core *core_here;

const struct pto_sim_core *pto_sim_set_core(const struct pto_sim_core *core)
{
    const struct pto_sim_core *before = core_here;

    core_here = core;
    return before;
}

uint32_t pto_sim_get_subblock_id(void)
{
    return core_here != NULL ? core_here->sub_block(core_here) : 0;
}

void *pto_sim_get_pipe_shared_state(uint64_t key, size_t size)
{
    return core_here != NULL ? core_here->pipe_state(core_here, key, size) : NULL;
}

void pto_sim_wake(uint32_t *waker)
{
    waker_wake_sleepers((struct waker *)(void *)waker); /* its first member, as pto_wake has it */
}

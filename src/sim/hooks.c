/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of pto/sim.h that kernels call, in a separate library, libptosim. Kernels look
 * these functions up among the global symbols of the process, and libpto itself may be loaded
 * without global symbols.
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

void pto_sim_waits(void)
{
    if (core_here != NULL && core_here->waits != NULL)
        core_here->waits(core_here);
}

void pto_sim_wake(uint32_t *waker)
{
    /* kernels pass the address of `sleepers`, the first member of a struct waker */
    waker_wake_sleepers((struct waker *)(void *)waker);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* How kernels wake threads that wait for a store. pto/window.h and pto/region.h use it. */
#ifndef PTO_API_WAKE_H
#define PTO_API_WAKE_H

#include "pto/kernel.h"

/* Hosts and simulated cores can wake threads; a core or the processor of a card cannot. */
#if !defined(PTO_ON_CORE) && !defined(PTO_ON_CARD)
#include "pto/sim.h"
/* a weak symbol, because programs without simulated chips do not have this function */
#pragma weak pto_sim_wake
#pragma weak pto_sim_waits
#define PTO_CAN_WAKE 1
#endif

/*
 * Wakes the threads that sleep on a waker, after a store that they may wait for. A waker is the
 * address of a uint32_t, which is odd if a thread may sleep; 0: there is none, and waits poll.
 */
static inline PTO_AICORE void pto_wake(uint64_t waker)
{
#ifdef PTO_CAN_WAKE
    uint32_t *sleepers = (uint32_t *)(uintptr_t)waker;

    if (sleepers == NULL)
        return;
    /* After this fence either this thread sees the sleeper, or the sleeper sees the store. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if ((__atomic_load_n(sleepers, __ATOMIC_RELAXED) & 1) != 0 && pto_sim_wake != NULL)
        pto_sim_wake(sleepers);
#else
    (void)waker;
#endif
}

#endif

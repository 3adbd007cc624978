// SPDX-License-Identifier: Apache-2.0
/*
 * pipe_sync(): called after the last store of a tile kernel, so that the store is complete when
 * the kernel returns. Include it after the tile library's headers and `using namespace pto`, whose
 * names it uses.
 */
#ifndef PTO_SIMPLER_PIPE_SYNC_H
#define PTO_SIMPLER_PIPE_SYNC_H

#if defined(__DAV_VEC__)
#define PTO_SIMPLER_STORE_PIPE PIPE_MTE3
#elif defined(__DAV_CUBE__)
#define PTO_SIMPLER_STORE_PIPE PIPE_FIX
#else
#error "pipe_sync.h is for kernels: define __DAV_VEC__ or __DAV_CUBE__, the type of the core"
#endif
#include "pto/aicore.h"

#ifndef __aicore__ // pto/aicore.h has defined __aicore__ for cores
#define __aicore__
#endif

static __aicore__ inline void pipe_sync()
{
    set_flag(PTO_SIMPLER_STORE_PIPE, PIPE_S, EVENT_ID7);
    wait_flag(PTO_SIMPLER_STORE_PIPE, PIPE_S, EVENT_ID7);
}

#endif

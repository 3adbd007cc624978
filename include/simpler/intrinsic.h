// SPDX-License-Identifier: Apache-2.0
/*
 * The contexts that follow a kernel's arguments: its block, its lane, and where it registers
 * conditions for its completion. The structs are those of pto/kernel.h.
 */
#ifndef PTO_SIMPLER_INTRINSIC_H
#define PTO_SIMPLER_INTRINSIC_H

#include <cstddef>
#include <cstdint>

#include "common/dma_workspace.h"
#include "pto_completion_token.h"
#include "pto_task_id.h"

#include "pto/kernel.h"

#ifndef __gm__
#define __gm__
#endif
#ifndef __aicore__ // pto/aicore.h has defined __aicore__ for cores
#define __aicore__
#endif

static constexpr int32_t PTO2_EXT_PARAMS_COUNT = 2;
static constexpr int32_t SPMD_LOCAL_CONTEXT_INDEX = PTO_ARG_LOCAL;
static constexpr int32_t SPMD_GLOBAL_CONTEXT_INDEX = PTO_ARG_GLOBAL;
static constexpr int32_t PAYLOAD_LOCAL_CONTEXT_INDEX = SPMD_LOCAL_CONTEXT_INDEX;
static constexpr int32_t PAYLOAD_GLOBAL_CONTEXT_INDEX = SPMD_GLOBAL_CONTEXT_INDEX;

struct GlobalContext {
    int32_t sub_block_id; // AIV lane, 0 or 1, in tasks with several lanes
    uint64_t dma_workspace[DMA_WORKSPACE_KIND_COUNT];
};

struct AsyncCtx {
    volatile __gm__ uint32_t *completion_count;
    volatile __gm__ int32_t *completion_error_code;
    volatile __gm__ DeferredCompletionEntry *completion_entries;
    uint32_t completion_capacity;
    PTO2TaskId task_token;
};

// Fields have a second name for one generation, whose compiler already defines get_block_idx.
struct LocalContext {
    union {
        int32_t block_idx;
        int32_t s_block_idx;
    };
    union {
        int32_t block_num;
        int32_t s_block_num;
    };
    AsyncCtx async_ctx;
};

static_assert(sizeof(LocalContext) == sizeof(struct pto_local_context) &&
                  offsetof(LocalContext, async_ctx.completion_capacity) ==
                      offsetof(struct pto_local_context, completion_capacity) &&
                  offsetof(LocalContext, async_ctx.task_token) ==
                      offsetof(struct pto_local_context, task) &&
                  sizeof(GlobalContext) == sizeof(struct pto_global_context) &&
                  offsetof(GlobalContext, dma_workspace) ==
                      offsetof(struct pto_global_context, dma_workspace),
              "the layout of contexts is an ABI");

static __aicore__ inline __gm__ LocalContext *pto_simpler_local(__gm__ int64_t *args)
{
    return reinterpret_cast<__gm__ LocalContext *>(
        static_cast<uint64_t>(args[SPMD_LOCAL_CONTEXT_INDEX]));
}

static __aicore__ inline __gm__ GlobalContext *pto_simpler_global(__gm__ int64_t *args)
{
    return reinterpret_cast<__gm__ GlobalContext *>(
        static_cast<uint64_t>(args[SPMD_GLOBAL_CONTEXT_INDEX]));
}

static __aicore__ inline int32_t get_block_idx(__gm__ int64_t *args)
{
    return pto_simpler_local(args)->block_idx;
}

static __aicore__ inline int32_t get_block_num(__gm__ int64_t *args)
{
    return pto_simpler_local(args)->block_num;
}

static __aicore__ inline int32_t get_sub_block_id(__gm__ int64_t *args)
{
    return pto_simpler_global(args)->sub_block_id;
}

// Returns the workspace of a DMA engine; NULL: there is none, as on simulated chips.
static __aicore__ inline __gm__ uint8_t *get_dma_workspace(__gm__ int64_t *args, int kind)
{
    return kind < 0 || kind >= DMA_WORKSPACE_KIND_COUNT
               ? nullptr
               : reinterpret_cast<__gm__ uint8_t *>(pto_simpler_global(args)->dma_workspace[kind]);
}

#endif

// SPDX-License-Identifier: Apache-2.0
//
// The kernel of all tasks: (to, from; what, value). See what.h.
#include "intrinsic.h"
#include "pto_async_kernel_api.h"
#include "spin_hint.h"
#include "tensor.h"
#include "what.h"

static_assert(SPMD_LOCAL_CONTEXT_INDEX == 48 && SPMD_GLOBAL_CONTEXT_INDEX == 49, "");
static_assert(PAYLOAD_LOCAL_CONTEXT_INDEX == 48 && PAYLOAD_GLOBAL_CONTEXT_INDEX == 49, "");
static_assert(PTO2_EXT_PARAMS_COUNT == 2 && MAX_COMPLETIONS_PER_TASK == 64, "");
static_assert(DMA_WORKSPACE_SDMA == 0 && DMA_WORKSPACE_URMA == 1, "");
static_assert(sizeof(LocalContext) == 48 && sizeof(DeferredCompletionEntry) == 32, "");

#ifdef __DAV_VEC__
static constexpr bool ON_VECTOR = true;
#else
static constexpr bool ON_VECTOR = false;
#endif

static int32_t *first(const ChipTensor *t)
{
    return t->data_as<int32_t>() + t->start_offset;
}

static void copy(const ChipTensor *to, const ChipTensor *from, int32_t value)
{
    for (uint32_t i = 0; i < to->shapes[0] && i < from->shapes[0]; i++)
        first(to)[i * to->strides[0]] = first(from)[i * from->strides[0]] + value;
}

// Counts the block, and waits until all blocks are counted.
static void meet(int32_t *counter, int32_t count)
{
    __atomic_add_fetch(counter, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(counter, __ATOMIC_ACQUIRE) < count)
        SPIN_WAIT_HINT();
}

static void hold(int32_t *counter)
{
    __atomic_add_fetch(counter, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(counter + 1, __ATOMIC_ACQUIRE) == 0)
        SPIN_WAIT_HINT();
}

static void take_turn(int32_t *to, int32_t *counter)
{
    int32_t none = 0, turn = __atomic_add_fetch(counter, 1, __ATOMIC_ACQ_REL);

    (void)__atomic_compare_exchange_n(to, &none, turn, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static void defer(int64_t *args, int32_t *counter, int32_t value)
{
    AsyncCtx ctx = get_async_ctx(args);

    if (!async_ctx_is_deferred(ctx))
        return;
    if (value == DEFER_TOO_MANY || value == DEFER_MANY)
        for (int i = value == DEFER_MANY; i < MAX_COMPLETIONS_PER_TASK; i++)
            save_expected_notification_counter(ctx, counter, 0);
    if (value == DEFER_UNKNOWN)
        (void)register_completion_condition(
            ctx, CompletionToken{ reinterpret_cast<uint64_t>(counter), 1, COMPLETION_ENGINE_CCU, 77,
                                  0 });
    save_expected_notification_counter(ctx, counter, 1);
}

extern "C" __aicore__ void kernel_entry(__gm__ int64_t *args)
{
    const auto *to = reinterpret_cast<const ChipTensor *>(args[0]);
    const auto *from = reinterpret_cast<const ChipTensor *>(args[1]);
    const auto what = from_u64<int32_t>(static_cast<uint64_t>(args[2]));
    const auto value = from_u64<int32_t>(static_cast<uint64_t>(args[3]));
    const int32_t block = get_block_idx(args);

    if (what == COPY)
        copy(to, from, value);
    else if (what == SET)
        first(to)[block] = value + block;
    else if (what == COUNT)
        __atomic_add_fetch(first(to), value, __ATOMIC_RELAXED);
    else if (what == BLOCK)
        first(to)[block] = get_block_num(args) * 100 + block;
    else if (what == LANE && ON_VECTOR)
        first(to)[value] = get_sub_block_id(args) + 1 +
                           (get_dma_workspace(args, DMA_WORKSPACE_SDMA) != nullptr ? 100 : 0) +
                           (get_dma_workspace(args, DMA_WORKSPACE_KIND_COUNT) != nullptr ? 200 : 0);
    else if (what == MEET)
        meet(first(to), value);
    else if (what == HOLD)
        hold(first(to));
    else if (what == TURN)
        take_turn(first(to), first(from));
    else if (what == ORDER)
        first(to)[block] = __atomic_add_fetch(first(from), 1, __ATOMIC_ACQ_REL);
    else if (what == DEFER)
        defer(args, first(to), value);
}

// SPDX-License-Identifier: Apache-2.0
/*
 * For kernels that return before their task is complete: the task completes when every
 * condition that they registered holds.
 */
#ifndef PTO_SIMPLER_ASYNC_KERNEL_API_H
#define PTO_SIMPLER_ASYNC_KERNEL_API_H

#include "intrinsic.h"
#include "pto_completion_token.h"

#if __has_include(<pto/comm/comm_types.hpp>)
#include <pto/comm/comm_types.hpp>
#include <pto/comm/pto_comm_inst.hpp>
#define PTO_SIMPLER_HAS_COMM 1
#endif

namespace pto2::detail
{

// Does nothing, because the memory of a simulated chip is coherent and ordered.
inline __aicore__ void defer_load_slab(AsyncCtx &)
{
    __asm__ volatile("" ::: "memory");
}

inline __aicore__ void defer_flush_range(volatile __gm__ void *, uint32_t)
{
    __asm__ volatile("" ::: "memory");
}

inline __aicore__ void defer_flush(AsyncCtx &)
{
    __asm__ volatile("" ::: "memory");
}

// Ends the run with the error code.
inline __aicore__ void defer_error(AsyncCtx &ctx, int32_t error_code)
{
    if (ctx.task_token.is_valid() && ctx.completion_error_code != nullptr)
        *ctx.completion_error_code = error_code;
}

} // namespace pto2::detail

inline __aicore__ AsyncCtx get_async_ctx(__gm__ int64_t *args)
{
    // Copies field by field: a compiler for cores cannot copy a struct out of global memory.
    __gm__ AsyncCtx *from = &pto_simpler_local(args)->async_ctx;
    AsyncCtx ctx;

    ctx.completion_count = from->completion_count;
    ctx.completion_error_code = from->completion_error_code;
    ctx.completion_entries = from->completion_entries;
    ctx.completion_capacity = from->completion_capacity;
    ctx.task_token.raw = from->task_token.raw;
    pto2::detail::defer_load_slab(ctx);
    return ctx;
}

inline __aicore__ bool async_ctx_is_deferred(const AsyncCtx &ctx)
{
    return ctx.task_token.is_valid();
}

// Returns false if the task already has the maximum number of conditions; the run then fails.
inline __aicore__ bool register_completion_condition(AsyncCtx &ctx, const CompletionToken &token)
{
    if (ctx.task_token.is_invalid() || ctx.completion_count == nullptr ||
        ctx.completion_entries == nullptr)
        return false;
    const uint32_t count = *ctx.completion_count;

    if (count >= ctx.completion_capacity) {
        pto2::detail::defer_error(ctx, PTO2_ERROR_ASYNC_WAIT_OVERFLOW);
        return false;
    }
    volatile __gm__ DeferredCompletionEntry *entry = &ctx.completion_entries[count];

    entry->addr = token.addr;
    entry->backend_cookie = token.backend_cookie;
    entry->expected_value = token.expected_value;
    entry->engine = token.engine;
    entry->completion_type = token.completion_type;
    entry->_pad = 0;
    *ctx.completion_count = count + 1;
    return true;
}

// Makes the task complete only when the counter has reached this value.
inline __aicore__ void save_expected_notification_counter(AsyncCtx &ctx,
                                                          volatile __gm__ void *counter_addr,
                                                          uint32_t expected_value)
{
    (void)register_completion_condition(
        ctx, CompletionToken{ reinterpret_cast<uint64_t>(counter_addr), expected_value,
                              COMPLETION_ENGINE_SDMA, COMPLETION_TYPE_COUNTER, 0 });
    pto2::detail::defer_flush(ctx);
}

#ifdef PTO_SIMPLER_HAS_COMM
inline __aicore__ void send_notification(volatile __gm__ void *remote_counter_addr, int32_t value,
                                         pto::comm::NotifyOp notify_op)
{
    pto::comm::Signal signal(
        reinterpret_cast<__gm__ int32_t *>(const_cast<__gm__ void *>(remote_counter_addr)));

    pto::comm::TNOTIFY(signal, value, notify_op);
}
#endif

#endif

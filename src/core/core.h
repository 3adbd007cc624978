/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One compute core's side of an invocation: the argument vector, the contexts,
 * and the call. In the simulator a thread owns one; nothing in it is shared
 * with another invocation, so a kernel may go on after its thread has lost its
 * place among the workers.
 *
 * Ordering
 *   R7 core_invoke `exec`  -> F3 the monitor   what the worker owns is complete before it is taken away
 *                          -> A7 each_running which task it runs is written down
 *   F3 The store to `exec` after a kernel and the load of `lost` are one side of a Dekker pair; the
 *   monitor's store to `lost`, its fence on all threads and its load of `exec` are the other: if the
 *   monitor still sees the invocation, the thread sees `lost`.
 */
#ifndef PTO_CORE_H
#define PTO_CORE_H

#include "wire/slot.h"

/* Conditions that the running kernel registers; the words that its context points at. */
struct core_slab {
    uint32_t count;
    int32_t error;
    struct pto_completion entry[PTO_COMPLETIONS_MAX];
};

struct core {
    _Alignas(128) struct a32 exec; /* odd inside a kernel; written by the owning thread only */
    struct a32 lost;               /* the monitor took the thread's place; written under its lock */
    void *owner;                   /* the thread, for port_core_lost */
    struct slot *slot;             /* the task it runs or ran last */
    bool has_own_fence;            /* the system has no fence for all threads: use one here */
    int64_t args[PTO_ARG_COUNT];
    struct pto_local_context local;
    struct pto_global_context global;
    _Alignas(64) struct core_slab slab;
};

static inline void core_init(struct core *core, void *owner)
{
    core->owner = owner;
    core->args[PTO_ARG_LOCAL] = (int64_t)(uintptr_t)&core->local;
    core->args[PTO_ARG_GLOBAL] = (int64_t)(uintptr_t)&core->global;
    core->local.completion_count_addr = (uint64_t)(uintptr_t)&core->slab.count;
    core->local.completion_error_addr = (uint64_t)(uintptr_t)&core->slab.error;
    core->local.completion_entries_addr = (uint64_t)(uintptr_t)core->slab.entry;
    core->local.completion_capacity = PTO_COMPLETIONS_MAX;
}

/* Whether the last kernel registered conditions, or failed at it. */
static inline bool core_has_deferred(const struct core *core)
{
    uint64_t head;

    memcpy(&head, &core->slab, sizeof(head)); /* count and error at once */
    return head != 0;
}

/*
 * Runs one kernel with these tensors and what is behind them. Returns whether
 * the thread may have lost its place meanwhile.
 */
static inline bool core_invoke(struct core *core, struct slot *s, const struct pto_tensor *tensor,
                               pto_kernel_fn fn, uint32_t block)
{
    int64_t *args = core->args;
    uint32_t count = s->tensor_count;
    uint32_t exec = a32_load_relaxed(&core->exec); /* own word */

    atomic_note_read(s);
    core->slot = s;
    for (uint32_t i = 0; i != count; i++)
        args[i] = (int64_t)(uintptr_t)&tensor[i];
    if (s->scalar_count == 1)
        args[count] = (int64_t)s->scalar;
    else
        for (uint32_t i = 0; i < s->scalar_count; i++)
            args[count + i] = ((const int64_t *)(const void *)&tensor[count])[i];
    core->local.block_index = (int32_t)block;
    core->local.block_count = (int32_t)s->block_count;
    core->local.task = slot_id(s);
    a32_store_release(&core->exec, exec + 1); /* R7 */
    fn(args);
    a32_store_relaxed(&core->exec, exec + 2); /* nothing is read by it */
    fence_light();
    if (core->has_own_fence)
        fence_full();                          /* F3 */
    return a32_load_relaxed(&core->lost) != 0; /* a set flag is looked at again under the lock */
}

#endif

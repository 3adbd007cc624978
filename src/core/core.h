/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One compute core's side of an invocation: the argument vector, the contexts,
 * and the call. In the simulator a thread owns one; nothing in it is shared
 * with another invocation, so a kernel may go on after its thread has lost its
 * place among the workers.
 *
 * Ordering
 *   R7 core_invoke `exec`  -> F3 the monitor       what the worker owns is complete before it is taken away
 *                          -> A7 tell_running      which task it runs is written down
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

/* Bits: what the thread has to look at after a kernel. */
enum core_lost {
    CORE_LOST = 1,     /* the monitor took its place, or may have */
    CORE_UNFENCED = 2, /* the system has no fence for all threads: use one here */
};

static_assert(offsetof(struct pto_local_context, block_count) ==
                  offsetof(struct pto_local_context, block_index) + 4,
              "they are written as one word");

struct core {
    _Alignas(128) struct a32 exec; /* odd inside a kernel; written by the owning thread only */
    struct a32 lost;               /* enum core_lost; written under the monitor's lock */
    void *owner;                   /* the thread, for port_core_lost */
    struct slot *slot;             /* the task it runs or ran last */
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

/* Under the lock. */
static inline void core_set_lost(struct core *core, bool is_lost)
{
    uint32_t others = a32_load_relaxed(&core->lost) & ~(uint32_t)CORE_LOST; /* never changes */

    a32_store_relaxed(&core->lost, others | (is_lost ? CORE_LOST : 0)); /* F3 */
}

/* After the store to `exec`. True: it is looked at again under the lock. */
static inline bool core_may_be_lost(struct core *core)
{
    uint32_t lost;

    fence_light();
    lost = a32_load_relaxed(&core->lost); /* F3 */
    if (__builtin_expect(lost == 0, 1))
        return false;
    if ((lost & CORE_UNFENCED) != 0) {
        fence_full(); /* F3 */
        lost = a32_load_relaxed(&core->lost);
    }
    return (lost & CORE_LOST) != 0;
}

/* Whether the last kernel registered conditions, or failed at it. */
static inline bool core_has_deferred(const struct core *core)
{
    uint64_t head;

    memcpy(&head, &core->slab, sizeof(head)); /* count and error at once */
    return head != 0;
}

/* The conditions themselves; NULL: none. */
static inline struct core_slab *core_deferred(struct core *core)
{
    return core_has_deferred(core) ? &core->slab : NULL;
}

/* The vector and the context of an invocation with these tensors and what is behind them. */
static inline void core_set_args(int64_t *args, struct pto_local_context *local,
                                 const struct slot *s, const struct pto_tensor *tensor,
                                 uint32_t block, uint32_t block_count)
{
    uint32_t count = s->tensor_count;
    uint64_t blocks = block | (uint64_t)block_count << 32;

    atomic_note_read(s);
    for (uint32_t i = 0; i != count; i++)
        args[i] = (int64_t)(uintptr_t)&tensor[i];
    if (s->scalar_count == 1)
        args[count] = (int64_t)s->scalar;
    else
        for (uint32_t i = 0; i < s->scalar_count; i++)
            args[count + i] = ((const int64_t *)(const void *)&tensor[count])[i];
    memcpy(&local->block_index, &blocks, sizeof(blocks)); /* and block_count */
    local->task = slot_id(s);
}

/* Runs one kernel. Returns whether the thread may have lost its place meanwhile. */
static inline bool core_invoke(struct core *core, struct slot *s, const struct pto_tensor *tensor,
                               pto_kernel_fn fn, uint32_t block, uint32_t block_count)
{
    uint32_t exec = a32_load_relaxed(&core->exec); /* own word */

    core->slot = s;
    core_set_args(core->args, &core->local, s, tensor, block, block_count);
    a32_store_release(&core->exec, exec + 1); /* R7 */
    fn(core->args);
    a32_store_relaxed(&core->exec, exec + 2); /* nothing is read by it */
    return core_may_be_lost(core);
}

#endif

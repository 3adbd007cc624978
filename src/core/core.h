/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One compute core's side of an invocation: the argument vector, the contexts and the call. On the
 * simulated chip each thread owns one. Invocations share nothing in it, so a kernel may keep running
 * after another thread has become the worker.
 *
 * Ordering
 *   R7 core_invoke `exec`  -> F3 the monitor       another thread that takes the worker over sees its data
 *                          -> A7 threads_each_running  the monitor sees which task the thread runs
 *   F3 The store to `exec` after a kernel and the load of `lost` are one side of a Dekker pair; the
 *   monitor's store to `lost`, its fence on all threads and its load of `exec` are the other: if the
 *   monitor still sees the invocation, the thread sees `lost`.
 */
#ifndef PTO_CORE_H
#define PTO_CORE_H

#include "wire/slot.h"

/*
 * Conditions that the running kernel registers. The kernel's context has the addresses of these
 * fields.
 */
struct core_slab {
    uint32_t count;
    int32_t error;
    struct pto_completion entry[PTO_COMPLETIONS_MAX];
};

/* Bits that a thread checks after each kernel: whether it is still a worker. */
enum core_lost {
    CORE_LOST = 1, /* another thread may run as this worker now; check under the monitor's lock */
    /* the system cannot fence all threads, so the thread needs a fence after each kernel */
    CORE_UNFENCED = 2,
};

static_assert(offsetof(struct pto_local_context, block_count) ==
                  offsetof(struct pto_local_context, block_index) + 4,
              "block_index and block_count are written as one word");

struct core {
    _Alignas(128) struct a32 exec; /* odd inside a kernel; written by the owning thread only */
    struct a32 lost;               /* enum core_lost; written under the monitor's lock */
    /* the thread or machine of the backend that owns the core, as passed to core_init */
    void *owner;
    struct slot *slot; /* task that the core runs or ran last */
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

/*
 * Sets whether the core's thread may have lost its worker to another thread. The caller holds the
 * monitor's lock.
 */
static inline void core_set_lost(struct core *core, bool is_lost)
{
    /* keeps CORE_UNFENCED */
    uint32_t others = a32_load_relaxed(&core->lost) & ~(uint32_t)CORE_LOST;

    a32_store_relaxed(&core->lost, others | (is_lost ? CORE_LOST : 0)); /* F3 */
}

/*
 * Called after the store to `exec` at the end of a kernel. True: the caller must check under the
 * monitor's lock whether its thread is still the worker.
 */
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

/* Whether the core's latest kernel registered conditions, or failed to. */
static inline bool core_has_deferred(const struct core *core)
{
    uint64_t head;

    memcpy(&head, &core->slab, sizeof(head)); /* one load reads `count` and `error` */
    return head != 0;
}

/* The conditions that the kernel registered; NULL: none. */
static inline struct core_slab *core_deferred(struct core *core)
{
    return core_has_deferred(core) ? &core->slab : NULL;
}

/*
 * Writes the argument vector and the context of an invocation: addresses of the tensors, then the
 * scalars, which follow the tensors in memory.
 */
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
    memcpy(&local->block_index, &blocks, sizeof(blocks)); /* also writes block_count */
    local->task = slot_id(s);
}

/* Runs one kernel. True: the core's thread may no longer be the worker. */
static inline bool core_invoke(struct core *core, struct slot *s, const struct pto_tensor *tensor,
                               pto_kernel_fn fn, uint32_t block, uint32_t block_count)
{
    uint32_t exec = a32_load_relaxed(&core->exec); /* relaxed: only this thread writes it */

    core->slot = s;
    core_set_args(core->args, &core->local, s, tensor, block, block_count);
    a32_store_release(&core->exec, exec + 1); /* R7 */
    fn(core->args);
    a32_store_relaxed(&core->exec, exec + 2); /* relaxed: no reader orders other data by it */
    return core_may_be_lost(core);
}

#endif

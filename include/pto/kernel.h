/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels: the functions that cores run, and what they get.
 *
 * A kernel is `void kernel_entry(int64_t *args)`. The vector has 50 slots: the
 * addresses of the tensor descriptors, in the order in which they were added;
 * then the scalars; and at 48 and 49 the local and the global context. Vector and
 * descriptors are valid until the kernel returns.
 *
 * A kernel may change how floating point rounds, flushes and traps on its thread, and
 * which signals are blocked; kernels that run behind it may find that so. It is put
 * back before a thread takes tasks of another run, and before the caller of a run gets
 * its thread back: the signals, if its code can do that. Loaded code can if it needs a
 * library or a symbol of the program's, names a function that does, or makes system calls;
 * a function whose address it is given must not. An exception or pthread_exit that leaves
 * a kernel ends the run.
 */
#ifndef PTO_API_KERNEL_H
#define PTO_API_KERNEL_H

#include "pto/tensor.h"

#if defined(__CCE_AICORE__) || defined(__CCE__)
#define PTO_ON_CORE 1
#else
#include <sched.h>
#endif

enum {
    PTO_TASK_TENSORS_MAX = 32,
    PTO_TASK_SCALARS_MAX = 16,
    PTO_ARG_LOCAL = 48,
    PTO_ARG_GLOBAL = 49,
    PTO_ARG_COUNT = 50,
    PTO_COMPLETIONS_MAX = 64, /* conditions that one task may wait for */
    PTO_DEFERRED_MAX = 64     /* tasks of a device that may wait for conditions at a time */
};

/* A kernel. */
typedef void (*pto_kernel_fn)(int64_t *args);

/* When a condition holds. The types of a chip's own engines exist on that chip only. */
enum pto_completion_type { PTO_COMPLETION_COUNTER /* *addr >= expected, 32 bits, unsigned */ };

/* A condition for the completion of a task. */
struct pto_completion {
    uint64_t addr;
    uint64_t cookie;
    uint32_t expected;
    uint32_t engine;
    int32_t type; /* enum pto_completion_type */
    uint32_t reserved;
};

/* What differs between the invocations of a task. */
struct pto_local_context {
    int32_t block_index; /* of this invocation, 0 to block_count - 1 */
    int32_t block_count;
    uint64_t completion_count_addr;   /* uint32_t: conditions registered so far */
    uint64_t completion_error_addr;   /* int32_t: a code that ends the run; 0: none */
    uint64_t completion_entries_addr; /* struct pto_completion[completion_capacity] */
    uint32_t completion_capacity;
    uint32_t reserved;
    struct pto_task_id task;
};

/* What differs between cores. */
struct pto_global_context {
    int32_t sub_block_id; /* 0 or 1: which AIV lane of its cluster */
    int32_t reserved;
    uint64_t dma_workspace[2];
};

/* Returns the descriptor of tensor argument `index`. */
static inline struct pto_tensor *pto_arg_tensor(const int64_t *args, int index)
{
    return (struct pto_tensor *)(uintptr_t)args[index];
}

/* Returns the local context of the invocation. */
static inline const struct pto_local_context *pto_arg_local(const int64_t *args)
{
    return (const struct pto_local_context *)(uintptr_t)args[PTO_ARG_LOCAL];
}

/* Returns the global context of the core. */
static inline const struct pto_global_context *pto_arg_global(const int64_t *args)
{
    return (const struct pto_global_context *)(uintptr_t)args[PTO_ARG_GLOBAL];
}

/* Returns the index of this block, 0 to pto_block_count - 1. */
static inline int32_t pto_block_index(const int64_t *args)
{
    return pto_arg_local(args)->block_index;
}

/* Returns the number of blocks of the task. */
static inline int32_t pto_block_count(const int64_t *args)
{
    return pto_arg_local(args)->block_count;
}

/* Returns the AIV lane, 0 or 1, of the core in its cluster. For tasks with two AIV lanes. */
static inline int32_t pto_sub_block(const int64_t *args)
{
    return pto_arg_global(args)->sub_block_id;
}

/* To be called in the loop of a kernel that waits for another one through memory. */
static inline void pto_pause(void)
{
#ifdef PTO_CORE_PAUSE /* its compiler knows better */
    PTO_CORE_PAUSE();
#elif defined(PTO_ON_CORE)
    __asm__ volatile("" ::: "memory");
#else
    (void)sched_yield(); /* the one that it waits for may need this CPU */
#endif
}

/*
 * Defers the completion of the task: it completes when its kernels have returned
 * and `*counter` is at least `expected`, for every counter that they gave. The
 * tasks that follow see what was written before a counter was raised. Returns
 * false if the task has too many conditions; then the run fails.
 */
static inline bool pto_defer(const int64_t *args, const uint32_t *counter, uint32_t expected)
{
    const struct pto_local_context *local = pto_arg_local(args);
    uint32_t *count = (uint32_t *)(uintptr_t)local->completion_count_addr;
    struct pto_completion *entry =
        (struct pto_completion *)(uintptr_t)local->completion_entries_addr;

    if (*count >= local->completion_capacity) {
        *(int32_t *)(uintptr_t)local->completion_error_addr = 102;
        return false;
    }
    entry += (*count)++;
    entry->addr = (uint64_t)(uintptr_t)counter;
    entry->cookie = 0;
    entry->expected = expected;
    entry->engine = 0;
    entry->type = PTO_COMPLETION_COUNTER;
    entry->reserved = 0;
    return true;
}

/* Adds to a counter. Whoever sees the new value sees what this kernel wrote before. */
static inline void pto_notify_add(uint32_t *counter, uint32_t value)
{
    (void)__atomic_fetch_add(counter, value, __ATOMIC_RELEASE);
}

/* Sets a counter, as pto_notify_add adds to it. */
static inline void pto_notify_set(uint32_t *counter, uint32_t value)
{
    __atomic_store_n(counter, value, __ATOMIC_RELEASE);
}

/* Returns a counter. What its notifier wrote before is visible from here on. */
static inline uint32_t pto_notified(const uint32_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

#endif

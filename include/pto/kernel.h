/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels: the functions that cores run, and what they get.
 *
 * A kernel is `void kernel_entry(int64_t *args)`, which PTO_KERNEL(args) begins. The vector has 50
 * slots: the addresses of the tensor descriptors, in the order in which they were added; then the
 * scalars; and at 48 and 49 the local and the global context. Vector and descriptors are valid until
 * the kernel returns.
 *
 *     #include <pto/kernel.h>
 *
 *     PTO_KERNEL(args)
 *     {
 *         PTO_GM const struct pto_tensor *from = pto_arg_tensor(args, 0);
 *         PTO_GM const float *x = PTO_DATA(from, float);
 *         PTO_GM float *y = PTO_ARG(args, 1, float);
 *
 *         for (uint32_t i = 0; i < from->shapes[0]; i++)
 *             y[i] = 2 * x[i];
 *     }
 *
 * Written so, one source serves simulated chips, as C11 or C++, and the cores of real ones
 * (pto/aicore.h): every pointer to a tensor, to an argument or into a window has PTO_GM, every
 * function that the kernel calls has PTO_AICORE, and no function of a library is called. Structs are
 * read field by field: a core copies none out of global memory. Cores that write at the same time do
 * not write to the same PTO_LINE bytes: their caches are not coherent.
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

#include "pto/aicore.h"
#include "pto/cache_lines.h"
#include "pto/tensor.h"

#ifndef PTO_ON_CORE
#include <sched.h>
#endif

/*
 * Begins the definition of a file's kernel: PTO_KERNEL(args) { ... }, where `args` names the vector
 * of arguments. Further words in the parentheses are reserved for a declaration of the arguments.
 */
#ifdef __cplusplus
#define PTO_KERNEL(...) PTO_KERNEL_OF(extern "C" PTO_AICORE, __VA_ARGS__, )
#else
#define PTO_KERNEL(...) PTO_KERNEL_OF(, __VA_ARGS__, )
#endif
#define PTO_KERNEL_OF(mark, args, ...)            \
    mark void kernel_entry(PTO_GM int64_t *args); \
    mark void kernel_entry(PTO_GM int64_t *args)

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
static inline PTO_AICORE PTO_GM struct pto_tensor *pto_arg_tensor(PTO_GM const int64_t *args,
                                                                  int index)
{
    return (PTO_GM struct pto_tensor *)(uintptr_t)args[index];
}

/* The first element of tensor argument `index`, as a pointer to `type` in global memory. */
#define PTO_ARG(args, index, type) PTO_DATA(pto_arg_tensor(args, index), type)

/* A scalar argument that is an address, as a pointer to `type` in global memory. */
#define PTO_ARG_POINTER(args, index, type) ((PTO_GM type *)(uintptr_t)(args)[index])

/* Returns a scalar argument that is a float: its bits are in the low bytes. */
static inline PTO_AICORE float pto_arg_float(PTO_GM const int64_t *args, int index)
{
    union {
        uint32_t bits;
        float value;
    } scalar;

    scalar.bits = (uint32_t)args[index];
    return scalar.value;
}

/* Returns the local context of the invocation. */
static inline PTO_AICORE PTO_GM const struct pto_local_context *pto_arg_local(
    PTO_GM const int64_t *args)
{
    return (PTO_GM const struct pto_local_context *)(uintptr_t)args[PTO_ARG_LOCAL];
}

/* Returns the global context of the core. */
static inline PTO_AICORE PTO_GM const struct pto_global_context *pto_arg_global(
    PTO_GM const int64_t *args)
{
    return (PTO_GM const struct pto_global_context *)(uintptr_t)args[PTO_ARG_GLOBAL];
}

/* Returns the index of this block, 0 to pto_block_count - 1. */
static inline PTO_AICORE int32_t pto_block_index(PTO_GM const int64_t *args)
{
    return pto_arg_local(args)->block_index;
}

/* Returns the number of blocks of the task. */
static inline PTO_AICORE int32_t pto_block_count(PTO_GM const int64_t *args)
{
    return pto_arg_local(args)->block_count;
}

/* Returns the AIV lane, 0 or 1, of the core in its cluster. For tasks with two AIV lanes. */
static inline PTO_AICORE int32_t pto_sub_block(PTO_GM const int64_t *args)
{
    return pto_arg_global(args)->sub_block_id;
}

/* To be called in the loop of a kernel that waits for another one through memory. */
static inline PTO_AICORE void pto_pause(void)
{
#ifdef PTO_CORE_PAUSE /* defined by a compiler whose cores are threads */
    PTO_CORE_PAUSE();
#elif !defined(PTO_ON_CORE)
    (void)sched_yield(); /* the kernel that this one waits for may need this CPU */
#endif
}

/*
 * Defers the completion of the task: it completes when its kernels have returned
 * and `*counter` is at least `expected`, for every counter that they gave. The
 * tasks that follow see what was written before a counter was raised. Returns
 * false if the task has too many conditions; then the run fails.
 */
static inline PTO_AICORE bool pto_defer(PTO_GM const int64_t *args, PTO_GM const uint32_t *counter,
                                        uint32_t expected)
{
    PTO_GM const struct pto_local_context *local = pto_arg_local(args);
    PTO_GM uint32_t *count = (PTO_GM uint32_t *)(uintptr_t)local->completion_count_addr;
    PTO_GM struct pto_completion *entry =
        (PTO_GM struct pto_completion *)(uintptr_t)local->completion_entries_addr;

    if (*count >= local->completion_capacity) {
        *(PTO_GM int32_t *)(uintptr_t)local->completion_error_addr = 102;
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

/* Copies between places of global memory that do not overlap. */
static inline PTO_AICORE void pto_copy(PTO_GM void *to, PTO_GM const void *from, uint64_t bytes)
{
#ifdef PTO_ON_CORE
    uint64_t words = ((uint64_t)to | (uint64_t)from) % 8 == 0 ? bytes / 8 : 0;

    for (uint64_t i = 0; i < words; i++)
        ((PTO_GM uint64_t *)to)[i] = ((PTO_GM const uint64_t *)from)[i];
    for (uint64_t i = 8 * words; i < bytes; i++)
        ((PTO_GM uint8_t *)to)[i] = ((PTO_GM const uint8_t *)from)[i];
#else
    memcpy(to, from, bytes);
#endif
}

/*
 * Counters with which kernels notify each other. A kernel that has read the new value through
 * pto_notified sees everything that the notifying kernel wrote before. Cores achieve that by cache
 * maintenance: the notifier writes its cache back before it changes the counter, and the reader
 * drops its cache before it reads the counter, so that everything it reads later comes from memory.
 * Counters that different cores set are PTO_LINE bytes apart; those that cores add to may share a
 * line with each other, but not with data.
 */

/* Adds to a counter, atomically. */
static inline PTO_AICORE void pto_notify_add(PTO_GM uint32_t *counter, uint32_t value)
{
#ifndef PTO_ON_CORE
    (void)__atomic_fetch_add(counter, value, __ATOMIC_RELEASE);
#else
    pto_cache_publish();
    set_st_atomic_cfg(ATOMIC_S32, ATOMIC_SUM);
    pto_lines_fetch(counter, sizeof(*counter));
    st_atomic<int32_t>((int32_t)value, (PTO_GM int32_t *)counter);
    pto_lines_publish(counter, sizeof(*counter)); /* memory adds what the line holds */
#endif
}

/* Sets a counter. */
static inline PTO_AICORE void pto_notify_set(PTO_GM uint32_t *counter, uint32_t value)
{
#ifndef PTO_ON_CORE
    __atomic_store_n(counter, value, __ATOMIC_RELEASE);
#else
    pto_cache_publish();
    *(volatile PTO_GM uint32_t *)counter = value;
    pto_lines_publish(counter, sizeof(*counter));
#endif
}

/* Returns a counter. */
static inline PTO_AICORE uint32_t pto_notified(PTO_GM const uint32_t *counter)
{
#ifndef PTO_ON_CORE
    return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
#else
    pto_cache_fetch();
    return *(volatile PTO_GM const uint32_t *)counter;
#endif
}

#endif

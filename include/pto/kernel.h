/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels: the functions that cores run, and their arguments.
 *
 * A kernel is `void kernel_entry(int64_t *args)`, which PTO_KERNEL(args) begins. The vector `args`
 * has 50 slots: the addresses of the tensor descriptors, in the order in which they were added;
 * then the scalars; and at 48 and 49 the local and the global context. Vector and descriptors are
 * valid until the kernel returns.
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
 * A kernel in this form can be compiled for simulated chips, as C11 or C++, and the cores of real
 * ones (pto/aicore.h) if it follows these rules: every pointer to a tensor, to an argument or into
 * a window has PTO_GM; every function that the kernel calls has PTO_AICORE; no library function is
 * called; structs are read field by field, because a core cannot copy one out of global memory.
 * Cores that write at the same time must not write to the same cache line of PTO_LINE bytes: their
 * caches are not coherent.
 *
 * A kernel may change rounding, flushing and traps of floating point on its thread, and the signal
 * mask; kernels that run on the thread later in the run may find them changed. The runtime restores
 * the floating-point state before a thread takes tasks of another run and before the caller of a
 * run gets its thread back, and also restores the signal mask if the kernel's code could change it.
 * Loaded code counts as such code if it needs a library or a symbol of the program, names a
 * function that changes the mask, or makes system calls; code reached through a function pointer
 * must not. An exception or pthread_exit that leaves a kernel ends the run.
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
 * Begins the definition of the kernel in a source file: PTO_KERNEL(args) { ... }, where `args`
 * names the vector of arguments. Further words in the parentheses declare the arguments, tensors
 * first:
 *
 *     PTO_KERNEL(args, PTO_TENSOR(PTO_FLOAT32, 2), PTO_VIEW(PTO_FLOAT32), PTO_SCALAR(PTO_INT32))
 *
 * A submit with other arguments is refused with PTO_EARGS. A kernel without such words accepts any
 * arguments.
 */
#ifdef __cplusplus
#define PTO_KERNEL(...) PTO_KERNEL_OF(extern "C" PTO_AICORE, __VA_ARGS__, )
#else
#define PTO_KERNEL(...) PTO_KERNEL_OF(, __VA_ARGS__, )
#endif
#define PTO_KERNEL_OF(mark, args, ...)                          \
    PTO_KERNEL_PICK(__VA_ARGS__)                                \
    (__VA_ARGS__) mark void kernel_entry(PTO_GM int64_t *args); \
    mark void kernel_entry(PTO_GM int64_t *args)

/*
 * Declares the arguments of the kernel in a source file that does not use PTO_KERNEL; a semicolon
 * follows.
 */
#define PTO_KERNEL_ARGS(...) PTO_KERNEL_ARRAY(__VA_ARGS__, )

/*
 * Declares a tensor without strides; optional: its type (PTO_ANY_DTYPE: any) and number of
 * dimensions.
 */
#define PTO_TENSOR(...) PTO_DECLARED(PTO_DECLARED_TENSOR, __VA_ARGS__, 0, )
/* Declares a tensor that may have strides; otherwise as PTO_TENSOR. */
#define PTO_VIEW(...) PTO_DECLARED(PTO_DECLARED_VIEW, __VA_ARGS__, 0, )
/* Declares a scalar. PTO_FLOAT32 and PTO_INT32 use the low bytes of the argument. */
#define PTO_SCALAR(type) PTO_DECLARED(PTO_DECLARED_SCALAR, type, 0, )

enum { PTO_DECLARED_TENSOR = 1, PTO_DECLARED_VIEW, PTO_DECLARED_SCALAR, PTO_ANY_DTYPE = 255 };

/*
 * The word for a declared argument: kind, type and number of dimensions, from the lowest byte on.
 */
#define PTO_DECLARED(kind, type, ndims, ...) \
    ((uint32_t)(kind) | (uint32_t)(type) << 8 | (uint32_t)(ndims) << 16)

/*
 * Section of a kernel's object with the words of its declared arguments and a final 0. Without
 * declared arguments there is no such section.
 */
#define PTO_KERNEL_SECTION ".pto.args"
#define PTO_KERNEL_ARRAY(...)                                                                      \
    __attribute__((used, section(PTO_KERNEL_SECTION))) static const uint32_t pto_kernel_args[] = { \
        __VA_ARGS__ 0                                                                              \
    }
#define PTO_KERNEL_NONE(...)
#define PTO_KERNEL_SOME(...) PTO_KERNEL_ARRAY(__VA_ARGS__);
/* Selects PTO_KERNEL_NONE if there are no words, else PTO_KERNEL_SOME, for up to 48 words. */
#define PTO_KERNEL_PICK(...) \
    PTO_KERNEL_50TH(__VA_ARGS__, PTO_KERNEL_48(PTO_KERNEL_SOME), PTO_KERNEL_NONE, )
#define PTO_KERNEL_48(x) PTO_KERNEL_16(x), PTO_KERNEL_16(x), PTO_KERNEL_16(x)
#define PTO_KERNEL_16(x) x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x
#define PTO_KERNEL_50TH(...) PTO_KERNEL_50TH_OF(__VA_ARGS__)
#define PTO_KERNEL_50TH_OF(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, \
                           a17, a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30,  \
                           a31, a32, a33, a34, a35, a36, a37, a38, a39, a40, a41, a42, a43, a44,  \
                           a45, a46, a47, a48, a49, a50, ...)                                     \
    a50

enum {
    PTO_TASK_TENSORS_MAX = 32,
    PTO_TASK_SCALARS_MAX = 16,
    PTO_ARG_LOCAL = 48,
    PTO_ARG_GLOBAL = 49,
    PTO_ARG_COUNT = 50,
    PTO_COMPLETIONS_MAX = 64, /* maximum number of conditions that one task may wait for */
    /* maximum number of tasks of a device that wait for conditions at the same time */
    PTO_DEFERRED_MAX = 64
};

/* The function of a kernel. */
typedef void (*pto_kernel_fn)(int64_t *args);

/* When a condition is met. A chip may have further types, for its own engines. */
enum pto_completion_type {
    PTO_COMPLETION_COUNTER /* when an unsigned 32-bit counter is at least the expected value */
};

/* A condition for the completion of a task. */
struct pto_completion {
    uint64_t addr;
    uint64_t cookie;
    uint32_t expected;
    uint32_t engine;
    int32_t type; /* enum pto_completion_type */
    uint32_t reserved;
};

/* The values that differ between the invocations of a task. */
struct pto_local_context {
    int32_t block_index; /* index of the invocation among the task's blocks, 0 to block_count - 1 */
    int32_t block_count;
    /* Address of a uint32_t: number of conditions that the invocation has registered so far. */
    uint64_t completion_count_addr;
    /* Address of an int32_t: the kernel stores a negative status to end the run; 0: none. */
    uint64_t completion_error_addr;
    /* address of an array of struct pto_completion with completion_capacity elements */
    uint64_t completion_entries_addr;
    uint32_t completion_capacity;
    uint32_t reserved;
    struct pto_task_id task;
};

/* The values that differ between cores. */
struct pto_global_context {
    int32_t sub_block_id; /* AIV lane of the core in its cluster, 0 or 1 */
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

/* Returns the index of the current block, 0 to pto_block_count - 1. */
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

/* Pauses the core. A kernel calls it in a loop that polls memory which another kernel writes. */
static inline PTO_AICORE void pto_pause(void)
{
#ifdef PTO_CORE_PAUSE /* compilers for simulated cores, which are threads, define PTO_CORE_PAUSE */
    PTO_CORE_PAUSE();
#elif !defined(PTO_ON_CORE)
    (void)sched_yield(); /* let another thread use this CPU: the awaited kernel may need it */
#endif
}

/*
 * Defers the completion of the task: it completes when its kernels have returned and `*counter` is
 * at least `expected`, for every counter that they registered. Tasks ordered after it see the data
 * written before a counter was raised. Returns false if the task has too many conditions; the run
 * then fails.
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

/* Copies between ranges of global memory that do not overlap. */
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
 * Functions for counters with which kernels notify each other. A kernel that has read the new value
 * through pto_notified sees everything that the notifying kernel wrote before. On cores this needs
 * cache maintenance: the notifier writes its cache back before it changes the counter, and the
 * reader invalidates its cache before it reads the counter, so that later reads come from memory.
 * Counters that different cores set must be PTO_LINE bytes apart; counters that cores add to may
 * share a line with each other, but not with data.
 */

/* Adds to a counter atomically, as a notification. */
static inline PTO_AICORE void pto_notify_add(PTO_GM uint32_t *counter, uint32_t value)
{
#ifndef PTO_ON_CORE
    (void)__atomic_fetch_add(counter, value, __ATOMIC_RELEASE);
#else
    pto_cache_publish();
    set_st_atomic_cfg(ATOMIC_S32, ATOMIC_SUM);
    pto_lines_fetch(counter, sizeof(*counter));
    st_atomic<int32_t>((int32_t)value, (PTO_GM int32_t *)counter);
    /* Write the line back first: the atomic add works on memory, not on the cached line. */
    pto_lines_publish(counter, sizeof(*counter));
#endif
}

/* Sets a counter, as a notification. */
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

/* Returns the value of a counter; data that was written before it was set is visible. */
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

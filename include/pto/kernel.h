/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels: what a core calls, and what it hands over.
 *
 * A kernel is `void kernel_entry(int64_t *args)`. The vector has 50 slots:
 * the addresses of the tensor descriptors in the order they were added, then
 * the scalars, and at 48 and 49 the local and global context. Descriptors and
 * vector are valid until the kernel returns.
 */
#ifndef PTO_API_KERNEL_H
#define PTO_API_KERNEL_H

#include "pto/tensor.h"

enum {
    PTO_TASK_TENSORS_MAX = 32,
    PTO_TASK_SCALARS_MAX = 16,
    PTO_ARG_LOCAL = 48,
    PTO_ARG_GLOBAL = 49,
    PTO_ARG_COUNT = 50
};

typedef void (*pto_kernel_fn)(int64_t *args);

struct pto_local_context {
    int32_t block_index;
    int32_t block_count;
    uint64_t completion_count_addr;
    uint64_t completion_error_addr;
    uint64_t completion_entries_addr;
    uint32_t completion_capacity;
    uint32_t reserved;
    struct pto_task_id task;
};

struct pto_global_context {
    int32_t sub_block_id; /* 0 or 1: which AIV lane of its cluster */
    int32_t reserved;
    uint64_t dma_workspace[2];
};

static inline struct pto_tensor *pto_arg_tensor(const int64_t *args, int index)
{
    return (struct pto_tensor *)(uintptr_t)args[index];
}

static inline const struct pto_local_context *pto_arg_local(const int64_t *args)
{
    return (const struct pto_local_context *)(uintptr_t)args[PTO_ARG_LOCAL];
}

static inline const struct pto_global_context *pto_arg_global(const int64_t *args)
{
    return (const struct pto_global_context *)(uintptr_t)args[PTO_ARG_GLOBAL];
}

/* Call it in the loop of a kernel that waits for another one through memory. */
static inline void pto_pause(void)
{
#if defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#elif defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel in the scheduler's tables: a function for one type of core. */
#ifndef PTO_WIRE_KERNEL_H
#define PTO_WIRE_KERNEL_H

#include <stddef.h>

#include "pto/kernel.h"

struct graph_kernel {
    pto_kernel_fn fn; /* NULL: no kernel has this id */
    /*
     * Core type of the kernel (PTO_CORE_TYPES: either). If it declares arguments, their address is
     * added, whose low bits are 0. So one comparison finds kernels whose arguments need no check.
     */
    uint64_t core;
};

enum { KERNEL_CORE_BITS = 3, KERNEL_ARGS_MAX = PTO_TASK_TENSORS_MAX + PTO_TASK_SCALARS_MAX };

/*
 * Makes the entry of a kernel. `args`: a validated declaration, which outlives the kernel; NULL:
 * the kernel has none.
 */
static inline struct graph_kernel graph_kernel_make(pto_kernel_fn fn, uint32_t core_type,
                                                    const uint32_t *args)
{
    return (struct graph_kernel){ fn, (uint64_t)(uintptr_t)args | core_type };
}

static inline uint32_t graph_kernel_core(const struct graph_kernel *kernel)
{
    return (uint32_t)kernel->core & KERNEL_CORE_BITS;
}

static inline const uint32_t *graph_kernel_args(const struct graph_kernel *kernel)
{
    return (const uint32_t *)(uintptr_t)(kernel->core & ~(uint64_t)KERNEL_CORE_BITS);
}

/* ---- words of declared arguments: PTO_DECLARED ---- */

static inline uint32_t declared_kind(uint32_t arg)
{
    return arg & 255;
}

static inline uint32_t declared_dtype(uint32_t arg)
{
    return arg >> 8 & 255;
}

/* Returns the declared number of dimensions; 0: any. */
static inline uint32_t declared_ndims(uint32_t arg)
{
    return arg >> 16;
}

/*
 * Returns the length in words of a declaration with its final 0, of which at most `max` words are
 * read; 0: the declaration is invalid.
 */
static inline uint32_t declared_length(const uint32_t *args, size_t max)
{
    uint32_t tensors = 0, scalars = 0;

    for (uint32_t i = 0; i < max && i <= KERNEL_ARGS_MAX; i++) {
        bool is_scalar = declared_kind(args[i]) == PTO_DECLARED_SCALAR;
        uint32_t dtype = declared_dtype(args[i]);

        if (args[i] == 0)
            return i + 1;
        if (declared_kind(args[i]) - PTO_DECLARED_TENSOR >
                PTO_DECLARED_SCALAR - PTO_DECLARED_TENSOR ||
            (dtype >= PTO_DTYPE_COUNT && dtype != PTO_ANY_DTYPE) ||
            declared_ndims(args[i]) > (is_scalar ? 0 : PTO_MAX_DIMS) ||
            (scalars != 0 && !is_scalar))
            return 0;
        tensors += !is_scalar;
        scalars += is_scalar;
        if (tensors > PTO_TASK_TENSORS_MAX || scalars > PTO_TASK_SCALARS_MAX)
            return 0;
    }
    return 0;
}

#endif

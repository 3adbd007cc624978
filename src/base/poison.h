/* SPDX-License-Identifier: Apache-2.0 */
/* The value of memory that no task has written. */
#ifndef PTO_POISON_H
#define PTO_POISON_H

#include "pto/dtype.h"

/* Repeats an element until eight bytes are full. */
static inline uint64_t poison_repeat(uint64_t bits, uint32_t elem_bytes)
{
    for (uint32_t width = elem_bytes; width < 8; width *= 2)
        bits = (bits & (~0ull >> (64 - 8 * width))) | bits << 8 * width;
    return bits;
}

/*
 * Returns eight bytes of poison: NaN for types that have one, else a number that is easily
 * recognised. In types with the layout of IEEE it is a signalling NaN: arithmetic makes it a quiet
 * one, so a result computed from unwritten memory differs from unwritten memory.
 */
static inline uint64_t poison_of(uint32_t dtype)
{
    const struct pto_dtype_info *info = pto_dtype_info(dtype);
    uint32_t bits = 8u * info->bytes - (info->layout.sign_bits != 0);
    uint64_t nan = ~0ull >> (64 - bits);

    if (info->kind != PTO_KIND_FLOAT || info->layout.special == PTO_SPECIAL_NONE)
        return 0xa5a5a5a5a5a5a5a5ull;
    if (info->layout.special == PTO_SPECIAL_IEEE)
        nan &= ~(1ull << (info->layout.fraction_bits - 1)); /* mutation: quiet-poison */
    return poison_repeat(nan, info->bytes);
}

#endif

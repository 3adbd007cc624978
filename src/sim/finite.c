/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/finite.h"

#include <string.h>

#include "base/poison.h"
#include "wire/view_element.h"

enum finite_kind { IS_FINITE, IS_INF, IS_NAN, IS_UNWRITTEN };

/* Bit masks of an element type, by which NaN, Inf and finite values are distinguished. */
struct finite_layout {
    uint32_t bytes;
    uint64_t exponent; /* exponent bits: if all are set, the element is NaN or Inf */
    /*
     * fraction bits: if none is set in such an element, it is Inf, provided that the type has one
     */
    uint64_t fraction;
    /* bits that mark unwritten memory; 0: the type's marker equals a NaN that a task may compute */
    uint64_t poison;
};

static struct finite_layout layout_of(uint32_t dtype)
{
    const struct pto_dtype_info *info = pto_dtype_info(dtype);
    uint32_t fraction_bits = info->layout.fraction_bits;
    uint64_t fraction = (1ull << fraction_bits) - 1;
    uint64_t exponent = ((1ull << info->layout.exponent_bits) - 1) << fraction_bits;
    bool has_inf = info->layout.special == PTO_SPECIAL_IEEE;

    return (struct finite_layout){ .bytes = info->bytes,
                                   .exponent = has_inf ? exponent : exponent | fraction,
                                   .fraction = has_inf ? fraction : exponent,
                                   .poison = has_inf ? poison_of(dtype) : 0 };
}

static uint64_t load(const unsigned char *from, uint32_t bytes)
{
    uint16_t half;
    uint32_t word;
    uint64_t whole;

    if (bytes == sizeof(word))
        return memcpy(&word, from, sizeof(word)), word;
    if (bytes == sizeof(half))
        return memcpy(&half, from, sizeof(half)), half;
    return bytes == 1 ? *from : (memcpy(&whole, from, sizeof(whole)), whole);
}

static enum finite_kind finite_kind_of(const struct finite_layout *layout, uint64_t bits)
{
    uint64_t poison = layout->poison & (~0ull >> (64 - 8 * layout->bytes));

    if ((bits & layout->exponent) != layout->exponent)
        return IS_FINITE;
    if (bits == poison && poison != 0)
        return IS_UNWRITTEN;
    return (bits & layout->fraction) != 0 ? IS_NAN : IS_INF;
}

uint64_t finite_bytes(const struct pto_tensor *x)
{
    const struct pto_dtype_info *info = pto_dtype_info(x->dtype);

    return info->kind == PTO_KIND_FLOAT && info->layout.special != PTO_SPECIAL_NONE
               ? x->extent * info->bytes
               : 0;
}

/*
 * Whether the byte belongs to an element of the strided view. Memory between its elements may be
 * written by other tasks.
 */
static bool has_element(const struct pto_tensor *x, uint64_t place)
{
    uint32_t index[PTO_MAX_DIMS];

    return x->is_contiguous || view_find_element(x, place, index);
}

static const unsigned char *data_of(const struct pto_tensor *x, const struct finite_layout *layout)
{
    return (const unsigned char *)(uintptr_t)(x->addr + x->start * layout->bytes);
}

static void finite_note(struct finite_place *first, int32_t argument, uint64_t place)
{
    if (first->argument < 0)
        *first = (struct finite_place){ argument, place };
}

void finite_add_input(struct finite_inputs *inputs, const struct pto_tensor *x, int32_t argument)
{
    struct finite_layout layout = layout_of(x->dtype);
    const unsigned char *data = data_of(x, &layout);

    for (uint64_t i = 0; i < x->extent; i++) {
        enum finite_kind kind =
            finite_kind_of(&layout, load(data + i * layout.bytes, layout.bytes));

        if (kind == IS_FINITE || !has_element(x, i))
            continue;
        finite_note(kind == IS_NAN   ? &inputs->nan
                    : kind == IS_INF ? &inputs->inf
                                     : &inputs->unwritten,
                    argument, i);
    }
}

bool finite_find(const struct finite_inputs *inputs, const struct pto_tensor *x, int32_t argument,
                 const unsigned char *before, struct finite_found *out)
{
    struct finite_layout layout = layout_of(x->dtype);
    const unsigned char *data = data_of(x, &layout);

    if (inputs->nan.argument >= 0) /* mutation: nan-from-nan */
        return false;
    for (uint64_t i = 0; i < x->extent; i++) {
        uint64_t bits = load(data + i * layout.bytes, layout.bytes);
        enum finite_kind kind = finite_kind_of(&layout, bits);
        bool is_nan = kind == IS_NAN;

        if (!is_nan && (kind != IS_INF || inputs->inf.argument >= 0))
            continue;
        if (bits == load(before + i * layout.bytes, layout.bytes) || !has_element(x, i))
            continue;
        *out = (struct finite_found){ { argument, i }, is_nan };
        return true;
    }
    return false;
}

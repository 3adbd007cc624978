/* SPDX-License-Identifier: Apache-2.0 */
/* Reads elements by the layout of their data type: sign, exponent and fraction. */
#include "tool/scene/element.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/poison.h"

/* Returns the bits of exponent and fraction, without the sign. */
static uint64_t magnitude(const struct pto_dtype_info *info, uint64_t bits)
{
    return bits & ((1ull << (info->layout.exponent_bits + info->layout.fraction_bits)) - 1);
}

static bool is_negative(const struct pto_dtype_info *info, uint64_t bits)
{
    return info->layout.sign_bits != 0 &&
           (bits >> (info->layout.exponent_bits + info->layout.fraction_bits) & 1) != 0;
}

/* Sign-extends the bits from the width of the type. */
static int64_t extend(const struct pto_dtype_info *info, uint64_t bits)
{
    uint32_t unused = 64 - 8u * info->bytes;

    return (int64_t)(bits << unused) >> unused;
}

bool scene_element_is_float(enum pto_dtype dtype)
{
    return pto_dtype_info((uint32_t)dtype)->kind == PTO_KIND_FLOAT;
}

uint64_t scene_element_bits(enum pto_dtype dtype, const void *array, uint64_t index)
{
    uint32_t bytes = pto_dtype_size((uint32_t)dtype);
    uint64_t bits = 0;

    /* all supported systems are little-endian */
    memcpy(&bits, (const char *)array + index * bytes, bytes);
    return bits;
}

double scene_element_value(enum pto_dtype dtype, uint64_t bits)
{
    const struct pto_dtype_info *info = pto_dtype_info((uint32_t)dtype);
    int fraction_bits = info->layout.fraction_bits, bias;
    uint64_t exponent, fraction, all_ones;
    double number;

    if (info->kind != PTO_KIND_FLOAT)
        return info->kind == PTO_KIND_SIGNED ? (double)extend(info, bits) : (double)bits;
    if (scene_element_is_nan(dtype, bits))
        return NAN;
    all_ones = (1ull << info->layout.exponent_bits) - 1;
    bias = (int)(all_ones / 2);
    exponent = magnitude(info, bits) >> fraction_bits;
    fraction = magnitude(info, bits) & ((1ull << fraction_bits) - 1);
    if (info->layout.special == PTO_SPECIAL_IEEE && exponent == all_ones)
        number = INFINITY;
    else if (exponent == 0 && fraction_bits != 0)
        number = ldexp((double)fraction, 1 - bias - fraction_bits);
    else
        number = ldexp((double)(fraction + (1ull << fraction_bits)),
                       (int)exponent - bias - fraction_bits);
    return is_negative(info, bits) ? -number : number;
}

bool scene_element_is_nan(enum pto_dtype dtype, uint64_t bits)
{
    const struct pto_dtype_info *info = pto_dtype_info((uint32_t)dtype);
    uint64_t value, infinity;

    if (info->kind != PTO_KIND_FLOAT || info->layout.special == PTO_SPECIAL_NONE)
        return false;
    value = magnitude(info, bits);
    infinity = ((1ull << info->layout.exponent_bits) - 1) << info->layout.fraction_bits;
    return info->layout.special == PTO_SPECIAL_IEEE ? value > infinity
                                                    : value == magnitude(info, UINT64_MAX);
}

uint64_t scene_element_distance(enum pto_dtype dtype, uint64_t a, uint64_t b)
{
    const struct pto_dtype_info *info = pto_dtype_info((uint32_t)dtype);
    int64_t x, y;

    if (info->kind == PTO_KIND_SIGNED) {
        x = extend(info, a);
        y = extend(info, b);
    } else if (info->kind != PTO_KIND_FLOAT) {
        return a > b ? a - b : b - a;
    } else {
        x = (int64_t)magnitude(info, a);
        y = (int64_t)magnitude(info, b);
        x = is_negative(info, a) ? -x : x;
        y = is_negative(info, b) ? -y : y;
    }
    return x > y ? (uint64_t)x - (uint64_t)y : (uint64_t)y - (uint64_t)x;
}

void scene_element_print(enum pto_dtype dtype, uint64_t bits, char text[ELEMENT_TEXT_MAX])
{
    const struct pto_dtype_info *info = pto_dtype_info((uint32_t)dtype);

    if (info->kind == PTO_KIND_FLOAT)
        snprintf(text, ELEMENT_TEXT_MAX, "%.*g", info->layout.digits & 31,
                 scene_element_value(dtype, bits));
    else if (info->kind == PTO_KIND_SIGNED)
        snprintf(text, ELEMENT_TEXT_MAX, "%" PRId64, extend(info, bits));
    else
        snprintf(text, ELEMENT_TEXT_MAX, "%" PRIu64, bits);
}

void scene_element_poison(enum pto_dtype dtype, void *array, uint64_t bytes)
{
    uint64_t word = poison_of((uint32_t)dtype);

    for (uint64_t at = 0; at < bytes; at += sizeof(word))
        memcpy((char *)array + at, &word, bytes - at < sizeof(word) ? bytes - at : sizeof(word));
}

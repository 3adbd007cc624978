/* SPDX-License-Identifier: Apache-2.0 */
/* Data types as sign, exponent and fraction. */
#include "scene/element.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* fp8e8m0 has neither sign nor fraction: it is 2^(bits - 127). */
struct layout {
    uint8_t bits; /* 0: not a floating-point number */
    uint8_t exponent_bits;
    uint8_t fraction_bits;
    int16_t bias;
    bool has_infinity; /* and NaN beside it */
    int nan;           /* the only magnitude that is one, -1: none or those beside infinity */
    uint8_t digits;    /* that tell all values apart */
};

static const struct layout layouts[PTO_DTYPE_COUNT] = {
    [PTO_FLOAT32] = { 32, 8, 23, 127, true, -1, 9 },
    [PTO_FLOAT16] = { 16, 5, 10, 15, true, -1, 5 },
    [PTO_BFLOAT16] = { 16, 8, 7, 127, true, -1, 4 },
    [PTO_FP8E4M3FN] = { 8, 4, 3, 7, false, 0x7f, 3 },
    [PTO_FP8E8M0] = { 9, 8, 0, 127, false, 0xff, 9 },
    [PTO_FP4E2M1] = { 4, 2, 1, 1, false, -1, 2 },
};

static bool is_signed(enum pto_dtype dtype)
{
    return dtype == PTO_INT8 || dtype == PTO_INT16 || dtype == PTO_INT32 || dtype == PTO_INT64;
}

static uint32_t magnitude(const struct layout *layout, uint64_t bits)
{
    return (uint32_t)(bits & ((1ull << (layout->bits - 1)) - 1));
}

static bool is_negative(const struct layout *layout, uint64_t bits)
{
    return (bits >> (layout->bits - 1) & 1) != 0;
}

/* The bits as a signed number of the type's width. */
static int64_t extend(enum pto_dtype dtype, uint64_t bits)
{
    uint32_t unused = 64 - 8 * pto_dtype_size((uint32_t)dtype);

    return (int64_t)(bits << unused) >> unused;
}

bool scene_element_is_float(enum pto_dtype dtype)
{
    return layouts[dtype].bits != 0;
}

uint64_t scene_element_bits(enum pto_dtype dtype, const void *array, uint64_t index)
{
    uint32_t bytes = pto_dtype_size((uint32_t)dtype);
    uint64_t bits = 0;

    memcpy(&bits, (const char *)array + index * bytes, bytes); /* the systems are little-endian */
    return bits;
}

double scene_element_value(enum pto_dtype dtype, uint64_t bits)
{
    const struct layout *layout = &layouts[dtype];
    uint32_t value, exponent, fraction;
    double number;

    if (layout->bits == 0)
        return is_signed(dtype) ? (double)extend(dtype, bits) : (double)bits;
    value = magnitude(layout, bits);
    if (scene_element_is_nan(dtype, bits))
        return NAN;
    exponent = value >> layout->fraction_bits;
    fraction = value & ((1u << layout->fraction_bits) - 1);
    if (layout->has_infinity && exponent == (1u << layout->exponent_bits) - 1)
        number = INFINITY;
    else if (exponent == 0 && layout->fraction_bits != 0)
        number = ldexp(fraction, 1 - layout->bias - layout->fraction_bits);
    else
        number = ldexp(fraction + (double)(1u << layout->fraction_bits),
                       (int)exponent - layout->bias - layout->fraction_bits);
    return is_negative(layout, bits) ? -number : number;
}

bool scene_element_is_nan(enum pto_dtype dtype, uint64_t bits)
{
    const struct layout *layout = &layouts[dtype];
    uint32_t value;

    if (layout->bits == 0)
        return false;
    value = magnitude(layout, bits);
    if (layout->has_infinity)
        return value > ((1u << layout->exponent_bits) - 1) << layout->fraction_bits;
    return layout->nan >= 0 && value == (uint32_t)layout->nan;
}

uint64_t scene_element_distance(enum pto_dtype dtype, uint64_t a, uint64_t b)
{
    const struct layout *layout = &layouts[dtype];
    int64_t x, y;

    if (layout->bits == 0 && is_signed(dtype)) {
        x = extend(dtype, a);
        y = extend(dtype, b);
    } else if (layout->bits == 0) {
        return a > b ? a - b : b - a;
    } else {
        x = magnitude(layout, a);
        y = magnitude(layout, b);
        x = is_negative(layout, a) ? -x : x;
        y = is_negative(layout, b) ? -y : y;
    }
    return x > y ? (uint64_t)x - (uint64_t)y : (uint64_t)y - (uint64_t)x;
}

void scene_element_print(enum pto_dtype dtype, uint64_t bits, char text[ELEMENT_TEXT_MAX])
{
    if (scene_element_is_float(dtype))
        snprintf(text, ELEMENT_TEXT_MAX, "%.*g", layouts[dtype].digits & 15,
                 scene_element_value(dtype, bits));
    else if (is_signed(dtype))
        snprintf(text, ELEMENT_TEXT_MAX, "%" PRId64, extend(dtype, bits));
    else
        snprintf(text, ELEMENT_TEXT_MAX, "%" PRIu64, bits);
}

void scene_element_poison(enum pto_dtype dtype, void *array, uint64_t bytes)
{
    memset(array, dtype == PTO_FP4E2M1 || !scene_element_is_float(dtype) ? 0xa5 : 0xff, bytes);
}

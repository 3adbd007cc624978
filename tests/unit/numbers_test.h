/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of the types that are reduced, one by one: decoded and encoded by arithmetic, from what
 * the table of types says of their layout, not by bits as the library does it.
 */
#ifndef PTO_NUMBERS_TEST_H
#define PTO_NUMBERS_TEST_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "pto/collective.h"

static inline uint64_t number_random(uint64_t *seed)
{
    uint64_t x = *seed += 0x9e3779b97f4a7c15ull;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

/* The value of an element with these bits; not for integers. */
static inline float number_decode(enum pto_dtype dtype, uint32_t bits)
{
    const struct pto_dtype_info *info = pto_dtype_info(dtype);
    int fraction_bits = info->layout.fraction_bits, exponent_bits = info->layout.exponent_bits;
    uint32_t fraction = bits & ((1u << fraction_bits) - 1);
    int exponent = (int)(bits >> fraction_bits & ((1u << exponent_bits) - 1));
    int bias = (1 << (exponent_bits - 1)) - 1;
    double value;
    float x;

    memcpy(&x, &bits, sizeof(x));
    if (dtype == PTO_FLOAT32)
        return x;
    if (exponent == (1 << exponent_bits) - 1)
        value = fraction != 0 ? NAN : INFINITY;
    else if (exponent == 0)
        value = ldexp(fraction, 1 - bias - fraction_bits);
    else
        value = ldexp(fraction + (1u << fraction_bits), exponent - bias - fraction_bits);
    return (float)(bits >> (fraction_bits + exponent_bits) != 0 ? -value : value);
}

/* The bits of the element that is nearest. */
static inline uint32_t number_encode(enum pto_dtype dtype, float x)
{
    const struct pto_dtype_info *info = pto_dtype_info(dtype);
    int fraction_bits = info->layout.fraction_bits, exponent_bits = info->layout.exponent_bits;
    int bias = (1 << (exponent_bits - 1)) - 1, exponent;
    uint32_t infinity = ((1u << exponent_bits) - 1) << fraction_bits, bits;
    uint32_t sign = signbit(x) ? 1u << (exponent_bits + fraction_bits) : 0;
    double value = fabs((double)x);

    memcpy(&bits, &x, sizeof(bits));
    if (isnan(x))
        return infinity | 1u << (fraction_bits - 1);
    if (dtype == PTO_FLOAT32)
        return bits;
    if (isinf(x) || value == 0)
        return sign | (isinf(x) ? infinity : 0);
    exponent = ilogb(value) < 1 - bias ? 1 - bias : ilogb(value);
    /* A fraction that rounds up to the next power of two carries into the exponent. */
    bits = (uint32_t)nearbyint(ldexp(value, fraction_bits - exponent)) +
           ((uint32_t)(exponent + bias - 1) << fraction_bits);
    return sign | (bits < infinity ? bits : infinity);
}

/* As the library defines a reduction: float in between, and one rounding at the end. */
static inline float number_reduce(enum pto_reduce how, float a, float b)
{
    if (how == PTO_REDUCE_SUM)
        return a + b;
    if (isnan(a) || isnan(b))
        return NAN;
    return how == PTO_REDUCE_MAX ? (a > b ? a : b) : (a < b ? a : b);
}

#endif

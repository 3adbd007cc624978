/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversions between float and the bits of float16 and bfloat16. They are for kernels in C,
 * orchestrations and goldens, where elements of such tensors are uint16_t.
 *
 *     #include <pto/half.h>
 *     #include <pto/kernel.h>
 *
 *     PTO_KERNEL(args)
 *     {
 *         PTO_GM const uint16_t *x = PTO_ARG(args, 0, uint16_t);
 *         PTO_GM uint16_t *y = PTO_ARG(args, 1, uint16_t);
 *
 *         for (int i = 0; i < 16; i++)
 *             y[i] = pto_float16_from_float(2 * pto_bfloat16_to_float(x[i]));
 *     }
 *
 * Every conversion is exact, or rounded to nearest, ties to even. The functions use integers only:
 * results are the same on every machine, whatever rounding and flushing a kernel has set for its
 * thread, and no library is called. Subnormal numbers and the sign of zero are kept; a value that
 * is too large becomes infinity. A NaN keeps its sign and the upper bits of its payload; a NaN that
 * is narrowed becomes quiet.
 */
#ifndef PTO_API_HALF_H
#define PTO_API_HALF_H

#include <stdint.h>

#include "pto/aicore.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the bits of a float. */
static inline PTO_AICORE uint32_t pto_float_to_bits(float value)
{
    uint32_t bits;

    __builtin_memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* Returns the float that has these bits. */
static inline PTO_AICORE float pto_float_from_bits(uint32_t bits)
{
    float value;

    __builtin_memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Returns the value of a bfloat16, which is the upper half of a float. */
static inline PTO_AICORE float pto_bfloat16_to_float(uint16_t half)
{
    return pto_float_from_bits((uint32_t)half << 16);
}

/* Returns the bits of the bfloat16 that is nearest to a float. */
static inline PTO_AICORE uint16_t pto_bfloat16_from_float(float value)
{
    uint32_t bits = pto_float_to_bits(value);

    if ((bits & 0x7fffffff) > 0x7f800000) /* the value is NaN */
        return (uint16_t)(bits >> 16 | 0x40);
    /* A carry out of the fraction increments the exponent, which gives the right result. */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Returns the value of a float16. */
static inline PTO_AICORE float pto_float16_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;
    uint32_t exponent = rest >> 10, fraction = rest & 0x3ff;

    if (exponent == 31)
        return pto_float_from_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent != 0)
        return pto_float_from_bits(sign | ((rest << 13) + (112u << 23)));
    if (fraction == 0)
        return pto_float_from_bits(sign);
    /*
     * A subnormal float16 is a multiple of 2^-24, which is a normal float: its leading 1 becomes
     * the implicit bit.
     */
    exponent = 134 - (uint32_t)__builtin_clz(fraction);
    return pto_float_from_bits(sign | exponent << 23 | (fraction << (126 - exponent) & 0x7fffff));
}

/* Returns the bits of the float16 that is nearest to a float. */
static inline PTO_AICORE uint16_t pto_float16_from_float(float value)
{
    uint32_t bits = pto_float_to_bits(value), sign = bits >> 16 & 0x8000, shift, whole;

    bits &= 0x7fffffff;
    if (bits > 0x7f800000) /* the value is NaN */
        return (uint16_t)(sign | 0x7e00 | (bits >> 13 & 0x3ff));
    if (bits >= 0x477ff000) /* infinity: from 65520 on, halfway beyond the largest finite float16 */
        return (uint16_t)(sign | 0x7c00);
    if (bits >= 0x38800000) { /* a normal float16: from 2^-14 on, the smallest normal value */
        bits -= 112u << 23;
        return (uint16_t)(sign | (bits + 0xfff + (bits >> 13 & 1)) >> 13);
    }
    if (bits < 0x33000000) /* zero: below 2^-25, half of the smallest subnormal float16 */
        return (uint16_t)sign;
    /* number of bits to drop, 14 to 24, so that multiples of 2^-24 remain */
    shift = 126 - (bits >> 23);
    whole = (bits & 0x7fffff) | 0x800000;
    return (uint16_t)(sign | (whole + (1u << (shift - 1)) - 1 + (whole >> shift & 1)) >> shift);
}

#ifdef __cplusplus
}
#endif

#endif

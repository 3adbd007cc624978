/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exp(x) for x <= 0, without a library and in float only, as cores want it: x is n * ln 2 + r, and
 * the result is 2^n times a series of r.
 */
#ifndef EXAMPLES_SOFTMAX_EXP_H
#define EXAMPLES_SOFTMAX_EXP_H

#include <pto/kernel.h>

static inline PTO_AICORE float kernel_exp(float x)
{
    union {
        uint32_t bits;
        float value;
    } power;
    int32_t n;
    float r;

    if (x < -80) /* below the precision of a sum that includes 1 */
        return 0;
    n = (int32_t)(x * 1.44269504f - 0.5f); /* to the nearest */
    r = x - (float)n * 0.693145752f - (float)n * 1.42860677e-6f;
    power.bits = (uint32_t)(n + 127) << 23;
    return power.value *
           (1 + r * (1 + r / 2 * (1 + r / 3 * (1 + r / 4 * (1 + r / 5 * (1 + r / 6))))));
}

#endif

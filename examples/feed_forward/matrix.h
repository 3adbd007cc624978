/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEED_FORWARD_MATRIX_H
#define FEED_FORWARD_MATRIX_H

#include <pto/kernel.h>

/* c = a b; all of them row by row without gaps */
static inline PTO_AICORE void multiply(PTO_GM const struct pto_tensor *a,
                                       PTO_GM const struct pto_tensor *b,
                                       PTO_GM const struct pto_tensor *c)
{
    PTO_GM const float *x = PTO_DATA(a, float);
    PTO_GM const float *w = PTO_DATA(b, float);
    PTO_GM float *out = PTO_DATA(c, float);
    uint32_t rows = a->shapes[0], inner = a->shapes[1], columns = b->shapes[1];

    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t k = 0; k < columns; k++) {
            float sum = 0;

            for (uint32_t j = 0; j < inner; j++)
                sum += x[i * inner + j] * w[j * columns + k];
            out[i * columns + k] = sum;
        }
}

#endif

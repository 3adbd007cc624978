/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels call no library. For x <= 0: a short series of x / 256, squared eight times. */
#ifndef EXAMPLES_SOFTMAX_EXP_H
#define EXAMPLES_SOFTMAX_EXP_H

static inline float kernel_exp(float x)
{
    double y = x / 256.0;
    double e = 1 + y * (1 + y / 2 * (1 + y / 3 * (1 + y / 4 * (1 + y / 5 * (1 + y / 6)))));

    if (x < -80) /* nothing beside the 1 that the maximum gives */
        return 0;
    for (int i = 0; i < 8; i++)
        e *= e;
    return (float)e;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A window: the inbox, where rank r puts token t at [r][t]; what comes back, at [t]; and
 * words that count the ranks whose tokens, or whose results, are all there.
 */
#ifndef MOE_H
#define MOE_H

#include <pto/window.h>

enum { DISPATCHED, RETURNED, COUNTS };

static inline float *moe_results(const struct pto_tensor *inbox)
{
    return (float *)pto_tensor_data(inbox) +
           (size_t)inbox->shapes[0] * inbox->shapes[1] * inbox->shapes[2];
}

static inline int32_t *moe_count(const struct pto_tensor *inbox, uint32_t which)
{
    return (int32_t *)(moe_results(inbox) + (size_t)inbox->shapes[1] * inbox->shapes[2]) + which;
}

#endif

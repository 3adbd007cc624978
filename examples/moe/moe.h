/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A window: the inbox, where rank r puts token t at [r][t]; what comes back, at [t];
 * words that count the ranks whose tokens, or whose results, are all there; and a token that the
 * expert computes. A token, whose size is a
 * multiple of 16, and a word have their own cache lines: ranks that wrote to one would undo each
 * other's work.
 */
#ifndef MOE_H
#define MOE_H

#include <pto/window.h>

enum { DISPATCHED, RETURNED, COUNTS };

static inline PTO_AICORE PTO_GM float *moe_results(PTO_GM const struct pto_tensor *inbox)
{
    return PTO_DATA(inbox, float) + (size_t)inbox->shapes[0] * inbox->shapes[1] * inbox->shapes[2];
}

static inline PTO_AICORE PTO_GM int32_t *moe_count(PTO_GM const struct pto_tensor *inbox,
                                                   uint32_t which)
{
    return (PTO_GM int32_t *)(moe_results(inbox) + (size_t)inbox->shapes[1] * inbox->shapes[2]) +
           which * PTO_LINE / sizeof(int32_t);
}

static inline PTO_AICORE PTO_GM float *moe_product(PTO_GM const struct pto_tensor *inbox)
{
    return (PTO_GM float *)moe_count(inbox, COUNTS);
}

#endif

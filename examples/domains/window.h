/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A window of either domain: two rows of n numbers, a row for copies of other ranks' rows, and a word
 * for each of the two that counts who has written.
 * Each row and word has its own cache lines: ranks that wrote to one would undo each other's work.
 */
#ifndef DOMAINS_WINDOW_H
#define DOMAINS_WINDOW_H

#include <pto/window.h>

enum { SHARED, CARRIED, COPIED, ROWS };

static inline PTO_AICORE PTO_GM float *window_row(PTO_GM const struct pto_comm_context *c,
                                                  uint32_t n, uint32_t row)
{
    return PTO_WINDOW_OWN(c, float) + row * PTO_WHOLE_LINES(n * sizeof(float)) / sizeof(float);
}

static inline PTO_AICORE PTO_GM int32_t *window_count(PTO_GM const struct pto_comm_context *c,
                                                      uint32_t n, uint32_t row)
{
    return (PTO_GM int32_t *)window_row(c, n, ROWS) + row * PTO_LINE / sizeof(int32_t);
}

#endif

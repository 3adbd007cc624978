/* SPDX-License-Identifier: Apache-2.0 */
/* A window of either domain: two rows of n numbers, and a word for each that counts who has written. */
#ifndef DOMAINS_WINDOW_H
#define DOMAINS_WINDOW_H

#include <pto/window.h>

enum { SHARED, CARRIED };

static inline float *window_row(const struct pto_comm_context *c, uint32_t n, uint32_t row)
{
    return (float *)(uintptr_t)c->window_in[c->rank] + row * n;
}

static inline int32_t *window_count(const struct pto_comm_context *c, uint32_t n, uint32_t row)
{
    return (int32_t *)window_row(c, n, 2) + row;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns of integers in the page of a report. Each column is split into planes of bytes, the
 * lowest byte first; its largest number decides how many. All planes are compressed together and
 * written as base64, which the page's script reads without a library (page/data.js).
 */
#ifndef PTO_SEE_COLUMNS_H
#define PTO_SEE_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

enum { SEE_COLUMNS_MAX = 32 };

struct see_column {
    const char *name;
    uint64_t length;
    uint32_t planes;
};

struct see_columns {
    uint32_t count;
    struct see_column column[SEE_COLUMNS_MAX];
    uint8_t *raw;
    uint64_t raw_bytes;
};

/* Maps signed numbers to small unsigned ones: 0, -1, 1, -2, ... become 0, 1, 2, 3, ... */
static inline uint64_t see_zigzag(int64_t n)
{
    return (uint64_t)n << 1 ^ (uint64_t)(n >> 63);
}

/*
 * Adds a column of numbers, each of at most 48 bits. `name` has to outlive the columns. Returns
 * PTO_OK or PTO_ENOMEM.
 */
int see_columns_add(struct see_columns *c, const char *name, const uint64_t *number,
                    uint64_t length);
/* Compresses all columns into a text, which the caller frees. Returns PTO_OK or PTO_ENOMEM. */
int see_columns_pack(const struct see_columns *c, char **base64_out);
void see_columns_free(struct see_columns *c);

#endif

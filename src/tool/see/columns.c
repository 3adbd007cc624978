/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/columns.h"

#include <assert.h>
#include <stdlib.h>
#include <zlib.h>

#include "pto/status.h"

enum { DEFLATE_LEVEL = 6, PLANES_MAX = 6 };

static uint32_t count_planes(const uint64_t *number, uint64_t length)
{
    uint64_t all = 0;
    uint32_t planes = 1;

    for (uint64_t i = 0; i < length; i++)
        all |= number[i];
    while (planes < PLANES_MAX && all >> 8 * planes != 0)
        planes++;
    return planes;
}

int see_columns_add(struct see_columns *c, const char *name, const uint64_t *number,
                    uint64_t length)
{
    uint32_t planes = count_planes(number, length);
    uint8_t *raw = realloc(c->raw, c->raw_bytes + length * planes + 1), *to;

    if (raw == NULL)
        return PTO_ENOMEM;
    assert(c->count < SEE_COLUMNS_MAX);
    c->raw = raw;
    to = raw + c->raw_bytes;
    for (uint32_t plane = 0; plane < planes; plane++)
        for (uint64_t i = 0; i < length; i++)
            *to++ = (uint8_t)(number[i] >> 8 * plane);
    c->raw_bytes += length * planes;
    c->column[c->count++] = (struct see_column){ .name = name, .length = length, .planes = planes };
    return PTO_OK;
}

static char *encode_base64(const uint8_t *raw, uint64_t length)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc((length + 2) / 3 * 4 + 1), *to = text;

    if (text == NULL)
        return NULL;
    for (uint64_t i = 0; i < length; i += 3) {
        uint32_t left = length - i < 3 ? (uint32_t)(length - i) : 3;
        uint32_t bits = (uint32_t)raw[i] << 16;

        bits |= left > 1 ? (uint32_t)raw[i + 1] << 8 : 0;
        bits |= left > 2 ? raw[i + 2] : 0;
        *to++ = digit[bits >> 18];
        *to++ = digit[bits >> 12 & 63];
        *to++ = left > 1 ? digit[bits >> 6 & 63] : '=';
        *to++ = left > 2 ? digit[bits & 63] : '=';
    }
    *to = '\0';
    return text;
}

int see_columns_pack(const struct see_columns *c, char **base64_out)
{
    uLongf bytes = compressBound(c->raw_bytes);
    uint8_t *packed = malloc(bytes);
    char *text = NULL;

    if (packed != NULL && compress2(packed, &bytes, c->raw, c->raw_bytes, DEFLATE_LEVEL) == Z_OK)
        text = encode_base64(packed, bytes);
    free(packed);
    if (text == NULL)
        return PTO_ENOMEM;
    *base64_out = text;
    return PTO_OK;
}

void see_columns_free(struct see_columns *c)
{
    free(c->raw);
    *c = (struct see_columns){ .count = 0 };
}

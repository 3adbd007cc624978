/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts numbers and texts to bytes for the network, little-endian, without gaps, and back. An
 * unpacker that has too few bytes returns zeros and sets a flag.
 */
#ifndef PTO_PACKER_H
#define PTO_PACKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct packer {
    uint8_t *at; /* next free byte; the caller has made room for everything that it packs */
};

static inline void pack_number(struct packer *p, uint64_t value, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        *p->at++ = (uint8_t)(value >> 8 * i);
}

static inline void pack_bytes(struct packer *p, const void *bytes, size_t size)
{
    memcpy(p->at, bytes, size);
    p->at += size;
}

struct unpacker {
    const uint8_t *at;
    size_t left;
    bool has_failed;
};

static inline const uint8_t *unpack_take(struct unpacker *u, size_t size)
{
    const uint8_t *at = u->at;

    if (u->left < size) {
        u->has_failed = true;
        return NULL;
    }
    u->at += size;
    u->left -= size;
    return at;
}

static inline uint64_t unpack_number(struct unpacker *u, uint32_t bytes)
{
    const uint8_t *at = unpack_take(u, bytes);
    uint64_t value = 0;

    for (uint32_t i = 0; at != NULL && i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static inline void unpack_bytes(struct unpacker *u, void *out, size_t size)
{
    const uint8_t *at = unpack_take(u, size);

    if (at != NULL)
        memcpy(out, at, size);
    else
        memset(out, 0, size);
}

/* Reads a text that occupies `size` bytes, the final zero included. */
static inline void unpack_text(struct unpacker *u, char *out, size_t size)
{
    unpack_bytes(u, out, size);
    if (memchr(out, '\0', size) == NULL) {
        u->has_failed = true;
        out[0] = '\0';
    }
}

#endif

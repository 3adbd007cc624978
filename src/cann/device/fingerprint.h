/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hash of a program's contents, which is part of its file name on the card's disk. Host and
 * dispatcher use the same function, so the host knows the name.
 */
#ifndef PTO_FINGERPRINT_H
#define PTO_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>

/*
 * FNV-1a with 64 bits. Bytes may be added in several calls, the first of which gets
 * FINGERPRINT_START.
 */
#define FINGERPRINT_START 0xcbf29ce484222325ull

static inline uint64_t fingerprint_add(uint64_t hash, const void *bytes, size_t size)
{
    const unsigned char *at = (const unsigned char *)bytes;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ at[i]) * 0x100000001b3ull;
    return hash;
}

static inline uint64_t fingerprint_of(const void *bytes, size_t size)
{
    return fingerprint_add(FINGERPRINT_START, bytes, size);
}

#endif

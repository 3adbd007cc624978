/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What names a program on the device's disk: its content. The same function on both sides, so
 * that the host knows the name that the dispatcher has written.
 */
#ifndef PTO_FINGERPRINT_H
#define PTO_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>

/* FNV-1a in 64 bits, of bytes that may come in pieces. */
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

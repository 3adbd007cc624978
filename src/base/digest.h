/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 digests, which identify the contents of files, compilers and artefacts. */
#ifndef PTO_DIGEST_H
#define PTO_DIGEST_H

#include <nettle/sha2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DIGEST_BYTES = SHA256_DIGEST_SIZE, DIGEST_HEX = 2 * DIGEST_BYTES + 1 };

struct digest {
    uint8_t byte[DIGEST_BYTES];
};

/* State of a digest that is computed from several pieces: begin, add, end. */
struct digest_state {
    struct sha256_ctx context;
};

void digest_begin(struct digest_state *state);
void digest_add(struct digest_state *state, const void *bytes, size_t size);
/*
 * Adds a text, preceded by its length, so that a sequence of texts is unambiguous. NULL and "" give
 * different digests.
 */
void digest_add_text(struct digest_state *state, const char *text);
void digest_end(struct digest_state *state, struct digest *out);

struct digest_part {
    const void *bytes;
    size_t size;
};

/* Computes the HMAC-SHA256 of the concatenated parts, which cannot be forged without the key. */
void digest_with_key(const struct digest *key, const struct digest_part *parts, uint32_t count,
                     struct digest *out);

void digest_of(const void *bytes, size_t size, struct digest *out);
bool digest_is_equal(const struct digest *a, const struct digest *b);
/* Writes the digest as 64 lower-case hexadecimal digits and a final zero byte. */
void digest_to_hex(const struct digest *digest, char hex[DIGEST_HEX]);
/* Reads 64 lower-case hexadecimal digits and ignores what follows them. False: there are fewer. */
bool digest_from_hex(const char *hex, struct digest *out);

#endif

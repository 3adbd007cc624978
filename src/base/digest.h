/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256: what names a file's content, a compiler, an artefact. */
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

/* In steps: begin, add, end. */
struct digest_state {
    struct sha256_ctx context;
};

void digest_begin(struct digest_state *state);
void digest_add(struct digest_state *state, const void *bytes, size_t size);
/* With its length before it: a list of such texts can be read in one way only. NULL is not "". */
void digest_add_text(struct digest_state *state, const char *text);
void digest_end(struct digest_state *state, struct digest *out);

struct digest_part {
    const void *bytes;
    size_t size;
};

/* HMAC-SHA256 of the parts as one text: whoever does not have the key cannot make it. */
void digest_with_key(const struct digest *key, const struct digest_part *parts, uint32_t count,
                     struct digest *out);

void digest_of(const void *bytes, size_t size, struct digest *out);
bool digest_is_equal(const struct digest *a, const struct digest *b);
/* 64 lower-case digits and a zero. */
void digest_to_hex(const struct digest *digest, char hex[DIGEST_HEX]);
/* False: not 64 such digits; what follows them is not looked at. */
bool digest_from_hex(const char *hex, struct digest *out);

#endif

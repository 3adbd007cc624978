/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures follow the bytes of an artefact, up to 16 of them:
 *
 *     magic        "PTOSIG1\n"
 *     public key   32 bytes
 *     signature    64 bytes: Ed25519 of the magic and the SHA-256 of the artefact
 *
 * They are no part of the artefact: its header's size, hashes and identity are
 * those without them.
 */
#ifndef PTO_SIGNATURE_H
#define PTO_SIGNATURE_H

#include <assert.h>

#include "base/digest.h"
#include "pto/sign.h"

enum { SIGNATURE_BYTES = 64, SIGNATURE_MAGIC_BYTES = 8 };

struct signature {
    char magic[SIGNATURE_MAGIC_BYTES];
    uint8_t key[PTO_KEY_BYTES];
    uint8_t bytes[SIGNATURE_BYTES];
};

static_assert(sizeof(struct signature) == 104, "a file format");

/* How many make up that many bytes behind an artefact; 0: they are something else. */
uint32_t signature_count(uint64_t bytes);
/* Whether it is of an artefact with this SHA-256. */
bool signature_is_right(const struct signature *signature, const struct digest *artefact);

#endif

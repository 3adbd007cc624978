/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures follow the bytes of an artefact. There are up to 16, each with these fields:
 *
 *     magic        "PTOSIG1\n"
 *     public key   32 bytes
 *     signature    64 bytes: Ed25519 of the magic and the SHA-256 of the artefact
 *
 * The artefact's own size, hashes and identity do not cover the signatures.
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

/*
 * Returns how many signatures the bytes after an artefact are, by their number; 0: they are other
 * data.
 */
uint32_t signature_count(uint64_t bytes);
/* Whether the signature is valid for an artefact with this SHA-256 digest. */
bool signature_is_right(const struct signature *signature, const struct digest *artefact);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures of artefacts: Ed25519. A signature says that whoever has the secret
 * key has seen exactly these bytes. A program that loads artefacts from others
 * names the public keys that it trusts in `trusted_keys` of struct
 * pto_load_options. docs/user/security.md says what that is worth.
 */
#ifndef PTO_API_SIGN_H
#define PTO_API_SIGN_H

#include <stddef.h>
#include <stdint.h>

#include "pto/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

enum { PTO_KEY_BYTES = 32, PTO_SIGNATURES_MAX = 16 };

/* Makes a pair of keys from random bytes. Keep the secret one to yourself. */
int pto_key_create(uint8_t secret[PTO_KEY_BYTES], uint8_t key[PTO_KEY_BYTES]);

/* Says which public key belongs to a secret one. */
int pto_key_public(const uint8_t secret[PTO_KEY_BYTES], uint8_t key[PTO_KEY_BYTES]);

/*
 * Adds a signature to an artefact; free() the new bytes. One of the same key is
 * replaced. The artefact stays what it is: its identity and its hashes do not
 * change. PTO_EFORMAT: it is no artefact, or damaged. PTO_EINVAL: it has 16
 * signatures. `error` may be NULL.
 */
int pto_artefact_sign(const void *bytes, size_t size, const uint8_t secret[PTO_KEY_BYTES],
                      void **bytes_out, size_t *size_out, struct pto_error *error);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

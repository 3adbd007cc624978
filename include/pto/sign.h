/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures of artefacts: Ed25519. A signature proves that the holder of the secret key signed
 * exactly these bytes. A program that loads artefacts from others sets the public keys that it
 * trusts in `trusted_keys` of struct pto_load_options. docs/user/security.md describes what a
 * signature protects against.
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

/* Makes a pair of keys from random bytes. Keep the secret key private. */
int pto_key_create(uint8_t secret[PTO_KEY_BYTES], uint8_t key[PTO_KEY_BYTES]);

/* Computes the public key of a secret key. */
int pto_key_public(const uint8_t secret[PTO_KEY_BYTES], uint8_t key[PTO_KEY_BYTES]);

/*
 * Adds a signature to an artefact; the caller frees the new bytes with free(). A signature by the
 * same key is replaced. The identity and the hashes of the artefact do not change. PTO_EFORMAT: the
 * bytes are not an artefact, or are damaged. PTO_EINVAL: the artefact has 16 signatures. `error`
 * may be NULL.
 */
int pto_artefact_sign(const void *bytes, size_t size, const uint8_t secret[PTO_KEY_BYTES],
                      void **bytes_out, size_t *size_out, struct pto_error *error);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

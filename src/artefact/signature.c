/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and signatures (Ed25519), by libhogweed. */
#include "artefact/signature.h"

#include <nettle/eddsa.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "base/sized.h"
#include "artefact/artefact.h"

static_assert(PTO_KEY_BYTES == ED25519_KEY_SIZE, "must equal the size in libhogweed");
static_assert(SIGNATURE_BYTES == ED25519_SIGNATURE_SIZE, "must equal the size in libhogweed");

static const char magic[SIGNATURE_MAGIC_BYTES] = "PTOSIG1\n";

enum { MESSAGE_BYTES = SIGNATURE_MAGIC_BYTES + DIGEST_BYTES };

/*
 * Makes the message that is signed. Its magic distinguishes it from other data that was signed with
 * the same key.
 */
static void signature_make_message(const struct digest *artefact, uint8_t message[MESSAGE_BYTES])
{
    memcpy(message, magic, sizeof(magic));
    memcpy(message + sizeof(magic), artefact->byte, DIGEST_BYTES);
}

uint32_t signature_count(uint64_t bytes)
{
    return bytes % sizeof(struct signature) == 0 &&
                   bytes / sizeof(struct signature) <= PTO_SIGNATURES_MAX
               ? (uint32_t)(bytes / sizeof(struct signature))
               : 0;
}

bool signature_is_right(const struct signature *signature, const struct digest *artefact)
{
    uint8_t message[MESSAGE_BYTES];

    signature_make_message(artefact, message);
    return memcmp(signature->magic, magic, sizeof(magic)) == 0 && /* mutation: any-signature */
           ed25519_sha512_verify(signature->key, sizeof(message), message, signature->bytes) != 0;
}

int pto_key_public(const uint8_t secret[PTO_KEY_BYTES], uint8_t key[PTO_KEY_BYTES])
{
    if (secret == NULL || key == NULL)
        return PTO_EINVAL;
    ed25519_sha512_public_key(key, secret);
    return PTO_OK;
}

int pto_key_create(uint8_t secret[PTO_KEY_BYTES], uint8_t key[PTO_KEY_BYTES])
{
    if (secret == NULL || key == NULL)
        return PTO_EINVAL;
    if (getrandom(secret, PTO_KEY_BYTES, 0) != PTO_KEY_BYTES)
        return PTO_ESYSTEM;
    return pto_key_public(secret, key);
}

int pto_artefact_sign(const void *bytes, size_t size, const uint8_t secret[PTO_KEY_BYTES],
                      void **bytes_out, size_t *size_out, struct pto_error *error)
{
    uint8_t message[MESSAGE_BYTES];
    struct signature signature;
    struct digest digest;
    struct artefact a;
    uint8_t *made;
    size_t used;
    int status;

    if (bytes == NULL || secret == NULL || bytes_out == NULL || size_out == NULL ||
        !sized_is_valid(error))
        return error_setf(error, PTO_EINVAL, "%s", pto_strerror(PTO_EINVAL));
    status = artefact_read(bytes, size, &a, error);
    if (status < 0)
        return status;
    if (a.is_blob)
        return error_setf(error, PTO_EFORMAT,
                          "a chip callable cannot be signed; build an artefact");
    memcpy(signature.magic, magic, sizeof(magic));
    ed25519_sha512_public_key(signature.key, secret);
    used = size - a.signer_count * sizeof(signature);
    digest_of(bytes, used, &digest);
    signature_make_message(&digest, message);
    ed25519_sha512_sign(signature.key, secret, sizeof(message), message, signature.bytes);
    made = malloc(size + sizeof(signature));
    if (made == NULL)
        return error_setf(error, PTO_ENOMEM, "no memory for %zu bytes", size);
    memcpy(made, bytes, used);
    /* copies the signatures by other keys unchanged */
    for (uint32_t i = 0; i < a.signer_count; i++)
        if (memcmp(a.signers[i].key, signature.key, PTO_KEY_BYTES) != 0) {
            memcpy(made + used, &a.signers[i], sizeof(signature));
            used += sizeof(signature);
        }
    if (used - (size - a.signer_count * sizeof(signature)) ==
        PTO_SIGNATURES_MAX * sizeof(signature)) {
        free(made);
        return error_setf(error, PTO_EINVAL, "it has %d signatures, and there is no room for more",
                          PTO_SIGNATURES_MAX);
    }
    memcpy(made + used, &signature, sizeof(signature));
    *bytes_out = made;
    *size_out = used + sizeof(signature);
    return PTO_OK;
}

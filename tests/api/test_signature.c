/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures of artefacts: who has signed which bytes, and that nothing else is accepted. */

#include "artefact/artefact.h"
#include "pto/sign.h"
#include "tests/fixture/fixture.h"

static uint8_t secret[PTO_SIGNATURES_MAX + 1][PTO_KEY_BYTES];
static uint8_t key[PTO_SIGNATURES_MAX + 1][PTO_KEY_BYTES];
static char hex[PTO_SIGNATURES_MAX + 1][DIGEST_HEX];

static int make_keys(void **state)
{
    (void)state;
    for (uint32_t i = 0; i <= PTO_SIGNATURES_MAX; i++) {
        struct digest digest;

        if (pto_key_create(secret[i], key[i]) < 0)
            return -1;
        memcpy(digest.byte, key[i], PTO_KEY_BYTES);
        digest_to_hex(&digest, hex[i]);
    }
    return 0;
}

struct bytes {
    uint8_t *at;
    size_t size;
};

static struct bytes make_artefact(void)
{
    static const char object[] = "\x7f"
                                 "ELF of an orchestration";
    struct artefact_parts parts = { .name = "small",
                                    .platform = "a2a3sim",
                                    .orchestration = object,
                                    .orchestration_size = sizeof(object) };
    struct bytes file;

    assert_int_equal(artefact_make(&parts, (void **)&file.at, &file.size, NULL), PTO_OK);
    return file;
}

/* Replaces the bytes. */
static int sign(struct bytes *file, uint32_t who)
{
    struct bytes made;
    int status =
        pto_artefact_sign(file->at, file->size, secret[who], (void **)&made.at, &made.size, NULL);

    if (status < 0)
        return status;
    free(file->at);
    *file = made;
    return PTO_OK;
}

/* Loads an artefact while trusting the keys in a mask. */
static int load_for(const struct bytes *file, uint32_t trusted, struct pto_error *error,
                    uint32_t *signers_out)
{
    struct pto_callable_info info = { .size = sizeof(info) };
    struct pto_callable *callable = NULL;
    const char *keys[PTO_SIGNATURES_MAX + 1];
    struct pto_load_options options;
    int status;

    pto_load_options_init(&options);
    options.trusted_keys = keys;
    for (uint32_t i = 0; i <= PTO_SIGNATURES_MAX; i++)
        if ((trusted >> i & 1) != 0)
            keys[options.trusted_key_count++] = hex[i];
    status = pto_callable_load_memory(file->at, file->size, &options, &callable, error);
    if (status < 0) {
        assert_null(callable);
        return status;
    }
    assert_int_equal(pto_callable_info(callable, &info), PTO_OK);
    *signers_out = 0;
    for (uint32_t i = 0; i < info.signer_count; i++)
        for (uint32_t k = 0; k <= PTO_SIGNATURES_MAX; k++)
            if (memcmp(info.signers + i * PTO_KEY_BYTES, key[k], PTO_KEY_BYTES) == 0)
                *signers_out |= 1u << k;
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    return PTO_OK;
}

static void keys_are_those_of_the_standard(void **state)
{
    struct digest given, expected; /* RFC 8032, 7.1, test 1 */
    uint8_t made[PTO_KEY_BYTES];

    (void)state;
    assert_true(digest_from_hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
                                &given));
    assert_true(digest_from_hex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
                                &expected));
    assert_int_equal(pto_key_public(given.byte, made), PTO_OK);
    assert_memory_equal(made, expected.byte, PTO_KEY_BYTES);
    assert_memory_not_equal(secret[0], secret[1], PTO_KEY_BYTES);
    assert_int_equal(pto_key_public(NULL, made), PTO_EINVAL);
    assert_int_equal(pto_key_create(NULL, made), PTO_EINVAL);
}

static void only_a_trusted_signature_counts(void **state)
{
    struct pto_error error = { .size = sizeof(error) };
    struct bytes file = make_artefact(), plain = make_artefact();
    uint32_t signers;

    (void)state;
    assert_int_equal(load_for(&file, 0, &error, &signers), PTO_OK);
    assert_int_equal(signers, 0);
    assert_int_equal(load_for(&file, 1, &error, &signers), PTO_ESIGNATURE);
    assert_non_null(strstr(error.text, "the callable is not signed"));
    assert_int_equal(sign(&file, 0), PTO_OK);
    assert_memory_equal(file.at, plain.at, plain.size); /* and then the signature */
    assert_int_equal(load_for(&file, 0, &error, &signers), PTO_OK);
    assert_int_equal(signers, 1);
    assert_int_equal(load_for(&file, 1, &error, &signers), PTO_OK);
    assert_int_equal(load_for(&file, 7, &error, &signers), PTO_OK);
    assert_int_equal(load_for(&file, 6, &error, &signers), PTO_ESIGNATURE);
    assert_non_null(strstr(error.text, hex[0]));
    assert_int_equal(sign(&file, 1), PTO_OK);
    assert_int_equal(load_for(&file, 2, &error, &signers), PTO_OK);
    assert_int_equal(signers, 3);
    assert_int_equal(sign(&file, 0), PTO_OK); /* again: no third one */
    assert_int_equal(load_for(&file, 1, &error, &signers), PTO_OK);
    assert_int_equal(signers, 3);
    assert_int_equal(file.size, plain.size + 2 * 104);
    for (uint32_t i = 2; i < PTO_SIGNATURES_MAX; i++)
        assert_int_equal(sign(&file, i), PTO_OK);
    assert_int_equal(sign(&file, PTO_SIGNATURES_MAX), PTO_EINVAL);
    assert_int_equal(sign(&file, 3), PTO_OK);
    assert_int_equal(load_for(&file, 1u << 15, &error, &signers), PTO_OK);
    assert_int_equal(signers, 0xffff);
    free(file.at);
    free(plain.at);
}

/* Every change is detected, even if no particular key is required. */
static void no_change_survives_a_signature(void **state)
{
    struct bytes file = make_artefact(), other = make_artefact();
    struct pto_error error = { .size = sizeof(error) };
    size_t plain = file.size;
    uint32_t signers;

    (void)state;
    assert_int_equal(sign(&file, 0), PTO_OK);
    for (size_t i = 0; i < file.size; i++) {
        file.at[i] ^= (uint8_t)(1 << i % 8);
        assert_true(load_for(&file, 1, &error, &signers) < 0);
        if (i >= plain)
            assert_int_equal(load_for(&file, 0, &error, &signers), PTO_EFORMAT);
        file.at[i] ^= (uint8_t)(1 << i % 8);
    }
    file.at[plain - 1] ^= 1; /* correct hashes, but the signature of the unchanged artefact */
    artefact_seal(file.at, plain);
    assert_int_equal(load_for(&file, 1, &error, &signers), PTO_EFORMAT);
    assert_non_null(strstr(error.text, "signature 1 of it is invalid"));
    for (size_t cut = 1; cut < 104; cut++) {
        struct bytes part = { file.at, plain + cut };

        assert_int_equal(load_for(&part, 0, &error, &signers), PTO_EFORMAT);
    }
    assert_int_equal(sign(&other, 1), PTO_OK); /* another public key with our signature */
    memcpy(other.at + plain + 8, key[0], PTO_KEY_BYTES);
    assert_int_equal(load_for(&other, 1, &error, &signers), PTO_EFORMAT);
    free(file.at);
    free(other.at);
}

static void wrong_uses_are_refused(void **state)
{
    struct pto_error error = { .size = sizeof(error) };
    const char *bad[] = { "d75a", NULL };
    struct bytes file = make_artefact();
    struct pto_callable *callable;
    struct pto_load_options options;
    void *made;
    size_t size;

    (void)state;
    pto_load_options_init(&options);
    options.trusted_keys = bad;
    options.trusted_key_count = 1;
    assert_int_equal(pto_callable_load_memory(file.at, file.size, &options, &callable, &error),
                     PTO_EINVAL);
    assert_non_null(strstr(error.text, "'d75a' is not a public key"));
    options.trusted_key_count = 2;
    assert_int_equal(pto_callable_load_memory(file.at, file.size, &options, &callable, &error),
                     PTO_EINVAL);
    options.trusted_keys = NULL;
    assert_int_equal(pto_callable_load_memory(file.at, file.size, &options, &callable, &error),
                     PTO_EINVAL);
    assert_int_equal(pto_artefact_sign("text", 4, secret[0], &made, &size, &error), PTO_EFORMAT);
    assert_int_equal(pto_artefact_sign(file.at, file.size - 1, secret[0], &made, &size, &error),
                     PTO_EFORMAT);
    assert_int_equal(pto_artefact_sign(file.at, file.size, NULL, &made, &size, &error), PTO_EINVAL);
    free(file.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_those_of_the_standard),
        cmocka_unit_test(only_a_trusted_signature_counts),
        cmocka_unit_test(no_change_survives_a_signature),
        cmocka_unit_test(wrong_uses_are_refused),
    };

    return cmocka_run_group_tests(tests, make_keys, NULL);
}

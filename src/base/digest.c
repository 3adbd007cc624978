/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"

#include <nettle/hmac.h>
#include <string.h>

void digest_begin(struct digest_state *state)
{
    sha256_init(&state->context);
}

void digest_add(struct digest_state *state, const void *bytes, size_t size)
{
    if (size != 0)
        sha256_update(&state->context, size, bytes);
}

void digest_add_text(struct digest_state *state, const char *text)
{
    uint64_t length = text != NULL ? strlen(text) : UINT64_MAX;

    digest_add(state, &length, sizeof(length));
    if (text != NULL)
        digest_add(state, text, length);
}

void digest_end(struct digest_state *state, struct digest *out)
{
    sha256_digest(&state->context, DIGEST_BYTES, out->byte);
}

void digest_with_key(const struct digest *key, const struct digest_part *parts, uint32_t count,
                     struct digest *out)
{
    struct hmac_sha256_ctx context;

    hmac_sha256_set_key(&context, sizeof(key->byte), key->byte);
    for (uint32_t i = 0; i < count; i++)
        if (parts[i].size != 0)
            hmac_sha256_update(&context, parts[i].size, parts[i].bytes);
    hmac_sha256_digest(&context, DIGEST_BYTES, out->byte);
}

void digest_of(const void *bytes, size_t size, struct digest *out)
{
    struct digest_state state;

    digest_begin(&state);
    digest_add(&state, bytes, size);
    digest_end(&state, out);
}

bool digest_is_equal(const struct digest *a, const struct digest *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

void digest_to_hex(const struct digest *digest, char hex[DIGEST_HEX])
{
    for (int i = 0; i < DIGEST_BYTES; i++) {
        hex[2 * i] = "0123456789abcdef"[digest->byte[i] >> 4];
        hex[2 * i + 1] = "0123456789abcdef"[digest->byte[i] & 15];
    }
    hex[DIGEST_HEX - 1] = '\0';
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool digest_from_hex(const char *hex, struct digest *out)
{
    for (int i = 0; i < DIGEST_BYTES; i++) {
        int high = digit_of(hex[2 * i]);
        int low = high < 0 ? -1 : digit_of(hex[2 * i + 1]);

        if (low < 0)
            return false;
        out->byte[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

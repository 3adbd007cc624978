/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files with keys, for people: a line is "pto-public-key" or "pto-secret-key" and
 * 64 hexadecimal digits; empty lines and those that begin with # do not count.
 */
#ifndef PTO_KEY_FILE_H
#define PTO_KEY_FILE_H

#include "pto/sign.h"
#include "base/error.h"

enum { KEY_HEX = 2 * PTO_KEY_BYTES + 1, KEYS_MAX = 64 };

struct key_list {
    uint32_t count;
    const char *text[KEYS_MAX]; /* each one of `hex` */
    char hex[KEYS_MAX][KEY_HEX];
};

/* `what` is a file with public keys, or one in digits. */
int cli_keys_read(const char *what, struct key_list *keys, struct pto_error *error);
/* Nobody else may be able to read the file. */
int cli_keys_read_secret(const char *path, uint8_t secret[PTO_KEY_BYTES], struct pto_error *error);
/* NAME.key for its owner only, and NAME.pub; neither may exist. */
int cli_keys_make(const char *name, struct pto_error *error);

/* Of a key, or of a digest, which has as many bytes. */
const char *cli_hex(const uint8_t bytes[PTO_KEY_BYTES], char hex[KEY_HEX]);

#endif

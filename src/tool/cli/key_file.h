/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files with keys, as text: each line is "pto-public-key" or "pto-secret-key" and 64 hexadecimal
 * digits. Empty lines and lines that begin with # are ignored.
 */
#ifndef PTO_KEY_FILE_H
#define PTO_KEY_FILE_H

#include "pto/sign.h"
#include "base/error.h"

enum { KEY_HEX = 2 * PTO_KEY_BYTES + 1, KEYS_MAX = 64 };

struct key_list {
    uint32_t count;
    const char *text[KEYS_MAX]; /* texts of the keys, which are stored in `hex` */
    char hex[KEYS_MAX][KEY_HEX];
};

/* Reads public keys. `what` is the path of a file, or one key in hexadecimal. */
int cli_keys_read(const char *what, struct key_list *keys, struct pto_error *error);
/* Reads a secret key; refuses a file that other users can read. */
int cli_keys_read_secret(const char *path, uint8_t secret[PTO_KEY_BYTES], struct pto_error *error);
/* Makes NAME.key, readable by its owner only, and NAME.pub; refuses to overwrite either. */
int cli_keys_make(const char *name, struct pto_error *error);

/* Formats a key, or a digest, which has the same size. */
const char *cli_hex(const uint8_t bytes[PTO_KEY_BYTES], char hex[KEY_HEX]);

#endif

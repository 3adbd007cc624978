/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and creates key files. */
#include "tool/cli/key_file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pto/pto.h"
#include "base/file.h"
#include "pto/build.h"

enum { KEY_FILE_MAX = 1 << 16 };

static const char public_word[] = "pto-public-key ";
static const char secret_word[] = "pto-secret-key ";

_Static_assert((int)PTO_DIGEST_BYTES == (int)PTO_KEY_BYTES, "a key has the size of a digest");

const char *cli_hex(const uint8_t bytes[PTO_KEY_BYTES], char hex[KEY_HEX])
{
    for (int i = 0; i < PTO_KEY_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    return hex;
}

static bool is_key(const char *text)
{
    return strspn(text, "0123456789abcdef") == KEY_HEX - 1;
}

static void add_key(struct key_list *keys, const char *digits)
{
    char *hex = keys->hex[keys->count];

    memcpy(hex, digits, KEY_HEX - 1);
    hex[KEY_HEX - 1] = '\0';
    keys->text[keys->count++] = hex;
}

/* Reads the keys of a file whose lines begin with `word`; any other line is an error. */
static int key_file_read_lines(const char *path, const char *word, struct key_list *keys,
                               struct pto_error *error)
{
    uint32_t line = 0;
    char *bytes;
    size_t size;
    int status = file_load(path, KEY_FILE_MAX, &bytes, &size, error);

    if (status < 0)
        return status;
    for (char *at = bytes; *at != '\0' && status == PTO_OK;) {
        size_t length = strcspn(at, "\r\n");
        bool is_end = at[length] == '\0';

        at[length] = '\0';
        line++;
        if (at[0] != '\0' && at[0] != '#') {
            bool is_good = strncmp(at, word, strlen(word)) == 0 && is_key(at + strlen(word)) &&
                           length == strlen(word) + KEY_HEX - 1;

            if (is_good && keys->count < KEYS_MAX)
                add_key(keys, at + strlen(word));
            else if (is_good)
                status = error_setf(error, PTO_EINVAL, "%.1000s:%u: more than %d keys", path, line,
                                    KEYS_MAX);
            else
                status = error_setf(error, PTO_EINVAL,
                                    "%.1000s:%u: expected '%s' and 64 hexadecimal digits", path,
                                    line, word);
        }
        at += length + !is_end;
    }
    free(bytes);
    if (status == PTO_OK && keys->count == 0)
        status = error_setf(error, PTO_EINVAL, "%.1000s has no '%s' line", path, word);
    return status;
}

int cli_keys_read(const char *what, struct key_list *keys, struct pto_error *error)
{
    keys->count = 0;
    if (!is_key(what) || what[KEY_HEX - 1] != '\0')
        return key_file_read_lines(what, public_word, keys, error);
    add_key(keys, what);
    return PTO_OK;
}

int cli_keys_read_secret(const char *path, uint8_t secret[PTO_KEY_BYTES], struct pto_error *error)
{
    struct key_list *keys = calloc(1, sizeof(*keys));
    struct stat about;
    int status;

    if (keys == NULL)
        return error_setf(error, PTO_ENOMEM, "out of memory");
    if (stat(path, &about) == 0 && (about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        status = error_setf(error, PTO_EINVAL,
                            "other users can read %.1000s; make a new key, or run `chmod 600` on "
                            "the file if only you have read it",
                            path);
    else
        status = key_file_read_lines(path, secret_word, keys, error);
    for (int i = 0; i < PTO_KEY_BYTES && status == PTO_OK; i++) {
        char pair[3] = { keys->hex[0][2 * i], keys->hex[0][2 * i + 1], '\0' };

        secret[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    explicit_bzero(keys, sizeof(*keys));
    free(keys);
    return status;
}

static int write_key(const char *path, const char *word, const uint8_t key[PTO_KEY_BYTES],
                     struct pto_error *error)
{
    char hex[KEY_HEX], text[128];
    int status;

    if (access(path, F_OK) == 0)
        return error_setf(error, PTO_EINVAL, "%.1000s already exists", path);
    snprintf(text, sizeof(text), "%s%s\n", word, cli_hex(key, hex));
    status = pto_file_write(path, text, strlen(text), error);
    explicit_bzero(hex, sizeof(hex));
    explicit_bzero(text, sizeof(text));
    return status;
}

int cli_keys_make(const char *name, struct pto_error *error)
{
    uint8_t secret[PTO_KEY_BYTES], key[PTO_KEY_BYTES];
    char path[PATH_MAX];
    mode_t mask;
    int status = pto_key_create(secret, key);

    if (status < 0)
        return error_setf(error, status, "cannot get random bytes for a key");
    if (snprintf(path, sizeof(path), "%s.pub", name) >= (int)sizeof(path))
        return error_setf(error, PTO_EINVAL, "the path is too long");
    status = write_key(path, public_word, key, error);
    if (status < 0)
        return status;
    snprintf(path, sizeof(path), "%.4000s.key", name);
    mask = umask(077);
    status = write_key(path, secret_word, secret, error);
    umask(mask);
    explicit_bzero(secret, sizeof(secret));
    /* deletes the public key as well, so that a key pair is either complete or absent */
    if (status < 0) {
        snprintf(path, sizeof(path), "%.4000s.pub", name);
        (void)unlink(path);
    }
    return status;
}

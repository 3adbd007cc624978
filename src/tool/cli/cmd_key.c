/* SPDX-License-Identifier: Apache-2.0 */
/* `pto key` makes and checks job keys, by which ranks on several hosts trust each other. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/job_key.h"
#include "tool/cli/commands.h"
#include "tool/scene/terminal.h"

enum { PRINT_DIGITS = 16 };

struct request {
    const char *new_file;
};

static int do_key(void *context, int count, char **operands);

#define AT(member) .at = offsetof(struct request, member)

static const struct cli_option options[] = {
    { "new", 0, "FILE", "make a key, in a new file that only this user can read", CLI_TEXT,
      AT(new_file) },
    CLI_OPTIONS_END,
};

const struct cli_command cmd_key = {
    .name = "key",
    .summary = "make a job key, or check one and show its fingerprint",
    .synopsis = "--new FILE\n"
                "FILE",
    .description =
        "A job key is the secret by which the ranks of a job on several hosts prove to each other "
        "that they belong to it: 64 hexadecimal digits, in a regular file of this user with the "
        "mode 600 or 400. `pto launch --hosts` draws one for each job. Otherwise PTO_KEY_FILE "
        "names "
        "the file on each host, which srun and mpirun need if others can read or change the "
        "messages of their network; without a key ranks meet on loopback only.",
    .notes =
        "Prints the fingerprint, which is equal for copies of a key and does not reveal it. The "
        "exit code is 1 if the file is not the key file of this user.",
    .options = options,
    .operands_max = 1,
    .request_bytes = sizeof(struct request),
    .run = do_key,
};

/* Formats the beginning of a digest of the key. */
static void make_fingerprint(const struct job_key *key, char text[PRINT_DIGITS + 1])
{
    char hex[DIGEST_HEX];
    struct digest_state state;
    struct digest digest;

    digest_begin(&state);
    /* a prefix, so that this digest equals no other digest of the key */
    digest_add_text(&state, "pto job key");
    digest_add(&state, key->byte, sizeof(key->byte));
    digest_end(&state, &digest);
    digest_to_hex(&digest, hex);
    snprintf(text, PRINT_DIGITS + 1, "%.*s", PRINT_DIGITS, hex);
}

/* Writes a key to a new file. It never replaces one, because other hosts may have copies. */
static int key_make_file(const char *path, struct pto_error *error)
{
    char text[JOB_KEY_TEXT_BYTES];
    struct job_key key;
    int file, status = job_key_make(&key, error);

    if (status < 0)
        return status;
    file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return error_setf(error, PTO_ESYSTEM, "%.1000s: %s", path, strerror(errno));
    job_key_format(&key, text);
    if (write(file, text, sizeof(text)) != (ssize_t)sizeof(text) || fsync(file) != 0) {
        status = error_setf(error, PTO_ESYSTEM, "%.1000s: %s", path, strerror(errno));
        (void)unlink(path);
    }
    close(file);
    explicit_bzero(text, sizeof(text));
    explicit_bzero(&key, sizeof(key));
    return status;
}

static int do_key(void *context, int count, char **operands)
{
    const struct request *request = context;
    struct pto_error error = { .size = sizeof(error) };
    const char *path = request->new_file != NULL ? request->new_file : operands[0];
    char print[PRINT_DIGITS + 1];
    struct job_key key;
    int status = PTO_OK;

    if ((request->new_file != NULL) == (count == 1)) {
        fprintf(stderr, "pto key: name a key file, or a new one with --new\n");
        cli_print_usage(stderr, &cmd_key);
        return EXIT_USAGE;
    }
    if (request->new_file != NULL)
        status = key_make_file(path, &error);
    if (status == PTO_OK)
        status = job_key_read_file(path, &key, &error);
    if (status < 0) {
        terminal_printf(stderr, "pto key: %s\n", error.text);
        return EXIT_FAILED;
    }
    make_fingerprint(&key, print);
    explicit_bzero(&key, sizeof(key));
    terminal_printf(stdout, "%s  %s\n", print, path);
    return EXIT_OK;
}

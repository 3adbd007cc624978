/* SPDX-License-Identifier: Apache-2.0 */
/* `pto sign` makes keys and signs artefacts with them. */
#include <stdlib.h>

#include "tool/cli/commands.h"
#include "tool/cli/key_file.h"
#include "base/file.h"
#include "pto/build.h"
#include "tool/scene/terminal.h"

enum { ARTEFACT_MAX = 1 << 30 };

struct request {
    const char *new_key;
    const char *key;
    const char *output;
};

static int do_sign(void *context, int count, char **operands);

#define AT(member) .at = offsetof(struct request, member)

static const struct cli_option options[] = {
    { "key", 0, "FILE", "secret key", CLI_TEXT, AT(key) },
    { NULL, 'o', "FILE", "output file (default: the artefact itself)", CLI_TEXT, AT(output) },
    { "new-key", 0, "NAME", "make the secret key NAME.key and the public key NAME.pub", CLI_TEXT,
      AT(new_key) },
    CLI_OPTIONS_END,
};

const struct cli_command cmd_sign = {
    .name = "sign",
    .summary = "sign an artefact, or make a key pair",
    .synopsis = "FILE.ptoc --key FILE [-o FILE]\n"
                "--new-key NAME",
    .description =
        "Adds a signature (Ed25519) to an artefact. With the public key a user can require it: by "
        "--require-signature of `pto run` and `pto inspect`, or in a program (pto/sign.h).",
    .options = options,
    .operands_max = 1,
    .request_bytes = sizeof(struct request),
    .run = do_sign,
};

static int sign_file(const struct request *request, const char *path, struct pto_error *error)
{
    uint8_t secret[PTO_KEY_BYTES];
    char *bytes = NULL;
    void *made = NULL;
    size_t size = 0, made_size = 0;
    int status = cli_keys_read_secret(request->key, secret, error);

    if (status == PTO_OK)
        status = file_load(path, ARTEFACT_MAX, &bytes, &size, error);
    if (status == PTO_OK) {
        status = pto_artefact_sign(bytes, size, secret, &made, &made_size, error);
        if (status < 0)
            error_setf(error, status, "%s: %s", path, error->text);
    }
    explicit_bzero(secret, sizeof(secret));
    if (status == PTO_OK)
        status = pto_file_write(request->output != NULL ? request->output : path, made, made_size,
                                error);
    free(bytes);
    free(made);
    return status;
}

static int do_sign(void *context, int count, char **operands)
{
    const struct request *request = context;
    struct pto_error error = { .size = sizeof(error) };
    bool is_new = request->new_key != NULL;

    if (is_new == (count != 0) || is_new == (request->key != NULL) ||
        (is_new && request->output != NULL)) {
        fprintf(stderr, "pto sign: name an artefact and its --key, or a --new-key\n");
        cli_print_usage(stderr, &cmd_sign);
        return EXIT_USAGE;
    }
    if ((is_new ? cli_keys_make(request->new_key, &error)
                : sign_file(request, operands[0], &error)) < 0) {
        fprintf(stderr, "pto sign: %s\n", error.text);
        return EXIT_FAILED;
    }
    if (is_new)
        terminal_printf(
            stdout,
            "made the secret key %s.key and the public key %s.pub; keep the first to yourself\n",
            request->new_key, request->new_key);
    else
        terminal_printf(stdout, "signed %s\n",
                        request->output != NULL ? request->output : operands[0]);
    return EXIT_OK;
}

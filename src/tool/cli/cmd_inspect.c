/* SPDX-License-Identifier: Apache-2.0 */
/* `pto inspect` prints the contents of an artefact, after the same checks as loading it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tool/cli/commands.h"
#include "tool/cli/json.h"
#include "tool/cli/key_file.h"
#include "pto/pto.h"
#include "tool/scene/terminal.h"

enum { HEX_SHORT = 16 };

struct request {
    const char *path;
    const char *expect_isa;
    const char *require_signature;
    bool has_files;
    bool is_json;
};

static int do_inspect(void *context, int count, char **operands);
static int load_checked(const struct request *request, struct pto_callable **callable_out,
                        uint64_t *bytes_out);
static void print_artefact_table(const struct request *request, const struct pto_callable *callable,
                                 uint64_t bytes);
static void print_artefact_json(const struct request *request, const struct pto_callable *callable,
                                uint64_t bytes);

static const struct cli_option options[] = {
    { "files", 0, NULL, "also list the source files, with their hashes", CLI_FLAG,
      .at = offsetof(struct request, has_files) },
    { "expect-isa", 0, "WHAT",
      "fail unless the artefact was made with this tile library: a revision, or the library's "
      "folder, whose headers are compared; an artefact made without one passes",
      CLI_TEXT, .at = offsetof(struct request, expect_isa) },
    CLI_OPTION_SIGNATURE(struct request, require_signature),
    CLI_OPTION_JSON(struct request, is_json, "a table; includes the files"),
    CLI_OPTIONS_END,
};

const struct cli_command cmd_inspect = {
    .name = "inspect",
    .summary = "print the contents of an artefact",
    .synopsis = "FILE [OPTION...]",
    .description = "Prints the contents of an artefact (.ptoc) or a chip callable, after the "
                   "checks that loading it makes. None of its code is run.",
    .options = options,
    .operands_min = 1,
    .operands_max = 1,
    .request_bytes = sizeof(struct request),
    .run = do_inspect,
};

static int do_inspect(void *context, int count, char **operands)
{
    struct request *request = context;
    struct pto_callable *callable = NULL;
    uint64_t bytes = 0;
    int code;

    (void)count;
    request->path = operands[0];
    code = load_checked(request, &callable, &bytes);
    if (code != EXIT_OK)
        return code;
    if (request->is_json)
        print_artefact_json(request, callable, bytes);
    else
        print_artefact_table(request, callable, bytes);
    (void)pto_callable_destroy(callable);
    return EXIT_OK;
}

/* ---- loading ---- */

static int load_checked(const struct request *request, struct pto_callable **callable_out,
                        uint64_t *bytes_out)
{
    struct pto_error error = { .size = sizeof(error) };
    struct pto_load_options options;
    struct key_list keys = { .count = 0 };
    struct stat about;

    if (request->require_signature != NULL &&
        cli_keys_read(request->require_signature, &keys, &error) < 0) {
        fprintf(stderr, "pto inspect: --require-signature: %s\n", error.text);
        return EXIT_FAILED;
    }
    pto_load_options_init(&options);
    options.expect_isa = request->expect_isa;
    options.trusted_keys = keys.text;
    options.trusted_key_count = keys.count;
    if (pto_callable_load_file(request->path, &options, callable_out, &error) >= 0) {
        *bytes_out = stat(request->path, &about) == 0 ? (uint64_t)about.st_size : 0;
        return EXIT_OK;
    }
    fprintf(stderr, "pto inspect: %s\n", error.text);
    return EXIT_FAILED;
}

/* ---- words ---- */

static const char *kind_of(const struct pto_callable_info *info)
{
    return info->kind == PTO_CALLABLE_BLOB ? "chip callable" : "artefact";
}

static void print_field(const char *name, const char *text)
{
    printf("  %-14s ", name);
    terminal_print(stdout, text != NULL && text[0] != '\0' ? text : "-", true);
    putchar('\n');
}

/* ---- the table ---- */

static void print_kernels(const struct pto_callable *callable, uint32_t count)
{
    struct pto_kernel_info kernel = { .size = sizeof(kernel) };
    char hex[KEY_HEX];

    printf("  %-14s %u\n", "kernels", count);
    if (count != 0)
        printf("    %4s  %-4s %10s  %-16s  %s\n", "id", "core", "bytes", "sha256", "name");
    for (uint32_t i = 0; i < count; i++) {
        (void)pto_callable_kernel(callable, i, &kernel);
        printf("    %4u  %-4s %10" PRIu64 "  %.*s  ", kernel.func_id, pto_core_name(kernel.core),
               kernel.bytes, HEX_SHORT, cli_hex(kernel.digest, hex));
        terminal_print(stdout, kernel.name, true);
        putchar('\n');
    }
}

static void inspect_print_files(const struct request *request, const struct pto_callable *callable,
                                uint32_t count)
{
    struct pto_file_info file = { .size = sizeof(file) };
    uint32_t isa_count = 0;
    char hex[KEY_HEX];

    for (uint32_t i = 0; i < count; i++) {
        (void)pto_callable_file(callable, i, &file);
        isa_count += file.is_isa;
    }
    printf("  %-14s %u files, %u of them of the tile library%s\n", "made of", count, isa_count,
           count != 0 && !request->has_files ? "; --files lists them" : "");
    for (uint32_t i = 0; i < count && request->has_files; i++) {
        (void)pto_callable_file(callable, i, &file);
        printf("    %.*s  %-3s  ", HEX_SHORT, cli_hex(file.digest, hex), file.is_isa ? "isa" : "");
        terminal_print(stdout, file.path, true);
        putchar('\n');
    }
}

/* Cuts off and returns the next line of the description of the arguments, or NULL. */
static char *inspect_next_line(char **at)
{
    char *line = *at;

    if (line == NULL || line[0] == '\0')
        return NULL;
    *at = strchr(line, '\n');
    if (*at != NULL)
        *(*at)++ = '\0';
    return line;
}

static void print_arguments(const struct pto_callable_info *info)
{
    char *copy = info->arguments != NULL ? strdup(info->arguments) : NULL;
    char *at = copy, *line;

    for (uint32_t i = 0; i < info->signature_count && (line = inspect_next_line(&at)) != NULL;
         i++) {
        printf("    %4u  %-6s  ", i, pto_direction_name(info->signature[i]));
        terminal_print(stdout, line, true);
        printf("\n");
    }
    free(copy);
}

static void print_artefact_table(const struct request *request, const struct pto_callable *callable,
                                 uint64_t bytes)
{
    struct pto_callable_info info = { .size = sizeof(info) };
    char hex[KEY_HEX];

    (void)pto_callable_info(callable, &info);
    printf("%s", terminal_code(stdout, TERMINAL_BOLD));
    terminal_print(stdout, request->path, true);
    printf("%s  %s, %" PRIu64 " bytes\n", terminal_code(stdout, TERMINAL_PLAIN), kind_of(&info),
           bytes);
    print_field("name", info.name);
    printf("  %-14s sha256:%s\n", "identity", cli_hex(info.digest, hex));
    print_field("platform", info.platform != NULL ? info.platform : "any");
    print_field("mode", pto_mode_name(info.mode));
    printf("  %-14s %u\n", "abi", info.abi);
    print_field("entry", info.entry);
    print_field("config", info.config);
    printf("  %-14s", "signature");
    for (uint32_t i = 0; i < info.signature_count; i++)
        printf(" %s", pto_direction_name(info.signature[i]));
    printf("%s\n", info.signature_count == 0 ? " - (the caller's memory is used)" : "");
    print_arguments(&info);
    print_field("compiler", info.compiler);
    print_field("tile library", info.isa_revision);
    printf("  %-14s %" PRIu64 " bytes, %.*s\n", "orchestration", info.orchestration_bytes,
           HEX_SHORT, cli_hex(info.orchestration_digest, hex));
    for (uint32_t i = 0; i < info.signer_count; i++)
        print_field(i == 0 ? "signed by" : "", cli_hex(info.signers + i * PTO_KEY_BYTES, hex));
    if (info.signer_count == 0)
        print_field("signed by", "nobody");
    print_kernels(callable, info.kernel_count);
    inspect_print_files(request, callable, info.file_count);
}

/* ---- JSON ---- */

static void print_json_kernels(struct json *j, const struct pto_callable *callable, uint32_t count)
{
    struct pto_kernel_info kernel = { .size = sizeof(kernel) };
    char hex[KEY_HEX];

    cli_json_open(j, "kernels", '[');
    for (uint32_t i = 0; i < count; i++) {
        (void)pto_callable_kernel(callable, i, &kernel);
        cli_json_open(j, NULL, '{');
        cli_json_integer(j, "func_id", kernel.func_id);
        cli_json_string(j, "name", kernel.name);
        cli_json_string(j, "core", pto_core_name(kernel.core));
        cli_json_integer(j, "bytes", kernel.bytes);
        cli_json_string(j, "sha256", cli_hex(kernel.digest, hex));
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

static void print_json_files(struct json *j, const struct pto_callable *callable, uint32_t count)
{
    struct pto_file_info file = { .size = sizeof(file) };
    char hex[KEY_HEX];

    cli_json_open(j, "files", '[');
    for (uint32_t i = 0; i < count; i++) {
        (void)pto_callable_file(callable, i, &file);
        cli_json_open(j, NULL, '{');
        cli_json_string(j, "path", file.path);
        cli_json_bool(j, "isa", file.is_isa);
        cli_json_string(j, "sha256", cli_hex(file.digest, hex));
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

static void print_json_arguments(struct json *j, const struct pto_callable_info *info)
{
    char *copy = info->arguments != NULL ? strdup(info->arguments) : NULL;
    char *at = copy, *line, *rest;

    cli_json_open(j, "arguments", '[');
    for (uint32_t i = 0; i < info->signature_count && (line = inspect_next_line(&at)) != NULL;
         i++) {
        cli_json_open(j, NULL, '{');
        cli_json_string(j, "direction", pto_direction_name(info->signature[i]));
        cli_json_string(j, "name", strtok_r(line, " ", &rest));
        cli_json_string(j, "type", strtok_r(NULL, " ", &rest));
        cli_json_string(j, "shape", strtok_r(NULL, " ", &rest));
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
    free(copy);
}

static void print_artefact_json(const struct request *request, const struct pto_callable *callable,
                                uint64_t bytes)
{
    struct pto_callable_info info = { .size = sizeof(info) };
    struct json j = cli_json_start(stdout);
    char hex[KEY_HEX];

    (void)pto_callable_info(callable, &info);
    cli_json_open(&j, NULL, '{');
    cli_json_string(&j, "version", pto_version());
    cli_json_string(&j, "file", request->path);
    cli_json_string(&j, "kind", kind_of(&info));
    cli_json_integer(&j, "bytes", bytes);
    cli_json_string(&j, "name", info.name);
    cli_json_string(&j, "sha256", cli_hex(info.digest, hex));
    cli_json_string(&j, "platform", info.platform);
    cli_json_string(&j, "mode", pto_mode_name(info.mode));
    cli_json_integer(&j, "abi", info.abi);
    cli_json_string(&j, "entry", info.entry);
    cli_json_string(&j, "config", info.config);
    cli_json_open(&j, "signature", '[');
    for (uint32_t i = 0; i < info.signature_count; i++)
        cli_json_string(&j, NULL, pto_direction_name(info.signature[i]));
    cli_json_close(&j, ']');
    print_json_arguments(&j, &info);
    cli_json_string(&j, "compiler", info.compiler);
    cli_json_string(&j, "isa_revision", info.isa_revision);
    cli_json_open(&j, "orchestration", '{');
    cli_json_integer(&j, "bytes", info.orchestration_bytes);
    cli_json_string(&j, "sha256", cli_hex(info.orchestration_digest, hex));
    cli_json_close(&j, '}');
    cli_json_open(&j, "signed_by", '[');
    for (uint32_t i = 0; i < info.signer_count; i++)
        cli_json_string(&j, NULL, cli_hex(info.signers + i * PTO_KEY_BYTES, hex));
    cli_json_close(&j, ']');
    print_json_kernels(&j, callable, info.kernel_count);
    print_json_files(&j, callable, info.file_count);
    cli_json_close(&j, '}');
}

/* SPDX-License-Identifier: Apache-2.0 */
/* `pto cache` shows, verifies and clears the store of compiled objects. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tool/cli/commands.h"
#include "tool/cli/json.h"
#include "pto/store.h"
#include "tool/scene/terminal.h"

struct arguments {
    const char *action;
    const char *folder; /* folder of the store; NULL: the default store of this user */
    bool is_json;
};

static int do_cache(void *context, int count, char **operands);
static void print_damaged(void *context, const char *path);
static void print_store(const struct arguments *arguments, const struct pto_store_info *info);
static void print_store_json(const struct arguments *arguments, const struct pto_store_info *info);

static const struct cli_option options[] = {
    { "store", 0, "DIR",
      "folder of the store (default: $PTO_STORE, $XDG_CACHE_HOME/pto or ~/.cache/pto)", CLI_TEXT,
      .at = offsetof(struct arguments, folder) },
    CLI_OPTION_JSON(struct arguments, is_json, "lines"),
    CLI_OPTIONS_END,
};

const struct cli_command cmd_cache = {
    .name = "cache",
    .summary = "show, verify or clear the store of compiled objects",
    .synopsis = "[show|verify|clear] [OPTION...]",
    .description =
        "The store keeps compiled objects, so that unchanged sources are not compiled again.\n\n  "
        "show     print its folder, size and limit (default)\n  verify   read all objects and "
        "remove damaged ones; the exit code is 1\n           if there were any\n  clear    remove "
        "all objects; concurrent builds are not disturbed",
    .notes = "PTO_STORE_MAX limits the size of the store (such as 500M; 2G by default); the least "
             "recently used objects are removed first.",
    .options = options,
    .operands_max = 1,
    .request_bytes = sizeof(struct arguments),
    .run = do_cache,
};

static bool is_action(const char *text)
{
    return strcmp(text, "show") == 0 || strcmp(text, "verify") == 0 || strcmp(text, "clear") == 0;
}

static int do_cache(void *context, int count, char **operands)
{
    struct arguments *arguments = context;
    struct pto_store_info info;
    struct pto_error error = { .size = sizeof(error) };
    int status;

    arguments->action = count != 0 ? operands[0] : "show";
    if (!is_action(arguments->action)) {
        terminal_printf(stderr, "pto cache: unknown action '%s'; choose show, verify or clear\n",
                        arguments->action);
        return EXIT_USAGE;
    }
    pto_store_info_init(&info);
    if (strcmp(arguments->action, "verify") == 0)
        status = pto_store_verify(arguments->folder, &info, print_damaged, NULL, &error);
    else if (strcmp(arguments->action, "clear") == 0)
        status = pto_store_clear(arguments->folder, &info, &error);
    else
        status = pto_store_show(arguments->folder, &info, &error);
    if (status < 0) {
        terminal_printf(stderr, "pto cache: %s\n", error.text);
        return EXIT_FAILED;
    }
    if (arguments->is_json)
        print_store_json(arguments, &info);
    else
        print_store(arguments, &info);
    return info.damaged == 0 ? EXIT_OK : EXIT_FAILED;
}

static void print_damaged(void *context, const char *path)
{
    (void)context;
    terminal_printf(stderr, "damaged: %s\n", path);
}

/* Formats a size for people, as "1.2 MiB" for 1234567, in the units of PTO_STORE_MAX. */
static const char *size_text(uint64_t bytes, char text[32])
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
    double value = (double)bytes;
    int unit = 0;

    while (value >= 1024 && unit < 4) {
        value /= 1024;
        unit++;
    }
    snprintf(text, 32, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return text;
}

static void print_count(const char *name, uint64_t count, uint64_t bytes)
{
    char text[32];

    printf("  %-10s %8" PRIu64 "   %s\n", name, count, size_text(bytes, text));
}

static void print_store(const struct arguments *arguments, const struct pto_store_info *info)
{
    uint64_t bytes = info->entry_bytes + info->name_bytes + info->leftover_bytes;
    char text[32], limit[32];

    printf("%s%s%s%s\n", terminal_code(stdout, TERMINAL_BOLD), info->folder,
           terminal_code(stdout, TERMINAL_PLAIN),
           !info->is_present    ? "  (does not exist yet)"
           : !info->is_writable ? "  (read-only; no objects are added)"
                                : "");
    if (info->refusal[0] != '\0')
        printf("  %s\n", info->refusal);
    if (strcmp(arguments->action, "clear") == 0) {
        printf("  %" PRIu64 " files removed, %s\n", info->removed, size_text(bytes, text));
        return;
    }
    print_count("entries", info->entries, info->entry_bytes);
    print_count("names", info->names, info->name_bytes);
    if (info->leftovers != 0)
        print_count("leftovers", info->leftovers, info->leftover_bytes);
    printf("  %-10s %8s   %s of %s\n", "together", "", size_text(bytes, text),
           size_text(info->max_bytes, limit));
    if (strcmp(arguments->action, "verify") == 0)
        printf("  %" PRIu64 " damaged, %" PRIu64 " files removed\n", info->damaged, info->removed);
}

static void print_store_json(const struct arguments *arguments, const struct pto_store_info *info)
{
    struct json j = cli_json_start(stdout);

    cli_json_open(&j, NULL, '{');
    cli_json_string(&j, "action", arguments->action);
    cli_json_string(&j, "folder", info->folder);
    cli_json_bool(&j, "present", info->is_present);
    cli_json_bool(&j, "writable", info->is_writable);
    cli_json_string(&j, "refusal", info->refusal[0] != '\0' ? info->refusal : NULL);
    cli_json_integer(&j, "max_bytes", info->max_bytes);
    cli_json_integer(&j, "entries", info->entries);
    cli_json_integer(&j, "entry_bytes", info->entry_bytes);
    cli_json_integer(&j, "names", info->names);
    cli_json_integer(&j, "name_bytes", info->name_bytes);
    cli_json_integer(&j, "leftovers", info->leftovers);
    cli_json_integer(&j, "leftover_bytes", info->leftover_bytes);
    cli_json_integer(&j, "damaged", info->damaged);
    cli_json_integer(&j, "removed", info->removed);
    cli_json_close(&j, '}');
}

/* SPDX-License-Identifier: Apache-2.0 */
/* `pto cache`: what the store holds, whether it is sound, and how to empty it. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/options.h"
#include "scene/terminal.h"
#include "pto/store.h"

static const char usage[] =
    "usage: pto cache [show | verify | clear] [--store DIR] [--json]\n\n"
    "The store keeps what was compiled, so that nothing is compiled twice.\n\n"
    "  show          its folder, how much is in it and how much may be (default)\n"
    "  verify        read everything and remove what is damaged; exit code 1 if something was\n"
    "  clear         remove everything; builds that go on at the same time are not disturbed\n\n"
    "  --store DIR   this folder instead of $PTO_STORE, $XDG_CACHE_HOME/pto or ~/.cache/pto\n"
    "  --json        one JSON object instead of lines\n\n"
    "PTO_STORE_MAX sets how many bytes it may hold (such as 500M; 2G by default): the least\n"
    "recently used go first.\n";

struct arguments {
    const char *action;
    const char *folder; /* NULL: the user's */
    bool is_json;
};

static int parse(int argc, char **argv, struct arguments *arguments);
static void tell_damaged(void *context, const char *path);
static void print_lines(const struct arguments *arguments, const struct pto_store_info *info);
static void print_json(const struct arguments *arguments, const struct pto_store_info *info);

int cmd_cache(int argc, char **argv)
{
    struct arguments arguments;
    struct pto_store_info info;
    struct pto_error error = { .size = sizeof(error) };
    int code = parse(argc, argv, &arguments);
    int status;

    if (code >= 0)
        return code;
    pto_store_info_init(&info);
    if (strcmp(arguments.action, "verify") == 0)
        status = pto_store_verify(arguments.folder, &info, tell_damaged, NULL, &error);
    else if (strcmp(arguments.action, "clear") == 0)
        status = pto_store_clear(arguments.folder, &info, &error);
    else
        status = pto_store_show(arguments.folder, &info, &error);
    if (status < 0) {
        fprintf(stderr, "pto cache: %s\n", error.text);
        return EXIT_FAILED;
    }
    if (arguments.is_json)
        print_json(&arguments, &info);
    else
        print_lines(&arguments, &info);
    return info.damaged == 0 ? EXIT_OK : EXIT_FAILED;
}

static bool is_action(const char *text)
{
    return strcmp(text, "show") == 0 || strcmp(text, "verify") == 0 || strcmp(text, "clear") == 0;
}

/* -1: go on, else the exit code. */
static int parse(int argc, char **argv, struct arguments *arguments)
{
    static const struct option options[] = {
        { "store", required_argument, NULL, 's' },
        { "json", no_argument, NULL, 'j' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    int key;

    *arguments = (struct arguments){ .action = "show" };
    opterr = 0;
    optind = 0; /* argv is not the one the program started with */
    while ((key = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        switch (key) {
        case 's':
            arguments->folder = optarg;
            break;
        case 'j':
            arguments->is_json = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return EXIT_OK;
        default:
            return options_refuse(argv, key);
        }
    }
    if (optind < argc && !is_action(argv[optind])) {
        fprintf(stderr, "pto cache: there is no '%s'; there are: show verify clear\n",
                argv[optind]);
        return EXIT_USAGE;
    }
    if (optind < argc)
        arguments->action = argv[optind++];
    return optind < argc ? options_too_many(argv, argv[optind]) : -1;
}

static void tell_damaged(void *context, const char *path)
{
    (void)context;
    fprintf(stderr, "damaged: %s\n", path);
}

/* 1234567 as "1.2 MiB": a size for people, in the units of PTO_STORE_MAX. */
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

static void print_lines(const struct arguments *arguments, const struct pto_store_info *info)
{
    uint64_t bytes = info->entry_bytes + info->name_bytes + info->leftover_bytes;
    char text[32], limit[32];

    printf("%s%s%s%s\n", terminal_code(stdout, TERMINAL_BOLD), info->folder,
           terminal_code(stdout, TERMINAL_PLAIN),
           !info->is_present    ? "  (not there yet)"
           : !info->is_writable ? "  (read-only: nothing is added)"
                                : "");
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

static void print_json(const struct arguments *arguments, const struct pto_store_info *info)
{
    struct json j = json_start(stdout);

    json_open(&j, NULL, '{');
    json_string(&j, "action", arguments->action);
    json_string(&j, "folder", info->folder);
    json_bool(&j, "present", info->is_present);
    json_bool(&j, "writable", info->is_writable);
    json_integer(&j, "max_bytes", info->max_bytes);
    json_integer(&j, "entries", info->entries);
    json_integer(&j, "entry_bytes", info->entry_bytes);
    json_integer(&j, "names", info->names);
    json_integer(&j, "name_bytes", info->name_bytes);
    json_integer(&j, "leftovers", info->leftovers);
    json_integer(&j, "leftover_bytes", info->leftover_bytes);
    json_integer(&j, "damaged", info->damaged);
    json_integer(&j, "removed", info->removed);
    json_close(&j, '}');
}

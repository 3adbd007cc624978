/* SPDX-License-Identifier: Apache-2.0 */
/* `pto info`: what this build can run, and the machine it runs on. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/machine.h"
#include "cli/probe.h"
#include "pto/pto.h"
#include "scene/terminal.h"

/* Chips that exist but that the library does not list yet. */
struct known_chip {
    const char *name;
    uint32_t clusters_max;
    const char *missing;
    const char *fix;
};

static const struct known_chip known_chips[] = {
    { "a2a3", 24, "not supported by this version (needs CANN)", "use a2a3sim" },
    { "a5", 36, "not supported by this version (needs CANN)", "use a5sim" },
};

static const char *const compilers[] = { "cc", "gcc", "clang", "g++" };

enum {
    KNOWN_CHIPS = sizeof(known_chips) / sizeof(known_chips[0]),
    COMPILERS = sizeof(compilers) / sizeof(compilers[0]),
    ROWS_MAX = 32,
    WHY_MAX = 512
};

struct platform_row {
    const char *name;
    uint32_t clusters; /* by default; 0: none, as it cannot be opened */
    uint32_t clusters_max;
    bool is_usable;
    char missing[WHY_MAX];
    const char *fix;
};

struct compiler_row {
    bool is_found;
    char path[PATH_MAX];
    char version[MACHINE_LINE_MAX];
};

struct info {
    bool is_json;
    struct machine machine;
    uint32_t platform_count;
    struct platform_row platform[ROWS_MAX];
    struct compiler_row compiler[COMPILERS];
};

static int do_info(void *context, int count, char **operands);
static void collect(struct info *info);
static void print_info_table(const struct info *info);
static void print_info_json(const struct info *info);

static const struct cli_option options[] = {
    CLI_OPTION_JSON(struct info, is_json, "a table"),
    CLI_OPTIONS_END,
};

const struct cli_command cmd_info = {
    .name = "info",
    .summary = "list platforms, compilers and the machine",
    .synopsis = "[--json]",
    .description = "Shows what this build can run, and the machine it runs on.",
    .options = options,
    .request_bytes = sizeof(struct info),
    .run = do_info,
};

static int do_info(void *context, int count, char **operands)
{
    struct info *info = context;

    (void)count;
    (void)operands;
    fflush(stdout); /* children must not inherit what is not yet written */
    collect(info);
    if (info->is_json)
        print_info_json(info);
    else
        print_info_table(info);
    return EXIT_OK;
}

static void collect_platforms(struct info *info)
{
    const struct pto_platform *platform;

    for (uint32_t i = 0; (platform = pto_platform_at(i)) != NULL && i < ROWS_MAX; i++) {
        struct platform_row *row = &info->platform[info->platform_count++];
        struct probe probe;

        *row = (struct platform_row){ .name = platform->name,
                                      .clusters = platform->clusters,
                                      .clusters_max = platform->clusters_max };
        cli_probe_open(platform->name, &probe);
        row->is_usable = probe.is_right;
        if (!row->is_usable)
            cli_probe_explain(&probe, &info->machine, row->missing, sizeof(row->missing),
                              &row->fix);
    }
    for (uint32_t k = 0; k < KNOWN_CHIPS && info->platform_count < ROWS_MAX; k++) {
        const struct known_chip *chip = &known_chips[k];
        struct platform_row *row = &info->platform[info->platform_count];
        bool is_listed = false;

        for (uint32_t i = 0; i < info->platform_count; i++)
            is_listed = is_listed || strcmp(info->platform[i].name, chip->name) == 0;
        if (is_listed)
            continue;
        *row = (struct platform_row){ .name = chip->name,
                                      .clusters_max = chip->clusters_max,
                                      .fix = chip->fix };
        snprintf(row->missing, sizeof(row->missing), "%s", chip->missing);
        info->platform_count++;
    }
}

static void collect(struct info *info)
{
    cli_machine_read(&info->machine);
    collect_platforms(info);
    for (uint32_t i = 0; i < COMPILERS; i++) {
        struct compiler_row *row = &info->compiler[i];

        row->is_found = cli_machine_find_program(compilers[i], row->path);
        if (row->is_found && !cli_machine_program_version(row->path, row->version))
            snprintf(row->version, sizeof(row->version), "version unknown");
    }
}

static void print_heading(const char *text)
{
    printf("\n%s%s%s\n", terminal_code(stdout, TERMINAL_BOLD), text,
           terminal_code(stdout, TERMINAL_PLAIN));
}

static void print_platform(const struct platform_row *row)
{
    char clusters[16] = "-";

    if (row->clusters != 0)
        snprintf(clusters, sizeof(clusters), "%" PRIu32, row->clusters);
    printf("  %-10s %8s %8" PRIu32 "   ", row->name, clusters, row->clusters_max);
    if (row->is_usable)
        printf("%sready%s\n", terminal_code(stdout, TERMINAL_GREEN),
               terminal_code(stdout, TERMINAL_PLAIN));
    else
        printf("%s; fix: %s\n", row->missing, row->fix);
}

static void print_info_table(const struct info *info)
{
    const struct machine *m = &info->machine;

    printf("pto %s\n", pto_version());
    print_heading("platforms     default     chip   (clusters of 1 AIC and 2 AIV)");
    for (uint32_t i = 0; i < info->platform_count; i++)
        print_platform(&info->platform[i]);
    print_heading("compilers");
    for (uint32_t i = 0; i < COMPILERS; i++) {
        const struct compiler_row *row = &info->compiler[i];

        if (row->is_found)
            printf("  %-10s %s (%s)\n", compilers[i], row->path, row->version);
        else
            printf("  %-10s not found\n", compilers[i]);
    }
    print_heading("machine");
    printf("  %-10s %" PRIu32 " allowed, %" PRIu32 " online", "cpus", m->cpus_allowed,
           m->cpus_online);
    if (m->cpu_quota > 0)
        printf(", time for %.2f", m->cpu_quota);
    printf("\n  %-10s %.2f GiB available of %.2f GiB\n", "memory",
           (double)m->available_bytes / (1 << 30), (double)m->memory_bytes / (1 << 30));
    printf("  %-10s %s\n", "kernel", m->kernel);
    printf("  %-10s %s\n", "libc", m->libc);
}

static void print_json_platforms(struct json *j, const struct info *info)
{
    cli_json_open(j, "platforms", '[');
    for (uint32_t i = 0; i < info->platform_count; i++) {
        const struct platform_row *row = &info->platform[i];

        cli_json_open(j, NULL, '{');
        cli_json_string(j, "name", row->name);
        if (row->clusters != 0)
            cli_json_integer(j, "clusters", row->clusters);
        else
            cli_json_string(j, "clusters", NULL);
        cli_json_integer(j, "clusters_max", row->clusters_max);
        cli_json_bool(j, "usable", row->is_usable);
        cli_json_string(j, "missing", row->is_usable ? NULL : row->missing);
        cli_json_string(j, "fix", row->is_usable ? NULL : row->fix);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

static void print_info_json(const struct info *info)
{
    const struct machine *m = &info->machine;
    struct json j = cli_json_start(stdout);

    cli_json_open(&j, NULL, '{');
    cli_json_string(&j, "version", pto_version());
    print_json_platforms(&j, info);
    cli_json_open(&j, "cpus", '{');
    cli_json_integer(&j, "allowed", m->cpus_allowed);
    cli_json_integer(&j, "online", m->cpus_online);
    cli_json_number(&j, "quota", m->cpu_quota > 0 ? m->cpu_quota : NAN, 2);
    cli_json_close(&j, '}');
    cli_json_open(&j, "compilers", '[');
    for (uint32_t i = 0; i < COMPILERS; i++) {
        const struct compiler_row *row = &info->compiler[i];

        cli_json_open(&j, NULL, '{');
        cli_json_string(&j, "name", compilers[i]);
        cli_json_string(&j, "path", row->is_found ? row->path : NULL);
        cli_json_string(&j, "version", row->is_found ? row->version : NULL);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_open(&j, "memory", '{');
    cli_json_integer(&j, "total_bytes", m->memory_bytes);
    cli_json_integer(&j, "available_bytes", m->available_bytes);
    cli_json_close(&j, '}');
    cli_json_string(&j, "kernel", m->kernel);
    cli_json_string(&j, "libc", m->libc);
    cli_json_close(&j, '}');
}

/* SPDX-License-Identifier: Apache-2.0 */
/* `pto info` lists the platforms of this build, and the machine that it runs on. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tool/cli/commands.h"
#include "tool/cli/info_comm.h"
#include "tool/cli/info_workers.h"
#include "tool/cli/json.h"
#include "tool/cli/machine.h"
#include "tool/cli/probe.h"
#include "pto/pto.h"
#include "tool/scene/terminal.h"

static const char *const compilers[] = { "cc", "gcc", "clang", "g++" };

enum { COMPILERS = sizeof(compilers) / sizeof(compilers[0]), ROWS_MAX = 32, WHY_MAX = 512 };

struct platform_row {
    const struct pto_platform *platform;
    bool is_usable;
    char missing[WHY_MAX];
    char fix[WHY_MAX];
};

struct compiler_row {
    bool is_found;
    char path[PATH_MAX];
    char version[MACHINE_LINE_MAX];
};

struct info {
    bool is_json;
    bool is_workers;
    bool is_comm;
    struct machine machine;
    uint32_t platform_count;
    struct platform_row platform[ROWS_MAX];
    struct compiler_row compiler[COMPILERS];
};

static int do_info(void *context, int count, char **operands);
static void info_collect(struct info *info);
static void print_info_table(const struct info *info);
static void print_info_json(const struct info *info);

static const struct cli_option options[] = {
    { "workers", 0, NULL, "show this user's open level-3 workers and the state of their children",
      CLI_FLAG, .at = offsetof(struct info, is_workers) },
    { "comm", 0, NULL, "show the backends of communication between ranks, and which one is chosen",
      CLI_FLAG, .at = offsetof(struct info, is_comm) },
    CLI_OPTION_JSON(struct info, is_json, "a table"),
    CLI_OPTIONS_END,
};

const struct cli_command cmd_info = {
    .name = "info",
    .summary = "list platforms, compilers and the machine",
    .synopsis = "[OPTION...]",
    .description =
        "Shows the platforms of this build and the machine, the workers that are open now, or how "
        "ranks can communicate.",
    .options = options,
    .request_bytes = sizeof(struct info),
    .run = do_info,
};

static int do_info(void *context, int count, char **operands)
{
    struct info *info = context;

    (void)count;
    (void)operands;
    if (info->is_comm && info->is_workers) {
        fprintf(stderr, "pto info: --comm and --workers show different things; give one of them\n");
        return EXIT_USAGE;
    }
    if (info->is_comm)
        return cli_info_comm(info->is_json);
    if (info->is_workers)
        return cli_info_workers(info->is_json);
    /* flush, because the child would print buffered output of its parent again */
    fflush(stdout);
    info_collect(info);
    if (info->is_json)
        print_info_json(info);
    else
        print_info_table(info);
    return EXIT_OK;
}

/*
 * Returns a platform that can be opened instead of `platform`: one of the same generation if
 * possible, else the default one.
 */
static const char *substitute(const struct pto_platform *platform)
{
    const struct pto_platform *other;

    for (uint32_t i = 0; (other = pto_platform_at(i)) != NULL; i++)
        if (other->missing == NULL && strcmp(other->generation, platform->generation) == 0)
            return other->name;
    return pto_platform_at(0)->name;
}

static void collect_platform(struct info *info, struct platform_row *row)
{
    const struct pto_platform *platform = row->platform;
    struct probe probe;
    const char *fix;

    if (platform->missing != NULL) {
        snprintf(row->missing, sizeof(row->missing), "%s", platform->missing);
        snprintf(row->fix, sizeof(row->fix), "use %s", substitute(platform));
        return;
    }
    cli_probe_open(platform->name, &probe);
    row->is_usable = probe.is_right;
    if (row->is_usable)
        return;
    cli_probe_explain(&probe, &info->machine, row->missing, sizeof(row->missing), &fix);
    snprintf(row->fix, sizeof(row->fix), "%s", fix);
}

static void collect_platforms(struct info *info)
{
    const struct pto_platform *platform;

    for (uint32_t i = 0; (platform = pto_platform_at(i)) != NULL && i < ROWS_MAX; i++) {
        info->platform[i] = (struct platform_row){ .platform = platform };
        collect_platform(info, &info->platform[i]);
        info->platform_count++;
    }
}

static void info_collect(struct info *info)
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
    const struct pto_platform *platform = row->platform;
    char clusters[16] = "-";

    if (platform->missing == NULL)
        snprintf(clusters, sizeof(clusters), "%u", platform->clusters);
    printf("  %-10s %8s %8u   ", platform->name, clusters, platform->clusters_max);
    if (row->is_usable)
        printf("%sready%s\n", terminal_code(stdout, TERMINAL_GREEN),
               terminal_code(stdout, TERMINAL_PLAIN));
    else
        printf("%s; fix: %s\n", row->missing, row->fix);
}

static void print_info_table(const struct info *info)
{
    const struct machine *m = &info->machine;
    char heading[128];

    printf("pto %s\n", pto_version());
    snprintf(heading, sizeof(heading),
             "platforms     default     chip   (clusters of %d AIC and %d AIV)", PTO_CLUSTER_AICS,
             PTO_CLUSTER_AIVS);
    print_heading(heading);
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
    printf("  %-10s %u allowed, %u online", "cpus", m->cpus_allowed, m->cpus_online);
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
        const struct pto_platform *platform = row->platform;

        cli_json_open(j, NULL, '{');
        cli_json_string(j, "name", platform->name);
        cli_json_string(j, "generation", platform->generation);
        cli_json_string(j, "backend", platform->backend);
        if (platform->missing == NULL)
            cli_json_integer(j, "clusters", platform->clusters);
        else
            cli_json_string(j, "clusters", NULL);
        cli_json_integer(j, "clusters_max", platform->clusters_max);
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/cli/diff_print.h"

#include <inttypes.h>
#include <stdio.h>

#include "tool/cli/json.h"
#include "tool/scene/terminal.h"

enum { NAME_COLUMNS = 24 };

static const uint32_t diff_types[] = { SEE_AIC, SEE_AIV };
static const char *const diff_type_names[] = { "AIC", "AIV" };
static const char *const run_names[SEE_RUNS] = { "before", "after" };

static uint64_t run_ns(const struct see_analysis *a)
{
    return a->work.end_ns - a->work.begin_ns;
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole != 0 ? 100.0 * (double)part / (double)whole : 0;
}

static void diff_print_title(const char *title)
{
    printf("\n%s%s%s\n", terminal_code(stdout, TERMINAL_BOLD), title,
           terminal_code(stdout, TERMINAL_PLAIN));
}

static const char *row_mark(const struct see_diff_row *row)
{
    if (row->changed == SEE_CHANGED_SLOWER)
        return TERMINAL_RED;
    return row->changed == SEE_CHANGED_FASTER ? TERMINAL_GREEN : TERMINAL_PLAIN;
}

static void print_row(const struct see_difference *d, const struct see_diff_row *row)
{
    char name[256], median[SEE_RUNS][24], change[32] = "-";

    snprintf(name, sizeof(name), "%s", row->name);
    for (int run = 0; run < SEE_RUNS; run++) {
        snprintf(median[run], sizeof(median[run]), "-");
        if (row->count[run] != 0)
            see_time_text(see_diff_ns(d, row, run), median[run]);
    }
    if (row->count[SEE_BEFORE] != 0 && row->count[SEE_AFTER] != 0)
        snprintf(change, sizeof(change), "%+.1f %%", 100 * (row->ratio - 1));
    printf("  %-*.*s %8" PRIu64 " %8" PRIu64 " %10s %10s %9s  %s%s%s\n", NAME_COLUMNS, NAME_COLUMNS,
           pto_text_clean(name, true), row->count[SEE_BEFORE], row->count[SEE_AFTER],
           median[SEE_BEFORE], median[SEE_AFTER], change, terminal_code(stdout, row_mark(row)),
           see_changed_key(row->changed), terminal_code(stdout, TERMINAL_PLAIN));
}

static void diff_print_causes(const struct see_difference *d)
{
    const struct see_analysis *const *of = d->of;
    char length[SEE_RUNS][24];

    diff_print_title("critical path");
    for (int kind = 0; kind < SEE_STEP_KINDS; kind++) {
        if (of[SEE_BEFORE]->path.total_ns[kind] + of[SEE_AFTER]->path.total_ns[kind] == 0)
            continue;
        for (int run = 0; run < SEE_RUNS; run++)
            see_time_text((double)of[run]->path.total_ns[kind], length[run]);
        printf("  %-38s %12s %12s\n", see_step_name(kind), length[SEE_BEFORE], length[SEE_AFTER]);
    }
    diff_print_title("time of the cores");
    for (int i = 0; i < 2; i++)
        for (int reason = 0; reason < SEE_IDLE_REASONS; reason++) {
            uint64_t ns[SEE_RUNS];

            for (int run = 0; run < SEE_RUNS; run++)
                ns[run] = of[run]->idle.ns[diff_types[i]][reason];
            if (ns[SEE_BEFORE] + ns[SEE_AFTER] == 0)
                continue;
            printf("  %s %-34s", diff_type_names[i], see_idle_name(reason));
            for (int run = 0; run < SEE_RUNS; run++)
                printf(" %10.1f %%",
                       percent(ns[run], run_ns(of[run]) * of[run]->work.cores[diff_types[i]]));
            printf("\n");
        }
}

void cli_diff_print(const struct see_difference *d, const char *before, const char *after)
{
    const struct see_analysis *const *of = d->of;
    char length[SEE_RUNS][24];

    terminal_print(stdout, before, true);
    printf(" -> ");
    terminal_print(stdout, after, true);
    for (int run = 0; run < SEE_RUNS; run++)
        see_time_text((double)run_ns(of[run]), length[run]);
    printf("\n  makespan %s -> %s  %+.1f %%\n", length[SEE_BEFORE], length[SEE_AFTER],
           percent(run_ns(of[SEE_AFTER]), run_ns(of[SEE_BEFORE])) - 100);
    printf("\n%sverdict%s  ", terminal_code(stdout, TERMINAL_BOLD),
           terminal_code(stdout, TERMINAL_PLAIN));
    terminal_print(stdout, d->text, true);
    printf("\n");
    diff_print_title("kernels and causes");
    printf("  %-*s %8s %8s %10s %10s %9s\n", NAME_COLUMNS, "name", "before", "after",
           d->has_means ? "mean" : "median", d->has_means ? "mean" : "median", "change");
    for (uint32_t i = 0; i < d->count; i++)
        print_row(d, &d->row[i]);
    diff_print_causes(d);
}

/* ---- JSON ---- */

static void diff_put_row(struct json *j, const struct see_diff_row *row)
{
    cli_json_open(j, NULL, '{');
    cli_json_string(j, "name", row->name);
    cli_json_string(j, "kind", row->is_kernel ? "kernel" : "cause");
    cli_json_string(j, "changed", see_changed_key(row->changed));
    cli_json_number(j, "ratio", row->ratio, 4);
    cli_json_number(j, "floor", row->spread, 4);
    for (int run = 0; run < SEE_RUNS; run++) {
        cli_json_open(j, run_names[run], '{');
        cli_json_integer(j, "count", row->count[run]);
        cli_json_integer(j, "median_ns", row->median_ns[run]);
        cli_json_integer(j, "total_ns", row->total_ns[run]);
        cli_json_integer(j, "path_ns", row->path_ns[run]);
        cli_json_close(j, '}');
    }
    cli_json_close(j, '}');
}

static void diff_put_run(struct json *j, const char *key, const struct see_analysis *a)
{
    cli_json_open(j, key, '{');
    cli_json_string(j, "platform", a->r->platform);
    cli_json_integer(j, "tasks", a->work.task_end - a->work.task_begin);
    cli_json_integer(j, "makespan_ns", run_ns(a));
    cli_json_string(j, "cause", see_cause_key(a->verdict.cause));
    cli_json_open(j, "critical_path_ns", '{');
    for (int kind = 0; kind < SEE_STEP_KINDS; kind++)
        cli_json_integer(j, see_step_name(kind), a->path.total_ns[kind]);
    cli_json_close(j, '}');
    for (int i = 0; i < 2; i++) {
        cli_json_open(j, i == 0 ? "aic_time_ns" : "aiv_time_ns", '{');
        for (int reason = 0; reason < SEE_IDLE_REASONS; reason++)
            cli_json_integer(j, see_idle_key(reason), a->idle.ns[diff_types[i]][reason]);
        cli_json_close(j, '}');
    }
    cli_json_close(j, '}');
}

void cli_diff_print_json(const struct see_difference *d)
{
    struct json j = cli_json_start(stdout);

    cli_json_open(&j, NULL, '{');
    cli_json_string(&j, "version", pto_version());
    cli_json_string(&j, "text", d->text);
    cli_json_bool(&j, "difference", d->changed != 0 || d->has_other_tasks);
    cli_json_integer(&j, "changed", d->changed);
    cli_json_bool(&j, "other_tasks", d->has_other_tasks);
    cli_json_number(&j, "machine", d->machine, 4);
    for (int run = 0; run < SEE_RUNS; run++)
        diff_put_run(&j, run_names[run], d->of[run]);
    cli_json_open(&j, "rows", '[');
    for (uint32_t i = 0; i < d->count; i++)
        diff_put_row(&j, &d->row[i]);
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints benchmark results, without rows that have no sample because the user interrupted the
 * measurement.
 */
#include "tool/cli/bench_report.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/cli/json.h"
#include "pto/build.h"
#include "tool/scene/terminal.h"

static double row_min(struct bench_row *row)
{
    return bench_quantile(row->ns[BENCH_OWN], row->samples, 0);
}

static double way_median(struct bench_row *row, enum bench_way way)
{
    return bench_quantile(row->ns[way], row->samples, 0.5);
}

static double row_median(struct bench_row *row)
{
    return way_median(row, BENCH_OWN);
}

static double row_stolen(const struct bench_row *row)
{
    return row->executions != 0 ? (double)row->stolen / (double)row->executions : NAN;
}

/* ---- the table ---- */

static void print_columns(const struct bench_settings *settings)
{
    printf("nanoseconds per empty task: %u tasks, minimum and median of %u\n\n", settings->tasks,
           settings->repeat);
    printf("%s%-10s %-8s", terminal_code(stdout, TERMINAL_BOLD), "", "");
    for (uint32_t w = 0; w < settings->worker_count_count; w++) {
        char title[32];

        snprintf(title, sizeof(title), "%u worker%s", settings->worker_counts[w],
                 settings->worker_counts[w] == 1 ? "" : "s");
        printf("  %*s", settings->worker_counts[w] == 1 ? 16 : 24, title);
    }
    printf("\n%-10s %-8s", "pattern", "layout");
    for (uint32_t w = 0; w < settings->worker_count_count; w++) {
        printf("  %8s%8s", "min", "median");
        if (settings->worker_counts[w] != 1)
            printf("%8s", "stolen");
    }
    printf("%s\n", terminal_code(stdout, TERMINAL_PLAIN));
}

static void print_pattern(struct bench_row *row)
{
    if (row->samples == 0)
        return;
    printf("  %8.1f%8.1f", row_min(row), row_median(row));
    if (row->workers != 1)
        printf("%6.0f %%", 100 * row_stolen(row));
}

static void print_compared(const struct bench_settings *settings, struct bench_results *results)
{
    printf("nanoseconds per empty task: %u tasks, median of %u\n\n", settings->tasks,
           settings->repeat);
    printf("%s%-10s %-8s %7s  %10s %14s %10s %7s%s\n", terminal_code(stdout, TERMINAL_BOLD),
           "pattern", "layout", "workers", "own", "simpler's rules", "and API", "ratio",
           terminal_code(stdout, TERMINAL_PLAIN));
    for (uint32_t i = 0; i < results->row_count; i++) {
        struct bench_row *row = &results->row[i];
        double rules = way_median(row, BENCH_RULES), compat = way_median(row, BENCH_COMPAT);

        if (row->samples != 0)
            printf("%-10s %-8s %7u  %10.1f %15.1f %10.1f %7.2f\n", pattern_name[row->pattern],
                   layout_name[row->layout], row->workers, row_median(row), rules, compat,
                   compat / rules);
    }
    printf("\nratio: the cost of the C++ API under the same rules\n");
    if (results->is_interrupted)
        printf("interrupted; these are the measurements so far\n");
}

static void print_pingpong(const char *when, double ns)
{
    if (isfinite(ns))
        printf("  %s %.0f ns", when, ns);
    else
        printf("  %s not measured", when);
}

void cli_bench_print_table(const struct bench_settings *settings, struct bench_results *results)
{
    uint32_t counts = settings->worker_count_count;

    if (settings->is_compared) {
        print_compared(settings, results);
        return;
    }
    print_columns(settings);
    for (uint32_t i = 0; i < results->row_count; i += counts) {
        struct bench_row *row = &results->row[i];

        if (row->samples == 0)
            continue;
        printf("%-10s %-8s", pattern_name[row->pattern], layout_name[row->layout]);
        for (uint32_t w = 0; w < counts; w++)
            print_pattern(&row[w]);
        printf("\n");
    }
    printf("\nrun of one task     ");
    if (isfinite(results->one_task_p50_us))
        printf("  p50 %.1f us  p99 %.1f us  (%u runs)\n", results->one_task_p50_us,
               results->one_task_p99_us, settings->one_task_runs);
    else
        printf("  not measured\n");
    printf("cache line, 2 CPUs  ");
    print_pingpong("before", results->pingpong_before_ns);
    print_pingpong("after", results->pingpong_after_ns);
    printf("  (there and back)\n");
    if (results->is_interrupted)
        printf("interrupted; these are the measurements so far\n");
}

/* ---- JSON ---- */

static void write_json(const struct bench_settings *settings, struct bench_results *results,
                       FILE *to)
{
    struct json j = cli_json_start(to);

    cli_json_open(&j, NULL, '{');
    cli_json_string(&j, "version", pto_version());
    cli_json_integer(&j, "repeat", settings->repeat);
    cli_json_bool(&j, "interrupted", results->is_interrupted);
    cli_json_open(&j, "patterns", '[');
    for (uint32_t i = 0; i < results->row_count; i++) {
        struct bench_row *row = &results->row[i];

        if (row->samples == 0)
            continue;
        cli_json_open(&j, NULL, '{');
        cli_json_string(&j, "name", pattern_name[row->pattern]);
        cli_json_string(&j, "layout", layout_name[row->layout]);
        cli_json_integer(&j, "workers", row->workers);
        cli_json_integer(&j, "tasks", settings->tasks);
        cli_json_number(&j, "ns_min", row_min(row), 1);
        cli_json_number(&j, "ns_median", row_median(row), 1);
        cli_json_number(&j, "stolen", row_stolen(row), 4);
        if (settings->is_compared) {
            cli_json_number(&j, "ns_simpler_rules", way_median(row, BENCH_RULES), 1);
            cli_json_number(&j, "ns_simpler_api", way_median(row, BENCH_COMPAT), 1);
        }
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_open(&j, "one_task", '{');
    cli_json_number(&j, "p50_us", results->one_task_p50_us, 2);
    cli_json_number(&j, "p99_us", results->one_task_p99_us, 2);
    cli_json_integer(&j, "runs", settings->one_task_runs);
    cli_json_integer(&j, "workers", settings->worker_counts[settings->worker_count_count - 1]);
    cli_json_close(&j, '}');
    cli_json_open(&j, "pingpong_ns", '{');
    cli_json_number(&j, "before", results->pingpong_before_ns, 1);
    cli_json_number(&j, "after", results->pingpong_after_ns, 1);
    cli_json_close(&j, '}');
    cli_json_close(&j, '}');
}

static bool append_unwritable(const char *path, int error)
{
    fprintf(stderr, "pto bench: cannot write '%s': %s\n", path, strerror(error));
    return false;
}

/*
 * Whether the path is a regular file, which a rename can replace. A device or a pipe is written
 * directly.
 */
static bool is_plain(const char *path)
{
    struct stat about;

    return stat(path, &about) != 0 || S_ISREG(about.st_mode);
}

bool cli_bench_can_write(const char *path)
{
    char copy[PATH_MAX];
    struct stat about;

    if (strcmp(path, "-") == 0)
        return true;
    if (path[0] == '\0' || strlen(path) + sizeof(".XXXXXX") > sizeof(copy))
        return append_unwritable(path, path[0] == '\0' ? ENOENT : ENAMETOOLONG);
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        return append_unwritable(path, EISDIR);
    snprintf(copy, sizeof(copy), "%s", path);
    if (access(is_plain(path) ? dirname(copy) : path, W_OK) != 0)
        return append_unwritable(path, errno);
    return true;
}

/*
 * Calls `write` for stdout or for a temporary file, which replaces the file at `path` only when it
 * is complete.
 */
static bool write_whole(const char *path, void (*write)(const void *context, FILE *to),
                        const void *context)
{
    struct pto_error error = { .size = sizeof(error) };
    char *text = NULL;
    size_t size;
    FILE *to;

    if (strcmp(path, "-") == 0) {
        write(context, stdout);
        return true; /* main() detects write errors of stdout */
    }
    to = open_memstream(&text, &size);
    if (to != NULL) {
        write(context, to);
        if (fclose(to) == 0)
            (void)pto_file_write(path, text, size, &error);
    }
    free(text);
    if (to == NULL || error.status != 0)
        fprintf(stderr, "pto bench: %s\n", to != NULL ? error.text : "out of memory");
    return to != NULL && error.status == 0;
}

struct tasks_report {
    const struct bench_settings *settings;
    struct bench_results *results;
};

static void bench_report_write_tasks(const void *context, FILE *to)
{
    const struct tasks_report *report = context;

    write_json(report->settings, report->results, to);
}

bool cli_bench_write_json(const struct bench_settings *settings, struct bench_results *results,
                          const char *path)
{
    return write_whole(path, bench_report_write_tasks, &(struct tasks_report){ settings, results });
}

/* ---- ranks ---- */

void cli_bench_print_comm(const struct bench_comm_run *runs, uint32_t count)
{
    printf("microseconds, p50 and p99\n\n%s%-20s", terminal_code(stdout, TERMINAL_BOLD), "");
    for (uint32_t i = 0; i < count; i++)
        printf("%15u ranks", runs[i].rank_count);
    printf("%s\n", terminal_code(stdout, TERMINAL_PLAIN));
    for (uint32_t c = 0; c < BENCH_LINK_CASES; c++) {
        printf("%-20s", bench_link_case[c].name);
        for (uint32_t i = 0; i < count; i++)
            printf("  %9.2f %9.2f", runs[i].result[c].p50_ns / 1000,
                   runs[i].result[c].p99_ns / 1000);
        printf("\n");
    }
}

struct comm_report {
    const struct bench_comm_run *runs;
    uint32_t count;
};

static void write_comm(const void *context, FILE *to)
{
    const struct comm_report *report = context;
    struct json j = cli_json_start(to);

    cli_json_open(&j, NULL, '{');
    cli_json_string(&j, "version", pto_version());
    cli_json_open(&j, "runs", '[');
    for (uint32_t i = 0; i < report->count; i++) {
        const struct bench_comm_run *run = &report->runs[i];

        cli_json_open(&j, NULL, '{');
        cli_json_integer(&j, "ranks", run->rank_count);
        cli_json_open(&j, "cases", '[');
        for (uint32_t c = 0; c < BENCH_LINK_CASES; c++) {
            cli_json_open(&j, NULL, '{');
            cli_json_string(&j, "name", bench_link_case[c].name);
            cli_json_integer(&j, "bytes", bench_link_case[c].bytes);
            cli_json_number(&j, "p50_ns", run->result[c].p50_ns, 1);
            cli_json_number(&j, "p99_ns", run->result[c].p99_ns, 1);
            cli_json_integer(&j, "samples", run->result[c].samples);
            cli_json_number(&j, "at_most", bench_link_case[c].at_most[run->rank_count > 2], 2);
            cli_json_close(&j, '}');
        }
        cli_json_close(&j, ']');
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

bool cli_bench_write_comm(const struct bench_comm_run *runs, uint32_t count, const char *path)
{
    return write_whole(path, write_comm, &(struct comm_report){ runs, count });
}

/* ---- level-3 workers ---- */

void cli_bench_print_tree(const struct bench_tree_results *r)
{
    printf("round trips in microseconds, p50 and p99\n\n%s%-32s",
           terminal_code(stdout, TERMINAL_BOLD), "");
    for (uint32_t i = 0; i < BENCH_TREE_RUNS; i++)
        printf("%11u children", r->run[i].chips + r->run[i].subs);
    printf("%s\n", terminal_code(stdout, TERMINAL_PLAIN));
    for (uint32_t c = 0; c < BENCH_TREE_CASES; c++) {
        printf("%-32s", bench_tree_aim[c].name);
        for (uint32_t i = 0; i < BENCH_TREE_RUNS; i++)
            printf("  %8.2f %9.2f", r->run[i].p50_us[c], r->run[i].p99_us[c]);
        printf("\n");
    }
    printf("two bare processes, after 200 us  %8.2f %9.2f\n"
           "two bare processes, after 2 ms    %8.2f %9.2f\n",
           r->rested.p50_us, r->rested.p99_us, r->asleep.p50_us, r->asleep.p99_us);
    printf("\nstreams of empty SUB tasks, nanoseconds each\n\n");
    for (uint32_t i = 0; i < BENCH_TREE_RUNS; i++)
        printf("any of %-25u%10.0f\n", r->run[i].subs, r->run[i].any_ns);
    printf("one child, %-21u%10.0f\n", r->few, r->one_few_ns);
    printf("one child, %-21u%10.0f\n", r->many, r->one_many_ns);
    printf("any of 2, %-22u%10.0f\n", r->many, r->two_ns);
    printf("\na worker with %d children\n\n%-32s%10.1f ms\n", BENCH_TREE_IDLE, "start",
           r->start_ms);
    printf("idle for %.1f s%-18s%10.1f ms of CPU time\n%-32s%10.1f ms\n", r->idle_s, "", r->idle_ms,
           "close", r->close_ms);
}

static void write_stream(struct json *j, const char *name, uint32_t tasks, double ns)
{
    cli_json_open(j, NULL, '{');
    cli_json_string(j, "name", name);
    cli_json_integer(j, "tasks", tasks);
    cli_json_number(j, "ns", ns, 1);
    cli_json_close(j, '}');
}

static void write_bare(struct json *j, const char *name, struct bench_tree_bare bare)
{
    cli_json_open(j, NULL, '{');
    cli_json_string(j, "name", name);
    cli_json_number(j, "p50_us", bare.p50_us, 2);
    cli_json_number(j, "p99_us", bare.p99_us, 2);
    cli_json_close(j, '}');
}

static void write_tree(const void *context, FILE *to)
{
    const struct bench_tree_results *r = context;
    struct json j = cli_json_start(to);

    cli_json_open(&j, NULL, '{');
    cli_json_string(&j, "version", pto_version());
    cli_json_open(&j, "runs", '[');
    for (uint32_t i = 0; i < BENCH_TREE_RUNS; i++) {
        cli_json_open(&j, NULL, '{');
        cli_json_integer(&j, "chips", r->run[i].chips);
        cli_json_integer(&j, "subs", r->run[i].subs);
        cli_json_number(&j, "any_ns", r->run[i].any_ns, 1);
        cli_json_open(&j, "trips", '[');
        for (uint32_t c = 0; c < BENCH_TREE_CASES; c++) {
            cli_json_open(&j, NULL, '{');
            cli_json_string(&j, "name", bench_tree_aim[c].name);
            cli_json_number(&j, "p50_us", r->run[i].p50_us[c], 2);
            cli_json_number(&j, "p99_us", r->run[i].p99_us[c], 2);
            cli_json_number(&j, "aim_us", bench_tree_most_us(r, (enum bench_tree_case)c), 1);
            cli_json_close(&j, '}');
        }
        cli_json_close(&j, ']');
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_open(&j, "bare", '[');
    write_bare(&j, "after 200 us", r->rested);
    write_bare(&j, "after 2 ms", r->asleep);
    cli_json_close(&j, ']');
    cli_json_open(&j, "streams", '[');
    write_stream(&j, "one child", r->few, r->one_few_ns);
    write_stream(&j, "one child", r->many, r->one_many_ns);
    write_stream(&j, "any of 2", r->many, r->two_ns);
    cli_json_close(&j, ']');
    cli_json_integer(&j, "idle_children", BENCH_TREE_IDLE);
    cli_json_number(&j, "start_ms", r->start_ms, 1);
    cli_json_number(&j, "idle_s", r->idle_s, 1);
    cli_json_number(&j, "idle_cpu_ms", r->idle_ms, 1);
    cli_json_number(&j, "close_ms", r->close_ms, 1);
    cli_json_close(&j, '}');
}

bool cli_bench_write_tree(const struct bench_tree_results *results, const char *path)
{
    return write_whole(path, write_tree, results);
}

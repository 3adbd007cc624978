/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto bench` measures the cost of an empty task, of communication between ranks, and of the
 * children of a level-3 worker. This file has options and signals; bench_measure.c, bench_link.c
 * and bench_tree.c do the timing.
 */
#include <stdio.h>
#include <string.h>

#include "tool/bench/bench_comm.h"
#include "tool/bench/bench_measure.h"
#include "tool/bench/bench_tree.h"
#include "tool/cli/bench_report.h"
#include "tool/cli/commands.h"
#include "tool/cli/interrupt.h"

enum {
    TASKS_DEFAULT = 100000, /* default of --tasks; the help text repeats the number */
    TASKS_QUICK = 10000,
    REPEAT_DEFAULT = 5,
    REPEAT_QUICK = 3,
    RUNS_DEFAULT = 2000,
    RUNS_QUICK = 200,
    WORKERS_MAX = 1024, /* upper limit of --workers; the device may accept fewer workers */
    RANKS_MAX = 64
};

struct request {
    struct bench_settings settings; /* members that are 0 get their default values */
    uint32_t workers;               /* worker threads; 0: measure with one, then with two */
    const char *json;               /* path of the JSON file; NULL: none */
    bool is_quick;
    int api;        /* 0: measure our API only; 1: also simpler's C++ API */
    uint32_t ranks; /* ranks of `pto bench comm`; 0: measure with two, then with four */
};

static int do_bench(void *context, int count, char **operands);
static int do_bench_comm(const struct request *request);
static int do_bench_tree(const struct request *request);
static void complete_request(struct request *request);
static void stop_bench(int number);

static const char *name_of_pattern(uint32_t pattern)
{
    return pattern_name[pattern];
}

static const char *name_of_api(uint32_t api)
{
    static const char *const names[] = { "own", "simpler" };

    return names[api];
}

static const char *name_of_layout(uint32_t layout)
{
    return layout_name[layout];
}

#define AT(member) .at = offsetof(struct request, member)

static const struct cli_option options[] = {
    { "tasks", 0, "N", "tasks per run, up to 10000000 (default: 100000)", CLI_COUNT,
      AT(settings.tasks), .low = 1, .high = BENCH_TASKS_MAX },
    { "repeat", 0, "R", "runs of each kind, interleaved, up to 100 (default: 5)", CLI_COUNT,
      AT(settings.repeat), .low = 1, .high = BENCH_REPEAT_MAX },
    { "pattern", 0, "P|all",
      "nodep (no arguments), indep (each task updates its own item), chain (all tasks update one "
      "item), fan64 (one writer, 64 readers, the next writer), stencil64 (64 items, three reads "
      "and a write) or random3 (three reads of recent items and a write)",
      CLI_CHOICES, AT(settings.pattern), .initial = "all", .choices = name_of_pattern,
      .choice_count = PATTERN_COUNT },
    { "layout", 0, "L|all",
      "memory layout of the items: buffers, tiles (contiguous parts of one tensor), tiles2d (parts "
      "of a matrix) or again (buffers, in a graph that was built before and is relaunched)",
      CLI_CHOICES, AT(settings.layout), .initial = "all", .choices = name_of_layout,
      .choice_count = LAYOUT_COUNT },
    { "api", 0, "own|simpler",
      "simpler: measure its ordering rules as well, from C and from its C++ API, which needs a C++ "
      "compiler",
      CLI_CHOICE, AT(api), .initial = "own", .choices = name_of_api, .choice_count = 2 },
    { "workers", 0, "K", "number of worker threads (default: 1, then 2)", CLI_COUNT, AT(workers),
      .low = 1, .high = WORKERS_MAX },
    { "ranks", 0, "N", "with comm: number of ranks (default: 2, then 4)", CLI_COUNT, AT(ranks),
      .low = 2, .high = RANKS_MAX },
    { "json", 0, "FILE",
      "also write the results to a file, atomically; - prints them instead of the table", CLI_TEXT,
      AT(json) },
    { "quick", 0, NULL,
      "10000 tasks and 3 runs of each kind, or a tenth of the samples, for a rough result",
      CLI_FLAG, AT(is_quick) },
    CLI_OPTIONS_END,
};

const struct cli_command cmd_bench = {
    .name = "bench",
    .summary = "measure the cost of empty tasks, of communication, or of workers",
    .synopsis = "[OPTION...]\ncomm [--ranks N] [--quick] [--json FILE]\n"
                "tree [--tasks N] [--quick] [--json FILE]",
    .description = "Measures nanoseconds per empty task, from the first submit to the last "
                   "completion.\n\nWith comm: the time of copies between ranks (processes on this "
                   "machine), barriers, signals and sums.\n\nWith tree: the overhead of a level-3 "
                   "worker with as many children as CPUs, and with four times as many: round trips "
                   "of empty tasks, hot and after a pause, streams of tasks, start-up, and CPU "
                   "time while idle. With --tasks: only a stream of N tasks.",
    .operands_max = 1,
    .notes = "Ctrl-C stops the command, which prints the results so far (exit code 130).",
    .options = options,
    .request_bytes = sizeof(struct request),
    .run = do_bench,
};

static int do_bench(void *context, int count, char **operands)
{
    /* static, because the results are too large for the stack */
    static struct bench_results results;
    struct request *request = context;

    if (count > 0 && strcmp(operands[0], "tree") == 0)
        return do_bench_tree(request);
    if (count > 0 && strcmp(operands[0], "comm") != 0)
        return cli_refuse_operand(&cmd_bench, operands[0]);
    if (count > 0)
        return do_bench_comm(request);
    if (request->ranks != 0) {
        fprintf(stderr, "pto bench: --ranks is an option of `pto bench comm`\n");
        return EXIT_USAGE;
    }
    complete_request(request);
    if (request->json != NULL && !cli_bench_can_write(request->json))
        return EXIT_FAILED;
    interrupt_watch(stop_bench, true);
    if (bench_measure(&request->settings, &results) < 0)
        return EXIT_FAILED;
    /*
     * Write the JSON file before the table is printed: if the reader of stdout closes the pipe,
     * SIGPIPE ends the command.
     */
    if (request->json != NULL && !cli_bench_write_json(&request->settings, &results, request->json))
        return EXIT_FAILED;
    if (request->json == NULL || strcmp(request->json, "-") != 0)
        cli_bench_print_table(&request->settings, &results);
    return results.is_interrupted ? EXIT_INTERRUPTED : EXIT_OK;
}

/* Runs the benchmark once per number of ranks. Ctrl-C stops it and ends the ranks. */
static int do_bench_comm(const struct request *request)
{
    static const uint32_t usual[] = { 2, 4 };
    const uint32_t count = request->ranks != 0 ? 1 : 2;
    const struct bench_settings *s = &request->settings;
    struct bench_comm_run runs[2] = { { 0 } };

    if (s->tasks != 0 || s->repeat != 0 || request->workers != 0 || s->pattern >= 0 ||
        s->layout >= 0 || request->api != 0) {
        fprintf(stderr, "pto bench comm: takes --ranks, --quick and --json only\n");
        return EXIT_USAGE;
    }
    if (request->json != NULL && !cli_bench_can_write(request->json))
        return EXIT_FAILED;
    for (uint32_t i = 0; i < count; i++) {
        runs[i].rank_count = request->ranks != 0 ? request->ranks : usual[i];
        if (bench_comm(runs[i].rank_count, request->is_quick, runs[i].result) < 0)
            return EXIT_FAILED;
    }
    if (request->json != NULL && !cli_bench_write_comm(runs, count, request->json))
        return EXIT_FAILED;
    if (request->json == NULL || strcmp(request->json, "-") != 0)
        cli_bench_print_comm(runs, count);
    return EXIT_OK;
}

/* Runs the benchmark of level-3 workers. Ctrl-C stops it and ends the children. */
static int do_bench_tree(const struct request *request)
{
    const struct bench_settings *s = &request->settings;
    struct bench_tree_results results;
    double ns;

    if (s->repeat != 0 || request->workers != 0 || s->pattern >= 0 || s->layout >= 0 ||
        request->api != 0 || request->ranks != 0) {
        fprintf(stderr, "pto bench tree: takes --tasks, --quick and --json only\n");
        return EXIT_USAGE;
    }
    if (s->tasks != 0) {
        if (bench_tree_stream(s->tasks, &ns) < 0)
            return EXIT_FAILED;
        printf("%u empty SUB tasks on one child: %.0f ns each\n", s->tasks, ns);
        return EXIT_OK;
    }
    if (request->json != NULL && !cli_bench_can_write(request->json))
        return EXIT_FAILED;
    if (bench_tree(request->is_quick, &results) < 0)
        return EXIT_FAILED;
    if (request->json != NULL && !cli_bench_write_tree(&results, request->json))
        return EXIT_FAILED;
    if (request->json == NULL || strcmp(request->json, "-") != 0)
        cli_bench_print_tree(&results);
    return EXIT_OK;
}

static void stop_bench(int number)
{
    (void)number;
    bench_interrupt();
}

static void complete_request(struct request *request)
{
    struct bench_settings *s = &request->settings;

    s->is_compared = request->api == 1;
    if (s->tasks == 0)
        s->tasks = request->is_quick ? TASKS_QUICK : TASKS_DEFAULT;
    if (s->repeat == 0)
        s->repeat = request->is_quick ? REPEAT_QUICK : REPEAT_DEFAULT;
    s->one_task_runs = request->is_quick ? RUNS_QUICK : RUNS_DEFAULT;
    s->worker_count_count = request->workers != 0 ? 1 : 2;
    s->worker_counts[0] = request->workers != 0 ? request->workers : 1;
    s->worker_counts[1] = 2;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto bench`: what an empty task costs, what ranks pay to talk to each other, and what a worker of
 * level 3 pays for its children. Options and signals; bench_measure.c, bench_link.c and
 * bench_tree.c have the clocks.
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
    TASKS_DEFAULT = 100000, /* as the help says */
    TASKS_QUICK = 10000,
    REPEAT_DEFAULT = 5,
    REPEAT_QUICK = 3,
    RUNS_DEFAULT = 2000,
    RUNS_QUICK = 200,
    WORKERS_MAX = 1024, /* that the option accepts; the device may refuse fewer */
    RANKS_MAX = 64
};

struct request {
    struct bench_settings settings; /* 0 where the default is wanted */
    uint32_t workers;               /* 0: one, then two */
    const char *json;               /* NULL: none */
    bool is_quick;
    int api;        /* 0: own; 1: simpler's beside it */
    uint32_t ranks; /* 0: two, then four */
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
    { "repeat", 0, "R", "runs of each kind, up to 100; they take turns (default: 5)", CLI_COUNT,
      AT(settings.repeat), .low = 1, .high = BENCH_REPEAT_MAX },
    { "pattern", 0, "P|all",
      "nodep (no argument at all), indep (each task updates an item of its own), chain (all "
      "update one), fan64 (one writer, 64 readers, the next writer), stencil64 (64 items, three "
      "reads and a write) or random3 (three reads of recent items and a write)",
      CLI_CHOICES, AT(settings.pattern), .initial = "all", .choices = name_of_pattern,
      .choice_count = PATTERN_COUNT },
    { "layout", 0, "L|all",
      "how the items lie in memory: buffers, tiles (contiguous parts of one tensor), tiles2d "
      "(parts of a matrix) or again (buffers, in a graph that was built before and is launched)",
      CLI_CHOICES, AT(settings.layout), .initial = "all", .choices = name_of_layout,
      .choice_count = LAYOUT_COUNT },
    { "api", 0, "own|simpler",
      "simpler: also by its rules of ordering, and by these from an orchestration in its C++ API, "
      "which needs a C++ compiler",
      CLI_CHOICE, AT(api), .initial = "own", .choices = name_of_api, .choice_count = 2 },
    { "workers", 0, "K", "only with K threads (default: with 1, then with 2)", CLI_COUNT,
      AT(workers), .low = 1, .high = WORKERS_MAX },
    { "ranks", 0, "N", "of comm: only with N ranks (default: with 2, then with 4)", CLI_COUNT,
      AT(ranks), .low = 2, .high = RANKS_MAX },
    { "json", 0, "FILE",
      "also write the results to a file, completely or not at all; - prints them instead of the "
      "table",
      CLI_TEXT, AT(json) },
    { "quick", 0, NULL,
      "10000 tasks, 3 runs of each kind, or a tenth of the samples: a look, not a measurement",
      CLI_FLAG, AT(is_quick) },
    CLI_OPTIONS_END,
};

const struct cli_command cmd_bench = {
    .name = "bench",
    .summary = "measure the cost of empty tasks, of communication, or of workers",
    .synopsis = "[OPTION...]\ncomm [--ranks N] [--quick] [--json FILE]\n"
                "tree [--tasks N] [--quick] [--json FILE]",
    .description = "Measures nanoseconds per empty task, from the first submit to the last "
                   "completion.\n\nWith comm: what ranks, which are processes of this machine, pay "
                   "for copies to each other, barriers, signals and sums.\n\nWith tree: what a "
                   "worker of level 3 pays for its children, with as many as CPUs and with four "
                   "times as many: round trips of empty tasks, hot and after a rest, streams of "
                   "them, start and idleness. --tasks: only a stream of so many.",
    .operands_max = 1,
    .notes = "Ctrl-C stops it; what was measured so far is printed (exit code 130).",
    .options = options,
    .request_bytes = sizeof(struct request),
    .run = do_bench,
};

static int do_bench(void *context, int count, char **operands)
{
    static struct bench_results results; /* too large for the stack */
    struct request *request = context;

    if (count > 0 && strcmp(operands[0], "tree") == 0)
        return do_bench_tree(request);
    if (count > 0 && strcmp(operands[0], "comm") != 0)
        return cli_refuse_operand(&cmd_bench, operands[0]);
    if (count > 0)
        return do_bench_comm(request);
    if (request->ranks != 0) {
        fprintf(stderr, "pto bench: --ranks is of `pto bench comm`\n");
        return EXIT_USAGE;
    }
    complete_request(request);
    if (request->json != NULL && !cli_bench_can_write(request->json))
        return EXIT_FAILED;
    interrupt_watch(stop_bench, true);
    if (bench_measure(&request->settings, &results) < 0)
        return EXIT_FAILED;
    /* The file first: whoever reads the table may close the pipe. */
    if (request->json != NULL && !cli_bench_write_json(&request->settings, &results, request->json))
        return EXIT_FAILED;
    if (request->json == NULL || strcmp(request->json, "-") != 0)
        cli_bench_print_table(&request->settings, &results);
    return results.is_interrupted ? EXIT_INTERRUPTED : EXIT_OK;
}

/* One run for each number of ranks. Ctrl-C ends it, and the ranks with it. */
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

/* Ctrl-C ends it, and the children with it. */
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

/* SPDX-License-Identifier: Apache-2.0 */
/* `pto bench`: what an empty task costs. Options and signals; bench_measure.c has the clock. */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "bench/bench_measure.h"
#include "cli/bench_report.h"
#include "cli/commands.h"
#include "cli/options.h"

enum {
    EXIT_INTERRUPTED = 130,
    TASKS_DEFAULT = 100000,
    TASKS_QUICK = 10000,
    REPEAT_DEFAULT = 5,
    REPEAT_QUICK = 3,
    RUNS_DEFAULT = 2000,
    RUNS_QUICK = 200,
    WORKERS_MAX = 1024 /* of what is understood; the device may refuse earlier */
};

struct request {
    struct bench_settings settings; /* 0 where the default is wanted */
    const char *json;               /* NULL: none */
    bool is_quick;
};

static int parse(int argc, char **argv, struct request *request);
static void watch_interrupt(void);

static void print_usage(void)
{
    printf(
        "usage: pto bench [OPTION...]\n\n"
        "Measures nanoseconds per empty task, from the first submit to the last completion.\n\n"
        "  --tasks N      tasks of a run (%d)\n"
        "  --repeat R     runs of each kind; they take turns (%d)\n"
        "  --pattern P    nodep, indep, chain, fan64, stencil64, random3 or all (all)\n"
        "  --layout L     buffers, tiles, tiles2d, again (a built graph is launched) or all (all)\n"
        "  --workers K    only with K threads (1, then 2)\n"
        "  --json FILE    also write the results to a file; - prints them instead of the table\n"
        "  --quick        %d tasks, %d runs: a look, not a measurement\n\n"
        "Ctrl-C ends it with what was measured until then (exit code %d).\n",
        TASKS_DEFAULT, REPEAT_DEFAULT, TASKS_QUICK, REPEAT_QUICK, EXIT_INTERRUPTED);
}

int cmd_bench(int argc, char **argv)
{
    static struct bench_results results;
    struct request request;
    int code = parse(argc, argv, &request);

    if (code >= 0)
        return code;
    if (request.json != NULL && !bench_can_write(request.json))
        return EXIT_FAILED;
    watch_interrupt();
    if (bench_measure(&request.settings, &results) < 0)
        return EXIT_FAILED;
    /* The file first: a reader of the table may go away. */
    if (request.json != NULL && !bench_write_json(&request.settings, &results, request.json))
        return EXIT_FAILED;
    if (request.json == NULL || strcmp(request.json, "-") != 0)
        bench_print_table(&request.settings, &results);
    return results.is_interrupted ? EXIT_INTERRUPTED : EXIT_OK;
}

static void on_interrupt(int number)
{
    (void)number;
    bench_interrupt();
}

static void watch_interrupt(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = on_interrupt;
    action.sa_flags = SA_RESTART | SA_RESETHAND; /* a second Ctrl-C ends the program */
    sigaction(SIGINT, &action, NULL);
}

/* ---- options ---- */

static int parse_name(const char *option, const char *const names[], int count, int *index_out)
{
    if (strcmp(optarg, "all") == 0) {
        *index_out = -1;
        return -1;
    }
    for (int i = 0; i < count; i++) {
        if (strcmp(optarg, names[i]) == 0) {
            *index_out = i;
            return -1;
        }
    }
    fprintf(stderr, "pto bench: there is no %s '%s'; there are:", option, optarg);
    for (int i = 0; i < count; i++)
        fprintf(stderr, " %s", names[i]);
    fprintf(stderr, " all\n");
    return EXIT_USAGE;
}

static int parse_count(const char *option, uint32_t high, uint32_t *value_out)
{
    uint64_t value;

    if (!options_number(optarg, 1, high, &value)) {
        fprintf(stderr, "pto bench: --%s wants a number from 1 to %" PRIu32 ", not '%s'\n", option,
                high, optarg);
        return EXIT_USAGE;
    }
    *value_out = (uint32_t)value;
    return -1;
}

/* -1: fine, else the exit code. */
static int parse_option(int key, char **argv, struct request *request)
{
    struct bench_settings *s = &request->settings;

    switch (key) {
    case 't':
        return parse_count("tasks", BENCH_TASKS_MAX, &s->tasks);
    case 'r':
        return parse_count("repeat", BENCH_REPEAT_MAX, &s->repeat);
    case 'w':
        s->worker_count_count = 1;
        return parse_count("workers", WORKERS_MAX, &s->worker_counts[0]);
    case 'p':
        return parse_name("pattern", pattern_name, PATTERN_COUNT, &s->pattern);
    case 'l':
        return parse_name("layout", layout_name, LAYOUT_COUNT, &s->layout);
    case 'j':
        request->json = optarg;
        return -1;
    case 'q':
        request->is_quick = true;
        return -1;
    case 'h':
        print_usage();
        return EXIT_OK;
    default:
        return options_refuse(argv, key);
    }
}

/* -1: go on with the request, else the exit code. */
static int parse(int argc, char **argv, struct request *request)
{
    static const struct option options[] = {
        { "tasks", required_argument, NULL, 't' },
        { "repeat", required_argument, NULL, 'r' },
        { "pattern", required_argument, NULL, 'p' },
        { "layout", required_argument, NULL, 'l' },
        { "workers", required_argument, NULL, 'w' },
        { "json", required_argument, NULL, 'j' },
        { "quick", no_argument, NULL, 'q' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    struct bench_settings *s = &request->settings;
    int key, code;

    *request = (struct request){ .settings = { .pattern = -1, .layout = -1 } };
    opterr = 0;
    optind = 0; /* argv is not the one the program started with */
    while ((key = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        code = parse_option(key, argv, request);
        if (code >= 0)
            return code;
    }
    if (optind < argc)
        return options_too_many(argv, argv[optind]);
    if (s->tasks == 0)
        s->tasks = request->is_quick ? TASKS_QUICK : TASKS_DEFAULT;
    if (s->repeat == 0)
        s->repeat = request->is_quick ? REPEAT_QUICK : REPEAT_DEFAULT;
    s->one_task_runs = request->is_quick ? RUNS_QUICK : RUNS_DEFAULT;
    if (s->worker_count_count == 0) {
        s->worker_count_count = 2;
        s->worker_counts[0] = 1;
        s->worker_counts[1] = 2;
    }
    return -1;
}

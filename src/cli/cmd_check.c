/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto check`: random graphs through the engine, against the naive model and a
 * sequential execution. Everything follows from the seed, except the timing.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check/check_run.h"
#include "cli/commands.h"
#include "scene/names.h"

enum {
    EXIT_INTERRUPTED = 130,
    HANG_SECONDS = 60, /* for one graph; the engine's own stall report comes earlier */
    SHRINK_SECONDS = 5,
    SHRINK_TRIES = 3, /* a failure may depend on timing */
    SHRINK_MEET_NS = 300 * 1000 * 1000,
    TASKS_DEFAULT = 100,
    GRAPHS_DEFAULT = 100
};

struct settings {
    uint32_t graphs;
    uint32_t tasks;
    uint64_t seed;
    bool is_replay; /* `seed` is that of the one graph */
    bool is_dropping;
    enum pto_deps deps;
    uint32_t clusters; /* of the platform */
    struct runner_params runner;
};

struct tally {
    uint64_t graphs;
    uint64_t tasks;
    uint64_t mismatches;
};

static volatile sig_atomic_t is_interrupted;
static char hang_text[512]; /* written by the handler of SIGALRM */

static int parse(int argc, char **argv, struct settings *s);
static int check_all(const struct settings *s, struct tally *tally);
static bool check_one(const struct settings *s, struct runner *r, uint64_t seed,
                      struct tally *tally);
static bool check_dropped(const struct settings *s, struct runner *r, uint64_t seed,
                          struct tally *tally);
static void report_mismatch(const struct settings *s, struct runner *r, const struct check_graph *g,
                            const struct findings *findings);
static void watch(void);

int cmd_check(int argc, char **argv)
{
    struct tally tally = { 0, 0, 0 };
    struct settings s;
    int code = parse(argc, argv, &s);

    if (code >= 0)
        return code;
    if (!s.is_replay) {
        printf("seed %#" PRIx64 "\n", s.seed);
        fflush(stdout);
    }
    watch();
    code = check_all(&s, &tally);
    alarm(0);
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
    if (s.is_dropping)
        printf("caught=%" PRIu64 "/%" PRIu64 "\n", tally.graphs - tally.mismatches, tally.graphs);
    printf("graphs=%" PRIu64 " tasks=%" PRIu64 " mismatches=%" PRIu64 "\n", tally.graphs,
           tally.tasks, tally.mismatches);
    if (code == EXIT_OK && tally.mismatches != 0)
        code = EXIT_FAILED;
    else if (code == EXIT_OK && is_interrupted)
        code = EXIT_INTERRUPTED;
    return code;
}

static int check_all(const struct settings *s, struct tally *tally)
{
    struct rng rng = { s->seed };
    struct runner *r;
    int status = runner_open(&s->runner, &r);

    if (status < 0) {
        fprintf(stderr, "pto check: the device '%s' cannot be opened: %s\n", s->runner.platform,
                pto_strerror(status));
        return EXIT_FAILED;
    }
    for (uint32_t i = 0; i < s->graphs && !is_interrupted; i++) {
        uint64_t seed = s->is_replay ? s->seed : rng_next(&rng);
        bool goes_on =
            s->is_dropping ? check_dropped(s, r, seed, tally) : check_one(s, r, seed, tally);

        if (isatty(STDERR_FILENO))
            fprintf(stderr, "\r%" PRIu64 "/%" PRIu32 " graphs", tally->graphs, s->graphs);
        if (!goes_on)
            break;
    }
    runner_close(r);
    return EXIT_OK;
}

static void replay_text(const struct settings *s, uint64_t seed, char *text, size_t size)
{
    snprintf(text, size,
             "pto check --graph-seed %#" PRIx64 " --tasks %" PRIu32
             " --platform %s --mode %s --threads %" PRIu32 " --deps %s%s",
             seed, s->tasks, s->runner.platform, pto_mode_name(s->runner.mode), s->runner.threads,
             pto_deps_name(s->deps),
             s->is_dropping            ? " --drop-edge"
             : s->runner.is_relaunched ? " --relaunch"
                                       : "");
}

/* A graph that never ends must still name itself: the handler prints this and leaves. */
static void arm(const struct settings *s, uint64_t seed, const struct tally *tally)
{
    char replay[256];

    alarm(0);
    replay_text(s, seed, replay, sizeof(replay));
    snprintf(hang_text, sizeof(hang_text),
             "a graph did not end in %d seconds; replay: %s\n"
             "graphs=%" PRIu64 " tasks=%" PRIu64 " mismatches=%" PRIu64 "\n",
             HANG_SECONDS, replay, tally->graphs + 1, tally->tasks + s->tasks,
             tally->mismatches + 1);
    alarm(HANG_SECONDS);
}

/* False at a mismatch. */
static bool check_one(const struct settings *s, struct runner *r, uint64_t seed,
                      struct tally *tally)
{
    struct check_graph *g = graph_generate(seed, s->tasks, s->deps, s->clusters);
    struct findings findings;

    arm(s, seed, tally);
    runner_check(r, g, &findings);
    tally->graphs++;
    tally->tasks += g->task_count;
    if (findings.count != 0) {
        tally->mismatches++;
        report_mismatch(s, r, g, &findings);
    }
    graph_destroy(g);
    return findings.count == 0;
}

/* A graph without an edge to drop is replaced by the next one of its seed. */
static bool check_dropped(const struct settings *s, struct runner *r, uint64_t seed,
                          struct tally *tally)
{
    struct rng next = { seed };
    struct check_graph *g;
    struct findings findings;
    uint32_t edge[2];
    struct rng pick;

    while (true) {
        pick.state = seed;
        g = graph_generate(seed, s->tasks, s->deps, s->clusters);
        graph_spare_core(g);
        arm(s, seed, tally);
        if (runner_check_without(r, g, &pick, edge, &findings))
            break;
        graph_destroy(g);
        if (is_interrupted || s->tasks == 1)
            return false;
        seed = rng_next(&next);
    }
    tally->graphs++;
    tally->tasks += g->task_count;
    if (findings.count == 0) {
        char replay[256];

        tally->mismatches++;
        replay_text(s, seed, replay, sizeof(replay));
        printf("the loss of the edge %" PRIu32 " -> %" PRIu32 " went unnoticed; replay: %s\n",
               edge[0], edge[1], replay);
        graph_print_task(g, edge[0]);
        graph_print_task(g, edge[1]);
    }
    graph_destroy(g);
    return true;
}

static bool still_fails(void *context, struct check_graph *candidate)
{
    struct findings findings;

    for (int i = 0; i < SHRINK_TRIES; i++) {
        runner_check(context, candidate, &findings);
        if (findings.count != 0)
            return true;
    }
    return false;
}

static void report_mismatch(const struct settings *s, struct runner *r, const struct check_graph *g,
                            const struct findings *findings)
{
    uint64_t deadline = check_now_ns() + SHRINK_SECONDS * 1000000000ull;
    struct findings last = *findings;
    struct check_graph *small;
    char replay[256];

    replay_text(s, g->seed, replay, sizeof(replay));
    printf("mismatch in graph %#" PRIx64 "; replay: %s\n", g->seed, replay);
    findings_print(findings, g);
    fflush(stdout);
    runner_set_patience(r, SHRINK_MEET_NS);
    small = graph_shrink(g, still_fails, r, deadline);
    for (int i = 0; i < SHRINK_TRIES; i++) {
        runner_check(r, small, &last);
        if (last.count != 0)
            break;
    }
    printf("smallest graph that fails (%" PRIu32 " of %" PRIu32 " tasks):\n", small->task_count,
           g->task_count);
    graph_print(small);
    findings_print(&last, small);
    graph_destroy(small);
    runner_set_patience(r, 0);
}

/* ---- signals ---- */

static void on_interrupt(int number)
{
    (void)number;
    is_interrupted = 1;
}

static void on_alarm(int number)
{
    ssize_t written = write(STDOUT_FILENO, hang_text, strlen(hang_text));

    (void)number;
    (void)written;
    _exit(EXIT_FAILED);
}

static void watch(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = on_interrupt;
    action.sa_flags = SA_RESTART | SA_RESETHAND; /* a second Ctrl-C ends the program */
    sigaction(SIGINT, &action, NULL);
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
}

/* ---- options ---- */

static const struct option options[] = {
    { "graphs", required_argument, NULL, 'g' },
    { "seed", required_argument, NULL, 's' },
    { "graph-seed", required_argument, NULL, 'x' },
    { "tasks", required_argument, NULL, 't' },
    { "platform", required_argument, NULL, 'p' },
    { "mode", required_argument, NULL, 'm' },
    { "threads", required_argument, NULL, 'k' },
    { "deps", required_argument, NULL, 'd' },
    { "drop-edge", no_argument, NULL, 'e' },
    { "relaunch", no_argument, NULL, 'r' },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

static void print_usage(void)
{
    char names[NAMES_TEXT_MAX];

    printf("usage: pto check [OPTION...]\n\n"
           "Runs random task graphs and compares the edges with a naive model of\n"
           "docs/ordering.md, and the bytes with a sequential execution. The graphs\n"
           "have several lanes, blocks, gangs, predicates, deferred completion, and\n"
           "an orchestration that reads and writes data itself.\n\n"
           "  --graphs N         how many graphs (%d)\n"
           "  --seed S           where they come from (the clock)\n"
           "  --graph-seed X     only the one graph that a failure printed\n"
           "  --tasks T          tasks in each (%d)\n"
           "  --platform P       %s (%s)\n"
           "  --mode M           stream or host (stream)\n"
           "  --threads K        worker threads; 0 is one per CPU (0)\n"
           "  --deps D           safe or simpler (safe)\n"
           "  --drop-edge        lose one edge of each graph and see that it is noticed\n"
           "  --relaunch         also build each graph once and launch it three times\n",
           GRAPHS_DEFAULT, TASKS_DEFAULT, names_platforms(true, "or", names),
           pto_platform_at(0)->name);
}

static int usage_error(const char *option, const char *value, const char *wanted)
{
    fprintf(stderr, "pto check: --%s '%s' is not %s; `pto check --help` lists the options\n",
            option, value, wanted);
    return EXIT_USAGE;
}

static bool parse_number(const char *text, uint64_t low, uint64_t high, uint64_t *value_out)
{
    char *end;

    errno = 0;
    *value_out = strtoull(text, &end, 0);
    return errno == 0 && end != text && *end == '\0' && strchr(text, '-') == NULL &&
           *value_out >= low && *value_out <= high;
}

/* One option; -1: fine, else the exit code. */
static int parse_option(int key, const char *value, struct settings *s)
{
    const struct pto_platform *platform;
    char names[NAMES_TEXT_MAX];
    uint64_t number = 0;
    int row;

    switch (key) {
    case 'g':
        if (!parse_number(value, 1, UINT32_MAX, &number))
            return usage_error("graphs", value, "a count from 1 on");
        s->graphs = (uint32_t)number;
        return -1;
    case 's':
    case 'x':
        if (!parse_number(value, 0, UINT64_MAX, &number))
            return usage_error(key == 's' ? "seed" : "graph-seed", value, "a 64-bit number");
        s->seed = number;
        s->is_replay = key == 'x';
        return -1;
    case 't':
        if (!parse_number(value, 1, CHECK_TASKS_MAX, &number))
            return usage_error("tasks", value, "a count from 1 to 4096");
        s->tasks = (uint32_t)number;
        return -1;
    case 'k':
        if (!parse_number(value, 0, 1024, &number))
            return usage_error("threads", value, "a count from 0 to 1024");
        s->runner.threads = (uint32_t)number;
        return -1;
    case 'p':
        platform = pto_platform_find(value);
        if (platform == NULL || platform->missing != NULL)
            return usage_error("platform", value, "a platform of this build");
        s->runner.platform = value;
        s->clusters = platform->clusters;
        return -1;
    case 'm':
        row = names_find(pto_mode_name, PTO_MODE_COUNT, value);
        if (row < 0)
            return usage_error("mode", value,
                               names_list(pto_mode_name, PTO_MODE_COUNT, "or", names));
        s->runner.mode = (enum pto_mode)row;
        return -1;
    case 'd':
        row = names_find(pto_deps_name, PTO_DEPS_COUNT, value);
        if (row < 0)
            return usage_error("deps", value,
                               names_list(pto_deps_name, PTO_DEPS_COUNT, "or", names));
        s->deps = (enum pto_deps)row;
        return -1;
    case 'e':
        s->is_dropping = true;
        return -1;
    case 'r':
        s->runner.is_relaunched = true;
        return -1;
    case 'h':
        print_usage();
        return EXIT_OK;
    default:
        return EXIT_USAGE;
    }
}

/* -1: go on with the settings, else the exit code. */
static int parse(int argc, char **argv, struct settings *s)
{
    struct timespec now;
    int key, code;

    clock_gettime(CLOCK_REALTIME, &now);
    memset(s, 0, sizeof(*s));
    s->graphs = GRAPHS_DEFAULT;
    s->tasks = TASKS_DEFAULT;
    s->seed = rng_mix((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
    (void)parse_option('p', pto_platform_at(0)->name, s);
    s->runner.mode = PTO_MODE_STREAM;
    s->deps = PTO_DEPS_SAFE;
    opterr = 0;
    optind = 0; /* argv is not the one the program started with */
    while ((key = getopt_long(argc, argv, "", options, NULL)) != -1) {
        code = key == '?' ? EXIT_USAGE : parse_option(key, optarg, s);
        if (key == '?')
            fprintf(stderr,
                    "pto check: '%s' is unknown or lacks its value; "
                    "`pto check --help` lists the options\n",
                    argv[optind - 1]);
        if (code >= 0)
            return code;
    }
    if (optind < argc) {
        fprintf(stderr, "pto check: '%s' is not an option; `pto check --help` lists the options\n",
                argv[optind]);
        return EXIT_USAGE;
    }
    if (s->is_replay)
        s->graphs = 1;
    return -1;
}

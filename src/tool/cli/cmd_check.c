/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto check` runs random graphs and compares the engine with the naive model and with a sequential
 * execution. The seed determines everything except the timing.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"
#include "tool/check/check_run.h"
#include "tool/cli/check_recorded.h"
#include "tool/cli/commands.h"
#include "tool/cli/interrupt.h"

enum {
    /* time after which a graph counts as hung; the engine reports a stall earlier */
    HANG_SECONDS = 60,
    SHRINK_SECONDS = 5,
    SHRINK_TRIES = 3, /* runs of each smaller graph, because a failure may depend on timing */
    SHRINK_MEET_NS = 300 * 1000 * 1000,
    LEVEL_CHIP = 2,
    LEVEL_WORKER = 3,
    CHIPS_MAX = 4, /* upper limit of the random number of chips */
    SUBS_MAX = 3,
    CHILDREN_MAX = 16,
    SHARED_GRAPHS = 8 /* consecutive graphs that run on one level-3 worker */
};

struct settings {
    uint32_t graphs;
    uint32_t tasks;
    struct cli_number seed;       /* seed of all graphs; taken from the clock if not given */
    struct cli_number graph_seed; /* seed of the single graph to replay */
    bool is_dropping;
    bool is_recorded;
    enum pto_deps deps;
    uint32_t clusters; /* clusters of the simulated chip */
    uint32_t level;
    struct cli_number chips; /* chips per level-3 worker; random if not given */
    struct cli_number subs;
    struct check_runner_params runner;
};

struct tally {
    uint64_t graphs;
    uint64_t tasks;
    uint64_t mismatches;
};

static volatile sig_atomic_t is_interrupted;
static char hang_text[512]; /* message that the SIGALRM handler prints when a graph hangs */

static int do_check(void *context, int count, char **operands);
static void complete_settings(struct settings *s);
static int check_refuse(const struct settings *s);
static int check_all(struct settings *s, struct tally *tally);
static bool check_one(const struct settings *s, struct check_runner *r, uint64_t seed,
                      struct tally *tally);
static bool check_dropped(const struct settings *s, struct check_runner *r, uint64_t seed,
                          struct tally *tally);
static void report_mismatch(const struct settings *s, struct check_runner *r,
                            const struct check_graph *g, const struct check_findings *findings);
static void watch(void);

#define AT(member) .at = offsetof(struct settings, member)

static const struct cli_option options[] = {
    { "graphs", 0, "N", "number of graphs", CLI_COUNT, AT(graphs), .low = 1, .high = UINT32_MAX,
      .initial = "100" },
    { "seed", 0, "S", "seed of the random graphs, which is printed (default: the clock)",
      CLI_NUMBER, AT(seed) },
    { "graph-seed", 0, "X", "replay only the graph that a failure printed", CLI_NUMBER,
      AT(graph_seed) },
    { "tasks", 0, "T", "tasks in each graph, up to 4096", CLI_COUNT, AT(tasks), .low = 1,
      .high = CHECK_TASKS_MAX, .initial = "100" },
    { "platform", 0, "P", "simulated chip", CLI_PLATFORM, AT(runner.platform) },
    { "mode", 0, "stream|host", "run tasks while the graph is built, or after it", CLI_MODE,
      AT(runner.mode), .initial = "stream" },
    { "threads", 0, "K", "worker threads; 0 is one per CPU", CLI_COUNT, AT(runner.threads),
      .low = 0, .high = 1024, .initial = "0" },
    { "deps", 0, "safe|simpler",
      "ordering rules: those of docs/user/ordering.md, or those of the reference system, which "
      "lack edges",
      CLI_CHOICE, AT(deps), .initial = "safe", .choices = pto_deps_name,
      .choice_count = PTO_DEPS_COUNT },
    { "drop-edge", 0, NULL,
      "drop one edge of each graph on purpose, and expect the checker to notice", CLI_FLAG,
      AT(is_dropping) },
    { "relaunch", 0, NULL, "also build each graph once and launch it three times with fresh memory",
      CLI_FLAG, AT(runner.is_relaunched) },
    { "recorded", 0, NULL,
      "record each run, and compare the edges of its recording with those of the model", CLI_FLAG,
      AT(is_recorded) },
    { "level", 0, "2|3", "run on a chip, or on level-3 workers", CLI_COUNT, AT(level),
      .low = LEVEL_CHIP, .high = LEVEL_WORKER, .initial = "2" },
    { "chips", 0, "N", "with --level 3: chips per worker (default: 1 to 4 at random)", CLI_NUMBER,
      AT(chips) },
    { "subs", 0, "N", "with --level 3: SUB workers per worker (default: 0 to 3 at random)",
      CLI_NUMBER, AT(subs) },
    CLI_OPTIONS_END,
};

const struct cli_command cmd_check = {
    .name = "check",
    .summary = "compare the engine with a naive model",
    .synopsis = "[OPTION...]",
    .description =
        "Runs random task graphs, and compares their edges with a naive model of "
        "docs/user/ordering.md and their bytes with a sequential execution. The graphs use several "
        "lanes, blocks, gangs, predicates, deferred completion, and an orchestration that reads "
        "and writes data.\n\nAt level 3 the tasks run on chips and SUB workers, which are "
        "processes: on one of them, on any of several, in groups, and in several concurrent runs.",
    .options = options,
    .request_bytes = sizeof(struct settings),
    .run = do_check,
};

static int do_check(void *context, int count, char **operands)
{
    struct tally tally = { 0, 0, 0 };
    struct settings *s = context;
    int code;

    (void)count;
    (void)operands;
    if (check_refuse(s) != EXIT_OK)
        return EXIT_USAGE;
    complete_settings(s);
    if (!s->graph_seed.is_given) {
        printf("seed %#" PRIx64 "\n", s->seed.value);
        fflush(stdout);
    }
    watch();
    code = check_all(s, &tally);
    alarm(0);
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
    if (s->is_dropping)
        printf("caught=%" PRIu64 "/%" PRIu64 "\n", tally.graphs - tally.mismatches, tally.graphs);
    printf("graphs=%" PRIu64 " tasks=%" PRIu64 " mismatches=%" PRIu64 "\n", tally.graphs,
           tally.tasks, tally.mismatches);
    if (code == EXIT_OK && tally.mismatches != 0)
        code = EXIT_FAILED;
    else if (code == EXIT_OK && is_interrupted)
        code = EXIT_INTERRUPTED;
    return code;
}

static int check_refuse(const struct settings *s)
{
    uint64_t chips = s->chips.is_given ? s->chips.value : 1;
    uint64_t subs = s->subs.is_given ? s->subs.value : 0;

    if (s->level == LEVEL_CHIP && (s->chips.is_given || s->subs.is_given))
        fprintf(stderr, "pto check: --chips and --subs need --level 3\n");
    else if (s->level == LEVEL_WORKER &&
             (s->runner.is_relaunched || s->runner.mode != PTO_MODE_STREAM))
        fprintf(stderr, "pto check: --relaunch and --mode need --level 2\n");
    else if (s->is_recorded && (s->level == LEVEL_WORKER || s->is_dropping))
        fprintf(stderr, "pto check: --recorded needs --level 2, without --drop-edge\n");
    else if (chips > CHILDREN_MAX || subs > CHILDREN_MAX || chips + subs == 0)
        fprintf(stderr, "pto check: a worker has 1 to %d chips, or SUB workers, or both\n",
                CHILDREN_MAX);
    else if (s->is_dropping && s->chips.is_given && s->subs.is_given && chips + subs < 2)
        fprintf(stderr,
                "pto check: --drop-edge needs two children, one to run while the other waits\n");
    else
        return EXIT_OK;
    return EXIT_USAGE;
}

/* Chooses how many chips and SUB workers the next level-3 worker has. */
static void check_choose_children(struct settings *s, uint64_t seed)
{
    struct rng rng = { seed };
    uint32_t chips = s->chips.is_given ? (uint32_t)s->chips.value : 1 + rng_below(&rng, CHIPS_MAX);
    uint32_t subs = s->subs.is_given ? (uint32_t)s->subs.value : rng_below(&rng, SUBS_MAX + 1);

    if (s->is_dropping && chips + subs < 2) {
        chips = s->chips.is_given ? chips : 2;
        subs = s->chips.is_given ? 1 : subs;
    }
    s->runner.chips = chips;
    s->runner.subs = subs;
    s->runner.deps = s->deps;
}

static void complete_settings(struct settings *s)
{
    struct timespec now;

    s->clusters = pto_platform_find(s->runner.platform)->clusters;
    s->runner.recorded = s->is_recorded ? cli_check_recorded : NULL;
    if (s->graph_seed.is_given)
        s->graphs = 1;
    if (s->seed.is_given)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    s->seed.value = rng_mix((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
}

static struct check_runner *open_runner(const struct settings *s)
{
    struct check_runner *r = NULL;
    struct pto_error error;
    int status;

    pto_error_init(&error);
    status = check_runner_open(&s->runner, &r, &error);
    if (status < 0 && s->level == LEVEL_CHIP)
        fprintf(stderr, "pto check: cannot open the device '%s': %s\n", s->runner.platform,
                error.text[0] != '\0' ? error.text : pto_strerror(status));
    else if (status < 0)
        fprintf(stderr, "pto check: cannot open a worker: %s\n",
                error.text[0] != '\0' ? error.text : pto_strerror(status));
    return r;
}

static int check_all(struct settings *s, struct tally *tally)
{
    struct rng rng = { s->seed.value };
    struct check_runner *r = NULL;
    bool goes_on = true;

    for (uint32_t i = 0; i < s->graphs && !is_interrupted && goes_on; i++) {
        uint64_t seed = s->graph_seed.is_given ? s->graph_seed.value : rng_next(&rng);

        if (s->level == LEVEL_WORKER && i % SHARED_GRAPHS == 0) {
            check_runner_close(r);
            r = NULL;
            check_choose_children(s, seed);
        }
        if (r == NULL)
            r = open_runner(s);
        if (r == NULL)
            return EXIT_FAILED;
        goes_on = s->is_dropping ? check_dropped(s, r, seed, tally) : check_one(s, r, seed, tally);
        if (isatty(STDERR_FILENO))
            fprintf(stderr, "\r%" PRIu64 "/%u graphs", tally->graphs, s->graphs);
    }
    check_runner_close(r);
    return EXIT_OK;
}

static struct check_graph *generate(const struct settings *s, uint64_t seed)
{
    struct check_graph *g = check_graph_generate(seed, s->tasks, s->deps, s->clusters);

    if (s->level == LEVEL_WORKER)
        check_graph_place(g, s->runner.chips, s->runner.subs);
    return g;
}

static void replay_text(const struct settings *s, uint64_t seed, char *text, size_t size)
{
    if (s->level == LEVEL_WORKER) {
        snprintf(text, size,
                 "pto check --level 3 --chips %u --subs %u --graph-seed %#" PRIx64
                 " --tasks %u --platform %s --threads %u --deps %s%s",
                 s->runner.chips, s->runner.subs, seed, s->tasks, s->runner.platform,
                 s->runner.threads, pto_deps_name(s->deps), s->is_dropping ? " --drop-edge" : "");
        return;
    }
    snprintf(text, size,
             "pto check --graph-seed %#" PRIx64
             " --tasks %u --platform %s --mode %s --threads %u --deps %s%s%s",
             seed, s->tasks, s->runner.platform, pto_mode_name(s->runner.mode), s->runner.threads,
             pto_deps_name(s->deps),
             s->is_dropping            ? " --drop-edge"
             : s->runner.is_relaunched ? " --relaunch"
                                       : "",
             s->is_recorded ? " --recorded" : "");
}

/*
 * Sets an alarm for the run of one graph. If it expires, the SIGALRM handler prints a message that
 * names the graph, and ends the command.
 */
static void arm(const struct settings *s, uint64_t seed, const struct tally *tally)
{
    char replay[256];

    alarm(0);
    replay_text(s, seed, replay, sizeof(replay));
    snprintf(hang_text, sizeof(hang_text),
             "a graph did not finish within %d seconds; replay: %s\n"
             "graphs=%" PRIu64 " tasks=%" PRIu64 " mismatches=%" PRIu64 "\n",
             HANG_SECONDS, replay, tally->graphs + 1, tally->tasks + s->tasks,
             tally->mismatches + 1);
    alarm(HANG_SECONDS);
}

/* Runs one graph and checks its result. Returns false if the check fails. */
static bool check_one(const struct settings *s, struct check_runner *r, uint64_t seed,
                      struct tally *tally)
{
    struct check_graph *g = generate(s, seed);
    struct check_findings findings;

    arm(s, seed, tally);
    check_runner_check(r, g, &findings);
    tally->graphs++;
    tally->tasks += g->task_count;
    if (findings.count != 0) {
        tally->mismatches++;
        report_mismatch(s, r, g, &findings);
    }
    check_graph_destroy(g);
    return findings.count == 0;
}

/*
 * Drops an edge of a graph and checks that the comparison reports it. If the graph has no edges,
 * uses the next graph of the seed.
 */
static bool check_dropped(const struct settings *s, struct check_runner *r, uint64_t seed,
                          struct tally *tally)
{
    struct rng next = { seed };
    struct check_graph *g;
    struct check_findings findings;
    uint32_t edge[2];
    struct rng pick;

    while (true) {
        pick.state = seed;
        g = generate(s, seed);
        check_graph_spare_core(g);
        arm(s, seed, tally);
        if (check_runner_check_without(r, g, &pick, edge, &findings))
            break;
        check_graph_destroy(g);
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
        printf("the loss of the edge %u -> %u went unnoticed; replay: %s\n", edge[0], edge[1],
               replay);
        check_graph_print_task(g, edge[0]);
        check_graph_print_task(g, edge[1]);
    }
    check_graph_destroy(g);
    /*
     * at level 3, end the command after the first lost edge that goes unnoticed, because each of
     * them costs the time for which the children of the worker wait
     */
    return s->level == LEVEL_CHIP || findings.count != 0;
}

static bool still_fails(void *context, struct check_graph *candidate)
{
    struct check_findings findings;

    for (int i = 0; i < SHRINK_TRIES; i++) {
        check_runner_check(context, candidate, &findings);
        if (findings.count != 0)
            return true;
    }
    return false;
}

static void report_mismatch(const struct settings *s, struct check_runner *r,
                            const struct check_graph *g, const struct check_findings *findings)
{
    uint64_t deadline = os_now_ns() + SHRINK_SECONDS * 1000000000ull;
    struct check_findings last = *findings;
    struct check_graph *small;
    char replay[256];

    replay_text(s, g->seed, replay, sizeof(replay));
    printf("mismatch in graph %#" PRIx64 "; replay: %s\n", g->seed, replay);
    check_findings_print(findings, g);
    fflush(stdout);
    check_runner_set_meet_timeout(r, SHRINK_MEET_NS);
    small = check_graph_shrink(g, still_fails, r, deadline);
    for (int i = 0; i < SHRINK_TRIES; i++) {
        check_runner_check(r, small, &last);
        if (last.count != 0)
            break;
    }
    printf("smallest graph that fails (%u of %u tasks):\n", small->task_count, g->task_count);
    check_graph_print(small);
    check_findings_print(&last, small);
    check_graph_destroy(small);
    check_runner_set_meet_timeout(r, 0);
}

/* ---- signals ---- */

static void stop_checks(int number)
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

    interrupt_watch(stop_checks, true);
    memset(&action, 0, sizeof(action));
    action.sa_flags = SA_RESTART;
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
}

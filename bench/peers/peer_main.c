/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program around a harness: one pattern, some repetitions, a line of JSON.
 * bench/run.py calls it; by hand, see --help.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer_grain.h"
#include "peer_load.h"

enum {
    EXIT_WRONG = 1, /* a task ran too early, twice or never; or the system failed */
    EXIT_USAGE = 2,
    REPEAT_MAX = 100,
    WARM_PART = 10, /* the first runs have a tenth of the tasks */
    WARM_RUNS = 2,
    SLOW_NS_PER_TASK = 2000, /* a system that is slower in both of them keeps to their tasks */
    REPEAT_NS = 1000000000   /* after that there are no further repetitions */
};

struct request {
    const char *pattern;
    uint32_t variant;
    uint32_t tasks;
    uint32_t workers;
    uint32_t repeat;
    uint32_t seconds;
    double peak_ns;
};

uint64_t peer_iterations;

static int parse(int argc, char **argv, struct request *request);
static int measure(const struct request *request);
static int measure_grain(const struct request *request);

int main(int argc, char **argv)
{
    struct request request = {
        .pattern = NULL, .tasks = 100000, .workers = 1, .repeat = 3, .seconds = 10
    };
    int code = parse(argc, argv, &request);

    if (code >= 0)
        return code;
    if (!peer.open(request.workers))
        return EXIT_WRONG;
    printf("{\"peer\": \"%s\", \"version\": \"%s\", \"variant\": \"%s\", \"pattern\": \"%s\", "
           "\"workers\": %" PRIu32 ", ",
           peer.name, peer.version(), peer.variants[request.variant], request.pattern,
           request.workers);
    code = GRAIN_BUILD ? measure_grain(&request) : measure(&request);
    peer.close();
    return code == 0 && fflush(stdout) == 0 ? 0 : EXIT_WRONG;
}

/* ---- repetitions ---- */

static uint64_t run_checked(const struct peer_load *load, uint32_t variant)
{
    uint64_t ns;

    if (!PEER_HAS_INDEX)
        return peer.run(load, variant);
    load_begin();
    ns = peer.run(load, variant);
    return load_end() == 0 ? ns : 0;
}

/* ns per task of each run, at most `repeat` of them; how many there are. 0: it failed. */
static uint32_t run_load(const struct peer_load *load, const struct request *request,
                         uint32_t repeat, double *ns_out)
{
    bool is_fine = !PEER_HAS_INDEX || load_watch(load);
    uint64_t total_ns = 0;
    uint32_t count = 0;

    while (count < repeat && is_fine && total_ns < REPEAT_NS) {
        /* In a VERIFY build preparing may run the tasks, too. */
        if (PEER_HAS_INDEX)
            load_begin();
        is_fine = peer.prepare(load, request->variant);
        if (!is_fine)
            break;

        uint64_t ns = run_checked(load, request->variant);

        peer.discard();
        is_fine = ns != 0;
        total_ns += ns;
        ns_out[count++] = (double)ns / load->task_count;
    }
    if (PEER_HAS_INDEX)
        load_unwatch();
    return is_fine ? count : 0;
}

static int measure(const struct request *request)
{
    double ns[REPEAT_MAX];
    uint32_t tasks = request->tasks / WARM_PART != 0 ? request->tasks / WARM_PART : 1;
    uint32_t count;
    struct peer_load load;

    if (!load_make(request->pattern, tasks, &load))
        return EXIT_USAGE;
    count = run_load(&load, request, WARM_RUNS, ns);
    if (count != 0 &&
        (ns[0] < SLOW_NS_PER_TASK || ns[count - 1] < SLOW_NS_PER_TASK || PEER_HAS_INDEX)) {
        load_free(&load);
        if (!load_make(request->pattern, request->tasks, &load))
            return EXIT_USAGE;
    }
    if (count != 0)
        count = run_load(&load, request, request->repeat, ns);
    tasks = load.task_count;
    load_free(&load);
    if (count == 0)
        return EXIT_WRONG;
    printf("\"tasks\": %" PRIu32 ", \"ns_per_task\": [", tasks);
    for (uint32_t i = 0; i < count; i++)
        printf("%s%.2f", i == 0 ? "" : ", ", ns[i]);
    printf("]}\n");
    return 0;
}

static int measure_grain(const struct request *request)
{
    struct grain_params params = { request->pattern, request->workers, request->repeat,
                                   request->seconds, request->peak_ns };

    return strcmp(request->pattern, "peak") == 0 ? grain_peak(request->workers)
                                                 : grain_measure(&params);
}

/* ---- options ---- */

static void print_usage(void)
{
    printf("usage: %s --pattern P [OPTION...]\n\n"
           "  --pattern P   one of:",
           peer.name);
    load_print_patterns();
    printf("  --variant V   one of:");
    for (int i = 0; peer.variants[i] != NULL; i++)
        printf(" %s", peer.variants[i]);
    printf("\n"
           "  --tasks N     (100000); a tenth of it for a system that takes over %d us a task\n"
           "  --workers K   threads that run tasks (1)\n"
           "  --repeat R    runs (3); of a point, in the working build\n"
           "working build only, with the pattern 'peak', too:\n"
           "  --peak NS     an iteration takes that long, if it measures longer\n"
           "  --seconds S   a curve ends after that (10)\n",
           SLOW_NS_PER_TASK / 1000);
}

/* -1: fine, else the exit code. */
static int parse_count(const char *text, uint32_t high, uint32_t *value_out)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (*end != '\0' || end == text || value < 1 || value > high) {
        fprintf(stderr, "%s: a number from 1 to %" PRIu32 " is wanted, not '%s'\n", peer.name, high,
                text);
        return EXIT_USAGE;
    }
    *value_out = (uint32_t)value;
    return -1;
}

static int parse_variant(const char *text, uint32_t *variant_out)
{
    for (uint32_t i = 0; peer.variants[i] != NULL; i++) {
        if (strcmp(text, peer.variants[i]) == 0) {
            *variant_out = i;
            return -1;
        }
    }
    fprintf(stderr, "%s: there is no variant '%s'\n", peer.name, text);
    return EXIT_USAGE;
}

static int parse(int argc, char **argv, struct request *request)
{
    static const struct option options[] = {
        { "pattern", required_argument, NULL, 'p' },
        { "variant", required_argument, NULL, 'v' },
        { "tasks", required_argument, NULL, 't' },
        { "workers", required_argument, NULL, 'w' },
        { "peak", required_argument, NULL, 'n' },
        { "repeat", required_argument, NULL, 'r' },
        { "seconds", required_argument, NULL, 's' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    int key, code = -1;

    while (code < 0 && (key = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (key == 'p')
            request->pattern = optarg;
        else if (key == 'v')
            code = parse_variant(optarg, &request->variant);
        else if (key == 't')
            code = parse_count(optarg, 100000000, &request->tasks);
        else if (key == 'w')
            code = parse_count(optarg, 1024, &request->workers);
        else if (key == 'r')
            code = parse_count(optarg, REPEAT_MAX, &request->repeat);
        else if (key == 's')
            code = parse_count(optarg, 3600, &request->seconds);
        else if (key == 'n')
            request->peak_ns = atof(optarg);
        else if (key == 'h')
            print_usage();
        if (key == 'h' || key == '?')
            return key == 'h' ? 0 : EXIT_USAGE;
    }
    if (code < 0 && (optind < argc || request->pattern == NULL)) {
        fprintf(stderr, "%s: %s; see --help\n", peer.name,
                optind < argc ? "too many arguments" : "--pattern is missing");
        return EXIT_USAGE;
    }
    return code;
}

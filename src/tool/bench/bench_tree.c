/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/bench/bench_tree.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"
#include "pto/worker.h"
#include "tool/bench/bench_bare.h"
#include "tool/bench/bench_measure.h"

enum {
    ROUNDS = 4000,
    RESTED = 1000,
    ASLEEP = 500,
    QUICKER = 10, /* all counts are divided by this number with --quick */
    FEW = 10000,
    MANY = 1000000,
    ANY = 100000,
    REST_NS = 200000,
    SLEEP_NS = 2000000,
    WARM_NS = 100000000,
    IDLE_MS = 2000,
    /* number of children per CPU in the second of the two runs, in which CPUs are crowded */
    CROWD = 4
};
#define MEMORY (1ull << 30)

const struct bench_tree_aim bench_tree_aim[BENCH_TREE_CASES] = {
    { "empty SUB task, hot", 0, 5, 0 },
    { "empty SUB task, after 200 us", REST_NS, 20, 0 },
    { "empty SUB task, after 2 ms", SLEEP_NS, 0, 1.5 },
    { "empty chip task, hot", 0, 5, 0 },
    { "empty chip task, after 200 us", REST_NS, 20, 0 },
    { "empty chip task, after 2 ms", SLEEP_NS, 0, 1.5 },
};

double bench_tree_most_us(const struct bench_tree_results *results, enum bench_tree_case which)
{
    const struct bench_tree_aim *aim = &bench_tree_aim[which];

    return aim->most_us != 0 ? aim->most_us : aim->most_times * results->asleep.p50_us;
}

/* A worker, its callables, and the tasks to submit. */
struct load {
    struct pto_worker *worker;
    uint64_t callable[2]; /* callables, indexed by enum pto_child_kind; 0: no such child */
    enum pto_child_kind kind;
    uint64_t children;
    uint32_t count;
};

static int open_worker(struct load *l, uint32_t chips, uint32_t subs);
static void close_worker(struct load *l);
static int run_tasks(struct load *l);
static int measure_trips(struct load *l, uint32_t rounds, uint64_t rest_ns, double *p50,
                         double *p99);
static int measure_stream(struct load *l, uint32_t count, double *ns_out);
static int measure_bare(struct bench_tree_bare *bare, uint64_t rest_ns, bool is_quick);
static int measure_run(struct bench_tree_run *run, bool is_quick);
static int measure_streams(struct bench_tree_results *results);
static int measure_idle(struct bench_tree_results *results, bool is_quick);

int bench_tree(bool is_quick, struct bench_tree_results *results)
{
    int status = 0;

    *results = (struct bench_tree_results){ .few = is_quick ? FEW / QUICKER : FEW,
                                            .many = is_quick ? MANY / QUICKER : MANY };
    status = measure_bare(&results->rested, REST_NS, is_quick);
    if (status >= 0)
        status = measure_bare(&results->asleep, SLEEP_NS, is_quick);
    for (uint32_t i = 0; i < BENCH_TREE_RUNS && status >= 0; i++) {
        uint32_t children = os_machine_cpu_count() * (i == 0 ? 1 : CROWD);

        if (children < 2)
            children = 2;
        if (children > PTO_CHILDREN_MAX)
            children = PTO_CHILDREN_MAX;
        results->run[i].chips = children / 2;
        results->run[i].subs = children - children / 2;
        status = measure_run(&results->run[i], is_quick);
    }
    if (status >= 0)
        status = measure_streams(results);
    if (status >= 0)
        status = measure_idle(results, is_quick);
    return status;
}

int bench_tree_stream(uint32_t tasks, double *ns_out)
{
    struct load l;
    int status = open_worker(&l, 0, 1);

    if (status < 0)
        return status;
    l.kind = PTO_CHILD_SUB;
    l.children = PTO_ON(0);
    status = measure_stream(&l, tasks, ns_out);
    close_worker(&l);
    return status;
}

/* ---- the worker ---- */

static int bench_tree_print_error(int status, const struct pto_error *error)
{
    fprintf(stderr, "pto bench tree: %s\n",
            error->text[0] != '\0' ? error->text : pto_strerror(status));
    return status;
}

static int open_worker(struct load *l, uint32_t chips, uint32_t subs)
{
    const uint32_t count[2] = { chips, subs };
    struct pto_worker_params params;
    struct pto_error error;
    int status;

    *l = (struct load){ .count = 1 };
    pto_error_init(&error);
    pto_worker_params_init(&params);
    params.chip_count = chips;
    params.sub_count = subs;
    params.memory_max = MEMORY;
    params.error = &error;
    status = pto_worker_open(&params, &l->worker);
    if (status < 0)
        return bench_tree_print_error(status, &error);
    for (uint32_t kind = 0; kind < 2; kind++) {
        struct pto_worker_callable callable;

        if (count[kind] == 0)
            continue;
        pto_worker_callable_init(&callable);
        callable.kind = (enum pto_child_kind)kind;
        callable.bytes = bench_object;
        callable.byte_count = (size_t)(bench_object_end - bench_object);
        callable.symbol = kind == PTO_CHILD_SUB ? "bench_nothing" : "bench_chip";
        callable.error = &error;
        status = pto_worker_register(l->worker, &callable, &l->callable[kind]);
        if (status < 0) {
            close_worker(l);
            return bench_tree_print_error(status, &error);
        }
    }
    return 0;
}

static void close_worker(struct load *l)
{
    (void)pto_worker_close(l->worker);
}

static void submit_tasks(struct pto_level *level, void *context)
{
    const struct load *l = context;
    struct pto_args args;

    for (uint32_t i = 0; i < l->count; i++) {
        pto_args_init(&args);
        (void)pto_level_submit(level, l->callable[l->kind], l->children, &args);
    }
}

static int run_tasks(struct load *l)
{
    struct pto_worker_report *report = malloc(sizeof(*report));
    int status = PTO_ENOMEM;

    if (report != NULL) {
        pto_worker_report_init(report);
        status = pto_worker_run(l->worker, submit_tasks, l, report);
        if (status < 0)
            (void)bench_tree_print_error(status, &report->error);
    }
    free(report);
    return status;
}

/* ---- measurements ---- */

static int trip(struct load *l, uint64_t rest_ns, double *us_out)
{
    uint64_t begin;
    int status;

    if (rest_ns != 0)
        nanosleep(&(struct timespec){ 0, (long)rest_ns }, NULL);
    begin = os_now_ns();
    status = run_tasks(l);
    *us_out = (double)(os_now_ns() - begin) / 1e3;
    return status;
}

/* Measures tasks that are run one at a time, with an optional pause between two. */
static int measure_trips(struct load *l, uint32_t rounds, uint64_t rest_ns, double *p50,
                         double *p99)
{
    double *sample = malloc(rounds * sizeof(*sample));
    uint64_t warm_ns = os_now_ns() + WARM_NS;
    int status = sample != NULL ? 0 : PTO_ENOMEM;

    l->count = 1;
    /* run tasks until caches are warm and the CPU's clock is high */
    while (status >= 0 && os_now_ns() < warm_ns)
        status = trip(l, rest_ns, &sample[0]);
    for (uint32_t i = 0; i < rounds && status >= 0; i++)
        status = trip(l, rest_ns, &sample[i]);
    if (status >= 0) {
        *p50 = bench_quantile(sample, rounds, 0.5);
        *p99 = bench_quantile(sample, rounds, 0.99);
    }
    free(sample);
    return status;
}

static int measure_stream(struct load *l, uint32_t count, double *ns_out)
{
    uint64_t begin = os_now_ns();
    int status;

    l->count = count;
    status = run_tasks(l);
    *ns_out = (double)(os_now_ns() - begin) / count;
    return status;
}

static uint32_t rounds_after(uint64_t rest_ns)
{
    return rest_ns == 0 ? ROUNDS : rest_ns == REST_NS ? RESTED : ASLEEP;
}

static int measure_bare(struct bench_tree_bare *bare, uint64_t rest_ns, bool is_quick)
{
    return bench_bare(rounds_after(rest_ns) / (is_quick ? QUICKER : 1), rest_ns, &bare->p50_us,
                      &bare->p99_us);
}

static int measure_run(struct bench_tree_run *run, bool is_quick)
{
    const uint32_t divisor = is_quick ? QUICKER : 1;
    struct load l;
    int status = open_worker(&l, run->chips, run->subs);

    if (status < 0)
        return status;
    for (uint32_t i = 0; i < BENCH_TREE_CASES && status >= 0; i++) {
        l.kind = i <= BENCH_TREE_SUB_ASLEEP ? PTO_CHILD_SUB : PTO_CHILD_CHIP;
        l.children = l.kind == PTO_CHILD_SUB ? PTO_ON(run->chips) : PTO_ON(0);
        status = measure_trips(&l, rounds_after(bench_tree_aim[i].rest_ns) / divisor,
                               bench_tree_aim[i].rest_ns, &run->p50_us[i], &run->p99_us[i]);
    }
    l.kind = PTO_CHILD_SUB;
    l.children = 0;
    if (status >= 0)
        status = measure_stream(&l, ANY / divisor, &run->any_ns);
    close_worker(&l);
    return status;
}

static int measure_streams(struct bench_tree_results *results)
{
    double warm;
    struct load l;
    int status = open_worker(&l, 0, 2);

    if (status < 0)
        return status;
    l.kind = PTO_CHILD_SUB;
    l.children = PTO_ON(0);
    status = measure_stream(&l, results->few, &warm);
    if (status >= 0)
        status = measure_stream(&l, results->few, &results->one_few_ns);
    if (status >= 0)
        status = measure_stream(&l, results->many, &results->one_many_ns);
    l.children = 0;
    if (status >= 0)
        status = measure_stream(&l, results->many, &results->two_ns);
    close_worker(&l);
    return status;
}

/*
 * Returns the CPU time of all threads of a process in ms, from nanoseconds, because clock ticks are
 * too coarse; 0: unavailable.
 */
static double process_ms(int32_t pid)
{
    char path[64];
    double ms = 0;
    DIR *folder;

    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    folder = opendir(path);
    for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;) {
        unsigned long long ns = 0;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%d/task/%.20s/schedstat", pid, e->d_name);
        file = e->d_name[0] != '.' ? fopen(path, "re") : NULL;
        if (file == NULL)
            continue;
        if (fscanf(file, "%llu", &ns) == 1)
            ms += (double)ns / 1e6;
        fclose(file);
    }
    if (folder != NULL)
        closedir(folder);
    return ms;
}

/* Returns the CPU time that all children have used so far, in ms; negative: unavailable. */
static double children_ms(struct load *l)
{
    double ms = 0;

    for (uint32_t i = 0; i < BENCH_TREE_IDLE; i++) {
        struct pto_child_info info;
        double of_child;

        pto_child_info_init(&info);
        (void)pto_worker_child(l->worker, i, &info);
        of_child = process_ms(info.pid);
        if (of_child == 0)
            return -1;
        ms += of_child;
    }
    return ms;
}

static double own_ms(void)
{
    struct rusage own;

    getrusage(RUSAGE_SELF, &own);
    return (double)(own.ru_utime.tv_sec + own.ru_stime.tv_sec) * 1e3 +
           (double)(own.ru_utime.tv_usec + own.ru_stime.tv_usec) / 1e3;
}

static int measure_idle(struct bench_tree_results *results, bool is_quick)
{
    const uint32_t wait_ms = is_quick ? IDLE_MS / QUICKER : IDLE_MS;
    uint64_t begin = os_now_ns();
    struct load l;
    int status = open_worker(&l, BENCH_TREE_IDLE / 2, BENCH_TREE_IDLE - BENCH_TREE_IDLE / 2);
    double before, after, own;

    if (status < 0)
        return status;
    results->start_ms = (double)(os_now_ns() - begin) / 1e6;
    usleep(10000); /* wait until all children sleep */
    before = children_ms(&l);
    /*
     * do not call children_ms during the measurement, because it uses more CPU time than idle
     * children do
     */
    own = own_ms();
    usleep(wait_ms * 1000);
    own = own_ms() - own;
    after = children_ms(&l);
    results->idle_ms = after - before + own;
    results->idle_s = wait_ms / 1e3;
    begin = os_now_ns();
    close_worker(&l);
    results->close_ms = (double)(os_now_ns() - begin) / 1e6;
    return before < 0 || after < 0 ? PTO_ENOSUP : PTO_OK;
}

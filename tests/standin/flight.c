/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two runs in flight, with the stand-in: its account says that a run was launched after one that
 * was executing on the card, and a gate, which the test opens, determines how long the first one
 * takes.
 *
 *     flight ARTEFACT          results, order, cancellation, failures, what is not overlapped, a loss
 *     flight ARTEFACT idle     how long the card has nothing to do between two runs, queued and not
 */
#define _GNU_SOURCE
#include <pto/pto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/standin/client.h"

enum { ELEMENTS = 64, CHAIN = 40, LATE_S = 60, MS = 1000000 };
enum { PLAIN, GATED, GATED_FAILING, SLOW = 1000000 }; /* scalars of the scene */

static uint64_t (*count)(const char *what);
static struct pto_device *device;
static struct pto_callable *callable;
static uint64_t gate; /* words on the card: a kernel has arrived; the kernels may continue */

struct job {
    int32_t in[ELEMENTS], out[ELEMENTS];
    struct pto_run_options options;
    struct pto_run_report report;
    struct pto_run *run;
};

#define CHECK(condition)                                               \
    do {                                                               \
        if (!(condition))                                              \
            fail("%s:%d: not so: %s", __FILE__, __LINE__, #condition); \
    } while (0)

static bool is_late(time_t begin)
{
    return time(NULL) - begin > LATE_S;
}

/* ---- jobs ---- */

static void set_gate(int32_t there, int32_t open)
{
    const int32_t words[2] = { there, open };

    CHECK(pto_mem_write(device, gate, words, sizeof(words)) == PTO_OK);
}

static void job_init(struct job *j, int32_t value)
{
    memset(j, 0, sizeof(*j));
    pto_run_options_init(&j->options);
    pto_run_report_init(&j->report);
    for (int i = 0; i < ELEMENTS; i++)
        j->in[i] = value + i;
}

/* Submits a run that copies its input to a separate output. */
static void prepare(struct job *j, const int32_t *from, uint64_t kind)
{
    const uint32_t two[1] = { 2 }, shape[1] = { ELEMENTS };
    struct pto_tensor tensor[3] = {
        pto_tensor_external((void *)(uintptr_t)gate, two, 1, PTO_INT32),
        pto_tensor_external((void *)(uintptr_t)from, shape, 1, PTO_INT32),
        pto_tensor_external(j->out, shape, 1, PTO_INT32),
    };
    const struct pto_entry entry = {
        .tensor_count = 3, .tensor = tensor, .scalar_count = 1, .scalar = &kind
    };

    tensor[0].space = PTO_SPACE_DEVICE;
    CHECK(pto_run_prepare(device, callable, &entry, &j->options, &j->run) == PTO_OK);
}

static void launch(struct job *j, const int32_t *from, uint64_t kind)
{
    prepare(j, from, kind);
    CHECK(pto_run_launch(j->run) == PTO_OK);
}

static int finish(struct job *j)
{
    int status = pto_run_wait(j->run, 0);

    CHECK(pto_run_finish(j->run, &j->report) == status);
    return status;
}

static void check_sums(const struct job *j, const int32_t *from)
{
    for (int i = 0; i < ELEMENTS; i++)
        if (j->out[i] != from[i] + 1)
            fail("element %d is %d, not %d", i, j->out[i], from[i] + 1);
}

/* The kernel of the run executes on the card, and waits at the gate. */
static void launch_gated(struct job *j, uint64_t kind)
{
    time_t begin = time(NULL);
    int32_t there = 0;

    set_gate(0, 0);
    launch(j, j->in, kind);
    while (there == 0) {
        CHECK(!is_late(begin));
        CHECK(pto_mem_read(device, gate, &there, sizeof(there)) == PTO_OK);
    }
}

/* Waits until this many runs were launched after others. */
static void await_behind(uint64_t behind)
{
    time_t begin = time(NULL);

    while (count("behind") != behind) {
        CHECK(!is_late(begin));
        usleep(100);
    }
}

/* ---- the tests ---- */

static void a_second_run_is_launched_behind_the_first(void)
{
    uint64_t behind = count("behind");
    struct job a, b;

    job_init(&a, 10);
    job_init(&b, 1000);
    launch_gated(&a, GATED);
    launch(&b, b.in, PLAIN);
    await_behind(behind + 1);
    CHECK(pto_run_poll(a.run) == PTO_RUN_PENDING && pto_run_poll(b.run) == PTO_RUN_PENDING);
    CHECK(pto_unregister(device, callable) == PTO_EBUSY && pto_device_close(device) == PTO_EBUSY);
    set_gate(1, 1);
    CHECK(pto_run_wait(b.run, 0) == PTO_OK);
    CHECK(pto_run_poll(a.run) == PTO_RUN_ENDED); /* the runs end in the order of the queue */
    CHECK(finish(&b) == PTO_OK && finish(&a) == PTO_OK);
    check_sums(&a, a.in);
    check_sums(&b, b.in);
}

static void a_run_reads_what_the_one_before_it_wrote(void)
{
    uint64_t behind = count("behind");
    struct job a, b;

    job_init(&a, 10);
    job_init(&b, 0);
    launch_gated(&a, GATED);
    launch(&b, a.out, PLAIN);
    usleep(20000); /* this run could be launched in the meantime, but must not be */
    set_gate(1, 1);
    CHECK(finish(&a) == PTO_OK && finish(&b) == PTO_OK);
    CHECK(count("behind") == behind);
    check_sums(&a, a.in);
    check_sums(&b, a.out);
}

static void many_runs_compute_what_they_should(void)
{
    static struct job job[CHAIN];
    uint32_t random = 12345;
    int from[CHAIN];

    set_gate(1, 1);
    for (int i = 0; i < CHAIN; i++) {
        random = random * 1103515245 + 12345;
        from[i] =
            i > 0 && (random >> 16) % 3 == 0 ? i - 1 - (int)((random >> 20) % (uint32_t)i) : i;
        job_init(&job[i], 100 * i);
        launch(&job[i], from[i] == i ? job[i].in : job[from[i]].out, random % 2 ? GATED : PLAIN);
    }
    for (int i = 0; i < CHAIN; i++)
        CHECK(finish(&job[i]) == PTO_OK);
    for (int i = 0; i < CHAIN; i++)
        check_sums(&job[i], from[i] == i ? job[i].in : job[from[i]].out);
}

static void either_is_cancelled_alone(void)
{
    for (int which = 0; which < 2; which++) {
        uint64_t behind = count("behind");
        struct job job[2];

        job_init(&job[0], 10);
        job_init(&job[1], 20);
        launch_gated(&job[0], GATED);
        launch(&job[1], job[1].in, PLAIN);
        await_behind(behind + 1);
        CHECK(pto_run_cancel(job[which].run) == PTO_OK);
        usleep(20000); /* a run that takes this report for its own would be noticed */
        set_gate(1, 1);
        for (int i = 0; i < 2; i++) {
            int status = finish(&job[i]);

            /* The first run may have ended before the cancellation arrives. */
            if (status != PTO_OK && (i != which || status != PTO_ECANCELED))
                fail("run %d, %d is cancelled: %s", i, which, job[i].report.error.text);
            CHECK(status == PTO_ECANCELED || i != which || i == 0);
        }
        check_sums(&job[!which], job[!which].in);
        CHECK(which == 0 || job[1].out[0] == 0);
    }
}

static void a_failure_is_that_of_its_run(void)
{
    uint64_t behind = count("behind");
    struct job a, b;

    job_init(&a, 10);
    job_init(&b, 20);
    launch_gated(&a, GATED_FAILING);
    launch(&b, b.in, PLAIN);
    await_behind(behind + 1);
    set_gate(1, 1);
    CHECK(finish(&a) == -9 && strstr(a.report.error.text, "it gave up") != NULL);
    CHECK(finish(&b) == PTO_OK);
    check_sums(&b, b.in);
}

/* The time limit begins when the run begins on the card. */
static void waiting_behind_another_takes_no_time(void)
{
    uint64_t behind = count("behind");
    struct job a, b;
    int status;

    job_init(&a, 10);
    job_init(&b, 20);
    b.options.timeout_ns = 300ull * MS;
    launch_gated(&a, GATED);
    launch(&b, b.in, PLAIN);
    await_behind(behind + 1);
    usleep(400000);
    set_gate(1, 1);
    CHECK(finish(&a) == PTO_OK);
    status = finish(&b);
    /* otherwise the machine is very busy */
    if (status != PTO_OK && b.report.ns < b.options.timeout_ns)
        fail("a run of %llu ns is late: %s", (unsigned long long)b.report.ns, b.report.error.text);
}

/* Cases in which no run is launched after the first one, or after the second one. */
static void some_runs_are_not_overlapped(void)
{
    for (int kind = 0; kind < 4; kind++) {
        uint64_t behind = count("behind");
        struct job a, b;

        job_init(&a, 10);
        job_init(&b, 20);
        a.options.trace = kind == 0 ? PTO_TRACE_TIMES : PTO_TRACE_OFF;
        b.options.trace = kind == 1 ? PTO_TRACE_TIMES : PTO_TRACE_OFF;
        b.options.launch_timeout_ns = kind == 2 ? 60000ull * MS : kind == 3 ? 100ull * MS : 0;
        launch_gated(&a, GATED);
        launch(&b, b.in, PLAIN);
        usleep(10000);
        if (kind == 3)
            CHECK(finish(&b) == PTO_ETIMEOUT && strstr(b.report.error.text, "had not started"));
        set_gate(1, 1);
        CHECK(finish(&a) == PTO_OK);
        CHECK(kind == 3 || finish(&b) == PTO_OK);
        CHECK(count("behind") == behind);
    }
}

/* Dropping a graph and loading code wait until no run executes on the card. */
static void what_needs_rest_gets_it(void)
{
    const uint32_t two[1] = { 2 }, shape[1] = { ELEMENTS };
    const uint64_t kind = PLAIN;
    uint64_t behind = count("behind"), allocations = count("allocations");
    struct pto_graph *graph;
    struct job a, b;
    struct pto_tensor tensor[3] = {
        pto_tensor_external((void *)(uintptr_t)gate, two, 1, PTO_INT32),
        pto_tensor_external(a.in, shape, 1, PTO_INT32),
        pto_tensor_external(a.out, shape, 1, PTO_INT32),
    };
    const struct pto_entry entry = {
        .tensor_count = 3, .tensor = tensor, .scalar_count = 1, .scalar = &kind
    };

    tensor[0].space = PTO_SPACE_DEVICE;
    job_init(&a, 10);
    job_init(&b, 20);
    CHECK(pto_graph_build(device, callable, &entry, NULL, NULL, &graph) == PTO_OK);
    launch_gated(&a, GATED);
    CHECK(pto_graph_destroy(graph) == PTO_OK);
    launch(&b, b.in, PLAIN);
    usleep(20000);
    set_gate(1, 1);
    CHECK(finish(&a) == PTO_OK && finish(&b) == PTO_OK);
    CHECK(count("behind") == behind);
    CHECK(count("allocations") <= allocations + 1); /* at most the tensors of the second run */
    check_sums(&b, b.in);
}

/* Called last: a kernel never returns. */
static void the_next_one_is_told_of_a_loss(void)
{
    uint64_t behind = count("behind");
    struct job a, b, c;

    job_init(&a, 10);
    job_init(&b, 20);
    job_init(&c, 30);
    a.options.stall_timeout_ns = 1500ull * MS; /* other runs are launched in the meantime */
    launch_gated(&a, GATED);
    launch(&b, b.in, PLAIN);
    launch(&c, c.in, PLAIN);
    await_behind(behind + 1);
    CHECK(finish(&a) < 0);
    CHECK(finish(&b) == PTO_ELOST && strstr(b.report.error.text, "a kernel never returned"));
    CHECK(finish(&c) == PTO_ELOST && strstr(c.report.error.text, "a kernel never returned"));
    CHECK(b.out[0] == 0 && c.out[0] == 0);
    set_gate(1, 1);
}

/* ---- how long the card rests ---- */

static double rest_of(uint32_t runs, bool is_queued)
{
    static struct job job[2];
    uint64_t ended = count("runs"), idle = count("idle_us");

    for (uint32_t i = 0; i < runs + 2; i++) {
        struct job *j = &job[i % 2];

        if (i >= 2 && is_queued)
            CHECK(finish(j) == PTO_OK);
        if (i == runs && !is_queued)
            break;
        if (i >= runs)
            continue;
        job_init(j, 10);
        launch(j, j->in, SLOW);
        if (!is_queued)
            CHECK(finish(j) == PTO_OK);
    }
    return (double)(count("idle_us") - idle) / (double)(count("runs") - ended);
}

/* Judged by the account, not by times, because other processes use the machine as well. */
static void a_queued_run_finds_the_card_busy(void)
{
    uint64_t behind = count("behind"), idle;
    struct job a, b;

    job_init(&a, 10);
    job_init(&b, 20);
    launch_gated(&a, GATED);
    idle = count("idle_us");
    launch(&b, b.in, PLAIN);
    await_behind(behind + 1);
    set_gate(1, 1);
    CHECK(finish(&a) == PTO_OK && finish(&b) == PTO_OK);
    CHECK(count("idle_us") == idle); /* between the two */
    usleep(1000);
    job_init(&a, 30);
    launch(&a, a.in, PLAIN);
    CHECK(finish(&a) == PTO_OK);
    CHECK(count("behind") == behind + 1 && count("idle_us") >= idle + 1000);
}

static void measure(void)
{
    uint64_t behind;
    double apart, queued;

    (void)rest_of(20, true);
    behind = count("behind");
    apart = rest_of(200, false);
    CHECK(count("behind") == behind);
    queued = rest_of(200, true);
    CHECK(count("behind") > behind);
    a_queued_run_finds_the_card_busy();
    printf("the card waits %.1f us for the next run, %.1f us if it is queued: %.3f of it; "
           "%llu of 200 were launched behind another\n",
           apart, queued, queued / apart, (unsigned long long)(count("behind") - 1 - behind));
}

/* ---- all ---- */

static void open_all(const char *artefact)
{
    struct pto_device_params params;
    struct pto_error error;

    pto_error_init(&error);
    pto_device_params_init(&params);
    params.platform = getenv("SWEEP_PLATFORM") != NULL ? getenv("SWEEP_PLATFORM") : "a2a3";
    params.error = &error;
    params.clusters = 1;
    params.memory_max = 16 << 20;
    if (pto_device_open(&params, &device) < 0 ||
        pto_callable_load_file(artefact, NULL, &callable, &error) < 0)
        fail("%s: %s", artefact, error.text);
    CHECK(pto_mem_alloc(device, 2 * sizeof(int32_t), &gate) == PTO_OK);
}

static void close_all(void)
{
    CHECK(pto_callable_destroy(callable) == PTO_OK);
    CHECK(pto_device_close(device) == PTO_OK);
}

int main(int argc, char **argv)
{
    static const char *const things[] = { "streams",    "allocations", "modules", "binaries",
                                          "references", "events",      "acl",     "violations" };

    if (argc < 2)
        fail("flight ARTEFACT [idle]");
    *(void **)&count = find("standin_count");
    open_all(argv[1]);
    if (argc > 2 && strcmp(argv[2], "idle") == 0) {
        measure();
        close_all();
        return 0;
    }
    a_second_run_is_launched_behind_the_first();
    a_run_reads_what_the_one_before_it_wrote();
    many_runs_compute_what_they_should();
    either_is_cancelled_alone();
    a_failure_is_that_of_its_run();
    waiting_behind_another_takes_no_time();
    some_runs_are_not_overlapped();
    what_needs_rest_gets_it();
    a_second_run_is_launched_behind_the_first(); /* as before all that */
    close_all();
    for (size_t i = 0; i < sizeof(things) / sizeof(things[0]); i++)
        if (count(things[i]) != 0)
            fail("%llu %s are left", (unsigned long long)count(things[i]), things[i]);
    open_all(argv[1]);
    the_next_one_is_told_of_a_loss();
    close_all();
    open_all(argv[1]);
    a_second_run_is_launched_behind_the_first();
    close_all();
    puts("two runs in flight: results, order, cancellation, failures, time, what has to wait, and "
         "a loss");
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that the host builds for a card: where the orchestration runs, what it reads and writes
 * itself, what happens when it fails, and that the card can be used after each of that. Graphs that are kept;
 * runs in a row allocate nothing on the card.
 *
 *     built PLATFORM FOLDER    of its sources; in the log of calls PTO_CANN_LOG counts allocations
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <pto/build.h>
#include <pto/pto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/standin/built/built_tasks.h"
#include "tests/standin/client.h"

enum { COUNT = 16, ROUNDS = 50, SCALARS = 2 };
#define MS 1000000ull

static struct pto_device *device;
static struct pto_callable *callable[PTO_MODE_COUNT];
static struct pto_run_report report;
static struct pto_tensor tensor[2]; /* on the card */
static int32_t data[2][COUNT];
static uint64_t scalar[SCALARS];
static const struct pto_entry entry = { 2, SCALARS, tensor, scalar };

#define EXPECT(what)                                                                           \
    do {                                                                                       \
        if (!(what))                                                                           \
            fail("%s:%d: %s does not hold: %s", __FILE__, __LINE__, #what, report.error.text); \
    } while (0)

/* ---- what is run ---- */

static void build(const char *platform, const char *folder, enum pto_mode mode)
{
    struct pto_build_params params;
    struct pto_source source[2] = { { .kind = PTO_SOURCE_ORCHESTRATION },
                                    { .kind = PTO_SOURCE_KERNEL, .core = PTO_CORE_AIV } };
    struct pto_error error;
    char path[2][1024];
    void *bytes;
    size_t size;

    pto_error_init(&error);
    snprintf(path[0], sizeof(path[0]), "%s/built_orchestration.c", folder);
    snprintf(path[1], sizeof(path[1]), "%s/sum_up.c", folder);
    source[0].path = path[0];
    source[1].path = path[1];
    pto_build_params_init(&params);
    params.name = "built";
    params.platform = platform;
    params.mode = mode;
    params.sources = source;
    params.source_count = 2;
    if (pto_build(&params, &bytes, &size, &error) < 0 ||
        pto_callable_load_memory(bytes, size, NULL, &callable[mode], &error) < 0)
        fail("%s", error.text);
    free(bytes);
}

static void open_device(const char *platform)
{
    struct pto_device_params params;
    struct pto_error error;

    pto_error_init(&error);
    pto_device_params_init(&params);
    params.platform = platform;
    params.clusters = 2;
    params.error = &error;
    if (pto_device_open(&params, &device) < 0)
        fail("%s", error.text);
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t addr;

        if (pto_mem_alloc(device, sizeof(data[i]), &addr) < 0)
            fail("there is no memory on the card");
        tensor[i] = pto_tensor_external((void *)(uintptr_t)addr, PTO_DIMS(COUNT), 1, PTO_INT32);
        tensor[i].space = PTO_SPACE_DEVICE;
    }
}

static void copy_in(void)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        data[0][i] = (int32_t)(10 * i + 1);
        data[1][i] = -1;
    }
    for (uint32_t i = 0; i < 2; i++)
        EXPECT(pto_mem_write(device, tensor[i].addr, data[i], sizeof(data[i])) >= 0);
}

static void copy_out(void)
{
    for (uint32_t i = 0; i < 2; i++)
        EXPECT(pto_mem_read(device, tensor[i].addr, data[i], sizeof(data[i])) >= 0);
}

static int run_in(enum pto_mode mode, enum task task, uint64_t value, uint64_t timeout_ns)
{
    struct pto_run_options options;

    pto_run_options_init(&options);
    options.mode = mode;
    options.timeout_ns = timeout_ns;
    options.grace_ns = 50 * MS;
    options.has_guards = task == OVERRUN;
    scalar[0] = task;
    scalar[1] = value;
    copy_in();
    memset(&report, 0, sizeof(report));
    pto_run_report_init(&report);
    return pto_run(device, callable[mode], &entry, &options, &report);
}

static int run(enum task task, uint64_t value)
{
    return run_in(PTO_MODE_HOST, task, value, 0);
}

static void expect_sum(uint64_t value)
{
    copy_out();
    for (uint32_t i = 0; i < COUNT; i++)
        EXPECT(data[1][i] == (int32_t)(10 * i + 1 + 2 * value));
}

static void expect_usable(void)
{
    EXPECT(run(SUM, 5) == PTO_OK);
    EXPECT(report.tasks == 2 && report.executions == 2 && report.edges == 1);
    expect_sum(5);
}

/* ---- the parts ---- */

/* The control processor of a card is an aarch64 processor, and never this process. */
static void report_where(bool is_emulated)
{
    EXPECT(run(TELL, 0) == PTO_OK);
    copy_out();
    EXPECT(data[1][0] == 1 && data[1][1] == (int32_t)getpid());
    EXPECT(run_in(PTO_MODE_STREAM, TELL, 0, 0) == PTO_OK);
    copy_out();
    EXPECT(data[1][0] == (is_emulated ? 2 : 1) && (data[1][1] != (int32_t)getpid()) == is_emulated);
    EXPECT(run_in(PTO_MODE_STREAM, SUM, 5, 0) == PTO_OK);
    expect_sum(5);
}

static void use_elements(void)
{
    for (uint64_t value = 3; value <= 5000; value += 4997) {
        EXPECT(run(ELEMENTS, value) == PTO_OK);
        copy_out();
        EXPECT(data[0][0] == 1 && data[0][1] == (int32_t)(11 + value) &&
               data[0][2] == (int32_t)(12 + value) && data[0][3] == 31);
        for (uint32_t i = 0; i < COUNT; i++) /* the second task's predicate does not hold */
            EXPECT(data[1][i] == 8);
    }
}

static void expect_failure(int status, int wanted, const char *words)
{
    EXPECT(status == wanted);
    if (strstr(report.error.text, words) == NULL)
        fail("\"%s\" does not say \"%s\"", report.error.text, words);
    expect_usable();
}

static void *cancel_soon(void *run)
{
    while (pto_run_poll(run) == PTO_RUN_PENDING) {
        usleep(20000);
        (void)pto_run_cancel(run);
    }
    return NULL;
}

static void cancel_building(void)
{
    struct pto_run_options options;
    struct pto_run *handle;
    pthread_t thread;

    pto_run_options_init(&options);
    options.mode = PTO_MODE_HOST;
    options.grace_ns = 50 * MS;
    scalar[0] = WAIT;
    EXPECT(pto_run_prepare(device, callable[PTO_MODE_HOST], &entry, &options, &handle) == PTO_OK);
    EXPECT(pthread_create(&thread, NULL, cancel_soon, handle) == 0);
    EXPECT(pto_run_execute(handle) == PTO_ECANCELED);
    (void)pthread_join(thread, NULL);
    expect_failure(pto_run_finish(handle, &report), PTO_ECANCELED, "cancel");
}

static void meet_failures(void)
{
    expect_failure(run(CRASH, 5), PTO_ECRASH, "crash");
    expect_failure(run_in(PTO_MODE_HOST, LOOP, 0, 100 * MS), PTO_ETIMEOUT, "100 ms");
    expect_failure(run(BAD_VIEW, 0), PTO_EARGS, "built_orchestration.c:3000");
    expect_failure(run(OVERRUN, 0), PTO_EOVERRUN, "built_orchestration.c:2000");
    expect_failure(run(LARGE, 0), PTO_ENOMEM, "MiB");
    expect_failure(run(99, 0), PTO_OK, "");
    cancel_building();
    /* The mode for which it was compiled decides. */
    pto_run_report_init(&report);
    EXPECT(pto_run(device, callable[PTO_MODE_HOST], &entry, NULL, &report) == PTO_OK);
    {
        struct pto_run_options options;

        pto_run_options_init(&options);
        options.mode = PTO_MODE_HOST;
        expect_failure(pto_run(device, callable[PTO_MODE_STREAM], &entry, &options, &report),
                       PTO_ENOSUP, "its orchestration is for the card: build the callable for");
    }
}

/* A graph that is built on the host, and launched with other scalars and other memory. */
static void keep_graph(void)
{
    struct pto_run_options options;
    struct pto_tensor swapped[2] = { tensor[1], tensor[0] };
    struct pto_entry other = entry;
    struct pto_graph *graph;

    pto_run_options_init(&options);
    options.mode = PTO_MODE_HOST;
    options.varying_scalars[0] = 2;
    scalar[0] = SUM;
    scalar[1] = 5;
    copy_in();
    pto_run_report_init(&report);
    EXPECT(pto_graph_build(device, callable[PTO_MODE_HOST], &entry, &options, &report, &graph) ==
           PTO_OK);
    copy_out();
    EXPECT(data[1][0] == -1); /* nothing has run */
    for (uint64_t value = 5; value < 8; value++) {
        scalar[1] = value;
        copy_in();
        EXPECT(pto_graph_run(graph, &entry, NULL, &report) == PTO_OK && report.executions == 2);
        expect_sum(value);
    }
    other.tensor = swapped;
    copy_in();
    EXPECT(pto_graph_run(graph, &other, NULL, &report) == PTO_OK);
    copy_out();
    EXPECT(data[0][3] == -1 + 14);
    scalar[0] = MANY;
    EXPECT(pto_graph_run(graph, &entry, NULL, &report) == PTO_EGRAPH);
    EXPECT(pto_graph_destroy(graph) == PTO_OK);
    scalar[0] = CRASH;
    EXPECT(pto_graph_build(device, callable[PTO_MODE_HOST], &entry, &options, &report, &graph) ==
           PTO_ECRASH);
    expect_usable();
}

/* Returns the number of calls of this name in the log so far. */
static uint32_t count_calls(const char *name)
{
    FILE *log = fopen(getenv("PTO_CANN_LOG"), "re");
    char line[512];
    uint32_t count = 0;

    if (log == NULL)
        fail("there is no log of calls");
    while (fgets(line, sizeof(line), log) != NULL)
        count += strstr(line, name) != NULL;
    fclose(log);
    return count;
}

static void run_steadily(void)
{
    uint32_t taken, given;

    EXPECT(run(MANY, 2000) == PTO_OK && report.executions == 2000);
    expect_usable();
    taken = count_calls("aclrtMalloc");
    given = count_calls("aclrtFree");
    for (uint32_t i = 0; i < ROUNDS; i++) {
        EXPECT(run(MANY, 10 * i + 1) == PTO_OK);
        expect_usable();
    }
    if (count_calls("aclrtMalloc") != taken || count_calls("aclrtFree") != given)
        fail("runs allocate on the card: %u and %u calls more", count_calls("aclrtMalloc") - taken,
             count_calls("aclrtFree") - given);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        fail("usage: built PLATFORM FOLDER [emulated]");
    for (int mode = 0; mode < PTO_MODE_COUNT; mode++)
        build(argv[1], argv[2], (enum pto_mode)mode);
    open_device(argv[1]);
    report_where(argc > 3);
    use_elements();
    meet_failures();
    keep_graph();
    run_steadily();
    for (uint32_t i = 0; i < 2; i++)
        EXPECT(pto_mem_free(device, tensor[i].addr, NULL) == PTO_OK);
    EXPECT(pto_device_close(device) == PTO_OK);
    for (int mode = 0; mode < PTO_MODE_COUNT; mode++)
        EXPECT(pto_callable_destroy(callable[mode]) == PTO_OK);
    puts("ok");
    return 0;
}

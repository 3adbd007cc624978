/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of many tasks, recorded and read again: each task is in the recording with its times, or is
 * counted as lost. PTO_TEST_LONG: ten million tasks.
 */
#include "pto/graph.h"
#include "pto/recording.h"
#include "tool/see/recording.h"

#include "tests/fixture/open_test.h"

enum { SMALL_RING = 1024 };

static uint32_t tasks;

static void do_nothing(int64_t *args)
{
    (void)args;
}

static void do_little(int64_t *args)
{
    (void)args;
    for (volatile int i = 0; i < 500; i++)
        continue;
}

/* Every other task waits for the one before it. */
static void submit_pairs(struct pto_orch *o, const struct pto_entry *entry)
{
    static float memory[2];
    struct pto_tensor x = pto_tensor_external(memory, PTO_DIMS(1), 1, PTO_FLOAT32);

    (void)entry;
    for (uint32_t i = 0; i < tasks; i++) {
        if (i % 2 == 0)
            pto_aiv(o, 0, PTO_WRITE(&x));
        else
            pto_aiv(o, 0, PTO_INOUT(&x));
    }
}

static void submit_apart(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    for (uint32_t i = 0; i < tasks; i++)
        pto_aiv(o, 1);
}

/* All tasks but the first wait for it. */
static void submit_fan(struct pto_orch *o, const struct pto_entry *entry)
{
    static float memory[2];
    struct pto_tensor x = pto_tensor_external(memory, PTO_DIMS(1), 1, PTO_FLOAT32);

    (void)entry;
    pto_aiv(o, 1, PTO_INOUT(&x));
    for (uint32_t i = 1; i < tasks; i++)
        pto_aiv(o, 0, PTO_IN(&x));
}

/* Runs and reads the recording. `records` is the number per thread; 0: the default. */
static struct see_recording *record_of(pto_orch_fn submit, enum pto_mode mode, uint32_t workers,
                                       enum pto_trace trace, uint32_t records,
                                       struct pto_run_report *report)
{
    static const struct pto_kernel kernels[] = { { "nothing", do_nothing, PTO_CORE_AIV },
                                                 { "little", do_little, PTO_CORE_AIV } };
    struct pto_entry entry = { 0 };
    struct pto_run_options options;
    struct pto_callable *callable = make_callable(kernels, 2, submit);
    struct pto_device *device = open_device(NULL, 0, workers);
    struct see_recording *r = NULL;
    struct pto_error error;
    char path[128], title[] = "many, pairs";

    pto_error_init(&error);
    pto_run_report_init(report);
    pto_run_options_init(&options);
    options.mode = mode;
    options.trace = trace;
    options.trace_records = records;
    options.trace_title = title;
    snprintf(path, sizeof(path), "%s/many.ptrec", folder);
    assert_int_equal(pto_run(device, callable, &entry, &options, report), PTO_OK);
    memset(title, 0, sizeof(title)); /* a device has its own recorder memory */
    assert_int_equal(pto_trace_write(device, path, &error), PTO_OK);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    assert_int_equal(pto_device_close(device), PTO_OK);
    assert_int_equal(see_recording_read(path, &r, &error), PTO_OK);
    assert_int_equal(r->task_count, tasks);
    assert_string_equal(r->title, "many, pairs");
    return r;
}

static struct see_recording *record(enum pto_trace trace, uint32_t records,
                                    struct pto_run_report *report)
{
    return record_of(submit_pairs, PTO_MODE_STREAM, 2, trace, records, report);
}

static void every_task_has_its_times(void **state)
{
    struct pto_run_report report;
    struct see_recording *r;

    (void)state;
    tasks = 20000;
    r = record(PTO_TRACE_TIMES, 0, &report);
    assert_int_equal(report.records_lost, 0);
    assert_int_equal(r->records_lost, 0);
    assert_true(r->has_ready);
    assert_int_equal(r->slice_count, tasks);
    for (uint32_t i = 0; i < tasks; i++) {
        const struct see_task *t = &r->task[i];

        assert_true(t->submit_ns <= t->ready_ns && t->ready_ns <= t->start_ns);
        assert_true(t->start_ns <= t->end_ns && t->end_ns <= r->length_ns);
        assert_true(t->ready_by == PTO_RECORDING_NONE || t->ready_by < i);
    }
    see_recording_free(r);
}

/*
 * All tasks read and write the same memory: a chain, most of which has ended when the next task is
 * submitted.
 */
static void every_edge_is_there_whenever_tasks_ended(void **state)
{
    struct pto_run_report report;
    struct see_recording *r;

    (void)state;
    tasks = 20000;
    r = record(PTO_TRACE_ARGUMENTS, 0, &report);
    assert_true(r->has_edges);
    assert_int_equal(r->edge_count, tasks - 1);
    for (uint32_t i = 1; i < tasks; i++) {
        const struct see_edge *e = &r->edge[r->edge_from[i]];

        assert_int_equal(e->from, i - 1);
        assert_int_equal(e->reason,
                         i % 2 != 0 ? PTO_RECORDING_REASON_RAW : PTO_RECORDING_REASON_WAW);
    }
    see_recording_free(r);
}

/* Tasks whose records were overwritten are missing in the recording, and their number is stored. */
static void nothing_is_lost_silently(void **state)
{
    bool is_long = getenv("PTO_TEST_LONG") != NULL;
    struct pto_run_report report;
    struct see_recording *r;

    (void)state;
    tasks = is_long ? 10000000 : 20000;
    r = record(PTO_TRACE_TIMES, is_long ? 0 : SMALL_RING, &report);
    assert_true(report.records_lost != 0);
    assert_int_equal(r->records_lost, report.records_lost);
    assert_true(r->slice_count < tasks);
    assert_true(tasks - r->slice_count <= r->records_lost);
    see_recording_free(r);
}

/* Taking a time stamp takes as long as an empty task, so consecutive kernels share one. */
static void kernels_in_a_row_share_a_stamp(void **state)
{
    struct pto_run_report report;
    struct see_recording *r;
    uint32_t shared = 0;

    (void)state;
    tasks = 2000;
    r = record_of(submit_apart, PTO_MODE_HOST, 1, PTO_TRACE_TIMES, 0, &report);
    assert_int_equal(r->slice_count, tasks);
    for (uint32_t i = 0; i < tasks; i++)
        for (uint32_t k = i > 0 ? i - 1 : 0; k <= i + 1 && k < tasks; k++)
            shared += k != i && r->task[i].start_ns == r->task[k].end_ns;
    assert_true(shared > tasks / 2);
    see_recording_free(r);
}

/*
 * The end of the first task makes 20 000 tasks ready. That takes time, which must not be attributed
 * to a kernel.
 */
static void work_between_kernels_belongs_to_none(void **state)
{
    struct pto_run_report report;
    struct see_recording *r;

    (void)state;
    tasks = 20000;
    r = record_of(submit_fan, PTO_MODE_HOST, 1, PTO_TRACE_TIMES, 0, &report);
    assert_int_equal(r->slice_count, tasks);
    for (uint32_t i = 1; i < tasks; i++) {
        assert_int_equal(r->task[i].ready_by, 0);
        assert_true(r->task[i].start_ns > r->task[0].end_ns);
    }
    see_recording_free(r);
}

/* The second task waits for what the first one wrote. */
static void submit_two(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, 0, PTO_WRITE(&entry->tensor[0]));
    pto_aiv(o, 1, PTO_IN(&entry->tensor[0]), PTO_PASS(0));
}

static void a_launch_has_its_own_addresses_and_scalars(void **state)
{
    static const struct pto_kernel kernels[] = { { "nothing", do_nothing, PTO_CORE_AIV },
                                                 { "little", do_little, PTO_CORE_AIV } };
    static float memory[2];
    uint64_t scalar = 7;
    struct pto_tensor x = pto_tensor_external(&memory[0], PTO_DIMS(1), 1, PTO_FLOAT32);
    struct pto_entry entry = { 1, 1, &x, &scalar };
    struct pto_callable *callable = make_callable(kernels, 2, submit_two);
    struct pto_device *device = open_device(NULL, 0, 1);
    struct see_recording *r = NULL;
    struct pto_run_options options;
    struct pto_graph *graph;
    char path[128];

    (void)state;
    snprintf(path, sizeof(path), "%s/launch.ptrec", folder);
    pto_run_options_init(&options);
    pto_run_options_vary(&options, 0);
    assert_int_equal(pto_graph_build(device, callable, &entry, &options, NULL, &graph), PTO_OK);
    x = pto_tensor_external(&memory[1], PTO_DIMS(1), 1, PTO_FLOAT32);
    scalar = 8;
    options.trace = PTO_TRACE_ARGUMENTS;
    assert_int_equal(pto_graph_run(graph, &entry, &options, NULL), PTO_OK);
    assert_int_equal(pto_trace_write(device, path, NULL), PTO_OK);
    assert_int_equal(see_recording_read(path, &r, NULL), PTO_OK);
    assert_int_equal(r->argument[r->argument_from[1]].addr, (uint64_t)(uintptr_t)&memory[1]);
    assert_int_equal(r->scalar[r->scalar_from[1]], 8);
    assert_int_equal(r->edge_count, 1);
    assert_int_equal(r->edge[0].reason, PTO_RECORDING_REASON_RAW);
    see_recording_free(r);
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_has_its_times),
        cmocka_unit_test(every_edge_is_there_whenever_tasks_ended),
        cmocka_unit_test(kernels_in_a_row_share_a_stamp),
        cmocka_unit_test(work_between_kernels_belongs_to_none),
        cmocka_unit_test(nothing_is_lost_silently),
        cmocka_unit_test(a_launch_has_its_own_addresses_and_scalars),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Optional features of a chip: kept graphs, a recorder, observers, functions of this process. */
#include "tests/conformance/suite.h"

enum { COUNT = 16 };

/*
 * Called if the chip refuses such runs: expects no side effects, and that another run works. Ends
 * the test.
 */
static void assert_unsupported(struct suite_run *run, const char *what)
{
    struct chip_code *code = suite_load("vector");

    assert_int_equal(chip_start(suite_chip, &run->request), PTO_ENOSUP);
    assert_int_equal(suite_run_vector(code, 4), PTO_OK);
    chip_unload(suite_chip, code);
    chip_unload(suite_chip, run->request.code);
    suite_skip(what);
}

/* Runs "vector" in new buffers, whose first words are 1 and 2. */
static uint64_t init_vector(struct suite_run *run, struct chip_code *code)
{
    uint64_t a = suite_buffer(COUNT), b = suite_buffer(COUNT), c = suite_buffer(COUNT);

    suite_set_word(a, 0, 1);
    suite_set_word(b, 0, 2);
    suite_run_init(run, code);
    suite_add_tensor(run, a, COUNT);
    suite_add_tensor(run, b, COUNT);
    suite_add_tensor(run, c, COUNT);
    suite_add_scalar(run, 10);
    return c;
}

static void a_graph_is_launched_again(void **state)
{
    struct chip_code *code = suite_load("vector");
    struct chip_graph *graph;
    struct suite_run run;
    uint64_t result = init_vector(&run, code);

    (void)state;
    assert_int_equal(pto_run_options_vary(&run.options, 0), PTO_OK);
    run.request.purpose = CHIP_BUILD;
    if (!chip_properties(suite_chip)->has_graphs)
        assert_unsupported(&run, "does not support graphs");
    assert_int_equal(suite_execute(&run), PTO_OK);
    assert_non_null(run.graph);
    assert_int_equal(run.report.executions, 0);
    assert_int_equal(suite_word(result, 0), 0);
    graph = run.graph;
    for (uint32_t i = 1; i <= 2; i++) {
        result = init_vector(&run, code);
        run.request.purpose = CHIP_LAUNCH;
        run.request.graph = graph;
        run.scalar[0] = i * 10;
        assert_int_equal(suite_execute(&run), PTO_OK);
        assert_int_equal(suite_word(result, 0), 3 * i * 10 + 2);
        assert_int_equal(run.report.executions, 3);
        assert_null(run.graph);
    }
    init_vector(&run, code);
    run.request.purpose = CHIP_LAUNCH;
    run.request.graph = graph;
    run.tensor[0] = pto_tensor_view(&run.tensor[0], (uint32_t[]){ COUNT / 2 }, (uint32_t[]){ 0 });
    assert_int_equal(suite_execute(&run), PTO_EGRAPH);
    assert_int_equal(run.failure.kind, FAILURE_LAUNCH_SHAPE);
    assert_int_equal(run.failure.value[0], 0);
    assert_int_equal(run.report.executions, 0);
    chip_drop(suite_chip, graph);
    chip_drop(suite_chip, NULL);
    assert_int_equal(suite_run_vector(code, 4), PTO_OK);
    chip_unload(suite_chip, code);
}

static void a_graph_that_fails_is_not_kept(void **state)
{
    struct chip_code *code = suite_load("unknown_kernel");
    struct suite_run run;

    (void)state;
    init_vector(&run, code);
    run.request.purpose = CHIP_BUILD;
    if (!chip_properties(suite_chip)->has_graphs)
        assert_unsupported(&run, "does not support graphs");
    assert_int_equal(suite_execute(&run), PTO_EARGS);
    assert_null(run.graph);
    chip_unload(suite_chip, code);
}

static void a_run_is_recorded(void **state)
{
    struct chip_code *code = suite_load("vector");
    struct chip_record record;
    struct suite_run run;

    (void)state;
    init_vector(&run, code);
    run.options.trace = PTO_TRACE_TIMES;
    if (!chip_properties(suite_chip)->has_recorder) {
        assert_int_equal(chip_record(suite_chip, &record), PTO_ENOSUP);
        assert_unsupported(&run, "has no recorder");
    }
    assert_int_equal(suite_execute(&run), PTO_OK);
    memset(&record, 0, sizeof(record));
    assert_int_equal(chip_record(suite_chip, &record), PTO_OK);
    assert_int_equal(record.tasks, run.report.tasks);
    assert_int_equal(record.edge_count, run.report.edges);
    assert_int_equal(record.edges_lost, 0);
    assert_int_equal(record.aic_count, SUITE_CLUSTERS);
    assert_true(record.ring_count > 0);
    assert_true(record.begin_ns <= record.end_ns);
    for (uint64_t i = 0; i < record.edge_count; i++)
        assert_true(record.edge[i].before < record.edge[i].after);
    chip_unload(suite_chip, code);
}

static void count_task(void *context, const struct pto_task_view *view)
{
    *(uint64_t *)context += view->index + 1;
}

static void submits_are_observed(void **state)
{
    struct chip_code *code = suite_load("vector");
    uint64_t sum = 0;
    struct suite_run run;

    (void)state;
    init_vector(&run, code);
    run.options.task = count_task;
    run.options.task_context = &sum;
    if (!chip_properties(suite_chip)->has_observers)
        assert_unsupported(&run, "calls no observers");
    assert_int_equal(suite_execute(&run), PTO_OK);
    assert_int_equal(sum, 1 + 2 + 3 + 4);
    chip_unload(suite_chip, code);
}

/* ---- functions of this process ---- */

static struct {
    bool is_builder;
    bool is_builder_in_kernel;
    int status_in_kernel;
    struct pto_orch *orch;
} seen;

static void count_up(int64_t *args)
{
    int32_t *at = pto_tensor_data(pto_arg_tensor(args, 0));

    at[0] += (int32_t)args[1];
    seen.status_in_kernel = pto_orch_status(seen.orch);
}

static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    seen.orch = o;
    seen.is_builder = chip_is_builder(suite_chip);
    pto_aic(o, 0, PTO_INOUT(&entry->tensor[0]), PTO_INT(5));
    (void)PTO_GET(o, &entry->tensor[0], 0); /* the kernel has returned */
}

static void functions_of_this_process_run(void **state)
{
    static const struct graph_kernel kernel = { count_up, PTO_CORE_TYPES };
    const struct chip_functions functions = { .orchestration = orchestrate,
                                              .kernels = &kernel,
                                              .kernel_count = 1 };
    const struct chip_properties *can = chip_properties(suite_chip);
    int32_t own[4] = { 37 };
    struct suite_run run;

    (void)state;
    suite_run_init(&run, NULL);
    run.request.functions = &functions;
    if (!can->runs_functions)
        assert_unsupported(&run, "runs no functions of this process");
    if (can->shares_memory)
        suite_add_tensor(&run, (uint64_t)(uintptr_t)own, 4);
    else
        suite_add_tensor(&run, suite_buffer(4), 4);
    memset(&seen, 0, sizeof(seen));
    assert_int_equal(suite_execute(&run), PTO_OK);
    assert_true(seen.is_builder);
    /* only the orchestration may call this */
    assert_int_equal(seen.status_in_kernel, PTO_EINVAL);
    /* and only while the orchestration executes */
    assert_int_equal(pto_orch_status(seen.orch), PTO_EINVAL);
    assert_false(chip_is_builder(suite_chip));
    if (can->shares_memory)
        assert_int_equal(own[0], 42);
}

const struct CMUnitTest suite_options[] = {
    SUITE_TEST(a_graph_is_launched_again),
    SUITE_TEST(a_graph_that_fails_is_not_kept),
    SUITE_TEST(a_run_is_recorded),
    SUITE_TEST(submits_are_observed),
    SUITE_TEST(functions_of_this_process_run),
};
SUITE_COUNT(suite_options);

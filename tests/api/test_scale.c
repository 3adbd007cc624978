/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain - asan: judges CPU time */
/*
 * The cost of a submit, and of an access to an element, does not depend on the number of regions.
 * Measures the CPU time of this process for few and for many regions alternately, so that other
 * processes disturb both. A quadratic algorithm would exceed the limit ten times.
 */
#include "tool/bench/bench_fresh.h"
#include "tests/fixture/device_test.h"

enum {
    FEW = 1000,
    MANY = 16000,
    TURNS = 3,     /* for the fastest of few and of many */
    ATTEMPTS = 4,  /* one attempt below the limit is enough */
    TIMES_MAX = 4, /* limit: how many times as long a task may take among many as among few */
    LOOKS = 2000,
};

static void (*submit_pattern)(struct pto_orch *o, uint32_t count);
static uint32_t submit_count;
static uint64_t element[2 * MANY];
static double looks_ns;

static void do_nothing(int64_t *args)
{
    (void)args;
}

static void submit_all(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    submit_pattern(o, submit_count);
}

/* ---- patterns of this test alone ---- */

static struct pto_tensor element_at(uint32_t i)
{
    return pto_tensor_external(&element[i], (const uint32_t[]){ 1 }, 1, PTO_INT64);
}

/*
 * Accesses elements that no task uses, while many tasks are live; the first access may search
 * these.
 */
static void look_beside_tasks(struct pto_orch *o, uint32_t count)
{
    struct pto_tensor first = element_at(0);
    double start;

    fresh_wide(o, count);
    (void)pto_get_data(o, &first, 1, (const uint32_t[]){ 0 });
    start = cpu_ns();
    for (uint32_t i = 0; i < LOOKS; i++) {
        struct pto_tensor t = element_at(i);

        (void)pto_get_data(o, &t, 1, (const uint32_t[]){ 0 });
    }
    looks_ns = cpu_ns() - start;
}

/* Writes and reads each element, while there are as many other elements and tasks. */
static void set_and_get(struct pto_orch *o, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct pto_tensor t = element_at(2 * i), other = element_at(2 * i + 1);

        pto_set_data(o, &t, 1, (const uint32_t[]){ 0 }, i);
        EXPECT(pto_get_data(o, &t, 1, (const uint32_t[]){ 0 }) == i);
        fresh_submit(o, &other, false);
    }
}

/* ---- the comparison ---- */

enum how { STREAMED, HELD, KEPT };

struct scale_case {
    const char *name;
    void (*submit)(struct pto_orch *o, uint32_t count);
    enum how how;
    enum pto_deps deps;
};

static double time_of(struct pto_device *device, struct pto_callable *callable,
                      const struct scale_case *c, uint32_t count)
{
    struct pto_entry entry = { 0 };
    struct pto_run_options options;
    struct pto_run_report report;
    struct pto_graph *graph;
    double start = cpu_ns();

    pto_run_options_init(&options);
    pto_run_report_init(&report);
    options.mode = c->how == HELD ? PTO_MODE_HOST : PTO_MODE_STREAM;
    options.deps = c->deps;
    if (c->submit == look_beside_tasks)
        options.live_max = 2 * MANY;
    submit_pattern = c->submit;
    submit_count = count;
    if (c->how != KEPT) {
        assert_int_equal(pto_run(device, callable, &entry, &options, &report), PTO_OK);
        assert_true(report.edges <= 3 * count);
        return c->submit == look_beside_tasks ? looks_ns / LOOKS : (cpu_ns() - start) / count;
    }
    assert_int_equal(pto_graph_build(device, callable, &entry, &options, &report, &graph), PTO_OK);
    start = cpu_ns() - start;
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
    return start / count;
}

static void check_case(struct pto_device *device, struct pto_callable *callable,
                       const struct scale_case *c)
{
    double few = 0, many = 0;

    for (uint32_t attempt = 0; attempt < ATTEMPTS; attempt++) {
        for (uint32_t turn = 0; turn < TURNS; turn++) {
            double a = time_of(device, callable, c, FEW);
            double b = time_of(device, callable, c, MANY / (IS_SANITIZED ? 4 : 1));

            few = turn == 0 || a < few ? a : few;
            many = turn == 0 || b < many ? b : many;
        }
        assert_nothing_unexpected();
        if (many <= TIMES_MAX * few)
            return;
    }
    fail_msg("%s: %.0f ns among %d, %.0f among %d", c->name, few, FEW, many, MANY);
}

static void a_submit_costs_the_same_among_many(void **state)
{
    static const struct scale_case cases[] = {
        { "ragged tiles", fresh_ragged, STREAMED, PTO_DEPS_SAFE },
        { "ragged tiles, held", fresh_ragged, HELD, PTO_DEPS_SAFE },
        { "ragged tiles, held, simpler", fresh_ragged, HELD, PTO_DEPS_SIMPLER },
        { "ragged tiles, kept", fresh_ragged, KEPT, PTO_DEPS_SAFE },
        { "boxes", fresh_boxes, STREAMED, PTO_DEPS_SAFE },
        { "boxes, held", fresh_boxes, HELD, PTO_DEPS_SAFE },
        { "strides", fresh_strides, STREAMED, PTO_DEPS_SAFE },
        { "strides, held", fresh_strides, HELD, PTO_DEPS_SAFE },
        { "strides, held, simpler", fresh_strides, HELD, PTO_DEPS_SIMPLER },
        { "columns, held", fresh_columns, HELD, PTO_DEPS_SAFE },
        { "whole reads between tiles", fresh_looks, STREAMED, PTO_DEPS_SAFE },
        { "whole reads between tiles, held", fresh_looks, HELD, PTO_DEPS_SAFE },
        { "whole reads between tiles, kept", fresh_looks, KEPT, PTO_DEPS_SAFE },
        { "rounds of tiles and whole reads", fresh_rounds, STREAMED, PTO_DEPS_SAFE },
        { "rounds of tiles and whole reads, held", fresh_rounds, HELD, PTO_DEPS_SAFE },
        { "rounds of tiles and whole reads, held, simpler", fresh_rounds, HELD, PTO_DEPS_SIMPLER },
        { "rounds of tiles and whole reads, kept", fresh_rounds, KEPT, PTO_DEPS_SAFE },
        { "wide reads, held", fresh_wide, HELD, PTO_DEPS_SAFE },
        { "elements beside tasks", look_beside_tasks, STREAMED, PTO_DEPS_SAFE },
        { "elements beside tasks, simpler", look_beside_tasks, STREAMED, PTO_DEPS_SIMPLER },
        { "elements while building", set_and_get, KEPT, PTO_DEPS_SAFE },
        { "elements while building, simpler", set_and_get, KEPT, PTO_DEPS_SIMPLER },
    };
    static const struct pto_kernel kernel = { "nothing", do_nothing, PTO_CORE_AIV };
    struct pto_callable_params callable_params;
    struct pto_device_params params;
    struct pto_callable *callable;
    struct pto_device *device;

    (void)state;
    pto_device_params_init(&params);
    params.platform = "a5sim";
    params.workers = 1;
    assert_int_equal(pto_device_open(&params, &device), PTO_OK);
    pto_callable_params_init(&callable_params);
    callable_params.name = "scale";
    callable_params.orchestration = submit_all;
    callable_params.kernels = &kernel;
    callable_params.kernel_count = 1;
    assert_int_equal(pto_callable_create(&callable_params, &callable), PTO_OK);
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        check_case(device, callable, &cases[i]);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_submit_costs_the_same_among_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Analyses of recordings that are made up: each has one cause, which the verdict must name; times
 * must add up; and what-if rows must not report noise.
 */
#include "tool/see/analysis.h"

#include "tests/fixture/recording_test.h"

static struct see_analysis *analyse(const struct plan *p)
{
    struct see_analysis *a = NULL;
    struct pto_error error = { .size = sizeof(error) };

    if (see_analysis_make(p->r, PTO_RECORDING_NONE, true, &a, &error) != PTO_OK)
        fail_msg("%s", error.text);
    return a;
}

/*
 * Checks for any run: the critical path covers it, the times of cores add up, and no lower bound
 * exceeds it.
 */
static void check_sums(const struct see_analysis *a)
{
    uint64_t span = a->work.end_ns - a->work.begin_ns, path = 0;

    for (uint32_t i = 0; i < a->path.count; i++) {
        assert_int_equal(a->path.step[i].begin_ns,
                         i == 0 ? a->work.begin_ns : a->path.step[i - 1].end_ns);
        path += a->path.step[i].end_ns - a->path.step[i].begin_ns;
    }
    assert_int_equal(path, span);
    for (uint32_t type = 0; type < SEE_TYPES; type++) {
        uint64_t all = 0;

        for (uint32_t i = 0; i < SEE_IDLE_REASONS; i++)
            all += a->idle.ns[type][i];
        assert_int_equal(all, span * a->work.cores[type]);
        assert_int_equal(a->idle.ns[type][SEE_IDLE_BUSY], a->work.busy_ns[type]);
    }
    assert_true(a->bounds.bound_ns <= span);
}

/* Schedules the plan, checks the verdict on it, and frees it. */
static void expect_cause(struct plan *p, enum see_cause cause, const char *kernel, uint32_t task)
{
    struct see_analysis *a;

    plan_play(p);
    a = analyse(p);
    check_sums(a);
    if (a->verdict.cause != cause)
        fail_msg("%s, not %s: %s", see_cause_key(a->verdict.cause), see_cause_key(cause),
                 a->verdict.text);
    assert_string_equal(see_kernel_name(p->r, a->verdict.kernel), kernel);
    if (task != PTO_RECORDING_NONE)
        assert_int_equal(a->verdict.task, task);
    assert_in(a->verdict.text, kernel);
    see_analysis_free(a);
    plan_end(p);
}

/* 400 tasks of 10 us on 12 cores, mixed types, without edges, to which a cause is added. */
static void begin_busy(struct plan *p, uint32_t clusters, uint32_t tasks)
{
    uint32_t add, mul;

    plan_begin(p, clusters);
    add = plan_kernel(p, "add", PTO_CORE_AIV);
    mul = plan_kernel(p, "mul", PTO_CORE_AIC);
    for (uint32_t i = 0; i < tasks; i++)
        (void)plan_task(p, i % 3 == 2 ? mul : add, 10000 + 37 * (i % 11));
}

static void one_slow_task(void **state)
{
    struct plan p;
    uint32_t slow;

    (void)state;
    begin_busy(&p, 4, 120);
    slow = plan_task(&p, 0, 400000);
    plan_line(&p, slow, "src/orch.c", 17);
    expect_cause(&p, SEE_CAUSE_SLOW_TASK, "add", slow);
}

static void one_slow_task_of_a_kernel_of_its_own(void **state)
{
    struct plan p;
    uint32_t slow;

    (void)state;
    begin_busy(&p, 4, 120);
    slow = plan_task(&p, plan_kernel(&p, "reduce", PTO_CORE_AIV), 500000);
    expect_cause(&p, SEE_CAUSE_SLOW_TASK, "reduce", slow);
}

static void too_few_tasks(void **state)
{
    struct plan p;
    uint32_t add;

    (void)state;
    plan_begin(&p, 24);
    add = plan_kernel(&p, "add", PTO_CORE_AIV);
    for (uint32_t i = 0; i < 8; i++)
        (void)plan_task(&p, add, 100000 + i);
    expect_cause(&p, SEE_CAUSE_FEW_TASKS, "add", PTO_RECORDING_NONE);
}

static void serial_submission(void **state)
{
    struct plan p;

    (void)state;
    begin_busy(&p, 8, 300);
    for (uint32_t i = 0; i < 300; i++)
        p.gap_ns[i] = 3000;
    expect_cause(&p, SEE_CAUSE_SUBMISSION, "add", PTO_RECORDING_NONE);
}

static void false_dependency(void **state)
{
    struct plan p;

    (void)state;
    begin_busy(&p, 4, 120);
    /* each "add" of a row writes what the next one reads */
    for (uint32_t i = 3; i < 120; i += 3) {
        plan_edge(&p, i - 3, i, PTO_RECORDING_REASON_WAR, 0, 1);
        plan_edge(&p, i - 3, i + 1, PTO_RECORDING_REASON_WAR, 0, 1);
    }
    expect_cause(&p, SEE_CAUSE_FALSE_DEPENDENCY, "add", PTO_RECORDING_NONE);
}

static void explicit_dependency(void **state)
{
    struct plan p;

    (void)state;
    begin_busy(&p, 4, 120);
    for (uint32_t i = 5; i < 120; i += 3)
        plan_edge(&p, i - 3, i, PTO_RECORDING_REASON_EXPLICIT, -1, -1);
    expect_cause(&p, SEE_CAUSE_FALSE_DEPENDENCY, "mul", PTO_RECORDING_NONE);
}

static void one_overloaded_type(void **state)
{
    struct plan p;
    uint32_t add, mul;

    (void)state;
    plan_begin(&p, 4);
    add = plan_kernel(&p, "add", PTO_CORE_AIV);
    mul = plan_kernel(&p, "mul", PTO_CORE_AIC);
    for (uint32_t i = 0; i < 400; i++)
        (void)plan_task(&p, i % 10 == 0 ? mul : add, 10000 + i % 7);
    expect_cause(&p, SEE_CAUSE_CORE_TYPE, "add", PTO_RECORDING_NONE);
}

static void scheduling_cost(void **state)
{
    struct plan p;

    (void)state;
    begin_busy(&p, 24, 1000);
    p.dispatch_ns = 700; /* 72 cores, 10 us: one dispatcher keeps 14 of them busy */
    expect_cause(&p, SEE_CAUSE_SCHEDULING, "add", PTO_RECORDING_NONE);
}

static void a_chain(void **state)
{
    struct plan p;
    uint32_t step;

    (void)state;
    begin_busy(&p, 4, 40);
    step = plan_kernel(&p, "step", PTO_CORE_AIV);
    for (uint32_t i = 0; i < 50; i++) {
        uint32_t task = plan_task(&p, step, 10000);

        if (i != 0)
            plan_edge(&p, task - 1, task, PTO_RECORDING_REASON_RAW, 1, 0);
    }
    expect_cause(&p, SEE_CAUSE_CHAIN, "step", PTO_RECORDING_NONE);
}

static void busy_cores(void **state)
{
    struct plan p;

    (void)state;
    begin_busy(&p, 4, 600);
    for (uint32_t i = 2; i < 600; i += 3)
        p.duration_ns[i] -= 500; /* of "mul" */
    expect_cause(&p, SEE_CAUSE_CORES, "add", PTO_RECORDING_NONE);
}

/* Two threads instead of three cores: the verdict is about the chip, and its text says so. */
static void threads_of_the_host(void **state)
{
    struct see_analysis *a;
    struct plan p;

    (void)state;
    begin_busy(&p, 1, 200);
    plan_play(&p);
    p.r->clock = PTO_RECORDING_CLOCK_WALL;
    p.r->workers = 2;
    a = analyse(&p);
    assert_true(a->verdict.is_of_chip);
    see_analysis_free(a);
    plan_end(&p);
}

static const struct see_row *find_row(const struct see_analysis *a, enum see_what what,
                                      uint32_t kernel)
{
    for (uint32_t i = 0; i < a->what_if.count; i++)
        if (a->what_if.row[i].what == what &&
            (what != SEE_WHAT_KERNEL || a->what_if.row[i].kernel == kernel))
            return &a->what_if.row[i];
    fail_msg("there is no such row");
    return NULL;
}

/*
 * Many AIV tasks and few AIC tasks: a faster AIC kernel changes nothing, a faster AIV kernel halves
 * the makespan.
 */
static void only_findings_leave_the_band(void **state)
{
    struct see_analysis *a;
    struct plan p;
    uint32_t add, mul;

    (void)state;
    plan_begin(&p, 4);
    add = plan_kernel(&p, "add", PTO_CORE_AIV);
    mul = plan_kernel(&p, "mul", PTO_CORE_AIC);
    for (uint32_t i = 0; i < 800; i++)
        (void)plan_task(&p, i % 10 == 0 ? mul : add, 10000 + i % 7);
    plan_play(&p);
    a = analyse(&p);
    assert_false(find_row(a, SEE_WHAT_KERNEL, mul)->is_finding);
    assert_true(find_row(a, SEE_WHAT_KERNEL, add)->is_finding);
    assert_true(find_row(a, SEE_WHAT_KERNEL, add)->change < -0.45);
    assert_false(find_row(a, SEE_WHAT_SUBMISSION, 0)->is_finding);
    for (uint32_t i = 1; i < a->what_if.count; i++)
        assert_true(a->what_if.row[i - 1].is_finding >= a->what_if.row[i].is_finding);
    see_analysis_free(a);
    plan_end(&p);
}

static void shares_of_the_path(void **state)
{
    struct see_analysis *a;
    struct plan p;
    uint32_t add, mul, first, second;

    (void)state;
    plan_begin(&p, 2);
    add = plan_kernel(&p, "add", PTO_CORE_AIV);
    mul = plan_kernel(&p, "mul", PTO_CORE_AIC);
    first = plan_task(&p, add, 3000);
    second = plan_task(&p, mul, 1000);
    (void)plan_task(&p, add, 2000);
    plan_edge(&p, first, second, PTO_RECORDING_REASON_RAW, 1, 0);
    p.gap_ns[0] = 500;
    plan_play(&p);
    a = analyse(&p);
    check_sums(a);
    assert_int_equal(a->path.total_ns[SEE_STEP_EXECUTES], 4000);
    assert_int_equal(a->path.total_ns[SEE_STEP_SUBMIT], 500);
    assert_int_equal(a->kernels.row[0].kernel, add);
    assert_int_equal(a->kernels.row[0].path_ns, 3000);
    assert_int_equal(a->kernels.row[0].total_ns, 5000);
    assert_int_equal(a->kernels.row[0].median_ns, 2000);
    assert_int_equal(a->kernels.row[1].path_ns, 1000);
    assert_int_equal(a->bounds.path_ns, 4000);
    see_analysis_free(a);
    plan_end(&p);
}

/*
 * A chip of a worker: two tasks of level 3, between which the chip was idle for 1 ms. The second
 * task cannot submit its tasks earlier.
 */
static void time_between_tasks_of_a_worker_is_no_submission(void **state)
{
    struct plan p;
    struct see_analysis *a = NULL;
    uint32_t add, last = PTO_RECORDING_NONE;
    uint64_t idle_ns;

    (void)state;
    plan_begin(&p, 1);
    add = plan_kernel(&p, "add", PTO_CORE_AIV);
    for (uint32_t i = 0; i < 20; i++) {
        uint32_t t = plan_task(&p, add, 10000);

        if (i % 10 != 0)
            plan_edge(&p, last, t, PTO_RECORDING_REASON_RAW, 1, 0);
        p.gap_ns[t] = i == 10 ? 1100000 : 0;
        last = t;
    }
    for (uint32_t i = 0; i < 20; i++)
        p.r->task[i].parent = i / 10; /* their index does not matter here */
    plan_play(&p);
    assert_int_equal(see_analysis_make(p.r, 0, true, &a, NULL), PTO_OK);
    assert_true(a->verdict.cause != SEE_CAUSE_SUBMISSION);
    assert_int_equal(a->idle.ns[SEE_AIV][SEE_IDLE_OUTSIDE], 1000000);
    assert_int_equal(a->idle.ns[SEE_AIV][SEE_IDLE_SUBMIT], 0);
    idle_ns = a->model.repeated_ns;
    assert_true(idle_ns > 1199000 && idle_ns < 1201000);
    assert_int_equal(see_model_repeat(&a->model, &(struct see_change){ .has_no_submits = true }),
                     idle_ns);
    see_analysis_free(a);
    plan_end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_slow_task),
        cmocka_unit_test(one_slow_task_of_a_kernel_of_its_own),
        cmocka_unit_test(too_few_tasks),
        cmocka_unit_test(serial_submission),
        cmocka_unit_test(false_dependency),
        cmocka_unit_test(explicit_dependency),
        cmocka_unit_test(one_overloaded_type),
        cmocka_unit_test(scheduling_cost),
        cmocka_unit_test(a_chain),
        cmocka_unit_test(busy_cores),
        cmocka_unit_test(threads_of_the_host),
        cmocka_unit_test(only_findings_leave_the_band),
        cmocka_unit_test(shares_of_the_path),
        cmocka_unit_test(time_between_tasks_of_a_worker_is_no_submission),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

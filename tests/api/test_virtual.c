/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * Virtual time: the duration of a run follows only from the costs of kernels and of scheduling;
 * results are right; programs that need results that are not computed, or features that virtual
 * time lacks, are refused.
 */
#include <signal.h>

#include "pto/comm.h"
#include "pto/kernel.h"
#include "pto/trace.h"
#include "pto/virtual.h"
#include "tests/fixture/open_test.h"

enum { N = 8, KERNELS = 5 };
enum { COUNT_UP, DOUBLE, AWAIT, SIGNAL, CRASH };

static uint32_t word; /* that kernels wait for */

static int32_t *data_of(int64_t *args)
{
    return pto_tensor_data(pto_arg_tensor(args, 0));
}

static void count_up(int64_t *args)
{
    data_of(args)[0]++;
}

static void double_it(int64_t *args)
{
    data_of(args)[0] *= 2;
}

static void await(int64_t *args)
{
    (void)args;
    while (load(&word) == 0) {
    }
}

static void signal_it(int64_t *args)
{
    (void)args;
    store(&word, 1);
}

static void crash(int64_t *args)
{
    (void)args;
    *(volatile int *)8 = 1;
}

static const struct pto_kernel kernels[KERNELS] = { { "count_up", count_up, PTO_CORE_AIV },
                                                    { "double_it", double_it, PTO_CORE_AIV },
                                                    { "await", await, PTO_CORE_AIV },
                                                    { "signal_it", signal_it, PTO_CORE_AIV },
                                                    { "crash", crash, PTO_CORE_AIV } };

/* ---- a device, and one run ---- */

struct trial {
    struct pto_device *device;
    struct pto_virtual_options options;
    struct pto_run_options run;
    struct pto_run_report report;
    struct pto_virtual_report times;
    int32_t value[N];
};

static void begin(struct trial *t, uint32_t clusters)
{
    struct pto_device_params params;

    pto_device_params_init(&params);
    params.is_virtual = true;
    params.clusters = clusters;
    memset(t, 0, sizeof(*t));
    assert_int_equal(pto_device_open(&params, &t->device), PTO_OK);
    pto_virtual_options_init(&t->options);
    t->options.register_read_ns = t->options.register_write_ns = t->options.line_ns = 0;
    t->options.pickup_ns = t->options.submit_ns = 0;
    pto_run_options_init(&t->run);
}

static int execute(struct trial *t, pto_orch_fn orchestrate)
{
    struct pto_tensor tensor = pto_tensor_external(t->value, PTO_DIMS(N), 1, PTO_INT32);
    uint64_t scalar = 5;
    const struct pto_entry entry = { 1, 1, &tensor, &scalar };
    struct pto_callable_params params;
    struct pto_callable *callable;
    struct pto_error error = { .size = sizeof(error) };
    int status;

    pto_callable_params_init(&params);
    params.orchestration = orchestrate;
    params.kernels = kernels;
    params.kernel_count = KERNELS;
    params.error = &error;
    if (pto_callable_create(&params, &callable) < 0)
        fail_msg("%s", error.text);
    assert_int_equal(pto_virtual_set(t->device, &t->options, &error), PTO_OK);
    pto_run_report_init(&t->report);
    status = pto_run(t->device, callable, &entry, &t->run, &t->report);
    pto_virtual_report_init(&t->times);
    assert_int_equal(pto_virtual_report(t->device, &t->times), PTO_OK);
    pto_callable_destroy(callable);
    return status;
}

static void end(struct trial *t)
{
    assert_int_equal(pto_device_close(t->device), PTO_OK);
}

/* ---- orchestrations ---- */

static void chain(struct pto_orch *o, const struct pto_entry *e)
{
    for (uint32_t i = 0; i < 4; i++) {
        pto_aiv(o, COUNT_UP, PTO_INOUT(&e->tensor[0]));
        pto_aiv(o, DOUBLE, PTO_INOUT(&e->tensor[0]));
    }
}

static void apart(struct pto_orch *o, const struct pto_entry *e)
{
    struct pto_tensor_info info = pto_tensor_info_make(e->tensor[0].shapes, 1, PTO_INT32);

    for (uint32_t i = 0; i < 12; i++)
        pto_aiv(o, COUNT_UP, PTO_OUT(&info), PTO_INT((int64_t)i));
}

static void elements(struct pto_orch *o, const struct pto_entry *e)
{
    pto_aiv(o, COUNT_UP, PTO_INOUT(&e->tensor[0]));
    if (PTO_GET(o, &e->tensor[0], 0) == 1)
        pto_aiv(o, DOUBLE, PTO_INOUT(&e->tensor[0]));
    pto_aiv(o, DOUBLE, PTO_INOUT(&e->tensor[0]), PTO_IF(&e->tensor[0], GT, 100, 0));
}

/* Not a team: the kernel that waits is assigned to a core first, and the other one ends later. */
static void meeting(struct pto_orch *o, const struct pto_entry *e)
{
    struct pto_tensor_info info = pto_tensor_info_make(e->tensor[0].shapes, 1, PTO_INT32);

    pto_aiv(o, AWAIT, PTO_OUT(&info));
    pto_aiv(o, COUNT_UP, PTO_INOUT(&e->tensor[0]));
    pto_aiv(o, SIGNAL, PTO_INOUT(&e->tensor[0]));
}

static void deadlock(struct pto_orch *o, const struct pto_entry *e)
{
    (void)e;
    pto_aiv(o, AWAIT, PTO_INT(1));
}

static void crashing(struct pto_orch *o, const struct pto_entry *e)
{
    (void)e;
    pto_aiv(o, CRASH, PTO_INT(1));
}

static void crashing_itself(struct pto_orch *o, const struct pto_entry *e)
{
    pto_aiv(o, COUNT_UP, PTO_INOUT(&e->tensor[0]));
    *(volatile int *)16 = 1;
}

static void listening(struct pto_orch *o, const struct pto_entry *e)
{
    (void)e;
    (void)pto_orch_listen(o);
}

/* ---- tests ---- */

static void a_chain_takes_the_sum_of_its_kernels(void **state)
{
    const struct pto_virtual_cost cost[] = { { "count_up", 0, "1us", NULL },
                                             { "double_it", 0, "500 + bytes(0) * 10", "a table" } };
    struct pto_virtual_kernel kernel;
    struct trial t;

    (void)state;
    begin(&t, 2);
    t.options.cost = cost;
    t.options.cost_count = 2;
    assert_int_equal(execute(&t, chain), PTO_OK);
    assert_int_equal(t.value[0], 30);
    assert_int_equal(t.times.path_ns, 4 * (1000 + 500 + 320));
    assert_int_equal(t.times.bound_ns, t.times.path_ns);
    assert_int_equal(t.times.work_ns[PTO_CORE_AIV], t.times.path_ns);
    assert_true(t.times.makespan_ns >= t.times.path_ns);
    assert_true(t.times.makespan_ns < t.times.path_ns + 1000);
    assert_int_equal(t.report.ns, t.times.makespan_ns);
    pto_virtual_kernel_init(&kernel);
    assert_int_equal(pto_virtual_kernel(t.device, DOUBLE, &kernel), PTO_OK);
    assert_int_equal(kernel.count, 4);
    assert_int_equal(kernel.total_ns, 4 * 820);
    assert_string_equal(kernel.name, "double_it");
    assert_string_equal(kernel.origin, "a table");
    assert_int_equal(pto_virtual_kernel(t.device, COUNT_UP, &kernel), PTO_OK);
    assert_string_equal(kernel.origin, "given");
    assert_int_equal(pto_virtual_kernel(t.device, KERNELS, &kernel), PTO_EINVAL);
    end(&t);
}

static void scheduling_takes_what_it_is_said_to_take(void **state)
{
    uint64_t free_ns;
    struct trial t;

    (void)state;
    begin(&t, 2);
    assert_int_equal(execute(&t, chain), PTO_OK);
    free_ns = t.times.makespan_ns;
    t.options.pickup_ns = 700;
    assert_int_equal(execute(&t, chain), PTO_OK);
    assert_int_equal(t.times.makespan_ns, free_ns + 8 * 700);
    end(&t);
}

static void more_cores_take_less_time(void **state)
{
    uint64_t before = UINT64_MAX;

    (void)state;
    for (uint32_t clusters = 1; clusters <= 6; clusters++) {
        struct trial t;

        begin(&t, clusters);
        assert_int_equal(execute(&t, apart), PTO_OK);
        assert_true(t.times.makespan_ns <= before);
        assert_true(t.times.makespan_ns >= t.times.bound_ns);
        assert_int_equal(t.times.bound_ns,
                         10000 * 12 / (2 * clusters) < 10000 ? 10000 : 10000 * 12 / (2 * clusters));
        before = t.times.makespan_ns;
        end(&t);
    }
}

/* The scalar differs from task to task, and so do the shapes that a cost applies to. */
static void costs_for_shapes_go_first(void **state)
{
    int32_t any[N];
    struct pto_tensor tensor = pto_tensor_external(any, PTO_DIMS(N), 1, PTO_INT32);
    const uint64_t third = 3;
    const struct pto_virtual_cost cost[] = {
        { "count_up", 0, "2us", NULL },
        { "count_up", pto_virtual_shapes(&tensor, 1, &third, 1), "30us", "measured" }
    };
    struct pto_virtual_kernel kernel;
    struct trial t;

    (void)state;
    begin(&t, 2);
    t.options.cost = cost;
    t.options.cost_count = 2;
    assert_int_equal(execute(&t, apart), PTO_OK);
    pto_virtual_kernel_init(&kernel);
    assert_int_equal(pto_virtual_kernel(t.device, COUNT_UP, &kernel), PTO_OK);
    assert_int_equal(kernel.total_ns, 11 * 2000 + 30000);
    assert_int_equal(kernel.min_ns, 2000);
    assert_int_equal(kernel.max_ns, 30000);
    assert_string_equal(kernel.origin, "given, measured");
    end(&t);
}

static void formulas_that_make_no_sense_are_refused(void **state)
{
    static const struct {
        const char *formula, *why;
    } wrong[] = { { "", "missing" },
                  { "2 +", "missing" },
                  { "(1", "parenthesis" },
                  { "1 2", "follows the end" },
                  { "elements", "paren" },
                  { "elements(x)", "number" },
                  { "sin(1)", "may name only" },
                  { "min(1)", "two" },
                  { "dim(0)", "two" } };
    struct pto_error error = { .size = sizeof(error) };
    struct trial t;

    (void)state;
    begin(&t, 1);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const struct pto_virtual_cost cost = { "count_up", 0, wrong[i].formula, NULL };

        t.options.cost = &cost;
        t.options.cost_count = 1;
        assert_int_equal(pto_virtual_set(t.device, &t.options, &error), PTO_EINVAL);
        if (strstr(error.text, wrong[i].why) == NULL)
            fail_msg("%s: %s", wrong[i].formula, error.text);
    }
    end(&t);
}

static void a_formula_without_a_value_fails_the_run(void **state)
{
    static const char *const formula[] = { "elements(7)", "1 / (scalar(0) - scalar(0))", "0 - 1",
                                           "min(elements(7), 5)" };
    struct trial t;

    (void)state;
    begin(&t, 1);
    for (size_t i = 0; i < sizeof(formula) / sizeof(formula[0]); i++) {
        const struct pto_virtual_cost cost = { "count_up", 0, formula[i], NULL };

        t.options.cost = &cost;
        t.options.cost_count = 1;
        assert_int_equal(execute(&t, apart), PTO_EINVAL);
        assert_non_null(strstr(t.report.error.text, "the cost of kernel count_up has no value"));
    }
    end(&t);
}

static void the_orchestration_reads_results(void **state)
{
    struct trial t;

    (void)state;
    begin(&t, 2);
    assert_int_equal(execute(&t, elements), PTO_OK);
    assert_int_equal(t.value[0], 2);
    assert_int_equal(t.report.skipped, 1);
    t.options.is_planned_only = true;
    assert_int_equal(execute(&t, elements), PTO_ENOSUP);
    assert_non_null(strstr(t.report.error.text, "reads what one would have written"));
    end(&t);
}

static void a_plan_takes_as_long_and_calls_no_kernel(void **state)
{
    uint64_t ns;
    struct trial t;

    (void)state;
    begin(&t, 2);
    assert_int_equal(execute(&t, chain), PTO_OK);
    ns = t.times.makespan_ns;
    t.value[0] = 0;
    t.options.is_planned_only = true;
    assert_int_equal(execute(&t, chain), PTO_OK);
    assert_int_equal(t.times.makespan_ns, ns);
    assert_int_equal(t.value[0], 0);
    end(&t);
}

static void a_kernel_that_waits_ends_when_it_may(void **state)
{
    const struct pto_virtual_cost cost[] = { { "await", 0, "1us", NULL },
                                             { "count_up", 0, "50us", NULL },
                                             { "signal_it", 0, "1us", NULL } };
    uint64_t before = 0;

    (void)state;
    for (uint32_t round = 0; round < 2; round++) {
        struct pto_virtual_kernel kernel;
        struct trial t;

        begin(&t, 2);
        t.options.cost = cost;
        t.options.cost_count = 3;
        store(&word, 0);
        assert_int_equal(execute(&t, meeting), PTO_OK);
        assert_int_equal(t.times.late, 1);
        pto_virtual_kernel_init(&kernel);
        assert_int_equal(pto_virtual_kernel(t.device, AWAIT, &kernel), PTO_OK);
        assert_true(kernel.total_ns >= 50000); /* waits until the other kernel has begun */
        /* waiting does not count as the kernel's own duration */
        assert_true(t.times.path_ns == 51000);
        assert_true(round == 0 || t.times.makespan_ns == before);
        before = t.times.makespan_ns;
        end(&t);
    }
}

static void what_never_returns_is_a_stall(void **state)
{
    struct trial t;

    (void)state;
    if (IS_ASAN)
        /*
         * skipped with a sanitizer: the code of a kernel that never returned stays loaded, which is
         * a leak
         */
        skip();
    begin(&t, 1);
    t.run.stall_timeout_ns = 200 * MS;
    t.run.grace_ns = 50 * MS;
    store(&word, 0);
    assert_int_equal(execute(&t, deadlock), PTO_ESTALL);
    store(&word, 1); /* let the thread of the kernel end */
    end(&t);
}

static void stalls_and_timeouts_are_virtual(void **state)
{
    const struct pto_virtual_cost cost = { "count_up", 0, "100000000us", NULL };
    struct trial t;

    (void)state;
    begin(&t, 1);
    t.options.cost = &cost;
    t.options.cost_count = 1;
    t.options.kernel_ns = 1;
    assert_int_equal(execute(&t, chain), PTO_OK); /* 400 s, and no stall */
    assert_true(t.report.ns >= 400000 * MS);
    t.run.timeout_ns = 150000 * MS;
    assert_int_equal(execute(&t, chain), PTO_ETIMEOUT);
    end(&t);
}

static void crashes_are_told_with_their_kernel(void **state)
{
    struct trial t;

    (void)state;
    if (IS_ASAN)
        skip();               /* skipped with a sanitizer, which has its own handlers of crashes */
    signal(SIGSEGV, SIG_DFL); /* cmocka's handlers would be called first */
    begin(&t, 1);
    assert_int_equal(execute(&t, crashing), PTO_ECRASH);
    assert_int_equal(t.report.error.kernel, CRASH);
    assert_int_equal(execute(&t, chain), PTO_OK); /* the device still works */
    assert_int_equal(execute(&t, crashing_itself), PTO_ECRASH);
    (void)pto_device_close(t.device);
}

static void messages_of_the_host_are_refused(void **state)
{
    struct trial t;

    (void)state;
    begin(&t, 1);
    assert_int_equal(execute(&t, listening), PTO_ENOSUP);
    assert_non_null(strstr(t.report.error.text, "virtual time"));
    end(&t);
}

static void devices_without_virtual_time_say_so(void **state)
{
    struct pto_error error = { .size = sizeof(error) };
    struct pto_device_params params;
    struct pto_virtual_options options;
    struct pto_virtual_report report;
    struct pto_device *device;

    (void)state;
    pto_virtual_options_init(&options);
    pto_virtual_report_init(&report);
    pto_device_params_init(&params);
    assert_int_equal(pto_device_open(&params, &device), PTO_OK);
    assert_int_equal(pto_virtual_set(device, &options, &error), PTO_ENOSUP);
    assert_non_null(strstr(error.text, "is_virtual"));
    assert_int_equal(pto_virtual_report(device, &report), PTO_ENOSUP);
    pto_device_close(device);
    params.is_virtual = params.is_isolated = true;
    params.error = &error;
    assert_int_equal(pto_device_open(&params, &device), PTO_ENOSUP);
    assert_non_null(strstr(error.text, "isolated"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crashes_are_told_with_their_kernel),
        cmocka_unit_test(a_chain_takes_the_sum_of_its_kernels),
        cmocka_unit_test(scheduling_takes_what_it_is_said_to_take),
        cmocka_unit_test(more_cores_take_less_time),
        cmocka_unit_test(costs_for_shapes_go_first),
        cmocka_unit_test(formulas_that_make_no_sense_are_refused),
        cmocka_unit_test(a_formula_without_a_value_fails_the_run),
        cmocka_unit_test(the_orchestration_reads_results),
        cmocka_unit_test(a_plan_takes_as_long_and_calls_no_kernel),
        cmocka_unit_test(a_kernel_that_waits_ends_when_it_may),
        cmocka_unit_test(what_never_returns_is_a_stall),
        cmocka_unit_test(stalls_and_timeouts_are_virtual),
        cmocka_unit_test(messages_of_the_host_are_refused),
        cmocka_unit_test(devices_without_virtual_time_say_so),
    };

    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan */
/*
 * A worker in virtual time: one clock for chips and SUB workers, durations from costs, members of a
 * group that wait for each other, time that passes only while the program waits, dead and late
 * children, and what is refused.
 */
#include <poll.h>
#include <signal.h>

#include "pto/worker_domain.h"
#include "pto/worker_region.h"
#include "pto/worker_virtual.h"
#include "tests/fixture/tree_test.h"

#define US 1000ull

static const char chip_text[] =
    "#include <pto/pto.h>\n"
    "#include <pto/window.h>\n"
    "enum { COUNT = 16 };\n"
    "static void work(int64_t *args) { (void)args; }\n"
    "static void sum(int64_t *args)\n"
    "{\n"
    "    int *x = pto_tensor_data(pto_arg_tensor(args, 0));\n"
    "    const struct pto_comm_context *c = (const void *)(uintptr_t)args[1];\n"
    "    int *own = (int *)(uintptr_t)c->window_in[c->rank];\n"
    "    int32_t *word = own + c->rank_count * COUNT;\n"
    "    for (uint32_t r = 0; r < c->rank_count; r++)\n"
    "        pto_window_put_signal(c, r, own + c->rank * COUNT, x, COUNT * sizeof(int), word +\n"
    "                              c->rank, PTO_SIGNAL_ADD, 1);\n"
    "    for (uint32_t r = 0; r < c->rank_count; r++)\n"
    "        if (pto_window_wait(c, word + r, PTO_COMPARE_GE, (int)args[2]) < 0) return;\n"
    "    for (int i = 0; i < COUNT; i++) {\n"
    "        int s = 0;\n"
    "        for (uint32_t r = 0; r < c->rank_count; r++) s += own[r * COUNT + i];\n"
    "        x[i] = s;\n"
    "    }\n"
    "}\n"
    /* Scalars: the duration of the work; then the context of a domain, or 0; and the round. */
    "static void orchestrate(struct pto_orch *o, const struct pto_entry *e)\n"
    "{\n"
    "    pto_aiv(o, 0, PTO_INOUT(&e->tensor[0]), PTO_INT(e->scalar[0]));\n"
    "    if (e->scalar[1] != 0)\n"
    "        pto_aiv(o, 1, PTO_INOUT(&e->tensor[0]), PTO_INT(e->scalar[1]), "
    "PTO_INT(e->scalar[2]));\n"
    "}\n"
    "static const struct pto_kernel kernels[] = { { \"work\", work, PTO_CORE_AIV },\n"
    "                                             { \"meet\", sum, PTO_CORE_AIV } };\n"
    "struct pto_callable_params works = { .size = sizeof(works), .name = \"works\",\n"
    "    .orchestration = orchestrate, .kernels = kernels, .kernel_count = 2 };\n";

static const struct pto_virtual_cost costs[] = {
    { .kernel = "work", .formula = "scalar(0)" },
    { .kernel = "meet", .formula = "2us" },
    { .kernel = "mix", .formula = "scalar(0)" },
};

static struct bytes chip_object;
static struct pto_worker_virtual_report times;
static struct pto_error last_error;

static int set_up_virtual(void **state)
{
    if (set_up(state) != 0)
        return -1;
    chip_object = keep(compile(chip_text, ""));
    return 0;
}

static struct pto_worker_params params_of(uint32_t chips, uint32_t subs)
{
    struct pto_worker_params params;

    pto_error_init(&last_error);
    pto_worker_params_init(&params);
    params.platform = "a2a3sim";
    params.chip_count = chips;
    params.sub_count = subs;
    params.clusters = 1;
    params.memory_max = 1ull << 30;
    params.startup_timeout_ns = HANG_SECONDS * 1000 * MS;
    params.is_virtual = true;
    params.error = &last_error;
    return params;
}

/* Scheduling takes no time, so that makespans can be computed by hand. */
static struct pto_virtual_options free_options(void)
{
    struct pto_virtual_options options;

    pto_virtual_options_init(&options);
    options.register_read_ns = options.register_write_ns = options.line_ns = options.pickup_ns =
        options.submit_ns = 0;
    options.cost = costs;
    options.cost_count = sizeof(costs) / sizeof(costs[0]);
    return options;
}

static void open_virtual(struct pto_worker_params params)
{
    struct pto_virtual_options options = free_options();

    if (pto_worker_open(&params, &worker) < 0)
        fail_msg("%s", last_error.text);
    if (pto_worker_virtual_set(worker, &options, &last_error) < 0)
        fail_msg("%s", last_error.text);
}

static void take_times(void)
{
    pto_worker_virtual_report_init(&times);
    assert_int_equal(pto_worker_virtual_report(worker, &times), PTO_OK);
}

/* ---- graphs with known makespans ---- */

enum { PLAN_MAX = 8 };

/* Tasks that add one tensor to another. */
struct plan {
    uint64_t callable;
    struct pto_tensor tensor[PLAN_MAX];
    struct step {
        int from, to; /* from -1: none */
        uint64_t us;
        uint64_t children;
    } step[PLAN_MAX];
    uint32_t count;
    bool is_on_chips;
};

static void submit_plan(struct pto_level *level, void *context)
{
    const struct plan *p = context;

    for (uint32_t i = 0; i < p->count; i++) {
        struct pto_args args;

        pto_args_init(&args);
        if (p->step[i].from >= 0)
            pto_add_input(&args, &p->tensor[p->step[i].from]);
        pto_add_inout(&args, &p->tensor[p->step[i].to]);
        pto_add_scalar(&args, p->step[i].us * US);
        for (int k = 0; k < 2 && p->is_on_chips; k++)
            pto_add_scalar(&args, 0);
        (void)pto_level_submit(level, p->callable, p->step[i].children, &args);
    }
}

static void make_plan(struct plan *p, bool is_on_chips)
{
    p->is_on_chips = is_on_chips;
    p->callable =
        is_on_chips ? register_bytes(chip_object, PTO_CHILD_CHIP, "works") : register_sub("mix");
    for (int i = 0; i < PLAN_MAX; i++)
        p->tensor[i] = numbers(make_numbers());
}

static void expect_times(uint64_t makespan_us, uint64_t path_us)
{
    take_times();
    assert_int_equal(times.makespan_ns, makespan_us * US);
    assert_int_equal(times.path_ns, path_us * US);
    assert_int_equal(times.measured, 0);
}

static void a_chain_takes_the_sum_of_its_costs(void **state)
{
    struct plan p = { .step = { { -1, 0, 1, 0 }, { 0, 1, 20, 0 }, { 1, 2, 300, 0 } }, .count = 3 };

    (void)state;
    open_virtual(params_of(0, 2));
    make_plan(&p, false);
    for (int i = 0; i < 3; i++) {
        run_well(submit_plan, &p);
        expect_times(321, 321);
        assert_int_equal(run_report.ns, 321 * US);
    }
    close_worker();
}

static void a_diamond_takes_its_longer_side(void **state)
{
    struct plan p = { .step = { { -1, 0, 1, 0 }, { 0, 1, 50, 0 }, { 0, 2, 3, 0 }, { 1, 2, 7, 0 } },
                      .count = 4 };

    (void)state;
    open_virtual(params_of(0, 2));
    make_plan(&p, false);
    run_well(submit_plan, &p);
    expect_times(58, 58);
    assert_int_equal(times.busy_ns[0] + times.busy_ns[1], 61 * US);
    close_worker();
}

/* Whichever chip is free first gets the next task: 10 and 30 on one, 20 and 40 on the other. */
static void two_chips_share_work(void **state)
{
    struct plan p = {
        .step = { { -1, 0, 10, 0 }, { -1, 1, 20, 0 }, { -1, 2, 30, 0 }, { -1, 3, 40, 0 } },
        .count = 4
    };

    (void)state;
    open_virtual(params_of(2, 0));
    make_plan(&p, true);
    for (int i = 0; i < 5; i++) {
        run_well(submit_plan, &p);
        expect_times(60, 40);
        assert_int_equal(times.busy_ns[0], 40 * US);
        assert_int_equal(times.busy_ns[1], 60 * US);
    }
    close_worker();
}

/* ---- members of a group that wait for each other ---- */

struct meeting {
    uint64_t callable, domain;
    struct pto_tensor x[2];
    uint64_t us[2];
    uint64_t round;
};

static void submit_meeting(struct pto_level *level, void *context)
{
    const struct meeting *m = context;
    const uint32_t chips[] = { 0, 1 };
    struct pto_args args[2];

    for (uint32_t i = 0; i < 2; i++) {
        struct pto_worker_member member;

        pto_worker_member_init(&member);
        (void)pto_level_domain_member(level, m->domain, i, &member);
        pto_args_init(&args[i]);
        pto_add_inout(&args[i], &m->x[i]);
        pto_add_scalar(&args[i], m->us[i] * US);
        pto_add_address(&args[i], member.context);
        pto_add_scalar(&args[i], m->round);
    }
    (void)pto_level_submit_group(level, m->callable, chips, args, 2, NULL);
}

/* The sum of the chip that comes first ends when the other chip begins its own. */
static void a_kernel_waits_for_one_of_another_chip(void **state)
{
    struct meeting m = { 0 };
    struct pto_worker_domain_params params;
    int *x[2];

    (void)state;
    open_virtual(params_of(2, 0));
    m.callable = register_bytes(chip_object, PTO_CHILD_CHIP, "works");
    pto_worker_domain_params_init(&params);
    params.name = "both";
    params.window_bytes = 4096;
    assert_int_equal(pto_worker_domain_open(worker, &params, &m.domain), PTO_OK);
    for (int i = 0; i < 2; i++) {
        x[i] = make_numbers();
        m.x[i] = numbers(x[i]);
    }
    for (m.round = 1; m.round <= 4; m.round++) {
        uint32_t first = m.round % 2;

        x[0][COUNT - 1] = 3;
        x[1][COUNT - 1] = 4;
        m.us[first] = 10;
        m.us[1 - first] = 100;
        run_well(submit_meeting, &m);
        assert_int_equal(x[0][COUNT - 1], 7);
        assert_int_equal(x[1][COUNT - 1], 7);
        take_times();
        assert_int_equal(times.makespan_ns, 102 * US);
        assert_int_equal(times.busy_ns[first], 100 * US);
        assert_int_equal(times.busy_ns[1 - first], 102 * US);
    }
    close_worker();
}

/* ---- when time passes ---- */

/*
 * Both runs begin at the same virtual time, whatever time the program takes between the launches.
 */
static void time_waits_for_the_program(void **state)
{
    struct plan p = { .step = { { -1, 0, 30, 0 } }, .count = 1 };
    struct plan q = { .step = { { -1, 0, 40, 0 } }, .count = 1 };
    struct pto_worker_run *first, *second;
    struct pto_worker_report report;

    (void)state;
    open_virtual(params_of(0, 2));
    make_plan(&p, false);
    make_plan(&q, false);
    assert_int_equal(pto_worker_launch(worker, submit_plan, &p, &first), PTO_OK);
    nap_ns(20 * MS);
    assert_int_equal(pto_worker_launch(worker, submit_plan, &q, &second), PTO_OK);
    assert_int_equal(pto_worker_run_wait(second, 0), PTO_OK);
    assert_int_equal(pto_worker_run_wait(first, 0), PTO_OK);
    pto_worker_report_init(&report);
    assert_int_equal(pto_worker_run_finish(first, &report), PTO_OK);
    assert_int_equal(report.ns, 30 * US);
    assert_int_equal(pto_worker_run_finish(second, &report), PTO_OK);
    assert_int_equal(report.ns, 40 * US);
    expect_times(40, 40);

    assert_int_equal(pto_worker_launch(worker, submit_plan, &p, &first), PTO_OK);
    while (pto_worker_run_poll(first) == PTO_RUN_PENDING)
        nap_ns(MS);
    assert_int_equal(pto_worker_run_finish(first, NULL), PTO_OK);
    assert_int_equal(pto_worker_launch(worker, submit_plan, &p, &first), PTO_OK);
    assert_int_equal(poll(&(struct pollfd){ pto_worker_run_fd(first), POLLIN, 0 }, 1, 60000), 1);
    assert_int_equal(pto_worker_run_finish(first, NULL), PTO_OK);
    expect_times(30, 30);
    close_worker();
}

/* ---- SUB functions without a cost, and plans ---- */

static void a_function_without_a_cost_takes_its_cpu_time(void **state)
{
    struct one one = { .count = 2 };
    struct pto_virtual_options options = free_options();
    int *number[2];

    (void)state;
    open_virtual(params_of(0, 1));
    one.callable = register_sub("sum");
    for (int i = 0; i < 2; i++)
        one.tensor[i] = numbers(number[i] = make_numbers());
    number[0][3] = 5;
    run_well(submit_one, &one);
    assert_int_equal(number[1][3], 5);
    take_times();
    assert_int_equal(times.measured, 1);
    assert_true(times.makespan_ns > 0 && times.makespan_ns < 1000000 * US);

    number[0][3] = 6;
    options.is_planned_only = true;
    options.kernel_ns = 17;
    assert_int_equal(pto_worker_virtual_set(worker, &options, &last_error), PTO_OK);
    run_well(submit_one, &one);
    assert_int_equal(number[1][3], 5);
    take_times();
    assert_int_equal(times.measured, 0);
    assert_int_equal(times.makespan_ns, 17);
    close_worker();
}

/* ---- children that die or hang ---- */

static void submit_two(struct pto_level *level, void *context)
{
    struct one *one = context;

    submit_one(level, &one[0]);
    submit_one(level, &one[1]);
}

static void a_dead_child_does_not_stop_the_clock(void **state)
{
    struct one one[2] = { { .children = PTO_ON(0) }, { .count = 1, .children = PTO_ON(1) } };

    (void)state;
    open_virtual(params_of(0, 2));
    one[0].callable = register_sub("dies");
    one[1].callable = register_sub("mix");
    one[1].tensor[0] = numbers(make_numbers());
    one[1].scalar = 5 * US;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run(submit_two, one), PTO_EPEER);
        assert_int_equal(run_report.done, 1);
        take_times();
        assert_int_equal(times.makespan_ns, 5 * US);
        await_death(0);
        reopen(0);
    }
    run_well(submit_one, &one[1]);
    close_worker();
}

static void a_task_that_hangs_is_ended_in_real_time(void **state)
{
    struct pto_worker_params params = params_of(0, 2);
    struct one one[2] = { { .count = 1, .children = PTO_ON(0) },
                          { .count = 1, .children = PTO_ON(1) } };

    (void)state;
    params.task_timeout_ns = 300 * MS;
    open_virtual(params);
    one[0].callable = register_sub("hold");
    one[1].callable = register_sub("mix");
    for (int i = 0; i < 2; i++)
        one[i].tensor[0] = numbers(make_numbers());
    one[1].scalar = 5 * US;
    assert_int_equal(run(submit_two, one), PTO_ETIMEOUT);
    assert_int_equal(run_report.failed,
                     1); /* the other child had ended its call, and waits for its turn */
    assert_int_equal(run_report.done, 1);
    close_worker();
}

/* ---- what is refused ---- */

static void expect_refused(int status, int wanted, const char *text)
{
    assert_int_equal(status, wanted);
    if (strstr(last_error.text, text) == NULL)
        fail_msg("'%s' has no '%s'", last_error.text, text);
}

static void what_has_no_virtual_time_is_refused_by_name(void **state)
{
    struct pto_worker_params params = params_of(0, 1), below = params_of(1, 0);
    const struct pto_worker_params *nested[] = { &below };
    const struct pto_virtual_cost wrong = { .kernel = "mix", .formula = "sin(1)" };
    struct pto_virtual_options options = free_options();
    struct pto_worker_region_params region;
    struct pto_worker_region *opened;

    (void)state;
    params.nested = nested;
    params.nested_count = 1;
    expect_refused(pto_worker_open(&params, &worker), PTO_ENOSUP, "cannot have nested workers");
    params = params_of(1, 0);
    params.platform = "a2a3";
    expect_refused(pto_worker_open(&params, &worker), PTO_ENOSUP, "simulated chips");

    open_virtual(params_of(1, 1));
    pto_worker_region_params_init(&region);
    region.payload_bytes = region.counter_bytes = 64;
    region.error = &last_error;
    expect_refused(pto_worker_region_open(worker, &region, &opened), PTO_ENOSUP, "in real time");
    options.cost = &wrong;
    options.cost_count = 1;
    expect_refused(pto_worker_virtual_set(worker, &options, &last_error), PTO_EINVAL, "sin(1)");
    close_worker();

    params = params_of(0, 1);
    params.is_virtual = false;
    assert_int_equal(pto_worker_open(&params, &worker), PTO_OK);
    options = free_options();
    expect_refused(pto_worker_virtual_set(worker, &options, &last_error), PTO_ENOSUP,
                   "open it with is_virtual");
    pto_worker_virtual_report_init(&times);
    assert_int_equal(pto_worker_virtual_report(worker, &times), PTO_ENOSUP);
    close_worker();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_chain_takes_the_sum_of_its_costs),
        TEST(a_diamond_takes_its_longer_side),
        TEST(two_chips_share_work),
        TEST(a_kernel_waits_for_one_of_another_chip),
        TEST(time_waits_for_the_program),
        TEST(a_function_without_a_cost_takes_its_cpu_time),
        TEST(a_dead_child_does_not_stop_the_clock),
        TEST(a_task_that_hangs_is_ended_in_real_time),
        TEST(what_has_no_virtual_time_is_refused_by_name),
    };

    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, set_up_virtual, tear_down);
}

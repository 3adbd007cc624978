/* SPDX-License-Identifier: Apache-2.0 */
/* What-if rows that a user asks for: their texts, and the number of predictions for each. */
#include "tool/see/analysis.h"

#include "tests/fixture/recording_test.h"

/* Schedules the plan, analyses it and asks one question; the caller frees the analysis. */
static struct see_analysis *ask(struct plan *p, const char *text)
{
    struct see_analysis *a = NULL;
    struct see_question q;
    struct pto_error error = { .size = sizeof(error) };

    if (see_question_parse(p->r, text, &q, &error) != PTO_OK ||
        see_analysis_make(p->r, PTO_RECORDING_NONE, false, &a, &error) != PTO_OK)
        fail_msg("%s", error.text);
    assert_int_equal(see_what_if_ask(&a->what_if, &a->model, &q, 1), PTO_OK);
    return a;
}

static const struct see_row *expect_row(struct see_analysis *a, uint32_t index, const char *text,
                                        double change)
{
    const struct see_row *row = &a->what_if.asked[index];
    char got[SEE_ROW_TEXT_MAX];

    assert_true(index < a->what_if.asked_count);
    assert_string_equal(see_row_text(a->r, row, got), text);
    if (row->change < change - 0.05 || row->change > change + 0.05)
        fail_msg("%s: %g, not %g", text, row->change, change);
    assert_true(row->band_ns[0] <= row->ns && row->ns <= row->band_ns[1]);
    return row;
}

/* 800 tasks on 8 AIVs, a tenth as many on 4 AICs. */
static void begin_two(struct plan *p)
{
    uint32_t add, mul;

    plan_begin(p, 4);
    add = plan_kernel(p, "add", PTO_CORE_AIV);
    mul = plan_kernel(p, "mul", PTO_CORE_AIC);
    for (uint32_t i = 0; i < 800; i++)
        (void)plan_task(p, i % 10 == 0 ? mul : add, 10000 + i % 7);
    plan_play(p);
}

static void expect_change(struct plan *p, const char *question, const char *text, double change,
                          bool is_finding)
{
    struct see_analysis *a = ask(p, question);

    assert_int_equal(expect_row(a, 0, text, change)->is_finding, is_finding);
    assert_int_equal(a->what_if.asked_count, 1);
    see_analysis_free(a);
}

static void kernels_and_clusters(void **state)
{
    struct plan p;

    (void)state;
    begin_two(&p);
    expect_change(&p, "add=2", "kernel 'add' twice as fast", -0.5, true);
    expect_change(&p, "add=4", "kernel 'add' 4 times as fast", -0.75, true);
    expect_change(&p, "add=0.5", "kernel 'add' 0.5 times as fast", 1, true);
    expect_change(&p, "mul=4", "kernel 'mul' 4 times as fast", 0, false);
    expect_change(&p, "clusters=8", "8 clusters", -0.5, true);
    expect_change(&p, "clusters=4", "4 clusters", 0, false);
    expect_change(&p, "edges=mul", "edges to 'mul': no change could remove any of them", 0, false);
    plan_end(&p);
}

/* A chain of 40 tasks, whose edges have one reason each; some edges have a second reason. */
static void begin_chain(struct plan *p, bool has_others)
{
    uint32_t add, last = 0;

    plan_begin(p, 4);
    add = plan_kernel(p, "add", PTO_CORE_AIV);
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t task = plan_task(p, add, 10000);

        if (i != 0)
            plan_edge(p, last, task, PTO_RECORDING_REASON_EXPLICIT, -1, -1);
        if (i != 0 && has_others)
            plan_edge(p, last, task, PTO_RECORDING_REASON_WAR, 0, 1);
        last = task;
    }
    plan_play(p);
}

static void edges(void **state)
{
    struct see_analysis *a;
    struct plan p;

    (void)state;
    begin_chain(&p, false);
    expect_change(&p, "edges=add", "no explicit dependency of 'add' on 'add'", -0.875, true);
    plan_end(&p);
    begin_chain(&p, true);
    a = ask(&p, "edges=add");
    assert_int_equal(a->what_if.asked_count, 2);
    for (uint32_t i = 0; i < 2; i++)
        (void)expect_row(a, i,
                         a->what_if.asked[i].group.removal == SEE_REMOVE_EXPLICIT
                             ? "no explicit dependency of 'add' on 'add'; other edges order these "
                               "tasks as well"
                             : "a buffer of its own for argument 1 of 'add'; other edges order "
                               "these tasks as well",
                         0);
    see_analysis_free(a);
    plan_end(&p);
}

static void expect_refused(struct plan *p, const char *text, const char *sentence)
{
    struct see_question q;
    struct pto_error error = { .size = sizeof(error) };

    assert_int_equal(see_question_parse(p->r, text, &q, &error), PTO_EINVAL);
    assert_in(error.text, sentence);
}

static void what_is_no_change_is_refused(void **state)
{
    struct plan p;

    (void)state;
    begin_two(&p);
    expect_refused(&p, "add", "KERNEL=K");
    expect_refused(&p, "add=", "KERNEL=K");
    expect_refused(&p, "=2", "KERNEL=K");
    expect_refused(&p, "", "KERNEL=K");
    expect_refused(&p, "div=2", "no kernel 'div'; it has add, mul");
    expect_refused(&p, "edges=div", "no kernel 'div'; it has add, mul");
    expect_refused(&p, "add=0", "from 0.001 to 1000 times");
    expect_refused(&p, "add=2x", "from 0.001 to 1000 times");
    expect_refused(&p, "add=nan", "from 0.001 to 1000 times");
    expect_refused(&p, "clusters=0", "1 to 4096 clusters");
    expect_refused(&p, "clusters=1.5", "1 to 4096 clusters");
    expect_refused(&p, "clusters=5000", "1 to 4096 clusters");
    plan_end(&p);
}

/*
 * The orchestration submits half of the tasks of a chain, waits until half of these have completed,
 * and submits the others. Without the chain this wait is shorter.
 */
static void a_wait_for_the_scheduler_is_no_part_of_a_submit(void **state)
{
    struct see_analysis *a;
    struct plan p;
    uint32_t add, last = 0;

    (void)state;
    plan_begin(&p, 4);
    add = plan_kernel(&p, "add", PTO_CORE_AIV);
    for (uint32_t i = 0; i < 80; i++) {
        uint32_t task = plan_task(&p, add, 10000);

        p.gap_ns[task] = i == 40 ? 200000 : 500;
        if (i != 0)
            plan_edge(&p, last, task, PTO_RECORDING_REASON_EXPLICIT, -1, -1);
        last = task;
    }
    assert_in_range(plan_play(&p), 800000, 801000);
    a = ask(&p, "edges=add"); /* 80 tasks on 8 cores take 100 us */
    assert_in_range(a->what_if.asked[0].ns, 100000, 140000);
    see_analysis_free(a);
    plan_end(&p);
}

static void large_runs_have_fewer_predictions(void **state)
{
    char text[SEE_SEEDS_TEXT_MAX];
    struct see_model m = { .seeds = see_model_seeds(1000) };

    (void)state;
    assert_int_equal(see_model_seeds(0), SEE_ROW_SEEDS);
    assert_int_equal(see_model_seeds(250000), SEE_ROW_SEEDS);
    assert_int_equal(see_model_seeds(300000), 13);
    assert_int_equal(see_model_seeds(1000000), 3);
    assert_int_equal(see_model_seeds(4000000), 1);
    assert_int_equal(see_model_seeds(UINT32_MAX), 1);
    assert_string_equal(see_model_seeds_text(&m, text), "each row is the median of 15 predictions");
    m.seeds = 3;
    m.jobs.executions = 1000000;
    assert_string_equal(
        see_model_seeds_text(&m, text),
        "each row is the median of 3 predictions instead of 15, because the run has "
        "1000000 executions");
    m.seeds = 1;
    assert_in(see_model_seeds_text(&m, text), "of 1 prediction instead");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_and_clusters),
        cmocka_unit_test(edges),
        cmocka_unit_test(what_is_no_change_is_refused),
        cmocka_unit_test(a_wait_for_the_scheduler_is_no_part_of_a_submit),
        cmocka_unit_test(large_runs_have_fewer_predictions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

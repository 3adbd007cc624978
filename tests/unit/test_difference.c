/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two runs of one program, whose durations are drawn from the same distribution, differ in at most
 * 5 of 100 comparisons; a kernel that is 10 % slower is found, and no other difference.
 */
#include "tool/see/difference.h"

#include "tests/fixture/recording_test.h"

enum { KERNELS = 4, PAIRS = 100 };

/*
 * Parameters of the runs that are made: number of tasks, and how much the durations of a kernel
 * vary.
 */
static uint32_t tasks = 480;
static double noise = 0.08;

static const char *const kernel_names[KERNELS] = { "add", "mul", "exp", "sum" };

/* From 0 to 1. */
static double uniform(void)
{
    return (double)random() / (double)RAND_MAX;
}

/* About normal. */
static double normal(void)
{
    double sum = 0;

    for (int i = 0; i < 12; i++)
        sum += uniform();
    return sum - 6;
}

/* Durations with noise, preemptions, and phases in which the machine is slow. */
static uint64_t noisy(double ns, uint32_t at)
{
    static double phase;

    if (at % 40 == 0)
        phase = 0.02 * normal();
    ns *= 1 + phase + noise * normal();
    if (uniform() < 0.02)
        ns += 2e6 * uniform();
    return ns > 100 ? (uint64_t)ns : 100;
}

/* Makes a run of four kernels; one of them, or the submits, may be slower. */
static struct see_analysis *run(struct plan *p, const double factor[KERNELS], double gap)
{
    struct see_analysis *a = NULL;
    struct pto_error error = { .size = sizeof(error) };

    plan_begin(p, 4);
    for (uint32_t k = 0; k < KERNELS; k++)
        (void)plan_kernel(p, kernel_names[k], k % 2 == 0 ? PTO_CORE_AIV : PTO_CORE_AIC);
    for (uint32_t t = 0; t < tasks; t++) {
        (void)plan_task(p, t % KERNELS, noisy(10000 * factor[t % KERNELS] * (1 + t % KERNELS), t));
        p->gap_ns[t] = (uint64_t)(gap * (1 + 0.3 * uniform()));
        if (t >= 16)
            plan_edge(p, t - 16, t, PTO_RECORDING_REASON_RAW, 1, 0);
    }
    plan_play(p);
    p->r->clock = PTO_RECORDING_CLOCK_WALL;
    free(p->r->platform);
    p->r->platform = strdup("a2a3"); /* cores, not threads */
    if (see_analysis_make(p->r, PTO_RECORDING_NONE, false, &a, &error) != PTO_OK)
        fail_msg("%s", error.text);
    return a;
}

static struct see_difference compare(const double before[KERNELS], const double after[KERNELS],
                                     double gap, struct plan *p)
{
    struct see_analysis *a = run(&p[0], before, 300), *b = run(&p[1], after, gap);
    struct see_difference d;

    assert_int_equal(see_difference_make(a, b, &d), PTO_OK);
    return d;
}

static void drop(struct see_difference *d, struct plan *p)
{
    see_analysis_free((struct see_analysis *)d->of[SEE_BEFORE]);
    see_analysis_free((struct see_analysis *)d->of[SEE_AFTER]);
    see_difference_free(d);
    plan_end(&p[0]);
    plan_end(&p[1]);
}

static const double alike[KERNELS] = { 1, 1, 1, 1 };

static void expect_no_difference(unsigned int seed)
{
    uint32_t pairs = often(PAIRS, 10), wrong = 0;

    srandom(seed);
    for (uint32_t i = 0; i < pairs; i++) {
        struct plan p[2];
        struct see_difference d = compare(alike, alike, 300, p);

        wrong += d.changed != 0;
        drop(&d, p);
    }
    if (wrong > (pairs + 19) / 20)
        fail_msg("%u of %u pairs of equal runs differ", wrong, pairs);
}

static void equal_runs_differ_rarely(void **state)
{
    (void)state;
    expect_no_difference(7);
}

/* Their medians differ by more than the floor, by chance. */
static void nor_do_few_executions_that_vary(void **state)
{
    (void)state;
    tasks = 64;
    noise = 0.25;
    expect_no_difference(12);
    tasks = 480;
    noise = 0.08;
}

static void a_slower_kernel_is_found(void **state)
{
    uint32_t pairs = often(40, 5), missed = 0;

    (void)state;
    srandom(8);
    for (uint32_t i = 0; i < pairs; i++) {
        double slower[KERNELS] = { 1, 1, 1, 1 };
        struct plan p[2];
        struct see_difference d;

        slower[i % KERNELS] = 1.1;
        d = compare(alike, slower, 300, p);
        if (d.changed != 1 || d.row[0].changed != SEE_CHANGED_SLOWER ||
            strcmp(d.row[0].name, kernel_names[i % KERNELS]) != 0)
            missed++;
        else
            assert_in(d.text, kernel_names[i % KERNELS]);
        drop(&d, p);
    }
    if (missed > (pairs + 19) / 20)
        fail_msg("%u of %u slower kernels were missed", missed, pairs);
}

/* The machine was slower: no kernel changed, or the one that became slower than the others. */
static void another_speed_of_the_machine_is_no_change(void **state)
{
    uint32_t pairs = often(40, 5), wrong = 0;

    (void)state;
    srandom(13);
    for (uint32_t i = 0; i < pairs; i++) {
        double speed = i % 2 == 0 ? 1.09 : 0.91, after[KERNELS] = { speed, speed, speed, speed };
        struct plan p[2];
        struct see_difference d;

        if (i % 4 >= 2)
            after[i % KERNELS] *= 1.15;
        d = compare(alike, after, 300, p);
        assert_in(d.text, "is taken for the speed of the machine");
        assert_true((d.machine > 1) == (speed > 1));
        wrong += d.changed != (i % 4 >= 2) ||
                 (i % 4 >= 2 && strcmp(d.row[0].name, kernel_names[i % KERNELS]) != 0);
        drop(&d, p);
    }
    if (wrong > (pairs + 19) / 20)
        fail_msg("%u of %u pairs", wrong, pairs);
}

static void slower_submission_is_found(void **state)
{
    struct plan p[2];
    struct see_difference d;

    (void)state;
    srandom(9);
    d = compare(alike, alike, 600, p);
    assert_int_equal(d.changed, 1);
    assert_string_equal(d.row[0].name, "submission");
    assert_int_equal(d.row[0].changed, SEE_CHANGED_SLOWER);
    assert_true(d.row[0].ratio > 1.9 && d.row[0].ratio < 2.1);
    drop(&d, p);
}

static void another_kernel_is_named(void **state)
{
    struct plan p[2];
    struct see_difference d;

    (void)state;
    srandom(10);
    d = compare(alike, alike, 300, p);
    free(p[1].r->kernel[2].name);
    p[1].r->kernel[2].name = strdup("log");
    see_difference_free(&d);
    assert_int_equal(see_difference_make(d.of[SEE_BEFORE], d.of[SEE_AFTER], &d), PTO_OK);
    assert_int_equal(d.changed, 2);
    assert_true(d.row[0].changed == SEE_CHANGED_ADDED || d.row[0].changed == SEE_CHANGED_REMOVED);
    assert_false(d.has_other_tasks);
    drop(&d, p);
}

/* A virtual clock has no noise: a thousandth is due to rounding, a hundredth is a change. */
static void virtual_runs_are_exact(void **state)
{
    static const double factor[] = { 1.001, 1.01 };

    (void)state;
    for (int i = 0; i < 2; i++) {
        double after[KERNELS] = { 1, factor[i], 1, 1 };
        struct plan p[2];
        struct see_difference d;

        srandom(11);
        d = compare(alike, alike, 300, p);
        see_difference_free(&d);
        for (uint32_t k = 0; k < 2; k++)
            p[k].r->clock = PTO_RECORDING_CLOCK_VIRTUAL;
        /* the same run with other durations */
        for (uint64_t k = 0; k < p[1].r->slice_count; k++) {
            const struct see_slice *before = &p[0].r->slice[k];
            struct see_slice *slice = &p[1].r->slice[k];

            slice->end_ns =
                slice->begin_ns +
                (uint64_t)((double)(before->end_ns - before->begin_ns) * after[slice->kernel]);
        }
        assert_int_equal(see_difference_make(d.of[SEE_BEFORE], d.of[SEE_AFTER], &d), PTO_OK);
        for (uint32_t k = 0; k < d.count; k++)
            if (strcmp(d.row[k].name, "mul") == 0)
                assert_int_equal(d.row[k].changed, i == 0 ? SEE_CHANGED_SAME : SEE_CHANGED_SLOWER);
        drop(&d, p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_runs_differ_rarely),
        cmocka_unit_test(nor_do_few_executions_that_vary),
        cmocka_unit_test(a_slower_kernel_is_found),
        cmocka_unit_test(another_speed_of_the_machine_is_no_change),
        cmocka_unit_test(slower_submission_is_found),
        cmocka_unit_test(another_kernel_is_named),
        cmocka_unit_test(virtual_runs_are_exact),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

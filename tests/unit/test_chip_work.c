/* SPDX-License-Identifier: Apache-2.0 */
/* The data from which analyses of a recording start: order in time, readiness, limits. */
#include "tool/see/chip_work.h"

#include "tests/fixture/recording_test.h"

static struct see_work make(const struct plan *p)
{
    struct see_work w;

    assert_int_equal(see_work_main_group(p->r), 0);
    assert_int_equal(see_work_make(p->r, 0, &w), PTO_OK);
    return w;
}

/* Two AIV tasks at a time, then an AIC task that waits for the longer one. */
static void play_fork(struct plan *p)
{
    uint32_t add, mul, a, b, c;

    plan_begin(p, 1);
    add = plan_kernel(p, "add", PTO_CORE_AIV);
    mul = plan_kernel(p, "mul", PTO_CORE_AIC);
    a = plan_task(p, add, 100);
    b = plan_task(p, add, 300);
    c = plan_task(p, mul, 50);
    plan_edge(p, a, c, PTO_RECORDING_REASON_RAW, 1, 0);
    plan_edge(p, b, c, PTO_RECORDING_REASON_RAW, 1, 1);
    assert_int_equal(plan_play(p), 350);
}

static void a_fork_is_understood(void **state)
{
    struct see_work w;
    struct plan p;

    (void)state;
    play_fork(&p);
    w = make(&p);
    assert_int_equal(w.used[SEE_AIC], 1);
    assert_int_equal(w.used[SEE_AIV], 2);
    assert_int_equal(w.busy_ns[SEE_AIV], 400);
    assert_int_equal(w.ready_ns[2], 300);
    assert_int_equal(w.ready_by[2], 1);
    assert_int_equal(w.end_ns, 350);
    assert_int_equal(w.by_end[0], 0);
    assert_true(w.threads == UINT32_MAX);
    see_work_free(&w);
    plan_end(&p);
}

static void readiness_follows_from_edges(void **state)
{
    struct see_work w;
    struct plan p;

    (void)state;
    play_fork(&p);
    p.r->has_ready = false;
    p.r->task[2].ready_ns = PTO_RECORDING_NO_TIME;
    w = make(&p);
    assert_int_equal(w.ready_ns[2], 300);
    assert_int_equal(w.ready_by[2], 1);
    see_work_free(&w);
    plan_end(&p);
}

static void executions_are_linked_by_lane(void **state)
{
    struct see_work w;
    struct plan p;
    uint32_t add;

    (void)state;
    plan_begin(&p, 1);
    add = plan_kernel(&p, "add", PTO_CORE_AIV);
    for (uint32_t i = 0; i < 5; i++)
        (void)plan_task(&p, add, 10 + i);
    plan_play(&p);
    w = make(&p);
    for (uint32_t i = 0; i < 5; i++) {
        uint32_t before = w.previous[i];

        assert_int_equal(before == PTO_RECORDING_NONE, i < 2);
        if (before != PTO_RECORDING_NONE) {
            assert_int_equal(p.r->slice[before].lane, p.r->slice[i].lane);
            assert_int_equal(p.r->slice[before].end_ns, p.r->slice[i].begin_ns);
        }
    }
    see_work_free(&w);
    plan_end(&p);
}

static void a_graph_that_is_built_first_is_ready_when_it_is_built(void **state)
{
    struct see_work w;
    struct plan p;

    (void)state;
    play_fork(&p);
    p.r->mode = PTO_MODE_HOST;
    for (uint32_t i = 0; i < 3; i++) {
        p.r->task[i].submit_ns = p.r->task[i].ready_ns = 10 + i;
        p.r->task[i].start_ns += 100;
    }
    w = make(&p);
    assert_int_equal(w.ready_ns[0], 12);
    assert_int_equal(w.ready_ns[1], 12);
    assert_int_equal(w.ready_by[1], PTO_RECORDING_NONE);
    see_work_free(&w);
    plan_end(&p);
}

static void many_keys_are_sorted(void **state)
{
    enum { MANY = 5000 };
    uint64_t *key = malloc(MANY * sizeof(*key));
    uint32_t *index = malloc(MANY * sizeof(*index));

    (void)state;
    srandom(1);
    for (uint32_t i = 0; i < MANY; i++) {
        key[i] = ((uint64_t)random() << (i % 30)) % (i % 7 == 0 ? 3 : UINT64_MAX);
        index[i] = i;
    }
    assert_int_equal(see_sort(key, index, MANY), PTO_OK);
    for (uint32_t i = 1; i < MANY; i++)
        assert_true(key[index[i - 1]] < key[index[i]] ||
                    (key[index[i - 1]] == key[index[i]] && index[i - 1] < index[i]));
    free(key);
    free(index);
}

static void nothing_executed_is_refused(void **state)
{
    struct see_work w;
    struct plan p;

    (void)state;
    plan_begin(&p, 1);
    (void)plan_task(&p, PTO_RECORDING_NONE, 0);
    plan_play(&p);
    assert_int_equal(see_work_main_group(p.r), PTO_RECORDING_NONE);
    assert_int_equal(see_work_make(p.r, 0, &w), PTO_EINVAL);
    plan_end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fork_is_understood),
        cmocka_unit_test(readiness_follows_from_edges),
        cmocka_unit_test(executions_are_linked_by_lane),
        cmocka_unit_test(a_graph_that_is_built_first_is_ready_when_it_is_built),
        cmocka_unit_test(many_keys_are_sorted),
        cmocka_unit_test(nothing_executed_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

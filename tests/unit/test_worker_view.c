/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The analysis of a level-3 worker, with recordings that are made up: why each child was idle, the
 * path through the worker's tasks, and one cause for each verdict.
 */
#include "tool/see/worker_view.h"

#include "tests/fixture/fixture.h"

enum { CHILDREN = 3, CALLABLES = 4, TASKS_MAX = 16 };

static struct see_recording *r;

static void begin(void)
{
    static const uint8_t kinds[CHILDREN] = { PTO_RECORDING_LANE_CHIP, PTO_RECORDING_LANE_CHIP,
                                             PTO_RECORDING_LANE_SUB };

    r = calloc(1, sizeof(*r));
    r->platform = strdup("a2a3sim");
    r->scene = strdup("");
    r->test_case = strdup("");
    r->title = strdup("");
    r->has_edges = r->has_ready = true;
    r->workers = 1; /* threads of the chips, which do not limit the worker */
    r->group = calloc(1, sizeof(*r->group));
    r->group_count = 1;
    *r->group = (struct see_group){ .name = strdup("worker"),
                                    .kind = PTO_RECORDING_GROUP_WORKER,
                                    .parent = PTO_RECORDING_NONE,
                                    .rank = PTO_RECORDING_NONE,
                                    .lane_end = CHILDREN };
    r->lane = calloc(CHILDREN, sizeof(*r->lane));
    r->lane_count = CHILDREN;
    r->kernel = calloc(CALLABLES, sizeof(*r->kernel));
    r->kernel_count = CALLABLES;
    r->key_count = 1;
    for (uint32_t i = 0; i < CHILDREN; i++)
        r->lane[i] = (struct see_lane){ .kind = kinds[i], .index = i };
    for (uint32_t i = 0; i < CALLABLES; i++) {
        char name[2] = { (char)('a' + i), '\0' };

        r->kernel[i] = (struct see_kernel){ .name = strdup(name), .core = PTO_CORE_TYPES };
    }
    r->task = calloc(TASKS_MAX, sizeof(*r->task));
    r->slice = calloc(TASKS_MAX, sizeof(*r->slice));
    r->edge = calloc(TASKS_MAX, sizeof(*r->edge));
    r->argument_from = calloc(TASKS_MAX + 1, sizeof(*r->argument_from));
    r->scalar_from = calloc(TASKS_MAX + 1, sizeof(*r->scalar_from));
}

/* Adds a task of a callable, which waits for task `by` if there is one. Times are in us. */
static uint32_t add(uint32_t callable, uint32_t child, uint32_t by, uint64_t submit, uint64_t start,
                    uint64_t end)
{
    uint32_t t = r->task_count++;
    uint64_t ready = by != PTO_RECORDING_NONE ? r->task[by].end_ns : 1000 * submit;

    r->task[t] = (struct see_task){ .id = t,
                                    .submit_ns = 1000 * submit,
                                    .ready_ns = ready > 1000 * submit ? ready : 1000 * submit,
                                    .start_ns = 1000 * start,
                                    .end_ns = 1000 * end,
                                    .ready_by = by,
                                    .parent = PTO_RECORDING_NONE,
                                    .file = PTO_RECORDING_NONE,
                                    .kernel = { PTO_RECORDING_NONE, callable, PTO_RECORDING_NONE },
                                    .blocks = 1 };
    r->slice[r->slice_count++] = (struct see_slice){ .begin_ns = 1000 * start,
                                                     .end_ns = 1000 * end,
                                                     .cpu_ns = PTO_RECORDING_NO_TIME,
                                                     .task = t,
                                                     .lane = child,
                                                     .kernel = callable };
    if (by != PTO_RECORDING_NONE)
        r->edge[r->edge_count++] = (struct see_edge){ .from = by, .to = t };
    r->group->task_end = r->task_count;
    r->length_ns = 1000 * end > r->length_ns ? 1000 * end : r->length_ns;
    return t;
}

static struct see_worker *analyse(void)
{
    struct see_worker *w = NULL;

    assert_int_equal(see_recording_index(r), PTO_OK);
    assert_int_equal(see_worker_group(r), 0);
    assert_int_equal(see_worker_make(r, 0, &w, NULL), PTO_OK);
    return w;
}

static void end(struct see_worker *w)
{
    see_worker_free(w);
    see_recording_free(r);
}

static void expect_verdict(enum see_cause cause, uint32_t callable, const char *text)
{
    struct see_worker *w = analyse();

    if (w->verdict.cause != cause || strstr(w->verdict.text, text) == NULL)
        fail_msg("%s: %s", see_cause_key(w->verdict.cause), w->verdict.text);
    assert_int_equal(w->verdict.kernel, callable);
    assert_in(w->verdict.text, r->kernel[callable].name);
    end(w);
}

static void each_child_has_reasons(void **state)
{
    struct see_worker *w;
    const struct see_child *c;
    uint32_t first;

    (void)state;
    begin();
    first = add(0, 0, PTO_RECORDING_NONE, 1, 10, 50);
    add(1, 1, first, 2, 60, 90);               /* waits until 50, begins at 60 */
    add(1, 0, PTO_RECORDING_NONE, 70, 75, 80); /* submitted at 70 */
    w = analyse();
    c = w->child;
    assert_int_equal(w->child_count, CHILDREN);
    assert_int_equal(w->work.begin_ns, 0);
    assert_int_equal(w->work.end_ns, 90000);
    assert_int_equal(c[0].tasks, 2);
    assert_int_equal(c[0].ns[SEE_IDLE_BUSY], 45000);
    assert_int_equal(c[0].ns[SEE_IDLE_BEFORE], 10000);
    assert_int_equal(c[0].ns[SEE_IDLE_SUBMIT], 20000);
    assert_int_equal(c[0].ns[SEE_IDLE_READY], 5000);
    assert_int_equal(c[0].ns[SEE_IDLE_TAIL], 10000);
    assert_int_equal(c[0].waited_for, PTO_RECORDING_NONE);
    assert_int_equal(c[1].ns[SEE_IDLE_BEFORE], 10000);
    assert_int_equal(c[1].ns[SEE_IDLE_DATA], 40000);
    assert_int_equal(c[1].ns[SEE_IDLE_READY], 10000);
    assert_int_equal(c[1].waited_for, first);
    assert_int_equal(c[1].waited_ns, 40000);
    assert_int_equal(c[2].ns[SEE_IDLE_UNUSED], 90000);
    assert_int_equal(w->chain_ns, 70000);
    assert_int_equal(w->bound_ns, 70000);
    assert_int_equal(w->path.step[w->path.count - 1].task, first + 1);
    end(w);
}

static void one_task_takes_most_of_the_time(void **state)
{
    (void)state;
    begin();
    add(0, 0, PTO_RECORDING_NONE, 0, 1, 10);
    add(1, 1, PTO_RECORDING_NONE, 1, 2, 90);
    add(2, 2, 0, 2, 11, 100);
    r->task[2].end_ns = r->slice[2].end_ns = 20000;
    expect_verdict(SEE_CAUSE_SLOW_TASK, 1, "one slow task: task 1 'b' on chip 1 takes 98 %");
}

static void the_orchestration_is_late(void **state)
{
    (void)state;
    begin();
    for (uint32_t i = 0; i < 6; i++)
        add(i == 4 ? 3 : 0, i % 2, PTO_RECORDING_NONE, i == 4 ? 85 : 10 * i, i == 4 ? 85 : 10 * i,
            i == 4 ? 92 : 10 * i + 5);
    expect_verdict(SEE_CAUSE_SUBMISSION, 3, "serial submission");
}

static void ready_tasks_begin_late(void **state)
{
    uint32_t last = PTO_RECORDING_NONE;

    (void)state;
    begin();
    for (uint32_t i = 0; i < 5; i++)
        last = add(2, i % 2, last, 0, 20 * i + 12, 20 * i + 20);
    expect_verdict(SEE_CAUSE_SCHEDULING, 2, "scheduling cost");
}

static void one_child_has_the_work(void **state)
{
    (void)state;
    begin();
    for (uint32_t i = 0; i < 8; i++)
        add(1, 0, PTO_RECORDING_NONE, 0, 10 * i, 10 * i + 10);
    add(2, 1, PTO_RECORDING_NONE, 0, 0, 5);
    expect_verdict(SEE_CAUSE_CHILD, 1, "one child has most of the work: chip 0 is busy for 100 %");
}

static void all_children_are_busy(void **state)
{
    (void)state;
    begin();
    for (uint32_t i = 0; i < 12; i++)
        add(1, i % 3, PTO_RECORDING_NONE, 0, 10 * (i / 3), 10 * (i / 3) + 10);
    expect_verdict(SEE_CAUSE_CORES, 1, "the children are busy");
}

static void tasks_follow_each_other(void **state)
{
    uint32_t last = PTO_RECORDING_NONE;

    (void)state;
    begin();
    for (uint32_t i = 0; i < 8; i++)
        last = add(3, i % 3, last, 0, 10 * i, 10 * i + 10);
    expect_verdict(SEE_CAUSE_CHAIN, 3, "a chain of tasks");
}

static void a_worker_without_tasks_is_refused(void **state)
{
    struct see_worker *w = NULL;
    struct pto_error error;

    (void)state;
    pto_error_init(&error);
    begin();
    assert_int_equal(see_recording_index(r), PTO_OK);
    assert_int_equal(see_worker_make(r, 0, &w, &error), PTO_EINVAL);
    assert_in(error.text, "no child of 'worker' ran a task");
    end(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_child_has_reasons),
        cmocka_unit_test(one_task_takes_most_of_the_time),
        cmocka_unit_test(the_orchestration_is_late),
        cmocka_unit_test(ready_tasks_begin_late),
        cmocka_unit_test(one_child_has_the_work),
        cmocka_unit_test(all_children_are_busy),
        cmocka_unit_test(tasks_follow_each_other),
        cmocka_unit_test(a_worker_without_tasks_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

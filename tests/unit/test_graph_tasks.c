/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that schedules its tasks itself: slots of submits, including refused ones, and
 * completions.
 */
#include "tests/fixture/port_test.h"

static struct pto_tensor words(uint32_t at, uint32_t count)
{
    uintptr_t addr = 0x200000000ull + 4ull * at;

    return pto_tensor_external((void *)addr, &count, 1, PTO_FLOAT32);
}

static int submit(struct rig *rig, const struct pto_tensor *first, const struct pto_tensor *second,
                  struct graph_task *task_out)
{
    struct pto_outputs out;
    struct pto_args args;

    pto_args_init(&args);
    pto_add_inout(&args, first);
    if (second != NULL)
        pto_add_input(&args, second);
    return graph_submit_task(&rig->g, &rig_aiv, &args, NULL, &out, task_out);
}

static void a_submit_returns_its_slot_whether_it_is_ready_or_not(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor t = words(0, 16);
    struct graph_task first, second;
    struct slot *ready[1];

    (void)state;
    assert_int_equal(submit(rig, &t, NULL, &first), PTO_OK);
    assert_int_equal(submit(rig, &t, NULL, &second), PTO_OK);
    assert_true(first.is_ready && !second.is_ready);
    assert_int_equal(second.slot->seq, first.slot->seq + 1);
    assert_ptr_equal(graph_slot_numbered(&rig->g, second.slot->number), second.slot);
    assert_true(graph_waits_for(first.slot, second.slot));
    assert_false(graph_waits_for(second.slot, first.slot));
    assert_int_equal(rig_complete_slot(rig, first.slot, ready), 1);
    assert_ptr_equal(ready[0], second.slot);
    assert_int_equal(rig_complete_slot(rig, second.slot, ready), 0);
    assert_int_equal(rig->g.live, 0);
    rig_close(rig);
}

/*
 * Its first tensor is recorded when the second one is refused, so a later task already waits for
 * it.
 */
static void a_submit_that_is_refused_halfway_is_completed_like_any_other(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor t = words(0, 16), wrong = words(64, 16);
    struct graph_task first, refused, last;
    struct slot *ready[1];

    (void)state;
    wrong.ndims = PTO_MAX_DIMS + 1;
    assert_int_equal(submit(rig, &t, NULL, &first), PTO_OK);
    assert_int_equal(submit(rig, &t, &wrong, &refused), PTO_EARGS);
    assert_true(refused.slot != NULL && !refused.is_ready);
    assert_int_equal(submit(rig, &t, NULL, &last), PTO_OK);
    assert_true(graph_waits_for(refused.slot, last.slot));
    assert_int_equal(rig->g.live, 3);
    assert_int_equal(rig_complete_slot(rig, first.slot, ready), 1);
    assert_ptr_equal(ready[0], refused.slot);
    assert_int_equal(rig_complete_slot(rig, refused.slot, ready), 1);
    assert_ptr_equal(ready[0], last.slot);
    rig_complete_slot(rig, last.slot, ready);
    assert_int_equal(rig->g.live, 0);
    rig_close(rig);
}

static void a_submit_that_is_refused_at_once_has_no_slot(void **state)
{
    static const struct pto_kernels missing = { -1, RIG_KERNELS, -1 };
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct graph_task task;
    struct pto_outputs out;
    struct pto_args args;

    (void)state;
    pto_args_init(&args);
    assert_int_equal(graph_submit_task(&rig->g, &missing, &args, NULL, &out, &task), PTO_EARGS);
    assert_true(task.slot == NULL && !task.is_ready);
    assert_int_equal(rig->g.live, 0);
    rig_close(rig);
}

/* Sixteen writers of rows, then two readers of all: both wait for one join. */
static void joins_are_followed_and_completed(void **state)
{
    enum { ROWS = 16 };
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor all = words(0, ROWS * 16);
    struct graph_task writer[ROWS], reader[3];
    struct slot *ready[4];
    struct pto_outputs out;
    struct pto_args args;

    (void)state;
    rig->g.edge_fn = NULL; /* the client gets every edge, so there are no joins */
    graph_allow_joins(&rig->g, true);
    for (uint32_t i = 0; i < ROWS; i++) {
        struct pto_tensor row = words(16 * i, 16);

        assert_int_equal(submit(rig, &row, NULL, &writer[i]), PTO_OK);
    }
    pto_args_init(&args);
    pto_add_input(&args, &all);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(graph_submit_task(&rig->g, &rig_aiv, &args, NULL, &out, &reader[i]),
                         PTO_OK);
    assert_int_equal(rig->g.join_total, 1);
    assert_true(graph_waits_for(writer[0].slot, reader[2].slot));
    for (uint32_t i = 0, count; i < ROWS; i++) {
        count = rig_complete_slot(rig, writer[i].slot, ready);
        assert_int_equal(count, i == ROWS - 1 ? 2 : 0); /* the first reader, and the join */
    }
    assert_true(slot_is_join(ready[0]) != slot_is_join(ready[1]));
    assert_int_equal(rig_complete_slot(rig, ready[slot_is_join(ready[1])], NULL), 2);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(rig_complete_slot(rig, reader[i].slot, NULL), 0);
    assert_int_equal(rig->g.live, 0);
    rig_close(rig);
}

static const struct CMUnitTest graph_task_tests[] = {
    cmocka_unit_test(a_submit_returns_its_slot_whether_it_is_ready_or_not),
    cmocka_unit_test(a_submit_that_is_refused_halfway_is_completed_like_any_other),
    cmocka_unit_test(a_submit_that_is_refused_at_once_has_no_slot),
    cmocka_unit_test(joins_are_followed_and_completed),
};

TEST_MAIN(graph_task_tests)

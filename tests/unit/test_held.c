/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for a whole graph before anything runs, in host mode or for repeated launches: bytes per
 * task, counted exactly. docs/internals/performance.md has the reasons, `bench/instructions --held`
 * measures instructions.
 */
#include "graph/image.h"
#include "tests/fixture/port_test.h"

enum { TASKS = 4096 };

static void submit_tasks(struct rig *rig, uint32_t tensors, uint32_t count)
{
    static float word[PTO_TASK_TENSORS_MAX];
    struct pto_tensor tensor[PTO_TASK_TENSORS_MAX];
    struct pto_args args;

    pto_args_init(&args);
    for (uint32_t i = 0; i < tensors; i++) {
        tensor[i] = pto_tensor_external(&word[i], PTO_DIMS(1), 1, PTO_FLOAT32);
        pto_add_no_dep(&args, &tensor[i]);
    }
    for (uint32_t i = 0; i < count; i++)
        assert_true(rig_submit(rig, &args, NULL));
}

/* Two lines of header, two for each tensor, and the list of buffers that a task keeps alive. */
static void a_held_task_has_a_slot_of_its_size(void **state)
{
    (void)state;
    for (uint32_t tensors = 0; tensors <= 4; tensors++) {
        struct rig *rig = rig_open(PTO_DEPS_SAFE);
        uint64_t slots = rig->g.slot_pool.used, books = rig->g.info_pool.used;

        submit_tasks(rig, tensors, TASKS);
        assert_int_equal(rig->g.slot_pool.used - slots, TASKS * (2 + 2 * tensors + 1) * 64);
        assert_int_equal(rig->g.info_pool.used - books, TASKS * 16);
        assert_int_equal(rig->g.ids[0].pool.used, TASKS * 16); /* the capacity is a power of two */
        submit_tasks(rig, tensors, 1);
        assert_int_equal(rig->g.ids[0].pool.used, 2 * TASKS * 16);
        rig_close(rig);
    }
}

/* A line, its tensors, and three words: a counter, an entry in the list of tasks, its position. */
static void a_task_of_an_image_has_no_more_than_a_launch_needs(void **state)
{
    const struct pto_entry entry = { 0 };

    (void)state;
    for (uint32_t tensors = 0; tensors <= 4; tensors++) {
        struct rig *rig = rig_open(PTO_DEPS_SAFE);
        struct image image;

        submit_tasks(rig, tensors, TASKS);
        image_measure(&image, &rig->g, &entry);
        assert_int_equal(image.task_count, TASKS);
        assert_in_range(image.bytes, TASKS * (64 + 128 * tensors + 12),
                        TASKS * (64 + 128 * tensors + 12) + 4096);
        rig_close(rig);
    }
}

/* Each task writes `length` bytes of its own and possibly some of the next task's. */
static void submit_regions(struct rig *rig, uint64_t length)
{
    static char memory[64 * TASKS + 128];
    struct pto_args args;

    for (uint32_t i = 0; i < TASKS; i++) {
        struct pto_tensor t =
            pto_tensor_external(&memory[64 * i], PTO_DIMS((uint32_t)length), 1, PTO_UINT8);

        pto_args_init(&args);
        pto_add_output_existing(&args, &t);
        (void)rig_submit(rig, &args, NULL);
    }
}

/* At most four records for each region, whether or not regions share cells, and only one table. */
static void the_index_keeps_one_table(void **state)
{
    (void)state;
    for (uint64_t length = 64; length <= 128; length += 32) {
        struct rig *rig = rig_open(PTO_DEPS_SAFE);
        const struct regions *x = &rig->g.regions;

        submit_regions(rig, length);
        assert_in_range(x->table_count, TASKS / 2, 4 * TASKS);
        assert_int_equal(x->table_pool.used, x->table_count * sizeof(struct region));
        assert_int_equal(x->table_shape_pool.used, x->table_count * sizeof(struct region_shape));
        assert_in_range(x->overflow_pool.used, 0, TASKS * sizeof(struct region));
        rig_close(rig);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_held_task_has_a_slot_of_its_size),
    cmocka_unit_test(a_task_of_an_image_has_no_more_than_a_launch_needs),
    cmocka_unit_test(the_index_keeps_one_table),
};

TEST_MAIN(tests)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The observer of submits finds the task that wrote an element last, exactly, in strided views of
 * all kinds.
 */

#include "tool/scene/scene_writer.h"
#include "tests/fixture/fixture.h"

enum { ROWS = 8, COLUMNS = 6 };

static float memory[ROWS][COLUMNS];

/* The expected result, found by visiting all elements of the view. */
static bool walks_over(const struct pto_tensor *t, uint64_t addr)
{
    uint32_t at[PTO_MAX_DIMS] = { 0 };

    for (uint64_t i = 0; i < pto_tensor_numel(t); i++) {
        uint64_t offset = t->start;

        for (uint32_t d = 0; d < t->ndims; d++)
            offset += (uint64_t)at[d] * t->strides[d];
        if (addr >= t->addr + offset * 4 && addr < t->addr + offset * 4 + 4)
            return true;
        for (uint32_t d = t->ndims; d-- > 0 && ++at[d] == t->shapes[d];)
            at[d] = 0;
    }
    return false;
}

static struct pto_tensor random_view(const struct pto_tensor *whole, uint32_t *seed)
{
    struct pto_tensor view = *whole;

    for (uint32_t steps = 0; steps < 3; steps++) {
        uint32_t dim = (uint32_t)rand_r((unsigned *)seed) % 2;
        uint32_t begin = (uint32_t)rand_r((unsigned *)seed) % (view.shapes[dim] + 1);
        uint32_t step = 1 + (uint32_t)rand_r((unsigned *)seed) % 3;

        view = pto_tensor_slice(&view, dim, begin, view.shapes[dim], step);
        if (rand_r((unsigned *)seed) % 3 == 0)
            view = pto_tensor_transpose(&view, 0, 1);
    }
    return view;
}

static void finds_an_address_in_any_view(void **state)
{
    const struct pto_tensor whole =
        pto_tensor_external(memory, (const uint32_t[]){ ROWS, COLUMNS }, 2, PTO_FLOAT32);
    uint32_t seed = 1;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        const struct pto_tensor view = random_view(&whole, &seed);

        for (uint64_t byte = 0; byte < sizeof(memory) + 8; byte++)
            assert_int_equal(scene_writer_covers(&view, whole.addr + byte),
                             walks_over(&view, whole.addr + byte));
    }
    /* Strides that do not nest: two dimensions whose elements are 0 1 2 3 4 5 6. */
    struct pto_tensor odd = whole;

    odd.shapes[0] = 3;
    odd.shapes[1] = 3;
    odd.strides[0] = 2;
    odd.strides[1] = 1;
    pto_tensor_update(&odd);
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(scene_writer_covers(&odd, whole.addr + 4 * i), i <= 6);
}

static void kernel_nothing(int64_t *args)
{
    (void)args;
}

/* Writes rows one by one, then row 3 again by a task that may not run; an input is not written. */
static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *whole = &entry->tensor[0];
    const struct pto_tensor row = pto_tensor_view(whole, PTO_DIMS(1, COLUMNS), PTO_DIMS(3, 0));

    for (uint32_t r = 0; r < ROWS; r++) {
        const struct pto_tensor part = pto_tensor_view(whole, PTO_DIMS(1, COLUMNS), PTO_DIMS(r, 0));

        pto_aiv(o, 0, PTO_WRITE(&part));
    }
    pto_aiv(o, 1, PTO_INOUT(&row), PTO_IF(whole, EQ, 1, 0, 0));
    pto_aiv(o, 0, PTO_IN(whole));
}

struct tally {
    uint64_t next;
    bool is_in_order;
};

static void count_task(void *context, const struct pto_task_view *view)
{
    struct tally *tally = context;

    tally->is_in_order = tally->is_in_order && view->index == tally->next &&
                         pto_task_id_is_valid(view->task) && view->args->tensor_count == 1 &&
                         view->site != NULL && view->entry->tensor_count == 1;
    tally->next++;
}

static void open_all(struct pto_device **device, struct pto_callable **callable)
{
    static const struct pto_kernel kernels[] = { { "a", kernel_nothing, PTO_CORE_AIV },
                                                 { "b", kernel_nothing, PTO_CORE_AIV } };
    struct pto_device_params device_params;
    struct pto_callable_params params;

    pto_device_params_init(&device_params);
    device_params.platform = "a2a3sim";
    assert_int_equal(pto_device_open(&device_params, device), PTO_OK);
    pto_callable_params_init(&params);
    params.orchestration = orchestrate;
    params.kernels = kernels;
    params.kernel_count = 2;
    assert_int_equal(pto_callable_create(&params, callable), PTO_OK);
}

static void sees_every_submit_and_the_last_writer(void **state)
{
    const struct pto_tensor tensor =
        pto_tensor_external(memory, (const uint32_t[]){ ROWS, COLUMNS }, 2, PTO_FLOAT32);
    const struct pto_entry entry = { .tensor_count = 1, .tensor = &tensor };
    struct pto_callable *callable;
    struct pto_device *device;
    struct pto_run_options options;

    (void)state;
    open_all(&device, &callable);
    for (int mode = PTO_MODE_STREAM; mode <= PTO_MODE_HOST; mode++) {
        struct watched_element wish[] = { { .index = 2 * COLUMNS + 5 }, { .index = 3 * COLUMNS } };
        struct writer_watch watch = { wish, 2 };
        struct tally tally = { 0, true };

        pto_run_options_init(&options);
        options.mode = (enum pto_mode)mode;
        options.task = count_task;
        options.task_context = &tally;
        assert_int_equal(pto_run(device, callable, &entry, &options, NULL), PTO_OK);
        assert_int_equal(tally.next, ROWS + 2);
        assert_true(tally.is_in_order);

        options.task = NULL; /* nobody watches any more */
        assert_int_equal(pto_run(device, callable, &entry, &options, NULL), PTO_OK);
        assert_int_equal(tally.next, ROWS + 2);

        options.task = scene_writer_watch_task;
        options.task_context = &watch;
        assert_int_equal(pto_run(device, callable, &entry, &options, NULL), PTO_OK);
        assert_true(wish[0].is_found && wish[1].is_found);
        assert_int_equal(wish[0].task, 2);
        assert_int_equal(wish[0].kernels.aiv0, 0);
        assert_false(wish[0].is_conditional);
        assert_int_equal(wish[1].task, ROWS);
        assert_int_equal(wish[1].kernels.aiv0, 1);
        assert_true(wish[1].is_conditional);
        assert_non_null(strstr(wish[1].file, "test_writer.c"));
        assert_true(wish[1].line > 0);
    }
    assert_int_equal(pto_device_close(device), PTO_OK);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_an_address_in_any_view),
        cmocka_unit_test(sees_every_submit_and_the_last_writer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

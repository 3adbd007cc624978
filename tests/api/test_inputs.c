/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * Kernels that write to an input of their task, in runs with guards: the error names argument and
 * element. Changes of an input for other reasons are not reported.
 */
#include "tests/fixture/device_test.h"

enum { ROWS = 4, COLUMNS = 8, WORDS = ROWS * COLUMNS };

enum {
    KERNEL_WRITE, /* tensor, place: writes 7 at this distance from the first element */
    KERNEL_ADD,   /* tensor, tensor, place: adds 1 at this distance in the first tensor */
    KERNEL_HOLD,  /* returns when kernel_late has returned */
    KERNEL_LATE,  /* tensor: writes its first element while kernel_hold runs */
    KERNELS
};

static struct {
    uint32_t begun;
    uint32_t ended;
} both;

static void kernel_write(int64_t *args)
{
    ((float *)pto_tensor_data(pto_arg_tensor(args, 0)))[args[1]] = 7;
}

static void kernel_add(int64_t *args)
{
    ((float *)pto_tensor_data(pto_arg_tensor(args, 0)))[args[2]] += 1;
}

static void kernel_hold(int64_t *args)
{
    (void)args;
    bump(&both.begun);
    wait_until(&both.ended, 1, true);
}

static void kernel_late(int64_t *args)
{
    wait_until(&both.begun, 1, true);
    *(float *)pto_tensor_data(pto_arg_tensor(args, 0)) += 1;
    bump(&both.ended);
}

static const struct pto_kernel kernels[KERNELS] = {
    [KERNEL_WRITE] = { "write", kernel_write, PTO_CORE_AIV },
    [KERNEL_ADD] = { "add", kernel_add, PTO_CORE_AIV },
    [KERNEL_HOLD] = { "hold", kernel_hold, PTO_CORE_AIV },
    [KERNEL_LATE] = { "late", kernel_late, PTO_CORE_AIV },
};

/* ---- orchestrations: the entry has the matrix ---- */

/* Uses the right half of a matrix, whose element [1,2] is at distance 8 + 2. */
static struct pto_tensor half_of(const struct pto_tensor *x)
{
    return pto_tensor_view(x, PTO_DIMS(ROWS, COLUMNS / 2), PTO_DIMS(0, COLUMNS / 2));
}

static void write_input(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor half = half_of(&entry->tensor[0]);

    pto_aiv(o, KERNEL_WRITE, PTO_IN(&half), PTO_INT(COLUMNS + 2));
}

static void write_between(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor half = half_of(&entry->tensor[0]);

    pto_aiv(o, KERNEL_WRITE, PTO_IN(&half), PTO_INT(5)); /* the left half's */
}

static void write_intermediate(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(WORDS), 1, PTO_FLOAT32);
    struct pto_outputs made = pto_aiv(o, KERNEL_WRITE, PTO_OUT(&info), PTO_INT(3));

    (void)entry;
    pto_aiv(o, KERNEL_ADD, PTO_IN(pto_output(made, 0)), PTO_IN(pto_output(made, 0)), PTO_INT(3));
}

/* The same memory is an input and an output. */
static void write_twin(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor half = half_of(&entry->tensor[0]);

    pto_aiv(o, KERNEL_ADD, PTO_IN(&half), PTO_INOUT(&entry->tensor[0]), PTO_INT(2));
    pto_aiv(o, KERNEL_ADD, PTO_IN(&half), PTO_AFTER(&half), PTO_INT(2));
}

static void write_unordered(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor later = entry->tensor[0];

    later.manual_dep = true;
    pto_aiv(o, KERNEL_ADD, PTO_IN(&later), PTO_IN(&later), PTO_INT(2));
}

static void write_at_once(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_HOLD, PTO_IN(&entry->tensor[0]));
    pto_aiv(o, KERNEL_LATE, PTO_AFTER(&entry->tensor[0]));
}

/* ---- runs ---- */

static struct pto_run_report report;

static int run_inputs(pto_orch_fn orchestration, bool is_ours, struct pto_run_options options)
{
    struct pto_device *device = open_device(NULL, 2, 2);
    struct pto_callable *callable = make_callable(kernels, KERNELS, orchestration);
    float own[WORDS] = { 0 };
    struct pto_tensor x;
    struct pto_entry entry = { .tensor_count = 1, .tensor = &x };
    uint64_t memory = 0;
    int status;

    both.begun = both.ended = 0;
    assert_int_equal(pto_mem_alloc(device, sizeof(own), &memory), PTO_OK);
    assert_int_equal(pto_mem_write(device, memory, own, sizeof(own)), PTO_OK);
    x = pto_tensor_external(is_ours ? (void *)own : (void *)(uintptr_t)memory,
                            PTO_DIMS(ROWS, COLUMNS), 2, PTO_FLOAT32);
    pto_run_report_init(&report);
    status = pto_run(device, callable, &entry, &options, &report);
    assert_int_equal(pto_mem_free(device, memory, NULL), PTO_OK);
    pto_callable_destroy(callable);
    pto_device_close(device);
    return status;
}

static int run(pto_orch_fn orchestration, enum pto_mode mode)
{
    struct pto_run_options options;

    pto_run_options_init(&options);
    options.has_guards = true;
    options.mode = mode;
    return run_inputs(orchestration, false, options);
}

static void a_kernel_that_writes_an_input_is_named(void **state)
{
    (void)state;
    for (enum pto_mode mode = 0; mode < PTO_MODE_COUNT; mode++) {
        assert_int_equal(run(write_input, mode), PTO_EACCESS);
        assert_in(report.error.text,
                  "kernel \"write\" wrote element [1,2] of argument 0 of task 0, "
                  "float32[4,4] with strides [8,1], which is an input; pass it "
                  "as PTO_INOUT or PTO_WRITE; --accesses shows the line");
        assert_int_equal(report.error.argument, 0);
        assert_int_equal(run(write_intermediate, mode), PTO_EACCESS);
        assert_in(report.error.text, "kernel \"add\" wrote element [3] of argument 0 of task 1");
    }
}

static void what_others_may_write_is_not_blamed(void **state)
{
    (void)state;
    for (enum pto_mode mode = 0; mode < PTO_MODE_COUNT; mode++) {
        assert_int_equal(run(write_between, mode), PTO_OK); /* another task's memory */
        assert_int_equal(run(write_twin, mode), PTO_OK);
        assert_int_equal(run(write_unordered, mode), PTO_OK);
        assert_int_equal(run(write_at_once, mode), PTO_OK);
    }
}

static void other_runs_do_not_check_inputs(void **state)
{
    struct pto_run_options options;

    (void)state;
    pto_run_options_init(&options);
    assert_int_equal(run_inputs(write_input, false, options), PTO_OK);
    options.has_guards = true;
    assert_int_equal(run_inputs(write_input, true, options), PTO_OK); /* the program's memory */
    options.deps = PTO_DEPS_SIMPLER;
    assert_int_equal(run_inputs(write_input, false, options), PTO_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_that_writes_an_input_is_named),
        cmocka_unit_test(what_others_may_write_is_not_blamed),
        cmocka_unit_test(other_runs_do_not_check_inputs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

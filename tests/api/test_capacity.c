/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain - asan: a million tasks in shadowed memory */
/*
 * Large graphs: nothing in a graph has a length that a program must know in advance. A million
 * tasks in a scope, ten thousand predecessors, a hundred thousand ready tasks, a hundred thousand
 * regions of one buffer; each is checked by its results.
 */
#include "tests/fixture/fixture.h"

enum {
    MILLION = 1000000,
    MANY = 100000,
    PREDECESSORS = 10000,
    GRID = 320, /* number of tiles in each dimension, so 102400 tiles */
    TILE = 2,
};

enum {
    KERNEL_COUNT,       /* only counts its calls */
    KERNEL_STORE,       /* tensor 0 = scalar */
    KERNEL_STORE_INPUT, /* tensor 1 = tensor 0 + scalar */
    KERNEL_ADD,         /* tensor 0 += scalar */
    KERNEL_SUM,         /* sums the elements of tensor 0 */
    KERNEL_ADDRESS,     /* stores the address of tensor 0 in element `scalar` */
    KERNELS
};

static uint32_t counted;
static uint64_t summed;
static uint64_t *addresses;

static void kernel_count(int64_t *args)
{
    (void)args;
    __atomic_fetch_add(&counted, 1, __ATOMIC_RELAXED);
}

/* Of any strides. */
static uint32_t *element(const struct pto_tensor *t, uint64_t index)
{
    uint32_t *at = pto_tensor_data(t);

    for (uint32_t d = t->ndims; d-- > 0;) {
        at += index % t->shapes[d] * t->strides[d];
        index /= t->shapes[d];
    }
    return at;
}

static void kernel_store(int64_t *args)
{
    const struct pto_tensor *t = pto_arg_tensor(args, 0);
    uint64_t count = pto_tensor_numel(t);

    for (uint64_t i = 0; i < count; i++)
        *element(t, i) = (uint32_t)args[1];
}

static void kernel_store_input(int64_t *args)
{
    *element(pto_arg_tensor(args, 1), 0) = *element(pto_arg_tensor(args, 0), 0) + (uint32_t)args[2];
}

static void kernel_add(int64_t *args)
{
    *element(pto_arg_tensor(args, 0), 0) += (uint32_t)args[1];
}

static void kernel_sum(int64_t *args)
{
    const struct pto_tensor *t = pto_arg_tensor(args, 0);
    uint64_t count = pto_tensor_numel(t);
    uint64_t sum = 0;

    for (uint64_t i = 0; i < count; i++)
        sum += *element(t, i);
    summed = sum; /* read after the run */
}

static void kernel_address(int64_t *args)
{
    const struct pto_tensor *t = pto_arg_tensor(args, 0);

    *element(t, 0) = (uint32_t)args[1];
    addresses[args[1]] = t->addr;
}

static const struct pto_kernel kernels[KERNELS] = {
    [KERNEL_COUNT] = { "count", kernel_count, PTO_CORE_AIV },
    [KERNEL_STORE] = { "store", kernel_store, PTO_CORE_AIV },
    [KERNEL_STORE_INPUT] = { "store_input", kernel_store_input, PTO_CORE_AIV },
    [KERNEL_ADD] = { "add", kernel_add, PTO_CORE_AIV },
    [KERNEL_SUM] = { "sum", kernel_sum, PTO_CORE_AIV },
    [KERNEL_ADDRESS] = { "address", kernel_address, PTO_CORE_AIV },
};

/* Runs on a separate device; the entry is one tensor of 32-bit words. */
static struct pto_run_report run(pto_orch_fn orchestration, enum pto_mode mode, uint32_t workers,
                                 const struct pto_tensor *tensor)
{
    const struct pto_entry entry = { .tensor_count = tensor != NULL, .tensor = tensor };
    struct pto_device_params device_params;
    struct pto_callable_params params;
    struct pto_run_options options;
    struct pto_run_report report;
    struct pto_device *device = NULL;
    struct pto_callable *callable = NULL;

    pto_device_params_init(&device_params);
    device_params.workers = workers;
    assert_int_equal(pto_device_open(&device_params, &device), PTO_OK);
    pto_callable_params_init(&params);
    params.orchestration = orchestration;
    params.kernels = kernels;
    params.kernel_count = KERNELS;
    assert_int_equal(pto_callable_create(&params, &callable), PTO_OK);
    pto_run_options_init(&options);
    pto_run_report_init(&report);
    options.mode = mode;
    counted = 0;
    summed = 0;
    if (pto_run(device, callable, &entry, &options, &report) < 0)
        fail_msg("%s", report.error.text);
    pto_callable_destroy(callable);
    pto_device_close(device);
    return report;
}

/* Allocates words, which the caller frees through the tensor's address. */
static struct pto_tensor words(uint32_t rows, uint32_t columns)
{
    const uint32_t shape[] = { rows, columns };
    uint32_t *memory = calloc((size_t)rows * columns, sizeof(*memory));

    assert_non_null(memory);
    return pto_tensor_external(memory, rows == 1 ? shape + 1 : shape, rows == 1 ? 1 : 2,
                               PTO_UINT32);
}

static void free_words(const struct pto_tensor *t)
{
    free((void *)(uintptr_t)t->addr);
}

static struct pto_tensor word_at(const struct pto_tensor *t, uint32_t index)
{
    return pto_tensor_view(t, (uint32_t[]){ 1 }, (uint32_t[]){ index });
}

static void submit_on(struct pto_orch *o, int32_t kernel, const struct pto_tensor *t,
                      enum pto_tag tag, uint64_t scalar)
{
    struct pto_args args;

    pto_args_init(&args);
    pto_args_add(&args, t, tag);
    pto_add_scalar(&args, scalar);
    pto_submit_aiv(o, kernel, &args);
}

/* ---- tasks ---- */

static void orchestrate_a_million(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_args args;

    (void)entry;
    pto_args_init(&args);
    PTO_SCOPE(o) {
        for (uint32_t i = 0; i < MILLION; i++)
            pto_submit_aiv(o, KERNEL_COUNT, &args);
    }
}

static void a_scope_holds_a_million_tasks(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++)
        for (int mode = PTO_MODE_STREAM; mode <= PTO_MODE_HOST; mode++) {
            struct pto_run_report report =
                run(orchestrate_a_million, (enum pto_mode)mode, workers, NULL);

            assert_int_equal(counted, MILLION);
            assert_int_equal(report.tasks, MILLION);
            assert_int_equal(report.executions, MILLION);
            assert_int_equal(report.edges, 0);
        }
}

static void orchestrate_a_long_chain(struct pto_orch *o, const struct pto_entry *entry)
{
    PTO_SCOPE(o) {
        for (uint32_t i = 0; i < MILLION; i++)
            submit_on(o, KERNEL_ADD, &entry->tensor[0], PTO_TAG_INOUT, i % 8);
    }
}

static void a_chain_may_have_a_million_links(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++)
        for (int mode = PTO_MODE_STREAM; mode <= PTO_MODE_HOST; mode++) {
            struct pto_tensor t = words(1, 1);
            struct pto_run_report report =
                run(orchestrate_a_long_chain, (enum pto_mode)mode, workers, &t);

            assert_int_equal(*element(&t, 0), MILLION / 8 * 28);
            assert_int_equal(report.executions, MILLION);
            if (mode == PTO_MODE_HOST)
                assert_int_equal(report.edges, MILLION - 1);
            free_words(&t);
        }
}

static void orchestrate_ready_tasks(struct pto_orch *o, const struct pto_entry *entry)
{
    for (uint32_t i = 0; i < MANY; i++) {
        struct pto_tensor t = word_at(&entry->tensor[0], i);

        submit_on(o, KERNEL_STORE, &t, PTO_TAG_OUTPUT_EXISTING, i);
    }
}

static void a_hundred_thousand_tasks_are_ready_at_once(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 4; workers *= 2) {
        struct pto_tensor t = words(1, MANY);
        struct pto_run_report report = run(orchestrate_ready_tasks, PTO_MODE_HOST, workers, &t);

        assert_int_equal(report.executions, MANY);
        assert_int_equal(report.edges, 0);
        for (uint32_t i = 0; i < MANY; i++)
            assert_true(*element(&t, i) == i);
        free_words(&t);
    }
}

/* ---- predecessors ---- */

static void orchestrate_explicit_predecessors(struct pto_orch *o, const struct pto_entry *entry)
{
    static struct pto_task_id deps[PREDECESSORS];
    struct pto_args args;

    for (uint32_t i = 0; i < PREDECESSORS; i++) {
        struct pto_tensor t = word_at(&entry->tensor[0], i);

        pto_args_init(&args);
        pto_add_no_dep(&args, &t);
        pto_add_scalar(&args, 1);
        deps[i] = pto_submit_aiv(o, KERNEL_STORE, &args).task;
    }
    pto_args_init(&args);
    pto_add_no_dep(&args, &entry->tensor[0]);
    pto_set_deps(&args, deps, NULL, PREDECESSORS);
    pto_submit_aiv(o, KERNEL_SUM, &args);
}

static void orchestrate_predecessors_by_tensor(struct pto_orch *o, const struct pto_entry *entry)
{
    for (uint32_t i = 0; i < PREDECESSORS; i++) {
        struct pto_tensor t = word_at(&entry->tensor[0], i);

        submit_on(o, KERNEL_STORE, &t, PTO_TAG_OUTPUT_EXISTING, 1);
    }
    submit_on(o, KERNEL_SUM, &entry->tensor[0], PTO_TAG_INPUT, 0);
}

/* Submits readers of a word, then a writer of it, then a reader of what was written. */
static void orchestrate_predecessors_that_read(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor word = word_at(&entry->tensor[0], PREDECESSORS - 1);

    for (uint32_t i = 0; i < PREDECESSORS - 1; i++) {
        struct pto_tensor t = word_at(&entry->tensor[0], i);
        struct pto_args args;

        pto_args_init(&args);
        pto_add_input(&args, &word);
        pto_add_output_existing(&args, &t);
        pto_add_scalar(&args, 1);
        pto_submit_aiv(o, KERNEL_STORE_INPUT, &args); /* 0 + 1: this reader ran before the writer */
    }
    submit_on(o, KERNEL_ADD, &word, PTO_TAG_INOUT, 1);
    submit_on(o, KERNEL_SUM, &entry->tensor[0], PTO_TAG_INPUT, 0);
}

static void a_task_may_have_ten_thousand_predecessors(void **state)
{
    const pto_orch_fn orchestrations[] = { orchestrate_explicit_predecessors,
                                           orchestrate_predecessors_by_tensor,
                                           orchestrate_predecessors_that_read };

    (void)state;
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t workers = 1; workers <= 4; workers *= 2)
            for (int mode = PTO_MODE_STREAM; mode <= PTO_MODE_HOST; mode++) {
                struct pto_tensor t = words(1, PREDECESSORS);
                struct pto_run_report report =
                    run(orchestrations[k], (enum pto_mode)mode, workers, &t);

                assert_int_equal(summed, PREDECESSORS);
                assert_true(mode != PTO_MODE_HOST || report.edges >= PREDECESSORS);
                free_words(&t);
            }
}

/* ---- regions ---- */

static void orchestrate_tiles(struct pto_orch *o, const struct pto_entry *entry)
{
    orchestrate_ready_tasks(o, entry);
    submit_on(o, KERNEL_SUM, &entry->tensor[0], PTO_TAG_INPUT, 0);
}

static void a_buffer_has_a_hundred_thousand_contiguous_tiles(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        struct pto_tensor t = words(1, MANY);
        struct pto_run_report report = run(orchestrate_tiles, PTO_MODE_HOST, workers, &t);

        assert_int_equal(report.edges, MANY);
        assert_true(summed == (uint64_t)MANY * (MANY - 1) / 2);
        free_words(&t);
    }
}

/* Writes each tile twice, so that the second writer has to find its predecessor among all tiles. */
static void orchestrate_matrix_tiles(struct pto_orch *o, const struct pto_entry *entry)
{
    const uint32_t shape[] = { TILE, TILE };

    for (uint32_t round = 0; round < 2; round++)
        for (uint32_t y = 0; y < GRID; y++)
            for (uint32_t x = 0; x < GRID; x++) {
                const uint32_t offset[] = { y * TILE, x * TILE };
                struct pto_tensor t = pto_tensor_view(&entry->tensor[0], shape, offset);

                submit_on(o, KERNEL_STORE, &t, PTO_TAG_OUTPUT_EXISTING,
                          round == 0 ? 12345 : y * GRID + x);
            }
    submit_on(o, KERNEL_SUM, &entry->tensor[0], PTO_TAG_INPUT, 0);
}

static void a_matrix_has_a_hundred_thousand_tiles(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        struct pto_tensor t = words(GRID * TILE, GRID * TILE);
        struct pto_run_report report = run(orchestrate_matrix_tiles, PTO_MODE_HOST, workers, &t);
        uint64_t tiles = GRID * GRID;

        assert_int_equal(report.executions, 2 * tiles + 1);
        assert_int_equal(report.edges, 2 * tiles);
        assert_true(summed == TILE * TILE * (tiles * (tiles - 1) / 2));
        free_words(&t);
    }
}

/* ---- scopes and outputs ---- */

/*
 * Creates an output in each of 64 nested scopes, computed from the output of the enclosing scope.
 */
static void orchestrate_nested_scopes(struct pto_orch *o, const struct pto_entry *entry)
{
    const uint32_t one = 1;
    const struct pto_tensor_info info = pto_tensor_info_make(&one, 1, PTO_UINT32);
    const struct pto_tensor *last = &entry->tensor[0];
    struct pto_args args;

    for (uint32_t i = 0; i < PTO_SCOPE_DEPTH_MAX; i++) {
        pto_scope_begin(o, PTO_SCOPE_AUTO);
        pto_args_init(&args);
        pto_add_input(&args, last);
        pto_add_output(&args, &info);
        pto_add_scalar(&args, i);
        last = pto_submit_aiv(o, KERNEL_STORE_INPUT, &args).tensor;
    }
    submit_on(o, KERNEL_SUM, last, PTO_TAG_INPUT, 0);
    for (uint32_t i = 0; i < PTO_SCOPE_DEPTH_MAX; i++)
        pto_scope_end(o);
}

static void scopes_nest_to_their_limit(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++)
        for (int mode = PTO_MODE_STREAM; mode <= PTO_MODE_HOST; mode++) {
            struct pto_tensor t = words(1, 1);

            *element(&t, 0) = 1000;
            run(orchestrate_nested_scopes, (enum pto_mode)mode, workers, &t);
            assert_int_equal(summed, 1000 + PTO_SCOPE_DEPTH_MAX * (PTO_SCOPE_DEPTH_MAX - 1) / 2);
            free_words(&t);
        }
}

/* Creates an output, which a second task adds to a word of the entry. */
static void submit_output(struct pto_orch *o, const struct pto_entry *entry, uint32_t index)
{
    const uint32_t one = 1;
    const struct pto_tensor_info info = pto_tensor_info_make(&one, 1, PTO_UINT32);
    struct pto_tensor word = word_at(&entry->tensor[0], index);
    struct pto_outputs out;
    struct pto_args args;

    pto_args_init(&args);
    pto_add_output(&args, &info);
    pto_add_scalar(&args, index);
    out = pto_submit_aiv(o, KERNEL_ADDRESS, &args);
    if (out.count == 0)
        return; /* the run fails with a message */
    pto_args_init(&args);
    pto_add_input(&args, out.tensor);
    pto_add_output_existing(&args, &word);
    pto_add_scalar(&args, 1);
    pto_submit_aiv(o, KERNEL_STORE_INPUT, &args);
}

static void orchestrate_outputs_in_one_scope(struct pto_orch *o, const struct pto_entry *entry)
{
    PTO_SCOPE(o) {
        for (uint32_t i = 0; i < MANY; i++)
            submit_output(o, entry, i);
    }
}

static void orchestrate_outputs_in_scopes(struct pto_orch *o, const struct pto_entry *entry)
{
    for (uint32_t i = 0; i < MANY; i++)
        PTO_SCOPE(o) {
            submit_output(o, entry, i);
        }
}

static int compare_addresses(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Counts how many different addresses the outputs had. */
static uint32_t run_outputs(pto_orch_fn orchestration, enum pto_mode mode, uint32_t workers)
{
    struct pto_tensor t = words(1, MANY);
    uint32_t distinct = 1;

    addresses = calloc(MANY, sizeof(*addresses));
    assert_non_null(addresses);
    run(orchestration, mode, workers, &t);
    for (uint32_t i = 0; i < MANY; i++)
        assert_true(*element(&t, i) == i + 1);
    qsort(addresses, MANY, sizeof(*addresses), compare_addresses);
    assert_true(addresses[0] != 0);
    for (uint32_t i = 1; i < MANY; i++)
        distinct += addresses[i] != addresses[i - 1];
    free(addresses);
    free_words(&t);
    return distinct;
}

static void outputs_of_one_scope_have_memory_of_their_own(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++)
        for (int mode = PTO_MODE_STREAM; mode <= PTO_MODE_HOST; mode++)
            assert_int_equal(
                run_outputs(orchestrate_outputs_in_one_scope, (enum pto_mode)mode, workers), MANY);
}

static void outputs_of_ended_scopes_use_memory_again(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 4; workers *= 2) {
        assert_in_range(run_outputs(orchestrate_outputs_in_scopes, PTO_MODE_STREAM, workers), 1,
                        MANY / 8);
        assert_int_equal(run_outputs(orchestrate_outputs_in_scopes, PTO_MODE_HOST, workers), MANY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scope_holds_a_million_tasks),
        cmocka_unit_test(a_chain_may_have_a_million_links),
        cmocka_unit_test(a_hundred_thousand_tasks_are_ready_at_once),
        cmocka_unit_test(a_task_may_have_ten_thousand_predecessors),
        cmocka_unit_test(a_buffer_has_a_hundred_thousand_contiguous_tiles),
        cmocka_unit_test(a_matrix_has_a_hundred_thousand_tiles),
        cmocka_unit_test(scopes_nest_to_their_limit),
        cmocka_unit_test(outputs_of_one_scope_have_memory_of_their_own),
        cmocka_unit_test(outputs_of_ended_scopes_use_memory_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

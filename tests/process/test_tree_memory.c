/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of level-3 workers: copies, as tasks and outside of runs, which are done by the child that
 * owns the memory; and detection of accesses to memory that belongs to another child.
 */
#include <signal.h>

#include "tests/fixture/tree_test.h"

static struct bytes add_artefact, chip_object;

/* Writes after the end of its tensor, as many numbers as the scalar says. */
static const char chip_text[] =
    "#include <pto/pto.h>\n"
    "static void overrun(int64_t *args)\n"
    "{\n"
    "    struct pto_tensor *x = pto_arg_tensor(args, 0);\n"
    "    int *at = pto_tensor_data(x);\n"
    "    for (int64_t i = 0; i < (int64_t)x->shapes[0] + args[1]; i++) at[i] = 7;\n"
    "}\n"
    "static void orchestrate(struct pto_orch *o, const struct pto_entry *e)\n"
    "{ pto_aiv(o, 0, PTO_INOUT(&e->tensor[0]), PTO_INT(e->scalar[0])); }\n"
    "static const struct pto_kernel kernels[] = { { \"overrun\", overrun, PTO_CORE_AIV } };\n"
    "struct pto_callable_params overruns = { .size = sizeof(overruns), .name = \"overruns\",\n"
    "    .orchestration = orchestrate, .kernels = kernels, .kernel_count = 1 };\n";

static int *make_on(uint32_t chip)
{
    void *memory = NULL;

    assert_int_equal(pto_worker_alloc_on(worker, chip, COUNT * sizeof(int), &memory), PTO_OK);
    return memory;
}

static void put(int *to, const int *from)
{
    struct pto_error error;

    pto_error_init(&error);
    if (pto_worker_copy_to(worker, to, from, COUNT * sizeof(int), 0, &error) < 0)
        fail_msg("%s", error.text);
}

static void expect(const int *from, const int *expected)
{
    struct pto_error error;
    int found[COUNT];

    pto_error_init(&error);
    memset(found, 0xee, sizeof(found));
    if (pto_worker_copy_from(worker, found, from, sizeof(found), 0, &error) < 0)
        fail_msg("%s", error.text);
    assert_memory_equal(found, expected, sizeof(found));
}

/* ---- copies ---- */

struct relay {
    uint64_t mix;
    int *mine[2], *shared;
    int rounds;
};

/*
 * Copies from chip 0 to shared memory, where a task changes the data, to chip 1, and back to chip
 * 0; each step waits for the one before.
 */
static void submit_relay(struct pto_level *level, void *context)
{
    const struct relay *x = context;
    struct pto_tensor mine[2] = { numbers(x->mine[0]), numbers(x->mine[1]) };
    struct pto_tensor shared = numbers(x->shared);

    for (int i = 0; i < x->rounds; i++) {
        struct pto_args args;

        assert_true(pto_task_id_is_valid(pto_level_copy(level, &shared, &mine[0])));
        pto_args_init(&args);
        pto_add_inout(&args, &shared);
        pto_add_scalar(&args, (uint64_t)i);
        (void)pto_level_submit(level, x->mix, 0, &args);
        (void)pto_level_copy(level, &mine[1], &shared);
        (void)pto_level_copy(level, &mine[0], &mine[1]);
    }
}

static void copies_are_ordered_as_tasks_are(void **state)
{
    struct relay x = { .rounds = 200 };
    int values[COUNT];

    (void)state;
    open_worker(2, 1);
    x.mix = register_sub("mix");
    x.mine[0] = make_on(0);
    x.mine[1] = make_on(1);
    x.shared = make_numbers();
    for (int i = 0; i < COUNT; i++)
        values[i] = i * i;
    put(x.mine[0], values);
    run_well(submit_relay, &x);
    assert_int_equal(run_report.tasks, x.rounds * 5); /* the last of a round are two */
    for (int i = 0; i < x.rounds; i++)
        for (int k = 0; k < COUNT; k++)
            values[k] = (int)(3u * (unsigned)values[k] + (unsigned)i);
    expect(x.mine[0], values);
    expect(x.mine[1], values);
    expect(x.shared, values);
    close_worker();
}

static void transpose(struct pto_level *level, void *context)
{
    const struct relay *x = context;
    const uint32_t shape[] = { 4, 4 }, half[] = { 2, 3 }, at[] = { 1, 1 }, zero[] = { 0, 0 };
    struct pto_tensor from = pto_tensor_external(x->mine[0], shape, 2, PTO_INT32);
    struct pto_tensor to = pto_tensor_external(x->shared, shape, 2, PTO_INT32);
    struct pto_tensor turned = pto_tensor_transpose(&from, 0, 1);
    struct pto_tensor part = pto_tensor_view(&turned, half, at), corner;

    corner = pto_tensor_view(&to, half, zero);
    (void)pto_level_copy(level, &corner, &part);
}

static void views_are_copied_element_by_element(void **state)
{
    struct relay x = { 0 };
    int values[COUNT], expected[COUNT] = { 0 };

    (void)state;
    open_worker(1, 0);
    x.mine[0] = make_on(0);
    x.shared = make_numbers();
    for (int i = 0; i < COUNT; i++)
        values[i] = 100 + i;
    put(x.mine[0], values);
    run_well(transpose, &x);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++)
            expected[4 * i + k] = values[4 * (k + 1) + i + 1];
    expect(x.shared, expected);
    close_worker();
}

static void large_copies_go_in_pieces(void **state)
{
    const size_t count = (IS_SANITIZED ? 1u << 20 : 20u << 20) + 3;
    int *values = malloc(count * sizeof(int)), *found = calloc(count, sizeof(int));
    void *memory;

    (void)state;
    assert_true(values != NULL && found != NULL);
    open_worker(1, 0);
    for (size_t i = 0; i < count; i++)
        values[i] = (int)(i * 2654435761u);
    assert_int_equal(pto_worker_alloc_on(worker, 0, count * sizeof(int), &memory), PTO_OK);
    assert_int_equal(pto_worker_copy_to(worker, memory, values, count * sizeof(int), 0, NULL), 0);
    assert_int_equal(pto_worker_copy_from(worker, found, memory, count * sizeof(int), 0, NULL), 0);
    assert_memory_equal(values, found, count * sizeof(int));
    close_worker();
    free(values);
    free(found);
}

static void a_copy_waits_for_what_uses_the_memory(void **state)
{
    struct one held = { .count = 1 };
    struct pto_worker_run *handle;
    struct pto_error error;
    int values[COUNT] = { 0 }, found[COUNT];
    int *word;

    (void)state;
    open_worker(1, 1);
    pto_error_init(&error);
    word = make_numbers();
    held.callable = register_sub("hold");
    held.tensor[0] = numbers(word);
    assert_int_equal(pto_worker_launch(worker, submit_one, &held, &handle), PTO_OK);
    wait_word(word + 1, 1);
    assert_int_equal(pto_worker_copy_to(worker, word, values, sizeof(values), 10 * MS, &error),
                     PTO_ETIMEOUT);
    assert_int_equal(pto_worker_copy_from(worker, found, word, sizeof(found), 10 * MS, &error),
                     PTO_ETIMEOUT);
    assert_int_equal(word[1], 1); /* it was not overwritten */
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    assert_int_equal(pto_worker_run_wait(handle, 0), PTO_OK);
    assert_int_equal(pto_worker_run_finish(handle, NULL), PTO_OK);
    assert_int_equal(pto_worker_copy_from(worker, found, word, sizeof(found), 0, &error), PTO_OK);
    assert_int_equal(found[1], 1);
    assert_int_equal(pto_worker_free(worker, word, &error), PTO_OK); /* nothing uses it */
    close_worker();
}

/* An orchestration that takes some time. */
static void linger(struct pto_level *level, void *context)
{
    (void)level;
    wait_word(context, 1);
}

static void *run_lingering(void *context)
{
    EXPECT(pto_worker_run(worker, linger, context, NULL) == PTO_OK);
    return NULL;
}

static void a_copy_waits_for_its_turn_no_longer_than_told(void **state)
{
    struct pto_error error;
    int found[COUNT];
    pthread_t thread;
    int word = 0, status;
    int *shared;

    (void)state;
    open_worker(0, 1);
    pto_error_init(&error);
    shared = make_numbers();
    for (int i = 0; i < 50; i++) { /* it begins at any moment during the copy */
        __atomic_store_n(&word, 0, __ATOMIC_RELEASE);
        assert_int_equal(pthread_create(&thread, NULL, run_lingering, &word), 0);
        do /* until it has begun */
            status = pto_worker_copy_from(worker, found, shared, sizeof(found), MS, &error);
        while (status == PTO_OK);
        assert_int_equal(status, PTO_ETIMEOUT);
        __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
        pthread_join(thread, NULL);
        assert_nothing_unexpected();
    }
    assert_int_equal(pto_worker_copy_from(worker, found, shared, sizeof(found), 0, &error), PTO_OK);
    close_worker();
}

static void copies_that_never_end_do_not_hold_back_the_end(void **state)
{
    struct pto_child_info info;
    int found[COUNT];
    int *mine;

    (void)state;
    open_worker(1, 0);
    mine = make_on(0);
    pto_child_info_init(&info);
    assert_int_equal(pto_worker_child(worker, 0, &info), PTO_OK);
    assert_int_equal(kill(info.pid, SIGSTOP), 0);
    assert_int_equal(pto_worker_copy_from(worker, found, mine, sizeof(found), 10 * MS, NULL),
                     PTO_ETIMEOUT);
    assert_int_equal(kill(info.pid, SIGKILL), 0);
    close_worker();
}

static void *copy_to_stopped(void *context)
{
    const int values[COUNT] = { 7 };

    EXPECT(pto_worker_copy_to(worker, context, values, sizeof(values), 60000 * MS, NULL) == PTO_OK);
    return NULL;
}

static void a_copy_that_hangs_delays_no_copy_to_another_chip(void **state)
{
    int values[COUNT] = { 8 };
    uint64_t end = now_ns() + 60000 * MS;
    int *mine, *other;
    pthread_t thread;

    (void)state;
    open_worker(2, 0);
    mine = make_on(0);
    other = make_on(1);
    assert_int_equal(kill(child(0).pid, SIGSTOP), 0);
    assert_int_equal(pthread_create(&thread, NULL, copy_to_stopped, mine), 0);
    while (child(0).in_flight == 0 && now_ns() < end)
        nap_ns(MS / 10);
    put(other, values);
    expect(other, values);
    assert_int_equal(child(0).in_flight, 1); /* the kernel hangs during all of this */
    assert_int_equal(kill(child(0).pid, SIGCONT), 0);
    pthread_join(thread, NULL);
    assert_nothing_unexpected();
    values[0] = 7;
    expect(mine, values);
    close_worker();
}

struct refused {
    struct pto_tensor to, from;
    bool is_direct; /* a call that is not for orchestrations */
};

static void copy_refused(struct pto_level *level, void *context)
{
    struct refused *x = context;
    struct pto_error error;
    int value = 0;

    pto_error_init(&error);
    if (x->is_direct) {
        assert_int_equal(
            pto_worker_copy_to(worker, pto_tensor_data(&x->to), &value, sizeof(value), 0, &error),
            PTO_EBUSY);
        assert_non_null(strstr(error.text, "pto_level_copy"));
    } else {
        assert_false(pto_task_id_is_valid(pto_level_copy(level, &x->to, &x->from)));
    }
}

static void copies_that_cannot_be_are_told(void **state)
{
    const uint32_t shape[] = { COUNT / 2 };
    struct refused x = { 0 };
    struct pto_error error;
    int values[COUNT] = { 0 };
    int *mine, *shared, *gone;

    (void)state;
    open_worker(1, 1);
    pto_error_init(&error);
    mine = make_on(0);
    shared = make_numbers();
    gone = make_on(0);
    assert_int_equal(pto_worker_copy_to(worker, mine + 1, values, sizeof(values), 0, &error),
                     PTO_EMEMORY);
    assert_non_null(strstr(error.text, "has only 60"));
    assert_int_equal(pto_worker_copy_from(worker, values, values, sizeof(values), 0, &error),
                     PTO_EMEMORY);
    assert_non_null(strstr(error.text, "not memory of the worker"));
    assert_int_equal(pto_worker_copy_to(worker, NULL, values, sizeof(values), 0, &error),
                     PTO_EINVAL);
    assert_int_equal(pto_worker_copy_to(worker, mine, values, 0, 0, &error), PTO_OK);
    assert_int_equal(pto_worker_free(worker, gone, &error), PTO_OK);
    assert_int_equal(pto_worker_copy_to(worker, gone, values, sizeof(values), 0, &error),
                     PTO_EMEMORY);
    assert_non_null(strstr(error.text, "freed before"));
    x.to = numbers(mine);
    x.from = pto_tensor_external(shared, shape, 1, PTO_INT32);
    assert_int_equal(run(copy_refused, &x), PTO_EINVAL);
    assert_non_null(strstr(run_report.error.text, "shapes have to be the same"));
    x.from = numbers(gone);
    assert_int_equal(run(copy_refused, &x), PTO_EMEMORY);
    assert_non_null(strstr(run_report.error.text, "argument 1: "));
    assert_non_null(strstr(run_report.error.text, "freed before"));
    x.is_direct = true;
    run_well(copy_refused, &x);
    close_worker();
}

/* ---- guards ---- */

static struct pto_worker *open_guarded(void)
{
    struct pto_worker_params params;
    struct pto_worker *opened;

    pto_worker_params_init(&params);
    params.platform = "a2a3sim";
    params.chip_count = 2;
    params.memory_max = 1ull << 28;
    params.has_guards = true;
    assert_int_equal(pto_worker_open(&params, &opened), PTO_OK);
    return opened;
}

static void memory_of_others_is_refused(void **state)
{
    struct one one = { .count = 3 };
    struct pto_error error;
    struct pto_worker *other;
    int *mine, *gone;
    void *foreign;

    (void)state;
    open_worker(2, 0);
    other = open_guarded();
    pto_error_init(&error);
    one.callable = register_bytes(add_artefact, PTO_CHILD_CHIP, NULL);
    mine = make_on(0);
    one.tensor[0] = one.tensor[1] = numbers(make_on(0));
    one.tensor[2] = numbers(mine);
    run_well(submit_one, &one);
    assert_int_equal(pto_worker_free(worker, mine + 2, &error), PTO_EMEMORY);
    assert_non_null(strstr(error.text, "is inside an allocation, 8 bytes"));
    one.children = PTO_ON(1);
    assert_int_equal(run(submit_one, &one), PTO_EMEMORY);
    assert_non_null(strstr(run_report.error.text, "is memory of chip 0"));
    one.children = 0;
    assert_int_equal(pto_worker_alloc_on(other, 0, COUNT * sizeof(int), &foreign), PTO_OK);
    assert_int_equal(pto_worker_free(worker, foreign, &error), PTO_EMEMORY);
    assert_non_null(strstr(error.text, "not memory of the worker"));
    one.tensor[0] = numbers(foreign);
    assert_int_equal(run(submit_one, &one), PTO_EMEMORY);
    assert_non_null(strstr(run_report.error.text, "not memory of the worker"));
    gone = make_on(0);
    assert_int_equal(pto_worker_free(worker, gone, &error), PTO_OK);
    assert_int_equal(pto_worker_free(worker, gone, &error), PTO_EMEMORY);
    assert_non_null(strstr(error.text, "was freed before"));
    one.tensor[0] = numbers(gone);
    assert_int_equal(run(submit_one, &one), PTO_EMEMORY);
    assert_non_null(strstr(run_report.error.text, "was freed before"));
    assert_int_equal(pto_worker_close(other), PTO_OK);
    close_worker();
}

static void memory_can_outlive_its_worker(void **state)
{
    struct pto_worker_memory *kept = NULL;
    uint64_t addr = 0, bytes = 0;
    char *memory;

    (void)state;
    open_worker(1, 1);
    memory = (char *)make_numbers();
    assert_int_equal(pto_worker_range(worker, &addr, &bytes), PTO_OK);
    assert_true((uint64_t)(uintptr_t)memory - addr < bytes);
    assert_int_equal(pto_worker_range(worker, NULL, &bytes), PTO_EINVAL);
    memory[5] = 7;
    assert_int_equal(pto_worker_close_keeping(worker, NULL), PTO_EINVAL);
    assert_int_equal(pto_worker_close_keeping(worker, &kept), PTO_OK);
    assert_int_equal(pto_worker_close(worker), PTO_EINVAL);
    assert_int_equal(memory[5], 7);
    memory[5] = 8; /* it is still registered, and belongs to this worker */
    pto_worker_memory_free(kept);
    pto_worker_memory_free(NULL);
}

/* Returns an error text for calls in an orchestration that have wrong results so far. */
static void submit_wrongly(struct pto_level *level, void *context)
{
    struct pto_error *error = context;

    assert_int_equal(pto_level_error(level, error), PTO_OK);
    (void)pto_level_fail(level, PTO_EORCH, "no more of this");
    assert_int_equal(pto_level_error(level, NULL), PTO_EINVAL);
    assert_int_equal(pto_level_error(level, error), PTO_EORCH);
}

static void an_orchestration_learns_of_its_error(void **state)
{
    struct pto_error error;

    (void)state;
    pto_error_init(&error);
    open_worker(0, 1);
    assert_int_equal(run(submit_wrongly, &error), PTO_EORCH);
    assert_string_equal(error.text, "no more of this");
    close_worker();
}

static void who_writes_too_much_is_noticed(void **state)
{
    struct one one = { .count = 1, .scalar = 1 };
    struct pto_error error;

    (void)state;
    pto_error_init(&error);
    worker = open_guarded();
    one.callable = register_bytes(chip_object, PTO_CHILD_CHIP, "overruns");
    one.tensor[0] = numbers(make_on(1));
    assert_int_equal(run(submit_one, &one), PTO_EOVERRUN);
    assert_int_equal(run_report.child, 1);
    assert_non_null(strstr(run_report.error.text, "callable 'overruns': 1 bytes were written "
                                                  "after the 64"));
    one.scalar = 0;
    run_well(submit_one, &one); /* the damage is reported once */
    assert_int_equal(pto_worker_free(worker, (void *)(uintptr_t)one.tensor[0].addr, &error), 0);
    close_worker();

    open_worker(1, 0); /* without that check, when the memory is freed */
    one.callable = register_bytes(chip_object, PTO_CHILD_CHIP, "overruns");
    one.tensor[0] = numbers(make_on(0));
    one.scalar = 2;
    run_well(submit_one, &one);
    assert_int_equal(pto_worker_free(worker, (void *)(uintptr_t)one.tensor[0].addr, &error),
                     PTO_EMEMORY);
    assert_non_null(strstr(error.text, "bytes were written"));
    assert_int_equal(pto_worker_free(worker, (void *)(uintptr_t)one.tensor[0].addr, &error),
                     PTO_EMEMORY);
    assert_non_null(strstr(error.text, "freed before"));
    close_worker();
}

static int set_up_all(void **state)
{
    if (set_up(state) != 0)
        return -1;
    chip_object = keep(compile(chip_text, ""));
    add_artefact = keep(artefact_of(ADD));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(copies_are_ordered_as_tasks_are),
        TEST(views_are_copied_element_by_element),
        TEST(large_copies_go_in_pieces),
        TEST(a_copy_waits_for_what_uses_the_memory),
        TEST(a_copy_waits_for_its_turn_no_longer_than_told),
        TEST(copies_that_never_end_do_not_hold_back_the_end),
        TEST(a_copy_that_hangs_delays_no_copy_to_another_chip),
        TEST(copies_that_cannot_be_are_told),
        TEST(memory_of_others_is_refused),
        TEST(memory_can_outlive_its_worker),
        TEST(an_orchestration_learns_of_its_error),
        TEST(who_writes_too_much_is_noticed),
    };

    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, set_up_all, tear_down);
}

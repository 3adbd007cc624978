/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * Level-3 workers: tasks on chips and SUB workers in separate processes, dependencies, groups,
 * memory, runs in flight.
 */
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/fixture/tree_test.h"

static struct bytes add_artefact, subtract_artefact;

static void an_empty_task_runs(void **state)
{
    struct one one = { 0 };

    (void)state;
    open_worker(0, 1);
    one.callable = register_sub("empty");
    for (int i = 0; i < 100; i++)
        run_well(submit_one, &one);
    assert_int_equal(run_report.tasks, 1);
    assert_int_equal(run_report.done, 1);
    close_worker();
}

/* ---- add and subtract on one chip, and a SUB worker that reduces both ---- */

struct reduce {
    uint64_t add, subtract, sum;
    uint64_t chip;
    struct pto_tensor a, b, f;
};

static void reduce(struct pto_level *level, void *context)
{
    struct reduce *r = context;
    const uint32_t shape[] = { COUNT };
    struct pto_tensor_info info = pto_tensor_info_make(shape, 1, PTO_INT32);
    struct pto_outputs half[2];
    struct pto_args args;

    for (int i = 0; i < 2; i++) {
        pto_args_init(&args);
        pto_add_input(&args, &r->a);
        pto_add_input(&args, &r->b);
        pto_add_output(&args, &info);
        half[i] = pto_level_submit(level, i == 0 ? r->add : r->subtract, r->chip, &args);
        if (half[i].count != 1)
            return;
    }
    pto_args_init(&args);
    pto_add_input(&args, half[0].tensor);
    pto_add_input(&args, half[1].tensor);
    pto_add_output_existing(&args, &r->f);
    (void)pto_level_submit(level, r->sum, 0, &args);
}

static void fill(int *to, int factor, int plus)
{
    for (int i = 0; i < COUNT; i++)
        to[i] = factor * i + plus;
}

static void register_all(struct reduce *r)
{
    r->add = register_bytes(add_artefact, PTO_CHILD_CHIP, NULL);
    r->subtract = register_bytes(subtract_artefact, PTO_CHILD_CHIP, NULL);
    r->sum = register_sub("sum");
}

static void two_callables_on_one_chip_give_2a(void **state)
{
    struct reduce r = { .chip = PTO_ON(0) };
    int *a, *b, *f;

    (void)state;
    open_worker(1, 1);
    register_all(&r);
    a = make_numbers(), b = make_numbers(), f = make_numbers();
    r.a = numbers(a), r.b = numbers(b), r.f = numbers(f);
    for (int i = 0; i < 50; i++) {
        fill(a, 7, i);
        fill(b, 3, -i);
        run_well(reduce, &r);
        for (int j = 0; j < COUNT; j++)
            assert_int_equal(f[j], 2 * a[j]);
        if (i % 10 == 9) { /* unloaded and loaded again */
            assert_int_equal(pto_worker_unregister(worker, r.add), PTO_OK);
            assert_int_equal(pto_worker_unregister(worker, r.subtract), PTO_OK);
            register_all(&r);
        }
    }
    close_worker();
}

struct alternation {
    struct reduce r[2];
    int rounds;
};

/* Add and subtract alternate on both chips; the sum of all results is checked. */
static void alternate(struct pto_level *level, void *context)
{
    struct alternation *x = context;

    for (int i = 0; i < x->rounds; i++)
        for (int j = 0; j < 2; j++)
            reduce(level, &x->r[(i + j) % 2]);
}

static void they_alternate_on_two_chips_at_once(void **state)
{
    struct alternation x = { .rounds = IS_SANITIZED ? 100 : 2500 };
    int *a, *b, *f[2];

    (void)state;
    open_worker(2, 1);
    a = make_numbers(), b = make_numbers();
    fill(a, 7, 1);
    fill(b, 3, 2);
    for (int i = 0; i < 2; i++) {
        f[i] = make_numbers();
        register_all(&x.r[i]);
        x.r[i].chip = PTO_ON(i);
        x.r[i].a = numbers(a);
        x.r[i].b = numbers(b);
        x.r[i].f = numbers(f[i]);
    }
    run_well(alternate, &x);
    assert_int_equal(run_report.done, x.rounds * 6);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < COUNT; j++)
            assert_int_equal(f[i][j], 2 * a[j]);
    close_worker();
}

/* ---- random graphs ---- */

enum { ARRAYS = 6, STEPS = 60 };

struct step {
    int from[2], to, child;
    uint32_t scalar;
};

struct random_graph {
    struct step step[STEPS];
    int *array[ARRAYS];
    uint64_t mix;
};

static void submit_random(struct pto_level *level, void *context)
{
    struct random_graph *x = context;

    for (int i = 0; i < STEPS; i++) {
        const struct step *s = &x->step[i];
        struct pto_tensor t[3] = { numbers(x->array[s->from[0]]), numbers(x->array[s->from[1]]),
                                   numbers(x->array[s->to]) };
        struct pto_args args;

        pto_args_init(&args);
        for (int j = 0; j < 2; j++)
            if (s->from[j] != s->to)
                pto_add_input(&args, &t[j]);
        pto_add_inout(&args, &t[2]);
        pto_add_scalar(&args, s->scalar);
        (void)pto_level_submit(level, x->mix, s->child < 0 ? 0 : PTO_ON(s->child), &args);
    }
}

static void replay(const struct random_graph *x, int array[ARRAYS][COUNT])
{
    for (int i = 0; i < STEPS; i++) {
        const struct step *s = &x->step[i];

        for (int k = 0; k < COUNT; k++) {
            unsigned value = 3u * (unsigned)array[s->to][k] + s->scalar;

            for (int j = 0; j < 2; j++)
                if (s->from[j] != s->to)
                    value += (unsigned)array[s->from[j]][k];
            array[s->to][k] = (int)value;
        }
    }
}

static void random_graphs_give_what_one_after_the_other_does(void **state)
{
    unsigned seed = 1;

    (void)state;
    for (uint32_t subs = 1; subs <= 3; subs++) {
        struct random_graph x;
        int expected[ARRAYS][COUNT];

        open_worker(0, subs);
        x.mix = register_sub("mix");
        for (int i = 0; i < ARRAYS; i++) {
            x.array[i] = make_numbers();
            fill(x.array[i], i, 1);
        }
        for (int round = 0; round < (IS_SANITIZED ? 5 : 60); round++) {
            for (int i = 0; i < STEPS; i++)
                x.step[i] = (struct step){ { rand_r(&seed) % ARRAYS, rand_r(&seed) % ARRAYS },
                                           rand_r(&seed) % ARRAYS,
                                           rand_r(&seed) % (int)(subs + 1) - 1,
                                           (uint32_t)rand_r(&seed) };
            for (int i = 0; i < ARRAYS; i++)
                memcpy(expected[i], x.array[i], sizeof(expected[i]));
            replay(&x, expected);
            run_well(submit_random, &x);
            for (int i = 0; i < ARRAYS; i++)
                assert_memory_equal(x.array[i], expected[i], sizeof(expected[i]));
        }
        close_worker();
    }
}

/* ---- groups ---- */

struct group {
    uint64_t callable;
    const uint32_t *children;
    uint32_t count;
    int *word;
    enum pto_tag tag;
    int rounds;
};

static void submit_group(struct pto_level *level, void *context)
{
    struct group *x = context;
    struct pto_tensor t = numbers(x->word);
    struct pto_args args[4];

    for (int round = 1; round <= x->rounds; round++) {
        for (uint32_t i = 0; i < x->count; i++) {
            pto_args_init(&args[i]);
            pto_args_add(&args[i], &t, x->tag);
            pto_add_scalar(&args[i], x->count);
        }
        (void)pto_level_submit_group(level, x->callable, x->children, args, x->count, NULL);
    }
}

static void members_of_a_group_run_together(void **state)
{
    struct group x = { .count = 3, .tag = PTO_TAG_NO_DEP, .rounds = 1 };
    const uint32_t two[] = { 1, 2 };

    (void)state;
    open_worker(0, 3);
    x.callable = register_sub("meet");
    x.word = make_numbers();
    run_well(submit_group, &x);
    assert_int_equal(x.word[0], 3);
    assert_int_equal(run_report.done, 3);
    x.children = two;
    x.count = 2;
    x.word[0] = 0;
    run_well(submit_group, &x);
    assert_int_equal(x.word[0], 2);
    x.count = 1;
    x.rounds = 20;
    run_well(submit_group, &x);
    close_worker();
}

static void members_that_depend_on_each_other_are_refused(void **state)
{
    struct group x = { .count = 2, .tag = PTO_TAG_INOUT, .rounds = 1 };
    struct one one = { 0 };
    const uint32_t twice[] = { 1, 1 };

    (void)state;
    open_worker(0, 2);
    x.callable = register_sub("meet");
    x.word = make_numbers();
    assert_int_equal(run(submit_group, &x), PTO_EINVAL);
    assert_non_null(strstr(run_report.error.text, "members 0 and 1"));
    assert_int_equal(run_report.skipped, 2);
    x.children = twice;
    x.tag = PTO_TAG_NO_DEP;
    assert_int_equal(run(submit_group, &x), PTO_EINVAL);
    assert_non_null(strstr(run_report.error.text, "is taken"));
    x.children = NULL;
    x.count = 3;
    assert_int_equal(run(submit_group, &x), PTO_EINVAL);
    one.callable = register_sub("empty");
    run_well(submit_one, &one);
    close_worker();
}

/* ---- failures ---- */

struct failing {
    uint64_t fails, sum;
    struct pto_tensor a, b, c;
};

static void submit_failing(struct pto_level *level, void *context)
{
    struct failing *x = context;
    struct pto_args args;

    pto_args_init(&args);
    pto_add_inout(&args, &x->a);
    pto_add_scalar(&args, 42);
    (void)pto_level_submit(level, x->fails, 0, &args);
    pto_args_init(&args);
    pto_add_input(&args, &x->a);
    pto_add_output_existing(&args, &x->b);
    (void)pto_level_submit(level, x->sum, 0, &args);
    pto_args_init(&args);
    pto_add_input(&args, &x->b);
    pto_add_output_existing(&args, &x->c);
    (void)pto_level_submit(level, x->sum, 0, &args);
}

static void a_failed_task_ends_what_depends_on_it(void **state)
{
    struct failing x;
    int *b;

    (void)state;
    open_worker(0, 1);
    x.fails = register_sub("fails");
    x.sum = register_sub("sum");
    b = make_numbers();
    b[0] = 77;
    x.a = numbers(make_numbers());
    x.b = numbers(b);
    x.c = numbers(make_numbers());
    assert_int_equal(run(submit_failing, &x), PTO_EFORMAT);
    assert_int_equal(run_report.failed, 1);
    assert_int_equal(run_report.failed + run_report.skipped, run_report.tasks);
    assert_int_equal(run_report.child, 0);
    assert_int_equal(run_report.error.level, 3);
    assert_non_null(strstr(run_report.error.text, "SUB worker 0: callable 'fails': no 42"));
    assert_non_null(strstr(run_report.error.text, "test_tree.c:"));
    assert_int_equal(b[0], 77);
    x.fails = x.sum;
    run_well(submit_failing, &x); /* a task with one tensor writes zeros */
    assert_int_equal(b[0], 0);
    close_worker();
}

static void what_makes_no_sense_is_refused(void **state)
{
    struct one one = { 0 };
    int own[COUNT];

    (void)state;
    open_worker(0, 2);
    assert_int_equal(run(submit_one, &one), PTO_EINVAL);
    assert_non_null(strstr(run_report.error.text, "no such callable"));
    one.callable = register_sub("sum");
    one.count = 1;
    one.tensor[0] = numbers(own);
    assert_int_equal(run(submit_one, &one), PTO_EMEMORY);
    assert_non_null(strstr(run_report.error.text, "not memory of the worker"));
    one.tensor[0] = numbers(make_numbers());
    one.tensor[0].shapes[0] = 2 * COUNT; /* refused by the graph; the slot is already allocated */
    one.tensor[0].extent = 2 * COUNT;
    assert_true(run(submit_one, &one) < 0);
    one.tensor[0] = numbers((int *)pto_tensor_data(&one.tensor[0]));
    run_well(submit_one, &one); /* and does not wait for the task that was refused */
    one.children = PTO_ON(7);
    assert_int_equal(run(submit_one, &one), PTO_EINVAL);
    assert_int_equal(pto_worker_run(worker, NULL, NULL, NULL), PTO_EINVAL);
    close_worker();
    assert_int_equal(pto_worker_close(worker), PTO_EINVAL);
}

static void a_child_gets_only_what_was_registered_for_it(void **state)
{
    struct pto_worker_callable params = callable_of(add_artefact, PTO_CHILD_CHIP, NULL);
    struct one one = { .children = PTO_ON(1), .count = 3 };

    (void)state;
    open_worker(2, 0);
    params.name = "adds";
    params.children = PTO_ON(0);
    one.callable = register_callable(params);
    for (int i = 0; i < 3; i++)
        one.tensor[i] = numbers(make_numbers());
    assert_int_equal(run(submit_one, &one), PTO_EINVAL);
    assert_non_null(strstr(run_report.error.text, "'adds' is not registered for child 1; "));
    assert_int_equal(child(1).tasks, 0);
    one.children = 0;
    run_well(submit_one, &one);
    assert_int_equal(child(0).tasks, 1);
    close_worker();
}

/* ---- memory ---- */

static void memory_is_guarded(void **state)
{
    struct one one = { .count = 1 };
    struct pto_worker_run *handle;
    struct pto_error error;
    void *mine;
    int *word;

    (void)state;
    open_worker(2, 1);
    pto_error_init(&error);
    word = make_numbers();
    assert_int_equal(pto_worker_free(worker, word + 1, &error), PTO_EMEMORY);
    assert_non_null(strstr(error.text, "inside"));
    one.callable = register_sub("hold");
    one.tensor[0] = numbers(word);
    assert_int_equal(pto_worker_launch(worker, submit_one, &one, &handle), PTO_OK);
    wait_word(word + 1, 1);
    assert_int_equal(pto_worker_free(worker, word, &error), PTO_EBUSY);
    assert_int_equal(pto_worker_unregister(worker, one.callable), PTO_EBUSY);
    assert_int_equal(pto_worker_close(worker), PTO_EBUSY);
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    assert_int_equal(pto_worker_run_wait(handle, 0), PTO_OK);
    assert_int_equal(pto_worker_run_finish(handle, NULL), PTO_OK);
    assert_int_equal(pto_worker_free(worker, word, &error), PTO_OK);
    assert_int_equal(pto_worker_free(worker, word, &error), PTO_EMEMORY);
    assert_non_null(strstr(error.text, "freed before"));
    /* Of a chip. */
    assert_int_equal(pto_worker_alloc_on(worker, 2, 64, &mine), PTO_EINVAL);
    assert_int_equal(pto_worker_alloc_on(worker, 1, COUNT * sizeof(int), &mine), PTO_OK);
    one.tensor[0] = numbers(mine);
    assert_int_equal(run(submit_one, &one), PTO_EMEMORY);
    assert_non_null(strstr(run_report.error.text, "memory of chip 1"));
    one.callable = register_bytes(add_artefact, PTO_CHILD_CHIP, NULL);
    one.tensor[1] = one.tensor[2] = one.tensor[0];
    one.tensor[2] = numbers(make_numbers());
    one.count = 3;
    run_well(submit_one, &one); /* the only chip that can */
    assert_int_equal(pto_worker_free(worker, mine, &error), PTO_OK);
    close_worker();
}

/* ---- runs in flight ---- */

static void a_wait_that_ends_leaves_the_run_alive(void **state)
{
    struct one held = { .count = 1 }, other = { .children = PTO_ON(1) };
    struct pto_worker_run *handle;
    struct pollfd on = { .events = POLLIN };
    int *word;

    (void)state;
    open_worker(0, 2);
    word = make_numbers();
    held.callable = register_sub("hold");
    held.children = PTO_ON(0);
    held.tensor[0] = numbers(word);
    other.callable = register_sub("empty");
    assert_int_equal(pto_worker_launch(worker, submit_one, &held, &handle), PTO_OK);
    on.fd = pto_worker_run_fd(handle);
    assert_int_equal(pto_worker_run_wait(handle, MS), PTO_ETIMEOUT);
    assert_int_equal(pto_worker_run_poll(handle), PTO_RUN_PENDING);
    assert_int_equal(pto_worker_run_finish(handle, NULL), PTO_EBUSY);
    run_well(submit_one, &other); /* it does not depend on the other run */
    assert_int_equal(poll(&on, 1, 0), 0);
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    /* no thread waits for the run: the worker's own thread continues it */
    assert_int_equal(poll(&on, 1, 60000), 1);
    assert_int_equal(pto_worker_run_poll(handle), PTO_RUN_ENDED);
    assert_int_equal(pto_worker_run_wait(handle, 1), PTO_OK);
    assert_int_equal(pto_worker_run_finish(handle, NULL), PTO_OK);
    assert_int_equal(pto_worker_run_finish(handle, NULL), PTO_EINVAL);
    close_worker();
}

struct chain {
    struct one hold, next;
};

static void submit_chain(struct pto_level *level, void *context)
{
    struct chain *x = context;

    submit_one(level, &x->hold);
    for (int i = 0; i < 20; i++)
        submit_one(level, &x->next);
}

static void what_is_cancelled_starts_nothing_more(void **state)
{
    struct chain x = { .hold = { .count = 1, .children = PTO_ON(0) } };
    struct pto_worker_run *handle;
    int *word;

    (void)state;
    open_worker(0, 1);
    word = make_numbers();
    x.hold.callable = register_sub("hold");
    x.hold.tensor[0] = numbers(word);
    x.next = x.hold; /* each task waits for the one before */
    assert_int_equal(pto_worker_launch(worker, submit_chain, &x, &handle), PTO_OK);
    wait_word(word + 1, 1);
    assert_int_equal(pto_worker_run_cancel(handle), PTO_OK);
    assert_int_equal(pto_worker_run_poll(handle), PTO_RUN_PENDING);
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    assert_int_equal(pto_worker_run_wait(handle, 0), PTO_ECANCELED);
    pto_worker_report_init(&run_report);
    assert_int_equal(pto_worker_run_finish(handle, &run_report), PTO_ECANCELED);
    assert_int_equal(run_report.done, 1);
    assert_int_equal(run_report.skipped, 20);
    assert_int_equal(word[1], 1);
    close_worker();
}

static void *run_many(void *context)
{
    for (int i = 0; i < (IS_SANITIZED ? 50 : 500); i++)
        EXPECT(pto_worker_run(worker, submit_one, context, NULL) == PTO_OK);
    return NULL;
}

static void threads_share_a_worker(void **state)
{
    struct one one[3];
    pthread_t thread[3];

    (void)state;
    open_worker(0, 2);
    for (int i = 0; i < 3; i++) {
        one[i] = (struct one){ .callable = register_sub("mix"), .count = 1, .scalar = 1 };
        one[i].tensor[0] = numbers(make_numbers());
        assert_int_equal(pthread_create(&thread[i], NULL, run_many, &one[i]), 0);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    assert_nothing_unexpected();
    close_worker();
}

/* ---- callables ---- */

static void what_is_equal_is_registered_once(void **state)
{
    uint64_t first, second;
    struct one one = { 0 };

    (void)state;
    open_worker(0, 1);
    first = register_sub("empty");
    second = register_sub("empty");
    assert_true(first == second);
    assert_true(register_sub("sum") != first);
    assert_int_equal(pto_worker_unregister(worker, first), PTO_OK);
    one.callable = first;
    run_well(submit_one, &one);
    assert_int_equal(pto_worker_unregister(worker, first), PTO_OK);
    assert_int_equal(pto_worker_unregister(worker, first), PTO_EINVAL);
    assert_int_equal(run(submit_one, &one), PTO_EINVAL);
    assert_true(register_sub("empty") != first);
    close_worker();
}

static void a_name_does_not_make_another_callable(void **state)
{
    struct pto_worker_callable params = callable_of(sub_object, PTO_CHILD_SUB, "empty");
    uint64_t first;

    (void)state;
    open_worker(0, 1);
    params.name = "one";
    first = register_callable(params);
    params.name = "another";
    assert_true(register_callable(params) == first);
    close_worker();
}

/* A chip callable as the reference's compiler writes it, without an artefact around it. */
static void a_bare_chip_callable_runs(void **state)
{
    struct recipe recipe = make_recipe(ADD);
    struct bytes blob = make_blob(&recipe);
    struct one one = { .count = 3 };
    int *number[3];

    (void)state;
    open_worker(2, 0);
    one.callable = register_bytes(blob, PTO_CHILD_CHIP, NULL);
    free(blob.at);
    free_recipe(&recipe);
    for (int i = 0; i < 3; i++) {
        number[i] = make_numbers();
        one.tensor[i] = numbers(number[i]);
    }
    for (int chip = 0; chip < 2; chip++) {
        fill(number[0], 7, chip);
        fill(number[1], 3, 1);
        one.children = PTO_ON(chip);
        run_well(submit_one, &one);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(number[2][i], 10 * i + chip + 1);
    }
    close_worker();
}

static void what_cannot_be_loaded_is_told(void **state)
{
    struct pto_worker_callable params;
    struct pto_error error;
    uint64_t callable;

    (void)state;
    open_worker(1, 1);
    pto_error_init(&error);
    pto_worker_callable_init(&params);
    params.kind = PTO_CHILD_SUB;
    params.bytes = sub_object.at;
    params.byte_count = sub_object.size;
    params.symbol = "absent";
    params.error = &error;
    assert_int_equal(pto_worker_register(worker, &params, &callable), PTO_ELOAD);
    assert_non_null(strstr(error.text, "no function 'absent'"));
    params.kind = PTO_CHILD_CHIP;
    params.bytes = "nonsense";
    params.byte_count = 8;
    assert_int_equal(pto_worker_register(worker, &params, &callable), PTO_EFORMAT);
    params.bytes = NULL;
    params.path = "/nowhere";
    assert_int_equal(pto_worker_register(worker, &params, &callable), PTO_ELOAD);
    params.children = 4;
    assert_int_equal(pto_worker_register(worker, &params, &callable), PTO_EINVAL);
    close_worker();
}

static int set_up_all(void **state)
{
    if (set_up(state) != 0)
        return -1;
    add_artefact = keep(artefact_of(ADD));
    subtract_artefact = keep(artefact_of(SUBTRACT));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_empty_task_runs),
        TEST(two_callables_on_one_chip_give_2a),
        TEST(they_alternate_on_two_chips_at_once),
        TEST(random_graphs_give_what_one_after_the_other_does),
        TEST(members_of_a_group_run_together),
        TEST(members_that_depend_on_each_other_are_refused),
        TEST(a_failed_task_ends_what_depends_on_it),
        TEST(what_makes_no_sense_is_refused),
        TEST(a_child_gets_only_what_was_registered_for_it),
        TEST(memory_is_guarded),
        TEST(a_wait_that_ends_leaves_the_run_alive),
        TEST(what_is_cancelled_starts_nothing_more),
        TEST(threads_share_a_worker),
        TEST(what_is_equal_is_registered_once),
        TEST(a_name_does_not_make_another_callable),
        TEST(a_bare_chip_callable_runs),
        TEST(what_cannot_be_loaded_is_told),
    };

    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, set_up_all, tear_down);
}

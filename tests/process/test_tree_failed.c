/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Consequences of a failed task: tasks that depend on it are skipped, in any run, until the program
 * has learned of the failed run. It makes no difference whether the failure happened before or
 * after a submit, so every case here runs both ways. Also, what a submit of a group returns, and a
 * function that ends its thread.
 */
#include <poll.h>

#include "tree/tree.h"

#include "tests/fixture/tree_test.h"

static uint64_t mix, fails_late, hold;

/* Whether the failure arrives before or after the later tasks are submitted. */
enum order { FAILS_FIRST, FAILS_LAST, ORDERS };

/*
 * Launches a run whose task on `word` fails; the second number of `word` shows that the task has
 * begun.
 */
struct failing {
    struct one one;
    struct pto_worker_run *run;
    int *word;
};

static void open_two(void)
{
    open_worker(0, 2);
    mix = register_sub("mix");
    fails_late = register_sub("fails_late");
    hold = register_sub("hold");
}

static struct pto_worker_run *launch(pto_level_fn fn, void *context)
{
    struct pto_worker_run *handle = NULL;

    assert_int_equal(pto_worker_launch(worker, fn, context, &handle), PTO_OK);
    return handle;
}

/* Waits until the run has ended, without learning its result. */
static void await_end(struct pto_worker_run *run)
{
    struct pollfd on = { .fd = pto_worker_run_fd(run), .events = POLLIN };

    assert_int_equal(poll(&on, 1, 60000), 1);
    assert_int_equal(pto_worker_run_poll(run), PTO_RUN_ENDED);
}

static void finish(struct pto_worker_run *run, int status)
{
    assert_int_equal(pto_worker_run_wait(run, 60000 * MS), status);
    pto_worker_report_init(&run_report);
    assert_int_equal(pto_worker_run_finish(run, &run_report), status);
}

static struct failing launch_failing(enum order order)
{
    struct failing f = { .word = make_numbers() };

    f.one = (struct one){
        .callable = fails_late, .children = PTO_ON(0), .count = 1, .tensor = { numbers(f.word) }
    };
    f.word[0] = order == FAILS_FIRST;
    f.run = launch(submit_one, &f.one);
    if (order == FAILS_FIRST)
        await_end(f.run);
    else
        wait_word(f.word + 1, 1);
    return f;
}

/* All later tasks have been submitted. */
static void let_fail(const struct failing *f)
{
    __atomic_store_n(f->word, 1, __ATOMIC_RELEASE);
    await_end(f->run);
}

/* Submits a task on the other child that reads `from` and changes `to`. */
static struct one mix_of(int *from, int *to)
{
    struct one one = { .callable = mix, .children = PTO_ON(1), .count = 2, .scalar = 1 };

    one.tensor[0] = numbers(from);
    one.tensor[1] = numbers(to);
    return one;
}

static void assert_skipped(struct pto_worker_run *run)
{
    finish(run, PTO_EPEER);
    assert_int_equal(run_report.skipped, 1);
    assert_int_equal(run_report.done + run_report.failed, 0);
    assert_non_null(strstr(run_report.error.text, "'fails_late'"));
}

static void what_comes_after_a_failed_task_is_skipped_until_the_program_knows(void **state)
{
    (void)state;
    open_two();
    for (enum order order = 0; order < ORDERS; order++) {
        struct failing f = launch_failing(order);
        int *other = make_numbers();
        struct one reads = mix_of(f.word, other), writes = mix_of(other, f.word);
        struct one beside = mix_of(other, make_numbers());
        struct pto_worker_run *run[3];

        run[0] = launch(submit_one, &reads);
        run[1] = launch(submit_one, &writes);
        run[2] = launch(submit_one, &beside); /* also after `reads`, which has not used `other` */
        let_fail(&f);
        assert_skipped(run[0]);
        assert_skipped(run[1]);
        assert_skipped(run[2]);
        assert_int_equal(other[0], 0);
        finish(f.run, PTO_EFORMAT);
        f.word[0] = 5; /* the program has learned of the failure */
        run_well(submit_one, &reads);
        assert_int_equal(other[0], 6);
    }
    close_worker();
}

/* pto_worker_run_wait, run and finish inform the program of the failure; a poll does not. */
static void a_wait_that_returns_the_failure_has_told_it(void **state)
{
    (void)state;
    open_two();
    for (enum order order = 0; order < ORDERS; order++) {
        struct failing f = launch_failing(order);
        struct one reads = mix_of(f.word, make_numbers());

        let_fail(&f);
        assert_int_equal(run(submit_one, &reads), PTO_EPEER);
        assert_int_equal(pto_worker_run_wait(f.run, 0), PTO_EFORMAT);
        run_well(submit_one, &reads);
        assert_int_equal(pto_worker_run_finish(f.run, NULL), PTO_EFORMAT);
        run_well(submit_one, &reads);
    }
    close_worker();
}

/* In the records of both arrays, the skipped task has replaced the failed one. */
static void a_skipped_run_that_was_told_does_not_hide_the_failed_one(void **state)
{
    (void)state;
    open_two();
    for (enum order order = 0; order < ORDERS; order++) {
        struct failing f = launch_failing(order);
        int *other = make_numbers();
        struct one writes = mix_of(other, f.word), reads = mix_of(f.word, make_numbers());
        struct pto_worker_run *skipped = launch(submit_one, &writes);

        let_fail(&f);
        assert_skipped(skipped);
        assert_skipped(launch(submit_one, &reads));
        assert_skipped(launch(submit_one, &writes));
        finish(f.run, PTO_EFORMAT);
        run_well(submit_one, &reads);
        run_well(submit_one, &writes);
    }
    close_worker();
}

/* ---- joins: many tiles, and tasks that read all of them ---- */

enum { TILES = 16 };

struct tiles {
    int *word; /* memory of the task that fails */
    int *memory;
    int *to[3];
};

static struct pto_tensor part(int *at, uint32_t count)
{
    const uint32_t shape[] = { count };

    return pto_tensor_external(at, shape, 1, PTO_INT32);
}

/* All tasks but the first run on the child with the task that fails. */
static void submit_tiles(struct pto_level *level, void *context)
{
    struct tiles *x = context;

    for (int i = 1; i < TILES; i++) {
        struct one one = { .callable = mix, .children = PTO_ON(0), .count = 1, .scalar = 1 };

        one.tensor[0] = part(x->memory + i, 1);
        submit_one(level, &one);
    }
}

static void submit_failing_tile(struct pto_level *level, void *context)
{
    struct tiles *x = context;
    struct one one = { .callable = fails_late, .children = PTO_ON(0), .count = 2 };

    one.tensor[0] = numbers(x->word);
    one.tensor[1] = part(x->memory, 1);
    submit_one(level, &one);
}

static void submit_whole(struct pto_level *level, void *context)
{
    struct tiles *x = context;

    for (int i = 0; i < 3; i++) {
        struct one one = { .callable = mix, .children = PTO_ON(1), .count = 2, .scalar = 1 };

        one.tensor[0] = part(x->memory, TILES);
        one.tensor[1] = part(x->to[i], TILES);
        submit_one(level, &one);
    }
}

static void joins_pass_a_failure_on_and_no_longer_than_it_lasts(void **state)
{
    (void)state;
    open_two();
    for (enum order order = 0; order < ORDERS; order++) {
        struct tiles x = { .word = make_numbers(), .memory = make_numbers() };
        struct pto_worker_run *tiles, *failed, *whole, *later;
        int status;
        struct tree *t = worker_get(worker, &status);

        for (int i = 0; i < 3; i++)
            x.to[i] = make_numbers();
        x.word[0] = order == FAILS_FIRST;
        failed = launch(submit_failing_tile, &x);
        if (order == FAILS_FIRST)
            await_end(failed);
        else
            wait_word(x.word + 1, 1);
        /* they are queued after it, unless it has already failed */
        tiles = launch(submit_tiles, &x);
        whole = launch(submit_whole, &x);
        later = launch(submit_whole, &x);
        assert_true(order == FAILS_FIRST || t->graph.join_total != 0);
        __atomic_store_n(x.word, 1, __ATOMIC_RELEASE);
        finish(whole, PTO_EPEER);
        assert_int_equal(run_report.skipped, run_report.tasks);
        finish(later, PTO_EPEER);
        assert_int_equal(run_report.skipped, run_report.tasks);
        assert_int_equal(run(submit_whole, &x), PTO_EPEER);
        finish(failed, PTO_EFORMAT);
        run_well(submit_whole, &x);
        assert_int_equal(x.to[0][TILES - 1], 2);
        finish(tiles, PTO_OK);
    }
    close_worker();
}

/* ---- memory ---- */

static void what_a_failed_task_used_is_kept_as_long_as_its_failure(void **state)
{
    struct pto_error error;
    int values[COUNT] = { 7 }, found[COUNT];

    (void)state;
    pto_error_init(&error);
    open_two();
    for (enum order order = 0; order < ORDERS; order++) {
        struct failing f = launch_failing(order);

        let_fail(&f);
        assert_int_equal(pto_worker_free(worker, f.word, &error), PTO_EBUSY);
        assert_int_equal(pto_worker_copy_to(worker, f.word, values, sizeof(values), 0, &error),
                         PTO_EPEER);
        assert_non_null(strstr(error.text, "'fails_late'"));
        finish(f.run, PTO_EFORMAT);
        assert_int_equal(pto_worker_copy_to(worker, f.word, values, sizeof(values), 0, &error),
                         PTO_OK);
        assert_int_equal(pto_worker_copy_from(worker, found, f.word, sizeof(found), 0, &error),
                         PTO_OK);
        assert_int_equal(found[0], 7);
        assert_int_equal(pto_worker_free(worker, f.word, &error), PTO_OK);
    }
    close_worker();
}

/*
 * The call has informed the program: tasks that are submitted afterwards wait for what the copy
 * waited for, and run.
 */
static void a_copy_that_was_late_skips_nothing_that_comes_later(void **state)
{
    int values[COUNT] = { 7 };

    (void)state;
    open_two();
    for (int is_over = 0; is_over < 2; is_over++) {
        int *word = make_numbers();
        struct one held = { .callable = hold, .children = PTO_ON(0), .count = 1 };
        struct one writes = { .callable = mix, .children = PTO_ON(1), .count = 1, .scalar = 1 };
        struct pto_worker_run *holding, *run;

        held.tensor[0] = writes.tensor[0] = numbers(word);
        holding = launch(submit_one, &held);
        wait_word(word + 1, 1);
        assert_int_equal(pto_worker_copy_to(worker, word, values, sizeof(values), MS, NULL),
                         PTO_ETIMEOUT);
        if (is_over != 0) {
            __atomic_store_n(word, 1, __ATOMIC_RELEASE);
            finish(holding, PTO_OK);
        }
        run = launch(submit_one, &writes);
        __atomic_store_n(word, is_over != 0 ? word[0] : 1, __ATOMIC_RELEASE);
        finish(run, PTO_OK);
        assert_int_equal(word[1], 4);
        if (is_over == 0)
            finish(holding, PTO_OK);
    }
    close_worker();
}

/* ---- many runs at a time, told in any order ---- */

static void all_memory_comes_back(void **state)
{
    enum { RUNS = 200, ARRAYS = 8 };
    struct pto_worker_run *run[RUNS];
    int *array[ARRAYS];
    unsigned seed = 5;
    int status;
    struct tree *t;

    (void)state;
    open_two();
    t = worker_get(worker, &status);
    for (int i = 0; i < ARRAYS; i++) {
        array[i] = make_numbers();
        array[i][0] = 1; /* fails_late has no predecessors */
    }
    for (int i = 0; i < RUNS; i++) {
        struct one one = mix_of(array[rand_r(&seed) % ARRAYS], array[rand_r(&seed) % ARRAYS]);

        if (rand_r(&seed) % 8 == 0)
            one.callable = fails_late;
        run[i] = launch(submit_one, &one);
    }
    for (int i = RUNS; i-- > 0;) { /* in any order */
        int at = rand_r(&seed) % (i + 1);

        (void)pto_worker_run_wait(run[at], 0);
        (void)pto_worker_run_finish(run[at], NULL);
        run[at] = run[i];
    }
    assert_int_equal(t->kept_count, 0);
    assert_int_equal(t->graph.live, 0);
    for (int i = 0; i < ARRAYS; i++)
        assert_int_equal(pto_worker_free(worker, array[i], NULL), PTO_OK);
    close_worker();
}

/* ---- groups ---- */

static int group_status[2];

/*
 * The first group is submitted when the failure of the task has arrived. No other record can arrive
 * before it, because the run has no other task.
 */
static void submit_groups(struct pto_level *level, void *context)
{
    struct one *one = context;
    struct pto_args args[2];
    int status;
    struct tree *t = worker_get(worker, &status);

    for (int i = 0; i < 2; i++) {
        pto_args_init(&args[i]);
        pto_add_scalar(&args[i], 1);
    }
    submit_one(level, &one[0]);
    for (uint64_t end = now_ns() + 60000 * MS; !tree_has_news(t) && now_ns() < end;)
        nap_ns(MS / 10);
    t->submits = 7; /* children are checked after this one */
    group_status[0] = pto_level_submit_group(level, one[1].callable, NULL, args, 2, NULL);
    EXPECT(pto_level_status(level) == PTO_EFORMAT);
    group_status[1] = pto_level_submit_group(level, one[1].callable, NULL, args, 2, NULL);
}

static void a_group_that_was_accepted_is_said_to_be(void **state)
{
    struct one one[2] = { { .children = PTO_ON(0) }, { 0 } };

    (void)state;
    open_two();
    one[0].callable = register_sub("fails");
    one[1].callable = register_sub("empty");
    assert_int_equal(run(submit_groups, one), PTO_EFORMAT);
    assert_nothing_unexpected();
    assert_int_equal(group_status[0], PTO_OK);
    assert_int_equal(group_status[1], PTO_EFORMAT);
    assert_int_equal(run_report.tasks, 3);
    assert_int_equal(run_report.done, 2);
    close_worker();
}

/* ---- a function that does not return ---- */

static const char leaving_text[] = "#include <pto/worker.h>\n"
                                   "#include <pthread.h>\n"
                                   "int leaves(const struct pto_sub_call *c)\n"
                                   "{ (void)c; pthread_exit(NULL); return 0; }\n";

static void a_function_that_ends_its_thread_is_noticed_at_once(void **state)
{
    struct bytes object = compile(leaving_text, "");
    struct one one = { .children = PTO_ON(1) }, after = { .children = PTO_ON(1) };

    (void)state;
    open_two();
    one.callable = register_bytes(object, PTO_CHILD_SUB, "leaves");
    after.callable = register_sub("empty");
    /* Not by the time-out, which is longer than this test may take. */
    assert_int_equal(run(submit_one, &one), PTO_EPEER);
    assert_non_null(strstr(run_report.error.text, "pthread_exit"));
    assert_int_equal(run_report.child, 1);
    await_death(1);
    assert_int_equal(run(submit_one, &after), PTO_EPEER);
    assert_non_null(strstr(run_report.error.text, "because a function called pthread_exit"));
    reopen(1);
    run_well(submit_one, &after);
    close_worker();
    free(object.at);
}

/*
 * With `answers`, checks only results of submits and functions; without, everything else; with
 * sanitizers, both.
 */
int main(int argc, char **argv)
{
    const struct CMUnitTest answers[] = {
        TEST(a_group_that_was_accepted_is_said_to_be),
        TEST(a_function_that_ends_its_thread_is_noticed_at_once),
    };
    bool is_part = argc == 2 && strcmp(argv[1], "answers") == 0;
    const struct CMUnitTest tests[] = {
        TEST(what_comes_after_a_failed_task_is_skipped_until_the_program_knows),
        TEST(a_wait_that_returns_the_failure_has_told_it),
        TEST(a_skipped_run_that_was_told_does_not_hide_the_failed_one),
        TEST(joins_pass_a_failure_on_and_no_longer_than_it_lasts),
        TEST(what_a_failed_task_used_is_kept_as_long_as_its_failure),
        TEST(a_copy_that_was_late_skips_nothing_that_comes_later),
        TEST(all_memory_comes_back),
    };

    alarm(HANG_SECONDS);
    if (is_part || IS_SANITIZED) {
        int failed = cmocka_run_group_tests_name("answers", answers, set_up, tear_down);

        if (is_part || failed != 0)
            return failed;
    }
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What level-3 workers order and what they do not: the requested rules, refused submits,
 * independent runs and groups.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "tree/tree.h"

#include "tests/fixture/tree_test.h"

/* ---- rules ---- */

struct pair {
    uint64_t callable[2];
    enum pto_tag tag[2];
    struct pto_tensor word;
};

static uint32_t edges_seen;

static bool count_edge(void *context, uint64_t before, uint64_t after)
{
    (void)context;
    (void)before;
    (void)after;
    edges_seen++;
    return true;
}

static void submit_pair(struct pto_level *level, void *context)
{
    struct pair *x = context;
    struct pto_args args;

    for (int i = 0; i < 2; i++) {
        pto_args_init(&args);
        pto_args_add(&args, &x->word, x->tag[i]);
        (void)pto_level_submit(level, x->callable[i], PTO_ON(i), &args);
    }
}

/* The reader blocks; the rules say whether the writer waits for it. */
static void a_worker_obeys_the_rules_that_it_was_opened_with(void **state)
{
    (void)state;
    for (int deps = 0; deps < PTO_DEPS_COUNT; deps++) {
        struct pair x = { .tag = { PTO_TAG_INPUT, PTO_TAG_OUTPUT_EXISTING } };
        struct pto_worker_params params;
        struct pto_worker_run *handle;
        int *word;

        pto_worker_params_init(&params);
        params.chip_count = 0;
        params.sub_count = 2;
        params.memory_max = 1ull << 30;
        params.deps = (enum pto_deps)deps;
        params.edge = count_edge;
        assert_int_equal(pto_worker_open(&params, &worker), PTO_OK);
        word = make_numbers();
        x.callable[0] = x.callable[1] = register_sub("hold");
        x.word = numbers(word);
        edges_seen = 0;
        assert_int_equal(pto_worker_launch(worker, submit_pair, &x, &handle), PTO_OK);
        wait_word(word + 1, deps == PTO_DEPS_SAFE ? 1 : 2);
        assert_int_equal(edges_seen, deps == PTO_DEPS_SAFE ? 1 : 0);
        __atomic_store_n(word, 1, __ATOMIC_RELEASE);
        assert_int_equal(pto_worker_run_wait(handle, 0), PTO_OK);
        assert_int_equal(pto_worker_run_finish(handle, NULL), PTO_OK);
        assert_int_equal(word[1], 2);
        close_worker();
    }
}

static void other_rules_are_refused(void **state)
{
    struct pto_worker_params params;
    struct pto_error error;

    (void)state;
    pto_error_init(&error);
    pto_worker_params_init(&params);
    params.deps = PTO_DEPS_COUNT;
    params.error = &error;
    assert_int_equal(pto_worker_open(&params, &worker), PTO_EINVAL);
    assert_non_null(strstr(error.text, "but must be safe or simpler"));
}

/* ---- submits that are refused halfway ---- */

static struct pto_outputs submit_output(struct pto_level *level, uint64_t callable)
{
    const uint32_t shape[] = { COUNT };
    struct pto_tensor_info info = pto_tensor_info_make(shape, 1, PTO_INT32);
    struct pto_args args;

    pto_args_init(&args);
    pto_add_output(&args, &info);
    return pto_level_submit(level, callable, 0, &args);
}

/*
 * The last task keeps the first output allocated until the second one, whose scope has ended,
 * completes it.
 */
static void submit_late_use(struct pto_level *level, void *context)
{
    uint64_t callable = *(const uint64_t *)context;
    struct pto_outputs kept = submit_output(level, callable), gone;
    struct pto_tensor tensor[2];
    struct pto_args args;

    tensor[0] = *kept.tensor;
    (void)pto_level_scope_begin(level, PTO_SCOPE_AUTO);
    gone = submit_output(level, callable);
    tensor[1] = *gone.tensor;
    (void)pto_level_scope_end(level);
    pto_args_init(&args);
    pto_add_input(&args, &tensor[0]);
    pto_add_input(&args, &tensor[1]);
    (void)pto_level_submit(level, callable, 0, &args);
}

static void a_refused_submit_lets_go_of_what_it_kept(void **state)
{
    struct one one = { 0 };
    uint64_t callable;

    (void)state;
    open_worker(0, 1);
    callable = register_sub("empty");
    for (int i = 0; i < 20; i++) {
        assert_true(run(submit_late_use, &callable) < 0);
        assert_int_equal(run_report.done, 2);
    }
    one.callable = callable;
    run_well(submit_one, &one);
    close_worker();
}

/* ---- what does not wait for each other ---- */

struct held {
    uint64_t hold, meet, empty;
    int *word;
};

static struct one hold_on(const struct held *x, uint32_t child)
{
    return (struct one){
        .callable = x->hold, .children = PTO_ON(child), .count = 1, .tensor = { numbers(x->word) }
    };
}

static void end_held(struct pto_worker_run *handle, int *word)
{
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    assert_int_equal(pto_worker_run_wait(handle, 0), PTO_OK);
    assert_int_equal(pto_worker_run_finish(handle, NULL), PTO_OK);
}

/* ---- which error is the first ---- */

static void submit_two(struct pto_level *level, void *context)
{
    struct one *one = context;

    submit_one(level, &one[0]);
    submit_one(level, &one[1]);
}

/* Ordered by time, not by submission. */
static void the_first_error_is_the_one_that_is_told(void **state)
{
    struct pto_worker_run *handle;

    (void)state;
    open_worker(0, 2);
    for (uint32_t first = 0; first < 2; first++) {
        uint64_t end = now_ns() + 60000 * MS, before = child(first).tasks;
        struct one one[2];
        int *word[2];
        char text[32];

        for (uint32_t i = 0; i < 2; i++) {
            word[i] = make_numbers();
            one[i] = (struct one){ .callable = register_sub("fails_late"),
                                   .children = PTO_ON(i),
                                   .count = 1,
                                   .tensor = { numbers(word[i]) },
                                   .scalar = 70 + i };
        }
        assert_int_equal(pto_worker_launch(worker, submit_two, one, &handle), PTO_OK);
        wait_word(word[0] + 1, 1);
        wait_word(word[1] + 1, 1);
        __atomic_store_n(word[first], 1, __ATOMIC_RELEASE);
        while (child(first).tasks == before) {
            assert_true(now_ns() < end);
            usleep(1000);
        }
        __atomic_store_n(word[1 - first], 1, __ATOMIC_RELEASE);
        assert_int_equal(pto_worker_run_wait(handle, 0), PTO_EFORMAT);
        pto_worker_report_init(&run_report);
        assert_int_equal(pto_worker_run_finish(handle, &run_report), PTO_EFORMAT);
        assert_int_equal(run_report.failed, 2);
        assert_int_equal(run_report.child, first);
        snprintf(text, sizeof(text), "no %u", 70 + first);
        assert_non_null(strstr(run_report.error.text, text));
    }
    close_worker();
}

/* ---- more tasks than there is room for ---- */

enum { TOO_MANY = TREE_LIVE_MAX + 100 };

struct flood {
    struct one next; /* waits for the blocked task */
    struct pto_worker_run *handle;
    int submitted;
};

static void submit_flood(struct pto_level *level, void *context)
{
    struct flood *x = context;

    for (int i = 0; i < TOO_MANY; i++) {
        submit_one(level, &x->next);
        __atomic_fetch_add(&x->submitted, 1, __ATOMIC_RELEASE);
    }
}

static void *launch_flood(void *context)
{
    struct flood *x = context;

    EXPECT(pto_worker_launch(worker, submit_flood, x, &x->handle) == PTO_OK);
    return NULL;
}

static void a_launch_waits_for_room_in_the_graph(void **state)
{
    struct flood x = { .next = { .count = 1 } };
    struct pto_worker_run *held;
    pthread_t thread;
    struct one hold;
    int *word;

    (void)state;
    open_worker(0, 1);
    word = make_numbers();
    hold =
        (struct one){ .callable = register_sub("hold"), .count = 1, .tensor = { numbers(word) } };
    x.next.callable = register_sub("empty");
    x.next.tensor[0] = hold.tensor[0];
    assert_int_equal(pto_worker_launch(worker, submit_one, &hold, &held), PTO_OK);
    assert_int_equal(pthread_create(&thread, NULL, launch_flood, &x), 0);
    wait_word(&x.submitted, TREE_LIVE_MAX - 1); /* the blocked task takes the last free slot */
    assert_int_equal(pto_worker_run_wait(held, MS), PTO_ETIMEOUT); /* other tasks are not delayed */
    assert_int_equal(__atomic_load_n(&x.submitted, __ATOMIC_ACQUIRE), TREE_LIVE_MAX - 1);
    end_held(held, word);
    pthread_join(thread, NULL);
    assert_nothing_unexpected();
    assert_int_equal(pto_worker_run_wait(x.handle, 0), PTO_OK);
    pto_worker_report_init(&run_report);
    assert_int_equal(pto_worker_run_finish(x.handle, &run_report), PTO_OK);
    assert_int_equal(run_report.done, TOO_MANY);
    close_worker();
}

struct members {
    uint64_t callable;
    uint32_t child[2];
    int *word;
};

static void submit_members(struct pto_level *level, void *context)
{
    struct members *x = context;
    struct pto_tensor t = numbers(x->word);
    struct pto_args args[2];

    for (int i = 0; i < 2; i++) {
        pto_args_init(&args[i]);
        pto_args_add(&args[i], &t, PTO_TAG_NO_DEP);
        pto_add_scalar(&args[i], 2);
    }
    (void)pto_level_submit_group(level, x->callable, x->child, args, 2, NULL);
}

static void runs_that_share_nothing_overlap(void **state)
{
    struct held x;
    struct one held, other = { .count = 1 };
    struct pto_worker_run *handle[2];
    int *word;

    (void)state;
    open_worker(0, 2);
    x = (struct held){ .hold = register_sub("hold"), .word = make_numbers() };
    held = hold_on(&x, 0);
    assert_int_equal(pto_worker_launch(worker, submit_one, &held, &handle[0]), PTO_OK);
    word = make_numbers();
    other.callable = x.hold;
    other.children = PTO_ON(1);
    other.tensor[0] = numbers(word);
    assert_int_equal(pto_worker_launch(worker, submit_one, &other, &handle[1]), PTO_OK);
    wait_word(x.word + 1, 1); /* both have begun, and neither has ended */
    wait_word(word + 1, 1);
    end_held(handle[1], word); /* the later one ends first */
    assert_int_equal(pto_worker_run_poll(handle[0]), PTO_RUN_PENDING);
    end_held(handle[0], x.word);
    close_worker();
}

/*
 * The group needs child 0, which is busy; a group on children 2 and 3 does not, nor does a task for
 * any child.
 */
static void a_blocked_group_holds_back_only_its_own_children(void **state)
{
    struct members blocked = { .child = { 0, 1 } }, free_group = { .child = { 2, 3 } };
    struct held x;
    struct one held, any = { 0 };
    struct pto_worker_run *handle[2];

    (void)state;
    open_worker(0, 4);
    x = (struct held){ .hold = register_sub("hold"), .word = make_numbers() };
    blocked.callable = free_group.callable = register_sub("meet");
    blocked.word = make_numbers();
    free_group.word = make_numbers();
    any.callable = register_sub("empty");
    held = hold_on(&x, 0);
    assert_int_equal(pto_worker_launch(worker, submit_one, &held, &handle[0]), PTO_OK);
    wait_word(x.word + 1, 1);
    assert_int_equal(pto_worker_launch(worker, submit_members, &blocked, &handle[1]), PTO_OK);
    run_well(submit_members, &free_group);
    assert_int_equal(free_group.word[0], 2);
    for (int i = 0; i < 50; i++)
        run_well(submit_one, &any);
    assert_int_equal(pto_worker_run_poll(handle[1]), PTO_RUN_PENDING);
    end_held(handle[0], x.word);
    assert_int_equal(pto_worker_run_wait(handle[1], 0), PTO_OK);
    assert_int_equal(pto_worker_run_finish(handle[1], NULL), PTO_OK);
    assert_int_equal(blocked.word[0], 2);
    close_worker();
}

/* ---- tasks that several children could have ---- */

enum { MANY = 12 };

struct many {
    struct one each;
    int *word[MANY];
};

static void submit_many(struct pto_level *level, void *context)
{
    struct many *x = context;

    for (int i = 0; i < MANY; i++) {
        struct one one = x->each;

        one.tensor[0] = numbers(x->word[i]);
        submit_one(level, &one);
    }
}

/* Children 0 and 1 are busy; the tasks are queued after their current ones. */
struct busy {
    struct held held[2];
    struct pto_worker_run *holds[2];
    struct many many;
    struct pto_worker_run *run;
};

static void make_busy(struct busy *x, uint32_t count, uint64_t children)
{
    uint64_t hold = register_sub("hold"), child = register_sub("child");

    for (uint32_t i = 0; i < count; i++) {
        struct one one;

        x->held[i] = (struct held){ .hold = hold, .word = make_numbers() };
        one = hold_on(&x->held[i], i);
        assert_int_equal(pto_worker_launch(worker, submit_one, &one, &x->holds[i]), PTO_OK);
        wait_word(x->held[i].word + 1, 1);
    }
    x->many = (struct many){ .each = { .callable = child, .count = 1 } };
    x->many.each.children = children;
    for (int i = 0; i < MANY; i++) {
        x->many.word[i] = make_numbers();
        x->many.word[i][0] = -1;
    }
    assert_int_equal(pto_worker_launch(worker, submit_many, &x->many, &x->run), PTO_OK);
}

static void assert_ran_on(const struct busy *x, int child)
{
    for (int i = 0; i < MANY; i++)
        assert_int_equal(x->many.word[i][0], child);
}

static void an_idle_child_gets_what_waits_behind_a_busy_one(void **state)
{
    struct busy x;

    (void)state;
    open_worker(0, 2);
    make_busy(&x, 2, 0);
    assert_int_equal(pto_worker_run_wait(x.run, MS), PTO_ETIMEOUT);
    end_held(x.holds[1], x.held[1].word);
    assert_int_equal(pto_worker_run_wait(x.run, 0), PTO_OK);
    assert_ran_on(&x, 1);
    assert_int_equal(pto_worker_run_finish(x.run, NULL), PTO_OK);
    end_held(x.holds[0], x.held[0].word);
    close_worker();
}

static void what_a_dead_child_had_not_begun_is_done_by_another(void **state)
{
    struct pto_child_info info;
    struct busy x;

    (void)state;
    open_worker(0, 2);
    make_busy(&x, 2, 0);
    pto_child_info_init(&info);
    assert_int_equal(pto_worker_child(worker, 0, &info), PTO_OK);
    assert_true(info.in_flight > 1);
    assert_int_equal(kill(info.pid, SIGKILL), 0);
    assert_int_equal(pto_worker_run_wait(x.holds[0], 0), PTO_EPEER);
    assert_int_equal(pto_worker_run_finish(x.holds[0], NULL), PTO_EPEER);
    end_held(x.holds[1], x.held[1].word);
    assert_int_equal(pto_worker_run_wait(x.run, 0), PTO_OK);
    assert_ran_on(&x, 1);
    assert_int_equal(pto_worker_run_finish(x.run, NULL), PTO_OK);
    close_worker();
}

static void what_was_given_but_not_begun_can_be_cancelled(void **state)
{
    struct busy x;

    (void)state;
    open_worker(0, 1);
    make_busy(&x, 1, PTO_ON(0));
    assert_int_equal(pto_worker_run_cancel(x.run), PTO_OK);
    assert_int_equal(pto_worker_run_wait(x.run, 0), PTO_ECANCELED); /* though the child is busy */
    pto_worker_report_init(&run_report);
    assert_int_equal(pto_worker_run_finish(x.run, &run_report), PTO_ECANCELED);
    assert_int_equal(run_report.skipped, MANY);
    end_held(x.holds[0], x.held[0].word);
    assert_ran_on(&x, -1);
    close_worker();
}

/* ---- room ---- */

/* Whether the child has sent a record since `from`; the record is not read. */
static bool has_printed(const struct tree_child *c, uint64_t from)
{
    for (uint64_t end = now_ns() + 60000 * MS; now_ns() < end; nap_ns(MS))
        if (a64_load_acquire(&c->line->to_worker.tail) != from)
            return true;
    return false;
}

/*
 * Records that wait for room in a full stream would wait forever if all records in it were
 * cancelled.
 */
static void a_child_tells_of_room_that_it_made_without_a_task(void **state)
{
    const struct record_head head = { .kind = RECORD_TASK, .key = 1 };
    struct one one = { .children = PTO_ON(0) };
    struct tree_child *c;
    const struct record_head *said;
    siginfo_t info;
    struct tree *t;
    uint64_t from;
    int status;

    (void)state;
    open_worker(0, 1);
    one.callable = register_sub("empty");
    t = worker_get(worker, &status);
    c = &t->child[0];
    pthread_mutex_lock(&t->lock);
    assert_int_equal(kill(c->link.pid, SIGSTOP), 0);
    assert_int_equal(waitid(P_PID, (id_t)c->link.pid, &info, WSTOPPED | WNOWAIT), 0);
    from = a64_load_acquire(&c->line->to_worker.tail);
    for (int i = 0; i < 3; i++) {
        assert_true(line_send(c->link.line, &head, NULL, 0));
        assert_true(channel_take_back(&c->link.line->out, c->link.line->out.last));
    }
    assert_int_equal(kill(c->link.pid, SIGCONT), 0);
    assert_true(has_printed(c, from));
    said = (const void *)(c->line->to_worker.bytes + (from & (CHANNEL_BYTES - 1)));
    assert_int_equal(said->kind, RECORD_PASSED);
    pthread_mutex_unlock(&t->lock);
    assert_int_equal(run(submit_one, &one), PTO_OK); /* and all goes on */
    close_worker();
}

/* ---- control ---- */

static const char slow_text[] =
    "#include <pto/worker.h>\n"
    "#include <stdio.h>\n"
    "#include <unistd.h>\n"
    "static void __attribute__((constructor)) slow(void)\n"
    "{\n"
    "    FILE *f = fopen(FOLDER \"/begun\", \"w\");\n"
    "    fclose(f);\n"
    "    for (int i = 0; i < 600000 && access(FOLDER \"/go\", F_OK) != 0; i++) usleep(100);\n"
    "}\n"
    "int empty(const struct pto_sub_call *c) { (void)c; return 0; }\n";

static void *register_slow(void *context)
{
    const struct bytes *object = context;
    struct pto_worker_callable callable;
    uint64_t number;

    pto_worker_callable_init(&callable);
    callable.kind = PTO_CHILD_SUB;
    callable.bytes = object->at;
    callable.byte_count = object->size;
    callable.symbol = "empty";
    callable.children = PTO_ON(0);
    EXPECT(pto_worker_register(worker, &callable, &number) == PTO_OK);
    return NULL;
}

/*
 * Loading takes as long as the constructor of the object; the other child runs tasks in the
 * meantime.
 */
static void a_slow_load_on_one_child_delays_no_other(void **state)
{
    struct one on_other = { .children = PTO_ON(1) };
    char path[128], flags[128];
    struct bytes object;
    pthread_t thread;

    (void)state;
    snprintf(flags, sizeof(flags), "-DFOLDER='\"%s\"'", folder);
    object = compile(slow_text, flags);
    open_worker(0, 2);
    on_other.callable = register_sub("empty");
    assert_int_equal(pthread_create(&thread, NULL, register_slow, &object), 0);
    snprintf(path, sizeof(path), "%s/begun", folder);
    for (int i = 0; i < 600000 && access(path, F_OK) != 0; i++)
        usleep(100);
    assert_int_equal(access(path, F_OK), 0);
    for (int i = 0; i < 100; i++)
        run_well(submit_one, &on_other); /* and a run that is waited for ends */
    snprintf(path, sizeof(path), "%s/go", folder);
    assert_int_equal(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_nothing_unexpected();
    close_worker();
    free(object.at);
}

static void *unregister_idle(void *context)
{
    EXPECT(pto_worker_unregister(worker, *(uint64_t *)context) == PTO_OK);
    return NULL;
}

static void *register_new(void *context)
{
    struct pto_worker_callable params = callable_of(sub_object, PTO_CHILD_SUB, "child");

    EXPECT(pto_worker_register(worker, &params, context) == PTO_OK);
    return NULL;
}

/* Requests to children, whose callers have not returned. */
static uint32_t count_requests(struct tree *t)
{
    uint32_t count = 0;

    pthread_mutex_lock(&t->lock);
    for (const struct tree_request *r = t->requests; r != NULL; r = r->next)
        count++;
    pthread_mutex_unlock(&t->lock);
    return count;
}

/*
 * Both requests wait for child 0, whose task continues; they do not wait for each other, nor does
 * child 1 for them.
 */
static void callables_come_and_go_while_a_child_is_busy(void **state)
{
    struct one held, on_other = { .children = PTO_ON(1) }, made = { .count = 1 };
    uint64_t idle, end = now_ns() + 60000 * MS;
    struct pto_worker_run *handle;
    pthread_t thread[2];
    struct held x;
    struct tree *t;
    int status;

    (void)state;
    open_worker(0, 2);
    t = worker_get(worker, &status);
    x = (struct held){ .hold = register_sub("hold"), .word = make_numbers() };
    on_other.callable = register_sub("empty");
    idle = register_sub("sum");
    held = hold_on(&x, 0);
    assert_int_equal(pto_worker_launch(worker, submit_one, &held, &handle), PTO_OK);
    wait_word(x.word + 1, 1);
    assert_int_equal(pthread_create(&thread[0], NULL, unregister_idle, &idle), 0);
    assert_int_equal(pthread_create(&thread[1], NULL, register_new, &made.callable), 0);
    while (count_requests(t) < 4 && now_ns() < end)
        nap_ns(MS / 10);
    assert_int_equal(count_requests(t), 4);
    run_well(submit_one, &on_other);
    end_held(handle, x.word);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    assert_nothing_unexpected();
    made.tensor[0] = numbers(x.word);
    for (int i = 0; i < 2; i++) {
        made.children = PTO_ON(i);
        run_well(submit_one, &made);
        assert_int_equal(x.word[0], i);
    }
    made.callable = idle;
    assert_int_equal(run(submit_one, &made), PTO_EINVAL);
    close_worker();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_worker_obeys_the_rules_that_it_was_opened_with),
        TEST(other_rules_are_refused),
        TEST(a_refused_submit_lets_go_of_what_it_kept),
        TEST(the_first_error_is_the_one_that_is_told),
        TEST(a_launch_waits_for_room_in_the_graph),
        TEST(runs_that_share_nothing_overlap),
        TEST(a_blocked_group_holds_back_only_its_own_children),
        TEST(an_idle_child_gets_what_waits_behind_a_busy_one),
        TEST(what_a_dead_child_had_not_begun_is_done_by_another),
        TEST(what_was_given_but_not_begun_can_be_cancelled),
        TEST(a_child_tells_of_room_that_it_made_without_a_task),
        TEST(a_slow_load_on_one_child_delays_no_other),
        TEST(callables_come_and_go_while_a_child_is_busy),
    };

    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

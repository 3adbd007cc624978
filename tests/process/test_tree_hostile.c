/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Neither side of a stream trusts the other. Records that a child could write, well-formed or with
 * changed bytes, are put into the stream of a stopped child: the worker ignores them, or ends the
 * child, which can be started again. Likewise in the other direction: a child refuses such records,
 * or ends with an exit code, never by a signal. Sanitizers check both processes. If a child writes
 * arbitrary bytes to shared memory, its successors are not affected.
 *
 * A number as the argument is a factor for the duration; the argument `scribbled` selects a part.
 */
#include <signal.h>
#include <sys/wait.h>

#include "tree/child.h"
#include "tree/tree.h"

#include "tests/fixture/tree_test.h"

static unsigned seed = 1;
static int rounds = IS_SANITIZED ? 60 : 200;

static uint32_t pick(uint32_t below)
{
    return (uint32_t)rand_r(&seed) % below;
}

static struct tree *tree(void)
{
    int status;
    struct tree *t = worker_get(worker, &status);

    assert_int_equal(status, PTO_OK);
    return t;
}

/* Waits until the child is dead, and returns its wait status; -1: it lives. */
static int end_of(uint32_t index, bool is_sure)
{
    uint64_t end = now_ns() + 60000 * MS;

    while (child(index).state != PTO_CHILD_DEAD ||
           a32_load_acquire(&tree()->child[index].is_end_handled) == 0) {
        if (!is_sure)
            return -1;
        if (now_ns() > end)
            fail_msg("a child that should end does not");
        nap_ns(MS / 10);
    }
    return tree()->child[index].link.end;
}

/* Returns a number that is often at a limit. */
static uint64_t pick_number(void)
{
    static const uint64_t borders[] = {
        0, 1, 2, TREE_CALLABLES - 1, TREE_CALLABLES, 4096, UINT32_MAX, INT64_MAX, UINT64_MAX
    };

    return pick(2) == 0 ? borders[pick(sizeof(borders) / sizeof(borders[0]))]
                        : (uint64_t)pick(1 << 30) << pick(34);
}

struct forged {
    struct record_head head;
    unsigned char body[RECORD_BODY_MAX];
    uint32_t size;
};

static struct forged forge(uint32_t kind, uint32_t usual_bytes)
{
    struct forged f = { .head = { .kind = kind,
                                  .status = pick(3) == 0 ? -(int32_t)pick(300) : 0,
                                  .key = pick_number(),
                                  .value = pick_number(),
                                  .tensor_count = (uint8_t)pick(pick(4) == 0 ? 256 : 4),
                                  .scalar_count = (uint8_t)pick(pick(4) == 0 ? 256 : 4),
                                  .timeout_ns = pick_number(),
                                  .options = pick(2) == 0 ? 0 : (uint32_t)pick_number() } };

    f.size = pick(3) == 0 ? pick(RECORD_BODY_MAX + 1) : usual_bytes;
    for (uint32_t i = 0; i < f.size; i++)
        f.body[i] = (unsigned char)pick(256);
    return f;
}

/*
 * Writes a record as the owner of the stream would; sometimes changes other words of the stream
 * afterwards.
 */
static void put(struct channel *c, const struct forged *f)
{
    const struct record_part part = { f->body, f->size };
    uint64_t before = c->position;

    if (!channel_write(c, &f->head, &part, f->size != 0))
        return;
    if (pick(4) == 0)
        for (uint32_t i = 0; i < 1 + pick(3); i++)
            c->stream->bytes[(before + pick(sizeof(struct record_head))) % CHANNEL_BYTES] ^=
                (unsigned char)(1 << pick(8));
    if (pick(16) == 0)
        a64_store_release(&c->stream->tail, c->position + pick_number());
}

/* ---- a hostile child ---- */

static void a_worker_believes_no_child(void **state)
{
    static const uint32_t kinds[] = { RECORD_READY, RECORD_DONE, RECORD_ANSWERED, RECORD_TASK,
                                      RECORD_PAD,   RECORD_END,  RECORD_KINDS };
    struct one one = { .children = PTO_ON(0) };
    int condemned = 0;

    (void)state;
    open_worker(0, 2);
    one.callable = register_sub("empty");
    for (int round = 0; round < rounds; round++) {
        struct tree_child *c = &tree()->child[0];
        struct pto_worker_run *handle = NULL;
        struct channel as_child;

        assert_int_equal(kill(child(0).pid, SIGSTOP), 0);
        if (pick(2) == 0) /* it has a task, of which it could say something */
            assert_int_equal(pto_worker_launch(worker, submit_one, &one, &handle), PTO_OK);
        pthread_mutex_lock(&tree()->lock);
        as_child = c->link.line->in;
        for (uint32_t i = 0; i < 1 + pick(4); i++) {
            struct forged f = forge(kinds[pick(sizeof(kinds) / sizeof(kinds[0]))],
                                    pick(2) == 0 ? 0 : sizeof(struct wire_failure));

            if (f.head.kind == RECORD_DONE && handle != NULL && pick(2) == 0)
                f.head.key = (uint64_t)tree_slot(tree(), tree_flight_at(c, 0)->number)->seq << 32 |
                             tree_flight_at(c, 0)->number;
            put(&as_child, &f);
        }
        pthread_mutex_unlock(&tree()->lock);
        (void)child(0); /* it is read */
        condemned += child(0).state == PTO_CHILD_DEAD;
        (void)kill(child(0).pid, SIGKILL);
        (void)end_of(0, true);
        if (handle != NULL) {
            (void)pto_worker_run_wait(handle, 60000 * MS);
            pto_worker_report_init(&run_report);
            (void)pto_worker_run_finish(handle, &run_report);
            assert_true(strlen(run_report.error.text) < sizeof(run_report.error.text));
            assert_true(run_report.path_count <= PTO_PATH_MAX);
        }
        reopen(0);
        run_well(submit_one, &one);
    }
    assert_true(condemned > rounds / 4); /* otherwise no change was detected */
    close_worker();
}

/* ---- a hostile worker ---- */

/* Often well-formed, but with offsets of other bytes. */
static void forge_load(struct forged *f, const struct tree *t)
{
    struct wire_load *load = (void *)f->body;

    if (f->size != sizeof(*load) || pick(4) == 0)
        return;
    f->head.value = pick(TREE_CALLABLES);
    load->addr = (uint64_t)(uintptr_t)t->base + (pick(2) == 0 ? pick_number() : pick(1 << 20));
    load->bytes = pick(2) == 0 ? pick_number() : pick(1 << 16);
}

/* A kind of record that the child may get, or any other. */
static struct forged forge_for_child(const struct tree *t)
{
    static const uint32_t kinds[] = { RECORD_TASK,   RECORD_LOAD, RECORD_UNLOAD,
                                      RECORD_REOPEN, RECORD_DONE, RECORD_KINDS };
    uint32_t kind = pick(2) == 0 ? RECORD_LOAD : kinds[pick(sizeof(kinds) / sizeof(kinds[0]))];
    struct forged f = forge(kind, kind == RECORD_LOAD ? sizeof(struct wire_load) : 0);

    if (kind == RECORD_LOAD)
        forge_load(&f, t);
    if (kind == RECORD_TASK && pick(2) == 0) { /* a callable that the child has, or not */
        f.head.value = pick(3);
        f.head.tensor_count = 0;
        f.head.scalar_count = (uint8_t)(f.size / 8 % 16);
        f.size = f.head.scalar_count * 8u;
    }
    if (f.head.value == TREE_COPY)
        f.head.value = 0; /* a request for a copy between arbitrary addresses would be executed */
    return f;
}

static void a_child_believes_no_worker(void **state)
{
    struct one one = { .children = PTO_ON(1) };

    (void)state;
    open_worker(1, 1);
    one.callable = register_sub("empty");
    for (int round = 0; round < rounds; round++) {
        uint32_t victim = pick(2);
        struct tree_child *c = &tree()->child[victim];
        int end;

        pthread_mutex_lock(&tree()->lock);
        for (uint32_t i = 0; i < 1 + pick(6); i++) {
            struct forged f = forge_for_child(tree());

            put(&c->link.line->out, &f);
        }
        waker_wake(&c->line->waker);
        pthread_mutex_unlock(&tree()->lock);
        (void)pto_worker_run(worker, submit_one, &one, NULL); /* something passes meanwhile */
        end = end_of(victim, false);
        if (end < 0) {
            /*
             * The child has read everything, unless its stream is broken or it waits for the rest
             * of a payload.
             */
            for (int i = 0; i < 200 && end < 0 &&
                            !channel_is_empty(&(struct channel){
                                .stream = c->link.line->out.stream,
                                .position = a64_load_acquire(&c->link.line->out.stream->head) });
                 i++) {
                nap_ns(MS / 10);
                end = end_of(victim, false);
            }
            (void)kill(child(victim).pid, SIGKILL);
            end = end_of(victim, true);
        }
        if (WIFSIGNALED(end))
            assert_int_equal(WTERMSIG(end), SIGKILL);
        else
            assert_true(WEXITSTATUS(end) == 0 || WEXITSTATUS(end) == CHILD_EXIT_BROKEN);
        reopen(victim);
        if (child(1 - victim).state == PTO_CHILD_DEAD)
            reopen(1 - victim);
        run_well(submit_one, &one);
    }
    close_worker();
}

/* ---- a child that writes anywhere ---- */

/*
 * Scalars: where to write, how many bytes, a seed; with every fourth seed most bytes stay
 * unchanged.
 */
static const char scribble_text[] =
    "#include <pto/worker.h>\n"
    "#include <signal.h>\n"
    "#include <stdlib.h>\n"
    "#include <string.h>\n"
    "int scribble(const struct pto_sub_call *c)\n"
    "{\n"
    "    unsigned char *at = (unsigned char *)c->scalar[0];\n"
    "    unsigned seed = (unsigned)c->scalar[2];\n"
    "    if (seed % 8 == 1) memset(at, 0xff, c->scalar[1]);\n"
    "    else for (uint64_t i = 0; i < c->scalar[1]; i++)\n"
    "        if (seed % 4 != 0 || rand_r(&seed) % 64 == 0) at[i] = (unsigned char)rand_r(&seed);\n"
    "    if (seed % 2 == 0) raise(SIGKILL);\n"
    "    return 0;\n"
    "}\n";

/* An orchestration without tasks, to see whether the run is accepted. */
static const char chip_text[] =
    "#include <pto/pto.h>\n"
    "static void nothing(struct pto_orch *o, const struct pto_entry *e) { (void)o; (void)e; }\n"
    "__attribute__((visibility(\"default\")))\n"
    "const struct pto_callable_params runs = { .size = sizeof(runs), .name = \"runs\",\n"
    "                                          .orchestration = nothing };\n";

struct scribble {
    uint64_t callable;
    uint64_t scalar[3];
};

static void submit_scribble(struct pto_level *level, void *context)
{
    const struct scribble *x = context;
    struct pto_args args;

    (void)pto_level_set_task_timeout(level, 500 * MS); /* the answer may be lost */
    pto_args_init(&args);
    for (int i = 0; i < 3; i++)
        pto_add_scalar(&args, x->scalar[i]);
    (void)pto_level_submit(level, x->callable, PTO_ON(1), &args);
}

static void what_a_child_scribbled_does_not_outlive_it(void **state)
{
    struct bytes scribble = compile(scribble_text, ""), chip = compile(chip_text, "");
    struct one on_chip = { .children = PTO_ON(0) }, on_sub = { .children = PTO_ON(1) };
    struct scribble x;
    struct tree_head head;

    (void)state;
    open_worker(1, 1);
    x.callable = register_bytes(scribble, PTO_CHILD_SUB, "scribble");
    on_sub.callable = register_sub("empty");
    on_chip.callable = register_bytes(chip, PTO_CHILD_CHIP, "runs");
    x.scalar[0] = (uint64_t)(uintptr_t)tree()->shared;
    x.scalar[1] = sizeof(struct tree_shared) + 2 * sizeof(struct tree_line);
    head = tree()->shared->head;
    for (int round = 0; round < rounds / 10; round++) {
        x.scalar[2] = (uint64_t)round;
        (void)run(submit_scribble, &x);
        for (uint32_t i = 0; i < 2; i++) {
            (void)kill(child(i).pid, SIGKILL);
            (void)end_of(i, true);
        }
        for (uint32_t i = 0; i < 2; i++)
            reopen(i);
        run_well(submit_one, &on_chip);
        run_well(submit_one, &on_sub);
        assert_memory_equal(&tree()->shared->head, &head, sizeof(head));
        assert_string_equal(tree()->shared->name[1], "empty");
    }
    close_worker();
    free(scribble.at);
    free(chip.at);
}

/*
 * The child itself writes the position up to which it has read. Without room, no record is in
 * flight that could be late.
 */
static void a_child_that_lies_about_what_it_read_is_ended(void **state)
{
    struct one one = { .children = PTO_ON(0) };
    struct pto_worker_run *handle;

    (void)state;
    open_worker(0, 1);
    one.callable = register_sub("empty");
    for (int i = 0; i < 3; i++) {
        struct stream *out = tree()->child[0].link.line->out.stream;

        assert_int_equal(kill(child(0).pid, SIGSTOP), 0);
        for (uint32_t k = 0; k < CHANNEL_BYTES / CHANNEL_UNIT; k++) { /* until the stream is full */
            pthread_mutex_lock(&tree()->lock);
            (void)channel_write(&tree()->child[0].link.line->out,
                                &(struct record_head){ .kind = RECORD_UNLOAD }, NULL, 0);
            pthread_mutex_unlock(&tree()->lock);
        }
        a64_store_release(&out->head, i == 0 ? UINT64_MAX : i == 1 ? 1ull << 63 : 1ull << 40);
        assert_int_equal(pto_worker_launch(worker, submit_one, &one, &handle), PTO_OK);
        assert_int_equal(pto_worker_run_wait(handle, 60000 * MS), PTO_EPEER);
        assert_int_equal(pto_worker_run_finish(handle, NULL), PTO_EPEER);
        (void)end_of(0, true);
        reopen(0);
        run_well(submit_one, &one);
    }
    close_worker();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(a_worker_believes_no_child),
        TEST(a_child_believes_no_worker),
        TEST(a_child_that_lies_about_what_it_read_is_ended),
    };
    const struct CMUnitTest scribbled[] = { TEST(what_a_child_scribbled_does_not_outlive_it) };
    bool is_part = argc == 2 && strcmp(argv[1], "scribbled") == 0;

    if (is_part || IS_SANITIZED) {
        int failed;

        alarm(HANG_SECONDS);
        failed = cmocka_run_group_tests_name("scribbled", scribbled, set_up, tear_down);
        if (is_part || failed != 0)
            return failed;
    }
    if (argc == 2)
        rounds *= atoi(argv[1]);
    alarm(argc == 2 ? 3600 : HANG_SECONDS);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recording runs of a worker: when recording can begin and when the file can be written, what is
 * discarded, and that the recording outlives callables and children. tests/system/timeline_level.sh
 * checks the contents of a timeline.
 */

#include "pto/watch.h"
#include "pto/worker_trace.h"
#include "tests/fixture/tree_test.h"

static char path[128];

/* Reads the whole file; the caller frees it. */
static char *written(void)
{
    struct pto_error error;
    char *text;
    FILE *file;
    long size;

    pto_error_init(&error);
    if (pto_worker_trace_write(worker, path, &error) < 0)
        fail_msg("%s", error.text);
    file = fopen(path, "r");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    rewind(file);
    text = calloc(1, (size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, file), size);
    fclose(file);
    remove(path);
    return text;
}

static void expect(const char *what, bool is_there)
{
    char *text = written();

    if ((strstr(text, what) != NULL) != is_there)
        fail_msg("%s %s in %s", what, is_there ? "is not" : "is", text);
    free(text);
}

static void run_empty(const char *symbol, uint32_t times)
{
    struct one one = { .callable = register_sub(symbol), .count = 1 };

    one.tensor[0] = numbers(make_numbers());
    for (uint32_t i = 0; i < times; i++)
        run_well(submit_one, &one);
    assert_int_equal(pto_worker_unregister(worker, one.callable), PTO_OK);
}

static void is_written_only_after_it_has_begun(void **state)
{
    struct pto_error error;

    (void)state;
    pto_error_init(&error);
    open_worker(0, 1);
    assert_int_equal(pto_worker_trace_write(worker, path, &error), PTO_EINVAL);
    assert_non_null(strstr(error.text, "nothing was recorded; call pto_worker_trace_begin"));
    assert_int_equal(pto_worker_trace_begin(NULL, PTO_TRACE_OFF), PTO_EINVAL);
    assert_int_equal(pto_worker_trace_begin(worker, (enum pto_trace)4), PTO_EINVAL);
    assert_int_equal(pto_worker_trace_begin(worker, PTO_TRACE_TIMES), PTO_OK);
    assert_int_equal(pto_worker_trace_write(worker, NULL, &error), PTO_EINVAL);
    assert_int_equal(pto_worker_trace_write(worker, "/nonexistent/x", &error), PTO_ESYSTEM);
    assert_int_equal(pto_worker_trace_write(worker, "x.pftrace", &error), PTO_ENOSUP);
    assert_int_equal(pto_worker_trace_write(worker, "x.ptrec", &error), PTO_EINVAL);
    assert_non_null(strstr(error.text, "a recording has tasks, and none was submitted"));
    assert_int_equal(access("x.ptrec", F_OK), -1);
    expect("\"runs\":0,\"tasks\":0,\"lost\":0", true);
    close_worker();
}

static void has_what_was_recorded_and_nothing_else(void **state)
{
    uint32_t files = count_descriptors();

    (void)state;
    open_worker(1, 1);
    run_empty("empty", 1); /* not recorded */
    assert_int_equal(pto_worker_trace_begin(worker, PTO_TRACE_OFF), PTO_OK);
    run_empty("empty", 300); /* the callable was unregistered by then */
    expect("\"runs\":300,\"tasks\":300,\"lost\":0", true);
    run_empty("empty", 1); /* writing the file has ended the recording */
    expect("\"runs\":300,\"tasks\":300", true);
    expect("\"name\":\"empty\"", true);
    assert_int_equal(pto_worker_trace_begin(worker, PTO_TRACE_OFF), PTO_OK);
    run_empty("child", 2);
    expect("\"name\":\"empty\"", false);
    close_worker();
    assert_int_equal(count_descriptors(), files);
}

static void waits_for_no_run(void **state)
{
    struct one one = { .count = 1 };
    struct pto_worker_run *launched;
    struct pto_error error;
    int *word;

    (void)state;
    pto_error_init(&error);
    open_worker(0, 1);
    one.callable = register_sub("hold");
    word = make_numbers();
    one.tensor[0] = numbers(word);
    assert_int_equal(pto_worker_trace_begin(worker, PTO_TRACE_OFF), PTO_OK);
    assert_int_equal(pto_worker_launch(worker, submit_one, &one, &launched), PTO_OK);
    wait_word(word + 1, 1);
    assert_int_equal(pto_worker_trace_begin(worker, PTO_TRACE_OFF), PTO_EBUSY);
    assert_int_equal(pto_worker_trace_write(worker, path, &error), PTO_EBUSY);
    assert_non_null(strstr(error.text, "runs are active"));
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    assert_int_equal(pto_worker_run_wait(launched, 60000 * MS), PTO_OK);
    assert_int_equal(pto_worker_run_finish(launched, NULL), PTO_OK);
    expect("\"name\":\"hold\"", true);
    close_worker();
}

static void tells_of_a_child_that_died(void **state)
{
    struct one one = { .count = 1 };

    (void)state;
    open_worker(0, 1);
    one.callable = register_sub("dies");
    one.tensor[0] = numbers(make_numbers());
    assert_int_equal(pto_worker_trace_begin(worker, PTO_TRACE_OFF), PTO_OK);
    assert_int_equal(run(submit_one, &one), PTO_EPEER);
    expect("\"name\":\"dies\",\"pid\":1,\"tid\":2", true);
    close_worker();
}

/* ---- seen from outside, and from the process itself ---- */

struct sight {
    uint32_t workers;
    struct pto_watch_child child[3];
};

static void look(void *context, const struct pto_watch_worker *w)
{
    struct sight *sight = context;

    if (w->pid != getpid())
        return;
    assert_int_equal(w->child_count, 2);
    assert_int_equal(w->level, 3);
    assert_string_equal(w->platform, "a2a3sim");
    memcpy(sight->child, w->child, 2 * sizeof(sight->child[0]));
    sight->workers++;
}

static void can_be_watched(void **state)
{
    struct sight sight = { .workers = 0 };

    (void)state;
    assert_int_equal(pto_watch_workers(NULL, NULL), PTO_EINVAL);
    open_worker(1, 1);
    run_empty("empty", 3);
    assert_true(pto_watch_workers(look, &sight) >= 1);
    assert_int_equal(sight.workers, 1);
    assert_int_equal(sight.child[0].kind, PTO_CHILD_CHIP);
    assert_int_equal(sight.child[1].kind, PTO_CHILD_SUB);
    assert_int_equal(sight.child[0].tasks, 0);
    assert_int_equal(sight.child[1].tasks, 3);
    assert_int_equal(sight.child[1].state, PTO_WATCH_IDLE);
    assert_int_equal(sight.child[1].generation, 1);
    close_worker();
    sight.workers = 0;
    assert_true(pto_watch_workers(look, &sight) >= 0);
    assert_int_equal(sight.workers, 0);
}

/* A nested worker has its own process in the timeline, in the process of a child. */
struct family {
    int32_t child; /* of the root, that is a worker */
    uint32_t roots, nested, idle;
};

static void look_at_family(void *context, const struct pto_watch_worker *w)
{
    struct family *f = context;

    if (w->pid == getpid()) {
        assert_int_equal(w->level, 4);
        assert_int_equal(w->child[1].kind, PTO_CHILD_WORKER);
        f->child = w->child[1].pid;
        f->roots++;
    } else if (w->pid == f->child) { /* after it: a dependency by memory */
        assert_int_equal(w->level, 3);
        assert_int_equal(w->child_count, 2);
        assert_int_equal(w->child[0].kind, PTO_CHILD_SUB);
        f->idle += w->child[1].state == PTO_WATCH_IDLE; /* sooner or later */
        f->nested++;
    }
}

static void open_nested(void)
{
    struct pto_worker_params params, below;
    const struct pto_worker_params *const nested[] = { &below };

    pto_worker_params_init(&params);
    pto_worker_params_init(&below);
    params.chip_count = below.chip_count = 0;
    params.sub_count = 1;
    below.sub_count = 2;
    params.nested = nested;
    params.nested_count = 1;
    assert_int_equal(pto_worker_open(&params, &worker), PTO_OK);
}

static void nested_workers_can_be_watched(void **state)
{
    time_t end = time(NULL) + 60;
    struct family f;

    (void)state;
    open_nested();
    do {
        f = (struct family){ .child = 0 };
        assert_true(pto_watch_workers(look_at_family, &f) >= 2);
        assert_int_equal(f.roots, 1);
        assert_int_equal(f.nested, 1);
    } while (f.idle == 0 && time(NULL) < end);
    assert_int_equal(f.idle, 1);
    close_worker();
}

static const char nested_text[] = "#include <pto/worker.h>\n"
                                  "int twice(struct pto_level *l, const struct pto_sub_call *c)\n"
                                  "{\n"
                                  "    struct pto_args args;\n"
                                  "    for (int i = 0; i < 2; i++) {\n"
                                  "        pto_args_init(&args);\n"
                                  "        pto_add_inout(&args, &c->tensor[0]);\n"
                                  "        pto_level_submit(l, c->scalar[0], 0, &args);\n"
                                  "    }\n"
                                  "    return 0;\n"
                                  "}\n";

static uint32_t count_text(const char *text, const char *wanted)
{
    uint32_t count = 0;

    for (const char *at = text; (at = strstr(at, wanted)) != NULL; at++)
        count++;
    return count;
}

/*
 * Two tasks of the root, and two of each nested worker: in the same file, with other process ids.
 */
static void nested_workers_are_in_the_timeline(void **state)
{
    struct bytes object = compile(nested_text, "");
    struct pto_worker_callable params;
    struct one one = { .count = 1 };
    char *text;

    (void)state;
    open_nested();
    pto_worker_callable_init(&params);
    params.kind = PTO_CHILD_SUB;
    params.bytes = sub_object.at;
    params.byte_count = sub_object.size;
    params.symbol = "child";
    params.is_below = true;
    assert_int_equal(pto_worker_register(worker, &params, &one.scalar), PTO_OK);
    params.kind = PTO_CHILD_WORKER;
    params.bytes = object.at;
    params.byte_count = object.size;
    params.symbol = "twice";
    params.is_below = false;
    assert_int_equal(pto_worker_register(worker, &params, &one.callable), PTO_OK);
    one.tensor[0] = numbers(make_numbers());
    assert_int_equal(pto_worker_trace_begin(worker, PTO_TRACE_TIMES), PTO_OK);
    run_well(submit_one, &one);
    run_well(submit_one, &one);
    text = written();
    assert_int_equal(count_text(text, "\"cat\":\"task\",\"name\":\"twice\",\"pid\":3,"), 2);
    assert_int_equal(count_text(text, "\"cat\":\"task\",\"name\":\"child\",\"pid\":20"), 4);
    assert_int_equal(
        count_text(text, "\"cat\":\"orchestration\",\"name\":\"orchestration\",\"pid\":200"), 2);
    assert_true(count_text(text, "worker 1: SUB worker 1") >= 1);
    free(text);
    free(object.at);
    close_worker();
}

static int set_up_all(void **state)
{
    if (set_up(state) != 0)
        return -1;
    snprintf(path, sizeof(path), "%s/timeline.json", folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_written_only_after_it_has_begun),
        cmocka_unit_test(has_what_was_recorded_and_nothing_else),
        cmocka_unit_test(waits_for_no_run),
        cmocka_unit_test(tells_of_a_child_that_died),
        cmocka_unit_test(can_be_watched),
        cmocka_unit_test(nested_workers_can_be_watched),
        cmocka_unit_test(nested_workers_are_in_the_timeline),
    };

    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, set_up_all, tear_down);
}

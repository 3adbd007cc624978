/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SUB workers whose program defines its own callables: here functions in a tiny language, "add 5",
 * "fail text", or "trip path", which cannot be loaded by a child that removes that file. They are
 * loaded, called, unloaded, and loaded again by a new process.
 */
#include <signal.h>

#include "tests/fixture/tree_test.h"

/* ---- the program ---- */

struct sentence {
    int number;
    char text[64];
};

static int loaded_count; /* in the child: number of loaded functions */

static int load_sentence(void *context, const struct pto_child_code *code, void **function_out,
                         struct pto_error *error)
{
    struct sentence *made = calloc(1, sizeof(*made));
    char text[256] = "";

    assert_ptr_equal(context, &loaded_count);
    assert_true(code->size == sizeof(*code) && code->byte_count < sizeof(text));
    memcpy(text, code->bytes, code->byte_count);
    if (sscanf(text, "add %d", &made->number) == 1 ||
        sscanf(text, "fail %63[^\n]", made->text) == 1 ||
        (strncmp(text, "trip ", 5) == 0 && unlink(text + 5) != 0)) {
        loaded_count++;
        *function_out = made;
        return PTO_OK;
    }
    free(made);
    if (strcmp(text, "mute") != 0)
        snprintf(error->text, sizeof(error->text), "%s: '%.200s' is no sentence", code->name, text);
    return PTO_EFORMAT;
}

/* Adds its number; the second element gets the number of loaded functions. */
static int call_sentence(void *context, void *function, const struct pto_sub_call *call)
{
    const struct sentence *s = function;
    int *word = pto_tensor_data(&call->tensor[0]);

    (void)context;
    if (s->text[0] != '\0') {
        snprintf(call->text, call->text_size, "%s", s->text);
        return PTO_EFORMAT;
    }
    word[0] += s->number;
    word[1] = loaded_count;
    return PTO_OK;
}

static void unload_sentence(void *context, void *function)
{
    (void)context;
    loaded_count--;
    free(function);
}

static int be_child(void)
{
    struct pto_child_hooks hooks;

    pto_child_hooks_init(&hooks);
    hooks.context = &loaded_count;
    hooks.load = load_sentence;
    hooks.call = call_sentence;
    hooks.unload = unload_sentence;
    return pto_child_serve_with(&hooks);
}

/* ---- tests ---- */

static const char *const self[] = { "/proc/self/exe", "child", NULL };

static void open_with(const char *const *sub_program, uint32_t subs,
                      const struct pto_worker_params *nested)
{
    struct pto_worker_params params;
    struct pto_error error;

    pto_error_init(&error);
    pto_worker_params_init(&params);
    params.platform = "a2a3sim";
    params.chip_count = nested == NULL ? 1 : 0;
    params.sub_count = subs;
    params.nested = &nested;
    params.nested_count = nested != NULL;
    params.memory_max = 1ull << 30;
    params.startup_timeout_ns = HANG_SECONDS * 1000 * MS;
    params.sub_program = sub_program;
    params.error = &error;
    if (pto_worker_open(&params, &worker) < 0)
        fail_msg("%s", error.text);
}

static struct pto_worker_callable sentence_of(const char *text, struct pto_error *error)
{
    struct pto_worker_callable params;

    pto_error_init(error);
    pto_worker_callable_init(&params);
    params.kind = PTO_CHILD_SUB;
    params.name = "sentence";
    params.bytes = text;
    params.byte_count = strlen(text);
    params.error = error;
    return params;
}

static uint64_t register_sentence(const char *text)
{
    struct pto_error error;

    return register_callable(sentence_of(text, &error));
}

static void assert_not_loaded(const char *text, const char *why)
{
    struct pto_error error;
    struct pto_worker_callable params = sentence_of(text, &error);
    uint64_t callable;

    assert_true(pto_worker_register(worker, &params, &callable) < 0);
    if (strstr(error.text, why) == NULL)
        fail_msg("'%s' does not say '%s'", error.text, why);
}

static int *call_on(uint64_t children, uint64_t callable, int *word)
{
    struct one one = { .callable = callable, .children = children, .count = 1 };

    one.tensor[0] = numbers(word);
    run_well(submit_one, &one);
    return word;
}

static int *call_one(uint64_t callable, int *word)
{
    return call_on(0, callable, word);
}

static void a_program_can_bring_functions(void **state)
{
    char link[64], path[256] = "";
    uint64_t five, two;
    int *word;

    (void)state;
    open_with(self, 1, NULL);
    word = make_numbers();
    for (uint32_t i = 0; i < 2; i++) { /* chips are unaffected */
        snprintf(link, sizeof(link), "/proc/%d/exe", child(i).pid);
        memset(path, 0, sizeof(path));
        assert_true(readlink(link, path, sizeof(path) - 1) > 0);
        assert_non_null(strstr(path, i == 0 ? "pto-child" : "test_tree_hooks"));
    }
    five = register_sentence("add 5");
    assert_true(register_sentence("add 5") == five); /* equal content is one callable */
    assert_int_equal(pto_worker_unregister(worker, five), PTO_OK);
    two = register_sentence("add 2");
    assert_int_equal(call_one(five, word)[0], 5);
    assert_int_equal(call_one(two, word)[0], 7);
    assert_int_equal(word[1], 2);
    assert_int_equal(pto_worker_unregister(worker, five), PTO_OK);
    assert_int_equal(call_one(two, word)[1], 1);
    assert_int_equal(*call_one(register_sub("mix"), word), 3 * 9); /* objects, too */
    assert_int_equal(kill(child(1).pid, SIGINT), 0);               /* not for children */
    assert_int_equal(kill(child(0).pid, SIGINT), 0);
    assert_int_equal(call_one(two, word)[0], 29);
    assert_int_equal(kill(child(1).pid, SIGKILL), 0);
    await_death(1);
    reopen(1);
    assert_int_equal(call_one(two, word)[0], 31);
    close_worker();
}

static void what_cannot_be_loaded_or_called_is_told(void **state)
{
    struct one one = { .count = 1 };

    (void)state;
    open_with(self, 1, NULL);
    assert_not_loaded("ad 5", "sentence: 'ad 5' is no sentence");
    assert_not_loaded("mute", pto_strerror(PTO_EFORMAT));
    one.callable = register_sentence("fail on purpose");
    one.tensor[0] = numbers(make_numbers());
    assert_int_equal(run(submit_one, &one), PTO_EFORMAT);
    assert_non_null(strstr(run_report.error.text, "on purpose"));
    close_worker();
    open_with(NULL, 1, NULL);
    assert_not_loaded("add 5", "is not a shared object");
    close_worker();
}

static void assert_loaded(uint64_t callable, int *word, int count)
{
    for (uint32_t i = 1; i <= 2; i++)
        assert_int_equal(call_on(PTO_ON(i), callable, word)[1], count);
}

/*
 * One of two children cannot load the function, because of the file or because it is dead: the
 * other one does not keep it.
 */
static void all_children_have_a_callable_or_none(void **state)
{
    char path[128], text[160];
    uint64_t one, trip;
    int *word;

    (void)state;
    open_with(self, 2, NULL);
    word = make_numbers();
    one = register_sentence("add 1");
    snprintf(path, sizeof(path), "%s/stone", folder);
    snprintf(text, sizeof(text), "trip %s", path);
    assert_true(file_write(path, "", 0) >= 0);
    assert_not_loaded(text, "is no sentence");
    assert_loaded(one, word, 1);
    trip = register_sentence(text); /* the file is gone */
    assert_loaded(trip, word, 2);
    assert_int_equal(pto_worker_unregister(worker, trip), PTO_OK);
    assert_int_equal(kill(child(2).pid, SIGKILL), 0);
    await_death(2);
    assert_not_loaded("add 2", "child 2: it is dead");
    assert_int_equal(call_on(PTO_ON(1), one, word)[1], 1);
    reopen(2);
    assert_loaded(one, word, 1);
    assert_loaded(register_sentence("add 2"), word, 2);
    close_worker();
}

static void hooks_reach_nested_workers(void **state)
{
    struct pto_worker_params nested;
    struct pto_worker_callable params;
    struct pto_error error;

    (void)state;
    pto_worker_params_init(&nested);
    nested.chip_count = 1;
    nested.sub_count = 1;
    open_with(self, 0, &nested);
    params = sentence_of("add 5", &error);
    params.is_below = 1;
    (void)register_callable(params);
    params = sentence_of("ad 5", &error);
    params.is_below = 1;
    params.error = &error;
    assert_true(pto_worker_register(worker, &params, &(uint64_t){ 0 }) < 0);
    assert_non_null(strstr(error.text, "no sentence"));
    params = sentence_of("add 5", &error);
    params.kind = PTO_CHILD_WORKER; /* which runs objects only */
    params.error = &error;
    assert_int_equal(pto_worker_register(worker, &params, &(uint64_t){ 0 }), PTO_ELOAD);
    close_worker();
}

static void incomplete_hooks_are_refused(void **state)
{
    struct pto_child_hooks hooks;

    (void)state;
    assert_true(pto_child_serve_with(NULL) != 0);
    pto_child_hooks_init(&hooks);
    assert_true(pto_child_serve_with(&hooks) != 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(a_program_can_bring_functions),        TEST(what_cannot_be_loaded_or_called_is_told),
        TEST(all_children_have_a_callable_or_none), TEST(hooks_reach_nested_workers),
        TEST(incomplete_hooks_are_refused),
    };

    if (argc == 2 && strcmp(argv[1], "child") == 0)
        return be_child();
    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

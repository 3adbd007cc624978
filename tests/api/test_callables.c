/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * Callables are isolated from each other. Add and subtract are compiled under the same file names,
 * with the same function and symbol names. Their orchestrations and kernels recognise each other by
 * a tag, so that a result is wrong if a callable runs a part of the other one or uses its static
 * data.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/elf.h"
#include "base/object.h"
#include "tests/fixture/artefact_test.h"

enum { N = 16 };
#define ALTERNATIONS (IS_SANITIZED ? 500 : 10000)

static struct recipe add_recipe, subtract_recipe;

/* One call of an operation on small numbers, and the expected result. */
struct call {
    int a[N], b[N], c[N];
    struct pto_tensor tensor[3];
    struct pto_entry entry;
};

static void init_call(struct call *call, int seed)
{
    const uint32_t shape[] = { N };
    int *data[] = { call->a, call->b, call->c };

    for (int i = 0; i < N; i++) {
        call->a[i] = 7 * i + seed;
        call->b[i] = 3 * i - seed;
        call->c[i] = -1;
    }
    for (int i = 0; i < 3; i++)
        call->tensor[i] = pto_tensor_external(data[i], shape, 1, PTO_INT32);
    call->entry = (struct pto_entry){ 3, 0, call->tensor, NULL };
}

static bool is_result(const struct call *call, int sign)
{
    for (int i = 0; i < N; i++)
        if (call->c[i] != call->a[i] + sign * call->b[i])
            return false;
    return true;
}

static int run_call(struct pto_device *device, struct pto_callable *callable, struct call *call)
{
    pto_run_report_init(&report);
    return pto_run(device, callable, &call->entry, NULL, &report);
}

/* Called from any thread, so it does not assert. */
static void run_and_expect(struct pto_device *device, struct pto_callable *callable, int sign,
                           int seed)
{
    struct call call;

    init_call(&call, seed);
    EXPECT(pto_run(device, callable, &call.entry, NULL, NULL) == PTO_OK);
    EXPECT(is_result(&call, sign));
}

static struct pto_callable *load_add(void)
{
    return load_recipe(&add_recipe);
}

static struct pto_callable *load_subtract(void)
{
    return load_recipe(&subtract_recipe);
}

/* Loads `add_recipe` with a kernel that is compiled from this text. */
static struct pto_callable *load_with_kernel(const char *text)
{
    struct bytes object = compile(text, "");
    struct recipe recipe = add_recipe;
    struct pto_callable *callable;

    recipe.kernel.bytes = object.at;
    recipe.kernel.size = object.size;
    callable = load_recipe(&recipe);
    free(object.at);
    return callable;
}

static uint32_t objects_of(struct pto_callable *callable)
{
    struct pto_callable_info info = { .size = sizeof(info) };

    assert_int_equal(pto_callable_info(callable, &info), PTO_OK);
    return info.object_count;
}

static void must_register(struct pto_device *device, struct pto_callable *callable)
{
    struct pto_error error = { .size = sizeof(error) };

    if (pto_register(device, callable, &error) < 0)
        fail_msg("%s", error.text);
}

static void close_all(struct pto_device *device, struct pto_callable *a, struct pto_callable *b)
{
    assert_nothing_unexpected();
    assert_int_equal(pto_callable_destroy(a), PTO_OK);
    if (b != NULL)
        assert_int_equal(pto_callable_destroy(b), PTO_OK);
    if (device != NULL)
        assert_int_equal(pto_device_close(device), PTO_OK);
    assert_int_equal(object_count(), 0);
}

/* ---- two callables ---- */

static void each_runs_its_own_in_either_order(void **state)
{
    (void)state;
    /* the third run: the first two register the callables */
    for (int order = 0; order < 3; order++) {
        struct pto_device *device = open_device("a2a3sim", 0, 2);
        struct pto_callable *add = load_add(), *subtract = load_subtract();

        if (order < 2) {
            must_register(device, order == 0 ? add : subtract);
            must_register(device, order == 0 ? subtract : add);
            assert_int_equal(object_count(), 4);
        }
        for (int i = 0; i < 50; i++) {
            run_and_expect(device, subtract, -1, i);
            run_and_expect(device, add, 1, i);
        }
        close_all(device, add, subtract);
    }
}

static void they_alternate_on_two_devices(void **state)
{
    struct pto_device *device[] = { open_device("a2a3sim", 0, 1), open_device("a2a3sim", 0, 2) };
    struct pto_callable *add = load_add(), *subtract = load_subtract();
    struct pto_callable_info info = { .size = sizeof(info) };

    (void)state;
    for (int i = 0; i < ALTERNATIONS; i++)
        run_and_expect(device[i / 2 % 2], i % 2 == 0 ? add : subtract, i % 2 == 0 ? 1 : -1, i);
    assert_int_equal(pto_callable_info(add, &info), PTO_OK);
    assert_int_equal(info.device_count, 2);
    assert_int_equal(info.object_count, 2); /* one object is loaded for both callables */
    assert_int_equal(pto_device_close(device[1]), PTO_OK);
    close_all(device[0], add, subtract);
}

/* Computes (a+b) + (a-b) by a callable that consists of functions of this program. */
static void sum_kernel(int64_t *args)
{
    int *at[3];

    for (int i = 0; i < 3; i++)
        at[i] = pto_tensor_data(pto_arg_tensor(args, i));
    for (int i = 0; i < N; i++)
        at[2][i] = at[0][i] + at[1][i];
}

static void orchestrate_sum(struct pto_orch *o, const struct pto_entry *e)
{
    pto_aiv(o, 0, PTO_IN(&e->tensor[0]), PTO_IN(&e->tensor[1]), PTO_WRITE(&e->tensor[2]));
}

static void a_parent_that_reduces_both_gets_2a(void **state)
{
    static const struct pto_kernel kernels[] = { { "sum", sum_kernel, PTO_CORE_AIV } };
    struct pto_callable *sum = make_callable(kernels, 1, orchestrate_sum);
    struct pto_callable *add = load_add(), *subtract = load_subtract();
    struct pto_device *device = open_device("a2a3sim", 0, 2);
    struct call plus, minus, both;
    struct pto_run *run[2];

    (void)state;
    init_call(&plus, 5);
    init_call(&minus, 5);
    init_call(&both, 0);
    assert_int_equal(pto_run_prepare(device, add, &plus.entry, NULL, &run[0]), PTO_OK);
    assert_int_equal(pto_run_prepare(device, subtract, &minus.entry, NULL, &run[1]), PTO_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pto_run_launch(run[i]), PTO_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pto_run_wait(run[i], 0), PTO_OK);
        assert_int_equal(pto_run_finish(run[i], NULL), PTO_OK);
    }
    memcpy(both.a, plus.c, sizeof(both.a));
    memcpy(both.b, minus.c, sizeof(both.b));
    assert_int_equal(run_call(device, sum, &both), PTO_OK);
    for (int i = 0; i < N; i++)
        assert_int_equal(both.c[i], 2 * plus.a[i]);
    assert_int_equal(pto_callable_destroy(sum), PTO_OK);
    close_all(device, add, subtract);
}

struct worker_of {
    pthread_t thread;
    struct pto_device *device;
    struct pto_callable *add, *subtract;
    uint32_t runs;
    bool is_registering;
};

static void *alternate(void *arg)
{
    struct worker_of *w = arg;

    for (uint32_t i = 0; i < w->runs; i++) {
        run_and_expect(w->device, w->add, 1, (int)i);
        run_and_expect(w->device, w->subtract, -1, (int)i);
        if (w->is_registering && i % 8 == 0) {
            struct pto_callable *callable = i % 16 == 0 ? w->add : w->subtract;
            int status = pto_unregister(w->device, callable);

            EXPECT(status == PTO_OK || status == PTO_EBUSY || status == PTO_EINVAL);
            if (i % 24 == 0)
                EXPECT(pto_register(w->device, callable, NULL) == PTO_OK);
        }
    }
    return NULL;
}

static void alternate_in_threads(bool is_one_device, bool is_registering)
{
    struct pto_device *device[] = { open_device("a2a3sim", 0, 2), open_device("a2a3sim", 0, 2) };
    struct pto_callable *add = load_add(), *subtract = load_subtract();
    struct worker_of worker[2];

    for (int i = 0; i < 2; i++) {
        worker[i] = (struct worker_of){ .device = device[is_one_device ? 0 : i],
                                        .add = add,
                                        .subtract = subtract,
                                        .runs = ALTERNATIONS / 4,
                                        .is_registering = is_registering };
        assert_int_equal(pthread_create(&worker[i].thread, NULL, alternate, &worker[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(worker[i].thread, NULL);
    assert_int_equal(pto_device_close(device[1]), PTO_OK);
    close_all(device[0], add, subtract);
}

static void two_threads_alternate(void **state)
{
    (void)state;
    alternate_in_threads(true, false);
    alternate_in_threads(false, false);
}

static void threads_register_and_unregister_while_others_run(void **state)
{
    (void)state;
    alternate_in_threads(true, true);
    alternate_in_threads(false, true);
}

/* ---- loading ---- */

static int next_descriptor(void)
{
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);

    close(file);
    return file;
}

/*
 * Runs with loaded files in this folder; in a folder that cannot be written, code is loaded from
 * memory. NULL: the default folder.
 */
static void set_temporary(const char *path)
{
    static char first[200];

    if (first[0] == '\0')
        snprintf(first, sizeof(first), "%s", getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    assert_int_equal(setenv("TMPDIR", path != NULL ? path : first, 1), 0);
}

/*
 * Subtract is loaded through the descriptor through which add was loaded, and vice versa; or from
 * files, where one descriptor is for their folder.
 */
static void load_by_turns(bool is_hidden)
{
    struct pto_device *device = open_device("a2a3sim", 0, 1);
    struct pto_callable *add = load_add(), *subtract = load_subtract();
    int file = next_descriptor() + !is_hidden;

    for (int i = 0; i < 20; i++) {
        must_register(device, add);
        assert_int_equal(next_descriptor(), file);
        must_register(device, subtract);
        assert_int_equal(next_descriptor(), file);
        run_and_expect(device, add, 1, i);
        run_and_expect(device, subtract, -1, i);
        assert_int_equal(pto_unregister(device, i % 2 == 0 ? add : subtract), PTO_OK);
        if (i % 3 == 0)
            assert_int_equal(pto_unregister(device, i % 2 == 0 ? subtract : add), PTO_OK);
    }
    close_all(device, add, subtract);
}

static void descriptors_are_used_again(void **state)
{
    char own[] = "/tmp/pto-test-XXXXXX";

    (void)state;
    set_temporary("/proc/none");
    load_by_turns(true);
    assert_non_null(mkdtemp(own));
    set_temporary(own);
    load_by_turns(false);
    assert_int_equal(count_entries(own), 0);
    assert_int_equal(rmdir(own), 0);
    set_temporary(NULL);
}

/*
 * The folder of a killed process stays until another process removes it; a forked child does not
 * remove the folder of its parent.
 */
static void files_go_with_their_process(void **state)
{
    char own[] = "/tmp/pto-test-XXXXXX", root[64], left[128];
    struct timespec old[2] = { { .tv_sec = time(NULL) - 200000 },
                               { .tv_sec = time(NULL) - 200000 } };
    struct pto_device *device = open_device("a2a3sim", 0, 1);
    struct pto_callable *add = load_add();
    int result;
    pid_t child;

    (void)state;
    assert_non_null(mkdtemp(own));
    set_temporary(own);
    snprintf(root, sizeof(root), "%s/pto-%ld", own, (long)geteuid());
    assert_int_equal(mkdir(root, 0700), 0);
    snprintf(left, sizeof(left), "%s/pto-code-1-abcdef", root);
    assert_int_equal(mkdir(left, 0700), 0);
    strcat(left, "/1-1-kernel.so");
    assert_int_equal(file_write(left, "", 0), PTO_OK);
    *strrchr(left, '/') = '\0';
    assert_int_equal(utimensat(AT_FDCWD, left, old, 0), 0);
    must_register(device, add);
    /* the old folder was removed, and this process has a new one */
    assert_int_equal(count_entries(root), 1);
    child = IS_SANITIZED ? -1 : fork(); /* these processes end here */
    if (child == 0) {
        struct pto_device *other = open_device("a2a3sim", 0, 1);
        struct pto_callable *subtract = load_subtract();

        must_register(other, subtract);
        exit(count_entries(root) == 2 ? 0 : 1); /* nothing is unregistered */
    }
    assert_true(IS_SANITIZED || (waitpid(child, &result, 0) == child && result == 0));
    assert_int_equal(count_entries(root), 1);
    close_all(device, add, NULL);
    assert_int_equal(rmdir(own), 0); /* the root was removed together with its last folder */
    set_temporary(NULL);
}

/* Callables with equal content count as one, even if their handles differ. */
static void the_same_content_is_loaded_once(void **state)
{
    struct pto_device *device = open_device("a2a3sim", 0, 1);
    struct pto_callable *first = load_add(), *second = load_add();

    (void)state;
    must_register(device, first);
    must_register(device, second);
    must_register(device, second); /* registering it again is not an error */
    assert_int_equal(object_count(), 2);
    assert_int_equal(pto_unregister(device, first), PTO_OK);
    assert_int_equal(object_count(), 2);
    assert_int_equal(objects_of(first), 0);
    run_and_expect(device, second, 1, 1);
    close_all(device, first, second);
}

/* An object that is loaded again starts with its initial values. */
static void static_data_starts_with_the_registration(void **state)
{
    static const char text[] = "#include <pto/kernel.h>\n"
                               "int count;\n"
                               "void kernel_entry(int64_t *args)\n"
                               "{ *(int *)pto_tensor_data(pto_arg_tensor(args, 2)) = ++count; }\n";
    struct pto_device *device = open_device("a2a3sim", 0, 1);
    struct pto_callable *callable;
    struct call call;

    (void)state;
    callable = load_with_kernel(text);
    for (int i = 0; i < 6; i++) {
        init_call(&call, 0);
        assert_int_equal(run_call(device, callable, &call), PTO_OK);
        assert_int_equal(call.c[0], i % 3 + 1);
        if (i % 3 == 2)
            assert_int_equal(pto_unregister(device, callable), PTO_OK);
    }
    close_all(device, callable, NULL);
}

/*
 * Kernels with a unique symbol, as the tile library has them: without our change to the object,
 * both kernels would share one variable.
 */
static void objects_do_not_share_an_inline_static(void **state)
{
    static const char text[] = "#include <pto/kernel.h>\n"
                               "template <int> struct state { static inline int value = 0; };\n"
                               "inline int &counter() { static int count = 0; return count; }\n"
                               "extern \"C\" void kernel_entry(int64_t *args)\n"
                               "{\n"
                               "    state<0>::value += STEP;\n"
                               "    counter() += STEP;\n"
                               "    int *out = (int *)pto_tensor_data(pto_arg_tensor(args, 2));\n"
                               "    out[0] = state<0>::value;\n"
                               "    out[1] = counter();\n"
                               "}\n";
    struct pto_device *device = open_device("a2a3sim", 0, 1);
    struct pto_callable *callable[2];
    struct elf_changes changes;
    struct call call;

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct bytes object = compile_as("c++", text, i == 0 ? "-DSTEP=1" : "-DSTEP=100");
        struct recipe recipe = add_recipe;

        recipe.kernel.bytes = object.at;
        recipe.kernel.size = object.size;
        callable[i] = load_recipe(&recipe);
        assert_int_equal(elf_isolate(object.at, object.size, &changes, NULL), PTO_OK);
        assert_true(changes.unique_symbols >= 2); /* otherwise this test would prove nothing */
        free(object.at);
    }
    for (int i = 0; i < 6; i++) {
        int expected = (i / 2 + 1) * (i % 2 == 0 ? 1 : 100);

        init_call(&call, 0);
        assert_int_equal(run_call(device, callable[i % 2], &call), PTO_OK);
        assert_int_equal(call.c[0], expected);
        assert_int_equal(call.c[1], expected);
    }
    close_all(device, callable[0], callable[1]);
}

/*
 * Kernels use neither symbols of the program nor of other objects, and these use none of the
 * kernel's.
 */
static void an_object_keeps_to_itself(void **state)
{
    static const char *const flags[] = { ADD, ADD " -Wl,-soname,libkernel.so", ADD " -Wl,-z,now" };
    struct bytes other = compile("int helper(int a, int b) { (void)a; (void)b; return 77; }\n"
                                 "int helper_state = 55;\n",
                                 "");
    struct pto_device *device = open_device("a2a3sim", 0, 1);
    char path[128];
    void *global;

    (void)state;
    snprintf(path, sizeof(path), "%s/other.so", folder);
    assert_int_equal(file_write(path, other.at, other.size), PTO_OK);
    global = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    assert_non_null(global);
    assert_non_null(dlsym(RTLD_DEFAULT, "helper"));
    for (uint32_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        struct pto_callable *callable = load_flags(flags[i]);

        must_register(device, callable);
        run_and_expect(device, callable, 1, 3);
        assert_nothing_unexpected();
        assert_null(dlsym(RTLD_DEFAULT, "kernel_entry"));
        assert_null(dlopen("libkernel.so", RTLD_NOW | RTLD_NOLOAD));
        assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    }
    dlclose(global);
    assert_int_equal(pto_device_close(device), PTO_OK);
    free(other.at);
}

/* Also for objects that have neither a name nor a spare entry for the flag. */
static void an_object_without_flags_is_bound_to_itself(void **state)
{
    static const char *const flags[] = { ADD, ADD " -Wl,-soname,x", ADD " -Wl,-Bsymbolic",
                                         ADD " -Wl,--hash-style=sysv", ADD " -s -Wl,-z,now" };

    (void)state;
    for (uint32_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        struct bytes object = compile(kernel_text, flags[i]);
        struct elf_changes changes;

        assert_int_equal(elf_isolate(object.at, object.size, &changes, NULL), PTO_OK);
        assert_true(changes.is_bound_to_itself);
        assert_int_equal(changes.has_lost_name, i == 1);
        free(object.at);
    }
}

static void hooks_are_handed_over(void **state)
{
    static const char text[] =
        "#include <pto/kernel.h>\n"
        "static void *hook[2];\n"
        "void pto_sim_register_hooks(void *a, void *b) { hook[0] = a; hook[1] = b; }\n"
        "void kernel_entry(int64_t *args)\n"
        "{\n"
        "    int *out = (int *)pto_tensor_data(pto_arg_tensor(args, 2));\n"
        "    void *(*pipe)(uint64_t, size_t) = (void *(*)(uint64_t, size_t))hook[1];\n"
        "    out[0] = (int)((uint32_t (*)(void))hook[0])();\n"
        "    out[1] = pipe(5, 64) != 0 && pipe(5, 64) == pipe(5, 64);\n"
        "}\n";
    struct pto_device *device = open_device("a2a3sim", 0, 1);
    struct pto_callable *callable;
    struct call call;

    (void)state;
    callable = load_with_kernel(text);
    init_call(&call, 0);
    assert_int_equal(run_call(device, callable, &call), PTO_OK);
    assert_in_range(call.c[0], 0, 1);
    assert_int_equal(call.c[1], 1);
    close_all(device, callable, NULL);
}

static void assert_not_registered(struct pto_device *device, struct recipe *recipe, int status,
                                  const char *text)
{
    struct pto_callable *callable = load_recipe(recipe);
    struct pto_error error = { .size = sizeof(error) };
    struct call call;

    assert_int_equal(pto_register(device, callable, &error), status);
    assert_string_equal(error.text, text);
    assert_int_equal(error.status, status);
    init_call(&call, 0);
    assert_int_equal(run_call(device, callable, &call), status);
    assert_string_equal(report.error.text, text);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    assert_int_equal(object_count(), 0);
}

static void code_that_cannot_be_loaded_is_named(void **state)
{
    static const char lost[] = "int lost(void);\nvoid kernel_entry(void) { lost(); }\n";
    struct pto_device *device = open_device("a2a3sim", 0, 1);
    struct recipe recipe = add_recipe;
    struct bytes object;

    (void)state;
    recipe.parts.entry = "start";
    assert_not_registered(device, &recipe, PTO_ELOAD,
                          "the orchestration of \"binary\" has no function start; export it "
                          "(extern \"C\" in C++)");
    recipe = add_recipe;
    recipe.kernel.bytes = recipe.orchestration_bytes.at;
    recipe.kernel.size = recipe.orchestration_bytes.size;
    assert_not_registered(device, &recipe, PTO_ELOAD,
                          "kernel 0 (\"kernel\") of \"binary\" has no function kernel_entry; "
                          "export it (extern \"C\" in C++)");
    object = compile(lost, "");
    recipe.kernel.bytes = object.at;
    recipe.kernel.size = object.size;
    assert_not_registered(device, &recipe, PTO_ELOAD,
                          "kernel 0 (\"kernel\") of \"binary\" cannot be loaded: undefined symbol: "
                          "lost");
    recipe.kernel.size = 1000;
    assert_not_registered(device, &recipe, PTO_ELOAD,
                          "kernel 0 (\"kernel\") of \"binary\" cannot be loaded: it is damaged or "
                          "truncated: a segment lies outside of the file; build it again");
    recipe.kernel.bytes = "no object";
    recipe.kernel.size = 9;
    assert_not_registered(device, &recipe, PTO_ELOAD,
                          "kernel 0 (\"kernel\") of \"binary\" cannot be loaded: it is not a "
                          "shared object (ELF); build it again");
    free(object.at);
    object = compile(kernel_text, ADD);
    ((uint8_t *)object.at)[18] = 40; /* e_machine: 32-bit ARM */
    ((uint8_t *)object.at)[19] = 0;
    recipe.kernel.bytes = object.at;
    recipe.kernel.size = object.size;
    assert_not_registered(device, &recipe, PTO_ELOAD,
#if defined(__aarch64__)
                          "kernel 0 (\"kernel\") of \"binary\" cannot be loaded: it is code for "
                          "another machine (ELF machine 40), and this one is aarch64; build it for "
                          "this one");
#else
                          "kernel 0 (\"kernel\") of \"binary\" cannot be loaded: it is code for "
                          "another machine (ELF machine 40), and this one is x86-64; build it for "
                          "this one");
#endif
    free(object.at);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

/* ---- platforms ---- */

static void both_platforms_work_in_one_process(void **state)
{
    struct pto_device *a2a3 = open_device("a2a3sim", 0, 2), *a5 = open_device("a5sim", 0, 2);
    struct recipe recipe = subtract_recipe;
    struct pto_callable *add = load_add(), *subtract;
    struct pto_error error = { .size = sizeof(error) };

    (void)state;
    recipe.parts.platform = "a5sim";
    subtract = load_recipe(&recipe);
    for (int i = 0; i < 100; i++) {
        run_and_expect(a2a3, add, 1, i);
        run_and_expect(a5, subtract, -1, i);
    }
    assert_int_equal(pto_register(a2a3, subtract, &error), PTO_ENOSUP);
    assert_in(error.text, "\"binary\"");
    assert_in(error.text, "a5sim");
    assert_in(error.text, "a2a3sim");
    run_and_expect(a2a3, add, 1, 0);
    assert_int_equal(pto_device_close(a5), PTO_OK);
    close_all(a2a3, add, subtract);
}

/* ---- headers ---- */

static void callables_with_other_headers_do_not_meet(void **state)
{
    struct artefact_file files[2][3] = {
        { { "kernel.c", false, { { 1 } } },
          { "include/pto/common.hpp", true, { { 2 } } },
          { "include/pto/tile.hpp", true, { { 3 } } } },
        { { "kernel.c", false, { { 9 } } },
          { "include/pto/other.hpp", true, { { 7 } } },
          { "include/pto/tile.hpp", true, { { 4 } } } },
    };
    struct recipe recipe[2] = { add_recipe, subtract_recipe };
    struct pto_device *device = open_device("a2a3sim", 0, 1), *other;
    struct pto_callable *callable[3];
    struct pto_error error = { .size = sizeof(error) };

    (void)state;
    for (int i = 0; i < 2; i++) {
        recipe[i].parts.files = files[i];
        recipe[i].parts.file_count = 3;
        recipe[i].parts.name = i == 0 ? "first" : "second";
        callable[i] = load_recipe(&recipe[i]);
    }
    /* lists of sources may differ, and so may headers that only one of them has */
    recipe[1].parts.file_count = 2;
    callable[2] = load_recipe(&recipe[1]);
    must_register(device, callable[0]);
    assert_int_equal(pto_register(device, callable[1], &error), PTO_ESTALE);
    assert_string_equal(
        error.text,
        "\"second\" was made with another include/pto/tile.hpp than \"first\", which is "
        "registered: 0400000000000000 here, 0300000000000000 there; build both with the same "
        "headers");
    must_register(device, callable[2]);
    other = open_device("a2a3sim", 0, 1);
    must_register(other, callable[1]); /* each device has its own */
    assert_int_equal(pto_unregister(device, callable[0]), PTO_OK);
    must_register(device, callable[1]);
    assert_int_equal(pto_device_close(other), PTO_OK);
    assert_int_equal(pto_callable_destroy(callable[2]), PTO_OK);
    close_all(device, callable[0], callable[1]);
}

/* ---- in use ---- */

static void what_is_in_use_is_not_unregistered(void **state)
{
    struct pto_device *device = open_device("a2a3sim", 0, 1);
    struct pto_callable *add = load_add();
    struct pto_graph *graph;
    struct pto_run *run;
    struct call call;

    (void)state;
    assert_int_equal(pto_unregister(device, add), PTO_EINVAL);
    init_call(&call, 0);
    assert_int_equal(pto_run_prepare(device, add, &call.entry, NULL, &run), PTO_OK);
    assert_int_equal(pto_unregister(device, add), PTO_EBUSY);
    assert_int_equal(pto_callable_destroy(add), PTO_EBUSY);
    assert_int_equal(pto_run_finish(run, NULL), PTO_ECANCELED);
    assert_int_equal(pto_graph_build(device, add, &call.entry, NULL, NULL, &graph), PTO_OK);
    assert_int_equal(pto_unregister(device, add), PTO_EBUSY);
    assert_int_equal(pto_graph_run(graph, &call.entry, NULL, NULL), PTO_OK);
    assert_true(is_result(&call, 1));
    assert_int_equal(pto_unregister(device, add), PTO_EBUSY);
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
    assert_int_equal(pto_unregister(device, add), PTO_OK);
    assert_int_equal(pto_unregister(device, add), PTO_EINVAL);
    assert_int_equal(object_count(), 0);
    assert_int_equal(pto_register(device, NULL, NULL), PTO_EINVAL);
    assert_int_equal(pto_register(NULL, add, NULL), PTO_EINVAL);
    assert_int_equal(pto_unregister(NULL, add), PTO_EINVAL);
    run_and_expect(device, add, 1, 4);
    close_all(device, add, NULL);
}

static void a_closed_device_forgets_its_callables(void **state)
{
    struct pto_callable *add = load_add();

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct pto_device *device = open_device("a2a3sim", 0, 1);

        run_and_expect(device, add, 1, i);
        assert_int_equal(pto_device_close(device), PTO_OK);
        assert_int_equal(object_count(), 0);
    }
    close_all(NULL, add, NULL);
}

/* ---- fork ---- */

static uint32_t has_ended;

static void *register_forever(void *arg)
{
    struct worker_of *w = arg;

    while (load(&has_ended) == 0) {
        EXPECT(pto_register(w->device, w->add, NULL) == PTO_OK);
        EXPECT(pto_unregister(w->device, w->add) == PTO_OK);
    }
    return NULL;
}

/* A forked child can open a device; what its parent has registered elsewhere does not matter. */
static int run_as_child(struct pto_callable *add, struct pto_callable *subtract)
{
    struct pto_device *device;

    alarm(HANG_SECONDS);
    device = open_device("a2a3sim", 0, 1);
    run_and_expect(device, subtract, -1, 3);
    run_and_expect(device, add, 1, 3);
    EXPECT(pto_callable_destroy(add) == PTO_OK);
    EXPECT(pto_callable_destroy(subtract) == PTO_OK);
    return unexpected == NULL ? 0 : 1;
}

static void a_fork_may_come_while_code_is_loaded(void **state)
{
    struct pto_device *device = open_device("a2a3sim", 0, 1);
    struct pto_callable *add = load_add(), *subtract = load_subtract();
    struct worker_of worker = { .device = device, .add = add };

    (void)state;
    if (IS_TSAN) { /* TSan does not let a forked child start threads */
        close_all(device, add, subtract);
        skip();
    }
    must_register(device, subtract);
    has_ended = 0;
    assert_int_equal(pthread_create(&worker.thread, NULL, register_forever, &worker), 0);
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();
        int ended;

        assert_true(child >= 0);
        if (child == 0)
            _exit(run_as_child(add, subtract));
        assert_int_equal(waitpid(child, &ended, 0), child);
        assert_int_equal(ended, 0);
    }
    __atomic_store_n(&has_ended, 1, __ATOMIC_RELEASE);
    pthread_join(worker.thread, NULL);
    close_all(device, add, subtract);
}

/* ---- modes ---- */

static void the_artefacts_mode_is_that_of_runs_without_options(void **state)
{
    static const char text[] =
        "#include <pto/orch.h>\n"
        "void orchestrate(struct pto_orch *o, const struct pto_entry *e)\n"
        "{\n"
        "    pto_aiv(o, 0, PTO_IN(&e->tensor[0]), PTO_IN(&e->tensor[1]),\n"
        "            PTO_WRITE(&e->tensor[2]), PTO_INT(pto_is_streamed(o) ? 1 : 2));\n"
        "}\n";
    struct bytes object = compile(text, "");
    struct pto_device *device = open_device("a2a3sim", 0, 1);
    struct recipe recipe = add_recipe;
    struct pto_callable *callable;
    struct pto_run_options options;
    struct call call;

    (void)state;
    recipe.parts.orchestration = object.at;
    recipe.parts.orchestration_size = object.size;
    recipe.parts.mode = PTO_MODE_HOST;
    callable = load_recipe(&recipe);
    init_call(&call, 0);
    assert_int_equal(run_call(device, callable, &call), PTO_OK);
    assert_int_equal(call.c[0], call.a[0] + call.b[0] + 1000); /* the tag says 2 */
    pto_run_options_init(&options);
    assert_int_equal(pto_run(device, callable, &call.entry, &options, NULL), PTO_OK);
    assert_true(is_result(&call, 1));
    close_all(device, callable, NULL);
    free(object.at);
}

/* ---- limits ---- */

static void sixty_four_callables_fit_a_device(void **state)
{
    struct pto_device *device = open_device("a2a3sim", 0, 1);
    struct pto_callable *callable[65];
    struct pto_error error = { .size = sizeof(error) };

    (void)state;
    for (int i = 0; i < 65; i++) {
        struct recipe recipe = i % 2 == 0 ? add_recipe : subtract_recipe;
        char name[16];

        snprintf(name, sizeof(name), "number %d", i);
        recipe.parts.name = name;
        callable[i] = load_recipe(&recipe);
        if (i < 64)
            must_register(device, callable[i]);
    }
    assert_int_equal(pto_register(device, callable[64], &error), PTO_EAGAIN);
    assert_in(error.text, "64 callables");
    assert_in(error.text, "\"number 64\"");
    assert_int_equal(pto_unregister(device, callable[10]), PTO_OK);
    must_register(device, callable[64]);
    for (int i = 0; i < 65; i++)
        if (i != 10)
            run_and_expect(device, callable[i], i % 2 == 0 ? 1 : -1, i);
    for (int i = 1; i < 65; i++)
        assert_int_equal(pto_callable_destroy(callable[i]), PTO_OK);
    close_all(device, callable[0], NULL);
}

/* Makes copies of one object that differ in a number. */
static const char numbered_text[] =
    "#include <pto/kernel.h>\n"
    "const volatile uint64_t number = 0x5a5a1234c0dec0deull;\n"
    "void kernel_entry(int64_t *args)\n"
    "{ ((int *)pto_tensor_data(pto_arg_tensor(args, 0)))[args[1]] = (int)number; }\n";
static const char numbered_orchestration_text[] =
    "#include <pto/orch.h>\n"
    "void orchestrate(struct pto_orch *o, const struct pto_entry *e)\n"
    "{\n"
    "    for (int i = 0; i < 1024; i++)\n"
    "        pto_aiv(o, i, PTO_INOUT(&e->tensor[0]), PTO_INT(i));\n"
    "}\n";

static void number_object(void *at, size_t size, uint64_t number)
{
    const uint64_t mark = 0x5a5a1234c0dec0deull;
    char *found = memmem(at, size, &mark, sizeof(mark));

    assert_non_null(found);
    memcpy(found, &number, sizeof(number));
}

static void a_callable_has_1024_kernels(void **state)
{
    enum { COUNT = IS_SANITIZED ? 64 : 1024 };
    static const enum pto_direction inout[] = { PTO_DIR_INOUT };
    static struct artefact_kernel kernels[COUNT];
    struct bytes object = compile(numbered_text, "-s -nostdlib -Wl,-z,noseparate-code");
    struct bytes orchestration = compile(numbered_orchestration_text, "");
    struct pto_device *device = open_device("a2a3sim", 0, 1);
    struct recipe recipe = add_recipe;
    static int out[1024];
    const uint32_t shape[] = { 1024 };
    struct pto_tensor tensor = pto_tensor_external(out, shape, 1, PTO_INT32);
    const struct pto_entry entry = { 1, 0, &tensor, NULL };
    struct pto_callable *callable;
    int status;

    (void)state;
    for (uint32_t i = 0; i < COUNT; i++) {
        char *copy = malloc(object.size);

        memcpy(copy, object.at, object.size);
        number_object(copy, object.size, 5000 + i);
        kernels[i] = (struct artefact_kernel){ i, PTO_CORE_AIV, "n", copy, object.size };
    }
    recipe.parts.kernels = kernels;
    recipe.parts.kernel_count = COUNT;
    recipe.parts.signature = inout;
    recipe.parts.signature_count = 1;
    recipe.parts.orchestration = orchestration.at;
    recipe.parts.orchestration_size = orchestration.size;
    callable = load_recipe(&recipe);
    must_register(device, callable);
    assert_int_equal(objects_of(callable), COUNT + 1);
    pto_run_report_init(&report);
    status = pto_run(device, callable, &entry, NULL, &report);
    if (COUNT == 1024) {
        assert_int_equal(status, PTO_OK);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(out[i], 5000 + i);
    } else {
        assert_refused(status, PTO_EARGS, "there is no kernel 64; callable \"binary\" has 64");
    }
    close_all(device, callable, NULL);
    for (uint32_t i = 0; i < COUNT; i++)
        free((void *)(uintptr_t)kernels[i].bytes);
    free(object.at);
    free(orchestration.at);
}

static void too_few_descriptors_are_counted(void **state)
{
    struct pto_device *device = open_device("a2a3sim", 0, 1);
    struct pto_callable *add = load_add();
    struct rlimit before, limit;
    struct pto_error error = { .size = sizeof(error) };
    char expected[256];
    int status;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = (struct rlimit){ (rlim_t)next_descriptor(), before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    status = pto_register(device, add, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, PTO_ELOAD);
    snprintf(expected, sizeof(expected),
             "the orchestration of \"binary\" cannot be loaded: every descriptor is in use, and "
             "the system allows %d (ulimit -n); raise it, or close some",
             (int)limit.rlim_cur);
    assert_string_equal(error.text, expected);
    run_and_expect(device, add, 1, 2);
    close_all(device, add, NULL);
}

/* Parts of an object with different access rights are separate mappings. */
static void too_few_mappings_are_counted(void **state)
{
    struct pto_device *device = open_device("a2a3sim", 0, 1);
    struct pto_callable *add = load_add();
    struct pto_error error = { .size = sizeof(error) };
    unsigned long most = 0;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages;
    char *region;
    int status;

    (void)state;
    if (file == NULL || fscanf(file, "%lu", &most) != 1 || most > 300000 || IS_SANITIZED) {
        print_message("skipped: more mappings are allowed than a test should make\n");
        if (file != NULL)
            fclose(file);
        close_all(device, add, NULL);
        skip();
    }
    fclose(file);
    pages = most + 2;
    region =
        mmap(NULL, pages * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(region != MAP_FAILED);
    for (size_t i = 0; i < pages; i += 2)
        if (mprotect(region + i * page, page, PROT_READ) != 0)
            break; /* no more callables can be registered */
    status = pto_register(device, add, &error);
    munmap(region, pages * page);
    assert_int_equal(status, PTO_ELOAD);
    if (strstr(error.text, "(vm.max_map_count)") == NULL)
        fail_msg("%s", error.text);
    run_and_expect(device, add, 1, 2);
    close_all(device, add, NULL);
}

/* ---- prebuilt chip callables ---- */

/* A kernel that was declared without a core type may be submitted for either type. */
static void a_prebuilt_chip_callable_runs(void **state)
{
    static const char text[] =
        "#include <pto/orch.h>\n"
        "void orchestrate(struct pto_orch *o, const struct pto_entry *e)\n"
        "{\n"
        "    struct pto_tensor_info info = pto_tensor_info_make(e->tensor[0].shapes, 1,\n"
        "                                                       PTO_INT32);\n"
        "    struct pto_outputs sum;\n"
        "    sum = pto_aic(o, 0, PTO_IN(&e->tensor[0]), PTO_IN(&e->tensor[1]), PTO_OUT(&info),\n"
        "                  PTO_INT(1));\n"
        "    pto_aiv(o, 0, PTO_IN(sum.tensor), PTO_IN(&e->tensor[1]),\n"
        "            PTO_WRITE(&e->tensor[2]), PTO_INT(1));\n"
        "}\n";
    struct bytes object = compile(text, ""), artefact, blob;
    struct pto_device *device[] = { open_device("a2a3sim", 0, 2), open_device("a5sim", 0, 2) };
    struct pto_callable_info info = { .size = sizeof(info) };
    struct recipe recipe = add_recipe;
    struct pto_callable *callable;
    struct artefact_header header;
    struct call call;

    (void)state;
    recipe.parts.orchestration = object.at;
    recipe.parts.orchestration_size = object.size;
    artefact = make_artefact(&recipe);
    memcpy(&header, artefact.at, sizeof(header));
    blob = (struct bytes){ (char *)artefact.at + header.callable_offset, header.callable_size };
    callable = load_bytes(blob);
    assert_int_equal(pto_callable_info(callable, &info), PTO_OK);
    assert_int_equal(info.kind, PTO_CALLABLE_BLOB);
    assert_null(info.platform);
    for (int i = 0; i < 2; i++) { /* nor for a single platform */
        init_call(&call, 6);
        assert_int_equal(run_call(device[i], callable, &call), PTO_OK);
        for (int k = 0; k < N; k++)
            assert_int_equal(call.c[k], call.a[k] + 2 * call.b[k]);
    }
    assert_int_equal(pto_device_close(device[1]), PTO_OK);
    close_all(device[0], callable, NULL);
    free(artefact.at);
    free(object.at);
}

/* ---- */

static int begin(void **state)
{
    if (make_folder(state) != 0)
        return -1;
    add_recipe = make_recipe(ADD);
    subtract_recipe = make_recipe(SUBTRACT);
    return 0;
}

static int end(void **state)
{
    free_recipe(&add_recipe);
    free_recipe(&subtract_recipe);
    return remove_folder(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_runs_its_own_in_either_order),
        TEST(they_alternate_on_two_devices),
        TEST(a_parent_that_reduces_both_gets_2a),
        TEST(two_threads_alternate),
        TEST(threads_register_and_unregister_while_others_run),
        TEST(descriptors_are_used_again),
        TEST(files_go_with_their_process),
        TEST(the_same_content_is_loaded_once),
        TEST(static_data_starts_with_the_registration),
        TEST(objects_do_not_share_an_inline_static),
        TEST(an_object_keeps_to_itself),
        TEST(an_object_without_flags_is_bound_to_itself),
        TEST(hooks_are_handed_over),
        TEST(code_that_cannot_be_loaded_is_named),
        TEST(both_platforms_work_in_one_process),
        TEST(callables_with_other_headers_do_not_meet),
        TEST(what_is_in_use_is_not_unregistered),
        TEST(a_closed_device_forgets_its_callables),
        TEST(a_fork_may_come_while_code_is_loaded),
        TEST(the_artefacts_mode_is_that_of_runs_without_options),
        TEST(sixty_four_callables_fit_a_device),
        TEST(a_callable_has_1024_kernels),
        TEST(too_few_descriptors_are_counted),
        TEST(too_few_mappings_are_counted),
        TEST(a_prebuilt_chip_callable_runs),
    };

    return cmocka_run_group_tests(tests, begin, end);
}

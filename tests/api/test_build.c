/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/* Building by the library: objects, events, the store, refusals, cancellation. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "artefact/artefact.h"
#include "pto/build.h"
#include "tests/fixture/fixture.h"

static char store_path[80];

/* What the events of a build reported. */
struct recorded {
    uint32_t compiled;
    uint32_t reused;
    uint32_t compilers;
    char reason[1024];
    char output[4096];
    bool is_stopped;
};

static void note_event(void *context, const struct pto_build_event *event)
{
    struct recorded *recorded = context;

    assert_int_equal(event->size, sizeof(*event));
    assert_true(event->done <= event->total);
    recorded->compiled += event->kind == PTO_BUILD_COMPILED;
    recorded->reused += event->kind == PTO_BUILD_REUSED;
    recorded->compilers += event->kind == PTO_BUILD_COMPILER;
    if (event->kind == PTO_BUILD_COMPILING)
        snprintf(recorded->reason, sizeof(recorded->reason), "%s", event->text);
    if (event->kind == PTO_BUILD_OUTPUT || event->kind == PTO_BUILD_WARNING)
        snprintf(recorded->output, sizeof(recorded->output), "%s", event->text);
}

static bool is_stopped(void *context)
{
    return ((struct recorded *)context)->is_stopped;
}

static void write_file(const char *name, const char *text)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static int make_sources(void **state)
{
    unsetenv("CC");
    unsetenv("CXX");
    unsetenv("PTO_ISA_ROOT");
    if (make_folder(state) != 0 || chdir(folder) != 0)
        return -1;
    snprintf(store_path, sizeof(store_path), "%s/store", folder);
    setenv("HOME", folder, 1);
    write_file("orch.c", "#include <pto/orch.h>\n"
                         "void orchestrate(struct pto_orch *o, const struct pto_entry *e)\n"
                         "{ (void)o; (void)e; }\n");
    write_file("kernel.c", "#include <pto/kernel.h>\n#include \"value.h\"\n"
                           "void kernel_entry(int64_t *args) { args[0] = VALUE; }\n");
    write_file("value.h", "#define VALUE 1\n");
    return 0;
}

static const struct pto_source sources[] = {
    { .path = "orch.c", .kind = PTO_SOURCE_ORCHESTRATION },
    { .path = "kernel.c", .kind = PTO_SOURCE_KERNEL, .func_id = 7, .core = PTO_CORE_AIV },
};

static struct pto_build_params make_params(struct recorded *recorded)
{
    struct pto_build_params params;

    memset(recorded, 0, sizeof(*recorded));
    pto_build_params_init(&params);
    params.platform = "a5sim";
    params.sources = sources;
    params.source_count = 2;
    params.store = store_path;
    params.event = note_event;
    params.stop = is_stopped;
    params.context = recorded;
    params.jobs = 2;
    return params;
}

/* Builds, and expects an artefact with exactly these bytes. */
static void expect_build(const struct pto_build_params *params, const void *bytes, size_t size)
{
    struct pto_error error = { .size = sizeof(error) };
    size_t again_size;
    void *again;

    assert_int_equal(pto_build(params, &again, &again_size, &error), PTO_OK);
    assert_int_equal(again_size, size);
    assert_memory_equal(again, bytes, size);
    free(again);
}

static void a_build_packs_what_it_was_given(void **state)
{
    static const enum pto_direction signature[] = { PTO_DIR_IN, PTO_DIR_OUT };
    struct recorded recorded;
    struct pto_build_params params = make_params(&recorded);
    struct pto_error error = { .size = sizeof(error) };
    struct artefact artefact;
    struct artefact_kernel kernel;
    bool has_header = false;
    void *bytes;
    size_t size;

    (void)state;
    params.name = "thing";
    params.mode = PTO_MODE_HOST;
    params.signature = signature;
    params.signature_count = 2;
    assert_int_equal(pto_build(&params, &bytes, &size, &error), PTO_OK);
    assert_int_equal(recorded.compiled, 2);
    assert_int_equal(recorded.compilers, 1);
    assert_int_equal(artefact_read(bytes, size, &artefact, &error), PTO_OK);
    assert_string_equal(artefact.name, "thing");
    assert_string_equal(artefact.platform, "a5sim");
    assert_string_equal(artefact.entry, "orchestrate");
    assert_int_equal(artefact.mode, PTO_MODE_HOST);
    assert_int_equal(artefact.signature_count, 2);
    assert_int_equal(artefact_direction(&artefact, 1), PTO_DIR_OUT);
    assert_int_equal(artefact.kernel_count, 1);
    kernel = artefact_kernel_at(&artefact, 0);
    assert_int_equal(kernel.func_id, 7);
    assert_int_equal(kernel.core, PTO_CORE_AIV);
    assert_string_equal(kernel.name, "kernel");
    for (uint32_t i = 0; i < artefact.file_count; i++)
        has_header = has_header || strstr(artefact_file_at(&artefact, i).path, "/value.h") != NULL;
    assert_true(has_header);

    params = make_params(&recorded);
    params.name = "thing";
    params.mode = PTO_MODE_HOST;
    params.signature = signature;
    params.signature_count = 2;
    expect_build(&params, bytes, size);
    assert_int_equal(recorded.compiled, 0);
    assert_int_equal(recorded.reused, 2);
    /* The artefact is the same, whether it is made from stored objects or from sources. */
    params.is_explained = true;
    expect_build(&params, bytes, size);
    params.is_forced = true;
    expect_build(&params, bytes, size);
    assert_int_equal(recorded.compiled, 2);
    free(bytes);
}

/*
 * A program that includes a header from outside of its folder, as the runtime's own device programs
 * do.
 */
static void a_device_program_goes_through_the_same_store(void **state)
{
    const char *dirs[] = { folder };
    const char *flags[] = { "-DPLACE=1" };
    struct pto_source source = { .path = "program.c",
                                 .kind = PTO_SOURCE_ORCHESTRATION,
                                 .include_dirs = dirs,
                                 .include_dir_count = 1,
                                 .flags = flags,
                                 .flag_count = 1 };
    struct recorded recorded;
    struct pto_build_params params = make_params(&recorded);
    struct pto_error error = { .size = sizeof(error) };
    struct stat about;
    void *first, *bytes;
    size_t first_size, size;

    (void)state;
    write_file("program.c",
               "#include <outside.h>\nint program(void) { return CONSTANT + PLACE; }\n");
    write_file("outside.h", "#define CONSTANT 40\n");
    assert_int_equal(pto_compile(&params, &source, &first, &first_size, &error), PTO_OK);
    assert_int_equal(recorded.compiled, 1);
    assert_int_equal(stat("outside.h", &about), 0);
    write_file("outside.h", "#define CONSTANT 48\n");

    struct timespec stamps[] = { about.st_atim, about.st_mtim };

    assert_int_equal(utimensat(AT_FDCWD, "outside.h", stamps, 0), 0);
    assert_int_equal(pto_compile(&params, &source, &bytes, &size, &error), PTO_OK);
    assert_int_equal(recorded.compiled, 2);
    assert_non_null(strstr(recorded.reason, "/outside.h changed ("));
    assert_true(size != first_size || memcmp(bytes, first, size) != 0);
    free(bytes);
    write_file("outside.h", "#define CONSTANT 40\n");
    assert_int_equal(pto_compile(&params, &source, &bytes, &size, &error), PTO_OK);
    assert_int_equal(recorded.compiled, 2);
    assert_int_equal(size, first_size);
    assert_memory_equal(bytes, first, size);
    free(bytes);
    free(first);
}

static void what_the_compiler_says_comes_through(void **state)
{
    struct pto_source source = { .path = "wrong.c", .kind = PTO_SOURCE_HOST };
    struct recorded recorded;
    struct pto_build_params params = make_params(&recorded);
    struct pto_error error = { .size = sizeof(error) };
    void *bytes;
    size_t size;

    (void)state;
    write_file("wrong.c", "int wrong(void) { return nothing; }\n");
    assert_int_equal(pto_compile(&params, &source, &bytes, &size, &error), PTO_EBUILD);
    assert_non_null(strstr(recorded.output, "wrong.c:1:26: error:"));
    assert_non_null(strstr(error.text, "wrong.c does not compile"));
    write_file("wrong.c", "int wrong(void) { int unused; return 0; }\n");
    assert_int_equal(pto_compile(&params, &source, &bytes, &size, &error), PTO_OK);
    free(bytes);
    recorded.output[0] = '\0';
    assert_int_equal(pto_compile(&params, &source, &bytes, &size, &error), PTO_OK);
    assert_int_equal(recorded.reused, 1);
    assert_non_null(strstr(recorded.output, "unused variable"));
    free(bytes);
}

static void arguments_are_refused_in_sentences(void **state)
{
    struct pto_source bad[2] = { sources[0], sources[1] };
    struct recorded recorded;
    struct pto_build_params params = make_params(&recorded);
    struct pto_error error = { .size = sizeof(error) };
    void *bytes = &bytes;
    size_t size;

    (void)state;
    assert_int_equal(pto_build(NULL, &bytes, &size, &error), PTO_EINVAL);
    params.size = 8;
    assert_int_equal(pto_build(&params, &bytes, &size, NULL), PTO_EINVAL);
    params = make_params(&recorded);
    assert_int_equal(pto_build(&params, NULL, &size, &error), PTO_EINVAL);
    assert_int_equal(pto_compile(&params, NULL, &bytes, &size, &error), PTO_EINVAL);
    params.source_count = 0;
    assert_int_equal(pto_build(&params, &bytes, &size, &error), PTO_EINVAL);
    params = make_params(&recorded);
    params.sources = bad;
    bad[1].func_id = 1024;
    assert_int_equal(pto_build(&params, &bytes, &size, &error), PTO_EINVAL);
    assert_non_null(strstr(error.text, "the kernel id 1024 is above 1023"));
    bad[1].func_id = 0;
    bad[1].core = (enum pto_core_type)9;
    assert_int_equal(pto_build(&params, &bytes, &size, &error), PTO_EINVAL);
    bad[1] = sources[0];
    assert_int_equal(pto_build(&params, &bytes, &size, &error), PTO_EINVAL);
    assert_non_null(strstr(error.text, "one orchestration, not 2"));
    bad[1].path = NULL;
    assert_int_equal(pto_build(&params, &bytes, &size, &error), PTO_EINVAL);
    bad[1] = sources[1];
    bad[1].flags = NULL;
    bad[1].flag_count = 1;
    assert_int_equal(pto_build(&params, &bytes, &size, &error), PTO_EINVAL);
    assert_non_null(strstr(error.text, "a flag or a folder of it is NULL"));
    assert_int_equal(pto_compile(&params, &bad[1], &bytes, &size, &error), PTO_EINVAL);
    assert_ptr_equal(bytes, &bytes); /* outputs are set on success only */
}

static void a_build_can_be_given_up(void **state)
{
    struct recorded recorded;
    struct pto_build_params params = make_params(&recorded);
    struct pto_error error = { .size = sizeof(error) };
    void *bytes;
    size_t size;

    (void)state;
    params.is_forced = true;
    recorded.is_stopped = true;
    assert_int_equal(pto_build(&params, &bytes, &size, &error), PTO_ECANCELED);
    recorded.is_stopped = false;
    assert_int_equal(pto_build(&params, &bytes, &size, &error), PTO_OK);
    free(bytes);
}

static void *build_in_thread(void *arg)
{
    struct recorded recorded;
    struct pto_build_params params = make_params(&recorded);
    struct pto_error error = { .size = sizeof(error) };
    void *bytes = NULL;
    size_t size;

    params.is_forced = true;
    *(int *)arg = pto_build(&params, &bytes, &size, &error);
    free(bytes);
    return NULL;
}

static void threads_build_at_the_same_time(void **state)
{
    pthread_t thread[3];
    int status[3];

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, build_in_thread, &status[i]), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(status[i], PTO_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_build_packs_what_it_was_given),
        cmocka_unit_test(a_device_program_goes_through_the_same_store),
        cmocka_unit_test(what_the_compiler_says_comes_through),
        cmocka_unit_test(arguments_are_refused_in_sentences),
        cmocka_unit_test(a_build_can_be_given_up),
        cmocka_unit_test(threads_build_at_the_same_time),
    };

    return cmocka_run_group_tests(tests, make_sources, remove_folder);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callables from shared objects: which file is loaded, what the object must define, and which code
 * is executed by loading.
 */
#include <dlfcn.h>

#include "tests/fixture/open_test.h"

static const char source[] =
    "#include \"pto/pto.h\"\n"
    "static void kernel(int64_t *args)\n"
    "{ ++*(uint32_t *)pto_tensor_data(pto_arg_tensor(args, 0)); }\n"
    "static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)\n"
    "{ pto_aiv(o, 0, PTO_INOUT(&entry->tensor[0])); pto_aiv(o, 0, PTO_INOUT(&entry->tensor[0])); "
    "}\n"
    "static const struct pto_kernel kernels[] = { { \"k\", kernel, PTO_CORE_AIV } };\n"
    "#define GOOD { sizeof(struct pto_callable_params), \"c\", orchestrate, kernels, 1 }\n"
    "const struct pto_callable_params pto_callable = GOOD;\n"
    "const struct pto_callable_params another = GOOD;\n"
    "const struct pto_callable_params small = { 8, \"c\", orchestrate, kernels, 1 };\n"
    "const struct pto_callable_params large = { 4096, \"c\", orchestrate, kernels, 1 };\n"
    "const struct pto_callable_params idle = { sizeof(struct pto_callable_params) };\n";

static char folder[] = "/tmp/pto_load_XXXXXX";
static char object[64], empty_object[64], text_file[64], marked_object[64];
static uint32_t words[16];

/* A constructor that sets an environment variable, so that loading the object is noticed. */
static const char marked_source[] = "#include <stdlib.h>\n"
                                    "__attribute__((constructor)) static void mark(void) { "
                                    "setenv(\"PTO_TEST_MARK\", \"1\", 1); }\n";

static bool compile(const char *text, const char *name, const char *flag, char *path)
{
    char command[512], c_path[64];
    FILE *file;

    snprintf(c_path, sizeof(c_path), "%.30s/%s.c", folder, name);
    snprintf(path, 64, "%.30s/%s.so", folder, name);
    file = fopen(c_path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    snprintf(command, sizeof(command), "cc -std=gnu11 -shared -fPIC -Iinclude %s -o %s %s", flag,
             path, c_path);
    return system(command) == 0;
}

static int make_objects(void **state)
{
    FILE *file;

    (void)state;
    if (system("command -v cc >/dev/null") != 0 || access("include/pto/pto.h", R_OK) != 0)
        return 0;
    if (mkdtemp(folder) == NULL)
        return -1;
    if (!compile(source, "good", "", object) ||
        !compile("int nothing;\n", "empty", "", empty_object) ||
        !compile(marked_source, "marked", "", marked_object))
        return -1;
    snprintf(text_file, sizeof(text_file), "%.30s/text.so", folder);
    file = fopen(text_file, "w");
    if (file == NULL)
        return -1;
    fputs("this is not a shared object\n", file);
    fclose(file);
    return 0;
}

static int remove_objects(void **state)
{
    char command[128];

    (void)state;
    if (object[0] == '\0')
        return 0;
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command) == 0 ? 0 : -1;
}

static bool has_objects(void)
{
    if (object[0] == '\0')
        print_message("skipped: no compiler named cc, or not in the root of the tree\n");
    return object[0] != '\0';
}

static bool is_mapped(const char *path)
{
    FILE *file = fopen("/proc/self/maps", "r");
    bool has_found = false;
    char line[512];

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        has_found = has_found || strstr(line, path) != NULL;
    fclose(file);
    return has_found;
}

static void a_callable_is_loaded_from_a_shared_object(void **state)
{
    struct pto_tensor tensor = pto_tensor_external(words, PTO_DIMS(16), 1, PTO_UINT32);
    const struct pto_entry entry = { 1, 0, &tensor, NULL };
    struct pto_callable *callable = NULL, *other = NULL;
    struct pto_device *device;
    struct pto_run *run;

    (void)state;
    if (!has_objects())
        skip();
    device = open_device("a2a3sim", 0, 1);
    words[0] = 0;
    assert_int_equal(pto_callable_load(object, NULL, &callable, NULL), PTO_OK);
    assert_int_equal(pto_callable_load(object, "another", &other, NULL), PTO_OK);
    assert_null(dlsym(RTLD_DEFAULT, "another"));
    assert_int_equal(pto_run(device, callable, &entry, NULL, NULL), PTO_OK);
    assert_int_equal(words[0], 2);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    assert_true(is_mapped(object));
    assert_int_equal(pto_run_prepare(device, other, &entry, NULL, &run), PTO_OK);
    assert_int_equal(pto_callable_destroy(other), PTO_EBUSY);
    assert_int_equal(pto_run_launch(run), PTO_OK);
    assert_int_equal(pto_run_wait(run, 0), PTO_OK);
    assert_int_equal(words[0], 4);
    assert_int_equal(pto_run_finish(run, NULL), PTO_OK);
    assert_int_equal(pto_callable_destroy(other), PTO_OK);
    assert_false(is_mapped(object));
    pto_device_close(device);
}

static void assert_refused_load(const char *path, const char *symbol, int status, const char *text)
{
    struct pto_callable *callable = NULL;
    struct pto_error error = { .size = sizeof(error) };

    memset(&error, 0xff, sizeof(error));
    error.size = sizeof(error);
    assert_int_equal(pto_callable_load(path, symbol, &callable, &error), status);
    assert_null(callable);
    assert_int_equal(error.status, status);
    assert_int_equal(error.kernel, -1);
    assert_false(pto_task_id_is_valid(error.task));
    assert_non_null(strstr(error.text, path));
    assert_non_null(strstr(error.text, text));
    assert_int_equal(pto_callable_load(path, symbol, &callable, NULL), status);
    assert_null(callable);
    assert_false(is_mapped(path));
}

static void assert_not_loaded(const char *path, const char *symbol, const char *text)
{
    assert_refused_load(path, symbol, PTO_ELOAD, text);
}

static void a_shared_object_that_cannot_be_loaded_tells_why(void **state)
{
    char named[300];
    struct pto_callable *callable = NULL;

    (void)state;
    if (!has_objects())
        skip();
    assert_not_loaded("/nowhere/at_all.so", NULL, "No such file");
    assert_not_loaded("libanl.so.1", NULL, "No such file"); /* although the loader would find one */
    snprintf(named, sizeof(named), "%s.ptoc", object);
    assert_int_equal(symlink(object, named), 0);
    assert_refused_load(named, NULL, PTO_EFORMAT, "a shared object, not an artefact");
    assert_int_equal(unlink(named), 0);
    assert_false(is_mapped(object)); /* no constructor has run */
    assert_refused_load(text_file, NULL, PTO_EFORMAT, "neither an artefact");
    assert_not_loaded(empty_object, NULL, "pto_callable");
    assert_not_loaded(object, "small", "not valid");
    assert_not_loaded(object, "large", "not valid");
    assert_not_loaded(object, "idle", "not valid");
    assert_int_equal(pto_callable_load(NULL, NULL, &callable, NULL), PTO_EINVAL);
    assert_int_equal(pto_callable_load(object, NULL, NULL, NULL), PTO_EINVAL);
    assert_null(callable);
}

static void a_symbol_that_is_missing_is_named(void **state)
{
    (void)state;
    if (!has_objects())
        skip();
    assert_not_loaded(object, "no_such_symbol", "no_such_symbol");
}

/*
 * A name without a folder is a file in the current folder, which was checked, and not what the
 * loader would find by that name: another object of that name is in the process, and has no
 * callable.
 */
static void a_bare_name_is_that_of_a_file_here(void **state)
{
    struct pto_tensor tensor = pto_tensor_external(words, PTO_DIMS(16), 1, PTO_UINT32);
    const struct pto_entry entry = { 1, 0, &tensor, NULL };
    struct pto_callable *callable = NULL;
    char decoy[64], here[512];
    struct pto_device *device;
    void *loaded;

    (void)state;
    if (!has_objects())
        skip();
    assert_true(compile("int nothing;\n", "decoy", "-Wl,-soname,good.so", decoy));
    loaded = dlopen(decoy, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(loaded);
    assert_ptr_equal(dlopen("good.so", RTLD_NOW | RTLD_LOCAL),
                     loaded); /* otherwise the loader would find the wrong object */
    dlclose(loaded);
    assert_non_null(getcwd(here, sizeof(here)));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(pto_callable_load("good.so", NULL, &callable, NULL), PTO_OK);
    assert_int_equal(chdir(here), 0);
    assert_true(is_mapped(object));
    device = open_device("a2a3sim", 0, 1);
    words[0] = 0;
    assert_int_equal(pto_run(device, callable, &entry, NULL, NULL), PTO_OK);
    assert_int_equal(words[0], 2);
    pto_device_close(device);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    dlclose(loaded);
}

/* With artefact_only, or when only the name is read, no code of a shared object is executed. */
static void a_shared_object_that_is_to_be_an_artefact_runs_nothing(void **state)
{
    struct pto_callable *callable = NULL;
    struct pto_error error = { .size = sizeof(error) };
    char named[300];

    (void)state;
    if (!has_objects())
        skip();
    snprintf(named, sizeof(named), "%s.ptoc", marked_object);
    assert_int_equal(symlink(marked_object, named), 0);
    assert_int_equal(pto_callable_load_file(marked_object, NULL, &callable, &error), PTO_EFORMAT);
    assert_non_null(strstr(error.text, "shared object"));
    assert_int_equal(pto_callable_load_file(named, NULL, &callable, NULL), PTO_EFORMAT);
    assert_int_equal(pto_callable_load(named, NULL, &callable, NULL), PTO_EFORMAT);
    assert_null(getenv("PTO_TEST_MARK"));
    assert_false(is_mapped(marked_object));
    assert_null(callable);
    assert_not_loaded(marked_object, NULL, "pto_callable");
    /* otherwise the constructor would have been noticed */
    assert_non_null(getenv("PTO_TEST_MARK"));
    assert_int_equal(unlink(named), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_callable_is_loaded_from_a_shared_object),
        cmocka_unit_test(a_shared_object_that_cannot_be_loaded_tells_why),
        cmocka_unit_test(a_symbol_that_is_missing_is_named),
        cmocka_unit_test(a_bare_name_is_that_of_a_file_here),
        cmocka_unit_test(a_shared_object_that_is_to_be_an_artefact_runs_nothing),
    };

    return cmocka_run_group_tests(tests, make_objects, remove_objects);
}

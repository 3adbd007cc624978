/* SPDX-License-Identifier: Apache-2.0 */
/* Code: the objects of the suite, and tests of what is loaded, isolated and refused. */
#include <stdio.h>

#include "base/file.h"
#include "tests/conformance/suite.h"

struct chip_object suite_orchestration;
struct chip_kernel suite_kernels[KERNELS];

static struct chip_object host_orchestration; /* the same kernels, compiled for this machine */

static struct chip_object other_orchestration; /* the same names, but other results */

/* ---- what is compiled ---- */

/* The names of functions are loaded by tests; failures must report these line numbers. */
static const char orchestration_text[] =
    "#line 1 \"suite_orchestration.c\"\n"
    "#include <pto/orch.h>\n"
    "enum { ADD, SCALE, BLOCK, LANE, BEYOND, DEFER, GATE, CRASH };\n"
    "#define T(i) (&e->tensor[i])\n"
    "#define ORCH(name) void name(struct pto_orch *o, const struct pto_entry *e)\n"
    "int offset = TAG;\n"
    "int helper(int x) { return x + offset; }\n"
    "static struct pto_tensor_info like(const struct pto_tensor *t)\n"
    "{ return pto_tensor_info_make(t->shapes, t->ndims, (enum pto_dtype)t->dtype); }\n"

    "ORCH(vector)\n"
    "{\n"
    "    struct pto_tensor_info info = like(T(0));\n"
    "    PTO_SCOPE(o) {\n"
    "        struct pto_outputs sum = pto_aiv(o, ADD, PTO_IN(T(0)), PTO_IN(T(1)), "
    "PTO_OUT(&info));\n"
    "        pto_aiv(o, SCALE, PTO_INOUT(sum.tensor), PTO_PASS(0));\n"
    "        pto_dummy(o, PTO_IN(sum.tensor));\n"
    "        pto_aiv(o, ADD, PTO_IN(sum.tensor), PTO_IN(T(1)), PTO_WRITE(T(2)));\n"
    "    }\n"
    "}\n"
    "ORCH(blocks) { pto_aiv(o, BLOCK, PTO_WRITE(T(0)), PTO_BLOCKS(40)); }\n"
    "ORCH(tagged) { pto_set_data(o, T(0), 0, NULL, (uint64_t)helper(1000)); }\n"

    /* Outputs with initial values, in nested scopes, views, and allocations. */
    "ORCH(scopes)\n"
    "{\n"
    "    struct pto_tensor_info info = like(T(0));\n"
    "    pto_tensor_info_fill(&info, 7);\n"
    "    struct pto_outputs outer = pto_alloc(o, PTO_OUT(&info));\n"
    "    for (uint32_t i = 0; i < 20; i++)\n"
    "        PTO_SCOPE(o) {\n"
    "            struct pto_outputs inner = pto_alloc(o, PTO_OUT(&info));\n"
    "            PTO_SCOPE(o)\n"
    "                pto_aiv(o, SCALE, PTO_INOUT(inner.tensor), PTO_INT(2));\n"
    "            pto_aiv(o, ADD, PTO_IN(outer.tensor), PTO_IN(inner.tensor), "
    "PTO_WRITE(outer.tensor));\n"
    "        }\n"
    "    struct pto_tensor half = pto_tensor_view(T(0), PTO_DIMS(4), PTO_DIMS(4));\n"
    "    struct pto_tensor part = pto_tensor_view(outer.tensor, PTO_DIMS(4), PTO_DIMS(0));\n"
    "    pto_aiv(o, ADD, PTO_IN(&part), PTO_IN(&part), PTO_WRITE(&half));\n"
    "}\n"

    /* Single elements, scalars, predicates. */
    "ORCH(elements)\n"
    "{\n"
    "    pto_aiv(o, SCALE, PTO_INOUT(T(0)), PTO_INT(3));\n"
    "    uint64_t x = PTO_GET(o, T(0), 2);\n"
    "    pto_set_data(o, T(0), 1, PTO_DIMS(0), x + pto_scalar(o, 0));\n"
    "    pto_aiv(o, SCALE, PTO_INOUT(T(1)), PTO_INT(10), PTO_IF(T(0), GT, 0, 1));\n"
    "    pto_aiv(o, SCALE, PTO_INOUT(T(1)), PTO_INT(7), PTO_IF(T(0), LT, 0, 1));\n"
    "    pto_set_data(o, T(0), 1, PTO_DIMS(3), pto_cluster_count(o) * 100 + pto_aiv_count(o));\n"
    "}\n"
    "ORCH(lanes) { pto_mix(o, PTO_LANES(-1, LANE, LANE), PTO_WRITE(T(0))); }\n"
    "ORCH(gang) { pto_aiv(o, BLOCK, PTO_WRITE(T(0)), PTO_GANG(4)); }\n"
    "ORCH(beyond) { pto_aiv(o, BEYOND, PTO_WRITE(T(0))); }\n"
    "ORCH(defers) { pto_aiv(o, DEFER, PTO_AFTER(T(0))); }\n"
    "ORCH(waits) { pto_aiv(o, GATE, PTO_AFTER(T(0))); }\n"
    "ORCH(crashes) { pto_aiv(o, ADD, PTO_IN(T(0)), PTO_IN(T(0)), PTO_WRITE(T(1)));\n"
    "                pto_aiv(o, CRASH, PTO_IN(T(1))); }\n"
    "ORCH(endless)\n"
    "{\n"
    "    while (pto_orch_status(o) >= 0)\n"
    "        pto_aiv(o, SCALE, PTO_INOUT(T(0)), PTO_INT(1));\n"
    "}\n"
    "ORCH(large)\n"
    "{\n"
    "    struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(1 << 30), 1, PTO_INT32);\n"
    "    pto_alloc(o, PTO_OUT(&info));\n"
    "}\n"
    "#line 1000\n"
    "ORCH(unknown_kernel) { pto_aiv(o, 99, PTO_INOUT(T(0))); }\n"
    "ORCH(other_core) { pto_aic(o, SCALE, PTO_INOUT(T(0)), PTO_INT(1)); }\n"
    "ORCH(bad_view)\n"
    "{\n"
    "    struct pto_tensor v = pto_tensor_view(T(0), PTO_DIMS(9), PTO_DIMS(1));\n"
    "    pto_aiv(o, ADD, PTO_IN(T(0)), PTO_IN(&v), PTO_WRITE(T(0)));\n" /* 1005 */
    "}\n"
    "ORCH(bad_bounds)\n"
    "{\n"
    "    struct pto_tensor v = *T(0);\n"
    "    v.start = 1;\n"
    "    pto_aiv(o, SCALE, PTO_INOUT(&v), PTO_INT(1));\n" /* 1011 */
    "}\n"
    "ORCH(bad_element) { (void)PTO_GET(o, T(0), 1000); }\n"
    "ORCH(bad_scalar) { pto_aiv(o, SCALE, PTO_INOUT(T(0)), PTO_PASS(5)); }\n"
    "ORCH(gives_up) { (void)pto_orch_fail(o, PTO_EORCH, \"no such model\"); }\n"
    "ORCH(open_scope) { pto_scope_begin(o, PTO_SCOPE_AUTO); }\n" /* 1016 */
    "ORCH(ends_scope) { pto_scope_end(o); }\n";

static const char kernel_text[] =
    "#include <pto/kernel.h>\n"
    "#ifdef PTO_ON_CORE\n" /* which has no library, and no variables; about a second each */
    "#define NOW() (get_sys_cnt() >> 26)\n"
    "#define offset TAG\n"
    "#else\n"
    "#include <time.h>\n"
    "#define NOW() time(NULL)\n"
    "int offset = TAG;\n" /* the orchestration has the same names */
    "#endif\n"
    "PTO_AICORE int helper(int x) { return x + offset; }\n"
    "#define AT(i) PTO_ARG(args, i, volatile int32_t)\n"
    "#define WORD(i) (PTO_ARG(args, 0, uint32_t) + i)\n"
    "#define COUNT (pto_arg_tensor(args, 0)->shapes[0])\n"
    "PTO_KERNEL(args) { BODY }\n";

/* Upper limit of the time that a kernel waits for an action of the test. */
#define UNTIL_LATE(condition) \
    "for (int64_t end = NOW() + 60; !(" condition ") && NOW() < end;) pto_pause();"

static const struct {
    const char *name;
    const char *body;
} kernels[KERNELS] = {
    [KERNEL_ADD] = { "add", "for (uint32_t i = 0; i < COUNT; i++)"
                            " AT(2)[i] = AT(0)[i] + AT(1)[i] + helper(0);" },
    [KERNEL_SCALE] = { "scale", "for (uint32_t i = 0; i < COUNT; i++)"
                                " AT(0)[i] *= (int32_t)args[1];" },
    [KERNEL_BLOCK] = { "block", "AT(0)[pto_block_index(args)] ="
                                " 100 * pto_block_count(args) + pto_block_index(args);" },
    [KERNEL_LANE] = { "lane", "AT(0)[pto_sub_block(args)] = 100 + pto_sub_block(args);" },
    [KERNEL_BEYOND] = { "beyond", "AT(0)[COUNT] = 1;" },
    [KERNEL_DEFER] = { "defer", "pto_defer(args, WORD(0), 1);" },
    [KERNEL_GATE] = { "gate",
                      "pto_notify_set(WORD(0), 1);" UNTIL_LATE("pto_notified(WORD(1)) != 0") },
    [KERNEL_CRASH] = { "crash", "*(volatile int *)8 = (int)args[0];" },
};

static struct chip_object compile(const char *name, const char *text, const char *compiler,
                                  const char *kind, const char *flags)
{
    struct chip_object object = { .name = name };
    char folder[] = "/tmp/pto_conformance_XXXXXX", command[2048], path[64];
    char *bytes = NULL;

    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/object.c", folder);
    assert_int_equal(file_write(path, text, strlen(text)), PTO_OK);
    snprintf(command, sizeof(command), "%s -O1 -fPIC %s -Iinclude %s -o %s/object %s/object.c",
             compiler, kind, flags, folder, folder);
    assert_int_equal(system(command), 0);
    snprintf(path, sizeof(path), "%s/object", folder);
    assert_int_equal(file_read(path, 1 << 24, &bytes, &object.size), PTO_OK);
    object.bytes = bytes;
    snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    return object;
}

struct chip_object suite_compile_object(const char *name, const char *text, const char *flags)
{
    return compile(name, text, "${ORCHESTRATION_CC:-${CC:-gcc}}", "-std=gnu11 -shared", flags);
}

/*
 * Kernels of real chips are programs without a library, linked to a fixed address. This script
 * plays the vendor's tools: as a compiler it makes an object at the path after -o, as a linker it
 * makes a program from it.
 */
static struct chip_object compile_kernel(uint32_t kernel, int tag)
{
    bool is_linked = strcmp(suite_backend->name, "cann") == 0;
    char flags[1024];

    snprintf(flags, sizeof(flags), "'-DBODY=%s' -DTAG=%d", kernels[kernel].body, tag);
    if (!is_linked)
        return compile(kernels[kernel].name, kernel_text, "${CC:-gcc}", "-std=gnu11 -shared",
                       flags);
    return compile(kernels[kernel].name, kernel_text,
                   "for_core() { \"$ASCEND_HOME_PATH/bin/ccec\" \"$@\" && "
                   "for at; do [ \"$last\" != -o ] || object=$at; last=$at; done && "
                   "ld -static -e kernel_entry -o \"$object.p\" \"$object\" && "
                   "mv \"$object.p\" \"$object\"; }; for_core",
                   "-c -x cce --cce-aicore-arch=dav-c220-vec", flags);
}

int suite_compile(void **state)
{
    (void)state;
    suite_orchestration = suite_compile_object("suite", orchestration_text, "-DTAG=1");
    host_orchestration =
        compile("suite", orchestration_text, "${CC:-gcc}", "-std=gnu11 -shared", "-DTAG=1");
    other_orchestration = suite_compile_object("other", orchestration_text, "-DTAG=2");
    for (uint32_t i = 0; i < KERNELS; i++)
        suite_kernels[i] = (struct chip_kernel){ compile_kernel(i, 0), i, PTO_CORE_AIV };
    return 0;
}

int suite_free_objects(void **state)
{
    (void)state;
    free((void *)(uintptr_t)suite_orchestration.bytes);
    free((void *)(uintptr_t)host_orchestration.bytes);
    free((void *)(uintptr_t)other_orchestration.bytes);
    for (uint32_t i = 0; i < KERNELS; i++)
        free((void *)(uintptr_t)suite_kernels[i].object.bytes);
    return 0;
}

static struct chip_program program_of(const char *entry)
{
    return (struct chip_program){ .name = "suite",
                                  .orchestration = suite_orchestration,
                                  .entry = entry,
                                  .kernels = suite_kernels,
                                  .kernel_count = KERNELS };
}

static struct chip_code *load(const struct chip_program *program)
{
    struct pto_error error = { .size = sizeof(error) };
    struct chip_code *code = NULL;

    if (chip_load(suite_chip, program, &code, &error) < 0)
        fail_msg("%s", error.text);
    assert_non_null(code);
    return code;
}

struct chip_code *suite_load_for(const char *entry, enum pto_mode mode)
{
    struct chip_program program = program_of(entry);

    program.mode = mode;
    if (mode == PTO_MODE_HOST)
        program.orchestration = host_orchestration;
    return load(&program);
}

struct chip_code *suite_load(const char *entry)
{
    return suite_load_for(entry, PTO_MODE_STREAM);
}

/* ---- tests ---- */

static uint32_t run_tagged(struct chip_code *code)
{
    uint64_t addr = suite_buffer(8);
    struct suite_run run;
    uint32_t result;

    suite_run_init(&run, code);
    suite_add_tensor(&run, addr, 8);
    assert_int_equal(suite_execute(&run), PTO_OK);
    result = suite_word(addr, 0);
    assert_int_equal(chip_free(suite_chip, addr, NULL), PTO_OK);
    return result;
}

static void programs_with_the_same_names_stay_apart(void **state)
{
    struct chip_program program = program_of("tagged");
    struct chip_code *code[4];

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        program.orchestration = i % 2 == 0 ? suite_orchestration : other_orchestration;
        code[i] = load(&program);
    }
    for (uint32_t round = 0; round < 3; round++)
        for (uint32_t i = 0; i < 4; i++)
            assert_int_equal(run_tagged(code[i]), i % 2 == 0 ? 1001 : 1002);
    for (uint32_t i = 0; i < 2; i++)
        chip_unload(suite_chip, code[i]);
    for (uint32_t i = 2; i < 4; i++)
        assert_int_equal(run_tagged(code[i]), i % 2 == 0 ? 1001 : 1002);
    chip_unload(suite_chip, code[2]);
    chip_unload(suite_chip, code[3]);
    chip_unload(suite_chip, NULL);
}

/* A kernel that was compiled again under the same name replaces the old one. */
static void a_kernel_is_replaced(void **state)
{
    struct chip_kernel own[KERNELS];
    struct chip_program program = program_of("vector");
    struct chip_code *before = load(&program), *after;
    uint64_t a, c;
    struct suite_run run;

    (void)state;
    memcpy(own, suite_kernels, sizeof(own));
    own[KERNEL_ADD].object = compile_kernel(KERNEL_ADD, 1);
    program.kernels = own;
    after = load(&program);
    free((void *)(uintptr_t)own[KERNEL_ADD].object.bytes); /* the files are not needed any more */
    a = suite_buffer(4);
    c = suite_buffer(4);
    for (uint32_t i = 0; i < 2; i++) {
        suite_run_init(&run, i == 0 ? after : before);
        suite_add_tensor(&run, a, 4);
        suite_add_tensor(&run, a, 4);
        suite_add_tensor(&run, c, 4);
        suite_add_scalar(&run, 10);
        assert_int_equal(suite_execute(&run), PTO_OK);
        assert_int_equal(suite_word(c, 0), i == 0 ? 11 : 0);
    }
    chip_unload(suite_chip, before);
    chip_unload(suite_chip, after);
}

static void code_is_loaded_many_times(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 50; i++) {
        struct chip_code *code = suite_load(i % 2 == 0 ? "vector" : "blocks");

        if (i % 10 == 0)
            assert_int_equal(suite_run_vector(code, (int32_t)i), PTO_OK);
        chip_unload(suite_chip, code);
    }
}

static void assert_load_refused(const struct chip_program *program, const char *words)
{
    struct pto_error error = { .size = sizeof(error) };
    struct chip_code *code = NULL;

    assert_int_equal(chip_load(suite_chip, program, &code, &error), PTO_ELOAD);
    assert_int_equal(error.status, PTO_ELOAD);
    assert_null(code);
    if (strstr(error.text, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.text, words);
    assert_int_equal(chip_load(suite_chip, program, &code, NULL), PTO_ELOAD);
}

static void what_cannot_be_loaded_is_named(void **state)
{
    struct chip_program program = program_of("vector");
    struct chip_kernel own[KERNELS];

    (void)state;
    program.entry = "no_such_function";
    assert_load_refused(&program, "no_such_function");
    program = program_of("vector");
    program.orchestration.bytes = "this is no object";
    program.orchestration.size = 17;
    assert_load_refused(&program, "suite");
    program = program_of("vector");
    program.orchestration.size /= 2;
    assert_load_refused(&program, "suite");
    program = program_of("vector");
    memcpy(own, suite_kernels, sizeof(own));
    own[KERNEL_GATE].object.bytes = suite_orchestration.bytes;
    own[KERNEL_GATE].object.size = suite_orchestration.size;
    program.kernels = own;
    assert_load_refused(&program, "kernel_entry");
    assert_load_refused(&program, "gate");
}

const struct CMUnitTest suite_code[] = {
    SUITE_TEST(programs_with_the_same_names_stay_apart),
    SUITE_TEST(a_kernel_is_replaced),
    SUITE_TEST(code_is_loaded_many_times),
    SUITE_TEST(what_cannot_be_loaded_is_named),
};
SUITE_COUNT(suite_code);

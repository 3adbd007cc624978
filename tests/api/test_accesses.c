/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain - asan: the kernels are not sanitized, and the library's side is in test_touched */
/*
 * Checked accesses, with random graphs of compiled kernels: tasks have views of any shape and
 * strides, with any tags. One task of a graph makes an access that is not allowed; the error must
 * name that task, argument, element and line. Graphs without such an access must succeed.
 * PTO_TEST_LONG=1: 10 000 graphs of each kind.
 */
#include "pto/build.h"
#include "tests/accesses/plan.h"
#include "tests/fixture/open_test.h"
#include "tests/fixture/random_test.h"

enum { PLACES = 10, PLACE = 1024, WORDS = PLACES * PLACE, TEXT = 400 };

/* ---- what is run ---- */

static struct {
    struct pto_device *device;
    struct pto_callable *callable;
    uint64_t memory; /* device memory with WORDS floats */
    uint32_t line[2][PLAN_WAYS];
    uint32_t submit_line;
} test;

/* Returns the number of the line of a source that has this text; 0: none. */
static uint32_t line_with(const char *path, const char *text)
{
    char line[256];
    uint32_t number = 0, found = 0;
    FILE *file = fopen(path, "r");

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        number++;
        if (strstr(line, text) != NULL)
            found = number;
    }
    fclose(file);
    return found;
}

static void find_lines(void)
{
    test.submit_line = line_with("tests/accesses/plan_orch.c", "/* submit */");
    assert_true(test.submit_line != 0);
    for (uint32_t w = 0; w < 2; w++)
        for (uint32_t way = 0; way < PLAN_WAYS; way++) {
            char text[32];

            snprintf(text, sizeof(text), "/* %s %u */", w != 0 ? "write" : "read", way);
            test.line[w][way] = line_with("tests/accesses/plan_kernel.c", text);
            assert_true(test.line[w][way] != 0 || (w == 0 && way == PLAN_MEMSET));
        }
}

static int open_all(void **state)
{
    static const char *const flags[PLAN_ARGS] = { "-DARGS=1", "-DARGS=2", "-DARGS=3", "-DARGS=4" };
    static const char *const names[PLAN_ARGS] = { "one", "two", "three", "four" };
    struct pto_source source[1 + PLAN_ARGS] = { { .path = "tests/accesses/plan_orch.c",
                                                  .kind = PTO_SOURCE_ORCHESTRATION } };
    struct pto_error error = { .size = sizeof(error) };
    struct pto_build_params params;
    char store[128];
    void *bytes;
    size_t size;

    if (make_folder(state) != 0)
        return -1;
    for (uint32_t i = 0; i < PLAN_ARGS; i++)
        source[1 + i] = (struct pto_source){ .path = "tests/accesses/plan_kernel.c",
                                             .func_id = 1 + i,
                                             .core = PTO_CORE_AIV,
                                             .name = names[i],
                                             .flags = &flags[i],
                                             .flag_count = 1 };
    snprintf(store, sizeof(store), "%s/store", folder);
    pto_build_params_init(&params);
    params.sources = source;
    params.source_count = 1 + PLAN_ARGS;
    params.store = store;
    params.has_accesses = true;
    if (pto_build(&params, &bytes, &size, &error) < 0)
        fail_msg("%s", error.text);
    assert_int_equal(pto_callable_load_memory(bytes, size, NULL, &test.callable, &error), PTO_OK);
    free(bytes);
    test.device = open_device(NULL, 0, 2);
    assert_int_equal(pto_mem_alloc(test.device, WORDS * sizeof(float), &test.memory), PTO_OK);
    memset((void *)(uintptr_t)test.memory, 0, WORDS * sizeof(float));
    find_lines();
    return 0;
}

static int close_all(void **state)
{
    struct pto_error error;

    pto_error_init(&error);
    assert_int_equal(pto_mem_free(test.device, test.memory, &error), PTO_OK);
    pto_callable_destroy(test.callable);
    pto_device_close(test.device);
    return remove_folder(state);
}

/* ---- random plans ---- */

static uint32_t extent_of(const struct plan_arg *arg)
{
    uint32_t extent = 1;

    for (uint32_t i = 0; i < arg->ndims; i++)
        extent += (arg->shapes[i] - 1) * arg->strides[i];
    return extent;
}

/* Whether an element lies at this distance from the first one; stores its index. */
static bool has_element(const struct plan_arg *arg, uint32_t at, uint32_t index[PLAN_DIMS])
{
    uint32_t n = 1, left, found;

    for (uint32_t i = 0; i < arg->ndims; i++)
        n *= arg->shapes[i];
    while (n-- != 0) {
        left = n;
        found = 0;
        for (uint32_t i = arg->ndims; i-- != 0; left /= arg->shapes[i]) {
            index[i] = left % arg->shapes[i];
            found += index[i] * arg->strides[i];
        }
        if (found == at)
            return true;
    }
    return false;
}

static void make_arg(struct plan_arg *arg, uint32_t place)
{
    static const uint32_t tags[] = { PTO_TAG_INPUT, PTO_TAG_INOUT, PTO_TAG_OUTPUT,
                                     PTO_TAG_OUTPUT_EXISTING };
    bool is_dense;
    uint32_t stride;

    arg->tag = tags[random_below(4)];
    arg->ndims = 1 + random_below(PLAN_DIMS);
    is_dense = arg->tag == PTO_TAG_OUTPUT || random_below(2) == 0;
    stride = is_dense ? 1 : 1 + random_below(3);
    for (uint32_t i = arg->ndims; i-- != 0;) {
        arg->shapes[i] = 1 + random_below(6);
        arg->strides[i] = stride;
        stride = stride * arg->shapes[i] + (is_dense ? 0 : random_below(4));
    }
    assert_true(extent_of(arg) < PLACE);
    arg->start = place * PLACE + random_below(PLACE - extent_of(arg) + 1);
}

/*
 * Places the arguments of a task in different parts of the memory; several tasks share these parts.
 */
static void make_plan(struct plan *plan)
{
    memset(plan, 0, sizeof(*plan));
    plan->task_count = 1 + random_below(PLAN_TASKS);
    for (uint32_t t = 0; t < plan->task_count; t++) {
        struct plan_task *task = &plan->task[t];
        uint32_t first = random_below(PLACES), step = random_below(2) ? 1 : 3;

        task->arg_count = 1 + random_below(PLAN_ARGS);
        for (uint32_t i = 0; i < task->arg_count; i++)
            make_arg(&task->arg[i], (first + i * step) % PLACES);
    }
}

/* ---- planted accesses ---- */

struct expected {
    uint32_t task;
    int32_t argument;
    char text[TEXT];
};

static void write_index(char *text, const uint32_t *index, uint32_t ndims)
{
    for (uint32_t i = 0; i < ndims; i++)
        sprintf(text + strlen(text), "%s%u", i == 0 ? "[" : ",", index[i]);
    strcat(text, "]");
}

/* Returns the argument that is nearest to a byte that is outside of all arguments. */
static int32_t nearest_to(const struct plan_task *task, int64_t byte, int64_t *offset_out,
                          bool *is_outside)
{
    int64_t best = INT64_MAX;
    int32_t found = -1;

    *is_outside = byte >= 0 && byte + 4 <= WORDS * 4;
    for (uint32_t i = 0; i < task->arg_count; i++) {
        int64_t begin = 4ll * task->arg[i].start, end = begin + 4ll * extent_of(&task->arg[i]);
        int64_t away = byte < begin ? begin - byte : byte - end + 1;

        if (task->arg[i].tag == PTO_TAG_OUTPUT || (byte + 4 > begin && byte < end))
            *is_outside = false;
        if (away < best) {
            best = away;
            found = (int32_t)i;
            *offset_out = byte < begin ? byte - begin : byte - end;
        }
    }
    return found;
}

static bool plant_outside(struct plan_task *task, uint32_t index, struct expected *e)
{
    const struct plan_arg *arg = &task->arg[index];
    int64_t extent = 4ll * extent_of(arg), offset = 0;
    bool is_outside;

    task->access.offset = random_below(2) == 0 ? -4 * (1 + (int64_t)random_below(600))
                                               : extent + 4 * (int64_t)random_below(600);
    if (random_below(3) == 0)
        /* the byte is adjacent to the argument */
        task->access.offset = random_below(2) == 0 ? -4 : extent;
    e->argument = nearest_to(task, 4ll * arg->start + task->access.offset, &offset, &is_outside);
    if (!is_outside)
        return false;
    snprintf(e->text, TEXT, "%s 4 bytes outside of its arguments, ",
             task->access.is_write != 0 ? "wrote" : "read");
    if (offset == 0)
        strcat(e->text, "directly after");
    else
        sprintf(e->text + strlen(e->text), "%lld bytes %s", (long long)llabs(offset),
                offset < 0 ? "before" : "after the end of");
    sprintf(e->text + strlen(e->text), " argument %d of task %u,", e->argument, e->task);
    return true;
}

/*
 * Plants an access to argument `index` that is not allowed. False: an access of this kind is
 * impossible there.
 */
static bool plant_at(struct plan_task *task, uint32_t index, struct expected *e)
{
    const struct plan_arg *arg = &task->arg[index];
    uint32_t at = random_below(extent_of(arg)), element[PLAN_DIMS];
    bool is_element = has_element(arg, at, element);
    const char *verb = task->access.is_write != 0 ? "wrote" : "read";

    e->argument = (int32_t)index;
    task->access.offset = 4ll * at;
    if (task->access.kind == PLAN_OUTSIDE)
        return plant_outside(task, index, e);
    if (task->access.kind == PLAN_BETWEEN) {
        snprintf(e->text, TEXT, "%s 4 bytes between the elements of argument %u of task %u,", verb,
                 index, e->task);
        return !is_element;
    }
    if (!is_element || (task->access.kind == PLAN_INPUT
                            ? arg->tag != PTO_TAG_INPUT
                            : arg->tag != PTO_TAG_OUTPUT && arg->tag != PTO_TAG_OUTPUT_EXISTING))
        return false;
    snprintf(e->text, TEXT, "%s 4 bytes at element ", verb);
    write_index(e->text, element, arg->ndims);
    sprintf(e->text + strlen(e->text), " of argument %u of task %u,", index, e->task);
    return true;
}

static bool plant(struct plan *plan, enum plan_kind kind, enum plan_way way, struct expected *e)
{
    struct plan_task *task;
    uint32_t index;
    bool is_planted;

    e->task = random_below(plan->task_count);
    task = &plan->task[e->task];
    index = random_below(task->arg_count);
    task->access = (struct plan_access){ .kind = kind,
                                         .way = way,
                                         .argument = index,
                                         .is_write = kind == PLAN_INPUT || way == PLAN_MEMSET ||
                                                     (kind != PLAN_UNWRITTEN && random_below(2)) };
    is_planted = plant_at(task, index, e);
    if (!is_planted)
        task->access.kind = PLAN_CLEAN;
    return is_planted;
}

/* ---- runs ---- */

static int run_plan(struct plan *plan, struct pto_run_report *report)
{
    struct pto_tensor tensor[2] = {
        pto_tensor_external(plan, PTO_DIMS(sizeof(*plan)), 1, PTO_UINT8),
        pto_tensor_external((void *)(uintptr_t)test.memory, PTO_DIMS(WORDS), 1, PTO_FLOAT32)
    };
    struct pto_entry entry = { .tensor_count = 2, .tensor = tensor };
    struct pto_run_options options;

    pto_run_options_init(&options);
    options.mode = random_below(2) == 0 ? PTO_MODE_STREAM : PTO_MODE_HOST;
    options.has_guards = true; /* initial values of outputs are only checked in these runs */
    pto_run_report_init(report);
    return pto_run(test.device, test.callable, &entry, &options, report);
}

static uint32_t graphs(void)
{
    return getenv("PTO_TEST_LONG") != NULL ? 14000 : 140; /* three kinds of four use memset */
}

static void find_planted(enum plan_kind kind)
{
    uint32_t ways[PLAN_WAYS] = { 0 }, kinds = kind == PLAN_UNWRITTEN ? PLAN_MEMSET : PLAN_WAYS;

    for (uint32_t n = 0; n < graphs(); n++) {
        enum plan_way way = n % kinds;
        struct pto_run_report report;
        struct expected e;
        struct plan plan;
        const struct plan_access *access;
        char line[64];

        do
            make_plan(&plan);
        while (!plant(&plan, kind, way, &e));
        access = &plan.task[e.task].access;
        ways[way]++;
        assert_int_equal(run_plan(&plan, &report), PTO_EACCESS);
        snprintf(line, sizeof(line), "(plan_kernel.c:%u)", test.line[access->is_write][way]);
        assert_in(report.error.text, e.text);
        assert_in(report.error.text, line);
        assert_int_equal(report.error.argument, e.argument);
        assert_int_equal(report.error.kernel, plan.task[e.task].arg_count);
        assert_int_equal(report.error.site.line, test.submit_line);
    }
    for (uint32_t way = 0; way < kinds; way++)
        assert_true(ways[way] >= graphs() / PLAN_WAYS);
}

static void accesses_outside_of_all_arguments_are_found(void **state)
{
    (void)state;
    find_planted(PLAN_OUTSIDE);
}

static void accesses_between_the_elements_of_a_view_are_found(void **state)
{
    (void)state;
    find_planted(PLAN_BETWEEN);
}

static void writes_to_inputs_are_found(void **state)
{
    (void)state;
    find_planted(PLAN_INPUT);
}

static void reads_of_unwritten_outputs_are_found(void **state)
{
    (void)state;
    find_planted(PLAN_UNWRITTEN);
}

static void nothing_is_found_in_clean_graphs(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < graphs(); n++) {
        struct pto_run_report report;
        struct plan plan;

        make_plan(&plan);
        if (run_plan(&plan, &report) != PTO_OK)
            fail_msg("graph %u: %s", n, report.error.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accesses_outside_of_all_arguments_are_found),
        cmocka_unit_test(accesses_between_the_elements_of_a_view_are_found),
        cmocka_unit_test(writes_to_inputs_are_found),
        cmocka_unit_test(reads_of_unwritten_outputs_are_found),
        cmocka_unit_test(nothing_is_found_in_clean_graphs),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}

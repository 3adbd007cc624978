/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * The compatibility layer: orchestrations that use the reference's layouts and nothing of ours
 * (compat_orch.h), of both kinds, in both modes, loaded from a chip callable in the reference's
 * format. Tests every operation of both tables, what they refuse, and two devices at the same time.
 * The layouts themselves are checked by assertions in src/compat/orch/layout.h.
 */
#include <sys/wait.h>

#include "base/object.h"
#include "pto/log.h"
#include "tests/fixture/artefact_test.h"
#include "tests/fixture/compat_plays.h"
#include "tests/fixture/random_test.h"
#include "wire/chip_callable.h"

enum kind { KIND_STREAM, KIND_HOST, KINDS };
enum { TENSORS = 4, SCALARS = 5, BLOB_MAX = 1 << 20 };

static const char kernel_source[] =
    "#include <pto/kernel.h>\n"
    "static int32_t *at(int64_t *args, int i)\n"
    "{ return (int32_t *)pto_tensor_data(pto_arg_tensor(args, i)); }\n"
    "void kernel_entry(int64_t *args)\n"
    "{\n"
    "    int n = KERNEL < 5 ? pto_arg_tensor(args, 0)->shapes[0] : 0;\n"
    "    switch (KERNEL) {\n"
    "    case 0: for (int i = 0; i < n; i++) __atomic_fetch_add(&at(args, 0)[i], args[1],\n"
    "                __ATOMIC_RELEASE); break;\n"
    "    case 1: for (int i = 0; i < n; i++) at(args, 0)[i] = args[1]; break;\n"
    "    case 2: for (int i = 0; i < n; i++) at(args, 1)[i] += at(args, 0)[i]; break;\n"
    "    case 3: at(args, 0)[pto_block_index(args)] = 1 + pto_block_index(args); break;\n"
    "    case 4: __atomic_fetch_add(&at(args, 0)[8 + pto_block_index(args)], 1,\n"
    "                __ATOMIC_RELAXED); break;\n"
    "    case 6: __atomic_fetch_add((int32_t *)args[0], 1, __ATOMIC_RELAXED); break;\n"
    "    }\n"
    "}\n";

static struct bytes blob[KINDS], kernel_object[COMPAT_KERNELS];

/* Inputs and results of a run; the orchestration stores its observations in tensor 0. */
struct play {
    int32_t data[TENSORS][COMPAT_COUNT];
    struct pto_tensor tensor[TENSORS];
    uint64_t scalar[SCALARS];
    struct pto_entry entry;
};

static void init_play(struct play *p, uint64_t what)
{
    const uint32_t shape[] = { COMPAT_COUNT };

    memset(p, 0, sizeof(*p));
    for (int i = 0; i < TENSORS; i++)
        p->tensor[i] = pto_tensor_external(p->data[i], shape, 1, PTO_INT32);
    p->scalar[0] = what;
    p->entry = (struct pto_entry){ TENSORS, SCALARS, p->tensor, p->scalar };
}

/* ---- blobs ---- */

static void put_kernel(struct bytes *to, struct chip_callable *head, size_t *size, int id)
{
    struct core_callable core = { .signature_count = 0 };
    struct bytes object = kernel_object[id];

    *size = (*size - sizeof(*head) + CHIP_CALLABLE_CHILD_ALIGN - 1) / CHIP_CALLABLE_CHILD_ALIGN *
                CHIP_CALLABLE_CHILD_ALIGN +
            sizeof(*head);
    head->child_func_ids[id] = id;
    head->child_offsets[id] = (uint32_t)(*size - sizeof(*head));
    head->child_count++;
    core.binary_size = (uint32_t)object.size;
    assert_true(*size + sizeof(core) + object.size <= BLOB_MAX);
    memcpy((char *)to->at + *size, &core, sizeof(core));
    memcpy((char *)to->at + *size + sizeof(core), object.at, object.size);
    *size += sizeof(core) + object.size;
}

static struct bytes pack_blob(struct bytes orchestration, const char *entry, const char *config)
{
    struct bytes made = { calloc(1, BLOB_MAX), 0 };
    struct chip_callable *head = made.at;
    size_t size = sizeof(*head) + orchestration.size;

    memcpy((char *)made.at + sizeof(*head), orchestration.at, orchestration.size);
    head->binary_size = (uint32_t)orchestration.size;
    strcpy(head->func_name, entry);
    head->func_name_length = (uint32_t)strlen(entry);
    strcpy(head->config_name, config);
    head->config_name_length = (uint32_t)strlen(config);
    for (int id = 0; id < COMPAT_KERNELS; id++)
        put_kernel(&made, head, &size, id);
    made.size = size;
    free(orchestration.at);
    return made;
}

static struct bytes compile_orchestration(enum kind kind)
{
    return compile("#include \"tests/fixture/compat_orch.h\"\n",
                   kind == KIND_HOST ? "-I\"$OLDPWD/src\" -I\"$OLDPWD\" -DKIND_HOST"
                                     : "-I\"$OLDPWD/src\" -I\"$OLDPWD\"");
}

static int make_blobs(void **state)
{
    if (make_folder(state) != 0)
        return -1;
    for (int id = 0; id < COMPAT_KERNELS; id++) {
        char flags[32];

        snprintf(flags, sizeof(flags), "-DKERNEL=%d", id);
        kernel_object[id] = compile(kernel_source, flags);
    }
    for (int kind = 0; kind < KINDS; kind++)
        blob[kind] =
            pack_blob(compile_orchestration((enum kind)kind), "compat_entry_point", "expect_three");
    return 0;
}

static int free_blobs(void **state)
{
    for (int kind = 0; kind < KINDS; kind++)
        free(blob[kind].at);
    for (int id = 0; id < COMPAT_KERNELS; id++)
        free(kernel_object[id].at);
    return remove_folder(state);
}

/* ---- runs ---- */

static struct pto_callable *callable[KINDS];

static int run_play(struct pto_device *device, enum kind kind, enum pto_mode mode, struct play *p)
{
    struct pto_run_options options;

    pto_run_options_init(&options);
    options.mode = mode;
    pto_run_report_init(&report);
    return pto_run(device, callable[kind], &p->entry, &options, &report);
}

typedef void (*way_fn)(struct pto_device *device, enum kind kind, enum pto_mode mode);

/* Tests each kind in each mode, on both generations. */
static void each_way(way_fn body)
{
    for (int generation = 0; generation < 2; generation++) {
        struct pto_device *device = open_device(generation == 0 ? "a2a3sim" : "a5sim", 0, 2);

        for (int kind = 0; kind < KINDS; kind++)
            for (int mode = 0; mode < PTO_MODE_COUNT; mode++)
                body(device, (enum kind)kind, (enum pto_mode)mode);
        assert_int_equal(pto_device_close(device), PTO_OK);
    }
}

static int load_both(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        callable[kind] = load_bytes(blob[kind]);
    return 0;
}

static int destroy_both(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        assert_int_equal(pto_callable_destroy(callable[kind]), PTO_OK);
    return 0;
}

static void assert_all(const int32_t data[COMPAT_COUNT], int32_t value)
{
    for (int i = 0; i < COMPAT_COUNT; i++)
        assert_int_equal(data[i], value);
}

/* ---- what works ---- */

static void it_is_known_for_what_it_is(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        struct pto_callable_info info = { .size = sizeof(info) };

        assert_int_equal(pto_callable_info(callable[kind], &info), PTO_OK);
        assert_true(info.is_from_reference);
        assert_int_equal(info.deps, PTO_DEPS_SIMPLER);
        assert_int_equal(info.mode, kind == KIND_HOST ? PTO_MODE_HOST : PTO_MODE_STREAM);
    }
}

static void run_chain(struct pto_device *device, enum kind kind, enum pto_mode mode)
{
    struct play p;

    init_play(&p, COMPAT_CHAIN);
    assert_int_equal(run_play(device, kind, mode, &p), PTO_OK);
    assert_int_equal(p.data[0][0], 1);
    assert_int_equal(p.data[0][1], 1);
    assert_all(p.data[1], 5);
}

static void a_chain_gives_its_result(void **state)
{
    (void)state;
    each_way(run_chain);
}

static void run_each(struct pto_device *device, enum kind kind, enum pto_mode mode)
{
    struct play p;

    init_play(&p, COMPAT_EACH);
    assert_int_equal(run_play(device, kind, mode, &p), PTO_OK);
    assert_int_equal(p.data[0][0], 1);
    assert_int_equal(p.data[0][1], 1);
    assert_int_equal(p.data[0][2], 8);
    assert_int_equal(p.data[0][3], 16);
    assert_int_equal(p.data[0][4], 1);
    assert_all(p.data[1], 3);
    for (int i = 0; i < 4; i++)
        assert_int_equal(p.data[2][i], i + 1);
    assert_int_equal(p.data[2][8], 3); /* lanes of block 0, then those of block 1 */
    assert_int_equal(p.data[2][9], 3);
    assert_int_equal(report.dummies, 1);
    assert_true(report.timing[3].end_ns > report.timing[3].begin_ns);
}

static void a_task_can_have_all_that_it_can_have_there(void **state)
{
    (void)state;
    each_way(run_each);
}

static void run_bare(struct pto_device *device, enum kind kind, enum pto_mode mode)
{
    int32_t expected[3] = { 0 };
    struct play p;

    for (int i = 0; i < COMPAT_BARE_TASKS; i++)
        expected[i % 3] += i % 11 == 10 ? 2 : 1;
    init_play(&p, COMPAT_BARE);
    assert_int_equal(run_play(device, kind, mode, &p), PTO_OK);
    assert_int_equal(p.data[0][0], COMPAT_BARE_TASKS);
    assert_int_equal(p.data[0][1], 1);
    for (int lane = 0; lane < 3; lane++)
        assert_int_equal(p.data[1][lane], expected[lane]);
    assert_int_equal(report.tasks, COMPAT_BARE_TASKS + 1);
}

static void tasks_without_tensors_get_their_scalar(void **state)
{
    (void)state;
    each_way(run_bare);
}

static void run_data(struct pto_device *device, enum kind kind, enum pto_mode mode)
{
    struct play p;

    /* the orchestration reads elements that tasks write */
    if (kind == KIND_STREAM && mode == PTO_MODE_HOST)
        return;
    init_play(&p, COMPAT_DATA);
    p.scalar[1] = (uint64_t)mode;
    p.data[3][0] = 7;
    p.data[3][2] = 8;
    assert_int_equal(run_play(device, kind, mode, &p), PTO_OK);
    assert_int_equal(p.data[0][0], 8);
    assert_int_equal(p.data[0][1], 7);
    assert_int_equal(p.data[0][2], 77);
    assert_int_equal(p.data[3][2], 77);
    assert_int_equal(report.skipped, 1);
    assert_int_equal(p.data[0][3], kind == KIND_STREAM ? 9 : 0);
    assert_int_equal(p.data[0][4], kind == KIND_STREAM ? 101 : 0);
    assert_all(p.data[1], kind == KIND_STREAM ? 101 : 100);
}

static void elements_are_read_and_written(void **state)
{
    (void)state;
    each_way(run_data);
}

static void marks_reach_whoever_watches(void *context, const struct pto_task_view *view)
{
    *(bool *)context = view->args->is_marked && view->args->marked_tensors == 1 &&
                       view->args->marked_scalars == 1 && view->args->ambiguous_scalars == 1 &&
                       view->args->has_scalar_types && view->args->scalar_type[0] == PTO_INT64;
}

static void arguments_can_be_marked(void **state)
{
    struct pto_device *device = open_device("a2a3sim", 0, 1);

    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        struct pto_run_options options;
        bool is_right = false;
        struct play p;

        init_play(&p, COMPAT_MARKS);
        pto_run_options_init(&options);
        options.task = marks_reach_whoever_watches;
        options.task_context = &is_right;
        assert_int_equal(pto_run(device, callable[kind], &p.entry, &options, NULL), PTO_OK);
        assert_true(is_right);
    }
    assert_int_equal(pto_device_close(device), PTO_OK);
}

/* ---- lines of log ---- */

struct lines {
    int count;
    int level[8];
    char text[8];
};

static void take_line(void *context, int level, const char *function, const char *text)
{
    struct lines *lines = context;

    EXPECT(strcmp(function, "f") == 0);
    if (lines->count < 8) {
        lines->level[lines->count] = level;
        lines->text[lines->count++] = text[0];
    }
}

static void lines_below_the_threshold_are_dropped(void **state)
{
    struct pto_device *device = open_device("a2a3sim", 0, 1);
    struct pto_log log;

    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        struct lines lines = { 0 };
        struct play p;

        pto_log_init(&log);
        log.fn = take_line;
        log.context = &lines;
        assert_int_equal(pto_log_set(&log), PTO_OK);
        init_play(&p, COMPAT_LOG);
        assert_int_equal(run_play(device, (enum kind)kind, PTO_MODE_STREAM, &p), PTO_OK);
        assert_int_equal(lines.count, 3);
        assert_int_equal(lines.level[2], PTO_LOG_TIMING);
        assert_int_equal(lines.text[2], '3');
        /* log state that the object's own logger reads */
        assert_int_equal(p.data[0][0], PTO_LOG_TIMING);
        assert_int_equal(p.data[0][1], 1);
        log.threshold = PTO_LOG_DEBUG;
        assert_int_equal(pto_log_set(&log), PTO_OK);
        assert_int_equal(run_play(device, (enum kind)kind, PTO_MODE_STREAM, &p), PTO_OK);
        assert_int_equal(lines.count, 8);
    }
    assert_int_equal(pto_log_set(NULL), PTO_OK);
    assert_nothing_unexpected();
    assert_int_equal(pto_device_close(device), PTO_OK);
}

/* ---- what fails ---- */

static void run_fatal(struct pto_device *device, enum kind kind, enum pto_mode mode)
{
    int ran =
        mode == PTO_MODE_HOST ? 0 : 3; /* how many of three tasks that were submitted before */
    struct pto_log quiet;
    struct play p;

    pto_log_init(&quiet);
    quiet.threshold = PTO_LOG_OFF;
    (void)pto_log_set(&quiet);
    init_play(&p, COMPAT_FATAL);
    p.data[1][0] = 6;
    p.scalar[1] = 3;
    assert_int_equal(run_play(device, kind, mode, &p), -42);
    (void)pto_log_set(NULL);
    assert_non_null(strstr(report.error.text, "it is 42"));
    assert_int_equal(p.data[0][0], 1);
    assert_int_equal(p.data[0][1], 1);
    assert_int_equal(p.data[0][2], 0);
    assert_int_equal(p.data[1][0], 6 + ran); /* nothing was written after the failure */
    assert_int_equal(report.executions, ran);
}

static void a_fatal_code_is_the_status_of_the_run(void **state)
{
    (void)state;
    each_way(run_fatal);
}

static void run_one_wrong(struct pto_device *device, enum kind kind, enum pto_mode mode,
                          uint64_t bad, bool is_bare)
{
    struct play p;

    init_play(&p, COMPAT_WRONG);
    p.scalar[1] = bad;
    p.scalar[2] = is_bare;
    assert_int_equal(run_play(device, kind, mode, &p),
                     bad == COMPAT_BAD_GANG ? PTO_ESYNC_START : PTO_EARGS);
    assert_int_equal(p.data[0][0], 1);
    assert_all(p.data[1], 0);
    if (bad == COMPAT_BAD_ERROR)
        assert_non_null(strstr(report.error.text, "said by the headers"));
}

static void run_wrong(struct pto_device *device, enum kind kind, enum pto_mode mode)
{
    static const uint8_t without_tensor[] = { COMPAT_BAD_COUNT,  COMPAT_BAD_SCALARS,
                                              COMPAT_BAD_ERROR,  COMPAT_BAD_BLOCKS,
                                              COMPAT_BAD_KERNEL, COMPAT_BAD_NUMBER,
                                              COMPAT_BAD_DEP,    COMPAT_BAD_GANG };

    for (uint64_t bad = 0; bad < COMPAT_BADS; bad++)
        if (bad != COMPAT_BAD_LANES || kind != KIND_STREAM)
            run_one_wrong(device, kind, mode, bad, false);
    for (size_t i = 0; i < sizeof(without_tensor); i++)
        run_one_wrong(device, kind, mode, without_tensor[i], true);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    each_way(run_wrong);
}

static void run_with_few(struct pto_device *device, enum kind kind, enum pto_mode mode)
{
    struct play p;
    int status;

    init_play(&p, COMPAT_DEVICE);
    p.entry.tensor_count = 1; /* one of three arguments, including the scalar */
    p.entry.scalar_count = 1;
    status = run_play(device, kind, mode, &p);
    if (mode == PTO_MODE_STREAM) {
        assert_int_equal(status, PTO_EINVAL);
        assert_non_null(strstr(report.error.text, "it expects 3 arguments"));
    } else {
        /* the orchestration submits a tensor that the entry does not have */
        assert_int_equal(status, PTO_EARGS);
    }
}

static void too_few_arguments_fail_a_streamed_run(void **state)
{
    (void)state;
    each_way(run_with_few);
}

/*
 * A configuration function that is named and does not exist counts as none: the orchestration
 * itself notices missing arguments.
 */
static void there_need_not_be_a_configuration(void **state)
{
    struct pto_device *device = open_device("a2a3sim", 0, 2);
    struct chip_callable *head = blob[KIND_STREAM].at;
    struct pto_callable *with = callable[KIND_STREAM];
    struct play p;

    (void)state;
    head->config_name[0] = 'E';
    callable[KIND_STREAM] = load_bytes(blob[KIND_STREAM]);
    init_play(&p, COMPAT_DEVICE);
    p.entry.tensor_count = 1;
    p.entry.scalar_count = 1;
    assert_int_equal(run_play(device, KIND_STREAM, PTO_MODE_STREAM, &p), PTO_EARGS);
    run_chain(device, KIND_STREAM, PTO_MODE_STREAM);
    assert_int_equal(pto_device_close(device), PTO_OK);
    assert_int_equal(pto_callable_destroy(callable[KIND_STREAM]), PTO_OK);
    head->config_name[0] = 'e';
    callable[KIND_STREAM] = with;
}

static void an_exception_ends_the_run_and_nothing_else(void **state)
{
    struct pto_device *device = open_device("a2a3sim", 0, 2);
    struct bytes thrower =
        pack_blob(compile_as("c++",
                             "#include <stdexcept>\n"
                             "static void *runtime;\n"
                             "extern \"C\" {\n"
                             "void framework_bind_runtime(void *rt) { runtime = rt; }\n"
                             "void throws(const void *) {\n"
                             "    if (runtime != nullptr)\n"
                             "        throw std::runtime_error(\"assertion: x > 0\");\n"
                             "}\n"
                             "}\n",
                             ""),
                  "throws", "");
    struct pto_callable *c = load_bytes(thrower);

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct play p;

        init_play(&p, COMPAT_CHAIN);
        pto_run_report_init(&report);
        assert_int_equal(pto_run(device, c, &p.entry, NULL, &report), PTO_EORCH);
        assert_non_null(strstr(report.error.text, "assertion: x > 0"));
        assert_int_equal(run_play(device, KIND_STREAM, PTO_MODE_STREAM, &p), PTO_OK);
    }
    assert_int_equal(pto_callable_destroy(c), PTO_OK);
    assert_int_equal(pto_device_close(device), PTO_OK);
    free(thrower.at);
}

/* ---- waiting by asking ---- */

static void polling_is_progress(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        struct pto_device *device = open_device("a2a3sim", 0, workers);

        for (int kind = 0; kind < KINDS; kind++) {
            struct play p;

            init_play(&p, COMPAT_POLL);
            p.scalar[1] = 4;
            assert_int_equal(run_play(device, (enum kind)kind, PTO_MODE_STREAM, &p), PTO_OK);
            assert_int_equal(p.data[0][0], 4);
            assert_int_equal(p.data[0][1], 0);
        }
        assert_int_equal(pto_device_close(device), PTO_OK);
    }
}

/* The task adds 0, so the value that the orchestration waits for never appears. */
static void polling_in_vain_ends_with_the_run_s_time(void **state)
{
    struct pto_device *device = open_device("a2a3sim", 0, 2);
    struct pto_run_options options;
    struct play p;

    (void)state;
    for (int i = 0; i < 2; i++) {
        init_play(&p, COMPAT_POLL);
        pto_run_options_init(&options);
        options.grace_ns = 60000 * MS; /* long, because the machine may be busy */
        if (i == 0)
            options.timeout_ns = 50000000;
        else
            options.stall_timeout_ns = 200000000;
        pto_run_report_init(&report);
        assert_int_equal(pto_run(device, callable[KIND_STREAM], &p.entry, &options, &report),
                         i == 0 ? PTO_ETIMEOUT : PTO_ESTALL);
        assert_int_equal(p.data[0][1], 1);
    }
    assert_int_equal(pto_device_close(device), PTO_OK);
}

/* ---- rules and limits ---- */

static uint64_t edges_of(struct pto_device *device, const struct pto_callable *c,
                         enum pto_deps deps)
{
    struct pto_run_options options;
    struct play p;

    init_play(&p, COMPAT_EDGES);
    pto_run_options_init(&options);
    options.mode = PTO_MODE_HOST; /* all edges were found */
    options.deps = deps;
    pto_run_report_init(&report);
    assert_int_equal(pto_run(device, c, &p.entry, &options, &report), PTO_OK);
    return report.edges;
}

/* No task runs before all are submitted or one is waited for, so all edges are found. */
static void streamed_tasks_with_few_tensors_are_ordered(void **state)
{
    struct pto_device *device = open_device("a2a3sim", 0, 1);
    struct pto_run_options options;
    struct play p;

    (void)state;
    init_play(&p, COMPAT_FEW);
    pto_run_options_init(&options);
    options.deps = PTO_DEPS_SAFE;
    pto_run_report_init(&report);
    assert_int_equal(pto_run(device, callable[KIND_STREAM], &p.entry, &options, &report), PTO_OK);
    assert_int_equal(report.tasks, 2 * 3 * COMPAT_FEW_ROUNDS);
    assert_int_equal(report.edges,
                     /* two predecessors for each task, except the first ones */
                     2 * (6 * COMPAT_FEW_ROUNDS - 3));
    assert_int_equal(pto_device_close(device), PTO_OK);
}

static void the_reference_s_rules_hold_unless_others_are_asked_for(void **state)
{
    struct pto_device *device = open_device("a2a3sim", 0, 1);
    struct pto_load_options load;
    struct pto_callable *safe = NULL;

    (void)state;
    assert_int_equal(edges_of(device, callable[KIND_STREAM], PTO_DEPS_DEFAULT), 0);
    assert_int_equal(edges_of(device, callable[KIND_STREAM], PTO_DEPS_SAFE), 2);
    pto_load_options_init(&load);
    load.deps = PTO_DEPS_SAFE;
    assert_int_equal(
        pto_callable_load_memory(blob[KIND_STREAM].at, blob[KIND_STREAM].size, &load, &safe, NULL),
        PTO_OK);
    assert_int_equal(edges_of(device, safe, PTO_DEPS_DEFAULT), 2);
    setenv("PTO_DEPS", "simpler", 1);
    assert_int_equal(edges_of(device, safe, PTO_DEPS_DEFAULT), 0);
    assert_int_equal(edges_of(device, safe, PTO_DEPS_SAFE), 2);
    setenv("PTO_DEPS", "safe", 1);
    assert_int_equal(edges_of(device, callable[KIND_STREAM], PTO_DEPS_DEFAULT), 2);
    setenv("PTO_DEPS", "nonsense", 1);
    assert_int_equal(edges_of(device, callable[KIND_STREAM], PTO_DEPS_DEFAULT), 0);
    assert_non_null(strstr(report.warning, "PTO_DEPS"));
    unsetenv("PTO_DEPS");
    assert_int_equal(pto_callable_destroy(safe), PTO_OK);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

static void rings_limit_what_sets_them(void **state)
{
    static const struct {
        uint64_t tasks, levels, elements, deps;
        uint64_t window, heap, dep_pool;
        int status;
    } rows[] = {
        { 8, 1, 0, 0, 4, 0, 0, PTO_ESCOPE_DEADLOCK }, { 8, 1, 0, 0, 0, 0, 0, PTO_OK },
        { 1, 0, 8192, 0, 0, 1024, 0, PTO_EHEAP },     { 1, 0, 8192, 0, 0, 0, 0, PTO_OK },
        { 130, 0, 0, 128, 0, 0, 4, PTO_EDEP_POOL },   { 130, 0, 0, 128, 0, 0, 0, PTO_OK },
        { 20000, 1, 0, 0, 0, 0, 0, PTO_OK }, /* more than the reference has by default */
    };
    struct pto_device *device = open_device("a2a3sim", 0, 2);

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pto_run_options options;
        struct play p;

        init_play(&p, COMPAT_RINGS);
        p.scalar[1] = rows[i].tasks;
        p.scalar[2] = rows[i].levels;
        p.scalar[3] = rows[i].elements;
        p.scalar[4] = rows[i].deps;
        pto_run_options_init(&options);
        for (int ring = 0; ring < PTO_RINGS; ring++) {
            options.rings.task_window[ring] = rows[i].window;
            options.rings.heap[ring] = rows[i].heap;
            options.rings.dep_pool[ring] = rows[i].dep_pool;
        }
        pto_run_report_init(&report);
        assert_int_equal(pto_run(device, callable[KIND_STREAM], &p.entry, &options, &report),
                         rows[i].status);
    }
    assert_int_equal(pto_device_close(device), PTO_OK);
}

/* ---- two devices ---- */

static void *run_on_device(void *arg)
{
    struct pto_device *device = arg;
    struct pto_device_info info = { .size = sizeof(info) };

    EXPECT(pto_device_info(device, &info) == PTO_OK);
    for (int i = 0; i < (IS_SANITIZED ? 20 : 100); i++) {
        struct play p;

        init_play(&p, COMPAT_DEVICE);
        EXPECT(pto_run(device, callable[i % KINDS], &p.entry, NULL, NULL) == PTO_OK);
        EXPECT(p.data[0][0] == (int32_t)info.clusters && p.data[0][2] == (int32_t)info.clusters);
        EXPECT(p.data[0][1] == 0 && p.data[1][0] == 200);
    }
    return NULL;
}

static void two_devices_do_not_meet(void **state)
{
    struct pto_device *device[2] = { open_device("a2a3sim", 1, 1), open_device("a2a3sim", 2, 1) };
    pthread_t thread[2];

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, run_on_device, device[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    assert_nothing_unexpected();
    for (int i = 0; i < 2; i++)
        assert_int_equal(pto_device_close(device[i]), PTO_OK);
    assert_int_equal(object_count(), 0);
}

/* ---- damaged ones ---- */

/* Loading a callable also registers it, which loads its code; none of its functions is called. */
static void try_damaged(struct pto_device *device, const void *bytes, size_t size)
{
    struct pto_callable *c = NULL;

    if (pto_callable_load_memory(bytes, size, NULL, &c, NULL) < 0)
        return;
    (void)pto_register(device, c, NULL);
    assert_int_equal(pto_callable_destroy(c), PTO_OK);
}

static void damaged_callables_are_refused_or_loaded(void **state)
{
    struct pto_device *device = open_device("a2a3sim", 0, 1);
    struct rng random = { 20 };

    (void)state;
    for (int i = 0; i < (IS_SANITIZED ? 60 : 300); i++) {
        struct bytes from = blob[i % KINDS];
        size_t size = i % 3 == 0 ? rng_below(&random, from.size) : from.size;
        uint8_t *copy = malloc(size + 1);

        memcpy(copy, from.at, size);
        /*
         * Sizes in the header or in the orchestration are wrong: this is not detected, because code
         * is trusted.
         */
        for (uint32_t k = 0; k < 1 + rng_below(&random, 4) && size > 9500; k++) {
            uint32_t at = rng_below(&random, i % 2 == 0 ? 9376 : 9376 + 120);

            copy[at] = (uint8_t)rng_next(&random);
        }
        try_damaged(device, copy, size);
        free(copy);
    }
    assert_int_equal(pto_device_close(device), PTO_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_is_known_for_what_it_is, load_both, destroy_both),
        cmocka_unit_test_setup_teardown(a_chain_gives_its_result, load_both, destroy_both),
        cmocka_unit_test_setup_teardown(a_task_can_have_all_that_it_can_have_there, load_both,
                                        destroy_both),
        cmocka_unit_test_setup_teardown(tasks_without_tensors_get_their_scalar, load_both,
                                        destroy_both),
        cmocka_unit_test_setup_teardown(elements_are_read_and_written, load_both, destroy_both),
        cmocka_unit_test_setup_teardown(arguments_can_be_marked, load_both, destroy_both),
        cmocka_unit_test_setup_teardown(lines_below_the_threshold_are_dropped, load_both,
                                        destroy_both),
        cmocka_unit_test_setup_teardown(a_fatal_code_is_the_status_of_the_run, load_both,
                                        destroy_both),
        cmocka_unit_test_setup_teardown(wrong_arguments_are_refused, load_both, destroy_both),
        cmocka_unit_test_setup_teardown(too_few_arguments_fail_a_streamed_run, load_both,
                                        destroy_both),
        cmocka_unit_test_setup_teardown(there_need_not_be_a_configuration, load_both, destroy_both),
        cmocka_unit_test_setup_teardown(an_exception_ends_the_run_and_nothing_else, load_both,
                                        destroy_both),
        cmocka_unit_test_setup_teardown(polling_is_progress, load_both, destroy_both),
        cmocka_unit_test_setup_teardown(polling_in_vain_ends_with_the_run_s_time, load_both,
                                        destroy_both),
        cmocka_unit_test_setup_teardown(streamed_tasks_with_few_tensors_are_ordered, load_both,
                                        destroy_both),
        cmocka_unit_test_setup_teardown(the_reference_s_rules_hold_unless_others_are_asked_for,
                                        load_both, destroy_both),
        cmocka_unit_test_setup_teardown(rings_limit_what_sets_them, load_both, destroy_both),
        cmocka_unit_test_setup_teardown(two_devices_do_not_meet, load_both, destroy_both),
        cmocka_unit_test(damaged_callables_are_refused_or_loaded),
    };

    return cmocka_run_group_tests(tests, make_blobs, free_blobs);
}

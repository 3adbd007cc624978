/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain - asan: what it builds is not sanitized, and the library's side is test_compat's */
/*
 * Orchestrations in the reference's C++ API, tests/simpler/: compiled with include/simpler/ for
 * both chips and both modes. Each entry is a test with one tensor of 64 zeros and one scalar, 7.
 */
#include <pthread.h>

#include "pto/build.h"
#include "pto/log.h"
#include "tests/fixture/open_test.h"

enum { SIZE = 64, BUILDS = 4, TEXT = 512, SKIPPED = 77 };

struct built {
    const char *platform;
    enum pto_mode mode;
    void *bytes;
    size_t size;
};

static struct built builds[BUILDS] = { { .platform = "a2a3sim", .mode = PTO_MODE_STREAM },
                                       { .platform = "a2a3sim", .mode = PTO_MODE_HOST },
                                       { .platform = "a5sim", .mode = PTO_MODE_STREAM },
                                       { .platform = "a5sim", .mode = PTO_MODE_HOST } };

/* Runs one entry. */
struct trial {
    int32_t memory[SIZE];
    struct pto_run_options options;
    struct pto_run_report report;
    uint32_t scalar_count;
    uint32_t workers;
    char edges[TEXT];
};

/* ---- building ---- */

static void show_event(void *context, const struct pto_build_event *event)
{
    (void)context;
    if (event->kind == PTO_BUILD_OUTPUT || event->kind == PTO_BUILD_WARNING)
        fprintf(stderr, "%s: %s", event->source, event->text);
}

static int build(struct built *b, const char *store)
{
    static const char *const flags[] = { "-O0", "-g0", "-Wall", "-Wextra" };
    static const enum pto_direction signature[] = { PTO_DIR_INOUT, PTO_DIR_SCALAR };
    struct pto_source source[3] = {
        { .path = "tests/simpler/orch.cpp", .kind = PTO_SOURCE_ORCHESTRATION },
        { .path = "tests/simpler/worker.cpp", .func_id = 0, .core = PTO_CORE_AIV, .name = "aiv" },
        { .path = "tests/simpler/worker.cpp", .func_id = 1, .core = PTO_CORE_AIC, .name = "aic" },
    };
    struct pto_error error = { .size = sizeof(error) };
    struct pto_build_params params;
    int status;

    for (int i = 0; i < 3; i++) {
        source[i].flags = flags;
        source[i].flag_count = 4;
    }
    pto_build_params_init(&params);
    params.platform = b->platform;
    params.mode = b->mode;
    params.sources = source;
    params.source_count = 3;
    params.entry = "results";
    params.signature = signature;
    params.signature_count = 2;
    params.store = store;
    params.isa = "";
    params.event = show_event;
    status = pto_build(&params, &b->bytes, &b->size, &error);
    if (status < 0)
        fprintf(stderr, "%s, %s: %s\n", b->platform, pto_mode_name(b->mode), error.text);
    return status;
}

static int build_all(void **state)
{
    int status = PTO_OK;

    unsetenv("PTO_DEPS");
    if (make_folder(state) != 0)
        return -1;
    for (int i = 0; i < BUILDS && status == PTO_OK; i++)
        status = build(&builds[i], folder);
    return remove_folder(state) != 0 || status < 0 ? -1 : 0;
}

static int free_all(void **state)
{
    (void)state;
    for (int i = 0; i < BUILDS; i++)
        free(builds[i].bytes);
    return 0;
}

/* ---- running ---- */

static void init_trial(struct trial *t, const struct built *b)
{
    memset(t, 0, sizeof(*t));
    pto_run_options_init(&t->options);
    t->options.mode = b->mode;
    t->options.timeout_ns = 60000 * MS;
    t->scalar_count = 1;
}

static struct pto_callable *load_entry(const struct built *b, const char *entry)
{
    struct pto_error error = { .size = sizeof(error) };
    struct pto_load_options options;
    struct pto_callable *callable = NULL;

    pto_load_options_init(&options);
    options.symbol = entry;
    if (pto_callable_load_memory(b->bytes, b->size, &options, &callable, &error) < 0)
        fail_msg("%s: %s", entry, error.text);
    return callable;
}

static int run_on(struct pto_device *device, struct pto_callable *callable, struct trial *t)
{
    static const uint64_t scalar[2] = { 7, 8 };
    struct pto_tensor tensor = pto_tensor_external(t->memory, (uint32_t[]){ SIZE }, 1, PTO_INT32);
    struct pto_entry entry = { 1, t->scalar_count, &tensor, scalar };

    pto_run_report_init(&t->report);
    return pto_run(device, callable, &entry, &t->options, &t->report);
}

static int run(const struct built *b, const char *entry, struct trial *t)
{
    struct pto_device *device = open_device(b->platform, 0, t->workers);
    struct pto_callable *callable = load_entry(b, entry);
    int status = run_on(device, callable, t);

    pto_device_close(device);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    return status;
}

/* Fails with the name of the entry and the message of the run. */
static void expect(const struct built *b, const char *entry, int status, int wanted,
                   const struct trial *t)
{
    if (status != wanted)
        fail_msg("%s on %s, %s: %d, not %d: %s", entry, b->platform, pto_mode_name(b->mode), status,
                 wanted, t->report.error.text);
}

/* ---- the tests ---- */

static void every_name_is_there_and_means_what_it_did(void **state)
{
    static const char *const entries[] = {
        "scalars_and_types", "task_ids", "tensors",           "create_infos", "arguments",
        "results",           "scopes",   "with_dependencies", "graphs"
    };

    (void)state;
    for (int i = 0; i < BUILDS; i++)
        for (size_t e = 0; e < sizeof(entries) / sizeof(entries[0]); e++) {
            struct trial t;

            if (strcmp(entries[e], "graphs") == 0 && builds[i].mode != PTO_MODE_HOST)
                continue;
            init_trial(&t, &builds[i]);
            expect(&builds[i], entries[e], run(&builds[i], entries[e], &t), PTO_OK, &t);
            if (strcmp(entries[e], "graphs") == 0)
                assert_int_equal(t.memory[0], 4); /* the body of each graph was called directly */
        }
}

static void note_line(void *context, int level, const char *function, const char *text)
{
    char *lines = context;

    snprintf(lines + strlen(lines), TEXT - strlen(lines), "%d %s: %s\n", level, function, text);
}

static void lines_of_log_have_a_level_and_a_threshold(void **state)
{
    char lines[TEXT] = "";
    struct pto_log log;
    struct trial t;

    (void)state;
    pto_log_init(&log);
    log.fn = note_line;
    log.context = lines;
    assert_int_equal(pto_log_set(&log), PTO_OK);
    init_trial(&t, &builds[0]);
    expect(&builds[0], "lines_of_log", run(&builds[0], "lines_of_log", &t), PTO_OK, &t);
    assert_string_equal(lines, "25 lines_of_log: timing here\n"
                               "30 lines_of_log: warning\n40 lines_of_log: error 2\n");
    lines[0] = '\0';
    log.threshold = PTO_LOG_DEBUG;
    assert_int_equal(pto_log_set(&log), PTO_OK);
    expect(&builds[0], "lines_of_log", run(&builds[0], "lines_of_log", &t), PTO_OK, &t);
    assert_non_null(strstr(lines, "10 lines_of_log: debug 1\n20 lines_of_log: info\n"));
    assert_int_equal(pto_log_set(NULL), PTO_OK);
}

/* A streamed run with fewer arguments than the configuration expects fails with status -1. */
static void the_configuration_counts_when_tasks_are_streamed(void **state)
{
    (void)state;
    for (int i = 0; i < BUILDS; i++) {
        bool is_streamed = builds[i].mode == PTO_MODE_STREAM;
        struct trial t;
        int status;

        init_trial(&t, &builds[i]);
        t.scalar_count = 0;
        status = run(&builds[i], "task_ids", &t);
        expect(&builds[i], "task_ids", status, is_streamed ? -1 : PTO_OK, &t);
        if (is_streamed)
            assert_non_null(strstr(t.report.error.text, "2 arguments were expected, 1 were given"));
        t.scalar_count = 2; /* more may be given */
        expect(&builds[i], "task_ids", run(&builds[i], "task_ids", &t), PTO_OK, &t);
    }
}

struct outcome {
    const char *entry;
    int32_t at[SIZE]; /* what it leaves */
};

enum { OUTCOMES = 13 };

static void make_outcomes(struct outcome o[OUTCOMES])
{
    const float f = 3.5f;

    memset(o, 0, OUTCOMES * sizeof(*o));
    o[0].entry = "blocks";
    for (int i = 0; i < SIZE; i++)
        o[0].at[i] = i < 40 ? 4000 + i : 2400 + i - 40;
    o[1] = (struct outcome){ "lanes", { 32, 0, 1, 0, 1, 2 } };
    o[2] = (struct outcome){ "gang", { 16 } };
    o[3] = (struct outcome){ "predicates", { 1, 0, 1, 0, 1, 1, 1, 1, 1, 1, [63] = -5 } };
    o[4] =
        (struct outcome){ "outputs", { 22, 22, 22, 22, 1122, 1122, 1122, 1122, 21, 21, 21, 21 } };
    o[5] = (struct outcome){ "elements", { [5] = -7, [10] = 42 } };
    memcpy(&o[5].at[0], &f, sizeof(f));
    o[6] = (struct outcome){ "deferred", { 1, 11 } };
    o[7] = (struct outcome){ "gone", { 1, 2 } };
    o[8] = (struct outcome){ "polling", { 16, 1 } };
    o[9] = (struct outcome){ "seed", { 4 } };
    o[10] = (struct outcome){ "completion", { 120, 120 } };
    o[11] = (struct outcome){ "passed_on", { 8, 7, 7, 7 } };
    o[12] = (struct outcome){ "meeting", { 8, 3 } };
}

static void tasks_do_what_they_did(void **state)
{
    struct outcome outcomes[OUTCOMES];

    (void)state;
    make_outcomes(outcomes);
    for (int i = 0; i < BUILDS; i++)
        for (int o = 0; o < OUTCOMES; o++) {
            struct trial t;

            init_trial(&t, &builds[i]);
            t.options.has_guards = true; /* as `pto run` sets them */
            expect(&builds[i], outcomes[o].entry, run(&builds[i], outcomes[o].entry, &t), PTO_OK,
                   &t);
            for (int k = 0; k < SIZE; k++)
                if (t.memory[k] != outcomes[o].at[k])
                    fail_msg("%s on %s, %s: [%d] is %d, not %d", outcomes[o].entry,
                             builds[i].platform, pto_mode_name(builds[i].mode), k, t.memory[k],
                             outcomes[o].at[k]);
        }
}

static void blocks_begin_in_order(void **state)
{
    (void)state;
    for (int i = 0; i < BUILDS; i++) {
        struct trial t;

        init_trial(&t, &builds[i]);
        t.workers = 1;
        expect(&builds[i], "order_of_blocks", run(&builds[i], "order_of_blocks", &t), PTO_OK, &t);
        for (int block = 0; block < 40; block++)
            assert_int_equal(t.memory[block], block + 1);
    }
}

/* Cluster c of n has the AIC c and the AIVs n + 2c and n + 2c + 1. */
static void lanes_have_the_cores_of_the_reference(void **state)
{
    static const struct {
        const char *entry;
        uint32_t lane[3]; /* AIC, AIV0, AIV1: executions of each of its cores */
    } uses[] = { { "cores_of_lanes", { 1, 1, 1 } },
                 { "cores_of_first_lanes", { 1, 1, 0 } },
                 { "cores_of_second_lanes", { 1, 0, 1 } },
                 { "cores_of_vectors", { 0, 1, 1 } },
                 { "cores_of_cubes", { 1, 0, 0 } } };

    (void)state;
    for (int i = 0; i < BUILDS; i++)
        for (size_t u = 0; u < sizeof(uses) / sizeof(uses[0]); u++) {
            const uint32_t *lane = uses[u].lane;
            struct trial t;
            uint32_t clusters;

            init_trial(&t, &builds[i]);
            expect(&builds[i], uses[u].entry, run(&builds[i], uses[u].entry, &t), PTO_OK, &t);
            clusters = t.report.core_count / 3;
            assert_int_equal(t.memory[0], clusters * (lane[0] + lane[1] + lane[2]));
            for (uint32_t core = 0; core < 3 * clusters; core++) {
                uint32_t wanted = core < clusters ? lane[0] : lane[1 + (core - clusters) % 2];

                if (t.report.core_tasks[core] != wanted)
                    fail_msg("%s on %s, %s: core %u ran %u times, not %u", uses[u].entry,
                             builds[i].platform, pto_mode_name(builds[i].mode), core,
                             t.report.core_tasks[core], wanted);
            }
        }
}

/*
 * Gangs run first, then tasks with several lanes, then others, although they were submitted in the
 * opposite order. The priority lapses if a busy machine delays the kernels that hold the cores, so
 * this may take several runs.
 */
static void gangs_go_first_and_then_lanes(void **state)
{
    enum { ATTEMPTS = 50 };

    (void)state;
    for (int i = 0; i < BUILDS; i++) {
        bool is_seen = false;
        struct trial t;

        for (int a = 0; a < ATTEMPTS && !is_seen; a++) {
            init_trial(&t, &builds[i]);
            expect(&builds[i], "priorities", run(&builds[i], "priorities", &t), PTO_OK, &t);
            assert_true(t.memory[8] != 0 && t.memory[9] != 0 && t.memory[10] != 0);
            is_seen = t.memory[10] < t.memory[9] && t.memory[9] < t.memory[8];
        }
        if (!is_seen)
            fail_msg("on %s, %s: ordinary tasks came as number %d, lanes as %d, a gang as %d",
                     builds[i].platform, pto_mode_name(builds[i].mode), t.memory[8], t.memory[9],
                     t.memory[10]);
    }
}

static bool note_edge(void *context, uint64_t before, uint64_t after)
{
    char *edges = context;

    snprintf(edges + strlen(edges), TEXT - strlen(edges), "%s%d>%d", edges[0] != '\0' ? " " : "",
             (int)before, (int)after);
    return true;
}

static void count_words(const char *text, const char *of, const char *entry, const struct built *b)
{
    char copy[TEXT], *rest = NULL;

    snprintf(copy, sizeof(copy), "%s", of);
    for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        if (strstr(text, word) == NULL)
            fail_msg("%s on %s, %s: %s is in one of \"%s\" and \"%s\" only", entry, b->platform,
                     pto_mode_name(b->mode), word, of, text);
}

/* With one thread no task runs before all are submitted, so all edges are found. */
static void dependencies_are_those_of_the_reference(void **state)
{
    static const struct {
        const char *entry, *edges;
    } orders[] = { { "order_of_uses", "0>1 0>3 2>3 0>4 2>4 4>5" },
                   { "order_of_creators", "0>1 0>2 0>3 0>4 0>5 0>7 5>7" },
                   { "order_of_parts", "0>2 1>2 0>3 1>3" },
                   { "order_of_elements", "0>2" },
                   { "order_of_boxes", "0>1 0>2 0>3 2>3 0>4 2>4 4>5" },
                   { "order_of_ranks", "0>1 3>5" },
                   { "order_of_predicates", "" },
                   { "order_by_hand", "0>2 1>2 0>3" },
                   { "order_of_lists", "0>1 0>2 1>2" },
                   { "order_of_duplicates", "1>2" },
                   { "order_of_shapes", "0>2 0>3 0>4 0>5 0>7 6>7 0>9 6>9 8>9 0>11 6>11 8>11" } };

    (void)state;
    for (int i = 0; i < BUILDS; i++)
        for (size_t o = 0; o < sizeof(orders) / sizeof(orders[0]); o++) {
            struct trial t;

            init_trial(&t, &builds[i]);
            t.workers = 1;
            t.options.edge = note_edge;
            t.options.edge_context = t.edges;
            expect(&builds[i], orders[o].entry, run(&builds[i], orders[o].entry, &t), PTO_OK, &t);
            count_words(t.edges, orders[o].edges, orders[o].entry, &builds[i]);
            count_words(orders[o].edges, t.edges, orders[o].entry, &builds[i]);
            assert_int_equal(strlen(t.edges), strlen(orders[o].edges)); /* each once */
        }
}

/* Our own rules can be selected by the environment or by the options of the run. */
static void other_rules_can_be_asked_for(void **state)
{
    struct trial t;

    (void)state;
    for (int is_option = 0; is_option < 2; is_option++) {
        init_trial(&t, &builds[1]);
        t.options.edge = note_edge;
        t.options.edge_context = t.edges;
        if (is_option == 1)
            t.options.deps = PTO_DEPS_SAFE;
        else
            setenv("PTO_DEPS", "safe", 1);
        expect(&builds[1], "order_of_uses", run(&builds[1], "order_of_uses", &t), PTO_OK, &t);
        unsetenv("PTO_DEPS");
        assert_non_null(strstr(t.edges, "1>2")); /* write after read */
    }
}

struct failure {
    const char *entry;
    int status[PTO_MODE_COUNT]; /* streamed, host-built */
    const char *text;           /* words in the message; NULL: any message */
    uint64_t window, heap, pool;
    enum pto_limits limits;
};

static void failures_have_the_codes_of_the_reference(void **state)
{
    static const struct failure failures[] = {
        { .entry = "fatal", { -9, -9 }, "because of 3" },
        { .entry = "thrown", { -9, -9 }, "tensor_count() == 99" },
        { .entry = "no_lane", { -5, -5 }, "no lane has a kernel" },
        { .entry = "no_blocks", { -5, -5 }, "task.h:" },
        { .entry = "most_executions", { 0, 0 } },
        { .entry = "too_many_executions", { 0, -5 }, "rules.cpp:" },
        { .entry = "wrong_arguments", { -5, -5 }, "set_dependencies" },
        { .entry = "too_many_tensors", { -5, -5 }, "tensor" },
        { .entry = "own_error", { -5, -5 }, "an error of the orchestration's own" },
        { .entry = "no_scope", { -5, -5 }, "scope" },
        { .entry = "wrong_dependency", { -5, -5 }, "task.h:" },
        { .entry = "auto_in_manual", { -5, -5 }, "rules.cpp:" },
        { .entry = "alloc_nothing", { -5, -5 }, "rules.cpp:" },
        { .entry = "alloc_scalar", { -5, -5 } },
        { .entry = "alloc_input", { -5, -5 } },
        { .entry = "gang_too_wide", { -7, -7 } },
        { .entry = "gang_too_wide_for_cubes", { -7, -7 } },
        { .entry = "gang_too_wide_for_clusters", { -7, -7 } },
        { .entry = "scope_too_deep", { -5, -5 }, "64" },
        { .entry = "read_what_is_made", { 0, -5 } },
        { .entry = "read_of_nobody", { 0, -5 } },
        { .entry = "write_of_nobody", { 0, -5 } },
        { .entry = "gang_of_one", { 0, 0 } },
        { .entry = "wait_for_data", { -8, -5 } },
        { .entry = "read_beside_reader", { 0, -5 } },
        { .entry = "write_beside_reader", { -8, -5 } },
        { .entry = "never_complete", { -100, -100 }, "sub_class=S4" },
        { .entry = "unknown_condition", { -101, -101 } },
        { .entry = "too_many_conditions", { -102, -102 } },
        { .entry = "too_many_waiting", { -102, -102 } },
        { .entry = "too_many_together", { -103, -103 } },
        { .entry = "keep_by_waiting", { 0, -3 }, NULL, .window = 4 },
        { .entry = "keep_by_retaining", { -3, -3 }, NULL, .window = 4 },
        { .entry = "fill_regions", { -11, -11 }, NULL, .limits = PTO_LIMITS_REFERENCE },
        { .entry = "fill_ready", { 0, -104 }, NULL, .limits = PTO_LIMITS_REFERENCE },
        { .entry = "fill_dependencies", { 0, -4 }, NULL, .limits = PTO_LIMITS_REFERENCE },
        { .entry = "fill_scope", { -1, -3 }, NULL, .window = 4 },
        { .entry = "fill_window", { -3, -3 }, NULL, .window = 4 },
        { .entry = "fill_every_ring", { -3, -3 }, NULL, .window = 4 },
        { .entry = "report_scope_tasks", { -10, -10 }, "12 tasks in scopes" },
        { .entry = "fill_heap", { -2, -2 }, NULL, .heap = 1024 },
        { .entry = "use_heap_again", { 0, -2 }, NULL, .heap = 4096 },
        { .entry = "fill_dependencies", { -4, -4 }, NULL, .pool = 4 },
        { .entry = "fill_dependencies", { 0, 0 } },
    };

    (void)state;
    for (int i = 0; i < BUILDS; i++)
        for (size_t f = 0; f < sizeof(failures) / sizeof(failures[0]); f++) {
            const struct failure *want = &failures[f];
            int wanted = want->status[builds[i].mode];
            struct trial t;

            init_trial(&t, &builds[i]);
            t.options.stall_timeout_ns = wanted == -100 ? 100 * MS : 0;
            t.options.data_timeout_ns = wanted == -8 ? 100 * MS : 0;
            t.options.limits = want->limits;
            for (int ring = 0; ring < 4; ring++) {
                t.options.rings.task_window[ring] = want->window;
                t.options.rings.heap[ring] = want->heap;
                t.options.rings.dep_pool[ring] = want->pool;
            }
            expect(&builds[i], want->entry, run(&builds[i], want->entry, &t), wanted, &t);
            if (wanted < 0 && want->text != NULL && strstr(t.report.error.text, want->text) == NULL)
                fail_msg("%s: \"%s\" is not in: %s", want->entry, want->text, t.report.error.text);
        }
}

/* Tasks that were submitted before the orchestration failed run only if tasks are streamed. */
static void a_graph_that_is_not_whole_is_not_launched(void **state)
{
    static const char *const entries[] = { "fatal_after_tasks", "thrown_after_tasks" };

    (void)state;
    for (int i = 0; i < BUILDS; i++)
        for (int e = 0; e < 2; e++) {
            uint64_t executions = builds[i].mode == PTO_MODE_HOST ? 0 : 2;
            struct trial t;

            init_trial(&t, &builds[i]);
            expect(&builds[i], entries[e], run(&builds[i], entries[e], &t), -9, &t);
            assert_int_equal(t.report.tasks, 2);
            assert_int_equal(t.report.executions, executions);
            assert_int_equal(t.report.stopped, 2 - executions);
        }
}

/* ---- two devices ---- */

struct user {
    struct pto_device *device;
    struct pto_callable *callable;
    int32_t wrong; /* runs */
};

enum { RUNS = 50 };

static void *run_often(void *arg)
{
    struct user *user = arg;

    for (int32_t i = 1; i <= RUNS; i++) {
        struct trial t;

        init_trial(&t, &builds[0]);
        user->wrong += run_on(user->device, user->callable, &t) != PTO_OK || t.memory[0] != 100 * i;
    }
    return NULL;
}

/* Each device has separate variables of the object, including the handle of its run. */
static void each_device_has_an_object_of_its_own(void **state)
{
    struct pto_callable *callable = load_entry(&builds[0], "own_variables");
    struct user user[2];
    pthread_t thread[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        user[i] = (struct user){ open_device(builds[0].platform, 0, 2), callable, 0 };
        assert_int_equal(pthread_create(&thread[i], NULL, run_often, &user[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        assert_int_equal(user[i].wrong, 0);
        pto_device_close(user[i].device);
    }
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_is_there_and_means_what_it_did),
        cmocka_unit_test(lines_of_log_have_a_level_and_a_threshold),
        cmocka_unit_test(the_configuration_counts_when_tasks_are_streamed),
        cmocka_unit_test(tasks_do_what_they_did),
        cmocka_unit_test(blocks_begin_in_order),
        cmocka_unit_test(lanes_have_the_cores_of_the_reference),
        cmocka_unit_test(gangs_go_first_and_then_lanes),
        cmocka_unit_test(dependencies_are_those_of_the_reference),
        cmocka_unit_test(other_rules_can_be_asked_for),
        cmocka_unit_test(failures_have_the_codes_of_the_reference),
        cmocka_unit_test(a_graph_that_is_not_whole_is_not_launched),
        cmocka_unit_test(each_device_has_an_object_of_its_own),
    };

    if (system("command -v \"${CXX:-g++}\" >/dev/null") != 0) {
        printf("no C++ compiler here\n");
        return SKIPPED;
    }
    return cmocka_run_group_tests(tests, build_all, free_all);
}

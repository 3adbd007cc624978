/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * Tiles of a buffer are written, then the whole buffer is read repeatedly: joins replace edges,
 * which only the number of edges shows. Every kernel checks that its predecessors have run, so a
 * missing order is found.
 */
#include "tests/fixture/device_test.h"

enum { TILES = 24, READERS = 20, ROUNDS = 3, ROUND = TILES + READERS, TASKS = ROUNDS * ROUND };

static uint32_t tile[TILES];
static uint32_t reads[ROUNDS]; /* that have ended */
static uint32_t never;         /* a counter that no kernel writes */
static bool is_stuck;          /* the first task does not end */
static enum pto_deps deps;

static void write_tile(int64_t *args)
{
    uint32_t round = (uint32_t)args[1], index = (uint32_t)args[2];

    EXPECT(load(&tile[index]) == round);
    EXPECT(round == 0 || deps != PTO_DEPS_SAFE || load(&reads[round - 1]) == READERS);
    if (is_stuck && round == 0 && index == 0)
        EXPECT(pto_defer(args, &never, 1));
    bump(&tile[index]);
}

static void read_whole(int64_t *args)
{
    uint32_t round = (uint32_t)args[1];

    for (uint32_t i = 0; i < TILES; i++) /* under the reference's rules no task waits for readers */
        EXPECT(deps == PTO_DEPS_SAFE ? load(&tile[i]) == round + 1 : load(&tile[i]) > round);
    bump(&reads[round]);
}

static const struct pto_kernel kernels[] = { { "write", write_tile, PTO_CORE_AIV },
                                             { "read", read_whole, PTO_CORE_AIV } };

static void submit_rounds(struct pto_orch *o, const struct pto_entry *entry)
{
    const uint32_t whole_shape[1] = { TILES }, one[1] = { 1 };
    struct pto_tensor whole = pto_tensor_external(tile, whole_shape, 1, PTO_UINT32);
    struct pto_args args;

    (void)entry;
    for (uint32_t i = 0; i < TASKS; i++) {
        uint32_t at[1] = { i % ROUND };
        struct pto_tensor t;

        pto_args_init(&args);
        if (i % ROUND < TILES) {
            t = pto_tensor_view(&whole, one, at);
            pto_add_inout(&args, &t);
        } else {
            pto_add_input(&args, &whole);
        }
        pto_add_scalar(&args, i / ROUND);
        pto_add_scalar(&args, i % ROUND);
        pto_submit_aiv(o, i % ROUND >= TILES, &args);
    }
}

static void clear(void)
{
    memset(tile, 0, sizeof(tile));
    memset(reads, 0, sizeof(reads));
}

static void assert_ran(void)
{
    assert_nothing_unexpected();
    assert_int_equal(report.tasks, TASKS);
    assert_int_equal(report.executions, TASKS);
    assert_int_equal(report.dummies, 0);
}

static void all_order_is_kept_with_few_edges(const struct setting *at)
{
    struct pto_run_options options;

    pto_run_options_init(&options);
    for (int i = 0; i < 2 * (int)PTO_DEPS_COUNT; i++) {
        options.deps = deps = (enum pto_deps)(i / 2);
        options.order_seed = i % 2 != 0 ? 1 + at->workers : 0;
        clear();
        assert_int_equal(run_with(at, kernels, 2, submit_rounds, &options), PTO_OK);
        assert_ran();
        if (at->mode == PTO_MODE_HOST)
            assert_in_range(report.edges, 2 * TASKS - ROUND, 3 * TASKS);
    }
    deps = PTO_DEPS_SAFE;
}

static bool count_edge(void *context, uint64_t before, uint64_t after)
{
    EXPECT(before < after);
    ++*(uint64_t *)context;
    return true;
}

/*
 * Readers wait for the writer of each tile; a writer waits for each reader, and for the tile's
 * earlier writer.
 */
enum { ALL_EDGES = ROUNDS * TILES * READERS + (ROUNDS - 1) * TILES * (READERS + 1) };

static void who_asks_is_told_of_every_edge(const struct setting *at)
{
    struct pto_run_options options;
    uint64_t recorded = 0;

    clear();
    pto_run_options_init(&options);
    options.edge = count_edge;
    options.edge_context = &recorded;
    assert_int_equal(run_with(at, kernels, 2, submit_rounds, &options), PTO_OK);
    assert_ran();
    assert_int_equal(recorded, ALL_EDGES);
    assert_int_equal(report.edges, ALL_EDGES);
}

static uint64_t count_flows(struct pto_device *device)
{
    static char line[1 << 16];
    char path[64];
    uint64_t count = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/tmp/test_joins.%d.json", (int)getpid());
    assert_int_equal(pto_trace_write(device, path, NULL), PTO_OK);
    file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        count += strstr(line, "\"ph\":\"s\"") != NULL;
    fclose(file);
    unlink(path);
    return count;
}

/* Built without a recorder, so with joins; launched with and without a recorder. */
static void a_launch_records_tasks_only(const struct setting *at)
{
    struct pto_callable *callable = make_callable(kernels, 2, submit_rounds);
    struct pto_run_options options;
    struct pto_graph *graph;

    pto_run_options_init(&options);
    pto_run_report_init(&report);
    assert_int_equal(pto_graph_build(at->device, callable, NULL, NULL, &report, &graph), PTO_OK);
    for (int i = 0; i < 3; i++) {
        options.trace = i == 1 ? PTO_TRACE_ARGUMENTS : PTO_TRACE_OFF;
        clear();
        pto_run_report_init(&report);
        assert_int_equal(pto_graph_run(graph, NULL, &options, &report), PTO_OK);
        assert_ran();
        assert_in_range(report.edges, 2 * TASKS - ROUND, 3 * TASKS);
        if (i == 1)
            assert_int_equal(count_flows(at->device), ALL_EDGES);
    }
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
}

static void assert_tells(const char *report, const char *part, bool is_reported)
{
    if ((strstr(report, part) != NULL) != is_reported)
        fail_msg("\"%s\" is %sin \"%s\"", part, is_reported ? "not " : "", report);
}

static void a_stall_tells_of_tasks_only(const struct setting *at)
{
    struct pto_run_options options;
    static char report[16384];
    char last[64];

    clear();
    is_stuck = true;
    pto_run_options_init(&options);
    options.stall_timeout_ns = 100 * MS;
    assert_int_equal(run_with(at, kernels, 2, submit_rounds, &options), PTO_ESTALL);
    is_stuck = false;
    assert_true(pto_device_last_failure(at->device, report, sizeof(report)) > 0);
    assert_tells(report, "waits for task 0\n", true);
    snprintf(last, sizeof(last), "waits for task %d", TILES);
    assert_tells(report, last, false);
    assert_tells(report, "is ready", false);
    assert_tells(report, "dummy", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(0, all_order_is_kept_with_few_edges),
        EACH_HOST(0, who_asks_is_told_of_every_edge),
        EACH_HOST(0, a_launch_records_tasks_only),
        EACH_HOST(0, a_stall_tells_of_tasks_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

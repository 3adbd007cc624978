/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * Graphs that are built once and launched many times: each promise of pto.h, on both platforms with
 * one, two and four workers.
 *
 * Most tests use one graph with a task of every kind. A task of each kind can be made to fail, to
 * wait at a gate, or to wait for a condition that never holds, so that a launch ends early in every
 * possible way. The next launch must compute the same results as before.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "tests/fixture/kinds_test.h"
#include "tests/fixture/open_test.h"
#include "tests/fixture/random_test.h"

#if defined(__SANITIZE_ADDRESS__)
enum { HAS_HANDLER = 0 };
#elif defined(__SANITIZE_THREAD__)
enum { HAS_HANDLER = 1 };
#else
enum { HAS_HANDLER = 1 };
#endif

enum {
    OUT_WORDS = 32,
    BLOCKS = 5,
    CLUSTERS = 2,
    LAUNCHES = IS_SANITIZED ? 12 : 100,
    STEADY_LAUNCHES = IS_SANITIZED ? 6 : 250, /* sanitizers count no allocations */
    THREADS = 4,
    THREAD_LAUNCHES = IS_SANITIZED ? 15 : 50,
    FAILURES = IS_SANITIZED ? 20 : 100,
    CHAINS = 16,
    CHAIN_TASKS = 12,
    WIDE = 3000, /* number of tasks that are ready at once: more than a deque holds */
};

/* ---- in place of libc's ---- */

static uint32_t is_counting;
static uint64_t allocations;

static inline void note_alloc(void *memory)
{
    (void)memory;
    if (__atomic_load_n(&is_counting, __ATOMIC_RELAXED) != 0)
        __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
}

static inline void note_free(void *memory)
{
    (void)memory;
}

#include "tests/fixture/allocator_test.h"

/* ---- kernels ---- */

enum { KERNEL_STORE = KINDS_KERNELS, KERNEL_DOUBLE, KERNEL_ADDRESS, KERNEL_HOLD, KERNELS };

/* Which kernel misbehaves, and how. */
enum how {
    HOW_GOOD,
    HOW_CRASH,
    HOW_CONDITION,
    HOW_GATE,
    HOW_NO_RAISE,
    HOWS,
    HOW_SLOW,
    HOW_AWAIT,
    HOW_DEFER
};

static uint32_t fail_how = HOW_GOOD;
static uint32_t fail_at;
static uint32_t at_gate;
static uint32_t is_open;
static volatile int *volatile nowhere = NULL;

static uint32_t how_at(uint32_t kernel)
{
    return __atomic_load_n(&fail_at, __ATOMIC_RELAXED) == kernel
               ? __atomic_load_n(&fail_how, __ATOMIC_RELAXED)
               : HOW_GOOD;
}

/* Blocks that crash at the same time do not race. */
__attribute__((no_sanitize_thread, noinline)) static void crash(void)
{
    *nowhere = 1;
}

/* Whether the kernel does its work after misbehaving. */
static bool misbehave(uint32_t kernel, const int64_t *args)
{
    uint32_t how = how_at(kernel);

    switch (how) {
    case HOW_CRASH:
        crash();
        break;
    case HOW_CONDITION:
        (void)pto_defer(args, (const uint32_t *)(uintptr_t)2, 1); /* not the address of a counter */
        break;
    case HOW_GATE:
        __atomic_fetch_add(&at_gate, 1, __ATOMIC_ACQ_REL);
        while (__atomic_load_n(&is_open, __ATOMIC_ACQUIRE) == 0)
            rest();
        break;
    case HOW_SLOW:
        rest();
        break;
    default:
        break;
    }
    return how != HOW_NO_RAISE;
}

static void kernel_store(int64_t *args)
{
    misbehave(KERNEL_STORE, args);
    words_of(args, 0)[0] = (int32_t)args[1];
}

static void kernel_double(int64_t *args)
{
    misbehave(KERNEL_DOUBLE, args);
    words_of(args, 0)[0] *= 2;
}

/* Stores the alignment of its first argument. */
static void kernel_address(int64_t *args)
{
    words_of(args, 1)[0] = (int32_t)((uintptr_t)words_of(args, 0) % 4096);
}

/* Waits for kernel_raise in one of several ways. */
static void kernel_hold(int64_t *args)
{
    uint32_t *counter = (uint32_t *)words_of(args, 0);
    uint32_t how = how_at(KERNEL_HOLD);

    misbehave(KERNEL_HOLD, args);
    while (how == HOW_AWAIT && pto_notified(counter) == 0)
        rest();
    if (how == HOW_DEFER)
        (void)pto_defer(args, counter, 1);
    words_of(args, 1)[0] = 500;
}

static const struct pto_kernel kernels[KERNELS] = {
    KINDS_TABLE,
    [KERNEL_STORE] = { "store", kernel_store, PTO_CORE_AIV },
    [KERNEL_DOUBLE] = { "double", kernel_double, PTO_CORE_AIV },
    [KERNEL_ADDRESS] = { "address", kernel_address, PTO_CORE_AIV },
    [KERNEL_HOLD] = { "hold", kernel_hold, PTO_CORE_AIV },
};

/* Kernels that misbehave if the test says so. */
static const uint32_t places[] = { KERNEL_COPY,     KERNEL_BLOCK, KERNEL_MEET,  KERNEL_LANE_AIC,
                                   KERNEL_LANE_AIV, KERNEL_STORE, KERNEL_DEFER, KERNEL_SUM };

enum { PLACES = sizeof(places) / sizeof(places[0]) };

/* ---- the graph with everything ---- */

/* Positions of the results in the entry's second tensor. */
enum {
    OUT_BLOCKS = 0,
    OUT_GANG = OUT_BLOCKS + BLOCKS,
    OUT_LANES = OUT_GANG + GANG,
    OUT_EVEN = OUT_LANES + 3,
    OUT_BLOCKS_EVEN, /* blocks of a task with a predicate */
    OUT_LANES_EVEN = OUT_BLOCKS_EVEN + 2,
    OUT_DEFERRED = OUT_LANES_EVEN + 3,
    OUT_SUM,
    OUT_SET,
    OUT_SCALAR,
    OUT_ORDER, /* explicit dependencies in a manual scope */
    OUT_END
};

_Static_assert((int)OUT_END <= (int)OUT_WORDS, "results fit");

static struct pto_tensor_info zeroed_words(uint32_t count)
{
    struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(count), 1, PTO_INT32);

    pto_tensor_info_fill(&info, 0);
    return info;
}

static void submit_sums(struct pto_orch *o, const struct pto_tensor *in,
                        const struct pto_tensor *sum_at)
{
    struct pto_tensor_info plain = pto_tensor_info_make(PTO_DIMS(WORDS), 1, PTO_INT32);
    struct pto_tensor_info zeroed = zeroed_words(WORDS);
    const struct pto_tensor *copy[4];
    struct pto_outputs made;

    for (int i = 0; i < 4; i++) {
        made = pto_aiv(o, KERNEL_COPY, PTO_IN(in), PTO_OUT(&plain));
        if (made.count == 0)
            return;
        copy[i] = made.tensor;
    }
    PTO_SCOPE(o) {
        made = pto_alloc(o, PTO_OUT(&zeroed));
        if (made.count != 0) {
            pto_aiv(o, KERNEL_ADD, PTO_IN(copy[0]), PTO_INOUT(made.tensor), PTO_PASS(0));
            pto_aiv(o, KERNEL_SUM, PTO_IN(copy[0]), PTO_IN(copy[1]), PTO_IN(copy[2]),
                    PTO_IN(copy[3]), PTO_IN(made.tensor), PTO_WRITE(sum_at), PTO_TIMED(3));
        }
    }
}

/* Two tasks on one word, ordered only by an explicit dependency. */
static void submit_ordered(struct pto_orch *o, const struct pto_tensor *at)
{
    PTO_SCOPE_WITH(o, PTO_SCOPE_MANUAL) {
        struct pto_outputs first =
            pto_aiv(o, KERNEL_STORE, PTO_INOUT(at), PTO_INT(450), PTO_TIMED(4));
        struct pto_args args;

        pto_args_init(&args);
        pto_add_inout(&args, at);
        pto_set_deps(&args, &first.task, NULL, 1);
        (void)pto_submit_aiv(o, KERNEL_DOUBLE, &args);
    }
}

static void orchestrate_all(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *in = &entry->tensor[0], *out = &entry->tensor[1];
    struct pto_tensor_info zeroed = zeroed_words(WORDS);
    struct pto_tensor blocks_at = part_of(out, OUT_BLOCKS, BLOCKS);
    struct pto_tensor gang_at = part_of(out, OUT_GANG, GANG);
    struct pto_tensor lanes_at = part_of(out, OUT_LANES, 3);
    struct pto_tensor even_at = part_of(out, OUT_EVEN, 1);
    struct pto_tensor blocks_even_at = part_of(out, OUT_BLOCKS_EVEN, 2);
    struct pto_tensor lanes_even_at = part_of(out, OUT_LANES_EVEN, 3);
    struct pto_tensor deferred_at = part_of(out, OUT_DEFERRED, 1);
    struct pto_tensor sum_at = part_of(out, OUT_SUM, 1);
    struct pto_tensor order_at = part_of(out, OUT_ORDER, 1);
    struct pto_outputs made;

    pto_set_data(o, out, 1, PTO_DIMS(OUT_SET), 600);
    pto_set_data(o, out, 1, PTO_DIMS(OUT_SCALAR), 700 + pto_scalar(o, 1));
    submit_sums(o, in, &sum_at);
    pto_aiv(o, KERNEL_BLOCK, PTO_INOUT(&blocks_at), PTO_BLOCKS(BLOCKS), PTO_TIMED(5));
    made = pto_alloc(o, PTO_OUT(&zeroed), PTO_OUT(&zeroed));
    if (made.count == 0)
        return;
    pto_aiv(o, KERNEL_MEET, PTO_INOUT(&made.tensor[0]), PTO_INOUT(&gang_at), PTO_GANG(GANG),
            PTO_TIMED(6));
    pto_mix(o, PTO_LANES(KERNEL_LANE_AIC, KERNEL_LANE_AIV, KERNEL_LANE_AIV), PTO_INOUT(&lanes_at));
    pto_aiv(o, KERNEL_STORE, PTO_INOUT(&even_at), PTO_INT(400), PTO_IF(in, EQ, 0, WORDS - 1));
    pto_aiv(o, KERNEL_BLOCK, PTO_INOUT(&blocks_even_at), PTO_BLOCKS(2),
            PTO_IF(in, EQ, 0, WORDS - 1));
    pto_mix(o, PTO_LANES(KERNEL_LANE_AIC, KERNEL_LANE_AIV, KERNEL_LANE_AIV),
            PTO_INOUT(&lanes_even_at), PTO_IF(in, EQ, 0, WORDS - 1));
    pto_aiv(o, KERNEL_DEFER, PTO_AFTER(&made.tensor[1]), PTO_INOUT(&deferred_at));
    pto_aiv(o, KERNEL_RAISE, PTO_AFTER(&made.tensor[1]));
    pto_dummy(o, PTO_IN(&deferred_at));
    pto_aiv(o, KERNEL_DOUBLE, PTO_INOUT(&deferred_at));
    submit_ordered(o, &order_at);
}

struct buffers {
    int32_t in[WORDS];
    int32_t out[OUT_WORDS];
    struct pto_tensor tensor[2];
    uint64_t scalar[2];
    struct pto_entry entry;
};

static const struct pto_entry *entry_for(struct buffers *b, int32_t base, uint64_t addend)
{
    for (int i = 0; i < WORDS - 1; i++)
        b->in[i] = base + i;
    b->in[WORDS - 1] = base % 2;
    memset(b->out, 0xff, sizeof(b->out));
    b->tensor[0] = pto_tensor_external(b->in, PTO_DIMS(WORDS), 1, PTO_INT32);
    b->tensor[1] = pto_tensor_external(b->out, PTO_DIMS(OUT_WORDS), 1, PTO_INT32);
    b->scalar[0] = addend;
    b->scalar[1] = 9;
    b->entry = (struct pto_entry){ 2, 2, b->tensor, b->scalar };
    return &b->entry;
}

static void assert_all_right(const struct buffers *b)
{
    bool is_even = b->in[WORDS - 1] == 0;
    int32_t sum = 0;

    for (int i = 0; i < WORDS; i++)
        sum += b->in[i];
    for (int i = 0; i < BLOCKS; i++)
        assert_int_equal(b->out[OUT_BLOCKS + i], 100 + i);
    for (int i = 0; i < GANG; i++)
        assert_int_equal(b->out[OUT_GANG + i], 200 + i);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(b->out[OUT_LANES + i], 300 + i);
        assert_int_equal(b->out[OUT_LANES_EVEN + i], is_even ? 300 + i : -1);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(b->out[OUT_BLOCKS_EVEN + i], is_even ? 100 + i : -1);
    assert_int_equal(b->out[OUT_EVEN], is_even ? 400 : -1);
    assert_int_equal(b->out[OUT_DEFERRED], 1000);
    assert_int_equal(b->out[OUT_SUM], 5 * sum + WORDS * (int32_t)b->scalar[0]);
    assert_int_equal(b->out[OUT_SET], 600);
    assert_int_equal(b->out[OUT_SCALAR], 709);
    assert_int_equal(b->out[OUT_ORDER], 900);
}

/* ---- devices ---- */

static struct pto_device *device;
static struct pto_callable *callable;
static uint32_t workers;

static void open_launcher(const char *platform, uint32_t worker_count, uint64_t memory_max)
{
    workers = worker_count;
    kinds_hook = misbehave;
    device = open_device_with(.platform = platform, .workers = worker_count, .clusters = CLUSTERS,
                              .memory_max = memory_max);
}

static void close_both(void)
{
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

/* The test on every platform with 1, 2 and 4 workers. */
static void on_each_device(pto_orch_fn orchestration, void (*test)(void))
{
    static const uint32_t counts[] = { 1, 2, 4 };

    for (uint32_t p = 0; pto_platform_at(p) != NULL; p++)
        for (uint32_t i = 0; pto_platform_at(p)->missing == NULL && i < 3; i++) {
            if (is_left_out(p, counts[i]))
                continue;
            open_launcher(pto_platform_at(p)->name, counts[i], 0);
            callable = make_callable(kernels, KERNELS, orchestration);
            __atomic_store_n(&fail_how, HOW_GOOD, __ATOMIC_RELAXED);
            test();
            close_both();
        }
}

struct on_each {
    pto_orch_fn orchestration;
    void (*test)(void);
};

static void test_on_each(void **state)
{
    const struct on_each *each = *state;

    on_each_device(each->orchestration, each->test);
}

#define ON_EACH(orchestration, test) \
    CASE(test, test_on_each, (&(struct on_each){ orchestration, test }))

/* If there is a scalar 0, it may vary. */
static struct pto_graph *build(struct pto_callable *of, const struct pto_entry *entry)
{
    struct pto_run_options options;
    struct pto_run_report report;
    struct pto_graph *graph = NULL;
    int status;

    pto_run_options_init(&options);
    pto_run_report_init(&report);
    if (entry != NULL && entry->scalar_count != 0)
        assert_int_equal(pto_run_options_vary(&options, 0), PTO_OK);
    status = pto_graph_build(device, of, entry, &options, &report, &graph);
    if (status != PTO_OK)
        fail_msg("build: %s", report.error.text);
    return graph;
}

static void launch(struct pto_graph *graph, const struct pto_entry *entry)
{
    struct pto_run_report report;
    int status;

    pto_run_report_init(&report);
    status = pto_graph_run(graph, entry, NULL, &report);
    if (status != PTO_OK)
        fail_msg("launch: %d %s", status, report.error.text);
}

/* Expects a refusal whose reason contains `text`. */
static void assert_refused(struct pto_graph *graph, const struct pto_entry *entry, const char *text)
{
    struct pto_run_report report;

    pto_run_report_init(&report);
    assert_int_equal(pto_graph_run(graph, entry, NULL, &report), PTO_EGRAPH);
    assert_int_equal(report.error.status, PTO_EGRAPH);
    if (strstr(report.error.text, text) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", report.error.text, text);
    assert_int_equal(report.executions, 0);
}

/* ---- what may change ---- */

static struct buffers room[3];

static void every_kind_of_task_is_right_in_every_launch(void)
{
    struct pto_graph *graph = build(callable, entry_for(&room[0], 1, 3));
    struct pto_run_report run_report, report;
    struct pto_run_options options;

    pto_run_report_init(&run_report);
    pto_run_report_init(&report);
    pto_run_options_init(&options);
    /* no task ran, but the orchestration's own writes were made */
    for (int i = 0; i < OUT_WORDS; i++)
        assert_true(room[0].out[i] == -1 || i == OUT_SET || i == OUT_SCALAR);
    assert_int_equal(pto_run(device, callable, entry_for(&room[0], 0, 3), NULL, &run_report),
                     PTO_OK);
    for (int i = 0; i < LAUNCHES; i++) {
        struct buffers *b = &room[i % 7 == 0 ? 0 : i % 3];
        const struct pto_entry *entry = entry_for(b, i, (uint64_t)i * 5);

        options.order_seed = (uint64_t)(i % 4);
        options.mode = i % 5 == 0 ? PTO_MODE_STREAM : PTO_MODE_HOST;
        options.trace = (enum pto_trace)(i % 3);
        assert_int_equal(pto_graph_run(graph, entry, &options, &report), PTO_OK);
        assert_all_right(b);
        assert_int_equal(report.tasks, run_report.tasks);
        if (i % 2 == 0)
            assert_int_equal(report.executions, run_report.executions);
        assert_true(report.timing[3].end_ns != 0 && report.timing[4].end_ns != 0);
        assert_true(report.timing[5].end_ns != 0 && report.timing[6].end_ns != 0);
        assert_true(report.timing[0].end_ns == 0);
    }
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
}

static void orchestrate_wide(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *in = &entry->tensor[0];
    struct pto_tensor last = part_of(&entry->tensor[1], 0, 1);
    struct pto_tensor_info plain = pto_tensor_info_make(PTO_DIMS(WORDS), 1, PTO_INT32);

    for (int i = 0; i < WIDE; i++)
        (void)pto_aiv(o, KERNEL_COPY, PTO_IN(in), PTO_OUT(&plain));
    for (int i = 0; i < 20; i++) /* the first ones wait for nothing, later ones for each other */
        pto_aiv(o, i == 0 ? KERNEL_STORE : KERNEL_DOUBLE, PTO_INOUT(&last), PTO_INT(1));
}

static void thousands_of_tasks_may_be_ready_at_once(void)
{
    struct pto_graph *graph = build(callable, entry_for(&room[0], 1, 3));
    struct pto_run_report report;

    pto_run_report_init(&report);
    for (int i = 0; i < 20; i++) {
        struct buffers *b = &room[i % 2];

        assert_int_equal(pto_graph_run(graph, entry_for(b, i, 3), NULL, &report), PTO_OK);
        assert_int_equal(b->out[0], 1 << 19);
        assert_int_equal(report.executions, WIDE + 20);
        assert_int_equal(report.edges, 19);
    }
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
}

/* Chains of short tasks, some of which are joined. */
static void begin_chains(struct pto_orch *o, const struct pto_entry *entry, struct pto_tensor at[])
{
    for (uint32_t i = 0; i < CHAINS; i++) {
        at[i] = part_of(&entry->tensor[1], i, 1);
        pto_aiv(o, KERNEL_STORE, PTO_INOUT(&at[i]), PTO_INT(1));
    }
}

static void continue_chains(struct pto_orch *o, const struct pto_tensor at[], uint32_t from,
                            uint32_t end)
{
    for (uint32_t k = from; k < end; k++)
        for (uint32_t i = 0; i < CHAINS; i++)
            pto_aiv(o, KERNEL_DOUBLE, PTO_INOUT(&at[i]), PTO_IN(&at[(i + k) % CHAINS]));
}

/* Such chains, a task that is deferred, some blocks. */
static void orchestrate_short(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info zeroed = zeroed_words(1);
    struct pto_tensor at[CHAINS], blocks_at = part_of(&entry->tensor[1], CHAINS + 1, BLOCKS);
    struct pto_tensor deferred_at = part_of(&entry->tensor[1], CHAINS, 1);
    struct pto_outputs made = pto_alloc(o, PTO_OUT(&zeroed));

    if (made.count == 0)
        return;
    begin_chains(o, entry, at);
    continue_chains(o, at, 0, CHAIN_TASKS / 2);
    pto_aiv(o, KERNEL_DEFER, PTO_AFTER(made.tensor), PTO_INOUT(&deferred_at));
    pto_aiv(o, KERNEL_RAISE, PTO_AFTER(made.tensor));
    pto_aiv(o, KERNEL_DOUBLE, PTO_INOUT(&deferred_at));
    pto_aiv(o, KERNEL_BLOCK, PTO_INOUT(&blocks_at), PTO_BLOCKS(BLOCKS));
    continue_chains(o, at, CHAIN_TASKS / 2, CHAIN_TASKS);
}

static uint64_t launch_short_once(struct pto_graph *graph)
{
    struct pto_run_report report;

    pto_run_report_init(&report);
    assert_int_equal(pto_graph_run(graph, entry_for(&room[0], 1, 3), NULL, &report), PTO_OK);
    for (int i = 0; i < CHAINS; i++)
        assert_int_equal(room[0].out[i], 1 << CHAIN_TASKS);
    assert_int_equal(room[0].out[CHAINS], 1000);
    for (int i = 0; i < BLOCKS; i++)
        assert_int_equal(room[0].out[CHAINS + 1 + i], 100 + i);
    return report.stolen;
}

/*
 * The submitter keeps short launches for itself; long ones are shared. With a sanitizer the
 * duration of tasks differs, but results never do.
 */
static void launches_of_short_tasks_are_right_whoever_runs_them(void)
{
    struct pto_graph *graph = build(callable, entry_for(&room[0], 1, 3));
    bool was_kept = false;

    /* Whether sharing is tried depends on durations, and so on the load of the machine. */
    for (int i = 0; i < LAUNCHES || (!was_kept && !IS_SANITIZED && i < 1000 * LAUNCHES); i++)
        was_kept = launch_short_once(graph) == 0 || was_kept;
    assert_true(was_kept || IS_SANITIZED);
    __atomic_store_n(&fail_at, KERNEL_DOUBLE, __ATOMIC_RELAXED);
    __atomic_store_n(&fail_how, HOW_SLOW, __ATOMIC_RELAXED);
    assert_true(launch_short_once(graph) != 0 || workers == 1);
    __atomic_store_n(&fail_how, HOW_GOOD, __ATOMIC_RELAXED);
    for (int i = 0; i < 10; i++)
        (void)launch_short_once(graph);
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
}

/*
 * A graph without blocks, so that one thread may run it task by task; one task may wait for the
 * last one.
 */
static void orchestrate_lines(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info zeroed = zeroed_words(1);
    struct pto_tensor at[CHAINS], held_at = part_of(&entry->tensor[1], CHAINS, 1);
    struct pto_outputs made = pto_alloc(o, PTO_OUT(&zeroed));

    if (made.count == 0)
        return;
    begin_chains(o, entry, at);
    continue_chains(o, at, 0, CHAIN_TASKS / 2);
    pto_aiv(o, KERNEL_HOLD, PTO_AFTER(made.tensor), PTO_INOUT(&held_at), PTO_IN(&at[0]));
    pto_dummy(o, PTO_INOUT(&held_at), PTO_IN(&at[1]));
    pto_aiv(o, KERNEL_DOUBLE, PTO_INOUT(&held_at));
    continue_chains(o, at, CHAIN_TASKS / 2, CHAIN_TASKS);
    pto_aiv(o, KERNEL_RAISE, PTO_AFTER(made.tensor));
}

static void launch_lines_once(struct pto_graph *graph, uint32_t how)
{
    struct pto_run_report report;

    __atomic_store_n(&fail_at, KERNEL_HOLD, __ATOMIC_RELAXED);
    __atomic_store_n(&fail_how, how, __ATOMIC_RELAXED);
    pto_run_report_init(&report);
    assert_int_equal(pto_graph_run(graph, entry_for(&room[0], 1, 3), NULL, &report),
                     how == HOW_CRASH ? PTO_ECRASH : PTO_OK);
    if (how == HOW_CRASH)
        return;
    for (int i = 0; i < CHAINS; i++)
        assert_int_equal(room[0].out[i], 1 << CHAIN_TASKS);
    assert_int_equal(room[0].out[CHAINS], 1000);
}

/*
 * A thread may not return from a task, or the task may be deferred: other threads then run the
 * rest.
 */
static void launches_line_by_line_are_right_whatever_happens(void)
{
    static const uint32_t hows[] = { HOW_AWAIT, HOW_DEFER, HOW_SLOW, HOW_CRASH };
    struct pto_graph *graph = build(callable, entry_for(&room[0], 1, 3));

    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < 10; k++) /* the first launches measure which way is faster */
            launch_lines_once(graph, HOW_GOOD);
        if (hows[i % 4] != HOW_CRASH || HAS_HANDLER)
            launch_lines_once(graph, hows[i % 4]);
    }
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
}

static void a_graph_may_be_empty(void)
{
    struct pto_graph *graph = build(callable, NULL);

    for (int i = 0; i < 3; i++)
        launch(graph, NULL);
    assert_int_equal(pto_graph_run(graph, entry_for(&room[0], 1, 1), NULL, NULL), PTO_EGRAPH);
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
}

/* Outputs of tasks are aligned as in a run, and have their initial values in each launch. */
static void orchestrate_outputs(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor at = part_of(&entry->tensor[1], 0, 1);
    struct pto_tensor address_at = part_of(&entry->tensor[1], 1, 1);
    struct pto_tensor second_at = part_of(&entry->tensor[1], 2, 1);
    struct pto_tensor outside;
    struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(WORDS), 1, PTO_INT32);
    struct pto_outputs made, other;

    pto_tensor_info_fill(&info, 21);
    made = pto_aiv(o, KERNEL_ADDRESS, PTO_OUT(&info), PTO_INOUT(&address_at));
    if (made.count == 0)
        return;
    pto_aiv(o, KERNEL_DOUBLE, PTO_INOUT(made.tensor));
    other = pto_alloc(o, PTO_OUT(&info));
    if (other.count == 0)
        return;
    /* An external tensor for the same bytes as an output, which therefore has no creator. */
    outside = pto_tensor_external(pto_tensor_data(other.tensor), PTO_DIMS(WORDS), 1, PTO_INT32);
    pto_aiv(o, KERNEL_DOUBLE, PTO_INOUT(&outside));
    pto_aiv(o, KERNEL_DOUBLE, PTO_INOUT(other.tensor));
    pto_aiv(o, KERNEL_COPY, PTO_IN(made.tensor), PTO_WRITE(&entry->tensor[0]));
    pto_aiv(o, KERNEL_STORE, PTO_INOUT(&at), PTO_INT(5), PTO_IF(made.tensor, EQ, 42, 0));
    pto_aiv(o, KERNEL_STORE, PTO_INOUT(&second_at), PTO_INT(6), PTO_IF(other.tensor, EQ, 84, 0));
}

static void outputs_begin_with_their_values_in_every_launch(void)
{
    struct pto_graph *graph = build(callable, entry_for(&room[0], 1, 3));

    for (int i = 0; i < 10; i++) {
        struct buffers *b = &room[i % 2];

        launch(graph, entry_for(b, i, 3));
        assert_int_equal(b->in[0], 42);
        assert_int_equal(b->in[1], 21);
        assert_int_equal(b->out[0], 5);
        assert_int_equal(b->out[1] % 1024, 0);
        assert_int_equal(b->out[2], 6);
    }
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
}

/* ---- what may not change ---- */

static void other_shapes_are_refused(void)
{
    static int32_t more[OUT_WORDS];
    struct pto_graph *graph = build(callable, entry_for(&room[0], 1, 3));
    struct pto_entry entry = *entry_for(&room[1], 1, 3);
    struct pto_tensor *t = room[1].tensor;
    struct pto_tensor good = t[0];

    launch(graph, &entry);
    t[0] = pto_tensor_external(more, PTO_DIMS(WORDS + 1), 1, PTO_INT32);
    assert_refused(graph, &entry, "tensor 0 of the entry has another shape");
    t[0] = pto_tensor_external(more, PTO_DIMS(2, WORDS / 2), 2, PTO_INT32);
    assert_refused(graph, &entry, "shape");
    t[0] = pto_tensor_external(more, PTO_DIMS(WORDS), 1, PTO_FLOAT32);
    assert_refused(graph, &entry, "type");
    t[0] = pto_tensor_external(more, PTO_DIMS(OUT_WORDS), 1, PTO_INT32);
    t[0] = pto_tensor_view(&t[0], PTO_DIMS(WORDS), PTO_DIMS(1));
    assert_refused(graph, &entry, "shape");
    t[0] = pto_tensor_external(NULL, PTO_DIMS(WORDS), 1, PTO_INT32);
    assert_refused(graph, &entry, "address");
    t[0] = good;
    entry.tensor_count = 1;
    assert_refused(graph, &entry, "2 tensors and 2 scalars; the launch has 1 and 2");
    entry.tensor_count = 2;
    entry.scalar_count = 1;
    assert_refused(graph, &entry, "2 tensors and 2 scalars; the launch has 2 and 1");
    entry.scalar_count = 2;
    launch(graph, &entry);
    assert_all_right(&room[1]);
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
}

/* A predicate on a tensor without storage always holds; with storage it may not. */
static void orchestrate_optional(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor at = part_of(&entry->tensor[1], 0, 1);

    pto_aiv(o, KERNEL_STORE, PTO_INOUT(&at), PTO_INT(7), PTO_IF(&entry->tensor[0], EQ, 77, 0));
}

static void a_tensor_has_storage_always_or_never(void)
{
    struct pto_entry entry = *entry_for(&room[0], 1, 3);
    struct pto_tensor with = room[0].tensor[0];
    struct pto_tensor without = with;
    struct pto_graph *graph;

    without.addr = 0;
    room[0].tensor[0] = without;
    graph = build(callable, &entry);
    launch(graph, &entry);
    assert_int_equal(room[0].out[0], 7);
    room[0].tensor[0] = with;
    assert_refused(graph, &entry, "address");
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
    room[0].out[0] = -1;
    graph = build(callable, &entry);
    launch(graph, &entry);
    assert_int_equal(room[0].out[0], -1);
    room[0].tensor[0] = without;
    assert_refused(graph, &entry, "address");
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
}

static void scalars_change_if_they_are_declared_to(void)
{
    struct pto_graph *graph = build(callable, entry_for(&room[0], 1, 3));
    struct pto_entry entry = *entry_for(&room[0], 1, 3);

    for (int i = 0; i < 5; i++) { /* the scalar is declared to vary, so any value is accepted */
        (void)entry_for(&room[0], i, (uint64_t)i * 1000);
        launch(graph, &entry);
        assert_all_right(&room[0]);
    }
    room[0].scalar[1] = 10;
    assert_refused(graph, &entry, "scalar 1 of the entry was 9 when the graph was built and is 10");
    assert_refused(graph, &entry, "it was not declared to vary");
    room[0].scalar[1] = 9;
    launch(graph, &entry);
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
}

/*
 * The first and the second scalar are passed on to tasks; the orchestration branches on the third.
 */
static void orchestrate_look(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor at = part_of(&entry->tensor[1], 0, 1);

    pto_aiv(o, KERNEL_STORE, PTO_INOUT(&at), PTO_PASS(0));
    if (entry->scalar_count > 1)
        pto_aiv(o, KERNEL_STORE, PTO_INOUT(&at), PTO_PASS(1));
    for (uint64_t i = 0; entry->scalar_count > 2 && i < entry->scalar[2]; i++)
        pto_aiv(o, KERNEL_DOUBLE, PTO_INOUT(&at));
}

static void a_scalar_that_was_not_declared_is_part_of_the_graph(void)
{
    uint64_t scalar[3] = { 5, 6, 2 };
    struct pto_entry entry = *entry_for(&room[0], 1, 3);
    struct pto_graph *graph;

    entry.scalar = scalar;
    entry.scalar_count = 3;
    graph = build(callable, &entry);
    launch(graph, &entry);
    assert_int_equal(room[0].out[0], 24);
    scalar[0] = 50; /* the scalar is declared to vary and is passed on */
    launch(graph, &entry);
    scalar[1] = 7; /* passed on */
    assert_refused(graph, &entry, "scalar 1 of the entry was 6");
    assert_refused(graph, &entry, "pto_run_options_vary");
    scalar[1] = 6;
    scalar[2] = 3; /* the orchestration reads the scalar directly, which cannot be detected */
    assert_refused(graph, &entry, "scalar 2 of the entry was 2");
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
}

static void wrong_declarations_are_refused(void)
{
    struct pto_entry entry = *entry_for(&room[0], 1, 3);
    struct pto_callable *look = make_callable(kernels, KERNELS, orchestrate_look);
    struct pto_run_options options;
    struct pto_run_report report;
    struct pto_graph *graph = NULL;
    uint64_t scalar[3] = { 5, 6, 2 };

    pto_run_options_init(&options);
    pto_run_report_init(&report);
    assert_int_equal(pto_run_options_vary(&options, PTO_ENTRY_SCALARS_MAX), PTO_EINVAL);
    assert_int_equal(pto_run_options_vary(NULL, 0), PTO_EINVAL);
    assert_int_equal(pto_run_options_vary(&options, 2), PTO_OK);
    assert_int_equal(pto_graph_build(device, callable, &entry, &options, &report, &graph),
                     PTO_EARGS);
    assert_non_null(strstr(report.error.text, "scalar 2 was declared to vary"));
    pto_run_options_init(&options);
    /* the orchestration reads the scalar by a call */
    assert_int_equal(pto_run_options_vary(&options, 1), PTO_OK);
    assert_int_equal(pto_graph_build(device, callable, &entry, &options, &report, &graph),
                     PTO_EARGS);
    assert_non_null(strstr(report.error.text, "reads scalar 1 of the entry with pto_scalar"));
    assert_null(graph);

    entry.scalar = scalar;
    entry.scalar_count = 3;
    pto_run_options_init(&options);
    /* the orchestration reads the scalar directly */
    assert_int_equal(pto_run_options_vary(&options, 2), PTO_OK);
    assert_int_equal(pto_graph_build(device, look, &entry, &options, &report, &graph), PTO_OK);
    launch(graph, &entry);
    scalar[2] = 3;
    assert_refused(graph, &entry, "no task gets it");
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
    assert_int_equal(pto_callable_destroy(look), PTO_OK);
}

/* Reads its scalars while all signals are blocked, and by a system call. */
static void orchestrate_strangely(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor at = part_of(&entry->tensor[1], 0, 1);
    const size_t bytes = entry->scalar_count * sizeof(uint64_t);
    uint64_t copy[2] = { 0, 0 };
    sigset_t all, before;
    int ends[2];

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (entry->scalar[1] != 9 || pipe(ends) != 0)
        (void)pto_orch_fail(o, PTO_EORCH, "a look at scalar 1");
    else if (write(ends[1], entry->scalar, bytes) != (ssize_t)bytes ||
             read(ends[0], copy, bytes) != (ssize_t)bytes || copy[1] != 9)
        (void)pto_orch_fail(o, PTO_EORCH, "a system call on the scalars");
    else
        pto_aiv(o, KERNEL_STORE, PTO_INOUT(&at), PTO_PASS(0));
    close(ends[0]);
    close(ends[1]);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void on_own_signal(int number)
{
    (void)number;
    _exit(70); /* here no scalar is a reason to refuse the launch */
}

static void orchestrations_look_at_scalars_in_any_way(void)
{
    struct sigaction own = { .sa_handler = on_own_signal }, before;
    struct pto_graph *graph;

    assert_int_equal(sigaction(SIGSEGV, &own, &before), 0);
    graph = build(callable, entry_for(&room[0], 1, 3));
    for (uint64_t i = 0; i < 3; i++) {
        launch(graph, entry_for(&room[0], 1, i));
        assert_int_equal(room[0].out[0], i);
    }
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
    assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
}

/* ---- memory that two tensors share ---- */

/* t0 *= 2, t1 *= 2, t0 *= 2: ordered only if the tensors overlap. */
static void orchestrate_two(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor first = part_of(&entry->tensor[0], 0, 1);
    struct pto_tensor second = part_of(&entry->tensor[1], 0, 1);

    pto_aiv(o, KERNEL_DOUBLE, PTO_INOUT(&first));
    pto_aiv(o, KERNEL_DOUBLE, PTO_INOUT(&second));
    pto_aiv(o, KERNEL_DOUBLE, PTO_INOUT(&first));
}

static void place_two(struct pto_tensor t[2], int32_t *first, int32_t *second)
{
    t[0] = pto_tensor_external(first, PTO_DIMS(4), 1, PTO_INT32);
    t[1] = pto_tensor_external(second, PTO_DIMS(4), 1, PTO_INT32);
    *first = *second = 1;
}

static void tensors_overlap_as_they_did(void)
{
    static int32_t memory[64];
    struct pto_tensor t[2];
    struct pto_entry entry = { 2, 0, t, NULL };
    struct pto_graph *apart, *together, *same;

    place_two(t, memory, memory + 4);
    apart = build(callable, &entry);
    place_two(t, memory, memory + 2);
    together = build(callable, &entry);
    place_two(t, memory, memory);
    same = build(callable, &entry);

    place_two(t, memory + 20, memory + 12); /* apart */
    launch(apart, &entry);
    assert_true(memory[20] == 4 && memory[12] == 2);
    assert_refused(together, &entry, "do not overlap as they did");
    assert_refused(same, &entry, "do not overlap as they did");

    place_two(t, memory + 20, memory + 22); /* as in `together` */
    launch(together, &entry);
    assert_true(memory[20] == 4 && memory[22] == 2);
    assert_refused(apart, &entry, "overlap, and did not");
    assert_refused(same, &entry, "do not overlap as they did");

    place_two(t, memory + 20, memory + 21); /* overlap by one more word */
    assert_refused(together, &entry, "do not overlap as they did");
    place_two(t, memory + 22, memory + 20); /* the other way round */
    assert_refused(together, &entry, "do not overlap as they did");

    place_two(t, memory + 30, memory + 30);
    launch(same, &entry);
    assert_int_equal(memory[30], 8);
    assert_refused(apart, &entry, "overlap, and did not");
    assert_int_equal(pto_graph_destroy(apart), PTO_OK);
    assert_int_equal(pto_graph_destroy(together), PTO_OK);
    assert_int_equal(pto_graph_destroy(same), PTO_OK);
}

/* Memory that the orchestration does not get through the entry. */
static int32_t own[4];

static void orchestrate_own(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor mine = pto_tensor_external(own, PTO_DIMS(4), 1, PTO_INT32);

    pto_aiv(o, KERNEL_DOUBLE, PTO_INOUT(&mine));
    pto_aiv(o, KERNEL_COPY, PTO_IN(&entry->tensor[0]), PTO_WRITE(&entry->tensor[1]));
}

static void tensors_stay_away_from_memory_that_the_graph_names_itself(void)
{
    static int32_t memory[2][WORDS];
    struct pto_tensor t[2];
    struct pto_entry entry = { 2, 0, t, NULL };
    struct pto_graph *graph;

    for (int i = 0; i < 2; i++)
        t[i] = pto_tensor_external(memory[i], PTO_DIMS(WORDS), 1, PTO_INT32);
    graph = build(callable, &entry);
    own[0] = 1;
    launch(graph, &entry);
    assert_int_equal(own[0], 2);
    t[0] = pto_tensor_external(own, PTO_DIMS(WORDS), 1, PTO_INT32);
    assert_refused(graph, &entry, "tensor 0 of the entry");
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
}

/* ---- what the orchestration read and wrote ---- */

static void orchestrate_data(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *in = &entry->tensor[0], *out = &entry->tensor[1];
    struct pto_tensor at = part_of(out, 0, 1);
    struct pto_tensor half = *in; /* the same bytes as before, in other pieces */
    uint64_t value = pto_get_data(o, in, 1, PTO_DIMS(2));

    half = pto_tensor_external(pto_tensor_data(in), PTO_DIMS(2 * WORDS), 1, PTO_INT16);
    pto_set_data(o, in, 1, PTO_DIMS(3), 1000);
    /* bytes that the orchestration itself has written */
    value += pto_get_data(o, in, 1, PTO_DIMS(3));
    pto_set_data(o, &half, 1, PTO_DIMS(8), 0);    /* the low half of element 4 */
    value += pto_get_data(o, in, 1, PTO_DIMS(4)); /* the high half has the caller's value */
    pto_set_data(o, out, 1, PTO_DIMS(1), value);
    pto_aiv(o, KERNEL_STORE, PTO_INOUT(&at), PTO_INT(value));
}

static void elements_that_were_read_are_the_same_and_set_ones_are_set(void)
{
    struct pto_graph *graph = build(callable, entry_for(&room[0], 10, 3));

    for (int i = 0; i < 3; i++) {
        struct buffers *b = &room[i];

        (void)entry_for(b, 10, 3);
        b->in[0] = b->in[1] = 555; /* nobody read these */
        b->in[4] = 1234;           /* nor is the low half of this element */
        launch(graph, &b->entry);
        assert_int_equal(b->in[3], 1000);
        assert_int_equal(b->in[4], 0);
        assert_int_equal(b->out[0], 1012);
        assert_int_equal(b->out[1], 1012);
    }
    (void)entry_for(&room[1], 10, 3);
    room[1].in[2] = 13;
    assert_refused(graph, &room[1].entry, "tensor 0 of the entry");
    (void)entry_for(&room[1], 10, 3);
    room[1].in[4] += 1 << 16;
    assert_refused(graph, &room[1].entry, "tensor 0 of the entry");
    assert_int_equal(room[1].out[1], -1); /* nothing was written */
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
}

/* ---- several graphs, threads, steps ---- */

static void graphs_and_runs_take_turns(void)
{
    struct pto_callable *other = make_callable(kernels, KERNELS, orchestrate_outputs);
    struct pto_graph *graph[3] = { build(callable, entry_for(&room[0], 1, 3)),
                                   build(other, entry_for(&room[1], 1, 3)),
                                   build(callable, entry_for(&room[2], 1, 3)) };

    for (int i = 0; i < LAUNCHES; i++) {
        launch(graph[0], entry_for(&room[0], i, 4));
        assert_all_right(&room[0]);
        assert_int_equal(pto_run(device, callable, entry_for(&room[0], i, 5), NULL, NULL), PTO_OK);
        assert_all_right(&room[0]);
        launch(graph[1], entry_for(&room[1], i, 3));
        assert_int_equal(room[1].out[0], 5);
        launch(graph[2], entry_for(&room[2], i, 7));
        assert_all_right(&room[2]);
        if (i % 10 == 0) {
            assert_int_equal(pto_graph_destroy(graph[2]), PTO_OK);
            graph[2] = build(callable, entry_for(&room[1], 1, 3));
        }
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(pto_graph_destroy(graph[i]), PTO_OK);
    assert_int_equal(pto_callable_destroy(other), PTO_OK);
}

struct caller {
    pthread_t thread;
    struct pto_graph *graph;
    struct buffers buffers;
    uint32_t succeeded;
    uint32_t busy;
    int unexpected;
};

static void *launch_in_thread(void *arg)
{
    struct caller *c = arg;

    for (uint32_t i = 0; i < THREAD_LAUNCHES; i++) {
        int status = pto_graph_run(c->graph, entry_for(&c->buffers, 2, i), NULL, NULL);

        c->succeeded += status == PTO_OK;
        c->busy += status == PTO_EBUSY;
        if (status != PTO_OK && status != PTO_EBUSY)
            c->unexpected = status;
        if (status == PTO_OK &&
            c->buffers.out[OUT_SUM] != 5 * (2 * 7 + 21) + WORDS * (int32_t)i) /* 2..8 and a 0 */
            c->unexpected = 1;
    }
    return NULL;
}

static void launch_from_threads(bool is_one_graph)
{
    static struct caller caller[THREADS];
    struct pto_graph *graph[THREADS];
    uint32_t succeeded = 0, busy = 0;

    memset(caller, 0, sizeof(caller));
    for (int i = 0; i < THREADS; i++) {
        graph[i] = is_one_graph && i > 0 ? graph[0] : build(callable, entry_for(&room[0], 2, 3));
        caller[i].graph = graph[i];
        assert_int_equal(pthread_create(&caller[i].thread, NULL, launch_in_thread, &caller[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(caller[i].thread, NULL);
        assert_int_equal(caller[i].unexpected, 0);
        succeeded += caller[i].succeeded;
        busy += caller[i].busy;
    }
    assert_true(is_one_graph ? succeeded != 0 : busy == 0);
    assert_int_equal(succeeded + busy, THREADS * THREAD_LAUNCHES);
    for (int i = 0; i < (is_one_graph ? 1 : THREADS); i++)
        assert_int_equal(pto_graph_destroy(graph[i]), PTO_OK);
}

static void threads_launch_different_graphs_or_find_the_same_one_busy(void)
{
    launch_from_threads(true);
    launch_from_threads(false);
}

static void set_failure(uint32_t kernel, uint32_t how)
{
    __atomic_store_n(&is_open, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&at_gate, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&fail_at, kernel, __ATOMIC_RELAXED);
    __atomic_store_n(&fail_how, how, __ATOMIC_RELEASE);
}

static void open_gate(void)
{
    __atomic_store_n(&is_open, 1, __ATOMIC_RELEASE);
}

static void await_gate(void)
{
    while (__atomic_load_n(&at_gate, __ATOMIC_ACQUIRE) == 0)
        rest();
}

/* Calls that are tried while a launch is running. */
static void assert_busy(struct pto_graph *graph)
{
    struct pto_run *run = NULL;

    assert_int_equal(pto_graph_run(graph, entry_for(&room[1], 1, 1), NULL, NULL), PTO_EBUSY);
    assert_int_equal(pto_graph_prepare(graph, &room[1].entry, NULL, &run), PTO_EBUSY);
    assert_null(run);
    assert_int_equal(pto_graph_destroy(graph), PTO_EBUSY);
    assert_int_equal(pto_callable_destroy(callable), PTO_EBUSY);
    assert_int_equal(pto_device_close(device), PTO_EBUSY);
}

static void launches_go_in_steps(void)
{
    struct pto_graph *graph = build(callable, entry_for(&room[0], 1, 3));
    struct pto_run_report report;
    struct pollfd ready = { .events = POLLIN };
    struct pto_run *run, *after;

    pto_run_report_init(&report);
    assert_int_equal(pto_graph_prepare(graph, entry_for(&room[0], 2, 8), NULL, &run), PTO_OK);
    assert_busy(graph);
    room[0].scalar[0] = 1234; /* it was copied */
    ready.fd = pto_run_fd(run);
    assert_true(ready.fd >= 0);
    set_failure(KERNEL_STORE, HOW_GATE);
    assert_int_equal(pto_run_launch(run), PTO_OK);
    await_gate();
    assert_busy(graph);
    assert_int_equal(pto_run_prepare(device, callable, entry_for(&room[2], 4, 4), NULL, &after),
                     PTO_OK);
    assert_int_equal(pto_run_launch(after), PTO_OK); /* this launch waits in the queue */
    assert_int_equal(pto_run_poll(run), PTO_RUN_PENDING);
    assert_int_equal(poll(&ready, 1, 0), 0);
    open_gate();
    assert_int_equal(pto_run_wait(run, 0), PTO_OK);
    assert_int_equal(poll(&ready, 1, 0), 1);
    assert_int_equal(pto_graph_destroy(graph), PTO_EBUSY); /* until it is finished */
    assert_int_equal(pto_run_finish(run, &report), PTO_OK);
    room[0].scalar[0] = 8;
    assert_all_right(&room[0]);
    assert_int_equal(pto_run_wait(after, 0), PTO_OK);
    assert_int_equal(pto_run_finish(after, NULL), PTO_OK);
    assert_all_right(&room[2]);
    set_failure(0, HOW_GOOD);

    assert_int_equal(pto_graph_prepare(graph, entry_for(&room[0], 2, 8), NULL, &run), PTO_OK);
    assert_int_equal(pto_run_finish(run, NULL), PTO_ECANCELED); /* never launched */
    assert_int_equal(pto_graph_prepare(graph, entry_for(&room[0], 2, 8), NULL, &run), PTO_OK);
    assert_int_equal(pto_run_cancel(run), PTO_OK);
    assert_int_equal(pto_run_finish(run, NULL), PTO_ECANCELED);
    launch(graph, entry_for(&room[0], 2, 9));
    assert_all_right(&room[0]);

    (void)entry_for(&room[0], 2, 9);
    room[0].scalar[1] = 1;
    assert_int_equal(pto_graph_prepare(graph, &room[0].entry, NULL, &run), PTO_OK);
    assert_int_equal(pto_run_launch(run), PTO_OK);
    assert_int_equal(pto_run_wait(run, 0), PTO_EGRAPH);
    assert_int_equal(pto_run_finish(run, &report), PTO_EGRAPH);
    assert_int_equal(report.error.status, PTO_EGRAPH);
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
}

/* ---- launches that end early, and the one after ---- */

static void launch_good(struct pto_graph *graph, int i)
{
    struct buffers *b = &room[i % 3];

    set_failure(0, HOW_GOOD);
    launch(graph, entry_for(b, i, (uint64_t)i));
    assert_all_right(b);
}

static void launch_good_ones(struct pto_graph *graph)
{
    for (int i = 0; i < 3; i++)
        launch_good(graph, i);
}

/* Cancels launches at the gate, in every kind of task, and at random moments. */
static void a_launch_after_a_cancelled_one_is_right(void)
{
    struct pto_graph *graph = build(callable, entry_for(&room[0], 1, 3));
    struct pto_run *run;
    struct rng random = { workers };
    uint32_t cancelled = 0;

    for (uint32_t i = 0; i < PLACES; i++) {
        set_failure(places[i], HOW_GATE);
        assert_int_equal(pto_graph_prepare(graph, entry_for(&room[0], 2, 3), NULL, &run), PTO_OK);
        assert_int_equal(pto_run_launch(run), PTO_OK);
        await_gate();
        assert_int_equal(pto_run_cancel(run), PTO_OK);
        open_gate();
        assert_int_equal(pto_run_wait(run, 0), PTO_ECANCELED);
        assert_int_equal(pto_run_finish(run, NULL), PTO_ECANCELED);
        launch_good_ones(graph);
    }
    for (int i = 0; i < FAILURES; i++) {
        int status;

        assert_int_equal(pto_graph_prepare(graph, entry_for(&room[0], i, 3), NULL, &run), PTO_OK);
        assert_int_equal(pto_run_launch(run), PTO_OK);
        for (uint32_t spins = rng_below(&random, 20000); spins > 0; spins--)
            __asm__ volatile("" ::: "memory");
        assert_int_equal(pto_run_cancel(run), PTO_OK);
        status = pto_run_wait(run, 0);
        assert_true(status == PTO_OK || status == PTO_ECANCELED);
        cancelled += status == PTO_ECANCELED;
        assert_int_equal(pto_run_finish(run, NULL), status);
        launch_good(graph, i);
    }
    assert_true(cancelled != 0);
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
}

static void assert_fails(struct pto_graph *graph, uint32_t place, uint32_t how, int expected)
{
    struct pto_run_options options;
    struct pto_run_report report;
    int status;

    pto_run_options_init(&options);
    pto_run_report_init(&report);
    options.stall_timeout_ns = 50 * MS;
    /* a long time-out, so that kernels delayed by a busy machine do not count as stuck */
    options.grace_ns = 60000 * MS;
    set_failure(place, how);
    status = pto_graph_run(graph, entry_for(&room[0], 2, 3), &options, &report);
    if (status != expected)
        fail_msg("place %u, how %u: %d instead of %d: %s", place, how, status, expected,
                 report.error.text);
    assert_int_equal(report.error.status, expected);
    assert_true(pto_device_last_failure(device, NULL, 0) > 0);
}

static void a_launch_after_a_failed_one_is_right(void)
{
    struct pto_graph *graph = build(callable, entry_for(&room[0], 1, 3));

    for (uint32_t i = 0; i < PLACES; i++) {
        assert_fails(graph, places[i], HOW_CONDITION, PTO_ECOMPLETION);
        launch_good_ones(graph);
        if (!HAS_HANDLER)
            continue;
        assert_fails(graph, places[i], HOW_CRASH, PTO_ECRASH);
        launch_good_ones(graph);
    }
    assert_fails(graph, KERNEL_RAISE, HOW_NO_RAISE, PTO_ESTALL);
    launch_good_ones(graph);
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
}

struct opener {
    pthread_t thread;
    uint32_t is_over; /* the launch has ended, maybe before a kernel was at the gate */
    uint64_t delay_ns;
};

static void *open_late(void *arg)
{
    struct opener *opener = arg;

    while (__atomic_load_n(&at_gate, __ATOMIC_ACQUIRE) == 0 &&
           __atomic_load_n(&opener->is_over, __ATOMIC_ACQUIRE) == 0)
        rest();
    nanosleep(&(struct timespec){ .tv_nsec = (long)opener->delay_ns }, NULL);
    open_gate();
    return NULL;
}

static int launch_with_late_gate(struct pto_graph *graph, uint32_t place, uint64_t delay_ns)
{
    struct opener opener = { .delay_ns = delay_ns };
    struct pto_run_options options;
    int status;

    pto_run_options_init(&options);
    options.timeout_ns = 5 * MS;
    set_failure(place, HOW_GATE);
    assert_int_equal(pthread_create(&opener.thread, NULL, open_late, &opener), 0);
    status = pto_graph_run(graph, entry_for(&room[0], 2, 3), &options, NULL);
    __atomic_store_n(&opener.is_over, 1, __ATOMIC_RELEASE);
    pthread_join(opener.thread, NULL);
    return status;
}

/*
 * A deadline passes while a task of each kind is at the gate. A thread of the device checks the
 * clock; a busy machine may delay it until the gate is open and the launch has succeeded. Then the
 * gate opens later in the next attempt.
 */
static void a_launch_after_one_that_took_too_long_is_right(void)
{
    struct pto_graph *graph = build(callable, entry_for(&room[0], 1, 3));

    for (uint32_t i = 0; i < PLACES; i++) {
        uint64_t delay_ns = 20 * MS;
        int status = PTO_OK;

        for (; status == PTO_OK && delay_ns < 1000 * MS; delay_ns *= 4)
            status = launch_with_late_gate(graph, places[i], delay_ns);
        assert_int_equal(status, PTO_ETIMEOUT);
        launch_good_ones(graph);
    }
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
}

static void lose_device(void)
{
    struct pto_graph *graph = build(callable, entry_for(&room[0], 1, 3));
    struct pto_graph *other = build(callable, entry_for(&room[0], 1, 3));
    uint32_t stuck = pto_stuck_threads();
    struct pto_run_options options;
    struct pto_run *run = NULL;

    if (!HAS_HANDLER && workers == 1) { /* the caller's thread cannot be made to leave its kernel */
        assert_int_equal(pto_graph_destroy(graph), PTO_OK);
        assert_int_equal(pto_graph_destroy(other), PTO_OK);
        return;
    }
    pto_run_options_init(&options);
    options.stall_timeout_ns = 20 * MS;
    launch(graph, entry_for(&room[0], 2, 3));
    set_failure(KERNEL_MEET, HOW_GATE); /* on threads of the device */
    assert_int_equal(pto_graph_run(graph, entry_for(&room[0], 2, 3), &options, NULL), PTO_ESTALL);
    assert_int_equal(pto_stuck_threads(), stuck + GANG);
    assert_int_equal(pto_graph_run(graph, &room[0].entry, NULL, NULL), PTO_ELOST);
    assert_int_equal(pto_graph_run(other, &room[0].entry, NULL, NULL), PTO_ELOST);
    assert_int_equal(pto_graph_prepare(graph, &room[0].entry, NULL, &run), PTO_ELOST);
    assert_null(run);
    assert_int_equal(pto_device_close(device), PTO_EBUSY);
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
    assert_int_equal(pto_graph_destroy(other), PTO_OK);
    open_gate();
    while (pto_stuck_threads() != stuck)
        rest();
}

/*
 * Memory that stays allocated because of a lost kernel is a leak for the sanitizer, so this runs in
 * a separate process.
 */
static void graphs_of_a_lost_device_are_refused_and_destroyed(void **state)
{
    pid_t child = HAS_HANDLER ? 0 : fork();
    int status = 0;

    (void)state;
    assert_true(child >= 0);
    if (child == 0)
        on_each_device(orchestrate_all, lose_device);
    if (child == 0 && !HAS_HANDLER)
        _exit(0);
    if (child != 0)
        assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---- the recorder ---- */

static uint32_t count_in_file(const char *path, const char *text)
{
    static char line[1 << 16];
    FILE *file = fopen(path, "r");
    uint32_t count = 0;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        for (const char *at = strstr(line, text); at != NULL; at = strstr(at + 1, text))
            count++;
    fclose(file);
    return count;
}

static void a_launch_is_recorded_as_a_run_is(void)
{
    struct pto_graph *graph = build(callable, entry_for(&room[0], 2, 3));
    struct pto_run_options options;
    struct pto_run_report report;
    uint32_t slices[3], flows[3], recorded[3];
    char path[64];

    snprintf(path, sizeof(path), "/tmp/test_graph_launch.%d.json", (int)getpid());
    pto_run_options_init(&options);
    pto_run_report_init(&report);
    options.trace = PTO_TRACE_ARGUMENTS;
    options.trace_records = 1024;
    options.mode = PTO_MODE_HOST;
    for (int i = 0; i < 3; i++) {
        if (i == 0)
            assert_int_equal(
                pto_run(device, callable, entry_for(&room[0], 2, 3), &options, &report), PTO_OK);
        else
            assert_int_equal(pto_graph_run(graph, entry_for(&room[i], 2, 3), &options, &report),
                             PTO_OK);
        assert_int_equal(pto_trace_write(device, path, NULL), PTO_OK);
        slices[i] = count_in_file(path, "\"ph\":\"X\"");
        recorded[i] = count_in_file(path, "\"arguments\":[");
        flows[i] = count_in_file(path, "\"ph\":\"s\"");
        assert_true(slices[i] >= report.executions);
    }
    assert_true(slices[1] == slices[0] && slices[2] == slices[0]);
    assert_true(recorded[0] == slices[0] && recorded[1] == recorded[0] &&
                recorded[2] == recorded[0]);
    assert_true(flows[0] != 0 && flows[1] == flows[0] && flows[2] == flows[0]);
    unlink(path);
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
}

/* ---- memory ---- */

static void launches_allocate_nothing(void)
{
    struct pto_graph *graph = build(callable, entry_for(&room[0], 1, 3));

    for (int i = 0; i < 200; i++) /* until the device has the threads that it needs */
        launch(graph, entry_for(&room[i % 3], i, 3));
    __atomic_store_n(&allocations, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&is_counting, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < STEADY_LAUNCHES; i++) {
        int status = pto_graph_run(graph, entry_for(&room[i % 3], i, (uint64_t)i), NULL, NULL);

        if (status != PTO_OK)
            fail_msg("launch %d: %d", i, status);
    }
    __atomic_store_n(&is_counting, 0, __ATOMIC_RELAXED);
    assert_all_right(&room[(STEADY_LAUNCHES - 1) % 3]);
    print_message("%u workers: %llu allocations in %d launches\n", workers,
                  (unsigned long long)allocations, STEADY_LAUNCHES);
    /*
     * A thread that the system suspends in a kernel loses its place to a new thread; this is rare.
     */
    assert_true(allocations <= 3 * CLUSTERS);
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
}

static void orchestrate_large(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(1 << 20), 1, PTO_INT32);

    (void)pto_aiv(o, KERNEL_COPY, PTO_IN(&entry->tensor[0]), PTO_OUT(&info));
}

static void graphs_count_against_the_memory_of_their_device(void **state)
{
    struct pto_graph *graph[64];
    struct pto_run_report report;
    uint32_t count[2] = { 0, 0 };

    (void)state;
    open_launcher("a2a3sim", 2, 64 << 20);
    callable = make_callable(kernels, KERNELS, orchestrate_large);
    pto_run_report_init(&report);
    for (int round = 0; round < 2; round++) {
        int status;

        while ((status = pto_graph_build(device, callable, entry_for(&room[0], 1, 1), NULL, &report,
                                         &graph[count[round]])) == PTO_OK)
            count[round]++;
        assert_int_equal(status, PTO_ENOMEM);
        assert_non_null(strstr(report.error.text, "memory_max"));
        for (uint32_t i = 0; i < count[round]; i++) {
            launch(graph[i], entry_for(&room[1], 1, 1));
            assert_int_equal(pto_graph_destroy(graph[i]), PTO_OK);
        }
    }
    assert_true(count[0] > 4 && count[0] < 16 && count[1] == count[0]);
    close_both();
}

/* ---- wrong use ---- */

static void orchestrate_wrong(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)pto_aiv(o, KERNELS + 5, PTO_INOUT(&entry->tensor[0]));
}

static void orchestrate_wait(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor at = part_of(&entry->tensor[1], 0, 1);

    pto_aiv(o, KERNEL_STORE, PTO_INOUT(&at), PTO_INT(1));
    (void)pto_get_data(o, &at, 1, PTO_DIMS(0)); /* nothing runs while it is built */
}

static struct pto_graph *known;
static int nested[3];

static void orchestrate_nested(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_graph *graph = NULL;
    struct pto_run *run = NULL;

    (void)o;
    nested[0] = pto_graph_build(device, callable, entry, NULL, NULL, &graph);
    nested[1] = pto_graph_run(known, entry, NULL, NULL);
    nested[2] = pto_graph_prepare(known, entry, NULL, &run);
}

static void wrong_use_is_refused(void)
{
    struct pto_callable *wrong = make_callable(kernels, KERNELS, orchestrate_wrong);
    struct pto_callable *wait = make_callable(kernels, KERNELS, orchestrate_wait);
    struct pto_callable *nest = make_callable(kernels, KERNELS, orchestrate_nested);
    const struct pto_entry *entry = entry_for(&room[0], 1, 3);
    struct pto_run_report report, old = { .size = 1 };
    struct pto_graph *graph = NULL;
    struct pto_run *run = NULL;
    int child, status;

    pto_run_report_init(&report);
    assert_int_equal(pto_graph_build(device, wrong, entry, NULL, &report, &graph), PTO_EARGS);
    assert_non_null(strstr(report.error.text, "there is no kernel"));
    assert_int_equal(pto_graph_build(device, wait, entry, NULL, &report, &graph), PTO_EARGS);
    assert_non_null(strstr(report.error.text, "built before anything runs"));
    assert_int_equal(pto_graph_build(NULL, callable, entry, NULL, NULL, &graph), PTO_EINVAL);
    assert_int_equal(pto_graph_build(device, NULL, entry, NULL, NULL, &graph), PTO_EINVAL);
    assert_int_equal(pto_graph_build(device, callable, entry, NULL, NULL, NULL), PTO_EINVAL);
    assert_int_equal(pto_graph_build(device, callable, entry, NULL, &old, &graph), PTO_EINVAL);
    assert_null(graph);

    graph = known = build(callable, entry);
    assert_int_equal(pto_graph_run(graph, entry, NULL, &old), PTO_EINVAL);
    assert_int_equal(pto_graph_run(NULL, entry, NULL, NULL), PTO_EINVAL);
    assert_int_equal(pto_graph_run((struct pto_graph *)device, entry, NULL, NULL), PTO_EINVAL);
    assert_int_equal(pto_graph_prepare(graph, entry, NULL, NULL), PTO_EINVAL);
    assert_int_equal(pto_graph_prepare(NULL, entry, NULL, &run), PTO_EINVAL);
    assert_int_equal(pto_graph_destroy(NULL), PTO_EINVAL);
    assert_int_equal(pto_graph_destroy((struct pto_graph *)callable), PTO_EINVAL);
    assert_int_equal(pto_run(device, nest, entry, NULL, NULL), PTO_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(nested[i], PTO_EBUSY);
    launch(graph, entry_for(&room[0], 1, 3));
    assert_all_right(&room[0]);
    assert_int_equal(pto_device_close(device), PTO_EBUSY);
    assert_int_equal(pto_callable_destroy(callable), PTO_EBUSY);

    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(pto_graph_run(graph, entry, NULL, NULL) == PTO_EFORKED &&
                      pto_graph_prepare(graph, entry, NULL, &run) == PTO_EFORKED &&
                      pto_graph_destroy(graph) == PTO_EFORKED
                  ? 0
                  : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);

    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
    assert_int_equal(pto_graph_destroy(graph), PTO_EINVAL);
    assert_int_equal(pto_graph_run(graph, entry, NULL, NULL), PTO_EINVAL);
    assert_int_equal(pto_callable_destroy(wrong), PTO_OK);
    assert_int_equal(pto_callable_destroy(wait), PTO_OK);
    assert_int_equal(pto_callable_destroy(nest), PTO_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EACH(orchestrate_all, every_kind_of_task_is_right_in_every_launch),
        ON_EACH(orchestrate_wide, thousands_of_tasks_may_be_ready_at_once),
        ON_EACH(orchestrate_short, launches_of_short_tasks_are_right_whoever_runs_them),
        ON_EACH(orchestrate_lines, launches_line_by_line_are_right_whatever_happens),
        ON_EACH(orchestrate_nothing, a_graph_may_be_empty),
        ON_EACH(orchestrate_outputs, outputs_begin_with_their_values_in_every_launch),
        ON_EACH(orchestrate_all, other_shapes_are_refused),
        ON_EACH(orchestrate_optional, a_tensor_has_storage_always_or_never),
        ON_EACH(orchestrate_all, scalars_change_if_they_are_declared_to),
        ON_EACH(orchestrate_look, a_scalar_that_was_not_declared_is_part_of_the_graph),
        ON_EACH(orchestrate_all, wrong_declarations_are_refused),
        ON_EACH(orchestrate_strangely, orchestrations_look_at_scalars_in_any_way),
        ON_EACH(orchestrate_two, tensors_overlap_as_they_did),
        ON_EACH(orchestrate_own, tensors_stay_away_from_memory_that_the_graph_names_itself),
        ON_EACH(orchestrate_data, elements_that_were_read_are_the_same_and_set_ones_are_set),
        ON_EACH(orchestrate_all, graphs_and_runs_take_turns),
        ON_EACH(orchestrate_all, threads_launch_different_graphs_or_find_the_same_one_busy),
        ON_EACH(orchestrate_all, launches_go_in_steps),
        ON_EACH(orchestrate_all, a_launch_after_a_cancelled_one_is_right),
        ON_EACH(orchestrate_all, a_launch_after_a_failed_one_is_right),
        ON_EACH(orchestrate_all, a_launch_after_one_that_took_too_long_is_right),
        cmocka_unit_test(graphs_of_a_lost_device_are_refused_and_destroyed),
        ON_EACH(orchestrate_all, a_launch_is_recorded_as_a_run_is),
        ON_EACH(orchestrate_all, launches_allocate_nothing),
        cmocka_unit_test(graphs_count_against_the_memory_of_their_device),
        ON_EACH(orchestrate_all, wrong_use_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

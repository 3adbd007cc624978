/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * Tasks with several invocations, through the public interface: lanes of one cluster that run at
 * the same time, SPMD blocks, gangs that start together, and which of them get cores first.
 *
 * Kernels that must run at the same time meet: each adds to a word and waits until all have done
 * so. If one of them does not start, the others give up after a while and the test fails.
 */
#include "tests/fixture/device_test.h"

enum {
    /* first tensor, word, n: stores its position, then meets the lanes of its block */
    KERNEL_LANE_AIC,
    KERNEL_LANE_AIV0,
    KERNEL_LANE_AIV1,
    KERNEL_MEET_AIC, /* tensor, word, n: meets all blocks */
    KERNEL_MEET_AIV,
    KERNEL_SPIN_AIV,  /* the same without pto_pause() */
    KERNEL_BLOCK_AIC, /* tensor: counts its block */
    KERNEL_BLOCK_AIV,
    KERNEL_SUM,      /* tensor, n: checks that n blocks have written */
    KERNEL_MS,       /* tensor: an ordinary task that takes a millisecond */
    KERNEL_GANG,     /* tensor: stores how many ordinary tasks had started before */
    KERNEL_GANG_AIC, /* the same */
    KERNEL_ADD_AIC,  /* tensor, word */
    KERNEL_ADD_AIV,
    KERNEL_LATCH, /* tensor, word, n: returns when the word is n */
    /*
     * tensor, ms: lets a gang become ready, then an ordinary task, and waits for the ordinary one
     */
    KERNEL_HOLDER,
    KERNEL_GATE, /* tensor: reports its arrival and waits for the gate */
    /* tensor, word, n: uses the shared state of its cluster, then meets the lanes of its block */
    KERNEL_STATE_AIC,
    KERNEL_STATE_AIV,
    KERNELS
};

enum { LANES = 3, BLOCKS_MAX = 100000, WORDS = 64, PIPE_KEY = 7, PIPE_BYTES = 256 };

/* Observations of one invocation of KERNEL_LANE. */
struct visit {
    uint32_t count;
    pthread_t thread;
    const int64_t *args;
    int64_t arg[3];
    int32_t block_count;
    int32_t sub_block;
    uint32_t hook_sub_block;
    uint32_t *pipe;
    uint32_t *other_pipe;
    uint32_t pipe_sum;
    bool is_pipe_clean;
};

static struct {
    uint32_t word[WORDS];
    struct visit visit[WORDS][LANES];
    uint32_t hits[BLOCKS_MAX];
    uint32_t plain[BLOCKS_MAX]; /* written without atomics */
    uint32_t order[BLOCKS_MAX];
    uint32_t order_count;
    uint32_t inside[PTO_CORE_TYPES];
    uint32_t inside_max[PTO_CORE_TYPES];
    uint32_t ordinary; /* KERNEL_MS started */
    uint32_t before;   /* number of these when the gang started */
    uint32_t token;
} scene;

/* What the next orchestration submits. */
static struct launch plan;
static struct {
    uint32_t count;
    uint32_t at;
} others;

/* ---- kernels ---- */

static void enter(enum pto_core_type type)
{
    raise_to(&scene.inside_max[type], __atomic_add_fetch(&scene.inside[type], 1, __ATOMIC_ACQ_REL));
}

static void leave(enum pto_core_type type)
{
    __atomic_fetch_sub(&scene.inside[type], 1, __ATOMIC_ACQ_REL);
}

static void visit_lane(const int64_t *args, uint32_t lane)
{
    uint32_t block = (uint32_t)pto_block_index(args);
    struct visit *v = &scene.visit[block % WORDS][lane];
    uint32_t *word = &scene.word[((uint32_t)args[1] + block) % WORDS];

    bump(&v->count);
    v->thread = pthread_self();
    v->args = args;
    memcpy(v->arg, args, sizeof(v->arg));
    v->block_count = pto_block_count(args);
    v->sub_block = pto_sub_block(args);
    v->hook_sub_block = pto_sim_get_subblock_id();
    meet(word, (uint32_t)args[2], true);
}

static void kernel_lane_aic(int64_t *args)
{
    enter(PTO_CORE_AIC);
    visit_lane(args, 0);
    leave(PTO_CORE_AIC);
}

static void kernel_lane_aiv0(int64_t *args)
{
    enter(PTO_CORE_AIV);
    visit_lane(args, 1);
    leave(PTO_CORE_AIV);
}

static void kernel_lane_aiv1(int64_t *args)
{
    enter(PTO_CORE_AIV);
    visit_lane(args, 2);
    leave(PTO_CORE_AIV);
}

/*
 * Adds one to the state of its cluster; when all lanes of its block have done so, checks the sum.
 */
static void visit_state(const int64_t *args, uint32_t lane)
{
    uint32_t block = (uint32_t)pto_block_index(args);
    struct visit *v = &scene.visit[block][lane];
    uint32_t *pipe = pto_sim_get_pipe_shared_state(PIPE_KEY, PIPE_BYTES);

    EXPECT(pipe != NULL);
    if (pipe == NULL)
        return;
    v->pipe = pipe;
    v->other_pipe = pto_sim_get_pipe_shared_state(PIPE_KEY + 1, PIPE_BYTES);
    v->is_pipe_clean = true;
    for (uint32_t i = 1; i < PIPE_BYTES / 4; i++)
        v->is_pipe_clean = v->is_pipe_clean && pipe[i] == 0;
    bump(pipe);
    meet(&scene.word[block], (uint32_t)args[2], true);
    v->pipe_sum = load(pipe);
    EXPECT(pto_sim_get_pipe_shared_state(PIPE_KEY, PIPE_BYTES) == pipe);
    EXPECT(pto_sim_get_pipe_shared_state(PIPE_KEY, 1) == pipe);
    EXPECT(pto_sim_get_pipe_shared_state(PIPE_KEY, PIPE_BYTES + 1) == NULL);
}

static void kernel_state_aic(int64_t *args)
{
    visit_state(args, 0);
}

static void kernel_state_aiv(int64_t *args)
{
    visit_state(args, 1 + (uint32_t)pto_sub_block(args));
}

static void kernel_meet(int64_t *args)
{
    meet(&scene.word[args[1]], (uint32_t)args[2], true);
}

static void kernel_spin(int64_t *args)
{
    meet(&scene.word[args[1]], (uint32_t)args[2], false);
}

static void kernel_block(int64_t *args)
{
    uint32_t block = (uint32_t)pto_block_index(args);

    EXPECT(block < (uint32_t)plan.blocks && pto_block_count(args) == plan.blocks);
    if (block >= BLOCKS_MAX)
        return;
    scene.order[bump(&scene.order_count) % BLOCKS_MAX] = block;
    if (bump(&scene.hits[block]) == 0) /* of several lanes one */
        scene.plain[block] = block + 1;
}

static void kernel_sum(int64_t *args)
{
    uint64_t sum = 0, count = (uint64_t)args[1];

    for (uint64_t i = 0; i < count; i++)
        sum += scene.plain[i];
    EXPECT(sum == count * (count + 1) / 2);
    bump(&scene.word[0]);
}

static void kernel_ms(int64_t *args)
{
    uint64_t end = now_ns() + 1 * MS;

    (void)args;
    bump(&scene.ordinary);
    while (now_ns() < end)
        pto_pause();
}

static void kernel_gang(int64_t *args)
{
    uint32_t none = 0;

    (void)args;
    __atomic_compare_exchange_n(&scene.before, &none, 1 + load(&scene.ordinary), false,
                                __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static void kernel_add(int64_t *args)
{
    bump(&scene.word[args[1]]);
}

static void kernel_latch(int64_t *args)
{
    (void)pto_defer(args, &scene.word[args[1]], (uint32_t)args[2]);
}

enum { WORD_GANG_MAY, WORD_ORDINARY_MAY, WORD_ORDINARY, WORD_GANG, WORD_AT_GATE, WORD_OPEN };

static void kernel_holder(int64_t *args)
{
    nap_ns(5 * MS);
    pto_notify_set(&scene.word[WORD_GANG_MAY], 1);
    nap_ns((uint64_t)args[1] * MS); /* the gang waits for the core of this kernel by now */
    EXPECT(load(&scene.word[WORD_GANG]) == 0);
    pto_notify_set(&scene.word[WORD_ORDINARY_MAY], 1);
    wait_until(&scene.word[WORD_ORDINARY], 1, true);
}

static void kernel_gate(int64_t *args)
{
    (void)args;
    bump(&scene.word[WORD_AT_GATE]);
    wait_until(&scene.word[WORD_OPEN], 1, true);
}

static const struct pto_kernel kernels[KERNELS] = {
    [KERNEL_LANE_AIC] = { "lane_aic", kernel_lane_aic, PTO_CORE_AIC },
    [KERNEL_LANE_AIV0] = { "lane_aiv0", kernel_lane_aiv0, PTO_CORE_AIV },
    [KERNEL_LANE_AIV1] = { "lane_aiv1", kernel_lane_aiv1, PTO_CORE_AIV },
    [KERNEL_MEET_AIC] = { "meet_aic", kernel_meet, PTO_CORE_AIC },
    [KERNEL_MEET_AIV] = { "meet_aiv", kernel_meet, PTO_CORE_AIV },
    [KERNEL_SPIN_AIV] = { "spin_aiv", kernel_spin, PTO_CORE_AIV },
    [KERNEL_BLOCK_AIC] = { "block_aic", kernel_block, PTO_CORE_AIC },
    [KERNEL_BLOCK_AIV] = { "block_aiv", kernel_block, PTO_CORE_AIV },
    [KERNEL_SUM] = { "sum", kernel_sum, PTO_CORE_AIV },
    [KERNEL_MS] = { "ms", kernel_ms, PTO_CORE_AIV },
    [KERNEL_GANG] = { "gang", kernel_gang, PTO_CORE_AIV },
    [KERNEL_GANG_AIC] = { "gang_aic", kernel_gang, PTO_CORE_AIC },
    [KERNEL_ADD_AIC] = { "add_aic", kernel_add, PTO_CORE_AIC },
    [KERNEL_ADD_AIV] = { "add_aiv", kernel_add, PTO_CORE_AIV },
    [KERNEL_LATCH] = { "latch", kernel_latch, PTO_CORE_AIV },
    [KERNEL_HOLDER] = { "holder", kernel_holder, PTO_CORE_AIV },
    [KERNEL_GATE] = { "gate", kernel_gate, PTO_CORE_AIV },
    [KERNEL_STATE_AIC] = { "state_aic", kernel_state_aic, PTO_CORE_AIC },
    [KERNEL_STATE_AIV] = { "state_aiv", kernel_state_aiv, PTO_CORE_AIV },
};

/* ---- runs ---- */

static struct pto_tensor token(void)
{
    return pto_tensor_external(&scene.token, PTO_DIMS(1), 1, PTO_UINT32);
}

static int run(const struct setting *at, pto_orch_fn orchestration)
{
    memset(&scene, 0, sizeof(scene));
    return run_with(at, kernels, KERNELS, orchestration, NULL);
}

static const struct pto_kernels all_combinations[] = {
    { KERNEL_LANE_AIC, KERNEL_LANE_AIV0, KERNEL_LANE_AIV1 },
    { KERNEL_LANE_AIC, KERNEL_LANE_AIV0, -1 },
    { KERNEL_LANE_AIC, -1, KERNEL_LANE_AIV1 },
    { -1, KERNEL_LANE_AIV0, KERNEL_LANE_AIV1 },
};

enum { COMBINATIONS = sizeof(all_combinations) / sizeof(all_combinations[0]) };

static bool has_lane(struct pto_kernels lanes, uint32_t lane)
{
    return (lane == 0 ? lanes.aic : lane == 1 ? lanes.aiv0 : lanes.aiv1) >= 0;
}

/* Submits the lanes of the plan in its blocks; the lanes of a block meet at a separate word. */
static void orchestrate_lanes(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token();

    (void)entry;
    pto_mix(o, plan.lanes, PTO_INOUT(&t), PTO_INT(0), PTO_INT(lane_count(plan.lanes)),
            LAUNCHED(plan));
}

/* ---- lanes ---- */

static void assert_visits(struct pto_kernels lanes, uint32_t blocks)
{
    for (uint32_t b = 0; b < blocks; b++)
        for (uint32_t lane = 0; lane < LANES; lane++) {
            const struct visit *v = &scene.visit[b][lane];

            assert_int_equal(v->count, has_lane(lanes, lane));
            if (!has_lane(lanes, lane))
                continue;
            assert_int_equal(v->block_count, blocks);
            if (lane > 0) {
                assert_int_equal(v->sub_block, lane - 1);
                assert_int_equal(v->hook_sub_block, lane - 1);
            }
            for (uint32_t other = 0; other < lane; other++)
                if (has_lane(lanes, other)) {
                    const struct visit *u = &scene.visit[b][other];

                    assert_false(pthread_equal(u->thread, v->thread));
                    assert_ptr_not_equal(u->args, v->args);
                    assert_memory_equal(u->arg, v->arg, sizeof(v->arg));
                }
        }
    assert_int_equal(report.executions, blocks * lane_count(lanes));
    assert_int_equal(report.tasks, 1);
}

static void lanes_run_at_the_same_time_with_the_same_arguments_on_threads_of_their_own(
    const struct setting *at)
{
    for (uint32_t i = 0; i < COMBINATIONS; i++) {
        plan = (struct launch){ all_combinations[i], 1, false };
        assert_int_equal(run(at, orchestrate_lanes), PTO_OK);
        assert_visits(plan.lanes, 1);
    }
}

static void lanes_meet_on_the_only_cluster(const struct setting *at)
{
    lanes_run_at_the_same_time_with_the_same_arguments_on_threads_of_their_own(at);
}

static void more_blocks_of_lanes_than_clusters_run_in_waves(const struct setting *at)
{
    for (uint32_t i = 0; i < COMBINATIONS; i++) {
        plan = (struct launch){ all_combinations[i], 11, false };
        assert_int_equal(run(at, orchestrate_lanes), PTO_OK);
        assert_visits(plan.lanes, 11);
        assert_true(scene.inside_max[PTO_CORE_AIC] <= at->clusters);
        assert_true(scene.inside_max[PTO_CORE_AIV] <= 2 * at->clusters);
    }
}

/* A task that completes when its lanes have returned, and a task that reads their results. */
static void orchestrate_blocks_then_sum(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token();

    (void)entry;
    pto_mix(o, plan.lanes, PTO_INOUT(&t), LAUNCHED(plan));
    pto_aiv(o, KERNEL_SUM, PTO_INOUT(&t), PTO_INT(plan.blocks));
}

static void the_next_task_sees_what_every_lane_wrote(const struct setting *at)
{
    plan = (struct launch){ PTO_LANES(KERNEL_BLOCK_AIC, -1, -1), 100, false };
    assert_int_equal(run(at, orchestrate_blocks_then_sum), PTO_OK);
    assert_int_equal(scene.word[0], 1);
    plan.lanes = PTO_LANES(KERNEL_MEET_AIC, KERNEL_BLOCK_AIV, -1);
    assert_int_equal(run(at, orchestrate_blocks_then_sum), PTO_OK);
    assert_int_equal(report.executions, 201);
}

static void a_task_with_aiv1_only_is_an_aiv_task(const struct setting *at)
{
    plan = (struct launch){ PTO_LANES(-1, -1, KERNEL_LANE_AIV1), 1, false };
    assert_int_equal(run(at, orchestrate_lanes), PTO_OK);
    assert_int_equal(scene.visit[0][2].count, 1);
    assert_int_equal(report.executions, 1);
    /* As a gang it may use as many cores as an AIV task, not only as many as a task with lanes. */
    plan = (struct launch){ PTO_LANES(-1, -1, KERNEL_BLOCK_AIV), 2 * (int32_t)at->clusters, true };
    assert_int_equal(run(at, orchestrate_blocks_then_sum), PTO_OK);
    assert_int_equal(scene.order_count, plan.blocks);
    /* And in blocks it may use both AIVs of a cluster. */
    plan.is_gang = false;
    assert_int_equal(run(at, orchestrate_blocks_then_sum), PTO_OK);
    assert_int_equal(scene.order_count, plan.blocks);
}

static void a_kernel_for_the_wrong_lane_is_refused(const struct setting *at)
{
    static const struct {
        struct pto_kernels lanes;
        const char *words;
    } bad[] = {
        { { KERNEL_LANE_AIC, KERNELS, -1 }, "no kernel" },
        { { KERNEL_LANE_AIC, -1, KERNELS + 7 }, "no kernel" },
        { { KERNELS, KERNEL_LANE_AIV0, -1 }, "no kernel" },
        { { KERNEL_LANE_AIC, KERNEL_LANE_AIC, -1 }, "other core type" },
        { { KERNEL_LANE_AIV0, KERNEL_LANE_AIV0, KERNEL_LANE_AIV1 }, "other core type" },
        { { -1, KERNEL_LANE_AIV0, KERNEL_LANE_AIC }, "other core type" },
        { { -1, -1, KERNEL_LANE_AIC }, "other core type" },
    };

    for (uint32_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        plan = (struct launch){ bad[i].lanes, 1, false };
        assert_refused(run(at, orchestrate_lanes), PTO_EARGS, bad[i].words);
        assert_int_equal(report.executions, 0);
    }
}

enum { SMALL_MIXES = 40 };

/* All tasks need the only cluster. */
static void orchestrate_crowd(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token();

    (void)entry;
    for (uint32_t i = 0; i < SMALL_MIXES; i++) {
        pto_aiv(o, KERNEL_ADD_AIV, PTO_AFTER(&t), PTO_INT(40));
        pto_mix(o, all_combinations[i % COMBINATIONS], PTO_AFTER(&t), PTO_INT(i),
                PTO_INT(lane_count(all_combinations[i % COMBINATIONS])));
        pto_aic(o, KERNEL_ADD_AIC, PTO_AFTER(&t), PTO_INT(41));
    }
}

static void lanes_and_ordinary_tasks_share_the_only_cluster(const struct setting *at)
{
    assert_int_equal(run(at, orchestrate_crowd), PTO_OK);
    assert_int_equal(scene.word[40], SMALL_MIXES);
    assert_int_equal(scene.word[41], SMALL_MIXES);
    assert_int_equal(report.executions, 2 * SMALL_MIXES + SMALL_MIXES / 4 * (3 + 2 + 2 + 2));
    assert_true(scene.inside_max[PTO_CORE_AIC] <= 1);
    assert_true(scene.inside_max[PTO_CORE_AIV] <= 2);
}

/* ---- state that a cluster shares ---- */

static void orchestrate_state(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token();

    (void)entry;
    EXPECT(pto_sim_get_subblock_id() == 0);
    EXPECT(pto_sim_get_pipe_shared_state(PIPE_KEY, PIPE_BYTES) == NULL);
    pto_mix(o, PTO_LANES(KERNEL_STATE_AIC, KERNEL_STATE_AIV, KERNEL_STATE_AIV), PTO_INOUT(&t),
            PTO_INT(0), PTO_INT(LANES), PTO_GANG(plan.blocks));
}

static void a_cluster_has_state_of_its_own_for_one_run(const struct setting *at)
{
    assert_null(pto_sim_get_pipe_shared_state(PIPE_KEY, PIPE_BYTES));
    assert_int_equal(pto_sim_get_subblock_id(), 0);
    plan.blocks = (int32_t)at->clusters;
    /* the next run is not affected by what this run leaves */
    for (uint32_t round = 0; round < 3; round++) {
        assert_int_equal(run(at, orchestrate_state), PTO_OK);
        for (uint32_t b = 0; b < at->clusters; b++)
            for (uint32_t lane = 0; lane < LANES; lane++) {
                const struct visit *v = &scene.visit[b][lane];

                assert_non_null(v->pipe);
                assert_ptr_equal(v->pipe, scene.visit[b][0].pipe);
                assert_ptr_equal(v->other_pipe, scene.visit[b][0].other_pipe);
                assert_ptr_not_equal(v->pipe, v->other_pipe);
                assert_true(v->is_pipe_clean);
                assert_int_equal(v->pipe_sum, LANES);
                for (uint32_t c = 0; c < b; c++)
                    assert_ptr_not_equal(v->pipe, scene.visit[c][lane].pipe);
            }
    }
}

/* ---- which cores ---- */

static void a_gang_of_lanes_uses_every_cluster_s_own_cores_once(const struct setting *at)
{
    uint32_t n = at->clusters;

    for (uint32_t i = 0; i < COMBINATIONS; i++) {
        plan = (struct launch){ all_combinations[i], (int32_t)n, true };
        assert_int_equal(run(at, orchestrate_lanes), PTO_OK);
        assert_int_equal(report.core_count, 3 * n);
        for (uint32_t c = 0; c < n; c++) {
            assert_int_equal(report.core_tasks[c], has_lane(plan.lanes, 0));
            assert_int_equal(report.core_tasks[n + 2 * c], has_lane(plan.lanes, 1));
            assert_int_equal(report.core_tasks[n + 2 * c + 1], has_lane(plan.lanes, 2));
        }
        plan = (struct launch){ all_combinations[i], 1, false }; /* of one cluster */
        assert_int_equal(run(at, orchestrate_lanes), PTO_OK);
        for (uint32_t c = 0; c < n; c++) {
            uint32_t sum = report.core_tasks[c] + report.core_tasks[n + 2 * c] +
                           report.core_tasks[n + 2 * c + 1];

            assert_true(sum == 0 || sum == lane_count(plan.lanes));
        }
    }
}

static void a_gang_of_all_aivs_uses_each_of_them_once(const struct setting *at)
{
    uint32_t n = at->clusters;

    plan = (struct launch){ PTO_LANES(-1, KERNEL_BLOCK_AIV, -1), 2 * (int32_t)n, true };
    assert_int_equal(run(at, orchestrate_blocks_then_sum), PTO_OK);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(report.core_tasks[i], 0);
    for (uint32_t i = n, extra = 0; i < 3 * n; i++) { /* a sum task ran on one of them as well */
        assert_true(report.core_tasks[i] == 1 || (report.core_tasks[i] == 2 && extra++ == 0));
    }
}

/* ---- SPMD ---- */

static void every_block_runs_once_and_before_the_next_task(const struct setting *at)
{
    static const int32_t counts[] = { 1, 2, 1000, IS_SANITIZED ? 3000 : BLOCKS_MAX };

    for (uint32_t i = 0; i < 2 * sizeof(counts) / sizeof(counts[0]); i++) {
        plan = (struct launch){ i % 2 != 0 ? PTO_LANES(KERNEL_BLOCK_AIC, -1, -1)
                                           : PTO_LANES(-1, KERNEL_BLOCK_AIV, -1),
                                counts[i / 2], false };
        assert_int_equal(run(at, orchestrate_blocks_then_sum), PTO_OK);
        for (int32_t b = 0; b < plan.blocks; b++)
            if (scene.hits[b] != 1)
                fail_msg("block %d of %d ran %u times", b, plan.blocks, scene.hits[b]);
        assert_int_equal(scene.word[0], 1);
        assert_int_equal(report.executions, plan.blocks + 1);
        assert_int_equal(report.tasks, 2);
    }
}

static void one_worker_runs_blocks_in_increasing_order(const struct setting *at)
{
    plan = (struct launch){ PTO_LANES(-1, KERNEL_BLOCK_AIV, -1), 1000, false };
    if (at->workers != 1)
        return;
    for (uint32_t round = 0; round < 20; round++) {
        assert_int_equal(run(at, orchestrate_blocks_then_sum), PTO_OK);
        if (report.takeovers == 0) /* otherwise the system delayed a kernel */
            break;
    }
    assert_int_equal(report.takeovers, 0);
    for (uint32_t b = 0; b < 1000; b++)
        assert_int_equal(scene.order[b], b);
}

static void orchestrate_meeting_blocks(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token();

    (void)entry;
    pto_mix(o, plan.lanes, PTO_INOUT(&t), PTO_INT(0), PTO_INT(invocations(&plan)), LAUNCHED(plan));
}

static void blocks_of_an_ordinary_task_may_wait_for_each_other(const struct setting *at)
{
    static const int32_t kernel[] = { KERNEL_MEET_AIV, KERNEL_SPIN_AIV };

    for (uint32_t i = 0; i < 2; i++) {
        plan = (struct launch){ PTO_LANES(-1, kernel[i], -1), 8, false };
        assert_int_equal(run(at, orchestrate_meeting_blocks), PTO_OK);
        assert_int_equal(scene.word[0], 8);
        assert_int_equal(report.executions, 8);
    }
}

static void orchestrate_bad_blocks(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token();

    (void)entry;
    EXPECT(
        !pto_task_id_is_valid(pto_mix(o, plan.lanes, PTO_INOUT(&t), PTO_BLOCKS(plan.blocks)).task));
    EXPECT(pto_orch_status(o) == PTO_EARGS);
}

static void bad_block_counts_are_refused(const struct setting *at)
{
    static const struct launch bad[] = {
        { { -1, KERNEL_BLOCK_AIV, -1 }, 0, false },
        { { -1, KERNEL_BLOCK_AIV, -1 }, -1, false },
        { { -1, KERNEL_BLOCK_AIV, -1 }, INT32_MIN, false },
        { { -1, KERNEL_BLOCK_AIV, -1 }, INT32_MAX, false },
        { { -1, KERNEL_BLOCK_AIV, -1 }, (1 << 30) + 1, false },
        { { KERNEL_BLOCK_AIC, KERNEL_BLOCK_AIV, -1 }, 0, false },
        { { KERNEL_BLOCK_AIC, KERNEL_BLOCK_AIV, -1 }, (1 << 29) + 1, false },
        { { KERNEL_BLOCK_AIC, KERNEL_BLOCK_AIV, KERNEL_BLOCK_AIV }, INT32_MAX, false },
    };

    for (uint32_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char words[64];

        plan = bad[i];
        snprintf(words, sizeof(words), "%d blocks", bad[i].blocks);
        assert_refused(run(at, orchestrate_bad_blocks), PTO_EARGS, words);
        assert_int_equal(report.executions, 0);
        assert_int_equal(scene.order_count, 0);
    }
    plan = (struct launch){ PTO_LANES(-1, KERNEL_BLOCK_AIV, -1), 3, false };
    assert_int_equal(run(at, orchestrate_blocks_then_sum), PTO_OK);
}

/* ---- gangs ---- */

static void a_gang_of_the_whole_chip_meets(const struct setting *at)
{
    const struct pto_kernels lanes[] = {
        { -1, KERNEL_MEET_AIV, -1 },
        { KERNEL_MEET_AIC, -1, -1 },
        { KERNEL_MEET_AIC, KERNEL_MEET_AIV, KERNEL_MEET_AIV },
        { -1, KERNEL_MEET_AIV, KERNEL_MEET_AIV },
    };

    for (uint32_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++) {
        plan =
            (struct launch){ lanes[i], (int32_t)(i == 0 ? 2 * at->clusters : at->clusters), true };
        assert_int_equal(run(at, orchestrate_meeting_blocks), PTO_OK);
        assert_int_equal(scene.word[0], invocations(&plan));
        assert_int_equal(report.executions, scene.word[0]);
    }
}

static void a_gang_of_one_block_is_an_ordinary_task(const struct setting *at)
{
    plan = (struct launch){ PTO_LANES(-1, KERNEL_BLOCK_AIV, -1), 1, true };
    assert_int_equal(run(at, orchestrate_blocks_then_sum), PTO_OK);
    assert_int_equal(scene.word[0], 1);
    plan.lanes = all_combinations[0];
    assert_int_equal(run(at, orchestrate_lanes), PTO_OK);
    assert_visits(plan.lanes, 1);
}

static void a_gang_larger_than_the_chip_is_refused(const struct setting *at)
{
    static const struct pto_kernels lanes[] = {
        { KERNEL_BLOCK_AIC, -1, -1 },
        { KERNEL_BLOCK_AIC, KERNEL_BLOCK_AIV, -1 },
        { KERNEL_BLOCK_AIC, KERNEL_BLOCK_AIV, KERNEL_BLOCK_AIV },
        { -1, KERNEL_BLOCK_AIV, KERNEL_BLOCK_AIV },
        { -1, KERNEL_BLOCK_AIV, -1 },
        { -1, -1, KERNEL_BLOCK_AIV },
    };

    assert_int_equal(PTO_ESYNC_START, -7);
    for (uint32_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++) {
        uint32_t most = i < 4 ? at->clusters : 2 * at->clusters;
        char words[64];

        plan = (struct launch){ lanes[i], (int32_t)most + 1, true };
        snprintf(words, sizeof(words), "room for %u;", most);
        assert_refused(run(at, orchestrate_blocks_then_sum), PTO_ESYNC_START, words);
        assert_int_equal(report.executions, 0);
        plan.blocks = 1000000;
        assert_refused(run(at, orchestrate_blocks_then_sum), PTO_ESYNC_START, words);
        plan.blocks = (int32_t)most;
        assert_int_equal(run(at, orchestrate_blocks_then_sum), PTO_OK);
        assert_int_equal(report.executions, most * lane_count(lanes[i]) + 1);
        plan = (struct launch){ lanes[i], (int32_t)most + 1, false }; /* in waves: of any size */
        assert_int_equal(run(at, orchestrate_blocks_then_sum), PTO_OK);
        assert_int_equal(report.executions, (most + 1) * lane_count(lanes[i]) + 1);
    }
}

enum { GANGS = 6 };

/* Each of these fits, but no two fit together. */
static void orchestrate_rivals(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token();
    uint32_t clusters = pto_cluster_count(o);

    (void)entry;
    for (uint32_t i = 0; i < GANGS; i++) {
        uint32_t aivs = 2 * clusters - i % 3, mixes = clusters - i % 2;

        pto_aiv(o, KERNEL_MEET_AIV, PTO_AFTER(&t), PTO_INT(3 * i), PTO_INT(aivs), PTO_GANG(aivs));
        pto_mix(o, PTO_LANES(KERNEL_MEET_AIC, KERNEL_MEET_AIV, KERNEL_MEET_AIV), PTO_AFTER(&t),
                PTO_INT(3 * i + 1), PTO_INT(3 * mixes), PTO_GANG(mixes));
        pto_aic(o, KERNEL_MEET_AIC, PTO_AFTER(&t), PTO_INT(3 * i + 2), PTO_INT(mixes),
                PTO_GANG(mixes));
    }
}

static void gangs_that_do_not_fit_beside_each_other_all_run(const struct setting *at)
{
    assert_int_equal(run(at, orchestrate_rivals), PTO_OK);
    for (uint32_t i = 0; i < GANGS; i++) {
        assert_int_equal(scene.word[3 * i], 2 * at->clusters - i % 3);
        assert_int_equal(scene.word[3 * i + 1], 3 * (at->clusters - i % 2));
        assert_int_equal(scene.word[3 * i + 2], at->clusters - i % 2);
    }
}

enum { CROWD_ROUNDS = 10 };

static void orchestrate_everything(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token();
    uint32_t clusters = pto_cluster_count(o);

    (void)entry;
    for (uint32_t i = 0; i < CROWD_ROUNDS; i++) {
        for (uint32_t j = 0; j < 10; j++) {
            pto_aiv(o, KERNEL_ADD_AIV, PTO_AFTER(&t), PTO_INT(60));
            pto_aic(o, KERNEL_ADD_AIC, PTO_AFTER(&t), PTO_INT(61));
        }
        pto_aiv(o, KERNEL_MEET_AIV, PTO_AFTER(&t), PTO_INT(2 * i), PTO_INT(2 * clusters),
                PTO_GANG(2 * clusters));
        pto_mix(o, PTO_LANES(KERNEL_ADD_AIC, KERNEL_ADD_AIV, KERNEL_ADD_AIV), PTO_AFTER(&t),
                PTO_INT(62), PTO_BLOCKS(clusters + 3));
        pto_aiv(o, KERNEL_MS, PTO_AFTER(&t), PTO_BLOCKS(3));
        pto_mix(o, PTO_LANES(KERNEL_MEET_AIC, KERNEL_MEET_AIV, -1), PTO_AFTER(&t),
                PTO_INT(2 * i + 1), PTO_INT(2 * clusters), PTO_GANG(clusters));
    }
}

static void assert_everything(const struct setting *at)
{
    for (uint32_t i = 0; i < 2 * CROWD_ROUNDS; i++)
        assert_int_equal(scene.word[i], 2 * at->clusters);
    assert_int_equal(scene.word[60], 10 * CROWD_ROUNDS);
    assert_int_equal(scene.word[61], 10 * CROWD_ROUNDS);
    assert_int_equal(scene.word[62], CROWD_ROUNDS * 3 * (at->clusters + 3));
    assert_int_equal(scene.ordinary, 3 * CROWD_ROUNDS);
}

static void gangs_lanes_blocks_and_ordinary_tasks_run_together(const struct setting *at)
{
    struct pto_run_options options;

    pto_run_options_init(&options);
    options.trace = PTO_TRACE_TIMES;
    for (uint32_t i = 0; i < 2; i++) {
        memset(&scene, 0, sizeof(scene));
        options.order_seed = i; /* the newest task first, or in any order */
        assert_int_equal(run_with(at, kernels, KERNELS, orchestrate_everything, &options), PTO_OK);
        assert_everything(at);
    }
}

/* ---- who goes first ---- */

enum { ORDINARY = 50, ORDINARY_FEW = 20 }; /* all of them fit the window of one worker */

/* One task releases all others at once; the one that must run first has the index others.at. */
static void orchestrate_rush(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token();

    (void)entry;
    pto_aiv(o, KERNEL_MS, PTO_INOUT(&t));
    for (uint32_t i = 0; i <= ORDINARY; i++) {
        if (i == others.at)
            pto_mix(o, plan.lanes, PTO_IN(&t), LAUNCHED(plan));
        else
            pto_aiv(o, KERNEL_MS, PTO_IN(&t));
    }
}

/* How many ordinary tasks had started when that one did. */
static uint32_t rush(const struct setting *at)
{
    assert_int_equal(run(at, orchestrate_rush), PTO_OK);
    assert_int_equal(scene.ordinary, ORDINARY + 1);
    assert_true(scene.before != 0);
    return scene.before - 1;
}

/*
 * A single worker takes them in an order that no other thread can disturb. With several workers,
 * the system may delay the worker that is releasing the tasks, while others take tasks that are
 * already released. Then the attempt is repeated: an implementation without the right priority
 * never has the task among the first.
 */
static void check_rush(const struct setting *at)
{
    static const uint32_t places[] = { 0, ORDINARY / 2, ORDINARY };
    uint32_t attempts = at->workers == 1 ? 1 : 20;

    for (uint32_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        uint32_t before = ORDINARY;

        others.at = places[i];
        for (uint32_t j = 0; j < attempts && before >= ORDINARY_FEW; j++)
            before = rush(at);
        if (before >= ORDINARY_FEW)
            fail_msg("submitted as number %u, it ran after %u ordinary tasks, %u times", others.at,
                     before, attempts);
    }
}

static void a_ready_gang_goes_before_ordinary_tasks(const struct setting *at)
{
    plan = (struct launch){ PTO_LANES(-1, KERNEL_GANG, -1), 2 * (int32_t)at->clusters, true };
    check_rush(at);
}

static void a_ready_task_with_lanes_goes_before_ordinary_tasks(const struct setting *at)
{
    plan = (struct launch){ PTO_LANES(KERNEL_GANG_AIC, KERNEL_GANG, KERNEL_GANG), 1, false };
    check_rush(at);
}

/* A gang gets its cores although there is always an ordinary task for each core. */
static void orchestrate_flood(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token();

    (void)entry;
    for (uint32_t i = 0; i < others.count; i++) {
        if (i == 50)
            pto_aiv(o, KERNEL_GANG, PTO_AFTER(&t), PTO_GANG(2 * pto_cluster_count(o)));
        pto_aiv(o, KERNEL_MS, PTO_AFTER(&t));
    }
}

static void a_gang_is_not_starved_by_ordinary_tasks(const struct setting *at)
{
    others.count = 400;
    assert_int_equal(run(at, orchestrate_flood), PTO_OK);
    assert_int_equal(scene.ordinary, others.count);
    assert_true(scene.before != 0);
}

/*
 * The gang needs the core on which a kernel waits for an ordinary task. That ordinary task must run
 * before the gang, or both would wait forever.
 */
static void orchestrate_holder(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token();
    struct pto_args args;
    struct pto_task_id gang_may, ordinary_may;

    (void)entry;
    gang_may = pto_aiv(o, KERNEL_LATCH, PTO_AFTER(&t), PTO_INT(WORD_GANG_MAY), PTO_INT(1)).task;
    ordinary_may =
        pto_aiv(o, KERNEL_LATCH, PTO_AFTER(&t), PTO_INT(WORD_ORDINARY_MAY), PTO_INT(1)).task;
    pto_args_init(&args);
    pto_add_no_dep(&args, &t);
    pto_add_scalar(&args, WORD_GANG);
    pto_set_deps(&args, &gang_may, NULL, 1);
    pto_set_blocks(&args, plan.blocks);
    pto_set_sync_start(&args, plan.is_gang);
    pto_submit_mix(o, plan.lanes, &args);
    for (uint32_t i = 0; i < others.count; i++) {
        pto_args_init(&args);
        pto_add_no_dep(&args, &t);
        pto_add_scalar(&args, WORD_ORDINARY);
        pto_set_deps(&args, &ordinary_may, NULL, 1);
        pto_submit_aiv(o, KERNEL_ADD_AIV, &args);
    }
    pto_aiv(o, KERNEL_HOLDER, PTO_AFTER(&t), PTO_INT(others.at));
}

static void a_kernel_may_wait_for_an_ordinary_task_while_a_gang_waits_for_its_core(
    const struct setting *at)
{
    static const struct {
        uint32_t ms, count;
        struct launch launch;
    } cases[] = {
        { 4, 1, { { -1, KERNEL_ADD_AIV, -1 }, 2, true } },
        { 4, 5, { { -1, KERNEL_ADD_AIV, -1 }, 2, true } },
        { 20, 5, { { -1, KERNEL_ADD_AIV, -1 }, 2, true } },
        { 4, 1, { { KERNEL_ADD_AIC, KERNEL_ADD_AIV, KERNEL_ADD_AIV }, 2, false } },
        { 20, 5, { { KERNEL_ADD_AIC, KERNEL_ADD_AIV, KERNEL_ADD_AIV }, 2, false } },
    };

    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        others.at = cases[i].ms;
        others.count = cases[i].count;
        plan = cases[i].launch;
        assert_int_equal(run(at, orchestrate_holder), PTO_OK);
        assert_int_equal(scene.word[WORD_GANG], 2 * lane_count(plan.lanes));
        assert_int_equal(scene.word[WORD_ORDINARY], others.count);
    }
}

/* ---- cancelled ---- */

/* No kernel holds more than one core, so the gang waits only for the gate. */
static void orchestrate_gate(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token();
    struct pto_task_id may;
    struct pto_args args;

    (void)entry;
    may = pto_aiv(o, KERNEL_LATCH, PTO_AFTER(&t), PTO_INT(WORD_GANG_MAY), PTO_INT(1)).task;
    pto_args_init(&args);
    pto_add_inout(&args, &t);
    pto_add_scalar(&args, WORD_GANG);
    pto_set_deps(&args, &may, NULL, 1);
    pto_set_blocks(&args, plan.blocks);
    pto_set_sync_start(&args, plan.is_gang);
    pto_submit_mix(o, plan.lanes, &args);
    pto_aiv(o, KERNEL_ADD_AIV, PTO_INOUT(&t), PTO_INT(WORD_GANG));
    pto_aiv(o, KERNEL_GATE, PTO_AFTER(&t));
}

static void gangs_and_lanes_that_wait_for_cores_are_cancelled(const struct setting *at)
{
    static const struct launch cases[] = {
        { { -1, KERNEL_ADD_AIV, -1 }, 2, true },
        { { KERNEL_ADD_AIC, KERNEL_ADD_AIV, KERNEL_ADD_AIV }, 3, false },
    };

    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_gate);
        struct pto_run *handle;

        plan = cases[i];
        memset(&scene, 0, sizeof(scene));
        handle = start_run(at, callable);
        wait_until(&scene.word[WORD_AT_GATE], 1, true);
        pto_notify_set(&scene.word[WORD_GANG_MAY], 1);
        assert_int_equal(pto_run_wait(handle, 5 * MS), PTO_ETIMEOUT);
        assert_int_equal(pto_run_cancel(handle), PTO_OK);
        assert_int_equal(pto_run_wait(handle, 5 * MS), PTO_ETIMEOUT); /* a kernel is waited for */
        __atomic_store_n(&scene.word[WORD_OPEN], 1, __ATOMIC_RELEASE);
        assert_int_equal(pto_run_wait(handle, 0), PTO_ECANCELED);
        assert_int_equal(pto_run_finish(handle, NULL), PTO_ECANCELED);
        assert_int_equal(scene.word[WORD_GANG], 0);
        assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    }
    plan = (struct launch){ PTO_LANES(KERNEL_MEET_AIC, KERNEL_MEET_AIV, KERNEL_MEET_AIV),
                            (int32_t)at->clusters, true };
    assert_int_equal(run(at, orchestrate_meeting_blocks), PTO_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(2, lanes_run_at_the_same_time_with_the_same_arguments_on_threads_of_their_own),
        EACH(1, lanes_meet_on_the_only_cluster),
        EACH(2, more_blocks_of_lanes_than_clusters_run_in_waves),
        EACH(2, the_next_task_sees_what_every_lane_wrote),
        EACH(2, a_task_with_aiv1_only_is_an_aiv_task),
        EACH(2, a_kernel_for_the_wrong_lane_is_refused),
        EACH(1, lanes_and_ordinary_tasks_share_the_only_cluster),
        EACH(3, a_cluster_has_state_of_its_own_for_one_run),
        EACH(5, a_gang_of_lanes_uses_every_cluster_s_own_cores_once),
        EACH(5, a_gang_of_all_aivs_uses_each_of_them_once),
        EACH(0, every_block_runs_once_and_before_the_next_task),
        EACH(0, one_worker_runs_blocks_in_increasing_order),
        EACH(4, blocks_of_an_ordinary_task_may_wait_for_each_other),
        EACH(2, bad_block_counts_are_refused),
        EACH(0, a_gang_of_the_whole_chip_meets),
        EACH(1, a_gang_of_one_block_is_an_ordinary_task),
        EACH(3, a_gang_larger_than_the_chip_is_refused),
        EACH(4, gangs_that_do_not_fit_beside_each_other_all_run),
        EACH(3, gangs_lanes_blocks_and_ordinary_tasks_run_together),
        EACH(2, a_ready_gang_goes_before_ordinary_tasks),
        EACH(2, a_ready_task_with_lanes_goes_before_ordinary_tasks),
        EACH(2, a_gang_is_not_starved_by_ordinary_tasks),
        EACH(1, a_kernel_may_wait_for_an_ordinary_task_while_a_gang_waits_for_its_core),
        EACH(1, gangs_and_lanes_that_wait_for_cores_are_cancelled),
    };

    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

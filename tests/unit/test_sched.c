/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler, step by step: this file implements the port, and runs one to three workers in turn
 * on one thread. Kernels record which task they ran for.
 */
#include "tests/fixture/port_test.h"

#include "sched/order.h"

enum { SHOP_WORKERS = 3, SHOP_TASKS_MAX = 100000 };

/* ---- the machine ---- */

struct shop {
    struct worker worker[SHOP_WORKERS]; /* first: aligned */
    struct core core[SHOP_WORKERS];
    struct sched sched;
    struct rig *rig;
    uint32_t wakes;
    uint32_t cores_free[PTO_CORE_TYPES];
    uint32_t room;   /* number of tasks for which there is a core */
    bool takes_away; /* threads lose their places while they are in kernels */
    struct slot *away;
};

static _Alignas(128) struct shop shop;

static uint32_t ran[SHOP_TASKS_MAX]; /* numbers of tasks, in the order of execution */
static uint32_t ran_count;
static int64_t ran_args[PTO_ARG_COUNT]; /* arguments of the last task */
static struct pto_local_context ran_local;
static struct pto_global_context ran_global;

static void write_down(int64_t *args)
{
    ran[ran_count++ % SHOP_TASKS_MAX] = pto_task_id_local(pto_arg_local(args)->task);
    memcpy(ran_args, args, sizeof(ran_args));
    ran_local = *pto_arg_local(args);
    ran_global = *pto_arg_global(args);
}

static void write_down_and_stay(int64_t *args)
{
    write_down(args);
    for (uint32_t i = 0; i < SHOP_WORKERS; i++)
        core_set_lost(&shop.core[i], true);
}

enum { SHOP_AIC, SHOP_AIV, SHOP_STAYS, SHOP_KERNELS };

static const struct graph_kernel shop_kernels[SHOP_KERNELS] = {
    [SHOP_AIC] = { write_down, PTO_CORE_AIC },
    [SHOP_AIV] = { write_down, PTO_CORE_AIV },
    [SHOP_STAYS] = { write_down_and_stay, PTO_CORE_AIV },
};

void port_wake(void *machine)
{
    ((struct shop *)machine)->wakes++;
}

bool port_core_acquire(void *machine, struct worker *w, uint32_t core_type)
{
    struct shop *x = machine;

    if (x->cores_free[core_type] == 0)
        return false;
    w->core_index[core_type] = (uint16_t)--x->cores_free[core_type];
    w->core_mask |= (uint8_t)(1u << core_type);
    return true;
}

uint32_t port_core_room(void *machine, uint32_t core_type)
{
    (void)core_type;
    return ((struct shop *)machine)->room;
}

bool port_core_lost(struct core *core, struct slot *s)
{
    struct shop *x = core->owner;

    for (uint32_t i = 0; i < SHOP_WORKERS; i++)
        core_set_lost(&x->core[i], false);
    if (x->takes_away)
        x->away = s;
    return x->takes_away;
}

void port_cores_yield(void *machine, struct worker *w)
{
    (void)machine;
    (void)w;
    fail_msg("no team waits for cores here");
}

void port_core_reset(struct core *core)
{
    (void)core;
}

void port_team_start(void *machine, struct slot *s)
{
    (void)machine;
    (void)s;
    fail_msg("nothing here has several lanes");
}

static void shop_open(uint32_t workers, uint64_t order_seed)
{
    memset(&shop, 0, sizeof(shop));
    shop.rig = rig_open(PTO_DEPS_SAFE);
    assert_int_equal(rig_start(shop.rig, PTO_DEPS_SAFE, workers > 1), PTO_OK);
    shop.rig->g.kernels = shop_kernels;
    shop.cores_free[PTO_CORE_AIC] = shop.cores_free[PTO_CORE_AIV] = workers;
    shop.room = UINT32_MAX;
    sched_init(&shop.sched, &shop);
    for (uint32_t i = 0; i < workers; i++) {
        sched_add_worker(&shop.sched, &shop.worker[i], &shop.rig->g);
        core_init(&shop.core[i], &shop);
        shop.worker[i].core = &shop.core[i];
    }
    sched_start(&shop.sched, shop_kernels, order_seed);
    ran_count = 0;
}

static void shop_close(void)
{
    rig_close(shop.rig);
}

static struct slot *shop_submit_as(struct pto_kernels kernels, const struct pto_args *args,
                                   struct pto_outputs *out)
{
    struct pto_outputs ignored;
    struct slot *ready;

    assert_int_equal(
        graph_submit(&shop.rig->g, &kernels, args, NULL, out != NULL ? out : &ignored, &ready),
        PTO_OK);
    return ready;
}

/* Submits a task without arguments, which is ready. */
static struct slot *shop_task(int32_t kernel)
{
    struct pto_kernels kernels = { -1, -1, -1 };
    struct pto_args args;
    struct slot *s;

    if (kernel == SHOP_AIC)
        kernels.aic = kernel;
    else
        kernels.aiv0 = kernel; /* -1: a dummy */
    pto_args_init(&args);
    s = shop_submit_as(kernels, &args, NULL);
    assert_true(s != NULL);
    return s;
}

/* A task after others. */
static struct slot *shop_task_after(int32_t kernel, const uint32_t *locals, uint32_t count)
{
    struct pto_task_id deps[8];
    struct pto_args args;

    for (uint32_t i = 0; i < count; i++)
        deps[i] = pto_task_id_make(0, locals[i]);
    pto_args_init(&args);
    pto_set_deps(&args, deps, NULL, count);
    return shop_submit_as((struct pto_kernels){ -1, kernel, -1 }, &args, NULL);
}

static void check_each_ran_once(uint32_t count)
{
    static uint8_t times[SHOP_TASKS_MAX];

    memset(times, 0, sizeof(times));
    assert_int_equal(ran_count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(ran[i] < count);
        assert_int_equal(times[ran[i]]++, 0);
    }
}

static uint32_t offered(const struct worker *w)
{
    return a32_load_relaxed(&w->public_tail) - a32_load_relaxed(&w->public_head);
}

static uint32_t returned(const struct worker *w)
{
    return a32_load_relaxed(&w->return_ready) - a32_load_relaxed(&w->return_head);
}

/* ---- order ---- */

static void the_newest_ready_task_runs_first(void **state)
{
    (void)state;
    shop_open(1, 0);
    for (uint32_t i = 0; i < 100; i++)
        sched_push(&shop.worker[0], shop_task(SHOP_AIV));
    assert_int_equal(sched_ready_count(&shop.worker[0]), 100);
    assert_int_equal(sched_run(&shop.worker[0], UINT32_MAX), SCHED_IDLE);
    assert_int_equal(ran_count, 100);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(ran[i], 99 - i);
    assert_int_equal(shop.rig->g.live, 0);
    assert_int_equal(sched_executed(&shop.worker[0]), 100);
    assert_int_equal(shop.worker[0].executed[PTO_CORE_AIV], 100);
    assert_int_equal(offered(&shop.worker[0]), 0); /* there is no other worker */
    shop_close();
}

static void a_successor_runs_right_after_its_last_predecessor(void **state)
{
    static const uint32_t want[] = { 1, 0, 2, 3 };

    (void)state;
    shop_open(1, 0);
    sched_push(&shop.worker[0], shop_task(SHOP_AIV));
    sched_push(&shop.worker[0], shop_task(SHOP_AIC));
    assert_true(shop_task_after(SHOP_AIV, (const uint32_t[]){ 0, 1 }, 2) == NULL);
    assert_true(shop_task_after(SHOP_AIV, (const uint32_t[]){ 2 }, 1) == NULL);
    assert_int_equal(sched_run(&shop.worker[0], UINT32_MAX), SCHED_IDLE);
    assert_int_equal(ran_count, 4);
    assert_memory_equal(ran, want, sizeof(want));
    assert_int_equal(shop.worker[0].executed[PTO_CORE_AIC], 1);
    shop_close();
}

static void a_hundred_thousand_ready_tasks_run_once_each(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers < 3; workers++) {
        shop_open(workers, 0);
        for (uint32_t i = 0; i < SHOP_TASKS_MAX; i++)
            sched_push(&shop.worker[0], shop_task(SHOP_AIV));
        assert_true(sched_ready_count(&shop.worker[0]) <= SCHED_DEQUE);
        assert_int_equal(sched_run(&shop.worker[0], UINT32_MAX), SCHED_IDLE);
        check_each_ran_once(SHOP_TASKS_MAX);
        assert_int_equal(shop.rig->g.live, 0);
        shop_close();
    }
}

enum { ORDERED = 300 };

/* Tasks of two kernels alternately, with one worker. */
static void run_ordered(uint64_t seed, uint32_t count)
{
    shop_open(1, seed);
    for (uint32_t i = 0; i < count; i++)
        sched_push(&shop.worker[0], shop_task(i % 2 == 0 ? SHOP_AIC : SHOP_AIV));
    assert_int_equal(sched_run(&shop.worker[0], UINT32_MAX), SCHED_IDLE);
    check_each_ran_once(count);
    shop_close();
}

static void equal_seeds_give_equal_orders_and_others_differ(void **state)
{
    static uint32_t order[2 * ORDER_WAYS + 1][ORDERED];

    (void)state;
    for (uint64_t seed = 0; seed <= 2 * ORDER_WAYS; seed++) {
        run_ordered(seed, ORDERED);
        memcpy(order[seed], ran, sizeof(order[0]));
        run_ordered(seed, ORDERED);
        assert_memory_equal(order[seed], ran, sizeof(order[0]));
        run_ordered(seed, 5000); /* more than the deque holds */
    }
    for (uint64_t i = 1; i <= ORDER_WAYS; i++)
        for (uint64_t j = 1; j < i; j++)
            assert_memory_not_equal(order[i], order[j], sizeof(order[0]));
}

static void each_way_of_ordering_holds_something_back(void **state)
{
    uint32_t moved = 0;

    (void)state;
    run_ordered(ORDER_WAYS + ORDER_OLDEST, ORDERED);
    for (uint32_t i = 0; i < ORDERED; i++)
        assert_int_equal(ran[i], i);
    run_ordered(ORDER_NEWEST, ORDERED);
    for (uint32_t i = 0; i < ORDERED; i++)
        assert_int_equal(ran[i], ORDERED - 1 - i);
    run_ordered(ORDER_KERNELS, ORDERED); /* one kernel's tasks, then the other's */
    for (uint32_t i = 1; i < ORDERED; i++)
        assert_int_equal(ran[i] % 2 != ran[i - 1] % 2, i == ORDERED / 2);
    /* two rows, each with the oldest first; the second one is short */
    run_ordered(ORDER_DELAYS, ORDERED);
    for (uint32_t i = 1; i < ORDERED; i++)
        if (ran[i] < ran[i - 1]) {
            moved++;
            assert_in_range(ORDERED - i, ORDERED / 16, ORDERED / 4);
        }
    assert_int_equal(moved, 1);
    for (uint64_t seed = ORDER_RANKS; seed <= ORDER_RANDOM; seed++) {
        run_ordered(seed, ORDERED);
        for (uint32_t i = moved = 0; i < ORDERED; i++)
            moved += ran[i] != i;
        assert_true(moved > ORDERED / 2);
    }
}

static void a_budget_is_kept_to(void **state)
{
    (void)state;
    shop_open(1, 0);
    for (uint32_t i = 0; i < 5; i++)
        sched_push(&shop.worker[0], shop_task(SHOP_AIV));
    for (uint32_t i = 0; i < 5; i++) /* a chain after the task that runs first */
        assert_true(shop_task_after(SHOP_AIV, (const uint32_t[]){ 4 + i }, 1) == NULL);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(sched_run(&shop.worker[0], 3), SCHED_BUDGET);
        assert_int_equal(ran_count, 3 * (i + 1));
    }
    assert_int_equal(sched_run(&shop.worker[0], 3), SCHED_IDLE);
    check_each_ran_once(10);
    assert_int_equal(sched_run(&shop.worker[0], 1), SCHED_IDLE);
    shop_close();
}

/* ---- several workers ---- */

static void the_older_half_is_offered_and_claimed_in_order(void **state)
{
    struct worker *w = shop.worker;

    (void)state;
    shop_open(2, 0);
    for (uint32_t i = 0; i < SCHED_BATCH - 1; i++)
        sched_push(&w[0], shop_task(SHOP_AIV));
    assert_int_equal(offered(&w[0]), 0);
    assert_false(sched_has_offer(&shop.sched, &w[1]));
    assert_int_equal(sched_run(&w[1], 1), SCHED_IDLE);
    sched_push(&w[0], shop_task(SHOP_AIV));
    assert_int_equal(offered(&w[0]), SCHED_BATCH / 2);
    assert_int_equal(sched_ready_count(&w[0]), SCHED_BATCH / 2);
    assert_true(sched_has_offer(&shop.sched, &w[1]));
    assert_int_equal(sched_run(&w[1], 3), SCHED_BUDGET);
    assert_int_equal(offered(&w[0]), 0); /* all of them at once */
    assert_int_equal(sched_ready_count(&w[1]), SCHED_BATCH / 2 - 3);
    assert_int_equal(w[1].stolen, SCHED_BATCH / 2);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(ran[i], i); /* oldest first */
    assert_int_equal(sched_run(&w[0], UINT32_MAX), SCHED_IDLE);
    assert_int_equal(ran_count, 3 + SCHED_BATCH / 2);
    assert_int_equal(ran[3], SCHED_BATCH - 1); /* newest first */
    assert_int_equal(sched_run(&w[1], UINT32_MAX), SCHED_IDLE);
    check_each_ran_once(SCHED_BATCH);
    shop_close();
}

static void an_offer_is_bounded_and_claimed_in_batches(void **state)
{
    struct worker *w = shop.worker;
    uint32_t tasks = 500;

    (void)state;
    shop_open(2, 0);
    w[0].is_offering = false;
    for (uint32_t i = 0; i < tasks; i++)
        sched_push(&w[0], shop_task(SHOP_AIV));
    assert_int_equal(offered(&w[0]), 0); /* not worth it */
    sched_publish(&w[0]);
    assert_int_equal(offered(&w[0]), 4 * SCHED_CLAIM);
    sched_publish(&w[0]);
    assert_int_equal(offered(&w[0]), 4 * SCHED_CLAIM); /* this is enough already */
    assert_int_equal(sched_run(&w[1], 1), SCHED_BUDGET);
    assert_int_equal(offered(&w[0]), 3 * SCHED_CLAIM);
    assert_int_equal(sched_ready_count(&w[1]), SCHED_CLAIM - 1);
    for (uint32_t turn = 0; ran_count < tasks; turn++) {
        assert_true(turn < 2 * tasks);
        sched_run(&w[turn % 2], 1);
        sched_publish(&w[0]);
    }
    check_each_ran_once(tasks);
    assert_true(w[1].stolen >= tasks / 4);
    assert_int_equal(sched_executed(&w[0]) + sched_executed(&w[1]), tasks);
    shop_close();
}

static void a_worker_takes_back_what_nobody_claims(void **state)
{
    (void)state;
    shop_open(2, 0);
    for (uint32_t i = 0; i < SCHED_BATCH; i++)
        sched_push(&shop.worker[0], shop_task(SHOP_AIV));
    assert_int_equal(offered(&shop.worker[0]), SCHED_BATCH / 2);
    assert_int_equal(sched_run(&shop.worker[0], UINT32_MAX), SCHED_IDLE);
    check_each_ran_once(SCHED_BATCH);
    assert_int_equal(shop.worker[0].stolen, 0);
    shop_close();
}

static void a_worker_that_found_nothing_is_offered_what_there_is(void **state)
{
    struct worker *w = shop.worker;

    (void)state;
    shop_open(2, 0);
    assert_int_equal(sched_run(&w[1], UINT32_MAX), SCHED_IDLE);
    for (uint32_t i = 0; i < 3; i++)
        sched_push(&w[0], shop_task(SHOP_AIV));
    assert_int_equal(offered(&w[0]), 0);
    assert_int_equal(sched_run(&w[0], 1), SCHED_BUDGET);
    assert_int_equal(offered(&w[0]), 1); /* before the kernel, which may take long */
    assert_int_equal(sched_run(&w[1], UINT32_MAX), SCHED_IDLE);
    assert_int_equal(w[1].stolen, 1);
    assert_int_equal(sched_run(&w[0], UINT32_MAX), SCHED_IDLE);
    check_each_ran_once(3);
    shop_close();
}

static void a_worker_that_looks_away_is_offered_nothing(void **state)
{
    struct worker *w = shop.worker;

    (void)state;
    shop_open(2, 0);
    assert_int_equal(sched_run(&w[0], UINT32_MAX), SCHED_IDLE);
    sched_clear_hungry(&w[0]);
    sched_clear_hungry(&w[0]); /* it was not polling */
    for (uint32_t i = 0; i < 3; i++)
        sched_push(&w[1], shop_task(SHOP_AIV));
    assert_int_equal(sched_run(&w[1], 1), SCHED_BUDGET);
    assert_int_equal(offered(&w[1]), 0);
    assert_int_equal(sched_run(&w[0], UINT32_MAX), SCHED_IDLE); /* it looks again */
    assert_int_equal(sched_run(&w[1], 1), SCHED_BUDGET);
    assert_int_equal(offered(&w[1]), 1);
    assert_int_equal(sched_run(&w[1], UINT32_MAX), SCHED_IDLE);
    check_each_ran_once(3);
    shop_close();
}

static void only_sleepers_are_woken(void **state)
{
    struct worker *w = shop.worker;

    (void)state;
    shop_open(2, 0);
    sched_push(&w[0], shop_task(SHOP_AIV));
    sched_publish(&w[0]);
    assert_int_equal(shop.wakes, 0);
    sched_sleep_begin(&shop.sched);
    sched_push(&w[0], shop_task(SHOP_AIV));
    sched_publish(&w[0]);
    assert_int_equal(shop.wakes, 1); /* by an offer */
    sched_run(&w[1], UINT32_MAX);
    sched_flush(&w[1]);
    assert_int_equal(shop.wakes, 2); /* woken by a returned slot */
    sched_flush(&w[1]);
    assert_int_equal(shop.wakes, 2); /* not twice */
    assert_int_equal(sched_collect(&shop.sched, &shop.rig->g), 2);
    assert_int_equal(shop.wakes, 3); /* woken by room in the ring */
    sched_sleep_end(&shop.sched);
    assert_int_equal(sched_collect(&shop.sched, &shop.rig->g), 0);
    assert_int_equal(shop.wakes, 3);
    shop_close();
}

/* ---- finished slots ---- */

static void finished_slots_come_back_in_batches(void **state)
{
    struct worker *w = shop.worker;
    struct graph *g;

    (void)state;
    shop_open(2, 0);
    g = &shop.rig->g;
    for (uint32_t i = 0; i < SCHED_BATCH + 3; i++)
        sched_push(&w[1], shop_task(SHOP_AIV));
    assert_int_equal(sched_run(&w[1], SCHED_BATCH - 1), SCHED_BUDGET);
    assert_int_equal(returned(&w[1]), 0);
    assert_int_equal(sched_collect(&shop.sched, g), 0);
    assert_int_equal(g->live, SCHED_BATCH + 3);
    assert_int_equal(sched_run(&w[1], 1), SCHED_BUDGET);
    assert_int_equal(returned(&w[1]), SCHED_BATCH);
    assert_true(sched_has_offer(&shop.sched, &w[0])); /* for the submitter */
    assert_int_equal(sched_collect(&shop.sched, g), SCHED_BATCH);
    assert_int_equal(g->live, 3);
    assert_int_equal(sched_run(&w[1], UINT32_MAX), SCHED_IDLE);
    assert_int_equal(sched_collect(&shop.sched, g), 0);
    sched_flush(&w[1]);
    assert_int_equal(sched_collect(&shop.sched, g), 3);
    assert_int_equal(g->live, 0);
    shop_close();
}

static void a_full_ring_holds_slots_back_until_there_is_room(void **state)
{
    enum { TASKS = 3 * SCHED_RETURN + 100 };
    struct worker *w = shop.worker;
    struct graph *g;
    uint32_t collected = 0;

    (void)state;
    shop_open(2, 0);
    g = &shop.rig->g;
    for (uint32_t i = 0; i < TASKS; i++)
        sched_push(&w[1], shop_task(SHOP_AIV));
    assert_int_equal(sched_run(&w[1], UINT32_MAX), SCHED_IDLE);
    check_each_ran_once(TASKS);
    assert_int_equal(returned(&w[1]), SCHED_RETURN);
    assert_true(w[1].unreturned != 0);
    sched_flush(&w[1]);
    assert_int_equal(returned(&w[1]), SCHED_RETURN);
    assert_false(sched_has_offer(&shop.sched, &w[1]));
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t now = sched_collect(&shop.sched, g);

        collected += now;
        assert_int_equal(now, i < 3 ? SCHED_RETURN : 100);
        assert_int_equal(g->live, TASKS - collected);
        assert_int_equal(sched_has_offer(&shop.sched, &w[1]), i < 3);
        sched_flush(&w[1]);
    }
    assert_int_equal(w[1].unreturned, 0);
    assert_int_equal(g->live, 0);
    shop_close();
}

static void blocks_freed_by_another_worker_are_collected(void **state)
{
    struct pto_tensor_info info = pto_tensor_info_make((const uint32_t[]){ 256 }, 1, PTO_FLOAT32);
    struct pto_outputs out;
    struct pto_args args;
    struct graph *g;

    (void)state;
    shop_open(2, 0);
    g = &shop.rig->g;
    assert_int_equal(graph_scope_begin(g, PTO_SCOPE_AUTO, NULL), PTO_OK);
    pto_args_init(&args);
    pto_add_output(&args, &info);
    sched_push(&shop.worker[1], shop_submit_as(rig_aiv, &args, &out));
    assert_int_equal(graph_scope_end(g), PTO_OK);
    assert_int_equal(sched_run(&shop.worker[1], UINT32_MAX), SCHED_IDLE);
    assert_true(a32_load_relaxed(&g->freed_buffers) != 0);
    sched_flush(&shop.worker[1]);
    assert_int_equal(sched_collect(&shop.sched, g), 1);
    assert_int_equal(a32_load_relaxed(&g->freed_buffers), 0);
    assert_true(g->free_buffer[1] != 0);
    shop_close();
}

/* ---- rare ways ---- */

static void a_kernel_that_stays_away_completes_later(void **state)
{
    struct worker *w = shop.worker;

    (void)state;
    shop_open(2, 0);
    sched_push(&w[1], shop_task(SHOP_STAYS));
    assert_true(shop_task_after(SHOP_AIV, (const uint32_t[]){ 0 }, 1) == NULL);
    shop.takes_away = true;
    assert_int_equal(sched_run(&w[1], UINT32_MAX), SCHED_LOST);
    assert_true(shop.away != NULL);
    assert_int_equal(ran_count, 1);
    assert_int_equal(sched_run(&w[0], UINT32_MAX), SCHED_IDLE);
    assert_int_equal(ran_count, 1); /* its successor waits */
    sched_sleep_begin(&shop.sched);
    sched_finished(&shop.sched, &shop.rig->g, shop.away);
    assert_int_equal(shop.wakes, 1);
    assert_true(sched_has_offer(&shop.sched, &w[0]));
    assert_int_equal(sched_run(&w[0], UINT32_MAX), SCHED_IDLE);
    assert_int_equal(ran_count, 2);
    assert_int_equal(shop.rig->g.live, 0);
    assert_false(sched_has_offer(&shop.sched, &w[0]));
    shop_close();
}

static void a_false_alarm_completes_at_once(void **state)
{
    (void)state;
    shop_open(2, 0);
    sched_push(&shop.worker[0], shop_task(SHOP_STAYS));
    assert_int_equal(sched_run(&shop.worker[0], UINT32_MAX),
                     SCHED_IDLE); /* it was not taken away */
    assert_int_equal(ran_count, 1);
    assert_int_equal(shop.rig->g.live, 0);
    shop_close();
}

static void many_finished_tasks_complete_together(void **state)
{
    static struct slot *away[100];

    (void)state;
    shop_open(2, 0);
    shop.takes_away = true;
    for (uint32_t i = 0; i < 100; i++) {
        struct slot *s = shop_task(SHOP_STAYS);
        uint32_t local = pto_task_id_local(slot_id(s));

        assert_true(shop_task_after(SHOP_AIV, &local, 1) == NULL);
        sched_push(&shop.worker[0], s);
        assert_int_equal(sched_run(&shop.worker[0], UINT32_MAX), SCHED_LOST);
        away[i] = shop.away;
    }
    assert_int_equal(ran_count, 100);
    for (uint32_t i = 0; i < 100; i++)
        sched_finished(&shop.sched, &shop.rig->g, away[i]);
    for (uint32_t i = 0; i < 100; i++)
        sched_run(&shop.worker[i % 2], UINT32_MAX);
    check_each_ran_once(200);
    sched_flush(&shop.worker[1]);
    sched_collect(&shop.sched, &shop.rig->g);
    assert_int_equal(shop.rig->g.live, 0);
    shop_close();
}

static void a_task_waits_for_a_worker_with_its_type_of_core(void **state)
{
    struct worker *w = shop.worker;

    (void)state;
    shop_open(2, 0);
    shop.cores_free[PTO_CORE_AIC] = 0;
    sched_push(&w[0], shop_task(SHOP_AIV));
    sched_push(&w[0], shop_task(SHOP_AIC));
    sched_push(&w[0], shop_task(SHOP_AIC));
    sched_sleep_begin(&shop.sched);
    assert_int_equal(sched_run(&w[0], UINT32_MAX), SCHED_IDLE);
    assert_int_equal(ran_count, 1);
    assert_int_equal(shop.wakes, 2); /* another worker may have such a core */
    assert_false(sched_has_offer(&shop.sched, &w[1]));
    w[1].core_mask = 1u << PTO_CORE_AIC;
    assert_true(sched_has_offer(&shop.sched, &w[1]));
    assert_int_equal(sched_run(&w[1], UINT32_MAX), SCHED_IDLE);
    check_each_ran_once(3);
    assert_int_equal(w[1].executed[PTO_CORE_AIC], 2);
    shop_close();
}

static void a_parked_task_runs_when_a_core_is_free(void **state)
{
    struct worker *w = shop.worker;

    (void)state;
    shop_open(2, 0);
    shop.cores_free[PTO_CORE_AIV] = 0;
    sched_push(&w[0], shop_task(SHOP_AIV));
    assert_int_equal(sched_run(&w[0], UINT32_MAX), SCHED_IDLE);
    assert_int_equal(ran_count, 0);
    shop.cores_free[PTO_CORE_AIV] = 1;
    assert_int_equal(sched_run(&w[0], UINT32_MAX), SCHED_IDLE);
    assert_int_equal(ran_count, 1);
    assert_int_equal(shop.cores_free[PTO_CORE_AIV], 0);
    shop_close();
}

static void no_more_parked_tasks_are_taken_than_can_start(void **state)
{
    struct worker *w = shop.worker;

    (void)state;
    shop_open(1, 0);
    w->is_shared = true; /* it searches for the tasks that it has parked */
    shop.cores_free[PTO_CORE_AIV] = 0;
    for (uint32_t i = 0; i < 4; i++)
        sched_push(w, shop_task(SHOP_AIV));
    assert_int_equal(sched_run(w, UINT32_MAX), SCHED_IDLE);
    assert_int_equal(ran_count, 0);
    shop.cores_free[PTO_CORE_AIV] = 1;
    shop.room = 1;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(sched_run(w, 1), SCHED_BUDGET);
        assert_int_equal(ran_count, i + 1);
        assert_int_equal(ran[i], 3 - i); /* in the order in which they were parked */
        assert_true(w->deque_tail == w->deque_head);
        assert_true(sched_has_offer(&shop.sched, w));
    }
    assert_int_equal(sched_run(w, UINT32_MAX), SCHED_IDLE);
    check_each_ran_once(4);
    assert_false(sched_has_offer(&shop.sched, w));
    shop_close();
}

static void a_dummy_runs_nothing_and_needs_no_core(void **state)
{
    (void)state;
    shop_open(1, 0);
    shop.cores_free[PTO_CORE_AIC] = shop.cores_free[PTO_CORE_AIV] = 0;
    sched_push(&shop.worker[0], shop_task(-1));
    assert_true(shop_task_after(-1, (const uint32_t[]){ 0 }, 1) == NULL);
    assert_int_equal(sched_run(&shop.worker[0], UINT32_MAX), SCHED_IDLE);
    assert_int_equal(ran_count, 0);
    assert_int_equal(sched_executed(&shop.worker[0]), 0);
    assert_int_equal(shop.rig->g.live, 0);
    shop_close();
}

/* ---- what a kernel sees ---- */

static void check_vector(uint32_t tensors, uint32_t scalars)
{
    struct pto_tensor t[PTO_TASK_TENSORS_MAX];
    struct pto_outputs out;
    struct pto_args args;
    struct slot *s;

    pto_args_init(&args);
    for (uint32_t i = 0; i < tensors; i++) {
        t[i] = pto_tensor_external((void *)(uintptr_t)(0x200000000ull + 4096 * i),
                                   (const uint32_t[]){ i + 1 }, 1, PTO_FLOAT32);
        pto_add_inout(&args, &t[i]);
    }
    for (uint32_t i = 0; i < scalars; i++)
        pto_add_scalar(&args, UINT64_MAX - i);
    s = shop_submit_as(rig_aiv, &args, &out);
    sched_push(&shop.worker[0], s);
    assert_int_equal(sched_run(&shop.worker[0], UINT32_MAX), SCHED_IDLE);
    for (uint32_t i = 0; i < tensors; i++) {
        assert_int_equal((uintptr_t)ran_args[i] % 64, 0);
        assert_ptr_equal(pto_arg_tensor(ran_args, (int)i), &s->tensor[i]);
        assert_same_view(pto_arg_tensor(ran_args, (int)i), &t[i], PTO_TAG_INOUT);
    }
    for (uint32_t i = 0; i < scalars; i++)
        assert_true((uint64_t)ran_args[tensors + i] == UINT64_MAX - i);
    assert_ptr_equal((void *)(uintptr_t)ran_args[PTO_ARG_LOCAL], &shop.core[0].local);
    assert_ptr_equal((void *)(uintptr_t)ran_args[PTO_ARG_GLOBAL], &shop.core[0].global);
    assert_int_equal(ran_local.block_index, 0);
    assert_int_equal(ran_local.block_count, 1);
    assert_true(ran_local.task.raw == out.task.raw);
    assert_int_equal(ran_global.sub_block_id, 0);
}

static void a_kernel_sees_its_tensors_scalars_and_contexts(void **state)
{
    static const uint32_t counts[3] = { 0, 1, PTO_TASK_SCALARS_MAX };

    (void)state;
    shop_open(1, 0);
    for (uint32_t i = 0; i < 3; i++) {
        check_vector(0, counts[i]);
        check_vector(1, counts[i]);
        check_vector(PTO_TASK_TENSORS_MAX, counts[i]);
    }
    assert_int_equal(a32_load_relaxed(&shop.core[0].exec), 18); /* in and out of nine kernels */
    shop_close();
}

static void check_descriptor(const struct pto_tensor *t)
{
    struct pto_args args;
    struct slot *s;

    pto_args_init(&args);
    pto_add_input(&args, t);
    s = shop_submit_as(rig_aiv, &args, NULL);
    assert_memory_equal(&s->tensor[0], t, offsetof(struct pto_tensor, tag));
    assert_int_equal(s->tensor[0].tag, PTO_TAG_INPUT);
    sched_push(&shop.worker[0], s);
    sched_run(&shop.worker[0], UINT32_MAX);
}

/* However it is found: as contiguous, as a new or a known box, or as a tile. */
static void a_kernel_sees_all_of_a_descriptor(void **state)
{
    struct pto_tensor deep = pto_tensor_external((void *)0x200000000ull,
                                                 (const uint32_t[]){ 3, 4, 5, 6, 7 }, 5, PTO_INT16);
    struct pto_tensor box = pto_tensor_view(&deep, (const uint32_t[]){ 2, 2, 3, 4, 5 },
                                            (const uint32_t[]){ 1, 1, 1, 1, 1 });
    struct pto_tensor flat =
        pto_tensor_external((void *)0x300000000ull, (const uint32_t[]){ 32, 32 }, 2, PTO_FLOAT32);

    (void)state;
    shop_open(1, 0);
    check_descriptor(&deep);
    check_descriptor(&box);
    check_descriptor(&box);
    for (uint32_t i = 0; i < 4; i++) {
        struct pto_tensor tile =
            pto_tensor_view(&flat, (const uint32_t[]){ 8, 8 }, (const uint32_t[]){ 8 * i, 8 });

        check_descriptor(&tile);
    }
    shop_close();
}

/*
 * The descriptor of an output has half the size of a tensor; the bytes after it must not be read.
 */
static void an_output_behind_a_tile_is_not_taken_for_one(void **state)
{
    static struct pto_tensor_info info; /* AddressSanitizer protects the bytes after it */
    struct pto_tensor flat =
        pto_tensor_external((void *)0x300000000ull, (const uint32_t[]){ 32, 32 }, 2, PTO_FLOAT32);
    struct pto_tensor tile =
        pto_tensor_view(&flat, (const uint32_t[]){ 8, 8 }, (const uint32_t[]){ 8, 8 });

    (void)state;
    shop_open(1, 0);
    info = pto_tensor_info_make((const uint32_t[]){ 16 }, 1, PTO_FLOAT32);
    info.initial_value = flat.addr; /* unused, and at the place of a tensor's address */
    for (uint32_t i = 0; i < 4; i++) {
        struct pto_args args;

        pto_args_init(&args);
        pto_add_input(&args, &tile);
        pto_add_output(&args, &info);
        sched_push(&shop.worker[0], shop_submit_as(rig_aiv, &args, NULL));
        sched_run(&shop.worker[0], UINT32_MAX);
    }
    check_each_ran_once(4);
    shop_close();
}

static void a_float_scalar_is_its_bit_pattern(void **state)
{
    struct pto_args args;

    (void)state;
    shop_open(1, 0);
    pto_args_init(&args);
    pto_add_float(&args, -1.5f);
    sched_push(&shop.worker[0], shop_submit_as(rig_aiv, &args, NULL));
    sched_run(&shop.worker[0], UINT32_MAX);
    assert_true((uint64_t)ran_args[0] == 0xbfc00000u);
    assert_true(pto_arg_float(ran_args, 0) == -1.5f);
    shop_close();
}

/* ---- all together ---- */

/* Submits a task that touches one to three of a few tensors. */
static struct slot *shop_random_task(struct rng *r)
{
    struct pto_tensor t[3];
    struct pto_args args;

    pto_args_init(&args);
    for (uint32_t i = 0, n = 1 + rng_below(r, 3); i < n; i++) {
        uintptr_t addr = 0x200000000ull + 4096ull * rng_below(r, 12);

        t[i] = pto_tensor_external((void *)addr, (const uint32_t[]){ 64 }, 1, PTO_FLOAT32);
        pto_args_add(&args, &t[i], rng_below(r, 3) == 0 ? PTO_TAG_INOUT : PTO_TAG_INPUT);
    }
    return shop_submit_as(
        (struct pto_kernels){ -1, rng_below(r, 10) == 0 ? SHOP_STAYS : SHOP_AIV, -1 }, &args, NULL);
}

static void random_graph(uint64_t seed)
{
    enum { TASKS = 3000 };
    static uint32_t place[TASKS];
    struct rng r = { seed };
    uint32_t workers = 1 + rng_below(&r, SHOP_WORKERS), turns = 0;
    bool is_random = rng_below(&r, 2) == 0;
    struct slot *ready;
    struct graph *g;

    shop_open(workers, is_random ? seed : 0);
    g = &shop.rig->g;
    for (uint32_t task = 0; task < TASKS || g->live != 0;) {
        struct worker *w = &shop.worker[rng_below(&r, workers)];

        assert_true(turns++ < 100 * TASKS);
        if (task < TASKS && rng_below(&r, 2) == 0) {
            ready = shop_random_task(&r);
            if (ready != NULL)
                sched_push(&shop.worker[0], ready);
            task++;
            continue;
        }
        shop.takes_away = workers > 1 && rng_below(&r, 2) == 0;
        if (sched_run(w, 1 + rng_below(&r, 40)) == SCHED_LOST)
            sched_finished(&shop.sched, g, shop.away);
        if (rng_below(&r, 4) == 0 && workers > 1)
            sched_publish(w);
        if (rng_below(&r, 4) == 0 && w->index != 0)
            sched_flush(w);
        if (rng_below(&r, 4) == 0)
            sched_collect(&shop.sched, g);
    }
    check_each_ran_once(TASKS);
    for (uint32_t i = 0; i < TASKS; i++)
        place[ran[i]] = i;
    for (uint64_t i = 0; i < shop.rig->edge_count; i++)
        assert_true(place[shop.rig->edge[i].before] < place[shop.rig->edge[i].after]);
    shop_close();
}

static void random_graphs_run_in_order_on_one_to_three_workers(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40 / TEST_SHARE; seed++)
        random_graph(seed);
}

static const struct CMUnitTest sched_tests[] = {
    cmocka_unit_test(the_newest_ready_task_runs_first),
    cmocka_unit_test(a_successor_runs_right_after_its_last_predecessor),
    cmocka_unit_test(a_hundred_thousand_ready_tasks_run_once_each),
    cmocka_unit_test(equal_seeds_give_equal_orders_and_others_differ),
    cmocka_unit_test(each_way_of_ordering_holds_something_back),
    cmocka_unit_test(a_budget_is_kept_to),
    cmocka_unit_test(the_older_half_is_offered_and_claimed_in_order),
    cmocka_unit_test(an_offer_is_bounded_and_claimed_in_batches),
    cmocka_unit_test(a_worker_takes_back_what_nobody_claims),
    cmocka_unit_test(a_worker_that_found_nothing_is_offered_what_there_is),
    cmocka_unit_test(a_worker_that_looks_away_is_offered_nothing),
    cmocka_unit_test(only_sleepers_are_woken),
    cmocka_unit_test(finished_slots_come_back_in_batches),
    cmocka_unit_test(a_full_ring_holds_slots_back_until_there_is_room),
    cmocka_unit_test(blocks_freed_by_another_worker_are_collected),
    cmocka_unit_test(a_kernel_that_stays_away_completes_later),
    cmocka_unit_test(a_false_alarm_completes_at_once),
    cmocka_unit_test(many_finished_tasks_complete_together),
    cmocka_unit_test(a_task_waits_for_a_worker_with_its_type_of_core),
    cmocka_unit_test(a_parked_task_runs_when_a_core_is_free),
    cmocka_unit_test(no_more_parked_tasks_are_taken_than_can_start),
    cmocka_unit_test(a_dummy_runs_nothing_and_needs_no_core),
    cmocka_unit_test(a_kernel_sees_its_tensors_scalars_and_contexts),
    cmocka_unit_test(a_kernel_sees_all_of_a_descriptor),
    cmocka_unit_test(an_output_behind_a_tile_is_not_taken_for_one),
    cmocka_unit_test(a_float_scalar_is_its_bit_pattern),
    cmocka_unit_test(random_graphs_run_in_order_on_one_to_three_workers),
};

TEST_MAIN(sched_tests)

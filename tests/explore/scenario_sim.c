/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that lose their places, wait for the monitor, sleep and end. */
#include "scenario_sim.h"

/*
 * A chain of two tasks, and a third task, which runs after the first task of the chain on the
 * thread that has the place then. The place may be given away in any kernel, or just when a kernel
 * returns.
 */
static void build_chain(void *arg)
{
    struct pto_task_id a;

    (void)arg;
    graph_scope_begin(graph, PTO_SCOPE_AUTO, NULL);
    submit_simple(0, 4, PART_LINGERS, NULL, 0);
    a = submit_simple(0, 1, PART_LINGERS, NULL, 0);
    submit_simple(1, 2, PART_LINGERS, &a, 1);
    graph_scope_end(graph);
}

static void chain_thread(int id)
{
    sim_thread(id, build_chain);
}

static void watch_twice(void)
{
    watch_places(sim);
    watch_places(sim);
}

/* Waits until a thread other than the caller is in a kernel, or the run has ended. */
static bool is_led_by_another(void *arg)
{
    struct thread *th = sim->at_place[0];

    (void)arg;
    return explore_peek32(&sim->is_closing) != 0 ||
           (th != NULL && th != &sim->caller && explore_peek32(&th->core.exec) % 2 != 0);
}

/* The last three checks of the monitor cause the second takeover. */
static void watch_two_takeovers(void)
{
    watch_twice();
    explore_wait_until(is_led_by_another, NULL);
    watch_twice();
    watch_places(sim);
}

/*
 * The monitor has already seen the caller in its first kernel twice, so its next check may give the
 * place away.
 */
static void expect_takeover(void)
{
    sim->observed[0] = (struct observation){ &sim->caller, 1, TICKS_STUCK - 1 };
}

static void setup_takeover(void)
{
    watch = watch_twice;
    open_sim(1, 1);
    expect_takeover();
}

static void setup_own_fence(void)
{
    setup_takeover();
    sim->has_fence_all = false;
    sim->caller.core.lost = (struct a32){ CORE_UNFENCED };
}

/* The thread that took the place loses it as well, when the caller already waits for the end. */
static void setup_two_takeovers(void)
{
    watch = watch_two_takeovers;
    open_sim(1, 2);
    expect_takeover();
}

/*
 * A task of two blocks, the first of which may lose its place, and a task that reads what both
 * wrote.
 */
static void build_blocks(void *arg)
{
    struct pto_task_id a;

    (void)arg;
    graph_scope_begin(graph, PTO_SCOPE_AUTO, NULL);
    a = submit_launch(&on_aiv, 2, false, task_scalar(submitted, 0, 1), PART_LINGERS, NULL, 0);
    submit_simple(3, 4, PART_NONE, &a, 1);
    graph_scope_end(graph);
}

static void blocks_thread(int id)
{
    sim_thread(id, build_blocks);
}

/* A deferred task, which waits for a counter after its kernel has returned, and its successor. */
static void build_deferred(void *arg)
{
    struct pto_task_id a;

    (void)arg;
    graph_scope_begin(graph, PTO_SCOPE_AUTO, NULL);
    a = submit_simple(0, 1, PART_DEFERS, NULL, 0);
    submit_simple(3, 4, PART_NONE, &a, 1);
    graph_scope_end(graph);
}

/* It is the notifier in the first place. */
static void watch_deferred(void)
{
    atomic_note_write(&cell[1]);
    (a32_store_release)(&counter[0], 1);
    watch_places(sim);
    (void)sched_poll(sched, graph);
}

static void setup_deferred(void)
{
    watch = watch_deferred;
    open_sim(2, 1);
    expect_takeover();
}

static void deferred_thread(int id)
{
    sim_thread(id, build_deferred);
}

/* The kernel that runs first waits for a later task: without the monitor the run would hang. */
static void build_stuck(void *arg)
{
    (void)arg;
    graph_scope_begin(graph, PTO_SCOPE_AUTO, NULL);
    submit_simple(0, 1, PART_RELEASES, NULL, 0);
    submit_simple(0, 2, PART_WAITS, NULL, 0);
    graph_scope_end(graph);
}

static void setup_stuck(void)
{
    watch = NULL;
    open_sim(1, 1);
}

static void stuck_thread(int id)
{
    sim_thread(id, build_stuck);
}

/* Two workers that sleep, wake and end. */
static void setup_workers(void)
{
    watch = watch_once;
    open_sim(2, 0);
}

int main(int argc, char **argv)
{
    static const struct scenario list[] = {
        { { "takeover", 3, setup_takeover, chain_thread, check_ran },
          "R7 F3 R20 A20",
          { .preemption_max = 1, .delay_max = 1, .execution_max = 30000, .random_count = 40000 } },
        { { "takeover, own fence", 3, setup_own_fence, chain_thread, check_ran },
          "F3",
          { .preemption_max = 1, .delay_max = 1, .execution_max = 30000, .random_count = 150000 } },
        { { "two takeovers", 4, setup_two_takeovers, chain_thread, check_ran },
          "",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 30000, .random_count = 40000 } },
        { { "takeover, blocks", 3, setup_takeover, blocks_thread, check_ran },
          "",
          { .preemption_max = 1, .delay_max = 1, .execution_max = 12500, .random_count = 10000 } },
        { { "stuck", 3, setup_stuck, stuck_thread, check_ran },
          "F2 R14 A14",
          { .preemption_max = 1, .delay_max = 1, .execution_max = 15000, .random_count = 20000 } },
        { { "workers", 3, setup_workers, chain_thread, check_ran },
          "R14 A14",
          { .preemption_max = 1, .delay_max = 1, .execution_max = 15000, .random_count = 30000 } },
        { { "deferred, asleep", 4, setup_deferred, deferred_thread, check_ran },
          "",
          { .preemption_max = 1, .delay_max = 1, .execution_max = 10000, .random_count = 10000 } },
    };

    return scenario_main(argc, argv, list, sizeof(list) / sizeof(list[0]));
}

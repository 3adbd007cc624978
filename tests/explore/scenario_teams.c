/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Teams: lanes on idle threads, teams that wait for cores and tasks that wait for teams, the end of
 * a run while a team waits.
 */
#include "scenario_sim.h"

static const struct pto_kernels on_outer = { SIM_KERNEL_AIC, -1, SIM_KERNEL_AIV1 };

static void watch_nothing(void)
{
}

/* A team of two or three lanes, and a gang of two AIVs. */
static struct pto_task_id submit_lanes(const struct pto_kernels *lanes, uint32_t reads,
                                       uint32_t writes, enum part part,
                                       const struct pto_task_id *deps, uint32_t dep_count)
{
    return submit_launch(lanes, 1, false, task_scalar(submitted, reads, writes), part, deps,
                         dep_count);
}

static struct pto_task_id submit_gang(uint32_t reads, uint32_t writes,
                                      const struct pto_task_id *deps, uint32_t dep_count)
{
    return submit_launch(&on_aiv, 2, true, task_scalar(submitted, reads, writes), PART_NONE, deps,
                         dep_count);
}

/* ---- one after the other, on the same threads ---- */

/*
 * The first team reads what a task wrote, the second what the first team wrote, and a task reads
 * the rest.
 */
static void build_lanes(void *arg)
{
    struct pto_task_id a;

    (void)arg;
    graph_scope_begin(graph, PTO_SCOPE_AUTO, NULL);
    a = submit_simple(0, 0x400, PART_NONE, NULL, 0);
    a = submit_lanes(&on_two, 0x400, 1, PART_LINGERS, &a, 1);
    a = submit_lanes(&on_two, 0x11, 2, PART_NONE, &a, 1);
    submit_simple(0x22, 1, PART_NONE, &a, 1);
    graph_scope_end(graph);
}

static void setup_lanes(void)
{
    watch = watch_nothing;
    open_sim(1, 2);
}

static void lanes_thread(int id)
{
    sim_thread(id, build_lanes);
}

/* ---- every core and every thread is needed ---- */

/*
 * The caller may lose its place in the first task; then two teams need all cores, one after the
 * other.
 */
static void build_all_cores(void *arg)
{
    (void)arg;
    graph_scope_begin(graph, PTO_SCOPE_AUTO, NULL);
    submit_lanes(&on_three, 0, 1, PART_NONE, NULL, 0);
    submit_lanes(&on_three, 0, 2, PART_NONE, NULL, 0);
    submit_simple(0, 4, PART_LINGERS, NULL, 0);
    graph_scope_end(graph);
}

static void setup_all_cores(void)
{
    watch = watch_once;
    open_sim(1, 4); /* as many as sim_open allows: one for each core and each place */
    sim->observed[0] = (struct observation){ &sim->caller, 1, TICKS_STUCK - 1 };
}

static void all_cores_thread(int id)
{
    sim_thread(id, build_all_cores);
}

/* ---- tasks wait for the cores of a team ---- */

/* A gang has both AIVs when the blocks of a task need one, and vice versa. */
static void build_contended(void *arg)
{
    struct pto_task_id a;

    (void)arg;
    graph_scope_begin(graph, PTO_SCOPE_AUTO, NULL);
    a = submit_launch(&on_aiv, 2, false, task_scalar(submitted, 0, 4), PART_LINGERS, NULL, 0);
    submit_gang(0, 1, NULL, 0);
    submit_simple(0xc, 0x10, PART_NONE, &a, 1);
    graph_scope_end(graph);
}

static void setup_contended(void)
{
    watch = watch_nothing;
    open_sim(2, 2);
}

static void contended_thread(int id)
{
    sim_thread(id, build_contended);
}

/* ---- place 1 sleeps, and is the only one that does; place 0 is served by hand ---- */

static void setup_by_hand(uint32_t place, uint32_t type)
{
    watch = watch_nothing;
    open_sim(2, 2);
    sched_start(sched, sim_kernels, 0);
    sim_bind_thread(sim, &sim->caller, sim->sched.worker[0]);
    explore_assert(port_core_acquire(sim, sim->sched.worker[place], type));
    overtaken_word = &sched->sleepers;
}

static bool has_returned(void *arg)
{
    struct worker *w = sim->sched.worker[1];

    (void)arg;
    return explore_peek32(&w->return_ready) != explore_peek32(&w->return_head);
}

/* Place 0 starts the team; everything that follows is for place 1. */
static void start_by_hand(struct slot *team)
{
    struct worker *w = sim->sched.worker[0];

    w->deque[w->deque_tail++] = graph_slot_line(graph, team);
    explore_assert(sched_run(w, 1) == SCHED_BUDGET);
}

static void collect_and_close(void)
{
    while (graph->live != 0) {
        explore_wait_until(has_returned, NULL);
        sched_collect(sched, graph);
    }
    sim_close(&sim->base);
    (a32_store_release)(&is_over, 1);
}

/* The place sleeps while it has the AIC for which the team waits. */
static void setup_sleeper(void)
{
    setup_by_hand(1, PTO_CORE_AIC);
}

static void sleeper_main(void)
{
    struct slot *team;

    graph_scope_begin(graph, PTO_SCOPE_AUTO, NULL);
    submit_only(&on_two, 1, false, task_scalar(0, 0, 1), PART_NONE, NULL, 0, &team);
    graph_scope_end(graph);
    start_by_hand(team);
    collect_and_close();
}

/*
 * The task needs an AIV; place 0 has one and the team the other one. The AIV lane releases its
 * core; the AIC lane waits for the task that needs it.
 */
static void setup_parked(void)
{
    setup_by_hand(0, PTO_CORE_AIV);
}

static void parked_main(void)
{
    struct slot *team;

    graph_scope_begin(graph, PTO_SCOPE_AUTO, NULL);
    submit_only(&on_outer, 1, false, task_scalar(0, 0, 1), PART_AIC_WAITS, NULL, 0, &team);
    start_by_hand(team);
    submit_simple(0, 2, PART_RELEASES, NULL, 0);
    graph_scope_end(graph);
    collect_and_close();
}

static void sleeper_thread(int id)
{
    if (id == 0)
        sleeper_main();
    else
        sim_thread(id, NULL);
}

static void parked_thread(int id)
{
    if (id == 0)
        parked_main();
    else
        sim_thread(id, NULL);
}

/* ---- the run is stopped while a team waits for a core that does not come back ---- */

static void build_stopped(void *arg)
{
    (void)arg;
    graph_scope_begin(graph, PTO_SCOPE_AUTO, NULL);
    submit_simple(0, 4, PART_WAITS, NULL, 0);
    submit_gang(0, 1, NULL, 0);
    graph_scope_end(graph);
}

/* First a thread that cancels the run, then the monitor. */
static void watch_stopped(void)
{
    sim_cancel(&sim->base, 1);
    sim_watch_teams(sim);
    lock_model();
    explore_assert(!has_teams(sim));
    unlock_model();
    (a32_store_release)(&released, 1);
}

static void setup_stopped(void)
{
    watch = watch_stopped;
    open_sim(2, 2);
    may_be_cut_short = true;
}

static void stopped_thread(int id)
{
    sim_thread(id, build_stopped);
}

/* ---- a gang waits for a core whose kernel waits for a task, or a team, that wants one ---- */

static void build_stuck(void *arg)
{
    (void)arg;
    graph_scope_begin(graph, PTO_SCOPE_AUTO, NULL);
    if (explore_choose(2) == 0)
        submit_simple(0, 8, PART_RELEASES, NULL, 0);
    else
        submit_lanes(&on_outer, 0, 8, PART_RELEASES, NULL, 0);
    submit_gang(0, 1, NULL, 0);
    submit_simple(0, 4, PART_WAITS, NULL, 0);
    graph_scope_end(graph);
}

/* The place has the AIC as well. */
static void setup_stuck(void)
{
    watch = NULL;
    open_sim(1, 3);
    sim->sched.worker[0]->core = &sim->caller.core;
    explore_assert(port_core_acquire(sim, sim->sched.worker[0], PTO_CORE_AIC));
}

static void stuck_thread(int id)
{
    sim_thread(id, build_stuck);
}

int main(int argc, char **argv)
{
    static const struct scenario list[] = {
        { { "lanes", 4, setup_lanes, lanes_thread, check_ran },
          "R20 A20",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 7500, .random_count = 10000 } },
        { { "lanes, all cores", 6, setup_all_cores, all_cores_thread, check_ran },
          "",
          { .preemption_max = 0, .delay_max = 0, .execution_max = 3750, .random_count = 5000 } },
        { { "team, contended", 5, setup_contended, contended_thread, check_ran },
          "",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 5000, .random_count = 10000 } },
        { { "team, sleeper", 5, setup_sleeper, sleeper_thread, check_ran },
          "F1",
          { .preemption_max = 1, .delay_max = 1, .execution_max = 7500, .random_count = 20000 } },
        { { "team, parked", 5, setup_parked, parked_thread, check_ran },
          "F1",
          { .preemption_max = 1, .delay_max = 1, .execution_max = 7500, .random_count = 10000 } },
        { { "team, stopped", 5, setup_stopped, stopped_thread, check_ran },
          "",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 5000, .random_count = 10000 } },
        { { "team, stuck", 5, setup_stuck, stuck_thread, check_ran },
          "",
          { .preemption_max = 0, .delay_max = 0, .execution_max = 2500, .random_count = 5000 } },
    };

    return scenario_main(argc, argv, list, sizeof(list) / sizeof(list[0]));
}

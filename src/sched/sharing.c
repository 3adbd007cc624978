/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the tasks of a run are shared: functions that are called during a run first, then
 * the choice between sharing and running alone, with the costs that it is based on.
 */
#include "sched/sharing.h"

static bool is_stepwise(const struct sharing *sh, const struct worker *w);
static void end_cycle(struct sharing *sh, struct worker *w, uint64_t now_ns);
static void set_room(struct sharing *sh, const struct worker *w);

/* ---- a run ---- */

void sharing_begin(struct sharing *sh, struct worker *w, const struct sharing_run *run)
{
    uint32_t workers = w->sched->worker_count;
    const struct image *image = run->image;

    *sh = (struct sharing){ .run = *run,
                            .has_others = workers > 1,
                            .live_max = run->live_max != 0 ? run->live_max
                                        : workers > 1      ? workers * SHARING_LIVE_PER_WORKER
                                                           : SHARING_LIVE_ALONE,
                            .room_wait_ns = SHARING_ROOM_WAIT_NS,
                            .task_ns = SHARING_NS_UNKNOWN,
                            .cycle.seq = 1 };
    sh->room_at = run->is_held ? UINT32_MAX : sh->live_max;
    sh->check_at = run->is_held || workers == 1 ? UINT32_MAX : SHARING_CYCLE;
    /*
     * An image with teams is shared from the start, because other threads complete its teams. A
     * launch of a single task has nothing to share.
     */
    sh->is_alone = image != NULL && !image->has_teams &&
                   (image->task_count == 1 || run->launches->way == WAY_ALONE);
    sharing_choice_start(&sh->choice, workers > 1 ? WAY_SHARED : WAY_ALONE);
    /*
     * Whether ready tasks stay with this worker: nothing may run before the graph is complete, or
     * there is no other worker.
     */
    w->is_offering = workers > 1 && (image != NULL ? !sh->is_alone : !run->is_held);
}

bool sharing_launch_begins(struct sharing *sh, uint64_t now_ns)
{
    sh->cycle.begin_ns = now_ns;
    return sh->is_alone;
}

void sharing_launch_ends(struct sharing *sh, uint64_t now_ns)
{
    sharing_choice_launch(sh->run.launches, sh->run.image->task_count, now_ns - sh->cycle.begin_ns,
                          sh->task_ns);
}

/* ---- the builder ---- */

/*
 * Called when the builder has stopped to run tasks. With fewer live tasks than the limit, it only
 * stopped to time tasks, or because of a hint.
 */
void sharing_builder_stops(struct sharing *sh, struct worker *w)
{
    if (a32_load_relaxed(&w->sched->short_hint) == HINT_GIVEN) { /* only a hint */
        w->is_offering = !sharing_choice_hint(&sh->choice) && w->is_offering;
        sh->is_hint_taken = true;
        a32_store_relaxed(&w->sched->short_hint, HINT_TAKEN);
    }
    /* if tasks are not offered, the builder also runs them when it only stopped to time them */
    sh->is_check = w->graph->live < sh->room_at && w->is_offering;
}

/*
 * Whether the builder may continue. It may if no task is live, or if it only stopped to time tasks.
 * Otherwise at most half of the allowed live tasks may be live, and the submitter's worker must
 * have no ready task. If tasks are offered, ready ones may remain; in a run that is built in steps
 * (is_stepwise) only while few tasks are live.
 */
bool sharing_has_room(const struct sharing *sh, const struct worker *w)
{
    uint32_t live = w->graph->live;

    if (sh->is_check || live == 0)
        return true;
    if (live > sh->live_max / 2)
        return false;
    return sched_ready_count(w) == 0 ||
           (w->is_offering && (!is_stepwise(sh, w) || live <= SHARING_LIVE_FEW));
}

void sharing_builder_resumes(struct sharing *sh, struct worker *w, uint64_t now_ns)
{
    bool was_check = sh->is_check;

    sh->is_check = false;
    if (sharing_has_room(sh, w))
        sh->vain_since_ns = 0;
    if (sh->has_others) {
        const struct graph *g = w->graph;

        end_cycle(sh, w, now_ns);
        sh->cycle.begin_ns = now_ns;
        sh->cycle.seq = g->seq;
        sh->cycle.live = g->live;
        sh->cycle.joins = g->join_total;
        sh->cycle.executed = sched_executed(w);
        sh->cycle.edges = g->edge_total;
        /* also stop to time tasks, because fast workers may always leave room */
        sh->check_at = g->seq + SHARING_CYCLE;
    }
    if (!was_check || !w->is_offering)
        set_room(sh, w);
}

void sharing_builder_waited(struct sharing *sh)
{
    sh->cycle.begin_ns = 0;
}

void sharing_builder_is_done(struct sharing *sh, struct worker *w)
{
    sh->room_at = UINT32_MAX;
    w->is_offering = w->is_offering || (sh->run.is_held && sh->run.image == NULL && sh->has_others);
}

/*
 * Whether the builder builds few tasks at a time. It does if tasks have edges and are so short that
 * edges to tasks that other workers run cost a notable share of their time: the predecessors then
 * complete before the next tasks are built, so that there are few edges.
 */
static bool is_stepwise(const struct sharing *sh, const struct worker *w)
{
    return sh->run.live_max == 0 && sh->task_ns < SHARING_NS_STEPWISE &&
           w->sched->worker_count <= SHARING_WORKERS_FEW && w->graph->seq < sh->stepwise_until;
}

/*
 * Remembers that the tasks of this cycle have edges. Tasks that are built in steps have none,
 * because their predecessors are complete, so the result is kept for SHARING_EDGES_TASKS tasks.
 */
static void judge_edges(struct sharing *sh, const struct graph *g)
{
    if ((g->edge_total - sh->cycle.edges) * SHARING_EDGES_FEW > g->seq - sh->cycle.seq)
        sh->stepwise_until = g->seq + SHARING_EDGES_TASKS;
}

static void end_cycle(struct sharing *sh, struct worker *w, uint64_t now_ns)
{
    const struct graph *g = w->graph;
    uint64_t tasks = (uint64_t)(g->seq - sh->cycle.seq) + (g->join_total - sh->cycle.joins) +
                     sh->cycle.live - g->live;
    uint64_t own = sched_executed(w) - sh->cycle.executed;

    judge_edges(sh, g);
    if (sh->cycle.begin_ns == 0)
        return;
    sharing_choice_cycle(&sh->choice,
                         &(struct sharing_cycle){ .tasks = tasks,
                                                  .others = tasks > own ? tasks - own : 0,
                                                  .ns = now_ns - sh->cycle.begin_ns,
                                                  .run_ns = sh->task_ns,
                                                  .is_long = sh->long_samples > 1 });
    w->is_offering = sh->choice.way == WAY_SHARED;
    if (sh->is_hint_taken && sh->choice.total >= sh->choice.hint_at) {
        sh->is_hint_taken = false;
        a32_store_relaxed(&w->sched->short_hint, HINT_NONE); /* only a hint */
    }
}

/*
 * Sets the number of live tasks at which the builder stops next. If it waited for room and no slot
 * came back for a while, the builder continues without room, because running kernels may wait for a
 * task that is not submitted yet. Each time the wait and the number of tasks that follow double, so
 * that a builder that is only faster than the kernels does not use up the memory.
 */
static void set_room(struct sharing *sh, const struct worker *w)
{
    uint32_t live = w->graph->live;

    if (sharing_has_room(sh, w)) {
        bool is_step = sh->live_max > SHARING_LIVE_ALONE && (!w->is_offering || is_stepwise(sh, w));

        sh->room_at = is_step ? live + SHARING_LIVE_ALONE : sh->live_max;
        sh->room_wait_ns = SHARING_ROOM_WAIT_NS;
    } else {
        sh->room_at = live + (live > sh->live_max ? live : sh->live_max);
        if (sh->room_wait_ns < SHARING_ROOM_WAIT_NS_MAX)
            sh->room_wait_ns *= 2;
    }
}

/* ---- how long tasks take ---- */

/* Time per task since the sample's start, including the runtime's own work; 0: too few tasks. */
static uint64_t take_sample(struct sharing_sample *sample, const struct worker *w, uint64_t now_ns)
{
    uint64_t count = sched_executed(w) - sample->executed;
    uint64_t begin_ns = sample->begin_ns;

    /* the worker ran nothing: it waited for tasks of others, so ignore that time */
    if (count == 0)
        sharing_sample_start(sample, w, now_ns);
    if (count < SHARING_SAMPLE / 2)
        return 0;
    sharing_sample_start(sample, w, now_ns);
    return (now_ns - begin_ns) / count + 1;
}

/*
 * Looks at the time per task after a round of tasks. While the graph is built, struct
 * sharing_choice decides, unless tasks are long. The thread may have been interrupted during a
 * sample, so one that is only slightly too long needs a second one to confirm it.
 */
void sharing_round_ends(struct sharing *sh, struct worker *w, struct sharing_sample *sample,
                        uint64_t now_ns)
{
    uint64_t task_ns = take_sample(sample, w, now_ns);
    bool is_launch = sh->run.image != NULL;
    uint64_t long_ns = is_launch ? SHARING_NS_LONG_LAUNCH : SHARING_NS_LONG;

    if (task_ns == 0)
        return;
    sh->task_ns = task_ns;
    sh->long_samples = task_ns > long_ns ? sh->long_samples + 1 : 0;
    if (sh->long_samples > 1 || task_ns > 10 * long_ns) {
        w->is_offering = true;
        if (is_launch)
            sched_share(w);
        a32_store_relaxed(&w->sched->short_hint, HINT_NONE); /* only a hint */
    } else if (is_launch) {
        w->is_offering = false;
    }
}

/*
 * Hints to the submitter that this worker's tasks take less time than handing them over. The
 * submitter then measures how long tasks take if it runs them alone.
 */
void sharing_other_timed(struct worker *w, struct sharing_sample *sample, uint64_t now_ns)
{
    uint64_t task_ns = take_sample(sample, w, now_ns);

    if (task_ns != 0 && task_ns < SHARING_NS_HINT &&
        a32_load_relaxed(&w->sched->short_hint) == HINT_NONE)
        a32_store_relaxed(&w->sched->short_hint, HINT_GIVEN); /* only a hint */
}

/*
 * Number of tasks that the submitter runs between two checks. If it runs all tasks itself, it
 * checks more often, in case they get longer.
 */
uint32_t sharing_tasks_at_once(const struct sharing *sh, const struct worker *w)
{
    uint64_t count;

    if (!sh->has_others || w->is_offering)
        return SHARING_ROUND;
    count = SHARING_SAMPLE * SHARING_NS_HINT / sh->task_ns;
    return count < SHARING_SAMPLE      ? SHARING_SAMPLE
           : count < SHARING_ROUND_MAX ? (uint32_t)count
                                       : SHARING_ROUND_MAX;
}

/* ---- the choice ---- */

void sharing_choice_start(struct sharing_choice *c, enum sharing_way way)
{
    *c = (struct sharing_choice){ .way = way,
                                  .last_run_ns = SHARING_NS_UNKNOWN,
                                  .run_ns = SHARING_NS_UNKNOWN,
                                  .try_at = SHARING_TRY_FIRST,
                                  .try_step = SHARING_TRY_FIRST };
}

static void go_way(struct sharing_choice *c, enum sharing_way way)
{
    c->is_new = c->way != way;
    c->wake_tasks = c->is_new && way == WAY_SHARED ? SHARING_WAKE_TASKS : 0;
    c->way = way;
    c->tasks = c->ns = 0;
}

/*
 * Updates a measured cost: it falls at once and rises slowly, because an interruption of the thread
 * makes a measurement too high.
 */
static void settle_cost(uint64_t *cost, uint64_t now)
{
    uint64_t most = *cost + *cost / 16;

    *cost = *cost == 0 || now < most ? now : most;
}

/* Cost of a task if the submitter runs all tasks alone, in 1/16 ns. */
static uint64_t cost_alone(const struct sharing_choice *c)
{
    return 16 * c->run_ns + (c->build != 0 ? c->build : 16 * SHARING_NS_BUILD);
}

static enum sharing_way choose_way(struct sharing_choice *c)
{
    /* ignore the first tasks after the switch: other workers may have to wake up */
    if (c->way == WAY_SHARED)
        /* mutation: stubborn-sharing */
        return c->total >= SHARING_TRY_FIRST && cost_alone(c) < c->cost[WAY_SHARED] ? WAY_ALONE
                                                                                    : WAY_SHARED;
    if (c->run_ns < SHARING_NS_RETRY_MIN)
        return WAY_ALONE;
    if (c->total < c->try_at)
        return c->cost[WAY_SHARED] != 0 && c->cost[WAY_SHARED] < c->cost[WAY_ALONE] ? WAY_SHARED
                                                                                    : WAY_ALONE;
    c->try_at = c->total + c->try_step;
    c->try_step = 4 * c->try_step < SHARING_TRY_MAX ? 4 * c->try_step : SHARING_TRY_MAX;
    return WAY_SHARED;
}

void sharing_choice_cycle(struct sharing_choice *c, const struct sharing_cycle *cycle)
{
    uint64_t cost;

    c->total += cycle->tasks;
    c->run_ns = cycle->run_ns < c->last_run_ns ? cycle->run_ns : c->last_run_ns;
    c->last_run_ns = cycle->run_ns;
    if (cycle->is_long) {
        go_way(c, WAY_SHARED);
        return;
    }
    if (c->wake_tasks > cycle->tasks && cycle->others == 0) {
        c->wake_tasks -= cycle->tasks;
        return;
    }
    c->wake_tasks = 0;
    if (c->is_new) {
        c->is_new = false;
        return;
    }
    c->tasks += cycle->tasks;
    c->ns += cycle->ns;
    if (c->tasks < SHARING_TIMED)
        return;
    cost = 16 * c->ns / c->tasks;
    settle_cost(&c->cost[c->way], cost);
    if (c->way == WAY_ALONE && cost > 16 * c->run_ns)
        settle_cost(&c->build, cost - 16 * c->run_ns);
    go_way(c, choose_way(c));
}

void sharing_choice_launch(struct sharing_choice *c, uint64_t tasks, uint64_t ns, uint64_t run_ns)
{
    enum sharing_way other = c->way == WAY_SHARED ? WAY_ALONE : WAY_SHARED;

    if (run_ns == SHARING_NS_UNKNOWN ? ns > tasks * SHARING_NS_LONG_WHOLE
                                     : run_ns > SHARING_NS_LONG) {
        go_way(c, WAY_SHARED);
        return;
    }
    c->tasks += tasks;
    c->ns += ns;
    if (c->tasks < SHARING_TIMED)
        return;
    settle_cost(&c->cost[c->way], 16 * c->ns / c->tasks);
    c->total++;
    if (c->cost[other] == 0 || c->total >= c->try_at) {
        c->try_step = c->cost[other] == 0                      ? 4
                      : 4 * c->try_step < SHARING_TRY_LAUNCHES ? 4 * c->try_step
                                                               : SHARING_TRY_LAUNCHES;
        c->try_at = c->total + c->try_step;
        go_way(c, other);
    } else {
        go_way(c, c->cost[other] < c->cost[c->way] ? other : c->way);
    }
}

bool sharing_choice_hint(struct sharing_choice *c)
{
    bool is_early = c->hint_at != 0 && c->total < c->hint_at;
    bool is_worse = c->cost[WAY_SHARED] != 0 && cost_alone(c) >= c->cost[WAY_SHARED];

    if (c->way == WAY_ALONE || is_early || is_worse)
        return false;
    c->hint_at = c->total + SHARING_HINT_TASKS;
    go_way(c, WAY_ALONE);
    return true;
}

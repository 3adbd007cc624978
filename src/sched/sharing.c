/* SPDX-License-Identifier: Apache-2.0 */
/* Alone or shared: first what happens in a run, then the choice and what it rests on. */
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
                            .patience_ns = SHARING_PATIENCE_NS,
                            .task_ns = SHARING_NS_UNKNOWN,
                            .cycle.seq = 1 };
    sh->room_at = run->is_held ? UINT32_MAX : sh->live_max;
    sh->check_at = run->is_held || workers == 1 ? UINT32_MAX : SHARING_CYCLE;
    /* A team's kernels end on other threads, which complete it. A single task has nothing to share. */
    sh->is_alone = image != NULL && !image->has_teams &&
                   (image->task_count == 1 || run->launches->way == WAY_ALONE);
    sharing_choice_start(&sh->choice, workers > 1 ? WAY_SHARED : WAY_ALONE);
    /* What is ready stays here until the graph is complete, or if there is nobody else. */
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

/* If there is room left, it came to see what tasks take, or because of a hint. */
void sharing_builder_stops(struct sharing *sh, struct worker *w)
{
    if (a32_load_relaxed(&w->sched->short_hint) == HINT_GIVEN) { /* a hint */
        w->is_offering = !sharing_choice_hint(&sh->choice) && w->is_offering;
        sh->is_hint_taken = true;
        a32_store_relaxed(&w->sched->short_hint, HINT_TAKEN);
    }
    /* Where tasks are not offered the submitter is to run them itself from now on. */
    sh->is_check = w->graph->live < sh->room_at && w->is_offering;
}

/*
 * Half of what may be alive is free. Where tasks are not offered all of them are
 * run first, but those that others still have are not waited for; in steps, nearly
 * all.
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

void sharing_builder_goes_on(struct sharing *sh, struct worker *w, uint64_t now_ns)
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
        sh->check_at = g->seq + SHARING_CYCLE; /* others may keep up: there is always room */
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
 * Tasks that are worth offering, but not much longer than what their edges cost
 * between workers: those before them are run first, so that there are few edges.
 */
static bool is_stepwise(const struct sharing *sh, const struct worker *w)
{
    return sh->run.live_max == 0 && sh->task_ns < SHARING_NS_STEPWISE &&
           w->sched->worker_count <= SHARING_WORKERS_FEW && w->graph->seq < sh->stepwise_until;
}

/*
 * Tasks of a step have no edges: what is before them has gone. So they are believed
 * to have some for as long as it does not pay to look again.
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
        a32_store_relaxed(&w->sched->short_hint, HINT_NONE); /* a hint */
    }
}

/*
 * When no slot came back for a while although there was no room, more is built
 * nevertheless: what is being waited for may not have been submitted yet. The while
 * doubles each time, as what is built does, so that a builder that is merely faster
 * than the kernels does not run away.
 */
static void set_room(struct sharing *sh, const struct worker *w)
{
    uint32_t live = w->graph->live;

    if (sharing_has_room(sh, w)) {
        bool is_step = sh->live_max > SHARING_LIVE_ALONE && (!w->is_offering || is_stepwise(sh, w));

        sh->room_at = is_step ? live + SHARING_LIVE_ALONE : sh->live_max;
        sh->patience_ns = SHARING_PATIENCE_NS;
    } else {
        sh->room_at = live + (live > sh->live_max ? live : sh->live_max);
        if (sh->patience_ns < SHARING_PATIENCE_NS_MAX)
            sh->patience_ns *= 2;
    }
}

/* ---- how long tasks take ---- */

/* What a task took since the start, with what the runtime needs for it; 0: there were too few. */
static uint64_t take_sample(struct sharing_sample *sample, const struct worker *w, uint64_t now_ns)
{
    uint64_t count = sched_executed(w) - sample->executed;
    uint64_t begin_ns = sample->begin_ns;

    if (count == 0) /* what it waits for takes no time of theirs */
        sharing_sample_start(sample, w, now_ns);
    if (count < SHARING_SAMPLE / 2)
        return 0;
    sharing_sample_start(sample, w, now_ns);
    return (now_ns - begin_ns) / count + 1;
}

/*
 * While the graph is built the choice decides, unless tasks are long. A sample may
 * have been interrupted, so one that is a little too long is taken again.
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
        a32_store_relaxed(&w->sched->short_hint, HINT_NONE); /* a hint */
    } else if (is_launch) {
        w->is_offering = false;
    }
}

/* The submitter tries then what tasks take alone. */
void sharing_other_timed(struct worker *w, struct sharing_sample *sample, uint64_t now_ns)
{
    uint64_t task_ns = take_sample(sample, w, now_ns);

    if (task_ns != 0 && task_ns < SHARING_NS_HINT &&
        a32_load_relaxed(&w->sched->short_hint) == HINT_NONE)
        a32_store_relaxed(&w->sched->short_hint, HINT_GIVEN); /* a hint */
}

/* One that keeps tasks for itself looks sooner whether they got longer. */
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

/* A cost falls at once and rises slowly: the thread may have been interrupted, often for long. */
static void settle_cost(uint64_t *cost, uint64_t now)
{
    uint64_t most = *cost + *cost / 16;

    *cost = *cost == 0 || now < most ? now : most;
}

/* What a task would take alone. */
static uint64_t cost_alone(const struct sharing_choice *c)
{
    return 16 * c->run_ns + (c->build != 0 ? c->build : 16 * SHARING_NS_BUILD);
}

static enum sharing_way choose_way(struct sharing_choice *c)
{
    if (c->way == WAY_SHARED) /* workers may have to wake up first */
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

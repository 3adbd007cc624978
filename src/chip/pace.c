/* SPDX-License-Identifier: Apache-2.0 */
#include "chip/pace.h"

void pace_start(struct pace *p, enum pace_way way)
{
    *p = (struct pace){ .way = way,
                        .last_run_ns = PACE_UNKNOWN,
                        .run_ns = PACE_UNKNOWN,
                        .try_at = PACE_TRY_FIRST,
                        .try_step = PACE_TRY_FIRST };
}

static void go(struct pace *p, enum pace_way way)
{
    p->is_new = p->way != way;
    p->wake_tasks = p->is_new && way == PACE_SHARED ? PACE_WAKE_TASKS : 0;
    p->way = way;
    p->tasks = p->ns = 0;
}

/* A cost falls at once and rises slowly: the thread may have been interrupted, often for long. */
static void settle(uint64_t *cost, uint64_t now)
{
    uint64_t most = *cost + *cost / 16;

    *cost = *cost == 0 || now < most ? now : most;
}

/* What a task would take alone. */
static uint64_t cost_alone(const struct pace *p)
{
    return 16 * p->run_ns + (p->build != 0 ? p->build : 16 * PACE_BUILD_NS);
}

static enum pace_way choose(struct pace *p)
{
    if (p->way == PACE_SHARED) /* workers may have to wake up first */
        return p->total >= PACE_TRY_FIRST && cost_alone(p) < p->cost[PACE_SHARED] ? PACE_ALONE
                                                                                  : PACE_SHARED;
    if (p->run_ns < PACE_RUN_NS_LEAST)
        return PACE_ALONE;
    if (p->total < p->try_at)
        return p->cost[PACE_SHARED] != 0 && p->cost[PACE_SHARED] < p->cost[PACE_ALONE] ? PACE_SHARED
                                                                                       : PACE_ALONE;
    p->try_at = p->total + p->try_step;
    p->try_step = 4 * p->try_step < PACE_TRY_MAX ? 4 * p->try_step : PACE_TRY_MAX;
    return PACE_SHARED;
}

void pace_note(struct pace *p, uint64_t tasks, uint64_t others, uint64_t ns, uint64_t run_ns,
               bool is_long)
{
    uint64_t cost;

    p->total += tasks;
    p->run_ns = run_ns < p->last_run_ns ? run_ns : p->last_run_ns;
    p->last_run_ns = run_ns;
    if (is_long) {
        go(p, PACE_SHARED);
        return;
    }
    if (p->wake_tasks > tasks && others == 0) {
        p->wake_tasks -= tasks;
        return;
    }
    p->wake_tasks = 0;
    if (p->is_new) {
        p->is_new = false;
        return;
    }
    p->tasks += tasks;
    p->ns += ns;
    if (p->tasks < PACE_TASKS)
        return;
    cost = 16 * p->ns / p->tasks;
    settle(&p->cost[p->way], cost);
    if (p->way == PACE_ALONE && cost > 16 * p->run_ns)
        settle(&p->build, cost - 16 * p->run_ns);
    go(p, choose(p));
}

void pace_launched(struct pace *p, uint64_t tasks, uint64_t ns, uint64_t run_ns)
{
    enum pace_way other = p->way == PACE_SHARED ? PACE_ALONE : PACE_SHARED;

    if (run_ns == PACE_UNKNOWN ? ns > tasks * PACE_LAUNCH_NS_LONG : run_ns > PACE_RUN_NS_LONG) {
        go(p, PACE_SHARED);
        return;
    }
    p->tasks += tasks;
    p->ns += ns;
    if (p->tasks < PACE_TASKS)
        return;
    settle(&p->cost[p->way], 16 * p->ns / p->tasks);
    p->total++;
    if (p->cost[other] == 0 || p->total >= p->try_at) {
        p->try_step = p->cost[other] == 0                   ? 4
                      : 4 * p->try_step < PACE_TRY_LAUNCHES ? 4 * p->try_step
                                                            : PACE_TRY_LAUNCHES;
        p->try_at = p->total + p->try_step;
        go(p, other);
    } else {
        go(p, p->cost[other] < p->cost[p->way] ? other : p->way);
    }
}

bool pace_hint(struct pace *p)
{
    bool is_early = p->hint_at != 0 && p->total < p->hint_at;
    bool is_worse = p->cost[PACE_SHARED] != 0 && cost_alone(p) >= p->cost[PACE_SHARED];

    if (p->way == PACE_ALONE || is_early || is_worse)
        return false;
    p->hint_at = p->total + PACE_HINT_TASKS;
    go(p, PACE_ALONE);
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the submitter shares its tasks with other workers or runs them alone. The whole
 * policy is here: its numbers below, its decisions in sharing.c. To change the policy, replace
 * these two files. Pure: there is no clock; callers pass times.
 *
 * The cost of a hand-over depends on the tasks, their edges and the distance of the CPUs, so it is
 * measured: tasks are shared and timed, and if the submitter would be faster alone, it runs them
 * alone. The cost of a task alone is the time to build and to run it. While the submitter is alone,
 * sharing is tried again at growing intervals.
 *
 *     measured   cycle   from one time the builder resumes to the next: tasks built, tasks
 *                        run by each worker, and the time
 *                sample  rounds of a worker: its time to run a task
 *                launch  of a built graph, as a whole
 *     decided    worker->is_offering   whether the submitter offers tasks to others
 *                room_at, check_at     when the builder stops
 *                has_room              when it resumes; with short tasks that have
 *                                      edges it goes in steps of a few
 *                tasks_at_once         how many the submitter runs before it checks
 *
 * Who calls what, in the order of a run:
 *
 *     machine        sharing_begin           after sched_start
 *                    sharing_launch_begins   a built graph instead of a builder
 *     orchestration  sharing_wants_builder   before a submit: stop and run tasks?
 *                    sharing_quota           submits until it is called again
 *     machine        sharing_builder_stops   it stopped for room
 *                    sharing_has_room        while it runs tasks for it
 *                    sharing_tasks_at_once   before each round of tasks
 *                    sharing_round_ends      after it
 *                    sharing_builder_resumes
 *                    sharing_builder_waited  it had stopped for something else
 *                    sharing_builder_is_done no more tasks will come
 *                    sharing_launch_ends
 *     other workers  sharing_other_timed     after each of their rounds
 *
 * The submitter's thread calls all but the last, and struct sharing belongs to that thread. The
 * only word that threads share is sched->short_hint: other workers set the hint, the submitter
 * consumes it. Accesses are relaxed: no data depends on it, and a late or lost hint costs time
 * only.
 */
#ifndef PTO_SHARING_H
#define PTO_SHARING_H

#include "sched/sched.h"

enum {
    /* Times of tasks. */
    SHARING_NS_LONG = 1000, /* tasks that take longer are always shared */
    /* for a launched graph, in place of SHARING_NS_LONG */
    SHARING_NS_LONG_LAUNCH = 100,
    /*
     * a worker whose tasks take less time sets the hint, on which the submitter tries to run alone
     */
    SHARING_NS_HINT = 100,
    /* time per task below which sharing, once it proved slower, is not tried again */
    SHARING_NS_RETRY_MIN = 50,
    SHARING_NS_STEPWISE = 2000, /* tasks with edges that take less time are built in steps */
    SHARING_NS_BUILD = 25,      /* cost of building a task, until it is measured */
    /*
     * limit for the time of a launch per task: above it the launch is shared; used if no task was
     * timed
     */
    SHARING_NS_LONG_WHOLE = 4000,

    /* Lengths of measurements. */
    SHARING_SAMPLE = 16, /* tasks whose run is timed together */
    /* tasks of a cycle, after which the builder stops so that they are timed */
    SHARING_CYCLE = 512,
    SHARING_TIMED = 128, /* timed tasks from which the cost of a task is computed */
    /* tasks after a switch to sharing that are ignored while other workers wake up */
    SHARING_WAKE_TASKS = 2048,
    /* tasks until the other way (shared or alone) is tried; then four times as many, and so on */
    SHARING_TRY_FIRST = 1024,
    SHARING_TRY_MAX = 1 << 17, /* upper limit of the tasks until the other way is tried */
    /* the same limit for launches, in launches that were measured */
    SHARING_TRY_LAUNCHES = 1024,
    /* minimum number of tasks between two hints that the submitter follows */
    SHARING_HINT_TASKS = 4096,
    SHARING_EDGES_FEW = 8, /* a run has few edges if it has fewer than one for so many tasks */
    SHARING_EDGES_TASKS = 1 << 17, /* tasks for which the result of counting edges is kept */

    /* Numbers of tasks. */
    SHARING_ROUND = 64, /* tasks that a worker runs before it checks for anything else */
    /* in place of SHARING_ROUND for a submitter that runs alone, if tasks take almost no time */
    SHARING_ROUND_MAX = 256,
    /* live tasks per worker, above which the builder stops to run some */
    SHARING_LIVE_PER_WORKER = 256,
    /*
     * live tasks above which a lone submitter stops to run some: so many stay in the first-level
     * cache
     */
    SHARING_LIVE_ALONE = 64,
    SHARING_LIVE_FEW = 8,    /* live tasks that are left of a step when the next step is built */
    SHARING_WORKERS_FEW = 4, /* with more workers there are no steps */

    /* time without a finished slot, after which a builder that waits for room builds more tasks */
    SHARING_ROOM_WAIT_NS = 1000000,
    SHARING_ROOM_WAIT_NS_MAX = 1 << 30,
    /*
     * sharing_waits_in_vain is true after this time without room, in which the builder waits and
     * builds by turns
     */
    SHARING_VAIN_NS = 64 * SHARING_ROOM_WAIT_NS,
};

#define SHARING_NS_UNKNOWN UINT32_MAX /* value of a time per task: too few tasks were timed */

enum sharing_way { WAY_ALONE, WAY_SHARED, WAYS };

/*
 * The choice between sharing tasks and running them alone, with the measurements behind it. A run
 * that builds its graph makes its own choice; all launches of a built graph share one.
 */
struct sharing_choice {
    enum sharing_way way;
    bool is_new; /* the next measurement includes the switch to this way: ignore it */
    /* tasks to ignore, because other workers have run none since the switch; 0: they have */
    uint64_t wake_tasks;
    uint64_t cost[WAYS]; /* cost per task for each way, in 1/16 ns; 0: unknown */
    uint64_t build;      /* cost of building a task, in 1/16 ns; 0: unknown */
    uint64_t tasks;      /* tasks timed so far for the next value of `cost` */
    uint64_t ns;         /* time that these `tasks` took */
    uint64_t run_ns;     /* time to run one task: the lower of the latest two values */
    uint64_t last_run_ns;
    uint64_t total;  /* tasks of the run so far; for launches: costs measured so far */
    uint64_t try_at; /* value of `total` before which the other way is not tried */
    uint64_t try_step;
    uint64_t hint_at; /* value of `total` from which on the submitter follows the next hint */
};

/*
 * What was measured in one cycle: `tasks` completed in it, `others` of them on other workers, and
 * it took `ns`.
 */
struct sharing_cycle {
    uint64_t tasks;
    uint64_t others;
    uint64_t ns;
    uint64_t run_ns; /* average time of the tasks that the submitter ran */
    /* the submitter's tasks took longer than SHARING_NS_LONG in consecutive samples */
    bool is_long;
};

void sharing_choice_start(struct sharing_choice *c, enum sharing_way way);
void sharing_choice_cycle(struct sharing_choice *c, const struct sharing_cycle *cycle);
/*
 * Called when a launch of a built graph is over, during which the way (shared or alone) did not
 * change. The cost of the other way is not estimated: if it is unknown, the other way is tried.
 */
void sharing_choice_launch(struct sharing_choice *c, uint64_t tasks, uint64_t ns, uint64_t run_ns);
/*
 * Follows the hint that tasks may take less time than handing them over. Returns whether the
 * submitter runs them alone from now on.
 */
bool sharing_choice_hint(struct sharing_choice *c);

/* The properties of a run that the policy needs. */
struct sharing_run {
    uint32_t live_max; /* maximum of live tasks before some are run; 0: the policy decides */
    bool is_held;      /* nothing is run before the graph is complete */
    const struct image *image;       /* the image that is launched; NULL: the graph is built */
    struct sharing_choice *launches; /* the choice that all launches of the image share */
};

struct sharing {
    uint32_t room_at;  /* number of live tasks at which the builder stops */
    uint32_t check_at; /* task number at which the builder also stops, for a measurement */
    bool has_others;   /* there are several workers */
    bool is_check;     /* the builder stopped only for a measurement */
    bool is_alone;     /* the launch starts with the submitter as only worker */
    bool is_hint_taken;
    uint32_t long_samples; /* how many samples in a row had long tasks */
    uint32_t live_max;
    uint32_t stepwise_until; /* few tasks are built at a time until the task with this number */
    uint64_t room_wait_ns;   /* maximum time that the builder waits for room */
    uint64_t vain_since_ns;  /* when the builder began to wait for room; 0: it got room since */
    uint64_t task_ns;        /* the submitter's time per task in its latest sample */
    struct sharing_run run;
    struct sharing_choice choice;
    struct {               /* the current cycle */
        uint64_t begin_ns; /* when the cycle began; 0: the cycle is not measured */
        uint32_t seq;      /* number of the next task when the cycle began */
        uint32_t live;     /* live tasks when the cycle began */
        uint64_t executed; /* tasks that the submitter had run when the cycle began */
        uint64_t edges;    /* edges of the graph when the cycle began */
        uint32_t joins;    /* joins of the graph when the cycle began */
    } cycle;
};

/* State at the start of a worker's sample: the time, and the number of tasks that it had run. */
struct sharing_sample {
    uint64_t begin_ns;
    uint64_t executed;
};

/* `w` is the submitter's worker here and below. */
void sharing_begin(struct sharing *sh, struct worker *w, const struct sharing_run *run);
/* Called when a launch starts. Returns whether only the submitter gets its tasks at first. */
bool sharing_launch_begins(struct sharing *sh, uint64_t now_ns);

/* Called before a submit. Whether the builder must stop now, so that its thread runs tasks. */
static inline bool sharing_wants_builder(const struct sharing *sh, const struct worker *w)
{
    return w->graph->live >= sh->room_at || w->graph->seq >= sh->check_at ||
           (w->is_offering && a32_load_relaxed(&w->sched->short_hint) == HINT_GIVEN); /* a hint */
}

/* Number of submits until the builder has to check again and to take back finished slots. */
static inline uint32_t sharing_quota(const struct sharing *sh, const struct worker *w)
{
    const struct graph *g = w->graph;
    uint32_t quota = g->live < sh->room_at ? sh->room_at - g->live : 0;

    return sh->has_others && quota > SCHED_BATCH && (g->is_shared || w->is_offering) ? SCHED_BATCH
                                                                                     : quota;
}

/* Called when the builder starts to wait for room because no finished task has made any. */
static inline void sharing_builder_pauses(struct sharing *sh, uint64_t now_ns)
{
    if (sh->vain_since_ns == 0)
        sh->vain_since_ns = now_ns;
}

/* Whether the builder has waited for room for too long without getting any. */
static inline bool sharing_waits_in_vain(const struct sharing *sh, uint64_t now_ns)
{
    return sh->vain_since_ns != 0 && now_ns - sh->vain_since_ns >= SHARING_VAIN_NS;
}

void sharing_builder_stops(struct sharing *sh, struct worker *w);
bool sharing_has_room(const struct sharing *sh, const struct worker *w);
/*
 * Called when the builder continues: there is room, or there was none for longer than room_wait_ns.
 */
void sharing_builder_resumes(struct sharing *sh, struct worker *w, uint64_t now_ns);
/*
 * Called when the builder has waited for something other than room: that time is not counted as
 * time of tasks.
 */
void sharing_builder_waited(struct sharing *sh);
void sharing_builder_is_done(struct sharing *sh, struct worker *w);

uint32_t sharing_tasks_at_once(const struct sharing *sh, const struct worker *w);

static inline void sharing_sample_start(struct sharing_sample *sample, const struct worker *w,
                                        uint64_t now_ns)
{
    *sample = (struct sharing_sample){ now_ns, sched_executed(w) };
}

/* Whether the next sharing_round_ends or sharing_other_timed needs the current time. */
static inline bool sharing_sample_is_due(const struct sharing_sample *sample,
                                         const struct worker *w)
{
    uint64_t count = sched_executed(w) - sample->executed;

    /* if no task ran, the time of the sample is discarded */
    return count == 0 || count >= SHARING_SAMPLE / 2;
}

void sharing_round_ends(struct sharing *sh, struct worker *w, struct sharing_sample *sample,
                        uint64_t now_ns);
/* Called by each worker except the submitter's, on its own thread. */
void sharing_other_timed(struct worker *w, struct sharing_sample *sample, uint64_t now_ns);

/* Whether the launch is timed, so that sharing_launch_ends must be called. */
static inline bool sharing_times_launch(const struct sharing *sh)
{
    return sh->has_others && sh->run.image != NULL && !sh->run.image->has_teams;
}

void sharing_launch_ends(struct sharing *sh, uint64_t now_ns);

#endif

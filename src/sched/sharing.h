/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does the submitter share its tasks with other workers, or run them alone? The
 * whole policy is here: its numbers below, its decisions in sharing.c. Whoever
 * wants another one replaces these two files. Pure: no clock; times are told.
 *
 * What a hand-over costs depends on the tasks, their edges and how far apart the
 * CPUs are, so it is not computed: tasks are shared and timed, and if the submitter
 * would be faster alone, it is. What a task takes alone is what it takes to build
 * and to run it. While it is alone sharing is tried again from time to time, less
 * and less often.
 *
 *     measured   cycle   from when the builder goes on to when it goes on the next time:
 *                        so many tasks built, as many run, by whom, in what time
 *                sample  rounds of a worker: what a task takes it to run
 *                launch  of a built graph, as a whole
 *     decided    worker->is_offering   whether the submitter offers tasks to others
 *                room_at, check_at     when the builder stops
 *                has_room              when it goes on; with short tasks that have
 *                                      edges it goes in steps of a few
 *                tasks_at_once         how many the submitter runs before it looks up
 *
 * Who calls what, in the order of a run:
 *
 *     machine        sharing_begin           after sched_start
 *                    sharing_launch_begins   a built graph instead of a builder
 *     orchestration  sharing_wants_builder   before a submit: stop and run tasks?
 *                    sharing_quota           submits until that is asked again
 *     machine        sharing_builder_stops   it stopped for room
 *                    sharing_has_room        while it runs tasks for it
 *                    sharing_tasks_at_once   before each round of tasks
 *                    sharing_round_ends      after it
 *                    sharing_builder_goes_on
 *                    sharing_builder_waited  it had stopped for something else
 *                    sharing_builder_is_done no more tasks will come
 *                    sharing_launch_ends
 *     other workers  sharing_other_timed     after each of their rounds
 *
 * All but the last are called by the submitter's thread, and struct sharing is
 * that thread's alone. The one word that threads share is sched->short_hint:
 * other workers give the hint, the submitter takes it. It is read and written relaxed:
 * nothing is read because of it, and one that is late or lost costs time only.
 */
#ifndef PTO_SHARING_H
#define PTO_SHARING_H

#include "sched/sched.h"

enum {
    /* What tasks take. */
    SHARING_NS_LONG = 1000,       /* of a task: it is always shared */
    SHARING_NS_LONG_LAUNCH = 100, /* the same while a built graph is launched: it has no builder */
    SHARING_NS_HINT = 100,        /* other workers hint at shorter ones */
    SHARING_NS_RETRY_MIN = 50,    /* for shorter ones sharing is not even tried again */
    SHARING_NS_STEPWISE = 2000,   /* shorter ones with edges are built in steps */
    SHARING_NS_BUILD = 25,        /* what one takes beside its run, until it is known */
    SHARING_NS_LONG_WHOLE = 4000, /* of a launch, by task: shared, where only this is known */

    /* How much is measured. */
    SHARING_SAMPLE = 16,           /* tasks that are timed at once, when they are run */
    SHARING_CYCLE = 512,           /* tasks before the builder stops to be timed */
    SHARING_TIMED = 128,           /* tasks of cycles, or of launches, that make a cost */
    SHARING_WAKE_TASKS = 2048,     /* until others have begun, who may have to wake up first */
    SHARING_TRY_FIRST = 1024,      /* tasks until the other way is tried; it grows fourfold */
    SHARING_TRY_MAX = 1 << 17,     /* up to this */
    SHARING_TRY_LAUNCHES = 1024,   /* the same in costs of launches, at most */
    SHARING_HINT_TASKS = 4096,     /* between two hints that are followed */
    SHARING_EDGES_FEW = 8,         /* fewer than one edge for so many tasks is few */
    SHARING_EDGES_TASKS = 1 << 17, /* until it is asked again whether there are more */

    /* How many tasks. */
    SHARING_ROUND = 64,            /* run before a look at everything else */
    SHARING_ROUND_MAX = 256,       /* the same alone, where they take next to nothing */
    SHARING_LIVE_PER_WORKER = 256, /* alive before some are run */
    SHARING_LIVE_ALONE = 64,       /* the same alone: they stay in the first-level cache */
    SHARING_LIVE_FEW = 8,          /* left of a step when the next one is built */
    SHARING_WORKERS_FEW = 4,       /* with more there are no steps */

    SHARING_PATIENCE_NS = 1000000, /* without a slot coming back before more are built anyway */
    SHARING_PATIENCE_NS_MAX = 1 << 30,
    SHARING_VAIN_NS =
        64 * SHARING_PATIENCE_NS, /* without room, waits and what is built in between */
};

#define SHARING_NS_UNKNOWN UINT32_MAX /* what a task takes, where too few were timed */

enum sharing_way { WAY_ALONE, WAY_SHARED, WAYS };

/*
 * The choice between the two ways, and what it rests on. A run that builds its
 * graph has one; one that launches a built graph uses that of the graph, which all
 * of its launches share.
 */
struct sharing_choice {
    enum sharing_way way;
    bool is_new;         /* what is over next began the other way, and tells nothing */
    uint64_t wake_tasks; /* nor do so many, unless others have begun before; 0: they have */
    uint64_t cost[WAYS]; /* of a task, in 1/16 ns; 0: not known */
    uint64_t build;      /* of that, alone, what is not its run; 0: not known */
    uint64_t tasks;      /* that are being timed */
    uint64_t ns;         /* what they took so far */
    uint64_t run_ns;     /* what one of them takes to run: the less of the last two told */
    uint64_t last_run_ns;
    uint64_t total;  /* tasks of the run, or costs of launches */
    uint64_t try_at; /* the same before which the other way is not tried */
    uint64_t try_step;
    uint64_t hint_at; /* the same from which on a hint is followed */
};

/* So many tasks were built and as many run, some of them by others. */
struct sharing_cycle {
    uint64_t tasks;
    uint64_t others;
    uint64_t ns;
    uint64_t run_ns; /* what one of those that the submitter ran took it */
    bool is_long;    /* more than once more than SHARING_NS_LONG */
};

void sharing_choice_start(struct sharing_choice *c, enum sharing_way way);
void sharing_choice_cycle(struct sharing_choice *c, const struct sharing_cycle *cycle);
/*
 * A launch of a built graph is over, all of which went one way. What it would take
 * the other way is not computed here: what is not known is tried.
 */
void sharing_choice_launch(struct sharing_choice *c, uint64_t tasks, uint64_t ns, uint64_t run_ns);
/* Tasks may be shorter than their hand-over. True: alone from now on. */
bool sharing_choice_hint(struct sharing_choice *c);

/* A run, as far as it matters here. */
struct sharing_run {
    uint32_t live_max;               /* alive before some are run; 0: as the policy thinks */
    bool is_held;                    /* nothing is run before the graph is complete */
    const struct image *image;       /* that is launched; NULL: the graph is built */
    struct sharing_choice *launches; /* of the image */
};

struct sharing {
    uint32_t room_at;  /* live tasks at which the builder is to stop */
    uint32_t check_at; /* task before which it is to do so, too, or soon after, to be timed */
    bool has_others;   /* there are several workers */
    bool is_check;     /* the builder stopped to be timed only */
    bool is_alone;     /* the launch is not shared, at first */
    bool is_hint_taken;
    uint32_t long_samples; /* in a row */
    uint32_t live_max;
    uint32_t stepwise_until; /* before this task, few are built at a time */
    uint64_t patience_ns;    /* how long the builder waits for room before it goes on anyway */
    uint64_t vain_since_ns;  /* when it began to wait for room that has not come; 0: it has */
    uint64_t task_ns;        /* what one took the submitter, when that was last measured */
    struct sharing_run run;
    struct sharing_choice choice;
    struct {               /* the cycle that is going on */
        uint64_t begin_ns; /* 0: it is not timed */
        uint32_t seq;      /* the next task, and */
        uint32_t live;     /* live ones, then */
        uint64_t executed; /* by the submitter, until then */
        uint64_t edges;    /* of the graph, until then */
        uint32_t joins;    /* the same */
    } cycle;
};

/* Since when a worker has run how many tasks. */
struct sharing_sample {
    uint64_t begin_ns;
    uint64_t executed;
};

/* `w` is the submitter's worker here and below. */
void sharing_begin(struct sharing *sh, struct worker *w, const struct sharing_run *run);
/* Whether the launch is kept from other workers, at first. */
bool sharing_launch_begins(struct sharing *sh, uint64_t now_ns);

/* Before a submit: whether the builder is to stop now, so that its thread runs tasks. */
static inline bool sharing_wants_builder(const struct sharing *sh, const struct worker *w)
{
    return w->graph->live >= sh->room_at || w->graph->seq >= sh->check_at ||
           (w->is_offering && a32_load_relaxed(&w->sched->short_hint) == HINT_GIVEN); /* a hint */
}

/* How many submits may follow before that is asked again, and finished slots are taken back. */
static inline uint32_t sharing_quota(const struct sharing *sh, const struct worker *w)
{
    const struct graph *g = w->graph;
    uint32_t quota = g->live < sh->room_at ? sh->room_at - g->live : 0;

    return sh->has_others && quota > SCHED_BATCH && (g->is_shared || w->is_offering) ? SCHED_BATCH
                                                                                     : quota;
}

/* The builder waits for room, which no task makes. */
static inline void sharing_builder_pauses(struct sharing *sh, uint64_t now_ns)
{
    if (sh->vain_since_ns == 0)
        sh->vain_since_ns = now_ns;
}

/* The builder has had no room for long, although it waited for some. */
static inline bool sharing_waits_in_vain(const struct sharing *sh, uint64_t now_ns)
{
    return sh->vain_since_ns != 0 && now_ns - sh->vain_since_ns >= SHARING_VAIN_NS;
}

void sharing_builder_stops(struct sharing *sh, struct worker *w);
bool sharing_has_room(const struct sharing *sh, const struct worker *w);
/* There is room, or there was none for longer than the patience. */
void sharing_builder_goes_on(struct sharing *sh, struct worker *w, uint64_t now_ns);
/* It did not wait for room: what it waited for says nothing about tasks. */
void sharing_builder_waited(struct sharing *sh);
void sharing_builder_is_done(struct sharing *sh, struct worker *w);

uint32_t sharing_tasks_at_once(const struct sharing *sh, const struct worker *w);

static inline void sharing_sample_start(struct sharing_sample *sample, const struct worker *w,
                                        uint64_t now_ns)
{
    *sample = (struct sharing_sample){ now_ns, sched_executed(w) };
}

/* Whether it is worth reading the clock for the two functions below. */
static inline bool sharing_sample_is_due(const struct sharing_sample *sample,
                                         const struct worker *w)
{
    uint64_t count = sched_executed(w) - sample->executed;

    return count == 0 || count >= SHARING_SAMPLE / 2; /* of none the time is forgotten */
}

void sharing_round_ends(struct sharing *sh, struct worker *w, struct sharing_sample *sample,
                        uint64_t now_ns);
/* Any worker but the submitter, by its own thread. */
void sharing_other_timed(struct worker *w, struct sharing_sample *sample, uint64_t now_ns);

/* Whether a launch is timed, and the function below to be called at its end. */
static inline bool sharing_times_launch(const struct sharing *sh)
{
    return sh->has_others && sh->run.image != NULL && !sh->run.image->has_teams;
}

void sharing_launch_ends(struct sharing *sh, uint64_t now_ns);

#endif

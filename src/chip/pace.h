/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the submitter runs tasks itself or shares them with other workers.
 *
 * What a hand-over costs depends on the tasks, their edges and how far apart the
 * CPUs are, so it is not computed: tasks are shared and timed, and if the submitter
 * would be faster alone, it is. What one takes alone is what it takes to build and
 * to run it. While it is alone sharing is tried again from time to time, less and
 * less often. Pure: no clock; times are told.
 */
#ifndef PTO_PACE_H
#define PTO_PACE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PACE_TASKS = 128,         /* that are timed at once */
    PACE_TRY_FIRST = 1024,    /* tasks until something else is tried, at first; it grows fourfold */
    PACE_TRY_MAX = 1 << 17,   /* up to this */
    PACE_TRY_LAUNCHES = 1024, /* the same in samples of launches, at most */
    PACE_HINT_TASKS = 4096,   /* between two hints that are followed */
    PACE_BUILD_NS = 25,       /* what a task takes at least beside its run, until it is known */
    PACE_WAKE_TASKS = 2048,   /* for others to begin, who may have to wake up first */
    PACE_RUN_NS_LEAST = 50,   /* a task that runs for less is not worth a try */
    PACE_RUN_NS_LONG = 1000,  /* one that runs for longer is always shared */
    PACE_LAUNCH_NS_LONG =
        4000, /* the same with all that a launch takes, where that is all there is */
};

#define PACE_UNKNOWN UINT32_MAX /* what a task takes to run, where too few were timed */

enum pace_way { PACE_ALONE, PACE_SHARED, PACE_WAYS };

struct pace {
    enum pace_way way;
    bool is_new;              /* what is over next began the other way, and tells nothing */
    uint64_t wake_tasks;      /* nor do so many, unless others have begun before; 0: they have */
    uint64_t cost[PACE_WAYS]; /* of a task, in 1/16 ns; 0: not known */
    uint64_t build;           /* of that, alone, what is not its run; 0: not known */
    uint64_t tasks;           /* that are being timed */
    uint64_t ns;              /* what they took so far */
    uint64_t run_ns;          /* what one of them takes to run: the less of the last two told */
    uint64_t last_run_ns;
    uint64_t total;  /* tasks of the run */
    uint64_t try_at; /* the same before which nothing is tried */
    uint64_t try_step;
    uint64_t hint_at; /* the same from which on a hint is followed */
};

void pace_start(struct pace *p, enum pace_way way);

/*
 * So many tasks were built and as many run, some of them by `others`; one of those
 * that the submitter ran took it `run_ns`. `is_long`: more than once more than
 * PACE_RUN_NS_LONG.
 */
void pace_note(struct pace *p, uint64_t tasks, uint64_t others, uint64_t ns, uint64_t run_ns,
               bool is_long);

/*
 * For launches of a built graph, each of which goes one way: one is over. One way
 * is not computed from the other here: what is not known is tried.
 */
void pace_launched(struct pace *p, uint64_t tasks, uint64_t ns, uint64_t run_ns);

/* Somebody thinks that tasks are shorter than their hand-over. True: from now on alone. */
bool pace_hint(struct pace *p);

#endif

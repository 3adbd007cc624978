/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list scheduler: computes how long the graph of a recording would take on a chip of any size,
 * with changed durations, costs and edges. The task that has been ready longest goes to the first
 * free core. No kernel is executed.
 *
 * struct see_jobs is made once and then only read. struct see_scheduler is the working memory of
 * one computation at a time, and can be used for any number of them.
 */
#ifndef PTO_SEE_LIST_SCHEDULE_H
#define PTO_SEE_LIST_SCHEDULE_H

#include "tool/see/chip_work.h"

/* The tasks of one chip or worker. The first task has the number 0. */
struct see_jobs {
    const struct see_work *w;
    uint32_t count;
    uint32_t executions;
    /*
     * for each task: index of its first execution (count + 1 entries); a task has an execution for
     * each block, and none if it is a dummy
     */
    uint32_t *execution_from;
    /*
     * for each task: the lanes that it occupies as bits, 1 for AIC, 2 and 4 for the AIVs; 0: no
     * core
     */
    uint8_t *lanes;
    uint8_t *is_gang;   /* for each task: 1 if its blocks begin together */
    uint64_t *after_ns; /* for each task: time from the end of its kernels to its completion */
    uint64_t *gap_ns;   /* for each task: time from the previous submit to its own */
    /*
     * for each task: 1 if it begins a part. A part is the tasks that one task of a worker runs on
     * the chip; the first part is not marked. A task that begins a part is submitted `gap_ns` after
     * all earlier tasks have completed.
     */
    uint8_t *begins_part;
    /*
     * time when the graph was complete, before which no task begins; 0: tasks run while the graph
     * is built
     */
    uint64_t built_ns;
    /*
     * for each task: it is submitted only when at most this many tasks, itself included, are not
     * complete
     */
    uint32_t *live_max;
    /* number of pairs of tasks with an edge; edges with different reasons make one pair */
    uint32_t pairs;
    /* for each task: the first pair in which it is the predecessor (count + 1 entries) */
    uint32_t *pair_from;
    uint32_t *pair_to;   /* for each pair: the successor */
    uint32_t *waits_for; /* for each task: number of its predecessors */
};

struct see_machine {
    uint32_t clusters; /* number of clusters, each of one AIC and two AIVs */
    /* maximum number of cores that execute at the same time; UINT32_MAX: no limit */
    uint32_t threads;
    uint64_t first_ns; /* time before which no execution begins */
    /* time that the dispatcher needs for each execution; it serves one after the other */
    uint64_t dispatch_ns;
    uint64_t overhead_ns;  /* time that is added to each execution */
    bool ignores_submits;  /* all tasks are submitted at time 0 */
    const uint8_t *is_cut; /* for each pair: 1 if its edge is ignored; NULL: no edge is ignored */
    bool has_no_edges;
};

struct see_scheduler;

/* Converts the graph of a group. Returns PTO_OK or PTO_ENOMEM. */
int see_jobs_make(const struct see_work *w, struct see_jobs *out);
void see_jobs_free(struct see_jobs *j);
/*
 * Returns the index of the pair of two tasks, the first task of the group having the number 0;
 * UINT32_MAX: there is no edge between them.
 */
uint32_t see_jobs_pair(const struct see_jobs *j, uint32_t from, uint32_t to);
/* Returns the recorded chip, with scheduling costs of 0. */
struct see_machine see_jobs_machine(const struct see_jobs *j);
/*
 * Computes the duration of each execution, which is that of its longest kernel. `slice_ns` has the
 * duration of each slice of the group, NULL: the recorded ones; `scale` has a factor for each
 * kernel, NULL: 1.
 */
void see_jobs_durations(const struct see_jobs *j, const uint64_t *slice_ns, const double *scale,
                        uint64_t *ns_out);

/* Returns a scheduler for machines of up to `clusters_max` clusters; NULL: out of memory. */
struct see_scheduler *see_scheduler_make(const struct see_jobs *j, uint32_t clusters_max);
void see_scheduler_free(struct see_scheduler *s);
/* Returns the makespan of the tasks on the machine. `ns` has the duration of each execution. */
uint64_t see_schedule(struct see_scheduler *s, const struct see_machine *m, const uint64_t *ns);
/*
 * Returns the length of the longest path through the graph, with the given durations of executions.
 */
uint64_t see_longest_path(struct see_scheduler *s, const struct see_machine *m, const uint64_t *ns);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments that tasks declare and whose memory their kernels never use, in a recording of a run
 * with --accesses, and what they cost: dependencies that exist only because of them, and the
 * makespan without these.
 *
 * Without the argument of a task, tasks that it ordered by transitivity have to be ordered
 * directly: those before the task are then compared with those after it, by their own arguments.
 */
#ifndef PTO_UNUSED_ARGUMENTS_H
#define PTO_UNUSED_ARGUMENTS_H

#include "tool/see/analysis.h"

/* An argument of all tasks that one line submits for one kernel. */
struct see_unused_argument {
    uint32_t kernel; /* of the first lane with one */
    uint32_t argument;
    uint32_t line;
    uint64_t tasks; /* number of tasks that do not use it */
    uint32_t first; /* the first of them */
    /* pairs of tasks with a dependency now and with none without the argument */
    uint64_t pairs;
    uint64_t ns;     /* predicted makespan without it */
    double change;   /* relative change of the makespan: -0.25 is a quarter less */
    bool is_finding; /* the change is larger than what varies by chance */
};

struct see_unused_arguments {
    struct see_unused_argument *of; /* in the order of `first` */
    uint32_t count;
};

enum { SEE_UNUSED_MAX = 16 }; /* most arguments that are looked at */

/* Finds the arguments. Returns PTO_OK or PTO_ENOMEM. */
int see_unused_arguments_make(const struct see_analysis *a, struct see_unused_arguments *out);
void see_unused_arguments_free(struct see_unused_arguments *u);

#endif

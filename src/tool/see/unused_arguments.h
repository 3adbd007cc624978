/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds arguments that tasks declare but whose memory their kernels never use, in the recording of
 * a run with --accesses. Computes what such an argument costs: the dependencies that exist only
 * because of it, and the makespan without them.
 *
 * A task with an unused argument may order two other tasks that have to be ordered. Without the
 * argument, the tasks before it and the tasks after it are therefore compared by their own
 * arguments, and get a direct edge if they conflict.
 */
#ifndef PTO_UNUSED_ARGUMENTS_H
#define PTO_UNUSED_ARGUMENTS_H

#include "tool/see/analysis.h"

/* An unused argument, in all tasks that one source line submits with one kernel. */
struct see_unused_argument {
    uint32_t kernel; /* kernel of the first lane that has one */
    uint32_t argument;
    uint32_t line;
    uint64_t tasks; /* number of tasks whose kernels do not use the argument */
    uint32_t first; /* index of the first of these tasks */
    /* number of pairs of tasks that have a dependency, and would have none without the argument */
    uint64_t pairs;
    uint64_t ns;     /* predicted makespan without the argument */
    double change;   /* relative change of the makespan: -0.25 is a quarter less */
    bool is_finding; /* the change is larger than random variation explains */
};

struct see_unused_arguments {
    struct see_unused_argument *of; /* sorted by `first` */
    uint32_t count;
};

enum { SEE_UNUSED_MAX = 16 }; /* maximum number of arguments that are analysed */

/* Finds the unused arguments and their costs. Returns PTO_OK or PTO_ENOMEM. */
int see_unused_arguments_make(const struct see_analysis *a, struct see_unused_arguments *out);
void see_unused_arguments_free(struct see_unused_arguments *u);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A lower bound for the makespan of a group's tasks on its cores, whatever the schedule. */
#ifndef PTO_SEE_LOWER_BOUND_H
#define PTO_SEE_LOWER_BOUND_H

#include "tool/see/chip_model.h"

struct see_bounds {
    uint64_t path_ns; /* length of the longest path through the graph */
    /* for each type of core: time of all executions divided by the number of cores */
    uint64_t work_ns[SEE_TYPES];
    uint64_t bound_ns; /* maximum of path_ns and work_ns */
    double ratio;      /* recorded makespan divided by bound_ns; with 1, no schedule is shorter */
};

static inline struct see_bounds see_bounds_make(struct see_model *m)
{
    const struct see_work *w = m->w;
    struct see_bounds b = { .path_ns = see_model_path(m, &(struct see_change){ .clusters = 0 }) };

    b.bound_ns = b.path_ns;
    for (uint32_t type = 0; type < SEE_TYPES; type++) {
        b.work_ns[type] = w->cores[type] != 0 ? w->busy_ns[type] / w->cores[type] : 0;
        b.bound_ns = b.work_ns[type] > b.bound_ns ? b.work_ns[type] : b.bound_ns;
    }
    b.ratio = b.bound_ns != 0 ? (double)m->recorded_ns / (double)b.bound_ns : 1;
    return b;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of the durations of each kernel. */
#ifndef PTO_SEE_KERNEL_TABLE_H
#define PTO_SEE_KERNEL_TABLE_H

#include "tool/see/critical_path.h"

struct see_kernel_row {
    uint32_t kernel;
    uint64_t count; /* number of executions of the kernel */
    uint64_t total_ns;
    uint64_t cpu_ns; /* total CPU time; PTO_RECORDING_NO_TIME: not recorded for each execution */
    uint64_t median_ns;
    uint64_t p99_ns;
    uint64_t max_ns;
    uint64_t path_ns; /* time of the kernel's executions on the critical path */
    uint32_t path_count;
    uint32_t slowest; /* index of the task that had the longest execution */
};

struct see_kernel_table {
    struct see_kernel_row *row; /* sorted by total time, the longest first */
    uint32_t count;
    uint64_t total_ns;
};

/* Makes a row for each kernel that executed something. Returns PTO_OK or PTO_ENOMEM. */
int see_kernel_table_make(const struct see_work *w, const struct see_path *path,
                          struct see_kernel_table *out);
/*
 * Makes a row for each kernel that executed something in any group. Returns PTO_OK or PTO_ENOMEM.
 */
int see_kernel_table_all(const struct see_recording *r, const struct see_path *path,
                         struct see_kernel_table *out);
void see_kernel_table_free(struct see_kernel_table *t);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* When each chip, rank or worker (group) of a recording worked, on one common time axis. */
#ifndef PTO_SEE_GROUP_TIME_H
#define PTO_SEE_GROUP_TIME_H

#include "tool/see/chip_work.h"

struct see_group_time {
    uint32_t tasks;
    uint32_t executions;         /* number of executions on cores, or by children of a worker */
    uint32_t cores[SEE_TYPES];   /* number of cores of each type, counted as in struct see_work */
    uint64_t busy_ns[SEE_TYPES]; /* busy time of all cores of each type */
    /* begin of the first execution and end of the last; both are 0 if there are none */
    uint64_t begin_ns, end_ns;
};

struct see_group_time see_group_time(const struct see_recording *r, uint32_t group);

#endif

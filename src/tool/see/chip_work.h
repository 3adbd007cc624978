/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a recording that the cores of one group executed, prepared for the analyses: when
 * each task became ready and why, and the executions in the order of time. It points into the
 * recording, which must outlive it, and is for one thread.
 */
#ifndef PTO_SEE_CHIP_WORK_H
#define PTO_SEE_CHIP_WORK_H

#include "tool/see/recording.h"

/* Types of cores. */
enum { SEE_AIC, SEE_AIV, SEE_TYPES };

struct see_work {
    const struct see_recording *r;
    uint32_t group;
    uint32_t task_begin, task_end;
    /* indices of the first slice and of the one after the last in the recording */
    uint64_t slice_begin, slice_end;
    uint32_t cores[SEE_TYPES];
    uint32_t used[SEE_TYPES];    /* number of cores with at least one execution */
    uint64_t busy_ns[SEE_TYPES]; /* time of all executions */
    uint32_t threads;  /* host threads that execute tasks; UINT32_MAX: cores do not share threads */
    uint64_t begin_ns; /* begin of the recording of these cores, or of their first submit */
    uint64_t first_ns; /* begin of the first execution */
    uint64_t end_ns;   /* end of the last task */
    /* when each task became ready; the first element is for the task with index task_begin */
    uint64_t *ready_ns;
    /*
     * for each task of the group, from task_begin on: the task whose end made it ready, or
     * PTO_RECORDING_NONE
     */
    uint32_t *ready_by;
    uint32_t core_slices; /* number of executions on cores */
    /* slices on cores in the order of their begins, as offsets from slice_begin */
    uint32_t *by_begin;
    uint32_t *by_end;
    uint32_t *previous; /* for each slice: the previous slice on its lane, or PTO_RECORDING_NONE */
};

/*
 * Returns the chip whose cores executed most; PTO_RECORDING_NONE: no core of a chip executed
 * anything.
 */
uint32_t see_work_main_group(const struct see_recording *r);
/*
 * Prepares one group of lanes of the recording (a chip or a worker) for the analyses. Returns PTO_OK, PTO_ENOMEM, or PTO_EINVAL if its cores
 * executed nothing.
 */
int see_work_make(const struct see_recording *r, uint32_t group, struct see_work *out);
void see_work_free(struct see_work *w);

/*
 * Returns the type of core that a lane stands for; SEE_TYPES: the lane is not a core. The chips and
 * nested workers of a worker count as AICs, its SUB workers as AIVs.
 */
static inline uint32_t see_lane_type(uint8_t lane_kind)
{
    switch (lane_kind) {
    case PTO_RECORDING_LANE_AIC:
    case PTO_RECORDING_LANE_CHIP:
    case PTO_RECORDING_LANE_WORKER:
        return SEE_AIC;
    case PTO_RECORDING_LANE_AIV:
    case PTO_RECORDING_LANE_SUB:
        return SEE_AIV;
    default:
        return SEE_TYPES;
    }
}

/* Returns the type of core on which a slice ran; SEE_TYPES: it did not run on a core. */
static inline uint32_t see_slice_type(const struct see_recording *r, uint64_t slice)
{
    return see_lane_type(r->lane[r->slice[slice].lane].kind);
}

/*
 * Returns the kernel by which a task is named: that of the first lane that has one.
 * PTO_RECORDING_NONE: the task has no kernel.
 */
uint32_t see_task_kernel(const struct see_recording *r, uint32_t task);
/* Returns the name of a kernel; "dummy" for PTO_RECORDING_NONE. */
const char *see_kernel_name(const struct see_recording *r, uint32_t kernel);

/* Sorts `count` indices by their keys; the sort is stable. Returns PTO_OK or PTO_ENOMEM. */
int see_sort(const uint64_t *key, uint32_t *index, uint32_t count);

#endif

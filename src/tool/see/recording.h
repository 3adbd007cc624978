/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording in memory: what happened in a run, as arrays, usually read from a `.ptrec` file. For
 * one thread at a time; see_recording_free frees all arrays. Their contents are checked: an index
 * is in range or PTO_RECORDING_NONE, a time is in ns from the begin of the recording or
 * PTO_RECORDING_NO_TIME. Order of the arrays:
 *
 *     task      in the order of submits; the tasks of a group are adjacent
 *     slice     by task, then by block and lane: task t has slice[slice_from[t]] to
 *               slice[slice_from[t + 1] - 1]
 *     edge      by successor, then by predecessor: those into task t begin at edge[edge_from[t]]
 *     out       indices of edges by predecessor: those out of task t begin at out[out_from[t]]
 *     argument  by task, in the order of its arguments, from argument_from[t] on
 *     scalar    by task, from scalar_from[t] on
 *     touch     by task, from touch_from[t] on; no row: what the task used is not known
 */
#ifndef PTO_SEE_RECORDING_H
#define PTO_SEE_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pto/error.h"
#include "pto/orch.h"
#include "pto/recording.h"
#include "pto/rules.h"
#include "pto/trace.h"

struct see_kernel {
    char *name;
    uint8_t core;   /* enum pto_core; PTO_CORE_TYPES: any core, or unknown */
    uint8_t origin; /* enum pto_recording_origin: where the durations of the kernel come from */
};

/*
 * A group: a unit of the run that has its own lanes. It is a chip, a rank, a level-3 worker, or a
 * SUB worker.
 */
struct see_group {
    char *name;
    uint8_t kind;    /* enum pto_recording_group */
    uint32_t parent; /* index of the group that contains this one; PTO_RECORDING_NONE: none */
    uint32_t chip;   /* number of the chip in its parent group */
    uint32_t rank;   /* number of the rank; PTO_RECORDING_NONE: the run had no ranks */
    uint32_t task_begin, task_end;
    uint32_t lane_begin, lane_end;
    /* numbers of cores and clusters on the chip, used or not; 0 if the group is no chip */
    uint32_t aics, aivs, clusters;
    uint64_t begin_ns; /* begin of the group's part of the recording */
};

struct see_lane {
    uint8_t kind;   /* enum pto_recording_lane */
    uint32_t index; /* number among the lanes of the same kind and group */
    uint32_t group;
};

struct see_task {
    uint64_t id; /* `raw` of struct pto_task_id; index of the task if ids were not recorded */
    uint64_t submit_ns; /* time when the submit returned */
    /* time when the last predecessor completed; submit_ns if the task waited for none */
    uint64_t ready_ns;
    uint64_t start_ns; /* begin of the task's first slice */
    uint64_t end_ns; /* end of the task's last slice, or its deferred completion if that is later */
    /* task whose completion made this one ready; PTO_RECORDING_NONE: its submit did */
    uint32_t ready_by;
    uint32_t group;
    /*
     * run of the task, below run_count; a chip below a worker has a run for each task of the worker
     */
    uint32_t run;
    uint32_t parent; /* level-3 task that launched the run, or PTO_RECORDING_NONE */
    uint32_t file;   /* index of the source file with the submit, or PTO_RECORDING_NONE */
    uint32_t line;
    uint32_t flags; /* enum pto_recording_flag */
    /*
     * key: a number below key_count, which is equal for tasks of equal kernels, blocks, shapes,
     * strides, types and scalars
     */
    uint32_t key;
    uint32_t kernel[3]; /* kernels on AIC, AIV0 and AIV1; PTO_RECORDING_NONE: no kernel */
    uint32_t blocks;
};

struct see_slice {
    uint64_t begin_ns, end_ns;
    /* CPU time of the slice; PTO_RECORDING_NO_TIME: not recorded, or the clock was virtual */
    uint64_t cpu_ns;
    uint32_t task;
    uint32_t lane;
    uint32_t kernel; /* PTO_RECORDING_NONE: the slice ran no kernel */
    uint32_t block;
};

/*
 * A dependency that the ordering rules require: task `to` waits for task `from`. If it has several
 * reasons, there is an edge for each.
 */
struct see_edge {
    uint32_t from, to;
    int16_t from_argument, to_argument; /* arguments that cause the edge; -1: none */
    uint8_t reason;                     /* enum pto_recording_reason */
    bool is_wired; /* the engine linked the two tasks; false: `from` had already completed */
};

struct see_argument {
    uint64_t addr;   /* byte address of the buffer */
    uint64_t size;   /* bytes of the buffer */
    uint64_t start;  /* offset of the first element from addr, in elements */
    uint64_t extent; /* elements from the first to the last, both included */
    /* number of the allocation, which differs even if the same addresses are allocated again */
    uint32_t allocation;
    uint32_t owner; /* task that created the buffer; PTO_RECORDING_NONE: the memory is external */
    int32_t version;
    uint8_t tag; /* enum pto_tag */
    uint8_t dtype;
    uint8_t ndims;
    uint8_t flags; /* enum pto_recording_argument_flag */
    uint32_t shapes[PTO_MAX_DIMS];
    uint32_t strides[PTO_MAX_DIMS];
};

/*
 * An access to a single element: by the predicate of a task, or by the orchestration itself between
 * two submits. Elements are in the order of `task`; for one task, the predicate comes last.
 */
struct see_element {
    /*
     * task of the predicate; for the orchestration, the task that is submitted next, or the end of
     * the group
     */
    uint32_t task;
    uint32_t group, run;
    uint32_t file; /* index of the source file with the access, or PTO_RECORDING_NONE */
    uint32_t line;
    uint8_t kind; /* enum pto_recording_element */
    struct see_argument argument;
};

/* Elements that a kernel of a task used, in a run with --accesses. */
struct see_touch {
    uint32_t task;
    /*
     * enum pto_recording_touch; READ and WRITE have the members below, STEP only `segment` and
     * `before`, END only `before`
     */
    uint8_t kind;
    /* argument whose buffer contains the part; -1: no argument's does, and `part` is in bytes */
    int16_t argument;
    uint32_t invocation; /* 3 times the block, plus the lane: 1 for AIV0, 2 for AIV1 */
    uint32_t segment;    /* 0: none; else unique in the recording, as `before` */
    uint32_t before;     /* 0: the begin of the task */
    struct see_argument part;
};

static inline bool see_touch_has_part(const struct see_touch *t)
{
    return t->kind == PTO_RECORDING_TOUCH_READ || t->kind == PTO_RECORDING_TOUCH_WRITE;
}

struct see_recording {
    char *platform;
    char *scene; /* empty if unknown, as are test_case and title */
    char *test_case;
    char *title;
    uint8_t mode;      /* enum pto_mode */
    uint8_t deps;      /* enum pto_deps */
    uint8_t clock;     /* enum pto_recording_clock */
    uint8_t level;     /* enum pto_trace: how much was recorded */
    bool has_edges;    /* `edge` has all edges; false: only those that the engine linked */
    bool has_ready;    /* ready_ns and ready_by of tasks were recorded */
    int32_t status;    /* status code of the run */
    uint64_t begin_ns; /* begin of the recording, by the monotonic clock of the machine */
    uint64_t length_ns;
    uint64_t records_lost;
    uint64_t edges_lost;
    uint32_t cpus;    /* CPUs of the host that the run was allowed to use */
    uint32_t workers; /* worker threads of the host */

    uint32_t kernel_count, file_count, group_count, lane_count, task_count;
    uint32_t key_count, allocation_count, element_count, run_count;
    uint64_t slice_count, edge_count, argument_count, scalar_count, touch_count;
    uint32_t segment_count; /* larger than every number of a segment */
    struct see_kernel *kernel;
    char **file;
    struct see_group *group;
    struct see_lane *lane;
    struct see_task *task;
    struct see_slice *slice;
    struct see_edge *edge;
    struct see_argument *argument;
    uint64_t *scalar;
    struct see_element *element;
    struct see_touch *touch;
    uint64_t *slice_from; /* the arrays whose names end in _from have task_count + 1 entries */
    uint64_t *edge_from;
    uint64_t *out_from;
    uint64_t *argument_from;
    uint64_t *scalar_from;
    uint64_t *touch_from;
    uint64_t *out; /* edge_count entries: indices of edges */
};

/*
 * Reads a recording from a file. Returns PTO_OK; PTO_ESYSTEM: the file cannot be read; PTO_EINVAL:
 * the file is no recording, of another version, damaged or truncated; PTO_ENOMEM. On failure
 * `error`, which may be NULL, has a sentence, and *out is unchanged.
 */
int see_recording_read(const char *path, struct see_recording **out, struct pto_error *error);
/*
 * Reads a recording from the contents of a file; error messages name `path`. Otherwise as
 * see_recording_read.
 */
int see_recording_parse(const void *bytes, size_t size, const char *path,
                        struct see_recording **out, struct pto_error *error);
/* Accepts NULL. */
void see_recording_free(struct see_recording *r);

/*
 * Completes a recording whose rows are filled in: sorts slices and edges, and makes `out` and all
 * `_from` arrays except those of arguments and scalars. Returns PTO_OK or PTO_ENOMEM.
 */
int see_recording_index(struct see_recording *r);

#endif

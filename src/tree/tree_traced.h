/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the worker records of its runs and tasks, for tree_trace.c and tree_recording.c. All of it
 * is written with the worker's lock, and read when nothing runs.
 */
#ifndef PTO_TREE_TRACED_H
#define PTO_TREE_TRACED_H

#include "pto/trace.h"
#include "tree/tree_wire.h"

enum { TRACED_FILE_NAME = 64, TRACED_GROUP_NAME = TREE_TRACE_NAME + 64 };

struct traced_task {
    uint64_t run;
    uint64_t submit_ns;
    uint64_t ready_ns; /* 0: the task was ready at its submit */
    uint64_t begin_ns; /* 0: the task never ran, or its child died */
    uint64_t end_ns;
    /* index of the task whose end made this one ready, plus 1; 0: its submit made it ready */
    uint32_t ready_by;
    uint32_t seq;
    uint32_t name; /* index in tree_trace->callable */
    int32_t child;
    int32_t status;
    int32_t line; /* 0: unknown */
    char file[TRACED_FILE_NAME];
};

struct traced_run {
    uint64_t number;
    uint64_t begin_ns;
    uint64_t built_ns;
    uint64_t end_ns;
    uint64_t tasks;
    int32_t status;
};

struct traced_callable {
    char name[TREE_NAME];
};

struct tree_trace {
    uint64_t base_ns;
    /* process number of the orchestrations in the timeline; those of the children follow */
    uint32_t pid;
    char name[TREE_TRACE_NAME]; /* prefix of process names, for a nested worker */
    /* For a nested worker: the prefix of the worker above, and the number of its task. */
    bool is_nested;
    char above_name[TREE_TRACE_NAME];
    uint32_t above_task;
    enum pto_trace chips;
    struct traced_task *task; /* recorded tasks in the order of their submits */
    uint64_t task_count, task_room;
    struct traced_run *run;
    uint64_t run_count, run_room;
    struct traced_callable *callable;
    uint64_t callable_count, callable_room;
    char *records; /* submits with their arguments (wire/task_record.h), `record_bytes` of them */
    uint64_t record_bytes, record_room;
    uint64_t records_lost;
    uint64_t lost; /* number of items that were lost because memory ran out */
    /* number of tasks of earlier recordings, which have the flow identifiers before these */
    uint64_t flow;
    int file[TREE_CHILDREN_MAX]; /* files of chips and nested workers; -1: none */
    bool is_writing;
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds cache lines that two concurrent tasks write. Cores of a real chip write back whole lines,
 * so one of them undoes the other's write even though they share no byte. Simulated chips have a
 * coherent cache and hide the problem, so this file records what tasks may write and what orders
 * them.
 *
 * A run in PTO_MODE_HOST has all dependencies; a streamed run does not report those on tasks that
 * have ended. Lines are counted from the start of a tensor's buffer, which is aligned. Not
 * detected: conflicts between blocks and lanes of one task, and between views of one buffer that
 * were made from different addresses.
 */
#ifndef PTO_SCENE_LINES_H
#define PTO_SCENE_LINES_H

#include "pto/pto.h"

enum { LINES_BYTES = 64, LINES_FILE = 128 };

/* A submitted task. */
struct lines_task {
    struct pto_task_id id;
    struct pto_kernels kernels;
    int32_t line; /* source line of the task's submit; 0: unknown */
    char file[LINES_FILE];
};

/* Bytes of a line that a task writes, but not the whole line. */
struct lines_use {
    uint64_t addr;            /* address of the buffer */
    struct pto_task_id owner; /* task that made the buffer; invalid: an argument of the entry */
    uint64_t line;
    uint64_t mask; /* a bit per byte */
    uint32_t task;
};

struct lines_edge {
    uint32_t before;
    uint32_t after;
};

struct lines_watch {
    struct lines_task *task;
    uint64_t task_count, task_max;
    struct lines_use *use;
    uint64_t use_count, use_max;
    struct lines_edge *edge;
    uint64_t edge_count, edge_max;
    uint64_t entry_addr[PTO_ENTRY_TENSORS_MAX]; /* addresses of the entry's tensors */
    uint32_t entry_count;
    bool is_short; /* out of memory: the record is incomplete */
};

/* Callbacks for `task` and `edge` of run options; their context is a zeroed struct lines_watch. */
void scene_lines_watch_task(void *context, const struct pto_task_view *view);
bool scene_lines_watch_edge(void *context, uint64_t before, uint64_t after);
/*
 * Finds, after the run, the first two unordered uses of one line and sets `found`. Returns PTO_OK
 * or PTO_ENOMEM.
 */
int scene_lines_find(struct lines_watch *watch, struct lines_use use[2], bool *found);
void scene_lines_free(struct lines_watch *watch);

#endif

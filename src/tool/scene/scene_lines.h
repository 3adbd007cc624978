/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cache lines that two tasks write which may run at the same time. Cores of a real chip write whole
 * lines back, so one of them undoes what the other one wrote, though they have no byte in common.
 * Simulated chips share a coherent cache, and show nothing of it: so what tasks were given to write,
 * and what orders them, is watched and looked through.
 *
 * A run in PTO_MODE_HOST has all dependencies; a streamed one does not tell of those on tasks that
 * have ended. Lines are counted from the begin of a tensor's buffer, which is the begin of one.
 * Not seen: what the blocks and lanes of one task do to each other, and views of one buffer that were made
 * from different addresses.
 */
#ifndef PTO_SCENE_LINES_H
#define PTO_SCENE_LINES_H

#include "pto/pto.h"

enum { LINES_BYTES = 64, LINES_FILE = 128 };

/* A task that was submitted. */
struct lines_task {
    struct pto_task_id id;
    struct pto_kernels kernels;
    int32_t line; /* of its submit; 0: unknown */
    char file[LINES_FILE];
};

/* Of a task: some bytes of a line, and not all of them. */
struct lines_use {
    uint64_t addr;            /* of the buffer */
    struct pto_task_id owner; /* that made it; invalid: the entry's */
    uint64_t line;
    uint64_t mask; /* a bit for each byte */
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
    uint64_t entry_addr[PTO_ENTRY_TENSORS_MAX]; /* of the entry's tensors */
    uint32_t entry_count;
    bool is_short; /* of memory: not everything is known */
};

/* As `task` and `edge` of a run's options, with a struct lines_watch, zeroed, as their context. */
void scene_lines_watch_task(void *context, const struct pto_task_view *view);
bool scene_lines_watch_edge(void *context, uint64_t before, uint64_t after);
/*
 * After the run: the first two uses of one line by tasks that nothing orders. PTO_OK: `found` tells whether there
 * are two. PTO_ENOMEM.
 */
int scene_lines_find(struct lines_watch *watch, struct lines_use use[2], bool *found);
void scene_lines_free(struct lines_watch *watch);

#endif

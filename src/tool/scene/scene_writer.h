/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the task that wrote an element last: observes the submits of a run and keeps, for each
 * watched element, the last task that names it as an output. Tasks that write the same element run
 * in the order of their submits.
 */
#ifndef PTO_SCENE_WRITER_H
#define PTO_SCENE_WRITER_H

#include "pto/pto.h"

enum { WRITER_FILE_MAX = 128 };

struct watched_element {
    uint32_t argument; /* argument of the entry */
    uint64_t index;    /* index of the element, row-major */
    /* The fields below are results. */
    bool is_found;
    bool is_conditional; /* the task has a predicate, so it may have been skipped */
    uint64_t task;       /* number of the task in the order of submits */
    struct pto_kernels kernels;
    int32_t blocks;
    int32_t line; /* 0: unknown */
    char file[WRITER_FILE_MAX];
};

struct writer_watch {
    struct watched_element *watched;
    uint32_t count;
};

/* Callback for `task` of run options; its context is a struct writer_watch. */
void scene_writer_watch_task(void *context, const struct pto_task_view *view);

/* Whether the byte at `addr` belongs to an element of the tensor. */
bool scene_writer_covers(const struct pto_tensor *tensor, uint64_t addr);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which task wrote an element last: watches the submits of a run and keeps, for
 * each element that is asked for, the last task that names it as an output.
 * Tasks that write the same element run in the order of their submits.
 */
#ifndef PTO_SCENE_WRITER_H
#define PTO_SCENE_WRITER_H

#include "pto/pto.h"

enum { WRITER_FILE_MAX = 128 };

struct writer_wish {
    uint32_t argument; /* of the entry */
    uint64_t index;    /* of the element, row-major */
    /* Found out: */
    bool is_found;
    bool is_conditional; /* the task has a predicate, so it may not have run */
    uint64_t task;       /* in the order of the submits */
    struct pto_kernels kernels;
    int32_t blocks;
    int32_t line; /* 0: unknown */
    char file[WRITER_FILE_MAX];
};

struct writer_watch {
    struct writer_wish *wish;
    uint32_t count;
};

/* As `task` of the run's options, with a struct writer_watch as its context. */
void scene_writer_watch_task(void *context, const struct pto_task_view *view);

/* Whether the byte at `addr` belongs to an element of the tensor. */
bool scene_writer_covers(const struct pto_tensor *tensor, uint64_t addr);

#endif

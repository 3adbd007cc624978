/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments of tasks as they are before the first invocation and after the last one (struct
 * chip_dump of wire/told.h). A task's marks are there before its submit, so whoever runs it finds them.
 * One thread at a time, or under the owner's lock, which then orders the dump of a task's inputs before
 * its other invocations, which may write them.
 */
#ifndef PTO_DUMPS_H
#define PTO_DUMPS_H

#include "port/trace.h"
#include "wire/slot.h"
#include "wire/told.h"

/* What is wanted of a task, and how far it is. Zero at the begin of a run. */
struct dump_mark {
    uint32_t tensors; /* those whose bytes are wanted */
    uint32_t is_begun : 1;
    uint32_t is_wanted : 1;
    uint32_t ended; /* invocations */
};

struct dumps {
    uint32_t level;                                           /* `args` of struct pto_diagnostics */
    struct dump_mark *(*mark)(void *context, uint64_t index); /* of a task; NULL: it is lost */
    char *(*take)(void *context, uint64_t bytes);             /* room; NULL: it is lost */
    void (*give)(void *context, uint64_t bytes);              /* what was too much of it */
    void *context;
};

/* By the submitter, before it submits the task. */
void dumps_submit(const struct dumps *d, uint32_t index, const struct pto_args *args);
/* An invocation of a task begins or has returned. */
void dumps_watch(const struct dumps *d, const struct slot *s, const struct pto_tensor *tensor,
                 enum trace_kind kind);

#endif

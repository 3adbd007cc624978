/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dumps the contents of tasks' arguments before the first invocation and after the last one (struct
 * chip_dump of wire/task_record.h). The submitter sets a task's mark before it submits the task, so
 * the thread that runs the task finds it. Called by one thread at a time, or under the owner's
 * lock, which also ensures that a task's inputs are dumped before its other invocations write them.
 */
#ifndef PTO_DUMPS_H
#define PTO_DUMPS_H

#include "port/trace.h"
#include "wire/slot.h"
#include "wire/task_record.h"

/*
 * What to dump of a task, and how many of its invocations have ended. All fields are 0 at the start
 * of a run.
 */
struct dump_mark {
    uint32_t tensors; /* bit for each tensor to dump */
    uint32_t is_begun : 1;
    uint32_t is_wanted : 1;
    uint32_t ended; /* invocations that have ended */
};

struct dumps {
    uint32_t level; /* which arguments to dump: `args` of struct pto_diagnostics */
    /* returns the mark of the task with this index; NULL: the dump is lost */
    struct dump_mark *(*mark)(void *context, uint64_t index);
    /* returns memory for a record of so many bytes; NULL: the dump is lost */
    char *(*take)(void *context, uint64_t bytes);
    /* returns that part of the memory which was not needed */
    void (*give)(void *context, uint64_t bytes);
    void *context;
};

/* Called by the submitter, before it submits the task. */
void dumps_submit(const struct dumps *d, uint32_t index, const struct pto_args *args);
/* Called when an invocation of a task begins, and again when it has returned. */
void dumps_watch(const struct dumps *d, const struct slot *s, const struct pto_tensor *tensor,
                 enum trace_kind kind);

#endif

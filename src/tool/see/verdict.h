/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explains why a run took as long as it did, by one cause, and the task or kernel that it comes
 * from. Causes are tried, not guessed: the model predicts the run without each, and the cause whose
 * absence shortens the run most is the verdict. If none shortens it much, the run is limited by its
 * cores, by a chain of tasks, or by too few tasks.
 */
#ifndef PTO_SEE_VERDICT_H
#define PTO_SEE_VERDICT_H

#include "tool/see/lower_bound.h"
#include "tool/see/what_if.h"

/* Causes: X(name, key) */
#define SEE_CAUSE_MAP(X)                                                               \
    X(SLOW_TASK, "slow_task")                                                          \
    X(FEW_TASKS, "few_tasks")                                                          \
    X(SUBMISSION, "serial_submission")                                                 \
    X(FALSE_DEPENDENCY, "false_dependency")                                            \
    X(CORE_TYPE, "core_type") /* one type of core has much more work than the other */ \
    X(SCHEDULING, "scheduling_cost")                                                   \
    X(CHAIN, "chain")                                                                  \
    X(CORES, "cores")     /* all cores, or all children of a worker, are busy */       \
    X(CHILD, "one_child") /* a child of a worker has most of the work */               \
    X(MIXED, "mixed")

enum see_cause {
#define X(name, key) SEE_CAUSE_##name,
    SEE_CAUSE_MAP(X)
#undef X
        SEE_CAUSES
};

enum { SEE_VERDICT_TEXT_MAX = 1024 };

struct see_verdict {
    enum see_cause cause;
    uint32_t kernel; /* kernel that the verdict names; PTO_RECORDING_NONE: none */
    /* index in the recording of the task that the verdict names; PTO_RECORDING_NONE: none */
    uint32_t task;
    uint32_t type; /* type of core that the verdict names: SEE_AIC or SEE_AIV */
    double gain;   /* share of the makespan that the run would save without the cause; 0: unknown */
    /* the run had fewer host threads than cores; the verdict is about a chip without that limit */
    bool is_of_chip;
    char text[SEE_VERDICT_TEXT_MAX]; /* the verdict in one line */
};

const char *see_cause_key(enum see_cause cause);
/* Finds the verdict. Returns PTO_OK or PTO_ENOMEM. */
int see_verdict_make(struct see_model *m, const struct see_path *path, const struct see_idle *idle,
                     const struct see_kernel_table *kernels, struct see_verdict *out);
/*
 * Writes the verdict on the work as a line, which first says whether it is about a chip without the
 * limit of host threads; returns `text`.
 */
char *see_verdict_text(const struct see_verdict *v, const struct see_work *w,
                       char text[2 * SEE_VERDICT_TEXT_MAX]);
/* Formats a task as "task 17 'mul' (orch.c:40)"; returns `text`. */
char *see_task_text(const struct see_recording *r, uint32_t task, char *text, size_t bytes);
/* Formats a time as "12.3 us", in a suitable unit; returns `text`. */
char *see_time_text(double ns, char text[24]);

#endif

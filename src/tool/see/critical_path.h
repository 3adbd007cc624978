/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The critical path of a run: from its end backwards, each step is what the next one waited for.
 * The steps are in the order of time and cover the run without a gap, so that their durations
 * add up to the makespan.
 */
#ifndef PTO_SEE_CRITICAL_PATH_H
#define PTO_SEE_CRITICAL_PATH_H

#include "tool/see/chip_work.h"

/* Kinds of steps of the critical path: X(name, text) */
#define SEE_STEP_MAP(X)                                                           \
    X(EXECUTES, "execution")  /* a task runs */                                   \
    X(SUBMIT, "submission")   /* time until a task was submitted */               \
    X(HANDOVER, "scheduling") /* time until a ready task begins on a free core */ \
    X(DEFERRED, "deferred completion")

enum see_step_kind {
#define X(name, text) SEE_STEP_##name,
    SEE_STEP_MAP(X)
#undef X
        SEE_STEP_KINDS
};

/* Why an execution began when it did: X(name, text) */
#define SEE_BECAUSE_MAP(X)          \
    X(DATA, "data")                 \
    X(CORE, "a free core")          \
    X(THREAD, "a free host thread") \
    X(SUBMIT, "its submission")

enum see_because {
#define X(name, text) SEE_BECAUSE_##name,
    SEE_BECAUSE_MAP(X)
#undef X
        SEE_BECAUSE_COUNT
};

struct see_step {
    uint64_t begin_ns, end_ns;
    uint64_t slice; /* index of the slice in the recording; UINT64_MAX: the task occupied no core */
    uint32_t task;
    uint8_t kind;    /* enum see_step_kind */
    uint8_t because; /* enum see_because: what an execution waited for before it began */
};

struct see_path {
    struct see_step *step;
    uint32_t count;
    uint64_t total_ns[SEE_STEP_KINDS];
    uint32_t because[SEE_BECAUSE_COUNT]; /* number of executions for each enum see_because */
};

const char *see_step_name(enum see_step_kind kind);
const char *see_because_name(enum see_because because);
/* Computes the critical path. Returns PTO_OK or PTO_ENOMEM. */
int see_path_make(const struct see_work *w, struct see_path *out);
void see_path_free(struct see_path *p);

#endif

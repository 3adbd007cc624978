/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides the time of each core into work and reasons for being idle. At each moment, each idle
 * core is matched with an execution that has not begun, the one nearest to its start first: one
 * that is ready, then one that waits for data, then one that is not submitted yet. The state of
 * that execution is the reason. Cores without a match have no more work.
 */
#ifndef PTO_SEE_IDLE_TIME_H
#define PTO_SEE_IDLE_TIME_H

#include "tool/see/chip_work.h"

/* What a core did, or why it was idle: X(name, key, text) */
#define SEE_IDLE_MAP(X)                                              \
    X(BUSY, "busy", "busy")                                          \
    X(BEFORE, "before_first", "before the first task")               \
    X(READY, "ready", "ready, but not dispatched")                   \
    X(THREADS, "host_threads", "ready, but no host thread was free") \
    X(DATA, "data", "waits for data")                                \
    X(SUBMIT, "submission", "waits for submission")                  \
    X(TAIL, "tail", "no more work")                                  \
    X(OUTSIDE, "outside", "between tasks of the worker")             \
    X(UNUSED, "never_used", "never used")

enum see_idle_reason {
#define X(name, key, text) SEE_IDLE_##name,
    SEE_IDLE_MAP(X)
#undef X
        SEE_IDLE_REASONS
};

struct see_idle {
    uint64_t ns[SEE_TYPES][SEE_IDLE_REASONS]; /* time of all cores of each type, by reason */
    /*
     * blocked_ns is the time during which an execution was ready while a core and a host thread
     * were free for it; blocked_starts is the number of all executions that began.
     */
    uint64_t blocked_ns;
    uint64_t blocked_starts;
};

const char *see_idle_key(enum see_idle_reason reason);
const char *see_idle_name(enum see_idle_reason reason);
/* Divides the time of a run. Returns PTO_OK or PTO_ENOMEM. */
int see_idle_make(const struct see_work *w, struct see_idle *out);

#endif

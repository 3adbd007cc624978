/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of code that was compiled for the reference system: sets where its log lines are written.
 * docs/compat/code.md describes how such code is run.
 */
#ifndef PTO_API_LOG_H
#define PTO_API_LOG_H

#include <stddef.h>
#include <string.h>

#include "pto/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* Log levels, with the reference's numbers. */
enum pto_log_level {
    PTO_LOG_DEBUG = 10,
    PTO_LOG_INFO = 20,
    PTO_LOG_TIMING = 25, /* the default threshold of struct pto_log */
    PTO_LOG_WARN = 30,
    PTO_LOG_ERROR = 40,
    PTO_LOG_OFF = 60 /* only as a threshold: no line is printed */
};

/* Receives one log line. Called from any thread, possibly from several at a time. */
typedef void (*pto_log_fn)(void *context, int level, const char *function, const char *text);

/* Where log lines of orchestrations compiled for the reference are written. */
struct pto_log {
    size_t size;
    pto_log_fn fn; /* receives the lines; NULL: they go to stderr */
    void *context;
    int threshold; /* lines of lower levels are not printed; enum pto_log_level */
    /*
     * A SimplerHostLogState of the reference. Objects whose own logger reads such a state get this
     * one, and its threshold replaces `threshold`. It must live until the process ends. NULL: the
     * runtime's own state.
     */
    void *state;
};

/* Sets the defaults of a log destination. */
static inline void pto_log_init(struct pto_log *log)
{
    if (log == NULL)
        return;
    memset(log, 0, sizeof(*log));
    log->size = sizeof(*log);
    log->threshold = PTO_LOG_TIMING;
}

/*
 * Sets where the log lines of the whole process are written, because the reference's interface does
 * not say to which run a line belongs. NULL restores the defaults. `state` is passed only to
 * objects that are loaded afterwards.
 */
int pto_log_set(const struct pto_log *log);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

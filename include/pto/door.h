/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs that run code which was made for the reference system: where its lines
 * of log go. docs/compat/code.md says how such code is run.
 */
#ifndef PTO_API_DOOR_H
#define PTO_API_DOOR_H

#include <stddef.h>
#include <string.h>

#include "pto/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* Levels of a line, with the reference's numbers. */
enum pto_log_level {
    PTO_LOG_DEBUG = 10,
    PTO_LOG_INFO = 20,
    PTO_LOG_TIMING = 25, /* the threshold by default */
    PTO_LOG_WARN = 30,
    PTO_LOG_ERROR = 40,
    PTO_LOG_OFF = 60 /* as a threshold: nothing */
};

/* A line. It may come from any thread, and from several at a time. */
typedef void (*pto_log_fn)(void *context, int level, const char *function, const char *text);

/* Where lines go that orchestrations of the reference write. */
struct pto_log {
    size_t size;
    pto_log_fn fn; /* NULL: the error output */
    void *context;
    int threshold; /* lines of lower levels are dropped; see enum pto_log_level */
    /*
     * A SimplerHostLogState of the reference, which objects are given whose own logger looks at
     * one, and whose threshold counts instead of the one above. It must stay for ever. NULL:
     * the runtime has one.
     */
    void *state;
};

/* Sets the defaults. */
static inline void pto_log_init(struct pto_log *log)
{
    if (log == NULL)
        return;
    memset(log, 0, sizeof(*log));
    log->size = sizeof(*log);
    log->threshold = PTO_LOG_TIMING;
}

/*
 * Says where lines go from now on, for the whole process: the reference's interface
 * does not tell which run a line belongs to. NULL: as in the beginning. A state
 * reaches objects that are loaded later.
 */
int pto_log_set(const struct pto_log *log);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

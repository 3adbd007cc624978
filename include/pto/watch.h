/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers of level 3 seen from outside: those of this user on this machine, of any program. Looking
 * changes nothing and needs no help of theirs; `pto info --workers` does it.
 */
#ifndef PTO_API_WATCH_H
#define PTO_API_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* What a child does. */
enum pto_watch_state { PTO_WATCH_STARTING, PTO_WATCH_IDLE, PTO_WATCH_RUNNING, PTO_WATCH_DEAD };

/* A child of a worker. */
struct pto_watch_child {
    uint32_t kind; /* enum pto_child_kind */
    enum pto_watch_state state;
    int32_t pid;         /* 0: it was never started */
    uint32_t generation; /* 1, and one more each time that it was opened again */
    uint64_t tasks;      /* that it has ended, since then */
    uint64_t running_ns; /* PTO_WATCH_RUNNING: for how long */
    char callable[64];   /* and what */
    uint32_t device;     /* that a chip is */
};

/* A worker. What is here is there until the function that gets it returns. */
struct pto_watch_worker {
    size_t size; /* set by the runtime */
    int32_t pid;
    uint32_t level;
    const char *program;  /* the command line, cut after some 200 bytes */
    const char *platform; /* of its chips */
    bool is_other_build;  /* its library is not this one: nothing below is known */
    uint32_t child_count;
    const struct pto_watch_child *child;
};

/* Gets one worker. */
typedef void (*pto_watch_fn)(void *context, const struct pto_watch_worker *worker);

/*
 * Calls the function for each worker, by process number. A snapshot of each child, not
 * of all at one moment. Returns how many, or PTO_ESYSTEM: there is no /proc; PTO_ENOMEM.
 */
int pto_watch_workers(pto_watch_fn visit, void *context);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

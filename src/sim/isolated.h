/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of an isolated chip: a simulated chip in the program `pto-child`.
 *
 *     host                                         pto-child
 *     isolated_runs.c    --- runs, a request at a time --->  main thread: runs
 *     isolated_memory.c  --- side, beside it ------------->  second thread: memory, code, cancel
 *     isolated.c         <-- exit report ------------------  the thread that ends the process
 *     pwrite, pread --> a file without a name <-------  device memory, mapped
 *
 * Both lines and the report are in a small control memory, which both have mapped. The file with the device's memory is
 * not mapped here, so nothing that a kernel does to memory reaches the host, but for the control memory,
 * where everything is copied and checked. The addresses at which the program has the file are kept free in
 * the host, so that an address is either the host's or a device's, and of one device only.
 *
 * The program watches the host and ends with it. A thread here, the watcher, waits for the end of the program and wakes
 * those who wait for an answer. The first of them takes down how it ended.
 */
#ifndef PTO_ISOLATED_H
#define PTO_ISOLATED_H

#include <pthread.h>

#include "base/arena.h"
#include "base/atomic.h"
#include "chip/backend.h"
#include "link/watcher.h"
#include "sim/isolated_wire.h"

enum {
    ISOLATED_ANSWER_SECONDS = 10, /* for anything but runs, also while a run is going on */
    ISOLATED_WORK_SECONDS = 60,   /* for what may take its time, unless the program is stopped */
    ISOLATED_LATE_SECONDS = 1,    /* for a run whose time and grace are over */
};

/* How long to wait. Seconds during which the waiting process itself is stopped do not count. */
struct isolated_patience {
    struct isolated *iso;
    uint32_t seconds;
    uint32_t stopped_seconds; /* the same while the other one is stopped by a signal; 0: no less */
    bool looks;               /* whether it is stopped */
    uint64_t deadline_ns;     /* by os_now_ns: from then on it must not be stopped; 0: it may be */
};

/* Milliseconds of a second of patience; tests make it shorter, while others wait. */
extern struct a32 sim_isolated_second_ms;

/* Both directions of a line, for one request at a time: under the lock. */
struct isolated_channel {
    pthread_mutex_t lock;
    struct line *line;
    uint64_t key;         /* of the last request */
    bool is_late;         /* who is asked whether it moves has little time */
    uint64_t deadline_ns; /* and must not be stopped from then on; 0: it may be */
    struct payload out;
    struct payload in;
};

struct isolated_piece;
struct sim_record;

/* The name of a source file, kept while the chip is open. */
struct isolated_name {
    struct isolated_name *next;
    char text[];
};

struct isolated {
    struct chip base;
    pid_t opener; /* a child of it has no part in this */
    struct endpoint process;
    struct watcher watcher;
    struct spin_policy spin_policy;
    int memory;                       /* file of the device's memory */
    struct isolated_control *control; /* mapped; damaged by kernels, maybe */
    struct isolated_channel run;
    struct isolated_channel side;

    pthread_mutex_t memory_lock;
    struct isolated_piece *piece; /* list of allocations */
    char *range; /* where the file is mapped over there; here nothing can be there */
    uint64_t range_bytes;

    struct a32 has_ended; /* the run that was started last */
    bool is_lost;         /* a kernel of a run never returned */
    uint64_t deadline_ns; /* of that run; 0: none */
    uint64_t grace_ns;    /* after that */
    struct chip_result result;
    struct pto_run_report report;
    uint64_t traced;             /* the run that was recorded last; 0: none */
    uint64_t record_addr;        /* of the program's struct sim_record */
    struct sim_record *recorded; /* a copy of it, as it was asked for last */

    pthread_mutex_t name_lock;
    struct isolated_name *names;

    pthread_mutex_t end_lock; /* what follows, which does not change once is_gone */
    struct a32 is_gone;
    struct failure end; /* why */
    uint64_t end_ns, end_cycles;
    bool is_end_told; /* by the report of a run */
    struct stall end_kernels;
};

static inline struct isolated *isolated_of(struct chip *chip)
{
    return (struct isolated *)(void *)chip;
}

/*
 * isolated_wait.c: waits for a record, or for room, with a struct isolated_patience: PTO_ETIMEOUT, PTO_EPEER: the process
 * has ended. PTO_ECANCELED: it was stopped, by a signal, when it must not be. PTO_ESTALL: it was stopped for
 * stopped_seconds.
 */
int sim_isolated_await(void *patience, struct line *l, bool for_room);
/* Until the process has ended; false: it has not, after so long. */
bool sim_isolated_await_end(struct isolated *iso, uint32_t seconds);

/*
 * isolated.c: a request and its answer, under the channel's lock. The payload of the request
 * is the channel's `out`, that of the answer its `in`. Returns the answer's status.
 * PTO_EPEER: the chip has gone, by this call or before.
 */
int sim_isolated_call(struct isolated *iso, struct isolated_channel *c, struct record_head head,
                      uint64_t *value_out);
/* The program has gone, or is to: how ends up in `end`. */
void sim_isolated_bury(struct isolated *iso, enum peer_end end, uint64_t value);
/* The same for what waiting, sending or receiving returned. */
void sim_isolated_bury_for(struct isolated *iso, int status,
                           const struct isolated_patience *patience);
/* A status for what cannot be done any more, with a sentence. */
int sim_isolated_tell_gone(struct isolated *iso, struct pto_error *error);
/* The answer's sentence. */
int sim_isolated_tell(struct isolated_channel *c, int status, struct pto_error *error);
/* Whether the calling process is the one that opened the chip. */
bool sim_isolated_is_ours(const struct isolated *iso);

static inline bool isolated_is_gone(const struct isolated *iso)
{
    return a32_load_acquire(&iso->is_gone) != 0;
}

/* isolated_memory.c */
extern const struct chip_memory_ops sim_isolated_memory_ops;
void sim_isolated_forget_memory(struct isolated *iso);

/* isolated_record.c: an operation of the backend. */
int sim_isolated_record(struct chip *chip, struct chip_record *out);
void sim_isolated_forget_record(struct isolated *iso);

/* isolated_runs.c */
extern const struct chip_run_ops sim_isolated_run_ops;
void sim_isolated_forget_runs(struct isolated *iso);
/* The same text for as long as the chip is open; NULL if there is no memory. */
const char *sim_isolated_intern(struct isolated *iso, const char *text);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of an isolated chip: a simulated chip in the program `pto-child`.
 *
 *     host                                         pto-child
 *     isolated_runs.c    --- runs, a request at a time --->  main thread: runs
 *     isolated_memory.c  --- side, concurrently ---------->  second thread: memory, code, cancel
 *     isolated.c         <-- exit report ------------------  the thread that ends the process
 *     pwrite, pread --> a file without a name <-------  device memory, mapped
 *
 * Both lines and the report are in a small control memory, which both processes have mapped. The
 * file with the device's memory is not mapped here, so a kernel can damage only the control memory
 * of the host, from which everything is copied and checked. The addresses at which the program has
 * the file are kept free in the host, so that an address belongs either to the host or to exactly
 * one device.
 *
 * The program watches the host and ends with it. A thread here, the watcher, waits for the end of
 * the program and wakes the threads that wait for an answer. The first of them records how it
 * ended.
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
    /* time limit for the answer to any request except a run, even during a run */
    ISOLATED_ANSWER_SECONDS = 10,
    /*
     * limit for the answer to a request that may take long; while the process is stopped by a
     * signal, ISOLATED_ANSWER_SECONDS applies
     */
    ISOLATED_WORK_SECONDS = 60,
    /* limit for the answer to a run after its deadline and grace */
    ISOLATED_LATE_SECONDS = 1,
};

/*
 * Time limits of a wait for the child process. Seconds during which this process itself is stopped
 * by a signal do not count.
 */
struct isolated_limits {
    struct isolated *iso;
    uint32_t seconds;
    /* shorter limit if the other process is stopped by a signal; 0: `seconds` applies */
    uint32_t stopped_seconds;
    bool looks; /* during the wait, check whether the child process is stopped by a signal */
    /* if the child process is stopped, the wait ends at this time of os_now_ns; 0: it does not */
    uint64_t deadline_ns;
};

/*
 * Length in milliseconds of each second in the limits: 1000. Tests reduce it, also during a wait.
 */
extern struct a32 sim_isolated_second_ms;

/*
 * A line, with requests one way and answers the other. It carries one request at a time; a thread
 * holds the lock from its request to the answer.
 */
struct isolated_channel {
    pthread_mutex_t lock;
    struct line *line;
    uint64_t key; /* key of the last request on this channel */
    /* the run is past its deadline, so answers to progress requests are awaited only briefly */
    bool is_late;
    uint64_t deadline_ns; /* if the process is stopped, waits end at this time; 0: they do not */
    struct payload out;
    struct payload in;
};

struct isolated_piece;
struct sim_record;

/* The name of a source file, which is kept as long as the chip is open. */
struct isolated_name {
    struct isolated_name *next;
    char text[];
};

struct isolated {
    struct chip base;
    pid_t opener; /* process that opened the chip; a forked child must not use it */
    struct endpoint process;
    struct watcher watcher;
    struct spin_policy spin_policy;
    int memory; /* descriptor of the file that is the device's memory */
    /* control memory, mapped in both processes; kernels may have damaged it */
    struct isolated_control *control;
    struct isolated_channel run;
    struct isolated_channel side;

    pthread_mutex_t memory_lock;
    struct isolated_piece *piece; /* list of allocations of device memory, under memory_lock */
    /* address of the file in the child process; the host keeps this range free */
    char *range;
    uint64_t range_bytes;

    struct a32 has_ended; /* the run that was started last has ended */
    bool is_lost;         /* a kernel never returned, so the chip takes no more runs */
    uint64_t deadline_ns; /* deadline of the run that was started last; 0: none */
    uint64_t grace_ns;    /* grace of that run, after its deadline */
    struct chip_result result;
    struct pto_run_report report;
    uint64_t traced;      /* number of the run that was recorded last; 0: none */
    uint64_t record_addr; /* address, in the child process, of its struct sim_record */
    /* copy of the child's struct sim_record, as of the last request for a record */
    struct sim_record *recorded;

    pthread_mutex_t name_lock;
    struct isolated_name *names;

    /* protects the fields below, which do not change any more once is_gone is set */
    pthread_mutex_t end_lock;
    struct a32 is_gone;
    struct failure end; /* why the process ended */
    uint64_t end_ns, end_cycles;
    bool is_end_reported; /* some run has already failed because the process ended */
    struct stall end_kernels;
    /* source lines of the code that ended the process: a kernel or the orchestration */
    struct source_lines end_lines;
};

static inline struct isolated *isolated_of(struct chip *chip)
{
    return (struct isolated *)(void *)chip;
}

/*
 * isolated_wait.c: waits for a record, or for room for one, within a struct isolated_limits.
 * PTO_ETIMEOUT: the time is over. PTO_EPEER: the process has ended. PTO_ECANCELED: the process was
 * stopped by a signal after the deadline of the limits. PTO_ESTALL: it was stopped for
 * stopped_seconds.
 */
int sim_isolated_await(void *limits, struct line *l, bool for_room);
/* Waits until the process has ended; false: it has not ended within this time. */
bool sim_isolated_await_end(struct isolated *iso, uint32_t seconds);

/*
 * isolated.c: sends a request and waits for its answer. The caller holds the channel's lock. The
 * request's payload is the channel's `out`, the answer's payload its `in`. Returns the status of
 * the answer. PTO_EPEER: the process has ended.
 */
int sim_isolated_call(struct isolated *iso, struct isolated_channel *c, struct record_head head,
                      uint64_t *value_out);
/* Marks the program as dead and kills it; the field `end` records how it ended. */
void sim_isolated_mark_dead(struct isolated *iso, enum peer_end end, uint64_t value);
/* Marks the process as dead if a status that waiting, sending or receiving returned says so. */
void sim_isolated_mark_dead_for(struct isolated *iso, int status,
                                const struct isolated_limits *limits);
/*
 * Sets the error of a call that is impossible because the process has ended, and returns its
 * status.
 */
int sim_isolated_error_gone(struct isolated *iso, struct pto_error *error);
/* Sets the error from the text of an answer. */
int sim_isolated_error_set(struct isolated_channel *c, int status, struct pto_error *error);
/* Whether the calling process is the one that opened the chip. */
bool sim_isolated_is_ours(const struct isolated *iso);

static inline bool isolated_is_gone(const struct isolated *iso)
{
    return a32_load_acquire(&iso->is_gone) != 0;
}

/* The following is defined in isolated_memory.c. */
extern const struct chip_memory_ops sim_isolated_memory_ops;
void sim_isolated_forget_memory(struct isolated *iso);

/* isolated_record.c: the backend's operation that returns the record of the last recorded run. */
int sim_isolated_record(struct chip *chip, struct chip_record *out);
void sim_isolated_forget_record(struct isolated *iso);

/* The following is defined in isolated_runs.c. */
extern const struct chip_run_ops sim_isolated_run_ops;
void sim_isolated_forget_runs(struct isolated *iso);
/* Returns a copy of the text that lives until the chip is closed; NULL: out of memory. */
const char *sim_isolated_intern(struct isolated *iso, const char *text);

#endif

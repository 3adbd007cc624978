/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of an isolated chip: a simulated chip in the program `pto-chip`.
 *
 *     host                                      pto-chip
 *     far_runs.c    --- run, a request at a time --->  main thread: runs
 *     far_memory.c  --- side, beside it ------------>  second thread: memory, code, cancel
 *     far.c         <-- pipe: last will -------------  whoever ends the process
 *     pwrite, pread --> a file without a name <------  device memory, mapped
 *
 * The file is not mapped here, so nothing that a kernel does to memory reaches the
 * host. The addresses at which the program has it are kept free in the host, so that an
 * address is either the host's or a device's, and of one device only.
 *
 * The program watches the host and ends with it; the host watches the program through a
 * descriptor of the process, so that neither depends on who else has a copy of the
 * sockets. Whoever notices first that the program has gone takes down how.
 */
#ifndef PTO_FAR_H
#define PTO_FAR_H

#include <pthread.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/atomic.h"
#include "chip/backend.h"
#include "sim/far_wire.h"

enum {
    FAR_ANSWER_SECONDS = 10, /* for anything but runs, also while a run is going on */
    FAR_WORK_SECONDS = 60,   /* for what may take its time, unless the program is stopped */
    FAR_LATE_SECONDS = 1,    /* for a run whose time and grace are over */
};

/* Both directions of a socket, for one request at a time: under the lock. */
struct far_channel {
    pthread_mutex_t lock;
    int socket;
    bool is_late;         /* who is asked whether it moves has little time */
    uint64_t deadline_ns; /* and must not be stopped from then on; 0: it may be */
    struct far_bytes out;
    struct far_bytes in;
};

struct far_piece;
struct sim_record;

/* The name of a source file, kept while the chip is open. */
struct far_name {
    struct far_name *next;
    char text[];
};

/* The program, as whoever starts and ends it sees it. */
struct far_process {
    pid_t pid;
    int descriptor; /* of the process: readable once it has ended */
    int run;        /* sockets */
    int side;
    int will; /* pipe */
    int memory;
    /*
     * Copies of the program's ends of both sockets: a socket whose other end has gone would
     * wake its reader a moment before the process has ended, and once more when it has.
     */
    int peer_run;
    int peer_side;
};

struct far {
    struct chip base;
    pid_t opener; /* a child of it has no part in this */
    struct far_process process;
    struct far_channel run;
    struct far_channel side;

    pthread_mutex_t memory_lock;
    struct far_piece *piece; /* list of allocations */
    char *range;             /* where the file is mapped over there; here nothing can be there */
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
    struct far_name *names;

    pthread_mutex_t end_lock; /* what follows, which does not change once is_gone */
    struct a32 is_gone;
    struct failure end; /* why */
    uint64_t end_ns, end_cycles;
    bool is_end_told; /* by the report of a run */
    struct stall end_kernels;
};

static inline struct far *far_of(struct chip *chip)
{
    return (struct far *)(void *)chip;
}

/* far_process.c: PTO_ENOSUP, PTO_ESYSTEM, PTO_ENOMEM with a sentence; nothing is left then. */
int sim_process_start(uint64_t memory_bytes, struct far_process *out, struct pto_error *error);
/* Kills it if it is still there, waits for its end; true: *status_out is waitpid's. */
bool sim_process_end(struct far_process *process, bool is_killed, int *status_out);
void sim_process_close(struct far_process *process); /* the descriptors */

/*
 * far.c: a request and its answer, under the channel's lock. The payload of the request
 * is the channel's `out`, that of the answer its `in`. Returns the answer's status.
 * PTO_EPEER: the chip has gone, by this call or before.
 */
int sim_far_call(struct far *f, struct far_channel *c, struct far_head head, uint64_t *value_out);
/* The program has gone, or is to: how ends up in `end`. */
void sim_far_bury(struct far *f, enum peer_end end, uint64_t value);
/* A status for what cannot be done any more, with a sentence. */
int sim_far_tell_gone(struct far *f, struct pto_error *error);
/* The answer's sentence. */
int sim_far_tell(struct far_channel *c, int status, struct pto_error *error);
/* Whether the calling process is the one that opened the chip. */
bool sim_far_is_ours(const struct far *f);

static inline bool far_is_gone(const struct far *f)
{
    return a32_load_acquire(&f->is_gone) != 0;
}

/* far_memory.c */
extern const struct chip_memory_ops sim_far_memory_ops;
void sim_far_forget_memory(struct far *f);

/* far_record.c: an operation of the backend. */
int sim_far_record(struct chip *chip, struct chip_record *out);
void sim_far_forget_record(struct far *f);

/* far_runs.c */
extern const struct chip_run_ops sim_far_run_ops;
void sim_far_forget_runs(struct far *f);
/* The same text for as long as the chip is open; NULL if there is no memory. */
const char *sim_far_intern(struct far *f, const char *text);

#endif

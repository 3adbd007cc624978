/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backend for real chips, through the vendor's libraries, which only this folder uses.
 *
 *     vendor.c         the libraries: a table of functions, versions, codes, a log of calls
 *     driver_thread.c  the threads that call them
 *     cann.c           open and close: ACL, device, streams, memory of the engine
 *     bring_up.c       brings the scheduler program up: dispatcher, registration, register windows
 *     cann_memory.c, cann_code.c, cann_runs.c    the rest of the contract; for runs also
 *     cann_cores.c, cann_failures.c, cann_graphs.c, cann_record.c
 *     cann_build.c    graphs that the host builds
 *     cann_window.c, cann_mc2.c    windows that other cards can access, in three ways
 *     device/      the programs that run on the card
 *
 * Everything that was never verified on hardware is listed in docs/internals/onboard.md, with the
 * function that holds the assumption.
 */
#ifndef PTO_CANN_H
#define PTO_CANN_H

#include <limits.h>
#include <pthread.h>

#include "base/atomic.h"
#include "cann/driver_thread.h"
#include "cann/device/message.h"
#include "cann/vendor.h"
#include "chip/backend.h"
#include "wire/board.h"

/* Differences between generations of the chip: a row of the table in generations.c. */
struct cann_generation {
    const char *name;
    const char *const *soc; /* prefixes of the names of the generation's chips; NULL-terminated */
    uint32_t bell_offset;
    uint32_t cond_offset;
    /* register to which fast_open and fast_close are written; 0: the generation has none */
    uint32_t fast_offset;
    uint32_t fast_open;
    uint32_t fast_close;
    uint32_t cores; /* clusters of a die, including those that are disabled in some products */
    /* device type in a request for MC2 windows (cann_mc2.c); 0: the generation cannot have them */
    uint8_t mc2_device;
    /*
     * Maps the registers of all cores: base[] receives the addresses of the cores' register
     * windows. Returns a vendor's code, and the name of the failed call.
     */
    int (*map_windows)(struct vendor *v, uint32_t card, uint32_t cores, uint64_t *base,
                       const char **call_out);
};

const struct cann_generation *cann_generation_find(const char *name);

/* A program for the card, as read from its file. */
struct cann_program {
    char *bytes;
    size_t size;
};

struct cann_allocation {
    uint64_t addr;
    uint64_t bytes;
    /*
     * address that the vendor returned, at or before `addr`; NULL: a registered window, which its
     * owner frees
     */
    void *block;
};

/* A built graph that the program keeps for later launches. */
struct chip_graph {
    struct chip_graph *next; /* next in the list of graphs that were dropped */
    /* number by which the scheduler names the graph, once the scheduler has the graph */
    uint64_t handle;
    uint64_t memory; /* the graph's memory on the card */
    /* memory of the graph's outputs on the card, if the host has built the graph */
    uint64_t outputs;
    /*
     * bytes of a graph that was copied to the card and that the scheduler has not yet validated and
     * taken over; else 0
     */
    uint64_t sent_bytes;
};

struct cann_host_code;

/* The build of a graph on the host. There is one build at a time. */
struct cann_build {
    /*
     * simulated chip that runs the orchestration, protected by request_lock; NULL: none yet, or the
     * last one was lost
     */
    struct chip *builder;
    struct orch_elsewhere elsewhere;
    struct pto_run_options options;
    struct chip_request request;
    struct built_graph *built; /* the graph that is being built; its arrays are in `stage` */
    /* copy, in host memory, of the bytes that the graph will have on the card */
    char *stage;
    uint64_t stage_max;
    uint64_t used;
    uint64_t addr;           /* address that the graph will have on the card */
    uint64_t ns;             /* duration of the build */
    struct chip_graph *kept; /* the graph to keep; NULL: the graph is launched once */
};

/*
 * A run from its start to its report. Each of the BOARD_RUNS entries has its own memory on the
 * card, because a run is launched while the previous one executes. Runs use the entries in turn,
 * and end in the order of their starts.
 */
struct cann_run {
    const struct chip_request *request;
    uint64_t message; /* address of the run's message on the card */
    char *image;      /* copy of the message in host memory */
    void *ended;      /* event that the vendor records when the scheduler has finished */
    void *dismissed;  /* event that the vendor records when the cores have finished */
    /* number of the run's call of the scheduler, which the scheduler's answer repeats */
    uint32_t sequence;
    bool is_launched;
    /* the host builds its graph and then launches it; no other run is started in the meantime */
    bool is_building;
    struct chip_time time;
    uint64_t ranges; /* address on the card of the memory ranges that tasks may name */
    uint64_t ranges_bytes;
    /* value of cann.allocation_version at the last copy of the ranges to the card */
    uint64_t ranges_version;
    uint64_t range_count;
    /* longest time without a heartbeat of the scheduler before the run is given up */
    uint64_t silence_ns;
    /* time at which the host gives up the run, a margin after its time-out; UINT64_MAX: never */
    uint64_t deadline_ns;
    uint64_t begin_ns;
    uint64_t graph_bytes; /* bytes of the graph that the run has built on the card */
    struct chip_result result;
    struct pto_run_report report;
    char names[MESSAGE_NAMES * MESSAGE_NAME]; /* names of the source files in the run's result */
};

struct cann {
    struct chip base;
    struct vendor vendor;
    const struct cann_generation *generation;
    uint32_t card;
    void *context; /* context of the device; driver threads are bound to it */
    bool has_acl;
    bool has_device;
    void *stream; /* stream on which the scheduler is launched */
    /*
     * stream of the cores: separate from the scheduler's, because the scheduler waits for the cores
     */
    void *core_stream;
    void *binary;   /* handle of the scheduler's registration */
    void *function; /* handle of the scheduler's function */
    struct cann_program executor;
    void *core_binary;   /* handle of the cores' program, registered at the first launch and kept */
    void *core_function; /* handle of the cores' function; NULL if core_program is used */
    /* handle of the cores' program, if the vendor registered the whole program in one call */
    void *core_program;
    bool is_code_new; /* kernels were uploaded since core_stream was made */
    uint64_t sync;    /* address by which cores of a cluster signal each other; 0: unknown */
    uint64_t board;   /* address of struct board on the card */
    uint64_t message; /* buffer on the card for calls other than runs */
    uint64_t engine;
    uint64_t engine_bytes;
    uint64_t heap;
    uint64_t heap_bytes;
    uint64_t memory_max;
    uint32_t sequence; /* number of the latest call of the scheduler */
    /*
     * number of programs that were described to the vendor; the log has one stage for each program
     */
    uint32_t stages;
    uint32_t machine; /* ELF machine number of the control processor */
    /*
     * Path of a file to remove after the call that reads it, or when the device is closed; "":
     * none.
     */
    char description[PATH_MAX];

    /* held while guards are checked: no allocation is freed then */
    pthread_mutex_t guard_lock;
    /* protects the fields down to allocation_version, and `dropped` */
    pthread_mutex_t memory_lock;
    struct cann_allocation *allocation; /* allocations on the card, sorted by address */
    uint32_t allocation_count, allocation_max;
    uint64_t allocation_version; /* incremented when an allocation is made or freed */

    /* State of runs. One thread may start a run while another one waits for the previous run. */
    struct cann_run run[BOARD_RUNS];
    struct a32 starts; /* number of runs that were started */
    /*
     * number of runs that have ended; the release store that increments it publishes the results of
     * the card
     */
    struct a32 ends;
    /* number of launches of the cores, from which the tags of launches are made */
    uint32_t launches;
    uint64_t record; /* address of the record on the card; 0: no run was recorded yet */
    uint64_t record_bytes;
    struct board_run room; /* layout of the record on the card */
    char *recorded;        /* copy in host memory of the last record; NULL: none */
    /*
     * ring buffers of trace records: the scheduler's, and an empty one that stands for a second
     * worker
     */
    struct trace_ring ring[2];
    const struct trace_ring *ring_list[2];
    uint64_t end_ns;            /* time at which the recorded run ended */
    struct chip_graph *dropped; /* graphs that the next run frees on the card; under memory_lock */
    struct cann_build build;

    pthread_mutex_t driver_thread_lock; /* protects the fields down to is_trouble_reported */
    struct driver_thread *idle;
    char trouble[PTO_ERROR_TEXT_MAX]; /* how the device was lost; the first reason is kept */
    struct a32 is_trouble_reported;   /* a run has reported the loss */

    /* number of references: the opener's, and one for each driver thread that was given up */
    struct a32 users;
    /* held during calls of the scheduler and launches, which are made one at a time */
    pthread_mutex_t lock;
    pthread_mutex_t request_lock; /* protects the builder, and `requests` */
    struct board_requests requests;
    /*
     * number of the run that was started last; other threads only compare this number with an
     * earlier value
     */
    struct a64 number;
    struct a32 is_lost;   /* no more runs are started, and cann_close resets the card */
    struct a32 is_silent; /* a vendor's call has not returned: no further calls are made */
    struct a32 is_untidy; /* some memory was not released: close resets the card, which frees it */
};

static inline struct cann *cann_of(struct chip *chip)
{
    return (struct cann *)(void *)chip;
}

static inline bool cann_is_lost(struct cann *c)
{
    return a32_load_relaxed(&c->is_lost) != 0; /* relaxed: the flag publishes no data */
}

/* Whether a run was started that has not ended yet. */
static inline bool cann_is_busy(struct cann *c)
{
    return a32_load_acquire(&c->ends) !=
           /*
            * acquire: pairs with the release that ends a run; `starts` is read under the lock or as
            * a hint
            */
           a32_load_relaxed(&c->starts);
}

/*
 * Marks the device lost: from now on only close uses the card. Sets the error, whose text is kept
 * as the reason. Returns PTO_ELOST.
 */
int cann_lose(struct cann *c, struct pto_error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Sets the error to the reason why the device was lost, and returns PTO_ELOST. */
int cann_refuse(struct cann *c, struct pto_error *error);
/* Adds a reference. cann_release drops one, and frees the struct with the last. */
void cann_keep(struct cann *c);
void cann_release(struct cann *c);
/*
 * Sets an error for a vendor's code: the call, the code and its meaning. Returns the status that
 * stands for the code. Marks the device lost if the code means that.
 */
int cann_error_set(struct cann *c, struct pto_error *error, const char *call, int code,
                   const char *doing);
/* Like cann_error_set, and always marks the device lost. */
int cann_lose_by(struct cann *c, struct pto_error *error, const char *call, int code,
                 const char *doing);
/*
 * Allocates device memory for the backend itself, which is not in the table of allocations. Returns
 * a vendor's code.
 */
int cann_take(struct cann *c, uint64_t bytes, uint64_t *addr_out);
int cann_give_back(struct cann *c, uint64_t addr);
int cann_upload(struct cann *c, uint64_t addr, const void *from, uint64_t bytes);
int cann_download(struct cann *c, uint64_t addr, void *to, uint64_t bytes);

/* The following is defined in bring_up.c. */
/*
 * Reads the file of this name in the folder that PTO_CANN_PROGRAMS names, or in the folder of the
 * library.
 */
int cann_program_read(const char *name, struct cann_program *out, struct pto_error *error);
int cann_bring_up(struct cann *c, struct pto_error *error);
/*
 * Removes the description file. Called by the driver thread that opens the device, or, when that
 * thread was given up or has ended, by close.
 */
void cann_drop_description(struct cann *c);
/*
 * Sends a request to the scheduler, and waits for its answer. PTO_OK, the scheduler's status with
 * its error, or the status for a vendor's code.
 */
int cann_call(struct cann *c, enum board_op op, uint64_t value, const void *message, uint64_t bytes,
              struct board_answer *answer, struct pto_error *error);
/* Launches a request to the scheduler without waiting for its answer. Returns a vendor's code. */
int cann_launch_call(struct cann *c, enum board_op op, uint64_t value, uint64_t message,
                     uint64_t bytes);

/* The following is defined in cann_memory.c. */
extern const struct chip_memory_ops cann_memory_ops;
/* Frees the memory of all allocations. Returns a vendor's code. */
int cann_release_memory(struct cann *c);
/*
 * Registers a window, of this card or of a peer, as memory that tasks may name, or unregisters it.
 */
int cann_register_memory(struct cann *c, uint64_t addr, uint64_t bytes);
void cann_unregister_memory(struct cann *c, uint64_t addr);

/* The following is defined in cann_window.c. */
extern const struct chip_window_ops cann_window_ops;

/* cann_mc2.c: windows of the vendor's communication library. */
struct cann_mc2 {
    void *comm;
    void *stream;
};
/* Makes the offer of rank 0, by which the other ranks connect to it. */
int cann_mc2_offer(struct cann *c, uint32_t rank, struct chip_offer *offer,
                   struct pto_error *error);
/*
 * Makes the communicator, and fills in[] and out[] of the window. Collective: returns when all
 * ranks have joined. The own window is not zeroed.
 */
int cann_mc2_join(struct cann *c, struct cann_mc2 *m, struct chip_window *window,
                  const struct chip_offer *root, struct pto_error *error);
int cann_mc2_drop(struct cann *c, struct cann_mc2 *m, struct pto_error *error);

/* cann_graphs.c, on a driver thread: frees the graphs in `dropped`. No run executes. */
void cann_drop_graphs(struct cann *c);

/* The following is defined in cann_code.c, cann_cores.c and cann_runs.c. */
extern const struct chip_run_ops cann_run_ops;
int cann_load(struct chip *chip, const struct chip_program *program, struct chip_code **code_out,
              struct pto_error *error);
void cann_unload(struct chip *chip, struct chip_code *code);
uint64_t cann_code_handle(const struct chip_code *code);
/* The code for orchestrations on the host; NULL: the callable's orchestration runs on the card. */
const struct cann_host_code *cann_code_host(const struct chip_code *code);

/*
 * On a driver thread: launches the cores, which start and end without a job. Only for `pto
 * selfcheck`.
 */
int cann_meet(struct cann *c, struct pto_error *error);
/* On a driver thread: writes to the log what the cores and the scheduler have left on the board. */
void cann_note_board(struct cann *c);

/* The following is defined in cann_build.c. */
/* Loads an orchestration that runs on the host, and whose kernels run on the card. */
int cann_host_load(const struct chip_program *program, const struct board_load *load,
                   struct cann_host_code **code_out, struct pto_error *error);
/* Unloads code that cann_host_load returned. Accepts NULL. */
void cann_host_unload(struct cann_host_code *code);
/* Starts the orchestration on the builder, a simulated chip in this process. */
int cann_build_start(struct cann *c, const struct chip_request *request,
                     const struct cann_host_code *code, struct pto_error *error);
/*
 * Runs the orchestration on the calling thread. True: the graph is in `stage` of struct cann_build,
 * and its memory on the card is chosen. False: the reason is in the run's result or in `error`.
 */
bool cann_build_wait(struct cann *c, struct cann_run *r, struct pto_error *error);
void cann_build_close(struct cann *c);

#endif

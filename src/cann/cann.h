/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real chips, through the vendor's libraries; the only folder that knows them.
 *
 *     vendor.c     the libraries: a table of functions, versions, codes, a log of calls
 *     agent.c      the threads that call them
 *     cann.c       open and close: ACL, device, streams, memory of the engine
 *     boot.c       brings the scheduler program up: dispatcher, registration, register windows
 *     cann_memory.c, cann_code.c, cann_runs.c    the rest of the contract; of runs also
 *     cann_cores.c, cann_failures.c, cann_graphs.c, cann_record.c
 *     cann_build.c    graphs that the host builds
 *     cann_window.c, cann_mc2.c    windows that other cards reach, in three ways
 *     device/      the programs that run on the card
 *
 * Everything that was never verified on hardware is listed in docs/internals/onboard.md, with the function
 * that holds the assumption.
 */
#ifndef PTO_CANN_H
#define PTO_CANN_H

#include <limits.h>
#include <pthread.h>

#include "base/atomic.h"
#include "cann/agent.h"
#include "cann/device/message.h"
#include "cann/vendor.h"
#include "chip/backend.h"
#include "wire/board.h"

/* What generations differ in: a row of generations.c. */
struct cann_generation {
    const char *name;
    const char *const *soc; /* beginnings of the names of its chips; NULL-terminated */
    uint32_t bell_offset;
    uint32_t cond_offset;
    uint32_t fast_offset; /* 0: there is none */
    uint32_t fast_open;
    uint32_t fast_close;
    uint32_t cores;     /* clusters by nature, those included that a chip was sold without */
    uint8_t mc2_device; /* what a request for windows calls it; 0: there are none in this way */
    /* Fills base[] of the windows. A vendor's code, and the name of the call that gave it. */
    int (*map_windows)(struct vendor *v, uint32_t card, uint32_t cores, uint64_t *base,
                       const char **call_out);
};

const struct cann_generation *cann_generation_find(const char *name);

/* A program for the card, as bytes of a file. */
struct cann_program {
    char *bytes;
    size_t size;
};

struct cann_allocation {
    uint64_t addr;
    uint64_t bytes;
    void *block; /* what the vendor gave: it may begin earlier; NULL: it is a window */
};

/* A graph that is kept. */
struct chip_graph {
    struct chip_graph *next; /* of those that were dropped */
    uint64_t handle;         /* the scheduler's */
    uint64_t memory;         /* on the card */
    uint64_t outputs;        /* the same for outputs, of one that the host has built */
    uint64_t sent_bytes;     /* the scheduler has not taken it over yet; 0: it has */
};

struct cann_host_code;

/* A graph that the host builds, for one run at a time. */
struct cann_build {
    struct chip *builder; /* under the wishes' lock; NULL: not yet, or the last one was lost */
    struct orch_elsewhere elsewhere;
    struct pto_run_options options;
    struct chip_request request;
    struct built_graph *built; /* the builder's, which lies in the stage */
    char *stage;               /* as it will be on the card */
    uint64_t stage_max;
    uint64_t used;
    uint64_t addr;           /* on the card */
    uint64_t ns;             /* what it took */
    struct chip_graph *kept; /* NULL: it runs once */
};

/*
 * A run from its start to its report, with memory of its own on the card: the next one is launched
 * behind it. They take turns, and end in the order of their starts.
 */
struct cann_run {
    const struct chip_request *request;
    uint64_t message;  /* on the card */
    char *image;       /* of it, on this side */
    void *ended;       /* event: the scheduler is done with it */
    void *dismissed;   /* event: so are the cores */
    uint32_t sequence; /* of its call */
    bool is_launched;
    bool is_building; /* the host builds its graph, and launches it then; none is beside it */
    struct chip_time time;
    uint64_t ranges; /* on the card: what tasks may name */
    uint64_t ranges_bytes;
    uint64_t ranges_version; /* of the allocations that were sent */
    uint64_t range_count;
    uint64_t patience_ns; /* without a sign of life */
    uint64_t deadline_ns; /* with grace; UINT64_MAX: none */
    uint64_t begin_ns;
    uint64_t graph_bytes; /* that the graph needs which it has built */
    struct chip_result result;
    struct pto_run_report report;
    char names[MESSAGE_NAMES * MESSAGE_NAME]; /* of source files */
};

struct cann {
    struct chip base;
    struct vendor vendor;
    const struct cann_generation *generation;
    uint32_t card;
    void *context; /* of the device; agents are bound to it */
    bool has_acl;
    bool has_device;
    void *stream;      /* of the scheduler */
    void *core_stream; /* another one: the scheduler waits for the cores */
    void *binary;      /* of the scheduler's registration */
    void *function;    /* of it */
    struct cann_program executor;
    void *core_binary;   /* registered at the first launch, for good */
    void *core_function; /* of it; NULL if the following is not */
    void *core_program;  /* the same, registered as a whole */
    bool is_code_new;    /* kernels were uploaded since core_stream was made */
    uint64_t sync;       /* where cores signal each other; 0: unknown */
    uint64_t board;      /* struct board, on the card */
    uint64_t message;    /* a buffer there, for calls that are no runs */
    uint64_t engine;
    uint64_t engine_bytes;
    uint64_t heap;
    uint64_t heap_bytes;
    uint64_t memory_max;
    uint32_t sequence; /* of calls */
    uint32_t stages;   /* programs that were described to the vendor, for the log */
    uint32_t machine;  /* of the control processor, by its number in ELF */
    /* A file that is removed after the call that reads it; "": there is none. */
    char description[PATH_MAX];

    pthread_mutex_t guard_lock;         /* an allocation is not given back while it is looked at */
    pthread_mutex_t memory_lock;        /* what follows */
    struct cann_allocation *allocation; /* in the order of addresses */
    uint32_t allocation_count, allocation_max;
    uint64_t allocation_version; /* changes with them */

    /* Of runs: whoever starts one, and whoever waits for the one before it. */
    struct cann_run run[BOARD_RUNS];
    struct a32 starts; /* of runs */
    struct a32 ends;   /* of them; R: what the card made of them is here */
    uint32_t launches; /* of the cores: tags */
    uint64_t record;   /* on the card; 0: nothing was ever recorded */
    uint64_t record_bytes;
    struct board_run room; /* what is in it, and where */
    char *recorded; /* the same on this side, of the last run that was recorded; NULL: none */
    struct trace_ring ring[2]; /* the scheduler's; that of kernels without one, which is empty */
    const struct trace_ring *ring_list[2];
    uint64_t end_ns;            /* of the run that was recorded */
    struct chip_graph *dropped; /* under the memory's lock; given back by the next run */
    struct cann_build build;

    pthread_mutex_t agent_lock; /* what follows */
    struct agent *idle;
    char trouble[PTO_ERROR_TEXT_MAX]; /* how the device was lost; the first reason stays */
    struct a32 is_trouble_told;       /* by a run */

    struct a32 users;          /* whoever opened it, and agents that were given up */
    pthread_mutex_t lock;      /* calls of the scheduler, and launches: one at a time */
    pthread_mutex_t wish_lock; /* the builder, and what follows */
    struct board_wish wish;
    struct a64 number;    /* of the run that was started last; N: it is counted */
    struct a32 is_lost;   /* no more runs; the card is reset when it is closed */
    struct a32 is_silent; /* a call has not returned: no more calls, either */
    struct a32 is_untidy; /* something did not go back: close forces the card */
};

static inline struct cann *cann_of(struct chip *chip)
{
    return (struct cann *)(void *)chip;
}

static inline bool cann_is_lost(struct cann *c)
{
    return a32_load_relaxed(&c->is_lost) != 0; /* a hint: nothing else follows from it */
}

/* Whether a run was started that has not ended. */
static inline bool cann_is_busy(struct cann *c)
{
    return a32_load_acquire(&c->ends) !=
           a32_load_relaxed(&c->starts); /* R; starts: under the lock, or a hint */
}

/* From now on nothing is asked of the card until it is closed. Returns PTO_ELOST. */
int cann_lose(struct cann *c, struct pto_error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* PTO_ELOST, and how that came about. */
int cann_refuse(struct cann *c, struct pto_error *error);
/* Its memory lasts as long as it is kept. */
void cann_keep(struct cann *c);
void cann_release(struct cann *c);
/*
 * A sentence for a vendor's code: the call, the code, its meaning. Returns what it is for us. The
 * device may be lost by it.
 */
int cann_tell(struct cann *c, struct pto_error *error, const char *call, int code,
              const char *doing);
/* The same, and the device is lost by it, whatever the code alone would mean. */
int cann_lose_by(struct cann *c, struct pto_error *error, const char *call, int code,
                 const char *doing);
/* Device memory for ourselves, not in the table of allocations; a vendor's code. */
int cann_take(struct cann *c, uint64_t bytes, uint64_t *addr_out);
int cann_give_back(struct cann *c, uint64_t addr);
int cann_upload(struct cann *c, uint64_t addr, const void *from, uint64_t bytes);
int cann_download(struct cann *c, uint64_t addr, void *to, uint64_t bytes);

/* boot.c */
/* A program of this name in PTO_CANN_PROGRAMS, or beside the library. */
int cann_program_read(const char *name, struct cann_program *out, struct pto_error *error);
int cann_boot(struct cann *c, struct pto_error *error);
/* The agent that opens the device, or when it was given up or has ended. */
void cann_drop_description(struct cann *c);
/*
 * Asks the scheduler, and waits for its answer. PTO_OK, its status with its sentence, or that of a
 * vendor's code.
 */
int cann_call(struct cann *c, enum board_op op, uint64_t value, const void *message, uint64_t bytes,
              struct board_answer *answer, struct pto_error *error);
/* Launches it only. A vendor's code. */
int cann_launch_call(struct cann *c, enum board_op op, uint64_t value, uint64_t message,
                     uint64_t bytes);

/* cann_memory.c */
extern const struct chip_memory_ops cann_memory_ops;
/* A vendor's code. */
int cann_release_memory(struct cann *c);
/* A window, own or a peer's, becomes memory of the chip, or is that no more. */
int cann_adopt(struct cann *c, uint64_t addr, uint64_t bytes);
void cann_disown(struct cann *c, uint64_t addr);

/* cann_window.c */
extern const struct chip_window_ops cann_window_ops;

/* cann_mc2.c: windows of the vendor's own communication library. */
struct cann_mc2 {
    void *comm;
    void *stream;
};
/* What rank 0 offers: how the others come to it. */
int cann_mc2_offer(struct cann *c, uint32_t rank, struct chip_offer *offer,
                   struct pto_error *error);
/* Collective. Fills in[] and out[]; the own window is not zeroed. */
int cann_mc2_join(struct cann *c, struct cann_mc2 *m, struct chip_window *window,
                  const struct chip_offer *root, struct pto_error *error);
int cann_mc2_drop(struct cann *c, struct cann_mc2 *m, struct pto_error *error);

/* cann_graphs.c, on the agent: gives back what was dropped while runs went on. */
void cann_drop_graphs(struct cann *c);

/* cann_code.c, cann_cores.c, cann_runs.c */
extern const struct chip_run_ops cann_run_ops;
int cann_load(struct chip *chip, const struct chip_program *program, struct chip_code **code_out,
              struct pto_error *error);
void cann_unload(struct chip *chip, struct chip_code *code);
uint64_t cann_code_handle(const struct chip_code *code);
/* NULL: its orchestration runs on the card. */
const struct cann_host_code *cann_code_host(const struct chip_code *code);

/* On the agent: has the cores come and go without a job. Only for `pto selfcheck`. */
int cann_meet(struct cann *c, struct pto_error *error);
/* On the agent: what the cores and the scheduler left on the board, as lines of the log. */
void cann_note_board(struct cann *c);

/* cann_build.c */
/* With kernels that are on the card. */
int cann_host_load(const struct chip_program *program, const struct board_kernel *kernels,
                   uint32_t kernel_count, struct cann_host_code **code_out,
                   struct pto_error *error);
/* Accepts NULL. */
void cann_host_unload(struct cann_host_code *code);
/* Hands the orchestration to the builder. */
int cann_build_start(struct cann *c, const struct chip_request *request,
                     const struct cann_host_code *code, struct pto_error *error);
/*
 * Lends the calling thread to it. True: there is a graph in the stage, and a place for it. Else the
 * result tells what went wrong, or `error`, if that does not.
 */
bool cann_build_wait(struct cann *c, struct cann_run *r, struct pto_error *error);
void cann_build_close(struct cann *c);

#endif

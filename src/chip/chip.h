/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: what differs between chip generations is a row of data, what
 * differs between backends is one table of operations.
 */
#ifndef PTO_CHIP_H
#define PTO_CHIP_H

#include "chip/pace.h"
#include "graph/image.h"
#include "graph/ledger.h"
#include "port/port_sim.h"
#include "pto/run.h"
#include "sched/sched.h"

struct chip;

struct chip_params {
    uint32_t clusters;
    uint32_t workers;
    uint64_t memory_max;
};

/* One run, as the host hands it over. */
struct chip_job {
    void (*build)(void *arg); /* submits the tasks; may call chip_room */
    void *arg;
    const struct graph_kernel *kernels;
    uint64_t order_seed;
    uint32_t window;           /* live tasks before some are run */
    bool is_held;              /* nothing runs before build has returned */
    bool is_built_only;        /* nothing runs at all: the graph becomes an image */
    const struct image *image; /* not NULL: launched instead of building */
    struct pace *pace;         /* of its launches */
    uint64_t stall_ns;         /* without a kernel that starts or returns: the run fails */
    uint64_t deadline_ns;      /* UINT64_MAX: none */
    char *guard;               /* a page that the builder is not expected to read; NULL: none */
    size_t guard_bytes;
    bool *is_guard_hit;
    /* By the thread that submits, which then stops the run: it stalls, or its time is over. */
    void (*stalled)(void *arg, bool is_stall);
    enum pto_trace trace;
    uint32_t trace_records; /* per worker; a power of two */
    struct pto_run_report *report;
};

struct chip_ops {
    const char *name;

    /* On failure *chip_out is untouched. PTO_ENOMEM, PTO_ESYSTEM. */
    int (*open)(const struct chip_params *params, struct chip **chip_out);

    /* False: kernels that never return still use memory of the device's. */
    bool (*close)(struct chip *chip);

    /*
     * Calls build and returns when every task has completed; fills the report's
     * counts. PTO_ENOMEM: no memory for the recorder; nothing was run.
     */
    int (*run)(struct chip *chip, const struct chip_job *job);

    /* From inside build: runs tasks until there is room for more. */
    void (*room)(struct chip *chip);

    /* By the thread that submits: calls `each` for every kernel that is running. */
    void (*each_running)(struct chip *chip,
                         void (*each)(void *context, struct slot *slot, uint32_t core,
                                      uint32_t block),
                         void *context);
    /* Whether the task waits for cores together with its like. */
    bool (*is_queued)(struct chip *chip, const struct slot *slot);

    /* From inside build: runs tasks until the one in the slot has gone. PTO_OK or PTO_ETIMEOUT. */
    int (*wait)(struct chip *chip, uint32_t slot, uint32_t seq, uint64_t deadline_ns);
};

/* First member of every backend's own struct. */
struct chip {
    const struct chip_ops *ops;
    struct graph *graph;
    struct ledger *ledger;
    struct sched *sched;
    struct worker *submitter;
    uint32_t room_at;    /* live tasks at which the submitter is to call chip_room */
    uint32_t look_at;    /* task before which it is to do so, too, or soon after */
    struct aptr builder; /* the thread inside build, by its thread pointer; NULL: none */
    uint32_t clusters;
    bool is_lost;                /* a run ended without some of its kernels: no more runs */
    bool has_handler;            /* crashes are caught, and reads of a guard noticed */
    struct trace_ring *trace;    /* of invocations without a worker; NULL: nothing is recorded */
    const struct memory *memory; /* the budget of the engine's pools */
};

/* A platform that can be opened. */
struct chip_row {
    struct pto_platform platform;
    const struct chip_ops *ops;
};

extern const struct chip_ops chip_sim_ops;

/* Of the process: threads in kernels that no run waits for. */
extern struct a32 chip_stuck_threads;

/* NULL: no such platform, or none that can be opened. */
const struct chip_row *chip_find(const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chip, as the host uses it: the device, its memory, its code and runs. What a
 * backend has to provide is in chip/backend.h; these functions check what is common
 * to all of them and call it.
 *
 * The host never follows an address of device memory and never reaches behind a
 * struct chip. A run crosses this border as data, and so does what comes of it: the
 * orchestration may run in another process, or on another processor.
 *
 * Threads: alloc, free, write, read, contains, check, adopt, disown, cancel, poll, progress and drop may
 * be called from any thread at any time; load and unload from any thread while no run
 * uses the code. start, wait, report and record belong to one run at a time:
 * whoever calls them sees to that. Where the chip takes_next, another thread may start one more
 * run between the start and the report of one, unless either is recorded or builds a graph; wait and report
 * then come in the order of the starts, the next wait after the report of the run before.
 */
#ifndef PTO_CHIP_H
#define PTO_CHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/guard.h"
#include "orch/elsewhere.h"
#include "orch/run_message.h"
#include "port/trace.h"
#include "pto/pto.h"
#include "wire/failure.h"
#include "wire/kernel.h"
#include "wire/told.h"

struct chip;
struct chip_code;  /* loaded code; the backend's */
struct chip_graph; /* a built graph; the backend's */

struct chip_params {
    const char *backend;    /* "sim", "isolated", "null", "cann" */
    const char *generation; /* "a2a3": for backends that differ by it */
    uint32_t card;          /* which one of several, for real chips */
    uint32_t clusters;
    uint32_t workers; /* threads that run tasks; for chips that have cores it means nothing */
    uint64_t memory_max;
    /* Of a chip that only builds what runs elsewhere: where the outputs are there. 0: it has them itself. */
    uint64_t heap;
    uint64_t heap_bytes;
};

/* What does not change while a chip is open. */
struct chip_properties {
    const char *backend;
    uint32_t clusters;
    uint32_t aic_count;
    uint32_t aiv_count;
    uint32_t workers;
    bool shares_memory;    /* addresses of this process can be arguments of tasks */
    bool runs_functions;   /* code can be functions of this process: chip_request.functions */
    bool takes_next;       /* a run can be started while the one before it goes on */
    bool has_observers;    /* `edge` and `task` of the options are called */
    bool has_graphs;       /* CHIP_BUILD and CHIP_LAUNCH */
    bool has_recorder;     /* `trace` of the options */
    bool records_tasks;    /* the same with PTO_TRACE_ARGUMENTS, and diagnostics */
    bool has_guards;       /* those of the options */
    bool survives_crashes; /* a kernel that crashes fails its run, and nothing else */
    bool ends_stalls;      /* a run in which nothing moves fails, even if a kernel never returns */
};

/* ---- open, close ---- */

/* PTO_ENOSUP: no such backend; PTO_ENOMEM, PTO_ESYSTEM. On failure *chip_out is untouched. */
int chip_open(const struct chip_params *params, struct chip **chip_out, struct pto_error *error);
/* False: kernels that never return still use memory of the device's. Accepts NULL. */
bool chip_close(struct chip *chip);

/* In a process that was started for a chip (link/hello.h): its other side. Returns the exit code. */
int chip_serve(void);
const struct chip_properties *chip_properties(const struct chip *chip);
/* Whether the calling thread is inside an orchestration of the chip. */
bool chip_is_builder(struct chip *chip);

/* ---- memory ---- */

/*
 * `error` may be NULL. It is filled where a chip knows more than the status says, and left alone
 * otherwise: initialise it.
 */
/* PTO_ENOMEM. Aligned to 1024 bytes, with guards before and behind it. */
int chip_alloc(struct chip *chip, uint64_t bytes, uint64_t *addr_out, struct pto_error *error);
/* PTO_EMEMORY with a sentence; if guards were written to, it is freed all the same. */
int chip_free(struct chip *chip, uint64_t addr, struct pto_error *error);
/* Both ends inside one allocation, or PTO_EMEMORY. */
int chip_write(struct chip *chip, uint64_t addr, const void *from, uint64_t bytes,
               struct pto_error *error);
int chip_read(struct chip *chip, uint64_t addr, void *to, uint64_t bytes, struct pto_error *error);
/* Whether the address lies in an allocation. */
bool chip_contains(struct chip *chip, uint64_t addr);
/* Looks at every guard: PTO_EMEMORY with a sentence. */
int chip_check(struct chip *chip, struct pto_error *error);

/*
 * Memory of this process, or of others that have it mapped, becomes the chip's until it is
 * disowned: as an allocation, but without guards, and nobody frees it. It overlaps no
 * allocation. PTO_ENOSUP; PTO_ENOMEM.
 */
bool chip_can_adopt(const struct chip *chip);
int chip_adopt(struct chip *chip, uint64_t addr, uint64_t bytes);
/* With the address that was adopted, while no run uses it. */
void chip_disown(struct chip *chip, uint64_t addr);

/* ---- windows: memory of a chip that other chips reach, each in a process of its own ---- */

enum { CHIP_WINDOW_RANKS = 64, CHIP_OFFER_BYTES = 4112 };

/* How others come to a window: it crosses to their processes as bytes. */
struct chip_offer {
    uint32_t card;  /* as the driver counts them */
    uint32_t bytes; /* of `data` */
    uint8_t data[CHIP_OFFER_BYTES];
};

struct chip_window_request {
    uint32_t way; /* below chip_window_ways */
    uint32_t rank;
    uint32_t rank_count; /* up to CHIP_WINDOW_RANKS */
    uint64_t bytes;      /* of the window of each; not 0 */
};

/* Where the windows of all ranks are, for this chip; the first member of a backend's own struct. */
struct chip_window {
    uint64_t in[CHIP_WINDOW_RANKS];
    uint64_t out[CHIP_WINDOW_RANKS]; /* may be the same */
    uint64_t bytes;                  /* as asked for */
    uint32_t rank;
    uint32_t rank_count;
};

/* Whether it is worth while to go on waiting for others: asked from time to time. */
struct chip_patience {
    bool (*goes_on)(void *context);
    void *context;
};

/* Ways to share memory, the best one first. 0: windows are memory of the host's, to be adopted. */
uint32_t chip_window_ways(const struct chip *chip);
const char *chip_window_way(const struct chip *chip, uint32_t way);
/* Whether a join of this way waits until all ranks join. */
bool chip_window_waits(const struct chip *chip, uint32_t way);
/*
 * Makes the own window, zeroed, and says how others come to it. PTO_ENOSUP: there is no such way
 * here, and the next one may be tried; any other status is final.
 */
int chip_window_offer(struct chip *chip, const struct chip_window_request *request,
                      struct chip_window **window_out, struct chip_offer *offer,
                      struct pto_error *error);
/*
 * Once all ranks have offered: `offer` by rank, the own one included. The windows are memory of the
 * chip then, and zero when all ranks have joined. On failure the window is still to be dropped.
 * PTO_ETIMEOUT: patience has ended; the chip is lost if the vendor's software still waits.
 */
int chip_window_join(struct chip *chip, struct chip_window *window, const struct chip_offer *offer,
                     const struct chip_patience *patience, struct pto_error *error);
/* No rank uses it any more. Accepts NULL. PTO_OK, or what could not be given back. */
int chip_window_drop(struct chip *chip, struct chip_window *window, struct pto_error *error);

/* ---- code ---- */

/* Bytes of a shared object, for the cores or for what runs orchestrations. */
struct chip_object {
    const char *name;
    const void *bytes;
    size_t size;
};

struct chip_kernel {
    struct chip_object object;
    uint32_t func_id;
    uint32_t core_type; /* PTO_CORE_TYPES: either */
};

/* The code of a callable, to be loaded. Nothing of it is needed afterwards. */
struct chip_program {
    const char *name;
    enum pto_mode
        mode; /* on a real chip: whether the orchestration is for the host or for the chip */
    struct chip_object orchestration;
    const char *entry;  /* its function */
    const char *config; /* the one that tells what it expects; NULL or empty: none */
    const struct chip_kernel *kernels;
    uint32_t kernel_count;
};

/* A callable that is functions of this process, for chips that can call them. */
struct chip_functions {
    pto_orch_fn orchestration;
    void *context;                      /* pto_orch_context */
    const void *code;                   /* where the orchestration's own is; NULL: as above */
    guard_fn guard;                     /* NULL: nothing can throw here */
    const struct graph_kernel *kernels; /* by func_id */
    uint32_t kernel_count;
    bool keeps_signals; /* none of them changes which signals its thread blocks */
    bool is_whole_only; /* a host-built graph runs only if its orchestration has not failed */
};

/* PTO_ELOAD, PTO_ENOMEM with a sentence. */
int chip_load(struct chip *chip, const struct chip_program *program, struct chip_code **code_out,
              struct pto_error *error);
/* Accepts NULL. Code in which a kernel never returned stays loaded. */
void chip_unload(struct chip *chip, struct chip_code *code);

/* ---- runs ---- */

/* What it points to stays until the report was taken. */
struct chip_request {
    uint64_t number; /* from 1, and higher from run to run: for chip_cancel */
    enum chip_purpose purpose;
    struct chip_code *code;                 /* or */
    const struct chip_functions *functions; /* the other one is NULL */
    struct chip_graph *graph;               /* CHIP_LAUNCH */
    const struct pto_entry *entry;          /* tensors in device memory */
    const struct pto_run_options *options;  /* `rings` as they count, the environment included */
    bool has_rings;                         /* one of them is set */
    const struct orch_elsewhere *elsewhere; /* the graph is built only, for another chip; or NULL */
    uint64_t stall_ns;           /* without a kernel that starts or returns before the run fails */
    uint64_t launch_deadline_ns; /* of options->launch_timeout_ns, by os_now_ns; 0: none */
    /* In a child of fork: the run ends its process, and what it recorded can be had. May be NULL. */
    void (*last_will)(void *context);
    void *last_will_context;
};

/* How long a run may take. */
struct chip_time {
    uint64_t deadline_ns; /* by os_now_ns; UINT64_MAX: there is none */
    uint64_t ns;          /* what was asked for */
    bool is_from_launch;  /* the time in the queue is included */
};

/* For a backend's start: of both deadlines that a run may have, the one that comes first. */
struct chip_time chip_time_of(const struct chip_request *request);

/* The request as it crosses to a chip elsewhere; the entry's tensors and scalars are not in it. */
struct run_message chip_message_of(const struct chip_request *request);
/*
 * Copies options into or out of a message: each row of PTO_RUN_OPTION_MAP but addresses, which mean
 * nothing on the other side. Bytes between fields are 0, so that equal options are equal bytes.
 */
void chip_options_copy(const struct pto_run_options *from, struct pto_run_options *to);

/* What came of a run, beside the counts of its report. */
struct chip_result {
    struct failure failure;   /* status PTO_OK: none */
    struct stall stall;       /* tasks that did not move, or kernels that were given up */
    struct backtrace trace;   /* FAULT_CRASH */
    bool is_lost;             /* no further runs: a kernel never returned, or FAULT_PEER */
    bool is_builder_lost;     /* the same: the orchestration was left in the middle */
    bool is_kernel_lost;      /* the same: kernels were given up */
    struct chip_graph *graph; /* CHIP_BUILD; NULL after a failure */
};

/*
 * Hands the run over. PTO_OK, or a status: there is no run then. PTO_ELOST. PTO_EAGAIN: not beside the
 * run that goes on; after its report.
 */
int chip_start(struct chip *chip, const struct chip_request *request);
/*
 * Lends the calling thread to the run, and returns when it has ended: of its own, by
 * chip_cancel, or through the time-outs of its options. The backend sees to it that
 * one of these happens; a chip that dies ends its run. Kernels and orchestrations that
 * do not come back in time are given up, and the chip is lost.
 */
void chip_wait(struct chip *chip);
/* PTO_RUN_ENDED: of all runs that were started; or PTO_RUN_PENDING. */
int chip_poll(struct chip *chip);
/*
 * Ends the run with this number early, also before it is started. Numbers of runs that go on at the
 * same time follow each other.
 */
void chip_cancel(struct chip *chip, uint64_t number);
/* A number that changes whenever a kernel starts or returns: only to be compared. */
uint64_t chip_progress(struct chip *chip);
/*
 * After the end: fills the counts, and says what came of it. Valid until the next start; where the chip
 * takes_next, until the one after that.
 */
const struct chip_result *chip_report(struct chip *chip, struct pto_run_report *report);
/* A built graph is not needed any more. Accepts NULL. */
void chip_drop(struct chip *chip, struct chip_graph *graph);

/* An edge that was wired, by submission indices. */
struct chip_edge {
    uint32_t before;
    uint32_t after;
};

/* What the recorder holds of the last run that was recorded: the chip's, until the next start. */
struct chip_record {
    const struct trace_ring *const *ring; /* of workers, then that of kernels without one */
    uint32_t ring_count;
    const struct chip_edge *edge;
    uint64_t edge_count;
    uint64_t edges_lost; /* for lack of memory */
    const void *told;    /* struct chip_task, one behind the other */
    uint64_t told_bytes;
    uint64_t told_lost; /* for lack of memory */
    const void *dumped; /* struct chip_dump, one behind the other */
    uint64_t dumped_bytes;
    uint64_t dumped_lost; /* for lack of memory */
    const struct chip_scope *scope;
    uint64_t scope_count;
    uint64_t scopes_lost; /* for lack of memory */
    uint32_t core_count;
    uint32_t aic_count; /* cores are numbered: AICs, then AIVs */
    uint64_t begin_cycles, end_cycles;
    uint64_t begin_ns, end_ns;
    uint64_t tasks;
};

/* PTO_ENOSUP: the chip has no recorder. PTO_EINVAL: nothing was recorded. PTO_EPEER: it is gone. */
int chip_record(struct chip *chip, struct chip_record *record_out);

/* Of the process: threads in kernels that no run waits for. */
uint32_t chip_stuck_threads(void);

#endif

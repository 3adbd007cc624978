/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's interface to a chip: the device, its memory, its code and its runs. chip/backend.h
 * defines what a backend provides; the functions here do the checks that are common to all
 * backends, then call the backend.
 *
 * The host never dereferences an address of device memory and never accesses a backend's private
 * members, which follow struct chip. Requests and results of a run are passed as data, because the
 * orchestration may run in another process or on another processor.
 *
 * Threads: alloc, free, write, read, contains, check, register_memory, unregister_memory, cancel,
 * poll, progress and drop may be called from any thread at any time; load and unload from any
 * thread while no run uses the code. The caller ensures that start, wait, report and record are
 * called for one run at a time. If the chip takes_next, another thread may start one more run
 * between the start and the report of a run, unless one of the two is recorded or builds a graph;
 * wait and report are then called in the order of the starts, the next wait after the report of the
 * run before.
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
#include "pto/virtual.h"
#include "wire/failure.h"
#include "wire/kernel.h"
#include "wire/task_record.h"

struct chip;
struct chip_code;          /* loaded code; defined by the backend */
struct chip_graph;         /* a built graph; defined by the backend */
struct shared_clock_place; /* defined in link/shared_clock.h */

struct chip_params {
    const char *backend; /* name of the backend: "sim", "isolated", "null", "cann", "virtual" */
    /* Name of the chip's generation, such as "a2a3", for backends that support several. */
    const char *generation;
    uint32_t card; /* number of the card, for a real chip */
    uint32_t clusters;
    uint32_t workers; /* threads that run tasks; ignored by chips with cores of their own */
    uint64_t memory_max;
    /*
     * For a chip that only builds graphs for another chip: the address of outputs on that chip. 0:
     * the chip runs its graphs itself.
     */
    uint64_t heap;
    uint64_t heap_bytes;
};

/* What a chip can do; constant while it is open. */
struct chip_properties {
    const char *backend;
    uint32_t clusters;
    uint32_t aic_count;
    uint32_t aiv_count;
    uint32_t workers;
    bool shares_memory; /* tasks can have addresses of this process as arguments */
    /* the next run can be started while a run executes */
    bool runs_functions;
    bool takes_next;       /* the next run can be started while one executes */
    bool has_observers;    /* the chip supports the run options `edge`, `task` and `step` */
    bool has_graphs;       /* the chip supports CHIP_BUILD and CHIP_LAUNCH */
    bool has_recorder;     /* the chip supports the run option `trace` */
    bool records_tasks;    /* the chip supports PTO_TRACE_ARGUMENTS and diagnostics */
    bool has_guards;       /* the chip supports the run option `has_guards` */
    bool has_nan_check;    /* the chip supports the run option `has_nan_check` */
    bool survives_crashes; /* a crash of a kernel fails the kernel's run and nothing else */
    bool ends_stalls;      /* a stalled run fails, even if a kernel never returns */
    bool has_virtual_time; /* the times of the chip's runs are computed, not measured */
    int32_t process;       /* id of the process in which the chip runs; 0: it is this process */
};

/* ---- opening and closing a chip ---- */

/*
 * Opens a chip. PTO_ENOSUP: no such backend; PTO_ENOMEM, PTO_ESYSTEM. On failure *chip_out is
 * untouched.
 */
int chip_open(const struct chip_params *params, struct chip **chip_out, struct pto_error *error);
/*
 * Closes a chip. Returns false if kernels that never return still use the device's memory. Accepts
 * NULL.
 */
bool chip_close(struct chip *chip);

/*
 * Makes the chip visible to observers in other processes (chip/status_record.h) until it is closed.
 * Returns the part of its record that the caller writes; NULL: the record cannot be created.
 */
struct status_host;
struct status_host *chip_show(struct chip *chip);

/* Serves a chip in a process that was started for it (link/hello.h). Returns the exit code. */
int chip_serve(void);
const struct chip_properties *chip_properties(const struct chip *chip);
/* Whether the calling thread executes an orchestration of the chip. */
bool chip_is_builder(struct chip *chip);

/* ---- memory ---- */

/*
 * In the functions for memory, `error` may be NULL; otherwise it is initialised. A chip fills it in
 * if it knows more than the status says.
 */
/* Allocates memory, aligned to 1024 bytes, between two guards. PTO_ENOMEM. */
int chip_alloc(struct chip *chip, uint64_t bytes, uint64_t *addr_out, struct pto_error *error);
/*
 * Frees memory. PTO_EMEMORY with a message if it is no allocation or its guards are damaged; in the
 * latter case it is freed nevertheless.
 */
int chip_free(struct chip *chip, uint64_t addr, struct pto_error *error);
/*
 * chip_write and chip_read copy bytes, all of which one allocation must contain, else PTO_EMEMORY.
 */
int chip_write(struct chip *chip, uint64_t addr, const void *from, uint64_t bytes,
               struct pto_error *error);
int chip_read(struct chip *chip, uint64_t addr, void *to, uint64_t bytes, struct pto_error *error);
/* Whether the address lies in an allocation of the chip. */
bool chip_contains(struct chip *chip, uint64_t addr);
/* Checks the guards of all allocations. PTO_EMEMORY with a message. */
int chip_check(struct chip *chip, struct pto_error *error);

/*
 * chip_register_memory makes host memory, which other processes may have mapped as well, memory of
 * the chip until it is unregistered. Such memory has no guards, and the chip does not free it. It
 * must not overlap an allocation. PTO_ENOSUP: chip_can_register_memory is false; PTO_ENOMEM.
 */
bool chip_can_register_memory(const struct chip *chip);
int chip_register_memory(struct chip *chip, uint64_t addr, uint64_t bytes);
/* Unregisters the memory that was registered at `addr`. The caller ensures that no run uses it. */
void chip_unregister_memory(struct chip *chip, uint64_t addr);

/* ---- windows: memory of a chip that chips of other processes can access ---- */

enum { CHIP_WINDOW_RANKS = 64, CHIP_OFFER_BYTES = 4112 };

/* Handle with which another process maps this window; sent as opaque bytes. */
struct chip_offer {
    uint32_t card;  /* number of the card, as the driver counts */
    uint32_t bytes; /* number of bytes used in `data` */
    uint8_t data[CHIP_OFFER_BYTES];
};

struct chip_window_request {
    uint32_t way; /* way to share memory: an index below chip_window_ways */
    uint32_t rank;
    uint32_t rank_count; /* number of ranks, at most CHIP_WINDOW_RANKS */
    uint64_t bytes;      /* size of each rank's window in bytes; not 0 */
};

/*
 * Addresses at which this chip can access the windows of all ranks; the first member of a backend's
 * window struct.
 */
struct chip_window {
    uint64_t in[CHIP_WINDOW_RANKS];
    /* addresses for writes, by rank; they may equal those in `in` */
    uint64_t out[CHIP_WINDOW_RANKS];
    uint64_t bytes; /* size of each rank's window in bytes, as requested */
    uint32_t rank;
    uint32_t rank_count;
};

/* Polled during a long wait; should_wait returns false to abandon it. */
struct chip_wait_check {
    bool (*should_wait)(void *context);
    void *context;
};

/*
 * Returns the number of ways to share memory; way 0 is the best one. 0: windows are host memory,
 * which chip_register_memory registers with the chip.
 */
uint32_t chip_window_ways(const struct chip *chip);
const char *chip_window_way(const struct chip *chip, uint32_t way);
/* Whether ranks that join windows shared in this way block until all ranks join. */
bool chip_window_waits(const struct chip *chip, uint32_t way);
/*
 * Creates this rank's window, zeroed, and the offer with which other ranks map it. PTO_ENOSUP: this
 * way of sharing memory is not available here, and the caller may try the next one; any other
 * status is final.
 */
int chip_window_offer(struct chip *chip, const struct chip_window_request *request,
                      struct chip_window **window_out, struct chip_offer *offer,
                      struct pto_error *error);
/*
 * Maps the windows of all ranks, after all of them have made offers: `offer` is indexed by rank and
 * includes this rank's own. The windows are then memory of the chip, and zero when all ranks have
 * joined. After a failure the window must still be dropped. PTO_ETIMEOUT: `check` returned false;
 * the chip is lost if the vendor's software is still waiting.
 */
int chip_window_join(struct chip *chip, struct chip_window *window, const struct chip_offer *offer,
                     const struct chip_wait_check *check, struct pto_error *error);
/*
 * Frees a window that no rank uses any more. Accepts NULL. Returns PTO_OK or an error that names
 * what could not be freed.
 */
int chip_window_drop(struct chip *chip, struct chip_window *window, struct pto_error *error);

/* ---- code ---- */

/* The bytes of a shared object, for the cores or for the processor that runs orchestrations. */
struct chip_object {
    const char *name;
    const void *bytes;
    size_t size;
};

struct chip_kernel {
    struct chip_object object;
    uint32_t func_id;
    uint32_t core_type; /* core type of the kernel; PTO_CORE_TYPES: either */
};

/* The code of a callable, for chip_load, which copies what it needs. */
struct chip_program {
    const char *name;
    enum pto_mode
        mode; /* on a real chip: whether the orchestration runs on the host or on the card */
    struct chip_object orchestration;
    const char *entry; /* name of the orchestration's function */
    /*
     * Name of the function that returns how many arguments the orchestration expects; NULL or
     * empty: none.
     */
    const char *config;
    const struct chip_kernel *kernels;
    uint32_t kernel_count;
};

/* A callable that consists of functions of this process, for chips that can call them. */
struct chip_functions {
    pto_orch_fn orchestration;
    void *context; /* value of pto_orch_context in the orchestration */
    /*
     * Code of the orchestration, if `orchestration` is only a wrapper that calls it; NULL: no
     * wrapper.
     */
    const void *code;
    /*
     * guard function that calls the orchestration and catches exceptions; NULL: the orchestration
     * cannot throw
     */
    guard_fn guard;
    const struct graph_kernel *kernels; /* kernels, indexed by func_id */
    uint32_t kernel_count;
    /* Links to kernels that report their accesses, by func_id; NULL: no kernel does. */
    const struct pto_access_link *const *links;
    bool keeps_signals; /* no function of the callable changes the signal mask of its thread */
    /* in host mode, none of the tasks runs if the orchestration fails */
    bool is_whole_only;
};

/*
 * Copies the words that declare a kernel's arguments, KERNEL_ARGS_MAX + 1 at most; for backends.
 * Returns the number of words with the final 0; 0: the kernel declares none. PTO_ELOAD: its object
 * is damaged.
 */
int chip_read_declared(const struct chip_program *program, const struct chip_kernel *kernel,
                       uint32_t *to, struct pto_error *error);

/* Loads a program. PTO_ELOAD, PTO_ENOMEM with a message. */
int chip_load(struct chip *chip, const struct chip_program *program, struct chip_code **code_out,
              struct pto_error *error);
/* Unloads code, except that of a kernel that never returned. Accepts NULL. */
void chip_unload(struct chip *chip, struct chip_code *code);

/* ---- runs ---- */

/*
 * A run that the host requests. All pointers must be valid until the caller has taken the report.
 */
struct chip_request {
    /* Number of the run, from 1 on, increasing from run to run; chip_cancel uses it. */
    uint64_t number;
    enum chip_purpose purpose;
    struct chip_code *code; /* code of the run, if it was loaded with chip_load */
    /* functions of the run, if it needs no loading; exactly one of the two is not NULL */
    const struct chip_functions *functions;
    struct chip_graph *graph; /* the graph to launch, for CHIP_LAUNCH */
    /* the entry; its tensors are in device memory */
    const struct pto_entry *entry;
    const char *const *kernel_name; /* names of the kernels by func_id; NULL: unknown */
    uint32_t kernel_name_count;
    /* options of the run; `rings` has the sizes that apply, from options and environment */
    const struct pto_run_options *options;
    bool has_rings; /* at least one ring size is set */
    /*
     * Another chip: the graph is built for it, and not run. NULL: the run's graph runs on this
     * chip.
     */
    const struct orch_elsewhere *elsewhere;
    /* time in ns after which the run fails if no kernel has started or returned */
    uint64_t stall_ns;
    /* Time by os_now_ns at which options->launch_timeout_ns is over; 0: no limit. */
    uint64_t launch_deadline_ns;
    /*
     * Called in a forked child just before a crash of the run ends the process, to save the records
     * of the run. May be NULL.
     */
    void (*on_crash)(void *context);
    void *on_crash_context;
};

/* How long a run may take, as chip_time_of computes it. */
struct chip_time {
    uint64_t deadline_ns; /* time by os_now_ns when the run must have ended; UINT64_MAX: no limit */
    uint64_t ns;          /* the requested time-out in ns */
    /* the time-out was counted from the launch call, so it includes the time in the queue */
    bool is_from_launch;
};

/* Returns the earlier one of the two deadlines of a run. A backend calls this when a run starts. */
struct chip_time chip_time_of(const struct chip_request *request);

/*
 * Makes the message that starts a run on a chip in another process or on a card, without the
 * tensors and scalars of its entry.
 */
struct run_message chip_message_of(const struct chip_request *request);
/*
 * Copy run options into or out of a message: every row of PTO_RUN_OPTION_MAP except addresses,
 * which are meaningless to the receiver. Padding is set to 0, so that equal options have equal
 * bytes.
 */
void chip_options_copy(const struct pto_run_options *from, struct pto_run_options *to);

/* The result of a run. Its counts are in struct pto_run_report. */
struct chip_result {
    struct failure failure; /* why the run failed; status PTO_OK: it did not */
    struct stall stall;     /* tasks that made no progress, or kernels that were given up */
    struct backtrace trace; /* where a kernel or the orchestration crashed, for FAILURE_CRASH */
    /*
     * The device takes no more runs, because a kernel never returned or the chip's process ended.
     */
    bool is_lost;
    /* the device is lost because its orchestration did not return and was abandoned */
    bool is_builder_lost;
    bool is_kernel_lost; /* the device is lost because kernels did not return and were given up */
    struct chip_graph *graph; /* the graph that a CHIP_BUILD has built; NULL after a failure */
};

/*
 * Starts a run. After an error the run has not started. PTO_ELOST: the chip takes no more runs.
 * PTO_EAGAIN: start it after the report of the executing run.
 */
int chip_start(struct chip *chip, const struct chip_request *request);
/*
 * The calling thread works for the run until the run has ended: by completion, by chip_cancel, or
 * by a time-out of its options. The backend guarantees that one of these happens; if the process of
 * the chip ends, its run ends. Kernels and orchestrations that do not return in time are given up,
 * and the chip is lost.
 */
void chip_wait(struct chip *chip);
/* Returns PTO_RUN_ENDED if all started runs have ended, else PTO_RUN_PENDING. */
int chip_poll(struct chip *chip);
/*
 * Cancels the run with this number, which need not have started yet. Runs that execute at the same
 * time have consecutive numbers.
 */
void chip_cancel(struct chip *chip, uint64_t number);
/* Returns a number that changes when a kernel starts or returns; only for comparison. */
uint64_t chip_progress(struct chip *chip);
/*
 * Returns the result of a run that has ended, and fills in the counts of its report. The result is
 * valid until the next start; if the chip takes_next, until the start after that.
 */
const struct chip_result *chip_report(struct chip *chip, struct pto_run_report *report);
/* Frees a built graph. Accepts NULL. */
void chip_drop(struct chip *chip, struct chip_graph *graph);

/* A dependency that the graph has as an edge, by the submit indices of its two tasks. */
struct chip_edge {
    uint32_t before;
    uint32_t after;
};

/*
 * What was recorded in the last recorded run. The chip owns the records; they are valid until the
 * next start.
 */
struct chip_record {
    /* The rings of the workers, then the ring for kernels that run without a worker. */
    const struct trace_ring *const *ring;
    uint32_t ring_count;
    const struct chip_edge *edge;
    uint64_t edge_count;
    uint64_t edges_lost;      /* number of edges that were not recorded for lack of memory */
    const void *task_records; /* task_bytes bytes: one struct chip_task after the other */
    uint64_t task_bytes;
    uint64_t task_records_lost; /* number of tasks that were not recorded for lack of memory */
    const void *dumped;         /* dumped_bytes bytes: one struct chip_dump after the other */
    uint64_t dumped_bytes;
    uint64_t dumped_lost; /* number of dumps that were left out for lack of memory */
    const struct chip_scope *scope;
    uint64_t scope_count;
    uint64_t scopes_lost; /* number of scopes that were not recorded for lack of memory */
    uint32_t core_count;
    uint32_t aic_count; /* number of AICs; cores are numbered from 0, AICs first, then AIVs */
    uint64_t begin_cycles, end_cycles;
    uint64_t begin_ns, end_ns;
    uint64_t tasks;
    /* Cycle count when each task's submit returned, by submit index; 0: unknown. */
    const uint64_t *stamp;
    uint64_t stamp_count;
    uint64_t stamps_lost; /* number of `stamp` entries that were left out for lack of memory */
    /*
     * The trace rings also record when each task became ready, and which task's completion made it
     * ready.
     */
    bool has_ready;
    bool is_virtual; /* recorded times are those of a virtual clock */
    /*
     * Where the durations of kernels came from (enum pto_recording_origin), by func_id; NULL: all
     * were measured.
     */
    const uint8_t *origin;
    uint32_t origin_count;
};

/*
 * Returns the records of the last run. PTO_ENOSUP: the chip has no recorder. PTO_EINVAL: nothing
 * was recorded. PTO_EPEER: the chip's process has ended.
 */
int chip_record(struct chip *chip, struct chip_record *record_out);

/*
 * Sets the durations of kernels and of the scheduler's steps; called between runs. PTO_ENOSUP: the
 * chip has no virtual time.
 */
int chip_time_set(struct chip *chip, const struct pto_virtual_options *options,
                  struct pto_error *error);
/* Fills in the report on virtual time of the last run. PTO_ENOSUP: the chip has no virtual time. */
int chip_time_report(struct chip *chip, struct pto_virtual_report *report);
/*
 * Replaces the chip's own clock by one that it shares with other processes, before its first run.
 * Each run begins at the time of the chip's member of the clock, and stores there the time at which
 * it ended. PTO_ENOSUP: the chip has no virtual time.
 */
int chip_time_join(struct chip *chip, const struct shared_clock_place *place);
/* Describes kernel `index` of the last run. PTO_EINVAL: there is no such kernel. */
int chip_time_kernel(struct chip *chip, uint32_t index, struct pto_virtual_kernel *kernel);

/* Returns the number of threads of this process that are in kernels that were given up. */
uint32_t chip_stuck_threads(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libhost_runtime.so: this runtime under the functions that the reference's worker calls. It uses
 * the public headers, like any program, and adds the rules of that interface: ids of callables,
 * slots and their memory, phases of a run, and log lines that other tools parse.
 *
 *     worker_abi.h           the interface
 *     hostlib_device.c       devices and their memory
 *     hostlib_callables.c    callables by id
 *     hostlib_runs.c         the phases of a run
 *     hostlib_staging.c      the arguments of a run in device memory
 *     hostlib_failure.c      what a failed run prints
 *     hostlib_log.c          lines and spans
 *     hostlib_comm.c         ranks, their windows and domains
 *     hostlib_global.c       domains across workers
 *     hostlib_windows.c      contexts, and copies to windows
 *     hostlib_absent.c       features that simulated chips lack
 *     hostlib_variant.c      platform and mode; the one file that is compiled for each library
 *
 * The worker serialises the calls for a run. Calls for a device may come from
 * several threads: its lock guards the state that they share.
 */
#ifndef PTO_HOSTLIB_H
#define PTO_HOSTLIB_H

#include <pthread.h>
#include <stdbool.h>

#include "compat/hostlib/worker_abi.h"
#include "pto/log.h"
#include "pto/window.h"

/* Properties of one of the libraries, of which there is one for each platform and mode. */
struct hostlib_variant {
    const char *platform;
    enum pto_mode mode;
    int32_t threads_max; /* maximum of aicpu_threads in a caller's configuration */
    struct pipeline_contract contract;
};

extern const struct hostlib_variant hostlib_variant;

/*
 * A block of device memory that is kept for the runs of one slot of the worker. Growing it loses
 * its content.
 */
struct hostlib_block {
    uint64_t addr;
    uint64_t bytes;
};

struct hostlib_callable {
    /* shared by ids whose blobs (compiled callables) are equal; NULL: the id is free */
    struct pto_callable *callable;
    uint8_t digest[PTO_DIGEST_BYTES];
    const enum pto_direction *signature; /* signature of the callable */
    uint32_t signature_count;
};

struct hostlib_allocation {
    uint64_t addr;
    uint64_t bytes;
};

struct worker_device {
    pthread_mutex_t lock;
    struct pto_device *device; /* NULL before simpler_init and after finalize_device */
    struct hostlib_callable callable[WORKER_CALLABLES_MAX];
    /* number of callables that were loaded since the device was opened */
    size_t loads;
    struct worker_run *active; /* the run that is prepared and not finalized yet; NULL: none */
    struct hostlib_allocation *memory; /* allocations that the caller has made and not freed yet */
    size_t memory_count;
    size_t memory_room;
    struct hostlib_block slot[WORKER_SLOTS]; /* memory for the arguments of runs, by slot */
    /*
     * Memory whose address callers get when they ask for the working memory that streamed runs
     * share. This runtime itself does not use it.
     */
    struct hostlib_block bank;
};

enum run_phase { RUN_PREPARED, RUN_LAUNCHED, RUN_ENDED };

/* A tensor that is copied back when the run has succeeded. */
struct hostlib_result {
    uint64_t device_addr;
    void *host;
    uint64_t bytes;
};

/* A run, in memory that the caller owns. */
struct worker_run {
    uint64_t magic; /* RUN_MAGIC: the memory holds a run; 0: it is free */
    struct worker_device *device;
    struct pto_run *run;
    enum run_phase phase;
    int status; /* status of the ended run */
    struct worker_ticket ticket;
    uint64_t invocation;
    uint64_t hid; /* first bytes of the callable's digest, its identity in spans */
    int64_t begin_ns;
    int64_t launch_ns;            /* when the span of the launch began; 0: none is open */
    char folder[WORKER_PATH_MAX]; /* folder of the diagnostics; read until the run has ended */
    uint32_t result_count;
    struct hostlib_result result[PTO_ENTRY_TENSORS_MAX];
};

/* ---- hostlib_staging.c ---- */

/*
 * Copies the input tensors to the slot's memory, and makes `entry` refer to it. `tensor` has room
 * for all of them.
 */
int hostlib_stage(struct worker_run *run, const struct hostlib_callable *callable,
                  const struct worker_args *args, struct pto_tensor *tensor,
                  struct pto_entry *entry);
/* Copies the results of the run back to the host. */
int hostlib_unstage(struct worker_run *run);

/* Grows a block of device memory to at least this size. */
int hostlib_reserve(struct pto_device *device, struct hostlib_block *block, uint64_t bytes);

/* ---- hostlib_windows.c ---- */

/*
 * A communicator context, whose address kernels get. Without a workspace only the windows in it are
 * set.
 */
struct hostlib_context {
    struct pto_comm_context context;
    struct hostlib_context *next;
};

/*
 * Makes a context without windows. `rank_count` is at most PTO_CONTEXT_RANKS. NULL: out of memory.
 */
struct hostlib_context *hostlib_context_create(uint32_t rank, uint32_t rank_count, uint64_t bytes);
/* Sets the address of a rank's window; 0: none. */
void hostlib_context_set(struct hostlib_context *c, uint32_t rank, uint64_t window);
void hostlib_context_destroy(struct hostlib_context *c); /* accepts NULL */

/*
 * Copies `bytes` bytes, if all bytes at `window`, which is `to` or `from`, are in a window of a
 * context. `from` may also be in the context itself. Returns whether it copied.
 */
bool hostlib_window_copy(const void *window, void *to, const void *from, uint64_t bytes);

/* ---- hostlib_failure.c ---- */

/* Prints the lines of a failed run. */
void hostlib_log_failure(int status, const struct pto_error *error);

/* ---- hostlib_log.c ---- */

#define LOG(level, ...) hostlib_log(level, __func__, __VA_ARGS__)

/* Prints a line if its level is enabled. */
void hostlib_log(enum pto_log_level level, const char *function, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Prints a span, a named part of a run's time. `attributes` is "" or "key=value ...". */
void hostlib_span(const struct worker_run *run, const char *name, int depth, int64_t begin_ns,
                  int64_t ns, const char *attributes);

int64_t hostlib_now_ns(void);

#endif

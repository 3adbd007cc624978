/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libhost_runtime.so: our runtime behind the functions that the reference's worker
 * calls. It uses the public headers, like any program; what it adds is the rules of
 * that border: ids of callables, slots and the memory of each, phases of a run, and
 * lines of log that others parse.
 *
 *     worker_abi.h           the border
 *     hostlib_device.c       devices and their memory
 *     hostlib_callables.c    callables by id
 *     hostlib_runs.c         the phases of a run
 *     hostlib_staging.c      the arguments of a run in device memory
 *     hostlib_failure.c      what a failed run prints
 *     hostlib_log.c          lines and spans
 *     hostlib_comm.c         ranks, their windows and domains
 *     hostlib_global.c       domains across workers
 *     hostlib_windows.c      contexts, and copies to windows
 *     hostlib_absent.c       what simulated chips do not have
 *     hostlib_variant.c      platform and mode; the one file that is compiled for each library
 *
 * The worker serialises the calls for a run. Calls for a device may come from
 * several threads: its lock guards what they share.
 */
#ifndef PTO_HOSTLIB_H
#define PTO_HOSTLIB_H

#include <pthread.h>
#include <stdbool.h>

#include "compat/hostlib/worker_abi.h"
#include "pto/door.h"
#include "pto/window.h"

/* What differs between the libraries. */
struct hostlib_variant {
    const char *platform;
    enum pto_mode mode;
    int32_t threads_max; /* that a caller may ask for */
    struct pipeline_contract contract;
};

extern const struct hostlib_variant hostlib_variant;

/* Memory that a device keeps for a slot; it grows, and what was in it is lost then. */
struct hostlib_block {
    uint64_t addr;
    uint64_t bytes;
};

struct hostlib_callable {
    struct pto_callable *callable; /* shared by ids whose blobs are equal; NULL: the id is free */
    uint8_t digest[PTO_DIGEST_BYTES];
    const enum pto_direction *signature; /* the callable's */
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
    size_t loads;                      /* of callables since the device was opened */
    struct worker_run *active;         /* prepared and not finalized: at most one */
    struct hostlib_allocation *memory; /* the caller's */
    size_t memory_count;
    size_t memory_room;
    struct hostlib_block slot[WORKER_SLOTS]; /* the arguments of runs */
    struct hostlib_block bank;               /* stands for what streamed runs share */
};

enum run_phase { RUN_PREPARED, RUN_LAUNCHED, RUN_ENDED };

/* A tensor that is copied back when the run has succeeded. */
struct hostlib_result {
    uint64_t device_addr;
    void *host;
    uint64_t bytes;
};

/* Lies in memory of the caller's. */
struct worker_run {
    uint64_t magic; /* RUN_MAGIC: there is a run; 0: there is none */
    struct worker_device *device;
    struct pto_run *run;
    enum run_phase phase;
    int status; /* once it has ended */
    struct worker_ticket ticket;
    uint64_t invocation;
    uint64_t hid; /* which callable, in spans */
    int64_t begin_ns;
    int64_t launch_ns;            /* 0: no span has to be closed */
    char folder[WORKER_PATH_MAX]; /* for diagnostics, until the run has ended */
    uint32_t result_count;
    struct hostlib_result result[PTO_ENTRY_TENSORS_MAX];
};

/* ---- hostlib_staging.c ---- */

/*
 * Copies what the callable reads to the slot's memory, and makes `entry` name it.
 * `tensor` has room for all of them.
 */
int hostlib_stage(struct worker_run *run, const struct hostlib_callable *callable,
                  const struct worker_args *args, struct pto_tensor *tensor,
                  struct pto_entry *entry);
/* Copies the results back. */
int hostlib_unstage(struct worker_run *run);

/* Makes a block at least so large. */
int hostlib_reserve(struct pto_device *device, struct hostlib_block *block, uint64_t bytes);

/* ---- hostlib_windows.c ---- */

/* What kernels get the address of; without a workspace, so nothing but the windows is in it. */
struct hostlib_context {
    struct pto_comm_context context;
    struct hostlib_context *next;
};

/* `rank_count` is at most PTO_CONTEXT_RANKS. NULL: no memory. */
struct hostlib_context *hostlib_context_create(uint32_t rank, uint32_t rank_count, uint64_t bytes);
/* Where the window of a rank is; 0: nowhere. */
void hostlib_context_set(struct hostlib_context *c, uint32_t rank, uint64_t window);
void hostlib_context_destroy(struct hostlib_context *c); /* accepts NULL */

/*
 * Copies, if `window`, which is `to` or `from`, lies in a window of a context with all of the
 * bytes; from a context itself, too. Returns whether it does.
 */
bool hostlib_window_copy(const void *window, void *to, const void *from, uint64_t bytes);

/* ---- hostlib_failure.c ---- */

/* Prints the lines of a failed run. */
void hostlib_tell_failure(int status, const struct pto_error *error);

/* ---- hostlib_log.c ---- */

#define LOG(level, ...) hostlib_log(level, __func__, __VA_ARGS__)

/* Prints a line, if the level is printed. */
void hostlib_log(enum pto_log_level level, const char *function, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A stretch of time in the life of a run. `attributes` is "" or "key=value ...". */
void hostlib_span(const struct worker_run *run, const char *name, int depth, int64_t begin_ns,
                  int64_t ns, const char *attributes);

int64_t hostlib_now_ns(void);

#endif

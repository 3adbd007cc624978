/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this folder share: the objects behind the public handles.
 *
 * A device has a queue of runs. Whoever is at its head runs: the thread that
 * called pto_run, or one of the device's own runner threads for launched ones. Where the
 * chip takes the next run while one goes on, the second one is staged and started
 * meanwhile, and waits for the end of the first: runs end in the order of the queue.
 */
#ifndef PTO_HOST_H
#define PTO_HOST_H

#include <pthread.h>

#include "base/atomic.h"
#include "base/error.h"
#include "chip/chip.h"
#include "host/due.h"
#include "host/handle.h"
#include "pto/sign.h"

struct artefact;
struct host_graph;

/* What the chip does not know of the last run that was recorded. */
struct trace_names {
    enum pto_trace mode; /* PTO_TRACE_OFF: nothing was recorded */
    char **kernel_name;  /* one block with the names behind the pointers */
    uint32_t kernel_count;
    int status; /* of the run */
    enum pto_mode run_mode;
    enum pto_deps deps;
    struct pto_ring_limits rings;
    struct pto_diagnostics diagnostics; /* the folder is the run's */
};

struct story {
    char text[8192];
    uint32_t length;
};

/* As many as the reference has. */
enum { KERNELS_MAX = 1024, REGISTRATIONS_MAX = 64 };

/* A callable that a device knows. */
struct registration {
    struct device *device;
    struct callable *callable; /* NULL: free */
    struct chip_code *code;
    uint32_t users;            /* runs and graphs of the device; under the device's lock */
    struct registration *next; /* of the same callable; under the registry's lock */
};

/* Runs of a device that go on at a time, where the chip takes the next one; numbers of such runs follow each other. */
enum { RUNS_MAX = 2 };

/* Device memory that is kept from run to run. */
struct staging {
    uint64_t addr;
    uint64_t bytes;
};

struct device {
    const struct pto_platform *platform;
    struct chip *chip;
    uint32_t *own_process; /* 1; zero in a child after fork */
    pthread_mutex_t lock;  /* everything below */
    pthread_cond_t changed;
    struct run *head; /* runs in the order of their turns */
    struct run *tail;
    struct run *due;  /* of those that were launched and wait, the one with the earliest deadline */
    uint32_t running; /* of them, how many have begun: the first ones */
    bool is_closing;
    const char *loss;                   /* why there are no more runs; NULL: there are */
    char loss_text[PTO_ERROR_TEXT_MAX]; /* the same, if the chip says it */
    uint64_t stall_ns;                  /* by default */
    uint32_t runner_count;
    pthread_t runner[RUNS_MAX]; /* as many as there can be runs at a time */
    bool has_watcher;
    pthread_t watcher;        /* of launched runs that wait for their turn and may be late for it */
    uint32_t run_count;       /* prepared and not finished */
    uint32_t lender_count;    /* communicators whose windows are the device's memory, too */
    struct trace_names trace; /* written by the run that is going on */
    struct story story;       /* of the last run that failed; written by the run that is going on */
    uint64_t run_number;      /* of the latest run that began */
    struct run *spare;        /* of an earlier run, for the next one */
    /* Changed under both locks, the registry's and then this one. */
    struct registration registration[REGISTRATIONS_MAX];

    struct pto_error memory_error; /* of the last call for memory that failed; its own size */

    struct staging staging[RUNS_MAX]; /* what entries are copied to, of the runs that go on */
};

/* What a callable has that comes from an artefact. */
struct packed {
    struct artefact *artefact;
    char *bytes; /* the artefact's */
    char *entry; /* function of the orchestration */
    enum pto_direction *signature;
    enum pto_direction *tensor_direction; /* its entries without scalars; a blob's are by index */
    uint32_t tensor_count;                /* of them */
    bool is_from_reference;               /* the orchestration goes through the door */
    uint8_t signers[PTO_SIGNATURES_MAX][PTO_KEY_BYTES]; /* as its info tells them */
    struct registration *registered; /* list; this and what follows: under the registry's lock */
    uint32_t device_count;
};

struct callable {
    struct chip_functions functions; /* its code, if it was made of functions */
    uint32_t kernel_count;
    const char **kernel_name; /* the last one is the callable's own name */
    void *object;             /* dlopen */
    struct packed *packed;    /* NULL: it was made of functions */
    enum pto_mode mode;       /* of runs without options */
    enum pto_deps deps;       /* of runs that do not say */
    struct a32 users;         /* runs and graphs */
    struct a32 is_pinned;     /* a kernel of it never returned: its code stays */
    struct graph_kernel kernel[];
};

enum run_state { RUN_PREPARED, RUN_QUEUED, RUN_RUNNING, RUN_ENDED };

struct run {
    struct device *device;
    struct callable *callable;
    struct pto_entry entry; /* the caller's, copied */
    struct pto_run_options options;
    uint64_t stall_ns;
    struct registration *registration; /* NULL: the callable needs none */
    struct host_graph *graph;          /* that is built to be kept, or launched */
    enum chip_purpose purpose;
    bool is_part;     /* of a graph: not to be freed */
    bool is_staged;   /* tensors are copies of those at host_addr */
    const char *loss; /* of the device, by this run or before; NULL: none */
    uint64_t number;  /* which run of the device it is */
    uint32_t place;   /* of the runs that go on at a time; below RUNS_MAX */
    int status;

    struct run *next;            /* in the device's queue */
    struct run *before;          /* the same */
    struct due_link due;         /* with is_due */
    bool is_due;                 /* it was launched, waits, and has a deadline */
    enum run_state state;        /* under the device's lock */
    bool is_launched;            /* for the runner, not for a caller */
    bool is_on_chip;             /* the next one may be started */
    uint64_t launch_deadline_ns; /* by os_now_ns, the time in the queue included; 0: none */
    int descriptor;              /* -1: nobody asked */
    char *folder;                /* of diagnostics; NULL: none are asked for */
    struct pto_run_report report;
    uint32_t absent; /* of the last tensors, how many are marked as such; kept from run to run */
    struct pto_tensor tensor[PTO_ENTRY_TENSORS_MAX];
    uint64_t scalar[PTO_ENTRY_SCALARS_MAX];
    uint64_t host_addr[PTO_ENTRY_TENSORS_MAX]; /* 0: not staged */
};

/* NULL: no such device, or not of this process; *status_out says which. */
struct device *device_get(const struct pto_device *handle, int *status_out);

/*
 * memory.c: somebody will lend memory to the device, with chip_adopt, and keeps it open until
 * he is done. PTO_ENOSUP and others, with a sentence.
 */
int device_hold(struct pto_device *handle, struct device **device_out, struct pto_error *error);
void device_release(struct device *device);
/* callable.c */
/* The callable gets the artefact, which it frees. NULL: no memory. */
struct callable *callable_make(const struct pto_callable_params *params);
void callable_free(struct callable *c);
/* callable_load.c: frees what comes from the artefact. Accepts NULL. */
void packed_free(struct packed *packed);

/* register.c */
/* Why the device can never run the callable; NULL if it can: not every device calls functions. */
const char *register_unsupported(const struct device *device, const struct callable *callable);
/*
 * Registers the callable if it is not, and keeps it from being unregistered until
 * it is released. *out is NULL for a callable that needs no registration.
 */
int registration_acquire(struct device *device, struct callable *callable,
                         struct registration **out, struct pto_error *error);
/* The device's lock is held. Accepts NULL. */
void registration_release(struct registration *registration);
/* Nobody uses it any more. */
void register_forget_device(struct device *device);
void register_forget_callable(struct callable *callable);

/* staging.c */
/* Copies the entry's tensors to the device where the signature asks for it, or fails the run. */
void staging_begin(struct run *run);
/* Copies the results back unless the run failed. */
void staging_end(struct run *run);
/* Whether a run that goes on will copy to where this one copies from. */
bool staging_reads_from(const struct run *run, const struct run *going_on);

/* timeline.c: of the last recorded run. Under the device's lock, or in a child that has no other thread. */
int timeline_write(struct device *device, const char *path, struct pto_error *error);

/* built_graphs.c */
/* The run that built it has ended: keeps what the chip made. */
void host_graph_keep(struct host_graph *b, struct chip_graph *graph);
struct chip_graph *host_graph_of(const struct host_graph *b);
/* The run that used it has ended. */
void host_graph_release(struct host_graph *b);

/* run.c: the first error wins. Returns the status of the run. */
int run_fail(struct run *run, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this folder share: the objects behind the public handles.
 *
 * A device has a queue of runs. Whoever is at its head runs: the thread that
 * called pto_run, or the device's own runner thread for launched ones.
 */
#ifndef PTO_HOST_H
#define PTO_HOST_H

#include <pthread.h>

#include "chip/chip.h"
#include "host/error.h"
#include "host/handle.h"

struct allocation;
struct artefact;
struct object;

struct trace_edge {
    uint32_t before; /* submission indices */
    uint32_t after;
};

/* What is needed beside the rings to write the timeline of the last recorded run. */
struct trace_store {
    enum pto_trace mode; /* PTO_TRACE_OFF: nothing was recorded */
    struct trace_edge *edge;
    uint64_t edge_count;
    uint64_t edge_max;
    uint64_t edges_lost; /* for lack of memory */
    char **kernel_name;  /* one block with the names behind the pointers */
    uint32_t kernel_count;
    uint64_t begin_cycles, end_cycles;
    uint64_t begin_ns, end_ns;
    uint64_t tasks;
    int status;
};

/*
 * What an orchestration holds. It belongs to the device, so that one that is kept
 * too long, by a kernel or a thread, is still there to say that there is no run.
 */
struct orch_handle {
    struct pto_orch orch; /* first */
    struct chip *chip;
    struct run *run; /* read by the thread that builds it only */
};

enum { STORY_MAX = 8192 };
/* As many as the reference has. */
enum { KERNELS_MAX = 1024, REGISTRATIONS_MAX = 64 };

struct relaunch;

/* A callable that a device knows. */
struct registration {
    struct device *device;
    struct callable *callable; /* NULL: free */
    uint32_t users;            /* runs and graphs of the device; under the device's lock */
    struct registration *next; /* of the same callable; under the registry's lock */
};

struct device {
    const struct chip_row *row;
    struct chip *chip;
    uint32_t *own_process; /* 1; zero in a child after fork */
    pthread_mutex_t lock;  /* everything below */
    pthread_cond_t changed;
    struct run *head; /* runs in the order of their turns */
    struct run *tail;
    bool is_running; /* the head has started */
    bool is_closing;
    bool is_lost;      /* a kernel never returned: no more runs */
    uint64_t stall_ns; /* by default */
    bool has_runner;
    pthread_t runner;
    uint32_t run_count;       /* prepared and not finished */
    struct trace_store trace; /* written by the run that is going on */
    struct orch_handle orch;
    char story[STORY_MAX]; /* of the last run that failed; written by the run that is going on */
    uint32_t story_length;
    uint64_t graph_bytes; /* of graphs that are kept */
    struct run *spare;    /* of an earlier run, for the next one */
    /* Changed under both locks, the registry's and then this one. */
    struct registration registration[REGISTRATIONS_MAX];

    char *staging; /* what entries are copied to; used by the run that is going on */
    uint64_t staging_bytes;

    pthread_mutex_t memory_lock;
    struct allocation *allocation; /* list */
    uint64_t freed[64];            /* addresses freed lately */
    uint32_t freed_next;
};

/* guard.cc, through dlsym: not 0 after an exception, whose text it copies. */
typedef int (*guard_fn)(pto_orch_fn fn, struct pto_orch *o, const struct pto_entry *entry,
                        char *text, size_t size);

/* What a callable has that comes from an artefact. */
struct packed {
    struct artefact *artefact;
    char *bytes; /* the artefact's */
    char *entry; /* function of the orchestration */
    enum pto_direction *signature;
    struct registration *registered; /* list; this and what follows: under the registry's lock */
    uint32_t device_count;
    struct object **object; /* the orchestration's, then the kernels'; while it is registered */
    uint32_t object_count;
};

struct callable {
    guard_fn guard; /* NULL: there is no C++ in the process */
    void *guard_object;
    pto_orch_fn orchestration;
    uint32_t kernel_count;
    const char **kernel_name; /* the last one is the callable's own name */
    void *object;             /* dlopen */
    struct packed *packed;    /* NULL: it was made of functions */
    enum pto_mode mode;       /* of runs without options */
    struct a32 users;         /* runs and graphs */
    struct a32 is_pinned;     /* a kernel of it never returned: its code stays */
    struct graph_kernel kernel[];
};

enum run_state { RUN_PREPARED, RUN_QUEUED, RUN_RUNNING, RUN_ENDED };

struct run {
    struct device *device;
    struct callable *callable;
    struct pto_entry entry;      /* the caller's, copied */
    struct pto_entry entry_seen; /* what the orchestration gets */
    struct pto_run_options options;
    uint64_t stall_ns;
    struct registration *registration; /* NULL: the callable needs none */
    struct relaunch *relaunch;         /* the graph that is built to be kept, or launched */
    bool is_built_only;
    bool is_plain;  /* streamed, without limits: a submit has nothing to do but submit */
    bool is_part;   /* of a graph: not to be freed */
    bool is_staged; /* tensors are copies of those at host_addr */
    struct chip *chip;
    struct graph *graph;
    struct ledger *ledger; /* NULL: no limits */
    struct worker *submitter;
    int32_t quota; /* submits until there is something to look at beside the task */
    bool is_shared;
    int status;
    uint64_t begin_ns;

    struct run *next;     /* in the device's queue */
    enum run_state state; /* under the device's lock */
    bool is_launched;     /* for the runner, not for a caller */
    int descriptor;       /* -1: nobody asked */
    struct pto_run_report report;
    struct pto_tensor tensor[PTO_ENTRY_TENSORS_MAX];
    uint64_t scalar[PTO_ENTRY_SCALARS_MAX];
    uint64_t host_addr[PTO_ENTRY_TENSORS_MAX]; /* 0: not staged */
};

/* NULL: no such device, or not of this process; *status_out says which. */
struct device *device_get(const struct pto_device *handle, int *status_out);
void memory_release_all(struct device *device);
/* Whether the address lies in an allocation of the device. */
bool memory_contains(struct device *device, uint64_t addr);

/* callable.c */
/* The callable gets the artefact, which it frees. NULL: no memory. */
struct callable *callable_make(const struct pto_callable_params *params);
void callable_free(struct callable *c);
void callable_load_guard(struct callable *c);
/* callable_load.c: frees what comes from the artefact. Accepts NULL. */
void packed_free(struct packed *packed);

/* register.c */
/*
 * Registers the callable if it is not, and keeps it from being unregistered until
 * it is released. *out is NULL for a callable that needs no registration.
 */
int registration_acquire(struct device *device, struct callable *callable,
                         struct registration **out, struct pto_error *error);
/* Under the device's lock. Accepts NULL. */
void registration_release(struct registration *registration);
/* Nobody uses it any more. */
void register_forget_device(struct device *device);
void register_forget_callable(struct callable *callable);

/* staging.c */
/* Copies the entry's tensors to the device where the signature asks for it, or fails the run. */
void staging_begin(struct run *run);
/* Copies the results back unless the run failed. */
void staging_end(struct run *run);

/* orch.c: builds the graph of `arg`, a struct run, on the builder's stack. */
void orch_build(void *arg);
extern const struct pto_orch_ops orch_ops;
extern const struct pto_orch_ops orch_ops_watched; /* for runs with an observer of submits */
/* The graph could not even be started. */
void orch_refuse_start(struct run *run, int status);
/* story.c */
/* Tells why the scheduler ended the run, if it did. */
void run_report_fault(struct run *run);
void story_begin(struct run *run);
void story_end(struct run *run);
/* For the chip: `arg` is a run that makes no progress, or takes too long. */
void run_stalled(void *arg, bool is_stall);

/* run.c, for relaunch.c */
/* On failure the error, which may be NULL, says why. */
int run_prepare(struct run *run, struct device *device, struct callable *callable,
                const struct pto_entry *entry, const struct pto_run_options *options,
                struct pto_error *error);
/* Memory for a run, which its end gives back. NULL: there is none. */
struct run *run_take(struct device *device);
/* Waits for its turn, runs, and fills the report, which may be NULL. Returns its status. */
int run_now(struct run *run, struct pto_run_report *report);
/* For a run that did not come about: nothing else of the report, which may be NULL, is touched. */
void report_error(struct pto_run_report *report, const struct pto_error *error);
/* Gives the run a handle; on failure it is freed. */
int run_publish(struct run *run, struct pto_run **run_out);

/* relaunch.c */
/* Before the orchestration runs: what is to be noted for later launches. */
void relaunch_record(struct relaunch *r, struct run *run, struct graph_params *params,
                     struct chip_job *job);
/* It has run: keeps the graph. */
void relaunch_keep(struct relaunch *r, struct run *run);
/* Makes the device's graph that of the launch, or fails the run. */
void relaunch_start(struct relaunch *r, struct run *run, const struct graph_params *params,
                    struct chip_job *job);
/* A kernel of the launch never returned: what it may use stays. */
void relaunch_pin(struct relaunch *r);
void relaunch_release(struct relaunch *r);
/* What the orchestration itself read or wrote. */
void relaunch_note_read(struct relaunch *r, uint64_t addr, uint32_t bytes, uint64_t bits);
void relaunch_note_write(struct relaunch *r, uint64_t addr, uint32_t bytes, uint64_t bits);
void relaunch_note_scalar(struct relaunch *r, uint32_t index);

/* The first error wins. Returns the status of the run. */
int run_fail(struct run *run, int status, const struct pto_site *site, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif

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
#include "host/handle.h"

struct allocation;

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

struct relaunch;

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

    pthread_mutex_t memory_lock;
    struct allocation *allocation; /* list */
    uint64_t freed[64];            /* addresses freed lately */
    uint32_t freed_next;
};

/* guard.cc, through dlsym: not 0 after an exception, whose text it copies. */
typedef int (*guard_fn)(pto_orch_fn fn, struct pto_orch *o, const struct pto_entry *entry,
                        char *text, size_t size);

struct callable {
    guard_fn guard; /* NULL: there is no C++ in the process */
    void *guard_object;
    pto_orch_fn orchestration;
    uint32_t kernel_count;
    const char **kernel_name; /* the last one is the callable's own name */
    void *object;             /* dlopen */
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
    struct relaunch *relaunch; /* the graph that is built to be kept, or launched */
    bool is_built_only;
    bool is_plain; /* streamed, without limits: a submit has nothing to do but submit */
    struct chip *chip;
    struct graph *graph;
    struct ledger *ledger; /* NULL: no limits */
    struct worker *submitter;
    uint32_t since; /* submits since finished slots were taken back */
    struct {        /* for a refusal: what is being submitted */
        const struct pto_kernels *kernels;
        const struct pto_args *args;
        const struct pto_site *site;
        struct pto_outputs *out;
    } now;
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
};

/* NULL: no such device, or not of this process; *status_out says which. */
struct device *device_get(const struct pto_device *handle, int *status_out);
void memory_release_all(struct device *device);

void error_init(struct pto_error *error);
/* Fills the error, which may be NULL, and returns the status. */
int error_tell(struct pto_error *error, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* orch.c: builds the graph of `arg`, a struct run, on the builder's stack. */
void orch_build(void *arg);
extern const struct pto_orch_ops orch_ops;
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
int run_prepare(struct run *run, struct device *device, struct callable *callable,
                const struct pto_entry *entry, const struct pto_run_options *options);
/* Waits for its turn, runs, and fills the report, which may be NULL. Returns its status. */
int run_now(struct run *run, struct pto_run_report *report);
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

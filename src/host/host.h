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
    bool has_runner;
    pthread_t runner;
    uint32_t run_count;       /* prepared and not finished */
    struct trace_store trace; /* written by the run that is going on */
    struct orch_handle orch;

    pthread_mutex_t memory_lock;
    struct allocation *allocation; /* list */
    uint64_t freed[64];            /* addresses freed lately */
    uint32_t freed_next;
};

struct callable {
    pto_orch_fn orchestration;
    uint32_t kernel_count;
    const char **kernel_name; /* the last one is the callable's own name */
    void *object;             /* dlopen */
    struct a32 users;         /* runs */
    struct graph_kernel kernel[];
};

enum run_state { RUN_PREPARED, RUN_QUEUED, RUN_RUNNING, RUN_ENDED };

struct run {
    struct device *device;
    struct callable *callable;
    struct pto_entry entry;
    struct pto_run_options options;
    struct chip *chip;
    struct graph *graph;
    struct worker *submitter;
    uint32_t since; /* submits since finished slots were taken back */
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
/* Tells why the scheduler ended the run, if it did. */
void run_report_fault(struct run *run);
/* The first error wins. Returns the status of the run. */
int run_fail(struct run *run, int status, const struct pto_site *site, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif

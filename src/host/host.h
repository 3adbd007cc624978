/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects to which public handles refer, shared by the files of src/host/.
 *
 * A device has a queue of runs. The run at its head executes on the thread that called pto_run, or
 * on one of the device's runner threads if it was launched. If the chip can take the next run while
 * one is executing, the second run is staged and started early and then waits for the end of the
 * first: runs end in the order of the queue.
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

/*
 * Names and options that a timeline needs in addition to the chip's record of the last recorded
 * run.
 */
struct trace_names {
    enum pto_trace mode; /* recording mode of that run; PTO_TRACE_OFF: nothing was recorded */
    /* names of the kernels by id; one allocation with their texts and the title */
    char **kernel_name;
    uint32_t kernel_count;
    int status; /* status of the recorded run */
    enum pto_mode run_mode;
    enum pto_deps deps;
    struct pto_ring_limits rings;
    struct pto_diagnostics diagnostics; /* its `folder` points to a copy that the run owns */
    const char *title;                  /* title of the run; NULL: none */
};

struct failure_report {
    char text[8192];
    uint32_t length;
};

/* Limits that this system has in common with the reference. */
enum { KERNELS_MAX = 1024, REGISTRATIONS_MAX = 64 };

/* A registration of a callable with a device. */
struct registration {
    struct device *device;
    /* the registered callable; NULL: this element of the array is free */
    struct callable *callable;
    struct chip_code *code;
    /*
     * Number of the device's runs and graphs that use the registration; guarded by the device's
     * lock.
     */
    uint32_t users;
    /*
     * Next registration of the same callable, with another device; guarded by the registry's lock.
     */
    struct registration *next;
};

/*
 * Maximum number of runs of a device that execute at the same time, if the chip takes_next; their
 * run numbers are consecutive.
 */
enum { RUNS_MAX = 2 };

/* Device memory for the tensors of an entry, reused from run to run. */
struct staging {
    uint64_t addr;
    uint64_t bytes;
};

struct device {
    const struct pto_platform *platform;
    struct chip *chip;
    uint32_t *own_process; /* a word that is 1, and reads as 0 in a child after fork */
    pthread_mutex_t lock;  /* guards the fields from here on */
    pthread_cond_t changed;
    struct run *head; /* first run of the queue, which also has the executing runs, in order */
    struct run *tail;
    uint32_t queue_count; /* number of runs in the queue, including executing ones */
    /* the device's state for observers in other processes; NULL: it is not visible */
    struct status_host *shown;
    /* heap of launched runs in the queue: the one with the earliest deadline for its start */
    struct run *due;
    uint32_t running; /* number of executing runs, which are the first ones of the queue */
    bool is_closing;
    const char *loss;                   /* why the device takes no more runs; NULL: it takes runs */
    char loss_text[PTO_ERROR_TEXT_MAX]; /* storage for `loss` if the chip supplies the text */
    uint64_t stall_ns;                  /* stall time in ns for runs that set none */
    uint32_t runner_count;
    /* threads that execute launched runs, one for each run that can execute at the same time */
    pthread_t runner[RUNS_MAX];
    bool has_watcher;
    pthread_t watcher;  /* thread that ends launched runs that are too late to start */
    uint32_t run_count; /* number of runs that are prepared and not finished */
    uint32_t pin_count; /* number of communicators that have registered windows as device memory */
    struct trace_names trace; /* written by the run that is executing */
    /* Report of the last run that failed; written by the run that is executing. */
    struct failure_report last_failure;
    uint64_t run_number; /* number of the latest run that started */
    struct run *spare;   /* memory of an ended run, which the next run reuses */
    /* Changed while both locks are held, the registry's and then the device's. */
    struct registration registration[REGISTRATIONS_MAX];

    struct pto_error memory_error; /* error of the last failed memory call */

    /* memory for the entries of the executing runs, by `place` of the run */
    struct staging staging[RUNS_MAX];
};

/* What a callable has in addition if it was made from an artefact. */
struct packed {
    struct artefact *artefact;
    char *bytes; /* the artefact's bytes */
    char *entry; /* name of the orchestration's function */
    enum pto_direction *signature;
    /*
     * Direction of each tensor of the signature, by index of the tensor; the signature also lists
     * scalars.
     */
    enum pto_direction *tensor_direction;
    uint32_t tensor_count; /* number of elements of tensor_direction */
    /* the orchestration uses the reference's interface and is called through compat/orch */
    bool is_from_reference;
    /* public keys of the artefact's signatures, as pto_callable_info returns them */
    uint8_t signers[PTO_SIGNATURES_MAX][PTO_KEY_BYTES];
    /*
     * List of registrations of the callable. This and the following field are guarded by the
     * registry's lock.
     */
    struct registration *registered;
    uint32_t device_count;
};

struct callable {
    struct chip_functions functions; /* functions of a callable that was made from functions */
    uint32_t kernel_count;
    const char **kernel_name; /* names of the kernels by id, then the callable's own name */
    void *object;             /* handle from dlopen; NULL: none */
    struct packed *packed;    /* NULL: the callable was made from functions */
    enum pto_mode mode;       /* default mode of runs */
    enum pto_deps deps;       /* default dependency rules of runs */
    struct a32 users;         /* number of runs and graphs that use the callable */
    /* a kernel of the callable never returned, so its code stays loaded */
    struct a32 is_pinned;
    struct graph_kernel kernel[];
};

enum run_state { RUN_PREPARED, RUN_QUEUED, RUN_RUNNING, RUN_ENDED };

struct run {
    struct device *device;
    struct callable *callable;
    struct pto_entry entry; /* copy of the caller's entry */
    struct pto_run_options options;
    uint64_t stall_ns;
    /* registration of the run's callable; NULL: the callable needs none */
    struct registration *registration;
    struct host_graph *graph; /* the graph that this run builds or launches */
    enum chip_purpose purpose;
    bool is_part;   /* the run is embedded in a graph and not freed separately */
    bool is_staged; /* the tensors are copies; host_addr has their original addresses */
    /* why the device is lost, by this run or an earlier one; NULL: it is not lost */
    const char *loss;
    uint64_t number; /* number of the run on its device, from 1 on */
    uint32_t place;  /* index of the run among executing runs, below RUNS_MAX */
    int status;

    struct run *next;     /* next run in the device's queue */
    struct run *before;   /* previous run in the device's queue */
    struct due_link due;  /* link in the heap of deadlines; valid if is_due */
    bool is_due;          /* the run is launched, queued, and in the heap of deadlines */
    enum run_state state; /* guarded by the device's lock */
    /* a runner thread executes the run, not a thread that called pto_run */
    bool is_launched;
    bool is_on_chip;             /* the chip has started the run, so the next run may be started */
    uint64_t launch_deadline_ns; /* time by os_now_ns when the run is too late to start; 0: none */
    int descriptor;              /* eventfd for pto_run_fd; -1: not requested */
    char *folder;                /* folder for diagnostics; NULL: none requested */
    struct pto_run_report report;
    /*
     * Number of placeholders (pto_tensor_absent) after the entry's last tensor, kept from run to
     * run.
     */
    uint32_t absent;
    struct pto_tensor tensor[PTO_ENTRY_TENSORS_MAX];
    uint64_t scalar[PTO_ENTRY_SCALARS_MAX];
    /* Address in host memory of each tensor that was copied to the device; 0: not copied. */
    uint64_t host_addr[PTO_ENTRY_TENSORS_MAX];
};

/*
 * Returns the device of a handle. NULL with a status: the handle is invalid, or belongs to another
 * process.
 */
struct device *device_get(const struct pto_device *handle, int *status_out);

/*
 * Pins the device so that a communicator can register memory with chip_register_memory;
 * device_unpin undoes that. PTO_ENOSUP and others, with a message. In memory.c.
 */
int device_pin(struct pto_device *handle, struct device **device_out, struct pto_error *error);
void device_unpin(struct device *device);
/* ---- callable.c ---- */
/* Makes a callable, which takes ownership of the artefact. NULL: memory is exhausted. */
struct callable *callable_make(const struct pto_callable_params *params);
void callable_free(struct callable *c);
/* Frees an artefact and its data. Accepts NULL. In callable_load.c. */
void packed_free(struct packed *packed);

/* ---- register.c ---- */
/*
 * Returns why the device can never run the callable, for example because it cannot call functions
 * of this process; NULL: it can.
 */
const char *register_unsupported(const struct device *device, const struct callable *callable);
/*
 * Registers the callable if it is not registered, and keeps the registration until
 * registration_release. *out is NULL for a callable that needs no registration.
 */
int registration_acquire(struct device *device, struct callable *callable,
                         struct registration **out, struct pto_error *error);
/* Ends a use of the registration. The device's lock is held. Accepts NULL. */
void registration_release(struct registration *registration);
/* Removes all registrations of a device that no thread uses any more. */
void register_forget_device(struct device *device);
void register_forget_callable(struct callable *callable);

/* ---- staging.c ---- */
/*
 * Copies the entry's tensors to the device, as the callable's signature requires. An error fails
 * the run.
 */
void staging_begin(struct run *run);
/* Copies the results of a run back to host memory, unless the run failed. */
void staging_end(struct run *run);
/*
 * Whether `going_on`, a run that is executing, will copy results back to host memory from which
 * `run` copies its tensors.
 */
bool staging_reads_from(const struct run *run, const struct run *going_on);

/*
 * Writes the timeline of the last recorded run. Called under the device's lock, or in a forked
 * child, which has no other threads. In timeline.c.
 */
int timeline_write(struct device *device, const char *path, struct pto_error *error);

/* ---- built_graphs.c ---- */
/* Stores the chip's graph, after the run that built it. */
void host_graph_keep(struct host_graph *b, struct chip_graph *graph);
struct chip_graph *host_graph_of(const struct host_graph *b);
/* Called after a run of the graph: allows the next launch. */
void host_graph_release(struct host_graph *b);

/* Publishes the device's state for observers in other processes. In device_status.c. */
void device_status_open(struct device *device);
/* Publishes the changed queue. The device's lock is held. */
void device_status_update(struct device *device);

/* Sets the error of the run unless it already has one. Returns the status of the run. In run.c. */
int run_fail(struct run *run, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif

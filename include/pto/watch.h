/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Observes devices and workers of level 3 in other programs of the current user on this machine.
 * Observing does not affect the other program and needs no action of it, so it also works while a
 * run hangs. `pto top` and `pto info --workers` use it.
 */
#ifndef PTO_API_WATCH_H
#define PTO_API_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* What a child of a worker does. */
enum pto_watch_state { PTO_WATCH_STARTING, PTO_WATCH_IDLE, PTO_WATCH_RUNNING, PTO_WATCH_DEAD };

/* A child of a worker. */
struct pto_watch_child {
    uint32_t kind; /* enum pto_child_kind */
    enum pto_watch_state state;
    int32_t pid;         /* process id of the child; 0: the child was never started */
    uint32_t generation; /* how often the child was started: 1, plus one for each reopening */
    uint64_t tasks;      /* number of tasks that have ended since the child was started last */
    uint64_t running_ns; /* in PTO_WATCH_RUNNING: for how many ns it has run its task */
    char callable[64];   /* name of the callable that the child runs */
    uint32_t device;     /* device number, if the child is a chip; 0 for other children */
};

/* A worker of level 3. Its pointers are valid until the function that receives it returns. */
struct pto_watch_worker {
    size_t size; /* size of this struct, set by the runtime */
    int32_t pid;
    uint32_t level;
    const char *program;  /* command line of the worker's process, truncated to about 200 bytes */
    const char *platform; /* platform of the worker's chips */
    bool
        /* the worker uses another build of the library, so the following fields are unknown */
        is_other_build;
    uint32_t child_count;
    const struct pto_watch_child *child;
};

/* Called for each worker. */
typedef void (*pto_watch_fn)(void *context, const struct pto_watch_worker *worker);

/*
 * Calls `visit` for each worker, in the order of process ids. Each child is sampled separately, not
 * all at one moment. Returns the number of workers; PTO_ESYSTEM: there is no /proc; PTO_ENOMEM.
 */
int pto_watch_workers(pto_watch_fn visit, void *context);

/* ---- devices ---- */

enum { PTO_WATCH_NAME = 64, PTO_WATCH_FILE = 128, PTO_WATCH_RUNS = 2, PTO_WATCH_AWAITED = 8 };

/* A run that a device executes. */
struct pto_watch_run {
    uint64_t number;     /* number of the run on its device, from 1 on */
    uint64_t running_ns; /* for how many ns the run has been executing */
    uint32_t mode;       /* enum pto_mode */
    uint32_t builds;     /* not 0: the run builds a graph that is kept */
    uint32_t launches;   /* not 0: the run launches a graph that was built */
    char callable[PTO_WATCH_NAME];
};

/* A running kernel. Tasks are numbered from 0 in the order of their submits. */
struct pto_watch_kernel {
    uint32_t task;
    uint32_t block;
    uint32_t core; /* number of the kernel's core among the cores of its type */
    uint32_t is_aiv;
    uint32_t func_id;
    uint32_t line;       /* source line of the task's submit; 0: unknown */
    uint64_t running_ns; /* for how many ns the kernel has run, or up to 0.1 s less */
    char name[PTO_WATCH_NAME];
    char file[PTO_WATCH_FILE]; /* source file of the task's submit; the end of a long name */
};

/* Why a task does not run. */
enum pto_watch_cause {
    PTO_WATCH_READY, /* the task is ready, but has no core yet */
    PTO_WATCH_WAITS, /* the task waits for other tasks */
    /* the task's kernel has returned, but a condition that it registered does not hold */
    PTO_WATCH_CONDITION,
    PTO_WATCH_TOGETHER /* the task waits until several cores are free at the same time */
};

struct pto_watch_task {
    uint32_t task;
    uint32_t cause;  /* enum pto_watch_cause */
    int32_t func_id; /* id of the task's kernel; -1: the task has none */
    uint32_t line;   /* source line of the task's submit; 0: unknown */
    uint64_t addr;   /* address of the counter of the condition, in PTO_WATCH_CONDITION */
    /* value of that counter, and the value that is awaited, in PTO_WATCH_CONDITION */
    uint32_t counter;
    uint32_t expected;
    /*
     * Number of tasks that this one waits for, in PTO_WATCH_WAITS; `awaited` has the first of them.
     */
    uint32_t awaited_count;
    uint32_t awaited[PTO_WATCH_AWAITED];
    char name[PTO_WATCH_NAME];
    char file[PTO_WATCH_FILE];
};

/* What the orchestration of the first run does. */
enum pto_watch_builder {
    PTO_WATCH_NO_BUILDER, /* the orchestration has returned, or the run launches a graph */
    PTO_WATCH_BUILDS,     /* the orchestration executes */
    /* the orchestration waits until tasks have completed, before it submits more */
    PTO_WATCH_FOR_ROOM,
    PTO_WATCH_FOR_TASK, /* the orchestration waits for the task `builder_task` */
    /* the orchestration waits for something outside of its run (pto_orch_listen) */
    PTO_WATCH_POLLS
};

/* A device. Its pointers are valid until the function that receives it returns. */
struct pto_watch_device {
    size_t size; /* size of this struct, set by the runtime */
    int32_t pid;
    int32_t parent;      /* id of the process that has started process `pid` */
    const char *program; /* command line of the device's process, truncated to about 200 bytes */
    /* The device uses another build of the library, so the following fields are unknown. */
    bool is_other_build;
    const char *platform;
    const char *mode; /* where the chip runs: "in process", "isolated", "virtual time", "card" */
    int32_t chip_pid; /* id of the process of an isolated device's chip; 0: none */
    uint32_t workers;
    uint32_t aic_count;
    uint32_t aiv_count;
    uint64_t open_ns; /* for how many ns the device has been open */
    const char *loss; /* why the device takes no more runs; NULL: it takes runs */
    /* The process was interrupted while it wrote its state, so the fields may not fit together. */
    bool is_torn;
    uint64_t ended;  /* number of runs that have ended */
    uint32_t queued; /* number of runs that wait for their turn */
    uint32_t run_count;
    const struct pto_watch_run *run;
    bool shows_tasks; /* chips of this kind show their tasks */
    /*
     * The following fields describe the device's first run. False: the chip does not show tasks, or
     * not yet.
     */
    bool has_tasks;
    uint32_t submitted;
    uint32_t live;     /* number of submitted tasks that have not completed */
    uint64_t still_ns; /* for how many ns no kernel has started or returned */
    enum pto_watch_builder builder;
    uint32_t builder_task;
    uint32_t running; /* number of running kernels; `kernel` has the first of them */
    uint32_t kernel_count;
    const struct pto_watch_kernel *kernel;
    /*
     * Number of elements of `task`: tasks that do not run, in a run without progress for half a
     * second.
     */
    uint32_t task_count;
    const struct pto_watch_task *task;
};

/* Called for each device. */
typedef void (*pto_watch_device_fn)(void *context, const struct pto_watch_device *device);

/*
 * Calls `visit` for each device of the process with this id and of its descendants; 0: for each
 * device of the user. Devices come in the order of process ids, those of one process in the order
 * in which they were opened. The state of a run is up to 0.1 s old. Returns the number of devices.
 * PTO_EINVAL; PTO_EPEER: no such process; PTO_ESYSTEM: the process belongs to another user or
 * forbids it, or there is no /proc; PTO_ENOMEM.
 */
int pto_watch_devices(int32_t pid, pto_watch_device_fn visit, void *context);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side: open a device, make a callable, run it.
 *
 * A function that can fail returns 0 or a negative status. Structs that may
 * grow carry their size: initialise them with their `_init` function and set
 * what differs from the default. There is no process-wide state: everything
 * hangs off a device, and devices are independent of each other.
 *
 * Threads: every function may be called from any thread. Runs of one device
 * take place one after the other, in the order in which they were launched or
 * called. Closing a device, destroying a callable and finishing a run must not
 * overlap with other calls that use the same handle.
 *
 * A handle that is NULL, closed, of another kind or made up gives PTO_EINVAL.
 * After fork() the child gets PTO_EFORKED for its parent's devices, and may
 * open its own.
 */
#ifndef PTO_API_PTO_H
#define PTO_API_PTO_H

#include <stddef.h>

#include "pto/orch.h"
#include "pto/platform.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* Codes below 200 are the reference system's, under its names; ours start at -201. */
#define PTO_STATUS_MAP(X)                                           \
    X(ESCOPE_DEADLOCK, -1, "a scope holds every slot of its ring")  \
    X(EHEAP, -2, "no heap left for an output")                      \
    X(EWINDOW, -3, "the task ring is full")                         \
    X(EDEP_POOL, -4, "no room left for dependencies")               \
    X(EARGS, -5, "invalid arguments")                               \
    X(ESYNC_START, -7, "a gang that can never fit on the chip")     \
    X(ETENSOR_WAIT, -8, "tensor data did not arrive in time")       \
    X(EORCH, -9, "the orchestration reported a failure")            \
    X(EREGIONS, -11, "the table of regions is full")                \
    X(ESTALL, -100, "no progress before the deadline")              \
    X(ECOMPLETION, -101, "a condition that can never be looked at") \
    X(EWAIT_OVERFLOW, -102, "too many conditions to wait for")      \
    X(EREGISTRATION, -103, "a task's conditions cannot be kept")    \
    X(EREADY, -104, "too many tasks are ready at once")             \
    X(EINVAL, -201, "invalid argument")                             \
    X(ENOMEM, -202, "out of memory")                                \
    X(EAGAIN, -203, "no room now, retry after progress")            \
    X(ETIMEOUT, -204, "no progress before the deadline")            \
    X(EPEER, -205, "peer process is gone")                          \
    X(ENOSUP, -206, "not supported by this backend")                \
    X(EKERNEL, -207, "a kernel reported a failure")                 \
    X(ESYSTEM, -208, "the operating system refused a request")      \
    X(ECANCELED, -209, "the run was cancelled")                     \
    X(EBUSY, -210, "the run has not ended, or the device has runs") \
    X(EMEMORY, -211, "device memory is used wrongly")               \
    X(EFORKED, -212, "the device belongs to the parent process")    \
    X(ELOAD, -213, "a shared object cannot be loaded")              \
    X(ELOST, -214, "the device is lost: a kernel never returned")   \
    X(ECRASH, -215, "a kernel crashed")                             \
    X(EGRAPH, -216, "the graph was built for other arguments")      \
    X(ESTALE, -217, "made with other headers")                      \
    X(EFORMAT, -218, "not an artefact, or damaged")                 \
    X(EBUILD, -219, "the compiler refused the sources")             \
    X(EMISMATCH, -220, "the result is not the expected one")

enum pto_status {
    PTO_OK = 0,
#define X(name, value, text) PTO_##name = (value),
    PTO_STATUS_MAP(X)
#undef X
};

/* Never NULL; unknown codes give "unknown status". The text is static. */
const char *pto_strerror(int status);
const char *pto_version(void);

enum pto_mode {
    PTO_MODE_STREAM, /* tensormap_and_ringbuffer: tasks run while the graph is built */
    PTO_MODE_HOST    /* host_build_graph: the graph is complete before the first task runs */
};

enum pto_deps {
    PTO_DEPS_SAFE,   /* read-after-write, write-after-write, write-after-read */
    PTO_DEPS_SIMPLER /* the reference's rules, missing edges included */
};

/* How a callable uses an argument of its entry. */
enum pto_direction { PTO_DIR_SCALAR, PTO_DIR_IN, PTO_DIR_OUT, PTO_DIR_INOUT };

struct pto_device;

struct pto_device_params {
    size_t size;
    const char *platform; /* one that can be opened; pto_platform_at lists them */
    uint32_t clusters;    /* 0: the platform's default */
    uint32_t workers; /* threads that run tasks, the caller of pto_run included; 0: one per CPU */
    uint64_t memory_max; /* bytes the engine and the intermediate tensors may take; 0: 32 GiB */
};

void pto_device_params_init(struct pto_device_params *params);
int pto_device_open(const struct pto_device_params *params, struct pto_device **device_out);
/*
 * Ends the device's threads and frees what was allocated on it. PTO_EBUSY while
 * runs of it are not finished; nothing has happened then.
 */
int pto_device_close(struct pto_device *device);

struct pto_kernel {
    const char *name;
    pto_kernel_fn fn;
    enum pto_core_type core;
};

struct pto_callable;
struct pto_error;

struct pto_callable_params {
    size_t size;
    const char *name;
    pto_orch_fn orchestration;
    const struct pto_kernel *kernels; /* indexed by the kernel id of a submit; copied */
    uint32_t kernel_count;            /* at most 1024 */
};

void pto_callable_params_init(struct pto_callable_params *params);
int pto_callable_create(const struct pto_callable_params *params,
                        struct pto_callable **callable_out);
/*
 * From a file, whose kind is told by its content:
 *
 *   - an artefact (.ptoc) or a chip callable of the reference's layout, as with
 *     pto_callable_load_memory. `symbol` is the function of its orchestration;
 *     NULL: the one that it names.
 *   - a shared object that exports a `struct pto_callable_params` under the name
 *     `symbol` (NULL: "pto_callable"). The object stays loaded until the
 *     callable is destroyed, and its symbols are visible to nothing else.
 *
 * PTO_ELOAD, PTO_EFORMAT: `error`, which may be NULL, tells why.
 */
int pto_callable_load(const char *path, const char *symbol, struct pto_callable **callable_out,
                      struct pto_error *error);

/* A header of the tile library, and its SHA-256 in 64 lower-case digits. */
struct pto_header {
    const char *path; /* relative to the library's root */
    const char *digest;
};

struct pto_load_options {
    size_t size;
    const char *name;   /* what messages call the bytes; NULL: "the callable" */
    const char *symbol; /* function of the orchestration; NULL: the one that the artefact names */
    /*
     * What the artefact has to be made with, or it is refused with PTO_ESTALE: a
     * revision of the tile library as the artefact records it, or a folder, whose
     * headers are compared with those that it records. NULL: anything.
     */
    const char *expect_isa;
    /* The same as a list: headers that both name have to be equal. */
    const struct pto_header *expect_headers;
    uint32_t expect_header_count;
};

void pto_load_options_init(struct pto_load_options *options);
/*
 * From the bytes of an artefact, or of a chip callable of the reference's layout;
 * they are copied. Everything is checked: sizes, offsets, hashes, the ABI. Its
 * code is loaded when it is registered. `options` and `error` may be NULL.
 * PTO_EFORMAT, PTO_ESTALE.
 */
int pto_callable_load_memory(const void *bytes, size_t size, const struct pto_load_options *options,
                             struct pto_callable **callable_out, struct pto_error *error);
/* PTO_EBUSY while a run or a graph uses it. It is unregistered from all devices. */
int pto_callable_destroy(struct pto_callable *callable);

/* Texts and arrays are the callable's. What it does not have is NULL or 0. */
enum pto_callable_kind {
    PTO_CALLABLE_FUNCTIONS, /* made with pto_callable_create, or from a shared object */
    PTO_CALLABLE_ARTEFACT,
    PTO_CALLABLE_BLOB /* a chip callable of the reference's layout */
};

enum { PTO_DIGEST_BYTES = 32 };

struct pto_callable_info {
    size_t size;
    enum pto_callable_kind kind;
    const char *name;
    const char *platform; /* NULL: any */
    const char *entry;    /* function of the orchestration */
    const char *config;
    enum pto_mode mode; /* of runs without options */
    uint32_t abi;
    uint8_t digest[PTO_DIGEST_BYTES]; /* its identity: of all that runs */
    const enum pto_direction *signature;
    uint32_t signature_count;
    uint64_t orchestration_bytes;
    uint8_t orchestration_digest[PTO_DIGEST_BYTES];
    uint32_t kernel_count; /* pto_callable_kernel knows them */
    uint32_t file_count;   /* pto_callable_file knows them */
    const char *isa_revision;
    const char *compiler;
    uint32_t object_count; /* loaded at this moment, by registration */
    uint32_t device_count; /* on which it is registered */
};

struct pto_kernel_info {
    size_t size;
    uint32_t func_id;
    const char *name;
    enum pto_core_type core; /* PTO_CORE_TYPES: either */
    uint64_t bytes;
    uint8_t digest[PTO_DIGEST_BYTES];
};

/* A file that it was made of. */
struct pto_file_info {
    size_t size;
    const char *path; /* of the tile library's headers: relative to its root */
    bool is_isa;
    uint8_t digest[PTO_DIGEST_BYTES];
};

/* Set `size` of the struct first. PTO_EINVAL past the last kernel or file. */
int pto_callable_info(const struct pto_callable *callable, struct pto_callable_info *info);
int pto_callable_kernel(const struct pto_callable *callable, uint32_t index,
                        struct pto_kernel_info *info);
int pto_callable_file(const struct pto_callable *callable, uint32_t index,
                      struct pto_file_info *info);

/*
 * Loads a callable's code and makes it known to the device: 64 of them at most.
 * Optional: the first run does it. What is registered stays loaded until it is
 * unregistered everywhere, so that a run loads nothing. Objects with the same
 * content are loaded once for the whole process; others never share anything.
 *
 * PTO_ESTALE: a callable that was made with other headers of the tile library is
 * registered on the device. PTO_ENOSUP: it was made for another platform.
 * PTO_EAGAIN: there are 64. PTO_ELOAD: its code cannot be loaded. `error` may be
 * NULL. Callables without an artefact need no registration: nothing happens.
 */
int pto_register(struct pto_device *device, struct pto_callable *callable, struct pto_error *error);
/* PTO_EBUSY while a run or a graph of the device uses it; PTO_EINVAL: it is not registered. */
int pto_unregister(struct pto_device *device, struct pto_callable *callable);

/*
 * Called by the submitting thread for every dependency it finds, with the
 * submission indices (0, 1, ...) of both tasks, before it is wired. Return
 * false to leave the edge out: a race on purpose, for tests of tests.
 */
typedef bool (*pto_edge_fn)(void *context, uint64_t before, uint64_t after);

/*
 * Called by the submitting thread for every task once it is submitted, before
 * the orchestration goes on. What it points to is valid during the call. For
 * tools that want to know who reads and writes what; the task may run already.
 */
struct pto_task_view {
    uint64_t index; /* 0, 1, ... in the order of the submits, allocations included */
    struct pto_task_id task;
    struct pto_kernels kernels;
    const struct pto_args *args;
    const struct pto_site *site;   /* NULL: unknown */
    const struct pto_entry *entry; /* as the orchestration sees it */
};

typedef void (*pto_task_fn)(void *context, const struct pto_task_view *view);

/* The flight recorder. What it costs is in bench/README.md. */
enum pto_trace {
    PTO_TRACE_OFF,
    PTO_TRACE_ORDER, /* order and ids of all tasks, a time stamp for every 16 of them */
    PTO_TRACE_TIMES  /* each task with the times of its begin and end */
};

/*
 * Sizes of the reference's rings, 0: not set. Nothing here needs them: memory
 * sizes itself. Whoever sets one gets the waits and the codes that the reference
 * has for it. By default the environment's PTO2_RING_TASK_WINDOW, PTO2_RING_HEAP
 * and PTO2_RING_DEP_POOL count: one number, or four with commas.
 */
enum { PTO_RINGS = 4 };

struct pto_ring_limits {
    uint64_t task_window[PTO_RINGS]; /* a power of two, at least 4 */
    uint64_t heap[PTO_RINGS];        /* bytes, at least 1024 */
    uint64_t dep_pool[PTO_RINGS];    /* at least 4 */
};

enum pto_limits {
    PTO_LIMITS_NONE,     /* but for what is set */
    PTO_LIMITS_REFERENCE /* all of the reference's, its fixed pools included */
};

struct pto_run_options {
    size_t size;
    enum pto_mode mode;
    enum pto_deps deps;
    uint32_t window;     /* live tasks before the submitter runs some itself; 0: the default */
    uint64_t order_seed; /* not 0: ready tasks are taken in a random order made from it */
    pto_edge_fn edge;
    void *edge_context;
    enum pto_trace trace;
    enum pto_limits limits;
    struct pto_ring_limits rings;
    uint64_t timeout_ns; /* for the whole run, once it has begun; 0: none. PTO_ETIMEOUT after it */
    /*
     * Without a kernel that starts or returns before the run fails with PTO_ESTALL; 0: the
     * environment's SIMPLER_SCHEDULER_TIMEOUT_MS, or 10 s. Building a graph counts as progress.
     */
    uint64_t stall_timeout_ns;
    uint64_t data_timeout_ns; /* for pto_get_data and pto_set_data; 0: 15 s */
    uint32_t trace_records;   /* kept per worker, the latest ones; 0: 65536; a power of two */
    pto_task_fn task;         /* NULL: nobody watches, and nothing is paid for it */
    void *task_context;
};

#define PTO_DATA_TIMEOUT_DEFAULT_NS 15000000000ull

void pto_run_options_init(struct pto_run_options *options);

enum { PTO_ERROR_TEXT_MAX = 512, PTO_CORES_MAX = 1024 };

/* What went wrong, where, and what to do about it. */
struct pto_error {
    size_t size;
    int status;
    uint32_t level;          /* 2: this chip */
    int32_t rank;            /* -1: no communication involved */
    struct pto_task_id task; /* invalid: no task involved */
    int32_t kernel;          /* -1: none */
    int32_t argument;        /* -1: none */
    uint32_t scope_depth;
    struct pto_site site;
    char text[PTO_ERROR_TEXT_MAX];
};

/* The tasks of one timing slot, in ns since the run began. */
struct pto_timing {
    uint64_t begin_ns; /* first kernel started */
    uint64_t end_ns;   /* last one returned; 0: none ran */
};

struct pto_run_report {
    size_t size;
    uint64_t tasks;      /* submitted, allocations included */
    uint64_t executions; /* kernels run */
    uint64_t edges;      /* dependencies wired */
    uint64_t ns;         /* first submit to last completion */
    uint64_t stolen;     /* executions by other workers than the submitter */
    uint64_t takeovers;  /* invocations that outlived a time slice and went on beside the workers */
    uint64_t sleeps;     /* of workers, while the run was going on */
    uint64_t wakes;
    uint64_t monitor_ticks;
    uint32_t workers;
    uint32_t core_count;
    const char *warning;                /* something that was ignored; static; NULL: nothing */
    uint32_t core_tasks[PTO_CORES_MAX]; /* executions by simulated core: AICs, then AIVs */
    struct pto_timing timing[PTO_TIMING_SLOTS];
    struct pto_error error;
};

void pto_run_report_init(struct pto_run_report *report);

/*
 * Runs the callable to its end on the calling thread and the device's workers.
 * `options` and `report` may be NULL. Returns the first error; the report then
 * tells its story. The device stays usable. While other runs are before it, it
 * waits for its turn, at most the default time-out: then PTO_ETIMEOUT. From
 * inside an orchestration on the same device: PTO_EBUSY. A kernel must not call
 * it for its own device: it would wait for itself.
 */
int pto_run(struct pto_device *device, const struct pto_callable *callable,
            const struct pto_entry *entry, const struct pto_run_options *options,
            struct pto_run_report *report);

/*
 * The same in steps, for several runs in flight:
 *
 *     prepare -> launch -> poll, wait or the descriptor -> finish
 *
 * Prepare copies descriptors and scalars; the memory behind the tensors is the
 * caller's and must stay. From inside an orchestration on the same device
 * prepare gives PTO_EBUSY.
 */
struct pto_run;

enum { PTO_RUN_PENDING = 0, PTO_RUN_ENDED = 1 };

/* The default of every wait that gets 0 as its time-out: a minute. */
#define PTO_TIMEOUT_DEFAULT_NS 60000000000ull

int pto_run_prepare(struct pto_device *device, const struct pto_callable *callable,
                    const struct pto_entry *entry, const struct pto_run_options *options,
                    struct pto_run **run_out);
/* Returns at once; a thread of the device runs it after those launched before. */
int pto_run_launch(struct pto_run *run);
/* PTO_RUN_ENDED, PTO_RUN_PENDING, or an error of the call itself. */
int pto_run_poll(struct pto_run *run);
/* The status of the run, or PTO_ETIMEOUT: then it still goes on. 0: the default time-out. */
int pto_run_wait(struct pto_run *run, uint64_t timeout_ns);
/*
 * Ends the run early: kernels that run are waited for, further ones are not
 * started. A run that was not launched yet ends at once. The status of the run
 * is PTO_ECANCELED unless it had ended or failed before.
 */
int pto_run_cancel(struct pto_run *run);
/* A descriptor that is readable once the run has ended; it belongs to the run. Negative: an error. */
int pto_run_fd(struct pto_run *run);
/*
 * Frees the run; returns its status and fills the report, which may be NULL.
 * PTO_EBUSY while it is launched and has not ended. A run that was never
 * launched may be finished, too: its status is PTO_ECANCELED.
 */
int pto_run_finish(struct pto_run *run, struct pto_run_report *report);

/*
 * A graph that is built once and launched many times, with other buffers and
 * other scalars. What may change: the addresses of the entry's tensors, and
 * scalars that were passed on with pto_pass_scalar. What may not, and is refused
 * with PTO_EGRAPH: shapes; which of the tensors overlap; a scalar that the
 * orchestration read (with pto_scalar, or any of them once it has looked into
 * `entry->scalar`); an element that it read with pto_get_data and that has
 * another value now. `options->mode` is ignored: the graph is built on the host.
 *
 * Outputs that tasks create belong to the graph and are used again by every
 * launch, which allocates nothing. One launch of a graph at a time: PTO_EBUSY.
 */
struct pto_graph;

/* The report, which may be NULL, tells what is wrong with the orchestration. */
int pto_graph_build(struct pto_device *device, const struct pto_callable *callable,
                    const struct pto_entry *entry, const struct pto_run_options *options,
                    struct pto_run_report *report, struct pto_graph **graph_out);
/* As pto_run. Of the options the order, the recorder and the time-outs count. */
int pto_graph_run(struct pto_graph *graph, const struct pto_entry *entry,
                  const struct pto_run_options *options, struct pto_run_report *report);
/* As pto_run_prepare; the graph is busy until the run is finished. */
int pto_graph_prepare(struct pto_graph *graph, const struct pto_entry *entry,
                      const struct pto_run_options *options, struct pto_run **run_out);
/* PTO_EBUSY while it is launched. Before its device is closed. */
int pto_graph_destroy(struct pto_graph *graph);

/*
 * What is known about the last run of the device that failed, in lines: for a
 * stall each stuck task, what it waits for, and the likely cause. At most `size`
 * bytes, with the final zero. Returns the length of the whole text, 0: no run
 * has failed.
 */
int pto_device_story(struct pto_device *device, char *text, size_t size);
/*
 * Threads of this process that are in kernels which no run waits for any more.
 * They go on until the kernel returns or the process ends; what they may use is
 * not freed.
 */
uint32_t pto_stuck_threads(void);

/*
 * Device memory. On a simulated chip it is host memory, too. Every allocation
 * has guards of 1024 bytes before and behind it that are looked at when it is
 * freed or checked.
 */
int pto_mem_alloc(struct pto_device *device, uint64_t bytes, uint64_t *addr_out);
/*
 * PTO_EMEMORY: freed twice, inside an allocation, not of this device, or written
 * outside of it (then it is freed all the same). `error` may be NULL.
 */
int pto_mem_free(struct pto_device *device, uint64_t addr, struct pto_error *error);
/* Both ends inside one allocation, or PTO_EMEMORY. */
int pto_mem_write(struct pto_device *device, uint64_t addr, const void *from, uint64_t bytes);
int pto_mem_read(struct pto_device *device, uint64_t addr, void *to, uint64_t bytes);
/* Looks at every guard. */
int pto_mem_check(struct pto_device *device, struct pto_error *error);

/*
 * Writes the timeline of the last run that was recorded, whether it succeeded or
 * not, for ui.perfetto.dev: simulated cores as tracks, a slice an execution, a
 * flow a dependency, live and ready tasks as counters. Records that were lost
 * are counted in it. The file is written whole or not at all. PTO_EINVAL:
 * nothing was recorded. `error` may be NULL.
 */
int pto_trace_write(struct pto_device *device, const char *path, struct pto_error *error);

/*
 * Everything for one run at once: opens a device, runs, closes it. For small
 * programs; whoever runs more than once keeps device and callable. `error` may
 * be NULL.
 */
int pto_call(const char *platform, pto_orch_fn orchestration, const struct pto_kernel *kernels,
             uint32_t kernel_count, const struct pto_entry *entry, struct pto_error *error);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

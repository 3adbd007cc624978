/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The extension module pto._pto: declarations shared by its files. It holds no logic: a method
 * parses, releases the interpreter's lock, calls one pto_ function and converts the result.
 *
 * All data belongs to the module's state, one per interpreter. Objects point to it, and their type
 * keeps the module alive.
 */
#ifndef PTO_PY_EXT_H
#define PTO_PY_EXT_H

#define Py_LIMITED_API 0x03090000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

#include <pto/pto.h>

#include "py_dlpack.h"
#include "py_since39.h"

/* Classes of exceptions: X(name, base class, second base class or NULL, documentation) */
#define EXT_ERROR_MAP(X)                                                                        \
    X(InvalidArgument, Error, PyExc_ValueError, "A call was asked for something impossible.")   \
    X(GraphMismatch, InvalidArgument, NULL,                                                     \
      "A graph was launched with arguments that are not "                                       \
      "like those it was built with.")                                                          \
    X(Timeout, Error, PyExc_TimeoutError, "It was not over before its deadline.")               \
    X(Stalled, Timeout, NULL,                                                                   \
      "Nothing moved for the stall time-out: a kernel does not return, or "                     \
      "tasks wait for each other.")                                                             \
    X(OutOfMemory, Error, PyExc_MemoryError, "There is no memory left, or none of that kind.")  \
    X(LimitReached, Error, NULL,                                                                \
      "A limit of simpler's that was asked for is reached: a ring, a "                          \
      "pool or a table.")                                                                       \
    X(Canceled, Error, NULL, "The run or the build was ended early, on request.")               \
    X(PeerGone, Error, PyExc_ConnectionError,                                                   \
      "A process that takes part has ended: a rank, a "                                         \
      "child, or the process of an isolated device.")                                           \
    X(DeviceLost, Error, NULL,                                                                  \
      "The device is lost, because a kernel never returned or its "                             \
      "process has ended: close it and open another one.")                                      \
    X(BuildError, Error, NULL,                                                                  \
      "The compiler rejected a source; `output` is its unchanged output.")                      \
    X(LoadError, Error, NULL, "A file is no artefact, is damaged, or cannot be loaded.")        \
    X(Stale, LoadError, NULL, "An artefact was made with other headers: build it again.")       \
    X(Untrusted, LoadError, NULL, "An artefact is not signed by a trusted key.")                \
    X(Crash, Error, NULL, "A kernel or an orchestration crashed.")                              \
    X(KernelFailed, Error, NULL, "A kernel reported a failure.")                                \
    X(OrchestrationFailed, Error, NULL,                                                         \
      "An orchestration, or a function of a SUB worker, "                                       \
      "reported a failure.")                                                                    \
    X(Overrun, Error, NULL, "A kernel wrote beyond a tensor, which the guards noticed.")        \
    X(Unwritten, Error, NULL, "A task reads what no task writes, which the guards noticed.")    \
    X(UndeclaredAccess, Error, NULL, "A kernel used what its arguments do not allow.")          \
    X(NotFinite, Error, NULL, "A kernel computed NaN or Inf from finite inputs.")               \
    X(MemoryMisuse, Error, NULL,                                                                \
      "An address is outside the device's memory, or was freed, or something wrote beyond it.") \
    X(Busy, Error, NULL,                                                                        \
      "Something else uses it, or has no room now: try again when that is over.")               \
    X(Forked, Error, NULL, "The object belongs to the parent process: open one in the child.")  \
    X(SystemFailure, Error, NULL, "The operating system refused a request.")                    \
    X(Unsupported, Error, PyExc_NotImplementedError, "This backend cannot do it.")

enum ext_error_class {
    EXT_Error = -1, /* pto.Error */
#define X(name, parent, base, text) EXT_##name,
    EXT_ERROR_MAP(X)
#undef X
        EXT_ERROR_CLASSES
};

/* Interned names: X(variable, text) */
#define EXT_NAME_MAP(X)                          \
    X(dlpack, "__dlpack__")                      \
    X(dlpack_device, "__dlpack_device__")        \
    X(exchange_api, "__dlpack_c_exchange_api__") \
    X(max_version, "max_version")                \
    X(name, "name")                              \
    X(type_name, "__name__")

/* A property of a type and its getter. */
struct ext_property {
    PyObject *object;
    descrgetfunc get;
};

/* Functions that read tensors of torch: py_torch.c. */
struct ext_torch {
    PyObject *type; /* torch.Tensor; NULL: no object of this type was seen yet */
    bool is_known;
    PyObject *none; /* an empty tuple */
    PyObject *last; /* dtype of torch that was converted last */
    int last_code;  /* code of the runtime for `last` */
    struct ext_property shape, dtype, is_cpu, requires_grad;
    PyCFunction data_ptr;
    PyCFunctionWithKeywords is_contiguous;
};

struct ext_state {
    PyObject *error; /* pto.Error */
    PyObject *error_class[EXT_ERROR_CLASSES];
    PyObject *dtype[PTO_DTYPE_COUNT];
    PyTypeObject *dtype_type;
    PyTypeObject *tensor_type;
    PyTypeObject *argument_type;
    PyTypeObject *address_type;
    PyTypeObject *callable_type;
    PyTypeObject *device_type;
    PyTypeObject *report_type;
    PyTypeObject *run_type;
    PyTypeObject *graph_type;
    PyTypeObject *memory_type;
    struct ext_device *devices; /* all open devices, closed at the end of the interpreter */
    /* dict: type -> capsule with exchange functions, or None if the type has none */
    PyObject *exchange;
    PyObject *max_version; /* version of DLPack, a tuple */
    struct ext_torch torch;
    struct { /* types of level-3 workers: py_worker.h */
        PyTypeObject *worker_type, *block_type, *registered_type, *worker_run_type;
        PyTypeObject *worker_report_type, *level_type, *task_type, *fresh_type;
    };
#define X(variable, text) PyObject *variable;
    struct {
        EXT_NAME_MAP(X)
    } names;
#undef X
};

/* ---- py_module.c ---- */

/* Returns the state of the module that a type, or its base class, is from. */
struct ext_state *ext_state_of(PyTypeObject *type);

/* Calls a function of the package, and imports its module if needed. */
PyObject *ext_call_package(const char *module_name, const char *function, PyObject *argument);

/* Implements `await` of both kinds of runs in asyncio. */
PyObject *ext_await_run(PyObject *run);

/* Returns CLOCK_MONOTONIC. */
uint64_t ext_now_ns(void);

/* Returns a text as an object; None for NULL. */
PyObject *ext_text(const char *text);

/* Returns a list of `count` objects, each from `make`. */
PyObject *ext_list_of(uint32_t count, PyObject *(*make)(const void *from, uint32_t at),
                      const void *from);

/* Makes a type of the module. */
PyObject *ext_make_type(PyObject *module, PyType_Spec *spec);

/* Makes a type of the module and adds it. */
int ext_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type_out);

/* ---- py_error.c ---- */

int ext_error_init(PyObject *module, struct ext_state *state);
/* Raises the exception for a status, with the fields of `error`, which may be NULL. Returns NULL. */
PyObject *ext_raise(struct ext_state *state, int status, const struct pto_error *error);
/* Raises the error of a device memory call that has just failed, with the device's explanation. */
PyObject *ext_raise_memory(struct ext_state *state, struct pto_device *device, int status);
/* Raises the exception for a status with our own sentence. */
PyObject *ext_raise_text(struct ext_state *state, int status, const char *format, ...);
/* Sets an attribute of an exception; steals the value. */
int ext_set(PyObject *object, const char *name, PyObject *value);
/* Makes the exception without raising it. */
PyObject *ext_exception(struct ext_state *state, int status, const struct pto_error *error);

/* ---- py_dtype.c ---- */

int ext_dtype_init(PyObject *module, struct ext_state *state);
/*
 * Returns the code of a data type given as pto.dtype, its name, its code, or a dtype of numpy or
 * torch; -1 with an exception.
 */
int ext_dtype_code(struct ext_state *state, PyObject *object);
/* Converts to DLPack's description; false: there is none. */
bool ext_dtype_to_dlpack(uint32_t dtype, struct dlpack_type *type_out);
/* Converts from DLPack's description; -1: not a type of the runtime. */
int ext_dtype_from_dlpack(struct dlpack_type type);
/* Converts from a format of the buffer protocol; -1: not a type of the runtime. */
int ext_dtype_from_format(const char *format, Py_ssize_t itemsize);
/* Returns the format for the buffer protocol; NULL: it has none, and raw bytes are exported. */
const char *ext_dtype_format(uint32_t dtype);

/* ---- py_take.c, py_tensor.c ---- */

/* A further direction: orders the task after the creator of the tensor only. */
enum { EXT_NO_DEP = PTO_DIR_COUNT };

/*
 * Reference that keeps the memory of a tensor alive. It is released while the interpreter's lock is
 * held.
 */
struct ext_hold {
    enum {
        EXT_HOLD_NOTHING,
        EXT_HOLD_OBJECT,
        EXT_HOLD_BUFFER,
        EXT_HOLD_MANAGED,
        EXT_HOLD_VERSIONED
    } kind;
    /* direction of an argument; PTO_DIR_SCALAR: unknown; or EXT_NO_DEP */
    enum pto_direction direction;
    union {
        PyObject *object;
        Py_buffer buffer;
        struct dlpack_managed *managed;
        struct dlpack_versioned *versioned;
    };
};

/* pto.Tensor: a descriptor, and the owner of its memory. */
struct ext_tensor_object {
    PyObject_HEAD struct ext_state *state;
    struct ext_hold hold;
    bool is_readonly;
    bool is_remote; /* in memory that only the device can access */
    /* shape in the form that the buffer protocol needs */
    Py_ssize_t shape[PTO_MAX_DIMS];
    Py_ssize_t strides[PTO_MAX_DIMS];
    /*
     * bytes of the descriptor, which needs more alignment than the 16 bytes that Python's objects
     * have
     */
    unsigned char bytes[sizeof(struct pto_tensor)];
};

/* A converted tensor, and the owner of its memory. */
struct ext_tensor {
    struct pto_tensor tensor;
    struct ext_hold hold;
    bool is_readonly;
};

int ext_tensor_init(PyObject *module, struct ext_state *state);
/*
 * Converts an object to a tensor: pto.Tensor, DLPack, the buffer protocol. `dtype` -1: the object's
 * own. 0, or -1 with an exception. *out is to be released.
 */
int ext_tensor_take(struct ext_state *state, PyObject *object, int dtype, struct ext_tensor *out);
/*
 * Converts an object for a call that waits for its end, so that holding the object itself may be
 * enough.
 */
int ext_tensor_borrow(struct ext_state *state, PyObject *object, struct ext_tensor *out);
void ext_hold_release(struct ext_hold *hold);
/* Makes a pto.Tensor of a descriptor, which keeps `owner` alive; `owner` may be NULL. */
PyObject *ext_tensor_new(struct ext_state *state, const struct pto_tensor *tensor, PyObject *owner,
                         bool is_readonly);
/* Marks a tensor as being in memory that only a device can access. */
void ext_tensor_set_remote(PyObject *tensor);
/*
 * Reads a shape from a tuple, a list or an int. Returns the number of dimensions, or -1 with an
 * exception.
 */
int ext_shape(struct ext_state *state, PyObject *object, uint32_t shapes[PTO_MAX_DIMS]);

/* ---- py_torch.c ---- */

/* Remembers the type of an object if it is torch.Tensor. Raises nothing. */
void ext_torch_learn(struct ext_state *state, PyObject *object);
/* Converts a tensor of the remembered type. False, without an exception: use another way. */
bool ext_torch_take(struct ext_state *state, PyObject *object, struct ext_tensor *out);

/* ---- py_args.c ---- */

/*
 * The arguments of a run: descriptors and scalars for pto_entry, and the owners of their memory.
 * Each array has room for EXT_ARGS_ROOM elements inside the struct; begin with ext_args_init.
 */
enum { EXT_ARGS_ROOM = 16 };

struct ext_args {
    struct pto_tensor *tensor;
    struct ext_hold *hold;
    uint64_t *scalar;
    uint32_t tensor_count;
    uint32_t scalar_count;
    uint32_t tensor_room;
    uint32_t addresses; /* bit k: scalar k is a pto.Address */
    /* the caller waits for the run, so holding the objects is enough to keep their memory */
    bool is_brief;
    struct pto_tensor tensors[EXT_ARGS_ROOM];
    struct ext_hold holds[EXT_ARGS_ROOM];
    uint64_t scalars[PTO_ENTRY_SCALARS_MAX];
};

int ext_args_init_types(PyObject *module, struct ext_state *state);
/* Makes a pto.Address; NULL with an exception. */
PyObject *ext_address_new(const struct ext_state *state, uint64_t address);
void ext_args_init(struct ext_args *args);
/* Types of a signature entry beyond the data types: unknown, and a scalar type. */
enum { EXT_TYPE_UNKNOWN = -1, EXT_TYPE_FLOAT64 = PTO_DTYPE_COUNT };
struct ext_expected {
    int type;
    char name[32]; /* "": unknown */
};

/* The signature of a callable. */
struct ext_signature {
    const enum pto_direction *direction;
    uint32_t count; /* 0: unknown */
    /* additional tensors are accepted, because the callable was made for the reference system */
    bool is_open;
    struct ext_expected *expected; /* one per entry; NULL: unknown */
    const char *name;              /* name of the callable */
};

/* Progress of converting the arguments of a call; all fields begin as 0. */
struct ext_place {
    Py_ssize_t argument;
    /*
     * entries of the signature before this index were already used for tensors; `scalar` likewise
     */
    uint32_t tensor;
    uint32_t scalar;
};

/* Parses the `arguments` text of an artefact; the caller frees the result. NULL: nothing. */
struct ext_expected *ext_expected_parse(const char *arguments, uint32_t count);
/*
 * Converts the arguments of a call, tensors and scalars in any order. 0, or -1 with an exception;
 * to be released in any case.
 */
int ext_args_take(struct ext_state *state, struct ext_args *args, PyObject *const *objects,
                  Py_ssize_t count, const struct ext_signature *signature);
/* Converts one argument. */
int ext_args_add(struct ext_state *state, struct ext_args *args, PyObject *object,
                 const struct ext_signature *signature, struct ext_place *at);
/* Counts a tensor argument that is not converted from an object. */
int ext_args_skip_tensor(struct ext_state *state, const struct ext_signature *signature,
                         struct ext_place *at);
void ext_args_release(struct ext_args *args);

/* ---- py_options.c ---- */

/* Sets run options from the keywords of a vectorcall. 0, or -1 with an exception. */
int ext_options_take(struct ext_state *state, PyObject *names, PyObject *const *values,
                     struct pto_run_options *options);
/* The line of an option in a docstring: a row of PTO_RUN_OPTION_MAP. */
#define EXT_OPTION_DOC(field, kind, name, level) "    " name EXT_DOC_##kind "\n"
#define EXT_DOC_MODE ": 'stream', 'host'"
#define EXT_DOC_DEPS ": 'safe', 'simpler'"
#define EXT_DOC_LIMITS ": 'none', 'reference'"
#define EXT_DOC_TRACE ": True, 'order', 'times', 'arguments'"
#define EXT_DOC_RING ": a size, or one for each ring"
#define EXT_DOC_U32 ": a number"
#define EXT_DOC_U64 ": a number"
#define EXT_DOC_SECONDS ": in seconds"
#define EXT_DOC_BOOL ": True, False"
#define EXT_DOC_TEXT ": a str"
#define EXT_DOC_DIAGNOSTICS ": a dict: folder, swimlane, args, pmu, deps, scopes, names"
#define EXT_DOC_SCALARS ": indices of scalars that launches of a graph may change"
#define EXT_DOC_EDGE "(before, after): called for each dependency; False drops it"
#define EXT_DOC_TASK "(dict): called for each submit"
#define EXT_DOC_STEP "(dict): called before and after the kernels of each task"
/* Converts a time in seconds to nanoseconds, never 0. */
int ext_seconds(struct ext_state *state, const char *name, PyObject *value, uint64_t *ns_out);
/* Returns the index of a text among several; -1 with an exception. */
int ext_choice(struct ext_state *state, const char *name, PyObject *value,
               const char *const *choices);
/*
 * Converters of counts, sizes, offsets and addresses for format O& of PyArg_ParseTuple: a number
 * that does not fit raises ValueError, where formats I and K truncate it. 1, or 0 with an
 * exception.
 */
int ext_take_u32(PyObject *number, void *u32_out);
int ext_take_u64(PyObject *number, void *u64_out);
int ext_take_size(PyObject *number, void *py_ssize_out);
int ext_mode(struct ext_state *state, PyObject *value);
int ext_deps(struct ext_state *state, PyObject *value);

/* ---- py_callable.c ---- */

struct ext_callable {
    PyObject_HEAD struct ext_state *state;
    struct pto_callable *callable;
    struct ext_signature signature;
    enum pto_mode mode;
    bool is_registered; /* a run has already loaded the code of the callable */
    PyObject *source;   /* where the callable was loaded from: bytes, or a path */
};

int ext_callable_init(PyObject *module, struct ext_state *state);

/* ---- py_device.c ---- */

struct ext_device {
    PyObject_HEAD struct ext_state *state;
    struct pto_device *device; /* NULL: closed, and its memory is freed */
    bool is_remote;            /* its memory cannot be accessed from this process */
    /* the device takes no more runs, but tensors may still be in its memory */
    bool is_closed;
    uint64_t memory_count;       /* live allocations */
    struct ext_launch *launches; /* launches that threads currently execute */
    /* list of submitted runs, the oldest first; it owns a reference to each */
    struct ext_run *first;
    struct ext_run **last;
    struct ext_graph *graphs; /* open graphs; borrowed references */
    struct ext_device *next;  /* next open device of the module's state */
    struct ext_device **before;
};

int ext_device_init(PyObject *module, struct ext_state *state);
/* Type of a function that runs a callable or launches a graph with arguments and keywords. */
typedef PyObject *(*ext_use_fn)(struct ext_device *device, PyObject *target,
                                PyObject *const *objects, Py_ssize_t count, PyObject *names);
/* Calls `use` with arguments that another object has made, followed by the keywords of the call. */
PyObject *ext_use_made(ext_use_fn use, struct ext_device *device, PyObject *target,
                       PyObject *arguments, PyObject *const *keywords, PyObject *names);
/* Returns the handle of the device; if it is closed, raises an exception and returns NULL. */
struct pto_device *ext_device_handle(struct ext_device *device);
/* py_virtual.c */
PyObject *ext_device_set_costs(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *ext_device_virtual_report(PyObject *self, PyObject *ignored);
/* Records that an allocation was freed; closes the device if it was the last. */
void ext_device_forget(struct ext_device *device);

/* ---- py_memory.c ---- */

int ext_memory_init(PyObject *module, struct ext_state *state);
/* Makes a tensor in new memory of the device. */
PyObject *ext_memory_new(struct ext_device *device, PyObject *shape, PyObject *dtype);

/* ---- py_graph.c ---- */

struct ext_graph {
    PyObject_HEAD struct ext_state *state;
    struct pto_graph *graph; /* NULL: closed */
    struct ext_device *device;
    struct ext_callable *callable;
    PyObject *report; /* report of the build */
    /*
     * function that makes the arguments of a launch from those of the call; NULL: the arguments are
     * used unchanged
     */
    PyObject *bind;
    struct pto_tensor *built; /* tensors with which the graph was built, for messages */
    uint32_t built_count;
    struct ext_graph *next;
    struct ext_graph **before;
};

int ext_graph_init(PyObject *module, struct ext_state *state);
PyObject *ext_graph_build(struct ext_device *device, PyObject *callable, PyObject *const *objects,
                          Py_ssize_t count, PyObject *names);
/*
 * Compares the tensors of a launch with those of the build. If they do not fit, raises an exception
 * that names both and returns -1.
 */
int ext_graph_check(const struct ext_graph *graph, const struct ext_args *args);
/* Destroys the graph, also when its device is closed. */
int ext_graph_close(struct ext_graph *graph);

/* ---- py_interrupt.c ---- */

enum { EXT_WAITING_TEXT = 512 };

/*
 * A call that waits, and the function that cancels it. While the call waits, another thread calls
 * both functions.
 */
struct ext_waiting {
    void (*cancel)(void *context);
    /*
     * Describes why the call still waits after it was cancelled. NULL: a cancelled call returns at
     * once.
     */
    void (*describe)(void *context, char text[EXT_WAITING_TEXT]);
    void *context;
};

/*
 * Makes Ctrl-C cancel the following call from another thread, if this is the main thread. True:
 * ext_interrupt_end must follow. Called without the interpreter's lock.
 */
bool ext_interrupt_begin(const struct ext_waiting *call);
void ext_interrupt_end(void);
/* Writes a line to Python's stderr, from any thread, with or without the interpreter's lock. */
void ext_interrupt_print(const char *text);

/* ---- py_run.c ---- */

/* A launch in progress: arguments, options, and the run once it is prepared. */
struct ext_launch {
    struct ext_device *device;
    PyObject *target; /* a pto.Callable or a pto.Graph */
    struct ext_args *args;
    struct pto_run *run;
    struct pto_error error;
    struct pto_run_options options;
    struct ext_launch *next; /* next launch of the device */
    struct ext_launch **before;
};

int ext_launch_begin(struct ext_launch *launch, struct ext_device *device, PyObject *target,
                     struct ext_args *args);
/* Prepares a run. `names` are keywords, whose values follow the arguments. */
int ext_launch_prepare(struct ext_launch *launch, PyObject *const *objects, Py_ssize_t count,
                       PyObject *names);
/* Runs to the end on this thread; returns the report of the run, or raises its error. */
PyObject *ext_launch_run(struct ext_device *device, PyObject *target, PyObject *const *objects,
                         Py_ssize_t count, PyObject *names);

struct ext_run {
    PyObject_HEAD struct ext_state *state;
    struct pto_run *run; /* handle of the run; NULL: it has ended, and its report is complete */
    int status;
    /* descriptor that becomes readable at the end of the run; -1: none was requested */
    int descriptor;
    uint32_t users; /* number of threads that use `run` at present */
    bool is_queued;
    struct ext_run *next;
    struct ext_device *device;
    PyObject *target;
    PyObject *report;
    /*
     * exception of a failed run. It is made when the run ends, because texts of the error may be in
     * the code of the callable
     */
    PyObject *failure;
    struct ext_args *args;
    PyObject *options; /* tuple of option texts and observers, kept until the run has ended */
    uint64_t stall_timeout_ns;
};

int ext_run_init(PyObject *module, struct ext_state *state);
PyObject *ext_run_submit(struct ext_device *device, PyObject *target, PyObject *const *objects,
                         Py_ssize_t count, PyObject *names);
/* Waits for the end of a run. 1: ended, 0: not yet, -1: an exception. */
int ext_run_wait(struct ext_run *run, uint64_t timeout_ns);
/* Frees what ended runs of the device hold. */
void ext_run_sweep(struct ext_device *device);
/* Describes what a cancelled run waits for. */
void ext_run_describe(const struct ext_state *state, PyObject *target, uint64_t stall_timeout_ns,
                      char text[EXT_WAITING_TEXT]);

/* ---- py_report.c ---- */

int ext_report_init(PyObject *module, struct ext_state *state);
PyObject *ext_report_new(struct ext_state *state);
struct pto_run_report *ext_report_of(PyObject *report);

/* ---- py_build.c, py_store.c ---- */

int ext_build_init(PyObject *module);
int ext_store_init(PyObject *module);

/* ---- py_worker.c ---- */

int ext_worker_init(PyObject *module, struct ext_state *state);

/* ---- py_observe.c ---- */

int ext_observe_init(PyObject *module);
/*
 * Make the runtime call a Python function for each edge, task or step. The owner of the run keeps
 * the function.
 */
void ext_observe_edges(PyObject *function, pto_edge_fn *edge_out, void **context_out);
void ext_observe_tasks(PyObject *function, pto_task_fn *task_out, void **context_out);
void ext_observe_steps(PyObject *function, pto_step_fn *step_out, void **context_out);
/* Restores the default destination of log lines. */
void ext_log_end(void);

/* Casts a method with keywords for its table. */
#define EXT_WITH_KEYWORDS(function) ((PyCFunction)(void (*)(void))(function))

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The extension module pto._pto: what its files share. It holds no logic: a method parses,
 * releases the interpreter's lock, calls one pto_ function and converts the result.
 *
 * Everything hangs off the module's state, one for each interpreter. Objects keep a pointer
 * to it: their type keeps the module alive.
 */
#ifndef PTO_PY_EXT_H
#define PTO_PY_EXT_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

#include <pto/pto.h>

#include "py_dlpack.h"

/* Classes of exceptions: X(name, class that it is derived from, base beside that or NULL, documentation) */
#define EXT_ERROR_MAP(X)                                                                         \
    X(InvalidArgument, Error, PyExc_ValueError, "A call was asked for something impossible.")    \
    X(GraphMismatch, InvalidArgument, NULL,                                                      \
      "A graph was launched with arguments that are not "                                        \
      "like those it was built with.")                                                           \
    X(Timeout, Error, PyExc_TimeoutError, "It was not over before its deadline.")                \
    X(Stalled, Timeout, NULL,                                                                    \
      "Nothing moved for the stall time-out: a kernel does not return, or "                      \
      "tasks wait for each other.")                                                              \
    X(OutOfMemory, Error, PyExc_MemoryError, "There is no memory left, or none of that kind.")   \
    X(LimitReached, Error, NULL,                                                                 \
      "A limit of simpler's that was asked for is reached: a ring, a "                           \
      "pool or a table.")                                                                        \
    X(Canceled, Error, NULL, "The run or the build was ended early, on request.")                \
    X(PeerGone, Error, PyExc_ConnectionError,                                                    \
      "A process that takes part has ended: a rank, a "                                          \
      "child, or the process of an isolated device.")                                            \
    X(DeviceLost, Error, NULL,                                                                   \
      "The device is lost, because a kernel never returned or its "                              \
      "process has ended: close it and open another one.")                                       \
    X(BuildError, Error, NULL,                                                                   \
      "The compiler refused a source; `output` is what it printed, unchanged.")                  \
    X(LoadError, Error, NULL, "A file is no artefact, is damaged, or cannot be loaded.")         \
    X(Stale, LoadError, NULL, "An artefact was made with other headers: build it again.")        \
    X(Untrusted, LoadError, NULL, "An artefact is not signed by a trusted key.")                 \
    X(Crash, Error, NULL, "A kernel or an orchestration crashed.")                               \
    X(KernelFailed, Error, NULL, "A kernel reported a failure.")                                 \
    X(OrchestrationFailed, Error, NULL,                                                          \
      "An orchestration, or a function of a SUB worker, "                                        \
      "reported a failure.")                                                                     \
    X(Overrun, Error, NULL, "A kernel wrote beyond a tensor, which the guards noticed.")         \
    X(Unwritten, Error, NULL, "A task reads what no task writes, which the guards noticed.")     \
    X(MemoryMisuse, Error, NULL,                                                                 \
      "An address is none of the device's memory, or was freed, or something wrote beyond it.")  \
    X(Busy, Error, NULL,                                                                         \
      "Something else uses it, or has no room now: try again when that is over.")                \
    X(Forked, Error, NULL, "What is used belongs to the parent process: open one in the child.") \
    X(SystemFailure, Error, NULL, "The operating system refused a request.")                     \
    X(Unsupported, Error, PyExc_NotImplementedError, "This backend cannot do it.")

enum ext_error_class {
    EXT_Error = -1, /* pto.Error itself */
#define X(name, parent, base, text) EXT_##name,
    EXT_ERROR_MAP(X)
#undef X
        EXT_ERROR_CLASSES
};

/* Names that are looked up often: X(variable, text) */
#define EXT_NAME_MAP(X)                          \
    X(dlpack, "__dlpack__")                      \
    X(dlpack_device, "__dlpack_device__")        \
    X(exchange_api, "__dlpack_c_exchange_api__") \
    X(max_version, "max_version")                \
    X(name, "name")                              \
    X(type_name, "__name__")

/* A property of a type, and the function that reads it. */
struct ext_property {
    PyObject *object;
    descrgetfunc get;
};

/* How tensors of torch are read: py_torch.c. */
struct ext_torch {
    PyObject *type; /* NULL: none was seen */
    bool is_known;
    PyObject *none; /* an empty tuple */
    PyObject *last; /* its dtype that was seen last */
    int last_code;  /* and ours */
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
    struct ext_device *devices; /* all that are open, for the end of the interpreter */
    PyObject *exchange;         /* dict: type -> capsule, or None: it has no exchange functions */
    PyObject *max_version;      /* of DLPack, a tuple */
    struct ext_torch torch;
    struct { /* of workers of level 3: py_worker.h */
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

/* The state of the module that a type of this extension, or a class derived from it, is from. */
struct ext_state *ext_state_of(PyTypeObject *type);

/* Calls a function of the package, whose module is loaded if it is not. */
PyObject *ext_call_package(const char *module_name, const char *function, PyObject *argument);

/* Waits for a run in asyncio: `await` of both kinds of runs. */
PyObject *ext_await_run(PyObject *run);

/* CLOCK_MONOTONIC. */
uint64_t ext_now_ns(void);

/* A text as an object; None for NULL. */
PyObject *ext_text(const char *text);

/* A list of `count` things, each from `make`. */
PyObject *ext_list_of(uint32_t count, PyObject *(*make)(const void *from, uint32_t at),
                      const void *from);

/* Makes a type of the module and adds it. */
int ext_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type_out);

/* ---- py_error.c ---- */

int ext_error_init(PyObject *module, struct ext_state *state);
/* Raises the exception for a status, with the fields of `error`, which may be NULL. Returns NULL. */
PyObject *ext_raise(struct ext_state *state, int status, const struct pto_error *error);
/* The same for a call for device memory that has just failed: with what the device knows of it. */
PyObject *ext_raise_memory(struct ext_state *state, struct pto_device *device, int status);
/* The same with a sentence of our own. */
PyObject *ext_raise_text(struct ext_state *state, int status, const char *format, ...);
/* An attribute of an exception; the value is stolen. */
int ext_set(PyObject *object, const char *name, PyObject *value);
/* Makes the exception without raising it. */
PyObject *ext_exception(struct ext_state *state, int status, const struct pto_error *error);

/* ---- py_dtype.c ---- */

int ext_dtype_init(PyObject *module, struct ext_state *state);
/* The code of a data type given as pto.dtype, its name, its code, or a dtype of numpy or torch; -1: raised. */
int ext_dtype_code(struct ext_state *state, PyObject *object);
/* DLPack's description; false: there is none. */
bool ext_dtype_to_dlpack(uint32_t dtype, struct dlpack_type *type_out);
/* From DLPack's description; -1: the runtime has no such type. */
int ext_dtype_from_dlpack(struct dlpack_type type);
/* From a format of the buffer protocol; -1: the runtime has no such type. */
int ext_dtype_from_format(const char *format, Py_ssize_t itemsize);
/* For the buffer protocol; NULL: it has no format of its own, and raw bytes are exported. */
const char *ext_dtype_format(uint32_t dtype);

/* ---- py_take.c, py_tensor.c ---- */

/* Beside the directions of a signature: of an argument that orders its task after its creator only. */
enum { EXT_NO_DEP = PTO_DIR_COUNT };

/* Keeps the memory of a tensor alive; released with the interpreter's lock held. */
struct ext_hold {
    enum {
        EXT_HOLD_NOTHING,
        EXT_HOLD_OBJECT,
        EXT_HOLD_BUFFER,
        EXT_HOLD_MANAGED,
        EXT_HOLD_VERSIONED
    } kind;
    enum pto_direction direction; /* of an argument; PTO_DIR_SCALAR: not known, EXT_NO_DEP */
    union {
        PyObject *object;
        Py_buffer buffer;
        struct dlpack_managed *managed;
        struct dlpack_versioned *versioned;
    };
};

/* pto.Tensor: a descriptor, and what keeps its memory alive. */
struct ext_tensor_object {
    PyObject_HEAD struct ext_state *state;
    struct ext_hold hold;
    bool is_readonly;
    bool is_remote; /* in memory that only its device can reach */
    /* For whoever has its buffer. */
    Py_ssize_t shape[PTO_MAX_DIMS];
    Py_ssize_t strides[PTO_MAX_DIMS];
    unsigned char bytes[sizeof(struct pto_tensor)]; /* Python's objects are aligned to 16 bytes */
};

/* A tensor that came from Python, and what keeps it. */
struct ext_tensor {
    struct pto_tensor tensor;
    struct ext_hold hold;
    bool is_readonly;
};

int ext_tensor_init(PyObject *module, struct ext_state *state);
/*
 * Takes a tensor from anything: pto.Tensor, DLPack, the buffer protocol. `dtype` -1: the object's own.
 * 0, or -1 with an exception. *out is to be released.
 */
int ext_tensor_take(struct ext_state *state, PyObject *object, int dtype, struct ext_tensor *out);
/* The same for a call that waits for its end: the object itself may be what keeps the memory. */
int ext_tensor_take_briefly(struct ext_state *state, PyObject *object, struct ext_tensor *out);
void ext_hold_release(struct ext_hold *hold);
/* A pto.Tensor of a descriptor that keeps `owner` alive, which may be NULL. */
PyObject *ext_tensor_new(struct ext_state *state, const struct pto_tensor *tensor, PyObject *owner,
                         bool is_readonly);
/* Says that it is in memory that only a device can reach. */
void ext_tensor_set_remote(PyObject *tensor);
/* Shapes from a tuple, a list or an int. Returns how many, or -1 with an exception. */
int ext_shape(struct ext_state *state, PyObject *object, uint32_t shapes[PTO_MAX_DIMS]);

/* ---- py_torch.c ---- */

/* Learns the type of an object, if it is torch.Tensor. Raises nothing. */
void ext_torch_learn(struct ext_state *state, PyObject *object);
/* Takes a tensor whose type was learned. False, without an exception: it has to go another way. */
bool ext_torch_take(struct ext_state *state, PyObject *object, struct ext_tensor *out);

/* ---- py_args.c ---- */

/*
 * The arguments of a run: descriptors and scalars as pto_entry wants them, and what keeps them.
 * `room` of each array are there from the beginning; begin with ext_args_init.
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
    bool is_brief;      /* whoever gave them waits until they are released */
    struct pto_tensor tensors[EXT_ARGS_ROOM];
    struct ext_hold holds[EXT_ARGS_ROOM];
    uint64_t scalars[PTO_ENTRY_SCALARS_MAX];
};

int ext_args_init_types(PyObject *module, struct ext_state *state);
/* A pto.Address. NULL: raised. */
PyObject *ext_address_new(const struct ext_state *state, uint64_t address);
void ext_args_init(struct ext_args *args);
/* What is known of an entry of a signature: data types, and the type of a scalar that is none of them. */
enum { EXT_TYPE_UNKNOWN = -1, EXT_TYPE_FLOAT64 = PTO_DTYPE_COUNT };
struct ext_expected {
    int type;
    char name[32]; /* "": not known */
};

/* What a callable takes. */
struct ext_signature {
    const enum pto_direction *direction;
    uint32_t count;                /* 0: not known */
    bool is_open;                  /* it may have more tensors: made for the reference system */
    struct ext_expected *expected; /* for each entry; NULL: not known */
    const char *name;              /* of the callable */
};

/* Where the arguments of a call have come to: 0 in the beginning. */
struct ext_place {
    Py_ssize_t argument;
    uint32_t tensor; /* entries of the signature before these were used */
    uint32_t scalar;
};

/* What the `arguments` of an artefact say of its signature, to be freed; NULL: nothing. */
struct ext_expected *ext_expected_parse(const char *arguments, uint32_t count);
/*
 * Takes the arguments of a call, tensors and scalars in any order. 0, or -1 with an exception; to be
 * released in any case.
 */
int ext_args_take(struct ext_state *state, struct ext_args *args, PyObject *const *objects,
                  Py_ssize_t count, const struct ext_signature *signature);
/* The same for one of them. */
int ext_args_add(struct ext_state *state, struct ext_args *args, PyObject *object,
                 const struct ext_signature *signature, struct ext_place *at);
/* An argument that is a tensor, but not taken from an object. */
int ext_args_skip_tensor(struct ext_state *state, const struct ext_signature *signature,
                         struct ext_place *at);
void ext_args_release(struct ext_args *args);

/* ---- py_options.c ---- */

/* Sets options from the keywords of a vectorcall. 0, or -1 with an exception. */
int ext_options_take(struct ext_state *state, PyObject *names, PyObject *const *values,
                     struct pto_run_options *options);
/* The line of an option in a doc string: a row of PTO_RUN_OPTION_MAP. */
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
/* A time in seconds, as nanoseconds and never 0. */
int ext_seconds(struct ext_state *state, const char *name, PyObject *value, uint64_t *ns_out);
/* One of several texts, by its index; -1 with an exception. */
int ext_choice(struct ext_state *state, const char *name, PyObject *value,
               const char *const *choices);
/*
 * Counts, sizes, offsets and addresses, for the format O& of PyArg_ParseTuple: a number that does not fit is
 * refused with ValueError, where the formats I and K take its last bits. 1, or 0 with an exception.
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
    bool is_registered; /* a run has loaded its code */
    PyObject *source;   /* what it was loaded from: bytes, or a path */
};

int ext_callable_init(PyObject *module, struct ext_state *state);

/* ---- py_device.c ---- */

struct ext_device {
    PyObject_HEAD struct ext_state *state;
    struct pto_device *device;   /* NULL: closed, and all its memory freed */
    bool is_remote;              /* its memory cannot be reached from here */
    bool is_closed;              /* for runs; tensors may still be in its memory */
    uint64_t memory_count;       /* allocations that are not freed */
    struct ext_launch *launches; /* that threads execute at this moment */
    struct ext_run
        *first; /* runs that were submitted, oldest first; each reference is the queue's */
    struct ext_run **last;
    struct ext_graph *graphs; /* not closed; without a reference */
    struct ext_device *next;  /* of the state's */
    struct ext_device **before;
};

int ext_device_init(PyObject *module, struct ext_state *state);
/* What is done with a callable, or a graph, and its arguments; keywords follow these. */
typedef PyObject *(*ext_use_fn)(struct ext_device *device, PyObject *target,
                                PyObject *const *objects, Py_ssize_t count, PyObject *names);
/* The same with arguments that another object made, followed by the keywords of the call. */
PyObject *ext_use_made(ext_use_fn use, struct ext_device *device, PyObject *target,
                       PyObject *arguments, PyObject *const *keywords, PyObject *names);
/* Its memory is gone: closes it if that was the last. */
void ext_device_forget(struct ext_device *device);

/* ---- py_memory.c ---- */

int ext_memory_init(PyObject *module, struct ext_state *state);
/* A tensor in new memory of the device. */
PyObject *ext_memory_new(struct ext_device *device, PyObject *shape, PyObject *dtype);

/* ---- py_graph.c ---- */

struct ext_graph {
    PyObject_HEAD struct ext_state *state;
    struct pto_graph *graph; /* NULL: closed */
    struct ext_device *device;
    struct ext_callable *callable;
    PyObject *report; /* of its building */
    PyObject *bind;   /* makes the arguments of a launch of those of the call; NULL: they are it */
    struct pto_tensor *built; /* the tensors that it was built with, for messages */
    uint32_t built_count;
    struct ext_graph *next;
    struct ext_graph **before;
};

int ext_graph_init(PyObject *module, struct ext_state *state);
PyObject *ext_graph_build(struct ext_device *device, PyObject *callable, PyObject *const *objects,
                          Py_ssize_t count, PyObject *names);
/* Whether tensors are as they were when it was built; -1: raised, with both. */
int ext_graph_check(const struct ext_graph *graph, const struct ext_args *args);
/* Destroys it, as when its device is closed. */
int ext_graph_close(struct ext_graph *graph);

/* ---- py_interrupt.c ---- */

enum { EXT_WAITING_TEXT = 512 };

/* A call that waits, and how it is ended early. Another thread calls both, while the call lasts. */
struct ext_waiting {
    void (*cancel)(void *context);
    /* Says what is waited for although it was cancelled. NULL: it returns at once. */
    void (*describe)(void *context, char text[EXT_WAITING_TEXT]);
    void *context;
};

/*
 * Has Ctrl-C cancel what follows, from another thread, if this is the main thread. True: to be
 * ended. Without the interpreter's lock.
 */
bool ext_interrupt_begin(const struct ext_waiting *call);
void ext_interrupt_end(void);
/* Writes a line to Python's error output, from any thread, with the interpreter's lock or without. */
void ext_interrupt_say(const char *text);

/* ---- py_run.c ---- */

/* A run on its way: arguments, options, and the run once it is prepared. */
struct ext_launch {
    struct ext_device *device;
    PyObject *target; /* a pto.Callable or a pto.Graph */
    struct ext_args *args;
    struct pto_run *run;
    struct pto_error error;
    struct pto_run_options options;
    struct ext_launch *next; /* while it is executed */
    struct ext_launch **before;
};

int ext_launch_begin(struct ext_launch *launch, struct ext_device *device, PyObject *target,
                     struct ext_args *args);
/* The names are keywords, whose values follow the arguments. */
int ext_launch_prepare(struct ext_launch *launch, PyObject *const *objects, Py_ssize_t count,
                       PyObject *names);
/* All of it, on this thread; returns the run's report, or raises its error. */
PyObject *ext_launch_run(struct ext_device *device, PyObject *target, PyObject *const *objects,
                         Py_ssize_t count, PyObject *names);

struct ext_run {
    PyObject_HEAD struct ext_state *state;
    struct pto_run *run; /* NULL: it is over, and the report is complete */
    int status;
    int descriptor; /* -1: nobody has asked for one */
    uint32_t users; /* threads inside a call with its handle */
    bool is_queued;
    struct ext_run *next;
    struct ext_device *device;
    PyObject *target;
    PyObject *report;
    PyObject *failure; /* the exception; made at its end, because its texts may lie in its code */
    struct ext_args *args;
    PyObject *options; /* a tuple: what texts and observers are in */
    uint64_t stall_timeout_ns;
};

int ext_run_init(PyObject *module, struct ext_state *state);
PyObject *ext_run_submit(struct ext_device *device, PyObject *target, PyObject *const *objects,
                         Py_ssize_t count, PyObject *names);
/* Waits for its end. 1: it has ended, 0: not yet, -1: an exception. */
int ext_run_wait(struct ext_run *run, uint64_t timeout_ns);
/* Frees what runs that have ended have kept. */
void ext_run_sweep(struct ext_device *device);
/* Says what a run that was cancelled waits for. */
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
/* Have a Python function called for each edge, or each task. Whoever has the run keeps the function. */
void ext_observe_edges(PyObject *function, pto_edge_fn *edge_out, void **context_out);
void ext_observe_tasks(PyObject *function, pto_task_fn *task_out, void **context_out);
/* Lines of log go where they went in the beginning. */
void ext_log_end(void);

/* A method with keywords, as its table wants it. */
#define EXT_WITH_KEYWORDS(function) ((PyCFunction)(void (*)(void))(function))

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes why a run failed, as data. The code that detects the failure, on the device, fills in a
 * struct failure; the host turns it into a message (host/error_text.c). The struct has no pointers
 * into the engine, so that it can be copied out of a device or a process; only the name of a source
 * file is stored elsewhere.
 */
#ifndef PTO_FAILURE_H
#define PTO_FAILURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lines.h"
#include "pto/orch.h"

/*
 * The kinds of failures of a run. Each comment lists the elements of `value` in struct failure in
 * their order, and states whether its fields `argument`, `kernel` and `text` are used.
 */
enum failure_kind {
    FAILURE_NONE,

    /* Submits that the graph refuses: src/graph/. */
    FAILURE_ARGS_ERROR, /* the arguments of a task had an error; text: args->error */
    FAILURE_TAG,        /* an argument has an unknown tag; argument: its index; value: the tag */
    /*
     * An argument has an invalid view. value: enum pto_view_fault; number of elements of the given
     * array, or index in the entry; dimensions of the view, or number of tensors of the entry;
     * source line. argument: its index
     */
    FAILURE_VIEW,
    /* an argument extends past its buffer; argument: its index; value: the byte that it reaches */
    FAILURE_BOUNDS,
    FAILURE_NULL_ADDRESS, /* an argument has no storage, as its address is 0; argument: its index */
    /*
     * An output has an invalid create info. argument: its index; value: its ndims, then as in
     * FAILURE_VIEW
     */
    FAILURE_INFO,
    FAILURE_TOO_LARGE, /* the outputs of one task exceed 2^40 bytes; value: their bytes */
    FAILURE_KERNEL,    /* a task names a kernel that does not exist; value: its id */
    FAILURE_CORE_TYPE, /* a task has an AIC kernel on an AIV lane or vice versa; value: kernel id */
    /*
     * A kernel was declared with other arguments than it gets. argument: index of the tensor or
     * scalar, or -1; kernel: its id; value: declared_pack(), the value or number that was given,
     * the given shape
     */
    FAILURE_DECLARED,
    FAILURE_BLOCK_COUNT, /* a task has an invalid number of blocks; value: that number */
    /* a gang has more blocks than the chip has room for; value: blocks; argument: the maximum */
    FAILURE_GANG,
    FAILURE_PREDICATE,   /* the operand of a predicate cannot be read; value: enum data_fault */
    FAILURE_TIMING_SLOT, /* a task has an invalid timing slot; value: the slot */
    /*
     * pto_pass_scalar or pto_scalar named a scalar that the entry lacks. value: its index;
     * argument: the number of scalars in the entry
     */
    FAILURE_PASSED,
    FAILURE_DATA, /* pto_get_data or pto_set_data was refused; value: enum data_fault */
    /* a dependency of a task is the invalid task id; value: index in the list of dependencies */
    FAILURE_DEP_INVALID,
    FAILURE_DEP_UNKNOWN,
    FAILURE_DEP_KIND,
    FAILURE_SCOPE_DEPTH,
    FAILURE_SCOPE_MODE, /* pto_scope_begin was called with an unknown mode; value: the mode */
    FAILURE_AUTO_IN_MANUAL,
    FAILURE_SCOPE_UNDERFLOW,
    /* pto_alloc_tensors was called with arguments other than outputs, or with none */
    FAILURE_ALLOC_ARGS,
    /*
     * A task was given a tensor (-1: the orchestration accessed an element) whose creator's scope
     * has ended. argument; value: id of the creator; line of the scope, whose file is in `text`;
     * number of the creator, from 1 on; number of the refused task; the number of its tensors.
     * Unknown values are 0.
     */
    FAILURE_SCOPE_ENDED,
    FAILURE_TOO_MANY, /* a run has more than 2^32 tasks */
    /*
     * The memory budget is exhausted. value: budget in bytes, bytes that could not be allocated,
     * tasks submitted, tasks live
     */
    FAILURE_MEMORY,

    /*
     * A ring, which limits memory as in the reference (graph/ledger.h), is full. value: ring,
     * needed size, size of the ring, its oldest task, number of tasks of the open scope
     */
    FAILURE_RING, /* a ring is full, and no task has released its part of the ring for a while */
    /*
     * A ring is full, and waiting cannot help: an open scope keeps the oldest task of the ring
     * alive.
     */
    FAILURE_RING_HELD,

    /* Mistakes of an orchestration: src/orch/. */
    FAILURE_SCOPES_OPEN, /* value: number of open scopes when the orchestration returned */
    FAILURE_GAVE_UP,     /* the orchestration called pto_orch_fail; text: its reason */
    FAILURE_EXCEPTION,   /* an exception left the orchestration; text: text of the exception */
    FAILURE_EXITED,      /* the orchestration called pthread_exit */
    /* A wait for an element timed out. value: submit index of the task that uses it, ms waited */
    FAILURE_DATA_LATE,
    FAILURE_CANCELLED_EARLY, /* the run was cancelled while its graph was built */
    /* the run was cancelled; value: number of tasks run, of tasks submitted */
    FAILURE_CANCELLED,

    /*
     * A kernel or the orchestration crashed: src/sched/. kernel; status: the kind of crash. value:
     * address, block, task, lane, signal; after a crash of the orchestration: address, or number of
     * scalars in the entry; index of a scalar past them; number of submits so far; whether it was
     * inside an operation; signal
     */
    FAILURE_CRASH,
    FAILURE_THREW,         /* an exception left the kernel; text: text of the exception */
    FAILURE_KERNEL_EXITED, /* the kernel called pthread_exit */
    FAILURE_ENDED_RUN,
    /*
     * A kernel damaged a guard next to an argument. argument: its index; value: damaged bytes, size
     * of the tensor, task, bits of enum overrun
     */
    FAILURE_OVERRUN,
    /* A task read an output that no task was to write. value: unused, size, task, enum unwritten */
    FAILURE_UNWRITTEN,
    /*
     * A kernel that reports its accesses made an access that no argument allows. argument: the
     * tensor concerned, or -1; value: address, bytes, task, touched_pack()
     */
    FAILURE_TOUCHED,

    /*
     * A task computed NaN or Inf (argument: the output). value: index of the element, nan_pack(),
     * task, index of the element in the other argument
     */
    FAILURE_NAN,

    /* A kernel wrote an input (argument). value: index of the element, unused, task */
    FAILURE_INPUT,

    /* No task made progress for too long. value: ms, enum stall_cause, task */
    FAILURE_STALL,

    /*
     * The run exceeded its time-out. value: ns, enum stall_cause, task, number of kernels run,
     * number of tasks submitted
     */
    FAILURE_LATE,
    /*
     * The run exceeded a time-out that includes the time in the queue. value: as for FAILURE_LATE
     */
    FAILURE_LATE_SINCE_LAUNCH,

    /* Launches of a built graph that differ from its build: orch/built_graph.c. */
    /* other numbers of tensors or scalars; value: those of the graph, those of the launch */
    FAILURE_LAUNCH_COUNTS,
    /* a tensor of the entry has another shape or type, or none; value: its index */
    FAILURE_LAUNCH_SHAPE,
    /*
     * A scalar of the entry has changed. value: its index, value at the build, value now, whether
     * it was declared to vary
     */
    FAILURE_LAUNCH_SCALAR,
    /*
     * two tensors overlap, or no longer overlap; value: their indices, whether they did at the
     * build
     */
    FAILURE_LAUNCH_ALIAS,
    /*
     * a tensor overlaps memory that the orchestration uses and that is not in the entry; value: its
     * index
     */
    FAILURE_LAUNCH_OUTSIDE,
    /*
     * An element that the orchestration read at the build has changed. argument: its tensor; value:
     * element at the build, offset in bytes, element now
     */
    FAILURE_LAUNCH_DATA,
    /* the graph needs too much memory; value: bytes needed, budget in bytes */
    FAILURE_LAUNCH_MEMORY,
    /*
     * A scalar that was declared to vary does not exist. value: its index, number of scalars in the
     * entry
     */
    FAILURE_VARYING_ABSENT,
    /* the orchestration read a scalar that was declared to vary; value: its index */
    FAILURE_VARYING_READ,

    /* Operations that this chip does not support. */
    FAILURE_NO_RECORDER, /* there is no memory for the rings of the recorder */
    FAILURE_UNSUPPORTED, /* the chip does not support a feature; text: the feature */

    /*
     * The process of an isolated device has ended. kernel: see enum peer_suspect; value: enum
     * peer_end, exit code or signal, enum peer_suspect, task, block
     */
    FAILURE_PEER,

    /*
     * A real card, or its vendor's software, failed. text: the call and its code; value: that code
     */
    FAILURE_CARD,
};

/* Details about a damaged guard next to an argument, as bits. */
enum overrun {
    /* the damage is before the argument's start; without this bit, after its end */
    OVERRUN_BEFORE = 1,
    OVERRUN_FAR = 2, /* the reported number of bytes is a lower limit */
    /*
     * The argument's view does not reach the damaged end of its tensor, so another task may be the
     * cause.
     */
    OVERRUN_UNSURE = 4,
    OVERRUN_EARLIER = 8, /* the guard was damaged before the kernel started */
    OVERRUN_LANES = 16,  /* another lane of the task may have damaged the guard */
    /* Another task, which uses the tensor and has not returned, may have damaged the guard. */
    OVERRUN_CONCURRENT = 32
};

/* Why no argument allows an access that a kernel reported. */
enum touched_kind {
    TOUCHED_OUTSIDE,   /* no argument contains the address */
    TOUCHED_BETWEEN,   /* the address lies between the elements of a strided view */
    TOUCHED_INPUT,     /* a write to an input */
    TOUCHED_UNWRITTEN, /* a read of an output before the kernel wrote there */
    TOUCHED_KINDS
};

/*
 * Packs the kind, whether the access was a write, and its distance in bytes from the argument's
 * first element.
 */
static inline uint64_t touched_pack(enum touched_kind kind, bool is_write, int64_t offset)
{
    return (uint64_t)offset << 8 | (uint64_t)is_write << 4 | (uint64_t)kind;
}

/* What the inputs of a task held that computed NaN or Inf. */
enum nan_inputs {
    NAN_FROM_FINITE,
    NAN_FROM_INF,      /* another argument has Inf */
    NAN_FROM_UNWRITTEN /* another argument has memory that no task wrote */
};

/*
 * Packs whether the element is NaN, whether the task has several lanes, and the index of the other
 * argument (-1: none).
 */
static inline uint64_t nan_pack(bool is_nan, bool has_lanes, enum nan_inputs inputs, int32_t other)
{
    return (uint64_t)(uint32_t)other << 32 | (uint64_t)inputs << 8 | (uint64_t)has_lanes << 1 |
           (uint64_t)is_nan;
}

/*
 * How an argument differs from its kernel's declaration. "Given" says what value[1] of
 * FAILURE_DECLARED is.
 */
enum declared_misfit {
    DECLARED_TENSORS, /* the number of tensors differs; given: their number */
    DECLARED_SCALARS,
    /* the tensor's type differs; given: type, dimensions, whether there are strides, in one word */
    DECLARED_TYPE,
    DECLARED_NDIMS,
    DECLARED_STRIDES,
    DECLARED_RANGE,      /* the scalar's value does not fit its declared type; given: the value */
    DECLARED_SCALAR_TYPE /* the scalar has another type than declared; given: its type */
};

/*
 * Packs a kernel id, how an argument differs from its declaration, and the word of the declaration
 * or the number of declared arguments.
 */
static inline uint64_t declared_pack(uint32_t kernel, enum declared_misfit misfit, uint32_t word)
{
    return (uint64_t)word << 32 | (uint64_t)misfit << 16 | kernel;
}

/* Whether a word of declared_pack is about a scalar, not a tensor. */
static inline bool declared_is_scalar(uint64_t packed)
{
    return (packed >> 16 & 0xffff) >= DECLARED_RANGE;
}

/* Who read data that no task had written. */
enum unwritten {
    UNWRITTEN_ARGUMENT,
    UNWRITTEN_PREDICATE,
    UNWRITTEN_ELEMENT /* the orchestration, which accessed an element */
};

/* How the process of an isolated device has ended. */
enum peer_end {
    PEER_EXITED,
    PEER_SIGNALLED,
    PEER_SILENT, /* the process did not answer, and was killed; value: seconds */
    PEER_BROKEN, /* the process sent an invalid answer, and was killed */
    /* the process was stopped when the run's time was over, and was killed; value: none */
    PEER_STOPPED,
    PEER_UNKNOWN
};

/* How sure it is that the named kernel ended the process. */
enum peer_suspect {
    SUSPECT_NONE,    /* no kernel is suspected */
    SUSPECT_CAUGHT,  /* the kernel ended the process */
    SUSPECT_RUNNING, /* the kernel was running, possibly with others */
    /* no kernel was running; the named kernel is one of those that ran last */
    SUSPECT_LAST,
    SUSPECT_ORCHESTRATION, /* no kernel: the orchestration ended the process */
    SUSPECTS
};

/* The defect of an element that a predicate or the orchestration names. */
enum data_fault {
    DATA_TENSOR,   /* the tensor is invalid */
    DATA_NDIMS,    /* more indices than the tensor has dimensions, or a NULL array */
    DATA_INDEX,    /* an index is beyond the shape, or the element beyond the buffer */
    DATA_OPERATOR, /* the predicate has an unknown comparison */
    DATA_ADDRESS,  /* the tensor has no storage */
    DATA_UNMAPPED, /* no memory is mapped at the element's address, or it is not writable */
    /* A submitted task uses the element, and tasks do not run while this graph is built. */
    DATA_HELD,
    DATA_OWNED /* as DATA_HELD, for an element in memory that the runtime allocated */
};

enum { FAILURE_VALUES = 5, FAILURE_TEXT = 256 };

struct failure {
    int32_t status; /* PTO_OK: none */
    uint32_t kind;  /* enum failure_kind */
    int32_t argument;
    int32_t kernel; /* -1: none */
    uint32_t scope_depth;
    struct pto_task_id task; /* invalid: none */
    struct pto_site site;    /* file NULL: unknown */
    uint64_t value[FAILURE_VALUES];
    char text[FAILURE_TEXT];
};

/* Adds the shape and type of the argument that its kernel declares otherwise. */
static inline void failure_add_given(struct failure *f, const struct pto_args *args)
{
    uint32_t misfit = (uint32_t)f->value[0] >> 16, index = (uint32_t)f->argument;
    const uint32_t *shapes;

    f->kernel = (int32_t)(f->value[0] & 0xffff);
    if (misfit == DECLARED_TENSORS || misfit == DECLARED_SCALARS) {
        f->value[1] = misfit == DECLARED_TENSORS ? args->tensor_count : args->scalar_count;
        return;
    }
    if (declared_is_scalar(f->value[0])) {
        f->value[1] = misfit == DECLARED_RANGE ? args->scalar[index] : args->scalar_type[index];
        return;
    }
    if (args->tag[index] == PTO_TAG_OUTPUT) {
        const struct pto_tensor_info *info = (const struct pto_tensor_info *)args->tensor[index];

        f->value[1] = PTO_DECLARED(PTO_DECLARED_TENSOR, info->dtype, info->ndims, );
        shapes = info->shapes;
    } else {
        const struct pto_tensor *x = (const struct pto_tensor *)args->tensor[index];

        f->value[1] = PTO_DECLARED(x->is_contiguous ? PTO_DECLARED_TENSOR : PTO_DECLARED_VIEW,
                                   x->dtype, x->ndims, );
        shapes = x->shapes;
    }
    memcpy(&f->value[2], shapes, PTO_MAX_DIMS * sizeof(*shapes));
}

/*
 * Adds the details of a refused argument: its view, its create info, or its difference from the
 * kernel's declaration.
 */
static inline void failure_add_refusal(struct failure *f, const struct pto_args *args,
                                       const struct pto_entry *entry)
{
    struct pto_refusal refusal = { 0, 0, 0 };

    if (f->kind == FAILURE_DECLARED && args != NULL)
        failure_add_given(f, args);
    if ((f->kind != FAILURE_VIEW && f->kind != FAILURE_INFO) || args == NULL || f->argument < 0 ||
        (uint32_t)f->argument >= args->tensor_count)
        return; /* -1: the operand of a predicate need not be an argument of the task */
    if (args->tag[f->argument] == PTO_TAG_OUTPUT)
        memcpy(&refusal,
               ((const struct pto_tensor_info *)args->tensor[f->argument])->reserved +
                   PTO_INFO_REFUSAL_AT,
               sizeof(refusal));
    else
        memcpy(&refusal,
               ((const struct pto_tensor *)args->tensor[f->argument])->reserved + PTO_REFUSAL_AT,
               sizeof(refusal));
    f->value[1] = refusal.given;
    f->value[2] = refusal.expected;
    f->value[3] = refusal.line;
    if (f->kind == FAILURE_VIEW && f->value[0] == PTO_VIEW_NO_ENTRY)
        f->value[2] = entry != NULL ? entry->tensor_count : 0;
}

enum { BACKTRACE_ARGS = 8 };

/*
 * Where a kernel or an orchestration crashed, and the arguments of its task. Frames of the runtime
 * itself are left out.
 */
struct backtrace {
    struct source_lines lines; /* source lines of the stack; none: unknown */
    /* number of bytes by which a stack was too small; 0: it did not overflow */
    uint64_t overflow_bytes;
    /* number of tensors of the task, including those that are not stored here */
    uint32_t tensor_count;
    uint32_t scalar_count;
    struct pto_tensor tensor[BACKTRACE_ARGS];
    uint64_t scalar[BACKTRACE_ARGS];
};

/* What a live task does when a run has stalled. */
enum stall_cause {
    STALL_READY,
    STALL_WAITS, /* the task waits for other tasks */
    STALL_RUNS,  /* a kernel of the task does not return */
    /* the kernels of the task have returned, but a condition that they registered does not hold */
    STALL_DEFERRED,
    STALL_QUEUED, /* the task waits until several cores are free at the same time */
    STALL_BUILDS, /* no task: the graph is still being built */
    STALL_RAN,    /* no live task: the task is one of those that ran last */
    STALL_CAUSES
};

enum { STALL_TASKS = 16, STALL_WAITS_MAX = 8 };

struct stall_task {
    uint32_t index;  /* submit index of the task */
    uint32_t cause;  /* enum stall_cause */
    int32_t kernel;  /* kernel id; -1: the task is a dummy */
    uint32_t block;  /* block of the kernel, in STALL_RUNS */
    uint32_t core;   /* number of the kernel's core among the cores of its type, in STALL_RUNS */
    uint32_t is_aiv; /* type of the kernel's core, in STALL_RUNS */
    uint64_t addr;   /* address of the counter that the condition is about, in STALL_DEFERRED */
    uint32_t counter;
    uint32_t expected;
    /* Number of tasks that this one waits for, in STALL_WAITS; `wait` has the first of them. */
    uint32_t wait_count;
    uint32_t wait[STALL_WAITS_MAX];
    struct pto_site site;
};

/* The first tasks that are live in a stalled run. */
struct stall {
    uint32_t count; /* number of tasks in this list; 0: there was no stall */
    uint32_t live;  /* number of live tasks, including those not in this list */
    struct stall_task task[STALL_TASKS];
};

#endif

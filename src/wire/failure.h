/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a run failed, as data. Whoever notices it, on the device, fills it in; the
 * host makes a sentence of it (host/sentences.c). Nothing here is a pointer into
 * the engine, so that it can be copied out of a device or a process; the name of a
 * source file is the only text that is not part of it.
 */
#ifndef PTO_FAILURE_H
#define PTO_FAILURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lines.h"
#include "pto/orch.h"

/* What it is about. `value`, `argument` and `kernel` mean what is said here; else they are unused. */
enum fault {
    FAULT_NONE,

    /* What the graph refuses: graph/. */
    FAULT_ARGS_ERROR, /* text: args->error */
    FAULT_TAG,        /* argument; value: an unknown tag */
    /* argument is an invalid view; value: enum pto_view_fault; elements given, or index in the
       entry; dimensions, or tensors of the entry; line of the source */
    FAULT_VIEW,
    FAULT_BOUNDS,       /* argument leaves its buffer; value: the byte it reaches */
    FAULT_NULL_ADDRESS, /* argument has no storage */
    /* argument: a create info that describes nothing; value: its ndims, then as FAULT_VIEW */
    FAULT_INFO,
    FAULT_TOO_LARGE,   /* outputs of one task exceed 2^40 bytes; value: bytes */
    FAULT_KERNEL,      /* no such kernel; value: id */
    FAULT_CORE_TYPE,   /* an AIC kernel on an AIV lane or the other way round; value: id */
    FAULT_BLOCK_COUNT, /* value: blocks */
    FAULT_GANG,        /* a gang larger than the chip; value: blocks, argument: the most */
    FAULT_PREDICATE,   /* value: enum data_fault */
    FAULT_TIMING_SLOT, /* value: the slot */
    FAULT_PASSED,      /* or read; value: index of a scalar, argument: how many the entry has */
    FAULT_DATA,        /* get or set; value: enum data_fault */
    FAULT_DEP_INVALID, /* value: index of the dependency */
    FAULT_DEP_UNKNOWN,
    FAULT_DEP_KIND,
    FAULT_SCOPE_DEPTH,
    FAULT_SCOPE_MODE, /* value: the mode */
    FAULT_AUTO_IN_MANUAL,
    FAULT_SCOPE_UNDERFLOW,
    FAULT_ALLOC_ARGS, /* alloc with anything but outputs, or with none */
    /* argument, -1 for an element: its creator's scope has ended. value: its owner, line and (text)
       file of the scope, creator from 1 on, task, its tensors; what is unknown is 0 */
    FAULT_SCOPE_ENDED,
    FAULT_TOO_MANY, /* 2^32 tasks in one run */
    FAULT_MEMORY,   /* value: budget, bytes that were not to be had, tasks submitted, live ones */

    /* The rings' limits: graph/ledger. value: ring, needed, size, oldest task, tasks of the scope */
    FAULT_RING,      /* nothing came back for a while */
    FAULT_RING_HELD, /* waiting cannot help: a scope that is open holds the oldest task */

    /* What an orchestration does wrong: orch/. */
    FAULT_SCOPES_OPEN,     /* value: how many when it returned */
    FAULT_GAVE_UP,         /* text: its own */
    FAULT_EXCEPTION,       /* text: the exception's */
    FAULT_EXITED,          /* it called pthread_exit */
    FAULT_DATA_LATE,       /* the task that uses an element; value: its index, ms */
    FAULT_CANCELLED_EARLY, /* while the graph was built */
    FAULT_CANCELLED,       /* value: kernels run, tasks submitted */

    /* What kernels do: sched/. `kernel`; status says which. value: address, block, task, lane, signal;
       of an orchestration: address or scalars of the entry, which one behind these, submits,
       whether in an operation, signal */
    FAULT_CRASH,
    FAULT_THREW,         /* text: an exception's */
    FAULT_KERNEL_EXITED, /* it called pthread_exit */
    FAULT_ENDED_RUN,
    /* What guards notice: argument, task. value: bytes, size of the tensor, task, enum overrun */
    FAULT_OVERRUN,
    FAULT_UNWRITTEN, /* value: none, size, task, enum unwritten */

    /* Nothing moves. value: ms, enum stall_cause, task */
    FAULT_STALL,

    /* The time of the run is over. value: ns, enum stall_cause, task, kernels run, tasks submitted */
    FAULT_LATE,
    FAULT_LATE_SINCE_LAUNCH, /* the time in the queue included */

    /* A launch for which the graph was not built: orch/built_graph. */
    FAULT_LAUNCH_COUNTS,  /* value: tensors and scalars of the graph, of the launch */
    FAULT_LAUNCH_SHAPE,   /* value: tensor */
    FAULT_LAUNCH_SCALAR,  /* value: index, then, now, whether it was declared to vary */
    FAULT_LAUNCH_ALIAS,   /* value: two tensors, whether they did overlap */
    FAULT_LAUNCH_OUTSIDE, /* value: tensor */
    FAULT_LAUNCH_DATA,    /* value: then, offset, now; argument: tensor */
    FAULT_LAUNCH_MEMORY,  /* value: bytes, budget */
    FAULT_VARYING_ABSENT, /* value: index of a scalar that was declared to vary, scalars */
    FAULT_VARYING_READ,   /* value: the same index */

    /* What the chip does not have. */
    FAULT_NO_RECORDER, /* no memory for its rings */
    FAULT_UNSUPPORTED, /* text: what it cannot do */

    /* The chip's process has ended. `kernel`: see enum peer_suspect; value: enum peer_end, exit code
       or signal, enum peer_suspect, task, block */
    FAULT_PEER,

    /* A real card, or its vendor's software, failed. text: which call, its code; value: that code */
    FAULT_CARD,
};

/* What is known of bytes around a tensor that were written; bits. */
enum overrun {
    OVERRUN_BEFORE = 1, /* in front of its start, not behind its end */
    OVERRUN_FAR = 2,    /* maybe further than that */
    OVERRUN_UNSURE = 4, /* the argument does not reach to that end: it may have been another task */
    OVERRUN_EARLIER = 8, /* before the kernel started */
    OVERRUN_LANES = 16,  /* or by another lane of the task */
    OVERRUN_BESIDE = 32  /* or by another task that has it and has not returned */
};

/* What reads that which nobody wrote. */
enum unwritten {
    UNWRITTEN_ARGUMENT,
    UNWRITTEN_PREDICATE,
    UNWRITTEN_ELEMENT /* the orchestration itself */
};

/* How the process of a chip has ended. */
enum peer_end {
    PEER_EXITED,
    PEER_SIGNALLED,
    PEER_SILENT,  /* it did not answer, and was ended for it; value: seconds */
    PEER_BROKEN,  /* what it answered made no sense, and it was ended for it */
    PEER_STOPPED, /* when the time of the run was over, and was ended for it; value: none */
    PEER_UNKNOWN
};

/* What is known of the kernel that is named. */
enum peer_suspect {
    SUSPECT_NONE,          /* there is none */
    SUSPECT_CAUGHT,        /* it ended the process */
    SUSPECT_RUNNING,       /* it was running, maybe beside others */
    SUSPECT_LAST,          /* none was running; this is one of those that ran last */
    SUSPECT_ORCHESTRATION, /* none: the orchestration ended the process */
    SUSPECTS
};

/* What is wrong with the element that a predicate or the orchestration names. */
enum data_fault {
    DATA_TENSOR,   /* not a valid tensor */
    DATA_NDIMS,    /* more indices than dimensions */
    DATA_INDEX,    /* beyond the shape, or beyond the buffer */
    DATA_OPERATOR, /* unknown comparison */
    DATA_ADDRESS,  /* no storage */
    DATA_UNMAPPED, /* there is no memory, or none that can be written */
    DATA_HELD,     /* nothing runs while the graph is built, and a submitted task uses it */
    DATA_OWNED     /* the same: the runtime's own memory */
};

enum { FAILURE_VALUES = 5, FAILURE_TEXT = 256 };

struct failure {
    int32_t status; /* PTO_OK: none */
    uint32_t fault; /* enum fault */
    int32_t argument;
    int32_t kernel; /* -1: none */
    uint32_t scope_depth;
    struct pto_task_id task; /* invalid: none */
    struct pto_site site;    /* file NULL: unknown */
    uint64_t value[FAILURE_VALUES];
    char text[FAILURE_TEXT];
};

/* Adds what the refused view or create info knows of itself. */
static inline void failure_add_refusal(struct failure *f, const struct pto_args *args,
                                       const struct pto_entry *entry)
{
    struct pto_refusal refusal = { 0, 0, 0 };

    if ((f->fault != FAULT_VIEW && f->fault != FAULT_INFO) || args == NULL || f->argument < 0 ||
        (uint32_t)f->argument >= args->tensor_count)
        return; /* the operand of a predicate is none of its arguments */
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
    if (f->fault == FAULT_VIEW && f->value[0] == PTO_VIEW_NO_ENTRY)
        f->value[2] = entry != NULL ? entry->tensor_count : 0;
}

enum { BACKTRACE_ARGS = 8 };

/* Where code crashed, and with what. The lines are of the kernel or the orchestration only. */
struct backtrace {
    struct source_lines lines; /* none: nothing is known */
    uint64_t overflow_bytes;   /* of a stack that was not large enough; 0: it was */
    uint32_t tensor_count;     /* of the task's, those that are not here included */
    uint32_t scalar_count;
    struct pto_tensor tensor[BACKTRACE_ARGS];
    uint64_t scalar[BACKTRACE_ARGS];
};

/* What a live task does when nothing moves. */
enum stall_cause {
    STALL_READY,
    STALL_WAITS,    /* for other tasks */
    STALL_RUNS,     /* a kernel of it does not return */
    STALL_DEFERRED, /* for a condition */
    STALL_QUEUED,   /* for cores that are free together */
    STALL_BUILDS,   /* no task at all: the graph is still being built */
    STALL_RAN,      /* not live any more: one of those that ran last */
    STALL_CAUSES
};

enum { STALL_TASKS = 16, STALL_WAITS_TOLD = 8 };

struct stall_task {
    uint32_t index;  /* of its submit */
    uint32_t cause;  /* enum stall_cause */
    int32_t kernel;  /* -1: a dummy */
    uint32_t block;  /* STALL_RUNS */
    uint32_t core;   /* the same: of its type */
    uint32_t is_aiv; /* the same */
    uint64_t addr;   /* STALL_DEFERRED: of the counter */
    uint32_t counter;
    uint32_t expected;
    uint32_t wait_count; /* STALL_WAITS: how many it waits for, and the first of them */
    uint32_t wait[STALL_WAITS_TOLD];
    struct pto_site site;
};

/* The first tasks of a run in which nothing moves. */
struct stall {
    uint32_t count; /* 0: nothing is told */
    uint32_t live;  /* tasks, those included that are not told of */
    struct stall_task task[STALL_TASKS];
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The records of tasks, their arguments and scopes, which a chip sends to the host. */
#ifndef PTO_TASK_RECORD_H
#define PTO_TASK_RECORD_H

#include "pto/orch.h"

enum chip_task_flag {
    CHIP_TASK_IS_MANUAL = 1, /* the task was submitted in a MANUAL scope */
    CHIP_TASK_IS_EARLY = 2,  /* the submit set allow_early_resolve */
    CHIP_TASK_IS_GANG = 4,
    /* the counts marked_tensors, marked_scalars and ambiguous_scalars are valid */
    CHIP_TASK_IS_MARKED = 8,
    CHIP_TASK_HAS_TYPES = 16, /* the field scalar_type is valid */
    /* the task is in a launched graph: no submit and no marked arguments are recorded */
    CHIP_TASK_IS_LAUNCHED = 32,
    /* The task has a predicate, whose operand follows as one more argument. */
    CHIP_TASK_HAS_OPERAND = 64,
    /*
     * The record is not a task: before the task with this index was submitted, the orchestration
     * itself read or wrote one element, which follows as the only tensor.
     */
    CHIP_TASK_IS_GET = 128,
    CHIP_TASK_IS_SET = 256,
    /*
     * No task: the elements that one invocation of the task with this index used. They follow as
     * tensors, whose tag says whether they were read or written. kernel[0]: index of the argument,
     * or -1; block_count: number of the invocation; begin: its segment. kernel[1] of a record
     * without tensors: enum chip_touch.
     */
    CHIP_TASK_IS_TOUCHED = 512,
};

/*
 * Record of a task in runs with PTO_TRACE_ARGUMENTS. The task's file name, tensors, scalars,
 * explicit dependencies, and the operand of its predicate follow the record.
 */
struct chip_task {
    uint32_t index; /* submit index of the task */
    uint32_t line;
    uint16_t file_bytes; /* bytes of the file name with its final zero, padded to 8; 0: unknown */
    uint8_t tensor_count;
    uint8_t scalar_count;
    uint32_t dep_count;
    struct pto_task_id id;
    int32_t kernel[3]; /* kernel ids of the lanes AIC, AIV0, AIV1; -1: none */
    uint32_t block_count;
    uint64_t begin, end; /* cycle counts at the begin and the end of the submit */
    uint32_t flags;      /* enum chip_task_flag */
    uint32_t marked_tensors;
    uint16_t marked_scalars;
    uint16_t ambiguous_scalars;
    uint8_t scalar_type[PTO_TASK_SCALARS_MAX];
    uint32_t reserved;
};

/* What a record of used elements says if it has none. */
enum chip_touch {
    CHIP_TOUCH_KNOWN,   /* all uses of the invocation were recorded */
    CHIP_TOUCH_SIGNALS, /* the same, but signals that were not recorded may order them */
    CHIP_TOUCH_STEP,    /* segment `begin` of the task comes after segment `end` of the run */
    CHIP_TOUCH_END      /* the task was complete after segment `end` of the run */
};

enum chip_argument_flag { CHIP_ARGUMENT_IS_MANUAL = 1, CHIP_ARGUMENT_IS_CONTIGUOUS = 2 };

/* A tensor of a recorded task, with fields of struct pto_tensor. */
struct chip_argument {
    uint64_t addr;
    uint64_t size;
    struct pto_task_id owner;
    uint64_t start;
    uint64_t extent;
    int32_t version;
    uint8_t tag; /* enum pto_tag */
    uint8_t dtype;
    uint8_t ndims;
    uint8_t flags; /* enum chip_argument_flag */
    uint32_t shapes[PTO_MAX_DIMS];
    uint32_t strides[PTO_MAX_DIMS];
};

struct chip_dep {
    struct pto_task_id task;
    uint64_t kind; /* bits of enum pto_dep_kind */
};

/* Value of `argument` in a dump of a task's scalars before the task. */
enum { CHIP_DUMP_SCALARS = UINT16_MAX };

/*
 * Header of the dumped content of a tensor of a task. `bytes` bytes follow it, padded to a multiple
 * of 8.
 */
struct chip_dump {
    uint32_t index; /* submit index of the task */
    uint16_t argument;
    uint8_t is_after;     /* 1: contents after the task; 0: before it */
    uint8_t is_truncated; /* a part of the content could not be read or stored */
    /* size of the content in bytes: the elements in their order, without gaps */
    uint64_t bytes;
};

/* Record of the begin or the end of a scope, with the state of its ring at that time. */
struct chip_scope {
    char site[48]; /* name of the source file, without folders */
    uint32_t line;
    uint32_t depth;
    uint32_t ring;
    uint32_t is_end;
    uint32_t task_start, task_end;
    uint64_t heap_start, heap_end;
    uint64_t dep_start, dep_end;
    uint64_t regions;
};

#endif

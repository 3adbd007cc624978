/* SPDX-License-Identifier: Apache-2.0 */
/* What a recorder keeps of tasks, their arguments and scopes, as it crosses from a chip to the host. */
#ifndef PTO_TOLD_H
#define PTO_TOLD_H

#include "pto/orch.h"

enum chip_task_flag {
    CHIP_TASK_IS_MANUAL = 1, /* its scope */
    CHIP_TASK_IS_EARLY = 2,  /* allow_early_resolve */
    CHIP_TASK_IS_GANG = 4,
    CHIP_TASK_IS_MARKED = 8,    /* `marked_` and `ambiguous_` count */
    CHIP_TASK_HAS_TYPES = 16,   /* so does scalar_type */
    CHIP_TASK_IS_LAUNCHED = 32, /* of a graph: no dependencies, no submit */
};

/*
 * A task with PTO_TRACE_ARGUMENTS. Behind it: its file, its tensors, its scalars, the tasks that
 * it explicitly depends on.
 */
struct chip_task {
    uint32_t index; /* of its submit */
    uint32_t line;
    uint16_t file_bytes; /* with a zero at its end; a multiple of 8; 0: unknown */
    uint8_t tensor_count;
    uint8_t scalar_count;
    uint32_t dep_count;
    struct pto_task_id id;
    int32_t kernel[3]; /* AIC, AIV0, AIV1; -1: none */
    uint32_t block_count;
    uint64_t begin, end; /* of its submit: cycles */
    uint32_t flags;      /* enum chip_task_flag */
    uint32_t marked_tensors;
    uint16_t marked_scalars;
    uint16_t ambiguous_scalars;
    uint8_t scalar_type[PTO_TASK_SCALARS_MAX];
    uint32_t reserved;
};

enum chip_argument_flag { CHIP_ARGUMENT_IS_MANUAL = 1, CHIP_ARGUMENT_IS_CONTIGUOUS = 2 };

/* A tensor of a task, as struct pto_tensor has it. */
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

/* What a tensor of a task had in it. Behind it: `bytes`, and as many as make a multiple of 8. */
enum { CHIP_DUMP_SCALARS = UINT16_MAX }; /* in place of an argument: the task has begun */

struct chip_dump {
    uint32_t index; /* of the task's submit */
    uint16_t argument;
    uint8_t is_after;     /* the task; else before it */
    uint8_t is_truncated; /* some of the memory could not be read, or kept */
    uint64_t bytes;       /* without gaps, in the order of the elements */
};

/* The begin or the end of a scope, and what its ring had given out and taken back by then. */
struct chip_scope {
    char site[48]; /* file without folders */
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A random graph of tests/api/test_accesses.c, in the form in which its orchestration reads it from
 * its first tensor.
 */
#ifndef PTO_TEST_ACCESSES_PLAN_H
#define PTO_TEST_ACCESSES_PLAN_H

#include <stdint.h>

enum { PLAN_TASKS = 16, PLAN_ARGS = 4, PLAN_DIMS = 3 };

/* The access of a task that its arguments do not allow. */
enum plan_kind { PLAN_CLEAN, PLAN_OUTSIDE, PLAN_BETWEEN, PLAN_INPUT, PLAN_UNWRITTEN, PLAN_KINDS };
enum plan_way { PLAN_PLAIN, PLAN_MEMCPY, PLAN_MEMMOVE, PLAN_MEMSET, PLAN_WAYS };

/* An argument: a view of the memory or, with PTO_TAG_OUTPUT, a new tensor. */
struct plan_arg {
    uint32_t tag;
    uint32_t ndims;
    uint32_t shapes[PLAN_DIMS];
    uint32_t strides[PLAN_DIMS];
    uint32_t start;
};

/* The scalars of a task. */
struct plan_access {
    int64_t kind;
    int64_t way;
    int64_t is_write;
    int64_t argument;
    int64_t offset; /* distance in bytes from the first element of the argument */
};

struct plan_task {
    uint32_t arg_count;
    struct plan_arg arg[PLAN_ARGS];
    struct plan_access access;
};

struct plan {
    uint32_t task_count;
    struct plan_task task[PLAN_TASKS];
};

#endif

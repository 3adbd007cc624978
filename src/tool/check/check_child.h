/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that `pto check` shares with the children of its worker, at the same addresses in all
 * processes: the run, its tasks, their invocations and the memory that tasks use. The first scalar
 * of a task is the address of the task's record. Children report errors by number, because they
 * cannot see our strings.
 */
#ifndef PTO_CHECK_CHILD_H
#define PTO_CHECK_CHILD_H

#include "tool/check/check_trial.h"

#define CHECK_CHILD_MAP(X)                                      \
    X(ARGS, "a child got another number of tensors or scalars") \
    X(SCALAR, "a child got a wrong scalar")                     \
    X(TENSOR, "a child got a wrong tensor descriptor")          \
    X(HELD, "a task ran before the graph was complete")         \
    X(GROUP, "a task did not run at the same time as the others of its group")

enum check_child_fault {
    CHECK_CHILD_OK,
#define X(name, text) CHECK_CHILD_##name,
    CHECK_CHILD_MAP(X)
#undef X
};

/* The shared object that children load, compiled from check_child.c. */
extern const unsigned char check_object[];
extern const unsigned char check_object_end[];

#endif

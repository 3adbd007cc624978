/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest chip: null.c is the backend, null_orch.c implements the operations of an
 * orchestration. A run is one call of the orchestration, on the thread that waits for it, and a
 * submit is one call of the kernel for each block. There is no scheduler: running tasks in the
 * order of their submits is legal for every graph.
 */
#ifndef PTO_NULL_H
#define PTO_NULL_H

#include <pthread.h>

#include "chip/backend.h"
#include "orch/orch.h"

/* The outputs of one submit: descriptors that live until its scope ends, and their memory. */
struct null_outputs {
    struct null_outputs *next;
    uint32_t count;
    struct pto_tensor tensor[];
};

struct null_scope {
    struct null_outputs *outputs; /* list of the outputs that the scope's submits have created */
    const struct pto_site *site;
    bool is_manual;
};

struct null_allocation {
    struct null_allocation *next;
    uint64_t addr;
    uint64_t bytes;
};

struct null {
    struct chip base;
    uint64_t memory_max;

    pthread_mutex_t lock; /* guards the fields that any thread may read */
    struct null_allocation *allocation;
    struct a64 cancelled; /* highest number of a cancelled run; written under the lock */
    /* Kernels that the run has executed; written by the thread that executes it. */
    struct a64 executions;
    struct a32 has_ended; /* R1 null_wait -> A1 null_poll: results of the run are visible */
    /* thread pointer of the thread that executes the orchestration; NULL: none */
    struct aptr builder;

    /* State of the run, accessed only by the thread that executes it. */
    struct pto_orch handle;
    const struct chip_request *request;
    const struct chip_functions *functions;
    struct chip_result result;
    struct core core; /* argument vector and contexts that kernels get */
    bool is_in_kernel;
    struct null_scope scope[PTO_SCOPE_DEPTH_MAX + 1];
    uint32_t scope_count;  /* number of open scopes, including the run's own */
    uint64_t output_bytes; /* bytes of the outputs in all open scopes, at most memory_max */
    uint32_t tasks;
    uint64_t begin_ns;
    struct chip_time time;
    uint64_t run_ns;
    uint32_t core_executions[PTO_CORE_TYPES];
    struct pto_timing timing[PTO_TIMING_SLOTS];
};

static inline struct null *null_of(struct chip *chip)
{
    return (struct null *)(void *)chip;
}

/* null_orch.c: calls the orchestration of n->request and ends its last scope. */
void null_build(struct null *n);

#endif

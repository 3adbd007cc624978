/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest chip: null.c is the backend, null_orch.c what an orchestration on it
 * can do. Everything takes place in the call: a run is one call of the orchestration,
 * on the thread that waits for it, and a submit is one call of the kernel for each
 * block. There is nothing to schedule, and the order of the submits is an order that
 * every graph allows.
 */
#ifndef PTO_NULL_H
#define PTO_NULL_H

#include <pthread.h>

#include "chip/backend.h"
#include "orch/orch.h"

/* What one submit created: descriptors that live until its scope ends, and their memory. */
struct null_outputs {
    struct null_outputs *next;
    uint32_t count;
    struct pto_tensor tensor[];
};

struct null_scope {
    struct null_outputs *outputs; /* list */
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

    pthread_mutex_t lock; /* for what any thread may ask for */
    struct null_allocation *allocation;
    struct a64 cancelled;  /* the highest number; written under the lock */
    struct a64 executions; /* kernels of the run; written by the thread that runs it */
    struct a32 has_ended;  /* R1 null_wait -> A1 null_poll: what the run wrote is there */
    struct aptr builder;   /* the thread inside the orchestration, by its thread pointer */

    /* Of the run; whoever runs it. */
    struct pto_orch handle;
    const struct chip_request *request;
    const struct chip_functions *functions;
    struct chip_result result;
    struct core core; /* the vector and the contexts of a kernel */
    bool is_in_kernel;
    struct null_scope scope[PTO_SCOPE_DEPTH_MAX + 1];
    uint32_t scope_count;  /* the run's own included */
    uint64_t output_bytes; /* of all scopes, at most memory_max */
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

/* null_orch.c: the orchestration of n->request, from its call to the end of its last scope. */
void null_build(struct null *n);

#endif

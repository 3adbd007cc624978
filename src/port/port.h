/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the pure folders need from the machine they run on: the names are the
 * same everywhere, a program links one implementation. Nothing here allocates
 * or makes a system call on the path of a task.
 */
#ifndef PTO_PORT_H
#define PTO_PORT_H

#include "core/core.h"
#include "port/pool.h"

struct worker; /* sched/sched.h */

enum port_start {
    PORT_DONE,      /* the kernel has returned; the caller completes the task */
    PORT_SENT,      /* it runs elsewhere and comes back through sched_returned_to */
    PORT_IN_FLIGHT, /* it goes on, but not on this worker, and comes back through sched_returned */
};

/* An assertion failed: the state of the engine is broken. Does not return. */
_Noreturn void port_panic(const char *what, const char *file, int line);

/* For what is looked at anyway or rarely: also in shipped builds. */
#define port_assert(condition) ((condition) ? (void)0 : port_panic(#condition, __FILE__, __LINE__))

/*
 * For invariants of the path of a task: in checked builds (PTO_CHECKED, which the sanitized variants and
 * the scenarios of tests/explore define). In any other build nothing is evaluated.
 */
#ifdef PTO_CHECKED
#define port_check(condition) port_assert(condition)
#else
#define port_check(condition) ((void)sizeof(!(condition)))
#endif

/* Sets a sleeping worker going: there is something to take. `machine` is the scheduler's. */
void port_wake(void *machine);

/* Whether the thread really lost its place; if so sched_returned was told. */
bool port_core_lost(struct core *core, struct slot *s);

/*
 * Takes over a ready task whose invocations need cores at the same time: they
 * are started when there are enough free ones, gangs first, and reported to
 * sched_returned one by one. Ordinary tasks get no further cores meanwhile.
 */
void port_team_start(void *machine, struct slot *s);

/*
 * A core of the type for the worker, if one is free and no team waits for it:
 * sets the worker's core_index and core_mask.
 */
bool port_core_acquire(void *machine, struct worker *w, uint32_t core_type);
/*
 * How many tasks could start on the core that a worker has acquired, and on others that it would
 * get after that one. Asked for if there is no other worker.
 */
uint32_t port_core_room(void *machine, uint32_t core_type);
/* The worker gives its cores up for a team that waits. */
void port_cores_yield(void *machine, struct worker *w);

/* What kernels left changed on the thread of the core does not reach those of the next claim. */
void port_core_reset(struct core *core);

/* Somebody holds a lock for a few instructions: let it. */
void port_relax(void);

/*
 * Addresses that kernels and orchestrations named: whether there is memory for 1, 2,
 * 4 or 8 bytes. The second one writes them.
 */
bool port_can_read(uint64_t addr, uint32_t bytes);
bool port_write(uint64_t addr, uint32_t bytes, uint64_t bits);

/* ---- for orchestrations; not on the path of a task ---- */

/* By the builder: tasks are run until there is room for more. */
void port_room(void *machine);
/* The same until the task in the slot has gone. PTO_OK or PTO_ETIMEOUT. */
int port_wait(void *machine, uint32_t slot, uint32_t seq, uint64_t deadline_ns);
/* By a builder that asks again and again: some tasks are run, if any are ready. */
void port_poll(void *machine);
/* The same, once the run has failed: does not return if the orchestration was given up meanwhile. */
void port_linger(void *machine);
uint64_t port_now_ns(void);

/* By the thread that leads the run: calls `each` for every kernel that is running. */
void port_each_running(void *machine,
                       void (*each)(void *context, struct slot *s, uint32_t core, uint32_t block),
                       void *context);
/* Whether the task waits for cores together with its like. */
bool port_is_queued(void *machine, const struct slot *s);

/*
 * Starts one invocation of the task's kernel on a core; the engine itself has written memory that
 * kernels read, or reads what they have written.
 */
#ifdef PTO_CORES_APART        /* they are processors of their own, which a port rings for */
enum { PORT_ONE_THREAD = 1 }; /* no other thread knows of tasks */
void port_filled(uint64_t addr, uint64_t bytes);
void port_fetch(uint64_t addr, uint64_t bytes);
enum port_start port_core_start(struct core *core, struct slot *s, const struct pto_tensor *tensor,
                                pto_kernel_fn fn, uint32_t block, uint32_t block_count);
#else
enum { PORT_ONE_THREAD = 0 };
static inline void port_filled(uint64_t addr, uint64_t bytes)
{
    (void)addr;
    (void)bytes;
}

static inline void port_fetch(uint64_t addr, uint64_t bytes)
{
    (void)addr;
    (void)bytes;
}

static inline enum port_start port_core_start(struct core *core, struct slot *s,
                                              const struct pto_tensor *tensor, pto_kernel_fn fn,
                                              uint32_t block, uint32_t block_count)
{
    if (core_invoke(core, s, tensor, fn, block, block_count) && port_core_lost(core, s))
        return PORT_IN_FLIGHT;
    return PORT_DONE;
}
#endif

#endif

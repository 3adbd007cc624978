/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The services that the pure folders (graph, sched, orch and others) need from the machine on which
 * they run. Their names are the same everywhere; a program links one implementation. None of them
 * allocates or makes a system call on the path of a task.
 */
#ifndef PTO_PORT_H
#define PTO_PORT_H

#include "core/core.h"
#include "port/pool.h"

struct worker; /* defined in sched/sched.h */

enum port_start {
    PORT_DONE, /* the kernel has returned; the caller completes the task */
    PORT_SENT, /* the kernel runs on another core; sched_returned_to reports its end */
    /* the kernel still runs, but outside of this worker; sched_returned reports its end */
    PORT_IN_FLIGHT,
};

/* Reports a failed assertion: the state of the engine is broken. Does not return. */
_Noreturn void port_panic(const char *what, const char *file, int line);

/* Asserts in shipped builds as well: for values that are loaded anyway, or for rare paths. */
#define port_assert(condition) ((condition) ? (void)0 : port_panic(#condition, __FILE__, __LINE__))

/*
 * Asserts invariants on the path of a task in checked builds only (PTO_CHECKED, which the sanitized
 * variants and the scenarios of tests/explore define). Other builds do not evaluate the condition.
 */
#ifdef PTO_CHECKED
#define port_check(condition) port_assert(condition)
#else
#define port_check(condition) ((void)sizeof(!(condition)))
#endif

/*
 * Wakes a sleeping worker, because there is a task to take. `machine` is the pointer that the
 * scheduler was given.
 */
void port_wake(void *machine);

/*
 * Called after core_invoke: returns whether another thread has taken over the worker's place while
 * the kernel ran. If so, sched_returned has been called for the invocation.
 */
bool port_core_lost(struct core *core, struct slot *s);

/*
 * Takes over a ready task whose invocations need cores at the same time. Starts them when enough
 * cores are free, gangs first, and reports them to sched_returned one by one. Ordinary tasks get no
 * further cores until then.
 */
void port_team_start(void *machine, struct slot *s);

/*
 * Acquires a core of the type for a worker, if a core is free and no team waits for it: sets the
 * worker's core_index and core_mask.
 */
bool port_core_acquire(void *machine, struct worker *w, uint32_t core_type);
/*
 * Returns how many tasks can start now: on the core that the only worker has acquired, and on those
 * that it could acquire in addition.
 */
uint32_t port_core_room(void *machine, uint32_t core_type);
/* Releases the worker's cores for a waiting team. */
void port_cores_yield(void *machine, struct worker *w);

/*
 * Resets the state of the core's thread that kernels may have changed, so that the kernels of the
 * next task list that uses this core do not see it.
 */
void port_core_reset(struct core *core);

/* Pauses the CPU for a moment; called in loops that wait for another thread to release a lock. */
void port_relax(void);

/*
 * port_can_read checks an address that a kernel or an orchestration named: false if there is no
 * memory for 1, 2, 4 or 8 bytes there. port_write also writes them.
 */
bool port_can_read(uint64_t addr, uint32_t bytes);
bool port_write(uint64_t addr, uint32_t bytes, uint64_t bits);

/* ---- services for orchestrations; not on the path of a task ---- */

/*
 * Runs tasks until memory or a ring has room for more tasks. Called by the thread that builds the
 * graph.
 */
void port_room(void *machine);
/* Runs tasks until the task `seq` in this slot is complete. Returns PTO_OK or PTO_ETIMEOUT. */
int port_wait(void *machine, uint32_t slot, uint32_t seq, uint64_t deadline_ns);
/*
 * Runs some ready tasks. Called in a loop by an orchestration that waits for something outside of
 * its run.
 */
void port_poll(void *machine);
/* port_poll for a run that has failed: does not return if the orchestration has been abandoned. */
void port_poll_failed(void *machine);
uint64_t port_now_ns(void);

/*
 * Calls `each` for every running kernel. Called by the thread that leads the run (that submits and
 * reports).
 */
void port_each_running(void *machine,
                       void (*each)(void *context, struct slot *s, uint32_t core, uint32_t block),
                       void *context);
/* Whether the task waits until several cores are free at the same time. */
bool port_is_queued(void *machine, const struct slot *s);

/*
 * Services for cores. port_core_start starts one invocation of a task's kernel on a core.
 * port_filled is called after the engine has written memory that kernels will read, port_fetch
 * before the engine reads memory that kernels may have written.
 */
#ifdef PTO_CORES_APART        /* cores are separate processors without coherent caches */
enum { PORT_ONE_THREAD = 1 }; /* the engine has one thread, which alone accesses tasks */
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

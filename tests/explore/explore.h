/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explorer: runs a small concurrent scenario again and again, each time under
 * another schedule, and stops at the first execution that fails. README.md
 * says how it works and what it does not see.
 *
 * Everything runs on the one OS thread that calls explore_run(); a scenario's
 * threads are coroutines. An execution must depend on the schedule only: no
 * time, no random numbers, and setup() writes every word the threads read.
 */
#ifndef PTO_EXPLORE_H
#define PTO_EXPLORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    EXPLORE_THREAD_MAX = 8,
    EXPLORE_STACK_BYTES = 256 * 1024,
};

struct explore_scenario {
    const char *name;
    int thread_count;       /* 1 to EXPLORE_THREAD_MAX */
    void (*setup)(void);    /* before the threads; may be NULL */
    void (*thread)(int id); /* id counts from 0 */
    void (*check)(void);    /* after the threads; may be NULL */
};

/*
 * Two searches, one after the other. Depth-first: every schedule with at most
 * `preemption_max` preemptions and `delay_max` delays (a delay is a switch
 * away from a thread that leaves stores in its buffer), up to
 * `execution_max` executions; 0 skips it. Then `random_count` random schedules
 * without these bounds; the n-th has the seed `seed + n`, so a failure is
 * repeated by its printed seed with random_count = 1.
 */
struct explore_limits {
    uint32_t preemption_max;
    uint32_t delay_max;
    uint64_t execution_max;
    uint64_t random_count;
    uint64_t seed;
    uint32_t step_max; /* operations per execution; 0 means 20000 */
    /*
     * number of explore_spin calls per thread that may return although no other thread ran, to get
     * past a bounded spin; each counts as a preemption
     */
    uint32_t idle_spin_max;
    /* try no preemption before notes: this is faster and finds the same races */
    bool skips_notes;
    bool is_quiet; /* print nothing, for failures that a test expects */
};

enum explore_verdict {
    EXPLORE_PASSED,
    EXPLORE_RACE,     /* two plain accesses that are not ordered by happens-before */
    EXPLORE_ASSERT,   /* explore_assert, or assert in the code under test */
    EXPLORE_DEADLOCK, /* no thread can run, but not all have ended */
    EXPLORE_LIVELOCK, /* step_max */
    EXPLORE_MISUSE,   /* the scenario is not deterministic, or too large */
};

struct explore_result {
    enum explore_verdict verdict;
    char message[256]; /* empty when passed */
    uint64_t execution_count;
    uint64_t step_count; /* sum over all executions */
    uint64_t duration_ns;
    bool is_exhausted; /* the depth-first search has tried every schedule within its limits */
};

/*
 * Returns 0 if every execution passed, -1 at the first failure. Without limits (NULL), moderate
 * ones are used.
 */
int explore_run(const struct explore_scenario *scenario, const struct explore_limits *limits);

/* Result of the last explore_run. */
const struct explore_result *explore_last(void);

/* Functions for the threads of a scenario, and for the port layer below the code under test. */

/* The id of the running thread, -1 outside of threads. */
int explore_self(void);

static inline bool explore_in_thread(void)
{
    return explore_self() >= 0;
}

/* A choice of an input or a fault: every value below `count` is tried with every schedule. */
uint32_t explore_choose(uint32_t count);

/* A scheduling point without an operation. */
void explore_point(void);

/*
 * Called in each round of a spin loop. Other threads run first; returns when one of them has made
 * progress.
 */
void explore_spin(void);

/*
 * Blocks the thread until cond(arg) holds. `cond` is called at any time, on any
 * stack; it reads shared words with explore_peek and has no side effects. It
 * orders nothing: load the word again with acquire.
 */
void explore_wait_until(bool (*cond)(void *arg), void *arg);

/* Returns the value that all threads see, without stores that are still in a buffer. */
static inline uint32_t explore_peek32(const struct a32 *a)
{
    return a->v;
}

static inline uint64_t explore_peek64(const struct a64 *a)
{
    return a->v;
}

static inline void *explore_peekptr(const struct aptr *a)
{
    return a->v;
}

/* Empties the store buffer of every thread, as membarrier does: the body of port_fence_all. */
void explore_fence_all(void);

/* Returns false at once when *word differs from `expected`, true after a wake. Orders no notes. */
bool explore_futex_wait(struct a32 *word, uint32_t expected);

/* Wakes up to `count` waiters, the longest waiting first. Returns the number of woken threads. */
uint32_t explore_futex_wake(struct a32 *word, uint32_t count);

#define explore_assert(cond) ((cond) ? (void)0 : explore_assert_failed(__FILE__, __LINE__, #cond))

void explore_assert_failed(const char *file, int line, const char *text) __attribute__((noreturn));

#ifdef __cplusplus
}
#endif

#endif

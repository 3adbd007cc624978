/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder of a run: each worker has a ring of fixed-size records, which only the thread at the
 * worker's place writes. A full ring overwrites its oldest records and counts them.
 *
 * A time stamp costs about as much as an empty task, so there are two ways to record a task: with
 * its begin and its end, or with its order in a batch and one stamp for the batch. A kernel that
 * starts directly after another one begins with the stamp of the earlier kernel's end, unless
 * trace_gap was called in between.
 */
#ifndef PTO_TRACE_H
#define PTO_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trace_kind {
    /* a kernel started on a core; it has returned at `end`, if that is not 0; value: kernel id */
    TRACE_BEGIN,
    /*
     * A kernel has returned; recorded only if its TRACE_BEGIN is not the latest record of this
     * ring.
     */
    TRACE_END,
    /* a kernel ran at some time of its batch, without stamps of its own; value: kernel id */
    TRACE_RUN,
    TRACE_DEPTH, /* seq: number of live tasks; value: number of ready tasks of this worker */
    /* the task became ready; value: seq of the task whose completion made it ready; 0: unknown */
    TRACE_READY,
    TRACE_DEFER, /* the kernel has returned, but its task waits for conditions */
    TRACE_DONE,  /* the task is complete; recorded if another thread ran its last kernel */
    TRACE_CPU,   /* end: CPU time that the thread has used so far, in ns; value: id of the thread */
};

struct slot;

/* Why a task that was recorded without a core did not run. */
enum trace_nothing {
    TRACE_DUMMY,   /* the task has no kernel */
    TRACE_SKIPPED, /* the task's predicate did not hold */
    TRACE_STOPPED, /* the run had failed, or was cancelled */
    TRACE_NOTHINGS
};

enum {
    TRACE_BATCH = 16,
    /*
     * Limit in cycles: after a kernel that took longer, the next one begins with the stamp of its
     * end; after a shorter one, it gets a stamp of its own. Otherwise both would begin at the same
     * nanosecond if the cycle counter advances in steps.
     */
    TRACE_SHORT = 64,
    /* value of `core`: the task ran on no core, or records of this kind have none */
    TRACE_CORE_NONE = UINT16_MAX
};

struct trace_record {
    uint64_t time; /* stamp of port_cycles */
    uint64_t end;
    uint32_t seq; /* number of the task in its run, from 1 on */
    uint32_t value;
    uint32_t block;
    uint16_t core;   /* index of the core: AICs first, then AIVs */
    uint8_t kind;    /* enum trace_kind */
    uint8_t nothing; /* enum trace_nothing; valid if `core` is TRACE_CORE_NONE */
};

/*
 * The records of one worker. The rings of workers are adjacent in memory and have different
 * writers, so each ring starts on a separate cache line.
 */
struct trace_ring {
    _Alignas(128) struct trace_record *record;
    uint64_t count; /* number of records ever written */
    uint32_t mask;
    uint32_t since;     /* number of records since the stamp `batch` was taken */
    uint64_t batch;     /* stamp of the current batch */
    bool has_each_time; /* record begin and end of each kernel, not one stamp per batch */
    uint32_t live;      /* `live` and `ready`, as in the latest TRACE_DEPTH record */
    uint32_t ready;
    uint64_t last; /* stamp of the latest end of a kernel in this ring */
    /* stamp with which a kernel begins that starts now; 0: it needs a stamp of its own */
    uint64_t next;
    uint64_t cpu_at;     /* stamp of the latest TRACE_CPU */
    uint64_t cpu_cycles; /* time in cycles at which the next TRACE_CPU is due */
    /*
     * Returns the CPU time of the calling thread in ns, and its id; NULL: CPU times are not
     * recorded.
     */
    uint64_t (*cpu_fn)(uint32_t *thread_out);
    /*
     * Called for each invocation before it starts and after it has returned; NULL: not called.
     * Returns false if the run has failed and the kernel must not start.
     */
    bool (*watch_fn)(void *context, const struct slot *task, enum trace_kind kind);
    void *watch_context;
};

#ifdef PTO_VIRTUAL_TIME
uint64_t port_virtual_cycles(void);
#endif

/*
 * Returns the machine's cycle counter, whose rate the exporter measures; in virtual time,
 * nanoseconds.
 */
static inline uint64_t port_cycles(void)
{
#if defined(PTO_VIRTUAL_TIME)
    return port_virtual_cycles();
#elif defined(__aarch64__)
    uint64_t value;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
#elif defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#endif
}

static inline void trace_put(struct trace_ring *ring, uint64_t time, enum trace_kind kind,
                             uint32_t seq, uint32_t core, uint32_t value, uint32_t block)
{
    ring->record[ring->count++ & ring->mask] =
        (struct trace_record){ time, 0, seq, value, block, (uint16_t)core, (uint8_t)kind, 0 };
}

static inline void trace_put_cpu(struct trace_ring *ring, uint64_t time, uint64_t ns,
                                 uint32_t thread)
{
    trace_put(ring, time, TRACE_CPU, 0, TRACE_CORE_NONE, thread, 0);
    ring->record[(ring->count - 1) & ring->mask].end = ns;
}

/*
 * Records the CPU time that the thread has used until `now`. That takes a system call, so it is
 * done only before a task that starts long after the latest stamp, and after a long task. From two
 * such records readers compute the time for which the thread was off its CPU, and subtract it from
 * the longest task in between.
 */
static inline void trace_cpu(struct trace_ring *ring, uint64_t now)
{
    uint32_t thread = 0;
    uint64_t ns = ring->cpu_fn(&thread);

    ring->next = 0;
    ring->cpu_at = now;
    trace_put_cpu(ring, now, ns, thread);
}

/* Makes the next kernel on this ring get a stamp of its own. */
static inline void trace_gap(struct trace_ring *ring)
{
    ring->next = 0;
}

static inline void trace_no_run(struct trace_ring *ring, uint32_t seq, uint32_t kernel,
                                enum trace_nothing why)
{
    ring->last = port_cycles();
    trace_gap(ring);
    trace_put(ring, ring->last, TRACE_RUN, seq, TRACE_CORE_NONE, kernel, 0);
    ring->record[(ring->count - 1) & ring->mask].nothing = (uint8_t)why;
}

/* Calls watch_fn, if set, on the thread that invokes the kernel, which holds no lock. */
static inline bool trace_watch(const struct trace_ring *ring, const struct slot *task,
                               enum trace_kind kind)
{
    return __builtin_expect(ring->watch_fn == NULL, 1) ||
           __builtin_expect(ring->watch_fn(ring->watch_context, task, kind), 1);
}

static inline void trace_begin(struct trace_ring *ring, uint32_t seq, uint32_t core,
                               uint32_t kernel, uint32_t block)
{
    if (ring->has_each_time) {
        uint64_t now = ring->next;

        if (now == 0) {
            now = port_cycles();
            if (ring->cpu_fn != NULL && now - ring->cpu_at > ring->cpu_cycles)
                trace_cpu(ring, now);
        }
        trace_put(ring, now, TRACE_BEGIN, seq, core, kernel, block);
        return;
    }
    if (ring->since++ % TRACE_BATCH == 0)
        ring->batch = port_cycles();
    trace_put(ring, ring->batch, TRACE_RUN, seq, core, kernel, block);
}

static inline void trace_end(struct trace_ring *ring, uint32_t seq, uint32_t core, uint32_t block)
{
    struct trace_record *begin = &ring->record[(ring->count - 1) & ring->mask];

    if (!ring->has_each_time)
        return;
    ring->last = port_cycles();
    if (ring->count != 0 && begin->kind == TRACE_BEGIN && begin->seq == seq &&
        begin->core == core && begin->block == block) {
        begin->end = ring->last;
        ring->next = ring->last - begin->time > TRACE_SHORT ? ring->last : 0;
    } else {
        trace_put(ring, ring->last, TRACE_END, seq, core, 0, block);
        trace_gap(ring);
    }
    if (ring->cpu_fn != NULL && ring->last - ring->cpu_at > ring->cpu_cycles)
        trace_cpu(ring, ring->last);
}

/*
 * Called when the thread finds no more tasks. Records its CPU time now, so that time off the CPU
 * before this is not subtracted from the next task.
 */
static inline void trace_rest(struct trace_ring *ring)
{
    if (ring->cpu_fn != NULL &&
        (int64_t)(ring->last - ring->cpu_at) > (int64_t)(ring->cpu_cycles / 2))
        trace_cpu(ring, ring->last);
}

static inline void trace_defer(struct trace_ring *ring, uint32_t seq)
{
    if (ring->has_each_time)
        trace_put(ring, port_cycles(), TRACE_DEFER, seq, TRACE_CORE_NONE, 0, 0);
}

/* Records that a task is complete whose last kernel returned on another thread. */
static inline void trace_done(struct trace_ring *ring, uint32_t seq)
{
    ring->last = port_cycles();
    if (ring->has_each_time)
        trace_put(ring, ring->last, TRACE_DONE, seq, TRACE_CORE_NONE, 0, 0);
}

/* Records that task `seq` became ready because task `by` completed; `by` 0: unknown. */
static inline void trace_ready(struct trace_ring *ring, uint32_t seq, uint32_t by)
{
    if (ring->has_each_time)
        trace_put(ring, ring->last, TRACE_READY, seq, TRACE_CORE_NONE, by, 0);
}

static inline void trace_depth(struct trace_ring *ring, uint32_t live, uint32_t ready)
{
    if (live == ring->live && ready == ring->ready)
        return;
    ring->live = live;
    ring->ready = ready;
    trace_put(ring, port_cycles(), TRACE_DEPTH, live, 0, ready, 0);
}

#endif

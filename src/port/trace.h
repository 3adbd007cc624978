/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flight recorder's ring: fixed-size records, one ring a worker, written by
 * the thread at the worker's place only. When it is full the oldest records
 * give way, and are counted.
 *
 * A time stamp costs about as much as an empty task, so there are two ways to
 * record a task: with its own two stamps, or with the order and the stamp of
 * its batch.
 */
#ifndef PTO_TRACE_H
#define PTO_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trace_kind {
    TRACE_BEGIN, /* value: kernel; a kernel starts on a core */
    TRACE_END,   /* it has returned */
    TRACE_RUN,   /* both at once, at some time of the batch; value: kernel */
    TRACE_DEPTH, /* seq: live tasks; value: ready ones of this worker */
};

struct slot;

/* Why a task that was recorded on no core ran nothing. */
enum trace_nothing {
    TRACE_DUMMY,   /* it has no kernel */
    TRACE_SKIPPED, /* its predicate did not hold */
    TRACE_STOPPED, /* the run had failed, or was cancelled */
    TRACE_NOTHINGS
};

enum {
    TRACE_BATCH = 16,
    TRACE_CORE_NONE = UINT16_MAX /* it ran nothing; or an end whose core the begin tells */
};

struct trace_record {
    uint64_t time;   /* port_cycles */
    uint32_t seq;    /* of the task */
    uint16_t core;   /* AICs, then AIVs */
    uint8_t kind;    /* enum trace_kind */
    uint8_t nothing; /* enum trace_nothing, without a core */
    uint32_t value;
    uint32_t block;
};

/* Rings are neighbours, and each is written by another thread. */
struct trace_ring {
    _Alignas(128) struct trace_record *record;
    uint64_t count; /* ever written */
    uint32_t mask;
    uint32_t since;     /* records since the last stamp of a batch */
    uint64_t batch;     /* that stamp */
    bool has_each_time; /* every task gets its own stamps */
    uint32_t live;      /* as last recorded */
    uint32_t ready;
    /*
     * Told of each invocation before it starts and after it has returned; NULL: nobody is. False:
     * the run has failed, and the kernel is not started.
     */
    bool (*watch_fn)(void *context, const struct slot *task, enum trace_kind kind);
    void *watch_context;
};

/* The machine's cycle counter; its rate is measured by whoever exports. */
static inline uint64_t port_cycles(void)
{
#if defined(__aarch64__)
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
        (struct trace_record){ time, seq, (uint16_t)core, (uint8_t)kind, 0, value, block };
}

static inline void trace_no_run(struct trace_ring *ring, uint32_t seq, uint32_t kernel,
                                enum trace_nothing why)
{
    trace_put(ring, port_cycles(), TRACE_RUN, seq, TRACE_CORE_NONE, kernel, 0);
    ring->record[(ring->count - 1) & ring->mask].nothing = (uint8_t)why;
}

/* By the thread that invokes the kernel, which does not hold any lock. */
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
        trace_put(ring, port_cycles(), TRACE_BEGIN, seq, core, kernel, block);
        return;
    }
    if (ring->since++ % TRACE_BATCH == 0)
        ring->batch = port_cycles();
    trace_put(ring, ring->batch, TRACE_RUN, seq, core, kernel, block);
}

static inline void trace_end(struct trace_ring *ring, uint32_t seq, uint32_t core, uint32_t block)
{
    if (ring->has_each_time)
        trace_put(ring, port_cycles(), TRACE_END, seq, core, 0, block);
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

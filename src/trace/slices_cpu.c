/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Estimates the CPU time of executions. A thread's CPU time is recorded from time to time, and
 * between two such records it may have run several kernels. CPU time lost in between, beyond the
 * gaps between kernels, is attributed to the longest of those kernels, because a preempted kernel
 * takes longer than its neighbours.
 */
#include "trace/snapshot.h"

enum {
    /*
     * a loss below CPU_NOISE_NS, plus 1/CPU_NOISE_PART of the wall time, is taken for noise of the
     * clocks
     */
    CPU_NOISE_NS = 1000,
    CPU_NOISE_PART = 64,
    CPU_LOSERS = 8 /* maximum number of kernels that a loss is attributed to */
};

/* The records of one ring buffer that lie between two records of a thread's CPU time. */
struct cpu_span {
    const struct trace_ring *ring;
    uint64_t first;
    uint64_t last; /* end of the span, exclusive */
};

/* Returns the execution that the record begins, if the record also has its end; else NULL. */
static struct trace_slice *cpu_slice(const struct trace_slices *t, const struct trace_record *r)
{
    const struct trace_slice *s;

    if (r->kind != TRACE_BEGIN || r->end == 0 || r->seq == 0)
        return NULL;
    s = trace_slices_find(t, r->seq - 1);
    while (s != NULL && s < t->slice + t->count && s->seq == r->seq)
        if (s->block == r->block && s->core == r->core)
            return (struct trace_slice *)(uintptr_t)s;
        else
            s++;
    return NULL;
}

static uint64_t cpu_length(const struct trace_slices *t, const struct trace_slice *s)
{
    return (uint64_t)((double)(s->end - s->begin) * t->ns_per_cycle);
}

/*
 * Returns the longest execution of the span to which no loss was attributed yet; NULL: there is
 * none.
 */
static struct trace_slice *cpu_longest(const struct trace_slices *t, const struct cpu_span *span)
{
    struct trace_slice *longest = NULL;

    for (uint64_t k = span->first; k < span->last; k++) {
        struct trace_slice *s = cpu_slice(t, &span->ring->record[k & span->ring->mask]);

        if (s != NULL && s->cpu_lost_ns == 0 &&
            (longest == NULL || s->end - s->begin > longest->end - longest->begin))
            longest = s;
    }
    return longest;
}

/*
 * Attributes the lost time of a span: `wall_ns` passed between its two CPU time records, and the
 * thread had a CPU for `thread_ns` of it.
 */
static void cpu_settle(struct trace_slices *t, const struct cpu_span *span, uint64_t wall_ns,
                       uint64_t thread_ns)
{
    uint64_t in_slices = 0, lost;

    for (uint64_t k = span->first; k < span->last; k++) {
        struct trace_slice *s = cpu_slice(t, &span->ring->record[k & span->ring->mask]);

        if (s == NULL)
            continue;
        s->has_cpu = true;
        in_slices += cpu_length(t, s);
    }
    lost = in_slices > thread_ns ? in_slices - thread_ns : 0;
    if (lost < CPU_NOISE_NS + wall_ns / CPU_NOISE_PART)
        return;
    for (uint32_t i = 0; i < CPU_LOSERS && lost != 0; i++) {
        struct trace_slice *s = cpu_longest(t, span);

        if (s == NULL)
            return;
        s->cpu_lost_ns = lost < cpu_length(t, s) ? lost : cpu_length(t, s);
        lost -= s->cpu_lost_ns;
        if (s->cpu_lost_ns == 0)
            return;
    }
}

void trace_slices_read_cpu(struct trace_slices *t)
{
    const struct chip_record *record = &t->snapshot->record;

    for (uint32_t i = 0; i < record->ring_count; i++) {
        const struct trace_ring *ring = record->ring[i];
        const struct trace_record *before = NULL;
        struct cpu_span span = { .ring = ring };

        for (uint64_t k = trace_ring_first(ring); k < ring->count; k++) {
            const struct trace_record *r = &ring->record[k & ring->mask];

            if (r->kind != TRACE_CPU)
                continue;
            span.last = k;
            if (before != NULL && before->value == r->value && before->end <= r->end &&
                before->time <= r->time)
                cpu_settle(t, &span, (uint64_t)((double)(r->time - before->time) * t->ns_per_cycle),
                           r->end - before->end);
            before = r;
            span.first = k + 1;
        }
    }
}

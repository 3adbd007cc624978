/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives that reduce. A chunk of the operands is split into one part for each rank; half a
 * scratch has a slot for each part. Each rank reduces one part over all ranks, in the order of
 * ranks.
 */
#include "comm/collective.h"
#include "comm/reduce.h"

enum {
    /* number of elements: parts are whole cache lines, so that no two ranks share a line */
    PART_ALIGN = 64,
    ONE_SHOT_BYTES = 16 << 10,
};

/* ---- parts ---- */

/* Splits a chunk of `total` elements into adjacent parts. */
static struct collective_parts collective_split(const struct collective *c, const char *from,
                                                uint64_t total)
{
    uint64_t each = (total + c->rank_count - 1) / c->rank_count;

    each = (each + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
    return (struct collective_parts){ from, each * c->element_bytes, each, total };
}

/*
 * Writes each part of the chunk into its rank's slot, except this rank's own part, which no other
 * rank needs.
 */
static void put_parts(struct collective *c, const struct collective_parts *parts, uint64_t slot)
{
    char *next = collective_next(c);

    for (uint32_t i = 1; i < c->rank_count; i++) {
        uint32_t rank = (c->rank + i) % c->rank_count;

        memcpy(next + rank * slot, parts->from + rank * parts->stride,
               collective_part(parts, rank) * c->element_bytes);
    }
    /* all slots are as long as the first part, which is the largest */
    collective_send_slots(c, slot, collective_part(parts, 0) * c->element_bytes);
}

static void reduce(const struct collective *c, const void *const *source, uint32_t source_count,
                   uint64_t count, void *to, void *copy)
{
    struct reduce r = { c->how.dtype, c->how.reduce, source, source_count };

    reduce_sources(&r, count, to, copy);
}

/*
 * Reduces this rank's part: its own elements are in the caller's buffer, those of the others in
 * their slots.
 */
static void reduce_own(const struct collective *c, const struct collective_parts *parts,
                       uint64_t slot, char *to, char *copy)
{
    const void *source[COMM_RANKS_MAX];

    for (uint32_t i = 0; i < c->rank_count; i++)
        source[i] = i == c->rank ? parts->from + c->rank * parts->stride
                                 : collective_read(c, i) + c->rank * slot;
    reduce(c, source, c->rank_count, collective_part(parts, c->rank), to, copy);
}

/* ---- one shot: every rank reduces all elements ---- */

static int reduce_one_shot(struct collective *c, const char *from, char *to)
{
    uint64_t bytes = c->count * c->element_bytes, n;
    const void *source[COMM_RANKS_MAX];
    int status;

    c->is_inline = bytes <= COLLECTIVE_INLINE;
    c->is_word = bytes <= sizeof(c->own.word);
    for (uint64_t at = 0; at < bytes; at += n) {
        n = bytes - at < COLLECTIVE_HALF ? bytes - at : COLLECTIVE_HALF;
        memcpy(collective_next(c), from + at, n);
        collective_send(c, 0, n);
        status = collective_round(c);
        if (status < 0)
            return status;
        for (uint32_t i = 0; i < c->rank_count; i++)
            source[i] = i == c->rank ? from + at : collective_read(c, i); /* mutation: own-first */
        reduce(c, source, c->rank_count, n / c->element_bytes, to + at, NULL);
    }
    return PTO_OK;
}

/* ---- two phases: every rank reduces one part, then all exchange the results ---- */

/*
 * Copies the parts of a chunk that other ranks have reduced. Each rank publishes its result in the
 * slot with its own number.
 */
static void take_results(const struct collective *c, const struct collective_parts *parts,
                         uint64_t slot, char *to)
{
    for (uint32_t i = 1; i < c->rank_count; i++) {
        uint32_t rank = (c->rank + i) % c->rank_count;

        memcpy(to + rank * parts->stride, collective_read(c, rank) + rank * slot,
               collective_part(parts, rank) * c->element_bytes);
    }
}

/*
 * In each round a rank publishes the others' parts of a chunk, and its own reduced part of the
 * previous chunk. The latter is in its own slot, which is free because no other rank needs the
 * elements for it.
 */
static int reduce_two_phase(struct collective *c, const char *from, char *to)
{
    const uint64_t slot = COLLECTIVE_HALF / c->rank_count / SHARED_LINE * SHARED_LINE;
    const uint64_t chunk = slot / c->element_bytes / PART_ALIGN * PART_ALIGN * c->rank_count;
    struct collective_parts parts = { 0 }, before;
    int status;

    for (uint64_t at = 0; at < c->count + chunk; at += chunk) {
        uint64_t offset = at * c->element_bytes;

        before = parts;
        parts = collective_split(c, from + offset,
                                 at >= c->count          ? 0
                                 : c->count - at < chunk ? c->count - at
                                                         : chunk);
        put_parts(c, &parts, slot);
        collective_send(c, c->rank * slot, collective_part(&before, c->rank) * c->element_bytes);
        status = collective_round(c);
        if (status < 0)
            return status;
        if (at > 0)
            take_results(c, &before, slot, to + offset - chunk * c->element_bytes);
        if (at < c->count)
            reduce_own(c, &parts, slot, to + offset + c->rank * parts.stride,
                       collective_next(c) + c->rank * slot);
    }
    return PTO_OK;
}

/* ---- ring: parts travel from rank to rank ---- */

/* Only the rank to the right reads what this rank publishes. */
static void ring_send(struct collective *c, uint64_t count)
{
    collective_send(c, 0, count * c->element_bytes);
    c->sends.only = (c->rank + 1) % c->rank_count;
}

/*
 * A part starts at the rank after its owner, visits every rank, which adds its elements, and is
 * complete when it arrives at its owner. The owner writes the result to `to`, and to where it is
 * published next.
 */
static int ring_reduce(struct collective *c, const struct collective_parts *parts, char *to)
{
    uint32_t left = (c->rank + c->rank_count - 1) % c->rank_count;

    memcpy(collective_next(c), parts->from + left * parts->stride,
           collective_part(parts, left) * c->element_bytes);
    ring_send(c, collective_part(parts, left));
    for (uint32_t step = 2; step <= c->rank_count; step++) {
        uint32_t part = (c->rank + 2 * c->rank_count - step) % c->rank_count;
        int status = collective_round(c);
        const void *source[2];

        if (status < 0)
            return status;
        source[0] = collective_read(c, left);
        source[1] = parts->from + part * parts->stride;
        ring_send(c, collective_part(parts, part));
        if (part == c->rank)
            reduce(c, source, 2, collective_part(parts, part), to, collective_next(c));
        else
            reduce(c, source, 2, collective_part(parts, part), collective_next(c), NULL);
    }
    return PTO_OK;
}

/* Each rank's part, already in `to`, visits all other ranks. */
static int ring_gather(struct collective *c, const struct collective_parts *parts, char *to)
{
    uint32_t left = (c->rank + c->rank_count - 1) % c->rank_count;

    for (uint32_t step = 1; step < c->rank_count; step++) {
        uint32_t part = (c->rank + c->rank_count - step) % c->rank_count;
        uint64_t bytes = collective_part(parts, part) * c->element_bytes;
        int status = collective_round(c);

        if (status < 0)
            return status;
        memcpy(to + part * parts->stride, collective_read(c, left), bytes);
        if (step + 1 < c->rank_count)
            memcpy(collective_next(c), collective_read(c, left), bytes);
        ring_send(c, collective_part(parts, part));
    }
    return PTO_OK;
}

static int all_reduce_ring(struct collective *c, const char *from, char *to)
{
    const uint64_t chunk = (uint64_t)COLLECTIVE_HALF / c->element_bytes * c->rank_count;
    int status = PTO_OK;

    for (uint64_t at = 0; at < c->count && status >= 0; at += chunk) {
        uint64_t offset = at * c->element_bytes;
        struct collective_parts parts =
            collective_split(c, from + offset, c->count - at < chunk ? c->count - at : chunk);

        status = ring_reduce(c, &parts, to + offset + c->rank * parts.stride);
        if (status >= 0)
            status = ring_gather(c, &parts, to + offset);
    }
    return status;
}

/* ---- calls ---- */

static enum pto_algorithm collective_choose(const struct collective *c)
{
    if (c->how.algorithm != PTO_ALGORITHM_AUTO)
        return c->how.algorithm;
    return c->count * c->element_bytes <= ONE_SHOT_BYTES ? PTO_ALGORITHM_ONE_SHOT
                                                         : PTO_ALGORITHM_TWO_PHASE;
}

int collective_all_reduce(struct collective *c, const char *from, char *to)
{
    if (c->status < 0 || c->count == 0)
        return collective_agree(c);
    switch (collective_choose(c)) {
    case PTO_ALGORITHM_RING:
        return all_reduce_ring(c, from, to);
    case PTO_ALGORITHM_TWO_PHASE:
        return reduce_two_phase(c, from, to);
    default:
        return reduce_one_shot(c, from, to);
    }
}

/* One-shot and two-phase reduce-scatter are equal: only the first phase is needed. */
int collective_reduce_scatter(struct collective *c, const char *from, char *to)
{
    uint64_t bytes = c->count * c->element_bytes, n;
    bool is_ring = c->how.algorithm == PTO_ALGORITHM_RING;
    uint64_t slot = collective_slot(c, is_ring ? UINT64_MAX : bytes);
    int status = PTO_OK;

    if (c->status < 0 || bytes == 0)
        return collective_agree(c);
    for (uint64_t at = 0; at < bytes && status >= 0; at += n) {
        struct collective_parts parts = { .from = from + at, .stride = bytes };

        n = bytes - at < slot ? bytes - at : slot;
        parts.each = n / c->element_bytes;
        parts.total = parts.each * c->rank_count;
        if (is_ring) {
            status = ring_reduce(c, &parts, to + at);
            continue;
        }
        put_parts(c, &parts, slot);
        status = collective_round(c);
        if (status >= 0)
            reduce_own(c, &parts, slot, to + at, NULL);
    }
    return status;
}

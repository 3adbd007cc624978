/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions: memory through which the host and a task on a chip talk while the task runs, and
 * queues of messages in them. This is the chip's side, for orchestrations, and for kernels
 * what does not wait; pto/worker_region.h is the host's.
 *
 *     region    six scalars of the task: payload, and 32-bit counters beside it
 *     queue     twelve: the region, and how it is divided
 *
 * The layout is the reference's, so either side may be written for it:
 *
 *     payload   slots of the input | slots of the output | arena of the input | of the output
 *     counters  at 0 and 64 tail and head of the input, at 128 and 192 of the output, at 256
 *               and 320 the host and the chip have given up
 *
 * Input is what the host sends. A slot has 32 bytes: number from 1 on, kind, where the bytes
 * begin in the payload, how many. Messages lie in the arena one behind the other; one that
 * does not fit before its end begins at its beginning. Tails and heads count messages, and
 * their low halves travel; places are given back in the order of the messages, however they
 * are released. A counter has one writer. What was written before a counter is visible
 * to whoever has seen its value.
 *
 * What the other side writes is not trusted: one message that cannot be right ends the queue.
 *
 * On a card (PTO_ON_CARD) the memory is the card's, and its caches see nothing of what the host copies there:
 * whatever is read here is fetched, and whatever is written published. An orchestration that reads and
 * writes the payload of a region itself calls pto_region_fetch and pto_region_publish; those of
 * queues see to the bytes of their messages.
 */
#ifndef PTO_API_REGION_H
#define PTO_API_REGION_H

#include "pto/cache_lines.h"
#include "pto/orch.h"
#include "pto/window.h"

#ifndef PTO_ON_CORE
#include <time.h>
#endif

enum {
    PTO_REGION_SCALARS = 6,
    PTO_QUEUE_SCALARS = 12,
    PTO_REGION_LINE = 64, /* counters of different writers lie so far apart; arenas are multiples */
    PTO_QUEUE_SLOT_BYTES = 32,
    PTO_QUEUE_COUNTER_BYTES = 384,
    PTO_QUEUE_ACTIVE_MAX = 64 /* messages that were received and are not released */
};
#define PTO_REGION_MAGIC (0x4C334C32ull << 32 | 3ull << 16)
#define PTO_QUEUE_MAGIC (0x4C335132ull << 32 | 1ull << 16 | 1)
#define PTO_QUEUE_DEPTH_MAX (1ull << 30)

/* Bit k: scalar k of a region is an address: id, payload and counters. */
#define PTO_REGION_ADDRESSES 0x16u

/* The six scalars of a region, in their order. */
struct pto_region {
    uint64_t magic; /* PTO_REGION_MAGIC; the lowest 16 bits may differ */
    uint64_t id;    /* not 0 */
    uint64_t payload;
    uint64_t payload_bytes;
    uint64_t counters; /* a multiple of 64 */
    uint64_t counter_bytes;
};

/*
 * Before the counters of a region that this runtime has made, whose id is its address: how the host is
 * woken, and whether it has gone. Other regions have none; then the host looks from time to time.
 */
struct pto_region_head {
    uint64_t calls;     /* address of a uint32_t that is counted up; 0: the host polls */
    uint64_t waker;     /* the host's, for pto_wake */
    uint32_t is_closed; /* the host waits for nothing more, and sends nothing */
    uint32_t reserved[11];
};

/* ---- regions ---- */

/* Reads the scalars of a task. PTO_EINVAL: they are no region. */
static inline int pto_region_init(struct pto_region *r, const uint64_t *scalars)
{
    uint64_t end;

    memcpy(r, scalars, sizeof(*r));
    if (r->magic >> 16 != PTO_REGION_MAGIC >> 16 || r->id == 0 || r->payload_bytes == 0 ||
        __builtin_add_overflow(r->payload, r->payload_bytes, &end) ||
        __builtin_add_overflow(r->counters, r->counter_bytes, &end) || r->counters == 0 ||
        r->counters % PTO_REGION_LINE != 0 || r->counter_bytes == 0 || r->counter_bytes % 4 != 0)
        return PTO_EINVAL;
    if (r->payload < end && r->counters < r->payload + r->payload_bytes)
        return PTO_EINVAL;
    pto_lines_fetch((const void *)(uintptr_t)r->counters, r->counter_bytes); /* of an earlier one */
    return PTO_OK;
}

/* The head of a region; NULL: it has none. */
static inline struct pto_region_head *pto_region_head_of(const struct pto_region *r)
{
    return r->id == r->counters - sizeof(struct pto_region_head)
               ? (struct pto_region_head *)(uintptr_t)r->id
               : NULL;
}

/* Bytes of the payload. NULL: they do not all lie in it. */
static inline void *pto_region_payload(const struct pto_region *r, uint64_t offset, uint64_t bytes)
{
    return offset <= r->payload_bytes && bytes <= r->payload_bytes - offset
               ? (void *)(uintptr_t)(r->payload + offset)
               : NULL;
}

/* A counter by its offset. NULL: there is none. */
static inline int32_t *pto_region_counter(const struct pto_region *r, uint64_t offset)
{
    return offset % 4 == 0 && offset < r->counter_bytes
               ? (int32_t *)(uintptr_t)(r->counters + offset)
               : NULL;
}

/* The value of a counter, which is there. What its writer wrote before is visible, on a card once it is fetched. */
static inline int32_t pto_region_value(const int32_t *counter)
{
    pto_lines_fetch(counter, sizeof(*counter));
    return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

/*
 * Before an orchestration reads bytes of the payload, behind a wait, and before it writes to a line of them for the
 * first time; nothing to do but on cards.
 */
static inline void pto_region_fetch(const struct pto_region *r, uint64_t offset, uint64_t bytes)
{
    const void *at = pto_region_payload(r, offset, bytes);

    if (at != NULL)
        pto_lines_fetch(at, bytes);
}

/* When an orchestration has written bytes of the payload, before it notifies; the same. */
static inline void pto_region_publish(const struct pto_region *r, uint64_t offset, uint64_t bytes)
{
    const void *at = pto_region_payload(r, offset, bytes);

    if (at != NULL)
        pto_lines_publish(at, bytes);
}

/* Wakes the host: after a store to a counter. */
static inline void pto_region_wake(const struct pto_region *r)
{
#ifdef PTO_CAN_WAKE
    const struct pto_region_head *head = pto_region_head_of(r);

    if (head == NULL || head->calls == 0)
        return;
    (void)__atomic_fetch_add((uint32_t *)(uintptr_t)head->calls, 1, __ATOMIC_RELEASE);
    pto_wake(head->waker);
#else
    (void)r;
#endif
}

/* Sets a counter, or adds to it; nobody else writes it. PTO_EINVAL: there is none. */
static inline int pto_region_notify(const struct pto_region *r, uint64_t offset,
                                    enum pto_signal how, int32_t value)
{
    int32_t *counter = pto_region_counter(r, offset);

    if (counter == NULL)
        return PTO_EINVAL;
    if (how == PTO_SIGNAL_ADD)
        value = (int32_t)((uint32_t)__atomic_load_n(counter, __ATOMIC_RELAXED) + (uint32_t)value);
    __atomic_store_n(counter, value, __ATOMIC_RELEASE);
    pto_lines_publish(counter, sizeof(*counter));
    pto_region_wake(r);
    return PTO_OK;
}

/* Says whether the host has gone. */
static inline bool pto_region_is_closed(const struct pto_region *r)
{
    const struct pto_region_head *head = pto_region_head_of(r);

    if (head == NULL)
        return false;
    pto_lines_fetch(head, sizeof(*head));
    return __atomic_load_n(&head->is_closed, __ATOMIC_ACQUIRE) != 0;
}

#ifndef PTO_ON_CORE

/* For waits: the time, in nanoseconds. */
static inline uint64_t pto_region_now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/*
 * Waits for a counter, and lets tasks of the run go on. Orchestrations only. *observed_out,
 * which may be NULL, is its last value. PTO_ETIMEOUT; PTO_EPEER: the host has gone; or the
 * error of the run.
 */
static inline int pto_region_wait(struct pto_orch *o, const struct pto_region *r, uint64_t offset,
                                  enum pto_compare how, int32_t value, uint64_t timeout_ns,
                                  int32_t *observed_out)
{
    const int32_t *counter = pto_region_counter(r, offset);
    uint64_t begin_ns = pto_region_now_ns();

    if (counter == NULL)
        return PTO_EINVAL;
    for (;;) {
        bool is_closed = pto_region_is_closed(r); /* what it did before is there */
        int32_t observed = pto_region_value(counter);
        int status;

        if (observed_out != NULL)
            *observed_out = observed;
        if (pto_compare_holds(how, observed, value))
            return PTO_OK;
        if (is_closed)
            return PTO_EPEER;
        status = pto_orch_listen(o);
        if (status < 0)
            return status;
        if (pto_region_now_ns() - begin_ns >= timeout_ns)
            return PTO_ETIMEOUT;
    }
}

#endif

/* ---- queues ---- */

/* What a message is. */
enum pto_message_kind { PTO_MESSAGE_DATA = 1, PTO_MESSAGE_STOP = 2, PTO_MESSAGE_ERROR = 3 };

/* A message that was received, or room for one that is to be sent. */
struct pto_message {
    uint64_t number; /* counts those of its direction from 1 on */
    uint64_t kind;   /* enum pto_message_kind */
    void *data;      /* NULL: it has no bytes */
    uint64_t bytes;
    uint64_t offset; /* of the data, in the payload */
};

/* One direction, as one of its ends sees it. */
struct pto_queue_way {
    uint64_t slots; /* offset in the payload */
    uint64_t arena; /* the same */
    uint64_t arena_bytes;
    uint64_t tail, head; /* messages that were sent, and whose places were given back */
    uint64_t taken;      /* received, by the receiver */
    uint64_t done;       /* bits: of those received, from head on, which were released */
    uint64_t bytes_tail, bytes_head, bytes_taken; /* the same of the arena; they count forever */
    uint32_t tail_at, head_at;                    /* offsets of the counters */
    bool is_stopped;                              /* a STOP was sent or received */
    bool is_reserved;
};

/* One end of a queue. */
struct pto_queue {
    struct pto_region region;
    uint64_t depth;
    struct pto_queue_way in, out; /* what this end receives and sends */
    uint32_t own_end_at, other_end_at;
    bool is_chip;
    int status; /* not 0: it is over */
};

/* Computes how a payload is divided; bytes of it. 0: it cannot be. */
static inline uint64_t pto_queue_payload_bytes(uint64_t depth, uint64_t input_bytes,
                                               uint64_t output_bytes)
{
    if (depth == 0 || (depth & (depth - 1)) != 0 || depth > PTO_QUEUE_DEPTH_MAX ||
        input_bytes == 0 || output_bytes == 0 || input_bytes % PTO_REGION_LINE != 0 ||
        output_bytes % PTO_REGION_LINE != 0 || input_bytes > 1ull << 46 ||
        output_bytes > 1ull << 46)
        return 0;
    return 2 * depth * PTO_QUEUE_SLOT_BYTES + input_bytes + output_bytes;
}

/* Reads the scalars of a task, for its end of the queue, or the host's. PTO_EINVAL: they are none. */
static inline int pto_queue_init(struct pto_queue *q, const uint64_t *scalars, bool is_chip)
{
    const uint64_t *own = scalars + PTO_REGION_SCALARS;
    uint64_t bytes = pto_queue_payload_bytes(own[1], own[2], own[3]);
    struct pto_queue_way input, output;

    memset(q, 0, sizeof(*q));
    if (pto_region_init(&q->region, scalars) < 0 || own[0] != PTO_QUEUE_MAGIC || bytes == 0 ||
        own[4] != bytes || q->region.payload_bytes != bytes || own[5] != PTO_QUEUE_COUNTER_BYTES ||
        q->region.counter_bytes != PTO_QUEUE_COUNTER_BYTES)
        return q->status = PTO_EINVAL;
    memset(&input, 0, sizeof(input));
    memset(&output, 0, sizeof(output));
    input.arena_bytes = own[2];
    output.arena_bytes = own[3];
    output.slots = own[1] * PTO_QUEUE_SLOT_BYTES;
    input.arena = 2 * output.slots;
    output.arena = input.arena + input.arena_bytes;
    input.tail_at = 0;
    input.head_at = 64;
    output.tail_at = 128;
    output.head_at = 192;
    q->depth = own[1];
    q->is_chip = is_chip;
    q->in = is_chip ? input : output;
    q->out = is_chip ? output : input;
    q->own_end_at = is_chip ? 320 : 256;
    q->other_end_at = is_chip ? 256 : 320;
    pto_lines_fetch((const void *)(uintptr_t)q->region.payload, input.arena); /* slots */
    return PTO_OK;
}

/* Gives up: the other end is told. The status, which is negative, is what later calls return. */
static inline int pto_queue_abort(struct pto_queue *q, int status)
{
    if (q->status == 0) {
        q->status = status < 0 ? status : PTO_ECANCELED;
        (void)pto_region_notify(&q->region, q->own_end_at, PTO_SIGNAL_SET, 1);
    }
    return q->status;
}

/* Says whether the other end has given up. */
static inline bool pto_queue_is_aborted(const struct pto_queue *q)
{
    return pto_region_value(pto_region_counter(&q->region, q->other_end_at)) != 0;
}

/* The whole number of which a counter has the low half. False: it cannot be. */
static inline bool pto_queue_refresh(const struct pto_queue *q, uint32_t at, uint64_t *number)
{
    uint32_t low = (uint32_t)pto_region_value(pto_region_counter(&q->region, at));
    uint32_t ahead = low - (uint32_t)*number;

    if (ahead > q->depth)
        return false;
    *number += ahead;
    return true;
}

/* Where a message of so many bytes begins in an arena, and where the next one may. */
static inline uint64_t pto_queue_place(const struct pto_queue_way *w, uint64_t from, uint64_t bytes,
                                       uint64_t *next_out)
{
    uint64_t at = from % w->arena_bytes;

    if (at + bytes > w->arena_bytes) {
        from += w->arena_bytes - at;
        at = 0;
    }
    *next_out = from + bytes;
    return w->arena + at;
}

/* The slot of a message, by how many came before it. */
static inline uint64_t *pto_queue_slot(const struct pto_queue *q, const struct pto_queue_way *w,
                                       uint64_t number)
{
    return (uint64_t *)pto_region_payload(
        &q->region, w->slots + (number & (q->depth - 1)) * PTO_QUEUE_SLOT_BYTES,
        PTO_QUEUE_SLOT_BYTES);
}

/*
 * Makes room for a message, to be filled and sent by pto_queue_publish; one at a time. PTO_EAGAIN: there
 * is none now. PTO_EINVAL: more bytes than the arena has, or a STOP was sent.
 */
static inline int pto_queue_reserve(struct pto_queue *q, uint64_t bytes, struct pto_message *out)
{
    struct pto_queue_way *w = &q->out;
    uint64_t head = w->head, next = w->bytes_tail;

    if (q->status < 0)
        return q->status;
    if (bytes > w->arena_bytes || w->is_stopped || w->is_reserved)
        return PTO_EINVAL;
    if (!pto_queue_refresh(q, w->head_at, &head) || head > w->tail)
        return pto_queue_abort(q, PTO_EFORMAT);
    for (; w->head < head; w->head++) { /* our own slots, but in memory that the other end has */
        const uint64_t *slot = pto_queue_slot(q, w, w->head);

        if (slot[3] > w->arena_bytes)
            return pto_queue_abort(q, PTO_EFORMAT);
        if (slot[3] != 0)
            (void)pto_queue_place(w, w->bytes_head, slot[3], &w->bytes_head);
        if (w->bytes_head > w->bytes_tail)
            return pto_queue_abort(q, PTO_EFORMAT);
    }
    out->offset = bytes != 0 ? pto_queue_place(w, w->bytes_tail, bytes, &next) : 0;
    if (w->tail - w->head >= q->depth ||
        (w->tail != w->head &&
         next - w->bytes_head > w->arena_bytes)) /* all of an empty one is free */
        return PTO_EAGAIN;
    out->number = w->tail + 1;
    out->kind = PTO_MESSAGE_DATA;
    out->data = bytes != 0 ? pto_region_payload(&q->region, out->offset, bytes) : NULL;
    if (bytes != 0)
        pto_lines_fetch(out->data, bytes); /* a core may have written to their first line */
    out->bytes = bytes;
    w->is_reserved = true;
    return PTO_OK;
}

/* Sends what was reserved, as this kind. A STOP has no bytes and is the last; only the host sends one. */
static inline int pto_queue_publish(struct pto_queue *q, const struct pto_message *m,
                                    enum pto_message_kind kind)
{
    struct pto_queue_way *w = &q->out;
    uint64_t *slot;

    if (q->status < 0)
        return q->status;
    if (!w->is_reserved || m->number != w->tail + 1 || kind < PTO_MESSAGE_DATA ||
        kind > PTO_MESSAGE_ERROR || (kind == PTO_MESSAGE_STOP && (q->is_chip || m->bytes != 0)))
        return PTO_EINVAL;
    slot = pto_queue_slot(q, w, w->tail);
    slot[0] = m->number;
    slot[1] = kind;
    slot[2] = m->offset;
    slot[3] = m->bytes;
    pto_lines_publish(slot, PTO_QUEUE_SLOT_BYTES);
    if (m->bytes != 0)
        pto_lines_publish(m->data, m->bytes);
    if (m->bytes != 0)
        (void)pto_queue_place(w, w->bytes_tail, m->bytes, &w->bytes_tail);
    w->tail++;
    w->is_reserved = false;
    w->is_stopped = kind == PTO_MESSAGE_STOP;
    return pto_region_notify(&q->region, w->tail_at, PTO_SIGNAL_SET, (int32_t)(uint32_t)w->tail);
}

/* Whether a slot can be right: then *next_out is where the arena is taken up to. */
static inline bool pto_queue_is_message(const struct pto_queue *q, const struct pto_message *m,
                                        uint64_t *next_out)
{
    const struct pto_queue_way *w = &q->in;

    *next_out = w->bytes_taken;
    if (m->number != w->taken + 1 || m->kind < PTO_MESSAGE_DATA || m->kind > PTO_MESSAGE_ERROR ||
        m->bytes > w->arena_bytes || w->is_stopped ||
        (m->kind == PTO_MESSAGE_STOP && (m->bytes != 0 || !q->is_chip)))
        return false;
    if (m->bytes == 0)
        return m->offset == 0;
    return pto_queue_place(w, w->bytes_taken, m->bytes, next_out) == m->offset;
}

/*
 * Receives the next message. Its data stay until it is released; up to 64 may be in use. PTO_EAGAIN: there
 * is none. PTO_EPEER: the other end has given up. PTO_EFORMAT: what is there is no message.
 */
static inline int pto_queue_peek(struct pto_queue *q, struct pto_message *out)
{
    struct pto_queue_way *w = &q->in;
    bool is_aborted = pto_queue_is_aborted(q); /* what it sent before is there */
    const uint64_t *slot;
    uint64_t next;

    if (q->status < 0)
        return q->status;
    if (!pto_queue_refresh(q, w->tail_at, &w->tail) || w->tail - w->head > q->depth)
        return pto_queue_abort(q, PTO_EFORMAT);
    if (w->taken == w->tail || w->taken - w->head >= PTO_QUEUE_ACTIVE_MAX)
        return w->taken == w->tail && is_aborted ? PTO_EPEER : PTO_EAGAIN;
    slot = pto_queue_slot(q, w, w->taken);
    pto_lines_fetch(slot, PTO_QUEUE_SLOT_BYTES);
    out->number = slot[0];
    out->kind = slot[1];
    out->offset = slot[2];
    out->bytes = slot[3];
    if (!pto_queue_is_message(q, out, &next))
        return pto_queue_abort(q, PTO_EFORMAT);
    out->data = out->bytes != 0 ? pto_region_payload(&q->region, out->offset, out->bytes) : NULL;
    if (out->bytes != 0)
        pto_lines_fetch(out->data, out->bytes);
    w->bytes_taken = next;
    w->taken++;
    w->is_stopped = out->kind == PTO_MESSAGE_STOP;
    return PTO_OK;
}

/* Gives a message back, in any order. PTO_EINVAL: it was not received, or was released before. */
static inline int pto_queue_release(struct pto_queue *q, const struct pto_message *m)
{
    struct pto_queue_way *w = &q->in;
    uint64_t bit = m->number - 1 - w->head;

    if (q->status < 0)
        return q->status;
    if (m->number == 0 || bit >= w->taken - w->head || (w->done >> bit & 1) != 0)
        return PTO_EINVAL;
    w->done |= 1ull << bit;
    if ((w->done & 1) == 0)
        return PTO_OK; /* those before it are still in use */
    for (; (w->done & 1) != 0; w->done >>= 1)
        w->head++;
    return pto_region_notify(&q->region, w->head_at, PTO_SIGNAL_SET, (int32_t)(uint32_t)w->head);
}

/* Says whether a STOP and all before it were received and released. */
static inline bool pto_queue_is_drained(const struct pto_queue *q)
{
    return q->in.is_stopped && q->in.head == q->in.taken;
}

#ifndef PTO_ON_CORE

/* Nothing came of it: whether to try again. PTO_OK: it is to be tried. */
static inline int pto_queue_idle(struct pto_orch *o, int tried, bool is_over, uint64_t begin_ns,
                                 uint64_t timeout_ns)
{
    int status;

    if (tried != PTO_EAGAIN)
        return tried;
    if (is_over)
        return PTO_EPEER;
    status = pto_orch_listen(o);
    if (status < 0)
        return status;
    return pto_region_now_ns() - begin_ns >= timeout_ns ? PTO_ETIMEOUT : PTO_OK;
}

/* Receives, and waits; orchestrations only. PTO_ETIMEOUT: the queue goes on. PTO_EPEER: the host has gone. */
static inline int pto_queue_receive(struct pto_orch *o, struct pto_queue *q, uint64_t timeout_ns,
                                    struct pto_message *out)
{
    uint64_t begin_ns = pto_region_now_ns();

    for (;;) {
        bool is_over = pto_region_is_closed(&q->region);
        int status = pto_queue_peek(q, out);

        if (status >= 0)
            return status;
        status = pto_queue_idle(o, status, is_over, begin_ns, timeout_ns);
        if (status < 0)
            return status;
    }
}

/* Makes room, and waits for it; orchestrations only. */
static inline int pto_queue_await_room(struct pto_orch *o, struct pto_queue *q, uint64_t bytes,
                                       uint64_t timeout_ns, struct pto_message *out)
{
    uint64_t begin_ns = pto_region_now_ns();

    for (;;) {
        bool is_over = pto_region_is_closed(&q->region) || pto_queue_is_aborted(q);
        int status = is_over ? PTO_EPEER : pto_queue_reserve(q, bytes, out);

        if (status >= 0)
            return status;
        status = pto_queue_idle(o, status, is_over, begin_ns, timeout_ns);
        if (status < 0)
            return status;
    }
}

/* Sends a copy of the bytes, and waits for room; orchestrations only. */
static inline int pto_queue_send(struct pto_orch *o, struct pto_queue *q,
                                 enum pto_message_kind kind, const void *from, uint64_t bytes,
                                 uint64_t timeout_ns)
{
    struct pto_message m;
    int status = pto_queue_await_room(o, q, bytes, timeout_ns, &m);

    if (status < 0)
        return status;
    if (bytes != 0)
        memcpy(m.data, from, bytes);
    return pto_queue_publish(q, &m, kind);
}

#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions: memory through which the host and a task on a chip communicate while the task runs, and
 * message queues in such memory. This header is the chip's side: orchestrations may use all of it,
 * kernels the functions that do not wait. pto/worker_region.h is the host's side.
 *
 *     region    six scalars of the task: payload, and 32-bit counters next to it
 *     queue     twelve: the region, and how it is divided
 *
 * The layout is the reference's, so code for the reference can be on either side:
 *
 *     payload   slots of the input | slots of the output | arena of the input | of the output
 *     counters  at 0 and 64 tail and head of the input, at 128 and 192 of the output, at 256
 *               and 320 the host and the chip have aborted
 *
 * Input messages are sent by the host. A slot has 32 bytes: number from 1 on, kind, offset of the
 * bytes in the payload, their count. Messages are adjacent in the arena; a message that does not
 * fit before the end of the arena starts at its beginning. Tails and heads count messages, and
 * counters hold their low halves; room is reclaimed in the order of the messages, in whatever order
 * they are released. A counter has one writer. Data that was written before a counter is visible to
 * a reader that has seen the counter's new value.
 *
 * Data from the other side is validated: one invalid message aborts the queue.
 *
 * On a card (PTO_ON_CARD) regions are memory of the card, whose caches do not see what the host
 * copies there. The functions of this header therefore fetch what they read and publish what they
 * write. An orchestration that accesses the payload of a region directly calls pto_region_fetch and
 * pto_region_publish; the functions of queues do so for the bytes of their messages.
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
    /* Distance in bytes of counters with different writers; sizes of arenas are multiples of it. */
    PTO_REGION_LINE = 64,
    PTO_QUEUE_SLOT_BYTES = 32,
    PTO_QUEUE_COUNTER_BYTES = 384,
    /* Maximum number of messages that an end has received and not yet released. */
    PTO_QUEUE_ACTIVE_MAX = 64
};
#define PTO_REGION_MAGIC (0x4C334C32ull << 32 | 3ull << 16)
#define PTO_QUEUE_MAGIC (0x4C335132ull << 32 | 1ull << 16 | 1)
#define PTO_QUEUE_DEPTH_MAX (1ull << 30)

/*
 * Bit k is set if scalar k of a region is an address: scalars 1 (id), 2 (payload) and 4 (counters).
 */
#define PTO_REGION_ADDRESSES 0x16u

/* A region, as six scalars in this order. */
struct pto_region {
    uint64_t magic; /* PTO_REGION_MAGIC, except for its lowest 16 bits */
    uint64_t id;    /* identifies the region; not 0 */
    uint64_t payload;
    uint64_t payload_bytes;
    uint64_t counters; /* address of the counters, a multiple of 64 */
    uint64_t counter_bytes;
};

/*
 * The head of a region that this runtime has made. It precedes the counters in memory, and its
 * address is the id of the region. It shows the task how to wake the host, and whether the host has
 * closed the region. Other regions have no head; the host then polls.
 */
struct pto_region_head {
    uint64_t calls; /* address of a uint32_t that each wake increments; 0: the host polls */
    uint64_t waker; /* address of the waker on which the host sleeps, for pto_wake */
    /* 1: the host has closed the region, so it neither waits nor sends any more */
    uint32_t is_closed;
    uint32_t reserved[11];
};

/* ---- regions ---- */

/* Initialises a region from the scalars of a task. PTO_EINVAL: they are not those of a region. */
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
    /* Invalidates cache lines that may be left from an earlier region at these addresses. */
    pto_lines_fetch((const void *)(uintptr_t)r->counters, r->counter_bytes);
    return PTO_OK;
}

/* Returns the head of a region; NULL: the region has none. */
static inline struct pto_region_head *pto_region_head_of(const struct pto_region *r)
{
    return r->id == r->counters - sizeof(struct pto_region_head)
               ? (struct pto_region_head *)(uintptr_t)r->id
               : NULL;
}

/* Returns the address of a range of the payload; NULL: the payload does not contain all of it. */
static inline void *pto_region_payload(const struct pto_region *r, uint64_t offset, uint64_t bytes)
{
    return offset <= r->payload_bytes && bytes <= r->payload_bytes - offset
               ? (void *)(uintptr_t)(r->payload + offset)
               : NULL;
}

/* Returns the counter at an offset; NULL: there is none. */
static inline int32_t *pto_region_counter(const struct pto_region *r, uint64_t offset)
{
    return offset % 4 == 0 && offset < r->counter_bytes
               ? (int32_t *)(uintptr_t)(r->counters + offset)
               : NULL;
}

/*
 * Returns the value of a counter, which must exist. Data that its writer wrote before is visible,
 * on a card after pto_region_fetch.
 */
static inline int32_t pto_region_value(const int32_t *counter)
{
    pto_lines_fetch(counter, sizeof(*counter));
    return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

/*
 * Prepares a range of the payload for an orchestration, which calls this before it reads the range,
 * after a wait, and before it first writes to a cache line of the range. Has no effect except on
 * cards.
 */
static inline void pto_region_fetch(const struct pto_region *r, uint64_t offset, uint64_t bytes)
{
    const void *at = pto_region_payload(r, offset, bytes);

    if (at != NULL)
        pto_lines_fetch(at, bytes);
}

/*
 * Makes a range of the payload that an orchestration wrote visible to the host; called before the
 * host is notified. Has no effect except on cards.
 */
static inline void pto_region_publish(const struct pto_region *r, uint64_t offset, uint64_t bytes)
{
    const void *at = pto_region_payload(r, offset, bytes);

    if (at != NULL)
        pto_lines_publish(at, bytes);
}

/* Wakes the host, after a store to a counter for which it may wait. */
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

/* Sets a counter, or adds to it, as its only writer. PTO_EINVAL: there is no such counter. */
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

/* Returns whether the host has closed the region. */
static inline bool pto_region_is_closed(const struct pto_region *r)
{
    const struct pto_region_head *head = pto_region_head_of(r);

    if (head == NULL)
        return false;
    pto_lines_fetch(head, sizeof(*head));
    return __atomic_load_n(&head->is_closed, __ATOMIC_ACQUIRE) != 0;
}

#ifndef PTO_ON_CORE

/* Returns the current time in ns, by the clock of the deadlines of waits. */
static inline uint64_t pto_region_now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/*
 * Waits until a counter meets a condition; tasks of the run continue. For orchestrations only.
 * *observed_out, which may be NULL, gets the last value. PTO_ETIMEOUT; PTO_EPEER: the host has
 * closed the region; or the error of the run.
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
        /*
         * Load this before the counter, so that the last writes of the host before it closed are
         * seen.
         */
        bool is_closed = pto_region_is_closed(r);
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

/* The kind of a message. */
enum pto_message_kind { PTO_MESSAGE_DATA = 1, PTO_MESSAGE_STOP = 2, PTO_MESSAGE_ERROR = 3 };

/* A received message, or room for a message to send. */
struct pto_message {
    uint64_t number; /* number of the message in its direction, from 1 on */
    uint64_t kind;   /* enum pto_message_kind */
    void *data;      /* the bytes of the message in the payload; NULL: it has none */
    uint64_t bytes;
    uint64_t offset; /* offset of the data in the payload */
};

/* One direction of a queue, as seen from one of its ends. */
struct pto_queue_way {
    uint64_t slots; /* offset of the slots in the payload */
    uint64_t arena; /* offset of the arena (the bytes of messages) in the payload */
    uint64_t arena_bytes;
    /* tail: number of messages that were sent; head: number of messages whose room was reclaimed */
    uint64_t tail, head;
    uint64_t taken; /* number of messages that the receiver has received */
    uint64_t done;  /* bit k: message number head + k was received and released */
    /*
     * Bytes of the arena up to the messages that `tail`, `head` and `taken` count; these counts
     * never wrap.
     */
    uint64_t bytes_tail, bytes_head, bytes_taken;
    uint32_t tail_at, head_at; /* offsets of the counters that publish tail and head */
    bool is_stopped;           /* a STOP message, which is the last one, was sent or received */
    bool is_reserved;
};

/* One end of a queue. */
struct pto_queue {
    struct pto_region region;
    uint64_t depth;
    /* the direction in which this end receives, and that in which it sends */
    struct pto_queue_way in, out;
    uint32_t own_end_at, other_end_at;
    bool is_chip;
    int status; /* 0, or the error that has ended the queue */
};

/*
 * Returns the size of a payload for a queue with these parameters; 0: the parameters are invalid.
 */
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

/*
 * Initialises one end of a queue, the chip's or the host's, from the scalars of a task. PTO_EINVAL:
 * the scalars are not those of a queue.
 */
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
    /* fetches the slots of both directions */
    pto_lines_fetch((const void *)(uintptr_t)q->region.payload, input.arena);
    return PTO_OK;
}

/*
 * Aborts the queue and notifies the other end. `status`, which is negative, is returned by later
 * calls.
 */
static inline int pto_queue_abort(struct pto_queue *q, int status)
{
    if (q->status == 0) {
        q->status = status < 0 ? status : PTO_ECANCELED;
        (void)pto_region_notify(&q->region, q->own_end_at, PTO_SIGNAL_SET, 1);
    }
    return q->status;
}

/* Returns whether the other end has aborted. */
static inline bool pto_queue_is_aborted(const struct pto_queue *q)
{
    return pto_region_value(pto_region_counter(&q->region, q->other_end_at)) != 0;
}

/*
 * Computes a 64-bit count from its low half, which a counter holds. Returns false if no valid count
 * has this low half.
 */
static inline bool pto_queue_refresh(const struct pto_queue *q, uint32_t at, uint64_t *number)
{
    uint32_t low = (uint32_t)pto_region_value(pto_region_counter(&q->region, at));
    uint32_t ahead = low - (uint32_t)*number;

    if (ahead > q->depth)
        return false;
    *number += ahead;
    return true;
}

/*
 * Returns the offset in the payload of a message of this size; *next_out becomes the position of
 * the next message in the arena.
 */
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

/* Returns the slot of a message; `number` is the number of the message, minus 1. */
static inline uint64_t *pto_queue_slot(const struct pto_queue *q, const struct pto_queue_way *w,
                                       uint64_t number)
{
    return (uint64_t *)pto_region_payload(
        &q->region, w->slots + (number & (q->depth - 1)) * PTO_QUEUE_SLOT_BYTES,
        PTO_QUEUE_SLOT_BYTES);
}

/*
 * Reserves room for one message, which the caller fills in and sends with pto_queue_publish.
 * PTO_EAGAIN: there is no room now. PTO_EINVAL: the arena is smaller than the message, a STOP was
 * sent, or room is already reserved.
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
    /*
     * This end wrote the slots, but the other end can write to them as well, so their content is
     * not trusted.
     */
    for (; w->head < head; w->head++) {
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
        /* an empty arena has room for any message */
        (w->tail != w->head && next - w->bytes_head > w->arena_bytes))
        return PTO_EAGAIN;
    out->number = w->tail + 1;
    out->kind = PTO_MESSAGE_DATA;
    out->data = bytes != 0 ? pto_region_payload(&q->region, out->offset, bytes) : NULL;
    if (bytes != 0)
        /* another processor may have written to the first cache line, so fetch it */
        pto_lines_fetch(out->data, bytes);
    out->bytes = bytes;
    w->is_reserved = true;
    return PTO_OK;
}

/*
 * Sends the reserved message with a kind. A STOP message has no bytes and is the last one; only the
 * host sends it.
 */
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

/*
 * Returns whether a received slot is plausible; *next_out becomes the end of its bytes in the
 * arena.
 */
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
 * Receives the next message. Its data stay valid until the message is released; up to 64 messages
 * may be received and not released. PTO_EAGAIN: there is none. PTO_EPEER: the other end has
 * aborted. PTO_EFORMAT: the next message is invalid.
 */
static inline int pto_queue_peek(struct pto_queue *q, struct pto_message *out)
{
    struct pto_queue_way *w = &q->in;
    /* Load this before the tail, so that messages that were sent before the abort are seen. */
    bool is_aborted = pto_queue_is_aborted(q);
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

/* Releases a message, in any order. PTO_EINVAL: it was not received, or was already released. */
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
        return PTO_OK; /* an earlier message is still in use, so the room is reclaimed later */
    for (; (w->done & 1) != 0; w->done >>= 1)
        w->head++;
    return pto_region_notify(&q->region, w->head_at, PTO_SIGNAL_SET, (int32_t)(uint32_t)w->head);
}

/* Returns whether a STOP message, and all messages before it, were received and released. */
static inline bool pto_queue_is_drained(const struct pto_queue *q)
{
    return q->in.is_stopped && q->in.head == q->in.taken;
}

#ifndef PTO_ON_CORE

/*
 * Called when an attempt failed for lack of a message or of room: lets the run make progress.
 * PTO_OK: the caller tries again.
 */
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

/*
 * Receives a message; waits for it if there is none. For orchestrations only. PTO_ETIMEOUT: the
 * queue stays usable. PTO_EPEER: the host has closed the queue.
 */
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

/* Reserves room for a message; waits for room if there is none. For orchestrations only. */
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

/*
 * Sends a copy of the bytes as a message; waits for room if there is none. For orchestrations only.
 */
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

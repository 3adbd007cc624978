/* SPDX-License-Identifier: Apache-2.0 */
#include "link/payload.h"

#include <stdlib.h>
#include <string.h>

#include "pto/status.h"

/* ---- the bytes of a message ---- */

void payload_clear(struct payload *p)
{
    p->size = p->next = 0;
    p->is_short = false;
}

void payload_free(struct payload *p)
{
    free(p->at);
    *p = (struct payload){ 0 };
}

static size_t payload_round_up(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

static bool payload_reserve(struct payload *p, size_t bytes)
{
    size_t capacity = p->capacity != 0 ? p->capacity : 4096;
    char *at;

    while (capacity < bytes)
        capacity *= 2;
    if (capacity == p->capacity)
        return true;
    at = realloc(p->at, capacity);
    if (at == NULL) {
        p->is_short = true;
        return false;
    }
    p->at = at;
    p->capacity = capacity;
    return true;
}

void payload_put(struct payload *p, const void *from, size_t bytes)
{
    size_t whole = payload_round_up(bytes);

    if (p->is_short || !payload_reserve(p, p->size + whole))
        return;
    if (bytes != 0)
        memcpy(p->at + p->size, from, bytes);
    memset(p->at + p->size + bytes, 0, whole - bytes);
    p->size += whole;
}

void payload_put_text(struct payload *p, const char *text)
{
    uint64_t length = text != NULL ? strlen(text) + 1 : 0;

    payload_put(p, &length, sizeof(length));
    payload_put(p, text, length);
}

const void *payload_take(struct payload *p, size_t bytes)
{
    const char *at = p->at + p->next;

    if (p->is_short || bytes > p->size - p->next || payload_round_up(bytes) > p->size - p->next) {
        p->is_short = true;
        return NULL;
    }
    p->next += payload_round_up(bytes);
    return at;
}

void payload_take_to(struct payload *p, void *to, size_t bytes)
{
    const void *from = payload_take(p, bytes);

    if (from != NULL)
        memcpy(to, from, bytes);
    else
        memset(to, 0, bytes);
}

const char *payload_take_text(struct payload *p)
{
    uint64_t length;
    const char *text;

    payload_take_to(p, &length, sizeof(length));
    text = length != 0 ? payload_take(p, length) : NULL;
    return text != NULL && text[length - 1] == '\0' ? text : NULL;
}

/* ---- waiting for room or records ---- */

bool payload_is_due(struct line *l, bool for_room)
{
    return for_room ? channel_has_room(&l->out, RECORD_BODY_MAX) || l->out.is_broken
                    : !channel_is_empty(&l->in);
}

struct payload_holds {
    struct line *line;
    bool for_room;
};

static bool payload_holds(void *context)
{
    const struct payload_holds *h = context;

    return payload_is_due(h->line, h->for_room);
}

int payload_await(void *policy, struct line *l, bool for_room)
{
    struct payload_holds h = { l, for_room };

    return waker_await(l->own, &(struct waker_wait){ .holds = payload_holds,
                                                     .context = &h,
                                                     .policy = *(struct spin_policy *)policy,
                                                     .deadline_ns = UINT64_MAX });
}

/* ---- sending and receiving messages ---- */

int payload_send(struct line *l, struct record_head head, const struct payload *p,
                 const struct payload_wait *wait)
{
    uint64_t size = p != NULL ? p->size : 0, sent = 0;

    head.message_bytes = size;
    for (;;) {
        uint64_t left = size - sent;
        struct record_part part = { p != NULL ? p->at + sent : NULL,
                                    left < RECORD_BODY_MAX ? (uint32_t)left : RECORD_BODY_MAX };
        int status;

        if (channel_write(&l->out, &head, &part, 1)) {
            sent += part.size;
            if (sent == size)
                break;
            continue;
        }
        waker_wake(l->other); /* wakes the other process, which then reads records and frees room */
        status = l->out.is_broken ? PTO_EFORMAT : wait->await(wait->context, l, true);
        if (status < 0)
            return status;
    }
    waker_wake(l->other);
    return PTO_OK;
}

/*
 * Whether a record `next` belongs to the same message as `head`, the head of its first record; true
 * for the first record itself.
 */
static bool payload_goes_on(const struct record_head *head, const struct payload *p,
                            const struct record_head *next)
{
    return next->kind == head->kind && next->key == head->key &&
           next->message_bytes == head->message_bytes && next->message_bytes <= PAYLOAD_BYTES_MAX &&
           next->body_bytes <= next->message_bytes - p->size &&
           (next->body_bytes != 0 || next->message_bytes == 0);
}

int payload_receive(struct line *l, struct record_head *head, struct payload *p,
                    const struct payload_wait *wait)
{
    struct record r;
    bool is_first = true;

    payload_clear(p);
    while (is_first || p->size < head->message_bytes) {
        enum channel_result result = line_receive(l, &r);
        int status = result == CHANNEL_EMPTY    ? wait->await(wait->context, l, false)
                     : result == CHANNEL_BROKEN ? PTO_EFORMAT
                                                : PTO_OK;

        if (status < 0)
            return status;
        if (result == CHANNEL_EMPTY)
            continue;
        if (is_first)
            *head = r.head;
        is_first = false;
        if (!payload_goes_on(head, p, &r.head))
            return PTO_EFORMAT;
        if (!payload_reserve(p, p->size + r.head.body_bytes))
            return PTO_ENOMEM;
        memcpy(p->at + p->size, r.body, r.head.body_bytes);
        p->size += r.head.body_bytes;
        if (p->size < head->message_bytes)
            waker_wake(l->other); /* wakes the writer, which may wait for the freed room */
    }
    return PTO_OK;
}

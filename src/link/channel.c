/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of records between processes: src/link/channel.h. */
#include "link/channel.h"

#include <string.h>

static_assert((CHANNEL_BYTES & (CHANNEL_BYTES - 1)) == 0, "positions are masked");
static_assert(RECORD_BYTES_MAX <= CHANNEL_BYTES / 4,
              "the stream must have room for a pad and a record");

static uint32_t record_bytes(uint32_t body_bytes)
{
    return CHANNEL_UNIT + (body_bytes + CHANNEL_UNIT - 1) / CHANNEL_UNIT * CHANNEL_UNIT;
}

static unsigned char *channel_at(const struct channel *c, uint64_t position)
{
    return c->stream->bytes + (position & (CHANNEL_BYTES - 1));
}

/* Returns the bytes up to the end of the stream's memory, which a record cannot cross. */
static uint32_t until_end(uint64_t position)
{
    return CHANNEL_BYTES - (uint32_t)(position & (CHANNEL_BYTES - 1));
}

void channel_init(struct channel *c, struct stream *stream, uint32_t generation, uint32_t kinds)
{
    *c = (struct channel){ .stream = stream, .generation = generation, .kinds = kinds };
}

/* ---- writing ---- */

bool channel_has_room(struct channel *c, uint32_t body_bytes)
{
    uint32_t bytes = record_bytes(body_bytes);
    uint32_t rest = until_end(c->position);
    uint64_t need = bytes <= rest ? bytes : (uint64_t)rest + bytes;

    if (CHANNEL_BYTES - (c->position - c->other) < need) {
        uint64_t head = a64_load_acquire(&c->stream->head); /* A42: load of the reader's position */

        if (head < c->other || head > c->position)
            /* the reader has published a position that it cannot have reached */
            c->is_broken = true;
        else
            c->other = head;
    }
    return !c->is_broken && CHANNEL_BYTES - (c->position - c->other) >= need;
}

static void channel_put_head(struct channel *c, const struct record_head *head)
{
    memcpy(channel_at(c, c->position), head, sizeof(*head));
}

bool channel_write(struct channel *c, const struct record_head *head,
                   const struct record_part *parts, uint32_t count)
{
    struct record_head whole = *head;
    unsigned char *body;

    whole.body_bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        whole.body_bytes += parts[i].size;
    assert(whole.body_bytes <= RECORD_BODY_MAX);
    if (!channel_has_room(c, whole.body_bytes))
        return false;
    whole.bytes = record_bytes(whole.body_bytes);
    whole.generation = c->generation;
    if (whole.bytes > until_end(c->position)) {
        struct record_head pad = { .bytes = until_end(c->position),
                                   .kind = RECORD_PAD,
                                   .number = ++c->number,
                                   .generation = c->generation };

        channel_put_head(c, &pad);
        c->position += pad.bytes;
    }
    whole.number = ++c->number;
    c->last = c->position;
    channel_put_head(c, &whole);
    body = channel_at(c, c->position) + sizeof(whole);
    for (uint32_t i = 0; i < count; i++) {
        if (parts[i].size != 0)
            memcpy(body, parts[i].bytes, parts[i].size);
        body += parts[i].size;
    }
    c->position += whole.bytes;
    a64_store_release(&c->stream->tail, c->position); /* R41: publish the record */
    return true;
}

static struct a32 *channel_claim_at(const struct channel *c, uint64_t position)
{
    return (struct a32 *)(void *)(channel_at(c, position) + offsetof(struct record_head, claim));
}

bool channel_take_back(struct channel *c, uint64_t position)
{
    uint32_t claim = CLAIM_OPEN;

    /* The reader has passed records before `other`, and their room may have been reused. */
    return position >= c->other &&
           a32_cas_acq_rel(channel_claim_at(c, position), &claim, CLAIM_WRITER);
}

/* ---- reading ---- */

/*
 * Checks the copied head of a record: whether it can be the next one in the stream, if the writer's
 * position is `written` bytes after the reader's.
 */
static bool channel_is_sound(const struct channel *c, const struct record_head *head,
                             uint64_t written)
{
    if (head->bytes < CHANNEL_UNIT || head->bytes % CHANNEL_UNIT != 0 || head->bytes > written ||
        /* mutation: channel-any-number */
        head->bytes > until_end(c->position) || head->number != c->number + 1 ||
        head->generation != c->generation || head->kind >= c->kinds)
        return false;
    if (head->kind == RECORD_PAD)
        return head->bytes == until_end(c->position);
    return head->body_bytes <= RECORD_BODY_MAX && head->bytes == record_bytes(head->body_bytes);
}

enum channel_result channel_read(struct channel *c, struct record *out)
{
    for (;;) {
        uint64_t tail = a64_load_acquire(&c->stream->tail); /* A41: load of the writer's position */
        uint64_t written = tail - c->position;
        uint32_t claim = CLAIM_OPEN;

        if (written == 0)
            return CHANNEL_EMPTY;
        if (written > CHANNEL_BYTES || written % CHANNEL_UNIT != 0)
            return CHANNEL_BROKEN;
        if (c->has_claims)
            (void)a32_cas_acq_rel(channel_claim_at(c, c->position), &claim, CLAIM_READER);
        memcpy(&out->head, channel_at(c, c->position), sizeof(out->head));
        if (!channel_is_sound(c, &out->head, written) ||
            (claim != CLAIM_OPEN && claim != CLAIM_WRITER))
            return CHANNEL_BROKEN;
        if (out->head.kind != RECORD_PAD)
            memcpy(out->body, channel_at(c, c->position) + sizeof(out->head),
                   out->head.bytes - CHANNEL_UNIT);
        c->number = out->head.number;
        c->position += out->head.bytes;
        a64_store_release(&c->stream->head, c->position); /* R42: the writer may reuse the room */
        c->has_passed = claim != CLAIM_OPEN;
        if (out->head.kind != RECORD_PAD && claim == CLAIM_OPEN)
            return CHANNEL_RECORD;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Frames between a launcher and its agents; launch_channel.h describes the format. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tool/cli/launch_channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"

enum { HEAD_BYTES = 8, READ_BYTES = 64 << 10 };

/* ---- bytes ---- */

/* Makes room for more bytes, if possible in the space of bytes that were already taken. */
static bool channel_reserve(struct bytes *b, size_t size)
{
    size_t used = cli_bytes_size(b), room = b->room;
    char *at;

    if (b->room - b->end >= size)
        return true;
    if (b->begin > 0)
        memmove(b->at, b->at + b->begin, used);
    b->begin = 0;
    b->end = used;
    while (room - used < size)
        room = room == 0 ? 4096 : 2 * room;
    if (room == b->room)
        return true;
    at = realloc(b->at, room);
    if (at == NULL) {
        b->is_lost = true;
        return false;
    }
    b->at = at;
    b->room = room;
    return true;
}

void cli_bytes_add(struct bytes *b, const void *from, size_t size)
{
    if (size == 0 || !channel_reserve(b, size))
        return;
    memcpy(b->at + b->end, from, size);
    b->end += size;
}

void cli_bytes_add_u32(struct bytes *b, uint32_t value)
{
    uint8_t encoded[4];

    for (int i = 0; i < 4; i++)
        encoded[i] = (uint8_t)(value >> 8 * i);
    cli_bytes_add(b, encoded, sizeof(encoded));
}

void cli_bytes_add_u64(struct bytes *b, uint64_t value)
{
    cli_bytes_add_u32(b, (uint32_t)value);
    cli_bytes_add_u32(b, (uint32_t)(value >> 32));
}

/* The final zero byte is sent as well, so that the receiver need not copy the text. */
void cli_bytes_add_text(struct bytes *b, const char *text)
{
    size_t size = strlen(text) + 1;

    cli_bytes_add_u32(b, (uint32_t)size);
    cli_bytes_add(b, text, size);
}

void cli_bytes_free(struct bytes *b)
{
    free(b->at);
    *b = (struct bytes){ .at = NULL };
}

/* ---- reading the content of a frame ---- */

uint32_t cli_reader_u32(struct reader *from)
{
    uint32_t value = 0;

    if (from->is_bad || from->end - from->at < 4) {
        from->is_bad = true;
        return 0;
    }
    for (int i = 0; i < 4; i++)
        value |= (uint32_t)(uint8_t)from->at[i] << 8 * i;
    from->at += 4;
    return value;
}

uint64_t cli_reader_u64(struct reader *from)
{
    uint64_t low = cli_reader_u32(from);

    return low | (uint64_t)cli_reader_u32(from) << 32;
}

const char *cli_reader_text(struct reader *from)
{
    uint32_t size = cli_reader_u32(from);
    const char *text = from->at;

    if (from->is_bad || size == 0 || (size_t)(from->end - from->at) < size ||
        memchr(text, '\0', size) != text + size - 1) {
        from->is_bad = true;
        return "";
    }
    from->at += size;
    return text;
}

/* ---- the channel ---- */

void cli_channel_open(struct channel *c, int in, int out)
{
    *c = (struct channel){ .in = in, .out = out, .heard_ns = os_now_ns() };
    (void)fcntl(in, F_SETFL, O_NONBLOCK);
    (void)fcntl(out, F_SETFL, O_NONBLOCK);
}

void cli_channel_close(struct channel *c)
{
    if (c->in >= 0)
        close(c->in);
    if (c->out >= 0)
        close(c->out);
    c->in = c->out = -1;
    cli_bytes_free(&c->received);
    cli_bytes_free(&c->unsent);
}

bool cli_channel_receive(struct channel *c)
{
    struct bytes *b = &c->received;

    while (c->in >= 0) {
        ssize_t got;

        if (!channel_reserve(b, READ_BYTES))
            return false;
        got = read(c->in, b->at + b->end, READ_BYTES);
        if (got > 0) {
            b->end += (size_t)got;
            c->heard_ns = os_now_ns();
            /* the rest is read later, so that other channels get their turn */
            return true;
        }
        if (got < 0 && errno == EINTR)
            continue;
        return got < 0 && errno == EAGAIN;
    }
    return false;
}

int cli_channel_next(struct channel *c, struct reader *content)
{
    struct bytes *b = &c->received;
    struct reader head = { .at = b->at + b->begin, .end = b->at + b->end };
    uint32_t kind, size;

    if (cli_bytes_size(b) < HEAD_BYTES)
        return 0;
    kind = cli_reader_u32(&head);
    size = cli_reader_u32(&head);
    if (kind == 0 || kind >= CHANNEL_KINDS || size > CHANNEL_FRAME_MAX)
        return -1;
    if (cli_bytes_size(b) < HEAD_BYTES + size)
        return 0;
    *content = (struct reader){ .at = head.at, .end = head.at + size };
    b->begin += HEAD_BYTES + size;
    return (int)kind;
}

void cli_channel_put_raw(struct channel *c, enum channel_kind kind, const void *bytes, size_t size)
{
    if (c->out < 0)
        return;
    cli_bytes_add_u32(&c->unsent, kind);
    cli_bytes_add_u32(&c->unsent, (uint32_t)size);
    cli_bytes_add(&c->unsent, bytes, size);
}

void cli_channel_put(struct channel *c, enum channel_kind kind, const struct bytes *content)
{
    cli_channel_put_raw(c, kind, content->at + content->begin, cli_bytes_size(content));
}

bool cli_channel_send(struct channel *c)
{
    struct bytes *b = &c->unsent;

    if (b->is_lost || c->out < 0)
        return false;
    while (cli_bytes_size(b) > 0) {
        ssize_t put = write(c->out, b->at + b->begin, cli_bytes_size(b));

        if (put > 0)
            b->begin += (size_t)put;
        else if (put < 0 && errno == EAGAIN)
            return true;
        else if (put < 0 && errno != EINTR)
            return false;
    }
    return true;
}

void cli_channel_drain(struct channel *c, int wait_ms)
{
    uint64_t end_ns = os_now_ns() + (uint64_t)wait_ms * 1000000;

    while (cli_channel_send(c) && cli_bytes_size(&c->unsent) > 0 && os_now_ns() < end_ns)
        (void)poll(&(struct pollfd){ .fd = c->out, .events = POLLOUT }, 1, 10);
}

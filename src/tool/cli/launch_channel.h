/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channel between `pto launch` and its agent on another machine: frames over two descriptors,
 * usually the standard input and output of a remote shell. No function blocks, except
 * cli_channel_drain.
 *
 * A frame consists of its kind and the size of its content, both 32-bit little-endian numbers, and
 * the content. Numbers in a content have the same byte order; a text is its size followed by its
 * bytes.
 */
#ifndef PTO_LAUNCH_CHANNEL_H
#define PTO_LAUNCH_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CHANNEL_FRAME_MAX = 1 << 20, /* maximum size of a frame's content */
    CHANNEL_PIECE = 32 << 10,    /* size of a frame with output or input */
    /* with more unsent bytes than this, the sender stops reading output */
    CHANNEL_FULL = 1 << 18,
};

enum channel_kind {
    /* launcher to agent */
    CHANNEL_JOB = 1, /* struct launch_job */
    CHANNEL_START,   /* text: address of the rendezvous. Sent when all agents are ready */
    CHANNEL_INPUT,   /* bytes of rank 0's input; none: its end */
    CHANNEL_SIGNAL,  /* u32: number of the signal to send to the ranks */
    /* u64: present time of the launcher, to which the agent answers with CHANNEL_ANSWER */
    CHANNEL_ASK,
    /* agent to launcher */
    CHANNEL_READY,   /* text: address of the rendezvous if this agent has made it, else "" */
    CHANNEL_REFUSED, /* u32, text: exit code and reason why the agent cannot start its ranks */
    CHANNEL_OUTPUT,  /* u32: 0 stdout, 1 stderr; then whole lines */
    CHANNEL_TAKEN,   /* u32: bytes of input that rank 0 has got */
    CHANNEL_FAILED,  /* struct ranks_result: a rank has failed, while others still run */
    CHANNEL_DONE,    /* struct ranks_result: all processes of the agent's ranks have ended */
    CHANNEL_ANSWER,  /* u64, u64: the time from CHANNEL_ASK, and the present time of the agent */
    CHANNEL_KINDS
};

/* A queue of bytes: appended at the end, taken from the beginning. */
struct bytes {
    char *at;
    size_t begin, end, room;
    bool is_lost; /* memory ran out, so bytes are missing */
};

void cli_bytes_add(struct bytes *b, const void *from, size_t size);
void cli_bytes_add_u32(struct bytes *b, uint32_t value);
void cli_bytes_add_u64(struct bytes *b, uint64_t value);
void cli_bytes_add_text(struct bytes *b, const char *text);
static inline size_t cli_bytes_size(const struct bytes *b)
{
    return b->end - b->begin;
}
void cli_bytes_free(struct bytes *b);

/* Cursor for reading the content of a frame. A read beyond the end sets `is_bad`. */
struct reader {
    const char *at, *end;
    bool is_bad;
};

uint32_t cli_reader_u32(struct reader *from);
uint64_t cli_reader_u64(struct reader *from);
/* Returns a text, which is valid until the frame is freed; "" if the content has no text here. */
const char *cli_reader_text(struct reader *from);

struct channel {
    int in, out; /* non-blocking; -1: closed */
    struct bytes received, unsent;
    uint64_t heard_ns; /* time at which bytes arrived last */
};

void cli_channel_open(struct channel *c, int in, int out);
void cli_channel_close(struct channel *c);

/* Reads the bytes that have arrived. Returns false at the end of the stream, or after an error. */
bool cli_channel_receive(struct channel *c);
/*
 * Takes the next complete frame. Returns its kind; 0: no frame is complete yet; -1: the bytes are
 * not a valid frame. `content` is valid until the next call for this channel.
 */
int cli_channel_next(struct channel *c, struct reader *content);

void cli_channel_put(struct channel *c, enum channel_kind kind, const struct bytes *content);
void cli_channel_put_raw(struct channel *c, enum channel_kind kind, const void *bytes, size_t size);
/*
 * Sends as many bytes as possible without blocking. Returns false if the other side has closed the
 * channel.
 */
bool cli_channel_send(struct channel *c);
/* Blocks until all bytes are sent, at most `wait_ms`. */
void cli_channel_drain(struct channel *c, int wait_ms);

#endif

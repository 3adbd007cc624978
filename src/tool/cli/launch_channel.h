/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channel between `pto launch` and its agent on another machine: frames over two descriptors,
 * usually the standard input and output of a remote shell. Nothing here waits, except
 * cli_channel_drain.
 *
 * A frame is its kind and the size of its content, both as 32 bits in little-endian order, and the
 * content. Numbers in a content are encoded in the same way, texts as their size and their bytes.
 */
#ifndef PTO_LAUNCH_CHANNEL_H
#define PTO_LAUNCH_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CHANNEL_FRAME_MAX = 1 << 20, /* maximum size of a frame's content */
    CHANNEL_PIECE = 32 << 10,    /* size of a frame with output or input */
    CHANNEL_FULL = 1 << 18,      /* with more bytes to send, the sender reads no more output */
};

enum channel_kind {
    /* launcher to agent */
    CHANNEL_JOB = 1, /* struct launch_job */
    CHANNEL_START,   /* text: place of the rendezvous; all agents are ready */
    CHANNEL_INPUT,   /* bytes of rank 0's input; none: its end */
    CHANNEL_SIGNAL,  /* u32: signal for the ranks */
    CHANNEL_ASK,     /* u64: time of the launcher; the agent answers it */
    /* agent to launcher */
    CHANNEL_READY,   /* text: place of the rendezvous, if this agent has made it */
    CHANNEL_REFUSED, /* u32, text: exit code and reason; the agent cannot start its ranks */
    CHANNEL_OUTPUT,  /* u32: 0 stdout, 1 stderr; then whole lines */
    CHANNEL_TAKEN,   /* u32: bytes of input that rank 0 has got */
    CHANNEL_FAILED,  /* struct ranks_result: a rank failed; others are still there */
    CHANNEL_DONE,    /* struct ranks_result: no process of a rank is left */
    CHANNEL_ANSWER,  /* u64, u64: the time of ASK, and the time of the agent */
    CHANNEL_KINDS
};

/* Bytes that grow at the end and are taken from the beginning. */
struct bytes {
    char *at;
    size_t begin, end, room;
    bool is_lost; /* out of memory: the content is incomplete */
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

/* A received content, which is read from its beginning. A read beyond its end sets `is_bad`. */
struct reader {
    const char *at, *end;
    bool is_bad;
};

uint32_t cli_reader_u32(struct reader *from);
uint64_t cli_reader_u64(struct reader *from);
/* Returns a text, which is valid as long as the frame; "" if there is none. */
const char *cli_reader_text(struct reader *from);

struct channel {
    int in, out; /* non-blocking; -1: closed */
    struct bytes received, unsent;
    uint64_t heard_ns; /* time at which bytes arrived last */
};

void cli_channel_open(struct channel *c, int in, int out);
void cli_channel_close(struct channel *c);

/* Reads what has arrived. Returns false at the end of the stream, or if it is broken. */
bool cli_channel_receive(struct channel *c);
/*
 * Takes the next complete frame. Returns its kind; 0: there is none yet; -1: the bytes are no
 * frame. `content` is valid until the next call for this channel.
 */
int cli_channel_next(struct channel *c, struct reader *content);

void cli_channel_put(struct channel *c, enum channel_kind kind, const struct bytes *content);
void cli_channel_put_raw(struct channel *c, enum channel_kind kind, const void *bytes, size_t size);
/* Sends as much as can be sent now. Returns false if the other side is gone. */
bool cli_channel_send(struct channel *c);
/* Waits until everything is sent, at most `wait_ms`. */
void cli_channel_drain(struct channel *c, int wait_ms);

#endif

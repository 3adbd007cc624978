/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records between ranks of different hosts: their kinds, and the fields of each payload. The first
 * six kinds copy what a rank has stored in its own head or block to mirrors in other processes; the
 * others access windows.
 *
 * A block is identified by its offset in the memory of its rank. A rank reuses an offset only after
 * all members have left the domain.
 */
#ifndef PTO_TLS_WIRE_H
#define PTO_TLS_WIRE_H

#include "comm/comm_shared.h"
#include "net/lane.h"

enum tls_kind {
    TLS_KIND_ENTRY = 1, /* an entry of the sender's directory of domains */
    TLS_KIND_CONTROL,   /* words of the control of the sender's block */
    TLS_KIND_SCRATCH,   /* data in the scratch of the sender's block */
    TLS_KIND_ROUND,     /* a note of the sender's block, and its call */
    TLS_KIND_STATE,     /* state of the sender */
    TLS_KIND_ALARM,     /* makes the receiver check for lost ranks */
    TLS_KIND_PUT,       /* data for a window of the receiver */
    TLS_KIND_SIGNAL, /* a signal to a window of the receiver, who answers it if `call` is not 0 */
    TLS_KIND_GET,    /* requests data of a window of the receiver */
    TLS_KIND_ANSWER, /* answer to a get or a signal: a status, and for a get the data */
};

enum { TLS_ENTRY_MAX = 64 + 8 * SHARED_MEMBER_WORDS, TLS_WIRE_HEAD_MAX = 256 };

struct tls_wire_entry {
    uint32_t index;
    uint32_t state, other;
    uint64_t serial, id, digest, window_bytes, offset, other_bytes;
    uint32_t host_first, host_index, host_count;
    uint64_t member[SHARED_MEMBER_WORDS];
};

struct tls_wire_control {
    uint64_t offset;
    uint32_t arrived, given_up, torn;
};

struct tls_wire_round {
    uint64_t offset;
    uint32_t number;
    uint32_t word;
    uint8_t bytes[sizeof(((struct shared_note *)0)->bytes)];
    bool has_call;
    int32_t status;
    uint64_t args[2];
};

/* A place in a block, or in its window. In the record, data for this place follow. */
struct tls_wire_place {
    uint64_t offset; /* offset of the block in the memory of its rank */
    uint64_t at;
};

struct tls_wire_signal {
    struct tls_wire_place place;
    uint32_t how;
    int32_t value;
    uint64_t call; /* number of the sender's call, which the answer repeats; 0: no answer */
};

struct tls_wire_get {
    struct tls_wire_place place;
    uint64_t call;
    uint64_t to; /* offset of the data in the caller's buffer */
    uint32_t bytes;
};

struct tls_wire_answer {
    uint64_t call;
    uint64_t to;
    int32_t status;
    uint32_t before; /* old value of the word, in the answer to a signal */
};

/* Each pack function returns the number of bytes, at most TLS_WIRE_HEAD_MAX. */
size_t tls_wire_pack_entry(const struct tls_wire_entry *entry, uint8_t *bytes);
size_t tls_wire_pack_control(const struct tls_wire_control *control, uint8_t *bytes);
size_t tls_wire_pack_round(const struct tls_wire_round *round, uint8_t *bytes);
size_t tls_wire_pack_state(uint32_t state, int32_t status, uint8_t *bytes);
size_t tls_wire_pack_place(const struct tls_wire_place *place, uint8_t *bytes);
size_t tls_wire_pack_signal(const struct tls_wire_signal *signal, uint8_t *bytes);
size_t tls_wire_pack_get(const struct tls_wire_get *get, uint8_t *bytes);
size_t tls_wire_pack_answer(const struct tls_wire_answer *answer, uint8_t *bytes);

/* Each unpack function returns false if the bytes are not a valid payload. */
bool tls_wire_unpack_entry(const uint8_t *bytes, size_t size, struct tls_wire_entry *out);
bool tls_wire_unpack_control(const uint8_t *bytes, size_t size, struct tls_wire_control *out);
bool tls_wire_unpack_round(const uint8_t *bytes, size_t size, struct tls_wire_round *out);
bool tls_wire_unpack_state(const uint8_t *bytes, size_t size, uint32_t *state, int32_t *status);
/* sizes of struct tls_wire_place and of struct tls_wire_answer in a record; the data follow */
enum { TLS_PLACE_BYTES = 16, TLS_ANSWER_HEAD_BYTES = 24 };
bool tls_wire_unpack_place(const uint8_t *bytes, size_t size, struct tls_wire_place *out);
bool tls_wire_unpack_signal(const uint8_t *bytes, size_t size, struct tls_wire_signal *out);
bool tls_wire_unpack_get(const uint8_t *bytes, size_t size, struct tls_wire_get *out);
bool tls_wire_unpack_answer(const uint8_t *bytes, size_t size, struct tls_wire_answer *out);

#endif

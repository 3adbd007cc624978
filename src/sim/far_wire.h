/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host's side of an isolated chip and the program `pto-chip` say to each
 * other: a head of fixed size and so many bytes behind it, over two sockets. A request
 * has one answer, of the same kind, and a socket has one request at a time:
 *
 *     run     hello, runs
 *     side    memory, code, graphs, cancel, progress, close: beside a run
 *
 * Structs travel as they are: both sides are the same machine, and the greeting
 * compares their sizes and the version of the library. What comes from the program may
 * be damaged by a kernel, so the host checks it before it uses it.
 */
#ifndef PTO_FAR_WIRE_H
#define PTO_FAR_WIRE_H

#include <sys/types.h>

#include "base/atomic.h"
#include "chip/chip.h"
#include "orch/run_message.h"

/* Descriptors that the program is started with. */
enum { FAR_RUN_FD = 3, FAR_SIDE_FD, FAR_WILL_FD, FAR_MEMORY_FD, FAR_FD_END };

enum far_kind {
    FAR_HELLO,    /* far_hello; answer: far_welcome, or a sentence; PTO_EAGAIN: another address */
    FAR_RUN,      /* run_message, tensors, scalars; answer: run_ended, names of files */
    FAR_DROP,     /* value: graph */
    FAR_ALLOC,    /* value: bytes; answer: value: address */
    FAR_FREE,     /* value: address; answer: a sentence if it failed */
    FAR_CHECK,    /* the same */
    FAR_LOAD,     /* a program; answer: value: code, or a sentence */
    FAR_UNLOAD,   /* value: code */
    FAR_CANCEL,   /* value: number of the run */
    FAR_PROGRESS, /* answer: value */
    FAR_CLOSE,    /* no answer: the program ends */
    FAR_KINDS
};

enum { FAR_MAGIC = 0x70746f43, FAR_VERSION_TEXT = 16, FAR_SIZES = 8 };
#define FAR_BYTES_MAX (1ull << 32)

/* Handles of code and graphs are the program's own; here they are numbers. */
struct far_head {
    uint32_t magic;
    uint32_t kind;
    int32_t status; /* of an answer */
    uint32_t reserved;
    uint64_t value;
    uint64_t bytes; /* that follow */
};

struct far_hello {
    uint32_t size[FAR_SIZES]; /* of what is sent: sim_far_sizes */
    char version[FAR_VERSION_TEXT];
    int32_t host; /* process; the program ends with it */
    uint32_t clusters;
    uint32_t workers;
    uint64_t memory_max;
    uint64_t device_addr; /* where the file with the device's memory is to be mapped */
    uint64_t device_bytes;
};

struct far_welcome {
    struct chip_properties properties; /* but for the name */
    uint64_t record;                   /* address of a struct sim_record in the device's memory */
};

/* ---- the last will: what the program leaves in a pipe when it ends against its will ---- */

enum { FAR_WILL_KERNELS = STALL_TASKS, FAR_WILL_FILE = 128 };

struct far_will_kernel {
    uint32_t task; /* index of its submit */
    int32_t kernel;
    uint32_t block;
    uint32_t core; /* of its type */
    uint32_t is_aiv;
    int32_t line;             /* of the submit; 0: unknown */
    char file[FAR_WILL_FILE]; /* its end, if it is longer */
};

struct far_will {
    uint32_t magic;
    uint32_t suspect; /* enum peer_suspect: what is known of the kernels below */
    uint32_t count;
    struct far_will_kernel kernel[FAR_WILL_KERNELS];
};

/* ---- bytes ---- */

/* Bytes that grow at their end, or are taken from their beginning; pieces are aligned to 8. */
struct far_bytes {
    char *at;
    size_t size;
    size_t capacity;
    size_t next;   /* to be taken */
    bool is_short; /* there was no memory, or not as much as was to be taken */
};

void sim_bytes_clear(struct far_bytes *b);
void sim_bytes_free(struct far_bytes *b);
void sim_bytes_put(struct far_bytes *b, const void *from, size_t bytes);
void sim_bytes_put_text(struct far_bytes *b, const char *text); /* accepts NULL */
/* NULL: there are not so many. */
const void *sim_bytes_take(struct far_bytes *b, size_t bytes);
/* The same into a struct; zero if there are not so many. */
void sim_bytes_take_to(struct far_bytes *b, void *to, size_t bytes);
const char *sim_bytes_take_text(struct far_bytes *b); /* NULL: none */

/* ---- messages ---- */

/* How long to wait. Seconds during which the waiting process itself is stopped do not count. */
struct far_patience {
    int process; /* of the other side: waiting ends with it; -1: it does not */
    uint32_t seconds;
    uint32_t stopped_seconds; /* the same while it is stopped by a signal; 0: no less */
    pid_t pid;                /* the same process */
    uint64_t deadline_ns;     /* by os_now_ns: from then on it must not be stopped; 0: it may be */
};

/* Milliseconds of a second of patience; tests make it shorter, while others wait. */
extern struct a32 sim_far_second_ms;

void sim_far_sizes(uint32_t size[FAR_SIZES]);
/*
 * Until something can be read, or the other side has gone. PTO_ETIMEOUT, PTO_EPEER,
 * PTO_ECANCELED: it was stopped, by a signal, when it must not be. PTO_ESTALL: it was
 * stopped for stopped_seconds.
 */
int sim_far_await(int socket, const struct far_patience *patience);
/* The same. `payload` may be NULL. */
int sim_far_send(int socket, const struct far_patience *patience, struct far_head head,
                 const struct far_bytes *payload);
/* The same, PTO_ENOMEM, PTO_EFORMAT: that is no message. */
int sim_far_receive(int socket, const struct far_patience *patience, struct far_head *head,
                    struct far_bytes *payload);

#endif

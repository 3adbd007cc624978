/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How processes of one machine find each other by a file name.
 *
 * Rank 0 listens on an abstract socket with a random name, and writes the name to the
 * file, which only its user can read and which is removed when all have come. The socket
 * ends with the process, so a file that a killed job has left is stale, and a rank that finds it
 * waits for another one. The other ranks may come before rank 0.
 *
 *     rank n -> 0    meet_hello, with two descriptors: its memory, its process
 *     0 -> rank n    meet_answer; then all descriptors, in parts
 *     rank n -> 0    meet_hello again: it has received all descriptors
 *     0 -> rank n    meet_answer: all ranks have received them
 *
 * Only descriptors of memory and processes are exchanged; then the socket is closed.
 */
#ifndef PTO_MEET_H
#define PTO_MEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/comm.h"

enum { MEET_MAGIC = 0x70746f4d, MEET_VERSION = 2, MEET_NAME_BYTES = 16, MEET_TOKEN_BYTES = 64 };

/*
 * Contents of the file. Rank 0 holds a lock on it while it listens, so that a rank that cannot
 * reach the socket knows whether rank 0 is alive: socket names are local to a network namespace.
 * Such a rank leaves a note in the file, which rank 0 finds.
 */
struct meet_root {
    uint32_t magic;
    uint32_t version;
    uint8_t name[MEET_NAME_BYTES];
    char token[MEET_TOKEN_BYTES];
    uint64_t network; /* network namespace of rank 0; 0: unknown */
    struct meet_stray {
        uint32_t rank; /* rank that left the note, plus 1; 0: none */
        uint32_t pid;
        uint64_t network;
    } stray;
};

struct meet_hello {
    uint32_t magic;
    uint32_t version;
    uint32_t rank;
    uint32_t rank_count;
    uint32_t head_bytes; /* size of a rank's head; must be equal on all ranks */
    uint32_t has_fence;
    uint32_t pid; /* process id, for messages */
    uint32_t reserved;
    char token[MEET_TOKEN_BYTES];
};

struct meet_answer {
    uint32_t magic;
    int32_t status;
    int32_t rank; /* rank that the error is about; -1: none */
    uint32_t has_fence;
    char text[400];
};

/* Message with descriptors of some ranks, two for each: memory file and pidfd. */
struct meet_part {
    uint32_t magic;
    uint32_t first;
    uint32_t count;
};

struct meet_request {
    const struct comm_request *comm;
    uint32_t head_bytes;
    bool has_fence;
    int memory; /* memory and process: descriptors of this rank; the caller keeps ownership */
    int process;
};

/* Descriptors by rank; the caller closes them. Those of this rank are duplicates. */
struct meet_result {
    int *memory;
    int *process;
    bool has_fence; /* each rank can execute a memory fence in the processes of all ranks */
};

/*
 * Runs the meeting on this rank. `result` has room for all ranks, with -1 in each element. On
 * failure no descriptor is open.
 */
int meet_ranks(const struct meet_request *request, struct meet_result *result,
               struct pto_error *error);

/* Whether bytes from outside are a valid message; tests that forge messages use these as well. */
bool meet_is_root(const void *bytes, size_t size, struct meet_root *out);
bool meet_is_hello(const void *bytes, size_t size, struct meet_hello *out);
bool meet_is_answer(const void *bytes, size_t size, struct meet_answer *out);
bool meet_is_part(const void *bytes, size_t size, uint32_t rank_count, struct meet_part *out);

/* meet.c: sets the error that the limit of descriptors was reached. Returns PTO_ESYSTEM. */
int meet_report_descriptors(struct pto_error *error);

/* meet_host.c: runs the meeting on rank 0. */
int meet_host(const struct meet_request *request, struct meet_result *result,
              struct pto_error *error);

/*
 * meet_file.c: opens the file that rank 0 has left, for writing if possible, and reads it. -1:
 * there is none.
 */
int meet_file_open(const char *path, struct meet_root *out);
bool meet_file_read(const char *path, struct meet_root *out);
/*
 * Writes the file; it is locked before it appears under its name. Returns a descriptor that holds
 * the lock, or -1 with errno.
 */
int meet_file_write(const char *path, const struct meet_root *root);
/* Whether a living rank 0 of any job uses this path. */
bool meet_is_in_use(const char *path);
/* Whether the path may be replaced: it is a file of a meeting, an empty file, or does not exist. */
bool meet_is_replaceable(const char *path);
/*
 * Whether the file belongs to a living rank 0 in another network namespace, where its socket has
 * its name.
 */
bool meet_is_elsewhere(int file, const struct meet_root *root);
/*
 * Returns an id of this thread's network namespace, to which names of abstract sockets are local.
 * 0: unknown.
 */
uint64_t meet_find_network(void);

/* meet_socket.c: messages with descriptors, until a deadline. */
enum { MEET_FDS_MAX = 200, MEET_PART_RANKS = MEET_FDS_MAX / 2 };
struct meet_message {
    char bytes[512];
    size_t size;
    int fd[MEET_FDS_MAX];
    uint32_t fd_count;
    bool is_cut; /* descriptors were lost, because this process has reached its limit */
};
int meet_listen(const uint8_t name[MEET_NAME_BYTES]); /* returns a descriptor, or PTO_ESYSTEM */
/* Returns a descriptor, PTO_ESYSTEM, or PTO_EAGAIN if no process listens. */
int meet_connect(const uint8_t name[MEET_NAME_BYTES]);
/* Whether the other side is this user or root. */
bool meet_is_trusted(int socket);
/* A message to send, with descriptors. */
struct meet_letter {
    const void *bytes;
    size_t size;
    const int *fds; /* descriptors to send; the caller keeps ownership */
    uint32_t fd_count;
};
/*
 * Sends a message. Returns PTO_OK, PTO_EPEER if the other side has gone, or PTO_ETIMEOUT if it does
 * not read.
 */
int meet_send(int socket, uint64_t deadline_ns, const struct meet_letter *letter);
/*
 * Receives a message; returns the same statuses as meet_send. The caller owns the received
 * descriptors; after a failure there are none.
 */
int meet_receive(int socket, uint64_t deadline_ns, struct meet_message *message);
/* Returns the time until the deadline in milliseconds for poll, at most ms_max. */
int meet_timeout_ms(uint64_t deadline_ns, int ms_max);
void meet_close_fds(const int *fds, uint32_t count);

#endif

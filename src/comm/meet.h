/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How processes of one machine meet that know nothing of each other but a file name.
 *
 * Rank 0 listens on an abstract socket with a random name, and writes the name to the
 * file, which only its user can read and which is removed when all have come. The name
 * ends with the process, so a file that a killed job has left leads nowhere, and a rank
 * that finds it waits for another one. The others may come before rank 0.
 *
 *     rank n -> 0    meet_hello, with two descriptors: its memory, its process
 *     0 -> rank n    meet_answer; then all descriptors, in parts
 *     rank n -> 0    meet_hello again: it has them
 *     0 -> rank n    meet_answer: all have
 *
 * Descriptors of memory and processes are all that is exchanged; the socket is closed.
 */
#ifndef PTO_MEET_H
#define PTO_MEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/comm.h"

enum { MEET_MAGIC = 0x70746f4d, MEET_VERSION = 2, MEET_NAME_BYTES = 16, MEET_TOKEN_BYTES = 64 };

/*
 * The file. Rank 0 holds a lock on it for as long as it listens, so that a rank which cannot
 * reach the socket knows whether rank 0 lives: names of sockets are those of a network
 * namespace. Such a rank leaves a note in the file, and rank 0 finds it.
 */
struct meet_root {
    uint32_t magic;
    uint32_t version;
    uint8_t name[MEET_NAME_BYTES];
    char token[MEET_TOKEN_BYTES];
    uint64_t network; /* the namespace of rank 0; 0: unknown */
    struct meet_stray {
        uint32_t rank; /* plus 1; 0: none */
        uint32_t pid;
        uint64_t network;
    } stray;
};

struct meet_hello {
    uint32_t magic;
    uint32_t version;
    uint32_t rank;
    uint32_t rank_count;
    uint32_t head_bytes; /* layouts have to be equal */
    uint32_t has_fence;
    uint32_t pid; /* for messages */
    uint32_t reserved;
    char token[MEET_TOKEN_BYTES];
};

struct meet_answer {
    uint32_t magic;
    int32_t status;
    int32_t rank; /* that an error is about; -1: none */
    uint32_t has_fence;
    char text[400];
};

/* Some of the ranks; two descriptors for each come with it: memory, process. */
struct meet_part {
    uint32_t magic;
    uint32_t first;
    uint32_t count;
};

struct meet_request {
    const struct comm_request *comm;
    uint32_t head_bytes;
    bool has_fence;
    int memory; /* the own ones: they stay the caller's */
    int process;
};

/* By rank; the caller closes them. The own ones are copies. */
struct meet_result {
    int *memory;
    int *process;
    bool has_fence; /* on all ranks */
};

/* `result` has room for all ranks, with -1 in each. On failure none is open. */
int meet_ranks(const struct meet_request *request, struct meet_result *result,
               struct pto_error *error);

/* Whether bytes from outside are such a message, for the tests that make them up. */
bool meet_is_root(const void *bytes, size_t size, struct meet_root *out);
bool meet_is_hello(const void *bytes, size_t size, struct meet_hello *out);
bool meet_is_answer(const void *bytes, size_t size, struct meet_answer *out);
bool meet_is_part(const void *bytes, size_t size, uint32_t rank_count, struct meet_part *out);

/* meet.c: PTO_ESYSTEM with a sentence: the limit of descriptors was met, so that waiting would not help. */
int meet_tell_descriptors(struct pto_error *error);

/* meet_host.c: what rank 0 does. */
int meet_host(const struct meet_request *request, struct meet_result *result,
              struct pto_error *error);

/* meet_file.c: the file at the path, open, for writing if possible. -1: none that a rank 0 has left. */
int meet_file_open(const char *path, struct meet_root *out);
bool meet_file_read(const char *path, struct meet_root *out);
/* Writes it, locked before it is at its place. A descriptor that holds the lock, or -1 with errno. */
int meet_file_write(const char *path, const struct meet_root *root);
/* Whether a living rank 0 meets there, of whichever job. */
bool meet_is_in_use(const char *path);
/* Whether what lies there may be replaced: such a file, an empty one, or none. */
bool meet_is_replaceable(const char *path);
/* Whether the file is that of a living rank 0 whose socket has no name here. */
bool meet_is_elsewhere(int file, const struct meet_root *root);
/* The network namespace of this thread, inside of which names of sockets are known. 0: unknown. */
uint64_t meet_find_network(void);

/* meet_socket.c: messages with descriptors, until a deadline. */
enum { MEET_FDS_MAX = 200, MEET_PART_RANKS = MEET_FDS_MAX / 2 };
struct meet_message {
    char bytes[512];
    size_t size;
    int fd[MEET_FDS_MAX];
    uint32_t fd_count;
    bool is_cut; /* descriptors were lost, because this process may have no more */
};
int meet_listen(const uint8_t name[MEET_NAME_BYTES]);  /* a descriptor, or PTO_ESYSTEM */
int meet_connect(const uint8_t name[MEET_NAME_BYTES]); /* the same; PTO_EAGAIN: no listener */
/* Whether the other side is this user or root. */
bool meet_is_trusted(int socket);
/* What is sent. */
struct meet_letter {
    const void *bytes;
    size_t size;
    const int *fds; /* they stay the caller's */
    uint32_t fd_count;
};
/* PTO_OK; PTO_EPEER: the other side has gone; PTO_ETIMEOUT: it does not read. */
int meet_send(int socket, uint64_t deadline_ns, const struct meet_letter *letter);
/* The same. The descriptors, none if it fails, are the caller's. */
int meet_receive(int socket, uint64_t deadline_ns, struct meet_message *message);
/* Milliseconds for poll, at most so many. */
int meet_patience(uint64_t deadline_ns, int ms_max);
void meet_close_fds(const int *fds, uint32_t count);

#endif

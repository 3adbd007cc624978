/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meeting of src/comm/meet.h: its messages, and the side of the ranks that connect to rank 0.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "comm/meet.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/limit.h"
#include "base/os.h"

enum {
    LOOK_MS = 5, /* interval between two attempts to find rank 0 */
    VERDICT_NS = 500000000,
};

static int meet_attend(const struct meet_request *request, struct meet_result *result,
                       struct pto_error *error);

int meet_ranks(const struct meet_request *request, struct meet_result *result,
               struct pto_error *error)
{
    const struct comm_request *c = request->comm;
    int status;

    if (strlen(c->token) >= MEET_TOKEN_BYTES)
        return error_setf(error, PTO_EINVAL, "the token has more than %d characters",
                          MEET_TOKEN_BYTES - 1);
    if (strncmp(c->path, "tcp://", 6) == 0)
        return error_setf(error, PTO_ENOSUP,
                          "this backend connects the ranks of one host at a file, not at %.200s",
                          c->path);
    assert(c->rank_count > 1 && result->memory[c->rank] == -1 && result->process[c->rank] == -1);
    status = c->rank == 0 ? meet_host(request, result, error) : meet_attend(request, result, error);
    if (status < 0)
        for (uint32_t i = 0; i < c->rank_count; i++) {
            meet_close_fds(&result->memory[i], 1);
            meet_close_fds(&result->process[i], 1);
            result->memory[i] = result->process[i] = -1;
        }
    return status;
}

/* ---- messages ---- */

static bool is_message(const void *bytes, size_t size, void *out, size_t out_size)
{
    uint32_t magic;

    if (size != out_size)
        return false;
    memcpy(out, bytes, out_size);
    memcpy(&magic, out, sizeof(magic));
    return magic == MEET_MAGIC;
}

bool meet_is_root(const void *bytes, size_t size, struct meet_root *out)
{
    return is_message(bytes, size, out, sizeof(*out)) && out->version == MEET_VERSION &&
           memchr(out->token, '\0', sizeof(out->token)) != NULL;
}

/*
 * Whether the bytes are a hello. One of another version is accepted, so that the error can name the
 * version.
 */
bool meet_is_hello(const void *bytes, size_t size, struct meet_hello *out)
{
    return is_message(bytes, size, out, sizeof(*out)) &&
           memchr(out->token, '\0', sizeof(out->token)) != NULL;
}

bool meet_is_answer(const void *bytes, size_t size, struct meet_answer *out)
{
    return is_message(bytes, size, out, sizeof(*out)) && out->status <= 0 &&
           memchr(out->text, '\0', sizeof(out->text)) != NULL;
}

bool meet_is_part(const void *bytes, size_t size, uint32_t rank_count, struct meet_part *out)
{
    return is_message(bytes, size, out, sizeof(*out)) && out->count > 0 &&
           out->count <= MEET_PART_RANKS && out->first < rank_count &&
           out->count <= rank_count - out->first;
}

static struct meet_hello meet_make_hello(const struct meet_request *request)
{
    struct meet_hello hello = { .magic = MEET_MAGIC,
                                .version = MEET_VERSION,
                                .rank = request->comm->rank,
                                .rank_count = request->comm->rank_count,
                                .head_bytes = request->head_bytes,
                                .has_fence = request->has_fence,
                                .pid = (uint32_t)getpid() };

    snprintf(hello.token, sizeof(hello.token), "%s", request->comm->token);
    return hello;
}

/*
 * Sets the error that this process has reached its limit of descriptors. Waiting for the deadline
 * would not help.
 */
int meet_report_descriptors(struct pto_error *error)
{
    char why[LIMIT_TEXT];

    return comm_error_set(error, PTO_ESYSTEM, UINT32_MAX, "the ranks cannot meet: %s",
                          limit_explain(EMFILE, why));
}

/* ---- ranks other than 0 ---- */

/*
 * Called if rank 0 is in another network namespace: leaves a note in its file, so that rank 0 and
 * thereby all ranks get an error.
 */
static int leave_note(const struct comm_request *c, int file, const struct meet_root *root,
                      struct pto_error *error)
{
    struct meet_stray note = { c->rank + 1, (uint32_t)getpid(), meet_find_network() };

    (void)!pwrite(file, &note, sizeof(note), offsetof(struct meet_root, stray));
    return comm_error_set(
        error, PTO_ENOSUP, 0,
        "rank 0 cannot be reached from here: it is in network namespace %llu, and "
        "this process (rank %u) in %llu; start all ranks in one network namespace",
        (unsigned long long)root->network, c->rank, (unsigned long long)note.network);
}

/*
 * What a rank has found while it was looking for rank 0, for the error message if it does not find
 * rank 0 in time.
 */
struct search {
    bool is_stale, is_other, is_strange;
};

/*
 * Reads the file once and tries to connect. Returns a socket, PTO_EAGAIN to try again, or another
 * error.
 */
static int look_for_host(const struct comm_request *c, struct search *found,
                         struct pto_error *error)
{
    struct meet_root root;
    int file = meet_file_open(c->path, &root);
    int status = PTO_EAGAIN;

    if (file < 0)
        return status;
    found->is_other = strcmp(root.token, c->token) != 0;
    if (!found->is_other) {
        int socket = meet_connect(root.name);

        if (socket >= 0 && meet_is_trusted(socket)) {
            status = socket;
        } else {
            meet_close_fds(&socket, 1);
            found->is_stale = true;
            found->is_strange = root.network != 0 && root.network != meet_find_network();
            if (meet_is_elsewhere(file, &root))
                status = leave_note(c, file, &root, error);
        }
    }
    close(file);
    return status;
}

/* Waits until rank 0 of this job listens, and connects to it. */
static int find_host(const struct comm_request *c, struct pto_error *error)
{
    struct search found = { 0 };

    for (;;) {
        int status = look_for_host(c, &found, error);

        if (status != PTO_EAGAIN)
            return status;
        if (os_now_ns() >= c->deadline_ns)
            return comm_error_set(
                error, PTO_ETIMEOUT, 0, "rank 0 did not arrive at %s in time%s", c->path,
                found.is_other ? ": the file there belongs to a job with another token"
                : found.is_strange
                    ? ": the file there was left by a rank 0 in another network namespace"
                : found.is_stale ? ": the file there was left by a job that has ended"
                                 : "");
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ 0, LOOK_MS * 1000000 }, NULL);
    }
}

/*
 * Returns the deadline for rank 0's answer. It is later than the meeting's, because rank 0 knows
 * which ranks are missing and needs time to report them.
 */
static uint64_t verdict_deadline(const struct comm_request *c)
{
    return c->deadline_ns > UINT64_MAX - VERDICT_NS ? UINT64_MAX : c->deadline_ns + VERDICT_NS;
}

/* Reads the answer of rank 0: PTO_OK, or why the meeting failed. */
static int meet_read_answer(const struct comm_request *c, int socket, struct meet_answer *answer,
                            struct pto_error *error)
{
    struct meet_message message;
    int status = meet_receive(socket, verdict_deadline(c), &message);

    meet_close_fds(message.fd, message.fd_count);
    if (status == PTO_ETIMEOUT)
        return comm_error_set(error, status, UINT32_MAX, "not all ranks arrived at %s in time",
                              c->path);
    if (status < 0 || !meet_is_answer(message.bytes, message.size, answer))
        return comm_error_set(error, PTO_EPEER, 0, "rank 0 has ended before all ranks had arrived");
    if (answer->status < 0)
        return comm_error_set(error, answer->status,
                              answer->rank < 0 ? UINT32_MAX : (uint32_t)answer->rank, "%s",
                              answer->text);
    return PTO_OK;
}

/* Receives the descriptors of all ranks. */
static int take_all(const struct comm_request *c, int socket, struct meet_result *result,
                    struct pto_error *error)
{
    struct meet_message message;
    struct meet_part part;

    for (uint32_t have = 0; have < c->rank_count; have += part.count) {
        int status = meet_receive(socket, c->deadline_ns, &message);

        if (status < 0)
            return comm_error_set(error, status, 0, "rank 0 %s while the ranks met",
                                  status == PTO_EPEER ? "has ended" : "has stopped");
        if (!meet_is_part(message.bytes, message.size, c->rank_count, &part) ||
            part.first != have || message.fd_count != 2 * part.count) {
            meet_close_fds(message.fd, message.fd_count);
            return message.is_cut
                       ? meet_report_descriptors(error)
                       : comm_error_set(
                             error, PTO_ESYSTEM, 0,
                             "rank 0 sent %u descriptors where two for each rank are needed",
                             message.fd_count);
        }
        for (uint32_t k = 0; k < part.count; k++) {
            result->memory[have + k] = message.fd[2 * k];
            result->process[have + k] = message.fd[2 * k + 1];
        }
    }
    return PTO_OK;
}

static int meet_attend(const struct meet_request *request, struct meet_result *result,
                       struct pto_error *error)
{
    const struct comm_request *c = request->comm;
    struct meet_hello hello = meet_make_hello(request);
    int fds[2] = { request->memory, request->process };
    struct meet_answer a = { 0 };
    int socket = find_host(c, error);
    int status;

    if (socket < 0)
        return socket;
    status =
        meet_send(socket, c->deadline_ns, &(struct meet_letter){ &hello, sizeof(hello), fds, 2 });
    if (status < 0)
        (void)comm_error_set(error, status, 0, "rank 0 has ended before all ranks had arrived");
    if (status >= 0)
        status = meet_read_answer(c, socket, &a, error);
    if (status >= 0)
        status = take_all(c, socket, result, error);
    if (status >= 0 &&
        meet_send(socket, c->deadline_ns,
                  &(struct meet_letter){ .bytes = &hello, .size = sizeof(hello) }) < 0)
        status = comm_error_set(error, PTO_EPEER, 0, "rank 0 has ended while the ranks met");
    if (status >= 0)
        status = meet_read_answer(c, socket, &a, error);
    close(socket);
    result->has_fence = a.has_fence != 0;
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 of a meeting, to which the other ranks connect: src/comm/meet.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/os.h"
#include "comm/meet.h"

enum {
    GUARD_MS = 200,     /* interval between two checks that the file is still this job's */
    CALLERS_SPARE = 64, /* maximum number of connections that have not sent their rank yet */
};

struct caller {
    int socket;    /* -1: not connected */
    bool is_known; /* the caller has sent its hello */
    uint32_t pid;
};

struct meeting {
    const struct meet_request *request;
    struct meet_result *result;
    struct meet_root root;
    int listener;
    int lock; /* descriptor that holds the lock on the file */
    /* one entry for each rank, then CALLERS_SPARE for connections that have not sent a hello */
    struct caller *caller;
    uint32_t known_count;
    bool has_fence;
    struct pto_error *error;
};

static int meet_copy_own(const struct meet_request *request, struct meet_result *result);
static int meet_announce(struct meeting *m);
static int meet_gather(struct meeting *m);
static bool read_own_file(const struct meeting *m, struct meet_root *root);
static int hand_out(struct meeting *m);
static int conclude(struct meeting *m);
static void meet_send_answer(const struct meeting *m, int socket, int status,
                             const struct pto_error *why);

int meet_host(const struct meet_request *request, struct meet_result *result,
              struct pto_error *error)
{
    uint32_t total = request->comm->rank_count + CALLERS_SPARE;
    struct meeting m = { .request = request,
                         .result = result,
                         .listener = -1,
                         .lock = -1,
                         .known_count = 1,
                         .has_fence = request->has_fence };
    struct meet_root left;
    struct pto_error why;
    int status;

    pto_error_init(&why);
    m.error = &why;
    m.caller = calloc(total, sizeof(*m.caller));
    if (m.caller == NULL)
        return PTO_ENOMEM;
    for (uint32_t i = 0; i < total; i++)
        m.caller[i].socket = -1;
    status = meet_copy_own(request, result);
    if (status >= 0)
        status = meet_announce(&m);
    if (status >= 0)
        status = meet_gather(&m);
    if (m.listener >= 0 && read_own_file(&m, &left))
        (void)unlink(request->comm->path);
    if (status >= 0)
        status = hand_out(&m);
    if (status >= 0)
        status = conclude(&m);
    for (uint32_t i = 0; i < total; i++) {
        if (status < 0 && m.caller[i].socket >= 0)
            meet_send_answer(&m, m.caller[i].socket, status, &why);
        meet_close_fds(&m.caller[i].socket, 1);
    }
    meet_close_fds(&m.listener, 1);
    meet_close_fds(&m.lock, 1);
    free(m.caller);
    result->has_fence = m.has_fence;
    return status < 0 ? comm_error_set(error, status, (uint32_t)why.rank, "%s", why.text) : status;
}

static int meet_announce(struct meeting *m)
{
    const char *path = m->request->comm->path;

    m->root.magic = MEET_MAGIC;
    m->root.version = MEET_VERSION;
    m->root.network = meet_find_network();
    snprintf(m->root.token, sizeof(m->root.token), "%s", m->request->comm->token);
    if (!meet_is_replaceable(path))
        return error_setf(m->error, PTO_EINVAL,
                          "%s was not created by ranks, or belongs to another user; remove it, or "
                          "let the ranks meet at another path",
                          path);
    if (meet_is_in_use(path))
        return error_setf(m->error, PTO_EBUSY, "another job uses %s; give each job a separate path",
                          path);
    if (getrandom(m->root.name, sizeof(m->root.name), 0) != (ssize_t)sizeof(m->root.name))
        return error_setf(m->error, PTO_ESYSTEM, "no random numbers: %s", strerror(errno));
    m->listener = meet_listen(m->root.name);
    if (m->listener < 0)
        return error_setf(m->error, PTO_ESYSTEM, "rank 0 cannot listen: %s", strerror(errno));
    m->lock = meet_file_write(path, &m->root);
    if (m->lock < 0)
        return error_setf(m->error, PTO_ESYSTEM, "rank 0 cannot write %s: %s", path,
                          strerror(errno));
    return PTO_OK;
}

static bool read_own_file(const struct meeting *m, struct meet_root *root)
{
    return meet_file_read(m->request->comm->path, root) &&
           memcmp(root->name, m->root.name, sizeof(root->name)) == 0;
}

/*
 * Checks that no other job has replaced the file, and reads notes of ranks that could not connect.
 */
static int check_own_file(const struct meeting *m)
{
    const struct comm_request *c = m->request->comm;
    struct meet_root root;

    if (!read_own_file(m, &root))
        return error_setf(m->error, PTO_EBUSY,
                          "another job has taken %s; give each job a separate path", c->path);
    if (root.stray.rank == 0 || root.stray.rank > c->rank_count)
        return PTO_OK;
    return comm_error_set(m->error, PTO_ENOSUP, root.stray.rank - 1,
                          "rank %u (process %u) cannot reach rank 0 from network namespace %llu: "
                          "rank 0 is in %llu; start all ranks in one network namespace",
                          root.stray.rank - 1, root.stray.pid,
                          (unsigned long long)root.stray.network,
                          (unsigned long long)m->root.network);
}

static void meet_send_answer(const struct meeting *m, int socket, int status,
                             const struct pto_error *why)
{
    struct meet_answer a = {
        .magic = MEET_MAGIC, .status = status, .rank = -1, .has_fence = m->has_fence
    };

    if (why != NULL) {
        a.rank = why->rank;
        snprintf(a.text, sizeof(a.text), "%.*s", (int)sizeof(a.text) - 1, why->text);
    }
    /* A failure is ignored here: a caller that is gone, or does not read, is noticed elsewhere. */
    (void)meet_send(socket, 0, &(struct meet_letter){ .bytes = &a, .size = sizeof(a) });
}

/* Checks the hello of a caller. Returns why it cannot take part; PTO_OK: it can. */
static int check_hello(const struct meeting *m, const struct meet_hello *hello, uint32_t fd_count,
                       struct pto_error *why)
{
    const struct comm_request *c = m->request->comm;

    if (hello->version != MEET_VERSION || hello->head_bytes != m->request->head_bytes ||
        fd_count != 2)
        return comm_error_set(why, PTO_EINVAL, hello->rank,
                              "rank %u (process %u) uses another version of the library",
                              hello->rank, hello->pid);
    if (hello->rank_count != c->rank_count)
        return comm_error_set(why, PTO_EINVAL, hello->rank,
                              "rank %u expects %u ranks, and rank 0 expects %u", hello->rank,
                              hello->rank_count, c->rank_count);
    if (hello->rank == 0 || hello->rank >= c->rank_count)
        return comm_error_set(why, PTO_EINVAL, hello->rank, "process %u claims to be rank %u of %u",
                              hello->pid, hello->rank, c->rank_count);
    if (m->caller[hello->rank].is_known)
        return comm_error_set(why, PTO_EINVAL, hello->rank,
                              "processes %u and %u both claim to be rank %u",
                              m->caller[hello->rank].pid, hello->pid, hello->rank);
    return PTO_OK;
}

static struct comm_names meet_find_missing(const struct meeting *m)
{
    struct comm_names missing = { 0 };

    for (uint32_t i = 1; i < m->request->comm->rank_count; i++)
        if (!m->caller[i].is_known)
            comm_names_add(&missing, i);
    return missing;
}

static int meet_report_missing(const struct meeting *m)
{
    const struct comm_request *c = m->request->comm;
    struct comm_names missing = meet_find_missing(m);

    return comm_error_set(m->error, PTO_ETIMEOUT, missing.first,
                          "rank%s %s of %u did not arrive at %s in time",
                          missing.count == 1 ? "" : "s", missing.text, c->rank_count, c->path);
}

/* Sets the error that a rank that had connected has ended or given up. */
static int meet_report_gone(const struct meeting *m, uint32_t rank)
{
    struct comm_names missing = meet_find_missing(m);

    return comm_error_set(m->error, PTO_EPEER, rank,
                          "rank %u (process %u) has left before rank%s %s had arrived", rank,
                          m->caller[rank].pid, missing.count == 1 ? "" : "s", missing.text);
}

/* Accepts the hello of a rank: keeps its connection and its descriptors. */
static int meet_take_hello(struct meeting *m, struct caller *from, const struct meet_hello *hello,
                           struct meet_message *message)
{
    struct pto_error why;
    int status;

    if (message->is_cut)
        return meet_report_descriptors(m->error);
    pto_error_init(&why);
    status = check_hello(m, hello, message->fd_count, &why);
    if (status < 0)
        return comm_error_set(m->error, status, hello->rank, "%s", why.text);
    m->caller[hello->rank] = (struct caller){ from->socket, true, hello->pid };
    from->socket = -1;
    m->result->memory[hello->rank] = message->fd[0];
    m->result->process[hello->rank] = message->fd[1];
    message->fd_count = 0;
    m->has_fence = m->has_fence && hello->has_fence != 0;
    m->known_count++;
    return PTO_OK;
}

/*
 * Reads from a caller. Closes the connection if it belongs to another job or sends an invalid
 * message.
 */
static int meet_read_caller(struct meeting *m, struct caller *from)
{
    struct meet_message message;
    struct meet_hello hello;
    int status = meet_receive(from->socket, 0, &message);

    /* a rank sends nothing between its hello and the answer, so its process has ended */
    if (from->is_known) {
        status = meet_report_gone(m, (uint32_t)(from - m->caller));
    } else if (status >= 0 && meet_is_hello(message.bytes, message.size, &hello) &&
               strcmp(hello.token, m->request->comm->token) == 0) {
        status = meet_take_hello(m, from, &hello, &message);
    } else {
        if (status != PTO_ETIMEOUT) {
            close(from->socket);
            from->socket = -1;
        }
        status = PTO_OK;
    }
    meet_close_fds(message.fd, message.fd_count);
    return status;
}

/* Returns a free element for a caller whose rank is still unknown; NULL: there is none. */
static struct caller *find_spare(const struct meeting *m)
{
    struct caller *c = m->caller + m->request->comm->rank_count, *end = c + CALLERS_SPARE;

    while (c < end && c->socket >= 0)
        c++;
    return c < end ? c : NULL;
}

static int meet_admit(struct meeting *m)
{
    struct caller *to;

    for (uint32_t i = 0; i < CALLERS_SPARE && (to = find_spare(m)) != NULL; i++) {
        int socket = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (socket < 0)
            return errno == EMFILE || errno == ENFILE ? meet_report_descriptors(m->error) : PTO_OK;
        if (meet_is_trusted(socket))
            to->socket = socket;
        else
            close(socket);
    }
    return PTO_OK;
}

/*
 * Lists the connections for poll, in the order of callers. There are no unused elements, because
 * poll refuses more elements than `ulimit -n`.
 */
static uint32_t list_callers(const struct meeting *m, struct pollfd *look)
{
    uint32_t total = m->request->comm->rank_count + CALLERS_SPARE, count = 0;

    for (uint32_t i = 0; i < total; i++)
        if (m->caller[i].socket >= 0)
            look[count++] = (struct pollfd){ .fd = m->caller[i].socket, .events = POLLIN };
    return count;
}

/* Waits until all have sent a hello. */
static int meet_gather(struct meeting *m)
{
    const struct comm_request *c = m->request->comm;
    uint32_t total = c->rank_count + CALLERS_SPARE;
    struct pollfd *look = calloc(total + 1, sizeof(*look));
    int status = look != NULL ? PTO_OK : PTO_ENOMEM;

    while (status >= 0 && m->known_count < c->rank_count) {
        uint32_t count = list_callers(m, look);

        look[count] =
            (struct pollfd){ .fd = find_spare(m) != NULL ? m->listener : -1, .events = POLLIN };
        if (poll(look, count + 1, meet_timeout_ms(c->deadline_ns, GUARD_MS)) == 0)
            status = check_own_file(m);
        for (uint32_t i = 0, k = 0; i < total && k < count && status >= 0; i++) {
            if (m->caller[i].socket != look[k].fd)
                continue;
            if (look[k++].revents != 0)
                status = meet_read_caller(m, &m->caller[i]);
        }
        if (status >= 0 && look[count].revents != 0)
            status = meet_admit(m);
        if (status >= 0 && m->known_count < c->rank_count && os_now_ns() >= c->deadline_ns)
            status = meet_report_missing(m);
    }
    free(look);
    return status;
}

static int report_broken(const struct meeting *m, uint32_t rank, int status)
{
    return comm_error_set(m->error, status, rank, "rank %u (process %u) has %s while the ranks met",
                          rank, m->caller[rank].pid, status == PTO_EPEER ? "ended" : "stopped");
}

/* Sends all descriptors to all ranks. */
static int hand_out(struct meeting *m)
{
    uint32_t count = m->request->comm->rank_count;
    int status = PTO_OK;

    for (uint32_t i = 1; i < count && status >= 0; i++) {
        meet_send_answer(m, m->caller[i].socket, PTO_OK, NULL);
        for (uint32_t first = 0; first < count && status >= 0; first += MEET_PART_RANKS) {
            struct meet_part part = { MEET_MAGIC, first,
                                      count - first < MEET_PART_RANKS ? count - first
                                                                      : MEET_PART_RANKS };
            int fds[MEET_FDS_MAX];

            for (uint32_t k = 0; k < part.count; k++) {
                fds[2 * k] = m->result->memory[first + k];
                fds[2 * k + 1] = m->result->process[first + k];
            }
            status = meet_send(m->caller[i].socket, m->request->comm->deadline_ns,
                               &(struct meet_letter){ &part, sizeof(part), fds, 2 * part.count });
        }
        if (status < 0)
            return report_broken(m, i, status);
    }
    return status;
}

/*
 * Waits for each rank's confirmation that it has all descriptors; then answers each rank that all
 * have confirmed.
 */
static int conclude(struct meeting *m)
{
    const struct comm_request *c = m->request->comm;
    struct meet_message message;

    for (uint32_t i = 1; i < c->rank_count; i++) {
        int status = meet_receive(m->caller[i].socket, c->deadline_ns, &message);

        if (status < 0)
            return report_broken(m, i, status);
        meet_close_fds(message.fd, message.fd_count);
    }
    for (uint32_t i = 1; i < c->rank_count; i++)
        meet_send_answer(m, m->caller[i].socket, PTO_OK, NULL);
    return PTO_OK;
}

static int meet_copy_own(const struct meet_request *request, struct meet_result *result)
{
    uint32_t rank = request->comm->rank;

    result->memory[rank] = fcntl(request->memory, F_DUPFD_CLOEXEC, 3);
    result->process[rank] = fcntl(request->process, F_DUPFD_CLOEXEC, 3);
    return result->memory[rank] >= 0 && result->process[rank] >= 0 ? PTO_OK : PTO_ESYSTEM;
}

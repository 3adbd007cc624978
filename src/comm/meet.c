/* SPDX-License-Identifier: Apache-2.0 */
/* The meeting of src/comm/meet.h: rank 0, and those who come to it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "comm/meet.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/limit.h"
#include "base/os.h"

enum {
    PART_RANKS = MEET_FDS_MAX / 2,
    LOOK_MS = 5, /* between two looks for rank 0 */
    VERDICT_NS = 500000000,
    GUARD_MS = 200,     /* between two looks at the own file */
    CALLERS_SPARE = 64, /* connections that have not said which rank they are */
};

static int host_meeting(const struct meet_request *request, struct meet_result *result,
                        struct pto_error *error);
static int attend_meeting(const struct meet_request *request, struct meet_result *result,
                          struct pto_error *error);

int meet_ranks(const struct meet_request *request, struct meet_result *result,
               struct pto_error *error)
{
    const struct comm_request *c = request->comm;
    int status;

    if (strlen(c->token) >= MEET_TOKEN_BYTES)
        return error_tell(error, PTO_EINVAL, "the token has more than %d characters",
                          MEET_TOKEN_BYTES - 1);
    status = c->rank == 0 ? host_meeting(request, result, error)
                          : attend_meeting(request, result, error);
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

/* Another version has to be told, not refused. */
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
           out->count <= PART_RANKS && out->first < rank_count &&
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

/* ---- rank 0 ---- */

struct caller {
    int socket;    /* -1: nobody */
    bool is_known; /* it has said hello */
    uint32_t pid;
};

struct meeting {
    const struct meet_request *request;
    struct meet_result *result;
    struct meet_root root;
    int listener;
    int lock;              /* the file, which is locked */
    struct caller *caller; /* by rank; those who have not said hello behind them */
    uint32_t known_count;
    bool has_fence;
    struct pto_error *error;
};

static bool meet_is_file_trusted(const struct stat *info)
{
    return info->st_uid == geteuid() || info->st_uid == 0;
}

/* The file at the path, open, for writing if possible. -1: nothing that one of us has left. */
static int meet_open_root(const char *path, struct meet_root *out)
{
    char bytes[sizeof(*out) + 1];
    struct stat info;
    ssize_t size;
    int how = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    int file = open(path, O_RDWR | how);

    if (file < 0 && errno != ENOENT)
        file = open(path, O_RDONLY | how);
    if (file < 0)
        return -1;
    size = fstat(file, &info) == 0 && S_ISREG(info.st_mode) && meet_is_file_trusted(&info)
               ? read(file, bytes, sizeof(bytes))
               : -1;
    if (size > 0 && meet_is_root(bytes, (size_t)size, out))
        return file;
    close(file);
    return -1;
}

static bool read_root(const char *path, struct meet_root *out)
{
    int file = meet_open_root(path, out);

    if (file >= 0)
        close(file);
    return file >= 0;
}

/* The network namespace of this thread, inside of which names of sockets are known. 0: unknown. */
static uint64_t find_network(void)
{
    struct stat info;

    return stat("/proc/thread-self/ns/net", &info) == 0 ? (uint64_t)info.st_ino : 0;
}

/* Whether the file is that of a living rank 0 whose socket has no name here. */
static bool is_elsewhere(int file, const struct meet_root *root)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    uint64_t network = find_network();

    return root->network != 0 && network != 0 && root->network != network &&
           fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* Another job meets there: a living rank 0, which is not told that somebody looked. */
static bool is_in_use(const char *path)
{
    struct meet_root root;
    int file = meet_open_root(path, &root);
    int socket;
    bool is_used;

    if (file < 0)
        return false;
    socket = meet_connect(root.name);
    is_used = socket >= 0 || is_elsewhere(file, &root);
    if (socket >= 0)
        close(socket);
    close(file);
    return is_used;
}

/* Whether a file may lie there that is replaced: one of ours, an empty one, or none. */
static bool is_replaceable(const char *path)
{
    uint32_t magic = MEET_MAGIC;
    struct stat info;
    ssize_t size;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

    if (file < 0)
        return errno == ENOENT || errno == ENOTDIR; /* the latter is told when it is written */
    size = fstat(file, &info) == 0 && S_ISREG(info.st_mode) && meet_is_file_trusted(&info)
               ? read(file, &magic, sizeof(magic))
               : -1;
    close(file);
    return size == 0 || (size == (ssize_t)sizeof(magic) && magic == MEET_MAGIC);
}

/*
 * The file is locked before it is at its place. The lock goes with this process. Where there are
 * no locks, ranks in other network namespaces wait until their deadline.
 */
static bool write_root(struct meeting *m)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    struct file_part part;
    bool is_good;

    if (file_part_open(m->request->comm->path, 0600, &part) < 0)
        return false;
    (void)fcntl(part.file, F_OFD_SETLK, &lock);
    m->lock = fcntl(part.file, F_DUPFD_CLOEXEC, 3);
    is_good = m->lock >= 0 && file_put(part.file, &m->root, sizeof(m->root));
    return file_part_close(&part, is_good) >= 0;
}

static int meet_announce(struct meeting *m)
{
    const char *path = m->request->comm->path;

    m->root.magic = MEET_MAGIC;
    m->root.version = MEET_VERSION;
    m->root.network = find_network();
    snprintf(m->root.token, sizeof(m->root.token), "%s", m->request->comm->token);
    if (!is_replaceable(path))
        return error_tell(m->error, PTO_EINVAL,
                          "what is at %s was not left by ranks, or is not this user's; remove it, "
                          "or let the ranks meet at another path",
                          path);
    if (is_in_use(path))
        return error_tell(m->error, PTO_EBUSY,
                          "another job is meeting at %s; give each job a path of its own", path);
    if (getrandom(m->root.name, sizeof(m->root.name), 0) != (ssize_t)sizeof(m->root.name))
        return error_tell(m->error, PTO_ESYSTEM, "no random numbers: %s", strerror(errno));
    m->listener = meet_listen(m->root.name);
    if (m->listener < 0)
        return error_tell(m->error, PTO_ESYSTEM, "rank 0 cannot listen: %s", strerror(errno));
    if (!write_root(m))
        return error_tell(m->error, PTO_ESYSTEM, "rank 0 cannot write %s: %s", path,
                          strerror(errno));
    return PTO_OK;
}

static bool read_own_file(const struct meeting *m, struct meet_root *root)
{
    return read_root(m->request->comm->path, root) &&
           memcmp(root->name, m->root.name, sizeof(root->name)) == 0;
}

/* Whether the file is still the own one, and what a rank that could not connect has left there. */
static int check_own_file(const struct meeting *m)
{
    const struct comm_request *c = m->request->comm;
    struct meet_root root;

    if (!read_own_file(m, &root))
        return error_tell(m->error, PTO_EBUSY,
                          "another job has taken %s; give each job a path of its own", c->path);
    if (root.stray.rank == 0 || root.stray.rank > c->rank_count)
        return PTO_OK;
    return comm_tell(m->error, PTO_ENOSUP, root.stray.rank - 1,
                     "rank %u (process %u) cannot reach rank 0 from network namespace %llu: "
                     "rank 0 is in %llu; start all ranks in one network namespace",
                     root.stray.rank - 1, root.stray.pid, (unsigned long long)root.stray.network,
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
    /* Who has gone, or does not read, is noticed elsewhere. */
    (void)meet_send(socket, 0, &(struct meet_letter){ .bytes = &a, .size = sizeof(a) });
}

/* Why somebody who says hello cannot take part; PTO_OK: it can. */
static int check_hello(const struct meeting *m, const struct meet_hello *hello, uint32_t fd_count,
                       struct pto_error *why)
{
    const struct comm_request *c = m->request->comm;

    if (hello->version != MEET_VERSION || hello->head_bytes != m->request->head_bytes ||
        fd_count != 2)
        return comm_tell(why, PTO_EINVAL, hello->rank,
                         "rank %u (process %u) uses another version of the library", hello->rank,
                         hello->pid);
    if (hello->rank_count != c->rank_count)
        return comm_tell(why, PTO_EINVAL, hello->rank,
                         "rank %u expects %u ranks, and rank 0 expects %u", hello->rank,
                         hello->rank_count, c->rank_count);
    if (hello->rank == 0 || hello->rank >= c->rank_count)
        return comm_tell(why, PTO_EINVAL, hello->rank, "process %u says that it is rank %u of %u",
                         hello->pid, hello->rank, c->rank_count);
    if (m->caller[hello->rank].is_known)
        return comm_tell(why, PTO_EINVAL, hello->rank,
                         "processes %u and %u both say that they are rank %u",
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

static int meet_tell_missing(const struct meeting *m)
{
    const struct comm_request *c = m->request->comm;
    struct comm_names missing = meet_find_missing(m);

    return comm_tell(m->error, PTO_ETIMEOUT, missing.first,
                     "rank%s %s of %u did not come to %s in time", missing.count == 1 ? "" : "s",
                     missing.text, c->rank_count, c->path);
}

/* One that was there has ended, or waits no longer. */
static int meet_tell_gone(const struct meeting *m, uint32_t rank)
{
    struct comm_names missing = meet_find_missing(m);

    return comm_tell(m->error, PTO_EPEER, rank,
                     "rank %u (process %u) has gone before rank%s %s had come", rank,
                     m->caller[rank].pid, missing.count == 1 ? "" : "s", missing.text);
}

/* The limit of descriptors was met: waiting for the deadline would not help. */
static int tell_descriptors(struct pto_error *error)
{
    char why[LIMIT_TEXT];

    return comm_tell(error, PTO_ESYSTEM, UINT32_MAX, "the ranks cannot meet: %s",
                     limit_explain(EMFILE, why));
}

/* Reads what a caller says: one that is of another job, or says nothing, is let go. */
static int meet_hear(struct meeting *m, struct caller *from)
{
    const struct comm_request *c = m->request->comm;
    struct meet_message message;
    struct meet_hello hello;
    struct pto_error why;
    int status = meet_receive(from->socket, 0, &message);

    if (from->is_known) { /* before all have come it has nothing to say */
        if (status >= 0)
            meet_close_fds(message.fd, message.fd_count);
        return meet_tell_gone(m, (uint32_t)(from - m->caller));
    }
    if (status == PTO_ETIMEOUT)
        return PTO_OK;
    if (status < 0 || !meet_is_hello(message.bytes, message.size, &hello) ||
        strcmp(hello.token, c->token) != 0) {
        if (status >= 0)
            meet_close_fds(message.fd, message.fd_count);
        close(from->socket);
        from->socket = -1;
        return PTO_OK;
    }
    if (message.is_cut) {
        meet_close_fds(message.fd, message.fd_count);
        return tell_descriptors(m->error);
    }
    pto_error_init(&why);
    status = check_hello(m, &hello, message.fd_count, &why);
    if (status < 0) {
        meet_close_fds(message.fd, message.fd_count);
        return comm_tell(m->error, status, hello.rank, "%s", why.text);
    }
    m->caller[hello.rank] = (struct caller){ from->socket, true, hello.pid };
    from->socket = -1;
    m->result->memory[hello.rank] = message.fd[0];
    m->result->process[hello.rank] = message.fd[1];
    m->has_fence = m->has_fence && hello.has_fence != 0;
    m->known_count++;
    return PTO_OK;
}

/* For one more who has not said who it is. */
static bool meet_has_room(const struct meeting *m)
{
    uint32_t count = m->request->comm->rank_count;

    for (uint32_t i = count; i < count + CALLERS_SPARE; i++)
        if (m->caller[i].socket < 0)
            return true;
    return false;
}

static int meet_admit(struct meeting *m)
{
    uint32_t count = m->request->comm->rank_count;
    int socket;

    for (uint32_t i = count; i < count + CALLERS_SPARE; i++) {
        if (m->caller[i].socket >= 0)
            continue;
        socket = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (socket < 0)
            return errno == EMFILE || errno == ENFILE ? tell_descriptors(m->error) : PTO_OK;
        if (!meet_is_trusted(socket)) {
            close(socket);
            continue;
        }
        m->caller[i] = (struct caller){ .socket = socket };
    }
    return PTO_OK;
}

/* In the order of the callers, without gaps: poll refuses more entries than ulimit -n allows. */
static uint32_t list_callers(const struct meeting *m, struct pollfd *look)
{
    uint32_t total = m->request->comm->rank_count + CALLERS_SPARE, count = 0;

    for (uint32_t i = 0; i < total; i++)
        if (m->caller[i].socket >= 0)
            look[count++] = (struct pollfd){ .fd = m->caller[i].socket, .events = POLLIN };
    return count;
}

/* Until all have said hello. */
static int meet_gather(struct meeting *m)
{
    const struct comm_request *c = m->request->comm;
    uint32_t total = c->rank_count + CALLERS_SPARE;
    struct pollfd *look = calloc(total + 1, sizeof(*look));
    int status = look != NULL ? PTO_OK : PTO_ENOMEM;

    while (status >= 0 && m->known_count < c->rank_count) {
        uint32_t count = list_callers(m, look);

        look[count] =
            (struct pollfd){ .fd = meet_has_room(m) ? m->listener : -1, .events = POLLIN };
        if (poll(look, count + 1, meet_patience(c->deadline_ns, GUARD_MS)) == 0)
            status = check_own_file(m);
        for (uint32_t i = 0, k = 0; i < total && k < count && status >= 0; i++) {
            if (m->caller[i].socket != look[k].fd)
                continue;
            if (look[k++].revents != 0)
                status = meet_hear(m, &m->caller[i]);
        }
        if (status >= 0 && look[count].revents != 0)
            status = meet_admit(m);
        if (status >= 0 && m->known_count < c->rank_count && os_now_ns() >= c->deadline_ns)
            status = meet_tell_missing(m);
    }
    free(look);
    return status;
}

static int tell_broken(const struct meeting *m, uint32_t rank, int status)
{
    return comm_tell(m->error, status, rank, "rank %u (process %u) has %s while the ranks met",
                     rank, m->caller[rank].pid, status == PTO_EPEER ? "ended" : "stopped");
}

/* Everybody's descriptors, to everybody. */
static int hand_out(struct meeting *m)
{
    uint32_t count = m->request->comm->rank_count;
    int status = PTO_OK;

    for (uint32_t i = 1; i < count && status >= 0; i++) {
        meet_send_answer(m, m->caller[i].socket, PTO_OK, NULL);
        for (uint32_t first = 0; first < count && status >= 0; first += PART_RANKS) {
            struct meet_part part = { MEET_MAGIC, first,
                                      count - first < PART_RANKS ? count - first : PART_RANKS };
            int fds[MEET_FDS_MAX];

            for (uint32_t k = 0; k < part.count; k++) {
                fds[2 * k] = m->result->memory[first + k];
                fds[2 * k + 1] = m->result->process[first + k];
            }
            status = meet_send(m->caller[i].socket, m->request->comm->deadline_ns,
                               &(struct meet_letter){ &part, sizeof(part), fds, 2 * part.count });
        }
        if (status < 0)
            return tell_broken(m, i, status);
    }
    return status;
}

/* Each says that it has them; then it is told that all have. */
static int conclude(struct meeting *m)
{
    const struct comm_request *c = m->request->comm;
    struct meet_message message;

    for (uint32_t i = 1; i < c->rank_count; i++) {
        int status = meet_receive(m->caller[i].socket, c->deadline_ns, &message);

        if (status < 0)
            return tell_broken(m, i, status);
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

static int host_meeting(const struct meet_request *request, struct meet_result *result,
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
    return status < 0 ? comm_tell(error, status, why.rank < 0 ? UINT32_MAX : (uint32_t)why.rank,
                                  "%s", why.text)
                      : status;
}

/* ---- the others ---- */

/* Rank 0 lives in another network namespace: it finds a note in its file, and all get an error. */
static int leave_note(const struct comm_request *c, int file, const struct meet_root *root,
                      struct pto_error *error)
{
    struct meet_stray note = { c->rank + 1, (uint32_t)getpid(), find_network() };

    (void)!pwrite(file, &note, sizeof(note), offsetof(struct meet_root, stray));
    return comm_tell(error, PTO_ENOSUP, 0,
                     "rank 0 cannot be reached from here: it is in network namespace %llu, and "
                     "this process (rank %u) in %llu; start all ranks in one network namespace",
                     (unsigned long long)root->network, c->rank, (unsigned long long)note.network);
}

/* What a rank that looks for rank 0 has found so far. */
struct search {
    bool is_stale, is_other, is_strange;
};

/* One look at the file: a socket, PTO_EAGAIN to look again, or why there is no use in that. */
static int look_for_host(const struct comm_request *c, struct search *found,
                         struct pto_error *error)
{
    struct meet_root root;
    int file = meet_open_root(c->path, &root);
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
            found->is_strange = root.network != 0 && root.network != find_network();
            if (is_elsewhere(file, &root))
                status = leave_note(c, file, &root, error);
        }
    }
    close(file);
    return status;
}

/* A socket to the living rank 0 of this job. */
static int find_host(const struct comm_request *c, struct pto_error *error)
{
    struct search found = { 0 };

    for (;;) {
        int status = look_for_host(c, &found, error);

        if (status != PTO_EAGAIN)
            return status;
        if (os_now_ns() >= c->deadline_ns)
            return comm_tell(error, PTO_ETIMEOUT, 0, "rank 0 did not come to %s in time%s", c->path,
                             found.is_other     ? ": what is there is of a job with another token"
                             : found.is_strange ? ": what is there was left by a rank 0 in another "
                                                  "network namespace"
                             : found.is_stale   ? ": what is there was left by a job that has ended"
                                                : "");
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ 0, LOOK_MS * 1000000 }, NULL);
    }
}

/* Rank 0 knows who is missing: it has a moment to say so after its own time is over. */
static uint64_t verdict_deadline(const struct comm_request *c)
{
    return c->deadline_ns > UINT64_MAX - VERDICT_NS ? UINT64_MAX : c->deadline_ns + VERDICT_NS;
}

/* What rank 0 answers: PTO_OK, or why there is no meeting. */
static int hear_answer(const struct comm_request *c, int socket, struct meet_answer *answer,
                       struct pto_error *error)
{
    struct meet_message message;
    int status = meet_receive(socket, verdict_deadline(c), &message);

    if (status >= 0)
        meet_close_fds(message.fd, message.fd_count);
    if (status == PTO_ETIMEOUT)
        return comm_tell(error, status, UINT32_MAX, "the ranks did not all come to %s in time",
                         c->path);
    if (status < 0 || !meet_is_answer(message.bytes, message.size, answer))
        return comm_tell(error, PTO_EPEER, 0, "rank 0 has ended before all ranks had come");
    if (answer->status < 0)
        return comm_tell(error, answer->status,
                         answer->rank < 0 ? UINT32_MAX : (uint32_t)answer->rank, "%s",
                         answer->text);
    return PTO_OK;
}

/* Everybody's descriptors. */
static int take_all(const struct comm_request *c, int socket, struct meet_result *result,
                    struct pto_error *error)
{
    struct meet_message message;
    struct meet_part part;

    for (uint32_t have = 0; have < c->rank_count; have += part.count) {
        int status = meet_receive(socket, c->deadline_ns, &message);

        if (status < 0)
            return comm_tell(error, status, 0, "rank 0 %s while the ranks met",
                             status == PTO_EPEER ? "has ended" : "has stopped");
        if (!meet_is_part(message.bytes, message.size, c->rank_count, &part) ||
            part.first != have || message.fd_count != 2 * part.count) {
            meet_close_fds(message.fd, message.fd_count);
            return message.is_cut
                       ? tell_descriptors(error)
                       : comm_tell(error, PTO_ESYSTEM, 0,
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

static int attend_meeting(const struct meet_request *request, struct meet_result *result,
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
        (void)comm_tell(error, status, 0, "rank 0 has ended before all ranks had come");
    if (status >= 0)
        status = hear_answer(c, socket, &a, error);
    if (status >= 0)
        status = take_all(c, socket, result, error);
    if (status >= 0 &&
        meet_send(socket, c->deadline_ns,
                  &(struct meet_letter){ .bytes = &hello, .size = sizeof(hello) }) < 0)
        status = comm_tell(error, PTO_EPEER, 0, "rank 0 has ended while the ranks met");
    if (status >= 0)
        status = hear_answer(c, socket, &a, error);
    close(socket);
    result->has_fence = a.has_fence != 0;
    return status;
}

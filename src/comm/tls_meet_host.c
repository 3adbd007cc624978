/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 of a meeting over a network: src/comm/tls_meet.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/os.h"
#include "comm/tls_meet.h"

#define HOST_GATE_TAG 1ull

/*
 * Returns the listening socket of the request, or the one that the launcher has left in
 * PTO_COMM_LISTEN_FD; -1: none.
 */
static int inherited_listener(const struct comm_request *request)
{
    const char *text = getenv("PTO_COMM_LISTEN_FD");
    int is_listening = 0;
    socklen_t size = sizeof(is_listening);
    int file = request->listener;

    if (file < 0 && text != NULL && text[0] != '\0' && strspn(text, "0123456789") == strlen(text) &&
        strlen(text) <= 6)
        file = atoi(text);
    if (file < 0)
        return -1;
    if (getsockopt(file, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &size) != 0 || !is_listening)
        return -1;
    /* duplicated, so that the launcher's socket stays open for another meeting */
    file = fcntl(file, F_DUPFD_CLOEXEC, 3);
    if (file >= 0)
        (void)fcntl(file, F_SETFL, fcntl(file, F_GETFL) | O_NONBLOCK);
    return file;
}

int tls_meet_listen(struct tls_meeting *m)
{
    char text[NET_TEXT_BYTES];

    m->listener = inherited_listener(m->comm);
    if (m->listener >= 0 && !net_address_of(m->listener, false, &m->root))
        return error_setf(m->error, PTO_EINVAL,
                          "PTO_COMM_LISTEN_FD is not a TCP socket that listens");
    if (m->listener < 0)
        m->listener = net_listen(&m->root);
    if (m->listener >= 0)
        return PTO_OK;
    return error_setf(m->error, errno == EADDRINUSE ? PTO_EBUSY : PTO_ESYSTEM,
                      errno == EADDRINUSE
                          ? "another process listens at %s; give each job a separate address"
                          : "rank 0 cannot listen at %s: %s",
                      net_address_format(&m->root, text), strerror(errno));
}

/* ---- ranks that connect ---- */

struct tls_host {
    struct tls_meeting *m;
    struct gate gate;
    int poller;
    uint32_t missing;
};

/* Checks the hello of a rank. A negative status: the meeting fails on all ranks. */
static int host_check(struct tls_host *h, const struct tls_hello *hello)
{
    const struct tls_hello *own = &h->m->own;

    if (hello->version != own->version || hello->head_bytes != own->head_bytes)
        return comm_error_set(h->m->error, PTO_EINVAL, hello->rank,
                              "rank %u on %s has another version of this library than rank 0 on %s",
                              hello->rank, hello->host, own->host);
    if (hello->rank_count != own->rank_count)
        return comm_error_set(h->m->error, PTO_EINVAL, hello->rank,
                              "rank %u on %s expects %u ranks, and rank 0 expects %u", hello->rank,
                              hello->host, hello->rank_count, own->rank_count);
    if (hello->has_ucx != own->has_ucx)
        return comm_error_set(h->m->error, PTO_EINVAL, hello->rank,
                              "rank %u on %s has the backend %s, but rank 0 on %s the backend %s",
                              hello->rank, hello->host, hello->has_ucx ? "ucx" : "tls", own->host,
                              own->has_ucx ? "ucx" : "tls");
    if (hello->rank == 0 || hello->rank >= own->rank_count)
        return comm_error_set(h->m->error, PTO_EINVAL, hello->rank,
                              "a process on %s claims to be rank %u of %u", hello->host,
                              hello->rank, own->rank_count);
    if (h->m->connection[hello->rank] != NULL)
        return comm_error_set(h->m->error, PTO_EINVAL, hello->rank,
                              "two processes claim to be rank %u, on %s and on %s", hello->rank,
                              h->m->entry[hello->rank].host, hello->host);
    return PTO_OK;
}

static void host_send_answer(struct tls_meeting *m, struct secure *secure, int status,
                             const struct pto_error *why)
{
    struct tls_answer answer = { .status = status, .rank = -1, .has_fence = m->has_fence };
    uint8_t bytes[TLS_ANSWER_BYTES];
    uint64_t limit_ns = os_now_ns() + 1000000000ull;

    memcpy(answer.job, m->job, sizeof(answer.job));
    if (why != NULL) {
        answer.rank = why->rank;
        snprintf(answer.text, sizeof(answer.text), "%.380s", why->text);
    }
    tls_meet_pack_answer(&answer, bytes);
    (void)tls_meet_put(secure, bytes, sizeof(bytes), limit_ns);
}

/*
 * Handles the hello of a connection that the gate has admitted, and keeps the connection if it is
 * from a rank of this job.
 */
static int host_admit(struct tls_host *h, struct secure *secure, const uint8_t *greeting)
{
    struct tls_meeting *m = h->m;
    struct tls_hello hello;
    struct tls_entry *e;
    int status;

    if (!tls_meet_unpack_hello(greeting, &hello) || strcmp(hello.token, m->own.token) != 0) {
        secure_free(secure); /* the rank belongs to another job */
        return PTO_OK;
    }
    status = host_check(h, &hello);
    if (status < 0) {
        host_send_answer(m, secure, status, m->error);
        secure_free(secure);
        return status;
    }
    e = &m->entry[hello.rank];
    memcpy(e->address, hello.address, sizeof(e->address));
    memcpy(e->host, hello.host, sizeof(e->host));
    memcpy(e->name, hello.name, sizeof(e->name));
    e->port = hello.port;
    m->has_fence = m->has_fence && hello.has_fence != 0;
    m->connection[hello.rank] = secure;
    h->missing--;
    return PTO_OK;
}

static int host_report_missing(struct tls_meeting *m)
{
    struct comm_names names = { 0 };

    for (uint32_t i = 1; i < m->comm->rank_count; i++)
        if (m->connection[i] == NULL)
            comm_names_add(&names, i);
    return comm_error_set(m->error, PTO_ETIMEOUT, names.first,
                          "rank%s %s did not arrive at %s in time", names.count == 1 ? "" : "s",
                          names.text, m->comm->path);
}

/* Accepts connections until all ranks have sent their hello. */
static int host_await_ranks(struct tls_host *h)
{
    uint8_t greeting[GATE_GREETING_MAX];
    struct epoll_event event[16];
    int status = PTO_OK;

    while (status >= 0 && h->missing > 0) {
        int count = epoll_wait(h->poller, event, 16, meet_timeout_ms(h->m->comm->deadline_ns, 500));

        for (int i = 0; i < count && status >= 0; i++) {
            struct secure *secure = gate_handle(&h->gate, event[i].data.u64, greeting);

            if (secure != NULL)
                status = host_admit(h, secure, greeting);
        }
        gate_expire(&h->gate, os_now_ns());
        if (status >= 0)
            status = tls_meet_host_check(h->m);
        if (status >= 0 && h->missing > 0 && os_now_ns() >= h->m->comm->deadline_ns)
            status = host_report_missing(h->m);
    }
    return status;
}

/* Enters rank 0 itself into the roster, and makes the job's random number. */
static int host_enter_self(struct tls_meeting *m)
{
    struct tls_entry *e = &m->entry[0];

    memcpy(e->address, m->own.address, sizeof(e->address));
    memcpy(e->host, m->own.host, sizeof(e->host));
    memcpy(e->name, m->own.name, sizeof(e->name));
    e->port = m->own.port;
    m->has_fence = m->own.has_fence != 0;
    if (getrandom(m->job, sizeof(m->job), 0) != (ssize_t)sizeof(m->job))
        return error_setf(m->error, PTO_ESYSTEM, "no random numbers: %s", strerror(errno));
    return PTO_OK;
}

static int host_send_roster(struct tls_meeting *m)
{
    uint32_t count = m->comm->rank_count;
    uint8_t *bytes = malloc((size_t)count * TLS_ENTRY_BYTES);
    int status = bytes != NULL ? PTO_OK : PTO_ENOMEM;

    for (uint32_t i = 0; i < count && bytes != NULL; i++)
        tls_meet_pack_entry(&m->entry[i], bytes + (size_t)i * TLS_ENTRY_BYTES);
    for (uint32_t i = 1; i < count && status >= 0; i++) {
        host_send_answer(m, m->connection[i], PTO_OK, NULL);
        if (tls_meet_put(m->connection[i], bytes, (size_t)count * TLS_ENTRY_BYTES,
                         m->comm->deadline_ns) < 0)
            status =
                comm_error_set(m->error, PTO_EPEER, i,
                               "rank %u on %s has ended while the ranks met", i, m->entry[i].host);
    }
    free(bytes);
    return status;
}

int tls_meet_host_gather(struct tls_meeting *m)
{
    struct tls_host *h = calloc(1, sizeof(*h));
    int listener = m->listener, status;

    if (h == NULL)
        return PTO_ENOMEM;
    h->m = m;
    h->missing = m->comm->rank_count - 1;
    h->poller = epoll_create1(EPOLL_CLOEXEC);
    m->listener = -1;
    status = h->poller < 0 || gate_open(&h->gate, listener, h->poller, HOST_GATE_TAG, &m->key,
                                        TLS_HELLO_BYTES) < 0
                 ? error_setf(m->error, PTO_ESYSTEM, "no connections can be watched: %s",
                              strerror(errno))
                 : host_enter_self(m);
    if (status >= 0)
        status = host_await_ranks(h);
    if (h->poller >= 0) {
        gate_close(&h->gate);
        close(h->poller);
    }
    free(h);
    return status < 0 ? status : host_send_roster(m);
}

int tls_meet_host_conclude(struct tls_meeting *m)
{
    uint8_t bytes[TLS_HELLO_BYTES];

    for (uint32_t i = 1; i < m->comm->rank_count; i++) {
        int status = tls_meet_take(m->connection[i], bytes, sizeof(bytes), m->comm->deadline_ns);

        if (status < 0)
            return comm_error_set(m->error, status, i, "rank %u on %s %s while the ranks met", i,
                                  m->entry[i].host,
                                  status == PTO_EPEER ? "has ended" : "did not reach all others");
    }
    for (uint32_t i = 1; i < m->comm->rank_count; i++)
        host_send_answer(m, m->connection[i], PTO_OK, NULL);
    return PTO_OK;
}

void tls_meet_host_fail(struct tls_meeting *m, int status, const struct pto_error *why)
{
    for (uint32_t i = 1; i < m->comm->rank_count; i++)
        if (m->connection[i] != NULL)
            host_send_answer(m, m->connection[i], status, why);
}

/*
 * Checks that no rank has closed its connection. Ranks send nothing between their two hellos; a
 * second hello that has arrived already stays unread here.
 */
int tls_meet_host_check(struct tls_meeting *m)
{
    for (uint32_t i = 1; i < m->comm->rank_count; i++) {
        char byte;

        if (m->connection[i] == NULL ||
            recv(secure_socket(m->connection[i]), &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0)
            continue;
        return comm_error_set(m->error, PTO_EPEER, i, "rank %u on %s has ended while the ranks met",
                              i, m->entry[i].host);
    }
    return PTO_OK;
}

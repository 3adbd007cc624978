/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects a rank to all others, whose addresses it has from rank 0: to ranks of this host by
 * abstract sockets, to the others by lanes. Each rank contacts those with smaller numbers, and is
 * contacted by those with larger ones.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/os.h"
#include "comm/tls_meet.h"

enum { LOCAL_MAGIC = 0x4c6f7470, LOCAL_STEP_MS = 5 };
#define LOCAL_ANSWER_NS 5000000000ull

/* The message that two ranks of one host exchange, with descriptors of their memory and process. */
struct local_hello {
    uint32_t magic;
    uint32_t rank;
    uint8_t job[LANE_JOB_BYTES];
};

static int local_send(const struct tls_meeting *m, const struct tls_neighbours *n, int socket)
{
    struct local_hello hello = { LOCAL_MAGIC, m->comm->rank, { 0 } };
    int fds[2] = { n->memory, n->process };

    memcpy(hello.job, m->job, sizeof(hello.job));
    return meet_send(socket, os_now_ns() + LOCAL_ANSWER_NS,
                     &(struct meet_letter){ &hello, sizeof(hello), fds, 2 });
}

/*
 * Receives the descriptors of a rank of this host. PTO_EAGAIN: the message is not valid, or not of
 * this job, or the rank's descriptors are here already.
 */
static int local_receive(const struct tls_meeting *m, const struct tls_neighbours *n, int socket,
                         uint32_t *rank_out)
{
    struct meet_message message;
    struct local_hello hello;
    int status = meet_receive(socket, os_now_ns() + LOCAL_ANSWER_NS, &message);

    if (status < 0)
        return PTO_EAGAIN;
    if (message.is_cut) {
        meet_close_fds(message.fd, message.fd_count);
        return meet_report_descriptors(m->error);
    }
    memcpy(&hello, message.bytes, sizeof(hello));
    if (message.size != sizeof(hello) || hello.magic != LOCAL_MAGIC || message.fd_count != 2 ||
        hello.rank >= m->comm->rank_count || hello.rank == m->comm->rank ||
        memcmp(hello.job, m->job, sizeof(hello.job)) != 0 || n->memories[hello.rank] >= 0) {
        meet_close_fds(message.fd, message.fd_count);
        return PTO_EAGAIN;
    }
    n->memories[hello.rank] = message.fd[0];
    n->processes[hello.rank] = message.fd[1];
    *rank_out = hello.rank;
    return PTO_OK;
}

/*
 * Contacts a rank with a smaller number through its abstract socket. PTO_EAGAIN: it is not on this
 * host.
 */
static int local_try(const struct tls_meeting *m, const struct tls_neighbours *n, uint32_t rank)
{
    int socket, status = PTO_EAGAIN;
    uint32_t found;

    if (strcmp(m->entry[rank].host, m->own.host) != 0)
        return PTO_EAGAIN;
    socket = meet_connect(m->entry[rank].name);
    if (socket < 0)
        return PTO_EAGAIN;
    if (meet_is_trusted(socket) && local_send(m, n, socket) >= 0)
        status = local_receive(m, n, socket, &found);
    if (status == PTO_EAGAIN)
        status = comm_error_set(m->error, PTO_EPEER, rank, "rank %u has ended while the ranks met",
                                rank);
    close(socket);
    return status;
}

/* Answers all ranks of this host that have contacted this one. */
static int local_answer(const struct tls_meeting *m, const struct tls_neighbours *n)
{
    int socket, status = PTO_OK;
    uint32_t rank;

    while (status >= 0 &&
           (socket = accept4(m->socket, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        if (meet_is_trusted(socket)) {
            status = local_receive(m, n, socket, &rank);
            if (status >= 0)
                (void)local_send(m, n, socket);
            if (status == PTO_EAGAIN)
                status = PTO_OK;
        }
        close(socket);
    }
    return status;
}

/*
 * Adds a lane to a rank of another host, or of an unknown one: for larger ranks it is not known yet
 * whether they are on this host.
 */
static int local_add_lane(struct tls_meeting *m, struct mesh *mesh, uint32_t rank)
{
    const struct tls_entry *e = &m->entry[rank];
    struct net_address address = m->root;

    if (e->address[0] != '\0' && !net_address_parse_numeric(e->address, &address))
        return comm_error_set(m->error, PTO_EINVAL, rank, "rank %u has no numeric address", rank);
    net_address_set_port(&address, (uint16_t)e->port);
    return mesh_add(mesh, rank, &address);
}

/* Whether a rank was reached: if it is on this host, by its descriptors, else by a lane. */
static bool local_is_reached(const struct tls_neighbours *n, uint32_t rank)
{
    const struct lane *lane = mesh_lane(n->mesh, rank);

    return n->memories[rank] >= 0 || (lane != NULL && lane->state == LANE_UP);
}

static int local_await_all(struct tls_meeting *m, const struct tls_neighbours *n)
{
    uint32_t next = 0;
    int status = PTO_OK;

    while (status >= 0) {
        while (next < m->comm->rank_count && (next == m->comm->rank || local_is_reached(n, next)))
            next++;
        if (next == m->comm->rank_count)
            return PTO_OK;
        mesh_step(n->mesh, LOCAL_STEP_MS);
        status = local_answer(m, n);
        if (status >= 0)
            status = tls_meet_check(m);
        if (status >= 0 && os_now_ns() >= m->comm->deadline_ns)
            status = comm_error_set(m->error, PTO_ETIMEOUT, next,
                                    "rank %u on %s cannot be reached from %s", next,
                                    m->entry[next].host, m->own.host);
    }
    return status;
}

int tls_local_find(struct tls_meeting *m, const struct tls_neighbours *n)
{
    int status = PTO_OK;

    for (uint32_t i = 0; i < m->comm->rank_count && status >= 0; i++) {
        if (i == m->comm->rank)
            continue;
        status = i < m->comm->rank ? local_try(m, n, i) : PTO_EAGAIN;
        if (status == PTO_EAGAIN)
            status = local_add_lane(m, n->mesh, i);
    }
    if (status >= 0)
        status = local_await_all(m, n);
    for (uint32_t i = 0; i < m->comm->rank_count && status >= 0; i++)
        if (n->memories[i] >= 0 && mesh_lane(n->mesh, i) != NULL)
            mesh_remove(n->mesh, i);
    return status;
}

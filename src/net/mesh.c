/* SPDX-License-Identifier: Apache-2.0 */
/* The lanes of a rank and their thread: src/net/mesh.h. */
#include "net/mesh.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"

enum { EVENTS = 64 };
#define STOP_TAG 0ull
#define GATE_TAG 1ull
#define LANE_TAG (1ull << 32) /* epoll data of a lane: this plus the rank of its peer */
#define TICK_NS_MAX 125000000ull
#define FLUSH_NS 500000000ull /* time that mesh_close waits for records to be sent */

int mesh_init(struct mesh *mesh, const struct lane_link *link, uint32_t rank_count, int listener,
              struct pto_error *error)
{
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = STOP_TAG };

    memset(mesh, 0, sizeof(*mesh));
    mesh->link = *link;
    memcpy(mesh->job, link->job, LANE_JOB_BYTES);
    mesh->key = *link->key;
    mesh->link.job = mesh->job;
    mesh->link.key = &mesh->key;
    mesh->rank_count = rank_count;
    mesh->tick_ns = link->lease_ns / 16 < TICK_NS_MAX ? link->lease_ns / 16 : TICK_NS_MAX;
    mesh->gate.listener = listener;
    mesh->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    mesh->poller = epoll_create1(EPOLL_CLOEXEC);
    mesh->lane = calloc(rank_count, sizeof(*mesh->lane));
    if (mesh->lane == NULL)
        return PTO_ENOMEM;
    if (mesh->stop < 0 || mesh->poller < 0 ||
        epoll_ctl(mesh->poller, EPOLL_CTL_ADD, mesh->stop, &event) != 0 ||
        gate_open(&mesh->gate, listener, mesh->poller, GATE_TAG, &mesh->key, LANE_HELLO_BYTES) < 0)
        return error_setf(error, PTO_ESYSTEM, "no connections can be watched: %s", strerror(errno));
    return PTO_OK;
}

int mesh_add(struct mesh *mesh, uint32_t rank, const struct net_address *address)
{
    struct lane *lane = &mesh->lane[rank];
    int status = lane_init(lane, rank, mesh->poller, LANE_TAG + rank);

    lane->address = *address;
    lane->is_connector = mesh->link.rank > rank;
    lane->heard_ns = os_now_ns();
    /* the peer connects first; it is not probed before the lease is over */
    lane->retry_ns = lane->is_connector ? 0 : os_now_ns() + mesh->link.lease_ns;
    return status;
}

void mesh_remove(struct mesh *mesh, uint32_t rank)
{
    lane_fini(&mesh->lane[rank]);
    memset(&mesh->lane[rank], 0, sizeof(mesh->lane[rank]));
}

/* ---- the thread ---- */

/* Passes a connection that the gate has admitted to its lane. */
static void mesh_admit(struct mesh *mesh, struct secure *secure, const uint8_t *greeting)
{
    struct lane_hello hello;
    struct lane *lane = NULL;

    if (lane_unpack_hello(greeting, &hello) && hello.from < mesh->rank_count)
        lane = mesh_lane(mesh, hello.from);
    if (lane == NULL)
        secure_free(secure);
    else
        lane_accept(lane, &mesh->link, secure, &hello);
}

static void mesh_tick(struct mesh *mesh)
{
    uint64_t now = os_now_ns();

    if (now - mesh->ticked_ns < mesh->tick_ns)
        return;
    mesh->ticked_ns = now;
    gate_expire(&mesh->gate, now);
    for (uint32_t i = 0; i < mesh->rank_count; i++)
        if (mesh->lane[i].record != NULL)
            lane_tick(&mesh->lane[i], &mesh->link, now);
}

/* Handles an event of a lane or of the gate, by its epoll data. */
static void mesh_handle(struct mesh *mesh, uint64_t data)
{
    uint8_t greeting[GATE_GREETING_MAX];
    struct secure *secure;

    if (data >= LANE_TAG) {
        lane_handle(&mesh->lane[data - LANE_TAG], &mesh->link);
        return;
    }
    secure = gate_is_own(&mesh->gate, data) ? gate_handle(&mesh->gate, data, greeting) : NULL;
    if (secure != NULL)
        mesh_admit(mesh, secure, greeting);
}

/* Waits for events and handles them. Returns false when the thread has to end. */
static bool mesh_serve(struct mesh *mesh, int timeout_ms)
{
    struct epoll_event event[EVENTS];
    int count = epoll_wait(mesh->poller, event, EVENTS, timeout_ms);

    for (int i = 0; i < count; i++) {
        if (event[i].data.u64 == STOP_TAG)
            return false;
        mesh_handle(mesh, event[i].data.u64);
    }
    mesh_tick(mesh);
    return true;
}

void mesh_step(struct mesh *mesh, int timeout_ms)
{
    int tick_ms = (int)(mesh->tick_ns / 1000000) + 1;

    (void)mesh_serve(mesh, timeout_ms < tick_ms ? timeout_ms : tick_ms);
}

static void *mesh_main(void *context)
{
    struct mesh *mesh = context;

    while (mesh_serve(mesh, (int)(mesh->tick_ns / 1000000) + 1))
        ;
    return NULL;
}

int mesh_start(struct mesh *mesh)
{
    int status = os_thread_start(&mesh->thread, mesh_main, mesh);

    mesh->has_thread = status >= 0;
    return status;
}

/* ---- closing the mesh ---- */

/*
 * Whether the peer's host has acknowledged all bytes that were written, or there is no connection.
 */
static bool mesh_has_left(struct lane *lane)
{
    int unsent = 0;
    bool has_left;

    pthread_mutex_lock(&lane->lock);
    has_left = lane->state != LANE_UP ||
               (lane->next == NULL && lane->beat_left == 0 &&
                (ioctl(secure_socket(lane->secure), SIOCOUTQ, &unsent) != 0 || unsent == 0));
    pthread_mutex_unlock(&lane->lock);
    return has_left;
}

/* Waits, at most FLUSH_NS, until the peers' hosts have acknowledged what was sent. */
static void mesh_flush(struct mesh *mesh)
{
    uint64_t deadline_ns = os_now_ns() + FLUSH_NS;

    for (uint32_t i = 0; i < mesh->rank_count; i++)
        while (mesh_lane(mesh, i) != NULL && !mesh_has_left(mesh_lane(mesh, i)) &&
               os_now_ns() < deadline_ns)
            (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ 0, 200000 }, NULL);
}

void mesh_close(struct mesh *mesh)
{
    uint64_t one = 1;

    if (mesh->has_thread) {
        mesh_flush(mesh);
        (void)!write(mesh->stop, &one, sizeof(one));
        (void)pthread_join(mesh->thread, NULL);
    }
    gate_close(&mesh->gate);
    for (uint32_t i = 0; mesh->lane != NULL && i < mesh->rank_count; i++)
        if (mesh->lane[i].record != NULL)
            lane_fini(&mesh->lane[i]);
    free(mesh->lane);
    if (mesh->poller >= 0)
        close(mesh->poller);
    if (mesh->stop >= 0)
        close(mesh->stop);
    explicit_bzero(&mesh->key, sizeof(mesh->key));
}

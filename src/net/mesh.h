/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mesh: the lanes of one rank to its peers on other hosts, and the thread that serves them. The
 * thread receives records, accepts connections at the rank's gate, replaces lost connections, and
 * gives up peers that are silent for too long. It wakes only for events, and at intervals of
 * tick_ns for signs of life and time limits.
 */
#ifndef PTO_MESH_H
#define PTO_MESH_H

#include "net/gate.h"
#include "net/lane.h"

#define MESH_LEASE_DEFAULT_NS 2000000000ull
#define MESH_GRACE_DEFAULT_NS 30000000000ull

struct mesh {
    struct lane_link link;
    uint8_t job[LANE_JOB_BYTES];
    struct job_key key;
    uint32_t rank_count;
    struct lane *lane; /* lanes by rank of the peer; lanes whose `record` is NULL are unused */
    int poller;
    int stop; /* eventfd that makes the thread end */
    struct gate gate;
    uint64_t tick_ns; /* interval at which time limits are checked */
    uint64_t ticked_ns;
    bool has_thread;
    pthread_t thread;
};

/*
 * Initialises a mesh without lanes, and takes ownership of the listening socket `listener`. If it
 * fails, mesh_close must be called.
 */
int mesh_init(struct mesh *mesh, const struct lane_link *link, uint32_t rank_count, int listener,
              struct pto_error *error);
/* Adds a lane to a rank; called before mesh_start. Returns PTO_OK or PTO_ENOMEM. */
int mesh_add(struct mesh *mesh, uint32_t rank, const struct net_address *address);
/* Removes a lane; called before mesh_start. */
void mesh_remove(struct mesh *mesh, uint32_t rank);
/*
 * Serves the lanes once on the calling thread, before mesh_start: waits for events, at most
 * timeout_ms, and handles them.
 */
void mesh_step(struct mesh *mesh, int timeout_ms);
/* Starts the thread that serves the lanes. */
int mesh_start(struct mesh *mesh);
/*
 * Ends the thread and closes all connections. Before that it waits a moment, so that records that
 * were sent still reach the peers.
 */
void mesh_close(struct mesh *mesh);

/* Returns the lane to a rank; NULL: there is none. */
static inline struct lane *mesh_lane(struct mesh *mesh, uint32_t rank)
{
    return mesh->lane != NULL && mesh->lane[rank].record != NULL ? &mesh->lane[rank] : NULL;
}

#endif

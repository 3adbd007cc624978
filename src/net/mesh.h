/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lanes of one rank to its peers on other hosts, and the thread that serves them: it receives,
 * accepts connections at the rank's gate, makes broken connections again, and gives up peers that
 * are silent for too long. It sleeps while nothing happens, except for signs of life.
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
    struct lane *lane; /* by rank; `record` is NULL for ranks without a lane */
    int poller;
    int stop; /* eventfd that ends the thread */
    struct gate gate;
    uint64_t tick_ns; /* interval between two looks at the time */
    uint64_t ticked_ns;
    bool has_thread;
    pthread_t thread;
};

/* Prepares a mesh without lanes. On failure mesh_close must be called. `listener` is owned. */
int mesh_init(struct mesh *mesh, const struct lane_link *link, uint32_t rank_count, int listener,
              struct pto_error *error);
/* Adds a lane to a rank. Before mesh_start. PTO_ENOMEM. */
int mesh_add(struct mesh *mesh, uint32_t rank, const struct net_address *address);
/* Removes a lane. Before mesh_start. */
void mesh_remove(struct mesh *mesh, uint32_t rank);
/* Serves the lanes once, in the caller's thread, before mesh_start. Waits at most so long. */
void mesh_step(struct mesh *mesh, int timeout_ms);
/* Starts the thread. */
int mesh_start(struct mesh *mesh);
/*
 * Ends the thread and closes all connections. Records that were sent before still reach peers that
 * can be reached; this waits at most a moment for that.
 */
void mesh_close(struct mesh *mesh);

/* The lane to a rank; NULL: there is none. */
static inline struct lane *mesh_lane(struct mesh *mesh, uint32_t rank)
{
    return mesh->lane != NULL && mesh->lane[rank].record != NULL ? &mesh->lane[rank] : NULL;
}

#endif

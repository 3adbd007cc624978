/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank of a session with several: its communicator and domains. All ranks make the same calls
 * in the same order; a rank that fails aborts the others.
 */
#ifndef PTO_SCENE_RANKS_H
#define PTO_SCENE_RANKS_H

#include "pto/comm.h"
#include "tool/scene/scene.h"

/* The ranks and windows of a domain in one case. */
struct scene_members {
    uint64_t window_bytes;
    uint32_t count;
    uint32_t rank[SCENE_RANKS_MAX];
};

/*
 * Evaluates a domain. `param` are the parameters of the case or of a session. False: a parameter is
 * missing or a value is invalid.
 */
bool scene_domain_members(const struct scene_domain *domain, const struct scene_case *test_case,
                          const struct scene_param *param, struct scene_members *members);

struct scene_ranks {
    struct pto_comm *comm;                        /* NULL: not open */
    struct pto_domain *world;                     /* all ranks, without windows */
    struct pto_domain *domain[SCENE_DOMAINS_MAX]; /* NULL: this rank is not a member */
    struct pto_domain_info about[SCENE_DOMAINS_MAX];
    int status; /* negative: this rank has aborted the job and runs nothing more */
};

struct scene_ranks_params {
    const struct scene *scene;
    const struct scene_case *test_case;
    const struct scene_param *param; /* all parameters of the case, with their values */
    uint32_t rank;
    double timeout; /* seconds */
    struct pto_device *device;
};

/* Connects to the other ranks and opens the domains. On failure nothing is left open. */
int scene_ranks_open(struct scene_ranks *r, const struct scene_ranks_params *params,
                     struct pto_error *error);
/*
 * Closes everything after waiting for the other ranks, unless one aborted. Does nothing if not
 * open.
 */
void scene_ranks_close(struct scene_ranks *r);
/* Zeroes this rank's windows, before each run. */
int scene_ranks_clear(struct scene_ranks *r, struct pto_device *device, struct pto_error *error);
/* Waits for the other ranks. */
int scene_ranks_barrier(struct scene_ranks *r, struct pto_error *error);
/* Aborts the other ranks with a status. */
void scene_ranks_abort(struct scene_ranks *r, int status);

#endif

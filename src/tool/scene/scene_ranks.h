/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session as one rank of several: its communicator and the domains of its scene. All
 * ranks do the same in the same order; where one cannot go on it tells the others.
 */
#ifndef PTO_SCENE_RANKS_H
#define PTO_SCENE_RANKS_H

#include "pto/comm.h"
#include "tool/scene/scene.h"

/* What a domain is in a case. */
struct scene_members {
    uint64_t window_bytes;
    uint32_t count;
    uint32_t rank[SCENE_RANKS_MAX];
};

/* `param` are the case's, or those of a session. False: something is missing or impossible. */
bool scene_domain_members(const struct scene_domain *domain, const struct scene_case *test_case,
                          const struct scene_param *param, struct scene_members *members);

struct scene_ranks {
    struct pto_comm *comm;                        /* NULL: it is not open */
    struct pto_domain *world;                     /* all ranks, without windows */
    struct pto_domain *domain[SCENE_DOMAINS_MAX]; /* NULL: this rank is not of it */
    struct pto_domain_info about[SCENE_DOMAINS_MAX];
    int status; /* not 0: this rank has given up, and there are no more runs */
};

struct scene_ranks_params {
    const struct scene *scene;
    const struct scene_case *test_case;
    const struct scene_param *param; /* as many as the case has */
    uint32_t rank;
    double timeout; /* seconds */
    struct pto_device *device;
};

/* Meets the others and opens the domains. On failure nothing is left open. */
int scene_ranks_open(struct scene_ranks *r, const struct scene_ranks_params *params,
                     struct pto_error *error);
/* Waits for the others, unless one has given up. Accepts one that is not open. */
void scene_ranks_close(struct scene_ranks *r);
/* Makes the own windows zero, before each run. */
int scene_ranks_clear(struct scene_ranks *r, struct pto_device *device, struct pto_error *error);
/* Waits for the others. */
int scene_ranks_meet(struct scene_ranks *r, struct pto_error *error);
/* This rank gives up. */
void scene_ranks_abort(struct scene_ranks *r, int status);

#endif

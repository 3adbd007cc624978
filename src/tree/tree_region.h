/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions and queues (tree_region.c), and the copies for those of chips that are cards
 * (tree_mirror.c).
 */
#ifndef PTO_TREE_REGION_H
#define PTO_TREE_REGION_H

#include "pto/worker_region.h"
#include "tree/tree_wire.h"

struct tree;
struct tree_region;

/* tree_region.c: counts the tasks that use a region, like tree_domain_use and tree_domain_unuse. */
int tree_region_use(struct tree_region *r, const char *what, struct pto_error *error);
void tree_region_unuse(struct tree *t, struct tree_region *r, int status);
void tree_forget_regions(struct tree *t);

/* tree_mirror.c: a part of the worker's memory that represents a region on a card. */
struct mirror {
    uint32_t chip;
    uint32_t generation; /* generation of the child that has allocated the region on the card */
    uint64_t addr;
    uint64_t bytes;
};
/* Makes the child allocate the region on the card, with the mirror's present contents. */
int tree_mirror_open(struct tree *t, struct mirror *m, struct pto_error *error);
/*
 * Makes the child free the region on the card. PTO_ETIMEOUT: the child may still use the mirror,
 * which must not be freed.
 */
int tree_mirror_close(struct tree *t, const struct mirror *m, struct pto_error *error);
struct mirror_copy {
    const struct mirror_range *part;
    uint32_t count;
    bool is_look; /* the request only polls the card: requests of other threads go first */
};
/*
 * Copies the ranges of `copy`. tree_mirror_send copies all to the card, without waiting for the
 * end. tree_mirror_fetch copies each range in the direction that the range states, and waits.
 * PTO_ETIMEOUT; PTO_EPEER: the child has ended; or the error of an earlier send.
 */
int tree_mirror_send(struct tree *t, const struct mirror *m, const struct mirror_copy *copy,
                     uint64_t deadline_ns, struct pto_error *error);
int tree_mirror_fetch(struct tree *t, const struct mirror *m, const struct mirror_copy *copy,
                      uint64_t deadline_ns, struct pto_error *error);

#endif

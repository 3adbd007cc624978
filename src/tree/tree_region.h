/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions and queues (tree_region.c), and those of chips that are cards: what is copied (tree_mirror.c).
 */
#ifndef PTO_TREE_REGION_H
#define PTO_TREE_REGION_H

#include "pto/worker_region.h"
#include "tree/tree_wire.h"

struct tree;
struct tree_region;

/* tree_region.c: as those of domains. */
int tree_region_use(struct tree_region *r, const char *what, struct pto_error *error);
void tree_region_unuse(struct tree *t, struct tree_region *r, int status);
void tree_forget_regions(struct tree *t);

/* tree_mirror.c: what stands in the worker's memory for a region on a card. */
struct mirror {
    uint32_t chip;
    uint32_t generation; /* of the child that has the memory on the card */
    uint64_t addr;
    uint64_t bytes;
};
/* Has the child make it, as the mirror is now. */
int tree_mirror_open(struct tree *t, struct mirror *m, struct pto_error *error);
/* PTO_ETIMEOUT: the child may still use it. */
int tree_mirror_close(struct tree *t, const struct mirror *m, struct pto_error *error);
struct mirror_copy {
    const struct errand_part *part;
    uint32_t count;
    bool is_look; /* it lets others go first */
};
/*
 * Copies parts: all of them to the card, and it is not waited for; or as they say. PTO_ETIMEOUT; PTO_EPEER:
 * the child has gone; or why an earlier one could not be done.
 */
int tree_mirror_send(struct tree *t, const struct mirror *m, const struct mirror_copy *copy,
                     uint64_t deadline_ns, struct pto_error *error);
int tree_mirror_fetch(struct tree *t, const struct mirror *m, const struct mirror_copy *copy,
                      uint64_t deadline_ns, struct pto_error *error);

#endif

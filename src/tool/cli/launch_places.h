/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts of a job, and which ranks run where. */
#ifndef PTO_LAUNCH_PLACES_H
#define PTO_LAUNCH_PLACES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { HOST_NAME_MAX_BYTES = 256, HOSTS_MAX = 256 };

struct launch_place {
    char name[HOST_NAME_MAX_BYTES]; /* as given: what the remote shell gets */
    uint32_t slots;                 /* number of ranks that the user wants here at most */
    bool has_slots;                 /* the number was given */
    uint32_t first, count;          /* ranks that run here */
};

struct launch_places {
    uint32_t count;
    struct launch_place place[HOSTS_MAX];
};

/* Adds hosts from a list such as "a,b:4,user@c". PTO_EINVAL: it is no list. */
int cli_launch_places_add(struct launch_places *places, const char *list, struct pto_error *error);
/*
 * Adds hosts from a file: one per line, "NAME", "NAME:COUNT" or "NAME slots=COUNT"; # begins a
 * comment.
 */
int cli_launch_places_read(struct launch_places *places, const char *path, struct pto_error *error);

/*
 * Assigns the ranks in blocks, in the order of the hosts, and drops hosts without a rank. 0 ranks:
 * one for each slot. Without given numbers of slots hosts get equal shares.
 */
int cli_launch_places_assign(struct launch_places *places, uint32_t *ranks,
                             struct pto_error *error);

#endif

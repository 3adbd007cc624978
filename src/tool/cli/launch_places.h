/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts of a job, and which ranks run where. */
#ifndef PTO_LAUNCH_PLACES_H
#define PTO_LAUNCH_PLACES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { HOST_NAME_MAX_BYTES = 256, HOSTS_MAX = 256 };

struct launch_place {
    /* name as the user gave it, which is passed to the remote shell */
    char name[HOST_NAME_MAX_BYTES];
    uint32_t slots;        /* maximum number of ranks on this host */
    bool has_slots;        /* the user has given the number of slots */
    uint32_t first, count; /* the ranks that run on this host */
};

struct launch_places {
    uint32_t count;
    struct launch_place place[HOSTS_MAX];
};

/* Adds the hosts of a list such as "a,b:4,user@c". PTO_EINVAL: the list is malformed. */
int cli_launch_places_add(struct launch_places *places, const char *list, struct pto_error *error);
/*
 * Adds hosts from a file: one per line, "NAME", "NAME:COUNT" or "NAME slots=COUNT"; # begins a
 * comment.
 */
int cli_launch_places_read(struct launch_places *places, const char *path, struct pto_error *error);

/*
 * Assigns consecutive ranks to the hosts, in the order of the list, and removes hosts without
 * ranks. If *ranks is 0, there is a rank for each slot. Hosts without given numbers of slots get
 * equal shares.
 */
int cli_launch_places_assign(struct launch_places *places, uint32_t *ranks,
                             struct pto_error *error);

#endif

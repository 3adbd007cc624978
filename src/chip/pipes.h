/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the simulated cores of a cluster share, found by a key, for models of cross-core
 * pipes (pto/sim.h). The caller holds a lock, so that one thread at a time calls these functions.
 */
#ifndef PTO_PIPES_H
#define PTO_PIPES_H

#include <stddef.h>
#include <stdint.h>

struct pipes {
    struct pipe *first;
};

/*
 * Returns the memory for a key, zeroed when it is new. NULL: there is no memory, or the key is in
 * use with a smaller size.
 */
void *pipes_find(struct pipes *pipes, uint32_t cluster, uint64_t key, size_t size);
void pipes_drop(struct pipes *pipes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs of the second client share: the host's, the control processor's, the cores'. */
#ifndef PTO_STANDIN_SECOND_H
#define PTO_STANDIN_SECOND_H

#include <stdint.h>

enum {
    CLUSTERS = 2,
    CORES = 3 * CLUSTERS,
    BLOCKS = CORES, /* of the control processor: one for each core */
    NUMBERS = 75,   /* of cores that a card of the older generation has */
    BELL_OFFSET = 0xa0,
    COND_OFFSET = 0x4c8,
    FAST_OFFSET = 0x18,
    FAST_OPEN = 0xe,
    FAST_CLOSE = 0xf,
    BELL_WORK = 41,
    BELL_END = 42,
    BELL_HIGH = 5, /* in the word above the bell */
    MEET_S = 20,   /* for blocks that should be there at the same time */
};

/* A run, in memory of the card. */
struct run {
    uint64_t window[NUMBERS]; /* registers of a core, by its number */
    uint32_t arrived;         /* blocks, at the first barrier; also gives each its number */
    uint32_t computed;        /* blocks, at the second one */
    uint32_t lonely;          /* not 0: a block waited in vain for the others */
    struct {
        uint32_t has_come;
        uint32_t number;
        uint64_t result;
    } core[CORES];
    uint32_t answer; /* cores whose condition register had the value that was expected */
};

/* Arguments of a launch of the control processor. */
struct launch {
    uint64_t run;
    uint64_t value;
};

/* Arguments of the bootstrap: offsets are the vendor's. */
struct boot_launch {
    uint64_t unused[5];
    uint64_t args; /* +40: struct boot_args, on the card */
};

struct boot_args {
    uint64_t unused[12];
    uint64_t object; /* +96 */
    uint64_t object_bytes;
    uint64_t device;
    uint64_t inner; /* from here on they are the dispatcher's own */
    uint64_t inner_bytes;
    uint64_t written;
    char name[64];
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the programs of the second client, for the host, the control processor and the cores.
 */
#ifndef PTO_STANDIN_SECOND_H
#define PTO_STANDIN_SECOND_H

#include <stdint.h>

enum {
    CLUSTERS = 2,
    CORES = 3 * CLUSTERS,
    BLOCKS = CORES, /* number of threads of the control processor: one for each core */
    NUMBERS = 75,   /* number of cores of a card of the older generation */
    BELL_OFFSET = 0xa0,
    COND_OFFSET = 0x4c8,
    FAST_OFFSET = 0x18,
    FAST_OPEN = 0xe,
    FAST_CLOSE = 0xf,
    BELL_WORK = 41,
    BELL_END = 42,
    BELL_HIGH = 5, /* value in the word after the bell */
    MEET_S = 20,   /* seconds that blocks may take to meet */
};

/* A run, in memory of the card. */
struct run {
    uint64_t window[NUMBERS]; /* addresses of the registers of each core, by its number */
    /* number of blocks that have reached the first barrier, which also assigns their numbers */
    uint32_t arrived;
    uint32_t computed; /* number of blocks that have reached the second barrier */
    uint32_t lonely;   /* not 0: a block has waited for the others in vain */
    struct {
        uint32_t has_come;
        uint32_t number;
        uint64_t result;
    } core[CORES];
    uint32_t answer; /* number of cores whose condition register had the expected value */
};

/* Arguments of a launch on the control processor. */
struct launch {
    uint64_t run;
    uint64_t value;
};

/* Arguments of the bootstrap; the offsets are the vendor's. */
struct boot_launch {
    uint64_t unused[5];
    uint64_t args; /* at offset 40: address of a struct boot_args on the card */
};

struct boot_args {
    uint64_t unused[12];
    uint64_t object; /* +96 */
    uint64_t object_bytes;
    uint64_t device;
    uint64_t inner; /* the following fields belong to the dispatcher */
    uint64_t inner_bytes;
    uint64_t written;
    char name[64];
};

#endif

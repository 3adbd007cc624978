/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph that is built here and run elsewhere, on a chip whose memory this processor does not reach.
 * Addresses are that chip's.
 */
#ifndef PTO_ELSEWHERE_H
#define PTO_ELSEWHERE_H

#include <stdbool.h>
#include <stdint.h>

struct built_graph;

struct orch_elsewhere {
    bool is_once; /* it is run once, and right away: nothing that it read can have changed */
    /* Memory here for `built`, so many bytes; and where its outputs will be. NULL: there is none. */
    char *(*take)(void *context, struct built_graph *built, uint64_t bytes, uint64_t *heap_out);
    /* Single elements. False: there is no such memory. */
    bool (*read)(void *context, uint64_t addr, uint32_t bytes, uint64_t *bits_out);
    bool (*write)(void *context, uint64_t addr, uint32_t bytes, uint64_t bits);
    void *context;
};

#endif

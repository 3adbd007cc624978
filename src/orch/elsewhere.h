/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callbacks for a graph that is built here but runs on a chip whose memory this processor cannot
 * access. All addresses are that chip's.
 */
#ifndef PTO_ELSEWHERE_H
#define PTO_ELSEWHERE_H

#include <stdbool.h>
#include <stdint.h>

struct built_graph;

struct orch_elsewhere {
    /*
     * the graph is launched only once, directly after the build, so nothing that it read can have
     * changed
     */
    bool is_once;
    bool has_orders; /* record the facts of ORCH_ORDERS (built_graph.h) as well */
    /*
     * Reserves `bytes` of memory in this process for `built`; *heap_out is where its outputs will
     * be. NULL: out of memory.
     */
    char *(*take)(void *context, struct built_graph *built, uint64_t bytes, uint64_t *heap_out);
    /*
     * Read and write a single element in the chip's memory. False: the chip has no memory at this
     * address.
     */
    bool (*read)(void *context, uint64_t addr, uint32_t bytes, uint64_t *bits_out);
    bool (*write)(void *context, uint64_t addr, uint32_t bytes, uint64_t bits);
    void *context;
};

#endif

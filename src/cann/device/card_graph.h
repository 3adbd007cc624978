/* SPDX-License-Identifier: Apache-2.0 */
/* Layout of a graph in the card's memory, for the host and the card: either may have built it. */
#ifndef PTO_CARD_GRAPH_H
#define PTO_CARD_GRAPH_H

#include "cann/device/message.h"
#include "orch/built_graph.h"

/*
 * A graph in the card's memory. Its arrays follow, starting at CARD_GRAPH_HEAD; after them, if the
 * host has built it, the sites of its tasks and the names of their files. Its outputs are in
 * separate memory.
 */
struct card_graph {
    /* if the host has built the graph, the card ignores the pointers in `built` */
    struct built_graph built;
    uint64_t bytes; /* bytes of the whole graph, this struct included */
};

enum { CARD_GRAPH_HEAD = MESSAGE_ALIGNED(sizeof(struct card_graph)) };

/*
 * The assertions below check the layout, on which the compilers of the host and of the card must
 * agree.
 */
static_assert(sizeof(struct image) == 136 && offsetof(struct image, heap) == 56 &&
                  offsetof(struct image, edge_count) == 80 &&
                  offsetof(struct image, early_count) == 108 &&
                  offsetof(struct image, is_plain) == 113 &&
                  offsetof(struct image, passed_count) == 120 &&
                  offsetof(struct image, bytes) == 128,
              "host and card use the same layout");
static_assert(sizeof(struct image_patch) == 16 && sizeof(struct passed_scalar) == 8 &&
                  sizeof(struct graph_fact) == 40 && sizeof(struct slot_predicate) == 24 &&
                  sizeof(struct pto_site) == 16 && sizeof(struct sharing_choice) == 104 &&
                  offsetof(struct built_graph, built) == 240 &&
                  offsetof(struct built_graph, varying) == 280 &&
                  offsetof(struct built_graph, has_guards) == 312 &&
                  offsetof(struct built_graph, list) == 320 && sizeof(struct card_graph) == 408,
              "host and card use the same layout");

#endif

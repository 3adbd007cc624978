/* SPDX-License-Identifier: Apache-2.0 */
/* A graph as it lies in the card's memory, for both sides: built there, or on the host. */
#ifndef PTO_CARD_GRAPH_H
#define PTO_CARD_GRAPH_H

#include "cann/device/message.h"
#include "orch/built_graph.h"

/*
 * A graph in the card's memory. Behind it, from CARD_GRAPH_HEAD on: what belongs to it, and the sites of
 * its tasks with the names of files, if the host has built it. Its outputs are elsewhere.
 */
struct card_graph {
    struct built_graph built; /* of one from the host no pointer counts */
    uint64_t bytes;           /* of everything */
};

enum { CARD_GRAPH_HEAD = MESSAGE_ALIGNED(sizeof(struct card_graph)) };

/* As two compilers for different processors have it. */
static_assert(sizeof(struct image) == 136 && offsetof(struct image, heap) == 56 &&
                  offsetof(struct image, edge_count) == 80 &&
                  offsetof(struct image, early_count) == 108 &&
                  offsetof(struct image, is_plain) == 113 &&
                  offsetof(struct image, passed_count) == 120 &&
                  offsetof(struct image, bytes) == 128,
              "between the host and the card");
static_assert(sizeof(struct image_patch) == 16 && sizeof(struct passed_scalar) == 8 &&
                  sizeof(struct graph_fact) == 40 && sizeof(struct slot_predicate) == 24 &&
                  sizeof(struct pto_site) == 16 && sizeof(struct sharing_choice) == 104 &&
                  offsetof(struct built_graph, built) == 240 &&
                  offsetof(struct built_graph, varying) == 280 &&
                  offsetof(struct built_graph, has_guards) == 312 &&
                  offsetof(struct built_graph, list) == 320 && sizeof(struct card_graph) == 392,
              "between the host and the card");

#endif

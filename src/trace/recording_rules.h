/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies the ordering rules of docs/user/ordering.md to recorded arguments: finds every edge that
 * the rules ask for, with its reason, regardless of when the tasks ended. The engine, in contrast,
 * forgets tasks that have ended.
 */
#ifndef PTO_TRACE_RECORDING_RULES_H
#define PTO_TRACE_RECORDING_RULES_H

#include "overlap/geom.h"
#include "trace/recording_data.h"
#include "trace/recording_hash.h"

/* One access of a task to a region. */
struct rules_access {
    uint32_t task;
    /*
     * for readers only: the first task whose accesses to overlapping regions the reader waits for
     */
    uint32_t floor;
    int16_t argument;
    bool is_superseded; /* for writers only: a later task has read what it wrote */
};

struct rules_list {
    struct rules_access *at;
    uint32_t count;
    uint32_t max;
};

/* A region, its accesses in submission order, and the regions that overlap it. */
struct rules_region {
    struct geom geom;
    /* 0: external memory; else 1 + the creator's id, because addresses are reused */
    uint64_t space;
    struct rules_list writers;
    struct rules_list readers;
    /* overlapping regions, as 2 * index + (1 if this region covers the other one) */
    uint32_t *near;
    uint32_t near_count;
    uint32_t near_max;
    uint32_t next;        /* next region with the same interval */
    uint32_t bucket_next; /* next region in the same bucket */
    uint32_t level_next;  /* next region in the list level_first[] */
};

enum { RULES_LEVELS = 65 };

struct rules {
    struct recording *r;
    struct rules_region *region;
    uint32_t region_count;
    uint32_t region_max;
    struct hash_table by_interval; /* by start and end: index of the first region, then by `next` */
    struct hash_table by_bucket; /* by address: index of the first region, then by `bucket_next` */
    uint32_t level_first[RULES_LEVELS];
    uint32_t level_count[RULES_LEVELS];
    struct hash_table by_id; /* finds the index of a task by a hash of its id */
    uint64_t edge_max;
    uint32_t ordered_from; /* no task with this index or a later one is in a MANUAL scope */
    bool has_failed;       /* out of memory */
};

/* Adds an edge to the recording. */
void recording_add_edge(struct rules *rules, struct recording_edge edge);

/* recording_regions.c: finds the region, or adds it; NULL: it is empty, or memory is exhausted. */
struct rules_region *recording_enter_region(struct rules *rules, const struct geom *geom,
                                            uint64_t space);
void recording_list_add(struct rules *rules, struct rules_list *list, struct rules_access access);
void recording_free_rules(struct rules *rules);

#endif

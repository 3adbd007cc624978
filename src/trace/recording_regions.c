/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the recorded regions that overlap a region.
 *
 * Regions are grouped into levels by the length of their interval, rounded up to a power of two,
 * and within a level into buckets by the begin of the interval. A search therefore looks into a few
 * buckets of each level.
 */
#include <stdlib.h>
#include <string.h>

#include "trace/recording_rules.h"

void recording_list_add(struct rules *rules, struct rules_list *list, struct rules_access access)
{
    if (list->count == list->max) {
        uint32_t max = 2 * list->max + 1;
        struct rules_access *grown = realloc(list->at, max * sizeof(*grown));

        if (grown == NULL) {
            rules->has_failed = true;
            return;
        }
        list->at = grown;
        list->max = max;
    }
    list->at[list->count++] = access;
}

static void regions_add_near(struct rules *rules, struct rules_region *to, uint32_t index,
                             bool covers)
{
    if (to->near_count == to->near_max) {
        uint32_t max = 2 * to->near_max + 2;
        uint32_t *grown = realloc(to->near, max * sizeof(*grown));

        if (grown == NULL) {
            rules->has_failed = true;
            return;
        }
        to->near = grown;
        to->near_max = max;
    }
    to->near[to->near_count++] = 2 * index + covers;
}

/*
 * Returns the level of an interval: the exponent of the smallest power of two that is not less than
 * its length.
 */
static uint32_t regions_level(const struct geom *g)
{
    uint64_t length = g->hi - g->lo;

    return length <= 1 ? 0 : 64 - (uint32_t)__builtin_clzll(length - 1);
}

static uint64_t regions_bucket(uint64_t space, uint32_t level, uint64_t at)
{
    return hash_add(hash_add(hash_add(HASH_BASIS, space), level), level < 64 ? at >> level : 0);
}

static void regions_compare(struct rules *rules, uint32_t index, uint32_t other)
{
    struct rules_region *a = &rules->region[index], *b = &rules->region[other];
    enum overlap forth;

    if (a->space != b->space || a->geom.hi <= b->geom.lo || b->geom.hi <= a->geom.lo)
        return;
    forth = overlap_safe(&a->geom, &b->geom);
    if (forth == OVERLAP_NONE)
        return;
    regions_add_near(rules, a, other, forth == OVERLAP_COVERS);
    regions_add_near(rules, b, index, overlap_safe(&b->geom, &a->geom) == OVERLAP_COVERS);
}

/*
 * Compares the region with those of one level that may overlap it: those in a few buckets, or all
 * if the level has fewer regions than that.
 */
static void regions_search_level(struct rules *rules, uint32_t index, uint32_t level)
{
    const struct rules_region *x = &rules->region[index];
    uint64_t first = level < 64 ? x->geom.lo >> level : 0;
    uint64_t last = level < 64 ? (x->geom.hi - 1) >> level : 0;

    /* begin one bucket earlier, because an interval that begins there may end in this bucket */
    first -= first != 0;
    if (last - first >= rules->level_count[level]) {
        for (uint32_t i = rules->level_first[level]; i != HASH_NONE;
             i = rules->region[i].level_next)
            regions_compare(rules, index, i);
        return;
    }
    for (uint64_t bucket = first; bucket <= last; bucket++) {
        uint64_t key = regions_bucket(x->space, level, level < 64 ? bucket << level : 0);

        for (uint32_t i = hash_value(&rules->by_bucket, key); i != HASH_NONE;
             i = rules->region[i].bucket_next)
            regions_compare(rules, index, i);
    }
}

/* Makes `index` the head of the key's list. Returns the previous head, or HASH_NONE. */
static uint32_t regions_put_first(struct rules *rules, struct hash_table *table, uint64_t key,
                                  uint32_t index)
{
    uint32_t before = hash_value(table, key);

    if (before == HASH_NONE && hash_enter(table, key, index) == HASH_NONE) {
        rules->has_failed = true;
        return HASH_NONE;
    }
    hash_find(table, key)->value = index + 1;
    return before;
}

/* Links a new region with the regions that overlap it, and inserts it into the search tables. */
static void regions_link(struct rules *rules, uint32_t index, uint64_t key)
{
    struct rules_region *x = &rules->region[index];
    uint32_t level = regions_level(&x->geom);

    for (uint32_t i = 0; i < RULES_LEVELS; i++)
        if (rules->level_count[i] != 0)
            regions_search_level(rules, index, i);
    x->next = regions_put_first(rules, &rules->by_interval, key, index);
    x->bucket_next = regions_put_first(rules, &rules->by_bucket,
                                       regions_bucket(x->space, level, x->geom.lo), index);
    x->level_next = rules->level_count[level] != 0 ? rules->level_first[level] : HASH_NONE;
    rules->level_first[level] = index;
    rules->level_count[level]++;
}

struct rules_region *recording_enter_region(struct rules *rules, const struct geom *geom,
                                            uint64_t space)
{
    uint64_t key = hash_add(hash_add(hash_add(HASH_BASIS, space), geom->lo), geom->hi);

    if (geom->hi <= geom->lo)
        return NULL;
    for (uint32_t i = hash_value(&rules->by_interval, key); i != HASH_NONE;
         i = rules->region[i].next)
        if (rules->region[i].space == space && geom_equal(geom, &rules->region[i].geom))
            return &rules->region[i];
    if (rules->region_count == rules->region_max) {
        uint32_t max = 2 * rules->region_max + 256;
        struct rules_region *grown =
            max < UINT32_MAX / 2 ? realloc(rules->region, max * sizeof(*grown)) : NULL;

        if (grown == NULL) {
            rules->has_failed = true;
            return NULL;
        }
        rules->region = grown;
        rules->region_max = max;
    }
    rules->region[rules->region_count] = (struct rules_region){ .geom = *geom, .space = space };
    regions_link(rules, rules->region_count, key);
    return &rules->region[rules->region_count++];
}

void recording_free_rules(struct rules *rules)
{
    for (uint32_t i = 0; i < rules->region_count; i++) {
        free(rules->region[i].writers.at);
        free(rules->region[i].readers.at);
        free(rules->region[i].near);
    }
    free(rules->region);
    hash_free(&rules->by_interval);
    hash_free(&rules->by_bucket);
    hash_free(&rules->by_id);
}

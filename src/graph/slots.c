/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots and task ids. Within a size class the slot that was freed last is used first, so a graph
 * that drains as fast as it is built stays in the cache.
 */
#include <string.h>

#include "graph/graph.h"

/* Size of a slot in lines, by size class. class_for (submit.h) chooses a task's class. */
static const uint8_t class_lines[SLOT_CLASS_COUNT] = { 3, 5, 7, 9, 11, 15, 21, 35, SLOT_LINES_MAX };

enum { SLOTS_AHEAD = 16 };

static void put_chunks(struct graph *g, struct slot_info *info);
static int grow_ids(struct graph *g, struct id_map *map);
static bool id_is_alive(const struct graph *g, const struct id_entry *e);

bool slot_clean(struct graph *g, struct slot_info *info)
{
    if (info == &g->info[0])
        return false;
    put_chunks(g, info);
    return true;
}

struct slot_info *slot_make(struct graph *g, uint32_t size_class)
{
    char *memory = pool_take(&g->slot_pool, (uint64_t)class_lines[size_class] * SLOT_LINE_BYTES);
    struct slot_info *info;
    struct slot *s;

    if (memory == NULL || pool_take(&g->info_pool, sizeof(struct slot_info)) == NULL)
        return NULL;
    /*
     * Prefetches slots that will be allocated next: new slots are adjacent as long as none was
     * freed, as while a graph is built but does not run yet. The last line of a slot is rarely used
     * and not prefetched.
     */
    for (uint32_t i = 0; i + 1 < class_lines[size_class]; i++)
        __builtin_prefetch(memory + (SLOTS_AHEAD * class_lines[size_class] + i) * SLOT_LINE_BYTES,
                           1, 3);
    s = (struct slot *)(void *)memory;
    s->number = g->info_count++;
    s->edge_chunk = 0;
    s->retained_chunk = 0;
    s->flags = 0;
    info = &g->info[s->number];
    *info = (struct slot_info){ .line = graph_slot_line(g, s), .size_class = (uint8_t)size_class };
    return info;
}

/* Frees the chunks that extended the edges and retained buffers of the slot's last task. */
static void put_chunks(struct graph *g, struct slot_info *info)
{
    struct slot *s = graph_slot(g, info->line);
    struct edge_chunk *edges = (struct edge_chunk *)(void *)g->edge_pool.base;
    struct retained_chunk *retained = (struct retained_chunk *)(void *)g->retained_pool.base;

    while (s->edge_chunk != 0) {
        uint32_t index = s->edge_chunk;

        s->edge_chunk = edges[index].next;
        edges[index].next = g->free_edge_chunk;
        g->free_edge_chunk = index;
    }
    while (s->retained_chunk != 0) {
        uint32_t index = s->retained_chunk;

        s->retained_chunk = retained[index].next;
        retained[index].next = g->free_retained_chunk;
        g->free_retained_chunk = index;
    }
    info->is_spilled = false;
}

struct id_entry *ids_make_room(struct graph *g)
{
    for (;;) {
        struct id_entry *e = ids_next(g);

        if (e->seq == 0 || !id_is_alive(g, e))
            return e;
        if (grow_ids(g, g->ids_now) < 0)
            return NULL;
    }
}

bool ids_was_given(const struct graph *g, struct pto_task_id id)
{
    uint32_t ring = pto_task_id_ring(id);

    return ring < GRAPH_RINGS && pto_task_id_local(id) < g->ids[ring].next_local;
}

static bool id_is_alive(const struct graph *g, const struct id_entry *e)
{
    struct ref r = { e->slot, e->seq };

    return (e->slot != 0 && graph_is_alive(g, r)) ||
           (e->buffer != 0 && graph_buffer(g, e->buffer)->seq == e->seq);
}

/*
 * Doubles a map of ids. Called when the entry for the next id belongs to a task that has been live
 * for long. The map fills its pool from the start, so the new half follows the old one, and an
 * entry either stays or moves by the old size.
 */
static int grow_ids(struct graph *g, struct id_map *map)
{
    uint32_t count = map->mask + 1;
    struct id_entry *entry = map->entry;
    struct id_entry *more = pool_take(&map->pool, count * sizeof(struct id_entry));

    if (more == NULL)
        return PTO_ENOMEM;
    port_assert(more == entry + count);
    memset(more, 0, count * sizeof(struct id_entry));
    for (uint32_t i = 0; i < count; i++) {
        bool is_kept = entry[i].seq != 0 && id_is_alive(g, &entry[i]);

        if (is_kept && (entry[i].local & count) == 0)
            continue;
        if (is_kept)
            more[i] = entry[i];
        entry[i] = (struct id_entry){ 0 };
    }
    map->mask = 2 * count - 1;
    return PTO_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access to single elements: the operand of a predicate, and elements that an orchestration itself
 * reads or writes.
 */
#include "graph/graph.h"

bool graph_find_element(const struct pto_tensor *t, uint32_t ndims, const uint32_t indices[],
                        struct pto_tensor *out, enum data_fault *why_out)
{
    uint64_t start;

    *why_out = DATA_TENSOR;
    if (t == NULL || t->ndims - 1 >= PTO_MAX_DIMS || t->dtype >= PTO_DTYPE_COUNT)
        return false;
    *why_out = DATA_NDIMS;
    if (ndims > t->ndims || (ndims != 0 && indices == NULL))
        return false;
    *why_out = DATA_INDEX;
    start = t->start;
    for (uint32_t d = 0; d < t->ndims; d++) {
        uint32_t index = d < ndims ? indices[d] : 0;

        if (index >= t->shapes[d])
            return false;
        start += (uint64_t)index * t->strides[d];
    }
    if (start >= t->size / pto_dtype_size(t->dtype))
        return false;
    *out = *t;
    out->start = start;
    out->ndims = 1;
    out->shapes[0] = 1;
    out->strides[0] = 1;
    pto_tensor_update(out);
    return true;
}

int graph_element(struct graph *g, const struct pto_tensor *t, uint32_t ndims,
                  const uint32_t indices[], enum failure_kind fault, struct pto_tensor *out)
{
    enum data_fault why;

    return graph_find_element(t, ndims, indices, out, &why) ? PTO_OK
                                                            : graph_refuse(g, fault, -1, why);
}

/* ---- users of an element ---- */

/* if the graph has at most this many slots, all are searched one by one, without a tree */
enum { WALK_MAX = 256 };

/*
 * How a task uses a tensor's elements: PTO_WRITES is set if it writes; 0: it does not access them.
 */
static uint32_t use_of(const struct pto_tensor *x)
{
    uint32_t use = pto_tag_use(x->tag);

    return x->manual_dep && (use & PTO_CREATES) == 0 ? 0 : use;
}

/*
 * Whether a task uses the element. A live slot's descriptors do not change, so the submitter may
 * read them while the task runs.
 */
static bool is_user(struct slot *s, const struct geom *element, bool with_readers)
{
    for (uint32_t i = 0; i < s->tensor_count; i++) {
        uint32_t use = use_of(&s->tensor[i]);
        struct geom geom;

        if (use == 0 || ((use & PTO_WRITES) == 0 && !with_readers))
            continue;
        geom_init_safe(&geom, &s->tensor[i]);
        if (overlap_safe(element, &geom) != OVERLAP_NONE)
            return true;
    }
    if (with_readers && (s->flags & SLOT_HAS_PREDICATE) != 0) {
        const struct slot_predicate *p = slot_predicate(s);

        return p->addr < element->hi && p->addr + p->bytes > element->lo;
    }
    return false;
}

static bool list_bytes(struct graph *g, const struct slot *s, uint64_t lo, uint64_t hi,
                       bool is_read)
{
    struct tree_bounds bounds = { .lo = lo, .hi = hi, .frame = TREE_PLAIN };

    return lo >= hi || region_tree_insert(&g->users.tree[is_read], &bounds, s->number, s->seq);
}

static bool list_task(struct graph *g, struct slot *s)
{
    bool is_listed = true;

    for (uint32_t i = 0; i < s->tensor_count && is_listed; i++) {
        uint32_t use = use_of(&s->tensor[i]);
        struct geom geom;

        if (use == 0)
            continue;
        geom_init_safe(&geom, &s->tensor[i]);
        is_listed = list_bytes(g, s, geom.lo, geom.hi, (use & PTO_WRITES) == 0);
    }
    if (is_listed && (s->flags & SLOT_HAS_PREDICATE) != 0) {
        const struct slot_predicate *p = slot_predicate(s);

        is_listed = list_bytes(g, s, p->addr, p->addr + p->bytes, true);
    }
    return is_listed;
}

/*
 * Adds the live tasks of a ring that are not in the trees of struct graph_users yet. The ring's map
 * of ids has an entry for every live task.
 */
static bool list_ring(struct graph *g, uint32_t ring)
{
    const struct id_map *map = &g->ids[ring];
    uint32_t local = g->users.next_local[ring];

    if (map->next_local - local > map->mask)
        local = map->next_local - map->mask - 1;
    for (; local != map->next_local; local++) {
        const struct id_entry *e = &map->entry[local & map->mask];
        struct ref r = { e->slot, e->seq };

        if (e->seq != 0 && e->local == local && e->slot != 0 && graph_is_alive(g, r) &&
            !list_task(g, graph_slot(g, g->info[e->slot].line)))
            return false;
    }
    g->users.next_local[ring] = local;
    return true;
}

/*
 * Adds the tasks that were submitted since the last call to the trees. If the trees have become too
 * large, most of their tasks have completed, so the trees are rebuilt from the live tasks.
 */
static bool list_users(struct graph *g)
{
    struct graph_users *u = &g->users;
    bool is_new = !u->is_made || u->tree[0].leaves + u->tree[1].leaves > u->leaves_max;

    u->is_made = false;
    if (is_new && (!region_tree_clear(&u->tree[0]) || !region_tree_clear(&u->tree[1])))
        return false;
    for (uint32_t ring = 0; ring < GRAPH_RINGS; ring++) {
        u->next_local[ring] = is_new ? 0 : u->next_local[ring];
        if (!list_ring(g, ring))
            return false;
    }
    if (is_new)
        u->leaves_max = 2 * (u->tree[0].leaves + u->tree[1].leaves) + WALK_MAX;
    u->is_made = true;
    return true;
}

struct user_probe {
    /* must be first: visit_user casts the address of this member to the struct */
    struct tree_probe tree;
    struct graph *g;
    const struct geom *element;
    bool with_readers;
    struct ref found;
};

static bool visit_user(struct tree_probe *tree, uint32_t leaf, uint32_t serial)
{
    struct user_probe *p = (struct user_probe *)tree;
    struct ref r = { leaf, serial };

    if (!graph_is_alive(p->g, r))
        return false;
    if (is_user(graph_slot(p->g, p->g->info[leaf].line), p->element, p->with_readers)) {
        p->found = r;
        tree->is_over = true;
    }
    return true;
}

static struct ref search_users(struct graph *g, const struct geom *element, bool with_readers)
{
    struct user_probe p = { .g = g, .element = element, .with_readers = with_readers };

    p.tree.bounds = (struct tree_bounds){ element->lo, element->hi, .frame = TREE_PLAIN };
    p.tree.visit = visit_user;
    region_tree_search(&g->users.tree[0], &p.tree);
    if (with_readers && p.found.slot == 0)
        region_tree_search(&g->users.tree[1], &p.tree);
    return p.found;
}

uint32_t graph_find_user(struct graph *g, const struct pto_tensor *element, bool with_readers,
                         uint32_t from, uint32_t *seq_out)
{
    struct geom geom;

    if (g->deps == PTO_DEPS_SAFE && !g->has_unlisted) {
        struct ref user = region_find_user(&g->regions, element, with_readers);

        *seq_out = user.seq;
        if (!g->regions.is_short)
            return user.slot;
    }
    geom_init_safe(&geom, element);
    if (g->info_count > WALK_MAX && list_users(g)) {
        struct ref user = search_users(g, &geom, with_readers);

        *seq_out = user.seq;
        return user.slot;
    }
    for (uint32_t number = from; number < g->info_count; number++) {
        const struct slot_info *info = &g->info[number];

        if (info->seq != 0 && is_user(graph_slot(g, info->line), &geom, with_readers)) {
            *seq_out = info->seq;
            return number;
        }
    }
    return 0;
}

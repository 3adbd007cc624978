/* SPDX-License-Identifier: Apache-2.0 */
/* The tree over the bounds of regions: insertion, splits and search. */
#include "overlap/region_tree.h"

#include <assert.h>

enum { FILL_MIN = 7, OVERFULL = TREE_FANOUT + 1 };

static_assert(sizeof(struct tree_node) % 64 == 0, "nodes must start at a cache line");

/* An entry while it moves from one node to another. */
struct loose_entry {
    struct tree_bounds bounds;
    uint32_t child;
    uint32_t serial;
};

/* How a full node is divided: its entries in order, of which the first `cut` stay. */
struct division {
    double score; /* overlap of the two halves as a fraction of the whole: smaller is better */
    double cells; /* length of the whole divided by the mean length of an entry: larger is better */
    uint32_t cut;
    uint8_t order[OVERFULL];
};

static uint32_t take_node(struct region_tree *tree, uint32_t height);
static bool raise_root(struct region_tree *tree, uint32_t other);
static void tree_join(struct region_tree *tree, struct tree_bounds *a, const struct tree_bounds *b);
static uint32_t choose(struct region_tree *tree, const struct tree_node *n,
                       const struct tree_bounds *item);
static void stretch(struct region_tree *tree, struct tree_node *n, uint32_t i,
                    const struct tree_bounds *item);
static uint32_t split(struct region_tree *tree, uint32_t index, const struct loose_entry *extra);

static inline struct tree_node *node_at(const struct region_tree *tree, uint32_t index)
{
    return &tree->node[index];
}

static inline bool tree_is_interval(uint32_t frame)
{
    return frame >= TREE_LOOSE;
}

static inline bool is_frame(uint32_t frame)
{
    return frame != TREE_MIXED && frame < TREE_LOOSE;
}

static void get_bounds(const struct tree_node *n, uint32_t i, struct tree_bounds *out)
{
    out->lo = n->lo[i];
    out->hi = n->hi[i];
    out->last = n->last[i];
    out->frame = n->frame[i];
    out->dims = n->dims[i];
    for (uint32_t d = 0; d < out->dims; d++) {
        out->min[d] = n->in[d].min[i];
        out->max[d] = n->in[d].max[i];
    }
}

static void set_bounds(struct tree_node *n, uint32_t i, const struct tree_bounds *b)
{
    n->lo[i] = b->lo;
    n->hi[i] = b->hi;
    n->last[i] = b->last;
    n->frame[i] = b->frame;
    n->dims[i] = (uint8_t)b->dims;
    for (uint32_t d = 0; d < b->dims; d++) {
        n->in[d].min[i] = b->min[d];
        n->in[d].max[i] = b->max[d];
    }
}

static void put_entry(struct tree_node *n, const struct tree_bounds *bounds, uint32_t child,
                      uint32_t serial)
{
    set_bounds(n, n->count, bounds);
    n->child[n->count] = child;
    n->serial[n->count++] = serial;
}

bool region_tree_clear(struct region_tree *tree)
{
    tree->pool.used = 0;
    tree->node = pool_take(&tree->pool, sizeof(struct tree_node));
    tree->node_count = 1;
    tree->free = 0;
    tree->root = 0;
    tree->leaves = 0;
    return tree->node != NULL;
}

static uint32_t take_node(struct region_tree *tree, uint32_t height)
{
    uint32_t index = tree->free;
    struct tree_node *n;

    if (index != 0)
        tree->free = node_at(tree, index)->next_free;
    else if (pool_take(&tree->pool, sizeof(struct tree_node)) == NULL)
        return 0;
    else
        index = tree->node_count++;
    n = node_at(tree, index);
    n->count = 0;
    n->height = height;
    return index;
}

static void free_node(struct region_tree *tree, uint32_t index)
{
    node_at(tree, index)->next_free = tree->free;
    tree->free = index;
}

/* ---- comparison of all entries of a node at once ---- */

static inline uint32_t all_entries(const struct tree_node *n)
{
    return (1u << n->count) - 1;
}

/*
 * Returns a bit mask of the entries that are not marked. Callers compare all entries of a node,
 * even unused ones, without branches: compilers vectorise that, and all lines of the node are
 * loaded at once.
 */
static inline uint32_t unmarked(const struct tree_node *n, const uint32_t mark[TREE_FANOUT])
{
    static const uint32_t bit[TREE_FANOUT] = { 1,       1 << 1,  1 << 2,  1 << 3, 1 << 4,  1 << 5,
                                               1 << 6,  1 << 7,  1 << 8,  1 << 9, 1 << 10, 1 << 11,
                                               1 << 12, 1 << 13, 1 << 14, 1 << 15 };
    uint32_t marked = 0;

    for (uint32_t i = 0; i < TREE_FANOUT; i++)
        marked |= mark[i] & bit[i];
    return ~marked & all_entries(n);
}

/*
 * Returns a bit mask of the entries that, in each dimension, begin at `from` or before and end at
 * `to` or after. Not inline, to save registers in a search among entries of many frames.
 */
static __attribute__((noinline)) uint32_t entries_within(const struct tree_node *n, uint32_t dims,
                                                         const uint32_t *from, const uint32_t *to)
{
    uint32_t mark[TREE_FANOUT] = { 0 };

    for (uint32_t d = 0; d < dims; d++) {
        uint32_t first = from[d], last = to[d];

        for (uint32_t i = 0; i < TREE_FANOUT; i++)
            /* mutation: blind-to-indices */
            mark[i] |= -(uint32_t)((n->in[d].min[i] > first) | (n->in[d].max[i] < last));
    }
    return unmarked(n, mark);
}

static inline bool are_all_of(const struct tree_node *n, uint32_t frame)
{
    uint32_t mark[TREE_FANOUT];

    if (n->frame[0] != frame)
        return false;
    for (uint32_t i = 0; i < TREE_FANOUT; i++)
        mark[i] = n->frame[i] != frame ? UINT32_MAX : 0;
    return unmarked(n, mark) == all_entries(n);
}

/* ---- bounds ---- */

/* Extends `a` to contain `b`. */
static void tree_join(struct region_tree *tree, struct tree_bounds *a, const struct tree_bounds *b)
{
    struct tree_bounds in_frame;

    if (is_frame(a->frame) && tree_is_interval(b->frame)) {
        in_frame = *b;
        tree->convert(tree->context, a->frame, &in_frame);
        b = &in_frame;
    } else if (tree_is_interval(a->frame) && is_frame(b->frame)) {
        tree->convert(tree->context, b->frame, a);
    } else if (tree_is_interval(a->frame) && tree_is_interval(b->frame)) {
        a->frame = a->frame < b->frame ? a->frame : b->frame;
    } else if (a->frame != b->frame) {
        a->frame = TREE_MIXED;
        a->dims = 0;
    }
    a->lo = a->lo < b->lo ? a->lo : b->lo;
    a->hi = a->hi > b->hi ? a->hi : b->hi;
    a->last = a->last > b->last ? a->last : b->last;
    for (uint32_t d = 0; d < a->dims; d++) {
        a->min[d] = a->min[d] < b->min[d] ? a->min[d] : b->min[d];
        a->max[d] = a->max[d] > b->max[d] ? a->max[d] : b->max[d];
    }
}

/* Computes the bounds of everything in a node. */
static void measure(struct region_tree *tree, uint32_t index, struct tree_bounds *out)
{
    const struct tree_node *n = node_at(tree, index);

    get_bounds(n, 0, out);
    for (uint32_t i = 1; i < n->count; i++) {
        struct tree_bounds b;

        get_bounds(n, i, &b);
        tree_join(tree, out, &b);
    }
}

/* ---- insertion ---- */

/* Path from the root to the node where an item is inserted. */
struct descent {
    uint32_t node[TREE_DEPTH_MAX];
    uint32_t taken[TREE_DEPTH_MAX];
    uint32_t depth;
};

/* Inserts an item into a leaf node that is full. */
static bool insert_into_full(struct region_tree *tree, uint32_t index, struct descent *path,
                             struct loose_entry *extra)
{
    while (node_at(tree, index)->count == TREE_FANOUT) {
        uint32_t other = split(tree, index, extra);
        struct tree_bounds reach;

        if (other == 0)
            return false;
        if (path->depth-- == 0)
            return raise_root(tree, other);
        measure(tree, index, &reach);
        set_bounds(node_at(tree, path->node[path->depth]), path->taken[path->depth], &reach);
        measure(tree, other, &extra->bounds);
        extra->child = other;
        index = path->node[path->depth];
    }
    put_entry(node_at(tree, index), &extra->bounds, extra->child, extra->serial);
    return true;
}

/*
 * Bounds are copied only if a node is full. The copy uses wide loads, which would have to wait for
 * the narrow stores that wrote the bounds, and those stores may miss the cache.
 */
bool region_tree_insert(struct region_tree *tree, const struct tree_bounds *bounds, uint32_t leaf,
                        uint32_t serial)
{
    struct descent path;
    struct loose_entry extra;
    uint32_t index;

    if (tree->root == 0 && (tree->root = take_node(tree, 0)) == 0)
        return false;
    path.depth = 0;
    for (index = tree->root; node_at(tree, index)->height != 0; path.depth++) {
        struct tree_node *n = node_at(tree, index);
        uint32_t taken = choose(tree, n, bounds);

        path.node[path.depth] = index;
        path.taken[path.depth] = taken;
        stretch(tree, n, taken, bounds);
        index = n->child[taken];
    }
    tree->leaves++;
    if (node_at(tree, index)->count != TREE_FANOUT) {
        put_entry(node_at(tree, index), bounds, leaf, serial);
        return true;
    }
    extra = (struct loose_entry){ *bounds, leaf, serial };
    return insert_into_full(tree, index, &path, &extra);
}

/* Called when the root was split: adds a new root above both halves. */
static bool raise_root(struct region_tree *tree, uint32_t other)
{
    uint32_t half[2] = { tree->root, other };
    uint32_t root = take_node(tree, node_at(tree, other)->height + 1);

    if (root == 0)
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        struct tree_bounds reach;

        measure(tree, half[i], &reach);
        put_entry(node_at(tree, root), &reach, half[i], 0);
    }
    tree->root = root;
    return true;
}

static uint32_t choose_by_bytes(const struct tree_node *n, const struct tree_bounds *item)
{
    uint64_t growth = UINT64_MAX, size = UINT64_MAX;
    uint32_t best = 0;

    for (uint32_t i = 0; i < n->count; i++) {
        uint64_t lo = n->lo[i] < item->lo ? n->lo[i] : item->lo;
        uint64_t hi = n->hi[i] > item->hi ? n->hi[i] : item->hi;
        uint64_t was = n->hi[i] - n->lo[i];
        uint64_t more = hi - lo - was;

        if (more < growth || (more == growth && was < size)) {
            best = i;
            growth = more;
            size = was;
        }
    }
    return best;
}

/* Number of indices from `min` to `max`. A signed number is quicker to convert. */
static inline double extent(uint32_t min, uint32_t max)
{
    return (double)((int64_t)max - min + 1);
}

static inline bool holds_in_frame(const struct tree_node *n, uint32_t i,
                                  const struct tree_bounds *b)
{
    for (uint32_t d = 0; d < b->dims; d++)
        if (n->in[d].min[i] > b->min[d] || n->in[d].max[i] < b->max[d])
            return false;
    return true;
}

/* Returns the smallest entry that already contains the item; TREE_FANOUT: none does. */
static uint32_t choose_holder(const struct tree_node *n, const struct tree_bounds *item)
{
    uint32_t holders = entries_within(n, item->dims, item->min, item->max);
    uint32_t best = holders != 0 ? (uint32_t)__builtin_ctz(holders) : TREE_FANOUT;
    double size = 0;

    if ((holders & (holders - 1)) == 0)
        return best;
    for (uint32_t left = holders; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(left);
        double is = 1;

        for (uint32_t d = 0; d < item->dims; d++)
            is *= extent(n->in[d].min[i], n->in[d].max[i]);
        if (left == holders || is < size) {
            best = i;
            size = is;
        }
    }
    return best;
}

/* Returns the entry in `among` whose volume grows least if it is extended to the item. */
static uint32_t choose_growing(const struct tree_node *n, const struct tree_bounds *item,
                               uint32_t among)
{
    double growth = 0, size = 0;
    uint32_t best = TREE_FANOUT;

    for (uint32_t left = among; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(left);
        double was = 1, is = 1;

        for (uint32_t d = 0; d < item->dims; d++) {
            uint32_t min = n->in[d].min[i], max = n->in[d].max[i];

            was *= extent(min, max);
            is *= extent(min < item->min[d] ? min : item->min[d],
                         max > item->max[d] ? max : item->max[d]);
        }
        if (left == among || is - was < growth || (is - was == growth && was < size)) {
            best = i;
            growth = is - was;
            size = was;
        }
    }
    return best;
}

/* Returns a bit mask: the entries that entry i, extended to the item, would overlap; i included. */
static uint32_t meeting_grown(const struct tree_node *n, uint32_t i, const struct tree_bounds *item)
{
    uint32_t min[TREE_DIMS], max[TREE_DIMS];

    for (uint32_t d = 0; d < item->dims; d++) {
        min[d] = n->in[d].min[i] < item->min[d] ? n->in[d].min[i] : item->min[d];
        max[d] = n->in[d].max[i] > item->max[d] ? n->in[d].max[i] : item->max[d];
    }
    return entries_within(n, item->dims, max, min);
}

/* Number of bits set, without a library: not every machine has an instruction for it. */
static inline uint32_t count_entries(uint32_t entries)
{
    static_assert(TREE_FANOUT == 16, "the code below counts 16 bits");
    entries -= entries >> 1 & 0x5555;
    entries = (entries & 0x3333) + (entries >> 2 & 0x3333);
    entries = (entries + (entries >> 4)) & 0x0f0f;
    return (entries + (entries >> 8)) & 0x1f;
}

/* Returns a bit mask: the entries that, extended to the item, would overlap the fewest others. */
static uint32_t meeting_fewest(const struct tree_node *n, const struct tree_bounds *item)
{
    uint32_t fewest = TREE_FANOUT + 1, best = 0;

    for (uint32_t i = 0; i < n->count; i++) {
        uint32_t met = count_entries(meeting_grown(n, i, item));

        if (met < fewest) {
            fewest = met;
            best = 0;
        }
        if (met == fewest)
            best |= 1u << i;
    }
    return best;
}

/*
 * Chooses the entry for an item by indices. A search visits every entry that overlaps the probe, so
 * overlapping entries cost more than large ones.
 */
static uint32_t choose_by_indices(const struct tree_node *n, const struct tree_bounds *item)
{
    uint32_t best = choose_holder(n, item);

    if (best != TREE_FANOUT)
        return best;
    best = choose_growing(n, item, all_entries(n));
    if (meeting_grown(n, best, item) == 1u << best)
        return best;
    return choose_growing(n, item, meeting_fewest(n, item));
}

/*
 * Chooses the entry below which an item is inserted: by indices if all entries are of the item's
 * frame, else by bytes.
 */
static uint32_t choose(struct region_tree *tree, const struct tree_node *n,
                       const struct tree_bounds *item)
{
    struct tree_bounds in_frame;
    uint32_t frame = n->frame[0];

    if (!is_frame(frame) || (frame != item->frame && !tree_is_interval(item->frame)))
        return choose_by_bytes(n, item);
    if (!are_all_of(n, frame))
        return choose_by_bytes(n, item);
    if (frame == item->frame)
        return choose_by_indices(n, item);
    in_frame = *item;
    tree->convert(tree->context, frame, &in_frame);
    return choose_by_indices(n, &in_frame);
}

/* Extends an entry of a node to contain the item. */
static void stretch(struct region_tree *tree, struct tree_node *n, uint32_t i,
                    const struct tree_bounds *item)
{
    struct tree_bounds reach;

    if (n->frame[i] != item->frame) {
        get_bounds(n, i, &reach);
        tree_join(tree, &reach, item);
        set_bounds(n, i, &reach);
        return;
    }
    n->lo[i] = n->lo[i] < item->lo ? n->lo[i] : item->lo;
    n->hi[i] = n->hi[i] > item->hi ? n->hi[i] : item->hi;
    n->last[i] = n->last[i] > item->last ? n->last[i] : item->last;
    for (uint32_t d = 0; d < item->dims; d++) {
        n->in[d].min[i] = n->in[d].min[i] < item->min[d] ? n->in[d].min[i] : item->min[d];
        n->in[d].max[i] = n->in[d].max[i] > item->max[d] ? n->in[d].max[i] : item->max[d];
    }
}

/* ---- splitting ---- */

/* Sorts the entries by their centres in one dimension, and finds the best cut into two halves. */
static void divide(const double lo[OVERFULL], const double hi[OVERFULL], struct division *out)
{
    double left[OVERFULL], right[OVERFULL];
    double extent = 0, span;

    for (uint32_t i = 0; i < OVERFULL; i++) {
        uint32_t k = i;

        for (; k > 0 && lo[out->order[k - 1]] + hi[out->order[k - 1]] > lo[i] + hi[i]; k--)
            out->order[k] = out->order[k - 1];
        out->order[k] = (uint8_t)i;
        extent += hi[i] - lo[i];
    }
    for (uint32_t i = 0; i < OVERFULL; i++) {
        double end = hi[out->order[i]];

        left[i] = i == 0 || end > left[i - 1] ? end : left[i - 1];
    }
    for (uint32_t i = OVERFULL; i-- > 0;) {
        double start = lo[out->order[i]];

        right[i] = i == OVERFULL - 1 || start < right[i + 1] ? start : right[i + 1];
    }
    span = left[OVERFULL - 1] - right[0];
    out->cells = extent > 0 ? span * OVERFULL / extent : 0;
    out->cut = OVERFULL / 2;
    out->score = span > 0 ? (left[out->cut - 1] - right[out->cut]) / span : 1;
    for (uint32_t cut = FILL_MIN; cut <= OVERFULL - FILL_MIN && span > 0; cut++) {
        double score = (left[cut - 1] - right[cut]) / span;

        if (score < out->score) {
            out->score = score;
            out->cut = cut;
        }
    }
}

/* Divides the entries along the dimension of the frame that separates the halves best. */
static void divide_in_frame(const struct tree_bounds in_frame[OVERFULL], struct division *best)
{
    struct division d;

    for (uint32_t dim = 0; dim < in_frame[0].dims; dim++) {
        double lo[OVERFULL], hi[OVERFULL];

        for (uint32_t i = 0; i < OVERFULL; i++) {
            lo[i] = in_frame[i].min[dim];
            hi[i] = (double)in_frame[i].max[dim] + 1;
        }
        divide(lo, hi, &d);
        if (dim == 0 || d.score < best->score || (d.score == best->score && d.cells > best->cells))
            *best = d;
    }
}

/*
 * Divides the entries by their bytes. If that does not separate the halves, puts all entries of one
 * frame into one half.
 */
static void divide_mixed(const struct loose_entry e[OVERFULL], struct division *best)
{
    double lo[OVERFULL], hi[OVERFULL];
    uint32_t with_last = 0, front = 0, back = OVERFULL;

    for (uint32_t i = 0; i < OVERFULL; i++) {
        lo[i] = (double)(e[i].bounds.lo - e[0].bounds.lo);
        hi[i] = (double)(e[i].bounds.hi - e[0].bounds.lo);
        if (e[i].bounds.lo < e[0].bounds.lo)
            lo[i] = -(double)(e[0].bounds.lo - e[i].bounds.lo);
        if (e[i].bounds.hi < e[0].bounds.lo)
            hi[i] = -(double)(e[0].bounds.lo - e[i].bounds.hi);
        with_last += e[i].bounds.frame == e[OVERFULL - 1].bounds.frame;
    }
    divide(lo, hi, best);
    if (best->score < 0.5 || with_last < FILL_MIN || with_last > OVERFULL - FILL_MIN)
        return;
    for (uint32_t i = 0; i < OVERFULL; i++)
        if (e[i].bounds.frame == e[OVERFULL - 1].bounds.frame)
            best->order[front++] = (uint8_t)i;
        else
            best->order[--back] = (uint8_t)i;
    best->cut = with_last;
}

/* Returns the frame in whose indices all entries have ranges; TREE_MIXED: there is none. */
static uint32_t common_frame(const struct loose_entry e[OVERFULL])
{
    uint32_t frame = TREE_PLAIN;

    for (uint32_t i = 0; i < OVERFULL; i++) {
        if (e[i].bounds.frame == TREE_MIXED)
            return TREE_MIXED;
        if (tree_is_interval(e[i].bounds.frame))
            continue;
        if (is_frame(frame) && frame != e[i].bounds.frame)
            return TREE_MIXED;
        frame = e[i].bounds.frame;
    }
    return is_frame(frame) ? frame : TREE_MIXED;
}

/* Adds an entry to a full node by splitting it. Returns the new node; 0: out of memory. */
static uint32_t split(struct region_tree *tree, uint32_t index, const struct loose_entry *extra)
{
    uint32_t other = take_node(tree, node_at(tree, index)->height);
    struct tree_node *n = node_at(tree, index);
    struct loose_entry e[OVERFULL];
    struct tree_bounds in_frame[OVERFULL];
    struct division best;
    uint32_t frame;

    if (other == 0)
        return 0;
    for (uint32_t i = 0; i < TREE_FANOUT; i++) {
        get_bounds(n, i, &e[i].bounds);
        e[i].child = n->child[i];
        e[i].serial = n->serial[i];
    }
    e[TREE_FANOUT] = *extra;
    frame = common_frame(e);
    for (uint32_t i = 0; i < OVERFULL && frame != TREE_MIXED; i++) {
        in_frame[i] = e[i].bounds;
        if (tree_is_interval(in_frame[i].frame))
            tree->convert(tree->context, frame, &in_frame[i]);
    }
    if (frame != TREE_MIXED)
        divide_in_frame(in_frame, &best);
    else
        divide_mixed(e, &best);
    n->count = 0;
    for (uint32_t i = 0; i < OVERFULL; i++) {
        const struct loose_entry *from = &e[best.order[i]];

        put_entry(i < best.cut ? n : node_at(tree, other), &from->bounds, from->child,
                  from->serial);
    }
    return other;
}

/* ---- search ---- */

static inline bool meets_in_frame(const struct tree_node *n, uint32_t i,
                                  const struct tree_bounds *b)
{
    for (uint32_t d = 0; d < b->dims; d++)
        if (n->in[d].min[i] > b->max[d] || n->in[d].max[i] < b->min[d])
            return false;
    return true;
}

static bool meets(struct region_tree *tree, const struct tree_node *n, uint32_t i,
                  struct tree_probe *p)
{
    const struct tree_bounds *b = &p->bounds;
    uint32_t frame = n->frame[i];

    if (frame == b->frame && is_frame(frame))
        /* regions that overlap in indices most likely also overlap in bytes */
        return meets_in_frame(n, i, b);
    if (n->lo[i] >= b->hi || n->hi[i] <= b->lo)
        return false;
    if (!is_frame(frame) || !tree_is_interval(b->frame))
        return true;
    if (p->converted.frame != frame) {
        p->converted = p->bounds;
        tree->convert(tree->context, frame, &p->converted);
    }
    return meets_in_frame(n, i, &p->converted);
}

/* Whether an entry overlaps the probe's bounds and its latest task is not before `since`. */
static inline bool matters(struct region_tree *tree, const struct tree_node *n, uint32_t i,
                           struct tree_probe *p)
{
    bool is_old = n->last[i] < p->since;

    if ((is_old && p->is_skipped) || !meets(tree, n, i, p))
        return false;
    p->is_skipped = p->is_skipped || is_old;
    return !is_old;
}

static void drop_entry(struct tree_node *n, uint32_t i)
{
    struct tree_bounds last;

    n->count--;
    get_bounds(n, n->count, &last);
    set_bounds(n, i, &last);
    n->child[i] = n->child[n->count];
    n->serial[i] = n->serial[n->count];
}

/*
 * Prefetches lines that only an insertion needs, because the region is usually inserted after the
 * search.
 */
static inline void prefetch_bytes(const struct tree_node *n, uint32_t i)
{
    __builtin_prefetch(&n->lo[i], 1, 3);
    __builtin_prefetch(&n->hi[i], 1, 3);
}

static inline void ask_for_entry(const struct tree_node *n, uint32_t i)
{
    prefetch_bytes(n, i);
    __builtin_prefetch(&n->last[i], 1, 3);
    __builtin_prefetch(&n->child[i], 1, 3);
    __builtin_prefetch(&n->serial[i], 1, 3);
}

/* Searches below a node. Recursive; the depth is the height of the tree. */
static void search(struct region_tree *tree, struct tree_node *n, struct tree_probe *p)
{
    const struct tree_bounds *b = &p->bounds;
    uint32_t left = is_frame(b->frame) && are_all_of(n, b->frame)
                        ? entries_within(n, b->dims, b->max, b->min)
                        : all_entries(n);

    if (n->height == 0 && n->count != TREE_FANOUT)
        ask_for_entry(n, n->count);
    while (left != 0 && !p->is_over) {
        uint32_t i = (uint32_t)__builtin_ctz(left);
        uint32_t child = n->child[i];
        bool is_kept = true;

        left &= left - 1;
        if (!matters(tree, n, i, p))
            continue;
        if (n->height == 0) {
            is_kept = p->visit(p, child, n->serial[i]);
            tree->leaves -= !is_kept;
        } else {
            prefetch_bytes(n, i);
            search(tree, node_at(tree, child), p);
            is_kept = node_at(tree, child)->count != 0;
            if (!is_kept)
                free_node(tree, child);
        }
        if (!is_kept) {
            drop_entry(n, i); /* the node's last entry moved to i, so its bit moves as well */
            left = (left | (left >> n->count & 1) << i) & all_entries(n);
        }
    }
}

void region_tree_search(struct region_tree *tree, struct tree_probe *p)
{
    p->is_over = p->is_skipped = false;
    p->converted.frame = TREE_MIXED;
    if (tree->root == 0)
        return;
    search(tree, node_at(tree, tree->root), p);
    if (node_at(tree, tree->root)->count == 0) {
        free_node(tree, tree->root);
        tree->root = 0;
    }
}

static bool tree_holds(const struct tree_node *n, uint32_t i, const struct tree_bounds *b)
{
    if (n->lo[i] > b->lo || n->hi[i] < b->hi)
        return false;
    return n->frame[i] != b->frame || holds_in_frame(n, i, b);
}

/*
 * Raises `last` of all leaves with this number, and of the entries above them. Stale leaves of
 * removed records may have the number as well, which is harmless.
 */
static bool touch(struct region_tree *tree, struct tree_node *n, const struct tree_bounds *b,
                  uint32_t leaf)
{
    bool is_found = false;

    for (uint32_t i = 0; i < n->count; i++) {
        if (!tree_holds(n, i, b) || (n->height == 0 && n->child[i] != leaf) ||
            (n->height != 0 && !touch(tree, node_at(tree, n->child[i]), b, leaf)))
            continue;
        n->last[i] = n->last[i] > b->last ? n->last[i] : b->last;
        is_found = true;
    }
    return is_found;
}

void region_tree_touch(struct region_tree *tree, const struct tree_bounds *bounds, uint32_t leaf)
{
    if (tree->root != 0)
        (void)touch(tree, node_at(tree, tree->root), bounds, leaf);
}

static void renumber(struct region_tree *tree, struct tree_node *n,
                     bool (*moved)(void *context, uint32_t *leaf, uint32_t serial), void *context)
{
    for (uint32_t i = 0; i < n->count;) {
        bool is_kept = true;

        if (n->height != 0) {
            renumber(tree, node_at(tree, n->child[i]), moved, context);
        } else {
            is_kept = moved(context, &n->child[i], n->serial[i]);
            tree->leaves -= !is_kept;
        }
        if (is_kept)
            i++;
        else
            drop_entry(n, i);
    }
}

void region_tree_renumber(struct region_tree *tree,
                          bool (*moved)(void *context, uint32_t *leaf, uint32_t serial),
                          void *context)
{
    if (tree->root != 0)
        renumber(tree, node_at(tree, tree->root), moved, context);
}

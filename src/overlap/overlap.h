/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of regions: finds the live tasks that use memory that overlaps a tensor's.
 *
 * Inserted    an access: the memory that a tensor describes, the task, and whether it reads or
 *             writes. Each region has one record, which lists all tasks that use the region.
 * Searched    in the same call: recorded accesses of live tasks that conflict with this one, by
 *             the rules of docs/user/ordering.md. Overlap is exact for intervals and for boxes of
 *             one matrix, and conservative otherwise (geom.h).
 * Returned    only a status: the index calls edges_link for every conflicting task, which makes
 *             the new task wait for it. Where there would be many edges, it makes a join.
 *             region_find_user only searches, and returns one task.
 * Removed     without a call: the index sees from info[slot].seq and dead_before which tasks have
 *             completed, and drops their records when a search finds them.
 *
 * Cost        a region that is known and overlaps no other one, whether buffer or tile: one hash
 *             probe, inlined into the submit (access.h). A new one: the buckets around it, if all
 *             regions are of its size; else a search in a tree, whose cost does not depend on how
 *             many regions there are, nor on their shapes (docs/internals/performance.md has
 *             figures).
 * Memory      pools (port/pool.h), which the caller gives address space; nothing moves.
 * Threads     one at a time, the submitting one. Nothing here is atomic.
 * Callers     src/graph/, once for each tensor of a submit. It embeds struct regions (regions.h)
 *             and implements the five edges_ functions and submit_refuse_quick below.
 *
 * Files       access.h         the paths that are inlined into a submit
 *             regions.h        the structs, for inline functions
 *             regions.c        paths to a record that need no search, and accesses in a record
 *             region_index.c   any region: its record found, or made after a search
 *             region_frame.c   the grids of boxes; region_table.c: the table, and its growth
 *             region_query.c   the search; region_tree.h is the tree
 *             region_join.c    one join instead of many edges
 *             geom.h           the geometry of a tensor, and whether two overlap
 */
#ifndef PTO_OVERLAP_H
#define PTO_OVERLAP_H

#include "overlap/regions.h"

/* How an access is recorded, and which recorded accesses the new task waits for; bits. */
enum access {
    ACCESS_LOOKUP = 1,  /* waits for conflicting accesses */
    ACCESS_WRITE = 2,   /* the task also waits for readers, and is recorded as a writer */
    ACCESS_RECORD = 4,  /* is recorded */
    ACCESS_REPLACE = 8, /* removes recorded accesses to regions that this region covers */
};

/* Calls `each` for every pool of the index, so that its owner can give it address space. */
void regions_each_pool(struct regions *x,
                       void (*each)(struct pool *pool, uint64_t share, void *context),
                       void *context);
/*
 * Starts a run: forgets every region. `side_tables` belongs to the index and is all 0 at first;
 * `info` is indexed by slot and must not move. Returns PTO_OK or PTO_ENOMEM.
 */
int regions_start(struct regions *x, struct region_tables *side_tables,
                  const struct slot_info *info, enum pto_deps deps);

/*
 * Defined in access.h: region_access(x, t, tensor, span, access) makes t, which is being submitted,
 * wait for conflicting accesses, and records its access. Returns PTO_OK or PTO_ENOMEM; after
 * PTO_ENOMEM the index must be restarted.
 */

/*
 * Returns the latest live task that is recorded as a writer of the element or, if `with_readers`,
 * as a reader. Slot 0: none, or x->is_short is set: the index ran out of memory and cannot know.
 */
struct ref region_find_user(struct regions *x, const struct pto_tensor *element, bool with_readers);

/* ---- functions that the user of the index defines; x is the index inside of its graph ---- */

/* Makes t wait for r, which must be live (ref_is_alive). Returns PTO_OK or PTO_ENOMEM. */
int edges_link(struct regions *x, struct slot *t, struct ref r);
/* Number of predecessors of t, a task that is being submitted or a join. */
uint32_t edges_count(struct regions *x, const struct slot *t);

/*
 * Joins. If n tasks write tiles and m tasks then read the whole, there would be n * m edges. A join
 * waits for the n tasks, and the m tasks wait for the join. A join is a slot that runs nothing and
 * is no task: it has no id, and its `seq` is that of the latest task that it represents, so it
 * compares with other tasks like that one. Joins are made only if x->may_join.
 *
 * Begins a join that t, which is being submitted, will wait for; the join does not wait for t.
 * edges_link links it to the tasks that it represents. NULL: out of memory.
 */
struct slot *edges_join_begin(struct regions *x, struct slot *t, uint32_t seq);
/* Ends a join. Slot 0: all tasks that it represents have completed, so the join was removed. */
struct ref edges_join_end(struct regions *x, struct slot *t, struct slot *join);
/* Whether r, which must be live, is a join. */
bool edges_is_join(struct regions *x, struct ref r);

/*
 * Refuses a tensor of region_reach_dense that cannot have a record: its type or number of
 * dimensions is unknown, or it has no memory. Returns the status.
 */
__attribute__((cold)) int submit_refuse_quick(struct regions *x, const struct slot *t,
                                              const struct pto_tensor *tensor);

/* ---- tasks ---- */

static inline bool ref_is_alive(const struct regions *x, struct ref r)
{
    return r.seq >= x->dead_before && x->info[r.slot].seq == r.seq;
}

/* Makes t wait for r, unless r has completed. */
static inline int ref_wait_for(struct regions *x, struct slot *t, struct ref r)
{
    return ref_is_alive(x, r) ? edges_link(x, t, r) : PTO_OK;
}

#endif

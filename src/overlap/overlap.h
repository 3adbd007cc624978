/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which live tasks use memory that overlaps a tensor's: the index of regions.
 *
 * Inserted    an access: the memory that a tensor describes, the task, and whether it reads or
 *             writes. There is one record for each region; a task that uses it again joins it.
 * Asked       in the same call: which recorded accesses of live tasks conflict with this one, by
 *             the rules of docs/user/ordering.md. Overlap is exact for intervals and for boxes of one
 *             matrix, and conservative otherwise (geom.h).
 * Returned    nothing but a status: every task that conflicts is given to edges_link, which
 *             makes the new task wait for it. Where there would be many edges, a join is made.
 *             region_find_user only asks, and returns one task.
 * Forgotten   without a call: the index looks at info[slot].seq and at dead_before, and drops
 *             records of tasks that have gone when it meets them.
 *
 * Cost        a region that is known and overlaps no other one, whether buffer or tile: one hash
 *             probe, inlined into the submit (access.h). A new one: the buckets around it, if all
 *             regions are of its size; else a search in a tree, whose cost does not depend on how
 *             many regions there are, nor on their shapes (docs/internals/performance.md has figures).
 * Memory      pools (port/pool.h), which the caller gives address space; nothing moves.
 * Threads     one at a time, the submitting one. Nothing here is atomic.
 * Callers     src/graph/, once for each tensor of a submit. It embeds struct regions (regions.h)
 *             and implements the five edges_ functions and submit_refuse_quick below.
 *
 * Files       access.h         the ways that are inlined into a submit
 *             regions.h        the structs; for those who inline
 *             regions.c        ways to a record that need no search, and what is in a record
 *             region_index.c   any region: its record found, or made after a search
 *             region_frame.c   the grids of boxes; region_table.c: the table, and its growth
 *             region_query.c   the search; region_tree.h is the tree
 *             region_join.c    one join instead of many edges
 *             geom.h           the geometry of a tensor, and whether two overlap
 */
#ifndef PTO_OVERLAP_H
#define PTO_OVERLAP_H

#include "overlap/regions.h"

/* How an access is recorded and what it waits for. */
enum access {
    ACCESS_LOOKUP = 1,  /* waits for conflicting records */
    ACCESS_WRITE = 2,   /* conflicts with readers too, and is recorded as a writer */
    ACCESS_RECORD = 4,  /* is recorded at all */
    ACCESS_REPLACE = 8, /* records that it covers are removed */
};

/* Calls `each` for every pool of the index, so that its owner can give them address space. */
void regions_each_pool(struct regions *x,
                       void (*each)(struct pool *pool, uint64_t share, void *context),
                       void *context);
/*
 * Starts a run: forgets every region. `far` is the index's, 0 at first; `info` is indexed by slot and
 * stays where it is. PTO_ENOMEM.
 */
int regions_start(struct regions *x, struct region_tables *far, const struct slot_info *info,
                  enum pto_deps deps);

/*
 * access.h: region_access(x, t, tensor, span, access) inserts and asks: t, which is being
 * submitted, waits for what conflicts, and is recorded. PTO_OK or PTO_ENOMEM. After
 * PTO_ENOMEM the index has to be started again.
 */

/*
 * The latest live task that is recorded as a writer of the element, or also as a reader.
 * Slot 0: none, unless x->is_short says that the index has no memory to find out.
 */
struct ref region_find_user(struct regions *x, const struct pto_tensor *element, bool with_readers);

/* ---- what the caller provides, by these names; x is the index that it embeds ---- */

/* Makes t wait for r, which is alive by ref_is_alive. PTO_OK or PTO_ENOMEM. */
int edges_link(struct regions *x, struct slot *t, struct ref r);
/* How many edges t has, a task that is being submitted or a join. */
uint32_t edges_count(struct regions *x, const struct slot *t);

/*
 * Joins. Where n tasks write tiles and m then read the whole there would be n * m
 * edges; a join waits for the n, and the m wait for the join. It is a slot that runs
 * nothing and is no task: it has no id, and `seq` is that of the latest task that it
 * may stand for, so it compares with other tasks as that one does. None is made
 * unless x->may_join.
 *
 * Begins one that t, which is being submitted, will wait for; t itself it does not wait for.
 * What it stands for is linked to it with edges_link. NULL: memory has run out.
 */
struct slot *edges_join_begin(struct regions *x, struct slot *t, uint32_t seq);
/* It is complete; slot 0: all that it stood for has gone, and so has it. */
struct ref edges_join_end(struct regions *x, struct slot *t, struct slot *join);
/* Whether r, which is alive, is a join. */
bool edges_is_join(struct regions *x, struct ref r);

/*
 * Refuses a tensor that came by region_reach_dense and that no record can have: no such type or
 * number of dimensions, or no storage. Returns the status.
 */
__attribute__((cold)) int submit_refuse_quick(struct regions *x, const struct slot *t,
                                              const struct pto_tensor *tensor);

/* ---- tasks ---- */

static inline bool ref_is_alive(const struct regions *x, struct ref r)
{
    return r.seq >= x->dead_before && x->info[r.slot].seq == r.seq;
}

/* Makes t wait for r unless r has gone. */
static inline int ref_wait_for(struct regions *x, struct slot *t, struct ref r)
{
    return ref_is_alive(x, r) ? edges_link(x, t, r) : PTO_OK;
}

#endif

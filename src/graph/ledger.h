/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger computes whether the reference's fixed rings would admit a task. Our own memory grows
 * as needed; a user who sets ring sizes wants the reference's waits and codes, so the ledger
 * replays its admission rules while the graph is built. It owns no memory of tasks and moves
 * nothing. Pure; used by the submitting thread only.
 *
 * There are four rings; a task belongs to the ring of its scope's depth. Each ring has a window of
 * tasks, a heap, and a pool for predecessors beyond the first 64. A ring reclaims its tasks
 * strictly in order, each with its heap bytes, entries and regions. A task is consumed, which means
 * that it can be reclaimed, when
 *
 *     it has completed,
 *     its scope has ended, and
 *     every task that retains it has completed.
 *
 * An explicit dependency retains if it is declared to, and an argument retains its creator, except
 * in a MANUAL scope; a writer that a look-up finds is waited for, but not retained. Buffers without
 * a task are complete from the start.
 *
 * The order of the checks is the reference's:
 *
 *     -1  the current scope alone fills the window
 *     -3  no task of the window is free
 *     -2  the heap has no gap of that size
 *     -4  the pool of predecessors is used up
 *    -11  the table of regions is used up (reference only)
 *
 * If the ring's oldest task belongs to an open scope, nothing can be reclaimed while the submitter
 * waits, so the new task is refused at once, like one that never fits. Otherwise the refusal names
 * a task, and the caller waits for it.
 *
 * In host mode nothing is reclaimed: there is one ring, whose window and heap are used once, and no
 * waiting.
 *
 * Predecessors are found in a separate table of regions, always by the reference's rules, because
 * tasks that have completed but are not consumed count, and the graph has forgotten them. The table
 * is kept only if some pool of predecessors has a size.
 *
 * Two limits are not replayed. A second pool of the same size holds links to predecessors that have
 * not completed at that moment: the result would depend on timing. The table of the open scopes'
 * tasks (code 10) is as large as all windows together, so a window is full first.
 */
#ifndef PTO_LEDGER_H
#define PTO_LEDGER_H

#include "graph/graph.h"

/* Defaults and fixed sizes of the reference. */
enum {
    LEDGER_WINDOW = 16384,
    LEDGER_DEP_POOL = 16384,
    LEDGER_PREDECESSORS = 64,       /* predecessors of a task that do not count against the pool */
    LEDGER_PREDECESSORS_HELD = 128, /* predecessors of a task in host mode, which has no pool */
    LEDGER_REGIONS = 65536,
    /*
     * maximum number of tasks without predecessors in host mode, for each combination of core types
     */
    LEDGER_READY_HELD = 8192,
    LEDGER_BUCKETS = 4096,
    LEDGER_READY_KINDS = 7
};
#define LEDGER_HEAP_BYTES (256ull << 20)

/*
 * Sizes of each ring; 0: not checked. If is_reference is set, 0 is the reference's default, and its
 * fixed pools are checked as well. Host mode uses ring 0 only.
 */
struct ledger_limits {
    uint32_t window[GRAPH_RINGS]; /* sizes in tasks, powers of two; one entry of each stays empty */
    uint64_t heap[GRAPH_RINGS];   /* bytes */
    uint32_t dep_pool[GRAPH_RINGS];
    bool is_reference;
    /*
     * keeps the table of regions even if no pool has a size, for ledger_measure; not in host mode
     */
    bool is_measured;
    bool is_held; /* host mode */
};

/*
 * Totals that a ring has allocated and reclaimed since the run began, and the regions in use in all
 * rings.
 */
struct ledger_use {
    uint32_t task_start, task_end;
    uint64_t heap_start, heap_end; /* bytes */
    /* predecessors of all tasks, including the first 64 of each task */
    uint64_t dep_start, dep_end;
    uint32_t regions;
};

/* The resource that a task could not get; the host makes an error message from it. */
struct ledger_refusal {
    /* status of the call; after PTO_EAGAIN: the status to use if waiting does not help */
    int status;
    bool is_structural;   /* waiting cannot help */
    uint32_t ring;        /* ring of the task */
    uint64_t needed;      /* how much the task needs, in tasks, bytes, entries or regions */
    uint64_t size;        /* total size of that resource */
    uint32_t scope_tasks; /* tasks of the current scope so far */
    uint32_t head;        /* local id of the oldest task that the ring has not reclaimed */
    uint32_t wait_slot;   /* after PTO_EAGAIN: slot of the task to wait for */
    uint32_t wait_seq;
    /*
     * counter that grows when some of the missing resource is reclaimed, so that a wait sees
     * progress
     */
    uint64_t progress;
};

/* A task that its ring has not reclaimed. */
struct ledger_task {
    uint64_t heap_end;
    uint64_t heap_given; /* bytes that the ring had allocated up to and including this task */
    uint64_t dep_given;
    uint32_t slot; /* slot of the task; 0: the task is complete */
    uint32_t seq;
    uint32_t scope; /* `number` of its scope */
    uint32_t depth; /* index of its scope in ledger.scope */
    uint32_t seen;  /* number of the latest walk (ledger.c) that has counted it */
    uint32_t dep_entries;
    uint32_t retainer; /* first in the list of tasks that retain it, newest first */
    uint32_t region;   /* first in the list of regions whose recorded writer it is */
};

struct ledger_ring {
    uint32_t window; /* size in tasks; here and in the next two: 0 means not checked */
    uint32_t dep_pool;
    uint64_t heap;
    uint32_t head; /* local id of the oldest task that was not reclaimed */
    uint32_t next; /* local id of the next task */
    uint64_t heap_top;
    uint64_t heap_tail;
    /*
     * heap_tail ignores tasks with a smaller local id, which were freed before the heap restarted
     */
    uint32_t anchor;
    uint64_t heap_given, heap_returned;
    uint64_t dep_given, dep_returned;
    uint32_t dep_used;
    uint32_t region_count;
    uint32_t mask; /* size of the table `task` minus 1 */
    struct ledger_task *task;
    struct pool pool;
};

struct ledger_scope {
    uint32_t number;
    /* tasks that were submitted directly in this scope, without inner scopes */
    uint32_t task_count;
};

struct ledger_retainer {
    struct ref task;
    uint32_t next;
};

/* A region and its writer, under the reference's rules. */
struct ledger_region {
    struct geom geom;
    struct pto_task_id writer;
    uint32_t next; /* next region in its bucket */
    uint32_t previous;
    uint32_t next_of_task; /* next region of the same writer, or of the free list */
    /* number of the latest walk (ledger.c) whose task overwrites all of this region */
    uint32_t seen;
};

struct ledger {
    struct ledger_refusal refusal;
    bool is_reference;
    bool is_held;
    /*
     * has the table of regions, to count predecessors that the reference finds by looking up
     * regions
     */
    bool has_regions;
    uint32_t scope_count;
    uint32_t scope_total;
    uint32_t walk; /* number of the latest walk (struct walk) */
    uint32_t task_total;
    uint32_t region_max;
    uint32_t region_count;
    uint64_t region_returned;
    uint32_t region_free;
    uint32_t region_total;
    uint32_t retainer_free;
    uint32_t retainer_total;
    uint32_t ready_count[LEDGER_READY_KINDS];
    struct ledger_scope scope[PTO_SCOPE_DEPTH_MAX + 1];
    struct ledger_ring ring[GRAPH_RINGS];
    uint32_t bucket[LEDGER_BUCKETS];
    struct pool retainer_pool;
    struct pool region_pool;
};

/* Calls `each` for every pool of the ledger, so that the owner can give it address space. */
void ledger_each_pool(struct ledger *l,
                      void (*each)(struct pool *pool, uint64_t share, void *context),
                      void *context);
/* Starts a run: forgets everything of the previous one. Returns PTO_OK or PTO_ENOMEM. */
int ledger_start(struct ledger *l, const struct ledger_limits *limits);

/* Called after the graph has begun a scope, including the run's outermost one. */
void ledger_scope_begin(struct ledger *l);
void ledger_scope_end(struct ledger *l);

/* Reclaims consumed tasks of a ring, and measures how full the ring is. */
void ledger_measure(struct ledger *l, const struct graph *g, uint32_t ring, struct ledger_use *out);

/*
 * Called before each submit and allocation. Returns PTO_OK; PTO_EAGAIN if the task that `refusal`
 * names has to complete first; or the reference's code. Arguments that the graph will refuse are
 * admitted.
 */
int ledger_admit(struct ledger *l, const struct graph *g, const struct pto_args *args);
/*
 * Called after the graph has accepted a task or an allocation; slot_number is 0 for an allocation.
 * Returns PTO_OK, PTO_ENOMEM, or PTO_EREADY: in host mode the reference would accept the graph, but
 * fail when it starts to run it.
 */
int ledger_commit(struct ledger *l, const struct graph *g, const struct pto_args *args,
                  struct pto_task_id task, uint32_t slot_number, uint32_t seq);

#endif

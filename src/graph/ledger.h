/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger: what the reference's fixed rings would say to each task. Our own
 * memory sizes itself; a user who sets ring sizes wants the reference's waits
 * and codes, so this replays its admission rules beside the graph. It owns no
 * memory of tasks and moves nothing. Pure; for the submitting thread only.
 *
 * There are four rings, and a task belongs to that of its scope's depth. Each
 * has a window of tasks, a heap, and a pool for predecessors beyond the first
 * 64. A ring takes back its tasks strictly in order, and with each its heap
 * bytes, entries and regions. A task can be taken back, it is consumed, when
 *
 *     it has completed,
 *     its scope has ended, and
 *     every task that retains it has completed.
 *
 * An explicit dependency retains if it says so, and an argument retains its
 * creator, except in a MANUAL scope; a writer that a look-up finds is waited
 * for, but not retained. Buffers without a task have completed when they are
 * made.
 *
 * The order of the checks is the reference's:
 *
 *     -1  the current scope alone fills the window
 *     -3  no task of the window is free
 *     -2  the heap has no gap of that size
 *     -4  the pool of predecessors is used up
 *    -11  the table of regions is used up (reference only)
 *
 * If the ring's oldest task belongs to a scope that is open, nothing can come
 * back while the submitter waits, and the task is refused at once; so is one
 * that never fits. Otherwise the caller waits for the task that is named.
 *
 * In host mode nothing comes back: one ring, whose window and heap are used
 * once, and no waiting.
 *
 * Predecessors are found on a table of regions of its own, by the reference's
 * rules whatever the graph's are: those that have completed but are not
 * consumed count, and the graph has forgotten them. The table is kept only if
 * some pool of predecessors has a size.
 *
 * Not replayed: a second pool of the same size, for links to predecessors that
 * have not completed at that moment, because the answer would depend on who is
 * faster; and the table of the open scopes' tasks (code 10), which is as large
 * as all windows together, so that one of those is full before it.
 */
#ifndef PTO_LEDGER_H
#define PTO_LEDGER_H

#include "graph/graph.h"

/* Defaults and fixed sizes of the reference. */
enum {
    LEDGER_WINDOW = 16384,
    LEDGER_DEP_POOL = 16384,
    LEDGER_PREDECESSORS = 64,       /* of a task, beside the pool */
    LEDGER_PREDECESSORS_HELD = 128, /* of a task in host mode, where there is no pool */
    LEDGER_REGIONS = 65536,
    LEDGER_READY_HELD = 8192, /* tasks without predecessors, of each kind of cores */
    LEDGER_BUCKETS = 4096,
    LEDGER_READY_KINDS = 7
};
#define LEDGER_HEAP_BYTES (256ull << 20)

/*
 * Sizes per ring. 0: not checked; with is_reference: its default, and its fixed
 * pools are checked, too. Host mode looks at ring 0 only.
 */
struct ledger_limits {
    uint32_t window[GRAPH_RINGS]; /* powers of two; one slot of each stays empty */
    uint64_t heap[GRAPH_RINGS];   /* bytes */
    uint32_t dep_pool[GRAPH_RINGS];
    bool is_reference;
    bool is_measured; /* for ledger_measure: look-ups count, whatever has a size. Not host mode */
    bool is_held;     /* host mode */
};

/* What a ring has given out and taken back since the run began, and regions in use in all rings. */
struct ledger_use {
    uint32_t task_start, task_end;
    uint64_t heap_start, heap_end; /* bytes */
    uint64_t dep_start, dep_end;   /* predecessors, all of a task's */
    uint32_t regions;
};

/* What a task could not get; the host makes a sentence of it. */
struct ledger_refusal {
    int status;           /* the code; after PTO_EAGAIN what it becomes without progress */
    bool is_structural;   /* waiting cannot help */
    uint32_t ring;        /* the task's */
    uint64_t needed;      /* tasks, bytes, entries or regions */
    uint64_t size;        /* of what it needs them from */
    uint32_t scope_tasks; /* of the current scope */
    uint32_t head;        /* local id of the oldest task that the ring has not taken back */
    uint32_t wait_slot;   /* after PTO_EAGAIN: ask again when this one has gone */
    uint32_t wait_seq;
    uint64_t progress; /* grows when something comes back of what is needed */
};

/* A task that its ring has not taken back. */
struct ledger_task {
    uint64_t heap_end;
    uint64_t heap_given; /* by the ring, this task's included */
    uint64_t dep_given;
    uint32_t slot; /* 0: complete */
    uint32_t seq;
    uint32_t scope; /* number of its scope */
    uint32_t depth; /* of its scope */
    uint32_t seen;  /* the walk that met it last */
    uint32_t dep_entries;
    uint32_t retainer; /* list: who retains it, newest first */
    uint32_t region;   /* list: what it registered as its writer */
};

struct ledger_ring {
    uint32_t window; /* 0: not checked; so are the next two */
    uint32_t dep_pool;
    uint64_t heap;
    uint32_t head; /* oldest task that was not taken back */
    uint32_t next; /* local id of the next task */
    uint64_t heap_top;
    uint64_t heap_tail;
    uint32_t anchor; /* tasks before this one say nothing about the tail */
    uint64_t heap_given, heap_returned;
    uint64_t dep_given, dep_returned;
    uint32_t dep_used;
    uint32_t region_count;
    uint32_t mask; /* of the table of tasks, by local id */
    struct ledger_task *task;
    struct pool pool;
};

struct ledger_scope {
    uint32_t number;
    uint32_t task_count; /* its own, not those of scopes within */
};

struct ledger_retainer {
    struct ref task;
    uint32_t next;
};

/* A region and its writer, under the reference's rules. */
struct ledger_region {
    struct geom geom;
    struct pto_task_id writer;
    uint32_t next; /* in its bucket */
    uint32_t previous;
    uint32_t next_of_task; /* free list, too */
    uint32_t seen;         /* the walk that covers it */
};

struct ledger {
    struct ledger_refusal refusal;
    bool is_reference;
    bool is_held;
    bool has_regions; /* look-ups count as predecessors */
    uint32_t scope_count;
    uint32_t scope_total;
    uint32_t walk; /* number of the latest walk over predecessors */
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

/* Calls `each` for every pool, so that the owner can give them address space. */
void ledger_each_pool(struct ledger *l,
                      void (*each)(struct pool *pool, uint64_t share, void *context),
                      void *context);
/* Starts a run: forgets everything of the one before. PTO_OK or PTO_ENOMEM. */
int ledger_start(struct ledger *l, const struct ledger_limits *limits);

/* After the graph's. The outermost scope counts, too. */
void ledger_scope_begin(struct ledger *l);
void ledger_scope_end(struct ledger *l);

/* Takes back what can be, and says how full a ring is. */
void ledger_measure(struct ledger *l, const struct graph *g, uint32_t ring, struct ledger_use *out);

/*
 * Before a submit or an allocation: PTO_OK; PTO_EAGAIN, when the task that
 * `refusal` names has to go first; or the code. Arguments that the graph will
 * refuse are let through.
 */
int ledger_admit(struct ledger *l, const struct graph *g, const struct pto_args *args);
/*
 * After the graph accepted it. slot_number is 0 for an allocation. PTO_OK,
 * PTO_ENOMEM, or PTO_EREADY: in host mode the reference would take the graph,
 * and fail when it starts to run it.
 */
int ledger_commit(struct ledger *l, const struct graph *g, const struct pto_args *args,
                  struct pto_task_id task, uint32_t slot_number, uint32_t seq);

#endif

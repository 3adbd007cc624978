/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph builder: slots, ids, dependencies, scopes, outputs.
 *
 * Pure: memory comes from pools, there is no clock, no lock, no system call.
 * One thread at a time, the submitter, calls these functions. Other threads access only a task's
 * slot (wire/slot.h) and the counters of its buffers.
 *
 * Ordering
 *   R1 edges_link     -> A1 sched complete     an edge is filled before the producer can find it
 *   R2 sched complete -> A2 edges_link         a sealed producer's results are there
 *   R3 buffer_release  -> A3 buffer_release      the last user frees after all others are done
 *   R4 buffer_release  -> A4 buffers_collect     a freed buffer is whole before the submitter takes it
 */
#ifndef PTO_GRAPH_H
#define PTO_GRAPH_H

#include "overlap/overlap.h"
#include "port/port.h"
#include "pto/platform.h"
#include "pto/rules.h"
#include "pto/status.h"
#include "wire/failure.h"
#include "wire/kernel.h"

enum {
    GRAPH_RINGS = 4,
    GRAPH_EDGES_PER_CHUNK = 63,
    GRAPH_RETAINED_PER_CHUNK = 31,
    GRAPH_RECENT = 4096,
};
enum { GRAPH_OUTPUT_ALIGN = 1024, GRAPH_HEAP_CLASSES = 4 * 40 };

/*
 * Under simpler's rules a ring reuses freed memory only after it has allocated this many more
 * bytes.
 */
enum { GRAPH_REST_BYTES = 256 << 20 };
enum { GRAPH_GUARD_BYTES = GRAPH_OUTPUT_ALIGN }; /* size of a guard: graph/guards.h */
enum {
    GRAPH_DESCRIPTORS_PER_CHUNK = 64,
    GRAPH_SCOPES_KEPT = 2,
    GRAPH_SCOPES_GUARDED = 64,
    GRAPH_SCOPES_REPORTED = 512
};

#define GRAPH_OUTPUT_BYTES_MAX (1ull << 40) /* maximum bytes of all outputs of one task together */
#define GRAPH_INVOCATIONS_MAX (1u << 30)    /* maximum product of blocks and lanes of one task */

/*
 * Entry that finds a task by id. The slot may belong to another task by now, so compare the slot's
 * `seq` with the entry's.
 */
struct id_entry {
    uint32_t local;
    uint32_t seq; /* 0: the entry is empty */
    uint32_t slot;
    uint32_t buffer;
};

struct id_map {
    struct id_entry *entry;
    uint32_t mask;
    uint32_t next_local;
    struct pool pool;
};

/*
 * Memory of all outputs of one task. Its users are the scope, the task itself, and tasks that
 * retain it.
 */
struct buffer {
    struct a32 users;
    /* number of the task that created it; 0: its scope has ended, or the buffer is free */
    uint32_t seq;
    uint64_t addr;
    /* next buffer in the list of its scope, or in the free list of its size class */
    uint32_t next;
    struct a32 link; /* next in the list of buffers that other threads freed */
    /* bytes that its ring had allocated before this buffer, in units of GRAPH_OUTPUT_ALIGN */
    uint32_t born;
    uint8_t ring;
    uint8_t heap_class;
};

struct edge_chunk {
    struct edge edge[GRAPH_EDGES_PER_CHUNK];
    uint32_t next;
    uint32_t count;
    uint64_t reserved;
};

struct retained_chunk {
    uint32_t buffer[GRAPH_RETAINED_PER_CHUNK];
    uint32_t next;
};

struct descriptor_chunk {
    struct pto_tensor tensor[GRAPH_DESCRIPTORS_PER_CHUNK];
};

struct chunk_link {
    uint32_t next; /* next chunk of the scope, or of the free list */
    /* in a free chunk: value of graph.ended_count when the scope that used it ended */
    uint32_t ended;
};

struct scope {
    enum pto_scope_mode mode;
    bool is_manual; /* the scope or an enclosing one is MANUAL */
    uint32_t first_buffer;
    uint32_t first_chunk; /* first chunk of descriptors; the list is linked by chunk_link */
    uint32_t chunk_used;
    uint32_t first_local; /* local id of the scope's first task, in the scope's ring */
    const struct pto_site *site;
};

/* A scope that has ended. Kept for the error about a later use of one of its outputs. */
struct ended_scope {
    uint32_t ring;
    uint32_t first_local; /* local id of its first task; tasks of inner scopes are included */
    uint32_t end_local;
    const struct pto_site *site;
};

/* A scalar of the entry that is passed to a task unchanged; `argument` and `entry` are indices. */
struct passed_scalar {
    uint32_t line; /* line at which the task's slot starts */
    uint16_t argument;
    uint16_t entry;
};

/*
 * Memory that live tasks use, by address. Used when the orchestration accesses an element that the
 * index of regions does not cover. One tree has the memory that tasks write, the other what they
 * only read. Made at the first such access.
 */
struct graph_users {
    struct region_tree tree[2];
    /* local id of the first task of the ring that is not in the trees */
    uint32_t next_local[GRAPH_RINGS];
    /* the trees are rebuilt when they have more leaves than this */
    uint32_t leaves_max;
    bool is_made;
};

/* The reason for a refused call; the host turns it into text. */
struct graph_refusal {
    enum failure_kind kind;
    int32_t argument;
    uint64_t value;
    uint32_t creator;             /* FAILURE_SCOPE_ENDED: seq of the task, if known; else 0 */
    const struct pto_site *scope; /* FAILURE_SCOPE_ENDED: where the scope began */
};

struct graph {
    /* used by the submitter only; first, because graph_of_index casts its address to the graph */
    struct regions regions;

    /* Read by all threads during a run. */
    _Alignas(128) char *slot_base;
    const struct graph_kernel *kernels;
    uint32_t kernel_count;
    enum pto_deps deps;
    pto_edge_fn edge_fn;
    void *edge_context;
    /* called for each edge, to report it; NULL: edges are not reported */
    void (*wired_fn)(void *context, uint32_t before, uint32_t after);
    void *wired_context;
    void (*ended_fn)(void *context, const struct slot *before, const struct slot *after);
    void *ended_context;
    uint32_t clusters;
    /* successors in the launched image; NULL: the graph is not an image */
    const uint32_t *successor;
    /* number of predecessors that have not completed, by line of the slot in the launched image */
    struct a32 *counter;
    uint32_t guard_bytes; /* size of the guards around each output; 0: none */
    /*
     * number of edges that edges_link adds to a task without a function call. 0: each edge needs
     * the call, and no joins are made
     */
    uint32_t edges_plain;

    /* Written by the submitter only. */
    _Alignas(128) uint32_t live;
    uint32_t seq; /* number of the next task */
    /* other threads know of live tasks, so counters need atomic read-modify-writes */
    bool is_shared;
    uint32_t ring;        /* ring of the current scope */
    uint64_t ring_raw;    /* bits that name the ring in the ids of its tasks */
    bool is_manual;       /* the current scope is MANUAL or inside of a MANUAL scope */
    uint32_t manual_from; /* number of the first task of the outermost MANUAL scope that is open */
    struct id_map *ids_now; /* ids of the current ring */
    const uint8_t *access;  /* enum access by tag, for arguments in the current scope */
    /* value of trait bits with which a tensor takes the quick path of locate_record (submit.h) */
    uint64_t quick_traits;
    uint32_t scope_count;
    uint32_t join_total; /* joins made so far, including those that are complete */
    uint64_t edge_total; /* edges made so far, including those of joins */
    bool has_settled;    /* some task of this run has a predicate or is a team */
    /* some task of this run uses memory that the index of regions does not know about */
    bool has_unlisted;
    struct slot_info *info;
    uint32_t info_count;
    uint32_t free_slot[SLOT_CLASS_COUNT];
    uint32_t free_edge_chunk;
    uint32_t edge_chunk_count;
    uint32_t free_retained_chunk;
    uint32_t retained_chunk_count;
    uint32_t free_descriptor_chunk; /* the descriptor chunk that has been free for longest */
    uint32_t descriptor_chunk_count;
    uint32_t buffer_total;
    uint32_t free_buffer[GRAPH_HEAP_CLASSES]; /* next free buffer of each size class */
    /* last free buffer of each size class whose list is not empty */
    uint32_t last_free[GRAPH_HEAP_CLASSES];
    /* bytes that each ring has allocated, in units of GRAPH_OUTPUT_ALIGN; may wrap */
    uint32_t heap_given[GRAPH_RINGS];
    uint32_t free_record; /* list of unused struct buffer that have no memory */
    struct id_map ids[GRAPH_RINGS];
    struct scope scope[PTO_SCOPE_DEPTH_MAX + 1];
    struct graph_refusal refusal;
    const struct pto_entry *entry;
    /*
     * remember which scalars of the entry are passed on to tasks, because the graph will become an
     * image
     */
    bool is_recorded;
    void (*fill_fn)(void *context, uint64_t addr, uint64_t bytes, uint64_t value, uint32_t dtype);
    void *fill_context;
    struct graph_users users;
    struct pool slot_pool;
    struct pool info_pool;
    struct pool edge_pool;
    struct pool retained_pool;
    struct pool descriptor_pool;
    struct pool chunk_link_pool;
    struct pool buffer_pool;
    struct pool heap_pool;
    struct pool passed_pool;
    struct pool guard_pool;
    uint32_t last_descriptor_chunk; /* the descriptor chunk that became free last */
    uint32_t ended_count;           /* number of scopes with outputs that have ended */
    /* number of scopes that must end before a descriptor's memory is reused */
    uint32_t chunk_delay;
    uint32_t recent[GRAPH_RECENT]; /* slots of the latest tasks, by sequence number; 0: none */
    struct ended_scope ended[GRAPH_SCOPES_REPORTED]; /* the latest scopes that have ended */
    struct region_tables region_tables;              /* the large arrays of `regions` */

    /* Written by all threads: list of buffers that threads other than the submitter freed. */
    _Alignas(128) struct a32 freed_buffers;
};

struct graph_params {
    const struct graph_kernel *kernels;
    uint32_t kernel_count;
    enum pto_deps deps;
    pto_edge_fn edge_fn;
    void *edge_context;
    /* called for each edge after it was linked; NULL: not called */
    void (*wired_fn)(void *context, uint32_t before, uint32_t after);
    void *wired_context;
    /*
     * Called for each predecessor of a submit that has completed but still has its slot, because no
     * edge leads from it. NULL: not called.
     */
    void (*ended_fn)(void *context, const struct slot *before, const struct slot *after);
    void *ended_context;
    const struct pto_entry *entry; /* the run's entry, whose scalars may be passed on to tasks */
    bool is_recorded;              /* the graph will become an image */
    /* Called for each output that has a first value, to fill it; NULL: the submitter fills it. */
    void (*fill_fn)(void *context, uint64_t addr, uint64_t bytes, uint64_t value, uint32_t dtype);
    void *fill_context;
    uint32_t clusters; /* clusters of the chip, which limit gangs */
    bool is_shared;
    bool has_guards;
};

/* Calls `each` for every pool of the graph, so that its owner can give them address space. */
void graph_each_pool(struct graph *g,
                     void (*each)(struct pool *pool, uint64_t share, void *context), void *context);
/* Starts a run: forgets the previous run. The pools keep their memory. */
int graph_start(struct graph *g, const struct graph_params *params);

/*
 * Submits one task. On success *ready_out is the slot if the task can run at once, else NULL. On
 * failure `refusal` has the reason; after PTO_ENOMEM the graph must be restarted.
 */
int graph_submit(struct graph *g, const struct pto_kernels *kernels, const struct pto_args *args,
                 const struct pto_site *site, struct pto_outputs *out, struct slot **ready_out);
/* Result of a submit. */
enum submit_end {
    SUBMIT_WAITS,
    SUBMIT_READY,
    SUBMIT_REFUSED, /* the task is refused; g->refusal has the reason */
    /* returned by graph_submit_as only: nothing was changed; call graph_submit_slow */
    SUBMIT_STOPPED,
};

struct submitted {
    enum submit_end end;
    struct slot *slot; /* slot of the submitted task, if it waits or is ready */
};

static const struct submitted submit_refused = { SUBMIT_REFUSED, NULL };
static const struct submitted submit_stopped = { SUBMIT_STOPPED, NULL };

/* Submits a task of any form but FORM_GENERAL. Allocates a slot or an id if none is free. */
__attribute__((noinline)) struct submitted graph_submit_slow(struct graph *g,
                                                             const struct pto_kernels *kernels,
                                                             const struct pto_args *args,
                                                             const struct pto_site *site,
                                                             struct pto_outputs *out);
/* Submits a task of any form. */
struct submitted graph_submit_general(struct graph *g, const struct pto_kernels *kernels,
                                      const struct pto_args *args, const struct pto_site *site,
                                      struct pto_outputs *out);
/* Allocates outputs without a task: they count as outputs of a task that is complete at once. */
int graph_alloc(struct graph *g, const struct pto_args *args, struct pto_outputs *out);
int graph_scope_begin(struct graph *g, enum pto_scope_mode mode, const struct pto_site *site);
int graph_scope_end(struct graph *g);
/* Refuses a tensor that was created by task `owner` in a scope that has ended. */
__attribute__((cold)) int graph_refuse_ended(struct graph *g, struct pto_task_id owner,
                                             int32_t argument);

/*
 * data.c: describes one element of a tensor as a tensor of its own. False: there is no such
 * element, and the last parameter gets the reason. Indices that the caller omits are 0.
 */
bool graph_find_element(const struct pto_tensor *t, uint32_t ndims, const uint32_t indices[],
                        struct pto_tensor *out, enum data_fault *why_out);
/*
 * Like graph_find_element, but if there is no such element, it records a refusal of the kind
 * `fault`.
 */
int graph_element(struct graph *g, const struct pto_tensor *t, uint32_t ndims,
                  const uint32_t indices[], enum failure_kind fault, struct pto_tensor *out);
/*
 * Finds a live task that writes the element or, if `with_readers`, reads it. Returns its slot
 * number; 0: none. To find all of them, call it again when the task has completed, with `from` 1
 * plus the slot number that was returned.
 */
uint32_t graph_find_user(struct graph *g, const struct pto_tensor *element, bool with_readers,
                         uint32_t from, uint32_t *seq_out);

/*
 * Makes the submitter use atomic operations. Called before other threads can learn of a task and
 * complete it. The submitter may undo it when no task is live.
 */
static inline void graph_share(struct graph *g)
{
    g->is_shared = !PORT_ONE_THREAD;
}

/*
 * Called by the submitter: adds a user to a buffer. False: the last user has already released it.
 */
bool buffer_retain(struct graph *g, uint32_t buffer);
/*
 * Called by any thread when a user of the buffer has finished. If it was the last one, the buffer
 * becomes free: at once if the caller is the submitter, else when buffers_collect finds it.
 */
void buffer_release(struct graph *g, uint32_t buffer, bool is_submitter);
/* Called by any thread after a task has completed: releases the buffers that the task retained. */
void graph_release_task(struct graph *g, struct slot *s, bool is_submitter);

/*
 * submit_tensors.c: the eight bytes from `ndims` on that a tensor must have to take the quick path.
 */
uint64_t submit_quick_traits(enum pto_deps deps);

/* edges.c implements the callbacks of overlap/overlap.h, joins included. */
/*
 * Allows or forbids joins in submits from now on; existing joins remain. They are allowed at first,
 * unless edge_fn or wired_fn must see all edges: then they are never allowed.
 */
void graph_allow_joins(struct graph *g, bool may);

/* Number of edges in the chunks of a slot that has chunks. */
uint32_t edges_count_spilled(const struct graph *g, const struct slot *t);

/*
 * Number of predecessors of a join, of a task that is being submitted, or of a task that never ran.
 */
static inline uint32_t graph_count_edges(const struct graph *g, const struct slot *t)
{
    return t->edge_count + ((t->flags & SLOT_HAS_SPILL) != 0 ? edges_count_spilled(g, t) : 0);
}

/* slots.c */
/* Allocates a slot from the pool. NULL: out of memory. */
struct slot_info *slot_make(struct graph *g, uint32_t size_class);
/*
 * Frees the chunks of the slot's previous task. False: the slot has index 0, which no task may use.
 */
bool slot_clean(struct graph *g, struct slot_info *info);

/* Returns a free slot for a task. NULL: out of memory. */
static inline struct slot_info *slot_provide(struct graph *g, uint32_t size_class)
{
    struct slot_info *info = &g->info[g->free_slot[size_class]];

    if (info == g->info)
        return slot_make(g, size_class);
    if (info->is_spilled)
        (void)slot_clean(g, info);
    return info;
}

/*
 * Makes room for the next id in the current ring's map of ids, and returns its free entry. NULL:
 * out of memory.
 */
struct id_entry *ids_make_room(struct graph *g);
bool ids_was_given(const struct graph *g, struct pto_task_id id);

/* buffers.c */
uint64_t buffers_output_bytes(const struct pto_tensor_info *info);
int buffers_create(struct graph *g, const struct pto_args *args, struct pto_outputs *out,
                   uint32_t *buffer_out);
void buffers_collect(struct graph *g);
/* Fills an output with its first value, through g->fill_fn if that is set. */
void buffers_fill(struct graph *g, uint64_t addr, uint64_t bytes, uint64_t value, uint32_t dtype);
/* Fills `bytes` bytes, a multiple of the element's size, with copies of an element. */
void buffer_fill(uint64_t addr, uint64_t bytes, uint64_t value, uint32_t dtype);

/* Returns the graph that contains this index of regions. */
static inline struct graph *graph_of_index(struct regions *x)
{
    return (struct graph *)(void *)((char *)x - offsetof(struct graph, regions));
}

static inline struct slot *graph_slot(const struct graph *g, uint32_t line)
{
    return (struct slot *)(void *)(g->slot_base + (uint64_t)line * SLOT_LINE_BYTES);
}

static inline uint32_t graph_slot_line(const struct graph *g, const struct slot *s)
{
    return (uint32_t)((uint64_t)((const char *)s - g->slot_base) / SLOT_LINE_BYTES);
}

static inline bool graph_is_alive(const struct graph *g, struct ref r)
{
    return ref_is_alive(&g->regions, r);
}

static inline struct chunk_link *graph_chunk(const struct graph *g, uint32_t chunk)
{
    return (struct chunk_link *)(void *)g->chunk_link_pool.base + chunk;
}

static inline struct buffer *graph_buffer(const struct graph *g, uint32_t index)
{
    return (struct buffer *)(void *)g->buffer_pool.base + index;
}

/* Frees the slot of a completed task; the next task of its size class gets this slot. */
static inline void graph_retire(struct graph *g, uint32_t slot_number)
{
    struct slot_info *info = &g->info[slot_number];
    uint32_t *free_slot = &g->free_slot[info->size_class];

    port_check(slot_number != 0 && info->seq != 0); /* a slot is freed once per task */
    info->seq = 0;
    info->next = *free_slot;
    *free_slot = slot_number;
    if (--g->live == 0)
        g->regions.dead_before = g->seq;
}

/*
 * Finds the highest number before which all tasks have completed, so that records of older tasks
 * are known to be dead without a test of each. A search is necessary because tasks complete in any
 * order.
 */
static inline void graph_catch_up(struct graph *g)
{
    uint32_t seq = g->regions.dead_before;

    if (g->seq - seq > GRAPH_RECENT)
        return; /* `recent` no longer lists the oldest live tasks: give up until no task is live */
    while (seq < g->seq && g->info[g->recent[seq % GRAPH_RECENT]].seq != seq)
        seq++;
    g->regions.dead_before = seq;
}

/*
 * Returns the entry of a task's id in its ring's map of ids. NULL: the entry was reused, so the
 * task is no longer live, and cannot be waited for or retained.
 */
static inline const struct id_entry *ids_find(const struct graph *g, struct pto_task_id id)
{
    uint32_t ring = pto_task_id_ring(id);
    uint32_t local = pto_task_id_local(id);
    const struct id_entry *e;

    if (ring >= GRAPH_RINGS)
        return NULL;
    e = &g->ids[ring].entry[local & g->ids[ring].mask];
    return e->seq != 0 && e->local == local ? e : NULL;
}

/*
 * Whether the outputs of the task that created a tensor are still allocated because the creator's
 * scope is open.
 */
static inline bool graph_has_memory(const struct graph *g, const struct id_entry *creator)
{
    return creator != NULL && creator->buffer != 0 &&
           graph_buffer(g, creator->buffer)->seq == creator->seq;
}

/*
 * Returns the entry for the next id in the current ring's map of ids. A task that has been live for
 * long may still occupy it.
 */
static inline struct id_entry *ids_next(const struct graph *g)
{
    return &g->ids_now->entry[g->ids_now->next_local & g->ids_now->mask];
}

/*
 * Gives a task the next id, whose entry must be free. `slot` is 0 if the task is already complete.
 */
static inline struct pto_task_id ids_put(struct graph *g, struct id_entry *place, uint32_t seq,
                                         uint32_t slot, uint32_t buffer)
{
    uint32_t local = g->ids_now->next_local++;
    uint64_t raw = g->ring_raw | local;

    port_check(place == &g->ids_now->entry[local & g->ids_now->mask]);
    *place = (struct id_entry){ local, seq, slot, buffer };
    return (struct pto_task_id){ raw };
}

/* Records why a call was refused, and returns the status for it. */
__attribute__((cold)) int graph_refuse(struct graph *g, enum failure_kind fault, int32_t argument,
                                       uint64_t value);

/* Returns the status of the latest refusal. */
int graph_refusal_status(const struct graph *g);

/* Makes t wait for r, unless r has completed. */
static inline int graph_wait_for(struct graph *g, struct slot *t, struct ref r)
{
    return ref_wait_for(&g->regions, t, r);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph builder: slots, ids, dependencies, scopes, outputs.
 *
 * Pure: memory comes from pools, there is no clock, no lock, no system call.
 * One thread at a time, the submitter, calls these functions; what other
 * threads touch of a task is its slot (wire/slot.h) and its buffers' counters.
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

/* Under the reference's rules memory is not used again before its ring has given this much. */
enum { GRAPH_REST_BYTES = 256 << 20 };
enum { GRAPH_GUARD_BYTES = GRAPH_OUTPUT_ALIGN }; /* of a guard: graph/guards.h */
enum {
    GRAPH_DESCRIPTORS_PER_CHUNK = 64,
    GRAPH_SCOPES_KEPT = 2,
    GRAPH_SCOPES_GUARDED = 64,
    GRAPH_SCOPES_TOLD = 512
};

#define GRAPH_OUTPUT_BYTES_MAX (1ull << 40) /* of one task */
#define GRAPH_INVOCATIONS_MAX (1u << 30)    /* blocks times lanes */

/* A task by id. `slot` may have gone on to another task: compare its seq. */
struct id_entry {
    uint32_t local;
    uint32_t seq; /* 0: empty */
    uint32_t slot;
    uint32_t buffer;
};

struct id_map {
    struct id_entry *entry;
    uint32_t mask;
    uint32_t next_local;
    struct pool pool;
};

/* One task's outputs: one allocation, counted by the scope, the task and its retainers. */
struct buffer {
    struct a32 users;
    uint32_t seq; /* of the creator; 0: its scope has ended, or it is free */
    uint64_t addr;
    uint32_t next;   /* scope's list, or free list of the class */
    struct a32 link; /* stack of buffers on their way back to the submitter */
    uint32_t born;   /* what its ring had given then, in units of GRAPH_OUTPUT_ALIGN */
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
    uint32_t next;  /* of the scope's, or of the free ones */
    uint32_t ended; /* free ones: how many scopes with outputs had ended */
};

struct scope {
    enum pto_scope_mode mode;
    bool is_manual; /* this one or one around it */
    uint32_t first_buffer;
    uint32_t first_chunk; /* of descriptors; the list goes through chunk_link */
    uint32_t chunk_used;
    uint32_t first_local; /* of the ids of its tasks, in the ring that was its own */
    const struct pto_site *site;
};

/* A scope that has ended, for whoever uses one of its outputs. */
struct ended_scope {
    uint32_t ring;
    uint32_t first_local; /* ids of its tasks, those of scopes within it included */
    uint32_t end_local;
    const struct pto_site *site;
};

/* A scalar that was passed on by its entry index. */
struct passed_scalar {
    uint32_t line; /* of the slot */
    uint16_t argument;
    uint16_t entry;
};

/*
 * The memory of living tasks, where the index of regions does not tell who uses an element:
 * what they write, and what they only read. It is made when an element is first looked for.
 */
struct graph_users {
    struct region_tree tree[2];
    uint32_t next_local[GRAPH_RINGS]; /* ids before it were looked at */
    uint32_t leaves_max;              /* with more it is made anew */
    bool is_made;
};

/* What a refused call was about; the host makes a sentence of it. */
struct graph_refusal {
    enum fault fault;
    int32_t argument;
    uint64_t value;
    uint32_t creator;             /* FAULT_SCOPE_ENDED: seq of the task, if known; else 0 */
    const struct pto_site *scope; /* the same: where it began */
};

struct graph {
    struct regions regions; /* the submitter's; first, so that its address is the graph's */

    /* Read by all while a run is going on. */
    _Alignas(128) char *slot_base;
    const struct graph_kernel *kernels;
    uint32_t kernel_count;
    enum pto_deps deps;
    pto_edge_fn edge_fn;
    void *edge_context;
    void (*wired_fn)(void *context, uint32_t before, uint32_t after); /* NULL: nobody records */
    void *wired_context;
    void (*ended_fn)(void *context, const struct slot *before, const struct slot *after);
    void *ended_context;
    uint32_t clusters;
    const uint32_t *successor; /* of the image that is being launched; NULL: a graph is built */
    struct a32 *counter;       /* of that: predecessors left, by line */
    uint32_t guard_bytes;      /* around each output; 0: it has no guards */
    uint32_t
        edges_plain; /* of a slot, after which one is unusual; 0: all are, and there are no joins */

    /* The submitter's. */
    _Alignas(128) uint32_t live;
    uint32_t seq;           /* of the next task */
    bool is_shared;         /* other threads know live tasks: use atomic read-modify-writes */
    uint32_t ring;          /* of the current scope */
    uint64_t ring_raw;      /* the same, as in the ids of its tasks */
    bool is_manual;         /* the current scope, or one around it */
    uint32_t manual_from;   /* sequence number of the first task in it */
    struct id_map *ids_now; /* of the current ring */
    const uint8_t *access;  /* of the current scope, by tag: enum access */
    uint64_t quick_traits;  /* what tensors have that have a quick way: take_tensor() */
    uint32_t scope_count;
    uint32_t join_total; /* made, those that have gone included */
    uint64_t edge_total; /* of joins, too */
    bool has_settled;    /* a task of this run has a predicate or is a team */
    bool has_unlisted;   /* a task of this run uses memory that is not recorded for it */
    struct slot_info *info;
    uint32_t info_count;
    uint32_t free_slot[SLOT_CLASS_COUNT];
    uint32_t free_edge_chunk;
    uint32_t edge_chunk_count;
    uint32_t free_retained_chunk;
    uint32_t retained_chunk_count;
    uint32_t free_descriptor_chunk; /* the one that is free for longest */
    uint32_t descriptor_chunk_count;
    uint32_t buffer_total;
    uint32_t free_buffer[GRAPH_HEAP_CLASSES]; /* the next one that is taken */
    uint32_t last_free[GRAPH_HEAP_CLASSES];   /* of such a list that is not empty */
    uint32_t heap_given[GRAPH_RINGS];         /* as in struct buffer; it may wrap */
    uint32_t free_record;                     /* buffer records without memory */
    struct id_map ids[GRAPH_RINGS];
    struct scope scope[PTO_SCOPE_DEPTH_MAX + 1];
    struct graph_refusal refusal;
    const struct pto_entry *entry;
    bool is_recorded; /* for an image: scalars that are passed on are noted */
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
    uint32_t last_descriptor_chunk; /* the latest */
    uint32_t ended_count;           /* scopes with outputs that have ended */
    uint32_t chunk_delay; /* how many of them have to before a descriptor's memory is used again */
    uint32_t recent[GRAPH_RECENT]; /* slots of the latest tasks, by sequence number; 0: none */
    struct ended_scope ended[GRAPH_SCOPES_TOLD]; /* the latest ones */
    struct region_tables region_tables;          /* of `regions` */

    /* Written by all: buffers that others found to be free. */
    _Alignas(128) struct a32 freed_buffers;
};

struct graph_params {
    const struct graph_kernel *kernels;
    uint32_t kernel_count;
    enum pto_deps deps;
    pto_edge_fn edge_fn;
    void *edge_context;
    void (*wired_fn)(void *context, uint32_t before, uint32_t after); /* each edge, once linked */
    void *wired_context;
    /* Called for each predecessor of a submit that is sealed but not retired: there is no edge to it. NULL: not. */
    void (*ended_fn)(void *context, const struct slot *before, const struct slot *after);
    void *ended_context;
    const struct pto_entry *entry; /* scalars to be passed on */
    bool is_recorded;              /* the graph becomes an image */
    /* Outputs that start with a value, each once filled; NULL: nobody records. */
    void (*fill_fn)(void *context, uint64_t addr, uint64_t bytes, uint64_t value, uint32_t dtype);
    void *fill_context;
    uint32_t clusters; /* of the chip, for gangs */
    bool is_shared;
    bool has_guards;
};

/* Calls `each` for every pool of the graph, so that its owner can give them address space. */
void graph_each_pool(struct graph *g,
                     void (*each)(struct pool *pool, uint64_t share, void *context), void *context);
/* Starts a run: forgets everything of the one before. The pools keep their memory. */
int graph_start(struct graph *g, const struct graph_params *params);

/*
 * Submits one task. On success *ready_out is the slot if it can run at once,
 * else NULL. On failure `refusal` tells why; after PTO_ENOMEM the graph can
 * only be started anew.
 */
int graph_submit(struct graph *g, const struct pto_kernels *kernels, const struct pto_args *args,
                 const struct pto_site *site, struct pto_outputs *out, struct slot **ready_out);
/* How a submit ended. */
enum submit_end {
    SUBMIT_WAITS,
    SUBMIT_READY,
    SUBMIT_REFUSED, /* g->refusal says why */
    SUBMIT_STOPPED, /* by graph_submit_as only: nothing has changed, another function has to do it */
};

struct submitted {
    enum submit_end end;
    struct slot *slot; /* of a task that waits or is ready */
};

static const struct submitted submit_refused = { SUBMIT_REFUSED, NULL };
static const struct submitted submit_stopped = { SUBMIT_STOPPED, NULL };

/* For submit.h: a task of a form of its own, for which a slot or an id may have to be made. */
__attribute__((noinline)) struct submitted graph_submit_closely(struct graph *g,
                                                                const struct pto_kernels *kernels,
                                                                const struct pto_args *args,
                                                                const struct pto_site *site,
                                                                struct pto_outputs *out);
/* Any task. */
struct submitted graph_submit_unusual(struct graph *g, const struct pto_kernels *kernels,
                                      const struct pto_args *args, const struct pto_site *site,
                                      struct pto_outputs *out);
/* Buffers without a task: complete on return. */
int graph_alloc(struct graph *g, const struct pto_args *args, struct pto_outputs *out);
int graph_scope_begin(struct graph *g, enum pto_scope_mode mode, const struct pto_site *site);
int graph_scope_end(struct graph *g);
/* Refuses a tensor of the task `owner`, whose scope has ended. */
__attribute__((cold)) int graph_refuse_ended(struct graph *g, struct pto_task_id owner,
                                             int32_t argument);

/* data.c: one element as a tensor of its own, or why there is none. Missing indices are 0. */
bool graph_find_element(const struct pto_tensor *t, uint32_t ndims, const uint32_t indices[],
                        struct pto_tensor *out, enum data_fault *why_out);
/* The same, with a refusal as `fault`. */
int graph_element(struct graph *g, const struct pto_tensor *t, uint32_t ndims,
                  const uint32_t indices[], enum fault fault, struct pto_tensor *out);
/*
 * A live task that writes the element, or also reads it, by its slot; 0: none. `from` is the
 * slot of the one that was found before, which has gone, plus 1.
 */
uint32_t graph_find_user(struct graph *g, const struct pto_tensor *element, bool with_readers,
                         uint32_t from, uint32_t *seq_out);

/*
 * Other threads are about to learn of a task, and may complete it. The submitter
 * may take it back when nothing is live.
 */
static inline void graph_share(struct graph *g)
{
    g->is_shared = !PORT_ONE_THREAD;
}

/* Submitter: one user more. False: the last one has gone already, and so has the buffer. */
bool buffer_retain(struct graph *g, uint32_t buffer);
/* Any thread: a user of the buffer is done. `is_submitter` takes the short way back. */
void buffer_release(struct graph *g, uint32_t buffer, bool is_submitter);
/* Any thread, once the task has completed: gives back what it kept alive. */
void graph_release_task(struct graph *g, struct slot *s, bool is_submitter);

/* submit_tensors.c: what a tensor has in the eight bytes from `ndims` on if there is a quick way for it. */
uint64_t submit_quick_traits(enum pto_deps deps);

/* edges.c implements what overlap/overlap.h asks for, joins included. */
/*
 * Whether submits may make joins from now on; those that exist stay. At first they may, unless
 * edge_fn or wired_fn gets all edges (then g->edges_plain is 0).
 */
void graph_allow_joins(struct graph *g, bool may);

/* Edges beyond those in the slot, which has such. */
uint32_t edges_count_spilled(const struct graph *g, const struct slot *t);

/* How many edges a task has that is being submitted or was not run, or a join. */
static inline uint32_t graph_count_edges(const struct graph *g, const struct slot *t)
{
    return t->edge_count + ((t->flags & SLOT_HAS_SPILL) != 0 ? edges_count_spilled(g, t) : 0);
}

/* slots.c */
/* A slot that was never used. NULL when memory has run out. */
struct slot_info *slot_make(struct graph *g, uint32_t size_class);
/* Gives back what the slot's last task spilled. False: it is slot 0, which stands for none. */
bool slot_clean(struct graph *g, struct slot_info *info);

/* A slot that can be taken, made or cleaned if need be. NULL when memory has run out. */
static inline struct slot_info *slot_provide(struct graph *g, uint32_t size_class)
{
    struct slot_info *info = &g->info[g->free_slot[size_class]];

    if (info == g->info)
        return slot_make(g, size_class);
    if (info->is_spilled)
        (void)slot_clean(g, info);
    return info;
}

/* The place of the current ring's next id, free. NULL: memory has run out. */
struct id_entry *ids_make_room(struct graph *g);
bool ids_was_given(const struct graph *g, struct pto_task_id id);

/* buffers.c */
uint64_t buffers_output_bytes(const struct pto_tensor_info *info);
int buffers_create(struct graph *g, const struct pto_args *args, struct pto_outputs *out,
                   uint32_t *buffer_out);
void buffers_collect(struct graph *g);
/* What an output starts with; told to whoever records it. */
void buffers_fill(struct graph *g, uint64_t addr, uint64_t bytes, uint64_t value, uint32_t dtype);
/* Repeats the element's value over the bytes, a multiple of its size. */
void buffer_fill(uint64_t addr, uint64_t bytes, uint64_t value, uint32_t dtype);

/* The graph in which the index lies. */
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

/* A completed task's slot comes back: it is the next one taken. */
static inline void graph_retire(struct graph *g, uint32_t slot_number)
{
    struct slot_info *info = &g->info[slot_number];
    uint32_t *free_slot = &g->free_slot[info->size_class];

    port_check(slot_number != 0 && info->seq != 0); /* once for each task */
    info->seq = 0;
    info->next = *free_slot;
    *free_slot = slot_number;
    if (--g->live == 0)
        g->regions.dead_before = g->seq;
}

/*
 * Finds out how far everything has gone, where tasks end in any order: what is
 * recorded for older tasks is then known to be dead without asking for each.
 */
static inline void graph_catch_up(struct graph *g)
{
    uint32_t seq = g->regions.dead_before;

    if (g->seq - seq > GRAPH_RECENT)
        return; /* it is not known any more: until nothing is live */
    while (seq < g->seq && g->info[g->recent[seq % GRAPH_RECENT]].seq != seq)
        seq++;
    g->regions.dead_before = seq;
}

/* NULL: the id names no task that anything could still wait for or retain. */
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

/* Whether a tensor's creator still keeps its memory: the scope of both is open. */
static inline bool graph_has_memory(const struct graph *g, const struct id_entry *creator)
{
    return creator != NULL && creator->buffer != 0 &&
           graph_buffer(g, creator->buffer)->seq == creator->seq;
}

/* The place of the current ring's next id. A task that lives long may be there. */
static inline struct id_entry *ids_next(const struct graph *g)
{
    return &g->ids_now->entry[g->ids_now->next_local & g->ids_now->mask];
}

/* Gives a task the next id; its place is free. `slot` is 0 for one that is complete already. */
static inline struct pto_task_id ids_put(struct graph *g, struct id_entry *place, uint32_t seq,
                                         uint32_t slot, uint32_t buffer)
{
    uint32_t local = g->ids_now->next_local++;
    uint64_t raw = g->ring_raw | local;

    port_check(place == &g->ids_now->entry[local & g->ids_now->mask]);
    *place = (struct id_entry){ local, seq, slot, buffer };
    return (struct pto_task_id){ raw };
}

/* Notes why a call was refused, and returns the status for it. */
__attribute__((cold)) int graph_refuse(struct graph *g, enum fault fault, int32_t argument,
                                       uint64_t value);

/* The status of the latest refusal. */
int graph_refusal_status(const struct graph *g);

/* Makes t wait for r unless r has gone. */
static inline int graph_wait_for(struct graph *g, struct slot *t, struct ref r)
{
    return ref_wait_for(&g->regions, t, r);
}

#endif

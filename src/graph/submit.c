/* SPDX-License-Identifier: Apache-2.0 */
/* One submit: check, slot, id, dependencies, ready. */
#include <string.h>

#include "graph/access.h"

/* How much of a task there is to look at. */
enum form {
    FORM_BARE,   /* one kernel that always runs once, without tensors, waiting for nobody */
    FORM_SINGLE, /* the same with one tensor, which alone orders it */
    FORM_PLAIN,  /* with several */
    FORM_UNUSUAL /* anything */
};

/* What a task is beyond one kernel that always runs once: flags of its slot, and its lanes above. */
enum { LAUNCH_LANES_SHIFT = 8 };

static int check_task(struct graph *g, int32_t kernel, uint32_t core_type,
                      const struct pto_args *args, struct span *span, enum form form);
static int check_launch(struct graph *g, const struct pto_kernels *kernels, uint32_t core_type,
                        const struct pto_args *args);
static int check_kernel(struct graph *g, int32_t kernel, uint32_t core_type);
static int check_passed(struct graph *g, const struct pto_args *args);
static int check_predicate(struct graph *g, const struct pto_args *args);
static int check_tensors(struct graph *g, const struct pto_args *args, uint32_t count,
                         struct span *span);
static int check_tensor(struct graph *g, const struct pto_tensor *t, uint32_t index,
                        struct span *span);
static int check_deps(struct graph *g, const struct pto_args *args);
static int wait_for_deps(struct graph *g, struct slot *t, const struct pto_args *args);
static int wait_for_tensors(struct graph *g, struct slot *t, const struct pto_args *args,
                            uint32_t count, struct span *span, const struct pto_outputs *out);
static int fill_unusual(struct graph *g, struct slot *t, const struct pto_kernels *kernels,
                        const struct pto_args *args, uint32_t launch);
static void fill_launch(struct slot *t, const struct pto_kernels *kernels,
                        const struct pto_args *args, uint32_t launch);
static int wait_for_operand(struct graph *g, struct slot *t, const struct pto_predicate *p);
static int fill_passed(struct graph *g, struct slot *t, const struct pto_args *args);
static int retain_explicit(struct graph *g, struct slot *t, uint32_t block);
static void put_chunks(struct graph *g, struct slot *s);
static int link_unusual(struct graph *g, struct slot *p, struct slot *t, void *head, uint32_t seq);
static struct edge *spill_edge(struct graph *g, struct slot *t);
static uint32_t count_spilled(struct graph *g, const struct slot *t);

static_assert(SLOT_LANE_AIC == 1 << PTO_CORE_AIC && SLOT_LANE_AIV0 == 1 << PTO_CORE_AIV,
              "a lane's bit is its core type's");
static_assert(SLOT_LANE_AIV0 - SLOT_LANE_AIC == PTO_CORE_AIV, "a sum does for a shift");

int graph_refuse(struct graph *g, enum graph_fault fault, int32_t argument, uint64_t value)
{
    g->refusal = (struct graph_refusal){ fault, argument, value };
    return fault == FAULT_MEMORY ? PTO_ENOMEM : fault == FAULT_GANG ? PTO_ESYNC_START : PTO_EARGS;
}

/* The class of slot with room for header, tensors and what is behind them. */
__attribute__((noinline)) static uint32_t class_with_tail(const struct pto_args *args)
{
    uint32_t tail = args->tensor_count * 4 + (args->scalar_count > 1 ? args->scalar_count * 8 : 0) +
                    (args->predicate != NULL ? sizeof(struct slot_predicate) + 8 : 0);
    uint32_t lines = 2 + 2 * args->tensor_count + (tail + SLOT_LINE_BYTES - 1) / SLOT_LINE_BYTES;

    return lines <= 3 ? 0 : lines <= 5 ? 1 : lines <= 11 ? 2 : lines <= 21 ? 3 : 4;
}

/* A number that the compiler knows, if it can. */
static inline uint32_t tensors_of(const struct pto_args *args, enum form form)
{
    return form == FORM_BARE ? 0 : form == FORM_SINGLE ? 1 : args->tensor_count;
}

static inline uint32_t class_for(const struct pto_args *args, enum form form)
{
    /* By tensors, if nothing is behind them but the blocks that they retain. */
    static const uint8_t plain[PTO_TASK_TENSORS_MAX + 1] = {
        0, 1, 2, 2, 2, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4,
        4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
    };

    if (args->scalar_count <= 1 && (form != FORM_UNUSUAL || args->predicate == NULL))
        return plain[tensors_of(args, form)];
    return class_with_tail(args);
}

/* NULL when memory has run out. */
static inline struct slot_info *take_slot(struct graph *g, uint32_t size_class)
{
    uint32_t number = g->free_slot[size_class];
    struct slot_info *info = &g->info[number];

    if (number == 0)
        return slot_make(g, size_class);
    g->free_slot[size_class] = info->next;
    return info;
}

/* One kernel that always runs once and that only its tensors order, without scalars of the entry. */
static inline bool is_plain_task(const struct pto_kernels *kernels, const struct pto_args *args)
{
    bool has_one_lane = (kernels->aiv1 & (kernels->aic ^ kernels->aiv0)) < 0; /* AIC or AIV0 */

    return has_one_lane && args->block_count == 1 && (args->dep_count | args->passed) == 0 &&
           args->predicate == NULL && args->timing_slot < 0;
}

/* What a slot says of a task, but for kernel and lanes; flags and counters as for a plain task. */
static inline void fill_header(struct slot *t, uint32_t seq, const struct pto_args *args,
                               enum form form)
{
    atomic_note_write(t);
    aptr_store_relaxed(&t->successors, NULL); /* others learn of the task through a release below */
    t->seq = seq;
    a32_store_relaxed(&t->pending, SLOT_BIAS);
    t->tensor_count = (uint8_t)tensors_of(args, form);
    t->scalar_count = (uint8_t)args->scalar_count;
    t->edge_count = 0;
    t->block_count = form != FORM_UNUSUAL ? 1 : (uint32_t)args->block_count;
    if (args->scalar_count == 1)
        t->scalar = args->scalar[0];
    else if (args->scalar_count > 1)
        memcpy(slot_scalars(t), args->scalar, args->scalar_count * sizeof(uint64_t));
}

/* All edges are linked. Returns whether the task can run at once. */
static inline bool arm_task(struct graph *g, struct slot *t)
{
    uint32_t edges = t->edge_count;
    uint32_t left;

    if (edges == 0)
        return true;
    if ((t->flags & SLOT_HAS_SPILL) != 0)
        edges += count_spilled(g, t);
    g->edge_total += edges;
    if (g->is_shared)
        return a32_sub_acq_rel(&t->pending, SLOT_BIAS - edges) == SLOT_BIAS - edges; /* R5 A5 */
    left = a32_load_relaxed(&t->pending) - (SLOT_BIAS - edges); /* nobody else writes */
    a32_store_relaxed(&t->pending, left);
    return left == 0;
}

__attribute__((always_inline)) static inline int submit_task(
    struct graph *g, const struct pto_kernels *kernels, const struct pto_args *args,
    const struct pto_site *site, struct pto_outputs *out, struct slot **ready_out, enum form form)
{
    bool is_plain = form != FORM_UNUSUAL;
    bool is_aic = kernels->aic >= 0;
    uint32_t core_type = is_aic ? PTO_CORE_AIC : PTO_CORE_AIV;
    int32_t aiv = !is_plain && kernels->aiv1 >= 0 ? kernels->aiv1 : kernels->aiv0;
    int32_t kernel = is_aic ? kernels->aic : aiv;
    struct span span[PTO_TASK_TENSORS_MAX];
    uint32_t seq = g->seq;
    uint32_t block = 0;
    uint32_t local;
    int launch = 0;
    int status = check_task(g, kernel, core_type, args, span, form);
    bool has_outputs = form != FORM_BARE && status > 0;
    struct slot_info *info;
    struct slot *t;

    if (!is_plain && status >= 0)
        status = launch = check_launch(g, kernels, core_type, args);
    if (status < 0)
        return status;
    info = take_slot(g, class_for(args, form));
    if (info == NULL)
        return graph_refuse(g, FAULT_MEMORY, -1, SLOT_LINES_MAX * SLOT_LINE_BYTES);
    t = graph_slot(g, info->line);
    if ((t->flags & SLOT_HAS_SPILL) != 0)
        put_chunks(g, t);
    if (has_outputs) {
        status = blocks_create(g, args, out, &t->block);
        if (status < 0)
            return status;
        block = t->block;
    }
    if (!ids_put(g, seq, t->number, block, &local))
        return graph_refuse(g, FAULT_MEMORY, -1, 0);
    fill_header(t, seq, args, form);
    t->kernel[0] = (uint16_t)kernel;
    t->lanes = is_plain || kernel >= 0 ? (uint8_t)(SLOT_LANE_AIC + core_type) : 0;
    t->core_type = (uint8_t)core_type;
    t->flags = has_outputs ? SLOT_HAS_BLOCK : 0;
    t->site = site;
    t->ring = (uint8_t)g->ring;
    t->local = local;
    out->task = pto_task_id_make(g->ring, local);
    info->seq = seq;
    g->recent[seq % GRAPH_RECENT] = t->number;
    g->seq = seq + 1;
    g->live++;
    status = PTO_OK;
    if (!is_plain)
        status = fill_unusual(g, t, kernels, args, (uint32_t)launch);
    if (tensors_of(args, form) != 0 && status >= 0)
        status = wait_for_tensors(g, t, args, tensors_of(args, form), span, out);
    if ((launch & SLOT_HAS_PREDICATE) != 0 && status >= 0)
        status = wait_for_operand(g, t, args->predicate);
    if (status < 0) {
        g->live--; /* it keeps its slot, but nobody is to wait for it */
        return status == PTO_EARGS ? status : graph_refuse(g, FAULT_MEMORY, -1, 0);
    }
    *ready_out = form == FORM_BARE || arm_task(g, t) ? t : NULL;
    return PTO_OK;
}

/* Most tasks are plain: the compiler makes a function of its own for each form. */
#define SUBMIT_AS(name, form)                                                            \
    __attribute__((noinline)) static int name(                                           \
        struct graph *g, const struct pto_kernels *kernels, const struct pto_args *args, \
        const struct pto_site *site, struct pto_outputs *out, struct slot **ready_out)   \
    {                                                                                    \
        return submit_task(g, kernels, args, site, out, ready_out, form);                \
    }
SUBMIT_AS(submit_bare, FORM_BARE)
SUBMIT_AS(submit_single, FORM_SINGLE)
SUBMIT_AS(submit_plain, FORM_PLAIN)
SUBMIT_AS(submit_unusual, FORM_UNUSUAL)
#undef SUBMIT_AS

int graph_submit(struct graph *g, const struct pto_kernels *kernels, const struct pto_args *args,
                 const struct pto_site *site, struct pto_outputs *out, struct slot **ready_out)
{
    if (!is_plain_task(kernels, args))
        return submit_unusual(g, kernels, args, site, out, ready_out);
    if (args->tensor_count == 0)
        return submit_bare(g, kernels, args, site, out, ready_out);
    if (args->tensor_count == 1)
        return submit_single(g, kernels, args, site, out, ready_out);
    return submit_plain(g, kernels, args, site, out, ready_out);
}

int graph_alloc(struct graph *g, const struct pto_args *args, struct pto_outputs *out)
{
    struct span span[PTO_TASK_TENSORS_MAX];
    uint32_t block, local;
    int status;

    if (args->error != NULL)
        return graph_refuse(g, FAULT_ARGS_ERROR, -1, 0);
    if (g->seq == UINT32_MAX)
        return graph_refuse(g, FAULT_TOO_MANY, -1, 0);
    if (args->tensor_count == 0 || args->tensor_count > PTO_TASK_TENSORS_MAX ||
        args->scalar_count != 0)
        return graph_refuse(g, FAULT_ALLOC_ARGS, -1, 0);
    for (uint32_t i = 0; i < args->tensor_count; i++)
        if (args->tag[i] != PTO_TAG_OUTPUT)
            return graph_refuse(g, FAULT_ALLOC_ARGS, (int32_t)i, 0);
    status = check_tensors(g, args, args->tensor_count, span);
    if (status < 0)
        return status;
    status = blocks_create(g, args, out, &block);
    if (status < 0)
        return status;
    if (!ids_put(g, g->seq, 0, block, &local))
        return graph_refuse(g, FAULT_MEMORY, -1, 0);
    a32_store_relaxed(&graph_block(g, block)->users, 1); /* the scope: the task is complete */
    g->recent[g->seq % GRAPH_RECENT] = 0;
    g->seq++;
    out->task = pto_task_id_make(g->ring, local);
    for (uint32_t i = 0; i < out->count; i++)
        ((struct pto_tensor *)(uintptr_t)out->tensor)[i].owner = out->task;
    return PTO_OK;
}

/* Adds the edge to the list of p, of which `head` was the first. False: p has completed meanwhile. */
static inline bool add_edge(struct graph *g, struct slot *p, struct slot *t, void *head,
                            struct edge *e)
{
    e->self = t;
    atomic_note_write(e);
    if (!g->is_shared) {
        e->next = head;
        aptr_store_relaxed(&p->successors, e); /* one thread */
        return true;
    }
    do {
        e->next = head;
        if (head == SLOT_SEALED)
            return false;
    } while (!aptr_cas_acq_rel(&p->successors, &head, e)); /* R1 A2 */
    return true;
}

/*
 * The submitter is the only one that adds to a list, so if t waits for r
 * already, its edge is the newest of r's list: the head tells.
 */
int graph_link(struct graph *g, struct slot *t, struct ref r)
{
    struct slot *p = graph_slot(g, g->info[r.slot].line);
    void *head = aptr_load_acquire(&p->successors); /* A2 */

    if (head == SLOT_SEALED || p == t || (uintptr_t)head - (uintptr_t)t < sizeof(struct slot))
        return PTO_OK;
    if (t->edge_count >= g->edges_plain)
        return link_unusual(g, p, t, head, r.seq);
    t->edge_count += add_edge(g, p, t, head, &t->edge[t->edge_count]);
    return PTO_OK;
}

/* The same with more edges than fit into the slot, or with somebody who is told of each. */
__attribute__((noinline)) static int link_unusual(struct graph *g, struct slot *p, struct slot *t,
                                                  void *head, uint32_t seq)
{
    bool is_inline = t->edge_count < SLOT_EDGES_INLINE;
    struct edge *e;

    if (!is_inline && head != NULL && ((struct edge *)head)->self == t)
        return PTO_OK;
    if (g->edge_fn != NULL && !g->edge_fn(g->edge_context, seq - 1, t->seq - 1))
        return PTO_OK;
    e = is_inline ? &t->edge[t->edge_count] : spill_edge(g, t);
    if (e == NULL)
        return PTO_ENOMEM;
    if (!add_edge(g, p, t, head, e))
        return PTO_OK; /* the edge is not counted: the next one takes its place */
    if (g->wired_fn != NULL)
        g->wired_fn(g->wired_context, seq - 1, t->seq - 1);
    if (is_inline)
        t->edge_count++;
    else
        ((struct edge_chunk *)(void *)g->edge_pool.base + t->edge_chunk)->count++;
    return PTO_OK;
}

/* The next free edge of the chain of chunks; counted by the caller once it is linked. */
static struct edge *spill_edge(struct graph *g, struct slot *t)
{
    struct edge_chunk *chunk = (struct edge_chunk *)(void *)g->edge_pool.base + t->edge_chunk;
    uint32_t index;

    if (t->edge_chunk == 0 || chunk->count == GRAPH_EDGES_PER_CHUNK) {
        index = g->free_edge_chunk;
        if (index != 0) {
            chunk = (struct edge_chunk *)(void *)g->edge_pool.base + index;
            g->free_edge_chunk = chunk->next;
        } else {
            chunk = pool_take(&g->edge_pool, sizeof(*chunk));
            if (chunk == NULL)
                return NULL;
            index = g->edge_chunk_count++;
        }
        chunk->count = 0;
        chunk->next = t->edge_chunk;
        t->edge_chunk = index;
        t->flags |= SLOT_HAS_SPILL;
    }
    return &chunk->edge[chunk->count];
}

static uint32_t count_spilled(struct graph *g, const struct slot *t)
{
    const struct edge_chunk *base = (const struct edge_chunk *)(void *)g->edge_pool.base;
    uint32_t edges = 0;

    for (uint32_t c = t->edge_chunk; c != 0; c = base[c].next)
        edges += base[c].count;
    return edges;
}

/* What a plain task does not have. The header was filled as if it were one. */
static int fill_unusual(struct graph *g, struct slot *t, const struct pto_kernels *kernels,
                        const struct pto_args *args, uint32_t launch)
{
    int status = PTO_OK;

    t->flags |= (uint8_t)launch;
    if (args->passed != 0)
        status = fill_passed(g, t, args);
    if (args->dep_count != 0 && status >= 0)
        status = wait_for_deps(g, t, args);
    if (launch != 0)
        fill_launch(t, kernels, args, launch);
    return status;
}

static int wait_for_deps(struct graph *g, struct slot *t, const struct pto_args *args)
{
    int status = PTO_OK;

    for (uint32_t i = 0; i < args->dep_count && status >= 0; i++) {
        uint32_t kind =
            args->dep_kinds != NULL ? args->dep_kinds[i] : PTO_DEP_WAIT | PTO_DEP_RETAIN;
        const struct id_entry *e = ids_find(g, args->deps[i]);

        if (e == NULL)
            continue; /* it has completed, and its outputs are gone */
        if ((kind & PTO_DEP_WAIT) != 0 && e->slot != 0)
            status = graph_wait_for(g, t, (struct ref){ e->slot, e->seq });
        if (status >= 0 && (kind & PTO_DEP_RETAIN) != 0 && e->block != 0 &&
            graph_block(g, e->block)->seq == e->seq)
            status = retain_explicit(g, t, e->block);
    }
    return status;
}

/* After the header was filled as for one kernel that runs once. */
__attribute__((noinline)) static void fill_launch(struct slot *t, const struct pto_kernels *kernels,
                                                  const struct pto_args *args, uint32_t launch)
{
    uint32_t lanes = launch >> LAUNCH_LANES_SHIFT;
    uint32_t lane_count = 1;

    if (lanes != 0) {
        t->lanes = (uint8_t)lanes;
        t->kernel[LANE_AIC] = (uint16_t)kernels->aic;
        t->kernel[LANE_AIV0] = (uint16_t)kernels->aiv0;
        t->kernel[LANE_AIV1] = (uint16_t)kernels->aiv1;
        lane_count = slot_lane_count(lanes);
    }
    t->timing_slot = (uint8_t)args->timing_slot;
    t->retained_count = 0;
    t->block_next = 0;
    a32_store_relaxed(&t->block_left, t->block_count * lane_count); /* published with the task */
}

/* Scalars of the entry, noted if the graph is to be launched again. */
__attribute__((noinline)) static int fill_passed(struct graph *g, struct slot *t,
                                                 const struct pto_args *args)
{
    for (uint32_t i = 0; i < args->scalar_count; i++) {
        uint32_t from = args->passed_from[i];
        struct passed_scalar *passed;

        if ((args->passed >> i & 1) == 0)
            continue;
        slot_set_scalar(t, i, g->entry->scalar[from]);
        if (!g->is_recorded)
            continue;
        passed = pool_take(&g->passed_pool, sizeof(*passed));
        if (passed == NULL)
            return PTO_ENOMEM;
        *passed = (struct passed_scalar){ graph_slot_line(g, t), (uint16_t)i, (uint16_t)from };
    }
    return PTO_OK;
}

/* A tensor of the runtime's memory comes after its creator, and keeps that memory. */
static int wait_for_owner(struct graph *g, struct slot *t, struct pto_task_id owner, uint32_t index,
                          uint32_t *retained)
{
    const struct id_entry *e = ids_find(g, owner);
    int status = PTO_OK;

    if (e != NULL && !g->is_manual && e->slot != 0)
        status = graph_wait_for(g, t, (struct ref){ e->slot, e->seq });
    if (e != NULL && e->block != 0 && graph_block(g, e->block)->seq == e->seq &&
        block_retain(g, e->block))
        slot_retained(t)[(*retained)++] = e->block;
    else if (g->deps == PTO_DEPS_SAFE) /* its last user went while we looked */
        status = graph_refuse(g, FAULT_SCOPE_ENDED, (int32_t)index, owner.raw);
    return status;
}

__attribute__((always_inline)) static inline int wait_for_tensors(struct graph *g, struct slot *t,
                                                                  const struct pto_args *args,
                                                                  uint32_t count, struct span *span,
                                                                  const struct pto_outputs *out)
{
    const uint8_t *access = g->access;
    struct pto_tensor *created = (struct pto_tensor *)(uintptr_t)out->tensor;
    uint32_t retained = 0;
    int status = PTO_OK;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t tag = args->tag[i];
        struct pto_tensor *x = &t->tensor[i];

        if (tag == PTO_TAG_OUTPUT) {
            created->owner = out->task;
            *x = *created++;
            span[i] = span_of(x->addr, x->is_contiguous ? pto_tensor_bytes(x) : 0);
        } else {
            const struct pto_tensor *from = args->tensor[i];

            *x = *from;
            if (pto_task_id_is_valid(from->owner)) {
                status = wait_for_owner(g, t, from->owner, i, &retained);
                if (status < 0)
                    break;
            }
        }
        x->tag = (uint8_t)tag;
        if (access[tag] == 0 || x->manual_dep)
            continue;
        status = region_access(g, t, x, &span[i], access[tag]);
        if (status < 0)
            break;
    }
    t->retained_count = (uint16_t)retained;
    if (retained != 0)
        t->flags |= SLOT_HAS_RETAINED;
    return status;
}

/* The operand of a predicate is a read; under the reference's rules it orders nothing. */
__attribute__((noinline)) static int wait_for_operand(struct graph *g, struct slot *t,
                                                      const struct pto_predicate *p)
{
    uint32_t access = g->access[PTO_TAG_INPUT];
    struct pto_tensor element;
    struct pto_tensor *x = &element;
    struct span span = { .length = 0 };
    int status = graph_element(g, p->tensor, p->ndims, p->indices, FAULT_PREDICATE, x);

    if (status >= 0)
        status = check_tensor(g, x, t->tensor_count, &span);
    if (status < 0)
        return status; /* as was checked before, so it does not happen */
    *slot_predicate(t) = (struct slot_predicate){
        .addr = (uint64_t)(uintptr_t)pto_tensor_data(x),
        .target = p->target,
        .op = p->op,
        .bytes = (uint8_t)pto_dtype_size(x->dtype),
    };
    if (g->deps != PTO_DEPS_SAFE)
        return PTO_OK;
    if (pto_task_id_is_valid(x->owner)) {
        const struct id_entry *e = ids_find(g, x->owner);

        if (e != NULL && !g->is_manual && e->slot != 0)
            status = graph_wait_for(g, t, (struct ref){ e->slot, e->seq });
        if (e == NULL || e->block == 0 || graph_block(g, e->block)->seq != e->seq ||
            !block_retain(g, e->block))
            return graph_refuse(g, FAULT_SCOPE_ENDED, t->tensor_count, x->owner.raw);
        slot_retained(t)[t->retained_count++] = e->block;
        t->flags |= SLOT_HAS_RETAINED;
    }
    if (status >= 0 && !x->manual_dep)
        status = region_access(g, t, x, &span, access);
    return status;
}

/* Retained through an explicit dependency: kept in chunks, there may be any number. */
static int retain_explicit(struct graph *g, struct slot *t, uint32_t block)
{
    struct retained_chunk *base = (struct retained_chunk *)(void *)g->retained_pool.base;
    struct retained_chunk *chunk = &base[t->retained_chunk];
    uint32_t used = 0;

    if (!block_retain(g, block))
        return PTO_OK; /* already gone: nothing to keep */
    if (t->retained_chunk != 0)
        while (used < GRAPH_RETAINED_PER_CHUNK && chunk->block[used] != 0)
            used++;
    if (t->retained_chunk == 0 || used == GRAPH_RETAINED_PER_CHUNK) {
        uint32_t index = g->free_retained_chunk;

        if (index != 0) {
            g->free_retained_chunk = base[index].next;
        } else {
            if (pool_take(&g->retained_pool, sizeof(*chunk)) == NULL)
                return PTO_ENOMEM;
            index = g->retained_chunk_count++;
        }
        chunk = &base[index];
        memset(chunk->block, 0, sizeof(chunk->block));
        chunk->next = t->retained_chunk;
        t->retained_chunk = index;
        t->retained_count = 0;
        t->flags |= SLOT_HAS_SPILL | SLOT_HAS_RETAINED;
        used = 0;
    }
    chunk->block[used] = block;
    return PTO_OK;
}

/* What the slot's last task spilled. */
static void put_chunks(struct graph *g, struct slot *s)
{
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
}

/* ---- checks: everything that can be refused is refused before anything is changed ---- */

/* Returns whether there are outputs, or a refusal. */
__attribute__((always_inline)) static inline int check_task(struct graph *g, int32_t kernel,
                                                            uint32_t core_type,
                                                            const struct pto_args *args,
                                                            struct span *span, enum form form)
{
    bool is_plain = form != FORM_UNUSUAL;
    int status = PTO_OK;
    int has_outputs = 0;

    if (args->error != NULL || args->tensor_count > PTO_TASK_TENSORS_MAX ||
        args->scalar_count > PTO_TASK_SCALARS_MAX)
        return graph_refuse(g, FAULT_ARGS_ERROR, -1, 0);
    if (g->seq == UINT32_MAX)
        return graph_refuse(g, FAULT_TOO_MANY, -1, 0);
    if (is_plain || kernel >= 0)
        status = check_kernel(g, kernel, core_type);
    if (!is_plain && args->passed != 0 && status >= 0)
        status = check_passed(g, args);
    if (tensors_of(args, form) != 0 && status >= 0)
        status = has_outputs = check_tensors(g, args, tensors_of(args, form), span);
    if (!is_plain && args->dep_count != 0 && status >= 0)
        status = check_deps(g, args);
    return status < 0 ? status : has_outputs;
}

static inline int check_kernel(struct graph *g, int32_t kernel, uint32_t core_type)
{
    if ((uint32_t)kernel >= g->kernel_count || g->kernels[kernel].fn == NULL)
        return graph_refuse(g, FAULT_KERNEL, -1, (uint64_t)kernel);
    if (g->kernels[kernel].core_type != core_type && g->kernels[kernel].core_type != PTO_CORE_TYPES)
        return graph_refuse(g, FAULT_CORE_TYPE, -1, (uint64_t)kernel);
    return PTO_OK;
}

__attribute__((noinline)) static int check_passed(struct graph *g, const struct pto_args *args)
{
    uint32_t count = g->entry != NULL ? g->entry->scalar_count : 0;

    for (uint32_t i = 0; i < args->scalar_count; i++)
        if ((args->passed >> i & 1) != 0 && args->passed_from[i] >= count)
            return graph_refuse(g, FAULT_PASSED, (int32_t)count, args->passed_from[i]);
    return PTO_OK;
}

/*
 * Lanes, blocks, gang, predicate, timing: what the slot has to say of them, or a
 * refusal. A dummy runs nothing, so only its predicate is looked at.
 */
__attribute__((noinline)) static int check_launch(struct graph *g,
                                                  const struct pto_kernels *kernels,
                                                  uint32_t core_type, const struct pto_args *args)
{
    const int32_t kernel[SLOT_LANES] = { kernels->aic, kernels->aiv0, kernels->aiv1 };
    uint32_t most = core_type == PTO_CORE_AIV ? 2 * g->clusters : g->clusters;
    uint32_t lane_count = 0;
    uint32_t lanes = 0;
    int flags = 0;
    int status;

    for (uint32_t i = 0; i < SLOT_LANES; i++) {
        lane_count += kernel[i] >= 0;
        lanes |= kernel[i] >= 0 ? 1u << i : 0;
    }
    if (args->block_count < 1 ||
        (uint64_t)args->block_count * (lane_count != 0 ? lane_count : 1) > GRAPH_INVOCATIONS_MAX)
        return graph_refuse(g, FAULT_BLOCK_COUNT, -1, (uint64_t)(int64_t)args->block_count);
    if (args->timing_slot >= PTO_TIMING_SLOTS)
        return graph_refuse(g, FAULT_TIMING_SLOT, -1, (uint64_t)args->timing_slot);
    if (lane_count > 1) {
        most = g->clusters;
        flags = SLOT_IS_TEAM | (int)(lanes << LAUNCH_LANES_SHIFT);
        for (uint32_t i = 0; i < SLOT_LANES; i++) {
            if (kernel[i] < 0)
                continue;
            status = check_kernel(g, kernel[i], i == LANE_AIC ? PTO_CORE_AIC : PTO_CORE_AIV);
            if (status < 0)
                return status;
        }
    }
    if (lane_count != 0 && args->block_count > 1 && args->is_sync_start) {
        if ((uint32_t)args->block_count > most)
            return graph_refuse(g, FAULT_GANG, (int32_t)most, (uint64_t)args->block_count);
        flags |= SLOT_IS_TEAM | SLOT_IS_GANG;
    }
    if (lane_count > 1 || (lane_count == 1 && args->block_count > 1))
        flags |= SLOT_IS_COUNTED;
    if (lane_count != 0 && args->timing_slot >= 0)
        flags |= SLOT_IS_TIMED;
    if (args->predicate != NULL) {
        status = check_predicate(g, args);
        if (status < 0)
            return status;
        flags |= status;
    }
    return flags;
}

/* SLOT_HAS_PREDICATE, 0 for one that always holds, or a refusal. */
static int check_predicate(struct graph *g, const struct pto_args *args)
{
    const struct pto_predicate *p = args->predicate;
    struct pto_tensor operand;
    struct span span;
    int status;

    if (p->op == PTO_PREDICATE_NONE || (p->tensor != NULL && p->tensor->addr == 0))
        return 0;
    if (p->op > PTO_PREDICATE_LE)
        return graph_refuse(g, FAULT_PREDICATE, -1, DATA_OPERATOR);
    status = graph_element(g, p->tensor, p->ndims, p->indices, FAULT_PREDICATE, &operand);
    if (status >= 0)
        status = check_tensor(g, &operand, args->tensor_count, &span);
    return status < 0 ? status : SLOT_HAS_PREDICATE;
}

/*
 * Also finds out where contiguous arguments lie, and asks for their records'
 * lines. Returns whether there are outputs, or a refusal.
 */
__attribute__((always_inline)) static inline int check_tensors(struct graph *g,
                                                               const struct pto_args *args,
                                                               uint32_t count, struct span *span)
{
    uint64_t output_bytes = 0;
    int has_outputs = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t tag = args->tag[i];

        if (tag > PTO_TAG_NO_DEP)
            return graph_refuse(g, FAULT_TAG, (int32_t)i, tag);
        if (tag != PTO_TAG_OUTPUT) {
            int status = check_tensor(g, args->tensor[i], i, &span[i]);

            if (status < 0)
                return status;
        } else {
            const struct pto_tensor_info *info = args->tensor[i];

            if (info->ndims - 1 >= PTO_MAX_DIMS || info->dtype >= PTO_DTYPE_COUNT)
                return graph_refuse(g, FAULT_INFO, (int32_t)i, info->ndims);
            has_outputs = 1;
            output_bytes += blocks_output_bytes(info);
            if (output_bytes > GRAPH_OUTPUT_BYTES_MAX)
                return graph_refuse(g, FAULT_TOO_LARGE, (int32_t)i, output_bytes);
        }
    }
    return has_outputs;
}

static uint32_t view_fault(const struct pto_tensor *t)
{
    if (t->ndims == 0)
        return t->fault;
    return t->ndims > PTO_MAX_DIMS ? PTO_VIEW_BAD_NDIMS : PTO_VIEW_BAD_DTYPE;
}

/* Of a tensor that the safe rules do not know as one interval: span->length is 0. */
__attribute__((noinline)) static int check_strides(struct graph *g, const struct pto_tensor *t,
                                                   uint32_t index)
{
    for (uint32_t d = 0; d < t->ndims; d++)
        if (t->strides[d] == 0)
            return graph_refuse(g, FAULT_VIEW, (int32_t)index, PTO_VIEW_ZERO_STRIDE);
    return PTO_OK;
}

/* Whether the tensor's creator still keeps its memory. */
static inline bool has_memory(const struct graph *g, const struct pto_tensor *t)
{
    const struct id_entry *e = ids_find(g, t->owner);

    return e != NULL && e->block != 0 && graph_block(g, e->block)->seq == e->seq;
}

__attribute__((always_inline)) static inline int check_tensor(struct graph *g,
                                                              const struct pto_tensor *t,
                                                              uint32_t index, struct span *span)
{
    bool is_contiguous = t->is_contiguous;
    uint32_t dtype = t->dtype;
    uint64_t start, length;
    uint32_t elem_bytes;

    if (t->ndims - 1 >= PTO_MAX_DIMS || dtype >= PTO_DTYPE_COUNT)
        return graph_refuse(g, FAULT_VIEW, (int32_t)index, view_fault(t));
    if (!is_contiguous || g->deps != PTO_DEPS_SAFE) {
        *span = (struct span){ 0 };
        if (check_strides(g, t, index) < 0)
            return PTO_EARGS;
        if (g->deps != PTO_DEPS_SAFE)
            return PTO_OK;
    }
    elem_bytes = pto_dtype_size(dtype);
    start = t->start * elem_bytes;
    length = (is_contiguous ? pto_tensor_numel(t) : t->extent) * elem_bytes;
    if (start + length > t->size)
        return graph_refuse(g, FAULT_BOUNDS, (int32_t)index, start + length);
    if (t->addr == 0 && t->size != 0)
        return graph_refuse(g, FAULT_NULL_ADDRESS, (int32_t)index, 0);
    if (pto_task_id_is_valid(t->owner) && !has_memory(g, t))
        return graph_refuse(g, FAULT_SCOPE_ENDED, (int32_t)index, t->owner.raw);
    if (is_contiguous) {
        *span = span_of(t->addr + start, length);
        __builtin_prefetch(span_head(&g->regions, span), 1, 3);
    }
    return PTO_OK;
}

static int check_deps(struct graph *g, const struct pto_args *args)
{
    for (uint32_t i = 0; i < args->dep_count; i++) {
        if (!pto_task_id_is_valid(args->deps[i]))
            return graph_refuse(g, FAULT_DEP_INVALID, -1, i);
        if (!ids_was_given(g, args->deps[i]))
            return graph_refuse(g, FAULT_DEP_UNKNOWN, -1, i);
        if (args->dep_kinds != NULL && args->dep_kinds[i] > (PTO_DEP_WAIT | PTO_DEP_RETAIN))
            return graph_refuse(g, FAULT_DEP_KIND, -1, i);
    }
    return PTO_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* One submit: check, slot, id, dependencies, ready. */
#include <string.h>

#include "graph/access.h"

/* What a task is beyond one kernel that always runs once: flags of its slot, and its lanes above. */
enum { LAUNCH_LANES_SHIFT = 8 };

static int check_task(struct graph *g, int32_t kernel, uint32_t core_type,
                      const struct pto_args *args, struct span *span, bool *has_outputs);
static int check_launch(struct graph *g, const struct pto_kernels *kernels, uint32_t core_type,
                        const struct pto_args *args);
static int check_kernel(struct graph *g, int32_t kernel, uint32_t core_type);
static int check_passed(struct graph *g, const struct pto_args *args);
static int check_predicate(struct graph *g, const struct pto_args *args);
static int check_tensors(struct graph *g, const struct pto_args *args, struct span *span,
                         bool *has_outputs);
static inline int check_tensor(struct graph *g, const struct pto_tensor *t, uint32_t index,
                               struct span *span);
static int check_deps(struct graph *g, const struct pto_args *args);
static int wait_for_deps(struct graph *g, struct slot *t, const struct pto_args *args);
static int wait_for_tensors(struct graph *g, struct slot *t, const struct pto_args *args,
                            const struct span *span, const struct pto_outputs *out);
static void fill_launch(struct slot *t, const struct pto_kernels *kernels,
                        const struct pto_args *args, uint32_t launch);
static int wait_for_operand(struct graph *g, struct slot *t, const struct pto_predicate *p);
static int fill_passed(struct graph *g, struct slot *t, const struct pto_args *args);
static int retain_explicit(struct graph *g, struct slot *t, uint32_t block);
static void put_chunks(struct graph *g, struct slot *s);
static struct edge *spill_edge(struct graph *g, struct slot *t);

static_assert(SLOT_LANE_AIC == 1 << PTO_CORE_AIC && SLOT_LANE_AIV0 == 1 << PTO_CORE_AIV,
              "a lane's bit is its core type's");

int graph_refuse(struct graph *g, enum graph_fault fault, int32_t argument, uint64_t value)
{
    g->refusal = (struct graph_refusal){ fault, argument, value };
    return fault == FAULT_MEMORY ? PTO_ENOMEM : fault == FAULT_GANG ? PTO_ESYNC_START : PTO_EARGS;
}

static uint32_t class_of_lines(uint32_t lines)
{
    return lines <= 3 ? 0 : lines <= 5 ? 1 : lines <= 11 ? 2 : lines <= 21 ? 3 : 4;
}

/* The class of slot with room for header and payload. */
static inline uint32_t class_for(const struct pto_args *args)
{
    /* By tensors, if nothing is behind them but the blocks that they retain. */
    static const uint8_t plain[PTO_TASK_TENSORS_MAX + 1] = {
        0, 1, 2, 2, 2, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4,
        4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
    };
    uint32_t tail;

    if (args->scalar_count <= 1 && args->predicate == NULL)
        return plain[args->tensor_count];
    tail = args->tensor_count * 4 + (args->scalar_count > 1 ? args->scalar_count * 8 : 0) +
           (args->predicate != NULL ? sizeof(struct slot_predicate) + 8 : 0);
    return class_of_lines(2 + 2 * args->tensor_count +
                          (tail + SLOT_LINE_BYTES - 1) / SLOT_LINE_BYTES);
}

static inline struct slot *take_slot(struct graph *g, uint32_t size_class)
{
    uint32_t number = g->free_slot[size_class];
    struct slot_info *info = &g->info[number];

    if (number == 0)
        return slot_make(g, size_class);
    g->free_slot[size_class] = info->next;
    return graph_slot(g, info->line);
}

int graph_submit(struct graph *g, const struct pto_kernels *kernels, const struct pto_args *args,
                 const struct pto_site *site, struct pto_outputs *out, struct slot **ready_out)
{
    int32_t kernel = kernels->aiv0;
    uint32_t core_type = PTO_CORE_AIV;
    uint32_t seq = g->seq;
    uint32_t block = 0;
    bool has_outputs = false;
    uint32_t edges;
    struct span span[PTO_TASK_TENSORS_MAX];
    int launch = 0;
    struct id_entry *id;
    struct slot *t;
    int status;

    if (kernels->aic >= 0 || kernels->aiv1 >= 0) {
        core_type = kernels->aic >= 0 ? PTO_CORE_AIC : PTO_CORE_AIV;
        kernel = kernels->aic >= 0 ? kernels->aic : kernels->aiv1;
        if ((kernels->aic >= 0) + (kernels->aiv0 >= 0) + (kernels->aiv1 >= 0) > 1)
            launch = SLOT_IS_TEAM;
    }
    status = check_task(g, kernel, core_type, args, span, &has_outputs);
    if (status >= 0 && (args->block_count != 1 || args->predicate != NULL ||
                        args->timing_slot >= 0 || launch != 0))
        status = launch = check_launch(g, kernels, core_type, args);
    if (status < 0)
        return status;
    t = take_slot(g, class_for(args));
    if (t == NULL)
        return graph_refuse(g, FAULT_MEMORY, -1, SLOT_LINES_MAX * SLOT_LINE_BYTES);
    if ((t->flags & SLOT_HAS_SPILL) != 0)
        put_chunks(g, t);
    if (has_outputs) {
        status = blocks_create(g, args, out, &block);
        if (status < 0)
            return status;
    }
    id = ids_put(g, seq, t->number, block);
    if (id == NULL)
        return graph_refuse(g, FAULT_MEMORY, -1, 0);
    atomic_note_write(t);
    aptr_store_relaxed(&t->successors, NULL); /* others learn of the task through a release below */
    a32_store_relaxed(&t->pending, SLOT_BIAS);
    t->seq = seq;
    t->kernel[0] = (uint16_t)kernel;
    t->lanes = (uint8_t)((kernel >= 0) << core_type);
    t->flags = (uint8_t)((block != 0 ? SLOT_HAS_BLOCK : 0) | launch);
    t->tensor_count = (uint8_t)args->tensor_count;
    t->scalar_count = (uint8_t)args->scalar_count;
    t->core_type = (uint8_t)core_type;
    t->edge_count = 0;
    t->site = site;
    t->block = block;
    t->block_count = (uint32_t)args->block_count;
    t->ring = (uint8_t)g->ring;
    t->local = id->local;
    if (args->scalar_count == 1)
        t->scalar = args->scalar[0];
    else if (args->scalar_count > 1)
        memcpy(slot_scalars(t), args->scalar, args->scalar_count * sizeof(uint64_t));
    g->info[t->number].seq = seq;
    g->seq = seq + 1;
    g->live++;
    out->task = pto_task_id_make(g->ring, id->local);
    if (args->passed != 0)
        status = fill_passed(g, t, args);
    if (args->dep_count != 0 && status >= 0)
        status = wait_for_deps(g, t, args);
    if (launch != 0)
        fill_launch(t, kernels, args, (uint32_t)launch);
    if (status >= 0 && args->tensor_count != 0)
        status = wait_for_tensors(g, t, args, span, out);
    if (status >= 0 && (launch & SLOT_HAS_PREDICATE) != 0)
        status = wait_for_operand(g, t, args->predicate);
    if (status < 0) {
        g->live--; /* it keeps its slot, but nobody is to wait for it */
        return status == PTO_EARGS ? status : graph_refuse(g, FAULT_MEMORY, -1, 0);
    }
    edges = t->edge_count;
    if ((t->flags & SLOT_HAS_SPILL) != 0 && t->edge_chunk != 0)
        for (uint32_t c = t->edge_chunk; c != 0;) {
            struct edge_chunk *chunk = (struct edge_chunk *)(void *)g->edge_pool.base + c;

            edges += chunk->count;
            c = chunk->next;
        }
    g->edge_total += edges;
    *ready_out = NULL;
    if (edges == 0)
        *ready_out = t;
    else if (!g->is_shared) {
        uint32_t left =
            a32_load_relaxed(&t->pending) - (SLOT_BIAS - edges); /* nobody else writes */

        a32_store_relaxed(&t->pending, left);
        if (left == 0)
            *ready_out = t;
    } else if (a32_sub_acq_rel(&t->pending, SLOT_BIAS - edges) == SLOT_BIAS - edges) /* R5 A5 */
        *ready_out = t;
    return PTO_OK;
}

int graph_alloc(struct graph *g, const struct pto_args *args, struct pto_outputs *out)
{
    struct span span[PTO_TASK_TENSORS_MAX];
    bool has_outputs = false;
    struct id_entry *id;
    uint32_t block;
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
    status = check_tensors(g, args, span, &has_outputs);
    if (status < 0)
        return status;
    status = blocks_create(g, args, out, &block);
    if (status < 0)
        return status;
    id = ids_put(g, g->seq, 0, block);
    if (id == NULL)
        return graph_refuse(g, FAULT_MEMORY, -1, 0);
    a32_store_relaxed(&graph_block(g, block)->users, 1); /* the scope: the task is complete */
    g->seq++;
    out->task = pto_task_id_make(g->ring, id->local);
    for (uint32_t i = 0; i < out->count; i++)
        ((struct pto_tensor *)(uintptr_t)out->tensor)[i].owner = out->task;
    return PTO_OK;
}

/*
 * The submitter is the only one that adds to a list, so if t waits for r
 * already, its edge is the newest of r's list: the head tells.
 */
int graph_link(struct graph *g, struct slot *t, struct ref r)
{
    struct slot *p = graph_slot(g, g->info[r.slot].line);
    void *head = aptr_load_acquire(&p->successors); /* A2 */
    struct edge *e;

    if (head == SLOT_SEALED || p == t)
        return PTO_OK;
    if ((uintptr_t)head - (uintptr_t)t < sizeof(struct slot))
        return PTO_OK;
    if (t->edge_count == SLOT_EDGES_INLINE && head != NULL && ((struct edge *)head)->self == t)
        return PTO_OK;
    if (g->edge_fn != NULL && !g->edge_fn(g->edge_context, r.seq - 1, t->seq - 1))
        return PTO_OK;
    if (t->edge_count < SLOT_EDGES_INLINE)
        e = slot_edge(t, t->edge_count);
    else
        e = spill_edge(g, t);
    if (e == NULL)
        return PTO_ENOMEM;
    e->self = t;
    atomic_note_write(e);
    if (!g->is_shared) {
        e->next = head;
        aptr_store_relaxed(&p->successors, e); /* one thread */
    } else {
        do {
            e->next = head;
            if (head == SLOT_SEALED)
                return PTO_OK; /* completed meanwhile; the edge is not counted */
        } while (!aptr_cas_acq_rel(&p->successors, &head, e)); /* R1 A2 */
    }
    if (g->wired_fn != NULL)
        g->wired_fn(g->wired_context, r.seq - 1, t->seq - 1);
    if (t->edge_count < SLOT_EDGES_INLINE)
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

/* How an argument is looked up and recorded, by tag; docs/ordering.md. */
static const uint8_t access_of[2][2][PTO_TAG_NO_DEP + 1] = {
    [PTO_DEPS_SAFE] = {
        [false] = { [PTO_TAG_INPUT] = ACCESS_LOOKUP | ACCESS_RECORD,
                    [PTO_TAG_OUTPUT] =
                        ACCESS_LOOKUP | ACCESS_RECORD | ACCESS_WRITE | ACCESS_REPLACE,
                    [PTO_TAG_INOUT] = ACCESS_LOOKUP | ACCESS_RECORD | ACCESS_WRITE | ACCESS_REPLACE,
                    [PTO_TAG_OUTPUT_EXISTING] =
                        ACCESS_LOOKUP | ACCESS_RECORD | ACCESS_WRITE | ACCESS_REPLACE },
        [true] = { [PTO_TAG_INPUT] = ACCESS_RECORD,
                   [PTO_TAG_OUTPUT] = ACCESS_RECORD | ACCESS_WRITE,
                   [PTO_TAG_INOUT] = ACCESS_RECORD | ACCESS_WRITE,
                   [PTO_TAG_OUTPUT_EXISTING] = ACCESS_RECORD | ACCESS_WRITE },
    },
    [PTO_DEPS_SIMPLER] = {
        [false] = { [PTO_TAG_INPUT] = ACCESS_LOOKUP,
                    [PTO_TAG_INOUT] = ACCESS_LOOKUP | ACCESS_RECORD | ACCESS_WRITE | ACCESS_REPLACE,
                    [PTO_TAG_OUTPUT_EXISTING] = ACCESS_RECORD | ACCESS_WRITE },
    },
};

static int wait_for_tensors(struct graph *g, struct slot *t, const struct pto_args *args,
                            const struct span *span, const struct pto_outputs *out)
{
    bool is_manual = g->scope[g->scope_count - 1].is_manual;
    const uint8_t *access = access_of[g->deps][is_manual];
    struct pto_tensor *created = (struct pto_tensor *)(uintptr_t)out->tensor;
    uint32_t retained = 0;
    int status = PTO_OK;

    for (uint32_t i = 0; i < args->tensor_count; i++) {
        uint32_t tag = args->tag[i];
        struct pto_tensor *x = &t->tensor[i];

        if (tag == PTO_TAG_OUTPUT) {
            created->owner = out->task;
            *x = *created++;
            x->tag = PTO_TAG_OUTPUT;
        } else {
            *x = *(const struct pto_tensor *)args->tensor[i];
            x->tag = (uint8_t)tag;
            if (pto_task_id_is_valid(x->owner)) {
                const struct id_entry *e = ids_find(g, x->owner);

                if (e != NULL && !is_manual && e->slot != 0)
                    status = graph_wait_for(g, t, (struct ref){ e->slot, e->seq });
                if (e != NULL && e->block != 0 && graph_block(g, e->block)->seq == e->seq &&
                    block_retain(g, e->block))
                    slot_retained(t)[retained++] = e->block;
                else if (g->deps == PTO_DEPS_SAFE) /* its last user went while we looked */
                    status = graph_refuse(g, FAULT_SCOPE_ENDED, (int32_t)i, x->owner.raw);
            }
        }
        if (access[tag] != 0 && !x->manual_dep)
            status = status < 0 ? status : region_access(g, t, x, &span[i], access[tag]);
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
    bool is_manual = g->scope[g->scope_count - 1].is_manual;
    uint32_t access = access_of[g->deps][is_manual][PTO_TAG_INPUT];
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

        if (e != NULL && !is_manual && e->slot != 0)
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

static inline int check_task(struct graph *g, int32_t kernel, uint32_t core_type,
                             const struct pto_args *args, struct span *span, bool *has_outputs)
{
    int status = PTO_OK;

    if (args->error != NULL || args->tensor_count > PTO_TASK_TENSORS_MAX ||
        args->scalar_count > PTO_TASK_SCALARS_MAX)
        return graph_refuse(g, FAULT_ARGS_ERROR, -1, 0);
    if (g->seq == UINT32_MAX)
        return graph_refuse(g, FAULT_TOO_MANY, -1, 0);
    if (kernel >= 0)
        status = check_kernel(g, kernel, core_type);
    if (args->passed != 0 && status >= 0)
        status = check_passed(g, args);
    if (status >= 0 && args->tensor_count != 0)
        status = check_tensors(g, args, span, has_outputs);
    if (status >= 0 && args->dep_count != 0)
        status = check_deps(g, args);
    return status;
}

static inline int check_kernel(struct graph *g, int32_t kernel, uint32_t core_type)
{
    if ((uint32_t)kernel >= g->kernel_count || g->kernels[kernel].fn == NULL)
        return graph_refuse(g, FAULT_KERNEL, -1, (uint64_t)kernel);
    if (g->kernels[kernel].core_type != core_type)
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

/* Also finds out where contiguous arguments lie, and asks for their records' lines. */
static inline int check_tensors(struct graph *g, const struct pto_args *args, struct span *span,
                                bool *has_outputs)
{
    uint64_t output_bytes = 0;

    for (uint32_t i = 0; i < args->tensor_count; i++) {
        const struct pto_tensor_info *info = args->tensor[i];
        int status;

        if (args->tag[i] > PTO_TAG_NO_DEP)
            return graph_refuse(g, FAULT_TAG, (int32_t)i, args->tag[i]);
        span[i].length = 0;
        if (args->tag[i] != PTO_TAG_OUTPUT) {
            status = check_tensor(g, args->tensor[i], i, &span[i]);
            if (status < 0)
                return status;
        } else {
            if (info->ndims - 1 >= PTO_MAX_DIMS || info->dtype >= PTO_DTYPE_COUNT)
                return graph_refuse(g, FAULT_INFO, (int32_t)i, info->ndims);
            *has_outputs = true;
            output_bytes += blocks_output_bytes(info);
            if (output_bytes > GRAPH_OUTPUT_BYTES_MAX)
                return graph_refuse(g, FAULT_TOO_LARGE, (int32_t)i, output_bytes);
        }
    }
    return PTO_OK;
}

static uint32_t view_fault(const struct pto_tensor *t)
{
    if (t->ndims == 0)
        return t->fault;
    return t->ndims > PTO_MAX_DIMS ? PTO_VIEW_BAD_NDIMS : PTO_VIEW_BAD_DTYPE;
}

__attribute__((always_inline)) static inline int check_tensor(struct graph *g,
                                                              const struct pto_tensor *t,
                                                              uint32_t index, struct span *span)
{
    uint64_t start, length;
    uint32_t elem_bytes;

    if (t->ndims - 1 >= PTO_MAX_DIMS || t->dtype >= PTO_DTYPE_COUNT)
        return graph_refuse(g, FAULT_VIEW, (int32_t)index, view_fault(t));
    if (!t->is_contiguous || g->deps != PTO_DEPS_SAFE)
        for (uint32_t d = 0; d < t->ndims; d++)
            if (t->strides[d] == 0)
                return graph_refuse(g, FAULT_VIEW, (int32_t)index, PTO_VIEW_ZERO_STRIDE);
    if (g->deps != PTO_DEPS_SAFE)
        return PTO_OK;
    elem_bytes = pto_dtype_size(t->dtype);
    start = t->start * elem_bytes;
    length = (t->is_contiguous ? pto_tensor_numel(t) : t->extent) * elem_bytes;
    if (start + length > t->size)
        return graph_refuse(g, FAULT_BOUNDS, (int32_t)index, start + length);
    if (t->addr == 0 && t->size != 0)
        return graph_refuse(g, FAULT_NULL_ADDRESS, (int32_t)index, 0);
    if (pto_task_id_is_valid(t->owner)) {
        const struct id_entry *e = ids_find(g, t->owner);

        if (e == NULL || e->block == 0 || graph_block(g, e->block)->seq != e->seq)
            return graph_refuse(g, FAULT_SCOPE_ENDED, (int32_t)index, t->owner.raw);
    }
    if (t->is_contiguous) {
        span->start = t->addr + start;
        span->length = length;
        span->level = region_level(length);
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

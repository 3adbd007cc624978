/* SPDX-License-Identifier: Apache-2.0 */
/* One submit: check, slot, id, dependencies, ready. */
#include <string.h>

#include "graph/guards.h"
#include "graph/submit.h"

/* What a task is beyond one kernel that always runs once: flags of its slot, and its lanes above. */
enum { LAUNCH_LANES_SHIFT = 8 };

static int check_args(struct graph *g, int32_t kernel, uint32_t core_type,
                      const struct pto_args *args);
static int check_launch(struct graph *g, const struct pto_kernels *kernels, uint32_t core_type,
                        const struct pto_args *args);
static int check_passed(struct graph *g, const struct pto_args *args);
static int check_predicate(struct graph *g, const struct pto_args *args);
static int check_tensor(struct graph *g, const struct pto_tensor *t, uint32_t index,
                        struct span *span);
static int check_deps(struct graph *g, const struct pto_args *args);
static int take_any_tensor(struct graph *g, struct slot *t, const struct pto_args *args,
                           uint32_t index, const struct pto_outputs *out);
static int wait_for_deps(struct graph *g, struct slot *t, const struct pto_args *args);
static int fill_unusual(struct graph *g, struct slot *t, const struct pto_kernels *kernels,
                        const struct pto_args *args, uint32_t launch);
static void fill_launch(struct slot *t, const struct pto_kernels *kernels,
                        const struct pto_args *args, uint32_t launch);
static int wait_for_operand(struct graph *g, struct slot *t, const struct pto_predicate *p);
static int fill_passed(struct graph *g, struct slot *t, const struct pto_args *args);
static int retain_explicit(struct graph *g, struct slot *t, uint32_t buffer);
static void put_chunks(struct graph *g, struct slot_info *info);
static int link_unusual(struct graph *g, struct slot *p, struct slot *t, void *head, uint32_t seq);
static struct edge *spill_edge(struct graph *g, struct slot *t);

static_assert(SLOT_LANE_AIC == 1 << PTO_CORE_AIC && SLOT_LANE_AIV0 == 1 << PTO_CORE_AIV,
              "a lane's bit is its core type's");
static_assert((int)SLOT_LANES == PTO_CLUSTER_CORES, "a lane for each core of a cluster");
static_assert(SLOT_LANE_AIV0 - SLOT_LANE_AIC == PTO_CORE_AIV, "a sum does for a shift");

int graph_refuse(struct graph *g, enum fault fault, int32_t argument, uint64_t value)
{
    g->refusal = (struct graph_refusal){ fault, argument, value, 0, NULL };
    return graph_refusal_status(g);
}

int graph_refusal_status(const struct graph *g)
{
    enum fault fault = g->refusal.fault;

    return fault == FAULT_MEMORY ? PTO_ENOMEM : fault == FAULT_GANG ? PTO_ESYNC_START : PTO_EARGS;
}

uint64_t submit_quick_traits(enum pto_deps deps)
{
    static const struct tensor_traits contiguous = { .is_contiguous = true };
    uint64_t kind;

    memcpy(&kind, &contiguous, sizeof(kind));
    return deps == PTO_DEPS_SAFE ? kind : UINT64_MAX; /* which no tensor has */
}

uint32_t submit_class_with_tail(const struct pto_args *args)
{
    uint32_t tail = args->tensor_count * 4 + (args->scalar_count > 1 ? args->scalar_count * 8 : 0) +
                    (args->predicate != NULL ? sizeof(struct slot_predicate) + 8 : 0);
    uint32_t lines = 2 + 2 * args->tensor_count + (tail + SLOT_LINE_BYTES - 1) / SLOT_LINE_BYTES;

    if (lines <= 11)
        return lines <= 3 ? 0 : (lines - 2) / 2;
    return lines <= 15 ? 5 : lines <= 21 ? 6 : lines <= 35 ? 7 : 8;
}

/* What graph_refuse says of a kernel that there is not. */
static int check_kernel(struct graph *g, int32_t kernel, uint32_t core_type)
{
    if (has_kernel(g, kernel, core_type))
        return PTO_OK;
    if ((uint32_t)kernel >= g->kernel_count || g->kernels[kernel].fn == NULL)
        return graph_refuse(g, FAULT_KERNEL, -1, (uint64_t)kernel);
    return graph_refuse(g, FAULT_CORE_TYPE, -1, (uint64_t)kernel);
}

bool submit_clean_slot(struct graph *g, struct slot_info *info)
{
    if (info == &g->info[0])
        return false;
    put_chunks(g, info);
    return true;
}

/* A slot that can be taken, made or cleaned if need be. NULL when memory has run out. */
static struct slot_info *provide_slot(struct graph *g, uint32_t size_class)
{
    uint32_t number = g->free_slot[size_class];

    if (number == 0)
        return slot_make(g, size_class);
    if (g->info[number].is_spilled)
        put_chunks(g, &g->info[number]);
    return &g->info[number];
}

static struct slot *lack_memory(struct graph *g)
{
    (void)graph_refuse(g, FAULT_MEMORY, -1, SLOT_LINES_MAX * SLOT_LINE_BYTES);
    return SUBMIT_REFUSED;
}

struct slot *graph_join_begin(struct graph *g, struct slot *t, uint32_t seq)
{
    struct slot_info *info = provide_slot(g, 0);
    struct slot *join;

    if (info == NULL)
        return NULL;
    join = graph_slot(g, info->line);
    g->free_slot[0] = info->next;
    atomic_note_write(join);
    aptr_store_relaxed(&join->successors, NULL); /* others learn of it through a release below */
    a32_store_relaxed(&join->pending, SLOT_BIAS);
    join->seq = info->seq = seq;
    join->kernel[0] = SLOT_NO_KERNEL;
    join->counts = slot_counts(0, 0);
    join->traits = 0; /* no lanes, no edges */
    join->buffer = 0;
    join->block_count = 0;
    join->site = NULL;
    join->id = pto_task_id_invalid();
    g->live++;
    g->join_total++;
    aptr_store_relaxed(&t->successors,
                       SLOT_SEALED); /* for as long as the join is made: nobody else knows t */
    return join;
}

struct ref graph_join_end(struct graph *g, struct slot *t, struct slot *join)
{
    aptr_store_relaxed(&t->successors, NULL); /* as it was: nobody waits for t yet */
    if (!arm_task(g, join))
        return slot_ref(join);
    graph_retire(g, join->number);
    return (struct ref){ 0, 0 };
}

void graph_allow_joins(struct graph *g, bool may)
{
    g->edges_plain = !may || g->edge_fn != NULL || g->wired_fn != NULL ? 0 : SLOT_EDGES_INLINE;
}

uint32_t graph_count_edges(const struct graph *g, const struct slot *t)
{
    return t->edge_count + ((t->flags & SLOT_HAS_SPILL) != 0 ? submit_count_spilled(g, t) : 0);
}

struct slot *graph_submit_closely(struct graph *g, const struct pto_kernels *kernels,
                                  const struct pto_args *args, const struct pto_site *site,
                                  struct pto_outputs *out)
{
    bool is_aic = kernels->aic >= 0;
    struct slot_info *info;
    struct id_entry *id;

    if (check_args(g, is_aic ? kernels->aic : kernels->aiv0, is_aic ? PTO_CORE_AIC : PTO_CORE_AIV,
                   args) < 0)
        return SUBMIT_REFUSED;
    info = provide_slot(g, class_for(args, FORM_PLAIN));
    id = info != NULL ? ids_make_room(g) : NULL;
    if (id == NULL)
        return lack_memory(g);
    return submit_at(g, info, id, kernels, args, site, out, FORM_PLAIN);
}

struct slot *submit_abandon(struct graph *g, int status)
{
    g->live--; /* it keeps its slot, but nobody is to wait for it */
    if (status != PTO_EARGS)
        (void)graph_refuse(g, FAULT_MEMORY, -1, 0);
    return SUBMIT_REFUSED;
}

struct slot *graph_submit_unusual(struct graph *g, const struct pto_kernels *kernels,
                                  const struct pto_args *args, const struct pto_site *site,
                                  struct pto_outputs *out)
{
    bool is_aic = kernels->aic >= 0;
    uint32_t core_type = is_aic ? PTO_CORE_AIC : PTO_CORE_AIV;
    int32_t kernel = is_aic ? kernels->aic : kernels->aiv1 >= 0 ? kernels->aiv1 : kernels->aiv0;
    int status = check_args(g, kernel, core_type, args);
    struct slot_info *info;
    struct id_entry *id;
    uint32_t buffer = 0;
    int launch = 0;
    struct slot *t;

    if (status >= 0)
        status = launch = check_launch(g, kernels, core_type, args);
    if (status < 0)
        return SUBMIT_REFUSED;
    info = provide_slot(g, class_for(args, FORM_UNUSUAL));
    id = info != NULL ? ids_make_room(g) : NULL;
    if (id == NULL)
        return lack_memory(g);
    if (args->output_count != 0 && buffers_create(g, args, out, &buffer) < 0)
        return SUBMIT_REFUSED;
    t = begin_task(g, info, id, buffer, (uint32_t)kernel, core_type, args, site, out, FORM_UNUSUAL);
    if (kernel < 0)
        t->lanes = 0;
    if (kernel < 0 && buffer != 0 && g->guard_bytes != 0)
        guards_track(g, buffer);
    g->has_settled |= (launch & SLOT_IS_SETTLED_FIRST) != 0;
    if ((launch & SLOT_IS_TEAM) != 0)
        graph_share(g); /* its lanes end on other threads */
    status = fill_unusual(g, t, kernels, args, (uint32_t)launch);
    if (status >= 0)
        status = take_tensors(g, t, args, args->tensor_count, out, FORM_UNUSUAL);
    if ((launch & SLOT_HAS_PREDICATE) != 0 && status >= 0)
        status = wait_for_operand(g, t, args->predicate);
    if (status < 0)
        return submit_abandon(g, status);
    return arm_task(g, t) ? t : NULL;
}

int graph_submit(struct graph *g, const struct pto_kernels *kernels, const struct pto_args *args,
                 const struct pto_site *site, struct pto_outputs *out, struct slot **ready_out)
{
    if (g->seq == UINT32_MAX)
        return graph_refuse(g, FAULT_TOO_MANY, -1, 0);
    *ready_out = form_of(kernels, args) == FORM_UNUSUAL
                     ? graph_submit_unusual(g, kernels, args, site, out)
                     : graph_submit_closely(g, kernels, args, site, out);
    if (*ready_out != SUBMIT_REFUSED)
        return PTO_OK;
    out->task = pto_task_id_invalid();
    return graph_refusal_status(g);
}

int graph_alloc(struct graph *g, const struct pto_args *args, struct pto_outputs *out)
{
    struct id_entry *id;
    uint32_t buffer;
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
    status = buffers_create(g, args, out, &buffer);
    if (status < 0)
        return status;
    id = ids_make_room(g);
    if (id == NULL)
        return graph_refuse(g, FAULT_MEMORY, -1, 0);
    out->task = ids_put(g, id, g->seq, 0, buffer);
    a32_store_relaxed(&graph_buffer(g, buffer)->users, 1); /* the scope: the task is complete */
    if (g->guard_bytes != 0)
        guards_track(g, buffer);
    g->recent[g->seq % GRAPH_RECENT] = 0;
    g->seq++;
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
 * already, its edge is the newest of r's list: the head tells. A join that is
 * made in between hides it; then there are two, which are counted as two.
 */
int graph_link(struct graph *g, struct slot *t, struct ref r)
{
    struct slot *p = graph_slot(g, g->info[r.slot].line);
    void *head = aptr_load_acquire(&p->successors); /* A2 */

    if (head == SLOT_SEALED || p == t || (uintptr_t)head - (uintptr_t)t < sizeof(struct slot)) {
        if (head == SLOT_SEALED && g->ended_fn != NULL)
            g->ended_fn(g->ended_context, p, t);
        return PTO_OK;
    }
    if (t->edge_count >= g->edges_plain) {
        struct edge_chunk *chunk = (struct edge_chunk *)(void *)g->edge_pool.base + t->edge_chunk;

        if (g->edges_plain == 0 || t->edge_chunk == 0 || chunk->count == GRAPH_EDGES_PER_CHUNK ||
            (head != NULL && ((struct edge *)head)->self == t))
            return link_unusual(g, p, t, head, r.seq);
        chunk->count += add_edge(g, p, t, head, &chunk->edge[chunk->count]);
        return PTO_OK;
    }
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
    /* mutation: drop-ignored */
    if (g->edge_fn != NULL && !g->edge_fn(g->edge_context, seq - 1, t->seq - 1))
        return PTO_OK;
    e = is_inline ? &t->edge[t->edge_count] : spill_edge(g, t);
    if (e == NULL)
        return PTO_ENOMEM;
    if (!add_edge(g, p, t, head, e))
        return PTO_OK; /* the edge is not counted: the next one takes its place */
    /* mutation: no-flow */
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
        g->info[t->number].is_spilled = true;
    }
    return &chunk->edge[chunk->count];
}

uint32_t submit_count_spilled(const struct graph *g, const struct slot *t)
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
        if (status >= 0 && (kind & PTO_DEP_RETAIN) != 0 && e->buffer != 0 &&
            graph_buffer(g, e->buffer)->seq == e->seq)
            status = retain_explicit(g, t, e->buffer);
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

/*
 * A tensor of the runtime's memory comes after its creator, and keeps that memory, which
 * its scope keeps, too. Under the reference's rules the scope may have ended.
 */
__attribute__((always_inline)) static inline int wait_for_owner(struct graph *g, struct slot *t,
                                                                struct pto_task_id owner,
                                                                uint32_t index)
{
    const struct id_entry *e = ids_find(g, owner);
    bool has_memory = graph_has_memory(g, e);
    int status = PTO_OK;

    if (g->deps != PTO_DEPS_SAFE)
        has_memory = has_memory && buffer_retain(g, e->buffer);
    else if (!has_memory)
        return graph_refuse_ended(g, owner, (int32_t)index);
    else
        a32_add_relaxed(&graph_buffer(g, e->buffer)->users, 1); /* holds, but reads nothing */
    if (e != NULL && !g->is_manual && e->slot != 0)
        status = graph_wait_for(g, t, (struct ref){ e->slot, e->seq });
    if (has_memory) {
        slot_retained(t)[t->retained_count++] = e->buffer;
        t->flags |= SLOT_HAS_RETAINED;
    }
    return status;
}

/* Descriptor of output argument `index`, which was created. NULL: the arguments do not count it. */
static struct pto_tensor *find_created(const struct pto_args *args, uint32_t index,
                                       const struct pto_outputs *out)
{
    uint32_t before = 0;

    for (uint32_t i = 0; i < index; i++)
        before += args->tag[i] == PTO_TAG_OUTPUT;
    return before < out->count ? (struct pto_tensor *)(uintptr_t)&out->tensor[before] : NULL;
}

/* A tensor that was found at a record which nothing else overlaps. */
static inline int take_box_at(struct graph *g, struct slot *t, const struct pto_args *args,
                              uint32_t index, struct region *e)
{
    uint32_t tag = args->tag[index];

    copy_tensor(&t->tensor[index], args->tensor[index], tag);
    return region_apply_known(g, t, e, g->quick[tag]);
}

/*
 * A box that came with the same descriptor before and that nothing overlaps was
 * checked then, but for what the descriptor says of its buffer's size and its owner.
 */
__attribute__((noinline)) static int take_known_box(struct graph *g, struct slot *t,
                                                    const struct pto_args *args, uint32_t index)
{
    const struct pto_tensor *from = args->tensor[index];
    struct region *e = region_find_known(&g->regions, from);

    if (e == NULL && (e = region_add_tile(g, from)) != NULL)
        return take_box_at(g, t, args, index, e);
    if (e == NULL || from->manual_dep || /* which the known ones do not tell from others */
        (from->start + from->extent) * pto_dtype_size(from->dtype) > from->size)
        return take_any_tensor(g, t, args, index, NULL);
    return take_box_at(g, t, args, index, e);
}

/* A tile that is new. */
__attribute__((noinline)) static int take_new_tile(struct graph *g, struct slot *t,
                                                   const struct pto_args *args, uint32_t index,
                                                   struct region *e, uint64_t lo)
{
    if (!region_take_tile(g, e, lo))
        return take_any_tensor(g, t, args, index, NULL);
    return take_box_at(g, t, args, index, e);
}

/* A tile of a matrix was checked when the first one like it came. */
int submit_tensor(struct graph *g, struct slot *t, const struct pto_args *args, uint32_t index,
                  const struct pto_outputs *out)
{
    const struct pto_tensor *from = args->tensor[index];
    uint8_t tag = args->tag[index];
    struct region *e;
    uint64_t lo, length;

    if (g->quick[tag] == 0 || pto_task_id_is_valid(from->owner))
        return take_any_tensor(g, t, args, index, out);
    e = region_find_tile(&g->regions, from, &lo, &length);
    fence_light(); /* what was read is read again: kept in registers, it costs more */
    if (index + 1 < args->tensor_count && args->output_count == 0) /* they are half a tensor */
        region_ask_for_tile(&g->regions, args->tensor[index + 1]);
    if (e == NULL)
        return take_known_box(g, t, args, index);
    if (e->start != lo || e->length != length)
        return take_new_tile(g, t, args, index, e, lo);
    return take_box_at(g, t, args, index, e);
}

int submit_lone_tensor(struct graph *g, struct slot *t, const void *from, uint8_t tag)
{
    struct pto_args args;

    args.tensor_count = 1;
    args.output_count = 0;
    args.tensor[0] = from;
    args.tag[0] = tag;
    return submit_tensor(g, t, &args, 0, NULL);
}

/* `out` is for outputs, and may be NULL for others. */
__attribute__((noinline)) static int take_any_tensor(struct graph *g, struct slot *t,
                                                     const struct pto_args *args, uint32_t index,
                                                     const struct pto_outputs *out)
{
    uint32_t tag = args->tag[index];
    struct pto_tensor *x = &t->tensor[index];
    struct span span;
    int status = PTO_OK;

    if (tag >= PTO_TAG_COUNT)
        return graph_refuse(g, FAULT_TAG, (int32_t)index, tag);
    if (tag == PTO_TAG_OUTPUT) {
        struct pto_tensor *created = find_created(args, index, out);

        if (created == NULL)
            return graph_refuse(g, FAULT_TAG, (int32_t)index, tag);
        created->owner = out->task;
        *x = *created;
        span = span_of(x->addr, x->is_contiguous ? pto_tensor_bytes(x) : 0);
    } else {
        const struct pto_tensor *from = args->tensor[index];

        status = check_tensor(g, from, index, &span);
        if (status < 0)
            return status;
        *x = *from;
        if (pto_task_id_is_valid(from->owner))
            status = wait_for_owner(g, t, from->owner, index);
    }
    x->tag = (uint8_t)tag;
    if (g->guard_bytes != 0)
        guards_note(g, x);
    if (status < 0 || g->access[tag] == 0 || x->manual_dep)
        return status;
    return region_access(g, t, x, &span, g->access[tag]);
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
        .dtype = (uint8_t)x->dtype,
    };
    if (g->guard_bytes != 0)
        guards_note_operand(g, x, slot_predicate(t));
    if (g->deps != PTO_DEPS_SAFE)
        return PTO_OK;
    if (pto_task_id_is_valid(x->owner))
        status = wait_for_owner(g, t, x->owner, t->tensor_count);
    if (x->manual_dep)
        g->has_unlisted = true;
    else if (status >= 0)
        status = region_access(g, t, x, &span, access);
    return status;
}

/* Retained through an explicit dependency: kept in chunks, there may be any number. */
static int retain_explicit(struct graph *g, struct slot *t, uint32_t buffer)
{
    struct retained_chunk *base = (struct retained_chunk *)(void *)g->retained_pool.base;
    struct retained_chunk *chunk = &base[t->retained_chunk];
    uint32_t used = 0;

    if (!buffer_retain(g, buffer))
        return PTO_OK; /* already gone: nothing to keep */
    if (t->retained_chunk != 0)
        while (used < GRAPH_RETAINED_PER_CHUNK && chunk->buffer[used] != 0)
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
        memset(chunk->buffer, 0, sizeof(chunk->buffer));
        chunk->next = t->retained_chunk;
        t->retained_chunk = index;
        t->retained_count = 0;
        t->flags |= SLOT_HAS_SPILL | SLOT_HAS_RETAINED;
        g->info[t->number].is_spilled = true;
        used = 0;
    }
    chunk->buffer[used] = buffer;
    return PTO_OK;
}

/* What the slot's last task spilled. */
static void put_chunks(struct graph *g, struct slot_info *info)
{
    struct slot *s = graph_slot(g, info->line);
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
    info->is_spilled = false;
}

/* ---- checks ---- */

static int check_args(struct graph *g, int32_t kernel, uint32_t core_type,
                      const struct pto_args *args)
{
    int status = PTO_OK;

    if (args->error != NULL || args->tensor_count > PTO_TASK_TENSORS_MAX ||
        args->scalar_count > PTO_TASK_SCALARS_MAX)
        return graph_refuse(g, FAULT_ARGS_ERROR, -1, 0);
    if (kernel >= 0)
        status = check_kernel(g, kernel, core_type);
    if (args->passed != 0 && status >= 0)
        status = check_passed(g, args);
    if (args->dep_count != 0 && status >= 0)
        status = check_deps(g, args);
    return status;
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
    uint32_t most = core_type == PTO_CORE_AIV ? PTO_CLUSTER_AIVS * g->clusters : g->clusters;
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

static uint32_t view_fault(const struct pto_tensor *t)
{
    if (t->ndims == 0)
        return t->fault;
    return t->ndims > PTO_MAX_DIMS ? PTO_VIEW_BAD_NDIMS : PTO_VIEW_BAD_DTYPE;
}

int submit_refuse_quick(struct graph *g, const struct slot *t, const struct pto_tensor *x)
{
    int32_t index = (int32_t)(x - t->tensor);

    if (x->ndims - 1 >= PTO_MAX_DIMS || x->dtype >= PTO_DTYPE_COUNT)
        return graph_refuse(g, FAULT_VIEW, index, view_fault(x));
    return graph_refuse(g, FAULT_NULL_ADDRESS, index, 0);
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

/*
 * As pto_tensor_end, but without guards the extent of a box is believed. Whoever writes
 * descriptors by hand may have an extent whose products wrap.
 */
static inline uint64_t end_of(const struct graph *g, const struct pto_tensor *t)
{
    if (t->extent != 0 && (t->start | (t->extent - 1)) >= t->size)
        return pto_tensor_end(t) > t->size ? pto_tensor_end(t) : UINT64_MAX;
    if (t->is_contiguous || g->guard_bytes != 0)
        return pto_tensor_end(t);
    return (t->start + t->extent) * pto_dtype_size(t->dtype);
}

static int check_tensor(struct graph *g, const struct pto_tensor *t, uint32_t index,
                        struct span *span)
{
    bool is_contiguous = t->is_contiguous;
    uint32_t dtype = t->dtype;
    uint64_t start, end;

    if (t->ndims - 1 >= PTO_MAX_DIMS || dtype >= PTO_DTYPE_COUNT)
        return graph_refuse(g, FAULT_VIEW, (int32_t)index, view_fault(t));
    if (!is_contiguous || g->deps != PTO_DEPS_SAFE) {
        *span = (struct span){ 0 };
        if (check_strides(g, t, index) < 0)
            return PTO_EARGS;
        if (g->deps != PTO_DEPS_SAFE)
            return PTO_OK;
    }
    end = end_of(g, t);
    if (end > t->size)
        return graph_refuse(g, FAULT_BOUNDS, (int32_t)index, end);
    if (t->addr == 0 && t->size != 0)
        return graph_refuse(g, FAULT_NULL_ADDRESS, (int32_t)index, 0);
    start = t->start * pto_dtype_size(dtype);
    if (is_contiguous)
        *span = span_of(t->addr + start, end != 0 ? end - start : 0);
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor arguments of a submit: each is checked and copied, the task waits for conflicting tasks,
 * and its access is recorded. submit.h has the quick path.
 */
#include <string.h>

#include "graph/guards.h"
#include "graph/submit.h"

static int check_tensor(struct graph *g, const struct pto_tensor *t, uint32_t index,
                        struct span *span);
static int take_any_tensor(struct graph *g, struct slot *t, const struct pto_args *args,
                           uint32_t index, const struct pto_outputs *out);

uint64_t submit_quick_traits(enum pto_deps deps)
{
    static const struct tensor_traits contiguous = { .is_contiguous = true };
    uint64_t kind;

    memcpy(&kind, &contiguous, sizeof(kind));
    /* a value that no tensor has, so there is no quick path */
    return deps == PTO_DEPS_SAFE ? kind : UINT64_MAX;
}

/* A tensor whose record was found and overlaps no other record. */
static inline int take_box_at(struct graph *g, struct slot *t, const struct pto_args *args,
                              uint32_t index, struct region *e)
{
    uint32_t tag = args->tag[index];

    copy_tensor(&t->tensor[index], args->tensor[index], tag);
    return region_apply_known(&g->regions, t, e, g->regions.quick[tag]);
}

/*
 * A box whose descriptor was seen before. It was checked then and overlaps no other record, so only
 * the size and the owner of its buffer are checked again.
 */
__attribute__((noinline)) static int take_known_box(struct graph *g, struct slot *t,
                                                    const struct pto_args *args, uint32_t index)
{
    const struct pto_tensor *from = args->tensor[index];
    struct region *e = region_find_known(&g->regions, from);

    if (e == NULL && (e = region_add_tile(&g->regions, from)) != NULL)
        return take_box_at(g, t, args, index, e);
    /* manual_dep is not part of the descriptor that was compared */
    if (e == NULL || from->manual_dep ||
        (from->start + from->extent) * pto_dtype_size(from->dtype) > from->size)
        return take_any_tensor(g, t, args, index, NULL);
    return take_box_at(g, t, args, index, e);
}

/* A tile whose descriptor differs from earlier ones in its start only. */
__attribute__((noinline)) static int take_new_tile(struct graph *g, struct slot *t,
                                                   const struct pto_args *args, uint32_t index,
                                                   struct region *e, uint64_t lo)
{
    if (!region_take_tile(&g->regions, e, lo))
        return take_any_tensor(g, t, args, index, NULL);
    return take_box_at(g, t, args, index, e);
}

/*
 * Any tensor argument. A tile of a known shape needs no checks, because the first tile of that
 * shape was checked.
 */
int submit_tensor(struct graph *g, struct slot *t, const struct pto_args *args, uint32_t index,
                  const struct pto_outputs *out)
{
    const struct pto_tensor *from = args->tensor[index];
    uint8_t tag = args->tag[index];
    struct region *e;
    uint64_t lo, length;

    if (g->regions.quick[tag] == 0 || pto_task_id_is_valid(from->owner))
        return take_any_tensor(g, t, args, index, out);
    e = region_find_tile(&g->regions, from, &lo, &length);
    /*
     * makes the compiler reload these values here, which is cheaper than to keep them in registers
     */
    fence_light();
    /* do not read outputs here: they are described by half a tensor (struct pto_tensor_info) */
    if (index + 1 < args->tensor_count && args->output_count == 0)
        region_prefetch_tile(&g->regions, args->tensor[index + 1]);
    if (e == NULL)
        return take_known_box(g, t, args, index);
    if (e->start != lo || e->length != length)
        return take_new_tile(g, t, args, index, e, lo);
    return take_box_at(g, t, args, index, e);
}

int submit_only_tensor(struct graph *g, struct slot *t, const void *from, uint8_t tag)
{
    struct pto_args args;

    args.tensor_count = 1;
    args.output_count = 0;
    args.tensor[0] = from;
    args.tag[0] = tag;
    return submit_tensor(g, t, &args, 0, NULL);
}

/*
 * Makes t wait for the task that created a tensor in the runtime's memory, and retains that memory
 * until t has completed. The creator's scope retains it as well, but under simpler's rules that
 * scope may have ended.
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
        /* relaxed: a user keeps the buffer alive, but reads no data of other threads here */
        a32_add_relaxed(&graph_buffer(g, e->buffer)->users, 1);
    if (e != NULL && !g->is_manual && e->slot != 0)
        status = graph_wait_for(g, t, (struct ref){ e->slot, e->seq });
    if (has_memory) {
        slot_retained(t)[t->retained_count++] = e->buffer;
        t->flags |= SLOT_HAS_RETAINED;
    }
    return status;
}

/* Descriptor of the output that was created for argument `index`. NULL: `out` has none for it. */
static struct pto_tensor *find_created(const struct pto_args *args, uint32_t index,
                                       const struct pto_outputs *out)
{
    uint32_t before = 0;

    for (uint32_t i = 0; i < index; i++)
        before += args->tag[i] == PTO_TAG_OUTPUT;
    return before < out->count ? (struct pto_tensor *)(uintptr_t)&out->tensor[before] : NULL;
}

/* Any tensor argument of a task. `out` has the created outputs, and may be NULL for other tags. */
__attribute__((noinline)) static int take_any_tensor(struct graph *g, struct slot *t,
                                                     const struct pto_args *args, uint32_t index,
                                                     const struct pto_outputs *out)
{
    uint32_t tag = args->tag[index];
    struct pto_tensor *x = &t->tensor[index];
    struct span span;
    int status = PTO_OK;

    if (tag >= PTO_TAG_COUNT)
        return graph_refuse(g, FAILURE_TAG, (int32_t)index, tag);
    if (tag == PTO_TAG_OUTPUT) {
        struct pto_tensor *created = find_created(args, index, out);

        if (created == NULL)
            return graph_refuse(g, FAILURE_TAG, (int32_t)index, tag);
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
    return region_access(&g->regions, t, x, &span, g->access[tag]);
}

/*
 * Makes t wait for the writer of its predicate's operand, and records t as a reader. Under the
 * reference's rules a predicate orders nothing.
 */
int submit_operand(struct graph *g, struct slot *t, const struct pto_predicate *p)
{
    uint32_t access = g->access[PTO_TAG_INPUT];
    struct pto_tensor element;
    struct pto_tensor *x = &element;
    struct span span = { .length = 0 };
    int status = graph_element(g, p->tensor, p->ndims, p->indices, FAILURE_PREDICATE, x);

    if (status >= 0)
        status = check_tensor(g, x, t->tensor_count, &span);
    if (status < 0)
        return status; /* never happens, because submit_check_predicate made the same checks */
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
        status = region_access(&g->regions, t, x, &span, access);
    return status;
}

/* ---- checks ---- */

int submit_check_predicate(struct graph *g, const struct pto_args *args)
{
    const struct pto_predicate *p = args->predicate;
    struct pto_tensor operand;
    struct span span;
    int status;

    if (p->op == PTO_PREDICATE_NONE || (p->tensor != NULL && p->tensor->addr == 0))
        return 0;
    if (p->op > PTO_PREDICATE_LE)
        return graph_refuse(g, FAILURE_PREDICATE, -1, DATA_OPERATOR);
    status = graph_element(g, p->tensor, p->ndims, p->indices, FAILURE_PREDICATE, &operand);
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

int submit_refuse_quick(struct regions *regions, const struct slot *t, const struct pto_tensor *x)
{
    struct graph *g = graph_of_index(regions);
    int32_t index = (int32_t)(x - t->tensor);

    if (x->ndims - 1 >= PTO_MAX_DIMS || x->dtype >= PTO_DTYPE_COUNT)
        return graph_refuse(g, FAILURE_VIEW, index, view_fault(x));
    return graph_refuse(g, FAILURE_NULL_ADDRESS, index, 0);
}

/*
 * Checks the strides of a tensor. Called for tensors that are not contiguous, and for all under the
 * reference's rules.
 */
__attribute__((noinline)) static int check_strides(struct graph *g, const struct pto_tensor *t,
                                                   uint32_t index)
{
    for (uint32_t d = 0; d < t->ndims; d++)
        if (t->strides[d] == 0)
            return graph_refuse(g, FAILURE_VIEW, (int32_t)index, PTO_VIEW_ZERO_STRIDE);
    return PTO_OK;
}

/*
 * Like pto_tensor_end, but trusts the extent of a box if there are no guards. A forged descriptor
 * may have an extent whose products wrap.
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
        return graph_refuse(g, FAILURE_VIEW, (int32_t)index, view_fault(t));
    if (!is_contiguous || g->deps != PTO_DEPS_SAFE) {
        *span = (struct span){ 0 };
        if (check_strides(g, t, index) < 0)
            return PTO_EARGS;
        if (g->deps != PTO_DEPS_SAFE)
            return PTO_OK;
    }
    end = end_of(g, t);
    if (end > t->size)
        return graph_refuse(g, FAILURE_BOUNDS, (int32_t)index, end);
    if (t->addr == 0 && t->size != 0)
        return graph_refuse(g, FAILURE_NULL_ADDRESS, (int32_t)index, 0);
    start = t->start * pto_dtype_size(dtype);
    if (is_contiguous)
        *span = span_of(t->addr + start, end != 0 ? end - start : 0);
    return PTO_OK;
}

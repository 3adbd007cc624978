/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A submit, from top to bottom: graph_submit_as at the end of this file. Inline,
 * because every task comes through here: the compiler makes a function for each
 * form of task, for orchestrations (orch/submission.c) and for submit.c. What is
 * not the ordinary case is a call. form_of judges once which form a task has.
 *
 * A task is refused where its mistake is found, which may be when some of its
 * tensors are recorded already: the run fails, and the task never becomes ready.
 */
#ifndef PTO_SUBMIT_H
#define PTO_SUBMIT_H

#include <string.h>

#include "graph/graph.h"
#include "overlap/access.h"

/* Of a task with one tensor, the descriptor that may be that of a later one: no prefetcher of a CPU leaves a page. */
enum { TENSORS_AHEAD = 16 * sizeof(struct pto_tensor) };

/* How much of a task there is to look at. */
enum form {
    FORM_BARE,   /* one kernel that always runs once, without tensors, waiting for nobody */
    FORM_SINGLE, /* the same with one tensor, which alone orders it */
    FORM_LONE,   /* the same with arguments that the compiler keeps in registers: the door's */
    FORM_PLAIN,  /* with several, with outputs or with many scalars */
    FORM_UNUSUAL /* anything */
};

/* submit.c */
/* The class of slot with room for header, tensors and what is behind them. */
uint32_t submit_class_with_tail(const struct pto_args *args);
/* The task was begun, but something about it is wrong. */
__attribute__((cold)) void submit_abandon(struct graph *g, int status);

/* submit_tensors.c */
/* Any tensor argument: checked, copied, waited for, recorded. */
int submit_tensor(struct graph *g, struct slot *t, const struct pto_args *args, uint32_t index,
                  const struct pto_outputs *out);
/* The same for the only one of a task, which creates none. */
int submit_lone_tensor(struct graph *g, struct slot *t, const void *from, uint8_t tag);
/* SLOT_HAS_PREDICATE, 0 for a predicate that always holds, or a refusal. */
int submit_check_predicate(struct graph *g, const struct pto_args *args);
/* The task, whose tensors are recorded, waits for who writes the operand, and reads it. */
int submit_operand(struct graph *g, struct slot *t, const struct pto_predicate *p);

/* A number that the compiler knows, if it can. */
static inline uint32_t tensors_of(const struct pto_args *args, enum form form)
{
    return form == FORM_BARE ? 0 : form < FORM_PLAIN ? 1 : args->tensor_count;
}

/* AIC or AIV0, and no other. */
static inline bool has_one_lane(const struct pto_kernels *kernels)
{
    return (kernels->aiv1 & (kernels->aic ^ kernels->aiv0)) < 0;
}

static inline enum form form_of(const struct pto_kernels *kernels, const struct pto_args *args)
{
    if (!has_one_lane(kernels) || args->block_count != 1 || args->timing_slot != -1 ||
        args->dep_count != 0 || args->passed != 0 || args->addresses != 0 || args->error != NULL ||
        args->predicate != NULL)
        return FORM_UNUSUAL;
    /* mutation: dear-submit */
    if (args->scalar_count > 1 || args->tensor_count > 1 || args->output_count != 0)
        return FORM_PLAIN;
    return args->tensor_count == 0 ? FORM_BARE : FORM_SINGLE;
}

static inline uint32_t class_for(const struct pto_args *args, enum form form)
{
    /* By tensors, if nothing is behind them but the buffers that they retain. */
    static const uint8_t plain[PTO_TASK_TENSORS_MAX + 1] = {
        0, 1, 2, 3, 4, 5, 5, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7,
        8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8,
    };
    bool has_tail = (form >= FORM_PLAIN && args->scalar_count > 1) ||
                    (form == FORM_UNUSUAL && args->predicate != NULL);

    return has_tail ? submit_class_with_tail(args) : plain[tensors_of(args, form)];
}

/* Whether there is such a kernel, for such a core. */
static inline bool has_kernel(const struct graph *g, int32_t kernel, uint32_t core_type)
{
    return (uint32_t)kernel < g->kernel_count && g->kernels[kernel].fn != NULL &&
           (g->kernels[kernel].core_type == core_type ||
            g->kernels[kernel].core_type == PTO_CORE_TYPES);
}

/* What a submit was called with. */
struct submit_call {
    const struct pto_kernels *kernels;
    const struct pto_args *args;
    const struct pto_site *site;
    struct pto_outputs *out;
    enum form form;
};

/* What a task is begun with: its slot, the place of its id, its outputs, its only kernel. */
struct submit_start {
    struct slot_info *info;
    struct id_entry *id;
    uint32_t buffer;
    uint32_t kernel;
    uint32_t core_type;
};

/* The first steps of a task with one kernel that always runs once. */
__attribute__((always_inline)) static inline struct slot *begin_task(
    struct graph *g, const struct submit_call *call, const struct submit_start *start)
{
    const struct pto_args *args = call->args;
    struct slot_info *info = start->info;
    enum form form = call->form;
    struct slot *t = graph_slot(g, info->line);
    uint32_t number = (uint32_t)(info - g->info);
    uint32_t seq = g->seq;

    port_check(number != 0 && info->seq == 0 && !info->is_spilled);
    port_check(g->free_slot[class_for(args, form)] == number || info->next == 0); /* a new one */
    g->free_slot[class_for(args, form)] = info->next;
    atomic_note_write(t);
    aptr_store_relaxed(&t->successors, NULL); /* others learn of the task through a release below */
    t->seq = seq;
    a32_store_relaxed(&t->pending, SLOT_BIAS);
    t->kernel[0] = (uint16_t)start->kernel;
    t->counts = slot_counts(tensors_of(args, form), args->scalar_count);
    t->traits = slot_traits(start->core_type, start->buffer != 0 ? SLOT_HAS_BUFFER : 0);
    t->buffer = start->buffer;
    t->block_count = form != FORM_UNUSUAL ? 1 : (uint32_t)args->block_count;
    t->site = call->site;
    t->id = call->out->task = ids_put(g, start->id, seq, number, start->buffer);
    if (args->scalar_count == 1)
        t->scalar = args->scalar[0];
    else if (form >= FORM_PLAIN && args->scalar_count > 1)
        memcpy(slot_scalars(t), args->scalar, args->scalar_count * sizeof(uint64_t));
    info->seq = seq;
    g->recent[seq % GRAPH_RECENT] = number;
    g->seq = seq + 1;
    g->live++;
    return t;
}

/* What the quick way asks for in the eight bytes of a tensor from `ndims` on. */
struct tensor_traits {
    uint32_t ndims;
    uint8_t dtype;
    bool manual_dep;
    bool is_contiguous;
    uint8_t space;
};

static_assert(offsetof(struct pto_tensor, space) - offsetof(struct pto_tensor, ndims) ==
                  offsetof(struct tensor_traits, space),
              "as in a tensor");

/* Of a table that is indexed by type: a power of two, so that a mask tells what is inside. */
enum { DTYPE_ROWS = PTO_DTYPE_COUNT <= 16 ? 16 : PTO_DTYPE_COUNT <= 32 ? 32 : 256 };

static_assert((int)PTO_DTYPE_COUNT <= DTYPE_ROWS, "a type is a byte of a tensor");

/* Where the record of an argument is looked for first. */
struct record_at {
    struct region *head; /* NULL: there is no quick way */
    uint64_t start;
    uint64_t length; /* 0: there is no such type, or number of dimensions */
};

/*
 * The quick way is that of a contiguous tensor of memory from outside. What is wrong
 * with one that no record can have is found when it is not there: region_reach_dense.
 */
__attribute__((always_inline)) static inline struct record_at locate_record(
    struct graph *g, const struct pto_tensor *x, uint8_t tag)
{
    /* Bytes of an element by type and number of dimensions; 0 if one of them does not exist. */
    static const uint8_t elem_bytes[DTYPE_ROWS][8] = {
#define X(name, text, bytes, kind, npy, layout, tolerance) \
    { 0, bytes, bytes, bytes, bytes, bytes, 0, 0 },
        PTO_DTYPE_MAP(X)
#undef X
    };
    static const struct tensor_traits any = { 7, DTYPE_ROWS - 1, false, false, 255 };
    struct record_at at = { NULL, 0, 0 };
    uint64_t kind, open, start;

    memcpy(&kind, &x->ndims, sizeof(kind));
    memcpy(&open, &any, sizeof(open));
    /* Outputs are described by half a tensor, and have no quick way. */
    if (g->regions.quick[tag] == 0 || (kind & ~open) != g->quick_traits)
        return at;
    /* No product wraps, whoever wrote the descriptor, if what is multiplied is below the size. */
    if (pto_task_id_is_valid(x->owner) || (x->start | (x->extent - 1)) >= x->size)
        return at;
    start = elem_bytes[x->dtype][x->ndims];
    at.length = x->extent * start;
    start *= x->start;
    if (start + at.length > x->size)
        return at;
    at.start = start + x->addr;
    at.head = region_head(&g->regions, at.start, at.length);
    return at;
}

/* What is in a descriptor; the rest is for later versions. */
static inline void copy_tensor(struct pto_tensor *to, const struct pto_tensor *from, uint32_t tag)
{
    enum { USED = (offsetof(struct pto_tensor, reserved) + 15) / 16 * 16 };

    memcpy(to, from, USED);
    to->tag = (uint8_t)tag;
}

/* One tensor argument: copied, waited for, recorded. */
__attribute__((always_inline)) static inline int take_tensor(struct graph *g, struct slot *t,
                                                             const struct pto_args *args,
                                                             uint32_t i,
                                                             const struct pto_outputs *out,
                                                             struct record_at at, enum form form)
{
    struct pto_tensor *x = &t->tensor[i];

    if (at.head == NULL)
        return form == FORM_LONE ? submit_lone_tensor(g, t, args->tensor[0], args->tag[0])
                                 : submit_tensor(g, t, args, i, out);
    copy_tensor(x, args->tensor[i], args->tag[i]);
    if (!region_is(at.head, at.start, at.length))
        return region_reach_dense(&g->regions, t, x, at.head, at.start, at.length);
    return apply_access(&g->regions, t, at.head, g->regions.quick[args->tag[i]]);
}

/* All of them. The line of a record is asked for before the tensor in front of it is taken. */
__attribute__((always_inline)) static inline int take_tensors(struct graph *g, struct slot *t,
                                                              const struct pto_args *args,
                                                              uint32_t count,
                                                              const struct pto_outputs *out,
                                                              enum form form)
{
    uint32_t size = g->regions.table_count;
    struct record_at at, next;
    int status = PTO_OK;

    if (count == 0)
        return PTO_OK;
    next = locate_record(g, args->tensor[0], args->tag[0]);
    for (uint32_t i = 0;;) {
        if (i != 0 && size != g->regions.table_count) /* it grew when the tensor before was taken */
            next = locate_record(g, args->tensor[i], args->tag[i]);
        at = next;
        if (i + 1 < count) {
            next = locate_record(g, args->tensor[i + 1], args->tag[i + 1]);
            __builtin_prefetch(next.head, 1, 3);
        }
        status = take_tensor(g, t, args, i, out, at, form);
        if (status < 0 || ++i == count)
            return status;
    }
}

/* All edges are linked. Returns whether the task can run at once. */
static inline bool arm_task(struct graph *g, struct slot *t)
{
    uint32_t edges = t->edge_count;
    uint32_t left;

    if (edges == 0)
        return true;
    if ((t->flags & SLOT_HAS_SPILL) != 0)
        edges += edges_count_spilled(g, t);
    g->edge_total += edges;
    if (g->is_shared)
        return a32_sub_acq_rel(&t->pending, SLOT_BIAS - edges) == SLOT_BIAS - edges; /* R5 A5 */
    left = a32_load_relaxed(&t->pending) - (SLOT_BIAS - edges); /* nobody else writes */
    port_check(left <= edges);
    a32_store_relaxed(&t->pending, left);
    return left == 0;
}

static inline struct submitted submit_result(struct slot *t, bool is_ready)
{
    return (struct submitted){ is_ready ? SUBMIT_READY : SUBMIT_WAITS, t };
}

/* With a slot and a place for its id at hand: the task itself. */
__attribute__((always_inline)) static inline struct submitted submit_at(
    struct graph *g, const struct submit_call *call, struct slot_info *info, struct id_entry *id)
{
    const struct pto_args *args = call->args;
    enum form form = call->form;
    bool is_aic = call->kernels->aic >= 0;
    struct submit_start start;
    uint32_t buffer = 0;
    struct slot *t;
    int status;

    if (form == FORM_PLAIN && args->output_count != 0 &&
        buffers_create(g, args, call->out, &buffer) < 0)
        return submit_refused;
    start = (struct submit_start){ info, id, buffer,
                                   (uint32_t)(is_aic ? call->kernels->aic : call->kernels->aiv0),
                                   is_aic ? PTO_CORE_AIC : PTO_CORE_AIV };
    t = begin_task(g, call, &start);
    status = take_tensors(g, t, args, tensors_of(args, form), call->out, form);
    if (status < 0) {
        submit_abandon(g, status);
        return submit_refused;
    }
    return submit_result(t, form == FORM_BARE || arm_task(g, t));
}

/*
 * Submits a task of the form, which is not FORM_UNUSUAL. There is hardly a call in it:
 * where a slot or an id has to be made first, or something is wrong with the task itself,
 * it changes nothing and returns SUBMIT_STOPPED; graph_submit_closely then does it.
 */
__attribute__((always_inline)) static inline struct submitted graph_submit_as(
    struct graph *g, const struct pto_kernels *kernels, const struct pto_args *args,
    const struct pto_site *site, struct pto_outputs *out, enum form form)
{
    bool is_aic = kernels->aic >= 0;
    struct slot_info *info;
    struct id_entry *id;

    port_check(form != FORM_UNUSUAL);
    if (!has_kernel(g, is_aic ? kernels->aic : kernels->aiv0,
                    is_aic ? PTO_CORE_AIC : PTO_CORE_AIV) ||
        (form == FORM_PLAIN &&
         (args->tensor_count > PTO_TASK_TENSORS_MAX || args->scalar_count > PTO_TASK_SCALARS_MAX)))
        return submit_stopped;
    for (uint32_t i = 0; form == FORM_PLAIN && i < args->tensor_count; i++) { /* needed soon */
        __builtin_prefetch(args->tensor[i], 0, 3);
        __builtin_prefetch((const char *)args->tensor[i] + 64, 0, 3);
    }
    if (form == FORM_SINGLE ||
        form == FORM_LONE) { /* descriptors are often in an array, one after the other */
        __builtin_prefetch((const char *)args->tensor[0] + TENSORS_AHEAD, 0, 3);
        __builtin_prefetch((const char *)args->tensor[0] + TENSORS_AHEAD + 64, 0, 3);
    }
    id = ids_next(g);
    info = &g->info[g->free_slot[class_for(args, form)]];
    if (id->seq >= g->regions.dead_before) /* a task that lives long may be there */
        return submit_stopped;
    if (id->buffer != 0 && /* so may its outputs; tasks with some often meet one with some */
        (form != FORM_PLAIN || graph_buffer(g, id->buffer)->seq == id->seq))
        return submit_stopped;
    if (info->is_spilled && (form == FORM_BARE || !slot_clean(g, info)))
        return submit_stopped;
    return submit_at(g, &(struct submit_call){ kernels, args, site, out, form }, info, id);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Submits a task; start to read with graph_submit_as at the end of this file. The functions are
 * inline because every task goes through them: the compiler generates one function for each form of
 * task, for orchestrations (orch/submission.c) and for submit.c. form_of determines the form of a
 * task once. Unusual cases are calls of other functions.
 *
 * A task is refused where its mistake is found, which may be after some of its tensors have been
 * recorded. Then the run fails, and the task never becomes ready.
 */
#ifndef PTO_SUBMIT_H
#define PTO_SUBMIT_H

#include <string.h>

#include "graph/graph.h"
#include "overlap/access.h"

/* Prefetch distance for arrays of descriptors: hardware prefetchers stop at page boundaries. */
enum { TENSORS_AHEAD = 16 * sizeof(struct pto_tensor) };

/* Forms of a task; the fewer arguments a form allows, the shorter its function. */
enum task_form {
    FORM_NO_TENSOR, /* one kernel that always runs once, without tensors or predecessors */
    /* like FORM_NO_TENSOR, but with one tensor, from which all predecessors follow */
    FORM_ONE_TENSOR,
    /* like FORM_ONE_TENSOR, with the arguments in registers, for the compatibility layer */
    FORM_ONE_TENSOR_IN_REGISTERS,
    FORM_SIMPLE, /* one kernel that always runs once, with any tensors, outputs and scalars */
    FORM_GENERAL /* any other task */
};

/* submit.c */
/* Size class of a slot with room for the header, the tensors and the tail of a general task. */
uint32_t submit_class_with_tail(const struct pto_args *args);
/* Called when a task that already has a slot turns out to be invalid: it never runs. */
__attribute__((cold)) void submit_abandon(struct graph *g, int status);

/* declared.c */
/* Refuses a kernel that does not exist, or whose declared arguments differ from `args`. */
int submit_check_kernel(struct graph *g, int32_t kernel, uint32_t core_type,
                        const struct pto_args *args);

/* submit_tensors.c */
/*
 * Any tensor argument: checks it, copies it, makes the task wait for conflicting tasks, and records
 * its access.
 */
int submit_tensor(struct graph *g, struct slot *t, const struct pto_args *args, uint32_t index,
                  const struct pto_outputs *out);
/* Like submit_tensor, for the only tensor of a task without outputs. */
int submit_only_tensor(struct graph *g, struct slot *t, const void *from, uint8_t tag);
/*
 * Checks a predicate. Returns SLOT_HAS_PREDICATE; 0 if the predicate always holds; or the status of
 * a refusal.
 */
int submit_check_predicate(struct graph *g, const struct pto_args *args);
/*
 * Makes the task wait for the writer of its predicate's operand, and records that the task reads
 * it. Called after the task's tensors are recorded.
 */
int submit_operand(struct graph *g, struct slot *t, const struct pto_predicate *p);

/* Number of a task's tensors, as a constant if the form determines it. */
static inline uint32_t tensors_of(const struct pto_args *args, enum task_form form)
{
    return form == FORM_NO_TENSOR ? 0 : form < FORM_SIMPLE ? 1 : args->tensor_count;
}

/* Whether the task's only kernel is for AIC or AIV0. */
static inline bool has_one_lane(const struct pto_kernels *kernels)
{
    return (kernels->aiv1 & (kernels->aic ^ kernels->aiv0)) < 0;
}

static inline enum task_form form_of(const struct pto_kernels *kernels, const struct pto_args *args)
{
    if (!has_one_lane(kernels) || args->block_count != 1 || args->timing_slot != -1 ||
        args->dep_count != 0 || args->passed != 0 || args->addresses != 0 || args->error != NULL ||
        args->predicate != NULL)
        return FORM_GENERAL;
    /* mutation: dear-submit */
    if (args->scalar_count > 1 || args->tensor_count > 1 || args->output_count != 0)
        return FORM_SIMPLE;
    return args->tensor_count == 0 ? FORM_NO_TENSOR : FORM_ONE_TENSOR;
}

static inline uint32_t class_for(const struct pto_args *args, enum task_form form)
{
    /*
     * Size class of a slot by number of tensors, for tasks whose tail only lists retained buffers.
     */
    static const uint8_t plain[PTO_TASK_TENSORS_MAX + 1] = {
        0, 1, 2, 3, 4, 5, 5, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7,
        8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8,
    };
    bool has_tail = (form >= FORM_SIMPLE && args->scalar_count > 1) ||
                    (form == FORM_GENERAL && args->predicate != NULL);

    return has_tail ? submit_class_with_tail(args) : plain[tensors_of(args, form)];
}

/* Whether the kernel exists, is made for this type of core, and does not declare its arguments. */
static inline bool has_kernel(const struct graph *g, int32_t kernel, uint32_t core_type)
{
    return (uint32_t)kernel < g->kernel_count && g->kernels[kernel].fn != NULL &&
           (g->kernels[kernel].core == core_type || g->kernels[kernel].core == PTO_CORE_TYPES);
}

/* Parameters of a submit. */
struct submit_call {
    const struct pto_kernels *kernels;
    const struct pto_args *args;
    const struct pto_site *site;
    struct pto_outputs *out;
    enum task_form form;
};

/* What a new task needs: its slot, the entry of its id, the buffer of its outputs, its kernel. */
struct submit_start {
    struct slot_info *info;
    struct id_entry *id;
    uint32_t buffer;
    uint32_t kernel;
    uint32_t core_type;
};

/* Fills the header of a new task with one kernel that always runs once. */
__attribute__((always_inline)) static inline struct slot *begin_task(
    struct graph *g, const struct submit_call *call, const struct submit_start *start)
{
    const struct pto_args *args = call->args;
    struct slot_info *info = start->info;
    enum task_form form = call->form;
    struct slot *t = graph_slot(g, info->line);
    uint32_t number = (uint32_t)(info - g->info);
    uint32_t seq = g->seq;

    port_check(number != 0 && info->seq == 0 && !info->is_spilled);
    /* either the first free slot, or a new one */
    port_check(g->free_slot[class_for(args, form)] == number || info->next == 0);
    g->free_slot[class_for(args, form)] = info->next;
    atomic_note_write(t);
    /* relaxed: a later release publishes the task to other threads */
    aptr_store_relaxed(&t->successors, NULL);
    t->seq = seq;
    a32_store_relaxed(&t->pending, SLOT_BIAS);
    t->kernel[0] = (uint16_t)start->kernel;
    t->counts = slot_counts(tensors_of(args, form), args->scalar_count);
    t->traits = slot_traits(start->core_type, start->buffer != 0 ? SLOT_HAS_BUFFER : 0);
    t->buffer = start->buffer;
    t->block_count = form != FORM_GENERAL ? 1 : (uint32_t)args->block_count;
    t->site = call->site;
    t->id = call->out->task = ids_put(g, start->id, seq, number, start->buffer);
    if (args->scalar_count == 1)
        t->scalar = args->scalar[0];
    else if (form >= FORM_SIMPLE && args->scalar_count > 1)
        memcpy(slot_scalars(t), args->scalar, args->scalar_count * sizeof(uint64_t));
    info->seq = seq;
    g->recent[seq % GRAPH_RECENT] = number;
    g->seq = seq + 1;
    g->live++;
    return t;
}

/*
 * Returns the eight bytes of a tensor from `ndims` on, which the quick path compares in one step.
 */
struct tensor_traits {
    uint32_t ndims;
    uint8_t dtype;
    bool manual_dep;
    bool is_contiguous;
    uint8_t space;
};

static_assert(offsetof(struct pto_tensor, space) - offsetof(struct pto_tensor, ndims) ==
                  offsetof(struct tensor_traits, space),
              "fields must be at the same distance as in a tensor");

/*
 * Rows of a table that is indexed by data type: a power of two, so that a mask keeps the index in
 * range.
 */
enum { DTYPE_ROWS = PTO_DTYPE_COUNT <= 16 ? 16 : PTO_DTYPE_COUNT <= 32 ? 32 : 256 };

static_assert((int)PTO_DTYPE_COUNT <= DTYPE_ROWS, "a data type must fit into a byte of a tensor");

/* Where the index of regions looks first for the record of an argument. */
struct record_at {
    struct region *head; /* first record of a bucket; NULL: the argument has no quick path */
    uint64_t start;
    uint64_t length; /* length in bytes; 0: the type or the number of dimensions is unknown */
};

/*
 * Finds the bucket of a contiguous tensor outside of the runtime's memory; other tensors have no
 * quick path. An invalid tensor has no record, so it gets to region_reach_dense, which finds the
 * error.
 */
__attribute__((always_inline)) static inline struct record_at locate_record(
    struct graph *g, const struct pto_tensor *x, uint8_t tag)
{
    /* Size of an element by data type and number of dimensions; 0 if one of them is invalid. */
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
    /*
     * Outputs have no quick path: a submit describes them by a struct pto_tensor_info, which is
     * half a tensor.
     */
    if (g->regions.quick[tag] == 0 || (kind & ~open) != g->quick_traits)
        return at;
    /* If both factors are below the size, no product wraps, even in a forged descriptor. */
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

/* Copies those fields of a descriptor that are in use; the other bytes are reserved. */
static inline void copy_tensor(struct pto_tensor *to, const struct pto_tensor *from, uint32_t tag)
{
    enum { USED = (offsetof(struct pto_tensor, reserved) + 15) / 16 * 16 };

    memcpy(to, from, USED);
    to->tag = (uint8_t)tag;
}

/*
 * One tensor argument: copies it, makes the task wait for conflicting tasks, and records its
 * access.
 */
__attribute__((always_inline)) static inline int take_tensor(
    struct graph *g, struct slot *t, const struct pto_args *args, uint32_t i,
    const struct pto_outputs *out, struct record_at at, enum task_form form)
{
    struct pto_tensor *x = &t->tensor[i];

    if (at.head == NULL)
        return form == FORM_ONE_TENSOR_IN_REGISTERS
                   ? submit_only_tensor(g, t, args->tensor[0], args->tag[0])
                   : submit_tensor(g, t, args, i, out);
    copy_tensor(x, args->tensor[i], args->tag[i]);
    if (!region_is(at.head, at.start, at.length))
        return region_reach_dense(&g->regions, t, x, at.head, at.start, at.length);
    return apply_access(&g->regions, t, at.head, g->regions.quick[args->tag[i]]);
}

/*
 * Copies and records all tensors of a task. The bucket of the next tensor is prefetched before
 * each.
 */
__attribute__((always_inline)) static inline int take_tensors(struct graph *g, struct slot *t,
                                                              const struct pto_args *args,
                                                              uint32_t count,
                                                              const struct pto_outputs *out,
                                                              enum task_form form)
{
    uint32_t size = g->regions.table_count;
    struct record_at at, next;
    int status = PTO_OK;

    if (count == 0)
        return PTO_OK;
    next = locate_record(g, args->tensor[0], args->tag[0]);
    for (uint32_t i = 0;;) {
        /* the previous tensor made the table of records grow, so its buckets moved */
        if (i != 0 && size != g->regions.table_count)
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

/* Called after all predecessors of a task are linked. Returns whether the task is ready. */
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
    /* relaxed: only this thread writes it */
    left = a32_load_relaxed(&t->pending) - (SLOT_BIAS - edges);
    port_check(left <= edges);
    a32_store_relaxed(&t->pending, left);
    return left == 0;
}

static inline struct submitted submit_result(struct slot *t, bool is_ready)
{
    return (struct submitted){ is_ready ? SUBMIT_READY : SUBMIT_WAITS, t };
}

/* Submits a task. The caller has found a free slot for it, and a free entry in the map of ids. */
__attribute__((always_inline)) static inline struct submitted submit_at(
    struct graph *g, const struct submit_call *call, struct slot_info *info, struct id_entry *id)
{
    const struct pto_args *args = call->args;
    enum task_form form = call->form;
    bool is_aic = call->kernels->aic >= 0;
    struct submit_start start;
    uint32_t buffer = 0;
    struct slot *t;
    int status;

    if (form == FORM_SIMPLE && args->output_count != 0 &&
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
    return submit_result(t, form == FORM_NO_TENSOR || arm_task(g, t));
}

/*
 * Submits a task of a form other than FORM_GENERAL, with hardly any function calls. If a slot or an
 * id has to be allocated first, or the task itself is invalid, it changes nothing and returns
 * SUBMIT_STOPPED; the caller then calls graph_submit_slow.
 */
__attribute__((always_inline)) static inline struct submitted graph_submit_as(
    struct graph *g, const struct pto_kernels *kernels, const struct pto_args *args,
    const struct pto_site *site, struct pto_outputs *out, enum task_form form)
{
    bool is_aic = kernels->aic >= 0;
    struct slot_info *info;
    struct id_entry *id;

    port_check(form != FORM_GENERAL);
    if (!has_kernel(g, is_aic ? kernels->aic : kernels->aiv0,
                    is_aic ? PTO_CORE_AIC : PTO_CORE_AIV) ||
        (form == FORM_SIMPLE &&
         (args->tensor_count > PTO_TASK_TENSORS_MAX || args->scalar_count > PTO_TASK_SCALARS_MAX)))
        return submit_stopped;
    /* prefetch the descriptors */
    for (uint32_t i = 0; form == FORM_SIMPLE && i < args->tensor_count; i++) {
        __builtin_prefetch(args->tensor[i], 0, 3);
        __builtin_prefetch((const char *)args->tensor[i] + 64, 0, 3);
    }
    if (form == FORM_ONE_TENSOR ||
        /* prefetch for a later submit: callers often have their descriptors in an array */
        form == FORM_ONE_TENSOR_IN_REGISTERS) {
        __builtin_prefetch((const char *)args->tensor[0] + TENSORS_AHEAD, 0, 3);
        __builtin_prefetch((const char *)args->tensor[0] + TENSORS_AHEAD + 64, 0, 3);
    }
    id = ids_next(g);
    info = &g->info[g->free_slot[class_for(args, form)]];
    /* a task that has been live for long may still have the entry */
    if (id->seq >= g->regions.dead_before)
        return submit_stopped;
    /*
     * The outputs of the task that used this table entry before may still be allocated. Only
     * FORM_SIMPLE checks that, because its tasks, which may have outputs, often get such an entry.
     */
    if (id->buffer != 0 && (form != FORM_SIMPLE || graph_buffer(g, id->buffer)->seq == id->seq))
        return submit_stopped;
    if (info->is_spilled && (form == FORM_NO_TENSOR || !slot_clean(g, info)))
        return submit_stopped;
    return submit_at(g, &(struct submit_call){ kernels, args, site, out, form }, info, id);
}

#endif

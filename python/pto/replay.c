/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The orchestration of every Python orchestration. The submits of the Python function are recorded
 * (_orchestration.py has the same layouts) in tensor 0 of the entry, and replayed here in the same
 * order. All references in the record are offsets, so that it can be copied to a chip of another
 * process; its last part is scratch memory for the replay.
 */
#include <pto/orch.h>

enum { OP_SUBMIT, OP_ALLOC, OP_SCOPE_BEGIN, OP_SCOPE_END };
enum { ARG_SCALAR = PTO_TAG_COUNT, ARG_PASSED };
enum { FROM_ENTRY, FROM_OUTPUT };

struct head {
    uint32_t op_count;
    uint32_t ops; /* offsets of the tables */
    uint32_t args;
    uint32_t tensors;
    uint32_t infos;
    uint32_t deps;
    uint32_t outputs; /* struct pto_outputs for each op */
    uint32_t sites;   /* struct pto_site for each op */
};

struct op {
    uint32_t kind;
    int32_t lane[3];
    uint32_t arg; /* index of the first argument */
    uint32_t arg_count;
    uint32_t dep;
    uint32_t dep_count;
    int32_t blocks;
    uint32_t is_gang;
    int32_t timing;     /* -1: none */
    uint32_t is_manual; /* for a scope */
    uint32_t predicate; /* enum pto_predicate_op */
    uint32_t predicate_tensor;
    int64_t predicate_target;
    uint32_t file; /* offset of a text */
    int32_t line;
};

struct arg {
    uint32_t tag; /* enum pto_tag, ARG_SCALAR or ARG_PASSED */
    /* index of a tensor; for an output, of an info; for a passed scalar, of the entry's scalar */
    uint32_t index;
    uint64_t scalar;
};

struct tensor {
    uint32_t from;
    uint32_t op;
    uint32_t index; /* index in the entry, or of the output */
    uint32_t ndims; /* 0: the whole tensor */
    uint64_t start;
    uint32_t shapes[PTO_MAX_DIMS];
    uint32_t strides[PTO_MAX_DIMS];
};

struct info {
    uint32_t dtype;
    uint32_t ndims;
    uint32_t shapes[PTO_MAX_DIMS];
    uint32_t is_filled;
    uint64_t bits;
};

struct replay {
    char *bytes;
    const struct head *head;
    const struct pto_entry *entry;
    struct pto_outputs *outputs;
};

static struct pto_tensor find_tensor(const struct replay *r, uint32_t index)
{
    const struct tensor *row = (const struct tensor *)(r->bytes + r->head->tensors) + index;
    struct pto_tensor t = row->from == FROM_ENTRY ? r->entry->tensor[row->index]
                                                  : *pto_output(r->outputs[row->op], row->index);

    if (row->ndims == 0 || t.ndims == 0)
        return t;
    t.start += row->start;
    t.ndims = row->ndims;
    for (uint32_t d = 0; d < PTO_MAX_DIMS; d++) {
        t.shapes[d] = row->shapes[d];
        t.strides[d] = row->strides[d];
    }
    t.manual_dep = false;
    pto_tensor_update(&t);
    return t;
}

static struct pto_tensor_info find_info(const struct replay *r, uint32_t index)
{
    const struct info *row = (const struct info *)(r->bytes + r->head->infos) + index;
    struct pto_tensor_info info =
        (pto_tensor_info_make)(row->shapes, row->ndims, (enum pto_dtype)row->dtype);

    if (row->is_filled)
        pto_tensor_info_fill(&info, row->bits);
    return info;
}

static void do_task(struct pto_orch *o, const struct replay *r, uint32_t at, const struct op *op,
                    const struct pto_site *site)
{
    const struct arg *arg = (const struct arg *)(r->bytes + r->head->args) + op->arg;
    const uint32_t *dep = (const uint32_t *)(r->bytes + r->head->deps) + op->dep;
    const struct pto_kernels kernels = { op->lane[0], op->lane[1], op->lane[2] };
    struct pto_tensor tensors[PTO_TASK_TENSORS_MAX], condition;
    struct pto_tensor_info infos[PTO_TASK_TENSORS_MAX];
    struct pto_predicate predicate = { .op = (uint8_t)op->predicate,
                                       .target = op->predicate_target };
    struct pto_task_id deps[64];
    struct pto_args args;

    (pto_args_init)(&args);
    for (uint32_t i = 0; i < op->arg_count; i++, arg++) {
        uint32_t place = i % PTO_TASK_TENSORS_MAX; /* pto_args_add rejects more */

        if (arg->tag == ARG_SCALAR) {
            (pto_add_scalar)(&args, arg->scalar);
        } else if (arg->tag == ARG_PASSED) {
            (pto_pass_scalar)(&args, arg->index);
        } else if (arg->tag == PTO_TAG_OUTPUT) {
            infos[place] = find_info(r, arg->index);
            pto_args_add(&args, &infos[place], PTO_TAG_OUTPUT);
        } else {
            tensors[place] = find_tensor(r, arg->index);
            pto_args_add(&args, &tensors[place], (enum pto_tag)arg->tag);
        }
    }
    for (uint32_t i = 0; i < op->dep_count && i < 64; i++)
        deps[i] = r->outputs[dep[i]].task;
    if (op->dep_count != 0)
        pto_set_deps(&args, deps, NULL, op->dep_count);
    if (op->predicate != PTO_PREDICATE_NONE) {
        condition = find_tensor(r, op->predicate_tensor);
        predicate.tensor = &condition;
        pto_set_predicate(&args, &predicate);
    }
    pto_set_blocks(&args, op->blocks);
    pto_set_sync_start(&args, op->is_gang != 0);
    if (op->timing >= 0)
        pto_set_timing_slot(&args, op->timing);
    r->outputs[at] = op->kind == OP_ALLOC ? pto_alloc_at(o, &args, site)
                                          : pto_submit_at(o, kernels, &args, site);
}

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    struct replay r = { .bytes = pto_tensor_data(&entry->tensor[0]), .entry = entry };
    const struct op *ops;
    struct pto_site *sites;

    r.head = (const struct head *)r.bytes;
    r.outputs = (struct pto_outputs *)(r.bytes + r.head->outputs);
    ops = (const struct op *)(r.bytes + r.head->ops);
    sites = (struct pto_site *)(r.bytes + r.head->sites);
    for (uint32_t i = 0; i < r.head->op_count && pto_orch_status(o) == 0; i++) {
        sites[i].file = r.bytes + ops[i].file;
        sites[i].line = ops[i].line;
        if (ops[i].kind == OP_SCOPE_BEGIN)
            (void)o->ops->scope_begin(o, ops[i].is_manual ? PTO_SCOPE_MANUAL : PTO_SCOPE_AUTO,
                                      &sites[i]);
        else if (ops[i].kind == OP_SCOPE_END)
            (void)pto_scope_end(o);
        else
            do_task(o, &r, i, &ops[i], &sites[i]);
    }
}

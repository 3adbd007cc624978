/* SPDX-License-Identifier: Apache-2.0 */
/* The orchestration that submits a random graph, and looks at what the submits return. */
#include <inttypes.h>
#include <stdlib.h>

#include "check/check_trial.h"

static bool scope_holds(const struct check_graph *g, uint32_t outer, uint32_t inner)
{
    int32_t s = (int32_t)inner;

    while (s >= 0 && (uint32_t)s != outer)
        s = g->scopes[s].parent;
    return s >= 0;
}

static void open_scopes(struct pto_orch *o, const struct check_graph *g, uint32_t from, uint32_t to)
{
    if (from == to)
        return;
    open_scopes(o, g, from, (uint32_t)g->scopes[to].parent);
    pto_scope_begin(o, g->scopes[to].is_manual ? PTO_SCOPE_MANUAL : PTO_SCOPE_AUTO);
}

/* A descriptor as the orchestration would have made it with views. */
static struct pto_tensor place_tensor(const struct check_run *run, int32_t creator, uint32_t output,
                                      const struct check_region *r)
{
    struct pto_tensor t;

    if (creator >= 0) {
        const struct check_task *task = &run->g->tasks[creator];
        uint32_t k = 0;

        while (task->args[k].tag != PTO_TAG_OUTPUT || task->args[k].output != output)
            k++;
        t = run->given[run->tasks[creator].first_arg + k];
    } else {
        memset(&t, 0, sizeof(t));
        t.addr = (uint64_t)(uintptr_t)run->arena + (r->addr - CHECK_ARENA_BASE);
        t.size = r->size;
        t.owner = pto_task_id_invalid();
    }
    t.start = r->start;
    t.version = r->version;
    t.ndims = r->ndims;
    t.dtype = (uint8_t)r->dtype;
    t.manual_dep = r->manual_dep;
    memcpy(t.shapes, r->shapes, sizeof(t.shapes));
    memcpy(t.strides, r->strides, sizeof(t.strides));
    pto_tensor_update(&t);
    return t;
}

struct pto_tensor check_given_tensor(const struct check_run *run, const struct check_arg *arg)
{
    return place_tensor(run, arg->creator, arg->output, &arg->region);
}

struct pto_tensor check_element_tensor(const struct check_run *run, const struct check_element *e)
{
    return place_tensor(run, e->creator, e->output, &e->region);
}

/* What the submit returned: the id, and a descriptor for each output. */
static void take_outputs(struct check_run *run, struct check_run_task *t,
                         const struct pto_outputs *out)
{
    const struct check_task *task = &run->g->tasks[t->index];
    uint32_t depth = run->g->scopes[task->scope].depth;
    uint32_t ring = depth < CHECK_RINGS ? depth : CHECK_RINGS - 1;
    uint32_t local = pto_task_id_local(out->task);
    uint32_t count = 0;
    const char *fault;

    t->id = out->task.raw;
    if (pto_task_id_ring(out->task) != ring || local != run->ring_count[ring])
        check_find(run->findings, t->index, -1,
                   "a task id is %#" PRIx64 ", not ring %" PRIu32 " and number %" PRIu32, t->id,
                   ring, run->ring_count[ring]);
    run->ring_count[ring] = local + 1;
    for (uint32_t k = 0; k < task->arg_count; k++) {
        struct pto_tensor *given = &run->given[t->first_arg + k];

        if (task->args[k].tag != PTO_TAG_OUTPUT || count++ >= out->count)
            continue;
        *given = out->tensor[count - 1];
        fault = check_tensor_fault(given, &task->args[k].region);
        if (fault != NULL)
            check_find(run->findings, t->index, -1, "a submit returned an output with wrong %s",
                       fault);
        if (given->owner.raw != out->task.raw)
            check_find(run->findings, t->index, -1,
                       "an output's owner is not the task that made it");
    }
    if (count != out->count)
        check_find(run->findings, t->index, -1,
                   "a submit returned %" PRIu32 " outputs, not %" PRIu32, out->count, count);
}

static int32_t kernel_id(const struct check_run_task *t, uint32_t lane)
{
    const struct check_task *task = &t->run->g->tasks[t->index];
    uint32_t number = task->scalar_count != 0 ? task->arg_count : CHECK_KERNELS_BY_COUNT + t->bare;

    return (task->lanes >> lane & 1) != 0 ? (int32_t)(lane * CHECK_KERNELS_A_LANE + number) : -1;
}

static void set_launch(const struct check_run_task *t, struct pto_args *args,
                       struct pto_predicate *predicate, struct pto_tensor *operand)
{
    const struct check_task *task = &t->run->g->tasks[t->index];
    const struct check_predicate *p = &task->predicate;

    if (task->blocks > 1)
        pto_set_blocks(args, (int32_t)task->blocks);
    pto_set_sync_start(args, task->is_gang);
    pto_set_early_resolve(args, task->is_early);
    if (task->timing != 0)
        pto_set_timing_slot(args, task->timing - 1);
    if (!p->is_used && !p->is_null)
        return;
    *operand = check_element_tensor(t->run, &p->element);
    if (p->is_null && task->salt % 2 == 0)
        operand->addr = 0;
    predicate->tensor = operand;
    predicate->ndims = p->element.ndims;
    memcpy(predicate->indices, p->element.indices, sizeof(predicate->indices));
    predicate->op = p->is_null && task->salt % 2 != 0 ? PTO_PREDICATE_NONE : p->op;
    predicate->target = t->run->oracle->target[t->index];
    pto_set_predicate(args, predicate);
}

static void submit_task(struct pto_orch *o, struct check_run *run, struct check_run_task *t)
{
    const struct check_task *task = &run->g->tasks[t->index];
    struct pto_tensor_info infos[PTO_TASK_TENSORS_MAX];
    struct pto_task_id *deps = check_alloc(NULL, task->dep_count, sizeof(*deps));
    uint8_t *kinds = check_alloc(NULL, task->dep_count, sizeof(*kinds));
    struct pto_predicate predicate;
    struct pto_tensor operand;
    struct pto_outputs out;
    struct pto_args args;

    pto_args_init(&args);
    for (uint32_t k = 0; k < task->arg_count; k++) {
        const struct check_arg *arg = &task->args[k];
        struct pto_tensor *given = &run->given[t->first_arg + k];

        if (arg->tag == PTO_TAG_OUTPUT) {
            infos[k] = pto_tensor_info_make(arg->region.shapes, arg->region.ndims,
                                            (enum pto_dtype)arg->region.dtype);
            infos[k].manual_dep = arg->region.manual_dep;
            infos[k].version = arg->region.version;
            /* What no kernel writes may be read all the same, which guards would notice. */
            if (arg->has_initial || (run->has_guards && task->lanes == 0))
                pto_tensor_info_fill(&infos[k], arg->initial);
            pto_add_output(&args, &infos[k]);
        } else {
            *given = check_given_tensor(run, arg);
            pto_args_add(&args, given, (enum pto_tag)arg->tag);
        }
    }
    for (uint32_t i = 0; i < task->scalar_count; i++)
        pto_add_scalar(&args, check_task_scalar(t, i));
    for (uint32_t i = 0; i < task->dep_count; i++) {
        deps[i].raw = run->tasks[task->deps[i].task].id;
        kinds[i] = task->deps[i].kind;
    }
    if (task->dep_count != 0)
        pto_set_deps(&args, deps, task->has_kinds ? kinds : NULL, task->dep_count);
    if (task->kind != CHECK_ALLOC)
        set_launch(t, &args, &predicate, &operand);
    if (task->kind == CHECK_ALLOC)
        out = pto_alloc_tensors(o, &args);
    else if (task->kind == CHECK_DUMMY)
        out = pto_submit_dummy(o, &args);
    else if (task->lanes == CHECK_LANE_AIC)
        out = pto_submit_aic(o, kernel_id(t, 0), &args);
    else if (task->lanes == CHECK_LANE_AIV0)
        out = pto_submit_aiv(o, kernel_id(t, 1), &args);
    else
        out =
            pto_submit_mix(o, PTO_LANES(kernel_id(t, 0), kernel_id(t, 1), kernel_id(t, 2)), &args);
    free(deps);
    free(kinds);
    if (pto_orch_status(o) >= 0)
        take_outputs(run, t, &out);
}

static void do_accesses(struct pto_orch *o, struct check_run *run, const struct check_run_task *t)
{
    const struct check_task *task = &run->g->tasks[t->index];

    for (uint32_t k = 0; k < task->access_count; k++) {
        const struct check_access *access = &task->accesses[k];
        const struct check_element *e = &access->element;
        uint64_t expected = run->oracle->got[t->first_access + k];
        struct pto_tensor tensor;
        uint64_t got;

        if (!check_does_access(access, run->is_held))
            continue;
        tensor = check_element_tensor(run, e);
        if (access->is_set) {
            pto_set_data(o, &tensor, e->ndims, e->indices, access->bits);
            continue;
        }
        got = pto_get_data(o, &tensor, e->ndims, e->indices);
        if (got != expected && pto_orch_status(o) >= 0)
            check_find(run->findings, t->index, -1,
                       "access %" PRIu32 " before task %" PRIu32 " got %#" PRIx64 ", not %#" PRIx64,
                       k, t->index, got, expected);
    }
}

void check_orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    struct check_run *run = (struct check_run *)(uintptr_t)entry->scalar[0];
    const struct check_graph *g = run->g;
    uint32_t scope = 0;

    if (pto_cluster_count(o) != g->clusters || pto_aiv_count(o) != PTO_CLUSTER_AIVS * g->clusters)
        check_find(run->findings, -1, -1, "the device has %" PRIu32 " clusters, not %" PRIu32,
                   pto_cluster_count(o), g->clusters);
    for (uint32_t i = 0; i < g->task_count && pto_orch_status(o) >= 0; i++) {
        const struct check_task *task = &g->tasks[i];

        for (; !scope_holds(g, scope, task->scope); scope = (uint32_t)g->scopes[scope].parent)
            pto_scope_end(o);
        open_scopes(o, g, scope, task->scope);
        scope = task->scope;
        for (uint32_t k = 0; k < task->empty_scopes; k++) {
            pto_scope_begin(o, task->is_manual ? PTO_SCOPE_MANUAL : PTO_SCOPE_AUTO);
            pto_scope_end(o);
        }
        do_accesses(o, run, &run->tasks[i]);
        submit_task(o, run, &run->tasks[i]);
    }
    for (; g->scopes[scope].parent >= 0; scope = (uint32_t)g->scopes[scope].parent)
        pto_scope_end(o);
    __atomic_store_n(&run->is_built, true, __ATOMIC_RELAXED);
}

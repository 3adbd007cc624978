/* SPDX-License-Identifier: Apache-2.0 */
/* The orchestration that submits a random graph and checks what the submits return. */
#include <inttypes.h>
#include <stdlib.h>

#include "tool/check/check_trial.h"

static bool scope_holds(const struct check_graph *g, uint32_t outer, uint32_t inner)
{
    int32_t s = (int32_t)inner;

    while (s >= 0 && (uint32_t)s != outer)
        s = g->scopes[s].parent;
    return s >= 0;
}

static void open_scopes(const struct check_scoping *s, const struct check_graph *g, uint32_t from,
                        uint32_t to)
{
    if (from == to)
        return;
    open_scopes(s, g, from, (uint32_t)g->scopes[to].parent);
    s->begin(s->context, g->scopes[to].is_manual ? PTO_SCOPE_MANUAL : PTO_SCOPE_AUTO);
}

uint32_t check_change_scope(const struct check_scoping *s, const struct check_graph *g,
                            uint32_t from, uint32_t to)
{
    for (; !scope_holds(g, from, to); from = (uint32_t)g->scopes[from].parent)
        s->end(s->context);
    open_scopes(s, g, from, to);
    return to;
}

void check_enter_scope(const struct check_scoping *s, const struct check_graph *g, uint32_t task,
                       uint32_t *scope)
{
    *scope = check_change_scope(s, g, *scope, g->tasks[task].scope);
    for (uint32_t k = 0; k < g->tasks[task].empty_scopes; k++) {
        s->begin(s->context, g->tasks[task].is_manual ? PTO_SCOPE_MANUAL : PTO_SCOPE_AUTO);
        s->end(s->context);
    }
}

/* Returns the descriptor of a region, as the orchestration would get it by making views. */
static struct pto_tensor check_orch_place_tensor(const struct check_run *run, int32_t creator,
                                                 uint32_t output, const struct check_region *r)
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

struct pto_tensor check_make_tensor(const struct check_run *run, const struct check_arg *arg)
{
    return check_orch_place_tensor(run, arg->creator, arg->output, &arg->region);
}

struct pto_tensor check_element_tensor(const struct check_run *run, const struct check_element *e)
{
    return check_orch_place_tensor(run, e->creator, e->output, &e->region);
}

static void judge_id(struct check_run *run, const struct check_run_task *t)
{
    uint32_t depth = run->g->scopes[run->g->tasks[t->index].scope].depth;
    uint32_t ring = depth < CHECK_RINGS ? depth : CHECK_RINGS - 1;
    struct pto_task_id id = { t->id };
    uint32_t local = pto_task_id_local(id);

    if (pto_task_id_ring(id) != ring || local != run->ring_count[ring])
        check_find(run->findings, t->index, -1,
                   "a task id is %#" PRIx64 ", not ring %u and number %u", t->id, ring,
                   run->ring_count[ring]);
    run->ring_count[ring] = local + 1;
}

void check_record_outputs(const struct check_run *run, struct check_run_task *t,
                          const struct pto_outputs *out)
{
    const struct check_task *task = &run->g->tasks[t->index];
    uint32_t count = 0;
    const char *fault;

    t->id = out->task.raw;
    t->is_submitted = true;
    for (uint32_t k = 0; k < task->arg_count; k++) {
        struct pto_tensor *given = &run->given[t->first_arg + k];

        if (task->args[k].tag != PTO_TAG_OUTPUT || count++ >= out->count)
            continue;
        *given = out->tensor[count - 1];
        fault = check_tensor_error(given, &task->args[k].region);
        if (fault != NULL)
            check_find(run->findings, t->index, -1, "a submit returned an output with wrong %s",
                       fault);
        if (given->owner.raw != out->task.raw)
            check_find(run->findings, t->index, -1,
                       "an output's owner is not the task that made it");
    }
    if (count != out->count)
        check_find(run->findings, t->index, -1, "a submit returned %u outputs, not %u", out->count,
                   count);
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

void check_submit_init(struct check_submit *s, const struct check_run *run,
                       const struct check_run_task *t)
{
    const struct check_task *task = &run->g->tasks[t->index];
    uint32_t count = 0;

    s->deps = check_alloc(NULL, task->dep_count, sizeof(*s->deps));
    s->kinds = check_alloc(NULL, task->dep_count, sizeof(*s->kinds));
    pto_args_init(&s->args);
    for (uint32_t k = 0; k < task->arg_count; k++) {
        const struct check_arg *arg = &task->args[k];
        struct pto_tensor *given = &run->given[t->first_arg + k];

        if (arg->tag == PTO_TAG_OUTPUT) {
            s->infos[k] = pto_tensor_info_make(arg->region.shapes, arg->region.ndims,
                                               (enum pto_dtype)arg->region.dtype);
            s->infos[k].manual_dep = arg->region.manual_dep;
            s->infos[k].version = arg->region.version;
            /*
             * fills outputs that no kernel writes, because guards report reads of memory without
             * contents
             */
            if (arg->has_initial || (run->has_guards && task->lanes == 0))
                pto_tensor_info_fill(&s->infos[k], arg->initial);
            pto_add_output(&s->args, &s->infos[k]);
        } else {
            *given = check_make_tensor(run, arg);
            pto_args_add(&s->args, given, (enum pto_tag)arg->tag);
        }
    }
    for (uint32_t i = 0; i < task->scalar_count; i++)
        pto_add_scalar(&s->args, check_task_scalar(t, i));
    for (uint32_t i = 0; i < task->dep_count; i++) {
        if (!run->tasks[task->deps[i].task].is_submitted)
            continue; /* the run has failed, so the predecessor was not submitted */
        s->deps[count].raw = run->tasks[task->deps[i].task].id;
        s->kinds[count++] = task->deps[i].kind;
    }
    if (count != 0)
        pto_set_deps(&s->args, s->deps, task->has_kinds ? s->kinds : NULL, count);
}

void check_submit_fini(struct check_submit *s)
{
    free(s->deps);
    free(s->kinds);
}

static void check_orch_submit_task(struct pto_orch *o, struct check_run *run,
                                   struct check_run_task *t)
{
    const struct check_task *task = &run->g->tasks[t->index];
    struct check_submit s;
    struct pto_predicate predicate;
    struct pto_tensor operand;
    struct pto_outputs out;

    check_submit_init(&s, run, t);
    if (task->kind != CHECK_ALLOC)
        set_launch(t, &s.args, &predicate, &operand);
    if (task->kind == CHECK_ALLOC)
        out = pto_alloc_tensors(o, &s.args);
    else if (task->kind == CHECK_DUMMY)
        out = pto_submit_dummy(o, &s.args);
    else if (task->lanes == CHECK_LANE_AIC)
        out = pto_submit_aic(o, kernel_id(t, 0), &s.args);
    else if (task->lanes == CHECK_LANE_AIV0)
        out = pto_submit_aiv(o, kernel_id(t, 1), &s.args);
    else
        out = pto_submit_mix(o, PTO_LANES(kernel_id(t, 0), kernel_id(t, 1), kernel_id(t, 2)),
                             &s.args);
    check_submit_fini(&s);
    if (pto_orch_status(o) < 0)
        return;
    check_record_outputs(run, t, &out);
    judge_id(run, t);
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
                       "access %u before task %u got %#" PRIx64 ", not %#" PRIx64, k, t->index, got,
                       expected);
    }
}

static void check_orch_begin_scope(void *context, enum pto_scope_mode mode)
{
    pto_scope_begin((struct pto_orch *)context, mode);
}

static void check_orch_end_scope(void *context)
{
    pto_scope_end((struct pto_orch *)context);
}

void check_orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    struct check_run *run = (struct check_run *)(uintptr_t)entry->scalar[0];
    const struct check_scoping scoping = { check_orch_begin_scope, check_orch_end_scope, o };
    const struct check_graph *g = run->g;
    uint32_t scope = 0;

    if (pto_cluster_count(o) != g->clusters || pto_aiv_count(o) != PTO_CLUSTER_AIVS * g->clusters)
        check_find(run->findings, -1, -1, "the device has %u clusters, not %u",
                   pto_cluster_count(o), g->clusters);
    for (uint32_t i = 0; i < g->task_count && pto_orch_status(o) >= 0; i++) {
        check_enter_scope(&scoping, g, i, &scope);
        do_accesses(o, run, &run->tasks[i]);
        check_orch_submit_task(o, run, &run->tasks[i]);
    }
    (void)check_change_scope(&scoping, g, scope, 0);
    __atomic_store_n(&run->is_built, true, __ATOMIC_RELAXED);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operations, the builder's part of a run, and the failures of a run. */
#include "orch/orch.h"

#include <string.h>

#include "orch/built_graph.h"
#include "port/trace.h"

static int scope_begin(struct pto_orch *handle, enum pto_scope_mode mode,
                       const struct pto_site *site);
static int scope_end(struct pto_orch *handle);
static int report(struct pto_orch *handle, int status, const char *text);
static int status_of(struct pto_orch *handle);
static uint32_t cluster_count(struct pto_orch *handle);
static uint32_t aiv_count(struct pto_orch *handle);
static uint64_t scalar(struct pto_orch *handle, uint32_t index);
static uint64_t scalar_at(struct pto_orch *handle, uint32_t index, const struct pto_site *site);
static bool is_streamed(struct pto_orch *handle);
static void *context_of(struct pto_orch *handle);
static int listen_outside(struct pto_orch *handle);
static void trace_scope(struct orch *o, bool is_end);
static int submit_watched(struct pto_orch *handle, const struct pto_kernels *kernels,
                          const struct pto_args *args, const struct pto_site *site,
                          struct pto_outputs *out);
static int submit_stamped(struct pto_orch *handle, const struct pto_kernels *kernels,
                          const struct pto_args *args, const struct pto_site *site,
                          struct pto_outputs *out);

/* The tables of operations are equal except for the submit function. */
#define OPERATIONS(submit_fn)                                                                      \
    {                                                                                              \
        .size = sizeof(struct pto_orch_ops), .submit = (submit_fn), .alloc = orch_alloc,           \
        .scope_begin = scope_begin, .scope_end = scope_end, .report = report, .status = status_of, \
        .cluster_count = cluster_count, .aiv_count = aiv_count, .get_data = orch_get_data,         \
        .set_data = orch_set_data, .scalar = scalar, .is_streamed = is_streamed,                   \
        .scalar_at = scalar_at, .context = context_of, .listen = listen_outside,                   \
    }

static const struct pto_orch_ops streamed_ops = OPERATIONS(orch_submit_streamed);
static const struct pto_orch_ops counted_ops = OPERATIONS(orch_submit_counted);
static const struct pto_orch_ops watched_ops = OPERATIONS(submit_watched);
static const struct pto_orch_ops stamped_ops = OPERATIONS(submit_stamped);

#undef OPERATIONS

/* ---- begin and end of a run ---- */

void orch_each_pool(struct orch *o, void (*each)(struct pool *pool, uint64_t share, void *context),
                    void *context)
{
    for (uint32_t i = 0; i < ORCH_LISTS; i++)
        each(&o->list_pool[i], 1, context);
    each(&o->write_set.pool, 1, context);
}

void orch_open(struct orch *o)
{
    o->handle.ops = &streamed_ops;
}

static int orch_start_graph(struct orch *o, const struct orch_run *run)
{
    struct graph_params params = { .kernels = run->kernels,
                                   .kernel_count = run->kernel_count,
                                   .deps = run->options->deps,
                                   .edge_fn = run->options->edge,
                                   .edge_context = run->options->edge_context,
                                   .wired_fn = run->wired_fn,
                                   .wired_context = run->wired_context,
                                   .entry = run->entry,
                                   .clusters = o->clusters,
                                   .has_guards = run->has_guards };

    if (run->graph != NULL && !run->is_built_only) {
        if (built_graph_start(run->graph, o, &params) >= 0 && run->recorder.launched != NULL)
            run->recorder.launched(run->recorder.context, run->graph);
        return o->status;
    }
    if (run->graph != NULL && built_graph_record(run->graph, o, &params) < 0)
        return o->status;
    return graph_start(o->graph, &params) < 0 ? orch_refuse(o, PTO_ENOMEM, NULL, NULL, NULL)
                                              : PTO_OK;
}

/*
 * Chooses the table of operations. Stores the pointer only if it differs, because a thread that
 * still has the handle of an earlier run may be reading it.
 */
static void choose_ops(struct orch *o)
{
    const struct pto_orch_ops *ops =
        o->ledger == NULL && !o->is_held ? &streamed_ops : &counted_ops;

    o->submit = ops->submit;
    if (o->run->options->task != NULL || o->run->recorder.submitted != NULL ||
        o->run->recorder.mark != NULL)
        ops = &watched_ops;
    else if (o->run->recorder.stamps != NULL)
        ops = &stamped_ops;
    if (o->handle.ops != ops)
        o->handle.ops = ops;
}

/*
 * Starts the ledger of the reference's rings. It is needed only if a ring has a size, or if a
 * recorder asks how full the rings are.
 */
static int start_ledger(struct orch *o)
{
    const struct pto_run_options *options = o->run->options;
    struct ledger_limits limits = { .is_reference = options->limits == PTO_LIMITS_REFERENCE,
                                    .is_held = options->mode == PTO_MODE_HOST };

    limits.is_measured = o->run->recorder.scope != NULL && !limits.is_held;
    if (orch_is_noted(o) || (!o->run->has_rings && !limits.is_reference && !limits.is_measured))
        return PTO_OK;
    for (uint32_t ring = 0; ring < GRAPH_RINGS; ring++) {
        limits.window[ring] = (uint32_t)options->rings.task_window[ring];
        limits.heap[ring] = options->rings.heap[ring];
        limits.dep_pool[ring] = (uint32_t)options->rings.dep_pool[ring];
    }
    if (ledger_start(o->rings, &limits) < 0)
        return orch_refuse(o, PTO_ENOMEM, NULL, NULL, NULL);
    o->ledger = o->rings;
    return PTO_OK;
}

void orch_reset(struct orch *o)
{
    o->status = PTO_OK;
    o->failure.status = PTO_OK;
    o->stall.count = 0;
}

int orch_start(struct orch *o, const struct orch_run *run)
{
    o->run = run;
    o->quota = 0;
    o->polled_at = 0;
    o->is_listening = false;
    o->ledger = NULL;
    o->is_held = run->options->mode == PTO_MODE_HOST || run->is_built_only;
    o->submitter = o->sched->worker[0];
    o->is_shared = o->sched->worker_count > 1;
    if (orch_start_graph(o, run) < 0)
        return o->status;
    if (start_ledger(o) < 0)
        return o->status;
    choose_ops(o);
    return PTO_OK;
}

static void call_orchestration(struct orch *o)
{
    struct failure thrown = orch_failure(PTO_EORCH, FAILURE_EXCEPTION, NULL);
    const struct orch_run *run = o->run;
    enum guard_result result = GUARD_RETURNED;

    if (run->guard == NULL)
        run->function(&o->handle, run->entry);
    else
        result = run->guard(run->function, &o->handle, run->entry, thrown.text);
    if (result == GUARD_EXITED)
        thrown.kind = FAILURE_EXITED;
    if (result != GUARD_RETURNED)
        (void)orch_fail(o, &thrown);
}

/*
 * Reports a scope to the recorder. Called after the innermost scope has begun, and before it ends.
 */
static void trace_scope(struct orch *o, bool is_end)
{
    struct graph *g = o->graph;
    struct orch_scope record;

    if (o->run->recorder.scope == NULL || o->ledger == NULL || o->is_held)
        return;
    record = (struct orch_scope){ .depth = g->scope_count - 1, .ring = g->ring, .is_end = is_end };
    if (o->is_shared)
        sched_collect(o->sched, g);
    record.site = g->scope[g->scope_count - 1].site;
    ledger_measure(o->ledger, g, g->ring, &record.use);
    o->run->recorder.scope(o->run->recorder.context, &record);
}

/* Runs the orchestration inside the run's outermost scope. */
void orch_build(void *arg)
{
    struct orch *o = arg;
    struct graph *g = o->graph;

    (void)scope_begin(&o->handle, PTO_SCOPE_AUTO, NULL);
    call_orchestration(o);
    if (g->scope_count > 1) {
        struct failure why =
            orch_failure(PTO_EARGS, FAILURE_SCOPES_OPEN, g->scope[g->scope_count - 1].site);

        why.value[0] = g->scope_count - 1;
        (void)orch_fail(o, &why);
    }
    while (g->scope_count > 0) {
        trace_scope(o, true);
        (void)graph_scope_end(g);
        if (o->ledger != NULL)
            ledger_scope_end(o->ledger);
    }
    if (o->status < 0 && o->is_held && o->run->is_whole_only)
        /* completes the submitted tasks without running them */
        sched_attend(o->sched, ATTEND_FAILED, 0);
}

int orch_end(struct orch *o, uint64_t executions)
{
    orch_take_fault(o);
    /* relaxed: read after the run has ended */
    if ((a32_load_relaxed(&o->sched->attention) & ATTEND_CANCELLED) != 0) {
        struct failure why = orch_failure(PTO_ECANCELED, FAILURE_CANCELLED, NULL);

        why.value[0] = executions;
        why.value[1] = o->graph->seq - 1;
        (void)orch_fail(o, &why);
    }
    if (o->status == PTO_ETIMEOUT) {
        o->failure.value[3] = executions;
        o->failure.value[4] = o->graph->seq - 1;
    }
    return o->status;
}

/* ---- failures of a run ---- */

int orch_fail(struct orch *o, const struct failure *why)
{
    if (o->status < 0)
        return o->status;
    o->failure = *why;
    o->failure.scope_depth = o->graph->scope_count > 0 ? o->graph->scope_count - 1 : 0;
    o->status = why->status;
    o->quota = 0; /* makes the next submit check the run's status */
    return why->status;
}

static void copy_text(char *to, const char *from, const char *otherwise)
{
    size_t length = 0;

    if (from == NULL)
        from = otherwise;
    while (length < FAILURE_TEXT - 1 && from[length] != '\0') {
        to[length] = from[length];
        length++;
    }
    to[length] = '\0';
}

static int32_t orch_first_kernel(const struct pto_kernels *kernels)
{
    return kernels->aic >= 0 ? kernels->aic : kernels->aiv0 >= 0 ? kernels->aiv0 : kernels->aiv1;
}

int orch_refuse(struct orch *o, int status, const struct pto_kernels *kernels,
                const struct pto_args *args, const struct pto_site *site)
{
    const struct graph_refusal *r = &o->graph->refusal;
    struct failure why = orch_failure(status, r->kind, site);

    why.argument = r->argument;
    why.value[0] = r->value;
    if (kernels != NULL)
        why.kernel = orch_first_kernel(kernels);
    if (r->kind == FAILURE_KERNEL || r->kind == FAILURE_CORE_TYPE)
        why.kernel = (int32_t)r->value;
    if (r->kind == FAILURE_ARGS_ERROR && args != NULL)
        copy_text(why.text, args->error, "not initialised with pto_args_init");
    failure_add_refusal(&why, args, o->run->entry);
    if (r->kind == FAILURE_SCOPE_ENDED) {
        copy_text(why.text, r->scope != NULL ? r->scope->file : NULL, "");
        why.value[1] = r->scope != NULL ? (uint64_t)r->scope->line : 0;
        why.value[2] = r->creator;
        /* index of the refused task, which had already got its number */
        why.value[3] = args != NULL ? o->graph->seq - 2 : 0;
        why.value[4] = args != NULL ? args->tensor_count : 0;
    }
    if (status == PTO_ENOMEM) {
        why.kind = FAILURE_MEMORY;
        why.argument = -1;
        why.value[0] = o->budget->max;
        why.value[1] = o->budget->refused;
        why.value[2] = o->graph->seq;
        why.value[3] = o->graph->live;
    }
    return orch_fail(o, &why);
}

void orch_take_fault(struct orch *o)
{
    const struct sched_fault *fault = &o->sched->fault;
    struct failure why;
    int status;

    if (a32_load_acquire(&fault->is_whole) == 0 || o->status < 0) /* A21 */
        return;
    status = (int)a32_load_relaxed(&fault->status); /* A21 orders it */
    why =
        orch_failure(status, status == PTO_ECRASH ? FAILURE_CRASH : FAILURE_ENDED_RUN, fault->site);
    why.task = fault->task;
    why.kernel = (int32_t)fault->kernel;
    why.value[0] = fault->addr;
    why.value[1] = fault->block;
    why.value[2] = fault->seq - 1;
    why.value[3] = fault->lane;
    why.value[4] = (uint64_t)fault->signal;
    if (fault->kind != FAILURE_NONE) {
        why.kind = fault->kind;
        why.argument = fault->argument;
        why.value[1] = fault->value[0];
        why.value[3] = fault->value[1];
    }
    if (fault->kind == FAILURE_THREW)
        memcpy(why.text, fault->text, sizeof(why.text));
    (void)orch_fail(o, &why);
}

/*
 * Finds the slot of the last submit. Its contents are unchanged, because only a later submit can
 * reuse it.
 */
const struct slot *orch_last_submit(const struct orch *o)
{
    const struct graph *g = o->graph;

    for (uint32_t i = 1; i < g->info_count; i++) {
        const struct slot *s = graph_slot(g, g->info[i].line);

        if (s->seq == g->seq - 1)
            return s;
    }
    return NULL;
}

void orch_crashed(struct orch *o, int signal, uint64_t addr, uint32_t scalar_beyond, bool is_torn)
{
    const struct slot *s = is_torn ? NULL : orch_last_submit(o);
    struct failure why = orch_failure(PTO_ECRASH, FAILURE_CRASH, s != NULL ? s->site : NULL);

    if (s != NULL)
        why.task = slot_id(s);
    why.value[0] = scalar_beyond != 0 ? o->run->entry->scalar_count : addr;
    why.value[1] = scalar_beyond;
    why.value[2] = o->graph->seq - 1;
    why.value[3] = is_torn;
    why.value[4] = (uint64_t)signal;
    (void)orch_fail(o, &why);
    sched_attend(o->sched, ATTEND_FAILED, 0);
}

/*
 * Called by the builder when the time of the run is over. If the builder has long waited for memory
 * that kernels do not free, reports the kernels as the reason, else the graph that is still being
 * built. No edges are added during the report, because this thread leads the run.
 */
static void late_in_builder(struct orch *o)
{
    if (o->status < 0 || o->is_held || !sharing_waits_in_vain(&o->sharing, port_now_ns())) {
        orch_late_building(o);
        return;
    }
    orch_describe_stall(o, false);
    sched_attend(o->sched, ATTEND_FAILED, 0);
}

void orch_attend(struct orch *o)
{
    /* relaxed: a late value is harmless */
    uint32_t attention = a32_load_relaxed(&o->sched->attention);
    struct failure why;

    if ((attention & ATTEND_CANCELLED) != 0) {
        why = orch_failure(PTO_ECANCELED, FAILURE_CANCELLED_EARLY, NULL);
        (void)orch_fail(o, &why);
    }
    if ((attention & ATTEND_FAILED) != 0)
        orch_take_fault(o);
    if ((attention & ATTEND_LATE) != 0)
        late_in_builder(o);
    if ((attention & ATTEND_TEAMS) != 0 && o->submitter->core_mask != 0)
        port_cores_yield(o->machine, o->submitter);
    if (o->status < 0)
        port_poll_failed(o->machine);
}

struct failure orch_late(const struct orch *o, const struct pto_site *site)
{
    struct failure why = orch_failure(
        PTO_ETIMEOUT, o->run->is_from_launch ? FAILURE_LATE_SINCE_LAUNCH : FAILURE_LATE, site);

    why.value[0] = o->run->time_ns;
    return why;
}

void orch_late_building(struct orch *o)
{
    struct failure why = orch_late(o, NULL);

    why.value[1] = STALL_BUILDS;
    (void)orch_fail(o, &why);
    sched_attend(o->sched, ATTEND_FAILED, 0);
}

/* ---- scopes and queries ---- */

static int scope_begin(struct pto_orch *handle, enum pto_scope_mode mode,
                       const struct pto_site *site)
{
    struct orch *o = orch_of(handle);
    int status = orch_enter(handle);

    if (status < 0)
        return status;
    status = graph_scope_begin(o->graph, mode, site);
    if (status >= 0 && o->ledger != NULL)
        ledger_scope_begin(o->ledger);
    if (status >= 0)
        trace_scope(o, false);
    return status < 0 ? orch_refuse(o, status, NULL, NULL, site) : PTO_OK;
}

static int scope_end(struct pto_orch *handle)
{
    struct orch *o = orch_of(handle);
    int status = orch_enter(handle);

    if (status < 0)
        return status;
    if (o->graph->scope_count <= 1) /* not counted: the outermost scope belongs to the run */
        return orch_refuse(o, graph_refuse(o->graph, FAILURE_SCOPE_UNDERFLOW, -1, 0), NULL, NULL,
                           NULL);
    trace_scope(o, true);
    if (o->ledger != NULL)
        ledger_scope_end(o->ledger);
    return graph_scope_end(o->graph);
}

static int report(struct pto_orch *handle, int status, const char *text)
{
    int entered = orch_enter(handle);
    struct failure why;

    if (entered < 0)
        return entered;
    why = orch_failure(status < 0 ? status : PTO_EORCH, FAILURE_GAVE_UP, NULL);
    copy_text(why.text, text, "no reason given");
    return orch_fail(orch_of(handle), &why);
}

static int status_of(struct pto_orch *handle)
{
    int status = orch_enter(handle);

    return status < 0 ? status : orch_polled(orch_of(handle), 1);
}

static int listen_outside(struct pto_orch *handle)
{
    struct orch *o = orch_of(handle);
    int status = orch_enter(handle);

    if (status < 0)
        return status;
    o->is_listening = true;
    status = orch_run_some(o);
    o->is_listening = false;
    return status;
}

int orch_run_some(struct orch *o)
{
    if (o->is_held)
        return o->status;
    port_poll(o->machine);
    if (orch_has_news(o))
        orch_attend(o);
    return o->status;
}

static uint32_t cluster_count(struct pto_orch *handle)
{
    return orch_of(handle)->clusters;
}

static uint32_t aiv_count(struct pto_orch *handle)
{
    return 2 * orch_of(handle)->clusters;
}

static uint64_t scalar_at(struct pto_orch *handle, uint32_t index, const struct pto_site *site)
{
    struct orch *o = orch_of(handle);

    if (orch_enter(handle) < 0)
        return 0;
    if (index >= o->run->entry->scalar_count) {
        (void)graph_refuse(o->graph, FAILURE_PASSED, (int32_t)o->run->entry->scalar_count, index);
        (void)orch_refuse(o, PTO_EARGS, NULL, NULL, site);
        return 0;
    }
    if (o->run->graph != NULL && built_graph_note_scalar(o->run->graph, o, index, site) < 0)
        return 0;
    return o->run->entry->scalar[index];
}

static uint64_t scalar(struct pto_orch *handle, uint32_t index)
{
    return scalar_at(handle, index, NULL);
}

static bool is_streamed(struct pto_orch *handle)
{
    return orch_enter(handle) >= 0 && !orch_of(handle)->is_held;
}

static void *context_of(struct pto_orch *handle)
{
    return orch_of(handle)->run->context;
}

/* The submit function of a run with an observer or a recorder. */
static int submit_watched(struct pto_orch *handle, const struct pto_kernels *kernels,
                          const struct pto_args *args, const struct pto_site *site,
                          struct pto_outputs *out)
{
    struct orch *o = orch_of(handle);
    const struct orch_recorder *recorder;
    uint64_t begin = port_cycles();
    int status;

    if (!orch_is_builder(o))
        return PTO_EINVAL;
    recorder = &o->run->recorder;
    if (recorder->mark != NULL)
        recorder->mark(recorder->context, o->graph->seq - 1, args);
    status = o->submit(handle, kernels, args, site, out);
    if (status >= 0) {
        /* the latest task: seq is the number of the next one */
        const struct pto_task_view view = { .index = o->graph->seq - 2,
                                            .task = out->task,
                                            .kernels = *kernels,
                                            .args = args,
                                            .site = site,
                                            .entry = o->run->entry };

        if (o->run->options->task != NULL)
            o->run->options->task(o->run->options->task_context, &view);
        if (recorder->submitted != NULL)
            recorder->submitted(recorder->context,
                                &(struct orch_submitted){ .view = &view,
                                                          .out = out,
                                                          .is_manual = o->graph->is_manual,
                                                          .begin = begin,
                                                          .end = port_cycles() });
    }
    return status;
}

/* The submit function of a run in which only the time of each submit is recorded. */
static int submit_stamped(struct pto_orch *handle, const struct pto_kernels *kernels,
                          const struct pto_args *args, const struct pto_site *site,
                          struct pto_outputs *out)
{
    struct orch *o = orch_of(handle);
    int status = o->submit(handle, kernels, args, site, out);
    struct orch_stamps *stamps = o->run->recorder.stamps;
    uint32_t index = o->graph->seq - 2;

    if (status >= 0 && (__builtin_expect(index < stamps->max, 1) ||
                        o->run->recorder.stamps_grow(o->run->recorder.context, index))) {
        stamps->at[index] = port_cycles();
        stamps->count = index + 1ull; /* nothing is stored for allocations, so their times stay 0 */
    }
    return status;
}

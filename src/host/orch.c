/* SPDX-License-Identifier: Apache-2.0 */
/* What an orchestration can do, and what it is told when it cannot. */

#include "base/os.h"
#include "graph/submit.h"
#include "host/host.h"

static int op_submit(struct pto_orch *o, const struct pto_kernels *kernels,
                     const struct pto_args *args, const struct pto_site *site,
                     struct pto_outputs *out);
static int op_alloc(struct pto_orch *o, const struct pto_args *args, const struct pto_site *site,
                    struct pto_outputs *out);
static int op_scope_begin(struct pto_orch *o, enum pto_scope_mode mode,
                          const struct pto_site *site);
static int op_scope_end(struct pto_orch *o);
static int op_report(struct pto_orch *o, int status, const char *text);
static int op_status(struct pto_orch *o);
static uint32_t op_cluster_count(struct pto_orch *o);
static uint32_t op_aiv_count(struct pto_orch *o);
static int op_get_data(struct pto_orch *o, const struct pto_tensor *tensor, uint32_t ndims,
                       const uint32_t indices[], const struct pto_site *site, uint64_t *bits_out);
static int op_set_data(struct pto_orch *o, const struct pto_tensor *tensor, uint32_t ndims,
                       const uint32_t indices[], const struct pto_site *site, uint64_t bits);
static uint64_t op_scalar(struct pto_orch *o, uint32_t index);
static bool op_is_streamed(struct pto_orch *o);

const struct pto_orch_ops orch_ops = {
    .size = sizeof(struct pto_orch_ops),
    .submit = op_submit,
    .alloc = op_alloc,
    .scope_begin = op_scope_begin,
    .scope_end = op_scope_end,
    .report = op_report,
    .status = op_status,
    .cluster_count = op_cluster_count,
    .aiv_count = op_aiv_count,
    .get_data = op_get_data,
    .set_data = op_set_data,
    .scalar = op_scalar,
    .is_streamed = op_is_streamed,
};

static int watch_submit(struct pto_orch *o, const struct pto_kernels *kernels,
                        const struct pto_args *args, const struct pto_site *site,
                        struct pto_outputs *out);

const struct pto_orch_ops orch_ops_watched = {
    .size = sizeof(struct pto_orch_ops),
    .submit = watch_submit,
    .alloc = op_alloc,
    .scope_begin = op_scope_begin,
    .scope_end = op_scope_end,
    .report = op_report,
    .status = op_status,
    .cluster_count = op_cluster_count,
    .aiv_count = op_aiv_count,
    .get_data = op_get_data,
    .set_data = op_set_data,
    .scalar = op_scalar,
    .is_streamed = op_is_streamed,
};

static const struct pto_outputs no_outputs = { { PTO_TASK_ID_INVALID }, 0, NULL };

#define ADMISSION_NS 500000000ull

static int refuse_graph(struct run *run, int status, const struct pto_kernels *kernels,
                        const struct pto_args *args, const struct pto_site *site);
static int refuse_submit(struct run *run, const struct pto_kernels *kernels,
                         const struct pto_args *args, const struct pto_site *site,
                         struct pto_outputs *out);

static struct orch_handle *handle_of(struct pto_orch *o)
{
    return (struct orch_handle *)(void *)o;
}

/* The run is over early, or a team waits for the cores of the thread that builds. */
static void attend(struct run *run)
{
    struct sched *sched = run->chip->sched;
    uint32_t attention = a32_load_relaxed(&sched->attention); /* being late is harmless */

    if ((attention & ATTEND_CANCELLED) != 0)
        (void)run_fail(run, PTO_ECANCELED, NULL, "the run was cancelled while its graph was built");
    if ((attention & ATTEND_FAILED) != 0)
        run_report_fault(run);
    if ((attention & ATTEND_LATE) != 0 && run->status == PTO_OK) {
        (void)run_fail(run, PTO_ETIMEOUT, NULL,
                       "the run has not ended after %llu ms: the graph is still being built "
                       "(sub_class=S5)",
                       (unsigned long long)(run->options.timeout_ns / 1000000));
        sched_attend(sched, ATTEND_FAILED, 0);
    }
    if ((attention & ATTEND_TEAMS) != 0 && run->submitter->core_mask != 0)
        port_cores_yield(sched->machine, run->submitter);
}

/* Only the orchestration itself may call, while it runs: not a kernel, not another thread. */
static inline bool is_builder(struct pto_orch *o)
{
    /* A thread knows its own stores. */
    return aptr_load_relaxed(&handle_of(o)->chip->builder) == __builtin_thread_pointer();
}

/* Whether somebody wants the submitter's attention. */
static inline bool has_news(const struct run *run)
{
    return a32_load_relaxed(&run->chip->sched->attention) != 0; /* being late is harmless */
}

/* The status of the run, after what there was to see to. */
static inline int look_up(struct run *run)
{
    if (a32_load_relaxed(&run->chip->sched->attention) != 0)
        attend(run);
    return run->status;
}

static inline int enter(struct pto_orch *o, struct run **run_out)
{
    if (!is_builder(o))
        return PTO_EINVAL;
    *run_out = handle_of(o)->run;
    return look_up(*run_out);
}

static void call_orchestration(struct run *run, struct pto_orch *o)
{
    const struct callable *callable = run->callable;
    char text[PTO_ERROR_TEXT_MAX / 2];

    if (callable->guard == NULL)
        callable->orchestration(o, &run->entry_seen);
    else if (callable->guard(callable->orchestration, o, &run->entry_seen, text, sizeof(text)) != 0)
        run_fail(run, PTO_EORCH, NULL, "the orchestration threw an exception: %s", text);
}

/* On the builder's stack: the orchestration, inside the run's own scope. */
void orch_build(void *arg)
{
    struct run *run = arg;
    struct pto_orch *o = &run->device->orch.orch;

    (void)op_scope_begin(o, PTO_SCOPE_AUTO, NULL);
    call_orchestration(run, o);
    if (run->status == PTO_OK && run->graph->scope_count > 1)
        run_fail(run, PTO_EARGS, run->graph->scope[run->graph->scope_count - 1].site,
                 "the orchestration returned with %u scopes open; end each scope that it begins",
                 run->graph->scope_count - 1);
    while (run->graph->scope_count > 0) {
        (void)graph_scope_end(run->graph);
        if (run->ledger != NULL)
            ledger_scope_end(run->ledger);
    }
}

/* ---- operations of the orchestration ---- */

/* ---- the reference's limits, if there are any ---- */

static int refuse_ledger(struct run *run, int status, const struct pto_site *site)
{
    const struct ledger_refusal *r = &run->ledger->refusal;
    unsigned long long needed = r->needed, size = r->size;
    const char *why = r->is_structural ? "a scope that is open holds its oldest task"
                                       : "nothing came back of it for 500 ms";

    switch (status) {
    case PTO_ESCOPE_DEADLOCK:
        return run_fail(
            run, status, site,
            "the scope has %u tasks, and ring %u has room for %llu; end scopes earlier, or "
            "raise ring_task_window",
            r->scope_tasks, r->ring, size);
    case PTO_EWINDOW:
        return run_fail(
            run, status, site,
            "ring %u has room for %llu tasks and no more: %s (task %u); end scopes earlier, "
            "or raise ring_task_window",
            r->ring, size, why, r->head);
    case PTO_EHEAP:
        return run_fail(run, status, site,
                        "ring %u has no %llu bytes in its heap of %llu: %s (task %u); end scopes "
                        "earlier, or raise ring_heap",
                        r->ring, needed, size, why, r->head);
    case PTO_EDEP_POOL:
        return run_fail(run, status, site,
                        "the task needs %llu entries for predecessors, and ring %u has %llu: %s; "
                        "give it fewer predecessors, or raise ring_dep_pool",
                        needed, r->ring, size, why);
    default:
        return run_fail(
            run, status, site,
            "%s: %llu are needed, and the reference has room for %llu (limits=reference)",
            pto_strerror(status), needed, size);
    }
}

/* Whether the rings have room for the task, in the end. */
static int admit(struct run *run, const struct pto_args *args, const struct pto_site *site)
{
    struct ledger *ledger = run->ledger;
    const struct ledger_refusal *r = &ledger->refusal;
    uint64_t deadline = 0, progress = 0;
    bool is_late = false;
    int status;

    for (;;) {
        if (run->is_shared)
            sched_collect(run->chip->sched, run->graph);
        status = ledger_admit(ledger, run->graph, args);
        if (status != PTO_EAGAIN)
            break;
        if (deadline == 0 || r->progress != progress) {
            progress = r->progress;
            deadline = os_now_ns() + ADMISSION_NS;
            is_late = false;
        }
        if (is_late) { /* it was asked once more */
            status = r->status;
            break;
        }
        is_late = run->chip->ops->wait(run->chip, r->wait_slot, r->wait_seq, deadline) < 0;
        if (a32_load_relaxed(&run->chip->sched->attention) != 0) /* being late is harmless */
            attend(run);
        if (run->status < 0)
            return run->status;
    }
    return status < 0 ? refuse_ledger(run, status, site) : PTO_OK;
}

static int enter_in_ledger(struct run *run, const struct pto_args *args,
                           const struct pto_site *site, const struct pto_outputs *out)
{
    const struct id_entry *id = ids_find(run->graph, out->task);
    int status = ledger_commit(run->ledger, run->graph, args, out->task, id->slot, id->seq);

    if (status == PTO_EREADY)
        return refuse_ledger(run, status, site);
    return status < 0 ? refuse_graph(run, status, NULL, args, site) : PTO_OK;
}

/* How many submits may follow before something else is to be looked at. */
static void set_quota(struct run *run)
{
    const struct graph *g = run->graph;
    uint32_t quota = sharing_quota(&run->chip->sharing, run->submitter);

    if (quota > UINT32_MAX - g->seq)
        quota = UINT32_MAX - g->seq;
    run->quota = run->is_plain && run->status == PTO_OK && quota <= INT32_MAX ? (int32_t)quota : 0;
}

/* A submit before which something is to be done, or whose task is kept or counted. */
__attribute__((noinline)) static int submit_carefully(struct run *run,
                                                      const struct pto_kernels *kernels,
                                                      const struct pto_args *args,
                                                      const struct pto_site *site,
                                                      struct pto_outputs *out)
{
    struct graph *g = run->graph;
    struct slot *ready;
    int status = look_up(run);

    if (status < 0)
        return status;
    if (sharing_wants_builder(&run->chip->sharing, run->submitter))
        run->chip->ops->room(run->chip);
    else if (run->is_shared && run->quota < 0)
        sched_collect(run->chip->sched, g);
    if (run->ledger != NULL) {
        status = admit(run, args, site);
        if (status < 0)
            return status;
    }
    status = graph_submit(g, kernels, args, site, out, &ready);
    if (status < 0)
        return refuse_submit(run, kernels, args, site, out);
    if (run->ledger != NULL && enter_in_ledger(run, args, site, out) < 0)
        *out = no_outputs; /* the run fails, but the task is there and has to go on */
    if (run->quota < 0)
        set_quota(run);
    if (run->is_built_only)
        return PTO_OK; /* its predicate is looked at in each launch */
    if (ready != NULL && run->options.mode == PTO_MODE_HOST)
        sched_push(run->submitter, ready); /* what its predicate looks at may still be set */
    else if (ready != NULL)
        sched_ready(run->submitter, ready);
    return run->status;
}

__attribute__((cold, noinline)) static int refuse_submit(struct run *run,
                                                         const struct pto_kernels *kernels,
                                                         const struct pto_args *args,
                                                         const struct pto_site *site,
                                                         struct pto_outputs *out)
{
    *out = no_outputs;
    return refuse_graph(run, graph_refusal_status(run->graph), kernels, args, site);
}

/* The compiler makes a function of its own for each form of task. */
__attribute__((always_inline)) static inline int submit_as(struct run *run,
                                                           const struct pto_kernels *kernels,
                                                           const struct pto_args *args,
                                                           const struct pto_site *site,
                                                           struct pto_outputs *out, enum form form)
{
    struct graph *g = run->graph;
    struct slot *ready = graph_submit_as(g, kernels, args, site, out, form);

    if (ready == SUBMIT_SLOWLY)
        return submit_carefully(run, kernels, args, site, out);
    if (form != FORM_BARE && ready == SUBMIT_REFUSED)
        return refuse_submit(run, kernels, args, site, out);
    return ready != NULL ? sched_push_line(run->submitter, graph_slot_line(g, ready)) : PTO_OK;
}

#define SUBMIT_AS(name, form)                                                            \
    __attribute__((noinline)) static int name(                                           \
        struct run *run, const struct pto_kernels *kernels, const struct pto_args *args, \
        const struct pto_site *site, struct pto_outputs *out)                            \
    {                                                                                    \
        return submit_as(run, kernels, args, site, out, form);                           \
    }
SUBMIT_AS(submit_bare, FORM_BARE)
SUBMIT_AS(submit_single, FORM_SINGLE)
SUBMIT_AS(submit_plain, FORM_PLAIN)
#undef SUBMIT_AS

static int op_submit(struct pto_orch *o, const struct pto_kernels *kernels,
                     const struct pto_args *args, const struct pto_site *site,
                     struct pto_outputs *out)
{
    struct run *run;

    if (!is_builder(o))
        return PTO_EINVAL;
    run = handle_of(o)->run;
    if (--run->quota < 0 || has_news(run))
        return submit_carefully(run, kernels, args, site, out);
    switch (form_of(kernels, args)) {
    case FORM_BARE:
        return submit_bare(run, kernels, args, site, out);
    case FORM_SINGLE:
        return submit_single(run, kernels, args, site, out);
    case FORM_PLAIN:
        return submit_plain(run, kernels, args, site, out);
    case FORM_UNUSUAL:
        break;
    }
    return submit_carefully(run, kernels, args, site, out);
}

/* A submit that somebody watches. */
static int watch_submit(struct pto_orch *o, const struct pto_kernels *kernels,
                        const struct pto_args *args, const struct pto_site *site,
                        struct pto_outputs *out)
{
    int status = op_submit(o, kernels, args, site, out);

    if (status >= 0) {
        const struct run *run = handle_of(o)->run;
        const struct pto_task_view view = { .index = run->graph->seq - 2, /* seq is the next one */
                                            .task = out->task,
                                            .kernels = *kernels,
                                            .args = args,
                                            .site = site,
                                            .entry = &run->entry };

        run->options.task(run->options.task_context, &view);
    }
    return status;
}

static int op_alloc(struct pto_orch *o, const struct pto_args *args, const struct pto_site *site,
                    struct pto_outputs *out)
{
    struct run *run;
    int status = enter(o, &run);

    if (status < 0)
        return status;
    if (run->ledger != NULL) {
        status = admit(run, args, site);
        if (status < 0)
            return status;
    }
    status = graph_alloc(run->graph, args, out);
    if (status < 0) {
        *out = no_outputs;
        return refuse_graph(run, status, NULL, args, site);
    }
    if (run->ledger != NULL && enter_in_ledger(run, args, site, out) < 0)
        *out = no_outputs;
    return run->status;
}

static int op_scope_begin(struct pto_orch *o, enum pto_scope_mode mode, const struct pto_site *site)
{
    struct run *run;
    int status = enter(o, &run);

    if (status < 0)
        return status;
    status = graph_scope_begin(run->graph, mode, site);
    if (status >= 0 && run->ledger != NULL)
        ledger_scope_begin(run->ledger);
    return status < 0 ? refuse_graph(run, status, NULL, NULL, site) : PTO_OK;
}

static int op_scope_end(struct pto_orch *o)
{
    struct run *run;
    int status = enter(o, &run);

    if (status < 0)
        return status;
    if (run->graph->scope_count <= 1) /* the last one is the run's own */
        return run_fail(run, PTO_EARGS, NULL,
                        "a scope was ended that was never begun; match pto_scope_begin and "
                        "pto_scope_end");
    if (run->ledger != NULL)
        ledger_scope_end(run->ledger);
    return graph_scope_end(run->graph);
}

static int op_report(struct pto_orch *o, int status, const char *text)
{
    struct run *run;
    int entered = enter(o, &run);

    if (entered < 0)
        return entered;
    return run_fail(run, status < 0 ? status : PTO_EORCH, NULL, "the orchestration gave up: %s",
                    text != NULL ? text : "no reason given");
}

static int op_status(struct pto_orch *o)
{
    struct run *run;

    return enter(o, &run);
}

static uint32_t op_cluster_count(struct pto_orch *o)
{
    return handle_of(o)->chip->clusters;
}

static uint32_t op_aiv_count(struct pto_orch *o)
{
    return PTO_CLUSTER_AIVS * handle_of(o)->chip->clusters;
}

static uint64_t op_scalar(struct pto_orch *o, uint32_t index)
{
    struct run *run;

    if (enter(o, &run) < 0 || index >= run->entry.scalar_count)
        return 0;
    if (run->relaunch != NULL)
        relaunch_note_scalar(run->relaunch, index);
    return run->entry.scalar[index];
}

static bool op_is_streamed(struct pto_orch *o)
{
    struct run *run;

    return enter(o, &run) >= 0 && run->options.mode == PTO_MODE_STREAM && !run->is_built_only;
}

/* ---- single elements ---- */

/* Waits until the element may be read, or written; *at_out is NULL if it has no storage. */
static int reach_element(struct run *run, const struct pto_tensor *tensor, uint32_t ndims,
                         const uint32_t indices[], const struct pto_site *site, bool is_write,
                         struct pto_tensor *element, void **at_out)
{
    struct graph *g = run->graph;
    uint64_t deadline =
        os_now_ns() + (run->options.data_timeout_ns != 0 ? run->options.data_timeout_ns
                                                         : PTO_DATA_TIMEOUT_DEFAULT_NS);
    bool is_held = run->options.mode == PTO_MODE_HOST || run->is_built_only;
    /* Under the reference's rules nobody waits for readers before anything runs. */
    bool with_readers = is_write && !(is_held && g->deps == PTO_DEPS_SIMPLER);
    uint32_t number = 0;
    uint32_t seq;
    int status;

    *at_out = NULL;
    if (tensor != NULL && tensor->addr == 0 && g->deps == PTO_DEPS_SIMPLER)
        return PTO_OK;
    status = graph_element(g, tensor, ndims, indices, FAULT_DATA, element);
    if (status >= 0 && tensor->addr == 0)
        status = graph_refuse(g, FAULT_DATA, -1, DATA_ADDRESS);
    if (status >= 0 && is_held && pto_task_id_is_valid(tensor->owner))
        status = graph_refuse(g, FAULT_DATA, -1, DATA_OWNED);
    while (status >= 0) {
        number = graph_find_user(g, element, with_readers, number + 1, &seq);
        if (number == 0)
            break;
        status = is_held ? graph_refuse(g, FAULT_DATA, -1, DATA_HELD)
                         : run->chip->ops->wait(run->chip, number, seq, deadline);
        if (a32_load_relaxed(&run->chip->sched->attention) != 0) /* being late is harmless */
            attend(run);
        if (run->status < 0)
            return run->status;
    }
    if (status == PTO_ETIMEOUT)
        return run_fail(
            run, PTO_ETENSOR_WAIT, site,
            "task %u, which uses the element, did not complete in %llu ms; if its "
            "kernel waits for the orchestration, pass the tensor as NO_DEP",
            seq - 1,
            (unsigned long long)((run->options.data_timeout_ns != 0 ? run->options.data_timeout_ns
                                                                    : PTO_DATA_TIMEOUT_DEFAULT_NS) /
                                 1000000));
    if (status < 0)
        return refuse_graph(run, status, NULL, NULL, site);
    *at_out = pto_tensor_data(element);
    return run->status;
}

static int op_get_data(struct pto_orch *o, const struct pto_tensor *tensor, uint32_t ndims,
                       const uint32_t indices[], const struct pto_site *site, uint64_t *bits_out)
{
    struct pto_tensor element;
    struct run *run;
    void *at;
    int status = enter(o, &run);

    if (status < 0)
        return status;
    status = reach_element(run, tensor, ndims, indices, site, false, &element, &at);
    *bits_out = 0;
    if (status < 0 || at == NULL)
        return status;
    memcpy(bits_out, at, pto_dtype_size(element.dtype)); /* both systems are little-endian */
    if (run->relaunch != NULL)
        relaunch_note_read(run->relaunch, (uint64_t)(uintptr_t)at, pto_dtype_size(element.dtype),
                           *bits_out);
    return PTO_OK;
}

static int op_set_data(struct pto_orch *o, const struct pto_tensor *tensor, uint32_t ndims,
                       const uint32_t indices[], const struct pto_site *site, uint64_t bits)
{
    struct pto_tensor element;
    struct run *run;
    void *at;
    int status = enter(o, &run);

    if (status < 0)
        return status;
    status = reach_element(run, tensor, ndims, indices, site, true, &element, &at);
    if (status < 0 || at == NULL)
        return status;
    memcpy(at, &bits, pto_dtype_size(element.dtype));
    if (run->relaunch != NULL)
        relaunch_note_write(run->relaunch, (uint64_t)(uintptr_t)at, pto_dtype_size(element.dtype),
                            bits);
    return PTO_OK;
}

static const char *data_fault(uint64_t fault)
{
    static const char *const text[] = {
        [DATA_TENSOR] = "it is not a valid tensor",
        [DATA_NDIMS] = "there are more indices than dimensions, or they are NULL",
        [DATA_INDEX] = "an index is beyond the shape, or the view beyond its buffer",
        [DATA_OPERATOR] = "the comparison does not exist; use one of enum pto_predicate_op",
        [DATA_ADDRESS] = "it has no storage: its address is 0",
        [DATA_HELD] = "the graph is built before anything runs (PTO_MODE_HOST), and a submitted "
                      "task uses it; read and write it before, or stream the graph",
        [DATA_OWNED] = "the graph is built before anything runs (PTO_MODE_HOST), so only memory "
                       "from outside has contents; stream the graph",
    };

    return fault < sizeof(text) / sizeof(text[0]) ? text[fault] : "unknown reason";
}

static const char *view_fault(uint64_t fault)
{
    static const char *const text[] = {
        [PTO_VIEW_OK] = "it was never initialised",
        [PTO_VIEW_BAD_NDIMS] = "a tensor has 1 to 5 dimensions",
        [PTO_VIEW_BAD_DTYPE] = "its data type does not exist",
        [PTO_VIEW_OUT_OF_RANGE] = "offset + shape exceeds the parent tensor",
        [PTO_VIEW_STRIDED] = "only a contiguous tensor can be reshaped",
        [PTO_VIEW_NUMEL] = "the new shape has another number of elements",
        [PTO_VIEW_BAD_DIM] = "a dimension does not exist or is named twice",
        [PTO_VIEW_TOO_LARGE] = "a stride does not fit 32 bits",
        [PTO_VIEW_ZERO_STRIDE] = "a stride is 0",
        [PTO_VIEW_BAD_STEP] = "a slice needs a step above 0 and an end not before its start",
    };

    return fault < sizeof(text) / sizeof(text[0]) ? text[fault] : "unknown reason";
}

/* What the graph refused, as a sentence with what to do about it. */
static int refuse_graph(struct run *run, int status, const struct pto_kernels *kernels,
                        const struct pto_args *args, const struct pto_site *site)
{
    const struct graph_refusal *r = &run->graph->refusal;
    struct pto_error *error = &run->report.error;
    unsigned long long value = r->value;

    if (kernels != NULL)
        error->kernel = kernels->aic >= 0    ? kernels->aic
                        : kernels->aiv0 >= 0 ? kernels->aiv0
                                             : kernels->aiv1;
    error->argument = r->argument;
    switch (r->fault) {
    case FAULT_ARGS_ERROR:
        return run_fail(run, status, site, "invalid task arguments: %s",
                        args->error != NULL ? args->error : "not initialised with pto_args_init");
    case FAULT_TAG:
        return run_fail(run, status, site, "argument %d has the unknown tag %llu", r->argument,
                        value);
    case FAULT_VIEW:
        return run_fail(run, status, site, "argument %d is not a valid view: %s", r->argument,
                        view_fault(value));
    case FAULT_BOUNDS:
        return run_fail(run, status, site,
                        "argument %d reaches to byte %llu of a buffer that is smaller; check its "
                        "start, shapes and strides",
                        r->argument, value);
    case FAULT_NULL_ADDRESS:
        return run_fail(run, status, site, "argument %d has no storage: its address is 0",
                        r->argument);
    case FAULT_INFO:
        return run_fail(run, status, site,
                        "argument %d is a new output without a valid shape or data type; use "
                        "pto_tensor_info_make with 1 to 5 dimensions",
                        r->argument);
    case FAULT_TOO_LARGE:
        return run_fail(run, status, site,
                        "the outputs of one task take %llu bytes; the most is 2^40", value);
    case FAULT_KERNEL:
        error->kernel = (int32_t)value;
        return run_fail(
            run, status, site, "there is no kernel %llu; callable \"%s\" has %u of them", value,
            run->callable->kernel_name[run->callable->kernel_count], run->callable->kernel_count);
    case FAULT_CORE_TYPE:
        error->kernel = (int32_t)value;
        return run_fail(run, status, site,
                        "kernel %llu (\"%s\") is for the other core type; submit it with "
                        "pto_submit_%s",
                        value, run->callable->kernel_name[value],
                        pto_core_name(run->callable->kernel[value].core_type));
    case FAULT_BLOCK_COUNT:
        return run_fail(run, status, site,
                        "a task cannot have %lld blocks; at least 1, and with its lanes at most "
                        "2^30; initialise arguments with pto_args_init",
                        (long long)value);
    case FAULT_GANG:
        error->argument = -1;
        return run_fail(run, status, site,
                        "%llu blocks that start together never fit: this device has room for %d; "
                        "use pto_cluster_count or pto_aiv_count, or do without sync_start",
                        value, r->argument);
    case FAULT_PREDICATE:
        return run_fail(run, status, site, "the predicate's operand cannot be read: %s",
                        data_fault(value));
    case FAULT_TIMING_SLOT:
        return run_fail(run, status, site, "timing slot %llu is not one of 0 to %d", value,
                        PTO_TIMING_SLOTS - 1);
    case FAULT_PASSED:
        error->argument = -1;
        return run_fail(run, status, site,
                        "scalar %llu of the entry was passed on, but the entry has %d of them",
                        value, r->argument);
    case FAULT_DATA:
        return run_fail(run, status, site, "the element cannot be reached: %s", data_fault(value));
    case FAULT_DEP_INVALID:
        return run_fail(run, status, site,
                        "dependency %llu is the invalid task id; leave it out, or check the "
                        "submit that it came from",
                        value);
    case FAULT_DEP_UNKNOWN:
        return run_fail(run, status, site,
                        "dependency %llu names a task that was never submitted in this run", value);
    case FAULT_DEP_KIND:
        return run_fail(run, status, site,
                        "dependency %llu has an unknown kind; use PTO_DEP_WAIT and PTO_DEP_RETAIN",
                        value);
    case FAULT_SCOPE_DEPTH:
        return run_fail(run, status, site, "scopes are nested deeper than %d", PTO_SCOPE_DEPTH_MAX);
    case FAULT_SCOPE_MODE:
        return run_fail(run, status, site,
                        "a scope has the unknown mode %llu; use PTO_SCOPE_AUTO or PTO_SCOPE_MANUAL",
                        value);
    case FAULT_AUTO_IN_MANUAL:
        return run_fail(run, status, site,
                        "an AUTO scope cannot be opened inside a MANUAL one; make the inner one "
                        "MANUAL too");
    case FAULT_SCOPE_UNDERFLOW:
        return run_fail(run, status, site, "a scope was ended that was never begun");
    case FAULT_ALLOC_ARGS:
        return run_fail(run, status, site,
                        "pto_alloc_tensors takes at least one new output and nothing else");
    case FAULT_SCOPE_ENDED:
        return run_fail(run, status, site,
                        "argument %d was created in a scope that has ended, and its memory is "
                        "gone; use it inside that scope, or create it in an outer one",
                        r->argument);
    case FAULT_TOO_MANY:
        return run_fail(run, status, site, "more than 2^32 tasks in one run; split it");
    case FAULT_MEMORY:
    case FAULT_NONE:
        break;
    }
    return run_fail(run, status, site,
                    "the device's memory budget of %llu MiB is exhausted: %llu more bytes were "
                    "needed at task %u in scope %u (%u tasks live); raise memory_max of the "
                    "device, or end scopes earlier",
                    (unsigned long long)(run->chip->memory->max >> 20),
                    (unsigned long long)run->chip->memory->refused, run->graph->seq,
                    run->graph->scope_count > 0 ? run->graph->scope_count - 1 : 0,
                    run->graph->live);
}

void orch_refuse_start(struct run *run, int status)
{
    (void)refuse_graph(run, status, NULL, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The submit function of orchestrations: housekeeping first, then the task itself (graph/submit.h),
 * then the hand-over of a ready task to a worker.
 *
 * Most runs are streamed and have no limits. In such a run only every so many submits (set_quota)
 * are preceded by housekeeping. Runs whose graph is complete before anything runs, or whose rings
 * have sizes, admit and count their tasks one by one.
 */
#include "orch/submission.h"

#include "orch/built_graph.h"

/* if no task completes and no kernel runs for this long while a ring is full, the submit fails */
#define ADMISSION_NS 500000000ull

static const struct pto_outputs no_outputs = { { PTO_TASK_ID_INVALID }, 0, NULL };

static int submit_housekeeping(struct orch *o, const struct pto_site *site);
static void set_quota(struct orch *o);
static int admit(struct orch *o, const struct pto_args *args, const struct pto_site *site);
static int enter_in_ledger(struct orch *o, const struct pto_args *args, const struct pto_site *site,
                           const struct pto_outputs *out);

/* ---- submits of streamed runs ---- */

__attribute__((cold, noinline)) static int submission_refuse(struct orch *o,
                                                             const struct pto_kernels *kernels,
                                                             const struct pto_args *args,
                                                             const struct pto_site *site,
                                                             struct pto_outputs *out)
{
    *out = no_outputs;
    return orch_refuse(o, graph_refusal_status(o->graph), kernels, args, site);
}

/*
 * Called when graph_submit_as has stopped: a slot or an id has to be allocated first, or the task
 * is invalid.
 */
__attribute__((cold, noinline)) static int submit_slow(struct orch *o,
                                                       const struct pto_kernels *kernels,
                                                       const struct pto_args *args,
                                                       const struct pto_site *site,
                                                       struct pto_outputs *out)
{
    struct submitted s = graph_submit_slow(o->graph, kernels, args, site, out);

    return s.end == SUBMIT_REFUSED ? submission_refuse(o, kernels, args, site, out)
                                   : orch_hand_over(o, s);
}

/* The compiler generates one function for each form of task. */
#define SUBMIT_AS(name, form)                                                           \
    __attribute__((noinline)) static int name(                                          \
        struct orch *o, const struct pto_kernels *kernels, const struct pto_args *args, \
        const struct pto_site *site, struct pto_outputs *out)                           \
    {                                                                                   \
        struct submitted s = graph_submit_as(o->graph, kernels, args, site, out, form); \
                                                                                        \
        if (s.end == SUBMIT_STOPPED)                                                    \
            return submit_slow(o, kernels, args, site, out);                            \
        if ((form) != FORM_NO_TENSOR && s.end == SUBMIT_REFUSED)                        \
            return submission_refuse(o, kernels, args, site, out);                      \
        return orch_hand_over(o, s);                                                    \
    }
SUBMIT_AS(submit_no_tensor, FORM_NO_TENSOR)
SUBMIT_AS(submit_one_tensor, FORM_ONE_TENSOR)
SUBMIT_AS(submit_simple, FORM_SIMPLE)
#undef SUBMIT_AS

static int submit_general(struct orch *o, const struct pto_kernels *kernels,
                          const struct pto_args *args, const struct pto_site *site,
                          struct pto_outputs *out)
{
    struct submitted s = graph_submit_general(o->graph, kernels, args, site, out);

    if (s.end == SUBMIT_REFUSED)
        return submission_refuse(o, kernels, args, site, out);
    if (s.end == SUBMIT_READY)
        sched_ready(o->submitter, s.slot);
    return PTO_OK;
}

/* Submits a task with the function for its form; the form is determined here, once. */
static inline int submit_task(struct orch *o, const struct pto_kernels *kernels,
                              const struct pto_args *args, const struct pto_site *site,
                              struct pto_outputs *out)
{
    switch (form_of(kernels, args)) {
    case FORM_NO_TENSOR:
        return submit_no_tensor(o, kernels, args, site, out);
    case FORM_ONE_TENSOR:
        return submit_one_tensor(o, kernels, args, site, out);
    case FORM_SIMPLE:
        return submit_simple(o, kernels, args, site, out);
    case FORM_ONE_TENSOR_IN_REGISTERS:
    case FORM_GENERAL:
        break;
    }
    return submit_general(o, kernels, args, site, out);
}

/* A separate function, so that the usual path of orch_submit_streamed saves no registers. */
__attribute__((noinline)) static int submit_after_housekeeping(struct orch *o,
                                                               const struct pto_kernels *kernels,
                                                               const struct pto_args *args,
                                                               const struct pto_site *site,
                                                               struct pto_outputs *out)
{
    int status = submit_housekeeping(o, site);

    return status < 0 ? status : submit_task(o, kernels, args, site, out);
}

int orch_submit_streamed(struct pto_orch *handle, const struct pto_kernels *kernels,
                         const struct pto_args *args, const struct pto_site *site,
                         struct pto_outputs *out)
{
    struct orch *o = orch_of(handle);

    if (!orch_is_builder(o))
        return PTO_EINVAL;
    if (--o->quota < 0 || orch_has_news(o))
        return submit_after_housekeeping(o, kernels, args, site, out);
    return submit_task(o, kernels, args, site, out);
}

/*
 * Housekeeping before the next task: ends the run, runs tasks if there is no room, and takes back
 * finished slots.
 */
static int submit_housekeeping(struct orch *o, const struct pto_site *site)
{
    struct graph *g = o->graph;

    if (orch_has_news(o))
        orch_attend(o);
    if (o->status < 0) {
        o->quota = 0; /* makes each further submit take this path as well */
        return o->status;
    }
    if (g->seq == UINT32_MAX)
        return orch_refuse(o, graph_refuse(g, FAILURE_TOO_MANY, -1, 0), NULL, NULL, site);
    if (!o->is_held && sharing_wants_builder(&o->sharing, o->submitter))
        port_room(o->machine);
    else if (o->is_shared && o->quota < 0)
        sched_collect(o->sched, g);
    if (o->quota < 0)
        set_quota(o);
    return o->status;
}

/* Sets how many submits may follow the next one until housekeeping is due. */
static void set_quota(struct orch *o)
{
    uint32_t quota = sharing_quota(&o->sharing, o->submitter);
    uint32_t most = UINT32_MAX - o->graph->seq;

    quota = quota < most ? quota : most;
    o->quota = quota == 0 ? 0 : quota - 1 <= INT32_MAX ? (int32_t)(quota - 1) : INT32_MAX;
}

/* ---- submits of runs with limits or without streaming ---- */

/*
 * Whether recorders of later launches need more of a submit than its arguments, such as its
 * explicit dependencies or its predicate.
 */
static inline bool states_orders(const struct orch *o, const struct pto_args *args)
{
    return (args->dep_count != 0 || args->predicate != NULL || args->allow_early_resolve ||
            o->graph->is_manual) &&
           (o->run->elsewhere == NULL || o->run->elsewhere->has_orders);
}

int orch_submit_counted(struct pto_orch *handle, const struct pto_kernels *kernels,
                        const struct pto_args *args, const struct pto_site *site,
                        struct pto_outputs *out)
{
    struct orch *o = orch_of(handle);
    struct slot *ready;
    int status;

    if (!orch_is_builder(o))
        return PTO_EINVAL;
    o->quota = -1;
    status = submit_housekeeping(o, site);
    if (status >= 0 && o->ledger != NULL)
        status = admit(o, args, site);
    if (status < 0)
        return status;
    if (graph_submit(o->graph, kernels, args, site, out, &ready) < 0)
        return submission_refuse(o, kernels, args, site, out);
    if (o->ledger != NULL && enter_in_ledger(o, args, site, out) < 0)
        *out = no_outputs; /* the run fails, but the task exists and must complete */
    /* mutation: launch-orders */
    if (o->run->graph != NULL && states_orders(o, args))
        built_graph_note_orders(o->run->graph, o, args);
    if (ready == NULL || o->run->is_built_only)
        return o->status; /* in a graph that is kept, each launch evaluates predicates */
    if (o->is_held)
        /* the predicate is evaluated later, because the orchestration may still set its operand */
        sched_push(o->submitter, ready);
    else
        sched_ready(o->submitter, ready);
    return o->status;
}

int orch_alloc(struct pto_orch *handle, const struct pto_args *args, const struct pto_site *site,
               struct pto_outputs *out)
{
    struct orch *o = orch_of(handle);
    int status = orch_enter(handle);

    if (status >= 0 && o->ledger != NULL)
        status = admit(o, args, site);
    if (status < 0)
        return status;
    status = graph_alloc(o->graph, args, out);
    if (status < 0) {
        *out = no_outputs;
        return orch_refuse(o, status, NULL, args, site);
    }
    if (o->ledger != NULL && enter_in_ledger(o, args, site, out) < 0)
        *out = no_outputs;
    return o->status;
}

/* ---- limits of the reference's rings ---- */

static int refuse_ledger(struct orch *o, int status, const struct pto_site *site)
{
    const struct ledger_refusal *r = &o->ledger->refusal;
    struct failure why =
        orch_failure(status, r->is_structural ? FAILURE_RING_HELD : FAILURE_RING, site);

    why.value[0] = r->ring;
    why.value[1] = r->needed;
    why.value[2] = r->size;
    why.value[3] = r->head;
    why.value[4] = r->scope_tasks;
    return orch_fail(o, &why);
}

/*
 * Waits until the rings have room for the task. Returns PTO_OK, or the run's status if they will
 * not have room.
 */
static int admit(struct orch *o, const struct pto_args *args, const struct pto_site *site)
{
    struct ledger *ledger = o->ledger;
    const struct ledger_refusal *r = &ledger->refusal;
    uint64_t deadline = 0, progress = 0;
    bool is_late = false;
    int status;

    for (;;) {
        if (o->is_shared)
            sched_collect(o->sched, o->graph);
        status = ledger_admit(ledger, o->graph, args);
        if (status != PTO_EAGAIN)
            break;
        if (deadline == 0 || r->progress != progress) {
            progress = r->progress;
            deadline = port_now_ns() + ADMISSION_NS;
            is_late = false;
        }
        /* the time was over before the last check, which found no room either */
        if (is_late && !orch_has_running(o)) {
            status = r->status;
            break;
        }
        if (is_late)
            deadline = port_now_ns() + ADMISSION_NS;
        is_late = port_wait(o->machine, r->wait_slot, r->wait_seq, deadline) < 0;
        if (orch_has_news(o))
            orch_attend(o);
        if (o->status < 0)
            return o->status;
    }
    return status < 0 ? refuse_ledger(o, status, site) : PTO_OK;
}

static int enter_in_ledger(struct orch *o, const struct pto_args *args, const struct pto_site *site,
                           const struct pto_outputs *out)
{
    const struct id_entry *id = ids_find(o->graph, out->task);
    int status = ledger_commit(o->ledger, o->graph, args, out->task, id->slot, id->seq);

    if (status == PTO_EREADY)
        return refuse_ledger(o, status, site);
    return status < 0 ? orch_refuse(o, status, NULL, args, site) : PTO_OK;
}

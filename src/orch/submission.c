/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A submit as an orchestration makes it: what is to be seen to before it, the task
 * itself (graph/submit.h), and who gets it when it is ready.
 *
 * Most runs are streamed and without limits. Their submits look at nothing but the
 * task, for as long as their quota lasts. Tasks of other runs, whose graph is complete
 * before anything runs or whose rings have sizes, are admitted and counted one by one.
 */
#include "orch/submission.h"

#include "orch/built_graph.h"

#define ADMISSION_NS 500000000ull /* without anything coming back before a full ring is an error */

static const struct pto_outputs no_outputs = { { PTO_TASK_ID_INVALID }, 0, NULL };

static int see_to_others(struct orch *o, const struct pto_site *site);
static void set_quota(struct orch *o);
static int admit(struct orch *o, const struct pto_args *args, const struct pto_site *site);
static int enter_in_ledger(struct orch *o, const struct pto_args *args, const struct pto_site *site,
                           const struct pto_outputs *out);

/* ---- streamed ---- */

__attribute__((cold, noinline)) static int submission_refuse(struct orch *o,
                                                             const struct pto_kernels *kernels,
                                                             const struct pto_args *args,
                                                             const struct pto_site *site,
                                                             struct pto_outputs *out)
{
    *out = no_outputs;
    return orch_refuse(o, graph_refusal_status(o->graph), kernels, args, site);
}

/* Something has to be made for the task first, or is wrong with it. */
__attribute__((cold, noinline)) static int submit_closely(struct orch *o,
                                                          const struct pto_kernels *kernels,
                                                          const struct pto_args *args,
                                                          const struct pto_site *site,
                                                          struct pto_outputs *out)
{
    struct submitted s = graph_submit_closely(o->graph, kernels, args, site, out);

    return s.end == SUBMIT_REFUSED ? submission_refuse(o, kernels, args, site, out)
                                   : orch_hand_over(o, s);
}

/* The compiler makes a function of its own for each form of task. */
#define SUBMIT_AS(name, form)                                                           \
    __attribute__((noinline)) static int name(                                          \
        struct orch *o, const struct pto_kernels *kernels, const struct pto_args *args, \
        const struct pto_site *site, struct pto_outputs *out)                           \
    {                                                                                   \
        struct submitted s = graph_submit_as(o->graph, kernels, args, site, out, form); \
                                                                                        \
        if (s.end == SUBMIT_STOPPED)                                                    \
            return submit_closely(o, kernels, args, site, out);                         \
        if ((form) != FORM_BARE && s.end == SUBMIT_REFUSED)                             \
            return submission_refuse(o, kernels, args, site, out);                      \
        return orch_hand_over(o, s);                                                    \
    }
SUBMIT_AS(submit_bare, FORM_BARE)
SUBMIT_AS(submit_single, FORM_SINGLE)
SUBMIT_AS(submit_plain, FORM_PLAIN)
#undef SUBMIT_AS

static int submit_unusual(struct orch *o, const struct pto_kernels *kernels,
                          const struct pto_args *args, const struct pto_site *site,
                          struct pto_outputs *out)
{
    struct submitted s = graph_submit_unusual(o->graph, kernels, args, site, out);

    if (s.end == SUBMIT_REFUSED)
        return submission_refuse(o, kernels, args, site, out);
    if (s.end == SUBMIT_READY)
        sched_ready(o->submitter, s.slot);
    return PTO_OK;
}

/* What kind of task it is gets judged here, once. */
static inline int submit_task(struct orch *o, const struct pto_kernels *kernels,
                              const struct pto_args *args, const struct pto_site *site,
                              struct pto_outputs *out)
{
    switch (form_of(kernels, args)) {
    case FORM_BARE:
        return submit_bare(o, kernels, args, site, out);
    case FORM_SINGLE:
        return submit_single(o, kernels, args, site, out);
    case FORM_PLAIN:
        return submit_plain(o, kernels, args, site, out);
    case FORM_LONE:
    case FORM_UNUSUAL:
        break;
    }
    return submit_unusual(o, kernels, args, site, out);
}

/* A function of its own, so that the usual way has nothing to save. */
__attribute__((noinline)) static int submit_after_others(struct orch *o,
                                                         const struct pto_kernels *kernels,
                                                         const struct pto_args *args,
                                                         const struct pto_site *site,
                                                         struct pto_outputs *out)
{
    int status = see_to_others(o, site);

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
        return submit_after_others(o, kernels, args, site, out);
    return submit_task(o, kernels, args, site, out);
}

/* What there is beside the next task: the end of the run, full memory, finished slots. */
static int see_to_others(struct orch *o, const struct pto_site *site)
{
    struct graph *g = o->graph;

    if (orch_has_news(o))
        orch_attend(o);
    if (o->status < 0) {
        o->quota = 0; /* however many more are tried */
        return o->status;
    }
    if (g->seq == UINT32_MAX)
        return orch_refuse(o, graph_refuse(g, FAULT_TOO_MANY, -1, 0), NULL, NULL, site);
    if (!o->is_held && sharing_wants_builder(&o->sharing, o->submitter))
        port_room(o->machine);
    else if (o->is_shared && o->quota < 0)
        sched_collect(o->sched, g);
    if (o->quota < 0)
        set_quota(o);
    return o->status;
}

/* How many more submits there may be, the next one not counted, before there is something to see to. */
static void set_quota(struct orch *o)
{
    uint32_t quota = sharing_quota(&o->sharing, o->submitter);
    uint32_t most = UINT32_MAX - o->graph->seq;

    quota = quota < most ? quota : most;
    o->quota = quota == 0 ? 0 : quota - 1 <= INT32_MAX ? (int32_t)(quota - 1) : INT32_MAX;
}

/* ---- admitted and counted ---- */

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
    status = see_to_others(o, site);
    if (status >= 0 && o->ledger != NULL)
        status = admit(o, args, site);
    if (status < 0)
        return status;
    if (graph_submit(o->graph, kernels, args, site, out, &ready) < 0)
        return submission_refuse(o, kernels, args, site, out);
    if (o->ledger != NULL && enter_in_ledger(o, args, site, out) < 0)
        *out = no_outputs; /* the run fails, but the task is there and has to go on */
    if (ready == NULL || o->run->is_built_only)
        return o->status; /* a predicate of a kept graph is looked at in each launch */
    if (o->is_held)
        sched_push(o->submitter, ready); /* what its predicate looks at may still be set */
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

/* ---- the reference's limits, if there are any ---- */

static int refuse_ledger(struct orch *o, int status, const struct pto_site *site)
{
    const struct ledger_refusal *r = &o->ledger->refusal;
    struct failure why =
        orch_failure(status, r->is_structural ? FAULT_RING_HELD : FAULT_RING, site);

    why.value[0] = r->ring;
    why.value[1] = r->needed;
    why.value[2] = r->size;
    why.value[3] = r->head;
    why.value[4] = r->scope_tasks;
    return orch_fail(o, &why);
}

/* Whether the rings have room for the task, in the end. */
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
        if (is_late) { /* it was asked once more */
            status = r->status;
            break;
        }
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

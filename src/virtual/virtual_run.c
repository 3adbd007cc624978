/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run in virtual time, by the contract of a backend: start prepares the message to the scheduler,
 * a thread of the chip leads the run, wait watches that thread, report returns the result.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/lines.h"
#include "chip/chip.h"
#include "cann/device/scheduler.h"
#include "virtual/virtual.h"

enum { GRAPH_ALIGN = 1024 };

static int virtual_load(struct chip *chip, const struct chip_program *program,
                        struct chip_code **code_out, struct pto_error *error);
static void virtual_unload(struct chip *chip, struct chip_code *code);
static int virtual_start(struct chip *chip, const struct chip_request *request);
static void virtual_wait(struct chip *chip);
static const struct chip_result *virtual_report(struct chip *chip, struct pto_run_report *report);
static int virtual_poll(struct chip *chip);
static void virtual_cancel(struct chip *chip, uint64_t number);
static uint64_t virtual_progress(struct chip *chip);
static void virtual_drop(struct chip *chip, struct chip_graph *graph);

const struct chip_run_ops virtual_run_ops = {
    .load = virtual_load,
    .unload = virtual_unload,
    .start = virtual_start,
    .wait = virtual_wait,
    .report = virtual_report,
    .poll = virtual_poll,
    .cancel = virtual_cancel,
    .progress = virtual_progress,
    .drop = virtual_drop,
    .record = virtual_record,
};

static int virtual_load(struct chip *chip, const struct chip_program *program,
                        struct chip_code **code_out, struct pto_error *error)
{
    (void)chip;
    return local_code_load(program, code_out, error);
}

static void virtual_unload(struct chip *chip, struct chip_code *code)
{
    /* a thread of a lost chip may still execute this code, so it stays loaded */
    if (!virtual_of(chip)->is_lost)
        local_code_unload(code);
}

/* ---- failures that the scheduler does not see ---- */

void virtual_run_fail(struct virtual_chip *v, int status, enum failure_kind kind, const char *text)
{
    v->result.failure = (struct failure){
        .status = status, .kind = kind, .argument = -1, .kernel = -1, .task = pto_task_id_invalid()
    };
    snprintf(v->result.failure.text, FAILURE_TEXT, "%.255s", text);
}

static void virtual_keep_arguments(struct backtrace *t, const struct virtual_start *start)
{
    uint32_t tensors = start->tensor_count < BACKTRACE_ARGS ? start->tensor_count : BACKTRACE_ARGS;
    uint32_t scalars = start->scalar_count < BACKTRACE_ARGS ? start->scalar_count : BACKTRACE_ARGS;

    t->tensor_count = start->tensor_count;
    t->scalar_count = start->scalar_count;
    memcpy(t->tensor, start->tensor, tensors * sizeof(t->tensor[0]));
    memcpy(t->scalar, start->scalar, scalars * sizeof(t->scalar[0]));
}

void virtual_run_keep_crash(struct virtual_chip *v, const struct crash *crash, const void *entry,
                            const struct virtual_start *start)
{
    pthread_mutex_lock(&v->lock);
    if (v->crash_entry == NULL) {
        v->crash_entry = entry;
        v->crash_count = crash->frame_count;
        memcpy(v->crash_frame, crash->frame, sizeof(v->crash_frame));
        v->result.trace.overflow_bytes = crash->overflow_bytes;
        if (start != NULL)
            virtual_keep_arguments(&v->result.trace, start);
    }
    pthread_mutex_unlock(&v->lock);
}

void virtual_run_crashed(struct virtual_chip *v, const struct crash *crash)
{
    virtual_run_keep_crash(v, crash, v->code->own, NULL);
    virtual_run_fail(v, PTO_ECRASH, FAILURE_CRASH, "");
    v->result.failure.value[0] = crash->addr;
    /*
     * 1: the orchestration may have crashed inside of an operation of the runtime
     */
    v->result.failure.value[3] = 1;
    v->result.failure.value[4] = (uint64_t)crash->signal;
    v->result.is_lost = v->result.is_builder_lost = true;
    v->is_lost = true;
}

/* ---- the orchestration ---- */

static int submit_charged(struct pto_orch *o, const struct pto_kernels *kernels,
                          const struct pto_args *args, const struct pto_site *site,
                          struct pto_outputs *out)
{
    struct virtual_chip *v = virtual_clock_here()->chip;

    v->clock->now_ns += v->clock->cost.submit_ns;
    virtual_show_live(v);
    if (v->is_planned_only)
        virtual_time_note(v, args);
    return v->inner->submit(o, kernels, args, site, out);
}

static int alloc_charged(struct pto_orch *o, const struct pto_args *args,
                         const struct pto_site *site, struct pto_outputs *out)
{
    struct virtual_chip *v = virtual_clock_here()->chip;

    v->clock->now_ns += v->clock->cost.submit_ns;
    return v->inner->alloc(o, args, site, out);
}

static int listen_refused(struct pto_orch *o)
{
    return o->ops->report(o, PTO_ENOSUP,
                          "messages from the host come in real time, and this run is in virtual "
                          "time; run it without is_virtual");
}

/* Replaces the callable's orchestration: calls it with operations that advance the clock. */
static void virtual_orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    struct virtual_chip *v = virtual_clock_here()->chip;

    v->inner = o->ops;
    v->ops = *o->ops;
    v->ops.submit = submit_charged;
    v->ops.alloc = alloc_charged;
    v->ops.listen = listen_refused;
    o->ops = &v->ops;
    v->functions->orchestration(o, entry);
}

/* ---- start ---- */

static int set_code(struct virtual_chip *v, const struct chip_functions *f)
{
    if (v->code == NULL || f->kernel_count > v->code_max) {
        struct scheduler_code *code =
            malloc(sizeof(*code) + f->kernel_count * sizeof(code->kernel[0]));

        if (code == NULL)
            return PTO_ENOMEM;
        free(v->code);
        v->code = code;
        v->code_max = f->kernel_count;
    }
    *v->code =
        (struct scheduler_code){ .orchestration = virtual_orchestrate,
                                 .context = f->context,
                                 .own = f->code != NULL ? f->code
                                                        : (const void *)(uintptr_t)f->orchestration,
                                 .guard = f->guard,
                                 .is_simpler = f->is_whole_only,
                                 .kernel_count = f->kernel_count };
    if (f->kernel_count != 0)
        memcpy(v->code->kernel, f->kernels, f->kernel_count * sizeof(v->code->kernel[0]));
    v->functions = f;
    return PTO_OK;
}

/*
 * Resets clock and cores. Every run begins at the same virtual time, or at that of the shared
 * clock.
 */
static void reset_clock(struct virtual_chip *v)
{
    struct virtual_clock *c = v->clock;

    c->now_ns = v->shared.clock != NULL ? shared_clock_time(v->shared.clock, v->shared.member)
                                        : SHARED_CLOCK_BEGIN_NS;
    c->late_count = 0;
    v->has_acted = v->is_held = false;
    for (uint32_t i = 0; i < c->core_count; i++) {
        c->end_ns[i] = VIRTUAL_NEVER;
        a32_store_relaxed(&v->job[i].state, VIRTUAL_NOTHING); /* relaxed: no run is executing */
        v->job[i].is_late = false;
        v->board->hello[i].there = BOARD_HELLO(v->tag, i);
    }
    v->late = 0;
    v->frozen_ns = 0;
    v->crash_entry = NULL;
    v->crash_count = 0;
}

static void write_message(struct virtual_chip *v)
{
    const struct chip_request *request = v->request;
    struct run_message run = chip_message_of(request);
    uint64_t now_ns = os_now_ns();
    struct board_run more = v->room;

    more.left_ns = v->time.deadline_ns == UINT64_MAX ? UINT64_MAX
                   : v->time.deadline_ns > now_ns    ? v->time.deadline_ns - now_ns
                                                     : 0;
    if (more.left_ns != UINT64_MAX && !v->time.is_from_launch)
        /*
         * the time limit counts from the start of the run: real time before the start does not
         * count
         */
        more.left_ns = v->time.ns;
    more.message_room = MESSAGE_BYTES - MESSAGE_ENDED;
    more.tag = v->tag;
    v->still_ns = more.left_ns < request->stall_ns ? more.left_ns : request->stall_ns;
    run.code = (uint64_t)(uintptr_t)v->code;
    run.graph = request->graph != NULL ? request->graph->handle : 0;
    run.options.timeout_ns = v->time.ns;
    memcpy(v->message, &run, sizeof(run));
    if (run.tensor_count != 0) /* memcpy from NULL is undefined, even for 0 bytes */
        memcpy(v->message + MESSAGE_TENSORS, request->entry->tensor,
               run.tensor_count * sizeof(struct pto_tensor));
    if (run.scalar_count != 0)
        memcpy(v->message + MESSAGE_SCALARS, request->entry->scalar,
               run.scalar_count * sizeof(uint64_t));
    memcpy(v->message + MESSAGE_RUN, &more, sizeof(more));
}

static int virtual_start(struct chip *chip, const struct chip_request *request)
{
    struct virtual_chip *v = virtual_of(chip);
    const struct chip_functions *f =
        request->functions != NULL ? request->functions : &request->code->functions;

    if (v->is_lost)
        return PTO_ELOST;
    if (v->shared.clock != NULL &&
        shared_clock_time(v->shared.clock, v->shared.member) == SHARED_CLOCK_NEVER)
        return PTO_EBUSY; /* the host of this rank waits for other ranks */
    v->request = request;
    if (set_code(v, f) < 0 || virtual_time_begin(v) < 0)
        return PTO_ENOMEM;
    v->time = chip_time_of(request);
    v->tag = v->tag % UINT16_MAX + 1;
    v->result = (struct chip_result){ .failure.status = PTO_OK };
    memset(&v->report, 0, sizeof(v->report));
    v->report.workers = 1;
    v->report.core_count = v->clock->core_count;
    reset_clock(v);
    virtual_take_requests(v); /* a cancellation may have arrived before the start of the run */
    pipes_drop(&v->pipes);
    virtual_record_begin(v);
    write_message(v);
    a64_store_relaxed(&v->number, request->number);
    a32_store_relaxed(&v->has_ended, 0); /* relaxed: no thread waits for the run yet */
    v->done_before = a32_load_relaxed(&v->done);
    return PTO_OK;
}

/* ---- the run ---- */

static void virtual_keep_graph(struct virtual_chip *v, uint64_t bytes)
{
    struct chip_graph *graph = calloc(1, sizeof(*graph));
    struct pto_error error;

    pto_error_init(&error);
    if (graph != NULL && bytes <= v->memory_max)
        graph->memory =
            aligned_alloc(GRAPH_ALIGN, (bytes + GRAPH_ALIGN) / GRAPH_ALIGN * GRAPH_ALIGN);
    if (graph == NULL || graph->memory == NULL) {
        virtual_run_fail(v, PTO_ENOMEM, FAILURE_LAUNCH_MEMORY, "");
        v->result.failure.value[0] = bytes;
        v->result.failure.value[1] = v->memory_max;
        free(graph);
        return;
    }
    if (virtual_ask(v, BOARD_KEEP, (uint64_t)(uintptr_t)graph->memory, NULL, 0, &error) < 0) {
        virtual_run_fail(v, error.status, FAILURE_UNSUPPORTED, error.text);
        free(graph->memory);
        free(graph);
        return;
    }
    graph->handle = v->board->answer.value;
    v->result.graph = graph;
}

static void virtual_take_ended(struct virtual_chip *v)
{
    const struct run_ended *ended = (const void *)(v->message + MESSAGE_ENDED);
    const char *names = (const char *)(ended + 1);

    v->result.failure = ended->failure;
    v->result.stall = ended->stall;
    v->result.is_lost = ended->is_lost != 0;
    v->result.is_builder_lost = ended->is_builder_lost != 0;
    v->result.is_kernel_lost = ended->is_kernel_lost != 0;
    v->result.failure.site.file = names[0] != '\0' ? names : NULL;
    for (uint32_t i = 0; i < ended->stall.count; i++)
        v->result.stall.task[i].site.file =
            names[(i + 1) * MESSAGE_NAME] != '\0' ? &names[(i + 1) * MESSAGE_NAME] : NULL;
    v->report = ended->report;
    if (!v->is_recorded)
        /* the run is not recorded: lost records only affect the bounds in virtual_costs.c */
        v->report.records_lost = 0;
    v->is_lost = v->result.is_lost;
}

/* Whether a kernel calls the hooks that report its accesses; a run in virtual time ignores them. */
static bool virtual_has_accesses(const struct chip_request *request)
{
    const struct chip_functions *f =
        request->functions != NULL ? request->functions : &request->code->functions;

    return f->links != NULL;
}

void virtual_run(void *arg)
{
    struct virtual_chip *v = arg;
    struct pto_error error;

    pto_error_init(&error);
    virtual_turn(v);
    if (virtual_has_accesses(v->request)) {
        virtual_run_fail(v, PTO_ENOSUP, FAILURE_UNSUPPORTED,
                         "its kernels report their accesses, which are not checked in virtual "
                         "time; build it without --accesses, or run it without --virtual");
        return;
    }
    if (virtual_ask(v, BOARD_RUN, 0, v->message, MESSAGE_ENDED, &error) < 0) {
        virtual_run_fail(v, error.status, FAILURE_UNSUPPORTED, error.text);
        return;
    }
    virtual_take_ended(v);
    if (v->is_held)
        virtual_run_fail(v, PTO_ETIMEOUT, FAILURE_UNSUPPORTED,
                         "no virtual time has passed for long, because another rank does not "
                         "continue; check what its host does between runs");
    virtual_turn_end(v);
    virtual_time_end(v);
    if (v->request->purpose == CHIP_BUILD && v->result.failure.status >= 0)
        virtual_keep_graph(v, v->board->answer.value);
    virtual_record_end(v);
}

static void virtual_wait(struct chip *chip)
{
    struct virtual_chip *v = virtual_of(chip);

    fiber_start(v->fiber, virtual_run, v);
    if (virtual_threads_lead(v) < 0) {
        virtual_run_fail(v, PTO_ESYSTEM, FAILURE_UNSUPPORTED,
                         "no thread can be started for the run");
    } else if (!virtual_threads_wait(v)) {
        virtual_run_fail(v, PTO_ETIMEOUT, FAILURE_UNSUPPORTED,
                         "the orchestration has computed for too long without calling an "
                         "operation, and was abandoned");
        v->result.is_lost = v->result.is_builder_lost = true;
        v->is_lost = true;
        chip_count_stuck(1);
    }
    a32_store_release(&v->has_ended, 1);
}

/* ---- report ---- */

static const struct chip_result *virtual_report(struct chip *chip, struct pto_run_report *report)
{
    struct virtual_chip *v = virtual_of(chip);

    v->report.size = report->size; /* fields that the host sets, and the chip does not */
    v->report.warning = report->warning;
    v->report.error = report->error;
    *report = v->report;
    if (v->result.failure.kind == FAILURE_CRASH)
        lines_find(v->crash_frame, v->crash_count, v->crash_entry, &v->result.trace.lines);
    return &v->result;
}

static int virtual_poll(struct chip *chip)
{
    return a32_load_acquire(&virtual_of(chip)->has_ended) != 0 ? PTO_RUN_ENDED : PTO_RUN_PENDING;
}

static void virtual_cancel(struct chip *chip, uint64_t number)
{
    struct virtual_chip *v = virtual_of(chip);

    pthread_mutex_lock(&v->lock);
    /* relaxed: `cancelled` changes only under the lock */
    if (number > a64_load_relaxed(&v->cancelled))
        /* relaxed: the leader notices the cancellation at its next check */
        a64_store_relaxed(&v->cancelled, number);
    pthread_mutex_unlock(&v->lock);
    virtual_threads_signal(v);
}

static uint64_t virtual_progress(struct chip *chip)
{
    /* relaxed: the counter publishes no data */
    return a64_load_relaxed(&virtual_of(chip)->progress);
}

static void virtual_drop(struct chip *chip, struct chip_graph *graph)
{
    if (virtual_of(chip)->is_lost)
        return; /* a kernel of a lost chip may not have returned, and may use the graph */
    free(graph->memory);
    free(graph);
}

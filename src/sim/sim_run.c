/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run of the simulated chip, by the contract of a backend: start prepares everything, wait makes
 * the calling thread lead the run at place 0, report returns the result. The threads are in sim.c
 * and sim_threads.c.
 */
#include <stdlib.h>
#include <string.h>

#include "sched/order.h"
#include "sim/sim.h"

static_assert(PTO_ORDER_SUBMITS % ORDER_WAYS == ORDER_OLDEST,
              "PTO_ORDER_SUBMITS runs the oldest task first");

static void set_run(struct sim *m, const struct chip_request *request);
static void begin_run(struct sim *m, uint64_t number);
static uint64_t count_executions(struct sim *m);
static void end_run(struct sim *m);
static void finish_building(struct sim *m);
static void report_cores(struct sim *m, struct pto_run_report *report);
static void report_timing(const struct sim *m, struct pto_run_report *report);

/* ---- start ---- */

int sim_start(struct chip *chip, const struct chip_request *request)
{
    struct sim *m = sim_of(chip);

    if (m->is_lost)
        return PTO_ELOST;
    m->building = NULL;
    if (request->purpose == CHIP_BUILD || request->elsewhere != NULL) {
        m->building = sim_graph_create();
        if (m->building == NULL)
            return PTO_ENOMEM;
    }
    set_run(m, request);
    if (sim_guard_kernels(m, &m->run) < 0) {
        free(m->building);
        m->building = NULL;
        return PTO_ENOMEM;
    }
    sim_guard_scalars(m, &m->run);
    a32_store_relaxed(&m->has_ended, 0);
    begin_run(m, request->number);
    m->result.graph = NULL;
    m->result.is_lost = false;
    orch_reset(&m->orch);
    if (sim_record_begin(m, request->options, &m->run) < 0) {
        struct failure why = orch_failure(PTO_ENOMEM, FAILURE_NO_RECORDER, NULL);

        (void)orch_fail(&m->orch, &why);
        m->is_refused = true;
        return PTO_OK;
    }
    m->is_refused = orch_start(&m->orch, &m->run) < 0;
    return PTO_OK;
}

static void set_run(struct sim *m, const struct chip_request *request)
{
    const struct chip_functions *f =
        request->functions != NULL ? request->functions : &request->code->functions;
    bool is_launch = request->purpose == CHIP_LAUNCH;
    struct chip_time time = chip_time_of(request);

    m->launched = is_launch ? request->graph : NULL;
    m->run = (struct orch_run){
        .function = is_launch ? NULL : f->orchestration,
        .context = f->context,
        .code = f->code != NULL ? f->code : (const void *)(uintptr_t)f->orchestration,
        .guard = f->guard,
        .kernels = f->kernels,
        .kernel_count = f->kernel_count,
        .entry = request->entry,
        .options = request->options,
        .has_rings = request->has_rings,
        .has_guards = is_launch ? request->graph->built.has_guards : request->options->has_guards,
        .is_whole_only = f->is_whole_only,
        .stall_ns = request->stall_ns,
        .time_ns = time.ns,
        .is_from_launch = time.is_from_launch,
        .is_built_only = m->building != NULL,
        .elsewhere = request->elsewhere,
        .graph = is_launch             ? &request->graph->built
                 : m->building != NULL ? &m->building->built
                                       : NULL,
    };
    m->links = f->links;
    m->shown.kernel_name = request->kernel_name;
    m->shown.kernel_name_count = request->kernel_name_count;
    m->image = is_launch ? &request->graph->built.image : NULL;
    m->deadline_ns = time.deadline_ns;
    m->keeps_signals = f->keeps_signals;
    if (!m->keeps_signals)
        /* relaxed: published together with the run's tasks */
        a32_store_relaxed(&m->changes_signals, 1);
    m->on_crash = request->options->trace != PTO_TRACE_OFF ? request->on_crash : NULL;
    m->on_crash_context = request->on_crash_context;
    m->kernel_name = request->kernel_name;
    m->kernel_name_count = request->kernel_name_count;
}

/* Clears the state of the previous run. The new run may have been cancelled before its start. */
static void begin_run(struct sim *m, uint64_t number)
{
    m->takeovers = 0;
    a32_store_relaxed(&m->sleeps, 0);
    a32_store_relaxed(&m->wakes, 0);
    a32_store_relaxed(&m->ticks, 0);
    m->awaited_slot = 0;
    m->is_builder_waiting = false;
    m->is_builder_polling = false;
    m->polled_ns = 0;
    m->is_seeded = false;
    m->lane_executions = 0;
    /* relaxed: published together with the run's tasks */
    a32_store_relaxed(&m->finding, FINDING_NONE);
    m->give_up_ns = 0;
    m->leave_ns = UINT64_MAX;
    m->leave_tries = 0;
    m->is_builder_gone = false;
    m->is_kernel_lost = false;
    m->is_grace_renewed = false;
    m->is_torn = false;
    m->crash_count = 0;
    m->stuck = NULL;
    m->result.trace.tensor_count = m->result.trace.scalar_count = 0;
    m->result.trace.overflow_bytes = 0;
    m->home = NULL;
    a32_store_relaxed(&m->is_leaving, 0);
    a32_store_relaxed(&m->may_leave, 0);
    a32_store_relaxed(&m->leaver, 0);
    a32_store_relaxed(&m->is_abandoned, 0);
    pipes_drop(&m->pipes);
    /* under the lock, because a worker may still be releasing cores of the previous run */
    pthread_mutex_lock(&m->lock);
    memset(m->core_tasks, 0, sizeof(m->core_tasks));
    m->number = number; /* under the lock, because sim_cancel compares the number */
    m->shown.run = 0;
    a32_store_relaxed(&m->sched.attention, m->cancelled >= number ? ATTEND_CANCELLED : 0);
    m->is_serial = m->run.options->order_seed != 0 && m->sched.worker_count == 1;
    sched_start(&m->sched, m->run.kernels, m->run.options->order_seed);
    pthread_mutex_unlock(&m->lock);
}

/* ---- wait ---- */

/*
 * Waits in the thread that called sim_wait, after it has lost place 0 to another thread. False: the
 * run has ended without this thread.
 */
static bool await_place(struct sim *m, uint32_t *done)
{
    bool is_back;

    while (a32_load_acquire(&m->done) == *done) /* relaxed: the lock below orders the data */
        os_wait(&m->done, *done, UINT64_MAX);
    *done += 1;
    pthread_mutex_lock(&m->lock);
    is_back = m->at_place[0] == &m->caller;
    pthread_mutex_unlock(&m->lock);
    return is_back;
}

void sim_wait(struct chip *chip)
{
    struct sim *m = sim_of(chip);
    /* relaxed: between runs only the thread that calls sim_wait changes `done` */
    uint32_t done = a32_load_relaxed(&m->done);
    const struct pto_sim_core *hook;

    m->begin_ns = os_now_ns();
    m->begin_cycles = port_cycles();
    if (!m->is_refused) {
        hook = pto_sim_set_core(&m->caller.hook);
        crash_begin(&m->caller.crash, &m->caller.core.exec);
        thread_state_save(&m->caller.state, !m->keeps_signals);
        m->caller_handle = pthread_self();
        sim_begin_lead(m);
        while (!sim_lead_run(m, &m->caller) && await_place(m, &done)) {
        }
        end_run(m);
        /* undoes changes that kernels made to the state of the thread */
        thread_state_restore(&m->caller.state);
        crash_end(&m->caller.crash);
        (void)pto_sim_set_core(hook);
    }
    m->run_ns = os_now_ns() - m->begin_ns;
    m->run_cycles = port_cycles() - m->begin_cycles;
    m->executions = count_executions(m);
    (void)orch_end(&m->orch, m->executions);
    if (m->building != NULL)
        finish_building(m);
    sim_record_touches(m);
    sim_record_end(m);
    if (!m->is_lost) /* a thread of a lost chip may still use the graph, so it is not freed */
        sim_trim_pools(m);
    a32_store_release(&m->has_ended, 1);
}

static uint64_t count_executions(struct sim *m)
{
    uint64_t sum;

    if (m->is_refused)
        return 0;
    pthread_mutex_lock(&m->lock);
    sum = m->lane_executions;
    for (uint32_t i = 0; i < m->sched.worker_count; i++)
        sum += sched_executed(m->sched.worker[i]);
    pthread_mutex_unlock(&m->lock);
    return sum;
}

static void end_run(struct sim *m)
{
    pthread_mutex_lock(&m->lock);
    m->at_place[0] = NULL;
    a32_store_relaxed(&m->is_running, 0); /* from here on the monitor ignores this run */
    pthread_mutex_unlock(&m->lock);
}

/* Keeps the graph that the run has built, unless its build has failed. */
static void finish_building(struct sim *m)
{
    if (m->orch.status >= 0 && sim_graph_keep(m, m->building) >= 0)
        m->result.graph = m->building;
    else
        sim_drop(&m->base, m->building);
    m->building = NULL;
}

/* ---- operations that any thread may call ---- */

int sim_poll(struct chip *chip)
{
    return a32_load_acquire(&sim_of(chip)->has_ended) != 0 ? PTO_RUN_ENDED : PTO_RUN_PENDING;
}

void sim_cancel(struct chip *chip, uint64_t number)
{
    struct sim *m = sim_of(chip);

    pthread_mutex_lock(&m->lock);
    if (number > m->cancelled)
        m->cancelled = number;
    if (number == m->number)
        /* relaxed: workers notice the cancellation at their next check */
        sched_attend(&m->sched, ATTEND_CANCELLED, 0);
    pthread_mutex_unlock(&m->lock);
}

uint64_t sim_progress(struct chip *chip)
{
    struct sim *m = sim_of(chip);
    uint64_t sum;

    pthread_mutex_lock(&m->lock);
    sum = sim_count_kernels(m);
    pthread_mutex_unlock(&m->lock);
    return sum;
}

/* ---- report ---- */

const struct chip_result *sim_report(struct chip *chip, struct pto_run_report *report)
{
    struct sim *m = sim_of(chip);
    struct orch *o = &m->orch;

    /* a stall description already lists the kernels that run */
    if (m->is_lost && !m->is_torn && o->stall.count == 0)
        orch_describe_running(o);
    sim_ask_stuck(m);
    sim_take_stuck(m); /* mutation: no-place */
    m->result.failure.status = o->status;
    if (o->status < 0)
        m->result.failure = o->failure;
    if (o->status < 0 && m->crash_count != 0)
        sim_report_crash(m);
    else
        m->result.trace.lines = (struct source_lines){ 0 };
    m->result.is_lost = m->is_lost;
    m->result.is_builder_lost = m->is_builder_gone;
    m->result.is_kernel_lost = m->is_kernel_lost;
    if (o->stall.count != 0)
        m->result.stall = o->stall;
    else
        m->result.stall.count = 0;
    if (m->is_lost && m->launched != NULL)
        m->launched->is_pinned = true;
    report->tasks = m->is_refused ? 0 : m->graph.seq - 1;
    report->edges = m->is_refused ? 0 : m->graph.edge_total;
    report->ns = m->run_ns;
    report->workers = m->sched.worker_count;
    report->core_count = m->seats.count[PTO_CORE_AIC] + m->seats.count[PTO_CORE_AIV];
    report->takeovers = m->takeovers;
    report->sleeps = a32_load_relaxed(&m->sleeps);
    report->wakes = a32_load_relaxed(&m->wakes);
    report->monitor_ticks = a32_load_relaxed(&m->ticks);
    report_cores(m, report);
    report_timing(m, report);
    sim_report_uses(m, report);
    return &m->result;
}

static void report_cores(struct sim *m, struct pto_run_report *report)
{
    pthread_mutex_lock(&m->lock);
    report->executions = m->executions;
    report->stolen = m->lane_executions;
    report->dummies = report->skipped = 0;
    report->stopped = a32_load_relaxed(&m->sched.stopped); /* relaxed: the run has ended */
    report->records_lost = sim_record_lost(m);
    for (uint32_t i = 0; i < m->sched.worker_count; i++) {
        struct worker *w = m->sched.worker[i];

        report->stolen += i != 0 ? sched_executed(w) : 0;
        /* relaxed: workers of an abandoned run still count, and these are the present values */
        report->dummies += a64_load_relaxed(&w->nothing[TRACE_DUMMY]);
        report->skipped += a64_load_relaxed(&w->nothing[TRACE_SKIPPED]);
        report->stopped += a64_load_relaxed(&w->nothing[TRACE_STOPPED]);
        for (uint32_t type = 0; type < PTO_CORE_TYPES; type++)
            if ((w->core_mask & (1u << type)) != 0)
                sim_report_core(m, w, type);
    }
    memcpy(report->core_tasks, m->core_tasks, sizeof(report->core_tasks));
    pthread_mutex_unlock(&m->lock);
}

/* Converts timing slots from cycles to time since the run began. */
static void report_timing(const struct sim *m, struct pto_run_report *report)
{
    double ns = m->run_cycles != 0 ? (double)m->run_ns / (double)m->run_cycles : 0.0;

    for (uint32_t i = 0; i < PTO_TIMING_SLOTS; i++) {
        const struct sched_timing *timing = &m->sched.timing[i];
        uint64_t begin = a64_load_relaxed(&timing->begin); /* relaxed: the run has ended */
        uint64_t end = a64_load_relaxed(&timing->end);

        if (begin != 0 && end > begin)
            report->timing[i] =
                (struct pto_timing){ (uint64_t)((double)(begin - m->begin_cycles) * ns),
                                     (uint64_t)((double)(end - m->begin_cycles) * ns) };
    }
}

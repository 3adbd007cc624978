/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated chip: open and close, a run, what happens at a place. The whole is told in sim.h. */
#include "sim/sim.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum {
    STACK_BYTES = 8 << 20, /* of the graph builder: its pages appear on use */
    SPINS = 2000,          /* looks for work before a thread sleeps */
    LOOKS = 16,            /* of these at a time */
    POLL_NS = 20000,       /* between two looks at conditions, at first; it doubles up to */
    POLL_NS_MAX = 1000000,
    GRACE_NS = 200000000, /* for kernels to return after a stall was noticed */
    POOL_UNIT_LOG = 28,   /* bytes of address space per share of a pool: 256 MiB */
    POOL_ALIGN = 2 << 20,
    POOL_KEEP = 64 << 20, /* memory that a pool keeps between runs */
};

static int sim_open(const struct chip_params *params, struct chip **chip_out);
static bool sim_close(struct chip *chip);
static int sim_run(struct chip *chip, const struct chip_job *job);
static void sim_room(struct chip *chip);
static int sim_wait(struct chip *chip, uint32_t slot, uint32_t seq, uint64_t deadline_ns);

const struct chip_ops chip_sim_ops = {
    .name = "sim",
    .open = sim_open,
    .close = sim_close,
    .run = sim_run,
    .room = sim_room,
    .wait = sim_wait,
    .each_running = sim_each_running,
    .is_queued = sim_is_queued,
};

static void serve(struct sim *m, struct worker *w);
static uint32_t spin_for_offer(struct sim *m, const struct worker *w);
static bool lead(struct sim *m, struct worker *w);
static void answer_alarm(struct sim *m);
static bool give_up_when_due(struct sim *m);
static bool run_for_room(struct sim *m, struct worker *w);
static bool run_for_task(struct sim *m, struct worker *w);
static bool run_to_end(struct sim *m, struct worker *w);
static enum sched_result lead_round(struct sim *m, struct worker *w, struct sharing_sample *sample,
                                    uint32_t *spins);
static bool sleep_at(struct sim *m, struct worker *w, uint64_t deadline_ns);
static void report_run(struct sim *m, const struct chip_job *job);
static int start_trace(struct sim *m, const struct chip_job *job);

static struct sim *sim_of(struct chip *chip)
{
    return (struct sim *)(void *)chip;
}

/* ---- open, close ---- */

static void reserve_pool(struct pool *pool, uint64_t share, void *context)
{
    struct sim *m = context;

    uint64_t bytes = share << POOL_UNIT_LOG;

    if (pool == &m->graph.heap_pool || bytes > m->budget.max) /* outputs may take all there is */
        bytes = (m->budget.max + POOL_ALIGN - 1) / POOL_ALIGN * POOL_ALIGN;
    (void)sim_pool_reserve(pool, bytes, &m->budget); /* checked afterwards, all at once */
}

static void release_pool(struct pool *pool, uint64_t share, void *context)
{
    (void)share;
    (void)context;
    sim_pool_release(pool);
}

static void trim_pool(struct pool *pool, uint64_t share, void *context)
{
    (void)share;
    (void)context;
    sim_pool_trim(pool, POOL_KEEP);
}

static void find_missing(struct pool *pool, uint64_t share, void *context)
{
    bool *is_missing = context;

    (void)share;
    if (pool->base == NULL)
        *is_missing = true;
}

/* Kernels look the hooks up in the whole process, whoever loaded this library and how. */
static void share_hooks(void)
{
    void *hooks = dlopen("libptosim.so.0", RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);

    if (hooks != NULL)
        dlclose(hooks); /* it stays: this library needs it */
}

static int sim_open(const struct chip_params *params, struct chip **chip_out)
{
    struct sim *m = aligned_alloc(128, (sizeof(*m) + 127) / 128 * 128);
    bool is_missing = false;
    int status;

    if (m == NULL)
        return PTO_ENOMEM;
    memset(m, 0, sizeof(*m));
    m->base = (struct chip){ .ops = &chip_sim_ops,
                             .graph = &m->graph,
                             .ledger = &m->ledger,
                             .sched = &m->sched,
                             .clusters = params->clusters,
                             .memory = &m->budget };
    m->budget.max = params->memory_max;
    m->thread_max = 3 * params->clusters + params->workers;
    m->spins = params->workers <= os_cpu_count() ? SPINS : 0;
    m->has_fence_all = os_fence_all_init();
    pthread_mutex_init(&m->lock, NULL);
    sched_init(&m->sched, m);
    sim_init_cores(m, params->clusters);
    graph_each_pool(&m->graph, reserve_pool, m);
    ledger_each_pool(&m->ledger, reserve_pool, m);
    graph_each_pool(&m->graph, find_missing, &is_missing);
    ledger_each_pool(&m->ledger, find_missing, &is_missing);
    status = is_missing ? PTO_ENOMEM : fiber_create(STACK_BYTES, &m->fiber);
    if (status < 0)
        goto release_pools;
    sim_init_thread(m, &m->caller);
    share_hooks();
    m->base.has_handler = crash_init();
    status = sim_start_threads(m, params->workers);
    if (status < 0)
        goto release_pools;
    m->base.submitter = m->sched.worker[0];
    *chip_out = &m->base;
    return PTO_OK;

release_pools:
    (void)sim_close(&m->base);
    return status;
}

static bool sim_close(struct chip *chip)
{
    struct sim *m = sim_of(chip);
    bool is_complete;

    is_complete = sim_end_threads(m);
    if (m->base.has_handler)
        crash_fini(!is_complete);
    if (!is_complete)
        return false;
    sim_drop_pipes(m);
    free(m->ring[SCHED_WORKERS_MAX].record);
    for (uint32_t i = 0; i < m->sched.worker_count; i++) {
        free(m->ring[i].record);
        free(m->sched.worker[i]);
    }
    fiber_destroy(m->fiber);
    graph_each_pool(&m->graph, release_pool, m);
    ledger_each_pool(&m->ledger, release_pool, m);
    pthread_mutex_destroy(&m->lock);
    free(m);
    return true;
}

/* ---- places ---- */

/* One that is not the submitter's, until it is lost or the device is closed. */
void sim_serve_place(struct sim *m, struct thread *th)
{
    if (sigsetjmp(th->crash.back, 0) != 0 && sim_crash_landed(m, th))
        return;
    serve(m, th->place);
}

static void serve(struct sim *m, struct worker *w)
{
    struct sharing_sample sample;
    uint32_t spins = 0;

    for (;;) {
        enum sched_result result;

        sharing_sample_start(&sample, w, os_now_ns());
        result = sched_run(w, SHARING_ROUND);
        if (result == SCHED_LOST)
            return;
        if (sharing_sample_is_due(&sample, w))
            sharing_other_timed(w, &sample, os_now_ns());
        if (result == SCHED_BUDGET) {
            spins = 0;
            continue;
        }
        sched_flush(w);
        if (a32_load_relaxed(&m->is_closing) != 0) /* after A14 */
            return;
        if (spins < m->spins) {
            spins += spin_for_offer(m, w);
            continue;
        }
        (void)sleep_at(m, w, UINT64_MAX);
        spins = 0;
    }
}

/*
 * Until something is offered, but not for long. What a thread does that has nothing
 * to do slows down one that shares its core, so it does little. Returns how often it looked.
 */
static uint32_t spin_for_offer(struct sim *m, const struct worker *w)
{
    uint32_t looks = 0;

    do {
        os_pause();
        looks++;
    } while (looks < LOOKS && !sched_has_offer(&m->sched, w));
    return looks;
}

/* Returns false if nothing happened before the deadline. */
static bool sleep_at(struct sim *m, struct worker *w, uint64_t deadline_ns)
{
    uint32_t event = a32_load_relaxed(&m->event); /* F1 follows */
    bool is_in_time = true;

    sched_sleep_begin(&m->sched);
    if (w->index == 0 && sched_has_deferred(&m->sched)) { /* nobody will tell when they hold */
        uint64_t poll_ns = os_now_ns() + m->poll_ns;

        deadline_ns = poll_ns < deadline_ns ? poll_ns : deadline_ns;
        m->poll_ns = m->poll_ns < POLL_NS_MAX / 2 ? 2 * m->poll_ns : POLL_NS_MAX;
    }
    if (w->index == 0 && m->give_up_ns != 0 && m->give_up_ns < deadline_ns)
        deadline_ns = m->give_up_ns;
    if (!sched_has_offer(&m->sched, w) && a32_load_relaxed(&m->is_closing) == 0 && /* after A14 */
        (w->index != 0 || a32_load_relaxed(&m->alarm) == ALARM_NONE)) {            /* F1 */
        a32_add_relaxed(&m->sleeps, 1);                                            /* a count */
        is_in_time = os_wait(&m->event, event, deadline_ns);
    }
    sched_sleep_end(&m->sched);
    return is_in_time;
}

void port_wake(void *machine)
{
    struct sim *m = machine;

    a32_add_relaxed(&m->wakes, 1); /* a count */
    a32_add_acq_rel(&m->event, 1);
    os_wake(&m->event, UINT32_MAX);
}

/* ---- a run ---- */

static int sim_run(struct chip *chip, const struct chip_job *job)
{
    struct sim *m = sim_of(chip);
    uint32_t done = a32_load_relaxed(&m->done); /* this thread is the one that runs */
    struct worker *w = m->sched.worker[0];
    const struct pto_sim_core *hook;

    m->takeovers = 0;
    a32_store_relaxed(&m->sleeps, 0);
    a32_store_relaxed(&m->wakes, 0);
    a32_store_relaxed(&m->ticks, 0);
    m->poll_ns = POLL_NS;
    m->awaited_slot = 0;
    m->is_builder_waiting = false;
    m->is_seeded = false;
    m->lane_executions = 0;
    sim_drop_pipes(m);
    if (start_trace(m, job) < 0)
        return PTO_ENOMEM;
    pthread_mutex_lock(&m->lock); /* a worker may still be giving up the cores of the run before */
    memset(m->core_tasks, 0, sizeof(m->core_tasks));
    sched_start(&m->sched, job->kernels, job->order_seed);
    pthread_mutex_unlock(&m->lock);
    sharing_begin(&m->base.sharing, w,
                  &(struct sharing_run){ .live_max = job->live_max,
                                         .is_held = job->is_held,
                                         .image = job->image,
                                         .launches = job->launches });
    hook = pto_sim_set_core(&m->caller.hook);
    crash_begin(&m->caller.crash, &m->caller.core.exec);
    m->caller.crash.guard = job->guard;
    m->caller.crash.guard_bytes = job->guard_bytes;
    m->caller.crash.is_guard_hit = false;
    m->caller_handle = pthread_self();
    m->give_up_ns = 0;
    a32_store_relaxed(&m->is_abandoned, 0);
    if (job->image == NULL)
        fiber_start(m->fiber, job->build, job->arg);
    pthread_mutex_lock(&m->lock);
    m->job = job;
    m->stall_since_ns = os_now_ns();
    a32_store_relaxed(&m->alarm, ALARM_NONE); /* the monitor raises it under the lock */
    m->caller.is_lost = false;
    sim_bind_thread(m, &m->caller, w);
    pthread_mutex_unlock(&m->lock);
    a32_store_relaxed(&m->is_running, 1); /* the lock orders */
    fence_full();                         /* F2 */
    if (a32_load_relaxed(&m->is_monitor_asleep) != 0) {
        a32_add_acq_rel(&m->monitor, 1);
        os_wake(&m->monitor, 1);
    }
    if (!sim_lead_run(m, &m->caller))
        while (a32_load_acquire(&m->done) == done) /* the lock orders */
            os_wait(&m->done, done, UINT64_MAX);
    pthread_mutex_lock(&m->lock);
    m->at_place[0] = NULL;
    a32_store_relaxed(&m->is_running, 0); /* from here on the monitor leaves the job alone */
    pthread_mutex_unlock(&m->lock);
    crash_end(&m->caller.crash);
    if (job->guard != NULL)
        *job->is_guard_hit = m->caller.crash.is_guard_hit;
    m->caller.crash.guard = NULL;
    (void)pto_sim_set_core(hook);
    report_run(m, job);
    if (!m->base.is_lost && !job->is_built_only) { /* else somebody still looks at it */
        graph_each_pool(&m->graph, trim_pool, NULL);
        ledger_each_pool(&m->ledger, trim_pool, NULL);
    }
    return PTO_OK;
}

/*
 * A ring for each worker and one for threads without a place, kept until the
 * device is closed: what a run recorded outlives it.
 */
static int start_trace(struct sim *m, const struct chip_job *job)
{
    m->base.trace = NULL;
    for (uint32_t i = 0; i <= m->sched.worker_count; i++) {
        bool is_worker = i < m->sched.worker_count;
        struct trace_ring *ring = &m->ring[is_worker ? i : SCHED_WORKERS_MAX];

        if (is_worker)
            m->sched.worker[i]->trace = NULL;
        if (job->trace == PTO_TRACE_OFF)
            continue;
        if (ring->record == NULL || ring->mask + 1 != job->trace_records) {
            free(ring->record);
            *ring = (struct trace_ring){ 0 };
            ring->record = malloc(job->trace_records * sizeof(struct trace_record));
            if (ring->record == NULL)
                return PTO_ENOMEM;
            ring->mask = job->trace_records - 1;
        }
        ring->count = 0;
        ring->since = 0;
        ring->live = ring->ready = UINT32_MAX; /* unlike any */
        ring->has_each_time = job->trace == PTO_TRACE_TIMES || !is_worker;
        if (is_worker)
            m->sched.worker[i]->trace = ring;
        else
            m->base.trace = ring;
    }
    return PTO_OK;
}

/* Another thread may have come to this place after that. */
static void seed_image(struct sim *m, struct worker *w)
{
    if (m->is_seeded)
        return;
    m->is_seeded = true;
    sched_launch(w, m->job->image, sharing_launch_begins(&m->base.sharing, os_now_ns()));
}

bool sim_lead_run(struct sim *m, struct thread *th)
{
    if (sigsetjmp(th->crash.back, 0) != 0 && sim_crash_landed(m, th))
        return false;
    return lead(m, th->place);
}

static bool lead(struct sim *m, struct worker *w)
{
    if (m->job->image != NULL)
        seed_image(m, w);
    while (m->job->image == NULL && !fiber_is_done(m->fiber)) {
        if (!m->is_builder_waiting) { /* else the thread before this one lost the place meanwhile */
            sched_look_away(w);
            aptr_store_relaxed(&m->base.builder, __builtin_thread_pointer()); /* only compared */
            fiber_resume(m->fiber);
            aptr_store_relaxed(&m->base.builder, NULL);
            if (fiber_is_done(m->fiber))
                break;
        }
        if (m->awaited_slot != 0 ? !run_for_task(m, w) : !run_for_room(m, w))
            return false;
        m->is_builder_waiting = false;
    }
    if (m->job->is_built_only) {
        sched_discard(w);
        return true;
    }
    if (m->job->is_held && !m->is_seeded) {
        m->is_seeded = true;
        sched_settle_all(w);
    }
    return run_to_end(m, w);
}

static void sim_room(struct chip *chip)
{
    struct sim *m = sim_of(chip);

    m->is_builder_waiting = true;
    fiber_yield(m->fiber);
}

static int sim_wait(struct chip *chip, uint32_t slot, uint32_t seq, uint64_t deadline_ns)
{
    struct sim *m = sim_of(chip);

    m->awaited_slot = slot;
    m->awaited_seq = seq;
    m->awaited_until_ns = deadline_ns;
    m->is_builder_waiting = true;
    fiber_yield(m->fiber);
    m->awaited_slot = 0;
    return m->graph.info[slot].seq != seq ? PTO_OK : PTO_ETIMEOUT;
}

/* With one worker there is nothing to decide, and no time is read. */
static uint64_t time_for_sharing(const struct sim *m)
{
    return m->sched.worker_count > 1 ? os_now_ns() : 0;
}

/* Runs tasks until the one that the builder waits for has gone, or the time is over. */
static bool run_for_task(struct sim *m, struct worker *w)
{
    const struct slot_info *info = &m->graph.info[m->awaited_slot];
    struct sharing_sample sample;
    uint32_t spins = 0;

    sharing_sample_start(&sample, w, time_for_sharing(m));
    while (info->seq == m->awaited_seq) {
        enum sched_result result = lead_round(m, w, &sample, &spins);

        if (result == SCHED_LOST)
            return false;
        if (info->seq != m->awaited_seq || os_now_ns() >= m->awaited_until_ns ||
            give_up_when_due(m))
            break;
        if (result == SCHED_IDLE)
            (void)sleep_at(m, w, m->awaited_until_ns);
    }
    sharing_builder_waited(&m->base.sharing);
    return true;
}

/* Runs tasks until there is room for more, or for as long as it is worth waiting for that. */
static bool run_for_room(struct sim *m, struct worker *w)
{
    struct sharing *sharing = &m->base.sharing;
    struct graph *g = &m->graph;
    struct sharing_sample sample;
    uint32_t spins = 0;

    sharing_sample_start(&sample, w, time_for_sharing(m));
    sharing_builder_stops(sharing, w);
    while (!sharing_has_room(sharing, w)) {
        enum sched_result result = lead_round(m, w, &sample, &spins);

        if (result == SCHED_LOST)
            return false;
        if (give_up_when_due(m))
            return true;
        if (result == SCHED_IDLE && !sharing_has_room(sharing, w) &&
            !sleep_at(m, w, os_now_ns() + sharing->patience_ns))
            break;
    }
    if (g->live == 0)
        g->is_shared = false; /* nobody else has a task any more */
    sharing_builder_goes_on(sharing, w, time_for_sharing(m));
    return true;
}

static bool run_to_end(struct sim *m, struct worker *w)
{
    struct graph *g = &m->graph;
    struct sharing_sample sample;
    uint32_t spins = 0;

    sharing_sample_start(&sample, w, time_for_sharing(m));
    sharing_builder_is_done(&m->base.sharing, w);
    if (w->is_offering && sched_ready_count(w) > 1) /* it runs the only one itself */
        sched_publish(w);
    while (g->live != 0) {
        enum sched_result result = lead_round(m, w, &sample, &spins);

        if (result == SCHED_LOST)
            return false;
        if (give_up_when_due(m))
            return true;
        if (result == SCHED_IDLE && g->live != 0)
            (void)sleep_at(m, w, UINT64_MAX);
    }
    if (sharing_times_launch(&m->base.sharing) && !sched_is_stopped(&m->sched))
        sharing_launch_ends(&m->base.sharing, os_now_ns());
    return true;
}

/* Runs some tasks and takes slots back. SCHED_IDLE: there was nothing to do for so long that it is time to sleep. */
static enum sched_result lead_round(struct sim *m, struct worker *w, struct sharing_sample *sample,
                                    uint32_t *spins)
{
    enum sched_result result;

    if (a32_load_relaxed(&m->alarm) != ALARM_NONE) /* the run is late anyway */
        answer_alarm(m);
    if (w->trace != NULL)
        trace_depth(w->trace, m->graph.live, sched_ready_count(w));
    result = sched_run(w, sharing_tasks_at_once(&m->base.sharing, w));
    if (result == SCHED_LOST)
        return SCHED_LOST;
    if (m->sched.worker_count > 1 && sharing_sample_is_due(sample, w))
        sharing_round_ends(&m->base.sharing, w, sample, os_now_ns());
    if (sched_has_deferred(&m->sched) && sched_poll(&m->sched, &m->graph) != 0) {
        m->poll_ns = POLL_NS;
        result = SCHED_BUDGET;
    }
    if (sched_collect(&m->sched, &m->graph) != 0 || result == SCHED_BUDGET) {
        *spins = 0;
        return SCHED_BUDGET;
    }
    if ((*spins)++ < m->spins) {
        os_pause();
        return SCHED_BUDGET;
    }
    *spins = 0;
    return SCHED_IDLE;
}

/* The run is stopped; kernels that do not return soon after a stall are given up. */
static void answer_alarm(struct sim *m)
{
    bool is_stall = a32_swap_acq_rel(&m->alarm, ALARM_NONE) == ALARM_STALL;
    bool was_stopped = sched_is_stopped(&m->sched);

    if (!was_stopped) {
        m->job->stalled(m->job->arg, is_stall);
        sched_attend(&m->sched, ATTEND_FAILED, 0);
        sched_signal(&m->sched);
    }
    if (is_stall)
        m->give_up_ns = os_now_ns() + (was_stopped ? 0 : GRACE_NS);
}

/* True: the run goes no further, whatever its kernels still do. */
static bool give_up_when_due(struct sim *m)
{
    if (m->give_up_ns == 0 || os_now_ns() < m->give_up_ns || m->graph.live == 0)
        return false;
    if (a32_load_relaxed(&m->is_abandoned) == 0) { /* place 0's own word until the run has ended */
        a32_store_relaxed(&m->is_abandoned, 1);
        m->base.is_lost = true;
        sim_abandon_kernels(m);
    }
    return true;
}

static void report_run(struct sim *m, const struct chip_job *job)
{
    struct pto_run_report *report = job->report;

    report->workers = m->sched.worker_count;
    report->core_count = m->core_count[PTO_CORE_AIC] + m->core_count[PTO_CORE_AIV];
    report->takeovers = m->takeovers;
    report->sleeps = a32_load_relaxed(&m->sleeps);
    report->wakes = a32_load_relaxed(&m->wakes);
    report->monitor_ticks = a32_load_relaxed(&m->ticks);
    pthread_mutex_lock(&m->lock);
    report->executions = m->lane_executions;
    report->stolen = m->lane_executions;
    for (uint32_t i = 0; i < m->sched.worker_count; i++) {
        struct worker *w = m->sched.worker[i];

        report->executions += sched_executed(w);
        report->stolen += i != 0 ? sched_executed(w) : 0;
        for (uint32_t type = 0; type < PTO_CORE_TYPES; type++)
            if ((w->core_mask & (1u << type)) != 0)
                sim_report_core(m, w, type);
    }
    memcpy(report->core_tasks, m->core_tasks, sizeof(report->core_tasks));
    pthread_mutex_unlock(&m->lock);
}

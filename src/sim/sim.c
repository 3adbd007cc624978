/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated chip: open and close, a run, what happens at a place. The whole is told in sim.h. */
#include "sim/sim.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum {
    STACK_BYTES = 8 << 20, /* of the graph builder: its pages appear on use */
    BUDGET = 64,           /* tasks between two looks at everything else */
    BUDGET_SHORT = 256,    /* the same where they take next to nothing */
    SPINS = 2000,          /* looks for work before a thread sleeps */
    LOOKS = 16,            /* of these at a time */
    PATIENCE_NS = 1000000, /* without a slot coming back before the window grows */
    PATIENCE_NS_MAX = 1 << 30,
    POLL_NS = 20000, /* between two looks at conditions, at first; it doubles up to */
    POLL_NS_MAX = 1000000,
    GRACE_NS = 200000000, /* for kernels to return after a stall was noticed */
    WINDOW_PER_WORKER = 256,
    WINDOW_ALONE = 64, /* where nobody else runs tasks: they stay in the first-level cache */
    TASK_NS_SHORT = 2000,
    WORKERS_FEW = 4,
    LIVE_FEW = 8,
    WEIGHED = 16,          /* tasks that are timed at once */
    CYCLE_TASKS = 512,     /* built before the submitter looks what they take, at most */
    EDGES_FEW = 8,         /* fewer than one for so many tasks */
    EDGES_TASKS = 1 << 17, /* until it is asked again whether there are any */
    TASK_NS_FINE = 100,    /* shorter ones may be worth no hand-over; of a built graph, are not */
    POOL_UNIT_LOG = 28,    /* bytes of address space per share of a pool: 256 MiB */
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

struct weight;

static void serve(struct sim *m, struct worker *w);
static uint32_t look_around(struct sim *m, const struct worker *w);
static bool lead(struct sim *m, struct worker *w);
static void answer_alarm(struct sim *m);
static bool is_given_up(struct sim *m);
static bool run_for_room(struct sim *m, struct worker *w);
static bool run_for_task(struct sim *m, struct worker *w);
static bool run_to_end(struct sim *m, struct worker *w);
static enum sched_result lead_round(struct sim *m, struct worker *w, struct weight *weight,
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

static void note_missing(struct pool *pool, uint64_t share, void *context)
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
    graph_each_pool(&m->graph, note_missing, &is_missing);
    ledger_each_pool(&m->ledger, note_missing, &is_missing);
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

/* ---- how long tasks take ---- */

/* Since when a worker has run how many. */
struct weight {
    uint64_t begin_ns;
    uint64_t executed;
};

static void start_weighing(struct worker *w, struct weight *weight)
{
    *weight = (struct weight){ os_now_ns(), sched_executed(w) };
}

/* What a task took since then, with what the runtime needs for it; 0: there were too few. */
static uint64_t weigh_tasks(struct worker *w, struct weight *weight)
{
    uint64_t count = sched_executed(w) - weight->executed;
    uint64_t begin_ns = weight->begin_ns;

    if (count == 0) /* what it waits for takes no time of theirs */
        start_weighing(w, weight);
    if (count < WEIGHED / 2)
        return 0;
    start_weighing(w, weight);
    return (weight->begin_ns - begin_ns) / count + 1;
}

/*
 * Others than the submitter tell it when tasks may take less than their hand-over
 * does: it tries then what they take alone.
 */
static void tell_fineness(struct sim *m, struct worker *w, struct weight *weight)
{
    uint64_t task_ns = weigh_tasks(w, weight);

    if (task_ns != 0 && task_ns < TASK_NS_FINE &&
        a32_load_relaxed(&m->sched.is_fine) == FINE_UNKNOWN)
        a32_store_relaxed(&m->sched.is_fine, FINE_TOLD); /* a hint */
}

/*
 * The submitter does so after each round. While it builds, `pace` decides, unless
 * tasks are long. A sample may have been interrupted, so one that is a little too
 * long is taken again.
 */
static void judge_tasks(struct sim *m, struct worker *w, struct weight *weight)
{
    uint64_t task_ns = weigh_tasks(w, weight);
    uint64_t least_ns;

    if (task_ns == 0)
        return;
    least_ns = m->job->image != NULL ? TASK_NS_FINE : PACE_RUN_NS_LONG;
    m->task_ns = task_ns;
    m->long_samples = task_ns > least_ns ? m->long_samples + 1 : 0;
    if (m->long_samples > 1 || task_ns > 10 * least_ns) {
        w->is_generous = true;
        if (m->job->image != NULL)
            sched_share(w);
        a32_store_relaxed(&m->sched.is_fine, FINE_UNKNOWN);
    } else if (m->job->image != NULL) {
        w->is_generous = false;
    }
}

/* The builder waits for room. */
static void end_building(struct sim *m, struct worker *w)
{
    if (a32_load_relaxed(&m->sched.is_fine) != FINE_TOLD) /* a hint */
        return;
    w->is_generous = !pace_hint(&m->pace) && w->is_generous;
    m->is_hint_heard = true;
    a32_store_relaxed(&m->sched.is_fine, FINE_HEARD);
}

/*
 * Whether tasks had edges. Those of a step have none: what is before them has gone.
 * So they are believed to have some for as long as it does not pay to look again.
 */
static void judge_edges(struct sim *m)
{
    const struct graph *g = &m->graph;

    if ((g->edge_total - m->cycle_edges) * EDGES_FEW > g->seq - m->cycle_seq)
        m->stepwise_until = g->seq + EDGES_TASKS;
}

/* It has room again. */
static void begin_building(struct sim *m, struct worker *w)
{
    const struct graph *g = &m->graph;
    uint64_t now;

    if (m->sched.worker_count == 1)
        return;
    now = os_now_ns();
    judge_edges(m);
    if (m->cycle_ns != 0) {
        uint64_t tasks = (uint64_t)(g->seq - m->cycle_seq) + m->cycle_live - g->live;
        uint64_t own = sched_executed(w) - m->cycle_executed;

        pace_note(&m->pace, tasks, tasks > own ? tasks - own : 0, now - m->cycle_ns, m->task_ns,
                  m->long_samples > 1);
        w->is_generous = m->pace.way == PACE_SHARED;
        if (m->is_hint_heard && m->pace.total >= m->pace.hint_at) {
            m->is_hint_heard = false;
            a32_store_relaxed(&m->sched.is_fine, FINE_UNKNOWN);
        }
    }
    m->cycle_ns = now;
    m->cycle_seq = g->seq;
    m->cycle_live = g->live;
    m->cycle_executed = sched_executed(w);
    m->cycle_edges = g->edge_total;
    m->base.look_at = g->seq + CYCLE_TASKS; /* others may keep up: the window never fills */
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
    struct weight weight = { 0, 0 };
    uint32_t spins = 0;

    for (;;) {
        start_weighing(w, &weight);
        switch (sched_run(w, BUDGET)) {
        case SCHED_LOST:
            return;
        case SCHED_BUDGET:
            tell_fineness(m, w, &weight);
            spins = 0;
            continue;
        case SCHED_IDLE:
            tell_fineness(m, w, &weight);
            break;
        }
        sched_flush(w);
        if (a32_load_relaxed(&m->is_closing) != 0) /* after A14 */
            return;
        if (spins < m->spins) {
            spins += look_around(m, w);
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
static uint32_t look_around(struct sim *m, const struct worker *w)
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

/* A team's kernels end on other threads, which complete it. */
static bool can_be_alone(const struct chip_job *job)
{
    return job->image != NULL && !job->image->has_teams;
}

/* As the launches before tell; a single task has nothing to share. */
static bool is_better_alone(const struct chip_job *job)
{
    return can_be_alone(job) && (job->image->task_count == 1 || job->pace->way == PACE_ALONE);
}

static int sim_run(struct chip *chip, const struct chip_job *job)
{
    struct sim *m = sim_of(chip);
    uint32_t workers = m->sched.worker_count;
    uint32_t done = a32_load_relaxed(&m->done); /* this thread is the one that runs */
    struct worker *w = m->sched.worker[0];
    const struct pto_sim_core *hook;

    m->takeovers = 0;
    m->patience_ns = PATIENCE_NS;
    m->window = job->window != 0 ? job->window
                : workers > 1    ? workers * WINDOW_PER_WORKER
                                 : WINDOW_ALONE;
    m->base.room_at = job->is_held ? UINT32_MAX : m->window;
    m->base.look_at = job->is_held || workers == 1 ? UINT32_MAX : CYCLE_TASKS;
    a32_store_relaxed(&m->sleeps, 0);
    a32_store_relaxed(&m->wakes, 0);
    a32_store_relaxed(&m->ticks, 0);
    m->poll_ns = POLL_NS;
    m->awaited_slot = 0;
    m->is_builder_waiting = false;
    m->is_seeded = false;
    m->long_samples = 0;
    m->task_ns = PACE_UNKNOWN;
    m->cycle_ns = 0;
    m->cycle_seq = 1;
    m->cycle_edges = 0;
    m->stepwise_until = 0;
    m->is_hint_heard = false;
    pace_start(&m->pace, workers > 1 ? PACE_SHARED : PACE_ALONE);
    m->lane_executions = 0;
    sim_drop_pipes(m);
    if (start_trace(m, job) < 0)
        return PTO_ENOMEM;
    pthread_mutex_lock(&m->lock); /* a worker may still be giving up the cores of the run before */
    memset(m->core_tasks, 0, sizeof(m->core_tasks));
    sched_start(&m->sched, job->kernels, job->order_seed);
    pthread_mutex_unlock(&m->lock);
    /* What is ready stays here until the graph is complete, or if there is nobody else. */
    w->is_generous = workers > 1 && (job->image != NULL ? !is_better_alone(job) : !job->is_held);
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
    m->cycle_ns = os_now_ns();
    sched_launch(w, m->job->image, is_better_alone(m->job));
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

/* Runs tasks until the one that the builder waits for has gone, or the time is over. */
static bool run_for_task(struct sim *m, struct worker *w)
{
    const struct slot_info *info = &m->graph.info[m->awaited_slot];
    struct weight weight;
    uint32_t spins = 0;

    start_weighing(w, &weight);
    while (info->seq == m->awaited_seq) {
        enum sched_result result = lead_round(m, w, &weight, &spins);

        if (result == SCHED_LOST)
            return false;
        if (info->seq != m->awaited_seq || os_now_ns() >= m->awaited_until_ns || is_given_up(m))
            break;
        if (result == SCHED_IDLE)
            (void)sleep_at(m, w, m->awaited_until_ns);
    }
    m->cycle_ns = 0; /* it did not wait for room */
    return true;
}

/*
 * Tasks that are worth offering, but not much longer than what their edges cost
 * between workers: those before them are run first, so that there are few edges.
 */
static bool is_stepwise(const struct sim *m)
{
    return m->job->window == 0 && m->task_ns < TASK_NS_SHORT &&
           m->sched.worker_count <= WORKERS_FEW && m->graph.seq < m->stepwise_until;
}

/*
 * Whether the builder may go on: half of the window is free. Where tasks are not
 * offered all of them are run first, but those that others still have are not
 * waited for; in steps, nearly all.
 */
static bool has_room(const struct sim *m, const struct worker *w)
{
    uint32_t live = m->graph.live;

    if (live == 0 || live > m->window / 2)
        return live == 0;
    return sched_ready_count(w) == 0 || (w->is_generous && (!is_stepwise(m) || live <= LIVE_FEW));
}

/*
 * Runs tasks until there is room. When no slot comes back for a while although
 * the window is full, it grows: what is being waited for may not have been
 * submitted yet. The while doubles each time, as the window does, so that a
 * builder that is merely faster than the kernels does not run away.
 *
 * If there is room left, the builder came to see what tasks take (look_at).
 */
static bool run_for_room(struct sim *m, struct worker *w)
{
    struct graph *g = &m->graph;
    bool is_look = g->live < m->base.room_at;
    struct weight weight;
    uint32_t spins = 0;

    start_weighing(w, &weight);
    end_building(m, w);
    is_look = is_look && w->is_generous; /* else it is to run them itself from now on */
    while (!is_look && !has_room(m, w)) {
        enum sched_result result = lead_round(m, w, &weight, &spins);

        if (result == SCHED_LOST)
            return false;
        if (is_given_up(m))
            return true;
        if (result == SCHED_IDLE && !has_room(m, w) &&
            !sleep_at(m, w, os_now_ns() + m->patience_ns))
            break;
    }
    if (g->live == 0)
        g->is_shared = false; /* nobody else has a task any more */
    begin_building(m, w);
    if (is_look && w->is_generous)
        return true;
    if (has_room(m, w)) {
        bool is_step = m->window > WINDOW_ALONE && (!w->is_generous || is_stepwise(m));

        m->base.room_at = is_step ? g->live + WINDOW_ALONE : m->window;
        m->patience_ns = PATIENCE_NS;
    } else {
        m->base.room_at = g->live + (g->live > m->window ? g->live : m->window);
        if (m->patience_ns < PATIENCE_NS_MAX)
            m->patience_ns *= 2;
    }
    return true;
}

static bool run_to_end(struct sim *m, struct worker *w)
{
    struct graph *g = &m->graph;
    struct weight weight;
    uint32_t spins = 0;

    start_weighing(w, &weight);
    m->base.room_at = UINT32_MAX;
    w->is_generous =
        w->is_generous || (m->job->is_held && m->job->image == NULL && m->sched.worker_count > 1);
    if (w->is_generous && sched_ready_count(w) > 1) /* it runs the only one itself */
        sched_publish(w);
    while (g->live != 0) {
        enum sched_result result = lead_round(m, w, &weight, &spins);

        if (result == SCHED_LOST)
            return false;
        if (is_given_up(m))
            return true;
        if (result == SCHED_IDLE && g->live != 0)
            (void)sleep_at(m, w, UINT64_MAX);
    }
    if (can_be_alone(m->job) && m->sched.worker_count > 1 && !sched_is_stopped(&m->sched))
        pace_launched(m->job->pace, m->job->image->task_count, os_now_ns() - m->cycle_ns,
                      m->task_ns);
    return true;
}

/* Before a look at everything else. One that keeps tasks for itself looks sooner whether they got longer. */
static uint32_t tasks_at_once(const struct sim *m, const struct worker *w)
{
    uint64_t count = WEIGHED * TASK_NS_FINE / m->task_ns;

    if (m->sched.worker_count == 1 || w->is_generous)
        return BUDGET;
    return count < WEIGHED ? WEIGHED : count < BUDGET_SHORT ? (uint32_t)count : BUDGET_SHORT;
}

/* Runs some tasks and takes slots back. SCHED_IDLE: there was nothing to do for so long that it is time to sleep. */
static enum sched_result lead_round(struct sim *m, struct worker *w, struct weight *weight,
                                    uint32_t *spins)
{
    enum sched_result result;

    if (a32_load_relaxed(&m->alarm) != ALARM_NONE) /* the run is late anyway */
        answer_alarm(m);
    if (w->trace != NULL)
        trace_depth(w->trace, m->graph.live, sched_ready_count(w));
    result = sched_run(w, tasks_at_once(m, w));
    if (result == SCHED_LOST)
        return SCHED_LOST;
    if (m->sched.worker_count > 1)
        judge_tasks(m, w, weight);
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

static bool is_given_up(struct sim *m)
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

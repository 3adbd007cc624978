/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated chip: workers are threads, cores are modelled.
 *
 * The caller of a run takes place 0, the submitter's: it builds the graph on
 * a stack of its own (a fiber) and runs tasks whenever there is no room for
 * more. The other places have a thread each, which sleeps when there is
 * nothing to do.
 *
 * A kernel may wait for another one through memory. So a monitor looks at the
 * places while a run is going on, and when one has been in the same kernel
 * for two ticks it gives the place to another thread: the first one goes on
 * in its kernel, keeps its core, and hands the task in when the kernel
 * returns. Nothing of a place is touched by a thread that has lost it. The
 * graph is continued by whichever thread holds place 0.
 *
 *     thread        at a place --(monitor)--> set aside, in its kernel --> idle
 *     place         its thread --(monitor)--> an idle or new thread
 */
#include "chip/chip.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/fiber.h"
#include "base/os.h"
#include "port/port_sim.h"

enum {
    STACK_BYTES = 8 << 20, /* of the graph builder: its pages appear on use */
    BUDGET = 64,           /* tasks between two looks at everything else */
    SPINS = 2000,          /* looks for work before a thread sleeps */
    PATIENCE_NS = 1000000, /* without a slot coming back before the window grows */
    PATIENCE_NS_MAX = 1 << 30,
    TICK_NS = 1000000, /* of the monitor */
    TICKS_STUCK = 2,   /* in one kernel before its thread is set aside */
    TICKS_LINGER = 20, /* without a run before the monitor sleeps */
    WINDOW_PER_WORKER = 256,
    TASK_NS_GENEROUS = 100, /* longer ones are offered to other workers */
    POOL_UNIT_LOG = 28,     /* bytes of address space per share of a pool: 256 MiB */
    POOL_ALIGN = 2 << 20,
    POOL_KEEP = 64 << 20, /* memory that a pool keeps between runs */
};

struct sim;

struct thread {
    struct core core; /* first: aligned */
    struct sim *sim;
    struct worker *place; /* whose turn it is to be served by this thread; under the lock */
    struct thread *next;  /* list of all */
    struct thread *next_idle;
    bool is_idle; /* in the list of idle ones; under the lock */
    pthread_t handle;
    bool is_lost;      /* its place was given away; under the lock */
    uint8_t held_type; /* the core that it keeps meanwhile */
    uint16_t held_index;
    struct a32 go; /* wakes it when it is idle */
};

/* What the monitor saw last time. */
struct sight {
    struct thread *thread;
    uint32_t exec;
    uint32_t ticks;
};

struct sim {
    struct chip base;
    struct graph graph;
    struct sched sched;
    struct memory memory;
    struct fiber *fiber;
    const struct chip_job *job;
    uint32_t window;
    uint32_t spins;
    uint64_t patience_ns;
    bool has_fence_all;
    struct thread caller; /* whoever is in sim_run */
    struct trace_ring ring[SCHED_WORKERS_MAX];

    pthread_mutex_t lock; /* places, idle threads, cores */
    struct thread *at_place[SCHED_WORKERS_MAX];
    struct sight sight[SCHED_WORKERS_MAX];
    struct thread *idle;
    struct thread *all;
    uint32_t thread_count;
    uint32_t thread_max;
    uint32_t core_count[PTO_CORE_TYPES];
    uint64_t core_free[PTO_CORE_TYPES][PTO_CORES_MAX / 64];
    uint32_t core_tasks[PTO_CORES_MAX];
    uint64_t takeovers;

    _Alignas(128) struct a32 event; /* changes when a sleeper may have something to do */
    struct a32 is_closing;
    struct a32 sleeps; /* counted for the report */
    struct a32 wakes;
    _Alignas(128) struct a32 done; /* runs that have ended */
    struct a32 is_running;
    struct a32 monitor; /* changes to wake the monitor */
    struct a32 is_monitor_asleep;
    struct a32 ticks;
    pthread_t monitor_handle;
};

static int sim_open(const struct chip_params *params, struct chip **chip_out);
static void sim_close(struct chip *chip);
static int sim_run(struct chip *chip, const struct chip_job *job);
static void sim_room(struct chip *chip);

const struct chip_ops chip_sim_ops = {
    .name = "sim",
    .open = sim_open,
    .close = sim_close,
    .run = sim_run,
    .room = sim_room,
};

static int start_places(struct sim *m, uint32_t workers);
static struct thread *start_thread(struct sim *m);
static void *thread_main(void *arg);
static void serve_place(struct sim *m, struct worker *w);
static bool lead_run(struct sim *m, struct worker *w);
static bool run_for_room(struct sim *m, struct worker *w);
static bool run_to_end(struct sim *m, struct worker *w);
static enum sched_result lead_round(struct sim *m, struct worker *w, uint32_t *spins);
static bool sleep_at(struct sim *m, struct worker *w, uint64_t deadline_ns);
static void *monitor_main(void *arg);
static void watch_places(struct sim *m);
static void give_place_away(struct sim *m, uint32_t index, uint32_t exec);
static void bind_thread(struct sim *m, struct thread *th, struct worker *w);
static void put_idle(struct sim *m, struct thread *th);
static struct thread *take_idle(struct sim *m);
static bool acquire_core(struct sim *m, struct worker *w, uint32_t type);
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

    if (pool == &m->graph.heap_pool || bytes > m->memory.max) /* outputs may take all there is */
        bytes = (m->memory.max + POOL_ALIGN - 1) / POOL_ALIGN * POOL_ALIGN;
    (void)pool_reserve(pool, bytes, &m->memory); /* checked afterwards, all at once */
}

static void release_pool(struct pool *pool, uint64_t share, void *context)
{
    (void)share;
    (void)context;
    pool_release(pool);
}

static void trim_pool(struct pool *pool, uint64_t share, void *context)
{
    (void)share;
    (void)context;
    pool_trim(pool, POOL_KEEP);
}

static void note_missing(struct pool *pool, uint64_t share, void *context)
{
    bool *is_missing = context;

    (void)share;
    if (pool->base == NULL)
        *is_missing = true;
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
                             .sched = &m->sched,
                             .clusters = params->clusters,
                             .memory = &m->memory };
    m->memory.max = params->memory_max;
    m->core_count[PTO_CORE_AIC] = params->clusters;
    m->core_count[PTO_CORE_AIV] = 2 * params->clusters;
    m->thread_max = 3 * params->clusters + params->workers;
    m->spins = params->workers <= os_cpu_count() ? SPINS : 0;
    m->has_fence_all = os_fence_all_init();
    for (uint32_t type = 0; type < PTO_CORE_TYPES; type++)
        for (uint32_t i = 0; i < m->core_count[type]; i++)
            m->core_free[type][i / 64] |= 1ull << i % 64;
    pthread_mutex_init(&m->lock, NULL);
    sched_init(&m->sched, m);
    m->sched.aic_count = params->clusters;
    graph_each_pool(&m->graph, reserve_pool, m);
    graph_each_pool(&m->graph, note_missing, &is_missing);
    status = is_missing ? PTO_ENOMEM : fiber_create(STACK_BYTES, &m->fiber);
    if (status < 0)
        goto release_pools;
    m->caller.sim = m;
    core_init(&m->caller.core, &m->caller);
    m->caller.core.has_own_fence = !m->has_fence_all;
    status = start_places(m, params->workers);
    if (status < 0)
        goto release_pools;
    m->base.submitter = m->sched.worker[0];
    *chip_out = &m->base;
    return PTO_OK;

release_pools:
    sim_close(&m->base);
    return status;
}

static int start_places(struct sim *m, uint32_t workers)
{
    int status = os_thread_start(&m->monitor_handle, monitor_main, m);

    if (status < 0)
        return status;
    for (uint32_t i = 0; i < workers; i++) {
        struct worker *w = aligned_alloc(128, sizeof(*w));

        if (w == NULL)
            return PTO_ENOMEM;
        sched_add_worker(&m->sched, w, &m->graph);
        pthread_mutex_lock(&m->lock);
        acquire_core(m, w, PTO_CORE_AIC);
        acquire_core(m, w, PTO_CORE_AIV);
        pthread_mutex_unlock(&m->lock);
    }
    for (uint32_t i = 1; i < workers; i++) { /* the rings must be there before anyone looks */
        struct thread *th;

        pthread_mutex_lock(&m->lock);
        th = start_thread(m);
        if (th != NULL)
            bind_thread(m, th, m->sched.worker[i]);
        pthread_mutex_unlock(&m->lock);
        if (th == NULL)
            return PTO_ESYSTEM;
    }
    return PTO_OK;
}

static void sim_close(struct chip *chip)
{
    struct sim *m = sim_of(chip);

    a32_store_relaxed(&m->is_closing, 1); /* published by the numbers below */
    a32_add_acq_rel(&m->event, 1);        /* R14 */
    os_wake(&m->event, UINT32_MAX);
    a32_add_acq_rel(&m->monitor, 1); /* R14 */
    os_wake(&m->monitor, UINT32_MAX);
    if (m->monitor_handle != 0)
        pthread_join(m->monitor_handle, NULL);
    for (struct thread *th = m->all; th != NULL;) { /* the monitor made the last of them */
        struct thread *next = th->next;

        a32_add_acq_rel(&th->go, 1); /* R14 */
        os_wake(&th->go, 1);
        pthread_join(th->handle, NULL);
        free(th);
        th = next;
    }
    for (uint32_t i = 0; i < m->sched.worker_count; i++) {
        free(m->ring[i].record);
        free(m->sched.worker[i]);
    }
    fiber_destroy(m->fiber);
    graph_each_pool(&m->graph, release_pool, m);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

/* ---- threads ---- */

/* NULL if the system refuses, or if every core has its thread. Under the lock. */
static struct thread *start_thread(struct sim *m)
{
    struct thread *th;

    if (m->thread_count == m->thread_max)
        return NULL;
    th = aligned_alloc(128, (sizeof(*th) + 127) / 128 * 128);
    if (th == NULL)
        return NULL;
    memset(th, 0, sizeof(*th));
    th->sim = m;
    core_init(&th->core, th);
    th->core.has_own_fence = !m->has_fence_all;
    if (os_thread_start(&th->handle, thread_main, th) < 0) {
        free(th);
        return NULL;
    }
    th->next = m->all;
    m->all = th;
    m->thread_count++;
    return th;
}

/* Serves the place it is given, then waits for another one. */
static void *thread_main(void *arg)
{
    struct thread *th = arg;
    struct sim *m = th->sim;

    for (;;) {
        uint32_t go = a32_load_acquire(&th->go); /* A14 */
        struct worker *w;

        pthread_mutex_lock(&m->lock);
        w = th->place;
        if (w == NULL)
            put_idle(m, th);
        pthread_mutex_unlock(&m->lock);
        if (w == NULL) {
            if (a32_load_relaxed(&m->is_closing) != 0) /* after A14 */
                return NULL;
            os_wait(&th->go, go, UINT64_MAX);
            continue;
        }
        if (w->index != 0) {
            serve_place(m, w);
        } else if (lead_run(m, w)) {
            pthread_mutex_lock(&m->lock);
            m->at_place[0] = NULL;
            th->place = NULL;
            pthread_mutex_unlock(&m->lock);
            a32_add_acq_rel(&m->done, 1); /* R16 */
            os_wake(&m->done, UINT32_MAX);
        }
        if (a32_load_relaxed(&m->is_closing) != 0) /* after A14 */
            return NULL;
    }
}

/* Under the lock. */
static void put_idle(struct sim *m, struct thread *th)
{
    if (th->is_idle)
        return;
    th->is_idle = true;
    th->next_idle = m->idle;
    m->idle = th;
}

/* An idle thread or a new one; NULL if there is none to be had. Under the lock. */
static struct thread *take_idle(struct sim *m)
{
    struct thread *th = m->idle;

    if (th == NULL)
        return start_thread(m);
    m->idle = th->next_idle;
    th->is_idle = false;
    return th;
}

/* Under the lock. */
static void bind_thread(struct sim *m, struct thread *th, struct worker *w)
{
    th->place = w;
    m->at_place[w->index] = th;
    w->core = &th->core;
    th->core.global.sub_block_id = w->core_index[PTO_CORE_AIV] % 2;
    if (th != &m->caller) {
        a32_add_relaxed(&th->go, 1); /* the lock orders */
        os_wake(&th->go, 1);
    }
}

/* A worker's place other than the submitter's, until it is lost or the device is closed. */
static void serve_place(struct sim *m, struct worker *w)
{
    uint32_t spins = 0;

    for (;;) {
        switch (sched_run(w, BUDGET)) {
        case SCHED_LOST:
            return;
        case SCHED_BUDGET:
            spins = 0;
            continue;
        case SCHED_IDLE:
            break;
        }
        sched_flush(w);
        if (a32_load_relaxed(&m->is_closing) != 0) /* after A14 */
            return;
        if (spins++ < m->spins) {
            pto_pause();
            continue;
        }
        (void)sleep_at(m, w, UINT64_MAX);
        spins = 0;
    }
}

/* Returns false if nothing happened before the deadline. */
static bool sleep_at(struct sim *m, struct worker *w, uint64_t deadline_ns)
{
    uint32_t event = a32_load_relaxed(&m->event); /* F1 follows */
    bool is_in_time = true;

    sched_sleep_begin(&m->sched);
    if (!sched_has_offer(&m->sched, w) && a32_load_relaxed(&m->is_closing) == 0) { /* after A14 */
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
    uint32_t workers = m->sched.worker_count;
    uint32_t done = a32_load_relaxed(&m->done); /* this thread is the one that runs */
    struct worker *w = m->sched.worker[0];

    m->job = job;
    m->takeovers = 0;
    m->patience_ns = PATIENCE_NS;
    m->window = job->window != 0 ? job->window : workers * WINDOW_PER_WORKER;
    m->base.room_at = job->is_held ? UINT32_MAX : m->window;
    a32_store_relaxed(&m->sleeps, 0);
    a32_store_relaxed(&m->wakes, 0);
    a32_store_relaxed(&m->ticks, 0);
    memset(m->core_tasks, 0, sizeof(m->core_tasks));
    if (start_trace(m, job) < 0)
        return PTO_ENOMEM;
    sched_start(&m->sched, job->kernels, job->order_seed);
    w->is_generous = !job->is_held; /* what is ready stays here until the graph is complete */
    fiber_start(m->fiber, job->build, job->arg);
    pthread_mutex_lock(&m->lock);
    m->caller.is_lost = false;
    bind_thread(m, &m->caller, w);
    pthread_mutex_unlock(&m->lock);
    a32_store_relaxed(&m->is_running, 1); /* the lock orders */
    fence_full();                         /* F2 */
    if (a32_load_relaxed(&m->is_monitor_asleep) != 0) {
        a32_add_acq_rel(&m->monitor, 1);
        os_wake(&m->monitor, 1);
    }
    if (lead_run(m, w)) {
        pthread_mutex_lock(&m->lock);
        m->at_place[0] = NULL;
        pthread_mutex_unlock(&m->lock);
    } else {
        while (a32_load_acquire(&m->done) == done) /* A16 */
            os_wait(&m->done, done, UINT64_MAX);
    }
    a32_store_release(&m->is_running, 0);
    report_run(m, job);
    graph_each_pool(&m->graph, trim_pool, NULL);
    return PTO_OK;
}

/* A ring for each worker, kept until the device is closed: what a run recorded outlives it. */
static int start_trace(struct sim *m, const struct chip_job *job)
{
    for (uint32_t i = 0; i < m->sched.worker_count; i++) {
        struct trace_ring *ring = &m->ring[i];

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
        ring->has_each_time = job->trace == PTO_TRACE_TIMES;
        m->sched.worker[i]->trace = ring;
    }
    return PTO_OK;
}

/* Place 0: builds the graph and runs tasks. False: the thread lost the place to another one. */
static bool lead_run(struct sim *m, struct worker *w)
{
    while (!fiber_is_done(m->fiber)) {
        aptr_store_relaxed(&m->base.builder, __builtin_thread_pointer()); /* only compared */
        fiber_resume(m->fiber);
        aptr_store_relaxed(&m->base.builder, NULL);
        if (fiber_is_done(m->fiber))
            break;
        if (!run_for_room(m, w))
            return false;
    }
    return run_to_end(m, w);
}

static void sim_room(struct chip *chip)
{
    fiber_yield(sim_of(chip)->fiber);
}

/*
 * Runs tasks until half of the window is free; alone, until nothing is left to
 * run. When no slot comes back for a while although the window is full, it
 * grows: what is being waited for may not have been submitted yet. The while
 * doubles each time, so that a builder that is merely faster than the kernels
 * does not run away.
 */
static bool run_for_room(struct sim *m, struct worker *w)
{
    struct graph *g = &m->graph;
    uint32_t target = m->sched.worker_count > 1 ? m->window / 2 : 0;
    uint32_t spins = 0;
    uint64_t begin = os_now_ns();
    uint64_t before = w->executed;

    while (g->live > target) {
        enum sched_result result = lead_round(m, w, &spins);

        if (result == SCHED_LOST)
            return false;
        if (result == SCHED_IDLE && g->live > target &&
            !sleep_at(m, w, os_now_ns() + m->patience_ns))
            break;
    }
    if (w->executed - before >= 8)
        w->is_generous = (os_now_ns() - begin) / (w->executed - before) > TASK_NS_GENEROUS;
    if (g->live <= target) {
        m->base.room_at = m->window;
        m->patience_ns = PATIENCE_NS;
    } else {
        m->base.room_at = g->live + m->window;
        if (m->patience_ns < PATIENCE_NS_MAX)
            m->patience_ns *= 2;
    }
    return true;
}

static bool run_to_end(struct sim *m, struct worker *w)
{
    struct graph *g = &m->graph;
    uint32_t spins = 0;

    m->base.room_at = UINT32_MAX;
    w->is_generous = w->is_generous || m->job->is_held;
    if (m->sched.worker_count > 1 && w->is_generous)
        sched_publish(w);
    while (g->live != 0) {
        enum sched_result result = lead_round(m, w, &spins);

        if (result == SCHED_LOST)
            return false;
        if (result == SCHED_IDLE && g->live != 0)
            (void)sleep_at(m, w, UINT64_MAX);
    }
    return true;
}

/* Runs some tasks and takes slots back. SCHED_IDLE: there was nothing to do for so long that it is time to sleep. */
static enum sched_result lead_round(struct sim *m, struct worker *w, uint32_t *spins)
{
    enum sched_result result;

    if (w->trace != NULL)
        trace_depth(w->trace, m->graph.live, sched_ready_count(w));
    result = sched_run(w, BUDGET);
    if (result == SCHED_LOST)
        return SCHED_LOST;
    if (sched_collect(&m->sched, &m->graph) != 0 || result == SCHED_BUDGET) {
        *spins = 0;
        return SCHED_BUDGET;
    }
    if ((*spins)++ < m->spins) {
        pto_pause();
        return SCHED_BUDGET;
    }
    *spins = 0;
    return SCHED_IDLE;
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
    for (uint32_t i = 0; i < m->sched.worker_count; i++) {
        struct worker *w = m->sched.worker[i];

        report->executions += w->executed;
        report->stolen += i != 0 ? w->executed : 0;
        for (uint32_t type = 0; type < PTO_CORE_TYPES; type++)
            if ((w->core_mask & (1u << type)) != 0)
                m->core_tasks[w->core_index[type] +
                              (type == PTO_CORE_AIV ? m->base.clusters : 0)] += w->core_tasks[type];
    }
    memcpy(report->core_tasks, m->core_tasks, sizeof(report->core_tasks));
    pthread_mutex_unlock(&m->lock);
}

/* ---- cores ---- */

/* Under the lock. */
static bool acquire_core(struct sim *m, struct worker *w, uint32_t type)
{
    for (uint32_t i = 0; i < m->core_count[type]; i += 64) {
        uint64_t *word = &m->core_free[type][i / 64];
        uint32_t bit;

        if (*word == 0)
            continue;
        bit = (uint32_t)__builtin_ctzll(*word);
        *word &= *word - 1;
        w->core_index[type] = (uint16_t)(i + bit);
        w->core_mask |= (uint8_t)(1u << type);
        w->core_tasks[type] = 0;
        if (type == PTO_CORE_AIV && w->core != NULL)
            w->core->global.sub_block_id = w->core_index[type] % 2;
        return true;
    }
    return false;
}

bool port_core_acquire(void *machine, struct worker *w, uint32_t core_type)
{
    struct sim *m = machine;
    bool is_there;

    pthread_mutex_lock(&m->lock);
    is_there = acquire_core(m, w, core_type);
    pthread_mutex_unlock(&m->lock);
    return is_there;
}

bool port_core_lost(struct core *core, struct slot *s)
{
    struct thread *th = core->owner;
    struct sim *m = th->sim;
    bool is_lost;

    pthread_mutex_lock(&m->lock);
    is_lost = th->is_lost;
    th->is_lost = false;
    a32_store_relaxed(&core->lost, 0); /* both sides hold the lock */
    if (is_lost)
        m->core_free[th->held_type][th->held_index / 64] |= 1ull << th->held_index % 64;
    pthread_mutex_unlock(&m->lock);
    if (is_lost)
        sched_finished(&m->sched, &m->graph, s);
    return is_lost;
}

/* ---- the monitor ---- */

static void *monitor_main(void *arg)
{
    struct sim *m = arg;
    uint32_t quiet = 0;

    while (a32_load_relaxed(&m->is_closing) == 0) {    /* after A14 */
        uint32_t word = a32_load_acquire(&m->monitor); /* A14 */

        if (a32_load_relaxed(&m->is_running) != 0) { /* the lock orders */
            quiet = 0;
            a32_add_relaxed(&m->ticks, 1); /* a count */
            watch_places(m);
        } else {
            quiet++;
        }
        if (quiet <= TICKS_LINGER) {
            os_wait(&m->monitor, word, os_now_ns() + TICK_NS);
            continue;
        }
        a32_store_relaxed(&m->is_monitor_asleep, 1);
        fence_full(); /* F2 */
        if (a32_load_relaxed(&m->is_running) == 0 && a32_load_relaxed(&m->is_closing) == 0)
            os_wait(&m->monitor, word, UINT64_MAX);
        a32_store_relaxed(&m->is_monitor_asleep, 0);
        quiet = 0;
    }
    return NULL;
}

static void watch_places(struct sim *m)
{
    pthread_mutex_lock(&m->lock);
    for (uint32_t i = 0; i < m->sched.worker_count; i++) {
        struct thread *th = m->at_place[i];
        struct sight *sight = &m->sight[i];
        uint32_t exec;

        if (th == NULL)
            continue;
        exec = a32_load_relaxed(&th->core.exec); /* F3 follows */
        if (th == sight->thread && exec == sight->exec && exec % 2 != 0) {
            if (++sight->ticks >= TICKS_STUCK) {
                give_place_away(m, i, exec);
                sight->ticks = 0;
            }
        } else {
            *sight = (struct sight){ th, exec, 0 };
        }
    }
    pthread_mutex_unlock(&m->lock);
}

/*
 * The thread is told first; then, if every thread has passed a fence and it is
 * still seen in the same kernel, it will see that it was told when the kernel
 * returns, and will not touch the place again.
 */
static void give_place_away(struct sim *m, uint32_t index, uint32_t exec)
{
    struct thread *old = m->at_place[index];
    struct worker *w = m->sched.worker[index];
    struct thread *th = take_idle(m);
    uint32_t type;

    if (th == NULL)
        return; /* as many threads as cores are in kernels: nothing more could run */
    a32_store_relaxed(&old->core.lost, 1); /* F3 */
    if (m->has_fence_all)
        os_fence_all(); /* F3 */
    else
        fence_full(); /* F3 */
    /* Acquire says what the fence does in terms that a race detector knows. */
    if (a32_load_acquire(&old->core.exec) != exec) { /* it has returned: it may keep the place */
        a32_store_relaxed(&old->core.lost, 0);
        put_idle(m, th);
        return;
    }
    old->is_lost = true;
    old->place = NULL;
    type = old->core.slot->core_type;
    old->held_type = (uint8_t)type;
    old->held_index = w->core_index[type];
    m->core_tasks[old->held_index + (type == PTO_CORE_AIV ? m->base.clusters : 0)] +=
        w->core_tasks[type];
    w->core_mask &= (uint8_t) ~(1u << type);
    acquire_core(m, w, type);
    w->is_shared = true; /* the task that went on comes back through a shared list */
    m->takeovers++;
    bind_thread(m, th, w);
}

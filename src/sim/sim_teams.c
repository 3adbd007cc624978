/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cores and teams. Everything here runs under the lock of the device, except the kernels.
 * Invocations that must start together get all their cores in one step or none, so a waiting team
 * holds nothing that another team could wait for.
 */
#include "base/lock.h"
#include "sim/sim.h"

enum {
    /* ticks without a released core after which ordinary tasks may run although a team waits */
    TICKS_LAPSE = 10,
};

static void publish_places(struct sim *m);
static bool start_unit(struct sim *m, struct slot *s, struct thread **wake);
static struct slot *pop_team(struct sim *m, struct team_queue *queue);
static void wait_for_team(struct sim *m);

/* ---- cores ---- */

void sim_init_cores(struct sim *m, uint32_t clusters)
{
    m->sched.aic_count = clusters;
    seats_init(&m->seats, clusters);
    publish_places(m);
}

/* Frees a core whose kernel has ended. Waiting teams are tried again afterwards. */
void sim_put_core(struct sim *m, uint32_t type, uint32_t index)
{
    assert_held(&m->lock);
    seats_free(&m->seats, type, index);
    m->team_ticks = 0;
    m->is_lapsed = false;
}

static bool has_teams(const struct sim *m)
{
    return m->gangs.first != 0 || m->mixes.first != 0;
}

bool sim_acquire_core(struct sim *m, struct worker *w, uint32_t type)
{
    uint32_t index = seats_next(&m->seats, type, 0);

    assert_held(&m->lock);
    if (index == m->seats.count[type] || (has_teams(m) && !m->is_lapsed))
        return false;
    seats_take(&m->seats, type, index);
    w->core_index[type] = (uint16_t)index;
    w->core_mask |= (uint8_t)(1u << type);
    w->reported[type] = w->executed[type];
    if (type == PTO_CORE_AIV)
        w->core->global.sub_block_id = (int32_t)(index % 2);
    publish_places(m);
    return true;
}

void sim_report_core(struct sim *m, struct worker *w, uint32_t type)
{
    assert_held(&m->lock);
    m->core_tasks[sim_core_number(m, type, w->core_index[type])] +=
        (uint32_t)(w->executed[type] - w->reported[type]);
    w->reported[type] = w->executed[type];
}

void sim_detach_core(struct sim *m, struct worker *w, uint32_t type)
{
    assert_held(&m->lock);
    sim_report_core(m, w, type);
    w->core_mask &= (uint8_t) ~(1u << type);
}

bool port_core_acquire(void *machine, struct worker *w, uint32_t core_type)
{
    struct sim *m = machine;
    bool is_there;

    pthread_mutex_lock(&m->lock);
    is_there = sim_acquire_core(m, w, core_type);
    pthread_mutex_unlock(&m->lock);
    return is_there;
}

/*
 * Returns no limit to the number of tasks: a worker can run any number on its core, one after the
 * other.
 */
uint32_t port_core_room(void *machine, uint32_t core_type)
{
    (void)machine;
    (void)core_type;
    return UINT32_MAX;
}

void port_cores_yield(void *machine, struct worker *w)
{
    struct sim *m = machine;
    struct thread *wake;

    pthread_mutex_lock(&m->lock);
    for (uint32_t type = 0; type < PTO_CORE_TYPES; type++)
        if ((w->core_mask & (1u << type)) != 0) {
            sim_detach_core(m, w, type);
            /*
             * sim_put_core would clear is_lapsed, but this worker may get its core back while
             * is_lapsed is set
             */
            seats_free(&m->seats, type, w->core_index[type]);
        }
    wake = sim_start_teams(m);
    pthread_mutex_unlock(&m->lock);
    sim_wake_threads(wake);
}

/* Publishes to places whether a team wants their cores, and which cores are free for them. */
static void publish_places(struct sim *m)
{
    /* relaxed: ATTEND_TEAMS changes only under the lock */
    uint32_t attention = a32_load_relaxed(&m->sched.attention);
    /* relaxed: `spare` is written under the lock only */
    uint32_t before = a32_load_relaxed(&m->sched.spare);
    uint32_t spare = 0;

    if (!has_teams(m) || m->is_lapsed)
        for (uint32_t type = 0; type < PTO_CORE_TYPES; type++)
            if (seats_next(&m->seats, type, 0) != m->seats.count[type])
                spare |= 1u << type;
    a32_store_relaxed(&m->sched.spare, spare); /* fence F1 follows */
    if (has_teams(m) != ((attention & ATTEND_TEAMS) != 0)) {
        sched_attend(&m->sched, has_teams(m) ? ATTEND_TEAMS : 0, ATTEND_TEAMS);
        sched_signal(&m->sched);
    } else if ((spare & ~before) != 0) {
        sched_signal(&m->sched);
    }
}

/* ---- teams ---- */

void port_team_start(void *machine, struct slot *s)
{
    struct sim *m = machine;
    struct team_queue *queue = (s->flags & SLOT_IS_GANG) != 0 ? &m->gangs : &m->mixes;
    uint32_t line = graph_slot_line(&m->graph, s);
    struct thread *wake;
    bool is_serial;

    pthread_mutex_lock(&m->lock);
    /* read under the lock: after it the run may end and the next one begin */
    is_serial = m->is_serial;
    if (!has_teams(m)) {
        m->team_ticks = 0;
        m->is_lapsed = false;
    }
    a32_store_relaxed(&s->pending, 0); /* relaxed: a link of a list that the lock protects */
    if (queue->first == 0)
        queue->first = line;
    else
        /* relaxed: a link of a list that the lock protects */
        a32_store_relaxed(&graph_slot(&m->graph, queue->last)->pending, line);
    queue->last = line;
    wake = sim_start_teams(m);
    pthread_mutex_unlock(&m->lock);
    sim_wake_threads(wake);
    if (is_serial)
        wait_for_team(m);
}

/*
 * Called by the only thread that runs ordinary tasks, to release its cores for the team that waits
 * for them. It waits only for a short time, because the team may depend on a task, and a deferred
 * task may complete at any time.
 */
static void wait_for_team(struct sim *m)
{
    /*
     * count slices instead of time: while this thread gets no CPU, the team probably gets none
     * either
     */
    enum { SLICE_NS = 10000000 };
    uint32_t slices = 0;

    port_cores_yield(m, m->sched.worker[0]);
    sched_sleep_begin(&m->sched);
    while (slices < SIM_SERIAL_NS / SLICE_NS) {
        /* relaxed: fence F1 in sched_sleep_begin has come before */
        uint32_t event = a32_load_relaxed(&m->event);

        if (a32_load_relaxed(&m->sched.finished) != 0 || sched_has_deferred(&m->sched) ||
            sched_is_ending(&m->sched))
            break; /* the caller handles the end of the run and deferred tasks */
        if (!os_wait(&m->event, event, os_now_ns() + SLICE_NS))
            slices++;
    }
    sched_sleep_end(&m->sched);
}

static struct slot *pop_team(struct sim *m, struct team_queue *queue)
{
    struct slot *s = graph_slot(&m->graph, queue->first);

    assert_held(&m->lock);
    /* relaxed: a link of a list that the lock protects */
    queue->first = a32_load_relaxed(&s->pending);
    return s;
}

/* Returns how many invocations of the team's blocks were not started. */
static uint32_t unstarted(const struct slot *s)
{
    return (s->block_count - s->block_next) * slot_lane_count(s->lanes);
}

struct thread *sim_start_teams(struct sim *m)
{
    struct thread *wake = NULL;
    struct team_queue *queue = &m->gangs;

    assert_held(&m->lock);
    for (;;) {
        struct slot *s;

        if (queue->first == 0) {
            if (queue == &m->mixes)
                break;
            queue = &m->mixes;
            continue;
        }
        s = graph_slot(&m->graph, queue->first);
        if (sched_is_stopped(&m->sched)) {
            uint32_t count = unstarted(s);

            s->block_next = s->block_count;
            sched_skipped(&m->sched, &m->graph, pop_team(m, queue), count);
        } else if (!sched_is_ending(&m->sched) && start_unit(m, s, &wake)) {
            m->team_ticks = 0;
            m->is_lapsed = false;
            if (s->block_next == s->block_count)
                (void)pop_team(m, queue);
        } else if (queue == &m->gangs && m->is_lapsed) {
            /*
             * is_lapsed: gangs have waited for too long, so tasks with several lanes may get cores
             * before them
             */
            queue = &m->mixes;
        } else {
            break;
        }
    }
    publish_places(m);
    return wake;
}

/*
 * Starts invocations that must start together: all of a gang, or those of one block with several
 * lanes. False: there are not enough free cores now.
 */
static bool start_unit(struct sim *m, struct slot *s, struct thread **wake)
{
    assert_held(&m->lock);
    /* mutation: gang-piecemeal */
    uint32_t blocks = (s->flags & SLOT_IS_GANG) != 0 ? s->block_count : 1;
    uint32_t lanes = slot_lane_count(s->lanes);
    struct thread *threads = NULL;
    uint32_t seat = 0;

    if (seats_count(&m->seats, s->lanes) < blocks)
        return false;
    for (uint32_t i = 0; i < blocks * lanes; i++) {
        struct thread *th = sim_take_idle(m);

        if (th == NULL) {
            while (threads != NULL) {
                th = threads;
                threads = th->next_idle;
                sim_put_idle(m, th);
            }
            if (m->lanes_running == 0) /* no team is running, so no thread will become idle */
                sched_fail(&m->sched, s, PTO_ESYSTEM);
            return false;
        }
        th->next_idle = threads;
        threads = th;
    }
    for (uint32_t b = 0; b < blocks; b++, seat++) {
        uint32_t block = s->block_next++;

        for (uint32_t lane = 0; lane < SLOT_LANES; lane++) {
            struct thread *th = threads;
            uint32_t type = lane == LANE_AIC ? PTO_CORE_AIC : PTO_CORE_AIV;

            if ((s->lanes & (1u << lane)) == 0)
                continue;
            threads = th->next_idle;
            seat = seats_find(&m->seats, s->lanes, lane, seat);
            atomic_note_write(&th->lane);
            th->lane = (struct lane){
                .slot = s,
                .block = block,
                .kernel = slot_kernel(s, lane),
                .type = (uint8_t)type,
                .core = (uint16_t)seats_core(s->lanes, lane, seat),
            };
            seats_take(&m->seats, type, th->lane.core);
            th->core.global.sub_block_id = type == PTO_CORE_AIV ? th->lane.core % 2 : 0;
            th->next_idle = *wake;
            *wake = th;
        }
    }
    m->lanes_running += blocks * lanes;
    return true;
}

void sim_wake_threads(struct thread *list)
{
    while (list != NULL) {
        struct thread *th = list;

        list = th->next_idle; /* read the link first, because the thread can become idle again */
        a32_add_acq_rel(&th->go, 1); /* R20 */
        os_wake(&th->go, 1);
    }
}

static void lane_crashed(struct sim *m, struct thread *th)
{
    const struct lane *lane = &th->lane;
    uint32_t exec = a32_load_relaxed(&th->core.exec); /* relaxed: only this thread writes exec */

    if (sched_crashed(&m->sched, lane->slot, th->crash.signal, th->crash.addr, lane->block,
                      lane->type == PTO_CORE_AIC ? LANE_AIC : LANE_AIV0 + lane->core % 2))
        sim_keep_crash(m, th, lane->slot, lane->kernel);
    th->core.slab.count = 0;
    th->core.slab.error = 0;
    /* exec is even again, as after a regular return of the kernel: no kernel runs */
    a32_store_relaxed(&th->core.exec, exec + 1);
}

static void lane_threw(struct sim *m, struct thread *th)
{
    const struct lane *lane = &th->lane;
    uint32_t exec = a32_load_relaxed(&th->core.exec); /* relaxed: only this thread writes exec */
    struct failure why =
        sim_throw_failure(th, lane->kernel, lane->block,
                          lane->type == PTO_CORE_AIC ? LANE_AIC : LANE_AIV0 + lane->core % 2);

    sched_threw(&m->sched, lane->slot, &why);
    th->core.slab.count = 0;
    th->core.slab.error = 0;
    /* exec is even again, as after a regular return of the kernel: no kernel runs */
    a32_store_relaxed(&th->core.exec, exec + 1);
}

static void invoke_lane(void *arg)
{
    struct thread *th = arg;
    struct slot *s = th->lane.slot;

    (void)core_invoke(&th->core, s, s->tensor, th->sim->sched.kernels[th->lane.kernel].fn,
                      th->lane.block, s->block_count);
}

void sim_run_lane(struct sim *m, struct thread *th)
{
    const struct lane lane = th->lane;
    struct slot *const s = lane.slot;
    struct thread *wake;
    uint32_t thread = 0;
    uint64_t cpu_ns;

    if (m->trace != NULL)
        (void)trace_watch(m->trace, s, TRACE_BEGIN);
    th->lane.cpu_ns = m->trace != NULL ? sim_record_cpu(&thread) : 0;
    /*
     * `begin` is a field and not a local variable, because sigsetjmp may return a second time after
     * a crash
     */
    th->lane.begin = m->trace != NULL ? port_cycles() : 0;
    if ((s->flags & SLOT_IS_TIMED) != 0)
        sched_time_begin(&m->sched, s);
    if (sigsetjmp(th->crash.back, 0) != 0)
        lane_crashed(m, th);
    else if (sim_call_guarded(th, invoke_lane))
        lane_threw(m, th);
    if (m->trace != NULL)
        (void)trace_watch(m->trace, s, TRACE_END);
    cpu_ns = m->trace != NULL ? sim_record_cpu(&thread) : 0;
    pthread_mutex_lock(&m->lock);
    sim_thread_returned(th);
    if (m->trace != NULL) {
        uint32_t number = sim_core_number(m, lane.type, lane.core);

        trace_put_cpu(m->trace, th->lane.begin, th->lane.cpu_ns, thread);
        trace_put(m->trace, th->lane.begin, TRACE_BEGIN, s->seq, number, lane.kernel, lane.block);
        trace_end(m->trace, s->seq, number, lane.block);
        trace_put_cpu(m->trace, m->trace->last, cpu_ns, thread);
        if (core_has_deferred(&th->core))
            trace_defer(m->trace, s->seq);
    }
    m->core_tasks[sim_core_number(m, lane.type, lane.core)]++;
    m->lane_executions++;
    m->lanes_running--;
    sim_put_core(m, lane.type, lane.core);
    /*
     * the thread is idle; if a team has assigned work to it in the meantime, thread_main runs that
     * work
     */
    sim_put_idle(m, th);
    wake = sim_start_teams(m);
    pthread_mutex_unlock(&m->lock);
    sim_wake_threads(wake);
    sched_returned(&m->sched, &m->graph, s, &th->core);
}

void sim_drop_teams(struct sim *m)
{
    pthread_mutex_lock(&m->lock);
    if (has_teams(m))
        /* the run is stopped, so this call starts no team and has no threads to wake */
        (void)sim_start_teams(m);
    pthread_mutex_unlock(&m->lock);
}

void sim_watch_teams(struct sim *m)
{
    struct thread *wake = NULL;

    pthread_mutex_lock(&m->lock);
    if (has_teams(m)) {
        if (++m->team_ticks >= TICKS_LAPSE)
            m->is_lapsed = true;
        wake = sim_start_teams(m); /* sim_start_teams drops the teams if the run was stopped */
    }
    pthread_mutex_unlock(&m->lock);
    sim_wake_threads(wake);
}

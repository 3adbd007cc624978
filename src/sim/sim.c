/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated chip: the loops that threads run at their places. sim.h describes places and
 * threads.
 */
#include "sched/order.h"
#include <signal.h>

#include "sim/sim.h"

enum {
    LOOKS = 16, /* number of polls in one call of spin_for_offer */
    /* first interval between two polls of conditions; it doubles up to POLL_NS_MAX */
    POLL_NS = 20000,
    POLL_NS_MAX = 1000000,
    /*
     * if the orchestration's thread is in a kernel, idle time after which another thread resumes
     * the orchestration
     */
    HOME_NS = 20000000,
    HOME_POLL_NS = 500000, /* as HOME_NS, while the orchestration polls */
    HOME_LOOK_NS =
        /* interval between checks whether the orchestration's own thread has left its kernel */
    500000,
    /* interval between two checks whether a run that exceeded its deadline has ended */
    HELD_NS = 100000,
};

static void serve_at_place(void *arg);
static void serve(struct sim *m, struct worker *w);
static uint32_t spin_for_offer(struct sim *m, const struct worker *w);
static void lead_at_place(void *arg);
static bool lead(struct sim *m, struct thread *th);
static void renew_grace(struct sim *m);
static bool run_for_home(struct sim *m, struct thread *th);
static void answer_alarm(struct sim *m);
static bool give_up_when_due(struct sim *m);
static bool run_for_room(struct sim *m, struct worker *w);
static bool run_for_task(struct sim *m, struct worker *w);
static bool run_for_poll(struct sim *m, struct worker *w);
static bool run_to_end(struct sim *m, struct worker *w);
static enum sched_result lead_round(struct sim *m, struct worker *w, struct sharing_sample *sample,
                                    uint32_t *spins);
static bool sleep_at(struct sim *m, struct worker *w, uint64_t deadline_ns);

/* ---- places ---- */

/* Serves a place other than the submitter's, until the thread loses it or the device is closed. */
void sim_serve_place(struct sim *m, struct thread *th)
{
    if (sigsetjmp(th->crash.back, 0) != 0 && sim_crash_landed(m, th))
        return;
    while (sim_call_guarded(th, serve_at_place) && !sim_throw_landed(m, th)) {
    }
}

static void serve_at_place(void *arg)
{
    struct thread *th = arg;

    serve(th->sim, th->place);
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
        /*
         * SCHED_HELD: the run has exceeded its deadline, so no more tasks start, but the thread at
         * place 0 may still be in a kernel or in the orchestration
         */
        if (result == SCHED_HELD) {
            /* a missed wake only delays the next check */
            os_wait(&m->event, a32_load_relaxed(&m->event), os_now_ns() + HELD_NS);
            continue;
        }
        if (sharing_sample_is_due(&sample, w))
            sharing_other_timed(w, &sample, os_now_ns());
        if (result == SCHED_BUDGET) {
            spins = 0;
            continue;
        }
        sched_flush(w);
        /* relaxed: the acquire A14 precedes this load */
        if (a32_load_relaxed(&m->is_closing) != 0)
            return;
        if (spins < m->spins) {
            spins += spin_for_offer(m, w);
            continue;
        }
        sim_restore_thread(m, w->core->owner);
        (void)sleep_at(m, w, UINT64_MAX);
        spins = 0;
    }
}

/*
 * Polls for a short while for a task that another worker offers. Spins rarely, because spinning
 * slows down a thread that shares the CPU core. Returns the number of polls.
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

/*
 * Sleeps until an event. Returns false if nothing happened before the deadline. This does not use
 * base/waker.h: the engine announces and counts sleepers (sched_sleep_begin, F1), also on cards,
 * and threads of one process sleep here for several events at once, each of which is signalled
 * through port_wake.
 */
static bool sleep_at(struct sim *m, struct worker *w, uint64_t deadline_ns)
{
    uint32_t event = a32_load_relaxed(&m->event); /* fence F1 follows */
    bool is_in_time = true;

    sched_sleep_begin(&m->sched);
    /* no thread signals that a condition holds, so place 0 polls conditions */
    if (w->index == 0 && sched_has_deferred(&m->sched)) {
        uint64_t poll_ns = os_now_ns() + m->poll_ns;

        deadline_ns = poll_ns < deadline_ns ? poll_ns : deadline_ns;
        m->poll_ns = m->poll_ns < POLL_NS_MAX / 2 ? 2 * m->poll_ns : POLL_NS_MAX;
    }
    if (w->index == 0 && m->give_up_ns != 0 && m->give_up_ns < deadline_ns)
        deadline_ns = m->give_up_ns;
    /* relaxed: the acquire A14 precedes this load */
    if (!sched_has_offer(&m->sched, w) && a32_load_relaxed(&m->is_closing) == 0 &&
        (w->index != 0 || a32_load_relaxed(&m->alarm) == ALARM_NONE)) { /* F1 */
        /* relaxed: the counter is only a statistic */
        a32_add_relaxed(&m->sleeps, 1);
        is_in_time = os_wait(&m->event, event, deadline_ns);
    }
    sched_sleep_end(&m->sched);
    return is_in_time;
}

void port_wake(void *machine)
{
    struct sim *m = machine;

    a32_add_relaxed(&m->wakes, 1); /* relaxed: the counter is only a statistic */
    a32_add_acq_rel(&m->event, 1);
    os_wake(&m->event, UINT32_MAX);
}

/* ---- place 0 ---- */

/* Called by the thread that takes place 0, from which on the monitor watches the run. */
void sim_begin_lead(struct sim *m)
{
    const struct orch_run *run = &m->run;
    uint64_t seed = run->options->order_seed;
    uint32_t live_max = run->options->live_max;
    bool is_due_soon;

    m->poll_ns = POLL_NS;
    sharing_begin(&m->orch.sharing, m->sched.worker[0],
                  &(struct sharing_run){
                      .live_max = seed != 0 && live_max == 0 ? order_live_max(seed) : live_max,
                      .is_held = m->orch.is_held,
                      .image = m->image,
                      .launches = m->image != NULL ? &run->graph->launches : NULL });
    if (m->image == NULL)
        fiber_start(m->fiber, orch_build, &m->orch);
    pthread_mutex_lock(&m->lock);
    m->stall_since_ns = m->looked_ns = os_now_ns();
    /* read before the lock is released, after which the monitor owns deadline_ns */
    is_due_soon = m->deadline_ns < m->stall_since_ns + 2 * SIM_TICK_NS;
    /* relaxed: only the monitor raises the alarm, and it does so under the lock */
    a32_store_relaxed(&m->alarm, ALARM_NONE);
    m->caller.is_lost = false;
    sim_bind_thread(m, &m->caller, m->sched.worker[0]);
    pthread_mutex_unlock(&m->lock);
    a32_store_relaxed(&m->is_running, 1); /* relaxed: the lock orders the data of the run */
    fence_full();                         /* F2 */
    /* otherwise the monitor is running, and its next tick comes before the deadline */
    if (a32_load_relaxed(&m->is_monitor_asleep) != 0 || is_due_soon) {
        a32_add_acq_rel(&m->monitor, 1);
        os_wake(&m->monitor, 1);
    }
}

/*
 * Makes the roots of the launched image ready. Does nothing on a thread that takes over place 0
 * later.
 */
static void seed_image(struct sim *m, struct worker *w)
{
    if (m->is_seeded)
        return;
    m->is_seeded = true;
    sched_launch(w, m->image, sharing_launch_begins(&m->orch.sharing, os_now_ns()));
}

/*
 * Called after a signal handler made the thread leave the orchestration, because it crashed or had
 * to end. The orchestration is not resumed.
 */
static void land_from_builder(struct sim *m, struct thread *th)
{
    aptr_store_relaxed(&m->orch.builder, NULL);
    m->is_builder_gone = true;
    if (th->crash.signal == SIGURG) {
        sim_keep_builder_place(m, th);
        /* the next step fails the run with the reason that caused the signal */
        orch_attend(&m->orch);
        return;
    }
    sim_keep_builder_crash(m, th);
    orch_crashed(&m->orch, th->crash.signal, th->crash.addr,
                 m->is_torn ? 0 : sim_scalar_beyond(m, th->crash.addr), m->is_torn);
}

bool sim_lead_run(struct sim *m, struct thread *th)
{
    if (sigsetjmp(th->crash.back, 0) != 0) {
        if (orch_is_builder(&m->orch))
            land_from_builder(m, th);
        else if (sim_crash_landed(m, th))
            return false;
        if (m->is_torn) {
            sim_end_torn(m);
            return true;
        }
    }
    while (sim_call_guarded(th, lead_at_place))
        if (sim_throw_landed(m, th))
            return false;
    return th->has_led;
}

static void lead_at_place(void *arg)
{
    struct thread *th = arg;

    th->has_led = lead(th->sim, th);
}

/*
 * Extends once the time in which an orchestration has to return after its run has failed. It
 * applies to an orchestration that was paused at that time, for example because no room became
 * free, and could not return. After it has resumed, its operations return errors without waiting.
 */
static void renew_grace(struct sim *m)
{
    if (m->is_grace_renewed)
        return;
    m->is_grace_renewed = true;
    pthread_mutex_lock(&m->lock); /* under the lock, because the monitor reads leave_ns */
    if (m->leave_ns != UINT64_MAX)
        m->leave_ns = sim_grace_end(m, os_now_ns());
    pthread_mutex_unlock(&m->lock);
}

static bool lead(struct sim *m, struct thread *th)
{
    struct worker *w = th->place;

    if (m->image != NULL)
        seed_image(m, w);
    while (m->image == NULL && !fiber_is_done(m->fiber) && !m->is_builder_gone) {
        /*
         * place 0 was lost while the orchestration was paused, so it has to be resumed rather than
         * started
         */
        if (!m->is_builder_waiting) {
            if (m->home != NULL && m->home != th && !run_for_home(m, th))
                return false;
            if (m->is_builder_gone)
                break;
            if (sched_is_ending(&m->sched))
                renew_grace(m);
            m->home = th;
            m->is_builder_polling = false;
            sched_clear_hungry(w);
            /* the address is only compared, never dereferenced */
            aptr_store_relaxed(&m->orch.builder, __builtin_thread_pointer());
            fiber_resume(m->fiber);
            aptr_store_relaxed(&m->orch.builder, NULL);
            if (fiber_is_done(m->fiber) || m->is_builder_gone)
                break;
        }
        if (m->awaited_slot != 0    ? !run_for_task(m, w)
            : m->is_builder_polling ? !run_for_poll(m, w)
                                    : !run_for_room(m, w))
            return false;
        m->is_builder_waiting = false;
    }
    if (m->is_forked)
        sim_end_child();
    if (m->is_builder_gone)
        m->is_lost = true;
    if (m->run.is_built_only) {
        sched_discard(w);
        return true;
    }
    if (m->orch.is_held && !m->is_seeded) {
        m->is_seeded = true;
        sched_settle_all(w);
    }
    return run_to_end(m, w);
}

void port_room(void *machine)
{
    struct sim *m = machine;

    m->is_builder_waiting = true;
    fiber_yield(m->fiber);
}

void port_poll(void *machine)
{
    struct sim *m = machine;

    /* relaxed: the monitor only checks whether the counter changes */
    a32_add_relaxed(m->orch.is_listening ? &m->listens : &m->polls, 1);
    m->is_builder_waiting = m->is_builder_polling = true;
    fiber_yield(m->fiber);
}

/*
 * Called by an operation of the orchestration. If the orchestration is given up, its fiber is
 * paused here and never resumed, so its resources stay allocated.
 */
void port_poll_failed(void *machine)
{
    struct sim *m = machine;

    if (m->is_forked)
        sim_end_child();
    /* relaxed: if this load misses the store, the orchestration's next operation sees it */
    if (a32_load_relaxed(&m->is_leaving) == 0 || m->is_builder_gone)
        return;
    m->is_builder_gone = true;
    fiber_yield(m->fiber);
}

int port_wait(void *machine, uint32_t slot, uint32_t seq, uint64_t deadline_ns)
{
    struct sim *m = machine;

    m->awaited_slot = slot;
    m->awaited_seq = seq;
    m->awaited_until_ns = deadline_ns;
    m->is_builder_waiting = true;
    fiber_yield(m->fiber);
    m->awaited_slot = 0;
    return m->graph.info[slot].seq != seq ? PTO_OK : PTO_ETIMEOUT;
}

/*
 * Returns the present time, which is needed to decide whether tasks are shared with other workers.
 * Returns 0 without reading the clock if there is only one worker.
 */
static uint64_t time_for_sharing(const struct sim *m)
{
    return m->sched.worker_count > 1 ? os_now_ns() : 0;
}

/*
 * Runs tasks until the task for which the builder waits has completed, or the time limit of that
 * wait is over.
 */
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
    sharing_builder_waited(&m->orch.sharing);
    return true;
}

/* Runs some tasks for a builder that polls; if there are none, yields the CPU. */
static bool run_for_poll(struct sim *m, struct worker *w)
{
    struct sharing_sample sample;
    uint32_t spins = m->spins;
    enum sched_result result;

    sharing_sample_start(&sample, w, time_for_sharing(m));
    result = lead_round(m, w, &sample, &spins);
    if (result == SCHED_LOST)
        return false;
    if (result == SCHED_IDLE && !give_up_when_due(m))
        os_yield();
    sharing_builder_waited(&m->orch.sharing);
    return true;
}

/*
 * Runs tasks until the orchestration's own thread, which is in a kernel, can resume the
 * orchestration. This thread has place 0 in the meantime. True: this thread resumes it, because the
 * wait took too long. False: the own thread is back, or this thread has lost the place as well.
 */
static bool run_for_home(struct sim *m, struct thread *th)
{
    bool is_kept = m->run.options->keeps_thread;
    uint64_t room_wait_ns = m->is_builder_polling ? HOME_POLL_NS : HOME_NS;
    uint64_t until_ns = is_kept ? UINT64_MAX : os_now_ns() + room_wait_ns;
    struct sharing_sample sample;
    struct worker *w = th->place;
    uint32_t spins = 0;

    sharing_sample_start(&sample, w, time_for_sharing(m));
    for (;;) {
        enum sched_result result;

        if (sim_hand_home(m, th))
            return false;
        result = lead_round(m, w, &sample, &spins);
        if (result == SCHED_LOST)
            return false;
        if (give_up_when_due(m)) {
            /*
             * only its own thread may resume the orchestration, and that thread never returns from
             * its kernel
             */
            m->is_builder_gone = is_kept;
            return true;
        }
        if (result != SCHED_IDLE)
            continue;
        if (os_now_ns() >= until_ns)
            return true;
        /* no thread signals that the orchestration's thread has returned, so this thread polls */
        (void)sleep_at(m, w, os_now_ns() + HOME_LOOK_NS);
    }
}

/* Runs tasks until there is room for more submits, or as long as waiting for that is worthwhile. */
static bool run_for_room(struct sim *m, struct worker *w)
{
    struct sharing *sharing = &m->orch.sharing;
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
        if (result == SCHED_IDLE && !sharing_has_room(sharing, w)) {
            uint64_t now_ns = os_now_ns();

            sharing_builder_pauses(sharing, now_ns);
            if (!sleep_at(m, w, now_ns + sharing->room_wait_ns))
                break;
        }
    }
    if (g->live == 0)
        g->is_shared = false; /* no tasks are left, so no other thread uses the graph */
    sharing_builder_resumes(sharing, w, time_for_sharing(m));
    return true;
}

static bool run_to_end(struct sim *m, struct worker *w)
{
    struct graph *g = &m->graph;
    struct sharing_sample sample;
    uint32_t spins = 0;

    sharing_sample_start(&sample, w, time_for_sharing(m));
    sharing_builder_is_done(&m->orch.sharing, w);
    /* this thread runs the only ready task itself, so there is nothing to share */
    if (w->is_offering && sched_ready_count(w) > 1)
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
    if (sharing_times_launch(&m->orch.sharing) && !sched_is_stopped(&m->sched))
        sharing_launch_ends(&m->orch.sharing, os_now_ns());
    return true;
}

/*
 * One round of place 0: runs some tasks and reclaims slots. SCHED_IDLE: idle for so long that the
 * thread should sleep.
 */
static enum sched_result lead_round(struct sim *m, struct worker *w, struct sharing_sample *sample,
                                    uint32_t *spins)
{
    enum sched_result result;

    /* relaxed: if the load is late, a few more tasks start */
    if (a32_load_relaxed(&m->alarm) != ALARM_NONE)
        answer_alarm(m);
    if (w->trace != NULL)
        trace_depth(w->trace, m->graph.live, sched_ready_count(w));
    result = sched_run(w, sharing_tasks_at_once(&m->orch.sharing, w));
    if (result == SCHED_LOST)
        return SCHED_LOST;
    if (m->sched.worker_count > 1 && sharing_sample_is_due(sample, w))
        sharing_round_ends(&m->orch.sharing, w, sample, os_now_ns());
    if (sched_has_deferred(&m->sched) && sched_poll(&m->sched, &m->graph) != 0) {
        m->poll_ns = POLL_NS;
        result = SCHED_BUDGET;
    }
    if (sched_collect(&m->sched, &m->graph) != 0 || result != SCHED_IDLE) {
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

uint64_t sim_grace_end(const struct sim *m, uint64_t now_ns)
{
    uint64_t set = m->run.options->grace_ns;
    uint64_t ns = set != 0 ? set : PTO_GRACE_DEFAULT_NS;

    return ns < UINT64_MAX - now_ns ? now_ns + ns : UINT64_MAX;
}

/*
 * Whether the orchestration was merely delayed when the deadline passed: it was paused until there
 * is room, or its thread was in a kernel, and it would have resumed soon. Then the run fails as if
 * the orchestration's next operation had noticed the deadline. False if the orchestration waits for
 * a task or must stay on its thread, or if it has waited for room in vain several times, because
 * then a kernel does not return.
 */
static bool has_paused_building(const struct sim *m)
{
    if (m->image != NULL || fiber_is_done(m->fiber) || m->is_builder_gone)
        return false;
    if (m->is_builder_waiting ? m->awaited_slot != 0 : m->run.options->keeps_thread)
        return false;
    return !sharing_waits_in_vain(&m->orch.sharing, os_now_ns());
}

/*
 * Describes the waiting tasks, or ends the run, as the monitor requested. Kernels that do not
 * return within the grace are given up.
 */
static void answer_alarm(struct sim *m)
{
    uint32_t alarm = a32_swap_acq_rel(&m->alarm, ALARM_NONE);
    bool is_stall = alarm == ALARM_STALL;
    bool was_stopped = sched_is_stopped(&m->sched);
    uint64_t now_ns = os_now_ns();
    uint64_t give_up_ns = is_stall && was_stopped ? now_ns : sim_grace_end(m, now_ns);

    if (alarm == ALARM_DESCRIBE) {
        sim_status_describe(m);
        return;
    }
    if (!was_stopped) {
        if (!is_stall && has_paused_building(m))
            orch_late_building(&m->orch);
        else
            orch_describe_stall(&m->orch, is_stall);
        sim_ask_stuck(m);
        sched_attend(&m->sched, ATTEND_FAILED, 0);
        sched_signal(&m->sched);
    }
    sim_drop_teams(m);
    if (m->give_up_ns == 0 || give_up_ns < m->give_up_ns)
        m->give_up_ns = give_up_ns;
}

static bool give_up_when_due(struct sim *m)
{
    if (m->give_up_ns == 0 || os_now_ns() < m->give_up_ns || m->graph.live == 0)
        return false;
    /* relaxed: until the run has ended, only place 0 writes is_abandoned */
    if (a32_load_relaxed(&m->is_abandoned) == 0) {
        a32_store_relaxed(&m->is_abandoned, 1);
        m->is_lost = true;
        sim_abandon_kernels(m);
    }
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated chip's threads: their main loop, the monitor, and how it sets threads aside. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "sim/sim.h"

enum {
    FAST_POLL_NS = 200000, /* interval of the monitor's checks while places get stuck */
    /* number of checks at the interval FAST_POLL_NS after a place was given away */
    FAST_POLLS = 50,
    /* time without a poll by the orchestration after which it counts as building its graph */
    POLLING_NS = 1000000000,
    /* mutation: no-takeover */
    TICKS_STUCK = 2, /* ticks in the same kernel after which a place is given to another thread */
    TICKS_STUCK_SERIAL = SIM_SERIAL_NS / SIM_TICK_NS,
    /* mutation: restless-monitor */
    TICKS_LINGER = 20, /* ticks without a run before the monitor sleeps */
    /* ticks in the orchestration's own code after which its waits are interrupted */
    TICKS_LEAVE = 20,
    /* ticks after which an orchestration that has to end is interrupted at any instruction */
    TICKS_LEAVE_MAX = 5000,
};

static struct thread *start_thread(struct sim *m);
static void *thread_main(void *arg);
static void *monitor_main(void *arg);
static bool watch_places(struct sim *m);
static uint64_t watch_progress(struct sim *m);
static void call_builder_back(struct sim *m);
static bool give_place_away(struct sim *m, uint32_t index, uint32_t exec, bool is_next);

int sim_start_threads(struct sim *m, uint32_t workers)
{
    int status = os_thread_start(&m->monitor_handle, monitor_main, m);

    if (status < 0)
        return status;
    for (uint32_t i = 0; i < workers; i++) {
        struct worker *w = aligned_alloc(128, sizeof(*w));

        if (w == NULL)
            return PTO_ENOMEM;
        sched_add_worker(&m->sched, w, &m->graph);
    }
    for (uint32_t i = 1; i < workers; i++) { /* initialise all rings before any thread reads them */
        struct thread *th;

        pthread_mutex_lock(&m->lock);
        th = start_thread(m);
        if (th != NULL)
            sim_bind_thread(m, th, m->sched.worker[i]);
        pthread_mutex_unlock(&m->lock);
        if (th == NULL)
            return PTO_ESYSTEM;
    }
    return PTO_OK;
}

bool sim_end_threads(struct sim *m)
{
    bool is_complete = true;

    a32_store_relaxed(&m->is_closing, 1); /* relaxed: published by the releases R14 below */
    a32_add_acq_rel(&m->event, 1);        /* R14 */
    os_wake(&m->event, UINT32_MAX);
    a32_add_acq_rel(&m->monitor, 1); /* R14 */
    os_wake(&m->monitor, UINT32_MAX);
    if (m->monitor_handle != 0)
        pthread_join(m->monitor_handle, NULL);
    /* read the list only after the monitor has ended, because the monitor adds threads to it */
    for (struct thread *th = m->all; th != NULL;) {
        struct thread *next = th->next;
        bool is_stuck;

        pthread_mutex_lock(&m->lock);
        is_stuck = th->is_stuck;
        pthread_mutex_unlock(&m->lock);
        a32_add_acq_rel(&th->go, 1); /* R14 */
        os_wake(&th->go, 1);
        if (is_stuck) {
            pthread_detach(th->handle);
            is_complete = false;
        } else {
            pthread_join(th->handle, NULL);
            sim_free_touched(th);
            sim_free_inputs(th);
            free(th);
        }
        th = next;
    }
    return is_complete;
}

void sim_abandon_kernels(struct sim *m)
{
    const void *entry = NULL;

    pthread_mutex_lock(&m->lock);
    for (struct thread *th = m->all; th != NULL; th = th->next)
        /* F3: a thread that returns from its kernel after this store calls port_core_lost */
        core_set_lost(&th->core, true);
    if (m->has_fence_all)
        os_fence_all(); /* F3 */
    else
        fence_full(); /* F3 */
    for (struct thread *th = m->all; th != NULL; th = th->next)
        /* a thread also counts as stuck if a lane was assigned to it and not started */
        if (th->lane.slot != NULL || a32_load_relaxed(&th->core.exec) % 2 != 0) { /* F3 */
            th->is_stuck = true;
            m->is_kernel_lost = true;
            chip_count_stuck(1);
        }
    m->is_kernel_lost = m->is_kernel_lost || m->caller.is_lost;
    /* the thread that called sim_wait is still in its kernel: it needs the lock to return */
    if (m->has_handler && m->caller.is_lost)
        entry = (const void *)(uintptr_t)m->guarded_kernels[sim_kernel_of(&m->caller)].fn;
    pthread_mutex_unlock(&m->lock);
    if (entry != NULL)
        crash_recall(&m->caller.crash, m->caller_handle, entry);
}

void sim_thread_returned(struct thread *th)
{
    if (!th->is_stuck)
        return;
    th->is_stuck = false;
    chip_count_stuck(-1);
}

/*
 * Called after the kernel crashed, or after the run has ended without it. The task's slot belongs
 * to this thread until the thread has reported the crash.
 */
bool sim_crash_landed(struct sim *m, struct thread *th)
{
    struct core *core = &th->core;
    uint32_t exec = a32_load_relaxed(&core->exec); /* relaxed: only this thread writes exec */

    core->slab.count = 0;
    core->slab.error = 0;
    if (th->crash.signal != SIGURG &&
        sched_crashed(&m->sched, core->slot, th->crash.signal, th->crash.addr,
                      (uint32_t)core->local.block_index, sim_lane_of(th)))
        sim_keep_crash(m, th, core->slot, slot_kernel(core->slot, sim_lane_of(th)));
    a32_store_relaxed(&core->exec, exec + 1); /* relaxed: the lock below publishes exec */
    if (th->crash.signal == SIGURG)
        return true; /* the run was given up, so no thread waits for the task */
    if (port_core_lost(core, core->slot))
        return true;
    sched_share(th->place); /* wake a sleeper: any place may complete the crashed task */
    sched_returned(&m->sched, &m->graph, core->slot, core);
    return false;
}

void port_core_reset(struct core *core)
{
    const struct thread *th = core->owner;

    thread_state_restore_floats(th->state.floats);
}

bool sim_call_guarded(struct thread *th, void (*fn)(void *arg))
{
    th->thrown = guard_call(fn, th, th->text);
    if (th->sim->is_forked)
        sim_end_child();
    return th->thrown != GUARD_RETURNED;
}

struct failure sim_throw_failure(const struct thread *th, uint32_t kernel, uint32_t block,
                                 uint32_t lane)
{
    struct failure why = orch_failure(
        PTO_ECRASH, th->thrown == GUARD_THREW ? FAILURE_THREW : FAILURE_KERNEL_EXITED, NULL);

    why.kernel = (int32_t)kernel;
    why.value[1] = block;
    why.value[3] = lane;
    if (th->thrown == GUARD_THREW)
        memcpy(why.text, th->text, sizeof(th->text));
    return why;
}

bool sim_throw_landed(struct sim *m, struct thread *th)
{
    struct core *core = &th->core;
    uint32_t exec = a32_load_relaxed(&core->exec); /* relaxed: only this thread writes exec */
    struct failure why = sim_throw_failure(th, slot_kernel(core->slot, sim_lane_of(th)),
                                           (uint32_t)core->local.block_index, sim_lane_of(th));

    core->slab.count = 0;
    core->slab.error = 0;
    sched_threw(&m->sched, core->slot, &why);
    a32_store_relaxed(&core->exec, exec + 1); /* relaxed: the lock below publishes exec */
    if (port_core_lost(core, core->slot))
        return true;
    sched_share(th->place); /* wake a sleeper: any place may complete the task */
    sched_returned(&m->sched, &m->graph, core->slot, core);
    return false;
}

/* ---- what a thread does ---- */

static bool leave_builder(struct crash *crash, int number, uintptr_t pc);
static uint32_t sub_block_here(const struct pto_sim_core *hook);
static void *pipe_state_here(const struct pto_sim_core *hook, uint64_t key, size_t size);

void sim_init_thread(struct sim *m, struct thread *th)
{
    th->sim = m;
    th->hook = (struct pto_sim_core){ .sub_block = sub_block_here, .pipe_state = pipe_state_here };
    th->crash.fiber = m->fiber;
    th->crash.leave = leave_builder;
    th->crash.last_words = sim_last_words;
    th->crash.forked = sim_forked;
    core_init(&th->core, th);
    /* a plain store is enough, because no other thread knows this thread yet */
    th->core.lost = (struct a32){ m->has_fence_all ? 0 : CORE_UNFENCED };
}

/*
 * Restores thread state that kernels changed. Setting the signal mask takes a system call, which is
 * omitted if no code could have changed it.
 */
void sim_restore_thread(const struct sim *m, const struct thread *th)
{
    /* relaxed: published together with the thread's tasks */
    if (a32_load_relaxed(&m->changes_signals) != 0)
        thread_state_restore(&th->state);
    else
        thread_state_restore_floats(th->state.floats);
}

/* Creates a thread. NULL: the system refuses, or there is one for every core. The lock is held. */
static struct thread *start_thread(struct sim *m)
{
    struct thread *th;

    if (m->thread_count == m->thread_max)
        return NULL;
    th = aligned_alloc(128, (sizeof(*th) + 127) / 128 * 128);
    if (th == NULL)
        return NULL;
    memset(th, 0, sizeof(*th));
    sim_init_thread(m, th);
    if (os_thread_start(&th->handle, thread_main, th) < 0) {
        free(th);
        return NULL;
    }
    sim_add_watch(m, th);
    th->next = m->all;
    m->all = th;
    m->thread_count++;
    return th;
}

/*
 * Main function of a thread: does what is assigned to it, and in between waits in the list of idle
 * threads.
 */
static void *thread_main(void *arg)
{
    struct thread *th = arg;
    struct sim *m = th->sim;
    uint32_t done = 0;

    (void)pto_sim_set_core(&th->hook);
    crash_begin(&th->crash, &th->core.exec);
    thread_state_save(&th->state, true);
    for (;;) {
        uint32_t go = a32_load_acquire(&th->go); /* A14 A20 */

        /* relaxed: acquire A14 has come before this load */
        if (a32_load_relaxed(&m->is_closing) != 0) {
            pthread_mutex_lock(&m->lock);
            sim_thread_returned(th); /* gives back a lane that was assigned and not started */
            pthread_mutex_unlock(&m->lock);
            return NULL;
        }
        if (go == done) {
            sim_restore_thread(m, th);
            os_wait(&th->go, go, UINT64_MAX);
            continue;
        }
        done = go;
        atomic_note_read(&th->lane);
        if (th->lane.slot != NULL) {
            sim_run_lane(m, th);
            continue;
        }
        if (th->place->index != 0) {
            sim_serve_place(m, th);
        } else if (sim_lead_run(m, th)) {
            pthread_mutex_lock(&m->lock);
            m->at_place[0] = NULL;
            sim_put_idle(m, th);
            pthread_mutex_unlock(&m->lock);
            a32_add_acq_rel(&m->done, 1); /* relaxed: the lock orders the data */
            os_wake(&m->done, UINT32_MAX);
        }
    }
}

void sim_put_idle(struct sim *m, struct thread *th)
{
    assert_held(&m->lock);
    if (th->is_idle || th == &m->caller)
        return;
    th->place = NULL;
    th->lane.slot = NULL;
    th->is_idle = true;
    th->next_idle = m->idle;
    m->idle = th;
}

struct thread *sim_take_idle(struct sim *m)
{
    struct thread *th = m->idle;

    assert_held(&m->lock);
    if (th == NULL)
        return start_thread(m);
    m->idle = th->next_idle;
    th->is_idle = false;
    return th;
}

static void leave_idle(struct sim *m, struct thread *th)
{
    struct thread **at = &m->idle;

    while (*at != th)
        at = &(*at)->next_idle;
    *at = th->next_idle;
    th->is_idle = false;
}

bool sim_hand_home(struct sim *m, struct thread *th)
{
    struct thread *home = m->home;
    bool is_caller = home == &m->caller;
    bool is_back;

    pthread_mutex_lock(&m->lock);
    is_back = is_caller ? !home->is_lost : home->is_idle;
    if (is_back) {
        if (!is_caller)
            leave_idle(m, home);
        sim_bind_thread(m, home, th->place);
        /* thread_main runs what may have been assigned to the thread in the meantime */
        sim_put_idle(m, th);
    }
    pthread_mutex_unlock(&m->lock);
    if (is_back && is_caller) {
        a32_add_acq_rel(&m->done, 1); /* relaxed: the lock orders the data */
        os_wake(&m->done, UINT32_MAX);
    }
    return is_back;
}

void sim_bind_thread(struct sim *m, struct thread *th, struct worker *w)
{
    th->place = w;
    m->at_place[w->index] = th;
    w->core = &th->core;
    th->core.global.sub_block_id = w->core_index[PTO_CORE_AIV] % 2;
    if (th != &m->caller) {
        a32_add_acq_rel(&th->go, 1); /* R20 */
        os_wake(&th->go, 1);
    }
}

/* ---- what a kernel asks about its core ---- */

static struct thread *thread_of(const struct pto_sim_core *hook)
{
    return (struct thread *)(void *)((char *)(uintptr_t)hook - offsetof(struct thread, hook));
}

uint32_t sim_lane_of(const struct thread *th)
{
    if (th->lane.slot == NULL || th->lane.type == PTO_CORE_AIC)
        return th->core.slot->core_type == PTO_CORE_AIC ? LANE_AIC : LANE_AIV0;
    return LANE_AIV0 + th->lane.core % 2;
}

static uint32_t sub_block_here(const struct pto_sim_core *hook)
{
    return (uint32_t)thread_of(hook)->core.global.sub_block_id;
}

/* Returns the cluster of the core on which the thread runs a kernel. The lock is held. */
static uint32_t cluster_of(const struct thread *th)
{
    uint32_t type, index;

    if (th->lane.slot != NULL) {
        type = th->lane.type;
        index = th->lane.core;
    } else if (th->is_lost) {
        type = th->held_type;
        index = th->held_index;
    } else {
        type = th->core.slot->core_type;
        index = th->place->core_index[type];
    }
    return type == PTO_CORE_AIV ? index / 2 : index;
}

static void *pipe_state_here(const struct pto_sim_core *hook, uint64_t key, size_t size)
{
    struct thread *th = thread_of(hook);
    struct sim *m = th->sim;
    void *state;

    /* an even number: no kernel runs; relaxed: only this thread writes exec */
    if (a32_load_relaxed(&th->core.exec) % 2 == 0)
        return NULL;
    pthread_mutex_lock(&m->lock);
    state = pipes_find(&m->pipes, cluster_of(th), key, size);
    pthread_mutex_unlock(&m->lock);
    return state;
}

/* ---- kernels that outlive a time slice ---- */

bool port_core_lost(struct core *core, struct slot *s)
{
    struct thread *th = core->owner;
    struct sim *m = th->sim;
    struct thread *wake = NULL;
    bool is_lost;

    if (m->is_forked)
        sim_end_child();
    pthread_mutex_lock(&m->lock);
    sim_thread_returned(th);
    is_lost = th->is_lost;
    th->is_lost = false;
    core_set_lost(core, false); /* relaxed: all writers of this flag hold the lock */
    if (is_lost) {
        if (m->trace != NULL) {
            trace_end(m->trace, s->seq, sim_core_number(m, th->held_type, th->held_index),
                      (uint32_t)core->local.block_index);
            if (core_has_deferred(core))
                trace_defer(m->trace, s->seq);
        }
        sim_put_core(m, th->held_type, th->held_index);
        /* thread_main runs what a team may have assigned to the thread in the meantime */
        sim_put_idle(m, th);
        wake = sim_start_teams(m);
    }
    pthread_mutex_unlock(&m->lock);
    sim_wake_threads(wake);
    if (is_lost && m->trace != NULL)
        (void)trace_watch(m->trace, s, TRACE_END);
    if (is_lost)
        sched_returned(&m->sched, &m->graph, s, core);
    return is_lost;
}

/* ---- the report of a stall ---- */

bool port_is_queued(void *machine, const struct slot *slot)
{
    struct sim *m = machine;
    const struct team_queue *queue[2] = { &m->gangs, &m->mixes };
    bool is_there = false;

    pthread_mutex_lock(&m->lock);
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t line = queue[i]->first; line != 0;) {
            struct slot *s = graph_slot(&m->graph, line);

            is_there = is_there || s == slot;
            /* relaxed: a link of a list that the lock protects */
            line = a32_load_relaxed(&s->pending);
        }
    pthread_mutex_unlock(&m->lock);
    return is_there;
}

/* ---- the monitor ---- */

/*
 * Waits until the next tick. The interval is shorter while places run one long kernel after
 * another.
 */
static void wait_for_tick(struct sim *m, uint32_t word, uint64_t until_ns, bool is_polling_fast)
{
    uint64_t now = os_now_ns();

    while (is_polling_fast && now + FAST_POLL_NS < until_ns) {
        os_wait(&m->monitor, word, now + FAST_POLL_NS);
        /* the thread was woken in the meantime; the caller loads the word again */
        if (a32_load_relaxed(&m->monitor) != word)
            return;
        is_polling_fast = watch_places(m);
        now = os_now_ns();
    }
    os_wait(&m->monitor, word, until_ns);
}

static void *monitor_main(void *arg)
{
    struct sim *m = arg;
    uint32_t quiet = 0;

    /* the monitor needs the signals of faults: it reads conditions at untrusted addresses */
    crash_unblock();
    /* relaxed: acquire A14 has come before this load */
    while (a32_load_relaxed(&m->is_closing) == 0) {
        uint32_t word = a32_load_acquire(&m->monitor); /* A14 */
        uint64_t next_ns = UINT64_MAX;
        bool is_polling_fast = false;

        /* relaxed: the lock orders the data of the run */
        if (a32_load_relaxed(&m->is_running) != 0) {
            quiet = 0;
            a32_add_relaxed(&m->ticks, 1); /* relaxed: `ticks` is only a statistic */
            is_polling_fast = watch_places(m);
            sim_watch_teams(m);
            next_ns = watch_progress(m);
            (void)sched_poll(&m->sched, &m->graph);
        } else {
            quiet++;
        }
        if (quiet <= TICKS_LINGER) {
            uint64_t tick_ns = os_now_ns() + SIM_TICK_NS;

            wait_for_tick(m, word, next_ns < tick_ns ? next_ns : tick_ns, is_polling_fast);
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

uint64_t sim_count_kernels(const struct sim *m)
{
    assert_held(&m->lock);
    /*
     * relaxed, so the sum is not exact: the caller only needs a number that changes when a kernel
     * starts or returns
     */
    uint64_t sum = a32_load_relaxed(&m->caller.core.exec);

    for (const struct thread *th = m->all; th != NULL; th = th->next)
        sum += a32_load_relaxed(&th->core.exec);
    return sum;
}

/*
 * Checks whether the run makes progress. It does while kernels start or return, while its graph is
 * being built (an orchestration that only polls does not count) and it was not stopped, or while it
 * waits for messages from outside of the run. Without progress for a while, or when its time is
 * over, place 0 is asked to end it. Returns when to check again at the latest.
 */
static uint64_t watch_progress(struct sim *m)
{
    uint64_t now, sum, next_ns;
    uint32_t alarm = ALARM_NONE;
    uint32_t polls, listens;
    bool is_building, is_polling;

    pthread_mutex_lock(&m->lock);
    /* read the clock under the lock, so that the time is never before the start of the run */
    now = os_now_ns();
    /* the run has ended, and its data is no longer valid */
    if (a32_load_relaxed(&m->is_running) == 0) {
        pthread_mutex_unlock(&m->lock);
        return UINT64_MAX;
    }
    m->stall_since_ns = orch_stall_since(m->stall_since_ns, m->looked_ns, now);
    m->looked_ns = now;
    sum = sim_count_kernels(m);
    /* relaxed: the pointer is only compared, never dereferenced */
    is_building = aptr_load_relaxed(&m->orch.builder) != NULL;
    /* relaxed: the number is only compared with its last value */
    polls = a32_load_relaxed(&m->polls);
    if (polls != m->polls_seen) {
        m->polls_seen = polls;
        m->polled_ns = now;
    }
    is_polling = now - m->polled_ns < POLLING_NS;
    /* relaxed: the number is only compared with its last value */
    listens = a32_load_relaxed(&m->listens);
    if (sum != m->sum_seen || listens != m->listens_seen ||
        (is_building && !is_polling && !sched_is_stopped(&m->sched))) {
        m->sum_seen = sum;
        m->listens_seen = listens;
        m->stall_since_ns = now;
    }
    if (now >= m->deadline_ns) { /* a deadline that has passed is reported rather than a stall */
        m->deadline_ns = UINT64_MAX;
        m->leave_ns = sim_grace_end(m, now);
        alarm = ALARM_TIMEOUT;
        sched_attend(&m->sched, ATTEND_LATE, 0);
    } else if (now - m->stall_since_ns >= m->run.stall_ns) {
        m->stall_since_ns = now;
        /*
         * an orchestration that only polls is not ended yet: its next operation returns an error,
         * so that it can return by itself
         */
        if (is_building)
            m->leave_ns = sched_is_stopped(&m->sched) ? now : sim_grace_end(m, now);
        alarm = ALARM_STALL;
    }
    if (sim_status_tick(m, sum, now) && alarm == ALARM_NONE)
        alarm = ALARM_DESCRIBE;
    if (alarm != ALARM_NONE)
        /* relaxed: fence F1 follows; the alarm publishes no data */
        a32_store_relaxed(&m->alarm, alarm);
    if (is_building && now >= m->leave_ns)
        call_builder_back(m);
    next_ns = m->deadline_ns < m->leave_ns || m->leave_ns <= now ? m->deadline_ns : m->leave_ns;
    pthread_mutex_unlock(&m->lock);
    if (alarm != ALARM_NONE)
        sched_signal(&m->sched); /* F1 */
    return next_ns;
}

/* ---- an orchestration that does not return ---- */

/*
 * Called by the monitor, under the lock: makes the orchestration's thread leave the orchestration.
 * It does so at its next operation. If it calls none, a signal interrupts it in each tick. It must
 * not leave while it holds a lock of the allocator or of stdio, so the signal must find it in the
 * orchestration's own code, or in a wait.
 */
static void call_builder_back(struct sim *m)
{
    const struct thread *th = m->at_place[0];
    uint32_t leaver = a32_load_relaxed(&m->leaver); /* relaxed: the thread id publishes no data */

    assert_held(&m->lock);
    if (m->leave_tries++ == 0) {
        m->builder_code = os_find_code((uintptr_t)m->run.code);
        a32_store_release(&m->is_leaving, 1); /* release: publishes builder_code to leave_builder */
    }
    if (m->leave_tries > TICKS_LEAVE && leaver != 0)
        a32_store_relaxed(&m->may_leave, os_is_waiting(leaver) || m->leave_tries > TICKS_LEAVE_MAX);
    if (m->has_handler && th != NULL)
        pthread_kill(th == &m->caller ? m->caller_handle : th->handle, SIGURG);
}

/*
 * Tries for a while to take the lock, to find out whether this thread holds it: any other holder
 * releases it soon.
 */
static bool is_lock_free(struct sim *m)
{
    enum { LOOKS = 100, LOOK_NS = 1000000 };
    struct a32 never = { 0 };

    for (uint32_t i = 0; i < LOOKS; i++) {
        if (pthread_mutex_trylock(&m->lock) == 0) {
            pthread_mutex_unlock(&m->lock);
            return true;
        }
        os_wait(&never, 0, os_now_ns() + LOOK_NS);
    }
    return false;
}

/*
 * Called in the signal handler of a thread that was interrupted, or whose orchestration crashed.
 * Returns whether to leave the orchestration. Inside an operation only a crash may leave it,
 * because no other thread could continue there; that ends the run and the device.
 */
static bool leave_builder(struct crash *crash, int number, uintptr_t pc)
{
    struct thread *th = (struct thread *)(void *)((char *)crash - offsetof(struct thread, crash));
    struct sim *m = th->sim;

    if (!orch_is_builder(&m->orch))
        return false;
    if (number != SIGURG && !m->is_builder_gone && sim_find_operation(m, crash) >= 0)
        return m->is_torn = is_lock_free(m);
    if (number != SIGURG)
        return !m->is_builder_gone && (os_is_in(os_find_code((uintptr_t)m->run.code), pc) ||
                                       !os_is_in(os_find_code((uintptr_t)leave_builder), pc));
    if (a32_load_acquire(&m->is_leaving) == 0)
        return false;
    a32_store_relaxed(&m->leaver, os_thread_id()); /* relaxed: the thread id publishes no data */
    /* relaxed: may_leave is only a hint */
    return os_is_in(m->builder_code, pc) || a32_load_relaxed(&m->may_leave) != 0;
}

/*
 * Returns after how many ticks a place counts as stuck in its kernel. A place that was just given
 * away counts sooner, because the new thread may have taken the next block of the same task.
 */
static uint32_t ticks_before_stuck(const struct sim *m, const struct observation *last)
{
    return m->is_serial ? TICKS_STUCK_SERIAL : last->fast_polls != 0 ? 1 : TICKS_STUCK;
}

/*
 * Checks all places for stuck kernels. The first blocks of a task may wait for its other blocks, so
 * they may not return before all have a thread. Returns whether to check again soon.
 */
static bool watch_places(struct sim *m)
{
    bool is_polling_fast = false;

    pthread_mutex_lock(&m->lock);
    for (uint32_t i = 0; i < m->sched.worker_count; i++) {
        struct thread *th = m->at_place[i];
        struct observation *last = &m->observed[i];
        uint32_t exec;

        if (th == NULL)
            continue;
        exec = a32_load_relaxed(&th->core.exec); /* fence F3 follows */
        if (th == last->thread && exec == last->exec && exec % 2 != 0) {
            if (++last->ticks >= ticks_before_stuck(m, last)) {
                bool is_next = last->fast_polls != 0 && last->ticks < TICKS_STUCK;

                last->fast_polls = give_place_away(m, i, exec, is_next) ? FAST_POLLS : 0;
                last->ticks = last->fast_polls == 0 && is_next ? last->ticks : 0;
            }
        } else {
            last->thread = th;
            last->exec = exec;
            last->ticks = 0;
        }
        if (last->fast_polls != 0)
            last->fast_polls--;
        is_polling_fast = is_polling_fast || last->fast_polls != 0;
    }
    pthread_mutex_unlock(&m->lock);
    return is_polling_fast;
}

/*
 * Gives the place of a thread in a long kernel to another thread. First sets the thread's `lost`
 * flag; then all threads pass a fence. If the thread is still seen in the same kernel after that,
 * it will see the flag when the kernel returns, and will not touch the place again. If is_next is
 * set, does so only for a block of the task that was found stuck last. Returns whether more blocks
 * of that task are to be expected.
 */
static bool give_place_away(struct sim *m, uint32_t index, uint32_t exec, bool is_next)
{
    struct thread *old = m->at_place[index];
    struct worker *w = m->sched.worker[index];
    struct thread *th = sim_take_idle(m);
    uint32_t type;

    if (th == NULL)
        /* threads in kernels use all cores, so another thread could run nothing */
        return false;
    core_set_lost(&old->core, true); /* F3 */
    if (m->has_fence_all)
        os_fence_all(); /* F3 */
    else
        fence_full(); /* F3 */
    /* The fences order this load; the acquire makes that visible to a race detector. */
    if (a32_load_acquire(&old->core.exec) !=
        exec) { /* the old thread has returned: it may keep the place */
        core_set_lost(&old->core, false);
        sim_put_idle(m, th);
        return false;
    }
    if (is_next && old->core.slot->seq != m->stuck_seq) {
        /* The `lost` flag stays set until the old thread takes the lock, after its kernel. */
        sim_put_idle(m, th);
        return false;
    }
    old->is_lost = true;
    old->place = NULL;
    type = old->core.slot->core_type;
    old->held_type = (uint8_t)type;
    old->held_index = w->core_index[type];
    sim_detach_core(m, w, type);
    w->core = &th->core; /* from here on, changes of this worker's core apply to the new thread */
    sim_acquire_core(m, w, type);
    /* the old thread will complete its task through a list that several threads use */
    w->is_shared = true;
    if (index == 0)
        graph_share(&m->graph); /* any place may complete the task that the old thread continues */
    m->takeovers++;
    sim_bind_thread(m, th, w);
    m->stuck_seq = old->core.slot->seq;
    return old->core.slot->block_count > 1 && !m->is_serial;
}

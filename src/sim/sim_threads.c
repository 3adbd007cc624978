/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated chip's threads: what each does next, and the monitor that sets them aside. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

enum {
    HASTE_NS = 200000,       /* between its looks while one place after the other is stuck */
    HASTY_LOOKS = 50,        /* at a place, since it was given away */
    POLLING_NS = 1000000000, /* since a builder's last poll, before it builds again */
    /* mutation: no-takeover */
    TICKS_STUCK = 2, /* in one kernel before its thread is set aside */
    TICKS_STUCK_SERIAL = SIM_SERIAL_NS / SIM_TICK_NS,
    /* mutation: restless-monitor */
    TICKS_LINGER = 20,      /* without a run before the monitor sleeps */
    TICKS_LEAVE = 20,       /* to find an orchestration in its own code before it may be waiting */
    TICKS_LEAVE_MAX = 5000, /* before it is left wherever it is */
    PIPE_BYTES_MAX = 1 << 30,
};

static struct thread *start_thread(struct sim *m);
static void *thread_main(void *arg);
static void *monitor_main(void *arg);
static bool watch_places(struct sim *m);
static uint64_t watch_progress(struct sim *m);
static void call_builder_back(struct sim *m);
static uint32_t lane_of(const struct thread *th);
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
    for (uint32_t i = 1; i < workers; i++) { /* the rings must be there before anyone looks */
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

    a32_store_relaxed(&m->is_closing, 1); /* published by the numbers below */
    a32_add_acq_rel(&m->event, 1);        /* R14 */
    os_wake(&m->event, UINT32_MAX);
    a32_add_acq_rel(&m->monitor, 1); /* R14 */
    os_wake(&m->monitor, UINT32_MAX);
    if (m->monitor_handle != 0)
        pthread_join(m->monitor_handle, NULL);
    for (struct thread *th = m->all; th != NULL;) { /* the monitor made the last of them */
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
            free(th);
        }
        th = next;
    }
    return is_complete;
}

void sim_abandon_kernels(struct sim *m)
{
    bool is_recalled;

    pthread_mutex_lock(&m->lock);
    for (struct thread *th = m->all; th != NULL; th = th->next)
        core_set_lost(&th->core, true); /* F3: whoever returns now looks under the lock */
    if (m->has_fence_all)
        os_fence_all(); /* F3 */
    else
        fence_full(); /* F3 */
    for (struct thread *th = m->all; th != NULL; th = th->next)
        if (th->lane.slot != NULL ||                     /* it may not have got so far yet */
            a32_load_relaxed(&th->core.exec) % 2 != 0) { /* F3 */
            th->is_stuck = true;
            m->is_kernel_lost = true;
            chip_count_stuck(1);
        }
    m->is_kernel_lost = m->is_kernel_lost || m->caller.is_lost;
    is_recalled = m->has_handler && m->caller.is_lost;
    if (is_recalled) {
        a32_store_release(&m->caller.crash.is_recalled, 1);
        pthread_kill(m->caller_handle, SIGURG);
    }
    pthread_mutex_unlock(&m->lock);
}

void sim_thread_returned(struct thread *th)
{
    if (!th->is_stuck)
        return;
    th->is_stuck = false;
    chip_count_stuck(-1);
}

/* It crashed, or the run has ended without it. The slot is this thread's until it says otherwise. */
bool sim_crash_landed(struct sim *m, struct thread *th)
{
    struct core *core = &th->core;
    uint32_t exec = a32_load_relaxed(&core->exec); /* own word */

    core->slab.count = 0;
    core->slab.error = 0;
    if (th->crash.signal != SIGURG &&
        sched_crashed(&m->sched, core->slot, th->crash.signal, th->crash.addr,
                      (uint32_t)core->local.block_index, lane_of(th)))
        sim_keep_crash(m, th, core->slot, slot_kernel(core->slot, lane_of(th)));
    a32_store_relaxed(&core->exec, exec + 1); /* the lock below publishes it */
    if (th->crash.signal == SIGURG)
        return true; /* nobody waits for it */
    if (port_core_lost(core, core->slot))
        return true;
    sched_share(th->place); /* any place may complete it */
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
        PTO_ECRASH, th->thrown == GUARD_THREW ? FAULT_THREW : FAULT_KERNEL_EXITED, NULL);

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
    uint32_t exec = a32_load_relaxed(&core->exec); /* own word */
    struct failure why = sim_throw_failure(th, slot_kernel(core->slot, lane_of(th)),
                                           (uint32_t)core->local.block_index, lane_of(th));

    core->slab.count = 0;
    core->slab.error = 0;
    sched_threw(&m->sched, core->slot, &why);
    a32_store_relaxed(&core->exec, exec + 1); /* the lock below publishes it */
    if (port_core_lost(core, core->slot))
        return true;
    sched_share(th->place); /* any place may complete it */
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
    th->hook = (struct pto_sim_core){ sub_block_here, pipe_state_here };
    th->crash.fiber = m->fiber;
    th->crash.leave = leave_builder;
    th->crash.last_words = sim_last_words;
    th->crash.forked = sim_forked;
    core_init(&th->core, th);
    th->core.lost =
        (struct a32){ m->has_fence_all ? 0 : CORE_UNFENCED }; /* nobody knows of it yet */
}

/* The mask takes a system call, which runs that cannot change it do without. */
void sim_restore_thread(const struct sim *m, const struct thread *th)
{
    if (a32_load_relaxed(&m->changes_signals) != 0) /* its own tasks came with that */
        thread_state_restore(&th->state);
    else
        thread_state_restore_floats(th->state.floats);
}

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

/* Does what it is given, then waits for more. It is in the list of idle ones meanwhile. */
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

        if (a32_load_relaxed(&m->is_closing) != 0) { /* after A14 */
            pthread_mutex_lock(&m->lock);
            sim_thread_returned(th); /* it was given a lane, but has not begun */
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
            a32_add_acq_rel(&m->done, 1); /* the lock orders */
            os_wake(&m->done, UINT32_MAX);
        }
    }
}

void sim_put_idle(struct sim *m, struct thread *th)
{
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
        sim_put_idle(m, th); /* what it is given it finds in thread_main */
    }
    pthread_mutex_unlock(&m->lock);
    if (is_back && is_caller) {
        a32_add_acq_rel(&m->done, 1); /* the lock orders */
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

static uint32_t lane_of(const struct thread *th)
{
    if (th->lane.slot == NULL || th->lane.type == PTO_CORE_AIC)
        return th->core.slot->core_type == PTO_CORE_AIC ? LANE_AIC : LANE_AIV0;
    return LANE_AIV0 + th->lane.core % 2;
}

static uint32_t sub_block_here(const struct pto_sim_core *hook)
{
    return (uint32_t)thread_of(hook)->core.global.sub_block_id;
}

/* Of the core that the thread runs a kernel on. Under the lock. */
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
    uint32_t cluster;
    struct pipe *p;

    if (a32_load_relaxed(&th->core.exec) % 2 == 0) /* own word: not in a kernel */
        return NULL;
    pthread_mutex_lock(&m->lock);
    cluster = cluster_of(th);
    for (p = m->pipes; p != NULL; p = p->next)
        if (p->cluster == cluster && p->key == key)
            break;
    if (p == NULL && size <= PIPE_BYTES_MAX) {
        size_t bytes = (sizeof(*p) + size + 63) / 64 * 64;

        p = aligned_alloc(64, bytes);
        if (p != NULL) {
            memset(p, 0, bytes);
            p->cluster = cluster;
            p->key = key;
            p->size = size;
            p->next = m->pipes;
            m->pipes = p;
        }
    }
    pthread_mutex_unlock(&m->lock);
    return p != NULL && p->size >= size ? p->data : NULL;
}

void sim_drop_pipes(struct sim *m)
{
    while (m->pipes != NULL) {
        struct pipe *p = m->pipes;

        m->pipes = p->next;
        free(p);
    }
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
    core_set_lost(core, false); /* both sides hold the lock */
    if (is_lost) {
        if (m->trace != NULL)
            trace_end(m->trace, s->seq, sim_core_number(m, th->held_type, th->held_index),
                      (uint32_t)core->local.block_index);
        sim_put_core(m, th->held_type, th->held_index);
        sim_put_idle(m, th); /* a team may need it; what it is given it finds in thread_main */
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

/* ---- for whoever tells the story of a stall ---- */

static void threads_tell_running(struct sim *m, struct thread *th,
                                 void (*each)(void *context, struct slot *slot, uint32_t core,
                                              uint32_t block),
                                 void *context)
{
    uint32_t type, index;

    if (a32_load_acquire(&th->core.exec) % 2 == 0) /* A7 */
        return;
    if (th->lane.slot != NULL) {
        type = th->lane.type;
        index = th->lane.core;
    } else {
        type = th->core.slot->core_type;
        index = th->is_lost ? th->held_index : th->place->core_index[type];
    }
    each(context, th->core.slot, sim_core_number(m, type, index),
         (uint32_t)th->core.local.block_index);
}

void port_each_running(void *machine,
                       void (*each)(void *context, struct slot *slot, uint32_t core,
                                    uint32_t block),
                       void *context)
{
    struct sim *m = machine;

    pthread_mutex_lock(&m->lock);
    threads_tell_running(m, &m->caller, each, context);
    for (struct thread *th = m->all; th != NULL; th = th->next)
        threads_tell_running(m, th, each, context);
    pthread_mutex_unlock(&m->lock);
}

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
            line = a32_load_relaxed(&s->pending); /* a link, under the lock */
        }
    pthread_mutex_unlock(&m->lock);
    return is_there;
}

/* ---- the monitor ---- */

/* Until the next tick. Places that one long kernel after the other comes to are looked at more often. */
static void wait_for_tick(struct sim *m, uint32_t word, uint64_t until_ns, bool is_hasty)
{
    uint64_t now = os_now_ns();

    while (is_hasty && now + HASTE_NS < until_ns) {
        os_wait(&m->monitor, word, now + HASTE_NS);
        if (a32_load_relaxed(&m->monitor) != word) /* whoever is told loads it again */
            return;
        is_hasty = watch_places(m);
        now = os_now_ns();
    }
    os_wait(&m->monitor, word, until_ns);
}

static void *monitor_main(void *arg)
{
    struct sim *m = arg;
    uint32_t quiet = 0;

    crash_unblock();                                   /* it looks at conditions, too */
    while (a32_load_relaxed(&m->is_closing) == 0) {    /* after A14 */
        uint32_t word = a32_load_acquire(&m->monitor); /* A14 */
        uint64_t next_ns = UINT64_MAX;
        bool is_hasty = false;

        if (a32_load_relaxed(&m->is_running) != 0) { /* the lock orders */
            quiet = 0;
            a32_add_relaxed(&m->ticks, 1); /* a count */
            is_hasty = watch_places(m);
            sim_watch_teams(m);
            next_ns = watch_progress(m);
            (void)sched_poll(&m->sched, &m->graph);
        } else {
            quiet++;
        }
        if (quiet <= TICKS_LINGER) {
            uint64_t tick_ns = os_now_ns() + SIM_TICK_NS;

            wait_for_tick(m, word, next_ns < tick_ns ? next_ns : tick_ns, is_hasty);
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
    uint64_t sum = a32_load_relaxed(&m->caller.core.exec); /* it only has to change */

    for (const struct thread *th = m->all; th != NULL; th = th->next)
        sum += a32_load_relaxed(&th->core.exec); /* it only has to change */
    return sum;
}

/*
 * A run makes progress while kernels start or return, or while its graph is being
 * built, not just waited for by an orchestration that asks all the time, and it has not been stopped; or
 * while it listens to something outside of the run. It has none for a while, or its time is over:
 * place 0 ends it. Returns when to look again, at the latest.
 */
static uint64_t watch_progress(struct sim *m)
{
    uint64_t now, sum, next_ns;
    uint32_t alarm = ALARM_NONE;
    uint32_t polls, listens;
    bool is_building, is_polling;

    pthread_mutex_lock(&m->lock);
    now = os_now_ns(); /* under the lock: never before the beginning of the run */
    if (a32_load_relaxed(&m->is_running) == 0) { /* it has ended meanwhile, and its job is gone */
        pthread_mutex_unlock(&m->lock);
        return UINT64_MAX;
    }
    m->stall_since_ns = orch_stall_since(m->stall_since_ns, m->looked_ns, now);
    m->looked_ns = now;
    sum = sim_count_kernels(m);
    is_building = aptr_load_relaxed(&m->orch.builder) != NULL; /* only to be compared */
    polls = a32_load_relaxed(&m->polls);                       /* only to be compared */
    if (polls != m->polls_seen) {
        m->polls_seen = polls;
        m->polled_ns = now;
    }
    is_polling = now - m->polled_ns < POLLING_NS;
    listens = a32_load_relaxed(&m->listens); /* only to be compared */
    if (sum != m->sum_seen || listens != m->listens_seen ||
        (is_building && !is_polling && !sched_is_stopped(&m->sched))) {
        m->sum_seen = sum;
        m->listens_seen = listens;
        m->stall_since_ns = now;
    }
    if (now >= m->deadline_ns) { /* goes before a stall */
        m->deadline_ns = UINT64_MAX;
        m->leave_ns = sim_grace_end(m, now);
        alarm = ALARM_TIMEOUT;
        sched_attend(&m->sched, ATTEND_LATE, 0);
    } else if (now - m->stall_since_ns >= m->run.stall_ns) {
        m->stall_since_ns = now;
        if (is_building) /* one that only asked is told, and may come back by itself */
            m->leave_ns = sched_is_stopped(&m->sched) ? now : sim_grace_end(m, now);
        alarm = ALARM_STALL;
    }
    if (alarm != ALARM_NONE)
        a32_store_relaxed(&m->alarm, alarm); /* F1 follows; nothing is read by it */
    if (is_building && now >= m->leave_ns)
        call_builder_back(m);
    next_ns = m->deadline_ns < m->leave_ns || m->leave_ns <= now ? m->deadline_ns : m->leave_ns;
    pthread_mutex_unlock(&m->lock);
    if (alarm != ALARM_NONE)
        sched_signal(&m->sched); /* F1 */
    return next_ns;
}

/* ---- an orchestration that does not end ---- */

/*
 * By the monitor, under the lock. At its next operation the thread leaves by itself. If there
 * is none it is called back, tick by tick. Where it has a lock of the allocator or of stdio
 * it must not go, so it is to be found in its own code, or waiting for something.
 */
static void call_builder_back(struct sim *m)
{
    const struct thread *th = m->at_place[0];
    uint32_t leaver = a32_load_relaxed(&m->leaver); /* only a number */

    if (m->leave_tries++ == 0) {
        m->builder_code = os_find_code((uintptr_t)m->run.code);
        a32_store_release(&m->is_leaving, 1); /* for leave_builder */
    }
    if (m->leave_tries > TICKS_LEAVE && leaver != 0)
        a32_store_relaxed(&m->may_leave, os_is_waiting(leaver) || m->leave_tries > TICKS_LEAVE_MAX);
    if (m->has_handler && th != NULL)
        pthread_kill(th == &m->caller ? m->caller_handle : th->handle, SIGURG);
}

/* Or soon given back: this thread has not got it. */
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
 * In the handler, on the thread that was called back, or whose orchestration crashed. In the
 * middle of an operation nobody could go on: there only a crash ends the run, and the device.
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
    a32_store_relaxed(&m->leaver, os_thread_id()); /* only a number */
    return os_is_in(m->builder_code, pc) || a32_load_relaxed(&m->may_leave) != 0; /* a hint */
}

/* Of looks: a place that was given away just now may have the next block of the same task. */
static uint32_t patience_with(const struct sim *m, const struct observation *last)
{
    return m->is_serial ? TICKS_STUCK_SERIAL : last->haste != 0 ? 1 : TICKS_STUCK;
}

/*
 * Blocks of a task may wait for each other, so the first ones cannot return before all have
 * a thread. Returns whether it is worth looking again soon.
 */
static bool watch_places(struct sim *m)
{
    bool is_hasty = false;

    pthread_mutex_lock(&m->lock);
    for (uint32_t i = 0; i < m->sched.worker_count; i++) {
        struct thread *th = m->at_place[i];
        struct observation *last = &m->observed[i];
        uint32_t exec;

        if (th == NULL)
            continue;
        exec = a32_load_relaxed(&th->core.exec); /* F3 follows */
        if (th == last->thread && exec == last->exec && exec % 2 != 0) {
            if (++last->ticks >= patience_with(m, last)) {
                bool is_next = last->haste != 0 && last->ticks < TICKS_STUCK;

                last->haste = give_place_away(m, i, exec, is_next) ? HASTY_LOOKS : 0;
                last->ticks = last->haste == 0 && is_next ? last->ticks : 0;
            }
        } else {
            last->thread = th;
            last->exec = exec;
            last->ticks = 0;
        }
        if (last->haste != 0)
            last->haste--;
        is_hasty = is_hasty || last->haste != 0;
    }
    pthread_mutex_unlock(&m->lock);
    return is_hasty;
}

/*
 * The thread is told first; then, if every thread has passed a fence and it is
 * still seen in the same kernel, it will see that it was told when the kernel
 * returns, and will not touch the place again. With is_next, only a block of the task that was
 * found stuck last is set aside. Returns whether more blocks of it are to be expected.
 */
static bool give_place_away(struct sim *m, uint32_t index, uint32_t exec, bool is_next)
{
    struct thread *old = m->at_place[index];
    struct worker *w = m->sched.worker[index];
    struct thread *th = sim_take_idle(m);
    uint32_t type;

    if (th == NULL)
        return false; /* as many threads as cores are in kernels: nothing more could run */
    core_set_lost(&old->core, true); /* F3 */
    if (m->has_fence_all)
        os_fence_all(); /* F3 */
    else
        fence_full(); /* F3 */
    /* Acquire says what the fence does in terms that a race detector knows. */
    if (a32_load_acquire(&old->core.exec) != exec) { /* it has returned: it may keep the place */
        core_set_lost(&old->core, false);
        sim_put_idle(m, th);
        return false;
    }
    if (is_next && old->core.slot->seq != m->stuck_seq) {
        sim_put_idle(m, th); /* it stays told: by the lock its next kernel is after this look */
        return false;
    }
    old->is_lost = true;
    old->place = NULL;
    type = old->core.slot->core_type;
    old->held_type = (uint8_t)type;
    old->held_index = w->core_index[type];
    sim_detach_core(m, w, type);
    w->core = &th->core; /* what it is told of its cores is for the new thread */
    sim_acquire_core(m, w, type);
    w->is_shared = true; /* the task that went on comes back through a shared list */
    if (index == 0)
        graph_share(&m->graph); /* and any place may complete it */
    m->takeovers++;
    sim_bind_thread(m, th, w);
    m->stuck_seq = old->core.slot->seq;
    return old->core.slot->block_count > 1 && !m->is_serial;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels in virtual time. A kernel starts when the scheduler rings its doorbell, and ends when its
 * duration is over. The scheduler sees that end only after the kernel has really returned. A kernel
 * that waits for another kernel may not return before that one has been started. Such a kernel is
 * late: its virtual end is the moment at which another kernel lets it return.
 *
 * A kernel that computes for long looks like one that waits. So it is considered late only after
 * its thread has used PATIENCE_CPU_NS of CPU time, or has been asleep for PATIENCE_NS. While only
 * late kernels are left, virtual time stands still.
 *
 * Ordering
 *   R1 virtual_threads.c -> A1 has_returned   what the kernel wrote is there
 */
#include <string.h>
#include <time.h>

#include "base/peek.h"
#include "chip/backend.h"
#include "virtual/virtual.h"

enum {
    PATIENCE_CPU_NS = 250000000, /* CPU time after which a kernel is considered waiting */
    PATIENCE_NS = 1000000000,    /* time after which a sleeping kernel is considered waiting */
    /* CPU time that a late kernel gets after another kernel started or ended */
    CHANCE_CPU_NS = 2000000,
    CHANCE_NS = 20000000,
    LOOK_NS = 1000000,
    /*
     * number of failed checks after which a kernel counts as waiting for another kernel; two,
     * because the first check may have begun before the event that the kernel waits for
     */
    POLLS = 2,
    STEP_NS = 9000000, /* step of virtual time when all running kernels wait and none returns */
};

static bool has_returned(const struct virtual_job *job)
{
    return a32_load_acquire(&job->state) == VIRTUAL_RETURNED; /* A1 */
}

static uint64_t cpu_ns(const struct virtual_job *job)
{
    struct timespec t = { 0, 0 };

    (void)clock_gettime(job->thread->cpu, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- waiting in real time for kernels ---- */

/*
 * Waits until the kernel has returned, its thread has used `cpu` ns of CPU time, or `asleep` ns
 * have passed and it is asleep. Also ends when the kernel has completely checked what it waits for,
 * or the run is cancelled. Returns whether the kernel has returned.
 */
static bool give_chance(struct virtual_chip *v, struct virtual_job *job, uint64_t cpu,
                        uint64_t asleep)
{
    uint64_t since_ns = os_now_ns(), before = 0;
    /* relaxed: only whether `polls` changes matters */
    uint32_t polls = a32_load_relaxed(&job->polls);
    bool is_first = true;

    while (!has_returned(job)) {
        /* `event` is loaded before the states of jobs, because it counts their changes */
        uint32_t event = a32_load_acquire(&v->event);
        uint64_t now_ns = os_now_ns();

        a64_store_relaxed(&v->beats,
                          /* relaxed: only this thread writes `beats` */
                          a64_load_relaxed(&v->beats) + 1);
        if (has_returned(job))
            break;
        if (is_first)
            before = cpu_ns(job);
        is_first = false;
        if (cpu_ns(job) - before >= cpu || a32_load_relaxed(&job->polls) - polls >= POLLS)
            return false;
        if (now_ns - since_ns >= asleep && os_is_waiting(a32_load_relaxed(&job->thread->id)))
            return false;
        if (a64_load_relaxed(&v->cancelled) >= v->request->number)
            return false;
        (void)os_wait(&v->event, event, now_ns + LOOK_NS);
    }
    return true;
}

void virtual_look_at_late(struct virtual_chip *v, uint64_t now_ns)
{
    struct virtual_clock *c = v->clock;

    for (uint32_t i = 0; v->late != 0 && i < c->core_count; i++) {
        struct virtual_job *job = &v->job[i];

        if (!job->is_late || !give_chance(v, job, CHANCE_CPU_NS, CHANCE_NS))
            continue;
        job->is_late = false;
        v->late--;
        if (now_ns > job->end_ns)
            c->late_count++;
        job->end_ns = now_ns > job->end_ns ? now_ns : job->end_ns;
        c->end_ns[i] = job->end_ns;
        v->frozen_ns = 0;
    }
}

static void make_late(struct virtual_chip *v, uint32_t core)
{
    v->job[core].is_late = true;
    v->late++;
    v->clock->end_ns[core] = VIRTUAL_NEVER;
}

void virtual_settle(struct virtual_chip *v)
{
    for (uint32_t i = 0; i < v->clock->core_count; i++) {
        struct virtual_job *job = &v->job[i];

        /*
         * relaxed: another thread changes the state only if it is RUNS, and then this thread waits
         * for that change
         */
        if (a32_load_relaxed(&job->state) == VIRTUAL_RUNS && !job->is_late &&
            !give_chance(v, job, PATIENCE_CPU_NS, PATIENCE_NS))
            make_late(v, i);
    }
}

/* ---- start, end ---- */

void virtual_begin(struct virtual_chip *v, const struct virtual_start *start)
{
    struct virtual_clock *c = v->clock;
    struct virtual_job *job = &v->job[start->core];

    virtual_turn(v);
    job->start = *start;
    job->begin_ns = c->now_ns + c->cost.pickup_ns; /* mutation: virtual-pickup */
    job->own_ns = virtual_duration(v, start);
    job->end_ns = job->begin_ns + job->own_ns;
    c->end_ns[start->core] = job->end_ns;
    a64_store_relaxed(&v->progress,
                      /* relaxed: only this thread writes `progress` */
                      a64_load_relaxed(&v->progress) + 1);
    if (v->is_planned_only) {
        /* relaxed: no kernel is called, so no other thread uses the job */
        a32_store_relaxed(&job->state, VIRTUAL_RETURNED);
        return;
    }
    job->signal = 0;
    job->thrown = GUARD_RETURNED;
    job->is_late = false;
    /* relaxed: R2 follows, or this thread calls the kernel */
    a32_store_relaxed(&job->state, VIRTUAL_RUNS);
    virtual_turn_acted(v);
    if (start->is_team && virtual_threads_call(v, job))
        return;
    v->asked = job;
    fiber_yield(v->fiber);
    if (v->late != 0)
        virtual_look_at_late(v, c->now_ns);
}

struct virtual_end virtual_finish(struct virtual_chip *v, uint32_t core)
{
    struct virtual_clock *c = v->clock;
    struct virtual_job *job = &v->job[core];

    virtual_turn(v);
    if (!job->is_late && !has_returned(job) && !give_chance(v, job, PATIENCE_CPU_NS, PATIENCE_NS))
        make_late(v, core);
    if (job->is_late)
        return (struct virtual_end){ .has_ended = false };
    c->end_ns[core] = VIRTUAL_NEVER;
    virtual_record_note(v, job);
    virtual_time_count(v, job);
    a64_store_relaxed(&v->progress,
                      /* relaxed: only this thread writes `progress` */
                      a64_load_relaxed(&v->progress) + 1);
    if (v->late != 0)
        virtual_look_at_late(v, c->now_ns);
    return (struct virtual_end){ .has_ended = true,
                                 .signal = job->signal,
                                 .addr = job->addr,
                                 .thrown = job->thrown == GUARD_THREW ? job->text : NULL,
                                 .has_exited = job->thrown == GUARD_EXITED };
}

/* ---- time passes ---- */

uint64_t virtual_next_end(const struct virtual_chip *v)
{
    const struct virtual_clock *c = v->clock;
    uint64_t next = VIRTUAL_NEVER;

    for (uint32_t i = 0; i < c->core_count; i++)
        next = c->end_ns[i] < next ? c->end_ns[i] : next;
    return next > c->now_ns ? next : c->now_ns;
}

/*
 * Called when only late kernels run. Virtual time stands still until one of them returns. After
 * still_ns of real time, or if the run is cancelled, it advances in steps, so that the scheduler
 * notices its deadlines.
 */
static void stand_still(struct virtual_chip *v)
{
    struct virtual_clock *c = v->clock;
    /* `event` is loaded before the states of jobs, because it counts their changes */
    uint32_t event = a32_load_acquire(&v->event);
    uint64_t now_ns = os_now_ns();
    uint32_t late = v->late;

    /* relaxed: only this thread writes `beats` */
    a64_store_relaxed(&v->beats, a64_load_relaxed(&v->beats) + 1);
    /*
     * members of the shared clock wake this one when they act; but a lost member does not, so
     * kernels also check in real time
     */
    if (!virtual_turn_is_alive(v))
        virtual_look_at_late(v, c->now_ns);
    if (v->late < late) {
        virtual_turn_acted(v);
        return;
    }
    if (v->frozen_ns == 0 || virtual_turn_is_alive(v))
        v->frozen_ns = now_ns;
    if (now_ns - v->frozen_ns >= v->still_ns ||
        a64_load_relaxed(&v->cancelled) >= v->request->number)
        c->now_ns += STEP_NS;
    (void)os_wait(&v->event, event, now_ns + LOOK_NS);
}

void virtual_pass(struct virtual_chip *v)
{
    struct virtual_clock *c = v->clock;
    uint64_t next = virtual_next_end(v);

    if (next == VIRTUAL_NEVER && v->late == 0)
        next = c->now_ns + VIRTUAL_IDLE_NS;
    if (virtual_turn_at(v, next))
        c->now_ns = next;
    else if (virtual_next_end(v) == VIRTUAL_NEVER)
        stand_still(v);
}

/* ---- requests of the host ---- */

void virtual_take_requests(struct virtual_chip *v)
{
    uint64_t number = a64_load_relaxed(&v->cancelled);

    if (number >= v->request->number)
        v->board->requests.cancelled[v->request->number % BOARD_RUNS] = v->request->number;
}

void virtual_show_live(struct virtual_chip *v)
{
    /* relaxed: only this thread writes `beats` */
    a64_store_relaxed(&v->beats, a64_load_relaxed(&v->beats) + 1);
}

/* ---- memory ---- */

bool virtual_peek(struct virtual_chip *v, uint64_t addr, uint32_t bytes)
{
    uint64_t bits;

    virtual_turn(v);
    if (v->is_planned_only && virtual_time_is_result(v, addr)) {
        v->has_read_result = true;
        return false;
    }
    return peek_load(addr, bytes, &bits);
}

bool virtual_poke(struct virtual_chip *v, uint64_t addr, uint32_t bytes, uint64_t bits)
{
    virtual_turn(v);
    virtual_turn_acted(v);
    return peek_store(addr, bytes, bits);
}

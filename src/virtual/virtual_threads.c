/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of a chip in virtual time. One of them leads: it resumes the scheduler, and runs the
 * kernels that the scheduler starts. The thread that waits for the run watches the leader, and
 * makes another thread the leader when a kernel occupies this one for long.
 *
 * Ordering
 *   R1 virtual_threads_run `state`   -> A1 virtual_jobs.c     what the kernel wrote is there
 *   R2 give_work `go`                -> A2 thread_main        the thread's work is complete
 *   R3 end_lead `has_ended`          -> A3 virtual_threads_wait, virtual_poll  the result is whole
 *   R4 lead `place`                  -> A4 watch_leader       the scheduler's state is whole
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/lock.h"
#include "chip/backend.h"
#include "virtual/virtual.h"

enum {
    TICK_NS = 5000000, /* interval between two checks of the leader */
    CLOSE_NS = 500000000,
    THREADS_MAX = 2 * BOARD_CORES,
};

/* time without any sign of life after which the orchestration is given up */
#define SILENCE_NS 60000000000u

static void *virtual_thread_main(void *arg);

/* ---- what a kernel asks about its core ---- */

static const struct virtual_job *job_of(const struct pto_sim_core *hook)
{
    const struct virtual_thread *th =
        (const void *)((const char *)hook - offsetof(struct virtual_thread, hook));

    /* relaxed: only this thread writes exec */
    return a32_load_relaxed(&th->exec) % 2 != 0 ? th->job : NULL;
}

static uint32_t virtual_sub_block_here(const struct pto_sim_core *hook)
{
    const struct virtual_job *job = job_of(hook);
    uint32_t aics = job != NULL ? job->thread->chip->base.properties.aic_count : 0;

    return job != NULL && job->start.core >= aics ? (job->start.core - aics) % 2 : 0;
}

static void *virtual_pipe_state_here(const struct pto_sim_core *hook, uint64_t key, size_t size)
{
    const struct virtual_job *job = job_of(hook);
    struct virtual_chip *v;
    uint32_t aics, cluster;
    void *state;

    if (job == NULL)
        return NULL;
    v = job->thread->chip;
    aics = v->base.properties.aic_count;
    cluster = job->start.core < aics ? job->start.core : (job->start.core - aics) / 2;
    pthread_mutex_lock(&v->lock);
    state = pipes_find(&v->pipes, cluster, key, size);
    pthread_mutex_unlock(&v->lock);
    return state;
}

static void virtual_waits_here(const struct pto_sim_core *hook)
{
    const struct virtual_thread *th =
        (const void *)((const char *)hook - offsetof(struct virtual_thread, hook));

    if (job_of(hook) != NULL)
        (void)a32_add_acq_rel(&th->job->polls, 1);
}

/* ---- start, end ---- */

/*
 * Called in the signal handler. A crash in the scheduler ends the run wherever it happened; SIGURG,
 * which interrupts an orchestration, does not.
 */
static bool leave_scheduler(struct crash *crash, int number, uintptr_t pc)
{
    (void)crash;
    (void)pc;
    return number != SIGURG;
}

/* Creates a thread of the chip. NULL: no thread can be created. The lock is held. */
static struct virtual_thread *virtual_start_thread(struct virtual_chip *v)
{
    struct virtual_thread *th;

    assert_held(&v->lock);
    if (v->thread_count == THREADS_MAX)
        return NULL;
    th = calloc(1, sizeof(*th));
    if (th == NULL)
        return NULL;
    th->chip = v;
    th->hook = (struct pto_sim_core){ virtual_sub_block_here, virtual_pipe_state_here,
                                      virtual_waits_here };
    th->crash.fiber = v->fiber;
    th->crash.leave = leave_scheduler;
    if (os_thread_start(&th->handle, virtual_thread_main, th) < 0) {
        free(th);
        return NULL;
    }
    (void)pthread_getcpuclockid(th->handle, &th->cpu);
    th->next = v->all;
    v->all = th;
    v->thread_count++;
    return th;
}

static struct virtual_thread *virtual_take_idle(struct virtual_chip *v)
{
    struct virtual_thread *th = v->idle;

    assert_held(&v->lock);
    if (th == NULL)
        return virtual_start_thread(v);
    v->idle = th->next_idle;
    return th;
}

static void give_work(struct virtual_thread *th, struct virtual_job *job)
{
    atomic_note_write(&th->job);
    th->job = job;
    a32_add_acq_rel(&th->go, 1); /* R2 */
    os_wake(&th->go, 1);
}

bool virtual_threads_close(struct virtual_chip *v)
{
    uint64_t until_ns = os_now_ns() + CLOSE_NS;
    bool is_complete = true;

    a32_store_relaxed(&v->is_closing, 1); /* R2 follows */
    for (struct virtual_thread *th = v->all; th != NULL; th = th->next) {
        a32_add_acq_rel(&th->go, 1); /* R2 */
        os_wake(&th->go, 1);
    }
    for (struct virtual_thread *th = v->all; th != NULL; th = th->next) {
        while (a32_load_acquire(&th->exec) % 2 != 0 && os_now_ns() < until_ns)
            os_yield();
        if (a32_load_acquire(&th->exec) % 2 == 0)
            pthread_join(th->handle, NULL);
        else
            is_complete = false;
    }
    while (is_complete && v->all != NULL) {
        struct virtual_thread *th = v->all;

        v->all = th->next;
        free(th);
    }
    return is_complete;
}

/* ---- kernels ---- */

static void call_kernel(void *arg)
{
    const struct virtual_job *job = arg;

    job->start.fn(job->start.args);
}

static void keep_crash(struct virtual_chip *v, const struct virtual_thread *th,
                       struct virtual_job *job)
{
    job->signal = th->crash.signal;
    job->addr = th->crash.addr;
    virtual_run_keep_crash(v, &th->crash, (const void *)(uintptr_t)job->start.fn, &job->start);
}

void virtual_threads_run(struct virtual_thread *th, struct virtual_job *job)
{
    struct virtual_chip *v = th->chip;
    uint32_t exec = a32_load_relaxed(&th->exec); /* relaxed: only this thread writes exec */

    th->job = job;
    a32_store_release(&th->exec, exec + 1); /* release: pairs with virtual_threads_close */
    if (sigsetjmp(th->crash.back, 0) != 0)
        keep_crash(v, th, job);
    else
        job->thrown = guard_call(call_kernel, job, job->text);
    a32_store_release(&th->exec, exec + 2); /* release: pairs with virtual_threads_close */
    thread_state_restore_floats(th->state.floats);
    a32_store_release(&job->state, VIRTUAL_RETURNED); /* R1 */
}

bool virtual_threads_call(struct virtual_chip *v, struct virtual_job *job)
{
    struct virtual_thread *th;

    pthread_mutex_lock(&v->lock);
    th = virtual_take_idle(v);
    pthread_mutex_unlock(&v->lock);
    if (th == NULL)
        return false;
    job->thread = th;
    give_work(th, job);
    return true;
}

void virtual_threads_signal(struct virtual_chip *v)
{
    /* wakes the threads that wait for jobs, so that they load the states of jobs again */
    a32_add_acq_rel(&v->event, 1);
    os_wake(&v->event, UINT32_MAX);
}

/* ---- the leader ---- */

/* Resumes the scheduler until the run has ended. False: another thread has taken the lead. */
static bool virtual_lead(struct virtual_thread *th)
{
    struct virtual_chip *v = th->chip;
    uint32_t place;

    for (;;) {
        struct virtual_job *job;

        if (sigsetjmp(th->crash.back, 0) != 0) { /* the orchestration crashed */
            virtual_run_crashed(v, &th->crash);
            return true;
        }
        fiber_resume(v->fiber);
        if (fiber_is_done(v->fiber))
            return true;
        job = v->asked;
        job->thread = th;
        a32_store_release(&th->place, VIRTUAL_LEADS_IN_KERNEL); /* R4 */
        virtual_threads_run(th, job);
        place = VIRTUAL_LEADS_IN_KERNEL;
        if (!a32_cas_acq_rel(&th->place, &place, VIRTUAL_LEADS))
            return false;
    }
}

static void end_lead(struct virtual_thread *th)
{
    struct virtual_chip *v = th->chip;

    pthread_mutex_lock(&v->lock);
    v->leader = NULL;
    th->next_idle = v->idle;
    v->idle = th;
    pthread_mutex_unlock(&v->lock);
    a32_store_release(&v->has_ended, 1); /* R3 */
    /* `done` counts ended runs; the thread that waits for the run sleeps on it as a futex */
    a32_add_acq_rel(&v->done, 1);
    os_wake(&v->done, UINT32_MAX);
}

static void virtual_put_idle(struct virtual_thread *th)
{
    struct virtual_chip *v = th->chip;

    pthread_mutex_lock(&v->lock);
    th->next_idle = v->idle;
    v->idle = th;
    pthread_mutex_unlock(&v->lock);
    virtual_threads_signal(v);
}

static void begin_thread(struct virtual_thread *th)
{
    virtual_clock_enter(th->chip->clock);
    (void)pto_sim_set_core(&th->hook);
    crash_begin(&th->crash, &th->exec);
    thread_state_save(&th->state, true);
    /* relaxed: a thread that still loads 0 assumes that this thread is awake */
    a32_store_relaxed(&th->id, os_thread_id());
}

static void *virtual_thread_main(void *arg)
{
    struct virtual_thread *th = arg;
    struct virtual_chip *v = th->chip;
    uint32_t done = 0;

    begin_thread(th);
    for (;;) {
        uint32_t go = a32_load_acquire(&th->go); /* A2 */

        /* relaxed: acquire A2 has come before this load */
        if (a32_load_relaxed(&v->is_closing) != 0)
            break;
        if (go == done) {
            os_wait(&th->go, go, UINT64_MAX);
            continue;
        }
        done = go;
        atomic_note_read(&th->job);
        if (th->job != NULL) {
            virtual_threads_run(th, th->job);
            thread_state_restore(&th->state);
            virtual_put_idle(th);
        } else {
            /* relaxed: no other thread reads `place` before this one runs a kernel */
            a32_store_relaxed(&th->place, VIRTUAL_LEADS);
            if (virtual_lead(th))
                end_lead(th);
            else
                virtual_put_idle(th);
            thread_state_restore(&th->state);
        }
    }
    crash_end(&th->crash);
    return NULL;
}

/* ---- the caller of the run ---- */

int virtual_threads_lead(struct virtual_chip *v)
{
    struct virtual_thread *th;

    pthread_mutex_lock(&v->lock);
    th = virtual_take_idle(v);
    v->leader = th;
    pthread_mutex_unlock(&v->lock);
    if (th == NULL)
        return PTO_ESYSTEM;
    give_work(th, NULL);
    return PTO_OK;
}

/* If the leader has been in one kernel since the last check, makes another thread the leader. */
static void watch_leader(struct virtual_chip *v, uint32_t *exec_seen)
{
    uint32_t place = VIRTUAL_LEADS_IN_KERNEL, exec;
    struct virtual_thread *leader, *th;

    pthread_mutex_lock(&v->lock);
    leader = v->leader;
    /* relaxed: a stale value only delays the takeover by another thread */
    exec = leader != NULL ? a32_load_relaxed(&leader->exec) : 0;
    if (leader == NULL || exec % 2 == 0 || exec != *exec_seen) {
        *exec_seen = exec;
        pthread_mutex_unlock(&v->lock);
        return;
    }
    th = virtual_take_idle(v);
    if (th != NULL && a32_cas_acq_rel(&leader->place, &place, VIRTUAL_ASIDE)) { /* A4 */
        v->leader = th;
        give_work(th, NULL);
    } else if (th != NULL) {
        th->next_idle = v->idle;
        v->idle = th;
    }
    *exec_seen = 0;
    pthread_mutex_unlock(&v->lock);
}

bool virtual_threads_wait(struct virtual_chip *v)
{
    const struct pto_run_options *options = v->request->options;
    uint64_t grace_ns = options->grace_ns != 0 ? options->grace_ns : PTO_GRACE_DEFAULT_NS;
    uint64_t since_ns = os_now_ns(), beats = 0;
    uint32_t exec_seen = 0;

    while (a32_load_acquire(&v->has_ended) == 0) { /* A3 */
        uint64_t seen = a64_load_relaxed(&v->beats);
        uint64_t now_ns = os_now_ns();

        if (seen != beats)
            since_ns = now_ns;
        beats = seen;
        if (now_ns - since_ns > v->request->stall_ns + grace_ns + SILENCE_NS)
            return false;
        os_wait(&v->done, v->done_before, now_ns + TICK_NS);
        watch_leader(v, &exec_seen);
    }
    return true;
}

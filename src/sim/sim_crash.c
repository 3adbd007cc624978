/* SPDX-License-Identifier: Apache-2.0 */
/* Data of the crash that ended a run, and its report after the run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/lock.h"
#include "sim/sim.h"

/* Copies the tensors that the kernel got; the kernel may have overwritten its argument vector. */
static void keep_arguments(struct sim *m, struct slot *s)
{
    struct backtrace *t = &m->result.trace;
    const struct pto_tensor *tensor =
        m->image != NULL ? (const void *)graph_slot(&m->graph, s->payload) : s->tensor;
    uint32_t tensors = s->tensor_count < BACKTRACE_ARGS ? s->tensor_count : BACKTRACE_ARGS;
    uint32_t scalars = s->scalar_count < BACKTRACE_ARGS ? s->scalar_count : BACKTRACE_ARGS;

    t->tensor_count = s->tensor_count;
    t->scalar_count = s->scalar_count;
    memcpy(t->tensor, tensor, tensors * sizeof(*tensor));
    if (s->scalar_count == 1)
        t->scalar[0] = s->scalar;
    else
        memcpy(t->scalar, &tensor[s->tensor_count], scalars * sizeof(t->scalar[0]));
}

/* Stores the frames of the crash in the chip. The lock is held. */
static void keep_frames(struct sim *m, const struct crash *crash, uintptr_t entry)
{
    assert_held(&m->lock);
    m->result.trace.overflow_bytes = crash->overflow_bytes;
    m->crash_count = crash->frame_count;
    memcpy(m->crash_frame, crash->frame, sizeof(m->crash_frame));
    m->crash_entry = (const void *)entry;
}

void sim_keep_crash(struct sim *m, const struct thread *th, struct slot *s, uint32_t kernel)
{
    pthread_mutex_lock(&m->lock);
    keep_arguments(m, s);
    keep_frames(m, &th->crash, (uintptr_t)m->guarded_kernels[kernel].fn);
    pthread_mutex_unlock(&m->lock);
}

void sim_keep_arguments(struct sim *m, struct slot *s)
{
    pthread_mutex_lock(&m->lock);
    keep_arguments(m, s);
    pthread_mutex_unlock(&m->lock);
}

void sim_keep_builder_place(struct sim *m, const struct thread *th)
{
    pthread_mutex_lock(&m->lock);
    keep_frames(m, &th->crash, (uintptr_t)m->run.code);
    m->crash_count = crash_skip_libraries(m->crash_frame, m->crash_count, m->crash_entry);
    pthread_mutex_unlock(&m->lock);
}

void sim_keep_builder_crash(struct sim *m, const struct thread *th)
{
    int32_t operation = m->is_torn ? sim_find_operation(m, &th->crash) : -1;

    pthread_mutex_lock(&m->lock);
    m->result.trace.tensor_count = m->result.trace.scalar_count = 0;
    keep_frames(m, &th->crash, (uintptr_t)m->run.code);
    /*
     * drop the frames of the operation itself, so that the first frame is the orchestration's call
     * of it
     */
    if (operation >= 0) {
        m->crash_count -= (uint32_t)operation + 1;
        memmove(m->crash_frame, m->crash_frame + operation + 1,
                m->crash_count * sizeof(m->crash_frame[0]));
    }
    pthread_mutex_unlock(&m->lock);
}

/* ---- an operation to which the orchestration passed a bad address ---- */

static bool is_operation(const struct sim *m, uintptr_t function)
{
    const struct pto_orch_ops *ops = m->orch.handle.ops;
    const uintptr_t *word = (const uintptr_t *)(const void *)ops;

    for (uint32_t k = offsetof(struct pto_orch_ops, submit) / sizeof(*word);
         k < sizeof(*ops) / sizeof(*word); k++)
        if (word[k] == function)
            return true;
    return false;
}

/*
 * Finds the frame of the operation that the orchestration called. Only operations count; other
 * exported functions of the library belong to the host's API, and may hold locks that would never
 * be released.
 */
int32_t sim_find_operation(const struct sim *m, const struct crash *crash)
{
    struct os_range own = os_find_code((uintptr_t)sim_find_operation);
    struct os_range theirs = os_find_code((uintptr_t)m->run.code);
    /* the runtime may be linked into the program; then library and orchestration are one object */
    bool is_one = own.begin == theirs.begin;
    int32_t last = -1;

    for (uint32_t i = 0; i < crash->frame_count; i++) {
        /*
         * a return address is that of the instruction after the call, so subtract 1 to get into the
         * call
         */
        uintptr_t pc = crash->frame[i] - (i != 0);
        uintptr_t function = crash_function(pc);

        if (is_one && is_operation(m, function))
            return (int32_t)i;
        if (!is_one && os_is_in(theirs, pc))
            return last;
        if (!is_one && os_is_in(own, pc))
            last = os_is_exported(function) ? -1 : (int32_t)i;
    }
    return -1;
}

/* Whether any thread is in a kernel. The lock is held. */
static bool crash_has_kernels(const struct sim *m)
{
    bool has_any = false;

    assert_held(&m->lock);
    for (const struct thread *th = m->all; th != NULL; th = th->next)
        has_any = has_any || th->lane.slot != NULL ||
                  /* relaxed: the answer need not be exact, because the caller polls */
                  a32_load_relaxed(&th->core.exec) % 2 != 0;
    return has_any;
}

/*
 * Waits for running kernels until the grace is over; then ends the run as if they had been given
 * up.
 */
void sim_end_torn(struct sim *m)
{
    enum { LOOK_NS = 1000000 };
    uint64_t until_ns = sim_grace_end(m, os_now_ns());
    bool has_any = true;

    m->is_lost = true;
    sched_signal(&m->sched);
    sim_drop_teams(m);
    while (has_any && os_now_ns() < until_ns) {
        pthread_mutex_lock(&m->lock);
        has_any = crash_has_kernels(m);
        pthread_mutex_unlock(&m->lock);
        if (has_any)
            /* a missed wake only delays the next check */
            os_wait(&m->event, a32_load_relaxed(&m->event), os_now_ns() + LOOK_NS);
    }
    /* relaxed: until the run has ended, only place 0 writes is_abandoned */
    a32_store_relaxed(&m->is_abandoned, 1);
    sim_abandon_kernels(m);
}

/*
 * Adds source lines to the report of a crash. Called without the lock, because it starts a program.
 */
void sim_report_crash(struct sim *m)
{
    uintptr_t frame[CRASH_FRAMES_MAX];
    const void *entry;
    uint32_t count;

    pthread_mutex_lock(&m->lock);
    memcpy(frame, m->crash_frame, sizeof(frame));
    count = m->crash_count;
    entry = m->crash_entry;
    pthread_mutex_unlock(&m->lock);
    lines_find(frame, count, entry, &m->result.trace.lines);
}

/* ---- a child of fork ---- */

/*
 * In a process that was forked from a kernel or the orchestration, neither the run nor the other
 * threads exist. It may exit or start another program. If it returns to the runtime instead, the
 * flags set here make the runtime end it.
 */
void sim_forked(struct crash *crash)
{
    struct thread *th = (struct thread *)(void *)((char *)crash - offsetof(struct thread, crash));
    struct sim *m = th->sim;

    m->is_forked = true;
    core_set_lost(&th->core, true); /* the flag is checked after a kernel; mutation: orphan-run */
    if (orch_is_builder(&m->orch)) {
        m->is_builder_gone = true;
        /* a forked child has no other thread */
        a32_store_relaxed(&m->sched.attention, ATTEND_CANCELLED);
    }
}

void sim_end_child(void)
{
    static const char text[] =
        "pto: a process that was forked in a kernel or an orchestration returned from it, but the "
        "run belongs to its parent; call _exit or exec in the child\n";

    if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
        /*
         * the exit code reports the failure as well, so an error of writing the message is ignored
         */
        _exit(EXIT_FAILURE);
    _exit(EXIT_FAILURE);
}

/* ---- reporting where a thread is when the process ends ---- */

/*
 * Writes where the thread is, as the end of a sentence that begins with "pto: exit in ". Returns
 * what snprintf returns.
 */
static int describe_place(struct sim *m, const struct thread *th, bool is_inside, char *text,
                          size_t size)
{
    const struct slot *s = is_inside ? th->core.slot : orch_last_submit(&m->orch);
    const struct pto_site *site = s != NULL ? s->site : NULL;
    const char *file = site != NULL && site->file != NULL ? site->file : "?";
    int line = site != NULL ? site->line : 0;
    uint32_t kernel;

    if (s == NULL)
        return snprintf(text, size, "the orchestration, before its first submit");
    if (!is_inside)
        return snprintf(text, size, "the orchestration, after the submit of task %u (%s:%d)",
                        s->seq - 1, file, line);
    kernel = sim_kernel_of(th);
    return snprintf(
        text, size, "kernel \"%s\" in block %u of task %u (%s:%d)",
        m->kernel_name != NULL && kernel < m->kernel_name_count ? m->kernel_name[kernel] : "?",
        (uint32_t)th->core.local.block_index, s->seq - 1, file, line);
}

static void save_records(void *context)
{
    struct sim *m = context;

    sim_record_end(m);
    m->on_crash(m->on_crash_context);
}

void sim_last_words(struct crash *crash, int number)
{
    struct thread *th = (struct thread *)(void *)((char *)crash - offsetof(struct thread, crash));
    struct sim *m = th->sim;
    /* relaxed: only this thread writes exec */
    bool is_inside = a32_load_relaxed(&th->core.exec) % 2 != 0;
    char place[320];

    if ((!is_inside && !orch_is_builder(&m->orch)) ||
        describe_place(m, th, is_inside, place, sizeof(place)) <= 0)
        return;
    crash_report_end(number, place,
                     is_inside ? (const void *)(uintptr_t)m->guarded_kernels[sim_kernel_of(th)].fn
                               : m->run.code);
    if (m->on_crash != NULL)
        (void)crash_call_in_child(save_records, m);
}

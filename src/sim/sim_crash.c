/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of the crash that ended a run, and told when it is over. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/sim.h"

/* Tensors as the kernel got them, not as its vector has them: that is the kernel's to write to. */
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

/* Under the lock. */
static void keep_frames(struct sim *m, const struct crash *crash, uintptr_t entry)
{
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

void sim_keep_builder_crash(struct sim *m, const struct thread *th)
{
    int32_t operation = m->is_torn ? sim_find_operation(m, &th->crash) : -1;

    pthread_mutex_lock(&m->lock);
    m->result.trace.tensor_count = m->result.trace.scalar_count = 0;
    keep_frames(m, &th->crash, (uintptr_t)m->run.code);
    if (operation >= 0) { /* from where it was called on */
        m->crash_count -= (uint32_t)operation + 1;
        memmove(m->crash_frame, m->crash_frame + operation + 1,
                m->crash_count * sizeof(m->crash_frame[0]));
    }
    pthread_mutex_unlock(&m->lock);
}

/* ---- an operation that was given a bad address ---- */

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
 * The runtime's frame that the orchestration's own one called. Functions that can be found by
 * name are no operations but the host's, which has locks that nobody would give back.
 */
int32_t sim_find_operation(const struct sim *m, const struct crash *crash)
{
    struct os_range own = os_find_code((uintptr_t)sim_find_operation);
    struct os_range theirs = os_find_code((uintptr_t)m->run.code);
    bool is_one =
        own.begin == theirs.begin; /* linked into the program: an operation is one by name */
    int32_t last = -1;

    for (uint32_t i = 0; i < crash->frame_count; i++) {
        uintptr_t pc = crash->frame[i] - (i != 0); /* behind a call */
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

/* Under the lock. */
static bool crash_has_kernels(const struct sim *m)
{
    bool has_any = false;

    for (const struct thread *th = m->all; th != NULL; th = th->next)
        has_any = has_any || th->lane.slot != NULL ||
                  a32_load_relaxed(&th->core.exec) % 2 != 0; /* a glance */
    return has_any;
}

/* Kernels that run have the grace to return; then the run ends as if they had been given up. */
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
            os_wait(&m->event, a32_load_relaxed(&m->event), os_now_ns() + LOOK_NS); /* no matter */
    }
    a32_store_relaxed(&m->is_abandoned, 1); /* place 0's own word until the run has ended */
    sim_abandon_kernels(m);
}

/* The lock is not held meanwhile: looking lines up starts a program. */
void sim_tell_crash(struct sim *m)
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
 * Its threads are the parent's, and so is the run. It may end itself or start
 * another program; where it comes back to the runtime, it is made to look.
 */
void sim_forked(struct crash *crash)
{
    struct thread *th = (struct thread *)(void *)((char *)crash - offsetof(struct thread, crash));
    struct sim *m = th->sim;

    m->is_forked = true;
    core_set_lost(&th->core, true); /* looked at after a kernel; mutation: orphan-run */
    if (orch_is_builder(&m->orch)) {
        m->is_builder_gone = true;
        a32_store_relaxed(&m->sched.attention, ATTEND_CANCELLED); /* nobody else is there */
    }
}

void sim_end_child(void)
{
    static const char text[] =
        "pto: a process that was forked in a kernel or an orchestration came back from it; the run "
        "is its parent's: call _exit or exec in the child\n";

    if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
        _exit(EXIT_FAILURE); /* nobody listens */
    _exit(EXIT_FAILURE);
}

/* ---- the end of the process ---- */

/* Behind "pto: SIGABRT in ". 0: in nothing that is known. */
static int describe_place(struct sim *m, const struct thread *th, char *text, size_t size)
{
    const struct slot *s = th->core.slot;
    bool is_inside = a32_load_relaxed(&th->core.exec) % 2 != 0; /* own word */
    const struct pto_site *site;

    if (!is_inside && !orch_is_builder(&m->orch))
        return 0;
    if (!is_inside)
        s = orch_last_submit(&m->orch);
    site = s != NULL ? s->site : NULL;
    if (s == NULL)
        return snprintf(text, size, "the orchestration, before its first submit");
    return snprintf(text, size, "%s task %u (%s:%d)",
                    is_inside ? "a kernel of" : "the orchestration, after the submit of",
                    s->seq - 1, site != NULL && site->file != NULL ? site->file : "?",
                    site != NULL ? site->line : 0);
}

/*
 * By a child, which has this thread only and a copy of everything. It may allocate, as the
 * parent may not here; if whatever ended the process has damaged the heap or has the
 * allocator's lock, the child is ended by another signal or by its alarm.
 */
static void leave_will(struct sim *m)
{
    enum { SECONDS = 10 };
    static const int numbers[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM };
    sigset_t none;
    int child = os_fork_quietly();

    if (child > 0)
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
        }
    if (child != 0)
        return;
    for (uint32_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        (void)signal(numbers[i], SIG_DFL);
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    alarm(SECONDS);
    sim_record_end(m);
    m->last_will(m->last_will_context);
    _exit(EXIT_SUCCESS);
}

/* Nothing here allocates or takes a lock: snprintf does not for what it is given. */
void sim_last_words(struct crash *crash, int number)
{
    struct thread *th = (struct thread *)(void *)((char *)crash - offsetof(struct thread, crash));
    char text[400], place[320];
    int length = describe_place(th->sim, th, place, sizeof(place));

    if (length <= 0)
        return;
    length = snprintf(text, sizeof(text), "pto: %s in %s\n",
                      number == SIGABRT ? "abort, or a failed assertion," : "a crash", place);
    if (length > 0 && write(STDERR_FILENO, text, (size_t)length) < 0)
        length = 0; /* nobody listens */
    if (th->sim->last_will != NULL)
        leave_will(th->sim);
}

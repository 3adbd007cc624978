/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exit report of an isolated chip. A kernel that crashes is caught by the chip, and the run
 * fails; but one that calls exit or abort, or damages what the runtime or the allocator
 * rely on, ends the process. Then whoever ends it writes down which kernels run, or ran
 * last. Nothing is allocated, and the chip's lock is taken if it can be had; what is read
 * may be damaged, and if that leads to another signal, the process ends without a report.
 *
 * Signal handlers have no argument, so these are variables of this file. The report is made in the
 * process's own memory and then copied to where the host finds it.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim/isolated_serve.h"
#include "sim/isolated_wire.h"
#include "sim/sim.h"

static const int fatal[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL };

#if defined(__SANITIZE_ADDRESS__)
enum { FATAL = 1 }; /* it has handlers of its own for the others */
#else
enum { FATAL = sizeof(fatal) / sizeof(fatal[0]) };
#endif

enum { NAPS = 100, NAP_NS = 1000000 };

static struct sim *chip_here;
static struct isolated_report report;
static struct isolated_report *report_shared; /* where the host finds it */
static pid_t report_process;                  /* not a child that a kernel has forked */

static void on_signal(int number);
static void leave_at_exit(int status, void *arg);

void sim_report_begin(struct isolated_report *report)
{
    struct sigaction action;

    report_shared = report;
    report_process = getpid();
    memset(&action, 0, sizeof(action));
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK | SA_NODEFER;
    crash_set_last(on_signal);
    for (uint32_t i = 0; i < FATAL; i++)
        sigaction(fatal[i], &action, NULL);
    (void)on_exit(leave_at_exit, NULL); /* without memory for that there is no report */
}

void sim_report_name(struct sim *m)
{
    chip_here = m;
}

/* ---- what the kernels do ---- */

static bool is_inside(const struct thread *th)
{
    return a32_load_acquire(&th->core.exec) % 2 != 0; /* sees what R7 published */
}

static void keep_site(struct isolated_report_kernel *k, const struct pto_site *site)
{
    size_t length;

    if (site == NULL || site->file == NULL)
        return;
    length = strlen(site->file);
    k->line = site->line;
    memcpy(k->file,
           length < sizeof(k->file) ? site->file : site->file + length - (sizeof(k->file) - 1),
           length < sizeof(k->file) ? length : sizeof(k->file) - 1);
}

/* Once; a slot that has another task by now says nothing. */
static void add_kernel(const struct thread *th)
{
    struct isolated_report_kernel *k = &report.kernel[report.count];
    const struct slot *s = th->core.slot;
    uint32_t type, index = 0, lane;

    if (report.count == ISOLATED_REPORT_KERNELS || s == NULL || s->lanes == 0 ||
        slot_id(s).raw != th->core.local.task.raw)
        return;
    type = th->lane.slot != NULL ? th->lane.type : s->core_type;
    if (th->lane.slot != NULL)
        index = th->lane.core;
    else if (th->is_lost)
        index = th->held_index;
    else if (th->place != NULL)
        index = th->place->core_index[type];
    lane = type == PTO_CORE_AIC ? LANE_AIC : LANE_AIV0 + index % 2;
    *k = (struct isolated_report_kernel){ .task = s->seq - 1,
                                          .kernel = (int32_t)slot_kernel(s, lane),
                                          .block = (uint32_t)th->core.local.block_index,
                                          .core = index,
                                          .is_aiv = type == PTO_CORE_AIV };
    keep_site(k, s->site);
    report.count++;
}

/* What an orchestration did last comes first. */
static void add_submit(const struct slot *s)
{
    if (s == NULL)
        return;
    if (report.count == ISOLATED_REPORT_KERNELS)
        report.count--;
    memmove(&report.kernel[1], &report.kernel[0], report.count * sizeof(report.kernel[0]));
    report.kernel[0] = (struct isolated_report_kernel){ .task = s->seq - 1, .kernel = -1 };
    keep_site(&report.kernel[0], s->site);
    report.count++;
}

static void add_kernels(const struct sim *m, const struct thread *own, bool is_running)
{
    if (&m->caller != own && is_inside(&m->caller) == is_running)
        add_kernel(&m->caller);
    for (const struct thread *th = m->all; th != NULL; th = th->next)
        if (th != own && is_inside(th) == is_running)
            add_kernel(th);
}

/* The thread that ends the process, if it is one of the chip's. */
static const struct thread *find_own(const struct sim *m)
{
    if (pthread_equal(m->caller_handle, pthread_self()))
        return &m->caller;
    for (const struct thread *th = m->all; th != NULL; th = th->next)
        if (pthread_equal(th->handle, pthread_self()))
            return th;
    return NULL;
}

static uint32_t find_suspect(const struct sim *m)
{
    const struct thread *own = find_own(m);

    if (own != NULL && is_inside(own)) { /* mutation: no-report */
        add_kernel(own);
        add_kernels(m, own, true);
        return SUSPECT_CAUGHT;
    }
    add_kernels(m, NULL, true);
    if (orch_is_builder(&m->orch)) {
        add_submit(orch_last_submit(&m->orch));
        return SUSPECT_ORCHESTRATION;
    }
    if (report.count != 0)
        return SUSPECT_RUNNING;
    add_kernels(m, NULL, false);
    return report.count != 0 ? SUSPECT_LAST : SUSPECT_NONE;
}

/* Whoever has the lock gives it back soon, unless it is this thread, or the lock is damaged. */
static bool lock_if_possible(struct sim *m)
{
    const struct timespec nap = { 0, NAP_NS };
    bool has_lock = false;

    for (uint32_t i = 0; i < NAPS && !has_lock; i++) {
        has_lock = pthread_mutex_trylock(&m->lock) == 0;
        if (!has_lock)
            (void)nanosleep(&nap, NULL);
    }
    return has_lock;
}

/* ---- when it comes to that ---- */

static void leave(void)
{
    for (uint32_t i = 0; i < FATAL; i++)
        (void)signal(fatal[i], SIG_DFL); /* whatever goes wrong from here on is the end */
    if (report.magic != 0 || getpid() != report_process) /* there is one report */
        return;
    report.magic = ISOLATED_MAGIC;
    if (chip_here != NULL) {
        bool has_lock = lock_if_possible(chip_here);

        report.suspect = find_suspect(chip_here);
        if (has_lock)
            pthread_mutex_unlock(&chip_here->lock);
    }
    *report_shared = report;
    a32_store_release(&report_shared->is_whole, 1); /* the process may be killed halfway */
}

static void on_signal(int number)
{
    leave();
    (void)raise(number); /* or, for a fault, the instruction that runs again */
}

static void leave_at_exit(int status, void *arg)
{
    (void)status;
    (void)arg;
    leave();
}

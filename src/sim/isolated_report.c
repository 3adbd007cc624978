/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exit report of an isolated chip.
 *
 * The chip catches a kernel that crashes, and the run fails. But a kernel that calls exit or abort,
 * or damages data of the runtime or of the allocator, ends the process. Then the thread that ends
 * the process writes a report of the kernels that are running or ran last.
 *
 * Writing the report allocates nothing, and takes the chip's lock only if it is free. The data it
 * reads may be damaged; if that raises another signal, the process ends without a report. Signal
 * handlers have no argument, so the state is in variables of this file. The report is built in
 * private memory and then copied to the control memory.
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
/* number of signals whose handlers are in this file; the chip handles the other signals */
enum { FATAL = 1 };
#else
enum { FATAL = sizeof(fatal) / sizeof(fatal[0]) };
#endif

enum { NAPS = 100, NAP_NS = 1000000 };

static struct sim *chip_here;
static struct isolated_report report;
static struct isolated_report *report_shared; /* the report in the control memory */
static pid_t report_process; /* differs from getpid() in a process that a kernel has forked */

static void on_signal(int number);

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
}

void sim_report_name(struct sim *m)
{
    chip_here = m;
}

/* ---- which kernels run ---- */

static bool is_inside(const struct thread *th)
{
    /* acquire: pairs with R7, which publishes the thread's kernel */
    return a32_load_acquire(&th->core.exec) % 2 != 0;
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

/*
 * Adds the kernel that the thread runs or ran last to the report. Adds nothing if the report is
 * full, or if the slot of the kernel's task has another task by now.
 */
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

/*
 * Adds the last submit of the orchestration as the first entry, if the process ends in the
 * orchestration.
 */
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

/*
 * Returns the chip's thread that calls this function and is about to end the process; NULL: the
 * caller is another thread.
 */
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

/*
 * Tries for a limited time to take the lock. If that fails, the holder is this thread, or the lock
 * is damaged.
 */
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

/* ---- writing the report ---- */

/* Writes the exit report without source lines. Returns whether the caller should add them. */
static bool leave(void)
{
    for (uint32_t i = 0; i < FATAL; i++)
        /*
         * restore the default action, so that another fault ends the process without a second
         * report
         */
        (void)signal(fatal[i], SIG_DFL);
    /* each process writes one report only; a forked child writes none */
    if (report.magic != 0 || getpid() != report_process)
        return false;
    report.magic = ISOLATED_MAGIC;
    if (chip_here != NULL) {
        bool has_lock = lock_if_possible(chip_here);

        report.suspect = find_suspect(chip_here);
        if (has_lock)
            pthread_mutex_unlock(&chip_here->lock);
    }
    *report_shared = report;
    /* set this flag last, because the process may be killed while it copies the report */
    a32_store_release(&report_shared->is_whole, 1);
    return report.suspect == SUSPECT_CAUGHT || report.suspect == SUSPECT_ORCHESTRATION;
}

/*
 * Adds the source lines of the code that ended the process. Finding them allocates memory, so a
 * signal handler calls this in a forked child.
 */
static void report_lines(void *context)
{
    const struct thread *own = chip_here != NULL ? find_own(chip_here) : NULL;
    const void *entry;

    (void)context;
    if (own == NULL || report.suspect == SUSPECT_NONE)
        return;
    entry = is_inside(own)
                ? (const void *)(uintptr_t)chip_here->guarded_kernels[sim_kernel_of(own)].fn
                : chip_here->run.code;
    crash_find_lines(entry, &report_shared->lines);
    a32_store_release(&report_shared->has_lines, 1);
}

static void on_signal(int number)
{
    bool has_place = leave();

    if (number == 0) { /* number 0: called by exit, which ends the process afterwards */
        if (has_place)
            report_lines(NULL);
        return;
    }
    if (has_place)
        (void)crash_call_in_child(report_lines, NULL);
    /*
     * the default action ends the process, now or when the handler returns to the faulting
     * instruction
     */
    (void)raise(number);
}

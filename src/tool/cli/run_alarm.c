/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tool/cli/run_alarm.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include "base/os.h"
#include "tool/cli/machine.h"
#include "tool/cli/ranks.h"

/*
 * Deadlines, in shared memory. Each process writes its own deadline; its parent reads that deadline
 * after reaping the process.
 */
struct alarms {
    uint64_t due_ns[RANKS_MAX]; /* deadline of each rank, in CLOCK_MONOTONIC time; 0: not set */
    struct machine_kills before;
};

static struct alarms *shared;

void cli_alarm_share(void)
{
    void *at =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        return;
    shared = at;
    cli_machine_count_kills(&shared->before);
}

/*
 * The timer sends SIGKILL, because a kernel may have ended the thread that enforces the time limit
 * of the run, and the other threads block all signals that can be blocked.
 */
void cli_alarm_set(uint32_t rank, double seconds)
{
    static timer_t timer;
    static bool has_timer;
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
    struct itimerspec when = { .it_value.tv_sec = (time_t)seconds };

    when.it_value.tv_nsec = (long)((seconds - (double)when.it_value.tv_sec) * 1e9);
    /*
     * sets the deadline before the timer, so that the deadline is in the past if the timer expires
     */
    if (shared != NULL && rank < RANKS_MAX)
        shared->due_ns[rank] = seconds != 0 ? os_now_ns() + (uint64_t)(seconds * 1e9) : 0;
    has_timer = has_timer || timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
    if (has_timer)
        (void)timer_settime(timer, 0, &when, NULL);
}

void cli_alarm_explain(uint32_t rank, const char *who, const char *place, char *text, size_t size)
{
    struct machine_kills now = { 0, 0 };
    bool is_due = shared == NULL || rank >= RANKS_MAX ||
                  (shared->due_ns[rank] != 0 && os_now_ns() >= shared->due_ns[rank]);

    if (!is_due)
        cli_machine_count_kills(&now);
    if (is_due)
        snprintf(text, size, "%s did not finish in time%s and was killed", who, place);
    else if (now.group > shared->before.group)
        snprintf(text, size,
                 "%s was killed%s by the kernel, because memory ran out (OOM); use a smaller "
                 "case, or raise the limit of memory",
                 who, place);
    else
        snprintf(text, size, "%s was killed%s by signal 9 (SIGKILL), before its time was over: %s",
                 who, place,
                 now.machine > shared->before.machine
                     ? "probably by the kernel, which killed a process for lack of memory (OOM)"
                     : "another process sent it");
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits of the host for the process of an isolated chip, and the check whether that process is
 * stopped by a signal.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "sim/isolated.h"

#define MS_NS 1000000ull
enum { LATE_MS = 20 };

struct a32 sim_isolated_second_ms = { 1000 };

static bool isolated_is_stopped(pid_t pid)
{
    char path[40], text[512] = { 0 };
    const char *end = NULL;
    int file;

    snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0 && read(file, text, sizeof(text) - 1) > 0)
        /*
         * the state follows the name of the process, which is in parentheses and may itself contain
         * parentheses
         */
        end = strrchr(text, ')');
    if (file >= 0)
        close(file);
    return end != NULL && end[1] == ' ' && end[2] == 'T';
}

static uint64_t isolated_seconds_ms(uint32_t seconds)
{
    return (uint64_t)seconds *
           /* relaxed: the length publishes no other data */
           a32_load_relaxed(&sim_isolated_second_ms);
}

/* Returns the time until the next check of a wait: a second, or less near the deadline. */
static uint64_t isolated_slice_ms(const struct isolated_limits *limits)
{
    uint64_t now_ns = os_now_ns(), slice = isolated_seconds_ms(1);

    if (limits->deadline_ns == 0 || limits->deadline_ns > now_ns + slice * MS_NS)
        return slice;
    return limits->deadline_ns <= now_ns ? LATE_MS
                                         : (limits->deadline_ns - now_ns) / MS_NS + LATE_MS;
}

struct isolated_holds {
    struct isolated *iso;
    struct line *line;
    bool for_room;
};

static bool isolated_holds(void *context)
{
    const struct isolated_holds *h = context;

    return a32_load_acquire(&h->iso->process.has_ended) != 0 ||
           payload_is_due(h->line, h->for_room);
}

/*
 * Sleeps for one slice. True: the wait is over, because there is a record or room for one, or the
 * process has ended.
 */
static bool isolated_sleep(struct isolated_holds *h, uint64_t ms)
{
    return waker_await(h->line->own,
                       &(struct waker_wait){ .holds = isolated_holds,
                                             .context = h,
                                             .policy = h->iso->spin_policy,
                                             .deadline_ns = os_now_ns() + ms * MS_NS }) >= 0;
}

/*
 * Waits for a record, or for room for one. Waits in slices of a second, so that a slice in which
 * this process itself is stopped counts as one second only. For the deadline, the other process
 * counts as stopped only if two successive checks find it stopped, because a signal that continues
 * both processes may reach this one a moment earlier. A slice counts as time in which it was
 * stopped if it is stopped at the end.
 */
int sim_isolated_await(void *context, struct line *l, bool for_room)
{
    const struct isolated_limits *limits = context;
    struct isolated *iso = limits->iso;
    struct isolated_holds h = { iso, l, for_room };
    uint64_t waited_ms = 0, stopped_ms = 0;
    uint32_t stops = 0;

    while (waited_ms < isolated_seconds_ms(limits->seconds)) {
        uint64_t ms = isolated_slice_ms(limits);

        if (isolated_sleep(&h, ms)) {
            bool has_ended = a32_load_acquire(&iso->process.has_ended) != 0;

            /*
             * the process may have sent its last record just before it ended, so look for one first
             */
            return payload_is_due(l, for_room) && !(has_ended && for_room) ? PTO_OK : PTO_EPEER;
        }
        waited_ms += ms;
        if (limits->looks && isolated_is_stopped(iso->process.pid)) {
            stopped_ms += ms;
            stops += limits->deadline_ns != 0 && os_now_ns() >= limits->deadline_ns;
        } else {
            stopped_ms = stops = 0;
        }
        if (stops == 2)
            return PTO_ECANCELED;
        if (limits->stopped_seconds != 0 &&
            stopped_ms >= isolated_seconds_ms(limits->stopped_seconds))
            return PTO_ESTALL;
    }
    return PTO_ETIMEOUT;
}

static bool isolated_has_ended(void *context)
{
    return a32_load_acquire(&((struct isolated *)context)->process.has_ended) != 0;
}

bool sim_isolated_await_end(struct isolated *iso, uint32_t seconds)
{
    return waker_await(
               &iso->control->line[ISOLATED_LINE_RUNS].host,
               &(struct waker_wait){ .holds = isolated_has_ended,
                                     .context = iso,
                                     .policy = iso->spin_policy,
                                     .deadline_ns =
                                         os_now_ns() + isolated_seconds_ms(seconds) * MS_NS }) >= 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* How long the host waits for the process of an isolated chip, and whether that is stopped. */
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
        end = strrchr(text, ')'); /* of its name; the state follows */
    if (file >= 0)
        close(file);
    return end != NULL && end[1] == ' ' && end[2] == 'T';
}

static uint64_t isolated_seconds_ms(uint32_t seconds)
{
    return (uint64_t)seconds *
           a32_load_relaxed(&sim_isolated_second_ms); /* nothing depends on it */
}

/* For how long to sleep; shorter around the deadline. */
static uint64_t isolated_slice_ms(const struct isolated_patience *patience)
{
    uint64_t now_ns = os_now_ns(), slice = isolated_seconds_ms(1);

    if (patience->deadline_ns == 0 || patience->deadline_ns > now_ns + slice * MS_NS)
        return slice;
    return patience->deadline_ns <= now_ns ? LATE_MS
                                           : (patience->deadline_ns - now_ns) / MS_NS + LATE_MS;
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

/* For one slice. False: it is over. */
static bool isolated_sleep(struct isolated_holds *h, uint64_t ms)
{
    return waker_await(h->line->own,
                       &(struct waker_wait){ .holds = isolated_holds,
                                             .context = h,
                                             .policy = h->iso->spin_policy,
                                             .deadline_ns = os_now_ns() + ms * MS_NS }) >= 0;
}

/*
 * In slices of a second, so that one in which this process is stopped counts once. The
 * other one is stopped when it is found so twice in a row: whoever stops both lets this
 * one go on a moment earlier. A slice at whose end it is stopped counts as stopped.
 */
int sim_isolated_await(void *context, struct line *l, bool for_room)
{
    const struct isolated_patience *patience = context;
    struct isolated *iso = patience->iso;
    struct isolated_holds h = { iso, l, for_room };
    uint64_t waited_ms = 0, stopped_ms = 0;
    uint32_t stops = 0;

    while (waited_ms < isolated_seconds_ms(patience->seconds)) {
        uint64_t ms = isolated_slice_ms(patience);

        if (isolated_sleep(&h, ms)) {
            bool has_ended = a32_load_acquire(&iso->process.has_ended) != 0;

            /* It has gone; what it wrote before may have come just now. */
            return payload_is_due(l, for_room) && !(has_ended && for_room) ? PTO_OK : PTO_EPEER;
        }
        waited_ms += ms;
        if (patience->looks && isolated_is_stopped(iso->process.pid)) {
            stopped_ms += ms;
            stops += patience->deadline_ns != 0 && os_now_ns() >= patience->deadline_ns;
        } else {
            stopped_ms = stops = 0;
        }
        if (stops == 2)
            return PTO_ECANCELED;
        if (patience->stopped_seconds != 0 &&
            stopped_ms >= isolated_seconds_ms(patience->stopped_seconds))
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

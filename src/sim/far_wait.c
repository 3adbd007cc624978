/* SPDX-License-Identifier: Apache-2.0 */
/* How long the host waits for the process of an isolated chip, and whether that is stopped. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "sim/far.h"

#define MS_NS 1000000ull
enum { LATE_MS = 20 };

struct a32 sim_far_second_ms = { 1000 };

static bool far_is_stopped(pid_t pid)
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

static uint64_t far_seconds_ms(uint32_t seconds)
{
    return (uint64_t)seconds * a32_load_relaxed(&sim_far_second_ms); /* nothing depends on it */
}

/* For how long to sleep; shorter around the deadline. */
static uint64_t far_slice_ms(const struct far_patience *patience)
{
    uint64_t now_ns = os_now_ns(), slice = far_seconds_ms(1);

    if (patience->deadline_ns == 0 || patience->deadline_ns > now_ns + slice * MS_NS)
        return slice;
    return patience->deadline_ns <= now_ns ? LATE_MS
                                           : (patience->deadline_ns - now_ns) / MS_NS + LATE_MS;
}

struct far_holds {
    struct far *far;
    struct line *line;
    bool for_room;
};

static bool far_holds(void *context)
{
    const struct far_holds *h = context;

    return a32_load_acquire(&h->far->process.has_ended) != 0 ||
           payload_is_due(h->line, h->for_room);
}

/* For one slice. False: it is over. */
static bool far_sleep(struct far_holds *h, uint64_t ms)
{
    return waker_await(h->line->own,
                       &(struct waker_wait){ .holds = far_holds,
                                             .context = h,
                                             .policy = h->far->spin_policy,
                                             .deadline_ns = os_now_ns() + ms * MS_NS }) >= 0;
}

/*
 * In slices of a second, so that one in which this process is stopped counts once. The
 * other one is stopped when it is found so twice in a row: whoever stops both lets this
 * one go on a moment earlier. A slice at whose end it is stopped counts as stopped.
 */
int sim_far_await(void *context, struct line *l, bool for_room)
{
    const struct far_patience *patience = context;
    struct far *f = patience->far;
    struct far_holds h = { f, l, for_room };
    uint64_t waited_ms = 0, stopped_ms = 0;
    uint32_t stops = 0;

    while (waited_ms < far_seconds_ms(patience->seconds)) {
        uint64_t ms = far_slice_ms(patience);

        if (far_sleep(&h, ms)) {
            bool has_ended = a32_load_acquire(&f->process.has_ended) != 0;

            /* It has gone; what it wrote before may have come just now. */
            return payload_is_due(l, for_room) && !(has_ended && for_room) ? PTO_OK : PTO_EPEER;
        }
        waited_ms += ms;
        if (patience->looks && far_is_stopped(f->process.pid)) {
            stopped_ms += ms;
            stops += patience->deadline_ns != 0 && os_now_ns() >= patience->deadline_ns;
        } else {
            stopped_ms = stops = 0;
        }
        if (stops == 2)
            return PTO_ECANCELED;
        if (patience->stopped_seconds != 0 &&
            stopped_ms >= far_seconds_ms(patience->stopped_seconds))
            return PTO_ESTALL;
    }
    return PTO_ETIMEOUT;
}

static bool far_has_ended(void *context)
{
    return a32_load_acquire(&((struct far *)context)->process.has_ended) != 0;
}

bool sim_far_await_end(struct far *f, uint32_t seconds)
{
    return waker_await(&f->control->line[FAR_LINE_RUNS].host,
                       &(struct waker_wait){ .holds = far_has_ended,
                                             .context = f,
                                             .policy = f->spin_policy,
                                             .deadline_ns = os_now_ns() +
                                                            far_seconds_ms(seconds) * MS_NS }) >= 0;
}

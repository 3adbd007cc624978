/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks in virtual time: one clock for all ranks (link/shared_clock.h), in the head of rank 0. A
 * rank is a member of it, through its device while a run executes and through its host between
 * runs. Host code takes no virtual time: between runs a rank stays at the time at which its last
 * run ended, which no other rank can pass, until the host waits for other ranks. A call that other
 * ranks can notice is made in the rank's turn and announced; a wait ends at the time of the
 * announcement that makes its condition true.
 */
#include "comm/comm_shared.h"
#include "host/host.h"

#define TURN_LOOK_NS 5000000ull /* how long to sleep before losses and deadlines are checked */

static const char MIXED[] = "ranks in virtual time and in real time cannot communicate";

/* ---- joining and leaving the clock ---- */

enum { CLOCK_UNKNOWN, CLOCK_REAL, CLOCK_VIRTUAL };

struct joining {
    struct shared *shared;
    uint32_t next; /* ranks before this one have stored their kind of clock */
};

static bool turns_all_known(void *context)
{
    struct joining *j = context;

    while (j->next < j->shared->base.rank_count &&
           a32_load_acquire(&j->shared->head[j->next]->clock_kind) != CLOCK_UNKNOWN) /* A49 */
        j->next++;
    return j->next == j->shared->base.rank_count;
}

static int turns_judge_join(void *context)
{
    const struct joining *j = context;

    return shared_is_lost(&j->shared->base, j->next)
               ? shared_report_lost(j->shared, j->next, "the ranks have no common clock", NULL)
               : PTO_OK;
}

/* Waits until each rank has stored whether it has virtual time: all of them, or none. */
static int turns_check_others(struct shared *s, uint64_t deadline_ns, struct pto_error *error)
{
    struct joining j = { s, 0 };
    int status = shared_await(s, &(struct shared_wait){ .holds = turns_all_known,
                                                        .judge = turns_judge_join,
                                                        .context = &j,
                                                        .is_polled = true,
                                                        .timeout_ns = comm_time_left(deadline_ns),
                                                        .what = "the ranks have no common clock",
                                                        .error = error });

    for (uint32_t i = 0; status >= 0 && i < s->base.rank_count; i++)
        if (a32_load_acquire(&s->head[i]->clock_kind) != CLOCK_VIRTUAL)
            return comm_error_set(error, PTO_EINVAL, i,
                                  "%s: rank %u has no virtual time, and rank %u has; open all "
                                  "devices with is_virtual, or none",
                                  MIXED, i, s->base.rank);
    return status < 0 ? comm_error_set(error, status, j.next,
                                       "%s: rank %u has not joined the clock", MIXED, j.next)
                      : PTO_OK;
}

int shared_turns_join(struct shared *s, const struct comm_request *request, struct pto_error *error)
{
    struct shared_clock *clock = &s->head[0]->clock;
    struct chip *chip = request->device != NULL ? request->device->chip : NULL;
    bool is_virtual = chip != NULL && chip_properties(chip)->has_virtual_time;
    struct shared_clock_place place = { clock, s->base.rank,
                                        request->deadline_ns == UINT64_MAX
                                            ? PTO_TIMEOUT_DEFAULT_NS
                                            : comm_time_left(request->deadline_ns) };
    int status;

    if (is_virtual && s->base.rank_count > SHARED_CLOCK_MEMBERS)
        return error_setf(error, PTO_ENOSUP, "%u ranks are too many: %d can share a virtual clock",
                          s->base.rank_count, SHARED_CLOCK_MEMBERS);
    /*
     * The clock's memory is zero at first: ranks that have not joined yet are at time 0, which no
     * rank can pass. Places on the clock that no rank has must not hold up the ranks.
     */
    for (uint32_t i = s->base.rank_count; is_virtual && i < SHARED_CLOCK_MEMBERS; i++)
        shared_clock_publish(clock, i, SHARED_CLOCK_NEVER);
    if (is_virtual)
        shared_clock_publish(clock, s->base.rank, SHARED_CLOCK_BEGIN_NS);
    a32_store_release(&s->own->clock_kind, is_virtual ? CLOCK_VIRTUAL : CLOCK_REAL); /* R49 */
    if (!is_virtual)
        return PTO_OK;
    status = turns_check_others(s, request->deadline_ns, error);
    if (status >= 0)
        status = chip_time_join(chip, &place);
    if (status < 0) {
        shared_clock_drop(clock, s->base.rank);
        return status;
    }
    s->time = place;
    /* ranks whose deaths the watcher noticed before `time` was set still hold up the clock */
    for (uint32_t i = 0; i < s->base.rank_count; i++)
        if (a32_load_acquire(&s->dead[i]) != 0)
            shared_clock_drop(clock, i);
    return PTO_OK;
}

void shared_turns_leave(struct shared *s, uint32_t rank)
{
    if (s->time.clock != NULL)
        shared_clock_drop(s->time.clock, rank);
}

/* ---- calls ---- */

/* Whether a run executes on the rank's device, whose time is then that of the rank. */
static bool turns_is_running(const struct shared *s)
{
    struct device *device = s->base.device;
    bool is_running;

    if (device == NULL)
        return false;
    pthread_mutex_lock(&device->lock);
    is_running = device->running != 0;
    pthread_mutex_unlock(&device->lock);
    return is_running;
}

static bool turns_is_aborted(const struct shared *s)
{
    for (uint32_t i = 0; i < s->base.rank_count; i++)
        /* a later check notices an abort that this one misses */
        if (a32_load_relaxed(&s->head[i]->state) == RANK_ABORTED)
            return true;
    return false;
}

int shared_turn(struct shared *s)
{
    struct shared_clock_place at = s->time;
    uint64_t deadline_ns = comm_deadline(at.limit_ns, PTO_TIMEOUT_DEFAULT_NS);

    if (at.clock == NULL || shared_clock_time(at.clock, at.member) == SHARED_CLOCK_NEVER)
        return PTO_OK;
    if (turns_is_running(s))
        return PTO_EBUSY;
    while (!shared_clock_await(at.clock, at.member, os_now_ns() + TURN_LOOK_NS)) {
        if (turns_is_aborted(s))
            return PTO_EPEER;
        if (os_now_ns() >= deadline_ns)
            return PTO_ETIMEOUT;
    }
    return PTO_OK;
}

void shared_turn_announce(struct shared *s)
{
    struct shared_clock_place at = s->time;
    uint64_t ns;

    if (at.clock == NULL)
        return;
    ns = shared_clock_time(at.clock, at.member);
    if (ns != SHARED_CLOCK_NEVER)
        shared_clock_announce(at.clock, at.member, ns);
}

/* ---- waiting ---- */

/* Checks the condition of a wait after an announcement, and returns whether it holds. */
static bool turns_look(struct shared *s, const struct shared_wait *wait, uint64_t announced,
                       uint64_t begin_ns)
{
    struct shared_clock_place at = s->time;
    /* relaxed: the caller has acquired the announcement */
    uint64_t ns = a64_load_relaxed(&at.clock->announced_ns);
    bool is_so = wait->holds(wait->context);

    if (is_so) /* published before shared_clock_see, so that no member passes this time */
        shared_clock_publish(at.clock, at.member, ns > begin_ns ? ns : begin_ns);
    shared_clock_see(at.clock, at.member, announced);
    return is_so;
}

/* After a failed wait the rank continues at the time of the other ranks. */
static void turns_fail(struct shared *s, uint64_t begin_ns)
{
    struct shared_clock_place at = s->time;
    uint64_t ns = shared_clock_least(at.clock, at.member);

    if (ns == SHARED_CLOCK_NEVER || ns < begin_ns)
        ns = begin_ns;
    shared_clock_publish(at.clock, at.member, ns);
}

int shared_turns_await(struct shared *s, const struct shared_wait *wait,
                       int (*check)(void *context), void *context)
{
    struct shared_clock_place at = s->time;
    uint64_t begin_ns = shared_clock_time(at.clock, at.member), announced;
    uint64_t deadline_ns = comm_deadline(wait->timeout_ns, UINT64_MAX);
    bool is_so = false;
    int status = shared_turn(s);

    if (status < 0)
        return error_setf(wait->error, status, "%s: %s",
                          wait->what != NULL ? wait->what : "the wait cannot continue",
                          status == PTO_EBUSY ? "in virtual time a rank communicates between the "
                                                "runs of its device"
                                              : "another rank holds the virtual clock");
    if (wait->holds(wait->context))
        return PTO_OK;
    shared_clock_set_awaits(at.clock, at.member, true);
    shared_clock_publish(at.clock, at.member, SHARED_CLOCK_NEVER);
    while (status >= 0 && !is_so) {
        (void)shared_clock_await(at.clock, at.member, os_now_ns() + TURN_LOOK_NS);
        if (shared_clock_must_look(at.clock, at.member, &announced))
            is_so = turns_look(s, wait, announced, begin_ns);
        if (!is_so)
            status = check(context);
        if (!is_so && status >= 0 && os_now_ns() >= deadline_ns)
            status = PTO_ETIMEOUT;
    }
    if (status < 0)
        turns_fail(s, begin_ns);
    shared_clock_set_awaits(at.clock, at.member, false);
    return status < 0 ? status : shared_turn(s);
}

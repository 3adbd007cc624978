/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits, signals and barriers in shared memory, and the detection of lost ranks:
 * src/comm/comm_shared.h.
 */
#include "comm/comm_shared.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SPIN_NS = 50000,        /* time for which a wait spins, if each rank can have a CPU */
    YIELD_NS = 50000,       /* time for which a wait then yields the CPU, before it sleeps */
    CROWD_YIELD_NS = 60000, /* time for which a wait yields, if ranks share CPUs */
    /*
     * time for which a wait in a barrier or a collective yields, if ranks share CPUs; shorter, to
     * free the CPU for other ranks
     */
    CROWD_MEET_NS = 25000,
    /* polls between two pauses, before a wait reads the clock */
    LOOKS_A_PAUSE = 8,
    LOOKS = 64, /* polls between two reads of the clock */
    /* polls before yielding, if ranks share CPUs; fewer, because polls use up the CPU */
    CROWD_LOOKS = 32,
    /* up to this many ranks are checked one by one for whether they need a CPU */
    CROWD_KNOWN = 64,
};

static_assert(sizeof(struct shared_control) <= SHARED_CONTROL_BYTES, "a block's control fits");

int shared_init(struct shared *s, uint32_t rank, uint32_t rank_count)
{
    bool is_crowded = rank_count > os_machine_cpu_count();

    s->base.rank = rank;
    s->base.rank_count = rank_count;
    s->looks = is_crowded ? 1 : LOOKS;
    s->is_crowded = is_crowded;
    s->spin_ns = is_crowded ? 0 : SPIN_NS;
    s->yield_ns = is_crowded ? CROWD_YIELD_NS : YIELD_NS;
    s->head = calloc(rank_count, sizeof(struct shared_head *));
    s->dead = calloc(rank_count, sizeof(*s->dead));
    s->seen = calloc((size_t)rank_count * SHARED_ENTRIES, sizeof(*s->seen));
    if (s->head != NULL && s->dead != NULL && s->seen != NULL)
        return PTO_OK;
    return PTO_ENOMEM;
}

void shared_fini(struct shared *s)
{
    free(s->head);
    free(s->dead);
    free(s->seen);
}

/* ---- waiting ---- */

/*
 * Returns the status of an abort by any rank, member of the domain or not: an abort ends all waits.
 */
static int shared_check_aborted(struct shared *s, const struct shared_wait *wait)
{
    for (uint32_t i = 0; i < s->base.rank_count; i++)
        if (a32_load_relaxed(&s->head[i]->state) == RANK_ABORTED) /* acquire A34 follows */
            return shared_report_lost(
                s, i, wait->what != NULL ? wait->what : "the wait cannot continue", wait->error);
    return PTO_OK;
}

static bool shared_look(const struct shared_wait *wait, uint32_t times)
{
    for (uint32_t i = 0; i < times; i++) {
        if (wait->holds(wait->context))
            return true;
        os_pause();
    }
    return false;
}

/*
 * Whether another rank may need this CPU: its last wait was here, or it has not waited yet, and it
 * is not asleep. (A sleeping rank is woken when it has something to do.) With more than CROWD_KNOWN
 * ranks the answer is yes without a check.
 */
static bool is_cpu_wanted(const struct shared *s, uint32_t cpu)
{
    if (s->base.rank_count > CROWD_KNOWN)
        return true;
    for (uint32_t i = 0; i < s->base.rank_count; i++) {
        /* relaxed: a hint, as is the check for sleepers */
        uint32_t last = a32_load_relaxed(&s->head[i]->cpu);

        if (i != s->base.rank && (last == cpu || last == 0) &&
            !waker_has_sleepers(&s->head[i]->waker))
            return true;
    }
    return false;
}

/* State of a wait in progress. */
struct awaiting {
    struct shared *shared;
    const struct shared_wait *wait;
    /* value of `trouble` in this rank's head when the wait last checked for lost ranks */
    uint32_t trouble;
};

/*
 * One step of a wait: polls for a while, or yields the CPU at once if a missing rank may need it.
 * If ranks share CPUs but all missing ranks are on other ones, they will arrive soon; polling for a
 * moment is then cheaper than yielding to ranks that wait for the same event.
 */
static void spin_or_yield(void *owner, uint64_t waited_ns)
{
    const struct awaiting *a = owner;
    const struct shared_wait *wait = a->wait;
    struct shared *s = a->shared;
    uint32_t cpu = os_cpu_here() + 1;
    bool is_near;

    if (a32_load_relaxed(&s->own->cpu) != cpu)
        a32_store_relaxed(&s->own->cpu, cpu); /* relaxed: a hint */
    is_near = wait->is_near != NULL ? wait->is_near(wait->context, cpu)
                                    : s->is_crowded && is_cpu_wanted(s, cpu);
    if (!is_near && shared_look(wait, s->is_crowded ? CROWD_LOOKS : LOOKS))
        return;
    if (is_near || waited_ns >= s->spin_ns)
        os_yield();
}

/*
 * Checks for lost ranks if `trouble` has changed. Before each sleep, also calls the wait's `doubt`.
 */
static int shared_check_ranks(void *owner, bool before_sleep)
{
    struct awaiting *a = owner;
    const struct shared_wait *wait = a->wait;
    uint32_t trouble = a32_load_acquire(&a->shared->own->trouble); /* A36 */
    int status = PTO_OK;

    if (trouble != a->trouble) {
        a->trouble = trouble;
        status = wait->judge != NULL ? wait->judge(wait->context) : PTO_OK;
        if (status >= 0)
            status = shared_check_aborted(a->shared, wait);
    }
    if (status >= 0 && before_sleep && wait->doubt != NULL) /* mutation: no-doubt */
        status = wait->doubt(wait->context);
    return status;
}

static int check_in_turns(void *context)
{
    return shared_check_ranks(context, true);
}

static struct spin_policy policy_of(const struct shared *s, const struct shared_wait *wait)
{
    if (s->is_crowded && wait->is_near != NULL && s->yield_ns > CROWD_MEET_NS)
        return (struct spin_policy){ .yield_ns = CROWD_MEET_NS };
    return (struct spin_policy){ .spin_ns = s->spin_ns, .yield_ns = s->yield_ns };
}

int shared_await(struct shared *s, const struct shared_wait *wait)
{
    struct awaiting a = { .shared = s, .wait = wait };
    uint64_t now;

    if (s->time.clock != NULL)
        return shared_turns_await(s, wait, check_in_turns, &a);
    for (uint32_t i = 0; i < s->looks; i++) {
        if (wait->holds(wait->context))
            return PTO_OK;
        if (i % LOOKS_A_PAUSE == LOOKS_A_PAUSE - 1)
            os_pause();
    }
    now = os_now_ns();
    return waker_await(&s->own->waker,
                       &(struct waker_wait){ .holds = wait->holds,
                                             .context = wait->context,
                                             .policy = policy_of(s, wait),
                                             .deadline_ns = wait->timeout_ns > UINT64_MAX - now
                                                                ? UINT64_MAX
                                                                : now + wait->timeout_ns,
                                             .is_polled = wait->is_polled,
                                             .fence = s->has_fence ? s->memory->fence : NULL,
                                             .check = shared_check_ranks,
                                             .stay_awake = spin_or_yield,
                                             .owner = &a });
}

/* ---- loss of ranks ---- */

void shared_raise_trouble(struct shared *s, uint32_t rank)
{
    struct shared_head *head = s->head[rank];

    if (shared_is_remote(s, rank)) {
        s->remote->send_alarm(s, rank);
        return;
    }
    (void)a32_add_acq_rel(&head->trouble, 1); /* R36 */
    waker_wake_always(&head->waker);
}

void shared_check_again(struct shared *s)
{
    shared_raise_trouble(s, s->base.rank);
}

void shared_alarm(struct shared *s, const struct domain *domain)
{
    for (uint32_t i = 0; i < domain->rank_count; i++)
        if (i != domain->rank)
            shared_raise_trouble(s, domain->ranks[i]);
    shared_turn_announce(s);
}

void shared_wake_members(struct shared *s, const struct domain *domain)
{
    for (uint32_t i = 0; i < domain->rank_count; i++)
        if (i != domain->rank)
            shared_wake(s, domain->ranks[i]);
}

void shared_leave(struct shared *s)
{
    /* ignored: a rank that does not get its turn in virtual time leaves nevertheless */
    (void)shared_turn(s);
    if (a32_load_relaxed(&s->own->state) == RANK_OPEN)
        a32_store_release(&s->own->state, RANK_CLOSED); /* R34 */
    if (s->remote != NULL)
        s->remote->send_state(s);
    for (uint32_t i = 0; i < s->base.rank_count; i++)
        if (i != s->base.rank)
            shared_raise_trouble(s, i);
    shared_turn_announce(s);
    shared_turns_leave(s, s->base.rank);
}

void shared_rank_died(struct shared *s, uint32_t rank)
{
    a32_store_release(&s->dead[rank], 1); /* R34 */
    if (a32_load_acquire(&s->head[rank]->state) != RANK_CLOSED)
        a32_store_relaxed(&s->own->lost, 1);
    shared_turns_leave(s, rank);
    shared_raise_trouble(s, s->base.rank);
}

void shared_abort(struct comm *comm, int status)
{
    struct shared *s = shared_of(comm);

    a32_store_relaxed(&s->own->status, (uint32_t)status);
    a32_store_release(&s->own->state, RANK_ABORTED); /* R34 */
    if (s->remote != NULL)
        s->remote->send_state(s);
    for (uint32_t i = 0; i < comm->rank_count; i++) {
        a32_store_relaxed(&s->head[i]->lost, 1);
        shared_raise_trouble(s, i);
    }
}

bool shared_is_lost(struct comm *comm, uint32_t rank)
{
    struct shared *s = shared_of(comm);

    return a32_load_acquire(&s->dead[rank]) != 0 ||              /* A34 */
           a32_load_acquire(&s->head[rank]->state) != RANK_OPEN; /* A34 */
}

int shared_report_lost(struct shared *s, uint32_t rank, const char *what, struct pto_error *error)
{
    char how[128];

    switch (a32_load_acquire(&s->head[rank]->state)) { /* A34 */
    case RANK_ABORTED:
        return comm_error_set(error, PTO_EPEER, rank, "%s: rank %u has given up: %s", what, rank,
                              pto_strerror((int)a32_load_relaxed(&s->head[rank]->status)));
    case RANK_CLOSED:
        return comm_error_set(error, PTO_EPEER, rank, "%s: rank %u has closed its communicator",
                              what, rank);
    default:
        if (a32_load_acquire(&s->dead[rank]) != 0 && shared_is_remote(s, rank)) {
            s->remote->describe_loss(s, rank, how, sizeof(how));
            return comm_error_set(error, PTO_EPEER, rank, "%s: %s", what, how);
        }
        return comm_error_set(error, PTO_EPEER, rank,
                              a32_load_acquire(&s->dead[rank]) != 0
                                  ? "%s: the process of rank %u has ended"
                                  : "%s: rank %u has closed the domain",
                              what, rank);
    }
}

/* ---- signals ---- */

int shared_signal(struct domain *domain, uint32_t rank, const struct pto_signal_at *signal,
                  int32_t *before_out)
{
    struct a32 *word = (struct a32 *)(void *)(domain->window[rank] + signal->offset);
    uint32_t before = 0;
    int status = shared_turn(shared_of(domain->comm));

    if (status < 0)
        return status;

    if (signal->how == PTO_SIGNAL_ADD)
        before = a32_add_acq_rel(word, (uint32_t)signal->value); /* R33 */
    else
        a32_store_release(word, (uint32_t)signal->value); /* R33 */
    shared_wake(shared_of(domain->comm), domain->ranks[rank]);
    if (before_out != NULL)
        *before_out = (int32_t)before;
    return PTO_OK;
}

static const char NO_SIGNAL[] = "the wait for a signal cannot continue";

struct signal_wait {
    struct shared_domain *domain;
    const struct a32 *word;
    const struct pto_wait_for *what;
    struct pto_error *error;
};

static bool has_signal(void *context)
{
    const struct signal_wait *w = context;

    return pto_compare_holds(w->what->how, (int32_t)a32_load_acquire(w->word), /* A33 */
                             w->what->value);
}

/*
 * Called when a rank is lost. Any member may be the one that will signal, so the loss of a member
 * that closed the domain does not end the wait unless all have closed.
 */
static int judge_signal(void *context)
{
    const struct signal_wait *w = context;
    struct domain *domain = &w->domain->base;
    struct shared *s = shared_of(domain->comm);
    uint32_t left = 0, last = domain->rank;

    for (uint32_t i = 0; i < domain->rank_count; i++) {
        uint32_t rank = domain->ranks[i];

        /*
         * The state is loaded after the loss was seen: once the process has ended, it shows whether
         * the rank closed before.
         */
        if (shared_is_lost(domain->comm, rank) &&
            a32_load_relaxed(&s->head[rank]->state) != RANK_CLOSED)
            return shared_report_lost(s, rank, NO_SIGNAL, w->error);
        if (i != domain->rank && shared_has_left(w->domain, i)) {
            left++;
            last = rank;
        }
    }
    if (left > 0 && left == domain->rank_count - 1)
        return shared_report_lost(s, last, "no rank is left that could signal", w->error);
    return PTO_OK;
}

int shared_wait_word(struct domain *domain, const struct a32 *word, const struct pto_wait_for *what,
                     bool is_polled, uint64_t timeout_ns, struct pto_error *error)
{
    struct signal_wait w = {
        .domain = shared_domain_of(domain), .word = word, .what = what, .error = error
    };

    return shared_await(shared_of(domain->comm), &(struct shared_wait){ .holds = has_signal,
                                                                        .judge = judge_signal,
                                                                        .context = &w,
                                                                        .is_polled = is_polled,
                                                                        .timeout_ns = timeout_ns,
                                                                        .what = NO_SIGNAL,
                                                                        .error = error });
}

int shared_wait(struct domain *domain, const struct pto_wait_for *word, uint64_t timeout_ns,
                struct pto_error *error)
{
    const struct a32 *at = (const struct a32 *)(const void *)(domain->own + word->offset);
    int status = shared_wait_word(domain, at, word, true, timeout_ns, error);

    return status == PTO_ETIMEOUT ? comm_report_no_signal(error, timeout_ns, word->offset,
                                                          (int32_t)a32_load_relaxed(at))
                                  : status;
}

/* ---- barriers ---- */

struct arrival_wait {
    struct shared_domain *domain;
    const struct shared_arrival *arrival;
    uint32_t next; /* ranks before this one have arrived */
    char what[64]; /* text for an error about a lost rank */
};

/* Whether the rank has arrived. Numbers wrap around, so the difference is compared. */
static bool shared_has_come(const struct arrival_wait *w, uint32_t rank)
{
    const char *control = (const char *)w->domain->peer[rank].control;
    uint32_t come =
        a32_load_acquire((const struct a32 *)(const void *)(control + w->arrival->word)); /* A32 */

    return (int32_t)(come - w->arrival->number) >= 0;
}

static bool have_all_come(void *context)
{
    struct arrival_wait *w = context;

    while (w->next < w->domain->base.rank_count && shared_has_come(w, w->next))
        w->next++;
    return w->next == w->domain->base.rank_count;
}

static bool is_arrival_near(void *context, uint32_t cpu)
{
    const struct arrival_wait *w = context;
    const struct shared *s = shared_of(w->domain->base.comm);

    for (uint32_t i = w->next; i < w->domain->base.rank_count; i++)
        if (a32_load_relaxed(&s->head[w->domain->base.ranks[i]]->cpu) == cpu &&
            !shared_has_come(w, i))
            return true;
    return false;
}

/*
 * Whether a missing rank makes a different call: a barrier while this rank is in a collective, or
 * the other way round. Ranks must make equal calls in equal order, so neither rank would arrive. If
 * the other rank's call has timed out, it may make the right one next; so that counts only after
 * this call's own time is over. A rank that takes part in no more collectives is not compared.
 */
static bool is_astray(const struct arrival_wait *w, uint32_t rank, bool is_over)
{
    const struct shared_domain *sd = w->domain;
    const struct shared_control *peer = sd->peer[rank].control;
    uint32_t next = sd->number + 1, arrived, number;

    if (w->arrival->is_round) {
        /* relaxed: only the numbers are compared, and no other data is read */
        arrived = a32_load_relaxed(&peer->arrived);
        return (int32_t)(arrived - sd->barriers) > 0 && a32_load_relaxed(&peer->torn) == 0 &&
               (is_over || a32_load_relaxed(&peer->given_up) != arrived);
    }
    /* acquire: pairs with R35, because the peer's call is read */
    number = a32_load_acquire(&peer->note[next % 2].number);
    return number == next &&
           /* relaxed: only this rank writes its own `torn` */
           a32_load_relaxed(&sd->peer[sd->base.rank].control->torn) == 0 &&
           (is_over || a32_load_relaxed(&peer->torn) != TORN_FAILED);
}

/* Describes the different call of another rank, and the call of this one. */
static void describe_calls(const struct arrival_wait *w, uint32_t rank, char theirs[128],
                           char own[128])
{
    const struct shared_domain *sd = w->domain;
    uint32_t number = w->arrival->is_round ? sd->number : sd->number + 1;
    uint32_t who = w->arrival->is_round ? sd->base.rank : rank;
    char *collective = w->arrival->is_round ? own : theirs;

    snprintf(theirs, 128, "pto_comm_barrier");
    snprintf(own, 128, "pto_comm_barrier");
    collective_describe(&sd->peer[who].control->call[number % 2], collective, 128);
}

static int find_astray(void *context)
{
    const struct arrival_wait *w = context;
    const struct domain *domain = &w->domain->base;
    char theirs[128], own[128];

    for (uint32_t i = w->next; i < domain->rank_count; i++) {
        if (shared_has_come(w, i) || !is_astray(w, i, false))
            continue;
        describe_calls(w, i, theirs, own);
        return comm_error_set(
            w->arrival->error, PTO_EINVAL, domain->ranks[i],
            "rank %u called %s while this rank (%u) called %s: all ranks of a domain "
            "have to make the same calls in the same order",
            domain->ranks[i], theirs, domain->ranks[domain->rank], own);
    }
    return PTO_OK;
}

static int judge_arrival(void *context)
{
    struct arrival_wait *w = context;
    struct domain *domain = &w->domain->base;

    if (find_astray(w) < 0)
        return PTO_EINVAL;
    snprintf(w->what, sizeof(w->what), "the %s cannot be complete", w->arrival->what);
    for (uint32_t i = w->next; i < domain->rank_count; i++) {
        if (shared_has_come(w, i))
            continue;
        if (shared_has_left(w->domain, i))
            return shared_report_lost(shared_of(domain->comm), domain->ranks[i], w->what,
                                      w->arrival->error);
        if (shared_is_remote(shared_of(domain->comm), domain->ranks[i]) &&
            shared_has_gone(w->domain, w->domain->peer[i].holder))
            /* what the rank has sent does not arrive on this host any more */
            return shared_report_lost(shared_of(domain->comm),
                                      domain->ranks[w->domain->peer[i].holder], w->what,
                                      w->arrival->error);
        if (w->arrival->is_round && a32_load_acquire(&w->domain->peer[i].control->torn) != 0)
            return comm_error_set(w->arrival->error, PTO_EPEER, domain->ranks[i],
                                  "%s: rank %u has given up collectives of the domain", w->what,
                                  domain->ranks[i]);
    }
    return PTO_OK;
}

/*
 * Sets the error of a barrier or round that timed out: lists the missing ranks, and the call of the
 * first one that makes a different call.
 */
static int shared_report_missing(const struct arrival_wait *w)
{
    struct comm_names names = { 0 };
    char theirs[128], own[128], instead[192] = "";
    const struct shared *s = shared_of(w->domain->base.comm);
    uint64_t silent_ns;

    for (uint32_t i = w->next; i < w->domain->base.rank_count; i++) {
        if (shared_has_come(w, i))
            continue;
        comm_names_add(&names, w->domain->base.ranks[i]);
        if (instead[0] == '\0' && is_astray(w, i, true)) {
            describe_calls(w, i, theirs, own);
            snprintf(instead, sizeof(instead), "; rank %u called %s instead",
                     w->domain->base.ranks[i], theirs);
        }
        if (instead[0] == '\0' && shared_is_remote(s, w->domain->base.ranks[i]) &&
            s->remote->is_silent(s, w->domain->base.ranks[i], &silent_ns))
            snprintf(instead, sizeof(instead), "; rank %u has been silent for %llu ms",
                     w->domain->base.ranks[i], (unsigned long long)(silent_ns / 1000000));
    }
    if (names.count == 0)
        return PTO_OK; /* the last missing rank has arrived since the wait timed out */
    return comm_error_set(w->arrival->error, PTO_ETIMEOUT, names.first,
                          "rank%s %s did not reach the %s within %llu ms%s",
                          names.count == 1 ? "" : "s", names.text, w->arrival->what,
                          (unsigned long long)(w->arrival->timeout_ns / 1000000), instead);
}

int shared_arrive(struct shared_domain *sd, const struct shared_arrival *arrival)
{
    struct shared *s = shared_of(sd->base.comm);
    struct arrival_wait w;
    int status;

    w.domain = sd;
    w.arrival = arrival;
    w.next = 0;
    shared_wake_members(s, &sd->base);
    status = shared_await(s, &(struct shared_wait){ .holds = have_all_come,
                                                    .judge = judge_arrival,
                                                    .doubt = find_astray,
                                                    .is_near = is_arrival_near,
                                                    .context = &w,
                                                    .timeout_ns = arrival->timeout_ns,
                                                    .what = w.what,
                                                    .error = arrival->error });
    return status == PTO_ETIMEOUT ? shared_report_missing(&w) : status;
}

int shared_barrier(struct domain *domain, uint64_t timeout_ns, struct pto_error *error)
{
    struct shared_domain *sd = shared_domain_of(domain);
    struct shared_control *own = sd->peer[domain->rank].control;
    uint32_t number = ++sd->barriers;
    int status;

    /* if this rank does not get its turn in virtual time, the wait below fails as well */
    (void)shared_turn(shared_of(domain->comm));
    a32_store_release(&own->arrived, number); /* R32 */
    if (shared_of(domain->comm)->remote != NULL)
        shared_of(domain->comm)->remote->send_control(shared_of(domain->comm), sd);
    status = shared_arrive(
        sd, &(struct shared_arrival){ .word = offsetof(struct shared_control, arrived),
                                      .number = number,
                                      .what = "barrier",
                                      .timeout_ns = timeout_ns,
                                      .error = error });
    if (status >= 0 || status == PTO_EINVAL)
        return status;
    /* is_astray reads this on a rank that arrives later */
    a32_store_relaxed(&own->given_up, number);
    if (shared_of(domain->comm)->remote != NULL)
        shared_of(domain->comm)->remote->send_control(shared_of(domain->comm), sd);
    return status;
}

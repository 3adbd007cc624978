/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting, signals, barriers and what happens when a rank goes: src/comm/comm_shared.h. */
#include "comm/comm_shared.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SPIN_NS = 50000,        /* looks without a pause, if each rank can have a CPU */
    YIELD_NS = 50000,       /* then lets others run */
    CROWD_YIELD_NS = 60000, /* the latter, where CPUs are shared */
    CROWD_MEET_NS = 25000,  /* and in barriers and collectives, so that others have the CPU */
    LOOKS_A_PAUSE = 8,      /* at first: a pause is as long as what is waited for */
    LOOKS = 64,             /* between two looks at the clock */
    CROWD_LOOKS = 32,       /* before others may run, where CPUs are shared: less than that costs */
    CROWD_KNOWN = 64,       /* ranks that are looked at one by one, to see who needs a CPU */
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

/* A rank that gives up ends what all others wait for, whether it takes part in that or not. */
static int shared_check_aborted(struct shared *s, const struct shared_wait *wait)
{
    for (uint32_t i = 0; i < s->base.rank_count; i++)
        if (a32_load_relaxed(&s->head[i]->state) == RANK_ABORTED) /* A34 follows */
            return shared_tell_lost(
                s, i, wait->what != NULL ? wait->what : "this cannot be waited for", wait->error);
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
 * Whether another rank may need this CPU: it waited here last, or nowhere yet, and does not sleep.
 * One that sleeps is woken when there is something for it to do. Of many ranks some will.
 */
static bool is_cpu_wanted(const struct shared *s, uint32_t cpu)
{
    if (s->base.rank_count > CROWD_KNOWN)
        return true;
    for (uint32_t i = 0; i < s->base.rank_count; i++) {
        uint32_t last = a32_load_relaxed(&s->head[i]->cpu); /* a hint, as is the next one */

        if (i != s->base.rank && (last == cpu || last == 0) &&
            !waker_has_sleepers(&s->head[i]->waker))
            return true;
    }
    return false;
}

/* A wait under way. */
struct awaiting {
    struct shared *shared;
    const struct shared_wait *wait;
    uint32_t trouble; /* as it was when it was judged last */
};

/*
 * Spins for a while, or yields: at once if a rank that is waited for may need this CPU. Where
 * CPUs are shared, and all missing ranks are on others, they are about to come: to spin for a
 * moment is cheaper than to yield to ranks that wait for the same.
 */
static void spin_or_yield(void *owner, uint64_t waited_ns)
{
    const struct awaiting *a = owner;
    const struct shared_wait *wait = a->wait;
    struct shared *s = a->shared;
    uint32_t cpu = os_cpu_here() + 1;
    bool is_near;

    if (a32_load_relaxed(&s->own->cpu) != cpu)
        a32_store_relaxed(&s->own->cpu, cpu); /* a hint */
    is_near = wait->is_near != NULL ? wait->is_near(wait->context, cpu)
                                    : s->is_crowded && is_cpu_wanted(s, cpu);
    if (!is_near && shared_look(wait, s->is_crowded ? CROWD_LOOKS : LOOKS))
        return;
    if (is_near || waited_ns >= s->spin_ns)
        os_yield();
}

/* Judges again when a rank has gone; before a sleep it doubts as well. */
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

/* ---- who goes ---- */

/* Its threads look who has gone, asleep or not. */
static void raise_trouble(struct shared *s, uint32_t rank)
{
    struct shared_head *head = s->head[rank];

    (void)a32_add_acq_rel(&head->trouble, 1); /* R36 */
    waker_wake_always(&head->waker);
}

void shared_alarm(struct shared *s, const struct domain *domain)
{
    for (uint32_t i = 0; i < domain->rank_count; i++)
        if (i != domain->rank)
            raise_trouble(s, domain->ranks[i]);
}

void shared_wake_members(struct shared *s, const struct domain *domain)
{
    for (uint32_t i = 0; i < domain->rank_count; i++)
        if (i != domain->rank)
            shared_wake(s, domain->ranks[i]);
}

void shared_leave(struct shared *s)
{
    if (a32_load_relaxed(&s->own->state) == RANK_OPEN)
        a32_store_release(&s->own->state, RANK_CLOSED); /* R34 */
    for (uint32_t i = 0; i < s->base.rank_count; i++)
        if (i != s->base.rank)
            raise_trouble(s, i);
}

void shared_rank_died(struct shared *s, uint32_t rank)
{
    a32_store_release(&s->dead[rank], 1); /* R34 */
    if (a32_load_acquire(&s->head[rank]->state) != RANK_CLOSED)
        a32_store_relaxed(&s->own->lost, 1);
    raise_trouble(s, s->base.rank);
}

void shared_abort(struct comm *comm, int status)
{
    struct shared *s = shared_of(comm);

    a32_store_relaxed(&s->own->status, (uint32_t)status);
    a32_store_release(&s->own->state, RANK_ABORTED); /* R34 */
    for (uint32_t i = 0; i < comm->rank_count; i++) {
        a32_store_relaxed(&s->head[i]->lost, 1);
        raise_trouble(s, i);
    }
}

bool shared_is_lost(struct comm *comm, uint32_t rank)
{
    struct shared *s = shared_of(comm);

    return a32_load_acquire(&s->dead[rank]) != 0 ||              /* A34 */
           a32_load_acquire(&s->head[rank]->state) != RANK_OPEN; /* A34 */
}

int shared_tell_lost(struct shared *s, uint32_t rank, const char *what, struct pto_error *error)
{
    switch (a32_load_acquire(&s->head[rank]->state)) { /* A34 */
    case RANK_ABORTED:
        return comm_tell(error, PTO_EPEER, rank, "%s: rank %u has given up: %s", what, rank,
                         pto_strerror((int)a32_load_relaxed(&s->head[rank]->status)));
    case RANK_CLOSED:
        return comm_tell(error, PTO_EPEER, rank, "%s: rank %u has closed its communicator", what,
                         rank);
    default:
        return comm_tell(error, PTO_EPEER, rank,
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

    if (signal->how == PTO_SIGNAL_ADD)
        before = a32_add_acq_rel(word, (uint32_t)signal->value); /* R33 */
    else
        a32_store_release(word, (uint32_t)signal->value); /* R33 */
    shared_wake(shared_of(domain->comm), domain->ranks[rank]);
    if (before_out != NULL)
        *before_out = (int32_t)before;
    return PTO_OK;
}

static const char NO_SIGNAL[] = "no signal can be waited for";

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

/* Any of them may be the one that would signal; so one that has closed is not missed, unless all have. */
static int judge_signal(void *context)
{
    const struct signal_wait *w = context;
    struct domain *domain = &w->domain->base;
    struct shared *s = shared_of(domain->comm);
    uint32_t left = 0, last = domain->rank;

    for (uint32_t i = 0; i < domain->rank_count; i++) {
        uint32_t rank = domain->ranks[i];

        /* Its state comes second: what it is once the process has ended is how it went. */
        if (shared_is_lost(domain->comm, rank) &&
            a32_load_relaxed(&s->head[rank]->state) != RANK_CLOSED)
            return shared_tell_lost(s, rank, NO_SIGNAL, w->error);
        if (i != domain->rank && shared_has_left(w->domain, i)) {
            left++;
            last = rank;
        }
    }
    if (left > 0 && left == domain->rank_count - 1)
        return shared_tell_lost(s, last, "nobody is left who could signal", w->error);
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

    return status == PTO_ETIMEOUT
               ? comm_tell_no_signal(error, timeout_ns, word->offset, (int32_t)a32_load_relaxed(at))
               : status;
}

/* ---- barriers ---- */

struct arrival_wait {
    struct shared_domain *domain;
    const struct shared_arrival *arrival;
    uint32_t next; /* ranks before it have come */
    char what[64]; /* what cannot be done without one of them; once a rank has gone */
};

/* Numbers wrap. */
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
 * Whether a rank that has not come made a call that this one has not: a barrier while this one is
 * in a collective, or the other way round. Ranks make the same calls in the same order, so neither
 * will come. A call that was given up may have been followed by the right one, and is not counted
 * before the time of this one is over. A rank that is in no more collectives is not compared.
 */
static bool is_astray(const struct arrival_wait *w, uint32_t rank, bool is_over)
{
    const struct shared_domain *sd = w->domain;
    const struct shared_control *peer = sd->peer[rank].control;
    uint32_t next = sd->number + 1, arrived, number;

    if (w->arrival->is_round) {
        arrived = a32_load_relaxed(&peer->arrived); /* numbers decide, and nothing else is read */
        return (int32_t)(arrived - sd->barriers) > 0 && a32_load_relaxed(&peer->torn) == 0 &&
               (is_over || a32_load_relaxed(&peer->given_up) != arrived);
    }
    number = a32_load_acquire(&peer->note[next % 2].number); /* with R35: its call is read */
    return number == next &&
           a32_load_relaxed(&sd->peer[sd->base.rank].control->torn) == 0 && /* own */
           (is_over || a32_load_relaxed(&peer->torn) != TORN_FAILED);
}

/* What a rank that is astray has called, and what this one has. */
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
        return comm_tell(w->arrival->error, PTO_EINVAL, domain->ranks[i],
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
            return shared_tell_lost(shared_of(domain->comm), domain->ranks[i], w->what,
                                    w->arrival->error);
        if (w->arrival->is_round && a32_load_acquire(&w->domain->peer[i].control->torn) != 0)
            return comm_tell(w->arrival->error, PTO_EPEER, domain->ranks[i],
                             "%s: rank %u has given up collectives of the domain", w->what,
                             domain->ranks[i]);
    }
    return PTO_OK;
}

/* Who has not come in time, and what the first of them that went astray called instead. */
static int shared_tell_missing(const struct arrival_wait *w)
{
    struct comm_names names = { 0 };
    char theirs[128], own[128], instead[192] = "";

    for (uint32_t i = w->next; i < w->domain->base.rank_count; i++) {
        if (shared_has_come(w, i))
            continue;
        comm_names_add(&names, w->domain->base.ranks[i]);
        if (instead[0] == '\0' && is_astray(w, i, true)) {
            describe_calls(w, i, theirs, own);
            snprintf(instead, sizeof(instead), "; rank %u called %s instead",
                     w->domain->base.ranks[i], theirs);
        }
    }
    if (names.count == 0)
        return PTO_OK; /* the last one has come by now */
    return comm_tell(w->arrival->error, PTO_ETIMEOUT, names.first,
                     "rank%s %s did not come to the %s within %llu ms%s",
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
    return status == PTO_ETIMEOUT ? shared_tell_missing(&w) : status;
}

int shared_barrier(struct domain *domain, uint64_t timeout_ns, struct pto_error *error)
{
    struct shared_domain *sd = shared_domain_of(domain);
    struct shared_control *own = sd->peer[domain->rank].control;
    uint32_t number = ++sd->barriers;
    int status;

    a32_store_release(&own->arrived, number); /* R32 */
    status = shared_arrive(
        sd, &(struct shared_arrival){ .word = offsetof(struct shared_control, arrived),
                                      .number = number,
                                      .what = "barrier",
                                      .timeout_ns = timeout_ns,
                                      .error = error });
    if (status < 0 && status != PTO_EINVAL)
        a32_store_relaxed(&own->given_up, number); /* for an error of a rank that may come */
    return status;
}

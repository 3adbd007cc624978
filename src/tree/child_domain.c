/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Domains of a child whose chip is a card. The child's window and its context are memory of the
 * card. Addresses in the worker's memory represent them (struct wire_domain), and are replaced in
 * task arguments by the card's. While tasks run, the watcher thread sets the flag on the card that
 * stops kernels when a member is lost, and frees domains that are over.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/os.h"
#include "comm/card_context.h"
#include "comm/comm.h"
#include "tree/child.h"
#include "tree/tree_wire.h"

struct child_domain {
    struct child_domain *next;
    struct wire_domain *wire;
    struct wire_member *member; /* the child's own member entry in the domain */
    /* addresses in the worker's memory that represent the context and the window on the card */
    uint64_t context, window;
    uint64_t window_bytes;
    uint32_t rank;
    uint32_t count;
    struct chip_window *on_card; /* NULL: the window was not offered yet, or has no bytes */
    uint64_t at;                 /* address of the context on the card; 0: none yet */
    /* the flag in the context on the card was set, because a member of the domain is lost */
    bool is_reported;
};

struct child_domains {
    pthread_mutex_t lock; /* protects the list of domains and their contents */
    uint32_t child;
    struct chip *chip;
    struct waker *alarm;
    struct a32 is_closing; /* set without the lock, to end the watcher thread */
    struct child_domain *first;
    pthread_t watcher;
};

/* ---- the end of a domain ---- */

static void drop_domain(struct child_domains *ds, struct child_domain *d)
{
    /* ignored: chip_window_drop fails only if the card is lost */
    (void)chip_window_drop(ds->chip, d->on_card, NULL);
    if (d->at != 0)
        (void)chip_free(ds->chip, d->at, NULL);
    a32_store_release(&d->member->is_dropped, 1); /* R43 */
    free(d);
}

/* Drops the domains that are over; `is_last`: drops all. */
static void sweep(struct child_domains *ds, bool is_last)
{
    struct child_domain **link = &ds->first;

    while (*link != NULL) {
        struct child_domain *d = *link;

        /* relaxed: fence F31 of the alarm orders this load */
        if (is_last || a32_load_relaxed(&d->wire->is_over) != 0) {
            *link = d->next;
            drop_domain(ds, d);
        } else {
            link = &d->next;
        }
    }
}

/* ---- changes while tasks run ---- */

static bool is_news(const struct child_domain *d)
{
    /* relaxed: fence F31 of the alarm orders these loads */
    return a32_load_relaxed(&d->wire->is_over) != 0 ||
           (!d->is_reported && d->at != 0 && a32_load_relaxed(&d->wire->is_lost) != 0);
}

static bool child_domain_has_news(void *context)
{
    struct child_domains *ds = context;
    /* relaxed: fence F31 of the alarm orders this load */
    bool is_any = a32_load_relaxed(&ds->is_closing) != 0;

    pthread_mutex_lock(&ds->lock);
    for (const struct child_domain *d = ds->first; d != NULL && !is_any; d = d->next)
        is_any = is_news(d);
    pthread_mutex_unlock(&ds->lock);
    return is_any;
}

static void take_news(struct child_domains *ds)
{
    sweep(ds, false);
    for (struct child_domain *d = ds->first; d != NULL; d = d->next)
        if (is_news(d)) {
            card_context_lose(ds->chip, d->at);
            d->is_reported = true;
        }
}

static void *watch_main(void *context)
{
    struct child_domains *ds = context;

    for (;;) {
        (void)waker_await(ds->alarm, &(struct waker_wait){ .holds = child_domain_has_news,
                                                           .context = ds,
                                                           .deadline_ns = UINT64_MAX });
        /* relaxed: fence F31 of the alarm orders this load */
        if (a32_load_relaxed(&ds->is_closing) != 0)
            return NULL;
        pthread_mutex_lock(&ds->lock);
        take_news(ds);
        pthread_mutex_unlock(&ds->lock);
    }
}

int child_domains_open(struct chip *chip, uint32_t child, struct waker *alarm,
                       struct child_domains **domains_out)
{
    struct child_domains *ds = calloc(1, sizeof(*ds));

    if (ds == NULL)
        return PTO_ENOMEM;
    pthread_mutex_init(&ds->lock, NULL);
    ds->chip = chip;
    ds->child = child;
    ds->alarm = alarm;
    if (os_thread_start(&ds->watcher, watch_main, ds) < 0) {
        pthread_mutex_destroy(&ds->lock);
        free(ds);
        return PTO_ESYSTEM;
    }
    *domains_out = ds;
    return PTO_OK;
}

void child_domains_close(struct child_domains *ds)
{
    if (ds == NULL)
        return;
    a32_store_relaxed(&ds->is_closing, 1); /* fence F31 follows */
    waker_wake(ds->alarm);
    (void)pthread_join(ds->watcher, NULL);
    sweep(ds, true);
    pthread_mutex_destroy(&ds->lock);
    free(ds);
}

/* ---- opening ---- */

static struct child_domain *child_domain_find(const struct child_domains *ds,
                                              const struct wire_domain *wire)
{
    struct child_domain *d = ds->first;

    while (d != NULL && d->wire != wire)
        d = d->next;
    return d;
}

/* Adds the domain to this child's list. NULL: out of memory, or the child is no member. */
static struct child_domain *add_domain(struct child_domains *ds, struct wire_domain *wire)
{
    struct child_domain *d;
    uint32_t rank = 0;

    if (wire->magic != TREE_MAGIC || wire->count > TREE_CHILDREN_MAX)
        /* stale request: the worker has given up, and the memory belongs to something else */
        return NULL;
    while (rank < wire->count && wire->member[rank].child != ds->child)
        rank++;
    d = rank < wire->count ? calloc(1, sizeof(*d)) : NULL;
    if (d == NULL)
        return NULL;
    d->wire = wire;
    d->member = &wire->member[rank];
    d->context = d->member->context;
    d->window = d->member->window;
    d->window_bytes = wire->window_bytes;
    d->rank = rank;
    d->count = wire->count;
    d->next = ds->first;
    ds->first = d;
    return d;
}

static int offer(struct child_domains *ds, struct child_domain *d, struct pto_error *error)
{
    const struct chip_window_request request = {
        .way = d->wire->way, .rank = d->rank, .rank_count = d->count, .bytes = d->window_bytes
    };

    /* drops the window of an earlier attempt, which shared windows in another way */
    (void)chip_window_drop(ds->chip, d->on_card, NULL);
    d->on_card = NULL;
    if (d->window_bytes == 0)
        return PTO_OK;
    /* release R41 of the answer publishes way_count and waits */
    a32_store_relaxed(&d->wire->way_count, chip_window_ways(ds->chip));
    a32_store_relaxed(&d->wire->waits, chip_window_waits(ds->chip, request.way));
    return chip_window_offer(ds->chip, &request, &d->on_card, &d->member->offer, error);
}

/*
 * Whether to continue waiting for the other members. False if the worker may have given up the
 * domain, or a member is lost.
 */
static bool is_worth_while(void *context)
{
    const struct child_domain *d = context;

    /* relaxed: a stale value only prolongs the wait */
    return a32_load_relaxed(&d->wire->is_over) == 0 && a32_load_relaxed(&d->wire->is_lost) == 0;
}

static int child_domain_join(struct child_domains *ds, struct child_domain *d,
                             struct pto_error *error)
{
    const struct chip_wait_check check = { is_worth_while, d };
    struct chip_offer *others = calloc(d->count, sizeof(*others));
    int status = PTO_OK;

    if (others == NULL)
        return error_setf(error, PTO_ENOMEM, "there is no memory for a domain");
    for (uint32_t i = 0; i < d->count; i++)
        others[i] = d->wire->member[i].offer;
    if (d->on_card != NULL)
        status = chip_window_join(ds->chip, d->on_card, others, &check, error);
    free(others);
    return status;
}

static int make_context(struct child_domains *ds, struct child_domain *d, struct pto_error *error)
{
    struct pto_comm_context context = { .rank = d->rank,
                                        .rank_count = d->count,
                                        .window_bytes = d->window_bytes };

    for (uint32_t i = 0; i < d->count && d->on_card != NULL; i++) {
        context.window_in[i] = d->on_card->in[i];
        context.window_out[i] = d->on_card->out[i];
    }
    return card_context_upload(ds->chip, &context, &d->at, error);
}

int child_domain_step(struct child_domains *ds, struct wire_domain *wire, bool is_offer,
                      struct pto_error *error)
{
    struct child_domain *d;
    int status;

    /* No task runs now, so the watcher thread is not needed and may block on this lock. */
    pthread_mutex_lock(&ds->lock);
    take_news(ds);
    d = child_domain_find(ds, wire);
    if (d == NULL && is_offer)
        d = add_domain(ds, wire);
    if (d == NULL)
        status =
            error_setf(error, PTO_ENOMEM, "there is no memory for the domain, or it was released");
    else if (is_offer)
        status = offer(ds, d, error);
    else
        status = child_domain_join(ds, d, error);
    if (status >= 0 && !is_offer)
        status = make_context(ds, d, error);
    take_news(ds); /* handles domains that ended or lost a member while this thread held the lock */
    pthread_mutex_unlock(&ds->lock);
    return status;
}

/* ---- addresses in task arguments ---- */

uint64_t child_domains_find(struct child_domains *ds, uint64_t addr)
{
    uint64_t found = 0;

    pthread_mutex_lock(&ds->lock);
    for (const struct child_domain *d = ds->first; d != NULL && found == 0; d = d->next) {
        if (d->at != 0 && addr - d->context < sizeof(struct pto_comm_context))
            found = d->at + (addr - d->context);
        else if (d->on_card != NULL && addr - d->window < d->window_bytes)
            found = d->on_card->in[d->rank] + (addr - d->window);
    }
    pthread_mutex_unlock(&ds->lock);
    return found;
}

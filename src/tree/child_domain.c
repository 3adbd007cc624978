/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Domains of a chip that is a card: its window and its context are memory of the card, and arguments
 * of tasks that lie in what stands for them (struct wire_domain) are moved there. A thread tells
 * kernels that a member is lost, and gives back what is over, while tasks run.
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
    struct wire_member *member; /* the own one */
    uint64_t context, window;   /* that stand for those on the card */
    uint64_t window_bytes;
    uint32_t rank;
    uint32_t count;
    struct chip_window *on_card; /* NULL: not yet, or it has no bytes */
    uint64_t at;                 /* of the context on the card; 0: not yet */
    bool is_told;                /* that a member is lost */
};

struct child_domains {
    pthread_mutex_t lock; /* all of it but what says otherwise */
    uint32_t child;
    struct chip *chip;
    struct waker *alarm;
    struct a32 is_closing; /* looked at without the lock */
    struct child_domain *first;
    pthread_t watcher;
};

/* ---- the end of one ---- */

static void drop_domain(struct child_domains *ds, struct child_domain *d)
{
    (void)chip_window_drop(ds->chip, d->on_card, NULL); /* who cannot has a card that is lost */
    if (d->at != 0)
        (void)chip_free(ds->chip, d->at, NULL);
    a32_store_release(&d->member->is_dropped, 1); /* R43 */
    free(d);
}

/* Also all of them. */
static void sweep(struct child_domains *ds, bool is_last)
{
    struct child_domain **link = &ds->first;

    while (*link != NULL) {
        struct child_domain *d = *link;

        if (is_last || a32_load_relaxed(&d->wire->is_over) != 0) { /* the alarm's F41 */
            *link = d->next;
            drop_domain(ds, d);
        } else {
            link = &d->next;
        }
    }
}

/* ---- what happens while tasks run ---- */

static bool is_news(const struct child_domain *d)
{
    return a32_load_relaxed(&d->wire->is_over) != 0 || /* this and the next: the alarm's F41 */
           (!d->is_told && d->at != 0 && a32_load_relaxed(&d->wire->is_lost) != 0);
}

static bool child_domain_has_news(void *context)
{
    struct child_domains *ds = context;
    bool is_any = a32_load_relaxed(&ds->is_closing) != 0; /* the alarm's F41 */

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
            d->is_told = true;
        }
}

static void *watch_main(void *context)
{
    struct child_domains *ds = context;

    for (;;) {
        (void)waker_await(ds->alarm, &(struct waker_wait){ .holds = child_domain_has_news,
                                                           .context = ds,
                                                           .deadline_ns = UINT64_MAX });
        if (a32_load_relaxed(&ds->is_closing) != 0) /* the alarm's F41 */
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
    a32_store_relaxed(&ds->is_closing, 1); /* F41 follows */
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

/* NULL: there is no memory, or the child is no member. */
static struct child_domain *add_domain(struct child_domains *ds, struct wire_domain *wire)
{
    struct child_domain *d;
    uint32_t rank = 0;

    if (wire->magic != TREE_MAGIC || wire->count > TREE_CHILDREN_MAX)
        return NULL; /* the worker has ceased to wait, and there is something else */
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

    (void)chip_window_drop(ds->chip, d->on_card, NULL); /* of another way */
    d->on_card = NULL;
    if (d->window_bytes == 0)
        return PTO_OK;
    a32_store_relaxed(&d->wire->way_count, /* this and the next: the answer's R41 */
                      chip_window_ways(ds->chip));
    a32_store_relaxed(&d->wire->waits, chip_window_waits(ds->chip, request.way));
    return chip_window_offer(ds->chip, &request, &d->on_card, &d->member->offer, error);
}

/* The worker may have ceased to wait, or a member have gone that would have to come. */
static bool is_worth_while(void *context)
{
    const struct child_domain *d = context;

    return a32_load_relaxed(&d->wire->is_over) == 0 && /* this and the next: a look */
           a32_load_relaxed(&d->wire->is_lost) == 0;
}

static int child_domain_join(struct child_domains *ds, struct child_domain *d,
                             struct pto_error *error)
{
    const struct chip_patience patience = { is_worth_while, d };
    struct chip_offer *others = calloc(d->count, sizeof(*others));
    int status = PTO_OK;

    if (others == NULL)
        return error_tell(error, PTO_ENOMEM, "there is no memory for a domain");
    for (uint32_t i = 0; i < d->count; i++)
        others[i] = d->wire->member[i].offer;
    if (d->on_card != NULL)
        status = chip_window_join(ds->chip, d->on_card, others, &patience, error);
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

    pthread_mutex_lock(&ds->lock); /* no task runs meanwhile: nobody waits for the watcher */
    take_news(ds);
    d = child_domain_find(ds, wire);
    if (d == NULL && is_offer)
        d = add_domain(ds, wire);
    if (d == NULL)
        status = error_tell(error, PTO_ENOMEM, "there is no memory for a domain, or it has gone");
    else if (is_offer)
        status = offer(ds, d, error);
    else
        status = child_domain_join(ds, d, error);
    if (status >= 0 && !is_offer)
        status = make_context(ds, d, error);
    take_news(ds); /* of what has happened meanwhile */
    pthread_mutex_unlock(&ds->lock);
    return status;
}

/* ---- arguments ---- */

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

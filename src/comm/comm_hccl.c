/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks whose windows are memory of cards (chip_window_... of chip/chip.h), which kernels access by
 * address.
 *
 * Each communicator has one of the backend shm "below" it, and each domain one of that
 * communicator's domains. They serve for barriers and rounds of hosts; while a domain is opened,
 * ranks also exchange in its scratch how to map their windows. All ranks use the first way of
 * mapping that all cards have. Hosts access windows by copies.
 *
 * An add reads the word with one copy and writes it with another. Hosts do that one at a time, but
 * it is not atomic with respect to kernels, so hosts and kernels must not add to the same word.
 *
 * A host that waits for a word polls it when another host has signalled, and at intervals, because
 * a kernel cannot wake a host. Kernels that wait poll a word on their card, which a thread of the
 * host sets when a rank is lost.
 */
#include <assert.h>
#include <stdlib.h>

#include "comm/card_context.h"
#include "comm/comm_shared.h"
#include "host/host.h"

static int hccl_open(const struct comm_request *request, struct comm **comm_out,
                     struct pto_error *error);
static void hccl_close(struct comm *comm);
static void hccl_abort(struct comm *comm, int status);
static bool hccl_is_lost(struct comm *comm, uint32_t rank);
static int hccl_open_domain(struct comm *comm, const struct domain_request *request,
                            struct domain **domain_out, struct pto_error *error);
static int hccl_close_domain(struct domain *domain, uint64_t deadline_ns, struct pto_error *error);
static int hccl_put(struct domain *domain, uint32_t rank, uint64_t offset, const void *from,
                    uint64_t bytes);
static int hccl_get(struct domain *domain, uint32_t rank, uint64_t offset, void *to,
                    uint64_t bytes);
static int hccl_signal(struct domain *domain, uint32_t rank, const struct pto_signal_at *signal,
                       int32_t *before_out);
static int hccl_wait(struct domain *domain, const struct pto_wait_for *word, uint64_t timeout_ns,
                     struct pto_error *error);
static int hccl_barrier(struct domain *domain, uint64_t timeout_ns, struct pto_error *error);

static int hccl_check(struct pto_error *error);

const struct comm_ops comm_hccl_ops = {
    .name = "hccl",
    .summary = "processes of one machine with a card each, whose memory the windows are",
    .check = hccl_check,
    .has_addresses = true,
    .is_on_device = true,
    .open = hccl_open,
    .close = hccl_close,
    .abort = hccl_abort,
    .is_lost = hccl_is_lost,
    .open_domain = hccl_open_domain,
    .close_domain = hccl_close_domain,
    .put = hccl_put,
    .get = hccl_get,
    .signal = hccl_signal,
    .wait = hccl_wait,
    .barrier = hccl_barrier,
};

enum {
    LOOK_NS = 20000, /* first interval between two polls of a word */
    LOOK_NS_MAX = 10000000,
    LOOK_PART = 8, /* the interval grows to 1/LOOK_PART of the time waited so far */
};

struct hccl {
    struct comm base;
    struct comm *below; /* communicator of the backend shm with the same ranks */
    struct chip *chip;
    pthread_mutex_t lock; /* protects the list of domains */
    struct hccl_domain *domains;
    pthread_t watcher;
    struct a32 is_closing;
};

struct hccl_domain {
    struct domain base;
    struct domain *below;
    struct hccl_domain *next;
    /* windows of the domain; NULL: they are parts of another domain's windows, or empty */
    struct chip_window *window;
    struct pto_comm_context context;
    uint64_t at; /* address of the context on the card */
};

/* Data that a rank publishes in one step of opening a domain, in a half of the rank's scratch. */
struct announcement {
    int32_t status; /* negative: the rank failed, and `text` is its error */
    char text[PTO_ERROR_TEXT_MAX];
    struct chip_offer offer;
};

static_assert(sizeof(struct announcement) <= SHARED_SCRATCH_BYTES / 2,
              "an announcement must fit into half of the scratch");

/* State of opening a domain on this rank. */
struct opening {
    struct hccl *hccl;
    struct hccl_domain *domain;
    const struct domain_request *request;
    /*
     * number of the step; its parity selects the half of the scratch that this rank writes, while
     * peers may still read the other half
     */
    uint32_t step;
    struct announcement *own;
    struct pto_error *error;
};

static struct hccl *hccl_of(struct comm *comm)
{
    return (struct hccl *)(void *)comm;
}

static struct hccl_domain *hccl_domain_of(struct domain *domain)
{
    return (struct hccl_domain *)(void *)domain;
}

/* ---- open, close ---- */

static void *hccl_watch_main(void *context);

static void free_hccl(struct hccl *h)
{
    if (h->below != NULL) {
        pthread_mutex_destroy(&h->below->lock);
        h->below->ops->close(h->below);
    }
    pthread_mutex_destroy(&h->lock);
    free(h);
}

static int hccl_open(const struct comm_request *request, struct comm **comm_out,
                     struct pto_error *error)
{
    struct hccl *h;
    int status;

    if (request->rank_count > PTO_CONTEXT_RANKS)
        return error_setf(error, PTO_EINVAL, "%u ranks are too many for cards: there can be %d",
                          request->rank_count, PTO_CONTEXT_RANKS);
    h = calloc(1, sizeof(*h));
    if (h == NULL)
        return PTO_ENOMEM;
    pthread_mutex_init(&h->lock, NULL);
    h->base.ops = &comm_hccl_ops;
    h->base.rank = request->rank;
    h->base.rank_count = request->rank_count;
    h->chip = request->device->chip;
    status = comm_shm_ops.open(request, &h->below, error);
    if (status >= 0) {
        pthread_mutex_init(&h->below->lock, NULL);
        if (os_thread_start(&h->watcher, hccl_watch_main, h) < 0)
            status = error_setf(error, PTO_ESYSTEM, "no thread can be started");
    }
    if (status < 0) {
        free_hccl(h);
        return status;
    }
    *comm_out = &h->base;
    return PTO_OK;
}

static void hccl_close(struct comm *comm)
{
    struct hccl *h = hccl_of(comm);
    struct shared_head *own = shared_of(h->below)->own;

    a32_store_relaxed(&h->is_closing, 1); /* R36 follows */
    waker_wake_always(&own->waker);
    (void)pthread_join(h->watcher, NULL);
    free_hccl(h);
}

static void hccl_abort(struct comm *comm, int status)
{
    struct comm *below = hccl_of(comm)->below;

    below->ops->abort(below, status);
}

static bool hccl_is_lost(struct comm *comm, uint32_t rank)
{
    struct comm *below = hccl_of(comm)->below;

    return below->ops->is_lost(below, rank);
}

/* ---- waking kernels that wait ---- */

static void notify_kernels(struct hccl *h)
{
    pthread_mutex_lock(&h->lock);
    for (struct hccl_domain *d = h->domains; d != NULL; d = d->next)
        card_context_lose(h->chip, d->at);
    pthread_mutex_unlock(&h->lock);
}

static bool is_any_lost(const struct hccl *h)
{
    /* relaxed: the flag is polled, so it may be seen late */
    return a32_load_relaxed(&shared_of(h->below)->own->lost) != 0;
}

/*
 * Thread that sleeps until a rank is lost, and then notifies the card. Losses always wake it;
 * signals do not.
 */
static void *hccl_watch_main(void *context)
{
    struct hccl *h = context;
    struct shared_head *own = shared_of(h->below)->own;

    for (;;) {
        uint32_t sequence = waker_sequence(&own->waker); /* A36 */

        if (a32_load_relaxed(&h->is_closing) != 0) /* acquire A36 precedes this load */
            return NULL;
        if (is_any_lost(h)) {
            notify_kernels(h);
            return NULL;
        }
        waker_sleep_on(&own->waker, sequence);
    }
}

/*
 * Adds the domain to the list of those whose kernels are notified of lost ranks, and notifies them
 * at once if a rank is lost already.
 */
static void hccl_enlist(struct hccl *h, struct hccl_domain *d)
{
    pthread_mutex_lock(&h->lock);
    d->next = h->domains;
    h->domains = d;
    pthread_mutex_unlock(&h->lock);
    if (is_any_lost(h))
        notify_kernels(h);
}

static void hccl_delist(struct hccl *h, struct hccl_domain *d)
{
    struct hccl_domain **link = &h->domains;

    pthread_mutex_lock(&h->lock);
    while (*link != NULL && *link != d)
        link = &(*link)->next;
    if (*link != NULL)
        *link = d->next;
    pthread_mutex_unlock(&h->lock);
}

/* ---- opening a domain ---- */

static struct announcement *announcement_of(const struct opening *o, uint32_t rank)
{
    char *scratch = shared_scratch(shared_domain_of(o->domain->below), rank);

    return (struct announcement *)(void *)(scratch + o->step % 2 * (SHARED_SCRATCH_BYTES / 2));
}

/* Clears this rank's announcement of the next step. */
static void begin_step(struct opening *o, struct pto_error *why)
{
    o->step++;
    o->own = announcement_of(o, o->request->rank);
    memset(o->own, 0, sizeof(*o->own));
    pto_error_init(why);
}

static int hccl_meet(struct opening *o)
{
    return shared_barrier(o->domain->below, comm_time_left(o->request->deadline_ns), o->error);
}

/*
 * Publishes this rank's status of a step, and waits for the others. Returns the first negative
 * status and its text, but PTO_ENOSUP only if no rank has another negative status.
 */
static int end_step(struct opening *o, int status, const struct pto_error *why)
{
    uint32_t bad = UINT32_MAX;
    int waited;

    o->own->status = status;
    memcpy(o->own->text, why->text, sizeof(o->own->text));
    waited = hccl_meet(o);
    if (waited < 0)
        return waited;
    for (uint32_t i = 0; i < o->request->rank_count; i++) {
        int found = announcement_of(o, i)->status;

        if (found < 0 && (bad == UINT32_MAX ||
                          (announcement_of(o, bad)->status == PTO_ENOSUP && found != PTO_ENOSUP)))
            bad = i;
    }
    if (bad == UINT32_MAX)
        return PTO_OK;
    announcement_of(o, bad)->text[PTO_ERROR_TEXT_MAX - 1] = '\0';
    return comm_error_set(o->error, announcement_of(o, bad)->status, o->request->ranks[bad],
                          "rank %u: %s", o->request->ranks[bad], announcement_of(o, bad)->text);
}

/*
 * Polled by the chip during a long wait: true while the other members are alive and there is time
 * left.
 */
static bool hccl_is_worth_waiting(void *context)
{
    const struct opening *o = context;
    struct comm *below = o->hccl->below;

    for (uint32_t i = 0; i < o->request->rank_count; i++)
        if (below->ops->is_lost(below, o->request->ranks[i]))
            return false;
    return os_now_ns() < o->request->deadline_ns;
}

static int check_cards(const struct opening *o, const struct chip_offer *offer,
                       struct pto_error *why)
{
    for (uint32_t i = 0; i < o->request->rank_count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (offer[i].card == offer[k].card)
                return error_setf(
                    why, PTO_EINVAL,
                    "ranks %u and %u are both on card %u; give each rank a different card",
                    o->request->ranks[k], o->request->ranks[i], offer[i].card);
    return PTO_OK;
}

/* Tries one way of mapping windows on all ranks. PTO_ENOSUP: at least one rank does not have it. */
static int try_way(struct opening *o, uint32_t way, struct chip_offer *offer)
{
    const struct chip_window_request request = { .way = way,
                                                 .rank = o->request->rank,
                                                 .rank_count = o->request->rank_count,
                                                 .bytes = o->request->window_bytes };
    const struct chip_wait_check check = { hccl_is_worth_waiting, o };
    struct hccl_domain *d = o->domain;
    struct pto_error why;
    int status;

    begin_step(o, &why);
    status = chip_window_offer(o->hccl->chip, &request, &d->window, &o->own->offer, &why);
    status = end_step(o, status, &why);
    if (status >= 0) {
        for (uint32_t i = 0; i < request.rank_count; i++)
            /* copied before use, because peers' memory is not trusted */
            offer[i] = announcement_of(o, i)->offer;
        begin_step(o, &why);
        status = check_cards(o, offer, &why);
        if (status >= 0)
            status = chip_window_join(o->hccl->chip, d->window, offer, &check, &why);
        status = end_step(o, status, &why);
    }
    if (status < 0) {
        (void)chip_window_drop(o->hccl->chip, d->window, NULL);
        d->window = NULL;
    }
    return status;
}

static int hccl_make_windows(struct opening *o)
{
    uint32_t ways = chip_window_ways(o->hccl->chip);
    struct chip_offer *offer = calloc(o->request->rank_count, sizeof(*offer));
    int status = offer != NULL ? PTO_ENOSUP : PTO_ENOMEM;

    for (uint32_t way = 0; way < ways && status == PTO_ENOSUP; way++)
        status = try_way(o, way, offer);
    if (status >= 0) /* the error of an earlier way does not matter if a later one has succeeded */
        (void)error_setf(o->error, PTO_OK, "%s", "");
    free(offer);
    return status;
}

static void hccl_place_windows(struct opening *o)
{
    struct domain *domain = &o->domain->base;

    for (uint32_t i = 0; i < domain->rank_count && o->domain->window != NULL; i++)
        domain->window[i] = (char *)(uintptr_t)o->domain->window->in[i];
    if (domain->parent != NULL)
        comm_place_in_parent(domain, o->request->parent_offset);
    domain->own = domain->window[domain->rank];
}

/*
 * Fills in the addresses for writing, which differ from those for reading in one of the ways to
 * map.
 */
static void fill_out(struct opening *o)
{
    const struct domain *parent = o->request->parent;
    struct hccl_domain *d = o->domain;

    for (uint32_t i = 0; i < d->base.rank_count; i++) {
        if (d->window != NULL)
            d->context.window_out[i] = d->window->out[i];
        for (uint32_t k = 0; parent != NULL && k < parent->rank_count; k++)
            if (parent->ranks[k] == d->base.ranks[i])
                d->context.window_out[i] =
                    hccl_domain_of(o->request->parent)->context.window_out[k] +
                    o->request->parent_offset;
    }
}

static int upload_context(struct opening *o, struct pto_error *error)
{
    struct hccl_domain *d = o->domain;
    int status;

    comm_context_fill(&d->base, &d->context);
    fill_out(o);
    status = card_context_upload(o->hccl->chip, &d->context, &d->at, error);
    if (status >= 0)
        d->base.context = d->at;
    return status;
}

/* Frees this rank's window and context of the domain. A failed step does not end the release. */
static int hccl_free_domain(struct hccl *h, struct hccl_domain *d, struct pto_error *error)
{
    int status = chip_window_drop(h->chip, d->window, error), freed = PTO_OK;

    if (d->at != 0)
        freed = chip_free(h->chip, d->at, status < 0 ? NULL : error);
    comm_domain_free(&d->base);
    return status < 0 ? status : freed;
}

static int hccl_open_domain(struct comm *comm, const struct domain_request *request,
                            struct domain **domain_out, struct pto_error *error)
{
    struct hccl *h = hccl_of(comm);
    struct domain *domain = comm_domain_make(sizeof(struct hccl_domain), comm, request);
    struct opening o = {
        .hccl = h, .domain = hccl_domain_of(domain), .request = request, .error = error
    };
    struct domain_request below = *request;
    struct pto_error why;
    int status;

    if (domain == NULL)
        return PTO_ENOMEM;
    if (request->parent != NULL)
        below.parent = hccl_domain_of(request->parent)->below;
    h->below->timeout_ns = comm->timeout_ns;
    status = h->below->ops->open_domain(h->below, &below, &o.domain->below, error);
    if (status < 0) {
        comm_domain_free(domain);
        return status;
    }
    if (request->parent == NULL && request->window_bytes != 0)
        status = hccl_make_windows(&o);
    if (status >= 0) {
        hccl_place_windows(&o);
        begin_step(&o, &why);
        status = end_step(&o, upload_context(&o, &why), &why);
    }
    /* all ranks have read the announcements, so collectives may use the scratch from now on */
    if (status >= 0)
        status = hccl_meet(&o);
    if (status < 0) {
        (void)h->below->ops->close_domain(o.domain->below, 0, NULL);
        (void)hccl_free_domain(h, o.domain, NULL);
        return status;
    }
    domain->rounds = o.domain->below;
    hccl_enlist(h, o.domain);
    *domain_out = domain;
    return PTO_OK;
}

static int hccl_close_domain(struct domain *domain, uint64_t deadline_ns, struct pto_error *error)
{
    struct hccl_domain *d = hccl_domain_of(domain);
    struct hccl *h = hccl_of(domain->comm);
    int status, freed;

    hccl_delist(h, d);
    /* After all have left, no rank uses the window of another. */
    status = h->below->ops->close_domain(d->below, deadline_ns, error);
    freed = hccl_free_domain(h, d, status < 0 ? NULL : error);
    return status < 0 ? status : freed;
}

/* ---- data ---- */

static uint64_t hccl_address_of(const struct domain *domain, uint32_t rank, uint64_t offset)
{
    return (uint64_t)(uintptr_t)domain->window[rank] + offset;
}

static int hccl_put(struct domain *domain, uint32_t rank, uint64_t offset, const void *from,
                    uint64_t bytes)
{
    return chip_write(hccl_of(domain->comm)->chip, hccl_address_of(domain, rank, offset), from,
                      bytes, NULL);
}

static int hccl_get(struct domain *domain, uint32_t rank, uint64_t offset, void *to, uint64_t bytes)
{
    return chip_read(hccl_of(domain->comm)->chip, hccl_address_of(domain, rank, offset), to, bytes,
                     NULL);
}

/* ---- signals ---- */

static struct shared_control *control_of(struct domain *domain, uint32_t rank)
{
    return shared_domain_of(hccl_domain_of(domain)->below)->peer[rank].control;
}

/*
 * Waits until no other host adds to a word of the window, and takes its `adder` lock. The lock of a
 * host that died while adding is taken over.
 */
static int begin_adding(struct domain *domain, struct shared_control *control)
{
    uint64_t deadline_ns = comm_deadline(domain->comm->timeout_ns, 0);
    const uint32_t own = domain->comm->rank + 1;
    uint32_t adder = 0;

    while (!a32_cas_acq_rel(&control->adder, &adder, own)) { /* A37 */
        if (adder == 0 || adder > domain->comm->rank_count)
            adder = 0;
        else if (adder == own || !hccl_is_lost(domain->comm, adder - 1)) {
            if (os_now_ns() >= deadline_ns)
                return PTO_ETIMEOUT;
            os_yield();
            adder = 0;
        } /* the next attempt takes the lock over, because its holder is lost */
    }
    return PTO_OK;
}

static int hccl_add(struct domain *domain, uint32_t rank, const struct pto_signal_at *signal,
                    int32_t *before_out)
{
    struct shared_control *control = control_of(domain, rank);
    int32_t word = 0, sum;
    int status = begin_adding(domain, control);

    if (status < 0)
        return status;
    status = hccl_get(domain, rank, signal->offset, &word, sizeof(word));
    sum = (int32_t)((uint32_t)word + (uint32_t)signal->value);
    if (status >= 0)
        status = hccl_put(domain, rank, signal->offset, &sum, sizeof(sum));
    a32_store_release(&control->adder, 0); /* R37 */
    if (before_out != NULL && status >= 0)
        *before_out = word;
    return status;
}

static int hccl_signal(struct domain *domain, uint32_t rank, const struct pto_signal_at *signal,
                       int32_t *before_out)
{
    struct hccl *h = hccl_of(domain->comm);
    int status = PTO_OK;

    if (signal->how == PTO_SIGNAL_ADD)
        status = hccl_add(domain, rank, signal, before_out);
    else
        status = hccl_put(domain, rank, signal->offset, &signal->value, sizeof(signal->value));
    if (status < 0)
        return status;
    (void)a32_add_acq_rel(&control_of(domain, rank)->signals, 1); /* R33 */
    shared_wake(shared_of(h->below), domain->ranks[rank]);
    return PTO_OK;
}

static uint64_t next_pause_ns(uint64_t waited_ns, uint64_t left_ns)
{
    uint64_t pause_ns = waited_ns / LOOK_PART;

    if (pause_ns < LOOK_NS)
        pause_ns = LOOK_NS;
    if (pause_ns > LOOK_NS_MAX)
        pause_ns = LOOK_NS_MAX;
    return pause_ns < left_ns ? pause_ns : left_ns;
}

static int hccl_wait(struct domain *domain, const struct pto_wait_for *word, uint64_t timeout_ns,
                     struct pto_error *error)
{
    struct domain *below = hccl_domain_of(domain)->below;
    const struct a32 *signals = &control_of(domain, domain->rank)->signals;
    const uint64_t begin_ns = os_now_ns(), deadline_ns = comm_deadline(timeout_ns, 0);
    int status = PTO_OK;

    for (;;) {
        struct pto_wait_for change = { .how = PTO_COMPARE_NE,
                                       .value = (int32_t)a32_load_acquire(signals) }; /* A33 */
        int32_t found = 0;
        int read = chip_read(hccl_of(domain->comm)->chip,
                             hccl_address_of(domain, domain->rank, word->offset), &found,
                             sizeof(found), error);
        uint64_t now = os_now_ns();

        if (read < 0)
            return error != NULL && error->text[0] != '\0'
                       ? read
                       : error_setf(error, read, "the word cannot be read from the card");
        /*
         * If the condition holds, the wait succeeds even after an error: the rank that wrote the
         * word did its part before it was lost.
         */
        if (pto_compare_holds(word->how, found, word->value))
            return PTO_OK;
        if (status < 0)
            return status;
        if (now >= deadline_ns)
            return comm_report_no_signal(error, timeout_ns, word->offset, found);
        status = shared_wait_word(below, signals, &change, false,
                                  next_pause_ns(now - begin_ns, deadline_ns - now), error);
        if (status == PTO_ETIMEOUT)
            status = PTO_OK;
    }
}

static int hccl_barrier(struct domain *domain, uint64_t timeout_ns, struct pto_error *error)
{
    return shared_barrier(hccl_domain_of(domain)->below, timeout_ns, error);
}

static int hccl_check(struct pto_error *error)
{
    const struct pto_platform *platform;
    const char *missing = "there is no platform with cards";

    for (uint32_t i = 0; (platform = pto_platform_at(i)) != NULL; i++) {
        if (!platform->is_simulated && platform->missing == NULL)
            return PTO_OK;
        if (!platform->is_simulated)
            missing = platform->missing;
    }
    return error_setf(error, PTO_ENOSUP, "%s", missing);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels do to windows of other hosts: src/comm/tls_far.h. */
#include "comm/tls_far.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/absent.h"
#include "base/lock.h"
#include "pto/window_far.h"

#define FAR_SLICE_NS 20000000ull  /* how long a full lane is waited for before looking around */
#define FAR_IDLE_NS 100000000ull  /* how long the thread sleeps at most */
#define FAR_CLOSE_NS 100000000ull /* how long a close without a deadline waits for requests */

/* A domain that has ranks on other hosts, and a context. */
struct far_domain {
    struct far_domain *next;
    struct domain *domain;
    struct a32 is_closing; /* full lanes are not waited for any more */
    struct pto_comm_far far;
    char *reserved[PTO_CONTEXT_RANKS]; /* addresses in place of windows; NULL: there is a window */
};

/* A request that waits for an answer. Under call_lock. */
struct far_call {
    struct tls_call base;
    struct far_domain *domain;
    struct pto_far_request *request;
};

struct tls_far {
    struct waker waker; /* of the thread */
    struct tls *t;
    struct pto_far_queue *queue;
    struct far_call *call; /* by request */
    pthread_mutex_t lock;
    pthread_cond_t changed;           /* `batch` or `current` */
    struct far_domain *domains;       /* under the lock */
    const struct far_domain *current; /* domain that the thread uses now; under the lock */
    /*
     * Odd while the thread has taken requests from the list that are not carried out yet. Changed
     * under the lock, by the thread: to odd before it takes the list.
     */
    struct a64 batch;
    struct a32 is_ending;
    pthread_t thread;
};

static struct a32 *far_posted(const struct tls_far *far)
{
    return (struct a32 *)(void *)&far->queue->posted;
}

/* ---- requests ---- */

/* Frees a request, or hands it back to the kernel that waits for its answer. */
static void far_finish(struct pto_far_request *r, int status)
{
    if (r->kind != PTO_FAR_GET && r->kind != PTO_FAR_FETCH_ADD) {
        pto_far_free(r);
        return;
    }
    r->status = status;
    __atomic_store_n(&r->state, (uint32_t)PTO_FAR_DONE, __ATOMIC_RELEASE);
}

/* Called under call_lock when an answer has come, or none will. */
static void far_answered(struct tls *t, struct tls_call *call)
{
    struct far_call *c = (struct far_call *)(void *)call;
    struct pto_far_request *r = c->request;
    struct domain *domain = c->domain->domain;
    int status = call->status;

    if (status >= 0 && call->got != call->bytes)
        status = PTO_EPEER;
    if (r->kind == PTO_FAR_FETCH_ADD)
        r->value = (int32_t)call->before;
    if (r->kind == PTO_FAR_GET_OWN && status >= 0 && r->counter != 0) {
        /* release: a kernel that reads the counter finds the data */
        (void)a32_add_acq_rel((struct a32 *)(void *)(domain->own + r->counter - 1), 1);
        shared_wake(&t->shm.shared, t->shm.shared.base.rank);
    }
    far_finish(r, status);
}

/* Whether a range is inside of each window of a domain. */
static bool far_is_inside(const struct domain *domain, uint64_t offset, uint64_t bytes)
{
    return offset <= domain->window_bytes && bytes <= domain->window_bytes - offset;
}

/* Checks what a kernel has posted: a record that no rank sends would make the peer give us up. */
static int far_check(const struct far_domain *d, const struct pto_far_request *r)
{
    bool has_word = r->kind == PTO_FAR_SIGNAL || r->kind == PTO_FAR_FETCH_ADD;

    if (r->rank >= d->domain->rank_count || d->reserved[r->rank] == NULL ||
        r->kind > PTO_FAR_FETCH_ADD ||
        !far_is_inside(d->domain, r->offset, has_word ? 4 : r->bytes))
        return PTO_EINVAL;
    if (has_word)
        return r->offset % 4 == 0 ? PTO_OK : PTO_EINVAL;
    if (r->kind != PTO_FAR_GET_OWN)
        return r->bytes <= PTO_FAR_DATA ? PTO_OK : PTO_EINVAL;
    if (r->bytes > PTO_FAR_OWN || !far_is_inside(d->domain, r->to, r->bytes))
        return PTO_EINVAL;
    if (r->counter == 0)
        return PTO_OK;
    return r->counter % 4 == 1 && far_is_inside(d->domain, r->counter - 1, 4) ? PTO_OK : PTO_EINVAL;
}

/* Sends a request once. PTO_ETIMEOUT: the lane has no room. */
static int far_try(const struct far_domain *d, const struct pto_far_request *r, uint64_t call)
{
    const uint64_t deadline_ns = os_now_ns() + FAR_SLICE_NS;
    struct pto_signal_at signal = { r->offset, (enum pto_signal)r->how, r->value };

    switch (r->kind) {
    case PTO_FAR_PUT:
        return tls_send_put(d->domain, r->rank, r->offset, r->data, r->bytes, deadline_ns);
    case PTO_FAR_FETCH_ADD:
        signal.how = PTO_SIGNAL_ADD;
        return tls_send_word(d->domain, r->rank, &signal, call, deadline_ns);
    case PTO_FAR_SIGNAL:
        return tls_send_word(d->domain, r->rank, &signal, 0, deadline_ns);
    default:
        return tls_send_ask(d->domain, r->rank, r->offset, (uint32_t)r->bytes, call, deadline_ns);
    }
}

static int far_send(struct tls_far *far, const struct far_domain *d,
                    const struct pto_far_request *r, uint64_t call)
{
    int status;

    do
        status = far_try(d, r, call);
    while (status == PTO_ETIMEOUT && a32_load_acquire(&far->is_ending) == 0 &&
           a32_load_acquire(&d->is_closing) == 0);
    return status;
}

/* Ends a call that was not sent, unless the loss of its rank has ended it already. */
static void far_fail(struct tls *t, struct tls_call *call, int status)
{
    pthread_mutex_lock(&t->call_lock);
    if (call->is_open) {
        call->status = status;
        tls_send_close_call(t, call);
    }
    pthread_mutex_unlock(&t->call_lock);
}

/* Carries out a request of a domain that cannot be closed now. */
static void far_serve(struct tls_far *far, struct far_domain *d, struct pto_far_request *r)
{
    struct far_call *c = &far->call[r - far->queue->request];
    int status = far_check(d, r);

    if (status < 0 || r->kind == PTO_FAR_PUT || r->kind == PTO_FAR_SIGNAL) {
        far_finish(r, status < 0 ? status : far_send(far, d, r, 0));
        return;
    }
    *c = (struct far_call){ .base = { .rank = d->domain->ranks[r->rank],
                                      .bytes = r->kind == PTO_FAR_FETCH_ADD ? 0 : r->bytes,
                                      .done = far_answered },
                            .domain = d,
                            .request = r };
    if (r->kind == PTO_FAR_GET)
        c->base.to = (char *)r->data;
    else if (r->kind == PTO_FAR_GET_OWN)
        c->base.to = d->domain->own + r->to;
    tls_send_begin_call(far->t, &c->base);
    status = far_send(far, d, r, c->base.number);
    if (status < 0)
        far_fail(far->t, &c->base, status);
}

/* ---- the thread ---- */

/* Finds the domain of a request, and keeps it from being closed until far_let_go. */
static struct far_domain *far_hold(struct tls_far *far, uint64_t number)
{
    struct far_domain *d;

    pthread_mutex_lock(&far->lock);
    for (d = far->domains; d != NULL && (uint64_t)(uintptr_t)d != number; d = d->next)
        ;
    far->current = d;
    pthread_mutex_unlock(&far->lock);
    return d;
}

static void far_let_go(struct tls_far *far)
{
    pthread_mutex_lock(&far->lock);
    far->current = NULL;
    pthread_cond_broadcast(&far->changed);
    pthread_mutex_unlock(&far->lock);
}

static void far_count_batch(struct tls_far *far)
{
    pthread_mutex_lock(&far->lock);
    /* relaxed: only this thread changes it */
    a64_store_release(&far->batch, a64_load_relaxed(&far->batch) + 1);
    pthread_cond_broadcast(&far->changed);
    pthread_mutex_unlock(&far->lock);
}

/* Carries out all posted requests, oldest first. */
static void far_step(struct tls_far *far)
{
    struct pto_far_request *request = far->queue->request;
    uint32_t number, oldest = 0;

    if (a32_load_relaxed(far_posted(far)) == 0)
        return;
    far_count_batch(far);
    number = a32_swap_acq_rel(far_posted(far), 0); /* what kernels have filled in is visible */
    while (number != 0) {
        uint32_t next = request[number - 1].next;

        request[number - 1].next = oldest;
        oldest = number;
        number = next;
    }
    while (oldest != 0) {
        struct pto_far_request *r = &request[oldest - 1];
        struct far_domain *d = far_hold(far, r->domain);

        oldest = r->next; /* the request may be free afterwards */
        if (d != NULL)
            far_serve(far, d, r);
        else
            far_finish(r, PTO_EPEER);
        far_let_go(far);
    }
    far_count_batch(far);
}

static bool far_has_work(void *context)
{
    struct tls_far *far = context;

    /* relaxed: the list is taken with acquire */
    return a32_load_relaxed(far_posted(far)) != 0 || a32_load_acquire(&far->is_ending) != 0;
}

static void *far_main(void *context)
{
    struct tls_far *far = context;

    do {
        (void)waker_await(&far->waker,
                          &(struct waker_wait){ .holds = far_has_work,
                                                .context = far,
                                                .policy = waker_spin_policy(2),
                                                .deadline_ns = os_now_ns() + FAR_IDLE_NS });
        far_step(far);
    } while (a32_load_acquire(&far->is_ending) == 0);
    return NULL;
}

/* ---- life ---- */

static void far_destroy(struct tls_far *far)
{
    pthread_mutex_destroy(&far->lock);
    pthread_cond_destroy(&far->changed);
    free(far->queue);
    free(far->call);
    free(far);
}

/* Makes the queue and starts the thread. */
static int far_make(struct tls *t, struct tls_far **far_out)
{
    struct tls_far *far = aligned_alloc(WAKER_LINE, sizeof(*far));
    int status = PTO_ENOMEM;

    if (far == NULL)
        return status;
    memset(far, 0, sizeof(*far));
    far->t = t;
    pthread_mutex_init(&far->lock, NULL);
    os_cond_init(&far->changed);
    far->queue = calloc(1, sizeof(*far->queue));
    far->call = calloc(PTO_FAR_REQUESTS, sizeof(*far->call));
    if (far->queue != NULL && far->call != NULL) {
        far->queue->waker = (uint64_t)(uintptr_t)&far->waker;
        status = os_thread_start(&far->thread, far_main, far);
    }
    if (status < 0)
        far_destroy(far);
    else
        *far_out = far;
    return status;
}

/* Returns the queue of a communicator. NULL: no domain has needed one yet. */
static struct tls_far *far_of(struct tls *t)
{
    return aptr_load_acquire(&t->far);
}

static int far_start(struct tls *t)
{
    struct tls_far *far;
    int status = PTO_OK;

    pthread_mutex_lock(&t->far_lock);
    if (far_of(t) == NULL) {
        status = far_make(t, &far);
        if (status >= 0)
            (void)aptr_swap_acq_rel(&t->far, far);
    }
    pthread_mutex_unlock(&t->far_lock);
    return status;
}

void tls_far_end(struct tls *t)
{
    struct tls_far *far = far_of(t);

    if (far == NULL)
        return;
    a32_store_release(&far->is_ending, 1);
    waker_wake_always(&far->waker);
    (void)pthread_join(far->thread, NULL);
}

void tls_far_free(struct tls *t)
{
    if (far_of(t) != NULL)
        far_destroy(far_of(t));
}

void tls_far_flush(struct tls *t, uint64_t deadline_ns)
{
    struct tls_far *far = far_of(t);
    uint64_t batch, target;

    if (far == NULL)
        return;
    /*
     * In this order: if the thread has emptied the list, its batch is seen as well. Requests that
     * are in the list now are carried out by the next batch that begins.
     */
    if (a32_load_acquire(far_posted(far)) == 0 && a64_load_acquire(&far->batch) % 2 == 0)
        return;
    pthread_mutex_lock(&far->lock);
    batch = a64_load_relaxed(&far->batch);
    target = batch + 2 + batch % 2;
    while (batch < target && (batch % 2 != 0 || a32_load_relaxed(far_posted(far)) != 0) &&
           os_cond_wait(&far->changed, &far->lock, deadline_ns))
        batch = a64_load_relaxed(&far->batch);
    pthread_mutex_unlock(&far->lock);
}

/* ---- domains ---- */

static void far_release(struct far_domain *d)
{
    for (uint32_t i = 0; i < PTO_CONTEXT_RANKS; i++)
        absent_release(d->reserved[i]);
    free(d);
}

/* Reserves addresses in place of the windows of other hosts. False: there are none. */
static bool far_reserve(const struct tls *t, struct far_domain *d)
{
    const struct domain *domain = d->domain;
    const uint64_t page = os_page_bytes();
    char what[120];

    for (uint32_t i = 0; i < domain->rank_count; i++) {
        if (domain->window[i] != NULL)
            continue;
        snprintf(what, sizeof(what), "the window of rank %u on %s", domain->ranks[i],
                 t->host[domain->ranks[i]]);
        d->reserved[i] = absent_reserve((domain->window_bytes / page + 1) * page, what);
        if (d->reserved[i] == NULL)
            return false;
        d->far.ranks |= 1ull << i;
    }
    return true;
}

static void far_fill_context(struct tls_far *far, struct shared_domain *sd, struct far_domain *d)
{
    d->far.queue = (uint64_t)(uintptr_t)far->queue;
    d->far.domain = (uint64_t)(uintptr_t)d;
    sd->wakers.far = (uint64_t)(uintptr_t)&d->far;
    comm_context_fill(&sd->base, &sd->context);
    for (uint32_t i = 0; i < sd->base.rank_count; i++)
        if (d->reserved[i] != NULL)
            sd->context.window_in[i] = sd->context.window_out[i] =
                (uint64_t)(uintptr_t)d->reserved[i];
    sd->base.context = (uint64_t)(uintptr_t)&sd->context;
}

int tls_far_add(struct tls *t, struct shared_domain *sd)
{
    struct far_domain *d;
    int status;

    if (sd->base.context != 0 || sd->base.rank_count > PTO_CONTEXT_RANKS)
        return PTO_OK;
    status = far_start(t);
    if (status < 0)
        return status;
    d = calloc(1, sizeof(*d));
    if (d == NULL)
        return PTO_ENOMEM;
    d->domain = &sd->base;
    if (!far_reserve(t, d)) {
        far_release(d);
        return PTO_OK;
    }
    far_fill_context(far_of(t), sd, d);
    pthread_mutex_lock(&far_of(t)->lock);
    d->next = far_of(t)->domains;
    far_of(t)->domains = d;
    pthread_mutex_unlock(&far_of(t)->lock);
    return PTO_OK;
}

/* Takes a domain off the list, when the thread does not use it. NULL: it has no context of ours. */
static struct far_domain *far_delist(struct tls_far *far, const struct domain *domain)
{
    struct far_domain **link, *d;

    pthread_mutex_lock(&far->lock);
    for (link = &far->domains; *link != NULL && (*link)->domain != domain; link = &(*link)->next)
        ;
    d = *link;
    if (d != NULL) {
        *link = d->next;
        a32_store_release(&d->is_closing, 1);
    }
    while (d != NULL && far->current == d)
        (void)os_cond_wait(&far->changed, &far->lock, UINT64_MAX);
    pthread_mutex_unlock(&far->lock);
    return d;
}

/* Ends the calls of a domain, so that no answer is stored in its window any more. */
static void far_fail_all(struct tls *t, const struct far_domain *d)
{
    struct tls_call *next;

    pthread_mutex_lock(&t->call_lock);
    for (struct tls_call *c = t->calls; c != NULL; c = next) {
        next = c->next;
        if (c->done != far_answered || ((struct far_call *)(void *)c)->domain != d)
            continue;
        c->status = PTO_EPEER;
        tls_send_close_call(t, c);
    }
    pthread_mutex_unlock(&t->call_lock);
}

void tls_far_remove(struct tls *t, struct domain *domain, uint64_t deadline_ns)
{
    struct tls_far *far = far_of(t);
    struct far_domain *d;

    if (far == NULL)
        return;
    tls_far_flush(t, deadline_ns != 0 ? deadline_ns : os_now_ns() + FAR_CLOSE_NS);
    d = far_delist(far, domain);
    if (d == NULL)
        return;
    far_fail_all(t, d);
    far_release(d);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators and their domains for the worker interface, implemented with include/pto/comm.h:
 *
 *     comm_init                    the ranks meet at the path that all are given
 *     comm_alloc_windows           a domain of all ranks, for barriers and derived contexts
 *     comm_alloc_domain_windows    a domain of some
 *
 * Contexts are made here. They have no workspace, so waits of kernels poll and cannot be woken.
 * Handles are looked up in a list, so a destroyed one is refused.
 */
#include <stdlib.h>

#include "compat/hostlib/hostlib.h"
#include "pto/comm.h"

/* The windows of a domain, with the context that kernels get for them. */
struct comm_windows {
    struct comm_windows *next;
    uint64_t id;
    struct pto_domain *domain; /* NULL: the windows are parts of those of all ranks */
    struct hostlib_context *context;
    uint32_t rank;
    uint32_t rank_count;
};

struct comm_handle {
    struct comm_handle *next;
    struct pto_comm *comm;
    uint32_t rank;
    uint32_t rank_count;
    pthread_mutex_t lock;         /* guards the fields below */
    uint32_t failures;            /* failed attempts to allocate `base` */
    struct comm_windows *base;    /* windows of all ranks; NULL: not allocated yet */
    struct comm_windows *domains; /* list of the other domains, found by their ids */
    struct comm_windows *derived;
};

/* Ids for the domain of all ranks, which callers cannot use. Each failed attempt uses one up. */
enum { BASE_IDS = 256 };
#define BASE_ID (UINT64_MAX - BASE_IDS + 1)

static struct {
    pthread_mutex_t lock;
    struct comm_handle *first;
} handles = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int open_windows(const char *function, struct comm_handle *h,
                        struct pto_domain_params *params, struct comm_windows **windows_out);
static int close_windows(const char *function, struct comm_handle *h, struct comm_windows *w);

/* ---- communicators ---- */

static struct comm_handle *find_handle(const char *function, void *comm)
{
    struct comm_handle *h;

    pthread_mutex_lock(&handles.lock);
    for (h = handles.first; h != NULL && h != comm; h = h->next)
        ;
    pthread_mutex_unlock(&handles.lock);
    if (h == NULL)
        hostlib_log(PTO_LOG_ERROR, function, "there is no communicator %p", comm);
    return h;
}

static struct comm_handle *keep_handle(struct pto_comm *comm, uint32_t rank, uint32_t rank_count)
{
    struct comm_handle *h = calloc(1, sizeof(*h));

    if (h == NULL)
        return NULL;
    h->comm = comm;
    h->rank = rank;
    h->rank_count = rank_count;
    pthread_mutex_init(&h->lock, NULL);
    pthread_mutex_lock(&handles.lock);
    h->next = handles.first;
    handles.first = h;
    pthread_mutex_unlock(&handles.lock);
    return h;
}

void *comm_init(int rank, int ranks, void *stream, const char *rendezvous)
{
    struct pto_comm_params params;
    struct pto_error error;
    struct pto_comm *comm;
    struct comm_handle *h;

    (void)stream; /* simulated chips have no streams */
    if (rendezvous == NULL || rendezvous[0] == '\0') {
        LOG(PTO_LOG_ERROR, "rank %d got no path at which the ranks meet", rank);
        return NULL;
    }
    if (ranks < 1 || ranks > PTO_CONTEXT_RANKS || rank < 0 || rank >= ranks) {
        LOG(PTO_LOG_ERROR, "rank %d of %d is invalid: there are 1 to %d ranks, numbered from 0",
            rank, ranks, PTO_CONTEXT_RANKS);
        return NULL;
    }
    pto_error_init(&error);
    pto_comm_params_init(&params);
    params.rank = rank;
    params.rank_count = (uint32_t)ranks;
    params.path = rendezvous;
    /* use an empty token: the token in the environment is meant for ranks of another job */
    params.token = "";
    params.error = &error;
    if (pto_comm_open(&params, &comm) < 0) {
        LOG(PTO_LOG_ERROR, "rank %d of %d: %s", rank, ranks, error.text);
        return NULL;
    }
    h = keep_handle(comm, (uint32_t)rank, (uint32_t)ranks);
    if (h == NULL)
        (void)pto_comm_close(comm);
    return h;
}

static void hostlib_free_all(struct comm_windows *w)
{
    while (w != NULL) {
        struct comm_windows *next = w->next;

        hostlib_context_destroy(w->context);
        free(w);
        w = next;
    }
}

/*
 * Closes a communicator. Waits for the other ranks only if all ranks have windows; domains that are
 * still open are abandoned.
 */
int comm_destroy(void *comm)
{
    struct comm_handle *h = find_handle(__func__, comm), **link;
    int status = 0;

    if (h == NULL)
        return WORKER_FAILED;
    pthread_mutex_lock(&handles.lock);
    for (link = &handles.first; *link != h; link = &(*link)->next)
        ;
    *link = h->next;
    pthread_mutex_unlock(&handles.lock);
    hostlib_free_all(h->derived);
    hostlib_free_all(h->domains);
    if (h->base != NULL)
        status = close_windows(__func__, h, h->base);
    (void)pto_comm_close(h->comm);
    pthread_mutex_destroy(&h->lock);
    free(h);
    return status;
}

/* ---- the windows of all ranks ---- */

int comm_alloc_windows(void *comm, size_t bytes, uint64_t *context_out)
{
    struct comm_handle *h = find_handle(__func__, comm);
    struct pto_domain_params params;
    struct comm_windows *w;
    int status;

    if (h == NULL || context_out == NULL)
        return WORKER_FAILED;
    pto_domain_params_init(&params);
    pthread_mutex_lock(&h->lock);
    params.id = BASE_ID + h->failures % BASE_IDS;
    pthread_mutex_unlock(&h->lock);
    params.window_bytes = bytes;
    status = open_windows(__func__, h, &params, &w);
    pthread_mutex_lock(&h->lock);
    if (status >= 0)
        h->base = w;
    else if (h->base == NULL)
        h->failures++;
    pthread_mutex_unlock(&h->lock);
    if (status < 0)
        return status;
    *context_out = (uint64_t)(uintptr_t)&w->context->context;
    return 0;
}

/* Returns the context of all ranks' windows; NULL if there are none. */
static const struct pto_comm_context *find_base(const char *function, struct comm_handle *h)
{
    const struct comm_windows *base;

    pthread_mutex_lock(&h->lock);
    base = h->base;
    pthread_mutex_unlock(&h->lock);
    if (base == NULL)
        hostlib_log(PTO_LOG_ERROR, function,
                    "rank %u has no windows yet: call comm_alloc_windows first", h->rank);
    return base != NULL ? &base->context->context : NULL;
}

int comm_get_local_window_base(void *comm, uint64_t *base_out)
{
    struct comm_handle *h = find_handle(__func__, comm);
    const struct pto_comm_context *base = h != NULL ? find_base(__func__, h) : NULL;

    if (base == NULL || base_out == NULL)
        return WORKER_FAILED;
    *base_out = base->window_in[h->rank];
    return 0;
}

int comm_get_window_size(void *comm, size_t *bytes_out)
{
    struct comm_handle *h = find_handle(__func__, comm);
    const struct pto_comm_context *base = h != NULL ? find_base(__func__, h) : NULL;

    if (base == NULL || bytes_out == NULL)
        return WORKER_FAILED;
    *bytes_out = base->window_bytes;
    return 0;
}

int comm_barrier(void *comm)
{
    struct comm_handle *h = find_handle(__func__, comm);
    struct pto_error error;
    int status;

    if (h == NULL || find_base(__func__, h) == NULL)
        return WORKER_FAILED;
    pto_error_init(&error);
    status = pto_comm_barrier(h->base->domain, 0, &error);
    if (status < 0)
        LOG(PTO_LOG_ERROR, "rank %u: %s", h->rank, error.text);
    return status;
}

/* ---- domains ---- */

/* Checks the ranks of a domain, as a caller lists them: this rank must be number `domain_rank`. */
static bool are_ranks(const char *function, const struct comm_handle *h, const uint32_t *ranks,
                      size_t rank_count, uint32_t domain_rank)
{
    if (ranks == NULL || rank_count == 0 || rank_count > h->rank_count ||
        domain_rank >= rank_count) {
        hostlib_log(PTO_LOG_ERROR, function,
                    "rank %u cannot be number %u of %zu: a domain has 1 to %u ranks", h->rank,
                    domain_rank, rank_count, h->rank_count);
        return false;
    }
    for (size_t i = 0; i < rank_count; i++)
        if (ranks[i] >= h->rank_count) {
            hostlib_log(PTO_LOG_ERROR, function, "there is no rank %u: there are %u ranks",
                        ranks[i], h->rank_count);
            return false;
        }
    if (ranks[domain_rank] != h->rank)
        hostlib_log(PTO_LOG_ERROR, function,
                    "number %u of the domain is rank %u, but this process is rank %u", domain_rank,
                    ranks[domain_rank], h->rank);
    return ranks[domain_rank] == h->rank;
}

/* Makes a context of some ranks. Needs no communication, because every rank knows all windows. */
int comm_derive_context(void *comm, const uint32_t *ranks, size_t rank_count, uint32_t domain_rank,
                        size_t offset, size_t bytes, uint64_t *context_out)
{
    struct comm_handle *h = find_handle(__func__, comm);
    const struct pto_comm_context *base = h != NULL ? find_base(__func__, h) : NULL;
    struct comm_windows *w;

    if (base == NULL || context_out == NULL ||
        !are_ranks(__func__, h, ranks, rank_count, domain_rank))
        return WORKER_FAILED;
    if (offset > base->window_bytes || bytes > base->window_bytes - offset) {
        LOG(PTO_LOG_ERROR, "%zu bytes at %zu do not lie inside windows of %llu", bytes, offset,
            (unsigned long long)base->window_bytes);
        return WORKER_FAILED;
    }
    w = calloc(1, sizeof(*w));
    if (w != NULL)
        w->context = hostlib_context_create(domain_rank, (uint32_t)rank_count, bytes);
    if (w == NULL || w->context == NULL) {
        free(w);
        return PTO_ENOMEM;
    }
    for (uint32_t i = 0; i < rank_count; i++)
        hostlib_context_set(w->context, i, base->window_in[ranks[i]] + offset);
    pthread_mutex_lock(&h->lock);
    w->next = h->derived;
    h->derived = w;
    pthread_mutex_unlock(&h->lock);
    *context_out = (uint64_t)(uintptr_t)&w->context->context;
    return 0;
}

int comm_alloc_domain_windows(void *comm, uint64_t id, const uint32_t *ranks, size_t rank_count,
                              uint32_t domain_rank, size_t bytes, uint64_t *context_out,
                              uint64_t *base_out)
{
    struct comm_handle *h = find_handle(__func__, comm);
    struct pto_domain_params params;
    struct comm_windows *w;
    int status;

    if (h == NULL || context_out == NULL || base_out == NULL ||
        !are_ranks(__func__, h, ranks, rank_count, domain_rank))
        return WORKER_FAILED;
    if (bytes == 0 || id >= BASE_ID) {
        LOG(PTO_LOG_ERROR, "domain %llu of %zu bytes: %s", (unsigned long long)id, bytes,
            bytes == 0 ? "windows must not be empty" : "the id is taken");
        return WORKER_FAILED;
    }
    pto_domain_params_init(&params);
    params.id = id;
    params.ranks = ranks;
    params.rank_count = (uint32_t)rank_count;
    params.window_bytes = bytes;
    status = open_windows(__func__, h, &params, &w);
    if (status < 0)
        return status;
    pthread_mutex_lock(&h->lock);
    w->next = h->domains;
    h->domains = w;
    pthread_mutex_unlock(&h->lock);
    *context_out = (uint64_t)(uintptr_t)&w->context->context;
    *base_out = w->context->context.window_in[domain_rank];
    return 0;
}

int comm_release_domain_windows(void *comm, uint64_t id, size_t rank_count, uint32_t domain_rank)
{
    struct comm_handle *h = find_handle(__func__, comm);
    struct comm_windows *w = NULL, **link;

    if (h == NULL)
        return WORKER_FAILED;
    pthread_mutex_lock(&h->lock);
    for (link = &h->domains; *link != NULL && (*link)->id != id; link = &(*link)->next)
        ;
    if (*link != NULL && (*link)->rank_count == rank_count && (*link)->rank == domain_rank) {
        w = *link;
        *link = w->next;
    }
    pthread_mutex_unlock(&h->lock);
    if (w != NULL)
        return close_windows(__func__, h, w);
    LOG(PTO_LOG_ERROR, "rank %u has no domain %llu of %zu ranks in which it is number %u", h->rank,
        (unsigned long long)id, rank_count, domain_rank);
    return WORKER_FAILED;
}

/* ---- windows and their context ---- */

static int fill_context(struct comm_windows *w, uint64_t bytes)
{
    int status = PTO_OK;

    w->context = hostlib_context_create(w->rank, w->rank_count, bytes);
    if (w->context == NULL)
        return PTO_ENOMEM;
    for (uint32_t i = 0; i < w->rank_count && status >= 0; i++) {
        uint64_t window = 0;

        status = pto_domain_window(w->domain, i, &window);
        hostlib_context_set(w->context, i, window);
    }
    return status;
}

static int open_windows(const char *function, struct comm_handle *h,
                        struct pto_domain_params *params, struct comm_windows **windows_out)
{
    struct comm_windows *w = calloc(1, sizeof(*w));
    struct pto_domain_info info;
    struct pto_error error;
    int status;

    if (w == NULL)
        return PTO_ENOMEM;
    pto_error_init(&error);
    params->error = &error;
    w->id = params->id;
    status = pto_domain_open(h->comm, params, &w->domain);
    if (status < 0) {
        hostlib_log(PTO_LOG_ERROR, function, "rank %u: %s", h->rank, error.text);
        free(w);
        return status;
    }
    pto_domain_info_init(&info);
    (void)pto_domain_info(w->domain, &info); /* cannot fail: the domain was just opened */
    w->rank = info.rank;
    w->rank_count = info.rank_count;
    status = fill_context(w, params->window_bytes);
    if (status < 0) {
        (void)close_windows(function, h, w);
        return status;
    }
    *windows_out = w;
    return 0;
}

/* Waits for the other ranks, and frees the windows in any case. */
static int close_windows(const char *function, struct comm_handle *h, struct comm_windows *w)
{
    struct pto_error error;
    int status;

    /* destroy the context first, because copies use it to find windows */
    hostlib_context_destroy(w->context);
    pto_error_init(&error);
    status = pto_domain_close(w->domain, 0, &error);
    if (status < 0)
        hostlib_log(PTO_LOG_ERROR, function, "rank %u: %s", h->rank, error.text);
    free(w);
    return status;
}

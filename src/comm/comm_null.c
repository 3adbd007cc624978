/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A communicator of a single rank, which never waits for peers: the backend to start a new one
 * from. Its windows are memory of the process. With several ranks, a backend's open would exchange
 * how ranks reach each other, and its open_domain the addresses of windows. Its barrier
 * would wait for peers until the deadline, or until one of them is lost.
 */
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/waker.h"
#include "comm/comm.h"

static int comm_null_open(const struct comm_request *request, struct comm **comm_out,
                          struct pto_error *error);
static void comm_null_close(struct comm *comm);
static void comm_null_abort(struct comm *comm, int status);
static bool comm_null_is_lost(struct comm *comm, uint32_t rank);
static int comm_null_open_domain(struct comm *comm, const struct domain_request *request,
                                 struct domain **domain_out, struct pto_error *error);
static int comm_null_close_domain(struct domain *domain, uint64_t deadline_ns,
                                  struct pto_error *error);
static int comm_null_signal(struct domain *domain, uint32_t rank,
                            const struct pto_signal_at *signal, int32_t *before_out);
static int comm_null_wait(struct domain *domain, const struct pto_wait_for *word,
                          uint64_t timeout_ns, struct pto_error *error);
static int comm_null_barrier(struct domain *domain, uint64_t timeout_ns, struct pto_error *error);

const struct comm_ops comm_null_ops = {
    .name = "null",
    .has_addresses = true,
    .open = comm_null_open,
    .close = comm_null_close,
    .abort = comm_null_abort,
    .is_lost = comm_null_is_lost,
    .open_domain = comm_null_open_domain,
    .close_domain = comm_null_close_domain,
    .signal = comm_null_signal,
    .wait = comm_null_wait,
    .barrier = comm_null_barrier,
};

struct null_comm {
    struct comm base;
    struct waker waker; /* waker of the threads that wait for a signal */
    struct a32 aborted; /* status of the abort; 0: not aborted */
};

struct null_domain {
    struct domain base;
    struct pto_comm_context context;
};

static struct null_comm *comm_null_of(struct comm *comm)
{
    return (struct null_comm *)(void *)comm;
}

static int comm_null_open(const struct comm_request *request, struct comm **comm_out,
                          struct pto_error *error)
{
    struct null_comm *n;

    if (request->rank_count != 1)
        return error_setf(error, PTO_ENOSUP, "the backend null has one rank, not %u",
                          request->rank_count);
    n = aligned_alloc(alignof(struct null_comm), sizeof(*n));
    if (n == NULL)
        return PTO_ENOMEM;
    memset(n, 0, sizeof(*n));
    n->base.ops = &comm_null_ops;
    n->base.rank_count = 1;
    *comm_out = &n->base;
    return PTO_OK;
}

static void comm_null_close(struct comm *comm)
{
    free(comm);
}

static void comm_null_abort(struct comm *comm, int status)
{
    a32_store_release(&comm_null_of(comm)->aborted, (uint32_t)status);
    waker_wake(&comm_null_of(comm)->waker);
}

static bool comm_null_is_lost(struct comm *comm, uint32_t rank)
{
    (void)rank;
    return a32_load_acquire(&comm_null_of(comm)->aborted) != 0;
}

/*
 * Only aborting the communicator ends a wait early, because there are no peers that could be lost.
 */
static int comm_null_check_aborted(struct comm *comm, struct pto_error *error)
{
    int status = (int)a32_load_acquire(&comm_null_of(comm)->aborted);

    return status == 0 ? PTO_OK
                       : comm_error_set(error, PTO_EPEER, 0, "rank 0 has given up: %s",
                                        pto_strerror(status));
}

static int comm_null_open_domain(struct comm *comm, const struct domain_request *request,
                                 struct domain **domain_out, struct pto_error *error)
{
    struct domain *domain = comm_domain_make(sizeof(struct null_domain), comm, request);
    struct null_domain *n = (struct null_domain *)(void *)domain;
    int status = comm_null_check_aborted(comm, error);

    if (domain == NULL)
        return PTO_ENOMEM;
    if (status >= 0 && request->parent != NULL)
        domain->own = request->parent->own + request->parent_offset;
    else if (status >= 0)
        domain->own = calloc(1, request->window_bytes + 1);
    if (domain->own == NULL) {
        comm_domain_free(domain);
        return status < 0
                   ? status
                   : error_setf(error, PTO_ENOMEM, "there is no memory for a window of %llu bytes",
                                (unsigned long long)request->window_bytes);
    }
    domain->window[0] = domain->own;
    domain->context = (uint64_t)(uintptr_t)&n->context;
    comm_context_fill(domain, &n->context);
    *domain_out = domain;
    return PTO_OK;
}

static int comm_null_close_domain(struct domain *domain, uint64_t deadline_ns,
                                  struct pto_error *error)
{
    (void)deadline_ns;
    (void)error;
    if (domain->parent == NULL && comm_is_kept(domain))
        comm_keep_piece(domain->kept, domain->own, 0);
    else if (domain->parent == NULL)
        free(domain->own);
    comm_domain_free(domain);
    return PTO_OK;
}

static int comm_null_signal(struct domain *domain, uint32_t rank,
                            const struct pto_signal_at *signal, int32_t *before_out)
{
    struct a32 *word = (struct a32 *)(void *)(domain->window[rank] + signal->offset);
    uint32_t before = 0;

    if (signal->how == PTO_SIGNAL_ADD)
        before = a32_add_acq_rel(word, (uint32_t)signal->value);
    else
        a32_store_release(word, (uint32_t)signal->value);
    waker_wake(&comm_null_of(domain->comm)->waker);
    if (before_out != NULL)
        *before_out = (int32_t)before;
    return PTO_OK;
}

/* A wait in progress. */
struct null_wait {
    struct comm *comm;
    const struct a32 *at;
    const struct pto_wait_for *word;
    struct pto_error *error;
};

static bool comm_null_holds(void *context)
{
    const struct null_wait *w = context;

    return pto_compare_holds(w->word->how, (int32_t)a32_load_acquire(w->at), w->word->value);
}

static int comm_null_check(void *owner, bool before_sleep)
{
    const struct null_wait *w = owner;

    (void)before_sleep;
    return comm_null_check_aborted(w->comm, w->error);
}

/* Kernels store without a wake, so the word is also polled. */
static int comm_null_wait(struct domain *domain, const struct pto_wait_for *word,
                          uint64_t timeout_ns, struct pto_error *error)
{
    const struct a32 *at = (const struct a32 *)(const void *)(domain->own + word->offset);
    struct null_wait wait = { domain->comm, at, word, error };
    int status = waker_await(&comm_null_of(domain->comm)->waker,
                             &(struct waker_wait){ .holds = comm_null_holds,
                                                   .context = &wait,
                                                   .deadline_ns = comm_deadline(timeout_ns, 0),
                                                   .is_polled = true,
                                                   .check = comm_null_check,
                                                   .owner = &wait });

    if (status != PTO_ETIMEOUT)
        return status;
    return comm_error_set(error, PTO_ETIMEOUT, 0,
                          "no signal has come: the word at %llu is %d, and only this rank can "
                          "change it",
                          (unsigned long long)word->offset, (int32_t)a32_load_relaxed(at));
}

static int comm_null_barrier(struct domain *domain, uint64_t timeout_ns, struct pto_error *error)
{
    (void)timeout_ns;
    return comm_null_check_aborted(domain->comm, error);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions for data and signals: check that the range is inside a window. */
#include "base/atomic.h"
#include "comm/comm.h"

/* Returns the domain if all bytes are inside the rank's window, else NULL. */
static struct domain *comm_reach(struct pto_domain *handle, uint32_t rank, uint64_t offset,
                                 uint64_t bytes, int *status_out)
{
    struct domain *domain = comm_domain_of(handle, status_out);

    if (domain == NULL)
        return NULL;
    if (rank >= domain->rank_count)
        *status_out = PTO_EINVAL;
    else if (offset > domain->window_bytes || bytes > domain->window_bytes - offset)
        *status_out = PTO_EMEMORY;
    return *status_out < 0 ? NULL : domain;
}

/* Returns the domain if the signal's word is aligned and inside the rank's window, else NULL. */
static struct domain *reach_word(struct pto_domain *handle, uint32_t rank, uint64_t offset,
                                 int *status_out)
{
    struct domain *domain = comm_reach(handle, rank, offset, sizeof(int32_t), status_out);

    if (domain != NULL && offset % sizeof(int32_t) != 0) {
        *status_out = PTO_EINVAL;
        return NULL;
    }
    return domain;
}

static int comm_put(struct domain *domain, uint32_t rank, uint64_t offset, const void *from,
                    uint64_t bytes)
{
    if (bytes == 0)
        return PTO_OK;
    if (from == NULL)
        return PTO_EINVAL;
    if (domain->comm->ops->put != NULL)
        return domain->comm->ops->put(domain, rank, offset, from, bytes);
    memcpy(domain->window[rank] + offset, from, bytes);
    return PTO_OK;
}

int pto_comm_put(struct pto_domain *handle, uint32_t rank, uint64_t offset, const void *from,
                 uint64_t bytes)
{
    int status;
    struct domain *domain = comm_reach(handle, rank, offset, bytes, &status);

    return domain == NULL ? status : comm_put(domain, rank, offset, from, bytes);
}

int pto_comm_get(struct pto_domain *handle, uint32_t rank, uint64_t offset, void *to,
                 uint64_t bytes)
{
    int status;
    struct domain *domain = comm_reach(handle, rank, offset, bytes, &status);

    if (domain == NULL || bytes == 0)
        return status;
    if (to == NULL)
        return PTO_EINVAL;
    if (domain->comm->ops->get != NULL)
        return domain->comm->ops->get(domain, rank, offset, to, bytes);
    memcpy(to, domain->window[rank] + offset, bytes);
    return PTO_OK;
}

int pto_comm_signal(struct pto_domain *handle, uint32_t rank, struct pto_signal_at signal)
{
    int status;
    struct domain *domain = reach_word(handle, rank, signal.offset, &status);

    if (domain == NULL)
        return status;
    if (signal.how != PTO_SIGNAL_SET && signal.how != PTO_SIGNAL_ADD)
        return PTO_EINVAL;
    return domain->comm->ops->signal(domain, rank, &signal, NULL);
}

int pto_comm_put_signal(struct pto_domain *handle, uint32_t rank, uint64_t offset, const void *from,
                        uint64_t bytes, struct pto_signal_at signal)
{
    int status;
    struct domain *domain = reach_word(handle, rank, signal.offset, &status);

    if (domain == NULL)
        return status;
    if ((signal.how != PTO_SIGNAL_SET && signal.how != PTO_SIGNAL_ADD))
        return PTO_EINVAL;
    domain = comm_reach(handle, rank, offset, bytes, &status);
    if (domain == NULL)
        return status;
    status = comm_put(domain, rank, offset, from, bytes);
    return status < 0 ? status : domain->comm->ops->signal(domain, rank, &signal, NULL);
}

int pto_comm_fetch_add(struct pto_domain *handle, uint32_t rank, uint64_t offset, int32_t value,
                       int32_t *before_out)
{
    struct pto_signal_at signal = { offset, PTO_SIGNAL_ADD, value };
    int32_t before;
    int status;
    struct domain *domain = reach_word(handle, rank, offset, &status);

    if (domain == NULL)
        return status;
    return domain->comm->ops->signal(domain, rank, &signal,
                                     before_out != NULL ? before_out : &before);
}

int pto_comm_wait(struct pto_domain *handle, struct pto_wait_for word, uint64_t timeout_ns,
                  struct pto_error *error)
{
    int status;
    struct domain *domain = comm_domain_of(handle, &status);

    if (domain == NULL)
        return error_setf(error, status, "there is no such domain in this process");
    if (reach_word(handle, domain->rank, word.offset, &status) == NULL)
        return error_setf(
            error, status,
            "offset %llu is not that of an aligned word inside the window of %llu bytes",
            (unsigned long long)word.offset, (unsigned long long)domain->window_bytes);
    if (word.how > PTO_COMPARE_LE)
        return error_setf(error, PTO_EINVAL, "there is no comparison %d", (int)word.how);
    return domain->comm->ops->wait(domain, &word,
                                   timeout_ns != 0 ? timeout_ns : domain->comm->timeout_ns, error);
}

int pto_comm_quiet(struct pto_domain *handle)
{
    int status;
    struct domain *domain = comm_domain_of(handle, &status);

    if (domain == NULL)
        return status;
    if (domain->comm->ops->quiet != NULL)
        return domain->comm->ops->quiet(domain);
    fence_full();
    return PTO_OK;
}

/*
 * Orders this thread's earlier puts before its later signals. If hosts access windows by address,
 * they are ordered anyway; other backends wait for the puts.
 */
int pto_comm_fence(struct pto_domain *handle)
{
    return pto_comm_quiet(handle);
}

int pto_comm_barrier(struct pto_domain *handle, uint64_t timeout_ns, struct pto_error *error)
{
    int status;
    struct domain *domain = comm_domain_of(handle, &status);

    if (domain == NULL)
        return error_setf(error, status, "there is no such domain in this process");
    return domain->comm->ops->barrier(
        domain, timeout_ns != 0 ? timeout_ns : domain->comm->timeout_ns, error);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions of domains: checks before opening, and addresses of windows. */
#include <assert.h>
#include <stdlib.h>

#include "base/lock.h"
#include "base/sized.h"
#include "comm/comm.h"
#include "host/handle.h"

struct domain *comm_domain_of(struct pto_domain *handle, int *status_out)
{
    struct domain *domain = handle_get(HANDLE_DOMAIN, handle);

    *status_out = domain == NULL                    ? PTO_EINVAL
                  : *domain->comm->own_process == 0 ? PTO_EFORKED
                                                    : PTO_OK;
    return *status_out < 0 ? NULL : domain;
}

static bool domain_is_listed(const uint32_t *ranks, uint32_t count, uint32_t rank, uint32_t *at_out)
{
    for (uint32_t i = 0; i < count; i++)
        if (ranks[i] == rank) {
            *at_out = i;
            return true;
        }
    return false;
}

/*
 * Checks the list of members. `all` has room for every rank of the communicator, and is used if no
 * list is given.
 */
static int domain_check_ranks(const struct comm *comm, const struct pto_domain_params *params,
                              uint32_t *all, struct domain_request *request)
{
    uint32_t at;

    request->ranks = params->ranks;
    request->rank_count = params->rank_count;
    if (params->ranks == NULL) {
        for (uint32_t i = 0; i < comm->rank_count; i++)
            all[i] = i;
        request->ranks = all;
        request->rank_count = comm->rank_count;
    }
    if (request->rank_count == 0 || request->rank_count > comm->rank_count)
        return error_setf(params->error, PTO_EINVAL,
                          "the domain has %u ranks, but the communicator has only %u",
                          request->rank_count, comm->rank_count);
    for (uint32_t i = 0; i < request->rank_count; i++) {
        if (request->ranks[i] >= comm->rank_count)
            return comm_error_set(params->error, PTO_EINVAL, request->ranks[i],
                                  "rank %u is listed, but there are only %u ranks",
                                  request->ranks[i], comm->rank_count);
        if (domain_is_listed(request->ranks, i, request->ranks[i], &at))
            return comm_error_set(params->error, PTO_EINVAL, request->ranks[i],
                                  "rank %u is listed twice", request->ranks[i]);
    }
    if (!domain_is_listed(request->ranks, request->rank_count, comm->rank, &request->rank))
        return comm_error_set(params->error, PTO_EINVAL, comm->rank,
                              "rank %u opens a domain that it is not listed for", comm->rank);
    return PTO_OK;
}

static int check_parent(struct comm *comm, const struct pto_domain_params *params,
                        struct domain_request *request)
{
    uint32_t at;
    int status;

    if (params->parent == NULL)
        return PTO_OK;
    request->parent = comm_domain_of(params->parent, &status);
    if (request->parent == NULL || request->parent->comm != comm)
        return error_setf(params->error, PTO_EINVAL,
                          "the parent is not an open domain of this communicator");
    if (params->parent_offset > request->parent->window_bytes ||
        params->window_bytes > request->parent->window_bytes - params->parent_offset)
        return error_setf(params->error, PTO_EINVAL,
                          "%llu bytes at %llu are not inside the parent's windows of %llu",
                          (unsigned long long)params->window_bytes,
                          (unsigned long long)params->parent_offset,
                          (unsigned long long)request->parent->window_bytes);
    for (uint32_t i = 0; i < request->rank_count; i++)
        if (!domain_is_listed(request->parent->ranks, request->parent->rank_count,
                              request->ranks[i], &at))
            return comm_error_set(params->error, PTO_EINVAL, request->ranks[i],
                                  "rank %u is not in the parent domain", request->ranks[i]);
    request->parent_offset = params->parent_offset;
    return PTO_OK;
}

/* Whether an open domain has this id; ids of open domains are unique. */
static bool is_taken(const struct comm *comm, uint64_t id)
{
    const struct domain *d;

    assert_held(&comm->lock);
    for (d = comm->domains; d != NULL && d->id != id; d = d->next)
        ;
    return d != NULL;
}

/*
 * Checks that no open domain has the id; false: one has it. If `domain` is not NULL, also adds it
 * to the communicator's list.
 */
static bool domain_enlist(struct comm *comm, uint64_t id, struct domain *domain)
{
    bool is_free;

    pthread_mutex_lock(&comm->lock);
    is_free = !is_taken(comm, id);
    if (is_free && domain != NULL) {
        domain->next = comm->domains;
        comm->domains = domain;
        if (domain->parent != NULL)
            domain->parent->part_count++;
    }
    pthread_mutex_unlock(&comm->lock);
    return is_free;
}

int pto_domain_open(struct pto_comm *handle, const struct pto_domain_params *given,
                    struct pto_domain **domain_out)
{
    struct pto_domain_params params;
    struct domain_request request = { 0 };
    uint32_t all[COMM_RANKS_MAX];
    struct domain *domain = NULL;
    struct comm *comm;
    int status;

    pto_domain_params_init(&params);
    if (sized_read(&params, sizeof(params), given) < 0)
        return PTO_EINVAL;
    comm = comm_of(handle, &status);
    if (comm == NULL || domain_out == NULL)
        return error_setf(
            params.error, comm == NULL ? status : PTO_EINVAL, "%s",
            comm == NULL ? "there is no such communicator in this process" : "domain_out is NULL");
    status = domain_check_ranks(comm, &params, all, &request);
    if (status >= 0)
        status = check_parent(comm, &params, &request);
    if (status >= 0 && params.window_bytes > COMM_WINDOW_MAX)
        status = error_setf(params.error, PTO_EINVAL, "a window of %llu bytes is too large",
                            (unsigned long long)params.window_bytes);
    if (status >= 0 && !domain_enlist(comm, params.id, NULL))
        status = error_setf(params.error, PTO_EBUSY, "domain %llu is open already; close it first",
                            (unsigned long long)params.id);
    if (status < 0)
        return status;
    request.id = params.id;
    request.window_bytes = params.window_bytes;
    request.deadline_ns = comm_deadline(params.timeout_ns, comm->timeout_ns);
    status = comm->ops->open_domain(comm, &request, &domain, params.error);
    if (status < 0)
        return status;
    status = comm_register_memory(domain, params.error);
    if (status < 0) {
        (void)comm->ops->close_domain(domain, 0, NULL);
        return status;
    }
    domain->handle = handle_create(HANDLE_DOMAIN, domain);
    if (domain->handle == NULL || !domain_enlist(comm, domain->id, domain)) {
        status = domain->handle == NULL ? PTO_ENOMEM : PTO_EBUSY;
        (void)handle_destroy(HANDLE_DOMAIN, domain->handle);
        comm_unregister_memory(domain);
        (void)comm->ops->close_domain(domain, 0, NULL);
        return error_setf(params.error, status, "%s", pto_strerror(status));
    }
    *domain_out = domain->handle;
    return PTO_OK;
}

int pto_domain_close(struct pto_domain *handle, uint64_t timeout_ns, struct pto_error *error)
{
    struct domain *domain, **link;
    bool is_parent;
    struct comm *comm;
    int status;

    domain = comm_domain_of(handle, &status);
    if (domain == NULL)
        return error_setf(error, status, "there is no such domain in this process");
    comm = domain->comm;
    pthread_mutex_lock(&comm->lock);
    is_parent = domain->part_count > 0;
    if (!is_parent) {
        for (link = &comm->domains; *link != domain; link = &(*link)->next)
            assert(*link != NULL);
        *link = domain->next;
        if (domain->parent != NULL)
            domain->parent->part_count--;
    }
    pthread_mutex_unlock(&comm->lock);
    if (is_parent)
        return error_setf(
            error, PTO_EBUSY,
            "a domain that is open has its windows inside those of domain %llu; close it first",
            (unsigned long long)domain->id);
    (void)handle_destroy(HANDLE_DOMAIN, handle);
    comm_unregister_memory(domain);
    return comm->ops->close_domain(domain, comm_deadline(timeout_ns, comm->timeout_ns), error);
}

int pto_domain_info(struct pto_domain *handle, struct pto_domain_info *info)
{
    struct pto_domain_info known;
    int status;
    const struct domain *domain = comm_domain_of(handle, &status);

    if (domain == NULL)
        return status;
    if (info == NULL || !sized_is_valid(info))
        return PTO_EINVAL;
    pto_domain_info_init(&known);
    known.id = domain->id;
    known.rank = domain->rank;
    known.rank_count = domain->rank_count;
    known.window_bytes = domain->window_bytes;
    known.window = (uint64_t)(uintptr_t)domain->own;
    known.context = domain->context;
    for (uint32_t i = domain->rank_count; i-- > 0;)
        if (!comm_reaches(domain->comm, domain->ranks[i]))
            known.elsewhere = (int32_t)domain->ranks[i];
    sized_write(info, &known, sizeof(known));
    return PTO_OK;
}

int pto_domain_window(struct pto_domain *handle, uint32_t rank, uint64_t *addr_out)
{
    int status;
    const struct domain *domain = comm_domain_of(handle, &status);

    if (domain == NULL)
        return status;
    if (rank >= domain->rank_count || addr_out == NULL)
        return PTO_EINVAL;
    if (comm_window(domain, rank) == NULL)
        return PTO_ENOSUP;
    *addr_out = (uint64_t)(uintptr_t)comm_window(domain, rank);
    return PTO_OK;
}

char *comm_window(const struct domain *domain, uint32_t rank)
{
    if (rank == domain->rank)
        return domain->own;
    return domain->comm->ops->has_addresses ? domain->window[rank] : NULL;
}

struct domain *comm_domain_make(size_t bytes, struct comm *comm,
                                const struct domain_request *request)
{
    struct domain *domain = calloc(1, bytes);

    if (domain == NULL)
        return NULL;
    domain->comm = comm;
    domain->id = request->id;
    domain->rank = request->rank;
    domain->rank_count = request->rank_count;
    domain->window_bytes = request->window_bytes;
    domain->parent = request->parent;
    domain->parent_offset = request->parent_offset;
    domain->ranks = malloc(request->rank_count * sizeof(*domain->ranks));
    domain->window = calloc(request->rank_count, sizeof(*domain->window));
    if (domain->ranks == NULL || domain->window == NULL) {
        comm_domain_free(domain);
        return NULL;
    }
    memcpy(domain->ranks, request->ranks, request->rank_count * sizeof(*domain->ranks));
    return domain;
}

void comm_domain_free(struct domain *domain)
{
    if (domain == NULL)
        return;
    pto_windows_free(domain->kept);
    free(domain->ranks);
    free(domain->window);
    free(domain);
}

void comm_place_in_parent(struct domain *domain, uint64_t offset)
{
    const struct domain *parent = domain->parent;
    uint32_t at = 0;

    for (uint32_t i = 0; i < domain->rank_count; i++) {
        bool is_member = domain_is_listed(parent->ranks, parent->rank_count, domain->ranks[i], &at);

        assert(is_member);
        (void)is_member;
        domain->window[i] = parent->window[at] != NULL ? parent->window[at] + offset : NULL;
    }
}

void comm_context_fill(const struct domain *domain, struct pto_comm_context *context)
{
    assert(domain->rank_count <= PTO_CONTEXT_RANKS);
    context->rank = domain->rank;
    context->rank_count = domain->rank_count;
    context->window_bytes = domain->window_bytes;
    for (uint32_t i = 0; i < domain->rank_count; i++)
        context->window_in[i] = context->window_out[i] = (uint64_t)(uintptr_t)domain->window[i];
}

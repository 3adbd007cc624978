/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators and domains as callers see them: handles, checks, defaults. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/os.h"
#include "base/sized.h"
#include "comm/comm.h"
#include "host/handle.h"
#include "host/host.h"

static int comm_check_params(const struct pto_comm_params *given, struct pto_comm_params *params,
                             struct comm_place *place, struct pto_error *error);
static int hold_device(struct pto_comm_params *params, struct device **device_out,
                       struct pto_error *error);
static int publish_comm(struct comm *comm, const struct pto_comm_params *params,
                        struct device *device, struct pto_comm **comm_out);
static int check_canary(struct pto_comm *handle, uint64_t deadline_ns, struct pto_error *error);

static const struct comm_ops *const backends[] = { &comm_shm_ops, &comm_hccl_ops, &comm_null_ops };

static const struct comm_ops *find_backend(const char *name)
{
    for (uint32_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++)
        if (strcmp(backends[i]->name, name) == 0)
            return backends[i];
    return NULL;
}

uint64_t comm_deadline(uint64_t timeout_ns, uint64_t default_ns)
{
    uint64_t now = os_now_ns();

    if (timeout_ns == 0)
        timeout_ns = default_ns;
    return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

/* ---- communicators ---- */

int pto_comm_open(const struct pto_comm_params *given, struct pto_comm **comm_out)
{
    struct pto_comm_params params;
    struct comm_place place;
    struct pto_error why;
    struct comm_request request;
    struct device *device = NULL;
    struct comm *comm = NULL;
    struct pto_comm *handle = NULL;
    int status;

    pto_error_init(&why);
    pto_comm_params_init(&params);
    status = comm_check_params(given, &params, &place, &why);
    if (status >= 0 && comm_out == NULL)
        status = error_tell(&why, PTO_EINVAL,
                            "there is no place for the communicator: comm_out is NULL");
    if (status >= 0)
        status = hold_device(&params, &device, &why);
    if (status >= 0) {
        request = (struct comm_request){ .rank = (uint32_t)params.rank,
                                         .rank_count = params.rank_count,
                                         .path = params.path,
                                         .token = params.token,
                                         .device = device,
                                         .deadline_ns = comm_deadline(params.timeout_ns, 0) };
        status = find_backend(params.backend)->open(&request, &comm, &why);
    }
    if (status >= 0)
        status = publish_comm(comm, &params, device, &handle);
    if (status < 0 && device != NULL)
        device_release(device);
    if (status >= 0 && params.has_canary) {
        status = check_canary(handle, request.deadline_ns, &why);
        if (status < 0)
            (void)pto_comm_close(handle);
    }
    if (status >= 0)
        *comm_out = handle;
    else if (params.error != NULL)
        (void)comm_tell(params.error, status, why.rank < 0 ? UINT32_MAX : (uint32_t)why.rank, "%s",
                        why.text[0] != '\0' ? why.text : pto_strerror(status));
    return status;
}

/*
 * A card has windows of its own, which one backend knows how to share; any other device takes
 * memory of the host's. Which of them it is decides what is not said.
 */
static int hold_device(struct pto_comm_params *params, struct device **device_out,
                       struct pto_error *error)
{
    bool has_cards = false;
    int status = PTO_OK;

    if (params->device != NULL)
        status = device_hold(params->device, device_out, error);
    if (status < 0)
        return status;
    if (params->device != NULL)
        has_cards = chip_window_ways((*device_out)->chip) != 0;
    if (params->backend == NULL)
        params->backend = has_cards ? comm_hccl_ops.name : comm_shm_ops.name;
    if (has_cards == find_backend(params->backend)->is_on_device)
        return PTO_OK;
    if (params->device != NULL)
        device_release(*device_out);
    *device_out = NULL;
    return error_tell(error, PTO_EINVAL,
                      "the backend %s is for %s: leave it out, and it is chosen by the device",
                      params->backend,
                      has_cards ? "windows that the host has"
                                : "windows of a card, which is to be "
                                  "the device");
}

/* What is not said comes from the environment; what is wrong is told. */
static int comm_check_params(const struct pto_comm_params *given, struct pto_comm_params *params,
                             struct comm_place *place, struct pto_error *error)
{
    if (sized_read(params, sizeof(*params), given) < 0) {
        params->error = NULL;
        return error_tell(error, PTO_EINVAL,
                          "the parameters are not initialised: call pto_comm_params_init");
    }
    comm_find_place(place);
    if (params->backend != NULL && find_backend(params->backend) == NULL)
        return error_tell(
            error, PTO_ENOSUP,
            "there is no backend '%s' for communication; there are shm, hccl and null",
            params->backend);
    if (params->rank < 0 && params->rank_count == 0) {
        params->rank = place->rank < 0 ? 0 : place->rank;
        params->rank_count = place->rank < 0 ? 1 : place->rank_count;
    }
    if (params->rank < 0 || (uint32_t)params->rank >= params->rank_count)
        return error_tell(error, PTO_EINVAL, "rank %d of %u: ranks are 0 to rank_count - 1",
                          params->rank, params->rank_count);
    if (params->rank_count > COMM_RANKS_MAX)
        return error_tell(error, PTO_EINVAL,
                          "%u ranks are too many for one machine: there can be %d",
                          params->rank_count, COMM_RANKS_MAX);
    if (params->path == NULL)
        params->path = place->path;
    if (params->token == NULL)
        params->token = place->token;
    if (params->path[0] == '\0' && params->rank_count > 1)
        return error_tell(error, PTO_EINVAL,
                          "%u ranks need a path to meet at: a file name that all of them are given",
                          params->rank_count);
    if (params->timeout_ns == 0)
        params->timeout_ns = PTO_COMM_TIMEOUT_DEFAULT_NS;
    return PTO_OK;
}

/* Takes the communicator: on failure it is closed. */
static int publish_comm(struct comm *comm, const struct pto_comm_params *params,
                        struct device *device, struct pto_comm **comm_out)
{
    void *handle = NULL;

    pthread_mutex_init(&comm->lock, NULL);
    comm->timeout_ns = params->timeout_ns;
    comm->device = device;
    comm->own_process = os_own_process();
    if (comm->own_process != NULL)
        handle = handle_create(HANDLE_COMM, comm);
    if (handle == NULL) {
        if (comm->own_process != NULL)
            os_release(comm->own_process, os_page_bytes());
        pthread_mutex_destroy(&comm->lock);
        comm->ops->close(comm);
        return PTO_ENOMEM;
    }
    *comm_out = handle;
    return PTO_OK;
}

int pto_comm_open_team(const struct pto_comm_params *given, uint32_t rank_count,
                       struct pto_comm **comms_out)
{
    struct pto_comm_params params;
    struct comm *comms[COMM_RANKS_MAX];
    int status;

    pto_comm_params_init(&params);
    if (given != NULL && sized_read(&params, sizeof(params), given) < 0)
        return PTO_EINVAL;
    if (comms_out == NULL || rank_count == 0 || rank_count > COMM_RANKS_MAX)
        return error_tell(params.error, PTO_EINVAL,
                          "a team has 1 to %d ranks, not %u, and a place for each", COMM_RANKS_MAX,
                          rank_count);
    if (params.timeout_ns == 0)
        params.timeout_ns = PTO_COMM_TIMEOUT_DEFAULT_NS;
    status = comm_team_open(rank_count, comms, params.error);
    for (uint32_t i = 0; i < rank_count && status >= 0; i++) {
        status = publish_comm(comms[i], &params, NULL, &comms_out[i]);
        if (status < 0) {
            for (uint32_t k = i + 1; k < rank_count; k++)
                comms[k]->ops->close(comms[k]);
            while (i-- > 0)
                (void)pto_comm_close(comms_out[i]);
            return error_tell(params.error, status, "%s", pto_strerror(status));
        }
    }
    return status;
}

static struct comm *comm_of(struct pto_comm *handle, int *status_out)
{
    struct comm *comm = handle_get(HANDLE_COMM, handle);

    *status_out = comm == NULL ? PTO_EINVAL : *comm->own_process == 0 ? PTO_EFORKED : PTO_OK;
    return *status_out < 0 ? NULL : comm;
}

int pto_comm_close(struct pto_comm *handle)
{
    struct comm *comm;
    int status;

    comm = comm_of(handle, &status);
    if (comm == NULL)
        return status;
    (void)handle_destroy(HANDLE_COMM, handle);
    /* The latest first: those whose windows are parts of others' come after them. */
    while (comm->domains != NULL) {
        struct domain *d = comm->domains;

        comm->domains = d->next;
        (void)handle_destroy(HANDLE_DOMAIN, d->handle);
        comm_unregister_memory(d);
        (void)comm->ops->close_domain(d, 0, NULL);
    }
    if (comm->device != NULL)
        device_release(comm->device);
    os_release(comm->own_process, os_page_bytes());
    pthread_mutex_destroy(&comm->lock);
    comm->ops->close(comm);
    return PTO_OK;
}

int pto_comm_abort(struct pto_comm *handle, int status)
{
    int found;
    struct comm *comm = comm_of(handle, &found);

    if (comm == NULL)
        return found;
    if (status >= 0)
        return PTO_EINVAL;
    comm->ops->abort(comm, status);
    return PTO_OK;
}

int pto_comm_info(struct pto_comm *handle, struct pto_comm_info *info)
{
    struct pto_comm_info known;
    int status;
    struct comm *comm = comm_of(handle, &status);

    if (comm == NULL)
        return status;
    if (info == NULL || !sized_is_valid(info))
        return PTO_EINVAL;
    pto_comm_info_init(&known);
    known.backend = comm->ops->name;
    known.rank = comm->rank;
    known.rank_count = comm->rank_count;
    known.has_addresses = comm->ops->has_addresses;
    for (uint32_t i = 0; i < comm->rank_count; i++)
        known.lost_count += i != comm->rank && comm->ops->is_lost(comm, i);
    sized_write(info, &known, sizeof(known));
    return PTO_OK;
}

/* Each rank writes to the next one and reads what the one before wrote. */
static int check_canary(struct pto_comm *handle, uint64_t deadline_ns, struct pto_error *error)
{
    const uint64_t now = os_now_ns(), left = deadline_ns > now ? deadline_ns - now : 1;
    struct pto_domain_params params;
    struct pto_domain *domain;
    struct comm *comm;
    int32_t found = 0;
    uint32_t before;
    int status, closed;

    comm = comm_of(handle, &status);
    before = (comm->rank + comm->rank_count - 1) % comm->rank_count;
    pto_domain_params_init(&params);
    params.id = UINT64_MAX;
    params.window_bytes = sizeof(found);
    params.timeout_ns = left;
    params.error = error;
    status = pto_domain_open(handle, &params, &domain);
    if (status < 0)
        return status;
    status = pto_comm_signal(domain, (comm->rank + 1) % comm->rank_count,
                             (struct pto_signal_at){ 0, PTO_SIGNAL_SET, (int32_t)comm->rank + 1 });
    if (status >= 0)
        status = pto_comm_barrier(domain, left, error);
    if (status >= 0)
        status = pto_comm_get(domain, comm->rank, 0, &found, sizeof(found));
    if (status >= 0 && found != (int32_t)before + 1)
        status = comm_tell(error, PTO_EMEMORY, before,
                           "rank %u wrote %u to this rank's window, and %d is there: the ranks do "
                           "not share memory",
                           before, before + 1, found);
    closed = pto_domain_close(domain, left, status < 0 ? NULL : error);
    return status < 0 ? status : closed;
}

/* ---- domains ---- */

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

/* `all` has room for every rank of the communicator. */
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
        return error_tell(params->error, PTO_EINVAL, "a domain of %u ranks, where there are %u",
                          request->rank_count, comm->rank_count);
    for (uint32_t i = 0; i < request->rank_count; i++) {
        if (request->ranks[i] >= comm->rank_count)
            return comm_tell(params->error, PTO_EINVAL, request->ranks[i],
                             "rank %u is listed, where there are %u", request->ranks[i],
                             comm->rank_count);
        if (domain_is_listed(request->ranks, i, request->ranks[i], &at))
            return comm_tell(params->error, PTO_EINVAL, request->ranks[i],
                             "rank %u is listed twice", request->ranks[i]);
    }
    if (!domain_is_listed(request->ranks, request->rank_count, comm->rank, &request->rank))
        return comm_tell(params->error, PTO_EINVAL, comm->rank,
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
        return error_tell(params->error, PTO_EINVAL,
                          "the parent is no open domain of this communicator");
    if (params->parent_offset > request->parent->window_bytes ||
        params->window_bytes > request->parent->window_bytes - params->parent_offset)
        return error_tell(params->error, PTO_EINVAL,
                          "%llu bytes at %llu do not lie inside the parent's windows of %llu",
                          (unsigned long long)params->window_bytes,
                          (unsigned long long)params->parent_offset,
                          (unsigned long long)request->parent->window_bytes);
    for (uint32_t i = 0; i < request->rank_count; i++)
        if (!domain_is_listed(request->parent->ranks, request->parent->rank_count,
                              request->ranks[i], &at))
            return comm_tell(params->error, PTO_EINVAL, request->ranks[i],
                             "rank %u is not of the parent domain", request->ranks[i]);
    request->parent_offset = params->parent_offset;
    return PTO_OK;
}

/* Joins the communicator's list, or is refused: an id names one domain at a time. */
static bool domain_enlist(struct comm *comm, struct domain *domain)
{
    struct domain *d;

    pthread_mutex_lock(&comm->lock);
    for (d = comm->domains; d != NULL && d->id != domain->id; d = d->next)
        ;
    if (d == NULL) {
        domain->next = comm->domains;
        comm->domains = domain;
        if (domain->parent != NULL)
            domain->parent->part_count++;
    }
    pthread_mutex_unlock(&comm->lock);
    return d == NULL;
}

static bool is_taken(struct comm *comm, uint64_t id)
{
    const struct domain *d;

    pthread_mutex_lock(&comm->lock);
    for (d = comm->domains; d != NULL && d->id != id; d = d->next)
        ;
    pthread_mutex_unlock(&comm->lock);
    return d != NULL;
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
        return error_tell(params.error, comm == NULL ? status : PTO_EINVAL, "%s",
                          comm == NULL ? "there is no such communicator in this process"
                                       : "there is no place for the domain: domain_out is NULL");
    status = domain_check_ranks(comm, &params, all, &request);
    if (status >= 0)
        status = check_parent(comm, &params, &request);
    if (status >= 0 && params.window_bytes > COMM_WINDOW_MAX)
        status = error_tell(params.error, PTO_EINVAL, "a window of %llu bytes is too large",
                            (unsigned long long)params.window_bytes);
    if (status >= 0 && is_taken(comm, params.id))
        status = error_tell(params.error, PTO_EBUSY, "domain %llu is open already; close it first",
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
    if (domain->handle == NULL || !domain_enlist(comm, domain)) {
        status = domain->handle == NULL ? PTO_ENOMEM : PTO_EBUSY;
        (void)handle_destroy(HANDLE_DOMAIN, domain->handle);
        comm_unregister_memory(domain);
        (void)comm->ops->close_domain(domain, 0, NULL);
        return error_tell(params.error, status, "%s", pto_strerror(status));
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
        return error_tell(error, status, "there is no such domain in this process");
    comm = domain->comm;
    pthread_mutex_lock(&comm->lock);
    is_parent = domain->part_count > 0;
    if (!is_parent) {
        for (link = &comm->domains; *link != domain; link = &(*link)->next)
            ;
        *link = domain->next;
        if (domain->parent != NULL)
            domain->parent->part_count--;
    }
    pthread_mutex_unlock(&comm->lock);
    if (is_parent)
        return error_tell(
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

void comm_context_fill(const struct domain *domain, struct pto_comm_context *context)
{
    context->rank = domain->rank;
    context->rank_count = domain->rank_count;
    context->window_bytes = domain->window_bytes;
    for (uint32_t i = 0; i < domain->rank_count; i++)
        context->window_in[i] = context->window_out[i] = (uint64_t)(uintptr_t)domain->window[i];
}

/* ---- data ---- */

/* The domain, if all of the bytes lie in a window of it. */
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

/* The same for a signal, whose word is aligned. */
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
        return error_tell(error, status, "there is no such domain in this process");
    if (reach_word(handle, domain->rank, word.offset, &status) == NULL)
        return error_tell(
            error, status, "a word at %llu is not an aligned one of a window of %llu bytes",
            (unsigned long long)word.offset, (unsigned long long)domain->window_bytes);
    if (word.how > PTO_COMPARE_LE)
        return error_tell(error, PTO_EINVAL, "there is no comparison %d", (int)word.how);
    return domain->comm->ops->wait(domain, &word,
                                   timeout_ns != 0 ? timeout_ns : domain->comm->timeout_ns, error);
}

int pto_comm_fence(struct pto_domain *handle)
{
    int status;

    /* Signals and puts of a thread are in order wherever there are addresses; others complete first. */
    struct domain *domain = comm_domain_of(handle, &status);

    if (domain == NULL)
        return status;
    return domain->comm->ops->quiet(domain);
}

int pto_comm_quiet(struct pto_domain *handle)
{
    int status;
    struct domain *domain = comm_domain_of(handle, &status);

    return domain == NULL ? status : domain->comm->ops->quiet(domain);
}

int pto_comm_barrier(struct pto_domain *handle, uint64_t timeout_ns, struct pto_error *error)
{
    int status;
    struct domain *domain = comm_domain_of(handle, &status);

    if (domain == NULL)
        return error_tell(error, status, "there is no such domain in this process");
    return domain->comm->ops->barrier(
        domain, timeout_ns != 0 ? timeout_ns : domain->comm->timeout_ns, error);
}

/* ---- errors ---- */

void comm_names_add(struct comm_names *names, uint32_t rank)
{
    size_t used = strlen(names->text);

    if (names->count++ == 0)
        names->first = rank;
    if (names->count <= COMM_NAMED_MAX)
        snprintf(names->text + used, sizeof(names->text) - used, "%s%u",
                 names->count == 1 ? "" : ", ", rank);
    else if (names->count == COMM_NAMED_MAX + 1)
        snprintf(names->text + used, sizeof(names->text) - used, " and others");
}

int comm_tell_no_signal(struct pto_error *error, uint64_t timeout_ns, uint64_t offset, int32_t word)
{
    return comm_tell(error, PTO_ETIMEOUT, UINT32_MAX,
                     "no signal came within %llu ms: the word at %llu of the window is %d",
                     (unsigned long long)(timeout_ns / 1000000), (unsigned long long)offset, word);
}

int comm_tell(struct pto_error *error, int status, uint32_t rank, const char *format, ...)
{
    char text[PTO_ERROR_TEXT_MAX];
    int32_t number = rank == UINT32_MAX ? -1 : (int32_t)rank;
    uint32_t level = 3;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    (void)error_tell(error, status, "%s", text);
    sized_write_field(error, offsetof(struct pto_error, rank), &number, sizeof(number));
    sized_write_field(error, offsetof(struct pto_error, level), &level, sizeof(level));
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public functions of communicators: handles, checks, defaults. comm_domain.c and comm_data.c
 * have the rest.
 */
#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/os.h"
#include "base/sized.h"
#include "comm/comm.h"
#include "comm/comm_pmix.h"
#include "host/handle.h"
#include "host/host.h"
#include "link/shared_clock.h"
#include "net/net_address.h"

#define LEASE_NS_MIN 10000000ull

static int comm_check_params(const struct pto_comm_params *given, struct pto_comm_params *params,
                             struct comm_place *place, struct pto_error *error);
static int hold_device(struct pto_comm_params *params, struct device **device_out,
                       struct pto_error *error);
static int publish_comm(struct comm *comm, const struct pto_comm_params *params,
                        struct device *device, struct pto_comm **comm_out);
static int check_canary(struct pto_comm *handle, uint64_t deadline_ns, struct pto_error *error);

static const struct comm_ops *const backends[] = { &comm_shm_ops, &comm_tls_ops, &comm_ucx_ops,
                                                   &comm_hccl_ops, &comm_null_ops };

static const struct comm_ops *find_backend(const char *name)
{
    for (uint32_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++)
        if (strcmp(backends[i]->name, name) == 0)
            return backends[i];
    return NULL;
}

const struct comm_ops *comm_ops_at(uint32_t index)
{
    return index < sizeof(backends) / sizeof(backends[0]) ? backends[index] : NULL;
}

uint64_t comm_deadline(uint64_t timeout_ns, uint64_t default_ns)
{
    uint64_t now = os_now_ns();

    if (timeout_ns == 0)
        timeout_ns = default_ns;
    return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

uint64_t comm_time_left(uint64_t deadline_ns)
{
    uint64_t now = os_now_ns();

    return deadline_ns > now ? deadline_ns - now : 1;
}

/* ---- communicators ---- */

/*
 * Sets the address at which ranks meet that srun or mpirun has started on several hosts: asks the
 * other ranks for it through PMIx. Does nothing if the caller has given rank, count or path.
 */
static int find_far_place(struct pto_comm_params *params, const struct comm_place *place,
                          int *listener_out, struct pto_error *error)
{
    const struct comm_meeting *meeting;
    int status;

    if (params->path != place->path || params->rank != place->rank ||
        params->rank_count != place->rank_count)
        return PTO_OK;
    status = comm_pmix_meet((uint32_t)params->rank, params->rank_count,
                            comm_deadline(params->timeout_ns, 0), &meeting, error);
    if (status < 0)
        return status;
    params->path = meeting->place;
    if (params->token[0] == '\0')
        params->token = meeting->token;
    *listener_out = meeting->listener;
    return PTO_OK;
}

int pto_comm_open(const struct pto_comm_params *given, struct pto_comm **comm_out)
{
    struct pto_comm_params params;
    struct comm_place place;
    struct pto_error why;
    struct comm_request request;
    struct device *device = NULL;
    struct comm *comm = NULL;
    struct pto_comm *handle = NULL;
    int listener = -1, status;

    pto_error_init(&why);
    pto_comm_params_init(&params);
    status = comm_check_params(given, &params, &place, &why);
    if (status >= 0 && comm_out == NULL)
        status = error_setf(&why, PTO_EINVAL, "comm_out is NULL");
    if (status >= 0 && place.is_spread)
        status = find_far_place(&params, &place, &listener, &why);
    if (status >= 0)
        status = hold_device(&params, &device, &why);
    if (status >= 0) {
        request = (struct comm_request){ .rank = (uint32_t)params.rank,
                                         .rank_count = params.rank_count,
                                         .path = params.path,
                                         .token = params.token,
                                         .listener = listener,
                                         .device = device,
                                         .deadline_ns = comm_deadline(params.timeout_ns, 0),
                                         .lease_ns = params.lease_ns,
                                         .grace_ns = params.grace_ns };
        status = find_backend(params.backend)->open(&request, &comm, &why);
    }
    if (status >= 0)
        status = publish_comm(comm, &params, device, &handle);
    if (status < 0 && device != NULL)
        device_unpin(device);
    if (status >= 0 && params.has_canary) {
        status = check_canary(handle, request.deadline_ns, &why);
        if (status < 0)
            (void)pto_comm_close(handle);
    }
    if (status >= 0)
        *comm_out = handle;
    else if (params.error != NULL)
        (void)comm_error_set(params.error, status, (uint32_t)why.rank, "%s",
                             why.text[0] != '\0' ? why.text : pto_strerror(status));
    return status;
}

/*
 * Pins the device and checks that the backend suits it; if no backend is given, selects one. Cards
 * have their own windows, which only one backend can share; other devices use memory of the host.
 */
static int hold_device(struct pto_comm_params *params, struct device **device_out,
                       struct pto_error *error)
{
    bool has_cards = false;
    int status = PTO_OK;

    if (params->device != NULL)
        status = device_pin(params->device, device_out, error);
    if (status < 0)
        return status;
    if (params->device != NULL)
        has_cards = chip_window_ways((*device_out)->chip) != 0;
    if (params->backend == NULL)
        params->backend = net_address_is_text(params->path) ? comm_tls_ops.name
                          : has_cards                       ? comm_hccl_ops.name
                                                            : comm_shm_ops.name;
    if (has_cards == find_backend(params->backend)->is_on_device)
        return PTO_OK;
    if (params->device != NULL)
        device_unpin(*device_out);
    *device_out = NULL;
    return error_setf(error, PTO_EINVAL,
                      "the backend %s is for windows in %s; omit it to select one by the device",
                      params->backend,
                      has_cards ? "host memory, and the device is a card"
                                : "the memory of a card, and the device is not a card");
}

/* Completes the parameters from the environment of the launcher, and checks all of them. */
static int comm_check_params(const struct pto_comm_params *given, struct pto_comm_params *params,
                             struct comm_place *place, struct pto_error *error)
{
    if (sized_read(params, sizeof(*params), given) < 0) {
        params->error = NULL;
        return error_setf(error, PTO_EINVAL,
                          "the parameters are not initialised: call pto_comm_params_init");
    }
    comm_find_place(place);
    if (params->backend == NULL)
        params->backend = comm_find_backend();
    if (params->backend != NULL && find_backend(params->backend) == NULL)
        return error_setf(
            error, PTO_ENOSUP,
            "there is no backend '%s' for communication; there are shm, tls, ucx, hccl and null",
            params->backend);
    if (params->rank < 0 && params->rank_count == 0) {
        params->rank = place->rank < 0 ? 0 : place->rank;
        params->rank_count = place->rank < 0 ? 1 : place->rank_count;
    }
    if (params->rank < 0 || (uint32_t)params->rank >= params->rank_count)
        return error_setf(error, PTO_EINVAL, "rank %d of %u: ranks are 0 to rank_count - 1",
                          params->rank, params->rank_count);
    if (params->rank_count > COMM_RANKS_MAX)
        return error_setf(error, PTO_EINVAL,
                          "%u ranks are too many for one machine: there can be %d",
                          params->rank_count, COMM_RANKS_MAX);
    if (params->path == NULL)
        params->path = place->path;
    if (params->token == NULL)
        params->token = place->token;
    if (params->path[0] == '\0' && params->rank_count > 1)
        return error_setf(error, PTO_EINVAL,
                          "%u ranks need a path to meet at; give all of them the same file name",
                          params->rank_count);
    if (params->timeout_ns == 0)
        params->timeout_ns = PTO_COMM_TIMEOUT_DEFAULT_NS;
    if (params->lease_ns == 0)
        params->lease_ns = PTO_COMM_LEASE_DEFAULT_NS;
    if (params->grace_ns == 0)
        params->grace_ns = PTO_COMM_GRACE_DEFAULT_NS;
    if (params->lease_ns < LEASE_NS_MIN || params->grace_ns < params->lease_ns)
        return error_setf(error, PTO_EINVAL,
                          "lease_ns is %llu and grace_ns is %llu; lease_ns must be at least "
                          "10000000 (10 ms), and grace_ns not smaller than lease_ns",
                          (unsigned long long)params->lease_ns,
                          (unsigned long long)params->grace_ns);
    return PTO_OK;
}

/* Gives the communicator a handle. Takes ownership: on failure the communicator is closed. */
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
        return error_setf(params.error, PTO_EINVAL,
                          "a team has 1 to %d ranks, not %u, and an array for their handles",
                          COMM_RANKS_MAX, rank_count);
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
            return error_setf(params.error, status, "%s", pto_strerror(status));
        }
    }
    return status;
}

struct comm *comm_of(struct pto_comm *handle, int *status_out)
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
    /* Newest first, because a domain's windows may be parts of an older domain's windows. */
    while (comm->domains != NULL) {
        struct domain *d = comm->domains;

        assert(d->part_count == 0);
        if (d->parent != NULL)
            d->parent->part_count--;
        comm->domains = d->next;
        (void)handle_destroy(HANDLE_DOMAIN, d->handle);
        comm_unregister_memory(d);
        (void)comm->ops->close_domain(d, 0, NULL);
    }
    if (comm->device != NULL) {
        /* from here on, runs of the device have a clock of their own again */
        (void)chip_time_join(comm->device->chip, &(struct shared_clock_place){ .clock = NULL });
        device_unpin(comm->device);
    }
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

bool comm_reaches(const struct comm *comm, uint32_t rank)
{
    return comm->ops->has_addresses &&
           (comm->ops->is_elsewhere == NULL || !comm->ops->is_elsewhere(comm, rank));
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
    for (uint32_t i = 0; i < comm->rank_count; i++) {
        known.lost_count += i != comm->rank && comm->ops->is_lost(comm, i);
        known.suspect_count += comm->ops->is_suspect != NULL && comm->ops->is_suspect(comm, i);
        known.has_addresses = known.has_addresses && comm_reaches(comm, i);
    }
    sized_write(info, &known, sizeof(known));
    return PTO_OK;
}

/*
 * Test of a new communicator: each rank writes a word to the next rank, and checks what the
 * previous one wrote.
 */
static int check_canary(struct pto_comm *handle, uint64_t deadline_ns, struct pto_error *error)
{
    const uint64_t left = comm_time_left(deadline_ns);
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
        status = comm_error_set(error, PTO_EMEMORY, before,
                                "rank %u wrote %u to this rank's window, but %d is there: the "
                                "ranks do not share memory",
                                before, before + 1, found);
    closed = pto_domain_close(domain, left, status < 0 ? NULL : error);
    return status < 0 ? status : closed;
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

int comm_report_no_signal(struct pto_error *error, uint64_t timeout_ns, uint64_t offset,
                          int32_t word)
{
    return comm_error_set(error, PTO_ETIMEOUT, UINT32_MAX,
                          "no signal came within %llu ms: the word at %llu of the window is %d",
                          (unsigned long long)(timeout_ns / 1000000), (unsigned long long)offset,
                          word);
}

int comm_error_set(struct pto_error *error, int status, uint32_t rank, const char *format, ...)
{
    char text[PTO_ERROR_TEXT_MAX];
    int32_t number = rank == UINT32_MAX ? -1 : (int32_t)rank;
    uint32_t level = 3;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    (void)error_setf(error, status, "%s", text);
    sized_write_field(error, offsetof(struct pto_error, rank), &number, sizeof(number));
    sized_write_field(error, offsetof(struct pto_error, level), &level, sizeof(level));
    return status;
}

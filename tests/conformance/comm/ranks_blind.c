/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backend whose ranks have no addresses of each other's windows, and the messages for that. It is
 * the backend thread behind a table of functions that hides the addresses; all accesses between
 * ranks go through put, get and signal.
 */
#include <pthread.h>
#include <stdlib.h>

#include "comm/comm.h"
#include "host/handle.h"
#include "pto/collective.h"
#include "tests/conformance/comm/rank_suite.h"

/* ---- the backend ---- */

/* What a domain would have. */
struct hidden {
    struct hidden *next;
    const struct domain *domain;
    char *window[];
};

static struct hidden *all_hidden;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct comm_ops *seeing; /* the functions of the backend that is wrapped */

/* Removes the communicator from the list, or leaves it there. */
static struct hidden *find_hidden(const struct domain *domain, bool is_last)
{
    struct hidden **link, *found;

    pthread_mutex_lock(&lock);
    for (link = &all_hidden; (*link)->domain != domain; link = &(*link)->next)
        ;
    found = *link;
    if (is_last)
        *link = found->next;
    pthread_mutex_unlock(&lock);
    return found;
}

static void show(struct domain *domain)
{
    memcpy(domain->window, find_hidden(domain, false)->window,
           domain->rank_count * sizeof(*domain->window));
}

static void hide(struct domain *domain)
{
    memset(domain->window, 0, domain->rank_count * sizeof(*domain->window));
}

static int blind_open_domain(struct comm *comm, const struct domain_request *request,
                             struct domain **domain_out, struct pto_error *error)
{
    struct hidden *h = malloc(sizeof(*h) + request->rank_count * sizeof(h->window[0]));
    struct domain *domain;
    int status;

    if (request->parent != NULL)
        show(request->parent);
    status = h != NULL ? seeing->open_domain(comm, request, &domain, error) : PTO_ENOMEM;
    if (request->parent != NULL)
        hide(request->parent);
    if (status < 0) {
        free(h);
        return status;
    }
    h->domain = domain;
    memcpy(h->window, domain->window, request->rank_count * sizeof(h->window[0]));
    hide(domain);
    domain->context = 0;
    domain->rounds = NULL;
    pthread_mutex_lock(&lock);
    h->next = all_hidden;
    all_hidden = h;
    pthread_mutex_unlock(&lock);
    *domain_out = domain;
    return PTO_OK;
}

static int blind_close_domain(struct domain *domain, uint64_t deadline_ns, struct pto_error *error)
{
    free(find_hidden(domain, true));
    return seeing->close_domain(domain, deadline_ns, error);
}

static int blind_put(struct domain *domain, uint32_t rank, uint64_t offset, const void *from,
                     uint64_t bytes)
{
    memcpy(find_hidden(domain, false)->window[rank] + offset, from, bytes);
    return PTO_OK;
}

static int blind_get(struct domain *domain, uint32_t rank, uint64_t offset, void *to,
                     uint64_t bytes)
{
    memcpy(to, find_hidden(domain, false)->window[rank] + offset, bytes);
    return PTO_OK;
}

static int blind_signal(struct domain *domain, uint32_t rank, const struct pto_signal_at *signal,
                        int32_t *before_out)
{
    struct domain seen = *domain;

    seen.window = find_hidden(domain, false)->window;
    return seeing->signal(&seen, rank, signal, before_out);
}

void make_blind(struct pto_comm **comms, uint32_t count)
{
    static struct comm_ops ops;

    for (uint32_t i = 0; i < count; i++) {
        struct comm *comm = handle_get(HANDLE_COMM, comms[i]);

        if (i == 0) {
            seeing = comm->ops;
            ops = *seeing;
            ops.name = "blind";
            ops.has_addresses = false;
            ops.open_domain = blind_open_domain;
            ops.close_domain = blind_close_domain;
            ops.put = blind_put;
            ops.get = blind_get;
            ops.signal = blind_signal;
        }
        comm->ops = &ops;
    }
}

/* ---- what is said ---- */

static void addresses_are_the_own_ones_only(struct rank *r)
{
    struct pto_domain *domain = rank_open_domain(r, 1, 4096);
    const uint32_t shapes[] = { 16 };
    struct pto_tensor tensor;
    struct pto_domain_info info;

    pto_domain_info_init(&info);
    check_ok(r, pto_domain_info(domain, &info));
    check(r, info.window != 0);
    check_equal(r, info.context != 0, r->ranks_a_host != 0);
    if (r->ranks_a_host != 0)
        check_equal(r, info.elsewhere, r->rank / r->ranks_a_host != 0 ? 0 : r->ranks_a_host);
    for (uint32_t i = 0; i < r->count; i++) {
        bool is_near = i == r->rank || (r->ranks_a_host != 0 && !rank_is_elsewhere(r, i));
        int expected = is_near ? PTO_OK : PTO_ENOSUP;
        uint64_t addr = 77;

        memset(&tensor, 0, sizeof(tensor));
        check_equal(r, pto_domain_window(domain, i, &addr), expected);
        if (i == r->rank || !is_near)
            check_equal(r, addr, i == r->rank ? info.window : 77);
        check_equal(r, pto_domain_tensor(domain, i, 64, shapes, 1, PTO_FLOAT32, &tensor), expected);
        if (i == r->rank || !is_near)
            check_equal(r, tensor.addr, i == r->rank ? info.window + 64 : 0);
    }
    check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    /* Data that a put has written can be read there. */
    check_ok(r, pto_comm_put_signal(domain, (r->rank + 1) % r->count, 64, &(int32_t){ 7 }, 4,
                                    (struct pto_signal_at){ 0, PTO_SIGNAL_SET, 1 }));
    check_ok(
        r, pto_comm_wait(domain, (struct pto_wait_for){ 0, PTO_COMPARE_EQ, 1 }, 0, rank_error(r)));
    check_equal(r, *(int32_t *)(uintptr_t)(info.window + 64), 7);
    rank_close_domain(r, domain);
}

/* Refused at once on every rank, without waiting for the others. */
static void there_are_no_collectives(struct rank *r)
{
    struct pto_domain *domain = rank_open_domain(r, 1, 64), *alone = NULL;
    struct pto_domain_params params = rank_domain_params(r, 2, 64);
    float from[RANKS_MAX] = { 1 }, to[RANKS_MAX] = { 0 };
    int32_t experts[1] = { 0 };
    uint32_t row_counts[1];
    struct pto_collective how;
    struct pto_routing routing;

    pto_collective_init(&how);
    how.error = rank_error(r);
    pto_routing_init(&routing);
    routing.token_count = routing.top_k = routing.expert_count = routing.width = 1;
    routing.row_capacity = RANKS_MAX;
    routing.experts = experts;
    routing.error = &r->error;
    check_equal(r, pto_comm_all_reduce(domain, from, to, 1, &how), PTO_ENOSUP);
    check_says(r, "the backend blind has no collectives: its ranks share no memory", -1);
    check_equal(r, pto_comm_reduce_scatter(domain, from, to, 1, &how), PTO_ENOSUP);
    check_equal(r, pto_comm_all_gather(domain, from, to, 1, &how), PTO_ENOSUP);
    check_equal(r, pto_comm_broadcast(domain, to, 1, &how), PTO_ENOSUP);
    check_equal(r, pto_comm_all_to_all(domain, from, to, 1, &how), PTO_ENOSUP);
    check_equal(r, pto_comm_dispatch(domain, &routing, from, to, row_counts), PTO_ENOSUP);
    check_equal(r, pto_comm_combine(domain, &routing, from, NULL, to), PTO_ENOSUP);
    check_equal(r, to[0], 0);
    /* A single rank has no peers, so it is not refused. */
    params.ranks = &r->rank;
    params.rank_count = 1;
    check_ok(r, pto_domain_open(r->comm, &params, &alone));
    check_ok(r, pto_comm_all_reduce(alone, from, to, 1, &how));
    check_equal(r, to[0], 1);
    rank_close_domain(r, alone);
    rank_close_domain(r, domain);
}

const struct rank_test ranks_blind[] = {
    { "addresses_are_the_own_ones_only", addresses_are_the_own_ones_only, IS_BLIND, 0 },
    { "there_are_no_collectives", there_are_no_collectives, IS_BLIND | IS_LONELY, 0 },
};
RANK_COUNT(ranks_blind);

/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/scene/scene_ranks.h"

#include <stdlib.h>
#include <string.h>

enum { CLEAR_BYTES = 64 << 10 };
#define WINDOW_MAX (1ull << 40)

/*
 * Evaluates a product in the parameters of a case. False: a parameter is missing, or the value is
 * not from range[0] to range[1].
 */
static bool evaluate(const struct scene_product *product, const struct scene_case *test_case,
                     const struct scene_param *param, int64_t range[2], int64_t *value)
{
    const char *missing;

    return (product->count == 0 ||
            scene_evaluate(product, param, test_case->param_count, value, &missing)) &&
           *value >= range[0] && *value <= range[1];
}

bool scene_domain_members(const struct scene_domain *domain, const struct scene_case *test_case,
                          const struct scene_param *param, struct scene_members *members)
{
    int64_t window = 0, from = 0, to = (int64_t)test_case->ranks - 1, step = 1;

    memset(members, 0, sizeof(*members));
    if (!evaluate(&domain->window, test_case, param, (int64_t[]){ 0, WINDOW_MAX }, &window) ||
        !evaluate(&domain->to, test_case, param, (int64_t[]){ 0, test_case->ranks - 1 }, &to) ||
        !evaluate(&domain->from, test_case, param, (int64_t[]){ 0, to }, &from) ||
        !evaluate(&domain->step, test_case, param, (int64_t[]){ 1, SCENE_RANKS_MAX }, &step))
        return false;
    members->window_bytes = (uint64_t)window;
    for (int64_t rank = from; rank <= to; rank += step)
        members->rank[members->count++] = (uint32_t)rank;
    return true;
}

static int ranks_open_domain(struct scene_ranks *r, const struct scene_members *members,
                             uint64_t id, struct pto_domain **domain_out, struct pto_error *error)
{
    struct pto_domain_params params;

    pto_domain_params_init(&params);
    params.id = id;
    params.ranks = members != NULL ? members->rank : NULL;
    params.rank_count = members != NULL ? members->count : 0;
    params.window_bytes = members != NULL ? members->window_bytes : 0;
    params.error = error;
    return pto_domain_open(r->comm, &params, domain_out);
}

static int open_domains(struct scene_ranks *r, const struct scene_ranks_params *p,
                        struct pto_error *error)
{
    int status = ranks_open_domain(r, NULL, 0, &r->world, error);

    for (uint32_t i = 0; i < p->scene->domain_count && status == PTO_OK; i++) {
        struct scene_members members;
        bool is_member = false;

        if (!scene_domain_members(&p->scene->domain[i], p->test_case, p->param, &members))
            return error_setf(error, PTO_EINVAL, "domain '%s' has no valid ranks",
                              p->scene->domain[i].name);
        for (uint32_t k = 0; k < members.count; k++)
            is_member = is_member || members.rank[k] == p->rank;
        if (!is_member)
            continue;
        status = ranks_open_domain(r, &members, i + 1, &r->domain[i], error);
        pto_domain_info_init(&r->about[i]);
        if (status == PTO_OK)
            /* this call cannot fail, because the domain is open */
            (void)pto_domain_info(r->domain[i], &r->about[i]);
    }
    return status;
}

int scene_ranks_open(struct scene_ranks *r, const struct scene_ranks_params *p,
                     struct pto_error *error)
{
    struct pto_comm_params params;
    int status;

    memset(r, 0, sizeof(*r));
    pto_comm_params_init(&params);
    params.rank = (int32_t)p->rank;
    params.rank_count = p->test_case->ranks;
    params.timeout_ns = (uint64_t)(p->timeout * 1e9);
    params.device = p->device;
    params.error = error;
    status = pto_comm_open(&params, &r->comm);
    if (status < 0) {
        r->comm = NULL;
        return status;
    }
    status = open_domains(r, p, error);
    if (status < 0)
        scene_ranks_close(r);
    return status;
}

void scene_ranks_close(struct scene_ranks *r)
{
    if (r->world != NULL && r->status == 0)
        (void)pto_domain_close(r->world, 0, NULL); /* pto_domain_close waits for the other ranks */
    if (r->comm != NULL)
        (void)pto_comm_close(r->comm);
    memset(r, 0, sizeof(*r));
}

int scene_ranks_clear(struct scene_ranks *r, struct pto_device *device, struct pto_error *error)
{
    static const char zero[CLEAR_BYTES];

    for (uint32_t i = 0; i < SCENE_DOMAINS_MAX; i++)
        for (uint64_t at = 0; r->domain[i] != NULL && at < r->about[i].window_bytes;
             at += CLEAR_BYTES) {
            uint64_t left = r->about[i].window_bytes - at;
            int status = pto_mem_write(device, r->about[i].window + at, zero,
                                       left < CLEAR_BYTES ? left : CLEAR_BYTES);

            if (status < 0)
                return error_setf(error, status, "cannot clear a window: %s", pto_strerror(status));
        }
    return PTO_OK;
}

int scene_ranks_barrier(struct scene_ranks *r, struct pto_error *error)
{
    return r->comm != NULL ? pto_comm_barrier(r->world, 0, error) : PTO_OK;
}

void scene_ranks_abort(struct scene_ranks *r, int status)
{
    if (r->comm != NULL)
        (void)pto_comm_abort(r->comm, status);
    r->status = r->comm != NULL ? status : 0;
}

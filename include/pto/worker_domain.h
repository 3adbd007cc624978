/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Domains over the chips of a worker: each of the chips gets a window, which kernels on the
 * others reach through a context (pto/window.h).
 *
 *     pto_level_domain_open     in an orchestration: until the run ends, unless it is retained
 *     pto_worker_domain_open    outside: until it is released
 *
 * A domain numbers its members from 0 in the order in which the chips are listed. A task gets
 * the address of its chip's context by pto_add_address; tensors in a window are memory of its
 * chip. What peers write there is ordered by signals, not by the graph: members that
 * wait for each other are submitted as a group, or they may wait forever for their turn.
 *
 * Of chips that are cards windows and contexts lie on the card. Their addresses here only stand for
 * them, in arguments of tasks and of copies: there is nothing to read or write.
 *
 * A domain that was released can be used by no further task; its name is free at once, its
 * memory when the tasks that use it are over. A member that dies, and a task with a
 * context or a window that fails or never runs, ends the waits of all others with PTO_EPEER,
 * and the domain with it.
 */
#ifndef PTO_API_WORKER_DOMAIN_H
#define PTO_API_WORKER_DOMAIN_H

#include "pto/window.h"
#include "pto/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* Which chips, and how much. */
struct pto_worker_domain_params {
    size_t size;
    const char *name;      /* of up to 63 bytes; no two that are open have the same one */
    const uint32_t *chips; /* each once; NULL: all */
    uint32_t chip_count;
    uint64_t window_bytes;   /* of each; may be 0. Windows are zero at first */
    bool is_retained;        /* it outlives the run in which it was opened */
    struct pto_error *error; /* says why it cannot be opened; initialised, or NULL */
};

/* Sets the defaults. */
static inline void pto_worker_domain_params_init(struct pto_worker_domain_params *params)
{
    if (params == NULL)
        return;
    memset(params, 0, sizeof(*params));
    params->size = sizeof(*params);
}

/* Opens a domain in an orchestration. A failure is an error of the run, too. */
int pto_level_domain_open(struct pto_level *level, const struct pto_worker_domain_params *params,
                          uint64_t *domain_out);
/* Opens a domain that is nobody's run. PTO_EPEER: a chip is dead. PTO_EAGAIN: there are 256. */
int pto_worker_domain_open(struct pto_worker *worker, const struct pto_worker_domain_params *params,
                           uint64_t *domain_out);

/* Releases a domain: no further task can use it. PTO_EINVAL: it was released before, or is none. */
int pto_level_domain_release(struct pto_level *level, uint64_t domain);
/* The same outside of an orchestration. */
int pto_worker_domain_release(struct pto_worker *worker, uint64_t domain);

/* What a member of a domain has. */
struct pto_worker_member {
    size_t size;
    uint32_t chip;
    uint64_t context; /* for tasks on this chip, by pto_add_address: a struct pto_comm_context */
    uint64_t window;  /* address; 0: it has no bytes */
    uint64_t window_bytes;
};

/* Sets the size. */
static inline void pto_worker_member_init(struct pto_worker_member *member)
{
    if (member == NULL)
        return;
    memset(member, 0, sizeof(*member));
    member->size = sizeof(*member);
}

/* Describes a member by its rank in the domain. PTO_EINVAL: it was released, or there is none. */
int pto_level_domain_member(struct pto_level *level, uint64_t domain, uint32_t rank,
                            struct pto_worker_member *member);
/* The same outside of an orchestration. */
int pto_worker_domain_member(struct pto_worker *worker, uint64_t domain, uint32_t rank,
                             struct pto_worker_member *member);

/* What a domain is. */
struct pto_worker_domain_info {
    size_t size;
    uint32_t rank_count;
    uint64_t window_bytes;
    uint32_t users; /* tasks that use it and are not over, counted once for each argument */
    bool is_lost;   /* a member has died, or a task of it failed: release it */
};

/* Sets the size. */
static inline void pto_worker_domain_info_init(struct pto_worker_domain_info *info)
{
    if (info == NULL)
        return;
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
}

/* Describes a domain. PTO_EINVAL: it was released. */
int pto_worker_domain_info(struct pto_worker *worker, uint64_t domain,
                           struct pto_worker_domain_info *info);
/* Finds a domain by its name. PTO_EINVAL: none that is open has it. */
int pto_worker_domain_find(struct pto_worker *worker, const char *name, uint64_t *domain_out);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

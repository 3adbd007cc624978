/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Domains over the chips of a worker: each chip gets a window, which kernels on the other chips
 * access through a context (pto/window.h).
 *
 *     pto_level_domain_open     in an orchestration: open until the run ends, or until released
 *     pto_worker_domain_open    outside of one: open until released
 *
 * A domain numbers its members from 0 in the order in which the chips are listed. A task gets the
 * address of its chip's context by pto_add_address; tensors in a window are memory of its chip.
 * Writes of peers are ordered by signals, not by the graph: members that wait for each other must
 * be submitted as a group, because otherwise one may wait forever for another that has not started.
 *
 * For cards, windows and contexts are on the card. Their addresses are then placeholders for
 * arguments of tasks and of copies; the host cannot read or write them.
 *
 * No further task can use a released domain; its name can be reused at once, and its memory is
 * freed when the tasks that use it are over. If a member dies, or a task with a context or a window
 * fails or never runs, the domain ends, and all other members' waits end with PTO_EPEER.
 */
#ifndef PTO_API_WORKER_DOMAIN_H
#define PTO_API_WORKER_DOMAIN_H

#include "pto/window.h"
#include "pto/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* The parameters of a domain over chips. */
struct pto_worker_domain_params {
    size_t size;
    const char *name;      /* name of the domain, up to 63 bytes, unique among open domains */
    const uint32_t *chips; /* numbers of the chips in the domain, each once; NULL: all chips */
    uint32_t chip_count;
    /* size of each window in bytes; may be 0. A window is zero at first. */
    uint64_t window_bytes;
    bool is_retained;        /* the domain outlives the run in which it was opened */
    struct pto_error *error; /* filled in on failure; initialised, or NULL */
};

/* Sets the defaults of a domain. */
static inline void pto_worker_domain_params_init(struct pto_worker_domain_params *params)
{
    if (params == NULL)
        return;
    memset(params, 0, sizeof(*params));
    params->size = sizeof(*params);
}

/* Opens a domain in an orchestration. If the call fails, the run fails as well. */
int pto_level_domain_open(struct pto_level *level, const struct pto_worker_domain_params *params,
                          uint64_t *domain_out);
/*
 * Opens a domain that belongs to no run. PTO_EPEER: a chip is dead. PTO_EAGAIN: 256 domains are
 * open.
 */
int pto_worker_domain_open(struct pto_worker *worker, const struct pto_worker_domain_params *params,
                           uint64_t *domain_out);

/*
 * Releases a domain, in an orchestration: no further task can use it. PTO_EINVAL: it was already
 * released, or never opened.
 */
int pto_level_domain_release(struct pto_level *level, uint64_t domain);
/* Releases a domain outside of an orchestration. */
int pto_worker_domain_release(struct pto_worker *worker, uint64_t domain);

/* A chip in a domain. */
struct pto_worker_member {
    size_t size;
    uint32_t chip;
    /*
     * address of the member's struct pto_comm_context, for tasks on this chip, by pto_add_address
     */
    uint64_t context;
    uint64_t window; /* address of the member's window; 0: windows have no bytes */
    uint64_t window_bytes;
};

/* Initialises the struct for a call that fills it in. */
static inline void pto_worker_member_init(struct pto_worker_member *member)
{
    if (member == NULL)
        return;
    memset(member, 0, sizeof(*member));
    member->size = sizeof(*member);
}

/*
 * Describes a member of a domain by its rank, in an orchestration. PTO_EINVAL: the domain was
 * released, or has no such member.
 */
int pto_level_domain_member(struct pto_level *level, uint64_t domain, uint32_t rank,
                            struct pto_worker_member *member);
/* Describes a member of a domain by its rank, outside of an orchestration. */
int pto_worker_domain_member(struct pto_worker *worker, uint64_t domain, uint32_t rank,
                             struct pto_worker_member *member);

/* The properties of a domain. */
struct pto_worker_domain_info {
    size_t size;
    uint32_t rank_count;
    uint64_t window_bytes;
    uint32_t users; /* number of uses by unfinished tasks, one for each argument */
    /* A member has died, or a task that used the domain has failed; release the domain. */
    bool is_lost;
};

/* Initialises the struct for a call that fills it in. */
static inline void pto_worker_domain_info_init(struct pto_worker_domain_info *info)
{
    if (info == NULL)
        return;
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
}

/* Describes a domain. PTO_EINVAL: the domain was released. */
int pto_worker_domain_info(struct pto_worker *worker, uint64_t domain,
                           struct pto_worker_domain_info *info);
/* Finds a domain by its name. PTO_EINVAL: no open domain has this name. */
int pto_worker_domain_find(struct pto_worker *worker, const char *name, uint64_t *domain_out);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

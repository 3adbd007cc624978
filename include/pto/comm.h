/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communication: ranks, which are processes, expose windows of memory to each other.
 *
 *     pto_comm_open      the ranks meet
 *     pto_domain_open    some or all of them make windows; kernels get the addresses
 *     put, get, signal, wait, barrier, collectives
 *     pto_domain_close, pto_comm_close
 *
 * A domain numbers its ranks from 0 in the order in which they are listed; all calls
 * with a domain mean these numbers. Calls that are collective have to be made by
 * every rank of the domain, in the same order.
 *
 * Every call that waits has a time-out in nanoseconds, 0 being that of the
 * communicator, and ends at once with PTO_EPEER when a rank that it waits for has
 * died, closed or given up. PTO_ETIMEOUT: it is there, but did not come in time. The
 * error, which may be NULL, has the first such rank (of the communicator) and a
 * sentence with all of them. After either, the domain and the communicator can be
 * closed, and another one can be opened.
 *
 * A communicator may be used by several threads; a domain's collective calls come from
 * one thread at a time. After fork() both are the parent's: PTO_EFORKED.
 */
#ifndef PTO_API_COMM_H
#define PTO_API_COMM_H

#include "pto/device.h"
#include "pto/error.h"
#include "pto/tensor.h"
#include "pto/window.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct pto_comm;
struct pto_domain;

#define PTO_COMM_TIMEOUT_DEFAULT_NS 120000000000ull

/* How ranks meet. */
struct pto_comm_params {
    size_t size;
    /* "shm", processes of this machine; "hccl", the same with a card each, which is the device;
       "null", one rank. NULL: one of the first two, by the device. */
    const char *backend;
    /*
     * The number of this rank, 0 to rank_count - 1. -1, and a rank_count of 0: as the environment
     * of pto launch, mpirun or srun says; one rank if there is none of these.
     */
    int32_t rank;
    uint32_t rank_count;
    /*
     * A file name that all ranks are given, and no other job: rank 0 leaves there how it is
     * reached, and removes it when all have come. NULL: as the environment says.
     */
    const char *path;
    const char *token;   /* ranks with another one are of another job; NULL: the environment's */
    uint64_t timeout_ns; /* for this call, and by default; 0: 120 s */
    /*
     * Windows, the own ones and those of peers, are memory of this device, too: tensors in them
     * can be arguments of its tasks and are not copied, and pto_mem_read and pto_mem_write reach
     * them. Those of a real card are its own: only its kernels can use the addresses, and hosts
     * copy. It cannot be closed before the communicator. PTO_ENOSUP: it is in a process of its
     * own. NULL: windows are the host's only.
     */
    struct pto_device *device;
    bool has_canary; /* every rank writes to its neighbour and reads that back before it is open */
    struct pto_error *error; /* says why it cannot be opened; initialised, or NULL */
};

/* Sets the defaults. */
static inline void pto_comm_params_init(struct pto_comm_params *params)
{
    if (params == NULL)
        return;
    memset(params, 0, sizeof(*params));
    params->size = sizeof(*params);
    params->rank = -1;
}

/* Opens a communicator: collective. On failure nothing is left behind. */
int pto_comm_open(const struct pto_comm_params *params, struct pto_comm **comm_out);

/*
 * Opens a communicator whose ranks are threads of this process: one for each of
 * rank_count, to be closed one by one. Of the parameters only those of time count.
 */
int pto_comm_open_team(const struct pto_comm_params *params, uint32_t rank_count,
                       struct pto_comm **comms_out);

/*
 * Closes a communicator, and its domains, without waiting for anybody: ranks that wait
 * for this one get PTO_EPEER.
 */
int pto_comm_close(struct pto_comm *comm);

/*
 * Gives up: every call of every rank that waits, or will, ends with PTO_EPEER. `status`,
 * which is negative, is in their errors.
 */
int pto_comm_abort(struct pto_comm *comm, int status);

/* What a communicator is. */
struct pto_comm_info {
    size_t size;
    const char *backend;
    uint32_t rank;
    uint32_t rank_count;
    uint32_t lost_count; /* ranks that have died, closed or given up */
    bool has_addresses;  /* kernels, and hosts unless they are on cards, reach peers' windows */
};

/* Sets the size. */
static inline void pto_comm_info_init(struct pto_comm_info *info)
{
    if (info == NULL)
        return;
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
}

/* Describes a communicator. */
int pto_comm_info(struct pto_comm *comm, struct pto_comm_info *info);

/* ---- domains ---- */

/* What windows, and whose. */
struct pto_domain_params {
    size_t size;
    /*
     * The same on all ranks of the domain. A rank has one domain of an id at a time; an id can be
     * used again when that was closed, but not after an attempt to open it that failed.
     */
    uint64_t id;
    const uint32_t *ranks; /* of the communicator, each once, this one among them; NULL: all */
    uint32_t rank_count;
    uint64_t window_bytes;     /* the same on all ranks; may be 0 */
    struct pto_domain *parent; /* the windows are parts of this domain's, not new; NULL: new ones */
    uint64_t parent_offset;    /* where they begin there */
    uint64_t timeout_ns;       /* 0: the communicator's */
    struct pto_error *error;   /* says why it cannot be opened; initialised, or NULL */
};

/* Sets the defaults. */
static inline void pto_domain_params_init(struct pto_domain_params *params)
{
    if (params == NULL)
        return;
    memset(params, 0, sizeof(*params));
    params->size = sizeof(*params);
}

/*
 * Opens a domain: collective over its ranks. New windows are zero. Sizes, ranks or
 * parents that differ between ranks are an error on all of them: PTO_EINVAL.
 */
int pto_domain_open(struct pto_comm *comm, const struct pto_domain_params *params,
                    struct pto_domain **domain_out);

/*
 * Closes a domain: collective, so that no rank writes to memory that is used for
 * something else. A failure says that somebody did not come; the domain is closed all
 * the same. A domain whose windows are parts of it has to be closed before: PTO_EBUSY.
 */
int pto_domain_close(struct pto_domain *domain, uint64_t timeout_ns, struct pto_error *error);

struct pto_windows; /* of a domain, kept */

/*
 * Keeps the windows of a domain, the own one and those of peers, where they are, for those of this process
 * that still look into them when the domain was closed. From then on they are a copy that nobody
 * else has, the peers' as they are when this rank closes it, until pto_windows_free. PTO_ENOSUP: the backend has no addresses of windows.
 */
int pto_domain_keep(struct pto_domain *domain, struct pto_windows **windows_out);
/* Frees what was kept, once the domain is closed, too. Accepts NULL. */
void pto_windows_free(struct pto_windows *windows);

/* What a domain is, for this rank. */
struct pto_domain_info {
    size_t size;
    uint64_t id;
    uint32_t rank; /* of this domain */
    uint32_t rank_count;
    uint64_t window_bytes;
    uint64_t window;  /* address of the own window */
    uint64_t context; /* address of a struct pto_comm_context for kernels; 0: there is none,
                         because there are more than 64 ranks, or no addresses of peers */
};

/* Sets the size. */
static inline void pto_domain_info_init(struct pto_domain_info *info)
{
    if (info == NULL)
        return;
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
}

/* Describes a domain. */
int pto_domain_info(struct pto_domain *domain, struct pto_domain_info *info);

/*
 * The address of a rank's window. PTO_ENOSUP: it is a peer's, and the backend has no
 * addresses of those. Any number of ranks.
 */
int pto_domain_window(struct pto_domain *domain, uint32_t rank, uint64_t *addr_out);

/*
 * Describes a tensor in a rank's window, as an argument for tasks: `ndims` shapes, at an
 * offset that is a multiple of the element size. PTO_EINVAL: it is not inside the window.
 * PTO_ENOSUP: it is a peer's, and the backend has no addresses of those.
 */
int pto_domain_tensor(struct pto_domain *domain, uint32_t rank, uint64_t offset,
                      const uint32_t *shapes, uint32_t ndims, enum pto_dtype dtype,
                      struct pto_tensor *tensor_out);

/* ---- data ---- */

/* Copies to a rank's window. It is there for others after pto_comm_quiet or a signal. */
int pto_comm_put(struct pto_domain *domain, uint32_t rank, uint64_t offset, const void *from,
                 uint64_t bytes);

/* Copies from a rank's window. */
int pto_comm_get(struct pto_domain *domain, uint32_t rank, uint64_t offset, void *to,
                 uint64_t bytes);

/* A word of a window, 32 bits, aligned, and what to do to it. */
struct pto_signal_at {
    uint64_t offset;
    enum pto_signal how;
    int32_t value;
};

/* Signals a rank. Whoever sees it sees what this thread put there before. */
int pto_comm_signal(struct pto_domain *domain, uint32_t rank, struct pto_signal_at signal);

/* Copies to a rank's window, then signals: whoever sees the signal sees the bytes. */
int pto_comm_put_signal(struct pto_domain *domain, uint32_t rank, uint64_t offset, const void *from,
                        uint64_t bytes, struct pto_signal_at signal);

/* Adds to a 32-bit word of a rank's window; *before_out, which may be NULL, is what it was. */
int pto_comm_fetch_add(struct pto_domain *domain, uint32_t rank, uint64_t offset, int32_t value,
                       int32_t *before_out);

/* What to wait for: a word of the own window. */
struct pto_wait_for {
    uint64_t offset;
    enum pto_compare how;
    int32_t value;
};

/*
 * Waits for a word of the own window. Signals wake it at once; a plain store of a
 * kernel is noticed by looking, at the latest after an eighth of the time waited so far.
 */
int pto_comm_wait(struct pto_domain *domain, struct pto_wait_for word, uint64_t timeout_ns,
                  struct pto_error *error);

/* What this thread put to a rank before is there before what it puts to that rank afterwards. */
int pto_comm_fence(struct pto_domain *domain);

/* What this thread put before is there, on every rank, when it returns. */
int pto_comm_quiet(struct pto_domain *domain);

/*
 * Waits until every rank of the domain has called it as often as this one: collective.
 * A call that failed counts, so that a late rank does not disturb the next one.
 */
int pto_comm_barrier(struct pto_domain *domain, uint64_t timeout_ns, struct pto_error *error);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communication: ranks, which are processes, expose windows of memory to each other.
 *
 *     pto_comm_open      the ranks meet
 *     pto_domain_open    some or all ranks make windows; kernels get the addresses
 *     put, get, signal, wait, barrier, collectives
 *     pto_domain_close, pto_comm_close
 *
 * A domain numbers its ranks from 0 in the order in which they are listed; calls with a domain use
 * these numbers. Every rank of the domain must make the collective calls, in the same order.
 *
 * Every call that waits has a time-out in nanoseconds; 0 selects that of the communicator. A wait
 * ends at once with PTO_EPEER when a rank that it waits for has died, closed or aborted, and with
 * PTO_ETIMEOUT when a live rank is late. The error, which may be NULL, has the number of the first
 * such rank in the communicator, and its text lists all of them. After either error, the domain and
 * the communicator can be closed, and another one can be opened.
 *
 * Several threads may use a communicator; the collective calls of one domain come from one thread
 * at a time. After fork() communicators and domains belong to the parent: in the child, calls
 * return PTO_EFORKED.
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
#define PTO_COMM_LEASE_DEFAULT_NS 2000000000ull
#define PTO_COMM_GRACE_DEFAULT_NS 30000000000ull

/* The parameters of a communicator, which say how its ranks find each other. */
struct pto_comm_params {
    size_t size;
    /*
     * "shm": processes of this machine; "tls": processes of several hosts; "hccl": processes of
     * this machine with a card each, which is `device`; "null": one rank. NULL: "tls" if the path
     * is an address, else "shm" or "hccl", depending on the device.
     */
    const char *backend;
    /*
     * Number of this rank, 0 to rank_count - 1. -1 with a rank_count of 0: number and count come
     * from the environment of pto launch, mpirun or srun; without any of these there is one rank.
     */
    int32_t rank;
    uint32_t rank_count;
    /*
     * A file name shared by all ranks of the job and by no other job. Rank 0 writes its address to
     * the file and removes it when all ranks have joined. For ranks of several hosts, the address
     * at which rank 0 listens: "tcp://HOST:PORT". NULL: from the environment.
     */
    const char *path;
    /* Identifies the job: ranks with another token are refused. NULL: from the environment. */
    const char *token;
    /* time-out in ns of this call, and of calls with a time-out of 0; 0: 120 s */
    uint64_t timeout_ns;
    /*
     * The device with which windows, own and peers', are registered. Tensors in windows can then be
     * arguments of its tasks and are not copied, and pto_mem_read and pto_mem_write can access
     * them. On a real card windows are memory of the card: only kernels can use the addresses;
     * hosts use pto_comm_put and pto_comm_get. The device must outlive the communicator.
     * PTO_ENOSUP: the device is isolated. NULL: windows are host memory only.
     */
    struct pto_device *device;
    /*
     * Tests the communicator when it is opened: every rank writes to its neighbour's window and
     * reads the value back.
     */
    bool has_canary;
    struct pto_error *error; /* filled in on failure; initialised, or NULL */
    /*
     * For ranks on other hosts: times of silence in ns after which a rank is suspected, so that its
     * connection is made again (lease_ns), and after which it is given up (grace_ns). 0: 2 s and 30
     * s.
     */
    uint64_t lease_ns, grace_ns;
};

/* Sets the defaults of a communicator. */
static inline void pto_comm_params_init(struct pto_comm_params *params)
{
    if (params == NULL)
        return;
    memset(params, 0, sizeof(*params));
    params->size = sizeof(*params);
    params->rank = -1;
}

/* Opens a communicator. Collective: every rank calls it. A failed call leaves nothing to close. */
int pto_comm_open(const struct pto_comm_params *params, struct pto_comm **comm_out);

/*
 * Opens a communicator whose ranks are threads of this process: fills in one handle for each of
 * rank_count ranks, each of which is closed separately. Only the time-outs of the parameters are
 * used.
 */
int pto_comm_open_team(const struct pto_comm_params *params, uint32_t rank_count,
                       struct pto_comm **comms_out);

/*
 * Closes a communicator and its domains without waiting. Ranks that wait for this one get
 * PTO_EPEER.
 */
int pto_comm_close(struct pto_comm *comm);

/*
 * Aborts a communicator: every current and future wait of every rank ends with PTO_EPEER. Their
 * errors have `status`, which is negative.
 */
int pto_comm_abort(struct pto_comm *comm, int status);

/* The properties of a communicator. */
struct pto_comm_info {
    size_t size;
    const char *backend;
    uint32_t rank;
    uint32_t rank_count;
    uint32_t lost_count; /* number of ranks that have died, closed or aborted */
    /* Kernels, and except with cards also hosts, can access the windows of peers by address. */
    bool has_addresses;
    uint32_t suspect_count; /* number of ranks that are silent now, but not given up yet */
};

/* Initialises the struct for a call that fills it in. */
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

/* The ranks and the windows of a domain. */
struct pto_domain_params {
    size_t size;
    /*
     * Number of the domain, equal on all of its ranks. A rank can have one open domain with an id
     * at a time. An id can be reused after its domain was closed, but not after an attempt to open
     * it failed.
     */
    uint64_t id;
    /*
     * Numbers in the communicator of the domain's ranks, each once, including this rank's; NULL:
     * all ranks.
     */
    const uint32_t *ranks;
    uint32_t rank_count;
    uint64_t window_bytes; /* size of each window, equal on all ranks; may be 0 */
    /* Domain whose windows contain the windows of this one; NULL: new windows are made. */
    struct pto_domain *parent;
    uint64_t parent_offset;  /* offset in the parent's windows at which the windows begin */
    uint64_t timeout_ns;     /* time-out in ns; 0: that of the communicator */
    struct pto_error *error; /* filled in on failure; initialised, or NULL */
};

/* Sets the defaults of a domain. */
static inline void pto_domain_params_init(struct pto_domain_params *params)
{
    if (params == NULL)
        return;
    memset(params, 0, sizeof(*params));
    params->size = sizeof(*params);
}

/*
 * Opens a domain. Collective: every rank of the domain calls it. New windows are zero. If sizes,
 * ranks or parents differ between ranks, all of them get PTO_EINVAL.
 */
int pto_domain_open(struct pto_comm *comm, const struct pto_domain_params *params,
                    struct pto_domain **domain_out);

/*
 * Closes a domain. Collective, so that no rank writes to memory that has been reused. If a rank
 * does not join in time, the call returns an error, but the domain is closed all the same. Domains
 * whose windows are parts of this one must be closed before: PTO_EBUSY.
 */
int pto_domain_close(struct pto_domain *domain, uint64_t timeout_ns, struct pto_error *error);

struct pto_windows; /* windows that outlive their domain: pto_domain_keep */

/*
 * Keeps the windows of a domain, own and peers', mapped at their addresses after the domain is
 * closed, for code of this process that still reads them. After the close they are private copies,
 * which show peers' windows as they were when this rank closed the domain, until pto_windows_free.
 * PTO_ENOSUP: the backend has no addresses of windows.
 */
int pto_domain_keep(struct pto_domain *domain, struct pto_windows **windows_out);
/* Frees the windows that pto_domain_keep kept, even after the domain was closed. Accepts NULL. */
void pto_windows_free(struct pto_windows *windows);

/* The properties of a domain, for this rank. */
struct pto_domain_info {
    size_t size;
    uint64_t id;
    uint32_t rank; /* number of this rank in the domain */
    uint32_t rank_count;
    uint64_t window_bytes;
    uint64_t window; /* address of this rank's window */
    /*
     * Address of a struct pto_comm_context for kernels; 0: there are more than 64 ranks, or kernels
     * cannot use peers' windows.
     */
    uint64_t context;
    /*
     * Number in the communicator of the first rank that is on another host, so that its window has
     * no address here, and kernels use it by the functions of pto/window.h only; -1: none.
     */
    int32_t elsewhere;
};

/* Initialises the struct for a call that fills it in. */
static inline void pto_domain_info_init(struct pto_domain_info *info)
{
    if (info == NULL)
        return;
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
    info->elsewhere = -1;
}

/* Describes a domain. */
int pto_domain_info(struct pto_domain *domain, struct pto_domain_info *info);

/*
 * Returns the address of a rank's window in *addr_out, for any number of ranks. PTO_ENOSUP: the
 * window is a peer's, and the backend has no addresses of peers' windows.
 */
int pto_domain_window(struct pto_domain *domain, uint32_t rank, uint64_t *addr_out);

/*
 * Describes a tensor in a rank's window, as an argument for tasks: `ndims` shapes, at an offset
 * that is a multiple of the element size. PTO_EINVAL: the tensor is not inside the window.
 * PTO_ENOSUP: the window is a peer's, and the backend has no addresses of peers' windows.
 */
int pto_domain_tensor(struct pto_domain *domain, uint32_t rank, uint64_t offset,
                      const uint32_t *shapes, uint32_t ndims, enum pto_dtype dtype,
                      struct pto_tensor *tensor_out);

/* ---- copies, signals and waits ---- */

/* Copies to a rank's window. Other ranks see the data after pto_comm_quiet or a signal. */
int pto_comm_put(struct pto_domain *domain, uint32_t rank, uint64_t offset, const void *from,
                 uint64_t bytes);

/* Copies from a rank's window. */
int pto_comm_get(struct pto_domain *domain, uint32_t rank, uint64_t offset, void *to,
                 uint64_t bytes);

/* A signal: an aligned 32-bit word of a window, and the operation on it. */
struct pto_signal_at {
    uint64_t offset;
    enum pto_signal how;
    int32_t value;
};

/* Signals a rank. A rank that sees the signal sees the data that this thread put to it before. */
int pto_comm_signal(struct pto_domain *domain, uint32_t rank, struct pto_signal_at signal);

/* Copies to a rank's window, then signals: a rank that sees the signal sees the copied data. */
int pto_comm_put_signal(struct pto_domain *domain, uint32_t rank, uint64_t offset, const void *from,
                        uint64_t bytes, struct pto_signal_at signal);

/*
 * Adds to a 32-bit word of a rank's window; *before_out, which may be NULL, gets the word's old
 * value.
 */
int pto_comm_fetch_add(struct pto_domain *domain, uint32_t rank, uint64_t offset, int32_t value,
                       int32_t *before_out);

/* The condition of a wait: a comparison of a word in this rank's window. */
struct pto_wait_for {
    uint64_t offset;
    enum pto_compare how;
    int32_t value;
};

/*
 * Waits until a condition on a word of this rank's window holds. A signal wakes the wait at once; a
 * plain store by a kernel is found by polling, after at most an eighth of the time waited so far.
 */
int pto_comm_wait(struct pto_domain *domain, struct pto_wait_for word, uint64_t timeout_ns,
                  struct pto_error *error);

/*
 * Orders puts: data that this thread put to a rank before is visible there before data that it puts
 * to that rank afterwards.
 */
int pto_comm_fence(struct pto_domain *domain);

/* Completes puts: data that this thread put to any rank before is visible there on return. */
int pto_comm_quiet(struct pto_domain *domain);

/*
 * Waits until every rank of the domain has called pto_comm_barrier as often as this one. A failed
 * call counts as well, so that a late rank does not break the next barrier.
 */
int pto_comm_barrier(struct pto_domain *domain, uint64_t timeout_ns, struct pto_error *error);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

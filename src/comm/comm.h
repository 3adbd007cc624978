/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of a communication backend: one table. A backend is one symbol, a `const struct
 * comm_ops`; its structs begin with a struct comm and a struct domain, and the rest of them is
 * private. src/comm/comm_null.c is the one to copy, docs/internals/porting.md explains it, and
 * tests/conformance/ runs one suite over all backends.
 *
 * comm.c, comm_domain.c and comm_data.c check the caller's arguments (ranks, ranges, alignment;
 * time-outs become deadlines of os_now_ns), so that no backend has to. A status is PTO_OK or
 * negative; `error` may be NULL. Errors of a system or a vendor are translated where they occur.
 */
#ifndef PTO_COMM_ROOM_H
#define PTO_COMM_ROOM_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "pto/comm.h"

enum {
    COMM_RANKS_MAX = 1024, /* maximum number of ranks on one machine */
    COMM_NAMED_MAX = 8,    /* maximum number of ranks that an error lists */
};
#define COMM_WINDOW_MAX (1ull << 46)

struct comm;
struct device;
struct domain;

/* Parameters of `open`: those of the caller, completed from the environment and checked. */
struct comm_request {
    uint32_t rank;
    uint32_t rank_count;
    const char *path;
    const char *token;     /* token that all ranks of a job have; "": none was given */
    int listener;          /* for rank 0: a socket that already listens at `path`; -1: none */
    struct device *device; /* device with which windows are registered; NULL: none */
    uint64_t deadline_ns;
    /* times of silence after which a rank on another host is suspected, and given up */
    uint64_t lease_ns, grace_ns;
};

struct domain_request {
    uint64_t id;
    const uint32_t *ranks; /* members of the domain, by their numbers in the communicator */
    uint32_t rank_count;
    uint32_t rank; /* index of this rank in `ranks` */
    uint64_t window_bytes;
    struct domain *parent; /* the windows are parts of this domain's windows; NULL: they are new */
    uint64_t parent_offset;
    uint64_t deadline_ns;
};

struct comm_ops {
    const char *name;
    /* domains of the backend fill in `window`, so hosts can access windows by address */
    bool has_addresses;
    /*
     * Optional. Whether a rank is on another host, so that its windows have no addresses here;
     * NULL: no rank is.
     */
    bool (*is_elsewhere)(const struct comm *comm, uint32_t rank);
    /* windows are memory of the device, which is required; hosts access them by `put` and `get` */
    bool is_on_device;

    /* Collective. On failure no resource remains. */
    int (*open)(const struct comm_request *request, struct comm **comm_out,
                struct pto_error *error);
    /* Does not wait. All domains were closed or dropped before. */
    void (*close)(struct comm *comm);
    /* Ends all waits on every rank with this status. */
    void (*abort)(struct comm *comm, int status);
    /* Whether a rank is known to have died, closed or given up. */
    bool (*is_lost)(struct comm *comm, uint32_t rank);
    /*
     * Optional. Whether a rank is silent, but not given up yet; NULL: a silent rank is not noticed.
     */
    bool (*is_suspect)(struct comm *comm, uint32_t rank);

    /* Collective. Creates the domain and fills in its struct domain. */
    int (*open_domain)(struct comm *comm, const struct domain_request *request,
                       struct domain **domain_out, struct pto_error *error);
    /*
     * Collective. Waits for the others until the deadline; 0: does not wait. Frees the domain in
     * any case.
     */
    int (*close_domain)(struct domain *domain, uint64_t deadline_ns, struct pto_error *error);
    /*
     * Optional. Called when the windows of the domain are to stay readable after its close. The
     * backend either sets `end`, which releases them, or its close_domain leaves them mapped and
     * passes each to comm_keep_piece.
     */
    void (*keep)(struct domain *domain, struct pto_windows *windows);

    /* Optional; NULL if the host can access windows by address, and comm_data.c copies. */
    int (*put)(struct domain *domain, uint32_t rank, uint64_t offset, const void *from,
               uint64_t bytes);
    int (*get)(struct domain *domain, uint32_t rank, uint64_t offset, void *to, uint64_t bytes);
    /*
     * Waits until earlier puts of this thread are complete. Optional; NULL if each put is complete
     * when it returns.
     */
    int (*quiet)(struct domain *domain);

    /*
     * Signals a word, ordered after this thread's earlier puts to the rank. *before_out, unless
     * NULL, is the previous value of the word.
     */
    int (*signal)(struct domain *domain, uint32_t rank, const struct pto_signal_at *signal,
                  int32_t *before_out);
    /*
     * Waits for a word of the own window. The time-out counts from the call; a backend reads the
     * clock only if it has to wait.
     */
    int (*wait)(struct domain *domain, const struct pto_wait_for *word, uint64_t timeout_ns,
                struct pto_error *error);
    int (*barrier)(struct domain *domain, uint64_t timeout_ns, struct pto_error *error);
};

/* First member of every backend's communicator. */
struct comm {
    const struct comm_ops *ops;
    uint32_t rank;
    uint32_t rank_count;
    uint64_t timeout_ns;    /* default time-out of calls */
    uint32_t *own_process;  /* mapped word that reads as 0 in a forked child, and else is not 0 */
    struct device *device;  /* device with which windows are registered; NULL: none */
    pthread_mutex_t lock;   /* protects the list of domains */
    struct domain *domains; /* list of open domains */
};

struct domain {
    struct comm *comm;
    struct domain *next; /* next domain of the communicator; under the communicator's lock */
    struct pto_domain *handle;
    uint64_t id;
    uint32_t rank; /* number of this rank in the domain */
    uint32_t rank_count;
    uint64_t window_bytes;
    /* number of domains whose windows are parts of this one's; under the lock */
    uint32_t part_count;
    struct domain *parent;  /* domain whose windows contain the windows of this one; NULL: none */
    uint64_t parent_offset; /* offset of the windows in the parent's windows */
    uint32_t *ranks;        /* members of the domain, by their numbers in the communicator */
    /*
     * addresses of windows by rank, including this rank's; valid if has_addresses. NULL for ranks
     * that are elsewhere.
     */
    char **window;
    char *own; /* the window of this rank */
    /* domain in shared memory that collectives use for their rounds; NULL: none */
    struct domain *rounds;
    /*
     * Address of a struct pto_comm_context for kernels; 0: none. Windows of ranks that are elsewhere
     * have addresses there that cannot be accessed.
     */
    uint64_t context;
    struct pto_windows *kept; /* set if the windows are kept after the close; under the lock */
};

/* Windows that stay readable after their domain was closed: comm_keep.c. */
struct pto_windows {
    pthread_mutex_t lock;
    uint32_t users; /* number of users, including the domain */
    void (*end)(void *context);
    void *context;
    uint32_t piece_count;
    struct comm_piece {
        char *at;
        uint64_t bytes; /* size of the mapping; 0: memory from malloc */
    } piece[];          /* memory of each rank's window, by rank of the domain */
};

/* comm.c: whether the windows of a rank have addresses here. */
bool comm_reaches(const struct comm *comm, uint32_t rank);

/* comm_keep.c: whether the windows have a user other than the domain. */
bool comm_is_kept(const struct domain *domain);
/* Adds memory to free when the windows have no user any more. */
void comm_keep_piece(struct pto_windows *windows, char *at, uint64_t bytes);

extern const struct comm_ops comm_hccl_ops;
extern const struct comm_ops comm_null_ops;
extern const struct comm_ops comm_shm_ops;
extern const struct comm_ops comm_tls_ops;

/* comm_thread.c: opens one communicator for each rank; on failure none. */
int comm_team_open(uint32_t rank_count, struct comm **comms_out, struct pto_error *error);

/* Rank and job of this process, as its launcher's variables state them (comm_env.c). */
struct comm_place {
    int32_t rank; /* -1: unknown */
    uint32_t rank_count;
    char path[PATH_MAX];
    char token[256];
    /* the launcher has started ranks on other hosts too, which PMIx tells where to meet */
    bool is_spread;
};
void comm_find_place(struct comm_place *place);

/* comm.c, comm_domain.c: return the object of a handle. NULL: this process has no such object. */
struct comm *comm_of(struct pto_comm *handle, int *status_out);
struct domain *comm_domain_of(struct pto_domain *handle, int *status_out);

/* comm_domain.c: allocates a domain, for a backend's open_domain. NULL: out of memory. */
struct domain *comm_domain_make(size_t bytes, struct comm *comm,
                                const struct domain_request *request);
void comm_domain_free(struct domain *domain); /* accepts NULL */
/*
 * Fills in `window` of a domain whose windows are parts of its parent's. The parent numbers the
 * ranks in another way.
 */
void comm_place_in_parent(struct domain *domain, uint64_t offset);
/* Fills in the context for kernels from `window`. The context must be zeroed. */
void comm_context_fill(const struct domain *domain, struct pto_comm_context *context);

/*
 * comm_domain.c: returns the address of a rank's window. NULL: this backend has no addresses for
 * peers' windows.
 */
char *comm_window(const struct domain *domain, uint32_t rank);

/* comm_device.c: registers windows with the device, and unregisters them. */
int comm_register_memory(struct domain *domain, struct pto_error *error);
void comm_unregister_memory(struct domain *domain);

/*
 * Converts a time-out to a deadline, saturating, so that 2^64 - 1 never ends. A time-out of 0
 * stands for the default.
 */
uint64_t comm_deadline(uint64_t timeout_ns, uint64_t default_ns);

/* Returns the time until a deadline; at least 1, because a time-out of 0 stands for the default. */
uint64_t comm_time_left(uint64_t deadline_ns);

/* A list of ranks for an error: "1, 2, 4". */
struct comm_names {
    uint32_t count;
    uint32_t first;
    char text[160];
};
void comm_names_add(struct comm_names *names, uint32_t rank);

/*
 * Sets the error of a wait that timed out, with the current value of the word. Returns
 * PTO_ETIMEOUT.
 */
int comm_report_no_signal(struct pto_error *error, uint64_t timeout_ns, uint64_t offset,
                          int32_t word);

/* Sets the error, with `rank` as the rank that caused it, and returns the status. */
int comm_error_set(struct pto_error *error, int status, uint32_t rank, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif

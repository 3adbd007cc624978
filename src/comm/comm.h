/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of a communication backend: one table. A backend is one symbol, a
 * `const struct comm_ops`, whose structs begin with a struct comm and a struct domain;
 * everything else of it is its own. src/comm/comm_null.c is the one to copy,
 * docs/internals/porting.md walks through it, tests/conformance/ runs the same suite over all.
 *
 * comm.c, comm_domain.c and comm_data.c check what callers give (ranks, ranges, alignment,
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
    COMM_RANKS_MAX = 1024, /* of one machine */
    COMM_NAMED_MAX = 8,    /* ranks that an error names */
};
#define COMM_WINDOW_MAX (1ull << 46)

struct comm;
struct device;
struct domain;

/* What open gets: as the caller's, with the environment looked at and all of it checked. */
struct comm_request {
    uint32_t rank;
    uint32_t rank_count;
    const char *path;
    const char *token;     /* "": none */
    struct device *device; /* whose memory windows become; NULL: none */
    uint64_t deadline_ns;
};

struct domain_request {
    uint64_t id;
    const uint32_t *ranks; /* of the communicator */
    uint32_t rank_count;
    uint32_t rank; /* the own place among them */
    uint64_t window_bytes;
    struct domain *parent; /* NULL: new windows */
    uint64_t parent_offset;
    uint64_t deadline_ns;
};

struct comm_ops {
    const char *name;
    bool has_addresses; /* `window` of its domains is filled in */
    bool is_on_device;  /* windows are memory of the device, which there has to be; see put */

    /* Collective. On failure nothing is left. */
    int (*open)(const struct comm_request *request, struct comm **comm_out,
                struct pto_error *error);
    /* Does not wait. Every domain was closed or dropped. */
    void (*close)(struct comm *comm);
    /* Wakes everybody who waits, on every rank. */
    void (*abort)(struct comm *comm, int status);
    /* Whether a rank has died, closed or given up, as far as is known. */
    bool (*is_lost)(struct comm *comm, uint32_t rank);

    /* Collective. Fills what of struct domain is the backend's. */
    int (*open_domain)(struct comm *comm, const struct domain_request *request,
                       struct domain **domain_out, struct pto_error *error);
    /* Collective, until the deadline; 0: does not wait. Frees the domain in any case. */
    int (*close_domain)(struct domain *domain, uint64_t deadline_ns, struct pto_error *error);
    /*
     * Optional: the windows of a domain are kept from here on. Either it says what is to be done when they
     * are let go (`end`), or close_domain leaves them where they are and adds each with comm_keep_piece.
     */
    void (*keep)(struct domain *domain, struct pto_windows *windows);

    /* Optional: NULL where the host can use the addresses, then the wrapper copies. */
    int (*put)(struct domain *domain, uint32_t rank, uint64_t offset, const void *from,
               uint64_t bytes);
    int (*get)(struct domain *domain, uint32_t rank, uint64_t offset, void *to, uint64_t bytes);
    /* What this thread put before is complete. Optional: NULL if it is when `put` returns. */
    int (*quiet)(struct domain *domain);

    /* After what this thread put to the rank before. *before_out, unless NULL: the word as it was. */
    int (*signal)(struct domain *domain, uint32_t rank, const struct pto_signal_at *signal,
                  int32_t *before_out);
    /* The time begins with the call; a backend need not look at the clock unless it has to wait. */
    int (*wait)(struct domain *domain, const struct pto_wait_for *word, uint64_t timeout_ns,
                struct pto_error *error);
    int (*barrier)(struct domain *domain, uint64_t timeout_ns, struct pto_error *error);
};

/* First member of every backend's own struct. */
struct comm {
    const struct comm_ops *ops;
    uint32_t rank;
    uint32_t rank_count;
    uint64_t timeout_ns;    /* by default */
    uint32_t *own_process;  /* 0 in a child after a fork */
    struct device *device;  /* NULL: windows are the host's only */
    pthread_mutex_t lock;   /* of the list */
    struct domain *domains; /* that are open */
};

struct domain {
    struct comm *comm;
    struct domain *next; /* of the communicator; under its lock */
    struct pto_domain *handle;
    uint64_t id;
    uint32_t rank; /* the own one, of this domain */
    uint32_t rank_count;
    uint64_t window_bytes;
    uint32_t part_count;      /* domains whose windows are parts of these; under the lock */
    struct domain *parent;    /* NULL: the windows are its own */
    uint32_t *ranks;          /* numbers of the communicator */
    char **window;            /* by rank, the own one included; has_addresses */
    char *own;                /* the own window */
    struct domain *rounds;    /* the one of comm_shared.h that collectives use; NULL: none */
    uint64_t context;         /* where kernels find a struct pto_comm_context; 0: none */
    struct pto_windows *kept; /* NULL: none are; under the lock */
};

/* Windows that stay readable after their domain has gone: comm_keep.c. */
struct pto_windows {
    pthread_mutex_t lock;
    uint32_t users; /* the domain is one */
    void (*end)(void *context);
    void *context;
    uint32_t piece_count;
    struct comm_piece {
        char *at;
        uint64_t bytes; /* that are mapped; 0: from malloc */
    } piece[];          /* as many as the domain has ranks */
};

/* comm_keep.c: whether a user other than the domain has them. */
bool comm_is_kept(const struct domain *domain);
/* Memory that is freed with the windows. */
void comm_keep_piece(struct pto_windows *windows, char *at, uint64_t bytes);

extern const struct comm_ops comm_hccl_ops;
extern const struct comm_ops comm_null_ops;
extern const struct comm_ops comm_shm_ops;

/* comm_thread.c: all ranks at once; on failure none. */
int comm_team_open(uint32_t rank_count, struct comm **comms_out, struct pto_error *error);

/* comm_env.c: what the launcher says. */
struct comm_place {
    int32_t rank; /* -1: nothing says */
    uint32_t rank_count;
    char path[PATH_MAX];
    char token[256];
};
void comm_find_place(struct comm_place *place);

/* comm.c, comm_domain.c: what a handle stands for. NULL: there is none in this process. */
struct comm *comm_of(struct pto_comm *handle, int *status_out);
struct domain *comm_domain_of(struct pto_domain *handle, int *status_out);

/* comm_domain.c: for a backend's open_domain and close_domain. NULL: no memory. */
struct domain *comm_domain_make(size_t bytes, struct comm *comm,
                                const struct domain_request *request);
void comm_domain_free(struct domain *domain); /* accepts NULL */
/* Fills `window` of a domain whose windows are parts of its parent's, whose ranks have other numbers. */
void comm_place_in_parent(struct domain *domain, uint64_t offset);
/* Fills the context, which is zero, from `window`. */
void comm_context_fill(const struct domain *domain, struct pto_comm_context *context);

/* comm_domain.c: where the window of a rank is. NULL: it is a peer's, and there are no addresses of those. */
char *comm_window(const struct domain *domain, uint32_t rank);

/* comm_device.c: windows become memory of the device, and are the host's only again. */
int comm_register_memory(struct domain *domain, struct pto_error *error);
void comm_unregister_memory(struct domain *domain);

/* Saturates: a time-out of 2^64 - 1 is none. 0: the other one. */
uint64_t comm_deadline(uint64_t timeout_ns, uint64_t default_ns);

/* The time until a deadline; at least 1, since 0 stands for a default. */
uint64_t comm_time_left(uint64_t deadline_ns);

/* A list of ranks for an error: "1, 2, 4". */
struct comm_names {
    uint32_t count;
    uint32_t first;
    char text[160];
};
void comm_names_add(struct comm_names *names, uint32_t rank);

/* PTO_ETIMEOUT: the word of the window that was waited for, as it is. */
int comm_tell_no_signal(struct pto_error *error, uint64_t timeout_ns, uint64_t offset,
                        int32_t word);

/* Fills the error with the first rank, and returns the status. */
int comm_tell(struct pto_error *error, int status, uint32_t rank, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the parts of the conformance suite for communication backends (the contract is in
 * comm/comm.h).
 *
 * A test is a function that every rank runs, in processes that are forked for the test: one for
 * each rank, or one with a thread for each rank, depending on the backend. In addition to the
 * library the ranks share a little memory, with which they synchronise.
 *
 * Tests of features that a backend does not have are skipped, with the name of the feature.
 */
#ifndef PTO_RANK_SUITE_H
#define PTO_RANK_SUITE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "pto/comm.h"
#include "tests/fixture/counts_test.h"

enum { RANKS_MAX = 128, RANKS_WORDS = 64 };
#define MS 1000000ull
#define LATE_NS (60000 * MS) /* time limit for events that must happen */

/* Memory that the ranks of a test share, whatever the backend is. */
struct ranks_shared {
    uint32_t failed; /* some rank has */
    uint32_t arrived[RANKS_MAX];
    int64_t word[RANKS_WORDS]; /* zero at first */
    char why[RANKS_MAX][512];
};

struct rank {
    const char *backend;
    bool has_addresses;
    /* number of ranks per host; 0: all ranks are on one host, and can access each other's memory */
    uint32_t ranks_a_host;
    uint32_t rank;
    uint32_t count;
    struct pto_device *device; /* NULL: the backend needs none */
    /* the communicator is open unless the test says otherwise, and is closed after the test */
    struct pto_comm *comm;
    struct pto_error error;
    struct ranks_shared *shared;
    char path[256]; /* where they meet */
    uint32_t meetings;
    jmp_buf *end;
};

enum rank_needs {
    NEEDS_PEERS = 1,      /* more than one rank */
    NEEDS_PROCESSES = 2,  /* each rank is one */
    OPENS_ITSELF = 4,     /* the test begins without a communicator */
    IS_LARGE = 8,         /* 70 ranks: a crowd of threads is enough */
    NEEDS_ADDRESSES = 16, /* of peers, which the host can load from and store to */
    IS_BLIND = 32,        /* what is said without them */
    IS_LONELY = 64,       /* what is said where the backend has no collectives */
    NEEDS_CONTEXT = 128,  /* for kernels of this host, whether or not windows have addresses */
};

struct rank_test {
    const char *name;
    void (*run)(struct rank *r);
    uint32_t needs; /* enum rank_needs */
    uint32_t ranks; /* 0: 3 */
};

#define RANK_PART(name)                   \
    extern const struct rank_test name[]; \
    extern const size_t name##_count
#define RANK_COUNT(name) const size_t name##_count = sizeof(name) / sizeof(name[0])
RANK_PART(ranks_open);
RANK_PART(ranks_domains);
RANK_PART(ranks_windows);
RANK_PART(ranks_data);
RANK_PART(ranks_waits);
RANK_PART(ranks_blind);

/* ranks_blind.c: from this call on, hides the addresses of peers' windows. */
void make_blind(struct pto_comm **comms, uint32_t count);

/* ---- for tests ---- */

/* Ends the test on this rank, and soon after on the other ranks. */
#define check(r, condition) \
    ((condition) ? (void)0 : rank_fail((r), "%s:%d: not so: %s", __FILE__, __LINE__, #condition))
#define check_equal(r, got, expected) \
    rank_check_equal((r), (int64_t)(got), (int64_t)(expected), #got, __FILE__, __LINE__)
#define check_ok(r, call) check_equal((r), (call), PTO_OK)
/* The last error's sentence, and the rank in it; -1: none. */
#define check_says(r, needle, about) rank_check_says((r), (needle), (about), __FILE__, __LINE__)

void rank_fail(struct rank *r, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
void rank_check_equal(struct rank *r, int64_t got, int64_t expected, const char *what,
                      const char *file, int line);
void rank_check_says(struct rank *r, const char *needle, int32_t about, const char *file, int line);

/* Whether another rank is on another host. */
static inline bool rank_is_elsewhere(const struct rank *r, uint32_t rank)
{
    return r->ranks_a_host != 0 && rank / r->ranks_a_host != r->rank / r->ranks_a_host;
}

/* Waits for all ranks, without the library. */
void rank_meet(struct rank *r);
/* Waits until a shared word has the value. */
void rank_await_word(struct rank *r, uint32_t index, int64_t value);
void rank_set_word(struct rank *r, uint32_t index, int64_t value);
int64_t rank_word(struct rank *r, uint32_t index);

/* Returns the parameters that the harness uses, with a newly initialised error of the rank. */
struct pto_comm_params rank_comm_params(struct rank *r);
struct pto_domain_params rank_domain_params(struct rank *r, uint64_t id, uint64_t window_bytes);
/* Opens a domain of all ranks. */
struct pto_domain *rank_open_domain(struct rank *r, uint64_t id, uint64_t window_bytes);
void rank_close_domain(struct rank *r, struct pto_domain *domain);
/* The error of the rank, initialised. */
struct pto_error *rank_error(struct rank *r);

/* ---- what a process has ---- */

/* Counts lines of /proc/self/maps that contain the text; "": all lines. */
uint32_t count_mappings(const char *text);
/* Returns the CPU time of one thread, or of all. */
uint64_t cpu_ns(bool is_thread);

bool is_sanitized(void);
/*
 * Returns how often to repeat something that is usually repeated `usual` times; fewer times on
 * backends with slow accesses.
 */
uint32_t times(uint32_t usual);

#endif

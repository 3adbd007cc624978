/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives: what the ranks of a domain compute or exchange together. Every call is
 * collective, as pto/comm.h says, with the same kind, count, type, operation, root and
 * algorithm on all ranks: if they differ, it is an error on all of them which names two
 * that do, and the domain works on. So it is if one rank is refused, for a buffer that is
 * NULL, for instance.
 *
 * Buffers are memory of the caller, in a window or not, aligned to their elements. A count
 * may be 0. Results are the same, bit by bit, on all ranks and from run to run: elements
 * are reduced in the order of ranks, those of 16 bits as float and rounded once, so that
 * only PTO_ALGORITHM_RING gives other bits. A NaN, where there is one, is always the same
 * quiet one.
 *
 * If a rank dies, or does not come in time, the others get PTO_EPEER or PTO_ETIMEOUT, their
 * buffers hold anything, and the domain refuses further collectives with PTO_EPEER: some of
 * its ranks may have got a result, and others not. Barriers and signals work on.
 *
 * PTO_ENOSUP: the backend has no memory that ranks share.
 */
#ifndef PTO_API_COLLECTIVE_H
#define PTO_API_COLLECTIVE_H

#include "pto/comm.h"
#include "pto/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* How elements are reduced. Sums of int32 wrap; a NaN wins, as the largest and as the smallest. */
enum pto_reduce { PTO_REDUCE_SUM, PTO_REDUCE_MAX, PTO_REDUCE_MIN };

/* Who reduces what; for those calls that reduce. */
enum pto_algorithm {
    PTO_ALGORITHM_AUTO,      /* by size and number of ranks */
    PTO_ALGORITHM_ONE_SHOT,  /* every rank reads everything and reduces it: the least waiting */
    PTO_ALGORITHM_TWO_PHASE, /* every rank reduces a part, then all read the parts: the least work */
    /*
     * Parts go from rank to rank, each of which adds its own: the order of ranks begins with another
     * one for each part, and 16-bit types are rounded at every rank.
     */
    PTO_ALGORITHM_RING,
};

/* How a collective is done. NULL in its place: sums of float32, and the defaults. */
struct pto_collective {
    size_t size;
    enum pto_dtype dtype; /* float32, float16, bfloat16, int32; any, where nothing is reduced */
    enum pto_reduce reduce;
    enum pto_algorithm algorithm;
    uint32_t root;           /* of a broadcast; 0 in other calls */
    uint64_t timeout_ns;     /* 0: the communicator's */
    struct pto_error *error; /* initialised, or NULL */
};

/* Sets the defaults. */
static inline void pto_collective_init(struct pto_collective *how)
{
    if (how == NULL)
        return;
    memset(how, 0, sizeof(*how));
    how->size = sizeof(*how);
    how->dtype = PTO_FLOAT32;
}

/* Reduces `count` elements of every rank to `count`, which all ranks get. `to` may be `from`. */
int pto_comm_all_reduce(struct pto_domain *domain, const void *from, void *to, uint64_t count,
                        const struct pto_collective *how);

/*
 * Reduces as many times `count` elements as there are ranks; each rank gets the `count` of
 * its number. `to` may be `from`, or the place of this rank there.
 */
int pto_comm_reduce_scatter(struct pto_domain *domain, const void *from, void *to, uint64_t count,
                            const struct pto_collective *how);

/*
 * Gives all ranks the `count` elements of each, in the order of ranks. `from` may be the
 * place of this rank in `to`.
 */
int pto_comm_all_gather(struct pto_domain *domain, const void *from, void *to, uint64_t count,
                        const struct pto_collective *how);

/* Gives all ranks the `count` elements of the root. */
int pto_comm_broadcast(struct pto_domain *domain, void *buffer, uint64_t count,
                       const struct pto_collective *how);

/*
 * Gives each rank `count` elements of every other: those at its number in `from` come to
 * the number of the sender in `to`. `to` may be `from`.
 */
int pto_comm_all_to_all(struct pto_domain *domain, const void *from, void *to, uint64_t count,
                        const struct pto_collective *how);

/* ---- experts ---- */

/* Which of `expert_count` experts, in order, is the first of a rank; the next rank's is the end. */
static inline uint32_t pto_expert_first(uint32_t expert_count, uint32_t rank_count, uint32_t rank)
{
    return (uint32_t)((uint64_t)rank * expert_count / rank_count);
}

/* Which rank has an expert. */
static inline uint32_t pto_expert_rank(uint32_t expert_count, uint32_t rank_count, uint32_t expert)
{
    return (uint32_t)((((uint64_t)expert + 1) * rank_count - 1) / expert_count);
}

/* Where the tokens of this rank go. What has to be the same on all ranks is marked. */
struct pto_routing {
    size_t size;
    uint32_t token_count;   /* of this rank */
    uint32_t top_k;         /* experts of a token; the same */
    uint32_t expert_count;  /* of all ranks together; the same */
    uint32_t width;         /* elements of a token; the same */
    enum pto_dtype dtype;   /* of tokens and rows; the same */
    uint32_t row_capacity;  /* rows for which this rank has room */
    const int32_t *experts; /* top_k for each token; a negative number is none */
    uint64_t timeout_ns;    /* 0: the communicator's */
    struct pto_error *error;
};

/* Sets the defaults. */
static inline void pto_routing_init(struct pto_routing *routing)
{
    if (routing == NULL)
        return;
    memset(routing, 0, sizeof(*routing));
    routing->size = sizeof(*routing);
    routing->dtype = PTO_FLOAT32;
}

/*
 * Takes tokens to their experts. `rows` gets a row for each pair of a token, of any rank, and
 * an expert of this rank, ordered by expert, then by rank, token and place among the top_k.
 * `row_counts` gets how many there are for each expert of this rank. PTO_ENOMEM, on all ranks:
 * one has no room for its rows; row_counts says then, too, how many there are.
 */
int pto_comm_dispatch(struct pto_domain *domain, const struct pto_routing *routing,
                      const void *tokens, void *rows, uint32_t *row_counts);

/*
 * Brings rows back, in the order in which pto_comm_dispatch gave them, with the same routing.
 * Each token becomes the sum of its rows, times their `weights`, top_k for each token; NULL:
 * all are 1. Summed as float in the order of the top_k, and rounded once. Not for int32.
 */
int pto_comm_combine(struct pto_domain *domain, const struct pto_routing *routing, const void *rows,
                     const float *weights, void *tokens);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

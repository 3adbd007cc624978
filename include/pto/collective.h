/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives: operations that all ranks of a domain compute or exchange together. Every call is
 * collective, as pto/comm.h defines it: all ranks pass the same kind, count, type, operation, root
 * and algorithm. If they differ, all ranks get an error that names two differing ranks, and the
 * domain remains usable. The same happens if a call is refused on one rank, for example for a NULL
 * buffer.
 *
 * Buffers are memory of the caller, in a window or not, aligned to their elements. A count may be
 * 0. Results are identical, bit by bit, on all ranks and from run to run: elements are reduced in
 * rank order, and 16-bit types are reduced as float and rounded once. Only PTO_ALGORITHM_RING may
 * give results with other bits. A NaN result is always the same quiet NaN.
 *
 * If a rank dies or is late, the other ranks get PTO_EPEER or PTO_ETIMEOUT and the content of their
 * buffers is undefined. The domain then refuses further collectives with PTO_EPEER, because some of
 * its ranks may have a result and others not. Barriers and signals keep working.
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

/* How elements are combined. Sums of int32 wrap; MAX and MIN return NaN if any element is NaN. */
enum pto_reduce { PTO_REDUCE_SUM, PTO_REDUCE_MAX, PTO_REDUCE_MIN };

/* How the work of a reduction is divided; ignored by calls that do not reduce. */
enum pto_algorithm {
    PTO_ALGORITHM_AUTO,      /* the runtime chooses by the size and the number of ranks */
    PTO_ALGORITHM_ONE_SHOT,  /* every rank reads all elements and reduces them: least waiting */
    PTO_ALGORITHM_TWO_PHASE, /* every rank reduces a part, then reads the other parts: least work */
    /*
     * Parts travel from rank to rank, and each rank adds its elements. Each part starts at another
     * rank, so the order of reduction differs between parts, and 16-bit types are rounded at every
     * rank.
     */
    PTO_ALGORITHM_RING,
};

/* The parameters of a collective. A NULL pointer stands for the defaults and sums of float32. */
struct pto_collective {
    size_t size;
    /*
     * Type of the elements: float32, float16, bfloat16, int32; any type in calls that do not
     * reduce.
     */
    enum pto_dtype dtype;
    enum pto_reduce reduce;
    enum pto_algorithm algorithm;
    uint32_t root;           /* rank whose elements a broadcast sends; 0 in other calls */
    uint64_t timeout_ns;     /* time-out in ns; 0: that of the communicator */
    struct pto_error *error; /* filled in on failure; initialised, or NULL */
};

/* Sets the defaults of a collective. */
static inline void pto_collective_init(struct pto_collective *how)
{
    if (how == NULL)
        return;
    memset(how, 0, sizeof(*how));
    how->size = sizeof(*how);
    how->dtype = PTO_FLOAT32;
}

/* Reduces `count` elements of every rank; all ranks get the result. `to` may be `from`. */
int pto_comm_all_reduce(struct pto_domain *domain, const void *from, void *to, uint64_t count,
                        const struct pto_collective *how);

/*
 * Reduces `count` elements for every rank of the domain: `from` has one block of `count` for each
 * rank, and each rank gets the result of its block. `to` may be `from`, or this rank's block in it.
 */
int pto_comm_reduce_scatter(struct pto_domain *domain, const void *from, void *to, uint64_t count,
                            const struct pto_collective *how);

/*
 * Gathers `count` elements of every rank, in rank order, on all ranks. `from` may be this rank's
 * block in `to`.
 */
int pto_comm_all_gather(struct pto_domain *domain, const void *from, void *to, uint64_t count,
                        const struct pto_collective *how);

/* Copies `count` elements of the root to all ranks. */
int pto_comm_broadcast(struct pto_domain *domain, void *buffer, uint64_t count,
                       const struct pto_collective *how);

/*
 * Sends each rank one block of `count` elements: block R of `from` goes to rank R, which stores it
 * in its `to` as the block of the sender. `to` may be `from`.
 */
int pto_comm_all_to_all(struct pto_domain *domain, const void *from, void *to, uint64_t count,
                        const struct pto_collective *how);

/* ---- routing tokens to experts ---- */

/*
 * Returns the first expert of a rank when `expert_count` experts are divided among the ranks in
 * order; the rank's experts end before the first expert of the next rank.
 */
static inline uint32_t pto_expert_first(uint32_t expert_count, uint32_t rank_count, uint32_t rank)
{
    return (uint32_t)((uint64_t)rank * expert_count / rank_count);
}

/* Returns the rank that owns an expert. */
static inline uint32_t pto_expert_rank(uint32_t expert_count, uint32_t rank_count, uint32_t expert)
{
    return (uint32_t)((((uint64_t)expert + 1) * rank_count - 1) / expert_count);
}

/*
 * The routing of this rank's tokens. Fields marked "equal on all ranks" must not differ between
 * ranks.
 */
struct pto_routing {
    size_t size;
    uint32_t token_count;  /* number of tokens that this rank sends */
    uint32_t top_k;        /* number of experts for each token; equal on all ranks */
    uint32_t expert_count; /* number of experts of all ranks together; equal on all ranks */
    uint32_t width;        /* number of elements of a token; equal on all ranks */
    enum pto_dtype dtype;  /* type of the elements of tokens and rows; equal on all ranks */
    uint32_t row_capacity; /* number of rows for which this rank has room */
    /* Array of token_count * top_k expert numbers; a negative number: no expert. */
    const int32_t *experts;
    uint64_t timeout_ns; /* time-out in ns; 0: that of the communicator */
    struct pto_error *error;
};

/* Sets the defaults of a routing. */
static inline void pto_routing_init(struct pto_routing *routing)
{
    if (routing == NULL)
        return;
    memset(routing, 0, sizeof(*routing));
    routing->size = sizeof(*routing);
    routing->dtype = PTO_FLOAT32;
}

/*
 * Sends tokens to their experts. `rows` gets a row for each pair of a token, from any rank, and an
 * expert of this rank, ordered by expert, then by rank, token and position in the top_k.
 * `row_counts` gets the number of rows of each expert of this rank. PTO_ENOMEM, on all ranks: the
 * rows of one rank exceed its row_capacity; row_counts is filled in nevertheless.
 */
int pto_comm_dispatch(struct pto_domain *domain, const struct pto_routing *routing,
                      const void *tokens, void *rows, uint32_t *row_counts);

/*
 * Returns rows, in the order in which pto_comm_dispatch delivered them, with the same routing. Each
 * token becomes the sum of its rows multiplied by its `weights`, top_k per token; NULL: all are 1.
 * The sum is computed as float in the order of the top_k and rounded once. Not for int32.
 */
int pto_comm_combine(struct pto_domain *domain, const struct pto_routing *routing, const void *rows,
                     const float *weights, void *tokens);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

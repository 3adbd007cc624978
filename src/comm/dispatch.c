/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens to experts and back. Every rank gets the routing of all ranks first, so that each knows
 * which rows there are, where they lie, and whether all have room, without asking anybody.
 *
 * Then data goes in rounds, tile by tile: a few tokens of each rank, or a piece of one that is too
 * long. To dispatch, ranks publish their tokens, and experts take what is theirs. To combine,
 * experts publish, in a slot for each rank, the rows of its tokens, in the order of tokens and
 * places, without gaps; the rank counts along.
 */
#include <stdlib.h>

#include "base/sized.h"
#include "comm/collective.h"
#include "comm/reduce.h"

enum { LIMIT = 1 << 24 }; /* of experts, and of those of a token: what a note can hold */

/* What a rank says of itself in the first round. */
struct offer {
    uint32_t token_count;
    uint32_t row_capacity;
};

struct plan {
    struct collective c;
    struct pto_routing r;
    uint64_t row_bytes;
    uint32_t expert_begin, expert_end; /* of this rank */
    struct offer *offer;               /* by rank */
    uint64_t *pair_first;              /* by rank: pairs of token and place before its own */
    uint32_t token_most;               /* of a rank */
    uint32_t *expert_rows;             /* by expert, of all ranks */
    int32_t *row;   /* by pair: first its expert; then its row on this rank, or -1 */
    uint64_t *sent; /* by rank: rows that were taken from it in this round */
    const void **source;
    float *weight; /* of a token's rows */
};

struct tile {
    uint32_t token, token_count;
    uint64_t column, bytes; /* of a row */
    uint64_t piece;         /* what a row takes in a place */
};

static int plan_open(struct plan *p, struct pto_domain *handle, const struct pto_routing *given,
                     enum collective_kind kind);
static void plan_close(struct plan *p);
static int plan_share(struct plan *p, uint32_t *row_counts);
static struct tile first_tile(const struct plan *p, uint64_t room, uint32_t rows);
static bool next_tile(const struct plan *p, struct tile *tile);

static uint64_t pair_of(const struct plan *p, uint32_t rank, uint32_t token)
{
    return p->pair_first[rank] + (uint64_t)token * p->r.top_k;
}

/* ---- dispatch ---- */

/* The rows of this rank's experts in a tile of a rank, whose tokens are at `from`. */
static void take_rows(const struct plan *p, const struct tile *tile, uint32_t rank,
                      const char *from, uint64_t stride, char *rows)
{
    for (uint32_t i = 0; i < tile->token_count; i++) {
        uint32_t token = tile->token + i;
        const int32_t *row = p->row + pair_of(p, rank, token);

        for (uint32_t k = 0; token < p->offer[rank].token_count && k < p->r.top_k; k++)
            if (row[k] >= 0)
                memcpy(rows + (uint64_t)row[k] * p->row_bytes + tile->column, from + i * stride,
                       tile->bytes);
    }
}

static int dispatch_tile(struct plan *p, const struct tile *tile, const char *tokens, char *rows)
{
    struct collective *c = &p->c;
    const char *own = tokens + tile->token * p->row_bytes + tile->column;
    int status;

    if (c->rank_count > 1) {
        for (uint32_t i = 0; i < tile->token_count && tile->token + i < p->r.token_count; i++)
            memcpy(collective_next(c) + i * tile->piece, own + i * p->row_bytes, tile->bytes);
        status = collective_round(c);
        if (status < 0)
            return status;
    }
    take_rows(p, tile, c->rank, own, p->row_bytes, rows);
    for (uint32_t i = 1; i < c->rank_count; i++) {
        uint32_t rank = (c->rank + i) % c->rank_count;

        take_rows(p, tile, rank, collective_read(c, rank), tile->piece, rows);
    }
    return PTO_OK;
}

int pto_comm_dispatch(struct pto_domain *domain, const struct pto_routing *routing,
                      const void *tokens, void *rows, uint32_t *row_counts)
{
    struct plan p;
    struct tile tile;
    int status = plan_open(&p, domain, routing, COLLECTIVE_DISPATCH);

    if (status < 0)
        return status;
    collective_check(&p.c, tokens, p.r.token_count * p.row_bytes, "tokens");
    collective_check(&p.c, rows, p.r.row_capacity * p.row_bytes, "rows");
    status = plan_share(&p, row_counts);
    if (status >= 0) {
        tile = first_tile(&p, COLLECTIVE_HALF, 1);
        while (status >= 0 && next_tile(&p, &tile))
            status = dispatch_tile(&p, &tile, tokens, rows);
    }
    plan_close(&p);
    return status;
}

/* ---- combine ---- */

/* What a rank gets: the rows of its tokens that this one's experts have. */
static void put_rows(const struct plan *p, const struct tile *tile, uint32_t rank, const char *rows,
                     char *to)
{
    for (uint32_t i = 0; i < tile->token_count; i++) {
        uint32_t token = tile->token + i;
        const int32_t *row = p->row + pair_of(p, rank, token);

        for (uint32_t k = 0; token < p->offer[rank].token_count && k < p->r.top_k; k++)
            if (row[k] >= 0) {
                memcpy(to, rows + (uint64_t)row[k] * p->row_bytes + tile->column, tile->bytes);
                to += tile->piece;
            }
    }
}

/* The own tokens of a tile: each row is the next one of the rank that has its expert. */
static void sum_tokens(const struct plan *p, const struct tile *tile, uint64_t slot,
                       const char *rows, const float *weights, char *tokens)
{
    const struct collective *c = &p->c;

    memset(p->sent, 0, c->rank_count * sizeof(*p->sent));
    for (uint32_t t = tile->token; t < tile->token + tile->token_count && t < p->r.token_count;
         t++) {
        struct reduce r = { .dtype = p->r.dtype, .source = p->source };

        for (uint32_t k = 0; k < p->r.top_k; k++) {
            uint64_t pair = (uint64_t)t * p->r.top_k + k;
            int32_t expert = p->r.experts[pair], row = p->row[p->pair_first[c->rank] + pair];
            uint32_t rank;

            if (expert < 0)
                continue;
            rank = pto_expert_rank(p->r.expert_count, c->rank_count, (uint32_t)expert);
            p->weight[r.source_count] = weights == NULL ? 1 : weights[pair];
            p->source[r.source_count++] =
                rank == c->rank
                    ? rows + (uint64_t)row * p->row_bytes + tile->column
                    : collective_read(c, rank) + c->rank * slot + p->sent[rank]++ * tile->piece;
        }
        reduce_weighted(&r, p->weight, tile->bytes / c->element_bytes,
                        tokens + t * p->row_bytes + tile->column);
    }
}

static int combine_tile(struct plan *p, const struct tile *tile, uint64_t slot, const char *rows)
{
    struct collective *c = &p->c;

    for (uint32_t i = 1; i < c->rank_count; i++) {
        uint32_t rank = (c->rank + i) % c->rank_count;

        put_rows(p, tile, rank, rows, collective_next(c) + rank * slot);
    }
    return c->rank_count > 1 ? collective_round(c) : PTO_OK;
}

int pto_comm_combine(struct pto_domain *domain, const struct pto_routing *routing, const void *rows,
                     const float *weights, void *tokens)
{
    struct plan p;
    struct tile tile;
    uint64_t slot;
    int status = plan_open(&p, domain, routing, COLLECTIVE_COMBINE);

    if (status < 0)
        return status;
    collective_check(&p.c, tokens, p.r.token_count * p.row_bytes, "tokens");
    if (!reduce_has_weighted(p.r.dtype))
        (void)collective_refuse(&p.c, PTO_EINVAL, "rows of %s cannot be summed with weights",
                                pto_dtype_text((uint32_t)p.r.dtype));
    slot = COLLECTIVE_HALF / p.c.rank_count / SHARED_LINE * SHARED_LINE;
    if (p.r.top_k > slot / SHARED_LINE)
        (void)collective_refuse(&p.c, PTO_ENOSUP, "%u experts of a token are too many for %u ranks",
                                p.r.top_k, p.c.rank_count);
    status = plan_share(&p, NULL);
    if (status >= 0) {
        tile = first_tile(&p, slot, p.r.top_k > 0 ? p.r.top_k : 1);
        while (status >= 0 && next_tile(&p, &tile)) {
            status = combine_tile(&p, &tile, slot, rows);
            if (status >= 0)
                sum_tokens(&p, &tile, slot, rows, weights, tokens);
        }
    }
    plan_close(&p);
    return status;
}

/* ---- tiles ---- */

/* What fits `room` bytes, where each token has at most so many rows. */
static struct tile first_tile(const struct plan *p, uint64_t room, uint32_t rows)
{
    struct tile tile = { .piece = room / rows / SHARED_LINE * SHARED_LINE };

    if (tile.piece > p->row_bytes)
        tile.piece = p->row_bytes;
    tile.token_count = tile.piece > 0 ? (uint32_t)(room / (rows * tile.piece)) : 1;
    return tile;
}

/* False: there are no more. All ranks go through the same ones. */
static bool next_tile(const struct plan *p, struct tile *tile)
{
    tile->column += tile->bytes;
    if (tile->column == p->row_bytes && tile->bytes > 0) {
        tile->column = 0;
        tile->token += tile->token_count;
    }
    tile->bytes =
        p->row_bytes - tile->column < tile->piece ? p->row_bytes - tile->column : tile->piece;
    return p->row_bytes > 0 && tile->token < p->token_most;
}

/* ---- what all ranks know ---- */

static int plan_open(struct plan *p, struct pto_domain *handle, const struct pto_routing *given,
                     enum collective_kind kind)
{
    struct pto_collective how;
    int status, read;

    *p = (struct plan){ 0 };
    pto_routing_init(&p->r);
    read = sized_read(&p->r, sizeof(p->r), given);
    pto_collective_init(&how);
    how.dtype = p->r.dtype;
    how.root = p->r.expert_count;
    how.timeout_ns = p->r.timeout_ns;
    how.error = p->r.error;
    status = collective_open(&p->c, handle, kind, p->r.width, &how);
    if (status < 0)
        return status;
    p->c.extra = p->r.top_k & (LIMIT - 1);
    p->row_bytes = (uint64_t)p->r.width * p->c.element_bytes;
    p->expert_begin = pto_expert_first(p->r.expert_count, p->c.rank_count, p->c.rank);
    p->expert_end = pto_expert_first(p->r.expert_count, p->c.rank_count, p->c.rank + 1);
    if (read < 0)
        (void)collective_refuse(&p->c, read,
                                "the routing is not initialised: call pto_routing_init");
    if (p->r.top_k >= LIMIT || p->r.expert_count >= LIMIT)
        (void)collective_refuse(&p->c, PTO_EINVAL, "%u of %u experts: there can be %d", p->r.top_k,
                                p->r.expert_count, LIMIT - 1);
    if (p->r.experts == NULL && (uint64_t)p->r.token_count * p->r.top_k > 0)
        (void)collective_refuse(&p->c, PTO_EINVAL, "'experts' is NULL");
    p->offer = calloc(p->c.rank_count, sizeof(*p->offer));
    p->pair_first = calloc(p->c.rank_count + 1, sizeof(*p->pair_first));
    p->sent = calloc(p->c.rank_count, sizeof(*p->sent));
    p->expert_rows = calloc((size_t)p->r.expert_count + 1, sizeof(*p->expert_rows));
    p->source = calloc((size_t)p->r.top_k + 1, sizeof(*p->source));
    p->weight = calloc((size_t)p->r.top_k + 1, sizeof(*p->weight));
    if (p->offer == NULL || p->pair_first == NULL || p->sent == NULL || p->expert_rows == NULL ||
        p->source == NULL || p->weight == NULL)
        (void)collective_refuse(&p->c, PTO_ENOMEM, "there is no memory for its tables");
    return PTO_OK;
}

static void plan_close(struct plan *p)
{
    free(p->offer);
    free(p->pair_first);
    free(p->sent);
    free(p->expert_rows);
    free(p->source);
    free(p->weight);
    free(p->row);
}

/* The first round: who has how many tokens, and room for how many rows. */
static int exchange_offers(struct plan *p)
{
    struct offer own = { p->r.token_count, p->r.row_capacity };
    struct collective *c = &p->c;
    int status = c->status;

    if (c->rank_count > 1) {
        c->is_inline = true;
        c->deadline_ns = comm_deadline(c->how.timeout_ns, 0);
        memcpy(collective_next(c), &own, sizeof(own));
        status = collective_round(c);
    }
    if (status < 0)
        return status;
    for (uint32_t i = 0; i < c->rank_count; i++) {
        memcpy(&p->offer[i], c->rank_count > 1 ? collective_read(c, i) : (char *)&own, sizeof(own));
        p->pair_first[i + 1] = p->pair_first[i] + (uint64_t)p->offer[i].token_count * p->r.top_k;
        if (p->token_most < p->offer[i].token_count)
            p->token_most = p->offer[i].token_count;
    }
    c->is_inline = false;
    return p->pair_first[c->rank_count] <= INT32_MAX
               ? PTO_OK
               : comm_tell(c->how.error, PTO_EINVAL, UINT32_MAX,
                           "%llu pairs of a token and an expert are too many",
                           (unsigned long long)p->pair_first[c->rank_count]);
}

/* All ranks' experts, through the scratch. */
static int gather_experts(struct plan *p)
{
    struct collective *c = &p->c;
    const uint64_t most = (uint64_t)p->token_most * p->r.top_k;
    const uint64_t chunk = COLLECTIVE_HALF / sizeof(*p->row);
    int status;

    p->row = malloc((p->pair_first[c->rank_count] + 1) * sizeof(*p->row));
    if (p->row == NULL)
        return collective_give_up(c, PTO_ENOMEM, "there is no memory for its routing");
    for (uint64_t at = 0; at < most; at += chunk) {
        uint64_t own = p->pair_first[c->rank + 1] - p->pair_first[c->rank];

        if (c->rank_count == 1) {
            memcpy(p->row, p->r.experts, own * sizeof(*p->row));
            break;
        }
        if (at < own)
            memcpy(collective_next(c), p->r.experts + at,
                   (own - at < chunk ? own - at : chunk) * sizeof(*p->row));
        status = collective_round(c);
        if (status < 0)
            return status;
        for (uint32_t i = 0; i < c->rank_count; i++) {
            uint64_t left = p->pair_first[i + 1] - p->pair_first[i];

            if (at < left)
                memcpy(p->row + p->pair_first[i] + at, collective_read(c, i),
                       (left - at < chunk ? left - at : chunk) * sizeof(*p->row));
        }
    }
    return PTO_OK;
}

/* Counts rows; ranks, which have all of it, find the same mistakes. */
static int count_rows(struct plan *p)
{
    const struct collective *c = &p->c;

    for (uint32_t rank = 0; rank < c->rank_count; rank++)
        for (uint64_t i = p->pair_first[rank]; i < p->pair_first[rank + 1]; i++) {
            if (p->row[i] >= 0 && (uint32_t)p->row[i] >= p->r.expert_count)
                return comm_tell(c->how.error, PTO_EINVAL, c->domain->ranks[rank],
                                 "token %llu of rank %u goes to expert %d, and there are %u",
                                 (unsigned long long)((i - p->pair_first[rank]) / p->r.top_k),
                                 c->domain->ranks[rank], p->row[i], p->r.expert_count);
            if (p->row[i] >= 0)
                p->expert_rows[p->row[i]]++;
        }
    return PTO_OK;
}

/* Whether every rank has room for the rows of its experts. */
static int check_room(const struct plan *p)
{
    const struct collective *c = &p->c;

    for (uint32_t rank = 0; rank < c->rank_count && c->kind == COLLECTIVE_DISPATCH; rank++) {
        uint32_t end = pto_expert_first(p->r.expert_count, c->rank_count, rank + 1);
        uint64_t needed = 0;

        for (uint32_t e = pto_expert_first(p->r.expert_count, c->rank_count, rank); e < end; e++)
            needed += p->expert_rows[e];
        if (needed > p->offer[rank].row_capacity)
            return comm_tell(c->how.error, PTO_ENOMEM, c->domain->ranks[rank],
                             "dispatch: rank %u has room for %u rows, and %llu go there: raise its "
                             "row_capacity to that",
                             c->domain->ranks[rank], p->offer[rank].row_capacity,
                             (unsigned long long)needed);
    }
    return PTO_OK;
}

/* Each pair's expert becomes its row: rows are sorted by expert, and otherwise stay in order. */
static void number_rows(struct plan *p)
{
    uint32_t next = 0;

    for (uint32_t e = p->expert_begin; e < p->expert_end; e++) {
        uint32_t count = p->expert_rows[e];

        p->expert_rows[e] = next;
        next += count;
    }
    for (uint64_t i = 0; i < p->pair_first[p->c.rank_count]; i++) {
        int32_t expert = p->row[i];
        bool is_own = expert >= (int32_t)p->expert_begin && expert < (int32_t)p->expert_end;

        p->row[i] = is_own ? (int32_t)p->expert_rows[expert]++ : -1;
    }
}

static int plan_share(struct plan *p, uint32_t *row_counts)
{
    int status = exchange_offers(p);

    if (status >= 0)
        status = gather_experts(p);
    if (status >= 0)
        status = count_rows(p);
    if (status < 0)
        return status;
    for (uint32_t e = p->expert_begin; e < p->expert_end && row_counts != NULL; e++)
        row_counts[e - p->expert_begin] = p->expert_rows[e];
    status = check_room(p);
    if (status >= 0)
        number_rows(p);
    return status;
}

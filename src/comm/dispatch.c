/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends tokens to the ranks of their experts (dispatch), and the results back (combine).
 *
 * First, every rank gets the routing of all ranks, so that each can compute which rows exist, where
 * they are, and whether all ranks have room. Then data moves in rounds, one tile each: a few tokens
 * of each rank, or a part of one token that is too long for a round.
 *
 * To dispatch, ranks publish their tokens, and the ranks of the experts copy the rows for them. To
 * combine, the ranks of the experts publish, in a slot for each rank, the rows of that rank's
 * tokens without gaps, in the order of tokens and their experts. The receiving rank computes the
 * positions by counting in the same order.
 */
#include <stdlib.h>

#include "base/sized.h"
#include "comm/collective.h"
#include "comm/reduce.h"

/* maximum number of experts, and of experts of a token, that fits a note */
enum { LIMIT = 1 << 24 };

/* What a rank publishes about itself in the first round. */
struct offer {
    uint32_t token_count;
    uint32_t row_capacity;
};

struct plan {
    struct collective c;
    struct pto_routing r;
    uint64_t row_bytes;
    /* the experts on this rank: from expert_begin to expert_end - 1 */
    uint32_t expert_begin, expert_end;
    struct offer *offer; /* what each rank has published about itself, by rank */
    /* by rank: number of the rank's first pair; a pair is a token and one of its experts */
    uint64_t *pair_first;
    uint32_t token_most;   /* largest number of tokens on any rank */
    uint32_t *expert_rows; /* by expert: number of rows from all ranks */
    /* by pair: first the pair's expert; later its row on this rank, or -1 if the row is not here */
    int32_t *row;
    uint64_t *sent; /* by rank: number of rows taken from the rank's slot in this round */
    const void **source;
    float *weight; /* weight of each row of one token: a token has a row for each of its experts */
};

struct tile {
    uint32_t token, token_count;
    uint64_t column, bytes; /* part of a row that this tile has: its first byte and its size */
    uint64_t piece;         /* bytes that a row occupies in a slot */
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

/*
 * Copies the rows for this rank's experts out of a tile of another rank. The tile's tokens start at
 * `from`.
 */
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
        collective_send(c, 0, tile->token_count * tile->piece);
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

/*
 * Writes the rows that this rank's experts have for the tokens of another rank. Returns how many
 * bytes they take.
 */
static uint64_t put_rows(const struct plan *p, const struct tile *tile, uint32_t rank,
                         const char *rows, char *to)
{
    const char *begin = to;

    for (uint32_t i = 0; i < tile->token_count; i++) {
        uint32_t token = tile->token + i;
        const int32_t *row = p->row + pair_of(p, rank, token);

        for (uint32_t k = 0; token < p->offer[rank].token_count && k < p->r.top_k; k++)
            if (row[k] >= 0) {
                memcpy(to, rows + (uint64_t)row[k] * p->row_bytes + tile->column, tile->bytes);
                to += tile->piece;
            }
    }
    return (uint64_t)(to - begin);
}

/*
 * Computes the weighted sum of the rows of each of this rank's tokens in the tile. Rows of a remote
 * expert are taken from its rank's slot one after another.
 */
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
    uint64_t most = 0;

    for (uint32_t i = 1; i < c->rank_count; i++) {
        uint32_t rank = (c->rank + i) % c->rank_count;
        uint64_t bytes = put_rows(p, tile, rank, rows, collective_next(c) + rank * slot);

        most = bytes > most ? bytes : most;
    }
    collective_send_slots(c, slot, most);
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

/*
 * Returns the first tile. Its size is such that `room` bytes suffice if each token has up to `rows`
 * rows.
 */
static struct tile first_tile(const struct plan *p, uint64_t room, uint32_t rows)
{
    struct tile tile = { .piece = room / rows / SHARED_LINE * SHARED_LINE };

    if (tile.piece > p->row_bytes)
        tile.piece = p->row_bytes;
    tile.token_count = tile.piece > 0 ? (uint32_t)(room / (rows * tile.piece)) : 1;
    return tile;
}

/* Advances to the next tile. False: there are no more. All ranks visit the same tiles. */
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

/* ---- the plan: data that all ranks have ---- */

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
        (void)collective_refuse(&p->c, PTO_ENOMEM, "there is no memory for the tables of the call");
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

/* The first round: exchanges each rank's number of tokens, and its room for rows. */
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
               : comm_error_set(c->how.error, PTO_EINVAL, UINT32_MAX,
                                "%llu pairs of a token and an expert are too many",
                                (unsigned long long)p->pair_first[c->rank_count]);
}

/* Gathers the experts of all ranks' tokens through the scratch. */
static int gather_experts(struct plan *p)
{
    struct collective *c = &p->c;
    const uint64_t most = (uint64_t)p->token_most * p->r.top_k;
    const uint64_t chunk = COLLECTIVE_HALF / sizeof(*p->row);
    int status;

    p->row = malloc((p->pair_first[c->rank_count] + 1) * sizeof(*p->row));
    if (p->row == NULL)
        return collective_give_up(c, PTO_ENOMEM, "there is no memory for the routing of all ranks");
    for (uint64_t at = 0; at < most; at += chunk) {
        uint64_t own = p->pair_first[c->rank + 1] - p->pair_first[c->rank];

        if (c->rank_count == 1) {
            memcpy(p->row, p->r.experts, own * sizeof(*p->row));
            break;
        }
        if (at < own)
            memcpy(collective_next(c), p->r.experts + at,
                   (own - at < chunk ? own - at : chunk) * sizeof(*p->row));
        collective_send(c, 0,
                        (at < own ? own - at < chunk ? own - at : chunk : 0) * sizeof(*p->row));
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

/* Counts the rows of each expert. All ranks have the same data, so all find the same errors. */
static int count_rows(struct plan *p)
{
    const struct collective *c = &p->c;

    for (uint32_t rank = 0; rank < c->rank_count; rank++)
        for (uint64_t i = p->pair_first[rank]; i < p->pair_first[rank + 1]; i++) {
            if (p->row[i] >= 0 && (uint32_t)p->row[i] >= p->r.expert_count)
                return comm_error_set(
                    c->how.error, PTO_EINVAL, c->domain->ranks[rank],
                    "token %llu of rank %u goes to expert %d, but there are only %u",
                    (unsigned long long)((i - p->pair_first[rank]) / p->r.top_k),
                    c->domain->ranks[rank], p->row[i], p->r.expert_count);
            if (p->row[i] >= 0)
                p->expert_rows[p->row[i]]++;
        }
    return PTO_OK;
}

/* Checks that every rank has room for the rows of its experts. */
static int check_room(const struct plan *p)
{
    const struct collective *c = &p->c;

    for (uint32_t rank = 0; rank < c->rank_count && c->kind == COLLECTIVE_DISPATCH; rank++) {
        uint32_t end = pto_expert_first(p->r.expert_count, c->rank_count, rank + 1);
        uint64_t needed = 0;

        for (uint32_t e = pto_expert_first(p->r.expert_count, c->rank_count, rank); e < end; e++)
            needed += p->expert_rows[e];
        if (needed > p->offer[rank].row_capacity)
            return comm_error_set(
                c->how.error, PTO_ENOMEM, c->domain->ranks[rank],
                "dispatch: rank %u has room for %u rows, and %llu go there: raise its "
                "row_capacity to that",
                c->domain->ranks[rank], p->offer[rank].row_capacity, (unsigned long long)needed);
    }
    return PTO_OK;
}

/*
 * Replaces the expert of each pair by its row. Rows are sorted by expert, and otherwise stay in the
 * order of pairs.
 */
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

/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * Dispatch of tokens to experts and combining, compared with loops over all tokens: random
 * routings, experts without tokens, tokens without experts, ranks without tokens or experts, rows
 * longer than the scratch memory; then invalid calls.
 */
#include "tests/fixture/numbers_test.h"
#include "tests/fixture/ranks_test.h"

/* A case, from which the tokens of each rank and their routing follow. */
struct routing_case {
    uint32_t tokens, top_k, experts, width;
    enum pto_dtype dtype;
    bool is_uneven; /* ranks have different numbers of tokens; rank 1 has none */
    uint32_t away;  /* one of this many pairs has no expert; 0: every pair has one */
    uint32_t used;  /* number of experts that get tokens */
};

static uint32_t tokens_of(const struct routing_case *c, uint32_t rank)
{
    return !c->is_uneven ? c->tokens : rank == 1 ? 0 : c->tokens + rank * 3;
}

static int32_t expert_of(const struct routing_case *c, uint32_t rank, uint32_t token, uint32_t k)
{
    struct rng seed = { (uint64_t)rank << 40 | (uint64_t)token << 16 | k };
    uint64_t drawn = rng_next(&seed);

    if (c->away != 0 && drawn % c->away == 0)
        return -1 - (int32_t)(drawn % 5);
    return (int32_t)(rng_next(&seed) % c->used);
}

static float weight_of(uint32_t rank, uint32_t token, uint32_t k)
{
    return 1 / (float)(1 + rank + 2 * token + 3 * k);
}

static uint32_t element_of(const struct routing_case *c, uint32_t rank, uint32_t token, uint32_t i)
{
    return number_encode(c->dtype, (float)((rank * 7 + token * 3 + i) % 61) - 30);
}

/* What an expert computes from an element. */
static uint32_t answer(const struct routing_case *c, int32_t expert, uint32_t bits)
{
    return number_encode(c->dtype, number_decode(c->dtype, bits) * (float)(expert + 1));
}

static uint32_t read_element(const struct routing_case *c, const void *at, uint64_t i)
{
    return c->dtype == PTO_FLOAT32 ? ((const uint32_t *)at)[i] : ((const uint16_t *)at)[i];
}

static void write_element(const struct routing_case *c, void *at, uint64_t i, uint32_t bits)
{
    if (c->dtype == PTO_FLOAT32)
        ((uint32_t *)at)[i] = bits;
    else
        ((uint16_t *)at)[i] = (uint16_t)bits;
}

/* All buffers of a rank in a case. */
struct expert_rank {
    struct pto_routing routing;
    uint32_t begin, end; /* experts */
    int32_t *experts;
    float *weights;
    void *tokens, *rows;
    uint32_t row_counts[64];
};

static void set_up_rank(struct rank *r, const struct routing_case *c, struct expert_rank *e)
{
    uint32_t count = tokens_of(c, r->rank), all = 0;

    for (uint32_t i = 0; i < r->count; i++)
        all += tokens_of(c, i) * c->top_k;
    *e = (struct expert_rank){ .begin = pto_expert_first(c->experts, r->count, r->rank),
                               .end = pto_expert_first(c->experts, r->count, r->rank + 1) };
    e->experts = malloc((count * c->top_k + 1) * sizeof(*e->experts));
    e->weights = malloc((count * c->top_k + 1) * sizeof(*e->weights));
    e->tokens = malloc(((size_t)count * c->width + 1) * 4);
    e->rows = malloc(((size_t)all * c->width + 1) * 4);
    CHECK(r, e->experts != NULL && e->weights != NULL && e->tokens != NULL && e->rows != NULL);
    for (uint32_t t = 0; t < count; t++) {
        for (uint32_t k = 0; k < c->top_k; k++) {
            e->experts[t * c->top_k + k] = expert_of(c, r->rank, t, k);
            e->weights[t * c->top_k + k] = weight_of(r->rank, t, k);
        }
        for (uint32_t i = 0; i < c->width; i++)
            write_element(c, e->tokens, (uint64_t)t * c->width + i, element_of(c, r->rank, t, i));
    }
    pto_routing_init(&e->routing);
    e->routing.token_count = count;
    e->routing.top_k = c->top_k;
    e->routing.expert_count = c->experts;
    e->routing.width = c->width;
    e->routing.dtype = c->dtype;
    e->routing.row_capacity = all;
    e->routing.experts = e->experts;
    e->routing.error = &r->error;
}

static void tear_down_rank(struct expert_rank *e)
{
    free(e->experts);
    free(e->weights);
    free(e->tokens);
    free(e->rows);
}

/* The rows must be in the order of a loop over experts, ranks, tokens and places. */
static void check_rows(struct rank *r, const struct routing_case *c, const struct expert_rank *e)
{
    uint64_t row = 0;

    for (uint32_t expert = e->begin; expert < e->end; expert++) {
        uint64_t first = row;

        for (uint32_t rank = 0; rank < r->count; rank++)
            for (uint32_t t = 0; t < tokens_of(c, rank); t++)
                for (uint32_t k = 0; k < c->top_k; k++) {
                    if (expert_of(c, rank, t, k) != (int32_t)expert)
                        continue;
                    for (uint32_t i = 0; i < c->width; i++)
                        CHECK(r, read_element(c, e->rows, row * c->width + i) ==
                                     element_of(c, rank, t, i));
                    row++;
                }
        CHECK(r, e->row_counts[expert - e->begin] == row - first);
    }
}

static void answer_rows(const struct routing_case *c, struct expert_rank *e)
{
    uint64_t at = 0;

    for (uint32_t expert = e->begin; expert < e->end; expert++)
        for (uint64_t n = (uint64_t)e->row_counts[expert - e->begin] * c->width; n > 0; n--, at++)
            write_element(c, e->rows, at, answer(c, (int32_t)expert, read_element(c, e->rows, at)));
}

static void check_tokens(struct rank *r, const struct routing_case *c, const struct expert_rank *e,
                         bool is_weighted)
{
    for (uint32_t t = 0; t < tokens_of(c, r->rank); t++)
        for (uint32_t i = 0; i < c->width; i++) {
            volatile float sum = 0, product;

            for (uint32_t k = 0; k < c->top_k; k++) {
                int32_t expert = expert_of(c, r->rank, t, k);

                if (expert < 0)
                    continue;
                product = number_decode(c->dtype, answer(c, expert, element_of(c, r->rank, t, i))) *
                          (is_weighted ? weight_of(r->rank, t, k) : 1);
                sum = sum + product;
            }
            CHECK(r, read_element(c, e->tokens, (uint64_t)t * c->width + i) ==
                         number_encode(c->dtype, sum));
        }
}

static void there_and_back(struct rank *r)
{
    const struct routing_case *c = r->arg;
    struct expert_rank e;

    set_up_rank(r, c, &e);
    for (uint32_t is_weighted = 0; is_weighted < 2; is_weighted++) {
        CHECK(r,
              pto_comm_dispatch(r->domain, &e.routing, e.tokens, e.rows, e.row_counts) == PTO_OK);
        check_rows(r, c, &e);
        answer_rows(c, &e);
        /* The result of a combine is only written. */
        if (is_weighted)
            memset(e.tokens, 0xee, (size_t)tokens_of(c, r->rank) * c->width);
        CHECK(r, pto_comm_combine(r->domain, &e.routing, e.rows, is_weighted ? e.weights : NULL,
                                  e.tokens) == PTO_OK);
        check_tokens(r, c, &e, is_weighted);
        tear_down_rank(&e);
        set_up_rank(r, c, &e);
    }
    tear_down_rank(&e);
}

static const struct routing_case cases[] = {
    { 16, 2, 8, 32, PTO_FLOAT32, .used = 8 },
    { 33, 3, 7, 5, PTO_FLOAT16, true, .away = 4, .used = 5 },
    { 20, 6, 64, 129, PTO_BFLOAT16, true, .used = 64 },
    { 9, 2, 2, 16, PTO_FLOAT32, .used = 1 },                        /* fewer experts than ranks */
    { 300, 1, 16, 1000, PTO_FLOAT32, true, .away = 9, .used = 16 }, /* several tiles */
    { 2, 2, 4, 140001, PTO_FLOAT32, true, .used = 4 },              /* longer than a scratch */
    { 5, 3, 4, 0, PTO_FLOAT32, .used = 4 },
    { 0, 3, 4, 8, PTO_FLOAT32, .used = 4 },
    { 4, 0, 4, 8, PTO_FLOAT32, .used = 4 },
    { 4, 2, 1, 8, PTO_FLOAT32, .away = 1, .used = 1 }, /* all go nowhere */
};

static void rows_come_in_order_and_sums_come_back(void **state)
{
    static const uint32_t counts[] = { 3, 1, 2, 5 };
    const uint32_t tried = ranks_a_host() != 0 ? 1 : often(4, 1);

    (void)state;
    for (uint32_t n = 0; n < tried; n++)
        for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
            on_threads(counts[n], there_and_back, &cases[i]);
}

static void so_they_do_between_processes(void **state)
{
    static const struct routing_case large = { 128, 6, 16, 4096, PTO_FLOAT32, .used = 16 };

    (void)state;
    on_processes(2, there_and_back, &large, -1);
    on_processes(3, there_and_back, &cases[1], -1);
}

/* ---- refusals ---- */

static void expect(struct rank *r, int status, int expected, const char *text)
{
    CHECK(r, status == expected);
    CHECK(r, r->error.rank == 1 && strstr(r->error.text, text) != NULL);
}

static void ask_for_too_much(struct rank *r)
{
    const struct routing_case *c = &cases[0];
    struct expert_rank e;
    uint32_t needed = 0;
    char text[64];

    for (uint32_t rank = 0; rank < r->count; rank++)
        for (uint32_t i = 0; i < c->tokens * c->top_k; i++) {
            int32_t expert = expert_of(c, rank, i / c->top_k, i % c->top_k);

            needed += pto_expert_rank(c->experts, r->count, (uint32_t)expert) == 1;
        }
    set_up_rank(r, c, &e);
    if (r->rank == 1)
        e.routing.row_capacity = needed - 1;
    snprintf(text, sizeof(text), "rank 1 has room for %u rows, and %u go there", needed - 1,
             needed);
    expect(r, pto_comm_dispatch(r->domain, &e.routing, e.tokens, e.rows, e.row_counts), PTO_ENOMEM,
           text);
    for (uint32_t i = e.begin; i < e.end && r->rank == 1; i++)
        needed -= e.row_counts[i - e.begin];
    CHECK(r, r->rank != 1 || needed == 0);
    tear_down_rank(&e);
    there_and_back(r);
}

static void no_room_is_told_on_all_ranks_with_what_is_needed(void **state)
{
    (void)state;
    on_threads(3, ask_for_too_much, &cases[0]);
}

static void ask_for_nonsense(struct rank *r)
{
    bool is_other = r->rank == 1;
    struct expert_rank e;
    int32_t kept;

    set_up_rank(r, &cases[0], &e);
    kept = e.experts[5];
    if (is_other)
        e.experts[5] = 8;
    expect(r, pto_comm_dispatch(r->domain, &e.routing, e.tokens, e.rows, e.row_counts), PTO_EINVAL,
           "token 2 of rank 1 goes to expert 8, but there are only 8");
    e.experts[5] = kept;
    e.routing.width = is_other ? 31 : 32;
    expect(r, pto_comm_dispatch(r->domain, &e.routing, e.tokens, e.rows, e.row_counts), PTO_EINVAL,
           "dispatch of rows of 31 float32 to 2 of 8 experts");
    e.routing.width = 32;
    e.routing.experts = is_other ? NULL : e.experts;
    expect(r, pto_comm_combine(r->domain, &e.routing, e.rows, NULL, e.tokens), PTO_EINVAL,
           is_other ? "'experts' is NULL" : "rank 1 cannot take part");
    e.routing.experts = e.experts;
    e.routing.dtype = is_other ? PTO_INT32 : PTO_FLOAT32;
    expect(r, pto_comm_combine(r->domain, &e.routing, e.rows, NULL, e.tokens), PTO_EINVAL,
           is_other ? "rows of int32 cannot be summed" : "rank 1 cannot take part");
    e.routing.dtype = PTO_FLOAT32;
    expect(
        r,
        pto_comm_dispatch(r->domain, &e.routing, is_other ? NULL : e.tokens, e.rows, e.row_counts),
        PTO_EINVAL, is_other ? "'tokens' is NULL" : "rank 1 cannot take part");
    tear_down_rank(&e);
    there_and_back(r);
}

static void what_is_wrong_with_a_routing_is_told_on_all_ranks(void **state)
{
    (void)state;
    on_threads(3, ask_for_nonsense, &cases[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_in_order_and_sums_come_back),
        cmocka_unit_test(so_they_do_between_processes),
        cmocka_unit_test(no_room_is_told_on_all_ranks_with_what_is_needed),
        cmocka_unit_test(what_is_wrong_with_a_routing_is_told_on_all_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

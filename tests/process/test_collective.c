/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * Collectives compared with the result that one rank computes alone, element by element and bit by
 * bit: numbers of ranks, sizes at every limit, types, operations, algorithms; ranks that are
 * threads or processes. Then ranks that disagree, that are late, and that die.
 */
#include "tests/fixture/numbers_test.h"
#include "tests/fixture/ranks_test.h"

enum { SECOND = 1000000000 };

static const enum pto_dtype dtypes[] = { PTO_FLOAT32, PTO_FLOAT16, PTO_BFLOAT16, PTO_INT32 };

/* ---- elements ---- */

/* Returns the bits of an element of a rank. `is_plain`: sums are exact in any order. */
static uint32_t given(enum pto_dtype dtype, uint32_t rank, uint64_t i, bool is_plain)
{
    struct rng seed = { i * 1024 + rank * 16 + dtype };
    uint32_t bits = (uint32_t)rng_next(&seed);

    if (is_plain)
        return dtype == PTO_INT32 ? bits % 16 : number_encode(dtype, (float)(bits % 16));
    if (dtype == PTO_FLOAT32 && rng_next(&seed) % 8 != 0)
        bits = (bits & 0x807fffff) | (uint32_t)(120 + rng_next(&seed) % 16) << 23;
    return pto_dtype_size(dtype) == 2 ? bits & 0xffff : bits;
}

/* The same element, reduced over all ranks in their order. */
static uint32_t expected(const struct pto_collective *how, uint32_t count, uint64_t i,
                         bool is_plain)
{
    uint32_t bits = given(how->dtype, 0, i, is_plain);
    int64_t whole = (int32_t)bits;
    float sum;

    if (count == 1)
        return bits;
    if (how->dtype == PTO_INT32) {
        for (uint32_t k = 1; k < count; k++) {
            int32_t next = (int32_t)given(how->dtype, k, i, is_plain);

            whole = how->reduce == PTO_REDUCE_SUM   ? (int32_t)(uint32_t)(whole + next)
                    : how->reduce == PTO_REDUCE_MAX ? (whole > next ? whole : next)
                                                    : (whole < next ? whole : next);
        }
        return (uint32_t)whole;
    }
    sum = number_decode(how->dtype, bits);
    for (uint32_t k = 1; k < count; k++)
        sum = number_reduce(how->reduce, sum,
                            number_decode(how->dtype, given(how->dtype, k, i, is_plain)));
    return number_encode(how->dtype, sum);
}

static void *take(struct rank *r, uint64_t count, enum pto_dtype dtype)
{
    /*
     * A buffer of exactly the requested size, so that AddressSanitizer detects accesses beyond it.
     */
    void *at = malloc(count * pto_dtype_size(dtype));

    CHECK(r, at != NULL || count == 0);
    return at;
}

static void put(void *at, uint64_t i, enum pto_dtype dtype, uint32_t bits)
{
    if (pto_dtype_size(dtype) == 2)
        ((uint16_t *)at)[i] = (uint16_t)bits;
    else
        ((uint32_t *)at)[i] = bits;
}

static uint32_t get(const void *at, uint64_t i, enum pto_dtype dtype)
{
    return pto_dtype_size(dtype) == 2 ? ((const uint16_t *)at)[i] : ((const uint32_t *)at)[i];
}

static void *take_given(struct rank *r, uint64_t count, enum pto_dtype dtype, bool is_plain)
{
    void *at = take(r, count, dtype);

    for (uint64_t i = 0; i < count; i++)
        put(at, i, dtype, given(dtype, r->rank, i, is_plain));
    return at;
}

/* ---- each call against the oracle ---- */

static void check_all_reduce(struct rank *r, const struct pto_collective *how, uint64_t count,
                             bool is_in_place)
{
    /*
     * A ring has its own order of additions, so the values are such that sums do not depend on the
     * order.
     */
    bool is_plain = how->algorithm == PTO_ALGORITHM_RING;
    void *from = take_given(r, count, how->dtype, is_plain);
    void *to = is_in_place ? from : take(r, count, how->dtype);

    CHECK(r, pto_comm_all_reduce(r->domain, from, to, count, how) == PTO_OK);
    for (uint64_t i = 0; i < count; i++)
        CHECK(r, get(to, i, how->dtype) == expected(how, r->count, i, is_plain));
    for (uint64_t i = 0; i < count && !is_in_place; i++)
        CHECK(r, get(from, i, how->dtype) == given(how->dtype, r->rank, i, is_plain));
    free(from);
    if (!is_in_place)
        free(to);
}

enum place { APART, AT_BEGIN, AT_RANK };

static void check_reduce_scatter(struct rank *r, const struct pto_collective *how, uint64_t count,
                                 enum place place)
{
    bool is_plain = how->algorithm == PTO_ALGORITHM_RING;
    char *from = take_given(r, count * r->count, how->dtype, is_plain);
    char *to = place == APART      ? take(r, count, how->dtype)
               : place == AT_BEGIN ? from
                                   : from + r->rank * count * pto_dtype_size(how->dtype);

    CHECK(r, pto_comm_reduce_scatter(r->domain, from, to, count, how) == PTO_OK);
    for (uint64_t i = 0; i < count; i++)
        CHECK(r, get(to, i, how->dtype) == expected(how, r->count, r->rank * count + i, is_plain));
    free(from);
    if (place == APART)
        free(to);
}

static void check_all_gather(struct rank *r, const struct pto_collective *how, uint64_t count,
                             bool is_in_place)
{
    char *from = take_given(r, count, how->dtype, false);
    char *to = take(r, count * r->count, how->dtype);
    uint64_t bytes = count * pto_dtype_size(how->dtype);

    if (is_in_place && count > 0)
        memcpy(to + r->rank * bytes, from, bytes);
    CHECK(r, pto_comm_all_gather(r->domain, is_in_place ? to + r->rank * bytes : from, to, count,
                                 how) == PTO_OK);
    for (uint64_t i = 0; i < count * r->count; i++)
        CHECK(r,
              get(to, i, how->dtype) == given(how->dtype, (uint32_t)(i / count), i % count, false));
    free(from);
    free(to);
}

static void check_broadcast(struct rank *r, const struct pto_collective *how, uint64_t count)
{
    struct pto_collective rooted = *how;

    for (rooted.root = 0; rooted.root < r->count; rooted.root += r->count - 1 + (r->count == 1)) {
        void *buffer = take_given(r, count, how->dtype, false);

        CHECK(r, pto_comm_broadcast(r->domain, buffer, count, &rooted) == PTO_OK);
        for (uint64_t i = 0; i < count; i++)
            CHECK(r, get(buffer, i, how->dtype) == given(how->dtype, rooted.root, i, false));
        free(buffer);
    }
}

static void check_all_to_all(struct rank *r, const struct pto_collective *how, uint64_t count,
                             bool is_in_place)
{
    void *from = take_given(r, count * r->count, how->dtype, false);
    void *to = is_in_place ? from : take(r, count * r->count, how->dtype);

    CHECK(r, pto_comm_all_to_all(r->domain, from, to, count, how) == PTO_OK);
    for (uint64_t i = 0; i < count * r->count; i++)
        CHECK(r, get(to, i, how->dtype) ==
                     given(how->dtype, (uint32_t)(i / count), r->rank * count + i % count, false));
    free(from);
    if (!is_in_place)
        free(to);
}

static void check_each_call(struct rank *r, struct pto_collective *how, uint64_t count)
{
    bool is_in_place = count % 2 != 0;

    how->error = &r->error;
    for (how->algorithm = PTO_ALGORITHM_AUTO; how->algorithm <= PTO_ALGORITHM_RING;
         how->algorithm++) {
        check_all_reduce(r, how, count, is_in_place);
        check_reduce_scatter(r, how, count, (enum place)((count + how->algorithm) % 3));
    }
    how->algorithm = PTO_ALGORITHM_AUTO;
    if (how->reduce != PTO_REDUCE_SUM)
        return; /* the other ranks do not reduce anything */
    check_all_gather(r, how, count, is_in_place);
    check_broadcast(r, how, count);
    check_all_to_all(r, how, count, is_in_place);
}

/* Half of the types and sizes where each call takes long. */
static uint32_t case_step(void)
{
    return ranks_a_host() != 0 ? 2 : often(1, 2);
}

/* All types and operations, where a note ends, and where parts do. */
static void check_small(struct rank *r)
{
    static const uint64_t counts[] = { 0, 1, 3, 5, 10, 11, 20, 21, 65, 257 };
    struct pto_collective how;

    pto_collective_init(&how);
    for (uint32_t d = 0; d < 4; d += case_step())
        for (uint32_t reduce = PTO_REDUCE_SUM; reduce <= PTO_REDUCE_MIN; reduce++)
            for (uint32_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
                how.dtype = dtypes[d];
                how.reduce = (enum pto_reduce)reduce;
                check_each_call(r, &how, counts[i]);
            }
}

/*
 * Sizes at which one shot becomes two phases, and at which chunks and halves of the scratch memory
 * end.
 */
static void check_large(struct rank *r)
{
    static const uint64_t counts[] = { 4096, 4097, 65536, 131072, 131073, 140003 };
    struct pto_collective how;

    pto_collective_init(&how);
    for (uint32_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i += case_step()) {
        how.dtype = dtypes[i == 2 ? 3 : 0];
        check_each_call(r, &how, counts[i]);
    }
}

static void check_one_large(struct rank *r)
{
    struct pto_collective how;

    pto_collective_init(&how);
    how.dtype = PTO_BFLOAT16;
    check_each_call(r, &how, 270001);
}

static void every_call_is_what_one_rank_would_compute(void **state)
{
    static const uint32_t counts[] = { 2, 5, 1, 3, 4, 8 };
    const uint32_t tried = ranks_a_host() != 0 ? 2 : often(6, 2);

    (void)state;
    for (uint32_t i = 0; i < tried; i++)
        on_threads(counts[i], check_small, NULL);
}

static void so_it_is_for_sizes_around_every_border(void **state)
{
    (void)state;
    on_threads(2, check_large, NULL);
    if (often(1, 0) != 0)
        on_threads(3, check_large, NULL);
    on_threads(often(5, 3), check_one_large, NULL);
}

static void so_it_is_for_processes(void **state)
{
    (void)state;
    on_processes(3, check_small, NULL, -1);
    on_processes(2, check_one_large, NULL, -1);
}

/* ---- the same bits ---- */

static float results[RANKS_MOST][2][20011]; /* of two calls */

static void reduce_in_a_ring(struct rank *r)
{
    struct pto_collective how;
    float *from = take_given(r, 20011, PTO_FLOAT32, false);

    pto_collective_init(&how);
    how.algorithm = PTO_ALGORITHM_RING;
    for (uint32_t i = 0; i < 2; i++)
        CHECK(r, pto_comm_all_reduce(r->domain, from, results[r->rank][i], 20011, &how) == PTO_OK);
    free(from);
}

static void a_ring_gives_all_ranks_the_same_bits(void **state)
{
    (void)state;
    on_threads(5, reduce_in_a_ring, NULL);
    for (uint32_t rank = 0; rank < 5; rank++)
        for (uint32_t i = 0; i < 2; i++)
            assert_memory_equal(results[rank][i], results[0][0], sizeof(results[0][0]));
}

/* ---- buffers ---- */

static void reduce_in_a_window(struct rank *r)
{
    enum { COUNT = WINDOW_BYTES / sizeof(float) };
    struct pto_domain_info info;
    float *window;

    pto_domain_info_init(&info);
    CHECK(r, pto_domain_info(r->domain, &info) == PTO_OK);
    window = (float *)(uintptr_t)info.window;
    for (uint32_t i = 0; i < COUNT; i++)
        window[i] = (float)(i % 100 + r->rank);
    CHECK(r, pto_comm_all_reduce(r->domain, window, window, COUNT, NULL) == PTO_OK);
    for (uint32_t i = 0; i < COUNT; i++)
        CHECK(r, window[i] == (float)(i % 100 * r->count + r->count * (r->count - 1) / 2));
}

static void buffers_may_lie_in_windows(void **state)
{
    (void)state;
    on_processes(3, reduce_in_a_window, NULL, -1);
}

static void moves_any_type(struct rank *r)
{
    struct pto_collective how;
    uint8_t from = (uint8_t)(r->rank + 5), to[RANKS_MOST];
    uint64_t wide[2] = { 1ull << 63 | r->rank, 7 };

    pto_collective_init(&how);
    how.dtype = PTO_UINT8;
    CHECK(r, pto_comm_all_gather(r->domain, &from, to, 1, &how) == PTO_OK);
    for (uint32_t i = 0; i < r->count; i++)
        CHECK(r, to[i] == i + 5);
    how.dtype = PTO_INT64;
    how.root = 1;
    CHECK(r, pto_comm_broadcast(r->domain, wide, 2, &how) == PTO_OK);
    CHECK(r, wide[0] == (1ull << 63 | 1) && wide[1] == 7);
}

static void data_of_any_type_moves(void **state)
{
    (void)state;
    on_threads(3, moves_any_type, NULL);
}

/* ---- ranks that do not agree ---- */

/* After a disagreement the domain still works. */
static void check_works(struct rank *r)
{
    struct pto_collective how;

    pto_collective_init(&how);
    how.error = &r->error;
    check_all_reduce(r, &how, 100, true);
}

/* Every rank gets the same message, which contains both words. */
static void expect_difference(struct rank *r, int status, const char *one, const char *other)
{
    CHECK(r, status == PTO_EINVAL);
    CHECK(r, r->error.status == PTO_EINVAL && r->error.rank == 1);
    CHECK(r, strstr(r->error.text, one) != NULL);
    CHECK(r, strstr(r->error.text, other) != NULL);
    CHECK(r, strstr(r->error.text, "rank 0") != NULL && strstr(r->error.text, "rank 1") != NULL);
    check_works(r);
}

static void differ(struct rank *r)
{
    static float from[100000], to[300000];
    bool is_other = r->rank == 1;
    struct pto_collective how;

    pto_collective_init(&how);
    how.error = &r->error;
    expect_difference(r, pto_comm_all_reduce(r->domain, from, from, is_other ? 5 : 4, &how),
                      "all-reduce of 4 float32", "all-reduce of 5 float32");
    expect_difference(r, pto_comm_all_reduce(r->domain, from, from, is_other ? 100000 : 4, &how),
                      "all-reduce of 4 float32", "all-reduce of 100000 float32");
    expect_difference(r, pto_comm_all_gather(r->domain, from, to, is_other ? 0 : 100000, &how),
                      "all-gather of 100000 float32", "all-gather of 0 float32");
    how.dtype = is_other ? PTO_INT32 : PTO_FLOAT32;
    expect_difference(r, pto_comm_all_reduce(r->domain, from, from, 4, &how), "4 float32",
                      "4 int32");
    how.dtype = PTO_FLOAT32;
    how.reduce = is_other ? PTO_REDUCE_MAX : PTO_REDUCE_SUM;
    expect_difference(r, pto_comm_reduce_scatter(r->domain, from, to, 4, &how), "(sum, auto)",
                      "(max, auto)");
    how.reduce = PTO_REDUCE_SUM;
    how.algorithm = is_other ? PTO_ALGORITHM_RING : PTO_ALGORITHM_AUTO;
    expect_difference(r, pto_comm_all_reduce(r->domain, from, from, 4, &how), "(sum, auto)",
                      "(sum, ring)");
    how.root = is_other;
    expect_difference(r, pto_comm_broadcast(r->domain, from, 4, &how), "from rank 0",
                      "from rank 1");
    if (is_other)
        expect_difference(r, pto_comm_all_gather(r->domain, from, to, 4, &how), "all-gather",
                          "all-to-all");
    else
        expect_difference(r, pto_comm_all_to_all(r->domain, from, to, 4, &how), "all-gather",
                          "all-to-all");
}

static void arguments_that_differ_are_told_on_all_ranks(void **state)
{
    (void)state;
    on_threads(3, differ, NULL);
}

/*
 * Rank 1 gets a message that says why it was refused; the other ranks are told that it was refused.
 */
static void expect_refusal(struct rank *r, int status, const char *why)
{
    CHECK(r, status == PTO_EINVAL && r->error.rank == 1);
    CHECK(r, strstr(r->error.text, r->rank == 1 ? why : "rank 1 cannot take part") != NULL);
    check_works(r);
}

static void refuse(struct rank *r)
{
    static float from[64], to[3][64];
    char *shifted = (char *)to[r->rank];
    bool is_refused = r->rank == 1;
    struct pto_collective how;

    pto_collective_init(&how);
    how.error = &r->error;
    expect_refusal(r,
                   pto_comm_all_reduce(r->domain, is_refused ? NULL : from, to[r->rank], 4, &how),
                   "'from' is NULL");
    expect_refusal(
        r, pto_comm_all_reduce(r->domain, from, is_refused ? shifted + 2 : shifted, 4, &how),
        "'to' is not aligned to elements of 4 bytes");
    expect_refusal(r,
                   pto_comm_all_reduce(r->domain, shifted + (is_refused ? 4 : 0), shifted, 4, &how),
                   "'from' and 'to' overlap");
    expect_refusal(
        r, pto_comm_all_reduce(r->domain, from, to[r->rank], is_refused ? UINT64_MAX / 2 : 4, &how),
        "elements are too many");
    how.dtype = is_refused ? PTO_INT8 : PTO_FLOAT32;
    expect_refusal(r, pto_comm_all_reduce(r->domain, from, to[r->rank], 4, &how),
                   "elements of int8 cannot be reduced");
    how.dtype = is_refused ? PTO_DTYPE_COUNT : PTO_FLOAT32;
    expect_refusal(r, pto_comm_all_gather(r->domain, from, to[r->rank], 4, &how),
                   "there is no data type");
    how.dtype = PTO_FLOAT32;
    how.root = is_refused ? 3 : 0;
    expect_refusal(r, pto_comm_broadcast(r->domain, to[r->rank], 4, &how),
                   "the root is 3, but there are only 3 ranks");
    how.reduce = is_refused ? PTO_REDUCE_MIN + 1 : PTO_REDUCE_SUM;
    expect_refusal(r, pto_comm_all_reduce(r->domain, from, to[r->rank], 4, &how),
                   "there is no reduction 3");
    how.reduce = PTO_REDUCE_SUM;
    how.algorithm = is_refused ? PTO_ALGORITHM_RING + 1 : PTO_ALGORITHM_AUTO;
    expect_refusal(r, pto_comm_all_reduce(r->domain, from, to[r->rank], 4, &how),
                   "there is no algorithm 4");
}

static void a_rank_that_is_refused_leaves_nobody_waiting(void **state)
{
    (void)state;
    on_threads(3, refuse, NULL);
}

static void a_domain_that_there_is_not_is_refused(void **state)
{
    struct pto_error error;
    struct pto_collective how;

    (void)state;
    pto_error_init(&error);
    pto_collective_init(&how);
    how.error = &error;
    assert_int_equal(pto_comm_all_reduce(NULL, NULL, NULL, 0, &how), PTO_EINVAL);
    assert_non_null(strstr(error.text, "no such domain"));
}

/* ---- ranks that are late ---- */

/*
 * Rank 2 arrives when the others have given up, and gets that error at once; later barriers work.
 */
static void come_late(struct rank *r)
{
    static float buffer[3][300000];
    struct pto_collective how;
    uint64_t count = *(const uint64_t *)r->arg;
    int status;

    pto_collective_init(&how);
    how.error = &r->error;
    how.timeout_ns = r->rank == 2 ? 100ull * SECOND : SECOND / 50;
    if (r->rank == 2)
        CHECK(r, pto_comm_wait(r->domain, (struct pto_wait_for){ 0, PTO_COMPARE_EQ, 2 }, 0,
                               &r->error) == PTO_OK);
    status = pto_comm_all_reduce(r->domain, buffer[r->rank], buffer[r->rank], count, &how);
    if (r->rank == 2 && count < 100) {
        CHECK(r, status == PTO_OK); /* all data that this rank needs was there */
        status = pto_comm_all_reduce(r->domain, buffer[r->rank], buffer[r->rank], count, &how);
    }
    CHECK(r, status == (r->rank == 2 ? PTO_EPEER : PTO_ETIMEOUT));
    CHECK(r, r->rank != 2 || r->error.rank == 0);
    /* One of the other ranks may have arrived too late for the other one. */
    CHECK(r, strstr(r->error.text, r->rank == 2 ? "rank 0 has given up collectives of the domain"
                                                : "2 did not reach the all-reduce") != NULL);
    if (r->rank != 2)
        CHECK(r, pto_comm_signal(r->domain, 2, (struct pto_signal_at){ 0, PTO_SIGNAL_ADD, 1 }) ==
                     PTO_OK);
    CHECK(r, pto_comm_broadcast(r->domain, buffer[r->rank], 1, &how) == PTO_EPEER);
    CHECK(r, strstr(r->error.text, "failed half-way") != NULL);
    CHECK(r, pto_comm_barrier(r->domain, 0, &r->error) == PTO_OK);
    CHECK(r, pto_domain_close(r->domain, 0, &r->error) == PTO_OK);
}

static void a_rank_that_is_late_tears_the_collectives_only(void **state)
{
    static const uint64_t counts[] = { 1, 300000 };

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        on_threads(3, come_late, &counts[i]);
        on_processes(3, come_late, &counts[i], -1);
    }
}

/* ---- ranks that die ---- */

static void *kill_soon(void *context)
{
    usleep(*(const useconds_t *)context);
    kill(getpid(), SIGKILL);
    return NULL;
}

/*
 * Rank 1 dies during a collective, or between two; the others get an error, and continue in another
 * domain.
 */
static void die(struct rank *r)
{
    enum { COUNT = 500000 };
    static float buffer[COUNT];
    struct pto_domain_params params;
    const uint32_t living[] = { 0, 2 };
    pthread_t killer;
    int status = PTO_OK;
    struct pto_collective how;

    pto_collective_init(&how);
    how.error = &r->error;
    how.timeout_ns = 100ull * SECOND;
    if (r->rank == 1)
        CHECK(r, pthread_create(&killer, NULL, kill_soon, (void *)(uintptr_t)r->arg) == 0);
    while (status >= 0) {
        status = pto_comm_all_reduce(r->domain, buffer, buffer, COUNT, &how);
        if (status >= 0)
            status = pto_comm_all_reduce(r->domain, buffer, buffer, 1, &how);
    }
    CHECK(r, status == PTO_EPEER);
    /*
     * The other survivor may have noticed first, and its failure or close may arrive here earlier.
     */
    CHECK(r, strstr(r->error.text, "the process of rank 1 ") != NULL ||
                 strstr(r->error.text, "has given up collectives") != NULL ||
                 strstr(r->error.text, "has closed the domain") != NULL);
    CHECK(r, pto_comm_all_reduce(r->domain, buffer, buffer, 1, &how) == PTO_EPEER);
    CHECK(r, pto_domain_close(r->domain, 0, NULL) == PTO_EPEER);
    pto_domain_params_init(&params);
    params.id = 1;
    params.ranks = living;
    params.rank_count = 2;
    params.error = &r->error;
    CHECK(r, pto_domain_open(r->comm, &params, &r->domain) == PTO_OK);
    CHECK(r, pto_comm_all_reduce(r->domain, buffer, buffer, COUNT, &how) == PTO_OK);
}

static void a_rank_that_dies_is_noticed_in_every_collective(void **state)
{
    static const useconds_t times[] = { 0, 1000, 7000, 20000 };

    (void)state;
    for (uint32_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        on_processes(3, die, &times[i], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_is_what_one_rank_would_compute),
        cmocka_unit_test(so_it_is_for_sizes_around_every_border),
        cmocka_unit_test(so_it_is_for_processes),
        cmocka_unit_test(a_ring_gives_all_ranks_the_same_bits),
        cmocka_unit_test(buffers_may_lie_in_windows),
        cmocka_unit_test(data_of_any_type_moves),
        cmocka_unit_test(arguments_that_differ_are_told_on_all_ranks),
        cmocka_unit_test(a_rank_that_is_refused_leaves_nobody_waiting),
        cmocka_unit_test(a_domain_that_there_is_not_is_refused),
        cmocka_unit_test(a_rank_that_is_late_tears_the_collectives_only),
        cmocka_unit_test(a_rank_that_dies_is_noticed_in_every_collective),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

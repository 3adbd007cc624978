/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The geometry of pairs of regions: a case for each rule of docs/user/ordering.md, and random pairs
 * of views compared with two oracles: sets of bytes, which give the truth, and a literal
 * implementation of the document's rules, which gives the required answer.
 */
#include "tests/fixture/port_test.h"

enum { PAIRS = 200000, SET_BASE = 1 << 16, SET_BYTES = 17 * 64 };

#define DIMS(...) ((const uint32_t[]){ __VA_ARGS__ })

/* ---- oracles ---- */

struct byte_set {
    uint64_t word[SET_BYTES / 64];
};

static void set_fill(struct byte_set *set, const struct pto_tensor *t)
{
    uint32_t e = pto_dtype_size(t->dtype);

    memset(set, 0, sizeof(*set));
    for (uint64_t n = pto_tensor_numel(t); n-- > 0;)
        for (uint32_t b = 0; b < e; b++) {
            uint64_t at = t->addr - SET_BASE + element_at(t, n) * e + b;

            assert_true(at < SET_BYTES);
            set->word[at / 64] |= 1ull << at % 64;
        }
}

static bool sets_meet(const struct byte_set *a, const struct byte_set *b)
{
    for (uint32_t i = 0; i < SET_BYTES / 64; i++)
        if ((a->word[i] & b->word[i]) != 0)
            return true;
    return false;
}

static bool set_contains(const struct byte_set *a, const struct byte_set *b)
{
    for (uint32_t i = 0; i < SET_BYTES / 64; i++)
        if ((b->word[i] & ~a->word[i]) != 0)
            return false;
    return true;
}

/* A region in the terms of the document. */
struct rule_region {
    const struct pto_tensor *t;
    struct byte_set bytes;
    uint64_t first, end; /* interval in bytes */
    bool is_box, is_dense;
    uint32_t stride[PTO_MAX_DIMS], shape[PTO_MAX_DIMS];
    uint64_t low[PTO_MAX_DIMS], rest;
};

/*
 * Decomposes the offset greedily; false if it does not fit, which only the first dimension may
 * exceed.
 */
static bool rule_decompose(struct rule_region *x)
{
    uint64_t left = x->t->start;
    bool fits = true;

    for (uint32_t d = 0; d < x->t->ndims; d++) {
        x->low[d] = left / x->stride[d];
        left %= x->stride[d];
    }
    x->rest = left;
    for (uint32_t d = 1; d < x->t->ndims; d++)
        fits = fits && x->stride[d - 1] % x->stride[d] == 0 &&
               x->low[d] + x->shape[d] <= x->stride[d - 1] / x->stride[d];
    return fits;
}

static void rule_init_safe(struct rule_region *x, const struct pto_tensor *t)
{
    uint32_t e = pto_dtype_size(t->dtype), n = 0;
    bool is_taken[PTO_MAX_DIMS] = { false };

    x->t = t;
    set_fill(&x->bytes, t);
    x->first = t->addr + t->start * e;
    x->end = x->first + t->extent * e;
    for (; n < t->ndims; n++) { /* the largest remaining stride; of equal ones the first */
        uint32_t best = PTO_MAX_DIMS;

        for (uint32_t d = 0; d < t->ndims; d++)
            if (!is_taken[d] && (best == PTO_MAX_DIMS || t->strides[d] > t->strides[best]))
                best = d;
        is_taken[best] = true;
        x->stride[n] = t->strides[best];
        x->shape[n] = t->shapes[best];
    }
    x->is_box = rule_decompose(x);
    x->is_dense = t->is_contiguous || (x->is_box && pto_tensor_numel(t) == t->extent);
}

static bool rule_same_frame(const struct rule_region *a, const struct rule_region *b)
{
    return a->is_box && b->is_box && a->t->addr == b->t->addr && a->t->ndims == b->t->ndims &&
           pto_dtype_size(a->t->dtype) == pto_dtype_size(b->t->dtype) &&
           memcmp(a->stride, b->stride, a->t->ndims * sizeof(a->stride[0])) == 0;
}

static bool rule_ranges_meet(const struct rule_region *a, const struct rule_region *b)
{
    for (uint32_t d = 0; d < a->t->ndims; d++)
        if (a->low[d] + a->shape[d] <= b->low[d] || b->low[d] + b->shape[d] <= a->low[d])
            return false;
    return true;
}

static bool rule_ranges_contain(const struct rule_region *a, const struct rule_region *b)
{
    for (uint32_t d = 0; d < a->t->ndims; d++)
        if (a->low[d] > b->low[d] || a->low[d] + a->shape[d] < b->low[d] + b->shape[d])
            return false;
    return true;
}

static bool rule_overlaps_safe(const struct rule_region *a, const struct rule_region *b)
{
    if (a->first >= b->end || b->first >= a->end)
        return false;
    if (a->is_dense && b->is_dense)
        return true;
    if ((a->is_dense && b->is_box) || (a->is_box && b->is_dense))
        return sets_meet(&a->bytes, &b->bytes);
    if (rule_same_frame(a, b))
        return a->rest == b->rest && rule_ranges_meet(a, b);
    return true;
}

static bool rule_covers_safe(const struct rule_region *a, const struct rule_region *b)
{
    bool is_same;

    if (a->is_dense)
        return a->first <= b->first && b->end <= a->end;
    if (b->is_dense)
        return false;
    if (rule_same_frame(a, b) && a->rest == b->rest && rule_ranges_contain(a, b))
        return true;
    is_same = a->t->addr == b->t->addr && a->t->start == b->t->start &&
              a->t->ndims == b->t->ndims &&
              pto_dtype_size(a->t->dtype) == pto_dtype_size(b->t->dtype);
    return is_same && memcmp(a->stride, b->stride, a->t->ndims * sizeof(a->stride[0])) == 0 &&
           memcmp(a->shape, b->shape, a->t->ndims * sizeof(a->shape[0])) == 0;
}

static enum overlap rule_safe(const struct rule_region *a, const struct rule_region *b)
{
    if (!rule_overlaps_safe(a, b))
        return OVERLAP_NONE;
    return rule_covers_safe(a, b) ? OVERLAP_COVERS : OVERLAP_SOME;
}

/* Rule 3 of deps=simpler, for one of the two regions. */
static bool rule_init_simpler(struct rule_region *x, const struct pto_tensor *t)
{
    uint64_t elements = t->size / pto_dtype_size(t->dtype);

    x->t = t;
    memcpy(x->stride, t->strides, sizeof(x->stride));
    memcpy(x->shape, t->shapes, sizeof(x->shape));
    return rule_decompose(x) && t->strides[t->ndims - 1] == 1 && elements % t->strides[0] == 0 &&
           x->low[0] + t->shapes[0] <= elements / t->strides[0];
}

static enum overlap rule_simpler(const struct pto_tensor *p, const struct pto_tensor *e)
{
    struct rule_region a, b;
    bool a_fits = rule_init_simpler(&a, p), b_fits = rule_init_simpler(&b, e);

    if (p->addr != e->addr)
        return OVERLAP_NONE;
    if (p->version > e->version)
        return OVERLAP_SOME;
    if (p->start >= e->start + e->extent || e->start >= p->start + p->extent)
        return OVERLAP_NONE;
    if (!a_fits || !b_fits || p->dtype != e->dtype || p->ndims != e->ndims ||
        memcmp(p->strides, e->strides, p->ndims * sizeof(p->strides[0])) != 0)
        return OVERLAP_SOME;
    if (!rule_ranges_meet(&a, &b))
        return OVERLAP_NONE;
    return rule_ranges_contain(&a, &b) ? OVERLAP_COVERS : OVERLAP_SOME;
}

/* ---- what the named cases use ---- */

static struct pto_tensor matrix(uint32_t rows, uint32_t columns)
{
    return pto_tensor_external((void *)(uintptr_t)SET_BASE, DIMS(rows, columns), 2, PTO_FLOAT32);
}

static struct pto_tensor tile_of(const struct pto_tensor *t, uint32_t row, uint32_t column,
                                 uint32_t rows, uint32_t columns)
{
    return pto_tensor_view(t, DIMS(rows, columns), DIMS(row, column));
}

static enum overlap safe_of(const struct pto_tensor *a, const struct pto_tensor *b)
{
    struct geom x, y;

    geom_init_safe(&x, a);
    geom_init_safe(&y, b);
    return overlap_safe(&x, &y);
}

static enum overlap simpler_of(const struct pto_tensor *a, const struct pto_tensor *b)
{
    struct geom x, y;

    geom_init_simpler(&x, a);
    geom_init_simpler(&y, b);
    return overlap_simpler(&x, &y);
}

static uint32_t safe_kind(const struct pto_tensor *t)
{
    struct geom x;

    geom_init_safe(&x, t);
    return x.kind;
}

/* ---- the rules of deps=safe ---- */

static void regions_are_dense_boxes_or_neither(void **state)
{
    struct pto_tensor m = matrix(8, 8), v, w;

    (void)state;
    assert_int_equal(safe_kind(&m), REGION_CONTIGUOUS);
    v = pto_tensor_transpose(&m, 0, 1);
    assert_int_equal(safe_kind(&v), REGION_CONTIGUOUS); /* fills its interval */
    v = tile_of(&m, 2, 2, 3, 3);
    assert_int_equal(safe_kind(&v), REGION_BOX);
    v = pto_tensor_transpose(&v, 0, 1);
    assert_int_equal(safe_kind(&v), REGION_BOX);
    v = tile_of(&m, 2, 2, 1, 1);
    assert_int_equal(safe_kind(&v), REGION_CONTIGUOUS); /* one element, whatever its strides */
    v = pto_tensor_slice(&m, 1, 0, 8, 2);
    assert_int_equal(safe_kind(&v), REGION_BOX);
    v = pto_tensor_slice(&m, 1, 0, 8, 3); /* 3 does not divide 8 */
    assert_int_equal(safe_kind(&v), REGION_OTHER);
    w = pto_tensor_reshape(&m, DIMS(64), 1);
    w = pto_tensor_view(&w, DIMS(48), DIMS(4));
    w = pto_tensor_reshape(&w, DIMS(6, 8), 2);
    v = tile_of(&w, 0, 0, 2, 5); /* starts in the middle of a row and leaves it */
    assert_int_equal(safe_kind(&v), REGION_OTHER);
    v = tile_of(&w, 0, 0, 2, 4);
    assert_int_equal(safe_kind(&v), REGION_BOX);
}

static void disjoint_intervals_do_not_overlap(void **state)
{
    struct pto_tensor m = matrix(8, 8);
    struct pto_tensor a = tile_of(&m, 0, 0, 4, 8), b = tile_of(&m, 4, 0, 4, 8);
    struct pto_tensor c = tile_of(&m, 0, 0, 2, 3), d = tile_of(&m, 2, 5, 2, 3);

    (void)state;
    assert_int_equal(safe_of(&a, &b), OVERLAP_NONE);
    assert_int_equal(safe_of(&b, &a), OVERLAP_NONE);
    assert_int_equal(safe_of(&c, &d), OVERLAP_NONE);
}

/* An empty view is neither looked up nor recorded, so it is never compared. */
static void an_empty_region_has_an_empty_interval(void **state)
{
    struct pto_tensor m = matrix(8, 8);
    struct pto_tensor part = tile_of(&m, 2, 2, 4, 4);
    struct pto_tensor none = pto_tensor_view(&part, DIMS(0, 4), DIMS(0, 0));
    struct geom x;

    (void)state;
    geom_init_safe(&x, &none);
    assert_true(x.lo == x.hi && x.lo == SET_BASE + 18 * 4);
    geom_init_simpler(&x, &none);
    assert_true(x.lo == x.hi && x.lo == 18);
}

static void dense_regions_compare_as_intervals(void **state)
{
    struct pto_tensor m = matrix(8, 8), turned = pto_tensor_transpose(&m, 0, 1);
    struct pto_tensor a = tile_of(&m, 0, 0, 4, 8), b = tile_of(&m, 3, 0, 4, 8);
    struct pto_tensor halves =
        pto_tensor_external((void *)(uintptr_t)(SET_BASE + 2), DIMS(4), 1, PTO_FLOAT16);

    (void)state;
    assert_int_equal(safe_of(&a, &b), OVERLAP_SOME);
    assert_int_equal(safe_of(&m, &b), OVERLAP_COVERS);
    assert_int_equal(safe_of(&b, &m), OVERLAP_SOME);
    assert_int_equal(safe_of(&m, &m), OVERLAP_COVERS);
    assert_int_equal(safe_of(&m, &turned), OVERLAP_COVERS);
    assert_int_equal(safe_of(&turned, &m), OVERLAP_COVERS);
    assert_int_equal(safe_of(&a, &halves), OVERLAP_COVERS); /* across buffers and types */
    assert_int_equal(safe_of(&halves, &a), OVERLAP_SOME);
}

static void an_interval_meets_a_box_only_in_its_elements(void **state)
{
    struct pto_tensor m = matrix(8, 8);
    struct pto_tensor box = tile_of(&m, 2, 2, 4, 3); /* columns 2..4 of rows 2..5 */
    struct pto_tensor gap = tile_of(&m, 2, 5, 1, 3); /* columns 5..7 of row 2 */
    struct pto_tensor left = tile_of(&m, 3, 0, 1, 2);
    struct pto_tensor last = tile_of(&m, 5, 4, 1, 4);
    struct pto_tensor flat = pto_tensor_reshape(&m, DIMS(64), 1);
    struct pto_tensor between, touching;

    (void)state;
    assert_int_equal(safe_kind(&gap), REGION_CONTIGUOUS);
    assert_int_equal(safe_of(&gap, &box), OVERLAP_NONE);
    assert_int_equal(safe_of(&box, &gap), OVERLAP_NONE);
    assert_int_equal(safe_of(&left, &box), OVERLAP_NONE);
    assert_int_equal(safe_of(&last, &box), OVERLAP_SOME);
    assert_int_equal(safe_of(&box, &last), OVERLAP_SOME);
    between = pto_tensor_view(&flat, DIMS(5), DIMS(21)); /* row 2 column 5 to row 3 column 1 */
    assert_int_equal(safe_of(&between, &box), OVERLAP_NONE);
    touching = pto_tensor_view(&flat, DIMS(6), DIMS(21));
    assert_int_equal(safe_of(&touching, &box), OVERLAP_SOME);
    assert_int_equal(safe_of(&m, &box), OVERLAP_COVERS);
    assert_int_equal(safe_of(&box, &m), OVERLAP_SOME);
}

static void an_interval_may_cut_an_element_of_a_box(void **state)
{
    struct pto_tensor m = matrix(4, 4);
    struct pto_tensor box = tile_of(&m, 0, 1, 4, 2); /* bytes 4..11 of each 16 */
    struct pto_tensor byte =
        pto_tensor_external((void *)(uintptr_t)(SET_BASE + 16 + 7), DIMS(1), 1, PTO_INT8);

    (void)state;
    assert_int_equal(safe_of(&byte, &box), OVERLAP_SOME);
    byte.addr = SET_BASE + 16 + 12;
    assert_int_equal(safe_of(&byte, &box), OVERLAP_NONE);
    byte.addr = SET_BASE + 16 + 3;
    assert_int_equal(safe_of(&byte, &box), OVERLAP_NONE);
}

static void boxes_of_one_frame_compare_by_ranges(void **state)
{
    struct pto_tensor m = matrix(8, 8);
    struct pto_tensor a = tile_of(&m, 0, 0, 4, 4), right = tile_of(&m, 0, 4, 4, 4);
    struct pto_tensor shifted = tile_of(&m, 3, 3, 4, 4), inner = tile_of(&m, 1, 1, 2, 2);
    struct pto_tensor turned = pto_tensor_transpose(&right, 0, 1);

    (void)state;
    assert_int_equal(safe_of(&a, &right), OVERLAP_NONE);
    assert_int_equal(safe_of(&a, &turned), OVERLAP_NONE); /* sorted strides are equal */
    assert_int_equal(safe_of(&a, &shifted), OVERLAP_SOME);
    assert_int_equal(safe_of(&a, &inner), OVERLAP_COVERS);
    assert_int_equal(safe_of(&inner, &a), OVERLAP_SOME);
    assert_int_equal(safe_of(&right, &turned), OVERLAP_COVERS);
}

static void boxes_of_different_rest_are_disjoint(void **state)
{
    struct pto_tensor m = matrix(8, 8);
    struct pto_tensor even = pto_tensor_slice(&m, 1, 0, 8, 2);
    struct pto_tensor odd = pto_tensor_slice(&m, 1, 1, 8, 2);

    (void)state;
    assert_int_equal(safe_kind(&even), REGION_BOX);
    assert_int_equal(safe_kind(&odd), REGION_BOX);
    assert_int_equal(safe_of(&even, &odd), OVERLAP_NONE);
    assert_int_equal(safe_of(&even, &even), OVERLAP_COVERS);
}

static void other_pairs_are_taken_to_overlap(void **state)
{
    struct pto_tensor m = matrix(8, 8);
    struct pto_tensor thirds = pto_tensor_slice(&m, 1, 0, 7, 3);
    struct pto_tensor others = pto_tensor_slice(&m, 1, 1, 8, 3);
    struct pto_tensor narrow = pto_tensor_reshape(&m, DIMS(16, 4), 2);
    struct pto_tensor a = tile_of(&m, 0, 0, 8, 4), b = tile_of(&narrow, 1, 0, 8, 3);

    (void)state;
    assert_int_equal(safe_of(&thirds, &others), OVERLAP_SOME); /* no byte in common */
    assert_int_equal(safe_of(&a, &b), OVERLAP_SOME);           /* two frames */
    assert_int_equal(safe_of(&thirds, &thirds), OVERLAP_COVERS);
    assert_int_equal(safe_of(&thirds, &a), OVERLAP_SOME);
}

/* ---- the rules of deps=simpler ---- */

static void simpler_compares_equal_addresses_only(void **state)
{
    struct pto_tensor a = matrix(8, 8), b = matrix(8, 8);

    (void)state;
    b.addr += 4;
    assert_int_equal(simpler_of(&a, &b), OVERLAP_NONE);
    assert_int_equal(safe_of(&a, &b), OVERLAP_SOME);
}

static void simpler_takes_a_newer_version_to_overlap(void **state)
{
    struct pto_tensor m = matrix(8, 8);
    struct pto_tensor a = tile_of(&m, 0, 0, 4, 8), b = tile_of(&m, 4, 0, 4, 8);

    (void)state;
    a.version = 1;
    assert_int_equal(simpler_of(&a, &b), OVERLAP_SOME);
    assert_int_equal(simpler_of(&b, &a), OVERLAP_NONE);
    b = m;
    assert_int_equal(simpler_of(&a, &b), OVERLAP_SOME);
    assert_int_equal(simpler_of(&b, &a), OVERLAP_COVERS);
}

static void simpler_is_exact_for_boxes_of_equal_strides(void **state)
{
    struct pto_tensor m = matrix(8, 8);
    struct pto_tensor a = tile_of(&m, 0, 0, 4, 4), b = tile_of(&m, 0, 4, 4, 4);
    struct pto_tensor inner = tile_of(&m, 1, 1, 2, 2), shifted = tile_of(&m, 3, 3, 4, 4);

    (void)state;
    assert_int_equal(simpler_of(&a, &b), OVERLAP_NONE);
    assert_int_equal(simpler_of(&a, &inner), OVERLAP_COVERS);
    assert_int_equal(simpler_of(&inner, &a), OVERLAP_SOME);
    assert_int_equal(simpler_of(&a, &shifted), OVERLAP_SOME);
    assert_int_equal(simpler_of(&m, &a), OVERLAP_COVERS);
}

static void simpler_takes_the_rest_to_overlap(void **state)
{
    struct pto_tensor m = matrix(8, 8), turned = pto_tensor_transpose(&m, 0, 1);
    struct pto_tensor even = pto_tensor_slice(&m, 1, 0, 8, 2);
    struct pto_tensor odd = pto_tensor_slice(&m, 1, 1, 8, 2);
    struct pto_tensor ints = matrix(8, 8), odd_size = matrix(8, 8);
    struct pto_tensor a = tile_of(&m, 0, 0, 4, 4), b;

    (void)state;
    assert_int_equal(simpler_of(&turned, &turned), OVERLAP_SOME); /* innermost stride is not 1 */
    assert_int_equal(simpler_of(&even, &odd), OVERLAP_SOME);
    ints.dtype = PTO_INT32; /* as wide, but another type */
    b = tile_of(&ints, 0, 4, 4, 4);
    assert_int_equal(simpler_of(&a, &b), OVERLAP_SOME);
    odd_size.size += 4; /* no whole number of rows */
    b = tile_of(&odd_size, 0, 4, 4, 4);
    assert_int_equal(simpler_of(&a, &b), OVERLAP_SOME);
    b.size = m.size;
    assert_int_equal(simpler_of(&a, &b), OVERLAP_NONE);
}

/* ---- random pairs ---- */

static struct pto_tensor random_region(struct rng *r)
{
    static const uint16_t shift[8] = { 0, 0, 0, 0, 0, 4, 64, 67 };
    static const uint8_t types[6] = { PTO_FLOAT32, PTO_FLOAT32, PTO_INT32,
                                      PTO_FLOAT16, PTO_INT8,    PTO_INT64 };
    static const uint16_t square[5] = { 96, 8, 5, 3, 2 };
    uint32_t shape[PTO_MAX_DIMS], ndims = 1 + rng_below(r, PTO_MAX_DIMS);
    bool is_common = rng_below(r, 2) == 0; /* a buffer that other regions use, too */
    struct pto_tensor t;

    for (uint32_t d = 0; d < ndims; d++)
        shape[d] = is_common ? square[ndims - 1] : 1 + rng_below(r, square[ndims - 1]);
    t = pto_tensor_external((void *)(uintptr_t)(SET_BASE + shift[rng_below(r, 8)]), shape, ndims,
                            types[is_common ? 0 : rng_below(r, 6)]);
    if (rng_below(r, 8) == 0)
        t.size = (t.size + 63) / 64 * 64;
    return random_view(r, &t);
}

static void random_pairs_follow_the_rules_of_safe(void **state)
{
    struct rng r = { 2 };
    uint32_t seen[3] = { 0 };

    (void)state;
    for (uint32_t i = 0; i < PAIRS / TEST_SHARE; i++) {
        struct pto_tensor t = random_region(&r);
        struct pto_tensor u = rng_below(&r, 4) == 0 ? random_view(&r, &t) : random_region(&r);
        struct rule_region a, b;
        struct geom x, y;
        enum overlap o;

        rule_init_safe(&a, &t);
        rule_init_safe(&b, &u);
        geom_init_safe(&x, &t);
        geom_init_safe(&y, &u);
        assert_int_equal(x.kind, a.is_dense ? REGION_CONTIGUOUS
                                 : a.is_box ? REGION_BOX
                                            : REGION_OTHER);
        o = overlap_safe(&x, &y);
        seen[o]++;
        if (o == OVERLAP_NONE)
            assert_false(sets_meet(&a.bytes, &b.bytes));
        if (o == OVERLAP_COVERS)
            assert_true(set_contains(&a.bytes, &b.bytes));
        if (o != OVERLAP_NONE && ((a.is_dense && (b.is_dense || b.is_box)) ||
                                  (a.is_box && b.is_dense) || rule_same_frame(&a, &b)))
            assert_true(sets_meet(&a.bytes, &b.bytes));
        assert_int_equal(o, rule_safe(&a, &b));
        assert_int_equal(geom_equal(&x, &y), rule_covers_safe(&a, &b) && rule_covers_safe(&b, &a));
        if (x.kind == REGION_BOX && y.kind == REGION_BOX)
            assert_int_equal(geom_same_frame(&x, &y), rule_same_frame(&a, &b));
    }
    for (uint32_t o = 0; o < 3; o++)
        assert_true(seen[o] > PAIRS / TEST_SHARE / 50);
}

static void random_pairs_follow_the_rules_of_simpler(void **state)
{
    struct rng r = { 3 };
    uint32_t seen[3] = { 0 };

    (void)state;
    for (uint32_t i = 0; i < PAIRS / TEST_SHARE; i++) {
        struct pto_tensor t = random_region(&r);
        struct pto_tensor u = rng_below(&r, 4) == 0 ? random_view(&r, &t) : random_region(&r);
        enum overlap o;

        t.version = rng_below(&r, 16) == 0;
        u.version = rng_below(&r, 16) == 0;
        o = simpler_of(&t, &u);
        seen[o]++;
        assert_int_equal(o, rule_simpler(&t, &u));
        /* otherwise the reference's rules may give a wrong answer */
        if (t.addr == u.addr && t.dtype == u.dtype) {
            struct byte_set a, b;

            set_fill(&a, &t);
            set_fill(&b, &u);
            if (o == OVERLAP_NONE)
                assert_false(sets_meet(&a, &b));
            if (o == OVERLAP_COVERS)
                assert_true(set_contains(&a, &b));
        }
    }
    for (uint32_t o = 0; o < 3; o++)
        assert_true(seen[o] > PAIRS / TEST_SHARE / 50);
}

static const struct CMUnitTest overlap_tests[] = {
    cmocka_unit_test(regions_are_dense_boxes_or_neither),
    cmocka_unit_test(disjoint_intervals_do_not_overlap),
    cmocka_unit_test(an_empty_region_has_an_empty_interval),
    cmocka_unit_test(dense_regions_compare_as_intervals),
    cmocka_unit_test(an_interval_meets_a_box_only_in_its_elements),
    cmocka_unit_test(an_interval_may_cut_an_element_of_a_box),
    cmocka_unit_test(boxes_of_one_frame_compare_by_ranges),
    cmocka_unit_test(boxes_of_different_rest_are_disjoint),
    cmocka_unit_test(other_pairs_are_taken_to_overlap),
    cmocka_unit_test(simpler_compares_equal_addresses_only),
    cmocka_unit_test(simpler_takes_a_newer_version_to_overlap),
    cmocka_unit_test(simpler_is_exact_for_boxes_of_equal_strides),
    cmocka_unit_test(simpler_takes_the_rest_to_overlap),
    cmocka_unit_test(random_pairs_follow_the_rules_of_safe),
    cmocka_unit_test(random_pairs_follow_the_rules_of_simpler),
};

TEST_MAIN(overlap_tests)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor descriptors and views. The compiler checks offsets and sizes. Random chains of views are
 * compared with a list that has the place of every element and does not use strides.
 */
#include "tests/fixture/port_test.h"

#define AT(type, member, offset) \
    _Static_assert(offsetof(struct type, member) == (offset), #type "." #member " is an ABI")

AT(pto_tensor, addr, 0);
AT(pto_tensor, size, 8);
AT(pto_tensor, owner, 16);
AT(pto_tensor, start, 24);
AT(pto_tensor, version, 32);
AT(pto_tensor, ndims, 36);
AT(pto_tensor, dtype, 40);
AT(pto_tensor, manual_dep, 41);
AT(pto_tensor, is_contiguous, 42);
AT(pto_tensor, space, 43);
AT(pto_tensor, shapes, 44);
AT(pto_tensor, extent, 64);
AT(pto_tensor, strides, 72);
AT(pto_tensor, fault, 92);
AT(pto_tensor, tag, 93);
AT(pto_tensor, reserved, 94);
AT(pto_tensor_info, initial_value, 0);
AT(pto_tensor_info, has_initial_value, 8);
AT(pto_tensor_info, start, 24);
AT(pto_tensor_info, version, 32);
AT(pto_tensor_info, ndims, 36);
AT(pto_tensor_info, dtype, 40);
AT(pto_tensor_info, manual_dep, 41);
AT(pto_tensor_info, is_contiguous, 42);
AT(pto_tensor_info, space, 43);
AT(pto_tensor_info, shapes, 44);
_Static_assert(sizeof(struct pto_tensor) == 128 && _Alignof(struct pto_tensor) == 64, "an ABI");
_Static_assert(sizeof(struct pto_tensor_info) == 64, "an ABI");
_Static_assert(_Alignof(struct pto_tensor_info) == 64, "an ABI");
_Static_assert(sizeof(struct pto_task_id) == 8, "an ABI");
_Static_assert(sizeof(((struct pto_tensor *)NULL)->shapes) == 20, "an ABI");
_Static_assert(sizeof(((struct pto_tensor *)NULL)->version) == 4, "an ABI");

#define U32(...) ((const uint32_t[]){ __VA_ARGS__ })

static char tensor_memory[64];

static void types_have_the_numbers_sizes_and_names_of_the_contract(void **state)
{
    static const struct {
        uint32_t number;
        uint32_t bytes;
        const char *name;
    } want[] = { { PTO_FLOAT32, 4, "FLOAT32" },     { PTO_FLOAT16, 2, "FLOAT16" },
                 { PTO_INT32, 4, "INT32" },         { PTO_INT16, 2, "INT16" },
                 { PTO_INT8, 1, "INT8" },           { PTO_UINT8, 1, "UINT8" },
                 { PTO_BFLOAT16, 2, "BFLOAT16" },   { PTO_INT64, 8, "INT64" },
                 { PTO_UINT64, 8, "UINT64" },       { PTO_UINT16, 2, "UINT16" },
                 { PTO_UINT32, 4, "UINT32" },       { PTO_BOOL, 1, "BOOL" },
                 { PTO_FP8E4M3FN, 1, "FP8E4M3FN" }, { PTO_FP8E8M0, 1, "FP8E8M0" },
                 { PTO_FP4E2M1, 1, "FP4E2M1" } };

    (void)state;
    assert_int_equal(sizeof(want) / sizeof(want[0]), PTO_DTYPE_COUNT);
    for (uint32_t i = 0; i < PTO_DTYPE_COUNT; i++) {
        assert_int_equal(want[i].number, i);
        assert_int_equal(pto_dtype_size(i), want[i].bytes);
        assert_string_equal(pto_dtype_name(i), want[i].name);
    }
    assert_int_equal(pto_dtype_size(PTO_DTYPE_COUNT), 0);
    assert_string_equal(pto_dtype_name(PTO_DTYPE_COUNT), "UNKNOWN");
    assert_int_equal(PTO_SPACE_HOST, 0);
    assert_int_equal(PTO_SPACE_DEVICE, 1);
}

static void task_ids_hold_ring_and_counter(void **state)
{
    struct pto_task_id id = pto_task_id_make(3, 0xfffffffe);

    (void)state;
    assert_true(id.raw == 0x3fffffffeull);
    assert_int_equal(pto_task_id_ring(id), 3);
    assert_true(pto_task_id_local(id) == 0xfffffffe);
    assert_true(pto_task_id_is_valid(id));
    assert_true(pto_task_id_is_valid(pto_task_id_make(0, 0)));
    assert_false(pto_task_id_is_valid(pto_task_id_invalid()));
    assert_true(pto_task_id_invalid().raw == UINT64_MAX);
}

static void external_memory_is_row_major_and_nobodys(void **state)
{
    struct pto_tensor t = pto_tensor_external(tensor_memory, U32(2, 3, 4), 3, PTO_FLOAT16);

    (void)state;
    assert_true(t.addr == (uint64_t)(uintptr_t)tensor_memory);
    assert_int_equal(t.size, 48);
    assert_false(pto_task_id_is_valid(t.owner));
    assert_int_equal(t.start, 0);
    assert_int_equal(t.version, 0);
    assert_int_equal(t.ndims, 3);
    assert_int_equal(t.dtype, PTO_FLOAT16);
    assert_false(t.manual_dep);
    assert_true(t.is_contiguous);
    assert_int_equal(t.space, PTO_SPACE_HOST);
    assert_int_equal(t.strides[0], 12);
    assert_int_equal(t.strides[1], 4);
    assert_int_equal(t.strides[2], 1);
    assert_int_equal(t.extent, 24);
    assert_int_equal(pto_tensor_numel(&t), 24);
    assert_int_equal(pto_tensor_bytes(&t), 48);
    assert_ptr_equal(pto_tensor_data(&t), tensor_memory);
}

static void external_memory_without_elements_is_valid(void **state)
{
    struct pto_tensor t = pto_tensor_external(tensor_memory, U32(4, 0, 3), 3, PTO_INT32);

    (void)state;
    assert_int_equal(t.ndims, 3);
    assert_int_equal(t.size, 0);
    assert_int_equal(t.extent, 0);
    assert_true(t.is_contiguous);
    for (uint32_t d = 0; d < 3; d++)
        assert_true(t.strides[d] > 0);
}

static void a_box_moves_the_start_and_keeps_the_strides(void **state)
{
    struct pto_tensor t = pto_tensor_external(tensor_memory, U32(4, 4), 2, PTO_FLOAT32);
    struct pto_tensor v = pto_tensor_view(&t, U32(2, 2), U32(1, 2));

    (void)state;
    assert_int_equal(v.start, 6);
    assert_int_equal(v.strides[0], 4);
    assert_int_equal(v.strides[1], 1);
    assert_int_equal(v.extent, 6);
    assert_false(v.is_contiguous);
    assert_ptr_equal(pto_tensor_data(&v), tensor_memory + 24);
    v = pto_tensor_view(&v, U32(1, 2), U32(1, 0));
    assert_int_equal(v.start, 10);
    assert_int_equal(v.extent, 2);
    v = pto_tensor_view(&t, U32(4, 4), U32(0, 0));
    assert_true(v.is_contiguous);
}

static void an_empty_box_ignores_its_offsets(void **state)
{
    struct pto_tensor t = pto_tensor_external(tensor_memory, U32(4, 4), 2, PTO_FLOAT32);
    struct pto_tensor part = pto_tensor_view(&t, U32(2, 2), U32(1, 1));
    struct pto_tensor v = pto_tensor_view(&part, U32(2, 0), U32(100, 100));

    (void)state;
    assert_int_equal(v.fault, PTO_VIEW_OK);
    assert_int_equal(v.ndims, 2);
    assert_int_equal(v.start, part.start);
    assert_true(v.is_contiguous);
    assert_int_equal(v.extent, 0);
    assert_int_equal(pto_tensor_numel(&v), 0);
    v = pto_tensor_view(&part, U32(0, 7), U32(0, 0)); /* nor is its shape compared */
    assert_int_equal(v.ndims, 2);
    assert_int_equal(v.extent, 0);
    v = pto_tensor_slice(&part, 1, 1, 1, 1);
    assert_int_equal(v.start, part.start);
    assert_true(v.is_contiguous);
    assert_int_equal(v.extent, 0);
    v = pto_tensor_slice(&v, 1, 0, 0, 3);
    assert_int_equal(v.shapes[1], 0);
    assert_int_equal(v.extent, 0);
    v = pto_tensor_reshape(&v, U32(0, 5, 2), 3);
    assert_int_equal(v.ndims, 3);
    assert_int_equal(v.extent, 0);
}

static void contiguity_makes_no_exception_for_unit_dimensions(void **state)
{
    struct pto_tensor t = pto_tensor_external(tensor_memory, U32(4, 4), 2, PTO_FLOAT32);
    struct pto_tensor row = pto_tensor_view(&t, U32(1, 4), U32(2, 0));
    struct pto_tensor cell = pto_tensor_view(&t, U32(1, 1), U32(2, 2));
    struct pto_tensor column = pto_tensor_external(tensor_memory, U32(4, 1), 2, PTO_FLOAT32);
    struct pto_tensor turned = pto_tensor_transpose(&column, 0, 1);

    (void)state;
    assert_true(row.is_contiguous); /* its first stride is 4 = the row's length */
    assert_false(cell.is_contiguous);
    assert_int_equal(cell.extent, 1);
    assert_true(column.is_contiguous);
    assert_false(turned.is_contiguous); /* strides 1, 1 instead of 4, 1 */
    assert_int_equal(turned.extent, 4);
}

static void a_reshape_keeps_the_elements(void **state)
{
    struct pto_tensor t = pto_tensor_external(tensor_memory, U32(4, 4), 2, PTO_FLOAT32);
    struct pto_tensor half = pto_tensor_view(&t, U32(2, 4), U32(2, 0));
    struct pto_tensor v = pto_tensor_reshape(&half, U32(2, 2, 2), 3);

    (void)state;
    assert_int_equal(v.ndims, 3);
    assert_int_equal(v.start, 8);
    assert_int_equal(v.strides[0], 4);
    assert_int_equal(v.strides[1], 2);
    assert_int_equal(v.strides[2], 1);
    assert_int_equal(v.extent, 8);
    assert_true(v.is_contiguous);
}

static void transpose_permute_and_slice_change_strides_only(void **state)
{
    struct pto_tensor t = pto_tensor_external(tensor_memory, U32(2, 3, 2), 3, PTO_FLOAT32);
    struct pto_tensor v = pto_tensor_transpose(&t, 0, 2);

    (void)state;
    assert_int_equal(v.shapes[0], 2);
    assert_int_equal(v.strides[0], 1);
    assert_int_equal(v.strides[2], 6);
    assert_int_equal(v.extent, 12);
    assert_false(v.is_contiguous);
    v = pto_tensor_transpose(&v, 2, 0);
    assert_true(v.is_contiguous);
    v = pto_tensor_transpose(&t, 1, 1);
    assert_true(v.is_contiguous);
    v = pto_tensor_permute(&t, U32(1, 2, 0));
    assert_int_equal(v.shapes[0], 3);
    assert_int_equal(v.strides[0], 2);
    assert_int_equal(v.strides[1], 1);
    assert_int_equal(v.strides[2], 6);
    v = pto_tensor_slice(&t, 1, 0, 3, 2);
    assert_int_equal(v.shapes[1], 2);
    assert_int_equal(v.strides[1], 4);
    assert_int_equal(v.extent, 12);
    v = pto_tensor_slice(&t, 1, 1, 3, 5);
    assert_int_equal(v.shapes[1], 1);
    assert_int_equal(v.start, 2);
}

static void every_view_forgets_manual_dep_and_keeps_the_rest(void **state)
{
    struct pto_tensor t = pto_tensor_external(tensor_memory, U32(4, 4), 2, PTO_FLOAT32);
    struct pto_tensor v[5];

    (void)state;
    t.manual_dep = true;
    t.version = 7;
    t.space = PTO_SPACE_DEVICE;
    t.owner = pto_task_id_make(1, 2);
    v[0] = pto_tensor_view(&t, U32(2, 2), U32(0, 0));
    v[1] = pto_tensor_reshape(&t, U32(16), 1);
    v[2] = pto_tensor_transpose(&t, 0, 1);
    v[3] = pto_tensor_permute(&t, U32(0, 1));
    v[4] = pto_tensor_slice(&t, 0, 0, 4, 2);
    for (uint32_t i = 0; i < 5; i++) {
        assert_false(v[i].manual_dep);
        assert_int_equal(v[i].version, 7);
        assert_int_equal(v[i].space, PTO_SPACE_DEVICE);
        assert_true(v[i].owner.raw == t.owner.raw);
        assert_true(v[i].addr == t.addr && v[i].size == t.size);
    }
}

/* A macro, so that a failure has the caller's line number. */
#define CHECK_FAULT(view, want)                     \
    do {                                            \
        struct pto_tensor fault_view = (view);      \
        assert_int_equal(fault_view.ndims, 0);      \
        assert_int_equal(fault_view.extent, 0);     \
        assert_int_equal(fault_view.fault, (want)); \
    } while (0)

static void impossible_views_say_why(void **state)
{
    struct pto_tensor t = pto_tensor_external(tensor_memory, U32(4, 4), 2, PTO_FLOAT32);
    struct pto_tensor part = pto_tensor_view(&t, U32(2, 2), U32(1, 1));

    (void)state;
    CHECK_FAULT((pto_tensor_external)(tensor_memory, U32(4), 0, PTO_INT8), PTO_VIEW_BAD_NDIMS);
    CHECK_FAULT(pto_tensor_external(tensor_memory, U32(1, 1, 1, 1, 1, 1), 6, PTO_INT8),
                PTO_VIEW_BAD_NDIMS);
    CHECK_FAULT(pto_tensor_external(tensor_memory, U32(4), 1, PTO_DTYPE_COUNT), PTO_VIEW_BAD_DTYPE);
    CHECK_FAULT(pto_tensor_view(&t, U32(4, 2), U32(0, 3)), PTO_VIEW_OUT_OF_RANGE);
    CHECK_FAULT(pto_tensor_view(&t, U32(5, 4), U32(0, 0)), PTO_VIEW_OUT_OF_RANGE);
    CHECK_FAULT(pto_tensor_view(&t, U32(2, 2), U32(UINT32_MAX, 0)), PTO_VIEW_OUT_OF_RANGE);
    CHECK_FAULT(pto_tensor_reshape(&part, U32(4), 1), PTO_VIEW_STRIDED);
    CHECK_FAULT(pto_tensor_reshape(&t, U32(4, 5), 2), PTO_VIEW_NUMEL);
    CHECK_FAULT((pto_tensor_reshape)(&t, U32(16), 0), PTO_VIEW_BAD_NDIMS);
    CHECK_FAULT(pto_tensor_reshape(&t, U32(16, 1, 1, 1, 1, 1), 6), PTO_VIEW_BAD_NDIMS);
    CHECK_FAULT(pto_tensor_permute(&t, U32(0, 2)), PTO_VIEW_BAD_DIM);
    CHECK_FAULT(pto_tensor_permute(&t, U32(1, 1)), PTO_VIEW_BAD_DIM);
    CHECK_FAULT(pto_tensor_transpose(&t, 0, 2), PTO_VIEW_BAD_DIM);
    CHECK_FAULT(pto_tensor_transpose(&t, 2, 0), PTO_VIEW_BAD_DIM);
    CHECK_FAULT(pto_tensor_slice(&t, 2, 0, 1, 1), PTO_VIEW_BAD_DIM);
    CHECK_FAULT(pto_tensor_slice(&t, 0, 0, 1, 0), PTO_VIEW_BAD_STEP);
    CHECK_FAULT(pto_tensor_slice(&t, 0, 2, 1, 1), PTO_VIEW_BAD_STEP);
    CHECK_FAULT(pto_tensor_external(NULL, (uint32_t[]){ 2, 1u << 31, 4 }, 3, PTO_INT8),
                PTO_VIEW_TOO_LARGE);
    CHECK_FAULT(pto_tensor_slice(&t, 0, 0, 5, 1), PTO_VIEW_OUT_OF_RANGE);
}

static void a_view_of_an_impossible_view_keeps_the_first_reason(void **state)
{
    struct pto_tensor t = pto_tensor_external(tensor_memory, U32(4, 4), 2, PTO_FLOAT32);
    struct pto_tensor bad = pto_tensor_view(&t, U32(5, 4), U32(0, 0));

    (void)state;
    CHECK_FAULT(pto_tensor_view(&bad, U32(1, 1), U32(0, 0)), PTO_VIEW_OUT_OF_RANGE);
    CHECK_FAULT(pto_tensor_reshape(&bad, U32(16), 1), PTO_VIEW_OUT_OF_RANGE);
    CHECK_FAULT(pto_tensor_permute(&bad, U32(1, 0)), PTO_VIEW_OUT_OF_RANGE);
    CHECK_FAULT(pto_tensor_transpose(&bad, 0, 1), PTO_VIEW_OUT_OF_RANGE);
    CHECK_FAULT(pto_tensor_slice(&bad, 0, 0, 1, 0), PTO_VIEW_OUT_OF_RANGE);
}

/* What is known about a refused view. */
static struct pto_refusal refusal_of(struct pto_tensor v)
{
    struct pto_refusal refusal;

    assert_int_equal(v.ndims, 0);
    assert_int_equal(v.fault, PTO_VIEW_MISCOUNTED);
    memcpy(&refusal, v.reserved + PTO_REFUSAL_AT, sizeof(refusal));
    return refusal;
}

#define CHECK_COUNTED(view, elements, dimensions)       \
    do {                                                \
        struct pto_refusal refusal = refusal_of(view);  \
                                                        \
        assert_int_equal(refusal.given, elements);      \
        assert_int_equal(refusal.expected, dimensions); \
        assert_int_equal(refusal.line, __LINE__);       \
    } while (0)

static void arrays_for_other_dimensions_are_refused(void **state)
{
    struct pto_tensor t = pto_tensor_external(tensor_memory, U32(4, 4), 2, PTO_FLOAT32);
    const uint32_t pair[] = { 2, 2 }, three[] = { 1, 1, 1 };
    volatile uint32_t ndims = 2; /* a value that the compiler does not know */
    struct pto_tensor bad = pto_tensor_view(&t, U32(1), U32(0));
    struct pto_tensor_info info;

    (void)state;
    CHECK_COUNTED(pto_tensor_view(&t, U32(2), U32(0)), 1, 2);
    CHECK_COUNTED(pto_tensor_view(&t, U32(2, 2, 1), U32(0, 0, 0)), 3, 2);
    CHECK_COUNTED(pto_tensor_view(&t, three, three), 3, 2);
    CHECK_COUNTED(pto_tensor_permute(&t, (const uint32_t[]){ 1, 0, 2 }), 3, 2);
    CHECK_COUNTED(pto_tensor_permute(&t, U32(0)), 1, 2);
    CHECK_COUNTED(pto_tensor_reshape(&t, (const uint32_t[]){ 4, 2, 2 }, ndims), 3, 2);
    CHECK_COUNTED(pto_tensor_reshape(&t, U32(16), ndims), 1, 2);
    CHECK_COUNTED(pto_tensor_external(tensor_memory, U32(4), ndims, PTO_INT8), 1, 2);
    CHECK_COUNTED(pto_tensor_external(tensor_memory, (uint32_t[]){ 4, 2, 1 }, ndims, PTO_INT8), 3,
                  2);
    assert_int_equal(refusal_of(pto_tensor_view(&bad, U32(1, 1), U32(0, 0))).given, 1);
    info = pto_tensor_info_make(three, ndims, PTO_INT8);
    assert_int_equal(info.ndims, 0);
    assert_int_equal(pto_tensor_view(&t, pair, pair).ndims, 2);
}

static void arrays_of_five_and_pointers_are_for_any_dimensions(void **state)
{
    struct pto_tensor t = pto_tensor_external(tensor_memory, (uint32_t[]){ 4, 4 }, 2, PTO_FLOAT32);
    struct pto_tensor five = pto_tensor_reshape(&t, (uint32_t[]){ 2, 2, 1, 2, 2 }, 5);
    uint32_t any[PTO_MAX_DIMS] = { 1, 0 }, table[] = { 9, 2, 2, 7 }, *inside = table + 1;
    const uint32_t zeros[PTO_MAX_DIMS] = { 0 };

    (void)state;
    assert_int_equal(five.ndims, 5);
    assert_int_equal(pto_tensor_permute(&t, any).ndims, 2);
    assert_int_equal(pto_tensor_view(&t, t.shapes, zeros).ndims, 2);
    assert_int_equal(pto_tensor_view(&t, inside, zeros).shapes[0], 2);
    assert_int_equal(pto_tensor_view(&t, (uint32_t[]){ 2, 2 }, (uint32_t[]){ 1, 1 }).shapes[0], 2);
    assert_int_equal(
        pto_tensor_view(&five, (uint32_t[]){ 1, 1, 1, 1, 1 }, (uint32_t[]){ 1, 1, 0, 1, 1 }).ndims,
        5);
    assert_int_equal(pto_tensor_info_make(t.shapes, t.ndims, PTO_INT8).ndims, 2);
}

static void a_create_info_describes_a_row_major_output(void **state)
{
    struct pto_tensor_info info = pto_tensor_info_make(U32(3, 5), 2, PTO_INT64);

    (void)state;
    assert_int_equal(info.ndims, 2);
    assert_int_equal(info.shapes[0], 3);
    assert_int_equal(info.shapes[1], 5);
    assert_int_equal(info.shapes[2], 0);
    assert_int_equal(info.dtype, PTO_INT64);
    assert_true(info.is_contiguous);
    assert_false(info.manual_dep);
    assert_false(info.has_initial_value);
    assert_int_equal(info.start, 0);
    pto_tensor_info_fill(&info, 0x1122334455667788ull);
    assert_true(info.has_initial_value);
    assert_true(info.initial_value == 0x1122334455667788ull);
    assert_int_equal((pto_tensor_info_make)(U32(3), 0, PTO_INT8).ndims, 0);
    assert_int_equal(pto_tensor_info_make(U32(1, 1, 1, 1, 1, 1), 6, PTO_INT8).ndims, 0);
    assert_int_equal(pto_tensor_info_make(U32(3), 1, PTO_DTYPE_COUNT).ndims, 0);
}

/* ---- chains of views against a list of elements ---- */

enum { LIST_MAX = 1024 };

struct element_list {
    uint32_t ndims;
    uint32_t shape[PTO_MAX_DIMS];
    uint32_t count;
    uint32_t at[LIST_MAX]; /* elements from the buffer's first, in row-major order */
};

/* Index i of dimension d of the result is index base[d] + i * step[d] of dimension from[d]. */
static void list_pick(struct element_list *list, const uint32_t shape[], const uint32_t from[],
                      const uint32_t base[], const uint32_t step[])
{
    struct element_list old = *list;

    list->count = 1;
    for (uint32_t d = 0; d < old.ndims; d++) {
        list->shape[d] = shape[d];
        list->count *= shape[d];
    }
    for (uint32_t n = 0; n < list->count; n++) {
        uint32_t index[PTO_MAX_DIMS] = { 0 };
        uint32_t left = n, place = 0;

        for (uint32_t d = old.ndims; d-- > 0;) {
            index[from[d]] = base[d] + left % shape[d] * step[d];
            left /= shape[d];
        }
        for (uint32_t d = 0; d < old.ndims; d++)
            place = place * old.shape[d] + index[d];
        list->at[n] = old.at[place];
    }
}

static void check_list(const struct element_list *list, const struct pto_tensor *t)
{
    uint64_t expect = 1;
    bool is_row_major = true;

    assert_int_equal(t->ndims, list->ndims);
    assert_int_equal(t->fault, PTO_VIEW_OK);
    for (uint32_t d = t->ndims; d-- > 0;) {
        assert_int_equal(t->shapes[d], list->shape[d]);
        is_row_major = is_row_major && t->strides[d] == expect;
        expect *= t->shapes[d];
    }
    assert_int_equal(t->is_contiguous, is_row_major);
    assert_int_equal(pto_tensor_numel(t), list->count);
    for (uint32_t n = 0; n < list->count; n++) {
        assert_int_equal(element_at(t, n), list->at[n]);
        if (t->is_contiguous)
            assert_int_equal(list->at[n], list->at[0] + n);
    }
    assert_int_equal(t->extent, list->at[list->count - 1] - list->at[0] + 1);
    assert_false(t->manual_dep);
}

static void chain_step(struct rng *r, struct element_list *list, struct pto_tensor *t)
{
    uint32_t shape[PTO_MAX_DIMS], from[PTO_MAX_DIMS] = { 0, 1, 2, 3, 4 };
    uint32_t base[PTO_MAX_DIMS] = { 0 }, step[PTO_MAX_DIMS] = { 1, 1, 1, 1, 1 };
    uint32_t dim = rng_below(r, list->ndims), other = rng_below(r, list->ndims), end, ndims;

    memcpy(shape, list->shape, sizeof(shape));
    t->manual_dep = true;
    switch (rng_below(r, 5)) {
    case 0:
        for (uint32_t d = 0; d < list->ndims; d++) {
            shape[d] = 1 + rng_below(r, list->shape[d]);
            base[d] = rng_below(r, list->shape[d] - shape[d] + 1);
        }
        *t = pto_tensor_view(t, shape, base);
        break;
    case 1:
        random_order(r, list->ndims, from);
        for (uint32_t d = 0; d < list->ndims; d++)
            shape[d] = list->shape[from[d]];
        *t = pto_tensor_permute(t, from);
        break;
    case 2:
        from[dim] = other;
        from[other] = dim;
        shape[dim] = list->shape[other];
        shape[other] = list->shape[dim];
        *t = pto_tensor_transpose(t, dim, other);
        break;
    case 3:
        base[dim] = rng_below(r, list->shape[dim]);
        end = base[dim] + 1 + rng_below(r, list->shape[dim] - base[dim]);
        step[dim] = 1 + rng_below(r, 4);
        shape[dim] = (end - base[dim] - 1) / step[dim] + 1;
        *t = pto_tensor_slice(t, dim, base[dim], end, step[dim]);
        break;
    default:
        ndims = random_factors(r, list->count, shape);
        if (!t->is_contiguous) {
            CHECK_FAULT(pto_tensor_reshape(t, shape, ndims), PTO_VIEW_STRIDED);
            t->manual_dep = false;
            return;
        }
        *t = pto_tensor_reshape(t, shape, ndims);
        list->ndims = ndims;
        memcpy(list->shape, shape, ndims * sizeof(shape[0]));
        return;
    }
    list_pick(list, shape, from, base, step);
}

static void chains_of_views_name_the_elements_they_should(void **state)
{
    struct rng r = { 1 };

    (void)state;
    for (uint32_t round = 0; round < 20000 / TEST_SHARE; round++) {
        static struct element_list list;
        struct pto_tensor t;

        list.count = 1;
        list.ndims = 1 + rng_below(&r, PTO_MAX_DIMS);
        for (uint32_t d = 0; d < list.ndims; d++) {
            list.shape[d] = 1 + rng_below(&r, list.ndims > 3 ? 4 : 10);
            list.count *= list.shape[d];
        }
        for (uint32_t n = 0; n < list.count; n++)
            list.at[n] = n;
        t = pto_tensor_external(tensor_memory, list.shape, list.ndims, PTO_FLOAT32);
        check_list(&list, &t);
        for (uint32_t steps = rng_below(&r, 7); steps > 0; steps--) {
            chain_step(&r, &list, &t);
            check_list(&list, &t);
        }
    }
}

static const struct CMUnitTest tensor_tests[] = {
    cmocka_unit_test(types_have_the_numbers_sizes_and_names_of_the_contract),
    cmocka_unit_test(task_ids_hold_ring_and_counter),
    cmocka_unit_test(external_memory_is_row_major_and_nobodys),
    cmocka_unit_test(external_memory_without_elements_is_valid),
    cmocka_unit_test(a_box_moves_the_start_and_keeps_the_strides),
    cmocka_unit_test(an_empty_box_ignores_its_offsets),
    cmocka_unit_test(contiguity_makes_no_exception_for_unit_dimensions),
    cmocka_unit_test(a_reshape_keeps_the_elements),
    cmocka_unit_test(transpose_permute_and_slice_change_strides_only),
    cmocka_unit_test(every_view_forgets_manual_dep_and_keeps_the_rest),
    cmocka_unit_test(impossible_views_say_why),
    cmocka_unit_test(a_view_of_an_impossible_view_keeps_the_first_reason),
    cmocka_unit_test(arrays_for_other_dimensions_are_refused),
    cmocka_unit_test(arrays_of_five_and_pointers_are_for_any_dimensions),
    cmocka_unit_test(a_create_info_describes_a_row_major_output),
    cmocka_unit_test(chains_of_views_name_the_elements_they_should),
};

TEST_MAIN(tensor_tests)

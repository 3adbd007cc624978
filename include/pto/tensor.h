/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors: the 128-byte descriptor of a strided region of device memory, and its zero-copy views.
 * Host, orchestration and kernels share this file; it is valid C11 and C++17 and needs no library.
 *
 * An invalid view (such as a shape that exceeds its parent, or a reshape of a strided tensor) has
 * `ndims` 0 and the reason in `fault`. A submit refuses such a tensor and reports the reason.
 *
 * Shapes, offsets and orders are arrays with one element for each dimension. In C the compiler
 * checks their length where it is known: an array of another length does not compile, or gives an
 * invalid view. An array of PTO_MAX_DIMS elements serves any number of dimensions.
 */
#ifndef PTO_API_TENSOR_H
#define PTO_API_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "pto/dtype.h"

#ifndef PTO_ON_CORE
#include <string.h>
#endif

#ifdef __cplusplus
#define PTO_ALIGNAS(n) alignas(n)
#else
#define PTO_ALIGNAS(n) _Alignas(n)
#endif

/*
 * Declares a function that is never defined and whose call does not compile: the compiler prints
 * this message.
 */
#if defined(__has_attribute) && __has_attribute(error)
#define PTO_COMPILE_ERROR(text) __attribute__((error(text)))
#else
#define PTO_COMPILE_ERROR(text)
#endif

enum { PTO_MAX_DIMS = 5 };

enum pto_space { PTO_SPACE_HOST, PTO_SPACE_DEVICE };

/* Why a view is invalid: `fault` of a tensor whose `ndims` is 0. */
enum pto_view_fault {
    PTO_VIEW_OK,
    PTO_VIEW_BAD_NDIMS,    /* ndims is less than 1 or more than 5 */
    PTO_VIEW_BAD_DTYPE,    /* the data type is not one of enum pto_dtype */
    PTO_VIEW_OUT_OF_RANGE, /* offset + shape exceeds the parent's shape */
    PTO_VIEW_STRIDED,      /* a reshape of a tensor that is not contiguous */
    PTO_VIEW_NUMEL,        /* a reshape to another number of elements */
    PTO_VIEW_BAD_DIM,      /* a dimension that does not exist, or that is named twice */
    PTO_VIEW_BAD_STEP,     /* a slice whose step is 0 or whose end is before its start */
    PTO_VIEW_TOO_LARGE,    /* a stride that does not fit 32 bits */
    PTO_VIEW_ZERO_STRIDE,  /* a stride that is 0 */
    PTO_VIEW_NO_ENTRY,     /* an element of entry->tensor[] after the entry's last tensor */
    /* An output that the submit does not have, or an output of a failed submit. */
    PTO_VIEW_NO_OUTPUT,
    /* An array of shapes, offsets or an order has another number of dimensions. */
    PTO_VIEW_MISCOUNTED
};

/* Details about an invalid view or create info, stored in its reserved bytes. */
struct pto_refusal {
    uint32_t line;     /* source line of the call; 0: unknown */
    uint16_t given;    /* length of the given array, or the index in the entry */
    uint16_t expected; /* number of dimensions that was expected */
};

/* Offsets of struct pto_refusal in `reserved` of a tensor and of a create info. */
enum { PTO_REFUSAL_AT = 2, PTO_INFO_REFUSAL_AT = 7 };

/* The identity of a task: a ring, and a number in this ring. Ids are not reused within a run. */
struct pto_task_id {
    uint64_t raw;
};

#define PTO_TASK_ID_INVALID UINT64_MAX

/* Makes an id from its parts. */
static inline struct pto_task_id pto_task_id_make(uint32_t ring, uint32_t local)
{
    struct pto_task_id id = { ((uint64_t)ring << 32) | local };

    return id;
}

/* Returns the invalid id, which no task has. */
static inline struct pto_task_id pto_task_id_invalid(void)
{
    struct pto_task_id id = { PTO_TASK_ID_INVALID };

    return id;
}

/* Returns whether an id can be that of a task. */
static inline bool pto_task_id_is_valid(struct pto_task_id id)
{
    return id.raw != PTO_TASK_ID_INVALID;
}

/* Returns the ring of a task: its upper half. */
static inline uint32_t pto_task_id_ring(struct pto_task_id id)
{
    return (uint32_t)(id.raw >> 32);
}

/* Returns the number of a task in its ring: its lower half. */
static inline uint32_t pto_task_id_local(struct pto_task_id id)
{
    return (uint32_t)id.raw;
}

/* A tensor. The offsets are an ABI: kernels and generated code read the fields directly. */
struct pto_tensor {
    PTO_ALIGNAS(64) uint64_t addr; /* address of the storage */
    uint64_t size;                 /* size of the storage in bytes */
    struct pto_task_id owner;      /* task that created the storage; invalid for external memory */
    uint64_t start;                /* distance of the first element from addr, in elements */
    int32_t version;
    uint32_t ndims; /* number of dimensions, 1 to 5; 0: the view is invalid */
    uint8_t dtype;
    bool manual_dep;    /* a task with this tensor is ordered after its creator only */
    bool is_contiguous; /* the strides are those of row-major order */
    uint8_t space;      /* enum pto_space */
    uint32_t shapes[PTO_MAX_DIMS];
    /* Number of elements from the first to the last, gaps included; 0 when empty. */
    uint64_t extent;
    /* distances of neighbouring elements in each dimension, in elements, above 0 */
    uint32_t strides[PTO_MAX_DIMS];
    uint8_t fault; /* enum pto_view_fault */
    /* enum pto_tag: how the task uses the tensor; set in the copy that kernels get. */
    uint8_t tag;
    uint8_t reserved[34]; /* these bytes are not passed on to kernels */
};

/* Describes a new output. Bytes 24..63 are laid out as in struct pto_tensor. */
struct pto_tensor_info {
    /* bit pattern of the element with which the output is filled, if has_initial_value */
    PTO_ALIGNAS(64) uint64_t initial_value;
    bool has_initial_value;
    uint8_t reserved[15];
    uint64_t start; /* always 0: position of the first element */
    int32_t version;
    uint32_t ndims;
    uint8_t dtype;
    bool manual_dep;
    bool is_contiguous;
    uint8_t space;
    uint32_t shapes[PTO_MAX_DIMS];
};

#ifdef __cplusplus
static_assert(sizeof(struct pto_tensor) == 128, "the size of a tensor is an ABI");
static_assert(sizeof(struct pto_tensor_info) == 64, "the size of create info is an ABI");
#else
_Static_assert(sizeof(struct pto_tensor) == 128, "the size of a tensor is an ABI");
_Static_assert(sizeof(struct pto_tensor_info) == 64, "the size of create info is an ABI");
#endif

/* Returns the number of elements of a tensor. */
static inline PTO_AICORE uint64_t pto_tensor_numel(PTO_GM const struct pto_tensor *t)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < t->ndims; d++)
        n *= t->shapes[d];
    return n;
}

/* Returns the size in bytes of all elements of a tensor. */
static inline PTO_AICORE uint64_t pto_tensor_bytes(PTO_GM const struct pto_tensor *t)
{
    return pto_tensor_numel(t) * pto_element_bytes(t->dtype);
}

/* Returns the first element of the view as a pointer, for kernels and for host memory. */
static inline PTO_AICORE PTO_GM void *pto_tensor_data(PTO_GM const struct pto_tensor *t)
{
    return (PTO_GM void *)(uintptr_t)(t->addr + t->start * pto_element_bytes(t->dtype));
}

/* pto_tensor_data, converted to a pointer to `type`, as C++ and cores require. */
#define PTO_DATA(tensor, type) ((PTO_GM type *)pto_tensor_data(tensor))

#ifndef PTO_ON_CORE /* code on cores makes no views */

/* Recomputes is_contiguous and extent after shapes, strides or ndims changed. */
static inline void pto_tensor_update(struct pto_tensor *t)
{
    uint64_t expect = 1;
    uint64_t extent = 1;

    t->is_contiguous = true;
    for (uint32_t d = t->ndims; d-- > 0;) {
        if (t->strides[d] != expect)
            t->is_contiguous = false;
        expect *= t->shapes[d];
        extent += (uint64_t)(t->shapes[d] - 1) * t->strides[d];
    }
    if (expect == 0) {
        t->is_contiguous = true;
        extent = 0;
    }
    t->extent = extent;
}

/*
 * Returns the bytes from `addr` to the end of the last element; 0 when empty. The result is
 * computed from shapes and strides, not from `extent`, and is UINT64_MAX if it exceeds 64 bits, so
 * that it can be compared with `size` even for a descriptor written by hand.
 */
static inline uint64_t pto_tensor_end(const struct pto_tensor *t)
{
    uint64_t last = t->start, bytes;

    for (uint32_t d = 0; d < t->ndims; d++) {
        if (t->shapes[d] == 0)
            return 0;
        if (__builtin_add_overflow(last, (uint64_t)(t->shapes[d] - 1) * t->strides[d], &last))
            /* the end exceeds 64 bits, unless a later shape is 0 and the tensor is empty */
            last = UINT64_MAX;
    }
    return last != UINT64_MAX &&
                   !__builtin_mul_overflow(last + 1, (uint64_t)pto_dtype_size(t->dtype), &bytes)
               ? bytes
               : UINT64_MAX;
}

/*
 * Returns an invalid view with a reason. If the parent is already invalid, the parent's reason
 * stays.
 */
static inline struct pto_tensor pto_tensor_invalid(const struct pto_tensor *t, int fault)
{
    struct pto_tensor bad = *t;

    bad.ndims = 0;
    bad.extent = 0;
    bad.fault = (uint8_t)(t->ndims == 0 && t->fault != PTO_VIEW_OK ? t->fault : fault);
    return bad;
}

/* Describes row-major memory that the caller owns. */
static inline struct pto_tensor pto_tensor_external(void *addr, const uint32_t shapes[],
                                                    uint32_t ndims, enum pto_dtype dtype)
{
    struct pto_tensor t;
    uint64_t stride = 1;

    memset(&t, 0, sizeof(t));
    t.addr = (uint64_t)(uintptr_t)addr;
    t.owner = pto_task_id_invalid();
    t.dtype = (uint8_t)dtype;
    if (ndims < 1 || ndims > PTO_MAX_DIMS)
        return pto_tensor_invalid(&t, PTO_VIEW_BAD_NDIMS);
    if (pto_dtype_size(t.dtype) == 0)
        return pto_tensor_invalid(&t, PTO_VIEW_BAD_DTYPE);
    t.ndims = ndims;
    for (uint32_t d = ndims; d-- > 0;) {
        if (stride > UINT32_MAX)
            return pto_tensor_invalid(&t, PTO_VIEW_TOO_LARGE);
        t.shapes[d] = shapes[d];
        t.strides[d] = stride != 0 ? (uint32_t)stride : 1;
        stride *= shapes[d];
    }
    if (stride > UINT64_MAX / pto_dtype_size(t.dtype))
        return pto_tensor_invalid(&t, PTO_VIEW_TOO_LARGE);
    t.size = stride * pto_dtype_size(t.dtype);
    pto_tensor_update(&t);
    return t;
}

/*
 * Returns a view of a box of the parent. If `shapes` has a zero, the view is empty, and `offsets`
 * are ignored.
 */
static inline struct pto_tensor pto_tensor_view(const struct pto_tensor *t, const uint32_t shapes[],
                                                const uint32_t offsets[])
{
    struct pto_tensor v = *t;
    uint64_t start = t->start;
    bool is_empty = false;

    if (t->ndims == 0)
        return pto_tensor_invalid(t, PTO_VIEW_BAD_NDIMS);
    for (uint32_t d = 0; d < t->ndims; d++)
        is_empty = is_empty || shapes[d] == 0;
    for (uint32_t d = 0; d < t->ndims; d++) {
        if (!is_empty && (uint64_t)offsets[d] + shapes[d] > t->shapes[d])
            return pto_tensor_invalid(t, PTO_VIEW_OUT_OF_RANGE);
        v.shapes[d] = shapes[d];
        if (!is_empty)
            start += (uint64_t)offsets[d] * t->strides[d];
    }
    v.start = start;
    v.manual_dep = false;
    pto_tensor_update(&v);
    return v;
}

/* Returns a view of the same elements with another shape; the parent must be contiguous. */
static inline struct pto_tensor pto_tensor_reshape(const struct pto_tensor *t,
                                                   const uint32_t shapes[], uint32_t ndims)
{
    struct pto_tensor v = *t;
    uint64_t stride = 1;

    if (t->ndims == 0 || ndims < 1 || ndims > PTO_MAX_DIMS)
        return pto_tensor_invalid(t, PTO_VIEW_BAD_NDIMS);
    if (!t->is_contiguous)
        return pto_tensor_invalid(t, PTO_VIEW_STRIDED);
    v.ndims = ndims;
    for (uint32_t d = PTO_MAX_DIMS; d-- > 0;) {
        if (stride > UINT32_MAX)
            return pto_tensor_invalid(t, PTO_VIEW_TOO_LARGE);
        v.shapes[d] = d < ndims ? shapes[d] : 0;
        v.strides[d] = d < ndims ? (stride != 0 ? (uint32_t)stride : 1) : 0;
        if (d < ndims)
            stride *= shapes[d];
    }
    if (stride != pto_tensor_numel(t))
        return pto_tensor_invalid(t, PTO_VIEW_NUMEL);
    v.manual_dep = false;
    pto_tensor_update(&v);
    return v;
}

/* Returns a view in which dimension d is dimension order[d] of the parent. */
static inline struct pto_tensor pto_tensor_permute(const struct pto_tensor *t,
                                                   const uint32_t order[])
{
    struct pto_tensor v = *t;
    uint32_t seen = 0;

    if (t->ndims == 0)
        return pto_tensor_invalid(t, PTO_VIEW_BAD_NDIMS);
    for (uint32_t d = 0; d < t->ndims; d++) {
        if (order[d] >= t->ndims || (seen & (1u << order[d])) != 0)
            return pto_tensor_invalid(t, PTO_VIEW_BAD_DIM);
        seen |= 1u << order[d];
        v.shapes[d] = t->shapes[order[d]];
        v.strides[d] = t->strides[order[d]];
    }
    v.manual_dep = false;
    pto_tensor_update(&v);
    return v;
}

/* Returns a view with two dimensions exchanged. */
static inline struct pto_tensor pto_tensor_transpose(const struct pto_tensor *t, uint32_t x,
                                                     uint32_t y)
{
    uint32_t order[PTO_MAX_DIMS] = { 0, 1, 2, 3, 4 };

    if (x >= t->ndims || y >= t->ndims)
        return pto_tensor_invalid(t, PTO_VIEW_BAD_DIM);
    order[x] = y;
    order[y] = x;
    return pto_tensor_permute(t, order);
}

/*
 * Returns a view of every step-th element of one dimension, from start up to but not including end.
 */
static inline struct pto_tensor pto_tensor_slice(const struct pto_tensor *t, uint32_t dim,
                                                 uint32_t start, uint32_t end, uint32_t step)
{
    struct pto_tensor v = *t;

    if (dim >= t->ndims)
        return pto_tensor_invalid(t, PTO_VIEW_BAD_DIM);
    if (step == 0 || end < start)
        return pto_tensor_invalid(t, PTO_VIEW_BAD_STEP);
    if (end > t->shapes[dim])
        return pto_tensor_invalid(t, PTO_VIEW_OUT_OF_RANGE);
    if ((uint64_t)t->strides[dim] * step > UINT32_MAX)
        return pto_tensor_invalid(t, PTO_VIEW_TOO_LARGE);
    v.shapes[dim] = (uint32_t)(((uint64_t)end - start + step - 1) / step);
    v.strides[dim] = t->strides[dim] * step;
    if (v.shapes[dim] != 0)
        v.start += (uint64_t)start * t->strides[dim];
    v.manual_dep = false;
    pto_tensor_update(&v);
    return v;
}

/*
 * Describes a new output with row-major order. Invalid arguments give ndims 0, which a submit
 * refuses.
 */
static inline struct pto_tensor_info pto_tensor_info_make(const uint32_t shapes[], uint32_t ndims,
                                                          enum pto_dtype dtype)
{
    struct pto_tensor_info info;

    memset(&info, 0, sizeof(info));
    if (ndims < 1 || ndims > PTO_MAX_DIMS || pto_dtype_size((uint32_t)dtype) == 0)
        return info;
    info.ndims = ndims;
    info.dtype = (uint8_t)dtype;
    info.is_contiguous = true;
    for (uint32_t d = 0; d < ndims; d++)
        info.shapes[d] = shapes[d];
    return info;
}

/*
 * Makes the runtime fill the whole buffer of an output, padding included, with this element when
 * the buffer is created.
 */
static inline void pto_tensor_info_fill(struct pto_tensor_info *info, uint64_t bits)
{
    info->initial_value = bits;
    info->has_initial_value = true;
}

/*
 * Number of elements of an array: exact if the compiler sees the array; for a pointer an upper
 * bound, marked by PTO_GIVEN_ROOM, if the compiler knows one.
 */
#define PTO_GIVEN_ROOM 0x80000000u
#ifndef __cplusplus
#define PTO_IS_POINTER(...)                               \
    __builtin_types_compatible_p(__typeof__(__VA_ARGS__), \
                                 __typeof__(1 ? (__VA_ARGS__) : (__VA_ARGS__)))
#define PTO_GIVEN(...)                                                              \
    (PTO_IS_POINTER(__VA_ARGS__)                                                    \
         ? PTO_GIVEN_ROOM | (uint32_t)(__builtin_object_size((__VA_ARGS__), 0) / 4) \
         : (uint32_t)(sizeof(__VA_ARGS__) / 4u))
#define PTO_VISIBLE(...) \
    (PTO_IS_POINTER(__VA_ARGS__) ? PTO_GIVEN_ROOM : (uint32_t)(sizeof(__VA_ARGS__) / 4u))
#endif

/* Returns whether an array of `given` elements cannot be meant for `ndims` dimensions. */
static inline bool pto_is_miscounted(uint32_t given, uint32_t ndims)
{
    uint32_t count = given & ~PTO_GIVEN_ROOM;

    return (given & PTO_GIVEN_ROOM) != 0 ? count < ndims && ndims <= PTO_MAX_DIMS
                                         : count != ndims && count != PTO_MAX_DIMS;
}

/* Makes the details about an invalid view or create info. */
static inline struct pto_refusal pto_refusal_make(uint32_t given, uint32_t ndims, uint32_t line)
{
    uint32_t count = given & ~PTO_GIVEN_ROOM;
    struct pto_refusal refusal = { line, (uint16_t)(count < UINT16_MAX ? count : UINT16_MAX),
                                   (uint16_t)(ndims < UINT16_MAX ? ndims : UINT16_MAX) };

    return refusal;
}

/* Returns a placeholder for a tensor after the last one of an entry. */
static inline struct pto_tensor pto_tensor_absent(uint32_t index)
{
    struct pto_refusal refusal = pto_refusal_make(index, 0, 0);
    struct pto_tensor absent;

    memset(&absent, 0, sizeof(absent));
    absent.fault = PTO_VIEW_NO_ENTRY;
    memcpy(absent.reserved + PTO_REFUSAL_AT, &refusal, sizeof(refusal));
    return absent;
}

/* Returns an invalid view because an array has another number of dimensions. */
static inline struct pto_tensor pto_tensor_miscounted(const struct pto_tensor *t, uint32_t given,
                                                      uint32_t ndims, uint32_t line)
{
    struct pto_tensor bad = pto_tensor_invalid(t, PTO_VIEW_MISCOUNTED);
    struct pto_refusal refusal = pto_refusal_make(given, ndims, line);

    if (bad.fault == PTO_VIEW_MISCOUNTED)
        memcpy(bad.reserved + PTO_REFUSAL_AT, &refusal, sizeof(refusal));
    return bad;
}

/* pto_tensor_external that also gets the number of elements of `shapes`, to check it. */
static inline struct pto_tensor pto_tensor_external_of(void *addr, const uint32_t shapes[],
                                                       uint32_t ndims, enum pto_dtype dtype,
                                                       uint32_t given, uint32_t line)
{
    struct pto_tensor none;

    if (!pto_is_miscounted(given, ndims))
        return pto_tensor_external(addr, shapes, ndims, dtype);
    memset(&none, 0, sizeof(none));
    none.owner = pto_task_id_invalid();
    return pto_tensor_miscounted(&none, given, ndims, line);
}

/*
 * pto_tensor_view that also gets the numbers of elements of `shapes` and `offsets`, to check them.
 */
static inline struct pto_tensor pto_tensor_view_of(const struct pto_tensor *t,
                                                   const uint32_t shapes[],
                                                   const uint32_t offsets[], uint32_t shape_given,
                                                   uint32_t offset_given, uint32_t line)
{
    if (t->ndims != 0 && pto_is_miscounted(shape_given, t->ndims))
        return pto_tensor_miscounted(t, shape_given, t->ndims, line);
    if (t->ndims != 0 && pto_is_miscounted(offset_given, t->ndims))
        return pto_tensor_miscounted(t, offset_given, t->ndims, line);
    return pto_tensor_view(t, shapes, offsets);
}

/* pto_tensor_reshape that also gets the number of elements of `shapes`, to check it. */
static inline struct pto_tensor pto_tensor_reshape_of(const struct pto_tensor *t,
                                                      const uint32_t shapes[], uint32_t ndims,
                                                      uint32_t given, uint32_t line)
{
    if (t->ndims != 0 && pto_is_miscounted(given, ndims))
        return pto_tensor_miscounted(t, given, ndims, line);
    return pto_tensor_reshape(t, shapes, ndims);
}

/* pto_tensor_permute that also gets the number of elements of `order`, to check it. */
static inline struct pto_tensor pto_tensor_permute_of(const struct pto_tensor *t,
                                                      const uint32_t order[], uint32_t given,
                                                      uint32_t line)
{
    if (t->ndims != 0 && pto_is_miscounted(given, t->ndims))
        return pto_tensor_miscounted(t, given, t->ndims, line);
    return pto_tensor_permute(t, order);
}

/* pto_tensor_info_make that also gets the number of elements of `shapes`, to check it. */
static inline struct pto_tensor_info pto_tensor_info_of(const uint32_t shapes[], uint32_t ndims,
                                                        enum pto_dtype dtype, uint32_t given,
                                                        uint32_t line)
{
    struct pto_refusal refusal = pto_refusal_make(given, ndims, line);
    struct pto_tensor_info info;

    if (!pto_is_miscounted(given, ndims))
        return pto_tensor_info_make(shapes, ndims, dtype);
    memset(&info, 0, sizeof(info));
    memcpy(info.reserved + PTO_INFO_REFUSAL_AT, &refusal, sizeof(refusal));
    return info;
}

#ifndef __cplusplus
/* A function that is never defined; its name appears in the compiler's error message. */
int pto_other_number_of_dimensions(void)
    PTO_COMPILE_ERROR("an array of shapes, offsets or indices has more or fewer elements than "
                      "there are dimensions");
#define PTO_SAME_COUNT(given, ndims)                                                    \
    ((void)(__builtin_constant_p(ndims) && (given) < PTO_MAX_DIMS && (given) != (ndims) \
                ? pto_other_number_of_dimensions()                                      \
                : 0))

/*
 * Macros that call the functions of the same names with the lengths of their arrays. The commas of
 * a compound literal such as (uint32_t[]){ 2, 3 } split it into several macro arguments; these
 * macros join them again, and put them after the other arguments. Calls with two such arrays are
 * left unchanged.
 */
#define pto_tensor_external(addr, ...) PTO_EXPAND(PTO_EXTERNAL_OF, addr, PTO_TWO_FIRST(__VA_ARGS__))
#define PTO_EXTERNAL_OF(addr, ndims, dtype, ...)                                             \
    (PTO_SAME_COUNT(PTO_VISIBLE(__VA_ARGS__), ndims),                                        \
     pto_tensor_external_of((addr), (__VA_ARGS__), (ndims), (dtype), PTO_GIVEN(__VA_ARGS__), \
                            __LINE__))
#define pto_tensor_info_make(...) PTO_EXPAND(PTO_INFO_OF, PTO_TWO_FIRST(__VA_ARGS__))
#define PTO_INFO_OF(ndims, dtype, ...)                \
    (PTO_SAME_COUNT(PTO_VISIBLE(__VA_ARGS__), ndims), \
     pto_tensor_info_of((__VA_ARGS__), (ndims), (dtype), PTO_GIVEN(__VA_ARGS__), __LINE__))
#define pto_tensor_reshape(t, ...) PTO_EXPAND(PTO_RESHAPE_OF, t, PTO_ONE_FIRST(__VA_ARGS__))
#define PTO_RESHAPE_OF(t, ndims, ...)                 \
    (PTO_SAME_COUNT(PTO_VISIBLE(__VA_ARGS__), ndims), \
     pto_tensor_reshape_of((t), (__VA_ARGS__), (ndims), PTO_GIVEN(__VA_ARGS__), __LINE__))
#define pto_tensor_permute(t, ...) \
    pto_tensor_permute_of((t), (__VA_ARGS__), PTO_GIVEN(__VA_ARGS__), __LINE__)
#define pto_tensor_view(t, ...) \
    PTO_EXPAND(PTO_COUNTED(PTO_VIEW_, __VA_ARGS__, M, M, M, M, M, M, M, M, 2, ), t, __VA_ARGS__)
#define PTO_VIEW_2(t, shapes, offsets)                                                   \
    (PTO_SAME_COUNT(PTO_VISIBLE(shapes), PTO_VISIBLE(offsets) < PTO_MAX_DIMS             \
                                             ? PTO_VISIBLE(offsets)                      \
                                             : PTO_VISIBLE(shapes)),                     \
     pto_tensor_view_of((t), (shapes), (offsets), PTO_GIVEN(shapes), PTO_GIVEN(offsets), \
                        __LINE__))
#define PTO_VIEW_M(t, ...) pto_tensor_view((t), __VA_ARGS__)

/*
 * Joins up to six elements of a compound literal: one more than the maximum number of dimensions.
 */
#define PTO_ONE_FIRST(...) \
    PTO_EXPAND(PTO_COUNTED(PTO_ONE_, __VA_ARGS__, 10, 9, 8, 7, 6, 5, 4, 3, 2, ), __VA_ARGS__)
#define PTO_ONE_2(a, x) x, a
#define PTO_ONE_3(a, b, x) x, a, b
#define PTO_ONE_4(a, b, c, x) x, a, b, c
#define PTO_ONE_5(a, b, c, d, x) x, a, b, c, d
#define PTO_ONE_6(a, b, c, d, e, x) x, a, b, c, d, e
#define PTO_ONE_7(a, b, c, d, e, f, x) x, a, b, c, d, e, f
#define PTO_TWO_FIRST(...) \
    PTO_EXPAND(PTO_COUNTED(PTO_TWO_, __VA_ARGS__, 10, 9, 8, 7, 6, 5, 4, 3, 2, ), __VA_ARGS__)
#define PTO_TWO_3(a, x, y) x, y, a
#define PTO_TWO_4(a, b, x, y) x, y, a, b
#define PTO_TWO_5(a, b, c, x, y) x, y, a, b, c
#define PTO_TWO_6(a, b, c, d, x, y) x, y, a, b, c, d
#define PTO_TWO_7(a, b, c, d, e, x, y) x, y, a, b, c, d, e
#define PTO_TWO_8(a, b, c, d, e, f, x, y) x, y, a, b, c, d, e, f
#define PTO_EXPAND(macro, ...) macro(__VA_ARGS__)
#define PTO_COUNTED(...) PTO_TENTH(__VA_ARGS__)
#define PTO_TENTH(name, a, b, c, d, e, f, g, h, i, j, n, ...) name##n
#endif
#endif

#endif

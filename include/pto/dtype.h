/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data types. A type is described by its row in the map alone; a new type is a new row at the end,
 * because the numbers are an ABI. Host, orchestration, kernels and goldens share this file; it is
 * valid C11 and C++17 and needs no library.
 */
#ifndef PTO_API_DTYPE_H
#define PTO_API_DTYPE_H

#include <stddef.h>
#include <stdint.h>

#include "pto/aicore.h"

/*
 * X(name, text, bytes of an element, kind, letter of .npy files, layout, tolerance)
 *
 * The text is the name in scenes and on the command line. Types that NumPy lacks are stored as raw
 * bytes (V) in its files. The layout describes the bits of a floating-point type; the tolerance is
 * the default limit for the deviation of a result.
 */
#define PTO_DTYPE_MAP(X)                                                                         \
    X(FLOAT32, "float32", 4, FLOAT, 'f', PTO_LAYOUT(1, 8, 23, IEEE, 9), PTO_WITHIN(1e-5, 1e-5))  \
    X(FLOAT16, "float16", 2, FLOAT, 'f', PTO_LAYOUT(1, 5, 10, IEEE, 5), PTO_WITHIN(1e-3, 1e-3))  \
    X(INT32, "int32", 4, SIGNED, 'i', PTO_NO_LAYOUT, PTO_EXACT)                                  \
    X(INT16, "int16", 2, SIGNED, 'i', PTO_NO_LAYOUT, PTO_EXACT)                                  \
    X(INT8, "int8", 1, SIGNED, 'i', PTO_NO_LAYOUT, PTO_EXACT)                                    \
    X(UINT8, "uint8", 1, UNSIGNED, 'u', PTO_NO_LAYOUT, PTO_EXACT)                                \
    X(BFLOAT16, "bfloat16", 2, FLOAT, 'V', PTO_LAYOUT(1, 8, 7, IEEE, 4), PTO_WITHIN(1e-2, 1e-2)) \
    X(INT64, "int64", 8, SIGNED, 'i', PTO_NO_LAYOUT, PTO_EXACT)                                  \
    X(UINT64, "uint64", 8, UNSIGNED, 'u', PTO_NO_LAYOUT, PTO_EXACT)                              \
    X(UINT16, "uint16", 2, UNSIGNED, 'u', PTO_NO_LAYOUT, PTO_EXACT)                              \
    X(UINT32, "uint32", 4, UNSIGNED, 'u', PTO_NO_LAYOUT, PTO_EXACT)                              \
    X(BOOL, "bool", 1, BOOL, 'b', PTO_NO_LAYOUT, PTO_EXACT)                                      \
    X(FP8E4M3FN, "fp8e4m3fn", 1, FLOAT, 'V', PTO_LAYOUT(1, 4, 3, NAN, 3), PTO_WITHIN_ULP(1))     \
    X(FP8E8M0, "fp8e8m0", 1, FLOAT, 'V', PTO_LAYOUT(0, 8, 0, NAN, 9), PTO_EXACT)                 \
    X(FP4E2M1, "fp4e2m1", 1, FLOAT, 'V', PTO_LAYOUT(1, 2, 1, NONE, 2), PTO_EXACT)

enum pto_dtype {
#define X(name, text, bytes, kind, npy, layout, tolerance) PTO_##name,
    PTO_DTYPE_MAP(X)
#undef X
        PTO_DTYPE_COUNT
};

enum pto_dtype_kind { PTO_KIND_FLOAT, PTO_KIND_SIGNED, PTO_KIND_UNSIGNED, PTO_KIND_BOOL };

/* Which bit patterns of a floating-point type are NaN or infinity. */
enum pto_dtype_special {
    PTO_SPECIAL_NONE,
    /* All bits of exponent and fraction set: NaN. The type has no infinity. */
    PTO_SPECIAL_NAN,
    /* All bits of the exponent set: infinity if the fraction is 0, else NaN. */
    PTO_SPECIAL_IEEE
};

struct pto_dtype_info {
    const char *name; /* name as in the enum, such as FLOAT32 */
    const char *text; /* name in scenes and on the command line, such as float32 */
    uint8_t bytes;
    uint8_t kind; /* enum pto_dtype_kind */
    char npy;
    /*
     * The layout of a floating-point type. The bias is half the range of the exponent; a type
     * without fraction bits cannot represent 0.
     */
    struct {
        uint8_t sign_bits;
        uint8_t exponent_bits;
        uint8_t fraction_bits;
        uint8_t special; /* enum pto_dtype_special */
        uint8_t digits;  /* number of decimal digits that distinguish all values of the type */
    } layout;
    /*
     * Largest deviation of a result: atol + rtol * |expected|, or a distance counted in
     * representable values.
     */
    struct {
        double rtol;
        double atol;
        double ulp;
    } tolerance;
};

#define PTO_LAYOUT(sign, exponent, fraction, special, digits)   \
    {                                                           \
        sign, exponent, fraction, PTO_SPECIAL_##special, digits \
    }
#define PTO_NO_LAYOUT PTO_LAYOUT(0, 0, 0, NONE, 0)
#define PTO_WITHIN(rtol, atol) \
    {                          \
        rtol, atol, 0          \
    }
#define PTO_WITHIN_ULP(ulp) \
    {                       \
        0, 0, ulp           \
    }
#define PTO_EXACT PTO_WITHIN(0, 0)

/* Returns the row of a type; NULL for an unknown type. */
static inline const struct pto_dtype_info *pto_dtype_info(uint32_t dtype)
{
    static const struct pto_dtype_info info[PTO_DTYPE_COUNT] = {
#define X(name, text, bytes, kind, npy, layout, tolerance) \
    { #name, text, bytes, PTO_KIND_##kind, npy, layout, tolerance },
        PTO_DTYPE_MAP(X)
#undef X
    };

    return dtype < PTO_DTYPE_COUNT ? &info[dtype] : NULL;
}

/* Returns the bytes of one element; 0 for an unknown type. */
static inline uint32_t pto_dtype_size(uint32_t dtype)
{
    static const uint8_t size[PTO_DTYPE_COUNT] = {
#define X(name, text, bytes, kind, npy, layout, tolerance) bytes,
        PTO_DTYPE_MAP(X)
#undef X
    };

    return dtype < PTO_DTYPE_COUNT ? size[dtype] : 0;
}

/* Returns the name of a data type as in the enum, "FLOAT32"; "UNKNOWN" for any other value. */
static inline const char *pto_dtype_name(uint32_t dtype)
{
    return dtype < PTO_DTYPE_COUNT ? pto_dtype_info(dtype)->name : "UNKNOWN";
}

/* Returns the name of a data type as scenes spell it, "float32". */
static inline const char *pto_dtype_text(uint32_t dtype)
{
    return dtype < PTO_DTYPE_COUNT ? pto_dtype_info(dtype)->text : "unknown";
}

#ifdef PTO_ON_CORE
/* pto_dtype_size for code on cores, which cannot use a table because they have no constant data. */
static inline PTO_AICORE uint32_t pto_element_bytes(uint32_t dtype)
{
#define X(name, text, bytes, kind, npy, layout, tolerance) dtype == PTO_##name ? bytes:
    return PTO_DTYPE_MAP(X) 0;
#undef X
}
#else
/* pto_dtype_size under the name that code on cores uses. */
#define pto_element_bytes(dtype) pto_dtype_size(dtype)
#endif

#endif

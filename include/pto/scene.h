/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The golden of a scene: a function that fills in the inputs and the expected outputs. It is
 * compiled for this machine and may use libc and libm. `pto run` and `pto test` call it once for
 * each case.
 *
 *     #include <pto/scene.h>
 *
 *     int pto_scene_golden(const struct pto_scene *s)
 *     {
 *         int64_t n = pto_scene_param(s, "n");
 *         float *a = pto_scene_data(s, "a"), *f = pto_scene_expected(s, "f");
 *
 *         pto_scene_random(s, "a", -1, 1);
 *         for (int64_t i = 0; i < n; i++)
 *             f[i] = 2 * a[i];
 *         return 0;
 *     }
 *
 * Tensors are row-major, and zero before the call unless they come from a file. An inout argument
 * has both: the data before the run and the data expected after it.
 */
#ifndef PTO_API_SCENE_H
#define PTO_API_SCENE_H

#include <stdio.h>
#include <stdlib.h>

#include "pto/half.h"
#include "pto/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An argument of the scene that is a tensor. */
struct pto_scene_tensor {
    const char *name;
    enum pto_dtype dtype;
    uint32_t ndims;
    uint32_t shapes[PTO_MAX_DIMS];
    uint64_t count; /* number of elements */
    void *data;     /* the elements before the run; NULL for an output */
    void *expected; /* the elements that are expected after the run; NULL for an input */
    bool is_given;  /* `data` comes from a file and must not be changed */
};

/* A parameter of the case. */
struct pto_scene_param {
    const char *name;
    int64_t value;
};

/* A scalar argument of the scene. */
struct pto_scene_scalar {
    const char *name;
    bool is_float;
    /* value of the scalar, rounded to its type; of an integer, its value as a double */
    double number;
    int64_t integer; /* value of the scalar, for integer types only */
};

/* A case of the scene. */
struct pto_scene {
    size_t size;           /* size of this struct, set by the runtime */
    const char *name;      /* name of the scene */
    const char *case_name; /* name of the case */
    const char *platform;
    uint64_t *seed; /* state of the random helpers, initially the case's seed */
    const struct pto_scene_tensor *tensor;
    uint32_t tensor_count;
    const struct pto_scene_param *param;
    uint32_t param_count;
    const uint64_t *scalar; /* bits of the scalars, as the orchestration gets them */
    uint32_t scalar_count;
    const struct pto_scene_scalar *named; /* the scalars with their names and values */
};

/* The golden function, which the scene defines. Returns 0 if it has filled in everything. */
__attribute__((visibility("default"))) int pto_scene_golden(const struct pto_scene *scene);

/* Ends the process, which runs only the golden, because the name is not in scene.yaml. */
static inline void pto_scene_refuse(const char *what, const char *name)
{
    (void)fflush(stdout);
    fprintf(stderr, "the golden asks for the %s '%s', which scene.yaml does not have\n", what,
            name);
    exit(3);
}

/* Returns an argument by its name. */
static inline const struct pto_scene_tensor *pto_scene_tensor(const struct pto_scene *s,
                                                              const char *name)
{
    for (uint32_t i = 0; i < s->tensor_count; i++)
        if (strcmp(s->tensor[i].name, name) == 0)
            return &s->tensor[i];
    pto_scene_refuse("argument", name);
    return NULL;
}

/* Returns a parameter of the case by its name. */
static inline int64_t pto_scene_param(const struct pto_scene *s, const char *name)
{
    for (uint32_t i = 0; i < s->param_count; i++)
        if (strcmp(s->param[i].name, name) == 0)
            return s->param[i].value;
    pto_scene_refuse("parameter", name);
    return 0;
}

/* Returns a scalar of any number type by its name. */
static inline double pto_scene_scalar(const struct pto_scene *s, const char *name)
{
    for (uint32_t i = 0; i < s->scalar_count; i++)
        if (strcmp(s->named[i].name, name) == 0)
            return s->named[i].number;
    pto_scene_refuse("scalar", name);
    return 0;
}

/* Returns a scalar of an integer type by its name, with all bits. */
static inline int64_t pto_scene_scalar_integer(const struct pto_scene *s, const char *name)
{
    for (uint32_t i = 0; i < s->scalar_count; i++)
        if (strcmp(s->named[i].name, name) == 0 && !s->named[i].is_float)
            return s->named[i].integer;
    pto_scene_refuse("integer scalar", name);
    return 0;
}

/* Returns the data of an input or inout before the run. */
static inline void *pto_scene_data(const struct pto_scene *s, const char *name)
{
    const struct pto_scene_tensor *t = pto_scene_tensor(s, name);

    if (t->data == NULL)
        pto_scene_refuse("input", name);
    return t->data;
}

/* Returns the expected data of an output or inout after the run. */
static inline void *pto_scene_expected(const struct pto_scene *s, const char *name)
{
    const struct pto_scene_tensor *t = pto_scene_tensor(s, name);

    if (t->expected == NULL)
        pto_scene_refuse("output", name);
    return t->expected;
}

/* Returns the next random number. The sequence depends only on the seed, not on the machine. */
static inline uint64_t pto_scene_next(const struct pto_scene *s)
{
    uint64_t x = *s->seed += 0x9e3779b97f4a7c15ull;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* Returns a random number from `low` up to, but not including, `high`, in steps of 2^-24. */
static inline double pto_scene_uniform(const struct pto_scene *s, double low, double high)
{
    return low + (high - low) * ((double)(pto_scene_next(s) >> 40) * (1.0 / 16777216.0));
}

/* Returns a random integer from `low` to `high`, both included. */
static inline int64_t pto_scene_integer(const struct pto_scene *s, int64_t low, int64_t high)
{
    uint64_t range = (uint64_t)high - (uint64_t)low + 1;
    uint64_t x = pto_scene_next(s);

    return (int64_t)((uint64_t)low + (range != 0 ? x % range : x));
}

/*
 * Returns the bits of a number in a floating-point type, rounded to nearest even. A value that is
 * too large becomes infinity; the type must have one.
 */
static inline uint64_t pto_scene_to_bits(enum pto_dtype dtype, double value)
{
    const struct pto_dtype_info *info = pto_dtype_info((uint32_t)dtype);
    uint32_t fraction_bits = info->layout.fraction_bits, shift;
    uint64_t all_ones = (1ull << info->layout.exponent_bits) - 1;
    uint64_t infinity = all_ones << fraction_bits;
    uint64_t bits, sign, whole, rest, half;
    int32_t exponent;

    memcpy(&bits, &value, sizeof(bits));
    if (fraction_bits == 52) /* the type is a double, so no bits are rounded off */
        return bits;
    sign = bits >> 63 << (info->layout.exponent_bits + fraction_bits);
    exponent = (int32_t)(bits >> 52 & 2047) - 1023 + (int32_t)(all_ones / 2);
    bits &= (1ull << 52) - 1;
    if (value != value) /* the value is NaN; the result is a quiet one */
        return sign | infinity | 1ull << (fraction_bits - 1) | bits >> (52 - fraction_bits);
    bits |= 1ull << 52;
    shift = 52 - fraction_bits + (exponent > 0 ? 0 : (uint32_t)(1 - exponent));
    if (shift > 53)
        return sign;
    if (exponent >= (int32_t)all_ones)
        return sign | infinity;
    whole = (bits >> shift) + (exponent > 0 ? (uint64_t)(exponent - 1) << fraction_bits : 0);
    rest = bits & ((1ull << shift) - 1);
    half = 1ull << (shift - 1);
    if (rest > half || (rest == half && (whole & 1) != 0))
        /* a carry out of the fraction increments the exponent, which gives the right result */
        whole++;
    return sign | whole;
}

/*
 * Returns the bits of a float rounded to the nearest bfloat16, ties to even. This and the next
 * three functions are those of pto/half.h, which kernels can use as well.
 */
static inline uint16_t pto_scene_to_bfloat16(float value)
{
    return pto_bfloat16_from_float(value);
}

/* Returns the bits of a float rounded to the nearest float16, ties to even. */
static inline uint16_t pto_scene_to_float16(float value)
{
    return pto_float16_from_float(value);
}

/* Returns the value of the bits of a bfloat16. */
static inline float pto_scene_from_bfloat16(uint16_t half)
{
    return pto_bfloat16_to_float(half);
}

/* Returns the value of the bits of a float16. */
static inline float pto_scene_from_float16(uint16_t half)
{
    return pto_float16_to_float(half);
}

/*
 * Fills an input with random numbers: integers from `low` to `high`, floats from `low` up to but
 * not including `high`. Data that comes from a file is not changed. Floating-point types of fewer
 * than 16 bits are not supported: the golden fills them in itself.
 */
static inline void pto_scene_random(const struct pto_scene *s, const char *name, double low,
                                    double high)
{
    const struct pto_scene_tensor *t = pto_scene_tensor(s, name);
    const struct pto_dtype_info *info = pto_dtype_info((uint32_t)t->dtype);
    char *to = (char *)pto_scene_data(s, name);
    bool is_float = info->kind == PTO_KIND_FLOAT;

    if (is_float && info->layout.special != PTO_SPECIAL_IEEE) {
        fprintf(stderr, "pto_scene_random has no numbers of the type of '%s'\n", name);
        exit(3);
    }
    for (uint64_t i = 0; i < t->count && !t->is_given; i++, to += info->bytes) {
        uint64_t bits;

        if (is_float) {
            double value = pto_scene_uniform(s, low, high);

            if (info->bytes <= sizeof(float))
                value = (double)(float)value;
            bits = pto_scene_to_bits(t->dtype, value);
        } else {
            bits = (uint64_t)pto_scene_integer(s, (int64_t)low, (int64_t)high);
        }
        /* all supported systems are little-endian, so the value's bytes come first */
        memcpy(to, &bits, info->bytes);
    }
}

#ifdef __cplusplus
}
#endif

#endif

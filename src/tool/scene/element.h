/* SPDX-License-Identifier: Apache-2.0 */
/* Single elements of every data type: their bits, value and text, and the distance between two. */
#ifndef PTO_ELEMENT_H
#define PTO_ELEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "pto/tensor.h"

enum { ELEMENT_TEXT_MAX = 40 };

/* Whether the type is a floating-point type. */
bool scene_element_is_float(enum pto_dtype dtype);
/* Returns the bits of element `index` of an array. */
uint64_t scene_element_bits(enum pto_dtype dtype, const void *array, uint64_t index);
/* Returns the value, exactly except for integers beyond 2^53. */
double scene_element_value(enum pto_dtype dtype, uint64_t bits);
bool scene_element_is_nan(enum pto_dtype dtype, uint64_t bits);
/*
 * Returns the number of representable values between two elements; +0 and -0 are 0 apart. For
 * integers, the difference.
 */
uint64_t scene_element_distance(enum pto_dtype dtype, uint64_t a, uint64_t b);
/* Formats the exact value in the shortest usual form. */
void scene_element_print(enum pto_dtype dtype, uint64_t bits, char text[ELEMENT_TEXT_MAX]);
/* Fills an array with a pattern that kernels are unlikely to write: NaN where the type has one. */
void scene_element_poison(enum pto_dtype dtype, void *array, uint64_t bytes);

#endif

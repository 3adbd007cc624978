/* SPDX-License-Identifier: Apache-2.0 */
/* Single elements of every data type: as bits, as a number, as a text, and how far apart. */
#ifndef PTO_ELEMENT_H
#define PTO_ELEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "pto/tensor.h"

enum { ELEMENT_TEXT_MAX = 40 };

/* Whether its values are floating-point numbers. */
bool scene_element_is_float(enum pto_dtype dtype);
/* Element `index` of an array. */
uint64_t scene_element_bits(enum pto_dtype dtype, const void *array, uint64_t index);
/* Exact but for integers beyond 2^53. */
double scene_element_value(enum pto_dtype dtype, uint64_t bits);
bool scene_element_is_nan(enum pto_dtype dtype, uint64_t bits);
/* Representable values from one to the other; +0 and -0 are 0 apart. For integers: the difference. */
uint64_t scene_element_distance(enum pto_dtype dtype, uint64_t a, uint64_t b);
/* As a person would write it, exactly. */
void scene_element_print(enum pto_dtype dtype, uint64_t bits, char text[ELEMENT_TEXT_MAX]);
/* Bytes that no kernel would write by chance: NaN where the type has one. */
void scene_element_poison(enum pto_dtype dtype, void *array, uint64_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tile library's types, with a bfloat16_t for compilers that have no standard one. Without one,
 * the library makes bfloat16_t another name of half, and computes in fp16.
 */
#ifndef PTO_TYPES_TYPE_HPP
#define PTO_TYPES_TYPE_HPP

#ifdef _PTO_INCLUDE_NPU_TYPE_H_
#error "bfloat16_t is fp16 here: a header of the tile library came before pto/pto-inst.hpp"
#endif

#include <cstdint>

#if defined(__STDCPP_BFLOAT16_T__) && __has_include(<stdfloat>)
#include <stdfloat> /* GCC 13 has std::bfloat16_t, but defines __cplusplus lower than C++23 does */
#endif

#define bfloat16_t pto_placeholder_bfloat16_t
#include_next <pto/common/type.hpp>
#undef bfloat16_t

#if defined(__STDCPP_BFLOAT16_T__) && __has_include(<stdfloat>)
typedef std::bfloat16_t bfloat16_t;
#else
#include "pto/types/bfloat16.hpp"
#endif

#endif

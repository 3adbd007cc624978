/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of a matrix product. Every element of the result is the sum over k, in ascending order,
 * that the tile library computes: for floats a chain of fused multiply-adds that begins with 0, for
 * integers a sum modulo 2^32, in which the order is of no consequence. Several elements are
 * computed at the same time.
 */
#ifndef PTO_FAST_PRODUCT_HPP
#define PTO_FAST_PRODUCT_HPP

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace pto_fast
{

enum {
    PANEL = 16,              /* columns of the result that are computed at the same time */
    STRIP = 4,               /* rows of the result that are computed at the same time */
    DEPTH = 256,             /* length of k for which the right operand is packed */
    HEIGHT = 128,            /* maximum number of rows for which a packed panel is reused */
    LEFT_BYTES = 128 << 10,  /* packed rows of the left operand */
    LONGEST = LEFT_BYTES / 4 /* maximum depth k for which a row of the left operand fits */
};

/* Operands of one step of k: floats, or pairs of integers. */
template <typename C> struct packed {
    using element = C;
    static constexpr std::size_t group = 1;
};

template <> struct packed<int32_t> {
    using element = int16_t;
    static constexpr std::size_t group = 2;
};

/*
 * out[r][j] += sum over k of a[r][k] * b[k][j]. `a` has rows of `stride` elements; `b` has PANEL
 * columns, in groups of k; `out` has rows of PANEL elements.
 */
template <int R>
inline void block_any(const float *a, std::size_t stride, const float *b, std::size_t depth,
                      float *out)
{
    float s[R][PANEL];

    std::memcpy(s, out, sizeof(s));
    for (std::size_t k = 0; k < depth; k++)
        for (int r = 0; r < R; r++)
            for (int j = 0; j < PANEL; j++)
                s[r][j] = std::fma(a[(std::size_t)r * stride + k], b[k * PANEL + j], s[r][j]);
    std::memcpy(out, s, sizeof(s));
}

template <int R>
inline void block_any(const int16_t *a, std::size_t stride, const int16_t *b, std::size_t depth,
                      int32_t *out)
{
    uint32_t s[R][PANEL];

    std::memcpy(s, out, sizeof(s));
    for (std::size_t k = 0; k < depth; k += 2)
        for (int r = 0; r < R; r++)
            for (int j = 0; j < PANEL; j++)
                s[r][j] +=
                    (uint32_t)(a[(std::size_t)r * stride + k] * b[k * PANEL + 2 * j] +
                               a[(std::size_t)r * stride + k + 1] * b[k * PANEL + 2 * j + 1]);
    std::memcpy(out, s, sizeof(s));
}

#if defined(__x86_64__)

#define PTO_FAST_WIDE __attribute__((target("avx2,fma")))

typedef float wide_floats __attribute__((vector_size(32)));
typedef int32_t wide_ints __attribute__((vector_size(32)));
typedef int16_t wide_shorts __attribute__((vector_size(32)));

/* Whether this processor has the instructions that the blocks below use. */
inline bool is_wide()
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("f16c");
}

template <int R>
PTO_FAST_WIDE inline void block_wide(const float *a, std::size_t stride, const float *b,
                                     std::size_t depth, float *out)
{
    wide_floats s[R][2];

    std::memcpy(s, out, sizeof(s));
    for (std::size_t k = 0; k < depth; k++) {
        wide_floats b0, b1;

        std::memcpy(&b0, b + k * PANEL, sizeof(b0));
        std::memcpy(&b1, b + k * PANEL + 8, sizeof(b1));
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) {
            const float x = a[(std::size_t)r * stride + k];
            const wide_floats v = { x, x, x, x, x, x, x, x };
#if defined(__clang__)
            s[r][0] = __builtin_elementwise_fma(v, b0, s[r][0]);
            s[r][1] = __builtin_elementwise_fma(v, b1, s[r][1]);
#else
            s[r][0] = __builtin_ia32_vfmaddps256(v, b0, s[r][0]);
            s[r][1] = __builtin_ia32_vfmaddps256(v, b1, s[r][1]);
#endif
        }
    }
    std::memcpy(out, s, sizeof(s));
}

template <int R>
PTO_FAST_WIDE inline void block_wide(const int16_t *a, std::size_t stride, const int16_t *b,
                                     std::size_t depth, int32_t *out)
{
    wide_ints s[R][2];

    std::memcpy(s, out, sizeof(s));
    for (std::size_t k = 0; k < depth; k += 2) {
        wide_shorts b0, b1;

        std::memcpy(&b0, b + k * PANEL, sizeof(b0));
        std::memcpy(&b1, b + k * PANEL + 16, sizeof(b1));
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) {
            int32_t x;

            std::memcpy(&x, a + (std::size_t)r * stride + k, sizeof(x)); /* two operands */
            const wide_ints v = { x, x, x, x, x, x, x, x };
            s[r][0] += (wide_ints)__builtin_ia32_pmaddwd256((wide_shorts)v, b0);
            s[r][1] += (wide_ints)__builtin_ia32_pmaddwd256((wide_shorts)v, b1);
        }
    }
    std::memcpy(out, s, sizeof(s));
}

/* Without these instructions each conversion of a half is a call. */
__attribute__((target("avx2,f16c"))) inline void widen_wide(const half *from, float *to,
                                                            std::size_t count)
{
    for (std::size_t i = 0; i < count; i++)
        to[i] = (float)from[i];
}

#else

inline bool is_wide()
{
    return false;
}

inline void widen_wide(const half *from, float *to, std::size_t count)
{
    for (std::size_t i = 0; i < count; i++)
        to[i] = (float)from[i];
}

template <int R, typename E, typename C>
inline void block_wide(const E *a, std::size_t stride, const E *b, std::size_t depth, C *out)
{
    block_any<R>(a, stride, b, depth, out);
}

#endif

/* Converts elements to operands. GCC converts its bfloat16 with calls, so its bits are shifted. */
template <typename C, typename T>
inline void to_operands(const T *from, typename packed<C>::element *to, std::size_t count)
{
    if constexpr (std::is_same_v<T, half>) {
        if (is_wide()) {
            widen_wide(from, to, count);
            return;
        }
        for (std::size_t i = 0; i < count; i++)
            to[i] = (float)from[i];
    } else if constexpr (std::is_same_v<T, bfloat16_t>) {
        uint16_t bits;
        uint32_t wide;

        for (std::size_t i = 0; i < count; i++) {
            std::memcpy(&bits, from + i, sizeof(bits));
            wide = (uint32_t)bits << 16;
            std::memcpy(to + i, &wide, sizeof(wide));
        }
    } else {
        for (std::size_t i = 0; i < count; i++)
            to[i] = static_cast<typename packed<C>::element>(from[i]);
    }
}

/* Computes out[i][0..PANEL-1] for all rows i. */
template <typename E, typename C>
inline void multiply(const E *a, std::size_t stride, std::size_t rows, const E *b,
                     std::size_t depth, C *out)
{
    const bool wide = is_wide();
    std::size_t i = 0;

    for (; i + STRIP <= rows; i += STRIP)
        if (wide)
            block_wide<STRIP>(a + i * stride, stride, b, depth, out + i * PANEL);
        else
            block_any<STRIP>(a + i * stride, stride, b, depth, out + i * PANEL);
    for (; i < rows; i++)
        if (wide)
            block_wide<1>(a + i * stride, stride, b, depth, out + i * PANEL);
        else
            block_any<1>(a + i * stride, stride, b, depth, out + i * PANEL);
}

} // namespace pto_fast

#endif

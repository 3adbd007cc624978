/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TMATMUL, also with an accumulator or a bias, and TGEMV: the tile library's sums, several of them
 * at a time, from packed operands.
 */
#ifndef PTO_FAST_TMATMUL_HPP
#define PTO_FAST_TMATMUL_HPP

#include_next <pto/cpu/TMatmul.hpp>
#include "pto/cpu/tile_offsets.hpp"
#include "pto/fast/copy.hpp"
#include "pto/fast/product.hpp"

namespace pto_fast
{

template <typename A, typename B, typename C>
concept factors = std::is_same_v<A, B> &&
    ((std::is_same_v<C, int32_t> && std::is_same_v<A, int8_t>) ||
     (std::is_same_v<C, float> &&
      (std::is_same_v<A, float> || std::is_same_v<A, half> || std::is_same_v<A, bfloat16_t>)));

/* Packs rows row..row+rows-1 of the left operand, each padded with zeros to `stride` elements. */
template <typename C, typename Tile>
inline void pack_left(typename packed<C>::element *to, std::size_t stride, Tile &tile,
                      std::size_t row, std::size_t rows, std::size_t depth)
{
    using T = typename Tile::DType;
    const tile_place<Tile> place;
    const T *data = tile.data();
    std::size_t col[BLOCK], base = place(0, 0);
    T line[BLOCK];

    for (std::size_t k = 0; k < stride; k += BLOCK) {
        const std::size_t padded = stride - k < BLOCK ? stride - k : BLOCK;
        const std::size_t n = depth - k < padded ? depth - k : padded;
        for (std::size_t i = 0; i < n; i++)
            col[i] = place(0, k + i) - base;
        for (std::size_t r = 0; r < rows; r++) {
            const T *from = data + place(row + r, 0);
            for (std::size_t i = 0; i < n; i++)
                line[i] = from[col[i]];
            to_operands<C>(line, to + r * stride + k, n);
            for (std::size_t i = n; i < padded; i++)
                to[r * stride + k + i] = 0;
        }
    }
}

/* Packs `depth` rows, from k on, of PANEL columns of the right operand; the rest is zeros. */
template <typename C, typename Tile>
inline void pack_right(typename packed<C>::element *to, Tile &tile, std::size_t k,
                       std::size_t depth, std::size_t end, std::size_t col, std::size_t cols)
{
    using T = typename Tile::DType;
    constexpr std::size_t group = packed<C>::group;
    const tile_place<Tile> place;
    const T *data = tile.data();
    const std::size_t base = place(0, 0), n = end - k < depth ? end - k : depth;
    std::size_t row[DEPTH];
    T panel[DEPTH * PANEL];

    if (n != depth || cols != PANEL)
        std::memset((void *)panel, 0, sizeof(panel));
    for (std::size_t i = 0; i < n; i++)
        row[i] = place(k + i, 0) - base;
    for (std::size_t j = 0; j < cols; j++) {
        const T *from = data + place(0, col + j);
        for (std::size_t i = 0; i < n; i++)
            panel[i / group * (PANEL * group) + j * group + i % group] = from[row[i]];
    }
    to_operands<C>(panel, to, depth * PANEL);
}

/* Adds as the processor does; signed integers must not overflow in C++. */
template <typename C> inline C sum_of(C a, C b)
{
    if constexpr (std::is_same_v<C, int32_t>)
        return (C)((uint32_t)a + (uint32_t)b);
    else
        return a + b;
}

/*
 * Computes one element with the library's own operations in their order, which decides which of
 * several NaNs a sum becomes.
 */
template <typename C, typename Left, typename Right>
inline C single(Left &left, Right &right, std::size_t i, std::size_t j, std::size_t depth)
{
    C sum = 0;

    for (std::size_t k = 0; k < depth; k++) {
        const C a = static_cast<C>(left.GetElement(i, k));
        const C b = static_cast<C>(right.GetElement(k, j));
        if constexpr (std::is_same_v<C, float>)
            sum = std::fma(a, b, sum);
        else
            sum = sum_of<C>(sum, a * b);
    }
    return sum;
}

/* Whether the result can be written without changing operands that are still to be read. */
template <typename Acc, typename Left, typename Right>
inline bool is_product_apart(Acc &dst, Acc *acc, Left &left, Right &right)
{
    const void *to = dst.data();
    const std::size_t bytes = Acc::GetSizeInBytes();

    return !overlaps(to, bytes, left.data(), Left::GetSizeInBytes()) &&
           !overlaps(to, bytes, right.data(), Right::GetSizeInBytes()) &&
           (acc == nullptr || acc->data() == to || !overlaps(to, bytes, acc->data(), bytes));
}

/* Writes sums to the result, one row of a panel after the other. */
template <typename Acc, typename Left, typename Right>
inline void store_panel(Acc &dst, Acc *acc, Left &left, Right &right,
                        const typename Acc::DType *sums, std::size_t row, std::size_t rows,
                        std::size_t col, std::size_t cols)
{
    using C = typename Acc::DType;
    const tile_place<Acc> place;
    const std::size_t depth = (uint16_t)left.GetValidCol();

    for (std::size_t i = 0; i < rows; i++)
        for (std::size_t j = 0; j < cols; j++) {
            const std::size_t at = place(row + i, col + j);
            C sum = sums[i * PANEL + j];
            if (sum != sum)
                sum = single<C>(left, right, row + i, col + j, depth);
            dst.data()[at] = acc ? sum_of<C>(acc->data()[at], sum) : sum;
        }
}

/* The product of tiles with at least one row, column and term. */
template <typename Acc, typename Left, typename Right>
inline void product(Acc &dst, Acc *acc, Left &left, Right &right, std::size_t M, std::size_t K,
                    std::size_t N)
{
    using C = typename Acc::DType;
    using E = typename packed<C>::element;
    constexpr std::size_t group = packed<C>::group;
    const std::size_t depth = (K + group - 1) / group * group;
    const std::size_t fitting = LEFT_BYTES / sizeof(E) / depth;
    const std::size_t height = fitting < HEIGHT ? fitting : HEIGHT;
    /*
     * On the stack, whose pages are already mapped: allocating this much memory would take longer
     * than the product.
     */
    E a[LEFT_BYTES / sizeof(E)];
    E b[DEPTH * PANEL];
    C sums[HEIGHT * PANEL];

    for (std::size_t i = 0; i < M; i += height) {
        const std::size_t rows = M - i < height ? M - i : height;
        pack_left<C>(a, depth, left, i, rows, K);
        for (std::size_t j = 0; j < N; j += PANEL) {
            const std::size_t cols = N - j < PANEL ? N - j : PANEL;
            std::memset(sums, 0, rows * PANEL * sizeof(C));
            for (std::size_t k = 0; k < depth; k += DEPTH) {
                const std::size_t n = depth - k < DEPTH ? depth - k : DEPTH;
                pack_right<C>(b, right, k, n, K, j, cols);
                multiply(a + k, depth, rows, b, n, sums);
            }
            store_panel(dst, acc, left, right, sums, i, rows, j, cols);
        }
    }
}

} // namespace pto_fast

namespace pto
{

template <typename TileAcc, typename TileLeft, typename TileRight>
requires pto_fast::tile<TileAcc> && pto_fast::tile<TileLeft> && pto_fast::tile<TileRight> &&
    pto_fast::factors<typename TileLeft::DType, typename TileRight::DType,
                      typename TileAcc::DType> && requires
{
    CheckMadValid<TileAcc, TileLeft, TileRight>();
}
void TMatmulNzZn(TileAcc &dst, TileAcc *acc, TileLeft &src0, TileRight &src1)
{
    CheckMadValid<TileAcc, TileLeft, TileRight>();

    const std::size_t M = (uint16_t)src0.GetValidRow(), K = (uint16_t)src0.GetValidCol(),
                      N = (uint16_t)src1.GetValidCol();

    if (K != 0 && K <= pto_fast::LONGEST && pto_fast::is_product_apart(dst, acc, src0, src1)) {
        pto_fast::product(dst, acc, src0, src1, M, K, N);
        return;
    }
    for (std::size_t i = 0; i < M; i++)
        for (std::size_t j = 0; j < N; j++) {
            const auto sum = pto_fast::single<typename TileAcc::DType>(src0, src1, i, j, K);
            dst.SetElement(i, j, acc ? pto_fast::sum_of(acc->GetElement(i, j), sum) : sum);
        }
}

} // namespace pto

#endif

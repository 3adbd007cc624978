/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between tiles and tensors. In all layouts of the tile library the offset of an element is
 * the sum of an offset of its row and an offset of its column. Both are computed once for each row
 * and column of a block, by the library's own functions, and elements that are adjacent in both
 * source and destination are copied together.
 *
 * Everything is in the kernel's stack, so that unloading a kernel waits for no thread.
 */
#ifndef PTO_FAST_COPY_HPP
#define PTO_FAST_COPY_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace pto_fast
{

/* Elements of a whole number of bytes, which can be copied as bytes. */
template <typename T>
concept whole = std::is_arithmetic_v<T> || std::is_same_v<T, half> || std::is_same_v<T, bfloat16_t>;

/*
 * Whether the offsets of a tile's elements are known: the tile has no boxes (sub-blocks of the tile
 * library's layouts), or a whole number of them.
 */
template <typename Tile> constexpr bool has_whole_boxes()
{
    if constexpr (Tile::SFractal == pto::SLayout::NoneBox)
        return true;
    else
        return Tile::Rows % Tile::InnerRows == 0 && Tile::Cols % Tile::InnerCols == 0;
}

template <typename Tile>
concept has_tile_members = requires(Tile &t, std::size_t i)
{
    typename Tile::DType;
    t.data();
    t.GetValidRow();
    t.GetValidCol();
    Tile::GetSizeInUnits();
    pto::GetTileElementOffset<Tile>(i, i);
};

template <typename Tile>
concept tile = has_tile_members<Tile> && has_whole_boxes<Tile>() && whole<typename Tile::DType>;

template <typename Global>
concept has_global_members = requires(Global &g, std::size_t i, const std::vector<int64_t> &v)
{
    typename Global::DType;
    g.data();
    g.GetShape(0);
    g.GetStride(0);
    pto::MapTileIndicesToGlobalOffset<Global>(i, i, v, v);
};

template <typename Global>
concept global = has_global_members<Global> && whole<typename Global::DType> &&
    (Global::layout == pto::Layout::ND || Global::layout == pto::Layout::DN ||
     Global::layout == pto::Layout::NZ);

/* Shape and strides of a tensor, as the library's function takes them. */
struct extents {
    std::vector<int64_t> shape, stride;
    template <typename Global> explicit extents(Global &g)
    {
        shape.reserve(5);
        stride.reserve(5);
        for (int i = 0; i < 5; i++) {
            shape.push_back(g.GetShape(i));
            stride.push_back(g.GetStride(i));
        }
    }
};

/* Returns the offset of an element, by its distance from the element (row, col) of a tile. */
template <typename Tile> struct tile_place {
    std::size_t row = 0, col = 0;
    std::size_t operator()(std::size_t r, std::size_t c) const
    {
        return pto::GetTileElementOffset<Tile>(row + r, col + c);
    }
};

template <typename Global> struct global_place {
    const extents &e;
    std::size_t operator()(std::size_t r, std::size_t c) const
    {
        return pto::MapTileIndicesToGlobalOffset<Global>(r, c, e.shape, e.stride);
    }
};

enum { BLOCK = 256, SHORT = 32 };

/* Offsets of the rows or columns from..from+count-1, relative to that of element (0, 0). */
struct offsets {
    std::size_t at[BLOCK];
    template <typename Place> void of_rows(const Place &place, std::size_t from, std::size_t count)
    {
        const std::size_t base = place(0, 0);
        for (std::size_t i = 0; i < count; i++)
            at[i] = place(from + i, 0) - base;
    }
    template <typename Place> void of_cols(const Place &place, std::size_t from, std::size_t count)
    {
        const std::size_t base = place(0, 0);
        for (std::size_t i = 0; i < count; i++)
            at[i] = place(0, from + i) - base;
    }
};

/* Sequences of elements that are adjacent in both source and destination. */
struct runs {
    uint16_t begin[BLOCK + 1];
    std::size_t count;
    void find(const offsets &d, const offsets &s, std::size_t n)
    {
        count = 0;
        for (std::size_t i = 0; i < n; i++)
            if (i == 0 || d.at[i] - d.at[i - 1] != 1 || s.at[i] - s.at[i - 1] != 1)
                begin[count++] = (uint16_t)i;
        begin[count] = (uint16_t)n;
    }
};

template <typename T> inline void copy_run(T *d, const T *s, std::size_t n)
{
    if (n * sizeof(T) == SHORT)
        std::memcpy(d, s, SHORT);
    else
        std::memcpy(d, s, n * sizeof(T));
}

/* Copies one block, whose row and column offsets are given. */
template <typename T>
inline void copy_block(T *d, const offsets &dr, const offsets &dc, const T *s, const offsets &sr,
                       const offsets &sc, std::size_t rows, std::size_t cols)
{
    runs by_col, by_row;

    by_col.find(dc, sc, cols);
    by_row.find(dr, sr, rows);
    if (by_col.count * rows <= by_row.count * cols && by_col.count < cols) {
        for (std::size_t r = 0; r < rows; r++)
            for (std::size_t i = 0; i < by_col.count; i++) {
                const std::size_t c = by_col.begin[i];
                copy_run(d + dr.at[r] + dc.at[c], s + sr.at[r] + sc.at[c], by_col.begin[i + 1] - c);
            }
    } else if (by_row.count < rows) {
        for (std::size_t c = 0; c < cols; c++)
            for (std::size_t i = 0; i < by_row.count; i++) {
                const std::size_t r = by_row.begin[i];
                copy_run(d + dr.at[r] + dc.at[c], s + sr.at[r] + sc.at[c], by_row.begin[i + 1] - r);
            }
    } else {
        for (std::size_t r = 0; r < rows; r++) {
            T *to = d + dr.at[r];
            const T *from = s + sr.at[r];
            for (std::size_t c = 0; c < cols; c++)
                to[dc.at[c]] = from[sc.at[c]];
        }
    }
}

/*
 * Calls visit(r, c, rows, cols) for each block, row by row, with the offset tables of source and
 * destination. The offsets are counted from element (0, 0) of the whole tile or tensor.
 */
template <typename To, typename From, typename Visit>
inline void for_blocks(const To &to, const From &from, std::size_t rows, std::size_t cols,
                       Visit visit)
{
    offsets dr, dc, sr, sc;

    for (std::size_t r = 0; r < rows; r += BLOCK) {
        const std::size_t m = rows - r < BLOCK ? rows - r : BLOCK;
        dr.of_rows(to, r, m);
        sr.of_rows(from, r, m);
        for (std::size_t c = 0; c < cols; c += BLOCK) {
            const std::size_t n = cols - c < BLOCK ? cols - c : BLOCK;
            if (r == 0 || cols > BLOCK) {
                dc.of_cols(to, c, n);
                sc.of_cols(from, c, n);
            }
            visit(dr, dc, sr, sc, m, n);
        }
    }
}

/* Copies rows * cols elements between memory that does not overlap. */
template <typename T, typename To, typename From>
inline void copy(T *d, const To &to, const T *s, const From &from, std::size_t rows,
                 std::size_t cols)
{
    d += to(0, 0);
    s += from(0, 0);
    for_blocks(to, from, rows, cols,
               [&](const offsets &dr, const offsets &dc, const offsets &sr, const offsets &sc,
                   std::size_t m, std::size_t n) { copy_block(d, dr, dc, s, sr, sc, m, n); });
}

/* Whether two ranges of memory have bytes in common. */
inline bool overlaps(const void *a, std::size_t a_bytes, const void *b, std::size_t b_bytes)
{
    const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

    return x < y + b_bytes && y < x + a_bytes;
}

/* Whether the elements of a tensor have no bytes in common with a tile. */
template <typename Tile>
inline bool is_apart(const void *tensor, const extents &e, std::size_t element, const void *data)
{
    int64_t low = 0, high = 1;

    for (int i = 0; i < 5; i++)
        (e.stride[i] < 0 ? low : high) += (e.shape[i] - 1) * e.stride[i];
    return !overlaps((const char *)tensor + low * (int64_t)element,
                     (std::size_t)(high - low) * element, data, Tile::GetSizeInBytes());
}

/*
 * Copies rows * cols elements of a tile, from (row, col) on, to the beginning of another tile. If
 * the tiles overlap, they are copied in the library's order, column by column.
 */
template <typename To, typename From>
inline void copy_tile(To &dst, From &src, std::size_t row, std::size_t col, std::size_t rows,
                      std::size_t cols)
{
    using T = typename To::DType;
    const tile_place<To> to;
    const tile_place<From> from{ row, col };
    T *d = dst.data();
    const T *s = src.data();

    if (!overlaps(d, To::GetSizeInBytes(), s, From::GetSizeInBytes())) {
        copy<T>(d, to, s, from, rows, cols);
        return;
    }
    for (std::size_t c = 0; c < cols; c++)
        for (std::size_t r = 0; r < rows; r++)
            d[to(r, c)] = s[from(r, c)];
}

} // namespace pto_fast

#endif

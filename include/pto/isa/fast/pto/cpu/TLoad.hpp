/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLOAD of plain elements: the result is the tile library's, but adjacent elements are copied
 * together.
 */
#ifndef PTO_FAST_TLOAD_HPP
#define PTO_FAST_TLOAD_HPP

#include_next <pto/cpu/TLoad.hpp>
#include <algorithm>
#include "pto/cpu/tile_offsets.hpp"
#include "pto/fast/copy.hpp"

namespace pto
{

template <typename TileData, typename GlobalData>
requires pto_fast::tile<TileData> && pto_fast::global<GlobalData> &&
    std::is_same_v<std::remove_cv_t<typename TileData::DType>,
                   std::remove_cv_t<typename GlobalData::DType>> &&
    requires(TileData &dst, GlobalData &src)
{
    CheckTileData<TileData, GlobalData>(dst, src);
    getPadValue<TileData>();
}
inline void TLOAD_TILE_IMPL(TileData &dst, GlobalData &src)
{
    using T = std::remove_cv_t<typename TileData::DType>;
    CheckTileData<TileData, GlobalData>(dst, src);

    const std::size_t rows = dst.GetValidRow(), cols = dst.GetValidCol();
    const pto_fast::extents extents(src);
    const pto_fast::tile_place<TileData> to;
    const pto_fast::global_place<GlobalData> from{ extents };
    T *data = dst.data();
    const T *tensor = src.data();
    const bool is_apart =
        pto_fast::is_apart<TileData>(tensor, extents, sizeof(T), (const void *)data);

    if (rows * cols != TileData::GetSizeInUnits() || !is_apart)
        std::fill(data, data + TileData::GetSizeInUnits(), getPadValue<TileData>());
    if (is_apart) {
        pto_fast::copy<T>(data, to, tensor, from, rows, cols);
        return;
    }
    for (std::size_t r = 0; r < rows; r++)
        for (std::size_t c = 0; c < cols; c++)
            data[to(r, c)] = tensor[from(r, c)];
}

} // namespace pto

#endif

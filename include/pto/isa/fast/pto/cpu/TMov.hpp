/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TMOV between tiles of one type: the result is the tile library's, but adjacent elements are
 * copied together.
 */
#ifndef PTO_FAST_TMOV_HPP
#define PTO_FAST_TMOV_HPP

#include_next <pto/cpu/TMov.hpp>
#include "pto/cpu/tile_offsets.hpp"
#include "pto/fast/copy.hpp"

namespace pto
{

template <typename DstTileData, typename SrcTileData, STPhase Phase = STPhase::Unspecified>
requires pto_fast::tile<DstTileData> && pto_fast::tile<SrcTileData> &&
    std::is_same_v<typename DstTileData::DType, typename SrcTileData::DType>
inline void TMOV_IMPL(DstTileData &dst, SrcTileData &src)
{
    assert(src.GetValidRow() == dst.GetValidRow() && src.GetValidCol() == dst.GetValidCol());
    pto_fast::copy_tile(dst, src, 0, 0, src.GetValidRow(), src.GetValidCol());
}

} // namespace pto

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TEXTRACT and TMOV without conversion: the result is the tile library's, but adjacent elements are
 * copied together.
 */
#ifndef PTO_FAST_TEXTRACT_HPP
#define PTO_FAST_TEXTRACT_HPP

#include_next <pto/cpu/TExtract.hpp>
#include "pto/cpu/tile_offsets.hpp"
#include "pto/fast/copy.hpp"

namespace pto
{

template <typename DstTileData, typename SrcTileData, QuantMode_t quantMode, bool applyRelu>
requires pto_fast::tile<DstTileData> && pto_fast::tile<SrcTileData> &&
    (quantMode == QuantMode_t::NoQuant) &&
    (!applyRelu) &&
    std::is_same_v<
        typename DstTileData::DType,
        typename SrcTileData::DType> inline void TExtract_Impl(DstTileData &dst, SrcTileData &src,
                                                               uint32_t idxRow, uint32_t idxCol,
                                                               const std::vector<uint64_t> & = {})
{
    assert(dst.GetValidRow() + idxRow <= src.GetValidRow() &&
           dst.GetValidCol() + idxCol <= src.GetValidCol());
    pto_fast::copy_tile(dst, src, idxRow, idxCol, dst.GetValidRow(), dst.GetValidCol());
}

} // namespace pto

#endif

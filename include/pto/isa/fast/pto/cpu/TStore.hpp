/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TSTORE without quantisation: the same elements as the tile library's, in runs or, where the type
 * changes, one by one with the library's conversion. Atomic additions keep the library's order, but
 * exclude those of other kernels as well (fast/atomic.hpp).
 */
#ifndef PTO_FAST_TSTORE_HPP
#define PTO_FAST_TSTORE_HPP

#include_next <pto/cpu/TStore.hpp>
#include "pto/cpu/tile_offsets.hpp"
#include "pto/fast/atomic.hpp"
#include "pto/fast/copy.hpp"

namespace pto
{

template <typename GlobalData, typename TileData, QuantMode_t quantMode, bool applyRelu,
          AtomicType atomicType = AtomicType::AtomicNone>
requires pto_fast::tile<TileData> && pto_fast::global<GlobalData> &&
    (quantMode == QuantMode_t::NoQuant) &&
    (atomicType == AtomicType::AtomicNone || atomicType == AtomicType::AtomicAdd) &&
    requires(TileData &src, GlobalData &dst, typename TileData::DType value)
{
    CheckTileDataStore(dst, src);
    ConvertStoreValue<typename GlobalData::DType, typename TileData::DType, quantMode, applyRelu>(
        value, 0);
}
inline void TStore(GlobalData &dst, TileData &src, const std::vector<uint64_t> &)
{
    using DT = std::remove_cv_t<typename GlobalData::DType>;
    using ST = std::remove_cv_t<typename TileData::DType>;
    CheckTileDataStore(dst, src);

    const std::size_t rows = src.GetValidRow(), cols = src.GetValidCol();
    const pto_fast::extents extents(dst);
    const pto_fast::global_place<GlobalData> to{ extents };
    const pto_fast::tile_place<TileData> from;
    DT *tensor = dst.data();
    const ST *data = src.data();
    const auto value = [&](std::size_t at) {
        return ConvertStoreValue<DT, ST, quantMode, applyRelu>(data[at], 0);
    };
    const auto add = [&](std::size_t at, DT summand) {
        if constexpr (pto_fast::is_lock_free<DT>()) {
            if (pto_fast::is_aligned(tensor)) {
                pto_fast::add(tensor + at, summand);
                return;
            }
        }
        dst.AddToElement(at, summand);
    };

    if (!pto_fast::is_apart<TileData>(tensor, extents, sizeof(DT), (const void *)data)) {
        for (std::size_t r = 0; r < rows; r++)
            for (std::size_t c = 0; c < cols; c++)
                if constexpr (atomicType == AtomicType::AtomicAdd)
                    add(to(r, c), value(from(r, c)));
                else
                    tensor[to(r, c)] = value(from(r, c));
    } else if constexpr (std::is_same_v<DT, ST> && !applyRelu &&
                         atomicType == AtomicType::AtomicNone) {
        pto_fast::copy<DT>(tensor, to, data, from, rows, cols);
    } else {
        const std::size_t d = to(0, 0), s = from(0, 0);

        pto_fast::for_blocks(to, from, rows, cols,
                             [&](const pto_fast::offsets &dr, const pto_fast::offsets &dc,
                                 const pto_fast::offsets &sr, const pto_fast::offsets &sc,
                                 std::size_t m, std::size_t n) {
                                 for (std::size_t r = 0; r < m; r++)
                                     for (std::size_t c = 0; c < n; c++) {
                                         const DT v = value(s + sr.at[r] + sc.at[c]);
                                         if constexpr (atomicType == AtomicType::AtomicAdd)
                                             add(d + dr.at[r] + dc.at[c], v);
                                         else
                                             tensor[d + dr.at[r] + dc.at[c]] = v;
                                     }
                             });
    }
}

} // namespace pto

#endif

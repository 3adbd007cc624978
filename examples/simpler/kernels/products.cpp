// SPDX-License-Identifier: Apache-2.0
//
// products[r][c] = a[r][c] * x[c]; the rows are dealt out to the blocks.
#include "intrinsic.h"
#include "tensor.h"

extern "C" __aicore__ void kernel_entry(__gm__ int64_t *args)
{
    const auto *a = reinterpret_cast<const ChipTensor *>(args[0]);
    const auto *x = reinterpret_cast<const ChipTensor *>(args[1]);
    const auto *products = reinterpret_cast<const ChipTensor *>(args[2]);
    const float *from = a->data_as<float>() + a->start_offset;
    float *to = products->data_as<float>() + products->start_offset;
    const auto first = static_cast<uint32_t>(get_block_idx(args));
    const auto step = static_cast<uint32_t>(get_block_num(args));

    for (uint32_t r = first; r < a->shapes[0]; r += step)
        for (uint32_t c = 0; c < a->shapes[1]; c++)
            to[r * products->strides[0] + c] =
                from[r * a->strides[0] + c] * x->data_as<float>()[x->start_offset + c];
}

// SPDX-License-Identifier: Apache-2.0
//
// products[r][c] = a[r][c] * x[c]; the rows are dealt out to the blocks.
#include "intrinsic.h"
#include "tensor.h"

extern "C" __aicore__ void kernel_entry(__gm__ int64_t *args)
{
    __gm__ ChipTensor *a = reinterpret_cast<__gm__ ChipTensor *>(args[0]);
    __gm__ ChipTensor *x = reinterpret_cast<__gm__ ChipTensor *>(args[1]);
    __gm__ ChipTensor *products = reinterpret_cast<__gm__ ChipTensor *>(args[2]);
    __gm__ float *from = reinterpret_cast<__gm__ float *>(a->buffer.addr) + a->start_offset;
    __gm__ float *by = reinterpret_cast<__gm__ float *>(x->buffer.addr) + x->start_offset;
    __gm__ float *to =
        reinterpret_cast<__gm__ float *>(products->buffer.addr) + products->start_offset;
    const auto first = static_cast<uint32_t>(get_block_idx(args));
    const auto step = static_cast<uint32_t>(get_block_num(args));

    for (uint32_t r = first; r < a->shapes[0]; r += step)
        for (uint32_t c = 0; c < a->shapes[1]; c++)
            to[r * products->strides[0] + c] = from[r * a->strides[0] + c] * by[c];
}

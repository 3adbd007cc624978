// SPDX-License-Identifier: Apache-2.0
//
// sums[r] = the sum of row r.
#include "intrinsic.h"
#include "tensor.h"

extern "C" __aicore__ void kernel_entry(__gm__ int64_t *args)
{
    __gm__ ChipTensor *rows = reinterpret_cast<__gm__ ChipTensor *>(args[0]);
    __gm__ ChipTensor *sums = reinterpret_cast<__gm__ ChipTensor *>(args[1]);
    __gm__ float *from = reinterpret_cast<__gm__ float *>(rows->buffer.addr) + rows->start_offset;
    __gm__ float *to = reinterpret_cast<__gm__ float *>(sums->buffer.addr) + sums->start_offset;

    for (uint32_t r = 0; r < rows->shapes[0]; r++) {
        to[r] = 0;
        for (uint32_t c = 0; c < rows->shapes[1]; c++)
            to[r] += from[r * rows->strides[0] + c];
    }
}

// SPDX-License-Identifier: Apache-2.0
//
// sums[r] = the sum of row r.
#include "intrinsic.h"
#include "tensor.h"

extern "C" __aicore__ void kernel_entry(__gm__ int64_t *args)
{
    const auto *rows = reinterpret_cast<const ChipTensor *>(args[0]);
    const auto *sums = reinterpret_cast<const ChipTensor *>(args[1]);
    const float *from = rows->data_as<float>() + rows->start_offset;
    float *to = sums->data_as<float>() + sums->start_offset;

    for (uint32_t r = 0; r < rows->shapes[0]; r++) {
        to[r] = 0;
        for (uint32_t c = 0; c < rows->shapes[1]; c++)
            to[r] += from[r * rows->strides[0] + c];
    }
}

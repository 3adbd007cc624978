// SPDX-License-Identifier: Apache-2.0
// The sum of all elements. Its header comes from extra_include_dirs.
#include <cstdint>

#include "intrinsic.h"
#include "row_width.h"
#include "tensor.h"

extern "C" __aicore__ void kernel_entry(__gm__ int64_t *args)
{
    const auto *y = reinterpret_cast<const ChipTensor *>(args[0]);
    const auto *total = reinterpret_cast<const ChipTensor *>(args[1]);
    const float *from = y->data_as<float>() + y->start_offset;
    float sum = 0;

    for (uint64_t i = 0; i < (uint64_t)y->shapes[0] * ROW_WIDTH; i++)
        sum += from[i];
    *total->data_as<float>() = sum;
}

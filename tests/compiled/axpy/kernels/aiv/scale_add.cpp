// SPDX-License-Identifier: Apache-2.0
// y += alpha * x
#include <cstdint>
#include <cstring>

#include "intrinsic.h"
#include "tensor.h"

extern "C" __aicore__ void kernel_entry(__gm__ int64_t *args)
{
    const auto *x = reinterpret_cast<const ChipTensor *>(args[0]);
    const auto *y = reinterpret_cast<const ChipTensor *>(args[1]);
    const float *from = x->data_as<float>() + x->start_offset;
    float *to = y->data_as<float>() + y->start_offset;
    float alpha;

    std::memcpy(&alpha, &args[2], sizeof(alpha));
    for (uint64_t i = 0; i < (uint64_t)x->shapes[0] * x->shapes[1]; i++)
        to[i] += alpha * from[i];
}

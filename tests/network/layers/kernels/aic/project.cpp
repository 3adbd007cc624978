// SPDX-License-Identifier: Apache-2.0
//
// y = W x, in whole numbers below 2^24, so that sums are exact
#include "../common.h"

extern "C" __aicore__ void kernel_entry(__gm__ int64_t *args)
{
    __gm__ float *w = data_of<float>(args, 0), *x = data_of<float>(args, 1);
    __gm__ float *y = data_of<float>(args, 2);
    const uint32_t rows = size_of(args, 2), columns = size_of(args, 1);

    for (uint32_t r = 0; r < rows; r++) {
        float sum = 0;

        for (uint32_t c = 0; c < columns; c++)
            sum += w[r * columns + c] * x[c];
        y[r] = sum - 1024 * static_cast<float>(static_cast<int32_t>(sum / 1024));
    }
}

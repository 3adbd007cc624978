// SPDX-License-Identifier: Apache-2.0
//
// A row of the cache becomes x; only in layers that the predicate allows.
#include "../common.h"

extern "C" __aicore__ void kernel_entry(__gm__ int64_t *args)
{
    __gm__ float *x = data_of<float>(args, 0), *row = data_of<float>(args, 1);

    for (uint32_t i = 0; i < size_of(args, 0); i++)
        row[i] = x[i];
}

// SPDX-License-Identifier: Apache-2.0
//
// Writes a part of x into the window of the other rank, and then counts up there.
#include "../common.h"

extern "C" __aicore__ void kernel_entry(__gm__ int64_t *args)
{
    __gm__ float *x = data_of<float>(args, 0), *inbox = data_of<float>(args, 1);
    __gm__ int32_t *done = data_of<int32_t>(args, 2);
    const int64_t layer = args[3];
    __gm__ CommContext *context = reinterpret_cast<__gm__ CommContext *>(args[4]);
    const uint32_t own = context->rankId, n = size_of(args, 0);
    const uint64_t away = context->windowsIn[1 - own] - context->windowsIn[own];
    __gm__ float *to =
        reinterpret_cast<__gm__ float *>(reinterpret_cast<uint64_t>(inbox + layer * n) + away);
    __gm__ int32_t *count =
        reinterpret_cast<__gm__ int32_t *>(reinterpret_cast<uint64_t>(done) + away);

    for (uint32_t i = 0; i < n; i++)
        to[i] = x[i];
    __atomic_store_n(count, static_cast<int32_t>(layer) + 1, __ATOMIC_RELEASE);
}

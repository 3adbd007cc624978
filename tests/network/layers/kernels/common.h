// SPDX-License-Identifier: Apache-2.0
#ifndef LAYERS_COMMON_H
#define LAYERS_COMMON_H

#include "intrinsic.h"
#include "tensor.h"

#include "platform_comm/comm_context.h"

template <typename T> static __aicore__ __gm__ T *data_of(__gm__ int64_t *args, int i)
{
    __gm__ ChipTensor *tensor = reinterpret_cast<__gm__ ChipTensor *>(args[i]);

    return reinterpret_cast<__gm__ T *>(tensor->buffer.addr) + tensor->start_offset;
}

static __aicore__ uint32_t size_of(__gm__ int64_t *args, int i)
{
    return reinterpret_cast<__gm__ ChipTensor *>(args[i])->shapes[0];
}

#endif

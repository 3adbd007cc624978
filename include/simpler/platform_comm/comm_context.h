// SPDX-License-Identifier: Apache-2.0
/*
 * Ranks and windows: the struct at the address that a kernel gets as a scalar. The tile library
 * has the same struct under another name.
 */
#ifndef PTO_SIMPLER_COMM_CONTEXT_H
#define PTO_SIMPLER_COMM_CONTEXT_H

#include <cstddef>
#include <cstdint>

static constexpr uint32_t COMM_MAX_RANK_NUM = 64;

struct CommContext {
    uint64_t workSpace;
    uint64_t workSpaceSize;
    uint32_t rankId;
    uint32_t rankNum;
    uint64_t winSize;
    uint64_t windowsIn[COMM_MAX_RANK_NUM];
    uint64_t windowsOut[COMM_MAX_RANK_NUM];
};

static_assert(sizeof(CommContext) == 1056 && offsetof(CommContext, windowsIn) == 32,
              "the layout of a context is an ABI");

#endif

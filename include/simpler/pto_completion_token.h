// SPDX-License-Identifier: Apache-2.0
/*
 * Conditions for the completion of a task, as kernels register them: struct
 * pto_completion.
 */
#ifndef PTO_SIMPLER_COMPLETION_TOKEN_H
#define PTO_SIMPLER_COMPLETION_TOKEN_H

#include <cstddef>
#include <cstdint>

#include "pto_runtime_status.h"

#include "pto/kernel.h"

inline constexpr int32_t MAX_COMPLETIONS_PER_TASK = PTO_COMPLETIONS_MAX;

#define COMPLETION_ENGINE_SDMA 0u
#define COMPLETION_ENGINE_ROCE 1u
#define COMPLETION_ENGINE_URMA 2u
#define COMPLETION_ENGINE_CCU 3u

#define COMPLETION_TYPE_COUNTER 0
#define COMPLETION_TYPE_SDMA_EVENT_RECORD 1
#ifdef PTO_FOR_A5
#define COMPLETION_TYPE_URMA_EVENT_HANDLE 2
#endif

struct DeferredCompletionEntry {
    uint64_t addr;
    uint64_t backend_cookie;
    uint32_t expected_value;
    uint32_t engine;
    int32_t completion_type;
    uint32_t _pad;
};

struct alignas(64) DeferredCompletionSlab {
    volatile uint32_t count;
    volatile int32_t error_code;
    DeferredCompletionEntry entries[MAX_COMPLETIONS_PER_TASK];
};

static_assert(sizeof(DeferredCompletionEntry) == sizeof(struct pto_completion) &&
                  offsetof(DeferredCompletionEntry, expected_value) ==
                      offsetof(struct pto_completion, expected) &&
                  offsetof(DeferredCompletionEntry, completion_type) ==
                      offsetof(struct pto_completion, type) &&
                  sizeof(DeferredCompletionSlab) == 2112,
              "the layout of conditions is an ABI");

struct CompletionToken {
    uint64_t addr;
    uint32_t expected_value;
    uint32_t engine;
    int32_t completion_type;
    uint64_t backend_cookie;
};

#endif

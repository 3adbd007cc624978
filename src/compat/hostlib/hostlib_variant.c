/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled once for each library, with HOSTLIB_GENERATION and HOSTLIB_MODE. */
#include "compat/hostlib/hostlib.h"

#define HOSTLIB_TEXT(word) #word
#define HOSTLIB_PLATFORM(generation) HOSTLIB_TEXT(generation) "sim"

/* Maximum number of threads of the chip's own processor, by generation. */
enum { THREADS_a2a3 = 4, THREADS_a5 = 5 };
#define HOSTLIB_JOIN(a, b) a##b
#define HOSTLIB_THREADS(generation) HOSTLIB_JOIN(THREADS_, generation)

/*
 * Streamed runs share their working memory and have separate arguments; host-built runs bring a
 * graph and share nothing.
 */
#define CONTRACT_STREAM                                                       \
    {                                                                         \
        .abi = PIPELINE_ABI, .count = 6, .depth = WORKER_SLOTS, .resource = { \
            { PIPELINE_ARGS, PIPELINE_PER_RUN, 0 },                           \
            { PIPELINE_HEAP, PIPELINE_SHARED, 0 },                            \
            { PIPELINE_SHARED_MEMORY, PIPELINE_SHARED, 0 },                   \
            { PIPELINE_IMAGE, PIPELINE_SHARED, 0 },                           \
            { PIPELINE_AICPU_STREAM, PIPELINE_HANDLE, 0 },                    \
            { PIPELINE_AICORE_STREAM, PIPELINE_HANDLE, 0 },                   \
        }                                                                     \
    }
#define CONTRACT_HOST                                                         \
    {                                                                         \
        .abi = PIPELINE_ABI, .count = 4, .depth = WORKER_SLOTS, .resource = { \
            { PIPELINE_HEAP, PIPELINE_PER_RUN, 0 },                           \
            { PIPELINE_IMAGE, PIPELINE_PER_RUN, 0 },                          \
            { PIPELINE_AICPU_STREAM, PIPELINE_HANDLE, 0 },                    \
            { PIPELINE_AICORE_STREAM, PIPELINE_HANDLE, 0 },                   \
        }                                                                     \
    }
#define HOSTLIB_OF_MODE(prefix, mode) HOSTLIB_JOIN(prefix, mode)

const struct hostlib_variant hostlib_variant = {
    .platform = HOSTLIB_PLATFORM(HOSTLIB_GENERATION),
    .mode = HOSTLIB_OF_MODE(PTO_MODE_, HOSTLIB_MODE),
    .threads_max = HOSTLIB_THREADS(HOSTLIB_GENERATION),
    .contract = HOSTLIB_OF_MODE(CONTRACT_, HOSTLIB_MODE),
};

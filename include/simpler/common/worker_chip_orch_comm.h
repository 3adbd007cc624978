// SPDX-License-Identifier: Apache-2.0
/*
 * A region through which the host and an orchestration communicate while a task runs: its six
 * scalars. pto/region.h describes them.
 */
#ifndef PTO_SIMPLER_WORKER_CHIP_ORCH_COMM_H
#define PTO_SIMPLER_WORKER_CHIP_ORCH_COMM_H

#include <cstddef>
#include <cstdint>

#include "pto/region.h"

static constexpr size_t WORKER_CHIP_ORCH_REGION_DESC_SCALAR_COUNT = PTO_REGION_SCALARS;
static constexpr uint64_t WORKER_CHIP_ORCH_COMM_MAGIC_VERSION = PTO_REGION_MAGIC;

struct WorkerChipOrchRegionDesc {
    uint64_t magic_version;
    uint64_t region_id;
    uint64_t payload_base;
    uint64_t payload_bytes;
    uint64_t counter_base;
    uint64_t counter_bytes;
};

static_assert(sizeof(WorkerChipOrchRegionDesc) == sizeof(struct pto_region), "six scalars");

enum class WorkerChipOrchNotifyOp : uint32_t { Set = PTO_SIGNAL_SET, Add = PTO_SIGNAL_ADD };

enum class WorkerChipOrchWaitCmp : uint32_t {
    EQ = PTO_COMPARE_EQ,
    NE = PTO_COMPARE_NE,
    GT = PTO_COMPARE_GT,
    GE = PTO_COMPARE_GE,
    LT = PTO_COMPARE_LT,
    LE = PTO_COMPARE_LE,
};

struct WorkerChipOrchSignalTestResult {
    bool matched;
    int32_t observed;
};

#endif

// SPDX-License-Identifier: Apache-2.0
// The identity of a task: struct pto_task_id as a C++ aggregate.
#ifndef PTO_SIMPLER_TASK_ID_H
#define PTO_SIMPLER_TASK_ID_H

#include <cstdint>

struct PTO2TaskId {
    uint64_t raw; // ring << 32 | number in that ring

    static constexpr PTO2TaskId make(uint8_t ring_id, uint32_t local_id)
    {
        return PTO2TaskId{ uint64_t{ ring_id } << 32 | local_id };
    }
    static constexpr PTO2TaskId invalid()
    {
        return PTO2TaskId{ UINT64_MAX };
    }

    constexpr uint8_t ring() const
    {
        return static_cast<uint8_t>(raw >> 32);
    }
    constexpr uint32_t local() const
    {
        return static_cast<uint32_t>(raw);
    }
    constexpr bool is_invalid() const
    {
        return raw == UINT64_MAX;
    }
    constexpr bool is_valid() const
    {
        return !is_invalid();
    }
    constexpr bool operator==(const PTO2TaskId &other) const
    {
        return raw == other.raw;
    }
    constexpr bool operator!=(const PTO2TaskId &other) const
    {
        return raw != other.raw;
    }
};

static_assert(sizeof(PTO2TaskId) == 8, "tensors store task ids of 8 bytes");

#endif

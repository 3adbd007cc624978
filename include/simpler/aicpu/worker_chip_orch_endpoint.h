// SPDX-License-Identifier: Apache-2.0
/*
 * An orchestration's end of a region. A failed call returns false; the first error is kept, and
 * all later calls fail.
 */
#ifndef PTO_SIMPLER_WORKER_CHIP_ORCH_ENDPOINT_H
#define PTO_SIMPLER_WORKER_CHIP_ORCH_ENDPOINT_H

#include <cstdio>
#include <cstring>

#include "aicpu/cache_maintenance.h"
#include "common/worker_chip_orch_comm.h"
#include "pto_orchestration_api.h"

struct WorkerChipOrchPayloadView {
    uint64_t gm_addr;
    uint64_t nbytes;
};

enum class WorkerChipEndpointErrorKind : uint32_t {
    NONE = 0,
    BAD_DESCRIPTOR = 1,
    OUT_OF_BOUNDS = 2,
    SIGNAL_TIMEOUT = 3,
    SIGNAL_PROTOCOL = 4,
    LOCAL_OPERATION = 5,
};

enum class WorkerChipEndpointOp : uint32_t {
    INIT = 1,
    COUNTER_ADDR = 2,
    PAYLOAD_READ = 3,
    PAYLOAD_WRITE = 4,
    SIGNAL_NOTIFY = 5,
    SIGNAL_TEST = 6,
    SIGNAL_WAIT = 7,
};

inline const char *worker_chip_endpoint_op_to_string(WorkerChipEndpointOp op)
{
    static const char *const names[] = { "unknown",      "init",          "counter_addr",
                                         "payload_read", "payload_write", "signal_notify",
                                         "signal_test",  "signal_wait" };
    const uint32_t index = static_cast<uint32_t>(op);

    return names[index < sizeof(names) / sizeof(names[0]) ? index : 0];
}

struct WorkerChipEndpointError {
    WorkerChipEndpointErrorKind kind;
    WorkerChipEndpointOp op;
    uint64_t region_id;
    uint64_t counter_addr;
    int32_t counter_operand;
    int32_t observed_counter;
    char message[256];
};

class WorkerChipOrchEndpoint
{
  public:
    explicit WorkerChipOrchEndpoint(const WorkerChipOrchRegionDesc &desc) : desc_(desc)
    {
        uint64_t scalars[WORKER_CHIP_ORCH_REGION_DESC_SCALAR_COUNT];

        std::memcpy(scalars, &desc, sizeof(scalars));
        open(scalars);
    }

    WorkerChipOrchEndpoint(const uint64_t *scalars, size_t scalar_count)
    {
        if (scalars != nullptr && scalar_count >= WORKER_CHIP_ORCH_REGION_DESC_SCALAR_COUNT) {
            std::memcpy(&desc_, scalars, sizeof(desc_));
            open(scalars);
        } else {
            fail(WorkerChipEndpointErrorKind::BAD_DESCRIPTOR, WorkerChipEndpointOp::INIT, 0, 0, 0,
                 "a region has six scalars");
        }
    }

    const WorkerChipEndpointError &error() const
    {
        return error_;
    }

    const WorkerChipOrchRegionDesc &descriptor() const
    {
        return desc_;
    }

    // Not part of simpler's API: the region as the functions of pto/region.h take it.
    const struct pto_region &region() const
    {
        return region_;
    }

    bool counter_addr(uint64_t offset, uint64_t &out_addr)
    {
        return find(WorkerChipEndpointOp::COUNTER_ADDR, desc_.counter_base + offset, 0, out_addr);
    }

    bool payload_read(uint64_t offset, uint64_t nbytes, WorkerChipOrchPayloadView &out)
    {
        void *at = payload(WorkerChipEndpointOp::PAYLOAD_READ, offset, nbytes);

        pto_region_fetch(&region_, offset, at != nullptr ? nbytes : 0);
        out =
            WorkerChipOrchPayloadView{ reinterpret_cast<uint64_t>(at), at != nullptr ? nbytes : 0 };
        return at != nullptr;
    }

    bool payload_write(uint64_t offset, const void *src, uint64_t nbytes)
    {
        void *at = payload(WorkerChipEndpointOp::PAYLOAD_WRITE, offset, nbytes);

        if (at == nullptr || src == nullptr)
            return false;
        pto_region_fetch(&region_, offset, nbytes);
        std::memcpy(at, src, nbytes);
        pto_region_publish(&region_, offset, nbytes);
        return true;
    }

    bool signal_notify(uint64_t counter_addr, int32_t value, WorkerChipOrchNotifyOp op)
    {
        uint64_t addr;

        if (!find(WorkerChipEndpointOp::SIGNAL_NOTIFY, counter_addr, value, addr))
            return false;
        return pto_region_notify(&region_, addr - desc_.counter_base,
                                 static_cast<enum pto_signal>(op), value) == PTO_OK;
    }

    bool signal_test(uint64_t counter_addr, int32_t cmp_value, WorkerChipOrchWaitCmp cmp,
                     WorkerChipOrchSignalTestResult &out)
    {
        uint64_t addr;

        if (!find(WorkerChipEndpointOp::SIGNAL_TEST, counter_addr, cmp_value, addr))
            return false;
        out.observed = pto_region_value(reinterpret_cast<int32_t *>(addr));
        out.matched =
            pto_compare_holds(static_cast<enum pto_compare>(cmp), out.observed, cmp_value);
        return true;
    }

    /*
     * Waits for a counter; tasks of the run continue during the wait. A time-out does not make
     * later calls fail.
     */
    bool signal_wait(uint64_t counter_addr, int32_t cmp_value, WorkerChipOrchWaitCmp cmp,
                     uint64_t timeout, int32_t &observed)
    {
        uint64_t addr;
        int status;

        if (!find(WorkerChipEndpointOp::SIGNAL_WAIT, counter_addr, cmp_value, addr))
            return false;
        status = pto_region_wait(simpler::runtime, &region_, addr - desc_.counter_base,
                                 static_cast<enum pto_compare>(cmp), cmp_value, timeout, &observed);
        if (status < 0)
            fail(status == PTO_ETIMEOUT ? WorkerChipEndpointErrorKind::SIGNAL_TIMEOUT
                                        : WorkerChipEndpointErrorKind::LOCAL_OPERATION,
                 WorkerChipEndpointOp::SIGNAL_WAIT, addr, cmp_value, observed,
                 status == PTO_ETIMEOUT ? "the counter did not reach the value in time"
                 : status == PTO_EPEER  ? "the host has closed the region"
                                        : "the run has failed");
        return status >= 0;
    }

    bool has_error() const
    {
        return error_.kind != WorkerChipEndpointErrorKind::NONE;
    }

    bool ready() const
    {
        return !has_error();
    }

  private:
    void open(const uint64_t *scalars)
    {
        if (pto_region_init(&region_, scalars) < 0)
            fail(WorkerChipEndpointErrorKind::BAD_DESCRIPTOR, WorkerChipEndpointOp::INIT, 0, 0, 0,
                 "the scalars do not describe a region");
    }

    void fail(WorkerChipEndpointErrorKind kind, WorkerChipEndpointOp op, uint64_t counter,
              int32_t operand, int32_t observed, const char *message)
    {
        // Keep the first error, unless it is a time-out, after which a wait may succeed.
        if (has_error() && error_.kind != WorkerChipEndpointErrorKind::SIGNAL_TIMEOUT)
            return;
        error_ =
            WorkerChipEndpointError{ kind, op, desc_.region_id, counter, operand, observed, "" };
        std::snprintf(error_.message, sizeof(error_.message), "%s", message);
    }

    bool is_broken() const
    {
        return has_error() && error_.kind != WorkerChipEndpointErrorKind::SIGNAL_TIMEOUT;
    }

    bool find(WorkerChipEndpointOp op, uint64_t addr, int32_t operand, uint64_t &out)
    {
        if (is_broken())
            return false;
        out = reinterpret_cast<uint64_t>(pto_region_counter(&region_, addr - desc_.counter_base));
        if (out == 0)
            fail(WorkerChipEndpointErrorKind::OUT_OF_BOUNDS, op, addr, operand, 0,
                 "invalid counter index");
        return out != 0;
    }

    void *payload(WorkerChipEndpointOp op, uint64_t offset, uint64_t nbytes)
    {
        void *at =
            !is_broken() && nbytes != 0 ? pto_region_payload(&region_, offset, nbytes) : nullptr;

        if (at == nullptr)
            fail(WorkerChipEndpointErrorKind::OUT_OF_BOUNDS, op, 0, 0, 0,
                 "the bytes are outside of the payload");
        return at;
    }

    WorkerChipOrchRegionDesc desc_{};
    struct pto_region region_ {
    };
    WorkerChipEndpointError error_{};
};

#endif

// SPDX-License-Identifier: Apache-2.0
//
// The tasks of count.c, submitted through include/simpler/.
#include "pto_orchestration_api.h"

extern "C" {

// struct bench_task of src/tool/bench/bench_patterns.h, which is C only.
struct CountTask {
    int32_t read[3];
    int32_t read_count;
    int32_t write; // -1: none
    bool is_inout;
};

pto_orch_fn count_bind_simpler(void);

static void log_nothing(int, const char *, const char *, va_list)
{
}

static void submit_all(const ChipTaskArgs &entry)
{
    const auto *task = from_u64<const CountTask *>(entry.scalar(0));
    const auto *item = from_u64<const ChipTensor *>(entry.scalar(1));
    const auto count = from_u64<uint32_t>(entry.scalar(2));

    for (uint32_t i = 0; i < count; i++) {
        const CountTask &t = task[i];
        CoreTaskArgs args;

        for (int32_t k = 0; k < t.read_count; k++)
            args.add_input(item[t.read[k]]);
        if (t.write >= 0 && t.is_inout)
            args.add_inout(item[t.write]);
        else if (t.write >= 0)
            args.add_output(item[t.write]);
        args.add_scalar(i);
        rt_submit_aiv_task(0, args);
    }
}

pto_orch_fn count_bind_simpler(void)
{
    return pto_simpler_bind(submit_all, nullptr, log_nothing);
}
}

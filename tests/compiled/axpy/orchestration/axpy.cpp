// SPDX-License-Identifier: Apache-2.0
// y += alpha * x, in two halves; total = sum(y). In the form that a compiler emits.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "pto_orchestration_api.h"

extern "C" {

__attribute__((visibility("default"))) PTO2OrchestrationConfig aicpu_orchestration_config(
    const ChipTaskArgs &orch_args)
{
    (void)orch_args;
    return PTO2OrchestrationConfig{ .expected_arg_count = 5 };
}

__attribute__((visibility("default"))) void aicpu_orchestration_entry(const ChipTaskArgs &orch_args)
{
    const ChipTensor &ext_x = orch_args.tensor(0).ref();
    const ChipTensor &ext_y = orch_args.tensor(1).ref();
    const ChipTensor &ext_total = orch_args.tensor(2).ref();
    float alpha = from_u64<float>(orch_args.scalar(0));
    int32_t rows = from_u64<int32_t>(orch_args.scalar(1));

    PTO2_SCOPE()
    {
        for (int64_t begin = 0; begin < rows; begin += 3) {
            PTO2_SCOPE()
            {
                uint32_t shapes[2] = { std::min<uint32_t>(3, ext_x.shapes[0] - begin), 64 };
                uint32_t offsets[2] = { (uint32_t)begin, 0 };
                ChipTensor x = ext_x.view(shapes, offsets);
                ChipTensor y = ext_y.view(shapes, offsets);

                CoreTaskArgs params_t0;
                params_t0.add_input(x);
                params_t0.add_inout(y);
                params_t0.add_scalar(to_u64(alpha));
                rt_submit_aiv_task(0, params_t0);
            }
        }
        CoreTaskArgs params_t1;
        params_t1.add_input(ext_y);
        params_t1.add_output(ext_total);
        rt_submit_aiv_task(3, params_t1);
    }
}
}

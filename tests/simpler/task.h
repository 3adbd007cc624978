// SPDX-License-Identifier: Apache-2.0
//
// A task of the only kernel, and helpers for the entries.
#ifndef PTO_TESTS_TASK_H
#define PTO_TESTS_TASK_H

#include "pto_orchestration_api.h"

#include "what.h"

namespace
{

// A task with (to, from; what, value).
struct Task : CoreTaskArgs {
    Task(const ChipTensor &to, const ChipTensor &from, enum what what, int32_t value,
         TensorArgType use = TensorArgType::INOUT)
    {
        if (use == TensorArgType::INPUT)
            add_input(to);
        else if (use == TensorArgType::OUTPUT_EXISTING)
            add_output(to);
        else if (use == TensorArgType::NO_DEP)
            add_no_dep(to);
        else
            add_inout(to);
        add_no_dep(from);
        add_scalar(static_cast<int32_t>(what), value);
    }
    TaskOutputTensors run()
    {
        return rt_submit_aiv_task(ON_AIV, *this);
    }
};

void set_blocks(CoreTaskArgs &args, int16_t count)
{
#if defined(SRC_A5_RUNTIME_TENSORMAP_AND_RINGBUFFER_RUNTIME_PTO_TYPES_H_)
    args.launch_spec.set_core_num(count);
#else
    args.launch_spec.set_block_num(count);
#endif
}

ChipTensor part(const ChipTensor &t, uint32_t at, uint32_t count)
{
    return t.view(&count, &at);
}

TaskOutputTensors create(uint32_t count, int32_t value)
{
    TensorCreateInfo info(&count, 1, DataType::INT32);

    info.set_initial_value(value);
    return alloc_tensors(info);
}

} // namespace

#endif

// SPDX-License-Identifier: Apache-2.0
//
// Layers that exchange their results with the other rank. Tensors: weights of all layers, x, counts of all ranks,
// inbox and counter in the window, cache, out. Scalars: the rank, and the context of the window.
#include "pto_orchestration_api.h"

enum { PROJECT, PUSH, GATHER, REMEMBER };

extern "C" __attribute__((visibility("default"))) void aicpu_orchestration_entry(
    const ChipTaskArgs &args)
{
    const ChipTensor &weights = args.tensor(0).ref(), &counts = args.tensor(2).ref();
    const ChipTensor &inbox = args.tensor(3).ref(), &done = args.tensor(4).ref();
    const ChipTensor &cache = args.tensor(5).ref(), &out = args.tensor(6).ref();
    const uint32_t n = out.shapes[0], layers = weights.shapes[0] / n;
    const uint32_t vector[1] = { n }, matrix[1] = { n * n };
    const auto rank = from_u64<int32_t>(args.scalar(0));
    ChipTensor x = args.tensor(1).ref();

    for (uint32_t layer = 0; layer < layers; layer++) {
        const uint32_t at[1] = { layer * n }, from[1] = { layer * n * n };
        const uint32_t flat[1] = { layers * n * n }, rows[1] = { layers * n };
        ChipTensor w = weights.reshape(flat, 1).view(matrix, from);
        ChipTensor row = cache.reshape(rows, 1).view(vector, at);
        TensorCreateInfo info(vector, 1, DataType::FLOAT32);

        CoreTaskArgs project;
        project.add_input(w, x);
        project.add_output(info);
        TaskOutputTensors projected = rt_submit_aic_task(PROJECT, project);
        const ChipTensor &y = projected.get_ref(0);

        CoreTaskArgs push;
        push.add_input(y);
        push.add_inout(inbox, done);
        push.add_scalar(static_cast<int64_t>(layer));
        push.add_scalar(args.scalar(1));
        rt_submit_aiv_task(PUSH, push);

        CoreTaskArgs gather;
        gather.add_input(y, inbox, done);
        if (layer + 1 < layers)
            gather.add_output(info);
        else
            gather.add_output(out);
        gather.add_scalar(static_cast<int64_t>(layer));
        TaskOutputTensors sum = rt_submit_aiv_task(GATHER, gather);
        x = layer + 1 < layers ? ChipTensor(sum.get_ref(0)) : out;

        CoreTaskArgs remember;
        CoreTaskPredicate is_counted;
        is_counted.operand.tensor = &counts;
        is_counted.operand.indices[0] = static_cast<uint32_t>(rank);
        is_counted.operand.ndims = 1;
        is_counted.op = PredicateOp::GT;
        is_counted.target = layer;
        remember.add_input(x);
        remember.add_inout(row);
        remember.set_predicate(is_counted);
        rt_submit_aiv_task(REMEMBER, remember);
    }
}

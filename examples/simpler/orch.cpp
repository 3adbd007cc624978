// SPDX-License-Identifier: Apache-2.0
//
// y = A x, a tile of rows at a time. Each tile is two tasks: one in four blocks that
// multiplies, and one that adds up the products of each row.
#include "pto_orchestration_api.h"

enum { PRODUCTS, ROW_SUMS };
enum { BLOCKS = 4 };

static void submit_tile(const ChipTensor &a, const ChipTensor &x, const ChipTensor &y, uint32_t row,
                        uint32_t rows)
{
    const uint32_t shape[2] = { rows, a.shapes[1] }, at[2] = { row, 0 };
    ChipTensor tile = a.view(shape, at);
    ChipTensor sums = y.view(shape, at); // only as many dimensions as y has: one
    TensorCreateInfo info(shape, 2, DataType::FLOAT32);

    CoreTaskArgs multiply;
    multiply.add_input(tile, x);
    multiply.add_output(info);
#if defined(SRC_A5_RUNTIME_TENSORMAP_AND_RINGBUFFER_RUNTIME_PTO_TYPES_H_)
    multiply.launch_spec.set_core_num(BLOCKS);
#else
    multiply.launch_spec.set_block_num(BLOCKS);
#endif
    TaskOutputTensors products = rt_submit_aiv_task(PRODUCTS, multiply);

    CoreTaskArgs add;
    add.add_input(products.get_ref(0));
    add.add_output(sums);
    rt_submit_aiv_task(ROW_SUMS, add);
}

extern "C" {

__attribute__((visibility("default"))) PTO2OrchestrationConfig aicpu_orchestration_config(
    const ChipTaskArgs &)
{
    return PTO2OrchestrationConfig{ .expected_arg_count = 4 };
}

__attribute__((visibility("default"))) void aicpu_orchestration_entry(const ChipTaskArgs &args)
{
    const ChipTensor &a = args.tensor(0).ref();
    const uint32_t rows = a.shapes[0];
    const auto tile = static_cast<uint32_t>(from_u64<int32_t>(args.scalar(0)));

    for (uint32_t row = 0; row < rows; row += tile) {
        PTO2_SCOPE()
        {
            submit_tile(a, args.tensor(1).ref(), args.tensor(2).ref(), row,
                        std::min(tile, rows - row));
        }
    }
    LOG_INFO("%u rows in tiles of %u", rows, tile);
}
}

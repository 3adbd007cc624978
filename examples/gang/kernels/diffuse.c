/* SPDX-License-Identifier: Apache-2.0 */
/* A block's part of the rod, step by step. */
#include <pto/kernel.h>

/* Goes on when `expected` arrivals were counted; what the others wrote before is there. */
static void wait_for_all(uint32_t *arrived, uint32_t expected)
{
    pto_notify_add(arrived, 1);
    while (pto_notified(arrived) < expected)
        pto_pause();
}

void kernel_entry(int64_t *args)
{
    const struct pto_tensor *heat = pto_arg_tensor(args, 0);
    float *now = pto_tensor_data(heat);
    float *next = pto_tensor_data(pto_arg_tensor(args, 1));
    uint32_t *arrived = pto_tensor_data(pto_arg_tensor(args, 2));
    int64_t count = heat->shapes[0], steps = args[3];
    int64_t block = pto_block_index(args), blocks = pto_block_count(args);
    int64_t begin = count * block / blocks, end = count * (block + 1) / blocks;

    for (int64_t step = 1; step <= steps; step++) {
        float *before = now;

        for (int64_t i = begin; i < end; i++) {
            float left = now[i > 0 ? i - 1 : i], right = now[i < count - 1 ? i + 1 : i];

            next[i] = 0.25f * left + 0.5f * now[i] + 0.25f * right;
        }
        wait_for_all(arrived, (uint32_t)(step * blocks));
        now = next;
        next = before;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A block's part of the rod, step by step. */
#include <pto/kernel.h>

/* Returns after `expected` arrivals; earlier writes of the other blocks are then visible. */
static PTO_AICORE void wait_for_all(PTO_GM uint32_t *arrived, uint32_t expected)
{
    pto_notify_add(arrived, 1);
    while (pto_notified(arrived) < expected)
        pto_pause();
}

/* Parts begin with a cache line: cores that write to the same one overwrite each other's numbers. */
static PTO_AICORE int64_t first_of(int64_t block, int64_t blocks, int64_t count)
{
    return block == blocks ? count : count * block / blocks & ~(int64_t)15;
}

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *heat = pto_arg_tensor(args, 0);
    PTO_GM float *now = PTO_DATA(heat, float);
    PTO_GM float *next = PTO_ARG(args, 1, float);
    PTO_GM uint32_t *arrived = PTO_ARG(args, 2, uint32_t);
    int64_t count = heat->shapes[0], steps = args[3];
    int64_t block = pto_block_index(args), blocks = pto_block_count(args);
    int64_t begin = first_of(block, blocks, count), end = first_of(block + 1, blocks, count);

    for (int64_t step = 1; step <= steps; step++) {
        PTO_GM float *before = now;

        for (int64_t i = begin; i < end; i++) {
            float left = now[i > 0 ? i - 1 : i], right = now[i < count - 1 ? i + 1 : i];

            next[i] = 0.25f * left + 0.5f * now[i] + 0.25f * right;
        }
        wait_for_all(arrived, (uint32_t)(step * blocks));
        now = next;
        next = before;
    }
}

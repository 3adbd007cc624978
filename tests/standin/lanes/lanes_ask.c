/* SPDX-License-Identifier: Apache-2.0 */
/* Sends a number to both AIVs, and adds their results. */
#include <pto/kernel.h>

#include "lanes.h"

PTO_KERNEL(args)
{
    int block = pto_block_index(args);
    PTO_GM const int32_t *x = PTO_ARG(args, 0, int32_t) + block * WORDS;
    PTO_GM int32_t *y = PTO_ARG(args, 1, int32_t) + block * WORDS;
    PTO_GM int32_t *between = PTO_ARG(args, 2, int32_t) + block * LINES * WORDS;
    int32_t sum = 0;

    for (int32_t round = 0; round < ROUNDS; round++) {
        between[0] = x[round] + sum;
        pto_lines_publish(between, 4);
        ffts_cross_core_sync(PIPE_FIX, LANES_MESSAGE(CLUSTER, ASKED));
        wait_flag_dev(ANSWERED);
        pto_lines_fetch(between + WORDS, 2 * WORDS * 4);
        sum = between[WORDS] + between[2 * WORDS];
    }
    wait_flag_dev(ANSWERED);
    pto_lines_fetch(between + 3 * WORDS, 2 * WORDS * 4);
    for (int32_t i = 0; i < WORDS; i++)
        y[i] = sum + i * (between[3 * WORDS] - between[4 * WORDS]);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Doubles the number, or subtracts it from a million: by the AIV. */
#include <pto/kernel.h>

#include "lanes.h"

PTO_KERNEL(args)
{
    int block = pto_block_index(args), lane = pto_sub_block(args);
    PTO_GM int32_t *between = PTO_ARG(args, 2, int32_t) + block * LINES * WORDS;

    for (int32_t round = 0; round < ROUNDS; round++) {
        wait_flag_dev(ASKED);
        pto_lines_fetch(between, 4);
        between[(1 + lane) * WORDS] = lane == 0 ? 2 * between[0] % 1000 : 1000000 - between[0];
        pto_lines_publish(between + (1 + lane) * WORDS, 4);
        ffts_cross_core_sync(PIPE_MTE3, LANES_MESSAGE(CLUSTER, ANSWERED));
    }
    ffts_cross_core_sync(PIPE_MTE3, LANES_MESSAGE(VECTORS, MET));
    wait_flag_dev(MET);
    pto_lines_fetch(between + (2 - lane) * WORDS, 4);
    between[(3 + lane) * WORDS] = between[(2 - lane) * WORDS];
    pto_lines_publish(between + (3 + lane) * WORDS, 4);
    ffts_cross_core_sync(PIPE_MTE3, LANES_MESSAGE(CLUSTER, ANSWERED));
}

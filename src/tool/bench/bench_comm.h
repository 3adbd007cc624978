/* SPDX-License-Identifier: Apache-2.0 */
/* `pto bench comm`: what ranks of this machine pay to talk to each other. */
#ifndef PTO_BENCH_COMM_H
#define PTO_BENCH_COMM_H

#include "tool/bench/bench_link.h"

/*
 * Starts the ranks, which are processes, each on a CPU of its own if there are as many,
 * and measures. 0, or negative after a sentence on stderr. Called before the process
 * has other threads.
 */
int bench_comm(uint32_t rank_count, bool is_quick,
               struct bench_link_result results[BENCH_LINK_CASES]);

#endif

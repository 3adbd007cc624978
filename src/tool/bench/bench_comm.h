/* SPDX-License-Identifier: Apache-2.0 */
/* `pto bench comm` measures communication between ranks on this machine. */
#ifndef PTO_BENCH_COMM_H
#define PTO_BENCH_COMM_H

#include "tool/bench/bench_link.h"

/*
 * Starts the ranks as processes, each on its own CPU if there are enough, and measures. Returns 0,
 * or negative after a sentence on stderr. The calling process must have only one thread.
 */
int bench_comm(uint32_t rank_count, bool is_quick,
               struct bench_link_result results[BENCH_LINK_CASES]);

#endif

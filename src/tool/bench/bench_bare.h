/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the round trip of a word between two bare processes, the lower bound of the round trips
 * of `pto bench tree`. Each process has its own CPU, if there are two, and both sleep on a futex.
 */
#ifndef PTO_BENCH_BARE_H
#define PTO_BENCH_BARE_H

#include <stdint.h>

/*
 * Measures round trips with a pause of `rest_ns` between them. Returns 0, or negative after a
 * sentence on stderr.
 */
int bench_bare(uint32_t rounds, uint64_t rest_ns, double *p50_us, double *p99_us);

#endif

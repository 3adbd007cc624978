/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a machine takes for a word from one process to another and back: what lies below the round trips
 * of `pto bench tree`. Each process has a CPU of its own, if there are two, and both sleep on a futex.
 */
#ifndef PTO_BENCH_BARE_H
#define PTO_BENCH_BARE_H

#include <stdint.h>

/* After a rest of so long. 0, or negative after a sentence on stderr. */
int bench_bare(uint32_t rounds, uint64_t rest_ns, double *p50_us, double *p99_us);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The tasks of a load, submitted by an orchestration in simpler's C++ API, compiled here. */
#ifndef PTO_BENCH_SIMPLER_H
#define PTO_BENCH_SIMPLER_H

#include "pto/pto.h"

/*
 * Its entry has three scalars: the addresses of the tasks and of the items of a load, and how many
 * tasks there are. Returns 0, or a negative status after a sentence on stderr.
 */
int bench_simpler_load(struct pto_callable **callable_out);

#endif

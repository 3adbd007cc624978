/* SPDX-License-Identifier: Apache-2.0 */
/* Submits the tasks of a load with simpler's C++ API. The orchestration is compiled at run time. */
#ifndef PTO_BENCH_SIMPLER_H
#define PTO_BENCH_SIMPLER_H

#include "pto/pto.h"

/*
 * Compiles and loads the orchestration. Its entry has three scalars: the addresses of the tasks and
 * of the items of a load, and the number of tasks. Returns 0, or a negative status after a sentence
 * on stderr.
 */
int bench_simpler_load(struct pto_callable **callable_out);

#endif

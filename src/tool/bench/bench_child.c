/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Empty functions that the children of `pto bench tree` run: one for SUB workers and one for chips.
 */
#include "pto/worker.h"

#pragma GCC visibility push(default)
int bench_nothing(const struct pto_sub_call *call);
extern const struct pto_callable_params bench_chip;
#pragma GCC visibility pop

int bench_nothing(const struct pto_sub_call *call)
{
    (void)call;
    return PTO_OK;
}

static void bench_child_orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)o;
    (void)entry;
}

const struct pto_callable_params bench_chip = { .size = sizeof(bench_chip),
                                                .name = "nothing",
                                                .orchestration = bench_child_orchestrate,
                                                .keeps_signals = true };

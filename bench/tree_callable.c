/* SPDX-License-Identifier: Apache-2.0 */
/* What bench/tree runs: nothing, on a SUB worker and on a chip. */
#include "pto/worker.h"

#pragma GCC visibility push(default)

int nothing(const struct pto_sub_call *call);
int nothing(const struct pto_sub_call *call)
{
    (void)call;
    return PTO_OK;
}

static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)o;
    (void)entry;
}

extern const struct pto_callable_params pto_callable;
const struct pto_callable_params pto_callable = { .size = sizeof(pto_callable),
                                                  .name = "nothing",
                                                  .orchestration = orchestrate,
                                                  .keeps_signals = true };

#pragma GCC visibility pop

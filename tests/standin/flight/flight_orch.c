/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds 1; with scalar 1, after a gate was opened; with scalar 2 the same, and the run fails; with a
 * higher scalar, after that many iterations.
 */
#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    pto_aiv(o, 0, PTO_AFTER(&e->tensor[0]), PTO_IN(&e->tensor[1]), PTO_WRITE(&e->tensor[2]),
            PTO_INT(e->scalar[0]));
    if (e->scalar[0] == 2)
        o->ops->report(o, -9, "it gave up");
}

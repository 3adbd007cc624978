/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One task on each rank. Its input lies in the rank's window, so it is not copied, and
 * the other ranks can read it; the runtime fills all windows before any rank runs.
 */
#include <pto/orch.h>

enum { SUM };                   /* as in scene.yaml */
enum { NRANKS, ROOT, CONTEXT }; /* scalars of the entry */

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, SUM, PTO_IN(&entry->tensor[0]), PTO_WRITE(&entry->tensor[1]), PTO_PASS(NRANKS),
            PTO_PASS(ROOT), PTO_PASS(CONTEXT));
}

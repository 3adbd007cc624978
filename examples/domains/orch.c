/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every rank submits these tasks; a rank outside of a domain has no context, and the kernels
 * have nothing to do there.
 */
#include <pto/orch.h>

enum { SHARE, SUM, CARRY };             /* as in scene.yaml */
enum { X, LOW_SUM, HIGH_SUM, CARRIED }; /* arguments */
enum { LOW, HIGH };                     /* scalars */

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *t = entry->tensor;

    pto_aiv(o, SHARE, PTO_IN(&t[X]), PTO_PASS(LOW));
    pto_aiv(o, SHARE, PTO_IN(&t[X]), PTO_PASS(HIGH));
    pto_aiv(o, SUM, PTO_WRITE(&t[LOW_SUM]), PTO_PASS(LOW));
    pto_aiv(o, SUM, PTO_WRITE(&t[HIGH_SUM]), PTO_PASS(HIGH));
    pto_aiv(o, CARRY, PTO_IN(&t[LOW_SUM]), PTO_WRITE(&t[CARRIED]), PTO_PASS(LOW), PTO_PASS(HIGH));
}

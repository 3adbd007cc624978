/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two tasks stand for what others do: ARRIVE completes when all ranks have dispatched, and
 * again when all experts have answered. Their kernels return at once, so no core waits.
 *
 *     DISPATCH                ARRIVE ...> EXPERT             ARRIVE ...> COMBINE
 *        +--> others' inboxes   ^ counts    +--> results       ^ counts
 */
#include <pto/orch.h>

enum { DISPATCH, ARRIVE, EXPERT, COMBINE };    /* as in scene.yaml */
enum { X, EXPERT_OF, GATE, WEIGHT, INBOX, Y }; /* arguments */
enum { DISPATCHED, RETURNED };                 /* as in moe.h */

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *t = entry->tensor;

    pto_aiv(o, DISPATCH, PTO_IN(&t[X]), PTO_IN(&t[EXPERT_OF]), PTO_AFTER(&t[INBOX]), PTO_PASS(0));
    pto_aiv(o, ARRIVE, PTO_INOUT(&t[INBOX]), PTO_PASS(0), PTO_INT(DISPATCHED));
    pto_aic(o, EXPERT, PTO_IN(&t[INBOX]), PTO_IN(&t[WEIGHT]), PTO_PASS(0));
    pto_aiv(o, ARRIVE, PTO_INOUT(&t[INBOX]), PTO_PASS(0), PTO_INT(RETURNED));
    pto_aiv(o, COMBINE, PTO_IN(&t[GATE]), PTO_IN(&t[INBOX]), PTO_WRITE(&t[Y]));
}

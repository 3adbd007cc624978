/* SPDX-License-Identifier: Apache-2.0 */
/* An orchestration that calls the checker. */
#include <pto/orch.h>

#include "page.h"

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    CHECK_PAGE->orchestrate(o, entry);
}

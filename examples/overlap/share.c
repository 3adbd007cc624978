/* SPDX-License-Identifier: Apache-2.0 */
/* The callable `share`, on a chip: a row becomes the sum of that row over the domain. */
#include <pto/orch.h>

enum { SUM };

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, SUM, PTO_INOUT(&entry->tensor[0]), PTO_INT(entry->scalar[0]),
            PTO_INT(entry->scalar[1]));
}

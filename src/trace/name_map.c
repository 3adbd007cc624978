/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes name_map.json in the format of simpler: the names of kernels by number, which simpler's
 * other files do not have.
 */
#include "trace/snapshot.h"

enum { LEVEL_CHIP = 2 };

int trace_write_name_map(const struct trace_slices *slices, FILE *out)
{
    const struct trace_snapshot *s = slices->snapshot;
    bool has_name = false;

    fprintf(out,
            "{\n  \"level\": %d,\n  \"orchestrator_name\": null,\n  \"callable_id_to_name\": {",
            LEVEL_CHIP);
    for (uint32_t i = 0; i < s->kernel_count; i++) {
        if (s->kernel_name[i][0] == '\0') /* there is no kernel with this number */
            continue;
        fprintf(out, "%s\n    \"%u\": ", has_name ? "," : "", i);
        trace_put_string(out, s->kernel_name[i]);
        has_name = true;
    }
    fputs("\n  }\n}\n", out);
    return PTO_OK;
}

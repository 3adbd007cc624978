/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes scope_stats.jsonl in the format of simpler: a line about the run, then a line for the
 * begin and the end of each scope with the fill levels of simpler's rings. This runtime has no
 * rings; the levels are those that graph/ledger.h computes by replaying the scopes.
 */
#include <inttypes.h>

#include "graph/ledger.h"
#include "trace/snapshot.h"

enum { VERSION = 6 };

/*
 * Writes the size of each ring (a fixed memory area of simpler): the size that the user has set, or
 * simpler's default, `otherwise`.
 */
static void put_sizes(FILE *out, const char *name, const uint64_t size[PTO_RINGS],
                      uint64_t otherwise)
{
    fprintf(out, ", \"%s\": [", name);
    for (uint32_t i = 0; i < PTO_RINGS; i++)
        fprintf(out, "%s%" PRIu64, i != 0 ? ", " : "", size[i] != 0 ? size[i] : otherwise);
    fputc(']', out);
}

int trace_write_scope_stats(const struct trace_slices *slices, FILE *out)
{
    const struct trace_snapshot *s = slices->snapshot;
    const struct chip_record *record = &s->record;

    fprintf(out, "{\"version\": %d, \"fatal\": %s, \"dropped\": %" PRIu64 ", \"total\": %" PRIu64,
            VERSION, s->status < 0 ? "true" : "false", record->scopes_lost,
            record->scope_count + record->scopes_lost);
    put_sizes(out, "task_window_max", s->rings.task_window, LEDGER_WINDOW);
    put_sizes(out, "heap_max", s->rings.heap, LEDGER_HEAP_BYTES);
    put_sizes(out, "dep_pool_max", s->rings.dep_pool, LEDGER_DEP_POOL);
    fprintf(out, ", \"tensormap_max\": %d}\n", LEDGER_REGIONS);
    for (uint64_t i = 0; i < record->scope_count; i++) {
        const struct chip_scope *scope = &record->scope[i];
        char site[sizeof(scope->site) + 16];

        snprintf(site, sizeof(site), "%.*s:%u", (int)sizeof(scope->site), scope->site, scope->line);
        fputs("{\"site\": ", out);
        trace_put_string(out, site);
        fprintf(out,
                ", \"phase\": \"%s\", \"depth\": %u, \"ring\": %u, \"task_window_start\": %u, "
                "\"task_window_end\": %u, \"heap_start\": %" PRIu64 ", \"heap_end\": %" PRIu64
                ", \"dep_pool_start\": %" PRIu64 ", \"dep_pool_end\": %" PRIu64
                ", \"tensormap\": %" PRIu64 "}\n",
                scope->is_end != 0 ? "end" : "begin", scope->depth, scope->ring, scope->task_start,
                scope->task_end, scope->heap_start, scope->heap_end, scope->dep_start,
                scope->dep_end, scope->regions);
    }
    return PTO_OK;
}

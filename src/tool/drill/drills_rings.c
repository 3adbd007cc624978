/* SPDX-License-Identifier: Apache-2.0 */
/* Drills with graphs that exceed the fixed-size rings and pools of the reference system. */
#include "tool/drill/drill.h"

enum { POOL_PREDECESSORS = 129, SHORT_SCOPE = 8, DEEP_SCOPES = 8, REGION_TASKS = 2100 };
enum { READY_TASKS = 8193 };

static void fill_scope(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    PTO_SCOPE(o)
        for (int i = 0; i < SHORT_SCOPE; i++)
            pto_dummy(o, PTO_INT(i));
}

/*
 * Fills the reference system's window of a ring: each scope has fewer tasks than the window, but
 * all scopes beyond a certain depth share one ring.
 */
static void fill_window(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    for (int depth = 0; depth < DEEP_SCOPES; depth++) {
        (void)pto_scope_begin(o, PTO_SCOPE_AUTO);
        pto_dummy(o, PTO_INT(0));
        pto_dummy(o, PTO_INT(1));
    }
    for (int depth = 0; depth < DEEP_SCOPES; depth++)
        (void)pto_scope_end(o);
}

static void fill_heap(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(8192), 1, PTO_UINT32);

    (void)entry;
    pto_alloc(o, PTO_OUT(&info));
}

static void fill_pool(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_task_id before[POOL_PREDECESSORS];
    struct pto_args args;

    (void)entry;
    pto_args_init(&args);
    for (int i = 0; i < POOL_PREDECESSORS; i++)
        before[i] = pto_submit_dummy(o, &args).task;
    pto_set_deps(&args, before, NULL, POOL_PREDECESSORS);
    pto_submit_dummy(o, &args);
}

static void fill_regions(struct pto_orch *o, const struct pto_entry *entry)
{
    for (int i = 0; i < REGION_TASKS && pto_orch_status(o) >= 0; i++) {
        struct pto_args args;

        pto_args_init(&args);
        for (int k = 0; k < PTO_TASK_TENSORS_MAX; k++)
            pto_add_output_existing(&args, entry->tensor);
        pto_submit_dummy(o, &args);
    }
}

static void fill_ready(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    for (int i = 0; i < READY_TASKS && pto_orch_status(o) >= 0; i++)
        pto_dummy(o, PTO_INT(i));
}

#define EACH(n)            \
    {                      \
        (n), (n), (n), (n) \
    }

const struct drill drills_rings[] = {
    { PTO_ESCOPE_DEADLOCK, "scope-window", "a scope with more tasks than its ring holds",
      .orchestration = fill_scope, .text = "raise ring_task_window",
      .flags = DRILL_SITE | DRILL_STREAM, .scope_depth = 1, .rings = { .task_window = EACH(4) } },
    { PTO_EHEAP, "ring-heap", "an output larger than the ring's heap", .orchestration = fill_heap,
      .text = "raise ring_heap", .flags = DRILL_SITE, .rings = { .heap = EACH(1024) } },
    { PTO_EWINDOW, "ring-window",
      "nested scopes that together have more tasks than their ring holds",
      .orchestration = fill_window, .text = "raise ring_task_window",
      .flags = DRILL_SITE | DRILL_STREAM, .scope_depth = 4, .rings = { .task_window = EACH(4) } },
    { PTO_EWINDOW, "graph-window", "a graph with more tasks than the window",
      .orchestration = fill_window, .text = "raise ring_task_window",
      .flags = DRILL_SITE | DRILL_HOST, .scope_depth = 3, .rings = { .task_window = EACH(4) } },
    { PTO_EDEP_POOL, "ring-pool", "a task with more predecessors than the pool has entries",
      .orchestration = fill_pool, .text = "raise ring_dep_pool", .flags = DRILL_SITE,
      .rings = { .dep_pool = EACH(4) } },
    { PTO_EREGIONS, "region-table", "more regions than the reference's table holds",
      .orchestration = fill_regions, .text = "limits=reference", .flags = DRILL_SITE | DRILL_STREAM,
      .limits = PTO_LIMITS_REFERENCE },
    { PTO_EREADY, "ready-queue", "a graph with more ready tasks than the reference's queue holds",
      .orchestration = fill_ready, .text = "limits=reference", .flags = DRILL_SITE | DRILL_HOST,
      .limits = PTO_LIMITS_REFERENCE },
    { 0 },
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Derives the edges that the ordering rules ask for. The quotations are from docs/user/ordering.md.
 */
#include "trace/recording_rules.h"

#include <stdlib.h>
#include <string.h>

/* One argument of the task whose predecessors are being derived. */
struct rules_argument {
    uint32_t task;
    int16_t index;
    const struct chip_argument *a;
    bool is_manual; /* the task is in a MANUAL scope */
    bool only_reads;
};

void recording_add_edge(struct rules *rules, struct recording_edge edge)
{
    struct recording *r = rules->r;

    if (r->edge_count == rules->edge_max) {
        uint64_t max = 2 * rules->edge_max + 1024;
        struct recording_edge *grown = realloc(r->edge, max * sizeof(*grown));

        if (grown == NULL) {
            rules->has_failed = true;
            return;
        }
        r->edge = grown;
        rules->edge_max = max;
    }
    r->edge[r->edge_count++] = edge;
}

/* ---- deps=safe ---- */

static void rules_wait_for(struct rules *rules, const struct rules_argument *x,
                           const struct rules_access *before, bool is_writer)
{
    bool reads = (pto_tag_use(x->a->tag) & PTO_READS) != 0;

    recording_add_edge(rules,
                       (struct recording_edge){ .from = before->task,
                                                .to = x->task,
                                                .from_argument = before->argument,
                                                .to_argument = x->index,
                                                .reason = !is_writer ? PTO_RECORDING_REASON_WAR
                                                          : reads    ? PTO_RECORDING_REASON_RAW
                                                                     : PTO_RECORDING_REASON_WAW });
}

/*
 * Adds edges from "every recorded reader, and every recorded writer that is not superseded" of the
 * region, except from tasks before `since`. An argument that only reads waits for no readers, but
 * also for superseded writers.
 */
static void rules_probe_region(struct rules *rules, const struct rules_argument *x,
                               const struct rules_region *region, uint32_t since)
{
    for (uint32_t i = 0; i < region->writers.count; i++) {
        const struct rules_access *w = &region->writers.at[i];

        if (w->task >= since && w->task != x->task && (x->only_reads || !w->is_superseded))
            rules_wait_for(rules, x, w, true);
    }
    for (uint32_t i = 0; i < region->readers.count && !x->only_reads; i++)
        if (region->readers.at[i].task >= since && region->readers.at[i].task != x->task)
            rules_wait_for(rules, x, &region->readers.at[i], false);
}

/*
 * Returns the last access of the list. NULL: there is none, or a task in a MANUAL scope was
 * submitted after it.
 */
static const struct rules_access *rules_latest(const struct rules *rules,
                                               const struct rules_list *list)
{
    const struct rules_access *last = list->count != 0 ? &list->at[list->count - 1] : NULL;

    return last != NULL && last->task >= rules->ordered_from ? last : NULL;
}

static bool rules_has_writer_since(const struct rules_region *region, uint32_t task)
{
    return region->writers.count != 0 && region->writers.at[region->writers.count - 1].task > task;
}

/*
 * For an argument that only reads: returns the first task whose accesses to overlapping regions the
 * argument must wait for. *is_renewed_out: a region was written since the last reader of the
 * argument's own region.
 */
static uint32_t rules_floor(const struct rules *rules, const struct rules_region *own,
                            bool *is_renewed_out)
{
    const struct rules_access *reader = rules_latest(rules, &own->readers);
    bool is_renewed;

    *is_renewed_out = false;
    if (reader == NULL)
        return 0;
    is_renewed = rules_has_writer_since(own, reader->task);
    for (uint32_t i = 0; i < own->near_count && !is_renewed; i++)
        is_renewed = rules_has_writer_since(&rules->region[own->near[i] / 2], reader->task);
    *is_renewed_out = is_renewed;
    return is_renewed ? reader->task + 1 : reader->floor;
}

static void rules_clear(struct rules_region *region)
{
    region->writers.count = region->readers.count = 0;
}

/*
 * Records an access. "the argument writes a region that covers another: the records of the other
 * region are removed"
 */
static void rules_record(struct rules *rules, const struct rules_argument *x,
                         struct rules_region *own, uint32_t floor, bool is_renewed)
{
    struct rules_access access = { .task = x->task, .floor = floor, .argument = x->index };

    if (!x->is_manual && x->only_reads) {
        if (is_renewed)
            own->readers.count = 0;
        for (uint32_t i = own->writers.count; i > 0 && !own->writers.at[i - 1].is_superseded; i--)
            own->writers.at[i - 1].is_superseded = true;
    } else if (!x->is_manual) {
        rules_clear(own);
        for (uint32_t i = 0; i < own->near_count; i++)
            if (own->near[i] % 2 != 0)
                rules_clear(&rules->region[own->near[i] / 2]);
    }
    recording_list_add(rules, x->only_reads ? &own->readers : &own->writers, access);
}

static void rules_apply_safe(struct rules *rules, const struct rules_argument *x)
{
    struct pto_tensor tensor = trace_argument_tensor(x->a);
    struct rules_region *own;
    uint32_t since = 0, floor = 0;
    bool is_renewed = false;
    struct geom geom;

    if (x->a->tag == PTO_TAG_NO_DEP || (x->a->flags & CHIP_ARGUMENT_IS_MANUAL) != 0)
        return;
    geom_init_safe(&geom, &tensor);
    own = recording_enter_region(rules, &geom,
                                 pto_task_id_is_valid(x->a->owner) ? x->a->owner.raw + 1 : 0);
    if (own == NULL)
        return;
    if (!x->is_manual && x->only_reads)
        floor = rules_floor(rules, own, &is_renewed);
    if (!x->is_manual && x->a->tag != PTO_TAG_OUTPUT) {
        const struct rules_access *writer = rules_latest(rules, &own->writers);

        since = writer != NULL ? writer->task : 0;
        rules_probe_region(rules, x, own, since);
        for (uint32_t i = 0; i < own->near_count; i++)
            rules_probe_region(rules, x, &rules->region[own->near[i] / 2],
                               floor > since ? floor : since);
    }
    rules_record(rules, x, own, floor, is_renewed);
}

/* ---- deps=simpler ---- */

/* Returns a one-byte region whose `writers` are all recorded writers of the argument's address. */
static struct rules_region *rules_of_address(struct rules *rules, const struct chip_argument *a)
{
    const struct geom geom = { .lo = a->addr, .hi = a->addr + 1, .kind = REGION_CONTIGUOUS };

    return recording_enter_region(rules, &geom,
                                  pto_task_id_is_valid(a->owner) ? a->owner.raw + 1 : 0);
}

static bool rules_geom_simpler(const struct chip_argument *a, struct geom *out)
{
    struct pto_tensor tensor = trace_argument_tensor(a);

    geom_init_simpler(out, &tensor);
    return out->hi > out->lo && (a->flags & CHIP_ARGUMENT_IS_MANUAL) == 0;
}

/*
 * Adds edges from "every recorded writer whose region overlaps"; an INOUT argument that covers a
 * writer's region deletes that writer's record.
 */
static void rules_probe_simpler(struct rules *rules, const struct rules_argument *x)
{
    struct rules_region *at = rules_of_address(rules, x->a);
    uint32_t kept = 0;
    struct geom own;

    if ((pto_tag_use(x->a->tag) & PTO_READS) == 0 || !rules_geom_simpler(x->a, &own) || at == NULL)
        return;
    for (uint32_t i = 0; i < at->writers.count; i++) {
        struct rules_access w = at->writers.at[i];
        enum overlap overlap = OVERLAP_NONE;
        struct geom theirs;

        if (rules_geom_simpler(&trace_task_arguments(rules->r->slices->task[w.task])[w.argument],
                               &theirs))
            overlap = overlap_simpler(&own, &theirs);
        if (overlap != OVERLAP_NONE && w.task != x->task)
            rules_wait_for(rules, x, &w, true);
        if (overlap != OVERLAP_COVERS || x->a->tag != PTO_TAG_INOUT)
            at->writers.at[kept++] = w;
    }
    at->writers.count = kept;
}

static void rules_record_simpler(struct rules *rules, const struct rules_argument *x)
{
    struct rules_region *at = rules_of_address(rules, x->a);
    struct geom own;

    if ((x->a->tag == PTO_TAG_INOUT || x->a->tag == PTO_TAG_OUTPUT_EXISTING) && at != NULL &&
        rules_geom_simpler(x->a, &own))
        recording_list_add(rules, &at->writers,
                           (struct rules_access){ .task = x->task, .argument = x->index });
}

/* ---- safe and simpler ---- */

static void rules_wait_for_task(struct rules *rules, uint32_t task, uint64_t id, int16_t argument,
                                enum pto_recording_reason reason)
{
    uint32_t before = hash_value(&rules->by_id, hash_add(0, id));

    /* an allocation has no index, and no task waits for it, because it completes at once */
    if (before < task)
        recording_add_edge(
            rules, (struct recording_edge){ before, task, -1, argument, (uint8_t)reason, false });
}

static void rules_apply_explicit(struct rules *rules, const struct chip_task *recorded)
{
    const struct chip_dep *dep = trace_task_deps(recorded);

    for (uint32_t i = 0; i < recorded->dep_count; i++)
        if ((dep[i].kind & PTO_DEP_WAIT) != 0)
            rules_wait_for_task(rules, recorded->index, dep[i].task.raw, -1,
                                PTO_RECORDING_REASON_EXPLICIT);
}

static void rules_apply_task(struct rules *rules, const struct chip_task *recorded)
{
    const struct chip_argument *operand = trace_task_operand(recorded);
    bool is_safe = rules->r->slices->snapshot->deps == PTO_DEPS_SAFE;
    uint32_t count = recorded->tensor_count + (operand != NULL && is_safe);
    struct rules_argument x = { .task = recorded->index,
                                .is_manual = (recorded->flags & CHIP_TASK_IS_MANUAL) != 0 };

    rules_apply_explicit(rules, recorded);
    for (uint32_t pass = 0; pass < (is_safe ? 1 : 2); pass++)
        for (uint32_t i = 0; i < count; i++) {
            x.a = i < recorded->tensor_count ? &trace_task_arguments(recorded)[i] : operand;
            x.index = (int16_t)i;
            x.only_reads = x.a->tag == PTO_TAG_INPUT;
            if (pass == 0 && !x.is_manual && x.a->tag != PTO_TAG_OUTPUT &&
                pto_task_id_is_valid(x.a->owner))
                rules_wait_for_task(rules, x.task, x.a->owner.raw, x.index,
                                    PTO_RECORDING_REASON_CREATOR);
            if (is_safe)
                rules_apply_safe(rules, &x);
            else if (!x.is_manual && pass == 0)
                rules_probe_simpler(rules, &x);
            else if (!x.is_manual)
                rules_record_simpler(rules, &x);
        }
    if (x.is_manual)
        rules->ordered_from = recorded->index + 1;
}

int recording_apply_rules(struct recording *r)
{
    struct rules rules = { .r = r };
    uint64_t tasks = r->slices->snapshot->record.tasks;

    for (uint32_t i = 0; i < tasks && !rules.has_failed; i++) {
        const struct chip_task *recorded = r->slices->task[i];

        if (recorded != NULL &&
            hash_enter(&rules.by_id, hash_add(0, recorded->id.raw), i) == HASH_NONE)
            rules.has_failed = true;
        if (recorded != NULL)
            rules_apply_task(&rules, recorded);
    }
    recording_free_rules(&rules);
    return rules.has_failed ? PTO_ENOMEM : PTO_OK;
}

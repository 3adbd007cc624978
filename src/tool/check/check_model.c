/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model of the ordering rules, implemented with arrays and loops. The comments quote
 * docs/user/ordering.md.
 */
#include "tool/check/check_model.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * One access of a region by one task. In the terms of docs/user/ordering.md, the records of a
 * region are all entries with that region.
 */
struct record {
    struct check_region region;
    uint32_t task;
    int16_t argument;
    bool is_write;
    bool is_superseded;
    /*
     * for a reader: the first task whose accesses to overlapping regions the reader had to wait for
     */
    uint32_t floor;
};

struct check_model {
    enum pto_deps deps;
    uint32_t task_count;
    uint32_t task_max;
    uint32_t ordered_from; /* no task with this index or a later one is in a MANUAL scope */
    /*
     * For each task: whether it is an allocation, which completes at once, so that no task waits
     * for it.
     */
    bool *is_alloc;
    uint32_t record_count;
    uint32_t record_max;
    struct record *records;
    struct check_edges *edges; /* receives the reason of each edge; NULL: reasons are not needed */
};

static void wait_for_creator(const struct check_model *m, const struct check_arg *arg,
                             uint32_t index, uint64_t *before);
static void wait_for_given(const struct check_model *m, const struct check_task *task,
                           uint64_t *before);
static void submit_safe(struct check_model *m, const struct check_task *task, uint64_t *before);
static void submit_simpler(struct check_model *m, const struct check_task *task, uint64_t *before);
static void safe_probe(const struct check_model *m, const struct check_arg *arg, uint32_t index,
                       uint64_t *before);
static void safe_record(struct check_model *m, const struct check_task *task,
                        const struct check_arg *arg, uint32_t index);
static void simpler_probe(struct check_model *m, const struct check_arg *arg, uint32_t index,
                          uint64_t *before);
static void add_record(struct check_model *m, const struct check_region *region, uint32_t index,
                       bool is_write, uint32_t floor);

struct check_model *check_model_create(enum pto_deps deps)
{
    struct check_model *m = check_alloc(NULL, 1, sizeof(*m));

    memset(m, 0, sizeof(*m));
    m->deps = deps;
    return m;
}

void check_model_destroy(struct check_model *m)
{
    if (m == NULL)
        return;
    free(m->is_alloc);
    free(m->records);
    free(m);
}

void check_model_list(struct check_model *m, struct check_edges *edges)
{
    m->edges = edges;
}

void check_edges_add(struct check_edges *edges, struct check_edge edge)
{
    if (edges->count == edges->max) {
        edges->max = edges->max * 2 + 64;
        edges->at = check_alloc(edges->at, edges->max, sizeof(*edges->at));
    }
    edges->at[edges->count++] = edge;
}

/* Adds task `from` to the predecessors of the task that is being submitted. */
static void model_wait(const struct check_model *m, uint64_t *before, uint32_t from,
                       int32_t from_argument, int32_t argument, enum pto_recording_reason reason)
{
    bit_set(before, from);
    if (m->edges != NULL)
        check_edges_add(m->edges, (struct check_edge){ from, m->task_count, (int16_t)from_argument,
                                                       (int16_t)argument, (uint8_t)reason });
}

void check_model_submit(struct check_model *m, const struct check_task *task, uint64_t *before)
{
    if (m->task_count == m->task_max) {
        m->task_max = m->task_max * 2 + 64;
        m->is_alloc = check_alloc(m->is_alloc, m->task_max, sizeof(*m->is_alloc));
    }
    m->is_alloc[m->task_count] = task->kind == CHECK_ALLOC;
    if (task->kind != CHECK_ALLOC) {
        wait_for_given(m, task, before);
        if (m->deps == PTO_DEPS_SAFE)
            submit_safe(m, task, before);
        else
            submit_simpler(m, task, before);
    }
    m->task_count++;
    if (task->is_manual)
        m->ordered_from = m->task_count;
}

/*
 * Adds the predecessors by which PTO_DEPS_SAFE and PTO_DEPS_SIMPLER do not differ: explicit
 * dependencies and, in an AUTO scope, the creators of arguments.
 */
static void wait_for_given(const struct check_model *m, const struct check_task *task,
                           uint64_t *before)
{
    for (uint32_t i = 0; i < task->dep_count; i++) {
        const struct check_dep *dep = &task->deps[i];

        assert(dep->task < m->task_count);
        if ((dep->kind & PTO_DEP_WAIT) != 0 && !m->is_alloc[dep->task])
            model_wait(m, before, dep->task, -1, -1, PTO_RECORDING_REASON_EXPLICIT);
    }
    if (task->is_manual)
        return;
    for (uint32_t i = 0; i < task->arg_count; i++) {
        if (task->args[i].tag != PTO_TAG_OUTPUT)
            wait_for_creator(m, &task->args[i], i, before);
    }
}

static void wait_for_creator(const struct check_model *m, const struct check_arg *arg,
                             uint32_t index, uint64_t *before)
{
    assert(arg->creator < (int32_t)m->task_count);
    if (arg->creator >= 0 && !m->is_alloc[arg->creator])
        model_wait(m, before, (uint32_t)arg->creator, -1, (int32_t)index,
                   PTO_RECORDING_REASON_CREATOR);
}

static void submit_safe_arg(struct check_model *m, const struct check_task *task,
                            const struct check_arg *arg, uint32_t index, uint64_t *before)
{
    if (arg->tag == PTO_TAG_NO_DEP || arg->region.manual_dep || check_region_is_empty(&arg->region))
        return;
    if (arg->tag != PTO_TAG_OUTPUT && !task->is_manual)
        safe_probe(m, arg, index, before);
    safe_record(m, task, arg, index);
}

static void submit_safe(struct check_model *m, const struct check_task *task, uint64_t *before)
{
    for (uint32_t i = 0; i < task->arg_count; i++)
        submit_safe_arg(m, task, &task->args[i], i, before);
    if (check_task_has_predicate(task)) {
        struct check_arg operand = check_predicate_operand(&task->predicate);

        if (!task->is_manual)
            wait_for_creator(m, &operand, task->arg_count, before);
        submit_safe_arg(m, task, &operand, task->arg_count, before);
    }
}

/*
 * Returns the element that a predicate reads as an argument. The ordering rules treat the element
 * as one more INPUT after the arguments of the task.
 */
struct check_arg check_predicate_operand(const struct check_predicate *p)
{
    return (struct check_arg){ .tag = PTO_TAG_INPUT,
                               .reads = true,
                               .creator = p->element.creator,
                               .output = p->element.output,
                               .region = check_element_region(&p->element) };
}

/*
 * Returns the latest writer of the same region, or 0 if there is none to which the rule applies:
 * "What was recorded before the writer of the same region does not count, if no task from that
 * writer on was in a MANUAL scope".
 */
static uint32_t safe_since(const struct check_model *m, const struct check_region *region)
{
    uint32_t since = 0;

    for (uint32_t i = 0; i < m->record_count; i++) {
        const struct record *r = &m->records[i];

        if (r->is_write && r->task >= m->ordered_from && r->task > since &&
            check_region_is_same(region, &r->region))
            since = r->task;
    }
    return since;
}

/*
 * Returns the first task whose records of other regions count, by the rule "if it only reads and a
 * writer of a region that overlaps is recorded that is later than the latest recorded reader of the
 * same region, what was recorded for other regions before that reader, or by it, does not count"
 * (then *is_renewed_out is set); "if there is no such writer, what did not count for that reader
 * does not count".
 */
static uint32_t safe_floor(const struct check_model *m, const struct check_region *region,
                           bool *is_renewed_out)
{
    const struct record *reader = NULL;

    *is_renewed_out = false;
    for (uint32_t i = 0; i < m->record_count; i++) {
        const struct record *r = &m->records[i];

        if (!r->is_write && r->task >= m->ordered_from &&
            (reader == NULL || r->task > reader->task) && check_region_is_same(region, &r->region))
            reader = r;
    }
    if (reader == NULL)
        return 0;
    for (uint32_t i = 0; i < m->record_count; i++) {
        const struct record *r = &m->records[i];

        if (r->is_write && r->task > reader->task &&
            check_region_overlaps(region, &r->region, NULL))
            *is_renewed_out = true;
    }
    return *is_renewed_out ? reader->task + 1 : reader->floor;
}

/*
 * Adds the tasks that an argument waits for to `before`: "if it only reads, every recorded writer
 * of a region that overlaps; if it writes, every recorded reader of a region that overlaps, and
 * every recorded writer of one that is not superseded".
 */
static void safe_probe(const struct check_model *m, const struct check_arg *arg, uint32_t index,
                       uint64_t *before)
{
    bool only_reads = arg->tag == PTO_TAG_INPUT;
    uint32_t own_since = safe_since(m, &arg->region);
    bool is_renewed;
    uint32_t floor = only_reads ? safe_floor(m, &arg->region, &is_renewed) : 0;

    for (uint32_t i = 0; i < m->record_count; i++) {
        const struct record *r = &m->records[i];
        bool counts = only_reads ? r->is_write : !r->is_write || !r->is_superseded;
        bool is_own = check_region_is_same(&arg->region, &r->region);
        uint32_t since = floor > own_since && !is_own ? floor : own_since;

        if (counts && r->task >= since && r->task != m->task_count &&
            check_region_overlaps(&arg->region, &r->region, NULL))
            model_wait(m, before, r->task, r->argument, (int32_t)index,
                       !r->is_write ? PTO_RECORDING_REASON_WAR
                       : arg->tag == PTO_TAG_INPUT || arg->tag == PTO_TAG_INOUT
                           ? PTO_RECORDING_REASON_RAW
                           : PTO_RECORDING_REASON_WAW);
    }
}

/*
 * Records an argument, by the rule of docs/user/ordering.md: "If it writes a region that covers
 * another one, the records of that other one go away. If it only reads, the writers recorded for
 * the same region become superseded": a later writer waits for this reader instead. A reader that
 * waits for the recorded readers of the same region (is_renewed) replaces them. A task in a MANUAL
 * scope "removes and supersedes no record".
 */
static void safe_record(struct check_model *m, const struct check_task *task,
                        const struct check_arg *arg, uint32_t index)
{
    bool only_reads = arg->tag == PTO_TAG_INPUT;
    bool is_renewed = false;
    uint32_t floor = only_reads && !task->is_manual ? safe_floor(m, &arg->region, &is_renewed) : 0;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < m->record_count && !task->is_manual; i++) {
        struct record *r = &m->records[i];

        if (is_renewed && !r->is_write && check_region_is_same(&arg->region, &r->region))
            continue;

        if (!only_reads && check_region_covers(&arg->region, &r->region))
            continue;
        if (only_reads && r->is_write && check_region_is_same(&arg->region, &r->region))
            r->is_superseded = true;
        m->records[kept++] = *r;
    }
    if (!task->is_manual)
        m->record_count = kept;
    add_record(m, &arg->region, index, !only_reads, floor);
}

static void submit_simpler(struct check_model *m, const struct check_task *task, uint64_t *before)
{
    if (task->is_manual)
        return;
    for (uint32_t i = 0; i < task->arg_count; i++) {
        const struct check_arg *arg = &task->args[i];

        if ((arg->tag == PTO_TAG_INPUT || arg->tag == PTO_TAG_INOUT) && !arg->region.manual_dep &&
            !check_region_is_empty(&arg->region))
            simpler_probe(m, arg, i, before);
    }
    for (uint32_t i = 0; i < task->arg_count; i++) {
        const struct check_arg *arg = &task->args[i];

        if ((arg->tag == PTO_TAG_INOUT || arg->tag == PTO_TAG_OUTPUT_EXISTING) &&
            !arg->region.manual_dep && !check_region_is_empty(&arg->region))
            add_record(m, &arg->region, i, true, 0);
    }
}

static void simpler_probe(struct check_model *m, const struct check_arg *arg, uint32_t index,
                          uint64_t *before)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < m->record_count; i++) {
        struct record *r = &m->records[i];
        bool covers = false;

        if (check_region_overlaps_simpler(&arg->region, &r->region, &covers))
            model_wait(m, before, r->task, r->argument, (int32_t)index, PTO_RECORDING_REASON_RAW);
        if (!covers || arg->tag != PTO_TAG_INOUT)
            m->records[kept++] = *r;
    }
    m->record_count = kept;
}

static void add_record(struct check_model *m, const struct check_region *region, uint32_t index,
                       bool is_write, uint32_t floor)
{
    if (m->record_count == m->record_max) {
        m->record_max = m->record_max * 2 + 64;
        m->records = check_alloc(m->records, m->record_max, sizeof(*m->records));
    }
    m->records[m->record_count++] =
        (struct record){ *region, m->task_count, (int16_t)index, is_write, false, floor };
}

void *check_alloc(void *old, size_t count, size_t bytes)
{
    void *block = reallocarray(old, count != 0 ? count : 1, bytes);

    if (block == NULL) {
        fprintf(stderr, "pto check: out of memory\n");
        exit(1);
    }
    return block;
}

void *check_alloc_aligned(size_t bytes)
{
    void *block = aligned_alloc(64, bytes / 64 * 64 + 64);

    if (block == NULL) {
        fprintf(stderr, "pto check: out of memory\n");
        exit(1);
    }
    memset(block, 0, bytes);
    return block;
}

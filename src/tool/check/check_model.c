/* SPDX-License-Identifier: Apache-2.0 */
/* The ordering rules as arrays and loops. The comments quote docs/user/ordering.md. */
#include "tool/check/check_model.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* One access of one task. "Records are kept per region" is: all entries of the same region. */
struct record {
    struct check_region region;
    uint32_t task;
    bool is_write;
    bool is_superseded;
    uint32_t floor; /* of a reader: the first task that counted for it, in other regions */
};

struct check_model {
    enum pto_deps deps;
    uint32_t task_count;
    uint32_t task_max;
    uint32_t ordered_from; /* no task from this one on is in a MANUAL scope */
    bool *is_alloc;        /* by task: complete at once, so never waited for */
    uint32_t record_count;
    uint32_t record_max;
    struct record *records;
};

static void wait_for_creator(const struct check_model *m, const struct check_arg *arg,
                             uint64_t *before);
static void wait_for_given(const struct check_model *m, const struct check_task *task,
                           uint64_t *before);
static void submit_safe(struct check_model *m, const struct check_task *task, uint64_t *before);
static void submit_simpler(struct check_model *m, const struct check_task *task, uint64_t *before);
static void safe_probe(const struct check_model *m, const struct check_arg *arg, uint64_t *before);
static void safe_record(struct check_model *m, const struct check_task *task,
                        const struct check_arg *arg);
static void simpler_probe(struct check_model *m, const struct check_arg *arg, uint64_t *before);
static void add_record(struct check_model *m, const struct check_region *region, bool is_write,
                       uint32_t floor);

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

/* What both sets of rules share: explicit dependencies, and creators in an AUTO scope. */
static void wait_for_given(const struct check_model *m, const struct check_task *task,
                           uint64_t *before)
{
    for (uint32_t i = 0; i < task->dep_count; i++) {
        const struct check_dep *dep = &task->deps[i];

        assert(dep->task < m->task_count);
        if ((dep->kind & PTO_DEP_WAIT) != 0 && !m->is_alloc[dep->task])
            bit_set(before, dep->task);
    }
    if (task->is_manual)
        return;
    for (uint32_t i = 0; i < task->arg_count; i++) {
        if (task->args[i].tag != PTO_TAG_OUTPUT)
            wait_for_creator(m, &task->args[i], before);
    }
}

static void wait_for_creator(const struct check_model *m, const struct check_arg *arg,
                             uint64_t *before)
{
    assert(arg->creator < (int32_t)m->task_count);
    if (arg->creator >= 0 && !m->is_alloc[arg->creator])
        bit_set(before, (uint32_t)arg->creator);
}

static void submit_safe_arg(struct check_model *m, const struct check_task *task,
                            const struct check_arg *arg, uint64_t *before)
{
    if (arg->tag == PTO_TAG_NO_DEP || arg->region.manual_dep || check_region_is_empty(&arg->region))
        return;
    if (arg->tag != PTO_TAG_OUTPUT && !task->is_manual)
        safe_probe(m, arg, before);
    safe_record(m, task, arg);
}

static void submit_safe(struct check_model *m, const struct check_task *task, uint64_t *before)
{
    for (uint32_t i = 0; i < task->arg_count; i++)
        submit_safe_arg(m, task, &task->args[i], before);
    if (check_task_has_predicate(task)) {
        struct check_arg operand = check_predicate_operand(&task->predicate);

        if (!task->is_manual)
            wait_for_creator(m, &operand, before);
        submit_safe_arg(m, task, &operand, before);
    }
}

/* Counts as one more INPUT after the arguments, of the one element. */
struct check_arg check_predicate_operand(const struct check_predicate *p)
{
    return (struct check_arg){ .tag = PTO_TAG_INPUT,
                               .reads = true,
                               .creator = p->element.creator,
                               .output = p->element.output,
                               .region = check_element_region(&p->element) };
}

/*
 * "What was recorded before the writer of the same region does not count, if no
 * task from that writer on was in a MANUAL scope"
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
 * "if it only reads and a writer of a region that overlaps is recorded that is later than
 * the latest recorded reader of the same region, what was recorded for other regions before
 * that reader, or by it, does not count"; "if there is no such writer, what did not count
 * for that reader does not count". Returns the first task that does.
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
 * "if it only reads, every recorded writer of a region that overlaps; if it
 * writes, every recorded reader of a region that overlaps, and every recorded
 * writer of one that is not superseded"
 */
static void safe_probe(const struct check_model *m, const struct check_arg *arg, uint64_t *before)
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
            bit_set(before, r->task);
    }
}

/*
 * "If it writes a region that covers another one, the records of that other
 * one go away. If it only reads, the writers recorded for the same region
 * become superseded", and the readers that it is ordered after go away. A task in a
 * MANUAL scope "removes and supersedes nothing".
 */
static void safe_record(struct check_model *m, const struct check_task *task,
                        const struct check_arg *arg)
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
    add_record(m, &arg->region, !only_reads, floor);
}

static void submit_simpler(struct check_model *m, const struct check_task *task, uint64_t *before)
{
    if (task->is_manual)
        return;
    for (uint32_t i = 0; i < task->arg_count; i++) {
        const struct check_arg *arg = &task->args[i];

        if ((arg->tag == PTO_TAG_INPUT || arg->tag == PTO_TAG_INOUT) && !arg->region.manual_dep &&
            !check_region_is_empty(&arg->region))
            simpler_probe(m, arg, before);
    }
    for (uint32_t i = 0; i < task->arg_count; i++) {
        const struct check_arg *arg = &task->args[i];

        if ((arg->tag == PTO_TAG_INOUT || arg->tag == PTO_TAG_OUTPUT_EXISTING) &&
            !arg->region.manual_dep && !check_region_is_empty(&arg->region))
            add_record(m, &arg->region, true, 0);
    }
}

static void simpler_probe(struct check_model *m, const struct check_arg *arg, uint64_t *before)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < m->record_count; i++) {
        struct record *r = &m->records[i];
        bool covers = false;

        if (check_region_overlaps_simpler(&arg->region, &r->region, &covers))
            bit_set(before, r->task);
        if (!covers || arg->tag != PTO_TAG_INOUT)
            m->records[kept++] = *r;
    }
    m->record_count = kept;
}

static void add_record(struct check_model *m, const struct check_region *region, bool is_write,
                       uint32_t floor)
{
    if (m->record_count == m->record_max) {
        m->record_max = m->record_max * 2 + 64;
        m->records = check_alloc(m->records, m->record_max, sizeof(*m->records));
    }
    m->records[m->record_count++] =
        (struct record){ *region, m->task_count, is_write, false, floor };
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

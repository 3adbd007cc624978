/* SPDX-License-Identifier: Apache-2.0 */
/* The ordering rules as arrays and loops. The comments quote docs/ordering.md. */
#include "check/check_model.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* One access of one task. "Records are kept per region" is: all entries of the same region. */
struct record {
    struct check_region region;
    uint32_t task;
    bool is_write;
    bool is_superseded;
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

enum { NO_READER = -1 };

/* Who touched a byte last, in submission order. */
struct byte_state {
    int32_t writer;  /* -1: none that ran */
    int32_t readers; /* since then: index of a struct reader, or NO_READER */
    bool is_set;     /* written or initialised */
    bool is_plain;   /* the writer declared it, so the rules know of it */
};

struct reader {
    uint32_t task;
    int32_t next;
    bool is_plain;
};

struct race {
    struct check_graph *g;
    struct byte_state **bytes; /* of the arena, then of each output */
    uint32_t *first_output;    /* by task: where its outputs begin in `bytes` */
    uint32_t space_count;
    struct reader *readers;
    uint32_t reader_count;
    uint32_t reader_max;
    uint64_t *needed; /* tasks the current one must come after */
    uint64_t *plain;  /* those of them that the rules alone must order */
};

/* A region as ranges of a grid, dimensions sorted by falling stride. */
struct box {
    uint32_t ndims;
    uint64_t stride[PTO_MAX_DIMS];
    uint64_t shape[PTO_MAX_DIMS];
    uint64_t lo[PTO_MAX_DIMS];
    uint64_t rest;
};

static void race_init(struct race *r, struct check_graph *g);
static void race_fini(struct race *r);
static void race_access(struct race *r, uint32_t index, struct check_access *access);
static void race_predicate(struct race *r, struct check_task *task);
static void race_need(struct race *r, uint32_t index);
static void race_apply(struct race *r, uint32_t index);
static void race_close(struct check_graph *g, uint32_t index);
static void race_add_deps(struct race *r, uint32_t index);
static void find_notifiers(struct check_graph *g);
static void add_dep(struct check_task *task, uint32_t on, uint8_t kind);
static struct check_arg predicate_operand(const struct check_predicate *p);
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
static void add_record(struct check_model *m, const struct check_region *region, bool is_write);
static void sort_box(const struct check_region *r, struct box *b);
static bool box_make(const struct check_region *r, struct box *b);
static bool box_is_one_frame(const struct check_region *ra, const struct box *a,
                             const struct check_region *rb, const struct box *b);
static bool box_touches(const struct check_region *r, const struct box *b, uint64_t low,
                        uint64_t high);
static bool box_simpler(const struct check_region *r, struct box *b);

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
        struct check_arg operand = predicate_operand(&task->predicate);

        if (!task->is_manual)
            wait_for_creator(m, &operand, before);
        submit_safe_arg(m, task, &operand, before);
    }
}

/* Counts as one more INPUT after the arguments, of the one element. */
static struct check_arg predicate_operand(const struct check_predicate *p)
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
 * "if it only reads, every recorded writer of a region that overlaps; if it
 * writes, every recorded reader of a region that overlaps, and every recorded
 * writer of one that is not superseded"
 */
static void safe_probe(const struct check_model *m, const struct check_arg *arg, uint64_t *before)
{
    bool only_reads = arg->tag == PTO_TAG_INPUT;
    uint32_t since = safe_since(m, &arg->region);

    for (uint32_t i = 0; i < m->record_count; i++) {
        const struct record *r = &m->records[i];
        bool counts = only_reads ? r->is_write : !r->is_write || !r->is_superseded;

        if (counts && r->task >= since && r->task != m->task_count &&
            check_region_overlaps(&arg->region, &r->region, NULL))
            bit_set(before, r->task);
    }
}

/*
 * "If it writes a region that covers another one, the records of that other
 * one go away. If it only reads, the writers recorded for the same region
 * become superseded." A task in a MANUAL scope "removes and supersedes nothing".
 */
static void safe_record(struct check_model *m, const struct check_task *task,
                        const struct check_arg *arg)
{
    bool only_reads = arg->tag == PTO_TAG_INPUT;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < m->record_count && !task->is_manual; i++) {
        struct record *r = &m->records[i];

        if (!only_reads && check_region_covers(&arg->region, &r->region))
            continue;
        if (only_reads && r->is_write && check_region_is_same(&arg->region, &r->region))
            r->is_superseded = true;
        m->records[kept++] = *r;
    }
    if (!task->is_manual)
        m->record_count = kept;
    add_record(m, &arg->region, !only_reads);
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
            add_record(m, &arg->region, true);
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

static void add_record(struct check_model *m, const struct check_region *region, bool is_write)
{
    if (m->record_count == m->record_max) {
        m->record_max = m->record_max * 2 + 64;
        m->records = check_alloc(m->records, m->record_max, sizeof(*m->records));
    }
    m->records[m->record_count++] = (struct record){ *region, m->task_count, is_write, false };
}

struct check_region check_element_region(const struct check_element *e)
{
    struct check_region r = e->region;

    memset(r.shapes, 0, sizeof(r.shapes));
    memset(r.strides, 0, sizeof(r.strides));
    r.ndims = r.shapes[0] = r.strides[0] = 1;
    for (uint32_t d = 0; d < e->ndims; d++)
        r.start += (uint64_t)e->indices[d] * e->region.strides[d];
    return r;
}

struct check_region check_region_from_tensor(const struct pto_tensor *tensor)
{
    struct check_region r;

    memset(&r, 0, sizeof(r));
    r.addr = tensor->addr;
    r.size = tensor->size;
    r.start = tensor->start;
    r.version = tensor->version;
    r.ndims = tensor->ndims;
    r.dtype = tensor->dtype;
    r.manual_dep = tensor->manual_dep;
    for (uint32_t d = 0; d < tensor->ndims; d++) {
        r.shapes[d] = tensor->shapes[d];
        r.strides[d] = tensor->strides[d];
    }
    return r;
}

bool check_region_is_empty(const struct check_region *r)
{
    for (uint32_t d = 0; d < r->ndims; d++) {
        if (r->shapes[d] == 0)
            return true;
    }
    return false;
}

bool check_region_is_contiguous(const struct check_region *r)
{
    uint64_t expect = 1;

    for (uint32_t d = r->ndims; d-- > 0;) {
        if (r->strides[d] != expect)
            return check_region_is_empty(r);
        expect *= r->shapes[d];
    }
    return true;
}

uint64_t check_region_extent(const struct check_region *r)
{
    uint64_t last = 0;

    if (check_region_is_empty(r))
        return 0;
    for (uint32_t d = 0; d < r->ndims; d++)
        last += (uint64_t)(r->shapes[d] - 1) * r->strides[d];
    return last + 1;
}

void check_region_interval(const struct check_region *r, uint64_t *low_out, uint64_t *high_out)
{
    uint64_t e = pto_dtype_size(r->dtype);

    *low_out = r->addr + r->start * e;
    *high_out = *low_out + check_region_extent(r) * e;
}

/* "contiguous, or a box with as many elements as its interval has room for" */
static bool region_is_dense(const struct check_region *r)
{
    struct box box;
    uint64_t count = 1;

    for (uint32_t d = 0; d < r->ndims; d++)
        count *= r->shapes[d];
    return check_region_is_contiguous(r) || (count == check_region_extent(r) && box_make(r, &box));
}

bool check_region_overlaps(const struct check_region *a, const struct check_region *b,
                           int *rule_out)
{
    bool is_flat_a = region_is_dense(a);
    bool is_flat_b = region_is_dense(b);
    uint64_t low_a, high_a, low_b, high_b;
    struct box box_a, box_b;
    int rule = 0;
    bool overlaps = true;

    check_region_interval(a, &low_a, &high_a);
    check_region_interval(b, &low_b, &high_b);
    if (check_region_is_empty(a) || check_region_is_empty(b) || high_a <= low_b ||
        high_b <= low_a) {
        rule = 1;
        overlaps = false;
    } else if (is_flat_a && is_flat_b) {
        rule = 2;
    } else if (is_flat_a && box_make(b, &box_b)) {
        rule = 3;
        overlaps = box_touches(b, &box_b, low_a, high_a);
    } else if (is_flat_b && box_make(a, &box_a)) {
        rule = 3;
        overlaps = box_touches(a, &box_a, low_b, high_b);
    } else if (box_make(a, &box_a) && box_make(b, &box_b) &&
               box_is_one_frame(a, &box_a, b, &box_b)) {
        rule = 4;
        overlaps = box_a.rest == box_b.rest;
        for (uint32_t d = 0; d < box_a.ndims; d++)
            overlaps = overlaps && box_a.lo[d] < box_b.lo[d] + box_b.shape[d] &&
                       box_b.lo[d] < box_a.lo[d] + box_a.shape[d];
    } else {
        rule = 5;
    }
    if (rule_out != NULL)
        *rule_out = rule;
    return overlaps;
}

bool check_region_covers(const struct check_region *a, const struct check_region *b)
{
    uint64_t low_a, high_a, low_b, high_b;
    struct box box_a, box_b;

    if (check_region_is_empty(a) || check_region_is_empty(b))
        return false;
    check_region_interval(a, &low_a, &high_a);
    check_region_interval(b, &low_b, &high_b);
    if (region_is_dense(a) && low_a <= low_b && high_b <= high_a)
        return true;
    if (check_region_is_same(a, b))
        return true;
    if (region_is_dense(a) || region_is_dense(b) || !box_make(a, &box_a) || !box_make(b, &box_b) ||
        !box_is_one_frame(a, &box_a, b, &box_b) || box_a.rest != box_b.rest)
        return false;
    for (uint32_t d = 0; d < box_a.ndims; d++) {
        if (box_b.lo[d] < box_a.lo[d] ||
            box_b.lo[d] + box_b.shape[d] > box_a.lo[d] + box_a.shape[d])
            return false;
    }
    return true;
}

bool check_region_is_same(const struct check_region *a, const struct check_region *b)
{
    uint64_t low_a, high_a, low_b, high_b;
    struct box box_a, box_b;

    if (region_is_dense(a) != region_is_dense(b))
        return false;
    if (region_is_dense(a)) {
        check_region_interval(a, &low_a, &high_a);
        check_region_interval(b, &low_b, &high_b);
        return low_a == low_b && high_a == high_b;
    }
    if (a->addr != b->addr || a->start != b->start || a->ndims != b->ndims ||
        pto_dtype_size(a->dtype) != pto_dtype_size(b->dtype))
        return false;
    sort_box(a, &box_a);
    sort_box(b, &box_b);
    for (uint32_t d = 0; d < a->ndims; d++) {
        if (box_a.shape[d] != box_b.shape[d] || box_a.stride[d] != box_b.stride[d])
            return false;
    }
    return true;
}

bool check_region_overlaps_simpler(const struct check_region *probe,
                                   const struct check_region *record, bool *covers_out)
{
    struct box p, r;
    bool is_exact, covers = true;

    *covers_out = false;
    if (probe->addr != record->addr)
        return false;
    if (probe->version > record->version)
        return true;
    if (check_region_is_empty(probe) || check_region_is_empty(record) ||
        probe->start + check_region_extent(probe) <= record->start ||
        record->start + check_region_extent(record) <= probe->start)
        return false;
    is_exact = probe->dtype == record->dtype && probe->ndims == record->ndims;
    for (uint32_t d = 0; d < probe->ndims && is_exact; d++)
        is_exact = probe->strides[d] == record->strides[d];
    if (!is_exact || !box_simpler(probe, &p) || !box_simpler(record, &r))
        return true;
    for (uint32_t d = 0; d < p.ndims; d++) {
        if (p.lo[d] >= r.lo[d] + r.shape[d] || r.lo[d] >= p.lo[d] + p.shape[d])
            return false;
        covers = covers && p.lo[d] <= r.lo[d] && r.lo[d] + r.shape[d] <= p.lo[d] + p.shape[d];
    }
    *covers_out = covers;
    return true;
}

/* "with its dimensions sorted by falling stride (a stable sort)" */
static void sort_box(const struct check_region *r, struct box *b)
{
    b->ndims = r->ndims;
    for (uint32_t d = 0; d < r->ndims; d++) {
        uint32_t at = d;

        for (; at > 0 && b->stride[at - 1] < r->strides[d]; at--) {
            b->stride[at] = b->stride[at - 1];
            b->shape[at] = b->shape[at - 1];
        }
        b->stride[at] = r->strides[d];
        b->shape[at] = r->shapes[d];
    }
}

static bool box_make(const struct check_region *r, struct box *b)
{
    uint64_t left = r->start;

    sort_box(r, b);
    for (uint32_t d = 0; d < b->ndims; d++) {
        b->lo[d] = left / b->stride[d];
        left %= b->stride[d];
        if (d > 0 && (b->stride[d - 1] % b->stride[d] != 0 ||
                      b->lo[d] + b->shape[d] > b->stride[d - 1] / b->stride[d]))
            return false;
    }
    b->rest = left;
    return true;
}

/* "when buffer address, element size, number of dimensions and sorted strides are equal" */
static bool box_is_one_frame(const struct check_region *ra, const struct box *a,
                             const struct check_region *rb, const struct box *b)
{
    if (ra->addr != rb->addr || pto_dtype_size(ra->dtype) != pto_dtype_size(rb->dtype) ||
        a->ndims != b->ndims)
        return false;
    for (uint32_t d = 0; d < a->ndims; d++) {
        if (a->stride[d] != b->stride[d])
            return false;
    }
    return true;
}

/* "exactly if an element of the box has a byte in the interval": looks at every element. */
static bool box_touches(const struct check_region *r, const struct box *b, uint64_t low,
                        uint64_t high)
{
    uint64_t e = pto_dtype_size(r->dtype);
    struct check_walk w;

    assert(b->ndims == r->ndims);
    for (check_walk_init(&w, r); check_walk_next(&w);) {
        if (w.addr < high && w.addr + e > low)
            return true;
    }
    return false;
}

/* The reference's own test; dimensions stay in the order they have. */
static bool box_simpler(const struct check_region *r, struct box *b)
{
    uint64_t elements = r->size / pto_dtype_size(r->dtype);
    uint64_t left = r->start;

    b->ndims = r->ndims;
    if (r->strides[r->ndims - 1] != 1 || elements % r->strides[0] != 0)
        return false;
    for (uint32_t d = 0; d < r->ndims; d++) {
        uint64_t room = d == 0 ? elements / r->strides[0] : r->strides[d - 1] / r->strides[d];

        if (d > 0 && r->strides[d - 1] % r->strides[d] != 0)
            return false;
        b->shape[d] = r->shapes[d];
        b->lo[d] = left / r->strides[d];
        left %= r->strides[d];
        if (b->lo[d] + b->shape[d] > room)
            return false;
    }
    return true;
}

void check_walk_init(struct check_walk *w, const struct check_region *region)
{
    memset(w, 0, sizeof(*w));
    w->region = region;
    w->addr = region->addr + region->start * pto_dtype_size(region->dtype);
}

bool check_walk_next(struct check_walk *w)
{
    const struct check_region *r = w->region;
    uint64_t e = pto_dtype_size(r->dtype);

    if (!w->is_started) {
        w->is_started = true;
        return !check_region_is_empty(r);
    }
    w->number++;
    for (uint32_t d = r->ndims; d-- > 0;) {
        w->addr += r->strides[d] * e;
        if (++w->index[d] < r->shapes[d])
            return true;
        w->addr -= (uint64_t)r->shapes[d] * r->strides[d] * e;
        w->index[d] = 0;
    }
    return false;
}

void check_model_prepare(struct check_graph *g)
{
    struct check_model *model = check_model_create(g->deps);
    struct race race;

    free(g->before);
    free(g->ancestors);
    g->words = bit_words(g->task_count != 0 ? g->task_count : 1);
    g->before = check_alloc(NULL, (size_t)g->words * (g->task_count + 1), sizeof(uint64_t));
    g->ancestors = check_alloc(NULL, (size_t)g->words * (g->task_count + 1), sizeof(uint64_t));
    memset(g->before, 0, sizeof(uint64_t) * g->words * (g->task_count + 1));
    memset(g->ancestors, 0, sizeof(uint64_t) * g->words * (g->task_count + 1));
    g->unsound[0] = g->unsound[1] = -1;
    race_init(&race, g);
    for (uint32_t i = 0; i < g->task_count; i++) {
        for (uint32_t k = 0; k < g->tasks[i].access_count; k++)
            race_access(&race, i, &g->tasks[i].accesses[k]);
        race_predicate(&race, &g->tasks[i]);
        check_model_submit(model, &g->tasks[i], g->before + (size_t)i * g->words);
        race_close(g, i);
        race_need(&race, i);
        if (g->is_compared)
            race_add_deps(&race, i);
        race_apply(&race, i);
    }
    race_fini(&race);
    check_model_destroy(model);
    find_notifiers(g);
}

static void rename_element(struct check_element *e)
{
    if (e->creator >= 0)
        e->region.addr = check_output_addr((uint32_t)e->creator, e->output);
}

/* Also puts back what depends on indices: addresses of outputs, dependencies added before. */
static void race_init(struct race *r, struct check_graph *g)
{
    uint32_t count = 1;

    memset(r, 0, sizeof(*r));
    r->g = g;
    r->needed = check_alloc(NULL, g->words, sizeof(uint64_t));
    r->plain = check_alloc(NULL, g->words, sizeof(uint64_t));
    r->first_output = check_alloc(NULL, g->task_count, sizeof(uint32_t));
    for (uint32_t i = 0; i < g->task_count; i++) {
        struct check_task *task = &g->tasks[i];
        uint32_t kept = 0, outputs = 0;

        for (uint32_t k = 0; k < task->dep_count; k++) {
            if (!task->deps[k].is_added)
                task->deps[kept++] = task->deps[k];
        }
        task->dep_count = kept;
        rename_element(&task->predicate.element);
        for (uint32_t k = 0; k < task->access_count; k++)
            rename_element(&task->accesses[k].element);
        task->is_manual = g->scopes[task->scope].is_manual;
        r->first_output[i] = count;
        for (uint32_t k = 0; k < task->arg_count; k++) {
            struct check_arg *arg = &task->args[k];

            if (arg->tag == PTO_TAG_OUTPUT) {
                arg->creator = (int32_t)i;
                arg->output = outputs++;
            }
            if (arg->creator >= 0)
                arg->region.addr = check_output_addr((uint32_t)arg->creator, arg->output);
        }
        count += outputs;
    }
    r->space_count = count;
    r->bytes = check_alloc(NULL, count, sizeof(*r->bytes));
    memset(r->bytes, 0, count * sizeof(*r->bytes));
}

static void race_fini(struct race *r)
{
    for (uint32_t i = 0; i < r->space_count; i++)
        free(r->bytes[i]);
    free(r->bytes);
    free(r->first_output);
    free(r->readers);
    free(r->needed);
    free(r->plain);
}

/* The state of the bytes an argument's storage begins at; made on first use. */
static struct byte_state *race_bytes(struct race *r, const struct check_arg *arg,
                                     uint64_t *base_out)
{
    bool is_output = arg->creator >= 0;
    uint32_t space = is_output ? r->first_output[arg->creator] + arg->output : 0;
    uint64_t size = is_output ? arg->region.size : r->g->arena_bytes;

    assert(space < r->space_count);
    *base_out = is_output ? arg->region.addr : CHECK_ARENA_BASE;
    if (r->bytes[space] == NULL) {
        r->bytes[space] = check_alloc(NULL, size, sizeof(struct byte_state));
        for (uint64_t i = 0; i < size; i++)
            r->bytes[space][i] = (struct byte_state){ -1, NO_READER, !is_output, false };
    }
    return r->bytes[space];
}

static void race_need_byte(struct race *r, const struct byte_state *byte, bool is_write,
                           bool is_plain)
{
    if (byte->writer >= 0) {
        bit_set(r->needed, (uint32_t)byte->writer);
        if (is_plain && byte->is_plain)
            bit_set(r->plain, (uint32_t)byte->writer);
    }
    for (int32_t i = is_write ? byte->readers : NO_READER; i != NO_READER; i = r->readers[i].next) {
        bit_set(r->needed, r->readers[i].task);
        if (is_plain && r->readers[i].is_plain)
            bit_set(r->plain, r->readers[i].task);
    }
}

static bool arg_is_declared(const struct check_arg *arg)
{
    return arg->tag != PTO_TAG_NO_DEP && !arg->region.manual_dep;
}

/* Whether every byte of a region has contents. */
static bool race_is_set(struct race *r, const struct check_arg *arg)
{
    uint64_t e = pto_dtype_size(arg->region.dtype), base;
    struct byte_state *bytes = race_bytes(r, arg, &base);
    struct check_walk w;

    for (check_walk_init(&w, &arg->region); check_walk_next(&w);) {
        for (uint64_t b = 0; b < e; b++) {
            if (!bytes[w.addr - base + b].is_set)
                return false;
        }
    }
    return true;
}

static void race_need_arg(struct race *r, const struct check_arg *arg, bool is_write, bool is_plain)
{
    uint64_t e = pto_dtype_size(arg->region.dtype), base;
    struct byte_state *bytes = race_bytes(r, arg, &base);
    struct check_walk w;

    for (check_walk_init(&w, &arg->region); check_walk_next(&w);) {
        for (uint64_t b = 0; b < e; b++)
            race_need_byte(r, &bytes[w.addr - base + b], is_write, is_plain);
    }
}

/*
 * Collects whom a task conflicts with, and decides which arguments its kernel
 * reads. In a graph that is not compared, kernels touch nothing.
 */
static void race_need(struct race *r, uint32_t index)
{
    const struct check_task *task = &r->g->tasks[index];
    bool has_effect = check_task_has_kernel(task) && r->g->is_compared;

    memset(r->needed, 0, r->g->words * sizeof(uint64_t));
    memset(r->plain, 0, r->g->words * sizeof(uint64_t));
    for (uint32_t k = 0; k < task->arg_count; k++) {
        struct check_arg *arg = &task->args[k];

        arg->reads = arg->may_read && has_effect && race_is_set(r, arg);
        if (arg->reads || (arg->writes && has_effect))
            race_need_arg(r, arg, arg->writes, arg_is_declared(arg) && !task->is_manual);
    }
    if (check_task_has_predicate(task)) {
        struct check_arg operand = predicate_operand(&task->predicate);

        race_need_arg(r, &operand, false, arg_is_declared(&operand) && !task->is_manual);
    }
}

static void race_read_byte(struct race *r, struct byte_state *byte, uint32_t index, bool is_plain)
{
    if (r->reader_count == r->reader_max) {
        r->reader_max = r->reader_max * 2 + 4096;
        r->readers = check_alloc(r->readers, r->reader_max, sizeof(*r->readers));
    }
    r->readers[r->reader_count] = (struct reader){ index, byte->readers, is_plain };
    byte->readers = (int32_t)r->reader_count++;
}

static void race_read(struct race *r, uint32_t index, const struct check_arg *arg)
{
    uint64_t e = pto_dtype_size(arg->region.dtype), base;
    struct byte_state *bytes = race_bytes(r, arg, &base);
    struct check_walk w;

    for (check_walk_init(&w, &arg->region); check_walk_next(&w);) {
        for (uint64_t b = 0; b < e; b++)
            race_read_byte(r, &bytes[w.addr - base + b], index, arg_is_declared(arg));
    }
}

/* `writer` is -1 for an initial value; is_sure is false if a predicate decides. */
static void race_write(struct race *r, int32_t writer, const struct check_arg *arg, bool is_sure)
{
    uint64_t e = pto_dtype_size(arg->region.dtype), base;
    struct byte_state *bytes = race_bytes(r, arg, &base);
    struct check_walk w;

    for (check_walk_init(&w, &arg->region); check_walk_next(&w);) {
        for (uint64_t b = 0; b < e; b++) {
            struct byte_state *byte = &bytes[w.addr - base + b];

            *byte = (struct byte_state){ writer, NO_READER, is_sure || byte->is_set,
                                         arg_is_declared(arg) };
        }
    }
}

/* Lets a task touch its bytes: all reads, then all writes, as its kernel does. */
static void race_apply(struct race *r, uint32_t index)
{
    const struct check_task *task = &r->g->tasks[index];
    bool has_effect = check_task_has_kernel(task) && r->g->is_compared;

    for (uint32_t k = 0; k < task->arg_count; k++) {
        if (task->args[k].reads)
            race_read(r, index, &task->args[k]);
    }
    if (check_task_has_predicate(task)) {
        struct check_arg operand = predicate_operand(&task->predicate);

        race_read(r, index, &operand);
    }
    for (uint32_t k = 0; k < task->arg_count; k++) {
        const struct check_arg *arg = &task->args[k];

        if (arg->has_initial && arg->tag == PTO_TAG_OUTPUT)
            race_write(r, -1, arg, true);
        if (arg->writes && has_effect)
            race_write(r, (int32_t)index, arg, !check_task_has_predicate(task));
    }
}

/* A value that nobody determines cannot be compared. What the reference's rules do not keep is kept. */
static void race_predicate(struct race *r, struct check_task *task)
{
    struct check_predicate *p = &task->predicate;
    struct check_arg operand = predicate_operand(p);

    p->is_used = p->op != PTO_PREDICATE_NONE && !p->is_null && race_is_set(r, &operand);
    if (!p->is_used || r->g->deps == PTO_DEPS_SAFE || operand.creator < 0)
        return;
    for (uint32_t k = 0; k < task->arg_count; k++) {
        if (task->args[k].creator == operand.creator)
            return;
    }
    add_dep(task, (uint32_t)operand.creator, task->has_kinds ? PTO_DEP_RETAIN : CHECK_DEP_BOTH);
}

/* ---- what the orchestration does itself ---- */

/* "the tasks submitted so far that write it"; for writing, "the readers, too" */
static bool task_uses(const struct check_task *task, const struct check_region *element,
                      bool with_readers)
{
    if (task->kind == CHECK_ALLOC)
        return false;
    for (uint32_t k = 0; k < task->arg_count; k++) {
        const struct check_arg *arg = &task->args[k];

        if (arg->tag == PTO_TAG_NO_DEP || (arg->tag == PTO_TAG_INPUT && !with_readers) ||
            (arg->region.manual_dep && arg->tag != PTO_TAG_OUTPUT))
            continue;
        if (check_region_overlaps(element, &arg->region, NULL))
            return true;
    }
    if (with_readers && check_task_has_predicate(task)) {
        struct check_region operand = check_element_region(&task->predicate.element);

        return check_region_overlaps(element, &operand, NULL);
    }
    return false;
}

void check_model_awaited(const struct check_graph *g, uint32_t task,
                         const struct check_access *access, uint64_t *row)
{
    struct check_region element = check_element_region(&access->element);

    memset(row, 0, g->words * sizeof(*row));
    for (uint32_t i = 0; i < task; i++) {
        if (bit_get(row, i) || !task_uses(&g->tasks[i], &element, access->is_set))
            continue;
        bit_set(row, i);
        for (uint32_t w = 0; w < g->words; w++)
            row[w] |= graph_ancestors(g, i)[w];
    }
}

/* Done only if what it waits for is all that it has to wait for. It leaves no traces in the bytes. */
static void race_access(struct race *r, uint32_t index, struct check_access *access)
{
    const struct check_graph *g = r->g;
    struct check_arg arg = { .creator = access->element.creator,
                             .output = access->element.output,
                             .region = check_element_region(&access->element) };
    bool with_readers = access->is_set && g->deps == PTO_DEPS_SAFE;

    memset(r->needed, 0, g->words * sizeof(uint64_t));
    race_need_arg(r, &arg, access->is_set, false);
    check_model_awaited(g, index, access, r->plain);
    access->is_streamed = access->is_set || race_is_set(r, &arg);
    for (uint32_t w = 0; w < g->words; w++)
        access->is_streamed = access->is_streamed && (r->needed[w] & ~r->plain[w]) == 0;
    access->is_held = arg.creator < 0;
    for (uint32_t i = 0; i < index && access->is_held; i++)
        access->is_held = !task_uses(&g->tasks[i], &arg.region, with_readers);
}

/*
 * A notifier must run without the task that waits for it. An earlier one does;
 * a later one does if nothing before it is deferred, and if the orchestration
 * does not wait for anything on its way there.
 */
static bool can_notify(const struct check_graph *g, uint32_t notifier, uint32_t task)
{
    if (notifier >= g->task_count || notifier == task ||
        !check_task_has_kernel(&g->tasks[notifier]) ||
        check_task_has_predicate(&g->tasks[notifier]))
        return false;
    for (uint32_t i = 0; i < notifier && notifier > task; i++) {
        if (g->tasks[i].defer.is_on && bit_get(graph_ancestors(g, notifier), i))
            return false;
    }
    for (uint32_t i = task + 1; i <= notifier; i++) {
        for (uint32_t k = 0; k < g->tasks[i].access_count; k++) {
            if (g->tasks[i].accesses[k].is_streamed)
                return false;
        }
    }
    return true;
}

static void find_notifiers(struct check_graph *g)
{
    for (uint32_t i = 0; i < g->task_count; i++) {
        struct check_defer *d = &g->tasks[i].defer;

        d->notifier_count = 0;
        for (uint32_t k = 0; k < CHECK_NOTIFIERS_MAX && d->is_on; k++) {
            if (d->wished[k] >= 0 && can_notify(g, (uint32_t)d->wished[k], i))
                d->notifiers[d->notifier_count++] = (uint32_t)d->wished[k];
        }
    }
}

static void race_close(struct check_graph *g, uint32_t index)
{
    uint64_t *row = g->ancestors + (size_t)index * g->words;

    for (uint32_t a = 0; a < index; a++) {
        if (!bit_get(graph_before(g, index), a))
            continue;
        bit_set(row, a);
        for (uint32_t w = 0; w < g->words; w++)
            row[w] |= graph_ancestors(g, a)[w];
    }
}

/* From the latest on, so that one dependency serves for all that come before it. */
static void race_add_deps(struct race *r, uint32_t index)
{
    struct check_graph *g = r->g;
    struct check_task *task = &g->tasks[index];

    for (uint32_t a = index; a-- > 0;) {
        if (!bit_get(r->needed, a) || bit_get(graph_ancestors(g, index), a))
            continue;
        if (g->deps == PTO_DEPS_SAFE && bit_get(r->plain, a) && g->unsound[0] < 0) {
            g->unsound[0] = (int32_t)a;
            g->unsound[1] = (int32_t)index;
        }
        add_dep(task, a, task->has_kinds ? PTO_DEP_WAIT : CHECK_DEP_BOTH);
        bit_set(g->before + (size_t)index * g->words, a);
        race_close(g, index);
    }
}

static void add_dep(struct check_task *task, uint32_t on, uint8_t kind)
{
    task->deps = check_alloc(task->deps, task->dep_count + 1, sizeof(*task->deps));
    task->deps[task->dep_count++] = (struct check_dep){ on, kind, true };
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

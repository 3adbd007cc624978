/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Analyses a graph byte by byte: which tasks must be ordered, which of them the ordering rules
 * alone must order, and which notifications and accesses of the orchestration are possible.
 */
#include "tool/check/check_model.h"

#include <assert.h>
#include <stdlib.h>

enum { NO_READER = -1 };

/* State of one byte: the tasks that accessed it last, in submission order. */
struct byte_state {
    int32_t writer; /* last task that wrote the byte; -1: none */
    /*
     * Tasks that have read the byte since that last write: index of the first struct reader of a
     * list, or NO_READER.
     */
    int32_t readers;
    bool is_set; /* the byte has contents: it was initialised, or some task certainly wrote it */
    /* the argument that wrote the byte did not opt out, so the ordering rules apply to it */
    bool is_plain;
};

struct reader {
    uint32_t task;
    int32_t next;
    bool is_plain;
};

struct race {
    struct check_graph *g;
    struct byte_state **bytes; /* states of the bytes of the arena, then of each output */
    uint32_t *first_output;    /* for each task: index of its first output in `bytes` */
    uint32_t space_count;
    struct reader *readers;
    uint32_t reader_count;
    uint32_t reader_max;
    uint64_t *needed; /* tasks that must precede the current task, as a set */
    /* those of `needed` that the ordering rules must order without explicit dependencies */
    uint64_t *plain;
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
    check_find_groups(g);
}

static void rename_element(struct check_element *e)
{
    if (e->creator >= 0)
        e->region.addr = check_output_addr((uint32_t)e->creator, e->output);
}

/*
 * Starts the analysis of a graph. Resets what depends on task indices: addresses of outputs, and
 * dependencies that an earlier analysis added.
 */
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

/*
 * Returns the states of the bytes of an argument's storage, which are allocated when they are used
 * first.
 */
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
 * Finds the tasks that conflict with a task, and decides which arguments its kernel reads. In
 * graphs whose results are not compared, kernels access no bytes.
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
        struct check_arg operand = check_predicate_operand(&task->predicate);

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

/*
 * Records a write to the bytes of an argument. `writer` is -1 for an initial value. is_sure is
 * false if a predicate decides whether the task writes.
 */
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

/*
 * Records the accesses of a task in the order in which its kernel makes them: all reads, then all
 * writes.
 */
static void race_apply(struct race *r, uint32_t index)
{
    const struct check_task *task = &r->g->tasks[index];
    bool has_effect = check_task_has_kernel(task) && r->g->is_compared;

    for (uint32_t k = 0; k < task->arg_count; k++) {
        if (task->args[k].reads)
            race_read(r, index, &task->args[k]);
    }
    if (check_task_has_predicate(task)) {
        struct check_arg operand = check_predicate_operand(&task->predicate);

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

/*
 * Removes a predicate whose element has no contents. With PTO_DEPS_SIMPLER, adds a dependency that
 * keeps the memory of the element alive.
 */
static void race_predicate(struct race *r, struct check_task *task)
{
    struct check_predicate *p = &task->predicate;
    struct check_arg operand = check_predicate_operand(p);

    p->is_used = p->op != PTO_PREDICATE_NONE && !p->is_null && race_is_set(r, &operand);
    if (!p->is_used || r->g->deps == PTO_DEPS_SAFE || operand.creator < 0)
        return;
    for (uint32_t k = 0; k < task->arg_count; k++) {
        if (task->args[k].creator == operand.creator)
            return;
    }
    add_dep(task, (uint32_t)operand.creator, task->has_kinds ? PTO_DEP_RETAIN : CHECK_DEP_BOTH);
}

/* ---- accesses of the orchestration ---- */

/*
 * Whether an access of the orchestration waits for the task, which is one of "the tasks submitted
 * so far that write it" or, if the access writes, one of "also the readers".
 */
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

/*
 * Decides whether an access of the orchestration is made: only if the tasks that the runtime makes
 * it wait for include all tasks that conflict with it. Later tasks need not be ordered after the
 * access, so the states of bytes do not change.
 */
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
 * Whether task `notifier` can run before `task` completes. An earlier task can. A later task can if
 * none of its predecessors is deferred, and if the orchestration waits for nothing between the two
 * submits.
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
            if (d->candidates[k] >= 0 && can_notify(g, (uint32_t)d->candidates[k], i))
                d->notifiers[d->notifier_count++] = (uint32_t)d->candidates[k];
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

/*
 * Adds the dependencies that the ordering rules do not imply. Begins with the latest predecessor,
 * because no dependency on that one's own predecessors is needed then.
 */
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

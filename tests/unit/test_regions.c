/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The region index, compared with a plain list that keeps every record in an array and compares
 * each pair by overlap_*. Both get the same random accesses; the edges of each task must be the
 * same set. Each case is a pattern of regions and runs with both sets of rules, with tasks that
 * never complete, with tasks that complete at random, and in order; with completions, edges to live
 * tasks must be equal.
 *
 * The addresses are not backed by memory.
 */
#include "tests/fixture/port_test.h"

enum { REGION_ARGS_MAX = 3, REGION_TASKS_MAX = 1 << 14 };

#define BUFFER 0x100000000ull
#define SHAPE(...) ((const uint32_t[]){ __VA_ARGS__ })

/* ---- the list ---- */

struct list_record {
    struct geom geom;
    uint32_t task;
    bool is_write;
    bool is_superseded;
    uint32_t floor; /* for a reader: the first task from which writers of other regions count */
};

struct record_list {
    struct list_record *record;
    uint32_t count;
    uint32_t max;
    uint32_t *waits;       /* by task: the latest task that waits for it */
    uint32_t ordered_from; /* no task with this index or a later one is in a MANUAL scope */
};

static struct list_record *list_add(struct record_list *list)
{
    if (list->count == list->max) {
        list->max = list->max == 0 ? 1024 : 2 * list->max;
        list->record = realloc(list->record, list->max * sizeof(list->record[0]));
        assert_true(list->record != NULL);
    }
    return &list->record[list->count++];
}

/* The latest writer of exactly this region; earlier records do not count. */
static uint32_t list_since(const struct record_list *list, const struct geom *geom)
{
    uint32_t since = 0;

    for (uint32_t i = 0; i < list->count; i++) {
        const struct list_record *e = &list->record[i];

        if (e->is_write && e->task >= list->ordered_from && e->task > since &&
            overlap_safe(geom, &e->geom) == OVERLAP_COVERS && geom_equal(geom, &e->geom))
            since = e->task;
    }
    return since;
}

/*
 * Whether some task wrote since the latest reader of exactly this region. Then the new reader
 * stands for all earlier ones; otherwise it has the same floor as that reader.
 */
static bool list_renew(const struct record_list *list, const struct geom *geom, uint32_t task,
                       uint32_t *since, uint32_t *floor)
{
    uint32_t reader = UINT32_MAX;
    bool is_renewed = false;

    for (uint32_t i = 0; i < list->count; i++) {
        const struct list_record *e = &list->record[i];

        if (!e->is_write && e->task >= list->ordered_from &&
            (reader == UINT32_MAX || e->task > reader) &&
            overlap_safe(geom, &e->geom) == OVERLAP_COVERS && geom_equal(geom, &e->geom)) {
            reader = e->task;
            *floor = e->floor;
        }
    }
    for (uint32_t i = 0; i < list->count && reader != UINT32_MAX; i++) {
        const struct list_record *e = &list->record[i];

        is_renewed = is_renewed || (e->is_write && e->task > reader &&
                                    overlap_safe(geom, &e->geom) != OVERLAP_NONE);
    }
    if (is_renewed)
        *floor = reader + 1;
    if (*floor > *since)
        *since = *floor;
    if (reader == task)
        *since = task + 1;
    return is_renewed;
}

/* docs/user/ordering.md, deps=safe, for one argument. */
static void list_access_safe(struct record_list *list, const struct pto_tensor *t, uint32_t tag,
                             bool is_manual, uint32_t task)
{
    bool is_write = tag != PTO_TAG_INPUT;
    uint32_t kept = 0, since, own_since, floor = 0;
    bool is_renewed;
    struct geom geom;

    geom_init_safe(&geom, t);
    if (tag == PTO_TAG_NO_DEP || t->manual_dep || geom.lo == geom.hi)
        return;
    since = own_since = list_since(list, &geom);
    is_renewed = !is_write && !is_manual && list_renew(list, &geom, task, &since, &floor);
    for (uint32_t i = 0; i < list->count && !is_manual; i++) {
        struct list_record *e = &list->record[i];
        enum overlap o = overlap_safe(&geom, &e->geom);
        bool is_own = o == OVERLAP_COVERS && geom_equal(&geom, &e->geom);

        if (o != OVERLAP_NONE && (is_write ? !e->is_superseded : e->is_write) &&
            e->task >= (is_own ? own_since : since))
            list->waits[e->task] = task;
        if (!is_write && e->is_write && is_own)
            e->is_superseded = true;
        if (is_write && o == OVERLAP_COVERS)
            continue;
        if (is_renewed && !e->is_write && is_own)
            continue;
        if (kept != i)
            list->record[kept] = *e;
        kept++;
    }
    if (!is_manual)
        list->count = kept;
    *list_add(list) = (struct list_record){ geom, task, is_write, false, floor };
}

/* The same for deps=simpler. */
static void list_access_simpler(struct record_list *list, const struct pto_tensor *t, uint32_t tag,
                                bool is_manual, uint32_t task)
{
    uint32_t kept = 0;
    struct geom geom;

    geom_init_simpler(&geom, t);
    if (is_manual || t->manual_dep || tag == PTO_TAG_NO_DEP || geom.lo == geom.hi)
        return;
    for (uint32_t i = 0; i < list->count && tag != PTO_TAG_OUTPUT_EXISTING; i++) {
        struct list_record *e = &list->record[i];
        enum overlap o = overlap_simpler(&geom, &e->geom);

        if (o != OVERLAP_NONE)
            list->waits[e->task] = task;
        if (tag == PTO_TAG_INOUT && o == OVERLAP_COVERS)
            continue;
        if (kept != i)
            list->record[kept] = *e;
        kept++;
    }
    if (tag != PTO_TAG_OUTPUT_EXISTING)
        list->count = kept;
    if (tag != PTO_TAG_INPUT)
        *list_add(list) = (struct list_record){ geom, task, true, false, 0 };
}

/* ---- the comparison ---- */

enum completion { COMPLETE_NEVER, COMPLETE_AT_RANDOM, COMPLETE_IN_ORDER };

typedef struct pto_tensor (*pattern_fn)(struct rng *r, uint32_t step);

struct pattern {
    const char *name;
    pattern_fn region; /* region of access number `step` */
    uint32_t tasks;
    uint32_t args_max;
    uint32_t write_percent;
    uint32_t manual_percent;
};

struct drive {
    struct rig *rig;
    struct record_list list;
    struct slot **ready; /* tasks that can complete */
    uint32_t ready_count;
    bool *is_gone;
    uint64_t edge_count;
};

static uint32_t random_tag(struct rng *r, uint32_t write_percent)
{
    if (rng_below(r, 100) >= write_percent)
        return rng_below(r, 40) == 0 ? PTO_TAG_NO_DEP : PTO_TAG_INPUT;
    return rng_below(r, 2) == 0 ? PTO_TAG_INOUT : PTO_TAG_OUTPUT_EXISTING;
}

/* Compares the edges found since index `edges` with those of the list. */
static void compare_edges(struct drive *x, const struct pattern *pattern, uint32_t task,
                          uint64_t edges)
{
    struct rig *rig = x->rig;
    uint32_t want = 0;
    const char *rules = rig->g.deps == PTO_DEPS_SAFE ? "safe" : "simpler";

    for (uint32_t i = 0; i < task; i++)
        want += x->list.waits[i] == task && !x->is_gone[i];
    for (uint64_t i = edges; i < rig->edge_count; i++) {
        struct rig_edge e = rig->edge[i % RIG_EDGES_MAX];

        if (e.after != task || e.before >= task || x->list.waits[e.before] != task ||
            x->is_gone[e.before])
            fail_msg("%s, %s: task %u waits for %u; the list does not", pattern->name, rules, task,
                     (uint32_t)e.before);
        x->list.waits[e.before] = UINT32_MAX; /* once */
        want--;
    }
    for (uint32_t i = 0; i < task && want != 0; i++)
        if (x->list.waits[i] == task && !x->is_gone[i])
            fail_msg("%s, %s: task %u does not wait for %u; the list does", pattern->name, rules,
                     task, i);
}

static void drive_task(struct drive *x, const struct pattern *pattern, struct rng *r, uint32_t task)
{
    struct graph *g = &x->rig->g;
    struct pto_tensor tensor[REGION_ARGS_MAX];
    struct pto_args args;
    struct pto_outputs out;
    struct slot *ready;
    uint64_t edges = x->rig->edge_count;
    bool is_manual = rng_below(r, 100) < pattern->manual_percent;

    pto_args_init(&args);
    for (uint32_t i = 0, n = 1 + rng_below(r, pattern->args_max); i < n; i++) {
        uint32_t tag = random_tag(r, pattern->write_percent);

        tensor[i] = pattern->region(r, task * pattern->args_max + i);
        tensor[i].manual_dep = rng_below(r, 50) == 0;
        pto_args_add(&args, &tensor[i], (enum pto_tag)tag);
        if (g->deps == PTO_DEPS_SAFE)
            list_access_safe(&x->list, &tensor[i], tag, is_manual, task);
        else
            list_access_simpler(&x->list, &tensor[i], tag, is_manual, task);
    }
    if (is_manual)
        x->list.ordered_from = task + 1;
    x->list.waits[task] = UINT32_MAX; /* never for itself */
    if (is_manual)
        assert_int_equal(graph_scope_begin(g, PTO_SCOPE_MANUAL, NULL), PTO_OK);
    assert_int_equal(graph_submit(g, &rig_aiv, &args, NULL, &out, &ready), PTO_OK);
    if (is_manual)
        assert_int_equal(graph_scope_end(g), PTO_OK);
    compare_edges(x, pattern, task, edges);
    if (ready != NULL)
        x->ready[x->ready_count++] = ready;
}

/* Returns the oldest live task, which is always ready, if there is no generator. */
static void complete_one(struct drive *x, struct rng *r)
{
    uint32_t at = r != NULL ? rng_below(r, x->ready_count) : 0;
    struct slot *s;

    for (uint32_t i = 0; i < x->ready_count && r == NULL; i++)
        if (x->ready[i]->seq < x->ready[at]->seq)
            at = i;
    s = x->ready[at];
    x->ready[at] = x->ready[--x->ready_count];
    x->is_gone[s->seq - 1] = true;
    x->ready_count += rig_complete_slot(x->rig, s, &x->ready[x->ready_count]);
}

/* Runs a case and returns the number of edges. */
static uint64_t drive_pattern(const struct pattern *pattern, enum pto_deps deps,
                              enum completion completion)
{
    struct rng r = { 17 + deps * 2 + completion };
    struct drive x = { .rig = rig_open(deps) };
    uint32_t tasks = pattern->tasks / TEST_SHARE;
    static const uint32_t backlogs[4] = { 300, 0, 1500, 40 }; /* tasks that stay alive */
    uint64_t edges;

    assert_true(tasks <= REGION_TASKS_MAX);
    x.list.waits = malloc(tasks * sizeof(uint32_t));
    x.ready = malloc(tasks * sizeof(x.ready[0]));
    x.is_gone = calloc(tasks, sizeof(bool));
    assert_true(x.list.waits != NULL && x.ready != NULL && x.is_gone != NULL);
    memset(x.list.waits, 0xff, tasks * sizeof(uint32_t));
    for (uint32_t task = 0; task < tasks; task++) {
        drive_task(&x, pattern, &r, task);
        while (completion != COMPLETE_NEVER && x.ready_count > 0 &&
               x.rig->g.live > backlogs[task * 8 / tasks % 4])
            complete_one(&x, completion == COMPLETE_AT_RANDOM ? &r : NULL);
        graph_catch_up(&x.rig->g);
    }
    edges = x.rig->edge_count;
    free(x.list.record);
    free(x.list.waits);
    free(x.ready);
    free(x.is_gone);
    rig_close(x.rig);
    return edges;
}

static void check_pattern(const struct pattern *pattern)
{
    uint64_t edges = 0;

    for (int c = COMPLETE_NEVER; c <= COMPLETE_IN_ORDER; c++) {
        edges += drive_pattern(pattern, PTO_DEPS_SAFE, (enum completion)c);
        edges += drive_pattern(pattern, PTO_DEPS_SIMPLER, (enum completion)c);
    }
    assert_true(edges > 0);
}

/* ---- patterns ---- */

static struct pto_tensor flat_buffer(uint32_t elements)
{
    return pto_tensor_external((void *)(uintptr_t)BUFFER, SHAPE(elements), 1, PTO_FLOAT32);
}

static struct pto_tensor square_buffer(uint32_t side)
{
    return pto_tensor_external((void *)(uintptr_t)BUFFER, SHAPE(side, side), 2, PTO_FLOAT32);
}

static struct pto_tensor cut(const struct pto_tensor *t, uint32_t row, uint32_t column,
                             uint32_t rows, uint32_t columns)
{
    struct pto_tensor v = pto_tensor_view(t, SHAPE(rows, columns), SHAPE(row, column));

    assert_int_equal(v.fault, PTO_VIEW_OK);
    return v;
}

static struct pto_tensor aligned_tile(struct rng *r, uint32_t step)
{
    struct pto_tensor t = flat_buffer(2048 * 64);

    (void)step;
    return pto_tensor_view(&t, SHAPE(64), SHAPE(64 * rng_below(r, 2048)));
}

static struct pto_tensor unaligned_stretch(struct rng *r, uint32_t step)
{
    struct pto_tensor t = flat_buffer(1 << 18);
    uint32_t at = rng_below(r, (1 << 18) - 200);

    (void)step;
    return pto_tensor_view(&t, SHAPE(1 + rng_below(r, 200)), SHAPE(at));
}

/* A box of the given size, at a random multiple of `grain`. */
static struct pto_tensor random_cut(struct rng *r, const struct pto_tensor *t, uint32_t rows,
                                    uint32_t columns, const uint32_t grain[2])
{
    uint32_t row = grain[0] * rng_below(r, (t->shapes[0] - rows) / grain[0] + 1);
    uint32_t column = grain[1] * rng_below(r, (t->shapes[1] - columns) / grain[1] + 1);

    return cut(t, row, column, rows, columns);
}

static struct pto_tensor square_tile(struct rng *r, uint32_t step)
{
    struct pto_tensor t = square_buffer(1024);

    (void)step;
    return random_cut(r, &t, 32, 32, SHAPE(32, 32));
}

static struct pto_tensor shifted_tile(struct rng *r, uint32_t step)
{
    struct pto_tensor t = square_buffer(1024);

    (void)step;
    return random_cut(r, &t, 24, 24, SHAPE(1, 1));
}

/* Every second column: boxes of one frame that differ in `rest`. */
static struct pto_tensor comb_tile(struct rng *r, uint32_t step)
{
    struct pto_tensor t = square_buffer(512);
    uint32_t parity = rng_below(r, 2), size = 12 + 4 * rng_below(r, 2);

    (void)step;
    t = pto_tensor_slice(&t, 1, parity, 512, 2);
    return random_cut(r, &t, size, 16, SHAPE(16, 16));
}

/* Tiles of two heights in one grid of cells. */
static struct pto_tensor ragged_tile(struct rng *r, uint32_t step)
{
    struct pto_tensor t = square_buffer(256);

    (void)step;
    return random_cut(r, &t, 12 + 4 * rng_below(r, 2), 16, SHAPE(16, 16));
}

/* Tiles inside of tiles, sometimes of another size. */
static struct pto_tensor nested_tile(struct rng *r, uint32_t step)
{
    struct pto_tensor t = square_buffer(256);
    uint32_t size = 8u << step / 16 % 3;

    return random_cut(r, &t, size, size, SHAPE(size, size));
}

/* All of one length, at distances of an eighth of it. */
static struct pto_tensor sliding_stretch(struct rng *r, uint32_t step)
{
    struct pto_tensor t = flat_buffer(1 << 16);

    (void)step;
    return pto_tensor_view(&t, SHAPE(64), SHAPE(8 * rng_below(r, 8000)));
}

/* Regions one after the other; some extend into the next one, some are read again. */
static struct pto_tensor advancing_stretch(struct rng *r, uint32_t step)
{
    struct pto_tensor t = flat_buffer(1 << 20);
    uint32_t at = 64 * (step + 4);

    if (rng_below(r, 16) == 0)
        at += 32;
    else if (rng_below(r, 3) == 0)
        at -= 64 * rng_below(r, 4);
    return pto_tensor_view(&t, SHAPE(64), SHAPE(at));
}

static struct pto_tensor cube_tile(struct rng *r, uint32_t step)
{
    struct pto_tensor t =
        pto_tensor_external((void *)(uintptr_t)BUFFER, SHAPE(64, 64, 64), 3, PTO_FLOAT16);
    uint32_t i = rng_below(r, 512);

    (void)step;
    return pto_tensor_view(&t, SHAPE(8, 8, 8), SHAPE(i / 64 * 8, i / 8 % 8 * 8, i % 8 * 8));
}

/* Tiles of many matrices: some adjacent, some at the same addresses. */
static struct pto_tensor tile_of_one_of_many(struct rng *r, uint32_t step)
{
    struct pto_tensor t = square_buffer(64);

    (void)step;
    t.addr += 4096 * rng_below(r, 64);
    return random_cut(r, &t, 16, 16, SHAPE(16, 16));
}

static struct pto_tensor tile_of_some_size(struct rng *r, uint32_t step)
{
    struct pto_tensor t = square_buffer(512);
    uint32_t rows = 1 + rng_below(r, 1u << rng_below(r, 7));
    uint32_t columns = 1 + rng_below(r, 1u << rng_below(r, 7));

    (void)step;
    return random_cut(r, &t, rows, columns, SHAPE(1, 1));
}

static struct pto_tensor row_or_column(struct rng *r, uint32_t step)
{
    struct pto_tensor t = square_buffer(512);
    uint32_t at = rng_below(r, 512);

    (void)step;
    return rng_below(r, 2) == 0 ? cut(&t, at, 0, 1, 512) : cut(&t, 0, at, 512, 1);
}

static struct pto_tensor tile_or_whole(struct rng *r, uint32_t step)
{
    struct pto_tensor t = square_buffer(1024);

    if (step % 300 == 299)
        return step % 600 == 299 ? t : pto_tensor_transpose(&t, 0, 1);
    return random_cut(r, &t, 32, 32, SHAPE(32, 32));
}

static struct pto_tensor one_of_many_buffers(struct rng *r, uint32_t step)
{
    uint64_t addr = BUFFER + 1000ull * rng_below(r, 2000);

    (void)step;
    return pto_tensor_external((void *)(uintptr_t)addr, SHAPE(5 + 5 * rng_below(r, 2), 25), 2,
                               PTO_FLOAT32);
}

static struct pto_tensor box_of_one_of_many_frames(struct rng *r, uint32_t step)
{
    uint32_t width = 16 + rng_below(r, 60), rows = 200000 / width;
    struct pto_tensor t = flat_buffer(200000);
    uint32_t columns = 1 + rng_below(r, width - 1);

    (void)step;
    t = pto_tensor_view(&t, SHAPE(rows * width), SHAPE(0));
    t = pto_tensor_reshape(&t, SHAPE(rows, width), 2);
    return random_cut(r, &t, 1 + rng_below(r, 3), columns, SHAPE(1, 1));
}

static struct pto_tensor box_of_one_of_many_classes(struct rng *r, uint32_t step)
{
    struct pto_tensor t = square_buffer(1024);
    uint32_t rows = 1u << rng_below(r, 6), columns = 1u << rng_below(r, 6);

    (void)step;
    return random_cut(r, &t, rows, columns, SHAPE(rows, columns));
}

/* Five dimensions with sides of all lengths; one row is dense. */
static struct pto_tensor box_of_five_dimensions(struct rng *r, uint32_t step)
{
    struct pto_tensor t =
        pto_tensor_external((void *)(uintptr_t)BUFFER, SHAPE(64, 12, 12, 12, 12), 5, PTO_FLOAT32);
    uint32_t shape[5], at[5];

    (void)step;
    for (uint32_t d = 0; d < 5; d++) {
        shape[d] = 1 + rng_below(r, 4) * rng_below(r, 2);
        at[d] = rng_below(r, t.shapes[d] - shape[d] + 1);
    }
    return pto_tensor_view(&t, shape, at);
}

/* Combs with hundreds of different strides in one buffer, and intervals between them. */
static struct pto_tensor comb_of_one_of_many_strides(struct rng *r, uint32_t step)
{
    struct pto_tensor t = flat_buffer(1 << 20);

    (void)step;
    t.start = rng_below(r, 1 << 19);
    t.shapes[0] = 1 + rng_below(r, 3);
    t.strides[0] = 2 + rng_below(r, 500);
    pto_tensor_update(&t);
    return t;
}

/* Small regions far apart, few of which overlap a read of the whole memory; then rows and tiles. */
static struct pto_tensor scattered_or_wide(struct rng *r, uint32_t step)
{
    struct pto_tensor t = flat_buffer(1 << 26), m = square_buffer(8192);

    if (step % 50 == 49)
        return pto_tensor_view(&t, SHAPE(1 << 22), SHAPE(4096 * rng_below(r, 8192)));
    if (step > 2000 && rng_below(r, 2) == 0)
        return random_cut(r, &m, 1 + rng_below(r, 5), 1 + rng_below(r, 40), SHAPE(1, 1));
    return pto_tensor_view(&t, SHAPE(1u << rng_below(r, 6)), SHAPE(1024 * rng_below(r, 30000)));
}

static struct pto_tensor next_tile(struct rng *r, uint32_t step)
{
    struct pto_tensor t = flat_buffer(1 << 18);

    if (step > 200 && rng_below(r, 4) == 0)
        step -= rng_below(r, 200); /* again */
    return pto_tensor_view(&t, SHAPE(16), SHAPE(16 * (step * 37 % 6007)));
}

static struct pto_tensor view_of_a_view(struct rng *r, uint32_t step)
{
    static const uint32_t shape[4][4] = {
        { 16, 16, 16, 16 }, { 64, 8, 16, 8 }, { 12, 10, 24, 6 }, { 256, 256, 1, 1 }
    };
    struct pto_tensor t =
        pto_tensor_external((void *)(uintptr_t)BUFFER, shape[rng_below(r, 4)], 4, PTO_FLOAT32);

    (void)step;
    t = random_box(r, &t);
    t = random_box(r, &t);
    return random_view(r, &t);
}

static struct pto_tensor view_of_a_neighbour(struct rng *r, uint32_t step)
{
    static const uint8_t types[4] = { PTO_FLOAT32, PTO_FLOAT16, PTO_INT8, PTO_INT64 };
    uint64_t addr = BUFFER + 67 * rng_below(r, 16);
    struct pto_tensor t =
        pto_tensor_external((void *)(uintptr_t)addr, SHAPE(16, 16), 2, types[rng_below(r, 4)]);

    (void)step;
    t = random_box(r, &t);
    return random_view(r, &t);
}

static struct pto_tensor view_with_a_version(struct rng *r, uint32_t step)
{
    struct pto_tensor t = square_tile(r, step);

    t.version = step > 300 && rng_below(r, 20) == 0 ? 1 + (int32_t)rng_below(r, 2) : 0;
    return t;
}

static struct pto_tensor sometimes_nothing(struct rng *r, uint32_t step)
{
    struct pto_tensor t = square_buffer(64);

    (void)step;
    if (rng_below(r, 3) == 0)
        return pto_tensor_view(&t, SHAPE(rng_below(r, 2) * 4, 0), SHAPE(9, 9));
    return random_cut(r, &t, 8, 8, SHAPE(8, 8));
}

/*
 * Tiles of adjacent matrices, all equal for a while; sometimes a region for which shortcuts would
 * be wrong: a tile off the grid, of another size or type, a view that is not a box, an interval
 * across two matrices.
 */
static struct pto_tensor tile_beside_others(struct rng *r, uint32_t step)
{
    struct pto_tensor t = square_buffer(128);
    uint32_t kind = step % 2000 < 900 ? 9 : rng_below(r, step % 2000 < 1800 ? 200 : 10);

    t.addr += 128 * 128 * 4 * rng_below(r, 3);
    if (kind == 0)
        return random_cut(r, &t, 16, 16, SHAPE(1, 1));
    if (kind == 1)
        return random_cut(r, &t, 9 + rng_below(r, 8), 9 + rng_below(r, 8), SHAPE(16, 16));
    if (kind == 2)
        return random_cut(r, &t, 32, 8, SHAPE(1, 1));
    if (kind == 3) { /* first element and extent are those of a tile, but its rows overlap */
        t = cut(&t, 16 * rng_below(r, 7), 16 * rng_below(r, 8), 16, 16);
        t.shapes[0] = 15;
        t.shapes[1] = 128 + 16;
        return t;
    }
    if (kind == 8) { /* the same with other strides */
        t = cut(&t, 16 * rng_below(r, 8), 16 * rng_below(r, 8), 16, 16);
        t.strides[0] = rng_below(r, 2) == 0 ? 65 : 127;
        t.strides[1] = 129 - t.strides[0];
        return t;
    }
    if (kind == 4) {
        t = square_buffer(256);
        return random_cut(r, &t, 1, 200, SHAPE(1, 1));
    }
    if (kind == 5) {
        t = pto_tensor_external((void *)(uintptr_t)t.addr, SHAPE(256, 128), 2, PTO_INT16);
        return random_cut(r, &t, 16, 16, SHAPE(16, 16));
    }
    if (kind == 6) {
        t = random_cut(r, &t, 16, 16, SHAPE(16, 16));
        return pto_tensor_transpose(&t, 0, 1);
    }
    if (kind == 7) {
        t = pto_tensor_slice(&t, 1, rng_below(r, 2), 128, 2);
        return random_cut(r, &t, 16, 16, SHAPE(16, 16));
    }
    return random_cut(r, &t, 16, 16, SHAPE(16, 16));
}

/* The same in three dimensions, with shapes that differ in the last one. */
static struct pto_tensor brick(struct rng *r, uint32_t step)
{
    struct pto_tensor t =
        pto_tensor_external((void *)(uintptr_t)BUFFER, SHAPE(32, 32, 32), 3, PTO_FLOAT32);
    uint32_t depth = step % 500 < 400 ? 8 : 5 + rng_below(r, 4);
    uint32_t i = rng_below(r, 64);

    if (step % 500 >= 480) { /* the last two dimensions are those of another frame */
        t = pto_tensor_external((void *)(uintptr_t)BUFFER, SHAPE(32, 64, 16), 3, PTO_FLOAT32);
        return pto_tensor_view(&t, SHAPE(8, 8, 8), SHAPE(i / 16 * 8, i / 4 % 4 * 8, i % 2 * 8));
    }
    return pto_tensor_view(&t, SHAPE(8, 8, depth), SHAPE(i / 16 * 8, i / 4 % 4 * 8, i % 4 * 8));
}

#define PATTERN_TEST(test, ...)                                       \
    static void test(void **state)                                    \
    {                                                                 \
        static const struct pattern pattern = { #test, __VA_ARGS__ }; \
                                                                      \
        (void)state;                                                  \
        check_pattern(&pattern);                                      \
    }

/*
 * Generator of regions, number of tasks, maximum number of arguments, percentage of writes,
 * percentage of tasks in MANUAL scopes.
 */
PATTERN_TEST(aligned_tiles_find_what_the_list_finds, aligned_tile, 4000, 2, 40, 0)
PATTERN_TEST(unaligned_stretches_find_what_the_list_finds, unaligned_stretch, 3000, 2, 40, 0)
PATTERN_TEST(square_tiles_find_what_the_list_finds, square_tile, 4000, 3, 40, 0)
PATTERN_TEST(shifted_tiles_find_what_the_list_finds, shifted_tile, 3000, 2, 40, 0)
PATTERN_TEST(combs_find_what_the_list_finds, comb_tile, 3000, 2, 40, 0)
PATTERN_TEST(cubes_find_what_the_list_finds, cube_tile, 3000, 2, 40, 0)
PATTERN_TEST(many_matrices_find_what_the_list_finds, tile_of_one_of_many, 3000, 2, 40, 0)
PATTERN_TEST(ragged_tiles_find_what_the_list_finds, ragged_tile, 3000, 2, 60, 0)
PATTERN_TEST(nested_tiles_find_what_the_list_finds, nested_tile, 3000, 2, 40, 0)
PATTERN_TEST(sliding_stretches_find_what_the_list_finds, sliding_stretch, 3000, 2, 40, 0)
PATTERN_TEST(advancing_stretches_find_what_the_list_finds, advancing_stretch, 12000, 1, 50, 0)
PATTERN_TEST(mixed_sizes_find_what_the_list_finds, tile_of_some_size, 2000, 2, 40, 0)
PATTERN_TEST(rows_against_columns_find_what_the_list_finds, row_or_column, 1500, 2, 40, 0)
PATTERN_TEST(wholes_against_tiles_find_what_the_list_finds, tile_or_whole, 4000, 2, 40, 0)
PATTERN_TEST(many_buffers_find_what_the_list_finds, one_of_many_buffers, 4000, 2, 40, 0)
PATTERN_TEST(many_frames_find_what_the_list_finds, box_of_one_of_many_frames, 3000, 2, 40, 0)
PATTERN_TEST(many_classes_find_what_the_list_finds, box_of_one_of_many_classes, 3000, 2, 40, 0)
PATTERN_TEST(views_of_views_find_what_the_list_finds, view_of_a_view, 2000, 2, 40, 0)
PATTERN_TEST(overlapping_buffers_find_what_the_list_finds, view_of_a_neighbour, 2000, 2, 30, 0)
PATTERN_TEST(versions_find_what_the_list_finds, view_with_a_version, 1500, 2, 40, 0)
PATTERN_TEST(empty_views_find_what_the_list_finds, sometimes_nothing, 3000, 2, 30, 0)
PATTERN_TEST(manual_tiles_find_what_the_list_finds, square_tile, 3000, 2, 40, 25)
PATTERN_TEST(manual_stretches_find_what_the_list_finds, unaligned_stretch, 3000, 2, 40, 25)
PATTERN_TEST(manual_mixed_sizes_find_what_the_list_finds, tile_of_some_size, 2000, 2, 40, 25)
PATTERN_TEST(many_readers_find_what_the_list_finds, sometimes_nothing, 3000, 3, 4, 10)
PATTERN_TEST(neighbours_find_what_the_list_finds, tile_beside_others, 6000, 3, 40, 0)
PATTERN_TEST(manual_neighbours_find_what_the_list_finds, tile_beside_others, 4000, 2, 50, 20)
PATTERN_TEST(bricks_find_what_the_list_finds, brick, 4000, 2, 40, 0)
PATTERN_TEST(five_dimensions_find_what_the_list_finds, box_of_five_dimensions, 3000, 2, 40, 0)
PATTERN_TEST(many_strides_find_what_the_list_finds, comb_of_one_of_many_strides, 3000, 2, 40, 10)
PATTERN_TEST(scattered_regions_find_what_the_list_finds, scattered_or_wide, 4000, 2, 40, 0)
PATTERN_TEST(a_growing_table_finds_what_the_list_finds, next_tile, 6000, 1, 60, 0)

/* ---- what the comparison does not say ---- */

static struct pto_task_id access_one(struct rig *rig, const struct pto_tensor *t, enum pto_tag tag)
{
    struct pto_args args;
    struct pto_outputs out;

    pto_args_init(&args);
    pto_args_add(&args, t, tag);
    rig_submit(rig, &args, &out);
    return out.task;
}

static void the_table_grows_while_its_records_live(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor t = flat_buffer(1 << 20), m = square_buffer(1024);
    uint32_t before = rig->g.regions.table_count;

    (void)state;
    for (uint32_t i = 0; i < 16384 / TEST_SHARE; i++) {
        struct pto_tensor v = i % 2 == 0 ? pto_tensor_view(&t, SHAPE(16), SHAPE(64 * i))
                                         : cut(&m, i / 128 * 4, 512 + i % 128 * 4, 4, 4);

        v.addr += i % 2 * (8 << 20);
        access_one(rig, &v, PTO_TAG_INOUT);
    }
    assert_int_equal(rig->edge_count, 0);
    assert_true(rig->g.regions.table_count > before);
    rig_close(rig);
}

/* The total time shows whether each of these is compared only with its own record. */
static void access_all_twice(enum pto_deps deps, bool is_square)
{
    enum { ROW = 250 };
    const uint32_t tiles = 100000 / TEST_SHARE / ROW * ROW;
    struct rig *rig = rig_open(deps);
    struct pto_tensor t = is_square
                              ? pto_tensor_external((void *)(uintptr_t)BUFFER,
                                                    SHAPE(tiles / ROW * 8, ROW * 8), 2, PTO_FLOAT32)
                              : flat_buffer(tiles * 64);

    for (uint32_t round = 0; round < 2; round++)
        for (uint32_t i = 0; i < tiles; i++) {
            struct pto_tensor v = is_square ? cut(&t, i / ROW * 8, i % ROW * 8, 8, 8)
                                            : pto_tensor_view(&t, SHAPE(64), SHAPE(64 * i));
            struct rig_edge e;

            access_one(rig, &v, PTO_TAG_INOUT);
            if (round == 0) {
                assert_int_equal(rig->edge_count, 0);
                continue;
            }
            assert_int_equal(rig->edge_count, i + 1);
            e = rig->edge[i];
            assert_true(e.before == i && e.after == tiles + i);
        }
    rig_close(rig);
}

static void a_hundred_thousand_live_tiles_are_found_at_once(void **state)
{
    (void)state;
    access_all_twice(PTO_DEPS_SAFE, false);
    access_all_twice(PTO_DEPS_SAFE, true);
    access_all_twice(PTO_DEPS_SIMPLER, false);
    access_all_twice(PTO_DEPS_SIMPLER, true);
}

static void a_record_of_gone_tasks_makes_no_edge(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor t = flat_buffer(64), half = pto_tensor_view(&t, SHAPE(32), SHAPE(16));
    struct pto_task_id a = access_one(rig, &t, PTO_TAG_INOUT);
    struct pto_task_id keep;
    struct pto_tensor other = t;

    (void)state;
    other.addr += 4096;
    keep = access_one(rig, &other, PTO_TAG_INOUT); /* so that some of them are still alive */
    rig_complete(rig, a);
    access_one(rig, &half, PTO_TAG_INOUT);
    assert_int_equal(rig->edge_count, 0);
    access_one(rig, &t, PTO_TAG_INPUT);
    assert_int_equal(rig->edge_count, 1);
    rig_complete(rig, keep);
    rig_close(rig);
}

static void a_reader_stands_for_the_writers_before_it(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor t = flat_buffer(64), half = pto_tensor_view(&t, SHAPE(32), SHAPE(16));

    (void)state;
    access_one(rig, &t, PTO_TAG_INOUT);
    access_one(rig, &t, PTO_TAG_INPUT);
    access_one(rig, &half, PTO_TAG_INOUT); /* after the reader only */
    assert_int_equal(rig->edge_count, 2);
    assert_true(rig->edge[1].before == 1 && rig->edge[1].after == 2);
    access_one(rig, &t, PTO_TAG_INPUT); /* after both writers */
    assert_int_equal(rig->edge_count, 4);
    rig_close(rig);
}

static bool edge_is(const struct rig *rig, uint64_t index, uint64_t before, uint64_t after)
{
    return rig->edge[index].before == before && rig->edge[index].after == after;
}

/* A dead record that still exists must not hide what was recorded next to it since. */
static void a_region_comes_back_after_its_neighbour(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor t = flat_buffer(256), m = square_buffer(64);
    struct pto_tensor region[3][2];

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        region[0][i] = pto_tensor_view(&t, SHAPE(64), SHAPE(i == 0 ? 96 : 56));
        region[1][i] = pto_tensor_view(&t, SHAPE(64), SHAPE(i == 0 ? 56 : 96));
        region[2][i] = cut(&m, i == 0 ? 16 : 8, i == 0 ? 16 : 8, 16, 16);
    }
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(rig_start(rig, PTO_DEPS_SAFE, false), PTO_OK);
        rig_complete(rig, access_one(rig, &region[i][0], PTO_TAG_INOUT));
        access_one(rig, &region[i][1], PTO_TAG_INOUT);
        assert_int_equal(rig->edge_count, 0);
        access_one(rig, &region[i][0], PTO_TAG_INOUT);
        assert_int_equal(rig->edge_count, 1);
        assert_true(edge_is(rig, 0, 1, 2));
    }
    rig_close(rig);
}

static void the_first_tile_off_the_grid_finds_its_neighbours(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor m = square_buffer(64);
    struct pto_tensor a = cut(&m, 16, 16, 16, 16), b = cut(&m, 32, 32, 16, 16);
    struct pto_tensor c = cut(&m, 8, 8, 16, 16), d = cut(&m, 0, 0, 16, 16);

    (void)state;
    access_one(rig, &a, PTO_TAG_INOUT);
    access_one(rig, &b, PTO_TAG_INOUT);
    /* its own cell is empty, but it extends into the cell of a */
    access_one(rig, &c, PTO_TAG_INOUT);
    assert_int_equal(rig->edge_count, 1);
    assert_true(edge_is(rig, 0, 0, 2));
    access_one(rig, &d, PTO_TAG_INOUT);
    assert_int_equal(rig->edge_count, 2);
    assert_true(edge_is(rig, 1, 2, 3));
    rig_close(rig);
}

/*
 * A frame distinguishes seven classes of boxes; other boxes must be found when one of the classes
 * becomes free.
 */
static void a_box_without_a_class_is_found_again(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor m = square_buffer(1024), part = cut(&m, 0, 0, 1000, 1000), box[9];
    struct pto_task_id id[9];

    (void)state;
    for (uint32_t i = 0; i < 9; i++) {
        box[i] = cut(&m, 1u << i, 0, 1u << i, 3);
        id[i] = access_one(rig, &box[i], PTO_TAG_INOUT);
    }
    assert_int_equal(rig->edge_count, 0);
    for (uint32_t i = 0; i < 7; i++)
        rig_complete(rig, id[i]);
    access_one(rig, &part, PTO_TAG_INPUT); /* overlaps all of them and removes the dead ones */
    assert_int_equal(rig->edge_count, 2);
    access_one(rig, &box[8], PTO_TAG_INPUT);
    assert_int_equal(rig->edge_count, 3);
    assert_true(edge_is(rig, 2, 8, 10));
    access_one(rig, &box[8], PTO_TAG_INOUT); /* after both readers, not after their writer */
    assert_int_equal(rig->edge_count, 5);
    assert_true(rig->edge[3].before >= 9 && rig->edge[4].before >= 9);
    rig_close(rig);
}

static void a_new_run_remembers_nothing(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct rng r = { 5 };

    (void)state;
    for (uint32_t run = 0; run < 4; run++) {
        enum pto_deps deps = run % 2 == 0 ? PTO_DEPS_SIMPLER : PTO_DEPS_SAFE;
        struct pto_tensor t = square_buffer(1024);

        for (uint32_t i = 0; i < 2000 / TEST_SHARE; i++) {
            struct pto_tensor v = box_of_one_of_many_classes(&r, i);

            access_one(rig, &v, PTO_TAG_INOUT);
        }
        assert_int_equal(rig_start(rig, deps, false), PTO_OK);
        access_one(rig, &t, PTO_TAG_INOUT);
        assert_int_equal(rig->edge_count, 0);
    }
    rig_close(rig);
}

/* Boxes with three dimensions whose first two, and whose extent, are equal. */
static void a_box_is_known_by_all_its_dimensions(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor m =
        pto_tensor_external((void *)(uintptr_t)BUFFER, SHAPE(32, 32, 32), 3, PTO_FLOAT32);
    struct pto_tensor dense = pto_tensor_view(&m, SHAPE(4, 4, 9), SHAPE(0, 0, 0));
    struct pto_tensor comb = pto_tensor_slice(&dense, 2, 0, 9, 2);
    struct pto_tensor between = pto_tensor_slice(&dense, 2, 1, 9, 2);

    (void)state;
    assert_int_equal(dense.extent, comb.extent);
    access_one(rig, &dense, PTO_TAG_INOUT);
    access_one(rig, &comb, PTO_TAG_INPUT);
    assert_int_equal(rig->edge_count, 1);
    assert_int_equal(rig_start(rig, PTO_DEPS_SAFE, false), PTO_OK);
    rig_complete(rig, access_one(rig, &comb, PTO_TAG_INOUT));
    access_one(rig, &dense, PTO_TAG_INOUT);
    access_one(rig, &between, PTO_TAG_INPUT); /* the comb does not have it */
    assert_int_equal(rig->edge_count, 1);
    rig_close(rig);
}

/* Tiles at the same place of two matrices, which share an entry in the table of known boxes. */
static void a_box_is_known_by_its_buffer(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor m = square_buffer(64);
    struct pto_tensor a = cut(&m, 16, 16, 16, 16), b = a;

    (void)state;
    do
        b.addr += 64 * 64 * 4;
    while (region_known_place(&a) != region_known_place(&b));
    access_one(rig, &a, PTO_TAG_INOUT);
    access_one(rig, &b, PTO_TAG_INOUT);
    assert_int_equal(rig->edge_count, 0);
    access_one(rig, &a, PTO_TAG_INOUT);
    assert_int_equal(rig->edge_count, 1);
    assert_true(edge_is(rig, 0, 0, 2));
    rig_close(rig);
}

static uint32_t bucket_of(const struct rig *rig, const struct pto_tensor *t)
{
    uint32_t level = region_level(t->size);

    return region_bucket(&rig->g.regions, 0, level, t->addr >> level);
}

/* Buffers that share only a bucket of the table, of equal size and of two sizes. */
static void regions_of_one_bucket_are_apart(void **state)
{
    (void)state;
    for (int deps = 0; deps < PTO_DEPS_COUNT; deps++)
        for (uint32_t length = 64; length <= 128; length *= 2) {
            struct rig *rig = rig_open((enum pto_deps)deps);
            struct pto_tensor a = flat_buffer(64), b = flat_buffer(length);

            do
                b.addr += length * 4;
            while (bucket_of(rig, &a) != bucket_of(rig, &b));
            access_one(rig, &a, PTO_TAG_INOUT);
            access_one(rig, &b, PTO_TAG_INOUT);
            assert_int_equal(rig->edge_count, 0);
            /* each is found after the other one in the bucket */
            access_one(rig, &a, PTO_TAG_INOUT);
            access_one(rig, &b, PTO_TAG_INOUT);
            assert_int_equal(rig->edge_count, 2);
            assert_true(edge_is(rig, 0, 0, 2) && edge_is(rig, 1, 1, 3));
            rig_close(rig);
        }
}

static void a_new_run_knows_no_boxes(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor m = square_buffer(64), a = cut(&m, 16, 16, 16, 16);

    (void)state;
    access_one(rig, &a, PTO_TAG_INOUT);
    assert_int_equal(rig_start(rig, PTO_DEPS_SAFE, false), PTO_OK);
    access_one(rig, &a, PTO_TAG_INOUT);
    access_one(rig, &m, PTO_TAG_INOUT);
    assert_int_equal(rig->edge_count, 1);
    rig_close(rig);
}

/* Boxes that are compared only in their own cells: this is right only if their frame is alone. */
static void a_frame_is_not_alone(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor m = square_buffer(64);
    struct pto_tensor far = cut(&m, 0, 0, 16, 16), near = cut(&m, 32, 16, 16, 16);
    struct pto_tensor half = cut(&m, 32, 0, 32, 64), before = flat_buffer(1024);
    struct pto_tensor top = cut(&m, 0, 16, 16, 16), low = cut(&m, 48, 48, 16, 16);

    (void)state;
    assert_true(half.is_contiguous);
    rig_complete(rig, access_one(rig, &half, PTO_TAG_INOUT));
    access_one(rig, &far, PTO_TAG_INOUT);
    access_one(rig, &near, PTO_TAG_INOUT);
    access_one(rig, &half, PTO_TAG_INOUT); /* its record had gone, but was there */
    assert_int_equal(rig->edge_count, 1);
    assert_true(edge_is(rig, 0, 2, 3));
    access_one(rig, &low, PTO_TAG_INPUT);
    assert_int_equal(rig->edge_count, 2);
    assert_true(edge_is(rig, 1, 3, 4));
    assert_int_equal(rig_start(rig, PTO_DEPS_SAFE, false), PTO_OK);
    before.addr -= 2048; /* extends from the cell before into the first rows */
    access_one(rig, &before, PTO_TAG_INOUT);
    access_one(rig, &low, PTO_TAG_INOUT);
    access_one(rig, &top, PTO_TAG_INOUT);
    assert_int_equal(rig->edge_count, 1);
    assert_true(edge_is(rig, 0, 0, 2));
    rig_close(rig);
}

/*
 * `gone` is a dead record that `next` would reuse if it were a tile of the grid in the same cell;
 * `living` is next to that record, and `next` overlaps it.
 */
static void expect_no_takeover(struct rig *rig, const struct pto_tensor *gone,
                               const struct pto_tensor *living, const struct pto_tensor *next)
{
    struct pto_task_id id;

    assert_int_equal(rig_start(rig, PTO_DEPS_SAFE, false), PTO_OK);
    id = access_one(rig, gone, PTO_TAG_INOUT);
    access_one(rig, living, PTO_TAG_INOUT);
    rig_complete(rig, id);
    graph_catch_up(&rig->g);
    assert_int_equal(rig->edge_count, 0);
    access_one(rig, next, PTO_TAG_INOUT);
    assert_int_equal(rig->edge_count, 1);
    assert_true(edge_is(rig, 0, 1, 2));
}

static void a_record_is_not_taken_over_by_what_leaves_its_cell(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor m = square_buffer(64), gone = cut(&m, 16, 16, 16, 16);
    struct pto_tensor below = cut(&m, 32, 16, 16, 16), down = cut(&m, 24, 16, 16, 16);
    struct pto_tensor beside = cut(&m, 16, 32, 16, 16), right = cut(&m, 16, 24, 16, 16);
    struct pto_tensor narrow = square_buffer(44), last = cut(&narrow, 0, 32, 16, 12);
    struct pto_tensor first = cut(&narrow, 0, 0, 16, 12), wrapped = last;

    (void)state;
    expect_no_takeover(rig, &gone, &below, &down);
    expect_no_takeover(rig, &gone, &beside, &right);
    wrapped.start += 4; /* the last elements of each row are the first of the next */
    expect_no_takeover(rig, &last, &first, &wrapped);
    rig_close(rig);
}

/* The record of a tile of one matrix is dead; a tile of the other matrix would use its bucket. */
static void a_record_is_not_taken_over_by_another_frame(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct regions *x = &rig->g.regions;
    struct pto_tensor m = square_buffer(2048), other = m, corner, tile, gone, shifted;
    const struct region_frame *f;
    struct pto_task_id id;
    uint32_t i = 0;

    (void)state;
    gone = cut(&m, 0, 0, 16, 16);
    for (int shares_cache = 0; shares_cache < 2; shares_cache++) {
        assert_int_equal(rig_start(rig, PTO_DEPS_SAFE, false), PTO_OK);
        do
            other.addr += m.size;
        while ((region_frame_cache(x, m.addr, 2048) == region_frame_cache(x, other.addr, 2048)) !=
               shares_cache);
        corner = cut(&other, 2032, 2032, 16, 16);
        id = access_one(rig, &gone, PTO_TAG_INOUT);
        if (shares_cache == 0) {
            access_one(rig, &corner, PTO_TAG_INOUT);
            f = &x->frame[*region_frame_cache(x, other.addr, 2048)];
            while (x->table[region_box_bucket(x, &f->class_of[f->class],
                                              SHAPE(1 + i / 100, 1 + i % 100), 2, 0)]
                       .start != m.addr)
                i++;
        }
        tile = cut(&other, 16 + i / 100 * 16, 16 + i % 100 * 16, 16, 16);
        shifted = cut(&other, 8 + i / 100 * 16, 8 + i % 100 * 16, 16, 16);
        rig_complete(rig, id);
        graph_catch_up(&rig->g);
        if (shares_cache != 0) {
            tile = cut(&other, 0, 0, 16, 16);
            shifted = cut(&other, 8, 8, 16, 16);
        }
        access_one(rig, &tile, PTO_TAG_INOUT);
        access_one(rig, &shifted, PTO_TAG_INOUT);
        assert_int_equal(rig->edge_count, 1);
    }
    rig_close(rig);
}

/* The tile that reuses a record is found at its own place, not at the former one. */
static void a_record_that_is_taken_over_is_that_of_the_new_tile(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct regions *x = &rig->g.regions;
    struct pto_tensor m = square_buffer(2048), gone = cut(&m, 0, 0, 16, 16), tile, shifted;
    struct pto_task_id id = access_one(rig, &gone, PTO_TAG_INOUT);
    const struct region_frame *f = &x->frame[*region_frame_cache(x, m.addr, 2048)];
    uint32_t i = 0;

    (void)state;
    while (x->table[region_box_bucket(x, &f->class_of[f->class], SHAPE(1 + i / 100, 1 + i % 100), 2,
                                      0)]
               .start != m.addr)
        i++;
    tile = cut(&m, 16 + i / 100 * 16, 16 + i % 100 * 16, 16, 16);
    shifted = cut(&m, 8 + i / 100 * 16, 8 + i % 100 * 16, 16, 16);
    rig_complete(rig, id);
    graph_catch_up(&rig->g);
    access_one(rig, &tile, PTO_TAG_INOUT);
    assert_int_equal(f->population, 1);
    access_one(rig, &shifted, PTO_TAG_INOUT);
    assert_int_equal(rig->edge_count, 1);
    rig_close(rig);
}

/*
 * Tiles are written, then all of them are read, repeatedly: the number of live tasks grows, the
 * number of edges per task does not.
 */
static void a_tile_waits_for_the_latest_reader_of_the_whole(void **state)
{
    enum { TILES = 4, ROUNDS = 100 };
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor whole = flat_buffer(TILES * 64), tile;

    (void)state;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < TILES; i++) {
            tile = pto_tensor_view(&whole, SHAPE(64), SHAPE(64 * i));
            access_one(rig, &tile, PTO_TAG_INOUT);
        }
        access_one(rig, &whole, PTO_TAG_INPUT);
    }
    /* Edges from a tile's writer and reader before it; and from all tiles before a reader. */
    assert_int_equal(rig->edge_count, 2 * TILES * (ROUNDS - 1) + TILES * ROUNDS);
    rig_close(rig);
}

/* A writer in a MANUAL scope did not wait for the reader, so it does not stand for that reader. */
static void a_manual_writer_stands_for_nobody(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor whole = flat_buffer(256), tile = pto_tensor_view(&whole, SHAPE(64), SHAPE(0));

    (void)state;
    access_one(rig, &whole, PTO_TAG_INPUT);
    assert_int_equal(graph_scope_begin(&rig->g, PTO_SCOPE_MANUAL, NULL), PTO_OK);
    access_one(rig, &tile, PTO_TAG_INOUT);
    assert_int_equal(graph_scope_end(&rig->g), PTO_OK);
    assert_int_equal(rig->edge_count, 0);
    access_one(rig, &tile, PTO_TAG_INOUT);
    assert_int_equal(rig->edge_count, 2);
    access_one(rig, &tile, PTO_TAG_INOUT); /* the one before did wait for it */
    assert_int_equal(rig->edge_count, 3);
    rig_close(rig);
}

/*
 * However many entries a run has used, the next run finds all of them free; and a table that is too
 * large shrinks.
 */
static void a_new_run_finds_a_clean_table(void **state)
{
    static const uint32_t counts[] = { 3, 64, 65, 0, 8192, 8192, 5, 5 };
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct regions *x = &rig->g.regions;
    struct pto_tensor t = flat_buffer(1 << 20), m = square_buffer(1024);
    uint32_t largest = 0;

    (void)state;
    m.addr += 8 << 20;
    for (uint32_t run = 0; run < sizeof(counts) / sizeof(counts[0]); run++) {
        for (uint32_t i = 0; i < counts[run]; i++) {
            struct pto_tensor v = i % 4 != 3 ? pto_tensor_view(&t, SHAPE(16), SHAPE(64 * i))
                                             : cut(&m, i / 128 * 4, i % 128 * 4, 4, 4);

            access_one(rig, &v, PTO_TAG_INOUT);
        }
        largest = x->table_count > largest ? x->table_count : largest;
        for (uint32_t i = 0; i < x->table_count; i++) /* otherwise it would not be found */
            assert_true(region_is_touched(x, i) ||
                        (x->table[i].flags == 0 && x->table[i].next == 0));
        assert_int_equal(rig_start(rig, PTO_DEPS_SAFE, false), PTO_OK);
        for (uint32_t i = 0; i < x->table_count; i++)
            assert_true(x->table[i].flags == 0 && x->table[i].next == 0);
    }
    assert_true(largest > REGION_TABLE_START);
    assert_int_equal(x->table_count, REGION_TABLE_START);
    rig_close(rig);
}

/* The same for ids: those of the previous run are unknown. */
static void a_new_run_finds_no_ids(void **state)
{
    static const uint32_t counts[] = { 1, 5000, 3, 2000 };
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor t = flat_buffer(64);

    (void)state;
    for (uint32_t run = 0; run < sizeof(counts) / sizeof(counts[0]); run++) {
        for (uint32_t i = 0; i < counts[run]; i++)
            access_one(rig, &t, PTO_TAG_INPUT);
        assert_int_equal(rig_start(rig, PTO_DEPS_SAFE, false), PTO_OK);
        for (uint32_t ring = 0; ring < GRAPH_RINGS; ring++)
            for (uint32_t i = 0; i <= rig->g.ids[ring].mask; i++)
                assert_int_equal(rig->g.ids[ring].entry[i].seq, 0);
    }
    rig_close(rig);
}

/*
 * The shape of tiles stays known when all tiles are dead, and so does what was known of their
 * matrix.
 */
static void a_tile_of_a_matrix_that_was_forgotten_waits(void **state)
{
    enum { OTHERS = 5000 };
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor matrix =
        pto_tensor_external((void *)(uintptr_t)BUFFER, SHAPE(64, 64), 2, PTO_FLOAT32);
    struct pto_tensor whole =
        pto_tensor_external((void *)(uintptr_t)BUFFER, SHAPE(64 * 64), 1, PTO_FLOAT32);
    struct pto_outputs out;
    struct pto_args args;

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct pto_tensor tile = pto_tensor_view(&matrix, SHAPE(16, 16), SHAPE(0, 16 * i));

        pto_args_init(&args);
        pto_add_inout(&args, &tile);
        assert_true(rig_submit(rig, &args, &out));
        (void)rig_complete(rig, out.task);
    }
    for (uint32_t i = 0; i < OTHERS; i++) { /* the table grows, and dead records are left out */
        struct pto_tensor other = pto_tensor_external(
            (void *)(uintptr_t)(2 * BUFFER + 65536ull * i), SHAPE(64), 1, PTO_FLOAT32);

        pto_args_init(&args);
        pto_add_inout(&args, &other);
        assert_true(rig_submit(rig, &args, NULL));
    }
    pto_args_init(&args);
    pto_add_inout(&args, &whole);
    assert_true(rig_submit(rig, &args, NULL));
    for (uint32_t i = 0; i < 16; i++) {
        struct pto_tensor tile =
            pto_tensor_view(&matrix, SHAPE(16, 16), SHAPE(i / 4 * 16, i % 4 * 16));

        pto_args_init(&args);
        pto_add_input(&args, &tile);
        assert_false(rig_submit(rig, &args, NULL));
    }
    rig_close(rig);
}

/* ---- users of an element, where the index does not tell ---- */

enum { USERS_LIVE = 600, USERS_STEPS = 3000 };

struct user {
    struct slot *slot;
    uint32_t seq;
    struct geom geom;
    bool is_used;
    bool is_written;
};

static void submit_user(struct rig *rig, struct rng *r, const struct pto_tensor *whole,
                        struct user *u)
{
    struct pto_tensor t = random_view(r, whole);
    struct pto_outputs out;
    struct pto_args args;
    uint32_t kind = rng_below(r, 8);

    t.manual_dep = kind == 7;
    pto_args_init(&args);
    if (kind < 3)
        pto_add_input(&args, &t);
    else if (kind < 5)
        pto_add_inout(&args, &t);
    else if (kind == 5)
        pto_add_output_existing(&args, &t);
    else
        pto_add_no_dep(&args, &t);
    (void)rig_submit(rig, &args, &out);
    u->slot = rig_slot(rig, out.task);
    u->seq = u->slot->seq;
    geom_init_safe(&u->geom, &t);
    u->is_used = kind < 6;
    u->is_written = kind >= 3;
}

static const struct user *expect_user(const struct user *user, uint32_t count,
                                      const struct pto_tensor *element, bool with_readers)
{
    struct geom geom;

    geom_init_safe(&geom, element);
    for (uint32_t i = 0; i < count; i++)
        if (user[i].is_used && (user[i].is_written || with_readers) &&
            overlap_safe(&geom, &user[i].geom) != OVERLAP_NONE)
            return &user[i];
    return NULL;
}

static bool is_among(const struct user *user, uint32_t count, uint32_t number, uint32_t seq)
{
    for (uint32_t i = 0; i < count; i++)
        if (user[i].slot->number == number && user[i].seq == seq)
            return true;
    return false;
}

/* Tasks are added and complete, so that listed entries become outdated again and again. */
static void users_of_an_element_are_found_among_many(void **state)
{
    static struct user user[USERS_LIVE];
    struct rig *rig = rig_open(PTO_DEPS_SIMPLER);
    struct rng r = { 14 };
    uint32_t count = 0, found_count = 0;

    (void)state;
    rig->is_denied = true;
    for (uint32_t step = 0; step < USERS_STEPS; step++) {
        struct pto_tensor whole = pto_tensor_external(
            (void *)(uintptr_t)(BUFFER + 8192 * rng_below(&r, 400)), SHAPE(32, 32), 2, PTO_FLOAT32);
        uint32_t at[2] = { rng_below(&r, 32), rng_below(&r, 32) }, seq = 0;
        bool with_readers = rng_below(&r, 2) != 0;
        struct pto_tensor element;
        enum data_fault why;
        uint32_t number;

        if (count == USERS_LIVE) {
            uint32_t gone = rng_below(&r, count);

            (void)rig_complete_slot(rig, user[gone].slot, NULL);
            user[gone] = user[--count];
        }
        submit_user(rig, &r, &whole, &user[count++]);
        if (step % 8 == 7) {
            assert_int_equal(graph_scope_end(&rig->g), PTO_OK);
            assert_int_equal(graph_scope_begin(&rig->g, PTO_SCOPE_AUTO, NULL), PTO_OK);
        }
        assert_true(graph_find_element(&whole, 2, at, &element, &why));
        number = graph_find_user(&rig->g, &element, with_readers, 1, &seq);
        assert_int_equal(number != 0, expect_user(user, count, &element, with_readers) != NULL);
        assert_true(number == 0 || is_among(user, count, number, seq));
        found_count += number != 0;
    }
    assert_in_range(found_count, USERS_STEPS / 10, USERS_STEPS * 9 / 10);
    rig_close(rig);
}

static const struct CMUnitTest regions_tests[] = {
    cmocka_unit_test(aligned_tiles_find_what_the_list_finds),
    cmocka_unit_test(unaligned_stretches_find_what_the_list_finds),
    cmocka_unit_test(square_tiles_find_what_the_list_finds),
    cmocka_unit_test(shifted_tiles_find_what_the_list_finds),
    cmocka_unit_test(combs_find_what_the_list_finds),
    cmocka_unit_test(cubes_find_what_the_list_finds),
    cmocka_unit_test(many_matrices_find_what_the_list_finds),
    cmocka_unit_test(ragged_tiles_find_what_the_list_finds),
    cmocka_unit_test(nested_tiles_find_what_the_list_finds),
    cmocka_unit_test(sliding_stretches_find_what_the_list_finds),
    cmocka_unit_test(advancing_stretches_find_what_the_list_finds),
    cmocka_unit_test(mixed_sizes_find_what_the_list_finds),
    cmocka_unit_test(rows_against_columns_find_what_the_list_finds),
    cmocka_unit_test(wholes_against_tiles_find_what_the_list_finds),
    cmocka_unit_test(many_buffers_find_what_the_list_finds),
    cmocka_unit_test(many_frames_find_what_the_list_finds),
    cmocka_unit_test(many_classes_find_what_the_list_finds),
    cmocka_unit_test(views_of_views_find_what_the_list_finds),
    cmocka_unit_test(overlapping_buffers_find_what_the_list_finds),
    cmocka_unit_test(versions_find_what_the_list_finds),
    cmocka_unit_test(empty_views_find_what_the_list_finds),
    cmocka_unit_test(manual_tiles_find_what_the_list_finds),
    cmocka_unit_test(manual_stretches_find_what_the_list_finds),
    cmocka_unit_test(manual_mixed_sizes_find_what_the_list_finds),
    cmocka_unit_test(many_readers_find_what_the_list_finds),
    cmocka_unit_test(neighbours_find_what_the_list_finds),
    cmocka_unit_test(manual_neighbours_find_what_the_list_finds),
    cmocka_unit_test(bricks_find_what_the_list_finds),
    cmocka_unit_test(five_dimensions_find_what_the_list_finds),
    cmocka_unit_test(many_strides_find_what_the_list_finds),
    cmocka_unit_test(scattered_regions_find_what_the_list_finds),
    cmocka_unit_test(a_growing_table_finds_what_the_list_finds),
    cmocka_unit_test(the_table_grows_while_its_records_live),
    cmocka_unit_test(a_hundred_thousand_live_tiles_are_found_at_once),
    cmocka_unit_test(a_record_of_gone_tasks_makes_no_edge),
    cmocka_unit_test(a_reader_stands_for_the_writers_before_it),
    cmocka_unit_test(a_region_comes_back_after_its_neighbour),
    cmocka_unit_test(the_first_tile_off_the_grid_finds_its_neighbours),
    cmocka_unit_test(a_box_without_a_class_is_found_again),
    cmocka_unit_test(a_new_run_remembers_nothing),
    cmocka_unit_test(a_box_is_known_by_all_its_dimensions),
    cmocka_unit_test(a_box_is_known_by_its_buffer),
    cmocka_unit_test(regions_of_one_bucket_are_apart),
    cmocka_unit_test(a_new_run_knows_no_boxes),
    cmocka_unit_test(a_frame_is_not_alone),
    cmocka_unit_test(a_record_is_not_taken_over_by_what_leaves_its_cell),
    cmocka_unit_test(a_record_is_not_taken_over_by_another_frame),
    cmocka_unit_test(a_record_that_is_taken_over_is_that_of_the_new_tile),
    cmocka_unit_test(a_tile_waits_for_the_latest_reader_of_the_whole),
    cmocka_unit_test(a_manual_writer_stands_for_nobody),
    cmocka_unit_test(a_new_run_finds_a_clean_table),
    cmocka_unit_test(a_new_run_finds_no_ids),
    cmocka_unit_test(a_tile_of_a_matrix_that_was_forgotten_waits),
    cmocka_unit_test(users_of_an_element_are_found_among_many),
};

TEST_MAIN(regions_tests)

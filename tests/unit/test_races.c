/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for races finds the same pairs as a naive model, which has a bit for each byte of an
 * access and for each ancestor of a task, in random graphs: tiles, halos, strided and transposed
 * views, memory that is used again, edges that are missing, an orchestration that waits, and tasks
 * of which it is known what they used, in and outside of their arguments, by blocks and lanes that
 * signal to each other and to other tasks, also to earlier ones, and tasks that wait for signals.
 * PTO_TEST_LONG=1: 10 000 graphs of each kind of edges.
 */
#include "tool/see/byte_view.h"
#include "tool/see/precedence.h"
#include "tool/see/races.h"

#include "tests/fixture/recording_test.h"
#include "tests/fixture/random_test.h"

enum { BYTES = 2048, WORDS = BYTES / 64, TASKS_MAX = 160, ARGUMENTS_MAX = 4, GRAPHS = 4000 };
enum { SEGMENTS_MAX = 16 * TASKS_MAX, NODES_MAX = 3 * TASKS_MAX + SEGMENTS_MAX };

/* ---- graphs ---- */

enum shape { SHAPE_TILES, SHAPE_HALOS, SHAPE_STRIDED, SHAPE_ANY, SHAPES };
enum edges { EDGES_ALL, EDGES_DROPPED, EDGES_NO_WAR, EDGES_EXPLICIT, EDGES_KINDS };

static struct see_argument *plan_argument(struct plan *p, struct see_argument a)
{
    struct see_recording *r = p->r;

    r->argument = plan_grow(r->argument, r->argument_count, sizeof(*r->argument));
    r->argument[r->argument_count] = a;
    return &r->argument[r->argument_count++];
}

static struct see_argument interval(uint64_t first, uint64_t bytes)
{
    return (struct see_argument){ .addr = 4096,
                                  .size = BYTES,
                                  .start = first,
                                  .extent = bytes,
                                  .dtype = PTO_UINT8,
                                  .ndims = 1,
                                  .owner = PTO_RECORDING_NONE,
                                  .shapes = { (uint32_t)bytes },
                                  .strides = { 1 } };
}

static uint64_t span_of(const struct see_argument *a)
{
    uint64_t last = 0;

    for (uint32_t d = 0; d < a->ndims; d++)
        last += (a->shapes[d] - 1ull) * a->strides[d];
    return last + 1;
}

/* A view with its dimensions in any order, possibly with rows that overlap. */
static struct see_argument any_view(bool is_of_matrix)
{
    static const uint8_t types[] = { PTO_UINT8, PTO_INT16, PTO_FLOAT32 };
    struct see_argument a = { .addr = 4096,
                              .size = BYTES,
                              .dtype = types[random_below(3)],
                              .ndims = (uint8_t)(1 + random_below(4)),
                              .owner = PTO_RECORDING_NONE };
    uint32_t room = BYTES / pto_dtype_size(a.dtype), stride = 1 + random_below(3);

    if (is_of_matrix) { /* of 16 rows and 32 columns of float32 */
        uint32_t row = random_below(12), column = random_below(28), is_turned = random_below(2);

        a = interval(row * 32 + column, 1);
        a.dtype = PTO_FLOAT32;
        a.ndims = 2;
        a.shapes[is_turned] = 1 + random_below(5);
        a.shapes[1 - is_turned] = 1 + random_below(5);
        a.strides[is_turned] = 32 * (1 + (random_below(4) == 0));
        a.strides[1 - is_turned] = 1 + (random_below(4) == 0);
        while (a.start + span_of(&a) > 512)
            a.start--;
        return a;
    }
    for (uint32_t d = a.ndims; d-- > 0;) {
        a.shapes[d] = 1 + random_below(5);
        a.strides[d] = stride;
        stride = stride * a.shapes[d] + random_below(4);
    }
    if (random_below(2) == 0) {
        uint32_t i = random_below(a.ndims), k = random_below(a.ndims), n = a.shapes[i],
                 s = a.strides[i];

        a.shapes[i] = a.shapes[k];
        a.strides[i] = a.strides[k];
        a.shapes[k] = n;
        a.strides[k] = s;
    }
    if (random_below(8) == 0)
        a.strides[random_below(a.ndims)] = 1 + random_below(6);
    if (random_below(30) == 0)
        a.shapes[random_below(a.ndims)] = 0;
    while (span_of(&a) > room)
        a.shapes[random_below(a.ndims)] = 1;
    a.start = random_below((uint32_t)(room - span_of(&a)) + 1);
    return a;
}

static struct see_argument random_argument(enum shape shape, bool writes)
{
    static const uint8_t write_tags[] = { PTO_TAG_INOUT, PTO_TAG_OUTPUT_EXISTING, PTO_TAG_OUTPUT };
    struct see_argument a =
        shape == SHAPE_STRIDED || shape == SHAPE_ANY
            ? any_view(shape == SHAPE_STRIDED)
            : interval(64 * random_below(16) + (shape == SHAPE_HALOS && !writes ? 0 : 8),
                       shape == SHAPE_HALOS && !writes ? 96 : 48);

    a.tag = writes ? write_tags[random_below(3)] : PTO_TAG_INPUT;
    if (random_below(8) == 0)
        a.tag = PTO_TAG_NO_DEP;
    /* base of a buffer that a task created at an address where earlier ones were */
    if (random_below(4) == 0) {
        a.flags = PTO_RECORDING_CREATED;
        a.allocation = random_below(3);
    }
    return a;
}

/* ---- the model ---- */

/* The bytes of an access, and other properties that decide whether two accesses conflict. */
struct use {
    uint64_t byte[WORDS];
    uint64_t space;
    uint32_t node;
    struct see_race_side side;
    bool is_awaited_by_get, is_awaited_by_set;
    bool only_orders; /* declared by a task for which it is known what it used */
};

struct model {
    const struct see_recording *r;
    struct use *use;
    uint32_t use_count;
    uint32_t nodes;
    uint32_t node_of[TASKS_MAX + 1], end_of[TASKS_MAX + 1];
    uint32_t segment[SEGMENTS_MAX];        /* by number: its node, + 1 */
    uint64_t (*after)[NODES_MAX / 64 + 1]; /* by node: a bit for each of its ancestors */
};

static void add_bytes(uint64_t *byte, const struct see_argument *a, uint32_t d, uint64_t element)
{
    uint32_t size = pto_dtype_size(a->dtype);

    if (d == a->ndims)
        for (uint64_t i = element * size; i < (element + 1) * size; i++)
            byte[i / 64] |= 1ull << i % 64;
    else
        for (uint32_t i = 0; i < a->shapes[d]; i++)
            add_bytes(byte, a, d + 1, element + (uint64_t)i * a->strides[d]);
}

/*
 * Bytes outside of all arguments. All created buffers are at one address, so these bytes belong to
 * the latest one of this run; or to external memory.
 */
static uint64_t stray_space(const struct see_recording *r, uint32_t task)
{
    uint32_t latest = 0;
    uint64_t space = 0;

    for (uint32_t i = 0; i < r->allocation_count; i++) {
        uint32_t first = 0;
        bool has_it = false;

        for (; first < r->task_count && !has_it; first++)
            for (uint64_t k = r->argument_from[first]; k < r->argument_from[first + 1]; k++)
                has_it = has_it || ((r->argument[k].flags & PTO_RECORDING_CREATED) != 0 &&
                                    r->argument[k].allocation == i);
        first--;
        if (!has_it || first > task || first < latest || r->task[first].run != r->task[task].run)
            continue;
        latest = first;
        space = i + 1ull;
    }
    return space;
}

static void model_use(struct model *m, const struct see_argument *a, uint32_t node,
                      struct see_race_side side)
{
    struct use *use = &m->use[m->use_count++];
    bool is_ordered = (a->flags & PTO_RECORDING_MANUAL_DEP) == 0 || a->tag == PTO_TAG_OUTPUT;

    *use = (struct use){ .node = node, .side = side };
    use->space = (a->flags & PTO_RECORDING_CREATED) != 0 ? a->allocation + 1ull : 0;
    use->is_awaited_by_get = is_ordered && side.use == SEE_USE_WRITE;
    use->is_awaited_by_set = is_ordered && side.use != SEE_USE_UNDECLARED;
    if (side.argument == SEE_RACE_ELEMENT || side.touch != 0)
        use->is_awaited_by_get = use->is_awaited_by_set = false;
    use->space = side.touch != 0 && side.argument == SEE_RACE_STRAY ? stray_space(m->r, side.task)
                                                                    : use->space;
    use->space |= (uint64_t)(side.element != PTO_RECORDING_NONE ? m->r->element[side.element].run
                                                                : m->r->task[side.task].run)
                  << 32;
    add_bytes(use->byte, a, 0, a->start);
}

static bool shares_byte(const struct use *a, const struct use *b)
{
    if (a->space != b->space)
        return false;
    for (uint32_t i = 0; i < WORDS; i++)
        if ((a->byte[i] & b->byte[i]) != 0)
            return true;
    return false;
}

static void model_precede(struct model *m, uint32_t before, uint32_t node)
{
    for (uint32_t i = 0; i < sizeof(m->after[0]) / 8; i++)
        m->after[node][i] |= m->after[before][i];
    m->after[node][before / 64] |= 1ull << before % 64;
}

static bool is_after(const struct model *m, uint32_t node, uint32_t before)
{
    return (m->after[node][before / 64] >> before % 64 & 1) != 0;
}

static void model_element(struct model *m, uint32_t index, uint32_t *barrier)
{
    const struct see_element *e = &m->r->element[index];
    bool is_set = e->kind == PTO_RECORDING_ELEMENT_SET;
    uint32_t node = m->nodes++, first = m->use_count;

    model_use(m, &e->argument, node,
              (struct see_race_side){ e->task, index, SEE_RACE_ELEMENT,
                                      is_set ? SEE_USE_WRITE : SEE_USE_READ, 0 });
    for (uint32_t i = 0; i < first && m->r->mode == PTO_MODE_STREAM; i++)
        if ((is_set ? m->use[i].is_awaited_by_set : m->use[i].is_awaited_by_get) &&
            shares_byte(&m->use[i], &m->use[first]))
            model_precede(m, m->use[i].node, node);
    if (*barrier != UINT32_MAX)
        model_precede(m, *barrier, node);
    *barrier = node;
}

/* Whether signals divide the task into segments, or it waits for one. */
static bool has_signals(const struct see_recording *r, uint32_t task)
{
    for (uint64_t i = r->touch_from[task]; i < r->touch_from[task + 1]; i++)
        if (r->touch[i].kind >= PTO_RECORDING_TOUCH_STEP)
            return true;
    return false;
}

/* Returns the node of a segment, which is the task's if signals do not divide it. */
static uint32_t model_segment(struct model *m, uint32_t task, uint32_t segment)
{
    if (segment == 0 || !has_signals(m->r, task))
        return m->node_of[task];
    if (m->segment[segment] == 0) {
        m->segment[segment] = ++m->nodes;
        model_precede(m, m->node_of[task], m->nodes - 1);
    }
    return m->segment[segment] - 1;
}

static void model_task(struct model *m, uint32_t task, uint32_t *next, uint32_t barrier)
{
    const struct see_recording *r = m->r;
    uint32_t node = m->nodes++;

    m->node_of[task] = m->end_of[task] = node;
    if (has_signals(r, task))
        m->end_of[task] = m->nodes++;
    for (uint64_t i = r->argument_from[task]; i < r->argument_from[task + 1]; i++) {
        uint32_t use = pto_tag_use(r->argument[i].tag);

        model_use(
            m, &r->argument[i], node,
            (struct see_race_side){ task, PTO_RECORDING_NONE, (int16_t)(i - r->argument_from[task]),
                                    use == 0                  ? SEE_USE_UNDECLARED
                                    : (use & PTO_WRITES) != 0 ? SEE_USE_WRITE
                                                              : SEE_USE_READ,
                                    0 });
        m->use[m->use_count - 1].only_orders = see_race_is_known(r, task);
    }
    for (uint64_t i = r->touch_from[task]; i < r->touch_from[task + 1]; i++) {
        const struct see_touch *t = &r->touch[i];

        if (see_touch_has_part(t))
            model_use(m, &t->part, model_segment(m, task, t->segment),
                      (struct see_race_side){
                          task, PTO_RECORDING_NONE, t->argument >= 0 ? t->argument : SEE_RACE_STRAY,
                          t->kind == PTO_RECORDING_TOUCH_WRITE ? SEE_USE_WRITE : SEE_USE_READ,
                          (uint32_t)i + 1 });
    }
    for (; *next < r->element_count && r->element[*next].task == task; ++*next)
        model_use(m, &r->element[*next].argument, node,
                  (struct see_race_side){ task, *next, SEE_RACE_PREDICATE, SEE_USE_READ, 0 });
    for (uint64_t i = 0; i < r->edge_count; i++)
        if (r->edge[i].to == task)
            model_precede(m, m->end_of[r->edge[i].from], node);
    if (barrier != UINT32_MAX)
        model_precede(m, barrier, node);
}

/* Adds the order of signals, and what follows from it. */
static void model_signals(struct model *m)
{
    const struct see_recording *r = m->r;
    bool is_changed = false;

    for (uint64_t i = 0; i < r->touch_count; i++) {
        const struct see_touch *t = &r->touch[i];
        uint32_t node = m->end_of[t->task], own;

        if (!has_signals(r, t->task))
            continue;
        is_changed = true;
        own = model_segment(m, t->task, t->segment);
        model_precede(m, own, node);
        if (t->kind == PTO_RECORDING_TOUCH_STEP)
            node = own;
        if (t->kind >= PTO_RECORDING_TOUCH_STEP && t->before != 0) {
            for (uint64_t k = 0; k < r->touch_count && m->segment[t->before] == 0; k++)
                if (r->touch[k].segment == t->before)
                    (void)model_segment(m, r->touch[k].task, t->before);
            model_precede(m, m->segment[t->before] - 1, node);
        }
    }
    while (is_changed) {
        is_changed = false;
        for (uint32_t n = 0; n < m->nodes; n++)
            for (uint32_t b = 0; b < m->nodes; b++)
                if (is_after(m, n, b))
                    for (uint32_t i = 0; i < sizeof(m->after[0]) / 8; i++) {
                        is_changed = is_changed || (m->after[b][i] & ~m->after[n][i]) != 0;
                        m->after[n][i] |= m->after[b][i];
                    }
    }
}

static struct model model_make(const struct see_recording *r)
{
    struct model m = { .r = r };
    uint32_t next = 0, barrier = UINT32_MAX;

    m.use = calloc(r->argument_count + r->element_count + r->touch_count + 1, sizeof(*m.use));
    m.after = calloc(NODES_MAX, sizeof(*m.after));
    assert_true(m.use != NULL && m.after != NULL);
    for (uint32_t task = 0; task <= r->task_count; task++) {
        while (next < r->element_count && r->element[next].task == task &&
               r->element[next].kind != PTO_RECORDING_ELEMENT_PREDICATE)
            model_element(&m, next++, &barrier);
        if (task < r->task_count)
            model_task(&m, task, &next, barrier);
    }
    model_signals(&m);
    assert_true(m.nodes <= NODES_MAX);
    return m;
}

/* Whether two uses race; `a` is the earlier use. */
static bool model_races(const struct model *m, const struct use *a, const struct use *b)
{
    const struct see_recording *r = m->r;

    if (a->only_orders || b->only_orders || !shares_byte(a, b) ||
        (a->side.use != SEE_USE_WRITE && b->side.use != SEE_USE_WRITE))
        return false;
    if (a->node == b->node)
        return a->side.touch != 0 && b->side.touch != 0 &&
               r->touch[a->side.touch - 1].invocation != r->touch[b->side.touch - 1].invocation;
    return !is_after(m, b->node, a->node) && !is_after(m, a->node, b->node);
}

/* ---- the comparison ---- */

/* A pair of accesses as a number. */
static uint64_t pair_number(const struct see_race_side side[2])
{
    uint64_t id[2];

    for (int i = 0; i < 2; i++)
        id[i] =
            side[i].argument == SEE_RACE_ELEMENT
                ? 0x80000000u + side[i].element
                : ((side[i].task * 16 + (uint32_t)(side[i].argument + 4)) * 4 + side[i].use) * 2 +
                      (side[i].touch != 0);
    if (side[0].task == side[1].task && side[0].touch != 0 && id[0] > id[1]) /* blocks */
        return id[1] << 32 | id[0];
    return id[0] << 32 | id[1];
}

struct found {
    uint64_t *pair;
    uint64_t count;
};

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* Sorts the pairs, each of which counts once. */
static void sort_pairs(struct found *found, bool has_copies)
{
    uint64_t kept = 0;

    if (found->count > 1)
        qsort(found->pair, found->count, sizeof(*found->pair), by_number);
    for (uint64_t i = 0; i < found->count; i++)
        if (!has_copies || kept == 0 || found->pair[i] != found->pair[kept - 1])
            found->pair[kept++] = found->pair[i];
    found->count = kept;
}

static void note_pair(void *context, const struct see_race_side side[2])
{
    struct found *found = context;

    found->pair = plan_grow(found->pair, found->count, sizeof(*found->pair));
    found->pair[found->count++] = pair_number(side);
}

static bool contains_byte(const struct see_argument *a, uint64_t at)
{
    uint32_t index[PTO_MAX_DIMS];
    uint64_t element = a->start;

    if (!see_argument_element(a, at, index))
        return false;
    for (uint32_t d = 0; d < a->ndims; d++) {
        if (index[d] >= a->shapes[d])
            return false;
        element += (uint64_t)index[d] * a->strides[d];
    }
    return (at - a->addr) / pto_dtype_size(a->dtype) == element;
}

static void expect_witness(const struct see_recording *r, const struct see_race *race)
{
    for (int i = 0; i < 2; i++) {
        const struct see_race_side *side = &race->side[i];

        assert_true(contains_byte(
            side->touch != 0 ? &r->touch[side->touch - 1].part : see_race_argument(r, side),
            race->at));
    }
    assert_true(race->count != 0);
}

/* Compares the search with the model, and returns how many pairs race. */
static uint64_t compare(const struct see_recording *r)
{
    struct model m = model_make(r);
    struct found naive = { 0 }, found = { 0 };
    struct see_races races;
    uint64_t total = 0;

    for (uint32_t b = 0; b < m.use_count; b++)
        for (uint32_t a = 0; a < b; a++)
            if (model_races(&m, &m.use[a], &m.use[b]))
                note_pair(&naive, (struct see_race_side[2]){ m.use[a].side, m.use[b].side });
    assert_int_equal(see_races_find(r, 0, note_pair, &found, &races), PTO_OK);
    sort_pairs(&naive, r->touch_count != 0);
    sort_pairs(&found, false);
    assert_int_equal(found.count, naive.count);
    for (uint64_t i = 0; i < naive.count; i++)
        assert_int_equal(found.pair[i], naive.pair[i]);
    for (uint32_t i = 0; i < races.count; i++) {
        expect_witness(r, &races.race[i]);
        total += races.race[i].count;
        if (i != 0)
            assert_true(races.race[i].kind >= races.race[i - 1].kind);
    }
    assert_int_equal(total, found.count);
    total = naive.count;
    see_races_free(&races);
    free(naive.pair);
    free(found.pair);
    free(m.use);
    free(m.after);
    return total;
}

/* ---- random graphs ---- */

static bool asks_for_order(const struct see_argument *a)
{
    return a->tag != PTO_TAG_NO_DEP;
}

/* Adds edges as ordering rules would: to all earlier accesses that conflict, or to most of them. */
static void add_edges(struct plan *p, uint32_t task, enum edges kind, struct use *use)
{
    struct see_recording *r = p->r;
    struct model m = { .r = r, .use = use };
    uint64_t own = r->argument_from[task];

    for (uint32_t i = (uint32_t)own; i < r->argument_count; i++) {
        m.use_count = i;
        model_use(&m, &r->argument[i], task,
                  (struct see_race_side){ .task = task, .element = PTO_RECORDING_NONE });
    }
    if (kind == EDGES_EXPLICIT && task != 0 && random_below(3) != 0)
        plan_edge(p, task - 1 - random_below(task < 12 ? task : 12), task,
                  PTO_RECORDING_REASON_EXPLICIT, -1, -1);
    for (uint64_t i = own; i < r->argument_count && kind != EDGES_EXPLICIT; i++)
        for (uint64_t k = 0; k < own; k++) {
            bool writes = (pto_tag_use(r->argument[i].tag) & PTO_WRITES) != 0;
            bool wrote = (pto_tag_use(r->argument[k].tag) & PTO_WRITES) != 0;

            if (!asks_for_order(&r->argument[i]) || !asks_for_order(&r->argument[k]) ||
                (!writes && !wrote) || !shares_byte(&use[i], &use[k]))
                continue;
            if ((kind == EDGES_DROPPED && random_below(12) == 0) ||
                (kind == EDGES_NO_WAR && !wrote))
                continue;
            plan_edge(p, use[k].node, task, PTO_RECORDING_REASON_RAW, 0, 0);
        }
}

static void add_element(struct plan *p, uint32_t task, enum pto_recording_element kind)
{
    struct see_recording *r = p->r;

    r->element = plan_grow(r->element, r->element_count, sizeof(*r->element));
    r->element[r->element_count++] =
        (struct see_element){ .task = task,
                              .file = PTO_RECORDING_NONE,
                              .kind = (uint8_t)kind,
                              .argument = interval(4 * random_below(BYTES / 4), 4) };
}

static struct see_touch *add_touch(struct plan *p, struct see_touch t)
{
    struct see_recording *r = p->r;

    r->touch = plan_grow(r->touch, r->touch_count, sizeof(*r->touch));
    r->touch[r->touch_count] = t;
    return &r->touch[r->touch_count++];
}

/* A segment of an invocation, at a time that makes signals possible. */
struct moment {
    uint32_t task, invocation, time;
};

/* The segments of a graph, by number; each task has those from first[task] on. */
struct moments {
    struct moment at[SEGMENTS_MAX];
    uint32_t first[TASKS_MAX + 1], end[TASKS_MAX], count;
    bool has_steps[TASKS_MAX];
};

static void add_step(struct plan *p, uint32_t task, uint32_t segment, uint32_t before)
{
    (void)add_touch(p, (struct see_touch){ .task = task,
                                           .kind = PTO_RECORDING_TOUCH_STEP,
                                           .segment = segment,
                                           .before = before });
}

/* Divides tasks into invocations and these into segments, each after all that its task waits for. */
static void make_moments(struct plan *p, struct moments *m, bool has_signals)
{
    struct see_recording *r = p->r;

    m->count = 1;
    for (uint32_t task = 0; task < r->task_count; task++) {
        uint32_t blocks = 1 + random_below(2), lanes = 1 + random_below(2), begin = 1;
        bool has_steps = has_signals && random_below(3) != 0;

        r->task[task].blocks = blocks;
        r->task[task].flags |= random_below(3) == 0 ? PTO_RECORDING_GANG : 0u;
        for (uint64_t i = 0; i < r->edge_count; i++)
            if (r->edge[i].to == task && m->end[r->edge[i].from] >= begin)
                begin = m->end[r->edge[i].from] + 1;
        m->first[task] = m->count;
        m->has_steps[task] = has_steps;
        m->end[task] = begin + 1;
        for (uint32_t i = 0; i < blocks * lanes; i++) {
            uint32_t segments = has_steps ? 1 + random_below(3) : 1, time = begin;

            for (uint32_t k = 0; k < segments; k++) {
                time += 1 + random_below(8);
                m->at[m->count] = (struct moment){ task, i / lanes * 3 + i % lanes, time };
                if (has_steps)
                    add_step(p, task, m->count, k != 0 ? m->count - 1 : 0);
                m->count++;
            }
            m->end[task] = time >= m->end[task] ? time + 1 : m->end[task];
        }
    }
    m->first[r->task_count] = m->count;
}

/* Signals from segments to later ones, which need not be of later tasks, and to ends of tasks. */
static void add_signals(struct plan *p, struct moments *m)
{
    uint32_t segments = m->count, tasks = p->r->task_count;

    for (uint32_t i = 0; i < segments; i++) {
        uint32_t from = 1 + random_below(segments - 1), to = 1 + random_below(segments - 1);
        uint32_t task = random_below(tasks), point = from;

        if (!m->has_steps[m->at[from].task])
            continue;
        if (random_below(2) == 0 && m->count < SEGMENTS_MAX) { /* as a counter */
            point = m->count++;
            add_step(p, m->at[from].task, point, from);
        }
        if (m->has_steps[m->at[to].task] && m->at[from].time < m->at[to].time)
            add_step(p, m->at[to].task, to, point);
        if (random_below(4) == 0 && m->at[from].time < m->end[task])
            (void)add_touch(p, (struct see_touch){ .task = task,
                                                   .kind = PTO_RECORDING_TOUCH_END,
                                                   .before = point });
    }
}

/*
 * What most tasks used, by each block and lane: parts of their arguments, and at times something
 * else.
 */
static void add_touches(struct plan *p, enum shape shape, bool has_signals)
{
    struct see_recording *r = p->r;
    struct moments *m = calloc(1, sizeof(*m));

    assert_non_null(m);
    make_moments(p, m, has_signals);
    if (has_signals && random_below(2) == 0)
        add_signals(p, m);
    r->segment_count = m->count;
    r->allocation_count = 3;
    for (uint32_t task = 0; task < r->task_count; task++) {
        uint32_t arguments = (uint32_t)(r->argument_from[task + 1] - r->argument_from[task]);
        uint32_t parts = random_below(2 * ARGUMENTS_MAX);

        if (random_below(5) == 0)
            continue;
        for (uint32_t i = 0; i <= parts; i++) {
            uint32_t segment = m->first[task] + random_below(m->first[task + 1] - m->first[task]);
            int argument = (int)random_below(arguments + 1) - 1;
            struct see_touch t = { .task = task,
                                   .kind = (uint8_t)(i == 0 ? 0 : 1 + random_below(2)) };

            if (i != 0) {
                t.argument = (int16_t)argument;
                t.invocation = m->at[segment].invocation;
                if (m->has_steps[task] || m->first[task + 1] - m->first[task] > 1)
                    t.segment = segment;
                t.part = argument >= 0 ? random_argument(shape, random_below(4) != 0)
                                       : interval(random_below(BYTES - 8), 1 + random_below(8));
            }
            (void)add_touch(p, t);
        }
    }
    free(m);
    assert_int_equal(see_recording_index(r), PTO_OK);
}

static void make_graph(struct plan *p, uint32_t tasks, enum shape shape, enum edges kind,
                       bool has_elements)
{
    struct use *use = calloc((size_t)TASKS_MAX * ARGUMENTS_MAX, sizeof(*use));
    struct see_recording *r;
    uint32_t kernel[3];

    assert_non_null(use);
    plan_begin(p, 2);
    r = p->r;
    r->mode = (uint8_t)(random_below(4) == 0 ? PTO_MODE_HOST : PTO_MODE_STREAM);
    for (uint32_t k = 0; k < 3; k++)
        kernel[k] = plan_kernel(p, k == 0 ? "add" : k == 1 ? "mul" : "sum", PTO_CORE_AIV);
    r->argument_from = calloc(tasks + 1ull, sizeof(*r->argument_from));
    r->scalar_from = calloc(tasks + 1ull, sizeof(*r->scalar_from));
    for (uint32_t task = 0; task < tasks; task++) {
        uint32_t arguments = 1 + random_below(ARGUMENTS_MAX);

        while (has_elements && random_below(10) == 0)
            add_element(p, task, 1 + random_below(2));
        (void)plan_task(p, kernel[random_below(3)], 1000);
        if (has_elements && random_below(10) == 0)
            add_element(p, task, PTO_RECORDING_ELEMENT_PREDICATE);
        r->argument_from[task] = r->argument_count;
        for (uint32_t i = 0; i < arguments; i++)
            (void)plan_argument(p, random_argument(shape, i + 1 == arguments));
        add_edges(p, task, kind, use);
    }
    if (has_elements)
        add_element(p, tasks, PTO_RECORDING_ELEMENT_GET);
    r->argument_from[tasks] = r->argument_count;
    for (uint32_t i = 0, length = random_below(4) == 0 ? 1 + random_below(30) : UINT32_MAX;
         i < tasks; i++)
        r->task[i].run = i / length;
    for (uint32_t i = 0; i < r->element_count; i++)
        r->element[i].run = r->element[i].task < tasks ? r->task[r->element[i].task].run : 0;
    plan_play(p);
    free(use);
}

static void the_pairs_are_those_of_the_model(void **state)
{
    static const char *const names[EDGES_KINDS] = { "all edges", "some edges left out",
                                                    "no write after read", "explicit edges only" };
    uint32_t graphs = getenv("PTO_TEST_LONG") != NULL ? 10 * GRAPHS : often(GRAPHS, 400);
    uint64_t races[EDGES_KINDS] = { 0 };

    (void)state;
    chance.state = 20261;
    for (uint32_t i = 0; i < graphs; i++) {
        struct plan p;

        make_graph(&p, 2 + random_below(i % 50 == 0 ? TASKS_MAX - 2 : 40), i % SHAPES,
                   i / SHAPES % EDGES_KINDS, i % 3 == 0);
        if (i / 64 % 2 == 0)
            add_touches(&p, i % SHAPES, i % 3 != 0);
        races[i / SHAPES % EDGES_KINDS] += compare(p.r);
        plan_end(&p);
    }
    for (uint32_t k = 0; k < EDGES_KINDS; k++) {
        print_message("%s: %u graphs, %lu pairs\n", names[k], graphs / EDGES_KINDS,
                      (unsigned long)races[k]);
        assert_true(k == EDGES_ALL || races[k] > 1000 || graphs < GRAPHS); /* else it is empty */
    }
}

/*
 * Compares answers of a search, of a search that gives up at once, and of many questions together.
 */
static void paths_are_found(void **state)
{
    enum { NODES = 300, EDGES = 700 };
    struct see_precedence p = { .count = NODES };
    static bool is_before[NODES][NODES];
    static struct see_question question[NODES * NODES];
    uint64_t questions = 0;

    (void)state;
    chance.state = 5;
    memset(is_before, 0, sizeof(is_before));
    p.from = calloc(NODES + 1, sizeof(*p.from));
    p.before = calloc(EDGES, sizeof(*p.before));
    for (uint32_t n = 0; n < NODES; n++) {
        for (p.from[n + 1] = p.from[n]; n > 0 && random_below(3) != 0 && p.from[n + 1] < EDGES;)
            p.before[p.from[n + 1]++] = n - 1 - random_below(n < 40 ? n : 40);
        is_before[n][n] = true;
        for (uint64_t k = p.from[n]; k < p.from[n + 1]; k++)
            for (uint32_t b = 0; b < n; b++)
                is_before[b][n] = is_before[b][n] || is_before[b][p.before[k]];
    }
    assert_int_equal(see_precedence_make(&p), PTO_OK);
    for (uint32_t from = 0; from < NODES; from++)
        for (uint32_t to = from; to < NODES; to++) {
            enum see_answer answer = see_precedence_ask(&p, from, to, UINT32_MAX);
            enum see_answer quick = see_precedence_ask(&p, from, to, 0);

            assert_int_equal(answer == SEE_ANSWER_BEFORE, is_before[from][to]);
            assert_int_not_equal(answer, SEE_ANSWER_OPEN);
            assert_true(quick == answer || quick == SEE_ANSWER_OPEN);
            question[questions++] = (struct see_question){ .from = from, .to = to };
        }
    assert_int_equal(see_precedence_settle(&p, question, questions), PTO_OK);
    for (uint64_t i = 0; i < questions; i++)
        assert_int_equal(question[i].answer == SEE_ANSWER_BEFORE,
                         is_before[question[i].from][question[i].to]);
    see_precedence_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_pairs_are_those_of_the_model),
        cmocka_unit_test(paths_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

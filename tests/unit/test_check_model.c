/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The naive model of `pto check`: small graphs with the edges that docs/user/ordering.md requires,
 * and decisions about regions compared with sets of bytes. Uses only the model (check_model.c,
 * check_region.c, check_race.c), not the engine.
 */

#include "tool/check/check_model.h"
#include "tests/fixture/fixture.h"
#include "tests/fixture/random_test.h"

enum { BASE = 4096, ARGS_MAX = 3, SCRIPT_MAX = 8, MEMORY = 640 };

static const enum check_kind AIV = CHECK_AIV;

/* ---- graphs by hand ---- */

struct step {
    enum check_kind kind;
    bool is_manual;
    uint32_t arg_count;
    struct check_arg args[ARGS_MAX];
    uint32_t dep_count;
    struct check_dep deps[ARGS_MAX];
    struct check_predicate predicate;
};

static struct check_region flat(uint32_t addr, uint32_t from, uint32_t to)
{
    struct check_region r = {
        .addr = addr, .size = 256, .start = from, .ndims = 1, .dtype = PTO_UINT8
    };

    r.shapes[0] = to - from;
    r.strides[0] = 1;
    return r;
}

/* Returns rows r0 to r1 - 1 and columns c0 to c1 - 1 of a 16 x 16 matrix of bytes at BASE. */
static struct check_region tile(uint32_t r0, uint32_t r1, uint32_t c0, uint32_t c1)
{
    struct check_region r = { .addr = BASE, .size = 256, .ndims = 2, .dtype = PTO_UINT8 };

    r.start = r0 * 16 + c0;
    r.shapes[0] = r1 - r0;
    r.shapes[1] = c1 - c0;
    r.strides[0] = 16;
    r.strides[1] = 1;
    return r;
}

static struct check_region transposed(struct check_region r)
{
    struct check_region t = r;

    t.shapes[0] = r.shapes[1];
    t.shapes[1] = r.shapes[0];
    t.strides[0] = r.strides[1];
    t.strides[1] = r.strides[0];
    return t;
}

static struct check_region version(struct check_region r, int32_t number)
{
    r.version = number;
    return r;
}

static struct check_region manual_dep(struct check_region r)
{
    r.manual_dep = true;
    return r;
}

static struct check_arg arg(enum pto_tag tag, struct check_region region)
{
    return (struct check_arg){ .tag = (uint8_t)tag, .creator = -1, .region = region };
}

static struct check_arg created(enum pto_tag tag, int32_t creator, struct check_region region)
{
    struct check_arg a = arg(tag, region);

    a.creator = creator;
    a.region.addr = check_output_addr((uint32_t)creator, 0);
    return a;
}

#define IN(r) arg(PTO_TAG_INPUT, r)
#define INOUT(r) arg(PTO_TAG_INOUT, r)
#define OUTEX(r) arg(PTO_TAG_OUTPUT_EXISTING, r)
#define NODEP(r) arg(PTO_TAG_NO_DEP, r)
#define ONE(a)                                           \
    {                                                    \
        .kind = CHECK_AIV, .arg_count = 1, .args = { a } \
    }
#define TWO(a, b)                                           \
    {                                                       \
        .kind = CHECK_AIV, .arg_count = 2, .args = { a, b } \
    }
#define MANUAL(a)                                                           \
    {                                                                       \
        .kind = CHECK_AIV, .is_manual = true, .arg_count = 1, .args = { a } \
    }

/* A task without arguments that runs only if element i of a region says so. */
#define WHEN(r, i)                                      \
    {                                                   \
        .kind = CHECK_AIV, .predicate = predicate(r, i) \
    }

static struct check_predicate predicate(struct check_region region, uint32_t index)
{
    return (struct check_predicate){
        .op = PTO_PREDICATE_EQ,
        .is_used = true,
        .element = { .creator = -1, .region = region, .ndims = 1, .indices = { index } }
    };
}

/* Compares the edges with a list of "before>after ", sorted by `after`, then by `before`. */
static void expect_edges(enum pto_deps deps, struct step *steps, uint32_t count, const char *edges)
{
    struct check_model *model = check_model_create(deps);
    char text[256] = "";
    size_t used = 0;

    assert_true(count <= SCRIPT_MAX);
    for (uint32_t b = 0; b < count; b++) {
        struct check_task task = { .kind = steps[b].kind, .is_manual = steps[b].is_manual };
        uint64_t before = 0;

        task.arg_count = steps[b].arg_count;
        task.args = steps[b].args;
        task.dep_count = steps[b].dep_count;
        task.deps = steps[b].deps;
        task.predicate = steps[b].predicate;
        check_model_submit(model, &task, &before);
        for (uint32_t a = 0; a < 64; a++) {
            if (bit_get(&before, a))
                used += (size_t)snprintf(text + used, sizeof(text) - used, "%u>%u ", a, b);
        }
    }
    check_model_destroy(model);
    assert_string_equal(text, edges);
}

#define SAFE(edges, ...)                                                             \
    do {                                                                             \
        struct step steps[] = { __VA_ARGS__ };                                       \
        expect_edges(PTO_DEPS_SAFE, steps, sizeof(steps) / sizeof(steps[0]), edges); \
    } while (0)
#define SIMPLER(edges, ...)                                                             \
    do {                                                                                \
        struct step steps[] = { __VA_ARGS__ };                                          \
        expect_edges(PTO_DEPS_SIMPLER, steps, sizeof(steps) / sizeof(steps[0]), edges); \
    } while (0)

static void reads_wait_for_writes(void **state)
{
    struct check_region x = flat(BASE, 0, 64);

    (void)state;
    SAFE("0>1 0>2 ", ONE(OUTEX(x)), ONE(IN(x)), ONE(IN(x)));
    SAFE("0>1 ", ONE(INOUT(x)), ONE(IN(flat(BASE, 63, 65))), ONE(IN(flat(BASE, 64, 65))));
    SAFE("", ONE(IN(x)), ONE(IN(x)));
}

static void writes_wait_for_writes_and_reads(void **state)
{
    struct check_region x = flat(BASE, 0, 64), part = flat(BASE, 0, 32);

    (void)state;
    SAFE("0>1 1>2 ", ONE(OUTEX(x)), ONE(OUTEX(x)), ONE(INOUT(x)));
    SAFE("0>2 1>2 ", ONE(IN(x)), ONE(IN(part)), ONE(OUTEX(x)));
}

static void a_reader_of_the_same_region_supersedes_its_writer(void **state)
{
    struct check_region x = flat(BASE, 0, 64), part = flat(BASE, 0, 32);

    (void)state;
    SAFE("0>1 1>2 ", ONE(OUTEX(x)), ONE(IN(x)), ONE(OUTEX(part)));
    SAFE("0>1 0>2 ", ONE(OUTEX(x)), ONE(IN(x)), ONE(IN(part)));
    SAFE("0>1 0>2 1>2 ", ONE(OUTEX(x)), ONE(IN(part)), ONE(OUTEX(x)));
    /* With another base address and type it is still the same region. */
    SAFE("0>1 1>2 ", ONE(OUTEX(x)), ONE(IN(flat(BASE - 8, 8, 72))), ONE(OUTEX(x)));
}

static void a_covering_writer_removes_records(void **state)
{
    struct check_region x = flat(BASE, 0, 64), part = flat(BASE, 0, 32);

    (void)state;
    SAFE("0>1 1>2 ", ONE(OUTEX(part)), ONE(OUTEX(x)), ONE(IN(part)));
    SAFE("0>1 0>2 1>2 ", ONE(OUTEX(x)), ONE(OUTEX(part)), ONE(IN(x)));
    SAFE("0>1 1>2 ", ONE(IN(tile(2, 4, 2, 4))), ONE(OUTEX(tile(2, 6, 2, 6))),
         ONE(OUTEX(tile(2, 4, 2, 4))));
    SAFE("0>1 1>2 ", ONE(OUTEX(tile(2, 4, 2, 4))), ONE(OUTEX(flat(BASE, 0, 128))),
         ONE(IN(tile(2, 4, 2, 4))));
    /* A box that is not dense does not cover what its interval contains. */
    SAFE("0>1 0>2 1>2 ", ONE(OUTEX(flat(BASE, 34, 52))), ONE(OUTEX(tile(2, 6, 2, 6))),
         ONE(IN(flat(BASE, 34, 52))));
    /* Neither contiguous nor boxes, but equal. */
    SAFE("0>1 1>2 ",
         ONE(OUTEX(
             ((struct check_region){ BASE, 256, 1, 0, 2, PTO_UINT8, false, { 3, 3 }, { 7, 2 } }))),
         ONE(OUTEX(
             ((struct check_region){ BASE, 256, 1, 0, 2, PTO_INT8, false, { 3, 3 }, { 2, 7 } }))),
         ONE(IN(flat(BASE, 1, 2))));
}

static void a_manual_scope_waits_for_nothing_but_is_recorded(void **state)
{
    struct check_region x = flat(BASE, 0, 64);
    struct step explicit[] = { ONE(OUTEX(x)), MANUAL(IN(x)) };

    (void)state;
    SAFE("0>2 1>2 ", ONE(OUTEX(x)), MANUAL(OUTEX(x)), ONE(IN(x)));
    SAFE("0>2 1>2 ", ONE(OUTEX(x)), MANUAL(IN(x)), ONE(OUTEX(x)));
    explicit[1].dep_count = 1;
    explicit[1].deps[0] = (struct check_dep){ 0, PTO_DEP_WAIT, false };
    expect_edges(PTO_DEPS_SAFE, explicit, 2, "0>1 ");
}

static void opted_out_arguments_are_not_ordered(void **state)
{
    struct check_region x = flat(BASE, 0, 64);

    (void)state;
    SAFE("0>2 ", ONE(OUTEX(x)), ONE(NODEP(x)), ONE(OUTEX(x)));
    SAFE("0>2 ", ONE(OUTEX(x)), ONE(INOUT(manual_dep(x))), ONE(OUTEX(x)));
    SIMPLER("0>2 ", ONE(OUTEX(x)), ONE(NODEP(x)), ONE(IN(x)));
    SIMPLER("0>2 ", ONE(OUTEX(x)), ONE(INOUT(manual_dep(x))), ONE(IN(x)));
}

static void users_wait_for_the_creator(void **state)
{
    struct check_region x = flat(BASE, 0, 64);
    struct step steps[] = {
        ONE(created(PTO_TAG_OUTPUT, 0, x)),
        ONE(created(PTO_TAG_NO_DEP, 0, x)),
        ONE(created(PTO_TAG_INPUT, 0, manual_dep(x))),
        MANUAL(created(PTO_TAG_INPUT, 0, x)),
        ONE(created(PTO_TAG_INPUT, 0, flat(BASE, 5, 5))),
    };

    (void)state;
    expect_edges(PTO_DEPS_SAFE, steps, 5, "0>1 0>2 0>4 ");
    expect_edges(PTO_DEPS_SIMPLER, steps, 5, "0>1 0>2 0>4 ");
    /* Tensors made by alloc_tensors exist at once. */
    steps[0].kind = CHECK_ALLOC;
    expect_edges(PTO_DEPS_SAFE, steps, 5, "");
    steps[1].dep_count = 1;
    expect_edges(PTO_DEPS_SAFE, steps, 5, "");
}

static void an_output_is_a_write_of_its_buffer(void **state)
{
    struct check_region x = flat(BASE, 0, 64), part = flat(BASE, 0, 32);
    struct step steps[] = {
        ONE(created(PTO_TAG_OUTPUT, 0, x)),
        ONE(created(PTO_TAG_INOUT, 0, part)),
        ONE(created(PTO_TAG_INPUT, 0, x)),
    };

    (void)state;
    expect_edges(PTO_DEPS_SAFE, steps, 3, "0>1 0>2 1>2 ");
    /* The dependency exists even for a task that uses the bytes without naming the creator. */
    steps[2].args[0].creator = -1;
    expect_edges(PTO_DEPS_SAFE, steps, 3, "0>1 0>2 1>2 ");
    expect_edges(PTO_DEPS_SIMPLER, steps, 3, "0>1 1>2 ");
}

static void explicit_dependencies_wait_or_retain(void **state)
{
    struct check_region x = flat(BASE, 0, 64);
    struct step steps[] = { ONE(IN(x)), ONE(IN(x)), ONE(IN(x)), ONE(IN(x)) };

    (void)state;
    steps[3].dep_count = 3;
    steps[3].deps[0] = (struct check_dep){ 0, PTO_DEP_WAIT, false };
    steps[3].deps[1] = (struct check_dep){ 1, PTO_DEP_RETAIN, false };
    steps[3].deps[2] = (struct check_dep){ 2, CHECK_DEP_BOTH, false };
    expect_edges(PTO_DEPS_SAFE, steps, 4, "0>3 2>3 ");
    expect_edges(PTO_DEPS_SIMPLER, steps, 4, "0>3 2>3 ");
}

static void bytes_count_not_base_addresses(void **state)
{
    (void)state;
    SAFE("0>1 ", ONE(OUTEX(flat(BASE, 32, 64))), ONE(IN(flat(BASE + 40, 0, 8))),
         ONE(IN(flat(BASE + 64, 0, 8))));
    SIMPLER("", ONE(OUTEX(flat(BASE, 32, 64))), ONE(IN(flat(BASE + 40, 0, 8))));
}

static void tiles_of_one_frame_are_exact(void **state)
{
    (void)state;
    SAFE("", ONE(OUTEX(tile(0, 4, 0, 4))), ONE(IN(tile(0, 4, 4, 8))), ONE(IN(tile(4, 8, 0, 4))));
    SAFE("0>1 ", ONE(OUTEX(tile(0, 4, 0, 4))), ONE(IN(tile(3, 8, 3, 8))));
    SAFE("0>2 ", ONE(OUTEX(transposed(tile(0, 4, 0, 4)))), ONE(IN(tile(0, 4, 4, 8))),
         ONE(IN(transposed(tile(2, 6, 2, 6)))));
}

static void a_transposed_whole_matrix_is_its_interval(void **state)
{
    struct check_region whole = tile(0, 16, 0, 16), across = transposed(whole);

    (void)state;
    SAFE("0>1 1>2 ", ONE(OUTEX(flat(BASE - 8, 42, 60))), ONE(OUTEX(across)),
         ONE(IN(flat(BASE - 8, 42, 60))));
    SAFE("0>1 1>2 ", ONE(OUTEX(whole)), ONE(IN(across)), ONE(OUTEX(whole)));
    SAFE("0>1 ", ONE(OUTEX(transposed(tile(2, 4, 0, 16)))), ONE(IN(flat(BASE, 63, 64))),
         ONE(IN(flat(BASE, 64, 65))));
}

static void a_contiguous_range_against_a_box_is_exact(void **state)
{
    struct check_region box = tile(1, 4, 2, 6);

    (void)state;
    SAFE("0>2 0>4 ", ONE(OUTEX(box)), ONE(IN(flat(BASE, 22, 34))), ONE(IN(flat(BASE, 22, 35))),
         ONE(IN(flat(BASE, 38, 50))), ONE(IN(flat(BASE, 37, 50))));
}

static void interleaved_steps_do_not_meet(void **state)
{
    struct check_region even = { BASE, 256, 0, 0, 1, PTO_UINT8, false, { 20 }, { 2 } };
    struct check_region odd = even;
    struct check_region third = { BASE, 256, 1, 0, 1, PTO_UINT8, false, { 10 }, { 3 } };

    (void)state;
    odd.start = 1;
    SAFE("", ONE(OUTEX(even)), ONE(IN(odd)));
    /* Other strides make another frame, so the intervals decide. */
    SAFE("0>1 ", ONE(OUTEX(even)), ONE(IN(third)));
}

static void arguments_are_taken_in_their_order(void **state)
{
    struct check_region x = flat(BASE, 0, 64);

    (void)state;
    SAFE("0>1 1>2 ", ONE(OUTEX(x)), TWO(IN(x), OUTEX(x)), ONE(IN(x)));
    SAFE("0>1 1>2 ", ONE(OUTEX(x)), TWO(OUTEX(x), IN(x)), ONE(OUTEX(x)));
    /*
     * A reader before the write still depends on the superseded writer; one after it, only on the
     * writer of its own region.
     */
    SAFE("0>1 0>2 1>2 ", ONE(OUTEX(x)), ONE(IN(x)), TWO(IN(x), OUTEX(x)));
    SAFE("0>1 1>2 ", ONE(OUTEX(x)), ONE(IN(x)), TWO(OUTEX(x), IN(x)));
}

static void simpler_orders_after_writers_only(void **state)
{
    struct check_region x = flat(BASE, 0, 64);

    (void)state;
    SIMPLER("", ONE(IN(x)), ONE(INOUT(x)));
    SIMPLER("", ONE(OUTEX(x)), ONE(OUTEX(x)));
    SIMPLER("0>2 1>2 ", ONE(OUTEX(x)), ONE(OUTEX(x)), ONE(IN(x)));
    SIMPLER("0>1 1>2 ", ONE(OUTEX(x)), ONE(INOUT(x)), ONE(IN(x)));
    SIMPLER("0>1 0>2 1>2 ", ONE(OUTEX(x)), ONE(INOUT(flat(BASE, 0, 32))), ONE(IN(x)));
    SIMPLER("", MANUAL(OUTEX(x)), ONE(IN(x)));
}

static void simpler_compares_versions_first(void **state)
{
    struct check_region x = flat(BASE, 0, 64), far = flat(BASE, 100, 110);

    (void)state;
    SIMPLER("0>1 ", ONE(OUTEX(x)), ONE(IN(version(far, 1))));
    SIMPLER("", ONE(OUTEX(version(x, 1))), ONE(IN(far)));
    /* A newer version covers nothing, so the older record stays. */
    SIMPLER("0>1 0>2 1>2 ", ONE(OUTEX(x)), ONE(INOUT(version(x, 1))), ONE(IN(version(x, 1))));
    SAFE("", ONE(OUTEX(x)), ONE(IN(version(far, 1))));
}

static void simpler_is_exact_only_in_one_frame(void **state)
{
    struct check_region bytes = flat(BASE, 0, 64), other = flat(BASE, 0, 64);
    struct check_region step = { BASE, 256, 0, 0, 1, PTO_UINT8, false, { 20 }, { 2 } };

    (void)state;
    SIMPLER("", ONE(OUTEX(tile(0, 4, 0, 4))), ONE(IN(tile(0, 4, 4, 8))));
    SIMPLER("0>1 ", ONE(OUTEX(transposed(tile(0, 4, 0, 4)))), ONE(IN(tile(0, 4, 4, 8))));
    SIMPLER("0>1 ", ONE(OUTEX(flat(BASE, 22, 34))), ONE(IN(tile(1, 4, 2, 6))));
    SIMPLER("0>1 0>2 1>2 ", ONE(OUTEX(step)), ONE(INOUT(step)), ONE(IN(step)));
    /* Another type of the same size never covers. */
    other.dtype = PTO_INT8;
    SIMPLER("0>1 0>2 1>2 ", ONE(OUTEX(bytes)), ONE(INOUT(other)), ONE(IN(bytes)));
}

static void empty_views_name_nothing(void **state)
{
    struct check_region x = flat(BASE, 0, 64), none = flat(BASE, 8, 8);

    (void)state;
    SAFE("", ONE(OUTEX(x)), ONE(INOUT(none)));
    SAFE("", ONE(OUTEX(none)), ONE(IN(x)));
    SIMPLER("", ONE(OUTEX(x)), ONE(IN(none)));
    SIMPLER("", ONE(OUTEX(x)), ONE(IN(version(none, 1))));
    SIMPLER("", ONE(OUTEX(none)), ONE(IN(version(x, 1))));
}

static void the_operand_of_a_predicate_is_one_more_input(void **state)
{
    struct check_region x = flat(BASE, 0, 64);
    struct step steps[] = { ONE(created(PTO_TAG_OUTPUT, 0, x)), WHEN(x, 5), MANUAL(IN(x)) };

    (void)state;
    SAFE("0>1 ", ONE(OUTEX(x)), WHEN(x, 63), WHEN(flat(BASE, 64, 65), 0));
    SAFE("0>1 ", WHEN(x, 5), ONE(OUTEX(flat(BASE, 5, 6))), ONE(OUTEX(flat(BASE, 6, 7))));
    SAFE("0>1 ", ONE(OUTEX(x)), WHEN(x, 0), WHEN(manual_dep(x), 0));
    SIMPLER("", ONE(OUTEX(x)), WHEN(x, 0), ONE(OUTEX(x)));
    /* After its arguments: the task itself wrote the element last. */
    steps[1] = (struct step)TWO(IN(x), OUTEX(x));
    steps[1].predicate = predicate(x, 5);
    expect_edges(PTO_DEPS_SAFE, (struct step[]){ ONE(OUTEX(x)), steps[1] }, 2, "0>1 ");
    /* Tasks wait for the creator even if the tensor opted out, except in a MANUAL scope. */
    steps[0] = (struct step)ONE(created(PTO_TAG_OUTPUT, 0, x));
    steps[1] = (struct step)WHEN(manual_dep(x), 5);
    steps[1].predicate.element.creator = 0;
    steps[2] = steps[1];
    steps[2].is_manual = true;
    expect_edges(PTO_DEPS_SAFE, steps, 3, "0>1 ");
    expect_edges(PTO_DEPS_SIMPLER, steps, 3, "");
}

/* Three tasks: one writes [0, 64), one opted out and reads [64, 128), the third has accesses. */
static void accesses_are_done_where_they_are_determined(void **state)
{
    struct check_scope scopes[] = { { -1, 0, false } };
    struct check_arg args[2] = { OUTEX(flat(CHECK_ARENA_BASE, 0, 64)),
                                 NODEP(flat(CHECK_ARENA_BASE, 64, 128)) };
    struct check_element at[3] = { { -1, 0, flat(CHECK_ARENA_BASE, 0, 256), 1, { 7 } },
                                   { -1, 0, flat(CHECK_ARENA_BASE, 0, 256), 1, { 70 } },
                                   { -1, 0, flat(CHECK_ARENA_BASE, 0, 256), 1, { 200 } } };
    struct check_access accesses[6];
    struct check_task tasks[3] = { { .kind = AIV, .arg_count = 1, .args = &args[0] },
                                   { .kind = AIV, .arg_count = 1, .args = &args[1] },
                                   { .kind = AIV, .access_count = 6, .accesses = accesses } };
    struct check_graph g = { .deps = PTO_DEPS_SAFE,
                             .arena_bytes = 256,
                             .task_count = 3,
                             .tasks = tasks,
                             .scope_count = 1,
                             .scopes = scopes,
                             .is_compared = true };

    (void)state;
    args[0].writes = args[1].may_read = true;
    for (int i = 0; i < 6; i++)
        accesses[i] = (struct check_access){ .is_set = i >= 3, .element = at[i % 3] };
    check_model_prepare(&g);
    /* A get waits for the writer; in host mode that is impossible. */
    assert_true(accesses[0].is_streamed && !accesses[0].is_held);
    assert_true(accesses[1].is_streamed && accesses[1].is_held);
    assert_true(accesses[2].is_streamed && accesses[2].is_held);
    /* A set does not wait for a reader that opted out; in host mode it precedes all tasks. */
    assert_true(accesses[3].is_streamed && !accesses[3].is_held);
    assert_true(!accesses[4].is_streamed && accesses[4].is_held);
    assert_true(accesses[5].is_streamed && accesses[5].is_held);
    for (int i = 0; i < 3; i++)
        free(tasks[i].deps);
    free(g.before);
    free(g.ancestors);
}

static void a_notifier_never_waits_for_whom_it_notifies(void **state)
{
    struct check_scope scopes[] = { { -1, 0, false } };
    struct check_region x = flat(CHECK_ARENA_BASE, 0, 64);
    struct check_arg args[2] = { OUTEX(x), IN(x) };
    struct check_access access = { .element = {
                                       -1, 0, flat(CHECK_ARENA_BASE, 100, 101), 0, { 0 } } };
    struct check_task tasks[4] = { { .kind = AIV },
                                   { .kind = AIV, .arg_count = 1, .args = &args[0] },
                                   { .kind = AIV, .arg_count = 1, .args = &args[1] },
                                   { .kind = AIV } };
    struct check_graph g = { .deps = PTO_DEPS_SAFE,
                             .arena_bytes = 256,
                             .task_count = 4,
                             .tasks = tasks,
                             .scope_count = 1,
                             .scopes = scopes,
                             .is_compared = true };

    (void)state;
    tasks[1].defer = (struct check_defer){ .is_on = true, .candidates = { 0, 3 } };
    check_model_prepare(&g);
    assert_int_equal(tasks[1].defer.notifier_count, 2);
    /* The third task waits for the deferred one. */
    tasks[1].defer.candidates[1] = 2;
    check_model_prepare(&g);
    assert_int_equal(tasks[1].defer.notifier_count, 1);
    assert_int_equal(tasks[1].defer.notifiers[0], 0);
    /* The orchestration may wait for the deferred task before it submits the last task. */
    tasks[1].defer.candidates[1] = 3;
    tasks[3].access_count = 1;
    tasks[3].accesses = &access;
    check_model_prepare(&g);
    assert_int_equal(tasks[1].defer.notifier_count, 1);
    free(g.before);
    free(g.ancestors);
}

static void prepare_orders_what_opted_out(void **state)
{
    struct check_scope scopes[] = { { -1, 0, false } };
    struct check_arg args[2] = { NODEP(flat(CHECK_ARENA_BASE, 0, 64)),
                                 OUTEX(flat(CHECK_ARENA_BASE, 32, 96)) };
    struct check_task tasks[2] = { { .kind = AIV, .arg_count = 1, .args = &args[0] },
                                   { .kind = AIV, .arg_count = 1, .args = &args[1] } };
    struct check_graph g = { .deps = PTO_DEPS_SAFE,
                             .arena_bytes = 256,
                             .task_count = 2,
                             .tasks = tasks,
                             .scope_count = 1,
                             .scopes = scopes,
                             .is_compared = true };

    (void)state;
    args[1].writes = true;
    check_model_prepare(&g);
    assert_int_equal(tasks[1].dep_count, 0);
    args[0].may_read = true;
    check_model_prepare(&g);
    assert_true(args[0].reads);
    assert_int_equal(tasks[1].dep_count, 1);
    assert_true(bit_get(graph_before(&g, 1), 0));
    assert_int_equal(g.unsound[0], -1);
    free(tasks[0].deps);
    free(tasks[1].deps);
    free(g.before);
    free(g.ancestors);
}

/* ---- regions against sets of bytes ---- */

/* A box in an 8 x 8 x 8 cube of bytes, with its dimensions in any order. */
static struct check_region any_box(void)
{
    struct check_region r = { .size = 512, .ndims = 3, .dtype = PTO_UINT8 };
    uint32_t turn = random_below(3);

    for (uint32_t d = 0; d < 3; d++) {
        uint32_t at = (d + turn) % 3;
        uint32_t low = random_below(8);

        r.strides[at] = d == 0 ? 64 : d == 1 ? 8 : 1;
        r.shapes[at] = 1 + random_below(8 - low);
        r.start += low * r.strides[at];
    }
    return r;
}

/* Any strides, but often those of other views, so that frames and intervals overlap. */
static struct check_region any_region(void)
{
    static const uint32_t types[] = { PTO_UINT8, PTO_INT16, PTO_FLOAT32, PTO_INT64 };
    static const uint32_t frames[][3] = { { 64, 8, 1 }, { 32, 4, 2 }, { 24, 6, 1 }, { 1, 8, 32 } };
    struct check_region r = { .addr = random_below(3) == 0 ? 4 * random_below(4) : 0,
                              .size = 512,
                              .version = 0 };
    const uint32_t *frame = frames[random_below(2) == 0 ? random_below(4) : 0];
    uint64_t room;

    r.dtype = types[random_below(3) == 0 ? random_below(4) : 0];
    r.ndims = 1 + random_below(3);
    room = 512 / pto_dtype_size(r.dtype);
    r.start = random_below(3) == 0 ? 0 : random_below((uint32_t)room);
    room -= r.start + 1;
    for (uint32_t d = 0; d < r.ndims; d++) {
        uint32_t most;

        r.strides[d] = random_below(20) == 0 ? 1 + random_below(9) : frame[3 - r.ndims + d];
        most = (uint32_t)(room / r.strides[d]) + 1;
        r.shapes[d] = random_below(40) == 0 ? 0 : 1 + random_below(most < 5 ? most : 5);
        if (r.shapes[d] != 0)
            room -= (uint64_t)(r.shapes[d] - 1) * r.strides[d];
    }
    return r;
}

static void fill_bytes(const struct check_region *r, uint8_t bytes[MEMORY])
{
    uint64_t e = pto_dtype_size(r->dtype);

    memset(bytes, 0, MEMORY);
    if (check_region_is_empty(r))
        return;
    /* Does not use struct check_walk, because it must not share mistakes with it. */
    for (uint32_t i = 0; i < r->shapes[0]; i++) {
        for (uint32_t j = 0; j < (r->ndims > 1 ? r->shapes[1] : 1); j++) {
            for (uint32_t k = 0; k < (r->ndims > 2 ? r->shapes[2] : 1); k++) {
                uint64_t element =
                    r->start + i * r->strides[0] + j * r->strides[1] + k * r->strides[2];

                memset(bytes + r->addr + element * e, 1, e);
            }
        }
    }
}

static void decisions_agree_with_sets_of_bytes(void **state)
{
    uint32_t seen[6][2] = { { 0 } }, covered = 0, same = 0, apart = 0;

    (void)state;
    for (int n = 0; n < 200000; n++) {
        struct check_region a = random_below(2) == 0 ? any_box() : any_region();
        struct check_region b = random_below(50) == 0  ? a
                                : random_below(2) == 0 ? any_box()
                                                       : any_region();
        uint8_t in_a[MEMORY], in_b[MEMORY];
        bool meets = false, contains = true, equals = true, covers;
        int rule = 0;
        bool overlaps = check_region_overlaps(&a, &b, &rule);

        fill_bytes(&a, in_a);
        fill_bytes(&b, in_b);
        for (int i = 0; i < MEMORY; i++) {
            meets = meets || (in_a[i] && in_b[i]);
            contains = contains && (in_a[i] || !in_b[i]);
            equals = equals && in_a[i] == in_b[i];
        }
        assert_in_range(rule, 1, 5);
        seen[rule][overlaps]++;
        if (!overlaps)
            assert_false(meets);
        if (overlaps && rule != 5)
            assert_true(meets);
        assert_int_equal(overlaps, check_region_overlaps(&b, &a, NULL));
        if (check_region_covers(&a, &b)) {
            covered++;
            assert_true(contains && overlaps);
        }
        if (check_region_is_same(&a, &b) && !check_region_is_empty(&a)) {
            same++;
            assert_true(equals);
        }
        if (a.addr == b.addr && a.dtype == b.dtype &&
            !check_region_overlaps_simpler(&a, &b, &covers)) {
            apart++;
            assert_false(meets);
        } else if (a.dtype == b.dtype && check_region_overlaps_simpler(&a, &b, &covers) && covers) {
            assert_true(contains);
        }
    }
    /* The numbers are well above these; a generator that misses a case is a broken test. */
    assert_true(seen[1][0] > 300 && seen[2][1] > 300 && seen[5][1] > 300);
    assert_true(seen[3][0] > 300 && seen[3][1] > 300 && seen[4][0] > 300 && seen[4][1] > 300);
    assert_true(covered > 300 && same > 300 && apart > 300);
}

static void a_walk_visits_elements_in_index_order(void **state)
{
    struct check_region r = transposed(tile(1, 3, 4, 7));
    static const uint64_t expect[] = { 20, 36, 21, 37, 22, 38 };
    struct check_walk w;
    uint64_t n = 0;

    (void)state;
    for (check_walk_init(&w, &r); check_walk_next(&w); n++) {
        assert_true(n < 6);
        assert_int_equal(w.number, n);
        assert_int_equal(w.addr, BASE + expect[n]);
    }
    assert_int_equal(n, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_wait_for_writes),
        cmocka_unit_test(writes_wait_for_writes_and_reads),
        cmocka_unit_test(a_reader_of_the_same_region_supersedes_its_writer),
        cmocka_unit_test(a_covering_writer_removes_records),
        cmocka_unit_test(a_manual_scope_waits_for_nothing_but_is_recorded),
        cmocka_unit_test(opted_out_arguments_are_not_ordered),
        cmocka_unit_test(users_wait_for_the_creator),
        cmocka_unit_test(an_output_is_a_write_of_its_buffer),
        cmocka_unit_test(explicit_dependencies_wait_or_retain),
        cmocka_unit_test(bytes_count_not_base_addresses),
        cmocka_unit_test(tiles_of_one_frame_are_exact),
        cmocka_unit_test(a_transposed_whole_matrix_is_its_interval),
        cmocka_unit_test(a_contiguous_range_against_a_box_is_exact),
        cmocka_unit_test(interleaved_steps_do_not_meet),
        cmocka_unit_test(arguments_are_taken_in_their_order),
        cmocka_unit_test(simpler_orders_after_writers_only),
        cmocka_unit_test(simpler_compares_versions_first),
        cmocka_unit_test(simpler_is_exact_only_in_one_frame),
        cmocka_unit_test(empty_views_name_nothing),
        cmocka_unit_test(the_operand_of_a_predicate_is_one_more_input),
        cmocka_unit_test(accesses_are_done_where_they_are_determined),
        cmocka_unit_test(a_notifier_never_waits_for_whom_it_notifies),
        cmocka_unit_test(prepare_orders_what_opted_out),
        cmocka_unit_test(decisions_agree_with_sets_of_bytes),
        cmocka_unit_test(a_walk_visits_elements_in_index_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

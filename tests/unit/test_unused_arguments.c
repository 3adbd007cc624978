/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments that no kernel used: which they are, which dependencies they cause, and what they cost.
 */
#include "tool/see/unused_arguments.h"

#include "tests/fixture/recording_test.h"

enum { TILE = 64, WORKERS = 8, MATRIX = 4096, OWN = 65536 };

static uint32_t kernel_first, kernel_work, kernel_last;

static void add_argument(struct plan *p, enum pto_tag tag, uint64_t addr, uint32_t bytes)
{
    struct see_recording *r = p->r;

    r->argument = plan_grow(r->argument, r->argument_count, sizeof(*r->argument));
    r->argument[r->argument_count++] = (struct see_argument){ .addr = addr,
                                                              .size = bytes,
                                                              .extent = bytes,
                                                              .dtype = PTO_UINT8,
                                                              .tag = (uint8_t)tag,
                                                              .ndims = 1,
                                                              .owner = PTO_RECORDING_NONE,
                                                              .shapes = { bytes },
                                                              .strides = { 1 } };
}

/* Records that the kernel of a task has used its last argument, or nothing. */
static void add_touch(struct plan *p, uint32_t task, bool has_part, uint64_t addr, uint32_t bytes)
{
    struct see_recording *r = p->r;
    struct see_touch t = { .task = task, .kind = PTO_RECORDING_TOUCH_KNOWN };

    r->touch = plan_grow(r->touch, r->touch_count, sizeof(*r->touch));
    r->touch[r->touch_count++] = t;
    if (!has_part)
        return;
    t.kind = PTO_RECORDING_TOUCH_WRITE;
    t.part = (struct see_argument){ .addr = addr,
                                    .extent = bytes,
                                    .dtype = PTO_UINT8,
                                    .ndims = 1,
                                    .shapes = { bytes },
                                    .strides = { 1 } };
    r->touch = plan_grow(r->touch, r->touch_count, sizeof(*r->touch));
    r->touch[r->touch_count++] = t;
}

static uint32_t add_task(struct plan *p, uint32_t kernel, uint32_t line)
{
    uint32_t task = plan_task(p, kernel, 1000);
    struct see_recording *r = p->r;

    plan_line(p, task, "orch.c", line);
    r->argument_from = realloc(r->argument_from, (task + 2ull) * sizeof(*r->argument_from));
    assert_non_null(r->argument_from);
    r->argument_from[task] = r->argument_count;
    return task;
}

/*
 * One task writes a matrix, others each write a tile of another buffer and declare the matrix, and
 * the last one reads `bytes` of the matrix. Each task waits for the one before.
 */
static void make_chain(struct plan *p, bool is_known, bool is_used, uint64_t read_at)
{
    uint32_t task = 0;

    plan_begin(p, 4);
    kernel_first = plan_kernel(p, "first", PTO_CORE_AIV);
    kernel_work = plan_kernel(p, "work", PTO_CORE_AIV);
    kernel_last = plan_kernel(p, "last", PTO_CORE_AIV);
    task = add_task(p, kernel_first, 5);
    add_argument(p, PTO_TAG_INOUT, MATRIX, WORKERS * TILE);
    add_touch(p, task, true, MATRIX, WORKERS * TILE);
    for (uint32_t i = 0; i < WORKERS; i++) {
        task = add_task(p, kernel_work, 9);
        add_argument(p, PTO_TAG_INOUT, OWN + i * TILE, TILE);
        add_argument(p, PTO_TAG_INOUT, MATRIX, WORKERS * TILE);
        if (is_known)
            add_touch(p, task, true, is_used ? MATRIX : OWN + i * TILE, TILE);
        plan_edge(p, task - 1, task, PTO_RECORDING_REASON_RAW, i == 0 ? 0 : 1, 1);
    }
    task = add_task(p, kernel_last, 12);
    add_argument(p, PTO_TAG_INPUT, read_at, TILE);
    add_touch(p, task, true, read_at, TILE);
    plan_edge(p, task - 1, task, PTO_RECORDING_REASON_RAW, 1, 0);
    p->r->argument_from[task + 1] = p->r->argument_count;
    plan_play(p);
}

/* Analyses and frees the plan. */
static struct see_unused_arguments analyse(struct plan *p)
{
    struct see_unused_arguments unused;
    struct pto_error error = { .size = sizeof(error) };
    struct see_analysis *a = NULL;

    if (see_analysis_make(p->r, PTO_RECORDING_NONE, false, &a, &error) != PTO_OK)
        fail_msg("%s", error.text);
    assert_int_equal(see_unused_arguments_make(a, &unused), PTO_OK);
    see_analysis_free(a);
    plan_end(p);
    return unused;
}

static void expect_row(const struct see_unused_argument *of, uint64_t pairs, double change)
{
    assert_int_equal(of->kernel, kernel_work);
    assert_int_equal(of->line, 9);
    assert_int_equal(of->tasks, WORKERS);
    assert_int_equal(of->first, 1);
    assert_int_equal(of->pairs, pairs);
    if (of->is_finding != (change < 0))
        fail_msg("%lu pairs, %lu ns, %g", (unsigned long)of->pairs, (unsigned long)of->ns,
                 of->change);
    if (of->change < change - 0.01 || of->change > change + 0.01)
        fail_msg("a change of %g, not %g", of->change, change);
}

static void an_unused_argument_costs_what_it_serialises(void **state)
{
    struct see_unused_arguments unused;
    struct plan p;

    (void)state;
    /* 10 tasks in a row; without the argument the last one waits for the first one */
    make_chain(&p, true, false, MATRIX + 3 * TILE);
    unused = analyse(&p);
    assert_int_equal(unused.count, 1);
    assert_int_equal(unused.of[0].argument, 1);
    expect_row(&unused.of[0], WORKERS + 1, 0.2 - 1);
    see_unused_arguments_free(&unused);
    /* the last one reads other memory, and waits for nothing */
    make_chain(&p, true, false, 2 * OWN);
    unused = analyse(&p);
    assert_int_equal(unused.count, 1);
    expect_row(&unused.of[0], WORKERS + 1, 0.2 - 1);
    assert_true(unused.of[0].ns > 1900 && unused.of[0].ns < 2100); /* 10 tasks on 8 cores */
    see_unused_arguments_free(&unused);
}

static void what_is_used_or_unknown_is_left_out(void **state)
{
    struct see_unused_arguments unused;
    struct plan p;

    (void)state;
    make_chain(&p, true, true, MATRIX);
    unused = analyse(&p);
    assert_int_equal(unused.count, 1); /* arguments for the tiles, which cause no dependency */
    assert_int_equal(unused.of[0].argument, 0);
    expect_row(&unused.of[0], 0, 0);
    see_unused_arguments_free(&unused);
    make_chain(&p, false, false, MATRIX);
    unused = analyse(&p);
    assert_int_equal(unused.count, 0);
    see_unused_arguments_free(&unused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unused_argument_costs_what_it_serialises),
        cmocka_unit_test(what_is_used_or_unknown_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

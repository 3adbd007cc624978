/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outputs with guards and poison, through the public interface: kernels that write outside of their
 * tensors, tasks that read memory that no task wrote, and correct programs, which must not be
 * reported. In both modes, and as graphs that are built and launched.
 */
#undef _GNU_SOURCE /* <sched.h> defines a SCHED_BATCH as well if _GNU_SOURCE is set */

#include "sched/guarded.h"
#include "tests/fixture/device_test.h"

enum {
    KERNEL_WRITE,     /* tensor, first, count: writes ones, also outside of the tensor */
    KERNEL_WRITE_AIC, /* the same */
    KERNEL_READ,      /* tensor: nothing */
    KERNEL_PEEK,      /* tensor: stores the bits of the first and of the last element */
    KERNEL_BEYOND,    /* the same for the elements before and after them */
    KERNEL_STRAY,     /* tensor: writes after the last element, and does not return before it may */
    KERNEL_STRAY_AIC, /* the same, after the other lanes have begun */
    KERNEL_BEGIN,     /* reports that it has begun */
    KERNEL_ATTEND,    /* returns when another kernel has written after the last element */
    KERNEL_BY_HAND,   /* tensor: two invocations of one task proceed step by step */
    KERNEL_SCALARS,   /* a scalar, or none: stores the first two slots */
    KERNEL_COPY,      /* from, to, count: copies this many elements, also outside of the tensors */
    KERNEL_AXPY,      /* the same: to = 2 from + to */
    KERNEL_SCALE,     /* tensor, count: doubles this many elements */
    KERNEL_HALF,      /* elements of 16 bits: copies elements that are one further */
    KERNELS
};

enum { FLOATS = 100, FULL = 256 }; /* 400 bytes need 624 bytes of padding; 1024 bytes need none */

static struct {
    uint32_t first;
    uint32_t last;
    uint32_t peeks;
    uint32_t flag; /* of a predicate */
    uint64_t freed;
} seen;

static void kernel_write(int64_t *args)
{
    const struct pto_tensor *t = pto_arg_tensor(args, 0);
    float *data = pto_tensor_data(t);

    for (int64_t i = 0; i < args[2]; i++)
        data[args[1] + i] = 1.0f;
}

static void kernel_read(int64_t *args)
{
    (void)args;
}

static void kernel_peek(int64_t *args)
{
    const struct pto_tensor *t = pto_arg_tensor(args, 0);
    const uint32_t *data = pto_tensor_data(t);

    seen.first = data[0];
    seen.last = data[t->extent - 1];
    bump(&seen.peeks);
}

static void kernel_beyond(int64_t *args)
{
    const struct pto_tensor *t = pto_arg_tensor(args, 0);
    const uint32_t *data = pto_tensor_data(t);

    seen.first = data[-1];
    seen.last = data[t->extent];
    bump(&seen.peeks);
}

/* ---- two at a time ---- */

static struct {
    uint32_t has_strayed;
    uint32_t may_return;
    uint32_t begun;
    uint32_t steps; /* by hand */
} beside;

static void kernel_stray(int64_t *args)
{
    const struct pto_tensor *t = pto_arg_tensor(args, 0);

    ((float *)(uintptr_t)t->addr)[FLOATS] = 1.0f; /* for a view as well: after the whole tensor */
    bump(&beside.has_strayed);
    wait_until(&beside.may_return, 1, true);
}

static void kernel_stray_aic(int64_t *args)
{
    const struct pto_tensor *t = pto_arg_tensor(args, 0);

    ((float *)(uintptr_t)t->addr)[FLOATS] = 1.0f;
    wait_until(&beside.begun, 2, true);
}

static void kernel_begin(int64_t *args)
{
    (void)args;
    bump(&beside.begun);
}

static void kernel_attend(int64_t *args)
{
    (void)args;
    bump(&beside.begun);
    wait_until(&beside.has_strayed, 1, true);
}

/* Two lanes of one task and a lane of another one; each step has a single possible outcome. */
static void kernel_by_hand(int64_t *args)
{
    const struct pto_tensor *t = pto_arg_tensor(args, 0);
    struct guarded_watch watch[2] = { { .next = &watch[1] }, { .next = NULL } };
    const struct slot lane = { .seq = 7, .tensor_count = 1, .lanes = 7 };
    uint32_t *behind = (uint32_t *)(uintptr_t)t->addr + FLOATS, before = *behind;

    EXPECT(guarded_enter(watch, &watch[0], &lane, t) == 0);
    EXPECT(guarded_enter(watch, &watch[1], &lane, t) == 0);
    guarded_withdraw(&watch[1]); /* it has returned */
    *behind = 1;                 /* by the first lane */
    EXPECT(guarded_enter(watch, &watch[1], &lane, t) == GUARDED_LEFT);
    guarded_withdraw(&watch[0]); /* the kernel has returned, and the damage was reported */
    EXPECT(guarded_enter(watch, &watch[1], &lane, t) == GUARDED_EARLIER);
    *behind = before;
    EXPECT(guarded_enter(watch, &watch[1], &lane, t) == 0);
    bump(&beside.steps);
}

static struct {
    int64_t first;
    int64_t second;
} slots;

static void kernel_scalars(int64_t *args)
{
    slots.first = args[0];
    slots.second = args[1];
}

static void kernel_copy(int64_t *args)
{
    const float *from = pto_tensor_data(pto_arg_tensor(args, 0));
    float *to = pto_tensor_data(pto_arg_tensor(args, 1));

    for (int64_t i = 0; i < args[2]; i++)
        to[i] = from[i];
}

static void kernel_axpy(int64_t *args)
{
    const float *from = pto_tensor_data(pto_arg_tensor(args, 0));
    float *to = pto_tensor_data(pto_arg_tensor(args, 1));

    for (int64_t i = 0; i < args[2]; i++)
        to[i] = 2 * from[i] + to[i];
}

static void kernel_scale(int64_t *args)
{
    float *x = pto_tensor_data(pto_arg_tensor(args, 0));

    for (int64_t i = 0; i < args[1]; i++)
        x[i] *= 2;
}

static void kernel_half(int64_t *args)
{
    uint16_t *x = pto_tensor_data(pto_arg_tensor(args, 0));

    for (int64_t i = 0; i < args[1]; i++)
        x[i] = x[i + 1];
}

static const struct pto_kernel kernels[KERNELS] = {
    [KERNEL_SCALARS] = { "scalars", kernel_scalars, PTO_CORE_AIV },
    [KERNEL_COPY] = { "copy", kernel_copy, PTO_CORE_AIV },
    [KERNEL_AXPY] = { "axpy", kernel_axpy, PTO_CORE_AIV },
    [KERNEL_SCALE] = { "scale", kernel_scale, PTO_CORE_AIV },
    [KERNEL_HALF] = { "half", kernel_half, PTO_CORE_AIV },
    [KERNEL_WRITE] = { "write", kernel_write, PTO_CORE_AIV },
    [KERNEL_WRITE_AIC] = { "write-aic", kernel_write, PTO_CORE_AIC },
    [KERNEL_READ] = { "read", kernel_read, PTO_CORE_AIV },
    [KERNEL_PEEK] = { "peek", kernel_peek, PTO_CORE_AIV },
    [KERNEL_BEYOND] = { "beyond", kernel_beyond, PTO_CORE_AIV },
    [KERNEL_STRAY] = { "stray", kernel_stray, PTO_CORE_AIV },
    [KERNEL_STRAY_AIC] = { "stray-aic", kernel_stray_aic, PTO_CORE_AIC },
    [KERNEL_BEGIN] = { "begin", kernel_begin, PTO_CORE_AIV },
    [KERNEL_ATTEND] = { "attend", kernel_attend, PTO_CORE_AIV },
    [KERNEL_BY_HAND] = { "by-hand", kernel_by_hand, PTO_CORE_AIV },
};

static struct pto_tensor_info floats(uint32_t count)
{
    return pto_tensor_info_make(PTO_DIMS(count), 1, PTO_FLOAT32);
}

static struct pto_run_options guarded(void)
{
    struct pto_run_options options;

    pto_run_options_init(&options);
    options.has_guards = true;
    return options;
}

/* Runs as a run, and as a graph that is built and launched twice; the messages must be equal. */
static int run(const struct setting *at, pto_orch_fn orchestration)
{
    struct pto_callable *callable = make_callable(kernels, KERNELS, orchestration);
    struct pto_run_options options = guarded();
    struct pto_graph *graph = NULL;
    int status, again = PTO_OK;

    pto_run_report_init(&report);
    again = pto_graph_build(at->device, callable, NULL, &options, &report, &graph);
    options.has_guards = false; /* as it was built */
    for (uint32_t i = 0; i < 2 && graph != NULL && again >= 0; i++)
        again = pto_graph_run(graph, NULL, &options, &report);
    assert_int_equal(pto_graph_destroy(graph), graph != NULL ? PTO_OK : PTO_EINVAL);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    options = guarded();
    status = run_with(at, kernels, KERNELS, orchestration, &options);
    assert_int_equal(again, status);
    return status;
}

/* ---- kernels that leave their tensors ---- */

static struct {
    uint32_t floats;
    int64_t first;
    int64_t count;
} plan;

static void orchestrate_write(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = floats(plan.floats);

    (void)entry;
    pto_aiv(o, KERNEL_WRITE, PTO_OUT(&info), PTO_INT(plan.first), PTO_INT(plan.count));
}

static void expect_overrun(const struct setting *at, uint32_t count, int64_t first, int64_t writes,
                           const char *words)
{
    plan.floats = count;
    plan.first = first;
    plan.count = writes;
    assert_refused(run(at, orchestrate_write), PTO_EOVERRUN, words);
    assert_int_equal(report.error.argument, 0);
    assert_int_equal(report.error.kernel, KERNEL_WRITE);
    assert_non_null(strstr(report.error.text, "test_guards.c"));
}

static void whoever_writes_beyond_a_tensor_is_named(const struct setting *at)
{
    expect_overrun(
        at, FLOATS, 0, FLOATS + 1,
        "kernel \"write\" wrote up to 4 bytes beyond the end of argument 0 of task 0, an "
        "intermediate tensor of 400 bytes; ");
    expect_overrun(at, FULL, 0, FULL + 2, "wrote up to 8 bytes beyond the end of argument 0");
    expect_overrun(at, FULL, FULL + 200, 1, "wrote up to 804 bytes beyond the end");
    expect_overrun(at, FULL, 0, 2 * FULL, "wrote at least 1024 bytes beyond the end");
    expect_overrun(at, FLOATS, -3, 3, "wrote up to 12 bytes before the start of argument 0");
}

/* Both tensors have a guard at the position that the kernel reads and writes. */
static void orchestrate_pair(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = floats(plan.floats);
    struct pto_outputs from, to;

    (void)entry;
    from = pto_aiv(o, KERNEL_WRITE, PTO_OUT(&info), PTO_INT(0), PTO_INT(plan.floats));
    to = pto_aiv(o, KERNEL_WRITE, PTO_OUT(&info), PTO_INT(0), PTO_INT(plan.floats));
    if (to.count == 1)
        pto_aiv(o, plan.first, PTO_IN(pto_output(from, 0)), PTO_INOUT(pto_output(to, 0)),
                PTO_INT(plan.floats + plan.count));
}

static void orchestrate_alone(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = floats(plan.floats);

    (void)entry;
    if (plan.first == KERNEL_HALF)
        info = pto_tensor_info_make(PTO_DIMS(plan.floats), 1, PTO_FLOAT16);
    pto_aiv(o, plan.first, PTO_OUT(&info), PTO_INT(plan.floats + plan.count));
}

static void a_guard_that_is_copied_into_another_is_noticed(const struct setting *at)
{
    for (plan.floats = FLOATS - 1; plan.floats <= FULL; plan.floats += FULL - FLOATS + 1) {
        for (plan.count = 1; plan.count <= 20; plan.count += 19) {
            plan.first = KERNEL_COPY;
            assert_refused(run(at, orchestrate_pair), PTO_EOVERRUN, "kernel \"copy\" wrote up to");
            plan.first = KERNEL_AXPY;
            assert_refused(run(at, orchestrate_pair), PTO_EOVERRUN, "kernel \"axpy\" wrote up to");
        }
    }
}

static void a_guard_that_is_updated_in_place_is_noticed(const struct setting *at)
{
    plan.count = 2;
    for (plan.floats = FLOATS - 1; plan.floats <= FULL; plan.floats += FULL - FLOATS + 1) {
        plan.first = KERNEL_SCALE;
        assert_refused(run(at, orchestrate_alone), PTO_EOVERRUN, "kernel \"scale\" wrote up to 8");
        plan.first = KERNEL_HALF;
        assert_refused(run(at, orchestrate_alone), PTO_EOVERRUN, "kernel \"half\" wrote up to");
    }
}

static void orchestrate_team(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = floats(FLOATS);

    (void)entry;
    pto_mix(o, PTO_LANES(KERNEL_WRITE_AIC, KERNEL_READ, KERNEL_READ), PTO_OUT(&info), PTO_INT(0),
            PTO_INT(FLOATS + 1));
}

static void so_is_a_lane_of_a_team(const struct setting *at)
{
    assert_refused(run(at, orchestrate_team), PTO_EOVERRUN,
                   "or another lane wrote up to 4 bytes beyond the end of argument 0");
}

/*
 * The other lanes begin while the first lane, which has written outside of its tensor, is still in
 * its kernel.
 */
static void orchestrate_team_at_once(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = floats(FLOATS);

    (void)entry;
    pto_mix(o, PTO_LANES(KERNEL_STRAY_AIC, KERNEL_BEGIN, KERNEL_BEGIN), PTO_OUT(&info));
}

static void orchestrate_by_hand(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = floats(FLOATS);

    (void)entry;
    pto_aiv(o, KERNEL_BY_HAND, PTO_OUT(&info));
}

static void a_lane_that_begins_later_is_not_blamed(const struct setting *at)
{
    struct pto_run_options options = guarded();

    for (uint32_t i = 0; i < 8; i++) {
        memset(&beside, 0, sizeof(beside));
        assert_refused(run_with(at, kernels, KERNELS, orchestrate_team_at_once, &options),
                       PTO_EOVERRUN,
                       "or another lane wrote up to 4 bytes beyond the end of argument 0");
    }
    memset(&beside, 0, sizeof(beside));
    assert_int_equal(run_with(at, kernels, KERNELS, orchestrate_by_hand, &options), PTO_OK);
    assert_int_equal(beside.steps, 1);
}

/*
 * Two tasks use disjoint halves of a tensor. The first one writes outside of the tensor, and
 * returns when the second one has completed. The second one begins after that write, or before it
 * if `is_first`.
 */
static void submit_halves(struct pto_orch *o, bool is_first)
{
    struct pto_tensor_info info = floats(FLOATS);
    struct pto_outputs out = pto_alloc(o, PTO_OUT(&info));
    struct pto_tensor lower, upper;

    if (pto_output(out, 0) == NULL)
        return;
    lower = pto_tensor_slice(pto_output(out, 0), 0, 0, FLOATS / 2, 1);
    upper = pto_tensor_slice(pto_output(out, 0), 0, FLOATS / 2, FLOATS, 1);
    if (is_first) {
        pto_aiv(o, KERNEL_ATTEND, PTO_WRITE(&upper));
        while (load(&beside.begun) == 0 && pto_orch_status(o) == PTO_OK)
            nap_ns(10000);
    }
    pto_aiv(o, KERNEL_STRAY, PTO_WRITE(&lower));
    while (load(&beside.has_strayed) == 0 && pto_orch_status(o) == PTO_OK)
        nap_ns(10000);
    if (!is_first)
        pto_aiv(o, KERNEL_BEGIN, PTO_WRITE(&upper));
    (void)pto_get_data(o, &upper, 1, (const uint32_t[]){ 0 });
    bump(&beside.may_return);
}

static void orchestrate_beside(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    submit_halves(o, false);
}

static void orchestrate_beside_first(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    submit_halves(o, true);
}

static void a_task_beside_the_culprit_is_not_blamed_for_certain(const struct setting *at)
{
    struct pto_run_options options = guarded();

    if (at->mode != PTO_MODE_STREAM)
        return; /* nothing runs while the graph is built */
    memset(&beside, 0, sizeof(beside));
    assert_refused(run_with(at, kernels, KERNELS, orchestrate_beside, &options), PTO_EOVERRUN,
                   "kernel \"stray\" wrote up to 4 bytes beyond the end of argument 0 of task 1");
    memset(&beside, 0, sizeof(beside));
    assert_refused(run_with(at, kernels, KERNELS, orchestrate_beside_first, &options), PTO_EOVERRUN,
                   "kernel \"attend\" wrote up to 4 bytes beyond the end of argument 0 of task 1, "
                   "an intermediate tensor of 400 bytes, unless it was another task that has this "
                   "tensor and ran at the same time");
}

/* ---- reading what nobody wrote ---- */

static void orchestrate_read_allocated(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = floats(FLOATS);
    struct pto_outputs out = pto_alloc(o, PTO_OUT(&info));

    (void)entry;
    pto_aiv(o, KERNEL_READ, PTO_IN(pto_output(out, 0)));
}

static void orchestrate_read_other_half(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = floats(FLOATS);
    struct pto_outputs out = pto_alloc(o, PTO_OUT(&info));
    struct pto_tensor lower, upper;

    (void)entry;
    if (pto_output(out, 0) == NULL)
        return;
    lower = pto_tensor_slice(pto_output(out, 0), 0, 0, FLOATS / 2, 1);
    upper = pto_tensor_slice(pto_output(out, 0), 0, FLOATS / 2, FLOATS, 1);
    pto_aiv(o, KERNEL_WRITE, PTO_WRITE(&lower), PTO_INT(0), PTO_INT(FLOATS / 2));
    pto_aiv(o, KERNEL_READ, PTO_IN(&upper));
}

static void orchestrate_read_of_dummy(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = floats(FLOATS);
    struct pto_outputs out = pto_dummy(o, PTO_OUT(&info));

    (void)entry;
    pto_aiv(o, KERNEL_READ, PTO_IN(pto_output(out, 0)));
}

static void orchestrate_predicate(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(8), 1, PTO_INT32);
    struct pto_outputs out = pto_alloc(o, PTO_OUT(&info));
    struct pto_tensor lower;

    (void)entry;
    if (pto_output(out, 0) == NULL)
        return;
    lower = pto_tensor_slice(pto_output(out, 0), 0, 0, 4, 1);
    pto_aiv(o, KERNEL_READ, PTO_INOUT(&lower));
    /* this task may have written that */
    pto_aiv(o, KERNEL_READ, PTO_IF(pto_output(out, 0), NE, 0, 3));
    pto_aiv(o, KERNEL_READ, PTO_IF(pto_output(out, 0), NE, 0, 5));
}

static void orchestrate_get(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(8), 1, PTO_INT32);
    struct pto_outputs out = pto_alloc(o, PTO_OUT(&info));

    (void)entry;
    if (pto_output(out, 0) == NULL)
        return;
    pto_set_data(o, pto_output(out, 0), 1, (const uint32_t[]){ 4 }, 7);
    if (pto_get_data(o, pto_output(out, 0), 1, (const uint32_t[]){ 4 }) == 7)
        (void)pto_get_data(o, pto_output(out, 0), 1, (const uint32_t[]){ 5 });
}

static void a_task_that_reads_what_nobody_wrote_is_named(const struct setting *at)
{
    struct pto_run_options options = guarded();

    assert_refused(run(at, orchestrate_predicate), PTO_EUNWRITTEN,
                   "the predicate of task 3 reads an element of a new tensor");
    assert_int_equal(report.error.argument, -1);
    assert_non_null(strstr(report.error.text, "test_guards.c:"));
    if (at->mode == PTO_MODE_STREAM) { /* otherwise there would be nothing to read */
        assert_refused(run_with(at, kernels, KERNELS, orchestrate_get, &options), PTO_EUNWRITTEN,
                       "pto_get_data reads an element of a new tensor");
        assert_non_null(strstr(report.error.text, "test_guards.c:"));
    }
    assert_refused(run(at, orchestrate_read_allocated), PTO_EUNWRITTEN,
                   "argument 0 of task 1 (\"read\") reads 400 bytes");
    assert_int_equal(report.error.argument, 0);
    assert_refused(run(at, orchestrate_read_other_half), PTO_EUNWRITTEN,
                   "argument 0 of task 2 (\"read\") reads 200 bytes");
    assert_refused(run(at, orchestrate_read_of_dummy), PTO_EUNWRITTEN, "argument 0 of task 1");
}

/* ---- what is right ---- */

static void orchestrate_right(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = floats(FLOATS), zero = floats(FLOATS), none = floats(0);
    struct pto_outputs all, part, out = pto_alloc(o, PTO_OUT(&info), PTO_OUT(&zero));
    struct pto_tensor tile, flag = pto_tensor_external(&seen.flag, PTO_DIMS(1), 1, PTO_UINT32);

    (void)entry;
    pto_tensor_info_fill(&zero, 0);
    all = pto_alloc(o, PTO_OUT(&zero), PTO_OUT(&info));
    if (all.count != 2 || out.count != 2)
        return;
    pto_aiv(o, KERNEL_READ, PTO_IN(&all.tensor[0])); /* it starts with a value */
    /* The whole tensor is read, of which only a tile was written, perhaps not completely. */
    tile = pto_tensor_slice(&out.tensor[0], 0, 10, 20, 1);
    pto_aiv(o, KERNEL_WRITE, PTO_WRITE(&tile), PTO_INT(0), PTO_INT(3));
    pto_aiv(o, KERNEL_READ, PTO_IN(&out.tensor[0]));
    /* The first task that updates the tensor; NO_DEP does not say how it uses it. */
    pto_aiv(o, KERNEL_WRITE, PTO_INOUT(&out.tensor[1]), PTO_INT(0), PTO_INT(1));
    pto_aiv(o, KERNEL_READ, PTO_IN(&out.tensor[1]));
    pto_aiv(o, KERNEL_READ, PTO_AFTER(&all.tensor[1]));
    pto_aiv(o, KERNEL_READ, PTO_IN(&all.tensor[1]));
    /* A kernel need not write what it creates, and another kernel may not run at all. */
    part = pto_aiv(o, KERNEL_READ, PTO_OUT(&info));
    pto_aiv(o, KERNEL_READ, PTO_IN(pto_output(part, 0)));
    part = pto_aiv(o, KERNEL_WRITE, PTO_OUT(&info), PTO_INT(0), PTO_INT(FLOATS),
                   PTO_IF(&flag, EQ, 1, 0));
    pto_aiv(o, KERNEL_READ, PTO_IN(pto_output(part, 0)));
    pto_aiv(o, KERNEL_READ, PTO_OUT(&none));
}

static void correct_programs_are_not_suspected(const struct setting *at)
{
    assert_int_equal(run(at, orchestrate_right), PTO_OK);
}

/*
 * An isolated tile is enough: there is room for few spans, and what is not known is not reported.
 */
static void orchestrate_scattered(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = floats(FULL * 16);
    struct pto_outputs out = pto_alloc(o, PTO_OUT(&info));

    (void)entry;
    for (uint32_t pass = 0; pass < 2 && pto_output(out, 0) != NULL; pass++)
        for (uint32_t i = 0; i < FULL; i++) {
            uint32_t at = (i * 37) % FULL * 16;
            struct pto_tensor tile = pto_tensor_slice(pto_output(out, 0), 0, at, at + 8, 1);

            if (pass == 0)
                pto_aiv(o, KERNEL_WRITE, PTO_WRITE(&tile), PTO_INT(0), PTO_INT(1));
            else
                pto_aiv(o, KERNEL_READ, PTO_IN(&tile));
        }
}

static void however_many_tiles_there_are(const struct setting *at)
{
    assert_int_equal(run(at, orchestrate_scattered), PTO_OK);
}

/* ---- poison ---- */

static void orchestrate_peek(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = floats(FLOATS);
    struct pto_tensor at = { .addr = 0 };

    (void)entry;
    pto_aiv(o, KERNEL_PEEK, PTO_OUT(&info));
    PTO_SCOPE(o) {
        struct pto_outputs out = pto_alloc(o, PTO_OUT(&info));

        if (pto_output(out, 0) != NULL)
            at = *pto_output(out, 0);
    }
    if (at.addr != 0)
        memcpy(&seen.freed, (const void *)(uintptr_t)at.addr, sizeof(seen.freed));
}

static void orchestrate_read_beyond(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = floats(plan.floats);
    struct pto_outputs out =
        pto_aiv(o, KERNEL_WRITE, PTO_OUT(&info), PTO_INT(0), PTO_INT(plan.floats));

    (void)entry;
    pto_aiv(o, KERNEL_BEYOND, PTO_IN(pto_output(out, 0)));
}

/* A read beyond a tensor is not detected, but results computed from it are NaN. */
static void what_is_read_beyond_a_tensor_is_no_number(const struct setting *at)
{
    for (plan.floats = FLOATS; plan.floats <= FULL; plan.floats += FULL - FLOATS) {
        memset(&seen, 0, sizeof(seen));
        assert_int_equal(run(at, orchestrate_read_beyond), PTO_OK);
        assert_int_equal(seen.peeks, 3);
        assert_in_range(seen.first << 1, 0xff000002u, UINT32_MAX);
        assert_in_range(seen.last << 1, 0xff000002u, UINT32_MAX);
    }
}

static void outputs_are_poisoned_when_created_and_when_freed(const struct setting *at)
{
    memset(&seen, 0, sizeof(seen));
    assert_int_equal(run(at, orchestrate_peek), PTO_OK);
    assert_int_equal(seen.peeks, 3);
    assert_int_equal(seen.first, 0x7fbfffff); /* signalling NaN */
    assert_int_equal(seen.last, 0x7fbfffff);
    assert_true(seen.freed == 0xfffbfffbfffbfffbull); /* NaN, too, twice */
}

/* ---- without guards ---- */

static void nobody_looks_unless_asked(const struct setting *at)
{
    plan.floats = FLOATS;
    plan.first = 0;
    plan.count = FLOATS + 1; /* in the padding: harmless and not checked */
    assert_int_equal(run_with(at, kernels, KERNELS, orchestrate_write, NULL), PTO_OK);
    assert_int_equal(run_with(at, kernels, KERNELS, orchestrate_read_allocated, NULL), PTO_OK);
}

/* ---- scalars ---- */

static void orchestrate_scalars(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = floats(1);
    struct pto_outputs out = pto_aiv(o, KERNEL_READ, PTO_OUT(&info), PTO_INT(5), PTO_INT(7));

    (void)entry;
    pto_aiv(o, KERNEL_READ, PTO_INOUT(pto_output(out, 0)), PTO_INT(5), PTO_INT(7));
    pto_aiv(o, KERNEL_SCALARS, PTO_INOUT(pto_output(out, 0)));
}

/* Runs on one thread, so that an earlier task used the same slots. */
static void a_scalar_that_was_forgotten_is_no_number(const struct setting *at)
{
    uint32_t bits;
    double wide;
    float value;

    memset(&slots, 0, sizeof(slots));
    assert_int_equal(run(at, orchestrate_scalars), PTO_OK);
    bits = (uint32_t)slots.second;
    memcpy(&value, &bits, sizeof(value));
    memcpy(&wide, &slots.second, sizeof(wide));
    assert_true(value != value);
    assert_true(wide != wide);
    assert_int_not_equal(slots.first, slots.second);
}

/* ---- scopes, guards or not ---- */

static void orchestrate_too_late(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = floats(FLOATS);
    struct pto_tensor t = { .addr = 0 };

    (void)entry;
    PTO_SCOPE(o) {
        struct pto_outputs out = pto_aiv(o, KERNEL_READ, PTO_OUT(&info));

        if (pto_output(out, 0) != NULL)
            t = *pto_output(out, 0);
        for (uint32_t i = 0; i < 8; i++)
            pto_aiv(o, KERNEL_READ, PTO_IN(&t));
    }
    pto_aiv(o, KERNEL_READ, PTO_IN(&t));
}

static void an_output_cannot_be_used_after_its_scope(const struct setting *at)
{
    static const char words[] =
        "argument 0 of task 9 (\"read\") was created by task 0 in the scope of";

    assert_refused(run(at, orchestrate_too_late), PTO_EARGS, words);
    assert_refused(run_with(at, kernels, KERNELS, orchestrate_too_late, NULL), PTO_EARGS, words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(2, whoever_writes_beyond_a_tensor_is_named),
        EACH(2, a_guard_that_is_copied_into_another_is_noticed),
        EACH(2, a_guard_that_is_updated_in_place_is_noticed),
        EACH(2, so_is_a_lane_of_a_team),
        EACH(2, a_lane_that_begins_later_is_not_blamed),
        EACH(2, a_task_beside_the_culprit_is_not_blamed_for_certain),
        EACH(2, a_task_that_reads_what_nobody_wrote_is_named),
        EACH(2, what_is_read_beyond_a_tensor_is_no_number),
        EACH(2, correct_programs_are_not_suspected),
        EACH(2, however_many_tiles_there_are),
        EACH(2, outputs_are_poisoned_when_created_and_when_freed),
        EACH(2, nobody_looks_unless_asked),
        EACH(2, a_scalar_that_was_forgotten_is_no_number),
        EACH(2, an_output_cannot_be_used_after_its_scope),
    };

    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

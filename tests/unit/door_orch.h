/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An orchestration as the reference's compiler would leave it: it knows the layouts
 * (src/door/layout.h) and nothing else of the runtime, which it finds in a variable. The
 * tests compile it, once for each kind, with -DKIND_HOST or without. Scalar 0 says
 * what it is to do, and tensor 0 gets what it noticed.
 */
#include <string.h>

#include "door/layout.h"
#include "pto/rules.h"
#include "tests/unit/door_plays.h"

struct door_runtime {
    const struct door_ops *ops;
    uint8_t scope_mode;
};

#ifdef KIND_HOST
typedef struct door_host_args args_of_kind;
typedef struct door_host_ops ops_of_kind;
void framework_prewarm_graph_recorders(void);
void framework_prewarm_graph_recorders(void)
{
}
#else
typedef struct door_stream_args args_of_kind;
typedef struct door_stream_ops ops_of_kind;
#endif

static struct door_runtime *rt;
static const struct door_entry *entry;
static int32_t *noticed; /* tensor 0 */
static struct door_log_state *log_state;

void framework_bind_runtime(struct door_runtime *runtime);
void framework_bind_runtime(struct door_runtime *runtime)
{
    rt = runtime;
}

int simpler_host_log_bind_state(struct door_log_state *state);
int simpler_host_log_bind_state(struct door_log_state *state)
{
    log_state = state;
    return 0;
}

struct door_config expect_three(const struct door_entry *args);
struct door_config expect_three(const struct door_entry *args)
{
    (void)args;
    return (struct door_config){ 3 };
}

/* ---- what the reference's headers do ---- */

/* They initialise what they use; the rest is as memory was. */
static void init_args(args_of_kind *a)
{
    memset(a, 0x5a, sizeof(*a));
    a->args.tensor_count = a->args.scalar_count = 0;
    a->args.has_error = false;
    a->args.error = NULL;
    a->args.launch = (struct door_launch){ 1, false, 0x5a };
    a->args.allow_early_resolve = false;
    memset(&a->args.predicate, 0, sizeof(a->args.predicate));
    a->args.timing_slot = -1;
    memset(&a->marks, 0, sizeof(a->marks));
    a->deps = NULL;
    a->dep_count = 0;
#ifndef KIND_HOST
    a->dep_kinds = NULL;
#endif
}

static void add(args_of_kind *a, const void *tensor, int32_t tag)
{
    a->args.tag[a->args.tensor_count] = tag;
    a->args.tensor[a->args.tensor_count++] = tensor;
}

static void add_scalar(args_of_kind *a, uint64_t value)
{
    a->args.scalar[a->args.scalar_count] = value;
    a->marks.scalar_dtype[a->args.scalar_count++] = PTO_INT64;
}

/* A create info whose first bytes nobody wrote, but for the initial value of the streamed kind. */
static struct pto_tensor_info make_info(uint32_t count)
{
    struct pto_tensor_info info;

    memset(&info, 0x5a, sizeof(info));
    info.start = 0;
    info.version = 0;
    info.ndims = 1;
    info.dtype = PTO_INT32;
    info.manual_dep = false;
    info.is_contiguous = true;
    info.space = 0;
    memset(info.shapes, 0, sizeof(info.shapes));
    info.shapes[0] = count;
#ifndef KIND_HOST
    info.has_initial_value = false;
#endif
    return info;
}

static const struct pto_tensor *tensor(uint32_t index)
{
    return entry->tensor[index];
}

/* A copy with rubbish where the reference has nothing. */
static struct pto_tensor dirty(uint32_t index)
{
    struct pto_tensor t = *tensor(index);

    memset(&t.fault, 0x5a, sizeof(t) - offsetof(struct pto_tensor, fault));
    return t;
}

static struct door_outputs submit(int32_t aic, int32_t aiv0, int32_t aiv1, const args_of_kind *a)
{
    const struct pto_kernels kernels = { aic, aiv0, aiv1 };

    return rt->ops->submit(rt, &kernels, &a->args);
}

static struct door_outputs submit_add(const struct pto_tensor *t, uint64_t value)
{
    args_of_kind a;

    init_args(&a);
    add(&a, t, PTO_TAG_INOUT);
    add_scalar(&a, value);
    return submit(-1, DOOR_ADD, -1, &a);
}

/* ---- plays ---- */

/* new = 5; t1 += new; both in one scope. */
static void play_chain(void)
{
    const ops_of_kind *ops = (const ops_of_kind *)(const void *)rt->ops;
    struct pto_tensor_info info = make_info(DOOR_COUNT);
    struct pto_tensor t1 = dirty(1);
    struct door_outputs made;
    args_of_kind a;

    ops->scope_site("chain.cpp", 17);
    rt->scope_mode = PTO_SCOPE_AUTO;
    rt->ops->scope_begin(rt);
    init_args(&a);
    add(&a, &info, PTO_TAG_OUTPUT);
    add_scalar(&a, 5);
    made = submit(-1, DOOR_SET, -1, &a);
    noticed[0] = made.count == 1 && made.task.raw != PTO_TASK_ID_INVALID &&
                 made.tensor[0]->shapes[0] == DOOR_COUNT;
    init_args(&a);
    add(&a, made.tensor[0], PTO_TAG_INPUT);
    add(&a, &t1, PTO_TAG_INOUT);
    noticed[1] = submit(DOOR_SUM, -1, -1, &a).count == 0;
    rt->ops->scope_end(rt);
}

/* One task for each thing that a task can have. */
static void play_each(void)
{
    struct pto_tensor_info info[2] = { make_info(DOOR_COUNT), make_info(DOOR_COUNT) };
    struct door_outputs made, first;
    struct pto_task_id deps[2];
    args_of_kind a;

    init_args(&a);
    add(&a, &info[0], PTO_TAG_OUTPUT);
    add(&a, &info[1], PTO_TAG_OUTPUT);
    made = rt->ops->alloc(rt, &a.args);
    noticed[0] = made.count == 2 && made.tensor[1] != made.tensor[0];
    init_args(&a);
    add(&a, made.tensor[1], PTO_TAG_OUTPUT_EXISTING);
    add_scalar(&a, 3);
    first = submit(-1, -1, DOOR_SET, &a); /* the only lane */
    rt->scope_mode = PTO_SCOPE_MANUAL;
    rt->ops->scope_begin(rt);
    noticed[1] = rt->scope_mode == PTO_SCOPE_AUTO;
    init_args(&a);
    deps[0] = first.task;
    a.deps = deps;
    a.dep_count = 1;
    deps[1] = rt->ops->submit_dummy(rt, &a.args).task;
    init_args(&a);
    add(&a, made.tensor[1], PTO_TAG_INPUT);
    add(&a, tensor(1), PTO_TAG_INOUT);
    a.deps = &deps[1];
    a.dep_count = 1;
    (void)submit(DOOR_SUM, -1, -1, &a);
    rt->ops->scope_end(rt);
    init_args(&a); /* every block writes its index behind the other's */
    add(&a, tensor(2), PTO_TAG_NO_DEP);
    a.args.launch.block_count = 4;
    a.args.timing_slot = 3;
    a.args.allow_early_resolve = true;
    (void)submit(-1, DOOR_BLOCK, -1, &a);
    init_args(&a); /* three lanes of two blocks that start together */
    add(&a, tensor(2), PTO_TAG_NO_DEP);
    a.args.launch = (struct door_launch){ 2, true, 0 };
    (void)submit(DOOR_LANE, DOOR_LANE, DOOR_LANE, &a);
    noticed[2] = rt->ops->cluster_count(rt);
    noticed[3] = rt->ops->aiv_count(rt);
    noticed[4] = !rt->ops->is_fatal(rt);
    rt->ops->done(rt);
}

/* Tensor 3 is nobody's output: both modes can look at it. */
static void play_data(void)
{
    const uint32_t at[2] = { 0, 2 };
    struct pto_tensor_info info = make_info(DOOR_COUNT);
    args_of_kind a;

    noticed[0] = (int32_t)rt->ops->get_data(rt, tensor(3), 1, &at[1]);
    noticed[1] = (int32_t)rt->ops->get_data(rt, tensor(3), 0, NULL);
    rt->ops->set_data(rt, tensor(3), 1, &at[1], 77);
    noticed[2] = (int32_t)rt->ops->get_data(rt, tensor(3), 1, &at[1]);
    init_args(&a); /* runs if element 2 is 77, which it is */
    add(&a, tensor(1), PTO_TAG_INOUT);
    add_scalar(&a, 100);
    a.args.predicate = (struct pto_predicate){ tensor(3), 1, { 2 }, PTO_PREDICATE_EQ, 77 };
    (void)submit(-1, DOOR_ADD, -1, &a);
    a.args.predicate.op = PTO_PREDICATE_LT;
    (void)submit(-1, DOOR_ADD, -1, &a);
#ifndef KIND_HOST
    info.initial_value = 9;
    info.has_initial_value = true;
    init_args(&a);
    add(&a, &info, PTO_TAG_OUTPUT);
    noticed[3] = (int32_t)rt->ops->get_data(rt, rt->ops->alloc(rt, &a.args).tensor[0], 1, &at[1]);
    if (submit_add(tensor(1), 1).task.raw != PTO_TASK_ID_INVALID) /* waits for the writers */
        noticed[4] = (int32_t)rt->ops->get_data(rt, tensor(1), 1, &at[1]);
#else
    init_args(&a); /* what is in it is not known, but what was in the info's way must not be */
    add(&a, &info, PTO_TAG_OUTPUT);
    if (entry->scalar[1] == PTO_MODE_STREAM)
        noticed[3] =
            rt->ops->get_data(rt, rt->ops->alloc(rt, &a.args).tensor[0], 1, at) == 0x5a5a5a5a;
#endif
}

/* After as many tasks as scalar 1 says. */
static void play_fatal(void)
{
    for (uint64_t i = 0; i < entry->scalar[1]; i++)
        (void)submit_add(tensor(1), 1);
    rt->ops->report_fatal(rt, 42, "play_fatal", "%s %d", "it is", 42);
    noticed[0] = rt->ops->is_fatal(rt);
    rt->ops->report_fatal(rt, 43, "play_fatal", NULL); /* the first one stays */
    noticed[1] = submit_add(tensor(1), 1).task.raw == PTO_TASK_ID_INVALID;
    noticed[2] = (int32_t)rt->ops->get_data(rt, tensor(1), 0, NULL);
    rt->ops->set_data(rt, tensor(1), 0, NULL, 5);
    rt->ops->scope_begin(rt);
    rt->ops->scope_end(rt);
}

static void play_log(void)
{
    rt->ops->log_error("f", "%d", 1);
    rt->ops->log_warn("f", "%d", 2);
    rt->ops->log_timing("f", "%d", 3);
    rt->ops->log_info("f", "%d", 4);
    rt->ops->log_debug("f", "%d", 5);
    noticed[0] = log_state != NULL ? log_state->threshold : -1;
    noticed[1] = log_state != NULL ? (int32_t)log_state->abi : -1;
}

/* Waits for what a task does, and calls nothing but is_fatal. */
static void play_poll(void)
{
    const int32_t *flag = (const int32_t *)(uintptr_t)tensor(1)->addr;

    (void)submit_add(tensor(1), entry->scalar[1]);
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0 && !rt->ops->is_fatal(rt))
        ;
    noticed[0] = __atomic_load_n(flag, __ATOMIC_ACQUIRE);
    noticed[1] = rt->ops->is_fatal(rt);
}

/* Arguments that the headers would not let through. */
static void play_wrong(void)
{
    struct pto_tensor bad = dirty(1);
    args_of_kind a;

    init_args(&a);
    if (entry->scalar[2] == 0)
        add(&a, tensor(1), PTO_TAG_INOUT);
    add_scalar(&a, 1);
    switch (entry->scalar[1]) {
    case DOOR_BAD_COUNT:
        a.args.tensor_count = -1;
        break;
    case DOOR_BAD_SCALARS:
        a.args.scalar_count = 17;
        break;
    case DOOR_BAD_TAG:
        a.args.tag[0] = 256 + PTO_TAG_INOUT;
        break;
    case DOOR_BAD_TENSOR:
        a.args.tensor[0] = NULL;
        break;
    case DOOR_BAD_VIEW:
        bad.ndims = 0;
        a.args.tensor[0] = &bad;
        break;
    case DOOR_BAD_ERROR:
        a.args.has_error = true;
        a.args.error = "said by the headers";
        break;
    case DOOR_BAD_BLOCKS:
        a.args.launch.block_count = 0;
        break;
    case DOOR_BAD_KERNEL:
        noticed[0] = submit(-1, -1, -1, &a).task.raw == PTO_TASK_ID_INVALID;
        return;
    case DOOR_BAD_NUMBER:
        noticed[0] = submit(-1, DOOR_KERNELS, -1, &a).task.raw == PTO_TASK_ID_INVALID;
        return;
    case DOOR_BAD_LANES:
        a.args.launch.block_count = 11000;
        noticed[0] = submit(DOOR_ADD, DOOR_ADD, DOOR_ADD, &a).task.raw == PTO_TASK_ID_INVALID;
        return;
    case DOOR_BAD_DEP:
        a.deps = &(const struct pto_task_id){ PTO_TASK_ID_INVALID };
        a.dep_count = 1;
        break;
    case DOOR_BAD_GANG:
        a.args.launch = (struct door_launch){ 1000, true, 0 };
        break;
    case DOOR_BAD_SCOPE:
        rt->scope_mode = PTO_SCOPE_MANUAL;
        rt->ops->scope_begin(rt);
        rt->ops->scope_begin(rt); /* AUTO inside */
        noticed[0] = 1;
        return;
    case DOOR_BAD_ALLOC:
        noticed[0] = rt->ops->alloc(rt, &a.args).task.raw == PTO_TASK_ID_INVALID;
        return;
    case DOOR_BAD_ABSENT:
        a.args.tensor[0] = tensor(200);
        break;
    }
    noticed[0] = submit(-1, DOOR_ADD, -1, &a).task.raw == PTO_TASK_ID_INVALID;
}

/* Two writers of the same bytes, and a reader before them: which edges are there? */
static void play_edges(void)
{
    args_of_kind a;

    for (int32_t i = 0; i < 3; i++) {
        init_args(&a);
        add(&a, tensor(1), i == 0 ? PTO_TAG_INPUT : PTO_TAG_OUTPUT_EXISTING);
        (void)submit(-1, DOOR_NOTHING, -1, &a);
    }
}

/* What the rings hold: scalar 1 tasks in a scope of scalar 2 levels, with so many dependencies. */
static void play_rings(void)
{
    struct pto_tensor_info info = make_info(DOOR_COUNT);
    struct pto_task_id ids[200];
    uint32_t count = 0;
    args_of_kind a;

    for (uint64_t level = 0; level < entry->scalar[2]; level++)
        rt->ops->scope_begin(rt);
    for (uint64_t i = 0; i < entry->scalar[1] && !rt->ops->is_fatal(rt); i++) {
        init_args(&a);
        if (entry->scalar[3] != 0)
            add(&a, &info, PTO_TAG_OUTPUT);
        info.shapes[0] = (uint32_t)entry->scalar[3];
        ids[count++ % 200] = rt->ops->submit_dummy(rt, &a.args).task;
    }
    init_args(&a);
    a.deps = ids;
    a.dep_count = (uint32_t)entry->scalar[4];
    if (a.dep_count != 0 && !rt->ops->is_fatal(rt))
        (void)rt->ops->submit_dummy(rt, &a.args);
    for (uint64_t level = 0; level < entry->scalar[2] && !rt->ops->is_fatal(rt); level++)
        rt->ops->scope_end(rt);
}

/* Many tasks on whatever device this is; its clusters tell which. */
static void play_device(void)
{
    struct door_runtime *own = rt;

    noticed[0] = rt->ops->cluster_count(rt);
    for (int32_t i = 0; i < 200; i++) {
        (void)submit_add(tensor(1), 1);
        noticed[1] += rt != own;
    }
    noticed[2] = rt->ops->cluster_count(rt);
}

static void play_marks(void)
{
    args_of_kind a;

    init_args(&a);
    add(&a, tensor(1), PTO_TAG_INOUT);
    add_scalar(&a, 1);
    a.marks.marked = 3;
    a.marks.ambiguous = 2;
    (void)submit(-1, DOOR_ADD, -1, &a);
}

/*
 * Tasks with a scalar and nothing else: in turn in each lane that can be the only one, waiting for
 * the one before, with two blocks, in a scope.
 */
static void play_bare(void)
{
    struct pto_task_id last = { PTO_TASK_ID_INVALID };
    args_of_kind a;

    for (int32_t i = 0; i < DOOR_BARE_TASKS; i++) {
        int32_t lane = i % 3;
        bool is_inside = i % 7 == 0;
        struct door_outputs made = { .count = 1 };

        init_args(&a);
        add_scalar(&a, tensor(1)->addr + (uint64_t)lane * sizeof(int32_t));
        a.deps = &last;
        a.dep_count = i % 5 == 4;
        a.args.launch.block_count = i % 11 == 10 ? 2 : 1;
        if (is_inside)
            rt->ops->scope_begin(rt);
        if (!rt->ops->is_fatal(rt))
            made = submit(lane == 0 ? DOOR_TALLY : -1, lane == 1 ? DOOR_TALLY : -1,
                          lane == 2 ? DOOR_TALLY : -1, &a);
        noticed[0] += made.count == 0 && made.task.raw != last.raw;
        last = made.task;
        if (is_inside)
            rt->ops->scope_end(rt);
    }
    init_args(&a); /* without the scalar, too */
    noticed[1] = submit(-1, DOOR_NOTHING, -1, &a).task.raw != last.raw;
}

/* Tasks with few tensors: in each round one writes tensor 1, and two read it and write tensor 2. */
static void submit_few(void)
{
    args_of_kind a;

    for (int32_t i = 0; i < 3 * DOOR_FEW_ROUNDS; i++) {
        init_args(&a);
        add(&a, tensor(1), i % 3 == 0 ? PTO_TAG_INOUT : PTO_TAG_INPUT);
        if (i % 3 != 0)
            add(&a, tensor(2), i % 2 == 0 ? PTO_TAG_INOUT : PTO_TAG_OUTPUT_EXISTING);
        for (int32_t k = 0; k < i % 3; k++)
            add_scalar(&a, (uint64_t)k);
        if (!rt->ops->is_fatal(rt))
            (void)submit(-1, DOOR_NOTHING, -1, &a);
    }
}

/* All of them twice: the second time in slots that were used before. */
static void play_few(void)
{
    const uint32_t first[1] = { 0 };

    submit_few();
    (void)rt->ops->get_data(rt, tensor(1), 1, first);
    (void)rt->ops->get_data(rt, tensor(2), 1, first);
    submit_few();
}

void door_entry_point(const struct door_entry *given);
void door_entry_point(const struct door_entry *given)
{
    static void (*const play[DOOR_PLAYS])(void) = {
        [DOOR_CHAIN] = play_chain, [DOOR_EACH] = play_each,     [DOOR_DATA] = play_data,
        [DOOR_FATAL] = play_fatal, [DOOR_LOG] = play_log,       [DOOR_POLL] = play_poll,
        [DOOR_WRONG] = play_wrong, [DOOR_EDGES] = play_edges,   [DOOR_RINGS] = play_rings,
        [DOOR_MARKS] = play_marks, [DOOR_DEVICE] = play_device, [DOOR_BARE] = play_bare,
        [DOOR_FEW] = play_few,
    };

    entry = given;
    noticed = (int32_t *)(uintptr_t)tensor(0)->addr;
    play[given->scalar[0]]();
}

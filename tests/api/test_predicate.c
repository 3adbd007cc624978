/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * Tasks with predicates, elements that the orchestration itself reads and writes, and timing slots,
 * through the public interface.
 */
#include "tests/fixture/device_test.h"

enum {
    KERNEL_STORE,      /* tensor, bits, ms: writes the first element after a delay */
    KERNEL_STORE_AIC,  /* the same */
    KERNEL_MARK,       /* tensor, word: adds one to the word */
    KERNEL_MARK_AIC,   /* the same */
    KERNEL_CHECK,      /* tensor, bits, ms: checks the first element after a delay */
    KERNEL_COMPARE,    /* word: adds one */
    KERNEL_ORDER,      /* tensor, name, ms: stores its name after a delay */
    KERNEL_STORE_WAIT, /* tensor, bits: waits for the flag, then writes */
    KERNEL_READ_WAIT,  /* tensor: waits for the flag */
    KERNEL_MS,         /* tensor, ms */
    KERNEL_MS_AIC,
    KERNELS
};

enum { WORDS = 64, CASES_MAX = 4096, FLAG_WAIT_MS = 60000, SLOW_MS = 6 };

static struct {
    uint64_t value[WORDS];
    uint32_t word[WORDS];
    uint32_t ran[CASES_MAX];
    uint32_t order[WORDS];
    uint32_t order_count;
    uint32_t flag;
    uint32_t late; /* number of kernels that did not see the flag in time */
    uint32_t token;
} scene;

static struct {
    struct launch launch;
    bool is_true;
    uint32_t at;
} plan;

/* ---- kernels ---- */

static uint64_t element_bits(const struct pto_tensor *t)
{
    uint64_t bits = 0;

    memcpy(&bits, pto_tensor_data(t), pto_dtype_size(t->dtype));
    return bits;
}

static void kernel_store(int64_t *args)
{
    const struct pto_tensor *t = pto_arg_tensor(args, 0);

    if (args[2] != 0)
        nap_ns((uint64_t)args[2] * MS);
    memcpy(pto_tensor_data(t), &args[1], pto_dtype_size(t->dtype));
}

static void kernel_mark(int64_t *args)
{
    bump(&scene.word[args[1]]);
}

static void kernel_check(int64_t *args)
{
    if (args[2] != 0)
        nap_ns((uint64_t)args[2] * MS);
    EXPECT(element_bits(pto_arg_tensor(args, 0)) == (uint64_t)args[1]);
    bump(&scene.word[0]);
}

static void kernel_compare(int64_t *args)
{
    bump(&scene.ran[args[0]]);
}

static void kernel_order(int64_t *args)
{
    if (args[2] != 0)
        nap_ns((uint64_t)args[2] * MS);
    scene.order[bump(&scene.order_count) % WORDS] = (uint32_t)args[1];
}

static void await_flag(void)
{
    uint64_t end = now_ns() + FLAG_WAIT_MS * MS;

    while (load(&scene.flag) == 0) {
        pto_pause();
        if (now_ns() > end) {
            bump(&scene.late);
            return;
        }
    }
}

static void kernel_store_wait(int64_t *args)
{
    const struct pto_tensor *t = pto_arg_tensor(args, 0);

    await_flag();
    memcpy(pto_tensor_data(t), &args[1], pto_dtype_size(t->dtype));
}

static void kernel_read_wait(int64_t *args)
{
    (void)args;
    await_flag();
}

static void kernel_ms(int64_t *args)
{
    nap_ns((uint64_t)args[1] * MS);
}

static const struct pto_kernel kernels[KERNELS] = {
    [KERNEL_STORE] = { "store", kernel_store, PTO_CORE_AIV },
    [KERNEL_STORE_AIC] = { "store_aic", kernel_store, PTO_CORE_AIC },
    [KERNEL_MARK] = { "mark", kernel_mark, PTO_CORE_AIV },
    [KERNEL_MARK_AIC] = { "mark_aic", kernel_mark, PTO_CORE_AIC },
    [KERNEL_CHECK] = { "check", kernel_check, PTO_CORE_AIV },
    [KERNEL_COMPARE] = { "compare", kernel_compare, PTO_CORE_AIV },
    [KERNEL_ORDER] = { "order", kernel_order, PTO_CORE_AIV },
    [KERNEL_STORE_WAIT] = { "store_wait", kernel_store_wait, PTO_CORE_AIV },
    [KERNEL_READ_WAIT] = { "read_wait", kernel_read_wait, PTO_CORE_AIV },
    [KERNEL_MS] = { "ms", kernel_ms, PTO_CORE_AIV },
    [KERNEL_MS_AIC] = { "ms_aic", kernel_ms, PTO_CORE_AIC },
};

/* ---- runs ---- */

static struct pto_tensor token(void)
{
    return pto_tensor_external(&scene.token, PTO_DIMS(1), 1, PTO_UINT32);
}

/* All values as one row, one of which the predicate reads. */
static struct pto_tensor all_values(void)
{
    return pto_tensor_external(scene.value, PTO_DIMS(WORDS), 1, PTO_INT64);
}

static struct pto_tensor value_at(uint32_t index)
{
    return pto_tensor_external(&scene.value[index], PTO_DIMS(1), 1, PTO_INT64);
}

static void reset(void)
{
    memset(&scene, 0, sizeof(scene));
}

static int run_deps(const struct setting *at, enum pto_deps deps, pto_orch_fn orchestration)
{
    struct pto_run_options options;

    pto_run_options_init(&options);
    options.deps = deps;
    return run_with(at, kernels, KERNELS, orchestration, &options);
}

static int run(const struct setting *at, pto_orch_fn orchestration)
{
    return run_deps(at, PTO_DEPS_SAFE, orchestration);
}

static void set_flag(void)
{
    __atomic_store_n(&scene.flag, 1, __ATOMIC_RELEASE);
}

/* ---- comparisons ---- */

static const struct {
    enum pto_dtype dtype;
    uint64_t bits[6];
} operands[] = {
    { PTO_INT8, { 0, 1, 0x7f, 0x80, 0xff, 0xfe } },
    { PTO_UINT8, { 0, 1, 0x7f, 0x80, 0xff, 0xfe } },
    { PTO_BOOL, { 0, 1, 0, 1, 0xff, 1 } },
    { PTO_INT16, { 0, 1, 0x7fff, 0x8000, 0xffff, 0xff } },
    { PTO_UINT16, { 0, 1, 0x7fff, 0x8000, 0xffff, 0xff } },
    { PTO_FLOAT16, { 0, 0x3c00, 0xbc00, 0x8000, 0xffff, 0xff } },
    { PTO_INT32, { 0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0xffff } },
    { PTO_UINT32, { 0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0xffff } },
    { PTO_FLOAT32, { 0, 0x3f800000, 0xbf800000, 0x80000000, 0xffffffff, 0xff } },
    { PTO_INT64, { 0, 1, INT64_MAX, 1ull << 63, UINT64_MAX, 0xffffffff } },
    { PTO_UINT64, { 0, 1, INT64_MAX, 1ull << 63, UINT64_MAX, 0x80000000 } },
};

static const int64_t targets[] = { 0,   1,     -1,         -2,        127,       -128,
                                   255, 65535, 0xffffffff, INT32_MIN, INT64_MIN, INT64_MAX };

enum {
    OPERANDS = sizeof(operands) / sizeof(operands[0]),
    TARGETS = sizeof(targets) / sizeof(targets[0]),
    OPS = PTO_PREDICATE_LE
};

_Static_assert(6 * TARGETS * OPS <= CASES_MAX, "there is room");

/* The bits are sign-extended, whatever the type is. */
static int64_t extended(uint32_t dtype, uint64_t bits)
{
    uint32_t shift = 64 - 8 * pto_dtype_size(dtype);

    return (int64_t)(bits << shift) >> shift;
}

static bool compares(int64_t value, uint32_t op, int64_t target)
{
    return op == PTO_PREDICATE_EQ   ? value == target
           : op == PTO_PREDICATE_NE ? value != target
           : op == PTO_PREDICATE_GT ? value > target
           : op == PTO_PREDICATE_LT ? value < target
           : op == PTO_PREDICATE_GE ? value >= target
                                    : value <= target;
}

/* The type is plan.at; memory after the element must not be read. */
static void orchestrate_comparisons(struct pto_orch *o, const struct pto_entry *entry)
{
    uint32_t dtype = operands[plan.at].dtype;
    uint32_t n = 0;

    (void)entry;
    for (uint32_t v = 0; v < 6; v++) {
        struct pto_tensor t =
            pto_tensor_external(&scene.value[v], PTO_DIMS(1), 1, (enum pto_dtype)dtype);

        for (uint32_t k = 0; k < TARGETS; k++)
            for (uint32_t op = PTO_PREDICATE_EQ; op <= OPS; op++, n++) {
                const struct pto_predicate predicate = { &t, 1, { 0 }, (uint8_t)op, targets[k] };
                struct pto_args args;

                pto_args_init(&args);
                pto_add_scalar(&args, n);
                pto_set_predicate(&args, &predicate);
                pto_submit_aiv(o, KERNEL_COMPARE, &args);
            }
    }
}

static void the_bits_are_sign_extended_and_compared(const struct setting *at)
{
    assert_int_equal(extended(PTO_UINT8, 0xff), -1);
    for (plan.at = 0; plan.at < OPERANDS; plan.at++) {
        uint32_t dtype = operands[plan.at].dtype;
        uint32_t n = 0, sum = 0;

        reset();
        memset(scene.value, 0x55, sizeof(scene.value));
        for (uint32_t v = 0; v < 6; v++)
            memcpy(&scene.value[v], &operands[plan.at].bits[v], pto_dtype_size(dtype));
        assert_int_equal(run(at, orchestrate_comparisons), PTO_OK);
        for (uint32_t v = 0; v < 6; v++)
            for (uint32_t k = 0; k < TARGETS; k++)
                for (uint32_t op = PTO_PREDICATE_EQ; op <= OPS; op++, n++) {
                    int64_t value = extended(dtype, operands[plan.at].bits[v]);

                    sum += compares(value, op, targets[k]);
                    if (scene.ran[n] != compares(value, op, targets[k]))
                        fail_msg("%s %lld, operator %u, %lld: ran %u times", pto_dtype_name(dtype),
                                 (long long)value, op, (long long)targets[k], scene.ran[n]);
                }
        assert_int_equal(report.executions, sum);
        assert_int_equal(report.tasks, n);
    }
}

/* ---- what a predicate does to its task ---- */

static struct pto_tensor_info filled(uint64_t bits)
{
    struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(4), 1, PTO_INT64);

    pto_tensor_info_fill(&info, bits);
    return info;
}

static void orchestrate_skipped(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor condition = value_at(0), existing = value_at(1);
    struct pto_tensor_info info = filled(77);
    struct pto_outputs made;

    (void)entry;
    made = pto_aiv(o, KERNEL_STORE, PTO_OUT(&info), PTO_INT(5), PTO_INT(0),
                   PTO_IF(&condition, EQ, 1, 0));
    pto_aiv(o, KERNEL_STORE, PTO_WRITE(&existing), PTO_INT(5), PTO_INT(0),
            PTO_IF(&condition, EQ, 1, 0));
    if (pto_output(made, 0) != NULL)
        pto_aiv(o, KERNEL_CHECK, PTO_IN(pto_output(made, 0)), PTO_INT(plan.is_true ? 5 : 77),
                PTO_INT(0));
    pto_aiv(o, KERNEL_CHECK, PTO_IN(&existing), PTO_INT(plan.is_true ? 5 : 33), PTO_INT(0));
}

static void a_task_that_is_skipped_leaves_its_outputs_and_releases_its_consumers(
    const struct setting *at)
{
    for (int i = 0; i < 2; i++) {
        plan.is_true = i != 0;
        reset();
        scene.value[0] = (uint64_t)i;
        scene.value[1] = 33;
        assert_int_equal(run(at, orchestrate_skipped), PTO_OK);
        assert_int_equal(scene.word[0], 2); /* consumers run in both cases */
        assert_int_equal(scene.value[1], i != 0 ? 5 : 33);
        assert_int_equal(report.executions, i != 0 ? 4 : 2);
    }
}

/* The operand changes between the submit and the time at which the task is ready. */
static void orchestrate_late_operand(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token();

    (void)entry;
    for (uint32_t i = 0; i < 2; i++) { /* it becomes true, it becomes false */
        struct pto_tensor x = value_at(i);
        const struct pto_predicate predicate = { &x, 1, { 0 }, PTO_PREDICATE_GT, 10 };
        struct pto_task_id writer =
            pto_aiv(o, KERNEL_STORE, PTO_WRITE(&x), PTO_INT(i == 0 ? 11 : 9), PTO_INT(SLOW_MS))
                .task;
        struct pto_args args;

        pto_args_init(&args);
        pto_add_no_dep(&args, &t);
        pto_add_scalar(&args, i);
        pto_set_predicate(&args, &predicate);
        if (plan.at == PTO_DEPS_SIMPLER)
            pto_set_deps(&args, &writer, NULL, 1);
        pto_submit_aiv(o, KERNEL_MARK, &args);
    }
}

static void it_is_evaluated_when_the_task_becomes_ready(const struct setting *at)
{
    for (plan.at = PTO_DEPS_SAFE; plan.at <= PTO_DEPS_SIMPLER; plan.at++) {
        reset();
        scene.value[0] = 9;
        scene.value[1] = 11;
        assert_int_equal(run_deps(at, (enum pto_deps)plan.at, orchestrate_late_operand), PTO_OK);
        assert_int_equal(scene.word[0], 1);
        assert_int_equal(scene.word[1], 0);
        assert_int_equal(report.executions, 3);
    }
}

/* The task that ran first is first in the list: without the edges the last one would be. */
static void orchestrate_operand_is_read(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor x = value_at(0), t = token();

    (void)entry;
    pto_aiv(o, KERNEL_ORDER, PTO_INOUT(&x), PTO_INT(1), PTO_INT(SLOW_MS));
    pto_aiv(o, KERNEL_ORDER, PTO_AFTER(&t), PTO_INT(2), PTO_INT(SLOW_MS), PTO_IF(&x, EQ, 0, 0));
    pto_aiv(o, KERNEL_ORDER, PTO_INOUT(&x), PTO_INT(3), PTO_INT(0));
    pto_aiv(o, KERNEL_ORDER, PTO_AFTER(&t), PTO_INT(4), PTO_INT(0), PTO_IF(&x, EQ, 0));
}

static void the_operand_is_a_read_of_its_element(const struct setting *at)
{
    reset();
    assert_int_equal(run(at, orchestrate_operand_is_read), PTO_OK);
    assert_int_equal(scene.order_count, 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(scene.order[i], i + 1);
    assert_int_equal(report.edges, 3);
}

/* Waits only for this element, not for the writer of its neighbour. */
static void orchestrate_neighbour(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor row = all_values(), neighbour = value_at(5), x = value_at(6);

    (void)entry;
    pto_aiv(o, KERNEL_MARK, PTO_INOUT(&neighbour), PTO_INT(1));
    pto_aiv(o, KERNEL_MARK, PTO_INOUT(&x), PTO_INT(2));
    pto_aiv(o, KERNEL_COMPARE, PTO_INT(0), PTO_IF(&row, EQ, 0, 6));
}

static void the_operand_is_one_element_only(const struct setting *at)
{
    reset();
    assert_int_equal(run(at, orchestrate_neighbour), PTO_OK);
    assert_int_equal(scene.ran[0], 1);
    if (at->mode == PTO_MODE_HOST) /* otherwise the writer may have completed before */
        assert_int_equal(report.edges, 1);
}

/* ---- operands ---- */

static void orchestrate_indices(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor table = pto_tensor_external(scene.value, PTO_DIMS(4, 8), 2, PTO_INT64);
    struct pto_tensor turned = pto_tensor_transpose(&table, 0, 1);
    struct pto_tensor box = pto_tensor_view(&table, PTO_DIMS(2, 3), PTO_DIMS(1, 2));
    uint32_t n = 0;

    (void)entry;
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t j = 0; j < 8; j++) {
            pto_aiv(o, KERNEL_COMPARE, PTO_INT(n++), PTO_IF(&table, EQ, 8 * i + j, i, j));
            pto_aiv(o, KERNEL_COMPARE, PTO_INT(n++), PTO_IF(&turned, EQ, 8 * i + j, j, i));
        }
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t j = 0; j < 3; j++)
            pto_aiv(o, KERNEL_COMPARE, PTO_INT(n++), PTO_IF(&box, EQ, 8 * (i + 1) + j + 2, i, j));
    /* Missing indices are 0. */
    pto_aiv(o, KERNEL_COMPARE, PTO_INT(n++), PTO_IF(&table, EQ, 24, 3));
    pto_aiv(o, KERNEL_COMPARE, PTO_INT(n++), PTO_IF(&box, EQ, 10));
    plan.at = n;
}

static void indices_name_an_element_of_any_view(const struct setting *at)
{
    reset();
    for (uint32_t i = 0; i < WORDS; i++)
        scene.value[i] = i;
    assert_int_equal(run(at, orchestrate_indices), PTO_OK);
    assert_int_equal(plan.at, 72);
    for (uint32_t i = 0; i < plan.at; i++)
        assert_int_equal(scene.ran[i], 1);
}

static void orchestrate_no_storage(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token();
    struct pto_tensor nowhere = pto_tensor_external(NULL, PTO_DIMS(1), 1, PTO_INT64);
    const struct pto_predicate none = { NULL, 0, { 0 }, PTO_PREDICATE_NONE, 0 };
    struct pto_args args;

    (void)entry;
    pto_aiv(o, KERNEL_MARK, PTO_AFTER(&t), PTO_INT(0), PTO_IF(&nowhere, EQ, 1, 0));
    pto_aiv(o, KERNEL_MARK, PTO_AFTER(&t), PTO_INT(0), PTO_IF(&nowhere, NE, 0, 0));
    pto_mix(o, PTO_LANES(KERNEL_MARK_AIC, KERNEL_MARK, -1), PTO_AFTER(&t), PTO_INT(0),
            PTO_IF(&nowhere, EQ, 1, 0), PTO_BLOCKS(3));
    pto_args_init(&args);
    pto_add_no_dep(&args, &t);
    pto_add_scalar(&args, 0);
    pto_set_predicate(&args, &none);
    pto_submit_aiv(o, KERNEL_MARK, &args);
}

static void without_storage_or_operator_it_always_holds(const struct setting *at)
{
    for (int deps = PTO_DEPS_SAFE; deps <= PTO_DEPS_SIMPLER; deps++) {
        reset();
        assert_int_equal(run_deps(at, (enum pto_deps)deps, orchestrate_no_storage), PTO_OK);
        assert_int_equal(scene.word[0], 9);
    }
}

enum { BAD_INDEX, BAD_SECOND_INDEX, BAD_NDIMS, BAD_OP, BAD_TENSOR, NULL_TENSOR, BAD_OPERANDS };

static void orchestrate_bad_operand(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor table = pto_tensor_external(scene.value, PTO_DIMS(4, 8), 2, PTO_INT64);
    struct pto_predicate predicate = { &table, 2, { 0 }, PTO_PREDICATE_EQ, 0 };
    struct pto_args args;

    (void)entry;
    if (plan.at == BAD_INDEX)
        predicate.indices[0] = 4;
    if (plan.at == BAD_SECOND_INDEX)
        predicate.indices[1] = 8;
    if (plan.at == BAD_NDIMS)
        predicate.ndims = 3;
    if (plan.at == BAD_OP)
        predicate.op = PTO_PREDICATE_LE + 1;
    if (plan.at == BAD_TENSOR)
        table.ndims = 0;
    if (plan.at == NULL_TENSOR)
        predicate.tensor = NULL;
    pto_args_init(&args);
    pto_add_scalar(&args, 0);
    pto_set_predicate(&args, &predicate);
    EXPECT(!pto_task_id_is_valid(pto_submit_aiv(o, KERNEL_COMPARE, &args).task));
    EXPECT(pto_orch_status(o) == PTO_EARGS);
}

static void orchestrate_fine(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor x = value_at(0);

    (void)entry;
    pto_aiv(o, KERNEL_COMPARE, PTO_INT(7), PTO_IF(&x, EQ, 0));
}

static void assert_device_works(const struct setting *at)
{
    reset();
    assert_int_equal(run(at, orchestrate_fine), PTO_OK);
    assert_int_equal(scene.ran[7], 1);
}

static void an_operand_that_does_not_exist_is_refused(const struct setting *at)
{
    static const char *const words[BAD_OPERANDS] = {
        [BAD_INDEX] = "an index is beyond the shape",
        [BAD_SECOND_INDEX] = "an index is beyond the shape",
        [BAD_NDIMS] = "more indices than dimensions",
        [BAD_OP] = "the comparison does not exist",
        [BAD_TENSOR] = "not a valid tensor",
        [NULL_TENSOR] = "not a valid tensor",
    };

    for (int deps = PTO_DEPS_SAFE; deps <= PTO_DEPS_SIMPLER; deps++)
        for (plan.at = 0; plan.at < BAD_OPERANDS; plan.at++) {
            reset();
            assert_refused(run_deps(at, (enum pto_deps)deps, orchestrate_bad_operand), PTO_EARGS,
                           words[plan.at]);
            assert_non_null(strstr(report.error.text, "predicate"));
            assert_int_equal(scene.ran[0], 0);
        }
    assert_device_works(at);
}

enum { SCOPES = 30 };

/* Waits until the task has completed, and fills memory that is free then with zeros. */
static void scribble_after(struct pto_orch *o, struct pto_task_id task)
{
    struct pto_tensor_info info = filled(0);

    PTO_SCOPE(o) {
        struct pto_outputs made;
        struct pto_args args;

        pto_args_init(&args);
        pto_add_output(&args, &info);
        pto_add_scalar(&args, 0);
        pto_add_scalar(&args, 0);
        pto_set_deps(&args, &task, (const uint8_t[]){ PTO_DEP_WAIT }, 1);
        made = pto_submit_aiv(o, KERNEL_STORE, &args);
        if (plan.is_true && pto_output(made, 0) != NULL)
            EXPECT(pto_get_data(o, pto_output(made, 0), 1, PTO_DIMS(0)) == 0);
        for (uint32_t i = 0; i < 4; i++)
            pto_alloc(o, PTO_OUT(&info));
    }
}

/*
 * The memory of the operand is released only after the predicate was evaluated, and that happens
 * only after an unrelated task.
 */
static void orchestrate_operand_of_ended_scope(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(4), 1, PTO_INT64);
    struct pto_tensor slow = value_at(0);

    (void)entry;
    pto_aiv(o, KERNEL_STORE_WAIT, PTO_WRITE(&slow), PTO_INT(0));
    for (uint32_t i = 0; i < SCOPES; i++) {
        struct pto_task_id maker = pto_task_id_invalid();

        PTO_SCOPE(o) {
            struct pto_outputs made =
                pto_aiv(o, KERNEL_STORE, PTO_OUT(&info), PTO_INT(1), PTO_INT(0));

            maker = made.task;
            if (pto_output(made, 0) != NULL)
                pto_aiv(o, KERNEL_MARK, PTO_IN(&slow), PTO_INT(i),
                        PTO_IF(pto_output(made, 0), EQ, 1, 0));
        }
        scribble_after(o, maker);
    }
    set_flag();
}

static void the_operand_outlives_its_scope(const struct setting *at)
{
    plan.is_true = at->mode == PTO_MODE_STREAM;
    reset();
    assert_int_equal(run(at, orchestrate_operand_of_ended_scope), PTO_OK);
    assert_int_equal(scene.late, 0);
    for (uint32_t i = 0; i < SCOPES; i++)
        assert_int_equal(scene.word[i], 1);
}

/* The operand counts for this limit like one more retained dependency. */
static void orchestrate_many_arguments(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(4), 1, PTO_INT64);

    (void)entry;
    for (uint32_t count = 0; count <= PTO_TASK_TENSORS_MAX; count++)
        PTO_SCOPE(o) {
            struct pto_outputs made[PTO_TASK_TENSORS_MAX + 1];
            struct pto_predicate predicate = { NULL, 0, { 0 }, PTO_PREDICATE_EQ, count };
            struct pto_args args;

            pto_args_init(&args);
            for (uint32_t i = 0; i <= count; i++)
                made[i] = pto_aiv(o, KERNEL_STORE, PTO_OUT(&info), PTO_INT(i), PTO_INT(0));
            for (uint32_t i = 0; i < count; i++)
                pto_add_input(&args, pto_output(made[i], 0));
            predicate.tensor = pto_output(made[count], 0);
            for (uint32_t i = 0; i < PTO_TASK_SCALARS_MAX - count % 3; i++)
                pto_add_scalar(&args, i);
            pto_set_predicate(&args, &predicate);
            pto_submit_aiv(o, KERNEL_READ_WAIT, &args);
        }
}

static void a_predicate_fits_beside_any_number_of_arguments(const struct setting *at)
{
    reset();
    set_flag();
    assert_int_equal(run(at, orchestrate_many_arguments), PTO_OK);
    assert_int_equal(report.executions,
                     /* all predicates held, and the tasks that made their operands ran */
                     33 + 33 * 34 / 2);
}

/* No other task kept the memory, so it was released with its scope. */
static void orchestrate_operand_too_late(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = filled(1);
    struct pto_tensor gone = value_at(0);

    (void)entry;
    PTO_SCOPE(o) {
        struct pto_outputs made = pto_alloc(o, PTO_OUT(&info));

        if (pto_output(made, 0) != NULL)
            gone = *pto_output(made, 0);
    }
    pto_aiv(o, KERNEL_COMPARE, PTO_INT(0), PTO_IF(&gone, EQ, 1, 0));
}

static void an_operand_whose_scope_has_ended_is_refused(const struct setting *at)
{
    reset();
    assert_refused(run(at, orchestrate_operand_too_late), PTO_EARGS,
                   "the predicate's operand of task 1 was created by task 0 in the scope of");
    assert_int_equal(scene.ran[0], 0);
}

/* ---- lanes, blocks, gangs ---- */

static void orchestrate_launch(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor x = value_at(0), t = token();

    (void)entry;
    pto_aiv(o, KERNEL_STORE, PTO_WRITE(&x), PTO_INT(plan.is_true), PTO_INT(1));
    pto_mix(o, plan.launch.lanes, PTO_INOUT(&t), PTO_INT(1), PTO_IF(&x, NE, 0, 0),
            LAUNCHED(plan.launch));
    pto_aiv(o, KERNEL_MARK, PTO_INOUT(&t), PTO_INT(2));
}

static void it_holds_for_all_lanes_and_blocks_or_for_none(const struct setting *at)
{
    static const struct {
        struct launch launch;
        uint32_t executions;
    } launches[] = {
        { { { -1, KERNEL_MARK, -1 }, 1, false }, 1 },
        { { { -1, KERNEL_MARK, -1 }, 1000, false }, 1000 },
        { { { KERNEL_MARK_AIC, -1, -1 }, 2, true }, 2 },
        { { { KERNEL_MARK_AIC, KERNEL_MARK, KERNEL_MARK }, 1, false }, 3 },
        { { { -1, KERNEL_MARK, KERNEL_MARK }, 5, false }, 10 },
        { { { KERNEL_MARK_AIC, KERNEL_MARK, KERNEL_MARK }, 2, true }, 6 },
        { { { -1, -1, -1 }, 1, false }, 0 },
    };

    for (uint32_t i = 0; i < 2 * sizeof(launches) / sizeof(launches[0]); i++) {
        plan.launch = launches[i / 2].launch;
        plan.is_true = i % 2 != 0;
        reset();
        assert_int_equal(run(at, orchestrate_launch), PTO_OK);
        assert_int_equal(scene.word[1], plan.is_true ? launches[i / 2].executions : 0);
        assert_int_equal(scene.word[2], 1);
        assert_int_equal(report.executions, 2 + scene.word[1]);
    }
}

/* ---- the orchestration reads ---- */

static void orchestrate_get(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor x = value_at(0), y = value_at(1);
    struct pto_tensor_info info = filled(3);
    struct pto_outputs made;

    (void)entry;
    pto_aiv(o, KERNEL_STORE, PTO_WRITE(&x), PTO_INT(42), PTO_INT(plan.at));
    EXPECT(pto_get_data(o, &x, 1, PTO_DIMS(0)) == 42);
    for (uint32_t i = 0; i < 20; i++) /* a chain */
        pto_aiv(o, KERNEL_STORE, PTO_INOUT(&y), PTO_INT(i), PTO_INT(i == 10 ? plan.at : 0));
    EXPECT(pto_get_data(o, &y, 0, NULL) == 19);
    made = pto_aic(o, KERNEL_STORE_AIC, PTO_OUT(&info), PTO_INT(43), PTO_INT(plan.at));
    if (pto_output(made, 0) != NULL) {
        EXPECT(pto_get_data(o, pto_output(made, 0), 1, PTO_DIMS(0)) == 43);
        EXPECT(pto_get_data(o, pto_output(made, 0), 1, PTO_DIMS(3)) == 3);
    }
    made = pto_alloc(o, PTO_OUT(&info));
    if (pto_output(made, 0) != NULL)
        EXPECT(pto_get_data(o, pto_output(made, 0), 1, PTO_DIMS(2)) == 3);
    EXPECT(pto_orch_status(o) == PTO_OK);
}

static void reading_waits_for_the_writers(const struct setting *at)
{
    reset();
    plan.at = 0;
    assert_int_equal(run(at, orchestrate_get), PTO_OK);
    assert_int_equal(report.executions, 22);
}

static void reading_waits_for_writers_that_take_longer_than_a_time_slice(const struct setting *at)
{
    reset();
    plan.at = 4 * SLOW_MS;
    assert_int_equal(run(at, orchestrate_get), PTO_OK);
    assert_int_equal(report.executions, 22);
}

/* Tasks that may wait for the orchestration: the orchestration does not wait for them. */
static void orchestrate_get_past(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor row = all_values(), x = value_at(0), neighbour = value_at(1);
    struct pto_tensor manual = value_at(0);

    (void)entry;
    manual.manual_dep = true;
    pto_aiv(o, KERNEL_STORE, PTO_WRITE(&x), PTO_INT(7), PTO_INT(1));
    if (plan.at == 0)
        pto_aiv(o, KERNEL_READ_WAIT, PTO_IN(&row));
    if (plan.at == 1)
        pto_aiv(o, KERNEL_READ_WAIT, PTO_AFTER(&row));
    if (plan.at == 2)
        pto_aiv(o, KERNEL_STORE_WAIT, PTO_WRITE(&neighbour), PTO_INT(8));
    if (plan.at == 3)
        pto_aiv(o, KERNEL_READ_WAIT, PTO_INOUT(&manual));
    if (plan.at == 4)
        pto_aiv(o, KERNEL_READ_WAIT, PTO_AFTER(&row), PTO_IF(&x, EQ, 7, 0));
    EXPECT(pto_get_data(o, &row, 1, PTO_DIMS(0)) == 7);
    set_flag();
}

static void reading_does_not_wait_for_readers_neighbours_and_no_dep(const struct setting *at)
{
    for (plan.at = 0; plan.at < 5; plan.at++) {
        reset();
        assert_int_equal(run(at, orchestrate_get_past), PTO_OK);
        assert_int_equal(scene.late, 0);
    }
}

static void orchestrate_get_types(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    for (uint32_t dtype = 0; dtype < PTO_DTYPE_COUNT; dtype++) {
        uint32_t bytes = pto_dtype_size(dtype);
        uint64_t mask = bytes == 8 ? UINT64_MAX : (1ull << 8 * bytes) - 1;
        struct pto_tensor t =
            pto_tensor_external(scene.value, PTO_DIMS(2, 3), 2, (enum pto_dtype)dtype);
        uint64_t bits = 0;

        memset(scene.value, 0xee, sizeof(scene.value));
        memcpy((char *)scene.value + 4 * bytes, &(uint64_t){ 0x81828384858687f8 }, bytes);
        EXPECT(pto_get_data(o, &t, 2, PTO_DIMS(1, 1)) == (0x81828384858687f8 & mask));
        EXPECT(pto_get_data(o, &t, 0, NULL) == (0xeeeeeeeeeeeeeeee & mask));
        EXPECT(pto_set_data(o, &t, 2, PTO_DIMS(1, 2), 0x1122334455667788) == PTO_OK);
        memcpy(&bits, (char *)scene.value + 5 * bytes, bytes);
        EXPECT(bits == (0x1122334455667788 & mask));
        memcpy(&bits, (char *)scene.value + 6 * bytes, bytes); /* behind it */
        EXPECT(bits == (0xeeeeeeeeeeeeeeee & mask));
        memcpy(&bits, (char *)scene.value + 4 * bytes, bytes); /* before it */
        EXPECT(bits == (0x81828384858687f8 & mask));
    }
    EXPECT(pto_bits_float(pto_float_bits(-1.5f)) == -1.5f);
}

static void an_element_is_as_many_bytes_as_its_type(const struct setting *at)
{
    reset();
    assert_int_equal(run(at, orchestrate_get_types), PTO_OK);
}

/* ---- the orchestration writes ---- */

static void orchestrate_set(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor x = value_at(0), t = token();

    (void)entry;
    pto_aiv(o, KERNEL_STORE, PTO_WRITE(&x), PTO_INT(1), PTO_INT(plan.at));
    pto_aiv(o, KERNEL_CHECK, PTO_IN(&x), PTO_INT(1), PTO_INT(plan.at));
    EXPECT(pto_set_data(o, &x, 1, PTO_DIMS(0), 2) == PTO_OK);
    EXPECT(load(&scene.word[0]) == 1);
    EXPECT(pto_get_data(o, &x, 1, PTO_DIMS(0)) == 2);
    pto_aiv(o, KERNEL_CHECK, PTO_IN(&x), PTO_INT(2), PTO_INT(plan.at));
    EXPECT(pto_set_data(o, &x, 1, PTO_DIMS(0), 3) == PTO_OK); /* a reader only */
    EXPECT(load(&scene.word[0]) == 2);
    pto_aiv(o, KERNEL_ORDER, PTO_AFTER(&t), PTO_INT(5), PTO_INT(plan.at), PTO_IF(&x, EQ, 3, 0));
    EXPECT(pto_set_data(o, &x, 1, PTO_DIMS(0), 4) == PTO_OK); /* a predicate counts as a reader */
    EXPECT(load(&scene.order_count) == 1);
    pto_aiv(o, KERNEL_CHECK, PTO_IN(&x), PTO_INT(4), PTO_INT(0));
}

static void writing_waits_for_readers_and_writers(const struct setting *at)
{
    for (int deps = PTO_DEPS_SAFE; deps <= PTO_DEPS_SIMPLER; deps++)
        for (uint32_t i = 0; i < 2; i++) {
            plan.at = i * SLOW_MS;
            reset();
            assert_int_equal(run_deps(at, (enum pto_deps)deps, orchestrate_set), PTO_OK);
            assert_int_equal(scene.value[0], 4);
            assert_int_equal(scene.word[0], 3);
        }
}

/* ---- a graph that is built for later ---- */

enum {
    HOST_FREE,
    HOST_READ,
    HOST_GET_WRITTEN,
    HOST_SET_WRITTEN,
    HOST_SET_READ,
    HOST_GET_OUTPUT,
    HOST_SET_OUTPUT,
    HOST_CASES
};

static void orchestrate_host(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor x = value_at(0);
    struct pto_tensor_info info = filled(3);

    (void)entry;
    switch (plan.at) {
    case HOST_FREE: /* the orchestration's write is done before any task runs */
        EXPECT(pto_get_data(o, &x, 1, PTO_DIMS(0)) == 5);
        EXPECT(pto_set_data(o, &x, 1, PTO_DIMS(0), 6) == PTO_OK);
        EXPECT(pto_get_data(o, &x, 1, PTO_DIMS(0)) == 6);
        pto_aiv(o, KERNEL_CHECK, PTO_INOUT(&x), PTO_INT(6), PTO_INT(0));
        break;
    case HOST_READ:
        pto_aiv(o, KERNEL_CHECK, PTO_IN(&x), PTO_INT(5), PTO_INT(0));
        EXPECT(pto_get_data(o, &x, 1, PTO_DIMS(0)) == 5);
        break;
    case HOST_GET_WRITTEN:
        pto_aiv(o, KERNEL_STORE, PTO_WRITE(&x), PTO_INT(1), PTO_INT(0));
        EXPECT(pto_get_data(o, &x, 1, PTO_DIMS(0)) == 0);
        break;
    case HOST_SET_WRITTEN:
        pto_aiv(o, KERNEL_STORE, PTO_WRITE(&x), PTO_INT(1), PTO_INT(0));
        EXPECT(pto_set_data(o, &x, 1, PTO_DIMS(0), 9) == PTO_EARGS);
        break;
    case HOST_SET_READ:
        pto_aiv(o, KERNEL_CHECK, PTO_IN(&x), PTO_INT(plan.is_true ? 9 : 5), PTO_INT(0));
        EXPECT(pto_set_data(o, &x, 1, PTO_DIMS(0), 9) == (plan.is_true ? PTO_OK : PTO_EARGS));
        break;
    case HOST_GET_OUTPUT:
    case HOST_SET_OUTPUT: {
        struct pto_outputs made = pto_alloc(o, PTO_OUT(&info));

        if (pto_output(made, 0) == NULL)
            break;
        if (plan.at == HOST_GET_OUTPUT)
            EXPECT(pto_get_data(o, pto_output(made, 0), 1, PTO_DIMS(0)) == 0);
        else
            EXPECT(pto_set_data(o, pto_output(made, 0), 1, PTO_DIMS(0), 9) == PTO_EARGS);
        break;
    }
    }
}

static void in_host_mode_only_outside_memory_without_writers_can_be_reached(
    const struct setting *at)
{
    for (int deps = PTO_DEPS_SAFE; deps <= PTO_DEPS_SIMPLER; deps++)
        for (plan.at = 0; plan.at < HOST_CASES; plan.at++) {
            int status;

            plan.is_true = deps == PTO_DEPS_SIMPLER;
            reset();
            scene.value[0] = 5;
            status = run_deps(at, (enum pto_deps)deps, orchestrate_host);
            if (plan.at <= HOST_READ || (plan.at == HOST_SET_READ && plan.is_true)) {
                assert_int_equal(status, PTO_OK);
                assert_int_equal(scene.word[0], 1);
            } else {
                assert_refused(status, PTO_EARGS, "PTO_MODE_HOST");
                assert_int_equal(scene.value[0], plan.at <= HOST_SET_WRITTEN ? 1 : 5);
            }
        }
}

/* ---- what cannot be reached ---- */

static void orchestrate_no_address(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor nowhere = pto_tensor_external(NULL, PTO_DIMS(1), 1, PTO_INT64);

    (void)entry;
    EXPECT(pto_get_data(o, &nowhere, 1, PTO_DIMS(0)) == 0);
    if (plan.at == PTO_DEPS_SIMPLER)
        EXPECT(pto_set_data(o, &nowhere, 1, PTO_DIMS(0), 9) == PTO_OK);
    else
        EXPECT(pto_set_data(o, &nowhere, 1, PTO_DIMS(0), 9) == PTO_EARGS);
}

static void without_storage_there_is_nothing_to_reach(const struct setting *at)
{
    plan.at = PTO_DEPS_SIMPLER;
    assert_int_equal(run_deps(at, PTO_DEPS_SIMPLER, orchestrate_no_address), PTO_OK);
    plan.at = PTO_DEPS_SAFE;
    assert_refused(run(at, orchestrate_no_address), PTO_EARGS, "its address is 0");
}

static void orchestrate_bad_element(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor table = pto_tensor_external(scene.value, PTO_DIMS(4, 8), 2, PTO_INT64);

    (void)entry;
    switch (plan.at) {
    case BAD_INDEX:
        EXPECT(pto_get_data(o, &table, 2, PTO_DIMS(4, 0)) == 0);
        break;
    case BAD_SECOND_INDEX:
        EXPECT(pto_set_data(o, &table, 2, PTO_DIMS(0, 8), 1) == PTO_EARGS);
        break;
    case BAD_NDIMS:
        EXPECT(pto_get_data(o, &table, 3, PTO_DIMS(0, 0, 0)) == 0);
        break;
    case BAD_OP: /* not the case here: indices are missing */
        EXPECT(pto_get_data(o, &table, 2, NULL) == 0);
        break;
    case BAD_TENSOR:
        table.ndims = 0;
        EXPECT(pto_get_data(o, &table, 0, NULL) == 0);
        break;
    case NULL_TENSOR:
        EXPECT(pto_set_data(o, NULL, 0, NULL, 1) == PTO_EARGS);
        break;
    }
    EXPECT(pto_orch_status(o) == PTO_EARGS);
}

static void an_element_that_does_not_exist_is_refused(const struct setting *at)
{
    for (plan.at = 0; plan.at < BAD_OPERANDS; plan.at++) {
        reset();
        memset(scene.value, 0xff, sizeof(scene.value));
        assert_refused(run(at, orchestrate_bad_element), PTO_EARGS, "cannot be reached");
    }
    assert_device_works(at);
}

/* ---- deadlines ---- */

static uint64_t gave_up_after_ns;

static void orchestrate_deadline(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor x = value_at(0);
    uint64_t begin;

    (void)entry;
    pto_aiv(o, plan.at == 2 ? KERNEL_READ_WAIT : KERNEL_STORE_WAIT, PTO_INOUT(&x), PTO_INT(1));
    begin = now_ns();
    if (plan.at == 0)
        EXPECT(pto_get_data(o, &x, 1, PTO_DIMS(0)) == 0);
    else
        EXPECT(pto_set_data(o, &x, 1, PTO_DIMS(0), 2) == PTO_ETENSOR_WAIT);
    gave_up_after_ns = now_ns() - begin;
    EXPECT(pto_orch_status(o) == PTO_ETENSOR_WAIT);
    set_flag();
    pto_aiv(o, KERNEL_MARK, PTO_INOUT(&x), PTO_INT(1)); /* not after an error */
}

static void what_does_not_come_in_time_ends_the_run(const struct setting *at)
{
    assert_int_equal(PTO_ETENSOR_WAIT, -8);
    for (plan.at = 0; plan.at < 3; plan.at++) {
        struct pto_run_options options;

        pto_run_options_init(&options);
        options.data_timeout_ns = 20 * MS;
        reset();
        assert_refused(run_with(at, kernels, KERNELS, orchestrate_deadline, &options),
                       PTO_ETENSOR_WAIT, "did not complete in 20 ms");
        assert_true(gave_up_after_ns >= 20 * MS);
        /* the kernel was released, so the orchestration did not wait long */
        assert_int_equal(scene.late, 0);
        assert_int_equal(scene.word[1], 0);
        assert_device_works(at);
    }
}

enum { PATIENCE_MS = 150 };

/* The default time-out is long, so a kernel that takes many time slices is waited for. */
static void orchestrate_patience(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor x = value_at(0);

    (void)entry;
    pto_aiv(o, KERNEL_STORE, PTO_INOUT(&x), PTO_INT(1), PTO_INT(PATIENCE_MS));
    EXPECT(pto_get_data(o, &x, 1, PTO_DIMS(0)) == 1);
}

static void a_slow_kernel_is_waited_for(const struct setting *at)
{
    uint64_t begin = now_ns();

    reset();
    assert_int_equal(run(at, orchestrate_patience), PTO_OK);
    assert_true(now_ns() - begin >= PATIENCE_MS * MS);
}

/* ---- timing slots ---- */

static void orchestrate_window(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token();

    (void)entry;
    pto_aiv(o, KERNEL_MS, PTO_INOUT(&t), PTO_INT(1));
    pto_aiv(o, KERNEL_MS, PTO_INOUT(&t), PTO_INT(5), PTO_TIMED(3));
    pto_aiv(o, KERNEL_MS, PTO_INOUT(&t), PTO_INT(5));
    pto_aic(o, KERNEL_MS_AIC, PTO_INOUT(&t), PTO_INT(5), PTO_TIMED(3));
    pto_aiv(o, KERNEL_MS, PTO_INOUT(&t), PTO_INT(1), PTO_TIMED(15));
    pto_aiv(o, KERNEL_MS, PTO_INOUT(&t), PTO_INT(1), PTO_TIMED(0));
    pto_dummy(o, PTO_INOUT(&t), PTO_TIMED(7));
    pto_aiv(o, KERNEL_MS, PTO_INOUT(&t), PTO_INT(1), PTO_TIMED(8), PTO_IF(&t, NE, 0, 0));
}

static void assert_window(uint32_t slot, uint64_t least_ns)
{
    const struct pto_timing *w = &report.timing[slot];

    assert_true(w->begin_ns > 0);
    assert_true(w->begin_ns < w->end_ns);
    assert_true(w->end_ns <= report.ns);
    assert_true(w->end_ns - w->begin_ns >= least_ns * 99 / 100);
}

static void a_slot_spans_the_first_start_to_the_last_end(const struct setting *at)
{
    reset();
    assert_int_equal(run(at, orchestrate_window), PTO_OK);
    assert_window(3, 15 * MS);
    assert_window(15, 1 * MS);
    assert_window(0, 1 * MS);
    assert_true(report.timing[3].begin_ns >= 99 * MS / 100);
    assert_true(report.timing[3].end_ns <= report.timing[15].begin_ns);
    assert_true(report.timing[15].end_ns <= report.timing[0].begin_ns);
    for (uint32_t i = 0; i < PTO_TIMING_SLOTS; i++)
        if (i != 3 && i != 15 && i != 0) {
            assert_int_equal(report.timing[i].begin_ns, 0);
            assert_int_equal(report.timing[i].end_ns, 0);
        }
    assert_device_works(at); /* and no timing slot of the last run is left */
    for (uint32_t i = 0; i < PTO_TIMING_SLOTS; i++)
        assert_int_equal(report.timing[i].end_ns, 0);
}

/*
 * The slot covers all blocks, from the first begin to the last end, whether they run in turn or at
 * once.
 */
static void orchestrate_folded(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token();

    (void)entry;
    pto_aiv(o, KERNEL_MS, PTO_INOUT(&t), PTO_INT(2), PTO_TIMED(1), PTO_BLOCKS(6));
    pto_mix(o, PTO_LANES(KERNEL_MS_AIC, KERNEL_MS, KERNEL_MS), PTO_INOUT(&t), PTO_INT(2),
            PTO_TIMED(2), PTO_BLOCKS(3));
    pto_aiv(o, KERNEL_MS, PTO_INOUT(&t), PTO_INT(2), PTO_TIMED(3), PTO_GANG(2));
    pto_mix(o, PTO_LANES(-1, KERNEL_MS, KERNEL_MS), PTO_INOUT(&t), PTO_INT(2), PTO_TIMED(4));
}

static void blocks_and_lanes_fold_into_one_slot(const struct setting *at)
{
    reset();
    assert_int_equal(run(at, orchestrate_folded), PTO_OK);
    assert_window(1, 6 * MS); /* on two cores */
    assert_window(2, 6 * MS); /* on one cluster */
    assert_window(3, 2 * MS);
    assert_window(4, 2 * MS);
    for (uint32_t i = 1; i < 4; i++)
        assert_true(report.timing[i].end_ns <= report.timing[i + 1].begin_ns);
}

static void orchestrate_bad_slot(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token();
    struct pto_args args;

    (void)entry;
    pto_args_init(&args);
    pto_add_inout(&args, &t);
    pto_add_scalar(&args, 0);
    if (plan.is_true)
        args.timing_slot = (int32_t)plan.at;
    else
        pto_set_timing_slot(&args, (int32_t)plan.at);
    pto_submit_aiv(o, KERNEL_MARK, &args);
}

static void a_slot_that_does_not_exist_is_refused(const struct setting *at)
{
    static const int32_t bad[] = { 16, 17, 256, INT32_MAX, -1, -2, INT32_MIN };

    for (uint32_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        plan.at = (uint32_t)bad[i];
        plan.is_true = false;
        reset();
        assert_refused(run(at, orchestrate_bad_slot), PTO_EARGS, "timing slot");
        plan.is_true = true; /* without the function that checks the number; negative means none */
        if (bad[i] >= 0)
            assert_refused(run(at, orchestrate_bad_slot), PTO_EARGS, "is not one of 0 to 15");
        assert_int_equal(scene.word[0], 0);
    }
    assert_device_works(at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(0, the_bits_are_sign_extended_and_compared),
        EACH(0, a_task_that_is_skipped_leaves_its_outputs_and_releases_its_consumers),
        EACH(0, it_is_evaluated_when_the_task_becomes_ready),
        EACH(0, the_operand_is_a_read_of_its_element),
        EACH(0, the_operand_is_one_element_only),
        EACH(0, indices_name_an_element_of_any_view),
        EACH(0, without_storage_or_operator_it_always_holds),
        EACH(0, an_operand_that_does_not_exist_is_refused),
        EACH(0, the_operand_outlives_its_scope),
        EACH(0, an_operand_whose_scope_has_ended_is_refused),
        EACH(0, a_predicate_fits_beside_any_number_of_arguments),
        EACH(2, it_holds_for_all_lanes_and_blocks_or_for_none),
        EACH_STREAM(0, reading_waits_for_the_writers),
        EACH_STREAM(0, reading_waits_for_writers_that_take_longer_than_a_time_slice),
        EACH_STREAM(0, reading_does_not_wait_for_readers_neighbours_and_no_dep),
        EACH(0, an_element_is_as_many_bytes_as_its_type),
        EACH_STREAM(0, writing_waits_for_readers_and_writers),
        EACH_HOST(0, in_host_mode_only_outside_memory_without_writers_can_be_reached),
        EACH(0, without_storage_there_is_nothing_to_reach),
        EACH(0, an_element_that_does_not_exist_is_refused),
        EACH_STREAM(0, what_does_not_come_in_time_ends_the_run),
        EACH_STREAM(1, a_slow_kernel_is_waited_for),
        EACH(0, a_slot_spans_the_first_start_to_the_last_end),
        EACH(1, blocks_and_lanes_fold_into_one_slot),
        EACH(0, a_slot_that_does_not_exist_is_refused),
    };

    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference's operations, called on a runtime that records the calls: no object is compiled,
 * and no task runs. This test includes the source file, because its tables are static.
 */
#include "compat/orch/compat.c"

#include "tests/fixture/fixture.h"

static struct compat_orch compat;
static struct compat_runtime *const rt = &compat.runtime;

/* The last call to the runtime, with its arguments. */
static struct {
    struct pto_kernels kernels;
    struct pto_args args;
    struct pto_tensor_info info; /* of the first output */
    const struct pto_site *site;
    uint32_t index[PTO_MAX_DIMS], ndims;
    uint64_t bits;
    enum pto_scope_mode mode;
    int failure;
    char text[300];
    uint32_t allocs, ends;
} asked;

static struct pto_tensor made[2];

static int note_args(const struct pto_args *args, const struct pto_site *site,
                     struct pto_outputs *out)
{
    asked.args = *args;
    asked.site = site;
    for (uint32_t i = 0; i < args->tensor_count && args->error == NULL; i++)
        if (args->tag[i] == PTO_TAG_OUTPUT)
            memcpy(&asked.info, args->tensor[i], sizeof(asked.info));
    *out = (struct pto_outputs){ { .raw = 77 }, args->output_count, made };
    return PTO_OK;
}

static int note_submit(struct pto_orch *o, const struct pto_kernels *kernels,
                       const struct pto_args *args, const struct pto_site *site,
                       struct pto_outputs *out)
{
    (void)o;
    asked.kernels = *kernels;
    return note_args(args, site, out);
}

static int note_alloc(struct pto_orch *o, const struct pto_args *args, const struct pto_site *site,
                      struct pto_outputs *out)
{
    (void)o;
    asked.allocs++;
    return note_args(args, site, out);
}

static int note_begin(struct pto_orch *o, enum pto_scope_mode mode, const struct pto_site *site)
{
    (void)o;
    asked.mode = mode;
    asked.site = site;
    return asked.failure;
}

static int note_end(struct pto_orch *o)
{
    (void)o;
    asked.ends++;
    return asked.failure;
}

static int note_report(struct pto_orch *o, int status, const char *text)
{
    (void)o;
    asked.failure = status;
    snprintf(asked.text, sizeof(asked.text), "%s", text);
    return status;
}

static int tell_status(struct pto_orch *o)
{
    (void)o;
    return asked.failure;
}

static int note_set(struct pto_orch *o, const struct pto_tensor *tensor, uint32_t ndims,
                    const uint32_t indices[], const struct pto_site *site, uint64_t bits)
{
    (void)o;
    (void)tensor;
    asked.site = site;
    asked.ndims = ndims;
    asked.bits = bits;
    memcpy(asked.index, indices, ndims * sizeof(indices[0]));
    return PTO_OK;
}

static const struct pto_orch_ops operations = { .size = sizeof(operations),
                                                .submit = note_submit,
                                                .alloc = note_alloc,
                                                .scope_begin = note_begin,
                                                .scope_end = note_end,
                                                .report = note_report,
                                                .status = tell_status,
                                                .set_data = note_set };
static struct pto_orch orch = { .ops = &operations };
static struct pto_tensor words;

static int begin(void **state)
{
    static uint32_t word[6];

    (void)state;
    memset(&compat, 0, sizeof(compat));
    memset(&asked, 0, sizeof(asked));
    words = pto_tensor_external(word, PTO_DIMS(2, 3), 2, PTO_UINT32);
    rt->orch = &orch;
    rt->scope_mode = PTO_SCOPE_AUTO;
    return 0;
}

/* Task arguments as the reference's headers initialise them: one input, one block. */
static void fill(struct compat_args *args)
{
    memset(args, 0, sizeof(*args));
    args->tag[0] = PTO_TAG_INPUT;
    args->tensor[0] = &words;
    args->tensor_count = 1;
    args->launch.block_count = 1;
    args->timing_slot = -1;
}

static void arguments_keep_all_that_they_say(void **state)
{
    static const struct pto_kernels lanes = { 3, 1, 2 };
    static const struct pto_task_id deps[] = { { .raw = 5 }, { .raw = 6 } };
    static const uint8_t kinds[] = { PTO_DEP_WAIT, PTO_DEP_RETAIN };
    struct compat_stream_args from = { .deps = deps, .dep_kinds = kinds, .dep_count = 2 };
    struct compat_outputs out;

    (void)state;
    fill(&from.args);
    from.args.scalar_count = 3;
    for (uint32_t i = 0; i < 3; i++) {
        from.args.scalar[i] = 10 + i;
        from.marks.scalar_dtype[i] = (uint8_t)(PTO_INT32 + i);
    }
    from.args.launch = (struct compat_launch){ 4, true, 0 };
    from.args.allow_early_resolve = true;
    from.args.timing_slot = 7;
    from.args.predicate.op = PTO_PREDICATE_EQ;
    from.marks.marked = 1u << 0 | 1u << 2; /* the tensor, and the second scalar */
    out = stream_ops.ops.submit(rt, &lanes, &from.args);
    assert_int_equal(out.task.raw, 77);
    assert_int_equal(out.count, 0);
    assert_memory_equal(&asked.kernels, &lanes, sizeof(lanes));
    assert_null(asked.args.error);
    assert_int_equal(asked.args.tensor_count, 1);
    assert_ptr_equal(asked.args.tensor[0], &words);
    assert_int_equal(asked.args.scalar_count, 3);
    assert_memory_equal(asked.args.scalar, from.args.scalar, 3 * sizeof(uint64_t));
    assert_true(asked.args.has_scalar_types);
    assert_int_equal(asked.args.scalar_type[1], PTO_INT32 + 1);
    assert_int_equal(asked.args.block_count, 4);
    assert_true(asked.args.is_sync_start);
    assert_true(asked.args.allow_early_resolve);
    assert_int_equal(asked.args.timing_slot, 7);
    assert_ptr_equal(asked.args.predicate, &from.args.predicate);
    assert_ptr_equal(asked.args.deps, deps);
    assert_ptr_equal(asked.args.dep_kinds, kinds);
    assert_int_equal(asked.args.dep_count, 2);
    assert_true(asked.args.is_marked);
    assert_int_equal(asked.args.marked_tensors, 1);
    assert_int_equal(asked.args.marked_scalars, 1u << 1);
}

/* Its dependencies are in another array, and have no kinds. */
static void the_other_headers_have_another_end(void **state)
{
    static const struct pto_kernels lanes = { 3, 1, 2 };
    static const struct pto_task_id deps[] = { { .raw = 5 } };
    struct compat_host_args from = { .deps = deps, .dep_count = 1 };

    (void)state;
    fill(&from.args);
    (void)host_ops.ops.submit(rt, &lanes, &from.args);
    assert_ptr_equal(asked.args.deps, deps);
    assert_int_equal(asked.args.dep_count, 1);
    assert_null(asked.args.dep_kinds);
}

static void arguments_that_cannot_be_are_refused(void **state)
{
    static const struct pto_kernels lanes = { -1, 1, -1 };
    struct compat_stream_args from;
    struct compat_host_args many;

    (void)state;
    memset(&from, 0, sizeof(from));
    memset(&many, 0, sizeof(many));
    fill(&from.args);
    from.args.tag[0] = PTO_TAG_COUNT;
    (void)stream_ops.ops.submit(rt, &lanes, &from.args);
    assert_in(asked.args.error, "tag");
    fill(&from.args);
    from.args.tensor[0] = NULL;
    (void)stream_ops.ops.submit(rt, &lanes, &from.args);
    assert_in(asked.args.error, "address");
    fill(&from.args);
    from.args.tensor_count = -1;
    (void)stream_ops.ops.submit(rt, &lanes, &from.args);
    assert_non_null(asked.args.error);
    assert_int_equal(asked.args.tensor_count, 0);
    fill(&from.args);
    from.args.scalar_count = PTO_TASK_SCALARS_MAX + 1;
    (void)stream_ops.ops.submit(rt, &lanes, &from.args);
    assert_non_null(asked.args.error);
    fill(&from.args);
    (void)stream_ops.ops.submit(rt, &no_kernels, &from.args);
    assert_in(asked.args.error, "kernel");
    fill(&many.args);
    many.args.launch.block_count = INT16_MAX;
    (void)host_ops.ops.submit(rt, &(struct pto_kernels){ 1, -1, -1 }, &many.args);
    assert_null(asked.args.error);
    (void)host_ops.ops.submit(rt, &(struct pto_kernels){ 1, 2, -1 }, &many.args);
    assert_in(asked.args.error, "32767");
}

static void a_single_aiv_lane_is_the_first(void **state)
{
    struct compat_stream_args from;

    (void)state;
    memset(&from, 0, sizeof(from));
    fill(&from.args);
    (void)stream_ops.ops.submit(rt, &(struct pto_kernels){ -1, -1, 9 }, &from.args);
    assert_int_equal(asked.kernels.aiv0, 9);
    assert_int_equal(asked.kernels.aiv1, -1);
}

/*
 * Headers of the host-built kind leave the fields of an output before its start offset
 * uninitialised.
 */
static void outputs_are_returned_and_begin_clear(void **state)
{
    struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(4), 1, PTO_FLOAT32);
    struct compat_outputs out;
    struct compat_host_args from;

    (void)state;
    memset(&from, 0, sizeof(from));
    fill(&from.args);
    memset(&info, 0xa5, offsetof(struct pto_tensor_info, start));
    from.args.tag[0] = PTO_TAG_OUTPUT;
    from.args.tensor[0] = &info;
    out = host_ops.ops.alloc(rt, &from.args);
    assert_int_equal(asked.allocs, 1);
    assert_int_equal(out.count, 1);
    assert_ptr_equal(out.tensor[0], &made[0]);
    for (size_t i = 0; i < offsetof(struct pto_tensor_info, start); i++)
        assert_int_equal(((const uint8_t *)&asked.info)[i], 0);
    assert_int_equal(asked.info.shapes[0], 4);
}

static void a_task_without_kernels_has_one_block(void **state)
{
    struct compat_stream_args from;

    (void)state;
    memset(&from, 0, sizeof(from));
    fill(&from.args);
    from.args.launch = (struct compat_launch){ 8, true, 0 };
    from.args.predicate.op = PTO_PREDICATE_EQ;
    (void)stream_ops.ops.submit_dummy(rt, &from.args);
    assert_memory_equal(&asked.kernels, &no_kernels, sizeof(no_kernels));
    assert_int_equal(asked.args.block_count, 1);
    assert_false(asked.args.is_sync_start);
    assert_null(asked.args.predicate);
}

static void scopes_have_the_mode_and_the_line_before_them(void **state)
{
    static const char file[] = "orch.cpp";
    struct compat_stream_args from;

    (void)state;
    memset(&from, 0, sizeof(from));
    fill(&from.args);
    stream_ops.scope_site(file, 20);
    rt->scope_mode = PTO_SCOPE_MANUAL;
    stream_ops.ops.scope_begin(rt);
    assert_int_equal(asked.mode, PTO_SCOPE_MANUAL);
    assert_int_equal(rt->scope_mode, PTO_SCOPE_AUTO); /* source line for the next scope */
    assert_int_equal(asked.site->line, 20);
    stream_ops.scope_site(file, 30);
    stream_ops.ops.scope_begin(rt);
    (void)stream_ops.ops.submit(rt, &(struct pto_kernels){ -1, 1, -1 }, &from.args);
    assert_ptr_equal(asked.site->file, file);
    assert_int_equal(asked.site->line, 30);
    stream_ops.ops.scope_end(rt);
    (void)stream_ops.ops.submit(rt, &(struct pto_kernels){ -1, 1, -1 }, &from.args);
    assert_int_equal(asked.site->line, 20);
    stream_ops.ops.scope_end(rt);
    (void)stream_ops.ops.submit(rt, &(struct pto_kernels){ -1, 1, -1 }, &from.args);
    assert_null(asked.site);
    assert_int_equal(asked.ends, 2);
}

/* This scope is not counted, so the next end belongs to the enclosing scope. */
static void a_scope_that_is_refused_has_not_begun(void **state)
{
    (void)state;
    stream_ops.scope_site("orch.cpp", 20);
    stream_ops.ops.scope_begin(rt);
    asked.failure = PTO_ENOMEM;
    stream_ops.scope_site("orch.cpp", 30);
    stream_ops.ops.scope_begin(rt);
    assert_int_equal(rt->depth, 1);
    assert_int_equal(rt->site->line, 20);
}

static void a_failure_is_a_status_and_a_text(void **state)
{
    (void)state;
    assert_false(stream_ops.ops.is_fatal(rt));
    stream_ops.ops.report_fatal(rt, 7, "build", "tile %d", 3);
    assert_int_equal(asked.failure, -7);
    assert_string_equal(asked.text, "build: tile 3");
    assert_true(stream_ops.ops.is_fatal(rt));
    stream_ops.ops.report_fatal(rt, -8, NULL, NULL);
    assert_int_equal(asked.failure, -8);
    stream_ops.ops.report_fatal(rt, 0, "build", "%s", "x");
    assert_int_equal(asked.failure, PTO_EORCH);
}

static void missing_indices_are_0(void **state)
{
    static const uint32_t indices[] = { 1, 2 };

    (void)state;
    stream_ops.ops.set_data(rt, &words, 1, indices, 42);
    assert_int_equal(asked.ndims, 2);
    assert_int_equal(asked.index[0], 1);
    assert_int_equal(asked.index[1], 0);
    assert_int_equal(asked.bits, 42);
    stream_ops.ops.set_data(rt, &words, 2, indices, 42);
    assert_int_equal(asked.index[1], 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(arguments_keep_all_that_they_say, begin),
        cmocka_unit_test_setup(the_other_headers_have_another_end, begin),
        cmocka_unit_test_setup(arguments_that_cannot_be_are_refused, begin),
        cmocka_unit_test_setup(a_single_aiv_lane_is_the_first, begin),
        cmocka_unit_test_setup(outputs_are_returned_and_begin_clear, begin),
        cmocka_unit_test_setup(a_task_without_kernels_has_one_block, begin),
        cmocka_unit_test_setup(scopes_have_the_mode_and_the_line_before_them, begin),
        cmocka_unit_test_setup(a_scope_that_is_refused_has_not_begun, begin),
        cmocka_unit_test_setup(a_failure_is_a_status_and_a_text, begin),
        cmocka_unit_test_setup(missing_indices_are_0, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Drills with invalid calls of orchestrations; nearly all fail at the call. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dlfcn.h>
#include <string.h>

#include "tool/drill/stage.h"

static struct pto_task_id kept_id;
static struct pto_tensor kept_tensor;

/* ---- arguments ---- */

static void tensor_after_scalar(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_ADD, PTO_INT(1), PTO_IN(entry->tensor));
}

static void too_many_tensors(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_args args;

    pto_args_init(&args);
    for (int i = 0; i <= PTO_TASK_TENSORS_MAX; i++)
        pto_add_input(&args, entry->tensor);
    pto_submit_aiv(o, KERNEL_ADD, &args);
}

static void too_many_scalars(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_args args;

    (void)entry;
    pto_args_init(&args);
    for (int i = 0; i <= PTO_TASK_SCALARS_MAX; i++)
        pto_add_scalar(&args, 1);
    pto_submit_aiv(o, KERNEL_ADD, &args);
}

static void other_than_declared(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_DECLARED, PTO_IN(entry->tensor));
}

static void no_tensor(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *none = NULL;

    (void)entry;
    pto_aiv(o, KERNEL_ADD, PTO_INOUT(none));
}

static void never_initialised(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_args args;

    (void)entry;
    memset(&args, 0xff, sizeof(args));
    args.error = NULL;
    pto_submit_aiv(o, KERNEL_ADD, &args);
}

static void unknown_tag(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_args args;

    pto_args_init(&args);
    pto_add_input(&args, entry->tensor);
    pto_add_input(&args, entry->tensor);
    args.tag[1] = 9;
    pto_submit_aiv(o, KERNEL_ADD, &args);
}

static void timing_slot(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor), PTO_TIMED(PTO_TIMING_SLOTS));
}

static void timing_slot_by_hand(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_args args;

    pto_args_init(&args);
    pto_add_inout(&args, entry->tensor);
    args.timing_slot = PTO_TIMING_SLOTS;
    pto_submit_aiv(o, KERNEL_ADD, &args);
}

static void pass_no_scalar(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor), PTO_PASS(2));
}

static void read_no_scalar(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor), PTO_INT(pto_scalar(o, 2)));
}

static void bare_argument(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor), { 5, 6 });
}

static void pass_scalar_128(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor), PTO_PASS(PTO_ENTRY_SCALARS_MAX));
}

/* ---- outputs ---- */

static void output_without_shape(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = (pto_tensor_info_make)(PTO_DIMS(1), 0, PTO_UINT32);

    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor), PTO_OUT(&info));
}

static void output_too_large(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(1u << 20, 1u << 20), 2, PTO_UINT32);

    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor), PTO_OUT(&info));
}

static void alloc_nothing(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_args args;

    (void)entry;
    pto_args_init(&args);
    pto_alloc_tensors(o, &args);
}

static void alloc_with_input(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = drill_words_info();

    pto_alloc(o, PTO_OUT(&info), PTO_IN(entry->tensor));
}

/* ---- kernels and how they are launched ---- */

static void drills_args_no_kernel(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aic(o, 99, PTO_INOUT(entry->tensor));
}

static void kernel_hole(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_HOLE, PTO_INOUT(entry->tensor));
}

static void other_core(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_CUBE, PTO_INOUT(entry->tensor));
}

static void other_lane(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_mix(o, PTO_LANES(KERNEL_CUBE, KERNEL_CUBE, -1), PTO_INOUT(entry->tensor));
}

static void no_blocks(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor), PTO_BLOCKS(0));
}

static void too_many_blocks(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor), PTO_BLOCKS(INT32_MAX));
}

static void gang_of_aiv(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor), PTO_GANG(pto_aiv_count(o) + 1));
}

static void gang_of_clusters(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_mix(o, PTO_LANES(KERNEL_CUBE, KERNEL_ADD, -1), PTO_INOUT(entry->tensor),
            PTO_GANG(pto_cluster_count(o) + 1));
}

static void compare(struct pto_orch *o, const struct pto_predicate *when)
{
    struct pto_args args;

    pto_args_init(&args);
    pto_set_predicate(&args, when);
    pto_submit_aiv(o, KERNEL_ADD, &args);
}

static void predicate_beyond(struct pto_orch *o, const struct pto_entry *entry)
{
    compare(o, &(struct pto_predicate){ entry->tensor, 1, { STAGE_WORDS }, PTO_PREDICATE_EQ, 0 });
}

static void predicate_indices(struct pto_orch *o, const struct pto_entry *entry)
{
    compare(o, &(struct pto_predicate){ entry->tensor, 2, { 0 }, PTO_PREDICATE_EQ, 0 });
}

static void predicate_operator(struct pto_orch *o, const struct pto_entry *entry)
{
    compare(o, &(struct pto_predicate){ entry->tensor, 1, { 0 }, PTO_PREDICATE_LE + 1, 0 });
}

static void predicate_tensor(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    compare(o, &(struct pto_predicate){ NULL, 0, { 0 }, PTO_PREDICATE_EQ, 0 });
}

/* ---- dependencies ---- */

static void depend(struct pto_orch *o, struct pto_task_id id, const uint8_t *kind)
{
    struct pto_args args;

    pto_args_init(&args);
    pto_set_deps(&args, &id, kind, 1);
    pto_submit_aiv(o, KERNEL_ADD, &args);
}

static void deps_none(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_args args;

    (void)entry;
    pto_args_init(&args);
    pto_set_deps(&args, NULL, NULL, 1);
    pto_submit_aiv(o, KERNEL_ADD, &args);
}

static void deps_twice(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_task_id id = pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor)).task;
    struct pto_args args;

    pto_args_init(&args);
    pto_set_deps(&args, &id, NULL, 1);
    pto_set_deps(&args, &id, NULL, 1);
    pto_submit_aiv(o, KERNEL_ADD, &args);
}

static void dep_invalid(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    depend(o, pto_task_id_invalid(), NULL);
}

static void dep_of_the_future(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_task_id id = pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor)).task;

    depend(o, (struct pto_task_id){ id.raw + 1 }, NULL);
}

static void dep_kind(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_task_id id = pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor)).task;
    uint8_t kind = 4;

    depend(o, id, &kind);
}

static void keep_id(struct pto_orch *o, const struct pto_entry *entry)
{
    for (int i = 0; i < 4; i++)
        kept_id = pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor)).task;
}

static void use_kept_id(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    depend(o, kept_id, NULL);
}

static void keep_tensor(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = drill_words_info();
    struct pto_outputs out = pto_alloc(o, PTO_OUT(&info));

    (void)entry;
    if (out.count == 1)
        kept_tensor = out.tensor[0];
}

static void use_kept_tensor(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor), PTO_IN(&kept_tensor));
}

/*
 * Runs an orchestration that keeps an id or an output, then one that uses it although it is no
 * longer valid.
 */
static void play_second_run(struct stage *s)
{
    struct pto_callable *first =
        drill_callable(s, s->drill->orchestration == use_kept_id ? keep_id : keep_tensor);
    int status = pto_run(s->device, first, &s->entry, NULL, NULL);

    drill_expect(s, status == PTO_OK, "%s (%d) at first", pto_strerror(status), status);
    drill_judge(s, drill_run(s), &s->report.error);
}

/* ---- scopes ---- */

static void scope_mode(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    (void)pto_scope_begin(o, (enum pto_scope_mode)7);
}

static void scopes_too_deep(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    for (int i = 0; i <= PTO_SCOPE_DEPTH_MAX; i++)
        (void)pto_scope_begin(o, PTO_SCOPE_AUTO);
}

static void auto_in_manual(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    PTO_SCOPE_WITH(o, PTO_SCOPE_MANUAL) {
        PTO_SCOPE(o) {
        }
    }
}

static void scope_end_too_many(struct pto_orch *o, const struct pto_entry *entry)
{
    PTO_SCOPE(o) {
        pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor));
    }
    (void)pto_scope_end(o);
}

static void scope_left_open(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)pto_scope_begin(o, PTO_SCOPE_AUTO);
    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor));
}

static void return_from_scopes(struct pto_orch *o, const struct pto_entry *entry)
{
    PTO_SCOPE(o) {
        PTO_SCOPE(o) {
            if (pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor)).count == 0)
                return;
        }
    }
}

static void mistake_in_scopes(struct pto_orch *o, const struct pto_entry *entry)
{
    PTO_SCOPE(o) {
        PTO_SCOPE(o) {
            pto_aiv(o, 99, PTO_INOUT(entry->tensor));
        }
    }
}

/* ---- single elements ---- */

static void element_of_nothing(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    (void)pto_get_data(o, NULL, 0, NULL);
}

static void element_indices(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)PTO_GET(o, entry->tensor, 0, 0);
}

static void element_beyond(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)PTO_GET(o, entry->tensor, STAGE_WORDS);
}

static void element_without_storage(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = pto_tensor_external(NULL, PTO_DIMS(4), 1, PTO_UINT32);

    (void)entry;
    (void)pto_set_data(o, &t, 1, PTO_DIMS(1), 1);
}

/* Returns a tensor at an address that is never mapped. */
static struct pto_tensor tensor_nowhere(void)
{
    return pto_tensor_external((void *)0x1000, PTO_DIMS(4), 1, PTO_UINT32);
}

static void get_nowhere(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = tensor_nowhere();

    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor));
    (void)PTO_GET(o, &t, 1);
}

static void set_nowhere(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = tensor_nowhere();

    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor));
    (void)pto_set_data(o, &t, 1, PTO_DIMS(1), 1);
}

static void predicate_nowhere(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = tensor_nowhere();

    pto_aic(o, KERNEL_CUBE, PTO_INOUT(entry->tensor));
    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor), PTO_IF(&t, GT, 0, 1));
    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor));
}

static void element_of_a_task(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor));
    (void)PTO_GET(o, entry->tensor, 0);
}

static void element_of_an_output(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = drill_words_info();
    struct pto_outputs out = pto_alloc(o, PTO_OUT(&info));

    (void)entry;
    (void)PTO_GET(o, pto_output(out, 0), 0);
}

static void get_in_vain(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_SLOW, PTO_INOUT(entry->tensor));
    (void)PTO_GET(o, entry->tensor, 3);
}

static void set_in_vain(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_SLOW, PTO_IN(entry->tensor));
    (void)pto_set_data(o, entry->tensor, 1, PTO_DIMS(3), 1);
}

/* Submits many tasks and sleeps after each, until the run has failed. */
static void build_slowly(struct pto_orch *o, const struct pto_entry *entry)
{
    for (int i = 0; i < 5000 && pto_orch_status(o) == PTO_OK; i++) {
        pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor));
        drill_rest();
    }
}

static void build_for_ever(struct pto_orch *o, const struct pto_entry *entry)
{
    for (;;)
        pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor));
}

static void loop_for_ever(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)o;
    (void)entry;
    for (;;)
        drill_rest();
}

/* ---- memory and the orchestration's own failures ---- */

static void exhaust(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(1 << 20), 1, PTO_UINT32);

    (void)entry;
    PTO_SCOPE(o) {
        for (int i = 0; i < 64 && pto_orch_status(o) == PTO_OK; i++)
            pto_dummy(o, PTO_OUT(&info));
    }
}

static void drills_args_give_up(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor));
    (void)pto_orch_fail(o, PTO_EORCH, "the weights are of another model");
}

/*
 * Functions of the C++ runtime by which an orchestration throws an exception. They are looked up by name,
 * because this program does not link with the C++ runtime.
 */
static struct {
    void *(*allocate)(size_t bytes);
    void (*construct)(void *exception, const char *text);
    void (*destruct)(void *exception);
    void (*cast)(void *exception, void *type, void (*destruct)(void *));
    void *type;
} cxx;

static void throw_exception(struct pto_orch *o, const struct pto_entry *entry)
{
    void *exception = cxx.allocate(64);

    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor));
    cxx.construct(exception, "the weights are of another model");
    cxx.cast(exception, cxx.type, cxx.destruct);
}

static void play_exception(struct stage *s)
{
    void *runtime = dlopen("libstdc++.so.6", RTLD_NOW);

    if (runtime == NULL || dlopen("libptoguard.so.0", RTLD_NOW) == NULL) {
        drill_skip(s, "libstdc++.so.6 or libptoguard.so.0 is not installed");
        return;
    }
    *(void **)&cxx.allocate = dlsym(runtime, "__cxa_allocate_exception");
    *(void **)&cxx.construct = dlsym(runtime, "_ZNSt13runtime_errorC1EPKc");
    *(void **)&cxx.destruct = dlsym(runtime, "_ZNSt13runtime_errorD1Ev");
    *(void **)&cxx.cast = dlsym(runtime, "__cxa_throw");
    cxx.type = dlsym(runtime, "_ZTISt13runtime_error");
    if (cxx.allocate == NULL || cxx.construct == NULL || cxx.destruct == NULL || cxx.cast == NULL ||
        cxx.type == NULL) {
        drill_skip(s, "this C++ runtime throws by functions of other names");
        return;
    }
    /*
     * The callable is made after the C++ runtime is loaded, because the orchestration needs the C++
     * runtime.
     */
    s->callable = drill_callable(s, throw_exception);
    drill_judge(s, drill_run(s), &s->report.error);
}

const struct drill drills_args[] = {
    ARGS("tensor-after-scalar", tensor_after_scalar, "a tensor argument after a scalar",
         "after a scalar", .kernel = KERNEL_ADD),
    ARGS("too-many-tensors", too_many_tensors, "a task with 33 tensors", "more than 32 tensors",
         .kernel = KERNEL_ADD),
    ARGS("too-many-scalars", too_many_scalars, "a task with 17 scalars", "more than 16 scalars",
         .kernel = KERNEL_ADD),
    ARGS("no-tensor", no_tensor, "a tensor argument that is NULL", "is NULL", .kernel = KERNEL_ADD),
    ARGS("never-initialised", never_initialised, "arguments without pto_args_init", "pto_args_init",
         .kernel = KERNEL_ADD),
    ARGS("unknown-tag", unknown_tag, "an argument with a tag that does not exist",
         "argument 1 has the unknown tag 9", .kernel = KERNEL_ADD, .argument = 2),
    ARGS("timing-slot", timing_slot, "a task with timing slot 16", "0 to 15", .kernel = KERNEL_ADD),
    ARGS("timing-slot-by-hand", timing_slot_by_hand,
         "a task with timing slot 16, set without pto_set_timing_slot",
         "timing slot 16 is not one of", .kernel = KERNEL_ADD),
    ARGS("pass-no-scalar", pass_no_scalar, "PTO_PASS of a scalar that the entry does not have",
         "scalar 2 of the entry", .kernel = KERNEL_ADD),
    ARGS("pass-scalar-128", pass_scalar_128, "PTO_PASS of scalar 128", "at most 128 scalars",
         .kernel = KERNEL_ADD),
    ARGS("bare-argument", bare_argument, "a short-form argument that was not made by a macro",
         "not in PTO_IN, PTO_INT or the like", .kernel = KERNEL_ADD),
    ARGS("read-no-scalar", read_no_scalar, "a read of a scalar beyond the last one of the entry",
         "scalar 2 of the entry was requested"),
    ARGS("output-without-shape", output_without_shape, "an output without a shape",
         "pto_tensor_info_make", .kernel = KERNEL_ADD, .argument = 2),
    ARGS("output-too-large", output_too_large, "an output of 4 TiB", "the most is 2^40",
         .kernel = KERNEL_ADD, .argument = 2),
    ARGS("alloc-nothing", alloc_nothing, "pto_alloc_tensors without an output",
         "at least one new output"),
    ARGS("alloc-with-input", alloc_with_input, "pto_alloc_tensors with an input",
         "and nothing else", .argument = 2),
    ARGS("no-kernel", drills_args_no_kernel, "kernel 99, which the callable does not have",
         "there is no kernel 99; callable \"drill\"", .kernel = 99),
    ARGS("kernel-hole", kernel_hole, "a kernel id without a function", "there is no kernel",
         .kernel = KERNEL_HOLE),
    ARGS("other-core", other_core, "an AIC kernel submitted to an AIV",
         "kernel 2 (\"cube\") is for the other core type; submit it with pto_submit_aic",
         .kernel = KERNEL_CUBE),
    ARGS("other-lane", other_lane, "an AIC kernel in an AIV lane", "for the other core type",
         .kernel = KERNEL_CUBE),
    ARGS("no-blocks", no_blocks, "a task with 0 blocks", "cannot have 0 blocks",
         .kernel = KERNEL_ADD),
    ARGS("too-many-blocks", too_many_blocks, "a task with 2^31 - 1 blocks", "at most 2^30",
         .kernel = KERNEL_ADD),
    ARGS("predicate-beyond", predicate_beyond, "a predicate on an element beyond the shape",
         "beyond the shape", .kernel = KERNEL_ADD),
    ARGS("predicate-indices", predicate_indices, "a predicate with two indices for one dimension",
         "more indices than dimensions", .kernel = KERNEL_ADD),
    ARGS("predicate-operator", predicate_operator, "a predicate with an unknown comparison",
         "enum pto_predicate_op", .kernel = KERNEL_ADD),
    ARGS("predicate-tensor", predicate_tensor, "a predicate without a tensor", "not a valid tensor",
         .kernel = KERNEL_ADD),
    ARGS("other-than-declared", other_than_declared,
         "a tensor of another type than the kernel declares",
         "kernel \"declared\" declares argument 0 as contiguous float32 with 1 dimension",
         .kernel = KERNEL_DECLARED, .argument = 1),
    ARGS("deps-none", deps_none, "a list of dependencies that is NULL", "dependencies are NULL",
         .kernel = KERNEL_ADD),
    ARGS("deps-twice", deps_twice, "dependencies set twice", "set twice", .kernel = KERNEL_ADD),
    ARGS("dep-invalid", dep_invalid, "a dependency on the invalid task id",
         "dependency 0 is the invalid task id", .kernel = KERNEL_ADD),
    ARGS("dep-of-the-future", dep_of_the_future, "a dependency on a task that is submitted later",
         "never submitted in this run", .kernel = KERNEL_ADD),
    ARGS("dep-kind", dep_kind, "a dependency of an unknown kind", "has an unknown kind",
         .kernel = KERNEL_ADD),
    { PTO_EARGS, "dep-of-another-run", "a dependency on a task of another run",
      .play = play_second_run, .orchestration = use_kept_id, .text = "never submitted in this run",
      .flags = DRILL_SITE, .kernel = KERNEL_ADD },
    { PTO_EARGS, "tensor-of-another-run", "an argument that is an output of another run",
      .play = play_second_run, .orchestration = use_kept_tensor, .text = "a scope that has ended",
      .flags = DRILL_SITE, .kernel = KERNEL_ADD, .argument = 2 },
    ARGS("scope-mode", scope_mode, "a scope with an unknown mode", "the unknown mode 7"),
    ARGS("scopes-too-deep", scopes_too_deep, "65 nested scopes", "deeper than 64",
         .scope_depth = 64),
    ARGS("auto-in-manual", auto_in_manual, "an AUTO scope inside a MANUAL one",
         "AUTO scope cannot be opened inside a MANUAL", .scope_depth = 1),
    { PTO_EARGS, "scope-end-too-many", "a scope ended twice", .orchestration = scope_end_too_many,
      .text = "never begun" },
    ARGS("scope-left-open", scope_left_open, "an orchestration that leaves a scope open",
         "returned with 1 scopes open", .scope_depth = 1),
    ARGS("return-from-scopes", return_from_scopes, "a return from inside two scopes",
         "returned with 2 scopes open", .scope_depth = 2),
    ARGS("mistake-in-scopes", mistake_in_scopes,
         "an error inside two nested scopes, which names their depth", "there is no kernel 99",
         .kernel = 99, .scope_depth = 2),
    ARGS("element-of-nothing", element_of_nothing, "pto_get_data without a tensor",
         "not a valid tensor"),
    ARGS("element-indices", element_indices, "pto_get_data with two indices for one dimension",
         "more indices than dimensions"),
    ARGS("element-beyond", element_beyond, "pto_get_data of an element beyond the shape",
         "beyond the shape"),
    ARGS("element-without-storage", element_without_storage,
         "pto_set_data of a tensor at address 0", "its address is 0"),
    { PTO_EARGS, "get-nowhere", "pto_get_data of unmapped memory", .orchestration = get_nowhere,
      .text = "there is no memory at the element's address", .flags = DRILL_SITE | DRILL_SIGNALS },
    { PTO_EARGS, "set-nowhere", "pto_set_data of unmapped memory", .orchestration = set_nowhere,
      .text = "there is no memory at the element's address", .flags = DRILL_SITE | DRILL_SIGNALS },
    { PTO_EARGS, "predicate-nowhere", "a predicate on unmapped memory",
      .orchestration = predicate_nowhere,
      .text = "the predicate of task 1, kernel \"add\", cannot be read: there is no memory at "
              "0x1004",
      .kernel = KERNEL_ADD, .flags = DRILL_SITE | DRILL_TASK | DRILL_SIGNALS },
    { PTO_EARGS, "element-of-a-task",
      "pto_get_data of an element that a task writes, in a graph that is built before it runs",
      .orchestration = element_of_a_task, .text = "a submitted task uses it",
      .flags = DRILL_SITE | DRILL_HOST },
    { PTO_EARGS, "element-of-an-output",
      "pto_get_data of an output, in a graph that is built before it runs",
      .orchestration = element_of_an_output, .text = "only memory from outside has contents",
      .flags = DRILL_SITE | DRILL_HOST },

    { PTO_ESYNC_START, "gang-of-aiv", "a gang with one block more than there are AIV cores",
      .orchestration = gang_of_aiv,
      .text = "17 blocks that start together never fit: this device has room for 16",
      .flags = DRILL_SITE, .kernel = KERNEL_ADD },
    { PTO_ESYNC_START, "gang-of-clusters",
      "a two-lane gang with one block more than there are clusters",
      .orchestration = gang_of_clusters,
      .text = "9 blocks that start together never fit: this device has room for 8",
      .flags = DRILL_SITE, .kernel = KERNEL_CUBE },

    { PTO_ETENSOR_WAIT, "get-in-vain", "pto_get_data of an element that a slow kernel writes",
      .orchestration = get_in_vain, .text = "did not complete in 20 ms",
      .flags = DRILL_SITE | DRILL_STREAM, .data_ms = 20 },
    { PTO_ETENSOR_WAIT, "set-in-vain", "pto_set_data of an element that a slow kernel reads",
      .orchestration = set_in_vain, .text = "did not complete in 20 ms",
      .flags = DRILL_SITE | DRILL_STREAM, .data_ms = 20 },
    { PTO_ETIMEOUT, "deadline-in-get", "a deadline while pto_get_data waits",
      .orchestration = get_in_vain, .text = "\"slow\" of task 0 is still running",
      .flags = DRILL_SITE | DRILL_TASK | DRILL_STREAM, .kernel = KERNEL_SLOW, .timeout_ms = 400 },

    { PTO_ETIMEOUT, "deadline-building", "a deadline while the graph is built",
      .orchestration = build_slowly, .text = "after 20 ms: the graph is still being built",
      .timeout_ms = 20 },
    { PTO_ETIMEOUT, "deadline-ignored", "a deadline that the orchestration ignores",
      .orchestration = build_for_ever, .text = "the graph is still being built",
      .reports = "an orchestration did not return after its run had ended", .flags = DRILL_LOST,
      .timeout_ms = 20 },
    { PTO_ETIMEOUT, "deadline-loop", "a deadline while the orchestration loops without calls",
      .orchestration = loop_for_ever, .text = "the graph is still being built",
      .reports = "an orchestration did not return after its run had ended",
      .flags = DRILL_LOST | DRILL_SIGNALS, .timeout_ms = 20 },

    { PTO_EORCH, "give-up", "an orchestration that calls pto_orch_fail",
      .orchestration = drills_args_give_up,
      .text = "the orchestration gave up: the weights are of another model" },
    { PTO_EORCH, "exception", "an orchestration that throws a C++ exception",
      .play = play_exception, .text = "threw an exception: the weights are of another model" },

    { PTO_ENOMEM, "memory-max", "outputs in one scope beyond the memory budget of the device",
      .orchestration = exhaust, .text = "memory budget of 64 MiB is exhausted", .flags = DRILL_SITE,
      .memory_max = 64 << 20, .scope_depth = 1 },
    { 0 },
};

/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * The public interface: what each function accepts and refuses, the message of every refusal, and
 * that a device works after each kind of failed run.
 *
 * A refusal is a row of a table: a function that provokes it inside an orchestration, and words
 * that the report must have. Each row runs in both modes with one and two workers, between a task
 * that runs and one that does not run. A run that succeeds on the same device follows.
 */
#include "tests/fixture/open_test.h"

enum { KERNEL_COUNT_AIV, KERNEL_COUNT_AIC, KERNEL_HOLE, KERNEL_ECHO, KERNELS };
enum { MIB = 1 << 20, WORDS = 16 };

enum { SWEEP_STEP = (IS_TSAN ? 509 : IS_ASAN ? 127 : 37) * 4096 }; /* opening a device takes long */

static uint32_t counted;      /* incremented by both counting kernels */
static int32_t expect_line;   /* line of the call that the report must name */
static uint32_t words[WORDS]; /* external memory */

/* Stores the number of the current line and makes a call, which must fit on the same line. */
#define HERE(call) (expect_line = __LINE__, (void)(call))

static void kernel_count(int64_t *args)
{
    (void)args;
    __atomic_fetch_add(&counted, 1, __ATOMIC_RELAXED);
}

/* A kernel that copies its scalars to its tensor, which has as many elements. */
static void kernel_echo(int64_t *args)
{
    uint64_t *to = pto_tensor_data(pto_arg_tensor(args, 0));

    for (uint64_t i = 0; i < pto_tensor_numel(pto_arg_tensor(args, 0)); i++)
        to[i] = (uint64_t)args[1 + i];
}

static const struct pto_kernel kernels[KERNELS] = {
    [KERNEL_COUNT_AIV] = { "count_aiv", kernel_count, PTO_CORE_AIV },
    [KERNEL_COUNT_AIC] = { "count_aic", kernel_count, PTO_CORE_AIC },
    [KERNEL_ECHO] = { "echo", kernel_echo, PTO_CORE_AIV },
};

static int run_in_mode(struct pto_device *device, pto_orch_fn orchestration,
                       const struct pto_entry *entry, enum pto_mode mode,
                       struct pto_run_report *report)
{
    struct pto_callable *callable = make_callable(kernels, KERNELS, orchestration);
    struct pto_run_options options;
    int status;

    pto_run_options_init(&options);
    options.mode = mode;
    if (report != NULL)
        pto_run_report_init(report);
    unexpected = NULL;
    status = pto_run(device, callable, entry, &options, report);
    pto_callable_destroy(callable);
    assert_nothing_unexpected();
    return status;
}

static int run(struct pto_device *device, pto_orch_fn orchestration, struct pto_run_report *report)
{
    return run_in_mode(device, orchestration, NULL, PTO_MODE_STREAM, report);
}

static struct pto_tensor word_tensor(void)
{
    const uint32_t shape[] = { WORDS };

    return pto_tensor_external(words, shape, 1, PTO_UINT32);
}

static struct pto_tensor_info info_of(uint32_t elements)
{
    return pto_tensor_info_make(&elements, 1, PTO_UINT32);
}

/* Submits three tasks with two edges on both types of cores. */
static void orchestrate_well(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = word_tensor();
    struct pto_args args;

    (void)entry;
    for (int i = 0; i < 3; i++) {
        pto_args_init(&args);
        pto_add_inout(&args, &t);
        if (i == 1)
            pto_submit_aic(o, KERNEL_COUNT_AIC, &args);
        else
            pto_submit_aiv(o, KERNEL_COUNT_AIV, &args);
    }
}

static void assert_works(struct pto_device *device)
{
    struct pto_run_report report;

    counted = 0;
    assert_int_equal(run(device, orchestrate_well, &report), PTO_OK);
    assert_int_equal(counted, 3);
    assert_int_equal(report.tasks, 3);
    assert_int_equal(report.executions, 3);
    assert_int_equal(report.error.status, PTO_OK);
    assert_string_equal(report.error.text, "");
}

/* ---- codes, platforms, devices, callables ---- */

static void every_status_has_a_text(void **state)
{
    (void)state;
#define X(name, value, text)                             \
    assert_int_equal(PTO_##name, value);                 \
    assert_string_equal(pto_strerror(PTO_##name), text); \
    assert_string_not_equal(pto_strerror(value), "unknown status");
    PTO_STATUS_MAP(X)
#undef X
    assert_non_null(pto_strerror(PTO_OK));
    assert_string_not_equal(pto_strerror(PTO_OK), "unknown status");
    assert_string_equal(pto_strerror(1), "unknown status");
    assert_string_equal(pto_strerror(-6), "unknown status");
    assert_string_equal(pto_strerror(-99999), "unknown status");
}

static void the_version_has_three_numbers(void **state)
{
    int major, minor, patch;
    char rest;

    (void)state;
    assert_int_equal(sscanf(pto_version(), "%d.%d.%d%c", &major, &minor, &patch, &rest), 3);
}

static void each_generation_has_a_simulated_and_a_real_platform(void **state)
{
    uint32_t count = 0, simulated = 0;

    (void)state;
    for (; pto_platform_at(count) != NULL; count++) {
        const struct pto_platform *p = pto_platform_at(count), *other;
        char name[64];

        snprintf(name, sizeof(name), "%s%s", p->generation, p->is_simulated ? "" : "sim");
        other = pto_platform_find(name);
        assert_ptr_equal(pto_platform_find(p->name), p);
        assert_non_null(other);
        assert_string_equal(other->generation, p->generation);
        assert_int_not_equal(other->is_simulated, p->is_simulated);
        assert_int_equal(other->clusters_max, p->clusters_max);
        assert_in_range(p->clusters, 1, p->clusters_max);
        assert_string_equal(p->backend, p->is_simulated ? "sim" : "cann");
        assert_int_equal(p->missing == NULL, p->is_simulated);
        simulated += p->is_simulated;
    }
    assert_int_equal(count, 2 * simulated);
    assert_null(pto_platform_at(UINT32_MAX));
    assert_null(pto_platform_find("nochip"));
    assert_string_equal(pto_platform_at(0)->name, "a2a3sim");
    assert_int_equal(pto_platform_find("a2a3sim")->clusters, 8);
    assert_int_equal(pto_platform_find("a2a3sim")->clusters_max, 24);
    assert_int_equal(pto_platform_find("a5sim")->clusters, 8);
    assert_int_equal(pto_platform_find("a5sim")->clusters_max, 36);
}

static void device_params_name_a_platform_and_leave_the_rest_to_it(void **state)
{
    struct pto_device_params params;

    (void)state;
    memset(&params, 0xff, sizeof(params));
    pto_device_params_init(&params);
    assert_int_equal(params.size, sizeof(params));
    assert_string_equal(params.platform, "a2a3sim");
    assert_int_equal(params.clusters, 0);
    assert_int_equal(params.workers, 0);
    assert_int_equal(params.memory_max, 0);
    pto_device_params_init(NULL);
}

static void a_device_is_opened_by_each_platform_name(void **state)
{
    (void)state;
    for (uint32_t i = 0; pto_platform_at(i) != NULL; i++) {
        bool is_open = pto_platform_at(i)->missing == NULL;
        struct pto_device_params params;
        struct pto_device *device = NULL;

        pto_device_params_init(&params);
        params.platform = pto_platform_at(i)->name;
        assert_int_equal(pto_device_open(&params, &device), is_open ? PTO_OK : PTO_ENOSUP);
        if (!is_open)
            continue;
        assert_works(device);
        pto_device_close(device);
    }
    pto_device_close(NULL);
}

struct refused_device {
    int status;
    size_t size; /* smaller than the struct */
    const char *platform;
    uint32_t clusters;
    uint32_t workers;
    const char *says; /* NULL: the error struct cannot be filled in either */
};

static void assert_device_refused(const struct refused_device *how)
{
    struct pto_device_params params;
    struct pto_device *device = (struct pto_device *)(void *)&params;
    struct pto_error error;

    pto_error_init(&error);
    pto_device_params_init(&params);
    params.size -= how->size;
    params.platform = how->platform;
    params.clusters = how->clusters;
    params.workers = how->workers;
    params.error = &error;
    assert_int_equal(pto_device_open(&params, &device), how->status);
    assert_ptr_equal(device, &params); /* untouched */
    if (how->says == NULL)
        return;
    assert_int_equal(error.status, how->status);
    if (strstr(error.text, how->says) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.text, how->says);
}

static void a_device_that_cannot_be_is_refused(void **state)
{
    static const struct refused_device cases[] = {
        { PTO_EINVAL, sizeof(struct pto_device_params), "a2a3sim", 0, 0, NULL },
        { PTO_EINVAL, 1, "a2a3sim", 0, 0, NULL },
        { PTO_EINVAL, 0, NULL, 0, 0, "the platform's name is NULL" },
        { PTO_ENOSUP, 0, "", 0, 0, "a2a3sim, a5sim" },
        { PTO_ENOSUP, 0, "a2a3", 0, 0,
          "platform a2a3 is not available here: ASCEND_HOME_PATH is not set" },
        { PTO_ENOSUP, 0, "a2a3sim ", 0, 0, "there is no platform a2a3sim ; those that can be" },
        { PTO_EINVAL, 0, "a2a3sim", PTO_CORES_MAX, 0, "1024 clusters are too many" },
        { PTO_EINVAL, 0, "a5sim", UINT32_MAX, 0, "at most 341" },
        { PTO_EINVAL, 0, "a2a3sim", 0, 65, "65 workers are too many: a device has at most 64" },
        { PTO_EINVAL, 0, "a5sim", 0, UINT32_MAX, "workers" },
    };
    struct pto_device_params params;
    struct pto_device *device = NULL;
    struct pto_error error;

    (void)state;
    pto_error_init(&error);
    pto_device_params_init(&params);
    params.error = &error;
    assert_int_equal(pto_device_open(NULL, &device), PTO_EINVAL);
    assert_int_equal(pto_device_open(&params, NULL), PTO_EINVAL);
    assert_non_null(strstr(error.text, "device_out is NULL"));
    assert_null(device);
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_device_refused(&cases[i]);
}

/* The messages for a run that cannot be prepared. */
static void assert_prepare_says(struct pto_device *device, const struct pto_callable *callable,
                                const struct pto_entry *entry, struct pto_run_options *options,
                                const char *says)
{
    struct pto_run *run = NULL;
    struct pto_error error;

    pto_error_init(&error);
    options->error = &error;
    assert_int_equal(pto_run_prepare(device, callable, entry, options, &run), PTO_EINVAL);
    assert_null(run);
    assert_int_equal(error.status, PTO_EINVAL);
    if (strstr(error.text, says) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.text, says);
    pto_run_options_init(options);
}

static void a_run_that_cannot_be_prepared_is_explained(void **state)
{
    struct pto_device *device = open_device(NULL, 0, 1);
    struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_nothing);
    struct pto_entry entry = { .tensor_count = 2 };
    struct pto_run_options options;
    struct pto_run *run = NULL;
    struct pto_error old = { .size = 1 };

    (void)state;
    pto_run_options_init(&options);
    assert_prepare_says(NULL, callable, NULL, &options, "invalid device handle");
    assert_prepare_says(device, NULL, NULL, &options, "invalid callable handle");
    assert_prepare_says(device, callable, &entry, &options, "2 tensors, but their array is NULL");
    entry = (struct pto_entry){ .scalar_count = 129 };
    assert_prepare_says(device, callable, &entry, &options, "129 scalars; there may be 128");
    options.mode = (enum pto_mode)7;
    assert_prepare_says(device, callable, NULL, &options, "mode of the options is 7; it may be 0");
    options.trace_records = 100;
    assert_prepare_says(device, callable, NULL, &options, "must be a power of two");
    options.error = &old; /* read-only memory */
    options.trace_records = 100;
    assert_int_equal(pto_run_prepare(device, callable, NULL, &options, &run), PTO_EINVAL);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

static void workers_beyond_the_cores_are_left_out(void **state)
{
    static const struct {
        uint32_t clusters, workers, expect;
    } row[] = { { 1, 64, 3 }, { 8, 64, 24 }, { 0, 2, 2 }, { 24, 64, 64 } };

    (void)state;
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct pto_device_params params;
        struct pto_device *device = NULL;
        struct pto_run_report report;

        pto_device_params_init(&params);
        params.clusters = row[i].clusters;
        params.workers = row[i].workers;
        assert_int_equal(pto_device_open(&params, &device), PTO_OK);
        assert_int_equal(run(device, orchestrate_well, &report), PTO_OK);
        assert_int_equal(report.workers, row[i].expect);
        assert_int_equal(report.core_count, 3 * (row[i].clusters != 0 ? row[i].clusters : 8));
        pto_device_close(device);
    }
}

static void a_callable_that_cannot_be_is_refused(void **state)
{
    static struct pto_kernel many[1025];
    const struct pto_kernel odd[] = { { "odd", kernel_count,
                                        (enum pto_core_type)(PTO_CORE_TYPES + 1) } };
    struct pto_callable_params good, params;
    struct pto_callable *callable = NULL;
    struct pto_error error;

    (void)state;
    pto_error_init(&error);
    pto_callable_params_init(NULL);
    pto_callable_params_init(&good);
    assert_int_equal(good.size, sizeof(good));
    assert_int_equal(pto_callable_create(&good, &callable), PTO_EINVAL); /* no orchestration */
    good.error = &error;
    assert_int_equal(pto_callable_create(&good, &callable), PTO_EINVAL);
    assert_int_equal(error.status, PTO_EINVAL);
    assert_in(error.text, "no orchestration");
    good.orchestration = orchestrate_nothing;
    assert_int_equal(pto_callable_create(NULL, &callable), PTO_EINVAL);
    assert_int_equal(pto_callable_create(&good, NULL), PTO_EINVAL);
    assert_in(error.text, "callable_out");
    params = good;
    params.size--;
    assert_int_equal(pto_callable_create(&params, &callable), PTO_EINVAL);
    params = good;
    params.kernel_count = 1; /* of none */
    assert_int_equal(pto_callable_create(&params, &callable), PTO_EINVAL);
    assert_in(error.text, "array is NULL");
    params.kernels = odd;
    assert_int_equal(pto_callable_create(&params, &callable), PTO_EINVAL);
    assert_non_null(strstr(error.text, "kernel 0 (\"odd\") is for core type 3; it must be"));
    params.kernels = many;
    params.kernel_count = 1025;
    assert_int_equal(pto_callable_create(&params, &callable), PTO_EINVAL);
    assert_in(error.text, "1025 kernels");
    assert_in(error.text, "1024");
    assert_null(callable);
    params.size =
        /* as from a program whose struct lacks this field */
        offsetof(struct pto_callable_params, error);
    error.text[0] = '\0';
    assert_int_equal(pto_callable_create(&params, &callable), PTO_EINVAL);
    assert_string_equal(error.text, "");
    params.size = sizeof(params);
    params.kernel_count = 1024;
    assert_int_equal(pto_callable_create(&params, &callable), PTO_OK);
    pto_callable_destroy(callable);
    pto_callable_destroy(NULL);
}

static void a_callable_needs_neither_names_nor_kernels(void **state)
{
    struct pto_device *device = open_device(NULL, 0, 1);
    struct pto_callable_params params;
    struct pto_callable *callable = NULL;

    (void)state;
    pto_callable_params_init(&params);
    params.orchestration = orchestrate_nothing;
    assert_int_equal(pto_callable_create(&params, &callable), PTO_OK);
    assert_int_equal(pto_run(device, callable, NULL, NULL, NULL), PTO_OK);
    pto_callable_destroy(callable);
    pto_device_close(device);
}

static void orchestrate_echoes(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_COUNT_AIV, PTO_IN(entry->tensor)); /* declares nothing */
    pto_aiv(o, KERNEL_ECHO, PTO_INOUT(entry->tensor), PTO_INT(7));
    HERE(pto_aiv(o, KERNEL_ECHO, PTO_INOUT(entry->tensor), PTO_INT(1000)));
}

static void functions_may_declare_their_arguments(void **state)
{
    uint32_t echo[] = { PTO_TENSOR(PTO_UINT64, 1), PTO_SCALAR(PTO_UINT8), 0 };
    static const uint32_t unknown[] = { 99, 0 };
    const uint32_t *args[KERNELS] = { [KERNEL_ECHO] = unknown };
    uint64_t word = 0;
    struct pto_tensor tensor = pto_tensor_external(&word, PTO_DIMS(1), 1, PTO_UINT64);
    struct pto_entry entry = { .tensor_count = 1, .tensor = &tensor };
    struct pto_device *device = open_device(NULL, 0, 1);
    struct pto_callable *callable = NULL;
    struct pto_callable_params params;
    struct pto_run_report report;
    struct pto_error error;

    (void)state;
    pto_error_init(&error);
    pto_callable_params_init(&params);
    params.orchestration = orchestrate_echoes;
    params.kernels = kernels;
    params.kernel_count = KERNELS;
    params.kernel_args = args;
    params.error = &error;
    assert_int_equal(pto_callable_create(&params, &callable), PTO_EINVAL);
    assert_in(error.text, "kernel 3 (\"echo\") declares its arguments in an unknown way");
    args[KERNEL_ECHO] = echo;
    assert_int_equal(pto_callable_create(&params, &callable), PTO_OK);
    memset(echo, 0xff, sizeof(echo)); /* they were copied */
    args[KERNEL_ECHO] = NULL;
    pto_run_report_init(&report);
    assert_int_equal(pto_run(device, callable, &entry, NULL, &report), PTO_EARGS);
    assert_in(report.error.text,
              "kernel \"echo\" declares scalar 0 as uint8, and the task has 0x3e8");
    assert_int_equal(report.error.site.line, expect_line);
    assert_int_equal(report.error.kernel, KERNEL_ECHO);
    assert_int_equal(report.error.argument, -1);
    pto_callable_destroy(callable);
    pto_device_close(device);
}

static void a_callable_keeps_a_copy_of_its_parameters(void **state)
{
    struct pto_device *device = open_device(NULL, 0, 1);
    struct pto_kernel mine[KERNELS];
    struct pto_callable_params params;
    struct pto_callable *callable = NULL;

    (void)state;
    memcpy(mine, kernels, sizeof(mine));
    pto_callable_params_init(&params);
    params.orchestration = orchestrate_well;
    params.kernels = mine;
    params.kernel_count = KERNELS;
    assert_int_equal(pto_callable_create(&params, &callable), PTO_OK);
    memset(mine, 0, sizeof(mine));
    memset(&params, 0, sizeof(params));
    counted = 0;
    assert_int_equal(pto_run(device, callable, NULL, NULL, NULL), PTO_OK);
    assert_int_equal(counted, 3);
    pto_callable_destroy(callable);
    pto_device_close(device);
}

/* ---- runs: arguments, options, report ---- */

static void a_run_that_cannot_be_is_refused_and_reports_nothing(void **state)
{
    struct pto_device *device = open_device(NULL, 0, 1);
    struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_well);
    struct pto_tensor t = word_tensor();
    const uint64_t scalar = 0;
    const struct pto_entry bad[] = {
        { .tensor_count = PTO_ENTRY_TENSORS_MAX + 1, .tensor = &t },
        { .scalar_count = PTO_ENTRY_SCALARS_MAX + 1, .scalar = &scalar },
        { .tensor_count = UINT32_MAX, .tensor = &t },
        { .tensor_count = 1 },
        { .scalar_count = 1 },
    };
    struct pto_run_options options;
    struct pto_run_report report;

    (void)state;
    counted = 0;
    pto_run_report_init(&report);
    report.tasks = 77;
    assert_int_equal(pto_run(NULL, callable, NULL, NULL, &report), PTO_EINVAL);
    assert_int_equal(pto_run(device, NULL, NULL, NULL, &report), PTO_EINVAL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(pto_run(device, callable, &bad[i], NULL, &report), PTO_EINVAL);

    for (int i = 0; i < 5; i++) {
        pto_run_options_init(&options);
        assert_int_equal(options.size, sizeof(options));
        if (i == 0)
            options.size = 0;
        if (i == 1)
            options.size++;
        if (i == 2)
            options.mode = (enum pto_mode)(PTO_MODE_HOST + 1);
        if (i == 3)
            options.deps = (enum pto_deps)(PTO_DEPS_DEFAULT + 1);
        if (i == 4)
            options.mode = (enum pto_mode) - 1;
        assert_int_equal(pto_run(device, callable, NULL, &options, &report), PTO_EINVAL);
    }
    assert_int_equal(report.tasks, 77);
    report.size = 0;
    assert_int_equal(pto_run(device, callable, NULL, NULL, &report), PTO_EINVAL);
    report.size = sizeof(report) + 1;
    assert_int_equal(pto_run(device, callable, NULL, NULL, &report), PTO_EINVAL);
    assert_int_equal(report.tasks, 77);
    assert_int_equal(counted, 0);
    pto_run_options_init(NULL);
    pto_run_report_init(NULL);
    assert_works(device);
    pto_callable_destroy(callable);
    pto_device_close(device);
}

static struct pto_device *running_device;
static int inner_status;

static void orchestrate_a_run_inside(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_nothing);

    inner_status = pto_run(running_device, callable, NULL, NULL, NULL);
    pto_callable_destroy(callable);
    orchestrate_well(o, entry);
}

static void a_run_inside_a_run_of_the_same_device_is_refused(void **state)
{
    (void)state;
    running_device = open_device(NULL, 0, 2);
    counted = 0;
    assert_int_equal(run(running_device, orchestrate_a_run_inside, NULL), PTO_OK);
    assert_int_equal(inner_status, PTO_EBUSY);
    assert_int_equal(counted, 3);
    assert_works(running_device);
    pto_device_close(running_device);
}

static struct pto_tensor entry_tensors[PTO_ENTRY_TENSORS_MAX];
static uint64_t entry_scalars[PTO_ENTRY_SCALARS_MAX];
static uint32_t entries_seen;

static void orchestrate_comparing_entry(struct pto_orch *o, const struct pto_entry *entry)
{
    entries_seen++;
    if (entry->tensor_count != PTO_ENTRY_TENSORS_MAX ||
        entry->scalar_count != PTO_ENTRY_SCALARS_MAX)
        pto_orch_fail(o, PTO_EORCH, "wrong counts");
    else if (memcmp(entry->tensor, entry_tensors, sizeof(entry_tensors)) != 0)
        pto_orch_fail(o, PTO_EORCH, "tensors changed");
    else if (memcmp(entry->scalar, entry_scalars, sizeof(entry_scalars)) != 0)
        pto_orch_fail(o, PTO_EORCH, "scalars changed");
}

static void orchestrate_expecting_nothing(struct pto_orch *o, const struct pto_entry *entry)
{
    entries_seen++;
    if (entry == NULL || entry->tensor_count != 0 || entry->scalar_count != 0)
        pto_orch_fail(o, PTO_EORCH, "there is something");
}

static void entry_arguments_arrive_unchanged(void **state)
{
    struct pto_device *device = open_device(NULL, 0, 2);
    const struct pto_entry entry = { PTO_ENTRY_TENSORS_MAX, PTO_ENTRY_SCALARS_MAX, entry_tensors,
                                     entry_scalars };
    struct pto_run_report report;

    (void)state;
    for (uint32_t i = 0; i < PTO_ENTRY_TENSORS_MAX; i++) {
        entry_tensors[i] = word_tensor();
        entry_tensors[i].version = (int32_t)i;
    }
    for (uint32_t i = 0; i < PTO_ENTRY_SCALARS_MAX; i++)
        entry_scalars[i] = (uint64_t)i << 56 | i;
    entries_seen = 0;
    for (int mode = PTO_MODE_STREAM; mode <= PTO_MODE_HOST; mode++)
        if (run_in_mode(device, orchestrate_comparing_entry, &entry, (enum pto_mode)mode, &report) <
            0)
            fail_msg("%s", report.error.text);
    assert_int_equal(run(device, orchestrate_expecting_nothing, &report), PTO_OK);
    assert_int_equal(entries_seen, 3);
    pto_device_close(device);
}

static uint64_t echoed[PTO_TASK_SCALARS_MAX][PTO_TASK_SCALARS_MAX];

static void orchestrate_echo(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    for (uint32_t n = 1; n <= PTO_TASK_SCALARS_MAX; n++) {
        struct pto_tensor t = pto_tensor_external(echoed[n - 1], &n, 1, PTO_UINT64);
        struct pto_args args;

        pto_args_init(&args);
        pto_add_output_existing(&args, &t);
        for (uint32_t i = 0; i < n; i++)
            pto_add_scalar(&args, UINT64_MAX - (100 * n + i));
        pto_submit_aiv(o, KERNEL_ECHO, &args);
    }
}

static void every_number_of_scalars_reaches_the_kernel(void **state)
{
    struct pto_device *device = open_device(NULL, 0, 2);

    (void)state;
    assert_int_equal(run(device, orchestrate_echo, NULL), PTO_OK);
    for (uint32_t n = 1; n <= PTO_TASK_SCALARS_MAX; n++)
        for (uint32_t i = 0; i < n; i++)
            assert_true(echoed[n - 1][i] == UINT64_MAX - (100 * n + i));
    pto_device_close(device);
}

static uint32_t seen_clusters, seen_aivs;
static size_t seen_ops_size;

static void orchestrate_looking_around(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    seen_clusters = o->ops->cluster_count(o);
    seen_aivs = o->ops->aiv_count(o);
    seen_ops_size = o->ops->size;
}

static void an_orchestration_can_ask_for_the_shape_of_the_chip(void **state)
{
    struct pto_device_params params;
    struct pto_device *device = NULL;

    (void)state;
    pto_device_params_init(&params);
    params.clusters = 5;
    assert_int_equal(pto_device_open(&params, &device), PTO_OK);
    assert_int_equal(run(device, orchestrate_looking_around, NULL), PTO_OK);
    assert_int_equal(seen_clusters, 5);
    assert_int_equal(seen_aivs, 10);
    assert_int_equal(seen_ops_size, sizeof(struct pto_orch_ops));
    pto_device_close(device);
}

enum { CHAINS = 50, CHAIN = 20 };

/* Chains on disjoint words, and a dummy after everything. */
static void orchestrate_chains(struct pto_orch *o, const struct pto_entry *entry)
{
    static uint32_t memory[CHAINS];
    const uint32_t shape[] = { CHAINS };
    struct pto_tensor all = pto_tensor_external(memory, shape, 1, PTO_UINT32);
    struct pto_args args;

    (void)entry;
    for (uint32_t i = 0; i < CHAIN * CHAINS; i++) {
        struct pto_tensor one =
            pto_tensor_view(&all, (uint32_t[]){ 1 }, (uint32_t[]){ i % CHAINS });

        pto_args_init(&args);
        pto_add_inout(&args, &one);
        if (i % 2 == 0)
            pto_submit_aiv(o, KERNEL_COUNT_AIV, &args);
        else
            pto_submit_aic(o, KERNEL_COUNT_AIC, &args);
    }
    pto_args_init(&args);
    pto_add_input(&args, &all);
    pto_submit_dummy(o, &args);
}

static void a_report_counts_tasks_executions_and_edges(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 8; workers *= 2) {
        struct pto_device *device = open_device(NULL, 0, workers);

        for (int mode = PTO_MODE_STREAM; mode <= PTO_MODE_HOST; mode++) {
            struct pto_run_report report;
            uint64_t sum = 0, aic = 0;

            counted = 0;
            assert_int_equal(
                run_in_mode(device, orchestrate_chains, NULL, (enum pto_mode)mode, &report),
                PTO_OK);
            for (uint32_t i = 0; i < report.core_count; i++) {
                sum += report.core_tasks[i];
                aic += i < report.core_count / 3 ? report.core_tasks[i] : 0;
            }
            assert_int_equal(report.size, sizeof(report));
            assert_int_equal(report.tasks, CHAIN * CHAINS + 1);
            assert_int_equal(report.executions, CHAIN * CHAINS);
            assert_int_equal(counted, CHAIN * CHAINS);
            assert_int_equal(report.workers, workers);
            assert_int_equal(report.core_count, 24);
            assert_int_equal(sum, report.executions);
            assert_int_equal(aic, CHAIN * CHAINS / 2);
            assert_true(report.stolen <= report.executions);
            assert_true(workers > 1 || report.stolen == 0);
            /* in a streamed run the predecessor may have completed already */
            if (mode == PTO_MODE_HOST)
                assert_int_equal(report.edges, (CHAIN - 1) * CHAINS + CHAINS);
            else
                assert_true(report.edges <= (CHAIN - 1) * CHAINS + CHAINS);
            assert_true(report.ns > 0);
            assert_int_equal(report.error.size, sizeof(report.error));
            assert_int_equal(report.error.status, PTO_OK);
        }
        pto_device_close(device);
    }
}

static void a_run_of_nothing_reports_nothing(void **state)
{
    struct pto_device *device = open_device(NULL, 0, 2);
    struct pto_run_report report;

    (void)state;
    assert_int_equal(run(device, orchestrate_nothing, &report), PTO_OK);
    assert_int_equal(report.tasks, 0);
    assert_int_equal(report.executions, 0);
    assert_int_equal(report.edges, 0);
    assert_false(pto_task_id_is_valid(report.error.task));
    pto_device_close(device);
}

static bool drop_edge(void *context, uint64_t before, uint64_t after)
{
    uint64_t *pairs = context;

    pairs[0] += before;
    pairs[1] += after;
    return false;
}

static void an_edge_function_sees_every_dependency_and_can_drop_it(void **state)
{
    struct pto_device *device = open_device(NULL, 0, 1);
    struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_well);
    struct pto_run_options options;
    struct pto_run_report report;
    uint64_t sums[2] = { 0, 0 };

    (void)state;
    pto_run_options_init(&options);
    pto_run_report_init(&report);
    options.mode = PTO_MODE_HOST;
    options.edge = drop_edge;
    options.edge_context = sums;
    assert_int_equal(pto_run(device, callable, NULL, &options, &report), PTO_OK);
    assert_int_equal(sums[0], 0 + 1); /* 0 before 1, and 1 before 2 */
    assert_int_equal(sums[1], 1 + 2);
    assert_int_equal(report.edges, 0);
    pto_callable_destroy(callable);
    pto_device_close(device);
}

/* ---- refusals ---- */

static void submit_views(struct pto_orch *o, const struct pto_tensor *t)
{
    struct pto_tensor good = word_tensor();
    struct pto_args args;

    pto_args_init(&args);
    pto_add_input(&args, &good);
    pto_add_input(&args, t);
    HERE(pto_submit_aiv(o, KERNEL_COUNT_AIV, &args));
}

static void tensor_after_scalar(struct pto_orch *o)
{
    struct pto_tensor t = word_tensor();
    struct pto_args args;

    pto_args_init(&args);
    pto_add_scalar(&args, 1);
    pto_add_input(&args, &t);
    HERE(pto_submit_aiv(o, KERNEL_COUNT_AIV, &args));
}

static void too_many_tensors(struct pto_orch *o)
{
    struct pto_tensor t = word_tensor();
    struct pto_args args;

    pto_args_init(&args);
    for (int i = 0; i <= PTO_TASK_TENSORS_MAX; i++)
        pto_add_input(&args, &t);
    HERE(pto_submit_aiv(o, KERNEL_COUNT_AIV, &args));
}

static void too_many_scalars(struct pto_orch *o)
{
    struct pto_args args;

    pto_args_init(&args);
    for (int i = 0; i <= PTO_TASK_SCALARS_MAX; i++)
        pto_add_scalar(&args, 1);
    HERE(pto_submit_aiv(o, KERNEL_COUNT_AIV, &args));
}

static void null_tensor(struct pto_orch *o)
{
    struct pto_args args;

    pto_args_init(&args);
    pto_add_inout(&args, NULL);
    HERE(pto_submit_aiv(o, KERNEL_COUNT_AIV, &args));
}

static void null_deps(struct pto_orch *o)
{
    struct pto_args args;

    pto_args_init(&args);
    pto_set_deps(&args, NULL, NULL, 1);
    HERE(pto_submit_aiv(o, KERNEL_COUNT_AIV, &args));
}

static void deps_twice(struct pto_orch *o)
{
    struct pto_task_id dep = { 0 };
    struct pto_args args;

    pto_args_init(&args);
    pto_set_deps(&args, &dep, NULL, 1);
    pto_set_deps(&args, &dep, NULL, 1);
    HERE(pto_submit_aiv(o, KERNEL_COUNT_AIV, &args));
}

static void counts_beyond_the_arrays(struct pto_orch *o)
{
    struct pto_args args;

    pto_args_init(&args);
    args.tensor_count = PTO_TASK_TENSORS_MAX + 1;
    HERE(pto_submit_aiv(o, KERNEL_COUNT_AIV, &args));
}

static void scalars_beyond_the_array(struct pto_orch *o)
{
    struct pto_args args;

    pto_args_init(&args);
    args.scalar_count = PTO_TASK_SCALARS_MAX + 1;
    HERE(pto_submit_aiv(o, KERNEL_COUNT_AIV, &args));
}

static void unknown_tag(struct pto_orch *o)
{
    struct pto_tensor t = word_tensor();
    struct pto_args args;

    pto_args_init(&args);
    pto_add_input(&args, &t);
    pto_add_input(&args, &t);
    args.tag[1] = 9;
    HERE(pto_submit_aiv(o, KERNEL_COUNT_AIV, &args));
}

static void view_never_made(struct pto_orch *o)
{
    struct pto_tensor t;

    memset(&t, 0, sizeof(t));
    submit_views(o, &t);
}

static void view_without_dimensions(struct pto_orch *o)
{
    const uint32_t shape[] = { 1, 1, 1, 1, 1, 1 };
    struct pto_tensor t = pto_tensor_external(words, shape, 6, PTO_UINT32);

    submit_views(o, &t);
}

static void view_of_no_type(struct pto_orch *o)
{
    const uint32_t shape[] = { 1 };
    struct pto_tensor t = pto_tensor_external(words, shape, 1, (enum pto_dtype)99);

    submit_views(o, &t);
}

static void view_whose_type_was_overwritten(struct pto_orch *o)
{
    struct pto_tensor t = word_tensor();

    t.dtype = 99;
    submit_views(o, &t);
}

static void view_out_of_range(struct pto_orch *o)
{
    struct pto_tensor all = word_tensor();
    struct pto_tensor t = pto_tensor_view(&all, (uint32_t[]){ 4 }, (uint32_t[]){ WORDS - 3 });

    submit_views(o, &t);
}

static void view_of_an_invalid_view(struct pto_orch *o)
{
    struct pto_tensor all = word_tensor();
    struct pto_tensor bad = pto_tensor_view(&all, (uint32_t[]){ 4 }, (uint32_t[]){ WORDS - 3 });
    struct pto_tensor t = pto_tensor_reshape(&bad, (uint32_t[]){ 2, 2 }, 2);

    submit_views(o, &t);
}

static void reshape_of_a_strided_view(struct pto_orch *o)
{
    struct pto_tensor all = word_tensor();
    struct pto_tensor odd = pto_tensor_slice(&all, 0, 1, WORDS, 2);
    struct pto_tensor t = pto_tensor_reshape(&odd, (uint32_t[]){ 2, WORDS / 4 }, 2);

    submit_views(o, &t);
}

static void reshape_to_another_size(struct pto_orch *o)
{
    struct pto_tensor all = word_tensor();
    struct pto_tensor t = pto_tensor_reshape(&all, (uint32_t[]){ 2, WORDS }, 2);

    submit_views(o, &t);
}

static void transpose_of_a_missing_dimension(struct pto_orch *o)
{
    struct pto_tensor all = word_tensor();
    struct pto_tensor t = pto_tensor_transpose(&all, 0, 1);

    submit_views(o, &t);
}

static void slice_without_a_step(struct pto_orch *o)
{
    struct pto_tensor all = word_tensor();
    struct pto_tensor t = pto_tensor_slice(&all, 0, 0, 4, 0);

    submit_views(o, &t);
}

static void view_beyond_its_buffer(struct pto_orch *o)
{
    struct pto_tensor t = word_tensor();

    t.start = 1;
    submit_views(o, &t);
}

static void view_without_storage(struct pto_orch *o)
{
    const uint32_t shape[] = { WORDS };
    struct pto_tensor t = pto_tensor_external(NULL, shape, 1, PTO_UINT32);

    submit_views(o, &t);
}

static void submit_outputs(struct pto_orch *o, const struct pto_tensor_info *info)
{
    struct pto_tensor_info good = info_of(WORDS);
    struct pto_args args;

    pto_args_init(&args);
    pto_add_output(&args, &good);
    pto_add_output(&args, info);
    HERE(pto_submit_aiv(o, KERNEL_COUNT_AIV, &args));
}

static void output_without_shape(struct pto_orch *o)
{
    const uint32_t shape[] = { 1 };
    struct pto_tensor_info info = (pto_tensor_info_make)(shape, 0, PTO_UINT32);

    submit_outputs(o, &info);
}

static void output_of_no_type(struct pto_orch *o)
{
    struct pto_tensor_info info = info_of(1);

    info.dtype = PTO_DTYPE_COUNT;
    submit_outputs(o, &info);
}

static void output_too_large(struct pto_orch *o)
{
    const uint32_t shape[] = { 1u << 20, 1u << 20 };
    struct pto_tensor_info info = pto_tensor_info_make(shape, 2, PTO_UINT32);

    submit_outputs(o, &info);
}

/* The number of bytes is a multiple of 2^64. */
static void output_too_large_to_count(struct pto_orch *o)
{
    const uint32_t shape[] = { 1u << 16, 1u << 16, 1u << 16, 1u << 16 };
    struct pto_tensor_info info = pto_tensor_info_make(shape, 4, PTO_UINT32);

    submit_outputs(o, &info);
}

static void missing_kernel(struct pto_orch *o)
{
    struct pto_args args;

    pto_args_init(&args);
    HERE(pto_submit_aic(o, 99, &args));
}

static void kernel_hole(struct pto_orch *o)
{
    struct pto_args args;

    pto_args_init(&args);
    HERE(pto_submit_aiv(o, KERNEL_HOLE, &args));
}

static void aic_kernel_in_an_aiv_lane(struct pto_orch *o)
{
    struct pto_args args;

    pto_args_init(&args);
    HERE(pto_submit_mix(o, PTO_LANES(KERNEL_COUNT_AIC, KERNEL_COUNT_AIC, -1), &args));
}

static void aic_kernel_on_aiv(struct pto_orch *o)
{
    struct pto_args args;

    pto_args_init(&args);
    HERE(pto_submit_aiv(o, KERNEL_COUNT_AIC, &args));
}

static void aiv_kernel_on_aic(struct pto_orch *o)
{
    struct pto_args args;

    pto_args_init(&args);
    HERE(pto_submit_aic(o, KERNEL_COUNT_AIV, &args));
}

static void submit_blocks(struct pto_orch *o, int32_t count, bool is_gang)
{
    struct pto_args args;

    pto_args_init(&args);
    pto_set_blocks(&args, count);
    pto_set_sync_start(&args, is_gang);
    HERE(pto_submit_aiv(o, KERNEL_COUNT_AIV, &args));
}

static void no_blocks(struct pto_orch *o)
{
    submit_blocks(o, 0, false);
}

static void too_many_blocks(struct pto_orch *o)
{
    submit_blocks(o, INT32_MAX, false);
}

static void too_large_a_gang(struct pto_orch *o)
{
    submit_blocks(o, (int32_t)pto_aiv_count(o) + 1, true);
}

static void timing_slot_16(struct pto_orch *o)
{
    struct pto_args args;

    pto_args_init(&args);
    pto_set_timing_slot(&args, PTO_TIMING_SLOTS);
    HERE(pto_submit_aiv(o, KERNEL_COUNT_AIV, &args));
}

static void timing_slot_by_hand(struct pto_orch *o)
{
    struct pto_args args;

    pto_args_init(&args);
    args.timing_slot = PTO_TIMING_SLOTS;
    HERE(pto_submit_aiv(o, KERNEL_COUNT_AIV, &args));
}

static void submit_predicate(struct pto_orch *o, uint32_t ndims, uint32_t index, uint32_t op)
{
    static uint32_t value[4];
    struct pto_tensor t = pto_tensor_external(value, (const uint32_t[]){ 4 }, 1, PTO_UINT32);
    const struct pto_predicate when = { &t, ndims, { index }, (uint8_t)op, 0 };
    struct pto_args args;

    pto_args_init(&args);
    pto_set_predicate(&args, &when);
    HERE(pto_submit_aiv(o, KERNEL_COUNT_AIV, &args));
}

static void predicate_beyond_its_tensor(struct pto_orch *o)
{
    submit_predicate(o, 1, 4, PTO_PREDICATE_EQ);
}

static void predicate_with_too_many_indices(struct pto_orch *o)
{
    submit_predicate(o, 2, 0, PTO_PREDICATE_EQ);
}

static void predicate_that_compares_in_no_way(struct pto_orch *o)
{
    submit_predicate(o, 1, 0, PTO_PREDICATE_LE + 1);
}

static void predicate_without_a_tensor(struct pto_orch *o)
{
    const struct pto_predicate when = { NULL, 0, { 0 }, PTO_PREDICATE_EQ, 0 };
    struct pto_args args;

    pto_args_init(&args);
    pto_set_predicate(&args, &when);
    HERE(pto_submit_aiv(o, KERNEL_COUNT_AIV, &args));
}

static void data_beyond_its_tensor(struct pto_orch *o)
{
    static uint32_t value[4];
    struct pto_tensor t = pto_tensor_external(value, (const uint32_t[]){ 4 }, 1, PTO_UINT32);

    HERE(pto_get_data(o, &t, 1, PTO_DIMS(4)));
}

static void data_without_storage(struct pto_orch *o)
{
    struct pto_tensor t = pto_tensor_external(NULL, (const uint32_t[]){ 4 }, 1, PTO_UINT32);

    HERE(pto_set_data(o, &t, 1, PTO_DIMS(1), 1));
}

/* The task submitted before each row is task 0 of ring 0. */
static void submit_deps(struct pto_orch *o, struct pto_task_id last, const uint8_t *kinds)
{
    const struct pto_task_id deps[] = { pto_task_id_make(0, 0), last };
    struct pto_args args;

    pto_args_init(&args);
    pto_set_deps(&args, deps, kinds, 2);
    HERE(pto_submit_aiv(o, KERNEL_COUNT_AIV, &args));
}

static void invalid_dep(struct pto_orch *o)
{
    submit_deps(o, pto_task_id_invalid(), NULL);
}

static void dep_of_the_future(struct pto_orch *o)
{
    submit_deps(o, pto_task_id_make(0, 1), NULL);
}

static void dep_of_a_missing_ring(struct pto_orch *o)
{
    submit_deps(o, pto_task_id_make(4, 0), NULL);
}

static void unknown_dep_kind(struct pto_orch *o)
{
    const uint8_t kinds[] = { PTO_DEP_WAIT, 4 };

    submit_deps(o, pto_task_id_make(0, 0), kinds);
}

static void scopes_too_deep(struct pto_orch *o)
{
    for (int i = 0; i < PTO_SCOPE_DEPTH_MAX; i++)
        EXPECT(pto_scope_begin(o, PTO_SCOPE_AUTO) == PTO_OK);
    HERE(pto_scope_begin(o, PTO_SCOPE_AUTO));
}

static void auto_in_manual(struct pto_orch *o)
{
    EXPECT(pto_scope_begin(o, PTO_SCOPE_MANUAL) == PTO_OK);
    HERE(pto_scope_begin(o, PTO_SCOPE_AUTO));
}

static void one_scope_end_too_many(struct pto_orch *o)
{
    EXPECT(pto_scope_begin(o, PTO_SCOPE_AUTO) == PTO_OK);
    EXPECT(pto_scope_end(o) == PTO_OK);
    (void)pto_scope_end(o);
}

static void alloc_nothing(struct pto_orch *o)
{
    struct pto_args args;

    pto_args_init(&args);
    HERE(pto_alloc_tensors(o, &args));
}

static void alloc_with_input(struct pto_orch *o)
{
    struct pto_tensor_info info = info_of(WORDS);
    struct pto_tensor t = word_tensor();
    struct pto_args args;

    pto_args_init(&args);
    pto_add_output(&args, &info);
    pto_add_input(&args, &t);
    HERE(pto_alloc_tensors(o, &args));
}

static void alloc_with_scalar(struct pto_orch *o)
{
    struct pto_tensor_info info = info_of(WORDS);
    struct pto_args args;

    pto_args_init(&args);
    pto_add_output(&args, &info);
    pto_add_scalar(&args, 1);
    HERE(pto_alloc_tensors(o, &args));
}

static void alloc_without_shape(struct pto_orch *o)
{
    struct pto_tensor_info info;
    struct pto_args args;

    memset(&info, 0, sizeof(info));
    pto_args_init(&args);
    pto_add_output(&args, &info);
    HERE(pto_alloc_tensors(o, &args));
}

static void alloc_of_a_mistake(struct pto_orch *o)
{
    struct pto_args args;

    pto_args_init(&args);
    pto_add_output(&args, NULL);
    HERE(pto_alloc_tensors(o, &args));
}

static void tensor_of_an_ended_scope(struct pto_orch *o)
{
    struct pto_tensor_info info = info_of(WORDS);
    struct pto_tensor t = word_tensor();
    struct pto_args args;

    PTO_SCOPE(o) {
        struct pto_outputs out;

        pto_args_init(&args);
        pto_add_output(&args, &info);
        out = pto_alloc_tensors(o, &args);
        EXPECT(out.count == 1);
        t = out.tensor[0];
    }
    submit_views(o, &t);
}

static void own_failure(struct pto_orch *o)
{
    EXPECT(pto_orch_fail(o, PTO_EPEER, "no more flour") == PTO_EPEER);
    assert_int_equal(pto_orch_fail(o, PTO_EORCH, "and no more eggs"),
                     PTO_EPEER); /* the first wins */
}

static void own_failure_without_a_code(struct pto_orch *o)
{
    EXPECT(pto_orch_fail(o, 3, NULL) == PTO_EORCH);
}

static void own_failure_at_length(struct pto_orch *o)
{
    char text[4 * PTO_ERROR_TEXT_MAX];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    EXPECT(pto_orch_fail(o, PTO_EORCH, text) == PTO_EORCH);
}

struct refusal {
    const char *name;
    void (*provoke)(struct pto_orch *o);
    int status;
    int32_t argument;
    int32_t kernel;
    uint32_t scope_depth;
    bool has_site;
    const char *text[3]; /* words that the message must contain */
};

#define ARGS(fn, argument, kernel, ...)                \
    {                                                  \
#fn, fn, PTO_EARGS, argument, kernel, 0, true, \
        {                                              \
            __VA_ARGS__                                \
        }                                              \
    }

static const struct refusal refusals[] = {
    ARGS(tensor_after_scalar, -1, KERNEL_COUNT_AIV, "after a scalar"),
    ARGS(too_many_tensors, -1, KERNEL_COUNT_AIV, "32 tensors"),
    ARGS(too_many_scalars, -1, KERNEL_COUNT_AIV, "16 scalars"),
    ARGS(null_tensor, -1, KERNEL_COUNT_AIV, "NULL"),
    ARGS(null_deps, -1, KERNEL_COUNT_AIV, "NULL", "dependencies"),
    ARGS(deps_twice, -1, KERNEL_COUNT_AIV, "twice"),
    ARGS(counts_beyond_the_arrays, -1, KERNEL_COUNT_AIV, "pto_args_init"),
    ARGS(scalars_beyond_the_array, -1, KERNEL_COUNT_AIV, "pto_args_init"),
    ARGS(unknown_tag, 1, KERNEL_COUNT_AIV, "argument 1", "tag 9"),
    ARGS(view_never_made, 1, KERNEL_COUNT_AIV, "argument 1", "never initialised"),
    ARGS(view_without_dimensions, 1, KERNEL_COUNT_AIV, "argument 1", "1 to 5 dimensions"),
    ARGS(view_of_no_type, 1, KERNEL_COUNT_AIV, "argument 1", "data type"),
    ARGS(view_whose_type_was_overwritten, 1, KERNEL_COUNT_AIV, "argument 1", "data type"),
    ARGS(view_out_of_range, 1, KERNEL_COUNT_AIV, "argument 1", "exceeds the parent"),
    ARGS(view_of_an_invalid_view, 1, KERNEL_COUNT_AIV, "argument 1", "exceeds the parent"),
    ARGS(reshape_of_a_strided_view, 1, KERNEL_COUNT_AIV, "argument 1", "contiguous"),
    ARGS(reshape_to_another_size, 1, KERNEL_COUNT_AIV, "argument 1", "number of elements"),
    ARGS(transpose_of_a_missing_dimension, 1, KERNEL_COUNT_AIV, "argument 1", "dimension"),
    ARGS(slice_without_a_step, 1, KERNEL_COUNT_AIV, "argument 1", "step"),
    ARGS(view_beyond_its_buffer, 1, KERNEL_COUNT_AIV, "argument 1", "byte 68", "start"),
    ARGS(view_without_storage, 1, KERNEL_COUNT_AIV, "argument 1", "address is 0"),
    ARGS(output_without_shape, 1, KERNEL_COUNT_AIV, "argument 1", "pto_tensor_info_make"),
    ARGS(output_of_no_type, 1, KERNEL_COUNT_AIV, "argument 1", "data type"),
    ARGS(output_too_large, 1, KERNEL_COUNT_AIV, "2^40"),
    ARGS(output_too_large_to_count, 1, KERNEL_COUNT_AIV, "2^40"),
    ARGS(missing_kernel, -1, 99, "kernel 99", "under test"),
    ARGS(kernel_hole, -1, KERNEL_HOLE, "kernel 2", "under test"),
    ARGS(aic_kernel_in_an_aiv_lane, -1, KERNEL_COUNT_AIC, "count_aic", "other core type"),
    ARGS(aic_kernel_on_aiv, -1, KERNEL_COUNT_AIC, "count_aic", "pto_submit_aic"),
    ARGS(aiv_kernel_on_aic, -1, KERNEL_COUNT_AIV, "count_aiv", "pto_submit_aiv"),
    ARGS(no_blocks, -1, KERNEL_COUNT_AIV, "0 blocks", "at least 1"),
    ARGS(too_many_blocks, -1, KERNEL_COUNT_AIV, "2147483647 blocks", "2^30"),
    { "too_large_a_gang",
      too_large_a_gang,
      PTO_ESYNC_START,
      -1,
      KERNEL_COUNT_AIV,
      0,
      true,
      { "never fit", "pto_aiv_count" } },
    ARGS(timing_slot_16, -1, KERNEL_COUNT_AIV, "timing slot", "0 to 15"),
    ARGS(timing_slot_by_hand, -1, KERNEL_COUNT_AIV, "timing slot 16", "0 to 15"),
    ARGS(predicate_beyond_its_tensor, -1, KERNEL_COUNT_AIV, "predicate", "beyond the shape"),
    ARGS(predicate_with_too_many_indices, -1, KERNEL_COUNT_AIV, "predicate", "more indices"),
    ARGS(predicate_that_compares_in_no_way, -1, KERNEL_COUNT_AIV, "predicate", "comparison"),
    ARGS(predicate_without_a_tensor, -1, KERNEL_COUNT_AIV, "predicate", "not a valid tensor"),
    ARGS(data_beyond_its_tensor, -1, -1, "element", "beyond the shape"),
    ARGS(data_without_storage, -1, -1, "element", "address is 0"),
    ARGS(invalid_dep, -1, KERNEL_COUNT_AIV, "dependency 1", "invalid"),
    ARGS(dep_of_the_future, -1, KERNEL_COUNT_AIV, "dependency 1", "never submitted"),
    ARGS(dep_of_a_missing_ring, -1, KERNEL_COUNT_AIV, "dependency 1", "never submitted"),
    ARGS(unknown_dep_kind, -1, KERNEL_COUNT_AIV, "dependency 1", "kind"),
    ARGS(alloc_nothing, -1, -1, "pto_alloc_tensors"),
    ARGS(alloc_with_input, 1, -1, "pto_alloc_tensors"),
    ARGS(alloc_with_scalar, -1, -1, "pto_alloc_tensors"),
    ARGS(alloc_without_shape, 0, -1, "argument 0", "pto_tensor_info_make"),
    ARGS(alloc_of_a_mistake, -1, -1, "NULL"),
    ARGS(tensor_of_an_ended_scope, 1, KERNEL_COUNT_AIV, "argument 1", "scope", "ended"),
    { "scopes_too_deep", scopes_too_deep, PTO_EARGS, -1, -1, 64, true, { "deeper than 64" } },
    { "auto_in_manual", auto_in_manual, PTO_EARGS, -1, -1, 1, true, { "AUTO", "MANUAL" } },
    { "one_scope_end_too_many",
      one_scope_end_too_many,
      PTO_EARGS,
      -1,
      -1,
      0,
      false,
      { "never begun", "pto_scope_begin" } },
    { "own_failure", own_failure, PTO_EPEER, -1, -1, 0, false, { "no more flour" } },
    { "own_failure_without_a_code",
      own_failure_without_a_code,
      PTO_EORCH,
      -1,
      -1,
      0,
      false,
      { "gave up" } },
    { "own_failure_at_length",
      own_failure_at_length,
      PTO_EORCH,
      -1,
      -1,
      0,
      false,
      { "gave up: xxx" } },
};

static const struct refusal *current;

/*
 * Submits a task that runs, makes the wrong call, and makes more calls, which must have no effect.
 */
static void orchestrate_refusal(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = info_of(WORDS);
    struct pto_tensor t = word_tensor();
    struct pto_outputs out;
    struct pto_args args;

    (void)entry;
    pto_args_init(&args);
    pto_add_inout(&args, &t);
    out = pto_submit_aiv(o, KERNEL_COUNT_AIV, &args);
    EXPECT(out.task.raw == 0);
    EXPECT(pto_orch_status(o) == PTO_OK);

    current->provoke(o);

    EXPECT(pto_orch_status(o) == current->status);
    pto_args_init(&args);
    pto_add_inout(&args, &t);
    pto_add_output(&args, &info);
    out = pto_submit_aiv(o, KERNEL_COUNT_AIV, &args);
    EXPECT(!pto_task_id_is_valid(out.task));
    EXPECT(out.count == 0);
    EXPECT(out.tensor == NULL);
    pto_args_init(&args);
    pto_add_output(&args, &info);
    out = pto_alloc_tensors(o, &args);
    EXPECT(!pto_task_id_is_valid(out.task));
    EXPECT(out.count == 0);
    EXPECT(pto_scope_begin(o, PTO_SCOPE_AUTO) == current->status);
    EXPECT(pto_scope_end(o) == current->status);
    PTO_SCOPE(o) {
        out = pto_submit_dummy(o, &args);
        EXPECT(!pto_task_id_is_valid(out.task));
    }
}

static void assert_refusal(struct pto_device *device, enum pto_mode mode)
{
    const struct pto_error *error;
    struct pto_run_report report;

    counted = 0;
    assert_int_equal(run_in_mode(device, orchestrate_refusal, NULL, mode, &report),
                     current->status);
    error = &report.error;
    assert_int_equal(counted, 1);
    assert_int_equal(report.executions, 1);
    assert_int_equal(error->size, sizeof(*error));
    assert_int_equal(error->status, current->status);
    assert_int_equal(error->level, 2);
    assert_int_equal(error->rank, -1);
    assert_false(pto_task_id_is_valid(error->task));
    assert_int_equal(error->argument, current->argument);
    assert_int_equal(error->kernel, current->kernel);
    assert_int_equal(error->scope_depth, current->scope_depth);
    assert_true(strlen(error->text) < PTO_ERROR_TEXT_MAX);
    for (int i = 0; i < 3 && current->text[i] != NULL; i++)
        if (strstr(error->text, current->text[i]) == NULL)
            fail_msg("%s: \"%s\" is not in \"%s\"", current->name, current->text[i], error->text);
    if (current->has_site) {
        char place[256];

        assert_string_equal(error->site.file, __FILE__);
        assert_int_equal(error->site.line, expect_line);
        snprintf(place, sizeof(place), "%s:%d: ", __FILE__, expect_line);
        assert_memory_equal(error->text, place, strlen(place));
    } else {
        assert_null(error->site.file);
    }
}

static void every_refusal_says_what_is_wrong_and_where(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        struct pto_device *device = open_device(NULL, 0, workers);

        for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
            current = &refusals[i];
            assert_refusal(device, PTO_MODE_STREAM);
            assert_works(device);
            assert_refusal(device, PTO_MODE_HOST);
            assert_works(device);
        }
        pto_device_close(device);
    }
}

static void orchestrate_leaving_scopes_open(struct pto_orch *o, const struct pto_entry *entry)
{
    orchestrate_well(o, entry);
    (void)pto_scope_begin(o, PTO_SCOPE_AUTO);
    HERE(pto_scope_begin(o, PTO_SCOPE_MANUAL));
}

static void scopes_left_open_are_reported_where_they_began(void **state)
{
    struct pto_device *device = open_device(NULL, 0, 2);

    (void)state;
    for (int mode = PTO_MODE_STREAM; mode <= PTO_MODE_HOST; mode++) {
        struct pto_run_report report;

        counted = 0;
        assert_int_equal(run_in_mode(device, orchestrate_leaving_scopes_open, NULL,
                                     (enum pto_mode)mode, &report),
                         PTO_EARGS);
        assert_int_equal(counted, 3);
        assert_int_equal(report.error.scope_depth, 2);
        assert_string_equal(report.error.site.file, __FILE__);
        assert_int_equal(report.error.site.line, expect_line);
        assert_non_null(strstr(report.error.text, "2 scopes open"));
        assert_works(device);
    }
    pto_device_close(device);
}

static void the_rules_of_the_reference_still_refuse_invalid_views(void **state)
{
    struct pto_device *device = open_device(NULL, 0, 1);
    struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_refusal);
    struct pto_run_options options;
    struct pto_run_report report;

    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        current = &refusals[i];
        if (current->provoke != view_out_of_range && current->provoke != view_never_made &&
            current->provoke != output_without_shape && current->provoke != invalid_dep)
            continue;
        pto_run_options_init(&options);
        pto_run_report_init(&report);
        options.deps = PTO_DEPS_SIMPLER;
        assert_int_equal(pto_run(device, callable, NULL, &options, &report), PTO_EARGS);
        assert_non_null(strstr(report.error.text, current->text[0]));
        assert_works(device);
    }
    pto_callable_destroy(callable);
    pto_device_close(device);
}

/* ---- memory ---- */

static uint32_t outputs_made;
static uint32_t outputs_wanted = 1000;

/* Creates outputs of a megabyte in one scope until memory is exhausted, and counts them. */
static void orchestrate_hoarding(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = info_of(MIB / 4);

    (void)entry;
    PTO_SCOPE(o) {
        for (outputs_made = 0; outputs_made < outputs_wanted; outputs_made++) {
            struct pto_outputs out;
            struct pto_args args;

            pto_args_init(&args);
            pto_add_output(&args, &info);
            expect_line = __LINE__ + 1;
            out = pto_submit_aiv(o, KERNEL_COUNT_AIV, &args);
            if (!pto_task_id_is_valid(out.task))
                break;
        }
    }
}

static void a_scope_that_exhausts_the_budget_is_named_with_the_setting(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        struct pto_device *device = open_device_with(.workers = workers, .memory_max = 64 * MIB);

        for (int mode = PTO_MODE_STREAM; mode <= PTO_MODE_HOST; mode++) {
            struct pto_run_report report;

            counted = 0;
            assert_int_equal(
                run_in_mode(device, orchestrate_hoarding, NULL, (enum pto_mode)mode, &report),
                PTO_ENOMEM);
            assert_in_range(outputs_made, 16, 64);
            assert_int_equal(counted, outputs_made);
            assert_int_equal(report.error.status, PTO_ENOMEM);
            assert_non_null(strstr(report.error.text, "memory_max"));
            assert_non_null(strstr(report.error.text, "scope 1 "));
            assert_int_equal(report.error.scope_depth, 1);
            assert_string_equal(report.error.site.file, __FILE__);
            assert_int_equal(report.error.site.line, expect_line);
            assert_int_equal(report.error.kernel, KERNEL_COUNT_AIV);
            assert_works(device);
        }
        pto_device_close(device);
    }
}

enum { SMALL_TASKS = IS_SANITIZED ? 20000 : 100000 };

/*
 * All tasks are live at once in host mode: the memory is for slots of 192 bytes and their
 * bookkeeping.
 */
static void orchestrate_small_tasks(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_args args;

    (void)entry;
    pto_args_init(&args);
    for (uint32_t i = 0; i < SMALL_TASKS; i++)
        pto_submit_aiv(o, KERNEL_COUNT_AIV, &args);
}

/* Each of these fits into the memory budget of a new device. */
static void memory_of_a_run_is_there_for_another_purpose(uint32_t outputs, int status)
{
    struct pto_device *device = open_device_with(.workers = 1, .memory_max = 48 * MIB);
    struct pto_run_report report;

    counted = 0;
    assert_int_equal(run_in_mode(device, orchestrate_small_tasks, NULL, PTO_MODE_HOST, &report),
                     PTO_OK);
    assert_int_equal(counted, SMALL_TASKS);
    pto_device_close(device);

    device = open_device_with(.workers = 1, .memory_max = 48 * MIB);
    for (int i = 0; i < 2; i++) {
        outputs_wanted = outputs;
        assert_int_equal(run(device, orchestrate_hoarding, &report), status);
        outputs_wanted = 1000;
        counted = 0;
        if (run_in_mode(device, orchestrate_small_tasks, NULL, PTO_MODE_HOST, &report) != PTO_OK)
            fail_msg("fits a new device, but not this one: %s", report.error.text);
        assert_int_equal(counted, SMALL_TASKS);
    }
    pto_device_close(device);
}

static void memory_of_a_run_that_ran_out_is_there_for_another_purpose(void **state)
{
    (void)state;
    memory_of_a_run_is_there_for_another_purpose(1000, PTO_ENOMEM);
}

static void memory_of_a_run_that_went_well_is_there_for_another_purpose(void **state)
{
    (void)state;
    memory_of_a_run_is_there_for_another_purpose(30, PTO_OK);
}

static struct pto_outputs last_out;
static int last_status;
static uint32_t submitted;

/*
 * Creates many small outputs and records, so that each kind of memory is exhausted at some point.
 */
static void orchestrate_until_refused(struct pto_orch *o, const struct pto_entry *entry)
{
    static uint32_t memory[4096];
    const uint32_t shape[] = { 4096 };
    struct pto_tensor all = pto_tensor_external(memory, shape, 1, PTO_UINT32);
    struct pto_tensor_info info = info_of(1);
    const struct pto_tensor *previous = NULL;

    (void)entry;
    for (submitted = 0; submitted < 4096; submitted++) {
        struct pto_tensor tile =
            pto_tensor_view(&all, (uint32_t[]){ 1 }, (uint32_t[]){ submitted });
        struct pto_args args;

        pto_args_init(&args);
        pto_add_inout(&args, &tile);
        if (previous != NULL)
            pto_add_input(&args, previous);
        if (submitted % 8 == 0)
            pto_add_output(&args, &info);
        if (submitted % 64 == 63)
            pto_add_input(&args, &all);
        last_out = (struct pto_outputs){ { PTO_TASK_ID_INVALID }, 0, NULL };
        last_status = o->ops->submit(o, &(struct pto_kernels){ -1, KERNEL_COUNT_AIV, -1 }, &args,
                                     PTO_SITE, &last_out);
        if (last_status < 0)
            return;
        if (last_out.count != 0)
            previous = &last_out.tensor[0];
    }
}

static void memory_may_run_out_at_any_point(void **state)
{
    bool has_succeeded = false, has_started = false;

    (void)state;
    for (uint64_t budget = 4096; !has_succeeded; budget += SWEEP_STEP) {
        for (uint32_t workers = 1; workers <= 2; workers++) {
            struct pto_device *device = open_device_with(.workers = workers, .memory_max = budget);
            struct pto_run_report report;
            int status;

            counted = 0;
            submitted = 0;
            last_status = 0;
            status = run_in_mode(device, orchestrate_until_refused, NULL, PTO_MODE_HOST, &report);
            assert_int_equal(counted, submitted);
            if (status == PTO_OK) {
                assert_int_equal(submitted, 4096);
                has_succeeded = workers == 2;
            } else {
                assert_int_equal(status, PTO_ENOMEM);
                assert_non_null(strstr(report.error.text, "memory_max"));
                if (last_status < 0) { /* otherwise the run was not even started */
                    has_started = true;
                    assert_false(pto_task_id_is_valid(last_out.task));
                    assert_int_equal(last_out.count, 0);
                    assert_null(last_out.tensor);
                }
                if (strstr(report.error.text, "scope 0 ") == NULL)
                    fail_msg("with a budget of %llu: %s", (unsigned long long)budget,
                             report.error.text);
            }
            pto_device_close(device);
        }
    }
    assert_true(has_started);
}

static uint32_t empty_ok;

static void kernel_empty(int64_t *args)
{
    const struct pto_tensor *t = pto_arg_tensor(args, 0);

    __atomic_fetch_add(&empty_ok, pto_tensor_numel(t) == 0 ? 1 : 0, __ATOMIC_RELAXED);
}

static void orchestrate_empty_outputs(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info empty = info_of(0);
    struct pto_tensor_info filled = info_of(0);
    struct pto_tensor_info words_info = info_of(WORDS);
    const struct pto_tensor *kept;
    struct pto_args args;

    (void)entry;
    pto_tensor_info_fill(&filled, 0x55555555);
    pto_tensor_info_fill(&words_info, 7);
    for (int i = 0; i < 2; i++) {
        pto_args_init(&args);
        pto_add_output(&args, &empty);
        pto_submit_aiv(o, 0, &args);
        PTO_SCOPE(o) {
            pto_args_init(&args);
            pto_add_output(&args, &filled);
            pto_submit_aiv(o, 0, &args);
        }
        pto_args_init(&args);
        pto_add_output(&args, &words_info);
        kept = pto_alloc_tensors(o, &args).tensor;
        pto_args_init(&args);
        pto_add_output(&args, &filled);
        (void)pto_alloc_tensors(o, &args);
        for (uint32_t k = 0; kept != NULL && k < WORDS; k++)
            if (((uint32_t *)pto_tensor_data(kept))[k] != 7)
                pto_orch_fail(o, PTO_EORCH, "an empty output has written into another one");
    }
}

static void an_empty_output_takes_no_memory_even_if_it_is_filled(void **state)
{
    static const struct pto_kernel mine[] = { { "empty", kernel_empty, PTO_CORE_AIV } };
    struct pto_device *device = open_device(NULL, 0, 1);
    struct pto_callable_params params;
    struct pto_callable *callable = NULL;
    struct pto_run_report report;

    (void)state;
    pto_callable_params_init(&params);
    params.orchestration = orchestrate_empty_outputs;
    params.kernels = mine;
    params.kernel_count = 1;
    assert_int_equal(pto_callable_create(&params, &callable), PTO_OK);
    pto_run_report_init(&report);
    empty_ok = 0;
    if (pto_run(device, callable, NULL, NULL, &report) < 0)
        fail_msg("%s", report.error.text);
    assert_int_equal(empty_ok, 4);
    pto_callable_destroy(callable);
    pto_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_text),
        cmocka_unit_test(the_version_has_three_numbers),
        cmocka_unit_test(each_generation_has_a_simulated_and_a_real_platform),
        cmocka_unit_test(device_params_name_a_platform_and_leave_the_rest_to_it),
        cmocka_unit_test(a_device_is_opened_by_each_platform_name),
        cmocka_unit_test(a_device_that_cannot_be_is_refused),
        cmocka_unit_test(a_run_that_cannot_be_prepared_is_explained),
        cmocka_unit_test(workers_beyond_the_cores_are_left_out),
        cmocka_unit_test(a_callable_that_cannot_be_is_refused),
        cmocka_unit_test(a_callable_needs_neither_names_nor_kernels),
        cmocka_unit_test(functions_may_declare_their_arguments),
        cmocka_unit_test(a_callable_keeps_a_copy_of_its_parameters),
        cmocka_unit_test(a_run_that_cannot_be_is_refused_and_reports_nothing),
        cmocka_unit_test(a_run_inside_a_run_of_the_same_device_is_refused),
        cmocka_unit_test(entry_arguments_arrive_unchanged),
        cmocka_unit_test(every_number_of_scalars_reaches_the_kernel),
        cmocka_unit_test(an_orchestration_can_ask_for_the_shape_of_the_chip),
        cmocka_unit_test(a_report_counts_tasks_executions_and_edges),
        cmocka_unit_test(a_run_of_nothing_reports_nothing),
        cmocka_unit_test(an_edge_function_sees_every_dependency_and_can_drop_it),
        cmocka_unit_test(every_refusal_says_what_is_wrong_and_where),
        cmocka_unit_test(scopes_left_open_are_reported_where_they_began),
        cmocka_unit_test(the_rules_of_the_reference_still_refuse_invalid_views),
        cmocka_unit_test(a_scope_that_exhausts_the_budget_is_named_with_the_setting),
        cmocka_unit_test(memory_of_a_run_that_ran_out_is_there_for_another_purpose),
        cmocka_unit_test(memory_of_a_run_that_went_well_is_there_for_another_purpose),
        cmocka_unit_test(memory_may_run_out_at_any_point),
        cmocka_unit_test(an_empty_output_takes_no_memory_even_if_it_is_filled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

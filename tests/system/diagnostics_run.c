/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the diagnostics of one run, and prints what came of it as JSON:
 *
 *     diagnostics FOLDER stream|host safe|simpler SWIMLANE ARGS [fail]
 *
 * Its tasks, by index; `diagnostics.py` knows them, too:
 *
 *     0   fill        out c, scalars; all marked
 *     1   raise       inout a 2 x 4 corner of b, marked: 1 is added
 *     2   raise       inout all of b
 *     3   copy        in b, in c (marked), existing output d
 *     4   dummy       after 1 and 3
 *     5   raise       inout c, 3 blocks, early
 *     6   gang of 2   after 5
 *     7   gang of 3   inout e
 *     8   mix         AIC and AIV0, inout e
 *     9   raise       inout d; its predicate does not hold
 *
 * Task 0 is in the run's own scope, the others are in one within. With `fail` the last submit is
 * refused.
 */
#include <pto/pto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILL, RAISE, COPY, GANG, MIX_AIC, MIX_AIV, KERNELS };
enum { ROWS = 4, COLUMNS = 8, ALL = ROWS * COLUMNS };

static float b[ALL], d[ALL], e[ALL];
static int32_t is_wanted;
static bool has_failure;

static float *first_of(int64_t *args, int index, const struct pto_tensor **tensor_out)
{
    const struct pto_tensor *t = (const void *)(uintptr_t)args[index];

    *tensor_out = t;
    return (float *)(uintptr_t)t->addr + t->start;
}

static void fill(int64_t *args)
{
    const struct pto_tensor *t;
    float *to = first_of(args, 0, &t);

    for (int i = 0; i < ALL; i++)
        to[i] = (float)(args[1] + i);
}

static void raise_all(int64_t *args)
{
    const struct pto_tensor *t;
    float *at = first_of(args, 0, &t);

    if (pto_block_index(args) != 0)
        return;
    for (uint32_t i = 0; i < t->shapes[0]; i++)
        for (uint32_t k = 0; k < (t->ndims > 1 ? t->shapes[1] : 1); k++)
            at[i * t->strides[0] + k * (t->ndims > 1 ? t->strides[1] : 0)] += 1;
}

static void copy(int64_t *args)
{
    const struct pto_tensor *t;
    const float *from = first_of(args, 0, &t), *more = first_of(args, 1, &t);
    float *to = first_of(args, 2, &t);

    for (int i = 0; i < ALL; i++)
        to[i] = from[i] + more[i];
}

static void nothing(int64_t *args)
{
    (void)args;
}

static const struct pto_kernel kernels[KERNELS] = {
    [FILL] = { "fill", fill, PTO_CORE_AIV },
    [RAISE] = { "raise", raise_all, PTO_CORE_AIV },
    [COPY] = { "copy", copy, PTO_CORE_AIV },
    [GANG] = { "gang", nothing, PTO_CORE_AIV },
    [MIX_AIC] = { "mix aic", nothing, PTO_CORE_AIC },
    [MIX_AIV] = { "mix aiv", nothing, PTO_CORE_AIV },
};

static struct pto_task_id submit(struct pto_orch *o, int32_t kernel, struct pto_args *args)
{
    return pto_submit_aiv(o, kernel, args).task;
}

static void submit_gangs(struct pto_orch *o, struct pto_task_id before, const struct pto_tensor *te)
{
    struct pto_args args;

    pto_args_init(&args);
    pto_set_blocks(&args, 2);
    pto_set_sync_start(&args, true);
    pto_set_deps(&args, &before, NULL, 1);
    (void)submit(o, GANG, &args);
    pto_aiv(o, GANG, PTO_INOUT(te), PTO_GANG(3));
    pto_mix(o, PTO_LANES(MIX_AIC, MIX_AIV, -1), PTO_INOUT(te));
}

static void submit_inner(struct pto_orch *o, const struct pto_tensor *c)
{
    const struct pto_tensor tb = pto_tensor_external(b, PTO_DIMS(ROWS, COLUMNS), 2, PTO_FLOAT32);
    const struct pto_tensor td = pto_tensor_external(d, PTO_DIMS(ROWS, COLUMNS), 2, PTO_FLOAT32);
    const struct pto_tensor te = pto_tensor_external(e, PTO_DIMS(ALL), 1, PTO_FLOAT32);
    const struct pto_tensor tw = pto_tensor_external(&is_wanted, PTO_DIMS(1), 1, PTO_INT32);
    const struct pto_tensor corner = pto_tensor_view(&tb, PTO_DIMS(2, 4), PTO_DIMS(1, 2));
    struct pto_task_id waits[2], early;
    struct pto_args args;

    pto_args_init(&args);
    pto_add_inout(&args, &corner);
    pto_dump(&args, 0);
    waits[0] = submit(o, RAISE, &args);
    pto_aiv(o, RAISE, PTO_INOUT(&tb));
    pto_args_init(&args);
    pto_add_input(&args, &tb);
    pto_add_input(&args, c);
    pto_add_output_existing(&args, &td);
    pto_dump(&args, 1);
    waits[1] = submit(o, COPY, &args);
    pto_args_init(&args);
    pto_set_deps(&args, waits, NULL, 2);
    (void)pto_submit_dummy(o, &args);
    pto_args_init(&args);
    pto_add_inout(&args, c);
    pto_set_blocks(&args, 3);
    pto_set_early_resolve(&args, true);
    early = submit(o, RAISE, &args);
    submit_gangs(o, early, &te);
    pto_aiv(o, RAISE, PTO_INOUT(&td), PTO_IF(&tw, NE, 0, 0));
}

static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(ALL), 1, PTO_FLOAT32);
    struct pto_outputs out;
    struct pto_args args;

    (void)entry;
    pto_args_init(&args);
    pto_add_output(&args, &info);
    pto_add_scalar(&args, 100);
    pto_add_float(&args, 1.5f);
    pto_dump_all(&args);
    out = pto_submit_aiv(o, FILL, &args);
    PTO_SCOPE(o) {
        submit_inner(o, out.tensor);
    }
    if (has_failure)
        pto_aiv(o, KERNELS, PTO_INT(0));
}

/* What is wrong with what is asked for is said before anything runs. */
static bool refuses(struct pto_device *device, struct pto_callable *callable)
{
    struct pto_run_options options;
    struct pto_run_report report;

    pto_run_options_init(&options);
    pto_run_report_init(&report);
    options.diagnostics.has_deps = true;
    if (pto_run(device, callable, NULL, &options, &report) != PTO_EINVAL ||
        strstr(report.error.text, "folder") == NULL)
        return false;
    options.diagnostics.folder = "/dev/null/below";
    if (pto_run(device, callable, NULL, &options, &report) != PTO_ESYSTEM ||
        strstr(report.error.text, "/dev/null/below") == NULL)
        return false;
    options.diagnostics.args = 4;
    return pto_run(device, callable, NULL, &options, &report) == PTO_EINVAL;
}

static void reset(void)
{
    for (int i = 0; i < ALL; i++)
        b[i] = (float)i, d[i] = e[i] = 0;
}

int main(int argc, char **argv)
{
    struct pto_device_params device_params;
    struct pto_callable_params callable_params;
    struct pto_run_options options;
    struct pto_run_report report;
    struct pto_callable *callable;
    struct pto_device *device;
    int status;

    if (argc < 6)
        return 2;
    pto_device_params_init(&device_params);
    pto_callable_params_init(&callable_params);
    callable_params.orchestration = orchestrate;
    callable_params.kernels = kernels;
    callable_params.kernel_count = KERNELS;
    pto_run_options_init(&options);
    options.mode = strcmp(argv[2], "host") == 0 ? PTO_MODE_HOST : PTO_MODE_STREAM;
    options.deps = strcmp(argv[3], "safe") == 0 ? PTO_DEPS_SAFE : PTO_DEPS_SIMPLER;
    options.diagnostics = (struct pto_diagnostics){ .folder = argv[1],
                                                    .swimlane = (uint8_t)atoi(argv[4]),
                                                    .args = (uint8_t)atoi(argv[5]),
                                                    .pmu = 4,
                                                    .has_deps = true,
                                                    .has_scopes = true };
    pto_run_report_init(&report);
    if (pto_device_open(&device_params, &device) < 0 ||
        pto_callable_create(&callable_params, &callable) < 0 || !refuses(device, callable))
        return 1;
    has_failure = argc > 6;
    reset();
    status = pto_run(device, callable, NULL, &options, &report);
    printf("{\"status\":%d,\"tasks\":%llu,\"executions\":%llu,\"records_lost\":%llu}\n", status,
           (unsigned long long)report.tasks, (unsigned long long)report.executions,
           (unsigned long long)report.records_lost);
    pto_callable_destroy(callable);
    pto_device_close(device);
    return 0;
}

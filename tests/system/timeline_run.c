/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records one run and prints what its timeline must show, as JSON:
 *
 *     timeline FILE order|times|arguments WORKERS RECORDS [fail]
 *
 * 900 AIV tasks in ten chains with reads across, 100 AIC tasks, 50 dummies; a
 * few kernels take so long that they are set aside. Between them, ten times
 * each: a task of 5 blocks, one of 3 blocks with three lanes that meet, a gang
 * of 6 blocks that meet, and one whose predicate does not hold. With `fail` the
 * last submit is refused.
 */
#include <pto/pto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CHAINS = 10,
    ROUNDS = 100,
    EVERY = 10
}; /* number of rounds between two groups of special tasks */
enum { SPMD_BLOCKS = 5, MIX_BLOCKS = 3, GANG_BLOCKS = 6 };
enum { QUICK, SLOW, SPMD, MIX_AIC, MIX_AIV, GANG, KERNELS };

static float memory[CHAINS + 1][64];
/* counters of kernels that have arrived: of a block's lanes, of a gang */
static uint32_t met[ROUNDS][MIX_BLOCKS + 1];
static int32_t is_wanted;
static bool has_failure;

static void quick(int64_t *args)
{
    (void)args;
}

static void slow(int64_t *args)
{
    if (args[2] % 331 == 0)
        usleep(8000);
}

/* Continues when all kernels have arrived, so all of them are on cores at the same time. */
static void meet(uint32_t *count, uint32_t all)
{
    pto_notify_add(count, 1);
    while (pto_notified(count) < all)
        pto_pause();
}

static void mix(int64_t *args)
{
    meet(&met[args[1]][pto_block_index(args)], 3);
}

static void gang(int64_t *args)
{
    meet(&met[args[1]][MIX_BLOCKS], GANG_BLOCKS);
}

static const struct pto_kernel kernels[KERNELS] = {
    [QUICK] = { "quick \"aic\"", quick, PTO_CORE_AIC },
    [SLOW] = { "slow", slow, PTO_CORE_AIV },
    [SPMD] = { "spmd", quick, PTO_CORE_AIV },
    [MIX_AIC] = { "mix aic", mix, PTO_CORE_AIC },
    [MIX_AIV] = { "mix aiv", mix, PTO_CORE_AIV },
    [GANG] = { "gang", gang, PTO_CORE_AIV },
};

static void submit_special(struct pto_orch *o, const struct pto_tensor *t, int r)
{
    const struct pto_tensor wanted = pto_tensor_external(&is_wanted, PTO_DIMS(1), 1, PTO_INT32);

    pto_aiv(o, SPMD, PTO_INOUT(&t[0]), PTO_BLOCKS(SPMD_BLOCKS));
    pto_mix(o, PTO_LANES(MIX_AIC, MIX_AIV, MIX_AIV), PTO_INOUT(&t[2]), PTO_INT(r),
            PTO_BLOCKS(MIX_BLOCKS));
    pto_aiv(o, GANG, PTO_INOUT(&t[4]), PTO_INT(r), PTO_GANG(GANG_BLOCKS));
    pto_aiv(o, SLOW, PTO_IN(&t[6]), PTO_INOUT(&t[8]), PTO_INT(0), PTO_IF(&wanted, NE, 0, 0));
}

static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t[CHAINS + 1];

    (void)entry;
    for (int i = 0; i <= CHAINS; i++)
        t[i] = pto_tensor_external(memory[i], PTO_DIMS(64), 1, PTO_FLOAT32);
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < CHAINS - 1; i++)
            pto_aiv(o, SLOW, PTO_IN(&t[i + 1]), PTO_INOUT(&t[i]), PTO_INT(r * CHAINS + i));
        pto_aic(o, QUICK, PTO_INOUT(&t[CHAINS - 1]));
        if (r % 2 == 0)
            pto_dummy(o, PTO_IN(&t[0]), PTO_INOUT(&t[CHAINS]));
        if (r % EVERY == 0)
            submit_special(o, t, r);
    }
    if (has_failure)
        pto_aiv(o, KERNELS, PTO_IN(&t[0]));
}

int main(int argc, char **argv)
{
    struct pto_device_params device_params;
    struct pto_callable_params callable_params;
    struct pto_run_options options;
    struct pto_run_report report;
    struct pto_callable *callable;
    struct pto_device *device;
    struct pto_error error = { .size = sizeof(error) };
    char binary[4096], recording[4096];
    int status;

    if (argc < 5)
        return 2;
    has_failure = argc > 5;
    pto_device_params_init(&device_params);
    device_params.workers = (uint32_t)atoi(argv[3]);
    pto_callable_params_init(&callable_params);
    callable_params.orchestration = orchestrate;
    callable_params.kernels = kernels;
    callable_params.kernel_count = KERNELS;
    pto_run_options_init(&options);
    options.trace = strcmp(argv[2], "order") == 0   ? PTO_TRACE_ORDER
                    : strcmp(argv[2], "times") == 0 ? PTO_TRACE_TIMES
                                                    : PTO_TRACE_ARGUMENTS;
    options.trace_records = (uint32_t)atoi(argv[4]);
    pto_run_report_init(&report);
    if (pto_device_open(&device_params, &device) < 0 ||
        pto_callable_create(&callable_params, &callable) < 0)
        return 1;
    if (pto_trace_write(device, argv[1], &error) != PTO_EINVAL) /* nothing recorded yet */
        return 1;
    status = pto_run(device, callable, NULL, &options, &report);
    if (pto_trace_write(device, "/nowhere/at/all", &error) != PTO_ESYSTEM)
        return 1;
    snprintf(binary, sizeof(binary), "%s.pftrace", argv[1]);
    snprintf(recording, sizeof(recording), "%s.ptrec", argv[1]);
    if (pto_trace_write(device, argv[1], &error) < 0 ||
        pto_trace_write(device, binary, &error) < 0 ||
        pto_trace_write(device, recording, &error) < 0) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    printf("{\"status\":%d,\"tasks\":%llu,\"executions\":%llu,\"edges\":%llu,\"takeovers\":%llu,"
           "\"dummies\":%llu,\"skipped\":%llu,\"records_lost\":%llu}\n",
           status, (unsigned long long)report.tasks, (unsigned long long)report.executions,
           (unsigned long long)report.edges, (unsigned long long)report.takeovers,
           (unsigned long long)report.dummies, (unsigned long long)report.skipped,
           (unsigned long long)report.records_lost);
    pto_callable_destroy(callable);
    pto_device_close(device);
    return 0;
}

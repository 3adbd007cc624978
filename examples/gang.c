/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heat spreads along a rod: STEPS steps of a stencil in one task, whose blocks
 * share the rod and wait for each other after every step.
 *
 *     block 0        block 1        block 2      ...
 *     step 1         step 1         step 1
 *     -------------- barrier --------------
 *     step 2         step 2         step 2
 *     -------------- barrier --------------
 *
 * A block that waits for another one needs it on a core: the task is a gang,
 * whose blocks start together or not at all. There is one block for each AIV
 * core, as many as a gang can have.
 */
#include <stdio.h>
#include <stdlib.h>

#include "examples/example.h"

enum { COUNT = 4096, STEPS = 20 }; /* an even number of steps ends where it began */
enum { DIFFUSE, KERNELS };

static int run_gang(struct pto_device *device, const struct pto_run_options *options,
                    struct pto_run_report *report, char *result, size_t result_bytes);
static void orchestrate(struct pto_orch *o, const struct pto_entry *entry);
static void kernel_diffuse(int64_t *args);

PTO_EXAMPLE = {
    .name = "gang",
    .summary = "20 steps of a stencil on 4096 floats, one block per AIV core, a barrier per step",
    .run = run_gang,
};

static const struct pto_kernel kernels[KERNELS] = {
    [DIFFUSE] = { "diffuse", kernel_diffuse, PTO_CORE_AIV },
};

static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *heat = &entry->tensor[0];
    const struct pto_tensor_info other = pto_tensor_info_make(PTO_DIMS(COUNT), 1, PTO_FLOAT32);
    struct pto_tensor_info counter = pto_tensor_info_make(PTO_DIMS(1), 1, PTO_UINT32);

    pto_tensor_info_fill(&counter, 0);
    pto_aiv(o, DIFFUSE, PTO_INOUT(heat), PTO_OUT(&other), PTO_OUT(&counter),
            PTO_GANG(pto_aiv_count(o)));
}

/* Goes on when `expected` arrivals were counted; what the others wrote before is there. */
static void wait_for_all(uint32_t *arrived, uint32_t expected)
{
    pto_notify_add(arrived, 1);
    while (pto_notified(arrived) < expected)
        pto_pause();
}

static void kernel_diffuse(int64_t *args)
{
    float *now = pto_tensor_data(pto_arg_tensor(args, 0));
    float *next = pto_tensor_data(pto_arg_tensor(args, 1));
    uint32_t *arrived = pto_tensor_data(pto_arg_tensor(args, 2));
    int block = pto_block_index(args), blocks = pto_block_count(args);
    int begin = COUNT * block / blocks, end = COUNT * (block + 1) / blocks;

    for (int step = 1; step <= STEPS; step++) {
        float *before = now;

        for (int i = begin; i < end; i++) {
            float left = now[i > 0 ? i - 1 : i], right = now[i < COUNT - 1 ? i + 1 : i];

            next[i] = 0.25f * left + 0.5f * now[i] + 0.25f * right;
        }
        wait_for_all(arrived, (uint32_t)(step * blocks));
        now = next;
        next = before;
    }
}

/* Some places are hot. */
static void fill(float *heat)
{
    for (int i = 0; i < COUNT; i++)
        heat[i] = i % 97 == 0 ? 1000 : 0;
}

/* The same steps one by one, over the whole rod, in place. */
static void diffuse_exactly(float *heat)
{
    for (int step = 0; step < STEPS; step++) {
        float left = heat[0];

        for (int i = 0; i < COUNT; i++) {
            float here = heat[i], right = heat[i < COUNT - 1 ? i + 1 : i];

            heat[i] = 0.25f * left + 0.5f * here + 0.25f * right;
            left = here;
        }
    }
}

static int check(const float *heat, float *expect, char *result, size_t result_bytes)
{
    fill(expect);
    diffuse_exactly(expect);
    for (int i = 0; i < COUNT; i++) {
        if (heat[i] != expect[i]) {
            snprintf(result, result_bytes, "heat[%d]=%g instead of %g", i, heat[i], expect[i]);
            return PTO_EKERNEL;
        }
    }
    snprintf(result, result_bytes, "heat[0]=%.3f heat[97]=%.3f after %d steps, all %d exact",
             heat[0], heat[97], STEPS, COUNT);
    return PTO_OK;
}

static int run_gang(struct pto_device *device, const struct pto_run_options *options,
                    struct pto_run_report *report, char *result, size_t result_bytes)
{
    struct pto_callable_params params;
    struct pto_callable *callable;
    int status;
    float *heat = malloc(2 * COUNT * sizeof(*heat));

    if (heat == NULL)
        return PTO_ENOMEM;

    const struct pto_tensor tensor = pto_tensor_external(heat, PTO_DIMS(COUNT), 1, PTO_FLOAT32);
    const struct pto_entry entry = { .tensor_count = 1, .tensor = &tensor };

    fill(heat);
    pto_callable_params_init(&params);
    params.name = "gang";
    params.orchestration = orchestrate;
    params.kernels = kernels;
    params.kernel_count = KERNELS;
    status = pto_callable_create(&params, &callable);
    if (status < 0)
        goto free_memory;

    status = pto_run(device, callable, &entry, options, report);
    if (status == PTO_OK)
        status = check(heat, heat + COUNT, result, result_bytes);

    pto_callable_destroy(callable);
free_memory:
    free(heat);
    return status;
}

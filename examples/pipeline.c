/* SPDX-License-Identifier: Apache-2.0 */
/*
 * out = max(a b + bias, 0) with all three cores of each cluster at work: the
 * AIC multiplies a tile of rows, and each AIV finishes half of it while the
 * AIC is at the next one. Between them is a ring of SLOTS tiles in memory.
 *
 *     AIC    matmul 0   matmul 1   matmul 2   matmul 3  ...
 *                   \ filled  \          \
 *     AIV 0          rows 0-7   rows 0-7   rows 0-7
 *     AIV 1          rows 8-15  rows 8-15  rows 8-15
 *                   / taken
 *     AIC                       matmul 2 may use the slot of matmul 0
 *
 * The lanes of a block run at the same time, so they may wait for each other.
 * A block does a part of the rows, with a ring of its own; blocks that find no
 * free cluster run later.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "examples/example.h"

enum {
    BLOCKS = 12,
    TILES = 6, /* of a block */
    TILE = 16, /* rows of a tile */
    HALF = TILE / 2,
    ROWS = BLOCKS * TILES * TILE,
    INNER = 32,
    COLUMNS = 32,
    SLOTS = 2 /* tiles in a ring */
};
enum { FILLED, TAKEN, FLAGS = TAKEN + 2 }; /* tiles so far; each AIV counts what it has taken */
enum { MATMUL, EPILOGUE, KERNELS };

struct pipeline {
    float a[ROWS][INNER];
    float b[INNER][COLUMNS];
    float bias[COLUMNS];
    float out[ROWS][COLUMNS];
};

static int run_pipeline(struct pto_device *device, const struct pto_run_options *options,
                        struct pto_run_report *report, char *result, size_t result_bytes);
static void orchestrate(struct pto_orch *o, const struct pto_entry *entry);
static void kernel_matmul(int64_t *args);
static void kernel_epilogue(int64_t *args);

PTO_EXAMPLE = {
    .name = "pipeline",
    .summary = "max(ab + bias, 0): an AIC and two AIVs per block, tiles through a ring in memory",
    .run = run_pipeline,
};

static const struct pto_kernel kernels[KERNELS] = {
    [MATMUL] = { "matmul", kernel_matmul, PTO_CORE_AIC },
    [EPILOGUE] = { "epilogue", kernel_epilogue, PTO_CORE_AIV },
};

static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *a = &entry->tensor[0], *b = &entry->tensor[1];
    const struct pto_tensor *bias = &entry->tensor[2], *out = &entry->tensor[3];
    const uint32_t *tiles = PTO_DIMS(BLOCKS, SLOTS, TILE, COLUMNS);
    const struct pto_tensor_info ring = pto_tensor_info_make(tiles, 4, PTO_FLOAT32);
    struct pto_tensor_info flags = pto_tensor_info_make(PTO_DIMS(BLOCKS, FLAGS), 2, PTO_UINT32);

    pto_tensor_info_fill(&flags, 0);
    pto_mix(o, PTO_LANES(MATMUL, EPILOGUE, EPILOGUE), PTO_IN(a), PTO_IN(b), PTO_IN(bias),
            PTO_WRITE(out), PTO_OUT(&ring), PTO_OUT(&flags), PTO_BLOCKS(BLOCKS));
}

/* What was written before the flag was raised is there when it returns. */
static void wait_until(const uint32_t *flag, int value)
{
    while (pto_notified(flag) < (uint32_t)value)
        pto_pause();
}

/* All lanes get the same arguments: this one leaves bias and out alone. */
static void kernel_matmul(int64_t *args)
{
    int block = pto_block_index(args);
    const float *a = pto_tensor_data(pto_arg_tensor(args, 0));
    const float *b = pto_tensor_data(pto_arg_tensor(args, 1));
    float *ring = pto_tensor_data(pto_arg_tensor(args, 4));
    uint32_t *flags = pto_tensor_data(pto_arg_tensor(args, 5));

    a += block * TILES * TILE * INNER;
    ring += block * SLOTS * TILE * COLUMNS;
    flags += block * FLAGS;
    for (int t = 0; t < TILES; t++) {
        float *tile = ring + t % SLOTS * TILE * COLUMNS;

        if (t >= SLOTS) { /* the tile that was here before must be gone */
            wait_until(&flags[TAKEN], t - SLOTS + 1);
            wait_until(&flags[TAKEN + 1], t - SLOTS + 1);
        }
        memset(tile, 0, TILE * COLUMNS * sizeof(*tile));
        for (int r = 0; r < TILE; r++, a += INNER, tile += COLUMNS)
            for (int k = 0; k < INNER; k++)
                for (int c = 0; c < COLUMNS; c++)
                    tile[c] += a[k] * b[k * COLUMNS + c];
        pto_notify_set(&flags[FILLED], (uint32_t)(t + 1));
    }
}

static void kernel_epilogue(int64_t *args)
{
    int block = pto_block_index(args), lane = pto_sub_block(args);
    const float *bias = pto_tensor_data(pto_arg_tensor(args, 2));
    float *out = pto_tensor_data(pto_arg_tensor(args, 3));
    const float *ring = pto_tensor_data(pto_arg_tensor(args, 4));
    uint32_t *flags = pto_tensor_data(pto_arg_tensor(args, 5));

    out += (block * TILES * TILE + lane * HALF) * COLUMNS;
    ring += (block * SLOTS * TILE + lane * HALF) * COLUMNS;
    flags += block * FLAGS;
    for (int t = 0; t < TILES; t++, out += TILE * COLUMNS) {
        const float *half = ring + t % SLOTS * TILE * COLUMNS;

        wait_until(&flags[FILLED], t + 1);
        for (int i = 0; i < HALF * COLUMNS; i++) {
            float x = half[i] + bias[i % COLUMNS];

            out[i] = x > 0 ? x : 0;
        }
        pto_notify_set(&flags[TAKEN + lane], (uint32_t)(t + 1));
    }
}

/* Small whole numbers, so every intermediate result is exact; out starts as something else. */
static void fill(struct pipeline *p)
{
    for (int r = 0; r < ROWS; r++) {
        for (int k = 0; k < INNER; k++)
            p->a[r][k] = (float)((r * 7 + k * 3) % 11 - 5);
        for (int c = 0; c < COLUMNS; c++)
            p->out[r][c] = NAN;
    }
    for (int c = 0; c < COLUMNS; c++) {
        p->bias[c] = (float)(c % 5 - 2);
        for (int k = 0; k < INNER; k++)
            p->b[k][c] = (float)((k * 5 + c) % 7 - 3);
    }
}

static int check(const struct pipeline *p, char *result, size_t result_bytes)
{
    int positive = 0;

    for (int r = 0; r < ROWS; r++) {
        for (int c = 0; c < COLUMNS; c++) {
            float expect = p->bias[c];

            for (int k = 0; k < INNER; k++)
                expect += p->a[r][k] * p->b[k][c];
            expect = fmaxf(expect, 0);
            positive += expect > 0;
            if (p->out[r][c] != expect) {
                snprintf(result, result_bytes, "out[%d][%d]=%g instead of %g", r, c, p->out[r][c],
                         expect);
                return PTO_EKERNEL;
            }
        }
    }
    snprintf(result, result_bytes, "%d tiles, %d of %d values above 0, all exact", BLOCKS * TILES,
             positive, ROWS * COLUMNS);
    return PTO_OK;
}

static int run_pipeline(struct pto_device *device, const struct pto_run_options *options,
                        struct pto_run_report *report, char *result, size_t result_bytes)
{
    struct pto_callable_params params;
    struct pto_callable *callable;
    int status;
    struct pipeline *p = malloc(sizeof(*p));

    if (p == NULL)
        return PTO_ENOMEM;

    const struct pto_tensor tensors[] = {
        pto_tensor_external(p->a, PTO_DIMS(ROWS, INNER), 2, PTO_FLOAT32),
        pto_tensor_external(p->b, PTO_DIMS(INNER, COLUMNS), 2, PTO_FLOAT32),
        pto_tensor_external(p->bias, PTO_DIMS(COLUMNS), 1, PTO_FLOAT32),
        pto_tensor_external(p->out, PTO_DIMS(ROWS, COLUMNS), 2, PTO_FLOAT32),
    };
    const struct pto_entry entry = { .tensor_count = 4, .tensor = tensors };

    fill(p);
    pto_callable_params_init(&params);
    params.name = "pipeline";
    params.orchestration = orchestrate;
    params.kernels = kernels;
    params.kernel_count = KERNELS;
    status = pto_callable_create(&params, &callable);
    if (status < 0)
        goto free_memory;

    status = pto_run(device, callable, &entry, options, report);
    if (status == PTO_OK)
        status = check(p, result, result_bytes);

    pto_callable_destroy(callable);
free_memory:
    free(p);
    return status;
}

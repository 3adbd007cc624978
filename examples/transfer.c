/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task that is over long after its kernel: RECEIVE starts a transfer and
 * returns, so its core is free, but the task completes only when all parts
 * have arrived. Whoever reads the inbox waits for RECEIVE, as for any writer.
 *
 *     RECEIVE --- returns ......... completes --> SUM
 *                                   ^  ^  ^
 *     SEND  SEND  SEND  SEND -------+--+--+   arrived += 1 each
 *
 * Here kernels play the part of the transfer. They write behind the back of
 * the graph: they get inbox and counter with PTO_AFTER, which orders them
 * after nobody but the allocation.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "examples/example.h"

enum { MESSAGES = 6, PARTS = 4, PART = 512, COUNT = PARTS * PART };
enum { RECEIVE, SEND, SUM, KERNELS };

struct transfer {
    float outbox[MESSAGES][COUNT];
    float sums[MESSAGES];
};

static int run_transfer(struct pto_device *device, const struct pto_run_options *options,
                        struct pto_run_report *report, char *result, size_t result_bytes);
static void orchestrate(struct pto_orch *o, const struct pto_entry *entry);
static void kernel_receive(int64_t *args);
static void kernel_send(int64_t *args);
static void kernel_sum(int64_t *args);

PTO_EXAMPLE = {
    .name = "transfer",
    .summary = "6 messages of 4 parts: a task that completes when its transfer has, not before",
    .run = run_transfer,
};

static const struct pto_kernel kernels[KERNELS] = {
    [RECEIVE] = { "receive", kernel_receive, PTO_CORE_AIV },
    [SEND] = { "send", kernel_send, PTO_CORE_AIV },
    [SUM] = { "sum", kernel_sum, PTO_CORE_AIV },
};

static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor_info buffer = pto_tensor_info_make(PTO_DIMS(COUNT), 1, PTO_FLOAT32);
    struct pto_tensor_info counter = pto_tensor_info_make(PTO_DIMS(1), 1, PTO_UINT32);

    pto_tensor_info_fill(&counter, 0);
    for (uint32_t m = 0; m < MESSAGES; m++) {
        const struct pto_tensor sum = pto_tensor_view(&entry->tensor[1], PTO_DIMS(1), PTO_DIMS(m));

        PTO_SCOPE(o) {
            struct pto_outputs memory = pto_alloc(o, PTO_OUT(&buffer), PTO_OUT(&counter));
            const struct pto_tensor *inbox = pto_output(memory, 0);
            const struct pto_tensor *arrived = pto_output(memory, 1);

            for (uint32_t p = 0; p < PARTS; p++) { /* before or after RECEIVE, as it comes */
                const uint32_t *box = PTO_DIMS(1, PART), *at = PTO_DIMS(m, p * PART);
                const struct pto_tensor part = pto_tensor_view(&entry->tensor[0], box, at);

                pto_aiv(o, SEND, PTO_IN(&part), PTO_AFTER(inbox), PTO_AFTER(arrived), PTO_INT(p));
            }
            pto_aiv(o, RECEIVE, PTO_WRITE(inbox), PTO_AFTER(arrived));
            pto_aiv(o, SUM, PTO_IN(inbox), PTO_WRITE(&sum));
        }
    }
}

/* A real one would tell an engine where the parts go, and which counter to raise. */
static void kernel_receive(int64_t *args)
{
    const uint32_t *arrived = pto_tensor_data(pto_arg_tensor(args, 1));

    pto_defer(args, arrived, PARTS);
}

static void kernel_send(int64_t *args)
{
    const float *part = pto_tensor_data(pto_arg_tensor(args, 0));
    float *inbox = pto_tensor_data(pto_arg_tensor(args, 1));
    uint32_t *arrived = pto_tensor_data(pto_arg_tensor(args, 2));

    memcpy(inbox + args[3] * PART, part, PART * sizeof(*part));
    pto_notify_add(arrived, 1); /* last: the part is there before it counts */
}

static void kernel_sum(int64_t *args)
{
    const float *inbox = pto_tensor_data(pto_arg_tensor(args, 0));
    float *sum = pto_tensor_data(pto_arg_tensor(args, 1));

    *sum = 0;
    for (int i = 0; i < COUNT; i++)
        *sum += inbox[i];
}

/* Small whole numbers, so every sum is exact. */
static void fill(struct transfer *t)
{
    for (int m = 0; m < MESSAGES; m++) {
        for (int i = 0; i < COUNT; i++)
            t->outbox[m][i] = (float)((i + m) % 53);
        t->sums[m] = NAN;
    }
}

static int check(const struct transfer *t, char *result, size_t result_bytes)
{
    for (int m = 0; m < MESSAGES; m++) {
        float expect = 0;

        for (int i = 0; i < COUNT; i++)
            expect += t->outbox[m][i];
        if (t->sums[m] != expect) {
            snprintf(result, result_bytes, "sum[%d]=%g instead of %g", m, t->sums[m], expect);
            return PTO_EKERNEL;
        }
    }
    snprintf(result, result_bytes, "sum[0]=%g, all %d messages whole", t->sums[0], MESSAGES);
    return PTO_OK;
}

static int run_transfer(struct pto_device *device, const struct pto_run_options *options,
                        struct pto_run_report *report, char *result, size_t result_bytes)
{
    struct pto_callable_params params;
    struct pto_callable *callable;
    int status;
    struct transfer *t = malloc(sizeof(*t));

    if (t == NULL)
        return PTO_ENOMEM;

    const struct pto_tensor tensors[] = {
        pto_tensor_external(t->outbox, PTO_DIMS(MESSAGES, COUNT), 2, PTO_FLOAT32),
        pto_tensor_external(t->sums, PTO_DIMS(MESSAGES), 1, PTO_FLOAT32),
    };
    const struct pto_entry entry = { .tensor_count = 2, .tensor = tensors };

    fill(t);
    pto_callable_params_init(&params);
    params.name = "transfer";
    params.orchestration = orchestrate;
    params.kernels = kernels;
    params.kernel_count = KERNELS;
    status = pto_callable_create(&params, &callable);
    if (status < 0)
        goto free_memory;

    status = pto_run(device, callable, &entry, options, report);
    if (status == PTO_OK)
        status = check(t, result, result_bytes);

    pto_callable_destroy(callable);
free_memory:
    free(t);
    return status;
}

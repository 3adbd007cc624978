/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker of level 3 with two chips and a SUB worker: each chip squares half of a vector, then the SUB
 * worker adds up the squares.
 *
 * The children are processes, and load their code from a shared object. This file is compiled twice:
 * as that object, and as the program that opens the worker.
 */
#include <pto/level.h>
#include <stdio.h>

enum { N = 8, HALF = N / 2 };

/* ---- the chips' side: a kernel, its orchestration, and the description that pto_worker_register finds ---- */

static void square(int64_t *args)
{
    const int32_t *from = pto_tensor_data(pto_arg_tensor(args, 0));
    int32_t *to = pto_tensor_data(pto_arg_tensor(args, 1));

    for (int i = 0; i < HALF; i++)
        to[i] = from[i] * from[i];
}

static void square_half(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, 0, PTO_IN(&entry->tensor[0]), PTO_WRITE(&entry->tensor[1]));
}

static const struct pto_kernel kernels[] = { { "square", square, PTO_CORE_AIV } };

const struct pto_callable_params squares = { .size = sizeof(squares),
                                             .name = "squares",
                                             .orchestration = square_half,
                                             .kernels = kernels,
                                             .kernel_count = 1 };

/* ---- the SUB worker's side: a function ---- */

int total(const struct pto_sub_call *call)
{
    const int32_t *low = pto_tensor_data(&call->tensor[0]);
    const int32_t *high = pto_tensor_data(&call->tensor[1]);
    int32_t *sum = pto_tensor_data(&call->tensor[2]);

    *sum = 0;
    for (int i = 0; i < HALF; i++)
        *sum += low[i] + high[i];
    return PTO_OK;
}

/* ---- the program ---- */

struct job {
    uint64_t squares, total; /* numbers of the registered callables */
    int32_t *x, *sum;        /* memory that all processes share */
};

static void orchestrate(struct pto_level *level, void *context)
{
    const struct job *job = context;
    const uint32_t half[] = { HALF }, one[] = { 1 };
    const struct pto_tensor_info info = pto_tensor_info_make(half, 1, PTO_INT32);
    const struct pto_tensor sum = pto_tensor_external(job->sum, one, 1, PTO_INT32);
    struct pto_outputs part[2];

    for (uint32_t chip = 0; chip < 2; chip++) {
        const struct pto_tensor x = pto_tensor_external(job->x + chip * HALF, half, 1, PTO_INT32);

        part[chip] = pto_level_task(level, job->squares, PTO_ON(chip), PTO_IN(&x), PTO_OUT(&info));
    }
    pto_level_task(level, job->total, 0, PTO_IN(part[0].tensor), PTO_IN(part[1].tensor),
                   PTO_WRITE(&sum));
}

static int register_symbol(struct pto_worker *worker, enum pto_child_kind kind, const char *symbol,
                           uint64_t *callable_out, struct pto_error *error)
{
    struct pto_worker_callable callable;

    pto_worker_callable_init(&callable);
    callable.kind = kind;
    callable.path = "./two_chips.so";
    callable.symbol = symbol;
    callable.error = error;
    return pto_worker_register(worker, &callable, callable_out);
}

int main(void)
{
    struct pto_worker_params params;
    struct pto_worker_report report;
    struct pto_worker *worker = NULL;
    struct job job;
    int status;

    pto_worker_report_init(&report);
    pto_worker_params_init(&params);
    params.platform = "a2a3sim";
    params.chip_count = 2; /* children 0 and 1 */
    params.sub_count = 1;  /* child 2 */
    params.error = &report.error;
    status = pto_worker_open(&params, &worker);
    if (status == PTO_OK)
        status = register_symbol(worker, PTO_CHILD_CHIP, "squares", &job.squares, &report.error);
    if (status == PTO_OK)
        status = register_symbol(worker, PTO_CHILD_SUB, "total", &job.total, &report.error);
    if (status == PTO_OK)
        status = pto_worker_alloc(worker, N * sizeof(int32_t), (void **)&job.x);
    if (status == PTO_OK)
        status = pto_worker_alloc(worker, sizeof(int32_t), (void **)&job.sum);
    if (status == PTO_OK) {
        for (int i = 0; i < N; i++)
            job.x[i] = i;
        status = pto_worker_run(worker, orchestrate, &job, &report);
    }
    if (status == PTO_OK)
        printf("%d tasks: the sum of squares is %d\n", (int)report.done, *job.sum);
    else
        fprintf(stderr, "two_chips: %s\n",
                report.error.text[0] != '\0' ? report.error.text : pto_strerror(status));
    if (worker != NULL)
        pto_worker_close(worker);
    return status < 0;
}

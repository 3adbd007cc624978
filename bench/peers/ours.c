/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This runtime, under the same clock as the others: items as separate buffers,
 * as tiles of one tensor, as 2-D tiles of one matrix, and a built graph launched
 * again. Whoever submits is one of the workers.
 */
#include "peer.h"

#include <stdio.h>

#include "tool/bench/bench_patterns.h"

enum { KERNELS = PEER_READS_MAX + 2 };

/* In the order of enum layout. */
static const char *const variants[] = { "buffers", "tiles", "tiles2d", "again", NULL };

static struct pto_device *device;
static struct pto_callable *callable;
static struct pto_graph *graph;
static struct pto_run_report report;
static struct bench_load items;         /* without tasks */
static const struct peer_load *current; /* what the orchestration submits */
static struct pto_entry entry;          /* empty */

static void submit_all(struct pto_orch *o, const struct pto_entry *unused);

static bool is_failed(const char *what, int status)
{
    if (status < 0)
        fprintf(stderr, "pto: %s: %s: %s\n", what, pto_strerror(status), report.error.text);
    return status < 0;
}

/* Kernel k is that of tasks with k tensors: the index, if there is one, is the scalar after them. */
#define KERNEL(k)                         \
    static void body_##k(int64_t *args)   \
    {                                     \
        (void)args;                       \
        PEER_BODY((uint32_t)(args)[(k)]); \
    }
KERNEL(0)
KERNEL(1)
KERNEL(2)
KERNEL(3)
KERNEL(4)
KERNEL(5)
KERNEL(6)

static bool open_device(uint32_t workers)
{
    static const struct pto_kernel kernels[KERNELS] = {
        { "body", body_0, PTO_CORE_AIV },  { "body1", body_1, PTO_CORE_AIV },
        { "body2", body_2, PTO_CORE_AIV }, { "body3", body_3, PTO_CORE_AIV },
        { "body4", body_4, PTO_CORE_AIV }, { "body5", body_5, PTO_CORE_AIV },
        { "body6", body_6, PTO_CORE_AIV },
    };
    struct pto_callable_params callable_params;
    struct pto_device_params params;

    pto_run_report_init(&report);
    pto_device_params_init(&params);
    params.workers = workers;
    if (workers > pto_platform_at(0)->clusters * PTO_CLUSTER_CORES)
        params.clusters = (workers + PTO_CLUSTER_CORES - 1) / PTO_CLUSTER_CORES;
    pto_callable_params_init(&callable_params);
    callable_params.name = "bench";
    callable_params.orchestration = submit_all;
    callable_params.kernels = kernels;
    callable_params.kernel_count = KERNELS;
    return !is_failed("no device", pto_device_open(&params, &device)) &&
           !is_failed("no callable", pto_callable_create(&callable_params, &callable));
}

static void submit_all(struct pto_orch *o, const struct pto_entry *unused)
{
    struct pto_args args;

    (void)unused;
    for (uint32_t i = 0; i < current->task_count; i++) {
        const struct peer_task *t = &current->task[i];

        pto_args_init(&args);
        for (int32_t k = 0; k < t->read_count; k++)
            pto_add_input(&args, &items.item[t->read[k]]);
        if (t->write >= 0 && t->is_inout)
            pto_add_inout(&args, &items.item[t->write]);
        else if (t->write >= 0)
            pto_add_output_existing(&args, &items.item[t->write]);
        if (PEER_HAS_INDEX)
            pto_add_scalar(&args, i);
        pto_submit_aiv(o, PEER_HAS_INDEX ? (int32_t)args.tensor_count : 0, &args);
    }
}

/* 0: it failed. */
static uint64_t launch(const struct peer_load *load, uint32_t variant)
{
    uint64_t start, ns;
    int status;

    current = load;
    pto_run_report_init(&report);
    start = peer_now_ns();
    status = variant == LAYOUT_AGAIN ? pto_graph_run(graph, &entry, NULL, &report)
                                     : pto_run(device, callable, &entry, NULL, &report);
    ns = peer_now_ns() - start;
    if (is_failed("a run failed", status))
        return 0;
    if (report.executions != load->task_count) {
        fprintf(stderr, "pto: not every task ran\n");
        return 0;
    }
    return ns;
}

/* The first launch of a graph finds its memory cold: it does not count. */
static bool prepare(const struct peer_load *load, uint32_t variant)
{
    items = (struct bench_load){ .item_count = load->item_count };
    bench_make_items(&items, variant == LAYOUT_AGAIN ? LAYOUT_BUFFERS : (enum layout)variant);
    current = load;
    if (items.item == NULL)
        return false;
    return variant != LAYOUT_AGAIN ||
           (!is_failed("no graph",
                       pto_graph_build(device, callable, &entry, NULL, &report, &graph)) &&
            launch(load, LAYOUT_AGAIN) != 0);
}

static void discard(void)
{
    if (graph != NULL)
        (void)pto_graph_destroy(graph);
    graph = NULL;
    bench_free(&items);
}

static void close_device(void)
{
    (void)pto_callable_destroy(callable);
    (void)pto_device_close(device);
}

const struct peer_ops peer = { "pto",   variants, pto_version, open_device,
                               prepare, launch,   discard,     close_device };

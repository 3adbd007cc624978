/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that are built once and launched many times. The chip stores them and checks that a launch
 * has the same kind of arguments as the build; this file decides which caller may use a graph, and
 * when.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "host/run.h"

struct host_graph {
    struct device *device;
    struct callable *callable;
    /* registration of the graph's callable; NULL: the callable needs none */
    struct registration *registration;
    struct chip_graph *graph;
    struct a32 is_busy;
    /* the run of each launch, preallocated so that blocking launches allocate nothing */
    struct run run;
};

static void destroy_graph(struct host_graph *b);
static int begin_launch(struct pto_graph *handle, struct host_graph **out);

/* ---- building ---- */

int pto_graph_build(struct pto_device *device_handle, const struct pto_callable *callable_handle,
                    const struct pto_entry *entry, const struct pto_run_options *options,
                    struct pto_run_report *report, struct pto_graph **graph_out)
{
    int status;
    struct device *device = device_get(device_handle, &status);
    struct callable *callable = handle_get(HANDLE_CALLABLE, callable_handle);
    struct pto_error error;
    struct host_graph *b;

    if (device == NULL)
        return status;
    if (callable == NULL || graph_out == NULL || !sized_is_valid(report))
        return PTO_EINVAL;
    b = aligned_alloc(64, (sizeof(*b) + 63) / 64 * 64);
    if (b == NULL)
        return PTO_ENOMEM;
    memset(b, 0, sizeof(*b));
    b->device = device;
    b->callable = callable;
    a32_store_relaxed(&b->is_busy, 1); /* relaxed: no other thread has the handle yet */
    pto_error_init(&error);
    status = registration_acquire(device, callable, &b->registration, &error);
    if (status < 0) {
        run_report_error(report, &error);
        free(b);
        return status;
    }
    status = run_prepare(&b->run, device, callable, entry, options, &error);
    if (status < 0) {
        run_report_error(report, &error);
    } else {
        b->run.is_part = true;
        b->run.graph = b;
        b->run.purpose = CHIP_BUILD;
        status = run_execute_and_report(&b->run, report);
    }
    if (status >= 0) {
        void *handle = handle_create(HANDLE_GRAPH, b);

        if (handle != NULL) {
            /*
             * relaxed: the thread that destroys the callable loads the count after this graph's
             * end, whose decrement orders it
             */
            a32_add_relaxed(&callable->users, 1);
            pthread_mutex_lock(&device->lock);
            /* Count the graph like a run, so that the device cannot be closed. */
            device->run_count++;
            pthread_mutex_unlock(&device->lock);
            *graph_out = handle;
            return PTO_OK;
        }
        status = PTO_ENOMEM;
    }
    destroy_graph(b);
    return status;
}

void host_graph_keep(struct host_graph *b, struct chip_graph *graph)
{
    b->graph = graph;
}

struct chip_graph *host_graph_of(const struct host_graph *b)
{
    return b->graph;
}

void host_graph_release(struct host_graph *b)
{
    a32_store_release(&b->is_busy, 0);
}

static void destroy_graph(struct host_graph *b)
{
    chip_drop(b->device->chip, b->graph);
    pthread_mutex_lock(&b->device->lock);
    registration_release(b->registration);
    pthread_mutex_unlock(&b->device->lock);
    free(b);
}

int pto_graph_destroy(struct pto_graph *handle)
{
    struct host_graph *b;
    struct callable *callable;
    struct device *device;
    /* as for a launch: makes sure that no other thread uses the graph */
    int status = begin_launch(handle, &b);

    if (status < 0)
        return status;
    if (handle_destroy(HANDLE_GRAPH, handle) == NULL)
        return PTO_EINVAL;
    device = b->device;
    callable = b->callable;
    destroy_graph(b);
    a32_sub_acq_rel(&callable->users, 1); /* from here on another thread may destroy the callable */
    pthread_mutex_lock(&device->lock);
    device->run_count--; /* the last access: from here on another thread may close the device */
    pthread_mutex_unlock(&device->lock);
    return PTO_OK;
}

/* ---- launching ---- */

static int begin_launch(struct pto_graph *handle, struct host_graph **out)
{
    struct host_graph *b = handle_get(HANDLE_GRAPH, handle);
    uint32_t idle = 0;

    if (b == NULL)
        return PTO_EINVAL;
    if (*b->device->own_process == 0)
        return PTO_EFORKED;
    if (!a32_cas_acq_rel(&b->is_busy, &idle, 1))
        return PTO_EBUSY;
    *out = b;
    return PTO_OK;
}

int pto_graph_run(struct pto_graph *graph, const struct pto_entry *entry,
                  const struct pto_run_options *options, struct pto_run_report *report)
{
    struct pto_error error;
    struct host_graph *b;
    int status = sized_is_valid(report) ? begin_launch(graph, &b) : PTO_EINVAL;

    if (status < 0)
        return status;
    pto_error_init(&error);
    status = run_prepare(&b->run, b->device, b->callable, entry, options, &error);
    if (status < 0) {
        run_report_error(report, &error);
        host_graph_release(b);
        return status;
    }
    b->run.is_part = true;
    b->run.graph = b;
    b->run.purpose = CHIP_LAUNCH;
    return run_execute_and_report(&b->run, report);
}

int pto_graph_prepare(struct pto_graph *graph, const struct pto_entry *entry,
                      const struct pto_run_options *options, struct pto_run **run_out)
{
    struct host_graph *b;
    struct run *run;
    struct pto_error *error = run_error(options);
    int status = run_out == NULL ? PTO_EINVAL : begin_launch(graph, &b);

    if (status < 0)
        return error_setf(error, status, "%s",
                          status == PTO_EBUSY ? "the graph is being launched: one at a time"
                                              : pto_strerror(status));
    run = run_alloc(b->device);
    if (run == NULL)
        status = error_setf(error, PTO_ENOMEM, "%s", pto_strerror(PTO_ENOMEM));
    else
        status = run_prepare(run, b->device, b->callable, entry, options, error);
    if (status < 0) {
        free(run);
        host_graph_release(b);
        return status;
    }
    run->graph = b;
    run->purpose = CHIP_LAUNCH;
    return run_publish(run, run_out);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that are built once and launched many times. The chip keeps them and says
 * whether a launch is like the build; here is who may use one, and when.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "host/run.h"

struct host_graph {
    struct device *device;
    struct callable *callable;
    struct registration *registration; /* NULL: the callable needs none */
    struct chip_graph *graph;
    struct a32 is_busy;
    struct run run; /* for launches that block: nothing is allocated */
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
    a32_store_relaxed(&b->is_busy, 1); /* nobody else knows of it */
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
        status = run_now(&b->run, report);
    }
    if (status >= 0) {
        void *handle = handle_create(HANDLE_GRAPH, b);

        if (handle != NULL) {
            a32_add_relaxed(&callable->users, 1); /* read by its destroyer, after this graph's */
            pthread_mutex_lock(&device->lock);
            device->run_count++; /* a device with graphs is not closed */
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
    int status = begin_launch(handle, &b); /* nobody else may use it from here on */

    if (status < 0)
        return status;
    if (handle_destroy(HANDLE_GRAPH, handle) == NULL)
        return PTO_EINVAL;
    device = b->device;
    callable = b->callable;
    destroy_graph(b);
    a32_sub_acq_rel(&callable->users, 1); /* it may be destroyed from here on */
    pthread_mutex_lock(&device->lock);
    device->run_count--; /* last: the device may be closed from here on */
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
    return run_now(&b->run, report);
}

int pto_graph_prepare(struct pto_graph *graph, const struct pto_entry *entry,
                      const struct pto_run_options *options, struct pto_run **run_out)
{
    struct host_graph *b;
    struct run *run;
    struct pto_error *error = run_error(options);
    int status = run_out == NULL ? PTO_EINVAL : begin_launch(graph, &b);

    if (status < 0)
        return error_tell(error, status, "%s",
                          status == PTO_EBUSY ? "the graph is being launched: one at a time"
                                              : pto_strerror(status));
    run = run_alloc(b->device);
    if (run == NULL)
        status = error_tell(error, PTO_ENOMEM, "%s", pto_strerror(PTO_ENOMEM));
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public functions for runs. A run is prepared (run_prepare.c), queued until its turn
 * (run_queue.c), executed on the chip (run_execute.c), ended, and finished.
 */
#include "host/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/os.h"
#include "base/sized.h"

static int acquire_run(const struct pto_device *device, const struct pto_callable *callable,
                       const struct pto_entry *entry, const struct pto_run_options *options,
                       struct pto_error *error, struct run **run_out);
static int run_to_completion(struct run *run);
static struct run *run_of_handle(struct pto_run *handle, int *status_out);

/* ---- blocking runs ---- */

int pto_run(struct pto_device *device, const struct pto_callable *callable,
            const struct pto_entry *entry, const struct pto_run_options *options,
            struct pto_run_report *report)
{
    struct pto_error error;
    struct run *run;
    int status;

    if (!sized_is_valid(report))
        return PTO_EINVAL;
    pto_error_init(&error);
    status = acquire_run(device, callable, entry, options, &error, &run);
    if (status < 0)
        run_report_error(report, &error);
    return status < 0 ? status : run_execute_and_report(run, report);
}

void run_report_error(struct pto_run_report *report, const struct pto_error *error)
{
    sized_write_field(report, offsetof(struct pto_run_report, error), error, sizeof(*error));
}

int run_execute_and_report(struct run *run, struct pto_run_report *report)
{
    int status = run_to_completion(run);

    sized_write(report, &run->report, sizeof(run->report));
    run_release(run);
    return status;
}

int pto_call(const char *platform, pto_orch_fn orchestration, const struct pto_kernel *kernels,
             uint32_t kernel_count, const struct pto_entry *entry, struct pto_error *error)
{
    struct pto_device_params device_params;
    struct pto_callable_params callable_params;
    struct pto_run_report report;
    struct pto_callable *callable = NULL;
    struct pto_device *device = NULL;
    int status;

    if (!sized_is_valid(error))
        return PTO_EINVAL;
    pto_run_report_init(&report);
    pto_device_params_init(&device_params);
    device_params.platform = platform;
    pto_callable_params_init(&callable_params);
    callable_params.orchestration = orchestration;
    callable_params.kernels = kernels;
    callable_params.kernel_count = kernel_count;
    callable_params.error = &report.error;
    status = pto_callable_create(&callable_params, &callable);
    if (status >= 0)
        status = pto_device_open(&device_params, &device);
    if (status >= 0)
        status = pto_run(device, callable, entry, NULL, &report);
    (void)pto_device_close(device);
    (void)pto_callable_destroy(callable);
    report.error.status = status;
    if (status < 0 && report.error.text[0] == '\0')
        snprintf(report.error.text, sizeof(report.error.text), "%s", pto_strerror(status));
    sized_write(error, &report.error, sizeof(report.error));
    return status;
}

/* ---- runs in steps ---- */

int pto_run_prepare(struct pto_device *device, const struct pto_callable *callable,
                    const struct pto_entry *entry, const struct pto_run_options *options,
                    struct pto_run **run_out)
{
    struct run *run;
    int status;

    if (run_out == NULL)
        return error_setf(run_error(options), PTO_EINVAL,
                          "there is no place for the run: run_out is NULL");
    status = acquire_run(device, callable, entry, options, run_error(options), &run);
    return status < 0 ? status : run_publish(run, run_out);
}

int run_publish(struct run *run, struct pto_run **run_out)
{
    void *handle = handle_create(HANDLE_RUN, run);

    if (handle == NULL) {
        run_release(run);
        return PTO_ENOMEM;
    }
    *run_out = handle;
    return PTO_OK;
}

int pto_run_launch(struct pto_run *handle)
{
    int status;
    struct run *run = run_of_handle(handle, &status);

    return run == NULL ? status : run_launch(run);
}

int pto_run_execute(struct pto_run *handle)
{
    int status;
    struct run *run = run_of_handle(handle, &status);

    return run == NULL ? status : run_to_completion(run);
}

int pto_run_poll(struct pto_run *handle)
{
    int status;
    struct run *run = run_of_handle(handle, &status);

    if (run == NULL)
        return status;
    pthread_mutex_lock(&run->device->lock);
    status = run->state == RUN_ENDED ? PTO_RUN_ENDED : PTO_RUN_PENDING;
    pthread_mutex_unlock(&run->device->lock);
    return status;
}

int pto_run_wait(struct pto_run *handle, uint64_t timeout_ns)
{
    int status;
    struct run *run = run_of_handle(handle, &status);
    uint64_t now = os_now_ns();
    uint64_t deadline;

    if (run == NULL)
        return status;
    if (timeout_ns == 0)
        timeout_ns = PTO_TIMEOUT_DEFAULT_NS;
    deadline = timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
    pthread_mutex_lock(&run->device->lock);
    if (run->state == RUN_PREPARED)
        status = PTO_EINVAL; /* refused: nothing would end a wait for a run that was not launched */
    while (status == PTO_OK && run->state != RUN_ENDED)
        if (!os_cond_wait(&run->device->changed, &run->device->lock, deadline) &&
            run->state != RUN_ENDED)
            status = PTO_ETIMEOUT;
    if (status == PTO_OK)
        status = run->status;
    pthread_mutex_unlock(&run->device->lock);
    return status;
}

int pto_run_cancel(struct pto_run *handle)
{
    int status;
    struct run *run = run_of_handle(handle, &status);

    if (run == NULL)
        return status;
    pthread_mutex_lock(&run->device->lock); /* mutation: unlocked-cancel */
    if (run->state == RUN_PREPARED || run->state == RUN_QUEUED) {
        if (run->state == RUN_QUEUED)
            run_dequeue(run);
        run_fail(run, PTO_ECANCELED, "the run was cancelled before it started");
        run_end(run);
    } else if (run->state == RUN_RUNNING) {
        /* does not wait: the chip ends the run soon, which ends waits for it */
        chip_cancel(run->device->chip, run->number);
    }
    pthread_mutex_unlock(&run->device->lock);
    return PTO_OK;
}

int pto_run_fd(struct pto_run *handle)
{
    int status;
    struct run *run = run_of_handle(handle, &status);

    if (run == NULL)
        return status;
    pthread_mutex_lock(&run->device->lock);
    if (run->descriptor < 0)
        run->descriptor = eventfd(run->state == RUN_ENDED ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK);
    status = run->descriptor >= 0 ? run->descriptor : PTO_ESYSTEM;
    pthread_mutex_unlock(&run->device->lock);
    return status;
}

int pto_run_finish(struct pto_run *handle, struct pto_run_report *report)
{
    int status;
    struct run *run = run_of_handle(handle, &status);

    if (run == NULL)
        return status;
    if (!sized_is_valid(report))
        return PTO_EINVAL;
    pthread_mutex_lock(&run->device->lock);
    if (run->state == RUN_QUEUED || run->state == RUN_RUNNING)
        status = PTO_EBUSY;
    else if (run->state == RUN_PREPARED)
        run_fail(run, PTO_ECANCELED, "the run was never launched");
    pthread_mutex_unlock(&run->device->lock);
    if (status < 0 || handle_destroy(HANDLE_RUN, handle) == NULL)
        return status < 0 ? status : PTO_EINVAL;
    status = run->status;
    sized_write(report, &run->report, sizeof(run->report));
    run_release(run);
    return status;
}

/* ---- shared by blocking and launched runs ---- */

static struct run *run_of_handle(struct pto_run *handle, int *status_out)
{
    struct run *run = handle_get(HANDLE_RUN, handle);

    *status_out = run == NULL ? PTO_EINVAL : *run->device->own_process == 0 ? PTO_EFORKED : PTO_OK;
    return *status_out == PTO_OK ? run : NULL;
}

static int acquire_run(const struct pto_device *device_handle,
                       const struct pto_callable *callable_handle, const struct pto_entry *entry,
                       const struct pto_run_options *options, struct pto_error *error,
                       struct run **run_out)
{
    int status;
    struct device *device = device_get(device_handle, &status);
    struct callable *callable = handle_get(HANDLE_CALLABLE, callable_handle);
    struct run *run = NULL;

    if (status == PTO_EINVAL)
        return error_setf(error, status, "invalid device handle (closed, or never opened)");
    if (status >= 0 && callable == NULL)
        return error_setf(error, PTO_EINVAL,
                          "invalid callable handle (destroyed, or never created)");
    if (status >= 0) {
        run = run_alloc(device);
        status = run == NULL ? PTO_ENOMEM : PTO_OK;
    }
    if (status < 0)
        return error_setf(error, status, "%s", pto_strerror(status));
    status = run_prepare(run, device, callable, entry, options, error);
    if (status < 0)
        free(run);
    else
        *run_out = run;
    return status;
}

/* Executes a prepared run on the calling thread. Returns the status of the run. */
static int run_to_completion(struct run *run)
{
    switch (run_take_turn(run)) {
    case TURN_BEGUN:
        run_execute(run);
        run_end_turn(run);
        break;
    case TURN_REFUSED:
        return PTO_EINVAL;
    case TURN_ENDED:
        break;
    }
    return run->status;
}

int run_fail(struct run *run, int status, const char *format, ...)
{
    struct pto_error *error = &run->report.error;
    va_list args;

    if (run->status < 0)
        return run->status;
    run->status = status;
    error->status = status;
    va_start(args, format);
    vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    pto_text_clean(error->text, false);
    return status;
}

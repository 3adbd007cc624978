/* SPDX-License-Identifier: Apache-2.0 */
/* Public functions for virtual time. They may be called only between runs. */
#include "base/error.h"
#include "base/sized.h"
#include "host/host.h"

/*
 * Enters a function for virtual time. On PTO_OK the caller holds the device's lock, and no run is
 * executing.
 */
static int virtual_time_enter(struct pto_device *handle, struct device **device_out)
{
    int status;
    struct device *device = device_get(handle, &status);

    if (device == NULL)
        return status;
    pthread_mutex_lock(&device->lock);
    if (device->running != 0)
        status = PTO_EBUSY;
    if (status < 0)
        pthread_mutex_unlock(&device->lock);
    *device_out = device;
    return status;
}

int pto_virtual_set(struct pto_device *handle, const struct pto_virtual_options *given,
                    struct pto_error *error)
{
    struct pto_virtual_options options;
    struct device *device;
    int status;

    if (!sized_is_valid(error))
        return PTO_EINVAL;
    pto_virtual_options_init(&options);
    if (sized_read(&options, sizeof(options), given) < 0 ||
        (options.cost_count != 0 && options.cost == NULL))
        return error_setf(error, PTO_EINVAL,
                          "the options are not initialised with pto_virtual_options_init, or have "
                          "no costs");
    status = virtual_time_enter(handle, &device);
    if (status < 0)
        return error_setf(error, status, "%s", pto_strerror(status));
    status = chip_time_set(device->chip, &options, error);
    pthread_mutex_unlock(&device->lock);
    return status;
}

int pto_virtual_report(struct pto_device *handle, struct pto_virtual_report *given)
{
    struct pto_virtual_report report;
    struct device *device;
    int status;

    if (given == NULL || !sized_is_valid(given))
        return PTO_EINVAL;
    status = virtual_time_enter(handle, &device);
    if (status < 0)
        return status;
    pto_virtual_report_init(&report);
    status = chip_time_report(device->chip, &report);
    pthread_mutex_unlock(&device->lock);
    if (status >= 0)
        sized_write(given, &report, sizeof(report));
    return status;
}

int pto_virtual_kernel(struct pto_device *handle, uint32_t index, struct pto_virtual_kernel *given)
{
    struct pto_virtual_kernel kernel;
    struct device *device;
    int status;

    if (given == NULL || !sized_is_valid(given))
        return PTO_EINVAL;
    status = virtual_time_enter(handle, &device);
    if (status < 0)
        return status;
    pto_virtual_kernel_init(&kernel);
    status = chip_time_kernel(device->chip, index, &kernel);
    pthread_mutex_unlock(&device->lock);
    if (status >= 0)
        sized_write(given, &kernel, sizeof(kernel));
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Public functions for device memory: check the arguments and call the chip. */
#include "base/error.h"
#include "base/sized.h"
#include "host/host.h"

#define BYTES_MAX (1ull << 46)

/* Keeps the chip's error of a failed call for pto_mem_explain. Returns `status`. */
static int keep_error(struct device *device, int status, const struct pto_error *error)
{
    if (status < 0) {
        pthread_mutex_lock(&device->lock);
        device->memory_error = *error;
        pthread_mutex_unlock(&device->lock);
    }
    return status;
}

int pto_mem_alloc(struct pto_device *handle, uint64_t bytes, uint64_t *addr_out)
{
    int status;
    struct device *device = device_get(handle, &status);
    struct pto_error error;

    if (device == NULL)
        return status;
    if (addr_out == NULL || bytes == 0 || bytes > BYTES_MAX)
        return PTO_EINVAL;
    pto_error_init(&error);
    return keep_error(device, chip_alloc(device->chip, bytes, addr_out, &error), &error);
}

int pto_mem_free(struct pto_device *handle, uint64_t addr, struct pto_error *error)
{
    int status;
    struct device *device = device_get(handle, &status);

    if (device == NULL)
        return error_setf(error, status, "%s", pto_strerror(status));
    if (!sized_is_valid(error))
        return PTO_EINVAL;
    return chip_free(device->chip, addr, error);
}

int pto_mem_write(struct pto_device *handle, uint64_t addr, const void *from, uint64_t bytes)
{
    int status;
    struct device *device = device_get(handle, &status);
    struct pto_error error;

    if (device == NULL)
        return status;
    if (from == NULL && bytes != 0)
        return PTO_EINVAL;
    pto_error_init(&error);
    return keep_error(device, chip_write(device->chip, addr, from, bytes, &error), &error);
}

int pto_mem_read(struct pto_device *handle, uint64_t addr, void *to, uint64_t bytes)
{
    int status;
    struct device *device = device_get(handle, &status);
    struct pto_error error;

    if (device == NULL)
        return status;
    if (to == NULL && bytes != 0)
        return PTO_EINVAL;
    pto_error_init(&error);
    return keep_error(device, chip_read(device->chip, addr, to, bytes, &error), &error);
}

int pto_mem_explain(struct pto_device *handle, struct pto_error *error)
{
    int status;
    struct device *device = device_get(handle, &status);
    struct pto_error known;

    if (device == NULL)
        return status;
    if (error == NULL || !sized_is_valid(error))
        return PTO_EINVAL;
    pthread_mutex_lock(&device->lock);
    known = device->memory_error;
    pthread_mutex_unlock(&device->lock);
    return known.status < 0 ? error_setf(error, known.status, "%s", known.text) : PTO_OK;
}

int pto_mem_check(struct pto_device *handle, struct pto_error *error)
{
    int status;
    struct device *device = device_get(handle, &status);

    if (device == NULL)
        return error_setf(error, status, "%s", pto_strerror(status));
    if (!sized_is_valid(error))
        return PTO_EINVAL;
    return chip_check(device->chip, error);
}

int device_pin(struct pto_device *handle, struct device **device_out, struct pto_error *error)
{
    int status;
    struct device *device = device_get(handle, &status);
    bool is_closing;

    if (device == NULL)
        return error_setf(error, status, "the device of the windows is not open here: %s",
                          pto_strerror(status));
    if (!chip_can_register_memory(device->chip) && chip_window_ways(device->chip) == 0)
        return error_setf(error, PTO_ENOSUP,
                          "windows cannot be memory of this device: its chip %s; open the "
                          "communicator without a device, or a device in this process",
                          chip_properties(device->chip)->shares_memory
                              ? "cannot register host memory"
                              : "is in a separate process");
    pthread_mutex_lock(&device->lock);
    is_closing = device->is_closing;
    device->pin_count += !is_closing;
    pthread_mutex_unlock(&device->lock);
    if (is_closing)
        return error_setf(error, PTO_EINVAL, "the device of the windows is being closed");
    *device_out = device;
    return PTO_OK;
}

void device_unpin(struct device *device)
{
    pthread_mutex_lock(&device->lock);
    device->pin_count--;
    pthread_mutex_unlock(&device->lock);
}

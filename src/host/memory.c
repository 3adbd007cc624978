/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory for callers: the chip's, behind checked arguments. */
#include "base/error.h"
#include "base/sized.h"
#include "host/host.h"

#define BYTES_MAX (1ull << 46)

int pto_mem_alloc(struct pto_device *handle, uint64_t bytes, uint64_t *addr_out)
{
    int status;
    struct device *device = device_get(handle, &status);

    if (device == NULL)
        return status;
    if (addr_out == NULL || bytes == 0 || bytes > BYTES_MAX)
        return PTO_EINVAL;
    return chip_alloc(device->chip, bytes, addr_out);
}

int pto_mem_free(struct pto_device *handle, uint64_t addr, struct pto_error *error)
{
    int status;
    struct device *device = device_get(handle, &status);

    if (device == NULL)
        return error_tell(error, status, "%s", pto_strerror(status));
    if (!sized_is_valid(error))
        return PTO_EINVAL;
    return chip_free(device->chip, addr, error);
}

int pto_mem_write(struct pto_device *handle, uint64_t addr, const void *from, uint64_t bytes)
{
    int status;
    struct device *device = device_get(handle, &status);

    if (device == NULL)
        return status;
    return from != NULL || bytes == 0 ? chip_write(device->chip, addr, from, bytes) : PTO_EINVAL;
}

int pto_mem_read(struct pto_device *handle, uint64_t addr, void *to, uint64_t bytes)
{
    int status;
    struct device *device = device_get(handle, &status);

    if (device == NULL)
        return status;
    return to != NULL || bytes == 0 ? chip_read(device->chip, addr, to, bytes) : PTO_EINVAL;
}

int pto_mem_check(struct pto_device *handle, struct pto_error *error)
{
    int status;
    struct device *device = device_get(handle, &status);

    if (device == NULL)
        return error_tell(error, status, "%s", pto_strerror(status));
    if (!sized_is_valid(error))
        return PTO_EINVAL;
    return chip_check(device->chip, error);
}

int device_hold(struct pto_device *handle, struct device **device_out, struct pto_error *error)
{
    int status;
    struct device *device = device_get(handle, &status);
    bool is_closing;

    if (device == NULL)
        return error_tell(error, status, "the device of the windows is not open here: %s",
                          pto_strerror(status));
    if (!chip_can_adopt(device->chip))
        return error_tell(error, PTO_ENOSUP,
                          "windows cannot be memory of this device: its chip %s; open the "
                          "communicator without a device, or a device in this process",
                          chip_properties(device->chip)->shares_memory
                              ? "takes no memory of others"
                              : "is in a process of its own");
    pthread_mutex_lock(&device->lock);
    is_closing = device->is_closing;
    device->lender_count += !is_closing;
    pthread_mutex_unlock(&device->lock);
    if (is_closing)
        return error_tell(error, PTO_EINVAL, "the device of the windows is being closed");
    *device_out = device;
    return PTO_OK;
}

void device_release(struct device *device)
{
    pthread_mutex_lock(&device->lock);
    device->lender_count--;
    pthread_mutex_unlock(&device->lock);
}

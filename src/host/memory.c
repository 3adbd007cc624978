/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory for callers: the chip's, behind checked arguments. */
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

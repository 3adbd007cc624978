/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: opened by platform name. */
#include <stdlib.h>

#include "base/os.h"
#include "host/host.h"

void pto_device_params_init(struct pto_device_params *params)
{
    if (params != NULL)
        *params = (struct pto_device_params){ .size = sizeof(*params), .platform = "a2a3sim" };
}

int pto_device_open(const struct pto_device_params *params, struct pto_device **device_out)
{
    struct chip_params chip;
    const struct chip_row *row;
    struct pto_device *device;
    int status;

    if (params == NULL || device_out == NULL || params->size != sizeof(*params) ||
        params->platform == NULL)
        return PTO_EINVAL;
    row = chip_find(params->platform);
    if (row == NULL)
        return PTO_ENOSUP;
    chip = (struct chip_params){
        .clusters = params->clusters != 0 ? params->clusters : row->platform.clusters,
        .workers = params->workers != 0 ? params->workers : os_cpu_count(),
        .memory_max = params->memory_max != 0 ? params->memory_max : 32ull << 30,
    };
    if (chip.clusters > PTO_CORES_MAX / 3 || params->workers > SCHED_WORKERS_MAX)
        return PTO_EINVAL;
    if (chip.workers > SCHED_WORKERS_MAX)
        chip.workers = SCHED_WORKERS_MAX;
    if (chip.workers > 3 * chip.clusters) /* more could never run anything */
        chip.workers = 3 * chip.clusters;
    device = calloc(1, sizeof(*device));
    if (device == NULL)
        return PTO_ENOMEM;
    device->row = row;
    status = row->ops->open(&chip, &device->chip);
    if (status < 0) {
        free(device);
        return status;
    }
    *device_out = device;
    return PTO_OK;
}

void pto_device_close(struct pto_device *device)
{
    if (device == NULL)
        return;
    device->chip->ops->close(device->chip);
    free(device);
}

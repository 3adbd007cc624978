/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, describes and closes devices. */
#include <stdio.h>
#include <stdlib.h>

#include "base/limit.h"
#include "base/os.h"
#include "base/sized.h"
#include "host/host.h"

enum { WORKERS_MAX = 64 };
#define STALL_NS 10000000000ull

static int device_check_params(const struct pto_device_params *params,
                               const struct pto_platform **platform_out,
                               struct chip_params *chip_out, struct pto_error *error);
static int device_create(const struct pto_platform *platform, const struct chip_params *chip,
                         struct pto_error *error, struct pto_device **device_out);
static uint64_t default_stall_ns(void);
static void destroy_device(struct device *device);

/*
 * Whether the parameters have a valid field `error`; programs with older headers have no such
 * field.
 */
static bool has_error(const struct pto_device_params *params)
{
    return params != NULL && sized_is_valid(params) &&
           params->size >= offsetof(struct pto_device_params, error) + sizeof(params->error);
}

int pto_device_open(const struct pto_device_params *params, struct pto_device **device_out)
{
    const struct pto_platform *platform = NULL;
    struct pto_error why;
    struct chip_params chip;
    char words[LIMIT_TEXT];
    int status;

    pto_error_init(&why);
    if (device_out == NULL)
        status =
            error_setf(&why, PTO_EINVAL, "there is no place for the device: device_out is NULL");
    else
        status = device_check_params(params, &platform, &chip, &why);
    if (status >= 0)
        status = device_create(platform, &chip, &why, device_out);
    if (status < 0 && has_error(params))
        (void)error_setf(params->error, status, "%s",
                         why.text[0] != '\0' ? why.text : limit_strerror(status, words));
    return status;
}

static int device_create(const struct pto_platform *platform, const struct chip_params *chip,
                         struct pto_error *error, struct pto_device **device_out)
{
    struct device *device = calloc(1, sizeof(*device));
    void *handle;
    int status;

    if (device == NULL)
        return PTO_ENOMEM;
    device->platform = platform;
    pthread_mutex_init(&device->lock, NULL);
    os_cond_init(&device->changed);
    device->own_process = os_own_process();
    status = device->own_process != NULL ? chip_open(chip, &device->chip, error) : PTO_ENOMEM;
    if (status < 0)
        goto destroy;
    device->stall_ns = default_stall_ns();
    device_status_open(device);
    handle = handle_create(HANDLE_DEVICE, device);
    if (handle == NULL) {
        status = PTO_ENOMEM;
        goto destroy;
    }
    *device_out = handle;
    return PTO_OK;

destroy:
    destroy_device(device); /* mutation: half-open */
    return status;
}

/*
 * Returns the stall time from the environment variable of the reference, which must be a number of
 * milliseconds, or the default.
 */
static uint64_t default_stall_ns(void)
{
    const char *text = getenv("SIMPLER_SCHEDULER_TIMEOUT_MS");
    char *end = NULL;
    unsigned long long ms = text != NULL ? strtoull(text, &end, 10) : 0;

    if (ms == 0 || *end != '\0' || ms > UINT64_MAX / 1000000)
        return STALL_NS;
    return ms * 1000000;
}

/* Finds the platform with this name, if it can be opened, and derives the chip's parameters. */
static int find_platform(const char *name, const struct pto_platform **platform_out,
                         struct pto_error *error)
{
    const struct pto_platform *platform = name != NULL ? pto_platform_find(name) : NULL;
    char names[256] = "";
    size_t length = 0;

    if (name == NULL)
        return error_setf(error, PTO_EINVAL, "the platform's name is NULL");
    if (platform != NULL && platform->missing != NULL)
        return error_setf(error, PTO_ENOSUP, "platform %s is %s", name, platform->missing);
    if (platform != NULL) {
        *platform_out = platform;
        return PTO_OK;
    }
    for (uint32_t i = 0; pto_platform_at(i) != NULL; i++)
        if (pto_platform_at(i)->missing == NULL && length < sizeof(names))
            length += (size_t)snprintf(names + length, sizeof(names) - length, "%s%s",
                                       length != 0 ? ", " : "", pto_platform_at(i)->name);
    return error_setf(error, PTO_ENOSUP, "there is no platform %.64s; those that can be opened: %s",
                      name, names);
}

static int device_check_params(const struct pto_device_params *given,
                               const struct pto_platform **platform_out,
                               struct chip_params *chip_out, struct pto_error *error)
{
    const struct pto_platform *platform = NULL;
    struct pto_device_params params;
    uint32_t cores;
    int status;

    pto_device_params_init(&params);
    if (sized_read(&params, sizeof(params), given) < 0)
        return error_setf(error, PTO_EINVAL,
                          "the parameters are not initialised with pto_device_params_init");
    status = find_platform(params.platform, &platform, error);
    if (status < 0)
        return status;
    if (params.is_isolated && !platform->is_simulated)
        return error_setf(error, PTO_ENOSUP,
                          "only a simulated chip can be isolated, but %s is not simulated",
                          platform->name);
    if (params.is_virtual && (params.is_isolated || !platform->is_simulated))
        return error_setf(
            error, PTO_ENOSUP,
            params.is_isolated
                ? "a chip in virtual time cannot be isolated; open one or the other"
                : "only a simulated chip can have virtual time, but %s is not simulated",
            platform->name);
    *platform_out = platform;
    *chip_out = (struct chip_params){
        .backend = params.is_isolated  ? "isolated"
                   : params.is_virtual ? "virtual"
                                       : platform->backend,
        .generation = platform->generation,
        .card = params.card,
        .clusters = params.clusters != 0 ? params.clusters : platform->clusters,
        .workers = params.workers != 0 ? params.workers : os_cpu_count(),
        .memory_max = params.memory_max != 0 ? params.memory_max : 32ull << 30,
    };
    if (chip_out->clusters > PTO_CORES_MAX / PTO_CLUSTER_CORES)
        return error_setf(error, PTO_EINVAL, "%u clusters are too many: a device has at most %d",
                          chip_out->clusters, PTO_CORES_MAX / PTO_CLUSTER_CORES);
    if (params.workers > WORKERS_MAX)
        return error_setf(error, PTO_EINVAL, "%u workers are too many: a device has at most %d",
                          params.workers, WORKERS_MAX);
    /* Workers without a core would always be idle, so there are at most as many as cores. */
    cores = PTO_CLUSTER_CORES * chip_out->clusters;
    if (chip_out->workers > WORKERS_MAX)
        chip_out->workers = WORKERS_MAX;
    if (chip_out->workers > cores)
        chip_out->workers = cores;
    return PTO_OK;
}

struct device *device_get(const struct pto_device *handle, int *status_out)
{
    struct device *device = handle_get(HANDLE_DEVICE, handle);

    *status_out = device == NULL ? PTO_EINVAL : *device->own_process == 0 ? PTO_EFORKED : PTO_OK;
    return *status_out == PTO_OK ? device : NULL;
}

int pto_device_info(struct pto_device *handle, struct pto_device_info *given)
{
    int status;
    struct device *device = device_get(handle, &status);
    const struct chip_properties *about;
    struct pto_device_info info;

    if (device == NULL)
        return status;
    if (given == NULL || !sized_is_valid(given))
        return PTO_EINVAL;
    about = chip_properties(device->chip);
    pto_device_info_init(&info);
    info.platform = device->platform->name;
    info.clusters = about->clusters;
    info.aic_count = about->aic_count;
    info.aiv_count = about->aiv_count;
    info.workers = about->workers;
    info.is_isolated = device->platform->is_simulated && !about->shares_memory;
    info.runs_functions = about->runs_functions;
    info.has_observers = about->has_observers;
    info.is_virtual = about->has_virtual_time;
    pthread_mutex_lock(&device->lock);
    info.is_lost = device->loss != NULL;
    pthread_mutex_unlock(&device->lock);
    sized_write(given, &info, sizeof(info));
    return PTO_OK;
}

int pto_device_close(struct pto_device *handle)
{
    int status;
    struct device *device = device_get(handle, &status);

    if (device == NULL)
        return status;
    pthread_mutex_lock(&device->lock);
    if (device->run_count != 0 || device->pin_count != 0 || device->running != 0 ||
        device->is_closing)
        status = PTO_EBUSY;
    else
        device->is_closing = true;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
    if (status < 0)
        return status;
    (void)handle_destroy(HANDLE_DEVICE, handle);
    destroy_device(device);
    return PTO_OK;
}

static void destroy_device(struct device *device)
{
    for (uint32_t i = 0; i < device->runner_count; i++)
        pthread_join(device->runner[i], NULL);
    if (device->has_watcher)
        pthread_join(device->watcher, NULL);
    register_forget_device(device);
    (void)chip_close(device->chip);
    free(device->spare);
    free(device->trace.kernel_name);
    os_release(device->own_process, os_page_bytes());
    pthread_cond_destroy(&device->changed);
    pthread_mutex_destroy(&device->lock);
    free(device);
}

int pto_device_last_failure(struct pto_device *handle, char *text, size_t size)
{
    int status;
    struct device *device = device_get(handle, &status);

    if (device == NULL)
        return status;
    pthread_mutex_lock(&device->lock);
    if (device->running != 0)
        status = PTO_EBUSY;
    else if (text != NULL && size != 0)
        snprintf(text, size, "%s", device->last_failure.text);
    if (status == PTO_OK)
        status = (int)device->last_failure.length;
    pthread_mutex_unlock(&device->lock);
    return status;
}

uint32_t pto_stuck_threads(void)
{
    return chip_stuck_threads();
}

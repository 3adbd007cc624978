/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: open platforms. There is no process-wide state: everything hangs off
 * a device, and devices are independent of each other.
 */
#ifndef PTO_API_DEVICE_H
#define PTO_API_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "pto/platform.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct pto_device;
struct pto_error; /* pto/error.h */

struct pto_device_params {
    size_t size;
    const char *platform; /* one that can be opened; pto_platform_at lists them */
    uint32_t clusters;    /* 0: the platform's default */
    uint32_t workers; /* threads that run tasks, the caller of pto_run included; 0: one per CPU */
    uint64_t memory_max;     /* bytes the engine and the intermediate tensors may take; 0: 32 GiB */
    bool is_isolated;        /* a simulated chip in a process of its own: what a kernel does to its
                            process ends the device and nothing else */
    struct pto_error *error; /* says why it cannot be opened; initialised, or NULL */
};

/* Sets the defaults. */
static inline void pto_device_params_init(struct pto_device_params *params)
{
    if (params == NULL)
        return;
    memset(params, 0, sizeof(*params));
    params->size = sizeof(*params);
    params->platform = pto_platform_at(0)->name;
}

int pto_device_open(const struct pto_device_params *params, struct pto_device **device_out);
/*
 * Ends the device's threads and frees what was allocated on it. PTO_EBUSY while
 * runs of it are not finished; nothing has happened then.
 */
int pto_device_close(struct pto_device *device);

struct pto_device_info {
    size_t size;
    const char *platform;
    uint32_t clusters;
    uint32_t aic_count;
    uint32_t aiv_count;
    uint32_t workers;
    bool is_isolated;    /* in a process of its own */
    bool is_lost;        /* no more runs: close it */
    bool runs_functions; /* callables can be functions of this program */
    bool has_observers;  /* `edge` and `task` of the options of a run can be set */
};

static inline void pto_device_info_init(struct pto_device_info *info)
{
    if (info == NULL)
        return;
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
}

int pto_device_info(struct pto_device *device, struct pto_device_info *info);

/*
 * What is known about the last run of the device that failed, in lines: for a
 * stall each stuck task, what it waits for, and the likely cause. At most `size`
 * bytes, with the final zero. Returns the length of the whole text, 0: no run
 * has failed.
 */
int pto_device_story(struct pto_device *device, char *text, size_t size);
/*
 * Threads of this process that are in kernels which no run waits for any more.
 * They go on until the kernel returns or the process ends; what they may use is
 * not freed.
 */
uint32_t pto_stuck_threads(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

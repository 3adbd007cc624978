/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: a device is an open platform, with its threads and its memory. Devices
 * of one process are independent of each other.
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

/* What kind of device to open. */
struct pto_device_params {
    size_t size;
    const char *platform; /* one that can be opened; pto_platform_at lists them */
    uint32_t clusters;    /* 0: the platform's default */
    uint32_t workers; /* threads that run tasks, including the caller of pto_run; 0: one per CPU */
    uint64_t memory_max;     /* bytes for the engine and intermediate tensors; 0: 32 GiB */
    bool is_isolated;        /* a simulated chip in a process of its own: what a kernel does to its
                            process ends the device and nothing else */
    struct pto_error *error; /* says why it cannot be opened; initialised, or NULL */
    uint32_t card; /* which one, of those that the vendor's software shows; 0 by default */
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

/* Opens a device. PTO_ENOSUP: there is no such platform. */
int pto_device_open(const struct pto_device_params *params, struct pto_device **device_out);

/*
 * Closes a device: ends its threads and frees its memory. PTO_EBUSY, and nothing
 * happens, while it has runs that are not finished or graphs, or a communicator is open
 * whose windows are its memory, too (pto/comm.h).
 */
int pto_device_close(struct pto_device *device);

/* What an open device is. */
/* What kind of device it is, and whether it is lost, as far as a run has noticed. */
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

/* Sets the size. */
static inline void pto_device_info_init(struct pto_device_info *info)
{
    if (info == NULL)
        return;
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
}

/* Describes the device. */
int pto_device_info(struct pto_device *device, struct pto_device_info *info);

/*
 * Explains the last failed run of the device, line by line: first what went wrong,
 * the likely cause included, then details, for a stall stuck tasks and what each
 * waits for. Writes at most `size` bytes, including the final zero. Returns the length of the whole text, or 0 if
 * no run has failed.
 */
int pto_device_story(struct pto_device *device, char *text, size_t size);

/*
 * Counts the threads of this process that are inside kernels which no run waits
 * for any longer. Such a thread goes on until its kernel returns or the process
 * ends, and nothing that it may use is freed.
 */
uint32_t pto_stuck_threads(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

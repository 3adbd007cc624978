/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: a device is an open platform with its threads and its memory. Devices of one process are
 * independent of each other.
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
struct pto_error; /* defined in pto/error.h */

/* The parameters of a device. */
struct pto_device_params {
    size_t size;
    const char *platform; /* name of a platform that can be opened; pto_platform_at lists them */
    uint32_t clusters;    /* number of clusters; 0: the platform's default */
    /* number of threads that run tasks, including the caller of pto_run; 0: one per CPU */
    uint32_t workers;
    /* memory limit in bytes, for the engine and intermediate tensors; 0: 32 GiB */
    uint64_t memory_max;
    /*
     * Runs the simulated chip in a separate process, so that a crashing kernel only ends the
     * device.
     */
    bool is_isolated;
    struct pto_error *error; /* filled in on failure; initialised, or NULL */
    /* Number of the card among the cards that the vendor's driver lists. */
    uint32_t card;
    uint32_t reserved; /* must be 0 */
    bool is_virtual;   /* the simulated chip has virtual time: pto/virtual.h */
};

/* Sets the defaults of a device. */
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
 * Closes a device: ends its threads and frees its memory. PTO_EBUSY, without any effect: the device
 * has unfinished runs, graphs, or an open communicator whose windows are registered with it
 * (pto/comm.h).
 */
int pto_device_close(struct pto_device *device);

/* The properties of an open device, and with is_lost its state after the latest run. */
struct pto_device_info {
    size_t size;
    const char *platform;
    uint32_t clusters;
    uint32_t aic_count;
    uint32_t aiv_count;
    uint32_t workers;
    bool is_isolated;    /* the simulated chip runs in a separate process */
    bool is_lost;        /* the device takes no more runs and can only be closed */
    bool runs_functions; /* callables can be functions of this program */
    bool has_observers;  /* the device can call `edge`, `task` and `step` of the options of a run */
    bool is_virtual;     /* times of the device's runs are virtual */
};

/* Initialises the struct for a call that fills it in. */
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
 * Describes the last failed run of the device in several lines: the error with its likely cause,
 * then details; after a stall, the stuck tasks, each with the tasks that it waits for. Writes at
 * most `size` bytes, including the final zero. Returns the length of the whole text, or 0 if no run
 * has failed.
 */
int pto_device_last_failure(struct pto_device *device, char *text, size_t size);

/*
 * Returns how many threads of this process are still inside kernels that the runtime has given up.
 * Such a thread continues until its kernel returns or the process ends; memory that it may use is
 * not freed.
 */
uint32_t pto_stuck_threads(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

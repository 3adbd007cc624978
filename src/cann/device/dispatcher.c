/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dispatcher: a small object that the vendor's extend library writes to the device's disk,
 * loads once per process and calls. It writes the scheduler to the vendor's folder of programs, or
 * else to its own folder, under the name that the host gave it, so that the vendor's launches find
 * it there: by another name first, then renamed, so that no process maps half of it, and what is on
 * the disk is read back.
 */
#include "cann/device/dispatcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "aicpu.h"
#include "cann/device/beside.h"
#include "cann/device/fingerprint.h"

#define EXPORT __attribute__((visibility("default")))

/* The extend library looks all three up. Only the first call has something to do. */
EXPORT uint32_t DynTileFwkBackendKernelServerInit(void *args);
EXPORT uint32_t DynTileFwkBackendKernelServer(void *args);
EXPORT uint32_t StaticTileFwkBackendKernelServer(void *args);

static int read_back(const char *path, struct dispatcher_args *args)
{
    unsigned char piece[4096];
    uint64_t hash = FINGERPRINT_START, total = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t count = 0;

    if (file < 0)
        return errno;
    while ((count = read(file, piece, sizeof(piece))) > 0) {
        hash = fingerprint_add(hash, piece, (size_t)count);
        total += (uint64_t)count;
    }
    close(file);
    args->bytes = total;
    args->fingerprint = hash;
    return count < 0 ? EIO : 0;
}

static enum dispatcher_step install_in(struct dispatcher_args *args, enum beside_folder folder)
{
    const void *object = (const void *)(uintptr_t)args->inner;
    char path[BESIDE_PATH], other[BESIDE_PATH], name[DISPATCHER_NAME + 48];

    args->error = 0;
    args->name[DISPATCHER_NAME - 1] = '\0';
    /* Dies of a card share the disk: the name has the process and the device. */
    snprintf(name, sizeof(name), ".%s.%ld.%llu", args->name, (long)getpid(),
             (unsigned long long)args->device);
    if (args->name[0] == '\0' || strchr(args->name, '/') != NULL ||
        beside_path(path, folder, args->name) < 0 || beside_path(other, folder, name) < 0) {
        args->error = EINVAL;
        return DISPATCHER_FOLDER;
    }
    snprintf(args->path, sizeof(args->path), "%.*s", (int)sizeof(args->path) - 1, path);
    if (read_back(path, args) == 0 && args->bytes == args->inner_bytes &&
        args->fingerprint == fingerprint_of(object, args->inner_bytes))
        return DISPATCHER_DONE; /* it is there from an earlier process */
    (void)unlink(other);
    args->error = beside_write(other, object, args->inner_bytes, 0755);
    if (args->error != 0)
        return DISPATCHER_WRITE;
    if (rename(other, path) != 0) {
        args->error = errno;
        (void)unlink(other);
        return DISPATCHER_RENAME;
    }
    args->error = read_back(path, args);
    return args->error == 0 ? DISPATCHER_DONE : DISPATCHER_READ;
}

/* The folder that is known to work comes first; the dispatcher's own is where else it may be. */
static enum dispatcher_step dispatcher_install(struct dispatcher_args *args)
{
    /* mutation: programs-own-folder */
    enum dispatcher_step step = install_in(args, BESIDE_KNOWN);

    args->known_error = args->error;
    return step == DISPATCHER_DONE ? step : install_in(args, BESIDE_OWN);
}

/* 0 or 1 only: other numbers mean something to the vendor's scheduler. */
uint32_t DynTileFwkBackendKernelServerInit(void *launch)
{
    struct dispatcher_args *args;

    if (launch == NULL)
        return 1;
    args = (struct dispatcher_args *)(uintptr_t)((struct dispatcher_launch *)launch)->args;
    if (args == NULL)
        return 1;
    aicpu_fetch(args, sizeof(*args));
    if (args->magic == DISPATCHER_MAGIC && args->version == DISPATCHER_VERSION) {
        aicpu_fetch((const void *)(uintptr_t)args->inner, args->inner_bytes);
        args->step = dispatcher_install(args);
    }
    args->answer_magic = DISPATCHER_MAGIC;
    args->answer_version = DISPATCHER_VERSION;
    aicpu_publish(args, sizeof(*args));
    return 0;
}

/* Nothing is launched through these two, but a version may call them when it loads the dispatcher. */
uint32_t DynTileFwkBackendKernelServer(void *args)
{
    (void)args;
    return 0;
}

uint32_t StaticTileFwkBackendKernelServer(void *args)
{
    (void)args;
    return 0;
}

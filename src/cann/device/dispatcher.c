/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dispatcher: a small object that the vendor's extend library writes to the card's disk, loads
 * once in each process, and calls. It writes the scheduler to the vendor's folder of programs, or
 * else to its own folder, under a name that the host has chosen, where the vendor's launches find
 * it. It writes a file of another name and then renames it, so that no process maps an incomplete
 * file, and reads it back.
 */
#include "cann/device/dispatcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "aicpu.h"
#include "cann/device/card_files.h"
#include "cann/device/fingerprint.h"

#define EXPORT __attribute__((visibility("default")))

/*
 * The extend library looks for these three functions. Only a call of the first one has work to do.
 */
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

static enum dispatcher_step install_in(struct dispatcher_args *args, enum card_folder folder)
{
    const void *object = (const void *)(uintptr_t)args->inner;
    char path[CARD_FILE_PATH], other[CARD_FILE_PATH], name[DISPATCHER_NAME + 48];

    args->error = 0;
    args->name[DISPATCHER_NAME - 1] = '\0';
    /* Several devices share the disk, so the temporary name contains the process and the device. */
    snprintf(name, sizeof(name), ".%s.%ld.%llu", args->name, (long)getpid(),
             (unsigned long long)args->device);
    if (args->name[0] == '\0' || strchr(args->name, '/') != NULL ||
        card_file_path(path, folder, args->name) < 0 || card_file_path(other, folder, name) < 0) {
        args->error = EINVAL;
        return DISPATCHER_FOLDER;
    }
    snprintf(args->path, sizeof(args->path), "%.*s", (int)sizeof(args->path) - 1, path);
    if (read_back(path, args) == 0 && args->bytes == args->inner_bytes &&
        args->fingerprint == fingerprint_of(object, args->inner_bytes))
        return DISPATCHER_DONE; /* the file is there already: another process has installed it */
    (void)unlink(other);
    args->error = card_file_write(other, object, args->inner_bytes, 0755);
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

/* Tries the vendor's folder, which is known to work, and then the dispatcher's own. */
static enum dispatcher_step dispatcher_install(struct dispatcher_args *args)
{
    /* mutation: programs-own-folder */
    enum dispatcher_step step = install_in(args, CARD_FOLDER_KNOWN);

    args->known_error = args->error;
    return step == DISPATCHER_DONE ? step : install_in(args, CARD_FOLDER_OWN);
}

/* Returns only 0 or 1: the vendor's scheduler interprets other numbers. */
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

/*
 * The host launches neither of these, but a version of CANN may call them when it loads the
 * dispatcher.
 */
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

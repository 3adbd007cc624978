/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cann/device/card_files.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "aicpu.h"

static const char *own_path(void)
{
    Dl_info about;

    return dladdr((void *)(uintptr_t)&card_file_path, &about) != 0 ? about.dli_fname : NULL;
}

const char *card_file_own_name(void)
{
    const char *path = own_path();
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;

    return slash != NULL ? slash + 1 : path;
}

int card_file_path(char path[CARD_FILE_PATH], enum card_folder folder, const char *name)
{
    const char *own = folder == CARD_FOLDER_OWN ? own_path() : NULL;
    const char *slash = own != NULL ? strrchr(own, '/') : NULL;
    int length;

    if (folder == CARD_FOLDER_KNOWN)
        length = snprintf(path, CARD_FILE_PATH, "%s/%s", AICPU_FOLDER, name);
    else if (slash != NULL)
        length = snprintf(path, CARD_FILE_PATH, "%.*s/%s", (int)(slash - own), own, name);
    else
        return -1;
    return length > 0 && length < CARD_FILE_PATH ? 0 : -1;
}

int card_file_write(const char *path, const void *bytes, uint64_t size, uint32_t mode)
{
    int file = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, (mode_t)mode);
    int error = file < 0 ? errno : 0;

    for (uint64_t at = 0; error == 0 && at < size;) {
        ssize_t count = write(file, (const char *)bytes + at, size - at);

        if (count > 0)
            at += (uint64_t)count;
        else if (count == 0 || errno != EINTR)
            error = count == 0 ? ENOSPC : errno;
    }
    if (error == 0 && fsync(file) != 0)
        error = errno;
    if (file >= 0 && close(file) != 0 && error == 0)
        error = errno;
    if (error != 0 && file >= 0)
        (void)unlink(path);
    return error;
}

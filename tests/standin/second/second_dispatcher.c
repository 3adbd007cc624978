/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second client's dispatcher: writes the program that follows it in memory to its own folder,
 * first under another name.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "tests/standin/second/second.h"

uint32_t DynTileFwkBackendKernelServerInit(void *args);
uint32_t DynTileFwkBackendKernelServer(void *args);
uint32_t StaticTileFwkBackendKernelServer(void *args);

uint32_t DynTileFwkBackendKernelServerInit(void *args)
{
    const struct boot_launch *launch = args;
    struct boot_args *boot = (struct boot_args *)(uintptr_t)launch->args;
    char path[512], temporary[600];
    const char *slash;
    Dl_info own;
    FILE *file;

    if (dladdr((const void *)(uintptr_t)DynTileFwkBackendKernelServerInit, &own) == 0)
        return 1;
    slash = strrchr(own.dli_fname, '/');
    snprintf(path, sizeof(path), "%.*s%.63s", (int)(slash != NULL ? slash + 1 - own.dli_fname : 0),
             own.dli_fname, boot->name);
    snprintf(temporary, sizeof(temporary), "%s.new", path);
    file = fopen(temporary, "we");
    if (file == NULL)
        return 1;
    boot->written = fwrite((const void *)(uintptr_t)boot->inner, 1, boot->inner_bytes, file);
    return fclose(file) != 0 || rename(temporary, path) != 0;
}

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

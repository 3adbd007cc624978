/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "base/program.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The folder of the library that this code is in, or of the program that it is a part of. */
static bool own_folder(char folder[PATH_MAX])
{
    struct link_map *map = NULL;
    Dl_info info;
    char *slash;

    if (dladdr1((void *)(uintptr_t)program_find, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 ||
        map == NULL)
        return false;
    if (realpath(map->l_name[0] != '\0' ? map->l_name : "/proc/self/exe", folder) == NULL)
        return false;
    slash = strrchr(folder, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    return true;
}

bool program_find(const char *name, char path[PATH_MAX])
{
    static const char *const places[] = {
        ".", "../lib/pto", "pto"
    }; /* of such a program, of another, of the library */
    char folder[PATH_MAX];

    path[0] = '\0';
    if (!own_folder(folder))
        return false;
    for (uint32_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (snprintf(path, PATH_MAX, "%s/%s/%s", folder, places[i], name) < PATH_MAX &&
            access(path, X_OK) == 0)
            return true;
    return false;
}

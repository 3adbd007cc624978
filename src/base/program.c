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

/* Finds the folder of the library, or of the program, that contains this function. */
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

static bool program_search(const char *const places[3], const char *name, int access_mode,
                           char path[PATH_MAX])
{
    char folder[PATH_MAX];

    path[0] = '\0';
    if (!own_folder(folder))
        return false;
    for (uint32_t i = 0; i < 3; i++)
        if (snprintf(path, PATH_MAX, "%s/%s/%s", folder, places[i], name) < PATH_MAX &&
            access(path, access_mode) == 0)
            return true;
    return false;
}

/* Tries a path relative to a pto program, then to another program, then to the library. */
bool program_find(const char *name, char path[PATH_MAX])
{
    static const char *const places[3] = { ".", "../lib/pto", "pto" };

    return program_search(places, name, X_OK, path);
}

bool program_find_library(const char *name, char path[PATH_MAX])
{
    static const char *const places[3] = { "..", "../lib", "." };

    return program_search(places, name, R_OK, path);
}

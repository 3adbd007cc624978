/* SPDX-License-Identifier: Apache-2.0 */
/* Finds scenes: by path, below a folder, or among the examples. */
#ifndef PTO_SCENE_FIND_H
#define PTO_SCENE_FIND_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Sorted paths of folders; scene_paths_free frees them. */
struct scene_paths {
    char **path;
    uint32_t count;
};

void scene_paths_free(struct scene_paths *paths);

/*
 * Finds the root of the installation, the parent of the executable's folder: it has bin/, lib/ and
 * perhaps include/.
 */
bool scene_find_root(char path[PATH_MAX]);
/* Finds the examples in the installation or source tree of the executable. */
bool scene_find_examples(char path[PATH_MAX]);
/*
 * Adds all scenes at or below a folder to `paths`. The path may also name the manifest in the
 * folder of one scene.
 */
int scene_find_below(const char *path, struct scene_paths *paths, struct pto_error *error);
/* As scene_find_below. If no such folder exists, finds the example of that name. */
int scene_find_all(const char *name, struct scene_paths *paths, struct pto_error *error);
/* Finds one scene by its folder, its file, or the name of an example. */
int scene_find_one(const char *name, char path[PATH_MAX], struct pto_error *error);
/* Whether the folder has a scene.yaml or a kernel_config.py. */
bool scene_is_folder(const char *path);
/* Whether the folder has a kernel_config.py. */
bool scene_is_config(const char *path);

#endif

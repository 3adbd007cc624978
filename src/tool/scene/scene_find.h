/* SPDX-License-Identifier: Apache-2.0 */
/* Where scenes are: by path, below a folder, or among the examples. */
#ifndef PTO_SCENE_FIND_H
#define PTO_SCENE_FIND_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Sorted folders; the caller frees them with scene_paths_free. */
struct scene_paths {
    char **path;
    uint32_t count;
};

void scene_paths_free(struct scene_paths *paths);

/* The folder above the executable's: it has bin/, lib/ and perhaps include/. */
bool scene_find_root(char path[PATH_MAX]);
/* The folder of the examples, in the installation or source tree of the executable. */
bool scene_find_examples(char path[PATH_MAX]);
/* All scenes at or below a folder, or the one whose file it is. They are added to `paths`. */
int scene_find_below(const char *path, struct scene_paths *paths, struct pto_error *error);
/* The same, or the example of that name if there is no such folder. */
int scene_find_all(const char *name, struct scene_paths *paths, struct pto_error *error);
/* A folder with a scene, its file, or the name of an example. */
int scene_find_one(const char *name, char path[PATH_MAX], struct pto_error *error);
/* Whether there is a scene.yaml in the folder, or a kernel_config.py. */
bool scene_is_folder(const char *path);
/* Only the latter. */
bool scene_is_config(const char *path);

#endif

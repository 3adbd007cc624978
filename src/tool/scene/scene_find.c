/* SPDX-License-Identifier: Apache-2.0 */
/* Finds folders with a scene.yaml or a kernel_config.py. */
#include "tool/scene/scene_find.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/scene/scene.h"
#include "tool/scene/scene_config.h"

enum { DEPTH_MAX = 64, SCENES_MAX = 100000 };

static int add_below(const char *path, uint32_t depth, struct scene_paths *paths,
                     struct pto_error *error);

void scene_paths_free(struct scene_paths *paths)
{
    for (uint32_t i = 0; i < paths->count; i++)
        free(paths->path[i]);
    free(paths->path);
    *paths = (struct scene_paths){ NULL, 0 };
}

static bool find_has_file(const char *path, const char *name)
{
    char file[PATH_MAX];
    struct stat info;

    return snprintf(file, sizeof(file), "%s/%s", path, name) < (int)sizeof(file) &&
           stat(file, &info) == 0 && S_ISREG(info.st_mode);
}

bool scene_is_folder(const char *path)
{
    return find_has_file(path, SCENE_FILE) || find_has_file(path, SCENE_CONFIG_FILE);
}

bool scene_is_config(const char *path)
{
    return !find_has_file(path, SCENE_FILE) && find_has_file(path, SCENE_CONFIG_FILE);
}

bool scene_find_root(char path[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);

    if (length < 0)
        return false;
    path[length] = '\0';
    /*
     * the first pass removes the name of the executable, the second pass the name of its folder,
     * bin
     */
    for (int levels = 0; levels < 2; levels++) {
        char *slash = strrchr(path, '/');

        if (slash == NULL)
            return false;
        *slash = '\0';
    }
    return true;
}

bool scene_find_examples(char path[PATH_MAX])
{
    static const char *const places[] = { "share/pto/examples", "../examples", "../../examples" };
    char root[PATH_MAX], place[PATH_MAX + 64];

    if (!scene_find_root(root))
        return false;
    for (uint32_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        char probe[sizeof(place) + 32];

        snprintf(place, sizeof(place), "%s/%s", root, places[i]);
        snprintf(probe, sizeof(probe), "%s/vector", place);
        if (scene_is_folder(probe) && realpath(place, path) != NULL)
            return true;
    }
    return false;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_path(struct scene_paths *paths, const char *path, struct pto_error *error)
{
    char *copy = strdup(path);
    char **grown = realloc(paths->path, (paths->count + 1) * sizeof(*grown));

    if (grown != NULL)
        paths->path = grown;
    if (copy == NULL || grown == NULL || paths->count == SCENES_MAX) {
        free(copy);
        return error_setf(error, PTO_ENOMEM, "too many scenes, or out of memory");
    }
    paths->path[paths->count++] = copy;
    return PTO_OK;
}

/* Removes a leading `./`, the name of a manifest at the end, and trailing slashes. */
static bool trim_path(const char *path, char out[PATH_MAX])
{
    size_t length = strlen(path);
    const char *slash;

    while (strncmp(path, "./", 2) == 0 && path[2] != '\0' && path[2] != '/') {
        path += 2;
        length -= 2;
    }
    if (length == 0 || length >= PATH_MAX)
        return false;
    memcpy(out, path, length + 1);
    slash = strrchr(out, '/');
    const char *name = slash != NULL ? slash + 1 : out;

    if (strcmp(name, SCENE_FILE) == 0 || strcmp(name, SCENE_CONFIG_FILE) == 0) {
        if (slash == NULL)
            strcpy(out, ".");
        else
            out[slash - out] = '\0';
    }
    for (length = strlen(out); length > 1 && out[length - 1] == '/'; length--)
        out[length - 1] = '\0';
    return out[0] != '\0';
}

int scene_find_below(const char *path, struct scene_paths *paths, struct pto_error *error)
{
    uint32_t before = paths->count, kept = 0;
    char folder[PATH_MAX];
    struct stat info;
    int status;

    if (!trim_path(path, folder) || stat(folder, &info) < 0)
        return error_setf(error, PTO_EINVAL, "'%.1000s' does not exist", path);
    if (!S_ISDIR(info.st_mode))
        return error_setf(error, PTO_EINVAL, "'%.1000s' is not a folder", path);
    status = add_below(folder, 0, paths, error);
    if (status == PTO_OK && paths->count == before)
        return error_setf(error, PTO_EINVAL, "no %s or %s in or below '%.1000s'", SCENE_FILE,
                          SCENE_CONFIG_FILE, path);
    if (paths->count != 0)
        qsort(paths->path, paths->count, sizeof(*paths->path), compare_paths);
    for (uint32_t i = 0; i < paths->count; i++) { /* drop duplicates */
        if (kept != 0 && strcmp(paths->path[kept - 1], paths->path[i]) == 0)
            free(paths->path[i]);
        else
            paths->path[kept++] = paths->path[i];
    }
    paths->count = kept;
    return status;
}

/*
 * Adds the scenes below a folder. Links to folders are not followed, because they may form cycles.
 */
static int add_below(const char *path, uint32_t depth, struct scene_paths *paths,
                     struct pto_error *error)
{
    const struct dirent *entry;
    bool is_here = strcmp(path, ".") == 0;
    int status = PTO_OK;
    DIR *folder;

    if (scene_is_folder(path))
        return add_path(paths, path, error);
    if (depth == DEPTH_MAX)
        return error_setf(error, PTO_EINVAL, "'%.1000s' is more than %d folders deep", path,
                          DEPTH_MAX);
    folder = opendir(path);
    if (folder == NULL)
        return error_setf(error, PTO_ESYSTEM, "'%.1000s' cannot be read: %s", path,
                          strerror(errno));
    while (status == PTO_OK && (entry = readdir(folder)) != NULL) {
        char below[PATH_MAX];
        struct stat info;

        if (entry->d_name[0] == '.')
            continue;
        if (snprintf(below, sizeof(below), "%s%s%s", is_here ? "" : path, is_here ? "" : "/",
                     entry->d_name) >= (int)sizeof(below))
            status = error_setf(error, PTO_EINVAL, "a path in '%.1000s' is too long", path);
        else if (lstat(below, &info) == 0 && S_ISDIR(info.st_mode))
            status = add_below(below, depth + 1, paths, error);
    }
    closedir(folder);
    return status;
}

/*
 * Finds scenes. A path in the working directory wins over an example, unless it is a folder without
 * a scene, as in `pto run`: a user who gives the name of an example rarely means such a folder.
 */
int scene_find_all(const char *name, struct scene_paths *paths, struct pto_error *error)
{
    struct pto_error elsewhere = { .size = sizeof(elsewhere) };
    char example[PATH_MAX];
    uint32_t before = paths->count;
    int status = scene_find_below(name, paths, error);

    if (status >= 0 || paths->count != before || strchr(name, '/') != NULL)
        return status;
    if (scene_find_one(name, example, &elsewhere) >= 0) {
        error->status = 0;
        return scene_find_below(example, paths, error);
    }
    if (access(name, F_OK) < 0)
        *error = elsewhere;
    return error->status;
}

int scene_find_one(const char *name, char path[PATH_MAX], struct pto_error *error)
{
    char folder[PATH_MAX];

    if (trim_path(name, path) && scene_is_folder(path))
        return PTO_OK;
    if (strchr(name, '/') != NULL)
        return error_setf(error, PTO_EINVAL, "'%.1000s' is not a scene: it has no %s and no %s",
                          name, SCENE_FILE, SCENE_CONFIG_FILE);
    if (!scene_find_examples(folder))
        return error_setf(error, PTO_EINVAL,
                          "unknown scene '%.1000s', and the examples cannot be found", name);
    if (snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX && scene_is_folder(path))
        return PTO_OK;
    return error_setf(error, PTO_EINVAL,
                      "unknown scene '%.1000s': neither a folder nor an example; `pto run "
                      "--list` lists the examples",
                      name);
}

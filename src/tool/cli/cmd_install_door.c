/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto install-door`: puts our libraries where simpler's Python package looks for its
 * own. The copies name the folder of this library, so they work wherever they lie.
 */
#define _GNU_SOURCE /* dladdr, memmem */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/cli/commands.h"
#include "base/file.h"
#include "pto/build.h"
#include "tool/scene/terminal.h"

enum { LIBRARY_MAX = 64 << 20 };

struct request {
    bool removes;
};

static int do_install_door(void *context, int count, char **operands);

static const struct cli_option options[] = {
    { "remove", 0, NULL, "put back what was there before", CLI_FLAG,
      .at = offsetof(struct request, removes) },
    CLI_OPTIONS_END,
};

const struct cli_command cmd_install_door = {
    .name = "install-door",
    .summary = "let simpler's Python package run on this runtime",
    .synopsis = "DIR [--remove]",
    .description =
        "Replaces the libraries of simpler's simulated platforms, below build/lib of DIR, by ours: "
        "its worker, its binding and its tests then run on this runtime, unchanged.\n\n"
        "DIR is simpler's source tree, the folder that its package is installed in, or the package "
        "simpler_setup itself. What was there is kept beside it, as simpler-*.",
    .notes = "The copies need this installation: they name its folder. Call it again when that has "
             "moved, or when simpler was built anew.",
    .options = options,
    .operands_max = 1,
    .request_bytes = sizeof(struct request),
    .run = do_install_door,
};

/* Below build/lib of the package, and below pto/door beside our library. */
static const char *const libraries[] = {
    "a2a3/sim/tensormap_and_ringbuffer/libhost_runtime.so",
    "a2a3/sim/host_build_graph/libhost_runtime.so",
    "a5/sim/tensormap_and_ringbuffer/libhost_runtime.so",
    "a5/sim/host_build_graph/libhost_runtime.so",
    "libcpu_sim_context.so", /* the last: of no use alone */
};

enum { LIBRARIES = sizeof(libraries) / sizeof(libraries[0]) };

/* Where they are, where they go. */
struct places {
    char own[PATH_MAX]; /* the folder of our library */
    char to[PATH_MAX];
    char from[PATH_MAX + 16];
};

/* What the linker wrote, and room for a path behind it. */
static const char runpath[] = "$ORIGIN/../../../../..:/pto-door-runpath";

static bool is_folder(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* A wheel has the files below _assets, a source tree at its top. */
static int install_door_find_places(const char *folder, struct places *p, struct pto_error *error)
{
    static const char *const inner[] = { "simpler_setup/_assets/build/lib", "_assets/build/lib",
                                         "build/lib" };
    char path[PATH_MAX];
    Dl_info info;

    if (dladdr((void *)(uintptr_t)pto_version, &info) == 0 || info.dli_fname == NULL ||
        realpath(info.dli_fname, p->own) == NULL)
        return error_tell(error, PTO_ESYSTEM, "the folder of this library cannot be found: %s",
                          strerror(errno));
    *strrchr(p->own, '/') = '\0';
    snprintf(p->from, sizeof(p->from), "%s/pto/door", p->own);
    if (!is_folder(p->from))
        return error_tell(error, PTO_ESYSTEM,
                          "there are no libraries in %s; install this runtime with `make install`",
                          p->from);
    for (size_t i = 0; i < sizeof(inner) / sizeof(inner[0]); i++)
        if (snprintf(path, sizeof(path), "%s/%s", folder, inner[i]) < (int)sizeof(path) &&
            is_folder(path) && realpath(path, p->to) != NULL)
            return PTO_OK;
    return error_tell(error, PTO_EINVAL,
                      "%s has no folder build/lib, nor simpler_setup/_assets/build/lib: name "
                      "simpler's source tree or the folder that it is installed in, and build it "
                      "for a2a3sim or a5sim first",
                      folder);
}

/* A library that needs ours, or is our hooks. */
static bool is_ours(const void *bytes, size_t size)
{
    return memmem(bytes, size, "libpto", 6) != NULL;
}

/* Writes the folder where our library is to the place that the linker left for it. */
static int set_runpath(void *bytes, size_t size, const char *folder, struct pto_error *error)
{
    char *at = memmem(bytes, size, runpath, sizeof(runpath) - 1);
    size_t room = at != NULL ? strlen(at) : 0; /* a zero follows whatever was read */

    if (at == NULL)
        return PTO_OK; /* the hooks need no library */
    if (strlen(folder) > room)
        return error_tell(error, PTO_EINVAL, "the path %s is too long: %zu characters fit", folder,
                          room);
    memcpy(at, folder, strlen(folder) + 1);
    return PTO_OK;
}

/* Keeps a library of simpler's under another name, unless one is kept already. */
static int keep_theirs(const char *path, const char *kept, struct pto_error *error)
{
    char *bytes = NULL;
    size_t size = 0;
    int status;

    if (access(path, F_OK) != 0)
        return PTO_OK;
    status = file_load(path, LIBRARY_MAX, &bytes, &size, error);
    if (status == PTO_OK && !is_ours(bytes, size))
        status = pto_file_write(kept, bytes, size, error);
    free(bytes);
    return status;
}

static int install_one(const struct places *p, const char *from, const char *path, const char *kept,
                       struct pto_error *error)
{
    char *bytes = NULL;
    size_t size = 0;
    int status = keep_theirs(path, kept, error);

    if (status == PTO_OK)
        status = file_load(from, LIBRARY_MAX, &bytes, &size, error);
    if (status == PTO_OK)
        status = set_runpath(bytes, size, p->own, error);
    if (status == PTO_OK)
        status = pto_file_write(path, bytes, size, error);
    free(bytes);
    return status;
}

static int install_door_remove_one(const char *path, const char *kept, struct pto_error *error)
{
    char *bytes = NULL;
    size_t size = 0;
    bool has_ours;

    if (access(path, F_OK) == 0) {
        if (file_load(path, LIBRARY_MAX, &bytes, &size, error) < 0)
            return error->status;
        has_ours = is_ours(bytes, size);
        free(bytes);
        if (!has_ours)
            return PTO_OK;
    }
    if (access(kept, F_OK) == 0 ? rename(kept, path) != 0 : remove(path) != 0 && errno != ENOENT)
        return error_tell(error, PTO_ESYSTEM, "%s cannot be put back: %s", path, strerror(errno));
    return PTO_OK;
}

/* A platform that simpler was not built for has no folder. */
static int do_all(const struct request *request, const struct places *p, struct pto_error *error)
{
    int done = 0;

    for (int i = 0; i < LIBRARIES; i++) {
        char path[2 * PATH_MAX], kept[2 * PATH_MAX + 16], from[2 * PATH_MAX], folder[2 * PATH_MAX];
        int status;

        snprintf(path, sizeof(path), "%s/%s", p->to, libraries[i]);
        snprintf(from, sizeof(from), "%s/%s", p->from, libraries[i]);
        snprintf(folder, sizeof(folder), "%s", path);
        *strrchr(folder, '/') = '\0';
        /* Not as libhost_runtime.*, of which simpler expects one. */
        snprintf(kept, sizeof(kept), "%s/simpler-%s", folder, strrchr(path, '/') + 1);
        if (!is_folder(folder) || (i == LIBRARIES - 1 && done == 0))
            continue;
        status = request->removes ? install_door_remove_one(path, kept, error)
                                  : install_one(p, from, path, kept, error);
        if (status < 0)
            return status;
        terminal_tell(stdout, "%s %s\n", request->removes ? "put back" : "installed", path);
        done++;
    }
    if (done == 0)
        return error_tell(error, PTO_EINVAL,
                          "%s has no libraries of a2a3sim or a5sim; build simpler for one of them "
                          "first",
                          p->to);
    return PTO_OK;
}

static int do_install_door(void *context, int count, char **operands)
{
    const struct request *request = context;
    struct pto_error error = { .size = sizeof(error) };
    struct places *places;
    int status;

    if (count == 0) {
        fprintf(stderr, "pto install-door: name the folder of simpler\n");
        cli_print_usage(stderr, &cmd_install_door);
        return EXIT_USAGE;
    }
    places = malloc(sizeof(*places));
    status = places != NULL ? install_door_find_places(operands[0], places, &error)
                            : error_tell(&error, PTO_ENOMEM, "there is no memory");
    if (status == PTO_OK)
        status = do_all(request, places, &error);
    free(places);
    if (status < 0)
        fprintf(stderr, "pto install-door: %s\n", error.text);
    return status < 0 ? EXIT_FAILED : EXIT_OK;
}

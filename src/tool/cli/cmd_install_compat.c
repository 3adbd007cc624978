/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto install-compat` copies our libraries to where simpler's Python package looks for its own.
 * The copies contain the path of this library, so they work from any folder.
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

static int do_install_compat(void *context, int count, char **operands);

static const struct cli_option options[] = {
    { "remove", 0, NULL, "restore the original libraries", CLI_FLAG,
      .at = offsetof(struct request, removes) },
    CLI_OPTIONS_END,
};

const struct cli_command cmd_install_compat = {
    .name = "install-compat",
    .summary = "make simpler's Python package use this runtime",
    .synopsis = "DIR [--remove]",
    .description =
        "Replaces the libraries of simpler's simulated platforms, below build/lib of DIR, by ours, "
        "so that its worker, its binding and its tests run on this runtime unchanged. Simpler's "
        "own libraries need not be built, only its binding for Python.\n\nDIR is simpler's source "
        "tree, the folder that its package is installed in, or the package simpler_setup itself. "
        "The originals are kept in the same folders as simpler-*.",
    .notes = "The copies contain the path of this installation. Run the command again after moving "
             "the installation or rebuilding simpler.",
    .options = options,
    .operands_max = 1,
    .request_bytes = sizeof(struct request),
    .run = do_install_compat,
};

/* Paths below build/lib of the package, and below pto/compat next to our library. */
static const char *const libraries[] = {
    "a2a3/sim/tensormap_and_ringbuffer/libhost_runtime.so",
    "a2a3/sim/host_build_graph/libhost_runtime.so",
    "a5/sim/tensormap_and_ringbuffer/libhost_runtime.so",
    "a5/sim/host_build_graph/libhost_runtime.so",
    /* installed last, because it works only together with the libraries above */
    "libcpu_sim_context.so",
};

enum { LIBRARIES = sizeof(libraries) / sizeof(libraries[0]) };

/* Files next to each libhost_runtime.so, which simpler's package reads and our library ignores. */
static const char *const unused[] = { "libaicpu_kernel.so", "libaicore_kernel.so" };

enum { UNUSED = sizeof(unused) / sizeof(unused[0]) };

static const char unused_text[] = "pto install-compat: libpto needs no code in this file\n";

enum { COMPAT_PATH_MAX = PATH_MAX + 160 };

/* Source and target folders of the libraries. */
struct places {
    char own[PATH_MAX]; /* folder of our library */
    char to[PATH_MAX];
    char from[PATH_MAX + 16];
};

/* The run path that the linker wrote, which leaves room for the path of our library. */
static const char runpath[] = "$ORIGIN/../../../../..:/pto-compat-runpath";

static bool is_folder(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* Whether a folder is the root of simpler: it has simpler's sources or its libraries. */
static bool is_root(const char *folder)
{
    static const char *const marks[] = { "src/a2a3/runtime", "src/a5/runtime", "build/lib/a2a3/sim",
                                         "build/lib/a5/sim" };
    char path[COMPAT_PATH_MAX + 32];

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, marks[i]);
        if (is_folder(path))
            return true;
    }
    return false;
}

/*
 * Finds the folder build/lib below the root that simpler's package uses: _assets in an installed
 * package, the top folder in a source tree. build/lib need not exist.
 */
static int find_simpler(const char *folder, struct places *p, struct pto_error *error)
{
    static const char *const inner[] = { "simpler_setup/_assets", "_assets", "." };
    char path[COMPAT_PATH_MAX], root[PATH_MAX];

    for (size_t i = 0; i < sizeof(inner) / sizeof(inner[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, inner[i]);
        if (!is_root(path))
            continue;
        if (realpath(path, root) == NULL || strlen(root) + sizeof("/build/lib") > sizeof(p->to))
            return error_setf(error, PTO_ESYSTEM, "the path %s cannot be used", path);
        snprintf(p->to, sizeof(p->to), "%s/build/lib", root);
        snprintf(path, sizeof(path), "%s/../runtime_builder.py", root);
        if (strcmp(strrchr(root, '/'), "/_assets") == 0 && access(path, F_OK) != 0)
            return error_setf(error, PTO_EINVAL,
                              "%s is an editable installation, which uses the libraries of "
                              "simpler's source tree: name that",
                              folder);
        return PTO_OK;
    }
    return error_setf(error, PTO_EINVAL,
                      "%s has neither simpler's sources (src/a2a3/runtime) nor its libraries "
                      "(build/lib/a2a3/sim): name simpler's source tree or the folder that it is "
                      "installed in",
                      folder);
}

static int install_compat_find_places(const char *folder, struct places *p, struct pto_error *error)
{
    Dl_info info;

    if (dladdr((void *)(uintptr_t)pto_version, &info) == 0 || info.dli_fname == NULL ||
        realpath(info.dli_fname, p->own) == NULL)
        return error_setf(error, PTO_ESYSTEM, "cannot find the folder of this library: %s",
                          strerror(errno));
    *strrchr(p->own, '/') = '\0';
    snprintf(p->from, sizeof(p->from), "%s/pto/compat", p->own);
    if (!is_folder(p->from))
        return error_setf(error, PTO_ESYSTEM,
                          "%s contains no libraries; install this runtime with `make install`",
                          p->from);
    return find_simpler(folder, p, error);
}

/* Writes the paths of a library in simpler's package, of its folder and of its backup. */
static void compat_paths(const struct places *p, int library, char *path, char *folder, char *kept)
{
    snprintf(path, COMPAT_PATH_MAX, "%s/%s", p->to, libraries[library]);
    snprintf(folder, COMPAT_PATH_MAX, "%s", path);
    *strrchr(folder, '/') = '\0';
    /* simpler expects exactly one libhost_runtime.*, so the backup needs another prefix */
    snprintf(kept, COMPAT_PATH_MAX, "%.*s/simpler-%s", PATH_MAX + 64, folder,
             strrchr(path, '/') + 1);
}

/*
 * Refuses folders that an interrupted build of simpler has left: its package also reads the files
 * named here, and its error would come only when a worker is opened.
 */
static int check_is_built(const struct places *p, struct pto_error *error)
{
    char path[COMPAT_PATH_MAX], folder[COMPAT_PATH_MAX], kept[COMPAT_PATH_MAX];

    for (int i = 0; i < LIBRARIES - 1; i++) {
        compat_paths(p, i, path, folder, kept);
        for (int k = 0; is_folder(folder) && k < UNUSED; k++) {
            snprintf(path, sizeof(path), "%.*s/%s", PATH_MAX + 64, folder, unused[k]);
            if (access(path, F_OK) != 0)
                return error_setf(error, PTO_EINVAL,
                                  "%s does not exist: the build of simpler is not complete; finish "
                                  "it, or remove that folder, which needs no build",
                                  path);
        }
    }
    return PTO_OK;
}

/*
 * Whether a file is one of our libraries: it links with our library, contains our hooks, or names
 * it.
 */
static bool is_ours(const void *bytes, size_t size)
{
    return memmem(bytes, size, "libpto", 6) != NULL;
}

/*
 * Writes the folder of our library into the run path that the linker reserved in the copied
 * library.
 */
static int set_runpath(void *bytes, size_t size, const char *folder, struct pto_error *error)
{
    char *at = memmem(bytes, size, runpath, sizeof(runpath) - 1);
    /* strlen() does not read beyond the bytes, because the file reader has appended a zero byte */
    size_t room = at != NULL ? strlen(at) : 0;

    if (at == NULL)
        /* the library of hooks has no run path, because it links with none of our libraries */
        return PTO_OK;
    if (strlen(folder) > room)
        return error_setf(error, PTO_EINVAL, "the path %s is too long: %zu characters fit", folder,
                          room);
    memcpy(at, folder, strlen(folder) + 1);
    return PTO_OK;
}

/* Renames simpler's own library as a backup, unless an earlier call did. */
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

/* Makes a folder and its parents where simpler was not built, with the files it would contain. */
static int make_unbuilt(const struct places *p, const char *folder, struct pto_error *error)
{
    char path[COMPAT_PATH_MAX];
    int status = PTO_OK;

    if (is_folder(folder))
        return PTO_OK;
    snprintf(path, sizeof(path), "%s", folder);
    for (char *at = strrchr(p->to, '/') - p->to + path; at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(path, 0777);
        *at = '/';
    }
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return error_setf(error, PTO_ESYSTEM, "cannot make %s: %s", folder, strerror(errno));
    for (int k = 0; status == PTO_OK && k < UNUSED; k++) {
        snprintf(path, sizeof(path), "%.*s/%s", PATH_MAX + 64, folder, unused[k]);
        status = pto_file_write(path, unused_text, sizeof(unused_text) - 1, error);
    }
    return status;
}

static int install_one(const struct places *p, int library, struct pto_error *error)
{
    char path[COMPAT_PATH_MAX], folder[COMPAT_PATH_MAX], kept[COMPAT_PATH_MAX];
    char from[COMPAT_PATH_MAX], *bytes = NULL;
    size_t size = 0;
    int status;

    compat_paths(p, library, path, folder, kept);
    snprintf(from, sizeof(from), "%s/%s", p->from, libraries[library]);
    status = library < LIBRARIES - 1 ? make_unbuilt(p, folder, error) : PTO_OK;
    if (status == PTO_OK)
        status = keep_theirs(path, kept, error);
    if (status == PTO_OK)
        status = file_load(from, LIBRARY_MAX, &bytes, &size, error);
    if (status == PTO_OK)
        status = set_runpath(bytes, size, p->own, error);
    if (status == PTO_OK)
        status = pto_file_write(path, bytes, size, error);
    free(bytes);
    if (status == PTO_OK)
        terminal_printf(stdout, "installed %s\n", path);
    return status;
}

/* Removes a file if it is ours, and moves its backup, if there is one, to its place. */
static int restore_library(const char *path, const char *kept, struct pto_error *error)
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
        return error_setf(error, PTO_ESYSTEM, "%s cannot be put back: %s", path, strerror(errno));
    return PTO_OK;
}

/* Removes the files that make_unbuilt() wrote. */
static void remove_unused(const char *folder)
{
    char path[COMPAT_PATH_MAX], *bytes = NULL;
    size_t size = 0;

    for (int k = 0; k < UNUSED; k++) {
        snprintf(path, sizeof(path), "%.*s/%s", PATH_MAX + 64, folder, unused[k]);
        if (file_read(path, sizeof(unused_text), &bytes, &size) != PTO_OK)
            continue;
        if (strcmp(bytes, unused_text) == 0)
            (void)remove(path);
        free(bytes);
    }
}

/* Removes what install_one() wrote, and the folders that are empty then. */
static int remove_one(const struct places *p, int library, struct pto_error *error)
{
    char path[COMPAT_PATH_MAX], folder[COMPAT_PATH_MAX], kept[COMPAT_PATH_MAX];
    int status;

    compat_paths(p, library, path, folder, kept);
    if (!is_folder(folder))
        return PTO_OK;
    status = restore_library(path, kept, error);
    if (status < 0)
        return status;
    remove_unused(folder);
    terminal_printf(stdout, "put back %s\n", path);
    while (strlen(folder) >= strlen(p->to) - strlen("/lib") && rmdir(folder) == 0)
        *strrchr(folder, '/') = '\0';
    return PTO_OK;
}

static int do_install_compat(void *context, int count, char **operands)
{
    const struct request *request = context;
    struct pto_error error = { .size = sizeof(error) };
    struct places *places;
    int status;

    if (count == 0) {
        fprintf(stderr, "pto install-compat: name the folder of simpler\n");
        cli_print_usage(stderr, &cmd_install_compat);
        return EXIT_USAGE;
    }
    places = malloc(sizeof(*places));
    status = places != NULL ? install_compat_find_places(operands[0], places, &error)
                            : error_setf(&error, PTO_ENOMEM, "out of memory");
    if (status == PTO_OK && !request->removes)
        status = check_is_built(places, &error);
    for (int i = 0; status == PTO_OK && i < LIBRARIES; i++)
        status = request->removes ? remove_one(places, i, &error) : install_one(places, i, &error);
    free(places);
    if (status < 0)
        fprintf(stderr, "pto install-compat: %s\n", error.text);
    return status < 0 ? EXIT_FAILED : EXIT_OK;
}

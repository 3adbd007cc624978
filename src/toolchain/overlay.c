/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for memmem */
#endif

#include "toolchain/overlay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "toolchain/store_files.h"
#include "toolchain/work.h"

enum { HEADER_MAX = 16 << 20, PLACE_ATTEMPTS = 4 };

static int add_patched(struct build *build, const struct compiler *compiler,
                       struct pto_error *error);

int overlay_read(const char *given, bool *is_on_out, struct pto_error *error)
{
    const char *value = given != NULL ? given : getenv("PTO_ISA_OVERLAY");

    *is_on_out = true;
    if (value == NULL || (given == NULL && value[0] == '\0') || strcmp(value, "on") == 0)
        return PTO_OK;
    *is_on_out = false;
    if (strcmp(value, "off") == 0)
        return PTO_OK;
    return error_setf(error, PTO_EINVAL, "%s is '%.100s'; it must be on or off",
                      given != NULL ? "the overlay of the tile library" : "PTO_ISA_OVERLAY", value);
}

/*
 * Names of the tile library that our faster headers use, each with the library's header that
 * declares it. If a name is missing, our headers do not fit this version of the library.
 */
static const struct known_name {
    const char *header;
    const char *name;
} known_names[] = {
    { "cpu/tile_offsets.hpp", "GetTileElementOffset(" },
    { "cpu/tile_offsets.hpp", "MapTileIndicesToGlobalOffset(" },
    { "common/pto_tile.hpp", "GetSizeInBytes(" },
    { "cpu/TLoad.hpp", "TLOAD_TILE_IMPL(TileData" },
    { "cpu/TLoad.hpp", "CheckTileData(TileData" },
    { "cpu/TLoad.hpp", "getPadValue(" },
    { "cpu/TStore.hpp", "TStore(GlobalData" },
    { "cpu/TStore.hpp", "CheckTileDataStore(GlobalData" },
    { "cpu/common.hpp", "ConvertStoreValue(" },
    { "cpu/TExtract.hpp", "TExtract_Impl(" },
    { "cpu/TMov.hpp", "TMOV_IMPL(DstTileData" },
    { "cpu/TMov.hpp", "STPhase" },
    { "cpu/TMatmul.hpp", "TMatmulNzZn(TileAcc" },
    { "cpu/TMatmul.hpp", "CheckMadValid(" },
};

/* Returns the first of these names that the library lacks; NULL: it has all of them. */
static const struct known_name *find_unknown(const struct isa *isa)
{
    for (size_t i = 0; i < sizeof(known_names) / sizeof(known_names[0]); i++) {
        const struct known_name *known = &known_names[i];
        char path[PATH_MAX + 64];
        bool is_there;
        char *text;
        size_t size;

        snprintf(path, sizeof(path), "%s/include/pto/%s", isa->root, known->header);
        if (file_read(path, HEADER_MAX, &text, &size) < 0)
            return known;
        is_there = memmem(text, size, known->name, strlen(known->name)) != NULL;
        free(text);
        if (!is_there)
            return known;
    }
    return NULL;
}

/* Adds a folder of our headers to the list, if the folder exists. */
static void add_own(struct build *build, const char *name)
{
    char folder[PATH_MAX];

    if (build->include_root == NULL ||
        snprintf(folder, sizeof(folder), "%s/%s", build->include_root, name) >=
            (int)sizeof(folder) ||
        access(folder, R_OK) != 0)
        return;
    words_add(&build->overlay, folder);
}

/* Adds our faster headers, if they fit this version of the library. */
static void add_fast(struct build *build)
{
    const struct known_name *unknown = find_unknown(&build->isa);
    struct text note = { 0 };

    if (unknown == NULL) {
        add_own(build, OVERLAY_FAST);
        return;
    }
    text_format(
        &note,
        "kernels run at the speed of the tile library in %s: its include/pto/%s lacks '%s', "
        "so the faster headers of the runtime do not fit",
        build->isa.root, unknown->header, unknown->name);
    if (build->params->is_explained)
        build_notify(build, PTO_BUILD_NOTE, NULL, note.bytes);
    text_free(&note);
}

int overlay_make(struct build *build, const struct compiler *compiler, struct pto_error *error)
{
    /*
     * compilers older than these versions do not order overloads by constraints as C++20 requires
     */
    bool has_constraints = compiler->major >= (compiler->is_clang ? 16u : 10u);
    int status;

    if (build->isa.root == NULL || build->overlay.count != 0)
        return PTO_OK;
    status = add_patched(build, compiler, error);
    if (status == PTO_OK && !compiler->has_bfloat16)
        add_own(build, OVERLAY_TYPES);
    if (status == PTO_OK && build->has_isa_overlay && has_constraints)
        add_fast(build);
    if (status == PTO_OK && build->overlay.is_short)
        status = error_setf(error, PTO_ENOMEM, "no memory for the headers of the tile library");
    return status;
}

/* ---- patching a header that older compilers reject ---- */

/*
 * Patches a static_assert(false) in a template that is never instantiated. GCC up to 12 and clang
 * up to 16 report it as an error. The copy makes the assertion depend on the template's parameter.
 */
static char *patch_assertion(const char *text, size_t size)
{
    static const char what[] = "static_assert(false,";
    static const char instead[] = "static_assert(sizeof(DType) == 0,";
    const char *at = memmem(text, size, what, strlen(what));
    struct text copy = { 0 };

    if (at == NULL || memmem(text, size, "typename DType", 14) == NULL)
        return NULL;
    while (at != NULL) {
        text_add(&copy, text, (size_t)(at - text));
        text_format(&copy, "%s", instead);
        size -= (size_t)(at - text) + strlen(what);
        text = at + strlen(what);
        at = memmem(text, size, what, strlen(what));
    }
    text_add(&copy, text, size);
    return copy.is_short ? NULL : copy.bytes;
}

/*
 * Returns the patched text of a header, which the caller frees. NULL: this compiler accepts the
 * header of the library unchanged.
 */
static int overlay_patch(const struct isa *isa, const struct compiler *compiler, char **text_out)
{
    /* first compiler version that can read the header unchanged */
    uint32_t first = compiler->is_clang ? 17 : 13;
    char path[PATH_MAX + 64];
    char *text;
    size_t size;

    *text_out = NULL;
    if (isa->root == NULL || compiler->major >= first)
        return PTO_OK;
    snprintf(path, sizeof(path), "%s/include/pto/cpu/TReduceIdx.hpp", isa->root);
    if (file_read(path, HEADER_MAX, &text, &size) < 0)
        return PTO_OK; /* some revisions of the library lack the file */
    *text_out = patch_assertion(text, size);
    free(text);
    return PTO_OK;
}

/* Whether only this user can write to the folder, and `name` is the only file in it. */
static bool is_sole(const char *folder, const char *name)
{
    struct words names = { 0 };
    struct stat about;
    bool is_so = lstat(folder, &about) == 0 && S_ISDIR(about.st_mode) && store_is_own(&about) &&
                 isa_list_folder(folder, &names) == PTO_OK && names.count == 1 &&
                 strcmp(names.at[0], name) == 0;

    words_free(&names);
    return is_so;
}

/*
 * Whether DIR/pto/cpu/TReduceIdx.hpp has exactly this text, and the folder has no other file that a
 * compiler could find.
 */
static bool overlay_is_intact(const char *dir, const char *text)
{
    char path[PATH_MAX + 64];
    struct stat about;
    char *bytes;
    size_t size;
    bool is_same;

    if (!is_sole(dir, "pto"))
        return false;
    snprintf(path, sizeof(path), "%s/pto", dir);
    if (!is_sole(path, "cpu"))
        return false;
    snprintf(path, sizeof(path), "%s/pto/cpu", dir);
    if (!is_sole(path, "TReduceIdx.hpp"))
        return false;
    snprintf(path, sizeof(path), "%s/pto/cpu/TReduceIdx.hpp", dir);
    if (lstat(path, &about) != 0 || !store_is_own(&about) ||
        file_read(path, HEADER_MAX, &bytes, &size) < 0)
        return false;
    is_same = size == strlen(text) && memcmp(bytes, text, size) == 0;
    free(bytes);
    return is_same;
}

/* Writes a complete file under a temporary name. */
static bool write_beside(const char *name, const char *text)
{
    char path[2 * PATH_MAX];

    snprintf(path, sizeof(path), "%s/pto/cpu", name);
    if (file_make_folder(path) < 0)
        return false;
    snprintf(path, sizeof(path), "%s/pto/cpu/TReduceIdx.hpp", name);
    return file_write_private(path, text, strlen(text)) == PTO_OK;
}

/*
 * Makes a folder in `folder` that has only the patched header. The name of the new folder is
 * derived from the text; the caller frees it. False, with errno set: the folder cannot be written,
 * or other users can write to it.
 */
static bool overlay_place(const char *folder, const char *text, char **dir_out)
{
    char dir[PATH_MAX], name[PATH_MAX], hex[DIGEST_HEX];
    struct digest digest;
    struct stat about;

    digest_of(text, strlen(text), &digest);
    digest_to_hex(&digest, hex);
    if (file_make_folder(folder) < 0 || stat(folder, &about) != 0 || !store_is_own(&about) ||
        snprintf(dir, sizeof(dir), "%s/%.32s", folder, hex) >= (int)sizeof(dir))
        return false;
    for (int attempt = 0; attempt < PLACE_ATTEMPTS; attempt++) {
        if (overlay_is_intact(dir, text)) {
            *dir_out = strdup(dir);
            return *dir_out != NULL;
        }
        work_remove(dir); /* remove a damaged folder, or a file of the same name */
        snprintf(name, sizeof(name), "%.4000s/new-XXXXXX", folder);
        if (mkdtemp(name) == NULL)
            return false;
        if (!write_beside(name, text) || rename(name, dir) != 0) {
            int number = errno;

            work_remove(name);
            errno = number;
            /* another build has just made the same folder, which can be used */
            if (number != EEXIST && number != ENOTEMPTY)
                return false;
        }
    }
    return false;
}

/*
 * Adds a patched copy of a header that this compiler cannot read. It is in the store, so that its
 * path is always the same. If the store is unusable, it is in a folder of this build instead, to
 * which other users cannot add a header.
 */
static int add_patched(struct build *build, const struct compiler *compiler,
                       struct pto_error *error)
{
    char folder[PATH_MAX];
    char *text, *dir = NULL, *work = NULL;
    int status = overlay_patch(&build->isa, compiler, &text);

    if (status < 0 || text == NULL)
        return status;
    snprintf(folder, sizeof(folder), "%.4000s/overlay", store_folder(build->store));
    if (!store_is_usable(build->store) || !overlay_place(folder, text, &dir))
        status = build_work_folder(build, OVERLAY_WORK, &work, error);
    if (work != NULL && !overlay_place(work, text, &dir))
        status = error_setf(error, PTO_ESYSTEM,
                            "%s needs a patched copy of a header of the tile library, and %.200s "
                            "cannot be written: %s",
                            compiler->version, work, strerror(errno));
    if (status == PTO_OK && dir != NULL)
        words_add(&build->overlay, dir);
    free(dir);
    free(work);
    free(text);
    return status;
}

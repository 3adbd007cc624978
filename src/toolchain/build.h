/* SPDX-License-Identifier: Apache-2.0 */
/* One build: the state that its compilations share. */
#ifndef PTO_TOOLCHAIN_BUILD_H
#define PTO_TOOLCHAIN_BUILD_H

#include <limits.h>
#include <pthread.h>

#include "pto/build.h"
#include "toolchain/command.h"
#include "toolchain/scan.h"

struct precompiled;

struct build {
    const struct pto_build_params *params;
    const struct platform *platform;
    struct store *store;
    /*
     * the first scans of all units share this memo of the files, as they were before any
     * compilation
     */
    struct scan_memo *memo;
    struct isa isa;
    /* whether folders with faster headers come before the folders of the tile library */
    bool has_isa_overlay;
    struct words overlay; /* folders that come before the tile library's (overlay_make) */
    char *include_root;   /* folder of our headers; NULL: they are not next to the library */
    struct words env;
    struct words variables;
    struct compiler compilers[COMPILER_TARGETS][COMPILER_LANGUAGES];
    struct precompiled *precompiled; /* headers that several units begin with */
    uint32_t precompiled_count;
    pthread_mutex_t lock; /* guards the fields below, and is held while `event` is called */
    uint32_t done;
    uint32_t total;
    uint32_t compiled;   /* sources that were compiled */
    uint64_t started_ns; /* when the first compiler was started; 0: none was */
    char *work; /* temporary folder, made when the first compiler is started; NULL: not made yet */
    bool is_failed;
};

/* One source on its way to an object. */
struct unit {
    const struct pto_source *source;
    const struct compiler *compiler;
    struct compile_command command;
    struct words more; /* files that the compiler read although the scan did not find them */
    struct scan *scan;
    /*
     * memo for further scans of this unit, made after its first compilation, so that changed files
     * are read again
     */
    struct scan_memo *memo;
    struct digest key;
    const struct precompiled *precompiled; /* what the source begins with; NULL: nothing known */
    char *obstacle;           /* why the store cannot be used for this unit; NULL: it can */
    struct store_entry entry; /* the store's entry with the object, if it was found there */
    void *object;             /* the object, if it was compiled in this build */
    size_t object_size;
    bool is_compiled;
    int status;
    struct pto_error error;
};

/*
 * Finds the files that the unit's source can read, and computes its key. unit_scan and unit_make
 * set `status` and `error` of the unit; several threads may handle different units.
 */
void unit_scan(struct build *build, struct unit *unit);
/* Looks the object up in the store. */
void unit_find(struct build *build, struct unit *unit);
/* Gets the object from the store, or compiles the unit. */
void unit_make(struct build *build, struct unit *unit, uint32_t index);
void unit_free(struct unit *unit);
const void *unit_bytes(const struct unit *unit, size_t *size_out);
/* Runs a program for the unit and appends its output. PTO_EBUILD: it failed or was killed. */
int unit_run(struct build *build, struct unit *unit, const struct words *argv, struct text *output,
             struct pto_error *error);
/* Scans another file with the search order of the unit. */
int unit_scan_file(const struct unit *unit, struct scan_memo *memo, const char *path,
                   struct scan **scan_out);
/* Adds all that decides how the unit's compiler works, but no file, to a key. */
void unit_add_command(const struct build *build, const struct unit *unit,
                      struct digest_state *state);
/* Whether a file belongs to the tile library, to the runtime or to the compiler. */
bool unit_is_library(const struct build *build, const struct unit *unit, const char *path);
/*
 * Adds the files that a compiler's list of dependencies has, but the scan lacks. PTO_EBUILD: the
 * list cannot be read.
 */
int unit_list_unknown(const struct build *build, struct scan *scan, const char *rules,
                      struct words *unknown);
/*
 * Finds the linker of the vendor's compiler, in the compiler's folder or in PATH. PTO_ENOSUP: none
 * found.
 */
int unit_find_linker(const struct build *build, const struct unit *unit, char linker[PATH_MAX],
                     struct pto_error *error);

/* Calls the build's event callback, in one thread at a time. */
void build_notify(struct build *build, enum pto_build_event_kind kind, const char *source,
                  const char *text);
bool build_is_stopped(void *build);
/* Makes a folder for the files of one compilation; the caller frees the name. */
int build_work_folder(struct build *build, uint32_t index, char **path_out,
                      struct pto_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* One build: what its compilations share. */
#ifndef PTO_TOOLCHAIN_BUILD_H
#define PTO_TOOLCHAIN_BUILD_H

#include <limits.h>
#include <pthread.h>

#include "pto/build.h"
#include "toolchain/command.h"
#include "toolchain/scan.h"

struct build {
    const struct pto_build_params *params;
    const struct platform *platform;
    struct store *store;
    struct scan_memo *memo; /* of what was read before anything was compiled */
    struct isa isa;
    char *overlay;
    char *include_root; /* NULL: our headers are not where the library is */
    struct words env;
    struct words variables;
    struct compiler compilers[COMPILER_TARGETS][COMPILER_LANGUAGES];
    pthread_mutex_t lock; /* events and everything below */
    uint32_t done;
    uint32_t total;
    char *work; /* temporary folder, made for the first compiler that is started */
    bool is_failed;
};

/* One source on its way to an object. */
struct unit {
    const struct pto_source *source;
    const struct compiler *compiler;
    struct compile_command command;
    struct words more; /* files that only the compiler could name */
    struct scan *scan;
    struct scan_memo *memo; /* its own, after the first attempt */
    struct digest key;
    char *obstacle;           /* why it is compiled whatever the store has; NULL: it is looked up */
    struct store_entry entry; /* the object, if it comes from the store */
    void *object;             /* if it was compiled */
    size_t object_size;
    bool is_compiled;
    int status;
    struct pto_error error;
};

/* Reads its files and makes its key. Both fill `status` and `error`; units may be in different threads. */
void unit_scan(struct build *build, struct unit *unit);
/* Then: gets the object from the store, or compiles. */
void unit_make(struct build *build, struct unit *unit, uint32_t index);
void unit_free(struct unit *unit);
const void *unit_bytes(const struct unit *unit, size_t *size_out);
/* Runs a program for it; what it prints is added. PTO_EBUILD: it gave up, which is told. */
int unit_run(struct build *build, struct unit *unit, const struct words *argv, struct text *output,
             struct pto_error *error);
/* The linker of the vendor's compiler: beside it, or in PATH. PTO_ENOSUP. */
int unit_find_linker(const struct build *build, const struct unit *unit, char linker[PATH_MAX],
                     struct pto_error *error);

/* Events come from one thread at a time. */
void build_tell(struct build *build, enum pto_build_event_kind kind, const char *source,
                const char *text);
bool build_is_stopped(void *build);
/* A folder for the files of one compilation; the caller frees the name. */
int build_work_folder(struct build *build, uint32_t index, char **path_out,
                      struct pto_error *error);

#endif

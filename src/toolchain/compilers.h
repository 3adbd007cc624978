/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds compilers and computes their identity: a digest of the driver and of every program and
 * library that it starts or loads. Digests are cached by device, inode, size and time of change.
 * Wrappers that cache objects are skipped. One thread fills a compiler; after that it is read-only.
 */
#ifndef PTO_COMPILERS_H
#define PTO_COMPILERS_H

#include "base/digest.h"
#include "pto/pto.h"
#include "toolchain/store.h"
#include "toolchain/words.h"

enum compiler_language { COMPILER_C, COMPILER_CXX, COMPILER_LANGUAGES };

enum compiler_target {
    COMPILER_HOST,   /* makes code for this machine: simulated chips, goldens */
    COMPILER_DEVICE, /* makes code for the chip's own processors (aarch64): orchestrations */
    COMPILER_CORE,   /* makes code for the compute cores, with the vendor's compiler: kernels */
    COMPILER_TARGETS
};

struct compiler_tool {
    char *path;
    struct digest digest;
};

struct compiler {
    enum compiler_language language;
    enum compiler_target target;
    struct words command; /* path of the driver, then the other words of CC or CXX */
    char *why;            /* text that states which compiler was chosen, and why */
    bool is_clang;
    uint32_t major; /* major version */
    char version[64];
    bool has_bfloat16;      /* std::bfloat16_t exists */
    struct digest identity; /* digest of all tools and the command */
    struct compiler_tool *tools;
    uint32_t tool_count;
};

/*
 * Finds a compiler; `platform` is only for messages. PTO_ENOSUP: there is none, and `error` lists
 * where it was searched.
 */
int compiler_find(enum compiler_language language, enum compiler_target target,
                  const struct pto_platform *platform, struct compiler *out,
                  struct pto_error *error);
/* Fills in all fields but `command` and `why`, from the store or by running the compiler. */
int compiler_identify(struct compiler *compiler, struct store *store, struct pto_error *error);
/*
 * Lists the folders in which the compiler searches for <headers> with `flags`, in order, without
 * those of the environment. Also cached.
 */
int compiler_system_dirs(const struct compiler *compiler, struct store *store,
                         const struct words *flags, struct words *dirs_out,
                         struct pto_error *error);
void compiler_free(struct compiler *compiler);

/* Returns "c" or "c++", as the option -x expects. */
const char *compiler_language_name(enum compiler_language language);

/*
 * Makes the environment for a compiler: without caches of wrappers, clocks and additional outputs.
 */
void compiler_environment(struct words *env_out);
/* Lists the variables that change the output of a compiler, as NAME=VALUE, if they are set. */
void compiler_variables(struct words *out);

/*
 * Finds the first executable of that name in PATH that is not a wrapper; a name with a slash is
 * used unchanged.
 */
bool compiler_find_program(const char *name, char *path_out, size_t path_bytes,
                           struct words *wrappers_out);

#endif

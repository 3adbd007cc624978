/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds compilers, and tells what they are: by the content of the driver and of
 * all that it starts and loads, remembered by device, inode, size and time of
 * change, so that nothing is read twice. Wrappers that keep old objects are left
 * out. A compiler is filled by one thread and then only read.
 */
#ifndef PTO_COMPILERS_H
#define PTO_COMPILERS_H

#include "base/digest.h"
#include "pto/pto.h"
#include "toolchain/store.h"
#include "toolchain/words.h"

enum compiler_language { COMPILER_C, COMPILER_CXX, COMPILER_LANGUAGES };

enum compiler_target {
    COMPILER_HOST,   /* this machine: simulated chips, goldens */
    COMPILER_DEVICE, /* the chip's own processors, aarch64: orchestrations */
    COMPILER_CORE,   /* the compute cores, by the vendor's compiler: kernels */
    COMPILER_TARGETS
};

struct compiler_tool {
    char *path;
    struct digest digest;
};

struct compiler {
    enum compiler_language language;
    enum compiler_target target;
    struct words command; /* the driver's path, then what CC or CXX says to give it */
    char *why;            /* a sentence: which one, and why this one */
    bool is_clang;
    uint32_t major; /* of its version */
    char version[64];
    bool has_bfloat16;      /* std::bfloat16_t exists */
    struct digest identity; /* of all tools and the command */
    struct compiler_tool *tools;
    uint32_t tool_count;
};

/* `platform` is for sentences. PTO_ENOSUP: there is none; the sentence says where it was looked for. */
int compiler_find(enum compiler_language language, enum compiler_target target,
                  const struct pto_platform *platform, struct compiler *out,
                  struct pto_error *error);
/* Fills in all but `command` and `why`, from the store or by asking the compiler. */
int compiler_identify(struct compiler *compiler, struct store *store, struct pto_error *error);
/*
 * The folders in which the compiler looks for <headers> when it gets `flags`, in
 * order, those of the environment left out; remembered as well.
 */
int compiler_system_dirs(const struct compiler *compiler, struct store *store,
                         const struct words *flags, struct words *dirs_out,
                         struct pto_error *error);
void compiler_free(struct compiler *compiler);

/* "c" or "c++", as -x takes it. */
const char *compiler_language_name(enum compiler_language language);

/* The environment for a compiler: no wrapper's cache, no clock, no files on the side. */
void compiler_environment(struct words *env_out);
/* The variables that change what a compiler makes, each as NAME=VALUE, if they are set. */
void compiler_variables(struct words *out);

/* The first executable of that name in PATH that is no wrapper; names with a slash are taken as they are. */
bool compiler_find_program(const char *name, char *path_out, size_t path_bytes,
                           struct words *wrappers_out);

#endif

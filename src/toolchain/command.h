/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the command that compiles a source for a platform, and lists the include folders of the
 * compiler in its order, which a scan needs.
 */
#ifndef PTO_COMMAND_H
#define PTO_COMMAND_H

#include "base/platforms.h"
#include "pto/build.h"
#include "toolchain/compilers.h"
#include "toolchain/isa.h"

struct command_params {
    const struct pto_source *source;
    const struct platform *platform;
    enum pto_mode mode; /* mode for which the orchestration is compiled; only for sources in C++ */
    const struct compiler *compiler;
    const struct isa *isa;       /* the tile library; only kernels in C++ use it */
    const struct words *overlay; /* folders that come before the tile library's */
    const char *include_root;    /* folder of our public headers */
    bool has_accesses;           /* kernels report their accesses */
    /* Another command of this compiler, whose search paths can be reused; or NULL. */
    const struct compile_command *like;
    struct store *store;
};

struct compile_command {
    char *source; /* absolute */
    /* flags that affect the object, without those for the output, the key header and the source */
    struct words flags;
    struct words tail; /* words that follow the source in the command */
    struct words quote_dirs;
    struct words dirs;
    struct words forced;
    /* flags that the scan does not know are accepted: they are for the vendor's compiler */
    bool is_for_core;
    /* the object is linked by a second program, because the vendor's compiler cannot link it */
    bool is_linked;
    bool uses_isa; /* the flags name the tile library's folders */
    /* first flag that may make the compiler read files that the scan does not find; or NULL */
    char *unknown;
};

/* Returns the language of a source. PTO_EINVAL: it is unknown, or the source does not exist. */
int command_language(const char *path, enum compiler_language *language_out,
                     struct pto_error *error);
enum compiler_target command_target(const struct pto_source *source,
                                    const struct platform *platform, enum pto_mode mode);

int command_make(const struct command_params *params, struct compile_command *out,
                 struct pto_error *error);
void command_free(struct compile_command *command);

/*
 * Makes the command line that compiles to `object`, with `key_header` included first. `work` is the
 * folder of both; its name does not get into the object. The compiler writes the list of the files
 * that it has read to `dependencies`. `precompiled` is the folder of a precompiled header that comes
 * before all, or NULL.
 */
void command_words(const struct compile_command *command, const struct compiler *compiler,
                   const char *work, const char *precompiled, const char *seed,
                   struct words *argv_out);
/* Makes the command line that precompiles the header in `work` for this command. */
void command_precompile_words(const struct compile_command *command,
                              const struct compiler *compiler, const char *work,
                              struct words *argv_out);

/* Names of the files in the work folder. */
#define COMMAND_KEY_HEADER "key.h"
#define COMMAND_OBJECT "object"
#define COMMAND_DEPENDENCIES "files.d"
#define COMMAND_LINKED "linked"
#define COMMAND_PREFIX "prefix.hpp"
#define COMMAND_PRECOMPILED COMMAND_PREFIX ".gch" /* the name that GCC looks for */

#endif

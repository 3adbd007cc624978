/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command that compiles a source for a platform, and what a scan has to know
 * of it: where the compiler looks for headers, in its order.
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
    enum pto_mode mode; /* for which C++ orchestrations are compiled */
    const struct compiler *compiler;
    const struct isa *isa;              /* used by kernels in C++ only */
    const char *overlay;                /* see isa_overlay; may be NULL */
    const char *include_root;           /* ours */
    const struct compile_command *like; /* another one of this compiler, to learn from; or NULL */
    struct store *store;
};

struct compile_command {
    char *source;       /* absolute */
    struct words flags; /* all that counts: without output, key and source */
    struct words tail;  /* what follows the source */
    struct words quote_dirs;
    struct words dirs;
    struct words forced;
    bool is_for_core; /* the vendor's flags are known, if not to a scan */
    bool is_linked;   /* a second program links the object: the vendor's compiler cannot */
    bool uses_isa;    /* the library's folders are in it */
    char *
        unknown; /* a flag that may make the compiler read files that a scan does not see; or NULL */
};

/* PTO_EINVAL: the source is of no known language, or is not there. */
int command_language(const char *path, enum compiler_language *language_out,
                     struct pto_error *error);
enum compiler_target command_target(const struct pto_source *source,
                                    const struct platform *platform, enum pto_mode mode);

int command_make(const struct command_params *params, struct compile_command *out,
                 struct pto_error *error);
void command_free(struct compile_command *command);

/*
 * The words to run: compiles to `object`, with `key_header` before everything
 * else. `work` is the folder of both; its name does not get into the object.
 * `dependencies` is the file for the compiler's own list of what it has read.
 */
void command_words(const struct compile_command *command, const struct compiler *compiler,
                   const char *work, const char *seed, struct words *argv_out);

/* Names of the files in the work folder. */
#define COMMAND_KEY_HEADER "key.h"
#define COMMAND_OBJECT "object"
#define COMMAND_DEPENDENCIES "files.d"
#define COMMAND_LINKED "linked"

#endif

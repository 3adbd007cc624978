/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Precompiled headers. Generated kernels begin with the same lines, up to the include of the tile
 * library, which takes a compiler longer than the kernel itself. When a build compiles many of
 * them with GCC, these lines are compiled once, and the result is kept in the store.
 *
 * Its key covers the same as that of an object: the lines, the content of every file that they can
 * see, the paths at which no file was found, the flags, the compiler and the environment. The
 * compiled form is used from a private folder of the build only. It defines a macro with the key,
 * which the header of each compilation asks for. A source whose compilation fails in this way is
 * compiled again without it, so that it decides neither about errors nor about their texts.
 */
#ifndef PTO_PRECOMPILED_H
#define PTO_PRECOMPILED_H

#include "toolchain/build.h"

struct precompiled {
    const struct unit *like; /* a unit with the compiler and the flags */
    struct text text;        /* the lines */
    uint32_t count;          /* units that begin with them */
    struct digest key;
    char *folder; /* where the compiled form is; NULL: there is none */
};

/*
 * Finds out which of the units that will be compiled have such lines in common. The number of
 * headers is build->precompiled_count.
 */
void precompiled_find(struct build *build, struct unit *units, uint32_t count);
/* Gets the header of that index from the store, or compiles it; failures leave it without one. */
void precompiled_make(struct build *build, struct unit *units, uint32_t index);
void precompiled_free(struct build *build);

/* Returns the folder of the unit's precompiled header; NULL: it uses none. */
const char *precompiled_folder(const struct unit *unit);
/* Adds lines that do not compile if the compiler has used another precompiled header. */
void precompiled_add_check(const struct unit *unit, struct text *out);

#endif

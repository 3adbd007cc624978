/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tile library: where it is, which revision it is, and what an older compiler
 * needs to read it. Nothing is ever downloaded.
 */
#ifndef PTO_ISA_H
#define PTO_ISA_H

#include "toolchain/compilers.h"

struct isa {
    char *root;        /* absolute; NULL: there is none */
    char *where;       /* "--isa", "PTO_ISA_ROOT" or the file that names it */
    char revision[80]; /* of git, or ""; for people, never for a key */
};

/*
 * `given`: a root, NULL to look for one, "" for none. One that is named and is not
 * there is an error (PTO_EINVAL); none at all is not.
 */
int isa_find(const char *given, struct isa *out, struct pto_error *error);
/* PTO_ESTALE: it is not what the pin says. `is_full`: asks git for changed files, too. */
int isa_check_pin(const struct isa *isa, const char *pin, bool is_full, struct pto_error *error);
/*
 * The text of a header, in a form that this compiler can read; the caller frees it.
 * NULL if the compiler reads the library as it is.
 */
int isa_patch(const struct isa *isa, const struct compiler *compiler, char **text_out);
/*
 * Makes a folder in `folder`, to come first in the include path, with that header
 * and nothing else; the caller frees its name. Its name follows from the text.
 * False, with errno set: it cannot be written, or others can write to it.
 */
bool isa_place(const char *folder, const char *text, char **dir_out);
void isa_free(struct isa *isa);

/* Whether a C or C++ text has the identifier `bfloat16_t` outside of comments and strings. */
bool isa_uses_bfloat16(const char *text, size_t size);

#endif

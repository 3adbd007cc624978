/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tile library: its folder, its revision and its pin. It is never downloaded.
 */
#ifndef PTO_ISA_H
#define PTO_ISA_H

#include "toolchain/compilers.h"

struct isa {
    char *root;        /* absolute path of its folder; NULL: there is none */
    char *where;       /* what named the folder: "--isa", "PTO_ISA_ROOT" or a file */
    char revision[80]; /* git revision, or ""; only for messages, never part of a key */
};

/*
 * Finds the library. `given`: a root, NULL to search for one, "" for none. A named root that does
 * not exist is an error (PTO_EINVAL); finding none is not.
 */
int isa_find(const char *given, struct isa *out, struct pto_error *error);
/*
 * Compares the library with `pin`, the revision or digest that the user requires. PTO_ESTALE: they
 * differ. `is_full`: also checks for changed files with git.
 */
int isa_check_pin(const struct isa *isa, const char *pin, bool is_full, struct pto_error *error);
void isa_free(struct isa *isa);
/* Lists the names in a folder, sorted. */
int isa_list_folder(const char *path, struct words *names);

/* Whether a C or C++ text has the identifier `bfloat16_t` outside of comments and strings. */
bool isa_uses_bfloat16(const char *text, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Validates shared objects as bytes before dlopen, which trusts its input. */
#ifndef PTO_ELF_H
#define PTO_ELF_H

#include "pto/pto.h"

/* What elf_isolate found and changed. */
struct elf_changes {
    uint32_t unique_symbols;
    /* the object finds its own symbols before those of other objects (DT_SYMBOLIC) */
    bool is_bound_to_itself;
    /* the object's name (DT_SONAME), by which others could depend on it, was removed */
    bool has_lost_name;
    bool keeps_signals; /* the object's code cannot change the signal mask of its thread */
};

/*
 * Checks that the object is for this machine and that its headers, its dynamic section and its
 * symbols lie inside of it. Then isolates it from other objects:
 *
 *   - symbols that are unique in the process (STB_GNU_UNIQUE: inline statics of C++) become local;
 *   - it finds its own symbols before those of the program (DT_SYMBOLIC);
 *   - its name (DT_SONAME), by which other objects could depend on it, is removed.
 *
 * `bytes` are a copy, aligned as by malloc. `changes` may be NULL. PTO_ELOAD with a message that
 * starts with the defect.
 */
int elf_isolate(void *bytes, size_t size, struct elf_changes *changes, struct pto_error *error);

/* elf_isolate for another machine, given by its number in ELF headers. */
int elf_isolate_for(uint32_t machine, void *bytes, size_t size, struct elf_changes *changes,
                    struct pto_error *error);

/*
 * Whether the code of a program that links the runtime cannot change the signal mask of its thread.
 */
bool elf_program_keeps_signals(const void *bytes, size_t size);

/* Whether the object exports a symbol. False if the bytes are not an object. */
bool elf_exports(const void *bytes, size_t size, const char *symbol);

/*
 * Returns the content of the first section with this name, at any alignment, and its size. NULL:
 * there is none, or the bytes are not an object.
 */
const void *elf_section(const void *bytes, size_t size, const char *name, size_t *size_out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared objects as bytes, before the system's loader gets them: it believes
 * what it reads, so whatever it follows is checked here.
 */
#ifndef PTO_ELF_H
#define PTO_ELF_H

#include "pto/pto.h"

/* What elf_isolate changed, counted for the tests, and what it saw. */
struct elf_changes {
    uint32_t unique_symbols;
    bool is_bound_to_itself; /* looks its own symbols up in itself first */
    bool has_lost_name;      /* no other object can name it as what it needs */
    bool keeps_signals;      /* its code cannot change which signals its thread blocks */
};

/*
 * Checks that the object is one for this machine and that its headers, its
 * dynamic section and its symbols lie inside of it, and makes it keep to itself:
 *
 *   - symbols that are to be unique in the process (STB_GNU_UNIQUE: inline
 *     statics of C++) become its own;
 *   - it finds its own symbols before those of the program (DT_SYMBOLIC);
 *   - it has no name (DT_SONAME) that others can ask for.
 *
 * `bytes` are a copy, aligned as malloc does it. `changes` may be NULL. PTO_ELOAD
 * with a sentence that starts with what is wrong.
 */
int elf_isolate(void *bytes, size_t size, struct elf_changes *changes, struct pto_error *error);

/* The same for another machine, by its number in ELF. */
int elf_isolate_for(uint32_t machine, void *bytes, size_t size, struct elf_changes *changes,
                    struct pto_error *error);

/* Whether the code of a program that uses the runtime cannot change which signals its thread blocks. */
bool elf_program_keeps_signals(const void *bytes, size_t size);

/* Whether the object has a symbol that others can look up. False for what is no object. */
bool elf_exports(const void *bytes, size_t size, const char *symbol);

#endif

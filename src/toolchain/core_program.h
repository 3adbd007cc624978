/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the layout of a program for cores, as the vendor's runtime expects it. The runtime copies
 * the file to the card, beginning at the first section that occupies memory. It starts an entry at
 * the offset that is the value of the entry's symbol. So no section may precede the code, or
 * entries would start at wrong addresses.
 */
#ifndef PTO_CORE_PROGRAM_H
#define PTO_CORE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "pto/error.h"

/*
 * Changes the section with the note of the key (toolchain/note.h) so that it is not loaded. False:
 * the bytes are not a 64-bit ELF file.
 */
bool core_program_unload_note(void *object, size_t size);
/*
 * Checks a linked program. PTO_EBUILD: the first section in memory is not the code at address 0, or
 * the entry for vector cores does not come after that for cube cores (the runtime takes an offset
 * of 0 for "no such entry").
 */
int core_program_check(const void *program, size_t size, struct pto_error *error);

#endif

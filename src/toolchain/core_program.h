/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layout of a program for cores, as the vendor's runtime reads it: the runtime copies the file to
 * the card from its first section that occupies memory, and starts an entry at the value of its
 * symbol from there. Code that follows anything else there starts at the wrong place.
 */
#ifndef PTO_CORE_PROGRAM_H
#define PTO_CORE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "pto/error.h"

/* Makes the note of the key (toolchain/note.h) occupy no memory. False: this is no such object. */
bool core_program_unload_note(void *object, size_t size);
/*
 * PTO_EBUILD: the first section in memory is not the code at address 0, or the entry for vector
 * cores does not follow that for cube cores: the runtime takes an offset of 0 for "no such entry".
 */
int core_program_check(const void *program, size_t size, struct pto_error *error);

#endif

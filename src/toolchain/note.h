/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key inside an object: a note in the section .note.pto, brought in by a
 * header that the compiler gets with the source. An object without it was not
 * made by this compilation, whoever served it.
 */
#ifndef PTO_NOTE_H
#define PTO_NOTE_H

#include "base/digest.h"
#include "toolchain/words.h"

#define NOTE_SECTION ".note.pto"

/* The header. `is_core`: for the vendor's compiler, which has no assembler for data. */
void note_header(const struct digest *key, bool is_core, struct text *out);
/* Whether the object has the note with this key. Any bytes will do. */
bool note_check(const void *object, size_t size, const struct digest *key);
/* Whether the object defines a function of this name that others can find. */
bool note_exports(const void *object, size_t size, const char *name);

#endif

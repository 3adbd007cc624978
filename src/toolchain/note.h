/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key inside an object: a note in the section .note.pto, emitted by a header that is compiled
 * with the source. An object without the note was not made by this compilation; a caching wrapper
 * may have returned an old one.
 */
#ifndef PTO_NOTE_H
#define PTO_NOTE_H

#include "base/digest.h"
#include "toolchain/words.h"

#define NOTE_SECTION ".note.pto"

/* Makes the header. `is_core`: for the vendor's compiler, which cannot assemble data. */
void note_header(const struct digest *key, bool is_core, struct text *out);
/* Whether the object has the note with this key. Accepts any bytes. */
bool note_check(const void *object, size_t size, const struct digest *key);
/* Whether the object exports a function of this name. */
bool note_exports(const void *object, size_t size, const char *name);

/* Whether the object exports a function of this name that only returns. */
bool note_is_empty(const void *object, size_t size, const char *name);

#endif

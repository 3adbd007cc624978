/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store: files that are found by a digest, below the user's cache folder,
 * shared by all processes.
 *
 * An entry is what a key stands for: bytes and a manifest, a text. It is
 * written beside its place, to the disk, then renamed; a reader checks a digest
 * over all of it and a secret of the store. So an entry that was cut off, altered
 * or made by somebody else counts as absent, and is removed. A name is a short text that may change, kept in the same way; it
 * is a hint, and nothing is right or wrong because of it.
 *
 *     FOLDER/CACHEDIR.TAG
 *     FOLDER/key                     the secret, for its owner's eyes
 *     FOLDER/entries/ab/cdef...      62 digits of the key
 *     FOLDER/names/ab/cdef...
 *
 * The least recently used entries go when there are more than PTO_STORE_MAX
 * bytes (2 GiB if it is not set; K, M and G may follow the number).
 *
 * A store that cannot be used, or that others can write to, is no error: nothing is found in it, nothing is
 * kept, and there is a note that says why. Any thread may call any function.
 */
#ifndef PTO_STORE_H
#define PTO_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "pto/pto.h"

enum { STORE_ABSENT = 1 };
enum { STORE_NOTE_MAX = 512 };

struct store;

struct store_entry {
    const void *bytes; /* 16-byte aligned */
    size_t size;
    const char *manifest; /* ends with a zero */
    void *block;          /* that holds both */
};

/*
 * `folder` NULL: PTO_STORE, else $XDG_CACHE_HOME/pto, else ~/.cache/pto. Fails
 * with PTO_ENOMEM, or PTO_EINVAL for a PTO_STORE_MAX that is no size. Nothing is
 * created before something is put.
 */
int store_open(const char *folder, struct store **store_out, struct pto_error *error);
/* Removes what is too much, if something was put. Accepts NULL. */
void store_close(struct store *store);
/* As it is used, without a final slash; "" if no folder could be named. */
const char *store_folder(const struct store *store);

/* Whether it is there, or can be made, and is this user's alone. */
bool store_is_usable(struct store *store);

/* PTO_OK, STORE_ABSENT, or PTO_ENOMEM. The caller frees the entry. */
int store_get(struct store *store, const struct digest *key, struct store_entry *entry_out);
void store_entry_free(struct store_entry *entry);
/*
 * PTO_OK: it is there. PTO_ESYSTEM: it is not, for lack of room or of the right
 * to write; the same sentence is in `error`, which may be NULL, and the first
 * time in a note.
 */
int store_put(struct store *store, const struct digest *key, const void *bytes, size_t size,
              const char *manifest, struct pto_error *error);

/* PTO_OK, STORE_ABSENT or PTO_ENOMEM. The caller frees *text_out. */
int store_name_get(struct store *store, const struct digest *name, char **text_out);
/* As store_put; writes nothing if the name has this text already. */
int store_name_put(struct store *store, const struct digest *name, const char *text,
                   struct pto_error *error);

/* The next sentence about something that did not work, each of them once. False: there is none. */
bool store_take_note(struct store *store, char text[STORE_NOTE_MAX]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store: files that are found by a digest, in the user's cache folder, shared by all processes.
 *
 * An entry maps a key to bytes and a manifest, a text. It is written to a temporary file,
 * synchronised and renamed. A reader checks a digest over the entry and a secret of the store, so a
 * truncated, altered or foreign entry counts as absent and is removed. A name is a short text that
 * may change, stored in the same way; it is a hint, and correctness never depends on it.
 *
 *     FOLDER/CACHEDIR.TAG
 *     FOLDER/key                     the secret, readable by its owner only
 *     FOLDER/entries/ab/cdef...      62 digits of the key
 *     FOLDER/names/ab/cdef...
 *
 * The least recently used entries are evicted when there are more than PTO_STORE_MAX bytes (2 GiB
 * if it is not set; K, M and G may follow the number).
 *
 * A store that is unusable, or writable by other users, is not an error: lookups miss, nothing is
 * stored, and a note gives the reason. Any thread may call any function.
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
    const void *bytes; /* aligned to 16 bytes */
    size_t size;
    const char *manifest; /* ends with a zero */
    void *block;          /* memory of both `bytes` and `manifest` */
};

/*
 * Opens a store. `folder` NULL: PTO_STORE, else $XDG_CACHE_HOME/pto, else ~/.cache/pto. PTO_ENOMEM;
 * PTO_EINVAL: PTO_STORE_MAX is not a size. Nothing is created before the first put.
 */
int store_open(const char *folder, struct store **store_out, struct pto_error *error);
/* Evicts entries if the store exceeds its limit and this process has written any. Accepts NULL. */
void store_close(struct store *store);
/* Returns the folder in use, without a final slash; "" if none could be determined. */
const char *store_folder(const struct store *store);

/* Whether the store exists, or can be created, and only this user can write to it. */
bool store_is_usable(struct store *store);

/* Looks an entry up. Returns PTO_OK, STORE_ABSENT or PTO_ENOMEM. The caller frees the entry. */
int store_get(struct store *store, const struct digest *key, struct store_entry *entry_out);
void store_entry_free(struct store_entry *entry);
/*
 * Stores an entry. PTO_ESYSTEM: it was not stored, for lack of space or permission; the message is
 * in `error`, which may be NULL, and, the first time, in a note.
 */
int store_put(struct store *store, const struct digest *key, const void *bytes, size_t size,
              const char *manifest, struct pto_error *error);

/*
 * Looks the text of a name up. Returns PTO_OK, STORE_ABSENT or PTO_ENOMEM. The caller frees
 * *text_out.
 */
int store_name_get(struct store *store, const struct digest *name, char **text_out);
/*
 * Stores the text of a name, unless the name already has this text. Returns what store_put returns.
 */
int store_name_put(struct store *store, const struct digest *name, const char *text,
                   struct pto_error *error);

/* Takes the next note about a failure; each is returned once. False: there is none. */
bool store_take_note(struct store *store, char text[STORE_NOTE_MAX]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What the store's files have in common: how one is read, and a walk over all of them. */
#ifndef PTO_STORE_FILES_H
#define PTO_STORE_FILES_H

#include <pthread.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "toolchain/store.h"

enum {
    STORE_FOLDER_MAX = 3584,
    STORE_PATH_MAX = 4096, /* of a file in it */
    STORE_NOTES = 8,
};

enum store_kind { STORE_ENTRIES, STORE_NAMES, STORE_KINDS };

struct store {
    char folder[STORE_FOLDER_MAX]; /* "": none, nothing is kept */
    uint64_t max_bytes;
    pthread_mutex_t lock; /* everything below */
    uint64_t put_bytes;   /* since it was last looked at whether there is too much */
    bool has_put;         /* since then */
    bool is_denied;       /* writing was refused: it is not tried again */
    bool is_checked;      /* whose it is, with the two below: see store_check */
    struct digest secret;
    char refusal[STORE_NOTE_MAX]; /* why it is not used; "": it is */
    uint32_t failures_noted;      /* bits: see note_failure */
    uint32_t note_count;
    char note[STORE_NOTES][STORE_NOTE_MAX];
};

/* Fills the folder and the limit: what can be said without looking. */
int store_init(struct store *store, const char *folder, struct pto_error *error);

struct store_file {
    enum store_kind kind;
    const char *path;
    struct digest key;
    bool is_part; /* beside the place of a file, by a writer */
    struct stat about;
};

/* False ends the walk. */
typedef bool (*store_visit_fn)(void *context, const struct store_file *file);

/* Visits every file of the store, no others. PTO_OK, 1 if it was ended, or PTO_ESYSTEM with errno. */
int store_walk(const struct store *store, store_visit_fn visit, void *context);

/*
 * Whether the store is this user's alone, and its secret. PTO_OK; STORE_ABSENT:
 * there is no folder or no secret yet; PTO_EINVAL: `refusal` says why it is not to
 * be used. `is_made` makes the secret, and fails with PTO_ESYSTEM and errno. Under
 * the lock; an answer other than STORE_ABSENT and PTO_ESYSTEM is kept.
 */
int store_check(struct store *store, bool is_made);
/* Nobody but this user can write to it. */
bool store_is_own(const struct stat *about);

/* A file in memory, with a zero behind it: PTO_OK, or PTO_EINVAL: it is not what was put. */
int store_parse(const struct store *store, const char *block, size_t size, const struct digest *key,
                struct store_entry *entry_out);
/* PTO_OK, STORE_ABSENT, PTO_ENOMEM, or PTO_EINVAL: it is not what was put under the key. */
int store_read(const struct store *store, const char *path, const struct digest *key,
               struct store_entry *entry_out);

/* Removes the least recently used files until a tenth of the room is free, if there are too many. */
void store_prune(struct store *store);

#endif

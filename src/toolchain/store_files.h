/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the store: reading one, and walking over all of them. */
#ifndef PTO_STORE_FILES_H
#define PTO_STORE_FILES_H

#include <pthread.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "toolchain/store.h"

enum {
    STORE_FOLDER_MAX = 3584,
    STORE_PATH_MAX = 4096, /* maximum length of a path in the store */
    STORE_NOTES = 8,
};

enum store_kind { STORE_ENTRIES, STORE_NAMES, STORE_KINDS };

struct store {
    char folder[STORE_FOLDER_MAX]; /* "": there is no folder, and nothing is stored */
    uint64_t max_bytes;
    pthread_mutex_t lock; /* guards all fields below */
    uint64_t put_bytes;   /* number of bytes written since the size was last checked */
    bool has_put;         /* something was written since the size was last checked */
    bool is_denied;       /* a write was refused; it is not retried */
    bool is_checked;      /* `refusal` and the secret are valid, because store_check was called */
    struct digest secret;
    char refusal[STORE_NOTE_MAX]; /* why the store is not used; "": the store is used */
    uint32_t failures_noted;      /* bits of the failures that have a note: see note_failure */
    uint32_t note_count;
    char note[STORE_NOTES][STORE_NOTE_MAX];
};

/* Sets the folder and the limit; does not access the folder. */
int store_init(struct store *store, const char *folder, struct pto_error *error);

struct store_file {
    enum store_kind kind;
    const char *path;
    struct digest key;
    bool is_part; /* temporary file of a writer */
    struct stat about;
};

/* Called for each file of the store. False ends the walk. */
typedef bool (*store_visit_fn)(void *context, const struct store_file *file);

/*
 * Visits every file of the store, no others. PTO_OK, 1 if it was ended, or PTO_ESYSTEM with errno.
 */
int store_walk(const struct store *store, store_visit_fn visit, void *context);

/*
 * Checks that only this user can write to the store, and reads its secret. PTO_OK; STORE_ABSENT:
 * there is no folder or no secret yet; PTO_EINVAL: unusable, and `refusal` has the reason. If
 * is_made, creates the secret; PTO_ESYSTEM: that failed, and errno has the reason. The caller holds
 * the lock; results other than STORE_ABSENT and PTO_ESYSTEM are cached.
 */
int store_check(struct store *store, bool is_made);
/* Whether only this user can write to the file. */
bool store_is_own(const struct stat *about);

/*
 * Checks the content of a file, which is in memory and ends with a zero. PTO_EINVAL: the content is
 * damaged.
 */
int store_parse(const struct store *store, const char *block, size_t size, const struct digest *key,
                struct store_entry *entry_out);
/*
 * Reads a file of the store. Returns PTO_OK, STORE_ABSENT, PTO_ENOMEM, or PTO_EINVAL: the content
 * is damaged.
 */
int store_read(const struct store *store, const char *path, const struct digest *key,
               struct store_entry *entry_out);

/*
 * If the store exceeds its limit, removes the least recently used files until a tenth of it is
 * free.
 */
void store_prune(struct store *store);

#endif

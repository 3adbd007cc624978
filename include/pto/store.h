/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of compiled objects. These functions show, verify and clear the store, for tools;
 * builds use it without them. They may be called at any time: a concurrent build finds an entry or
 * misses it, but never reads a part of one.
 */
#ifndef PTO_API_STORE_H
#define PTO_API_STORE_H

#include "pto/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

enum { PTO_STORE_FOLDER_MAX = 4096, PTO_STORE_REFUSAL_MAX = 512 };

/* The content of a store. */
struct pto_store_info {
    size_t size;
    bool is_present;  /* the folder of the store exists */
    bool is_writable; /* entries can be added, or the folder can be created */
    uint64_t max_bytes;
    uint64_t entries;
    uint64_t entry_bytes;
    uint64_t names; /* number of files that store the digests of the latest builds */
    uint64_t name_bytes;
    uint64_t leftovers; /* number of files of writers that are active or were killed */
    uint64_t leftover_bytes;
    uint64_t damaged;
    uint64_t removed; /* number of files of any kind that this call has removed */
    char folder[PTO_STORE_FOLDER_MAX];
    /* Why builds do not use the store, and the remedy; "": builds use it. */
    char refusal[PTO_STORE_REFUSAL_MAX];
};

/* Initialises the struct for a call that fills it in. */
static inline void pto_store_info_init(struct pto_store_info *info)
{
    if (info == NULL)
        return;
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
}

/*
 * Describes a store. A `folder` of NULL is the user's: PTO_STORE, else $XDG_CACHE_HOME/pto, else
 * ~/.cache/pto. A folder that does not exist is an empty store. PTO_ESYSTEM: it cannot be read;
 * `error`, which may be NULL, explains why. A store that others can write to is shown, but neither
 * verified nor cleared.
 */
int pto_store_show(const char *folder, struct pto_store_info *info, struct pto_error *error);

/* Called for each damaged file. */
typedef void (*pto_store_damaged_fn)(void *context, const char *path);

/*
 * Reads all files of a store. Damaged files are counted, passed to `damaged`, which may be NULL,
 * and removed, as a build does when it reads one.
 */
int pto_store_verify(const char *folder, struct pto_store_info *info, pto_store_damaged_fn damaged,
                     void *context, struct pto_error *error);

/*
 * Removes everything that belongs to the store, except files that are being written. The counts are
 * those before the removal.
 */
int pto_store_clear(const char *folder, struct pto_store_info *info, struct pto_error *error);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

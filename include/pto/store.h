/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store keeps what was compiled. These functions, for tools, say how large it
 * is, check it and empty it; builds use it on their own. They may be called at
 * any time: a build that runs meanwhile finds an entry or misses it, but never
 * sees a part of one.
 */
#ifndef PTO_API_STORE_H
#define PTO_API_STORE_H

#include "pto/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

enum { PTO_STORE_FOLDER_MAX = 4096, PTO_STORE_REFUSAL_MAX = 512 };

/* What is in a store. */
struct pto_store_info {
    size_t size;
    bool is_present;  /* the folder exists */
    bool is_writable; /* entries can be added, or the folder can be made */
    uint64_t max_bytes;
    uint64_t entries;
    uint64_t entry_bytes;
    uint64_t names; /* hints: what was built last */
    uint64_t name_bytes;
    uint64_t leftovers; /* of killed writers, or of those that are writing */
    uint64_t leftover_bytes;
    uint64_t damaged;
    uint64_t removed; /* files of any kind that this call removed */
    char folder[PTO_STORE_FOLDER_MAX];
    char refusal[PTO_STORE_REFUSAL_MAX]; /* why builds do not use it, and what helps; "": they do */
};

/* Prepares the struct for the call that fills it in. */
static inline void pto_store_info_init(struct pto_store_info *info)
{
    if (info == NULL)
        return;
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
}

/*
 * Says what is in a store. A `folder` of NULL is the user's: PTO_STORE, else
 * $XDG_CACHE_HOME/pto, else ~/.cache/pto. One that does not exist is an empty
 * store. PTO_ESYSTEM: it cannot be read; `error`, which may be NULL, explains why.
 * One that others can write to is shown, but neither verified nor cleared.
 */
int pto_store_show(const char *folder, struct pto_store_info *info, struct pto_error *error);

/* Called for each damaged file. */
typedef void (*pto_store_damaged_fn)(void *context, const char *path);

/*
 * Reads everything in a store. Damaged files are counted, reported to `damaged`,
 * which may be NULL, and removed, as a build does with one that it comes across.
 */
int pto_store_verify(const char *folder, struct pto_store_info *info, pto_store_damaged_fn damaged,
                     void *context, struct pto_error *error);

/*
 * Removes everything that belongs to the store, except what is being written at
 * this moment. The counts are those from before.
 */
int pto_store_clear(const char *folder, struct pto_store_info *info, struct pto_error *error);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

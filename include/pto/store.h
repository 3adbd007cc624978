/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A look into the store, where what was compiled is kept: its size, whether it
 * is sound, and how to empty it. Building uses it by itself; these functions
 * are for tools. Any thread, at any time: builds that go on beside them find
 * or miss an entry, and never a part of one.
 */
#ifndef PTO_API_STORE_H
#define PTO_API_STORE_H

#include "pto/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

enum { PTO_STORE_FOLDER_MAX = 4096 };

struct pto_store_info {
    size_t size;
    bool is_present;  /* there is such a folder */
    bool is_writable; /* entries can be put into it, or it can be made */
    uint64_t max_bytes;
    uint64_t entries;
    uint64_t entry_bytes;
    uint64_t names; /* hints: what was built last */
    uint64_t name_bytes;
    uint64_t leftovers; /* of writers that were killed, or of those that write right now */
    uint64_t leftover_bytes;
    uint64_t damaged;
    uint64_t removed; /* files of any kind, by this call */
    char folder[PTO_STORE_FOLDER_MAX];
};

/* Before the call that fills it. */
static inline void pto_store_info_init(struct pto_store_info *info)
{
    if (info == NULL)
        return;
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
}

/*
 * `folder` NULL: the user's (PTO_STORE, else $XDG_CACHE_HOME/pto, else
 * ~/.cache/pto). A folder that does not exist is an empty store. PTO_ESYSTEM:
 * it cannot be read; `error`, which may be NULL, tells why.
 */
int pto_store_show(const char *folder, struct pto_store_info *info, struct pto_error *error);

/*
 * Reads everything. What is damaged is counted, told to `damaged` (which may be
 * NULL) and removed: a build does the same when it meets it.
 */
typedef void (*pto_store_damaged_fn)(void *context, const char *path);
int pto_store_verify(const char *folder, struct pto_store_info *info, pto_store_damaged_fn damaged,
                     void *context, struct pto_error *error);

/*
 * Removes everything that is the store's, but for what is being written at this moment. The
 * numbers are those from before.
 */
int pto_store_clear(const char *folder, struct pto_store_info *info, struct pto_error *error);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

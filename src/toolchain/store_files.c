/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks over all files of the store, to count, verify or evict them. Files whose names do not fit
 * the store's layout are ignored. A file that is removed may be in use: its reader either has it
 * open, or misses.
 */
#include "toolchain/store_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/sized.h"
#include "host/host.h"
#include "pto/store.h"

enum { LEFTOVER_SECONDS = 3600, PRUNE_TENTHS = 9 };

static const char *const kind_names[STORE_KINDS] = { "entries", "names" };

/* ---- the walk ---- */

/*
 * Whether the name is one of the store's files: digits of the key, or digits and the suffix of a
 * writer.
 */
static bool parse_name(const char *shard, const char *name, struct store_file *file)
{
    char hex[DIGEST_HEX];
    size_t length = strlen(name);
    const char *rest;

    if (strlen(shard) != 2 || length < DIGEST_HEX - 3)
        return false;
    snprintf(hex, sizeof(hex), "%s%.62s", shard, name);
    if (!digest_from_hex(hex, &file->key))
        return false;
    rest = name + DIGEST_HEX - 3;
    file->is_part = rest[0] != '\0';
    return !file->is_part ||
           (rest[0] == '.' && length > 5 && strcmp(name + length - 5, ".part") == 0);
}

static int walk_shard(const char *folder, const char *shard, struct store_file *file,
                      store_visit_fn visit, void *context)
{
    char path[STORE_PATH_MAX];
    DIR *stream = opendir(folder);
    struct dirent *item;
    int status = PTO_OK;

    if (stream == NULL) /* removed by another process, or not a folder */
        return errno == EACCES ? PTO_ESYSTEM : PTO_OK;
    while (status == PTO_OK && (item = readdir(stream)) != NULL) {
        if (!parse_name(shard, item->d_name, file))
            continue;
        snprintf(path, sizeof(path), "%.3800s/%s", folder, item->d_name);
        file->path = path;
        if (fstatat(dirfd(stream), item->d_name, &file->about, AT_SYMLINK_NOFOLLOW) != 0 ||
            S_ISDIR(file->about.st_mode))
            continue;
        if (!visit(context, file))
            status = 1;
    }
    closedir(stream);
    return status;
}

int store_walk(const struct store *store, store_visit_fn visit, void *context)
{
    struct store_file file;
    int status = PTO_OK;

    for (int kind = 0; status == PTO_OK && kind < STORE_KINDS; kind++) {
        char folder[STORE_FOLDER_MAX + 16], shard[STORE_FOLDER_MAX + 32];
        struct dirent *item;
        DIR *stream;

        snprintf(folder, sizeof(folder), "%s/%s", store->folder, kind_names[kind]);
        stream = opendir(folder);
        if (stream == NULL && errno != ENOENT)
            return PTO_ESYSTEM;
        if (stream == NULL)
            continue;
        file.kind = (enum store_kind)kind;
        while (status == PTO_OK && (item = readdir(stream)) != NULL) {
            if (strlen(item->d_name) != 2 || item->d_name[0] == '.')
                continue;
            snprintf(shard, sizeof(shard), "%s/%.2s", folder, item->d_name);
            status = walk_shard(shard, item->d_name, &file, visit, context);
        }
        closedir(stream);
    }
    return status;
}

/* ---- eviction ---- */

struct old_file {
    uint64_t bytes;
    struct timespec used;
    char *path;
};

struct pile {
    struct old_file *file;
    size_t count;
    size_t room;
    uint64_t bytes;
    time_t now;
};

static bool pile_up(void *context, const struct store_file *file)
{
    struct pile *pile = context;

    if (file->is_part) {
        if (file->about.st_mtime < pile->now - LEFTOVER_SECONDS)
            unlink(file->path);
        return true;
    }
    if (pile->count == pile->room) {
        size_t room = pile->room != 0 ? 2 * pile->room : 256;
        struct old_file *grown = realloc(pile->file, room * sizeof(*grown));

        if (grown == NULL)
            return false;
        pile->file = grown;
        pile->room = room;
    }
    pile->file[pile->count] = (struct old_file){ .bytes = (uint64_t)file->about.st_size,
                                                 .used = file->about.st_mtim,
                                                 .path = strdup(file->path) };
    if (pile->file[pile->count].path == NULL)
        return false;
    pile->bytes += pile->file[pile->count++].bytes;
    return true;
}

static int compare_use(const void *a, const void *b)
{
    const struct timespec *x = &((const struct old_file *)a)->used;
    const struct timespec *y = &((const struct old_file *)b)->used;

    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

void store_prune(struct store *store)
{
    struct pile pile = { .now = time(NULL) };
    uint64_t keep = store->max_bytes / 10 * PRUNE_TENTHS;

    (void)store_walk(store, pile_up, &pile);
    if (pile.bytes > store->max_bytes) {
        qsort(pile.file, pile.count, sizeof(pile.file[0]), compare_use);
        for (size_t i = 0; i < pile.count && pile.bytes > keep; i++) {
            pile.bytes -= pile.file[i].bytes;
            unlink(pile.file[i].path);
        }
    }
    for (size_t i = 0; i < pile.count; i++)
        free(pile.file[i].path);
    free(pile.file);
}

/* ---- functions for tools ---- */

struct look {
    const struct store *store;
    struct pto_store_info *info;
    bool is_verified;
    bool is_cleared;
    pto_store_damaged_fn damaged;
    void *context;
    int error; /* errno of the first removal that failed */
};

static void remove_file(struct look *look, const char *path)
{
    if (unlink(path) == 0)
        look->info->removed++;
    else if (errno != ENOENT && look->error == 0)
        look->error = errno;
}

/* Whether a living process of this machine is writing the file: see file_write. */
static bool store_files_has_writer(const struct store_file *file)
{
    const char *name = strrchr(file->path, '/');
    const char *dot = name != NULL ? strchr(name, '.') : NULL;
    long process = dot != NULL ? strtol(dot + 1, NULL, 10) : 0;

    return process > 0 && process <= INT32_MAX &&
           (kill((pid_t)process, 0) == 0 || errno == EPERM) &&
           file->about.st_mtime >= time(NULL) - LEFTOVER_SECONDS;
}

static bool is_damaged(const struct store *store, const struct store_file *file)
{
    struct store_entry entry;
    int status = store_read(store, file->path, &file->key, &entry);

    if (status == PTO_OK)
        store_entry_free(&entry);
    return status == PTO_EINVAL;
}

static bool look_at(void *context, const struct store_file *file)
{
    struct look *look = context;
    struct pto_store_info *info = look->info;
    bool is_entry = file->kind == STORE_ENTRIES;

    *(file->is_part ? &info->leftovers : is_entry ? &info->entries : &info->names) += 1;
    *(file->is_part ? &info->leftover_bytes
      : is_entry    ? &info->entry_bytes
                    : &info->name_bytes) += (uint64_t)file->about.st_size;
    if (look->is_verified && !file->is_part && is_damaged(look->store, file)) {
        info->damaged++;
        if (look->damaged != NULL)
            look->damaged(look->context, file->path);
        remove_file(look, file->path);
    }
    if (look->is_verified && file->is_part && file->about.st_mtime < time(NULL) - LEFTOVER_SECONDS)
        remove_file(look, file->path);
    if (look->is_cleared && !(file->is_part && store_files_has_writer(file)))
        remove_file(look, file->path);
    return true;
}

/* Removes empty folders; the tag and the store's folder stay. */
static void remove_folders(const struct store *store)
{
    char path[STORE_PATH_MAX];

    for (int kind = 0; kind < STORE_KINDS; kind++) {
        for (int shard = 0; shard < 256; shard++) {
            snprintf(path, sizeof(path), "%s/%s/%02x", store->folder, kind_names[kind], shard);
            (void)rmdir(path);
        }
        snprintf(path, sizeof(path), "%s/%s", store->folder, kind_names[kind]);
        (void)rmdir(path);
    }
}

/*
 * Whether a file can be created in the folder or, if it does not exist, in its first existing
 * parent.
 */
static bool store_files_can_write(const char *folder)
{
    char path[STORE_PATH_MAX];
    struct stat about;

    snprintf(path, sizeof(path), "%s", folder);
    while (stat(path, &about) != 0 && errno == ENOENT) {
        char *slash = strrchr(path, '/');

        if (slash == NULL || slash == path)
            return access("/", W_OK) == 0;
        *slash = '\0';
    }
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode) && access(path, W_OK | X_OK) == 0;
}

static int take_look(const char *folder, struct look *look, struct pto_error *error)
{
    struct pto_store_info *given = look->info;
    struct pto_store_info own, *info = look->info = &own;
    struct store *store;
    struct stat about;
    int status;

    if (given == NULL || !sized_is_valid(given) || !sized_is_valid(error))
        return error_setf(error, PTO_EINVAL,
                          "no struct pto_store_info, or one that is not initialised");
    store = calloc(1, sizeof(*store));
    if (store == NULL)
        return error_setf(error, PTO_ENOMEM, "no memory for the store");
    status = store_init(store, folder, error);
    if (status < 0)
        goto free_store;
    pto_store_info_init(info);
    info->max_bytes = store->max_bytes;
    snprintf(info->folder, sizeof(info->folder), "%s", store->folder);
    if (store->folder[0] == '\0') {
        status = error_setf(error, PTO_ESYSTEM,
                            "there is no folder for the store; set PTO_STORE or "
                            "HOME to an absolute path");
        goto free_store;
    }
    look->store = store;
    info->is_writable = store_files_can_write(store->folder);
    if (store_check(store, false) == PTO_EINVAL)
        snprintf(info->refusal, sizeof(info->refusal), "%s", store->refusal);
    if (info->refusal[0] != '\0' && (look->is_verified || look->is_cleared)) {
        status = error_setf(error, PTO_ESYSTEM, "%s", store->refusal);
        goto free_store;
    }
    if (stat(store->folder, &about) != 0) {
        status = errno == ENOENT ? PTO_OK : PTO_ESYSTEM;
    } else {
        errno = ENOTDIR;
        status = S_ISDIR(about.st_mode) ? store_walk(store, look_at, look) : PTO_ESYSTEM;
        info->is_present = status == PTO_OK;
    }
    if (status < 0)
        error_setf(error, status, "%.300s cannot be read: %s", store->folder, strerror(errno));
    if (look->is_cleared && status == PTO_OK)
        remove_folders(store);
    if (look->error != 0 && status == PTO_OK)
        status = error_setf(error, PTO_ESYSTEM, "not everything in %.300s could be removed: %s",
                            store->folder, strerror(look->error));
    sized_write(given, &own, sizeof(own));
free_store:
    free(store);
    return status;
}

int pto_store_show(const char *folder, struct pto_store_info *info, struct pto_error *error)
{
    struct look look = { .info = info };

    return take_look(folder, &look, error);
}

int pto_store_verify(const char *folder, struct pto_store_info *info, pto_store_damaged_fn damaged,
                     void *context, struct pto_error *error)
{
    struct look look = {
        .info = info, .is_verified = true, .damaged = damaged, .context = context
    };

    return take_look(folder, &look, error);
}

int pto_store_clear(const char *folder, struct pto_store_info *info, struct pto_error *error)
{
    struct look look = { .info = info, .is_cleared = true };

    return take_look(folder, &look, error);
}

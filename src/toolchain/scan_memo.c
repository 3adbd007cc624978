/* SPDX-License-Identifier: Apache-2.0 */
/* Folders and files, each found by hashing, in memory that is freed as a whole. */
#include "toolchain/scan_memo.h"

#include <errno.h>
#include <limits.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/lock.h"
#include "toolchain/lexer.h"

enum {
    CHUNK_BYTES = 64 << 10,
    TABLE_SIZE_MIN = 256,
    FILE_BYTES_MAX = 256 << 20,
    OPENS_MAX = 100, /* maximum number of struct scan_open that are listed for one file */
    NO_PARENT = UINT32_MAX
};

struct chunk {
    struct chunk *next;
    size_t used;
    size_t size;
    alignas(16) char bytes[];
};

/* A path relative to a folder, as spelled. */
struct spelling {
    struct named key;
    struct folder *folder;
};

static struct folder *intern_folder(struct scan_memo *memo, const char *path, int error);

int scan_memo_create(struct scan_memo **memo_out)
{
    struct scan_memo *memo = calloc(1, sizeof(*memo));
    char path[PATH_MAX];

    if (memo == NULL)
        return PTO_ENOMEM;
    pthread_mutex_init(&memo->lock, NULL);
    pthread_cond_init(&memo->loaded, NULL);
    memo->current = realpath(".", path) != NULL ? intern_folder(memo, path, 0)
                                                : intern_folder(memo, ".", errno);
    if (memo->current == NULL) {
        scan_memo_destroy(memo);
        return PTO_ENOMEM;
    }
    *memo_out = memo;
    return PTO_OK;
}

void scan_memo_destroy(struct scan_memo *memo)
{
    if (memo == NULL)
        return;
    for (uint32_t i = 0; i < memo->configs.count; i++)
        config_free(memo->configs.item[i]);
    free(memo->configs.item);
    free(memo->spellings.slot);
    free(memo->folders.slot);
    free(memo->files.slot);
    while (memo->chunk != NULL) {
        struct chunk *next = memo->chunk->next;

        free(memo->chunk);
        memo->chunk = next;
    }
    pthread_cond_destroy(&memo->loaded);
    pthread_mutex_destroy(&memo->lock);
    free(memo);
}

int scan_memo_digest(struct scan_memo *memo, const char *path, struct digest *out)
{
    struct file *file;
    int status;

    memo_lock(memo);
    status = memo_file(memo, path, &file);
    if (status == PTO_OK)
        status = memo_load(memo, file);
    if (status == PTO_OK && file->state != FILE_PRESENT)
        status = PTO_ESYSTEM;
    if (status == PTO_OK)
        *out = file->digest;
    memo_unlock(memo);
    if (status == PTO_ESYSTEM)
        errno = file->error;
    return status;
}

void memo_lock(struct scan_memo *memo)
{
    pthread_mutex_lock(&memo->lock);
}

void memo_unlock(struct scan_memo *memo)
{
    pthread_mutex_unlock(&memo->lock);
}

/* ---- memory ---- */

void *memo_take(struct scan_memo *memo, size_t bytes)
{
    struct chunk *chunk = memo->chunk;

    bytes = (bytes + 15) & ~(size_t)15;
    if (chunk == NULL || chunk->size - chunk->used < bytes) {
        size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;

        chunk = malloc(sizeof(*chunk) + size);
        if (chunk == NULL)
            return NULL;
        chunk->next = memo->chunk;
        chunk->used = 0;
        chunk->size = size;
        memo->chunk = chunk;
    }

    void *at = chunk->bytes + chunk->used;

    chunk->used += bytes;
    return memset(at, 0, bytes);
}

static char *scan_memo_take_text(struct scan_memo *memo, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = memo_take(memo, size);

    return copy != NULL ? memcpy(copy, text, size) : NULL;
}

int list_push(struct list *list, void *item)
{
    if (list->count == list->room) {
        uint32_t room = list->room != 0 ? 2 * list->room : 16;
        void **grown = realloc(list->item, room * sizeof(*grown));

        if (grown == NULL)
            return PTO_ENOMEM;
        list->item = grown;
        list->room = room;
    }
    list->item[list->count++] = item;
    return PTO_OK;
}

static uint64_t hash_of(uint32_t parent, const char *name)
{
    uint64_t hash = parent + 0x9e3779b97f4a7c15ull;

    for (; *name != '\0'; name++)
        hash = (hash ^ (uint8_t)*name) * 0x100000001b3ull;
    return hash ^ hash >> 29;
}

static struct named **slot_of(const struct table *table, uint32_t parent, const char *name)
{
    uint32_t at = (uint32_t)hash_of(parent, name) & (table->size - 1);

    for (;; at = (at + 1) & (table->size - 1)) {
        struct named *item = table->slot[at];

        if (item == NULL || (item->parent == parent && strcmp(item->name, name) == 0))
            return &table->slot[at];
    }
}

static struct named *table_get(const struct table *table, uint32_t parent, const char *name)
{
    return table->size != 0 ? *slot_of(table, parent, name) : NULL;
}

/* Adds an item whose name is not in the table. */
static int table_add(struct table *table, struct named *item)
{
    if (2 * table->count >= table->size) {
        struct table grown = { .size = table->size != 0 ? 2 * table->size : TABLE_SIZE_MIN };

        grown.slot = calloc(grown.size, sizeof(struct named *));
        if (grown.slot == NULL)
            return PTO_ENOMEM;
        for (uint32_t i = 0; i < table->size; i++)
            if (table->slot[i] != NULL)
                *slot_of(&grown, table->slot[i]->parent, table->slot[i]->name) = table->slot[i];
        grown.count = table->count;
        free(table->slot);
        *table = grown;
    }
    *slot_of(table, item->parent, item->name) = item;
    table->count++;
    return PTO_OK;
}

/* ---- folders and files ---- */

static void digest_whole(struct file *file)
{
    struct digest_state state;

    digest_begin(&state);
    digest_add_text(&state, file->path);
    digest_add(&state, &file->error, sizeof(file->error)); /* `error` is 0 if the file is present */
    digest_add(&state, &file->digest, sizeof(file->digest));
    digest_end(&state, &file->whole);
}

static void set_absent(struct file *file, int error)
{
    /* Other errors (name too long, not a folder, ...) all mean that the file is absent. */
    bool is_denied = error == EACCES || error == EPERM || error == EIO || error == EFBIG;

    file->error = is_denied ? error : ENOENT;
    file->state = FILE_ABSENT;
    digest_whole(file);
}

/* Returns the folder of a path. `error` not 0: it is missing. */
static struct folder *intern_folder(struct scan_memo *memo, const char *path, int error)
{
    struct folder *folder = (struct folder *)table_get(&memo->folders, NO_PARENT, path);
    char with_slash[PATH_MAX + 1];

    if (folder != NULL)
        return folder;
    /* A missing folder is listed with a final slash, which distinguishes it from a file. */
    snprintf(with_slash, sizeof(with_slash), "%s/", path);
    folder = memo_take(memo, sizeof(*folder));
    if (folder == NULL)
        return NULL;
    folder->key = (struct named){ .parent = NO_PARENT, .name = scan_memo_take_text(memo, path) };
    folder->number = memo->folder_count++;
    if (error != 0) {
        folder->missing = memo_take(memo, sizeof(*folder->missing));
        if (folder->missing == NULL || folder->key.name == NULL)
            return NULL;
        folder->missing->number = memo->file_count++;
        folder->missing->folder = folder;
        folder->missing->path = scan_memo_take_text(memo, with_slash);
        if (folder->missing->path == NULL)
            return NULL;
        set_absent(folder->missing, error);
    }
    if (folder->key.name == NULL || table_add(&memo->folders, &folder->key) < 0)
        return NULL;
    return folder;
}

/*
 * Joins a path to a folder, into `out` of PATH_MAX bytes; an absolute path is copied. False: too
 * long.
 */
static bool scan_memo_join(const struct folder *from, const char *path, char *out)
{
    size_t length = path[0] == '/' ? 0 : strlen(from->key.name);
    size_t added = strlen(path);

    if (length + added + 2 > PATH_MAX)
        return false;
    memcpy(out, from->key.name, length);
    if (length != 0 && out[length - 1] != '/')
        out[length++] = '/';
    memcpy(out + length, path, added + 1);
    return true;
}

int memo_folder(struct scan_memo *memo, struct folder *from, const char *path,
                struct folder **folder_out)
{
    struct spelling *spelling;
    char spelled[PATH_MAX], real[PATH_MAX];
    struct stat about;

    assert_held(&memo->lock);
    if (path[0] == '\0' || (from->missing != NULL && path[0] != '/')) {
        *folder_out = from;
        return PTO_OK;
    }
    spelling = (struct spelling *)table_get(&memo->spellings, from->number, path);
    if (spelling == NULL) {
        spelling = memo_take(memo, sizeof(*spelling));
        if (spelling == NULL)
            return PTO_ENOMEM;
        spelling->key =
            (struct named){ .parent = from->number, .name = scan_memo_take_text(memo, path) };
        if (!scan_memo_join(from, path, spelled))
            spelling->folder = intern_folder(memo, path, ENAMETOOLONG);
        else if (realpath(spelled, real) == NULL || stat(real, &about) != 0)
            spelling->folder = intern_folder(memo, spelled, errno);
        else
            spelling->folder = intern_folder(memo, real, S_ISDIR(about.st_mode) ? 0 : ENOTDIR);
        if (spelling->key.name == NULL || spelling->folder == NULL ||
            table_add(&memo->spellings, &spelling->key) < 0)
            return PTO_ENOMEM;
    }
    *folder_out = spelling->folder;
    return PTO_OK;
}

static struct file *intern_file(struct scan_memo *memo, struct folder *folder, const char *name)
{
    struct file *file = (struct file *)table_get(&memo->files, folder->number, name);
    char path[PATH_MAX];

    if (file != NULL)
        return file;
    file = memo_take(memo, sizeof(*file));
    if (file == NULL)
        return NULL;
    file->key = (struct named){ .parent = folder->number, .name = scan_memo_take_text(memo, name) };
    file->folder = folder;
    file->number = memo->file_count++;
    if (scan_memo_join(folder, name, path)) {
        file->path = scan_memo_take_text(memo, path);
    } else {
        file->path = file->key.name;
        set_absent(file, ENAMETOOLONG);
    }
    if (file->path == NULL || file->key.name == NULL || table_add(&memo->files, &file->key) < 0)
        return NULL;
    return file;
}

int memo_find(struct scan_memo *memo, struct folder *from, const char *path, struct file **file_out)
{
    const char *slash = strrchr(path, '/');
    struct folder *folder = from;

    assert_held(&memo->lock);
    if (slash != NULL) {
        size_t length = slash == path ? 1 : (size_t)(slash - path);
        char *above = strndup(path, length);
        int status;

        if (above == NULL)
            return PTO_ENOMEM;
        status = memo_folder(memo, from, above, &folder);
        free(above);
        if (status < 0)
            return status;
    }
    if (folder->missing != NULL)
        *file_out = folder->missing;
    else
        *file_out = intern_file(memo, folder, slash != NULL ? slash + 1 : path);
    return *file_out != NULL ? PTO_OK : PTO_ENOMEM;
}

int memo_file(struct scan_memo *memo, const char *path, struct file **file_out)
{
    return memo_find(memo, memo->current, path, file_out);
}

/* ---- reading ---- */

/* Results of the lexer, collected without the lock. */
struct gathered {
    struct list operands; /* pointers to struct operand, each followed by its name */
    struct list opens;    /* pointers to struct scan_open, each followed by its text */
    bool has_failed;
};

static void gather_operand(void *context, const char *text, bool is_angled, bool is_next)
{
    struct gathered *g = context;
    size_t size = strlen(text) + 1;
    struct operand *operand = malloc(sizeof(*operand) + size);

    if (operand == NULL || list_push(&g->operands, operand) < 0) {
        free(operand);
        g->has_failed = true;
        return;
    }
    operand->name = memcpy(operand + 1, text, size);
    operand->is_angled = is_angled;
    operand->is_next = is_next;
}

static void gather_open(void *context, enum scan_open_kind kind, uint32_t line, const char *text)
{
    struct gathered *g = context;
    size_t size = strlen(text) + 1;
    struct scan_open *open;

    if (g->opens.count >= OPENS_MAX)
        return;
    open = malloc(sizeof(*open) + size);
    if (open == NULL || list_push(&g->opens, open) < 0) {
        free(open);
        g->has_failed = true;
        return;
    }
    *open = (struct scan_open){ .kind = kind, .line = line };
    open->text = memcpy(open + 1, text, size);
}

static void gathered_free(struct gathered *g)
{
    for (uint32_t i = 0; i < g->operands.count; i++)
        free(g->operands.item[i]);
    for (uint32_t i = 0; i < g->opens.count; i++)
        free(g->opens.item[i]);
    free(g->operands.item);
    free(g->opens.item);
}

static int keep_gathered(struct scan_memo *memo, struct file *file, const struct gathered *g)
{
    struct operand *operand = memo_take(memo, g->operands.count * sizeof(*operand));
    struct scan_open *open = memo_take(memo, g->opens.count * sizeof(*open));

    if (operand == NULL || open == NULL)
        return PTO_ENOMEM;
    for (uint32_t i = 0; i < g->operands.count; i++) {
        operand[i] = *(struct operand *)g->operands.item[i];
        operand[i].name = scan_memo_take_text(memo, operand[i].name);
        if (operand[i].name == NULL)
            return PTO_ENOMEM;
    }
    for (uint32_t i = 0; i < g->opens.count; i++) {
        open[i] = *(struct scan_open *)g->opens.item[i];
        open[i].text = scan_memo_take_text(memo, open[i].text);
        if (open[i].text == NULL)
            return PTO_ENOMEM;
    }
    file->operand = operand;
    file->operand_count = g->operands.count;
    file->open = open;
    file->open_count = g->opens.count;
    return PTO_OK;
}

/*
 * Reads and lexes a file. Called without the lock, so it only accesses data that belongs to the
 * thread that loads the file.
 */
static int scan_memo_read_file(struct file *file, struct gathered *g)
{
    struct lexer_sink sink = { .operand = gather_operand, .open = gather_open, .context = g };
    char *bytes;
    size_t size;
    int status = file_read(file->path, FILE_BYTES_MAX, &bytes, &size);

    if (status == PTO_ENOMEM)
        return status;
    if (status < 0) {
        file->error = errno;
        return PTO_OK;
    }
    digest_of(bytes, size, &file->digest);
    if (!lexer_run(bytes, size, &sink) || g->has_failed)
        status = PTO_ENOMEM;
    free(bytes);
    return status;
}

int memo_load(struct scan_memo *memo, struct file *file)
{
    struct gathered g = { 0 };
    int status;

    assert_held(&memo->lock);
    while (file->state == FILE_LOADING)
        pthread_cond_wait(&memo->loaded, &memo->lock);
    if (file->state != FILE_UNREAD)
        return PTO_OK;
    file->state = FILE_LOADING;
    memo_unlock(memo);
    status = scan_memo_read_file(file, &g);
    memo_lock(memo);
    if (status == PTO_OK && file->error == 0)
        status = keep_gathered(memo, file, &g);
    gathered_free(&g);
    if (status < 0) {
        file->state = FILE_UNREAD;
    } else if (file->error != 0) {
        set_absent(file, file->error);
    } else {
        file->state = FILE_PRESENT;
        digest_whole(file);
    }
    pthread_cond_broadcast(&memo->loaded);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes entries and names. Each is one file, in this format:
 *
 *     head     sizes, the key, a digest of all the rest and the store's secret
 *     bytes    of an entry, or the text of a name
 *     manifest
 *
 * The key is in the head, so a file that was renamed or moved counts as damaged.
 */
#include "toolchain/store.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "host/host.h"
#include "toolchain/store_files.h"

#define STORE_MAX_DEFAULT (2ull << 30)
#define FILE_MAX ((size_t)1 << 32)

enum {
    TOUCH_SECONDS = 60, /* seconds since the last recorded use after which a new use is recorded */
    /*
     * attempts to write a file: another process may clear the store and remove the folder at any
     * time
     */
    PUT_ATTEMPTS = 16,
    PRUNE_PARTS = 16 /* fraction of the limit that may be written before the size is checked */
};

struct head {
    char magic[8];
    uint64_t size;
    uint64_t manifest_size; /* bytes without the final zero */
    uint64_t zero;
    struct digest key;
    /* SHA-256 of the other fields, the data after them and the store's secret. */
    struct digest check;
};

static_assert(sizeof(struct head) % 16 == 0, "bytes are aligned");
static_assert((int)STORE_FOLDER_MAX + 128 <= (int)STORE_PATH_MAX, "a path in the folder must fit");

static const char magic[8] = "PTOSTO2";
/* Magic of an older format without a secret: such files are replaced, not used. */
static const char magic_before[8] = "PTOSTO1";
static const char tag[] = "Signature: 8a477f597d28d172789f06886806bc55\n"
                          "# This folder is made by pto; `pto cache clear` empties it.\n";

static bool store_make_path(const struct store *store, enum store_kind kind,
                            const struct digest *key, char path[STORE_PATH_MAX]);
static int get_file(struct store *store, enum store_kind kind, const struct digest *key,
                    struct store_entry *entry_out);
static int store_put_file(struct store *store, enum store_kind kind, const struct digest *key,
                          const struct store_entry *entry, struct pto_error *error);
static void add_note(struct store *store, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

int store_open(const char *folder, struct store **store_out, struct pto_error *error)
{
    struct store *store = calloc(1, sizeof(*store));
    int status;

    if (store == NULL)
        return error_setf(error, PTO_ENOMEM, "no memory for the store");
    status = store_init(store, folder, error);
    if (status < 0) {
        free(store);
        return status;
    }
    pthread_mutex_init(&store->lock, NULL);
    if (store->folder[0] == '\0')
        add_note(store,
                 "nothing is stored: there is no folder for the store; set PTO_STORE or HOME "
                 "to an absolute path");
    *store_out = store;
    return PTO_OK;
}

void store_close(struct store *store)
{
    if (store == NULL)
        return;
    if (store->has_put)
        store_prune(store);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

const char *store_folder(const struct store *store)
{
    return store->folder;
}

int store_get(struct store *store, const struct digest *key, struct store_entry *entry_out)
{
    return get_file(store, STORE_ENTRIES, key, entry_out);
}

void store_entry_free(struct store_entry *entry)
{
    free(entry->block);
    *entry = (struct store_entry){ 0 };
}

int store_put(struct store *store, const struct digest *key, const void *bytes, size_t size,
              const char *manifest, struct pto_error *error)
{
    struct store_entry entry = { .bytes = bytes, .size = size, .manifest = manifest };

    return store_put_file(store, STORE_ENTRIES, key, &entry, error);
}

int store_name_get(struct store *store, const struct digest *name, char **text_out)
{
    struct store_entry entry;
    int status = get_file(store, STORE_NAMES, name, &entry);

    if (status != PTO_OK)
        return status;
    *text_out = strdup(entry.manifest);
    store_entry_free(&entry);
    return *text_out != NULL ? PTO_OK : PTO_ENOMEM;
}

int store_name_put(struct store *store, const struct digest *name, const char *text,
                   struct pto_error *error)
{
    struct store_entry entry = { .bytes = "", .manifest = text };
    char *old;

    if (store_name_get(store, name, &old) == PTO_OK) {
        bool is_same = strcmp(old, text) == 0;

        free(old);
        if (is_same)
            return PTO_OK;
    }
    return store_put_file(store, STORE_NAMES, name, &entry, error);
}

bool store_take_note(struct store *store, char text[STORE_NOTE_MAX])
{
    bool has_note;

    pthread_mutex_lock(&store->lock);
    has_note = store->note_count != 0;
    if (has_note) {
        memcpy(text, store->note[0], STORE_NOTE_MAX);
        store->note_count--;
        memmove(store->note[0], store->note[1], store->note_count * sizeof(store->note[0]));
    }
    pthread_mutex_unlock(&store->lock);
    return has_note;
}

/* ---- folder and size ---- */

static bool parse_size(const char *text, uint64_t *bytes_out)
{
    char *rest;
    uint64_t value;
    unsigned shift = 0;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    value = strtoull(text, &rest, 10);
    if (*rest == 'K' || *rest == 'M' || *rest == 'G') {
        shift = *rest == 'K' ? 10 : *rest == 'M' ? 20 : 30;
        rest++;
    }
    if (errno != 0 || *rest != '\0' || value == 0 || value > UINT64_MAX >> shift)
        return false;
    *bytes_out = value << shift;
    return true;
}

/* Makes relative folders absolute, because the process may change its current folder. */
static bool set_folder(struct store *store, const char *folder, const char *below)
{
    char current[STORE_FOLDER_MAX] = "";
    int length;

    if (folder[0] != '/' && getcwd(current, sizeof(current)) == NULL)
        return false;
    length = snprintf(store->folder, sizeof(store->folder), "%s%s%s%s", current,
                      current[0] != '\0' ? "/" : "", folder, below);
    if (length >= (int)sizeof(store->folder)) {
        store->folder[0] = '\0';
        return false;
    }
    while (length > 1 && store->folder[length - 1] == '/')
        store->folder[--length] = '\0';
    return true;
}

int store_init(struct store *store, const char *folder, struct pto_error *error)
{
    const char *chosen = getenv("PTO_STORE");
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    const char *max = getenv("PTO_STORE_MAX");

    store->max_bytes = STORE_MAX_DEFAULT;
    if (max != NULL && max[0] != '\0' && !parse_size(max, &store->max_bytes))
        return error_setf(error, PTO_EINVAL,
                          "PTO_STORE_MAX is '%s'; it is a number of bytes, which K, M or G may "
                          "follow",
                          max);
    if (folder == NULL && chosen != NULL && chosen[0] != '\0')
        folder = chosen;
    if (folder != NULL) {
        if (folder[0] == '\0' || !set_folder(store, folder, ""))
            return error_setf(error, PTO_EINVAL, "'%.100s' cannot be the folder of a store",
                              folder);
    } else if (cache != NULL && cache[0] == '/') { /* the standard ignores relative paths */
        (void)set_folder(store, cache, "/pto");
    } else if (home != NULL && home[0] == '/') {
        (void)set_folder(store, home, "/.cache/pto");
    }
    return PTO_OK;
}

static bool store_make_path(const struct store *store, enum store_kind kind,
                            const struct digest *key, char path[STORE_PATH_MAX])
{
    char hex[DIGEST_HEX];

    if (store->folder[0] == '\0')
        return false;
    digest_to_hex(key, hex);
    snprintf(path, STORE_PATH_MAX, "%s/%s/%.2s/%s", store->folder,
             kind == STORE_ENTRIES ? "entries" : "names", hex, hex + 2);
    return true;
}

/* ---- notes ---- */

static void add_note(struct store *store, const char *format, ...)
{
    va_list args;

    pthread_mutex_lock(&store->lock);
    if (store->note_count < STORE_NOTES) {
        va_start(args, format);
        vsnprintf(store->note[store->note_count++], STORE_NOTE_MAX, format, args);
        va_end(args);
    }
    pthread_mutex_unlock(&store->lock);
}

/* Notes a failure, once for each kind. */
static int note_failure(struct store *store, int number, struct pto_error *error)
{
    bool is_denied = number == EROFS || number == EACCES || number == EPERM || number == ENOTDIR;
    bool is_full = number == ENOSPC || number == EDQUOT;
    uint32_t bit = is_denied ? 1 : is_full ? 2 : 4;
    char text[STORE_NOTE_MAX];
    bool is_new;

    snprintf(
        text, sizeof(text),
        is_denied
            ? "nothing is stored: %.300s cannot be written: %s; set PTO_STORE to another folder"
        : is_full ? "not everything is stored: no room in %.300s: %s; `pto cache clear` frees "
                    "some, or set PTO_STORE to another folder"
                  : "not everything is stored: %.300s: %s",
        store->folder, strerror(number));
    pthread_mutex_lock(&store->lock);
    is_new = (store->failures_noted & bit) == 0;
    store->failures_noted |= bit;
    store->is_denied |= is_denied;
    pthread_mutex_unlock(&store->lock);
    if (is_new)
        add_note(store, "%s", text);
    return error_setf(error, PTO_ESYSTEM, "%s", text);
}

/* ---- reading ---- */

static void digest_file(const struct store *store, const struct head *head,
                        const struct store_entry *entry, struct digest *out)
{
    struct head blank = *head;
    const struct digest_part parts[] = { { &blank, sizeof(blank) },
                                         { entry->bytes, entry->size },
                                         { entry->manifest, strlen(entry->manifest) } };

    memset(&blank.check, 0, sizeof(blank.check));
    digest_with_key(&store->secret, parts, sizeof(parts) / sizeof(parts[0]), out);
}

int store_parse(const struct store *store, const char *block, size_t size, const struct digest *key,
                struct store_entry *entry_out)
{
    struct store_entry entry;
    struct head head;
    struct digest check;

    if (size < sizeof(head))
        return PTO_EINVAL;
    memcpy(&head, block, sizeof(head));
    size -= sizeof(head);
    if (memcmp(head.magic, magic, sizeof(magic)) != 0 || head.zero != 0 ||
        !digest_is_equal(&head.key, key) || head.size > size ||
        head.manifest_size != size - head.size)
        return PTO_EINVAL;
    entry = (struct store_entry){ .bytes = block + sizeof(head),
                                  .size = head.size,
                                  .manifest = block + sizeof(head) + head.size };
    if (strlen(entry.manifest) != head.manifest_size)
        return PTO_EINVAL;
    digest_file(store, &head, &entry, &check);
    if (!digest_is_equal(&check, &head.check)) /* mutation: unchecked-entry */
        return PTO_EINVAL;
    *entry_out = entry;
    return PTO_OK;
}

int store_read(const struct store *store, const char *path, const struct digest *key,
               struct store_entry *entry_out)
{
    struct stat about;
    char *block;
    size_t size;
    int status;

    if (lstat(path, &about) != 0)
        return STORE_ABSENT;
    if (!store_is_own(&about) || S_ISLNK(about.st_mode))
        return PTO_EINVAL;
    status = file_read(path, FILE_MAX, &block, &size);
    if (status == PTO_ENOMEM)
        return status;
    if (status < 0)
        return errno == EINVAL || errno == EFBIG ? PTO_EINVAL : STORE_ABSENT;
    status = store_parse(store, block, size, key, entry_out);
    if (status != PTO_OK && size >= sizeof(magic_before) &&
        memcmp(block, magic_before, sizeof(magic_before)) == 0)
        status = STORE_ABSENT;
    if (status == PTO_OK)
        entry_out->block = block;
    else
        free(block);
    return status;
}

/*
 * Records that a file was used, so that the least recently used files are evicted first. A failure
 * is ignored.
 */
static void note_use(const char *path)
{
    struct stat about;

    if (stat(path, &about) == 0 && about.st_mtime < time(NULL) - TOUCH_SECONDS)
        (void)utimensat(AT_FDCWD, path, NULL, 0);
}

/* Calls store_check. A refusal is put into a note once, and prevents further writes. */
static int check_owner(struct store *store, bool is_made)
{
    bool is_new;
    int status, number;

    pthread_mutex_lock(&store->lock);
    status = store_check(store, is_made);
    number = errno;
    is_new = status == PTO_EINVAL && !store->is_denied;
    store->is_denied |= status == PTO_EINVAL;
    pthread_mutex_unlock(&store->lock);
    if (is_new)
        add_note(store, "%s", store->refusal);
    errno = number;
    return status;
}

static int get_file(struct store *store, enum store_kind kind, const struct digest *key,
                    struct store_entry *entry_out)
{
    char path[STORE_PATH_MAX];
    struct stat about;
    bool is_own;
    int status;

    if (!store_make_path(store, kind, key, path) || check_owner(store, false) != PTO_OK)
        return STORE_ABSENT;
    status = store_read(store, path, key, entry_out);
    if (status == PTO_OK)
        note_use(path);
    if (status != PTO_EINVAL)
        return status;
    is_own = lstat(path, &about) != 0 || store_is_own(&about);
    if (unlink(path) == 0 || errno == ENOENT)
        add_note(store, "%.300s %s: it is removed and created again", path,
                 is_own ? "was damaged" : "is another user's, or open to others");
    else
        add_note(store, "%.300s is damaged and is not used; it cannot be removed: %s", path,
                 strerror(errno));
    return STORE_ABSENT;
}

/* ---- writing ---- */

/* Makes the whole file in one block; NULL: no memory. */
static char *compose(const struct store *store, const struct digest *key,
                     const struct store_entry *entry, size_t *size_out)
{
    struct head head = { .size = entry->size, .manifest_size = strlen(entry->manifest) };
    size_t size = sizeof(head) + head.size + head.manifest_size;
    char *block = malloc(size);

    if (block == NULL)
        return NULL;
    memcpy(head.magic, magic, sizeof(magic));
    head.key = *key;
    digest_file(store, &head, entry, &head.check);
    memcpy(block, &head, sizeof(head));
    if (head.size != 0)
        memcpy(block + sizeof(head), entry->bytes, head.size);
    memcpy(block + sizeof(head) + head.size, entry->manifest, head.manifest_size);
    *size_out = size;
    return block;
}

/* Writes CACHEDIR.TAG, which by convention makes backup tools skip a folder. */
static void write_tag(const struct store *store)
{
    char path[STORE_PATH_MAX];

    snprintf(path, sizeof(path), "%s/CACHEDIR.TAG", store->folder);
    if (access(path, F_OK) != 0)
        (void)file_write(path, tag, sizeof(tag) - 1);
}

/* Writes a file, creating folders that turn out to be missing. */
static int write_file(const struct store *store, char *path, const char *block, size_t size)
{
    int status = PTO_ESYSTEM;

    for (int attempt = 0; attempt < PUT_ATTEMPTS; attempt++) {
        char *slash = strrchr(path, '/');

        status = file_write_private(path, block, size);
        if (status == PTO_OK || errno != ENOENT)
            break;
        *slash = '\0';
        status = file_make_folder(path);
        *slash = '/';
        if (status < 0 && errno != ENOENT)
            break;
        write_tag(store);
        errno = ENOENT;
        status = PTO_ESYSTEM;
    }
    return status;
}

static void count_put(struct store *store, size_t size)
{
    bool is_due;

    pthread_mutex_lock(&store->lock);
    store->has_put = true;
    store->put_bytes += size;
    is_due = store->put_bytes > store->max_bytes / PRUNE_PARTS;
    if (is_due)
        store->put_bytes = 0;
    pthread_mutex_unlock(&store->lock);
    if (is_due)
        store_prune(store);
}

/* Creates the folder and the secret, if they do not exist. PTO_OK, or a status with errno set. */
static int store_prepare(struct store *store)
{
    int status = check_owner(store, true);

    if (status != STORE_ABSENT)
        return status;
    status = file_make_folder(store->folder);
    if (status < 0)
        return status;
    status = check_owner(store, true);
    if (status == STORE_ABSENT) /* a file that is not a folder has this name */
        errno = ENOTDIR;
    return status;
}

bool store_is_usable(struct store *store)
{
    return store->folder[0] != '\0' && store_prepare(store) == PTO_OK;
}

static int store_put_file(struct store *store, enum store_kind kind, const struct digest *key,
                          const struct store_entry *entry, struct pto_error *error)
{
    char path[STORE_PATH_MAX];
    char *block;
    size_t size;
    bool is_denied;
    int status;

    pthread_mutex_lock(&store->lock);
    is_denied = store->is_denied;
    pthread_mutex_unlock(&store->lock);
    if (is_denied || !store_make_path(store, kind, key, path))
        return error_setf(error, PTO_ESYSTEM, "the store cannot be written");
    status = store_prepare(store);
    if (status == PTO_EINVAL)
        return error_setf(error, PTO_ESYSTEM, "%s", store->refusal);
    if (status != PTO_OK)
        return note_failure(store, errno, error);
    block = compose(store, key, entry, &size);
    if (block == NULL)
        return error_setf(error, PTO_ENOMEM, "no memory for an entry of the store");
    if (size > store->max_bytes) {
        free(block);
        return note_failure(store, EFBIG, error);
    }
    status = write_file(store, path, block, size);
    free(block);
    if (status < 0)
        return note_failure(store, errno, error);
    count_put(store, size);
    return PTO_OK;
}

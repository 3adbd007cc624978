/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans sources. The memo keeps two kinds of data. A file has its bytes and the operands of its
 * directives, which are equal for all compilations. A view has the files to which these operands
 * resolve, which depend on the search order. Sources with the same search order share views, so the
 * scan of a second source mostly follows pointers.
 *
 * One lock protects the memo. It is released while a file is read and lexed. The file is marked as
 * being loaded in the meantime, and other threads that need the file wait.
 */
#include "toolchain/scan.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/lock.h"
#include "host/host.h"
#include "toolchain/scan_memo.h"

struct scan {
    struct scan_memo *memo;
    struct config *config;
    struct list views; /* list of struct view *: one for each file of the scan, the source first */
    struct list extra; /* list of struct file *: files found for `forced` and `roots` */
    struct list opens; /* list of struct scan_open * */
    uint8_t *seen;     /* bit k is set if the file with number k is part of the scan */
    uint32_t seen_count;
    struct digest digest;
    struct scan_entry *entry;
    struct file **entry_file;
    uint32_t entry_count;
};

static int start_scan(struct scan *scan, const struct scan_params *params, struct pto_error *error);
static int add_start(struct scan *scan, const char *path, struct pto_error *error);
static int add_root(struct scan *scan, const char *path);
static int add_forced(struct scan *scan, const char *name);
static int add_implicit(struct scan *scan);
static int scan_follow(struct scan *scan);
static int probe_roots(struct scan *scan, const struct scan_params *params);
static int finish(struct scan *scan);
static bool make_entries(struct scan *scan);

int scan_files(struct scan_memo *memo, const struct scan_params *params, struct scan **scan_out,
               struct pto_error *error)
{
    struct scan *scan = calloc(1, sizeof(*scan));
    int status;

    if (scan == NULL)
        return error_setf(error, PTO_ENOMEM, "no memory to scan %s", params->source);
    scan->memo = memo;
    memo_lock(memo);
    memo->scanner_count++;
    status = start_scan(scan, params, error);
    if (status == PTO_OK)
        status = scan_follow(scan);
    if (status == PTO_OK)
        status = probe_roots(scan, params);
    if (status == PTO_OK)
        status = finish(scan);
    memo->scanner_count--;
    memo_unlock(memo);
    if (status == PTO_ENOMEM)
        error_setf(error, status, "no memory to scan %s", params->source);
    if (status == PTO_ENOSUP)
        error_setf(error, status, "a file that %s includes is larger than 256 MiB", params->source);
    if (status < 0) {
        scan_destroy(scan);
        return status;
    }
    *scan_out = scan;
    return PTO_OK;
}

void scan_destroy(struct scan *scan)
{
    if (scan == NULL)
        return;
    for (uint32_t i = 0; i < scan->opens.count; i++)
        free(scan->opens.item[i]);
    free(scan->views.item);
    free(scan->extra.item);
    free(scan->opens.item);
    free(scan->seen);
    free(scan->entry);
    free(scan->entry_file);
    free(scan);
}

void scan_digest(const struct scan *scan, struct digest *out)
{
    *out = scan->digest;
}

uint32_t scan_entry_count(struct scan *scan)
{
    return make_entries(scan) ? scan->entry_count : 0;
}

const struct scan_entry *scan_entry_at(struct scan *scan, uint32_t index)
{
    return index < scan_entry_count(scan) ? &scan->entry[index] : NULL;
}

const struct scan_entry *scan_find(struct scan *scan, const char *path)
{
    uint32_t count = scan_entry_count(scan);
    struct file *file;
    struct stat about, other;

    memo_lock(scan->memo);
    if (memo_file(scan->memo, path, &file) != PTO_OK)
        file = NULL;
    memo_unlock(scan->memo);
    for (uint32_t i = 0; i < count; i++)
        if (scan->entry_file[i] == file)
            return &scan->entry[i];
    if (stat(path, &about) != 0)
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        if (scan->entry[i].is_present && stat(scan->entry[i].path, &other) == 0 &&
            other.st_dev == about.st_dev && other.st_ino == about.st_ino)
            return &scan->entry[i];
    return NULL;
}

uint32_t scan_open_count(const struct scan *scan)
{
    return scan->opens.count;
}

const struct scan_open *scan_open_at(const struct scan *scan, uint32_t index)
{
    return index < scan->opens.count ? scan->opens.item[index] : NULL;
}

const char *scan_open_name(enum scan_open_kind kind)
{
    switch (kind) {
    case SCAN_OPEN_INCLUDE:
        return "computed #include";
    case SCAN_OPEN_HAS_INCLUDE:
        return "computed __has_include";
    case SCAN_OPEN_EMBED:
        return "#embed";
    default:
        return "file for the assembler";
    }
}

/* ---- one scan, while the memo is locked ---- */

/*
 * Marks the file as part of the scan. Returns 1 if it was not yet, 0 if it was; negative: out of
 * memory.
 */
static int note_file(struct scan *scan, const struct file *file)
{
    assert_held(&scan->memo->lock);
    if (file->number >= scan->seen_count) {
        uint32_t count = (file->number + 1024) * 2 & ~7u;
        uint8_t *grown = realloc(scan->seen, count / 8);

        if (grown == NULL)
            return PTO_ENOMEM;
        memset(grown + scan->seen_count / 8, 0, (count - scan->seen_count) / 8);
        scan->seen = grown;
        scan->seen_count = count;
    }

    uint8_t bit = (uint8_t)(1u << (file->number & 7));
    bool is_new = (scan->seen[file->number / 8] & bit) == 0;

    scan->seen[file->number / 8] |= bit;
    return is_new;
}

/* Adds the file to the files that the scan visits, unless it was added before or cannot be read. */
static int add_file(struct scan *scan, struct file *file)
{
    struct view *view;
    int is_new = note_file(scan, file);

    if (is_new <= 0)
        return is_new;
    view = memo_view(scan->memo, scan->config, file);
    if (view == NULL)
        return PTO_ENOMEM;
    if (view_content(view)->state != FILE_PRESENT)
        return PTO_OK;
    return list_push(&scan->views, view);
}

static int start_scan(struct scan *scan, const struct scan_params *params, struct pto_error *error)
{
    int status = memo_config(scan->memo, params, &scan->config);

    if (status == PTO_OK)
        status = add_start(scan, params->source, error);
    for (uint32_t i = 0; status == PTO_OK && i < params->root_count; i++)
        status = add_root(scan, params->roots[i]);
    for (uint32_t i = 0; status == PTO_OK && i < params->forced_count; i++)
        status = add_forced(scan, params->forced[i]);
    return status == PTO_OK ? add_implicit(scan) : status;
}

static int add_start(struct scan *scan, const char *path, struct pto_error *error)
{
    struct file *file;
    struct view *view;
    int status = memo_file(scan->memo, path, &file);

    if (status < 0)
        return status;
    view = memo_view(scan->memo, scan->config, file);
    if (view == NULL)
        return PTO_ENOMEM;
    status = memo_load(scan->memo, view_content(view));
    if (status < 0)
        return status;
    if (view_content(view)->state != FILE_PRESENT)
        return error_setf(error, PTO_ESYSTEM, "%s cannot be read: %s", path,
                          strerror(view_content(view)->error));
    return add_file(scan, file);
}

/* Adds an additional start file. If it is missing, the scan gets an entry that says so. */
static int add_root(struct scan *scan, const char *path)
{
    struct file *file;
    int status = memo_file(scan->memo, path, &file);

    if (status == PTO_OK)
        status = memo_load(scan->memo, config_content(scan->config, file));
    if (status == PTO_OK)
        status = list_push(&scan->extra, file);
    return status == PTO_OK ? add_file(scan, file) : status;
}

/* Resolves an operand from a folder and adds the files found. */
static int add_operand(struct scan *scan, struct folder *folder, const struct operand *operand)
{
    uint32_t before = scan->extra.count;
    int status = memo_resolve(scan->memo, scan->config, folder, operand, &scan->extra);

    for (uint32_t i = before; status == PTO_OK && i < scan->extra.count; i++)
        status = add_file(scan, scan->extra.item[i]);
    return status;
}

/*
 * Adds a forced header. It is searched as if the first line of a file in the current folder
 * included it.
 */
static int add_forced(struct scan *scan, const char *name)
{
    return add_operand(scan, scan->memo->current, &(struct operand){ .name = name });
}

/*
 * Adds the header stdc-predef.h of the C library, which compilers for Linux include before every
 * source.
 */
static int add_implicit(struct scan *scan)
{
    return add_operand(scan, scan->memo->current,
                       &(struct operand){ .name = "stdc-predef.h", .is_angled = true });
}

/*
 * Visits files breadth first, so that the order of entries depends only on contents and parameters,
 * not on what the memo already has.
 */
static int scan_follow(struct scan *scan)
{
    for (uint32_t i = 0; i < scan->views.count; i++) {
        struct view *view = scan->views.item[i];
        int status = memo_complete(scan->memo, scan->config, view);

        for (uint32_t e = 0; status == PTO_OK && e < view->edge_count; e++)
            status = add_file(scan, view->edge[e]);
        if (status < 0)
            return status;
    }
    return PTO_OK;
}

/*
 * Returns the part of a path after a folder, by comparing the spelling; NULL: the path is not below
 * the folder.
 */
static const char *rest_below(const char *path, const char *folder)
{
    size_t length = strlen(folder);

    while (length > 1 && folder[length - 1] == '/')
        length--;
    if (length == 0 || strncmp(path, folder, length) != 0 || path[length] != '/')
        return NULL;
    path += length;
    return path + strspn(path, "/");
}

/*
 * Adds all paths at which the name in a computed #include could be found instead, so that a header
 * that appears there changes the digest.
 */
static int probe_name(struct scan *scan, const char *name)
{
    int status = PTO_OK;

    for (uint32_t i = 0; status == PTO_OK && i < scan->views.count; i++) {
        const struct view *view = scan->views.item[i];
        const struct file *content = view_content(view);
        bool is_computed = false;

        for (uint32_t k = 0; k < content->open_count; k++)
            is_computed |= content->open[k].kind == SCAN_OPEN_INCLUDE;
        for (int is_angled = 0; is_computed && status == PTO_OK && is_angled < 2; is_angled++)
            status = add_operand(scan, view->file->folder,
                                 &(struct operand){ .name = name, .is_angled = is_angled != 0 });
    }
    return status;
}

/*
 * Adds the paths where a root could be found instead. A root is a file that a computed #include has
 * named. The compiler spells its path as a folder of the search order and the included name, so the
 * folders searched before are known: a header that appears in one of those would replace the root.
 */
static int probe_roots(struct scan *scan, const struct scan_params *params)
{
    int status = PTO_OK;

    for (uint32_t r = 0; r < params->root_count; r++) {
        for (uint32_t d = 0; d < params->quote_dir_count + params->dir_count; d++) {
            const char *folder = d < params->quote_dir_count
                                     ? params->quote_dirs[d]
                                     : params->dirs[d - params->quote_dir_count];
            const char *name = rest_below(params->roots[r], folder);

            if (name != NULL && name[0] != '\0')
                status = probe_name(scan, name);
            if (status == PTO_OK)
                status = scan_follow(scan);
            if (status < 0)
                return status;
        }
    }
    return PTO_OK;
}

static int add_opens(struct scan *scan, const struct view *view)
{
    const struct file *content = view_content(view);

    for (uint32_t i = 0; i < content->open_count; i++) {
        struct scan_open *open = malloc(sizeof(*open));

        if (open == NULL)
            return PTO_ENOMEM;
        *open = content->open[i];
        open->path = view->file->path;
        if (list_push(&scan->opens, open) < 0) {
            free(open);
            return PTO_ENOMEM;
        }
    }
    return PTO_OK;
}

static int finish(struct scan *scan)
{
    struct digest_state state;
    struct digest one;

    digest_begin(&state);
    for (uint32_t i = 0; i < scan->extra.count; i++) {
        config_digest_file(scan->config, scan->extra.item[i], &one);
        digest_add(&state, &one, sizeof(one));
    }
    for (uint32_t i = 0; i < scan->views.count; i++) {
        const struct view *view = scan->views.item[i];
        int status = add_opens(scan, view);

        if (status < 0)
            return status;
        digest_add(&state, &view->digest, sizeof(view->digest));
    }
    digest_end(&state, &scan->digest);
    return PTO_OK;
}

/* ---- the list of entries ---- */

static bool add_entry(struct scan *scan, uint8_t *seen, struct file *file)
{
    const struct file *content = config_content(scan->config, file);
    uint8_t bit = (uint8_t)(1u << (file->number & 7));

    assert(file->number < scan->seen_count);
    if ((seen[file->number / 8] & bit) != 0)
        return true;
    seen[file->number / 8] |= bit;
    if ((scan->entry_count & (scan->entry_count + 1)) == 0) {
        size_t room = 2 * ((size_t)scan->entry_count + 1);
        struct scan_entry *entry = realloc(scan->entry, room * sizeof(*entry));
        struct file **entry_file = realloc(scan->entry_file, room * sizeof(struct file *));

        scan->entry = entry != NULL ? entry : scan->entry;
        scan->entry_file = entry_file != NULL ? entry_file : scan->entry_file;
        if (entry == NULL || entry_file == NULL)
            return false;
    }
    scan->entry_file[scan->entry_count] = file;
    scan->entry[scan->entry_count++] = (struct scan_entry){
        .path = file->path,
        .digest = content->digest,
        .is_present = content->state == FILE_PRESENT,
    };
    return true;
}

/* Makes the list of entries. Takes no lock, because it only reads data that no longer changes. */
static bool make_entries(struct scan *scan)
{
    uint8_t *seen;
    bool is_done = true;

    if (scan->entry_count != 0)
        return true;
    seen = calloc(scan->seen_count / 8, 1);
    if (seen == NULL)
        return false;
    for (uint32_t i = 0; is_done && i < scan->views.count; i++) {
        const struct view *view = scan->views.item[i];

        is_done = add_entry(scan, seen, view->file);
        for (uint32_t e = 0; is_done && e < view->edge_count; e++)
            is_done = add_entry(scan, seen, view->edge[e]);
    }
    for (uint32_t i = 0; is_done && i < scan->extra.count; i++)
        is_done = add_entry(scan, seen, scan->extra.item[i]);
    free(seen);
    if (!is_done)
        scan->entry_count = 0;
    return is_done;
}

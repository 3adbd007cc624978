/* SPDX-License-Identifier: Apache-2.0 */
/* Search orders, and the resolution of operands in them. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "toolchain/scan_memo.h"

static bool list_is_equal(const struct list *a, const struct list *b)
{
    return a->count == b->count &&
           (a->count == 0 || memcmp(a->item, b->item, a->count * sizeof(*a->item)) == 0);
}

/*
 * Adds a folder to a search order. A repeated folder is searched only once, at its first position.
 */
static int scan_order_add_folder(struct scan_memo *memo, struct list *list, const char *path)
{
    struct folder *folder;
    int status = memo_folder(memo, memo->current, path, &folder);

    for (uint32_t i = 0; status == PTO_OK && i < list->count; i++)
        if (list->item[i] == folder)
            return PTO_OK;
    return status == PTO_OK ? list_push(list, folder) : status;
}

static int fill_config(struct scan_memo *memo, const struct scan_params *params,
                       struct config *config)
{
    int status = PTO_OK;

    for (uint32_t i = 0; status == PTO_OK && i < params->quote_dir_count; i++)
        status = scan_order_add_folder(memo, &config->quote, params->quote_dirs[i]);
    for (uint32_t i = 0; status == PTO_OK && i < params->dir_count; i++)
        status = scan_order_add_folder(memo, &config->dirs, params->dirs[i]);
    for (uint32_t i = 0; status == PTO_OK && i < params->overlay_count; i++) {
        struct file *file, *instead;

        status = memo_file(memo, params->overlays[i].path, &file);
        if (status == PTO_OK)
            status = memo_file(memo, params->overlays[i].instead, &instead);
        if (status == PTO_OK)
            status = list_push(&config->overlay, file);
        if (status == PTO_OK)
            status = list_push(&config->overlay, instead);
    }
    return status;
}

void config_free(struct config *config)
{
    if (config == NULL)
        return;
    free(config->quote.item);
    free(config->dirs.item);
    free(config->overlay.item);
    free(config->views.item);
    free(config);
}

int memo_config(struct scan_memo *memo, const struct scan_params *params,
                struct config **config_out)
{
    struct config *config = calloc(1, sizeof(*config));
    int status = config != NULL ? fill_config(memo, params, config) : PTO_ENOMEM;

    if (status < 0)
        goto fail;
    for (uint32_t i = 0; i < memo->configs.count; i++) {
        struct config *other = memo->configs.item[i];

        if (list_is_equal(&config->quote, &other->quote) &&
            list_is_equal(&config->dirs, &other->dirs) &&
            list_is_equal(&config->overlay, &other->overlay)) {
            config_free(config);
            *config_out = other;
            return PTO_OK;
        }
    }
    status = list_push(&memo->configs, config);
    if (status < 0)
        goto fail;
    *config_out = config;
    return PTO_OK;

fail:
    config_free(config);
    return status;
}

struct file *config_content(struct config *config, struct file *file)
{
    for (uint32_t i = 0; i < config->overlay.count; i += 2)
        if (config->overlay.item[i] == file)
            return config->overlay.item[i + 1];
    return file;
}

void config_digest_file(struct config *config, struct file *file, struct digest *out)
{
    const struct file *content = config_content(config, file);
    struct digest_state state;

    if (content == file) {
        *out = file->whole;
        return;
    }
    digest_begin(&state);
    digest_add_text(&state, file->path);
    digest_add(&state, &content->error, sizeof(content->error));
    digest_add(&state, &content->digest, sizeof(content->digest));
    digest_end(&state, out);
}

struct view *memo_view(struct scan_memo *memo, struct config *config, struct file *file)
{
    struct view *view;

    assert_held(&memo->lock);
    while (config->views.count <= file->number)
        if (list_push(&config->views, NULL) < 0)
            return NULL;
    view = config->views.item[file->number];
    if (view == NULL) {
        view = memo_take(memo, sizeof(*view));
        if (view == NULL)
            return NULL;
        view->file = file;
        view->instead = config_content(config, file);
        if (view->instead == file)
            view->instead = NULL;
        config->views.item[file->number] = view;
    }
    return view;
}

/*
 * Searches one folder for a file. Returns 1 if the file is there. If `found` is NULL, a file that
 * another thread is loading counts as found, because it is sufficient that some thread loads it.
 */
static int look_in(struct scan_memo *memo, struct config *config, struct folder *folder,
                   const char *name, struct list *found)
{
    struct file *file;
    int status = memo_find(memo, folder, name, &file);

    if (status == PTO_OK && found == NULL && config_content(config, file)->state == FILE_LOADING)
        return 1;
    if (status == PTO_OK)
        status = memo_load(memo, config_content(config, file));
    if (status == PTO_OK && found != NULL) /* mutation: unseen-file */
        status = list_push(found, file);
    if (status == PTO_OK && config_content(config, file)->error == EFBIG)
        /*
         * refuses the file: a compiler can read it, but the scan cannot, and would not notice its
         * changes
         */
        status = PTO_ENOSUP;
    if (status < 0)
        return status;
    return config_content(config, file)->state == FILE_PRESENT;
}

static int look_in_all(struct scan_memo *memo, struct config *config, const struct list *folders,
                       const struct operand *operand, struct list *found)
{
    for (uint32_t i = 0; i < folders->count; i++) {
        int is_there = look_in(memo, config, folders->item[i], operand->name, found);

        if (is_there < 0 || (is_there && !operand->is_next))
            return is_there;
    }
    return 0;
}

/*
 * Finds the files to which an operand can refer. For #include_next every file of that name in all
 * folders is added: where the search resumes depends on how the compiler reached the file, which it
 * may reach in several ways.
 */
int memo_resolve(struct scan_memo *memo, struct config *config, struct folder *folder,
                 const struct operand *operand, struct list *found)
{
    int is_there = 0;

    assert_held(&memo->lock);
    if (operand->name[0] == '/') {
        is_there = look_in(memo, config, folder, operand->name, found);
        return is_there < 0 ? is_there : PTO_OK;
    }
    if (!operand->is_angled)
        is_there = look_in(memo, config, folder, operand->name, found);
    if (is_there == 0 || operand->is_next) {
        if (is_there >= 0 && (!operand->is_angled || operand->is_next))
            is_there = look_in_all(memo, config, &config->quote, operand, found);
        if (is_there == 0 || (is_there > 0 && operand->is_next))
            is_there = look_in_all(memo, config, &config->dirs, operand, found);
    }
    return is_there < 0 ? is_there : PTO_OK;
}

/*
 * Stores the files that were found as the edges of the view. The caller holds the lock during the
 * whole call.
 */
static int keep_edges(struct scan_memo *memo, struct config *config, struct view *view,
                      const struct list *found)
{
    struct file **edge = memo_take(memo, found->count * sizeof(struct file *));
    uint32_t stamp = ++memo->stamp;
    struct digest_state state;
    struct digest one;

    if (edge == NULL)
        return PTO_ENOMEM;
    digest_begin(&state);
    config_digest_file(config, view->file, &one);
    digest_add(&state, &one, sizeof(one));
    for (uint32_t i = 0; i < found->count; i++) {
        struct file *file = found->item[i];

        if (file->stamp == stamp)
            continue;
        file->stamp = stamp;
        edge[view->edge_count++] = file;
        config_digest_file(config, file, &one);
        digest_add(&state, &one, sizeof(one));
    }
    digest_end(&state, &view->digest);
    view->edge = edge;
    view->is_complete = true;
    return PTO_OK;
}

int memo_complete(struct scan_memo *memo, struct config *config, struct view *view)
{
    const struct file *content = view_content(view);
    struct list found = { 0 };
    int status = PTO_OK;

    assert_held(&memo->lock);
    assert(content->state == FILE_PRESENT);
    /*
     * Loads the files before the loop below needs them. Otherwise threads that scan the same
     * headers would wait for each other at each header.
     */
    for (uint32_t i = 0; memo->scanner_count > 1 && !view->is_complete && status == PTO_OK &&
                         i < content->operand_count;
         i++)
        status = memo_resolve(memo, config, view->file->folder, &content->operand[i], NULL);
    for (uint32_t i = 0; !view->is_complete && status == PTO_OK && i < content->operand_count; i++)
        status = memo_resolve(memo, config, view->file->folder, &content->operand[i], &found);
    /* another thread may have completed the view in the meantime */
    if (status == PTO_OK && !view->is_complete)
        status = keep_edges(memo, config, view, &found);
    free(found.item);
    return status;
}

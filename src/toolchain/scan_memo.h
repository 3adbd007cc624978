/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What scans share: folders, files with their operands, and for each search
 * order what the operands lead to. Everything lives as long as the memo.
 *
 * Functions are called with the memo locked; those that read files give the
 * lock up for a while. A file that is FILE_PRESENT or FILE_ABSENT, and a view
 * that is complete, do not change any more.
 */
#ifndef PTO_SCAN_MEMO_H
#define PTO_SCAN_MEMO_H

#include <pthread.h>

#include "toolchain/scan.h"

/* Pointers in an array that grows; the owner frees `item`. */
struct list {
    void **item;
    uint32_t count;
    uint32_t room;
};

int list_push(struct list *list, void *item);

/* Found by a parent's number and a name. First member of what is found. */
struct named {
    uint32_t parent;
    const char *name;
};

struct table {
    struct named **slot;
    uint32_t count;
    uint32_t size; /* 0 or a power of two */
};

struct folder {
    struct named key; /* its path, or the spelling of one that is missing */
    uint32_t number;
    struct file *missing; /* NULL: it is there; else stands for all that would be in it */
};

struct operand {
    const char *name;
    bool is_angled;
    bool is_next;
};

enum file_state { FILE_UNREAD, FILE_LOADING, FILE_PRESENT, FILE_ABSENT };

struct file {
    struct named key; /* folder and last part of the path */
    uint32_t number;
    enum file_state state;
    struct folder *folder;
    const char *path;
    struct digest digest; /* of the content */
    struct digest whole;  /* of path, state and content */
    int error;            /* errno, if it is absent */
    struct operand *operand;
    uint32_t operand_count;
    struct scan_open *open;
    uint32_t open_count;
    uint32_t stamp; /* of memo_complete, for finding duplicates */
};

struct view {
    struct file *file;
    struct file *instead; /* an overlay, or NULL */
    struct file **edge;   /* all that is looked at for its operands, each once */
    uint32_t edge_count;
    bool is_complete;
    struct digest digest; /* of the file and its edges */
};

/* A search order. */
struct config {
    struct list quote; /* struct folder * */
    struct list dirs;
    struct list overlay; /* struct file *, in pairs: path, instead */
    struct list views;   /* by the file's number; NULL where there is none yet */
};

struct chunk;

struct scan_memo {
    pthread_mutex_t lock;
    pthread_cond_t loaded;
    struct chunk *chunk; /* memory of all that is below */
    struct table spellings;
    struct table folders;
    struct table files;
    struct list configs;
    struct folder *current; /* the folder of the process when the memo was made */
    uint32_t folder_count;
    uint32_t file_count;
    uint32_t stamp;
    uint32_t scanner_count; /* threads that are in scan_files */
};

void memo_lock(struct scan_memo *memo);
void memo_unlock(struct scan_memo *memo);

/* Zeroes that live as long as the memo. NULL: no memory. */
void *memo_take(struct scan_memo *memo, size_t bytes);
/* The folder of a path from another one, "" being that one itself. It may be missing. */
int memo_folder(struct scan_memo *memo, struct folder *from, const char *path,
                struct folder **folder_out);
/* The file of a path from a folder. A folder that is missing stands for the file. Nothing is read. */
int memo_find(struct scan_memo *memo, struct folder *from, const char *path,
              struct file **file_out);
/* The search order of the parameters; equal ones are one. */
int memo_config(struct scan_memo *memo, const struct scan_params *params,
                struct config **config_out);
/* The same from the folder in which the process was when the memo was made. */
int memo_file(struct scan_memo *memo, const char *path, struct file **file_out);
/* Reads the file unless that is done: it is present or absent afterwards. Or PTO_ENOMEM. */
int memo_load(struct scan_memo *memo, struct file *file);
/* NULL: no memory. */
struct view *memo_view(struct scan_memo *memo, struct config *config, struct file *file);
/*
 * Adds every file that is looked at for an operand in a file of this folder. They are loaded.
 * `found` NULL: they get loaded, by this thread or by others.
 */
int memo_resolve(struct scan_memo *memo, struct config *config, struct folder *folder,
                 const struct operand *operand, struct list *found);
/* Fills edges and digest of a view whose content is present. */
int memo_complete(struct scan_memo *memo, struct config *config, struct view *view);

void config_free(struct config *config);
/* The file itself, or the one whose content stands for it. */
struct file *config_content(struct config *config, struct file *file);
/* Of its path and its content, or its absence. */
void config_digest_file(struct config *config, struct file *file, struct digest *out);

static inline struct file *view_content(const struct view *view)
{
    return view->instead != NULL ? view->instead : view->file;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data that scans share: folders, files with their operands, and for each search order the files to
 * which the operands resolve. Everything lives as long as the memo.
 *
 * Functions are called with the memo locked; functions that read files release the lock while they
 * read. A file that is FILE_PRESENT or FILE_ABSENT, and a complete view, no longer change.
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

/*
 * Key of an item in a hash table: the number of a folder, and a name or path relative to that
 * folder. The first member of each kind of item.
 */
struct named {
    uint32_t parent;
    const char *name;
};

struct table {
    struct named **slot;
    uint32_t count;
    uint32_t size; /* length of `slot`: 0 or a power of two */
};

struct folder {
    struct named key; /* path of the folder, or the spelling of a missing one */
    uint32_t number;
    /* represents all files of a folder that does not exist; NULL: the folder exists */
    struct file *missing;
};

struct operand {
    const char *name;
    bool is_angled;
    bool is_next;
};

enum file_state { FILE_UNREAD, FILE_LOADING, FILE_PRESENT, FILE_ABSENT };

struct file {
    struct named key; /* folder of the file, and the last part of its path */
    uint32_t number;
    enum file_state state;
    struct folder *folder;
    const char *path;
    struct digest digest; /* digest of the content */
    struct digest whole;  /* digest of path, state and content */
    int error;            /* errno that explains why the file is absent; 0: it is present */
    struct operand *operand;
    uint32_t operand_count;
    struct scan_open *open;
    uint32_t open_count;
    uint32_t stamp; /* set by memo_complete to detect duplicates */
};

struct view {
    struct file *file;
    struct file *instead; /* file whose content replaces this one's (an overlay), or NULL */
    struct file **edge;   /* files that the operands of this file refer to, each once */
    uint32_t edge_count;
    bool is_complete;
    struct digest digest; /* digest of the file and of its edges to other files */
};

/* A search order. */
struct config {
    struct list quote; /* struct folder * */
    struct list dirs;
    struct list overlay; /* pairs of struct file *: a file and the one that replaces it */
    struct list views;   /* struct view *, by the number of the file; NULL: no view yet */
};

struct chunk;

struct scan_memo {
    pthread_mutex_t lock;
    pthread_cond_t loaded;
    struct chunk *chunk; /* memory of everything that the memo holds */
    struct table spellings;
    struct table folders;
    struct table files;
    struct list configs;
    struct folder *current; /* current folder when the memo was made */
    uint32_t folder_count;
    uint32_t file_count;
    uint32_t stamp;
    uint32_t scanner_count; /* number of threads that are inside scan_files */
};

void memo_lock(struct scan_memo *memo);
void memo_unlock(struct scan_memo *memo);

/* Allocates zeroed memory that lives as long as the memo. NULL: no memory. */
void *memo_take(struct scan_memo *memo, size_t bytes);
/*
 * Finds the folder of a path relative to another one; "" is that folder itself. The folder may be
 * missing.
 */
int memo_folder(struct scan_memo *memo, struct folder *from, const char *path,
                struct folder **folder_out);
/*
 * Finds the file of a path relative to a folder, without reading it. If the folder is missing,
 * returns the file that represents all files there.
 */
int memo_find(struct scan_memo *memo, struct folder *from, const char *path,
              struct file **file_out);
/* Finds the search order of the parameters; equal parameters share one. */
int memo_config(struct scan_memo *memo, const struct scan_params *params,
                struct config **config_out);
/* Like memo_find, from the working folder at the time the memo was made. */
int memo_file(struct scan_memo *memo, const char *path, struct file **file_out);
/* Reads the file if necessary, which then is present or absent. Returns PTO_OK or PTO_ENOMEM. */
int memo_load(struct scan_memo *memo, struct file *file);
/* Returns the view of a file in a search order. NULL: no memory. */
struct view *memo_view(struct scan_memo *memo, struct config *config, struct file *file);
/*
 * Resolves an operand (the name in an #include or a similar directive) of a file in this folder:
 * loads every file that it may refer to, and adds these files to `found`. `found` NULL: only
 * ensures that this or another thread loads them.
 */
int memo_resolve(struct scan_memo *memo, struct config *config, struct folder *folder,
                 const struct operand *operand, struct list *found);
/*
 * Finds the files for all operands of a view's file, which is present: sets the view's edges and
 * digest.
 */
int memo_complete(struct scan_memo *memo, struct config *config, struct view *view);

void config_free(struct config *config);
/* Returns the file itself, or the file whose content replaces it. */
struct file *config_content(struct config *config, struct file *file);
/* Computes the digest of the file's path and content, or absence. */
void config_digest_file(struct config *config, struct file *file, struct digest *out);

static inline struct file *view_content(const struct view *view)
{
    return view->instead != NULL ? view->instead : view->file;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads YAML into a tree whose nodes have their line and column in the text. Accepts what people
 * write by hand: mappings with unique keys, lists, scalars and comments; rejects anchors, tags and
 * several documents. One thread; the document owns its nodes and copies of the texts.
 */
#ifndef PTO_DOCUMENT_H
#define PTO_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { DOCUMENT_BYTES_MAX = 1 << 20, DOCUMENT_DEPTH_MAX = 16, DOCUMENT_KEYS_MAX = 1024 };

enum node_kind { NODE_TEXT, NODE_LIST, NODE_MAP };

struct node {
    enum node_kind kind;
    uint32_t line; /* line and column count from 1 */
    uint32_t column;
    bool is_plain;    /* text without quotes */
    uint32_t count;   /* number of items in a list or a map */
    const char *text; /* text of a NODE_TEXT */
    const char *key;  /* key of an item of a map; NULL: the item is not in a map */
    uint32_t key_line;
    uint32_t key_column;
    struct node *part; /* first item of a list or a map */
    struct node *next; /* next item of the same list or map */
};

struct document;

/* Messages begin with NAME:LINE:COLUMN, where NAME is `name`, which must outlive the document. */
int scene_document_read(const char *name, const void *text, size_t bytes,
                        struct document **document_out, struct pto_error *error);
void scene_document_free(struct document *document);

/* Makes an empty document, for readers of other formats; NULL: out of memory. */
struct document *scene_document_make(const char *name);
void scene_document_set_root(struct document *document, struct node *root);

/* Allocates zeroed memory that lives as long as the document; NULL: out of memory. */
void *scene_document_alloc(struct document *document, size_t bytes);

const struct node *scene_document_root(const struct document *document);
const char *scene_document_name(const struct document *document);

/* Returns the item with that key, or NULL. */
const struct node *scene_document_find(const struct node *map, const char *key);

/* Reports an error in a node or its key. The message begins with its line and column. */
int scene_document_refuse(const struct document *document, const struct node *at,
                          struct pto_error *error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
int scene_document_refuse_key(const struct document *document, const struct node *at,
                              struct pto_error *error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A YAML text as a tree that knows where each part stands. Of YAML it takes
 * what people write by hand: mappings with unique keys, lists, scalars and
 * comments; anchors, tags and several documents are refused. One thread; the
 * document owns its nodes and the copies of the texts.
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
    uint32_t line; /* from 1, as column is */
    uint32_t column;
    bool is_plain;    /* a text without quotes */
    uint32_t count;   /* of the parts */
    const char *text; /* of a NODE_TEXT */
    const char *key;  /* inside a map; else NULL */
    uint32_t key_line;
    uint32_t key_column;
    struct node *part; /* the first one of a list or a map */
    struct node *next; /* in the same list or map */
};

struct document;

/* `name` appears in messages as NAME:LINE:COLUMN: ... and must outlive the document. */
int scene_document_read(const char *name, const void *text, size_t bytes,
                        struct document **document_out, struct pto_error *error);
void scene_document_free(struct document *document);

/* An empty one, for a reader of something else than YAML; NULL: out of memory. */
struct document *scene_document_make(const char *name);
void scene_document_set_root(struct document *document, struct node *root);

/* Zeroed memory that lives as long as the document; NULL: out of memory. */
void *scene_document_take(struct document *document, size_t bytes);

const struct node *scene_document_root(const struct document *document);
const char *scene_document_name(const struct document *document);

/* The part with that key; NULL: there is none. */
const struct node *scene_document_find(const struct node *map, const char *key);

/* Tells what is wrong with a node, or with its key, with the place in front. */
int scene_document_refuse(const struct document *document, const struct node *at,
                          struct pto_error *error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
int scene_document_refuse_key(const struct document *document, const struct node *at,
                              struct pto_error *error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif

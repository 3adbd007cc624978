/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a tree from the events of libyaml. */
#include "tool/scene/document.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "pto/pto.h"

/* One allocation of a document; `before` points to the previous one. */
struct chunk {
    struct chunk *before;
    max_align_t bytes[];
};

struct document {
    const char *name;
    struct chunk *chunk;
    struct node *root;
};

/* An open list or map, to which the next parsed node is added. */
struct level {
    struct node *node; /* NULL: the document itself */
    struct node *last;
    const char *key; /* key of the next value, in a map */
    yaml_mark_t key_mark;
};

struct reader {
    struct document *document;
    struct pto_error *error;
    const char *text;
    size_t bytes;
    uint32_t depth;
    struct level level[DOCUMENT_DEPTH_MAX + 1];
};

static int read_events(struct reader *r, yaml_parser_t *parser);
static int handle_event(struct reader *r, const yaml_event_t *event);

int scene_document_read(const char *name, const void *text, size_t bytes,
                        struct document **document_out, struct pto_error *error)
{
    struct document *document = scene_document_make(name);
    yaml_parser_t parser;
    int status;

    if (document == NULL)
        return error_setf(error, PTO_ENOMEM, "%s: out of memory", name);
    if (bytes > DOCUMENT_BYTES_MAX || !yaml_parser_initialize(&parser)) {
        free(document);
        return error_setf(error, PTO_EINVAL, "%s: larger than %d bytes", name, DOCUMENT_BYTES_MAX);
    }
    yaml_parser_set_input_string(&parser, text, bytes);

    struct reader reader = { .document = document, .error = error, .text = text, .bytes = bytes };

    status = read_events(&reader, &parser);
    yaml_parser_delete(&parser);
    if (status == PTO_OK && document->root == NULL)
        status = error_setf(error, PTO_EINVAL, "%s: it is empty", name);
    if (status < 0) {
        scene_document_free(document);
        return status;
    }
    *document_out = document;
    return PTO_OK;
}

struct document *scene_document_make(const char *name)
{
    struct document *document = calloc(1, sizeof(*document));

    if (document != NULL)
        document->name = name;
    return document;
}

void scene_document_set_root(struct document *document, struct node *root)
{
    document->root = root;
}

void scene_document_free(struct document *document)
{
    if (document == NULL)
        return;
    while (document->chunk != NULL) {
        struct chunk *chunk = document->chunk;

        document->chunk = chunk->before;
        free(chunk);
    }
    free(document);
}

void *scene_document_alloc(struct document *document, size_t bytes)
{
    struct chunk *chunk = calloc(1, sizeof(*chunk) + bytes);

    if (chunk == NULL)
        return NULL;
    chunk->before = document->chunk;
    document->chunk = chunk;
    return chunk->bytes;
}

const struct node *scene_document_root(const struct document *document)
{
    return document->root;
}

const char *scene_document_name(const struct document *document)
{
    return document->name;
}

const struct node *scene_document_find(const struct node *map, const char *key)
{
    if (map == NULL || map->kind != NODE_MAP)
        return NULL;
    for (const struct node *part = map->part; part != NULL; part = part->next)
        if (strcmp(part->key, key) == 0)
            return part;
    return NULL;
}

int scene_document_refuse(const struct document *document, const struct node *at,
                          struct pto_error *error, const char *format, ...)
{
    char text[PTO_ERROR_TEXT_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return error_setf(error, PTO_EINVAL, "%.900s:%u:%u: %s", document->name, at->line, at->column,
                      text);
}

int scene_document_refuse_key(const struct document *document, const struct node *at,
                              struct pto_error *error, const char *format, ...)
{
    const struct node key = { .line = at->key_line, .column = at->key_column };
    char text[PTO_ERROR_TEXT_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return scene_document_refuse(document, &key, error, "%s", text);
}

/* ---- events of libyaml ---- */

static int refuse_mark(struct reader *r, yaml_mark_t mark, const char *text)
{
    return error_setf(r->error, PTO_EINVAL, "%.900s:%zu:%zu: %s", r->document->name, mark.line + 1,
                      mark.column + 1, text);
}

/* Whether the line, counted from 0, is indented with a tab. */
static bool has_tab(const struct reader *r, size_t line)
{
    const char *at = r->text, *end = r->text + r->bytes;

    for (; line > 0 && at != NULL; line--) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at != NULL ? at + 1 : NULL;
    }
    while (at != NULL && at < end && *at == ' ')
        at++;
    return at != NULL && at < end && *at == '\t';
}

static int refuse_yaml(struct reader *r, const yaml_parser_t *parser)
{
    char text[256];

    if (parser->error == YAML_MEMORY_ERROR)
        return error_setf(r->error, PTO_ENOMEM, "%s: out of memory", r->document->name);
    if (parser->error == YAML_READER_ERROR)
        return error_setf(r->error, PTO_EINVAL, "%s: byte %zu is not UTF-8 text (%s)",
                          r->document->name, parser->problem_offset, parser->problem);
    if (has_tab(r, parser->problem_mark.line))
        return refuse_mark(r, parser->problem_mark,
                           "the line begins with a tab; indent it with spaces");
    snprintf(text, sizeof(text), "not valid YAML: %s%s%s",
             parser->problem != NULL ? parser->problem : "unknown problem",
             parser->context != NULL ? " " : "", parser->context != NULL ? parser->context : "");
    return refuse_mark(r, parser->problem_mark, text);
}

static int read_events(struct reader *r, yaml_parser_t *parser)
{
    bool is_end = false;
    int status = PTO_OK;

    while (status == PTO_OK && !is_end) {
        yaml_event_t event;

        if (!yaml_parser_parse(parser, &event))
            return refuse_yaml(r, parser);
        is_end = event.type == YAML_STREAM_END_EVENT;
        status = handle_event(r, &event);
        yaml_event_delete(&event);
    }
    return status;
}

/* Whether the text has control characters, which must not reach the terminal. */
static bool has_controls(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (((unsigned char)text[i] < 0x20 && text[i] != '\n' && text[i] != '\t') ||
            text[i] == 0x7f)
            return true;
    return false;
}

static int document_copy_text(struct reader *r, const yaml_event_t *event, const char **text_out)
{
    size_t length = event->data.scalar.length;
    const char *text = (const char *)event->data.scalar.value;
    char *copy;

    if (memchr(text, '\0', length) != NULL)
        return refuse_mark(r, event->start_mark, "a text must not contain a zero byte");
    if (has_controls(text, length))
        return refuse_mark(
            r, event->start_mark,
            "a text must not contain control characters other than line ends and tabs");
    copy = scene_document_alloc(r->document, length + 1);
    if (copy == NULL)
        return error_setf(r->error, PTO_ENOMEM, "%s: out of memory", r->document->name);
    memcpy(copy, text, length);
    *text_out = copy;
    return PTO_OK;
}

/* Handles a scalar that is the next key of a map. */
static int parse_key(struct reader *r, const yaml_event_t *event)
{
    struct level *level = &r->level[r->depth];
    int status;

    if (event->type != YAML_SCALAR_EVENT)
        return refuse_mark(r, event->start_mark, "a key must be a plain word");
    if (level->node->count == DOCUMENT_KEYS_MAX)
        return refuse_mark(r, event->start_mark, "a mapping must not have more than 1024 keys");
    status = document_copy_text(r, event, &level->key);
    level->key_mark = event->start_mark;
    if (status == PTO_OK && scene_document_find(level->node, level->key) != NULL) {
        char text[128];

        snprintf(text, sizeof(text), "duplicate key '%.80s'", level->key);
        return refuse_mark(r, event->start_mark, text);
    }
    return status;
}

static int add_node(struct reader *r, const yaml_event_t *event, enum node_kind kind,
                    struct node **node_out)
{
    struct level *level = &r->level[r->depth];
    struct node *node = scene_document_alloc(r->document, sizeof(*node));

    if (node == NULL)
        return error_setf(r->error, PTO_ENOMEM, "%s: out of memory", r->document->name);
    node->kind = kind;
    node->line = (uint32_t)event->start_mark.line + 1;
    node->column = (uint32_t)event->start_mark.column + 1;
    node->key = level->key;
    node->key_line = (uint32_t)level->key_mark.line + 1;
    node->key_column = (uint32_t)level->key_mark.column + 1;
    level->key = NULL;
    if (level->node == NULL)
        r->document->root = node;
    else if (level->last == NULL)
        level->node->part = node;
    else
        level->last->next = node;
    if (level->node != NULL)
        level->node->count++;
    level->last = node;
    *node_out = node;
    return PTO_OK;
}

static int begin_parts(struct reader *r, const yaml_event_t *event, enum node_kind kind)
{
    struct node *node;
    int status = add_node(r, event, kind, &node);

    if (status < 0)
        return status;
    if (r->depth == DOCUMENT_DEPTH_MAX)
        return refuse_mark(r, event->start_mark, "nested too deeply");
    r->level[++r->depth] = (struct level){ .node = node };
    return PTO_OK;
}

static int document_add_scalar(struct reader *r, const yaml_event_t *event)
{
    struct node *node;
    int status = add_node(r, event, NODE_TEXT, &node);

    if (status < 0)
        return status;
    node->is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return document_copy_text(r, event, &node->text);
}

static bool has_properties(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return event->data.scalar.anchor != NULL || event->data.scalar.tag != NULL;
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.anchor != NULL || event->data.sequence_start.tag != NULL;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.anchor != NULL || event->data.mapping_start.tag != NULL;
    default:
        return event->type == YAML_ALIAS_EVENT;
    }
}

static int handle_event(struct reader *r, const yaml_event_t *event)
{
    struct level *level = &r->level[r->depth];
    bool is_end = event->type == YAML_MAPPING_END_EVENT || event->type == YAML_SEQUENCE_END_EVENT;

    if (has_properties(event))
        return refuse_mark(r, event->start_mark,
                           "anchors, aliases and tags are not supported; write the value out");
    if (is_end) {
        r->depth--;
        return PTO_OK;
    }
    if (event->type == YAML_DOCUMENT_START_EVENT && r->document->root != NULL)
        return refuse_mark(r, event->start_mark,
                           "a second document begins here; only one is allowed");
    if (event->type != YAML_SCALAR_EVENT && event->type != YAML_SEQUENCE_START_EVENT &&
        event->type != YAML_MAPPING_START_EVENT)
        return PTO_OK;
    if (level->node != NULL && level->node->kind == NODE_MAP && level->key == NULL)
        return parse_key(r, event);
    if (event->type == YAML_SCALAR_EVENT)
        return document_add_scalar(r, event);
    return begin_parts(r, event, event->type == YAML_MAPPING_START_EVENT ? NODE_MAP : NODE_LIST);
}

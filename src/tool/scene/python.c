/* SPDX-License-Identifier: Apache-2.0 */
/* Parses statements and expressions; python_text.c parses literals, python_paths.c paths. */
#include "tool/scene/python.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/scene/python_reader.h"

static int read_statement(struct python_reader *r);
static int make_root(struct python_reader *r);

int scene_python_read(const char *name, const void *text, size_t bytes,
                      struct document **document_out, struct pto_error *error)
{
    struct document *document = scene_document_make(name);
    struct python_name *names = calloc(PYTHON_NAMES_MAX, sizeof(*names));
    struct python_reader r = { .document = document,
                               .error = error,
                               .at = text,
                               .end = (const char *)text + bytes,
                               .line_begin = text,
                               .line = 1,
                               .names = names };
    int status = PTO_OK;

    if (document == NULL || names == NULL)
        status = error_setf(error, PTO_ENOMEM, "%.900s: out of memory", name);
    else if (bytes > DOCUMENT_BYTES_MAX)
        status =
            error_setf(error, PTO_EINVAL, "%.900s: larger than %d bytes", name, DOCUMENT_BYTES_MAX);
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        r.line_begin = r.at += 3;
    while (status == PTO_OK && r.at < r.end)
        status = read_statement(&r);
    if (status == PTO_OK)
        status = make_root(&r);
    free(names);
    if (status < 0) {
        scene_document_free(document);
        return status;
    }
    *document_out = document;
    return PTO_OK;
}

/* ---- errors ---- */

int scene_python_refuse_at(struct python_reader *r, const struct python_value *value,
                           const char *format, ...)
{
    const struct node place = { .line = value->line, .column = value->column };
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return scene_document_refuse(r->document, &place, r->error, "%s", text);
}

static void python_set_place(const struct python_reader *r, struct python_value *value)
{
    value->line = r->line;
    value->column = (uint32_t)(r->at - r->line_begin) + 1;
}

int scene_python_refuse(struct python_reader *r, const char *format, ...)
{
    struct python_value place;
    char text[512];
    va_list args;

    python_set_place(r, &place);
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return scene_python_refuse_at(r, &place, "%s", text);
}

int scene_python_no_memory(struct python_reader *r)
{
    return error_setf(r->error, PTO_ENOMEM, "%.900s: out of memory",
                      scene_document_name(r->document));
}

/* ---- characters ---- */

/* Skips a line end within brackets or after a backslash. */
static bool skip_line_end(struct python_reader *r)
{
    const char *at = r->at;

    if (*at == '\\')
        at++;
    else if (r->brackets == 0)
        return false;
    if (at < r->end && *at == '\r')
        at++;
    if (at == r->end || *at != '\n')
        return false;
    r->line_begin = r->at = at + 1;
    r->line++;
    return true;
}

void scene_python_skip(struct python_reader *r)
{
    while (r->at < r->end) {
        if (*r->at == ' ' || *r->at == '\t' || *r->at == '\f')
            r->at++;
        else if (*r->at == '#')
            while (r->at < r->end && *r->at != '\n')
                r->at++;
        else if (!skip_line_end(r))
            return;
    }
}

char scene_python_peek(struct python_reader *r)
{
    scene_python_skip(r);
    return r->at < r->end ? *r->at : '\0';
}

int scene_python_expect(struct python_reader *r, char want, const char *what)
{
    if (scene_python_peek(r) != want || r->at == r->end)
        return scene_python_refuse(r, "expected %s here", what);
    r->at++;
    return PTO_OK;
}

bool scene_python_is_name(char c, bool is_first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (!is_first && c >= '0' && c <= '9');
}

int scene_python_read_name(struct python_reader *r, char name[PYTHON_NAME_BYTES])
{
    size_t length = 0;

    scene_python_skip(r);
    while (r->at + length < r->end && scene_python_is_name(r->at[length], length == 0))
        length++;
    if (length == 0)
        return scene_python_refuse(r, "expected a name here");
    if (length >= PYTHON_NAME_BYTES)
        return scene_python_refuse(r, "a Python name must not be longer than %d characters",
                                   PYTHON_NAME_BYTES - 1);
    memcpy(name, r->at, length);
    name[length] = '\0';
    r->at += length;
    return PTO_OK;
}

/* Consumes the word if it is next. */
static bool parse_word(struct python_reader *r, const char *word)
{
    size_t length = strlen(word);

    scene_python_skip(r);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0 ||
        (r->at + length < r->end && scene_python_is_name(r->at[length], false)))
        return false;
    r->at += length;
    return true;
}

/* ---- names ---- */

static struct python_value *python_find_name(struct python_reader *r, const char *name)
{
    for (uint32_t i = 0; i < r->name_count; i++)
        if (strcmp(r->names[i].name, name) == 0)
            return &r->names[i].value;
    return NULL;
}

static int bind_name(struct python_reader *r, const char *name, const struct python_value *value)
{
    struct python_value *old = python_find_name(r, name);

    if (old == NULL && r->name_count == PYTHON_NAMES_MAX)
        return scene_python_refuse_at(r, value, "the file assigns or imports more than %d names",
                                      PYTHON_NAMES_MAX);
    if (old == NULL) {
        struct python_name *added = &r->names[r->name_count++];

        memcpy(added->name, name, strlen(name) + 1);
        old = &added->value;
    }
    *old = *value;
    return PTO_OK;
}

static int bind_foreign(struct python_reader *r, const char *name, const char *full)
{
    struct python_value value = { .sort = PYTHON_FOREIGN };

    python_set_place(r, &value);
    memcpy(value.name, full, strlen(full) + 1);
    return bind_name(r, name, &value);
}

/*
 * Makes the root map from the assigned names whose values are data, in the order of their first
 * assignment.
 */
static int make_root(struct python_reader *r)
{
    struct node *root = scene_document_alloc(r->document, sizeof(*root));
    struct node **next = root != NULL ? &root->part : NULL;

    if (root == NULL)
        return scene_python_no_memory(r);
    *root = (struct node){ .kind = NODE_MAP, .line = 1, .column = 1 };
    for (uint32_t i = 0; i < r->name_count; i++) {
        const struct python_name *name = &r->names[i];
        char *key;

        if (name->value.sort == PYTHON_FOREIGN)
            continue;
        key = scene_document_alloc(r->document, strlen(name->name) + 1);
        *next = scene_document_alloc(r->document, sizeof(**next));
        if (key == NULL || *next == NULL)
            return scene_python_no_memory(r);
        **next = *name->value.node;
        (*next)->key = strcpy(key, name->name);
        (*next)->key_line = name->value.line;
        (*next)->key_column = name->value.column;
        (*next)->next = NULL;
        next = &(*next)->next;
        root->count++;
    }
    scene_document_set_root(r->document, root);
    return PTO_OK;
}

/* ---- statements ---- */

/* Reads a dotted name: os.path, simpler.task_interface. */
static int read_dotted(struct python_reader *r, char full[PYTHON_NAME_BYTES])
{
    char part[PYTHON_NAME_BYTES];
    int status = scene_python_read_name(r, full);

    while (status == PTO_OK && scene_python_peek(r) == '.') {
        size_t length = strlen(full);

        r->at++;
        status = scene_python_read_name(r, part);
        if (status == PTO_OK && length + strlen(part) + 2 > PYTHON_NAME_BYTES)
            status = scene_python_refuse(r, "a Python name must not be longer than %d characters",
                                         PYTHON_NAME_BYTES - 1);
        if (status == PTO_OK)
            snprintf(full + length, PYTHON_NAME_BYTES - length, ".%s", part);
    }
    return status;
}

static int read_alias(struct python_reader *r, char name[PYTHON_NAME_BYTES])
{
    return parse_word(r, "as") ? scene_python_read_name(r, name) : PTO_OK;
}

/* Reads `import os, pathlib as p`. */
static int read_import(struct python_reader *r)
{
    char full[PYTHON_NAME_BYTES], name[PYTHON_NAME_BYTES];
    int status;

    do {
        status = read_dotted(r, full);
        if (status < 0)
            return status;
        memcpy(name, full, sizeof(name));
        if (!parse_word(r, "as"))
            full[strcspn(full, ".")] = name[strcspn(name, ".")] = '\0';
        else
            status = scene_python_read_name(r, name);
        if (status == PTO_OK)
            status = bind_foreign(r, name, full);
    } while (status == PTO_OK && scene_python_peek(r) == ',' && r->at++ != NULL);
    return status;
}

/* Reads `from pathlib import Path` and `from x import (a, b as c)`. */
static int read_from(struct python_reader *r)
{
    char from[PYTHON_NAME_BYTES], name[PYTHON_NAME_BYTES], full[2 * PYTHON_NAME_BYTES];
    bool has_bracket;
    int status = read_dotted(r, from);

    if (status == PTO_OK && !parse_word(r, "import"))
        status = scene_python_refuse(r, "expected `import` here");
    if (status < 0)
        return status;
    has_bracket = scene_python_peek(r) == '(';
    r->at += has_bracket;
    r->brackets += has_bracket;
    do {
        if (has_bracket && scene_python_peek(r) == ')')
            break;
        status = scene_python_read_name(r, name);
        if (status < 0)
            return status;
        snprintf(full, sizeof(full), "%s.%s", from, name);
        full[PYTHON_NAME_BYTES - 1] = '\0';
        status = read_alias(r, name);
        if (status == PTO_OK)
            status = bind_foreign(r, name, full);
    } while (status == PTO_OK && scene_python_peek(r) == ',' && r->at++ != NULL);
    r->brackets -= has_bracket;
    return status == PTO_OK && has_bracket ? scene_python_expect(r, ')', "`)`") : status;
}

/* Skips the annotation in `NAME: list[dict] = ...`. */
static int skip_annotation(struct python_reader *r)
{
    while (scene_python_peek(r) != '=' && r->at < r->end) {
        if (!scene_python_is_name(*r->at, false) && strchr(".[],|", *r->at) == NULL)
            return scene_python_refuse(r, "this is not a type; write NAME = VALUE");
        r->at++;
    }
    return PTO_OK;
}

static int read_assignment(struct python_reader *r)
{
    char name[PYTHON_NAME_BYTES];
    struct python_value value = { .line = r->line };
    int status = scene_python_read_name(r, name);

    if (status == PTO_OK && scene_python_peek(r) == ':' && r->at++ != NULL)
        status = skip_annotation(r);
    if (status < 0)
        return status;
    if (scene_python_peek(r) != '=' || (r->end - r->at > 1 && r->at[1] == '='))
        return scene_python_refuse(r, "only imports and assignments are supported, and no code is "
                                      "executed: expected NAME = VALUE");
    r->at++;
    status = scene_python_read_expression(r, &value);
    return status == PTO_OK ? bind_name(r, name, &value) : status;
}

static int read_statement(struct python_reader *r)
{
    struct python_value text;
    int status;

    if (*r->at == ' ' || *r->at == '\t')
        scene_python_skip(r);
    if (r->at < r->end && *r->at != '\n' && *r->at != '\r' && *r->at != '#' &&
        r->at != r->line_begin)
        return scene_python_refuse(
            r, "the line is indented; only imports and assignments at the top level are supported");
    scene_python_skip(r);
    if (r->at < r->end && *r->at != '\n' && *r->at != '\r') {
        if (parse_word(r, "import"))
            status = read_import(r);
        else if (parse_word(r, "from"))
            status = read_from(r);
        /* a statement that is only a string, such as a docstring, has no effect */
        else if (scene_python_is_text(r))
            status = scene_python_read_text(r, &text);
        else
            status = read_assignment(r);
        if (status < 0)
            return status;
    }
    scene_python_skip(r);
    if (r->at < r->end && *r->at == '\r')
        r->at++;
    if (r->at < r->end && *r->at != '\n')
        return scene_python_refuse(
            r, "the statement should end here; manifests are data: literals, names and paths");
    if (r->at < r->end)
        r->line_begin = ++r->at;
    r->line++;
    return PTO_OK;
}

/* ---- expressions ---- */

int scene_python_make_node(struct python_reader *r, struct python_value *value,
                           enum python_sort sort, enum node_kind kind)
{
    struct node *node;

    if (r->node_count++ == PYTHON_NODES_MAX)
        return scene_python_refuse_at(r, value, "there are more than %d values", PYTHON_NODES_MAX);
    node = scene_document_alloc(r->document, sizeof(*node));
    if (node == NULL)
        return scene_python_no_memory(r);
    *node = (struct node){ .kind = kind,
                           .line = value->line,
                           .column = value->column,
                           .is_plain = sort == PYTHON_NUMBER || sort == PYTHON_WORD };
    value->node = node;
    value->sort = sort;
    return PTO_OK;
}

int scene_python_make_text(struct python_reader *r, struct python_value *value,
                           enum python_sort sort, const char *text, size_t length)
{
    char *copy;
    int status = scene_python_make_node(r, value, sort, NODE_TEXT);

    if (status < 0)
        return status;
    r->text_bytes += (uint32_t)length;
    if (length > PYTHON_TEXT_MAX || r->text_bytes > PYTHON_TEXTS_MAX)
        return scene_python_refuse_at(r, value,
                                      "a text is longer than %d bytes, or all of them are "
                                      "longer than %d",
                                      PYTHON_TEXT_MAX, PYTHON_TEXTS_MAX);
    copy = scene_document_alloc(r->document, length + 1);
    if (copy == NULL)
        return scene_python_no_memory(r);
    memcpy(copy, text, length);
    value->node->text = copy;
    return PTO_OK;
}

/*
 * Copies a node, because a node can be in one list only: each use of a name gets a copy of the
 * name's value.
 */
static int copy_node(struct python_reader *r, const struct node *node, struct node **copy_out)
{
    struct python_value copy = { .line = node->line, .column = node->column };
    int status = scene_python_make_node(r, &copy, PYTHON_TEXT, node->kind);

    if (status < 0)
        return status;
    *copy.node = *node;
    copy.node->next = NULL;
    *copy_out = copy.node;
    return PTO_OK;
}

/* Appends copies of the items of a list to a list that ends at *next. */
static int add_parts(struct python_reader *r, struct node *list, struct node ***next,
                     const struct node *from)
{
    for (const struct node *part = from->part; part != NULL; part = part->next) {
        int status = copy_node(r, part, *next);

        if (status < 0)
            return status;
        *next = &(**next)->next;
        list->count++;
    }
    return PTO_OK;
}

/*
 * Reads the elements of a list or a tuple up to `close`. One element in round brackets is a tuple
 * only if a comma follows it.
 */
static int read_list(struct python_reader *r, char close, struct python_value *value)
{
    struct node **next;
    bool has_comma = false;
    int status = scene_python_make_node(r, value, PYTHON_LIST, NODE_LIST);

    if (status < 0)
        return status;
    next = &value->node->part;
    while (scene_python_peek(r) != close) {
        struct python_value element;

        if (value->node->count != 0 && !has_comma)
            return scene_python_refuse(
                r, "expected a comma, or %s",
                close == ']' ? "the end of the list" : "the end of the tuple");
        status = scene_python_read_expression(r, &element);
        if (status == PTO_OK && element.sort == PYTHON_FOREIGN)
            status = scene_python_refuse_at(r, &element, "'%s' is not data", element.name);
        has_comma = status == PTO_OK && scene_python_peek(r) == ',';
        r->at += has_comma;
        if (status == PTO_OK && close == ')' && !has_comma && value->node->count == 0 &&
            scene_python_peek(r) == ')') {
            /* if no comma follows, the value is the element itself, not a tuple */
            *value = element;
            break;
        }
        if (status == PTO_OK)
            status = copy_node(r, element.node, next);
        if (status < 0)
            return status;
        next = &(*next)->next;
        value->node->count++;
    }
    r->at++;
    return PTO_OK;
}

static int python_read_key(struct python_reader *r, const struct node *map, struct node *key)
{
    struct python_value value;
    int status = scene_python_read_expression(r, &value);

    if (status < 0)
        return status;
    if (value.sort != PYTHON_TEXT)
        return scene_python_refuse_at(r, &value, "a key must be a text in quotes");
    if (scene_document_find(map, value.node->text) != NULL)
        return scene_python_refuse_at(r, &value, "duplicate key '%.80s'", value.node->text);
    *key = *value.node;
    return scene_python_expect(r, ':', "the colon after a key");
}

static int read_map(struct python_reader *r, struct python_value *value)
{
    struct node **next;
    bool has_comma = true;
    int status = scene_python_make_node(r, value, PYTHON_MAP, NODE_MAP);

    if (status < 0)
        return status;
    next = &value->node->part;
    while (scene_python_peek(r) != '}') {
        struct python_value element;
        struct node key = { .line = 0 };

        if (!has_comma)
            return scene_python_refuse(r, "expected a comma, or the end of the dict");
        if (value->node->count == DOCUMENT_KEYS_MAX)
            return scene_python_refuse(r, "a dict must not have more than %d keys",
                                       DOCUMENT_KEYS_MAX);
        status = python_read_key(r, value->node, &key);
        if (status == PTO_OK)
            status = scene_python_read_expression(r, &element);
        if (status == PTO_OK && element.sort == PYTHON_FOREIGN)
            status = scene_python_refuse_at(r, &element, "'%s' is not data", element.name);
        if (status == PTO_OK)
            status = copy_node(r, element.node, next);
        if (status < 0)
            return status;
        (*next)->key = key.text;
        (*next)->key_line = key.line;
        (*next)->key_column = key.column;
        next = &(*next)->next;
        value->node->count++;
        has_comma = scene_python_peek(r) == ',';
        r->at += has_comma;
    }
    r->at++;
    return PTO_OK;
}

static int python_read_word(struct python_reader *r, struct python_value *value)
{
    static const char *const words[] = { "True", "False", "None" };
    char name[PYTHON_NAME_BYTES];
    const struct python_value *bound;
    int status = scene_python_read_name(r, name);

    if (status < 0)
        return status;
    for (int i = 0; i < 3; i++)
        if (strcmp(name, words[i]) == 0)
            return scene_python_make_text(r, value, PYTHON_WORD, name, strlen(name));
    if (strcmp(name, "__file__") == 0)
        return scene_python_make_text(r, value, PYTHON_TEXT, scene_document_name(r->document),
                                      strlen(scene_document_name(r->document)));
    bound = python_find_name(r, name);
    if (bound != NULL && bound->sort != PYTHON_FOREIGN) {
        value->sort = bound->sort;
        return copy_node(r, bound->node, &value->node);
    }
    if (bound == NULL && strcmp(name, "str") != 0)
        return scene_python_refuse_at(r, value, "'%.80s' is not assigned above this line", name);
    value->sort = PYTHON_FOREIGN;
    memcpy(value->name, bound != NULL ? bound->name : name, PYTHON_NAME_BYTES);
    return PTO_OK;
}

static int read_atom(struct python_reader *r, struct python_value *value)
{
    char c = scene_python_peek(r);
    int status;

    *value = (struct python_value){ .sort = PYTHON_FOREIGN };
    python_set_place(r, value);
    if (scene_python_is_text(r))
        return scene_python_read_text(r, value);
    if (scene_python_is_name(c, true))
        return python_read_word(r, value);
    if ((c >= '0' && c <= '9') || c == '.')
        return scene_python_read_number(r, false, value);
    if (c == '-' || c == '+') {
        r->at++;
        (void)scene_python_peek(r);
        return scene_python_read_number(r, c == '-', value);
    }
    if (c != '[' && c != '(' && c != '{')
        return scene_python_refuse(
            r, "expected a value: a text, a number, a name, a list, a tuple or a "
               "dict");
    r->at++;
    r->brackets++;
    status = c == '{' ? read_map(r, value) : read_list(r, c == '[' ? ']' : ')', value);
    r->brackets--;
    return status;
}

/* Reads a value and the members and calls after it: Path(__file__).resolve().parent. */
static int read_primary(struct python_reader *r, struct python_value *value)
{
    int status = read_atom(r, value);

    while (status == PTO_OK) {
        char c = scene_python_peek(r);

        if (c != '.' && c != '(')
            break;
        r->at++;
        status = c == '.' ? scene_python_read_member(r, value) : scene_python_read_call(r, value);
    }
    return status;
}

/* Repeats a list: LIST * NUMBER. */
static int repeat_list(struct python_reader *r, struct python_value *left,
                       const struct python_value *right)
{
    struct python_value all = { .line = left->line, .column = left->column };
    long long times = right->sort == PYTHON_NUMBER ? strtoll(right->node->text, NULL, 10) : -1;
    struct node **next;
    int status;

    if (left->sort != PYTHON_LIST || times < 0 || times > PYTHON_NODES_MAX)
        return scene_python_refuse_at(r, left, "`*` is for a list and a whole number");
    status = scene_python_make_node(r, &all, PYTHON_LIST, NODE_LIST);
    if (status < 0)
        return status;
    next = &all.node->part;
    for (long long i = 0; i < times && status == PTO_OK; i++)
        status = add_parts(r, all.node, &next, left->node);
    *left = all;
    return status;
}

static int add_lists(struct python_reader *r, struct python_value *left,
                     const struct python_value *right)
{
    struct python_value all = { .line = left->line, .column = left->column };
    struct node **next;
    int status = scene_python_make_node(r, &all, PYTHON_LIST, NODE_LIST);

    if (status < 0)
        return status;
    next = &all.node->part;
    status = add_parts(r, all.node, &next, left->node);
    if (status == PTO_OK)
        status = add_parts(r, all.node, &next, right->node);
    *left = all;
    return status;
}

static int add_values(struct python_reader *r, struct python_value *left,
                      const struct python_value *right)
{
    char both[2 * PYTHON_TEXT_MAX + 1];

    if (left->sort == PYTHON_LIST && right->sort == PYTHON_LIST)
        return add_lists(r, left, right);
    if (left->sort != PYTHON_TEXT || right->sort != PYTHON_TEXT)
        return scene_python_refuse_at(r, left, "`+` is for two texts, or for two lists");
    snprintf(both, sizeof(both), "%s%s", left->node->text, right->node->text);
    return scene_python_make_text(r, left, PYTHON_TEXT, both, strlen(both));
}

/* Reads a product, which binds tighter than a sum: `/` of paths, `*` of lists. */
static int read_product(struct python_reader *r, struct python_value *value)
{
    struct python_value right;
    int status = read_primary(r, value);

    while (status == PTO_OK && (scene_python_peek(r) == '/' || scene_python_peek(r) == '*')) {
        char c = *r->at++;

        status = read_primary(r, &right);
        if (status == PTO_OK && c == '*')
            status = repeat_list(r, value, &right);
        else if (status == PTO_OK && value->sort != PYTHON_PATH)
            status = scene_python_refuse_at(r, value,
                                            "`/` is for a path and a text; begin with "
                                            "Path(__file__)");
        else if (status == PTO_OK)
            status = scene_python_join(r, value, &right);
    }
    return status;
}

int scene_python_read_expression(struct python_reader *r, struct python_value *value)
{
    struct python_value right;
    int status;

    if (++r->depth > PYTHON_DEPTH_MAX)
        return scene_python_refuse(r, "nested too deeply");
    status = read_product(r, value);
    while (status == PTO_OK && scene_python_peek(r) == '+') {
        r->at++;
        status = read_product(r, &right);
        if (status == PTO_OK)
            status = add_values(r, value, &right);
    }
    r->depth--;
    return status;
}

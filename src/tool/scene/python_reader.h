/* SPDX-License-Identifier: Apache-2.0 */
/* Internals shared by the parts of the Python reader: python.c, python_text.c, python_paths.c. */
#ifndef PTO_PYTHON_READER_H
#define PTO_PYTHON_READER_H

#include "pto/pto.h"
#include "tool/scene/document.h"

/* Limits of memory and stack, for texts that nest deeply or repeat lists often. */
enum {
    PYTHON_DEPTH_MAX = 32,
    PYTHON_NAMES_MAX = 256,
    PYTHON_NODES_MAX = 1 << 16,
    PYTHON_TEXT_MAX = 1 << 14,
    PYTHON_TEXTS_MAX = 1 << 22,
    PYTHON_NAME_BYTES = 128,
};

/* Sort of an expression's value. All sorts but PYTHON_FOREIGN are data and have a node. */
enum python_sort {
    PYTHON_TEXT,
    PYTHON_PATH, /* the value is a text that the operator `/` can extend: a path */
    PYTHON_NUMBER,
    PYTHON_WORD, /* the value is True, False, None or a member of ArgDirection */
    PYTHON_LIST,
    PYTHON_MAP,
    PYTHON_FOREIGN, /* the value is an imported object, which is known by its full name */
};

struct python_value {
    enum python_sort sort;
    uint32_t line; /* start of the expression */
    uint32_t column;
    struct node *node;
    char name[PYTHON_NAME_BYTES]; /* full name of a foreign object: os.path.join */
};

struct python_name {
    char name[PYTHON_NAME_BYTES];
    struct python_value value;
};

struct python_reader {
    struct document *document;
    struct pto_error *error;
    const char *at;
    const char *end;
    const char *line_begin;
    uint32_t line;
    uint32_t depth;    /* nesting depth at the current position */
    uint32_t brackets; /* open brackets, within which a line end is a blank */
    uint32_t node_count;
    uint32_t text_bytes;
    uint32_t name_count;
    struct python_name *names; /* assigned names; room for PYTHON_NAMES_MAX */
};

/* Report an error at the current position, or at the start of a value. */
int scene_python_refuse(struct python_reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int scene_python_refuse_at(struct python_reader *r, const struct python_value *value,
                           const char *format, ...) __attribute__((format(printf, 3, 4)));
int scene_python_no_memory(struct python_reader *r);

/* Skips blanks, comments, and, within brackets, line ends. */
void scene_python_skip(struct python_reader *r);
/* Skips blanks and returns the next character, which stays unread; 0: the end of the text. */
char scene_python_peek(struct python_reader *r);
/* Consumes the character `want`, or reports that `what` was expected. */
int scene_python_expect(struct python_reader *r, char want, const char *what);
bool scene_python_is_name(char c, bool is_first);

/* Makes the node of a value, with the position of the value. */
int scene_python_make_node(struct python_reader *r, struct python_value *value,
                           enum python_sort sort, enum node_kind kind);
int scene_python_make_text(struct python_reader *r, struct python_value *value,
                           enum python_sort sort, const char *text, size_t length);

/* python_text.c: reads literals, from their first character. */
bool scene_python_is_text(const struct python_reader *r);
int scene_python_read_text(struct python_reader *r, struct python_value *value);
int scene_python_read_number(struct python_reader *r, bool is_negative, struct python_value *value);

/* python_paths.c: reads functions and methods that manifests use, after the `.` or the `(`. */
int scene_python_read_member(struct python_reader *r, struct python_value *value);
int scene_python_read_call(struct python_reader *r, struct python_value *value);
int scene_python_join(struct python_reader *r, struct python_value *path,
                      const struct python_value *add);

/* python.c */
int scene_python_read_name(struct python_reader *r, char name[PYTHON_NAME_BYTES]);
int scene_python_read_expression(struct python_reader *r, struct python_value *value);

#endif

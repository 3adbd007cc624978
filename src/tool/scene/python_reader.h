/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the reader of Python share: python.c, python_text.c, python_paths.c. */
#ifndef PTO_PYTHON_READER_H
#define PTO_PYTHON_READER_H

#include "pto/pto.h"
#include "tool/scene/document.h"

/* What a text can make the reader use, however it is nested and multiplied. */
enum {
    PYTHON_DEPTH_MAX = 32,
    PYTHON_NAMES_MAX = 256,
    PYTHON_NODES_MAX = 1 << 16,
    PYTHON_TEXT_MAX = 1 << 14,
    PYTHON_TEXTS_MAX = 1 << 22,
    PYTHON_NAME_BYTES = 128,
};

/* What an expression is. The first ones are data, and have a node. */
enum python_sort {
    PYTHON_TEXT,
    PYTHON_PATH, /* a text; `/` adds to it */
    PYTHON_NUMBER,
    PYTHON_WORD, /* True, False, None, a member of ArgDirection */
    PYTHON_LIST,
    PYTHON_MAP,
    PYTHON_FOREIGN, /* something that was imported, by its full name */
};

struct python_value {
    enum python_sort sort;
    uint32_t line; /* where the expression begins */
    uint32_t column;
    struct node *node;
    char name[PYTHON_NAME_BYTES]; /* of what is foreign: os.path.join */
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
    uint32_t depth;    /* of what is being read */
    uint32_t brackets; /* open ones, within which a line end is a blank */
    uint32_t node_count;
    uint32_t text_bytes;
    uint32_t name_count;
    struct python_name *names; /* PYTHON_NAMES_MAX */
};

/* At the place where the reader is, or where a value begins. */
int scene_python_refuse(struct python_reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int scene_python_refuse_at(struct python_reader *r, const struct python_value *value,
                           const char *format, ...) __attribute__((format(printf, 3, 4)));
int scene_python_no_memory(struct python_reader *r);

/* Past blanks, comments, and, within brackets, line ends. */
void scene_python_skip(struct python_reader *r);
/* What is next after blanks; 0 at the end. */
char scene_python_peek(struct python_reader *r);
/* Takes that character, or refuses with what it would have been. */
int scene_python_expect(struct python_reader *r, char want, const char *what);
bool scene_python_is_name(char c, bool is_first);

/* The node of a value, with its place. */
int scene_python_make_node(struct python_reader *r, struct python_value *value,
                           enum python_sort sort, enum node_kind kind);
int scene_python_make_text(struct python_reader *r, struct python_value *value,
                           enum python_sort sort, const char *text, size_t length);

/* python_text.c: literals. The reader is at their first character. */
bool scene_python_is_text(const struct python_reader *r);
int scene_python_read_text(struct python_reader *r, struct python_value *value);
int scene_python_read_number(struct python_reader *r, bool is_negative, struct python_value *value);

/* python_paths.c: the functions and methods that manifests use. The reader is behind the `.` or the `(`. */
int scene_python_read_member(struct python_reader *r, struct python_value *value);
int scene_python_read_call(struct python_reader *r, struct python_value *value);
int scene_python_join(struct python_reader *r, struct python_value *path,
                      const struct python_value *add);

/* python.c */
int scene_python_read_name(struct python_reader *r, char name[PYTHON_NAME_BYTES]);
int scene_python_read_expression(struct python_reader *r, struct python_value *value);

#endif

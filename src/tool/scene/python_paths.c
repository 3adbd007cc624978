/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evaluates the functions and members that manifests use, which are found by their full names. They
 * operate on texts: no file is accessed, and `..` is kept.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/scene/python_reader.h"

enum { ARGUMENTS_MAX = 16 };

/* The functions that manifests may call, by the kind of value that they return. */
enum call_kind {
    CALL_TEXT, /* the function returns its argument, as a text */
    CALL_PATH, /* the function returns a path: its arguments joined */
    CALL_JOIN, /* the function returns a text: its arguments joined */
    CALL_FOLDER,
    CALL_ABSOLUTE,
};

static const struct {
    const char *name;
    enum call_kind kind;
    uint32_t arguments_max;
} calls[] = {
    { "str", CALL_TEXT, 1 },
    { "os.fspath", CALL_TEXT, 1 },
    { "os.path.normpath", CALL_TEXT, 1 },
    { "pathlib.Path", CALL_PATH, ARGUMENTS_MAX },
    { "pathlib.PurePath", CALL_PATH, ARGUMENTS_MAX },
    { "pathlib.PosixPath", CALL_PATH, ARGUMENTS_MAX },
    { "os.path.join", CALL_JOIN, ARGUMENTS_MAX },
    { "os.path.dirname", CALL_FOLDER, 1 },
    { "os.path.abspath", CALL_ABSOLUTE, 1 },
    { "os.path.realpath", CALL_ABSOLUTE, 1 },
};

static bool is_path(const struct python_value *value)
{
    return value->sort == PYTHON_PATH || value->sort == PYTHON_TEXT;
}

int scene_python_join(struct python_reader *r, struct python_value *path,
                      const struct python_value *add)
{
    char both[2 * PYTHON_TEXT_MAX + 2];
    const char *first = path->node->text;
    size_t length = strlen(first);

    if (!is_path(add))
        return scene_python_refuse_at(r, add, "a part of a path must be a text");
    if (add->node->text[0] == '/' || length == 0)
        snprintf(both, sizeof(both), "%s", add->node->text);
    else
        snprintf(both, sizeof(both), "%s%s%s", first, first[length - 1] == '/' ? "" : "/",
                 add->node->text);
    return scene_python_make_text(r, path, path->sort, both, strlen(both));
}

/* Replaces a path by its parent folder. */
static int parse_parent(struct python_reader *r, struct python_value *value, const char *none)
{
    const char *text = value->node->text;
    const char *slash = strrchr(text, '/');
    size_t length = slash != NULL ? (size_t)(slash - text) : 0;

    if (slash == NULL)
        return scene_python_make_text(r, value, value->sort, none, strlen(none));
    return scene_python_make_text(r, value, value->sort, length != 0 ? text : "/",
                                  length != 0 ? length : 1);
}

/* Makes a path absolute, relative to the folder of the manifest. */
static int python_paths_make_absolute(struct python_reader *r, struct python_value *value)
{
    struct python_value folder = *value;
    const char *name = scene_document_name(r->document);
    int status;

    if (value->node->text[0] == '/')
        return PTO_OK;
    status = scene_python_make_text(r, &folder, value->sort, name, strlen(name));
    if (status == PTO_OK)
        status = parse_parent(r, &folder, ".");
    if (status == PTO_OK)
        status = scene_python_join(r, &folder, value);
    *value = folder;
    return status;
}

/*
 * Reads the index after `.parents`, as in parents[1], and replaces the path by that parent folder.
 */
static int parse_parents(struct python_reader *r, struct python_value *value)
{
    struct python_value index;
    long long count;
    int status = scene_python_expect(r, '[', "`[`");

    if (status == PTO_OK)
        status = scene_python_read_expression(r, &index);
    if (status == PTO_OK)
        status = scene_python_expect(r, ']', "`]`");
    if (status < 0)
        return status;
    count = index.sort == PYTHON_NUMBER ? strtoll(index.node->text, NULL, 10) : -1;
    if (count < 0 || count > 64)
        return scene_python_refuse_at(r, &index, "expected a number from 0 to 64");
    for (long long i = 0; i <= count && status == PTO_OK; i++)
        status = parse_parent(r, value, ".");
    return status;
}

/* Reads arguments up to `)`. */
static int read_arguments(struct python_reader *r, uint32_t max, struct python_value *arguments,
                          uint32_t *count_out)
{
    uint32_t count = 0;
    int status = PTO_OK;

    r->brackets++;
    while (status == PTO_OK && scene_python_peek(r) != ')') {
        if (count == max)
            return scene_python_refuse(r, "too many arguments");
        status = scene_python_read_expression(r, &arguments[count]);
        if (status == PTO_OK && !is_path(&arguments[count]))
            status = scene_python_refuse_at(r, &arguments[count], "expected a text or a path");
        count++;
        if (status == PTO_OK && scene_python_peek(r) != ',')
            break;
        r->at += status == PTO_OK;
    }
    if (status == PTO_OK)
        status = scene_python_expect(r, ')', "`)`");
    r->brackets--;
    *count_out = count;
    return status;
}

static int join_all(struct python_reader *r, struct python_value *value,
                    const struct python_value *arguments, uint32_t count)
{
    int status = PTO_OK;

    for (uint32_t i = 0; i < count && status == PTO_OK; i++)
        status = scene_python_join(r, value, &arguments[i]);
    return status;
}

static bool is_method(const char *name)
{
    return strcmp(name, "resolve") == 0 || strcmp(name, "absolute") == 0 ||
           strcmp(name, "as_posix") == 0 || strcmp(name, "joinpath") == 0;
}

/* Reads a method of a path, with its call. */
static int read_method(struct python_reader *r, const char *name, struct python_value *value)
{
    bool is_join = strcmp(name, "joinpath") == 0;
    struct python_value arguments[ARGUMENTS_MAX];
    uint32_t count;
    int status = scene_python_expect(r, '(', "`(`");

    if (status == PTO_OK)
        status = read_arguments(r, is_join ? ARGUMENTS_MAX : 0, arguments, &count);
    if (status < 0)
        return status;
    if (is_join)
        return join_all(r, value, arguments, count);
    if (strcmp(name, "as_posix") == 0) {
        value->sort = PYTHON_TEXT;
        return PTO_OK;
    }
    return python_paths_make_absolute(r, value);
}

/* Whether this is a member of ArgDirection, from any module. */
static bool is_direction(const char *type, const char *member)
{
    static const char *const members[] = { "IN", "OUT", "INOUT", "SCALAR" };
    const char *dot = strrchr(type, '.');

    for (int i = 0; i < 4; i++)
        if (strcmp(member, members[i]) == 0)
            return strcmp(dot != NULL ? dot + 1 : type, "ArgDirection") == 0;
    return false;
}

int scene_python_read_member(struct python_reader *r, struct python_value *value)
{
    char name[PYTHON_NAME_BYTES];
    size_t length;
    int status = scene_python_read_name(r, name);

    if (status < 0)
        return status;
    if (value->sort == PYTHON_PATH && strcmp(name, "parent") == 0)
        return parse_parent(r, value, ".");
    if (value->sort == PYTHON_PATH && strcmp(name, "parents") == 0)
        return parse_parents(r, value);
    if (value->sort == PYTHON_PATH && is_method(name))
        return read_method(r, name, value);
    if (value->sort != PYTHON_FOREIGN)
        return scene_python_refuse(r,
                                   "'.%.80s' is not supported here: only paths have parent, "
                                   "parents, resolve, absolute, as_posix and joinpath",
                                   name);
    if (is_direction(value->name, name))
        return scene_python_make_text(r, value, PYTHON_WORD, name, strlen(name));
    length = strlen(value->name);
    if (length + strlen(name) + 2 > PYTHON_NAME_BYTES)
        return scene_python_refuse(r, "a Python name must not be longer than %d characters",
                                   PYTHON_NAME_BYTES - 1);
    value->name[length] = '.';
    memcpy(value->name + length + 1, name, strlen(name) + 1);
    return PTO_OK;
}

int scene_python_read_call(struct python_reader *r, struct python_value *value)
{
    struct python_value arguments[ARGUMENTS_MAX];
    uint32_t call = 0, count;
    int status;

    while (call < sizeof(calls) / sizeof(calls[0]) &&
           (value->sort != PYTHON_FOREIGN || strcmp(calls[call].name, value->name) != 0))
        call++;
    if (call == sizeof(calls) / sizeof(calls[0]))
        return scene_python_refuse_at(r, value,
                                      "%.80s cannot be called: no code is executed, and only Path, "
                                      "str and functions of os.path are known",
                                      value->sort == PYTHON_FOREIGN ? value->name : "this");
    status = read_arguments(r, calls[call].arguments_max, arguments, &count);
    if (status < 0)
        return status;
    if (count == 0)
        return scene_python_refuse_at(r, value, "%.80s needs an argument", value->name);
    arguments[0].line = value->line;
    arguments[0].column = value->column;
    *value = arguments[0];
    value->sort = calls[call].kind == CALL_PATH ? PYTHON_PATH : PYTHON_TEXT;
    switch (calls[call].kind) {
    case CALL_FOLDER:
        return parse_parent(r, value, "");
    case CALL_ABSOLUTE:
        return python_paths_make_absolute(r, value);
    default:
        return join_all(r, value, arguments + 1, count - 1);
    }
}

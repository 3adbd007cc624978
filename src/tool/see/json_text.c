/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/json_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 64 };

struct see_json see_json_start(const char *text)
{
    return (struct see_json){ .begin = text, .at = text };
}

static bool set_fault(struct see_json *j)
{
    j->has_fault = true;
    return false;
}

static char peek(struct see_json *j)
{
    j->at += strspn(j->at, " \t\r\n");
    return *j->at;
}

bool see_json_open(struct see_json *j, char bracket)
{
    if (j->has_fault || peek(j) != bracket)
        return set_fault(j);
    j->at++;
    j->is_first = true;
    return true;
}

/* Moves past a comma and returns true, or moves past the closing bracket and returns false. */
static bool pass_comma(struct see_json *j, char closing)
{
    bool is_first = j->is_first;

    j->is_first = false;
    if (j->has_fault)
        return false;
    if (peek(j) == closing) {
        j->at++;
        return false;
    }
    if (is_first)
        return true;
    if (*j->at != ',')
        return set_fault(j);
    j->at++;
    return true;
}

bool see_json_item(struct see_json *j)
{
    return pass_comma(j, ']');
}

bool see_json_key(struct see_json *j, char *key, size_t bytes)
{
    if (!pass_comma(j, '}') || !see_json_string(j, key, bytes))
        return false;
    if (peek(j) != ':')
        return set_fault(j);
    j->at++;
    return true;
}

bool see_json_integer(struct see_json *j, int64_t *out)
{
    bool is_quoted = !j->has_fault && peek(j) == '"';
    const char *from = j->at + is_quoted;
    char *end;

    if (j->has_fault || strchr("-0123456789", *from) == NULL || *from == '\0')
        return set_fault(j);
    errno = 0;
    *out = *from == '-' ? strtoll(from, &end, 10) : (int64_t)strtoull(from, &end, 10);
    if (errno != 0 || end == from)
        return set_fault(j);
    if (*end == '.' || *end == 'e' || *end == 'E')
        end += strspn(end, ".eE+-0123456789");
    if (is_quoted && *end++ != '"')
        return set_fault(j);
    j->at = end;
    return true;
}

/* Returns the character that an escape sequence stands for, and moves past the sequence. */
static char unescape(struct see_json *j)
{
    static const char from[] = "nrtbf", to[] = "\n\r\t\b\f";
    const char *found;
    char c = *j->at++;

    if (c == 'u') {
        uint32_t code = 0, digits = 0;

        for (; digits < 4 && strchr("0123456789abcdefABCDEF", *j->at) && *j->at != '\0'; digits++)
            code =
                code * 16 + (uint32_t)(*j->at <= '9' ? *j->at++ - '0' : (*j->at++ | 32) - 'a' + 10);
        return digits == 4 && code > 0 && code < 128 ? (char)code : '?';
    }
    found = c != '\0' ? strchr(from, c) : NULL;
    return found != NULL ? to[found - from] : c;
}

bool see_json_string(struct see_json *j, char *out, size_t bytes)
{
    size_t length = 0;

    if (!j->has_fault && peek(j) == 'n' && strncmp(j->at, "null", 4) == 0) {
        j->at += 4;
        out[0] = '\0';
        return true;
    }
    if (j->has_fault || *j->at != '"')
        return set_fault(j);
    for (j->at++; *j->at != '"' && *j->at != '\0';) {
        char c = *j->at++;

        if (c == '\\' && *j->at != '\0')
            c = unescape(j);
        if (length + 1 < bytes)
            out[length++] = c;
    }
    out[length] = '\0';
    if (*j->at != '"')
        return set_fault(j);
    j->at++;
    return true;
}

bool see_json_skip(struct see_json *j)
{
    uint32_t depth = 0;
    char text[2];

    do {
        char c = j->has_fault ? '\0' : peek(j);

        if (c == '"') {
            if (!see_json_string(j, text, sizeof(text)))
                return false;
        } else if (c == '[' || c == '{') {
            j->at++;
            if (++depth > DEPTH_MAX)
                return set_fault(j);
        } else if (c == ']' || c == '}') {
            if (depth == 0)
                return set_fault(j);
            j->at++;
            depth--;
        } else if (depth > 0 && (c == ',' || c == ':')) {
            j->at++;
        } else {
            size_t length = strcspn(j->at, ",:]}[{\" \t\r\n");

            if (j->has_fault || length == 0)
                return set_fault(j);
            j->at += length;
        }
    } while (depth > 0);
    return true;
}

uint32_t see_json_line(const struct see_json *j)
{
    uint32_t line = 1;

    for (const char *at = j->begin; at < j->at; at++)
        line += *at == '\n';
    return line;
}

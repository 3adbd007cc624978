/* SPDX-License-Identifier: Apache-2.0 */
/* Parses string and number literals of Python. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/scene/python_reader.h"

/* A string literal, or several adjacent ones joined. */
struct literal {
    char bytes[PYTHON_TEXT_MAX + 8];
    size_t length;
};

static const char prefixes[] = "rRuUbBfFtT";

/* Whether a string begins here: a quote after up to two letters. */
bool scene_python_is_text(const struct python_reader *r)
{
    const char *at = r->at;

    while (at < r->end && at - r->at < 2 && *at != '\0' && strchr(prefixes, *at) != NULL)
        at++;
    return at < r->end && (*at == '"' || *at == '\'');
}

static int put_byte(struct python_reader *r, struct literal *l, char c)
{
    if (l->length >= PYTHON_TEXT_MAX)
        return scene_python_refuse(r, "a text is longer than %d bytes", PYTHON_TEXT_MAX);
    if (((unsigned char)c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
        return scene_python_refuse(
            r, "a text must not contain control characters other than line ends and tabs");
    l->bytes[l->length++] = c;
    return PTO_OK;
}

static int put_code(struct python_reader *r, struct literal *l, uint32_t code)
{
    char out[4];
    int count = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    int status = PTO_OK;

    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return scene_python_refuse(r, "there is no such character");
    for (int i = count - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(first[count] | code);
    for (int i = 0; i < count && status == PTO_OK; i++)
        status = put_byte(r, l, out[i]);
    return status;
}

/* Reads the code of a character in an escape sequence: `digits` digits in `base`. */
static int read_code(struct python_reader *r, struct literal *l, int digits, uint32_t base)
{
    uint32_t code = 0;

    for (int i = 0; i < digits; i++, r->at++) {
        static const char all[] = "0123456789abcdef";
        char c = r->at < r->end ? *r->at : '\0';
        const char *digit = strchr(all, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);

        if (c == '\0' || digit == NULL || digit - all >= (int)base) {
            if (base == 8 && i > 0)
                break;
            return scene_python_refuse(r, "expected %d digits here", digits);
        }
        code = base * code + (uint32_t)(digit - all);
    }
    return put_code(r, l, code);
}

/* Reads an escape sequence after the backslash. */
static int read_escape(struct python_reader *r, struct literal *l)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = r->at < r->end ? *r->at : '\0';
    const char *plain = c != '\0' ? strchr(from, c) : NULL;
    int status;

    if (plain != NULL) {
        r->at++;
        return put_byte(r, l, to[plain - from]);
    }
    if (c >= '0' && c <= '7')
        return read_code(r, l, 3, 8);
    r->at += c != '\0';
    switch (c) {
    case '\n':
        r->line_begin = r->at;
        r->line++;
        return PTO_OK;
    case 'x':
        return read_code(r, l, 2, 16);
    case 'u':
        return read_code(r, l, 4, 16);
    case 'U':
        return read_code(r, l, 8, 16);
    case 'N':
        return scene_python_refuse(r, "characters by name are not supported; write the character");
    case '\0':
        return scene_python_refuse(r, "the text does not end");
    default: /* keeps the backslash, as Python does */
        status = put_byte(r, l, '\\');
        return status == PTO_OK ? put_byte(r, l, c) : status;
    }
}

/* Reads a string after its opening quotes, up to and including the closing ones. */
static int read_body(struct python_reader *r, struct literal *l, char quote, int quotes,
                     bool is_raw)
{
    static const char *const ends[] = { "\"\"\"", "'''" };
    const char *end = ends[quote == '\''];
    int status = PTO_OK;

    while (status == PTO_OK) {
        char c = r->at < r->end ? *r->at : '\0';

        if (r->at == r->end || (c == '\n' && quotes == 1))
            return scene_python_refuse(r, "the text does not end");
        if (r->end - r->at >= quotes && memcmp(r->at, end, (size_t)quotes) == 0)
            break;
        r->at++;
        if (c == '\\' && is_raw && r->at < r->end && *r->at == quote) {
            status = put_byte(r, l, c);
            c = *r->at++;
        } else if (c == '\\' && !is_raw) {
            status = read_escape(r, l);
            continue;
        }
        if (status == PTO_OK)
            status = put_byte(r, l, c);
        if (c == '\n') {
            r->line_begin = r->at;
            r->line++;
        }
    }
    r->at += quotes;
    return status;
}

static int read_one(struct python_reader *r, struct literal *l)
{
    bool is_raw = false;
    int quotes = 1;
    char quote;

    for (; *r->at != '"' && *r->at != '\''; r->at++) {
        if (strchr("bBfFtT", *r->at) != NULL)
            return scene_python_refuse(
                r, "texts with the prefix %c are not supported; write the text itself", *r->at);
        is_raw = is_raw || *r->at == 'r' || *r->at == 'R';
    }
    quote = *r->at;
    if (r->end - r->at >= 3 && r->at[1] == quote && r->at[2] == quote)
        quotes = 3;
    r->at += quotes;
    return read_body(r, l, quote, quotes, is_raw);
}

/* Reads a string; adjacent literals are joined. */
int scene_python_read_text(struct python_reader *r, struct python_value *value)
{
    struct literal *l = malloc(sizeof(*l));
    int status = PTO_OK;

    if (l == NULL)
        return scene_python_no_memory(r);
    l->length = 0;
    while (status == PTO_OK && scene_python_is_text(r)) {
        status = read_one(r, l);
        if (status == PTO_OK)
            scene_python_skip(r);
    }
    if (status == PTO_OK)
        status = scene_python_make_text(r, value, PYTHON_TEXT, l->bytes, l->length);
    free(l);
    return status;
}

/* ---- numbers ---- */

static int refuse_number(struct python_reader *r, const struct python_value *value)
{
    return scene_python_refuse_at(r, value, "this is not a number, or it exceeds 64 bits");
}

int scene_python_read_number(struct python_reader *r, bool is_negative, struct python_value *value)
{
    char digits[64] = "", *end;
    size_t length = 0;
    bool is_float = false;
    const char *number = digits + 1;
    int base = 10;

    digits[length++] = '-';
    for (; r->at < r->end && (scene_python_is_name(*r->at, false) || *r->at == '.' ||
                              ((*r->at == '-' || *r->at == '+') && base == 10 && length > 1 &&
                               (digits[length - 1] == 'e' || digits[length - 1] == 'E')));
         r->at++) {
        if (*r->at == '_' && length > 1)
            continue;
        if (length + 2 > sizeof(digits))
            return refuse_number(r, value);
        digits[length++] = *r->at;
        digits[length] = '\0';
        if (length == 3 && number[0] == '0')
            base = strchr("xX", number[1]) != NULL   ? 16
                   : strchr("oO", number[1]) != NULL ? 8
                   : strchr("bB", number[1]) != NULL ? 2
                                                     : 10;
        is_float = is_float || (base == 10 && strchr(".eE", *r->at) != NULL);
    }
    if (number[strspn(number, is_float ? "0123456789.eE+-" : "0123456789abcdefABCDEFxXoO")] !=
            '\0' ||
        number[0] == '\0')
        return refuse_number(r, value);
    errno = 0;
    if (is_float) {
        bool is_finite = isfinite(strtod(number, &end));

        if (*end != '\0' || end == number || !is_finite)
            return refuse_number(r, value);
    } else {
        long long whole;

        if (base == 10 && number[0] == '0' && number[strspn(number, "0")] != '\0')
            return refuse_number(r, value);
        number += base != 10 ? 2 : 0;
        whole = strtoll(number, &end, base);
        if (*end != '\0' || end == number || errno != 0 || *number == '-')
            return refuse_number(r, value);
        snprintf(digits + 1, sizeof(digits) - 1, "%lld", whole);
        is_negative = is_negative && whole != 0;
    }
    number = is_negative ? digits : digits + 1;
    return scene_python_make_text(r, value, PYTHON_NUMBER, number, strlen(number));
}

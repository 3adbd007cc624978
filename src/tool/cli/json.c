/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON with one line per deeply nested value, so that a table stays readable. */
#include "tool/cli/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"

enum { DEPTH_LINES = 2 }; /* values up to this depth are printed on a separate line each */

static void begin_value(struct json *j, const char *key);
static void write_quoted(FILE *to, const char *text);

struct json cli_json_start(FILE *to)
{
    return (struct json){ .to = to };
}

void cli_json_open(struct json *j, const char *key, char bracket)
{
    begin_value(j, key);
    fputc(bracket, j->to);
    j->depth++;
    j->has_value = false;
}

void cli_json_close(struct json *j, char bracket)
{
    if (j->has_value && j->depth <= DEPTH_LINES)
        fprintf(j->to, "\n%*s", 2 * (int)(j->depth - 1), "");
    else if (j->has_value)
        fputc(' ', j->to);
    fputc(bracket, j->to);
    j->depth--;
    j->has_value = true;
    if (j->depth == 0)
        fputc('\n', j->to);
}

void cli_json_string(struct json *j, const char *key, const char *value)
{
    begin_value(j, key);
    if (value != NULL)
        write_quoted(j->to, value);
    else
        fputs("null", j->to);
}

void cli_json_bool(struct json *j, const char *key, bool value)
{
    begin_value(j, key);
    fputs(value ? "true" : "false", j->to);
}

void cli_json_integer(struct json *j, const char *key, uint64_t value)
{
    begin_value(j, key);
    fprintf(j->to, "%" PRIu64, value);
}

/* The program never calls setlocale, so the decimal sign is a point. */
void cli_json_number(struct json *j, const char *key, double value, int decimals)
{
    begin_value(j, key);
    if (isfinite(value))
        fprintf(j->to, "%.*f", decimals, value);
    else
        fputs("null", j->to);
}

static void begin_value(struct json *j, const char *key)
{
    if (j->has_value)
        fputc(',', j->to);
    if (j->depth > DEPTH_LINES)
        fputc(' ', j->to);
    else if (j->depth > 0)
        fprintf(j->to, "\n%*s", 2 * (int)j->depth, "");
    if (key != NULL) {
        write_quoted(j->to, key);
        fputs(": ", j->to);
    }
    j->has_value = true;
}

static void write_quoted(FILE *to, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    fputc('"', to);
    while (*at != '\0') {
        /* length 0: the bytes are invalid UTF-8, which a path may contain and JSON may not */
        uint32_t length = error_character_bytes(at);

        if (*at == '"' || *at == '\\')
            fprintf(to, "\\%c", *at);
        else if (*at < 0x20 || *at == 0x7f)
            fprintf(to, "\\u%04x", *at);
        else if (length == 0)
            fputs("\\ufffd", to);
        else
            fwrite(at, 1, length, to);
        at += length != 0 ? length : 1;
    }
    fputc('"', to);
}

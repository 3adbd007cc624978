/* SPDX-License-Identifier: Apache-2.0 */
/* Colours and progress: for people at a terminal only, never in a file or a pipe. */
#ifndef PTO_TERMINAL_H
#define PTO_TERMINAL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pto/error.h"

#define TERMINAL_BOLD "\033[1m"
#define TERMINAL_RED "\033[31m"
#define TERMINAL_GREEN "\033[32m"
#define TERMINAL_YELLOW "\033[33m"
#define TERMINAL_PLAIN "\033[0m"
#define TERMINAL_CLEAR "\r\033[K" /* clears the line before it is written again */

/* See no-color.org: the variable counts when it is not empty. */
static inline bool terminal_has_colour(FILE *to)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    return isatty(fileno(to)) && (no_color == NULL || no_color[0] == '\0') &&
           (term == NULL || strcmp(term, "dumb") != 0);
}

/* `code` on a terminal with colours, else nothing. */
static inline const char *terminal_code(FILE *to, const char *code)
{
    return terminal_has_colour(to) ? code : "";
}

/*
 * Text from outside (names in files, what compilers and goldens print), which may
 * be NULL: it cannot move the cursor, change colours or pretend to be another line.
 */
static inline void terminal_print(FILE *to, const char *text, bool is_name)
{
    char *copy = text != NULL ? strdup(text) : NULL;

    if (copy != NULL)
        fputs(pto_text_clean(copy, is_name), to);
    free(copy);
}

/* As fprintf, and the whole is cleaned like that: for sentences with names in them. */
__attribute__((format(printf, 2, 3))) static inline void terminal_tell(FILE *to, const char *format,
                                                                       ...)
{
    char *text = NULL;
    size_t size;
    FILE *made = open_memstream(&text, &size);
    va_list args;

    if (made == NULL)
        return;
    va_start(args, format);
    vfprintf(made, format, args);
    va_end(args);
    if (fclose(made) == 0)
        fputs(pto_text_clean(text, false), to);
    free(text);
}

/* The lines of a text from outside, which may be NULL, on stdout. */
static inline void terminal_print_indented(const char *given, const char *indent)
{
    char *copy = given != NULL ? strdup(given) : NULL;
    const char *text = pto_text_clean(copy, false);

    while (text != NULL && *text != '\0') {
        size_t length = strcspn(text, "\n");

        printf("%s%.*s\n", indent, (int)length, text);
        text += length + (text[length] != '\0');
    }
    free(copy);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Colours and progress lines, for terminals only, never in a file or a pipe. */
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
#define TERMINAL_CLEAR "\r\033[K" /* escape sequence that clears the line before a new text */

/* Whether to use colours; honours NO_COLOR if it is not empty (no-color.org). */
static inline bool terminal_has_colour(FILE *to)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    return isatty(fileno(to)) && (no_color == NULL || no_color[0] == '\0') &&
           (term == NULL || strcmp(term, "dumb") != 0);
}

/* Returns `code` on a terminal with colours, else "". */
static inline const char *terminal_code(FILE *to, const char *code)
{
    return terminal_has_colour(to) ? code : "";
}

/*
 * Prints text from outside (names in files, output of compilers and goldens), which may be NULL. It
 * is cleaned of control characters, so it cannot move the cursor, change colours or fake another
 * line.
 */
static inline void terminal_print(FILE *to, const char *text, bool is_name)
{
    char *copy = text != NULL ? strdup(text) : NULL;

    if (copy != NULL)
        fputs(pto_text_clean(copy, is_name), to);
    free(copy);
}

/*
 * Prints like fprintf and cleans the whole text of control characters, for sentences with names
 * from outside.
 */
__attribute__((format(printf, 2, 3))) static inline void terminal_printf(FILE *to,
                                                                         const char *format, ...)
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

/* Prints the lines of an external text, which may be NULL, on stdout. */
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

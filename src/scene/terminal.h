/* SPDX-License-Identifier: Apache-2.0 */
/* Colours and progress: for people at a terminal only, never in a file or a pipe. */
#ifndef PTO_TERMINAL_H
#define PTO_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* The lines of a text, which may be NULL, on stdout. */
static inline void terminal_print_indented(const char *text, const char *indent)
{
    while (text != NULL && *text != '\0') {
        size_t length = strcspn(text, "\n");

        printf("%s%.*s\n", indent, (int)length, text);
        text += length + (text[length] != '\0');
    }
}

#endif

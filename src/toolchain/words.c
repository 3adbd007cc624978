/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for vasprintf */
#endif

#include "toolchain/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void words_add_part(struct words *words, const char *word, size_t length)
{
    char *copy = malloc(length + 1);

    if (words->count + 2 > words->room) {
        uint32_t room = words->room == 0 ? 16 : 2 * words->room;
        char **at = realloc(words->at, room * sizeof(*at));

        if (at != NULL) {
            words->at = at;
            words->room = room;
        }
    }
    if (copy == NULL || words->count + 2 > words->room) {
        free(copy);
        words->is_short = true;
        return;
    }
    memcpy(copy, word, length);
    copy[length] = '\0';
    words->at[words->count++] = copy;
    words->at[words->count] = NULL;
}

void words_add(struct words *words, const char *word)
{
    words_add_part(words, word, strlen(word));
}

void words_format(struct words *words, const char *format, ...)
{
    va_list args;
    char *word = NULL;

    va_start(args, format);
    if (vasprintf(&word, format, args) < 0)
        word = NULL;
    va_end(args);
    if (word == NULL)
        words->is_short = true;
    else
        words_add(words, word);
    free(word);
}

void words_add_all(struct words *words, const struct words *more)
{
    for (uint32_t i = 0; i < more->count; i++)
        words_add(words, more->at[i]);
    words->is_short = words->is_short || more->is_short;
}

/* Copies the word at *at, without its quotes, to `to`, and advances *at past it. */
static size_t split_word(const char **at, char *to)
{
    char quote = '\0';
    size_t length = 0;

    for (; **at != '\0'; ++*at) {
        char c = **at;

        if (quote == '\0' && strchr(" \t\n", c) != NULL)
            break;
        if (c == quote) {
            quote = '\0';
        } else if (quote == '\0' && (c == '"' || c == '\'')) {
            quote = c;
        } else {
            if (c == '\\' && quote != '\'' && (*at)[1] != '\0')
                c = *++*at;
            to[length++] = c;
        }
    }
    return length;
}

void words_split(struct words *words, const char *text)
{
    char *word = malloc(strlen(text) + 1);

    if (word == NULL) {
        words->is_short = true;
        return;
    }
    for (;;) {
        text += strspn(text, " \t\n");
        if (*text == '\0')
            break;

        size_t length = split_word(&text, word);

        words_add_part(words, word, length);
    }
    free(word);
}

bool words_are_equal(const struct words *a, const struct words *b)
{
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (strcmp(a->at[i], b->at[i]) != 0)
            return false;
    return true;
}

bool words_has(const struct words *words, const char *word)
{
    for (uint32_t i = 0; i < words->count; i++)
        if (strcmp(words->at[i], word) == 0)
            return true;
    return false;
}

void words_free(struct words *words)
{
    for (uint32_t i = 0; i < words->count; i++)
        free(words->at[i]);
    free(words->at);
    *words = (struct words){ 0 };
}

void text_add(struct text *text, const void *bytes, size_t size)
{
    if (text->size + size + 1 > text->room) {
        size_t room =
            2 * text->room > text->size + size + 1 ? 2 * text->room : text->size + size + 256;
        char *grown = realloc(text->bytes, room);

        if (grown == NULL) {
            text->is_short = true;
            return;
        }
        text->bytes = grown;
        text->room = room;
    }
    if (size != 0)
        memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
    text->bytes[text->size] = '\0';
}

void text_format(struct text *text, const char *format, ...)
{
    va_list args;
    char *more = NULL;
    int length;

    va_start(args, format);
    length = vasprintf(&more, format, args);
    va_end(args);
    if (length < 0) {
        text->is_short = true;
        return;
    }
    text_add(text, more, (size_t)length);
    free(more);
}

void text_free(struct text *text)
{
    free(text->bytes);
    *text = (struct text){ 0 };
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of words, such as argv and envp, and growing texts. A failed allocation is recorded instead
 * of being reported at each step: check once, at the end.
 */
#ifndef PTO_WORDS_H
#define PTO_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A list of words. All zero: an empty list. at[count] is NULL once a word has been added. */
struct words {
    char **at;
    uint32_t count;
    uint32_t room;
    bool is_short; /* memory was exhausted, so a word is missing */
};

void words_add(struct words *words, const char *word);
void words_add_part(struct words *words, const char *word, size_t length);
void words_format(struct words *words, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void words_add_all(struct words *words, const struct words *more);
/* Splits a text at white space and appends the words; quotes and backslashes work as in a shell. */
void words_split(struct words *words, const char *text);
bool words_are_equal(const struct words *a, const struct words *b);
bool words_has(const struct words *words, const char *word);
void words_free(struct words *words);

/* A growing text. All zero: an empty text. A zero follows its bytes once anything was added. */
struct text {
    char *bytes;
    size_t size;
    size_t room;
    bool is_short;
};

void text_add(struct text *text, const void *bytes, size_t size);
void text_format(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_free(struct text *text);

#endif

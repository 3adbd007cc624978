/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads JSON from memory, value by value, without building a tree. After an error every function
 * returns false, so that a reader can check once, at its end.
 *
 *     see_json_open(&j, '{');
 *     while (see_json_key(&j, key, sizeof(key)))
 *         if (strcmp(key, "count") == 0)
 *             see_json_integer(&j, &count);
 *         else
 *             see_json_skip(&j);
 */
#ifndef PTO_SEE_JSON_TEXT_H
#define PTO_SEE_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct see_json {
    const char *begin;
    const char *at; /* next character; the text ends with a zero byte */
    bool is_first;  /* an array or object was opened, and none of its items was read yet */
    bool has_fault;
};

struct see_json see_json_start(const char *text);
/*
 * Moves into an array (`bracket` is '[') or an object ('{'). Returns false if the next value is
 * something else.
 */
bool see_json_open(struct see_json *j, char bracket);
/* Returns whether the array has another item; if not, leaves the array. */
bool see_json_item(struct see_json *j);
/*
 * Returns whether the object has another item, and writes the item's key to `key`, cut off to fit.
 * If there is no other item, leaves the object.
 */
bool see_json_key(struct see_json *j, char *key, size_t bytes);
/* Reads a number, which may be in quotes. A fraction is cut off. */
bool see_json_integer(struct see_json *j, int64_t *out);
/*
 * Reads a string, cut off to fit. null is read as an empty string. Escapes (\u) beyond ASCII become
 * '?'.
 */
bool see_json_string(struct see_json *j, char *out, size_t bytes);
/* Skips a value of any kind. */
bool see_json_skip(struct see_json *j);
/* Returns the line at which reading stopped, counted from 1. */
uint32_t see_json_line(const struct see_json *j);

#endif

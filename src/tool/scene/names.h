/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up a word in a table of names of the library, and lists the names for messages. */
#ifndef PTO_NAMES_H
#define PTO_NAMES_H

#include <stdbool.h>
#include <stdint.h>

enum { NAMES_TEXT_MAX = 512 };

typedef const char *(*scene_name_fn)(uint32_t index);

/* Returns the row with that name; -1: there is none. */
int scene_find_name(scene_name_fn name, uint32_t count, const char *word);
/* Lists the names as "a, b or c", with `last` for "or". Returns `text`. */
const char *scene_list_names(scene_name_fn name, uint32_t count, const char *last,
                             char text[NAMES_TEXT_MAX]);

/*
 * Lists the names of all platforms, or if is_open of those that can be opened, and the word `more`
 * unless it is NULL.
 */
const char *scene_list_platforms(bool is_open, const char *last, const char *more,
                                 char text[NAMES_TEXT_MAX]);

#endif

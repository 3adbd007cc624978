/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the library's tables: which row a word is, and all of them in a sentence. */
#ifndef PTO_NAMES_H
#define PTO_NAMES_H

#include <stdbool.h>
#include <stdint.h>

enum { NAMES_TEXT_MAX = 512 };

typedef const char *(*scene_name_fn)(uint32_t index);

/* The row of that name, -1: there is none. */
int scene_find_name(scene_name_fn name, uint32_t count, const char *word);
/* "a, b or c", with `last` for the "or". Returns `text`. */
const char *scene_list_names(scene_name_fn name, uint32_t count, const char *last,
                             char text[NAMES_TEXT_MAX]);

/* The same of platforms: all, or those that can be opened; and one word more, or NULL. */
const char *scene_list_platforms(bool is_open, const char *last, const char *more,
                                 char text[NAMES_TEXT_MAX]);

#endif

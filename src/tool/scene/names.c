/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a word in a table of names, and formats a table of names for messages. */
#include "tool/scene/names.h"

#include <stdio.h>
#include <string.h>

#include "pto/platform.h"

enum { ROWS_MAX = 64 };

int scene_find_name(scene_name_fn name, uint32_t count, const char *word)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(name(i), word) == 0)
            return (int)i;
    return -1;
}

static void names_join(const char *const *names, uint32_t count, const char *last, char *text)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < count && used < NAMES_TEXT_MAX; i++) {
        bool is_last = i + 1 == count;

        used +=
            (size_t)snprintf(text + used, NAMES_TEXT_MAX - used, "%s%s%s%s",
                             i == 0    ? ""
                             : is_last ? " "
                                       : ", ",
                             i != 0 && is_last ? last : "", i != 0 && is_last ? " " : "", names[i]);
    }
}

const char *scene_list_names(scene_name_fn name, uint32_t count, const char *last,
                             char text[NAMES_TEXT_MAX])
{
    const char *names[ROWS_MAX];

    if (count > ROWS_MAX)
        count = ROWS_MAX;
    for (uint32_t i = 0; i < count; i++)
        names[i] = name(i);
    names_join(names, count, last, text);
    return text;
}

const char *scene_list_platforms(bool is_open, const char *last, const char *more,
                                 char text[NAMES_TEXT_MAX])
{
    const char *names[ROWS_MAX];
    const struct pto_platform *platform;
    uint32_t count = 0;

    for (uint32_t i = 0; (platform = pto_platform_at(i)) != NULL && count < ROWS_MAX; i++)
        if (!is_open || platform->missing == NULL)
            names[count++] = platform->name;
    if (more != NULL && count < ROWS_MAX)
        names[count++] = more;
    names_join(names, count, last, text);
    return text;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Reads lists of hosts and distributes ranks over them; see launch_places.h. */
#include "tool/cli/launch_places.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tool/cli/options.h"
#include "tool/cli/ranks.h"

enum { PLACES_FILE_MAX = 1 << 20 };

/* Finds the host in the list, or adds it. A host that is named twice has the slots of both. */
static int add_place(struct launch_places *places, const char *name, uint64_t slots, bool has_slots,
                     struct pto_error *error)
{
    struct launch_place *p = places->place, *end = p + places->count;

    while (p < end && strcmp(p->name, name) != 0)
        p++;
    if (p == end && places->count == HOSTS_MAX)
        return error_setf(error, PTO_EINVAL, "more than %d hosts", HOSTS_MAX);
    if (p == end) {
        memset(p, 0, sizeof(*p));
        memcpy(p->name, name, strlen(name) + 1);
        places->count++;
    }
    p->slots += (uint32_t)slots;
    p->has_slots |= has_slots;
    return PTO_OK;
}

/*
 * Adds a host given as NAME or NAME:COUNT. A word with several colons or with brackets is an IPv6
 * address.
 */
static int take_word(struct launch_places *places, char *word, struct pto_error *error)
{
    char *colon = strrchr(word, ':'), *open = strchr(word, '['), *close = strrchr(word, ']');
    bool is_address = open == NULL && colon != NULL && strchr(word, ':') != colon;
    uint64_t slots = 1;
    bool has_slots = false;

    if (colon != NULL && !is_address && (close == NULL || colon > close)) {
        if (!cli_parse_number(colon + 1, 1, RANKS_MAX, &slots))
            return error_setf(error, PTO_EINVAL,
                              "'%.200s': a number of ranks, 1 to %d, must follow the colon", word,
                              RANKS_MAX);
        *colon = '\0';
        has_slots = true;
    }
    /* removes the brackets of an IPv6 address, which ssh does not accept */
    if (open != NULL && close != NULL && close[1] == '\0') {
        *close = '\0';
        memmove(open, open + 1, strlen(open));
    }
    /* refuses a name with a leading hyphen, which the remote shell would treat as an option */
    if (word[0] == '-' || word[0] == '\0' || strlen(word) >= HOST_NAME_MAX_BYTES ||
        strpbrk(word, " \t\"'\\$`;&|<>()") != NULL)
        return error_setf(error, PTO_EINVAL, "'%.200s' is not the name of a host", word);
    return add_place(places, word, slots, has_slots, error);
}

int cli_launch_places_add(struct launch_places *places, const char *list, struct pto_error *error)
{
    char *copy = strdup(list), *rest = copy, *word;
    int status = copy != NULL ? PTO_OK : PTO_ENOMEM;

    while (status == PTO_OK && (word = strsep(&rest, ",")) != NULL)
        status = take_word(places, word, error);
    free(copy);
    return status;
}

/* Parses one line of a host file. */
static int take_line(struct launch_places *places, char *line, struct pto_error *error)
{
    char *name, *option, *rest = NULL;

    line[strcspn(line, "#\r")] = '\0';
    name = strtok_r(line, " \t", &rest);
    if (name == NULL)
        return PTO_OK;
    option = strtok_r(NULL, " \t", &rest);
    if (option != NULL) {
        char word[HOST_NAME_MAX_BYTES + 16];

        if (strncmp(option, "slots=", 6) != 0 || strtok_r(NULL, " \t", &rest) != NULL)
            return error_setf(error, PTO_EINVAL, "slots=COUNT must follow a name, not '%.100s'",
                              option);
        snprintf(word, sizeof(word), "%.255s:%.8s", name, option + 6);
        return take_word(places, word, error);
    }
    return take_word(places, name, error);
}

int cli_launch_places_read(struct launch_places *places, const char *path, struct pto_error *error)
{
    struct pto_error why = { .size = sizeof(why) };
    char *bytes, *rest, *line;
    uint32_t number = 0;
    size_t size;
    int status = file_load(path, PLACES_FILE_MAX, &bytes, &size, error);

    if (status < 0)
        return status;
    rest = bytes;
    while (status == PTO_OK && (line = strsep(&rest, "\n")) != NULL) {
        number++;
        status = take_line(places, line, &why);
    }
    free(bytes);
    return status == PTO_OK ? PTO_OK
                            : error_setf(error, status, "%.300s:%u: %s", path, number, why.text);
}

int cli_launch_places_assign(struct launch_places *places, uint32_t *ranks, struct pto_error *error)
{
    uint32_t total = 0, used = 0, kept = 0, share;
    bool has_slots = false;

    for (uint32_t i = 0; i < places->count; i++) {
        total += places->place[i].slots;
        has_slots |= places->place[i].has_slots;
    }
    if (*ranks == 0)
        *ranks = total;
    if (*ranks > RANKS_MAX)
        return error_setf(error, PTO_EINVAL, "%u ranks are more than %d", *ranks, RANKS_MAX);
    if (*ranks > total && has_slots)
        return error_setf(error, PTO_EINVAL, "%u ranks do not fit: the hosts have %u slots", *ranks,
                          total);
    share = *ranks > total ? *ranks / places->count : 0;
    for (uint32_t i = 0; i < places->count; i++) {
        struct launch_place *p = &places->place[i];

        p->first = used;
        p->count = share == 0 ? p->slots : share + (i < *ranks % places->count);
        if (p->count > *ranks - used)
            p->count = *ranks - used;
        used += p->count;
        if (p->count > 0)
            places->place[kept++] = *p;
    }
    places->count = kept;
    return PTO_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Options by getopt_long; the sentences are ours, because its own do not name the way out. */
#include "cli/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "pto/pto.h"
#include "scene/names.h"

int options_parse_json(int argc, char **argv, const char *usage, bool *is_json_out)
{
    static const struct option options[] = {
        { "json", no_argument, NULL, 'j' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    int key;

    *is_json_out = false;
    opterr = 0;
    optind = 0; /* argv is not the one the program started with */
    while ((key = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        switch (key) {
        case 'j':
            *is_json_out = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return EXIT_OK;
        default:
            return options_refuse(argv, key);
        }
    }
    return optind < argc ? options_too_many(argv, argv[optind]) : -1;
}

bool options_number(const char *text, uint64_t low, uint64_t high, uint64_t *value_out)
{
    if (text[0] == '\0' || strspn(text, "0123456789") != strlen(text))
        return false;
    errno = 0;

    uint64_t value = strtoull(text, NULL, 10);

    if (errno != 0 || value < low || value > high)
        return false;
    *value_out = value;
    return true;
}

int options_refuse(char **argv, int key)
{
    const char *text = argv[optind - 1];
    bool is_long = strncmp(text, "--", 2) == 0;
    char letter[] = { '-', (char)optopt, '\0' };
    const char *why = key == ':'               ? "wants a value"
                      : is_long && optopt != 0 ? "takes no value"
                                               : "is not an option";

    fprintf(stderr, "pto %s: '%s' %s; `pto %s --help` lists the options\n", argv[0],
            is_long ? text : letter, why, argv[0]);
    return EXIT_USAGE;
}

int options_too_many(char **argv, const char *unexpected)
{
    fprintf(stderr, "pto %s: '%s' is not an option; `pto %s --help` lists the options\n", argv[0],
            unexpected, argv[0]);
    return EXIT_USAGE;
}

int options_count(const char *command, const char *option, const char *value, uint64_t high,
                  uint32_t *count_out)
{
    uint64_t number;

    if (options_number(value, 1, high, &number)) {
        *count_out = (uint32_t)number;
        return -1;
    }
    fprintf(stderr, "pto %s: --%s wants a number from 1 to %llu, not '%s'\n", command, option,
            (unsigned long long)high, value);
    return EXIT_USAGE;
}

int options_seconds(const char *command, const char *option, const char *value, double *seconds_out)
{
    char *end;

    *seconds_out = strtod(value, &end);
    if (end != value && *end == '\0' && *seconds_out >= 0.001 && *seconds_out <= 86400)
        return -1;
    fprintf(stderr, "pto %s: --%s wants seconds, from 0.001 to 86400, not '%s'\n", command, option,
            value);
    return EXIT_USAGE;
}

int options_platform(const char *command, const char *value, const char **platform_out)
{
    const struct pto_platform *platform = pto_platform_find(value);
    char names[NAMES_TEXT_MAX];

    *platform_out = strcmp(value, "all") == 0 ? NULL : value;
    if (*platform_out == NULL || (platform != NULL && platform->missing == NULL))
        return -1;
    names_platforms(true, "and", names);
    if (platform != NULL)
        fprintf(stderr, "pto %s: %s is %s; there are %s\n", command, value, platform->missing,
                names);
    else
        fprintf(stderr, "pto %s: there is no platform '%s'; there are %s\n", command, value, names);
    return EXIT_USAGE;
}

static const char *mode_or_all(uint32_t index)
{
    return index < PTO_MODE_COUNT ? pto_mode_name(index) : "all";
}

int options_modes(const char *command, const char *value, uint32_t *modes_out)
{
    int mode = names_find(mode_or_all, PTO_MODE_COUNT + 1, value);
    char names[NAMES_TEXT_MAX];

    *modes_out = mode == PTO_MODE_COUNT ? PTO_MODES_ALL : mode >= 0 ? 1u << mode : 0;
    if (mode >= 0)
        return -1;
    fprintf(stderr, "pto %s: --mode is %s, not '%s'\n", command,
            names_list(mode_or_all, PTO_MODE_COUNT + 1, "or", names), value);
    return EXIT_USAGE;
}

int options_text(const char *command, const char *option, const char *value, const char **list,
                 uint32_t max, uint32_t *count)
{
    if (*count < max) {
        list[(*count)++] = value;
        return -1;
    }
    fprintf(stderr, "pto %s: --%s at most %u times\n", command, option, max);
    return EXIT_USAGE;
}

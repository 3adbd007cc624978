/* SPDX-License-Identifier: Apache-2.0 */
/* Options by getopt_long; the sentences are ours, because its own do not name the way out. */
#include "cli/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"

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

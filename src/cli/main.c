/* SPDX-License-Identifier: Apache-2.0 */
/* The table of commands and what `pto` says without one. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "pto/pto.h"

static const struct command commands[] = {
    { "run", "run an example on the simulated chips", cmd_run },
    { "check", "compare the engine with a naive model", cmd_check },
};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void print_usage(FILE *to)
{
    fprintf(to, "usage: pto COMMAND [OPTION...]\n\n");
    for (int i = 0; i < COMMANDS; i++)
        fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fprintf(to, "\n  pto COMMAND --help   the options of a command\n"
                "  pto --version        the version of the library\n");
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_usage(stdout);
        return EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("pto %s\n", pto_version());
        return EXIT_OK;
    }
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);

    fprintf(stderr, "pto: there is no command '%s'; `pto --help` lists them\n", argv[1]);
    return EXIT_USAGE;
}

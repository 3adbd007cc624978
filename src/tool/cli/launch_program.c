/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the program that ranks run, and replaces a process by it; see launch_program.h. */
#include "tool/cli/launch_program.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tool/cli/machine.h"
#include "tool/scene/terminal.h"

int cli_launch_find_program(const char *name, char why[LAUNCH_TEXT_MAX])
{
    char path[PATH_MAX];
    bool has_folder = strchr(name, '/') != NULL;

    if (has_folder ? access(name, F_OK) == 0 : cli_machine_find_program(name, path))
        return 0;
    snprintf(why, LAUNCH_TEXT_MAX, "program '%.600s' not found%s", name,
             has_folder ? "" : " in PATH; write ./NAME for a program in this folder");
    return EXIT_NOT_FOUND;
}

int cli_launch_become(void *context, uint32_t rank)
{
    char **words = context;
    int why;

    (void)rank;
    execvp(words[0], words);
    why = errno;
    terminal_printf(stderr, "pto launch: cannot run %s: %s\n", words[0], strerror(why));
    return why == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN;
}

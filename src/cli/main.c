/* SPDX-License-Identifier: Apache-2.0 */
/* The table of commands and what `pto` says without one. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "scene/terminal.h"
#include "pto/pto.h"

static const struct command commands[] = {
    { "run", "build a scene and run it on the simulated chips", cmd_run },
    { "test", "run many scenes and compare their results", cmd_test },
    { "new", "make a scene to start from", cmd_new },
    { "build", "compile kernels and an orchestration into one file", cmd_build },
    { "check", "compare the engine with a naive model", cmd_check },
    { "bench", "measure the cost of empty tasks", cmd_bench },
    { "cache", "show, verify or clear the store of what was compiled", cmd_cache },
    { "info", "list platforms, compilers and the machine", cmd_info },
    { "doctor", "find what is wrong here, and the fix", cmd_doctor },
    { "inspect", "print what is in an artefact", cmd_inspect },
    { "drill", "provoke the faults that a program can meet", cmd_drill },
};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void open_standard_files(void);
static int run_command(int argc, char **argv);
static int flush_output(int code);

int main(int argc, char **argv)
{
    open_standard_files();
    return flush_output(run_command(argc, argv));
}

static void print_usage(FILE *to)
{
    fprintf(to, "usage: pto COMMAND [OPTION...]\n\n");
    for (int i = 0; i < COMMANDS; i++)
        fprintf(to, "  %s%-10s%s %s\n", terminal_code(to, TERMINAL_BOLD), commands[i].name,
                terminal_code(to, TERMINAL_PLAIN), commands[i].summary);
    fprintf(to, "\n  pto help COMMAND     the options of a command (also: pto COMMAND --help)\n"
                "  pto --version        the version of the library\n");
}

static const struct command *find_command(const char *name)
{
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    fprintf(stderr, "pto: there is no command '%s'; `pto --help` lists them\n", name);
    return NULL;
}

/* `pto help COMMAND` is `pto COMMAND --help`. */
static int print_help(const char *name)
{
    static char option[] = "--help";
    const struct command *command = find_command(name);
    char *argv[] = { NULL, option, NULL };

    if (command == NULL)
        return EXIT_USAGE;
    argv[0] = (char *)(uintptr_t)command->name; /* getopt's type; nobody writes to it */
    return command->run(2, argv);
}

static int run_command(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        (strcmp(argv[1], "help") == 0 && argc == 2)) {
        print_usage(stdout);
        return EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("pto %s\n", pto_version());
        return EXIT_OK;
    }
    if (strcmp(argv[1], "help") == 0) {
        if (argc == 3)
            return print_help(argv[2]);
        fprintf(stderr, "pto help: one command at a time; '%s' is too many\n", argv[3]);
        return EXIT_USAGE;
    }

    const struct command *command = find_command(argv[1]);

    return command != NULL ? command->run(argc - 1, argv + 1) : EXIT_USAGE;
}

/*
 * A file that a command opens must not become its standard output. Read only,
 * so that writing to what was closed is still an error.
 */
static void open_standard_files(void)
{
    for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++)
        if (fcntl(file, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != file)
            _exit(EXIT_FAILED);
}

/* Output that is lost, on a full disk for instance, is a failure. */
static int flush_output(int code)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fprintf(stderr, "pto: the output is incomplete: %s\n",
            errno != 0 ? strerror(errno) : "a write failed");
    return code != EXIT_OK ? code : EXIT_FAILED;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The main program of `pto`: dispatches to the commands, and prints a list of them. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tool/cli/commands.h"
#include "pto/pto.h"
#include "tool/scene/terminal.h"

static const struct cli_command *const commands[] = {
    &cmd_run,   &cmd_profile, &cmd_diff,      &cmd_races,          &cmd_test,    &cmd_launch,
    &cmd_new,   &cmd_build,   &cmd_report,    &cmd_graph,          &cmd_check,   &cmd_bench,
    &cmd_cache, &cmd_info,    &cmd_top,       &cmd_doctor,         &cmd_inspect, &cmd_sign,
    &cmd_key,   &cmd_drill,   &cmd_selfcheck, &cmd_install_compat,
};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void open_standard_files(void);
static void catch_file_limit(void);
static int dispatch(int argc, char **argv);
static int main_flush_output(int code);

int main(int argc, char **argv)
{
    open_standard_files();
    catch_file_limit();
    return main_flush_output(dispatch(argc, argv));
}

static void print_usage(FILE *to)
{
    fprintf(to, "usage: pto COMMAND [OPTION...]\n\n");
    for (int i = 0; i < COMMANDS; i++)
        fprintf(to, "  %s%-12s%s %s\n", terminal_code(to, TERMINAL_BOLD), commands[i]->name,
                terminal_code(to, TERMINAL_PLAIN), commands[i]->summary);
    fprintf(to, "\n  pto help COMMAND     the options of a command (also: pto COMMAND --help)\n"
                "  pto --version        the version of the library\n");
}

static const struct cli_command *find_command(const char *name)
{
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i]->name) == 0)
            return commands[i];
    terminal_printf(stderr, "pto: unknown command '%s'; `pto --help` lists the commands\n", name);
    return NULL;
}

/*
 * Prints the input of tools/manual: the synopses of all commands or, for the name of a command, its
 * options.
 */
static int print_manual(const char *name)
{
    const struct cli_command *command = name != NULL ? find_command(name) : NULL;

    if (name != NULL && command == NULL)
        return EXIT_USAGE;
    if (command != NULL)
        cli_print_manual_options(stdout, command);
    for (int i = 0; name == NULL && i < COMMANDS; i++)
        cli_print_manual_synopsis(stdout, commands[i]);
    return EXIT_OK;
}

/* `pto help COMMAND` is `pto COMMAND --help`. */
static int print_help(int argc, char **argv)
{
    const struct cli_command *command;

    if (argc == 0) {
        print_usage(stdout);
        return EXIT_OK;
    }
    if (strcmp(argv[0], "--man") == 0 && argc <= 2)
        return print_manual(argv[1]);
    if (argc > 1) {
        terminal_printf(stderr, "pto help: unexpected argument '%s'; one command at a time\n",
                        argv[1]);
        return EXIT_USAGE;
    }
    command = find_command(argv[0]);
    if (command == NULL)
        return EXIT_USAGE;
    cli_print_usage(stdout, command);
    return EXIT_OK;
}

static int dispatch(int argc, char **argv)
{
    const struct cli_command *command;

    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "help") == 0)
        return print_help(argc - 2, argv + 2);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return print_help(0, NULL);
    if (strcmp(argv[1], "--version") == 0) {
        printf("pto %s\n", pto_version());
        return EXIT_OK;
    }
    command = find_command(argv[1]);
    return command != NULL ? cli_run(command, argc - 1, argv + 1) : EXIT_USAGE;
}

/*
 * Opens /dev/null for closed standard descriptors, so that no file gets their numbers. It is opened
 * read-only: writing to a descriptor that was closed still fails.
 */
static void open_standard_files(void)
{
    for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++)
        if (fcntl(file, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != file)
            _exit(EXIT_FAILED);
}

static void ignore_signal(int number)
{
    (void)number;
}

/*
 * Makes a write beyond the file size limit (`ulimit -f`) fail with EFBIG instead of ending the
 * process. A handler, unlike SIG_IGN, is not inherited by programs that a command executes.
 */
static void catch_file_limit(void)
{
    struct sigaction now;

    if (sigaction(SIGXFSZ, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
        (void)sigaction(SIGXFSZ, &(struct sigaction){ .sa_handler = ignore_signal }, NULL);
}

/* Returns a failure if output was lost, for example on a full disk. */
static int main_flush_output(int code)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    terminal_printf(stderr, "pto: the output is incomplete: %s\n",
                    errno != 0 ? strerror(errno) : "a write failed");
    return code != EXIT_OK ? code : EXIT_FAILED;
}

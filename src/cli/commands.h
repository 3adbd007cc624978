/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of `pto`, one file each. A command gets its own name as
 * argv[0], like a program, and returns the exit code.
 */
#ifndef PTO_COMMANDS_H
#define PTO_COMMANDS_H

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
};

int cmd_run(int argc, char **argv);
int cmd_build(int argc, char **argv);
int cmd_test(int argc, char **argv);
int cmd_new(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_cache(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_drill(int argc, char **argv);

#endif

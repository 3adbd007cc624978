/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto run --gdb` starts gdb on the same command with --debug. At level 3 gdb follows the children.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/cli/commands.h"
#include "tool/cli/machine.h"
#include "tool/cli/run_request.h"

enum { WORDS_MAX = 4096 };

/*
 * Restores the equals signs in the values of --in and --out, which the option parser has replaced
 * by zero bytes.
 */
static void restore_equals(const struct run_files *files)
{
    for (uint32_t i = 0; i < files->count; i++)
        ((char *)files->file[i].path)[-1] = '=';
}

int cli_run_read_words(const struct run_request *request, char ***words_out)
{
    FILE *file = fopen("/proc/self/cmdline", "re");
    char **words = calloc(WORDS_MAX, sizeof(*words));
    size_t room = 0;
    int count = 0;

    restore_equals(&request->in);
    restore_equals(&request->out);
    while (file != NULL && words != NULL && count < WORDS_MAX - 1 &&
           getdelim(&words[count], &room, '\0', file) > 0) {
        count++;
        room = 0;
    }
    if (file != NULL)
        fclose(file);
    *words_out = words;
    return count;
}

static bool is_gdb(const char *word)
{
    return strlen(word) >= strlen("--g") && strncmp(word, "--gdb", strlen(word)) == 0;
}

int cli_run_gdb(const struct run_request *request, bool follows_children)
{
    static char *const plain[] = { "gdb",   "-q",
                                   "-ex",   "handle SIGURG nostop noprint pass",
                                   "-ex",   "set breakpoint pending on",
                                   "--args" };
    static char *const following[] = { "gdb",   "-q",
                                       "-ex",   "handle SIGURG nostop noprint pass",
                                       "-ex",   "set breakpoint pending on",
                                       "-ex",   "set detach-on-fork off",
                                       "-ex",   "set schedule-multiple on",
                                       "--args" };
    char *const *before = follows_children ? following : plain;
    int before_count = (int)(follows_children ? sizeof(following) / sizeof(following[0])
                                              : sizeof(plain) / sizeof(plain[0]));
    char program[PATH_MAX], self[PATH_MAX];
    char **words;
    int count = cli_run_read_words(request, &words);
    char **line = calloc((size_t)(count + before_count) + 1, sizeof(*line));

    if (!cli_machine_find_program("gdb", program)) {
        fprintf(stderr, "pto run: --gdb needs gdb, which is not in PATH; install it (apt-get "
                        "install gdb), or use another debugger on `pto run --debug ...`\n");
        return EXIT_FAILED;
    }
    if (count == 0 || line == NULL || realpath("/proc/self/exe", self) == NULL) {
        perror("pto run: --gdb");
        return EXIT_FAILED;
    }
    memcpy(line, before, (size_t)before_count * sizeof(*before));
    memcpy(line + before_count, words, (size_t)count * sizeof(*words));
    line[before_count] = self;
    for (int i = before_count + 1; i < before_count + count; i++)
        if (is_gdb(line[i])) {
            line[i] = "--debug";
            break;
        }
    fflush(stdout);
    execv(program, line);
    fprintf(stderr, "pto run: %s: %s\n", program, strerror(errno));
    return EXIT_FAILED;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* `pto run` of a test in Python: the package pto.testing runs it, a process per chip. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/cli/commands.h"
#include "tool/cli/run_request.h"
#include "tool/cli/test_python.h"
#include "tool/scene/scene_config.h"

/* Whether pypto wrote the folder for several chips. */
static bool is_distributed(const char *folder)
{
    char path[PATH_MAX];

    return snprintf(path, sizeof(path), "%s/distributed_meta.json", folder) < (int)sizeof(path) &&
           access(path, R_OK) == 0;
}

bool cli_run_is_network(const struct run_request *request)
{
    const char *target = request->target;
    struct scene_paths paths = { NULL, 0 };
    struct pto_error error = { .size = sizeof(error) };
    bool is_one = false;

    if (target == NULL)
        return false;
    if (cli_python_is_file(target) || is_distributed(target))
        return true;
    /*
     * the folder has input files, so the Python runner is needed only if --seed or --weights
     * replaces them
     */
    if (scene_is_config(target))
        return request->seed.is_given || request->weights.count != 0;
    if (!scene_is_folder(target) && access(target, X_OK) == 0)
        is_one = cli_python_find(target, &paths, &error) == PTO_OK && paths.count != 0;
    scene_paths_free(&paths);
    return is_one;
}

/* Python code that starts the runner, or prints what to install. */
static char program[] =
    "import sys\n"
    "try:\n"
    "    from pto.testing.network import main\n"
    "except ImportError as error:\n"
    "    sys.stderr.write(f'pto run: {error}; a test in Python needs the '\n"
    "        'packages pto-runtime and, if it is one of simpler, pto-simpler; '\n"
    "        'PTO_PYTHON names the interpreter that has them\\n')\n"
    "    sys.exit(2)\n"
    "sys.exit(main(sys.argv[1:]))\n";

int cli_run_network(const struct run_request *request)
{
    char self[PATH_MAX];
    char **words;
    int count = cli_run_read_words(request, &words);
    char **argv = calloc((size_t)count + 4, sizeof(*argv));
    int used = 1;

    if (count == 0 || argv == NULL || realpath("/proc/self/exe", self) == NULL) {
        perror("pto run");
        return EXIT_FAILED;
    }
    /* the runner calls this command to print the progress of the run */
    setenv("PTO_COMMAND", self, 1);
    argv[used++] = "-c";
    argv[used++] = program;
    for (int i = 2; i < count; i++) /* skip the two words "pto run" */
        argv[used++] = words[i];
    fflush(stdout);
    cli_python_exec_words(argv);
    fprintf(stderr,
            "pto run: %s: %s; a test in Python needs an interpreter, which PTO_PYTHON may name\n",
            argv[0], strerror(errno));
    return EXIT_FAILED;
}

bool cli_run_refuse_network(const struct run_request *request)
{
    const char *option = request->weights.count != 0 ? "weights"
                         : request->skips_golden     ? "skip-golden"
                                                     : NULL;

    if (option != NULL)
        fprintf(stderr, "pto run: --%s is for tests in Python, which are networks\n", option);
    return option != NULL;
}

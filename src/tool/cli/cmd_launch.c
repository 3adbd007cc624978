/* SPDX-License-Identifier: Apache-2.0 */
/* `pto launch`: starts the ranks of a program on this machine. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool/cli/commands.h"
#include "tool/cli/machine.h"
#include "tool/cli/ranks.h"
#include "tool/scene/terminal.h"

/* As a shell, and as timeout(1). */
enum { EXIT_LATE = 124, EXIT_NOT_RUN = 126, EXIT_NOT_FOUND = 127, EXIT_SIGNAL = 128 };

struct request {
    uint32_t count;
    int binding;
    double timeout;
    double grace;
    bool is_bare;
};

static int do_launch(void *context, int count, char **operands);

#define AT(member) .at = offsetof(struct request, member)

static const struct cli_option options[] = {
    { "ranks", 'n', "N", "how many ranks; they are numbered from 0", CLI_COUNT, AT(count), .low = 1,
      .high = RANKS_MAX, .initial = "1" },
    { "bind", 0, "auto|cpu|none",
      "which CPUs a rank may use: an equal share each if there are enough, one each, or any",
      CLI_CHOICE, AT(binding), .choices = cli_ranks_binding_name, .choice_count = RANKS_BINDINGS,
      .initial = "auto" },
    { "no-prefix", 0, NULL, "pass lines on as they are, without [RANK] before them", CLI_FLAG,
      AT(is_bare) },
    { "timeout", 0, "S", "end all ranks after S seconds (default: never)", CLI_SECONDS,
      AT(timeout) },
    { "grace", 0, "S", "seconds from asking ranks to end (SIGTERM) to killing them", CLI_SECONDS,
      AT(grace), .initial = "2" },
    CLI_OPTIONS_END,
};

const struct cli_command cmd_launch = {
    .name = "launch",
    .summary = "start a program several times, as ranks that can communicate",
    .synopsis = "-n N [OPTION...] -- PROGRAM [ARG...]",
    .description =
        "Starts N processes of a program on this machine. Each finds its rank in its "
        "environment (PTO_RANK, PTO_RANKS), and where to meet the others (PTO_MEET, PTO_TOKEN): "
        "pto_comm_open of pto/comm.h reads them. What they print is passed on line by line, with "
        "the rank before it. Rank 0 has the standard input, unless that is a terminal; the "
        "others have none. When a rank fails, all others are ended. No process that a rank "
        "started, whatever its group or session, and no file is left, even if this command is "
        "killed.",
    .notes = "The exit code is that of the first rank that failed, or 128 and the number of the "
             "signal that ended it; 124 when time was over. Ctrl-C is passed on to the ranks, a "
             "second one kills them.",
    .options = options,
    .operands_min = 1,
    .operands_max = CLI_OPERANDS_ANY,
    .is_prefix = true,
    .request_bytes = sizeof(struct request),
    .run = do_launch,
};

/* In the rank. */
static int launch_become(void *context, uint32_t rank)
{
    char **words = context;
    int why;

    (void)rank;
    execvp(words[0], words);
    why = errno;
    terminal_tell(stderr, "pto launch: %s cannot be run: %s\n", words[0], strerror(why));
    return why == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN;
}

/* Says what went wrong. Returns the exit code. */
static int launch_tell(const struct request *request, const struct ranks_result *result)
{
    char text[RANKS_TEXT_MAX];

    switch (result->end) {
    case RANKS_DONE:
        break;
    case RANKS_NOT_STARTED:
    case RANKS_UNKEPT:
        fprintf(stderr, "pto launch: %s\n", cli_ranks_tell(result, text));
        return EXIT_FAILED;
    case RANKS_LATE:
        fprintf(stderr, "pto launch: %g seconds are over; %u ranks were ended\n", request->timeout,
                result->ended_count);
        return EXIT_LATE;
    case RANKS_INTERRUPTED:
        return EXIT_SIGNAL + result->state;
    case RANKS_FAILED:
        fprintf(stderr, "pto launch: %s\n", cli_ranks_tell(result, text));
        return WIFSIGNALED(result->state) ? EXIT_SIGNAL + WTERMSIG(result->state)
                                          : WEXITSTATUS(result->state);
    }
    if (result->lost_output != 0)
        fprintf(stderr, "pto launch: the output is incomplete: %s\n",
                strerror(result->lost_output));
    return result->lost_output != 0 ? EXIT_FAILED : EXIT_OK;
}

static int do_launch(void *context, int count, char **operands)
{
    const struct request *request = context;
    char **words = calloc((size_t)count + 1, sizeof(*words));
    struct ranks_params params = { .count = request->count,
                                   .binding = (enum ranks_binding)request->binding,
                                   .has_prefix = !request->is_bare,
                                   .has_input = true,
                                   .timeout = request->timeout,
                                   .grace = request->grace,
                                   .enter = launch_become,
                                   .context = words };
    struct ranks_result result;
    char path[PATH_MAX];

    if (words == NULL) {
        perror("pto launch");
        return EXIT_FAILED;
    }
    memcpy(words, operands, (size_t)count * sizeof(*words)); /* argv has no NULL behind these */
    if (strchr(words[0], '/') == NULL ? !cli_machine_find_program(words[0], path)
                                      : access(words[0], F_OK) != 0) {
        terminal_tell(
            stderr, "pto launch: there is no program '%s'%s\n", words[0],
            strchr(words[0], '/') == NULL ? " in PATH; one of this folder is called ./NAME" : "");
        free(words);
        return EXIT_NOT_FOUND;
    }
    cli_ranks_run(&params, &result);
    free(words);
    return launch_tell(request, &result);
}

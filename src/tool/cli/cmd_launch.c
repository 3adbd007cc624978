/* SPDX-License-Identifier: Apache-2.0 */
/* `pto launch` starts the ranks of a program, on this machine or on several hosts. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/job_key.h"
#include "tool/cli/commands.h"
#include "tool/cli/launch_agent.h"
#include "tool/cli/launch_hub.h"
#include "tool/cli/launch_program.h"
#include "tool/cli/ranks.h"
#include "tool/scene/terminal.h"

struct request {
    uint32_t count;
    int binding;
    double timeout;
    double grace;
    bool is_bare;
    struct cli_texts hosts;
    const char *host_file;
    const char *shell;
    const char *prefix;
    const char *folder;
    struct cli_texts variables;
    double silence;
    bool is_agent;
};

static int do_launch(void *context, int count, char **operands);

#define AT(member) .at = offsetof(struct request, member)

static const struct cli_option options[] = {
    { "ranks", 'n', "N",
      "number of ranks, which are numbered from 0 (default: 1, or one for each slot of the hosts)",
      CLI_COUNT, AT(count), .low = 1, .high = RANKS_MAX },
    { "bind", 0, "auto|cpu|none",
      "CPUs of each rank: an equal share if there are enough, one, or any", CLI_CHOICE, AT(binding),
      .choices = cli_ranks_binding_name, .choice_count = RANKS_BINDINGS, .initial = "auto" },
    { "no-prefix", 0, NULL, "forward lines without the prefix [RANK]", CLI_FLAG, AT(is_bare) },
    { "timeout", 0, "S", "end all ranks after S seconds (default: never)", CLI_SECONDS,
      AT(timeout) },
    { "grace", 0, "S", "seconds between SIGTERM and SIGKILL", CLI_SECONDS, AT(grace),
      .initial = "2" },
    { "hosts", 0, "A,B:N,...",
      "hosts of the ranks, in this order; NAME:N allows up to N ranks on a host", CLI_TEXTS,
      AT(hosts), .high = 16 },
    { "host-file", 0, "FILE", "file of hosts: lines with NAME, NAME:N or NAME slots=N", CLI_TEXT,
      AT(host_file) },
    { "ssh", 0, "CMD", "remote shell, which gets the host's name and a command as arguments",
      CLI_TEXT, AT(shell), .initial = "ssh -x -T -o BatchMode=yes -o ConnectTimeout=20" },
    { "prefix", 0, "DIR",
      "folder of the installation on every host: DIR/bin/pto is the command "
      "there (default: pto in PATH)",
      CLI_TEXT, AT(prefix) },
    { "chdir", 0, "DIR", "working folder of the ranks on every host (default: this folder)",
      CLI_TEXT, AT(folder) },
    { "env", 0, "NAME[=VALUE]", "variable that ranks on hosts get, besides PTO_...", CLI_TEXTS,
      AT(variables), .high = 256 },
    { "silence", 0, "S",
      "end the job when a host is silent for S seconds, and the ranks of a host "
      "when this command is",
      CLI_SECONDS, AT(silence), .initial = "30" },
    { "agent", 0, NULL,
      "internal: run the ranks of a host for another `pto launch`, which is at the "
      "other end of the standard input and output",
      CLI_FLAG, AT(is_agent) },
    CLI_OPTIONS_END,
};

const struct cli_command cmd_launch = {
    .name = "launch",
    .summary = "start the ranks of a program, here or on several hosts",
    .synopsis = "-n N [OPTION...] -- PROGRAM [ARG...]\n"
                "--hosts A,B,... [-n N] [OPTION...] -- PROGRAM [ARG...]",
    .description =
        "Starts N processes of a program. Environment variables give each process its rank "
        "(PTO_RANK, PTO_RANKS) and the rendezvous (PTO_MEET, PTO_TOKEN); pto_comm_open of "
        "pto/comm.h reads them. Output is forwarded line by line, prefixed with the rank. Rank 0 "
        "gets the standard input, unless that is a terminal; the others get none. When a rank "
        "fails, the others are ended. No file and no process that a rank started, in any group or "
        "session, is left, even if this command is killed.\n"
        "With --hosts, ranks run on other machines, in blocks in the order of the hosts. ssh "
        "starts "
        "an agent of the same version on each of them, without a password; the agent gets the "
        "command, the variables and a key that is drawn for the job on its standard input. Ranks "
        "on "
        "different hosts meet at a port of the first host and prove to each other that they have "
        "the key (PTO_KEY_FD).",
    .notes = "The exit code is that of the first rank that failed, or 128 plus the number of the "
             "signal that ended it, or 124 after a timeout. Ctrl-C is forwarded to the ranks; a "
             "second one kills them.",
    .options = options,
    .operands_max = CLI_OPERANDS_ANY,
    .is_prefix = true,
    .request_bytes = sizeof(struct request),
    .run = do_launch,
};

/* Prints why the ranks failed, and returns the exit code. */
static int launch_report(const struct request *request, const struct ranks_result *result)
{
    char text[RANKS_TEXT_MAX];

    switch (result->end) {
    case RANKS_DONE:
        break;
    case RANKS_NOT_STARTED:
    case RANKS_UNKEPT:
        fprintf(stderr, "pto launch: %s\n", cli_ranks_describe(result, text));
        return EXIT_FAILED;
    case RANKS_LATE:
        fprintf(stderr,
                "pto launch: the time limit of %g seconds was reached; %u ranks were ended\n",
                request->timeout, result->ended_count);
        return EXIT_LATE;
    case RANKS_INTERRUPTED:
        return EXIT_SIGNAL + result->state;
    case RANKS_FAILED:
        fprintf(stderr, "pto launch: %s\n", cli_ranks_describe(result, text));
        return WIFSIGNALED(result->state) ? EXIT_SIGNAL + WTERMSIG(result->state)
                                          : WEXITSTATUS(result->state);
    }
    if (result->lost_output != 0)
        fprintf(stderr, "pto launch: the output is incomplete: %s\n",
                strerror(result->lost_output));
    return result->lost_output != 0 ? EXIT_FAILED : EXIT_OK;
}

/* Runs the ranks on this machine. */
static int launch_here(const struct request *request, char **words)
{
    struct ranks_params params = { .count = request->count != 0 ? request->count : 1,
                                   .binding = (enum ranks_binding)request->binding,
                                   .has_prefix = !request->is_bare,
                                   .has_input = true,
                                   .timeout = request->timeout,
                                   .grace = request->grace,
                                   .enter = cli_launch_become,
                                   .context = words };
    struct ranks_result result;
    char why[LAUNCH_TEXT_MAX];
    int code = cli_launch_find_program(words[0], why);

    if (code != 0) {
        terminal_printf(stderr, "pto launch: %s\n", why);
        return code;
    }
    cli_ranks_run(&params, &result);
    return launch_report(request, &result);
}

/* ---- several hosts ---- */

/* Whether the ranks on other hosts inherit this environment variable of the launcher. */
static bool is_passed(const char *variable)
{
    /* variables whose values the launcher or the host of a rank sets */
    static const char *const own[] = {
        "PTO_RANK=",  "PTO_RANKS=",    "PTO_MEET=",           "PTO_TOKEN=",       "PTO_KEY_FD=",
        "PTO_STORE=", "PTO_KEY_FILE=", "PTO_COMM_LISTEN_FD=", "PTO_COMM_ADDRESS="
    };

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (strncmp(variable, own[i], strlen(own[i])) == 0)
            return false;
    return strncmp(variable, "PTO_", 4) == 0;
}

/* Collects the environment variables that the ranks get. Returns false if memory runs out. */
static bool collect_variables(const struct request *request, struct launch_job *job)
{
    char **list = calloc(LAUNCH_WORDS_MAX, sizeof(*list));
    uint32_t count = 0;

    job->variables = list;
    if (list == NULL)
        return false;
    for (char **at = environ; *at != NULL && count < LAUNCH_WORDS_MAX / 2; at++)
        if (is_passed(*at))
            list[count++] = strdup(*at);
    for (uint32_t i = 0; i < request->variables.count; i++) {
        const char *text = request->variables.text[i], *value = getenv(text);
        char *made = NULL;

        if (strchr(text, '=') != NULL)
            made = strdup(text);
        else if (value == NULL)
            continue; /* the variable is not set here, so the ranks do not get it either */
        else if (asprintf(&made, "%s=%s", text, value) < 0)
            return false;
        list[count++] = made;
    }
    job->variable_count = count;
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == NULL)
            return false;
    return true;
}

/* Makes the random secrets of the job: a token, and the text of a key. */
static int draw_secrets(char token[2 * JOB_KEY_BYTES], char key[JOB_KEY_TEXT_BYTES + 1],
                        struct pto_error *error)
{
    char text[JOB_KEY_TEXT_BYTES];
    struct job_key drawn;
    int status = job_key_make(&drawn, error);

    if (status < 0)
        return status;
    job_key_format(&drawn, text);
    snprintf(token, 2 * JOB_KEY_BYTES, "%.32s", text);
    status = job_key_make(&drawn, error);
    if (status < 0)
        return status;
    job_key_format(&drawn, key);
    key[JOB_KEY_TEXT_BYTES] = '\0';
    explicit_bzero(&drawn, sizeof(drawn));
    return PTO_OK;
}

/* Reads the hosts and assigns the ranks to them. */
static int read_places(const struct request *request, struct launch_places *places, uint32_t *count,
                       struct pto_error *error)
{
    int status = PTO_OK;

    for (uint32_t i = 0; i < request->hosts.count && status == PTO_OK; i++)
        status = cli_launch_places_add(places, request->hosts.text[i], error);
    if (status == PTO_OK && request->host_file != NULL)
        status = cli_launch_places_read(places, request->host_file, error);
    if (status == PTO_OK && places->count == 0)
        status = error_setf(error, PTO_EINVAL, "%.300s names no host", request->host_file);
    return status == PTO_OK ? cli_launch_places_assign(places, count, error) : status;
}

static int launch_away(const struct request *request, char **words, uint32_t word_count,
                       struct launch_places *places)
{
    struct pto_error error = { .size = sizeof(error) };
    char token[2 * JOB_KEY_BYTES], key[JOB_KEY_TEXT_BYTES + 1], folder[PATH_MAX], prefix[PATH_MAX];
    char why[LAUNCH_TEXT_MAX];
    struct launch_params params = {
        .places = places,
        .shell = request->shell,
        .timeout = request->timeout,
        .job = { .total = request->count,
                 .binding = (uint32_t)request->binding,
                 .has_prefix = !request->is_bare,
                 .has_input = !isatty(STDIN_FILENO),
                 .grace = request->grace,
                 .silence = request->silence,
                 .token = token,
                 .key = key,
                 .folder = request->folder != NULL ? request->folder : getcwd(folder, PATH_MAX),
                 .words = words,
                 .word_count = word_count },
    };
    int code = EXIT_FAILED;

    /* an absolute path, because the folder may be on a file system that all hosts share */
    if (request->prefix != NULL)
        params.prefix = realpath(request->prefix, prefix) != NULL ? prefix : request->prefix;
    if (word_count > LAUNCH_WORDS_MAX || params.job.folder == NULL)
        terminal_printf(
            stderr, "pto launch: %s\n",
            params.job.folder == NULL ? strerror(errno) : "the command has too many words");
    else if (read_places(request, places, &params.job.total, &error) < 0 ||
             draw_secrets(token, key, &error) < 0)
        terminal_printf(stderr, "pto launch: %s\n", error.text);
    else if (!collect_variables(request, &params.job))
        fprintf(stderr, "pto launch: out of memory\n");
    else {
        code = cli_launch_hosts(&params, why);
        if (why[0] != '\0')
            terminal_printf(stderr, "pto launch: %s\n", why);
    }
    explicit_bzero(key, sizeof(key));
    for (uint32_t i = 0; i < params.job.variable_count; i++)
        free(params.job.variables[i]);
    free(params.job.variables);
    return code;
}

static int do_launch(void *context, int count, char **operands)
{
    const struct request *request = context;
    bool has_hosts = request->hosts.count != 0 || request->host_file != NULL;
    struct launch_places *places = NULL;
    char **words;
    int code = EXIT_FAILED;

    if (request->is_agent)
        return count == 0 ? cli_launch_agent() : cli_refuse_operand(&cmd_launch, operands[0]);
    if (count == 0) {
        cli_print_usage(stderr, &cmd_launch);
        return EXIT_USAGE;
    }
    /* execv() needs a NULL after the last word, which the operands lack */
    words = calloc((size_t)count + 1, sizeof(*words));
    if (has_hosts)
        places = calloc(1, sizeof(*places));
    if (words == NULL || (has_hosts && places == NULL)) {
        perror("pto launch");
    } else {
        memcpy(words, operands, (size_t)count * sizeof(*words));
        code = has_hosts ? launch_away(request, words, (uint32_t)count, places)
                         : launch_here(request, words);
    }
    free(words);
    free(places);
    return code;
}

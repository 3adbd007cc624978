/* SPDX-License-Identifier: Apache-2.0 */
/* `pto run` of a case with several ranks: each rank is a process that runs the case. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tool/cli/commands.h"
#include "tool/cli/ranks.h"
#include "tool/cli/run_alarm.h"
#include "tool/cli/run_request.h"

struct rank_work {
    struct session *session;
    int (*run)(struct session *s, const struct scene_case *test_case,
               const struct run_request *request);
    const struct scene_case *test_case;
    const struct run_request *request;
};

/* Runs in the rank's process, which has its own device and communicator. */
static int run_rank(void *context, uint32_t rank)
{
    struct rank_work *w = context;
    int code;

    w->session->rank = rank;
    code = w->run(w->session, w->test_case, w->request);
    if (w->session->ranks.status == PTO_EPEER)
        code = EXIT_PEER;
    else if (code == EXIT_FAILED && w->session->ranks.comm != NULL &&
             w->session->ranks.status == PTO_OK)
        /* only this rank's result is wrong, so the other ranks continue */
        code = EXIT_APART;
    fflush(stdout); /* flushes now, because closing the session waits for the other ranks */
    scene_session_close(w->session);
    return code;
}

static unsigned long launched_number(const char *variable)
{
    const char *text = getenv(variable);

    return text != NULL ? strtoul(text, NULL, 10) : 0;
}

bool cli_run_is_launched(const struct scene_case *test_case)
{
    const char *meet = getenv("PTO_MEET");

    return test_case->ranks > 1 && meet != NULL &&
           (launched_number("PTO_RANKS") == test_case->ranks || strncmp(meet, "tcp:", 4) == 0);
}

int cli_run_launched(struct session *s, const struct scene_case *test_case,
                     const struct run_request *request,
                     int (*run)(struct session *s, const struct scene_case *test_case,
                                const struct run_request *request))
{
    unsigned long count = launched_number("PTO_RANKS"), rank = launched_number("PTO_RANK");

    if (count != test_case->ranks || rank >= count) {
        printf("\n%s\n  result   FAILED: case '%s' has %u ranks, but %lu were launched; choose "
               "another case or start %u\n",
               s->platform, test_case->name, test_case->ranks, count, test_case->ranks);
        return EXIT_FAILED;
    }
    s->rank = (uint32_t)rank;
    return run(s, test_case, request);
}

int cli_run_ranks(struct session *s, const struct scene_case *test_case,
                  const struct run_request *request,
                  int (*run)(struct session *s, const struct scene_case *test_case,
                             const struct run_request *request))
{
    struct rank_work work = { s, run, test_case, request };
    const struct ranks_params params = { .count = test_case->ranks,
                                         .binding = RANKS_ANY,
                                         .has_prefix = true,
                                         .grace = 0.1,
                                         .peer_code = EXIT_PEER,
                                         .apart_code = EXIT_APART,
                                         .enter = run_rank,
                                         .context = &work };
    char text[RANKS_TEXT_MAX], who[32], why[512];
    struct ranks_result result;

    if (request->in.count != 0 || request->out.count != 0 || request->session.is_debugged) {
        printf("\n%s\n  result   FAILED: --%s is for one process, and case '%s' has %u ranks\n",
               s->platform,
               request->session.is_debugged ? "debug"
               : request->in.count != 0     ? "in"
                                            : "out",
               test_case->name, test_case->ranks);
        return EXIT_FAILED;
    }
    scene_session_rest(s);
    printf("\n");
    cli_ranks_run(&params, &result);
    if (s->options->place != NULL)
        s->options->place[0] = '\0'; /* clears the name of the step in which the last rank ended */
    if (result.end == RANKS_INTERRUPTED) {
        (void)signal(result.state, SIG_DFL);
        (void)raise(result.state);
    }
    if (result.end == RANKS_FAILED && WIFSIGNALED(result.state) &&
        WTERMSIG(result.state) == SIGKILL) {
        snprintf(who, sizeof(who), "rank %u", result.rank);
        cli_alarm_explain(result.rank, who, "", why, sizeof(why));
        printf("  ranks    FAILED: %s\n", why);
    } else if (result.end == RANKS_FAILED && WIFEXITED(result.state) &&
               WEXITSTATUS(result.state) == EXIT_APART)
        printf("  ranks    FAILED: %u of %u\n", result.apart_count, test_case->ranks);
    else if (result.end != RANKS_DONE)
        printf("  ranks    FAILED: %s\n", cli_ranks_describe(&result, text));
    return result.end == RANKS_DONE ? EXIT_OK : EXIT_FAILED;
}

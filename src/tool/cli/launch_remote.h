/* SPDX-License-Identifier: Apache-2.0 */
/* One host of a job as the launcher sees it: the remote shell, its channel and its errors. */
#ifndef PTO_LAUNCH_REMOTE_H
#define PTO_LAUNCH_REMOTE_H

#include <signal.h>
#include <sys/types.h>

#include "tool/cli/launch_job.h"
#include "tool/cli/launch_places.h"
#include "tool/cli/launch_program.h"

enum remote_state {
    REMOTE_STARTING, /* the agent has not sent its greeting yet */
    REMOTE_GREETED,
    REMOTE_READY, /* the agent has reported that it can start its ranks */
    REMOTE_RUNNING,
    REMOTE_DONE, /* all processes of this host's ranks have ended */
    REMOTE_LOST
};

struct remote {
    const struct launch_place *place;
    enum remote_state state;
    pid_t shell; /* pid of the remote shell; 0: it has ended */
    struct channel channel;
    int errors; /* pipe from the stderr of the remote shell; -1: closed */
    struct bytes error_lines;
    char last_error[256]; /* last line of the remote shell's stderr */
    struct launch_greeting greeting;
    struct ranks_result result;
    uint64_t asked_ns; /* time of the last CHANNEL_ASK */
    /* shortest round trip from a CHANNEL_ASK to its answer so far; 0: there was none */
    uint64_t trip_ns;
    int64_t ahead_ns; /* offset of the host's clock: how far it is ahead of the launcher's clock */
};

/* How the launcher reaches the hosts. */
struct remote_way {
    /* command of the remote shell in the syntax of sh; the name of the host is appended */
    const char *shell;
    /* folder of the installation on all hosts; NULL: `pto` is found by their PATH */
    const char *prefix;
    const sigset_t *mask; /* signal mask with which the remote shell starts */
};

/* Starts the remote shell of a host. Returns 0 or an errno. */
int cli_launch_remote_start(struct remote *r, const struct launch_place *place,
                            const struct remote_way *way);

/*
 * Reads lines from the stderr of the remote shell and appends them to `out`, each prefixed with the
 * name of the host. Returns false at the end of stderr.
 */
bool cli_launch_remote_read_errors(struct remote *r, struct bytes *out);

/*
 * Reads the agent's greeting and compares it with this process's own. 0: it has not arrived
 * completely; -1: the agent cannot be used, for the reason in `why`.
 */
int cli_launch_remote_greet(struct remote *r, const struct remote_way *way,
                            char why[LAUNCH_TEXT_MAX]);

/*
 * Describes why the channel of a host has ended. Waits a moment for the last lines of the remote
 * shell's stderr.
 */
void cli_launch_remote_explain(struct remote *r, const struct remote_way *way, struct bytes *out,
                               char why[LAUNCH_TEXT_MAX]);

/*
 * Closes the channels of all hosts and waits up to `wait_ms` for the remote shells; then kills
 * them.
 */
void cli_launch_remotes_end(struct remote *r, uint32_t count, int wait_ms);

#endif

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
    REMOTE_STARTING, /* the agent has not greeted yet */
    REMOTE_GREETED,
    REMOTE_READY, /* it could start its ranks */
    REMOTE_RUNNING,
    REMOTE_DONE, /* no process of a rank is left there */
    REMOTE_LOST
};

struct remote {
    const struct launch_place *place;
    enum remote_state state;
    pid_t shell; /* process of the remote shell; 0: it has ended */
    struct channel channel;
    int errors; /* pipe from the shell's stderr; -1: closed */
    struct bytes error_lines;
    char last_error[256]; /* last line of the shell's stderr */
    struct launch_greeting greeting;
    struct ranks_result result;
    uint64_t asked_ns; /* time of the last question */
    uint64_t trip_ns;  /* shortest time from a question to its answer; 0: none yet */
    int64_t ahead_ns;  /* how far the clock of the host is ahead of this one's */
};

/* How hosts are reached. */
struct remote_way {
    const char *shell;    /* command in the syntax of sh, before the name of the host */
    const char *prefix;   /* folder of the installation on all hosts; NULL: pto is in their PATH */
    const sigset_t *mask; /* signal mask of the remote shell */
};

/* Starts the remote shell of a host. Returns 0 or an errno. */
int cli_launch_remote_start(struct remote *r, const struct launch_place *place,
                            const struct remote_way *way);

/*
 * Reads lines of the shell's stderr and adds them to `out`, each after the host's name. Returns
 * false at the end.
 */
bool cli_launch_remote_read_errors(struct remote *r, struct bytes *out);

/* Takes the greeting and compares it with this process. 0: not there yet; -1: `why` has a reason. */
int cli_launch_remote_greet(struct remote *r, const struct remote_way *way,
                            char why[LAUNCH_TEXT_MAX]);

/* Describes why the channel of a host has ended. Waits a moment for the shell's last words. */
void cli_launch_remote_explain(struct remote *r, const struct remote_way *way, struct bytes *out,
                               char why[LAUNCH_TEXT_MAX]);

/* Closes the channels of all hosts, and waits for their shells, which are killed in the end. */
void cli_launch_remotes_end(struct remote *r, uint32_t count, int wait_ms);

#endif

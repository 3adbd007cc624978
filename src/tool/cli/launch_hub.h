/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the ranks of a job on several hosts: a remote shell starts an agent on each host. A separate
 * process (supervised.h) does so. Ctrl-Z does not stop that process, and it ends the ranks when the
 * launcher's process ends.
 */
#ifndef PTO_LAUNCH_HUB_H
#define PTO_LAUNCH_HUB_H

#include "tool/cli/launch_places.h"
#include "tool/cli/launch_program.h"
#include "tool/cli/launch_job.h"

struct launch_params {
    const struct launch_places *places; /* assigned */
    const char *shell;                  /* command of the remote shell */
    /* folder of the installation on all hosts; NULL: `pto` is found by PATH */
    const char *prefix;
    double timeout; /* time limit of the job in seconds; 0: none */
    /* the parts of the job that are equal for all hosts: words, variables, binding and so on */
    struct launch_job job;
};

/* Runs the job. Returns the exit code. `why` has the reason of a failure, or "". */
int cli_launch_hosts(const struct launch_params *params, char why[LAUNCH_TEXT_MAX]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the ranks of a job on several hosts: an agent on each, which a remote shell starts. The
 * process that does so (src/tool/cli/supervised.h) is not stopped by Ctrl-Z, and ends the ranks
 * when this one ends.
 */
#ifndef PTO_LAUNCH_HUB_H
#define PTO_LAUNCH_HUB_H

#include "tool/cli/launch_places.h"
#include "tool/cli/launch_program.h"
#include "tool/cli/launch_job.h"

struct launch_params {
    const struct launch_places *places; /* assigned */
    const char *shell;                  /* command of the remote shell */
    const char *prefix;                 /* folder of the installation on all hosts; NULL: PATH */
    double timeout;                     /* time limit of the job in seconds; 0: none */
    struct launch_job job;              /* what is equal for all hosts; binding, words, and so on */
};

/* Runs the job. Returns the exit code, and the reason in `why` unless it is "". */
int cli_launch_hosts(const struct launch_params *params, char why[LAUNCH_TEXT_MAX]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The table entries of the commands of `pto`, one file each. */
#ifndef PTO_COMMANDS_H
#define PTO_COMMANDS_H

#include "tool/cli/options.h"

enum {
    EXIT_OK = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_PEER = 3,
    EXIT_APART = 4,
    EXIT_INTERRUPTED = 130
};

extern const struct cli_command cmd_run, cmd_test, cmd_new, cmd_build, cmd_check, cmd_bench,
    cmd_cache, cmd_info, cmd_doctor, cmd_inspect, cmd_sign, cmd_drill, cmd_install_compat,
    cmd_launch, cmd_selfcheck, cmd_report, cmd_graph, cmd_profile, cmd_diff, cmd_races, cmd_top,
    cmd_key;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tries to open a platform in a child process with a time limit, so that the command survives and
 * reports any failure.
 */
#ifndef PTO_PROBE_H
#define PTO_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "tool/cli/machine.h"
#include "pto/pto.h"

enum { PROBE_TEXT_MAX = PTO_ERROR_TEXT_MAX };

struct probe {
    char platform[32];
    int status;    /* status of the library's calls; it is PTO_OK also if the child process died */
    int signal;    /* signal that ended the child, or 0 */
    bool is_open;  /* the device could be opened */
    bool is_right; /* the device was opened, and the run, if requested, gave the right result */
    uint32_t workers;
    uint64_t address_bytes;    /* address space of the process while the device is open */
    char text[PROBE_TEXT_MAX]; /* error text of the run */
};

/* Opens and closes a device in a child process. */
void cli_probe_open(const char *platform, struct probe *probe_out);
/*
 * Runs the smallest graph with an edge, one task on an AIC and one on an AIV, and checks the
 * result.
 */
void cli_probe_run(const char *platform, enum pto_mode mode, struct probe *probe_out);

/*
 * Describes in `why` the reason of a failed probe, and in *fix_out a remedy, in a sentence each.
 * *fix_out points to static memory.
 */
void cli_probe_explain(const struct probe *probe, const struct machine *m, char *why,
                       size_t why_bytes, const char **fix_out);

#endif

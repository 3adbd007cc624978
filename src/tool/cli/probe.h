/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tries a platform in a child process with a time limit: whatever the machine
 * does to a device, the command that asked lives on and can say what happened.
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
    int status;    /* of the library; PTO_OK also if the child died */
    int signal;    /* that ended the child, or 0 */
    bool is_open;  /* the device could be opened */
    bool is_right; /* opened and, if asked for, a run gave the right result */
    uint32_t workers;
    uint64_t address_bytes;    /* address space with the device open */
    char text[PROBE_TEXT_MAX]; /* what a run had to say */
};

/* Opens and closes a device. */
void cli_probe_open(const char *platform, struct probe *probe_out);
/* Runs the smallest graph with an edge, one task on an AIC and one on an AIV, and looks at it. */
void cli_probe_run(const char *platform, enum pto_mode mode, struct probe *probe_out);

/* Why it failed and how to fix it, a sentence each. *fix_out is static. */
void cli_probe_explain(const struct probe *probe, const struct machine *m, char *why,
                       size_t why_bytes, const char **fix_out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The program that the ranks of a job run, for `pto launch` and its agents. */
#ifndef PTO_LAUNCH_PROGRAM_H
#define PTO_LAUNCH_PROGRAM_H

#include <stdint.h>

enum { LAUNCH_TEXT_MAX = 800 };

/* Exit codes of the launcher, with the meanings that shells and timeout(1) give them. */
enum { EXIT_LATE = 124, EXIT_NOT_RUN = 126, EXIT_NOT_FOUND = 127, EXIT_SIGNAL = 128 };

/* Finds the program. Returns 0, or an exit code; then `why` has the reason. */
int cli_launch_find_program(const char *name, char why[LAUNCH_TEXT_MAX]);

/* Replaces the process image by the command `context`, an array of words with a final NULL. */
int cli_launch_become(void *context, uint32_t rank);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Prints how to reproduce a failure that occurs in one of the task orders that --orders tried. */
#ifndef PTO_REPEAT_H
#define PTO_REPEAT_H

#include "tool/cli/run_request.h"

/*
 * Prints what the failure means, and a command that runs the case in that task order again, on
 * lines of their own. `target` is the scene or the artefact; `request` is that of `pto run`, or
 * NULL.
 */
void cli_print_repeat(FILE *to, const struct session *s, const char *target, enum pto_mode mode,
                      const struct run_request *request);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What to say of a case that fails in one of the orders that were tried. */
#ifndef PTO_REPEAT_H
#define PTO_REPEAT_H

#include "tool/cli/run_request.h"

/*
 * What it means, and the command that runs the case in that order again, on
 * lines of their own. `target` is the scene or the artefact, `request` that of
 * `pto run`, or NULL.
 */
void cli_print_repeat(FILE *to, const struct session *s, const char *target, enum pto_mode mode,
                      const struct run_request *request);

#endif

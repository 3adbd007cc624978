/* SPDX-License-Identifier: Apache-2.0 */
/* The files of struct pto_diagnostics. */
#ifndef PTO_DIAGNOSTICS_H
#define PTO_DIAGNOSTICS_H

#include "host/host.h"

enum { DIAGNOSTICS_SWIMLANE_MAX = 4, DIAGNOSTICS_ARGS_MAX = 3 };

/* Whether anything is asked for. */
bool diagnostics_any(const struct pto_diagnostics *asked);
/*
 * Sees to it that what is asked for is recorded. *folder_out is a copy of the path, which the
 * caller frees; NULL: nothing is asked for. PTO_ENOMEM.
 */
int diagnostics_prepare(struct pto_run_options *options, char **folder_out);
/* By the run that was recorded, before another one begins. */
int diagnostics_write(struct device *device, const char *folder, struct pto_error *error);

#endif

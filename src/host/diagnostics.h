/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares and writes the files of struct pto_diagnostics. */
#ifndef PTO_DIAGNOSTICS_H
#define PTO_DIAGNOSTICS_H

#include "host/host.h"

enum { DIAGNOSTICS_SWIMLANE_MAX = 4, DIAGNOSTICS_ARGS_MAX = 3 };

/* Whether any file of diagnostics is requested. */
bool diagnostics_any(const struct pto_diagnostics *asked);
/*
 * Enables the recording that the requested files need. Copies the folder's path to *folder_out,
 * which the caller frees; NULL: no file is requested. PTO_ENOMEM.
 */
int diagnostics_prepare(struct pto_run_options *options, char **folder_out);
/* Writes the requested files, at the end of a recorded run, before the next one starts. */
int diagnostics_write(struct device *device, const char *folder, struct pto_error *error);

#endif

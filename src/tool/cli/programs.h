/* SPDX-License-Identifier: Apache-2.0 */
/* `pto build --programs`: what a real chip needs beside callables, from the sources of the runtime itself. */
#ifndef PTO_PROGRAMS_H
#define PTO_PROGRAMS_H

#include "tool/cli/options.h"
#include "pto/build.h"

/*
 * Builds all programs for the platform of `params` and calls `write` for each, until one returns not
 * 0. Folders and flags of the user's come before our own. Returns what `write` did, or a status.
 */
int cli_build_programs(const struct pto_build_params *params, const struct cli_texts *dirs,
                       const struct cli_texts *flags,
                       int (*write)(void *context, const char *name, const void *bytes,
                                    size_t size),
                       void *context, struct pto_error *error);

#endif

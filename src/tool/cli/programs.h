/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto build --programs` compiles the runtime's own programs for a real chip from the installed
 * sources.
 */
#ifndef PTO_PROGRAMS_H
#define PTO_PROGRAMS_H

#include "tool/cli/options.h"
#include "pto/build.h"

/*
 * Builds all programs for the platform of `params` and calls `write` for each, until one call
 * returns non-zero. The user's folders and flags precede our own. Returns the result of `write`, or
 * a status.
 */
int cli_build_programs(const struct pto_build_params *params, const struct cli_texts *dirs,
                       const struct cli_texts *flags,
                       int (*write)(void *context, const char *name, const void *bytes,
                                    size_t size),
                       void *context, struct pto_error *error);

#endif

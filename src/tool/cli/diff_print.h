/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the difference of two runs as tables for people and as JSON for programs. */
#ifndef PTO_DIFF_PRINT_H
#define PTO_DIFF_PRINT_H

#include "tool/see/difference.h"

void cli_diff_print(const struct see_difference *d, const char *before, const char *after);
void cli_diff_print_json(const struct see_difference *d);

#endif

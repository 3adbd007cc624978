/* SPDX-License-Identifier: Apache-2.0 */
/* Results as JUnit XML, for CI systems. */
#ifndef PTO_JUNIT_H
#define PTO_JUNIT_H

#include "tool/cli/test_jobs.h"

/* Writes the results to a file atomically. Returns a status. */
int cli_junit_write(const char *path, const struct test_item *item, uint32_t count, double seconds,
                    struct pto_error *error);
/* Prints the XML, which is valid whatever the strings contain; used by tests directly. */
void cli_junit_print(FILE *to, const struct test_item *item, uint32_t count, double seconds);

#endif

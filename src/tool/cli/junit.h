/* SPDX-License-Identifier: Apache-2.0 */
/* Results as JUnit XML, for CI systems. */
#ifndef PTO_JUNIT_H
#define PTO_JUNIT_H

#include "tool/cli/test_jobs.h"

/* Written whole or not at all. */
int cli_junit_write(const char *path, const struct test_item *item, uint32_t count, double seconds,
                    struct pto_error *error);
/* The text, for tests; valid XML whatever the strings hold. */
void cli_junit_print(FILE *to, const struct test_item *item, uint32_t count, double seconds);

#endif

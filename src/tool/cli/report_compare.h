/* SPDX-License-Identifier: Apache-2.0 */
/* Writes how the recording of a report differs from another one, for its page. */
#ifndef PTO_REPORT_COMPARE_H
#define PTO_REPORT_COMPARE_H

#include "tool/cli/report_analysis.h"

/* Writes the key `other` with the comparison, unless there is nothing to compare with. */
void cli_report_write_compare(struct json *j, const struct report_analysis *a);
/*
 * Returns the row of the kernel with the same name and core in the other recording; NULL: it has
 * none.
 */
const struct see_kernel_row *cli_report_find_before(const struct report_analysis *a,
                                                    uint32_t kernel);

#endif

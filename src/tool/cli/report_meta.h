/* SPDX-License-Identifier: Apache-2.0 */
/* Writes, as JSON, the data of a report's page that are not in columns. */
#ifndef PTO_REPORT_META_H
#define PTO_REPORT_META_H

#include "tool/cli/json.h"
#include "tool/see/page_write.h"
#include "tool/see/links.h"

struct report {
    const struct see_recording *r;
    const char *title;
    struct see_layout layout;
    struct see_legend legend;
    struct see_links links;
    struct see_columns columns;
};

/* Writes lanes, source lines, edges between kernels, memory over time, and the list of columns. */
void cli_report_write_meta(struct json *j, const struct report *report);

#endif

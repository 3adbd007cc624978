/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the results of the analyses of a recording for its HTML page. */
#ifndef PTO_REPORT_ANALYSIS_H
#define PTO_REPORT_ANALYSIS_H

#include "tool/cli/json.h"
#include "tool/cli/report_page.h"
#include "tool/see/analysis.h"
#include "tool/see/worker_view.h"

struct report_analysis {
    const struct report_about *about;
    struct see_analysis *of; /* analysis of the recording; NULL: no core executed anything */
    /* analysis of the recording to compare with; NULL: none, or no core executed anything */
    struct see_analysis *other;
    /* analysis of the worker; NULL: the recording has no worker, or the worker ran nothing */
    struct see_worker *worker;
    /* analysis of the worker in the recording to compare with; NULL: as for `worker` */
    struct see_worker *other_worker;
    struct see_kernel_table kernels; /* kernels of all chips, workers and ranks in the recording */
    struct see_kernel_table other_kernels;
};

/*
 * Makes the analyses. The caller sets `about` and clears all other members of `a`. Returns PTO_OK
 * or PTO_ENOMEM.
 */
int cli_report_analyse(struct report_analysis *a);
void cli_report_analysis_free(struct report_analysis *a);
/* Sets on_path[task] to 1 for each task on the critical path. */
void cli_report_mark_path(const struct report_analysis *a, uint8_t *on_path);
void cli_report_write_analysis(struct json *j, const struct report_analysis *a);

#endif

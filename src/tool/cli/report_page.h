/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a recording as an HTML page. */
#ifndef PTO_REPORT_PAGE_H
#define PTO_REPORT_PAGE_H

#include <stdio.h>

#include "tool/see/recording.h"
#include "tool/see/what_if.h"

struct report_about {
    const struct see_recording *r;
    const char *title;
    const struct see_recording *other; /* recording to compare with; NULL: none */
    const char *other_title;
    const struct see_question *question; /* changes that the user asked about with --what-if */
    uint32_t question_count;
};

/* Writes the page. Returns PTO_OK, PTO_ENOMEM, or PTO_ESYSTEM if writing failed. */
int cli_report_write(FILE *to, const struct report_about *about);

#endif

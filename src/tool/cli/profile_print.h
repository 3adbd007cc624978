/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the output of `pto profile`. */
#ifndef PTO_CLI_PROFILE_PRINT_H
#define PTO_CLI_PROFILE_PRINT_H

#include "tool/see/analysis.h"
#include "tool/see/worker_view.h"

/* The recording and its analyses. At least one of `chip` and `worker` is not NULL. */
struct profile {
    const struct see_recording *r;
    struct see_analysis *chip;
    struct see_worker *worker;
    const char *title;
    uint32_t kernels; /* maximum number of rows in the table of kernels */
};

void cli_profile_print(const struct profile *p);
void cli_profile_print_json(const struct profile *p);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Durations of kernels from recorded runs, as costs for virtual time. */
#ifndef PTO_RUN_DURATIONS_H
#define PTO_RUN_DURATIONS_H

#include "pto/error.h"
#include "pto/virtual.h"
#include "tool/see/recording.h"

struct durations {
    const char *path; /* file of the durations; the caller owns the text */
    struct pto_virtual_cost *cost;
    uint32_t count;
};

/*
 * Reads the median duration of each kernel from a recording (.ptrec) or from simpler's
 * chip_swimlane_records.json.
 */
int cli_durations_read(const char *path, struct durations *d, struct pto_error *error);
/* Computes the median duration of each kernel in a recording, whose file is `path`. */
int cli_durations_make(const struct see_recording *r, const char *path, struct durations *d,
                       struct pto_error *error);
void cli_durations_free(struct durations *d);

#endif

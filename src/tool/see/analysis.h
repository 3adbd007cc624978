/* SPDX-License-Identifier: Apache-2.0 */
/* All analyses of the run of one chip. They point into the recording, which must outlive them. */
#ifndef PTO_SEE_ANALYSIS_H
#define PTO_SEE_ANALYSIS_H

#include "tool/see/verdict.h"

struct see_analysis {
    const struct see_recording *r;
    struct see_work work;
    struct see_path path;
    struct see_idle idle;
    struct see_kernel_table kernels;
    /* `model` points to `work`, so this struct must not be moved or copied */
    struct see_model model;
    struct see_bounds bounds;
    struct see_verdict verdict;
    /*
     * results of the what-if changes; empty if see_analysis_make was called without `has_what_if`
     */
    struct see_what_if what_if;
};

/*
 * Analyses a group of the recording; PTO_RECORDING_NONE selects the one whose cores executed most.
 * Returns PTO_OK, PTO_ENOMEM, or PTO_EINVAL if no core executed anything; `error` then has a
 * sentence, and *out is unchanged.
 */
int see_analysis_make(const struct see_recording *r, uint32_t group, bool has_what_if,
                      struct see_analysis **out, struct pto_error *error);
/*
 * Analyses the group of another recording that has the kind and the name of the group of `a`; if
 * there is none, or it executed nothing, the one whose cores executed most. Returns as
 * see_analysis_make.
 */
int see_analysis_like(const struct see_analysis *a, const struct see_recording *r,
                      struct see_analysis **out, struct pto_error *error);
/* Accepts NULL. */
void see_analysis_free(struct see_analysis *a);

#endif

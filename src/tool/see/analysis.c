/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/analysis.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

int see_analysis_make(const struct see_recording *r, uint32_t group, bool has_what_if,
                      struct see_analysis **out, struct pto_error *error)
{
    struct see_analysis *a;
    int status;

    if (group == PTO_RECORDING_NONE)
        group = see_work_main_group(r);
    if (group == PTO_RECORDING_NONE)
        return error_setf(error, PTO_EINVAL, "the recording has no execution on a core");
    a = calloc(1, sizeof(*a));
    if (a == NULL)
        return error_setf(error, PTO_ENOMEM, "no memory for an analysis");
    a->r = r;
    status = see_work_make(r, group, &a->work);
    if (status == PTO_OK)
        status = see_path_make(&a->work, &a->path);
    if (status == PTO_OK)
        status = see_idle_make(&a->work, &a->idle);
    if (status == PTO_OK)
        status = see_kernel_table_make(&a->work, &a->path, &a->kernels);
    if (status == PTO_OK)
        status = see_model_make(&a->work, &a->idle, &a->model);
    if (status == PTO_OK) {
        a->bounds = see_bounds_make(&a->model);
        status = see_verdict_make(&a->model, &a->path, &a->idle, &a->kernels, &a->verdict);
    }
    if (status == PTO_OK && has_what_if)
        status = see_what_if_make(&a->model, &a->kernels, &a->what_if);
    if (status < 0) {
        see_analysis_free(a);
        return error_setf(error, status,
                          status == PTO_EINVAL ? "no core of '%.200s' executed anything"
                                               : "no memory for the analysis of '%.200s'",
                          r->group[group].name);
    }
    *out = a;
    return PTO_OK;
}

int see_analysis_like(const struct see_analysis *a, const struct see_recording *r,
                      struct see_analysis **out, struct pto_error *error)
{
    const struct see_group *group = &a->r->group[a->work.group];
    int status = PTO_EINVAL;

    for (uint32_t g = 0; g < r->group_count && status == PTO_EINVAL; g++)
        if (r->group[g].kind == group->kind && strcmp(r->group[g].name, group->name) == 0)
            status = see_analysis_make(r, g, false, out, error);
    return status == PTO_EINVAL ? see_analysis_make(r, PTO_RECORDING_NONE, false, out, error)
                                : status;
}

void see_analysis_free(struct see_analysis *a)
{
    if (a == NULL)
        return;
    see_what_if_free(&a->what_if);
    see_model_free(&a->model);
    see_kernel_table_free(&a->kernels);
    see_path_free(&a->path);
    see_work_free(&a->work);
    free(a);
}

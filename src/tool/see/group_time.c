/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/group_time.h"

struct see_group_time see_group_time(const struct see_recording *r, uint32_t group)
{
    const struct see_group *g = &r->group[group];
    struct see_group_time t = { .tasks = g->task_end - g->task_begin,
                                .cores = { [SEE_AIC] = g->aics, [SEE_AIV] = g->aivs } };

    for (uint32_t i = g->lane_begin; g->kind == PTO_RECORDING_GROUP_WORKER && i < g->lane_end; i++)
        if (see_lane_type(r->lane[i].kind) != SEE_TYPES)
            t.cores[see_lane_type(r->lane[i].kind)]++;
    for (uint64_t i = r->slice_from[g->task_begin]; i < r->slice_from[g->task_end]; i++) {
        const struct see_slice *slice = &r->slice[i];
        uint32_t type = see_slice_type(r, i);

        if (type == SEE_TYPES)
            continue;
        if (t.executions++ == 0 || slice->begin_ns < t.begin_ns)
            t.begin_ns = slice->begin_ns;
        t.end_ns = slice->end_ns > t.end_ns ? slice->end_ns : t.end_ns;
        t.busy_ns[type] += slice->end_ns - slice->begin_ns;
    }
    return t;
}

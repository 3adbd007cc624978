/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/chip_work.h"

#include <stdlib.h>
#include <string.h>

#include "pto/platform.h"

enum { DIGIT_BITS = 16, DIGITS = 1 << DIGIT_BITS };

static uint32_t find_threads(const struct see_recording *r);
static int sort_slices(struct see_work *w);
static int find_readiness(struct see_work *w);
static void find_ends(struct see_work *w);

uint32_t see_work_main_group(const struct see_recording *r)
{
    uint32_t best = PTO_RECORDING_NONE;
    uint64_t most_ns = 0;

    for (uint32_t g = 0; g < r->group_count; g++) {
        const struct see_group *group = &r->group[g];
        uint64_t busy_ns = 0;
        bool has_any = false;

        for (uint64_t i = r->slice_from[group->task_begin]; i < r->slice_from[group->task_end];
             i++) {
            if (see_slice_type(r, i) == SEE_TYPES)
                continue;
            has_any = true;
            busy_ns += r->slice[i].end_ns - r->slice[i].begin_ns;
        }
        if (has_any && group->kind != PTO_RECORDING_GROUP_WORKER &&
            (best == PTO_RECORDING_NONE || busy_ns > most_ns)) {
            best = g;
            most_ns = busy_ns;
        }
    }
    return best;
}

int see_work_make(const struct see_recording *r, uint32_t group, struct see_work *out)
{
    const struct see_group *g = &r->group[group];
    struct see_work w = { .r = r,
                          .group = group,
                          .task_begin = g->task_begin,
                          .task_end = g->task_end,
                          .slice_begin = r->slice_from[g->task_begin],
                          .slice_end = r->slice_from[g->task_end],
                          .cores = { [SEE_AIC] = g->aics, [SEE_AIV] = g->aivs },
                          .threads = g->kind == PTO_RECORDING_GROUP_WORKER ? UINT32_MAX
                                                                           : find_threads(r) };
    int status;

    if (w.slice_end - w.slice_begin >= UINT32_MAX)
        return PTO_ENOMEM;
    status = sort_slices(&w);
    if (status == PTO_OK && w.core_slices == 0)
        status = PTO_EINVAL;
    if (status == PTO_OK)
        status = find_readiness(&w);
    if (status < 0) {
        see_work_free(&w);
        return status;
    }
    find_ends(&w);
    *out = w;
    return PTO_OK;
}

void see_work_free(struct see_work *w)
{
    if (w == NULL)
        return;
    free(w->ready_ns);
    free(w->ready_by);
    free(w->by_begin);
    free(w->by_end);
    free(w->previous);
}

uint32_t see_task_kernel(const struct see_recording *r, uint32_t task)
{
    for (int lane = 0; lane < 3; lane++)
        if (r->task[task].kernel[lane] != PTO_RECORDING_NONE)
            return r->task[task].kernel[lane];
    return PTO_RECORDING_NONE;
}

const char *see_kernel_name(const struct see_recording *r, uint32_t kernel)
{
    return kernel != PTO_RECORDING_NONE ? r->kernel[kernel].name : "dummy";
}

/* ---- sorting ---- */

/* One pass of the radix sort, by the digit of the keys at bit `shift`. */
static void sort_digit(const uint64_t *key, uint32_t shift, const uint32_t *from, uint32_t *to,
                       uint32_t count, uint32_t *place)
{
    uint32_t at = 0;

    memset(place, 0, DIGITS * sizeof(*place));
    for (uint32_t i = 0; i < count; i++)
        place[(key[from[i]] >> shift) & (DIGITS - 1)]++;
    for (uint32_t digit = 0; digit < DIGITS; digit++) {
        uint32_t many = place[digit];

        place[digit] = at;
        at += many;
    }
    for (uint32_t i = 0; i < count; i++)
        to[place[(key[from[i]] >> shift) & (DIGITS - 1)]++] = from[i];
}

int see_sort(const uint64_t *key, uint32_t *index, uint32_t count)
{
    uint32_t *place = malloc(DIGITS * sizeof(*place));
    uint32_t *other = malloc(((size_t)count + 1) * sizeof(*other));
    uint32_t *from = index, *to = other;
    uint64_t all = 0;

    if (place == NULL || other == NULL) {
        free(place);
        free(other);
        return PTO_ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++)
        all |= key[index[i]];
    for (uint32_t shift = 0; shift < 64 && all >> shift != 0; shift += DIGIT_BITS) {
        uint32_t *sorted = to;

        sort_digit(key, shift, from, to, count, place);
        to = from;
        from = sorted;
    }
    if (from != index)
        memcpy(index, from, count * sizeof(*index));
    free(place);
    free(other);
    return PTO_OK;
}

/* ---- slices ---- */

/*
 * Returns the number of host threads that execute the tasks of a simulated chip; UINT32_MAX: the
 * clock is virtual or the chip is real, and each core works in parallel.
 */
static uint32_t find_threads(const struct see_recording *r)
{
    const struct pto_platform *platform;

    if (r->clock == PTO_RECORDING_CLOCK_VIRTUAL || r->workers == 0)
        return UINT32_MAX;
    for (uint32_t i = 0; (platform = pto_platform_at(i)) != NULL; i++)
        if (strcmp(platform->name, r->platform) == 0)
            return platform->is_simulated ? r->workers : UINT32_MAX;
    return UINT32_MAX;
}

/* Links each execution to the execution before it on the same lane. */
static int link_lanes(struct see_work *w, uint32_t count)
{
    const struct see_recording *r = w->r;
    uint32_t *last = malloc(((size_t)r->lane_count + 1) * sizeof(*last));

    if (last == NULL)
        return PTO_ENOMEM;
    memset(last, 0xff, ((size_t)r->lane_count + 1) * sizeof(*last));
    memset(w->previous, 0xff, count * sizeof(*w->previous));
    for (uint32_t i = 0; i < w->core_slices; i++) {
        const struct see_slice *slice = &r->slice[w->slice_begin + w->by_begin[i]];

        w->previous[w->by_begin[i]] = last[slice->lane];
        if (last[slice->lane] == PTO_RECORDING_NONE)
            w->used[see_lane_type(r->lane[slice->lane].kind)]++;
        last[slice->lane] = w->by_begin[i];
    }
    free(last);
    return PTO_OK;
}

static int sort_slices(struct see_work *w)
{
    const struct see_recording *r = w->r;
    uint32_t count = (uint32_t)(w->slice_end - w->slice_begin);
    uint64_t *key = malloc(((size_t)count + 1) * sizeof(*key));
    int status = PTO_ENOMEM;

    w->by_begin = malloc(((size_t)count + 1) * sizeof(*w->by_begin));
    w->by_end = malloc(((size_t)count + 1) * sizeof(*w->by_end));
    w->previous = malloc(((size_t)count + 1) * sizeof(*w->previous));
    if (key == NULL || w->by_begin == NULL || w->by_end == NULL || w->previous == NULL)
        goto out;
    for (uint32_t i = 0; i < count; i++) {
        const struct see_slice *slice = &r->slice[w->slice_begin + i];
        uint32_t type = see_slice_type(r, w->slice_begin + i);

        key[i] = slice->begin_ns;
        if (type == SEE_TYPES)
            continue;
        w->by_begin[w->core_slices] = w->by_end[w->core_slices] = i;
        w->core_slices++;
        w->busy_ns[type] += slice->end_ns - slice->begin_ns;
    }
    status = see_sort(key, w->by_begin, w->core_slices);
    for (uint32_t i = 0; i < count; i++)
        key[i] = r->slice[w->slice_begin + i].end_ns;
    if (status == PTO_OK)
        status = see_sort(key, w->by_end, w->core_slices);
    if (status == PTO_OK)
        status = link_lanes(w, count);
out:
    free(key);
    return status;
}

/* ---- readiness ---- */

/*
 * If the recording lacks the time when a task became ready, computes it from the ends of the
 * predecessors.
 */
static void derive_ready(struct see_work *w, uint32_t task, uint64_t *ready_ns, uint32_t *ready_by)
{
    const struct see_recording *r = w->r;

    for (uint64_t i = r->edge_from[task]; i < r->edge_from[task + 1]; i++) {
        const struct see_task *before = &r->task[r->edge[i].from];

        if (before->end_ns == PTO_RECORDING_NO_TIME || before->end_ns <= *ready_ns)
            continue;
        *ready_ns = before->end_ns;
        *ready_by = r->edge[i].from;
    }
}

/*
 * Returns when the graph whose first task is `task` was complete. With PTO_MODE_HOST, no task is
 * ready before that. Returns 0 if tasks run while the graph is built.
 */
static uint64_t built_at(const struct see_work *w, uint32_t task)
{
    const struct see_recording *r = w->r;
    uint32_t parent = r->task[task].parent;
    bool is_built_first =
        r->mode == PTO_MODE_HOST && r->group[w->group].kind != PTO_RECORDING_GROUP_WORKER;
    uint64_t built_ns = 0;

    for (; is_built_first && task < w->task_end && r->task[task].parent == parent; task++)
        if (r->task[task].submit_ns != PTO_RECORDING_NO_TIME && r->task[task].submit_ns > built_ns)
            built_ns = r->task[task].submit_ns;
    return built_ns;
}

/* Sets when each task became ready, and which task's end made it ready. */
static int find_readiness(struct see_work *w)
{
    const struct see_recording *r = w->r;
    uint32_t count = w->task_end - w->task_begin;
    uint64_t built_ns = 0;

    w->ready_ns = malloc(((size_t)count + 1) * sizeof(*w->ready_ns));
    w->ready_by = malloc(((size_t)count + 1) * sizeof(*w->ready_by));
    if (w->ready_ns == NULL || w->ready_by == NULL)
        return PTO_ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        const struct see_task *task = &r->task[w->task_begin + i];
        uint64_t ready_ns = task->ready_ns;
        uint32_t ready_by = task->ready_by;

        if (i == 0 || task->parent != task[-1].parent)
            built_ns = built_at(w, w->task_begin + i);
        if (!r->has_ready || ready_ns == PTO_RECORDING_NO_TIME) {
            ready_ns = task->submit_ns != PTO_RECORDING_NO_TIME ? task->submit_ns
                                                                : r->group[w->group].begin_ns;
            ready_by = PTO_RECORDING_NONE;
            derive_ready(w, w->task_begin + i, &ready_ns, &ready_by);
        }
        if (ready_ns < built_ns) {
            ready_ns = built_ns;
            ready_by = PTO_RECORDING_NONE;
        }
        if (task->start_ns != PTO_RECORDING_NO_TIME && ready_ns > task->start_ns)
            ready_ns = task->start_ns;
        w->ready_ns[i] = ready_ns;
        w->ready_by[i] = ready_by;
    }
    return PTO_OK;
}

static void find_ends(struct see_work *w)
{
    const struct see_recording *r = w->r;

    w->first_ns = r->slice[w->slice_begin + w->by_begin[0]].begin_ns;
    w->end_ns = r->slice[w->slice_begin + w->by_end[w->core_slices - 1]].end_ns;
    w->begin_ns =
        r->group[w->group].parent == PTO_RECORDING_NONE ? r->group[w->group].begin_ns : w->first_ns;
    for (uint32_t t = w->task_begin; t < w->task_end; t++) {
        const struct see_task *task = &r->task[t];

        if (task->end_ns != PTO_RECORDING_NO_TIME && task->end_ns > w->end_ns)
            w->end_ns = task->end_ns;
        if (task->submit_ns < w->begin_ns)
            w->begin_ns = task->submit_ns;
    }
    for (uint32_t lane = r->group[w->group].lane_begin;
         r->group[w->group].kind == PTO_RECORDING_GROUP_WORKER &&
         lane < r->group[w->group].lane_end;
         lane++)
        if (see_lane_type(r->lane[lane].kind) != SEE_TYPES)
            w->cores[see_lane_type(r->lane[lane].kind)]++;
    for (uint32_t type = 0; type < SEE_TYPES; type++)
        if (w->cores[type] < w->used[type])
            w->cores[type] = w->used[type];
}

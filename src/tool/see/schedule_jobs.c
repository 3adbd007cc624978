/* SPDX-License-Identifier: Apache-2.0 */
/* Converts the graph of a recording for the list scheduler. */
#include <stdlib.h>
#include <string.h>

#include "tool/see/list_schedule.h"

enum {
    LANES = 3,
    WINDOW_SHARE = 100,
    /*
     * a gap between submits that is this many times longer than usual may be a wait for the
     * scheduler
     */
    LONG_GAP = 8,
    /*
     * a gap counts as a wait for the scheduler only if at least 1 / TURN_SHARE of the live tasks
     * completed in it
     */
    TURN_SHARE = 4,
};

static int jobs_count_executions(struct see_jobs *j);
static int count_pairs(struct see_jobs *j);
static int space_submits(struct see_jobs *j);

int see_jobs_make(const struct see_work *w, struct see_jobs *out)
{
    struct see_jobs j = { .w = w, .count = w->task_end - w->task_begin };
    size_t count = (size_t)j.count + 1;
    int status = PTO_ENOMEM;

    j.execution_from = calloc(count, sizeof(*j.execution_from));
    j.lanes = calloc(count, sizeof(*j.lanes));
    j.is_gang = calloc(count, sizeof(*j.is_gang));
    j.after_ns = calloc(count, sizeof(*j.after_ns));
    j.gap_ns = calloc(count, sizeof(*j.gap_ns));
    j.live_max = malloc(count * sizeof(*j.live_max));
    j.begins_part = calloc(count, sizeof(*j.begins_part));
    j.pair_from = calloc(count, sizeof(*j.pair_from));
    j.waits_for = calloc(count, sizeof(*j.waits_for));
    if (j.execution_from != NULL && j.lanes != NULL && j.is_gang != NULL && j.after_ns != NULL &&
        j.gap_ns != NULL && j.live_max != NULL && j.begins_part != NULL && j.pair_from != NULL &&
        j.waits_for != NULL)
        status = jobs_count_executions(&j);
    if (status == PTO_OK)
        status = count_pairs(&j);
    if (status == PTO_OK)
        status = space_submits(&j);
    if (status == PTO_OK)
        *out = j;
    else
        see_jobs_free(&j);
    return status;
}

void see_jobs_free(struct see_jobs *j)
{
    if (j == NULL)
        return;
    free(j->execution_from);
    free(j->lanes);
    free(j->is_gang);
    free(j->after_ns);
    free(j->gap_ns);
    free(j->live_max);
    free(j->begins_part);
    free(j->pair_from);
    free(j->pair_to);
    free(j->waits_for);
}

struct see_machine see_jobs_machine(const struct see_jobs *j)
{
    const struct see_work *w = j->w;
    uint32_t clusters = w->r->group[w->group].clusters;

    if (clusters < w->cores[SEE_AIC])
        clusters = w->cores[SEE_AIC];
    if (clusters < (w->cores[SEE_AIV] + 1) / 2)
        clusters = (w->cores[SEE_AIV] + 1) / 2;
    return (struct see_machine){ .clusters = clusters, .threads = w->threads };
}

void see_jobs_durations(const struct see_jobs *j, const uint64_t *slice_ns, const double *scale,
                        uint64_t *ns_out)
{
    const struct see_work *w = j->w;
    const struct see_recording *r = w->r;
    uint32_t last_task = PTO_RECORDING_NONE, last_block = 0;
    int64_t execution = -1;

    for (uint64_t i = w->slice_begin; i < w->slice_end; i++) {
        const struct see_slice *slice = &r->slice[i];
        uint64_t ns;

        if (see_slice_type(r, i) == SEE_TYPES)
            continue;
        ns = slice_ns != NULL ? slice_ns[i - w->slice_begin] : slice->end_ns - slice->begin_ns;
        if (scale != NULL && slice->kernel != PTO_RECORDING_NONE)
            ns = (uint64_t)((double)ns * scale[slice->kernel]);
        if (slice->task != last_task || slice->block != last_block)
            ns_out[++execution] = ns;
        else if (ns > ns_out[execution])
            ns_out[execution] = ns;
        last_task = slice->task;
        last_block = slice->block;
    }
}

uint32_t see_jobs_pair(const struct see_jobs *j, uint32_t from, uint32_t to)
{
    uint32_t low = j->pair_from[from], high = j->pair_from[from + 1];

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (j->pair_to[middle] < to)
            low = middle + 1;
        else
            high = middle;
    }
    return low < j->pair_from[from + 1] && j->pair_to[low] == to ? low : UINT32_MAX;
}

/* ---- tasks ---- */

/*
 * Returns the lanes that a task occupies: those of its kernels or, if these are unknown, the lane
 * of the slice.
 */
static uint8_t find_lanes(const struct see_recording *r, uint32_t task, uint64_t slice)
{
    uint8_t lanes = 0;

    for (int lane = 0; lane < LANES; lane++)
        if (r->task[task].kernel[lane] != PTO_RECORDING_NONE)
            lanes |= (uint8_t)(1 << lane);
    if (lanes == 0)
        lanes = see_slice_type(r, slice) == SEE_AIC ? 1 : 2;
    /* a single AIV may be either one of a cluster: always use the bit of AIV0 */
    return lanes == 4 ? 2 : lanes == 5 ? 3 : lanes;
}

static int jobs_count_executions(struct see_jobs *j)
{
    const struct see_work *w = j->w;
    const struct see_recording *r = w->r;

    for (uint32_t t = 0; t < j->count; t++) {
        uint32_t task = w->task_begin + t, last_block = PTO_RECORDING_NONE;
        uint64_t end_ns = 0;

        j->execution_from[t] = j->executions;
        j->is_gang[t] = (r->task[task].flags & PTO_RECORDING_GANG) != 0;
        for (uint64_t i = r->slice_from[task]; i < r->slice_from[task + 1]; i++) {
            if (see_slice_type(r, i) == SEE_TYPES)
                continue;
            if (j->lanes[t] == 0)
                j->lanes[t] = find_lanes(r, task, i);
            j->executions += r->slice[i].block != last_block;
            last_block = r->slice[i].block;
            if (r->slice[i].end_ns > end_ns)
                end_ns = r->slice[i].end_ns;
        }
        if ((r->task[task].flags & PTO_RECORDING_DEFERRED) != 0 && j->lanes[t] != 0 &&
            r->task[task].end_ns != PTO_RECORDING_NO_TIME && r->task[task].end_ns > end_ns)
            j->after_ns[t] = r->task[task].end_ns - end_ns;
    }
    j->execution_from[j->count] = j->executions;
    return PTO_OK;
}

/* ---- edges ---- */

/*
 * Makes the pairs of tasks that have an edge. The edges out of a task are in the order of their
 * successors; several edges to the same successor, with different reasons, make one pair.
 */
static int count_pairs(struct see_jobs *j)
{
    const struct see_work *w = j->w;
    const struct see_recording *r = w->r;
    uint64_t most = r->out_from[w->task_end] - r->out_from[w->task_begin];

    if (most >= UINT32_MAX)
        return PTO_ENOMEM;
    j->pair_to = malloc((most + 1) * sizeof(*j->pair_to));
    if (j->pair_to == NULL)
        return PTO_ENOMEM;
    for (uint32_t t = 0; t < j->count; t++) {
        uint32_t task = w->task_begin + t;

        j->pair_from[t] = j->pairs;
        for (uint64_t i = r->out_from[task]; i < r->out_from[task + 1]; i++) {
            uint32_t to = r->edge[r->out[i]].to;

            if (to <= task || to >= w->task_end ||
                (j->pairs > j->pair_from[t] && j->pair_to[j->pairs - 1] == to - w->task_begin))
                continue;
            j->pair_to[j->pairs++] = to - w->task_begin;
            j->waits_for[to - w->task_begin]++;
        }
    }
    j->pair_from[j->count] = j->pairs;
    return PTO_OK;
}

/* ---- submits ---- */

/* Returns the median of the numbers; 0 if there are none or memory ran out. */
static uint64_t median_of(const uint64_t *ns, uint32_t count)
{
    uint32_t *index = malloc(((size_t)count + 1) * sizeof(*index));
    uint64_t median = 0;

    for (uint32_t i = 0; index != NULL && i < count; i++)
        index[i] = i;
    if (index != NULL && count != 0 && see_sort(ns, index, count) == PTO_OK)
        median = ns[index[(count - 1) / 2]];
    free(index);
    return median;
}

/*
 * Counts the live tasks at each submit. If their number is close to its maximum at many submits, a
 * window was full and the orchestration waited for room: *window_out gets the window's size, else
 * UINT32_MAX.
 */
static int jobs_count_live(const struct see_jobs *j, uint32_t *live, uint32_t *window_out)
{
    const struct see_work *w = j->w;
    const struct see_task *task = w->r->task + w->task_begin;
    uint64_t *end_ns = calloc((size_t)j->count + 1, sizeof(*end_ns));
    uint32_t *index = malloc(((size_t)j->count + 1) * sizeof(*index));
    uint32_t most = 0, full = 0, ended = 0;
    int status = end_ns != NULL && index != NULL ? PTO_OK : PTO_ENOMEM;

    for (uint32_t t = 0; status == PTO_OK && t < j->count; t++) {
        end_ns[t] = task[t].end_ns;
        index[t] = t;
    }
    if (status == PTO_OK)
        status = see_sort(end_ns, index, j->count);
    for (uint32_t t = 0; status == PTO_OK && t < j->count; t++) {
        while (ended < j->count && end_ns[index[ended]] <= task[t].submit_ns)
            ended++;
        live[t] = t + 1 > ended ? t + 1 - ended : 0;
        most = live[t] > most ? live[t] : most;
    }
    for (uint32_t t = 0; status == PTO_OK && t < j->count; t++)
        full += live[t] >= most - most / 50;
    if (status == PTO_OK && most >= 16 && full > j->count / WINDOW_SHARE + most / 50 + 2 &&
        most < j->count - j->count / 50)
        *window_out = most;
    free(end_ns);
    free(index);
    return status;
}

/*
 * Returns whether the orchestration waited, before this submit, until the scheduler had fewer live
 * tasks: the gap is long, and many of them completed in it. On a card, one thread submits and
 * schedules in turns.
 */
static bool has_waited(const struct see_jobs *j, const uint32_t *live, uint32_t t,
                       uint64_t usual_ns)
{
    /* mutation: submit-turns */
    return j->w->threads == UINT32_MAX && t != 0 && live[t] != 0 &&
           j->gap_ns[t] > LONG_GAP * usual_ns && live[t] + live[t] / TURN_SHARE <= live[t - 1];
}

/*
 * Sets how many tasks may be live at each submit. If the orchestration waited for that, the wait
 * does not count as time of the submit.
 */
static void limit_live(struct see_jobs *j, const uint32_t *live, uint32_t window, uint64_t usual_ns)
{
    for (uint32_t t = 0; t < j->count; t++) {
        bool is_full = window != UINT32_MAX && live[t] >= window - window / 50;
        bool is_turn = !j->begins_part[t] && has_waited(j, live, t, usual_ns);

        j->live_max[t] = is_turn ? live[t] : window;
        if ((is_full || is_turn) && !j->begins_part[t] && j->gap_ns[t] > usual_ns)
            j->gap_ns[t] = usual_ns;
    }
}

/*
 * Moves the gaps of all submits of a part (the tasks that one task of a worker runs on the chip) to
 * the part's first submit, because the part is built first, and then runs.
 */
static void build_parts_first(struct see_jobs *j)
{
    uint64_t sum_ns = 0;

    for (uint32_t t = j->count; t-- > 0;) {
        sum_ns += j->gap_ns[t];
        j->gap_ns[t] = 0;
        if (!j->begins_part[t])
            continue;
        j->gap_ns[t] = sum_ns;
        sum_ns = 0;
    }
    j->built_ns = sum_ns;
}

static int space_submits(struct see_jobs *j)
{
    const struct see_work *w = j->w;
    const struct see_task *task = w->r->task + w->task_begin;
    uint32_t *live = calloc((size_t)j->count + 1, sizeof(*live)), window = UINT32_MAX;
    uint64_t before_ns = w->begin_ns, end_ns = 0;
    int status = live != NULL ? jobs_count_live(j, live, &window) : PTO_ENOMEM;

    for (uint32_t t = 0; status == PTO_OK && t < j->count; t++) {
        uint64_t submit_ns =
            task[t].submit_ns != PTO_RECORDING_NO_TIME ? task[t].submit_ns : before_ns;

        j->begins_part[t] = t != 0 && task[t].parent != task[t - 1].parent;
        if (j->begins_part[t])
            before_ns = end_ns;
        if (task[t].end_ns != PTO_RECORDING_NO_TIME && task[t].end_ns > end_ns)
            end_ns = task[t].end_ns;
        j->gap_ns[t] = submit_ns > before_ns ? submit_ns - before_ns : 0;
        before_ns = submit_ns > before_ns ? submit_ns : before_ns;
    }
    if (status == PTO_OK && w->r->mode == PTO_MODE_HOST) {
        build_parts_first(j);
        memset(j->live_max, 0xff, (size_t)j->count * sizeof(*j->live_max));
    } else if (status == PTO_OK) {
        limit_live(j, live, window, median_of(j->gap_ns, j->count));
    }
    free(live);
    return status;
}

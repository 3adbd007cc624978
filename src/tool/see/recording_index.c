/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts the arrays of a recording, computes offsets into them, and frees a recording. */
#include <stdlib.h>

#include "tool/see/recording.h"

static int recording_compare_slices(const void *a, const void *b)
{
    const struct see_slice *x = a, *y = b;

    if (x->task != y->task)
        return x->task < y->task ? -1 : 1;
    if (x->block != y->block)
        return x->block < y->block ? -1 : 1;
    return x->lane < y->lane ? -1 : x->lane > y->lane;
}

static int recording_compare_edges(const void *a, const void *b)
{
    const struct see_edge *x = a, *y = b;

    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->reason != y->reason)
        return x->reason < y->reason ? -1 : 1;
    if (x->to_argument != y->to_argument)
        return x->to_argument < y->to_argument ? -1 : 1;
    return x->from_argument < y->from_argument ? -1 : x->from_argument > y->from_argument;
}

static int recording_compare_touches(const void *a, const void *b)
{
    const struct see_touch *x = a, *y = b;

    if (x->task != y->task)
        return x->task < y->task ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->argument != y->argument)
        return x->argument < y->argument ? -1 : 1;
    if (x->invocation != y->invocation)
        return x->invocation < y->invocation ? -1 : 1;
    return x->segment < y->segment ? -1 : x->segment > y->segment;
}

/*
 * Sorts an array if it is not sorted. Arrays from files are sorted, and the check is cheaper than
 * sorting.
 */
static void recording_sort(void *base, uint64_t count, size_t size,
                           int (*compare)(const void *, const void *))
{
    for (uint64_t i = 1; i < count; i++)
        if (compare((char *)base + (i - 1) * size, (char *)base + i * size) > 0) {
            qsort(base, count, size, compare);
            return;
        }
}

/*
 * Replaces the number of rows of task t, which is in from[t + 1], by the offset after these rows.
 */
static void recording_add_up(uint64_t *from, uint32_t count)
{
    for (uint32_t t = 0; t < count; t++)
        from[t + 1] += from[t];
}

static void recording_fill_out(struct see_recording *r, uint64_t *next)
{
    for (uint32_t t = 0; t < r->task_count; t++)
        next[t] = r->out_from[t];
    for (uint64_t i = 0; i < r->edge_count; i++)
        r->out[next[r->edge[i].from]++] = i;
}

int see_recording_index(struct see_recording *r)
{
    uint64_t *next = calloc((size_t)r->task_count + 1, sizeof(*next));
    uint64_t **from[] = { &r->slice_from, &r->edge_from, &r->out_from, &r->touch_from };
    bool is_whole = next != NULL;

    for (size_t i = 0; i < sizeof(from) / sizeof(from[0]); i++) {
        free(*from[i]);
        *from[i] = calloc((size_t)r->task_count + 1, sizeof(**from[i]));
        is_whole = is_whole && *from[i] != NULL;
    }
    free(r->out);
    r->out = calloc(r->edge_count + 1, sizeof(*r->out));
    if (!is_whole || r->out == NULL) {
        free(next);
        return PTO_ENOMEM;
    }
    recording_sort(r->slice, r->slice_count, sizeof(*r->slice), recording_compare_slices);
    recording_sort(r->edge, r->edge_count, sizeof(*r->edge), recording_compare_edges);
    recording_sort(r->touch, r->touch_count, sizeof(*r->touch), recording_compare_touches);
    for (uint64_t i = 0; i < r->touch_count; i++)
        r->touch_from[r->touch[i].task + 1]++;
    for (uint64_t i = 0; i < r->slice_count; i++)
        r->slice_from[r->slice[i].task + 1]++;
    for (uint64_t i = 0; i < r->edge_count; i++) {
        r->edge_from[r->edge[i].to + 1]++;
        r->out_from[r->edge[i].from + 1]++;
    }
    recording_add_up(r->slice_from, r->task_count);
    recording_add_up(r->edge_from, r->task_count);
    recording_add_up(r->out_from, r->task_count);
    recording_add_up(r->touch_from, r->task_count);
    recording_fill_out(r, next);
    free(next);
    return PTO_OK;
}

void see_recording_free(struct see_recording *r)
{
    if (r == NULL)
        return;
    for (uint32_t i = 0; r->kernel != NULL && i < r->kernel_count; i++)
        free(r->kernel[i].name);
    for (uint32_t i = 0; r->file != NULL && i < r->file_count; i++)
        free(r->file[i]);
    for (uint32_t i = 0; r->group != NULL && i < r->group_count; i++)
        free(r->group[i].name);
    free(r->platform);
    free(r->scene);
    free(r->test_case);
    free(r->title);
    free(r->kernel);
    free(r->file);
    free(r->group);
    free(r->lane);
    free(r->task);
    free(r->slice);
    free(r->edge);
    free(r->argument);
    free(r->scalar);
    free(r->element);
    free(r->touch);
    free(r->touch_from);
    free(r->slice_from);
    free(r->edge_from);
    free(r->out_from);
    free(r->argument_from);
    free(r->scalar_from);
    free(r->out);
    free(r);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/kernel_table.h"

#include <stdlib.h>

static int fill_quantiles(const struct see_work *w, struct see_kernel_table *t);
static void kernel_table_add_path(const struct see_work *w, const struct see_path *path,
                                  struct see_kernel_table *t);
static int compare_rows(const void *a, const void *b);

int see_kernel_table_make(const struct see_work *w, const struct see_path *path,
                          struct see_kernel_table *out)
{
    const struct see_recording *r = w->r;
    struct see_kernel_table t = { .count = r->kernel_count };
    uint32_t kept = 0;

    t.row = calloc((size_t)r->kernel_count + 1, sizeof(*t.row));
    if (t.row == NULL)
        return PTO_ENOMEM;
    for (uint32_t i = 0; i < w->core_slices; i++) {
        const struct see_slice *slice = &r->slice[w->slice_begin + w->by_begin[i]];
        uint64_t ns = slice->end_ns - slice->begin_ns;
        struct see_kernel_row *row;

        if (slice->kernel == PTO_RECORDING_NONE)
            continue;
        row = &t.row[slice->kernel];
        row->kernel = slice->kernel;
        if (row->count == 0 || ns > row->max_ns) {
            row->max_ns = ns;
            row->slowest = slice->task;
        }
        row->count++;
        row->total_ns += ns;
        t.total_ns += ns;
        row->cpu_ns = slice->cpu_ns == PTO_RECORDING_NO_TIME || row->cpu_ns == PTO_RECORDING_NO_TIME
                          ? PTO_RECORDING_NO_TIME
                          : row->cpu_ns + slice->cpu_ns;
    }
    kernel_table_add_path(w, path, &t);
    if (fill_quantiles(w, &t) < 0) {
        see_kernel_table_free(&t);
        return PTO_ENOMEM;
    }
    for (uint32_t i = 0; i < t.count; i++)
        if (t.row[i].count != 0)
            t.row[kept++] = t.row[i];
    t.count = kept;
    qsort(t.row, t.count, sizeof(*t.row), compare_rows);
    *out = t;
    return PTO_OK;
}

int see_kernel_table_all(const struct see_recording *r, const struct see_path *path,
                         struct see_kernel_table *out)
{
    struct see_work all = { .r = r, .slice_end = r->slice_count };
    int status = PTO_ENOMEM;

    if (r->slice_count < UINT32_MAX)
        all.by_begin = malloc((r->slice_count + 1) * sizeof(*all.by_begin));
    if (all.by_begin != NULL) {
        for (uint32_t i = 0; i < r->slice_count; i++)
            if (see_slice_type(r, i) != SEE_TYPES)
                all.by_begin[all.core_slices++] = i;
        status = see_kernel_table_make(&all, path, out);
    }
    free(all.by_begin);
    return status;
}

void see_kernel_table_free(struct see_kernel_table *t)
{
    if (t != NULL)
        free(t->row);
}

static int compare_rows(const void *a, const void *b)
{
    const struct see_kernel_row *x = a, *y = b;

    if (x->total_ns != y->total_ns)
        return x->total_ns > y->total_ns ? -1 : 1;
    return x->kernel < y->kernel ? -1 : x->kernel > y->kernel;
}

/*
 * Sets the quantiles of all kernels. `index` lists all executions in the order of their durations,
 * so that the n-th execution of a kernel is its n-th shortest.
 */
static int fill_quantiles(const struct see_work *w, struct see_kernel_table *t)
{
    const struct see_recording *r = w->r;
    uint32_t count = (uint32_t)(w->slice_end - w->slice_begin);
    uint64_t *ns = malloc(((size_t)count + 1) * sizeof(*ns));
    uint32_t *index = malloc(((size_t)w->core_slices + 1) * sizeof(*index));
    uint64_t *seen = calloc((size_t)t->count + 1, sizeof(*seen));
    int status = ns != NULL && index != NULL && seen != NULL ? PTO_OK : PTO_ENOMEM;

    for (uint32_t i = 0; status == PTO_OK && i < w->core_slices; i++) {
        const struct see_slice *slice = &r->slice[w->slice_begin + w->by_begin[i]];

        index[i] = w->by_begin[i];
        ns[index[i]] = slice->end_ns - slice->begin_ns;
    }
    if (status == PTO_OK)
        status = see_sort(ns, index, w->core_slices);
    for (uint32_t i = 0; status == PTO_OK && i < w->core_slices; i++) {
        uint32_t kernel = r->slice[w->slice_begin + index[i]].kernel;
        struct see_kernel_row *row;

        if (kernel == PTO_RECORDING_NONE)
            continue;
        row = &t->row[kernel];
        if (seen[kernel] == (row->count - 1) / 2)
            row->median_ns = ns[index[i]];
        if (seen[kernel] == (row->count - 1) * 99 / 100)
            row->p99_ns = ns[index[i]];
        seen[kernel]++;
    }
    free(ns);
    free(index);
    free(seen);
    return status;
}

static void kernel_table_add_path(const struct see_work *w, const struct see_path *path,
                                  struct see_kernel_table *t)
{
    const struct see_recording *r = w->r;

    for (uint32_t i = 0; i < path->count; i++) {
        const struct see_step *step = &path->step[i];

        if (step->kind != SEE_STEP_EXECUTES || step->slice == UINT64_MAX ||
            r->slice[step->slice].kernel == PTO_RECORDING_NONE)
            continue;
        t->row[r->slice[step->slice].kernel].path_ns += step->end_ns - step->begin_ns;
        t->row[r->slice[step->slice].kernel].path_count++;
    }
}

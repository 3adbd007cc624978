/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto run --virtual --durations FILE` takes the durations of kernels from recorded runs: the
 * median for each kernel, and for each kernel with equal arguments.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tool/cli/run_durations.h"
#include "tool/see/recording.h"
#include "tool/see/swimlane_read.h"

enum { FORMULA_BYTES = 24 };

/* A recorded execution of a kernel. */
struct execution {
    const char *kernel;
    uint64_t shapes; /* hash of the arguments' types, shapes and scalars; 0: not recorded */
    uint64_t ns;
};

static int by_kernel_and_shapes(const void *a, const void *b)
{
    const struct execution *x = a, *y = b;
    int by_name = strcmp(x->kernel, y->kernel);

    if (by_name != 0)
        return by_name;
    if (x->shapes != y->shapes)
        return x->shapes < y->shapes ? -1 : 1;
    return x->ns < y->ns ? -1 : x->ns > y->ns;
}

static int by_kernel_and_time(const void *a, const void *b)
{
    const struct execution *x = a, *y = b;
    int by_name = strcmp(x->kernel, y->kernel);

    return by_name != 0 ? by_name : x->ns < y->ns ? -1 : x->ns > y->ns;
}

static uint64_t shapes_of(const struct see_recording *r, uint32_t task)
{
    uint64_t from = r->argument_from[task], count = r->argument_from[task + 1] - from;
    uint64_t scalar = r->scalar_from[task], scalars = r->scalar_from[task + 1] - scalar;
    struct pto_tensor tensor[PTO_TASK_TENSORS_MAX];

    if (r->argument_count == 0 || count > PTO_TASK_TENSORS_MAX)
        return 0;
    memset(tensor, 0, count * sizeof(tensor[0]));
    for (uint64_t i = 0; i < count; i++) {
        const struct see_argument *a = &r->argument[from + i];

        tensor[i].dtype = a->dtype;
        tensor[i].ndims = a->ndims;
        memcpy(tensor[i].shapes, a->shapes, sizeof(tensor[i].shapes));
    }
    return pto_virtual_shapes(tensor, (uint32_t)count, &r->scalar[scalar], (uint32_t)scalars);
}

static uint64_t durations_read_executions(const struct see_recording *r, struct execution *out)
{
    uint64_t count = 0;

    for (uint32_t task = 0; task < r->task_count; task++)
        for (uint64_t i = r->slice_from[task]; i < r->slice_from[task + 1]; i++) {
            const struct see_slice *s = &r->slice[i];

            if (s->kernel == PTO_RECORDING_NONE || s->begin_ns == PTO_RECORDING_NO_TIME ||
                s->end_ns == PTO_RECORDING_NO_TIME)
                continue;
            out[count++] = (struct execution){ r->kernel[s->kernel].name, shapes_of(r, task),
                                               s->end_ns - s->begin_ns };
        }
    return count;
}

/* Appends a cost. One allocation holds a copy of the kernel's name and then the formula. */
static bool durations_add_row(struct durations *d, const struct execution *e, uint64_t shapes,
                              uint64_t ns)
{
    size_t length = strlen(e->kernel) + 1;
    char *text = malloc(length + FORMULA_BYTES);
    struct pto_virtual_cost *cost = realloc(d->cost, (d->count + 1ull) * sizeof(*cost));

    d->cost = cost != NULL ? cost : d->cost;
    if (text == NULL || cost == NULL) {
        free(text);
        return false;
    }
    memcpy(text, e->kernel, length);
    snprintf(text + length, FORMULA_BYTES, "%" PRIu64, ns);
    cost[d->count++] = (struct pto_virtual_cost){
        .kernel = text, .shapes = shapes, .formula = text + length, .origin = d->path
    };
    return true;
}

static bool add_medians(struct durations *d, struct execution *e, uint64_t count)
{
    bool is_good = true;

    qsort(e, count, sizeof(*e), by_kernel_and_shapes);
    for (uint64_t i = 0, end; i < count && is_good; i = end) {
        for (end = i + 1; end < count && strcmp(e[end].kernel, e[i].kernel) == 0 &&
                          e[end].shapes == e[i].shapes;)
            end++;
        if (e[i].shapes != 0)
            is_good = durations_add_row(d, &e[i], e[i].shapes, e[i + (end - i) / 2].ns);
    }
    qsort(e, count, sizeof(*e), by_kernel_and_time);
    for (uint64_t i = 0, end; i < count && is_good; i = end) {
        for (end = i + 1; end < count && strcmp(e[end].kernel, e[i].kernel) == 0;)
            end++;
        /* this row is for executions of the kernel with any other shapes */
        is_good = durations_add_row(d, &e[i], 0, e[i + (end - i) / 2].ns);
    }
    return is_good;
}

int cli_durations_read(const char *path, struct durations *d, struct pto_error *error)
{
    struct see_recording *r;
    char file[PATH_MAX];
    int status;

    *d = (struct durations){ .path = path };
    status = see_swimlane_find(path, file, sizeof(file)) ? see_swimlane_read(file, &r, error)
                                                         : see_recording_read(path, &r, error);
    if (status < 0)
        return status;
    status = cli_durations_make(r, path, d, error);
    see_recording_free(r);
    return status;
}

int cli_durations_make(const struct see_recording *r, const char *path, struct durations *d,
                       struct pto_error *error)
{
    struct execution *e = calloc(r->slice_count + 1, sizeof(*e));
    uint64_t count = 0;
    bool is_good = e != NULL;

    *d = (struct durations){ .path = path };
    if (is_good) {
        count = durations_read_executions(r, e);
        is_good = add_medians(d, e, count);
    }
    free(e);
    if (is_good && count != 0)
        return PTO_OK;
    cli_durations_free(d);
    return is_good ? error_setf(error, PTO_EINVAL, "%.300s has no execution of a kernel", path)
                   : error_setf(error, PTO_ENOMEM, "out of memory");
}

void cli_durations_free(struct durations *d)
{
    for (uint32_t i = 0; i < d->count; i++)
        free((void *)(uintptr_t)d->cost[i].kernel);
    free(d->cost);
    *d = (struct durations){ .count = 0 };
}

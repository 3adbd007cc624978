/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/recording_join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pto/status.h"

enum { NAME_BYTES = 160 };

/*
 * State of joining recordings: the result so far, and the numbers that kernels and files of the
 * current part have in the result.
 */
struct joining {
    struct see_recording *to;
    uint64_t shift_ns;
    uint32_t rank;
    uint32_t *kernel; /* for each kernel of the part: its number in the result */
    uint32_t *file;
    bool has_room; /* false: memory ran out */
};

static uint64_t shifted(const struct joining *w, uint64_t ns)
{
    return ns != PTO_RECORDING_NO_TIME ? ns + w->shift_ns : ns;
}

/* Converts an index of the part to one of the result; PTO_RECORDING_NONE remains. */
static uint32_t join_moved(uint32_t index, uint32_t by)
{
    return index != PTO_RECORDING_NONE ? index + by : index;
}

/* Returns the number of a kernel in the result, after adding the kernel if it is new. */
static uint32_t join_kernel(struct joining *w, const struct see_kernel *of)
{
    struct see_recording *to = w->to;
    uint32_t i = 0;

    while (i < to->kernel_count &&
           (to->kernel[i].core != of->core || strcmp(to->kernel[i].name, of->name) != 0))
        i++;
    if (i == to->kernel_count) {
        to->kernel[i] = *of;
        to->kernel[i].name = strdup(of->name);
        w->has_room = w->has_room && to->kernel[i].name != NULL;
        to->kernel_count++;
    }
    return i;
}

static uint32_t join_file(struct joining *w, const char *path)
{
    struct see_recording *to = w->to;
    uint32_t i = 0;

    while (i < to->file_count && strcmp(to->file[i], path) != 0)
        i++;
    if (i == to->file_count) {
        to->file[to->file_count++] = strdup(path);
        w->has_room = w->has_room && to->file[i] != NULL;
    }
    return i;
}

static void join_groups(struct joining *w, const struct see_recording *part)
{
    struct see_recording *to = w->to;
    char name[NAME_BYTES];

    for (uint32_t i = 0; i < part->group_count; i++) {
        struct see_group *g = &to->group[to->group_count + i];

        *g = part->group[i];
        snprintf(name, sizeof(name), part->group_count > 1 ? "rank %u, %s" : "rank %u", w->rank,
                 g->name);
        g->name = strdup(name);
        w->has_room = w->has_room && g->name != NULL;
        g->parent = join_moved(g->parent, to->group_count);
        g->rank = w->rank;
        g->begin_ns += w->shift_ns;
        g->task_begin += to->task_count;
        g->task_end += to->task_count;
        g->lane_begin += to->lane_count;
        g->lane_end += to->lane_count;
    }
    for (uint32_t i = 0; i < part->lane_count; i++) {
        to->lane[to->lane_count + i] = part->lane[i];
        to->lane[to->lane_count + i].group += to->group_count;
    }
}

static void join_tasks(struct joining *w, const struct see_recording *part)
{
    struct see_recording *to = w->to;

    for (uint32_t i = 0; i < part->task_count; i++) {
        struct see_task *t = &to->task[to->task_count + i];

        *t = part->task[i];
        t->submit_ns = shifted(w, t->submit_ns);
        t->ready_ns = shifted(w, t->ready_ns);
        t->start_ns = shifted(w, t->start_ns);
        t->end_ns = shifted(w, t->end_ns);
        t->ready_by = join_moved(t->ready_by, to->task_count);
        t->parent = join_moved(t->parent, to->task_count);
        t->group += to->group_count;
        t->run += to->run_count;
        t->key += to->key_count;
        t->file = t->file != PTO_RECORDING_NONE ? w->file[t->file] : t->file;
        for (uint32_t lane = 0; lane < 3; lane++)
            if (t->kernel[lane] != PTO_RECORDING_NONE)
                t->kernel[lane] = w->kernel[t->kernel[lane]];
        to->argument_from[to->task_count + i] = to->argument_count + part->argument_from[i];
        to->scalar_from[to->task_count + i] = to->scalar_count + part->scalar_from[i];
    }
}

static void join_slices(struct joining *w, const struct see_recording *part)
{
    struct see_recording *to = w->to;

    for (uint64_t i = 0; i < part->slice_count; i++) {
        struct see_slice *s = &to->slice[to->slice_count + i];

        *s = part->slice[i];
        s->begin_ns = shifted(w, s->begin_ns);
        s->end_ns = shifted(w, s->end_ns);
        s->task += to->task_count;
        s->lane += to->lane_count;
        s->kernel = s->kernel != PTO_RECORDING_NONE ? w->kernel[s->kernel] : s->kernel;
    }
    for (uint64_t i = 0; i < part->edge_count; i++) {
        struct see_edge *e = &to->edge[to->edge_count + i];

        *e = part->edge[i];
        e->from += to->task_count;
        e->to += to->task_count;
    }
}

static void join_arguments(struct joining *w, const struct see_recording *part)
{
    struct see_recording *to = w->to;

    for (uint64_t i = 0; i < part->argument_count; i++) {
        struct see_argument *a = &to->argument[to->argument_count + i];

        *a = part->argument[i];
        a->allocation += to->allocation_count;
        a->owner = join_moved(a->owner, to->task_count);
    }
    for (uint64_t i = 0; i < part->scalar_count; i++)
        to->scalar[to->scalar_count + i] = part->scalar[i];
}

static void join_elements(struct joining *w, const struct see_recording *part)
{
    struct see_recording *to = w->to;

    for (uint32_t i = 0; i < part->element_count; i++) {
        struct see_element *e = &to->element[to->element_count + i];

        *e = part->element[i];
        e->task += to->task_count;
        e->group += to->group_count;
        e->run += to->run_count;
        e->file = e->file != PTO_RECORDING_NONE ? w->file[e->file] : e->file;
        e->argument.allocation += to->allocation_count;
        e->argument.owner = join_moved(e->argument.owner, to->task_count);
    }
}

static void join_touches(struct joining *w, const struct see_recording *part)
{
    struct see_recording *to = w->to;

    for (uint64_t i = 0; i < part->touch_count; i++) {
        struct see_touch *t = &to->touch[to->touch_count + i];

        *t = part->touch[i];
        t->task += to->task_count;
        t->segment += t->segment != 0 ? to->segment_count : 0;
        t->before += t->before != 0 ? to->segment_count : 0;
        t->part.allocation += to->allocation_count;
        t->part.owner = join_moved(t->part.owner, to->task_count);
    }
}

/*
 * Adds the row counts of a part to those of the result. Before this call, the row counts of the
 * result are the offsets of the part's rows in it.
 */
static void join_counts(struct see_recording *to, const struct see_recording *part,
                        uint64_t shift_ns)
{
    to->group_count += part->group_count;
    to->run_count += part->run_count;
    to->lane_count += part->lane_count;
    to->task_count += part->task_count;
    to->key_count += part->key_count;
    to->allocation_count += part->allocation_count;
    to->slice_count += part->slice_count;
    to->edge_count += part->edge_count;
    to->argument_count += part->argument_count;
    to->scalar_count += part->scalar_count;
    to->element_count += part->element_count;
    to->touch_count += part->touch_count;
    to->segment_count += part->segment_count;
    to->records_lost += part->records_lost;
    to->edges_lost += part->edges_lost;
    to->workers += part->workers;
    if (to->status >= 0)
        to->status = part->status;
    to->has_edges = to->has_edges && part->has_edges;
    to->has_ready = to->has_ready && part->has_ready;
    if (part->length_ns + shift_ns > to->length_ns)
        to->length_ns = part->length_ns + shift_ns;
}

static int join_part(struct joining *w, const struct see_recording *part)
{
    w->shift_ns = part->begin_ns - w->to->begin_ns;
    w->kernel = calloc(part->kernel_count + (size_t)1, sizeof(*w->kernel));
    w->file = calloc(part->file_count + (size_t)1, sizeof(*w->file));
    w->has_room = w->kernel != NULL && w->file != NULL;
    for (uint32_t i = 0; w->has_room && i < part->kernel_count; i++)
        w->kernel[i] = join_kernel(w, &part->kernel[i]);
    for (uint32_t i = 0; w->has_room && i < part->file_count; i++)
        w->file[i] = join_file(w, part->file[i]);
    if (w->has_room) {
        join_groups(w, part);
        join_tasks(w, part);
        join_slices(w, part);
        join_arguments(w, part);
        join_elements(w, part);
        join_touches(w, part);
        join_counts(w->to, part, w->shift_ns);
        w->to->argument_from[w->to->task_count] = w->to->argument_count;
        w->to->scalar_from[w->to->task_count] = w->to->scalar_count;
    }
    free(w->kernel);
    free(w->file);
    return w->has_room ? PTO_OK : PTO_ENOMEM;
}

/* Allocates arrays for the rows of all parts. */
static int reserve(struct see_recording *to, struct see_recording *const *part, uint32_t count)
{
    struct see_recording all = { .kernel_count = 0 };

    for (uint32_t i = 0; i < count; i++) {
        join_counts(&all, part[i], 0);
        all.kernel_count += part[i]->kernel_count;
        all.file_count += part[i]->file_count;
    }
    to->kernel = calloc(all.kernel_count + (size_t)1, sizeof(*to->kernel));
    to->file = calloc(all.file_count + (size_t)1, sizeof(*to->file));
    to->group = calloc(all.group_count + (size_t)1, sizeof(*to->group));
    to->lane = calloc(all.lane_count + (size_t)1, sizeof(*to->lane));
    to->task = calloc(all.task_count + (size_t)1, sizeof(*to->task));
    to->slice = calloc(all.slice_count + 1, sizeof(*to->slice));
    to->edge = calloc(all.edge_count + 1, sizeof(*to->edge));
    to->argument = calloc(all.argument_count + 1, sizeof(*to->argument));
    to->scalar = calloc(all.scalar_count + 1, sizeof(*to->scalar));
    to->element = calloc(all.element_count + (size_t)1, sizeof(*to->element));
    to->touch = calloc(all.touch_count + 1, sizeof(*to->touch));
    to->argument_from = calloc(all.task_count + (size_t)1, sizeof(*to->argument_from));
    to->scalar_from = calloc(all.task_count + (size_t)1, sizeof(*to->scalar_from));
    return to->kernel != NULL && to->file != NULL && to->group != NULL && to->lane != NULL &&
                   to->task != NULL && to->slice != NULL && to->edge != NULL &&
                   to->argument != NULL && to->scalar != NULL && to->element != NULL &&
                   to->touch != NULL && to->argument_from != NULL && to->scalar_from != NULL
               ? PTO_OK
               : PTO_ENOMEM;
}

/*
 * Copies the properties of the run from the first part. The begin of the run is the earliest begin
 * of all parts.
 */
static int join_head(struct see_recording *to, struct see_recording *const *part, uint32_t count)
{
    to->platform = strdup(part[0]->platform);
    to->scene = strdup(part[0]->scene);
    to->test_case = strdup(part[0]->test_case);
    to->title = strdup(part[0]->title);
    to->mode = part[0]->mode;
    to->deps = part[0]->deps;
    to->clock = part[0]->clock;
    to->level = part[0]->level;
    to->cpus = part[0]->cpus;
    to->has_edges = to->has_ready = true;
    to->begin_ns = part[0]->begin_ns;
    for (uint32_t i = 1; i < count; i++)
        if (part[i]->begin_ns < to->begin_ns)
            to->begin_ns = part[i]->begin_ns;
    return to->platform != NULL && to->scene != NULL && to->test_case != NULL && to->title != NULL
               ? PTO_OK
               : PTO_ENOMEM;
}

int see_recording_join(struct see_recording *const *part, const uint32_t *rank, uint32_t count,
                       struct see_recording **out)
{
    struct joining w = { .to = calloc(1, sizeof(*w.to)) };
    int status = w.to != NULL ? reserve(w.to, part, count) : PTO_ENOMEM;

    if (status >= 0)
        status = join_head(w.to, part, count);
    for (uint32_t i = 0; status >= 0 && i < count; i++) {
        w.rank = rank[i];
        status = join_part(&w, part[i]);
    }
    if (status >= 0)
        status = see_recording_index(w.to);
    if (status < 0)
        see_recording_free(w.to);
    else
        *out = w.to;
    return status;
}

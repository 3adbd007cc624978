/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads recordings. Every number is checked when it is read, so that users of the arrays need no
 * checks. A file has one or several parts for each group; the rows of all parts are appended to the
 * same arrays, those of a group in the order of time.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "tool/see/recording_part.h"

static int recording_read_parts(struct see_recording *r, const uint8_t *bytes, uint64_t size,
                                const char **fault_out);

int see_recording_read(const char *path, struct see_recording **out, struct pto_error *error)
{
    size_t size = 0;
    char *bytes = NULL;
    int status = file_load(path, INT64_MAX, &bytes, &size, error);

    if (status < 0)
        return status;
    status = see_recording_parse(bytes, size, path, out, error);
    free(bytes);
    return status;
}

int see_recording_parse(const void *bytes, size_t size, const char *path,
                        struct see_recording **out, struct pto_error *error)
{
    struct see_recording *r = calloc(1, sizeof(*r));
    const char *fault = NULL;
    int status = r != NULL ? recording_read_parts(r, bytes, size, &fault) : PTO_ENOMEM;

    if (status == PTO_ENOMEM)
        (void)error_setf(error, status, "not enough memory for the recording %.300s", path);
    else if (status < 0)
        (void)error_setf(error, status, "%.300s: %s", path, fault);
    if (status < 0)
        see_recording_free(r);
    else
        *out = r;
    return status;
}

/* ---- sections without times ---- */

static char *recording_text(struct recording_part *p, uint64_t index)
{
    char *text = p->fault != NULL || index >= p->text_count ? NULL : strdup(p->text[index]);

    if (text == NULL)
        (void)see_part_fault(
            p, index >= p->text_count ? "the recording is damaged: a text is missing" : "");
    return text;
}

/*
 * Returns the number of the kernel in the recording, after adding it if no part has it yet. Takes
 * ownership of its name.
 */
static uint32_t part_enter_kernel(struct recording_part *p, struct see_recording *r,
                                  struct see_kernel kernel)
{
    for (uint32_t i = 0; i < r->kernel_count; i++)
        if (r->kernel[i].core == kernel.core && strcmp(r->kernel[i].name, kernel.name) == 0) {
            free(kernel.name);
            return i;
        }
    if (see_part_grow(p, &r->kernel, r->kernel_count, 1, sizeof(kernel)) == NULL) {
        free(kernel.name);
        return 0;
    }
    r->kernel[r->kernel_count] = kernel;
    return r->kernel_count++;
}

static void recording_read_kernels(struct recording_part *p, struct see_recording *r)
{
    const uint32_t kind = PTO_RECORDING_SECTION_KERNELS;
    uint64_t rows = p->section[kind].rows;

    if (see_part_grow(p, &p->kernel, 0, rows, sizeof(*p->kernel)) == NULL)
        return;
    for (; p->kernel_count < rows && p->fault == NULL; p->kernel_count++) {
        uint64_t name = see_part_number(p, kind);
        struct see_kernel kernel = { .core = (uint8_t)see_part_below(p, kind, PTO_CORE_TYPES + 1),
                                     .origin = (uint8_t)see_part_below(
                                         p, kind, PTO_RECORDING_ORIGIN_COUNT) };

        kernel.name = recording_text(p, name);
        if (kernel.name != NULL)
            p->kernel[p->kernel_count] = part_enter_kernel(p, r, kernel);
    }
}

/* Returns the number of a file in the recording, after adding the file if no part has it yet. */
static uint32_t part_enter_file(struct see_recording *r, char *path)
{
    for (uint32_t i = 0; i < r->file_count; i++)
        if (strcmp(r->file[i], path) == 0) {
            free(path);
            return i;
        }
    r->file[r->file_count] = path;
    return r->file_count++;
}

static void recording_read_files(struct recording_part *p, struct see_recording *r)
{
    uint64_t rows = p->section[PTO_RECORDING_SECTION_FILES].rows;

    if (see_part_grow(p, &r->file, r->file_count, rows, sizeof(*r->file)) == NULL ||
        see_part_grow(p, &p->file, 0, rows, sizeof(*p->file)) == NULL)
        return;
    for (; p->file_count < rows && p->fault == NULL; p->file_count++) {
        char *path = recording_text(p, see_part_number(p, PTO_RECORDING_SECTION_FILES));

        if (path != NULL)
            p->file[p->file_count] = part_enter_file(r, path);
    }
}

/* Returns the index of a lane in the recording. Adds the lane if its group does not have it yet. */
static uint32_t part_enter_lane(struct see_recording *r, struct see_lane lane)
{
    /* the lanes of a group are adjacent, and this group is the last one of the recording */
    for (uint32_t i = r->lane_count; i > 0 && r->lane[i - 1].group == lane.group; i--)
        if (r->lane[i - 1].kind == lane.kind && r->lane[i - 1].index == lane.index)
            return i - 1;
    r->lane[r->lane_count] = lane;
    return r->lane_count++;
}

static void recording_read_lanes(struct recording_part *p, struct see_recording *r)
{
    const uint32_t kind = PTO_RECORDING_SECTION_LANES;
    uint64_t rows = p->section[kind].rows;

    if (see_part_grow(p, &r->lane, r->lane_count, rows, sizeof(*r->lane)) == NULL ||
        see_part_grow(p, &p->lane, 0, rows, sizeof(*p->lane)) == NULL)
        return;
    for (; p->lane_count < rows; p->lane_count++) {
        struct see_lane lane = { .kind = (uint8_t)see_part_below(p, kind, PTO_RECORDING_LANE_COUNT),
                                 .index = see_part_below(p, kind, UINT32_MAX),
                                 .group = p->group };

        p->lane[p->lane_count] = part_enter_lane(r, lane);
    }
}

static void recording_read_keys(struct recording_part *p)
{
    const uint32_t kind = PTO_RECORDING_SECTION_KEYS;

    if (see_part_grow(p, &p->key_kernel, 0, 4 * p->section[kind].rows, sizeof(*p->key_kernel)) ==
        NULL)
        return;
    for (; p->key_count < p->section[kind].rows; p->key_count++) {
        for (uint32_t lane = 0; lane < 3; lane++) {
            uint32_t kernel = see_part_optional(p, kind, p->kernel_count);

            p->key_kernel[4 * p->key_count + lane] =
                kernel < p->kernel_count ? p->kernel[kernel] : PTO_RECORDING_NONE;
        }
        p->key_kernel[4 * p->key_count + 3] = see_part_below(p, kind, UINT32_MAX);
    }
}

static void recording_read_region(struct recording_part *p, struct see_argument *a,
                                  uint64_t last[2])
{
    const uint32_t kind = PTO_RECORDING_SECTION_REGIONS;
    uint64_t tasks = p->section[PTO_RECORDING_SECTION_TASKS].rows;
    uint32_t owner;

    last[0] += (uint64_t)see_part_signed(p, kind);
    a->addr = last[0];
    a->size = see_part_number(p, kind);
    a->start = see_part_number(p, kind);
    a->extent = see_part_number(p, kind);
    a->allocation =
        p->allocation_first +
        (uint32_t)see_part_next(p, kind, p->meta[PTO_RECORDING_META_ALLOCATIONS], &last[1]);
    owner = see_part_optional(p, kind, tasks);
    a->owner = owner == PTO_RECORDING_NONE ? owner : p->task_first + owner;
    a->version = (int32_t)see_part_signed(p, kind);
    a->dtype = (uint8_t)see_part_below(p, kind, PTO_DTYPE_COUNT);
    a->flags = (uint8_t)see_part_below(p, kind, PTO_RECORDING_ARGUMENT_FLAGS + 1);
    a->ndims = (uint8_t)see_part_below(p, kind, PTO_MAX_DIMS + 1);
    for (uint32_t k = 0; k < a->ndims; k++) {
        a->shapes[k] = see_part_below(p, kind, 1ull << 32);
        a->strides[k] = see_part_below(p, kind, 1ull << 32);
    }
}

static void recording_read_regions(struct recording_part *p)
{
    uint64_t rows = p->section[PTO_RECORDING_SECTION_REGIONS].rows;
    uint64_t last[2] = { 0 };

    if (see_part_grow(p, &p->region, 0, rows, sizeof(*p->region)) == NULL)
        return;
    for (; p->region_count < rows && p->fault == NULL; p->region_count++)
        recording_read_region(p, &p->region[p->region_count], last);
}

/* ---- tasks ---- */

/* Previous values in those columns of tasks that are stored as differences to the value before. */
struct task_columns {
    uint64_t id, key, submit, file, line, region;
};

/* Reads a time of a task, which is stored as the difference to the time `after`. */
static uint64_t task_time(struct recording_part *p, uint64_t after)
{
    uint64_t at = after + (uint64_t)see_part_signed(p, PTO_RECORDING_SECTION_TASKS);

    return at <= RECORDING_TIME_MAX
               ? at
               : see_part_fault(p, "the recording is damaged: a time is out of range");
}

static void recording_read_times(struct recording_part *p, struct see_task *t, uint32_t has,
                                 uint64_t *last)
{
    uint64_t at;

    t->submit_ns = t->ready_ns = t->start_ns = t->end_ns = PTO_RECORDING_NO_TIME;
    if ((has & PTO_RECORDING_HAS_SUBMIT) != 0)
        t->submit_ns =
            see_part_next(p, PTO_RECORDING_SECTION_TASKS, RECORDING_TIME_MAX, last) + p->offset_ns;
    at = *last;
    if ((has & PTO_RECORDING_HAS_READY) != 0) {
        at = task_time(p, at);
        t->ready_ns = at + p->offset_ns;
    } else if (p->meta[PTO_RECORDING_META_HAS_READY] != 0) {
        t->ready_ns = t->submit_ns;
    }
    if ((has & PTO_RECORDING_HAS_END) != 0)
        t->end_ns = task_time(p, at) + p->offset_ns;
}

static void recording_read_task(struct recording_part *p, struct see_recording *r, uint32_t index,
                                struct task_columns *last, uint32_t count_out[2])
{
    const uint32_t kind = PTO_RECORDING_SECTION_TASKS;
    struct see_task *t = &r->task[p->task_first + index];
    uint32_t has = see_part_below(p, kind, PTO_RECORDING_HAS_ALL + 1);
    uint64_t key;

    *t = (struct see_task){ .flags = see_part_below(p, kind, 1ull << 32),
                            .ready_by = PTO_RECORDING_NONE,
                            .group = p->group,
                            .run = r->run_count,
                            .parent = PTO_RECORDING_NONE,
                            .file = PTO_RECORDING_NONE };
    last->id += (uint64_t)see_part_signed(p, kind);
    t->id = last->id;
    key = see_part_next(p, kind, p->key_count, &last->key);
    t->key = p->key_first + (uint32_t)key;
    if (p->fault == NULL) {
        memcpy(t->kernel, &p->key_kernel[4 * key], sizeof(t->kernel));
        t->blocks = p->key_kernel[4 * key + 3];
    }
    recording_read_times(p, t, has, &last->submit);
    if ((has & PTO_RECORDING_HAS_READY_BY) != 0)
        t->ready_by = p->task_first + see_part_before(p, kind, index);
    if ((has & PTO_RECORDING_HAS_SITE) != 0) {
        uint64_t file = see_part_next(p, kind, p->file_count, &last->file);

        t->file = file < p->file_count ? p->file[file] : PTO_RECORDING_NONE;
        t->line = (uint32_t)see_part_next(p, kind, 1ull << 32, &last->line);
    }
    if ((has & PTO_RECORDING_HAS_PARENT) != 0)
        t->parent = see_part_below(p, kind, p->task_first);
    count_out[0] = see_part_below(p, kind, UINT8_MAX + 1);
    count_out[1] = see_part_below(p, kind, UINT8_MAX + 1);
}

static void recording_read_arguments(struct recording_part *p, struct see_recording *r,
                                     uint32_t tensors, uint32_t scalars, struct task_columns *last)
{
    if (tensors > p->section[PTO_RECORDING_SECTION_TENSORS].rows ||
        scalars > p->section[PTO_RECORDING_SECTION_SCALARS].rows) {
        (void)see_part_fault(p, "the recording is damaged: tasks have more arguments than it has");
        return;
    }
    p->section[PTO_RECORDING_SECTION_TENSORS].rows -= tensors;
    p->section[PTO_RECORDING_SECTION_SCALARS].rows -= scalars;
    for (uint32_t i = 0; i < tensors && p->fault == NULL; i++) {
        uint32_t tag = see_part_below(p, PTO_RECORDING_SECTION_TENSORS, PTO_TAG_COUNT);
        uint64_t region =
            see_part_next(p, PTO_RECORDING_SECTION_TENSORS, p->region_count, &last->region);

        if (p->fault != NULL)
            return;
        r->argument[r->argument_count] = p->region[region];
        r->argument[r->argument_count++].tag = (uint8_t)tag;
    }
    for (uint32_t i = 0; i < scalars && p->fault == NULL; i++)
        r->scalar[r->scalar_count++] = see_part_number(p, PTO_RECORDING_SECTION_SCALARS);
}

static void recording_read_tasks(struct recording_part *p, struct see_recording *r)
{
    uint64_t rows = p->section[PTO_RECORDING_SECTION_TASKS].rows;
    struct task_columns last = { 0 };
    uint32_t count[2];

    if (see_part_grow(p, &r->task, r->task_count, rows, sizeof(*r->task)) == NULL ||
        see_part_grow(p, &r->argument_from, r->task_count, rows + 1, sizeof(*r->argument_from)) ==
            NULL ||
        see_part_grow(p, &r->scalar_from, r->task_count, rows + 1, sizeof(*r->scalar_from)) ==
            NULL ||
        see_part_grow(p, &r->argument, r->argument_count,
                      p->section[PTO_RECORDING_SECTION_TENSORS].rows,
                      sizeof(*r->argument)) == NULL ||
        see_part_grow(p, &r->scalar, r->scalar_count,
                      p->section[PTO_RECORDING_SECTION_SCALARS].rows, sizeof(*r->scalar)) == NULL)
        return;
    for (uint32_t i = 0; i < rows && p->fault == NULL; i++) {
        r->argument_from[p->task_first + i] = r->argument_count;
        r->scalar_from[p->task_first + i] = r->scalar_count;
        recording_read_task(p, r, i, &last, count);
        if (p->fault == NULL)
            recording_read_arguments(p, r, count[0], count[1], &last);
    }
    r->task_count += (uint32_t)rows;
    r->argument_from[r->task_count] = r->argument_count;
    r->scalar_from[r->task_count] = r->scalar_count;
}

/* ---- slices and edges ---- */

static uint64_t slice_cpu(struct recording_part *p, uint64_t duration)
{
    uint64_t number = see_part_number(p, PTO_RECORDING_SECTION_SLICES), less;

    if (number == 0)
        return PTO_RECORDING_NO_TIME;
    less = (number - 1) >> 1 ^ (0 - ((number - 1) & 1));
    return duration - less <= RECORDING_TIME_MAX ? duration - less : 0;
}

static void recording_read_slices(struct recording_part *p, struct see_recording *r)
{
    const uint32_t kind = PTO_RECORDING_SECTION_SLICES;
    uint64_t rows = p->section[kind].rows, task = 0, block = 0, begin = 0;

    if (see_part_grow(p, &r->slice, r->slice_count, rows, sizeof(*r->slice)) == NULL)
        return;
    for (uint64_t i = 0; i < rows && p->fault == NULL; i++) {
        struct see_slice *s = &r->slice[r->slice_count++];
        uint32_t kernel, lane;
        uint64_t duration;

        s->task =
            p->task_first + (uint32_t)see_part_next(p, kind, r->task_count - p->task_first, &task);
        lane = see_part_below(p, kind, p->lane_count);
        s->lane = lane < p->lane_count ? p->lane[lane] : 0;
        s->block = (uint32_t)see_part_next(p, kind, 1ull << 32, &block);
        kernel = see_part_optional(p, kind, p->kernel_count);
        s->kernel = kernel < p->kernel_count ? p->kernel[kernel] : PTO_RECORDING_NONE;
        s->begin_ns = see_part_next(p, kind, RECORDING_TIME_MAX, &begin) + p->offset_ns;
        duration = see_part_number(p, kind);
        if (duration > RECORDING_TIME_MAX)
            duration = see_part_fault(p, "the recording is damaged: a slice is too long");
        s->end_ns = s->begin_ns + duration;
        s->cpu_ns = slice_cpu(p, duration);
    }
}

static void recording_read_edges(struct recording_part *p, struct see_recording *r)
{
    const uint32_t kind = PTO_RECORDING_SECTION_EDGES;
    uint64_t rows = p->section[kind].rows, to = 0;

    if (see_part_grow(p, &r->edge, r->edge_count, rows, sizeof(*r->edge)) == NULL)
        return;
    for (uint64_t i = 0; i < rows && p->fault == NULL; i++) {
        struct see_edge *e = &r->edge[r->edge_count++];
        uint32_t reason;

        e->to =
            p->task_first + (uint32_t)see_part_next(p, kind, r->task_count - p->task_first, &to);
        e->from = p->task_first + see_part_before(p, kind, (uint32_t)to);
        reason = see_part_below(p, kind, 2 * PTO_RECORDING_REASON_COUNT);
        e->reason = (uint8_t)(reason / 2);
        e->is_wired = reason % 2 != 0;
        e->from_argument = (int16_t)((int)see_part_below(p, kind, INT16_MAX) - 1);
        e->to_argument = (int16_t)((int)see_part_below(p, kind, INT16_MAX) - 1);
    }
}

static void recording_read_elements(struct recording_part *p, struct see_recording *r)
{
    const uint32_t kind = PTO_RECORDING_SECTION_ELEMENTS;
    uint64_t rows = p->section[kind].rows, tasks = r->task_count - p->task_first, task = 0;
    uint64_t region = 0;

    if (see_part_grow(p, &r->element, r->element_count, rows, sizeof(*r->element)) == NULL)
        return;
    for (uint64_t i = 0; i < rows && p->fault == NULL; i++) {
        struct see_element *e = &r->element[r->element_count];
        uint64_t before = task;

        *e = (struct see_element){ .group = p->group, .run = r->run_count };
        e->task = p->task_first + (uint32_t)see_part_next(p, kind, tasks + 1, &task);
        e->kind = (uint8_t)see_part_below(p, kind, PTO_RECORDING_ELEMENT_COUNT);
        (void)see_part_next(p, kind, p->region_count, &region);
        e->file = see_part_optional(p, kind, p->file_count);
        e->file = e->file < p->file_count ? p->file[e->file] : PTO_RECORDING_NONE;
        e->line = see_part_below(p, kind, 1ull << 32);
        if (task < before || (task == tasks && e->kind == PTO_RECORDING_ELEMENT_PREDICATE))
            (void)see_part_fault(p, "the recording is damaged: its elements are not in order");
        if (p->fault != NULL)
            return;
        e->argument = p->region[region];
        r->element_count++;
    }
}

/* Returns a number of a segment, made unique in the recording. */
static uint32_t recording_read_segment(struct recording_part *p, struct see_recording *r)
{
    uint32_t segment =
        see_part_below(p, PTO_RECORDING_SECTION_TOUCHED, (1ull << 31) - p->segment_first);

    if (segment == 0)
        return 0;
    segment += p->segment_first;
    if (segment >= r->segment_count)
        r->segment_count = segment + 1;
    return segment;
}

static void recording_read_touched(struct recording_part *p, struct see_recording *r)
{
    const uint32_t kind = PTO_RECORDING_SECTION_TOUCHED;
    uint64_t rows = p->section[kind].rows, tasks = r->task_count - p->task_first, task = 0;
    uint64_t region = 0;

    if (see_part_grow(p, &r->touch, r->touch_count, rows, sizeof(*r->touch)) == NULL)
        return;
    if (r->touch_count + rows >= PTO_RECORDING_NONE)
        (void)see_part_fault(p, "the recording has more uses of elements than can be read");
    for (uint64_t i = 0; i < rows && p->fault == NULL; i++) {
        struct see_touch *t = &r->touch[r->touch_count];

        t->task = p->task_first + (uint32_t)see_part_next(p, kind, tasks, &task);
        t->kind = (uint8_t)see_part_below(p, kind, PTO_RECORDING_TOUCH_COUNT);
        if (t->kind == PTO_RECORDING_TOUCH_STEP)
            t->segment = recording_read_segment(p, r);
        if (t->kind == PTO_RECORDING_TOUCH_STEP || t->kind == PTO_RECORDING_TOUCH_END)
            t->before = recording_read_segment(p, r);
        if (see_touch_has_part(t) && p->fault == NULL) {
            t->invocation = see_part_below(p, kind, 1ull << 32);
            t->segment = recording_read_segment(p, r);
            t->argument = (int16_t)((int)see_part_below(p, kind, PTO_TASK_TENSORS_MAX + 1) - 1);
            (void)see_part_next(p, kind, p->region_count, &region);
        }
        if (p->fault != NULL)
            return;
        if (see_touch_has_part(t))
            t->part = p->region[region];
        r->touch_count++;
    }
}

/* ---- parts ---- */

static void check_ends(struct recording_part *p)
{
    for (uint32_t i = 0; i < PTO_RECORDING_SECTION_COUNT; i++)
        if (p->section[i].at != p->section[i].end)
            (void)see_part_fault(
                p, "the recording is damaged: a section has extra bytes after its rows");
    if (p->section[PTO_RECORDING_SECTION_TENSORS].rows != 0 ||
        p->section[PTO_RECORDING_SECTION_SCALARS].rows != 0)
        (void)see_part_fault(p,
                             "the recording is damaged: it has arguments that belong to no task");
}

/* Returns a number from the META section of the part; it must be below the limit. */
static uint32_t part_meta(struct recording_part *p, enum pto_recording_meta which, uint64_t limit)
{
    if (p->meta[which] < limit)
        return (uint32_t)p->meta[which];
    return (uint32_t)see_part_fault(p,
                                    "the recording is damaged: a property of the run is unknown");
}

/*
 * Returns the index of the group (chip, rank or worker) with this name; PTO_RECORDING_NONE: there
 * is none.
 */
static uint32_t recording_find_group(const struct see_recording *r, const char *name)
{
    for (uint32_t i = 0; i < r->group_count; i++)
        if (strcmp(r->group[i].name, name) == 0)
            return i;
    return PTO_RECORDING_NONE;
}

/* Returns the group that contains the group of the part; PTO_RECORDING_NONE: there is none. */
static uint32_t part_parent(struct recording_part *p, const struct see_recording *r)
{
    uint64_t name = p->meta[PTO_RECORDING_META_PARENT];

    if (name == 0)
        return PTO_RECORDING_NONE;
    if (name > p->text_count)
        return (uint32_t)see_part_fault(p, "the recording is damaged: a text is missing");
    return recording_find_group(r, p->text[name - 1]);
}

/* Appends the group of the part to the recording, with no tasks yet. */
static void enter_group(struct recording_part *p, struct see_recording *r)
{
    struct see_group *g = see_part_grow(p, &r->group, r->group_count, 1, sizeof(*g));
    uint32_t parent = part_parent(p, r);
    uint32_t rank = part_meta(p, PTO_RECORDING_META_RANK, UINT32_MAX);

    if (g == NULL)
        return;
    r->group[r->group_count++] = (struct see_group){
        .name = recording_text(p, p->meta[PTO_RECORDING_META_GROUP_NAME]),
        .kind = (uint8_t)part_meta(p, PTO_RECORDING_META_GROUP, PTO_RECORDING_GROUP_COUNT),
        .parent = parent,
        .chip = part_meta(p, PTO_RECORDING_META_CHIP, UINT32_MAX),
        .rank = rank != 0 ? rank - 1 : PTO_RECORDING_NONE,
        .task_begin = r->task_count,
        .lane_begin = r->lane_count,
        .aics = part_meta(p, PTO_RECORDING_META_AICS, UINT32_MAX),
        .aivs = part_meta(p, PTO_RECORDING_META_AIVS, UINT32_MAX),
        .clusters = part_meta(p, PTO_RECORDING_META_CLUSTERS, UINT32_MAX),
        .begin_ns = p->offset_ns,
    };
}

/* Sets the group of the part: a new group, or the last one of the recording. */
static void part_find_group(struct recording_part *p, struct see_recording *r, bool is_new)
{
    if (is_new)
        enter_group(p, r);
    p->group = r->group_count != 0 ? r->group_count - 1 : 0;
}

/*
 * Sets, for each task of the part, which task of the parent group ran it, if that is known. The
 * search begins after the task found for the previous part.
 */
static void enter_parents(const struct recording_part *p, struct see_recording *r)
{
    const struct see_group *g = &r->group[p->group], *above;
    uint64_t number = p->meta[PTO_RECORDING_META_PARENT_TASK];
    uint32_t from = 0, count;

    if (g->parent == PTO_RECORDING_NONE || number == 0)
        return;
    above = &r->group[g->parent];
    count = above->task_end - above->task_begin;
    if (p->task_first > g->task_begin && r->task[p->task_first - 1].parent < r->task_count)
        from = r->task[p->task_first - 1].parent + 1 - above->task_begin;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t parent = above->task_begin + (from + i) % count;

        if (r->task[parent].id == number) {
            for (uint32_t t = p->task_first; t < r->task_count; t++)
                r->task[t].parent = parent;
            return;
        }
    }
}

/*
 * Copies what all parts have in common from the first part, and the properties of a run on a chip
 * from the first chip. Adds up the losses of all parts.
 */
static void enter_run(struct recording_part *p, struct see_recording *r)
{
    uint64_t status = p->meta[PTO_RECORDING_META_STATUS];
    uint64_t end = p->meta[PTO_RECORDING_META_LENGTH_NS];
    bool is_first = r->platform == NULL;

    if (end > RECORDING_TIME_MAX)
        end = see_part_fault(p, "the recording is damaged: it is too long");
    end += p->offset_ns;
    r->length_ns = end > r->length_ns ? end : r->length_ns;
    r->records_lost += p->meta[PTO_RECORDING_META_RECORDS_LOST];
    r->edges_lost += p->meta[PTO_RECORDING_META_EDGES_LOST];
    if (r->status == 0)
        r->status = (int32_t)(status >> 1 ^ (0 - (status & 1)));
    if (part_meta(p, PTO_RECORDING_META_HAS_EDGES, 2) == 0 &&
        p->section[PTO_RECORDING_SECTION_TASKS].rows != 0)
        r->has_edges = false;
    if (part_meta(p, PTO_RECORDING_META_HAS_READY, 2) == 0)
        r->has_ready = false;
    if (is_first || r->group[p->group].kind == PTO_RECORDING_GROUP_CHIP) {
        r->mode = (uint8_t)part_meta(p, PTO_RECORDING_META_MODE, PTO_MODE_COUNT);
        r->clock = (uint8_t)part_meta(p, PTO_RECORDING_META_CLOCK, PTO_RECORDING_CLOCK_COUNT);
        r->workers = part_meta(p, PTO_RECORDING_META_WORKERS, UINT32_MAX);
    }
    if (!is_first)
        return;
    r->platform = recording_text(p, p->meta[PTO_RECORDING_META_PLATFORM]);
    r->scene = recording_text(p, p->meta[PTO_RECORDING_META_SCENE]);
    r->test_case = recording_text(p, p->meta[PTO_RECORDING_META_TEST_CASE]);
    r->title = recording_text(p, p->meta[PTO_RECORDING_META_TITLE]);
    r->deps = (uint8_t)part_meta(p, PTO_RECORDING_META_DEPS, PTO_DEPS_COUNT);
    r->level = (uint8_t)part_meta(p, PTO_RECORDING_META_LEVEL, PTO_TRACE_ARGUMENTS + 1);
    r->cpus = part_meta(p, PTO_RECORDING_META_CPUS, UINT32_MAX);
}

static void recording_read_sections(struct recording_part *p, struct see_recording *r)
{
    static void (*const steps[])(struct recording_part *, struct see_recording *) = {
        recording_read_kernels, recording_read_files, recording_read_lanes
    };

    for (uint32_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && p->fault == NULL; i++)
        steps[i](p, r);
    if (p->fault == NULL)
        recording_read_keys(p);
    if (p->fault == NULL)
        recording_read_regions(p);
    if (p->fault == NULL)
        recording_read_tasks(p, r);
    if (p->fault == NULL)
        recording_read_slices(p, r);
    if (p->fault == NULL)
        recording_read_edges(p, r);
    if (p->fault == NULL)
        recording_read_elements(p, r);
    if (p->fault == NULL)
        recording_read_touched(p, r);
    if (p->fault == NULL)
        check_ends(p);
    if (p->fault == NULL) {
        r->group[p->group].task_end = r->task_count;
        r->group[p->group].lane_end = r->lane_count;
        enter_parents(p, r);
        enter_run(p, r);
    }
}

/*
 * Reads a part into the recording and frees the part. Returns what is wrong with it; NULL: nothing;
 * "": out of memory.
 */
static const char *recording_read_part(struct see_recording *r, struct recording_part *p,
                                       bool is_new_group, uint64_t begin_ns)
{
    p->task_first = r->task_count;
    p->key_first = r->key_count;
    p->allocation_first = r->allocation_count;
    p->segment_first = r->segment_count;
    p->offset_ns = p->head.begin_ns - begin_ns;
    if (p->offset_ns > RECORDING_TIME_MAX)
        (void)see_part_fault(p,
                             "the recording is damaged: the times of its parts are too far apart");
    if (p->fault == NULL)
        part_find_group(p, r, is_new_group);
    if (p->fault == NULL)
        recording_read_sections(p, r);
    r->run_count++;
    r->key_count += (uint32_t)p->key_count;
    r->allocation_count += (uint32_t)p->meta[PTO_RECORDING_META_ALLOCATIONS];
    see_part_free(p);
    return p->fault;
}

/*
 * Sets start and end of each task from its slices. Moves the times of its submit and its readiness
 * if necessary, so that submit, ready, start and end are in this order.
 */
static void settle_times(struct see_recording *r)
{
    for (uint32_t i = 0; i < r->task_count; i++) {
        struct see_task *t = &r->task[i];
        uint64_t end = 0;

        for (uint64_t k = r->slice_from[i]; k < r->slice_from[i + 1]; k++) {
            t->start_ns = r->slice[k].begin_ns < t->start_ns ? r->slice[k].begin_ns : t->start_ns;
            end = r->slice[k].end_ns > end ? r->slice[k].end_ns : end;
        }
        if (t->start_ns != PTO_RECORDING_NO_TIME &&
            (t->end_ns == PTO_RECORDING_NO_TIME || t->end_ns < end))
            t->end_ns = end;
        if (t->submit_ns != PTO_RECORDING_NO_TIME && t->submit_ns > t->start_ns)
            /* another thread began the task before its submit returned */
            t->submit_ns = t->start_ns;
        if (t->ready_ns != PTO_RECORDING_NO_TIME && t->ready_ns > t->start_ns)
            t->ready_ns = t->start_ns;
        if (t->submit_ns != PTO_RECORDING_NO_TIME && t->ready_ns < t->submit_ns)
            t->ready_ns = t->submit_ns;
    }
}

static int recording_read_parts(struct see_recording *r, const uint8_t *bytes, uint64_t size,
                                const char **fault_out)
{
    uint64_t begin_ns = UINT64_MAX, count = 0;
    struct part_place *place = NULL;
    const char *fault = see_part_list(bytes, size, &place, &count);

    r->has_edges = r->has_ready = true;
    for (uint64_t i = 0; fault == NULL && i < count; i++)
        begin_ns = place[i].begin_ns < begin_ns ? place[i].begin_ns : begin_ns;
    for (uint64_t i = 0; fault == NULL && i < count; i++) {
        struct recording_part part;

        see_part_open(&part, place[i].from);
        fault = recording_read_part(r, &part, i == 0 || place[i].group_at != place[i - 1].group_at,
                                    begin_ns);
    }
    free(place);
    if (fault == NULL && see_recording_index(r) < 0)
        fault = "";
    if (fault == NULL) {
        r->begin_ns = begin_ns;
        settle_times(r);
        return PTO_OK;
    }
    *fault_out = fault;
    return fault[0] == '\0' ? PTO_ENOMEM : PTO_EINVAL;
}

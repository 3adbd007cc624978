/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tool/see/swimlane_read.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "pto/status.h"
#include "tool/see/json_text.h"

/* Maximum size of a file, because files are read into memory as a whole. */
#define FILE_BYTES_MAX ((size_t)4 << 30)

enum { CORES_MAX = 4096, KERNELS_MAX = 65536, KEY_BYTES = 64, NAME_BYTES = 256 };

/*
 * Rows of simpler's files, one struct each: an execution, a submit, an edge, a task. Times are in
 * cycles.
 */
struct swim_slice {
    uint64_t task;
    uint64_t begin, end;
    uint32_t core;
};

struct swim_submit {
    uint64_t task, begin, end;
};

struct swim_edge {
    uint64_t from, to;
    int32_t argument;
    uint8_t reason;
};

struct swim_task {
    uint64_t id;
    int32_t kernel[3];
    uint32_t blocks;
    uint32_t order; /* index of the task in the recording */
};

/* An array that grows when append() adds an item. */
struct list {
    void *item;
    uint64_t count;
};

struct reading {
    struct list slices, submits, edges, tasks;
    bool is_aiv[CORES_MAX];
    uint32_t cores;
    int64_t hertz;
    bool has_slices; /* the file has a list of executions, which may be empty */
    bool has_deps;
    char **name; /* name of each kernel; NULL: unknown */
    uint32_t kernels;
    bool has_unknown; /* whether an execution is of a kernel that deps.json lacks */
    bool has_room;    /* false: memory ran out */
    struct see_recording *out;
    uint64_t base; /* begin of the recording in cycles */
};

static void *append(struct reading *w, struct list *l, size_t bytes)
{
    void *more = l->item;

    /* the array grows when it has 0, 1, 3, 7, ... items */
    if ((l->count & (l->count + 1)) == 0)
        more = realloc(l->item, (2 * l->count + 2) * bytes);
    if (more == NULL) {
        w->has_room = false;
        return NULL;
    }
    l->item = more;
    return memset((char *)more + l->count++ * bytes, 0, bytes);
}

/* ---- chip_swimlane_records.json ---- */

static void read_metadata(struct reading *w, struct see_json *j)
{
    char key[KEY_BYTES], text[KEY_BYTES];

    see_json_open(j, '{');
    while (see_json_key(j, key, sizeof(key))) {
        if (strcmp(key, "clock_freq_hz") == 0) {
            see_json_integer(j, &w->hertz);
        } else if (strcmp(key, "core_types") == 0) {
            see_json_open(j, '[');
            while (see_json_item(j) && see_json_string(j, text, sizeof(text)))
                if (w->cores < CORES_MAX)
                    w->is_aiv[w->cores++] = strcasecmp(text, "aiv") == 0;
        } else {
            see_json_skip(j);
        }
    }
}

/* Reads executions, each of which is [core, task, number, start, end, ...]. */
static void read_executions(struct reading *w, struct see_json *j)
{
    w->has_slices = true;
    see_json_open(j, '[');
    while (see_json_item(j)) {
        struct swim_slice *s = append(w, &w->slices, sizeof(*s));
        int64_t number[5] = { 0 };
        uint32_t count = 0;

        see_json_open(j, '[');
        while (see_json_item(j))
            if (count < 5)
                see_json_integer(j, &number[count++]);
            else
                see_json_skip(j);
        if (s == NULL || count < 5 || number[0] < 0 || number[0] >= CORES_MAX ||
            (uint64_t)number[4] < (uint64_t)number[3]) {
            j->has_fault = true;
            return;
        }
        *s = (struct swim_slice){ (uint64_t)number[1], (uint64_t)number[3], (uint64_t)number[4],
                                  (uint32_t)number[0] };
    }
}

/*
 * Reads the submits of each thread. The times of a host thread are by another clock, so only the
 * order of its submits is used.
 */
static void read_submits(struct reading *w, struct see_json *j)
{
    char key[KEY_BYTES];

    see_json_open(j, '[');
    while (see_json_item(j)) {
        see_json_open(j, '[');
        while (see_json_item(j)) {
            struct swim_submit *s = append(w, &w->submits, sizeof(*s));

            see_json_open(j, '{');
            while (s != NULL && see_json_key(j, key, sizeof(key))) {
                int64_t *to = strcmp(key, "task_id") == 0        ? (int64_t *)&s->task
                              : strcmp(key, "start_cycles") == 0 ? (int64_t *)&s->begin
                              : strcmp(key, "end_cycles") == 0   ? (int64_t *)&s->end
                                                                 : NULL;

                if (to == NULL ? !see_json_skip(j) : !see_json_integer(j, to))
                    return;
            }
        }
        j->is_first = false;
    }
}

static void read_records(struct reading *w, struct see_json *j)
{
    char key[KEY_BYTES];

    w->hertz = 1000000000;
    see_json_open(j, '{');
    while (see_json_key(j, key, sizeof(key)))
        if (strcmp(key, "metadata") == 0)
            read_metadata(w, j);
        else if (strcmp(key, "aicore_tasks") == 0)
            read_executions(w, j);
        else if (strcmp(key, "aicpu_orchestrator_phases") == 0 ||
                 strcmp(key, "host_orchestrator_phases") == 0)
            read_submits(w, j);
        else
            see_json_skip(j);
    if (w->hertz <= 0)
        j->has_fault = true;
}

/* ---- deps.json ---- */

static void read_task(struct reading *w, struct see_json *j)
{
    struct swim_task *t = append(w, &w->tasks, sizeof(*t));
    char key[KEY_BYTES];
    int64_t number = 0;

    if (t == NULL)
        return;
    *t = (struct swim_task){ .kernel = { -1, -1, -1 }, .blocks = 1 };
    see_json_open(j, '{');
    while (see_json_key(j, key, sizeof(key))) {
        if (strcmp(key, "task_id") == 0) {
            see_json_integer(j, (int64_t *)&t->id);
        } else if (strcmp(key, "block_num") == 0) {
            see_json_integer(j, &number);
            t->blocks = number > 0 && number < INT32_MAX ? (uint32_t)number : 1;
        } else if (strcmp(key, "kernel_ids") == 0) {
            see_json_open(j, '[');
            for (uint32_t i = 0; see_json_item(j) && see_json_integer(j, &number); i++)
                if (i < 3 && number >= 0 && number < KERNELS_MAX) {
                    t->kernel[i] = (int32_t)number;
                    w->kernels = number >= w->kernels ? (uint32_t)number + 1 : w->kernels;
                }
        } else {
            see_json_skip(j);
        }
    }
}

static void read_edge(struct reading *w, struct see_json *j)
{
    struct swim_edge *e = append(w, &w->edges, sizeof(*e));
    char key[KEY_BYTES], text[KEY_BYTES];
    int64_t number;

    if (e == NULL)
        return;
    e->argument = -1;
    see_json_open(j, '{');
    while (see_json_key(j, key, sizeof(key))) {
        if (strcmp(key, "pred") == 0) {
            see_json_integer(j, (int64_t *)&e->from);
        } else if (strcmp(key, "succ") == 0) {
            see_json_integer(j, (int64_t *)&e->to);
        } else if (strcmp(key, "arg") == 0 && see_json_integer(j, &number)) {
            e->argument = number >= 0 && number < INT16_MAX ? (int32_t)number : -1;
        } else if (strcmp(key, "source") == 0) {
            see_json_string(j, text, sizeof(text));
            e->reason = strcmp(text, "explicit") == 0    ? PTO_RECORDING_REASON_EXPLICIT
                        : strcmp(text, "creator") == 0   ? PTO_RECORDING_REASON_CREATOR
                        : strcmp(text, "tensormap") == 0 ? PTO_RECORDING_REASON_RAW
                                                         : PTO_RECORDING_REASON_UNKNOWN;
        } else {
            see_json_skip(j);
        }
    }
}

static void read_deps(struct reading *w, struct see_json *j)
{
    char key[KEY_BYTES];

    w->has_deps = true;
    see_json_open(j, '{');
    while (see_json_key(j, key, sizeof(key))) {
        bool is_tasks = strcmp(key, "tasks") == 0;

        if (!is_tasks && strcmp(key, "edges") != 0) {
            see_json_skip(j);
            continue;
        }
        see_json_open(j, '[');
        while (see_json_item(j)) {
            if (is_tasks)
                read_task(w, j);
            else
                read_edge(w, j);
        }
    }
}

/* ---- name_map*.json ---- */

static void read_names(struct reading *w, struct see_json *j)
{
    char key[KEY_BYTES], name[NAME_BYTES];

    w->name = calloc(w->kernels + (size_t)1, sizeof(*w->name));
    see_json_open(j, '{');
    while (see_json_key(j, key, sizeof(key))) {
        if (strcmp(key, "callable_id_to_name") != 0) {
            see_json_skip(j);
            continue;
        }
        see_json_open(j, '{');
        while (see_json_key(j, key, sizeof(key)) && see_json_string(j, name, sizeof(name))) {
            unsigned long kernel = strtoul(key, NULL, 10);

            if (w->name != NULL && kernel < w->kernels && w->name[kernel] == NULL)
                w->name[kernel] = strdup(name);
        }
    }
}

/* ---- the recording ---- */

static int swimlane_by_id(const void *a, const void *b)
{
    const struct swim_task *p = a, *q = b;

    return p->id < q->id ? -1 : p->id > q->id;
}

static struct swim_task *find_task(const struct reading *w, uint64_t id)
{
    struct swim_task of = { .id = id };

    return w->tasks.count == 0
               ? NULL
               : bsearch(&of, w->tasks.item, w->tasks.count, sizeof(of), swimlane_by_id);
}

static int by_order(const void *a, const void *b)
{
    const struct swim_task *p = a, *q = b;

    return p->order < q->order ? -1 : p->order > q->order;
}

/* Appends the tasks of all submits and executions to those of deps.json. */
static void add_tasks(struct reading *w)
{
    const struct swim_slice *slice = w->slices.item;
    const struct swim_submit *submit = w->submits.item;

    for (uint64_t i = 0; i < w->submits.count + w->slices.count; i++) {
        struct swim_task *t = append(w, &w->tasks, sizeof(*t));

        if (t == NULL)
            return;
        *t = (struct swim_task){ .kernel = { -1, -1, -1 }, .blocks = 1 };
        t->id = i < w->submits.count ? submit[i].task : slice[i - w->submits.count].task;
    }
}

/*
 * Removes duplicate tasks, numbers the tasks in the order of their first occurrence, and sorts them
 * by id.
 */
static void number_tasks(struct reading *w)
{
    struct swim_task *task = w->tasks.item;
    uint64_t kept = 0;

    if (task == NULL)
        return;
    for (uint64_t i = 0; i < w->tasks.count; i++)
        task[i].order = (uint32_t)i;
    qsort(task, w->tasks.count, sizeof(*task), swimlane_by_id);
    for (uint64_t i = 0; i < w->tasks.count; i++)
        if (kept == 0 || task[kept - 1].id != task[i].id)
            task[kept++] = task[i];
        else if (task[i].order < task[kept - 1].order)
            task[kept - 1] = task[i];
    w->tasks.count = kept;
    qsort(task, kept, sizeof(*task), by_order);
    for (uint64_t i = 0; i < kept; i++)
        task[i].order = (uint32_t)i;
    qsort(task, kept, sizeof(*task), swimlane_by_id);
}

static uint64_t swimlane_ns(const struct reading *w, uint64_t cycles)
{
    return cycles <= w->base ? 0 : (uint64_t)((double)(cycles - w->base) * 1e9 / (double)w->hertz);
}

/*
 * Sets the begin of the recording: the first time of all executions and of the submits that have
 * times.
 */
static void swimlane_find_base(struct reading *w)
{
    const struct swim_slice *slice = w->slices.item;
    const struct swim_submit *submit = w->submits.item;

    w->base = UINT64_MAX;
    for (uint64_t i = 0; i < w->slices.count; i++)
        w->base = slice[i].begin < w->base ? slice[i].begin : w->base;
    for (uint64_t i = 0; i < w->submits.count; i++)
        if (submit[i].begin != 0)
            w->base = submit[i].begin < w->base ? submit[i].begin : w->base;
}

/*
 * Returns the kernel of an execution of the task on a core; -1: unknown. The files do not tell
 * which of the two vector cores of a cluster a core is.
 */
static int32_t swimlane_kernel(const struct reading *w, const struct swim_task *t, uint32_t core)
{
    int32_t vector = t->kernel[1] >= 0 ? t->kernel[1] : t->kernel[2];

    return t->kernel[0] < 0 || w->is_aiv[core] ? vector : t->kernel[0];
}

/*
 * Without deps.json, all executions get one kernel, "task". With it, executions of tasks that it
 * lacks get the kernel "unknown kernel": those of graphs that a task expands on the chip.
 */
static int make_kernels(struct reading *w)
{
    const struct swim_slice *slice = w->slices.item;
    struct see_recording *r = w->out;
    char text[NAME_BYTES];

    for (uint64_t i = 0; i < w->slices.count && !w->has_unknown; i++)
        w->has_unknown = swimlane_kernel(w, find_task(w, slice[i].task), slice[i].core) < 0;
    r->kernel_count = w->kernels + w->has_unknown;
    r->kernel = calloc(r->kernel_count + (size_t)1, sizeof(*r->kernel));
    if (r->kernel == NULL)
        return PTO_ENOMEM;
    for (uint32_t i = 0; i < r->kernel_count; i++) {
        snprintf(text, sizeof(text),
                 i < w->kernels ? "kernel %u"
                 : w->has_deps  ? "unknown kernel"
                                : "task",
                 i);
        r->kernel[i].core = PTO_CORE_TYPES;
        r->kernel[i].name =
            strdup(w->name != NULL && i < w->kernels && w->name[i] != NULL ? w->name[i] : text);
        if (r->kernel[i].name == NULL)
            return PTO_ENOMEM;
    }
    return PTO_OK;
}

static int make_lanes(struct reading *w)
{
    struct see_recording *r = w->out;
    uint32_t count[2] = { 0 };

    r->group = calloc(1, sizeof(*r->group));
    r->lane = calloc(w->cores + (size_t)1, sizeof(*r->lane));
    if (r->group == NULL || r->lane == NULL)
        return PTO_ENOMEM;
    r->group_count = 1;
    r->lane_count = w->cores;
    for (uint32_t i = 0; i < w->cores; i++)
        r->lane[i] = (struct see_lane){ .kind = w->is_aiv[i] ? PTO_RECORDING_LANE_AIV
                                                             : PTO_RECORDING_LANE_AIC,
                                        .index = count[w->is_aiv[i]]++ };
    *r->group = (struct see_group){ .name = strdup("chip 0"),
                                    .kind = PTO_RECORDING_GROUP_CHIP,
                                    .parent = PTO_RECORDING_NONE,
                                    .rank = PTO_RECORDING_NONE,
                                    .task_end = (uint32_t)w->tasks.count,
                                    .lane_end = w->cores,
                                    .aics = count[0],
                                    .aivs = count[1],
                                    .clusters = count[0] };
    return r->group->name != NULL ? PTO_OK : PTO_ENOMEM;
}

static int make_tasks(struct reading *w)
{
    struct see_recording *r = w->out;
    const struct swim_task *task = w->tasks.item;
    const struct swim_submit *submit = w->submits.item;

    r->task_count = (uint32_t)w->tasks.count;
    r->task = calloc(w->tasks.count + 1, sizeof(*r->task));
    r->argument_from = calloc(w->tasks.count + 1, sizeof(*r->argument_from));
    r->scalar_from = calloc(w->tasks.count + 1, sizeof(*r->scalar_from));
    if (r->task == NULL || r->argument_from == NULL || r->scalar_from == NULL)
        return PTO_ENOMEM;
    for (uint64_t i = 0; i < w->tasks.count; i++) {
        struct see_task *t = &r->task[task[i].order];

        *t = (struct see_task){ .id = task[i].id, .start_ns = PTO_RECORDING_NO_TIME };
        t->parent = t->file = t->ready_by = PTO_RECORDING_NONE;
        t->blocks = task[i].blocks;
        for (uint32_t lane = 3; lane-- > 0;) {
            t->kernel[lane] = PTO_RECORDING_NONE;
            if (task[i].kernel[lane] >= 0) {
                t->kernel[lane] = (uint32_t)task[i].kernel[lane];
                /* The files have no shapes, so tasks with the same kernel get the same key. */
                t->key = t->kernel[lane] + 1;
            }
        }
    }
    for (uint64_t i = 0; i < w->submits.count; i++)
        if (submit[i].end != 0)
            r->task[find_task(w, submit[i].task)->order].submit_ns = swimlane_ns(w, submit[i].end);
    return PTO_OK;
}

static int make_slices(struct reading *w)
{
    struct see_recording *r = w->out;
    const struct swim_slice *slice = w->slices.item;

    r->slice = calloc(w->slices.count + 1, sizeof(*r->slice));
    if (r->slice == NULL)
        return PTO_ENOMEM;
    for (uint64_t i = 0; i < w->slices.count; i++) {
        const struct swim_task *from = find_task(w, slice[i].task);
        struct see_task *t = &r->task[from->order];
        struct see_slice *s = &r->slice[i];
        uint32_t lane = slice[i].core;
        int32_t kernel = swimlane_kernel(w, from, lane);

        if (lane >= w->cores)
            continue;
        *s = (struct see_slice){ .begin_ns = swimlane_ns(w, slice[i].begin),
                                 .end_ns = swimlane_ns(w, slice[i].end),
                                 .cpu_ns = PTO_RECORDING_NO_TIME,
                                 .task = (uint32_t)(t - r->task),
                                 .lane = lane };
        s->kernel = kernel >= 0 ? (uint32_t)kernel : w->kernels;
        if (kernel >= 0) /* the files do not tell the core of a kernel */
            r->kernel[kernel].core = w->is_aiv[lane] ? PTO_CORE_AIV : PTO_CORE_AIC;
        t->start_ns = s->begin_ns < t->start_ns ? s->begin_ns : t->start_ns;
        t->end_ns = s->end_ns > t->end_ns ? s->end_ns : t->end_ns;
        r->length_ns = s->end_ns > r->length_ns ? s->end_ns : r->length_ns;
        r->slice_count++;
    }
    return r->slice_count == w->slices.count ? PTO_OK : PTO_EINVAL;
}

static int make_edges(struct reading *w)
{
    struct see_recording *r = w->out;
    const struct swim_edge *edge = w->edges.item;

    r->has_edges = w->has_deps;
    r->edge = calloc(w->edges.count + 1, sizeof(*r->edge));
    if (r->edge == NULL)
        return PTO_ENOMEM;
    for (uint64_t i = 0; i < w->edges.count; i++) {
        const struct swim_task *from = find_task(w, edge[i].from), *to = find_task(w, edge[i].to);

        if (from == NULL || to == NULL || from->order >= to->order)
            continue;
        r->edge[r->edge_count++] = (struct see_edge){ .from = from->order,
                                                      .to = to->order,
                                                      .from_argument = -1,
                                                      .to_argument = (int16_t)edge[i].argument,
                                                      .reason = edge[i].reason,
                                                      .is_wired = true };
    }
    return PTO_OK;
}

/*
 * Computes when tasks became ready, which the files do not say: after their submit and the ends of
 * their predecessors.
 */
static void swimlane_find_ready(struct see_recording *r)
{
    for (uint32_t i = 0; i < r->task_count; i++) {
        struct see_task *t = &r->task[i];

        /* the task executed nothing: it is a dummy, or an allocation of buffers */
        if (t->start_ns == PTO_RECORDING_NO_TIME) {
            t->flags |= PTO_RECORDING_DUMMY;
            t->start_ns = t->end_ns = t->submit_ns;
        }
        t->ready_ns = t->submit_ns;
    }
    for (uint64_t i = 0; i < r->edge_count; i++) {
        struct see_task *t = &r->task[r->edge[i].to];
        uint64_t end = r->task[r->edge[i].from].end_ns;

        if (end > t->ready_ns && end <= t->start_ns) {
            t->ready_ns = end;
            t->ready_by = r->edge[i].from;
        }
    }
}

static int make_recording(struct reading *w)
{
    int status;

    add_tasks(w);
    if (!w->has_room || w->tasks.count >= UINT32_MAX)
        return PTO_ENOMEM;
    number_tasks(w);
    swimlane_find_base(w);
    status = make_kernels(w);
    if (status >= 0)
        status = make_lanes(w);
    if (status >= 0)
        status = make_tasks(w);
    if (status >= 0)
        status = make_slices(w);
    if (status >= 0)
        status = make_edges(w);
    if (status < 0)
        return status;
    swimlane_find_ready(w->out);
    w->out->key_count = w->kernels + 1;
    return see_recording_index(w->out);
}

/* ---- files ---- */

/* Reads a file with the function `read`. Fails unless that function accepts the whole file. */
static int read_file(struct reading *w, const char *path,
                     void (*read)(struct reading *w, struct see_json *j), struct pto_error *error)
{
    struct see_json j;
    size_t bytes;
    char *text;
    int status = file_load(path, FILE_BYTES_MAX, &text, &bytes, error);

    if (status < 0)
        return status;
    j = see_json_start(text);
    read(w, &j);
    if (j.has_fault)
        status = error_setf(error, PTO_EINVAL,
                            "%s: line %u is not as simpler writes it; is the file whole?", path,
                            see_json_line(&j));
    free(text);
    return status;
}

static int read_sibling(struct reading *w, const char *path, const char *pattern,
                        void (*read)(struct reading *w, struct see_json *j),
                        struct pto_error *error)
{
    const char *slash = strrchr(path, '/');
    char place[PATH_MAX];
    glob_t found;
    int status = PTO_OK;

    snprintf(place, sizeof(place), "%.*s%s", slash != NULL ? (int)(slash - path + 1) : 0, path,
             pattern);
    if (glob(place, 0, NULL, &found) != 0)
        return PTO_OK;
    status = read_file(w, found.gl_pathv[0], read, error);
    globfree(&found);
    return status;
}

static void free_reading(struct reading *w)
{
    for (uint32_t i = 0; w->name != NULL && i < w->kernels; i++)
        free(w->name[i]);
    free(w->name);
    free(w->slices.item);
    free(w->submits.item);
    free(w->edges.item);
    free(w->tasks.item);
}

static int name_recording(struct see_recording *r)
{
    r->platform = strdup("");
    r->scene = strdup("");
    r->test_case = strdup("");
    r->title = strdup("");
    return r->platform != NULL && r->scene != NULL && r->test_case != NULL && r->title != NULL
               ? PTO_OK
               : PTO_ENOMEM;
}

bool see_swimlane_find(const char *target, char *path, size_t bytes)
{
    static const char *const names[] = { "chip_swimlane_records.json",
                                         "l2_swimlane_records.json", /* until August 2026 */
                                         "l2_perf_records.json" /* until May 2026 */ };
    size_t length = strlen(target);
    struct stat about;

    snprintf(path, bytes, "%s", target);
    if (length > 5 && strcmp(target + length - 5, ".json") == 0)
        return true;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, bytes, "%s/%s", target, names[i]);
        if (stat(path, &about) == 0)
            return true;
    }
    return false;
}

int see_swimlane_read(const char *path, struct see_recording **out, struct pto_error *error)
{
    struct reading w = { .has_room = true, .out = calloc(1, sizeof(*w.out)) };
    int status = w.out != NULL ? PTO_OK : PTO_ENOMEM;

    if (status >= 0)
        status = read_file(&w, path, read_records, error);
    if (status >= 0 && !w.has_slices)
        status = error_setf(error, PTO_EINVAL,
                            "%s: there is no list 'aicore_tasks', which swimlane files of simpler "
                            "have since June 2026",
                            path);
    if (status >= 0)
        status = read_sibling(&w, path, "deps.json", read_deps, error);
    if (status >= 0)
        status = read_sibling(&w, path, "name_map*.json", read_names, error);
    if (status >= 0) {
        status = name_recording(w.out);
        if (status >= 0)
            status = make_recording(&w);
        if (status < 0)
            error_setf(error, status,
                       status == PTO_ENOMEM ? "%s: not enough memory for its executions"
                                            : "%s: an execution is on a core that core_types lacks",
                       path);
    }
    free_reading(&w);
    if (status < 0)
        see_recording_free(w.out);
    else
        *out = w.out;
    return status;
}

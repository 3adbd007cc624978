/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durations of kernels in virtual time, statistics of a run, and lower bounds of any schedule's
 * duration.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cann/device/scheduler.h"
#include "chip/backend.h"
#include "virtual/virtual.h"

enum { WRITTEN_MIN = 256, TASKS_MIN = 4096 };

static int time_set(struct chip *chip, const struct pto_virtual_options *options,
                    struct pto_error *error);
static void time_report(struct chip *chip, struct pto_virtual_report *report);
static bool time_kernel(struct chip *chip, uint32_t index, struct pto_virtual_kernel *kernel);
static void time_join(struct chip *chip, const struct shared_clock_place *place);

const struct chip_time_ops virtual_time_ops = { time_set, time_report, time_kernel, time_join };

static int time_set(struct chip *chip, const struct pto_virtual_options *options,
                    struct pto_error *error)
{
    struct virtual_chip *v = virtual_of(chip);
    struct cost_model *model;
    int status = cost_model_create(options, &model, error);

    if (status < 0)
        return status;
    cost_model_destroy(v->next_costs);
    /*
     * the model `costs` belongs to the last run, whose report needs it, so keep it until the next
     * run
     */
    v->next_costs = model;
    v->is_planned_only = options->is_planned_only;
    v->clock->cost = (struct virtual_costs){ .register_read_ns = options->register_read_ns,
                                             .register_write_ns = options->register_write_ns,
                                             .line_ns = options->line_ns,
                                             .pickup_ns = options->pickup_ns,
                                             .submit_ns = options->submit_ns };
    return PTO_OK;
}

/* ---- durations ---- */

int virtual_time_begin(struct virtual_chip *v)
{
    uint32_t kernels = v->code->kernel_count;
    struct virtual_count *count = realloc(v->count, (kernels + 1) * sizeof(*count));
    uint8_t *origin = realloc(v->origin, kernels + 1);
    const char *const *name = v->request->kernel_name;

    v->count = count != NULL ? count : v->count;
    v->origin = origin != NULL ? origin : v->origin;
    if (count == NULL || origin == NULL)
        return PTO_ENOMEM;
    if (v->next_costs != NULL) {
        cost_model_destroy(v->costs);
        v->costs = v->next_costs;
        v->next_costs = NULL;
    }
    v->count_max = kernels;
    memset(count, 0, (kernels + 1) * sizeof(*count));
    v->busy_ns[0] = v->busy_ns[1] = v->path_ns = 0;
    v->has_read_result = v->has_bad_cost = false;
    v->written.count = 0;
    if (v->written.max != 0)
        memset(v->written.buffer, 0, v->written.max * sizeof(*v->written.buffer));
    if (v->task_ns != NULL)
        memset(v->task_ns, 0, v->task_max * sizeof(*v->task_ns));
    if (cost_model_bind(v->costs, name, v->request->kernel_name_count, kernels) < 0)
        return PTO_ENOMEM;
    cost_model_begin(v->costs);
    return PTO_OK;
}

uint64_t virtual_duration(struct virtual_chip *v, const struct virtual_start *start)
{
    const struct cost_arguments args = { .tensor = start->tensor,
                                         .scalar = start->scalar,
                                         .vector = start->args,
                                         .tensor_count = start->tensor_count,
                                         .scalar_count = start->scalar_count,
                                         .block_count = start->block_count };
    uint64_t ns;

    if (!cost_model_ns(v->costs, start->kernel, &args, &ns) && !v->has_bad_cost) {
        v->has_bad_cost = true;
        v->bad_kernel = start->kernel;
        v->bad_task = start->task;
    }
    return ns;
}

/*
 * Makes room for the duration of a task. False: out of memory, so the critical path is not known.
 */
static bool grow_tasks(struct virtual_chip *v, uint64_t task)
{
    uint64_t max = v->task_max != 0 ? v->task_max : TASKS_MIN;
    uint64_t *more;

    while (max <= task)
        max *= 2;
    more = realloc(v->task_ns, max * sizeof(*more));
    if (more == NULL)
        return false;
    memset(more + v->task_max, 0, (max - v->task_max) * sizeof(*more));
    v->task_ns = more;
    v->task_max = max;
    return true;
}

void virtual_time_count(struct virtual_chip *v, const struct virtual_job *job)
{
    uint64_t ns = job->end_ns - job->begin_ns;
    /* duration of the kernel, without the time for which it waited for other kernels */
    uint64_t own_ns = job->own_ns;
    struct virtual_count *count = &v->count[job->start.kernel];
    uint64_t task = job->start.task;

    v->busy_ns[job->start.core >= v->base.properties.aic_count] += own_ns;
    count->count++;
    count->total_ns += ns;
    count->min_ns = count->count == 1 || ns < count->min_ns ? ns : count->min_ns;
    count->max_ns = ns > count->max_ns ? ns : count->max_ns;
    if (task >= v->task_max && !grow_tasks(v, task))
        return;
    if (own_ns > v->task_ns[task])
        v->task_ns[task] = own_ns;
}

/* ---- bounds ---- */

/*
 * Returns the length of the longest path through the graph. Edges are sorted by successor, so all
 * predecessors of a task have been computed before it.
 */
static uint64_t longest_path(struct virtual_chip *v, const struct board_edge *edge, uint64_t count)
{
    uint64_t tasks = v->report.tasks < v->task_max ? v->report.tasks : v->task_max;
    uint64_t at = 0, longest = 0;
    uint64_t *end = malloc((tasks + 1) * sizeof(*end));

    if (end == NULL)
        return 0;
    for (uint64_t task = 0; task < tasks; task++) {
        uint64_t begin = 0;

        for (; at < count && edge[at].after <= task; at++)
            if (edge[at].after == task && edge[at].before < task && end[edge[at].before] > begin)
                begin = end[edge[at].before];
        end[task] = begin + v->task_ns[task];
        longest = end[task] > longest ? end[task] : longest;
    }
    free(end);
    return longest;
}

static void refuse_results(struct virtual_chip *v)
{
    virtual_run_fail(v, PTO_ENOSUP, FAILURE_UNSUPPORTED,
                     "no kernel is called, and the program reads what one would have written, by a "
                     "predicate or pto_get_data; let kernels be called");
}

static void refuse_cost(struct virtual_chip *v)
{
    char text[FAILURE_TEXT];

    snprintf(
        text, sizeof(text),
        "the cost of kernel %.80s has no value for the arguments of task %u, or none from 0 to "
        "10^15 ns; check which arguments it names",
        cost_model_name(v->costs, v->bad_kernel), v->bad_task);
    virtual_run_fail(v, PTO_EINVAL, FAILURE_UNSUPPORTED, text);
}

void virtual_time_end(struct virtual_chip *v)
{
    const struct board_record *head = (const void *)(uintptr_t)v->room.record;
    const struct message_record at = message_record(&v->room);

    if (head != NULL)
        v->path_ns = longest_path(v, (const void *)(uintptr_t)at.edge, head->edge_count);
    for (uint32_t i = 0; i < v->count_max; i++)
        v->origin[i] = cost_model_kind(v->costs, i);
    if (v->has_read_result)
        refuse_results(v);
    else if (v->has_bad_cost && v->result.failure.status >= 0)
        refuse_cost(v);
}

static void time_report(struct chip *chip, struct pto_virtual_report *report)
{
    const struct virtual_chip *v = virtual_of(chip);
    const uint64_t cores[PTO_CORE_TYPES] = { v->base.properties.aic_count,
                                             v->base.properties.aiv_count };

    report->makespan_ns = v->report.ns;
    report->path_ns = report->bound_ns = v->path_ns;
    for (uint32_t type = 0; type < PTO_CORE_TYPES; type++) {
        uint64_t by_core = v->busy_ns[type] / cores[type];

        report->work_ns[type] = v->busy_ns[type];
        report->bound_ns = by_core > report->bound_ns ? by_core : report->bound_ns;
    }
    report->late = v->clock->late_count;
    report->kernel_count = v->count_max;
}

static bool time_kernel(struct chip *chip, uint32_t index, struct pto_virtual_kernel *kernel)
{
    const struct virtual_chip *v = virtual_of(chip);

    if (index >= v->count_max)
        return false;
    kernel->count = v->count[index].count;
    kernel->total_ns = v->count[index].total_ns;
    kernel->min_ns = v->count[index].min_ns;
    kernel->max_ns = v->count[index].max_ns;
    snprintf(kernel->name, sizeof(kernel->name), "%s", cost_model_name(v->costs, index));
    cost_model_origin(v->costs, index, kernel->origin, sizeof(kernel->origin));
    return true;
}

static void time_join(struct chip *chip, const struct shared_clock_place *place)
{
    virtual_of(chip)->shared = *place;
}

/* ---- planned runs: memory that the program may not read, because no kernel writes it ---- */

static struct virtual_buffer *find_buffer(struct virtual_buffer *buffer, uint64_t max,
                                          uint64_t addr)
{
    uint64_t at = (addr * 0x9e3779b97f4a7c15ull >> 20) & (max - 1);

    while (buffer[at].end != 0 && buffer[at].addr != addr)
        at = (at + 1) & (max - 1);
    return &buffer[at];
}

/*
 * Makes room in the table of written buffers. False: out of memory; the caller then treats the run
 * as if the program had read a result.
 */
static bool grow_written(struct virtual_written *w)
{
    uint64_t max = w->max != 0 ? 2 * w->max : WRITTEN_MIN;
    struct virtual_buffer *more = calloc(max, sizeof(*more));

    if (more == NULL)
        return false;
    for (uint64_t i = 0; i < w->max; i++)
        if (w->buffer[i].end != 0)
            *find_buffer(more, max, w->buffer[i].addr) = w->buffer[i];
    free(w->buffer);
    w->buffer = more;
    w->max = max;
    return true;
}

static void note_buffer(struct virtual_chip *v, const struct pto_tensor *t)
{
    struct virtual_written *w = &v->written;
    struct virtual_buffer *buffer;

    if (w->count * 2 >= w->max && !grow_written(w)) {
        v->has_read_result = true;
        return;
    }
    buffer = find_buffer(w->buffer, w->max, t->addr);
    w->count += buffer->end == 0;
    buffer->addr = t->addr;
    if (t->addr + t->size > buffer->end)
        buffer->end = t->addr + t->size;
}

void virtual_time_note(struct virtual_chip *v, const struct pto_args *args)
{
    for (uint32_t i = 0; i < args->tensor_count && i < PTO_TASK_TENSORS_MAX; i++)
        if (args->tag[i] != PTO_TAG_OUTPUT && (pto_tag_use(args->tag[i]) & PTO_WRITES) != 0)
            note_buffer(v, args->tensor[i]);
}

bool virtual_time_is_result(const struct virtual_chip *v, uint64_t addr)
{
    if (v->request->graph != NULL)
        /*
         * true for any address, because a launched graph does not list the buffers that it writes
         */
        return true;
    if (addr - (uint64_t)(uintptr_t)v->heap < v->memory_max)
        return true;
    for (uint64_t i = 0; i < v->written.max; i++)
        if (addr >= v->written.buffer[i].addr && addr < v->written.buffer[i].end)
            return true;
    return false;
}

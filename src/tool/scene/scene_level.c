/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs scenes on a level-3 worker. Arguments are in memory of the worker, which checks the guards
 * around them. A run that exceeds its time is cancelled; children that do not return are then
 * killed, and the next run gets a new worker.
 */
#include "tool/scene/scene_level.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "pto/worker_trace.h"
#include "tool/scene/element.h"
#include "tool/scene/scene_session.h"

#define DEBUG_NS (1ull << 62)
#define KILL_NS 10000000000ull /* how long a worker may take to notice that its children are dead */

/* ---- building ---- */

static int build_callable(const struct session *s, const struct scene_callable *callable,
                          enum pto_mode mode, struct scene_built *built, struct pto_error *error)
{
    if (callable->kind == PTO_CHILD_SUB)
        return scene_build_object(&callable->source, &s->options->build, &built->bytes,
                                  &built->size, error);
    return scene_build_bytes(&callable->part, s->platform, mode, &s->options->build, &built->bytes,
                             &built->size, error);
}

int scene_level_build(struct session *s, enum pto_mode mode, struct pto_error *error)
{
    const struct scene *scene = s->scene;
    struct scene_built *built = s->level.built[mode];
    int status = PTO_OK;

    if (s->level.orchestration == NULL)
        status =
            scene_orchestration_open(scene, &s->options->build, &s->level.orchestration, error);
    if (status < 0 || built != NULL)
        return status;
    built = calloc(scene->callable_count, sizeof(*built));
    if (built == NULL)
        return error_setf(error, PTO_ENOMEM, "out of memory");
    s->level.built[mode] = built;
    for (uint32_t i = 0; i < scene->callable_count && status == PTO_OK; i++)
        status = build_callable(s, &scene->callable[i], mode, &built[i], error);
    return status;
}

void scene_level_close(struct session *s)
{
    scene_level_rest(s);
    for (uint32_t mode = 0; mode < PTO_MODE_COUNT; mode++) {
        for (uint32_t i = 0; s->level.built[mode] != NULL && i < s->scene->callable_count; i++)
            free(s->level.built[mode][i].bytes);
        free(s->level.built[mode]);
    }
    scene_code_close(s->level.orchestration);
    memset(&s->level, 0, sizeof(s->level));
}

/* ---- opening and closing the worker ---- */

void scene_level_rest(struct session *s)
{
    if (s->level.worker != NULL)
        /* closing fails only if a run could not be ended, and then nothing else can be done */
        (void)pto_worker_close(s->level.worker);
    s->level.worker = NULL;
    for (uint32_t mode = 0; mode < PTO_MODE_COUNT; mode++)
        for (uint32_t i = 0; s->level.built[mode] != NULL && i < s->scene->callable_count; i++)
            s->level.built[mode][i].number = 0;
}

static struct pto_child_info about_child(const struct session *s, uint32_t child)
{
    struct pto_child_info info;

    pto_child_info_init(&info);
    /* this call cannot fail, because a child with this number exists */
    (void)pto_worker_child(s->level.worker, child, &info);
    return info;
}

static bool has_all_children(const struct session *s)
{
    for (uint32_t i = 0; i < s->level.chips + s->level.subs; i++)
        if (about_child(s, i).state != PTO_CHILD_READY)
            return false;
    return true;
}

int scene_level_open(struct session *s, const struct scene_case *test_case, struct pto_error *error)
{
    uint32_t clusters = s->options->clusters != 0 ? s->options->clusters : test_case->clusters;
    struct pto_worker_params params;
    int status;

    if (s->level.worker != NULL && s->level.chips == test_case->chips &&
        s->level.subs == test_case->subs && s->level.clusters == clusters && has_all_children(s))
        return PTO_OK;
    scene_level_rest(s);
    pto_worker_params_init(&params);
    params.platform = s->platform;
    params.chip_count = test_case->chips;
    params.devices = s->options->cards.count != 0 ? s->options->cards.number : NULL;
    params.sub_count = test_case->subs;
    params.clusters = clusters;
    params.chip_workers = s->options->workers;
    params.has_guards = !s->options->is_unguarded;
    params.has_nan_check = s->options->has_nan_check;
    params.is_virtual = s->options->costs.is_virtual;
    params.startup_timeout_ns = s->options->is_debugged ? DEBUG_NS : 0;
    params.error = error;
    status = pto_worker_open(&params, &s->level.worker);
    if (status < 0) {
        s->level.worker = NULL;
        return error_setf(error, status,
                          "a worker of %u chips and %u SUB workers cannot be opened: %s",
                          test_case->chips, test_case->subs, error->text);
    }
    s->level.chips = test_case->chips;
    s->level.subs = test_case->subs;
    s->level.clusters = clusters;
    if (params.is_virtual)
        status = scene_costs_set_level(&s->options->costs, s->scene, s->level.worker, error);
    if (status < 0)
        scene_level_rest(s);
    return status;
}

/* Registers each callable once per worker, before its first run in the mode. */
static int register_callables(const struct session *s, struct scene_built *built,
                              struct pto_error *error)
{
    for (uint32_t i = 0; i < s->scene->callable_count; i++) {
        const struct scene_callable *callable = &s->scene->callable[i];
        struct pto_worker_callable params;
        int status;

        if (built[i].number != 0)
            continue;
        pto_worker_callable_init(&params);
        params.kind = callable->kind;
        params.name = callable->name;
        params.bytes = built[i].bytes;
        params.byte_count = built[i].size;
        params.symbol = callable->kind == PTO_CHILD_SUB ? callable->function : NULL;
        params.error = error;
        status = pto_worker_register(s->level.worker, &params, &built[i].number);
        if (status < 0)
            return error_setf(error, status, "callable '%s': %s", callable->name, error->text);
    }
    return PTO_OK;
}

static uint64_t timeout_ns(const struct session *s)
{
    double seconds = s->options->timeout != 0 ? s->options->timeout : s->data.test_case->timeout;

    return s->options->is_debugged ? DEBUG_NS : (uint64_t)(seconds * 1e9);
}

/* ---- arguments ---- */

/* The entry of one run of the orchestration, and the memory that the entry points into. */
struct level_entry {
    struct pto_level_entry entry;
    pto_level_entry_fn function;
    uint64_t timeout_ns;
    void *memory[PTO_ENTRY_TENSORS_MAX]; /* NULL: not allocated */
    struct pto_tensor tensor[PTO_ENTRY_TENSORS_MAX];
    const char *tensor_name[PTO_ENTRY_TENSORS_MAX];
    const char *scalar_name[PTO_ENTRY_SCALARS_MAX];
    uint64_t callable[SCENE_CALLABLES_MAX];
    const char *callable_name[SCENE_CALLABLES_MAX];
    struct pto_scene_param param[SCENE_PARAMS_MAX];
};

static int place_argument(struct session *s, struct level_entry *e, uint32_t index,
                          struct pto_error *error)
{
    const struct scene_tensor *tensor = &s->data.tensor[index];
    const struct scene_argument *argument = tensor->argument;
    void *memory;
    int status = pto_worker_alloc(s->level.worker, tensor->bytes != 0 ? tensor->bytes : 1, &memory);

    if (status < 0)
        return error_setf(error, status, "the worker cannot allocate argument '%s': %s",
                          argument->name, pto_strerror(status));
    e->memory[index] = memory;
    if (argument->direction == PTO_DIR_OUT)
        scene_element_poison(argument->dtype, memory, tensor->bytes);
    else
        memcpy(memory, tensor->data, tensor->bytes);
    e->tensor[index] =
        pto_tensor_external(memory, tensor->shapes, argument->ndims, argument->dtype);
    e->tensor_name[index] = argument->name;
    return PTO_OK;
}

static int level_make_entry(struct session *s, const struct scene_built *built,
                            struct level_entry *e, struct pto_error *error)
{
    const struct scene *scene = s->scene;
    int status = PTO_OK;

    for (uint32_t i = 0; i < scene->argument_count && status == PTO_OK; i++)
        status = place_argument(s, e, i, error);
    for (uint32_t i = 0; i < scene->scalar_count; i++)
        e->scalar_name[i] = scene->scalar[i].name;
    for (uint32_t i = 0; i < scene->callable_count; i++) {
        e->callable[i] = built[i].number;
        e->callable_name[i] = scene->callable[i].name;
    }
    for (uint32_t i = 0; i < s->data.param_count; i++)
        e->param[i] = (struct pto_scene_param){ s->data.param[i].name, s->data.param[i].value };
    e->timeout_ns = timeout_ns(s);
    e->function = scene_orchestration_function(s->level.orchestration);
    e->entry = (struct pto_level_entry){ .size = sizeof(e->entry),
                                         .worker = s->level.worker,
                                         .chip_count = s->level.chips,
                                         .sub_count = s->level.subs,
                                         .tensor_count = scene->argument_count,
                                         .scalar_count = scene->scalar_count,
                                         .callable_count = scene->callable_count,
                                         .param_count = s->data.param_count,
                                         .tensor = e->tensor,
                                         .scalar = s->data.scalar,
                                         .callable = e->callable,
                                         .tensor_name = e->tensor_name,
                                         .scalar_name = e->scalar_name,
                                         .callable_name = e->callable_name,
                                         .param = e->param };
    return status;
}

/* Copies the outputs if the run succeeded, and frees the memory, which checks the guards. */
static int level_end_entry(struct session *s, struct level_entry *e, int status,
                           struct pto_error *error)
{
    for (uint32_t i = 0; i < s->scene->argument_count; i++) {
        const struct scene_tensor *tensor = &s->data.tensor[i];
        struct pto_error why = { .size = sizeof(why) };
        int freed;

        if (e->memory[i] == NULL)
            continue;
        if (status == PTO_OK && tensor->got != NULL)
            memcpy(tensor->got, e->memory[i], tensor->bytes);
        freed = pto_worker_free(s->level.worker, e->memory[i], &why);
        if (freed < 0 && status == PTO_OK)
            status =
                error_setf(error, freed, "argument '%s': %s", tensor->argument->name, why.text);
    }
    return status;
}

/* ---- one run ---- */

static void level_call_orchestration(struct pto_level *level, void *context)
{
    struct level_entry *e = context;

    e->entry.level = level;
    (void)pto_level_set_task_timeout(level, e->timeout_ns); /* a task may take as long as the run */
    e->function(level, &e->entry);
}

static const char *child_text(const struct session *s, uint32_t child)
{
    return child < s->level.chips ? "chip" : "SUB worker";
}

/*
 * Ends a run that has exceeded its time. Chips end their tasks themselves within the grace period.
 * Then the run is cancelled, so that no further task starts, and busy children are killed.
 */
static void end_late_run(const struct session *s, struct pto_worker_run *run)
{
    (void)pto_worker_run_wait(run, (uint64_t)(session_grace(s->options, s->data.test_case) * 1e9));
    if (pto_worker_run_poll(run) != PTO_RUN_PENDING)
        return;
    (void)pto_worker_run_cancel(run);
    for (uint32_t i = 0; i < s->level.chips + s->level.subs; i++) {
        struct pto_child_info info = about_child(s, i);

        if (info.in_flight != 0 && info.state == PTO_CHILD_READY)
            (void)kill(info.pid, SIGKILL);
    }
    (void)pto_worker_run_wait(run, KILL_NS);
}

/*
 * Waits until the run ends. False after the timeout: the run was ended, and `who` lists the
 * children that were busy.
 */
static bool await_run(const struct session *s, struct pto_worker_run *run, char *who, size_t size)
{
    size_t used = 0;

    (void)pto_worker_run_wait(run, timeout_ns(s));
    if (pto_worker_run_poll(run) != PTO_RUN_PENDING)
        return true;
    for (uint32_t i = 0; i < s->level.chips + s->level.subs && used < size; i++)
        if (about_child(s, i).in_flight != 0)
            used += (size_t)snprintf(who + used, size - used, "%s%s %u",
                                     used == 0 ? "; busy: " : ", ", child_text(s, i), i);
    end_late_run(s, run);
    return false;
}

/*
 * Sets the number of tasks that each child has completed since the counts in `before`; NULL: since
 * its start.
 */
static void level_count_tasks(struct session *s, const uint64_t *before)
{
    for (uint32_t i = 0; i < s->level.chips + s->level.subs; i++)
        s->level.child_tasks[i] = about_child(s, i).tasks - (before != NULL ? before[i] : 0);
}

static int launch_and_wait(struct session *s, struct level_entry *e, struct pto_error *error)
{
    struct pto_worker_report *report = &s->level.report;
    uint64_t before[PTO_CHILDREN_MAX];
    struct pto_worker_run *run;
    char who[256] = "";
    bool is_on_time;
    int status;

    level_count_tasks(s, NULL);
    memcpy(before, s->level.child_tasks, sizeof(before));
    pto_worker_report_init(report);
    status = pto_worker_launch(s->level.worker, level_call_orchestration, e, &run);
    if (status < 0)
        return error_setf(error, status, "the run cannot begin: %s", pto_strerror(status));
    is_on_time = await_run(s, run, who, sizeof(who));
    status = pto_worker_run_finish(run, report);
    level_count_tasks(s, before);
    if (!is_on_time)
        return error_setf(error, PTO_ETIMEOUT, "the run did not end within %g s%s%s%s",
                          (double)timeout_ns(s) / 1e9, who, report->child >= 0 ? "; " : "",
                          report->child >= 0 ? report->error.text : "");
    return status < 0 ? error_setf(error, status, "%s",
                                   report->error.text[0] != '\0' ? report->error.text
                                                                 : pto_strerror(status))
                      : PTO_OK;
}

static int begin_trace(const struct session *s, struct pto_error *error)
{
    int status = pto_worker_trace_begin(s->level.worker, s->options->trace);

    return status < 0 ? error_setf(error, status, "cannot record the run: %s", pto_strerror(status))
                      : PTO_OK;
}

int scene_level_run(struct session *s, enum pto_mode mode, struct pto_error *error)
{
    struct scene_built *built = s->level.built[mode];
    struct level_entry *e = calloc(1, sizeof(*e));
    int status;

    if (e == NULL)
        return error_setf(error, PTO_ENOMEM, "out of memory");
    pto_run_report_init(&s->report);
    status = register_callables(s, built, error);
    if (status == PTO_OK)
        status = level_make_entry(s, built, e, error);
    if (status == PTO_OK && s->options->trace != PTO_TRACE_OFF)
        status = begin_trace(s, error);
    if (status == PTO_OK) {
        status = launch_and_wait(s, e, error);
        s->report.tasks = s->level.report.tasks;
        s->report.ns = s->level.report.ns;
    }
    status = level_end_entry(s, e, status, error);
    free(e);
    return status;
}

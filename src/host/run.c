/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a run: arguments checked, graph built, tasks run, errors told. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "host/host.h"

/* What an orchestration holds as its handle, and what the run keeps. */
struct run {
    struct pto_orch orch; /* first: the handle */
    struct pto_device *device;
    const struct pto_callable *callable;
    const struct pto_entry *entry;
    struct chip *chip;
    struct graph *graph;
    struct worker *submitter;
    uint32_t since; /* submits since finished slots were taken back */
    bool is_shared;
    int status;
    uint64_t begin_ns;
    struct pto_run_report report;
};

static int op_submit(struct pto_orch *o, const struct pto_kernels *kernels,
                     const struct pto_args *args, const struct pto_site *site,
                     struct pto_outputs *out);
static int op_alloc(struct pto_orch *o, const struct pto_args *args, const struct pto_site *site,
                    struct pto_outputs *out);
static int op_scope_begin(struct pto_orch *o, enum pto_scope_mode mode,
                          const struct pto_site *site);
static int op_scope_end(struct pto_orch *o);
static int op_report(struct pto_orch *o, int status, const char *text);
static int op_status(struct pto_orch *o);
static uint32_t op_cluster_count(struct pto_orch *o);
static uint32_t op_aiv_count(struct pto_orch *o);

static const struct pto_orch_ops ops = {
    .size = sizeof(struct pto_orch_ops),
    .submit = op_submit,
    .alloc = op_alloc,
    .scope_begin = op_scope_begin,
    .scope_end = op_scope_end,
    .report = op_report,
    .status = op_status,
    .cluster_count = op_cluster_count,
    .aiv_count = op_aiv_count,
};

static const struct pto_outputs no_outputs = { { PTO_TASK_ID_INVALID }, 0, NULL };

static void build_graph(void *arg);
static int check_call(const struct pto_device *device, const struct pto_callable *callable,
                      const struct pto_entry *entry, const struct pto_run_options *options);
static int refuse_graph(struct run *run, int status, const struct pto_kernels *kernels,
                        const struct pto_args *args, const struct pto_site *site);
static int fail_run(struct run *run, int status, const struct pto_site *site, const char *format,
                    ...) __attribute__((format(printf, 4, 5)));

static struct run *run_of(struct pto_orch *o)
{
    return (struct run *)(void *)o;
}

void pto_run_options_init(struct pto_run_options *options)
{
    if (options != NULL)
        *options = (struct pto_run_options){ .size = sizeof(*options) };
}

static void init_error(struct pto_error *error)
{
    *error = (struct pto_error){ .size = sizeof(*error),
                                 .level = 2,
                                 .rank = -1,
                                 .task = pto_task_id_invalid(),
                                 .kernel = -1,
                                 .argument = -1 };
}

void pto_run_report_init(struct pto_run_report *report)
{
    if (report == NULL)
        return;
    memset(report, 0, sizeof(*report));
    report->size = sizeof(*report);
    init_error(&report->error);
}

int pto_run(struct pto_device *device, const struct pto_callable *callable,
            const struct pto_entry *entry, const struct pto_run_options *options,
            struct pto_run_report *report)
{
    static const struct pto_entry nothing;
    struct pto_run_options defaults;
    struct run run;
    struct chip_job job;
    uint32_t idle = 0;
    int status = check_call(device, callable, entry, options);

    if (status < 0 || (report != NULL && report->size != sizeof(*report)))
        return PTO_EINVAL;
    if (!a32_cas_acq_rel(&device->is_busy, &idle, 1))
        return PTO_EAGAIN;
    if (options == NULL) {
        pto_run_options_init(&defaults);
        options = &defaults;
    }
    memset(&run, 0, offsetof(struct run, report));
    pto_run_report_init(&run.report);
    run.orch.ops = &ops;
    run.device = device;
    run.callable = callable;
    run.entry = entry != NULL ? entry : &nothing;
    run.chip = device->chip;
    run.graph = device->chip->graph;
    run.submitter = device->chip->submitter;
    run.is_shared = device->chip->sched->worker_count > 1;
    job = (struct chip_job){ .build = build_graph,
                             .arg = &run,
                             .kernels = callable->kernel,
                             .order_seed = options->order_seed,
                             .window = options->window,
                             .is_held = options->mode == PTO_MODE_HOST,
                             .report = &run.report };
    status = graph_start(run.graph, &(struct graph_params){ .kernels = callable->kernel,
                                                            .kernel_count = callable->kernel_count,
                                                            .deps = options->deps,
                                                            .edge_fn = options->edge,
                                                            .edge_context = options->edge_context,
                                                            .is_shared = run.is_shared });
    if (status < 0) {
        refuse_graph(&run, status, NULL, NULL, NULL);
    } else {
        run.begin_ns = os_now_ns();
        device->chip->ops->run(device->chip, &job);
        run.report.ns = os_now_ns() - run.begin_ns;
    }
    run.report.tasks = run.graph->seq - 1;
    run.report.edges = run.graph->edge_total;
    if (report != NULL)
        *report = run.report;
    a32_store_release(&device->is_busy, 0);
    return run.status;
}

int pto_call(const char *platform, pto_orch_fn orchestration, const struct pto_kernel *kernels,
             uint32_t kernel_count, const struct pto_entry *entry, struct pto_error *error)
{
    struct pto_device_params device_params;
    struct pto_callable_params callable_params;
    struct pto_run_report report;
    struct pto_callable *callable = NULL;
    struct pto_device *device = NULL;
    int status;

    pto_run_report_init(&report);
    pto_device_params_init(&device_params);
    device_params.platform = platform;
    pto_callable_params_init(&callable_params);
    callable_params.orchestration = orchestration;
    callable_params.kernels = kernels;
    callable_params.kernel_count = kernel_count;
    status = pto_callable_create(&callable_params, &callable);
    if (status >= 0)
        status = pto_device_open(&device_params, &device);
    if (status >= 0)
        status = pto_run(device, callable, entry, NULL, &report);
    pto_device_close(device);
    pto_callable_destroy(callable);
    if (error != NULL) {
        *error = report.error;
        error->status = status;
        if (status < 0 && error->text[0] == '\0')
            snprintf(error->text, sizeof(error->text), "%s", pto_strerror(status));
    }
    return status;
}

static int check_call(const struct pto_device *device, const struct pto_callable *callable,
                      const struct pto_entry *entry, const struct pto_run_options *options)
{
    if (device == NULL || callable == NULL)
        return PTO_EINVAL;
    if (entry != NULL && (entry->tensor_count > PTO_ENTRY_TENSORS_MAX ||
                          entry->scalar_count > PTO_ENTRY_SCALARS_MAX ||
                          (entry->tensor_count != 0 && entry->tensor == NULL) ||
                          (entry->scalar_count != 0 && entry->scalar == NULL)))
        return PTO_EINVAL;
    if (options != NULL &&
        (options->size != sizeof(*options) || (uint32_t)options->mode > PTO_MODE_HOST ||
         (uint32_t)options->deps > PTO_DEPS_SIMPLER))
        return PTO_EINVAL;
    return PTO_OK;
}

/* On the builder's stack: the orchestration, inside the run's own scope. */
static void build_graph(void *arg)
{
    struct run *run = arg;

    (void)op_scope_begin(&run->orch, PTO_SCOPE_AUTO, NULL);
    run->callable->orchestration(&run->orch, run->entry);
    if (run->status == PTO_OK && run->graph->scope_count > 1)
        fail_run(run, PTO_EARGS, run->graph->scope[run->graph->scope_count - 1].site,
                 "the orchestration returned with %u scopes open; end each scope that it begins",
                 run->graph->scope_count - 1);
    while (run->graph->scope_count > 0)
        (void)graph_scope_end(run->graph);
}

/* ---- operations of the orchestration ---- */

static int op_submit(struct pto_orch *o, const struct pto_kernels *kernels,
                     const struct pto_args *args, const struct pto_site *site,
                     struct pto_outputs *out)
{
    struct run *run = run_of(o);
    struct graph *g = run->graph;
    struct slot *ready;
    int status;

    if (run->status < 0)
        return run->status;
    if (g->live >= run->chip->room_at) {
        run->chip->ops->room(run->chip);
    } else if (run->is_shared && ++run->since >= SCHED_BATCH) {
        run->since = 0;
        sched_collect(run->chip->sched, g);
    }
    status = graph_submit(g, kernels, args, site, out, &ready);
    if (status < 0) {
        *out = no_outputs;
        return refuse_graph(run, status, kernels, args, site);
    }
    if (ready != NULL)
        sched_push(run->submitter, ready);
    return PTO_OK;
}

static int op_alloc(struct pto_orch *o, const struct pto_args *args, const struct pto_site *site,
                    struct pto_outputs *out)
{
    struct run *run = run_of(o);
    int status;

    if (run->status < 0)
        return run->status;
    status = graph_alloc(run->graph, args, out);
    if (status < 0) {
        *out = no_outputs;
        return refuse_graph(run, status, NULL, args, site);
    }
    return PTO_OK;
}

static int op_scope_begin(struct pto_orch *o, enum pto_scope_mode mode, const struct pto_site *site)
{
    struct run *run = run_of(o);
    int status;

    if (run->status < 0)
        return run->status;
    status = graph_scope_begin(run->graph, mode, site);
    return status < 0 ? refuse_graph(run, status, NULL, NULL, site) : PTO_OK;
}

static int op_scope_end(struct pto_orch *o)
{
    struct run *run = run_of(o);

    if (run->status < 0)
        return run->status;
    if (run->graph->scope_count <= 1) /* the last one is the run's own */
        return fail_run(run, PTO_EARGS, NULL,
                        "a scope was ended that was never begun; match pto_scope_begin and "
                        "pto_scope_end");
    return graph_scope_end(run->graph);
}

static int op_report(struct pto_orch *o, int status, const char *text)
{
    struct run *run = run_of(o);

    return fail_run(run, status < 0 ? status : PTO_EORCH, NULL, "the orchestration gave up: %s",
                    text != NULL ? text : "no reason given");
}

static int op_status(struct pto_orch *o)
{
    return run_of(o)->status;
}

static uint32_t op_cluster_count(struct pto_orch *o)
{
    return run_of(o)->chip->clusters;
}

static uint32_t op_aiv_count(struct pto_orch *o)
{
    return 2 * run_of(o)->chip->clusters;
}

/* ---- errors ---- */

/* The first error wins. Returns the status of the run. */
static int fail_run(struct run *run, int status, const struct pto_site *site, const char *format,
                    ...)
{
    struct pto_error *error = &run->report.error;
    int used = 0;
    va_list args;

    if (run->status < 0)
        return run->status;
    run->status = status;
    error->status = status;
    error->scope_depth = run->graph->scope_count > 0 ? run->graph->scope_count - 1 : 0;
    if (site != NULL) {
        error->site = *site;
        used = snprintf(error->text, sizeof(error->text), "%s:%d: ", site->file, site->line);
        if (used < 0 || (size_t)used >= sizeof(error->text))
            used = 0;
    }
    va_start(args, format);
    vsnprintf(error->text + used, sizeof(error->text) - (size_t)used, format, args);
    va_end(args);
    return status;
}

static const char *view_fault(uint64_t fault)
{
    static const char *const text[] = {
        [PTO_VIEW_OK] = "it was never initialised",
        [PTO_VIEW_BAD_NDIMS] = "a tensor has 1 to 5 dimensions",
        [PTO_VIEW_BAD_DTYPE] = "its data type does not exist",
        [PTO_VIEW_OUT_OF_RANGE] = "offset + shape exceeds the parent tensor",
        [PTO_VIEW_STRIDED] = "only a contiguous tensor can be reshaped",
        [PTO_VIEW_NUMEL] = "the new shape has another number of elements",
        [PTO_VIEW_BAD_DIM] = "a dimension does not exist or is named twice",
        [PTO_VIEW_TOO_LARGE] = "a stride does not fit 32 bits",
        [PTO_VIEW_ZERO_STRIDE] = "a stride is 0",
        [PTO_VIEW_BAD_STEP] = "a slice needs a step above 0 and an end not before its start",
    };

    return fault < sizeof(text) / sizeof(text[0]) ? text[fault] : "unknown reason";
}

/* What the graph refused, as a sentence with what to do about it. */
static int refuse_graph(struct run *run, int status, const struct pto_kernels *kernels,
                        const struct pto_args *args, const struct pto_site *site)
{
    const struct graph_refusal *r = &run->graph->refusal;
    struct pto_error *error = &run->report.error;
    unsigned long long value = r->value;

    if (kernels != NULL)
        error->kernel = kernels->aic >= 0    ? kernels->aic
                        : kernels->aiv0 >= 0 ? kernels->aiv0
                                             : kernels->aiv1;
    error->argument = r->argument;
    switch (r->fault) {
    case FAULT_ARGS_ERROR:
        return fail_run(run, status, site, "invalid task arguments: %s",
                        args->error != NULL ? args->error : "not initialised with pto_args_init");
    case FAULT_TAG:
        return fail_run(run, status, site, "argument %d has the unknown tag %llu", r->argument,
                        value);
    case FAULT_VIEW:
        return fail_run(run, status, site, "argument %d is not a valid view: %s", r->argument,
                        view_fault(value));
    case FAULT_BOUNDS:
        return fail_run(run, status, site,
                        "argument %d reaches to byte %llu of a buffer that is smaller; check its "
                        "start, shapes and strides",
                        r->argument, value);
    case FAULT_NULL_ADDRESS:
        return fail_run(run, status, site, "argument %d has no storage: its address is 0",
                        r->argument);
    case FAULT_INFO:
        return fail_run(run, status, site,
                        "argument %d is a new output without a valid shape or data type; use "
                        "pto_tensor_info_make with 1 to 5 dimensions",
                        r->argument);
    case FAULT_TOO_LARGE:
        return fail_run(run, status, site,
                        "the outputs of one task take %llu bytes; the most is 2^40", value);
    case FAULT_KERNEL:
        return fail_run(run, status, site,
                        "there is no kernel %llu; callable \"%s\" has %u of them", value,
                        run->callable->name, run->callable->kernel_count);
    case FAULT_LANES:
        return fail_run(run, status, site,
                        "a task with kernels for several lanes is not supported by this version");
    case FAULT_CORE_TYPE:
        return fail_run(run, status, site,
                        "kernel %llu (\"%s\") is for the other core type; submit it with "
                        "pto_submit_%s",
                        value, run->callable->kernel_name[value],
                        run->callable->kernel[value].core_type == PTO_CORE_AIC ? "aic" : "aiv");
    case FAULT_BLOCK_COUNT:
        return fail_run(run, status, site,
                        "blocks (%lld), gangs and predicates are not supported by this version; "
                        "initialise arguments with pto_args_init",
                        (long long)value);
    case FAULT_DEP_INVALID:
        return fail_run(run, status, site,
                        "dependency %llu is the invalid task id; leave it out, or check the "
                        "submit that it came from",
                        value);
    case FAULT_DEP_UNKNOWN:
        return fail_run(run, status, site,
                        "dependency %llu names a task that was never submitted in this run", value);
    case FAULT_DEP_KIND:
        return fail_run(run, status, site,
                        "dependency %llu has an unknown kind; use PTO_DEP_WAIT and PTO_DEP_RETAIN",
                        value);
    case FAULT_SCOPE_DEPTH:
        return fail_run(run, status, site, "scopes are nested deeper than %d", PTO_SCOPE_DEPTH_MAX);
    case FAULT_SCOPE_MODE:
        return fail_run(run, status, site,
                        "a scope has the unknown mode %llu; use PTO_SCOPE_AUTO or PTO_SCOPE_MANUAL",
                        value);
    case FAULT_AUTO_IN_MANUAL:
        return fail_run(run, status, site,
                        "an AUTO scope cannot be opened inside a MANUAL one; make the inner one "
                        "MANUAL too");
    case FAULT_SCOPE_UNDERFLOW:
        return fail_run(run, status, site, "a scope was ended that was never begun");
    case FAULT_ALLOC_ARGS:
        return fail_run(run, status, site,
                        "pto_alloc_tensors takes at least one new output and nothing else");
    case FAULT_SCOPE_ENDED:
        return fail_run(run, status, site,
                        "argument %d was created in a scope that has ended, and its memory is "
                        "gone; use it inside that scope, or create it in an outer one",
                        r->argument);
    case FAULT_TOO_MANY:
        return fail_run(run, status, site, "more than 2^32 tasks in one run; split it");
    case FAULT_MEMORY:
    case FAULT_NONE:
        break;
    }
    return fail_run(run, status, site,
                    "the device's memory budget of %llu MiB is exhausted: %llu more bytes were "
                    "needed at task %u in scope %u (%u tasks live); raise memory_max of the "
                    "device, or end scopes earlier",
                    (unsigned long long)(run->chip->memory->max >> 20),
                    (unsigned long long)run->chip->memory->refused, run->graph->seq,
                    run->graph->scope_count > 0 ? run->graph->scope_count - 1 : 0,
                    run->graph->live);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a run: prepared, its turn, graph built and run, ended, finished. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/os.h"
#include "host/host.h"
#include "host/limits.h"

static int prepare_run(const struct pto_device *device, const struct pto_callable *callable,
                       const struct pto_entry *entry, const struct pto_run_options *options,
                       struct pto_error *error, struct run **run_out);
static void give_run(struct device *device, struct run *run);
static void release_run(struct run *run);
static bool take_turn(struct run *run, uint64_t deadline_ns);
static void execute_run(struct run *run);
static void end_run(struct run *run);
static void enqueue_run(struct run *run);
static void dequeue_run(struct run *run);
static void *runner_main(void *arg);
static struct run *run_get(struct pto_run *handle, int *status_out);
static void report_timing(struct run *run, uint64_t begin_cycles);
static void begin_trace(struct run *run);
static void end_trace(struct run *run);
static void record_edge(void *context, uint32_t before, uint32_t after);

enum { TRACE_RECORDS_DEFAULT = 65536, TRACE_RECORDS_MAX = 1 << 24 };

void pto_run_options_init(struct pto_run_options *options)
{
    if (options != NULL)
        *options = (struct pto_run_options){ .size = sizeof(*options) };
}

void pto_run_report_init(struct pto_run_report *report)
{
    if (report == NULL)
        return;
    memset(report, 0, sizeof(*report));
    report->size = sizeof(*report);
    error_init(&report->error);
}

/* ---- blocking ---- */

int pto_run(struct pto_device *device, const struct pto_callable *callable,
            const struct pto_entry *entry, const struct pto_run_options *options,
            struct pto_run_report *report)
{
    struct run *run;
    int status;

    if (report != NULL && report->size != sizeof(*report))
        return PTO_EINVAL;
    status =
        prepare_run(device, callable, entry, options, report != NULL ? &report->error : NULL, &run);
    return status < 0 ? status : run_now(run, report);
}

int run_now(struct run *run, struct pto_run_report *report)
{
    int status;

    if (take_turn(run, os_now_ns() + PTO_TIMEOUT_DEFAULT_NS)) {
        execute_run(run);
        end_run(run);
    } else {
        run_fail(run, PTO_ETIMEOUT, NULL,
                 "the device was busy with other runs for a minute; wait for them, or cancel them");
    }
    status = run->status;
    if (report != NULL)
        *report = run->report;
    release_run(run);
    return status;
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
    (void)pto_device_close(device);
    (void)pto_callable_destroy(callable);
    if (error != NULL) {
        *error = report.error;
        error->status = status;
        if (status < 0 && error->text[0] == '\0')
            snprintf(error->text, sizeof(error->text), "%s", pto_strerror(status));
    }
    return status;
}

/* ---- in steps ---- */

int pto_run_prepare(struct pto_device *device, const struct pto_callable *callable,
                    const struct pto_entry *entry, const struct pto_run_options *options,
                    struct pto_run **run_out)
{
    struct run *run;
    int status;

    if (run_out == NULL)
        return PTO_EINVAL;
    status = prepare_run(device, callable, entry, options, NULL, &run);
    return status < 0 ? status : run_publish(run, run_out);
}

int run_publish(struct run *run, struct pto_run **run_out)
{
    void *handle = handle_create(HANDLE_RUN, run);

    if (handle == NULL) {
        release_run(run);
        return PTO_ENOMEM;
    }
    *run_out = handle;
    return PTO_OK;
}

int pto_run_launch(struct pto_run *handle)
{
    int status;
    struct run *run = run_get(handle, &status);
    struct device *device;

    if (run == NULL)
        return status;
    device = run->device;
    pthread_mutex_lock(&device->lock);
    if (run->state != RUN_PREPARED)
        status = PTO_EINVAL;
    else if (!device->has_runner) {
        status = os_thread_start(&device->runner, runner_main, device);
        device->has_runner = status == PTO_OK;
    }
    if (status == PTO_OK) {
        run->is_launched = true;
        enqueue_run(run);
        pthread_cond_broadcast(&device->changed);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

int pto_run_poll(struct pto_run *handle)
{
    int status;
    struct run *run = run_get(handle, &status);

    if (run == NULL)
        return status;
    pthread_mutex_lock(&run->device->lock);
    status = run->state == RUN_ENDED ? PTO_RUN_ENDED : PTO_RUN_PENDING;
    pthread_mutex_unlock(&run->device->lock);
    return status;
}

int pto_run_wait(struct pto_run *handle, uint64_t timeout_ns)
{
    int status;
    struct run *run = run_get(handle, &status);
    uint64_t now = os_now_ns();
    uint64_t deadline;

    if (run == NULL)
        return status;
    if (timeout_ns == 0)
        timeout_ns = PTO_TIMEOUT_DEFAULT_NS;
    deadline = timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
    pthread_mutex_lock(&run->device->lock);
    if (run->state == RUN_PREPARED)
        status = PTO_EINVAL; /* nobody would ever wake this thread */
    while (status == PTO_OK && run->state != RUN_ENDED)
        if (!os_cond_wait(&run->device->changed, &run->device->lock, deadline) &&
            run->state != RUN_ENDED)
            status = PTO_ETIMEOUT;
    if (status == PTO_OK)
        status = run->status;
    pthread_mutex_unlock(&run->device->lock);
    return status;
}

int pto_run_cancel(struct pto_run *handle)
{
    int status;
    struct run *run = run_get(handle, &status);

    if (run == NULL)
        return status;
    pthread_mutex_lock(&run->device->lock);
    if (run->state == RUN_PREPARED || run->state == RUN_QUEUED) {
        if (run->state == RUN_QUEUED)
            dequeue_run(run);
        run_fail(run, PTO_ECANCELED, NULL, "the run was cancelled before it began");
        end_run(run);
    } else if (run->state == RUN_RUNNING) {
        sched_attend(run->chip->sched, ATTEND_CANCELLED, 0); /* seen sooner or later */
    }
    pthread_mutex_unlock(&run->device->lock);
    return PTO_OK;
}

int pto_run_fd(struct pto_run *handle)
{
    int status;
    struct run *run = run_get(handle, &status);

    if (run == NULL)
        return status;
    pthread_mutex_lock(&run->device->lock);
    if (run->descriptor < 0)
        run->descriptor = eventfd(run->state == RUN_ENDED ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK);
    status = run->descriptor >= 0 ? run->descriptor : PTO_ESYSTEM;
    pthread_mutex_unlock(&run->device->lock);
    return status;
}

int pto_run_finish(struct pto_run *handle, struct pto_run_report *report)
{
    int status;
    struct run *run = run_get(handle, &status);

    if (run == NULL)
        return status;
    if (report != NULL && report->size != sizeof(*report))
        return PTO_EINVAL;
    pthread_mutex_lock(&run->device->lock);
    if (run->state == RUN_QUEUED || run->state == RUN_RUNNING)
        status = PTO_EBUSY;
    else if (run->state == RUN_PREPARED)
        run_fail(run, PTO_ECANCELED, NULL, "the run was never launched");
    pthread_mutex_unlock(&run->device->lock);
    if (status < 0 || handle_destroy(HANDLE_RUN, handle) == NULL)
        return status < 0 ? status : PTO_EINVAL;
    status = run->status;
    if (report != NULL)
        *report = run->report;
    release_run(run);
    return status;
}

/* ---- what both ways share ---- */

static struct run *run_get(struct pto_run *handle, int *status_out)
{
    struct run *run = handle_get(HANDLE_RUN, handle);

    *status_out = run == NULL ? PTO_EINVAL : *run->device->own_process == 0 ? PTO_EFORKED : PTO_OK;
    return *status_out == PTO_OK ? run : NULL;
}

static bool is_valid_call(const struct pto_entry *entry, const struct pto_run_options *options)
{
    if (entry != NULL && (entry->tensor_count > PTO_ENTRY_TENSORS_MAX ||
                          entry->scalar_count > PTO_ENTRY_SCALARS_MAX ||
                          (entry->tensor_count != 0 && entry->tensor == NULL) ||
                          (entry->scalar_count != 0 && entry->scalar == NULL)))
        return false;
    return options == NULL ||
           (options->size == sizeof(*options) && (uint32_t)options->mode < PTO_MODE_COUNT &&
            (uint32_t)options->deps < PTO_DEPS_COUNT &&
            (uint32_t)options->trace <= PTO_TRACE_TIMES &&
            (uint32_t)options->limits <= PTO_LIMITS_REFERENCE &&
            options->trace_records <= TRACE_RECORDS_MAX &&
            (options->trace_records & (options->trace_records - 1)) == 0);
}

/* A run that is over is kept for the next one: runs in a row allocate nothing. */
struct run *run_take(struct device *device)
{
    struct run *run;

    pthread_mutex_lock(&device->lock);
    run = device->spare;
    device->spare = NULL;
    pthread_mutex_unlock(&device->lock);
    return run != NULL ? run : malloc(sizeof(*run));
}

/* Under the device's lock. */
static void give_run(struct device *device, struct run *run)
{
    if (device->spare == NULL)
        device->spare = run;
    else
        free(run);
}

static int prepare_run(const struct pto_device *device_handle,
                       const struct pto_callable *callable_handle, const struct pto_entry *entry,
                       const struct pto_run_options *options, struct pto_error *error,
                       struct run **run_out)
{
    int status;
    struct device *device = device_get(device_handle, &status);
    struct callable *callable = handle_get(HANDLE_CALLABLE, callable_handle);
    struct run *run = NULL;

    if (status >= 0 && callable == NULL)
        status = PTO_EINVAL;
    if (status >= 0) {
        run = run_take(device);
        status = run == NULL ? PTO_ENOMEM : PTO_OK;
    }
    if (status < 0)
        return error_tell(error, status, "%s", pto_strerror(status));
    status = run_prepare(run, device, callable, entry, options, error);
    if (status < 0)
        free(run);
    else
        *run_out = run;
    return status;
}

int run_prepare(struct run *run, struct device *device, struct callable *callable,
                const struct pto_entry *entry, const struct pto_run_options *options,
                struct pto_error *error)
{
    struct registration *registration;
    int status = PTO_OK;

    if (!is_valid_call(entry, options))
        status = PTO_EINVAL;
    else if (aptr_load_relaxed(&device->chip->builder) == __builtin_thread_pointer())
        status = PTO_EBUSY; /* called by the orchestration of a run that it would wait for */
    if (status < 0)
        return error_tell(error, status, "%s", pto_strerror(status));
    status = registration_acquire(device, callable, &registration, error);
    if (status < 0)
        return status;
    memset(run, 0, offsetof(struct run, report));
    pto_run_report_init(&run->report);
    run->device = device;
    run->callable = callable;
    run->registration = registration;
    run->descriptor = -1;
    run->options.mode = callable->mode;
    if (options != NULL)
        run->options = *options;
    run->stall_ns =
        run->options.stall_timeout_ns != 0 ? run->options.stall_timeout_ns : device->stall_ns;
    run->entry.tensor = run->tensor;
    run->entry.scalar = run->scalar;
    if (entry != NULL) {
        if (entry->tensor_count != 0)
            memcpy(run->tensor, entry->tensor, entry->tensor_count * sizeof(run->tensor[0]));
        if (entry->scalar_count != 0)
            memcpy(run->scalar, entry->scalar, entry->scalar_count * sizeof(run->scalar[0]));
        run->entry.tensor_count = entry->tensor_count;
        run->entry.scalar_count = entry->scalar_count;
    }
    run->entry_seen = run->entry;
    run->chip = device->chip;
    run->graph = device->chip->graph;
    run->submitter = device->chip->submitter;
    run->is_shared = device->chip->sched->worker_count > 1;
    pthread_mutex_lock(&device->lock);
    if (device->is_closing)
        status = PTO_EINVAL;
    else if (device->is_lost)
        status = PTO_ELOST;
    else
        device->run_count++;
    if (status < 0)
        registration_release(registration);
    pthread_mutex_unlock(&device->lock);
    if (status < 0)
        return error_tell(error, status, "%s", pto_strerror(status));
    a32_add_relaxed(&callable->users, 1); /* read by its destroyer, after this run's end */
    return PTO_OK;
}

/* The end of the run's memory, too, unless it is a part of something else. */
static void release_run(struct run *run)
{
    struct relaunch *relaunch = run->relaunch;
    struct callable *callable = run->callable;
    struct device *device = run->device;

    if (run->descriptor >= 0)
        close(run->descriptor);
    pthread_mutex_lock(&device->lock);
    registration_release(run->registration);
    if (!run->is_part)
        give_run(device, run);
    a32_sub_acq_rel(&callable->users, 1);
    device->run_count--;
    pthread_mutex_unlock(&device->lock);
    if (relaunch != NULL)
        relaunch_release(relaunch); /* last: the run may be a part of it, and another's now */
}

/* Waits until the run is at the head of the queue, and starts it. False on the deadline. */
static bool take_turn(struct run *run, uint64_t deadline_ns)
{
    struct device *device = run->device;
    bool is_there = true;

    pthread_mutex_lock(&device->lock);
    enqueue_run(run);
    while (is_there && (device->head != run || device->is_running))
        is_there = os_cond_wait(&device->changed, &device->lock, deadline_ns);
    if (device->head == run && !device->is_running) { /* even if that was at the last moment */
        is_there = true;
        run->state = RUN_RUNNING;
        device->is_running = true;
        a32_store_relaxed(&run->chip->sched->attention, 0); /* no run is going on */
    } else {
        dequeue_run(run);
        pthread_cond_broadcast(&device->changed); /* somebody behind it may be next now */
    }
    pthread_mutex_unlock(&device->lock);
    return is_there;
}

/* Only if somebody set a ring's size. */
static void start_ledger(struct run *run)
{
    const char *warning[LIMITS_VARIABLES];
    struct ledger_limits limits = { .is_reference = run->options.limits == PTO_LIMITS_REFERENCE,
                                    .is_held = run->options.mode == PTO_MODE_HOST };
    int count = limits_resolve(&run->options.rings, &limits, warning);

    for (uint32_t i = 0; i < LIMITS_VARIABLES; i++)
        if (warning[i] != NULL)
            run->report.warning = warning[i];
    if (count < 0)
        run_fail(run, PTO_EINVAL, NULL,
                 "a ring's size is out of range: windows are powers of two from 4 on, heaps have "
                 "at least 1024 bytes, pools at least 4 entries");
    else if (count > 0 || limits.is_reference) {
        run->ledger = run->chip->ledger;
        if (ledger_start(run->ledger, &limits) < 0)
            orch_refuse_start(run, PTO_ENOMEM);
    }
}

static uint64_t deadline_after(uint64_t timeout_ns)
{
    uint64_t now = os_now_ns();

    return timeout_ns != 0 && timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
}

/* A handle that somebody kept too long may be looked at meanwhile: written only if it changes. */
static void choose_ops(struct run *run)
{
    struct pto_orch *o = &run->device->orch.orch;
    const struct pto_orch_ops *ops = run->options.task != NULL ? &orch_ops_watched : &orch_ops;

    if (o->ops != ops)
        o->ops = ops;
}

static void execute_run(struct run *run)
{
    struct callable *callable = run->callable;
    struct chip_job job = { .build = orch_build,
                            .arg = run,
                            .kernels = callable->kernel,
                            .order_seed = run->options.order_seed,
                            .window = run->options.window,
                            .is_held = run->options.mode == PTO_MODE_HOST || run->is_built_only,
                            .trace = run->options.trace,
                            .trace_records = run->options.trace_records != 0
                                                 ? run->options.trace_records
                                                 : TRACE_RECORDS_DEFAULT,
                            .is_built_only = run->is_built_only,
                            .stall_ns = run->stall_ns,
                            .deadline_ns = deadline_after(run->options.timeout_ns),
                            .stalled = run_stalled,
                            .report = &run->report };
    struct graph_params params = { .kernels = callable->kernel,
                                   .kernel_count = callable->kernel_count,
                                   .deps = run->options.deps,
                                   .edge_fn = run->options.edge,
                                   .edge_context = run->options.edge_context,
                                   .entry = &run->entry,
                                   .clusters = run->chip->clusters };
    uint64_t begin_cycles;
    int status = PTO_OK;

    if (run->chip->is_lost) { /* by a run that was before it in the queue, whose story is kept */
        run_fail(run, PTO_ELOST, NULL, "%s", pto_strerror(PTO_ELOST));
        return;
    }
    story_begin(run);
    staging_begin(run);
    if (run->options.trace != PTO_TRACE_OFF) {
        params.wired_fn = record_edge;
        params.wired_context = run;
        begin_trace(run);
    }
    if (run->is_built_only)
        relaunch_record(run->relaunch, run, &params, &job);
    if (run->relaunch != NULL && !run->is_built_only && run->status == PTO_OK)
        relaunch_start(run->relaunch, run, &params, &job);
    else if (run->status == PTO_OK)
        status = graph_start(run->graph, &params);
    if (status < 0)
        orch_refuse_start(run, status);
    if (run->status == PTO_OK && run->relaunch == NULL)
        start_ledger(run);
    run->is_plain = run->ledger == NULL && !job.is_held;
    run->quota = 0;
    if (run->status < 0) {
        story_end(run);
        return;
    }
    run->device->orch.run = run;
    choose_ops(run);
    run->begin_ns = os_now_ns();
    begin_cycles = port_cycles();
    status = run->chip->ops->run(run->chip, &job);
    run->report.ns = os_now_ns() - run->begin_ns;
    report_timing(run, begin_cycles);
    if (status < 0)
        run_fail(run, status, NULL, "there is no memory for the recorder; lower trace_records");
    run->report.tasks = run->graph->seq - 1;
    run->report.edges = run->graph->edge_total;
    run_report_fault(run);
    if ((a32_load_relaxed(&run->chip->sched->attention) & ATTEND_CANCELLED) != 0) /* it has ended */
        run_fail(run, PTO_ECANCELED, NULL, "the run was cancelled after %llu of %llu tasks",
                 (unsigned long long)run->report.executions, (unsigned long long)run->report.tasks);
    if (run->is_built_only)
        relaunch_keep(run->relaunch, run);
    if (run->options.trace != PTO_TRACE_OFF)
        end_trace(run);
    if (run->chip->is_lost) {
        a32_store_relaxed(&run->callable->is_pinned, 1); /* before its last user has gone */
        if (run->relaunch != NULL)
            relaunch_pin(run->relaunch);
    }
    staging_end(run);
    if (run->status < 0)
        story_end(run);
}

static void report_timing(struct run *run, uint64_t begin_cycles)
{
    uint64_t cycles = port_cycles() - begin_cycles;
    double ns = cycles != 0 ? (double)run->report.ns / (double)cycles : 0.0;

    for (uint32_t i = 0; i < PTO_TIMING_SLOTS; i++) {
        const struct sched_timing *timing = &run->chip->sched->timing[i];
        uint64_t begin = a64_load_relaxed(&timing->begin); /* the run has ended */
        uint64_t end = a64_load_relaxed(&timing->end);

        if (begin != 0 && end > begin)
            run->report.timing[i] =
                (struct pto_timing){ (uint64_t)((double)(begin - begin_cycles) * ns),
                                     (uint64_t)((double)(end - begin_cycles) * ns) };
    }
}

/* ---- the recorder: edges, names and clocks; the rings are the chip's ---- */

static void begin_trace(struct run *run)
{
    struct trace_store *trace = &run->device->trace;
    uint32_t count = run->callable->kernel_count;
    size_t bytes = 0;
    char *text;

    trace->mode = PTO_TRACE_OFF;
    trace->edge_count = trace->edges_lost = 0;
    free(trace->kernel_name);
    for (uint32_t i = 0; i < count; i++)
        bytes += strlen(run->callable->kernel_name[i]) + 1;
    trace->kernel_name = malloc((count + 1) * sizeof(char *) + bytes);
    trace->kernel_count = trace->kernel_name != NULL ? count : 0;
    text = (char *)(trace->kernel_name + count + 1);
    for (uint32_t i = 0; i < trace->kernel_count; i++) {
        size_t length = strlen(run->callable->kernel_name[i]) + 1;

        trace->kernel_name[i] = memcpy(text, run->callable->kernel_name[i], length);
        text += length;
    }
    trace->begin_ns = os_now_ns();
    trace->begin_cycles = port_cycles();
}

static void end_trace(struct run *run)
{
    struct trace_store *trace = &run->device->trace;

    trace->end_ns = os_now_ns();
    trace->end_cycles = port_cycles();
    trace->tasks = run->report.tasks;
    trace->status = run->status;
    trace->mode = run->options.trace;
}

/* Called by the submitter. */
static void record_edge(void *context, uint32_t before, uint32_t after)
{
    struct trace_store *trace = &((struct run *)context)->device->trace;

    if (trace->edge_count == trace->edge_max) {
        uint64_t max = trace->edge_max != 0 ? 2 * trace->edge_max : 4096;
        struct trace_edge *edge = realloc(trace->edge, max * sizeof(*edge));

        if (edge == NULL) {
            trace->edges_lost++;
            return;
        }
        trace->edge = edge;
        trace->edge_max = max;
    }
    trace->edge[trace->edge_count++] = (struct trace_edge){ before, after };
}

/* Wakes whoever waits for this run or for its turn. Takes the lock unless the run never began. */
static void end_run(struct run *run)
{
    struct device *device = run->device;
    bool has_begun = run->state == RUN_RUNNING;
    uint64_t one = 1;

    if (has_begun) {
        pthread_mutex_lock(&device->lock);
        dequeue_run(run);
        device->is_running = false;
        device->is_lost = run->chip->is_lost;
    }
    run->state = RUN_ENDED;
    while (run->descriptor >= 0 && write(run->descriptor, &one, sizeof(one)) < 0 &&
           errno == EINTR) {
    } /* an eventfd takes one */
    pthread_cond_broadcast(&device->changed);
    if (has_begun)
        pthread_mutex_unlock(&device->lock);
}

/* Both under the device's lock. */
static void enqueue_run(struct run *run)
{
    struct device *device = run->device;

    run->state = RUN_QUEUED;
    run->next = NULL;
    if (device->head == NULL)
        device->head = run;
    else
        device->tail->next = run;
    device->tail = run;
}

static void dequeue_run(struct run *run)
{
    struct device *device = run->device;
    struct run *before = NULL;

    for (struct run *r = device->head; r != run; r = r->next)
        before = r;
    if (before == NULL)
        device->head = run->next;
    else
        before->next = run->next;
    if (device->tail == run)
        device->tail = before;
}

/* Runs what was launched, one after the other, until the device is closed. */
static void *runner_main(void *arg)
{
    struct device *device = arg;

    pthread_mutex_lock(&device->lock);
    while (!device->is_closing) {
        struct run *run = device->head;

        if (run == NULL || !run->is_launched || device->is_running) {
            os_cond_wait(&device->changed, &device->lock, UINT64_MAX);
            continue;
        }
        run->state = RUN_RUNNING;
        device->is_running = true;
        a32_store_relaxed(&run->chip->sched->attention, 0); /* no run is going on */
        pthread_mutex_unlock(&device->lock);
        execute_run(run);
        end_run(run);
        pthread_mutex_lock(&device->lock);
    }
    pthread_mutex_unlock(&device->lock);
    return NULL;
}

int run_fail(struct run *run, int status, const struct pto_site *site, const char *format, ...)
{
    struct pto_error *error = &run->report.error;
    int used = 0;
    va_list args;

    if (run->status < 0)
        return run->status;
    run->status = status;
    run->quota = 0; /* the next submit looks */
    error->status = status;
    if (run->state == RUN_RUNNING)
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

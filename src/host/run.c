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
#include "base/sized.h"
#include "host/host.h"
#include "host/diagnostics.h"
#include "host/limits.h"
#include "host/sentences.h"

/* What comes of waiting for one's turn. */
enum turn { TURN_BEGUN, TURN_ENDED, TURN_REFUSED };

static int prepare_run(const struct pto_device *device, const struct pto_callable *callable,
                       const struct pto_entry *entry, const struct pto_run_options *options,
                       struct pto_error *error, struct run **run_out);
static void give_run(struct device *device, struct run *run);
static void release_run(struct run *run);
static int see_through(struct run *run);
static enum turn take_turn(struct run *run);
static int start_runners(struct device *device);
static bool may_begin(const struct run *run);
static void await_turn_to_end(struct run *run);
static void execute_run(struct run *run);
static void end_run(struct run *run);
static void enqueue_run(struct run *run);
static void dequeue_run(struct run *run);
static void *runner_main(void *arg);
static void *watcher_main(void *arg);
static void set_launch_deadline(struct run *run);
static void fail_in_queue(struct run *run);
static struct run *run_get(struct pto_run *handle, int *status_out);
static void keep_names(struct run *run);

enum { TRACE_RECORDS_DEFAULT = 1 << 22, TRACE_RECORDS_MAX = 1 << 24 };

/* ---- blocking ---- */

int pto_run(struct pto_device *device, const struct pto_callable *callable,
            const struct pto_entry *entry, const struct pto_run_options *options,
            struct pto_run_report *report)
{
    struct pto_error error;
    struct run *run;
    int status;

    if (!sized_is_valid(report))
        return PTO_EINVAL;
    pto_error_init(&error);
    status = prepare_run(device, callable, entry, options, &error, &run);
    if (status < 0)
        run_report_error(report, &error);
    return status < 0 ? status : run_now(run, report);
}

void run_report_error(struct pto_run_report *report, const struct pto_error *error)
{
    sized_write_field(report, offsetof(struct pto_run_report, error), error, sizeof(*error));
}

int run_now(struct run *run, struct pto_run_report *report)
{
    int status = see_through(run);

    sized_write(report, &run->report, sizeof(run->report));
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

    if (!sized_is_valid(error))
        return PTO_EINVAL;
    pto_run_report_init(&report);
    pto_device_params_init(&device_params);
    device_params.platform = platform;
    pto_callable_params_init(&callable_params);
    callable_params.orchestration = orchestration;
    callable_params.kernels = kernels;
    callable_params.kernel_count = kernel_count;
    callable_params.error = &report.error;
    status = pto_callable_create(&callable_params, &callable);
    if (status >= 0)
        status = pto_device_open(&device_params, &device);
    if (status >= 0)
        status = pto_run(device, callable, entry, NULL, &report);
    (void)pto_device_close(device);
    (void)pto_callable_destroy(callable);
    report.error.status = status;
    if (status < 0 && report.error.text[0] == '\0')
        snprintf(report.error.text, sizeof(report.error.text), "%s", pto_strerror(status));
    sized_write(error, &report.error, sizeof(report.error));
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
        return error_tell(run_error(options), PTO_EINVAL,
                          "there is no place for the run: run_out is NULL");
    status = prepare_run(device, callable, entry, options, run_error(options), &run);
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
    else
        status = start_runners(device);
    if (status == PTO_OK && run->options.launch_timeout_ns != 0 && !device->has_watcher) {
        status = os_thread_start(&device->watcher, watcher_main, device);
        device->has_watcher = status == PTO_OK;
    }
    if (status == PTO_OK) {
        set_launch_deadline(run);
        run->is_launched = true;
        enqueue_run(run);
        pthread_cond_broadcast(&device->changed);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

int pto_run_execute(struct pto_run *handle)
{
    int status;
    struct run *run = run_get(handle, &status);

    return run == NULL ? status : see_through(run);
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
    pthread_mutex_lock(&run->device->lock); /* mutation: unlocked-cancel */
    if (run->state == RUN_PREPARED || run->state == RUN_QUEUED) {
        if (run->state == RUN_QUEUED)
            dequeue_run(run);
        run_fail(run, PTO_ECANCELED, "the run was cancelled before it began");
        end_run(run);
    } else if (run->state == RUN_RUNNING) {
        chip_cancel(run->device->chip, run->number); /* seen sooner or later */
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
    if (!sized_is_valid(report))
        return PTO_EINVAL;
    pthread_mutex_lock(&run->device->lock);
    if (run->state == RUN_QUEUED || run->state == RUN_RUNNING)
        status = PTO_EBUSY;
    else if (run->state == RUN_PREPARED)
        run_fail(run, PTO_ECANCELED, "the run was never launched");
    pthread_mutex_unlock(&run->device->lock);
    if (status < 0 || handle_destroy(HANDLE_RUN, handle) == NULL)
        return status < 0 ? status : PTO_EINVAL;
    status = run->status;
    sized_write(report, &run->report, sizeof(run->report));
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

/* Programs with older headers have no such field. */
struct pto_error *run_error(const struct pto_run_options *options)
{
    return options != NULL && sized_is_valid(options) &&
                   options->size >=
                       offsetof(struct pto_run_options, error) + sizeof(options->error) &&
                   sized_is_valid(options->error)
               ? options->error
               : NULL;
}

static bool fits_its_buffer(const struct pto_tensor *t)
{
    if (t->ndims < 1 || t->ndims > PTO_MAX_DIMS || pto_dtype_size(t->dtype) == 0)
        return true; /* a submit says what is wrong with it */
    return pto_tensor_end(t) <= t->size;
}

static int check_entry(const struct pto_entry *entry, struct pto_error *error)
{
    if (entry == NULL)
        return PTO_OK;
    if (entry->tensor_count > PTO_ENTRY_TENSORS_MAX)
        return error_tell(error, PTO_EINVAL, "the entry has %u tensors; there may be %d",
                          entry->tensor_count, PTO_ENTRY_TENSORS_MAX);
    if (entry->scalar_count > PTO_ENTRY_SCALARS_MAX)
        return error_tell(error, PTO_EINVAL, "the entry has %u scalars; there may be %d",
                          entry->scalar_count, PTO_ENTRY_SCALARS_MAX);
    if (entry->tensor_count != 0 && entry->tensor == NULL)
        return error_tell(error, PTO_EINVAL, "the entry has %u tensors, but their array is NULL",
                          entry->tensor_count);
    if (entry->scalar_count != 0 && entry->scalar == NULL)
        return error_tell(error, PTO_EINVAL, "the entry has %u scalars, but their array is NULL",
                          entry->scalar_count);
    for (uint32_t i = 0; i < entry->tensor_count; i++)
        if (!fits_its_buffer(&entry->tensor[i]))
            return error_tell(
                error, PTO_EINVAL,
                "tensor %u of the entry reaches beyond its %llu bytes; check its start, "
                "shapes and strides",
                i, (unsigned long long)entry->tensor[i].size);
    return PTO_OK;
}

static int check_options(const struct pto_run_options *options, struct pto_error *error)
{
    const struct {
        const char *name;
        uint32_t value;
        uint32_t max;
    } choice[] = {
        { "mode", (uint32_t)options->mode, PTO_MODE_COUNT - 1 },
        { "deps", (uint32_t)options->deps, PTO_DEPS_DEFAULT },
        { "trace", (uint32_t)options->trace, PTO_TRACE_ARGUMENTS },
        { "limits", (uint32_t)options->limits, PTO_LIMITS_REFERENCE },
        { "diagnostics.swimlane", options->diagnostics.swimlane, DIAGNOSTICS_SWIMLANE_MAX },
        { "diagnostics.args", options->diagnostics.args, DIAGNOSTICS_ARGS_MAX },
    };

    for (uint32_t i = 0; i < sizeof(choice) / sizeof(choice[0]); i++)
        if (choice[i].value > choice[i].max)
            return error_tell(error, PTO_EINVAL, "%s of the options is %u; it may be 0 to %u",
                              choice[i].name, choice[i].value, choice[i].max);
    if (diagnostics_any(&options->diagnostics) &&
        (options->diagnostics.folder == NULL || options->diagnostics.folder[0] == '\0'))
        return error_tell(error, PTO_EINVAL,
                          "diagnostics of the options are asked for, but `folder` does not say "
                          "where they are to be written");
    if (options->trace_records > TRACE_RECORDS_MAX ||
        (options->trace_records & (options->trace_records - 1)) != 0)
        return error_tell(error, PTO_EINVAL,
                          "trace_records of the options is %u; it must be a power of two, at most "
                          "%u",
                          options->trace_records, TRACE_RECORDS_MAX);
    return PTO_OK;
}

/* A run that is over is kept for the next one: runs in a row allocate nothing. */
struct run *run_take(struct device *device)
{
    struct run *run;

    pthread_mutex_lock(&device->lock);
    run = device->spare;
    device->spare = NULL;
    pthread_mutex_unlock(&device->lock);
    if (run == NULL) {
        run = malloc(sizeof(*run));
        if (run != NULL)
            run->absent = 0;
    }
    return run;
}

/* Under the device's lock. */
static void give_run(struct device *device, struct run *run)
{
    if (device->spare == NULL) /* mutation: malloc-a-run */
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

    if (status == PTO_EINVAL)
        return error_tell(error, status, "the device is not open: it was closed, or never one");
    if (status >= 0 && callable == NULL)
        return error_tell(error, PTO_EINVAL, "the callable was destroyed, or never one");
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

/* A submit refuses what an orchestration takes from behind the end of its entry. */
static void mark_absent(struct run *run)
{
    for (uint32_t i = run->entry.tensor_count; i < PTO_ENTRY_TENSORS_MAX - run->absent; i++)
        run->tensor[i] = pto_tensor_absent(i);
    run->absent = PTO_ENTRY_TENSORS_MAX - run->entry.tensor_count;
}

/* What orders the tasks, if the options do not say. */
static void resolve_deps(struct run *run)
{
    const char *text = getenv("PTO_DEPS");

    if (run->options.deps != PTO_DEPS_DEFAULT)
        return;
    run->options.deps = run->callable->deps;
    if (text == NULL)
        return;
    for (uint32_t deps = 0; deps < PTO_DEPS_COUNT; deps++)
        if (strcmp(text, pto_deps_name(deps)) == 0) {
            run->options.deps = (enum pto_deps)deps;
            return;
        }
    run->report.warning = "PTO_DEPS is ignored: it takes safe or simpler";
}

int run_prepare(struct run *run, struct device *device, struct callable *callable,
                const struct pto_entry *entry, const struct pto_run_options *given,
                struct pto_error *error)
{
    struct registration *registration;
    struct pto_run_options options;
    const char *loss;
    char *folder;
    int status = PTO_OK;

    pto_run_options_init(&options);
    options.mode = callable->mode;
    if (given != NULL && sized_read(&options, sizeof(options), given) < 0)
        return error_tell(error, PTO_EINVAL,
                          "the options are not initialised with pto_run_options_init");
    options.error = NULL; /* the caller's, and of no use later */
    status = check_entry(entry, error);
    if (status >= 0)
        status = check_options(&options, error);
    if (status < 0)
        return status;
    if (chip_is_builder(device->chip)) /* it would wait for the run that calls it */
        return error_tell(error, PTO_EBUSY,
                          "an orchestration cannot start a run on the device that runs it");
    status = diagnostics_prepare(&options, &folder);
    if (status < 0)
        return error_tell(error, status, "no memory for the path of the diagnostics");
    status = registration_acquire(device, callable, &registration, error);
    if (status < 0) {
        free(folder);
        return status;
    }
    memset(run, 0, offsetof(struct run, report));
    pto_run_report_init(&run->report);
    run->device = device;
    run->callable = callable;
    run->registration = registration;
    run->descriptor = -1;
    run->options = options;
    resolve_deps(run);
    run->folder = folder;
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
    mark_absent(run);
    pthread_mutex_lock(&device->lock);
    loss = device->loss;
    if (device->is_closing)
        status = PTO_EINVAL;
    else if (loss != NULL)
        status = PTO_ELOST;
    else
        device->run_count++;
    if (status < 0) {
        registration_release(registration);
        free(folder);
    }
    pthread_mutex_unlock(&device->lock);
    if (status < 0)
        return error_tell(error, status, "%s", status == PTO_ELOST ? loss : pto_strerror(status));
    a32_add_relaxed(&callable->users, 1); /* read by its destroyer, after this run's end */
    return PTO_OK;
}

/* The end of the run's memory, too, unless it is a part of something else. */
static void release_run(struct run *run)
{
    struct host_graph *graph = run->graph;
    struct callable *callable = run->callable;
    struct device *device = run->device;

    if (run->descriptor >= 0)
        close(run->descriptor);
    if (run->folder != NULL)
        free(run->folder);
    pthread_mutex_lock(&device->lock);
    registration_release(run->registration);
    if (!run->is_part)
        give_run(device, run);
    a32_sub_acq_rel(&callable->users, 1);
    device->run_count--;
    pthread_mutex_unlock(&device->lock);
    if (graph != NULL)
        host_graph_release(graph); /* last: the run may be a part of it, and another's now */
}

/* Its turn has come; under the device's lock. */
static void begin_run(struct run *run)
{
    struct device *device = run->device;

    run->state = RUN_RUNNING;
    run->number = ++device->run_number;
    run->place = chip_properties(device->chip)->takes_next ? run->number % RUNS_MAX : 0;
    run->loss = device->loss;
    device->running++;
}

/* Sees a prepared run through, on this thread. Returns its status. */
static int see_through(struct run *run)
{
    switch (take_turn(run)) {
    case TURN_BEGUN:
        execute_run(run);
        end_run(run);
        break;
    case TURN_REFUSED:
        return PTO_EINVAL;
    case TURN_ENDED:
        break;
    }
    return run->status;
}

/*
 * A run that has the chip for itself: what it recorded is read until the next one starts, and the
 * graph that it built is fetched after its end.
 */
static bool is_alone(const struct run *run)
{
    return run->options.trace != PTO_TRACE_OFF || run->purpose == CHIP_BUILD;
}

/*
 * Whether the run may be started behind one that goes on. Its time from the launch is measured on the
 * host, and the chip does not know when the other one ends.
 */
static bool may_follow(const struct run *run, const struct run *going_on)
{
    return going_on->state == RUN_RUNNING && going_on->is_on_chip && !is_alone(going_on) &&
           !is_alone(run) && run->launch_deadline_ns == 0 && !staging_reads_from(run, going_on);
}

/* Under the device's lock. */
static bool may_begin(const struct run *run)
{
    const struct device *device = run->device;

    if (device->head == run)
        return true;
    return chip_properties(device->chip)->takes_next && device->head->next == run &&
           may_follow(run, device->head);
}

/* Runs end in the order of the queue; the device may be lost by the one before. */
static void await_turn_to_end(struct run *run)
{
    struct device *device = run->device;

    if (!chip_properties(device->chip)->takes_next)
        return;
    pthread_mutex_lock(&device->lock);
    while (device->head != run)
        (void)os_cond_wait(&device->changed, &device->lock, UINT64_MAX);
    if (device->loss != NULL)
        run->loss = device->loss;
    pthread_mutex_unlock(&device->lock);
}

/* One for each run that can go on at a time. Under the device's lock. */
static int start_runners(struct device *device)
{
    uint32_t wanted = chip_properties(device->chip)->takes_next ? RUNS_MAX : 1;
    int status = PTO_OK;

    while (status == PTO_OK && device->runner_count < wanted) {
        status = os_thread_start(&device->runner[device->runner_count], runner_main, device);
        device->runner_count += status == PTO_OK;
    }
    return device->runner_count != 0 ? PTO_OK : status;
}

/* Waits until the run may begin, and begins it, unless it ends before. */
static enum turn take_turn(struct run *run)
{
    struct device *device = run->device;
    uint64_t deadline_ns = os_now_ns() + PTO_TIMEOUT_DEFAULT_NS;
    bool is_there = true, is_own;
    enum turn turn = TURN_ENDED;

    set_launch_deadline(run);
    is_own = run->launch_deadline_ns != 0 && run->launch_deadline_ns < deadline_ns;
    pthread_mutex_lock(&device->lock);
    if (run->state != RUN_PREPARED) {
        pthread_mutex_unlock(&device->lock);
        return TURN_REFUSED;
    }
    enqueue_run(run);
    while (is_there && run->state == RUN_QUEUED && !may_begin(run))
        is_there = os_cond_wait(&device->changed, &device->lock,
                                is_own ? run->launch_deadline_ns : deadline_ns);
    if (run->state == RUN_QUEUED && may_begin(run)) {
        begin_run(run); /* even if that was at the last moment */
        turn = TURN_BEGUN;
    } else if (run->state == RUN_QUEUED) { /* else it was cancelled meanwhile */
        dequeue_run(run);
        if (is_own)
            fail_in_queue(run);
        else
            run_fail(run, PTO_ETIMEOUT,
                     "the device was busy with other runs for a minute; wait for them, or cancel "
                     "them");
        end_run(run); /* somebody behind it may be next now */
    }
    pthread_mutex_unlock(&device->lock);
    return turn;
}

/* The sizes of rings as they count, the environment included. Returns whether one is set. */
static bool resolve_rings(struct run *run)
{
    const char *warning[LIMITS_VARIABLES];
    int count = limits_resolve(&run->options.rings, &run->options.rings, warning);

    for (uint32_t i = 0; i < LIMITS_VARIABLES; i++)
        if (warning[i] != NULL)
            run->report.warning = warning[i];
    if (count < 0)
        run_fail(run, PTO_EINVAL,
                 "a ring's size is out of range: windows are powers of two from 4 on, heaps have "
                 "at least 1024 bytes, pools at least 4 entries");
    return count > 0;
}

/* What the chip cannot do, in a sentence; NULL: it can do all that is asked for. */
static const char *find_unsupported(const struct run *run)
{
    const struct chip_properties *can = chip_properties(run->device->chip);
    const struct pto_run_options *options = &run->options;
    const char *uncallable = register_unsupported(run->device, run->callable);

    if (uncallable != NULL)
        return uncallable;
    if ((options->edge != NULL || options->task != NULL) && !can->has_observers)
        return "the device cannot call `edge` and `task` of the options; leave them NULL";
    if (run->purpose != CHIP_RUN && !can->has_graphs)
        return "the device keeps no graphs; run the callable";
    if (options->trace != PTO_TRACE_OFF && !can->has_recorder)
        return "the device has no recorder; do without `trace` and `diagnostics`";
    if (options->trace == PTO_TRACE_ARGUMENTS && !can->records_tasks)
        return "the device records when tasks ran, not what they were given; do without "
               "PTO_TRACE_ARGUMENTS and `diagnostics`";
    if (options->has_guards && !can->has_guards)
        return "the device has no guards; do without `has_guards`";
    return NULL;
}

/* Takes what came of the run. */
static void take_result(struct run *run, const struct chip_result *result)
{
    if (result->failure.status < 0 && run->status >= 0) {
        run->status = result->failure.status;
        sentence_write(result, run->callable, &run->report.error);
    }
    if (run->purpose == CHIP_BUILD)
        host_graph_keep(run->graph, result->graph);
    if (result->is_lost && chip_properties(run->device->chip)->shares_memory)
        a32_store_relaxed(&run->callable->is_pinned, 1); /* before its last user has gone */
    run->loss = result->is_lost ? sentence_of_loss(result) : NULL;
    if (result->is_lost && result->failure.fault == FAULT_CARD) { /* the chip knows more */
        static const char lost[] = "the device is lost: ";
        const char *text = result->failure.text;

        snprintf(run->device->loss_text, sizeof(run->device->loss_text), "%s%s",
                 strncmp(text, lost, strlen(lost)) == 0 ? "" : lost, text);
        run->loss = run->device->loss_text;
    }
    if (run->loss != NULL && run->status >= 0) /* its outputs may not be what it computed */
        run_fail(run, PTO_ELOST, "%s", run->loss);
    if (run->options.trace != PTO_TRACE_OFF)
        keep_names(run);
}

/* In a child, when the process ends in the run. */
static void leave_timeline(void *context)
{
    struct run *run = context;
    struct pto_error error;

    pto_error_init(&error);
    run->status = PTO_ECRASH;
    keep_names(run);
    if (timeline_write(run->device, run->options.trace_path, &error) < 0)
        dprintf(STDERR_FILENO, "pto: the timeline of the run cannot be written: %s\n", error.text);
    else
        dprintf(STDERR_FILENO, "pto: the timeline of the run is in %s\n", run->options.trace_path);
}

/* The last of a run: what it was asked to tell of itself. */
static void write_diagnostics(struct run *run)
{
    struct pto_error error;
    int status;

    pto_error_init(&error);
    status = diagnostics_write(run->device, run->folder, &error);
    if (status < 0 && run->status >= 0)
        run_fail(run, status, "the run went well, but its diagnostics are not written: %s",
                 error.text);
}

/* The run is on the chip, or will not be. */
static void tell_started(struct run *run)
{
    struct device *device = run->device;

    pthread_mutex_lock(&device->lock);
    run->is_on_chip = true;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
}

/* Starts the run. Where the one before it may go on meanwhile, that one has ended afterwards. */
static int start_on_chip(struct run *run, const struct chip_request *request)
{
    struct chip *chip = run->device->chip;
    int status = chip_start(chip, request);

    if (!chip_properties(chip)->takes_next)
        return status;
    if (status == PTO_EAGAIN) { /* not beside the other one */
        await_turn_to_end(run);
        status = chip_start(chip, request);
    }
    tell_started(run);
    await_turn_to_end(run);
    return status;
}

/*
 * Everything is in place: starts the run and sees it through. NULL: the chip did not take it, or was
 * lost by the run before.
 */
static const struct chip_result *run_on_chip(struct run *run, bool has_rings)
{
    struct chip *chip = run->device->chip;
    const struct chip_request request = {
        .number = run->number,
        .purpose = run->purpose,
        .code = run->registration != NULL ? run->registration->code : NULL,
        .functions = run->registration != NULL ? NULL : &run->callable->functions,
        .graph = run->graph != NULL ? host_graph_of(run->graph) : NULL,
        .entry = &run->entry,
        .options = &run->options,
        .has_rings = has_rings,
        .stall_ns = run->stall_ns,
        .launch_deadline_ns = run->launch_deadline_ns,
        .last_will = run->options.trace_path != NULL ? leave_timeline : NULL,
        .last_will_context = run,
    };
    const struct chip_result *result = NULL;
    int status = start_on_chip(run, &request);

    if (status >= 0) {
        chip_wait(chip);
        result = chip_report(chip, &run->report);
    }
    if (run->loss != NULL) {
        run_fail(run, PTO_ELOST, "%s", run->loss);
        return NULL;
    }
    if (status < 0)
        run_fail(run, status, "%s", pto_strerror(status));
    return result;
}

static void execute_run(struct run *run)
{
    const char *unsupported = find_unsupported(run);
    const struct chip_result *result = NULL;
    bool has_rings;

    if (run->loss != NULL) { /* by a run that was before it in the queue, whose story is kept */
        run_fail(run, PTO_ELOST, "%s", run->loss);
        return;
    }
    if (unsupported != NULL)
        run_fail(run, PTO_ENOSUP, "callable \"%.100s\" cannot run here: %s",
                 run->callable->kernel_name[run->callable->kernel_count], unsupported);
    has_rings = run->purpose == CHIP_RUN && resolve_rings(run);
    if (run->options.trace_records == 0)
        run->options.trace_records = TRACE_RECORDS_DEFAULT;
    if (run->status >= 0)
        staging_begin(run);
    if (run->status >= 0)
        result = run_on_chip(run, has_rings);
    if (run->loss != NULL)
        return;
    if (result != NULL)
        take_result(run, result);
    if (run->status >= 0)
        staging_end(run);
    if (result != NULL && run->folder != NULL)
        write_diagnostics(run);
    story_write(&run->device->story, result, run->callable, &run->report.error);
}

/* What the timeline needs beside the chip's record; the callable may be gone by then. */
static void keep_names(struct run *run)
{
    struct trace_names *trace = &run->device->trace;
    uint32_t count = run->callable->kernel_count;
    size_t bytes = 0;
    char *text;

    trace->mode = run->options.trace;
    trace->status = run->status;
    trace->run_mode = run->options.mode;
    trace->deps = run->options.deps;
    trace->rings = run->options.rings;
    trace->diagnostics = run->options.diagnostics;
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
}

/* Wakes whoever waits for this run or for its turn. Takes the lock unless the run never began. */
static void end_run(struct run *run)
{
    struct device *device = run->device;
    bool has_begun = run->state == RUN_RUNNING;
    uint64_t one = 1;

    if (has_begun) {
        await_turn_to_end(run);
        pthread_mutex_lock(&device->lock);
        dequeue_run(run);
        device->running--;
        device->loss = run->loss;
    }
    run->state = RUN_ENDED;
    while (run->descriptor >= 0 && write(run->descriptor, &one, sizeof(one)) < 0 &&
           errno == EINTR) {
    } /* an eventfd takes one */
    pthread_cond_broadcast(&device->changed);
    if (has_begun)
        pthread_mutex_unlock(&device->lock);
}

/* All under the device's lock. */
static void enqueue_run(struct run *run)
{
    struct device *device = run->device;

    run->state = RUN_QUEUED;
    run->next = NULL;
    run->before = device->tail;
    if (device->head == NULL)
        device->head = run;
    else
        device->tail->next = run;
    device->tail = run;
    run->is_due = run->is_launched && run->launch_deadline_ns != 0;
    if (run->is_due)
        due_add(&device->due, run);
}

/* It begins, or leaves the queue. */
static void forget_due(struct run *run)
{
    if (run->is_due)
        due_remove(&run->device->due, run);
    run->is_due = false;
}

static void dequeue_run(struct run *run)
{
    struct device *device = run->device;

    if (run->before == NULL)
        device->head = run->next;
    else
        run->before->next = run->next;
    if (run->next == NULL)
        device->tail = run->before;
    else
        run->next->before = run->before;
    forget_due(run);
}

/* ---- a deadline from the launch ---- */

static void set_launch_deadline(struct run *run)
{
    uint64_t now = os_now_ns(), ns = run->options.launch_timeout_ns;

    run->launch_deadline_ns = ns != 0 && ns < UINT64_MAX - now ? now + ns : 0;
}

static void fail_in_queue(struct run *run)
{
    char time[SENTENCE_TIME];

    sentence_time(run->options.launch_timeout_ns, time);
    run_fail(run, PTO_ETIMEOUT,
             "the run had not begun %s after its launch: the device was busy with other runs; wait "
             "for them, or raise the time-out",
             time);
}

/* Ends what is late in the queue. Returns the next deadline. Under the device's lock. */
static uint64_t end_late_runs(struct device *device)
{
    while (device->due != NULL && os_now_ns() >= device->due->launch_deadline_ns) {
        struct run *run = device->due;

        dequeue_run(run);
        fail_in_queue(run);
        end_run(run);
    }
    return device->due != NULL ? device->due->launch_deadline_ns : UINT64_MAX;
}

/* Beside the runner, which is in a run while others wait for their turn. */
static void *watcher_main(void *arg)
{
    struct device *device = arg;

    pthread_mutex_lock(&device->lock);
    while (!device->is_closing)
        (void)os_cond_wait(&device->changed, &device->lock, end_late_runs(device));
    pthread_mutex_unlock(&device->lock);
    return NULL;
}

static struct run *first_queued(const struct device *device)
{
    struct run *run = device->head;

    while (run != NULL && run->state != RUN_QUEUED)
        run = run->next;
    return run;
}

/* Runs what was launched, in the order of the queue, until the device is closed. */
static void *runner_main(void *arg)
{
    struct device *device = arg;

    pthread_mutex_lock(&device->lock);
    while (!device->is_closing) {
        struct run *run;

        (void)end_late_runs(device);
        run = first_queued(device);
        if (run == NULL || !run->is_launched || !may_begin(run)) {
            os_cond_wait(&device->changed, &device->lock, UINT64_MAX);
            continue;
        }
        forget_due(run);
        begin_run(run);
        pthread_mutex_unlock(&device->lock);
        execute_run(run);
        end_run(run);
        pthread_mutex_lock(&device->lock);
    }
    pthread_mutex_unlock(&device->lock);
    return NULL;
}

int run_fail(struct run *run, int status, const char *format, ...)
{
    struct pto_error *error = &run->report.error;
    va_list args;

    if (run->status < 0)
        return run->status;
    run->status = status;
    error->status = status;
    va_start(args, format);
    vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    pto_text_clean(error->text, false);
    return status;
}

int pto_device_story(struct pto_device *handle, char *text, size_t size)
{
    int status;
    struct device *device = device_get(handle, &status);

    if (device == NULL)
        return status;
    pthread_mutex_lock(&device->lock);
    if (device->running != 0)
        status = PTO_EBUSY;
    else if (text != NULL && size != 0)
        snprintf(text, size, "%s", device->story.text);
    if (status == PTO_OK)
        status = (int)device->story.length;
    pthread_mutex_unlock(&device->lock);
    return status;
}

uint32_t pto_stuck_threads(void)
{
    return chip_stuck_threads();
}

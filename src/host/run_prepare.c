/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares and frees runs: checks and copies the arguments of the caller. */
#include "host/run.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/sized.h"
#include "host/diagnostics.h"

enum { TRACE_RECORDS_MAX = 1 << 24 };

static void recycle_run(struct device *device, struct run *run);
static int read_options(const struct pto_run_options *given, const struct callable *callable,
                        struct pto_run_options *out, struct pto_error *error);
static int check_entry(const struct pto_entry *entry, struct pto_error *error);
static int check_options(const struct pto_run_options *options, struct pto_error *error);
static void resolve_deps(struct run *run);
static void run_copy_entry(struct run *run, const struct pto_entry *entry);
static int run_admit(struct run *run, struct pto_error *error);

/*
 * Allocates a run, or reuses the memory of an ended one, so that consecutive runs allocate nothing.
 */
struct run *run_alloc(struct device *device)
{
    struct run *run;

    pthread_mutex_lock(&device->lock);
    run = device->spare;
    device->spare = NULL;
    pthread_mutex_unlock(&device->lock);
    if (run == NULL) {
        run = aligned_alloc(alignof(struct run), sizeof(*run));
        if (run != NULL)
            run->absent = 0;
    }
    return run;
}

int run_prepare(struct run *run, struct device *device, struct callable *callable,
                const struct pto_entry *entry, const struct pto_run_options *given,
                struct pto_error *error)
{
    struct registration *registration;
    struct pto_run_options options;
    char *folder;
    int status = read_options(given, callable, &options, error);

    if (status >= 0)
        status = check_entry(entry, error);
    if (status >= 0)
        status = check_options(&options, error);
    if (status < 0)
        return status;
    /* this run would wait for the run whose orchestration prepares it */
    if (chip_is_builder(device->chip))
        return error_setf(error, PTO_EBUSY,
                          "an orchestration cannot start a run on the device that runs it");
    status = diagnostics_prepare(&options, &folder);
    if (status < 0)
        return error_setf(error, status, "no memory for the path of the diagnostics");
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
    run->stall_ns = options.stall_timeout_ns != 0 ? options.stall_timeout_ns : device->stall_ns;
    run_copy_entry(run, entry);
    return run_admit(run, error);
}

/*
 * Returns the error that the options point to; NULL: none, as with programs with older headers,
 * which lack this field.
 */
struct pto_error *run_error(const struct pto_run_options *options)
{
    return options != NULL && sized_is_valid(options) &&
                   options->size >=
                       offsetof(struct pto_run_options, error) + sizeof(options->error) &&
                   sized_is_valid(options->error)
               ? options->error
               : NULL;
}

void run_release(struct run *run)
{
    struct host_graph *graph = run->graph;
    struct callable *callable = run->callable;
    struct device *device = run->device;

    if (run->descriptor >= 0)
        close(run->descriptor);
    if (run->folder != NULL)
        free(run->folder);
    pthread_mutex_lock(&device->lock);
    assert(run->state == RUN_PREPARED || run->state == RUN_ENDED);
    assert(device->run_count > 0);
    registration_release(run->registration);
    if (!run->is_part)
        recycle_run(device, run);
    a32_sub_acq_rel(&callable->users, 1);
    device->run_count--;
    pthread_mutex_unlock(&device->lock);
    if (graph != NULL)
        /* Last access to the run: once the graph is released, its next launch may reuse the run. */
        host_graph_release(graph);
}

static void recycle_run(struct device *device, struct run *run)
{
    assert_held(&device->lock);
    if (device->spare == NULL) /* mutation: malloc-a-run */
        device->spare = run;
    else
        free(run);
}

/* Copies the caller's options to `out`, with defaults for those that are not set. */
static int read_options(const struct pto_run_options *given, const struct callable *callable,
                        struct pto_run_options *out, struct pto_error *error)
{
    pto_run_options_init(out);
    out->mode = callable->mode;
    if (given != NULL && sized_read(out, sizeof(*out), given) < 0)
        return error_setf(error, PTO_EINVAL,
                          "the options are not initialised with pto_run_options_init");
    out->error = NULL; /* the run does not need the caller's error struct */
    return PTO_OK;
}

static bool fits_its_buffer(const struct pto_tensor *t)
{
    if (t->ndims < 1 || t->ndims > PTO_MAX_DIMS || pto_dtype_size(t->dtype) == 0)
        return true; /* no error here: the submit that uses the invalid tensor reports it */
    return pto_tensor_end(t) <= t->size;
}

static int check_entry(const struct pto_entry *entry, struct pto_error *error)
{
    if (entry == NULL)
        return PTO_OK;
    if (entry->tensor_count > PTO_ENTRY_TENSORS_MAX)
        return error_setf(error, PTO_EINVAL, "the entry has %u tensors; there may be %d",
                          entry->tensor_count, PTO_ENTRY_TENSORS_MAX);
    if (entry->scalar_count > PTO_ENTRY_SCALARS_MAX)
        return error_setf(error, PTO_EINVAL, "the entry has %u scalars; there may be %d",
                          entry->scalar_count, PTO_ENTRY_SCALARS_MAX);
    if (entry->tensor_count != 0 && entry->tensor == NULL)
        return error_setf(error, PTO_EINVAL, "the entry has %u tensors, but their array is NULL",
                          entry->tensor_count);
    if (entry->scalar_count != 0 && entry->scalar == NULL)
        return error_setf(error, PTO_EINVAL, "the entry has %u scalars, but their array is NULL",
                          entry->scalar_count);
    for (uint32_t i = 0; i < entry->tensor_count; i++)
        if (!fits_its_buffer(&entry->tensor[i]))
            return error_setf(
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
            return error_setf(error, PTO_EINVAL, "%s of the options is %u; it may be 0 to %u",
                              choice[i].name, choice[i].value, choice[i].max);
    if (diagnostics_any(&options->diagnostics) &&
        (options->diagnostics.folder == NULL || options->diagnostics.folder[0] == '\0'))
        return error_setf(error, PTO_EINVAL,
                          "diagnostics are requested, but `folder` is NULL; set it to the folder "
                          "for their files");
    if (options->trace_records > TRACE_RECORDS_MAX ||
        (options->trace_records & (options->trace_records - 1)) != 0)
        return error_setf(error, PTO_EINVAL,
                          "trace_records of the options is %u; it must be a power of two, at most "
                          "%u",
                          options->trace_records, TRACE_RECORDS_MAX);
    return PTO_OK;
}

/*
 * Sets the dependency rules if the options of the run do not: from PTO_DEPS, else from the
 * callable.
 */
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

/*
 * Marks the elements after the entry's last tensor as absent, so that a submit that uses one is
 * refused.
 */
static void mark_absent(struct run *run)
{
    for (uint32_t i = run->entry.tensor_count; i < PTO_ENTRY_TENSORS_MAX - run->absent; i++)
        run->tensor[i] = pto_tensor_absent(i);
    run->absent = PTO_ENTRY_TENSORS_MAX - run->entry.tensor_count;
}

static void run_copy_entry(struct run *run, const struct pto_entry *entry)
{
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
}

/* Counts the run as one of the device's runs. Fails if the device is lost or is being closed. */
static int run_admit(struct run *run, struct pto_error *error)
{
    struct device *device = run->device;
    const char *loss;
    int status = PTO_OK;

    pthread_mutex_lock(&device->lock);
    loss = device->loss;
    if (device->is_closing)
        status = PTO_EINVAL;
    else if (loss != NULL)
        status = PTO_ELOST;
    else
        device->run_count++;
    if (status < 0) {
        registration_release(run->registration);
        free(run->folder);
    }
    pthread_mutex_unlock(&device->lock);
    if (status < 0)
        return error_setf(error, status, "%s", status == PTO_ELOST ? loss : pto_strerror(status));
    /*
     * Relaxed: the thread that destroys the callable loads the count, after the decrement of this
     * run's release.
     */
    a32_add_relaxed(&run->callable->users, 1);
    return PTO_OK;
}

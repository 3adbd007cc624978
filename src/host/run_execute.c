/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes a run whose turn has come: stages its tensors, runs it on the chip and stores its
 * result.
 */
#include "host/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/diagnostics.h"
#include "host/limits.h"
#include "host/error_text.h"

enum { TRACE_RECORDS_DEFAULT = 1 << 22 };

static bool resolve_rings(struct run *run);
static const char *find_unsupported(const struct run *run);
static const struct chip_result *run_start_and_wait(struct run *run, bool has_rings);
static void take_result(struct run *run, const struct chip_result *result);
static void write_diagnostics(struct run *run);
static void keep_names(struct run *run);

void run_execute(struct run *run)
{
    const char *unsupported = find_unsupported(run);
    const struct chip_result *result = NULL;
    bool has_rings;

    /* an earlier run in the queue lost the device; its failure report is kept */
    if (run->loss != NULL) {
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
        result = run_start_and_wait(run, has_rings);
    if (run->loss != NULL)
        return;
    if (result != NULL)
        take_result(run, result);
    if (run->status >= 0)
        staging_end(run);
    if (result != NULL && run->folder != NULL)
        write_diagnostics(run);
    failure_report_write(&run->device->last_failure, result, run->callable, &run->report.error);
}

/*
 * Returns a message about an option, or a callable, that the chip does not support; NULL: it
 * supports them.
 */
static const char *find_unsupported(const struct run *run)
{
    const struct chip_properties *can = chip_properties(run->device->chip);
    const struct pto_run_options *options = &run->options;
    const char *uncallable = register_unsupported(run->device, run->callable);

    if (uncallable != NULL)
        return uncallable;
    if ((options->edge != NULL || options->task != NULL || options->step != NULL) &&
        !can->has_observers)
        return "the device cannot call `edge`, `task` and `step` of the options; leave them NULL";
    if (options->has_nan_check && !can->has_nan_check)
        return "the device does not look for NaN; do without `has_nan_check`, or use a simulated "
               "chip without virtual time";
    if (run->purpose != CHIP_RUN && !can->has_graphs)
        return "the device does not support graphs; run the callable";
    if (options->trace != PTO_TRACE_OFF && !can->has_recorder)
        return "the device has no recorder; do without `trace` and `diagnostics`";
    if (options->trace == PTO_TRACE_ARGUMENTS && !can->records_tasks)
        return "the device records the times of tasks, not their arguments; do without "
               "PTO_TRACE_ARGUMENTS and `diagnostics`";
    if (options->has_guards && !can->has_guards)
        return "the device has no guards; do without `has_guards`";
    return NULL;
}

/* Resolves the ring sizes from options and environment. Returns whether at least one is set. */
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

/* Records that the chip has started the run, or refused it, so the next run may start. */
static void run_note_started(struct run *run)
{
    struct device *device = run->device;

    pthread_mutex_lock(&device->lock);
    run->is_on_chip = true;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
}

/*
 * Starts the run on the chip. If the chip cannot take it during the previous run, waits for the end
 * of that run first.
 */
static int start_on_chip(struct run *run, const struct chip_request *request)
{
    struct chip *chip = run->device->chip;
    int status = chip_start(chip, request);

    if (!chip_properties(chip)->takes_next)
        return status;
    /* the chip cannot take this run while the previous one is executing */
    if (status == PTO_EAGAIN) {
        run_await_turn_to_end(run);
        status = chip_start(chip, request);
    }
    run_note_started(run);
    run_await_turn_to_end(run);
    return status;
}

/* Called in a forked child when the process ends during a run: writes the timeline. */
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

/*
 * Starts the staged run and waits for its end. Returns NULL if the chip refused the run, or if an
 * earlier run lost the chip.
 */
static const struct chip_result *run_start_and_wait(struct run *run, bool has_rings)
{
    struct chip *chip = run->device->chip;
    const struct chip_request request = {
        .number = run->number,
        .purpose = run->purpose,
        .code = run->registration != NULL ? run->registration->code : NULL,
        .functions = run->registration != NULL ? NULL : &run->callable->functions,
        .graph = run->graph != NULL ? host_graph_of(run->graph) : NULL,
        .entry = &run->entry,
        .kernel_name = run->callable->kernel_name,
        .kernel_name_count = run->callable->kernel_count,
        .options = &run->options,
        .has_rings = has_rings,
        .stall_ns = run->stall_ns,
        .launch_deadline_ns = run->launch_deadline_ns,
        .on_crash = run->options.trace_path != NULL ? leave_timeline : NULL,
        .on_crash_context = run,
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

/*
 * Stores the chip's result in the run: its status, error, built graph, and whether the device is
 * lost.
 */
static void take_result(struct run *run, const struct chip_result *result)
{
    if (result->failure.status < 0 && run->status >= 0) {
        run->status = result->failure.status;
        error_text_write(result, run->callable, &run->report.error);
    }
    if (run->purpose == CHIP_BUILD)
        host_graph_keep(run->graph, result->graph);
    if (result->is_lost && chip_properties(run->device->chip)->shares_memory)
        /*
         * Relaxed: the run still counts as a user of the callable, and only after that count drops
         * may another thread free the callable and its code.
         */
        a32_store_relaxed(&run->callable->is_pinned, 1);
    run->loss = result->is_lost ? error_text_loss(result) : NULL;
    /* the chip's own text about a failed card says more than error_text_loss */
    if (result->is_lost && result->failure.kind == FAILURE_CARD) {
        static const char lost[] = "the device is lost: ";
        const char *text = result->failure.text;

        snprintf(run->device->loss_text, sizeof(run->device->loss_text), "%s%s",
                 strncmp(text, lost, strlen(lost)) == 0 ? "" : lost, text);
        run->loss = run->device->loss_text;
    }
    if (run->loss != NULL && run->status >= 0) /* fail the run, because its outputs may be wrong */
        run_fail(run, PTO_ELOST, "%s", run->loss);
    if (run->options.trace != PTO_TRACE_OFF)
        keep_names(run);
}

/* Writes the diagnostics that the options requested, as the last step of a run. */
static void write_diagnostics(struct run *run)
{
    struct pto_error error;
    int status;

    pto_error_init(&error);
    status = diagnostics_write(run->device, run->folder, &error);
    if (status < 0 && run->status >= 0)
        run_fail(run, status, "the run succeeded, but its diagnostics could not be written: %s",
                 error.text);
}

/*
 * Copies the names and options that the timeline needs in addition to the chip's record, because
 * the callable may be destroyed before it is written.
 */
static void keep_names(struct run *run)
{
    struct trace_names *trace = &run->device->trace;
    const char *title = run->options.trace_title;
    uint32_t count = run->callable->kernel_count;
    size_t bytes = title != NULL ? strlen(title) + 1 : 0;
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
    trace->title =
        title != NULL && trace->kernel_name != NULL ? memcpy(text, title, strlen(title) + 1) : NULL;
}

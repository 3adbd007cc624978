/* SPDX-License-Identifier: Apache-2.0 */
/* A run whose turn has come: its tensors are staged, the chip runs it, and what came of it is kept. */
#include "host/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/diagnostics.h"
#include "host/limits.h"
#include "host/sentences.h"

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
        result = run_start_and_wait(run, has_rings);
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
        run_await_turn_to_end(run);
        status = chip_start(chip, request);
    }
    tell_started(run);
    run_await_turn_to_end(run);
    return status;
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

/*
 * Everything is in place: starts the run and sees it through. NULL: the chip did not take it, or was
 * lost by the run before.
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of a worker, in phases:
 *
 *     prepare -> launch -> poll, wait -> finalize
 *        \------------------------------/   abandoned
 *
 * A device has one run at a time, from its preparation until it is finalized. The memory of a run
 * belongs to the caller: if it is not zero, it holds a run, or was never cleared.
 *
 * Spans:  chip.run                                    prepare to finalize
 *           chip.run.bind                             arguments copied
 *           chip.run.runner_run                       launch to the end
 *             chip.run.runner_run.device_wall         first submit to last completion
 *               ...device_wall.task_slot_N            tasks with that timing slot
 *           chip.run.validate                         results copied back
 */
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compat/hostlib/hostlib.h"

#define RUN_MAGIC 0x6e75722d6f747000ull /* "\0pto-run" */

enum { PMU_PIPES = 2 }; /* group of counters that is used if the requested number is unknown */

static const char *find_fault(const struct worker_device *d, const struct worker_run *run,
                              int32_t id, const struct worker_config *config,
                              const struct worker_ticket *ticket);
static bool claim_device(struct worker_run *run);
static int bind_run(struct worker_run *run, int32_t id, const struct worker_args *args,
                    const struct worker_config *config);
static struct worker_run *hostlib_run_of(const struct worker_device *d, struct worker_run *run,
                                         const char *function);
static void hostlib_release_run(struct worker_run *run);
static void trace_runner_end(struct worker_run *run);
static void trace_device_time(const struct worker_run *run, const struct pto_run_report *report);

size_t get_runtime_size(void)
{
    return sizeof(struct worker_run);
}

size_t get_runtime_alignment(void)
{
    return alignof(struct worker_run);
}

/* ---- the phases ---- */

int simpler_prepare_run(struct worker_device *d, struct worker_run *run, int32_t id,
                        const struct worker_args *args, const struct worker_config *config,
                        const struct worker_ticket *ticket)
{
    static uint64_t invocations; /* runs launched in this process */
    const char *fault;
    int status;

    if (d == NULL || run == NULL || config == NULL || ticket == NULL)
        return WORKER_FAILED;
    fault = find_fault(d, run, id, config, ticket);
    if (fault != NULL) {
        LOG(PTO_LOG_ERROR, "callable %d cannot be prepared: %s", id, fault);
        return WORKER_FAILED;
    }
    memset(run, 0, sizeof(*run));
    run->device = d;
    run->ticket = *ticket;
    run->begin_ns = hostlib_now_ns();
    if (!claim_device(run)) {
        LOG(PTO_LOG_ERROR,
            "callable %d cannot be prepared: another run of the device is prepared; finalize that "
            "run first",
            id);
        return WORKER_FAILED;
    }
    memcpy(&run->hid, d->callable[id].digest, sizeof(run->hid));
    run->invocation = __atomic_add_fetch(&invocations, 1, __ATOMIC_RELAXED);
    status = bind_run(run, id, args, config);
    hostlib_span(run, "chip.run.bind", 1, run->begin_ns, hostlib_now_ns() - run->begin_ns, "");
    if (status < 0)
        hostlib_release_run(run);
    else
        run->magic = RUN_MAGIC;
    return status;
}

int simpler_launch_run(struct worker_device *d, struct worker_run *given)
{
    struct worker_run *run = hostlib_run_of(d, given, __func__);
    int status;

    if (run == NULL || run->phase != RUN_PREPARED)
        return WORKER_FAILED;
    LOG(PTO_LOG_INFO, "AicpuExecutor: Initializing (the engine of pto-runtime %s)", pto_version());
    run->launch_ns = hostlib_now_ns();
    status = pto_run_launch(run->run);
    if (status < 0) {
        LOG(PTO_LOG_ERROR, "the run cannot be launched: %s", pto_strerror(status));
        run->phase = RUN_ENDED;
        run->status = status;
        trace_runner_end(run);
        return status;
    }
    run->phase = RUN_LAUNCHED;
    /* Release: a thread that reads this value sees a launched run. */
    if (run->ticket.accepted != NULL)
        __atomic_store_n(run->ticket.accepted, run->ticket.accepted_value, __ATOMIC_RELEASE);
    return 0;
}

int simpler_poll_run(struct worker_device *d, struct worker_run *given)
{
    struct worker_run *run = hostlib_run_of(d, given, __func__);

    if (run == NULL || run->phase == RUN_PREPARED)
        return WORKER_RUN_FAULTY;
    if (run->phase == RUN_ENDED)
        return WORKER_RUN_ENDED;
    switch (pto_run_poll(run->run)) {
    case PTO_RUN_PENDING:
        return WORKER_RUN_PENDING;
    case PTO_RUN_ENDED:
        return WORKER_RUN_ENDED;
    default:
        return WORKER_RUN_FAULTY;
    }
}

/* Waits without a deadline, because the engine's deadlines end a stalled run. */
int simpler_wait_run(struct worker_device *d, struct worker_run *given)
{
    struct worker_run *run = hostlib_run_of(d, given, __func__);

    if (run == NULL || run->phase == RUN_PREPARED)
        return WORKER_FAILED;
    if (run->phase == RUN_LAUNCHED) {
        run->status = pto_run_wait(run->run, UINT64_MAX);
        run->phase = RUN_ENDED;
        trace_runner_end(run);
    }
    return run->status;
}

int simpler_finalize_run(struct worker_device *d, struct worker_run *given)
{
    struct worker_run *run = hostlib_run_of(d, given, __func__);
    struct pto_run_report report;
    bool was_launched;
    int64_t begin_ns;
    int status;

    if (run == NULL)
        return WORKER_FAILED;
    was_launched = run->phase != RUN_PREPARED;
    if (run->phase == RUN_LAUNCHED)
        (void)simpler_wait_run(d, run);
    begin_ns = hostlib_now_ns();
    pto_run_report_init(&report);
    status = pto_run_finish(run->run, &report);
    if (!was_launched)
        status = 0; /* the caller has cancelled the run, so this is not a failure */
    else if (status < 0)
        hostlib_log_failure(status, &report.error);
    else
        status = hostlib_unstage(run);
    hostlib_span(run, "chip.run.validate", 1, begin_ns, hostlib_now_ns() - begin_ns, "");
    if (was_launched && status >= 0)
        trace_device_time(run, &report);
    hostlib_release_run(run);
    return status;
}

int simpler_run(struct worker_device *d, struct worker_run *run, int32_t id,
                const struct worker_args *args, const struct worker_config *config,
                const struct worker_ticket *ticket)
{
    int status = simpler_prepare_run(d, run, id, args, config, ticket), end;

    if (status < 0)
        return status;
    status = simpler_launch_run(d, run);
    if (status >= 0)
        status = simpler_wait_run(d, run);
    end = simpler_finalize_run(d, run);
    return end < 0 ? end : status;
}

/* ---- helpers ---- */

static bool wants_diagnostics(const struct worker_config *config)
{
    return config->swimlane != 0 || config->dump_args != 0 || config->pmu != 0 ||
           config->dep_gen != 0 || config->scope_stats != 0;
}

/* Returns what is wrong with a call of simpler_prepare_run; NULL: nothing. */
static const char *find_fault(const struct worker_device *d, const struct worker_run *run,
                              int32_t id, const struct worker_config *config,
                              const struct worker_ticket *ticket)
{
    if (d->device == NULL)
        return "the device is not open";
    if (ticket->slot >= WORKER_SLOTS || ticket->bank >= WORKER_SLOTS)
        return "there are two slots and two banks, 0 and 1";
    if ((uintptr_t)run % alignof(struct worker_run) != 0)
        return "the memory of the run is not aligned; get_runtime_alignment returns the alignment";
    if (run->magic == RUN_MAGIC)
        return "the memory has a run that was prepared: finalize that run first";
    if (run->magic != 0)
        return "the memory of a run must be zero before it is first used";
    if (id < 0 || id >= WORKER_CALLABLES_MAX || d->callable[id].callable == NULL)
        return "it is not registered";
    if (config->aicpu_threads < 0 || config->aicpu_threads == 1 ||
        config->aicpu_threads > hostlib_variant.threads_max)
        return "aicpu_thread_num must be 0 (the platform's default), or from 2 to the platform's "
               "maximum";
    if (wants_diagnostics(config) && config->output_prefix[0] == '\0')
        return "diagnostics need an output_prefix, the folder for their files";
    return NULL;
}

/* Makes this the only run of the device, and locks its callables against changes. */
static bool claim_device(struct worker_run *run)
{
    struct worker_device *d = run->device;
    bool is_free;

    pthread_mutex_lock(&d->lock);
    is_free = d->active == NULL;
    if (is_free)
        d->active = run;
    pthread_mutex_unlock(&d->lock);
    return is_free;
}

/*
 * Selects the diagnostics of a run. A variable in the environment overrides the caller's choice of
 * counters.
 */
static void ask_diagnostics(struct worker_run *run, const struct worker_config *config,
                            struct pto_diagnostics *wanted)
{
    const char *events = getenv("SIMPLER_PMU_EVENT_TYPE");
    int pmu = config->pmu != 0 && events != NULL ? atoi(events) : config->pmu;

    if (config->pmu != 0 && (pmu <= 0 || pmu > UINT8_MAX))
        pmu = PMU_PIPES;

    snprintf(run->folder, sizeof(run->folder), "%.*s", (int)sizeof(run->folder) - 1,
             config->output_prefix);
    wanted->folder = run->folder;
    wanted->swimlane = (uint8_t)config->swimlane;
    wanted->args = (uint8_t)config->dump_args;
    wanted->pmu = (uint8_t)pmu;
    wanted->has_deps = config->dep_gen != 0;
    wanted->has_scopes = config->scope_stats != 0;
}

/* Applies the caller's ring sizes; a size of 0 is unlimited. */
static int bind_run(struct worker_run *run, int32_t id, const struct worker_args *args,
                    const struct worker_config *config)
{
    struct worker_device *d = run->device;
    struct pto_tensor *tensor;
    struct pto_run_options options;
    struct pto_entry entry;
    struct pto_error error;
    int status;

    if (args != NULL && ((uint32_t)args->tensor_count > PTO_ENTRY_TENSORS_MAX ||
                         (uint32_t)args->scalar_count > PTO_ENTRY_SCALARS_MAX)) {
        LOG(PTO_LOG_ERROR, "there are %d tensors and %d scalars; the limits are %d and %d",
            args->tensor_count, args->scalar_count, PTO_ENTRY_TENSORS_MAX, PTO_ENTRY_SCALARS_MAX);
        return WORKER_FAILED;
    }
    tensor = aligned_alloc(alignof(struct pto_tensor), PTO_ENTRY_TENSORS_MAX * sizeof(*tensor));
    if (tensor == NULL)
        return PTO_ENOMEM;
    status = hostlib_stage(run, &d->callable[id], args, tensor, &entry);
    if (status >= 0) {
        pto_error_init(&error);
        pto_run_options_init(&options);
        options.mode = hostlib_variant.mode;
        options.rings = config->rings;
        if (wants_diagnostics(config))
            ask_diagnostics(run, config, &options.diagnostics);
        options.error = &error;
        status = pto_run_prepare(d->device, d->callable[id].callable, &entry, &options, &run->run);
        if (status < 0)
            LOG(PTO_LOG_ERROR, "callable %d cannot be prepared: %s", id, error.text);
    }
    free(tensor);
    return status;
}

/* Returns the run in the caller's memory; NULL if it holds no run of this device. */
static struct worker_run *hostlib_run_of(const struct worker_device *d, struct worker_run *run,
                                         const char *function)
{
    const char *fault = NULL;

    if (d == NULL || run == NULL)
        return NULL;
    if (run->magic != RUN_MAGIC)
        fault = "there is no run in this memory: it was never prepared, or is finalized";
    else if (run->device != d)
        fault = "the run belongs to another device";
    if (fault != NULL)
        hostlib_log(PTO_LOG_ERROR, function, "%s", fault);
    return fault == NULL ? run : NULL;
}

/* Ends the run and clears its memory for reuse. */
static void hostlib_release_run(struct worker_run *run)
{
    struct worker_device *d = run->device;

    pthread_mutex_lock(&d->lock);
    d->active = NULL;
    pthread_mutex_unlock(&d->lock);
    run->magic = 0;
    hostlib_span(run, "chip.run", 0, run->begin_ns, hostlib_now_ns() - run->begin_ns, "");
}

static void trace_runner_end(struct worker_run *run)
{
    hostlib_span(run, "chip.run.runner_run", 1, run->launch_ns, hostlib_now_ns() - run->launch_ns,
                 "");
}

/* Prints spans on the device's clock, which starts with the run. */
static void trace_device_time(const struct worker_run *run, const struct pto_run_report *report)
{
    const char *wanted = getenv("SIMPLER_DEVICE_STRACE_ENABLE");
    char name[64];

    if (wanted != NULL && strcmp(wanted, "0") == 0)
        return;
    hostlib_span(run, "chip.run.runner_run.device_wall", 2, 0,
                 report->ns != 0 ? (int64_t)report->ns : 1, "clk=dev");
    for (uint32_t i = 0; i < PTO_TIMING_SLOTS; i++) {
        const struct pto_timing *timing = &report->timing[i];

        if (timing->end_ns <= timing->begin_ns)
            continue;
        snprintf(name, sizeof(name), "chip.run.runner_run.device_wall.task_slot_%u", i);
        hostlib_span(run, name, 3, (int64_t)timing->begin_ns,
                     (int64_t)(timing->end_ns - timing->begin_ns), "clk=dev");
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code and runs of an isolated chip. A run is one request, answered when it has ended. In the
 * meantime the host checks every second that the program makes progress, so a program that is
 * stopped, or whose locks a kernel has damaged, also ends the run.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/os.h"
#include "sim/isolated.h"

static int isolated_load(struct chip *chip, const struct chip_program *program,
                         struct chip_code **code_out, struct pto_error *error);
static void isolated_unload(struct chip *chip, struct chip_code *code);
static int isolated_start(struct chip *chip, const struct chip_request *request);
static void isolated_wait(struct chip *chip);
static const struct chip_result *isolated_report(struct chip *chip, struct pto_run_report *report);
static int isolated_poll(struct chip *chip);
static void isolated_cancel(struct chip *chip, uint64_t number);
static uint64_t isolated_progress(struct chip *chip);
static void isolated_drop(struct chip *chip, struct chip_graph *graph);

const struct chip_run_ops sim_isolated_run_ops = {
    .load = isolated_load,
    .unload = isolated_unload,
    .start = isolated_start,
    .wait = isolated_wait,
    .report = isolated_report,
    .poll = isolated_poll,
    .cancel = isolated_cancel,
    .progress = isolated_progress,
    .drop = isolated_drop,
    .record = sim_isolated_record,
};

static int isolated_ask(struct isolated *iso, struct isolated_channel *c, struct record_head head,
                        uint64_t *value_out)
{
    int status;

    pthread_mutex_lock(&c->lock);
    status = sim_isolated_call(iso, c, head, value_out);
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* ---- code ---- */

static void isolated_put_object(struct payload *out, const struct chip_object *object)
{
    uint64_t size = object->size;

    payload_put_text(out, object->name);
    payload_put(out, &size, sizeof(size));
    payload_put(out, object->bytes, object->size);
}

/* Encodes a program that is to be loaded; isolated_serve.c decodes it. */
static void isolated_put_program(struct payload *out, const struct chip_program *program)
{
    uint64_t count = program->kernel_count;

    payload_clear(out);
    payload_put_text(out, program->name);
    payload_put_text(out, program->entry);
    payload_put_text(out, program->config);
    isolated_put_object(out, &program->orchestration);
    payload_put(out, &count, sizeof(count));
    for (uint32_t i = 0; i < program->kernel_count; i++) {
        const struct chip_kernel *kernel = &program->kernels[i];
        const uint32_t ids[2] = { kernel->func_id, kernel->core_type };

        payload_put(out, ids, sizeof(ids));
        isolated_put_object(out, &kernel->object);
    }
}

static int isolated_load(struct chip *chip, const struct chip_program *program,
                         struct chip_code **code_out, struct pto_error *error)
{
    struct isolated *iso = isolated_of(chip);
    struct isolated_channel *c = &iso->side;
    uint64_t value = 0;
    int status;

    pthread_mutex_lock(&c->lock);
    isolated_put_program(&c->out, program);
    status = sim_isolated_call(iso, c, (struct record_head){ .kind = ISOLATED_LOAD }, &value);
    if (status == PTO_EPEER)
        status = sim_isolated_error_gone(iso, error);
    else if (status < 0)
        status = sim_isolated_error_set(c, status, error);
    /*
     * free the payload now and not with the chip, because objects are large and are sent only once
     */
    payload_free(&c->out);
    pthread_mutex_unlock(&c->lock);
    if (status >= 0)
        *code_out = (struct chip_code *)(uintptr_t)value;
    return status;
}

/* Does nothing in a forked child, which must not use the channel. */
static void isolated_unload(struct chip *chip, struct chip_code *code)
{
    struct isolated *iso = isolated_of(chip);

    if (sim_isolated_is_ours(iso))
        (void)isolated_ask(
            iso, &iso->side,
            (struct record_head){ .kind = ISOLATED_UNLOAD, .value = (uint64_t)(uintptr_t)code },
            NULL);
}

/* ---- start ---- */

static bool isolated_is_end_reported(struct isolated *iso)
{
    bool is_reported;

    pthread_mutex_lock(&iso->end_lock);
    is_reported = iso->is_end_reported;
    pthread_mutex_unlock(&iso->end_lock);
    return is_reported;
}

/* ---- starting a run ---- */
static int isolated_start(struct chip *chip, const struct chip_request *request)
{
    struct isolated *iso = isolated_of(chip);
    struct isolated_limits limits = { .iso = iso, .seconds = ISOLATED_ANSWER_SECONDS };
    const struct payload_wait wait = { sim_isolated_await, &limits };
    struct isolated_channel *c = &iso->run;
    struct run_message run = chip_message_of(request);
    int status = PTO_OK, sent = PTO_OK;

    if (iso->is_lost || isolated_is_end_reported(iso))
        return PTO_ELOST;
    iso->deadline_ns = chip_time_of(request).deadline_ns;
    if (iso->deadline_ns == UINT64_MAX)
        iso->deadline_ns = 0;
    iso->grace_ns =
        request->options->grace_ns != 0 ? request->options->grace_ns : PTO_GRACE_DEFAULT_NS;
    pthread_mutex_lock(&c->lock);
    payload_clear(&c->out);
    payload_put(&c->out, &run, sizeof(run));
    payload_put(&c->out, request->entry->tensor, run.tensor_count * sizeof(struct pto_tensor));
    payload_put(&c->out, request->entry->scalar, run.scalar_count * sizeof(uint64_t));
    if (c->out.is_short)
        status = PTO_ENOMEM;
    else
        /*
         * If the child process has ended, reports that as the failure of the next run, as if it had
         * happened during this run.
         */
        a32_store_relaxed(&iso->has_ended, 0);
    if (status >= 0 && request->options->trace != PTO_TRACE_OFF)
        iso->traced = request->number;
    if (status >= 0 && !isolated_is_gone(iso))
        sent = payload_send(c->line, (struct record_head){ .kind = ISOLATED_RUN, .key = ++c->key },
                            &c->out, &wait);
    if (sent < 0)
        sim_isolated_mark_dead_for(iso, sent, &limits);
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* ---- waiting for a run ---- */

static bool isolated_take_answer(struct isolated *iso);
static void isolated_end_with_chip(struct isolated *iso);

/* Whether the time of the run is over, including the grace and a margin. */
static bool isolated_is_overdue(const struct isolated *iso)
{
    uint64_t late_ns = os_now_ns() - iso->deadline_ns;

    return iso->deadline_ns != 0 && (int64_t)late_ns > 0 && late_ns > iso->grace_ns &&
           late_ns - iso->grace_ns > ISOLATED_LATE_SECONDS * 1000000000ull;
}

/*
 * Asks the process on the side channel whether its run makes progress. If another thread holds that
 * channel, the other thread waits for an answer, and notices if there is none.
 */
static void isolated_check_progress(struct isolated *iso)
{
    if (pthread_mutex_trylock(&iso->side.lock) != 0)
        return;
    iso->side.is_late = isolated_is_overdue(iso);
    iso->side.deadline_ns = iso->deadline_ns;
    (void)sim_isolated_call(iso, &iso->side, (struct record_head){ .kind = ISOLATED_PROGRESS },
                            NULL);
    iso->side.is_late = false;
    iso->side.deadline_ns = 0;
    pthread_mutex_unlock(&iso->side.lock);
}

static void isolated_wait(struct chip *chip)
{
    struct isolated *iso = isolated_of(chip);
    struct isolated_limits tick = {
        .iso = iso, .seconds = 1, .looks = true, .deadline_ns = iso->deadline_ns
    };
    int status = PTO_ETIMEOUT;

    pthread_mutex_lock(&iso->run.lock);
    while (!isolated_is_gone(iso) && status == PTO_ETIMEOUT) {
        status = sim_isolated_await(&tick, iso->run.line, false);
        if (status == PTO_ETIMEOUT)
            isolated_check_progress(iso);
    }
    if (status == PTO_ECANCELED)
        sim_isolated_mark_dead(iso, PEER_STOPPED, 0);
    if (!isolated_is_gone(iso) && !isolated_take_answer(iso))
        sim_isolated_mark_dead(iso, PEER_BROKEN, 0);
    if (isolated_is_gone(iso))
        isolated_end_with_chip(iso);
    pthread_mutex_unlock(&iso->run.lock);
    /* release: publishes the run's result to threads that poll */
    a32_store_release(&iso->has_ended, 1);
}

/*
 * Takes the result of the run, when the child process has sent a record or has ended. Returns false
 * if the record is invalid.
 */
static bool isolated_take_answer(struct isolated *iso)
{
    struct isolated_limits limits = { .iso = iso, .seconds = ISOLATED_ANSWER_SECONDS };
    const struct payload_wait wait = { sim_isolated_await, &limits };
    struct isolated_channel *c = &iso->run;
    struct run_ended ended;
    struct record_head head;
    int status = payload_receive(c->line, &head, &c->in, &wait);

    if (status < 0) {
        sim_isolated_mark_dead_for(iso, status, &limits);
        return true;
    }
    if (head.kind != ISOLATED_RUN || head.key != c->key)
        return false;
    payload_take_to(&c->in, &ended, sizeof(ended));
    if (c->in.is_short || !run_ended_check(&ended))
        return false;
    iso->result = (struct chip_result){ .failure = ended.failure,
                                        .stall = ended.stall,
                                        .trace = ended.trace,
                                        .is_lost = ended.is_lost != 0,
                                        .is_builder_lost = ended.is_builder_lost != 0,
                                        .is_kernel_lost = ended.is_kernel_lost != 0,
                                        .graph = (struct chip_graph *)(uintptr_t)ended.graph };
    iso->report = ended.report;
    iso->result.failure.site.file = sim_isolated_intern(iso, payload_take_text(&c->in));
    for (uint32_t i = 0; i < ended.stall.count; i++)
        iso->result.stall.task[i].site.file = sim_isolated_intern(iso, payload_take_text(&c->in));
    iso->is_lost = iso->result.is_lost;
    return true;
}

static void isolated_end_with_chip(struct isolated *iso)
{
    /* waits for a thread that has begun to mark the process as dead */
    pthread_mutex_lock(&iso->end_lock);
    iso->result = (struct chip_result){ .failure = iso->end,
                                        .stall = iso->end_kernels,
                                        .trace = { .lines = iso->end_lines },
                                        .is_lost = true };
    iso->is_end_reported = true;
    if (iso->deadline_ns != 0 && iso->end_ns >= iso->deadline_ns &&
        (iso->end.value[0] == PEER_STOPPED || iso->end.value[0] == PEER_SILENT))
        /* the process did not answer, and the run's deadline has passed */
        iso->result.failure.status = PTO_ETIMEOUT;
    pthread_mutex_unlock(&iso->end_lock);
    memset(&iso->report, 0, sizeof(iso->report));
    iso->report.workers = iso->base.properties.workers;
    iso->report.core_count = iso->base.properties.aic_count + iso->base.properties.aiv_count;
}

static const struct chip_result *isolated_report(struct chip *chip, struct pto_run_report *report)
{
    struct isolated *iso = isolated_of(chip);

    /* set the fields that the host fills in; the child process does not have their values */
    iso->report.size = report->size;
    iso->report.warning = report->warning;
    iso->report.error = report->error;
    *report = iso->report;
    return &iso->result;
}

/* ---- operations that any thread may call ---- */

static int isolated_poll(struct chip *chip)
{
    return a32_load_acquire(&isolated_of(chip)->has_ended) != 0 ? PTO_RUN_ENDED : PTO_RUN_PENDING;
}

static void isolated_cancel(struct chip *chip, uint64_t number)
{
    struct isolated *iso = isolated_of(chip);

    (void)isolated_ask(iso, &iso->side,
                       (struct record_head){ .kind = ISOLATED_CANCEL, .value = number }, NULL);
}

static uint64_t isolated_progress(struct chip *chip)
{
    struct isolated *iso = isolated_of(chip);
    uint64_t value = 0;

    (void)isolated_ask(iso, &iso->side, (struct record_head){ .kind = ISOLATED_PROGRESS }, &value);
    return value;
}

static void isolated_drop(struct chip *chip, struct chip_graph *graph)
{
    struct isolated *iso = isolated_of(chip);

    if (sim_isolated_is_ours(iso))
        (void)isolated_ask(
            iso, &iso->side,
            (struct record_head){ .kind = ISOLATED_DROP, .value = (uint64_t)(uintptr_t)graph },
            NULL);
}

/* ---- names of source files ---- */

const char *sim_isolated_intern(struct isolated *iso, const char *text)
{
    struct isolated_name *name;

    if (text == NULL)
        return NULL;
    pthread_mutex_lock(&iso->name_lock);
    for (name = iso->names; name != NULL; name = name->next)
        if (strcmp(name->text, text) == 0)
            break;
    if (name == NULL) {
        name = malloc(sizeof(*name) + strlen(text) + 1);
        if (name != NULL) {
            strcpy(name->text, text);
            name->next = iso->names;
            iso->names = name;
        }
    }
    pthread_mutex_unlock(&iso->name_lock);
    return name != NULL ? name->text : NULL;
}

void sim_isolated_forget_runs(struct isolated *iso)
{
    sim_isolated_forget_record(iso);
    while (iso->names != NULL) {
        struct isolated_name *name = iso->names;

        iso->names = name->next;
        free(name);
    }
}

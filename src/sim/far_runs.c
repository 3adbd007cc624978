/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code and runs of an isolated chip. A run is one request, whose answer comes when it
 * has ended; meanwhile the program is asked every second whether it still moves, so that
 * one that is stopped, or whose locks a kernel has damaged, ends the run, too.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/os.h"
#include "sim/far.h"

static int far_load(struct chip *chip, const struct chip_program *program,
                    struct chip_code **code_out, struct pto_error *error);
static void far_unload(struct chip *chip, struct chip_code *code);
static int far_start(struct chip *chip, const struct chip_request *request);
static void far_wait(struct chip *chip);
static const struct chip_result *far_report(struct chip *chip, struct pto_run_report *report);
static int far_poll(struct chip *chip);
static void far_cancel(struct chip *chip, uint64_t number);
static uint64_t far_progress(struct chip *chip);
static void far_drop(struct chip *chip, struct chip_graph *graph);

const struct chip_run_ops sim_far_run_ops = {
    .load = far_load,
    .unload = far_unload,
    .start = far_start,
    .wait = far_wait,
    .report = far_report,
    .poll = far_poll,
    .cancel = far_cancel,
    .progress = far_progress,
    .drop = far_drop,
    .record = sim_far_record,
};

static int ask(struct far *f, struct far_channel *c, struct record_head head, uint64_t *value_out)
{
    int status;

    pthread_mutex_lock(&c->lock);
    status = sim_far_call(f, c, head, value_out);
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* ---- code ---- */

static void put_object(struct payload *out, const struct chip_object *object)
{
    uint64_t size = object->size;

    payload_put_text(out, object->name);
    payload_put(out, &size, sizeof(size));
    payload_put(out, object->bytes, object->size);
}

/* As far_chip.c takes it. */
static void put_program(struct payload *out, const struct chip_program *program)
{
    uint64_t count = program->kernel_count;

    payload_clear(out);
    payload_put_text(out, program->name);
    payload_put_text(out, program->entry);
    payload_put_text(out, program->config);
    put_object(out, &program->orchestration);
    payload_put(out, &count, sizeof(count));
    for (uint32_t i = 0; i < program->kernel_count; i++) {
        const struct chip_kernel *kernel = &program->kernels[i];
        const uint32_t ids[2] = { kernel->func_id, kernel->core_type };

        payload_put(out, ids, sizeof(ids));
        put_object(out, &kernel->object);
    }
}

static int far_load(struct chip *chip, const struct chip_program *program,
                    struct chip_code **code_out, struct pto_error *error)
{
    struct far *f = far_of(chip);
    struct far_channel *c = &f->side;
    uint64_t value = 0;
    int status;

    pthread_mutex_lock(&c->lock);
    put_program(&c->out, program);
    status = sim_far_call(f, c, (struct record_head){ .kind = FAR_LOAD }, &value);
    if (status == PTO_EPEER)
        status = sim_far_tell_gone(f, error);
    else if (status < 0)
        status = sim_far_tell(c, status, error);
    payload_free(&c->out); /* objects are large, and come once */
    pthread_mutex_unlock(&c->lock);
    if (status >= 0)
        *code_out = (struct chip_code *)(uintptr_t)value;
    return status;
}

/* In a child of the opener's, which has no part in the conversation, there is nothing to do. */
static void far_unload(struct chip *chip, struct chip_code *code)
{
    struct far *f = far_of(chip);

    if (sim_far_is_ours(f))
        (void)ask(f, &f->side,
                  (struct record_head){ .kind = FAR_UNLOAD, .value = (uint64_t)(uintptr_t)code },
                  NULL);
}

/* ---- start ---- */

static bool is_end_told(struct far *f)
{
    bool is_told;

    pthread_mutex_lock(&f->end_lock);
    is_told = f->is_end_told;
    pthread_mutex_unlock(&f->end_lock);
    return is_told;
}

/* That the program has gone is said by a report once, as if it had happened during that run. */
static int far_start(struct chip *chip, const struct chip_request *request)
{
    struct far *f = far_of(chip);
    struct far_patience patience = { .far = f, .seconds = FAR_ANSWER_SECONDS };
    const struct payload_wait wait = { sim_far_await, &patience };
    struct far_channel *c = &f->run;
    struct run_message run = chip_message_of(request);
    int status = PTO_OK, sent = PTO_OK;

    if (f->is_lost || is_end_told(f))
        return PTO_ELOST;
    f->deadline_ns = chip_time_of(request).deadline_ns;
    if (f->deadline_ns == UINT64_MAX)
        f->deadline_ns = 0;
    f->grace_ns =
        request->options->grace_ns != 0 ? request->options->grace_ns : PTO_GRACE_DEFAULT_NS;
    pthread_mutex_lock(&c->lock);
    payload_clear(&c->out);
    payload_put(&c->out, &run, sizeof(run));
    payload_put(&c->out, request->entry->tensor, run.tensor_count * sizeof(struct pto_tensor));
    payload_put(&c->out, request->entry->scalar, run.scalar_count * sizeof(uint64_t));
    if (c->out.is_short)
        status = PTO_ENOMEM;
    else
        a32_store_relaxed(&f->has_ended, 0); /* the caller's own until it waits */
    if (status >= 0 && request->options->trace != PTO_TRACE_OFF)
        f->traced = request->number;
    if (status >= 0 && !far_is_gone(f))
        sent = payload_send(c->line, (struct record_head){ .kind = FAR_RUN, .key = ++c->key },
                            &c->out, &wait);
    if (sent < 0)
        sim_far_bury_for(f, sent, &patience);
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* ---- wait ---- */

static bool take_answer(struct far *f);
static void end_with_chip(struct far *f);

/* The time of the run is over, the grace included, and more. */
static bool is_overdue(const struct far *f)
{
    uint64_t late_ns = os_now_ns() - f->deadline_ns;

    return f->deadline_ns != 0 && (int64_t)late_ns > 0 && late_ns > f->grace_ns &&
           late_ns - f->grace_ns > FAR_LATE_SECONDS * 1000000000ull;
}

/* Whoever has the side channel is waiting for an answer, too, and notices if there is none. */
static void look_after(struct far *f)
{
    if (pthread_mutex_trylock(&f->side.lock) != 0)
        return;
    f->side.is_late = is_overdue(f);
    f->side.deadline_ns = f->deadline_ns;
    (void)sim_far_call(f, &f->side, (struct record_head){ .kind = FAR_PROGRESS }, NULL);
    f->side.is_late = false;
    f->side.deadline_ns = 0;
    pthread_mutex_unlock(&f->side.lock);
}

static void far_wait(struct chip *chip)
{
    struct far *f = far_of(chip);
    struct far_patience tick = {
        .far = f, .seconds = 1, .looks = true, .deadline_ns = f->deadline_ns
    };
    int status = PTO_ETIMEOUT;

    pthread_mutex_lock(&f->run.lock);
    while (!far_is_gone(f) && status == PTO_ETIMEOUT) {
        status = sim_far_await(&tick, f->run.line, false);
        if (status == PTO_ETIMEOUT)
            look_after(f);
    }
    if (status == PTO_ECANCELED)
        sim_far_bury(f, PEER_STOPPED, 0);
    if (!far_is_gone(f) && !take_answer(f))
        sim_far_bury(f, PEER_BROKEN, 0);
    if (far_is_gone(f))
        end_with_chip(f);
    pthread_mutex_unlock(&f->run.lock);
    a32_store_release(&f->has_ended, 1); /* R: what came of it is complete */
}

/* Something is there, or the program has gone. False: what is there makes no sense. */
static bool take_answer(struct far *f)
{
    struct far_patience patience = { .far = f, .seconds = FAR_ANSWER_SECONDS };
    const struct payload_wait wait = { sim_far_await, &patience };
    struct far_channel *c = &f->run;
    struct run_ended ended;
    struct record_head head;
    int status = payload_receive(c->line, &head, &c->in, &wait);

    if (status < 0) {
        sim_far_bury_for(f, status, &patience);
        return true;
    }
    if (head.kind != FAR_RUN || head.key != c->key)
        return false;
    payload_take_to(&c->in, &ended, sizeof(ended));
    if (c->in.is_short || !run_ended_check(&ended))
        return false;
    f->result = (struct chip_result){ .failure = ended.failure,
                                      .stall = ended.stall,
                                      .trace = ended.trace,
                                      .is_lost = ended.is_lost != 0,
                                      .is_builder_lost = ended.is_builder_lost != 0,
                                      .is_kernel_lost = ended.is_kernel_lost != 0,
                                      .graph = (struct chip_graph *)(uintptr_t)ended.graph };
    f->report = ended.report;
    f->result.failure.site.file = sim_far_intern(f, payload_take_text(&c->in));
    for (uint32_t i = 0; i < ended.stall.count; i++)
        f->result.stall.task[i].site.file = sim_far_intern(f, payload_take_text(&c->in));
    f->is_lost = f->result.is_lost;
    return true;
}

static void end_with_chip(struct far *f)
{
    pthread_mutex_lock(&f->end_lock); /* whoever buries it may not be done */
    f->result = (struct chip_result){ .failure = f->end, .stall = f->end_kernels, .is_lost = true };
    f->is_end_told = true;
    if (f->deadline_ns != 0 && f->end_ns >= f->deadline_ns &&
        (f->end.value[0] == PEER_STOPPED || f->end.value[0] == PEER_SILENT))
        f->result.failure.status = PTO_ETIMEOUT; /* the run had its time */
    pthread_mutex_unlock(&f->end_lock);
    memset(&f->report, 0, sizeof(f->report));
    f->report.workers = f->base.properties.workers;
    f->report.core_count = f->base.properties.aic_count + f->base.properties.aiv_count;
}

static const struct chip_result *far_report(struct chip *chip, struct pto_run_report *report)
{
    struct far *f = far_of(chip);

    f->report.size = report->size; /* these are the host's */
    f->report.warning = report->warning;
    f->report.error = report->error;
    *report = f->report;
    return &f->result;
}

/* ---- from any thread ---- */

static int far_poll(struct chip *chip)
{
    return a32_load_acquire(&far_of(chip)->has_ended) != 0 ? PTO_RUN_ENDED : PTO_RUN_PENDING;
}

static void far_cancel(struct chip *chip, uint64_t number)
{
    struct far *f = far_of(chip);

    (void)ask(f, &f->side, (struct record_head){ .kind = FAR_CANCEL, .value = number }, NULL);
}

static uint64_t far_progress(struct chip *chip)
{
    struct far *f = far_of(chip);
    uint64_t value = 0;

    (void)ask(f, &f->side, (struct record_head){ .kind = FAR_PROGRESS }, &value);
    return value;
}

static void far_drop(struct chip *chip, struct chip_graph *graph)
{
    struct far *f = far_of(chip);

    if (sim_far_is_ours(f))
        (void)ask(f, &f->side,
                  (struct record_head){ .kind = FAR_DROP, .value = (uint64_t)(uintptr_t)graph },
                  NULL);
}

/* ---- names of source files ---- */

const char *sim_far_intern(struct far *f, const char *text)
{
    struct far_name *name;

    if (text == NULL)
        return NULL;
    pthread_mutex_lock(&f->name_lock);
    for (name = f->names; name != NULL; name = name->next)
        if (strcmp(name->text, text) == 0)
            break;
    if (name == NULL) {
        name = malloc(sizeof(*name) + strlen(text) + 1);
        if (name != NULL) {
            strcpy(name->text, text);
            name->next = f->names;
            f->names = name;
        }
    }
    pthread_mutex_unlock(&f->name_lock);
    return name != NULL ? name->text : NULL;
}

void sim_far_forget_runs(struct far *f)
{
    sim_far_forget_record(f);
    while (f->names != NULL) {
        struct far_name *name = f->names;

        f->names = name->next;
        free(name);
    }
}

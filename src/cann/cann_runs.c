/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs. cann_start copies the run's message to the card and launches both programs. The cores'
 * program is launched first: the scheduler waits for the cores, and their first launch would be
 * slow while it does. cann_wait waits for both programs in slices, and checks the scheduler's
 * heartbeat in between. Another thread may start the next run while one executes. That run is
 * launched on the same streams, with a separate message and separate events. Its cores start when
 * the scheduler of the first run has finished, which uses the cores' registers until then.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/lock.h"
#include "base/os.h"
#include "cann/cann_runs.h"

enum {
    /* maximum time of one wait in the driver, after which the scheduler's heartbeat is checked */
    SLICE_MS = 1000,
    LAST_SLICE_MS = 20,   /* minimum time of one wait in the driver */
    LATE_NS = 2000000000, /* margin after a run's time limits, before the host gives it up */
};

static int cann_start(struct chip *chip, const struct chip_request *request);
static void cann_wait(struct chip *chip);
static const struct chip_result *cann_report(struct chip *chip, struct pto_run_report *report);
static int cann_poll(struct chip *chip);
static void cann_cancel(struct chip *chip, uint64_t number);
static uint64_t cann_progress(struct chip *chip);

const struct chip_run_ops cann_run_ops = {
    .load = cann_load,
    .unload = cann_unload,
    .start = cann_start,
    .wait = cann_wait,
    .report = cann_report,
    .poll = cann_poll,
    .cancel = cann_cancel,
    .progress = cann_progress,
    .drop = cann_graph_drop,
    .record = cann_record_read,
};

/* ---- starting a run ---- */

/*
 * Copies the memory ranges that tasks may name to the card, if they have changed since the last run
 * that used the same struct cann_run.
 */
static int send_ranges(struct cann *c, struct cann_run *r, const char **call_out)
{
    struct board_range *range;
    uint64_t bytes, version;
    uint32_t count;
    int code = ACL_SUCCESS;

    pthread_mutex_lock(&c->memory_lock);
    version = c->allocation_version;
    count = c->allocation_count;
    if (version == r->ranges_version) {
        pthread_mutex_unlock(&c->memory_lock);
        return ACL_SUCCESS;
    }
    range = calloc(count + 1, sizeof(*range));
    for (uint32_t i = 0; range != NULL && i < count; i++)
        range[i] = (struct board_range){ c->allocation[i].addr,
                                         c->allocation[i].addr + c->allocation[i].bytes };
    pthread_mutex_unlock(&c->memory_lock);
    if (range == NULL)
        return 207001; /* 207001: the vendor's code for exhausted memory */
    bytes = (count + 1) * sizeof(*range);
    if (bytes > r->ranges_bytes) {
        uint64_t more = 0;

        *call_out = "aclrtMalloc";
        code = cann_take(c, 2 * bytes, &more);
        if (code == ACL_SUCCESS) {
            (void)cann_give_back(c, r->ranges);
            r->ranges = more;
            r->ranges_bytes = 2 * bytes;
        }
    }
    if (code == ACL_SUCCESS) {
        *call_out = "aclrtMemcpy";
        code = cann_upload(c, r->ranges, range, bytes);
    }
    free(range);
    if (code == ACL_SUCCESS) {
        r->ranges_version = version;
        r->range_count = count;
    }
    return code;
}

static int send_run(struct cann *c, struct cann_run *r)
{
    const struct chip_request *request = r->request;
    struct run_message run = chip_message_of(request);
    const struct chip_time time = r->time;
    struct board_launch launch = cann_cores_next(c);
    uint64_t now_ns = os_now_ns();
    struct board_run more = { .range_count = r->range_count,
                              .ranges = r->ranges,
                              .left_ns = time.deadline_ns == UINT64_MAX ? UINT64_MAX
                                         : time.deadline_ns > now_ns    ? time.deadline_ns - now_ns
                                                                        : 0,
                              .message_room = MESSAGE_BYTES - MESSAGE_ENDED,
                              .tag = launch.tag };

    if (request->options->trace != PTO_TRACE_OFF) {
        more.record = c->room.record;
        more.record_max = c->room.record_max;
        more.edge_max = c->room.edge_max;
        more.scope_max = c->room.scope_max;
        more.mark_max = c->room.mark_max;
        more.task_bytes_max = c->room.task_bytes_max;
        more.dump_max = c->room.dump_max;
    }
    run.code = cann_code_handle(request->code);
    run.graph = request->graph != NULL ? request->graph->handle : 0;
    more.graph_bytes = request->graph != NULL ? request->graph->sent_bytes : 0;
    if (r->is_building) { /* the host has built the graph, which is now launched */
        run.purpose = CHIP_LAUNCH;
        run.graph = c->build.addr;
        more.graph_bytes = c->build.used;
    }
    run.options.timeout_ns = time.ns;
    memcpy(r->image, &run, sizeof(run));
    if (run.tensor_count != 0) /* memcpy from NULL is undefined, even of 0 bytes */
        memcpy(r->image + MESSAGE_TENSORS, request->entry->tensor,
               run.tensor_count * sizeof(struct pto_tensor));
    if (run.scalar_count != 0)
        memcpy(r->image + MESSAGE_SCALARS, request->entry->scalar,
               run.scalar_count * sizeof(uint64_t));
    memcpy(r->image + MESSAGE_RUN, &more, sizeof(more));
    memcpy(r->image + MESSAGE_LAUNCH, &launch, sizeof(launch));
    return cann_upload(c, r->message, r->image, MESSAGE_ENDED);
}

/* ---- launching the programs ---- */

/*
 * Returns the run that was started last, unless it was not launched or is known to have ended; then
 * NULL.
 */
static const struct cann_run *run_before(struct cann *c)
{
    uint32_t starts = a32_load_relaxed(&c->starts); /* `starts` changes under the lock only */
    const struct cann_run *before = &c->run[(starts - 1) % BOARD_RUNS];

    assert_held(&c->lock);
    return cann_is_busy(c) && before->is_launched ? before : NULL;
}

/* Whether there is work that can only be done while no run executes. */
static bool needs_rest(struct cann *c)
{
    bool has_dropped;

    pthread_mutex_lock(&c->memory_lock);
    has_dropped = c->dropped != NULL;
    pthread_mutex_unlock(&c->memory_lock);
    return has_dropped || c->is_code_new;
}

/*
 * Prepares what a launch needs. is_queued: another run executes, so work that disturbs runs is left
 * out.
 */
static int cann_run_prepare(struct cann *c, struct cann_run *r, bool is_queued,
                            const char **call_out)
{
    int code;

    if (!is_queued)
        cann_drop_graphs(c);
    code = cann_cores_ready(c, call_out);
    if (code == ACL_SUCCESS && !is_queued)
        code = cann_cores_renew_stream(c, call_out);
    if (code == ACL_SUCCESS)
        code = send_ranges(c, r, call_out);
    if (code == ACL_SUCCESS)
        code = cann_record_ready(c, r->request->options, call_out);
    if (code != ACL_SUCCESS)
        return code;
    *call_out = "aclrtMemcpy";
    code = send_run(c, r);
    if (code == ACL_SUCCESS && r->is_building)
        code = cann_upload(c, c->build.addr, c->build.stage, c->build.used);
    return code;
}

static const char no_program[] =
    "while launching the cores: the card has no room for their program, or it is down";

/*
 * Ends a run of which nothing was launched. The vendor answers 207001 for a program both if the
 * card is full and if it is down. A card that does not answer another query either is lost.
 */
static void fail_start(struct cann *c, struct cann_run *r, const char *call, int code)
{
    static const char of_programs[] = "aclrtBinary";
    size_t left = 0, total = 0;

    if (code != 207001 || (strncmp(call, of_programs, strlen(of_programs)) != 0 &&
                           strcmp(call, "rtRegisterAllKernel") != 0))
        cann_run_fail_call(c, r, call, code, "before the run");
    else if (VENDOR_CALL(&c->vendor, aclrtGetMemInfo, VENDOR_HBM, &left, &total) == ACL_SUCCESS)
        cann_run_fail_call(c, r, call, code, no_program);
    else
        cann_run_lose_call(c, r, call, code, no_program);
}

static const char waiting_event[] = "aclrtSynchronizeEventWithTimeout";

/*
 * Launches both programs, and records the events of their ends. A failure loses the card.
 * is_queued: another run executes, and the thread that waits for it queries the streams.
 */
static void cann_run_launch(struct cann *c, struct cann_run *r, bool is_queued)
{
    static const char recording[] = "aclrtRecordEvent";
    static const char left_alone[] = "while launching the scheduler, for which the cores wait";
    enum asked cores = is_queued ? ASK_NONE : ASK_CORES, both = is_queued ? ASK_NONE : ASK_BOTH;
    int code = cann_cores_launch(c, r);

    if (code != ACL_SUCCESS) { /* 207001 may mean that the card is full, or that it is down */
        cann_run_lose_call(c, r, cann_cores_call(c), code, no_program);
        return;
    }
    code = VENDOR_CALL(&c->vendor, aclrtRecordEvent, r->dismissed, c->core_stream);
    if (code != ACL_SUCCESS) {
        cann_run_lose_launched(c, r, cores, recording, code, left_alone);
        return;
    }
    code = cann_launch_call(c, BOARD_RUN, 0, r->message, MESSAGE_ENDED);
    r->sequence = c->sequence;
    if (code != ACL_SUCCESS) {
        cann_run_lose_launched(c, r, cores, "aclrtLaunchKernelWithHostArgs", code, left_alone);
        return;
    }
    code = VENDOR_CALL(&c->vendor, aclrtRecordEvent, r->ended, c->stream);
    if (code != ACL_SUCCESS)
        cann_run_lose_launched(
            c, r, both, recording, code,
            "while recording the scheduler's end, for which the host cannot wait");
    r->is_launched = code == ACL_SUCCESS;
}

struct starting {
    struct cann_run *run;
    /* the run that executes now, after which this one starts; NULL: none */
    const struct cann_run *before;
};

static void start_in_context(struct cann *c, struct cann_run *r, const struct cann_run *before)
{
    const char *call = "aclrtMemcpy";
    int code = cann_run_prepare(c, r, before != NULL, &call);

    if (code == ACL_SUCCESS && before != NULL) { /* mutation: flight-early-cores */
        call = "aclrtStreamWaitEvent";
        code = VENDOR_CALL(&c->vendor, aclrtStreamWaitEvent, c->core_stream, before->ended);
    }
    if (code != ACL_SUCCESS) {
        fail_start(c, r, call, code);
        return;
    }
    cann_run_launch(c, r, before != NULL);
}

static void start_on_driver_thread(struct cann *c, void *arg)
{
    const struct starting *s = arg;

    start_in_context(c, s->run, s->before);
}

static void cann_run_set_up(struct cann *c, struct cann_run *r, const struct chip_request *request)
{
    r->request = request;
    r->time = chip_time_of(request);
    r->begin_ns = os_now_ns();
    r->is_launched = r->is_building = false;
    r->result = (struct chip_result){ .failure.status = PTO_OK };
    memset(&r->report, 0, sizeof(r->report));
    r->report.workers = c->base.properties.workers;
    r->report.core_count = c->base.properties.aic_count + c->base.properties.aiv_count;
}

static void start_run(struct cann *c, struct starting *s)
{
    struct pto_error error;

    assert_held(&c->lock);
    pto_error_init(&error);
    if (driver_thread_call(c, start_on_driver_thread, s, &error) < 0) {
        cann_run_fail(c, s->run, error.status, 0, error.text);
        s->run->is_launched = false;
    }
}

/*
 * Whether the orchestration runs on the host. A request without a mode has the mode of the
 * callable.
 */
static bool is_for_host(const struct chip_request *request)
{
    return request->purpose != CHIP_LAUNCH && cann_code_host(request->code) != NULL;
}

static void start_building(struct cann *c, struct cann_run *r)
{
    const struct chip_request *request = r->request;
    struct pto_error error;
    int status;

    pto_error_init(&error);
    status = cann_build_start(c, request, cann_code_host(request->code), &error);
    r->is_building = status >= 0;
    if (status < 0)
        cann_run_fail(c, r, status, 0, error.text);
}

/*
 * Whether this run can only be started after an earlier one has ended, because the host builds the
 * graph of this run or of the earlier one.
 */
static bool must_wait(struct cann *c, const struct chip_request *request)
{
    uint32_t starts = a32_load_relaxed(&c->starts); /* `starts` changes under the lock only */

    assert_held(&c->lock);
    return cann_is_busy(c) &&
           (is_for_host(request) || c->run[(starts - 1) % BOARD_RUNS].is_building);
}

static int cann_start(struct chip *chip, const struct chip_request *request)
{
    struct cann *c = cann_of(chip);
    /* `starts` is written only by the thread that starts runs, which is this one */
    uint32_t starts = a32_load_relaxed(&c->starts);
    struct starting starting = { .run = &c->run[starts % BOARD_RUNS] };
    int status = PTO_OK;

    /* relaxed: both flags are hints */
    if (cann_is_lost(c) && a32_load_relaxed(&c->is_trouble_reported) != 0)
        return PTO_ELOST;
    pthread_mutex_lock(&c->lock);
    starting.before = run_before(c);
    if (must_wait(c, request) || (starting.before != NULL && needs_rest(c))) {
        status = PTO_EAGAIN;
    } else {
        cann_run_set_up(c, starting.run, request);
        /* from here on the waiting thread owns the run */
        a32_store_relaxed(&c->starts, starts + 1);
        /* cann_progress reads the number, and its callers only compare it */
        a64_store_release(&c->number, request->number);
        if (cann_is_lost(c)) /* the device was lost after the previous run had ended */
            cann_run_fail_lost(c, starting.run);
        else if (is_for_host(request))
            start_building(c, starting.run);
        else if (request->purpose == CHIP_RUN && request->options->mode == PTO_MODE_HOST)
            cann_run_fail(
                c, starting.run, PTO_ENOSUP, 0,
                "its orchestration is for the card: build the callable for host_build_graph, or "
                "run it in the mode tensormap_and_ringbuffer");
        else
            start_run(c, &starting);
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* ---- waiting for a run ---- */

/* Starts the time limits of a run, when the previous run has ended. */
static void begin_wait(struct cann_run *r)
{
    const struct pto_run_options *options = r->request->options;
    uint64_t grace_ns = options->grace_ns != 0 ? options->grace_ns : PTO_GRACE_DEFAULT_NS;
    uint64_t deadline_ns;

    r->time = chip_time_of(r->request);
    deadline_ns = r->time.deadline_ns;
    r->silence_ns = r->request->stall_ns + grace_ns + LATE_NS;
    r->deadline_ns = deadline_ns < UINT64_MAX - grace_ns - LATE_NS
                         ? deadline_ns + grace_ns + LATE_NS
                         : UINT64_MAX;
}

/* Whether the scheduler's heartbeat has changed recently, and the run's deadline has not passed. */
static bool cann_run_is_alive(struct cann *c, const struct cann_run *r, uint64_t *beats,
                              uint64_t *since_ns)
{
    uint64_t now_ns = os_now_ns();
    struct board_live live;

    if (cann_download(c, c->board + offsetof(struct board, live), &live, sizeof(live)) !=
        ACL_SUCCESS)
        return false;
    if (live.beats != *beats) {
        *beats = live.beats;
        *since_ns = now_ns;
    }
    return now_ns - *since_ns < r->silence_ns && now_ns < r->deadline_ns;
}

static int32_t cann_run_slice_ms(const struct cann_run *r, uint64_t since_ns)
{
    uint64_t now_ns = os_now_ns();
    uint64_t until_ns =
        since_ns + r->silence_ns < r->deadline_ns ? since_ns + r->silence_ns : r->deadline_ns;
    uint64_t ms = until_ns > now_ns ? (until_ns - now_ns) / 1000000 + 1 : 0;

    return ms > SLICE_MS ? SLICE_MS : ms < LAST_SLICE_MS ? LAST_SLICE_MS : (int32_t)ms;
}

/*
 * Waits for the end of the scheduler. Returns a vendor's code; 507047: the scheduler was given up.
 */
static int await_scheduler(struct cann *c, const struct cann_run *r, const char **call_out)
{
    uint64_t beats = 0, since_ns = os_now_ns();
    int code;

    do {
        int32_t ms = cann_run_slice_ms(r, since_ns);

        code =
            VENDOR_WAIT(&c->vendor, (uint64_t)ms, aclrtSynchronizeEventWithTimeout, r->ended, ms);
        if (code == ACL_EVENT_NOT_DONE)
            code = cann_run_ask_stream(c, c->stream, call_out);
    } while (code == ACL_EVENT_NOT_DONE && cann_run_is_alive(c, r, &beats, &since_ns));
    return code;
}

static void take_ended(struct cann *c, struct cann_run *r)
{
    struct run_ended *ended = (struct run_ended *)(void *)(r->image + MESSAGE_ENDED);
    char *names = (char *)(ended + 1);

    if (!run_ended_check(ended)) {
        cann_run_lose(c, r, "the answer of the scheduler is invalid");
        return;
    }
    memcpy(r->names, names, sizeof(r->names));
    for (uint32_t i = 0; i <= STALL_TASKS; i++)
        r->names[(i + 1) * MESSAGE_NAME - 1] = '\0';
    r->result = (struct chip_result){ .failure = ended->failure,
                                      .stall = ended->stall,
                                      .is_lost = ended->is_lost != 0,
                                      .is_builder_lost = ended->is_builder_lost != 0,
                                      .is_kernel_lost = ended->is_kernel_lost != 0 };
    r->result.failure.site.file = r->names[0] != '\0' ? r->names : NULL;
    for (uint32_t i = 0; i < ended->stall.count; i++)
        r->result.stall.task[i].site.file =
            r->names[(i + 1) * MESSAGE_NAME] != '\0' ? &r->names[(i + 1) * MESSAGE_NAME] : NULL;
    r->report = ended->report;
    if (ended->is_lost != 0) { /* the card sends no text for a lost device: it is written here */
        (void)cann_lose(c, NULL, "card %u: a kernel or an orchestration never returned", c->card);
        a32_store_relaxed(&c->is_trouble_reported, 1); /* relaxed: a hint for the next cann_start */
    }
}

static void cann_run_take_answer(struct cann *c, struct cann_run *r)
{
    struct board_answer *answer = (struct board_answer *)(void *)(r->image + MESSAGE_ANSWER);
    int code = cann_download(c, r->message + MESSAGE_ENDED, r->image + MESSAGE_ENDED,
                             MESSAGE_BYTES - MESSAGE_ENDED);

    if (code != ACL_SUCCESS) {
        cann_run_lose_launched(c, r, ASK_CORES, "aclrtMemcpy", code,
                               "for the answer of the scheduler");
    } else if (answer->magic != BOARD_MAGIC || answer->sequence != r->sequence) {
        cann_run_lose(c, r, "the scheduler did not answer");
    } else if (answer->status < 0) {
        answer->text[BOARD_TEXT - 1] = '\0';
        if (answer->status == PTO_ELOST)
            cann_run_lose(c, r, answer->text);
        else
            cann_run_fail(c, r, answer->status, 0, answer->text);
    } else {
        r->graph_bytes = answer->value;
        take_ended(c, r);
        if (r->request->graph != NULL)
            r->request->graph->sent_bytes = 0;
        if (r->is_building)
            r->report.ns += c->build.ns;
        if (r->request->options->trace != PTO_TRACE_OFF && !cann_is_lost(c))
            code = cann_record_take(c);
        if (code != ACL_SUCCESS)
            cann_run_lose_call(c, r, "aclrtMemcpy", code, "for the recording");
    }
}

/* Waits for the end of the cores. Returns a vendor's code. */
static int await_cores(struct cann *c, const struct cann_run *r, int32_t ms, const char **call_out)
{
    int code =
        VENDOR_WAIT(&c->vendor, (uint64_t)ms, aclrtSynchronizeEventWithTimeout, r->dismissed, ms);

    *call_out = waiting_event;
    return code == ACL_EVENT_NOT_DONE ? cann_run_ask_stream(c, c->core_stream, call_out) : code;
}

/*
 * Whether the cores have failed: the scheduler did not end, and may be waiting for them. If so,
 * ends the run with their failure.
 */
static bool blame_cores(struct cann *c, struct cann_run *r)
{
    const char *call;
    int code = await_cores(c, r, LAST_SLICE_MS, &call);

    if (code == ACL_SUCCESS || code == ACL_EVENT_NOT_DONE)
        return false;
    cann_run_lose_call(c, r, call, code, "for the cores");
    return true;
}

/*
 * Whether a code of the scheduler is the cause of a failure; otherwise the cores are queried for
 * the cause.
 */
static bool is_cause(int code)
{
    return code == ACL_EVENT_NOT_DONE || code == 507017 || code == 507018;
}

static void wait_in_context(struct cann *c, struct cann_run *r)
{
    const char *call = waiting_event;
    int code = await_scheduler(c, r, &call);

    if (code == ACL_EVENT_NOT_DONE && blame_cores(c, r))
        return;
    if (code != ACL_SUCCESS) { /* queries no more than necessary, because each query may hang */
        cann_run_lose_launched(c, r, is_cause(code) ? ASK_NONE : ASK_CORES, call, code,
                               code == ACL_EVENT_NOT_DONE
                                   ? "and the scheduler's heartbeat has stopped"
                                   : "for the scheduler");
        if (code == ACL_EVENT_NOT_DONE && r->deadline_ns != UINT64_MAX &&
            os_now_ns() >= r->deadline_ns)
            r->result.failure.status = PTO_ETIMEOUT;
        return;
    }
    cann_run_take_answer(c, r);
    if (cann_is_lost(c))
        return;
    code = await_cores(c, r, CANN_CORES_MS, &call);
    if (code != ACL_SUCCESS && r->result.failure.status >= 0) {
        cann_run_lose_call(c, r, call, code, "for the cores");
    } else if (code != ACL_SUCCESS) { /* the run has a failure already, which it keeps */
        (void)cann_lose(c, NULL, "card %u: the cores did not end: %d (%s)", c->card, code,
                        vendor_meaning(code));
        cann_run_set_lost(c, r);
    }
}

static void wait_on_driver_thread(struct cann *c, void *arg)
{
    wait_in_context(c, arg);
}

static void note_on_driver_thread(struct cann *c, void *arg)
{
    (void)arg;
    cann_note_board(c);
}

static void keep_on_driver_thread(struct cann *c, void *arg)
{
    cann_graph_keep(c, arg);
}

static void cann_run_give_up(struct cann *c, struct cann_run *r, const struct pto_error *error)
{
    (void)cann_lose(c, NULL, "%s", error->text);
    cann_run_fail(c, r, PTO_ELOST, 0, error->text);
}

/* Runs the orchestration on the calling thread, then launches or keeps the graph. */
static void wait_for_builder(struct cann *c, struct cann_run *r)
{
    struct chip_graph *kept = c->build.kept;
    struct starting starting = { .run = r };
    struct pto_error error;
    bool is_built;

    pto_error_init(&error);
    is_built = cann_build_wait(c, r, &error);
    /*
     * the card was lost while the orchestration read or wrote an element, or memory was allocated
     */
    if (cann_is_lost(c)) {
        cann_run_fail_lost(c, r);
    } else if (!is_built && r->result.failure.status >= 0) {
        cann_run_fail(c, r, error.status, 0, error.text);
    } else if (is_built && kept == NULL) {
        r->begin_ns = os_now_ns();
        pthread_mutex_lock(&c->lock);
        start_run(c, &starting);
        pthread_mutex_unlock(&c->lock);
    } else if (is_built && driver_thread_call(c, cann_graph_send, r, &error) < 0) {
        cann_run_give_up(c, r, &error);
    }
    if (kept != NULL && r->result.graph == NULL)
        cann_graph_drop(&c->base, kept);
}

static void cann_wait(struct chip *chip)
{
    struct cann *c = cann_of(chip);
    /* `ends` is written only by the thread that waits for runs, which is this one */
    uint32_t ends = a32_load_relaxed(&c->ends);
    struct cann_run *r = &c->run[ends % BOARD_RUNS];
    struct pto_error error;

    pto_error_init(&error);
    begin_wait(r);
    if (r->is_building)
        wait_for_builder(c, r);
    /* another thread has lost the device, maybe in the previous run */
    if (r->is_launched && cann_is_lost(c))
        cann_run_fail_lost(c, r);
    else if (r->is_launched && driver_thread_call(c, wait_on_driver_thread, r, &error) < 0)
        cann_run_give_up(c, r, &error);
    else if (r->is_launched && cann_is_lost(c) && c->vendor.log != NULL)
        (void)driver_thread_call(c, note_on_driver_thread, NULL, NULL);
    a32_store_release(&c->ends, ends + 1); /* release: publishes the results of the run */
    if (r->is_launched && r->request->purpose == CHIP_BUILD && !cann_is_lost(c) &&
        r->result.failure.status >= 0) {
        pthread_mutex_lock(&c->lock);
        if (driver_thread_call(c, keep_on_driver_thread, r, &error) < 0)
            cann_run_give_up(c, r, &error);
        pthread_mutex_unlock(&c->lock);
    }
}

/* ---- functions for any thread ---- */

static int cann_poll(struct chip *chip)
{
    return cann_is_busy(cann_of(chip)) ? PTO_RUN_PENDING : PTO_RUN_ENDED;
}

static void send_requests(struct cann *c, void *arg)
{
    (void)cann_upload(c, c->board + offsetof(struct board, requests), arg,
                      sizeof(struct board_requests));
}

static void cann_cancel(struct chip *chip, uint64_t number)
{
    struct cann *c = cann_of(chip);
    uint64_t *cancelled = &c->requests.cancelled[number % BOARD_RUNS];

    pthread_mutex_lock(&c->request_lock);
    if (c->build.builder != NULL)
        chip_cancel(c->build.builder, number);
    if (number > *cancelled && !cann_is_lost(c)) {
        *cancelled = number;
        (void)driver_thread_call(c, send_requests, &c->requests, NULL);
    }
    pthread_mutex_unlock(&c->request_lock);
}

static void read_live(struct cann *c, void *arg)
{
    (void)cann_download(c, c->board + offsetof(struct board, live), arg, sizeof(struct board_live));
}

static uint64_t cann_progress(struct chip *chip)
{
    struct cann *c = cann_of(chip);
    struct board_live live = { .progress = 0 };

    if (!cann_is_lost(c))
        (void)driver_thread_call(c, read_live, &live, NULL);
    /* callers only compare the result with an earlier one */
    return (a64_load_acquire(&c->number) << 32) + live.progress;
}

/* ---- reporting a run ---- */

static const struct chip_result *cann_report(struct chip *chip, struct pto_run_report *report)
{
    struct cann_run *r = cann_run_last(cann_of(chip));

    /* fields of the report that belong to the caller, and that the card does not fill */
    r->report.size = report->size;
    r->report.warning = report->warning;
    r->report.error = report->error;
    *report = r->report;
    return &r->result;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs. Start uploads the run and launches both programs, the one on the cores first: a launch
 * behind the scheduler, which waits for the cores, would be slow at the first time. Wait
 * waits for both, in slices, and looks for signs of life in between.
 *
 * The next run can be started meanwhile, by another thread: it is launched behind the first one on
 * the same streams, with a message of its own, and each is waited for by events of its own. Its
 * cores start when the scheduler of the first one is done: until then the registers are that one's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/os.h"
#include "cann/cann.h"

enum {
    SLICE_MS = 1000,    /* of a wait, between two looks at the scheduler */
    LAST_SLICE_MS = 20, /* the shortest */
    CORES_MS = 3000,    /* for the cores, when the scheduler is done */
    ASK_MS = 1,         /* for a stream, when an event of it has not come */
    GRAPH_ALIGN = 1024,
    RECORDS_MAX = 1 << 20, /* whatever is asked for: they take 24 bytes each on the card */
    EDGES_MAX = 1 << 20,
    SCOPES_MAX = 1 << 16,
    MARKS_MAX = 1 << 20,    /* tasks whose arguments are dumped */
    TOLD_MAX = 64 << 20,    /* bytes that tasks are told in, or an eighth of what is left */
    DUMPED_MAX = 512 << 20, /* the same of dumps, or a quarter */
    LATE_NS = 2000000000,   /* beyond all that a run may take, before it is given up */
};

static int cann_start(struct chip *chip, const struct chip_request *request);
static void cann_wait(struct chip *chip);
static const struct chip_result *cann_report(struct chip *chip, struct pto_run_report *report);
static int cann_poll(struct chip *chip);
static void cann_cancel(struct chip *chip, uint64_t number);
static uint64_t cann_progress(struct chip *chip);
static void cann_drop(struct chip *chip, struct chip_graph *graph);
static int cann_record(struct chip *chip, struct chip_record *record_out);

const struct chip_run_ops cann_run_ops = {
    .load = cann_load,
    .unload = cann_unload,
    .start = cann_start,
    .wait = cann_wait,
    .report = cann_report,
    .poll = cann_poll,
    .cancel = cann_cancel,
    .progress = cann_progress,
    .drop = cann_drop,
    .record = cann_record,
};

/* ---- failures ---- */

/* The run's text says how the device was lost: later runs get it from the host. */
static void set_run_lost(struct cann *c, struct cann_run *r)
{
    r->result.is_lost = true;
    a32_store_relaxed(&c->is_trouble_told, 1); /* a hint: the text is the run's */
}

/*
 * The run ends with this; whatever else is known of it does not count. A device that another thread
 * loses meanwhile is not lost by this run, whose text has another reason: the next run reports it.
 */
static void fail(struct cann *c, struct cann_run *r, int status, int code, const char *text)
{
    r->result = (struct chip_result){ .failure = { .status = status,
                                                   .fault = FAULT_CARD,
                                                   .argument = -1,
                                                   .kernel = -1,
                                                   .task = pto_task_id_invalid() } };
    r->result.failure.value[0] = (uint64_t)(int64_t)code;
    snprintf(r->result.failure.text, FAILURE_TEXT, "%.255s", text);
    if (status == PTO_ELOST && cann_is_lost(c))
        set_run_lost(c, r);
}

static void fail_call(struct cann *c, struct cann_run *r, const char *call, int code,
                      const char *doing)
{
    struct pto_error error;

    pto_error_init(&error);
    (void)cann_tell(c, &error, call, code, doing);
    fail(c, r, error.status, code, error.text);
}

/* A device whose run did not end as it should is not used again. */
static void lose(struct cann *c, struct cann_run *r, const char *why)
{
    struct pto_error error;

    pto_error_init(&error);
    (void)cann_lose(c, &error, "card %u: %s", c->card, why);
    fail(c, r, PTO_ELOST, 0, error.text);
}

/* The same, by a vendor's code. */
static void lose_call(struct cann *c, struct cann_run *r, const char *call, int code,
                      const char *doing)
{
    struct pto_error error;

    pto_error_init(&error);
    (void)cann_lose_by(c, &error, call, code, doing);
    fail(c, r, error.status, code, error.text);
    set_run_lost(c, r);
}

/* The device was lost, by others: the run tells how. */
static void fail_lost(struct cann *c, struct cann_run *r)
{
    struct pto_error error;

    pto_error_init(&error);
    (void)cann_refuse(c, &error);
    fail(c, r, PTO_ELOST, 0, error.text);
}

/* ---- start ---- */

/* Whether the vendor cannot do what was asked, so that another way may work: the card is well. */
static bool is_refusal(int code)
{
    int status = vendor_status(code);

    return code != ACL_SUCCESS && (status == PTO_EINVAL || status == PTO_ENOSUP);
}

/*
 * The way that is proven on cards of both generations, by functions that 9.2 calls deprecated and
 * that may be absent. A vendor's code; 107000 if they are.
 */
static int register_executor(struct cann *c)
{
    struct vendor *v = &c->vendor;
    struct vendor_program program = { .magic = VENDOR_MAGIC_MIX,
                                      .data = c->executor.bytes,
                                      .bytes = c->executor.size };
    int code;

    if (v->rtRegisterAllKernel == NULL || v->rtKernelLaunchWithHandleV2 == NULL)
        return ACL_REFUSED;
    if (c->core_binary != NULL) { /* the card would keep a copy of each */
        code = VENDOR_CALL(v, aclrtBinaryUnLoad, c->core_binary);
        if (code != ACL_SUCCESS)
            return code;
        c->core_binary = NULL;
    }
    return VENDOR_CALL(v, rtRegisterAllKernel, &program, &c->core_program);
}

/* By its number, then by its name, then with all of its program. The code is that of the first way. */
static int find_executor(struct cann *c, int code, const char **call_out)
{
    static const char name[] = "pto_executor_0"; /* device/executor.c, without what halves end in */
    struct vendor *v = &c->vendor;
    const char *route = "aclrtBinaryGetFunctionByEntry";
    int other;

    if (c->core_binary != NULL) {
        *call_out = route;
        code = VENDOR_CALL(v, aclrtBinaryGetFunctionByEntry, c->core_binary, 0, &c->core_function);
    }
    other = code;
    if (c->core_binary != NULL && is_refusal(other)) {
        route = "aclrtBinaryGetFunction";
        other = VENDOR_CALL(v, aclrtBinaryGetFunction, c->core_binary, name, &c->core_function);
    }
    if (is_refusal(other)) {
        route = "rtRegisterAllKernel";
        other = register_executor(c);
    }
    if (other == ACL_SUCCESS)
        vendor_note(v, "route", "executor %s", route);
    else if (!is_refusal(other)) /* the card's own trouble counts more than a refusal before it */
        *call_out = route;
    return other == ACL_SUCCESS || !is_refusal(other) ? other : code;
}

/* Once for the life of the device: the card keeps a copy for each registration. */
static int ready_cores(struct cann *c, const char **call_out)
{
    struct vendor *v = &c->vendor;
    struct vendor_option magic = { .id = VENDOR_OPTION_MAGIC, .value = { VENDOR_MAGIC_MIX } };
    struct vendor_options options = { &magic, 1 };
    int code = ACL_SUCCESS;

    if (c->core_function != NULL || c->core_program != NULL)
        return ACL_SUCCESS;
    *call_out = "aclrtBinaryLoadFromData";
    if (c->core_binary == NULL)
        code = VENDOR_CALL(v, aclrtBinaryLoadFromData, c->executor.bytes, c->executor.size,
                           &options, &c->core_binary);
    return code == ACL_SUCCESS || is_refusal(code) ? find_executor(c, code, call_out) : code;
}

/* Cores keep instructions that they have seen; a new stream is what is known to forget them. */
static int renew_stream(struct cann *c, const char **call_out)
{
    int code = ACL_SUCCESS;

    if (!c->is_code_new)
        return ACL_SUCCESS;
    *call_out = "aclrtDestroyStream";
    if (c->core_stream != NULL) /* else an earlier run could not make a new one */
        code = VENDOR_CALL(&c->vendor, aclrtDestroyStream, c->core_stream);
    if (code != ACL_SUCCESS)
        return code;
    c->core_stream = NULL;
    *call_out = "aclrtCreateStream";
    code = VENDOR_CALL(&c->vendor, aclrtCreateStream, &c->core_stream);
    c->is_code_new = code != ACL_SUCCESS; /* mutation: renews-every-run */
    return code;
}

/* What tasks may name, if it has changed since it was sent last. */
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
        return 207001; /* as the vendor says it */
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

/* What a run asks for of the recorder decides how much room there is for it on the card. */
static struct board_run plan_record(const struct pto_run_options *options, uint64_t left)
{
    uint64_t told = left / 8 < TOLD_MAX ? left / 8 / 8 * 8 : TOLD_MAX;
    uint64_t dumped = left / 4 < DUMPED_MAX ? left / 4 / 8 * 8 : DUMPED_MAX;
    bool has_dumps = options->diagnostics.args != 0;

    return (struct board_run){ .record_max = options->trace_records > RECORDS_MAX
                                                 ? RECORDS_MAX
                                                 : options->trace_records,
                               .edge_max = EDGES_MAX,
                               .scope_max = options->diagnostics.has_scopes ? SCOPES_MAX : 0,
                               .mark_max = has_dumps ? MARKS_MAX : 0,
                               .told_max = options->trace == PTO_TRACE_ARGUMENTS ? told : 0,
                               .dump_max = has_dumps ? dumped : 0 };
}

/* Room for what is recorded, which stays. */
static int ready_record(struct cann *c, const struct pto_run_options *options,
                        const char **call_out)
{
    size_t left = 0, total = 0;
    uint64_t bytes;
    int code = ACL_SUCCESS;

    free(c->recorded);
    c->recorded = NULL;
    if (options->trace == PTO_TRACE_OFF)
        return ACL_SUCCESS;
    if (options->trace == PTO_TRACE_ARGUMENTS) {
        *call_out = "aclrtGetMemInfo";
        code = VENDOR_CALL(&c->vendor, aclrtGetMemInfo, VENDOR_HBM, &left, &total);
    }
    if (code != ACL_SUCCESS)
        return code;
    c->room = plan_record(options, left + c->record_bytes);
    bytes = message_record(&c->room).end;
    if (bytes > c->record_bytes) {
        *call_out = "aclrtMalloc";
        (void)cann_give_back(c, c->record);
        c->record = c->record_bytes = 0;
        code = cann_take(c, bytes, &c->record);
        c->record_bytes = code == ACL_SUCCESS ? bytes : 0;
    }
    c->room.record = c->record;
    return code;
}

static struct board_launch make_launch(struct cann *c)
{
    struct board_launch launch = { .board = c->board, .tag = ++c->launches };

    launch.sync = c->sync; /* mutation: no-sync-address */
    return launch;
}

static int send_run(struct cann *c, struct cann_run *r)
{
    const struct chip_request *request = r->request;
    struct run_message run = chip_message_of(request);
    const struct chip_time time = r->time;
    struct board_launch launch = make_launch(c);
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
        more.told_max = c->room.told_max;
        more.dump_max = c->room.dump_max;
    }
    run.code = cann_code_handle(request->code);
    run.graph = request->graph != NULL ? request->graph->handle : 0;
    more.graph_bytes = request->graph != NULL ? request->graph->sent_bytes : 0;
    if (r->is_building) { /* it is built */
        run.purpose = CHIP_LAUNCH;
        run.graph = c->build.addr;
        more.graph_bytes = c->build.used;
    }
    run.options.timeout_ns = time.ns;
    memcpy(r->image, &run, sizeof(run));
    if (run.tensor_count != 0) /* memcpy from NULL is undefined, also of no bytes */
        memcpy(r->image + MESSAGE_TENSORS, request->entry->tensor,
               run.tensor_count * sizeof(struct pto_tensor));
    if (run.scalar_count != 0)
        memcpy(r->image + MESSAGE_SCALARS, request->entry->scalar,
               run.scalar_count * sizeof(uint64_t));
    memcpy(r->image + MESSAGE_RUN, &more, sizeof(more));
    memcpy(r->image + MESSAGE_LAUNCH, &launch, sizeof(launch));
    return cann_upload(c, r->message, r->image, MESSAGE_ENDED);
}

static const char *launching(const struct cann *c)
{
    return c->core_program != NULL ? "rtKernelLaunchWithHandleV2" : "aclrtLaunchKernelWithHostArgs";
}

/* A program that was registered as a whole: its entry is named by a key. */
static int launch_registered(struct cann *c, uint64_t launch)
{
    struct vendor_args args = { .args = &launch, .bytes = sizeof(launch) };
    struct vendor_task task = { .schem = VENDOR_SCHEM_BATCH };

    return VENDOR_CALL(&c->vendor, rtKernelLaunchWithHandleV2, c->core_program, 0,
                       c->base.properties.clusters, &args, NULL, c->core_stream, &task);
}

static int launch_cores(struct cann *c, const struct cann_run *r)
{
    struct vendor_attribute together = { .id = VENDOR_ATTRIBUTE_SCHEM,
                                         .value = { VENDOR_SCHEM_BATCH } };
    struct vendor_config config = { &together, 1 };
    uint64_t launch = r->message + MESSAGE_LAUNCH;

    if (c->core_program != NULL)
        return launch_registered(c, launch);
    return VENDOR_CALL(&c->vendor, aclrtLaunchKernelWithHostArgs, c->core_function,
                       c->base.properties.clusters, c->core_stream, &config, &launch,
                       sizeof(launch), NULL, 0);
}

/* ---- the cores alone ---- */

/* How the cores' stream ended. It is asked once: a second wait for one that has failed may hang. */
static int await_core_stream(struct cann *c)
{
    return VENDOR_WAIT(&c->vendor, CORES_MS, aclrtSynchronizeStreamWithTimeout, c->core_stream,
                       CORES_MS);
}

static int start_cores(struct cann *c, const struct cann_run *r, uint64_t *tag_out,
                       const char **call_out)
{
    struct board_launch launch = make_launch(c);
    int code = ready_cores(c, call_out);

    *tag_out = launch.tag;
    if (code != ACL_SUCCESS)
        return code;
    *call_out = "aclrtMemcpy";
    code = cann_upload(c, r->message + MESSAGE_LAUNCH, &launch, sizeof(launch));
    if (code != ACL_SUCCESS)
        return code;
    *call_out = launching(c);
    return launch_cores(c, r);
}

int cann_meet(struct cann *c, struct pto_error *error)
{
    const char *call = "";
    uint64_t tag;
    int code = start_cores(c, &c->run[0], &tag, &call), status;

    if (code != ACL_SUCCESS)
        return cann_lose_by(c, error, call, code, "for the cores");
    status = cann_call(c, BOARD_MEET, tag, NULL, 0, NULL, error);
    if (status < 0 && a32_load_relaxed(&c->is_lost) == 0) /* set by this thread */
        (void)cann_lose(c, NULL, "%s", error->text);
    if (status < 0)
        cann_note_board(c);
    code = await_core_stream(c);
    if (code != ACL_SUCCESS && (status >= 0 || code != ACL_STREAM_NOT_DONE))
        status = cann_lose_by(c, error, "aclrtSynchronizeStreamWithTimeout", code, "for the cores");
    return status;
}

void cann_note_board(struct cann *c)
{
    struct board *board;
    const struct board_seen *seen;
    int code;

    if (c->vendor.log == NULL || c->board == 0)
        return;
    board = malloc(sizeof(*board));
    code = board != NULL ? cann_download(c, c->board, board, sizeof(*board)) : ACL_SUCCESS;
    if (code != ACL_SUCCESS)
        vendor_note(&c->vendor, "board", "cannot be read: aclrtMemcpy answered %d (%s)", code,
                    vendor_meaning(code));
    if (board == NULL || code != ACL_SUCCESS) {
        free(board);
        return;
    }
    seen = &board->seen;
    vendor_note(&c->vendor, "board",
                "launch %u, scheduler %#llx, answer %u of call %u, beats %llu, kernels started or "
                "returned %llu, registers read at launch %u",
                c->launches, (unsigned long long)board->scheduler, board->answer.sequence,
                c->sequence, (unsigned long long)board->live.beats,
                (unsigned long long)board->live.progress, seen->tag);
    for (uint32_t i = 0; i < PTO_CLUSTER_CORES * c->base.properties.clusters; i++) {
        uint32_t clusters = c->base.properties.clusters, number;
        uint64_t there = board->hello[i].there;

        number = (uint32_t)there & BOARD_NUMBER_MASK;
        vendor_note(&c->vendor, "core", "%s %u tag %llu number %u window %#llx cond %#x",
                    i < clusters ? "AIC" : "AIV", i < clusters ? i : i - clusters,
                    (unsigned long long)(there >> BOARD_TAG_SHIFT), number,
                    (unsigned long long)(number < BOARD_WINDOWS ? board->windows.base[number] : 0),
                    i < seen->count ? seen->cond[i] : 0);
    }
    free(board);
}

/* ---- launches ---- */

/* The run that was started last, if it may not have ended yet; NULL: it has. */
static const struct cann_run *run_before(struct cann *c)
{
    uint32_t starts = a32_load_relaxed(&c->starts); /* under the lock */
    const struct cann_run *before = &c->run[(starts - 1) % BOARD_RUNS];

    return cann_is_busy(c) && before->is_launched ? before : NULL;
}

/* What is done before a run and not beside one. */
static bool needs_rest(struct cann *c)
{
    bool has_dropped;

    pthread_mutex_lock(&c->memory_lock);
    has_dropped = c->dropped != NULL;
    pthread_mutex_unlock(&c->memory_lock);
    return has_dropped || c->is_code_new;
}

/* All that a launch needs. */
static int prepare(struct cann *c, struct cann_run *r, bool is_behind, const char **call_out)
{
    int code;

    if (!is_behind)
        cann_drop_graphs(c);
    code = ready_cores(c, call_out);
    if (code == ACL_SUCCESS && !is_behind)
        code = renew_stream(c, call_out);
    if (code == ACL_SUCCESS)
        code = send_ranges(c, r, call_out);
    if (code == ACL_SUCCESS)
        code = ready_record(c, r->request->options, call_out);
    if (code != ACL_SUCCESS)
        return code;
    *call_out = "aclrtMemcpy";
    code = send_run(c, r);
    if (code == ACL_SUCCESS && r->is_building)
        code = cann_upload(c, c->build.addr, c->build.stage, c->build.used);
    return code;
}

static const char no_program[] =
    "for the cores: the card has no room for their program, or it is down";

/*
 * Nothing was launched. The vendor answers 207001 for a program both on a full card and on one that
 * is down: a card that does not answer another question is lost.
 */
static void fail_start(struct cann *c, struct cann_run *r, const char *call, int code)
{
    static const char of_programs[] = "aclrtBinary";
    size_t left = 0, total = 0;

    if (code != 207001 || (strncmp(call, of_programs, strlen(of_programs)) != 0 &&
                           strcmp(call, "rtRegisterAllKernel") != 0))
        fail_call(c, r, call, code, "before the run");
    else if (VENDOR_CALL(&c->vendor, aclrtGetMemInfo, VENDOR_HBM, &left, &total) == ACL_SUCCESS)
        fail_call(c, r, call, code, no_program);
    else
        lose_call(c, r, call, code, no_program);
}

static const char waiting_event[] = "aclrtSynchronizeEventWithTimeout";
static const char waiting_stream[] = "aclrtSynchronizeStreamWithTimeout";

/*
 * The wait for an event is over, or a call has failed. An event may keep silent about a stream that
 * has failed; the stream itself reports its code, once, and must not be asked again then. A vendor's
 * code; 507047: the stream has not failed.
 */
static int ask_stream(struct cann *c, void *stream, const char **call_out)
{
    int code = VENDOR_WAIT(&c->vendor, ASK_MS, aclrtSynchronizeStreamWithTimeout, stream, ASK_MS);

    if (code == ACL_SUCCESS || code == ACL_STREAM_NOT_DONE)
        return ACL_EVENT_NOT_DONE;
    *call_out = waiting_stream;
    return code;
}

enum asked { ASK_NONE, ASK_CORES, ASK_BOTH }; /* streams, for the cause of a failure */

/*
 * A call after a launch has failed. What was launched may have failed before it, and then every call
 * has the code of a card that is down: the stream that failed reports the cause.
 */
static void lose_launched(struct cann *c, struct cann_run *r, enum asked asked, const char *call,
                          int code, const char *doing)
{
    const char *asking = call, *whose = "for the cores";
    int cause = ACL_EVENT_NOT_DONE;

    if (asked >= ASK_CORES)
        cause = ask_stream(c, c->core_stream, &asking);
    if (asked == ASK_BOTH && cause == ACL_EVENT_NOT_DONE) {
        cause = ask_stream(c, c->stream, &asking);
        whose = "for the scheduler";
    }
    if (cause == ACL_EVENT_NOT_DONE || cause == code)
        lose_call(c, r, call, code, doing);
    else
        lose_call(c, r, asking, cause, whose);
}

/*
 * Both programs, and what says that they have ended: a failure loses the card. The streams of a run
 * that follows another are asked by the thread that waits for that one.
 */
static void launch(struct cann *c, struct cann_run *r, bool is_behind)
{
    static const char recording[] = "aclrtRecordEvent";
    static const char left_alone[] = "for the scheduler; the cores wait for it";
    enum asked cores = is_behind ? ASK_NONE : ASK_CORES, both = is_behind ? ASK_NONE : ASK_BOTH;
    int code = launch_cores(c, r);

    if (code != ACL_SUCCESS) { /* 207001 says the same of a card that is down as of a full one */
        lose_call(c, r, launching(c), code, no_program);
        return;
    }
    code = VENDOR_CALL(&c->vendor, aclrtRecordEvent, r->dismissed, c->core_stream);
    if (code != ACL_SUCCESS) {
        lose_launched(c, r, cores, recording, code, left_alone);
        return;
    }
    code = cann_launch_call(c, BOARD_RUN, 0, r->message, MESSAGE_ENDED);
    r->sequence = c->sequence;
    if (code != ACL_SUCCESS) {
        lose_launched(c, r, cores, "aclrtLaunchKernelWithHostArgs", code, left_alone);
        return;
    }
    code = VENDOR_CALL(&c->vendor, aclrtRecordEvent, r->ended, c->stream);
    if (code != ACL_SUCCESS)
        lose_launched(c, r, both, recording, code,
                      "for the scheduler: the host cannot wait for it");
    r->is_launched = code == ACL_SUCCESS;
}

struct starting {
    struct cann_run *run;
    const struct cann_run *before; /* that it follows; NULL: none */
};

static void start_in_context(struct cann *c, struct cann_run *r, const struct cann_run *before)
{
    const char *call = "aclrtMemcpy";
    int code = prepare(c, r, before != NULL, &call);

    if (code == ACL_SUCCESS && before != NULL) { /* mutation: flight-early-cores */
        call = "aclrtStreamWaitEvent";
        code = VENDOR_CALL(&c->vendor, aclrtStreamWaitEvent, c->core_stream, before->ended);
    }
    if (code != ACL_SUCCESS) {
        fail_start(c, r, call, code);
        return;
    }
    launch(c, r, before != NULL);
}

static void start_on_agent(struct cann *c, void *arg)
{
    const struct starting *s = arg;

    start_in_context(c, s->run, s->before);
}

static void set_up(struct cann *c, struct cann_run *r, const struct chip_request *request)
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

/* Under the lock. */
static void start_run(struct cann *c, struct starting *s)
{
    struct pto_error error;

    pto_error_init(&error);
    if (agent_do(c, start_on_agent, s, &error) < 0) {
        fail(c, s->run, error.status, 0, error.text);
        s->run->is_launched = false;
    }
}

/* Whoever says nothing of the mode gets that of the callable. */
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
        fail(c, r, status, 0, error.text);
}

/* Whether a run has to end before this one is started. */
static bool must_wait(struct cann *c, const struct chip_request *request)
{
    uint32_t starts = a32_load_relaxed(&c->starts); /* under the lock */

    return cann_is_busy(c) &&
           (is_for_host(request) || c->run[(starts - 1) % BOARD_RUNS].is_building);
}

static int cann_start(struct chip *chip, const struct chip_request *request)
{
    struct cann *c = cann_of(chip);
    uint32_t starts = a32_load_relaxed(&c->starts); /* the caller's own */
    struct starting starting = { .run = &c->run[starts % BOARD_RUNS] };
    int status = PTO_OK;

    if (cann_is_lost(c) && a32_load_relaxed(&c->is_trouble_told) != 0) /* a hint, as the first */
        return PTO_ELOST;
    pthread_mutex_lock(&c->lock);
    starting.before = run_before(c);
    if (must_wait(c, request) || (starting.before != NULL && needs_rest(c))) {
        status = PTO_EAGAIN;
    } else {
        set_up(c, starting.run, request);
        a32_store_relaxed(&c->starts, starts + 1); /* whoever waits got the run from this thread */
        a64_store_release(&c->number, request->number); /* N */
        if (cann_is_lost(c))                            /* since the last run */
            fail_lost(c, starting.run);
        else if (is_for_host(request))
            start_building(c, starting.run);
        else if (request->purpose == CHIP_RUN && request->options->mode == PTO_MODE_HOST)
            fail(c, starting.run, PTO_ENOSUP, 0,
                 "its orchestration is for the card: build the callable for host_build_graph, or "
                 "run it in the mode tensormap_and_ringbuffer");
        else
            start_run(c, &starting);
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* ---- wait ---- */

/* From here on time counts: the run before it has ended. */
static void begin_wait(struct cann_run *r)
{
    const struct pto_run_options *options = r->request->options;
    uint64_t grace_ns = options->grace_ns != 0 ? options->grace_ns : PTO_GRACE_DEFAULT_NS;
    uint64_t deadline_ns;

    r->time = chip_time_of(r->request);
    deadline_ns = r->time.deadline_ns;
    r->patience_ns = r->request->stall_ns + grace_ns + LATE_NS;
    r->deadline_ns = deadline_ns < UINT64_MAX - grace_ns - LATE_NS
                         ? deadline_ns + grace_ns + LATE_NS
                         : UINT64_MAX;
}

/* Whether the scheduler has shown a sign of life in time. */
static bool is_alive(struct cann *c, const struct cann_run *r, uint64_t *beats, uint64_t *since_ns)
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
    return now_ns - *since_ns < r->patience_ns && now_ns < r->deadline_ns;
}

static int32_t slice_ms(const struct cann_run *r, uint64_t since_ns)
{
    uint64_t now_ns = os_now_ns();
    uint64_t until_ns =
        since_ns + r->patience_ns < r->deadline_ns ? since_ns + r->patience_ns : r->deadline_ns;
    uint64_t ms = until_ns > now_ns ? (until_ns - now_ns) / 1000000 + 1 : 0;

    return ms > SLICE_MS ? SLICE_MS : ms < LAST_SLICE_MS ? LAST_SLICE_MS : (int32_t)ms;
}

/* A vendor's code; 507047: it was given up. */
static int await_scheduler(struct cann *c, const struct cann_run *r, const char **call_out)
{
    uint64_t beats = 0, since_ns = os_now_ns();
    int code;

    do {
        int32_t ms = slice_ms(r, since_ns);

        code =
            VENDOR_WAIT(&c->vendor, (uint64_t)ms, aclrtSynchronizeEventWithTimeout, r->ended, ms);
        if (code == ACL_EVENT_NOT_DONE)
            code = ask_stream(c, c->stream, call_out);
    } while (code == ACL_EVENT_NOT_DONE && is_alive(c, r, &beats, &since_ns));
    return code;
}

static void take_ended(struct cann *c, struct cann_run *r)
{
    struct run_ended *ended = (struct run_ended *)(void *)(r->image + MESSAGE_ENDED);
    char *names = (char *)(ended + 1);

    if (!run_ended_check(ended)) {
        lose(c, r, "what the scheduler answered makes no sense");
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
    if (ended->is_lost != 0) { /* the host has a sentence for that */
        (void)cann_lose(c, NULL, "card %u: a kernel or an orchestration never returned", c->card);
        a32_store_relaxed(&c->is_trouble_told, 1); /* a hint */
    }
}

/* A part of what was recorded. A vendor's code. */
static int take_part(struct cann *c, uint64_t at, uint64_t bytes)
{
    return bytes != 0 ? cann_download(c, at, c->recorded + (at - c->record), bytes) : ACL_SUCCESS;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What was recorded, as it lies on the card. A vendor's code. */
static int take_record(struct cann *c)
{
    const struct message_record at = message_record(&c->room);
    struct board_record head;
    int code = cann_download(c, c->record, &head, sizeof(head));

    c->end_ns = os_now_ns();
    if (code != ACL_SUCCESS)
        return code;
    c->recorded = malloc(at.end - c->record);
    if (c->recorded == NULL)
        return ACL_SUCCESS; /* there is no record then */
    head.edge_count = least(head.edge_count, c->room.edge_max);
    head.scope_count = least(head.scope_count, c->room.scope_max);
    head.told_bytes = least(head.told_bytes, c->room.told_max);
    head.dumped_bytes = least(head.dumped_bytes, c->room.dump_max);
    memcpy(c->recorded, &head, sizeof(head));
    code = take_part(c, at.record,
                     least(head.count, c->room.record_max) * sizeof(struct trace_record));
    if (code == ACL_SUCCESS)
        code = take_part(c, at.edge, head.edge_count * sizeof(struct board_edge));
    if (code == ACL_SUCCESS)
        code = take_part(c, at.scope, head.scope_count * sizeof(struct chip_scope));
    if (code == ACL_SUCCESS)
        code = take_part(c, at.told, head.told_bytes);
    if (code == ACL_SUCCESS)
        code = take_part(c, at.dumped, head.dumped_bytes);
    return code;
}

static void take_answer(struct cann *c, struct cann_run *r)
{
    struct board_answer *answer = (struct board_answer *)(void *)(r->image + MESSAGE_ANSWER);
    int code = cann_download(c, r->message + MESSAGE_ENDED, r->image + MESSAGE_ENDED,
                             MESSAGE_BYTES - MESSAGE_ENDED);

    if (code != ACL_SUCCESS) {
        lose_launched(c, r, ASK_CORES, "aclrtMemcpy", code, "for the answer of the scheduler");
    } else if (answer->magic != BOARD_MAGIC || answer->sequence != r->sequence) {
        lose(c, r, "the scheduler did not answer");
    } else if (answer->status < 0) {
        answer->text[BOARD_TEXT - 1] = '\0';
        if (answer->status == PTO_ELOST)
            lose(c, r, answer->text);
        else
            fail(c, r, answer->status, 0, answer->text);
    } else {
        r->graph_bytes = answer->value;
        take_ended(c, r);
        if (r->request->graph != NULL)
            r->request->graph->sent_bytes = 0;
        if (r->is_building)
            r->report.ns += c->build.ns;
        if (r->request->options->trace != PTO_TRACE_OFF && !cann_is_lost(c))
            code = take_record(c);
        if (code != ACL_SUCCESS)
            lose_call(c, r, "aclrtMemcpy", code, "for what was recorded");
    }
}

/* The run that has ended last. */
static struct cann_run *last_run(struct cann *c)
{
    return &c->run[(a32_load_acquire(&c->ends) - 1) % BOARD_RUNS]; /* R */
}

static int cann_record(struct chip *chip, struct chip_record *out)
{
    struct cann *c = cann_of(chip);
    const struct cann_run *r = last_run(c);
    const struct board_record *head = (const struct board_record *)(const void *)c->recorded;
    struct board_run here = c->room;
    struct message_record at;

    if (head == NULL)
        return PTO_EINVAL;
    here.record = (uint64_t)(uintptr_t)c->recorded;
    at = message_record(&here);
    c->ring[0] = (struct trace_ring){ .record = (struct trace_record *)(uintptr_t)at.record,
                                      .count = head->count,
                                      .mask = (uint32_t)here.record_max - 1,
                                      .has_each_time = true };
    c->ring[1] = (struct trace_ring){ .record = c->ring[0].record, .mask = c->ring[0].mask };
    c->ring_list[0] = &c->ring[0];
    c->ring_list[1] = &c->ring[1];
    *out = (struct chip_record){ .ring = c->ring_list,
                                 .ring_count = 2,
                                 .edge = (const struct chip_edge *)(uintptr_t)at.edge,
                                 .edge_count = head->edge_count,
                                 .edges_lost = head->edges_lost,
                                 .told = (const void *)(uintptr_t)at.told,
                                 .told_bytes = head->told_bytes,
                                 .told_lost = head->told_lost,
                                 .dumped = (const void *)(uintptr_t)at.dumped,
                                 .dumped_bytes = head->dumped_bytes,
                                 .dumped_lost = head->dumped_lost,
                                 .scope = (const struct chip_scope *)(uintptr_t)at.scope,
                                 .scope_count = head->scope_count,
                                 .scopes_lost = head->scopes_lost,
                                 .core_count = r->report.core_count,
                                 .aic_count = c->base.properties.aic_count,
                                 .begin_cycles = head->begin_cycles,
                                 .end_cycles = head->end_cycles,
                                 .begin_ns = r->begin_ns,
                                 .end_ns = c->end_ns,
                                 .tasks = r->report.tasks };
    return PTO_OK;
}

/* A graph was built: it gets memory on the card, of its size. */
static void keep_graph(struct cann *c, struct cann_run *r)
{
    struct chip_graph *graph = calloc(1, sizeof(*graph));
    struct board_answer answer;
    struct pto_error error;
    int code;

    pto_error_init(&error);
    if (graph == NULL) {
        fail(c, r, PTO_ENOMEM, 0, "there is no memory for a graph");
        return;
    }
    code = cann_take(c, r->graph_bytes + GRAPH_ALIGN, &graph->memory);
    if (code != ACL_SUCCESS)
        fail_call(c, r, "aclrtMalloc", code, "for a graph that is kept");
    else if (cann_call(c, BOARD_KEEP, (graph->memory + GRAPH_ALIGN - 1) / GRAPH_ALIGN * GRAPH_ALIGN,
                       NULL, 0, &answer, &error) < 0)
        fail(c, r, error.status, 0, error.text);
    else
        graph->handle = answer.value;
    if (graph->handle != 0) {
        r->result.graph = graph;
        return;
    }
    if (!cann_is_lost(c))
        (void)cann_give_back(c, graph->memory);
    free(graph);
}

/* The scheduler may be busy with a run: the next one begins with that. */
static void cann_drop(struct chip *chip, struct chip_graph *graph)
{
    struct cann *c = cann_of(chip);

    pthread_mutex_lock(&c->memory_lock);
    graph->next = c->dropped;
    c->dropped = graph;
    pthread_mutex_unlock(&c->memory_lock);
}

void cann_drop_graphs(struct cann *c)
{
    struct chip_graph *graph;

    pthread_mutex_lock(&c->memory_lock);
    graph = c->dropped;
    c->dropped = NULL;
    pthread_mutex_unlock(&c->memory_lock);
    while (graph != NULL) {
        struct chip_graph *next = graph->next;

        if (!cann_is_lost(c) && c->function != NULL && graph->handle != 0 && graph->sent_bytes == 0)
            (void)cann_call(c, BOARD_DROP, graph->handle, NULL, 0, NULL, NULL);
        if (!cann_is_lost(c)) {
            (void)cann_give_back(c, graph->memory);
            (void)cann_give_back(c, graph->outputs);
        }
        free(graph);
        graph = next;
    }
}

/* A vendor's code. */
static int await_cores(struct cann *c, const struct cann_run *r, int32_t ms, const char **call_out)
{
    int code =
        VENDOR_WAIT(&c->vendor, (uint64_t)ms, aclrtSynchronizeEventWithTimeout, r->dismissed, ms);

    *call_out = waiting_event;
    return code == ACL_EVENT_NOT_DONE ? ask_stream(c, c->core_stream, call_out) : code;
}

/* A scheduler that is waited for in vain may wait for cores: whether theirs is the fault. */
static bool blame_cores(struct cann *c, struct cann_run *r)
{
    const char *call;
    int code = await_cores(c, r, LAST_SLICE_MS, &call);

    if (code == ACL_SUCCESS || code == ACL_EVENT_NOT_DONE)
        return false;
    lose_call(c, r, call, code, "for the cores");
    return true;
}

/* Whether a code of the scheduler's is a cause, or the cores were asked for one. */
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
    if (code != ACL_SUCCESS) { /* nothing of it is asked again: that may hang */
        lose_launched(c, r, is_cause(code) ? ASK_NONE : ASK_CORES, call, code,
                      code == ACL_EVENT_NOT_DONE ? "and the scheduler shows no sign of life"
                                                 : "for the scheduler");
        if (code == ACL_EVENT_NOT_DONE && r->deadline_ns != UINT64_MAX &&
            os_now_ns() >= r->deadline_ns)
            r->result.failure.status = PTO_ETIMEOUT;
        return;
    }
    take_answer(c, r);
    if (cann_is_lost(c))
        return;
    code = await_cores(c, r, CORES_MS, &call);
    if (code != ACL_SUCCESS && r->result.failure.status >= 0) {
        lose_call(c, r, call, code, "for the cores");
    } else if (code != ACL_SUCCESS) { /* the run has failed before */
        (void)cann_lose(c, NULL, "card %u: the cores did not end: %d (%s)", c->card, code,
                        vendor_meaning(code));
        set_run_lost(c, r);
    }
}

static void wait_on_agent(struct cann *c, void *arg)
{
    wait_in_context(c, arg);
}

static void note_on_agent(struct cann *c, void *arg)
{
    (void)arg;
    cann_note_board(c);
}

static void keep_on_agent(struct cann *c, void *arg)
{
    keep_graph(c, arg);
}

static void give_up(struct cann *c, struct cann_run *r, const struct pto_error *error)
{
    (void)cann_lose(c, NULL, "%s", error->text);
    fail(c, r, PTO_ELOST, 0, error->text);
}

/* A graph that is kept goes to the card at once; the scheduler takes it over at its first launch. */
static void send_kept(struct cann *c, void *arg)
{
    struct cann_build *b = &c->build;
    struct cann_run *r = arg;
    int code = cann_upload(c, b->addr, b->stage, b->used);

    if (code != ACL_SUCCESS) {
        fail_call(c, r, "aclrtMemcpy", code, "for a graph that is kept");
        return;
    }
    b->kept->handle = b->addr;
    b->kept->sent_bytes = b->used;
    r->result.graph = b->kept;
}

/* The orchestration runs on this thread; what it has built is launched, or kept. */
static void wait_for_builder(struct cann *c, struct cann_run *r)
{
    struct chip_graph *kept = c->build.kept;
    struct starting starting = { .run = r };
    struct pto_error error;
    bool is_built;

    pto_error_init(&error);
    is_built = cann_build_wait(c, r, &error);
    if (cann_is_lost(c)) { /* while it read or wrote an element, or took memory */
        fail_lost(c, r);
    } else if (!is_built && r->result.failure.status >= 0) {
        fail(c, r, error.status, 0, error.text);
    } else if (is_built && kept == NULL) {
        r->begin_ns = os_now_ns();
        pthread_mutex_lock(&c->lock);
        start_run(c, &starting);
        pthread_mutex_unlock(&c->lock);
    } else if (is_built && agent_do(c, send_kept, r, &error) < 0) {
        give_up(c, r, &error);
    }
    if (kept != NULL && r->result.graph == NULL)
        cann_drop(&c->base, kept);
}

static void cann_wait(struct chip *chip)
{
    struct cann *c = cann_of(chip);
    uint32_t ends = a32_load_relaxed(&c->ends); /* the caller's own */
    struct cann_run *r = &c->run[ends % BOARD_RUNS];
    struct pto_error error;

    pto_error_init(&error);
    begin_wait(r);
    if (r->is_building)
        wait_for_builder(c, r);
    if (r->is_launched && cann_is_lost(c)) /* by others, the run before it among them */
        fail_lost(c, r);
    else if (r->is_launched && agent_do(c, wait_on_agent, r, &error) < 0)
        give_up(c, r, &error);
    else if (r->is_launched && cann_is_lost(c) && c->vendor.log != NULL)
        (void)agent_do(c, note_on_agent, NULL, NULL);
    a32_store_release(&c->ends, ends + 1); /* R */
    if (r->is_launched && r->request->purpose == CHIP_BUILD && !cann_is_lost(c) &&
        r->result.failure.status >= 0) {
        pthread_mutex_lock(&c->lock);
        if (agent_do(c, keep_on_agent, r, &error) < 0)
            give_up(c, r, &error);
        pthread_mutex_unlock(&c->lock);
    }
}

/* ---- from any thread ---- */

static int cann_poll(struct chip *chip)
{
    return cann_is_busy(cann_of(chip)) ? PTO_RUN_PENDING : PTO_RUN_ENDED;
}

static void send_wish(struct cann *c, void *arg)
{
    (void)cann_upload(c, c->board + offsetof(struct board, wish), arg, sizeof(struct board_wish));
}

static void cann_cancel(struct chip *chip, uint64_t number)
{
    struct cann *c = cann_of(chip);
    uint64_t *cancelled = &c->wish.cancelled[number % BOARD_RUNS];

    pthread_mutex_lock(&c->wish_lock);
    if (c->build.builder != NULL)
        chip_cancel(c->build.builder, number);
    if (number > *cancelled && !cann_is_lost(c)) {
        *cancelled = number;
        (void)agent_do(c, send_wish, &c->wish, NULL);
    }
    pthread_mutex_unlock(&c->wish_lock);
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
        (void)agent_do(c, read_live, &live, NULL);
    return (a64_load_acquire(&c->number) << 32) + live.progress; /* N; only to be compared */
}

/* ---- report ---- */

static const struct chip_result *cann_report(struct chip *chip, struct pto_run_report *report)
{
    struct cann_run *r = last_run(cann_of(chip));

    r->report.size = report->size; /* these are the host's */
    r->report.warning = report->warning;
    r->report.error = report->error;
    *report = r->report;
    return &r->result;
}

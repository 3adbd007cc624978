/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of an isolated chip as a backend: open, close and requests, and the error when
 * its process has ended.
 */
#include "sim/isolated.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limit.h"
#include "base/os.h"
#include "sim/isolated_serve.h"
#include "sim/sim_record.h"

/* minimum address space for device memory; pages are allocated on use */
#define DEVICE_BYTES_MIN (32ull << 30)
enum { ATTEMPTS = 16 }; /* attempts to find addresses that are free in both processes */

static int isolated_open(const struct chip_params *params, struct chip **chip_out,
                         struct pto_error *error);
static bool isolated_close(struct chip *chip);
static int isolated_greet(struct isolated *iso, const struct chip_params *params, int control,
                          struct pto_error *error);
static void isolated_take_report(struct isolated *iso);
static void isolated_free_all(struct isolated *iso);

static const struct chip_device_ops device_ops = {
    .open = isolated_open,
    .close = isolated_close,
    .serve = sim_isolated_serve,
};

const struct chip_backend sim_isolated_backend = {
    .name = "isolated",
    .device = &device_ops,
    .memory = &sim_isolated_memory_ops,
    .runs = &sim_isolated_run_ops,
};

void sim_isolated_sizes(uint32_t size[ISOLATED_SIZES])
{
    const uint32_t all[ISOLATED_SIZES] = {
        sizeof(struct isolated_hello), sizeof(struct isolated_welcome), sizeof(struct run_message),
        sizeof(struct run_ended),      sizeof(struct pto_tensor),       sizeof(struct sim_record),
        sizeof(struct trace_record),   sizeof(struct isolated_control),
    };

    memcpy(size, all, sizeof(all));
}

/* ---- open, close ---- */

static uint64_t isolated_device_bytes(const struct chip_params *params)
{
    return params->memory_max > DEVICE_BYTES_MIN ? params->memory_max : DEVICE_BYTES_MIN;
}

static void isolated_wake(void *context)
{
    struct isolated *iso = context;

    for (uint32_t i = 0; i < ISOLATED_LINES; i++)
        waker_wake_always(&iso->control->line[i].host);
}

/* Returns the descriptor of the control memory, or -1. */
static int isolated_make_memory(struct isolated *iso, struct pto_error *error)
{
    char why[LIMIT_TEXT];
    int fd = link_file_make("pto-control", sizeof(struct isolated_control));
    void *control = MAP_FAILED;

    if (fd >= 0)
        iso->memory = link_file_make("pto-device", iso->range_bytes);
    if (iso->memory >= 0)
        control =
            mmap(NULL, sizeof(struct isolated_control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (control != MAP_FAILED) {
        iso->control = control;
        return fd;
    }
    (void)error_setf(error, PTO_ESYSTEM,
                     "an isolated device needs a file of %llu GiB in memory: %s",
                     (unsigned long long)(iso->range_bytes >> 30), limit_explain(errno, why));
    if (fd >= 0)
        close(fd);
    return -1;
}

static int isolated_open(const struct chip_params *params, struct chip **chip_out,
                         struct pto_error *error)
{
    struct isolated *iso = aligned_alloc(64, (sizeof(*iso) + 63) / 64 * 64);
    int status = PTO_ESYSTEM, control;

    if (iso == NULL)
        return error_setf(error, PTO_ENOMEM, "%s", pto_strerror(PTO_ENOMEM));
    memset(iso, 0, sizeof(*iso));
    iso->base = (struct chip){ .backend = &sim_isolated_backend };
    iso->range_bytes = isolated_device_bytes(params);
    iso->opener = getpid();
    iso->memory = iso->watcher.alarm = -1;
    iso->spin_policy = waker_spin_policy(2);
    pthread_mutex_init(&iso->run.lock, NULL);
    pthread_mutex_init(&iso->side.lock, NULL);
    pthread_mutex_init(&iso->memory_lock, NULL);
    pthread_mutex_init(&iso->name_lock, NULL);
    pthread_mutex_init(&iso->end_lock, NULL);
    endpoint_init(&iso->process, &iso->end_lock);
    iso->run.line = &iso->process.line[ISOLATED_LINE_RUNS];
    iso->side.line = &iso->process.line[ISOLATED_LINE_SIDE];
    control = isolated_make_memory(iso, error);
    if (control >= 0) {
        iso->watcher.endpoint[0] = &iso->process;
        iso->watcher.count = 1;
        iso->watcher.ended = isolated_wake;
        iso->watcher.owner = iso;
        status = watcher_start(&iso->watcher) < 0
                     ? error_setf(error, PTO_ESYSTEM, "%s", pto_strerror(PTO_ESYSTEM))
                     : isolated_greet(iso, params, control, error);
        close(control);
    }
    if (status < 0) {
        isolated_free_all(iso);
        return status;
    }
    *chip_out = &iso->base;
    return PTO_OK;
}

/* Resets both lines to the child process: the previous child may have written anything there. */
static void isolated_open_lines(struct isolated *iso)
{
    memset(&iso->control->report, 0, sizeof(iso->control->report));
    for (uint32_t i = 0; i < ISOLATED_LINES; i++) {
        struct isolated_line *line = &iso->control->line[i];
        const struct line_ends ends = {
            .out = &line->to_chip, .in = &line->to_host, .own = &line->host, .other = &line->chip
        };

        memset(&line->chip, 0, sizeof(line->chip));
        memset(&line->host, 0, sizeof(line->host));
        line_reset(&ends);
        line_open(&iso->process.line[i], &ends, 1, ISOLATED_KINDS);
    }
}

/*
 * Starts the child process until it can map the device's memory at addresses that are free in both
 * processes. *answer_out is the child's first record.
 */
static int isolated_handshake(struct isolated *iso, struct isolated_hello *hello, int control,
                              struct record_head *answer_out, struct pto_error *error)
{
    const struct isolated_limits limits = { .iso = iso,
                                            .seconds = ISOLATED_WORK_SECONDS,
                                            .stopped_seconds = ISOLATED_ANSWER_SECONDS,
                                            .looks = true };
    const struct payload_wait wait = { sim_isolated_await, (void *)&limits };
    const struct endpoint_start how = {
        .hello = &hello->link, .memory = control, .more = &iso->memory, .more_count = 1
    };
    char words[LIMIT_TEXT];
    int status = PTO_EPEER;

    for (uint32_t i = 0; i < ATTEMPTS; i++) {
        arena_range_give(iso->range, iso->range_bytes);
        iso->range = arena_range_take(iso->range_bytes, i);
        if (iso->range == NULL)
            return error_setf(error, PTO_ENOMEM, "%s", limit_strerror(PTO_ENOMEM, words));
        hello->device_addr = (uint64_t)(uintptr_t)iso->range;
        isolated_open_lines(iso);
        status = iso->process.ops->start(&iso->process, &how, error);
        if (status < 0)
            return status;
        watcher_add(&iso->watcher, &iso->process);
        status = payload_receive(iso->run.line, answer_out, &iso->run.in, &wait);
        if (status >= 0 && answer_out->kind != ISOLATED_READY)
            status = PTO_EFORMAT;
        if (status != PTO_EPEER || !endpoint_is_misplaced(&iso->process))
            break;
    }
    if (status >= 0)
        return PTO_OK;
    sim_isolated_mark_dead_for(iso, status, &limits);
    return error_setf(error, PTO_ESYSTEM,
                      "the process of the device ended before it was ready, or is not "
                      "pto-child; check its output and PTO_CHILD");
}

static int isolated_greet(struct isolated *iso, const struct chip_params *params, int control,
                          struct pto_error *error)
{
    struct isolated_channel *c = &iso->run;
    struct isolated_hello hello = { .link = link_hello_make(LINK_DEVICE, sizeof(hello)),
                                    .clusters = params->clusters,
                                    .workers = params->workers,
                                    .memory_max = params->memory_max,
                                    .device_bytes = iso->range_bytes };
    struct record_head answer;
    struct isolated_welcome welcome;
    int status;

    hello.link.memory_bytes = sizeof(struct isolated_control);
    hello.link.generation = 1;
    sim_isolated_sizes(hello.size);
    strncpy(hello.version, pto_version(), sizeof(hello.version) - 1);
    status = isolated_handshake(iso, &hello, control, &answer, error);
    if (status < 0)
        return status;
    if (answer.status < 0)
        return sim_isolated_error_set(c, answer.status, error);
    payload_take_to(&c->in, &welcome, sizeof(welcome));
    if (c->in.is_short)
        return error_setf(error, PTO_ENOSUP, "pto-child is of another version than the library");
    iso->record_addr = welcome.record;
    iso->base.properties = welcome.properties;
    iso->base.properties.backend = sim_isolated_backend.name;
    iso->base.properties.shares_memory = false;
    iso->base.properties.runs_functions = false;
    iso->base.properties.has_observers = false;
    iso->base.properties.process = (int32_t)iso->process.pid;
    return PTO_OK;
}

static bool isolated_close(struct chip *chip)
{
    struct isolated *iso = isolated_of(chip);
    struct isolated_limits limits = { .iso = iso, .seconds = ISOLATED_ANSWER_SECONDS };
    const struct payload_wait wait = { sim_isolated_await, &limits };

    if (!isolated_is_gone(iso)) {
        (void)payload_send(iso->side.line, (struct record_head){ .kind = ISOLATED_CLOSE }, NULL,
                           &wait);
        (void)sim_isolated_await_end(iso, ISOLATED_ANSWER_SECONDS);
    }
    isolated_free_all(iso);
    /* kernels that did not return have ended with the process, so no device memory is in use */
    return true;
}

/* Frees a chip that was opened completely or partly. Kills its process if that still exists. */
static void isolated_free_all(struct isolated *iso)
{
    watcher_stop(&iso->watcher);
    iso->process.ops->end(&iso->process, 0);
    sim_isolated_forget_runs(iso);
    sim_isolated_forget_memory(iso);
    payload_free(&iso->run.in);
    payload_free(&iso->run.out);
    payload_free(&iso->side.in);
    payload_free(&iso->side.out);
    if (iso->control != NULL)
        munmap(iso->control, sizeof(*iso->control));
    if (iso->memory >= 0)
        close(iso->memory);
    arena_range_give(iso->range, iso->range_bytes);
    pthread_mutex_destroy(&iso->name_lock);
    pthread_mutex_destroy(&iso->end_lock);
    pthread_mutex_destroy(&iso->memory_lock);
    pthread_mutex_destroy(&iso->side.lock);
    pthread_mutex_destroy(&iso->run.lock);
    free(iso);
}

bool sim_isolated_is_ours(const struct isolated *iso)
{
    return getpid() == iso->opener;
}

/* ---- requests ---- */

/*
 * Returns the time limit for the answer to a request. Constructors of loaded code, and large
 * allocations, may take longer than other requests.
 */
static uint32_t isolated_seconds(const struct isolated_channel *c, uint32_t kind)
{
    switch (kind) {
    case ISOLATED_LOAD:
    case ISOLATED_FREE:
    case ISOLATED_CHECK:
        return ISOLATED_WORK_SECONDS;
    case ISOLATED_PROGRESS:
        return c->is_late ? ISOLATED_LATE_SECONDS : ISOLATED_ANSWER_SECONDS;
    default:
        return ISOLATED_ANSWER_SECONDS;
    }
}

static uint32_t isolated_stopped_seconds(const struct isolated_limits *limits)
{
    return limits->seconds < ISOLATED_ANSWER_SECONDS ? limits->seconds : ISOLATED_ANSWER_SECONDS;
}

int sim_isolated_call(struct isolated *iso, struct isolated_channel *c, struct record_head head,
                      uint64_t *value_out)
{
    struct isolated_limits limits = { .iso = iso,
                                      .seconds = isolated_seconds(c, head.kind),
                                      .stopped_seconds = ISOLATED_ANSWER_SECONDS,
                                      .looks = true,
                                      .deadline_ns = c->deadline_ns };
    const struct payload_wait wait = { sim_isolated_await, &limits };
    struct record_head answer;
    int status;

    if (isolated_is_gone(iso))
        return PTO_EPEER;
    if (c->out.is_short)
        return PTO_ENOMEM;
    head.key = ++c->key;
    status = payload_send(c->line, head, &c->out, &wait);
    payload_clear(&c->out);
    if (status >= 0)
        status = payload_receive(c->line, &answer, &c->in, &wait);
    if (status >= 0 && (answer.kind != head.kind || answer.key != head.key || answer.status > 0))
        status = PTO_EFORMAT;
    if (status < 0) {
        sim_isolated_mark_dead_for(iso, status, &limits);
        return PTO_EPEER;
    }
    if (value_out != NULL && answer.status >= 0)
        *value_out = answer.value;
    return answer.status;
}

int sim_isolated_error_set(struct isolated_channel *c, int status, struct pto_error *error)
{
    const char *text = payload_take_text(&c->in);
    char words[LIMIT_TEXT];

    return error_setf(error, status, "%s", text != NULL ? text : limit_strerror(status, words));
}

/* ---- the end of the process ---- */

void sim_isolated_mark_dead_for(struct isolated *iso, int status,
                                const struct isolated_limits *limits)
{
    sim_isolated_mark_dead(
        iso,
        status == PTO_ETIMEOUT || status == PTO_ESTALL ? PEER_SILENT
        : status == PTO_ECANCELED                      ? PEER_STOPPED
        : status == PTO_EPEER                          ? PEER_UNKNOWN
                                                       : PEER_BROKEN,
        status == PTO_ESTALL ? isolated_stopped_seconds(limits) : limits->seconds);
}

void sim_isolated_mark_dead(struct isolated *iso, enum peer_end end, uint64_t value)
{
    bool is_killed = end == PEER_SILENT || end == PEER_BROKEN || end == PEER_STOPPED;

    pthread_mutex_lock(&iso->end_lock);
    if (!isolated_is_gone(iso)) {
        if (is_killed)
            iso->process.ops->kill(&iso->process);
        if (sim_isolated_await_end(iso, ISOLATED_ANSWER_SECONDS) && !is_killed &&
            iso->process.is_end_known) {
            int status = iso->process.end;

            end = WIFEXITED(status) ? PEER_EXITED : PEER_SIGNALLED;
            value = (uint64_t)(WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        }
        iso->end = (struct failure){ .status = PTO_EPEER,
                                     .kind = FAILURE_PEER,
                                     .argument = -1,
                                     .kernel = -1,
                                     .task = pto_task_id_invalid(),
                                     .value = { end, value } };
        iso->end_ns = os_now_ns();
        iso->end_cycles = port_cycles();
        isolated_take_report(iso);
        /* release: publishes `end`, which says how and when the process ended */
        a32_store_release(&iso->is_gone, 1);
    }
    pthread_mutex_unlock(&iso->end_lock);
}

/*
 * Copies the exit report if the process has written one. Like all shared memory, it may be damaged.
 */
static void isolated_take_report(struct isolated *iso)
{
    struct isolated_report report;

    /* copy the shared report before checking it, because kernels that still run may change it */
    memcpy(&report, &iso->control->report, sizeof(report));
    if (report.magic != ISOLATED_MAGIC || a32_load_relaxed(&report.is_whole) == 0 ||
        report.suspect >= SUSPECTS)
        return;
    iso->end.value[2] = report.suspect;
    if (report.count > ISOLATED_REPORT_KERNELS || report.suspect == SUSPECT_NONE)
        return;
    if (report.suspect == SUSPECT_ORCHESTRATION && report.count != 0 &&
        report.kernel[0].kernel < 0) {
        /* kernel[0] of the report is the orchestration's last submit, not a kernel */
        report.kernel[0].file[ISOLATED_REPORT_FILE - 1] = '\0';
        iso->end.site.line = report.kernel[0].line;
        if (report.kernel[0].file[0] != '\0')
            iso->end.site.file = sim_isolated_intern(iso, report.kernel[0].file);
        memmove(&report.kernel[0], &report.kernel[1], --report.count * sizeof(report.kernel[0]));
    }
    iso->end_kernels.count = iso->end_kernels.live = report.count;
    for (uint32_t i = 0; i < report.count; i++) {
        struct isolated_report_kernel *k = &report.kernel[i];
        struct stall_task *task = &iso->end_kernels.task[i];

        *task =
            (struct stall_task){ .index = k->task,
                                 .cause = report.suspect == SUSPECT_LAST ? STALL_RAN : STALL_RUNS,
                                 .kernel = k->kernel,
                                 .block = k->block,
                                 .core = k->core,
                                 .is_aiv = k->is_aiv };
        k->file[ISOLATED_REPORT_FILE - 1] = '\0';
        task->site.line = k->line;
        if (k->file[0] != '\0')
            task->site.file = sim_isolated_intern(iso, k->file);
    }
    if (report.count != 0 && report.suspect != SUSPECT_ORCHESTRATION) {
        iso->end.kernel = report.kernel[0].kernel;
        iso->end.site = iso->end_kernels.task[0].site;
        iso->end.value[3] = report.kernel[0].task;
        iso->end.value[4] = report.kernel[0].block;
    }
    if (a32_load_relaxed(&report.has_lines) != 0 && source_lines_check(&report.lines))
        iso->end_lines = report.lines; /* mutation: no-end-line */
}

int sim_isolated_error_gone(struct isolated *iso, struct pto_error *error)
{
    const struct failure *end = &iso->end;

    switch (end->value[0]) {
    case PEER_EXITED:
        return error_setf(error, PTO_ELOST,
                          "the device is lost: its process ended with exit code "
                          "%d; close it and open another one",
                          (int)end->value[1]);
    case PEER_SIGNALLED:
        return error_setf(error, PTO_ELOST,
                          "the device is lost: its process was ended by signal "
                          "%d (%s); close it and open another one",
                          (int)end->value[1], strsignal((int)end->value[1]));
    case PEER_SILENT:
        return error_setf(error, PTO_ELOST,
                          "the device is lost: its process did not answer for %d s and was "
                          "ended; close it and open another one",
                          (int)end->value[1]);
    default:
        return error_setf(error, PTO_ELOST,
                          "the device is lost: its process has gone; close it "
                          "and open another one");
    }
}

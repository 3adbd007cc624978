/* SPDX-License-Identifier: Apache-2.0 */
/* An isolated chip as a backend: open and close, requests, and what is left of one that has gone. */
#include "sim/far.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limit.h"
#include "base/os.h"
#include "sim/far_chip.h"
#include "sim/sim_record.h"

/* Address space for device memory, at least; memory is there for what is used. */
#define DEVICE_BYTES_MIN (32ull << 30)
enum { ATTEMPTS = 16 }; /* to find addresses that are free on both sides */

static int far_open(const struct chip_params *params, struct chip **chip_out,
                    struct pto_error *error);
static bool far_close(struct chip *chip);
static int greet(struct far *f, const struct chip_params *params, int control,
                 struct pto_error *error);
static void take_will(struct far *f);
static void free_far(struct far *f);

static const struct chip_device_ops device_ops = {
    .open = far_open,
    .close = far_close,
    .serve = sim_far_serve,
};

const struct chip_backend sim_far_backend = {
    .name = "far",
    .device = &device_ops,
    .memory = &sim_far_memory_ops,
    .runs = &sim_far_run_ops,
};

void sim_far_sizes(uint32_t size[FAR_SIZES])
{
    const uint32_t all[FAR_SIZES] = {
        sizeof(struct far_hello),    sizeof(struct far_welcome), sizeof(struct run_message),
        sizeof(struct run_ended),    sizeof(struct pto_tensor),  sizeof(struct sim_record),
        sizeof(struct trace_record), sizeof(struct far_control),
    };

    memcpy(size, all, sizeof(all));
}

/* ---- open, close ---- */

static uint64_t device_bytes(const struct chip_params *params)
{
    return params->memory_max > DEVICE_BYTES_MIN ? params->memory_max : DEVICE_BYTES_MIN;
}

static void far_wake(void *context)
{
    struct far *f = context;

    for (uint32_t i = 0; i < FAR_LINES; i++)
        waker_wake_always(&f->control->line[i].host);
}

/* Returns the descriptor of the control memory, or -1. */
static int far_make_memory(struct far *f, struct pto_error *error)
{
    char why[LIMIT_TEXT];
    int fd = link_file_make("pto-control", sizeof(struct far_control));
    void *control = MAP_FAILED;

    if (fd >= 0)
        f->memory = link_file_make("pto-device", f->range_bytes);
    if (f->memory >= 0)
        control = mmap(NULL, sizeof(struct far_control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (control != MAP_FAILED) {
        f->control = control;
        return fd;
    }
    (void)error_tell(error, PTO_ESYSTEM, "an isolated device needs a file of %llu GiB in memory: %s",
                     (unsigned long long)(f->range_bytes >> 30), limit_explain(errno, why));
    if (fd >= 0)
        close(fd);
    return -1;
}

static int far_open(const struct chip_params *params, struct chip **chip_out,
                    struct pto_error *error)
{
    struct far *f = aligned_alloc(64, (sizeof(*f) + 63) / 64 * 64);
    int status = PTO_ESYSTEM, control;

    if (f == NULL)
        return error_tell(error, PTO_ENOMEM, "%s", pto_strerror(PTO_ENOMEM));
    memset(f, 0, sizeof(*f));
    f->base = (struct chip){ .backend = &sim_far_backend };
    f->range_bytes = device_bytes(params);
    f->opener = getpid();
    f->memory = f->watcher.alarm = -1;
    f->spin_policy = waker_spin_policy(2);
    pthread_mutex_init(&f->run.lock, NULL);
    pthread_mutex_init(&f->side.lock, NULL);
    pthread_mutex_init(&f->memory_lock, NULL);
    pthread_mutex_init(&f->name_lock, NULL);
    pthread_mutex_init(&f->end_lock, NULL);
    endpoint_init(&f->process, &f->end_lock);
    f->run.line = &f->process.line[FAR_LINE_RUNS];
    f->side.line = &f->process.line[FAR_LINE_SIDE];
    control = far_make_memory(f, error);
    if (control >= 0) {
        f->watcher.endpoint[0] = &f->process;
        f->watcher.count = 1;
        f->watcher.ended = far_wake;
        f->watcher.owner = f;
        status = watcher_start(&f->watcher) < 0
                     ? error_tell(error, PTO_ESYSTEM, "%s", pto_strerror(PTO_ESYSTEM))
                     : greet(f, params, control, error);
        close(control);
    }
    if (status < 0) {
        free_far(f);
        return status;
    }
    *chip_out = &f->base;
    return PTO_OK;
}

/* Both lines are as if new: the process before this one may have written anything there. */
static void far_open_lines(struct far *f)
{
    memset(&f->control->will, 0, sizeof(f->control->will));
    for (uint32_t i = 0; i < FAR_LINES; i++) {
        struct far_line *line = &f->control->line[i];
        const struct line_ends ends = {
            .out = &line->to_chip, .in = &line->to_host, .own = &line->host, .other = &line->chip
        };

        memset(&line->chip, 0, sizeof(line->chip));
        memset(&line->host, 0, sizeof(line->host));
        line_reset(&ends);
        line_open(&f->process.line[i], &ends, 1, FAR_KINDS);
    }
}

/* Starts the program until its memory is where nothing is on either side; *answer_out is its first record. */
static int far_say_hello(struct far *f, struct far_hello *hello, int control,
                         struct record_head *answer_out, struct pto_error *error)
{
    const struct far_patience patience = {
        .far = f, .seconds = FAR_WORK_SECONDS, .stopped_seconds = FAR_ANSWER_SECONDS, .looks = true
    };
    const struct payload_wait wait = { sim_far_await, (void *)&patience };
    const struct endpoint_start how = {
        .hello = &hello->link, .memory = control, .more = &f->memory, .more_count = 1
    };
    int status = PTO_EPEER;

    for (uint32_t i = 0; i < ATTEMPTS; i++) {
        arena_range_give(f->range, f->range_bytes);
        f->range = arena_range_take(f->range_bytes, i);
        if (f->range == NULL)
            return error_tell(error, PTO_ENOMEM, "%s", pto_strerror(PTO_ENOMEM));
        hello->device_addr = (uint64_t)(uintptr_t)f->range;
        far_open_lines(f);
        status = f->process.ops->start(&f->process, &how, error);
        if (status < 0)
            return status;
        watcher_add(&f->watcher, &f->process);
        status = payload_receive(f->run.line, answer_out, &f->run.in, &wait);
        if (status >= 0 && answer_out->kind != FAR_READY)
            status = PTO_EFORMAT;
        if (status != PTO_EPEER || !endpoint_is_misplaced(&f->process))
            break;
    }
    if (status >= 0)
        return PTO_OK;
    sim_far_bury_for(f, status, &patience);
    return error_tell(error, PTO_ESYSTEM,
                      "the process of the device ended before it was ready, or is not "
                      "pto-child; see what it printed, and PTO_CHILD");
}

static int greet(struct far *f, const struct chip_params *params, int control,
                 struct pto_error *error)
{
    struct far_channel *c = &f->run;
    struct far_hello hello = { .link = link_hello_make(LINK_DEVICE, sizeof(hello)),
                               .clusters = params->clusters,
                               .workers = params->workers,
                               .memory_max = params->memory_max,
                               .device_bytes = f->range_bytes };
    struct record_head answer;
    struct far_welcome welcome;
    int status;

    hello.link.memory_bytes = sizeof(struct far_control);
    hello.link.generation = 1;
    sim_far_sizes(hello.size);
    strncpy(hello.version, pto_version(), sizeof(hello.version) - 1);
    status = far_say_hello(f, &hello, control, &answer, error);
    if (status < 0)
        return status;
    if (answer.status < 0)
        return sim_far_tell(c, answer.status, error);
    payload_take_to(&c->in, &welcome, sizeof(welcome));
    if (c->in.is_short)
        return error_tell(error, PTO_ENOSUP, "pto-child is of another version than the library");
    f->record_addr = welcome.record;
    f->base.properties = welcome.properties;
    f->base.properties.backend = sim_far_backend.name;
    f->base.properties.shares_memory = false;
    f->base.properties.runs_functions = false;
    f->base.properties.has_observers = false;
    return PTO_OK;
}

static bool far_close(struct chip *chip)
{
    struct far *f = far_of(chip);
    struct far_patience patience = { .far = f, .seconds = FAR_ANSWER_SECONDS };
    const struct payload_wait wait = { sim_far_await, &patience };

    if (!far_is_gone(f)) {
        (void)payload_send(f->side.line, (struct record_head){ .kind = FAR_CLOSE }, NULL, &wait);
        (void)sim_far_await_end(f, FAR_ANSWER_SECONDS);
    }
    free_far(f);
    return true; /* whatever its kernels do ends with the process */
}

/* Also of one that was opened halfway. What still runs of the process is killed. */
static void free_far(struct far *f)
{
    watcher_stop(&f->watcher);
    f->process.ops->end(&f->process, 0);
    sim_far_forget_runs(f);
    sim_far_forget_memory(f);
    payload_free(&f->run.in);
    payload_free(&f->run.out);
    payload_free(&f->side.in);
    payload_free(&f->side.out);
    if (f->control != NULL)
        munmap(f->control, sizeof(*f->control));
    if (f->memory >= 0)
        close(f->memory);
    arena_range_give(f->range, f->range_bytes);
    pthread_mutex_destroy(&f->name_lock);
    pthread_mutex_destroy(&f->end_lock);
    pthread_mutex_destroy(&f->memory_lock);
    pthread_mutex_destroy(&f->side.lock);
    pthread_mutex_destroy(&f->run.lock);
    free(f);
}

bool sim_far_is_ours(const struct far *f)
{
    return getpid() == f->opener;
}

/* ---- requests ---- */

/* Constructors of code, and as much memory as there is, may take longer than others. */
static uint32_t seconds_for(const struct far_channel *c, uint32_t kind)
{
    switch (kind) {
    case FAR_LOAD:
    case FAR_FREE:
    case FAR_CHECK:
        return FAR_WORK_SECONDS;
    case FAR_PROGRESS:
        return c->is_late ? FAR_LATE_SECONDS : FAR_ANSWER_SECONDS;
    default:
        return FAR_ANSWER_SECONDS;
    }
}

static uint32_t stopped_seconds(const struct far_patience *patience)
{
    return patience->seconds < FAR_ANSWER_SECONDS ? patience->seconds : FAR_ANSWER_SECONDS;
}

int sim_far_call(struct far *f, struct far_channel *c, struct record_head head, uint64_t *value_out)
{
    struct far_patience patience = { .far = f,
                                     .seconds = seconds_for(c, head.kind),
                                     .stopped_seconds = FAR_ANSWER_SECONDS,
                                     .looks = true,
                                     .deadline_ns = c->deadline_ns };
    const struct payload_wait wait = { sim_far_await, &patience };
    struct record_head answer;
    int status;

    if (far_is_gone(f))
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
        sim_far_bury_for(f, status, &patience);
        return PTO_EPEER;
    }
    if (value_out != NULL && answer.status >= 0)
        *value_out = answer.value;
    return answer.status;
}

int sim_far_tell(struct far_channel *c, int status, struct pto_error *error)
{
    const char *text = payload_take_text(&c->in);
    char words[LIMIT_TEXT];

    return error_tell(error, status, "%s", text != NULL ? text : limit_strerror(status, words));
}

/* ---- its end ---- */

void sim_far_bury_for(struct far *f, int status, const struct far_patience *patience)
{
    sim_far_bury(f,
                 status == PTO_ETIMEOUT || status == PTO_ESTALL ? PEER_SILENT
                 : status == PTO_ECANCELED                      ? PEER_STOPPED
                 : status == PTO_EPEER                          ? PEER_UNKNOWN
                                                                : PEER_BROKEN,
                 status == PTO_ESTALL ? stopped_seconds(patience) : patience->seconds);
}

void sim_far_bury(struct far *f, enum peer_end end, uint64_t value)
{
    bool is_killed = end == PEER_SILENT || end == PEER_BROKEN || end == PEER_STOPPED;

    pthread_mutex_lock(&f->end_lock);
    if (!far_is_gone(f)) {
        if (is_killed)
            f->process.ops->kill(&f->process);
        if (sim_far_await_end(f, FAR_ANSWER_SECONDS) && !is_killed && f->process.is_end_known) {
            int status = f->process.end;

            end = WIFEXITED(status) ? PEER_EXITED : PEER_SIGNALLED;
            value = (uint64_t)(WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        }
        f->end = (struct failure){ .status = PTO_EPEER,
                                   .fault = FAULT_PEER,
                                   .argument = -1,
                                   .kernel = -1,
                                   .task = pto_task_id_invalid(),
                                   .value = { end, value } };
        f->end_ns = os_now_ns();
        f->end_cycles = port_cycles();
        take_will(f);
        a32_store_release(&f->is_gone, 1); /* what is above is complete */
    }
    pthread_mutex_unlock(&f->end_lock);
}

/* What the program left, if it could leave anything. It may be damaged like all the rest. */
static void take_will(struct far *f)
{
    struct far_will will;

    memcpy(&will, &f->control->will, sizeof(will)); /* before it is looked at */
    if (will.magic != FAR_MAGIC || a32_load_relaxed(&will.is_whole) == 0 ||
        will.suspect >= SUSPECTS)
        return;
    f->end.value[2] = will.suspect;
    if (will.count > FAR_WILL_KERNELS || will.suspect == SUSPECT_NONE)
        return;
    if (will.suspect == SUSPECT_ORCHESTRATION && will.count != 0 && will.kernel[0].kernel < 0) {
        will.kernel[0].file[FAR_WILL_FILE - 1] = '\0'; /* its last submit, and no kernel */
        f->end.site.line = will.kernel[0].line;
        if (will.kernel[0].file[0] != '\0')
            f->end.site.file = sim_far_intern(f, will.kernel[0].file);
        memmove(&will.kernel[0], &will.kernel[1], --will.count * sizeof(will.kernel[0]));
    }
    f->end_kernels.count = f->end_kernels.live = will.count;
    for (uint32_t i = 0; i < will.count; i++) {
        struct far_will_kernel *k = &will.kernel[i];
        struct stall_task *task = &f->end_kernels.task[i];

        *task = (struct stall_task){ .index = k->task,
                                     .cause = will.suspect == SUSPECT_LAST ? STALL_RAN : STALL_RUNS,
                                     .kernel = k->kernel,
                                     .block = k->block,
                                     .core = k->core,
                                     .is_aiv = k->is_aiv };
        k->file[FAR_WILL_FILE - 1] = '\0';
        task->site.line = k->line;
        if (k->file[0] != '\0')
            task->site.file = sim_far_intern(f, k->file);
    }
    if (will.count != 0 && will.suspect != SUSPECT_ORCHESTRATION) {
        f->end.kernel = will.kernel[0].kernel;
        f->end.site = f->end_kernels.task[0].site;
        f->end.value[3] = will.kernel[0].task;
        f->end.value[4] = will.kernel[0].block;
    }
}

int sim_far_tell_gone(struct far *f, struct pto_error *error)
{
    const struct failure *end = &f->end;

    switch (end->value[0]) {
    case PEER_EXITED:
        return error_tell(error, PTO_ELOST,
                          "the device is lost: its process ended with exit code "
                          "%d; close it and open another one",
                          (int)end->value[1]);
    case PEER_SIGNALLED:
        return error_tell(error, PTO_ELOST,
                          "the device is lost: its process was ended by signal "
                          "%d (%s); close it and open another one",
                          (int)end->value[1], strsignal((int)end->value[1]));
    case PEER_SILENT:
        return error_tell(error, PTO_ELOST,
                          "the device is lost: its process did not answer for %d s and was "
                          "ended; close it and open another one",
                          (int)end->value[1]);
    default:
        return error_tell(error, PTO_ELOST,
                          "the device is lost: its process has gone; close it "
                          "and open another one");
    }
}

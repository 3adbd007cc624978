/* SPDX-License-Identifier: Apache-2.0 */
/* An isolated chip as a backend: open and close, requests, and what is left of one that has gone. */
#include "sim/far.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limit.h"
#include "base/os.h"

/* Address space for device memory, at least; memory is there for what is used. */
#define DEVICE_BYTES_MIN (32ull << 30)
enum { ATTEMPTS = 16 }; /* to find addresses that are free on both sides */

static int far_open(const struct chip_params *params, struct chip **chip_out,
                    struct pto_error *error);
static bool far_close(struct chip *chip);
static int greet(struct far *f, const struct chip_params *params, struct pto_error *error);
static void take_will(struct far *f);
static void free_far(struct far *f);

static const struct chip_device_ops device_ops = {
    .open = far_open,
    .close = far_close,
};

const struct chip_backend sim_far_backend = {
    .name = "far",
    .device = &device_ops,
    .memory = &sim_far_memory_ops,
    .runs = &sim_far_run_ops,
};

/* ---- open, close ---- */

static uint64_t device_bytes(const struct chip_params *params)
{
    return params->memory_max > DEVICE_BYTES_MIN ? params->memory_max : DEVICE_BYTES_MIN;
}

static int far_open(const struct chip_params *params, struct chip **chip_out,
                    struct pto_error *error)
{
    struct far *f = calloc(1, sizeof(*f));
    int status;

    if (f == NULL)
        return error_tell(error, PTO_ENOMEM, "%s", pto_strerror(PTO_ENOMEM));
    status = sim_process_start(device_bytes(params), &f->process, error);
    if (status < 0) {
        free(f);
        return status;
    }
    f->base = (struct chip){ .backend = &sim_far_backend };
    f->range_bytes = device_bytes(params);
    f->opener = getpid();
    f->run.socket = f->process.run;
    f->side.socket = f->process.side;
    pthread_mutex_init(&f->run.lock, NULL);
    pthread_mutex_init(&f->side.lock, NULL);
    pthread_mutex_init(&f->memory_lock, NULL);
    pthread_mutex_init(&f->name_lock, NULL);
    pthread_mutex_init(&f->end_lock, NULL);
    status = greet(f, params, error);
    if (status < 0) {
        sim_far_bury(f, PEER_BROKEN, 0);
        free_far(f);
        return status;
    }
    *chip_out = &f->base;
    return PTO_OK;
}

/* Until the memory is where nothing is on either side. */
static int say_hello(struct far *f, struct far_hello *hello)
{
    struct far_channel *c = &f->run;
    int status = PTO_EAGAIN;

    for (uint32_t i = 0; i < ATTEMPTS && status == PTO_EAGAIN; i++) {
        arena_range_give(f->range, f->range_bytes);
        f->range = arena_range_take(f->range_bytes, i);
        if (f->range == NULL)
            return PTO_ENOMEM;
        hello->device_addr = (uint64_t)(uintptr_t)f->range;
        sim_bytes_clear(&c->out);
        sim_bytes_put(&c->out, hello, sizeof(*hello));
        status = sim_far_call(f, c, (struct far_head){ .kind = FAR_HELLO }, NULL);
    }
    return status;
}

static int greet(struct far *f, const struct chip_params *params, struct pto_error *error)
{
    struct far_channel *c = &f->run;
    struct far_hello hello = { .host = (int32_t)f->opener,
                               .clusters = params->clusters,
                               .workers = params->workers,
                               .memory_max = params->memory_max,
                               .device_bytes = f->range_bytes };
    struct far_welcome welcome;
    int status;

    sim_far_sizes(hello.size);
    strncpy(hello.version, pto_version(), sizeof(hello.version) - 1);
    status = say_hello(f, &hello);
    if (status == PTO_EPEER)
        return error_tell(error, PTO_ESYSTEM,
                          "the process of the device ended before it was ready, or is not "
                          "pto-chip; see what it printed, and PTO_CHIP");
    if (status < 0)
        return sim_far_tell(c, status, error);
    sim_bytes_take_to(&c->in, &welcome, sizeof(welcome));
    if (c->in.is_short)
        return error_tell(error, PTO_ENOSUP, "pto-chip is of another version than the library");
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
    const struct far_patience patience = { .process = f->process.descriptor,
                                           .seconds = FAR_ANSWER_SECONDS };
    int ignored;

    if (!far_is_gone(f)) {
        (void)sim_far_send(f->side.socket, &patience, (struct far_head){ .kind = FAR_CLOSE }, NULL);
        (void)sim_process_end(&f->process, false, &ignored);
    }
    free_far(f);
    return true; /* whatever its kernels do ends with the process */
}

static void free_far(struct far *f)
{
    sim_far_forget_runs(f);
    sim_far_forget_memory(f);
    sim_bytes_free(&f->run.in);
    sim_bytes_free(&f->run.out);
    sim_bytes_free(&f->side.in);
    sim_bytes_free(&f->side.out);
    sim_process_close(&f->process);
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
    case FAR_HELLO:
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

int sim_far_call(struct far *f, struct far_channel *c, struct far_head head, uint64_t *value_out)
{
    const struct far_patience patience = { .process = f->process.descriptor,
                                           .seconds = seconds_for(c, head.kind),
                                           .stopped_seconds = FAR_ANSWER_SECONDS,
                                           .pid = f->process.pid,
                                           .deadline_ns = c->deadline_ns };
    struct far_head answer;
    int status;

    if (far_is_gone(f))
        return PTO_EPEER;
    if (c->out.is_short)
        return PTO_ENOMEM;
    status = sim_far_send(c->socket, &patience, head, &c->out);
    sim_bytes_clear(&c->out);
    if (status >= 0)
        status = sim_far_receive(c->socket, &patience, &answer, &c->in);
    if (status >= 0 && (answer.kind != head.kind || answer.status > 0))
        status = PTO_EFORMAT;
    if (status < 0) {
        sim_far_bury(f,
                     status == PTO_ETIMEOUT || status == PTO_ESTALL ? PEER_SILENT
                     : status == PTO_ECANCELED                      ? PEER_STOPPED
                     : status == PTO_EPEER                          ? PEER_UNKNOWN
                                                                    : PEER_BROKEN,
                     status == PTO_ESTALL ? stopped_seconds(&patience) : patience.seconds);
        return PTO_EPEER;
    }
    if (value_out != NULL && answer.status >= 0)
        *value_out = answer.value;
    return answer.status;
}

int sim_far_tell(struct far_channel *c, int status, struct pto_error *error)
{
    const char *text = sim_bytes_take_text(&c->in);
    char words[LIMIT_TEXT];

    return error_tell(error, status, "%s", text != NULL ? text : limit_strerror(status, words));
}

/* ---- its end ---- */

void sim_far_bury(struct far *f, enum peer_end end, uint64_t value)
{
    bool is_killed = end == PEER_SILENT || end == PEER_BROKEN || end == PEER_STOPPED;
    int status;

    pthread_mutex_lock(&f->end_lock);
    if (!far_is_gone(f)) {
        if (sim_process_end(&f->process, is_killed, &status) && !is_killed) {
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
    ssize_t count;

    do
        count = read(f->process.will, &will, sizeof(will));
    while (count < 0 && errno == EINTR);
    if (count != (ssize_t)sizeof(will) || will.magic != FAR_MAGIC || will.suspect >= SUSPECTS)
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `pto-chip` does: it opens a simulated chip and does what the host asks of it. The
 * main thread runs what is to be run, a second one serves what may be asked meanwhile, and
 * a third one ends the process when the host has gone, whatever the others do.
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif

#include "sim/far_chip.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limit.h"
#include "base/object.h"
#include "sim/far_wire.h"
#include "sim/sim.h"

struct far_chip {
    struct chip *chip; /* NULL: the host has not said hello */
    struct arena *arena;
    int host;         /* descriptor of its process; -1: the system has none */
    struct a32 turns; /* of the two threads that serve: what one made the other sees */
    pthread_t side;
    pthread_t watch;
    struct pto_tensor tensor[PTO_ENTRY_TENSORS_MAX];
    uint64_t scalar[PTO_ENTRY_SCALARS_MAX];
};

static const struct far_patience forever = { .process = -1, .seconds = UINT32_MAX };

_Noreturn static void end_process(void);
static void serve(struct far_chip *p, int socket);
static void answer_request(struct far_chip *p, struct far_head *head, struct far_bytes *in,
                           struct far_bytes *out);
static void *side_main(void *arg);
static void *watch_main(void *arg);

int sim_chip_serve(void)
{
    static const int from_terminal[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP };
    struct far_chip *p = aligned_alloc(64, (sizeof(*p) + 63) / 64 * 64);
    struct stat about;

    if (p == NULL || fstat(FAR_SIDE_FD, &about) != 0 || !S_ISSOCK(about.st_mode)) {
        fprintf(stderr, "pto-chip: libpto starts this program for devices in a process of their "
                        "own; there is nothing to do with it by hand\n");
        return 2;
    }
    memset(p, 0, sizeof(*p));
    /* They are meant for the host, which decides what becomes of its devices. */
    for (uint32_t i = 0; i < sizeof(from_terminal) / sizeof(from_terminal[0]); i++)
        (void)signal(from_terminal[i], SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0); /* what kernels print and what the host prints is in order */
    sim_will_begin();
    serve(p, FAR_RUN_FD);
    end_process();
}

/* There is no will, and kernels may go on. */
_Noreturn static void end_process(void)
{
    object_leave();
    _exit(0);
}

/* ---- threads ---- */

/* Until the other side has gone. */
static void serve(struct far_chip *p, int socket)
{
    struct far_bytes in = { 0 }, out = { 0 };
    struct far_head head;

    while (sim_far_receive(socket, &forever, &head, &in) >= 0) {
        struct far_head answer = { .kind = head.kind };

        answer.value = head.value;
        sim_bytes_clear(&out);
        a32_add_acq_rel(&p->turns, 1); /* the host puts requests in an order, but not in memory */
        answer_request(p, &answer, &in, &out);
        a32_add_acq_rel(&p->turns, 1);
        if (out.is_short) {
            sim_bytes_clear(&out);
            answer.status = PTO_ENOMEM;
        }
        if (sim_far_send(socket, &forever, answer, &out) < 0)
            break;
    }
}

static void *side_main(void *arg)
{
    serve(arg, FAR_SIDE_FD);
    end_process();
}

/* The pipe's other end is the host's alone; but a child of the host's may have a copy. */
static void *watch_main(void *arg)
{
    struct far_chip *p = arg;
    struct pollfd on[2] = { { .fd = p->host, .events = POLLIN }, { .fd = FAR_WILL_FD } };

    while (poll(on, 2, -1) <= 0) {
    }
    end_process();
}

/* ---- hello ---- */

static bool is_same_version(const struct far_hello *hello, const struct far_bytes *in)
{
    uint32_t size[FAR_SIZES];

    sim_far_sizes(size);
    return !in->is_short && memcmp(size, hello->size, sizeof(size)) == 0 &&
           strncmp(hello->version, pto_version(), sizeof(hello->version)) == 0;
}

static int open_chip(struct far_chip *p, const struct far_hello *hello)
{
    const struct chip_params params = { .backend = "sim",
                                        .clusters = hello->clusters,
                                        .workers = hello->workers,
                                        .memory_max = hello->memory_max };
    int status = arena_open(FAR_MEMORY_FD, (void *)(uintptr_t)hello->device_addr,
                            hello->device_bytes, &p->arena);

    if (status < 0)
        return status;
    p->host = (int)syscall(SYS_pidfd_open, hello->host, 0);
    if (getppid() != hello->host)
        _exit(0); /* it has gone already */
    if (os_thread_start(&p->watch, watch_main, p) < 0)
        return PTO_ESYSTEM;
    status = sim_open_in(&params, p->arena, &p->chip);
    if (status < 0)
        return status;
    sim_will_name(sim_of(p->chip));
    return os_thread_start(&p->side, side_main, p);
}

static int take_hello(struct far_chip *p, struct far_bytes *in, struct far_bytes *out)
{
    struct far_hello hello;
    struct far_welcome welcome;
    char words[LIMIT_TEXT];
    int status;

    sim_bytes_take_to(in, &hello, sizeof(hello));
    if (p->chip != NULL || !is_same_version(&hello, in)) {
        hello.version[FAR_VERSION_TEXT - 1] = '\0';
        char text[200];

        snprintf(text, sizeof(text),
                 "pto-chip is of version %s, and the library of version %s or built in another "
                 "way; install both together",
                 pto_version(), hello.version);
        sim_bytes_put_text(out, text);
        return PTO_ENOSUP;
    }
    status = open_chip(p, &hello);
    if (status < 0) {
        sim_bytes_put_text(out, limit_strerror(status, words));
        return status;
    }
    welcome = (struct far_welcome){ .properties = p->chip->properties,
                                    .record = (uint64_t)(uintptr_t)sim_of(p->chip)->record };
    sim_bytes_put(out, &welcome, sizeof(welcome));
    return PTO_OK;
}

/* ---- code ---- */

static struct chip_object take_object(struct far_bytes *in)
{
    struct chip_object object = { .name = sim_bytes_take_text(in) };
    uint64_t size;

    sim_bytes_take_to(in, &size, sizeof(size));
    object.size = size;
    object.bytes = sim_bytes_take(in, size);
    return object;
}

static int take_program(struct far_chip *p, struct far_bytes *in, struct far_bytes *out,
                        uint64_t *value_out)
{
    struct chip_program program = { .name = sim_bytes_take_text(in) };
    struct pto_error error;
    struct chip_kernel *kernels;
    struct chip_code *code;
    uint64_t count;
    int status;

    program.entry = sim_bytes_take_text(in);
    program.config = sim_bytes_take_text(in);
    program.orchestration = take_object(in);
    sim_bytes_take_to(in, &count, sizeof(count));
    kernels = count <= in->size ? calloc(count + 1, sizeof(*kernels)) : NULL;
    if (kernels == NULL)
        return PTO_ENOMEM;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t ids[2];

        sim_bytes_take_to(in, ids, sizeof(ids));
        kernels[i] = (struct chip_kernel){ .func_id = ids[0], .core_type = ids[1] };
        kernels[i].object = take_object(in);
    }
    program.kernels = kernels;
    program.kernel_count = (uint32_t)count;
    pto_error_init(&error);
    status = in->is_short ? PTO_EFORMAT : chip_load(p->chip, &program, &code, &error);
    free(kernels);
    if (status < 0)
        sim_bytes_put_text(out, error.text);
    else
        *value_out = (uint64_t)(uintptr_t)code;
    return status;
}

/* ---- runs ---- */

/* What kernels printed without ending the line; a kernel that never returns may have the lock. */
static void flush_output(void)
{
    if (ftrylockfile(stdout) != 0)
        return;
    (void)fflush_unlocked(stdout);
    funlockfile(stdout);
}

static void put_ended(struct far_bytes *out, const struct chip_result *result,
                      const struct pto_run_report *report)
{
    struct run_ended ended = { .failure = result->failure,
                               .stall = result->stall,
                               .trace = result->trace,
                               .graph = (uint64_t)(uintptr_t)result->graph,
                               .is_lost = result->is_lost,
                               .is_builder_lost = result->is_builder_lost,
                               .is_kernel_lost = result->is_kernel_lost,
                               .report = *report };
    bool has_failed = result->failure.status < 0;

    ended.failure.site.file = NULL;
    for (uint32_t i = 0; i < STALL_TASKS; i++)
        ended.stall.task[i].site.file = NULL;
    sim_bytes_put(out, &ended, sizeof(ended));
    sim_bytes_put_text(out, has_failed ? result->failure.site.file : NULL);
    for (uint32_t i = 0; i < result->stall.count; i++)
        sim_bytes_put_text(out, result->stall.task[i].site.file);
}

static int take_run(struct far_chip *p, struct far_bytes *in, struct far_bytes *out)
{
    struct pto_run_report report = { .size = sizeof(report) };
    struct chip_result refused = { .failure = { .kernel = -1, .argument = -1 } };
    const struct chip_result *result = &refused;
    struct run_message run;
    struct pto_entry entry;
    struct chip_request request;

    sim_bytes_take_to(in, &run, sizeof(run));
    if (run.tensor_count > PTO_ENTRY_TENSORS_MAX || run.scalar_count > PTO_ENTRY_SCALARS_MAX)
        return PTO_EFORMAT;
    sim_bytes_take_to(in, p->tensor, run.tensor_count * sizeof(p->tensor[0]));
    sim_bytes_take_to(in, p->scalar, run.scalar_count * sizeof(p->scalar[0]));
    for (uint32_t i = run.tensor_count; i < PTO_ENTRY_TENSORS_MAX; i++) /* as the host marks them */
        p->tensor[i] = pto_tensor_absent(i);
    entry = (struct pto_entry){ run.tensor_count, run.scalar_count, p->tensor, p->scalar };
    request = (struct chip_request){ .number = run.number,
                                     .purpose = (enum chip_purpose)run.purpose,
                                     .code = (struct chip_code *)(uintptr_t)run.code,
                                     .graph = (struct chip_graph *)(uintptr_t)run.graph,
                                     .entry = &entry,
                                     .options = &run.options,
                                     .has_rings = run.has_rings != 0,
                                     .stall_ns = run.stall_ns,
                                     .launch_deadline_ns = run.launch_deadline_ns };
    refused.failure.task = pto_task_id_invalid();
    refused.failure.status = in->is_short ? PTO_EFORMAT : chip_start(p->chip, &request);
    if (refused.failure.status >= 0) {
        chip_wait(p->chip);
        result = chip_report(p->chip, &report);
        flush_output();
    }
    put_ended(out, result, &report);
    return PTO_OK;
}

/* ---- requests ---- */

static int tell(struct far_bytes *out, int status, const struct pto_error *error)
{
    if (status < 0)
        sim_bytes_put_text(out, error->text);
    return status;
}

static void answer_request(struct far_chip *p, struct far_head *head, struct far_bytes *in,
                           struct far_bytes *out)
{
    struct pto_error error;
    uint64_t value = head->value;

    pto_error_init(&error);
    if (head->kind != FAR_HELLO && p->chip == NULL) {
        head->status = PTO_EINVAL;
        return;
    }
    switch (head->kind) {
    case FAR_HELLO:
        head->status = take_hello(p, in, out);
        break;
    case FAR_RUN:
        head->status = take_run(p, in, out);
        break;
    case FAR_DROP:
        chip_drop(p->chip, (struct chip_graph *)(uintptr_t)value);
        break;
    case FAR_ALLOC:
        head->status = chip_alloc(p->chip, value, &head->value, NULL);
        break;
    case FAR_FREE:
        head->status = tell(out, chip_free(p->chip, value, &error), &error);
        break;
    case FAR_CHECK:
        head->status = tell(out, chip_check(p->chip, &error), &error);
        break;
    case FAR_LOAD:
        head->status = take_program(p, in, out, &head->value);
        break;
    case FAR_UNLOAD:
        chip_unload(p->chip, (struct chip_code *)(uintptr_t)value);
        break;
    case FAR_CANCEL:
        chip_cancel(p->chip, value);
        break;
    case FAR_PROGRESS:
        head->value = chip_progress(p->chip);
        break;
    case FAR_CLOSE:
        flush_output();
        end_process();
    default:
        head->status = PTO_ENOSUP;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process of an isolated chip: it opens a simulated chip and serves the host's requests. The
 * main thread runs graphs, a second thread serves requests that may come during a run. Another
 * thread ends the process when the host has gone, whatever the others do (link/hello.c).
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif

#include "sim/isolated_serve.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limit.h"
#include "sim/isolated_wire.h"
#include "sim/sim.h"

struct isolated_server {
    struct chip *chip;
    struct arena *arena;
    struct isolated_hello hello;
    struct line line[ISOLATED_LINES];
    struct spin_policy spin_policy;
    /*
     * Counts requests. Each serving thread increments it around a request with acquire-release
     * order, so that it sees what the other thread did before.
     */
    struct a32 turns;
    pthread_t side;
    struct pto_tensor tensor[PTO_ENTRY_TENSORS_MAX];
    uint64_t scalar[PTO_ENTRY_SCALARS_MAX];
};

static int serve_open(struct isolated_server *p, struct payload *out);
static void serve_send(struct isolated_server *p, struct line *l, struct record_head head,
                       struct payload *out);
_Noreturn static void serve_serve(struct isolated_server *p, struct line *l);
static void serve_answer(struct isolated_server *p, struct record_head *head, struct payload *in,
                         struct payload *out);

int sim_isolated_serve(void)
{
    static const int from_terminal[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP };
    struct isolated_server *p = aligned_alloc(64, (sizeof(*p) + 63) / 64 * 64);
    struct record_head ready = { .kind = ISOLATED_READY };
    struct payload out = { 0 };
    void *memory;
    int code = CHILD_EXIT_HELLO;

    if (p != NULL) {
        memset(p, 0, sizeof(*p));
        code = link_meet(&p->hello, sizeof(p->hello), &memory);
    }
    if (code == 0 && p->hello.link.memory_bytes != sizeof(struct isolated_control))
        code = CHILD_EXIT_HELLO;
    if (code != 0) {
        free(p);
        return code;
    }
    close(LINK_MEMORY_FD); /* the descriptor is not needed any more, because the memory is mapped */
    /*
     * Ignore signals from the terminal. The host gets them as well, and decides what happens to its
     * devices.
     */
    for (uint32_t i = 0; i < sizeof(from_terminal) / sizeof(from_terminal[0]); i++)
        (void)signal(from_terminal[i], SIG_IGN);
    /* line buffering keeps the output of kernels in order with that of the host */
    setvbuf(stdout, NULL, _IOLBF, 0);
    p->spin_policy = waker_spin_policy(2);
    for (uint32_t i = 0; i < ISOLATED_LINES; i++) {
        struct isolated_line *line = &((struct isolated_control *)memory)->line[i];

        line_open(&p->line[i],
                  &(struct line_ends){ .out = &line->to_host,
                                       .in = &line->to_chip,
                                       .own = &line->chip,
                                       .other = &line->host },
                  p->hello.link.generation, ISOLATED_KINDS);
    }
    sim_report_begin(&((struct isolated_control *)memory)->report);
    ready.status = serve_open(p, &out);
    serve_send(p, &p->line[ISOLATED_LINE_RUNS], ready, &out);
    payload_free(&out);
    serve_serve(p, &p->line[ISOLATED_LINE_RUNS]);
}

/* ---- threads ---- */

static void serve_send(struct isolated_server *p, struct line *l, struct record_head head,
                       struct payload *out)
{
    const struct payload_wait wait = { payload_await, &p->spin_policy };

    if (out->is_short) {
        payload_clear(out);
        head.status = PTO_ENOMEM;
    }
    if (payload_send(l, head, out, &wait) < 0)
        link_leave(CHILD_EXIT_BROKEN);
}

static void serve_serve(struct isolated_server *p, struct line *l)
{
    const struct payload_wait wait = { payload_await, &p->spin_policy };
    struct payload in = { 0 }, out = { 0 };
    struct record_head head;

    while (payload_receive(l, &head, &in, &wait) >= 0) {
        struct record_head answer = { .kind = head.kind, .key = head.key, .value = head.value };

        payload_clear(&out);
        /*
         * acquire-release: requests of the two threads follow each other in time, but that alone
         * does not order the memory accesses of the threads
         */
        a32_add_acq_rel(&p->turns, 1);
        serve_answer(p, &answer, &in, &out);
        a32_add_acq_rel(&p->turns, 1);
        serve_send(p, l, answer, &out);
    }
    link_leave(CHILD_EXIT_BROKEN);
}

static void *serve_side_main(void *arg)
{
    struct isolated_server *p = arg;

    serve_serve(p, &p->line[ISOLATED_LINE_SIDE]);
}

/* ---- hello ---- */

static bool is_same_version(const struct isolated_hello *hello)
{
    uint32_t size[ISOLATED_SIZES];

    sim_isolated_sizes(size);
    return memcmp(size, hello->size, sizeof(size)) == 0 &&
           strncmp(hello->version, pto_version(), sizeof(hello->version)) == 0;
}

static int open_chip(struct isolated_server *p)
{
    const struct isolated_hello *hello = &p->hello;
    const struct chip_params params = { .backend = "sim",
                                        .clusters = hello->clusters,
                                        .workers = hello->workers,
                                        .memory_max = hello->memory_max };
    int status = arena_open(LINK_MORE_FD, (void *)(uintptr_t)hello->device_addr,
                            hello->device_bytes, &p->arena);

    if (status == PTO_EAGAIN)
        link_leave(CHILD_EXIT_ADDRESS);
    if (status < 0)
        return status;
    status = sim_open_in(&params, p->arena, &p->chip);
    if (status < 0)
        return status;
    status_record_open(&p->chip->status, true);
    sim_report_name(sim_of(p->chip));
    return os_thread_start(&p->side, serve_side_main, p);
}

/* Opens the chip. `out` is the payload of the first record: isolated_welcome or an error. */
static int serve_open(struct isolated_server *p, struct payload *out)
{
    struct isolated_welcome welcome;
    char text[200], words[LIMIT_TEXT];
    int status;

    if (!is_same_version(&p->hello)) {
        p->hello.version[ISOLATED_VERSION_TEXT - 1] = '\0';
        snprintf(text, sizeof(text),
                 "pto-child is of version %s, and the library of version %s or built in another "
                 "way; install both together",
                 pto_version(), p->hello.version);
        payload_put_text(out, text);
        return PTO_ENOSUP;
    }
    status = open_chip(p);
    if (status < 0) {
        payload_put_text(out, limit_strerror(status, words));
        return status;
    }
    welcome = (struct isolated_welcome){ .properties = p->chip->properties,
                                         .record = (uint64_t)(uintptr_t)sim_of(p->chip)->record };
    payload_put(out, &welcome, sizeof(welcome));
    return PTO_OK;
}

/* ---- code ---- */

static struct chip_object take_object(struct payload *in)
{
    struct chip_object object = { .name = payload_take_text(in) };
    uint64_t size;

    payload_take_to(in, &size, sizeof(size));
    object.size = size;
    object.bytes = payload_take(in, size);
    return object;
}

static int take_program(struct isolated_server *p, struct payload *in, struct payload *out,
                        uint64_t *value_out)
{
    struct chip_program program = { .name = payload_take_text(in) };
    struct pto_error error;
    struct chip_kernel *kernels;
    struct chip_code *code;
    uint64_t count;
    int status;

    program.entry = payload_take_text(in);
    program.config = payload_take_text(in);
    program.orchestration = take_object(in);
    payload_take_to(in, &count, sizeof(count));
    kernels = count <= in->size ? calloc(count + 1, sizeof(*kernels)) : NULL;
    if (kernels == NULL)
        return PTO_ENOMEM;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t ids[2];

        payload_take_to(in, ids, sizeof(ids));
        kernels[i] = (struct chip_kernel){ .func_id = ids[0], .core_type = ids[1] };
        kernels[i].object = take_object(in);
    }
    program.kernels = kernels;
    program.kernel_count = (uint32_t)count;
    pto_error_init(&error);
    status = in->is_short ? PTO_EFORMAT : chip_load(p->chip, &program, &code, &error);
    free(kernels);
    if (status < 0)
        payload_put_text(out, error.text);
    else
        *value_out = (uint64_t)(uintptr_t)code;
    return status;
}

/* ---- runs ---- */

/*
 * Writes out incomplete lines that kernels have printed, unless a kernel that never returns holds
 * the lock of stdout.
 */
static void flush_output(void)
{
    if (ftrylockfile(stdout) != 0)
        return;
    (void)fflush_unlocked(stdout);
    funlockfile(stdout);
}

static void put_ended(struct payload *out, const struct chip_result *result,
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
    payload_put(out, &ended, sizeof(ended));
    payload_put_text(out, has_failed ? result->failure.site.file : NULL);
    for (uint32_t i = 0; i < result->stall.count; i++)
        payload_put_text(out, result->stall.task[i].site.file);
}

static int take_run(struct isolated_server *p, struct payload *in, struct payload *out)
{
    struct pto_run_report report = { .size = sizeof(report) };
    struct chip_result refused = { .failure = { .kernel = -1, .argument = -1 } };
    const struct chip_result *result = &refused;
    struct run_message run;
    struct chip_code *code;
    struct pto_entry entry;
    struct chip_request request;

    payload_take_to(in, &run, sizeof(run));
    if (run.tensor_count > PTO_ENTRY_TENSORS_MAX || run.scalar_count > PTO_ENTRY_SCALARS_MAX)
        return PTO_EFORMAT;
    payload_take_to(in, p->tensor, run.tensor_count * sizeof(p->tensor[0]));
    payload_take_to(in, p->scalar, run.scalar_count * sizeof(p->scalar[0]));
    /* mark tensors after the last one of the entry as absent, as the host does */
    for (uint32_t i = run.tensor_count; i < PTO_ENTRY_TENSORS_MAX; i++)
        p->tensor[i] = pto_tensor_absent(i);
    entry = (struct pto_entry){ run.tensor_count, run.scalar_count, p->tensor, p->scalar };
    code = (struct chip_code *)(uintptr_t)run.code;
    request = (struct chip_request){ .number = run.number,
                                     .purpose = (enum chip_purpose)run.purpose,
                                     .code = code,
                                     .graph = (struct chip_graph *)(uintptr_t)run.graph,
                                     .entry = &entry,
                                     .kernel_name = (const char *const *)code->kernel_name,
                                     .kernel_name_count = code->functions.kernel_count,
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

static int reply_status(struct payload *out, int status, const struct pto_error *error)
{
    if (status < 0)
        payload_put_text(out, error->text);
    return status;
}

static void serve_answer(struct isolated_server *p, struct record_head *head, struct payload *in,
                         struct payload *out)
{
    struct pto_error error;
    uint64_t value = head->value;

    pto_error_init(&error);
    if (p->chip == NULL) {
        head->status = PTO_EINVAL;
        return;
    }
    switch (head->kind) {
    case ISOLATED_RUN:
        head->status = take_run(p, in, out);
        break;
    case ISOLATED_DROP:
        chip_drop(p->chip, (struct chip_graph *)(uintptr_t)value);
        break;
    case ISOLATED_ALLOC:
        head->status = chip_alloc(p->chip, value, &head->value, NULL);
        break;
    case ISOLATED_FREE:
        head->status = reply_status(out, chip_free(p->chip, value, &error), &error);
        break;
    case ISOLATED_CHECK:
        head->status = reply_status(out, chip_check(p->chip, &error), &error);
        break;
    case ISOLATED_LOAD:
        head->status = take_program(p, in, out, &head->value);
        break;
    case ISOLATED_UNLOAD:
        chip_unload(p->chip, (struct chip_code *)(uintptr_t)value);
        break;
    case ISOLATED_CANCEL:
        chip_cancel(p->chip, value);
        break;
    case ISOLATED_PROGRESS:
        head->value = chip_progress(p->chip);
        break;
    case ISOLATED_CLOSE:
        flush_output();
        /* ends the process at once, without an exit report, because kernels may still run */
        link_leave(0);
    default:
        head->status = PTO_ENOSUP;
    }
}

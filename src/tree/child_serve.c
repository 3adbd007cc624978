/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process of a child: reads the worker's records (messages) in order from its stream, and
 * answers them. A chip's child opens a device and runs callables on it like any program; a SUB
 * worker calls functions. The process ends when the one that started it has ended, for any reason.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tree/child_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include "base/code_file.h"
#include "base/object.h"
#include "base/os.h"
#include "base/sized.h"
#include "host/host.h"
#include "pto/pto.h"
#include "pto/worker.h"
#include "tree/tree_nested.h"

/*
 * Bytes of stack to unpoison below the frame of the cleanup handler: the frames there have ended.
 */
enum { STALE_STACK = 1 << 18 };

static int meet(struct child *c);
static int open_child(struct child *c, struct pto_error *error);
static int open_device(struct child *c, struct pto_error *error);
static int serve_records(struct child *c);
static bool has_record(void *context);
static bool handle(struct child *c, struct record *r);

int pto_child_serve(void)
{
    return child_serve(NULL, NULL);
}

int pto_child_serve_with(const struct pto_child_hooks *given)
{
    struct pto_child_hooks hooks;

    pto_child_hooks_init(&hooks);
    if (sized_read(&hooks, sizeof(hooks), given) < 0 || hooks.load == NULL || hooks.call == NULL ||
        hooks.unload == NULL) {
        fprintf(stderr, "pto_child_serve_with: the hooks are not initialised, or incomplete\n");
        return CHILD_EXIT_HOOKS;
    }
    return child_serve(&hooks, NULL);
}

static void call_watch(const struct child *c, uint64_t number, bool is_done)
{
    if (c->watch != NULL)
        c->watch->at(c->watch->context, c->hello.child, number, is_done);
}

static void send_room_available(struct child *c)
{
    c->records.in.has_passed = false;
    child_answer(c, RECORD_PASSED, 0, PTO_OK, "");
}

/*
 * Reports a task whose function has ended this thread with pthread_exit. Otherwise the process
 * would continue with its other threads, and the worker would wait until the task's time-out.
 */
static void report_thread_end(struct child *c)
{
    const struct record_head head = { .kind = RECORD_DONE, .key = c->key, .status = PTO_EPEER };
    struct wire_failure failure = {
        .text = "the function called pthread_exit, which ended the child; a function has to return"
    };

    child_send(c, &head, (struct record_part){ &failure, sizeof(failure) });
}

/* ---- functions that end the process ---- */

/* the child's line to the worker, for keep_end, to which no context can be passed */
static struct tree_line *line_here;

/*
 * Stores the sentence that says where the process ended, for the worker's error message. Called in
 * an exit handler, or in a forked child.
 */
static void keep_end(const char *sentence)
{
    snprintf(line_here->end, sizeof(line_here->end), "%s", sentence);
    /* release: publishes `end` to tree_child_describe_place */
    a32_store_release(&line_here->has_end, 1);
}

static void report_function_end(struct crash *crash, int number)
{
    struct child *c = (struct child *)(void *)((char *)crash - offsetof(struct child, crash));

    if (c->has_task && c->device == NULL) /* mutation: silent-function */
        crash_report_end(number, "the function of the task", (const void *)(uintptr_t)c->fn);
}

static void keep_place(void *context)
{
    const struct child *c = context;
    struct source_lines lines = { 0 };
    uintptr_t frame[CRASH_FRAMES_MAX];
    char text[TREE_TEXT] = "it was", where[TREE_TEXT / 2];
    uint32_t count = c->crash.answer_count;

    memcpy(frame, c->crash.answer, sizeof(frame));
    count = crash_skip_libraries(frame, count, (const void *)(uintptr_t)c->fn);
    lines_find(frame, count, (const void *)(uintptr_t)c->fn, &lines);
    lines_describe(&lines, where, sizeof(where));
    snprintf(text, sizeof(text), "it was%s", lines.count != 0 ? where + 1 : " elsewhere");
    keep_end(text);
}

/* Called in a signal handler, when the worker asks where a late function is. */
static void report_function_place(struct crash *crash)
{
    struct child *c = (struct child *)(void *)((char *)crash - offsetof(struct child, crash));

    if (!c->has_task || c->fn == NULL || !crash_call_in_child(keep_place, c))
        keep_end("");
}

/*
 * Prepares the reports of functions that end the process. A thread of a simulated chip reports
 * through the struct crash of its run.
 */
static void child_watch_ends(struct child *c)
{
    line_here = c->line;
    crash_set_reporter(keep_end);
    (void)crash_init(); /* ignored: without signal handlers only exit is reported */
    c->crash.last_words = report_function_end;
    c->crash.interrupted = c->hello.kind == PTO_CHILD_SUB ? report_function_place : NULL;
    crash_begin(&c->crash, &c->depth);
}

static void leave_with_thread(void *context)
{
    struct child *c = context;

/* frames that pthread_exit has unwound leave AddressSanitizer's poison on the stack */
#if defined(__SANITIZE_ADDRESS__)
    char *frame = __builtin_frame_address(0);

    __asan_unpoison_memory_region(frame - STALE_STACK, STALE_STACK);
#endif
    if (c->has_task)
        report_thread_end(c);
    link_leave(CHILD_EXIT_THREAD);
}

/* Serves records, and ends the process if called code ends the thread. Returns the exit code. */
static int child_serve_guarded(struct child *c)
{
    int code;

    pthread_cleanup_push(leave_with_thread, c);
    code = serve_records(c);
    pthread_cleanup_pop(0);
    return code;
}

static int serve_records(struct child *c)
{
    struct record r;

    for (;;) {
        switch (line_receive(&c->records, &r)) {
        case CHANNEL_RECORD:
            call_watch(c, r.head.number, false);
            if (!handle(c, &r))
                return 0;
            call_watch(c, r.head.number, true);
            break;
        case CHANNEL_EMPTY:
            /*
             * The worker may be waiting for the room in the stream of records that it took back.
             * Only this record tells the worker that the child has skipped them.
             */
            if (c->records.in.has_passed)
                send_room_available(c);
            else
                /* without a deadline: if the worker ends, another thread ends this process */
                (void)waker_await(c->records.own,
                                  &(struct waker_wait){ .holds = has_record,
                                                        .context = c,
                                                        .policy = c->spin_policy,
                                                        .deadline_ns = UINT64_MAX });
            break;
        case CHANNEL_BROKEN:
            link_leave(CHILD_EXIT_BROKEN);
        }
    }
}

int child_serve(const struct pto_child_hooks *hooks, const struct child_watch *watch)
{
    struct link_hello hello;
    struct pto_error error;
    struct child *c;
    int code = link_hello_read(&hello);

    if (code == 0 && hello.kind == LINK_DEVICE)
        return chip_serve();
    c = calloc(1, sizeof(*c));
    if (code == 0)
        code = c != NULL ? meet(c) : CHILD_EXIT_HELLO;
    if (code != 0) {
        free(c);
        return code;
    }
    c->watch = watch;
    c->hooks = hooks;
    c->tracer.file = -1;
    call_watch(c, 0, false);
    child_watch_ends(c);
    pto_error_init(&error);
    child_answer(c, RECORD_READY, 0, open_child(c, &error), error.text);
    a32_store_relaxed(&c->line->status.doing, TREE_IDLE);
    call_watch(c, 0, true);
    code = child_serve_guarded(c);
    if (c->worker != NULL)
        (void)pto_worker_close(c->worker);
    for (uint32_t i = 0; i < TREE_CALLABLES; i++)
        child_forget(&c->loaded[i]);
    child_domains_close(c->domains);
    child_regions_close(c->regions);
    if (c->held != NULL)
        device_unpin(c->held);
    if (c->device != NULL)
        (void)pto_device_close(c->device);
    child_trace_close(&c->tracer);
    crash_end(&c->crash);
    child_time_close(c);
    free(c);
    return code;
}

/* ---- start ---- */

static int meet(struct child *c)
{
    struct tree_hello *h = &c->hello;
    void *memory;
    int code = link_meet(h, sizeof(*h), &memory);

    if (code != 0)
        return code;
    h->platform[sizeof(h->platform) - 1] = '\0';
    h->nested.platform[sizeof(h->nested.platform) - 1] = '\0';
    /* a nested worker needs the descriptor of the memory for its own children */
    if (h->kind != PTO_CHILD_WORKER)
        close(LINK_MEMORY_FD);
    c->shared = (struct tree_shared *)(uintptr_t)h->shared;
    c->line = &c->shared->line[h->child];
    line_open(&c->records,
              &(struct line_ends){ .out = &c->line->to_worker,
                                   .in = &c->line->to_child,
                                   .own = &c->line->waker,
                                   .other = &c->shared->waker },
              h->link.generation, RECORD_KINDS);
    c->records.in.has_claims = true;
    c->spin_policy = waker_spin_policy(h->process_count);
    return 0;
}

static int open_child(struct child *c, struct pto_error *error)
{
    int status = PTO_OK;

    if (c->hello.kind == PTO_CHILD_WORKER)
        return child_nested_open(&c->hello, &c->worker, error);
    if (c->hello.kind == PTO_CHILD_CHIP)
        status = open_device(c, error);
    return status < 0 ? status : child_time_open(c, error);
}

static int open_device(struct child *c, struct pto_error *error)
{
    struct pto_device_params params;
    int status;

    pto_device_params_init(&params);
    params.platform = c->hello.platform;
    params.clusters = c->hello.clusters;
    params.workers = c->hello.workers;
    params.card = c->hello.device;
    params.is_virtual = c->hello.is_virtual;
    params.error = error;
    status = pto_device_open(&params, &c->device);
    if (status < 0)
        return status;
    /*
     * Only if the device is pinned can its chip use the worker's memory directly; otherwise
     * callables with a signature get copies of their tensors.
     */
    if (device_pin(c->device, &c->held, NULL) < 0)
        return PTO_OK;
    if (chip_window_ways(c->held->chip) != 0) {
        status = child_domains_open(c->held->chip, c->hello.child, &c->line->alarm, &c->domains);
        if (status >= 0)
            status = child_regions_open(c->held->chip, &c->hello, c->shared, &c->regions);
        return status < 0 ? error_setf(error, status, "no thread can be started") : PTO_OK;
    }
    if (!chip_can_register_memory(c->held->chip))
        return PTO_OK;
    status = chip_register_memory(c->held->chip, c->hello.link.addr, c->hello.link.memory_bytes);
    return status < 0 ? error_setf(error, status, "the chip cannot register the worker's memory")
                      : PTO_OK;
}

static bool has_record(void *context)
{
    return !channel_is_empty(&((struct child *)context)->records.in);
}

/* ---- answers ---- */

static bool can_write(void *context)
{
    return channel_has_room(&((struct child *)context)->records.out, sizeof(struct wire_failure));
}

void child_send(struct child *c, const struct record_head *head, struct record_part part)
{
    while (!can_write(c)) { /* the worker reads records and frees room soon, unless it is stopped */
        if (c->records.out.is_broken)
            link_leave(CHILD_EXIT_BROKEN);
        (void)waker_await(c->records.own,
                          &(struct waker_wait){ .holds = can_write,
                                                .context = c,
                                                .policy = c->spin_policy,
                                                .deadline_ns = os_now_ns() + 1000000 });
    }
    (void)line_send(&c->records, head, &part, part.size != 0);
}

void child_answer(struct child *c, uint32_t kind, uint64_t key, int status, const char *text)
{
    const struct record_head head = { .kind = kind, .key = key, .status = status };

    child_send(
        c, &head,
        (struct record_part){ text, status < 0 ? (uint32_t)strnlen(text, TREE_TEXT - 1) : 0 });
}

/* Returns the domain that the record names by its address; NULL: the address is invalid. */
static struct wire_domain *domain_of(const struct child *c, const struct record *r)
{
    uint64_t offset = r->head.value - c->hello.link.addr;
    struct wire_domain *wire = (struct wire_domain *)(uintptr_t)r->head.value;

    if (c->domains == NULL || offset >= c->hello.link.memory_bytes ||
        c->hello.link.memory_bytes - offset < sizeof(*wire) ||
        r->head.value % alignof(struct wire_domain) != 0)
        return NULL;
    return wire;
}

/* Handles a record. False: it is RECORD_END, and the child ends. */
static bool handle(struct child *c, struct record *r)
{
    struct pto_error error;
    int status;

    pto_error_init(&error);
    if (r->head.kind == RECORD_TASK && child_is_task(r)) {
        child_place_arguments(c, r);
        child_run_task(c, r);
    } else if (r->head.kind == RECORD_LOAD && r->head.value < TREE_CALLABLES &&
               r->head.body_bytes == sizeof(struct wire_load)) {
        status = child_load(c, r, &error);
        child_answer(c, RECORD_ANSWERED, r->head.key, status, error.text);
    } else if (r->head.kind == RECORD_UNLOAD && r->head.value < TREE_CALLABLES) {
        child_unload(c, (uint32_t)r->head.value);
        child_answer(c, RECORD_ANSWERED, r->head.key, PTO_OK, "");
    } else if (r->head.kind == RECORD_COSTS) {
        status = child_time_set(c, r, &error);
        child_answer(c, RECORD_ANSWERED, r->head.key, status, error.text);
    } else if (r->head.kind == RECORD_REOPEN && c->worker != NULL) {
        status = tree_nested_reopen(c->worker, &error);
        child_answer(c, RECORD_ANSWERED, r->head.key, status, error.text);
    } else if ((r->head.kind == RECORD_OFFER || r->head.kind == RECORD_JOIN) &&
               domain_of(c, r) != NULL) {
        status =
            child_domain_step(c->domains, domain_of(c, r), r->head.kind == RECORD_OFFER, &error);
        child_answer(c, RECORD_ANSWERED, r->head.key, status, error.text);
        child_leave_if_lost(c, status);
    } else if (r->head.kind == RECORD_END) {
        return false;
    } else {
        link_leave(CHILD_EXIT_BROKEN);
    }
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child of a worker: takes records from its stream, one after the other, and answers. A chip
 * opens a device and runs callables on it, as any program does; a SUB worker calls
 * functions. It ends with the process that started it, however that ends.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tree/child.h"

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

enum { STALE_STACK = 1 << 18 }; /* bytes below a frame that the thread has unwound to */

struct loaded {
    struct pto_callable *callable; /* of a chip */
    char *path;                    /* the file of a shared object for it; NULL: none */
    struct object *object;         /* of a SUB worker, or of a nested worker */
    pto_sub_fn fn;
    const struct pto_child_hooks *hooks; /* whose the function is; NULL: of the object */
    void *function;
    pto_nested_fn nested_fn;
    bool is_below; /* its children have it */
};

struct child {
    struct tree_hello hello;
    struct tree_shared *shared;
    struct tree_line *line;
    struct line records; /* to and from the worker */
    struct spin_policy spin_policy;
    const struct child_watch *watch;
    const struct pto_child_hooks *hooks; /* or NULL */
    struct pto_device *device;
    struct pto_worker *worker;     /* of a nested one */
    struct device *held;           /* the chip's; NULL: it is none, or cannot be held */
    struct child_domains *domains; /* this and the next: of a card; NULL: it is none */
    struct child_regions *regions;
    struct child_tracer tracer;
    bool has_task; /* this and the next: the task that runs */
    uint64_t key;
    struct loaded loaded[TREE_CALLABLES + 1]; /* nothing is loaded for the copy */
};

static int meet(struct child *c);
static int open_child(struct child *c, struct pto_error *error);
static int open_device(struct child *c, struct pto_error *error);
static int serve_records(struct child *c);
static void answer(struct child *c, uint32_t kind, uint64_t key, int status, const char *text);
static void send_answer(struct child *c, const struct record_head *head, struct record_part part);
static bool has_record(void *context);
static bool handle(struct child *c, struct record *r);
static void forget(struct loaded *l);

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

static void tell_watch(const struct child *c, uint64_t number, bool is_done)
{
    if (c->watch != NULL)
        c->watch->at(c->watch->context, c->hello.child, number, is_done);
}

static void tell_passed(struct child *c)
{
    c->records.in.has_passed = false;
    answer(c, RECORD_PASSED, 0, PTO_OK, "");
}

/*
 * Whatever it called has ended this thread, by pthread_exit. The process would live on, with its other threads,
 * and the worker would wait for the task's time-out.
 */
static void report_thread_end(struct child *c)
{
    const struct record_head head = { .kind = RECORD_DONE, .key = c->key, .status = PTO_EPEER };
    struct wire_failure failure = { .text =
                                        "it ended the thread that called it, with pthread_exit, "
                                        "and with it the child; a function has to return" };

    send_answer(c, &head, (struct record_part){ &failure, sizeof(failure) });
}

static void leave_with_thread(void *context)
{
    struct child *c = context;

#if defined(__SANITIZE_ADDRESS__) /* frames that are gone have left their marks on the stack */
    char *frame = __builtin_frame_address(0);

    __asan_unpoison_memory_region(frame - STALE_STACK, STALE_STACK);
#endif
    if (c->has_task)
        report_thread_end(c);
    link_leave(CHILD_EXIT_THREAD);
}

/* Returns the exit code. */
static int serve(struct child *c)
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
            tell_watch(c, r.head.number, false);
            if (!handle(c, &r))
                return 0;
            tell_watch(c, r.head.number, true);
            break;
        case CHANNEL_EMPTY:
            if (c->records.in
                    .has_passed) /* the worker may wait for that room, and nothing else tells it */
                tell_passed(c);
            else /* the watcher ends the process if nothing comes any more */
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
    tell_watch(c, 0, false);
    pto_error_init(&error);
    answer(c, RECORD_READY, 0, open_child(c, &error), error.text);
    a32_store_relaxed(&c->line->status.doing, TREE_IDLE);
    tell_watch(c, 0, true);
    code = serve(c);
    if (c->worker != NULL)
        (void)pto_worker_close(c->worker);
    for (uint32_t i = 0; i < TREE_CALLABLES; i++)
        forget(&c->loaded[i]);
    child_domains_close(c->domains);
    child_regions_close(c->regions);
    if (c->held != NULL)
        device_release(c->held);
    if (c->device != NULL)
        (void)pto_device_close(c->device);
    child_trace_close(&c->tracer);
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
    if (h->kind != PTO_CHILD_WORKER) /* which gives it to its children */
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
    if (c->hello.kind == PTO_CHILD_WORKER)
        return child_nested_open(&c->hello, &c->worker, error);
    return c->hello.kind == PTO_CHILD_CHIP ? open_device(c, error) : PTO_OK;
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
    params.error = error;
    status = pto_device_open(&params, &c->device);
    if (status < 0)
        return status;
    /* A chip that cannot have it gets copies of the tensors of a callable with a signature. */
    if (device_hold(c->device, &c->held, NULL) < 0)
        return PTO_OK;
    if (chip_window_ways(c->held->chip) != 0) {
        status = child_domains_open(c->held->chip, c->hello.child, &c->line->alarm, &c->domains);
        if (status >= 0)
            status = child_regions_open(c->held->chip, &c->hello, c->shared, &c->regions);
        return status < 0 ? error_tell(error, status, "no thread can be started") : PTO_OK;
    }
    if (!chip_can_adopt(c->held->chip))
        return PTO_OK;
    status = chip_adopt(c->held->chip, c->hello.link.addr, c->hello.link.memory_bytes);
    return status < 0 ? error_tell(error, status, "the chip does not take the worker's memory")
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

static void send_answer(struct child *c, const struct record_head *head, struct record_part part)
{
    while (!can_write(c)) { /* there is always room unless the worker is stopped */
        if (c->records.out.is_broken) {
            link_leave(CHILD_EXIT_BROKEN);
        }
        (void)waker_await(c->records.own,
                          &(struct waker_wait){ .holds = can_write,
                                                .context = c,
                                                .policy = c->spin_policy,
                                                .deadline_ns = os_now_ns() + 1000000 });
    }
    (void)line_send(&c->records, head, &part, part.size != 0);
}

static void answer(struct child *c, uint32_t kind, uint64_t key, int status, const char *text)
{
    const struct record_head head = { .kind = kind, .key = key, .status = status };

    send_answer(
        c, &head,
        (struct record_part){ text, status < 0 ? (uint32_t)strnlen(text, TREE_TEXT - 1) : 0 });
}

/* ---- recording: struct tree_tracing says why relaxed is enough ---- */

static bool is_traced(const struct child *c)
{
    return a32_load_relaxed(&c->shared->tracing.is_on) != 0; /* see above */
}

static enum pto_trace chip_trace(const struct child *c)
{
    return is_traced(c)
               ? (enum pto_trace)a32_load_relaxed(&c->shared->tracing.chips) /* see above */
               : PTO_TRACE_OFF;
}

/* ---- callables ---- */

static int load_for_chip(struct child *c, struct loaded *l, const struct wire_load *load,
                         struct pto_error *error)
{
    const void *bytes = (const void *)(uintptr_t)load->addr;
    const char *symbol = load->symbol[0] != '\0' ? load->symbol : NULL;
    struct pto_load_options options;
    char path[PATH_MAX];
    int status;

    if (load->form == LOAD_OBJECT) { /* the loader takes equal paths for one object: no two are */
        if (code_file_create(bytes, load->bytes, "callable", path) < 0)
            return error_tell(error, PTO_ESYSTEM, "there is no place for its file: %s",
                              strerror(errno));
        l->path = strdup(path);
        status = pto_callable_load(path, symbol, &l->callable, error);
    } else {
        pto_load_options_init(&options);
        options.name = load->name;
        options.symbol = symbol;
        status = pto_callable_load_memory(bytes, load->bytes, &options, &l->callable, error);
    }
    return status < 0 ? status : pto_register(c->device, l->callable, error);
}

static void forget(struct loaded *l)
{
    if (l->callable != NULL)
        (void)pto_callable_destroy(l->callable);
    if (l->path != NULL)
        code_file_remove(l->path);
    free(l->path);
    object_release(l->object);
    if (l->hooks != NULL)
        l->hooks->unload(l->hooks->context, l->function);
    *l = (struct loaded){ 0 };
}

static void unload(struct child *c, uint32_t index)
{
    if (c->loaded[index].is_below)
        tree_nested_unload(c->worker, index);
    forget(&c->loaded[index]);
}

static int load_by_hooks(const struct pto_child_hooks *hooks, struct loaded *l,
                         const struct wire_load *load, struct pto_error *error)
{
    const struct pto_child_code code = { .size = sizeof(code),
                                         .bytes = (const void *)(uintptr_t)load->addr,
                                         .byte_count = load->bytes,
                                         .name = load->name,
                                         .symbol = load->symbol };
    int status = hooks->load(hooks->context, &code, &l->function, error);

    if (status >= 0) {
        l->hooks = hooks;
        return PTO_OK;
    }
    if (error->text[0] == '\0')
        (void)error_tell(error, status, "'%s' cannot be loaded: %s", load->name,
                         pto_strerror(status));
    return status;
}

static int load_object(struct child *c, struct loaded *l, const struct wire_load *load,
                       struct pto_error *error)
{
    int status = object_acquire((const void *)(uintptr_t)load->addr, load->bytes, load->name,
                                &l->object, error);
    void *found;

    if (status < 0)
        return status;
    found = object_symbol(l->object, load->symbol);
    if (found == NULL)
        return error_tell(error, PTO_ELOAD, "'%s' exports no function '%s'", load->name,
                          load->symbol);
    if (c->hello.kind == PTO_CHILD_WORKER)
        l->nested_fn = (pto_nested_fn)(uintptr_t)found;
    else
        l->fn = (pto_sub_fn)(uintptr_t)found;
    return PTO_OK;
}

static int load_function(struct child *c, struct loaded *l, const struct wire_load *load,
                         struct pto_error *error)
{
    if (load->form == LOAD_OBJECT)
        return load_object(c, l, load, error);
    if (c->hello.kind == PTO_CHILD_SUB && c->hooks != NULL)
        return load_by_hooks(c->hooks, l, load, error);
    return error_tell(error, PTO_ELOAD,
                      "'%s' is no shared object, and this child's program can "
                      "load nothing else",
                      load->name);
}

static int load_callable(struct child *c, const struct record *r, struct pto_error *error)
{
    struct loaded *l = &c->loaded[r->head.value];
    struct wire_load load;
    int status;

    memcpy(&load, r->body, sizeof(load));
    load.symbol[TREE_SYMBOL - 1] = load.name[TREE_NAME - 1] = '\0';
    /* mutation: child-any-address */
    if (load.addr < c->hello.link.addr || load.bytes > c->hello.link.memory_bytes ||
        load.addr - c->hello.link.addr > c->hello.link.memory_bytes - load.bytes)
        return error_tell(error, PTO_EINVAL, "the bytes are not in the shared memory");
    unload(c, (uint32_t)r->head.value);
    if (c->hello.kind == PTO_CHILD_CHIP)
        status = load_for_chip(c, l, &load, error);
    else if (load.is_below != 0 && c->worker != NULL)
        status = tree_nested_load(c->worker, (uint32_t)r->head.value, &load, error);
    else
        status = load_function(c, l, &load, error);
    l->is_below = load.is_below != 0 && c->worker != NULL && status >= 0;
    if (status < 0)
        forget(l);
    return status;
}

/* ---- tasks ---- */

/* Where on the chip it happened. */
static void tell_place(const struct pto_error *error, int status, struct wire_failure *failure)
{
    failure->place[0] = (struct pto_error_place){ .level = 2,
                                                  .child = -1,
                                                  .status = status,
                                                  .kernel = error->kernel,
                                                  .argument = error->argument,
                                                  .kind = -1,
                                                  .task = error->task };
    failure->count = 1;
}

/* False: they are not where the record says. */
static bool take_options(const struct child *c, uint32_t unit, struct run_options_message *message,
                         struct pto_run_options *options)
{
    uint64_t offset = (uint64_t)unit * CHANNEL_UNIT;

    pto_run_options_init(options);
    if (unit == 0)
        return true;
    if (offset > c->hello.link.memory_bytes ||
        c->hello.link.memory_bytes - offset < sizeof(*message))
        return false;
    memcpy(message, (const void *)(uintptr_t)(c->hello.link.addr + offset), sizeof(*message));
    if (message->options.size != sizeof(message->options))
        return false;
    message->folder[PATH_MAX - 1] = '\0';
    chip_options_copy(&message->options, options);
    options->diagnostics.folder = message->folder;
    return true;
}

static int run_on_chip(struct child *c, const struct pto_callable *callable, const struct record *r,
                       struct wire_failure *failure)
{
    const struct pto_entry entry = {
        .tensor_count = r->head.tensor_count,
        .scalar_count = r->head.scalar_count,
        .tensor = (const struct pto_tensor *)(const void *)r->body,
        .scalar = (const uint64_t *)(const void *)(r->body +
                                                   r->head.tensor_count * sizeof(struct pto_tensor))
    };
    static struct pto_run_report report; /* of the only thread that runs anything */
    static struct run_options_message message;
    struct pto_run_options options;
    int status;

    if (!take_options(c, r->head.options, &message, &options)) {
        snprintf(failure->text, TREE_TEXT, "its options are not in the shared memory");
        return PTO_EINVAL;
    }
    options.timeout_ns = r->head.timeout_ns;
    pto_run_report_init(&report);
    options.has_guards = options.has_guards || c->hello.has_guards;
    options.trace = chip_trace(c);
    status = pto_run(c->device, callable, &entry, &options, &report);
    if (status < 0) {
        snprintf(failure->text, TREE_TEXT, "%s",
                 report.error.text[0] != '\0' ? report.error.text : pto_strerror(status));
        tell_place(&report.error, status, failure);
    }
    return status;
}

static int call_function(struct child *c, const struct loaded *l, const struct record *r,
                         struct wire_failure *failure)
{
    const struct pto_sub_call call = {
        .size = sizeof(call),
        .child = c->hello.child,
        .tensor_count = r->head.tensor_count,
        .scalar_count = r->head.scalar_count,
        .tensor = (const struct pto_tensor *)(const void *)r->body,
        .scalar = (const uint64_t *)(const void *)(r->body + r->head.tensor_count *
                                                                 sizeof(struct pto_tensor)),
        .text = failure->text,
        .text_size = TREE_TEXT
    };
    int status;

    if (l->nested_fn != NULL)
        return child_nested_call(c->worker, l->nested_fn, &call, r->head.timeout_ns, failure);
    status =
        l->hooks != NULL ? l->hooks->call(l->hooks->context, l->function, &call) : l->fn(&call);
    failure->text[TREE_TEXT - 1] = '\0';
    if (status < 0 && failure->text[0] == '\0')
        snprintf(failure->text, TREE_TEXT, "it returned %d (%s)", status, pto_strerror(status));
    return status < 0 ? status : PTO_OK;
}

static bool is_lost(const struct child *c)
{
    struct pto_device_info info;

    pto_device_info_init(&info);
    return c->device != NULL && pto_device_info(c->device, &info) >= 0 && info.is_lost;
}

/* So that it can be opened anew. */
static void leave_if_lost(const struct child *c, int status)
{
    if (status >= 0 || !is_lost(c))
        return;
    link_leave(CHILD_EXIT_LOST);
}

static int run_loaded(struct child *c, const struct record *r, struct wire_failure *failure)
{
    const struct loaded *l = &c->loaded[r->head.value];

    if (r->head.value == TREE_COPY)
        return child_copy(c->device, (const struct pto_tensor *)(const void *)r->body,
                          r->body + 2 * sizeof(struct pto_tensor), failure->text);
    if (l->callable != NULL)
        return run_on_chip(c, l->callable, r, failure);
    if (l->fn != NULL || l->hooks != NULL || l->nested_fn != NULL)
        return call_function(c, l, r, failure);
    snprintf(failure->text, TREE_TEXT, "it is not loaded here");
    return PTO_EINVAL;
}

static void run_task(struct child *c, const struct record *r)
{
    struct tree_status *shown = &c->line->status;
    const struct loaded *l = &c->loaded[r->head.value];
    struct wire_failure failure;
    struct record_head head = { .kind = RECORD_DONE, .key = r->head.key };
    uint64_t begin_ns = os_now_ns();

    a64_store_relaxed(&shown->since_ns, begin_ns); /* here and below: tree_status says why */
    a32_store_relaxed(&shown->doing, TREE_RUNNING + (uint32_t)r->head.value);
    failure.count = 0; /* the rest is not looked at unless it fails */
    failure.text[0] = '\0';
    if (c->worker != NULL && is_traced(c))
        child_trace_below(c->worker, c->shared, &c->hello);
    c->key = r->head.key;
    c->has_task = true;
    head.status = run_loaded(c, r, &failure);
    c->has_task = false;
    if (is_traced(c)) {
        head.begin_ns = begin_ns;
        head.value = os_now_ns();
        if (c->worker != NULL)
            child_trace_nested(&c->tracer, c->worker, c->shared, &c->hello);
        if (l->callable != NULL && chip_trace(c) != PTO_TRACE_OFF)
            child_trace(&c->tracer, c->device, c->shared, &c->hello);
    }
    a64_store_relaxed(&shown->tasks, a64_load_relaxed(&shown->tasks) + 1);
    a32_store_relaxed(&shown->doing, TREE_IDLE);
    send_answer(c, &head,
                (struct record_part){ &failure, head.status < 0 ? (uint32_t)sizeof(failure) : 0 });
    leave_if_lost(c, head.status);
}

/* Whether the body of a task is as long as its head says. */
static bool is_task(const struct record *r)
{
    if (r->head.value == TREE_COPY && (r->head.tensor_count != 2 || r->head.scalar_count != 1))
        return false;
    return r->head.tensor_count <= PTO_TASK_TENSORS_MAX &&
           r->head.scalar_count <= PTO_TASK_SCALARS_MAX && r->head.value <= TREE_COPY &&
           r->head.body_bytes == r->head.tensor_count * sizeof(struct pto_tensor) +
                                     r->head.scalar_count * sizeof(uint64_t);
}

/* Where on the card it is; 0: it stands for nothing there. */
static uint64_t find_place(const struct child *c, uint64_t addr)
{
    uint64_t place = child_domains_find(c->domains, addr);

    return place != 0 ? place : child_regions_find(c->regions, addr);
}

/* Tensors and addresses in a domain or a region are on the card; any other scalar is a number. */
static void place_arguments(const struct child *c, struct record *r)
{
    struct pto_tensor *tensor = (struct pto_tensor *)(void *)r->body;
    uint64_t *scalar =
        (uint64_t *)(void *)(r->body + r->head.tensor_count * sizeof(struct pto_tensor));

    for (uint32_t i = 0; i < r->head.tensor_count && c->regions != NULL; i++) {
        uint64_t place = find_place(c, tensor[i].addr);

        if (place != 0) {
            tensor[i].addr = place;
            tensor[i].space = PTO_SPACE_DEVICE;
        }
    }
    for (uint32_t i = 0; i < r->head.scalar_count && c->regions != NULL; i++) {
        bool is_address = (r->head.addresses >> i & 1) != 0; /* mutation: scalar-moves */
        uint64_t place = is_address ? find_place(c, scalar[i]) : 0;

        scalar[i] = place != 0 ? place : scalar[i];
    }
}

/* The domain that a record is about; NULL: it makes no sense. */
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

/* False: it is to end. */
static bool handle(struct child *c, struct record *r)
{
    struct pto_error error;
    int status;

    pto_error_init(&error);
    if (r->head.kind == RECORD_TASK && is_task(r)) {
        place_arguments(c, r);
        run_task(c, r);
    } else if (r->head.kind == RECORD_LOAD && r->head.value < TREE_CALLABLES &&
               r->head.body_bytes == sizeof(struct wire_load)) {
        status = load_callable(c, r, &error);
        answer(c, RECORD_ANSWERED, r->head.key, status, error.text);
    } else if (r->head.kind == RECORD_UNLOAD && r->head.value < TREE_CALLABLES) {
        unload(c, (uint32_t)r->head.value);
        answer(c, RECORD_ANSWERED, r->head.key, PTO_OK, "");
    } else if (r->head.kind == RECORD_REOPEN && c->worker != NULL) {
        status = tree_nested_reopen(c->worker, &error);
        answer(c, RECORD_ANSWERED, r->head.key, status, error.text);
    } else if ((r->head.kind == RECORD_OFFER || r->head.kind == RECORD_JOIN) &&
               domain_of(c, r) != NULL) {
        status =
            child_domain_step(c->domains, domain_of(c, r), r->head.kind == RECORD_OFFER, &error);
        answer(c, RECORD_ANSWERED, r->head.key, status, error.text);
        leave_if_lost(c, status);
    } else if (r->head.kind == RECORD_END) {
        return false;
    } else {
        link_leave(CHILD_EXIT_BROKEN);
    }
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks of a child: runs on its chip, or calls of functions. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/os.h"
#include "host/host.h"
#include "pto/pto.h"
#include "tree/child_state.h"

/* ---- whether tasks are recorded ---- */

static bool is_traced(const struct child *c)
{
    return a32_load_relaxed(&c->shared->tracing.is_on) != 0; /* relaxed: see struct tree_tracing */
}

static enum pto_trace chip_trace(const struct child *c)
{
    return is_traced(c)
               /* relaxed: see struct tree_tracing */
               ? (enum pto_trace)a32_load_relaxed(&c->shared->tracing.chips)
               : PTO_TRACE_OFF;
}

/* ---- tasks ---- */

/* Describes where on the chip the run failed, for the worker's error. */
static void set_error_place(const struct pto_error *error, int status, struct wire_failure *failure)
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

/* Copies the options of a task from the shared memory. False: the record's offset is invalid. */
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
    static struct pto_run_report report; /* static, because one thread runs all tasks */
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
    options.has_nan_check = options.has_nan_check || c->hello.has_nan_check;
    options.trace = chip_trace(c);
    status = pto_run(c->device, callable, &entry, &options, &report);
    if (status < 0) {
        snprintf(failure->text, TREE_TEXT, "%s",
                 report.error.text[0] != '\0' ? report.error.text : pto_strerror(status));
        set_error_place(&report.error, status, failure);
    }
    return status;
}

static uint64_t child_task_cpu_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int call_function(struct child *c, const struct loaded *l, const struct record *r,
                         struct child_duration *duration, struct wire_failure *failure)
{
    uint64_t since_ns = c->time.clock != NULL ? child_task_cpu_ns() : 0;
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
    int status = PTO_OK;

    if (l->nested_fn != NULL)
        return child_nested_call(c->worker, l->nested_fn, &call, r->head.timeout_ns, failure);
    if (!child_time_is_planned(c))
        status =
            l->hooks != NULL ? l->hooks->call(l->hooks->context, l->function, &call) : l->fn(&call);
    if (status >= 0 && c->time.clock != NULL)
        status = child_time_of_call(c, &call, (uint32_t)r->head.value,
                                    child_task_cpu_ns() - since_ns, duration, failure->text);
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

void child_leave_if_lost(const struct child *c, int status)
{
    if (status >= 0 || !is_lost(c))
        return;
    link_leave(CHILD_EXIT_LOST);
}

static int run_loaded(struct child *c, const struct record *r, struct child_duration *duration,
                      struct wire_failure *failure)
{
    const struct loaded *l = &c->loaded[r->head.value];

    if (r->head.value == TREE_COPY)
        return child_copy(c->device, (const struct pto_tensor *)(const void *)r->body,
                          r->body + 2 * sizeof(struct pto_tensor), failure->text);
    if (l->callable != NULL)
        return run_on_chip(c, l->callable, r, failure);
    if (l->fn != NULL || l->hooks != NULL || l->nested_fn != NULL)
        return call_function(c, l, r, duration, failure);
    snprintf(failure->text, TREE_TEXT, "the child has not loaded the callable");
    return PTO_EINVAL;
}

void child_run_task(struct child *c, const struct record *r)
{
    struct tree_status *shown = &c->line->status;
    const struct loaded *l = &c->loaded[r->head.value];
    struct wire_failure failure;
    struct record_head head = { .kind = RECORD_DONE, .key = r->head.key };
    struct child_duration duration = { 0, false };
    uint64_t begin_ns = child_time_begin(c);

    /* relaxed, here and below: see struct tree_status */
    a64_store_relaxed(&shown->since_ns, os_now_ns());
    a32_store_relaxed(&shown->doing, TREE_RUNNING + (uint32_t)r->head.value);
    failure.count = 0; /* path and text of a failure are sent only if the task fails */
    failure.text[0] = '\0';
    if (c->worker != NULL && is_traced(c))
        child_trace_below(c->worker, c->shared, &c->hello, (uint32_t)(r->head.key >> 32));
    c->key = r->head.key;
    c->fn = l->fn;
    c->has_task = true;
    head.status = run_loaded(c, r, &duration, &failure);
    c->has_task = false;
    if (is_traced(c) || c->time.clock != NULL) {
        head.begin_ns = begin_ns;
        head.value = child_time_end(c, begin_ns, &duration);
        head.options = duration.is_measured;
    }
    if (is_traced(c)) {
        if (c->worker != NULL)
            child_trace_nested(&c->tracer, c->worker, c->shared, &c->hello);
        if (l->callable != NULL && chip_trace(c) != PTO_TRACE_OFF)
            child_trace(&c->tracer, c->device, c->shared, &c->hello, (uint32_t)(r->head.key >> 32));
    }
    a64_store_relaxed(&shown->tasks, a64_load_relaxed(&shown->tasks) + 1);
    a32_store_relaxed(&shown->doing, TREE_IDLE);
    child_send(c, &head,
               (struct record_part){ &failure, head.status < 0 ? (uint32_t)sizeof(failure) : 0 });
    child_leave_if_lost(c, head.status);
}

bool child_is_task(const struct record *r)
{
    if (r->head.value == TREE_COPY && (r->head.tensor_count != 2 || r->head.scalar_count != 1))
        return false;
    return r->head.tensor_count <= PTO_TASK_TENSORS_MAX &&
           r->head.scalar_count <= PTO_TASK_SCALARS_MAX && r->head.value <= TREE_COPY &&
           r->head.body_bytes == r->head.tensor_count * sizeof(struct pto_tensor) +
                                     r->head.scalar_count * sizeof(uint64_t);
}

/* Returns the address on the card that `addr` represents; 0: it represents none. */
static uint64_t task_find_place(const struct child *c, uint64_t addr)
{
    uint64_t place = child_domains_find(c->domains, addr);

    return place != 0 ? place : child_regions_find(c->regions, addr);
}

/*
 * Replaces the addresses that represent memory on the card, in tensors and in scalars that are
 * marked as addresses.
 */
void child_place_arguments(const struct child *c, struct record *r)
{
    struct pto_tensor *tensor = (struct pto_tensor *)(void *)r->body;
    uint64_t *scalar =
        (uint64_t *)(void *)(r->body + r->head.tensor_count * sizeof(struct pto_tensor));

    for (uint32_t i = 0; i < r->head.tensor_count && c->regions != NULL; i++) {
        uint64_t place = task_find_place(c, tensor[i].addr);

        if (place != 0) {
            tensor[i].addr = place;
            tensor[i].space = PTO_SPACE_DEVICE;
        }
    }
    for (uint32_t i = 0; i < r->head.scalar_count && c->regions != NULL; i++) {
        bool is_address = (r->head.addresses >> i & 1) != 0; /* mutation: scalar-moves */
        uint64_t place = is_address ? task_find_place(c, scalar[i]) : 0;

        scalar[i] = place != 0 ? place : scalar[i];
    }
}

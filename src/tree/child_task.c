/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks of a child: on its chip, or as calls of functions. */
#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "host/host.h"
#include "pto/pto.h"
#include "tree/child_state.h"

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

void child_leave_if_lost(const struct child *c, int status)
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

void child_run_task(struct child *c, const struct record *r)
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

/* Where on the card it is; 0: it stands for nothing there. */
static uint64_t task_find_place(const struct child *c, uint64_t addr)
{
    uint64_t place = child_domains_find(c->domains, addr);

    return place != 0 ? place : child_regions_find(c->regions, addr);
}

/* Tensors and addresses in a domain or a region are on the card; any other scalar is a number. */
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

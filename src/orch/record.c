/* SPDX-License-Identifier: Apache-2.0 */
/* Records tasks, arguments, single elements and scopes as data (wire/task_record.h). */
#include "orch/record.h"

#include <string.h>

/* longest name of a source file that is recorded; longer names are left out */
enum { FILE_MAX = 4096 };

static uint64_t length_of(const char *text)
{
    uint64_t length = 0;

    while (text != NULL && length < FILE_MAX && text[length] != '\0')
        length++;
    return length;
}

/*
 * Starts the record of a task. Returns where the records of its arguments go, after which its
 * scalars follow. NULL: the record is lost.
 */
static struct chip_argument *record_begin_task(const struct record_sink *sink,
                                               struct chip_task task, const struct pto_site *site)
{
    uint64_t length = site != NULL ? length_of(site->file) : 0;
    char *at;

    task.line = site != NULL ? (uint32_t)site->line : 0;
    task.file_bytes = length != 0 && length < FILE_MAX ? (uint16_t)(length / 8 * 8 + 8) : 0;
    at = sink->take(
        sink->context,
        sizeof(task) + task.file_bytes + task.tensor_count * sizeof(struct chip_argument) +
            task.scalar_count * sizeof(uint64_t) + task.dep_count * sizeof(struct chip_dep) +
            ((task.flags & CHIP_TASK_HAS_OPERAND) != 0 ? sizeof(struct chip_argument) : 0));
    if (at == NULL)
        return NULL;
    memcpy(at, &task, sizeof(task));
    memset(at + sizeof(task), 0, task.file_bytes);
    if (task.file_bytes != 0)
        memcpy(at + sizeof(task), site->file, length);
    return (struct chip_argument *)(void *)(at + sizeof(task) + task.file_bytes);
}

static struct chip_argument record_argument(const struct pto_tensor *t, uint32_t tag)
{
    struct chip_argument to = { .addr = t->addr,
                                .size = t->size,
                                .owner = t->owner,
                                .start = t->start,
                                .extent = t->extent,
                                .version = t->version,
                                .tag = (uint8_t)tag,
                                .dtype = t->dtype,
                                .ndims = (uint8_t)t->ndims };

    if (t->manual_dep)
        to.flags |= CHIP_ARGUMENT_IS_MANUAL;
    if (t->is_contiguous)
        to.flags |= CHIP_ARGUMENT_IS_CONTIGUOUS;
    memcpy(to.shapes, t->shapes, sizeof(to.shapes));
    memcpy(to.strides, t->strides, sizeof(to.strides));
    return to;
}

bool record_find_operand(const struct pto_predicate *p, struct pto_tensor *out)
{
    enum data_fault why;

    return p != NULL && p->op != PTO_PREDICATE_NONE && p->tensor != NULL && p->tensor->addr != 0 &&
           graph_find_element(p->tensor, p->ndims, p->indices, out, &why);
}

uint64_t record_dep_kind(const struct pto_args *args, uint32_t index)
{
    return args->dep_kinds != NULL ? args->dep_kinds[index] : PTO_DEP_WAIT | PTO_DEP_RETAIN;
}

static struct chip_task describe_task(const struct orch_submitted *submit)
{
    const struct pto_task_view *view = submit->view;
    const struct pto_args *args = view->args;
    struct pto_tensor operand;
    struct chip_task task = { .index = (uint32_t)view->index,
                              .tensor_count = (uint8_t)args->tensor_count,
                              .scalar_count = (uint8_t)args->scalar_count,
                              .dep_count = args->dep_count,
                              .id = view->task,
                              .kernel = { view->kernels.aic, view->kernels.aiv0,
                                          view->kernels.aiv1 },
                              .block_count = (uint32_t)args->block_count,
                              .begin = submit->begin,
                              .end = submit->end };

    task.flags = (submit->is_manual ? CHIP_TASK_IS_MANUAL : 0u) |
                 (args->allow_early_resolve ? CHIP_TASK_IS_EARLY : 0u) |
                 (args->is_sync_start ? CHIP_TASK_IS_GANG : 0u) |
                 (record_find_operand(args->predicate, &operand) ? CHIP_TASK_HAS_OPERAND : 0u);
    if (args->is_marked) {
        task.flags |= CHIP_TASK_IS_MARKED;
        task.marked_tensors = args->marked_tensors;
        task.marked_scalars = args->marked_scalars;
        task.ambiguous_scalars = args->ambiguous_scalars;
    }
    if (args->has_scalar_types) {
        task.flags |= CHIP_TASK_HAS_TYPES;
        memcpy(task.scalar_type, args->scalar_type, sizeof(task.scalar_type));
    }
    return task;
}

void record_task(const struct record_sink *sink, const struct orch_submitted *submit)
{
    const struct pto_task_view *view = submit->view;
    const struct pto_args *args = view->args;
    const struct pto_tensor *output = submit->out->tensor;
    struct chip_argument *at = record_begin_task(sink, describe_task(submit), view->site);
    struct pto_tensor element;
    struct chip_argument operand;
    struct chip_dep *dep;

    if (at == NULL)
        return;
    for (uint32_t i = 0; i < args->tensor_count; i++)
        *at++ = record_argument(args->tag[i] == PTO_TAG_OUTPUT ? output++ : args->tensor[i],
                                args->tag[i]);
    for (uint32_t i = 0; i < args->scalar_count; i++) {
        bool is_passed = (args->passed >> i & 1) != 0;
        uint64_t value = is_passed ? view->entry->scalar[args->passed_from[i]] : args->scalar[i];

        memcpy((char *)at + i * sizeof(value), &value, sizeof(value));
    }
    dep = (struct chip_dep *)(void *)((char *)at + args->scalar_count * sizeof(uint64_t));
    for (uint32_t i = 0; i < args->dep_count; i++)
        dep[i] = (struct chip_dep){ args->deps[i], record_dep_kind(args, i) };
    if (record_find_operand(args->predicate, &element)) {
        operand = record_argument(&element, PTO_TAG_INPUT);
        memcpy(&dep[args->dep_count], &operand, sizeof(operand));
    }
}

void record_element(const struct record_sink *sink, const struct orch_element *element)
{
    const struct chip_task record = { .index = element->index,
                                      .tensor_count = 1,
                                      .id = pto_task_id_invalid(),
                                      .kernel = { -1, -1, -1 },
                                      .flags =
                                          element->is_set ? CHIP_TASK_IS_SET : CHIP_TASK_IS_GET };
    struct chip_argument *at = record_begin_task(sink, record, element->site);

    if (at != NULL)
        *at = record_argument(element->element,
                              element->is_set ? PTO_TAG_OUTPUT_EXISTING : PTO_TAG_INPUT);
}

void record_touched(const struct record_sink *sink, const struct record_touch *touch,
                    const struct pto_tensor *part, uint32_t parts)
{
    const struct chip_task record = { .index = touch->index,
                                      .tensor_count = (uint8_t)parts,
                                      .id = pto_task_id_invalid(),
                                      .kernel = { touch->argument, (int32_t)touch->what, -1 },
                                      .block_count = touch->invocation,
                                      .begin = touch->segment,
                                      .end = touch->before,
                                      .flags = CHIP_TASK_IS_TOUCHED };
    struct chip_argument *at = record_begin_task(sink, record, NULL);

    for (uint32_t i = 0; at != NULL && i < parts; i++)
        *at++ =
            record_argument(&part[i], touch->is_write ? PTO_TAG_OUTPUT_EXISTING : PTO_TAG_INPUT);
}

/*
 * Number of the kernel that a task of an image runs in a lane; `lanes` are those that the task was
 * built with.
 */
static int32_t record_kernel_of(const struct slot *s, uint32_t lane)
{
    return s->kernel[(s->built_lanes & (s->built_lanes - 1)) != 0 ? lane : 0];
}

/*
 * Describes a task of an image, with the explicit order that was stated when the graph was built.
 */
static struct chip_task record_describe_slot(const struct slot *s, const struct graph_facts *orders)
{
    struct chip_task task = { .index = s->seq - 1,
                              .tensor_count = s->tensor_count,
                              .scalar_count = s->scalar_count,
                              .id = slot_id(s),
                              .block_count = s->block_count,
                              .flags = CHIP_TASK_IS_LAUNCHED };

    for (uint32_t lane = 0; lane < SLOT_LANES; lane++)
        task.kernel[lane] = (s->built_lanes >> lane & 1) != 0 ? record_kernel_of(s, lane) : -1;
    if ((s->flags & SLOT_IS_GANG) != 0)
        task.flags |= CHIP_TASK_IS_GANG;
    for (uint64_t i = 0; i < orders->count; i++)
        switch (orders->fact[i].dtype) {
        case BUILT_FLAGS:
            task.flags |= orders->fact[i].bits & (CHIP_TASK_IS_MANUAL | CHIP_TASK_IS_EARLY);
            break;
        case BUILT_EXPLICIT:
            task.dep_count++;
            break;
        case BUILT_PREDICATE:
            if ((s->flags & SLOT_HAS_PREDICATE) != 0)
                task.flags |= CHIP_TASK_HAS_OPERAND;
            break;
        }
    return task;
}

/* Describes the operand of a predicate in an image like an argument. */
static struct chip_argument record_operand(const struct slot_predicate *p,
                                           const struct graph_fact *order)
{
    struct pto_tensor element = pto_tensor_external(
        (void *)(uintptr_t)p->addr, (const uint32_t[]){ 1 }, 1, (enum pto_dtype)p->dtype);

    element.owner.raw = order->bits;
    element.manual_dep = order->bytes != 0;
    return record_argument(&element, PTO_TAG_INPUT);
}

/* Writes what follows the tensors of a task: scalars, explicit dependencies, the operand. */
static void record_launched_rest(char *at, const struct slot *s, const uint64_t *scalar,
                                 const struct graph_facts *orders, uint32_t flags)
{
    const size_t scalar_bytes = s->scalar_count * sizeof(uint64_t);
    struct chip_dep *dep = (struct chip_dep *)(void *)(at + scalar_bytes);

    if (scalar_bytes != 0)
        memcpy(at, s->scalar_count == 1 ? &s->scalar : scalar, scalar_bytes);
    for (uint64_t i = 0; i < orders->count; i++) {
        const struct graph_fact *order = &orders->fact[i];

        if (order->dtype == BUILT_EXPLICIT) {
            *dep++ = (struct chip_dep){ { order->bits }, order->bytes };
        } else if (order->dtype == BUILT_PREDICATE && (flags & CHIP_TASK_HAS_OPERAND) != 0) {
            struct chip_argument operand =
                record_operand(slot_predicate((struct slot *)(uintptr_t)s), order);

            memcpy(dep, &operand, sizeof(operand)); /* that was the last fact about the task */
        }
    }
}

void record_launched(const struct record_sink *sink, const struct built_graph *graph)
{
    const struct image *image = &graph->image;

    for (uint32_t i = 0; i < image->task_count; i++) {
        const struct slot *s =
            (const void *)(image->slots + (uint64_t)image->task[i] * SLOT_LINE_BYTES);
        const struct pto_tensor *tensor =
            (const void *)(image->slots + (uint64_t)s->payload * SLOT_LINE_BYTES);
        struct graph_facts orders = built_graph_orders_of(graph, s->seq - 1);
        struct chip_task task = record_describe_slot(s, &orders);
        struct chip_argument *at;

        if (slot_is_join(s))
            continue;
        at = record_begin_task(sink, task, s->site);
        if (at == NULL)
            continue;
        for (uint32_t k = 0; k < s->tensor_count; k++)
            *at++ = record_argument(&tensor[k], tensor[k].tag);
        record_launched_rest((char *)at, s, (const uint64_t *)(tensor + s->tensor_count), &orders,
                             task.flags);
    }
}

struct chip_scope record_scope(const struct orch_scope *scope)
{
    const struct ledger_use *use = &scope->use;
    const char *file = scope->site != NULL ? scope->site->file : NULL;
    struct chip_scope record = { .line = scope->site != NULL ? (uint32_t)scope->site->line : 0,
                                 .depth = scope->depth,
                                 .ring = scope->ring,
                                 .is_end = scope->is_end,
                                 .task_start = use->task_start,
                                 .task_end = use->task_end,
                                 .heap_start = use->heap_start,
                                 .heap_end = use->heap_end,
                                 .dep_start = use->dep_start,
                                 .dep_end = use->dep_end,
                                 .regions = use->regions };
    uint64_t begin, length;

    if (file == NULL)
        file = "(unknown)";
    length = length_of(file);
    for (begin = length; begin > 0 && file[begin - 1] != '/';)
        begin--;
    length -= begin;
    memcpy(record.site, file + begin,
           length < sizeof(record.site) - 1 ? length : sizeof(record.site) - 1);
    return record;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks, arguments and scopes as data, for whoever records. */
#include "orch/telling.h"

#include <string.h>

enum { FILE_MAX = 4096 }; /* of the name of a source file: longer ones are left out */

static uint64_t length_of(const char *text)
{
    uint64_t length = 0;

    while (text != NULL && length < FILE_MAX && text[length] != '\0')
        length++;
    return length;
}

/* Returns where its arguments go, and behind them its scalars. */
static struct chip_argument *telling_tell_task(const struct telling_tape *tape,
                                               struct chip_task task, const struct pto_site *site)
{
    uint64_t length = site != NULL ? length_of(site->file) : 0;
    char *at;

    task.line = site != NULL ? (uint32_t)site->line : 0;
    task.file_bytes = length != 0 && length < FILE_MAX ? (uint16_t)(length / 8 * 8 + 8) : 0;
    at = tape->take(tape->context, sizeof(task) + task.file_bytes +
                                       task.tensor_count * sizeof(struct chip_argument) +
                                       task.scalar_count * sizeof(uint64_t) +
                                       task.dep_count * sizeof(struct chip_dep));
    if (at == NULL)
        return NULL;
    memcpy(at, &task, sizeof(task));
    memset(at + sizeof(task), 0, task.file_bytes);
    if (task.file_bytes != 0)
        memcpy(at + sizeof(task), site->file, length);
    return (struct chip_argument *)(void *)(at + sizeof(task) + task.file_bytes);
}

static struct chip_argument tell_argument(const struct pto_tensor *t, uint32_t tag)
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

static struct chip_task describe_task(const struct orch_told *told)
{
    const struct pto_task_view *view = told->view;
    const struct pto_args *args = view->args;
    struct chip_task task = { .index = (uint32_t)view->index,
                              .tensor_count = (uint8_t)args->tensor_count,
                              .scalar_count = (uint8_t)args->scalar_count,
                              .dep_count = args->dep_count,
                              .id = view->task,
                              .kernel = { view->kernels.aic, view->kernels.aiv0,
                                          view->kernels.aiv1 },
                              .block_count = (uint32_t)args->block_count,
                              .begin = told->begin,
                              .end = told->end };

    task.flags = (told->is_manual ? CHIP_TASK_IS_MANUAL : 0u) |
                 (args->allow_early_resolve ? CHIP_TASK_IS_EARLY : 0u) |
                 (args->is_sync_start ? CHIP_TASK_IS_GANG : 0u);
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

void telling_task(const struct telling_tape *tape, const struct orch_told *told)
{
    const struct pto_task_view *view = told->view;
    const struct pto_args *args = view->args;
    const struct pto_tensor *output = told->out->tensor;
    struct chip_argument *at = telling_tell_task(tape, describe_task(told), view->site);
    struct chip_dep *dep;

    if (at == NULL)
        return;
    for (uint32_t i = 0; i < args->tensor_count; i++)
        *at++ = tell_argument(args->tag[i] == PTO_TAG_OUTPUT ? output++ : args->tensor[i],
                              args->tag[i]);
    for (uint32_t i = 0; i < args->scalar_count; i++) {
        bool is_passed = (args->passed >> i & 1) != 0;
        uint64_t value = is_passed ? view->entry->scalar[args->passed_from[i]] : args->scalar[i];

        memcpy((char *)at + i * sizeof(value), &value, sizeof(value));
    }
    dep = (struct chip_dep *)(void *)((char *)at + args->scalar_count * sizeof(uint64_t));
    for (uint32_t i = 0; i < args->dep_count; i++)
        dep[i] = (struct chip_dep){ args->deps[i], args->dep_kinds != NULL
                                                       ? args->dep_kinds[i]
                                                       : PTO_DEP_WAIT | PTO_DEP_RETAIN };
}

/* Of a lane of a task of a graph, whose lanes are as they were built. */
static int32_t telling_kernel_of(const struct slot *s, uint32_t lane)
{
    return s->kernel[(s->built_lanes & (s->built_lanes - 1)) != 0 ? lane : 0];
}

void telling_launched(const struct telling_tape *tape, const struct image *image)
{
    for (uint32_t i = 0; i < image->task_count; i++) {
        const struct slot *s =
            (const void *)(image->slots + (uint64_t)image->task[i] * SLOT_LINE_BYTES);
        const struct pto_tensor *tensor =
            (const void *)(image->slots + (uint64_t)s->payload * SLOT_LINE_BYTES);
        struct chip_task task = { .index = s->seq - 1,
                                  .tensor_count = s->tensor_count,
                                  .id = slot_id(s),
                                  .block_count = s->block_count,
                                  .flags = CHIP_TASK_IS_LAUNCHED };
        struct chip_argument *at;

        if (slot_is_join(s))
            continue;
        for (uint32_t lane = 0; lane < SLOT_LANES; lane++)
            task.kernel[lane] = (s->built_lanes >> lane & 1) != 0 ? telling_kernel_of(s, lane) : -1;
        at = telling_tell_task(tape, task, s->site);
        for (uint32_t k = 0; at != NULL && k < s->tensor_count; k++)
            *at++ = tell_argument(&tensor[k], tensor[k].tag);
    }
}

struct chip_scope telling_scope(const struct orch_scope *scope)
{
    const struct ledger_use *use = &scope->use;
    const char *file = scope->site != NULL ? scope->site->file : NULL;
    struct chip_scope told = { .line = scope->site != NULL ? (uint32_t)scope->site->line : 0,
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
    memcpy(told.site, file + begin,
           length < sizeof(told.site) - 1 ? length : sizeof(told.site) - 1);
    return told;
}

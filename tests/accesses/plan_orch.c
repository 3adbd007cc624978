/* SPDX-License-Identifier: Apache-2.0 */
/* Submits the tasks of a plan. The id of a kernel is its number of arguments. */
#include <pto/orch.h>

#include "plan.h"

static struct pto_tensor view_of(const struct pto_tensor *memory, const struct plan_arg *arg)
{
    struct pto_tensor x = *memory;
    uint32_t dense = 1;

    x.ndims = arg->ndims;
    x.start = arg->start;
    x.extent = 1;
    x.is_contiguous = true;
    for (uint32_t i = arg->ndims; i-- != 0; dense *= arg->shapes[i]) {
        x.shapes[i] = arg->shapes[i];
        x.strides[i] = arg->strides[i];
        x.extent += (uint64_t)(arg->shapes[i] - 1) * arg->strides[i];
        x.is_contiguous = x.is_contiguous && arg->strides[i] == dense;
    }
    return x;
}

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct plan *plan = pto_tensor_data(&entry->tensor[0]);

    for (uint32_t t = 0; t < plan->task_count; t++) {
        const struct plan_task *task = &plan->task[t];
        struct pto_tensor_info info[PLAN_ARGS];
        struct pto_tensor x[PLAN_ARGS];
        struct pto_args args;

        pto_args_init(&args);
        for (uint32_t i = 0; i < task->arg_count; i++) {
            const struct plan_arg *arg = &task->arg[i];
            const uint32_t *shapes = arg->shapes;

            x[i] = view_of(&entry->tensor[1], arg);
            info[i] = pto_tensor_info_make(shapes, arg->ndims, PTO_FLOAT32);
            if (arg->tag == PTO_TAG_INPUT)
                pto_add_input(&args, &x[i]);
            else if (arg->tag == PTO_TAG_INOUT)
                pto_add_inout(&args, &x[i]);
            else if (arg->tag == PTO_TAG_OUTPUT)
                pto_add_output(&args, &info[i]);
            else
                pto_add_output_existing(&args, &x[i]);
        }
        pto_add_scalar(&args, (uint64_t)task->access.kind);
        pto_add_scalar(&args, (uint64_t)task->access.way);
        pto_add_scalar(&args, (uint64_t)task->access.is_write);
        pto_add_scalar(&args, (uint64_t)task->access.argument);
        pto_add_scalar(&args, (uint64_t)task->access.offset);
        pto_submit_aiv(o, (int32_t)task->arg_count, &args); /* submit */
    }
}

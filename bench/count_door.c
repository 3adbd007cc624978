/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tasks of count.c as an object that was compiled with the reference's own headers
 * would submit them: through the layouts of src/door/layout.h. The object is
 * its own kernel, too.
 */
#include <string.h>

#include "bench/bench_patterns.h"
#include "door/layout.h"

struct door_runtime {
    const struct door_ops *ops;
    uint8_t scope_mode;
};

static struct door_runtime *runtime;

void framework_bind_runtime(struct door_runtime *rt);
void framework_bind_runtime(struct door_runtime *rt)
{
    runtime = rt;
}

void kernel_entry(int64_t *args);
void kernel_entry(int64_t *args)
{
    __asm__ volatile("" ::"r"(args) : "memory");
}

/* As the constructor there: all of it but tags and scalars. */
static void init_args(struct door_stream_args *a)
{
    memset(a->args.tensor, 0, sizeof(a->args.tensor));
    memset(&a->args.tensor_count, 0, sizeof(a->args) - offsetof(struct door_args, tensor_count));
    a->args.launch.block_count = 1;
    a->args.timing_slot = -1;
    memset(&a->marks, 0, sizeof(*a) - offsetof(struct door_stream_args, marks));
}

static void add(struct door_stream_args *a, const struct pto_tensor *tensor, enum pto_tag tag)
{
    a->args.tag[a->args.tensor_count] = (int32_t)tag;
    a->args.tensor[a->args.tensor_count++] = tensor;
}

void submit_all(const struct door_entry *entry);
void submit_all(const struct door_entry *entry)
{
    const struct bench_task *task = (const struct bench_task *)(uintptr_t)entry->scalar[0];
    const struct pto_tensor *item = (const struct pto_tensor *)(uintptr_t)entry->scalar[1];
    static const struct pto_kernels kernels = { -1, 0, -1 };

    for (uint32_t i = 0; i < (uint32_t)entry->scalar[2]; i++) {
        const struct bench_task *t = &task[i];
        struct door_stream_args a;

        init_args(&a);
        for (int32_t k = 0; k < t->read_count; k++)
            add(&a, &item[t->read[k]], PTO_TAG_INPUT);
        if (t->write >= 0)
            add(&a, &item[t->write], t->is_inout ? PTO_TAG_INOUT : PTO_TAG_OUTPUT_EXISTING);
        a.args.scalar[a.args.scalar_count] = i;
        a.marks.scalar_source[a.args.scalar_count] = (uintptr_t)&i;
        a.marks.scalar_dtype[a.args.scalar_count++] = PTO_UINT32;
        if (!runtime->ops->is_fatal(runtime))
            (void)runtime->ops->submit(runtime, &kernels, &a.args);
    }
}

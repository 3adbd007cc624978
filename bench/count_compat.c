/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tasks of count.c as an object that was compiled with the reference's own headers
 * would submit them: through the layouts of src/compat/orch/layout.h. The object is
 * its own kernel, too.
 */
#include <string.h>

#include "tool/bench/bench_patterns.h"
#include "compat/orch/layout.h"

struct compat_runtime {
    const struct compat_ops *ops;
    uint8_t scope_mode;
};

static struct compat_runtime *runtime;

void framework_bind_runtime(struct compat_runtime *rt);
void framework_bind_runtime(struct compat_runtime *rt)
{
    runtime = rt;
}

void kernel_entry(int64_t *args);
void kernel_entry(int64_t *args)
{
    __asm__ volatile("" ::"r"(args) : "memory");
}

/* A function of its own there, in a source of its own. */
__attribute__((noinline)) static struct compat_runtime *current_runtime(void)
{
    __asm__ volatile("");
    return runtime;
}

/* As the constructor there: all of it but the scalars. */
static void init_args(struct compat_stream_args *a)
{
    memset(a->args.tag, 0, sizeof(a->args.tag));
    memset(a->args.tensor, 0, sizeof(a->args.tensor));
    a->args.tensor_count = a->args.scalar_count = 0;
    a->args.has_error = false;
    a->args.error = NULL;
    a->args.launch = (struct compat_launch){ .block_count = 1 };
    a->args.allow_early_resolve = false;
    memset(&a->args.predicate, 0, sizeof(a->args.predicate));
    a->args.timing_slot = -1;
    a->marks.marked = a->marks.ambiguous = 0;
    memset(a->marks.scalar_source, 0, sizeof(a->marks.scalar_source));
    memset(a->marks.scalar_dtype, 0, sizeof(a->marks.scalar_dtype));
    a->deps = NULL;
    a->dep_kinds = NULL;
    a->dep_count = 0;
}

static void fail(struct compat_args *a, const char *why)
{
    if (!a->has_error) {
        a->has_error = true;
        a->error = why;
    }
}

static void add(struct compat_args *a, const struct pto_tensor *tensor, enum pto_tag tag)
{
    if (a->scalar_count != 0) {
        fail(a, "a tensor after a scalar");
    } else if (a->tensor_count >= PTO_TASK_TENSORS_MAX) {
        fail(a, "too many tensors");
    } else {
        a->tag[a->tensor_count] = (int32_t)tag;
        a->tensor[a->tensor_count++] = tensor;
    }
    __asm__ volatile("" ::: "memory"); /* compilers of C++ read the counts each time */
}

static void add_scalar(struct compat_stream_args *a, const uint32_t *value)
{
    if (a->args.scalar_count >= PTO_TASK_SCALARS_MAX) {
        fail(&a->args, "too many scalars");
        return;
    }
    a->args.scalar[a->args.scalar_count] = *value;
    a->marks.scalar_source[a->args.scalar_count] = (uintptr_t)value;
    a->marks.scalar_dtype[a->args.scalar_count++] = PTO_UINT32;
}

void submit_all(const struct compat_entry *entry);
void submit_all(const struct compat_entry *entry)
{
    const struct bench_task *task = (const struct bench_task *)(uintptr_t)entry->scalar[0];
    const struct pto_tensor *item = (const struct pto_tensor *)(uintptr_t)entry->scalar[1];

    for (uint32_t i = 0; i < (uint32_t)entry->scalar[2]; i++) {
        const struct bench_task *t = &task[i];
        const struct pto_kernels kernels = { -1, 0, -1 };
        struct compat_stream_args a;
        struct compat_runtime *rt;

        init_args(&a);
        for (int32_t k = 0; k < t->read_count; k++)
            add(&a.args, &item[t->read[k]], PTO_TAG_INPUT);
        if (t->write >= 0)
            add(&a.args, &item[t->write], t->is_inout ? PTO_TAG_INOUT : PTO_TAG_OUTPUT_EXISTING);
        add_scalar(&a, &i);
        rt = current_runtime();
        if (!rt->ops->is_fatal(rt))
            (void)rt->ops->submit(rt, &kernels, &a.args);
    }
}

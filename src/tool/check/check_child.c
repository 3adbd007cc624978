/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a task of a random graph in a child process of a level-3 worker. As on a chip, the task
 * checks its arguments, waits for the other tasks of its group, reads and writes its regions, and
 * records the times. A SUB worker calls a function; a chip runs an orchestration with one kernel.
 */
#include "tool/check/check_child.h"

#include <unistd.h>

#include "base/os.h"
#include "pto/worker.h"

enum { NAP_US = 20 };
/* time limit of a wait for another process; only a bug makes a wait reach it */
#define WAIT_NS 20000000000ull

#pragma GCC visibility push(default)
int check_call(const struct pto_sub_call *call);
int check_hold(const struct pto_sub_call *call);
extern const struct pto_callable_params check_chip_call;
extern const struct pto_callable_params check_chip_hold;
#pragma GCC visibility pop

static enum check_child_fault check_child_judge(const struct check_run_task *t,
                                                const struct pto_tensor *const tensor[],
                                                uint32_t tensor_count)
{
    const struct check_task *task = &t->run->g->tasks[t->index];

    if (tensor_count != task->arg_count)
        return CHECK_CHILD_ARGS;
    for (uint32_t k = 0; k < tensor_count; k++) {
        if (check_tensor_error(tensor[k], &task->args[k].region) != NULL)
            return CHECK_CHILD_TENSOR;
        t->run->seen[t->first_arg + k] = *tensor[k];
    }
    return CHECK_CHILD_OK;
}

static enum check_child_fault judge_scalars(const struct check_run_task *t, const uint64_t *scalar,
                                            uint32_t count)
{
    if (count != t->run->g->tasks[t->index].scalar_count)
        return CHECK_CHILD_ARGS;
    for (uint32_t i = 0; i < count; i++)
        if (scalar[i] != check_task_scalar(t, i))
            return CHECK_CHILD_SCALAR;
    return CHECK_CHILD_OK;
}

/* Waits until another process has raised a word to a value. */
static bool check_child_await(const uint32_t *word, uint32_t value)
{
    uint64_t deadline = os_now_ns() + WAIT_NS;

    while (__atomic_load_n(word, __ATOMIC_RELAXED) < value) {
        if (os_now_ns() >= deadline)
            return false;
        usleep(NAP_US);
    }
    return true;
}

static enum check_child_fault check_child_barrier(const struct check_run_task *t)
{
    const struct check_place *p = &t->run->g->tasks[t->index].place;
    uint32_t *met = &t->run->tasks[p->group_first].calls[0].met;

    if (p->group_count == 1)
        return CHECK_CHILD_OK;
    __atomic_add_fetch(met, 1, __ATOMIC_RELAXED);
    return check_child_await(met, p->group_count) ? CHECK_CHILD_OK : CHECK_CHILD_GROUP;
}

static void delay(const struct check_run_task *t)
{
    const struct check_task *task = &t->run->g->tasks[t->index];

    for (uint32_t i = 0; i < task->spins; i++)
        pto_pause();
    if (task->sleep_us != 0)
        usleep(task->sleep_us);
    if (t->gate != NULL)
        (void)check_child_await(&t->gate->started, 1);
}

static void work(struct check_run_task *t, const struct pto_tensor *const tensor[],
                 uint32_t tensor_count)
{
    struct check_run *run = t->run;
    struct check_run_call *call = &t->calls[0];
    struct check_region regions[PTO_TASK_TENSORS_MAX];
    uint64_t start = check_tick(run);
    enum check_child_fault fault;

    if (__atomic_add_fetch(&call->runs, 1, __ATOMIC_RELAXED) != 1)
        return;
    call->start = start;
    t->process = getpid();
    __atomic_add_fetch(&t->started, 1, __ATOMIC_RELAXED);
    fault = check_child_judge(t, tensor, tensor_count);
    if (fault == CHECK_CHILD_OK && run->is_held &&
        !__atomic_load_n(&run->is_built, __ATOMIC_RELAXED))
        fault = CHECK_CHILD_HELD;
    if (fault == CHECK_CHILD_OK)
        fault = check_child_barrier(t);
    if (fault == CHECK_CHILD_OK) {
        delay(t);
        for (uint32_t k = 0; k < tensor_count; k++)
            regions[k] = check_region_from_tensor(tensor[k]);
        if (run->g->is_compared && !t->fails) {
            call->hash = check_effect_read(t, 0, regions);
            check_effect_write(t, 0, regions, call->hash);
        }
    }
    if (fault != CHECK_CHILD_OK)
        t->strays = fault;
    call->end = check_tick(run);
}

/* ---- functions that SUB workers call ---- */

int check_call(const struct pto_sub_call *call)
{
    struct check_run_task *t = (struct check_run_task *)(uintptr_t)call->scalar[0];
    const struct pto_tensor *tensor[PTO_TASK_TENSORS_MAX];
    enum check_child_fault fault = judge_scalars(t, call->scalar, call->scalar_count);

    for (uint32_t k = 0; k < call->tensor_count; k++)
        tensor[k] = &call->tensor[k];
    if (fault != CHECK_CHILD_OK)
        t->strays = fault;
    else
        work(t, tensor, call->tensor_count);
    return t->fails ? PTO_EFORMAT : PTO_OK;
}

/* Occupies the calling child until the whole graph has been submitted. */
int check_hold(const struct pto_sub_call *call)
{
    const struct check_run *run = (const struct check_run *)(uintptr_t)call->scalar[0];
    uint64_t deadline = os_now_ns() + WAIT_NS;

    while (!__atomic_load_n(&run->is_built, __ATOMIC_ACQUIRE)) {
        if (os_now_ns() >= deadline)
            return PTO_ETIMEOUT;
        usleep(NAP_US);
    }
    return PTO_OK;
}

/* ---- callables of chips ---- */

static void work_on_chip(const int64_t *args, uint32_t count)
{
    const struct pto_tensor *tensor[PTO_TASK_TENSORS_MAX] = { NULL };

    for (uint32_t k = 0; k < count; k++)
        tensor[k] = pto_arg_tensor(args, (int)k);
    work((struct check_run_task *)(uintptr_t)args[count], tensor, count);
}

#define KERNEL(n)                            \
    static void kernel_of_##n(int64_t *args) \
    {                                        \
        work_on_chip(args, n);               \
    }
CHECK_COUNTS(KERNEL)

static void check_child_orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    struct check_run_task *t = (struct check_run_task *)(uintptr_t)entry->scalar[0];
    enum check_child_fault fault = judge_scalars(t, entry->scalar, entry->scalar_count);
    struct pto_args args;

    if (fault != CHECK_CHILD_OK || entry->tensor_count != t->run->g->tasks[t->index].arg_count) {
        t->strays = fault != CHECK_CHILD_OK ? fault : CHECK_CHILD_ARGS;
        return;
    }
    if (t->fails) {
        const struct pto_tensor *tensor[PTO_TASK_TENSORS_MAX] = { NULL };

        for (uint32_t k = 0; k < entry->tensor_count; k++)
            tensor[k] = &entry->tensor[k];
        work(t, tensor, entry->tensor_count);
        (void)pto_orch_fail(o, PTO_EFORMAT, "as intended by the check");
        return;
    }
    pto_args_init(&args);
    /* use NO_DEP: this run of the chip has only one task, so it needs no edges */
    for (uint32_t k = 0; k < entry->tensor_count; k++)
        pto_args_add(&args, &entry->tensor[k], PTO_TAG_NO_DEP);
    pto_add_scalar(&args, entry->scalar[0]);
    (void)pto_submit_aiv(o, (int32_t)entry->tensor_count, &args);
}

static void hold(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_sub_call call = { .scalar = entry->scalar };

    (void)o;
    (void)check_hold(&call);
}

#define X(n) { "check", kernel_of_##n, PTO_CORE_AIV },
static const struct pto_kernel kernels[] = { CHECK_COUNTS(X) };
#undef X

const struct pto_callable_params check_chip_call = { .size = sizeof(check_chip_call),
                                                     .name = "check",
                                                     .orchestration = check_child_orchestrate,
                                                     .kernels = kernels,
                                                     .kernel_count =
                                                         sizeof(kernels) / sizeof(kernels[0]),
                                                     .keeps_signals = true };
const struct pto_callable_params check_chip_hold = { .size = sizeof(check_chip_hold),
                                                     .name = "hold",
                                                     .orchestration = hold,
                                                     .keeps_signals = true };

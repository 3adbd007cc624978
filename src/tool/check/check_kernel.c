/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel of all tasks of a random graph: checks its arguments, waits for the other invocations
 * of its team, reads and writes its regions, and records the times.
 */
#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include "base/os.h"
#include "pto/sim.h"
#include "tool/check/check_trial.h"

enum { GATE_NS = 500 * 1000 * 1000, PIPE_KEY = 0x636865636b };

#define MEET_NS 5000000000ull

/*
 * The function pto_sim_get_pipe_shared_state, which returns memory that the lanes of a cluster
 * share.
 */
typedef void *(*pipe_state_fn)(uint64_t key, size_t size);
static pipe_state_fn pipe_state;

/*
 * Tasks whose kernels have no scalars. Each index has separate kernel functions, which find their
 * task at this index.
 */
static struct check_run_task *bare_tasks[CHECK_BARE_MAX];

static const char *kernel_judge(const struct check_run_task *t, const int64_t *args, uint32_t lane)
{
    const uint32_t both = CHECK_LANE_AIV0 | CHECK_LANE_AIV1;
    const struct check_task *task = &t->run->g->tasks[t->index];

    if (pto_arg_global(args) == NULL)
        return "a kernel got no context";
    if (pto_block_count(args) != (int32_t)task->blocks)
        return "a kernel got a wrong block count";
    if ((task->lanes & both) == both && lane != 0 && pto_sub_block(args) != (int32_t)lane - 1)
        return "a kernel got a wrong sub-block";
    for (uint32_t i = 0; i < task->scalar_count; i++) {
        if ((uint64_t)args[task->arg_count + i] != check_task_scalar(t, i))
            return "a kernel got a wrong scalar";
    }
    for (uint32_t k = 0; k < task->arg_count; k++) {
        const struct pto_tensor *tensor = pto_arg_tensor(args, (int)k);

        if (tensor == NULL || check_tensor_error(tensor, &task->args[k].region) != NULL)
            return "a kernel got a wrong tensor descriptor";
    }
    return NULL;
}

/*
 * Delays one invocation of the task, which is chosen by the task's salt (a random number). The last
 * invocation waits until the task `gate` has started.
 */
static void kernel_delay(const struct check_run_task *t, uint32_t call)
{
    const struct check_task *task = &t->run->g->tasks[t->index];
    bool is_slow = task->salt % t->call_count == call;

    for (uint32_t i = 0; i < task->spins && is_slow; i++)
        pto_pause();
    if (task->sleep_us != 0 && is_slow)
        usleep(task->sleep_us);
    if (t->gate != NULL && call == t->call_count - 1) {
        uint64_t deadline = os_now_ns() + GATE_NS;

        while (__atomic_load_n(&t->gate->started, __ATOMIC_RELAXED) == 0 && os_now_ns() < deadline)
            sched_yield();
    }
}

/*
 * Waits until all invocations of the team have arrived, which is possible only if they run at the
 * same time. Returns an error text, or NULL.
 */
static const char *kernel_barrier(const struct check_run_task *t, uint32_t call)
{
    struct check_run *run = t->run;
    uint32_t first, count = check_team_of(&run->g->tasks[t->index], call, &first);
    uint32_t *met = &t->calls[first].met;
    uint64_t deadline;

    if (count == 1)
        return NULL;
    t->calls[call].thread = pthread_self();
    if (pipe_state != NULL)
        t->calls[call].pipe = pipe_state(PIPE_KEY, sizeof(uint64_t));
    __atomic_add_fetch(met, 1, __ATOMIC_RELAXED);
    deadline = os_now_ns() + (run->runner->meet_ns != 0 ? run->runner->meet_ns : MEET_NS);
    while (__atomic_load_n(met, __ATOMIC_RELAXED) < count) {
        if (__atomic_load_n(&run->is_spoilt, __ATOMIC_RELAXED))
            return "a kernel did not run at the same time as the others of its block or gang";
        if (os_now_ns() >= deadline)
            __atomic_store_n(&run->is_spoilt, true, __ATOMIC_RELAXED);
        pto_pause();
    }
    return NULL;
}

/*
 * Raises the counters of all deferred tasks that task `index` notifies. The first invocation of the
 * task calls this function.
 */
static void notify_others(struct check_run *run, uint32_t index)
{
    for (uint32_t i = 0; i < run->deferred_count; i++) {
        struct check_run_task *t = &run->tasks[run->deferred[i]];
        const struct check_defer *d = &run->g->tasks[t->index].defer;

        for (uint32_t k = 0; k < d->notifier_count; k++) {
            if (d->notifiers[k] != index)
                continue;
            t->notified[k] = check_tick(run);
            pto_notify_add(&t->counter, 1);
        }
    }
}

/*
 * Checks, for each deferred predecessor of a task, that the predecessor's notifiers have run, and
 * that the task sees what its helper wrote. Returns an error text, or NULL.
 */
static const char *read_mail(const struct check_run *run, uint32_t index)
{
    for (uint32_t i = 0; i < run->deferred_count; i++) {
        const struct check_run_task *t = &run->tasks[run->deferred[i]];
        const struct check_task *task = &run->g->tasks[t->index];

        if (!run->oracle->runs[t->index] || !bit_get(graph_ancestors(run->g, index), t->index))
            continue;
        for (uint32_t k = 0; k < task->defer.notifier_count; k++) {
            if (t->notified[k] == 0)
                return "a kernel ran before a notifier of its deferred predecessor";
        }
        for (uint32_t k = 0; k < t->call_count && task->defer.has_helper; k++) {
            if (check_call_defers(task, k) && t->calls[k].mail != check_mail(t))
                return "a kernel ran before the conditions of a deferred task held";
        }
    }
    return NULL;
}

uint32_t check_count_notifications(const struct check_run_task *t)
{
    const struct check_task *task = &t->run->g->tasks[t->index];
    uint32_t count = task->defer.notifier_count;

    for (uint32_t k = 0; k < t->call_count && task->defer.has_helper; k++)
        count += check_call_defers(task, k);
    return count;
}

/*
 * Registers the conditions of an invocation. One of the conditions of a task, at a random position,
 * waits for the final value of the counter; the others wait for smaller values.
 */
static const char *register_conditions(const int64_t *args, struct check_run_task *t, uint32_t call)
{
    const struct check_task *task = &t->run->g->tasks[t->index];
    uint32_t expected = check_count_notifications(t);
    uint32_t place = task->salt % task->defer.conditions;
    bool has_last = task->defer.who != CHECK_ALL || call == (task->salt >> 16) % t->call_count;

    for (uint32_t k = 0; k < task->defer.conditions; k++) {
        bool is_last = has_last && k == place;

        if (!pto_defer(args, &t->counter, is_last ? expected : expected * k / 3))
            return "a kernel could not register a condition";
    }
    return NULL;
}

/*
 * Returns the index of the invocation in its task; UINT32_MAX: the task has no such block or lane.
 */
static uint32_t find_call(const struct check_run_task *t, const int64_t *args, uint32_t lane)
{
    const struct check_task *task = &t->run->g->tasks[t->index];
    uint32_t before = task->lanes & ((1u << lane) - 1);
    uint32_t block;

    if (pto_arg_local(args) == NULL || (task->lanes >> lane & 1) == 0)
        return UINT32_MAX;
    block = (uint32_t)pto_block_index(args);
    if (block >= task->blocks)
        return UINT32_MAX;
    return block * check_lane_count(task) + (uint32_t)__builtin_popcount(before);
}

/*
 * Reads and writes the regions of an invocation. If the helper completes the invocation, the helper
 * does the writes. Returns an error text, or NULL.
 */
static const char *kernel_work(const int64_t *args, struct check_run_task *t, uint32_t index)
{
    const struct check_task *task = &t->run->g->tasks[t->index];
    struct check_run_call *call = &t->calls[index];
    struct check_region regions[PTO_TASK_TENSORS_MAX];
    bool defers = check_call_defers(task, index);
    const char *fault = NULL;
    struct check_job *job;

    for (uint32_t k = 0; k < task->arg_count; k++)
        regions[k] = check_region_from_tensor(pto_arg_tensor(args, (int)k));
    /* kernels of a graph whose results are not compared could race, so they access no bytes */
    if (t->run->g->is_compared)
        call->hash = check_effect_read(t, index, regions);
    if (defers)
        fault = register_conditions(args, t, index);
    if (fault == NULL && defers && task->defer.has_helper) {
        job = check_alloc(NULL, 1, sizeof(*job));
        *job = (struct check_job){ .task = t, .call = index };
        job->sleep_us = task->salt % 4 == 0 ? (uint32_t)(task->salt >> 8 & 127) : 0;
        memcpy(job->regions, regions, task->arg_count * sizeof(regions[0]));
        check_helper_add(&t->run->runner->helper, job);
    } else if (t->run->g->is_compared) {
        check_effect_write(t, index, regions, call->hash);
    }
    return fault;
}

/* Runs an invocation without recording its times; returns an error text, or NULL. */
static const char *kernel_run(const int64_t *args, struct check_run_task *t, uint32_t index,
                              uint32_t lane)
{
    struct check_run *run = t->run;
    const char *fault = kernel_judge(t, args, lane);

    if (run->is_held && !__atomic_load_n(&run->is_built, __ATOMIC_RELAXED))
        fault = "a kernel ran before the graph was complete";
    if (fault == NULL)
        fault = read_mail(run, t->index);
    if (fault == NULL)
        fault = kernel_barrier(t, index);
    if (fault != NULL)
        return fault;
    if (index == 0) {
        t->id_seen = pto_arg_local(args)->task.raw;
        for (uint32_t k = 0; k < run->g->tasks[t->index].arg_count; k++)
            run->seen[t->first_arg + k] = *pto_arg_tensor(args, (int)k);
    }
    kernel_delay(t, index);
    return kernel_work(args, t, index);
}

void check_kernel_body(const int64_t *args, struct check_run_task *t, uint32_t lane)
{
    const struct check_task *task = &t->run->g->tasks[t->index];
    struct check_run *run = t->run;
    uint64_t start = check_tick(run);
    uint32_t index = find_call(t, args, lane);
    struct check_run_call *call;
    const char *fault;
    bool is_left;

    if (index == UINT32_MAX) {
        __atomic_add_fetch(&t->strays, 1, __ATOMIC_RELAXED);
        return;
    }
    call = &t->calls[index];
    if (__atomic_add_fetch(&call->runs, 1, __ATOMIC_RELAXED) != 1)
        return;
    call->start = start;
    __atomic_add_fetch(&t->started, 1, __ATOMIC_RELAXED);
    if (index == 0)
        notify_others(run, t->index);
    is_left = check_call_defers(task, index) && task->defer.has_helper;
    fault = kernel_run(args, t, index, lane);
    if (fault != NULL) {
        call->fault = fault;
        /* other invocations stop waiting for this one */
        __atomic_store_n(&run->is_spoilt, true, __ATOMIC_RELAXED);
        if (is_left)
            pto_notify_add(&t->counter, 1);
    }
    if (!is_left || fault != NULL)
        call->end = check_tick(run);
}

/*
 * There is a kernel for each number of tensors, because the scalar that identifies the task follows
 * the tensors. BARES lists the indices in bare_tasks, for kernels without scalars.
 */
#define BARES(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

#define KERNEL(n, lane)                                                             \
    static void kernel_of_##n##_##lane(int64_t *args)                               \
    {                                                                               \
        check_kernel_body(args, (struct check_run_task *)(uintptr_t)args[n], lane); \
    }
#define X(n) KERNEL(n, 0) KERNEL(n, 1) KERNEL(n, 2)
CHECK_COUNTS(X)
#undef X
#define BARE(n, lane)                                   \
    static void kernel_bare_##n##_##lane(int64_t *args) \
    {                                                   \
        check_kernel_body(args, bare_tasks[n], lane);   \
    }
#define X(n) BARE(n, 0) BARE(n, 1) BARE(n, 2)
BARES(X)
#undef X

void check_set_bare_task(uint32_t slot, struct check_run_task *t)
{
    bare_tasks[slot] = t;
}

bool check_has_pipes(void)
{
    return pipe_state != NULL;
}

int check_make_callable(struct pto_callable **callable_out)
{
#define X0(n) kernel_of_##n##_0,
#define X1(n) kernel_of_##n##_1,
#define X2(n) kernel_of_##n##_2,
#define Y0(n) kernel_bare_##n##_0,
#define Y1(n) kernel_bare_##n##_1,
#define Y2(n) kernel_bare_##n##_2,
    static const pto_kernel_fn functions[CHECK_LANES][CHECK_KERNELS_A_LANE] = {
        { CHECK_COUNTS(X0) BARES(Y0) },
        { CHECK_COUNTS(X1) BARES(Y1) },
        { CHECK_COUNTS(X2) BARES(Y2) }
    };
#undef X0
#undef X1
#undef X2
#undef Y0
#undef Y1
#undef Y2
    struct pto_kernel kernels[CHECK_LANES * CHECK_KERNELS_A_LANE];
    struct pto_callable_params params;

    pipe_state = (pipe_state_fn)dlsym(RTLD_DEFAULT, "pto_sim_get_pipe_shared_state");
    for (uint32_t i = 0; i < CHECK_LANES * CHECK_KERNELS_A_LANE; i++)
        kernels[i] =
            (struct pto_kernel){ "check",
                                 functions[i / CHECK_KERNELS_A_LANE][i % CHECK_KERNELS_A_LANE],
                                 i < CHECK_KERNELS_A_LANE ? PTO_CORE_AIC : PTO_CORE_AIV };
    pto_callable_params_init(&params);
    params.name = "check";
    params.orchestration = check_orchestrate;
    params.kernels = kernels;
    params.kernel_count = CHECK_LANES * CHECK_KERNELS_A_LANE;
    return pto_callable_create(&params, callable_out);
}

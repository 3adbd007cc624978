/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs with guards, with steps, or with kernels that report accesses: every kernel is called through
 * a function that checks the task's arguments before and after it. The function replaces the kernel in
 * the table of the run, so that other runs cost nothing, however a kernel is started.
 */
#include <stdlib.h>
#include <string.h>

#include "sched/guarded.h"
#include "sim/sim.h"

static void run_guarded(int64_t *args);
static void guards_call_kernel(struct thread *th, uint32_t kernel, int64_t *args,
                               const struct pto_tensor *tensor);

int sim_guard_kernels(struct sim *m, struct orch_run *run)
{
    struct graph_kernel *guarded;

    m->guarded_kernels = run->kernels;
    m->has_steps = run->options->step != NULL || run->options->has_nan_check;
    sim_free_steps(m);
    /*
     * reset the counter, because a kernel of an earlier run may have crashed without decrementing
     * it
     */
    a32_store_relaxed(&m->kernels_running, 0);
    if (!run->has_guards && m->links == NULL && !m->has_steps)
        return PTO_OK;
    /* relaxed: the lock orders this load after the calls that have added watches to the list */
    guarded_withdraw(aptr_load_relaxed(&m->watches));
    guarded = realloc(m->guards, (run->kernel_count + 1) * sizeof(*guarded));
    if (guarded == NULL)
        return PTO_ENOMEM;
    m->guards = guarded;
    for (uint32_t i = 0; i < run->kernel_count; i++) {
        guarded[i] = run->kernels[i];
        if (guarded[i].fn != NULL)
            guarded[i].fn = run_guarded;
    }
    run->kernels = guarded;
    return PTO_OK;
}

/*
 * Copies the scalars to the page before unmapped memory. If that fails, they stay where they are.
 */
void sim_guard_scalars(struct sim *m, struct orch_run *run)
{
    size_t page = os_page_bytes(), bytes = run->entry->scalar_count * sizeof(uint64_t);
    char *end;

    if (!run->has_guards || run->function == NULL)
        return;
    if (m->fence == NULL && (m->fence = os_reserve(2 * page)) != NULL &&
        os_commit(m->fence, page) < 0) {
        os_release(m->fence, 2 * page);
        m->fence = NULL;
    }
    if (m->fence == NULL)
        return;
    end = m->fence + page;
    if (bytes != 0)
        memcpy(end - bytes, run->entry->scalar, bytes);
    m->fenced = *run->entry;
    m->fenced.scalar = (const uint64_t *)(const void *)(end - bytes);
    run->entry = &m->fenced;
}

void sim_guard_free(struct sim *m)
{
    sim_free_steps(m);
    free(m->guards);
    os_release(m->fence, 2 * os_page_bytes());
}

uint32_t sim_scalar_beyond(const struct sim *m, uint64_t addr)
{
    uint64_t end = (uint64_t)(uintptr_t)m->fence + os_page_bytes();

    if (m->run.entry != &m->fenced || addr < end || addr >= end + os_page_bytes())
        return 0;
    return (uint32_t)((addr - end) / sizeof(uint64_t)) + 1;
}

/* Called instead of the guarded kernel, on the same thread and core. */
static void run_guarded(int64_t *args)
{
    char *local = (char *)(uintptr_t)args[PTO_ARG_LOCAL];
    const struct core *core = (const void *)(local - offsetof(struct core, local));
    /* address of the task's tensors */
    const struct pto_tensor *tensor = (const void *)(uintptr_t)args[0];
    struct thread *th = core->owner;
    struct slot *s = core->slot;
    uint32_t kernel = sim_kernel_of(th);
    struct sim *m = th->sim;
    const struct guarded_watch *first;
    uint32_t found;
    bool is_compared;

    if (!m->run.has_guards) {
        guards_call_kernel(th, kernel, args, tensor);
        return;
    }
    if (!guarded_begin(&m->sched, s, tensor, kernel))
        return;
    /*
     * acquire: sim_add_watch has published this list, which has a watch for each thread with a
     * kernel
     */
    first = aptr_load_acquire(&m->watches);
    guarded_poison_unused(args, s);
    found = guarded_enter(first, &th->watch, s, tensor);
    is_compared = sim_enter_inputs(th, tensor);
    guards_call_kernel(th, kernel, args, tensor);
    sim_leave_inputs(th, tensor, is_compared);
    /* acquire: sim_add_watch publishes the list, which may have grown */
    first = aptr_load_acquire(&m->watches);
    guarded_leave(first, &th->watch, &m->sched, s, tensor, kernel, found);
}

static void guards_call_kernel(struct thread *th, uint32_t kernel, int64_t *args,
                               const struct pto_tensor *tensor)
{
    struct sim *m = th->sim;
    pto_kernel_fn fn = m->guarded_kernels[kernel].fn;

    if (m->has_steps)
        sim_enter_step(th, tensor);
    if (m->links != NULL && m->links[kernel] != NULL)
        sim_call_touching(th, m->links[kernel], fn, args, tensor);
    else
        fn(args);
    if (m->links != NULL && m->links[kernel] == NULL)
        sim_note_use(th, tensor, false);
    if (m->has_steps)
        sim_leave_step(th, tensor);
}

uint32_t sim_kernel_of(const struct thread *th)
{
    const struct slot *s = th->core.slot;

    return (s->flags & SLOT_IS_TEAM) != 0 ? th->lane.kernel : s->kernel[0];
}

/* Called under the lock, before the thread gets work. */
void sim_add_watch(struct sim *m, struct thread *th)
{
    /* relaxed: `watches` is only written under the lock */
    th->watch.next = aptr_load_relaxed(&m->watches);
    /* release: publishes the watch to run_guarded */
    (void)aptr_swap_acq_rel(&m->watches, &th->watch);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs with guards: every kernel is called through a function that looks at the task's
 * arguments before and after it. It takes the kernels' place in the table of the run, so
 * that others pay nothing, whichever way a kernel is started.
 */
#include <stdlib.h>
#include <string.h>

#include "sched/guarded.h"
#include "sim/sim.h"

static void run_guarded(int64_t *args);

int sim_guard_kernels(struct sim *m, struct orch_run *run)
{
    struct graph_kernel *guarded;

    m->guarded_kernels = run->kernels;
    if (!run->has_guards)
        return PTO_OK;
    guarded_withdraw(aptr_load_relaxed(&m->watches)); /* threads have come and gone by the lock */
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

/* If they cannot be moved they stay where they are. */
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
    free(m->guards);
    os_release(m->fence, 2 * os_page_bytes());
}

uint32_t sim_scalar_behind(const struct sim *m, uint64_t addr)
{
    uint64_t end = (uint64_t)(uintptr_t)m->fence + os_page_bytes();

    if (m->run.entry != &m->fenced || addr < end || addr >= end + os_page_bytes())
        return 0;
    return (uint32_t)((addr - end) / sizeof(uint64_t)) + 1;
}

/* As a kernel, on the thread and the core of the real one. */
static void run_guarded(int64_t *args)
{
    char *local = (char *)(uintptr_t)args[PTO_ARG_LOCAL];
    const struct core *core = (const void *)(local - offsetof(struct core, local));
    const struct pto_tensor *tensor = (const void *)(uintptr_t)args[0]; /* and others behind it */
    struct thread *th = core->owner;
    struct slot *s = core->slot;
    uint32_t kernel = (s->flags & SLOT_IS_TEAM) != 0 ? th->lane.kernel : s->kernel[0];
    struct sim *m = th->sim;
    const struct guarded_watch *first;
    uint32_t found;

    if (!guarded_begin(&m->sched, s, tensor, kernel))
        return;
    first =
        aptr_load_acquire(&m->watches); /* of sim_add_watch: threads that run kernels are there */
    found = guarded_enter(first, &th->watch, s, tensor);
    m->guarded_kernels[kernel].fn(args);
    first = aptr_load_acquire(&m->watches); /* the same; there may be more of them */
    guarded_leave(first, &th->watch, &m->sched, s, tensor, kernel, found);
}

/* Under the lock, before the thread is given anything. */
void sim_add_watch(struct sim *m, struct thread *th)
{
    th->watch.next = aptr_load_relaxed(&m->watches);  /* written under the lock */
    (void)aptr_swap_acq_rel(&m->watches, &th->watch); /* for run_guarded */
}

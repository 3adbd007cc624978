/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs with guards: every kernel is called through a function that looks at the task's
 * arguments before and after it. It takes the kernels' place in the table of the run, so
 * that others pay nothing, whichever way a kernel is started.
 */
#include <stdlib.h>
#include <string.h>

#include "graph/guards.h"
#include "sim/sim.h"

static void run_guarded(int64_t *args);

int sim_guard_kernels(struct sim *m, struct orch_run *run)
{
    struct graph_kernel *guarded;

    m->guarded_kernels = run->kernels;
    if (!run->has_guards)
        return PTO_OK;
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

static const struct pto_tensor *argument(const int64_t *args, uint32_t i)
{
    return (const struct pto_tensor *)(uintptr_t)args[i];
}

/* The first argument around which something was written; -1: none. */
static int32_t find_breach(const struct slot *s, const int64_t *args, struct guard_breach *out)
{
    for (uint32_t i = 0; i < s->tensor_count; i++)
        if (guards_find_breach(argument(args, i), out))
            return (int32_t)i;
    return -1;
}

static void fail(struct sim *m, const struct slot *s, struct failure why, uint32_t kernel)
{
    why.kernel = (int32_t)kernel;
    sched_fail_argument(&m->sched, s, &why);
}

/* What the kernel is about to read was written. */
static bool is_readable(struct sim *m, const struct slot *s, const int64_t *args, uint32_t kernel)
{
    for (uint32_t i = 0; i < s->tensor_count; i++) {
        struct failure why = orch_failure(PTO_EUNWRITTEN, FAULT_UNWRITTEN, NULL);

        if (!guards_is_unwritten(argument(args, i)))
            continue;
        why.argument = (int32_t)i;
        why.value[1] = pto_tensor_bytes(argument(args, i));
        fail(m, s, why, kernel);
        return false;
    }
    return true;
}

/* As a kernel, on the thread and the core of the real one. */
static void run_guarded(int64_t *args)
{
    char *local = (char *)(uintptr_t)args[PTO_ARG_LOCAL];
    const struct core *core = (const void *)(local - offsetof(struct core, local));
    struct thread *th = core->owner;
    struct slot *s = core->slot;
    uint32_t kernel = (s->flags & SLOT_IS_TEAM) != 0 ? th->lane.kernel : s->kernel[0];
    struct failure why = orch_failure(PTO_EOVERRUN, FAULT_OVERRUN, NULL);
    struct guard_breach breach;
    bool was_broken;

    if (!is_readable(th->sim, s, args, kernel))
        return;
    was_broken = find_breach(s, args, &breach) >= 0;
    th->sim->guarded_kernels[kernel].fn(args);
    why.argument = find_breach(s, args, &breach);
    if (why.argument < 0)
        return;
    why.value[0] = breach.bytes;
    why.value[1] = breach.size;
    why.value[3] = (breach.is_before ? OVERRUN_BEFORE : 0) | (breach.is_far ? OVERRUN_FAR : 0) |
                   (breach.is_at_edge ? 0 : OVERRUN_UNSURE) | (was_broken ? OVERRUN_EARLIER : 0) |
                   (slot_lane_count(s->lanes) > 1 ? OVERRUN_LANES : 0);
    fail(th->sim, s, why, kernel);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds kernels that do not return, and where in its code the first of them is. The thread of that
 * kernel is interrupted and collects only return addresses, because it may hold any lock; the
 * source lines are looked up after the run.
 */
#include <string.h>

#include "sim/sim.h"

static pthread_t stuck_handle(const struct sim *m, const struct thread *th)
{
    return th == &m->caller ? m->caller_handle : th->handle;
}

/* Returns the number of the core on which the thread runs a kernel. The lock is held. */
static uint32_t stuck_core_of(const struct sim *m, const struct thread *th)
{
    uint32_t type, index;

    if (th->lane.slot != NULL) {
        type = th->lane.type;
        index = th->lane.core;
    } else {
        type = th->core.slot->core_type;
        index = th->is_lost ? th->held_index : th->place->core_index[type];
    }
    return sim_core_number(m, type, index);
}

static bool stuck_is_inside(const struct thread *th)
{
    return a32_load_acquire(&th->core.exec) % 2 != 0; /* A7 */
}

void port_each_running(void *machine,
                       void (*each)(void *context, struct slot *slot, uint32_t core,
                                    uint32_t block),
                       void *context)
{
    struct sim *m = machine;

    pthread_mutex_lock(&m->lock);
    for (struct thread *th = &m->caller; th != NULL; th = th == &m->caller ? m->all : th->next)
        if (stuck_is_inside(th))
            each(context, th->core.slot, stuck_core_of(m, th),
                 (uint32_t)th->core.local.block_index);
    pthread_mutex_unlock(&m->lock);
}

/*
 * Whether the thread runs the invocation that the entry of the stall report describes. The lock is
 * held.
 */
static bool stuck_runs(const struct sim *m, const struct thread *th, const struct stall_task *task)
{
    uint32_t core = task->core + (task->is_aiv ? m->base.properties.clusters : 0);

    return stuck_is_inside(th) && th->core.slot->seq - 1 == task->index &&
           (uint32_t)th->core.local.block_index == task->block && stuck_core_of(m, th) == core;
}

void sim_ask_stuck(struct sim *m)
{
    const struct stall_task *task = &m->orch.stall.task[0];

    if (!m->has_handler || m->orch.stall.count == 0 || task->cause != STALL_RUNS ||
        m->stuck != NULL)
        return;
    pthread_mutex_lock(&m->lock);
    for (struct thread *th = &m->caller; th != NULL && m->stuck == NULL;
         th = th == &m->caller ? m->all : th->next)
        if (stuck_runs(m, th, task)) {
            m->stuck = th;
            m->crash_entry = (const void *)(uintptr_t)m->guarded_kernels[sim_kernel_of(th)].fn;
            crash_ask(&th->crash, stuck_handle(m, th));
        }
    pthread_mutex_unlock(&m->lock);
}

void sim_take_stuck(struct sim *m)
{
    uintptr_t frame[CRASH_FRAMES_MAX];
    uint32_t count;

    if (m->stuck == NULL)
        return;
    count = crash_answer(&m->stuck->crash, stuck_handle(m, m->stuck), frame);
    pthread_mutex_lock(&m->lock);
    /* keep the frames of another kernel that has crashed in the meantime */
    if (m->crash_count == 0) {
        m->crash_count = crash_skip_libraries(frame, count, m->crash_entry);
        memcpy(m->crash_frame, frame, sizeof(frame));
    }
    pthread_mutex_unlock(&m->lock);
}

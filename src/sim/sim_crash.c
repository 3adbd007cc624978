/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of the crash that ended a run, and told when it is over. */
#include <string.h>

#include "sim/sim.h"

/* Tensors as the kernel got them, not as its vector has them: that is the kernel's to write to. */
static void keep_arguments(struct sim *m, struct slot *s)
{
    struct backtrace *t = &m->result.trace;
    const struct pto_tensor *tensor =
        m->image != NULL ? (const void *)graph_slot(&m->graph, s->payload) : s->tensor;
    uint32_t tensors = s->tensor_count < BACKTRACE_ARGS ? s->tensor_count : BACKTRACE_ARGS;
    uint32_t scalars = s->scalar_count < BACKTRACE_ARGS ? s->scalar_count : BACKTRACE_ARGS;

    t->tensor_count = s->tensor_count;
    t->scalar_count = s->scalar_count;
    memcpy(t->tensor, tensor, tensors * sizeof(*tensor));
    if (s->scalar_count == 1)
        t->scalar[0] = s->scalar;
    else
        memcpy(t->scalar, &tensor[s->tensor_count], scalars * sizeof(t->scalar[0]));
}

void sim_keep_crash(struct sim *m, const struct thread *th, struct slot *s, uint32_t kernel)
{
    struct backtrace *t = &m->result.trace;

    pthread_mutex_lock(&m->lock);
    t->overflow_bytes = th->crash.overflow_bytes;
    keep_arguments(m, s);
    m->crash_count = th->crash.frame_count;
    memcpy(m->crash_frame, th->crash.frame, sizeof(m->crash_frame));
    m->crash_entry = (const void *)(uintptr_t)m->sched.kernels[kernel].fn;
    pthread_mutex_unlock(&m->lock);
}

/* The lock is not held meanwhile: looking lines up starts a program. */
void sim_tell_crash(struct sim *m)
{
    uintptr_t frame[CRASH_FRAMES_MAX];
    const void *entry;
    uint32_t count;

    pthread_mutex_lock(&m->lock);
    memcpy(frame, m->crash_frame, sizeof(frame));
    count = m->crash_count;
    entry = m->crash_entry;
    pthread_mutex_unlock(&m->lock);
    lines_find(frame, count, entry, &m->result.trace.lines);
}

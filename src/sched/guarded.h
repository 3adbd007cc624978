/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks before and after an invocation in a run with guards (graph/guards.h): whether its inputs
 * were written, and whether its kernel wrote only inside of its tensors. Called by the threads that
 * start kernels and by those that learn of their return. `tensor` points at the task's arguments as
 * the kernel gets them.
 */
#ifndef PTO_GUARDED_H
#define PTO_GUARDED_H

#include "sched/sched.h"

/* False: an input was never written. The run has failed, and the kernel must not be started. */
bool guarded_begin(struct sched *sched, const struct slot *s, const struct pto_tensor *tensor,
                   uint32_t kernel);

/*
 * Several invocations may be given the same tensor at the same time: lanes and blocks of one task,
 * and tasks that use parts of it. If an invocation finds a guard damaged at its start, another one
 * that found it intact and has not returned may have done it; that one reports it at its own end.
 * Each thread or core that runs kernels has a watch, which shows the tensors that its invocation
 * found intact.
 *
 * Ordering. The watch is shown before the kernel is called, and withdrawn after guarded_end; the
 * search begins after a guard was read. Both have a full fence in between. So an invocation that
 * sees what a kernel wrote into a guard also sees its watch; or the watch was withdrawn, and then
 * the run has failed by that kernel, and a later failure is ignored. `version` is odd while the
 * watch is shown; a reader that finds another version afterwards has read a mixture, of a watch
 * that was withdrawn.
 */
struct guarded_watch {
    /* next in the list of all watches of the machine; set before a kernel runs */
    struct guarded_watch *next;
    struct a32 version;
    struct a32 seq; /* number of the task whose invocation the watch shows */
    struct a32 count;
    struct a64 addr[PTO_TASK_TENSORS_MAX];
};

/*
 * Stored in the part of the argument vector that the task does not use, which may still have values
 * of an earlier task. As a float and as a double it is NaN, as a pointer it is invalid, as an
 * integer it is large.
 */
#define GUARDED_NO_ARGUMENT 0x7ffca5a57fe5a5a5

static inline void guarded_poison_unused(int64_t *args, const struct slot *s)
{
    for (uint32_t i = s->tensor_count + s->scalar_count; i < PTO_ARG_LOCAL; i++)
        args[i] = GUARDED_NO_ARGUMENT; /* mutation: stale-slots */
}

/* What guarded_enter found out about an invocation's tensors; bits. */
enum guarded_found {
    GUARDED_EARLIER = 1, /* a guard was damaged before the kernel started, by an unknown kernel */
    /* a guard was damaged before; an invocation that is still running will report it */
    GUARDED_LEFT = 2,
    /* set by guarded_leave: another task that uses the same tensor is running */
    GUARDED_CONCURRENT = 4
};

/*
 * Called before the kernel starts. Shows its tensors on the thread's own watch; if one is already
 * damaged, returns how. `first` is the list of all watches. Returns enum guarded_found.
 */
uint32_t guarded_enter(const struct guarded_watch *first, struct guarded_watch *own,
                       const struct slot *s, const struct pto_tensor *tensor);
/*
 * Called when the kernel has returned; `found` is the result of guarded_enter. Fails the run if a
 * guard around its arguments is damaged, and withdraws the watch.
 */
void guarded_leave(const struct guarded_watch *first, struct guarded_watch *own,
                   struct sched *sched, const struct slot *s, const struct pto_tensor *tensor,
                   uint32_t kernel, uint32_t found);
/*
 * Called before a run, while nothing runs: withdraws watches that kernels left behind when they
 * crashed.
 */
void guarded_withdraw(struct guarded_watch *first);

#endif

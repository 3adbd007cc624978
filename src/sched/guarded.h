/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is looked at around an invocation in a run with guards (graph/guards.h): whether its inputs
 * were written, and whether its kernel left its tensors. By whoever starts kernels and takes
 * them back; `tensor` are the task's arguments, as the kernel gets them.
 */
#ifndef PTO_GUARDED_H
#define PTO_GUARDED_H

#include "sched/sched.h"

/* False: an input was never written. The run has failed, and the kernel is not to be started. */
bool guarded_begin(struct sched *sched, const struct slot *s, const struct pto_tensor *tensor,
                   uint32_t kernel);

/*
 * Several invocations may be given the same tensor at the same time: lanes and blocks of one task, and
 * tasks that use parts of it. What one finds broken at its start may be the work of another one that
 * found it intact and has not returned; that one reports it at its own end. Each thread or core that
 * runs kernels has a watch, where it shows which tensors its invocation found intact.
 *
 * Ordering. The watch is shown before the kernel is called, and withdrawn after guarded_end; the
 * search begins after a guard was read. Both have a full fence in between. So an invocation that sees
 * what a kernel wrote into a guard also sees its watch; or the watch was withdrawn, and then the run has
 * failed by that kernel, and a later failure counts for nothing. `version` is odd while the watch is
 * shown; a reader that finds another one afterwards has read a mixture, of a watch that was withdrawn.
 */
struct guarded_watch {
    struct guarded_watch *next; /* of the same machine; set before a kernel runs on it */
    struct a32 version;
    struct a32 seq; /* of the task */
    struct a32 count;
    struct a64 addr[PTO_TASK_TENSORS_MAX];
};

/* What is known of the tensors of an invocation; bits. */
enum guarded_found {
    GUARDED_EARLIER = 1, /* broken before its kernel started, by none that is known */
    GUARDED_LEFT = 2,  /* broken before, and another invocation that has not returned reports it */
    GUARDED_BESIDE = 4 /* another task that was given the same tensor runs */
};

/*
 * Before the kernel starts: shows what it was given on its watch, or says in what way that is
 * broken already. `first` is the list of all watches. Returns enum guarded_found.
 */
uint32_t guarded_enter(const struct guarded_watch *first, struct guarded_watch *own,
                       const struct slot *s, const struct pto_tensor *tensor);
/*
 * The kernel has returned; `found` is what guarded_enter said. Fails the run if something around its
 * arguments is broken, and withdraws the watch.
 */
void guarded_leave(const struct guarded_watch *first, struct guarded_watch *own,
                   struct sched *sched, const struct slot *s, const struct pto_tensor *tensor,
                   uint32_t kernel, uint32_t found);
/* Before a run: of kernels that crashed. Nothing runs. */
void guarded_withdraw(struct guarded_watch *first);

#endif

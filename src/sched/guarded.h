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
/* Whether something around its arguments is broken already. */
bool guarded_is_broken(const struct slot *s, const struct pto_tensor *tensor);
/* The kernel has returned. Fails the run if something around its arguments is broken. */
void guarded_end(struct sched *sched, const struct slot *s, const struct pto_tensor *tensor,
                 uint32_t kernel, bool was_broken);

#endif

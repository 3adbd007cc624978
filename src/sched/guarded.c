/* SPDX-License-Identifier: Apache-2.0 */
/* Guards around an invocation, and how a run fails by them. */
#include "sched/guarded.h"

#include "graph/guards.h"

/* About an argument of the task, to be filled. */
static struct failure failure_of(int status, enum fault fault, uint32_t argument, uint32_t kernel)
{
    return (struct failure){
        .status = status, .fault = fault, .argument = (int32_t)argument, .kernel = (int32_t)kernel
    };
}

bool guarded_begin(struct sched *sched, const struct slot *s, const struct pto_tensor *tensor,
                   uint32_t kernel)
{
    for (uint32_t i = 0; i < s->tensor_count; i++) {
        struct failure why = failure_of(PTO_EUNWRITTEN, FAULT_UNWRITTEN, i, kernel);

        if (!guards_is_unwritten(&tensor[i]))
            continue;
        why.value[1] = pto_tensor_bytes(&tensor[i]);
        sched_fail_argument(sched, s, &why);
        return false;
    }
    return true;
}

/* The first argument around which something was written; their count: none. */
static uint32_t find_breach(const struct slot *s, const struct pto_tensor *tensor,
                            struct guard_breach *out)
{
    uint32_t i = 0;

    while (i < s->tensor_count && !guards_find_breach(&tensor[i], out))
        i++;
    return i;
}

bool guarded_is_broken(const struct slot *s, const struct pto_tensor *tensor)
{
    struct guard_breach breach;

    return find_breach(s, tensor, &breach) < s->tensor_count;
}

void guarded_end(struct sched *sched, const struct slot *s, const struct pto_tensor *tensor,
                 uint32_t kernel, bool was_broken)
{
    struct guard_breach breach;
    uint32_t argument = find_breach(s, tensor, &breach);
    struct failure why = failure_of(PTO_EOVERRUN, FAULT_OVERRUN, argument, kernel);

    if (argument == s->tensor_count)
        return;
    why.value[0] = breach.bytes;
    why.value[1] = breach.size;
    why.value[3] = (breach.is_before ? OVERRUN_BEFORE : 0) | (breach.is_far ? OVERRUN_FAR : 0) |
                   (breach.is_at_edge ? 0 : OVERRUN_UNSURE) | (was_broken ? OVERRUN_EARLIER : 0) |
                   (slot_lane_count(s->lanes) > 1 ? OVERRUN_LANES : 0);
    sched_fail_argument(sched, s, &why);
}

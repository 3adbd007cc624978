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
static uint32_t guarded_find_breach(const struct slot *s, const struct pto_tensor *tensor,
                                    struct guard_breach *out)
{
    uint32_t i = 0;

    while (i < s->tensor_count && !guards_find_breach(&tensor[i], out))
        i++;
    return i;
}

/* ---- watches ---- */

static void show_watch(struct guarded_watch *w, const struct slot *s,
                       const struct pto_tensor *tensor)
{
    uint32_t version = a32_load_relaxed(&w->version); /* own word */

    a32_store_relaxed(&w->seq, s->seq); /* published by the version */
    a32_store_relaxed(&w->count, s->tensor_count);
    for (uint32_t i = 0; i < s->tensor_count; i++)
        a64_store_relaxed(&w->addr[i], tensor[i].addr);
    a32_store_release(&w->version, version + 1); /* for is_watched */
    fence_full();                                /* before the kernel's own writes */
}

static void withdraw_watch(struct guarded_watch *w)
{
    uint32_t version = a32_load_relaxed(&w->version); /* own word */

    if (version % 2 != 0)
        a32_store_release(&w->version, version + 1); /* the run has failed before, if it does */
}

void guarded_withdraw(struct guarded_watch *first)
{
    for (struct guarded_watch *w = first; w != NULL; w = w->next)
        withdraw_watch(w);
}

/* Whether the tensor at this address is on the watch; *seq_out is of which task. */
static bool is_watched(const struct guarded_watch *w, uint64_t addr, uint32_t *seq_out)
{
    uint32_t version = a32_load_acquire(&w->version); /* of show_watch and withdraw_watch */
    bool is_there = false;
    uint32_t count;

    if (version % 2 == 0)
        return false;
    *seq_out = a32_load_relaxed(&w->seq); /* the version is compared below */
    count = a32_load_relaxed(&w->count);  /* the same */
    for (uint32_t i = 0; i < count && !is_there; i++)
        is_there = a64_load_relaxed(&w->addr[i]) == addr; /* the same */
    fence_full();
    return is_there && a32_load_relaxed(&w->version) == version;
}

/* Of other invocations that found the tensor intact and have not returned, whether there are any. */
static bool is_given(const struct guarded_watch *first, const struct guarded_watch *own,
                     uint64_t addr, uint32_t but_seq)
{
    uint32_t seq;

    fence_full(); /* after a guard was read */
    for (const struct guarded_watch *w = first; w != NULL; w = w->next)
        if (w != own && is_watched(w, addr, &seq) && seq != but_seq)
            return true;
    return false;
}

/* ---- around a kernel ---- */

uint32_t guarded_enter(const struct guarded_watch *first, struct guarded_watch *own,
                       const struct slot *s, const struct pto_tensor *tensor)
{
    struct guard_breach breach;
    uint32_t argument = guarded_find_breach(s, tensor, &breach);

    if (argument == s->tensor_count) {
        show_watch(own, s, tensor);
        return 0;
    }
    return is_given(first, own, tensor[argument].addr, 0) ? GUARDED_LEFT : GUARDED_EARLIER;
}

static void fail_for_breach(struct sched *sched, const struct slot *s, uint32_t argument,
                            const struct guard_breach *breach, uint32_t kernel, uint32_t found)
{
    struct failure why = failure_of(PTO_EOVERRUN, FAULT_OVERRUN, argument, kernel);

    why.value[0] = breach->bytes;
    why.value[1] = breach->size;
    why.value[3] = (breach->is_before ? OVERRUN_BEFORE : 0) | (breach->is_far ? OVERRUN_FAR : 0) |
                   (breach->is_at_edge ? 0 : OVERRUN_UNSURE) |
                   ((found & GUARDED_EARLIER) != 0 ? OVERRUN_EARLIER : 0) |
                   ((found & GUARDED_BESIDE) != 0 ? OVERRUN_BESIDE : 0) |
                   (slot_lane_count(s->lanes) > 1 ? OVERRUN_LANES : 0);
    sched_fail_argument(sched, s, &why);
}

void guarded_leave(const struct guarded_watch *first, struct guarded_watch *own,
                   struct sched *sched, const struct slot *s, const struct pto_tensor *tensor,
                   uint32_t kernel, uint32_t found)
{
    struct guard_breach breach;
    uint32_t argument = guarded_find_breach(s, tensor, &breach);

    if (argument < s->tensor_count && (found & GUARDED_LEFT) == 0) {
        if (is_given(first, own, tensor[argument].addr, s->seq))
            found |= GUARDED_BESIDE;
        fail_for_breach(sched, s, argument, &breach, kernel, found);
    }
    withdraw_watch(own);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Checks guards around an invocation, and fails the run if one is damaged. */
#include "sched/guarded.h"

#include "graph/guards.h"

/* Makes a failure that names an argument of the task; the caller fills the other fields. */
static struct failure failure_of(int status, enum failure_kind fault, uint32_t argument,
                                 uint32_t kernel)
{
    return (struct failure){
        .status = status, .kind = fault, .argument = (int32_t)argument, .kernel = (int32_t)kernel
    };
}

bool guarded_begin(struct sched *sched, const struct slot *s, const struct pto_tensor *tensor,
                   uint32_t kernel)
{
    for (uint32_t i = 0; i < s->tensor_count; i++) {
        struct failure why = failure_of(PTO_EUNWRITTEN, FAILURE_UNWRITTEN, i, kernel);

        if (!guards_is_unwritten(&tensor[i]))
            continue;
        why.value[1] = pto_tensor_bytes(&tensor[i]);
        sched_fail_argument(sched, s, &why);
        return false;
    }
    return true;
}

/* Index of the first argument whose guards were overwritten; tensor_count: none. */
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
    uint32_t version = a32_load_relaxed(&w->version); /* relaxed: only this thread writes it */

    /* relaxed: the release of `version` below publishes all fields */
    a32_store_relaxed(&w->seq, s->seq);
    a32_store_relaxed(&w->count, s->tensor_count);
    for (uint32_t i = 0; i < s->tensor_count; i++)
        a64_store_relaxed(&w->addr[i], tensor[i].addr);
    a32_store_release(&w->version, version + 1); /* pairs with is_watched */
    fence_full(); /* the watch is visible before anything that the kernel writes */
}

static void withdraw_watch(struct guarded_watch *w)
{
    uint32_t version = a32_load_relaxed(&w->version); /* relaxed: only this thread writes it */

    if (version % 2 != 0)
        /* a run that fails because of this kernel has failed before the watch is withdrawn */
        a32_store_release(&w->version, version + 1);
}

void guarded_withdraw(struct guarded_watch *first)
{
    for (struct guarded_watch *w = first; w != NULL; w = w->next)
        withdraw_watch(w);
}

/*
 * Whether this watch shows the tensor at the address; *seq_out is the number of the task that uses
 * it.
 */
static bool is_watched(const struct guarded_watch *w, uint64_t addr, uint32_t *seq_out)
{
    uint32_t version = a32_load_acquire(&w->version); /* pairs with show_watch and withdraw_watch */
    bool is_there = false;
    uint32_t count;

    if (version % 2 == 0)
        return false;
    /* relaxed: discarded unless the version is unchanged below */
    *seq_out = a32_load_relaxed(&w->seq);
    /* relaxed: discarded unless the version is unchanged below */
    count = a32_load_relaxed(&w->count);
    for (uint32_t i = 0; i < count && !is_there; i++)
        /* relaxed: discarded unless the version is unchanged below */
        is_there = a64_load_relaxed(&w->addr[i]) == addr;
    fence_full();
    return is_there && a32_load_relaxed(&w->version) == version;
}

/*
 * Whether an invocation of another task than `but_seq` found the tensor at this address undamaged
 * and has not returned yet.
 */
static bool is_given(const struct guarded_watch *first, const struct guarded_watch *own,
                     uint64_t addr, uint32_t but_seq)
{
    uint32_t seq;

    fence_full(); /* guards are read before watches */
    for (const struct guarded_watch *w = first; w != NULL; w = w->next)
        if (w != own && is_watched(w, addr, &seq) && seq != but_seq)
            return true;
    return false;
}

/* ---- before and after a kernel ---- */

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
    struct failure why = failure_of(PTO_EOVERRUN, FAILURE_OVERRUN, argument, kernel);

    why.value[0] = breach->bytes;
    why.value[1] = breach->size;
    why.value[3] = (breach->is_before ? OVERRUN_BEFORE : 0) | (breach->is_far ? OVERRUN_FAR : 0) |
                   (breach->is_at_edge ? 0 : OVERRUN_UNSURE) |
                   ((found & GUARDED_EARLIER) != 0 ? OVERRUN_EARLIER : 0) |
                   ((found & GUARDED_CONCURRENT) != 0 ? OVERRUN_CONCURRENT : 0) |
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
            found |= GUARDED_CONCURRENT;
        fail_for_breach(sched, s, argument, &breach, kernel, found);
    }
    withdraw_watch(own);
}

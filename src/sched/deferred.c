/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deferred completion: the kernels of these tasks have returned, but the tasks complete only when
 * conditions hold. Another task, a transfer or another process may make a condition true without
 * notifying the scheduler, so the table is polled; the machine decides how often. A thread holds
 * the table's lock during one pass over it.
 */
#include "sched/sched.h"

static bool try_lock_deferred(struct deferred *d)
{
    uint32_t is_free = 0;

    return a32_load_relaxed(&d->lock) == 0 && a32_cas_acq_rel(&d->lock, &is_free, 1); /* A18 */
}

static void unlock_deferred(struct deferred *d)
{
    a32_store_release(&d->lock, 0); /* R18 */
}

static struct deferred_task *deferred_find_task(struct deferred *d, const struct slot *slot)
{
    uint32_t count = a32_load_relaxed(&d->count); /* read under the lock */

    port_check(a32_load_relaxed(&d->lock) != 0 && count <= PTO_DEFERRED_MAX);
    for (uint32_t i = 0; i < count; i++)
        if (d->task[i].slot == slot)
            return &d->task[i];
    return count < PTO_DEFERRED_MAX ? &d->task[count] : NULL;
}

/*
 * Adds the conditions that an invocation registered. The caller holds the lock. Returns the status
 * that ends the run, or PTO_OK; *bad_out: the address that is not mapped.
 */
static int add_conditions(struct deferred *d, struct slot *slot, const struct core_slab *slab,
                          uint64_t *bad_out)
{
    struct deferred_task *t = deferred_find_task(d, slot);
    uint32_t count = a32_load_relaxed(&d->count); /* read under the lock */
    bool is_new = t == &d->task[count];

    if (t == NULL)
        return PTO_EWAIT_OVERFLOW;
    if (is_new) {
        t->slot = slot;
        t->count = 0;
    }
    for (uint32_t i = 0; i < slab->count; i++) {
        const struct pto_completion *c = &slab->entry[i];

        if (c->type != PTO_COMPLETION_COUNTER || c->addr == 0 || c->addr % 4 != 0)
            return PTO_ECOMPLETION;
        if (!port_can_read(c->addr, sizeof(uint32_t))) {
            *bad_out = c->addr;
            return PTO_ECOMPLETION;
        }
        if (t->count == PTO_COMPLETIONS_MAX)
            return PTO_EREGISTRATION;
        t->condition[t->count].addr = c->addr;
        t->condition[t->count++].expected = c->expected;
    }
    if (is_new) {
        if ((slot->flags & SLOT_IS_COUNTED) != 0)
            /* until it is removed, the entry counts as one more invocation of the task */
            a32_add_relaxed(&slot->block_left, 1);
        a32_store_relaxed(&d->count, count + 1);
    }
    return PTO_OK;
}

bool sched_defer(struct sched *s, struct slot *slot, struct core_slab *slab)
{
    struct deferred *d = &s->deferred;
    int status = slab->error < 0 ? slab->error : -slab->error;
    uint64_t bad = 0;

    if (status == PTO_OK && slab->count > PTO_COMPLETIONS_MAX)
        status = PTO_EWAIT_OVERFLOW;
    if (status == PTO_OK) {
        while (!try_lock_deferred(d))
            port_relax();
        status = add_conditions(d, slot, slab, &bad);
        unlock_deferred(d);
    }
    slab->count = 0;
    slab->error = 0;
    if (status == PTO_OK) {
        sched_signal(s); /* wakes a thread that sleeps without polling the table */
        return true;
    }
    sched_fail_at(s, slot, status, bad);
    return false;
}

/*
 * Drops the conditions that hold. True: no condition is left, or a condition's memory can no longer
 * be read.
 */
static bool deferred_holds(struct sched *s, struct deferred_task *t)
{
    for (uint32_t i = 0; i < t->count;) {
        uint64_t addr = t->condition[i].addr;
        const struct a32 *word = (const struct a32 *)(uintptr_t)addr;

        if (!port_can_read(addr, sizeof(*word))) {
            sched_fail_at(s, t->slot, PTO_ECOMPLETION, addr);
            return true;
        }
        if (a32_load_acquire(word) >= t->condition[i].expected) /* A19 */
            t->condition[i] = t->condition[--t->count];
        else
            i++;
    }
    return t->count == 0; /* mutation: deferred-any */
}

uint32_t sched_poll(struct sched *s, struct graph *g)
{
    struct deferred *d = &s->deferred;
    struct slot *over[PTO_DEFERRED_MAX];
    uint32_t over_count = 0;
    uint32_t count;

    if (!sched_has_deferred(s) || !try_lock_deferred(d))
        return 0;
    count = a32_load_relaxed(&d->count); /* read under the lock */
    for (uint32_t i = 0; i < count;) {
        if (deferred_holds(s, &d->task[i]) || sched_is_stopped(s)) {
            over[over_count++] = d->task[i].slot;
            d->task[i] = d->task[--count];
        } else {
            i++;
        }
    }
    a32_store_relaxed(&d->count, count);
    unlock_deferred(d);
    for (uint32_t i = 0; i < over_count; i++) {
        if ((over[i]->flags & SLOT_IS_COUNTED) != 0)
            sched_blocks_over(s, g, over[i], 1);
        else
            sched_finished(s, g, over[i]);
    }
    return over_count;
}

void sched_each_deferred(struct sched *s,
                         void (*each)(void *context, struct slot *slot, uint64_t addr,
                                      uint32_t value, uint32_t expected),
                         void *context)
{
    struct deferred *d = &s->deferred;
    uint32_t count;

    while (!try_lock_deferred(d))
        port_relax();
    count = a32_load_relaxed(&d->count); /* read under the lock */
    for (uint32_t i = 0; i < count; i++) {
        struct deferred_task *t = &d->task[i];

        for (uint32_t k = 0; k < t->count; k++) {
            const struct a32 *word = (const struct a32 *)(uintptr_t)t->condition[k].addr;

            if (!port_can_read(t->condition[k].addr, sizeof(*word)))
                continue; /* sched_poll finds the unreadable address and fails the run */
            /* relaxed: the value is only shown in a report */
            each(context, t->slot, t->condition[k].addr, a32_load_relaxed(word),
                 t->condition[k].expected);
        }
    }
    unlock_deferred(d);
}

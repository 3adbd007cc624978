/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failures of a run: keeps the first one and stops further kernels. Also the times of timing slots.
 */
#include <string.h>

#include "sched/sched.h"

static bool latch_fault(struct sched *s, const struct slot *slot, int status)
{
    uint32_t none = 0;

    /* relaxed: publishes nothing; the release of is_whole does */
    if (!a32_cas_relaxed(&s->fault.status, &none, (uint32_t)status))
        return false;
    atomic_note_write(&s->fault.seq);
    s->fault.seq = slot->seq;
    s->fault.kernel = slot_kernel(slot, slot_first_lane(slot->lanes));
    s->fault.site = slot->site;
    s->fault.task = slot_id(slot);
    s->fault.signal = 0;
    s->fault.kind = FAILURE_NONE;
    return true;
}

static void stop_for_fault(struct sched *s)
{
    a32_store_release(&s->fault.is_whole, 1); /* R21 */
    sched_attend(s, ATTEND_FAILED, 0);
}

void sched_fail(struct sched *s, const struct slot *slot, int status)
{
    sched_fail_at(s, slot, status, 0);
}

void sched_fail_at(struct sched *s, const struct slot *slot, int status, uint64_t addr)
{
    if (!latch_fault(s, slot, status))
        return;
    s->fault.addr = addr;
    stop_for_fault(s);
}

void sched_fail_argument(struct sched *s, const struct slot *slot, const struct failure *why)
{
    if (!latch_fault(s, slot, why->status))
        return;
    s->fault.kernel = (uint32_t)why->kernel;
    s->fault.kind = why->kind;
    s->fault.argument = why->argument;
    s->fault.addr = why->value[0];
    s->fault.value[0] = why->value[1];
    s->fault.value[1] = why->value[3];
    stop_for_fault(s);
}

void sched_threw(struct sched *s, const struct slot *slot, const struct failure *why)
{
    if (!latch_fault(s, slot, why->status))
        return;
    s->fault.kernel = (uint32_t)why->kernel;
    s->fault.kind = why->kind;
    s->fault.argument = -1;
    s->fault.addr = 0;
    s->fault.value[0] = why->value[1];
    s->fault.value[1] = why->value[3];
    memcpy(s->fault.text, why->text, sizeof(s->fault.text));
    stop_for_fault(s);
}

bool sched_crashed(struct sched *s, const struct slot *slot, int signal, uint64_t addr,
                   uint32_t block, uint32_t lane)
{
    if (!latch_fault(s, slot, PTO_ECRASH))
        return false;
    s->fault.kernel = slot_kernel(slot, lane);
    s->fault.signal = signal;
    s->fault.addr = addr;
    s->fault.block = block;
    s->fault.lane = lane;
    stop_for_fault(s);
    return true;
}

/* ---- timing slots: rarely used, so all workers write the same words ---- */

void sched_time_begin(struct sched *s, const struct slot *slot)
{
    struct a64 *word = &s->timing[slot->timing_slot].begin;
    uint64_t now = port_cycles();
    uint64_t old = a64_load_relaxed(word);

    /* relaxed: read only after the run */
    while ((old == 0 || now < old) && !a64_cas_relaxed(word, &old, now)) {
    }
}

void sched_time_end(struct sched *s, const struct slot *slot)
{
    struct a64 *word = &s->timing[slot->timing_slot].end;
    uint64_t now = port_cycles();
    uint64_t old = a64_load_relaxed(word);

    while (now > old && !a64_cas_relaxed(word, &old, now)) { /* relaxed: read only after the run */
    }
}

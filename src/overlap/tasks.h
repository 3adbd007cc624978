/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks as the index of regions sees them: a slot, and the number of the task that has it. The
 * graph writes these entries; the index reads `seq` to find out whether a task is live.
 */
#ifndef PTO_TASKS_H
#define PTO_TASKS_H

#include "wire/slot.h"

/* Names a task by slot and number. The task has completed if its slot has another number. */
struct ref {
    uint32_t slot; /* index of the slot; in vectors of the index the top bits are flags */
    uint32_t seq;
};

/* The submitter's copy of the properties of slots that it reads most often. */
struct slot_info {
    uint32_t seq;  /* number of the task that has the slot; 0: free */
    uint32_t line; /* position of the slot, in lines from the start of the pool */
    uint32_t next; /* next in the free list of its size class */
    uint8_t size_class;
    uint8_t stall_cause; /* enum stall_cause, while a stall is described */
    /* edges or retained buffers are in chunks; always true for slot 0, which no task gets */
    bool is_spilled;
};

static inline struct ref slot_ref(const struct slot *s)
{
    return (struct ref){ s->number, s->seq };
}

#endif

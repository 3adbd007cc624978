/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks as the index of regions knows them: a slot, and the number of the task that has it.
 * The graph writes the entries of slots, the index reads `seq` to find out who is alive.
 */
#ifndef PTO_TASKS_H
#define PTO_TASKS_H

#include "wire/slot.h"

/* A task by slot and sequence number: gone when the slot has another number. */
struct ref {
    uint32_t slot; /* in vectors of the index the top bits are flags */
    uint32_t seq;
};

/* The submitter's own copy of what it asks about slots most often. */
struct slot_info {
    uint32_t seq;  /* of the task that has the slot; 0: free */
    uint32_t line; /* where the slot is, in lines from the pool's base */
    uint32_t next; /* free list of its class */
    uint8_t size_class;
    uint8_t stall_cause; /* enum stall_cause, while a stall is described */
    bool is_spilled; /* has edges or retained buffers in chunks; slot 0, which nobody takes: true */
};

static inline struct ref slot_ref(const struct slot *s)
{
    return (struct ref){ s->number, s->seq };
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs that wait for their turn and have a deadline for that: the earliest comes first. A pairing
 * heap that is linked through the runs, so that nothing is allocated, and what a run costs hardly
 * depends on how many wait. The device's lock is held.
 */
#ifndef PTO_DUE_H
#define PTO_DUE_H

struct run;

struct due_link {
    struct run *child;  /* the first of those that are due later */
    struct run *next;   /* of the same parent */
    struct run *before; /* the one before it there, or the parent */
};

/* *first is the earliest; NULL: none. Its launch_deadline_ns must not change meanwhile. */
void due_add(struct run **first, struct run *run);
void due_remove(struct run **first, struct run *run);

#endif
